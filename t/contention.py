#!/usr/bin/python3
"""SERIALIZABLE transactions that all read a table and insert a row into it, on two
front-ends: of those that run at the same time one can commit.  Somebody always gets
through, and many clients do not come to less than half of what one does.

    t/contention.py [--seconds N] [--rounds N] [--clients 1,8,16] [--engines script,watch] [--native]

By hand, with --rounds 3, it takes the median; the numbers of clients take turns.
--native compares with a PostgreSQL table, at SERIALIZABLE, on one server."""
import argparse
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

ROWS = 200
# Seconds without any commit, mostly .1, of the eight; where all are in each other's way nobody gets through.
WORST_GAP = 6
# Of the rate of one client, mostly .6 (bench/README.md has figures), though the one may have had the machine
# for himself, and the others may not.
WORST_RATIO = .06

SCRIPT = """\\set id random(1, 2000000000)
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*), sum(n) FROM t;
INSERT INTO t VALUES (:id, :client_id);
COMMIT;
"""


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=int, default=8)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--clients", default="1,16")
    p.add_argument("--engines", default="script,watch")
    p.add_argument("--native", action="store_true")
    return p.parse_args()


def start(servers, database, clients, seconds, path, log):
    """pgbench on each server; every transaction is tried until it commits."""
    out = []
    for i, server in enumerate(servers):
        n = clients // len(servers) + (i < clients % len(servers))
        if n == 0:
            continue
        out.append(subprocess.Popen(
            ["pgbench", "-n", "-c", str(n), "-j", "1", "-T", str(seconds), "--max-tries=0", f"--random-seed={2 * clients + i}", "-f", path,
             "-l", f"--log-prefix={log}-{i}", "-h", server.args["host"], "-p", server.args["port"], "-U", "postgres", database],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    return out


def run_clients(servers, database, clients, seconds):
    """Commits per second, the longest time without one, and the tries that failed."""
    where = os.path.join(TOP, "tmp", "contention")
    os.makedirs(where, exist_ok=True)
    for name in os.listdir(where):
        os.unlink(os.path.join(where, name))
    path = os.path.join(where, "script.sql")
    with open(path, "w") as f:
        f.write(SCRIPT)
    with contextlib.closing(servers[0].connect(database)) as c:
        query(c, f"TRUNCATE t; INSERT INTO t SELECT -i, 0 FROM generate_series(1, {ROWS}) i")
    begun = time.time()
    programs = start(servers, database, clients, seconds, path, os.path.join(where, "log"))
    for p in programs:
        said = p.communicate(timeout=seconds + 600)[0]
        if p.returncode:
            raise RuntimeError(said)
    times, tries = [], 0
    for name in os.listdir(where):
        if name.startswith("log"):
            for line in open(os.path.join(where, name)):
                fields = line.split()
                times.append(int(fields[4]) + int(fields[5]) / 1e6)
                tries += int(fields[6])
    times = [begun] + sorted(times)
    gaps = [b - a for a, b in zip(times, times[1:])] or [float(seconds)]
    return (len(times) - 1) / (times[-1] - begun if len(times) > 1 else seconds), max(gaps), tries


def measure(opts, servers, name, database):
    counts = [int(n) for n in opts.clients.split(",")]
    rates, gaps = {n: [] for n in counts}, {n: [] for n in counts}
    for _ in range(opts.rounds):
        for n in counts:
            rate, gap, failed = run_clients(servers, database, n, opts.seconds)
            rates[n].append(rate)
            gaps[n].append(gap)
            tap.note(f"{name}, {n} clients: {rate:.1f} commits/s, longest gap {gap * 1000:.0f} ms, {failed} tries failed")
    return {n: statistics.median(rates[n]) for n in counts}, {n: max(gaps[n]) for n in counts}


def judge(opts, servers, engine):
    rates, gaps = measure(opts, servers, engine, engine)
    few, many = min(rates), max(rates)
    tap.ok(gaps[many] < WORST_GAP, f"{engine}: {many} clients: somebody always gets through", f"longest gap {gaps[many]:.1f} s")
    tap.ok(rates[many] >= WORST_RATIO * rates[few],
           f"{engine}: {many} clients do not come to a fraction of what one does", rates)
    with contextlib.closing(servers[0].connect(engine)) as c:
        tap.equal(findings(c, "t"), ([], []), f"{engine}: mosql_fdw_check() finds nothing")


def body():
    opts = options()
    cluster = Cluster("contention")
    servers = [Server("contention1"), Server("contention2")]
    for engine in opts.engines.split(","):
        with section(engine):
            for i, server in enumerate(servers):
                make_database(server, engine, cluster.nodes, {"atomic": engine},
                              ddl="CREATE FOREIGN TABLE t (id bigint OPTIONS (key 'true'), n int) SERVER redis")
            judge(opts, servers, engine)
    if opts.native:
        with contextlib.closing(servers[0].connect()) as c:
            query(c, "CREATE TABLE t (id bigint PRIMARY KEY, n int)")
        measure(opts, servers[:1], "PostgreSQL", "postgres")
    for server in servers:
        tap.equal(server.crashes(), [], f"{server.name}: no backend crashed")


main(body)
