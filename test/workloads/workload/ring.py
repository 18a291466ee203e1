"""Rows that point to each other in one ring, cut and joined at random places."""
from .base import *

NODES = 30


class Ring(Workload):
    """Take r, its successor, and the two after it: exchange the two in the middle.
    Whatever is interleaved, it is one ring of all nodes if nothing is lost.  Under READ
    COMMITTED, FOR UPDATE says that what was read shall still be so."""

    name = "ring"
    tables = ("node (id int KEY, next int)",)

    def setup(self, conn):
        # nodes are ten rows apart: several leaves
        query(conn, f"INSERT INTO node SELECT g, CASE WHEN g %% 10 = 0 THEN (g / 10 + 1) %% {NODES} END "
              f"FROM generate_series(0, {NODES * 10 - 1}) g", ())

    def transaction(self, s):
        if s.client % 3 == 2:
            self.look(s)
            return
        lock = " FOR UPDATE" if s.level == READ_COMMITTED and not self.on_native else ""
        r = [s.rng.randrange(NODES)]
        for _ in range(3):
            r.append(s.query("SELECT next FROM node WHERE id = %s" + lock, (r[-1] * 10,))[0][0])
        for a, b in ((r[0], r[2]), (r[2], r[1]), (r[1], r[3])):
            s.execute("UPDATE node SET next = %s WHERE id = %s", (b, a * 10))

    @staticmethod
    def look(s):
        rows = {i // 10: n for i, n in s.query("SELECT id, next FROM node WHERE next IS NOT NULL")}
        s.record("ring", "node", [rows.get(i) for i in range(NODES)])

    def final(self, s):
        self.look(s)

    @staticmethod
    def check(history, level=None, **_):
        found = []
        for t in history:
            for name, _, nodes, _ in t.ops:
                if name != "ring":
                    continue
                at, length = nodes[0], 1
                while at and length < NODES:
                    at, length = nodes[at], length + 1
                if at != 0 or length != NODES:
                    found.append(checker.Anomaly("ring", f"from node 0 one is back after {length} of {NODES}: {nodes}", [t]))
        return found
