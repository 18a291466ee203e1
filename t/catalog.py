#!/usr/bin/python3
"""Two PostgreSQL servers, one namespace: what one changes in the catalog is safe for
the other and visible there, in sessions that go on.

    t/catalog.py"""
import io
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

ROUNDS = 12                     # of creating the same table at once
DDL = "42P01 42P16 40001".split()


def at_once(*jobs):
    """Run jobs in threads that start together; their results."""
    barrier = threading.Barrier(len(jobs))
    results = [None] * len(jobs)

    def go(i):
        barrier.wait(60)
        results[i] = jobs[i]()
    threads = [threading.Thread(target=go, args=(i,)) for i in range(len(jobs))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    return results


class Pair:
    """A session on each server, for a whole test."""

    def __init__(self, servers, nodes):
        self.servers, self.nodes = servers, nodes
        self.a, self.b = (s.connect("shared") for s in servers)

    def heals(self, what, sql, refresh="t", states=DDL):
        """On b, a statement after a's change: at once, or after what the error's hint says."""
        state, said = error_of(self.b, sql)
        if state == "40001" or state == "42P01" and "Retry the transaction" in said:
            state, said = error_of(self.b, sql)
        if state == "42P16":
            tap.ok("mosql_fdw_refresh" in said, f"{what}: the error's hint says how", said)
            query(self.b, f"SELECT mosql_fdw_refresh('{refresh}')")
            state, said = error_of(self.b, sql)
        tap.ok(state is None, f"{what}: then it works, without reconnecting", f"{state} {said}")
        return said if state is None else None

    def fails(self, what, sql, *states):
        """A transaction of b that is under way during a's change."""
        state, said = error_of(self.b, sql)
        return tap.ok(state in states, f"{what}: {' or '.join(states)} for a transaction under way",
                      f"{state} {said}")


def same_table_at_once(pair):
    states, wrong = {}, []
    for i in range(ROUNDS):
        ddl = f"CREATE FOREIGN TABLE r{i} (id serial OPTIONS (key 'true'), v text) SERVER redis"
        got = at_once(*(lambda c=c: error_of(c, ddl)[0] for c in (pair.a, pair.b)))
        for conn, state in zip((pair.a, pair.b), got):
            states[state] = states.get(state, 0) + 1
            if state is not None and attempt(conn, ddl)[1] is not None:
                wrong.append((i, state, "again"))
            if state not in (None, "40001"):
                wrong.append((i, state))
        if got[0] is not None and got[1] is not None:
            wrong.append((i, "nobody won"))
        for conn in (pair.a, pair.b):
            rows, state = attempt(conn, f"INSERT INTO r{i} (v) VALUES ('x') RETURNING id")
            if state == "40001":
                attempt(conn, f"INSERT INTO r{i} (v) VALUES ('x')")
        counts = [value(c, f"SELECT count(*) FROM r{i}") for c in (pair.a, pair.b)]
        if counts != [2, 2]:
            wrong.append((i, counts))
    tap.note(f"outcomes: {states}")
    tap.ok(not wrong, "the same table created at once: one makes it, the other attaches, also with "
           "a retry", wrong)


def different_tables_at_once(pair):
    wrong = []
    for i in range(ROUNDS):
        got = at_once(*(lambda c=c, t=t: error_of(
            c, f"CREATE FOREIGN TABLE d{i} (id int OPTIONS (key 'true') NOT NULL, {t}) SERVER redis")[0]
            for c, t in ((pair.a, "v text"), (pair.b, "w int"))))
        if sorted(map(str, got)) not in (["40001", "None"], ["42P16", "None"]):
            wrong.append(got)
    tap.ok(not wrong, "different tables of one name created at once: one wins, the other gets an error",
           wrong)


def columns(pair):
    a, b = pair.a, pair.b
    query(a, "CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, v text, n int) SERVER redis")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO public")
    query(b, "INSERT INTO t SELECT i, 'v' || i, i FROM generate_series(1, 100) i")
    query(b, "PREPARE get AS SELECT id FROM t WHERE id = $1")
    query(b, "EXECUTE get(1)")

    query(b, "BEGIN")
    query(b, "INSERT INTO t VALUES (200, 'under way', 0)")
    query(a, "ALTER FOREIGN TABLE t ADD COLUMN extra int NOT NULL DEFAULT 7")
    pair.fails("ADD COLUMN", "COMMIT", "40001")
    pair.heals("ADD COLUMN", "INSERT INTO t (id, v) VALUES (101, 'new')")
    tap.equal(query(a, "SELECT id, extra FROM t WHERE id IN (1, 101, 200) ORDER BY id"),
              [(1, 7), (101, 7)], "ADD COLUMN: both rows have it")

    query(b, "BEGIN")
    query(b, "UPDATE t SET v = 'lost' WHERE id = 1")
    query(a, "ALTER FOREIGN TABLE t RENAME COLUMN v TO name")
    pair.fails("RENAME COLUMN", "COMMIT", "40001")
    tap.equal(pair.heals("RENAME COLUMN", "SELECT * FROM t WHERE id = 1"), [(1, "v1", 1, 7)],
              "RENAME COLUMN: it is in its place")
    tap.equal(query(b, "SELECT name FROM t WHERE id = 2"), [("v2",)], "RENAME COLUMN: it has its new name")

    query(b, "BEGIN")
    query(b, "UPDATE t SET n = 0 WHERE id = 1")
    query(a, "ALTER FOREIGN TABLE t DROP COLUMN n")
    pair.fails("DROP COLUMN", "COMMIT", "40001")
    tap.equal(pair.heals("DROP COLUMN", "SELECT * FROM t WHERE id = 1"), [(1, "v1", 7)],
              "DROP COLUMN: it is gone")

    query(a, "ALTER FOREIGN TABLE t ALTER extra TYPE bigint, ALTER name SET DEFAULT 'd'")
    pair.heals("ALTER TYPE", "INSERT INTO t (id, name, extra) VALUES (103, 'v103', 5)")
    query(b, "INSERT INTO t (id, extra) VALUES (102, 5000000000)")
    tap.equal(query(b, "SELECT name FROM t WHERE id = 102"), [("d",)], "SET DEFAULT comes with mosql_fdw_refresh()")
    tap.equal(query(a, "SELECT extra FROM t WHERE id = 102"), [(5000000000,)], "ALTER TYPE: values arrive")
    tap.equal(query(b, "EXECUTE get(2)"), [(2,)], "a statement prepared at first still works")

    # both at once: no change is lost, the table stays readable
    got = at_once(lambda: error_of(a, "ALTER FOREIGN TABLE t ADD COLUMN from_a int")[0],
                  lambda: error_of(b, "ALTER FOREIGN TABLE t ADD COLUMN from_b int")[0])
    tap.ok(None in got and set(got) <= {None, "40001", "42P16"}, "ADD COLUMN on both at once: one wins", got)
    for conn in (a, b):
        query(conn, "SELECT mosql_fdw_refresh('t')")
    tap.equal(len(query(a, "SELECT * FROM t WHERE id = 1")[0]), len(query(b, "SELECT * FROM t WHERE id = 1")[0]),
              "ADD COLUMN on both at once: both see the same columns")


def indexes(pair):
    a, b = pair.a, pair.b
    query(b, "BEGIN")
    query(b, "INSERT INTO t (id, name) VALUES (300, 'v1')")
    query(a, "CREATE UNIQUE INDEX t_name ON t (name) INCLUDE (id)")
    pair.fails("CREATE INDEX", "COMMIT", "40001", "23505")
    state, said = error_of(b, "INSERT INTO t (id, name) VALUES (300, 'v1')")
    tap.ok(state == "23505", "CREATE INDEX: unique for the other server at once", f"{state} {said}")
    query(b, "INSERT INTO t (id, name) VALUES (301, 'indexed')")
    tap.equal(query(a, "SELECT id FROM t WHERE name = 'indexed'"), [(301,)],
              "CREATE INDEX: the other server's rows are in it")
    tap.equal(findings(a, "t"), ([], []), "CREATE INDEX: mosql_fdw_check finds nothing")

    query(b, "BEGIN")
    query(b, "INSERT INTO t (id, name) VALUES (302, 'other')")
    query(a, "DROP INDEX t_name")
    pair.fails("DROP INDEX", "COMMIT", "40001", "42P01")
    pair.heals("DROP INDEX", "INSERT INTO t (id, name) VALUES (300, 'v1')")
    query(b, "SELECT mosql_fdw_refresh('t')")
    tap.equal(value(b, "SELECT count(*) FROM pg_class WHERE relname = 't_name'"), 0,
              "DROP INDEX: refresh takes it out of the catalog")


def computed_indexes(pair):
    """Indexes of expressions, and partial ones: all who write compute the same, or do not write."""
    a, b = pair.a, pair.b
    query(a, "CREATE FOREIGN TABLE x (id int OPTIONS (key 'true') NOT NULL, mail text, gone date) SERVER redis")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (x) FROM SERVER redis INTO public")
    query(b, "INSERT INTO x SELECT i, 'User' || i FROM generate_series(1, 100) i")
    query(b, "SET datestyle = 'SQL, DMY'")
    query(a, "CREATE UNIQUE INDEX x_mail ON x (lower(mail)) WHERE gone IS NULL OR gone > '2024-02-03'")
    for again in range(2):
        state, said = error_of(b, "INSERT INTO x VALUES (101, 'USER5')")
    tap.ok(state == "23505" and "(lower(mail))=(user5)" in said,
           "an index of an expression: unique for the other server at once", f"{state} {said}")
    query(b, "INSERT INTO x VALUES (101, 'USER5', '2024-02-03'), (102, 'B', '2024-02-04')")
    tap.ok(error_of(a, "INSERT INTO x VALUES (103, 'b')")[0] == "23505" and
           error_of(a, "INSERT INTO x VALUES (104, 'user5', '2024-02-03')")[0] is None,
           "both mean the same day, under different settings")
    tap.equal(query(b, "SELECT id FROM x WHERE lower(mail) = 'b' AND gone IS NULL OR gone > '2024-02-03'"),
              [(102,)], "rows through it")
    query(a, "ALTER FOREIGN TABLE x RENAME mail TO address; ALTER FOREIGN TABLE x ADD COLUMN mail int")
    pair.heals("RENAME", "INSERT INTO x (id) VALUES (106)", "x")
    query(b, "INSERT INTO x (id, address) VALUES (105, 'USER6') ON CONFLICT DO NOTHING")
    tap.equal(value(b, "SELECT count(*) FROM x WHERE id = 105"), 0, "RENAME: the index follows")
    tap.equal(value(b, "SELECT pg_get_indexdef('x_mail'::regclass)").count("lower(address)"), 1,
              "RENAME: the catalog follows")
    for conn in (a, b):
        tap.equal(findings(conn, "x"), ([], []), "mosql_fdw_check finds nothing")

    query(b, "RESET datestyle")

    # a function that one server lacks: as if a newer version had made the index
    query(b, "ALTER FUNCTION pg_catalog.md5(text) RENAME TO md5_of_late")
    query(a, "CREATE INDEX x_md5 ON x (md5(address)) WHERE address > 'User50'")
    for what in ("INSERT INTO x (id) VALUES (200)", "UPDATE x SET address = 'c' WHERE id = 7",
                 "UPDATE x SET mail = mail + 1 WHERE id = 7", "DELETE FROM x WHERE id = 7"):
        state, said = error_of(b, what)
        if state == "40001":
            state, said = error_of(b, what)
        tap.ok(state == "55000" and '"x_md5"' in said and "md5(text) does not exist" in said,
               f"a function lacks: {what.split()[0]} is refused and says why", f"{state} {said}")
    tap.equal(query(b, "SELECT id, address FROM x WHERE lower(address) = 'user7' AND gone IS NULL"),
              [(7, "User7")], "a function lacks: reading is allowed")
    tap.equal(findings(b, "x")[0], [], "a function lacks: mosql_fdw_check finds nothing broken")
    tap.ok(any("x_md5" in f[2] for f in findings(b, "x")[1]), "a function lacks: and says what it left out")
    said = query(b, "SELECT action FROM mosql_fdw_gc('redis') WHERE name = 'x_md5'")
    tap.ok("cannot compute" in said[0][0], "a function lacks: mosql_fdw_gc() says so", said)
    query(b, "ALTER FUNCTION pg_catalog.md5_of_late(text) RENAME TO md5")
    states = [error_of(b, "UPDATE x SET address = 'User9999' WHERE id = 7")[0] for again in range(2)]
    tap.equal(states, ["55000", None], "the function is there: the same session writes, after a retry")
    query(b, "SELECT mosql_fdw_refresh('x')")
    tap.equal(query(b, "SELECT id FROM x WHERE md5(address) = md5('User9999') AND address > 'User50'"), [(7,)],
              "the function is there: the index is shown and right")
    tap.equal(findings(b, "x"), ([], []), "the function is there: mosql_fdw_check finds nothing")

    # a database of another locale
    server = pair.servers[1]
    make_database(server, "c_locale", pair.nodes, {"namespace": "shared"},
                  locale="C")
    with contextlib.closing(server.connect("c_locale")) as c:
        query(c, "IMPORT FOREIGN SCHEMA public LIMIT TO (x) FROM SERVER redis INTO public")
        state, said = error_of(c, "DELETE FROM x WHERE id = 7")
        tap.ok(state == "55000" and "locale" in said, "another locale: no writes", f"{state} {said}")
        query(a, "DROP INDEX x_mail; DROP INDEX x_md5; CREATE INDEX x_plain ON x ((address || '!')) WHERE address = 'User8'")
        for again in range(2):
            state, said = error_of(c, "DELETE FROM x WHERE id = 8")
        tap.ok(state is None, "another locale: what does not depend on it is no matter", f"{state} {said}")
    tap.equal(findings(a, "x"), ([], []), "mosql_fdw_check finds nothing")

    # dump and restore: attached to what is there
    query(a, "CREATE UNIQUE INDEX x_mail ON x (lower(address) DESC) WHERE gone IS NULL")
    restore(pair, "x")
    tap.equal(value(b, "SELECT count(*) FROM pg_index WHERE indrelid = 'x'::regclass"), 3,
              "a restored dump has the indexes")
    tap.equal(error_of(b, "INSERT INTO x (id, address) VALUES (300, 'USER20')")[0], "23505",
              "a restored dump: they are what they were")
    tap.equal(findings(b, "x"), ([], []), "mosql_fdw_check finds nothing")


def truncate_and_drop(pair):
    a, b = pair.a, pair.b
    query(b, "BEGIN")
    query(b, "INSERT INTO t (id, name) VALUES (400, 'under way')")
    query(a, "TRUNCATE t")
    pair.fails("TRUNCATE", "COMMIT", "40001", "42P01")
    tap.equal(pair.heals("TRUNCATE", "SELECT count(*) FROM t"), [(0,)], "TRUNCATE: empty for both")
    pair.heals("TRUNCATE", "INSERT INTO t (id, name) VALUES (1, 'b')")
    tap.equal(query(a, "SELECT name FROM t"), [("b",)], "TRUNCATE: both use the new tree")

    query(b, "BEGIN")
    query(b, "INSERT INTO t (id, name) VALUES (401, 'under way')")
    query(a, "DROP FOREIGN TABLE t")
    pair.fails("DROP TABLE", "COMMIT", "40001", "42P01")
    pair.fails("DROP TABLE", "SELECT * FROM t", "42P01")
    query(a, "CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, other date) SERVER redis")
    query(a, "INSERT INTO t VALUES (1, '2020-02-02')")
    pair.heals("CREATE again", "SELECT count(*) FROM t")
    tap.equal(query(b, "SELECT id, other::text FROM t"), [(1, "2020-02-02")], "CREATE again: another table")


def sequences(pair):
    a, b = pair.a, pair.b
    query(a, """CREATE FOREIGN TABLE s (id int OPTIONS (key 'true') GENERATED ALWAYS AS IDENTITY,
                n serial, v text DEFAULT 'default') SERVER redis""")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (s) FROM SERVER redis INTO public")

    def insert(conn, rng):
        query(conn, f"INSERT INTO s (v) SELECT 'x' FROM generate_series(1, {rng.randint(1, 60)})")
        conn.commit()
    clients = [Client(server, "shared", insert, seed, **{"mosql_fdw.sequence_block": block})
               for seed, (server, block) in enumerate((s, n) for s in pair.servers for n in (1, 5, 32))]
    for c in clients:
        c.start()
    time.sleep(5)
    for c in clients:
        c.halt.set()
    for c in clients:
        c.join(60)
    errors = [(c.errors, c.messages, c.crash) for c in clients if c.errors or c.crash]
    tap.ok(not errors, "serial and identity on both servers, six sessions: no error, so no number twice",
           errors)
    rows, ids, ns = query(a, "SELECT count(*), count(DISTINCT id), count(DISTINCT n) FROM s")[0]
    tap.ok(rows == ids == ns and rows > 100, f"all numbers of {rows} rows differ", (rows, ids, ns))

    query(a, "TRUNCATE s RESTART IDENTITY")
    pair.heals("RESTART IDENTITY", "INSERT INTO s (v) VALUES ('x')")
    query(a, "INSERT INTO s (v) VALUES ('y')")
    tap.ok(value(b, "SELECT max(id) FROM s") <= 33, "RESTART IDENTITY: both start again")
    query(a, "ALTER SEQUENCE s_n_seq RESTART 5000")
    pair.heals("ALTER SEQUENCE", "INSERT INTO s (v) VALUES ('z')")
    tap.equal(value(b, "SELECT n FROM s WHERE v = 'z'"), 5000, "ALTER SEQUENCE: the other server follows")
    tap.equal(value(b, "SELECT currval('s_n_seq')"), 5000, "currval")


DETAILS = """SELECT attname, attnotnull, attidentity::text, col_description(attrelid, attnum),
                    pg_get_expr(adbin, adrelid)
             FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
             WHERE attrelid = 'details'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname"""
CHECKS = """SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
            WHERE conrelid = 'details'::regclass AND contype = 'c' ORDER BY conname"""


def details(pair):
    """Defaults, NOT NULL, identity and serial columns, CHECKs and comments follow by mosql_fdw_refresh()."""
    a, b = pair.a, pair.b

    def same(what, *local):
        query(b, "SELECT mosql_fdw_refresh('details')")
        for sql, extra in ((DETAILS, []), (CHECKS, list(local))):
            there, here = query(a, sql), query(b, sql)
            tap.equal(here, sorted(there + extra), f"{what}: both have the same")
        tap.equal(value(b, "SELECT obj_description('details'::regclass)"),
                  value(a, "SELECT obj_description('details'::regclass)"), f"{what}: and the same comment")
        tap.equal(value(b, "SELECT mosql_fdw_refresh('details')"), None, f"{what}: then nothing is left to be done")
    query(a, """CREATE FOREIGN TABLE details (id int OPTIONS (key 'true') GENERATED ALWAYS AS IDENTITY,
                a int DEFAULT 5, b text, c serial, d int DEFAULT 3, e int,
                CONSTRAINT ca CHECK (a > 0), CONSTRAINT cb CHECK (d > 0)) SERVER redis""")
    query(a, "COMMENT ON COLUMN details.a IS 'first'")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (details) FROM SERVER redis INTO public")
    same("IMPORT")

    query(a, """ALTER FOREIGN TABLE details ALTER a SET DEFAULT 6, ALTER b SET DEFAULT 'x', ALTER d DROP DEFAULT,
                ALTER b SET NOT NULL, DROP CONSTRAINT cb, DROP CONSTRAINT ca, ADD CONSTRAINT ca CHECK (a > 1),
                ADD CONSTRAINT cc CHECK (e > 1)""")
    query(a, "COMMENT ON FOREIGN TABLE details IS 'it''s a table'")
    query(a, "COMMENT ON COLUMN details.a IS NULL")
    query(a, "COMMENT ON COLUMN details.b IS 'second'")
    query(a, "CREATE SEQUENCE details_e START 77")
    query(a, "ALTER FOREIGN TABLE details ALTER e SET DEFAULT nextval('details_e')")
    query(a, "ALTER FOREIGN TABLE details ALTER id DROP IDENTITY")
    query(a, "ALTER SEQUENCE details_c_seq OWNED BY NONE")
    query(b, "ALTER FOREIGN TABLE details ADD CONSTRAINT mine CHECK (pg_backend_pid() > 0 AND version() <> '')")
    # only here, and never brought there: its function is this server's own
    query(b, "CREATE FUNCTION own_check(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'")
    query(b, "ALTER FOREIGN TABLE details DROP CONSTRAINT mine, ADD CONSTRAINT own CHECK (own_check(d))")
    own = ("own", "CHECK (own_check(d))")
    same("changed", own)
    tap.equal(query(b, "INSERT INTO details (id) VALUES (1) RETURNING a, b, c, d, e"), [(6, "x", 1, None, 77)],
              "changed: defaults hold, and sequences go on")

    query(a, "ALTER TABLE details RENAME CONSTRAINT cc TO cd")
    query(a, """ALTER FOREIGN TABLE details ALTER id ADD GENERATED BY DEFAULT AS IDENTITY (START 50),
                ALTER e DROP DEFAULT, ALTER b DROP NOT NULL""")
    query(a, "ALTER SEQUENCE details_c_seq OWNED BY details.c")
    query(a, "COMMENT ON FOREIGN TABLE details IS NULL")
    same("changed back", own)
    tap.equal(query(b, "INSERT INTO details DEFAULT VALUES RETURNING id, c"), [(50, 2)],
              "changed back: identity and serial are drawn from Redis")
    query(b, "SET client_min_messages = warning")
    query(a, "CREATE FOREIGN TABLE plain (id int OPTIONS (key 'true'), v text) SERVER redis")
    query(b, """CREATE FOREIGN TABLE plain (id int OPTIONS (key 'true'), v text DEFAULT 'mine',
                CONSTRAINT mine CHECK (v <> '')) SERVER redis""")
    tap.equal(value(b, "SELECT mosql_fdw_refresh('plain')"), None, "what is only here stays")
    tap.equal(query(b, "INSERT INTO plain VALUES (1) RETURNING v"), [("mine",)], "and holds here")


def retyped(pair):
    """Another type there, and what would not fit it here: dropped there, or changed."""
    a, b = pair.a, pair.b
    ways = {
        "a default that is dropped": ("c int DEFAULT 5", "ALTER c DROP DEFAULT, ALTER c TYPE jsonb USING to_jsonb(c)"),
        "another default": ("c int DEFAULT 5", "ALTER c DROP DEFAULT, ALTER c TYPE jsonb USING to_jsonb(c), ALTER c SET DEFAULT '[]'"),
        "a CHECK that is dropped": ("c int CONSTRAINT cc CHECK (c < 50)", "DROP CONSTRAINT cc, ALTER c TYPE text"),
        "another CHECK": ("c int CONSTRAINT cc CHECK (c < 50)",
                          "DROP CONSTRAINT cc, ALTER c TYPE text USING c::text, ADD CONSTRAINT cc CHECK (c < '9')"),
        "an identity that is dropped": ("c int GENERATED BY DEFAULT AS IDENTITY", "ALTER c DROP IDENTITY", "ALTER c TYPE text"),
        "a serial that is dropped": ("c serial", "ALTER c DROP DEFAULT, ALTER c TYPE jsonb USING to_jsonb(c)"),
        "names that two columns exchange": ("c int DEFAULT 5, d text DEFAULT 'q' CHECK (d <> 'z')",
                                            "RENAME c TO e", "RENAME d TO c", "RENAME e TO d")}
    for what, (column, *changes) in ways.items():
        query(a, f"CREATE FOREIGN TABLE re (id int OPTIONS (key 'true') NOT NULL, {column}) SERVER redis")
        query(a, "INSERT INTO re (id, c) VALUES (1, 1)")
        query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (re) FROM SERVER redis INTO public")
        for change in changes:
            query(a, f"ALTER FOREIGN TABLE re {change}")
        query(b, "SELECT mosql_fdw_refresh('re')")
        for sql in (DETAILS, CHECKS):
            tap.equal(query(b, sql.replace("details", "re")), query(a, sql.replace("details", "re")), f"{what}: both have the same")
        tap.equal(query(b, "SELECT * FROM re"), query(a, "SELECT id, c{} FROM re".format(", d" if "d text" in column else "")),
                  f"{what}: and the same rows")
        query(b, "INSERT INTO re (id, c) VALUES (2, '2')")
        tap.equal(value(b, "SELECT mosql_fdw_refresh('re')"), None, f"{what}: then nothing is left to be done")
        query(b, "SET mosql_fdw.drop_data = off; DROP FOREIGN TABLE re; RESET mosql_fdw.drop_data")
        query(a, "DROP FOREIGN TABLE re")

    # the name is another column's since: nothing of the one before stays
    for what, (column, *changes) in {
            "DROP and ADD": ("c int DEFAULT 5 CONSTRAINT cc CHECK (c < 7)", "DROP c", "ADD c int"),
            "DROP and RENAME": ("c int DEFAULT 5 CONSTRAINT cc CHECK (c < 7), d int", "DROP c", "RENAME d TO c"),
            "RENAME of both": ("c int DEFAULT 5, d int", "RENAME c TO x", "RENAME d TO c", "RENAME x TO d")}.items():
        query(a, f"CREATE FOREIGN TABLE re (id int OPTIONS (key 'true') NOT NULL, {column}) SERVER redis")
        query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (re) FROM SERVER redis INTO public")
        for change in changes:
            query(a, f"ALTER FOREIGN TABLE re {change}")
        query(b, "SELECT mosql_fdw_refresh('re')")
        tap.equal(query(b, "INSERT INTO re (id) VALUES (1) RETURNING c"), [(None,)], f"{what}: no default of the column before")
        tap.equal(error_of(b, "INSERT INTO re (id, c) VALUES (2, 9)")[0], None, f"{what}: and no CHECK")
        query(b, "SET mosql_fdw.drop_data = off; DROP FOREIGN TABLE re; RESET mosql_fdw.drop_data")
        query(a, "DROP FOREIGN TABLE re")

    # what only this server has is not lost but for need
    query(a, "CREATE FOREIGN TABLE re (id int OPTIONS (key 'true') NOT NULL, c int, d int) SERVER redis")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (re) FROM SERVER redis INTO public;"
          "CREATE FUNCTION seven() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 7; END';"
          "ALTER FOREIGN TABLE re ALTER c SET DEFAULT seven(), ALTER d SET DEFAULT seven()")
    query(a, "ALTER FOREIGN TABLE re ALTER c TYPE bigint, ALTER d TYPE jsonb USING to_jsonb(d)")
    query(b, "RESET client_min_messages")
    b.notices.clear()
    query(b, "SELECT mosql_fdw_refresh('re')")
    tap.ok(any('default of column "d"' in n for n in b.notices), "a default of this server alone that does not fit: a NOTICE", b.notices)
    tap.equal(query(b, "INSERT INTO re (id) VALUES (1) RETURNING c, d"), [(7, None)], "... and one that does stays")
    query(a, "DROP FOREIGN TABLE re")

    # both ends of a foreign key, one of another name beside it, and one to the table itself
    query(a, "CREATE FOREIGN TABLE rp (id int PRIMARY KEY, up int REFERENCES rp) SERVER redis;"
          "CREATE FOREIGN TABLE rc (id int PRIMARY KEY, p int CONSTRAINT keeps REFERENCES rp, q int CONSTRAINT goes REFERENCES rp) SERVER redis")
    query(a, "INSERT INTO rp VALUES (1, 1), (2, 1); INSERT INTO rc VALUES (1, 1, 2)")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (rp, rc) FROM SERVER redis INTO public")
    query(a, "ALTER TABLE rc DROP CONSTRAINT keeps, DROP CONSTRAINT goes; ALTER TABLE rp DROP CONSTRAINT rp_up_fkey;"
          "ALTER TABLE rp ALTER id TYPE text, ALTER up TYPE text; ALTER TABLE rc ALTER p TYPE text, ALTER q TYPE jsonb USING to_jsonb(q);"
          "ALTER TABLE rp ADD CONSTRAINT rp_up_fkey FOREIGN KEY (up) REFERENCES rp;"
          "ALTER TABLE rc ADD CONSTRAINT keeps FOREIGN KEY (p) REFERENCES rp ON DELETE CASCADE")
    query(b, "SELECT mosql_fdw_refresh('rp')")
    tap.equal(error_of(b, "DELETE FROM rp WHERE id = '1'")[0], "55000", "types of a foreign key: unknown while one end is as before")
    query(b, "SELECT mosql_fdw_refresh('rc')")
    keys = "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' AND conrelid IN ('rp'::regclass, 'rc'::regclass) ORDER BY 1"
    tap.equal(query(b, keys), query(a, keys), "types of a foreign key: both have the same")
    tap.equal(error_of(b, "INSERT INTO rc VALUES (2, '3')")[0], "23503", "... and keep it")
    query(b, "UPDATE rp SET up = NULL; DELETE FROM rp WHERE id = '1'")
    tap.equal(query(a, "SELECT * FROM rc"), [], "... with its actions")
    query(a, "DROP FOREIGN TABLE rc, rp")


