#!/usr/bin/python3
"""pg_upgrade: the new server has the tables with their keys, indexes and foreign keys, and goes on.

    t/upgrade.py

MOSQL_OLD_CHECKOUT: a checkout that finds an older PostgreSQL, from which it is upgraded (script/lane says its own in the
lanes pg16 and assert)."""
import difflib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

TABLES = """
    CREATE TABLE dep (id int PRIMARY KEY, n text CONSTRAINT named UNIQUE);
    CREATE TABLE t (id serial PRIMARY KEY, v int DEFAULT 3, w text NOT NULL,
                    d int REFERENCES dep ON DELETE CASCADE DEFERRABLE, UNIQUE (v, w), CHECK (v > 0));
    CREATE INDEX t_lower ON t (lower(w)) WHERE v > 1;
    CREATE UNIQUE INDEX t_v ON t (v DESC, id) INCLUDE (w);
    COMMENT ON INDEX t_lower IS 'of some';
    CREATE TABLE nokey (a int, g int GENERATED ALWAYS AS (a * 2) STORED);
    CREATE TABLE own (id int PRIMARY KEY) USING heap;
    CREATE VIEW shown AS SELECT t.id, t.w FROM t LEFT JOIN nokey ON nokey.a = t.id;
    INSERT INTO dep VALUES (1, 'a'), (2, 'b');
    INSERT INTO t (w, d) VALUES ('x', 1), ('y', 2);
    INSERT INTO nokey VALUES (5);
    INSERT INTO own VALUES (7);
    CREATE TABLE parent (id int, k text COLLATE "C", v int) PARTITION BY LIST (k);
    ALTER TABLE parent ADD PRIMARY KEY (k, id);
    CREATE UNIQUE INDEX parent_v ON parent (v, k);
    CREATE FOREIGN TABLE part (v int, id int NOT NULL, k text COLLATE "C" NOT NULL) SERVER redis;
    ALTER TABLE parent ATTACH PARTITION part FOR VALUES IN ('x');
    INSERT INTO parent VALUES (1, 'x', 10), (2, 'x', 20);
"""


def programs(server):
    return re.search(r"PATH=([^:]+)", run(*server.script, "env", "--name", server.name))[1]


def schema(server, bin):
    said = run(bin + "/pg_dump", "--schema-only", "-h", server.args["host"], "-p", server.args["port"],
               "-U", "postgres", "postgres")
    return [line for line in said.split("\n") if "restrict" not in line and not line.startswith("-- Dumped")]


def forget_marks(server):
    """Which the old server's minor release sets in attoptions (pg_attver), and a new one that is older does not know."""
    for dbname in ("postgres", "template1"):
        with contextlib.closing(server.connect(dbname)) as c:
            query(c, "SET allow_system_table_mods = on")
            query(c, "UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text ~ '^{pg_attver=[0-9]*}$'")


def as_owner(server, *command):
    """Of its data, which root is not."""
    owner = os.stat(server.home + "/data")
    return subprocess.run(command, cwd=server.home, user=owner.st_uid, group=owner.st_gid, timeout=300, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def has_checksums(server):
    """initdb's default since PostgreSQL 18; pg_upgrade wants old and new alike."""
    with contextlib.closing(server.connect()) as c:
        return value(c, "SHOW data_checksums") == "on"


def upgrade(old_bin, bin, old, new):
    return as_owner(new, bin + "/pg_upgrade", "-b", old_bin, "-B", bin, "-d", old.home + "/data", "-D", new.home + "/data",
                    "-s", new.args["host"], "-U", "postgres", "-p", "6543", "-P", "6544")


def partition_goes_on(c):
    """Its indexes are parts of the parent's, as ON CONFLICT asks."""
    tap.equal(query(c, """INSERT INTO parent VALUES (1, 'x', 11), (3, 'x', 30) ON CONFLICT (k, id) DO UPDATE SET v = excluded.v
                          RETURNING id, v"""), [(1, 11), (3, 30)], "partitions have the parent's key")
    tap.equal([error_of(c, sql)[0] for sql in (
        "INSERT INTO parent VALUES (3, 'x', 31)", "INSERT INTO parent VALUES (4, 'x', 30)", "DROP INDEX part_v_k_idx")],
        ["23505", "23505", "2BP01"], "and its unique index")


def goes_on(c):
    tap.equal(query(c, "SELECT * FROM shown ORDER BY id"), [(1, "x"), (2, "y")], "rows are there")
    tap.equal(query(c, "SELECT * FROM nokey"), [(5, 10)], "also of a table without a key")
    tap.equal(query(c, "SELECT * FROM own"), [(7,)], "and of PostgreSQL's own")
    tap.equal(query(c, "SELECT * FROM mosql_fdw_gc('redis')"), [], "it is what Redis says")
    tap.equal([error_of(c, sql)[0] for sql in (
        "INSERT INTO t (id, w) VALUES (1, 'z')", "INSERT INTO t (v, w) VALUES (3, 'x')",
        "INSERT INTO t (w, d) VALUES ('z', 9)", "INSERT INTO t (v, w) VALUES (0, 'z')",
        "INSERT INTO dep VALUES (3, 'a')")],
        ["23505", "23505", "23503", "23514", "23505"], "keys, foreign keys and checks hold")
    tap.ok(value(c, "INSERT INTO t (w, d) VALUES ('z', 2) RETURNING id") > 2, "the sequence goes on")
    query(c, "DELETE FROM dep WHERE id = 2")
    tap.equal(query(c, "SELECT w FROM t"), [("x",)], "actions of foreign keys are carried out")
    tap.equal(query(c, "SELECT * FROM mosql_fdw_check('t')"), [], "the tree is in order")
    partition_goes_on(c)
    query(c, "DROP INDEX t_lower; CREATE INDEX t_lower ON t (lower(w)); ALTER TABLE t DROP CONSTRAINT t_v_w_key")
    tap.equal(query(c, "SELECT * FROM mosql_fdw_gc('redis')"), [], "DDL, too")


def test():
    cluster = Cluster("upgrade", plain=True)
    old, new = Server("upgrade-old", checkout=os.environ.get("MOSQL_OLD_CHECKOUT")), Server("upgrade-new")
    with contextlib.closing(old.connect()) as c:
        query(c, "CREATE EXTENSION mosql_fdw")
        query(c, f"CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes '{cluster.nodes}')")
        query(c, "SELECT mosql_fdw_enable('redis')")
    with contextlib.closing(old.connect()) as c:
        query(c, TABLES)
    forget_marks(old)
    bin = programs(new)
    old_bin, before = programs(old), schema(old, bin)
    if not os.path.exists(bin + "/pg_upgrade"):
        tap.skip("pg_upgrade", "this PostgreSQL comes without it")
        return
    enable = has_checksums(new) and not has_checksums(old)
    old.stop("fast")
    new.stop("fast")
    if enable:
        as_owner(old, old_bin + "/pg_checksums", "--enable", "-D", old.home + "/data")
    done = upgrade(old_bin, bin, old, new)
    versions = " to ".join(run(b + "/postgres", "--version").split()[2] for b in (old_bin, bin))
    if not tap.ok(done.returncode == 0, "pg_upgrade from " + versions, done.stdout):
        return
    new.restart("fast")
    tap.equal(list(difflib.unified_diff(before, schema(new, bin), n=0)), [], "pg_dump says the same")
    with contextlib.closing(new.connect()) as c:
        goes_on(c)
    tap.equal(new.crashes(), [], "no backend crashed")


main(test)
