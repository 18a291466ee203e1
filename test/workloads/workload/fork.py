"""Long fork: two readers that see two independent writes in opposite orders."""
from .base import *


class Fork(Together, Workload):
    """Rounds of three transactions in which two clients write one fresh row each and
    all others read both, one by one or together.  G-nonadjacent is what to look for."""

    name = "fork"
    tables = ("leg (k int KEY, v bigint)",)

    def transaction(self, s):
        base = s.n // 3 * 1000              # the two are in leaves of their own, mostly
        self.meet(s)
        if s.client < 2:
            k = base + s.client * 500
            if s.n % 3 == (s.n // 3 + s.client) % 2:
                v = s.element()
                s.execute("INSERT INTO leg VALUES (%s, %s)", (k, v))
                s.record("write", k, v)
                return
        keys = [base, base + 500]
        s.rng.shuffle(keys)
        if s.rng.random() < 0.5:
            rows = dict(s.query("SELECT k, v FROM leg WHERE k = ANY(%s)", (keys,)))
            for k in keys:
                s.record("read", k, rows.get(k))
            return
        for k in keys:
            rows = s.query("SELECT v FROM leg WHERE k = %s", (k,))
            s.record("read", k, rows[0][0] if rows else None)

    def final(self, s):
        for k, v in s.query("SELECT k, v FROM leg"):
            s.record("read", k, v)