def rules(pair):
    """What rows must satisfy since another server says so: obeyed, or refused until the refresh."""
    a, b = pair.a, pair.b
    query(a, """CREATE FOREIGN TABLE ruled (id int OPTIONS (key 'true') NOT NULL, v int, n int,
                d int GENERATED ALWAYS AS (v * 2) STORED, CONSTRAINT early CHECK (v < 1000)) SERVER redis""")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (ruled) FROM SERVER redis INTO public")
    query(b, "INSERT INTO ruled VALUES (1, 1, 1)")

    def writes(what, state, *statements):
        for sql in statements:
            got = error_of(b, sql)
            if got[0] == "40001":           # at first its definition is of before
                got = error_of(b, sql)
            tap.equal(got[0], state, f"{what}: {sql.split(' ', 1)[0]}")
            if state == "55000":
                tap.ok("mosql_fdw_refresh('public.ruled')" in got[1], f"{what}: the error says how", got[1])
    query(a, "ALTER FOREIGN TABLE ruled ALTER n SET NOT NULL")
    writes("SET NOT NULL", "23502", "INSERT INTO ruled VALUES (2, 2, NULL)", "UPDATE ruled SET n = NULL",
           "INSERT INTO ruled VALUES (1) ON CONFLICT (id) DO UPDATE SET n = NULL")
    with b.cursor() as c:
        try:
            c.copy_expert("COPY ruled (id, v) FROM STDIN", io.StringIO("3\t3\n"))
            state = None
        except psycopg2.Error as e:
            state = e.pgcode
    tap.equal(state, "23502", "SET NOT NULL: COPY")
    writes("SET NOT NULL", None, "INSERT INTO ruled VALUES (2, 2, 2)", "UPDATE ruled SET v = v + 1, n = n + 1")
    query(a, "ALTER FOREIGN TABLE ruled ALTER n DROP NOT NULL")
    writes("DROP NOT NULL", None, "INSERT INTO ruled VALUES (3, 3, NULL)")

    query(a, "CREATE FOREIGN TABLE counted (id int OPTIONS (key 'true') NOT NULL, n int) SERVER redis")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (counted) FROM SERVER redis INTO public")
    query(b, "INSERT INTO counted VALUES (1, 1)")
    query(a, "ALTER FOREIGN TABLE counted ALTER n SET NOT NULL")
    writes("SET NOT NULL", "23502", "UPDATE counted SET n = n + (SELECT NULL::int) WHERE id = 1")

    query(a, "ALTER FOREIGN TABLE ruled ADD CONSTRAINT late CHECK (v > 0)")
    writes("ADD CHECK", "55000", "INSERT INTO ruled VALUES (4, -1, 1)", "UPDATE ruled SET v = -1",
           "UPDATE ruled SET v = v - 100 WHERE id = 1",
           "INSERT INTO ruled VALUES (1) ON CONFLICT (id) DO UPDATE SET v = -1")
    writes("ADD CHECK", None, "SELECT * FROM ruled", "DELETE FROM ruled WHERE id = 3")
    query(b, "SELECT mosql_fdw_refresh('ruled')")
    writes("ADD CHECK, refreshed", "23514", "INSERT INTO ruled VALUES (4, -1, 1)")
    writes("ADD CHECK, refreshed", None, "INSERT INTO ruled VALUES (4, 4, 4)")

    query(a, "ALTER FOREIGN TABLE ruled DROP CONSTRAINT late, ADD CONSTRAINT late CHECK (v > 10) NOT VALID")
    query(a, "UPDATE ruled SET v = 20")
    query(a, "ALTER FOREIGN TABLE ruled VALIDATE CONSTRAINT late")
    writes("a CHECK changed", "55000", "INSERT INTO ruled VALUES (5, 5, 5)")
    tap.equal(error_of(b, "ALTER FOREIGN TABLE ruled DROP CONSTRAINT late")[0], "42P16", "a CHECK changed: not its to drop")
    query(b, "ALTER FOREIGN TABLE ruled ADD CONSTRAINT otherwise CHECK (11 <= v OR v > 10)")
    query(a, "ALTER FOREIGN TABLE ruled ADD CONSTRAINT later CHECK (v > 11)")
    writes("a CHECK of another text", "55000", "INSERT INTO ruled VALUES (5, 50, 5)")
    query(b, "SELECT mosql_fdw_refresh('ruled')")
    writes("a CHECK of another text, refreshed", None, "INSERT INTO ruled VALUES (5, 50, 5)")
    query(a, "ALTER FOREIGN TABLE ruled DROP CONSTRAINT later, DROP CONSTRAINT early")
    writes("DROP CONSTRAINT", "23514", "INSERT INTO ruled VALUES (6, 2000, 6)")     # of its own still
    query(a, "DROP FOREIGN TABLE ruled")
    query(b, "SET mosql_fdw.drop_data = off; DROP FOREIGN TABLE ruled; RESET mosql_fdw.drop_data")


