"""Anomalies in histories of transactions over lists, after the idea of Elle.

Each element is appended once in a history, so that what a read returns tells
the order of all appends to that list before it, and who wrote them.  From that
follow edges between transactions:

    ww   b appended right after a's element
    wr   b read a list that ended with a's element
    rw   a read a list, and b appended the element that came next
    rt   a's commit was acknowledged before b began

and a cycle of them is an anomaly, named after Adya:

    G0        ww only                         dirty write
    G1a       an aborted element was read     dirty read
    G1b       a state in the middle of a transaction was read
    G1c       ww and wr                       circular information flow
    G-single  exactly one rw                  read skew, lost update
    G2        several rw                      write skew, phantoms
    ...-rt    the cycle needs an rt edge: not strict

Without cycles: "lost" (acknowledged, and in no final list), "duplicate",
"garbage" (an element nobody appended), "incompatible" (two reads of a list of
which neither is a prefix of the other), "internal" (a transaction does not see
its own appends or sees a list shrink).
"""

OK, FAIL, UNKNOWN = "ok", "fail", "unknown"


class Transaction:
    """ops: ("append", key, element) and ("read", key, [elements])."""

    def __init__(self, ops, outcome=OK, begin=0.0, end=0.0, name=None):
        self.ops, self.outcome, self.begin, self.end = ops, outcome, begin, end
        self.name = name

    def __repr__(self):
        return f"{self.name or 'T'}[{self.outcome}] {self.ops}"


FORBIDDEN = {
    "READ COMMITTED": {"G0", "G1a", "G1b", "G1c", "lost", "duplicate", "garbage",
                       "incompatible"},
    "REPEATABLE READ": {"G0", "G1a", "G1b", "G1c", "G-single", "lost", "duplicate", "garbage",
                        "incompatible", "internal", "G0-rt", "G1c-rt", "G-single-rt"},
    "SERIALIZABLE": {"G0", "G1a", "G1b", "G1c", "G-single", "G2", "lost", "duplicate", "garbage",
                     "incompatible", "internal", "G0-rt", "G1c-rt", "G-single-rt", "G2-rt"},
}


def anomalies(history, final, real_time=True):
    """[(name, explanation)] of a list of Transactions; final: key -> list, read
    when all was over."""
    found = []
    writer, last_of = {}, {}
    for t in history:
        for op in t.ops:
            if op[0] == "append":
                writer[op[1], op[2]] = t
                last_of[t, op[1]] = op[2]

    # -- what reads say by themselves --
    order = {k: list(v) for k, v in final.items()}
    for k, elements in order.items():
        if len(set(elements)) != len(elements):
            found.append(("duplicate", f"key {k}: {elements}"))
        for e in elements:
            if (k, e) not in writer:
                found.append(("garbage", f"key {k}: {e} in {elements}"))
            elif writer[k, e].outcome == FAIL:
                found.append(("G1a", f"key {k}: {e} of {writer[k, e]} is there in the end"))
    for (k, e), t in writer.items():
        if t.outcome == OK and e not in order.get(k, ()):
            found.append(("lost", f"key {k}: {e} of {t}"))

    for t in history:
        if t.outcome != OK:
            continue
        mine = {}               # key -> own appends so far, key -> last read
        before = {}
        for op in t.ops:
            if op[0] == "append":
                mine.setdefault(op[1], []).append(op[2])
                continue
            _, k, elements = op
            own = mine.get(k, [])
            others = elements[:len(elements) - len(own)] if own else elements
            if own and elements[-len(own):] != own:
                found.append(("internal", f"own appends {own} not at the end: {t}"))
                others = [e for e in elements if e not in own]
            if k in before and others != before[k]:
                found.append(("internal", f"key {k} was {before[k]}, then {others}: {t}"))
            before[k] = others
            if len(set(elements)) != len(elements):
                found.append(("duplicate", f"key {k}: {elements} in {t}"))
            if others != order.get(k, [])[:len(others)]:
                found.append(("incompatible", f"key {k}: {others} is no prefix of {order.get(k)}: {t}"))
            for e in others:
                w = writer.get((k, e))
                if w is None:
                    found.append(("garbage", f"key {k}: {e} in {t}"))
                elif w.outcome == FAIL:
                    found.append(("G1a", f"{e} of {w} read by {t}"))
            if others:
                w = writer.get((k, others[-1]))
                if w is not None and w is not t and last_of[w, k] != others[-1]:
                    found.append(("G1b", f"{others[-1]} of {w} read by {t}"))

    # -- edges --
    nodes = [t for t in history if t.outcome == OK or
             any(op[0] == "append" and op[2] in order.get(op[1], ()) for op in t.ops)]
    number = {t: i for i, t in enumerate(nodes)}
    edges = {"ww": [set() for _ in nodes], "wr": [set() for _ in nodes],
             "rw": [set() for _ in nodes], "rt": [set() for _ in nodes]}

    def edge(kind, a, b):
        if a in number and b in number and a is not b:
            edges[kind][number[a]].add(number[b])

    for k, elements in order.items():
        for a, b in zip(elements, elements[1:]):
            if (k, a) in writer and (k, b) in writer:
                edge("ww", writer[k, a], writer[k, b])
    for t in nodes:
        if t.outcome != OK:
            continue
        own = set()
        for op in t.ops:
            if op[0] == "append":
                own.add(op[2])
                continue
            _, k, elements = op
            others = [e for e in elements if e not in own]
            if others and (k, others[-1]) in writer:
                edge("wr", writer[k, others[-1]], t)
            if len(others) < len(order.get(k, ())):
                follower = writer.get((k, order[k][len(others)]))
                if follower is not None:
                    edge("rw", t, follower)
    if real_time:
        _real_time(nodes, number, edge)
    found += _cycles(nodes, edges)
    return found


