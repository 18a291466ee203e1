"""Lists, as arrays and as text: reads and appends of a few of them."""
from .base import *

KEYS = 8


class Lists:
    """Reading and appending; also for workloads that do more.  Lists come in groups of
    KEYS: the first half are rows of ints, the others of texts."""

    tables = ("ints (k int KEY, v int[])", "texts (k int KEY, v text)")

    @staticmethod
    def _table(k):
        return "ints" if k % KEYS < KEYS // 2 else "texts"

    @classmethod
    def _elements(cls, k, v):
        if not v:
            return []
        return list(v) if cls._table(k) == "ints" else [int(e) for e in v.split()]

    @classmethod
    def read(cls, s, k):
        rows = s.query(f"SELECT v FROM {cls._table(k)} WHERE k = %s", (k,))
        elements = cls._elements(k, rows[0][0] if rows else None)
        s.record("list", k, elements)

    @classmethod
    def read_range(cls, s, first):
        """The lists of a group in one table, from first on, in one statement; absent
        rows are empty lists."""
        keys = range(first, first + KEYS // 2)
        rows = dict(s.query(f"SELECT k, v FROM {cls._table(first)} WHERE k BETWEEN %s AND %s "
                            f"ORDER BY k {s.rng.choice(('', 'DESC'))}", (keys[0], keys[-1])))
        for k in keys:
            s.record("list", k, cls._elements(k, rows.get(k)))

    @classmethod
    def append(cls, s, k, blind=False):
        """By SQL's ||, or by the value that the client computed; the latter loses
        appends under READ COMMITTED, which permits that, hence blind."""
        e, table = s.element(), cls._table(k)
        new = [e] if table == "ints" else f" {e}"
        if blind or s.rng.random() < 0.5:
            n = s.execute(f"UPDATE {table} SET v = v || %s WHERE k = %s", (new, k))
        else:
            rows = s.query(f"SELECT v FROM {table} WHERE k = %s", (k,))
            s.record("list", k, cls._elements(k, rows[0][0] if rows else None))
            n = s.execute(f"UPDATE {table} SET v = %s WHERE k = %s", ((rows[0][0] if rows else new[:0]) + new, k))
        if n == 0:
            s.execute(f"INSERT INTO {table} VALUES (%s, %s)", (k, new))
        s.record("append", k, e)


class Append(Lists, Workload):
    """Transactions of one to four operations on the eight lists of a group; a new
    group every now and then, so that lists stay short."""

    name = "append"
    allowed = "40001|23505"         # a list that two make at a time
    AHEAD = 100                     # transactions of a client per group

    def setup(self, conn):
        # some lists of the first group exist, the others are made by the first append
        query(conn, "INSERT INTO ints SELECT g, '{}' FROM generate_series(0, 1) g")
        query(conn, "INSERT INTO texts SELECT g, '' FROM generate_series(4, 5) g")

    def transaction(self, s):
        base = s.n // self.AHEAD * KEYS
        for _ in range(s.rng.randint(1, 4)):
            k, what = base + s.rng.randrange(KEYS), s.rng.random()
            if what < 0.35:
                self.read(s, k)
            elif what < 0.5:
                self.read_range(s, base + s.rng.choice((0, KEYS // 2)))
            else:
                self.append(s, k, blind=s.level == READ_COMMITTED)
        if s.rng.random() < 0.05:
            raise Rollback

    def final(self, s):
        for table in ("ints", "texts"):
            for k, v in s.query(f"SELECT k, v FROM {table}"):
                s.record("list", k, self._elements(k, v))
