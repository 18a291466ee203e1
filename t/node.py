#!/usr/bin/python3
"""Queues of jobs in JavaScript, unmodified: pg-boss, whose partial indexes compare an enum by order, and whose
later versions make each queue a partition of a table with a key, and graphile-worker, whose installer enables
row-level security.  What they say of tables that plain CREATE TABLE made in Redis is what they say of PostgreSQL's own.

    t/node.py [PROGRAM]...

The libraries come from npm, by versions and hashes that test/clients/node has; without npm, or its
registry, or where they do not run on PostgreSQL's own tables, nothing is tried."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *
from twice import same_twice

CLIENTS = os.path.join(TOP, "test", "clients", "node")
LIBRARIES = os.path.join(TOP, "tmp", "node")
PROGRAMS = ["pgboss", "pgboss10", "pgboss11", "graphile"]


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
        same_twice(server, cluster, program, ["node", program + ".js"], LIBRARIES)
    tap.equal(server.crashes(), [], "no backend died")


main(body)