def first_commands(pair):
    """Sessions that have not loaded the library yet, whose only command is one of these."""
    a, b, server = pair.a, pair.b, pair.servers[0]
    query(a, "CREATE SCHEMA first; CREATE ROLE first; GRANT USAGE ON FOREIGN SERVER redis TO first")
    query(a, "GRANT CREATE ON SCHEMA public TO first")
    make = "CREATE FOREIGN TABLE %sfirst (id int OPTIONS (key 'true'), v text) SERVER redis"
    there = "SELECT count(*) FROM mosql_fdw_gc('redis') WHERE name ~ 'first' AND finding ~ 'it is in Redis'"
    for sql, where in (("DROP TABLE first", ""), ("DROP FOREIGN TABLE first", ""),
                       ("DROP SCHEMA first CASCADE", "first."), ("DROP OWNED BY first CASCADE", "owned")):
        if where == "owned":
            query(a, "SET ROLE first")
        query(a, make % where.replace("owned", ""))
        query(a, "RESET ROLE")
        before = value(b, there)
        with contextlib.closing(server.connect("shared")) as conn:
            query(conn, sql)
        tap.equal((before, value(b, there), error_of(a, make % where.replace("owned", "x"))[0]),
                  (1, 0, "3F000" if where == "first." else None), f"{sql}, first of a session, drops it in Redis, too")
        attempt(a, "DROP TABLE IF EXISTS first, xfirst")
    query(a, make % "")
    query(a, "INSERT INTO first VALUES (1, 'x')")
    with contextlib.closing(server.connect("shared")) as conn:
        query(conn, "ALTER TABLE first ADD COLUMN w int DEFAULT 5")
    with contextlib.closing(server.connect("shared")) as conn:
        query(conn, "ALTER TABLE first RENAME COLUMN v TO u")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (first) FROM SERVER redis INTO public")
    tap.equal(query(b, "SELECT id, u, w FROM first"), [(1, "x", 5)], "so do ALTER TABLE and RENAME")
    with contextlib.closing(server.connect("shared")) as conn:
        query(conn, "TRUNCATE first")
    attempt(b, "SELECT 1 FROM first")
    tap.equal(query(b, "SELECT id, u, w FROM first"), [], "and TRUNCATE")
    query(a, "DROP TABLE first")


