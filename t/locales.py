#!/usr/bin/python3
"""Expressions that were written under another locale than they are read under: amounts of money.

    t/locales.py
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

TABLE = """
    CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, m money DEFAULT '1.234,56', CHECK (m < '99.999')) SERVER redis;
    CREATE INDEX big ON t (id) WHERE m > '12,34';
    INSERT INTO t (id) VALUES (1)
"""


def test():
    with tempfile.TemporaryDirectory() as locales:
        os.chmod(locales, 0o755)
        done = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", locales + "/de_DE.UTF-8"], stderr=subprocess.DEVNULL)
        if done.returncode != 0:
            tap.skip("locales", "there is no source of de_DE, which Debian has in its package locales")
            return
        os.environ["LOCPATH"] = locales
        cluster, server = Cluster("locales", plain=True), Server("locales")
        for db in ("german", "other"):
            make_database(server, db, cluster.nodes, {"namespace": "locales"})
        with contextlib.closing(server.connect("german")) as a, contextlib.closing(server.connect("other")) as b:
            query(a, "SET lc_monetary = 'de_DE.UTF-8'")
            query(a, TABLE)
            query(b, "IMPORT FOREIGN SCHEMA public FROM SERVER redis INTO public")
            query(b, "INSERT INTO t (id) VALUES (2)")
            tap.equal(query(b, "SELECT id, m::numeric = 1234.56 FROM t ORDER BY id"), [(1, True), (2, True)], "the default is the same")
            tap.equal(error_of(b, "INSERT INTO t VALUES (3, '$100000')")[0], "23514", "and the CHECK")
            query(b, "INSERT INTO t VALUES (4, '$12.34'), (5, '$12.35')")
            tap.equal(query(a, "SELECT id FROM t WHERE m > '12,34' ORDER BY id"), [(1,), (2,), (5,)], "and the index")
            tap.equal(query(b, "SELECT * FROM mosql_fdw_check('t')"), [], "which is in order")
            tap.equal([query(c, "SELECT mosql_fdw_refresh('t')") for c in (a, b)], [[(None,)], [(None,)]], "they do not differ")
        tap.equal(server.crashes(), [], "no backend died of itself")


main(test)
