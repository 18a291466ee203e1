"""Histories of simulated databases, for trying the checkers.

simulate() interleaves transactions of a few clients on a store in memory that keeps all
versions, at an isolation level done by the book: its histories are right for that
level.  TEMPLATES and MUTATIONS make one wrong in a known way, at a random place: by
transactions of their own on fresh keys that are strewn in, or by changing what somebody
read or how somebody ended.
"""
from .history import (FAIL, INFO, OK, READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE, History, Transaction)

LEVELS = READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE


class Database:
    """Versions of rows by (type, key), [(commit number, transaction, value)], and
    transactions that keep their writes until they commit."""

    def __init__(self):
        self.versions, self.number = {}, 0

    def at(self, row, snapshot):
        """The newest version of a row that a snapshot sees: (number, value)."""
        for number, value in reversed(self.versions.get(row, ())):
            if number <= snapshot:
                return number, value
        return 0, None

    def newest(self, row):
        versions = self.versions.get(row)
        return versions[-1][0] if versions else 0


class Running:
    """A transaction under way."""

    def __init__(self, db, id, client, level, begin):
        self.db = db
        self.record = Transaction(id, [], level=level, begin=begin, client=client, server=client % 2)
        self.snapshot = db.number
        self.writes, self.read, self.base, self.statement = {}, {}, {}, -1

    def look(self, row):
        number, value = self.db.at(row, self.snapshot)
        self.read.setdefault(row, number)
        return self.writes.get(row, value)

    def next_statement(self):
        self.statement += 1
        if self.record.level == READ_COMMITTED:
            self.snapshot = self.db.number

    def write(self, row, value):
        self.base.setdefault(row, self.db.at(row, self.snapshot)[0])
        self.writes[row] = value

    def commit(self):
        """Whether it may: first committer wins, for the row as it was when written to;
        SERIALIZABLE: nothing that it read has changed."""
        changed = [r for r, n in self.base.items() if self.db.newest(r) != n]
        if self.record.level == SERIALIZABLE:
            changed += [r for r, n in self.read.items() if self.db.newest(r) != n]
        if changed:
            return False
        self.db.number += 1
        for row, value in self.writes.items():
            self.db.versions.setdefault(row, []).append((self.db.number, value))
        return True

    def step(self, rng, element, keys):
        """One operation, a statement of its own.  What is read and then written
        under READ COMMITTED may change in between, unless it is one statement."""
        self.next_statement()
        k, what = rng.randrange(keys), rng.randrange(7)
        ops, s = self.record.ops, self.statement
        if what == 0:
            ops.append(["list", k, list(self.look(("list", k)) or []), s])
        elif what == 1:
            row = "list", k
            self.write(row, (self.look(row) or []) + [element])
            ops.append(["append", k, element, s])
        elif what == 2:
            ops.append(["read", k, self.look(("register", k)), s])
        elif what == 3:
            if rng.random() < 0.7:
                ops.append(["read", k, self.look(("register", k)), s])
                self.next_statement()
            self.write(("register", k), element)
            ops.append(["write", k, element, self.statement])
        elif what == 4:
            ops.append(["scan", k, sorted(self.look(("set", k)) or ()), s])
        elif what == 5:
            row = "set", k
            self.write(row, (self.look(row) or frozenset()) | {element})
            ops.append(["add", k, element, s])
        else:
            row = "set", k
            here = self.look(row)
            if here:
                e = rng.choice(sorted(here))
                self.write(row, here - {e})
                ops.append(["remove", k, e, s])


