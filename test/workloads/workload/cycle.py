"""Rings of fresh rows: each client writes its own and reads its neighbour's."""
from .base import *


class Cycle(Together, Workload):
    """In every round the clients sit in circles of two and three, five of them in a ten
    of rows (base.place).  A row is written once, so every read is an edge between two
    transactions: all have missed the neighbour's write is write skew, all have seen it
    would be magic."""

    name = "cycle"
    tables = ("cell (k int KEY, v bigint)",)
    clients = 5

    def setup(self, conn):
        fill(conn, "cell")

    def transaction(self, s):
        block, seat = divmod(s.client, 5)
        here = min(5, self.clients - block * 5)
        base = (s.n * ((self.clients + 4) // 5) + block) * 10
        first, size = (0, min(2, here)) if seat < 2 else (2, here - 2)
        self.meet(s)
        ops = [lambda: self.write(s, base + seat),
               lambda: self.read(s, base + first + (seat - first + 1) % size)]
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
