#!/usr/bin/python3
"""Unmodified clients on tables that plain CREATE TABLE made under
mosql_fdw.default_server: pgbench, all its initialisation steps and built-in scripts;
sysbench; Django; SQLAlchemy and Alembic; psql's \\d and its completion of names;
pg_dump and pg_restore -j, into an empty namespace and into the one it was made from.

    t/clients.py [PART]..."""
import os
import pty
import re
import select
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

SECONDS = "1"
TABLES = ["pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers"]


def client(server, program, *args, db="postgres", timeout=600):
    """Run a program of PostgreSQL's; its output, with stderr."""
    env = {**os.environ, "PGHOST": server.args["host"], "PGPORT": server.args["port"],
           "PGUSER": "postgres", "PGDATABASE": db}
    done = subprocess.run([program, *args], env=env, timeout=timeout, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"{program} {' '.join(args)}: {done.stdout}")
    return done.stdout


def query(server, sql, db="postgres"):
    with contextlib.closing(server.connect(dbname=db)) as conn, conn.cursor() as cur:
        cur.execute(sql)
        return cur.fetchall() if cur.description else None


def database(server, db, cluster, namespace, enable=True):
    query(server, f"CREATE DATABASE {db}")
    query(server, "CREATE EXTENSION mosql_fdw", db)
    query(server, f"""CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw
                      OPTIONS (nodes '{cluster.nodes}', namespace '{namespace}')""", db)
    if enable:
        query(server, "SELECT mosql_fdw_enable('redis')", db)


def check(server, db):
    """No table is local, none is damaged."""
    kinds = query(server, """SELECT relname, ftrelid IS NOT NULL FROM pg_class LEFT JOIN pg_foreign_table ON ftrelid = oid
                             WHERE relname LIKE 'pgbench%' AND relkind IN ('r', 'f') ORDER BY 1""", db)
    tap.ok(kinds == [(t, True) for t in TABLES], f"{db}: all tables are foreign", kinds)
    wrong = query(server, """SELECT t.ftrelid::regclass::text, c.* FROM pg_foreign_table t,
                             mosql_fdw_check(t.ftrelid) c WHERE severity = 'broken'""", db)
    tap.ok(not wrong, f"{db}: the trees are sound", wrong)


def sums(server, db):
    """TPC-B's invariant: all four say the same."""
    return query(server, """SELECT (SELECT sum(abalance) FROM pgbench_accounts),
        (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches),
        (SELECT coalesce(sum(delta), 0) FROM pgbench_history)""", db)[0]


def run_pgbench(server, script, mode, vacuum=False):
    said = client(server, "pgbench", *([] if vacuum else ["-n"]), "-b", script, "-M", mode, "-c", "4", "-j", "2", "-T", SECONDS,
                  "--max-tries=20", db="bench")
    done = int(re.search(r"number of transactions actually processed: (\d+)", said)[1])
    failed = int(re.search(r"number of failed transactions: (\d+)", said)[1])
    tap.ok(done > 0 and failed == 0 and "WARNING" not in said,
           f"pgbench -b {script} -M {mode}: {done} transactions", said)


def pgbench(server, cluster):
    database(server, "bench", cluster, "bench")
    for steps in ("dtgvp", "dtGvpf"):
        said = client(server, "pgbench", "-i", "-s", "1", "-I", steps, db="bench")
        rows = query(server, "SELECT count(*), count(DISTINCT aid), min(aid) FROM pgbench_accounts", "bench")
        tap.ok(rows == [(100000, 100000, 1)], f"pgbench -i -I {steps}", [said, rows])
        check(server, "bench")
    for mode in ("simple", "extended", "prepared"):
        run_pgbench(server, "tpcb-like", mode, vacuum=mode == "simple")
        if mode == "prepared":
            tap.ok(len(set(sums(server, "bench"))) == 1, "TPC-B: the sums agree",
                   sums(server, "bench"))
        run_pgbench(server, "select-only", mode)
    for mode in ("simple", "extended", "prepared"):
        run_pgbench(server, "simple-update", mode)
    check(server, "bench")


# ---- psql ----

