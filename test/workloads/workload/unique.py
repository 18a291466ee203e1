"""Inserts of the same keys: each has one owner at a time."""
from .base import *


class Unique(Together, Workload):
    """All clients want the same key in every round; each keeps a few, and frees them."""

    name = "unique"
    tables = ("slot (id int KEY, owner bigint)",)
    levels = (READ_COMMITTED, SERIALIZABLE)
    allowed = "40001|23505"
    KEYS, KEEPS = 12, 3

    def setup(self, conn):
        # in different leaves, and always occupied neighbours
        query(conn, f"INSERT INTO slot SELECT g, 0 FROM generate_series(1, {self.KEYS * 50 + 49}) g "
              "WHERE g % 50 NOT IN (49, 0, 1)")

    def transaction(self, s):
        mine = s.state.setdefault("mine", [])       # (id, owner) that may be ours
        if len(mine) > self.KEEPS:
            self.free(s, *mine.pop(0))
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
        s.record("free", i, [owner, s.execute("DELETE FROM slot WHERE id = %s AND owner = %s", (i, owner))])

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
        forever = checker.Transaction("never", [], begin=float("inf"), end=float("inf"))

        def surely(i, owner):
            """From when to when it surely is there."""
            t, free = inserts[i][owner], frees.get(owner, forever)
            return (t.end, free.begin) if t.outcome == checker.OK else (1, 0)

        def maybe(i, owner):
            t, free = inserts[i][owner], frees.get(owner, forever)
            return (1, 0) if t.outcome == checker.FAIL else (t.begin, free.acknowledged)
        for i, owners in inserts.items():
            order = sorted((o for o in owners if owners[o].outcome == checker.OK), key=lambda o: owners[o].begin)
            last = None
            for o in order:
                low, high = surely(i, o)
                if last is not None and low < last[1] and last[0] < high:
                    found.append(checker.Anomaly("duplicate", f"key {i} belongs to {o} and to {last[2]}",
                                                 [owners[o], owners[last[2]]]))
                if last is None or high > last[1]:
                    last = low, high, o
        for t in history:
            for name, i, v, _ in t.ops:
                owners = inserts.get(i, {})
                if name == "insert" and t.error == "23505":
                    there = [o for o in owners if o != v and maybe(i, o)[0] <= t.end and maybe(i, o)[1] >= t.begin]
                    if not there:
                        found.append(checker.Anomaly("garbage", f"key {i} is taken, they say, by nobody", [t]))
                elif name == "owner" and v is not None:
                    if v not in owners or owners[v].outcome == checker.FAIL:
                        found.append(checker.Anomaly("G1a", f"key {i} belongs to {v}, who failed", [t]))
                    elif not (maybe(i, v)[0] <= t.end and maybe(i, v)[1] >= t.begin):
                        found.append(checker.Anomaly("stale-read", f"key {i} belongs to {v}, freed before", [t, owners[v]]))
                elif name == "free" and v[1] == 0 and v[0] in owners and owners[v[0]].outcome == checker.OK and \
                        t.outcome == checker.OK and v[0] not in frees:
                    found.append(checker.Anomaly("lost", f"key {i} of {v[0]} could not be freed", [t, owners[v[0]]]))
                if name == "owner":
                    for o in owners:
                        low, high = surely(i, o)
                        if o != v and low < t.begin and t.end < high:
                            found.append(checker.Anomaly("lost", f"key {i} belongs to {o}, and {v} is seen", [t, owners[o]]))
        return found
