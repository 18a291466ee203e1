#!/usr/bin/python3
"""Workloads over two PostgreSQL servers and one cluster, checked for anomalies.

    test/workloads/workloads.py [--seconds N] [--seed N] [--clients N] [--keep]
                                [--engine script|watch] [--level LEVEL]
                                [--set NAME=VALUE]... [WORKLOAD]...
    test/workloads/workloads.py --check [--level LEVEL] HISTORY...

Every workload runs N seconds (default 1) with each engine at each isolation level that
it knows, beginning with the wishes that the seed gives (default 1).  The history of one
that fails is kept in tmp/histories, with --keep all are; --check judges them again, as
what they promised or as LEVEL.  --set changes a setting of the clients' sessions, for
example mosql_fdw.intent_timeout=10ms, whereby everybody takes everybody for dead.  README.md here tells about the workloads.
"""
import argparse
import os
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), d) for d in (".", "../lib")]
import checker
from mosqltest import *
from workload import MIXED, WORKLOADS, Run


def judge(run, found):
    """Report one run that has been finished and checked."""
    ended, unexpected = run.ended, run.unexpected()
    good = tap.ok(ended, f"{run.name}: all clients come to an end")
    good &= tap.ok(not unexpected, f"{run.name}: no other errors than {run.workload.allowed}", unexpected)
    good &= tap.ok(run.done >= run.workload.clients, f"{run.name}: work is done", f"{run.done} transactions")
    good &= tap.ok(not found, f"{run.name}: no anomalies", "\n".join(map(str, found[:5])))
    good &= tap.equal(run.broken(), [], f"{run.name}: nothing is broken in Redis")
    tap.note(f"{run.done} done, errors {run.errors()}")
    return good


def one(args, servers, nodes, name, engine, level):
    run = Run(name, servers, nodes, level, engine, args.seed, args.clients,
              **dict(s.split("=", 1) for s in args.set))
    with section(run.name):
        run.setup()
        run.start()
        time.sleep(args.seconds)
        wait_until(lambda: run.done >= run.workload.clients)
        run.ended = run.stop()
        run.finish()
        found = run.check()
        if judge(run, found) and not args.keep:
            os.unlink(run.path)
        else:
            with open(run.path.removesuffix("jsonl") + "txt", "w") as f:
                f.write("\n".join(map(str, found)) + "\n")
            tap.note(f"kept: {os.path.relpath(run.path, TOP)}, of --seed {args.seed} --seconds {args.seconds:g}")
        run.drop()


def recheck(paths, level):
    for path in paths:
        history = checker.History.load(path)
        found = WORKLOADS[history.header["workload"]].check(history, level)
        tap.ok(not found, f"{path}: {len(history)} transactions, {level or history.header['level']}",
               "\n".join(map(str, found)))


def body():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--seconds", type=float, default=1)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--engine", choices=ENGINES)
    p.add_argument("--level", type=str.upper, choices=LEVELS + (MIXED,))
    p.add_argument("--clients", type=int)
    p.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    p.add_argument("--keep", action="store_true")
    p.add_argument("--check", action="store_true")
    p.add_argument("what", nargs="*", metavar="WORKLOAD|HISTORY")
    args = p.parse_args()
    if args.check:
        recheck(args.what, args.level)
        return
    tap.note(f"--seed {args.seed} --seconds {args.seconds:g}")
    cluster = Cluster("work")
    servers = [Server("work1"), Server("work2")]
    for name in args.what or WORKLOADS:
        for engine in [args.engine] if args.engine else ENGINES:
            for level in WORKLOADS[name].levels:
                if args.level in (None, level):
                    one(args, servers, cluster.nodes, name, engine, level)
    tap.equal([c for s in servers for c in s.crashes()], [], "no backend died")


main(body)
