"""Moving slots between Redis nodes, as redis-cli does it, with pauses where it is
most awkward.

Redis loses keys by itself where slots go to and fro while news of it is still on its way between the nodes: a
node that has taken a slot without knowing that the giver's config epoch is higher by now, or hears
of the slot's move before the last one, believes who claims it, and deletes what it has of it
(docs/durability.md, "Slots that go to and fro").  So each move begins when all know all epochs, and no
slot moves again at once."""
from mosqltest import *

REST = 1.0          # seconds from a slot's move to its next one


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
        self.last = {}                  # slot -> when it was moved

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

    def knows_epochs(self):
        """All nodes see each other's config epochs as they are."""
        seen = [{fields[0]: fields[6] for fields in map(str.split, r("CLUSTER", "NODES").decode().splitlines())
                 if fields[0] in self.id.values()} for r in self.r.values()]
        return all(s == seen[0] for s in seen)

    def is_rested(self, slot):
        return time.monotonic() >= self.last.get(slot, -REST) + REST

    def move(self, slot, rng, target=None):
        """To the target, or to any other node; nothing if it is there already."""
        source = self.where[slot]
        target = target or rng.choice([p for p in self.r if p != source])
        if source == target:
            return
        wait_until(lambda: self.is_rested(slot), REST, 0.05)
        wait_until(self.knows_epochs, pause=0.01)
        self.r[target]("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id[source])
        self.r[source]("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id[target])
        if rng.random() < 0.3:
            time.sleep(0.02)
        while True:
            keys = self.r[source]("CLUSTER", "GETKEYSINSLOT", slot, rng.choice((1, 100)))
            if not keys:
                break
            try:
                self.r[source]("MIGRATE", HOSTS.get(target, "127.0.0.1"), target, "", 0, 60000, "KEYS", *keys)
            except RedisError as e:
                if "NOKEY" not in str(e):
                    raise
            self.keys += len(keys)
            if rng.random() < 0.3:
                time.sleep(0.01)
        self.where[slot] = target
        self.last[slot] = time.monotonic()
        for p in (target, source, *self.r):
            self.r[p]("CLUSTER", "SETSLOT", slot, "NODE", self.id[target])
        self.moved += 1
        # Old news may still be on its way between the nodes and make them point
        # at each other for longer than any client waits; that is not the test.
        while not wait_until(self.agreed, 2):
            for p in (target, *self.r):
                self.r[p]("CLUSTER", "SETSLOT", slot, "NODE", self.id[target])
