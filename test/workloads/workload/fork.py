"""Long fork: two readers that see two independent writes in opposite orders."""
from .base import *


class Fork(Together, Workload):
    """Rounds of three transactions in which two clients write one fresh row each and
    all others read both, one by one or together.  G-nonadjacent is what to look for."""

    name = "fork"
    tables = ("leg (k int KEY, v bigint)",)

    def setup(self, conn):
        fill(conn, "leg")

    def transaction(self, s):
        base = s.n // 3 * 10
        self.meet(s)
        if s.client < 2:
            k = base + s.client
            if s.n % 3 == (s.n // 3 + s.client) % 2:
                v = s.element()
                s.execute("INSERT INTO leg VALUES (%s, %s)", (place(k), v))
                s.record("write", k, v)
                return
        keys = [base, base + 1]
        s.rng.shuffle(keys)
        if s.rng.random() < 0.5:
            rows = keyed(s.query("SELECT k, v FROM leg WHERE k = ANY(%s)", ([place(k) for k in keys],)))
            for k in keys:
                s.record("read", k, rows.get(k))
            return
        for k in keys:
            rows = s.query("SELECT v FROM leg WHERE k = %s", (place(k),))
            s.record("read", k, rows[0][0] if rows else None)

    def final(self, s):
        for k, v in keyed(s.query("SELECT k, v FROM leg WHERE v IS NOT NULL")).items():
            s.record("read", k, v)