class Terminal:
    """An interactive psql."""

    def __init__(self, server, db):
        env = {**os.environ, "PGHOST": server.args["host"], "PGPORT": server.args["port"], "PGUSER": "postgres",
               "PGDATABASE": db, "TERM": "dumb", "PAGER": "", "HISTFILE": os.devnull, "INPUTRC": os.devnull}
        master, slave = pty.openpty()
        self.fd = master
        self.process = subprocess.Popen(["psql", "-X", "--no-psqlrc"], env=env, stdin=slave, stdout=slave,
                                        stderr=slave, close_fds=True, start_new_session=True)
        os.close(slave)
        self.read("=# ")

    def read(self, until, seconds=LONG_WAIT):
        """What it writes until that is in it, or for so long."""
        said, end = "", time.monotonic() + seconds
        while until not in said and time.monotonic() < end:
            if select.select([self.fd], [], [], 0.2)[0]:
                said += re.sub("[\x00-\x1f]", "", os.read(self.fd, 65536).decode())
        return said

    def complete(self, typed, completed):
        """Does TAB make of what was typed what is wanted?  The line is given up then."""
        os.write(self.fd, (typed + "\t").encode())
        said = self.read(completed)
        os.write(self.fd, b"\x15\n")       # kill the line
        self.read("=# ")
        return completed in said, said

    def close(self):
        os.write(self.fd, b"\\q\n")
        self.process.wait(60)
        os.close(self.fd)


PSQL_DDL = """
CREATE TABLE reader (id serial PRIMARY KEY, mail text NOT NULL UNIQUE, since date DEFAULT current_date CHECK (since > '2000-01-01'));
CREATE TABLE loan (reader int REFERENCES reader ON DELETE CASCADE, item int, back boolean, PRIMARY KEY (reader, item));
CREATE INDEX loan_out ON loan (item) WHERE NOT back;
COMMENT ON TABLE loan IS 'who has what';
"""
# what is typed, and what it becomes by TAB
COMPLETED = [("SELECT * FROM rea", "reader"), ("INSERT INTO loa", "loan "), ("UPDATE rea", "reader "),
             ("DELETE FROM loa", "loan "), ("SELECT * FROM reader WHERE ma", "mail"), ("\\d loan_o", "loan_out"),
             ("DROP INDEX loan_o", "loan_out"), ("ALTER SEQUENCE reader_i", "reader_id_seq"), ("TRUNCATE loa", "loan")]
# with mosql_fdw.present_as_table
COMPLETED_AS_TABLE = [("DROP TABLE rea", "reader"), ("ALTER TABLE loa", "loan "), ("CREATE INDEX ON loa", "loan "),
                      ("LOCK TABLE rea", "reader")]


def psql(server, cluster):
    database(server, "psql", cluster, "psql")
    query(server, "ALTER DATABASE psql SET mosql_fdw.present_as_table = off", "psql")
    query(server, PSQL_DDL, "psql")
    said = client(server, "psql", "-X", "-c", "\\d reader", "-c", "\\d+ loan", db="psql")
    for wanted in ('"reader_pkey" PRIMARY KEY, mosql (id)', '"reader_mail_key" UNIQUE CONSTRAINT, mosql (mail)',
                   "nextval('reader_id_seq'::regclass)", '"reader_since_check" CHECK (since > \'2000-01-01\'::date)',
                   'TABLE "loan" CONSTRAINT "loan_reader_fkey" FOREIGN KEY (reader) REFERENCES reader(id) ON DELETE CASCADE',
                   '"loan_pkey" PRIMARY KEY, mosql (reader, item)', '"loan_out" mosql (item) WHERE NOT back'):
        tap.ok(wanted in said, f"psql: \\d says {wanted}", said)
    listed = client(server, "psql", "-X", "-At", "-c", "\\d", "-c", "\\di+", "-c", "\\dt+", "-c", "\\dE", db="psql")
    tap.ok(all(n in listed for n in ("reader|foreign table", "loan_out|index", "reader_id_seq|sequence")),
           "psql: \\d, \\di+ and \\dE list them", listed)
    query(server, "ALTER DATABASE psql SET mosql_fdw.present_as_table = on", "psql")
    listed = client(server, "psql", "-X", "-At", "-c", "\\dt+", "-c", "\\d loan", db="psql")
    tap.ok("loan|table" in listed and "who has what" in listed, "psql: \\dt+ as tables, with comments", listed)
    listed = client(server, "psql", "-X", "-c", "\\d loan", db="psql")
    tap.ok('"loan_out" btree (item) WHERE NOT back' in listed, "psql: \\d of a table, with indexes of one", listed)
    for setting, lines in (("off", COMPLETED), ("on", COMPLETED_AS_TABLE)):
        query(server, f"ALTER DATABASE psql SET mosql_fdw.present_as_table = {setting}", "psql")
        with contextlib.closing(Terminal(server, "psql")) as terminal:
            for typed, completed in lines:
                good, why = terminal.complete(typed, completed)
                tap.ok(good, f"psql: TAB completes {typed}, present_as_table {setting}", why)


