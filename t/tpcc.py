#!/usr/bin/python3
"""TPC-C, small, at READ COMMITTED: eight clients on two PostgreSQL servers, and foreign keys.

As with PostgreSQL's own tables no transaction fails, and the consistency conditions of the
specification hold.  Engine script on a plain Redis, watch on a cluster.  What it is:
test/lib/tpcc.py; its rates: bench/tpcc.

    t/tpcc.py [SECONDS]"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import tpcc
from mosqltest import *

SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
CLIENTS = 4                     # on each server
# few customers: many want the same ones
SCALE = tpcc.Scale(items=300, customers=30)


def make(servers, db, nodes, engine):
    for i, server in enumerate(servers):
        make_database(server, db, nodes, {"atomic": engine})
        with contextlib.closing(server.connect(db)) as conn:
            query(conn, "SELECT mosql_fdw_enable('redis')")
            query(conn, tpcc.SCHEMA)
            if i == 0:
                query(conn, tpcc.load(SCALE))


def check(server, db, what):
    with contextlib.closing(server.connect(db)) as conn:
        for name, wrong in tpcc.checks(SCALE).items():
            tap.equal(query(conn, wrong + " LIMIT 5"), [], f"{what}: {name}")
        tap.equal([f for t in tpcc.TABLES for f in findings(conn, t)[0]], [], f"{what}: nothing is broken in Redis")


def settings_of(server, db):
    return {"PGHOST": server.args["host"], "PGPORT": server.args["port"], "PGUSER": "postgres", "PGDATABASE": db}


def run_clients(servers, db, what):
    crowds = []
    where = os.path.join(TOP, "tmp", PREFIX + "tpcc")
    for server in servers:
        crowds.append(tpcc.Clients(where, tpcc.scripts(SCALE), CLIENTS, settings_of(server, db), seconds=SECONDS))
        stop_at_end(crowds[-1])
    for i, crowd in enumerate(crowds):
        result = crowd.result(SECONDS + 600)
        tap.ok(result.returncode == 0 and not result.failed, f"{what}: no transaction fails on server {i + 1}",
               result.said)
        tap.ok(min(result.done.get(name, 0) for name in ("new_order", "payment")) > 0, f"{what}: server {i + 1} has done some",
               result.said)
        tap.note(f"{what}: server {i + 1}: {result.done}")


def body():
    servers = [Server("tpcc1"), Server("tpcc2")]
    for engine, plain in ("script", True), ("watch", False):
        what = f"{engine}, {'one Redis' if plain else 'a cluster'}"
        with section(what):
            cluster = Cluster(f"tpcc-{engine}", plain=plain)
            db = f"tpcc_{engine}"
            make(servers, db, cluster.nodes, engine)
            check(servers[0], db, f"{what}, loaded")
            run_clients(servers, db, what)
            check(servers[1], db, what)
            cluster.stop()
    for server in servers:
        tap.equal(server.crashes(), [], "no backend died")


main(body)