def named_sequences(pair):
    """A sequence that no column owns, drawn from by the defaults of two tables."""
    a, b = pair.a, pair.b
    query(a, "CREATE SEQUENCE q START 10 INCREMENT 2")
    for table in ("q1", "q2"):
        query(a, f"""CREATE FOREIGN TABLE {table} (id int OPTIONS (key 'true') DEFAULT nextval('q'),
                     code text DEFAULT 'c' || nextval('q')) SERVER redis""")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (q1, q2) FROM SERVER redis INTO public")
    tap.equal(query(b, "SELECT seqincrement, seqstart FROM pg_sequence WHERE seqrelid = 'q'::regclass"),
              [(2, 10)], "IMPORT makes the sequence that a default draws from")

    def insert(conn, rng):
        for table in ("q1", "q2"):
            query(conn, f"INSERT INTO {table} SELECT FROM generate_series(1, {rng.randint(1, 40)})")
        query(conn, "SELECT nextval('q')")
        conn.commit()
    clients = [Client(server, "shared", insert, seed, **{"mosql_fdw.sequence_block": block})
               for seed, (server, block) in enumerate((s, n) for s in pair.servers for n in (1, 32))]
    for c in clients:
        c.start()
    time.sleep(3)
    for c in clients:
        c.halt.set()
    for c in clients:
        c.join(60)
    tap.ok(not any(c.errors or c.crash for c in clients), "two servers draw from one sequence, four sessions",
           [(c.errors, c.messages, c.crash) for c in clients])
    rows, distinct = query(a, """SELECT count(*), count(DISTINCT n) FROM (
        SELECT id AS n FROM q1 UNION ALL SELECT id FROM q2 UNION ALL
        SELECT substr(code, 2)::int FROM q1 UNION ALL SELECT substr(code, 2)::int FROM q2) x""")[0]
    tap.ok(rows == distinct and rows > 100, f"all of {rows} numbers in both tables differ", (rows, distinct))

    query(a, "ALTER SEQUENCE q RESTART 1000000 INCREMENT 1")
    pair.heals("ALTER SEQUENCE", "INSERT INTO q1 (code) VALUES ('restarted')")
    tap.ok(value(b, "SELECT max(id) FROM q1") >= 1000000, "ALTER SEQUENCE: the other server follows")
    query(b, "SELECT setval('q', 2000000)")
    query(a, "CREATE SCHEMA elsewhere")
    query(a, "ALTER SEQUENCE q RENAME TO q_new")
    query(a, "ALTER SEQUENCE q_new SET SCHEMA elsewhere")
    pair.heals("RENAME SEQUENCE", "INSERT INTO q1 (code) VALUES ('renamed')")
    tap.ok(value(b, "SELECT max(id) FROM q1") > 2000000, "RENAME SEQUENCE: the other server's name still leads to it")
    query(b, "ALTER SEQUENCE q RENAME TO q_new")
    query(a, "ALTER SEQUENCE elsewhere.q_new SET SCHEMA public")

    query(a, "ALTER SEQUENCE q_new OWNED BY q1.id")
    state, said = error_of(b, "INSERT INTO q2 (code) VALUES ('owned')")
    if state == "40001":
        state, said = error_of(b, "INSERT INTO q2 (code) VALUES ('owned')")
    tap.ok(state == "42P01" and "OWNED BY" in said, "OWNED BY: the other server gets an error, no number of its own",
           f"{state} {said}")
    query(b, "ALTER SEQUENCE q_new OWNED BY q1.id")
    pair.heals("OWNED BY", "INSERT INTO q2 (code) VALUES ('owned')")
    tap.ok(value(b, "SELECT max(id) FROM q2") > 2000000, "OWNED BY on both: the numbers go on")
    query(a, "ALTER SEQUENCE q_new OWNED BY NONE")
    pair.heals("OWNED BY NONE", "INSERT INTO q1 (code) VALUES ('free')")
    tap.ok(value(b, "SELECT max(id) FROM q1") > 2000000, "OWNED BY NONE: the other server draws on")
    tap.equal(query(a, "SELECT * FROM mosql_fdw_gc('redis') WHERE kind = 'sequence'"), [],
              "mosql_fdw_gc knows nothing against it")

    query(a, "DROP SEQUENCE q_new CASCADE")
    state, said = error_of(b, "INSERT INTO q1 (code) VALUES ('dropped')")
    if state == "40001":
        state, said = error_of(b, "INSERT INTO q1 (code) VALUES ('dropped')")
    tap.ok(state == "42P01", "DROP SEQUENCE: an error for the other server", f"{state} {said}")
    query(b, "ALTER SEQUENCE q_new OWNED BY NONE")
    tap.equal(query(b, "SELECT finding FROM mosql_fdw_gc('redis') WHERE kind = 'sequence'"),
              [("it is no longer in Redis",)], "DROP SEQUENCE: mosql_fdw_gc lists it")
    query(b, "ALTER SEQUENCE q_new RESTART 3000000")
    pair.heals("DROP SEQUENCE", "INSERT INTO q1 (code) VALUES ('made again')")
    tap.equal(value(b, "SELECT max(id) FROM q1"), 3000000, "RESTART makes it again")


