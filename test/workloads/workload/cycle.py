"""Rings of fresh rows: each client writes its own and reads its neighbour's."""
from .base import *


class Cycle(Together, Workload):
    """In every round the clients sit in circles of two and three.  A row is written
    once, so every read is an edge between two transactions: all have missed the
    neighbour's write is write skew, all have seen it would be magic."""

    name = "cycle"
    tables = ("cell (k int KEY, v bigint)",)
    clients = 5

    def setup(self, conn):
        fill(conn, "cell")

    def transaction(self, s):
        circle, size, place = (0, 2, s.client) if s.client < 2 else (1, self.clients - 2, s.client - 2)
        base = s.n * 10 + circle * 5
        self.meet(s)
        ops = [lambda: self.write(s, base + place), lambda: self.read(s, base + (place + 1) % size)]
        if s.rng.random() < 0.5:
            ops.reverse()
        for op in ops:
            op()

    def write(self, s, k):
        v = s.element()
        s.execute("INSERT INTO cell VALUES (%s, %s)", (place(k), v))
        s.record("write", k, v)

    def read(self, s, k):
        rows = s.query(s.rng.choice(("SELECT v FROM cell WHERE k = %s",
                                     "SELECT v FROM cell WHERE k BETWEEN %s AND {0}".format(place(k)))), (place(k),))
        s.record("read", k, rows[0][0] if rows else None)

    def final(self, s):
        for k, v in keyed(s.query("SELECT k, v FROM cell WHERE v IS NOT NULL")).items():
            s.record("read", k, v)
