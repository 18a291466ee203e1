#!/usr/bin/python3
"""Slots move from node to node while clients work: nobody notices.

Every slot that holds keys of ours is moved once or more, among them the clock's,
whose several keys are for a while on two nodes.  Clients see no errors but the
conflicts that they have without it, and all books agree."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import load
from mosqltest import *
from mover import Mover

SECONDS = float(os.environ.get("MOSQL_TEST_SECONDS", 8))


def body():
    seed = int(os.environ.get("MOSQL_TEST_SEED", time.time()))
    tap.note(f"MOSQL_TEST_SEED={seed}")
    cluster = Cluster("reshard")
    servers = [Server("reshard1"), Server("reshard2")]
    for engine in ENGINES:
        db = "reshard_" + engine
        with section(engine):
            for s in servers:
                make_database(s, db, cluster.nodes, {"atomic": engine}, load.DDL)
            work = load.Load(servers, db, seed=seed)
            rng = random.Random(seed)
            mover = Mover(cluster.primaries)
            clock = cluster.ask(cluster.ports[0], "CLUSTER", "KEYSLOT", "%s:{%s.clock}:c" % (db, db))
            with work.crowd:
                work.start()
                end = time.monotonic() + SECONDS
                while time.monotonic() < end:
                    slots = mover.slots_with_keys()
                    rng.shuffle(slots)
                    for i, slot in enumerate(slots):
                        mover.move(slot, rng)
                        if i % 5 == 0:
                            mover.move(clock, rng)
                        if time.monotonic() > end:
                            break
                    wait_until(lambda: time.monotonic() > end, 0.3)
                since = time.monotonic()
                tap.ok(work.crowd.everybody_went_on(since, 5), f"{engine}: all clients go on")
                tap.ok(work.settle(), f"{engine}: all clients come to an end")
            tap.note(f"{mover.moved} slots with {mover.keys} keys moved, {work.crowd.done} "
                     f"transactions, errors {work.crowd.errors()}")
            tap.ok(mover.moved >= 20, f"{engine}: slots were moved")
            tap.ok(wait_until(mover.agreed, 10, 0.2), f"{engine}: the nodes agree who has what",
                   mover.disagreement())
            bad = work.crowd.unexpected(CONFLICT)
            tap.ok(not bad, f"{engine}: no error but conflicts", bad)
            work.verify(engine)
    tap.equal([c for s in servers for c in s.crashes()], [], "no backend died")


main(body)
