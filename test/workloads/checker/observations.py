"""What reads say: directly (some reads are wrong by themselves), and as dependencies.

A dependency is (kind, a, b, statement, why, item): transaction a comes before b.

    ww   b overwrote, or appended right after, what a wrote
    wr   b read what a wrote
    rw   a read what b then overwrote, or did not see what b wrote

statement is that of the reader, item the key; for a read by a predicate item is None.
A read of what the transaction itself wrote before says nothing about others; it is
compared with what it should be ("internal").

Reads of transactions that failed count, too: what they were shown, they were shown.
"""
from collections import namedtuple

from .history import FAIL, OK, Anomaly

Dependency = namedtuple("Dependency", "kind a b statement why item")


class Observations:
    """found: Anomalies.  dependencies.  committed: transactions that did happen, those
    of unknown outcome included if somebody saw a write of theirs.  inferred:
    dependencies that follow only if the order of commits respects real time."""

    def __init__(self, transactions):
        self.transactions = transactions
        self.found, self.dependencies, self.inferred = [], [], []
        self.committed = {t for t in transactions if t.outcome == OK}
        self._seen = set()
        parts = [Lists(self), Registers(self), Sets(self)]
        for t in transactions:
            for part in parts:
                part.gather(t)
        for part in parts:
            part.observe()          # who happened is known after this
        for part in parts:
            part.conclude()

    def anomaly(self, name, text, *transactions):
        """Once per name, text and transactions."""
        key = name, text
        if key not in self._seen:
            self._seen.add(key)
            self.found.append(Anomaly(name, text, transactions))

    def saw(self, reader, writer, what):
        """Somebody was shown what writer wrote."""
        if writer is reader:
            return
        if writer.outcome == FAIL:
            self.anomaly("G1a", f"T{reader.id} saw {what} of T{writer.id}, which failed", reader, writer)
        else:
            self.committed.add(writer)

    def depends(self, kind, a, b, statement, why, item, inferred=False):
        if a is not b:
            (self.inferred if inferred else self.dependencies).append(
                Dependency(kind, a, b, statement, why, item))


class Lists:
    """Each element is appended once: a list tells the order of all its appends."""

    def __init__(self, all):
        self.all = all
        self.writer = {}            # key -> {element: transaction}
        self.appends = {}           # (transaction, key) -> its elements
        self.reads = []             # (transaction, statement, key, elements)
        self.order = {}             # key -> the longest list seen

    def gather(self, t):
        """Also compares the transaction with itself."""
        own, before = {}, {}
        for name, k, v, statement in t.ops:
            if name == "append":
                self.writer.setdefault(k, {})[v] = t
                own.setdefault(k, []).append(v)
            elif name == "list":
                mine = own.get(k, [])
                others = v[:len(v) - len(mine)]
                if v[len(others):] != mine:
                    self.all.anomaly("internal", f"T{t.id} appended {mine} to list {k}, and then reads {v}", t)
                    others = [e for e in v if e not in mine]
                if before.setdefault(k, others) != others and not mine:
                    self.all.anomaly("non-repeatable", f"T{t.id} read {before[k]} in list {k}, then {others}", t)
                if not mine:
                    self.reads.append((t, statement, k, v))
                elif len(v) > len(self.order.get(k, ())) and t.outcome == OK:
                    self.order[k] = v       # nobody else may have read it
                before[k] = others
        for k, elements in own.items():
            self.appends[t, k] = elements

    def observe(self):
        for t, _, k, v in self.reads:
            if len(set(v)) != len(v):
                self.all.anomaly("duplicate", f"T{t.id} read {v} in list {k}", t)
            if len(v) > len(self.order.get(k, ())):
                self.order[k] = v
            writers = [self.writer.get(k, {}).get(e) for e in v]
            for i, (e, w) in enumerate(zip(v, writers)):
                if w is None:
                    self.all.anomaly("garbage", f"T{t.id} read {e} in list {k}, which nobody appended", t)
                    continue
                self.all.saw(t, w, f"element {e} of list {k}")
                if w.outcome == FAIL:
                    later = next((x for x in writers[i + 1:] if x is not None and x.outcome == OK), None)
                    if later is not None:
                        self.all.anomaly("dirty-update", f"T{later.id} appended to list {k} after {e} of T{w.id}, "
                                         "which failed", later, w)
        # all elements of a transaction follow each other
        for t, _, k, v in self.reads:
            at = {e: i for i, e in enumerate(v)}
            for w in {self.writer.get(k, {}).get(e) for e in v} - {None}:
                mine = self.appends[w, k]
                places = [at.get(e) for e in mine]
                if None in places or places != list(range(places[0], places[0] + len(places))):
                    self.all.anomaly("G1b", f"T{t.id} read in list {k} only a part, or in another order, of the "
                                     f"elements {mine} of T{w.id}: {v}", t, w)

    def conclude(self):
        all = self.all
        for k, order in self.order.items():
            writer = self.writer.get(k, {})
            for a, b in zip(order, order[1:]):
                if a in writer and b in writer:
                    all.depends("ww", writer[a], writer[b], None, f"appended {b} to list {k} after {a}", k)
        for t, statement, k, v in self.reads:
            order, writer = self.order.get(k, []), self.writer.get(k, {})
            if v != order[:len(v)]:
                all.anomaly("incompatible", f"T{t.id} read {v} in list {k}, others read {order}", t)
                continue
            if v and v[-1] in writer:
                all.depends("wr", writer[v[-1]], t, statement, f"read list {k} with {v[-1]}", k)
            follower = writer.get(order[len(v)]) if len(v) < len(order) else None
            if follower is not None:
                all.depends("rw", t, follower, statement,
                            f"appended {order[len(v)]} to list {k}, which was read without it", k)
        # acknowledged, and not there for those who looked later
        latest = {}
        for t, _, k, v in self.reads:
            if k not in latest or t.begin > latest[k].begin:
                latest[k] = t
        for (t, k), elements in self.appends.items():
            missing = [e for e in elements if e not in self.order.get(k, ())]
            if t.outcome == OK and missing and k in latest and latest[k].begin > t.end:
                all.anomaly("lost", f"{missing} of T{t.id} is not in list {k}", t, latest[k])