def simulate(rng, level=None, transactions=40, clients=4, keys=3):
    """A History of a right database; level None: each transaction draws its own.  One
    in twenty is rolled back, one in twenty ends in an unknown way."""
    db, log, running, free, clock, ids, elements = Database(), [], {}, list(range(clients)), 0.0, 0, 0
    while len(log) < transactions or running:
        clock += rng.random()
        if free and len(log) + len(running) < transactions and rng.random() < 0.4:
            client = free.pop(rng.randrange(len(free)))
            ids += 1
            running[client] = Running(db, ids, client, level or rng.choice(LEVELS), clock)
            # begun is not yet looked: the snapshot comes with the first statement
            running[client].steps = rng.randint(1, 4)
            running[client].snapshot = None
            continue
        if not running:
            continue
        client = rng.choice(sorted(running))
        t = running[client]
        if t.snapshot is None:
            t.snapshot = db.number
        if t.steps:
            t.steps -= 1
            elements += 1
            t.step(rng, elements, keys)
            continue
        chance = rng.random()
        if chance < 0.05:
            t.record.outcome = FAIL
        elif chance < 0.10:
            t.record.outcome = INFO
            if rng.random() < 0.5:
                t.commit()
        else:
            t.record.outcome = OK if t.commit() else FAIL
        clock += rng.random()
        t.record.end = clock
        log.append(t.record)
        del running[client]
        free.append(client)
    clock += 1
    last = Transaction(ids + 1, [], level=REPEATABLE_READ, begin=clock, end=clock + 1, client=-1, final=True)
    for kind, name, empty in (("list", "list", []), ("register", "read", None), ("set", "scan", ())):
        for k in range(keys):
            value = db.at((kind, k), db.number)[1]
            if value is not None:
                last.ops.append([name, k, sorted(value) if kind == "set" else value, 0])
    return History(log + [last], level=level or "MIXED")


# ---- wrong in a known way ----

