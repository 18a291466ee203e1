#!/usr/bin/python3
"""Queues of jobs in JavaScript, unmodified: pg-boss, whose partial indexes compare an enum by order, and whose
later versions make each queue a partition of a table with a key, and graphile-worker, whose installer enables
row-level security.  What they say of tables that plain CREATE TABLE made in Redis is what they say of PostgreSQL's own.

    t/node.py [PROGRAM]...

The libraries come from npm, by versions and hashes that test/clients/node has; without npm, or its
registry, or where they do not run on PostgreSQL's own tables, nothing is tried."""
import concurrent.futures
import difflib
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

CLIENTS = os.path.join(TOP, "test", "clients", "node")
LIBRARIES = os.path.join(TOP, "tmp", "node")
PROGRAMS = ["pgboss", "pgboss10", "pgboss11", "graphile"]
KINDS = ["heap", "ours"]


def fetch():
    os.makedirs(LIBRARIES, exist_ok=True)
    for name in os.listdir(CLIENTS):
        shutil.copy(os.path.join(CLIENTS, name), LIBRARIES)
    try:
        done = subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=LIBRARIES, timeout=600,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except subprocess.TimeoutExpired:
        return "no answer in ten minutes"
    return done.returncode == 0 or done.stdout.strip()[-200:]


def say(server, db, program):
    env = {**os.environ, "PGHOST": server.args["host"], "PGPORT": server.args["port"], "PGUSER": "postgres", "PGDATABASE": db}
    done = subprocess.run(["node", program + ".js"], cwd=LIBRARIES, env=env, timeout=600, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.splitlines()


def compare(server, cluster, program):
    for kind in KINDS:
        db = f"{program}_{kind}"
        with contextlib.closing(server.connect()) as conn:
            query(conn, f"CREATE DATABASE {db}")
        if kind == "ours":
            with contextlib.closing(server.connect(dbname=db)) as conn:
                query(conn, "CREATE EXTENSION mosql_fdw")
                query(conn, f"""CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw
                                OPTIONS (nodes '{cluster.nodes}', namespace '{program}')""")
                query(conn, "SELECT mosql_fdw_enable('redis')")
    with concurrent.futures.ThreadPoolExecutor() as both:
        said = dict(zip(KINDS, both.map(lambda kind: say(server, f"{program}_{kind}", program), KINDS)))
    if not said["heap"]:
        tap.skip(program, "it does not run on PostgreSQL's own tables: this node is too old for it, perhaps")
        return
    differing = [line for line in difflib.unified_diff(said["heap"], said["ours"], "PostgreSQL's own", "ours", lineterm="")]
    tap.ok(not differing, f"{program}: {len(said['ours'])} lines, the same", differing)
    with contextlib.closing(server.connect(dbname=f"{program}_ours")) as conn:
        wrong = query(conn, "SELECT t.ftrelid::regclass::text, c.* FROM pg_foreign_table t, mosql_fdw_check(t.ftrelid) c")
        tap.ok(not wrong, f"{program}: the trees are sound", wrong)


def body():
    if not shutil.which("npm") or not shutil.which("node"):
        tap.skip("queues in JavaScript", "there is no npm")
        return
    fetched = fetch()
    if fetched is not True:
        tap.skip("queues in JavaScript", "npm ci: " + fetched.replace("\n", " "))
        return
    server = Server("node")
    cluster = Cluster("node", plain=True)
    for program in sys.argv[1:] or PROGRAMS:
        compare(server, cluster, program)
    tap.equal(server.crashes(), [], "no backend died")


main(body)