def restore(pair, table):
    """A dump of a table goes to b, in place of what it has."""
    args = lambda s: ["-h", s.args["host"], "-p", s.args["port"], "-U", "postgres"]
    bindir = run(os.environ.get("PG_CONFIG", "pg_config"), "--bindir").strip()
    file = os.path.join(pair.servers[1].home, "dump.sql")
    run(f"{bindir}/pg_dump", *args(pair.servers[0]), "-d", "shared", "-t", table, "-f", file)
    query(pair.b, f"SET mosql_fdw.drop_data = off; DROP FOREIGN TABLE {table}; RESET mosql_fdw.drop_data")
    # the library is loaded before setval() comes, by CREATE FOREIGN TABLE
    run(f"{bindir}/psql", *args(pair.servers[1]), "-X", "-v", "ON_ERROR_STOP=1", "-d", "shared", "-f", file)


def types(pair):
    """Types are each server's own: one that changed its own is no reason for the other to read wrong rows."""
    a, b = pair.a, pair.b

    def now(conn, sql):
        state, said = error_of(conn, sql)
        return error_of(conn, sql) if state == "40001" else (state, said)

    def tells(what, conn, sql, state, hint):
        got, said = now(conn, sql)
        tap.ok(got == state and hint in said, f"{what}: {state}, and what to do", f"{got} {said}")

    def works(what, conn, sql, rows):
        tap.equal(now(conn, sql), (None, rows), what)
    for conn in (a, b):
        query(conn, "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE couple AS (x int, y int)")
    query(a, """CREATE FOREIGN TABLE e (id int OPTIONS (key 'true'), m mood DEFAULT 'sad', ms mood[], c couple,
                CHECK (m <> 'sad' OR id < 90)) SERVER redis""")
    query(a, "CREATE FOREIGN TABLE f (m mood OPTIONS (key 'true'), n int) SERVER redis")
    query(a, "CREATE INDEX e_m ON e (m); CREATE INDEX e_sad ON e (id) WHERE m = 'sad'")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (e, f) FROM SERVER redis INTO public")
    query(a, "INSERT INTO e VALUES (1, 'sad', '{ok,sad}', (1, 2)), (2, 'ok', '{}', NULL)")
    query(b, "INSERT INTO f VALUES ('sad', 1), ('ok', 2)")

    query(b, "BEGIN")
    query(b, "INSERT INTO e VALUES (3, 'sad')")
    query(a, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
    pair.fails("RENAME VALUE", "COMMIT", "40001")
    tells("RENAME VALUE: its rows", b, "SELECT id FROM e WHERE m::text <> ''", "55000", "RENAME VALUE")
    tells("RENAME VALUE: the former name", b, "INSERT INTO f VALUES ('sad', 3)", "55000", "RENAME VALUE")
    tells("RENAME VALUE: looking for it", b, "SELECT * FROM f WHERE m = 'sad'", "55000", "RENAME VALUE")
    works("RENAME VALUE: other rows", b, "SELECT m FROM e WHERE id = 2", [("ok",)])
    query(b, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'")
    works("RENAME VALUE on both", b, "SELECT id, m, ms::text FROM e WHERE m = 'blue'", [(1, "blue", "{ok,blue}")])
    works("RENAME VALUE on both: a key", b, "SELECT n FROM f WHERE m = 'blue'", [(1,)])
    works("RENAME VALUE on both: writing", b, "INSERT INTO e VALUES (4, 'blue') RETURNING m", [("blue",)])
    works("RENAME VALUE on both: an index", a, "SELECT id FROM e WHERE m = 'blue' ORDER BY id", [(1,), (4,)])

    query(b, "ALTER TYPE mood ADD VALUE 'sad' BEFORE 'ok'")
    works("ADD VALUE", b, "INSERT INTO f VALUES ('sad', 3) RETURNING n", [(3,)])
    tells("ADD VALUE: its rows", a, "SELECT * FROM f", "55000", "ADD VALUE")
    query(a, "ALTER TYPE mood ADD VALUE 'sad'")
    works("ADD VALUE on both", a, "SELECT m, n FROM f ORDER BY n", [("blue", 1), ("ok", 2), ("sad", 3)])
    works("ADD VALUE on both, in another order", b, "SELECT m FROM f ORDER BY m", [("blue",), ("sad",), ("ok",)])

    for conn in (a, b):
        query(conn, "CREATE TYPE boxed AS (m mood); CREATE TYPE moods AS RANGE (subtype = mood)")
    query(a, "CREATE FOREIGN TABLE g (id int OPTIONS (key 'true'), b boxed, r moods) SERVER redis")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (g) FROM SERVER redis INTO public")
    query(a, "ALTER TYPE mood ADD VALUE 'new'")
    query(a, "INSERT INTO g VALUES (1, ROW('new'), NULL), (2, NULL, '[new,new]')")
    for rows in (1, 2):
        tells("ADD VALUE, within another type", b, f"SELECT * FROM g WHERE id = {rows}", "55000", "ADD VALUE")
    query(b, "ALTER TYPE mood ADD VALUE 'new'")
    works("ADD VALUE on both, within another type", b, "SELECT b::text, r::text FROM g ORDER BY id",
          [("(new)", None), (None, "[new,new]")])
    query(a, "DROP FOREIGN TABLE g")
    query(b, "DROP FOREIGN TABLE g")

    # a session's first command
    with contextlib.closing(pair.servers[0].connect("shared")) as conn:
        query(conn, "ALTER TYPE mood RENAME TO mood_new")
    works("RENAME TO, first of a session", a, "SELECT m FROM e WHERE id = 1", [("blue",)])
    with contextlib.closing(pair.servers[0].connect("shared")) as conn:
        query(conn, "ALTER TYPE mood_new RENAME TO mood")

    query(a, "ALTER TYPE mood RENAME TO mood_old; CREATE TYPE mood AS ENUM ('other')")
    works("RENAME TO", a, "SELECT m FROM e WHERE id = 1", [("blue",)])
    tells("RENAME TO: the other server", b, "SELECT m FROM e WHERE id < 2", "42P16", "ALTER TYPE")
    query(b, "ALTER TYPE mood RENAME TO mood_old")
    works("RENAME TO on both", b, "SELECT m FROM e WHERE m = 'blue' AND id = 1", [("blue",)])
    works("RENAME TO on both: writing", b, "INSERT INTO e (id) VALUES (5) RETURNING m", [("blue",)])

    query(a, "ALTER TYPE couple RENAME ATTRIBUTE x TO z; ALTER TYPE couple RENAME ATTRIBUTE y TO x")
    attempt(b, "SELECT 1 FROM e")
    tells("RENAME ATTRIBUTE: the other server", b, "SELECT (c).x FROM e WHERE id < 2", "42P16", "ALTER TYPE")
    query(b, "ALTER TYPE couple RENAME ATTRIBUTE x TO z; ALTER TYPE couple RENAME ATTRIBUTE y TO x")
    works("RENAME ATTRIBUTE on both", b, "SELECT (c).x FROM e WHERE id = 1", [(2,)])
    tells("ADD ATTRIBUTE", b, "ALTER TYPE couple ADD ATTRIBUTE w int", "0A000", "e.c")
    query(b, "SET mosql_fdw.drop_data = off; DROP FOREIGN TABLE e; RESET mosql_fdw.drop_data")
    query(b, "ALTER TYPE couple ADD ATTRIBUTE w int")
    tells("another type of that name", b,
          "IMPORT FOREIGN SCHEMA public LIMIT TO (e) FROM SERVER redis INTO public", "42P16", "ALTER TYPE")
    for table in ("e", "f"):
        tap.equal(findings(a, table), ([], []), "mosql_fdw_check finds nothing")


def promises(pair):
    """What is promised of rows is true of those that the other server writes meanwhile."""
    a, b = pair.a, pair.b
    query(a, "CREATE DOMAIN few AS int; CREATE FOREIGN TABLE u (id int OPTIONS (key 'true'), n few) SERVER redis")
    query(a, "CREATE TABLE us (id int, n few) PARTITION BY RANGE (id)")
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (u) FROM SERVER redis INTO public")
    query(b, "INSERT INTO u VALUES (1, 1)")
    for what, promise, row in (
            ("ATTACH PARTITION", "ALTER TABLE us ATTACH PARTITION u FOR VALUES FROM (0) TO (10)", "(99, 1)"),
            ("ALTER DOMAIN", "ALTER DOMAIN few ADD CHECK (VALUE < 5)", "(2, 7)")):
        query(a, "BEGIN")
        query(a, promise)
        states = []
        writer = threading.Thread(target=lambda: states.append(error_of(b, f"INSERT INTO u VALUES {row}")[0]))
        writer.start()
        writer.join(1)
        tap.ok(writer.is_alive(), f"{what}: such a row waits")
        tap.equal(error_of(a, "ROLLBACK")[0], None, f"{what}, rolled back")
        writer.join(60)
        tap.equal(states, [None], f"{what}, rolled back: the row comes")
        tap.equal(error_of(a, promise)[0], "23514", f"{what}, which it does not allow: 23514")
        query(b, f"DELETE FROM u WHERE id = {row[1:].split(',')[0]}")
        query(a, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM u")
        query(a, promise)
        query(b, f"INSERT INTO u VALUES {row}")
        tap.equal(error_of(a, "COMMIT")[0], "40001", f"{what} at a snapshot, and such a row meanwhile: 40001")
        tap.equal(error_of(a, promise)[0], "23514", f"{what}, once more: 23514")
        query(b, f"DELETE FROM u WHERE id = {row[1:].split(',')[0]}")
        state = [error_of(a, promise)[0] for again in range(2)]
        tap.ok(None in state, f"{what}, when the row is gone", state)
    again = """CREATE FOREIGN TABLE again (id int OPTIONS (key 'true'), n int NOT NULL) SERVER redis
               OPTIONS (schema_name 'public', table_name 'u')"""
    query(a, "BEGIN")
    query(a, again)
    query(b, "INSERT INTO u VALUES (5, 1), (6, NULL)")
    tap.equal(error_of(a, "COMMIT")[0], None, "attaching with more declared, while others write")
    query(a, "SET mosql_fdw.drop_data = off; DROP FOREIGN TABLE again; RESET mosql_fdw.drop_data")
    tap.equal(error_of(a, again)[0], "23502", "attaching with more declared than is true")
    query(a, "BEGIN; SAVEPOINT s")
    query(a, "ALTER DOMAIN few ADD CHECK (VALUE < 50); ROLLBACK TO s")
    query(a, "INSERT INTO u VALUES (3, 3)")
    query(b, "CREATE INDEX ON u (n)")
    tap.equal(error_of(a, "COMMIT")[0], "40001", "a promise rolled back leaves the definition to be checked")
    tap.equal(findings(a, "u"), ([], []), "mosql_fdw_check finds nothing")


def dump_and_restore(pair):
    a, b = pair.a, pair.b
    before = value(a, "SELECT nextval('s_n_seq')")
    restore(pair, "s")
    tap.ok(value(b, "SELECT nextval('s_n_seq')") > before,
           "a restored dump attaches, and sets no sequence back")
    state, said = error_of(b, "INSERT INTO s (v) VALUES ('restored')")
    if state == "40001":
        state, said = error_of(b, "INSERT INTO s (v) VALUES ('restored')")
    tap.ok(state is None, "a restored dump draws identities from the shared sequence", f"{state} {said}")
    tap.equal(query(b, "SELECT count(*) FROM s"), query(a, "SELECT count(*) FROM s"),
              "a restored dump attaches to the rows")


def body():
    cluster = Cluster("catalog")
    servers = [Server("catalog1"), Server("catalog2")]
    for server in servers:
        make_database(server, "shared", cluster.nodes)
    pair = Pair(servers, cluster.nodes)
    for part in (same_table_at_once, different_tables_at_once, columns, indexes, computed_indexes,
                 truncate_and_drop, sequences, details, retyped, rules, first_commands, named_sequences,
                 types, promises, dump_and_restore):
        with section(part.__name__):
            part(pair)
    for server in servers:
        tap.equal(server.crashes(), [], "no backend crashed")


main(body)
