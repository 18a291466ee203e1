"""Registers: rows that are read and overwritten, by key, by IN and by ranges."""
from .base import *


class Registers:
    """Reading and writing registers that may not be there yet; by tens (base.place)."""

    tables = ("register (k int KEY, v bigint)",)

    @staticmethod
    def read(s, *keys):
        """All of them in one statement."""
        places = [place(k) for k in keys]
        if len(keys) == 1 and s.rng.random() < 0.7:
            rows = s.query("SELECT k, v FROM register WHERE k = %s", places)
        elif max(places) - min(places) < 10 and s.rng.random() < 0.7:
            rows = s.query("SELECT k, v FROM register WHERE k BETWEEN %s AND %s", (min(places), max(places)))
        elif s.rng.random() < 0.1:
            rows = s.query("SELECT k, v FROM register WHERE v IS NOT NULL")
        else:
            rows = s.query("SELECT k, v FROM register WHERE k = ANY(%s)", (places,))
        rows = keyed(rows)
        for k in keys:
            s.record("read", k, rows.get(k))

    @staticmethod
    def write(s, k):
        v = s.element()
        if s.execute("UPDATE register SET v = %s WHERE k = %s", (v, place(k))) == 0:
            s.execute("INSERT INTO register VALUES (%s, %s)", (place(k), v))
        s.record("write", k, v)

    @staticmethod
    def read_all(s):
        for k, v in keyed(s.query("SELECT k, v FROM register WHERE v IS NOT NULL")).items():
            s.record("read", k, v)


class Register(Registers, Workload):
    """Groups of six registers, a new group every now and then, so that there are
    always some that nobody has written.  Most writes follow a read of the same row,
    which tells their order."""

    name = "register"
    allowed = CONFLICTS + "|23505"
    GROUP = 6
    AHEAD = 60                      # transactions of a client per group

    def setup(self, conn):
        fill(conn, "register")

    def transaction(self, s):
        base = s.n // self.AHEAD * 10
        pick = lambda: base + s.rng.randrange(self.GROUP)
        for _ in range(s.rng.randint(1, 4)):
            what = s.rng.random()
            if what < 0.35:
                self.read(s, pick())
            elif what < 0.5:
                self.read(s, *range(base, base + self.GROUP))
            else:
                k = pick()
                if s.rng.random() < 0.8:
                    self.read(s, k)
                self.write(s, k)
        if s.rng.random() < 0.05:
            raise Rollback

    def final(self, s):
        self.read_all(s)
