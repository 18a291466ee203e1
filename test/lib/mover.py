"""Moving slots between Redis nodes, as redis-cli does it, with pauses where it is
most awkward."""
from mosqltest import *


class Mover:
    def __init__(self, ports):
        self.ports = ports
        self.r = {p: Redis(p) for p in ports}
        for r in self.r.values():
            r("CLIENT", "SETNAME", "mover")
        self.id = {p: r("CLUSTER", "MYID").decode() for p, r in self.r.items()}
        self.where = {s: primary[1] for low, high, primary, *_ in self.r[ports[0]]("CLUSTER", "SLOTS")
                      for s in range(low, high + 1)}
        self.moved = self.keys = 0

    def slots_with_keys(self):
        """Asked about all slots of a node at once: there are many."""
        found = []
        for port, r in self.r.items():
            slots = [s for s, p in self.where.items() if p == port]
            r.sock.sendall(b"".join(b"CLUSTER COUNTKEYSINSLOT %d\r\n" % s for s in slots))
            found += [s for s in slots if r.reply()]
        return sorted(found)

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

    def move(self, slot, rng, target=None):
        """To the target, or to any other node; nothing if it is there already."""
        source = self.where[slot]
        target = target or rng.choice([p for p in self.r if p != source])
        if source == target:
            return
        self.r[target]("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id[source])
        self.r[source]("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id[target])
        if rng.random() < 0.3:
            time.sleep(0.02)
        while True:
            keys = self.r[source]("CLUSTER", "GETKEYSINSLOT", slot, rng.choice((1, 100)))
            if not keys:
                break
            try:
                self.r[source]("MIGRATE", HOSTS.get(target, "127.0.0.1"), target, "", 0, 5000, "KEYS", *keys)
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
