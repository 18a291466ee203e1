#!/usr/bin/python3
"""Extensions that commit elsewhere, in the same transaction: postgres_fdw.

It commits on its remote servers in its pre-commit callback.  What it commits must not stay
when our part is refused; and where its remote server does not answer, it can be cancelled.
"""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

DDL = """CREATE FOREIGN TABLE ours (id int OPTIONS (key 'true') NOT NULL, n int) SERVER redis;
         INSERT INTO ours VALUES (1, 0);
         CREATE TABLE theirs (id int PRIMARY KEY);
         CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN IF new.id > 100 THEN PERFORM pg_sleep(600); END IF; RETURN NULL; END';
         CREATE CONSTRAINT TRIGGER hang AFTER INSERT ON theirs DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION hang()"""
NEIGHBOUR = """CREATE EXTENSION postgres_fdw;
               CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{host}', port '{port}', dbname '{dbname}');
               CREATE USER MAPPING FOR CURRENT_USER SERVER self OPTIONS (user '{user}');
               CREATE FOREIGN TABLE remote (id int) SERVER self OPTIONS (table_name 'theirs')"""


def body():
    cluster = Cluster("neighbours")
    server = Server("neighbours")
    for engine in ("script", "watch"):
        db = "neighbours_" + engine
        make_database(server, db, cluster.nodes, {"atomic": engine}, DDL)
        # without locks: a COMMIT shall be refused, and no neighbour's row waits for ours
        with contextlib.closing(server.connect(db, **{"mosql_fdw.locking": "optimistic"})) as conn, \
                contextlib.closing(server.connect(db)) as other:
            where = conn.get_dsn_parameters()
            query(conn, NEIGHBOUR.format(**where))
            for i, order in enumerate((("ours", "remote"), ("remote", "ours"))):
                at = f"{engine}, {' before '.join(order)}"
                use = {"ours": "SELECT n FROM ours WHERE id = 1 FOR UPDATE", "remote": f"INSERT INTO remote VALUES ({i})"}
                query(conn, "SELECT count(*) FROM remote")      # it registers its callback, once
                query(conn, "BEGIN")
                for table in order:
                    query(conn, use[table])
                query(other, "UPDATE ours SET n = n * 2 + 1")
                tap.equal(attempt(conn, "COMMIT")[1], "40001", f"{at}: ours is refused")
                tap.equal(value(other, f"SELECT count(*) FROM theirs WHERE id = {i}"), 0, f"{at}: and nothing stays there")
                query(conn, "BEGIN")
                for table in order:
                    query(conn, use[table])
                tap.equal(attempt(conn, "COMMIT")[1], None, f"{at}: both commit")
                tap.equal(value(other, f"SELECT count(*) FROM theirs WHERE id = {i}"), 1, f"{at}: and are there")

            for function in ("pg_cancel_backend", "pg_terminate_backend"):
                at = f"{engine}, its remote COMMIT hangs, {function}"
                query(conn, "BEGIN; UPDATE ours SET n = -1 WHERE id = 1; INSERT INTO remote VALUES (101)")
                result = []
                t = threading.Thread(target=lambda: result.append(error_of(conn, "COMMIT")))
                t.start()
                wait_until(lambda: value(other, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"))
                query(other, f"SELECT {function}(%s)", (conn.info.backend_pid,))
                t.join(LONG_WAIT)
                tap.ok(result and result[0][0] in ("08007", "gone"), f"{at}: it can be ended, and says what is committed", result)
                query(other, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
                t.join(60)
                tap.equal((value(other, "SELECT n FROM ours"), value(other, "SELECT count(*) FROM theirs WHERE id = 101")),
                          (-1, 0), f"{at}: as it says")
                query(other, "UPDATE ours SET n = 0")


main(body)