class Registers:
    """Each value of a register is written once, so a read names its writer.  The
    order of the values is known in part: absent first; what a transaction read
    before what it then wrote; and, if commits respect real time, the value of a
    write that was acknowledged before that of one begun later."""

    def __init__(self, all):
        self.all = all
        self.writer = {}            # key -> {value: transaction}
        self.last = {}              # (transaction, key) -> the value it leaves
        self.reads = []             # (transaction, statement, key, value)
        self.base = {}              # (transaction, key) -> (statement, what it read before it wrote)

    def gather(self, t):
        own, before = {}, {}
        for name, k, v, statement in t.ops:
            if name == "write":
                self.writer.setdefault(k, {})[v] = t
                if k not in own and k in before:
                    self.base[t, k] = before[k]
                own[k] = v
            elif name == "read":
                if k in own:
                    if own[k] != v:
                        self.all.anomaly("internal", f"T{t.id} wrote {own[k]} to register {k}, and then reads {v}", t)
                    continue
                if k in before and before[k][1] != v:
                    self.all.anomaly("non-repeatable", f"T{t.id} read {before[k][1]} in register {k}, then {v}", t)
                before[k] = statement, v
                self.reads.append((t, statement, k, v))
        for k, v in own.items():
            self.last[t, k] = v

    def observe(self):
        for t, _, k, v in self.reads:
            if v is None:
                continue
            w = self.writer.get(k, {}).get(v)
            if w is None:
                self.all.anomaly("garbage", f"T{t.id} read {v} in register {k}, which nobody wrote", t)
                continue
            self.all.saw(t, w, f"value {v} of register {k}")
            if w.outcome == FAIL and (t, k) in self.base and self.base[t, k][1] == v and t.outcome == OK:
                self.all.anomaly("dirty-update", f"T{t.id} overwrote {v} in register {k} of T{w.id}, which failed",
                                 t, w)
            if w is not t and self.last[w, k] != v:
                self.all.anomaly("G1b", f"T{t.id} read {v} in register {k}, which T{w.id} overwrote itself with "
                                 f"{self.last[w, k]}", t, w)

    def conclude(self):
        all = self.all
        following = {}              # (key, value) -> {transaction that wrote after it}
        for (t, k), (statement, v) in self.base.items():
            if t not in all.committed:
                continue
            for other in following.setdefault((k, v), []):
                all.anomaly("lost-update", f"T{other.id} and T{t.id} both read {v} in register {k} and overwrote it",
                            other, t)
            following[k, v].append(t)
            w = self.writer.get(k, {}).get(v)
            if w is not None:
                all.depends("ww", w, t, statement, f"overwrote {v} in register {k}", k)
        written = {}                # key -> [transaction], committed
        for (t, k), v in self.last.items():
            if t in all.committed:
                written.setdefault(k, []).append(t)
        after = {}                  # (key, value) -> writers that began after it was acknowledged, the first ones
        for k, writers in written.items():
            for w in writers:
                later = [x for x in writers if x.begin > w.acknowledged]
                limit = min((x.acknowledged for x in later), default=0)
                after[k, self.last[w, k]] = [x for x in later if x.begin <= limit]
        for t, statement, k, v in self.reads:
            w = self.writer.get(k, {}).get(v)
            if w is not None:
                all.depends("wr", w, t, statement, f"read {v} in register {k}", k)
            followers = written.get(k, []) if v is None else following.get((k, v), [])
            for f in followers:
                all.depends("rw", t, f, statement, f"wrote {self.last[f, k]} to register {k}, which was read as {v}", k)
            for f in after.get((k, v), ()):
                if f not in followers:
                    all.depends("rw", t, f, statement, f"wrote {self.last[f, k]} to register {k}, which was read as "
                                f"{v}, acknowledged before", k, inferred=True)


