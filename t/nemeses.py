#!/usr/bin/python3
"""Every fault of test/lib/nemesis.py once, alone, and some two at a time, under load.

Three rounds of script/torture with a seed that is always the same, each a workload
whose history is checked for anomalies: what happens to PostgreSQL servers and to the
network, with the engine `script`; what happens to Redis nodes, with `watch`; and pairs.
Faults in which Redis may forget what it acknowledged are not among them: t/failover.py
and t/durability.py have those.  Without root there are no network namespaces, and the
faults that need them are skipped; t/faults.py and t/crash.py spoil connections all the
same, through a proxy.
    t/nemeses.py [FAULT]...
"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "torture"))
from torture import *

SEED = 1
PAIRS = ((KillBackend, CutFrontEnd), (CrashAt, MoveSlots), (KillPostmaster, RestartNode),
         (PauseBackend, FillNode), (AddServer, AddNode), (RestartServer, BlinkNodes))


def body():
    named = [FAULTS[f] for f in sys.argv[1:]]
    torture = Torture(arguments(["--seed", str(SEED), "--faults", ",".join(FAULTS)]))
    there = [f for f in FAULTS.values() if not torture.impossible(f) and not f.forgets]
    alone = [[f] for f in there if not named or f in named]
    of = lambda *groups: [p for p in alone if p[0].group in groups]
    pairs = [] if named else [p for p in PAIRS if all(f in there for f in p)]
    rounds = (("mix", "script", MIXED, of("postgres", "network")),
              ("append", "watch", REPEATABLE_READ, of("redis", "topology")),
              ("bank", "script", SERIALIZABLE, pairs))
    for n, (workload, engine, level, plan) in enumerate(rounds, 1):
        if plan:
            Round(torture, n, random.Random(f"{SEED} {n}"), workload, engine, level, plan).run()


main(body)
