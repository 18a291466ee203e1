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

SECONDS = float(os.environ.get("MOSQL_TEST_SECONDS", 8))


class Mover:
    def __init__(self, cluster):
        self.r = {p: Redis(p) for p in cluster.primaries}
        self.id = {p: r("CLUSTER", "MYID").decode() for p, r in self.r.items()}
        self.where = cluster.map()
        self.moved = self.keys = 0

    def slots_with_keys(self):
        return [s for s, p in self.where.items() if self.r[p]("CLUSTER", "COUNTKEYSINSLOT", s)]

    def disagreement(self):
        """Slots that some node sees elsewhere than where they were moved to."""
        out = []
        for port, r in self.r.items():
            seen = {}
            for low, high, primary, *_ in r("CLUSTER", "SLOTS"):
                for slot in range(low, high + 1):
                    seen[slot] = primary[1]
            out += [f"{port} sees slot {s} at {seen.get(s)}, it is at {p}"
                    for s, p in self.where.items() if seen.get(s) != p]
        return "\n".join(out[:10])

    def agreed(self):
        return not self.disagreement()

    def move(self, slot, rng, end=None):
        """As redis-cli does it, with pauses where it is most awkward."""
        source = self.where[slot]
        target = rng.choice([p for p in self.r if p != source])
        self.r[target]("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id[source])
        self.r[source]("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id[target])
        if rng.random() < 0.3:
            time.sleep(0.02)
        while True:
            keys = self.r[source]("CLUSTER", "GETKEYSINSLOT", slot, rng.choice((1, 100)))
            if not keys:
                break
            try:
                self.r[source]("MIGRATE", "127.0.0.1", target, "", 0, 5000, "KEYS", *keys)
            except RedisError as e:
                if "NOKEY" not in str(e):
                    raise
            self.keys += len(keys)
            if rng.random() < 0.3:
                time.sleep(0.01)
        self.where[slot] = target
        for p in (target, source, *self.r):
            self.r[p]("CLUSTER", "SETSLOT", slot, "NODE", self.id[target])
        self.moved += 1
        # Old news may still be on its way between the nodes and make them point
        # at each other for longer than any client waits; that is not the test.
        while not wait_until(self.agreed, 2):
            for p in (target, *self.r):
                self.r[p]("CLUSTER", "SETSLOT", slot, "NODE", self.id[target])


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
            mover = Mover(cluster)
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
