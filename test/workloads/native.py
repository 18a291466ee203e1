#!/usr/bin/python3
"""The workloads have teeth: on PostgreSQL's own tables they show its known anomalies.

    test/workloads/native.py [--seed N] [--seconds N]

What a level of PostgreSQL permits must be found when its histories are judged as
SERIALIZABLE, and nothing that the level forbids: READ COMMITTED shows lost updates, read
skew and phantoms; REPEATABLE READ is snapshot isolation and shows write skew only, of
rows (G2-item) and by predicates (G2); SERIALIZABLE shows nothing as long as real time
does not count (PostgreSQL does not promise strict serializability), nor what was shown
to transactions that failed.

A workload runs until it has shown what is wanted, at most N seconds (default 10).
Races may fail to happen, so whoever has not shown something by then is led through it:
two sessions in an order that certainly shows it, recorded and judged alike."""
import argparse
import os
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), d) for d in (".", "../lib")]
import checker
from checker.verdict import names
from mosqltest import *
from workload import Run, Session
from workload.phantom import Sets
from workload.register import Registers

PLAN = [
    ("append", READ_COMMITTED, {"lost-update", "G-single", "non-repeatable"}),
    ("register", READ_COMMITTED, {"lost-update", "G-single", "non-repeatable"}),
    ("phantom", READ_COMMITTED, {"G2"}),
    ("ring", READ_COMMITTED, {"ring"}),
    ("bank", READ_COMMITTED, set()),
    ("jobs", READ_COMMITTED, set()),
    ("append", REPEATABLE_READ, {"G2-item"}),
    ("register", REPEATABLE_READ, {"G2-item"}),
    ("cycle", REPEATABLE_READ, {"G2-item"}),
    ("phantom", REPEATABLE_READ, {"G2"}),
    ("skew", REPEATABLE_READ, {"write-skew"}),
    ("ring", REPEATABLE_READ, set()),
    ("queue", SERIALIZABLE, set()),     # below, PostgreSQL lets a key come, go, and come again
    ("append", SERIALIZABLE, set()),
    ("register", SERIALIZABLE, set()),
    ("cycle", SERIALIZABLE, set()),
    ("phantom", SERIALIZABLE, set()),
    ("skew", SERIALIZABLE, set()),
    ("unique", SERIALIZABLE, set()),
]

# ---- two sessions by turns ----

def commit(s):
    """A turn, as are the others; those with arguments return one."""
    s.conn.commit()
    s.work.record(s, 0, s.begin, checker.OK, None)


def read(k):
    return lambda s: Registers.read(s, k)


def write(k):
    return lambda s: Registers.write(s, k)


def scan(s):
    Sets.scan(s, 1)


def add(s):
    Sets.add(s, 1)


def sql(text):
    return lambda s: s.execute(text)


def point(a, b):
    return sql(f"UPDATE node SET next = {b} WHERE id = {a}")


# What shows an anomaly: a workload, the level that permits it, and whose turn is what.
LED = {
    "lost-update": ("register", READ_COMMITTED, [
        (0, read(1)), (1, read(1)), (0, write(1)), (0, commit), (1, write(1)), (1, commit)]),
    "G-single": ("register", READ_COMMITTED, [
        (0, read(1)), (1, write(1)), (1, write(2)), (1, commit), (0, read(2)), (0, commit)]),
    "non-repeatable": ("register", READ_COMMITTED, [
        (0, read(1)), (1, write(1)), (1, commit), (0, read(1)), (0, commit)]),
    "ring": ("ring", READ_COMMITTED, [      # both have read; one exchanges 1 and 2, one 2 and 3
        (1, point(1, 3)), (1, point(3, 2)), (1, point(2, 4)), (1, commit),
        (0, point(0, 2)), (0, point(2, 1)), (0, point(1, 3)), (0, commit)]),
    "G2-item": ("register", REPEATABLE_READ, [
        (0, read(1)), (1, read(2)), (0, write(2)), (1, write(1)), (0, commit), (1, commit)]),
    "G2": ("phantom", REPEATABLE_READ, [
        (0, scan), (1, scan), (0, add), (1, add), (0, commit), (1, commit)]),
    "write-skew": ("skew", REPEATABLE_READ, [
        (0, sql("SELECT 1 FROM pair_a WHERE id = 1")), (1, sql("SELECT 1 FROM pair_b WHERE id = 1")),
        (0, sql("INSERT INTO pair_b VALUES (1)")), (1, sql("INSERT INTO pair_a VALUES (1)")),
        (0, commit), (1, commit)]),
}


def lead(server, name, level=None):
    """Names of what is found after two sessions went through it."""
    workload, weakest, turns = LED[name]
    run = Run(workload, [server], level=level or weakest, native=True)
    run.setup()
    sessions = []
    for i in (0, 1):
        s = Session(run.workload, i, 0, run.connect(autocommit=False, level=run.level), {}, run.level)
        s.work, s.begin = run, run.now()
        sessions.append(s)
    for i, what in turns:
        what(sessions[i])
    for s in sessions:
        s.conn.close()
    run.finish()
    os.unlink(run.path)
    found = names(run.check(level=SERIALIZABLE))
    run.drop()
    return found


READS = ("list", "read", "scan")


def forbidden(run, strict):
    """What the level forbids.  PostgreSQL's SERIALIZABLE promises nothing to those that
    it fails in the end: what they were shown does not count."""
    history = run.history().copy()
    for t in history:
        if run.level == SERIALIZABLE and t.outcome == checker.FAIL:
            t.ops = [op for op in t.ops if op[0] not in READS]
    return type(run.workload).check(history, real_time=strict)


def one(args, server, workload, level, wanted):
    strict = level != SERIALIZABLE
    run = Run(workload, [server], level=level, native=True, seed=args.seed)
    with section(run.name):
        run.setup()
        run.start()
        shown, until = set(), time.monotonic() + args.seconds
        while True:
            time.sleep(0.8)
            ended = run.stop() if not wanted or time.monotonic() > until else None
            shown = names(run.check(level=SERIALIZABLE, real_time=strict))
            if ended is not None or wanted <= shown:
                break
        tap.ok(run.stop(), f"{run.name}: all clients come to an end")
        run.finish()
        unexpected = run.unexpected("40001|40P01|23505")    # deadlocks are part of locking
        tap.ok(not unexpected and run.done, f"{run.name}: work is done", unexpected)
        tap.note(f"{run.done} done, errors {run.errors()}, shown {sorted(shown)}")
        for name in sorted(wanted):
            if name not in shown:
                tap.note(f"{name}: two sessions are led through it")
                shown |= lead(server, name, level)
            tap.ok(name in shown, f"{run.name}: {name} is found")
        if workload != "ring" or level != READ_COMMITTED:
            found = forbidden(run, strict)
            if tap.ok(not found, f"{run.name}: nothing that this level forbids", "\n".join(map(str, found[:3]))):
                os.unlink(run.path)
        run.drop()


def body():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--seconds", type=float, default=10)
    args = p.parse_args()
    tap.note(f"--seed {args.seed} --seconds {args.seconds:g}")
    server = Server("native", ["deadlock_timeout=20ms"])
    for workload, level, wanted in PLAN:
        one(args, server, workload, level, wanted)
    # the leading itself must be sure, needed today or not
    for name in LED:
        with section(f"led: {name}"):
            found = lead(server, name)
            tap.ok(name in found, f"two sessions, {LED[name][1].lower()}: {name} is found", sorted(found))


main(body)