class Sets:
    """Each element is added once and removed at most once."""

    def __init__(self, all):
        self.all = all
        self.added, self.removed = {}, {}   # key -> {element: transaction}, [transactions]
        self.reads = []                     # (transaction, statement, key, elements, own)

    def gather(self, t):
        own, gone, before = {}, {}, {}
        for name, k, v, statement in t.ops:
            if name == "add":
                self.added.setdefault(k, {})[v] = t
                own.setdefault(k, set()).add(v)
            elif name == "remove":
                self.removed.setdefault(k, {}).setdefault(v, []).append((t, statement))
                gone.setdefault(k, set()).add(v)
            elif name == "scan":
                here, mine, away = set(v), own.get(k, set()), gone.get(k, set())
                if len(here) != len(v):
                    self.all.anomaly("duplicate", f"T{t.id} saw {sorted(v)} in set {k}", t)
                if mine - away - here or here & away:
                    self.all.anomaly("internal", f"T{t.id} put {sorted(mine)} into set {k}, took out {sorted(away)}, "
                                     f"and then sees {sorted(v)}", t)
                others = here - mine
                if k in before and before[k] - away != others - away:
                    self.all.anomaly("non-repeatable", f"T{t.id} saw {sorted(before[k])} in set {k}, then "
                                     f"{sorted(others)}", t)
                before[k] = others
                self.reads.append((t, statement, k, others, mine | away))

    def observe(self):
        for t, _, k, here, _ in self.reads:
            for e in here:
                w = self.added.get(k, {}).get(e)
                if w is None:
                    self.all.anomaly("garbage", f"T{t.id} saw {e} in set {k}, which nobody added", t)
                else:
                    self.all.saw(t, w, f"element {e} of set {k}")
        for k, removed in self.removed.items():
            for e, removers in removed.items():
                w = self.added.get(k, {}).get(e)
                for t, _ in removers:
                    if w is None:
                        self.all.anomaly("garbage", f"T{t.id} removed {e} from set {k}, which nobody added", t)
                    else:
                        self.all.saw(t, w, f"element {e} of set {k}")
                happened = [t for t, _ in removers if t.outcome == OK]
                if len(happened) > 1:
                    self.all.anomaly("duplicate", f"{e} was removed twice from set {k}", *happened)

    def conclude(self):
        all = self.all
        for k, removed in self.removed.items():
            for e, removers in removed.items():
                w = self.added.get(k, {}).get(e)
                for t, statement in removers:
                    if w is not None:
                        all.depends("wr", w, t, statement, f"removed {e} from set {k}", k)
        for t, statement, k, here, own in self.reads:
            removed = self.removed.get(k, {})
            for e in here:
                w = self.added.get(k, {}).get(e)
                if w is not None:
                    all.depends("wr", w, t, statement, f"saw {e} in set {k}", k)
                for r, _ in removed.get(e, ()):
                    if r in all.committed:
                        all.depends("rw", t, r, statement, f"removed {e} from set {k}, where it was seen", None)
            for e, w in self.added.get(k, {}).items():
                # one that was removed may have been absent for that
                if e not in here and e not in own and w in all.committed and e not in removed:
                    all.depends("rw", t, w, statement, f"added {e} to set {k}, which was seen without it", None)
        latest = {}
        for t, _, k, here, _ in self.reads:
            if k not in latest or t.begin > latest[k][0].begin:
                latest[k] = t, here
        for k, (t, here) in latest.items():
            for e, w in self.added.get(k, {}).items():
                gone = [r for r, _ in self.removed.get(k, {}).get(e, ())]
                if w.outcome == OK and w.end < t.begin and e not in here and not gone and w is not t:
                    all.anomaly("lost", f"element {e} of T{w.id} is not in set {k}", w, t)
                for r in gone:
                    if r.outcome == OK and r.end < t.begin and e in here:
                        all.anomaly("lost", f"T{r.id} removed {e} from set {k}, where it still is", r, t)
