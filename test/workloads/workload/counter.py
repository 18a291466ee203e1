"""Increments of hot rows, as TPC-B does them."""
import bisect

from .base import *

HOT, WARM = "hot", ("warm1", "warm2")


class Bounds:
    """What a counter may show, from what was acknowledged and what was begun."""

    def __init__(self):
        self.begun, self.acknowledged = Sums(), Sums()

    def add(self, t, n):
        self.begun.add(t.begin, (min(n, 0), max(n, 0)))
        self.acknowledged.add(t.acknowledged, (n - min(n, 0), n - max(n, 0)))

    def at(self, t):
        """All that was acknowledged before t, and any of what was begun before its end."""
        return tuple(a + b for a, b in zip(self.begun.before(t.end), self.acknowledged.before(t.begin)))


class Sums:
    """Sums of pairs up to some time."""

    def __init__(self):
        self.changes, self.sums = [], None

    def add(self, at, pair):
        self.changes.append((at, pair))

    def before(self, at):
        if self.sums is None:
            self.changes.sort()
            self.sums = [(0, 0)]
            for _, (a, b) in self.changes:
                self.sums.append((self.sums[-1][0] + a, self.sums[-1][1] + b))
        return self.sums[bisect.bisect_left(self.changes, (at,))]


class Counter(Workload):
    """n = n + 1 is applied at COMMIT to the newest row.  A read shows at least what was
    acknowledged before it began, and at most what was begun before it ended."""

    name = "counter"
    tables = ("counter (name text KEY, n bigint, m bigint)", "event (client int KEY, n int KEY)")
    clients = 8

    def __init__(self, level=SERIALIZABLE, *args):
        super().__init__(level, *args)
        # late-bound increments meet nobody; a snapshot that is written to does
        self.allowed = "(?!)" if level == READ_COMMITTED else CONFLICTS

    def setup(self, conn):
        query(conn, "INSERT INTO counter VALUES ('hot', 0, 0), ('warm1', 0, 0), ('warm2', 0, 0)")

    def transaction(self, s):
        if s.client % 4 == 3:
            self.look(s)
        else:
            self.plus(s)

    def plus(self, s):
        warm = s.rng.choice(WARM)
        n, m = s.rng.randint(-5, 9), s.rng.randint(1, 3)
        s.execute("UPDATE counter SET n = n + %s, m = m - %s WHERE name = 'hot'", (n, m))
        s.execute("UPDATE counter SET n = n - %s WHERE name = %s", (m, warm))
        s.execute("INSERT INTO event VALUES (%s, %s)", (s.client, s.n))
        for key, change in (("hot.n", n), ("hot.m", -m), (warm + ".n", -m), ("event", 1)):
            s.record("plus", key, change)

    def look(self, s):
        if s.rng.random() < 0.3:
            s.record("value", "event", s.query("SELECT count(*) FROM event")[0][0])
        if s.rng.random() < 0.5:
            n, m = s.query("SELECT n, m FROM counter WHERE name = 'hot'")[0]
            s.record("value", "hot.n", n)
            s.record("value", "hot.m", m)
        else:
            self.all(s)

    @staticmethod
    def all(s):
        rows = {name: (n, m) for name, n, m in s.query("SELECT name, n, m FROM counter")}
        s.record("value", "hot.n", rows[HOT][0])
        s.record("value", "hot.m", rows[HOT][1])
        for warm in WARM:
            s.record("value", f"{warm}.n", rows[warm][0])
        s.record("balance", "m", rows[HOT][1] - sum(rows[w][0] for w in WARM))

    def final(self, s):
        s.record("value", "event", s.query("SELECT count(*) FROM event")[0][0])
        self.all(s)

    @staticmethod
    def check(history, level=None, **_):
        found, bounds = [], {}
        for t in history:
            for name, key, n, _ in t.ops:
                if name == "plus" and t.outcome != checker.FAIL:
                    bounds.setdefault(key, Bounds()).add(t, n)
        for t in history:
            for name, key, n, _ in t.ops:
                if name == "balance" and n != 0:
                    found.append(checker.Anomaly("G-single", f"two rows changed together differ by {n}", [t]))
                if name != "value":
                    continue
                low, high = bounds.setdefault(key, Bounds()).at(t)
                if not low <= n <= high:
                    found.append(checker.Anomaly("lost" if n < low else "garbage", f"{key} is {n}, may be {low} to {high}", [t]))
        return found