def sysbench(server, cluster):
    database(server, "sysbench", cluster, "sysbench")
    common = ["--db-driver=pgsql", f"--pgsql-host={server.args['host']}",
              f"--pgsql-port={server.args['port']}", "--pgsql-user=postgres", "--pgsql-password=",
              "--pgsql-db=sysbench", "--tables=2", "--table-size=1000", "--threads=2",
              "--time=" + SECONDS]
    for script in ("oltp_read_write", "oltp_insert", "oltp_delete", "oltp_update_index"):
        client(server, "sysbench", *common, script, "prepare")
        said = client(server, "sysbench", *common, script, "run")
        done = int(re.search(r"transactions: +(\d+)", said)[1])
        kinds = query(server, """SELECT DISTINCT ftrelid IS NOT NULL FROM pg_class LEFT JOIN pg_foreign_table ON ftrelid = oid
                                 WHERE relname LIKE 'sbtest_'""", "sysbench")
        wrong = query(server, "SELECT * FROM mosql_fdw_check('sbtest1') WHERE severity = 'broken'",
                      "sysbench")
        tap.ok(done > 0 and kinds == [(True,)] and not wrong,
               f"sysbench {script}: {done} transactions", [said, kinds, wrong])
        client(server, "sysbench", *common, script, "cleanup")
    left = query(server, "SELECT relname FROM pg_class WHERE relname LIKE 'sbtest%'", "sysbench")
    tap.ok(not left, "sysbench cleanup leaves nothing", left)


def app(server, db, name, *args):
    return client(server, "/usr/bin/python3", os.path.join(TOP, "test/clients", name), *args, db=db)


def django(server, cluster):
    database(server, "django", cluster, "django")
    app(server, "django", "django_app.py", "migrate")
    local = query(server, """SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
                              AND oid NOT IN (SELECT ftrelid FROM pg_foreign_table)""", "django")
    tap.ok(not local, "Django: migrate makes foreign tables", local)
    app(server, "django", "django_app.py", "use")
    tap.ok(True, "Django: users, groups, bulk_create, update_or_create, transactions")
    said = app(server, "django", "django_app.py", "migrate", "--plan")
    tap.ok("No planned migration operations" in said, "Django: nothing is left to migrate", said)
    said = app(server, "django", "django_app.py", "inspectdb")
    tap.ok(said.count("(models.Model)") == 10 and "unique=True" in said and
           "ForeignKey(AuthUser" in said and "unique_together" in said, "Django: inspectdb", said)
    app(server, "django", "django_app.py", "migrate", "auth", "zero")
    left = query(server, "SELECT relname FROM pg_class WHERE relname LIKE 'auth_%'", "django")
    tap.ok(not left, "Django: migrate back drops the tables", left)


def sqlalchemy(server, cluster):
    database(server, "sqlalchemy", cluster, "sqlalchemy")
    app(server, "sqlalchemy", "sqlalchemy_app.py")
    tap.ok(True, "SQLAlchemy: create_all, unit of work, upsert, reflection; Alembic finds no difference")


def normalised(dump):
    """Without what names the server or the moment."""
    dump = re.sub(r"(?m)^\\(un)?restrict.*$", "", dump)
    return re.sub(r"namespace '\w+'", "", dump)


def schema_of(server, db):
    """As pg_dump says it where the library is loaded, which also finds indexes of gin."""
    query(server, f"ALTER DATABASE {db} SET session_preload_libraries = 'mosql_fdw'", db)
    return normalised(client(server, "pg_dump", "--schema-only", db=db))


