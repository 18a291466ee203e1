"""Lists, as arrays and as text: reads and appends of a few of them."""
from .base import *


class Lists:
    """Reading and appending; also for workloads that do more.  Lists come in
    tens (base.place): the first five are rows of ints, the others of texts."""

    tables = ("ints (k int KEY, v bigint[])", "texts (k int KEY, v text)")

    @staticmethod
    def _table(k):
        return "ints" if k % 10 < 5 else "texts"

    @classmethod
    def _elements(cls, k, v):
        if not v:
            return []
        return list(v) if cls._table(k) == "ints" else [int(e) for e in v.split()]

    @classmethod
    def read(cls, s, k):
        rows = s.query(f"SELECT v FROM {cls._table(k)} WHERE k = %s", (place(k),))
        elements = cls._elements(k, rows[0][0] if rows else None)
        s.record("list", k, elements)

    @classmethod
    def read_range(cls, s, first):
        """Four lists of one table, from first on, in one statement; absent rows are empty
        lists."""
        keys = range(first, first + 4)
        places = [place(k) for k in keys]
        where, args = "k = ANY(%s)", (places,)
        if places[-1] - places[0] == 3:
            where, args = "k BETWEEN %s AND %s", (places[0], places[-1])
        rows = keyed(s.query(f"SELECT k, v FROM {cls._table(first)} WHERE {where} "
                             f"ORDER BY k {s.rng.choice(('', 'DESC'))}", args))
        for k in keys:
            s.record("list", k, cls._elements(k, rows.get(k)))

    @classmethod
    def append(cls, s, k, blind=False):
        """By SQL's ||, or by the value that the client computed; the latter loses
        appends under READ COMMITTED, which permits that, hence blind."""
        e, table = s.element(), cls._table(k)
        new = [e] if table == "ints" else f" {e}"
        if blind or s.rng.random() < 0.5:
            n = s.execute(f"UPDATE {table} SET v = v || %s WHERE k = %s", (new, place(k)))
        else:
            rows = s.query(f"SELECT v FROM {table} WHERE k = %s", (place(k),))
            s.record("list", k, cls._elements(k, rows[0][0] if rows else None))
            n = s.execute(f"UPDATE {table} SET v = %s WHERE k = %s", ((rows[0][0] if rows else new[:0]) + new, place(k)))
        if n == 0:
            s.execute(f"INSERT INTO {table} VALUES (%s, %s)", (place(k), new))
        s.record("append", k, e)

    @classmethod
    def read_all(cls, s):
        for table in ("ints", "texts"):
            for k, v in keyed(s.query(f"SELECT k, v FROM {table} WHERE v IS NOT NULL")).items():
                s.record("list", k, cls._elements(k, v))


class Append(Lists, Workload):
    """Transactions of one to four operations on eight lists; every now and then on
    others, so that they stay short."""

    name = "append"
    allowed = CONFLICTS + "|23505"         # a list that two make at a time
    AHEAD = 60                      # transactions of a client on the same

    def setup(self, conn):
        # some lists exist, the others are made by the first append
        for table, empty, keys in (("ints", "{}", (0, 11)), ("texts", "", (5, 16))):
            fill(conn, table)
            for k in keys:
                query(conn, f"INSERT INTO {table} VALUES (%s, %s)", (place(k), empty))

    def transaction(self, s):
        base = s.n // self.AHEAD * 10
        for _ in range(s.rng.randint(1, 4)):
            k, what = base + s.rng.choice((0, 1, 2, 3, 5, 6, 7, 8)), s.rng.random()
            if what < 0.35:
                self.read(s, k)
            elif what < 0.5:
                self.read_range(s, base + s.rng.choice((0, 5)))
            else:
                self.append(s, k, blind=s.level == READ_COMMITTED)
        if s.rng.random() < 0.05:
            raise Rollback

    def final(self, s):
        self.read_all(s)