# Transactions on fresh keys x, y, z, with elements 1, 2, ...: "A: append x 1, list y -"
# is one; a name in lower case failed; "<": what is on its left is over before the right
# begins; all others overlap; "A*" lasts till the end.  Then what is in the lists,
# registers and sets in the end.  The name is what the checker must find at the level
# given and at stronger ones; a weaker level permits the whole of it.
RC, RR, SER = LEVELS
TEMPLATES = [
    ("G0", RC, "A: append x 1, append y 2 | B: append x 3, append y 4", {"list x": [1, 3], "list y": [4, 2]}),
    ("G1a", RC, "a: append x 1 | B: list x 1", {}),
    ("G1a", RC, "a: append x 1", {"list x": [1]}),
    ("G1a", RC, "a: write x 1 | B: read x 1", {}),
    ("G1a", RC, "a: add x 1 | B: scan x 1", {}),
    ("dirty-update", RC, "a: append x 1 | B: append x 2 | C: list x 1 2", {"list x": [1, 2]}),
    ("dirty-update", RC, "a: write x 1 | B: read x 1, write x 2", {"register x": 2}),
    ("G1b", RC, "A: append x 1, append x 2 | B: list x 1", {"list x": [1, 2]}),
    ("G1b", RC, "A: append x 1, append x 2 | B: append x 3", {"list x": [1, 3, 2]}),
    ("G1b", RC, "A: append x 1, append x 2", {"list x": [2, 1]}),
    ("G1b", RC, "A: write x 1, write x 2 | B: read x 1", {"register x": 2}),
    ("G1c", RC, "A: append x 1, list y 2 | B: append y 2, list x 1", {"list x": [1], "list y": [2]}),
    ("G1c", RC, "A: write x 1, read y 2 | B: write y 2, read x 1", {"register x": 1, "register y": 2}),
    ("G1c", RC, "A: add x 1, scan y 2 | B: add y 2, scan x 1", {"set x": [1], "set y": [2]}),
    ("G1c", RC, "A: append x 1, read y 2 | B: write y 2, scan z 3 | C: add z 3, list x 1",
     {"list x": [1], "register y": 2, "set z": [3]}),
    ("G0-rt", RC, "A: append x 1 < B: append x 2", {"list x": [2, 1]}),
    ("G1c-rt", RC, "A: list x 1 < B: append x 1", {"list x": [1]}),
    ("G1c-rt", RC, "A: read x 1 < B: write x 1", {"register x": 1}),
    ("stale-read", RC, "A: append x 1 < B: list x -", {"list x": [1]}),
    ("stale-read", RC, "A: write x 1 < B: read x -", {"register x": 1}),
    ("stale-read", RC, "A: write x 1 < B: write x 2 < C: read x 1", {"register x": 2}),
    ("stale-read", RC, "A: add x 1 < B: scan x -", {"set x": [1]}),
    ("stale-read", RC, "A: add x 1 < B: remove x 1 < C: scan x 1", {"set x": []}),
    ("lost", RC, "A: append x 1 < B: append x 2", {"list x": [2]}),
    ("lost", RC, "A: add x 1 | B: add x 2", {"set x": [2]}),
    ("lost", RC, "A: add x 1 < B: remove x 1", {"set x": [1]}),
    ("duplicate", RC, "A: append x 1", {"list x": [1, 1]}),
    ("duplicate", RC, "A: add x 1 < B: remove x 1 | C: remove x 1", {"set x": []}),
    ("garbage", RC, "A: append x 1", {"list x": [1, 9]}),
    ("garbage", RC, "A: write x 1", {"register x": 9}),
    ("garbage", RC, "A: scan x 9", {}),
    ("incompatible", RC, "A: append x 1 | B: append x 2 | C: list x 2", {"list x": [1, 2]}),
    ("internal", RC, "A: append x 1, list x -", {"list x": [1]}),
    ("internal", RC, "A: write x 1, read x -", {"register x": 1}),
    ("internal", RC, "A: add x 1, scan x -", {"set x": [1]}),
    ("internal", RC, "A: add x 1 < B: remove x 1, scan x 1", {"set x": []}),
    ("non-repeatable", RR, "A: list x -, list x 1 | B: append x 1", {"list x": [1]}),
    ("non-repeatable", RR, "A: read x -, read x 1 | B: write x 1", {"register x": 1}),
    ("non-repeatable", RR, "A: scan x -, scan x 1 | B: add x 1", {"set x": [1]}),
    ("G-single", RR, "A: list x -, list y 2 | B: append x 1, append y 2", {"list x": [1], "list y": [2]}),
    ("G-single", RR, "A: read x -, read y 2 | B: write x 1, write y 2", {"register x": 1, "register y": 2}),
    ("G-single", RR, "A: scan x -, list y 2 | B: add x 1, append y 2", {"set x": [1], "list y": [2]}),
    ("G-single", RR, "A: scan x -, scan x 1 2 | B: add x 1, add x 2", {"set x": [1, 2]}),
    ("G-single-rt", RR, "A*: list x -, list y 2 | B: append x 1 < C: append y 2", {"list x": [1], "list y": [2]}),
    ("lost-update", RR, "A: list x -, append x 1 | B: list x -, append x 2", {"list x": [1, 2]}),
    ("lost-update", RR, "A: read x -, write x 1 | B: read x -, write x 2", {"register x": 2}),
    ("lost-update", RR, "A: write x 1 < B: read x 1, write x 2 | C: read x 1, write x 3", {"register x": 3}),
    ("G-nonadjacent", RR, "A: append x 1 | B: append y 2 | C: list y -, list x 1 | D: list x -, list y 2",
     {"list x": [1], "list y": [2]}),
    ("G-nonadjacent", RR, "A: write x 1 | B: write y 2 | C: read y -, read x 1 | D: read x -, read y 2",
     {"register x": 1, "register y": 2}),
    ("G-nonadjacent", RC, "A: write x 1 | B: write y 2 | C: read x 1, read y - | D: read y 2, read x -",
     {"register x": 1, "register y": 2}),
    ("G-nonadjacent", RC, "A: add x 1 | B: add x 2 | C: scan x 1 | D: scan x 2", {"set x": [1, 2]}),
    ("G2-item", SER, "A: list x -, append y 2 | B: list y -, append x 1", {"list x": [1], "list y": [2]}),
    ("G2-item", SER, "A: read x -, write y 2 | B: read y -, write x 1", {"register x": 1, "register y": 2}),
    ("G2-item", SER, "A: read x -, write y 2 | B: read y -, write z 3 | C: read z -, write x 1",
     {"register x": 1, "register y": 2, "register z": 3}),
    ("G2", SER, "A: scan x -, add x 1 | B: scan x -, add x 2", {"set x": [1, 2]}),
    ("G2", SER, "A: scan x -, add y 1 | B: scan y -, add x 2", {"set x": [2], "set y": [1]}),
    ("G2", SER, "A: add x 1 < B: scan x 1, write y 2 | C: read y -, remove x 1", {"set x": [], "register y": 2}),
    ("G2-item-rt", SER, "A*: list x -, append y 2 | B: append x 1 < C: list y -", {"list x": [1], "list y": [2]}),
]


