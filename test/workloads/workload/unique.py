"""Inserts of the same keys: each has one owner at a time."""
import bisect
import itertools

from .base import *


class Unique(Together, Workload):
    """All clients want the same key in every round; each keeps a few, and frees them."""

    name = "unique"
    tables = ("slot (id int KEY, owner bigint)",)
    levels = (READ_COMMITTED, SERIALIZABLE)
    allowed = CONFLICTS + "|23505"
    KEYS, KEEPS = 12, 3

    def setup(self, conn):
        # in different leaves, and always occupied neighbours
        query(conn, f"INSERT INTO slot SELECT g, 0 FROM generate_series(1, {self.KEYS * 50 + 49}) g "
              "WHERE g % 50 NOT IN (49, 0, 1)")

    def transaction(self, s):
        mine = s.state.setdefault("mine", [])       # (id, owner) that may be ours
        if len(mine) > self.KEEPS:
            mine.append(mine.pop(0))                # tried again if this fails
            if self.free(s, *mine[-1]) == 0:
                mine.pop()
            return
        if mine and s.rng.random() < 0.2:
            self.look(s, *s.rng.choice(mine))
            return
        self.meet(s)
        i = (s.n * 7 % self.KEYS + 1) * 50
        owner = s.element()
        mine.append((i, owner))
        s.record("insert", i, owner)                # also if it fails
        if s.rng.random() < 0.5:
            s.execute("INSERT INTO slot VALUES (%s, %s)", (i, owner))
        else:
            s.execute("INSERT INTO slot SELECT g, %s FROM generate_series(%s, %s) g WHERE g = %s",
                      (owner, i - 1, i + 1, i))

    @staticmethod
    def free(s, i, owner):
        n = s.execute("DELETE FROM slot WHERE id = %s AND owner = %s", (i, owner))
        s.record("free", i, [owner, n])
        return n

    @staticmethod
    def look(s, i, owner):
        rows = s.query("SELECT owner FROM slot WHERE id = %s", (i,))
        s.record("owner", i, rows[0][0] if rows else None)

    def final(self, s):
        rows = dict(s.query("SELECT id, owner FROM slot WHERE owner <> 0"))
        for k in range(1, self.KEYS + 1):
            s.record("owner", k * 50, rows.get(k * 50))

    @staticmethod
    def check(history, level=None, **_):
        """An owner has its key from some moment of its insert to some moment of its
        being freed, and between these surely."""
        found = []
        inserts, frees = {}, {}     # id -> {owner: transaction}, owner -> transaction
        for t in history:
            for name, i, v, _ in t.ops:
                if name == "insert":
                    inserts.setdefault(i, {})[v] = t
                elif name == "free" and v[1] == 1 and t.outcome != checker.FAIL:
                    frees[v[0]] = t
        keys = {i: Ownerships(owners, frees) for i, owners in inserts.items()}
        for i, key in keys.items():
            for o, p in key.overlaps():
                found.append(checker.Anomaly("duplicate", f"key {i} belongs to {o} and to {p}",
                                             [inserts[i][o], inserts[i][p]]))
        for t in history:
            for name, i, v, _ in t.ops:
                owners, key = inserts.get(i, {}), keys.get(i)
                if name == "insert" and t.error == "23505" and not key.anybody(t):
                    found.append(checker.Anomaly("garbage", f"key {i} is taken, they say, by nobody", [t]))
                elif name == "free" and v[1] == 0 and v[0] in owners and owners[v[0]].outcome == checker.OK and \
                        t.outcome == checker.OK and v[0] not in frees:
                    found.append(checker.Anomaly("lost", f"key {i} of {v[0]} could not be freed", [t, owners[v[0]]]))
                elif name == "owner":
                    if v is not None and (v not in owners or owners[v].outcome == checker.FAIL):
                        found.append(checker.Anomaly("G1a", f"key {i} belongs to {v}, who failed", [t]))
                    elif v is not None and not key.may(v, t):
                        found.append(checker.Anomaly("stale-read", f"key {i} belongs to {v}, freed before", [t, owners[v]]))
                    o = key.surely(t) if key else None
                    if o not in (None, v):
                        found.append(checker.Anomaly("lost", f"key {i} belongs to {o}, and {v} is seen", [t, owners[o]]))
        return found


class Ownerships:
    """Who has one key when: surely, from the end of an insert to the begin of its being
    freed; and at most, from the begin of one to the end of the other."""

    def __init__(self, owners, frees):
        forever = checker.Transaction("never", [], begin=float("inf"), end=float("inf"))
        self.sure, self.most = [], {}
        for o, t in owners.items():
            free = frees.get(o, forever)
            if t.outcome == checker.OK:
                self.sure.append((t.end, free.begin, o))
            if t.outcome != checker.FAIL:
                self.most[o] = t.begin, free.acknowledged
        self.sure.sort()
        self.begins = sorted(self.most.values())
        self.latest = list(itertools.accumulate((end for _, end in self.begins), max))

    def overlaps(self):
        """Pairs of owners who surely had it at the same time."""
        last = None
        for low, high, o in self.sure:
            if last is not None and low < last[1]:
                yield o, last[2]
            if last is None or high > last[1]:
                last = low, high, o

    def anybody(self, t):
        """May somebody have had it at some time of transaction t?"""
        i = bisect.bisect_right(self.begins, (t.end, float("inf")))
        return i > 0 and self.latest[i - 1] >= t.begin

    def may(self, o, t):
        return self.most[o][0] <= t.end and self.most[o][1] >= t.begin

    def surely(self, t):
        """Who surely had it during all of t."""
        i = bisect.bisect_left(self.sure, (t.begin,))
        if i and self.sure[i - 1][1] > t.end:
            return self.sure[i - 1][2]
        return None
