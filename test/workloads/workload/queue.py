"""A queue: insert on the right, take from the left."""
import bisect

from .base import *


WAITING = 150                   # at first: some leaves


class Queue(Workload):
    """The position is one more than the last; the first is taken only if there is a
    second, so that positions never begin anew.  The left leaves empty."""

    name = "queue"
    tables = ("queue (pos bigint KEY, v bigint, pad text)",)
    allowed = CONFLICTS + "|23505"

    def setup(self, conn):
        query(conn, f"INSERT INTO queue SELECT g, -g, '' FROM generate_series(0, {WAITING - 1}) g")

    def transaction(self, s):
        if s.client % 2:
            self.put(s)
        else:
            self.take(s)

    @staticmethod
    def put(s):
        """Putters are slow beside takers: several at a time."""
        last = s.query(s.rng.choice(("SELECT max(pos) FROM queue",
                                     "SELECT pos FROM queue ORDER BY pos DESC LIMIT 1")))[0][0]
        for i in range(s.rng.randint(1, 4)):
            v = s.element()
            s.execute("INSERT INTO queue VALUES (%s, %s, %s)", (last + 1 + i, v, "x" * s.rng.randrange(200)))
            s.record("put", last + 1 + i, v)

    @staticmethod
    def take(s):
        rows = s.query("SELECT pos FROM queue ORDER BY pos LIMIT 2")
        if len(rows) == 2:
            for pos, v in s.query("DELETE FROM queue WHERE pos = %s RETURNING pos, v", rows[0]):
                s.record("take", pos, v)

    def final(self, s):
        s.record("left", "queue", [list(r) for r in s.query("SELECT pos, v FROM queue ORDER BY pos")])

    @staticmethod
    def check(history, level=None, **_):
        found = []

        def wrong(name, text, *transactions):
            found.append(checker.Anomaly(name, text, transactions))
        start = checker.Transaction("setup", [], begin=-1, end=-1)
        puts, takes = {-g: (start, g) for g in range(WAITING)}, {}      # v -> (transaction, pos), v -> [...]
        for t in history:
            for name, pos, v, _ in t.ops:
                if name == "put":
                    puts[v] = t, pos
                elif name == "take":
                    takes.setdefault(v, []).append((t, pos))
        for v, by in takes.items():
            sure = [t for t, _ in by if t.outcome == checker.OK]
            if len(sure) > 1:
                wrong("duplicate", f"{v} is taken twice", *sure)
            put, pos = puts.get(v, (None, None))
            for t, at in by:
                if put is None or at != pos:
                    wrong("garbage", f"{v} is taken from {at}, and was put at {pos}", t)
                elif put.outcome == checker.FAIL:
                    wrong("G1a", f"{v} is taken, but putting it failed", t, put)
                elif put.begin > t.end:
                    wrong("garbage", f"{v} is taken before it was put", t, put)
        for t in history:
            for name, _, left, _ in t.ops if t.final else ():
                left = {v: pos for pos, v in left}
                for v, pos in left.items():
                    if v not in puts or puts[v][0].outcome == checker.FAIL or puts[v][1] != pos:
                        wrong("garbage", f"{v} at {pos} was never put there", t)
                    for by, _ in takes.get(v, ()):
                        if by.outcome == checker.OK:
                            wrong("lost", f"{v} was taken, and is still there", by)
                for v, (put, pos) in puts.items():
                    by = [x for x, _ in takes.get(v, ()) if x.outcome != checker.FAIL]
                    if put.outcome == checker.OK and v not in left and not by:
                        wrong("lost", f"{v}, put at {pos}, is gone, and nobody took it", put)
        Queue._order(history, puts, takes, level, wrong)
        return found

    @staticmethod
    def _order(history, puts, takes, level, wrong):
        """Nobody takes one while another further left is there, surely; and what a taker
        takes is further right each time (not under READ COMMITTED, where a position that
        was freed may be filled again)."""
        happened = [(t, pos, v) for v, by in takes.items() for t, pos in by if t.outcome == checker.OK]
        happened.sort(key=lambda x: x[0].begin)
        begins = [t.begin for t, _, _ in happened]
        least = [float("inf")]              # the leftmost that is taken from here on
        for _, pos, _ in reversed(happened):
            least.append(min(pos, least[-1]))
        least.reverse()
        for t, pos, v in happened:
            after = bisect.bisect_right(begins, t.end)
            for later, other, w in happened[after:] if least[after] < pos else ():
                if other < pos and puts.get(w, (later,))[0].acknowledged < t.begin:
                    wrong("order", f"{v} at {pos} is taken, and {w} at {other} was there", t, later)
        last = {}
        for t, pos, v in happened:
            if (level or t.level) != READ_COMMITTED:
                if pos <= last.get(t.client, (-1,))[0]:
                    wrong("order", f"client {t.client} takes {pos} after {last[t.client][0]}", last[t.client][1], t)
                last[t.client] = pos, t
