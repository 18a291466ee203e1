"""Committed on one server, read on the other."""
from .base import *


class Own(Workload):
    """Each client writes rows of its own, by turns through each server, and reads them
    in between through the other one, by key, by range and by scans.  Rows are large
    enough to split leaves all the time."""

    name = "own"
    tables = ("own (k int KEY, v bigint, pad text)",)

    def server_of(self, client, n):
        return client + n // 2 + n

    def transaction(self, s):
        base = s.client * 1000000
        if s.n % 2 == 0:
            k = base + s.rng.randrange(s.n // 4 + 1)
            v = s.element()
            if s.execute(s.rng.choice(("UPDATE own SET v = %s WHERE k = %s",
                                       "UPDATE own SET v = %s, pad = repeat('z', 20) WHERE k = %s")), (v, k)) == 0:
                s.execute("INSERT INTO own VALUES (%s, %s, repeat('y', 300))", (k, v))
            s.record("write", k, v)
            s.state["last"] = k
            return
        k = s.state.get("last", base)
        how = s.rng.randrange(4)
        if how == 0:
            rows = s.query("SELECT k, v FROM own WHERE k = %s", (k,))
        elif how == 1:
            rows = s.query("SELECT k, v FROM own WHERE k BETWEEN %s AND %s", (k, k))
        elif how == 2:
            rows = s.query("SELECT k, v FROM own WHERE k BETWEEN %s AND %s ORDER BY k DESC", (base, base + 999999))
        else:
            rows = s.query("SELECT k, v FROM own WHERE v %% 256 = %s AND k + 0 < %s", (s.client + 1, base + 1000000))
        rows = dict(rows)
        for key in {k} | set(rows):
            s.record("read", key, rows.get(key))

    def final(self, s):
        for k, v in s.query("SELECT k, v FROM own"):
            s.record("read", k, v)