def _real_time(nodes, number, edge):
    """Edges from what was acknowledged last before a transaction began."""
    events = []
    for t in nodes:
        events.append((t.begin, 1, t))
        if t.outcome == OK:
            events.append((t.end, 0, t))
    events.sort(key=lambda e: (e[0], e[1]))
    frontier, before = set(), {}
    for _, begins, t in events:
        if begins:
            before[t] = set(frontier)
            for p in frontier:
                edge("rt", p, t)
        else:
            frontier -= before[t]
            frontier.add(t)


def _components(n, out):
    """Strongly connected components with more than one node (Tarjan)."""
    index, low, on, stack, result, counter = [None] * n, [0] * n, [False] * n, [], [], [0]
    for root in range(n):
        if index[root] is not None:
            continue
        work = [(root, iter(out(root)))]
        index[root] = low[root] = counter[0]
        counter[0] += 1
        stack.append(root)
        on[root] = True
        while work:
            v, successors = work[-1]
            for w in successors:
                if index[w] is None:
                    index[w] = low[w] = counter[0]
                    counter[0] += 1
                    stack.append(w)
                    on[w] = True
                    work.append((w, iter(out(w))))
                    break
                if on[w]:
                    low[v] = min(low[v], index[w])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[v])
                if low[v] == index[v]:
                    component = set()
                    while True:
                        w = stack.pop()
                        on[w] = False
                        component.add(w)
                        if w == v:
                            break
                    if len(component) > 1:
                        result.append(component)
    return result


def _path(start, goal, out):
    """Shortest path, as a list of nodes, or None."""
    came = {start: None}
    queue = [start]
    for v in queue:
        if v == goal:
            path = []
            while v is not None:
                path.append(v)
                v = came[v]
            return path[::-1]
        for w in out(v):
            if w not in came:
                came[w] = v
                queue.append(w)
    return None


def _cycles(nodes, edges):
    found, n = [], len(nodes)

    def union(*kinds):
        return lambda v: set().union(*(edges[k][v] for k in kinds))

    def tell(name, path):
        found.append((name, " -> ".join(repr(nodes[v]) for v in path)))

    def search(suffix, extra):
        names = {f for f, _ in found}
        for name, kinds in (("G0", ("ww",)), ("G1c", ("ww", "wr"))):
            out = union(*kinds, *extra)
            for component in _components(n, out):
                v = min(component)
                first = next(w for w in out(v) if w in component)
                if not names & {"G0", "G1c"}:
                    tell(name + suffix, [v] + _path(first, v, out))
                    names.add(name)
        full, quiet = union("ww", "wr", "rw", *extra), union("ww", "wr", *extra)
        for component in _components(n, full):
            inside = lambda v: [w for w in quiet(v) if w in component]
            rws = [(a, b) for a in component for b in edges["rw"][a] if b in component]
            for a, b in rws[:2000]:
                path = _path(b, a, inside)
                if path:
                    if "G-single" not in names:
                        tell("G-single" + suffix, [a] + path)
                        names.add("G-single")
                    break
            else:
                if rws and "G2" not in names:
                    a, b = rws[0]
                    tell("G2" + suffix, [a] + _path(b, a, lambda v: [w for w in full(v) if w in component]))
                    names.add("G2")

    search("", ())
    if not found:
        search("-rt", ("rt",))
    return found


