#!/usr/bin/python3
"""Extensions that commit elsewhere, in the same transaction: postgres_fdw.

It commits on its remote servers in its pre-commit callback.  What it commits must not stay
when our part is refused.
"""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

DDL = """CREATE FOREIGN TABLE ours (id int OPTIONS (key 'true') NOT NULL, n int) SERVER redis;
         INSERT INTO ours VALUES (1, 0);
         CREATE TABLE theirs (id int PRIMARY KEY)"""
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
        with contextlib.closing(server.connect(db)) as conn, contextlib.closing(server.connect(db)) as other:
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


main(body)