def strew(rng, history, text, final, base, level):
    """Put the transactions of a template into a history, at random times."""
    last = history.transactions[-1]
    key = lambda k: f"{k}{base}"
    number = lambda e: base * 100 + int(e)
    ids = 10000 + base * 10
    at = rng.uniform(0, last.begin - 3)
    lasting = []
    for stage in text.split(" < "):
        end = at
        for part in stage.split(" | "):
            name, _, ops = part.partition(": ")
            if name.endswith("*"):
                name = name[:-1]
                lasting.append(ids)
            t = Transaction(f"{name}{ids}", [], FAIL if name.islower() else OK, level=level,
                            begin=at + rng.random() * 0.1, end=at + 0.5 + rng.random() * 0.1, client=ids)
            ids += 1
            for i, op in enumerate(ops.split(", ")):
                name, k, *v = op.split()
                v = [] if v == ["-"] else [number(e) for e in v]
                if name not in ("list", "scan"):
                    v = v[0] if v else None
                t.ops.append([name, key(k), v, i])
            history.transactions.insert(-1, t)
            end = max(end, t.end)
        at = end + 0.01
    for t in history:
        if t.client in lasting:
            t.end = at
    for row, v in final.items():
        kind, k = row.split()
        if kind == "register":
            last.ops.append(["read", key(k), number(v), 0])
        else:
            last.ops.append(["list" if kind == "list" else "scan", key(k), [number(e) for e in v], 0])


def _reads(history, name, wanted):
    """Operations of transactions that happened, with values that are wanted, of others."""
    for t in history:
        own = {(op[0], op[1]) for op in t.ops}
        for op in t.ops:
            if t.outcome == OK and op[0] == name and wanted(op[2]) and not own & {
                    ("append", op[1]), ("write", op[1]), ("add", op[1]), ("remove", op[1])}:
                yield t, op


def _repeat(rng, history):
    t, op = rng.choice(list(_reads(history, "list", len)))
    op[2] = op[2] + [rng.choice(op[2])]


def _invent(rng, history):
    t, op = rng.choice(list(_reads(history, "list", len)))
    op[2] = op[2][:-1] + [-1]


def _swap(rng, history):
    t, op = rng.choice(list(_reads(history, "list", lambda v: len(v) > 2)))
    op[2] = [op[2][1], op[2][0]] + op[2][2:]


def _withdraw(rng, history):
    """A transaction that was seen becomes one that failed."""
    seen = {e for _, op in _reads(history, "list", len) for e in op[2]}
    t = rng.choice([t for t in history if t.outcome == OK and
                    any(op[0] == "append" and op[2] in seen for op in t.ops)])
    t.outcome = FAIL


def _forget(rng, history):
    """What was acknowledged is not in any list any more."""
    appended = {op[2] for t in history if t.outcome == OK for op in t.ops if op[0] == "append"}
    last = history.transactions[-1]
    e = rng.choice(sorted(appended & {e for op in last.ops if op[0] == "list" for e in op[2]}))
    for t in history:
        for op in t.ops:
            if op[0] == "list":
                op[2] = [x for x in op[2] if x != e]


def _age(rng, history):
    """A read shows what was there before something that it must show."""
    ended = {op[2]: t.end for t in history if t.outcome == OK for op in t.ops if op[0] == "append"}
    t, op = rng.choice([(t, op) for t, op in _reads(history, "list", len) if not t.final and
                        ended.get(op[2][-1], 1e9) < t.begin and
                        sum(o[1] == op[1] and o[0] == "list" for o in t.ops) == 1])
    op[2] = op[2][:-1]


# What does it, and names of which one must be found.
MUTATIONS = [({"duplicate"}, _repeat), ({"garbage"}, _invent), ({"incompatible"}, _swap), ({"G1a"}, _withdraw),
             ({"lost"}, _forget), ({"stale-read", "lost", "G1b", "G-single", "G-single-rt"}, _age)]
