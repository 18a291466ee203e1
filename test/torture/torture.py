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
  * for errors other than 40001, 40P01, 08xxx, 57Pxx, 53200 and lost connections;
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
import shutil
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "test", "lib"))
sys.path.insert(0, os.path.join(TOP, "test", "workloads"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import net
from mosqltest import *
from nemesis import *
from workload import MIXED, WORKLOADS, Run

ALLOWED = "40001|40P01|08...|57P..|53200|gone"
SLACK = 8.0                     # for a busy machine, on top of what is promised: who is stuck is so for 10 s and more
CALM = (0.7, 1.5)               # seconds without a fault, before each
GO_ON = 60.0                    # for all clients to be served again


class Torture:
    """The world, and rounds in it."""

    def __init__(self, args):
        self.args = args
        self.home = os.path.join(TOP, "tmp", "torture", str(args.seed))
        os.makedirs(self.home, exist_ok=True)
        why = net.unavailable()
        if why:
            tap.skip("a network of namespaces", why)
        self.net = None if why else net.Net("torture", 8)
        places = [self.net.place(i) for i in range(6)] if self.net else ()
        # each write goes to the file before its answer; with everysec, not while what was written before is being synced
        self.cluster = Cluster("torture", replicas=1, settings=["appendonly yes", "appendfsync no"], places=places)
        settings = [f"mosql_fdw.debug_lease={int(LEASE * 1000)}"]
        self.servers = [Server(f"torture{i + 1}", settings, self.net and self.net.names[6 + i])
                        for i in range(2)]
        self.world = World(self.cluster, self.servers, self.net)
        self.choices = [f for f in args.faults if not self.impossible(FAULTS[f])]
        for f in args.faults:
            if f not in self.choices:
                tap.skip(f"fault {f}", self.impossible(FAULTS[f]))

    def impossible(self, nemesis):
        missing = [n for n in nemesis.needs if n not in self.world.has]
        if missing:
            return f"needs {' and '.join(missing)}"
        if nemesis.forgets and self.args.durability == "none" and not self.args.named:
            return "Redis may forget: see --durability"
        return None

    def rounds(self):
        """Until the time is over, but one at least."""
        end = time.monotonic() + self.args.minutes * 60
        n = self.args.only or 1
        while True:
            rng = random.Random(f"{self.args.seed} {n}")
            workload = rng.choice(self.args.workloads)
            engine = self.args.engine or rng.choice(ENGINES)
            levels = [self.args.level] if self.args.level in WORKLOADS[workload].levels else WORKLOADS[workload].levels
            Round(self, n, rng, workload, engine, rng.choice(levels), self.plan(rng)).run()
            n += 1
            if self.args.only or time.monotonic() > end:
                break

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

    def crashes(self):
        spare = [self.world.spare] if self.world.spare else []
        return [c for s in self.servers + spare for c in s.crashes()]


class Round:
    """One workload under the faults of a plan: [[nemesis class, ...], ...]."""

    def __init__(self, torture, n, rng, workload, engine, level, plan):
        args = torture.args
        self.torture, self.world, self.n, self.rng, self.plan = torture, torture.world, n, rng, plan
        options = {"command_timeout": "8000", "connect_timeout": "1000"}
        if args.durability != "none":
            options["durability"] = args.durability
        self.forgets = args.durability == "none" and any(f.forgets for pair in plan for f in pair)
        self.work = self.world.work = Run(workload, torture.servers, torture.cluster.nodes, level, engine,
                                          args.seed * 1000 + n, options=options, directory=torture.home)
        self.name = f"{n}, {self.work.name}"

    def run(self):
        tap.note(f"---- {self.name}: " + "; ".join(" and ".join(c.__name__ for c in p) for p in self.plan))
        self.world.lines, self.world.started = [], time.monotonic()
        failed = tap.bad
        self.work.setup()
        self.work.start()
        try:
            for pair in self.plan:
                calm = self.work.now()
                time.sleep(self.rng.uniform(*CALM))
                if not self.strike(pair, self.slowest(calm, self.work.now())[0]):
                    break
        finally:
            tap.ok(self.work.stop(40), f"{self.name}: all clients come to an end")
        self.judge()
        self.keep(tap.bad > failed)

    def slowest(self, begin, end, hurt=()):
        """The slowest transactions in a time, of servers that were not hurt."""
        fine = [i for i, s in enumerate(self.world.servers) if s not in hurt]
        return sorted((t.end - t.begin for t in list(self.work.log)
                       if t.server in fine and t.end > begin and t.begin < end), reverse=True)[:5] or [0]

    def strike(self, pair, calm):
        """Inject, wait, heal, and see whether all clients go on; False to give up."""
        nemeses = [f(self.world, random.Random(self.rng.random())) for f in pair]
        name = f"{self.name}, {' and '.join(map(str, nemeses))}"
        began, active, well, before = self.work.now(), [], True, []
        try:
            self.world.let_take_over(any(one.forgets for one in nemeses))
            wait_until(self.world.primaries, GO_ON, 0.1)
            before = self.world.primaries()
            for one in nemeses:
                hold = self.rng.uniform(*one.hold)
                active.append((0, one))
                one.inject()
                active[-1] = time.monotonic() + hold, one
                time.sleep(0.2)
        except Exception:
            well = tap.ok(False, f"{name}: is injected", traceback.format_exc())
        for until, one in sorted(active, key=lambda a: a[0]):
            time.sleep(max(0, until - time.monotonic()))
            try:
                one.heal()
            except Exception:
                well = tap.ok(False, f"{name}: {one} is healed", traceback.format_exc())
        if not well:
            return False
        self.world.log("healed")
        if not any(one.forgets for one in nemeses):
            wait_until(lambda: self.world.primaries() == before, GO_ON, 0.1)
            tap.equal(self.world.primaries(), before, f"{name}: no replica took over")
        healed = self.work.now()
        wait_until(lambda: not self.stuck(healed), GO_ON, 0.1)
        stuck = self.stuck(healed)
        well = tap.ok(not stuck, f"{name}: all clients go on", stuck)
        self.blocked(name, nemeses, began, healed, calm)
        return well

    def stuck(self, since):
        """Clients that have not had a transaction since then that could have
        committed, for all that faults have to do with it; and servers that had none
        that did."""
        log = [t for t in list(self.work.log) if t.begin > since]
        fine = {t.client for t in log if t.error is None or re.fullmatch(self.work.workload.allowed, t.error)}
        served = {t.server for t in log if t.outcome == "ok"}
        return [f"client {c.client}: {c.messages}" for c in self.work.crowd.all if c.client not in fine] + \
            [s.name for i, s in enumerate(self.world.servers) if i not in served]

    def blocked(self, name, nemeses, began, healed, calm):
        """Nobody whose own server was not hurt waited longer than it should.  A
        machine that is slow without any fault is given more time."""
        limit = sum(n.stall + n.held for n in nemeses) + SLACK + 2 * calm
        took = self.slowest(began, healed, set().union(*(n.hurt for n in nemeses)))
        tap.ok(took[0] <= limit, f"{name}: nobody else is blocked for long",
               f"limit {limit:.2f} s, {calm:.2f} s before; slowest: {took}")
        tap.note(f"slowest transaction of the others {took[0]:.2f} s, {calm:.2f} s before")

    def judge(self):
        name, work = self.name, self.work
        allowed = f"{ALLOWED}|{work.workload.allowed}" + ("|XX001|42P01" if self.forgets else "")
        bad = work.unexpected(allowed)
        tap.ok(not bad, f"{name}: only errors of connections and conflicts", bad)
        work.finish()
        found = work.check()
        if self.forgets:
            tap.note(f"not promised, hence not judged: {len(found)} anomalies")
        else:
            tap.ok(not found, f"{name}: no anomalies", "\n".join(map(str, found[:10])))
            self.clean()
        tap.equal(self.torture.crashes(), [], f"{name}: no backend died of itself")
        tap.note(f"{work.done} transactions, errors {work.errors()}")

    def clean(self):
        """The check finds nothing broken, and after maintenance nothing at all."""
        broken = self.work.broken()
        tap.ok(not broken, f"{self.name}: nothing is broken in Redis", "\n".join(map(str, broken[:10])))
        time.sleep(LEASE)       # until whoever died is known to be dead
        with contextlib.closing(self.work.connect(0)) as c:
            query(c, "SELECT * FROM mosql_fdw_maintain('redis')")
            left = [(t,) + f for t in self.work.workload.table_names() for fs in findings(c, t) for f in fs]
        tap.ok(not left, f"{self.name}: nothing is left over after maintenance", "\n".join(map(str, left[:10])))

    def keep(self, failed):
        """The world's log; if something failed, the servers' logs as well."""
        path = os.path.join(self.torture.home, str(self.n))
        with open(path + ".log", "w") as f:
            f.write("\n".join(self.world.lines) + "\n")
        if failed:
            for s in self.torture.servers:
                with open(f"{path}.{s.name}.log", "w") as f:
                    f.write(s.log())
            for p in self.torture.cluster.ports:
                with contextlib.suppress(OSError, RedisError):
                    home = self.torture.cluster.ask(p, "CONFIG", "GET", "dir")[1].decode()
                    shutil.copy(os.path.join(home, "log"), f"{path}.redis-{p}.log")
            tap.note(f"history {os.path.relpath(self.work.path, TOP)}, faults {os.path.relpath(path, TOP)}.log; "
                     f"again: script/torture {self.torture.args.again} --only {self.n}")
        self.work.drop()


def arguments(argv):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--faults", help=", ".join(FAULTS))
    p.add_argument("--workloads", default=",".join(WORKLOADS))
    p.add_argument("--durability", default="none", choices=("none", "replicated"))
    p.add_argument("--engine", choices=ENGINES)
    p.add_argument("--level", type=str.upper, choices=LEVELS + (MIXED,))
    p.add_argument("--round", type=float, default=30)
    p.add_argument("--only", type=int)
    args = p.parse_args(argv)
    args.again = shlex.join(argv + ([] if "--seed" in argv else ["--seed", str(args.seed)]))
    args.named = args.faults is not None
    args.faults = args.faults.split(",") if args.faults else list(FAULTS)
    args.workloads = args.workloads.split(",")
    unknown = [f for f in args.faults if f not in FAULTS]
    unknown += [w for w in args.workloads if w not in WORKLOADS]
    if unknown:
        p.error(f"no such fault or workload: {', '.join(unknown)}")
    return args


def body():
    args = arguments(sys.argv[1:])
    tap.note(f"seed {args.seed}")
    Torture(args).rounds()
    print(f"{tap.n - tap.bad} passed, {tap.bad} failed", flush=True)


if __name__ == "__main__":
    main(body)
