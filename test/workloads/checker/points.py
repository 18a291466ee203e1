"""The graph of points: when did each transaction look, and when did it commit?

A transaction has points: one snapshot (under READ COMMITTED one for each statement),
and its commit.  What isolation levels promise is an order of these points, and what
was observed (observations.py) must fit it.  For a dependency from A to B:

                       B is READ COMMITTED    REPEATABLE READ       SERIALIZABLE
    ww  b overwrote    C(A) < C(B)            C(A) < S(B)           C(A) < C(B)
    wr  b saw it       C(A) < S(B, stmt)      C(A) < S(B)           C(A) < S(B)

                       A is READ COMMITTED    REPEATABLE READ       SERIALIZABLE
    rw  a missed it    S(A, stmt) < C(B)      S(A) < C(B)           C(A) < C(B)

    rt  A was acknowledged before B began:    C(A) < S(B, first)

and S(T, 1) < S(T, 2) < ... < C(T) within a transaction.  (First committer wins is the
second column of ww.)  If all transactions are SERIALIZABLE this is Adya's graph of
dependencies; if all are REPEATABLE READ it has a cycle exactly if Adya's has one
without two rw edges in a row, which is what snapshot isolation forbids; and levels
may be mixed.  A history is what was promised if the graph has no cycle: one pass over
it, whatever its size.

A transaction that failed, or of which nobody knows whether it happened, counts as one
that only read, under REPEATABLE READ if it was SERIALIZABLE.
"""
from .history import READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE


class Points:
    """out: point -> {point: dependency, or None within a transaction}."""

    def __init__(self, observations, level=None, real_time=True, kinds=("ww", "wr", "rw")):
        self.committed = observations.committed
        self.level = level
        self.out, self._first, self._snapshot, self._commit = [], {}, {}, {}
        for t in observations.transactions:
            self._add(t)
        for d in observations.dependencies + (observations.inferred if real_time else []):
            if d.kind in kinds:
                self._depend(d)
        if real_time:
            self._real_time(observations.transactions)

    def level_of(self, t):
        level = self.level or t.level
        return REPEATABLE_READ if level == SERIALIZABLE and t not in self.committed else level

    def _point(self):
        self.out.append({})
        return len(self.out) - 1

    def _add(self, t):
        last = first = self._point()
        statements = {}
        if self.level_of(t) == READ_COMMITTED:
            for op in t.ops:
                if op[3] not in statements:
                    statements[op[3]] = point = self._point()
                    self.out[last][point] = None
                    last = point
        commit = self._point()
        self.out[last][commit] = None
        self._first[t], self._snapshot[t], self._commit[t] = first, statements, commit

    def _edge(self, a, b, dependency):
        self.out[a].setdefault(b, dependency)

    def _looked(self, t, statement):
        return self._snapshot[t].get(statement, self._first[t])

    def _depend(self, d):
        if d.kind == "ww":
            to = self._first[d.b] if self.level_of(d.b) == REPEATABLE_READ else self._commit[d.b]
            self._edge(self._commit[d.a], to, d)
        elif d.kind == "wr":
            self._edge(self._commit[d.a], self._looked(d.b, d.statement), d)
        else:
            start = self._commit[d.a] if self.level_of(d.a) == SERIALIZABLE else self._looked(d.a, d.statement)
            self._edge(start, self._commit[d.b], d)

    def _real_time(self, transactions):
        """Edges from the acknowledged to what began later, as few as say it all."""
        from .observations import Dependency
        events = [(t.begin, 1, i, t) for i, t in enumerate(transactions)]
        events += [(t.acknowledged, 0, i, t) for i, t in enumerate(transactions) if t.outcome != "info"]
        events.sort(key=lambda e: e[:3])
        frontier, before = set(), {}
        for _, begins, _, t in events:
            if not begins:
                frontier -= before.pop(t)
                frontier.add(t)
                continue
            before[t] = frozenset(frontier)
            for a in frontier:
                self._edge(self._commit[a], self._first[t], Dependency(
                    "rt", a, t, None, f"began at {t.begin:.4f} s, after that ended at {a.end:.4f} s", None))


def components(out):
    """Strongly connected components of more than one point (Tarjan, without recursion)."""
    n = len(out)
    index, low, on, stack, result, counter = [None] * n, [0] * n, [False] * n, [], [], 0
    for root in range(n):
        if index[root] is not None:
            continue
        index[root] = low[root] = counter
        counter += 1
        stack.append(root)
        on[root] = True
        work = [(root, iter(out[root]))]
        while work:
            v, successors = work[-1]
            for w in successors:
                if index[w] is None:
                    index[w] = low[w] = counter
                    counter += 1
                    stack.append(w)
                    on[w] = True
                    work.append((w, iter(out[w])))
                    break
                if on[w]:
                    low[v] = min(low[v], index[w])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[v])
                if low[v] == index[v]:
                    component = set()
                    while v not in component:
                        component.add(stack.pop())
                    for w in component:
                        on[w] = False
                    if len(component) > 1:
                        result.append(component)
    return result