def dumps(server, cluster):
    query(server, """CREATE TABLE stock (place text COLLATE "C", item int, n numeric DEFAULT 0
        CHECK (n >= 0), code text UNIQUE, seen int GENERATED ALWAYS AS (item * 2) STORED,
        PRIMARY KEY (item, place))""", "bench")
    query(server, "CREATE INDEX by_n ON stock (n DESC NULLS LAST, place) INCLUDE (code)", "bench")
    query(server, "CREATE UNIQUE INDEX by_code ON stock (upper(code), (item % 7) DESC) "
                  "WHERE place IN ('p1', 'p2') AND n > 1.50", "bench")
    query(server, "CREATE INDEX by_words ON stock USING gin (to_tsvector('simple', place)) WHERE n > 0", "bench")
    query(server, """INSERT INTO stock SELECT 'p' || i % 5, i, i, 'c' || i FROM generate_series(1, 500) i""",
          "bench")
    query(server, "COMMENT ON TABLE stock IS 'what is there'", "bench")
    before = query(server, "SELECT * FROM stock ORDER BY place, item", "bench")
    schema = schema_of(server, "bench")
    tap.ok(" USING gin (to_tsvector('simple'::regconfig, place)) WHERE " in schema, "pg_dump finds an index of gin")
    folder = os.path.join(server.home, "dump")
    client(server, "pg_dump", "-Fd", "-f", folder, "--include-foreign-data=redis", db="bench")

    # into an empty namespace, with the rows
    database(server, "other", cluster, "other", enable=False)
    client(server, "pg_restore", "-j", "4", "-d", "other", folder, "--no-owner",
           "-L", toc(server, folder, ("EXTENSION", "SERVER")))
    tap.ok(schema_of(server, "other") == schema,
           "restored into an empty namespace: the same schema")
    tap.ok(query(server, "SELECT * FROM stock ORDER BY place, item", "other") == before,
           "... and the same rows")
    tap.ok(sums(server, "other") == sums(server, "bench"), "... of all tables")
    check(server, "other")

    # beside the one it was made from: attached to the rows there are
    database(server, "beside", cluster, "bench", enable=False)
    client(server, "pg_restore", "-j", "4", "-d", "beside", folder, "--no-owner",
           "-L", toc(server, folder, ("EXTENSION", "SERVER", "TABLE DATA")))
    tap.ok(schema_of(server, "beside") == schema,
           "restored into the same namespace: the same schema")
    tap.ok(query(server, "SELECT * FROM stock ORDER BY place, item", "beside") == before,
           "... and the same rows")
    query(server, "UPDATE stock SET n = 4711 WHERE code = 'c7'", "beside")
    tap.ok(query(server, "SELECT place, item FROM stock WHERE n = 4711", "bench") == [("p2", 7)],
           "... which both change, by their indexes")
    check(server, "beside")


TREE = """
CREATE FOREIGN TABLE thing (id serial OPTIONS (key 'true') NOT NULL, name text, tags text[],
    twice int GENERATED ALWAYS AS (id * 2) STORED) SERVER redis;
CREATE FOREIGN TABLE tool (weight numeric) INHERITS (thing) SERVER redis;
CREATE FOREIGN TABLE saw (teeth int, no int GENERATED ALWAYS AS IDENTITY) INHERITS (tool) SERVER redis;
CREATE TABLE note (said text) INHERITS (thing) USING heap;
INSERT INTO thing (name, tags) SELECT E'it''s \\\\ ' || i, CASE WHEN i % 3 > 0 THEN ARRAY['a,' || i, NULL] END FROM generate_series(1, 2500) i;
INSERT INTO tool (name, weight) SELECT 'tool', i + 0.50 FROM generate_series(1, 30) i;
INSERT INTO saw (name, teeth) SELECT NULL, i FROM generate_series(1, 20) i;
INSERT INTO note (name, said) VALUES ('note', E'two\\nlines');
"""


def own_rows(server, db):
    """What each table of TREE has itself, without its children's."""
    return {t: query(server, f"SELECT * FROM ONLY {t} ORDER BY id", db) for t in ("thing", "tool", "saw", "note")}


def inheritance(server, cluster):
    """pg_dump writes the rows of each table of a tree once, as INSERTs and as COPY."""
    database(server, "parents", cluster, "parents", enable=False)
    query(server, TREE, "parents")
    before = own_rows(server, "parents")
    assert [len(before[t]) for t in ("thing", "tool", "saw", "note")] == [2500, 30, 20, 1]
    folder = os.path.join(server.home, "inserts")
    client(server, "pg_dump", "-Fd", "-f", folder, "--include-foreign-data=redis", "--rows-per-insert=1000", db="parents")
    database(server, "children", cluster, "children", enable=False)
    client(server, "pg_restore", "-d", "children", folder, "--no-owner", "-L", toc(server, folder, ("EXTENSION", "SERVER")))
    tap.equal(own_rows(server, "children"), before, "a tree of foreign tables, dumped as INSERTs and restored: equal rows")

    said = client(server, "pg_dump", "-a", "-t", "thing", "--include-foreign-data=redis", db="parents")
    copied = said[said.index("COPY public.thing"):].split("\n\\.\n")[0].count("\n")
    tap.equal(copied, 2500, "dumped as COPY, the parent has its own rows only")


def toc(server, folder, without):
    """The dump's list of contents, without some kinds of entries; the file's name."""
    lines = client(server, "pg_restore", "-l", folder).splitlines()
    kinds = re.compile(r"^\d+; \d+ \d+ (COMMENT - )?(%s) " % "|".join(without))
    path = f"{folder}.{'-'.join(without).replace(' ', '')}.list"
    with open(path, "w") as f:
        f.write("\n".join(l for l in lines if not kinds.match(l)) + "\n")
    return path


def body():
    cluster = Cluster("clients", primaries=3)
    server = Server("clients")
    for part in (pgbench, sysbench, django, sqlalchemy, psql, dumps, inheritance):
        if part.__name__ in (sys.argv[1:] or [part.__name__]):
            with section(part.__name__):
                part(server, cluster)


main(body)
