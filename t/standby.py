#!/usr/bin/python3
"""A hot standby of a PostgreSQL server is a front-end that reads: what others write, too; and writes once it is promoted.

    t/standby.py
"""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

LEASE = 5                       # seconds, of a snapshot that is to outlive it
SETTINGS = ["shared_preload_libraries=mosql_fdw", "mosql_fdw.maintenance_naptime=1"]
TABLES = """
    CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, v int) SERVER redis;
    CREATE SEQUENCE s;
    ALTER TABLE t ALTER v SET DEFAULT nextval('s');
    INSERT INTO t (id) SELECT generate_series(1, 10);
"""
WRITES = ("INSERT INTO t VALUES (0)", "UPDATE t SET v = 0", "DELETE FROM t", "TRUNCATE t", "SELECT FROM t FOR UPDATE",
          "SELECT nextval('s')", "SELECT mosql_fdw_setval('s', 100)", "DROP FOREIGN TABLE t", "ANALYZE t",
          "CREATE FOREIGN TABLE u (id int) SERVER redis", "SELECT mosql_fdw_enable('redis')")


def as_owner(server, *command):
    """Of its home, which root is not."""
    owner = os.stat(server.home)
    done = subprocess.run(command, cwd=server.home, user=owner.st_uid, group=owner.st_gid, timeout=300, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(done.stdout)


def make_standby(server, primary):
    bin = re.search(r"PATH=([^:]+)", run(*server.script, "env", "--name", server.name))[1]
    data = server.home + "/data"
    server.stop()
    shutil.rmtree(data)
    as_owner(server, bin + "/pg_basebackup", "-D", data, "-R", "-c", "fast", "-h", primary.args["host"], "-p", primary.args["port"],
             "-U", "postgres")
    with open(data + "/postgresql.conf", "a") as conf:
        conf.write(f"unix_socket_directories = '{server.args['host']}'\n")
    server.restart()


def caught_up(primary, standby):
    lsn = value(primary, "SELECT pg_current_wal_lsn()")
    return wait_until(lambda: value(standby, "SELECT pg_last_wal_replay_lsn() >= %s", (lsn,)))


def reads(db, primary, other):
    with contextlib.closing(other.connect(db)) as c:
        caught_up(primary, c)
        tap.ok(value(c, "SELECT pg_is_in_recovery()"), "it is a standby")
        tap.equal(value(c, "SELECT count(*) FROM t"), 10, "it reads")
        query(primary, "ALTER TABLE t ADD COLUMN more int DEFAULT 7; CREATE INDEX ON t (v)")
        caught_up(primary, c)
        tap.equal(query(c, "SELECT more FROM t WHERE v = 5"), [(7,)], "also what was altered since")
        tap.equal([attempt(c, sql)[1] for sql in WRITES], ["25006"] * len(WRITES), "it writes nothing")
        tap.equal(value(c, "SELECT last_value FROM s"), 10, "it knows where sequences stand")
        tap.equal(query(c, "SELECT * FROM mosql_fdw_check('t')"), [], "it checks")
        query(c, "SELECT mosql_fdw_advisory_lock('redis', 1)")
        tap.equal(value(primary, "SELECT mosql_fdw_try_advisory_lock('redis', 1)"), False, "it locks numbers")
        query(c, "SELECT mosql_fdw_advisory_unlock('redis', 1)")


def maintains(db, primary, other):
    """By hand; the primary has the statistics."""
    query(primary, "INSERT INTO t (id) SELECT generate_series(1000, 3000)")
    with contextlib.closing(other.connect(db)) as c:
        caught_up(primary, c)
        wait_until(lambda: value(c, "SELECT reltuples FROM pg_class WHERE relname = 't'") > 2000)
        query(primary, "ALTER SYSTEM SET mosql_fdw.maintenance = off")
        query(primary, "SELECT pg_reload_conf()")
        query(primary, "DELETE FROM t WHERE id >= 1000")
        wait_until(lambda: value(primary, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'mosql_fdw maintenance'") == 0)
        tap.equal(query(c, "SELECT outcome, tables_analyzed FROM mosql_fdw_maintain('redis')"), [("done", 0)],
                  "it maintains, but for statistics")


def holds(db, primary, other):
    """The standby's keeper extends the lease."""
    with contextlib.closing(other.connect(db, **{"mosql_fdw.debug_lease": LEASE * 1000, "mosql_fdw.snapshot_cache": 0})) as c:
        query(c, "BEGIN ISOLATION LEVEL REPEATABLE READ")
        before = value(c, "SELECT sum(v) FROM t")
        query(primary, "UPDATE t SET v = v + 1")
        time.sleep(2 * LEASE)
        tap.equal(error_of(c, "SELECT sum(v) FROM t"), (None, [(before,)]), "its snapshots live for longer than a lease")


def promoted(db, primary, other):
    with contextlib.closing(other.connect(db)) as c:
        query(c, "SELECT pg_promote()")
        tap.equal(value(c, "INSERT INTO t (id) VALUES (11) RETURNING v > 10"), True, "promoted, it writes")
        query(c, "ALTER TABLE t ADD COLUMN last text")
        tap.ok(wait_until(lambda: attempt(primary, "SELECT * FROM t")[1] == "42P16"),    # one column more does no harm: within a second
               "the other one is another front-end now")
        query(primary, "SELECT mosql_fdw_refresh('t')")
        tap.equal(value(primary, "SELECT count(last) FROM t WHERE id = 11"), 0, "and goes on")


def test():
    cluster = Cluster("standby", plain=True)
    one, other = Server("standby1", SETTINGS), Server("standby2", SETTINGS)
    db = "standby"
    make_database(one, db, cluster.nodes, {}, TABLES)
    make_standby(other, one)
    with contextlib.closing(one.connect(db)) as primary:
        for part in (reads, holds, maintains, promoted):
            part(db, primary, other)
    tap.equal(one.crashes() + other.crashes(), [], "no process died of itself")


main(test)