# ---- the checker, checked ----

def _t(name, *ops, outcome=OK, begin=0, end=100):
    return Transaction([(("append", k, v) if isinstance(v, int) else ("read", k, v))
                        for k, v in ops], outcome, begin, end, name)


# name of the anomaly (None: a sound history), transactions, final lists
BAD = [
    (None, [_t("a", ("x", 1), ("y", 2)), _t("b", ("x", [1]), ("y", [2]), ("x", 3))],
     {"x": [1, 3], "y": [2]}),
    ("G0", [_t("a", ("x", 1), ("y", 2)), _t("b", ("x", 3), ("y", 4))],
     {"x": [1, 3], "y": [4, 2]}),
    ("G1a", [_t("a", ("x", 1), outcome=FAIL), _t("b", ("x", [1]))], {"x": []}),
    ("G1a", [_t("a", ("x", 1), outcome=FAIL)], {"x": [1]}),
    ("G1b", [_t("a", ("x", 1), ("x", 2)), _t("b", ("x", [1]))], {"x": [1, 2]}),
    ("G1c", [_t("a", ("x", 1), ("y", [2])), _t("b", ("y", 2), ("x", [1]))],
     {"x": [1], "y": [2]}),
    ("G-single", [_t("a", ("x", []), ("y", [2])), _t("b", ("x", 1), ("y", 2))],
     {"x": [1], "y": [2]}),
    ("G2", [_t("a", ("x", []), ("y", 2)), _t("b", ("y", []), ("x", 1))],
     {"x": [1], "y": [2]}),
    ("lost", [_t("a", ("x", [])), _t("b", ("x", 1)), _t("c", ("x", 2))], {"x": [2]}),
    ("duplicate", [_t("a", ("x", 1))], {"x": [1, 1]}),
    ("garbage", [_t("a", ("x", 1))], {"x": [1, 9]}),
    ("incompatible", [_t("a", ("x", 1)), _t("b", ("x", 2)), _t("c", ("x", [2]))], {"x": [1, 2]}),
    ("internal", [_t("a", ("x", 1), ("x", []))], {"x": [1]}),
    ("internal", [_t("a", ("x", []), ("x", [1])), _t("b", ("x", 1))], {"x": [1]}),
    (None, [_t("a", ("x", 1), begin=0, end=1), _t("b", ("x", []), begin=0.5, end=2)], {"x": [1]}),
    ("G-single-rt", [_t("a", ("x", 1), begin=0, end=1), _t("b", ("x", []), begin=2, end=3)],
     {"x": [1]}),
    ("G0-rt", [_t("a", ("x", 1), begin=0, end=1), _t("b", ("x", 2), begin=2, end=3)],
     {"x": [2, 1]}),
    ("G1c-rt", [_t("a", ("x", [1]), begin=0, end=1), _t("b", ("x", 1), begin=2, end=3)],
     {"x": [1]}),
    (None, [_t("a", ("x", 1), outcome=UNKNOWN), _t("b", ("x", []))], {"x": []}),
    (None, [_t("a", ("x", 1), outcome=UNKNOWN), _t("b", ("x", [1]))], {"x": [1]}),
]


def self_test():
    """[] or what the checker says wrongly about histories whose fault is known."""
    wrong = []
    for name, history, final in BAD:
        names = {f for f, _ in anomalies(history, final)}
        if name is None and names or name is not None and name not in names:
            wrong.append(f"{history}, {final}: expected {name}, found {sorted(names)}")
    return wrong


if __name__ == "__main__":
    print("\n".join(self_test()) or f"{len(BAD)} histories judged rightly")
