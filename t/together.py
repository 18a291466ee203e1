#!/usr/bin/python3
"""PostgreSQL's own commit beside that in Redis: what may refuse it does so before Redis has
decided, and if it fails all the same afterwards the error says so, and no rows are
destroyed.

    t/together.py"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

TABLES = """
    CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, v text) SERVER redis;
    INSERT INTO t SELECT n, 'old' FROM generate_series(1, 1000) n;
    CREATE TABLE mine (id int PRIMARY KEY, v text);
    INSERT INTO mine VALUES (1, 'old');"""


def state(conn):
    """The row of ours, and PostgreSQL's own."""
    return (value(conn, "SELECT v FROM t WHERE id = 1"), value(conn, "SELECT v FROM mine WHERE id = 1"))


def begin(conn, *statements):
    query(conn, "BEGIN")
    for sql in statements:
        query(conn, sql)


def keys(cluster):
    return sum(cluster.everywhere("DBSIZE"))


def notify(cluster, server):
    """The lock of NOTIFY is with a transaction that waits for a standby that is not there."""
    a, b = server.connect("shared"), server.connect("shared", synchronous_commit="on")
    waiting = threading.Thread(target=lambda: attempt(b, "INSERT INTO mine VALUES (9, ''); NOTIFY other"))
    waiting.start()
    wait_until(lambda: value(a, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == 1)
    query(a, "SET lock_timeout = '200ms'")

    begin(a, "UPDATE t SET v = 'new' WHERE id = 1", "UPDATE mine SET v = 'new'", "NOTIFY x")
    tap.equal(attempt(a, "COMMIT")[1], "55P03", "NOTIFY: COMMIT waits for its lock no longer than lock_timeout")
    tap.equal(state(a), ("old", "old"), "NOTIFY: and then nothing is committed")
    before = keys(cluster)
    begin(a, "DROP FOREIGN TABLE t", "NOTIFY x")
    tap.equal(attempt(a, "COMMIT")[1], "55P03", "NOTIFY: the same of a DROP")
    tap.equal(value(a, "SELECT count(*) FROM t"), 1000, "NOTIFY: and the rows are there")
    tap.ok(keys(cluster) >= before, "NOTIFY: all of them")
    query(server_wide, "SELECT pg_cancel_backend(%s)", (b.info.backend_pid,))
    waiting.join()

    heard = server.connect("shared")
    query(heard, "LISTEN x")
    begin(a, "UPDATE t SET v = 'new' WHERE id = 1", "NOTIFY x, 'once'")
    query(a, "COMMIT")
    time.sleep(0.2)
    heard.poll()
    tap.equal([n.payload for n in heard.notifies], ["once"], "NOTIFY: heard once")
    query(a, "UPDATE t SET v = 'old' WHERE id = 1")
    for c in (a, b, heard):
        c.close()


def on_commit(conn):
    begin(conn, "UPDATE t SET v = 'new' WHERE id = 1",
          "CREATE TEMP TABLE p (id int PRIMARY KEY) ON COMMIT DELETE ROWS",
          "CREATE TEMP TABLE c (id int REFERENCES p) ON COMMIT PRESERVE ROWS")
    tap.equal(attempt(conn, "COMMIT")[1], "0A000", "ON COMMIT DELETE ROWS refuses because of a foreign key")
    tap.equal(state(conn), ("old", "old"), "... and then nothing is committed")
    query(conn, "CREATE TEMP TABLE kept (id int) ON COMMIT DELETE ROWS")
    begin(conn, "INSERT INTO kept VALUES (1)", "UPDATE t SET v = 'new' WHERE id = 1")
    query(conn, "COMMIT")
    tap.equal((value(conn, "SELECT count(*) FROM kept"), state(conn)), (0, ("new", "old")),
              "ON COMMIT DELETE ROWS deletes them")
    begin(conn, "CREATE TEMP TABLE gone (a int, b int) ON COMMIT DROP",
          "CREATE FOREIGN TABLE f (id int OPTIONS (key 'true') NOT NULL, x gone, y int) SERVER redis",
          "INSERT INTO f VALUES (1, (2, 3), 4)")
    query(conn, "COMMIT")
    tap.equal(attempt(conn, "SELECT * FROM f"), ([(1, 4)], None),
              "a column that ON COMMIT DROP takes along is dropped in Redis, too")
    query(conn, "DROP FOREIGN TABLE f; UPDATE t SET v = 'old' WHERE id = 1")


def failing(cluster, server):
    """An error after the decision, as of a disk that fails."""
    conn = server.connect("shared")

    def fails(name, *statements):
        begin(conn, *statements)
        query(conn, "SET LOCAL mosql_fdw.debug_error_at = 'after-decide'")
        code, message = error_of(conn, "COMMIT")
        tap.equal(code, "08007", f"{name}: PostgreSQL's commit fails after the decision: 08007")
        tap.ok('after it was done in namespace "shared"' in message, f"{name}: the error says so", message)

    fails("UPDATE", "UPDATE t SET v = 'new' WHERE id = 1", "UPDATE mine SET v = 'new'")
    tap.equal(state(conn), ("new", "old"), "UPDATE: as it says")
    query(conn, "UPDATE t SET v = 'old' WHERE id = 1")

    fails("CREATE", "CREATE FOREIGN TABLE made (id int OPTIONS (key 'true') NOT NULL) SERVER redis",
          "INSERT INTO made SELECT generate_series(1, 1000)")
    tap.equal(attempt(conn, "SELECT 1 FROM made")[1], "42P01", "CREATE: not here")
    query(conn, "IMPORT FOREIGN SCHEMA public LIMIT TO (made) FROM SERVER redis INTO public")
    tap.equal(value(conn, "SELECT count(*) FROM made"), 1000, "CREATE: but in Redis, with its rows")

    before = keys(cluster)
    fails("DROP", "DROP FOREIGN TABLE made")
    tap.equal(attempt(conn, "SELECT count(*) FROM made")[1], "42P01", "DROP: done in Redis")
    tap.ok(keys(cluster) >= before, "DROP: its rows are not destroyed", f"{before} keys, {keys(cluster)}")
    tap.ok(any("made" in str(row) for row in query(conn, "SELECT * FROM mosql_fdw_gc('redis')")),
           "DROP: mosql_fdw_gc() names the table")
    query(conn, "DROP FOREIGN TABLE made")

    before = keys(cluster)
    fails("TRUNCATE", "TRUNCATE t", "INSERT INTO t VALUES (1, 'old')")
    tap.equal(value(conn, "SELECT count(*) FROM t"), 1, "TRUNCATE: done in Redis")
    tap.ok(keys(cluster) >= before, "TRUNCATE: the former rows are not destroyed")

    fails("ALTER", "ALTER FOREIGN TABLE t ADD COLUMN w int DEFAULT 7")
    tap.equal(attempt(conn, "SELECT * FROM t")[1], "42P16", "ALTER: this server's table differs")
    query(conn, "SELECT mosql_fdw_refresh('t')")
    tap.equal(attempt(conn, "SELECT * FROM t"), ([(1, 'old', 7)], None), "ALTER: until it is refreshed")
    tap.equal(findings(conn, "t")[0], [], "all is in order")
    conn.close()


def procedures(conn):
    """COMMIT inside a procedure, COMMIT AND CHAIN: interrupts work afterwards."""
    query(conn, "CREATE PROCEDURE many() LANGUAGE plpgsql AS 'BEGIN FOR i IN 1..5 LOOP "
          "UPDATE t SET v = i WHERE id = 1; UPDATE mine SET v = i; COMMIT; END LOOP; END'")
    query(conn, "CALL many()")
    tap.equal(state(conn), ("5", "5"), "a procedure commits both")
    begin(conn, "UPDATE t SET v = 'x' WHERE id = 1")
    query(conn, "COMMIT AND CHAIN")
    query(conn, "UPDATE t SET v = 'y' WHERE id = 1")
    query(conn, "COMMIT")
    query(conn, "SET statement_timeout = '100ms'")
    tap.equal(attempt(conn, "SELECT pg_sleep(5)")[1], "57014", "and a timeout is served afterwards")
    begin(conn, "UPDATE t SET v = 'z' WHERE id = 1")
    query(conn, "SET LOCAL mosql_fdw.debug_error_at = 'after-decide'")
    attempt(conn, "COMMIT")
    tap.equal(attempt(conn, "SELECT pg_sleep(5)")[1], "57014", "... after one that failed, too")
    query(conn, "RESET statement_timeout")
    query(conn, "BEGIN; UPDATE t SET v = 'p' WHERE id = 1")
    tap.equal(attempt(conn, "PREPARE TRANSACTION 'p'")[1], "0A000", "PREPARE TRANSACTION is refused")
    tap.equal(state(conn)[0], "z", "... and nothing is there")


def body():
    global server_wide
    cluster = Cluster("together")
    server = Server("together", ["synchronous_standby_names=nobody", "synchronous_commit=local",
                                 "max_prepared_transactions=2"])
    for engine in ENGINES:
        tap.note(f"==== {engine}")
        make_database(server, "shared", cluster.nodes, {"atomic": engine}, TABLES)
        server_wide = server.connect("shared")
        with section("on commit"):
            on_commit(server_wide)
        with section("notify"):
            notify(cluster, server)
        with section("procedures"):
            procedures(server_wide)
        with section("failing"):
            query(server_wide, "UPDATE t SET v = 'old' WHERE id = 1; UPDATE mine SET v = 'old'")
            failing(cluster, server)
        server_wide.close()
        cluster.everywhere("FLUSHALL")
    tap.equal(server.crashes(), [], "no backend crashed")


main(body)
