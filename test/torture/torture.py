#!/usr/bin/python3
"""Faults, alone and two at a time, at random over workloads at random: for long.

    torture.py [--seed N] [--minutes M] [--faults a,b,...] [--workloads a,b,...]
               [--durability none|replicated] [--engine script|watch]
               [--level 'READ COMMITTED'] [--round SECONDS]

One Redis Cluster of three primaries with replicas and append-only files, and two
PostgreSQL servers, each in a network namespace if there can be such, live for the
whole run.  A round takes one workload, engine and isolation level, starts its
clients on both servers, injects and heals faults for a while, and then asks

  * for an anomaly in what the clients saw, and for every acknowledged commit;
  * whether all clients went on, in time, after each fault, and came to an end;
  * for errors other than 40001, 08xxx, 57Pxx, 53200 and lost connections;
  * mosql_fdw_check() for what is broken, and, after mosql_fdw_maintain(), for
    what is left over;
  * for backends that died of themselves.

Without --durability replicated, faults in which Redis may forget what it
acknowledged are left out; named in --faults they are injected, and then only what
Redis cannot spoil is judged.  Everything random follows from the seed: the n-th
round of a seed is the same faults and the same clients again, though not the same
microseconds; --only N runs that round alone.  Histories and logs are kept in
tmp/torture/SEED.
"""
import argparse
import os
import shlex
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "test", "lib"))
sys.path.insert(0, os.path.join(TOP, "test", "workloads"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import books
import net
from mosqltest import *
from nemesis import *

ALLOWED = "40001|08...|57P..|53200|gone"
SLACK = 1.5                     # a machine that is busy with us, on top of what is promised
GO_ON = 10.0                    # for the last of the clients to commit again


class Torture:
    def __init__(self, args):
        self.args = args
        self.home = os.path.join(TOP, "tmp", "torture", str(args.seed))
        os.makedirs(self.home, exist_ok=True)
        why = net.unavailable()
        if why:
            tap.skip("a network of namespaces", why)
        self.net = None if why else net.Net("torture", 8)
        place = self.net.place if self.net else lambda i: None
        self.cluster = Cluster("torture", replicas=1, settings=["appendonly yes"],
                               places=[place(i) for i in range(6)] if self.net else ())
        settings = [f"mosql_fdw.debug_lease={int(LEASE * 1000)}"]
        self.servers = [Server(f"torture{i + 1}", settings, self.net and self.net.names[6 + i])
                        for i in range(2)]
        self.world = World(None, self.cluster, self.servers, self.net)
        self.choices = [f for f in args.faults if not self.impossible(FAULTS[f])]
        for f in sorted(set(args.faults) - set(self.choices)):
            tap.skip(f"fault {f}", self.impossible(FAULTS[f]))

    def impossible(self, nemesis):
        missing = [n for n in nemesis.needs if n not in self.world.has]
        if missing:
            return f"needs {' and '.join(missing)}"
        if nemesis.forgets and self.args.durability == "none" and not self.args.named:
            return "Redis may forget: see --durability"
        return None

    def rounds(self):
        end = time.monotonic() + self.args.minutes * 60
        n = self.args.only or 1
        while time.monotonic() < end or n == 1:
            self.round(n)
            n += 1
            if self.args.only:
                break

    def round(self, n):
        args, rng = self.args, random.Random(f"{self.args.seed} {n}")
        engine = args.engine or rng.choice(ENGINES)
        level = args.level or rng.choice(LEVELS)
        options = {"command_timeout": "8000", "connect_timeout": "1000"}
        if args.durability != "none":
            options["durability"] = args.durability
        what = rng.choice(args.workloads)
        plan = self.plan(rng)
        forgets = args.durability == "none" and any(f.forgets for pair in plan for f in pair)
        self.work = books.Books(self.servers, self.cluster.nodes, level, engine, args.seed * 1000 + n,
                                options=options, splits=not forgets)
        self.name = f"{n}, {what}, {engine}, {level.lower()}"
        tap.note(f"---- {self.name}: " + "; ".join(" and ".join(c.__name__ for c in pair) for pair in plan))
        self.world.lines, self.world.started = [], time.monotonic()
        self.world.work = self
        failed = tap.bad
        self.work.setup()
        self.world.db = self.work.db
        self.work.start()
        try:
            for pair in plan:
                time.sleep(rng.uniform(0.3, 1.0))
                if not self.strike(pair, rng):
                    break
        finally:
            tap.ok(self.work.stop(40), f"{self.name}: all clients come to an end")
        self.judge(forgets)
        self.keep(n, tap.bad > failed)

    def plan(self, rng):
        """Faults, each alone or with another, for about a round's time."""
        pairs, seconds = [], 0
        while seconds < self.args.round:
            pair = [FAULTS[rng.choice(self.choices)]]
            other = FAULTS[rng.choice(self.choices)]
            if rng.random() < 0.4 and compatible(pair[0], other):
                pair.append(other)
            pairs.append(pair)
            seconds += max(f.hold[1] for f in pair) + 2
        return pairs

    def strike(self, pair, rng):
        """Inject, wait, heal, and see whether all clients go on; False to give up."""
        nemeses = [f(self.world, random.Random(rng.random())) for f in pair]
        name = f"{self.name}, {' and '.join(map(str, nemeses))}"
        began = time.monotonic()
        active = []
        try:
            for one in nemeses:
                active.append(one)
                one.inject()
                time.sleep(rng.uniform(0, 0.5))
            time.sleep(rng.uniform(max(f.hold[0] for f in pair), max(f.hold[1] for f in pair)))
        except Exception:
            tap.ok(False, f"{name}: is injected", traceback.format_exc())
        well = True
        for one in reversed(active):
            try:
                one.heal()
            except Exception:
                well = tap.ok(False, f"{name}: {one} is healed", traceback.format_exc())
        if not well:
            return False
        healed = time.monotonic()
        self.world.log("healed")
        mine = [c for c in self.work.crowd.all if c.server in self.servers and not c.halt.is_set()]
        went_on = wait_until(lambda: all(c.last_done > healed for c in mine), GO_ON)
        tap.ok(went_on, f"{name}: all clients go on",
               "\n".join(f"{c.name} of {c.server.name}: {c.messages}" for c in mine if c.last_done <= healed))
        self.blocked(name, nemeses, mine, began, healed)
        return went_on

    def blocked(self, name, nemeses, clients, began, healed):
        """Nobody whose own server was not hurt waited longer than it should."""
        hurt = set().union(*(n.hurt for n in nemeses))
        limit = sum(n.stall for n in nemeses) + SLACK
        slow = [(took, c.server.name, state) for c in clients if c.server not in hurt
                for start, took, state in c.slow if start + took > began and start < healed]
        tap.ok(not slow or max(slow)[0] <= limit, f"{name}: nobody else is blocked for more than {limit:g} s",
               "\n".join(map(str, sorted(slow, reverse=True)[:5])))
        self.world.log(f"slowest of the others: {max(slow)[0] if slow else 0:.2f} s")

    # -- what AddServer asks for --

    def define(self, server):
        self.work.make_tables(server)

    def join(self, server):
        return self.work.add_server(server)

    def leave(self, clients):
        for c in clients:
            c.halt.set()

    # -- judgement --

    def judge(self, forgets):
        name, work = self.name, self.work
        bad = work.unexpected(ALLOWED + ("|XX001" if forgets else ""))
        tap.ok(not bad, f"{name}: only errors of connections and conflicts", bad)
        work.finish()
        found = work.check()
        if forgets:
            tap.note(f"not promised, hence not judged: {len(found)} anomalies")
        else:
            tap.ok(not found, f"{name}: no anomalies", "\n".join(map(str, found[:10])))
            broken = work.broken()
            tap.ok(not broken, f"{name}: nothing is broken in Redis", "\n".join(map(str, broken[:10])))
        tap.equal([c for s in self.servers for c in s.crashes()], [], f"{name}: no backend died of itself")
        tap.note(f"{work.done} transactions, errors {work.errors()}")

    def keep(self, n, failed):
        with open(os.path.join(self.home, f"{n}.log"), "w") as f:
            f.write("\n".join(self.world.lines) + "\n")
        self.work.keep(os.path.join(self.home, f"{n}.json"))
        if failed:
            for s in self.servers:
                with open(os.path.join(self.home, f"{n}.{s.name}.log"), "w") as f:
                    f.write(s.log())
            tap.note(f"again: script/torture {self.args.again} --only {n}")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--faults", help=", ".join(FAULTS))
    p.add_argument("--workloads", default="books")
    p.add_argument("--durability", default="none", choices=("none", "replicated"))
    p.add_argument("--engine", choices=ENGINES)
    p.add_argument("--level", type=str.upper, choices=LEVELS)
    p.add_argument("--round", type=float, default=30)
    p.add_argument("--only", type=int)
    args = p.parse_args()
    args.again = shlex.join(sys.argv[1:] + ([] if "--seed" in sys.argv else ["--seed", str(args.seed)]))
    args.named = args.faults is not None
    args.faults = args.faults.split(",") if args.faults else list(FAULTS)
    args.workloads = args.workloads.split(",")
    unknown = [f for f in args.faults if f not in FAULTS]
    if unknown:
        p.error(f"no such fault: {', '.join(unknown)}")
    return args


def body():
    args = arguments()
    tap.note(f"seed {args.seed}")
    Torture(args).rounds()
    print(f"{tap.n - tap.bad} passed, {tap.bad} failed", flush=True)


main(body)
