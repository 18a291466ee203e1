"""Cycles of the graph of points, named after Adya and explained.

    G0             ww only                              dirty write
    G1c            ww and wr                            circular flow of information
    lost-update    two transactions, ww and rw of one row
    stale-read     what was acknowledged before the reader began, missed
    G-single       one rw                               read skew
    G-nonadjacent  several rw, no two of them in a row  long fork
    G2-item        two rw in a row, of rows             write skew
    G2             the same, at least one by a predicate   phantoms
    ...-rt         needs the order of real time: not strict
"""
from collections import deque

from .history import Anomaly
from .points import Points, components

# Searching costs a walk through the component; what was promised is decided without.
SEARCHES_MAX = 200


def find(observations, level=None, real_time=True):
    """An Anomaly for each kind of cycle found, the shortest of its kind.  level
    replaces that of the transactions.  Empty exactly if there is no cycle."""
    if not components(Points(observations, level, real_time).out):
        return []
    found = {}
    for strict in (False, True) if real_time else (False,):
        for kinds in (("ww",), ("ww", "wr"), ("ww", "wr", "rw")):
            points = Points(observations, level, strict, kinds)
            for component in components(points.out):
                for cycle in _cycles(points.out, component):
                    name = _name(cycle)
                    if name not in found or len(cycle) < len(found[name]):
                        found[name] = cycle
    return [_explain(name, cycle) for name, cycle in found.items()]


def _cycles(out, component):
    """Shortest cycles through some edges of each kind within a component, each a list
    of dependencies."""
    edges = {}
    for a in component:
        for b, d in out[a].items():
            if b in component and d is not None:
                edges.setdefault(d.kind, []).append((a, b, d))
    for kind in edges:
        some = sorted(edges[kind], key=lambda e: e[:2])
        for a, b, d in some[::max(1, len(some) // SEARCHES_MAX)]:
            yield [d] + _path(out, b, a, component)


def _path(out, start, goal, component):
    """Dependencies on a shortest path; steps within a transaction cost nothing."""
    came, queue = {start: None}, deque([start])
    while queue:
        v = queue.popleft()
        if v == goal:
            break
        for w, d in out[v].items():
            if w in component and w not in came:
                came[w] = v, d
                if d is None:
                    queue.appendleft(w)
                else:
                    queue.append(w)
    path = []
    while came[goal] is not None:
        goal, d = came[goal]
        if d is not None:
            path.append(d)
    return path[::-1]


def _name(cycle):
    rw = [d for d in cycle if d.kind == "rw"]
    real_time = any(d.kind == "rt" for d in cycle)
    suffix = "-rt" if real_time else ""
    if not rw:
        return ("G0" if all(d.kind in ("ww", "rt") for d in cycle) else "G1c") + suffix
    if len(rw) == 1:
        others = [d for d in cycle if d.kind != "rw"]
        if len(others) == 1 and others[0].kind == "rt":
            return "stale-read"
        if len(others) == 1 and others[0].kind == "ww" and others[0].item == rw[0].item:
            return "lost-update"
        return "G-single" + suffix
    if not any(a.kind == b.kind == "rw" for a, b in zip(cycle, cycle[1:] + cycle[:1])):
        return "G-nonadjacent" + suffix
    return ("G2" if any(d.item is None for d in rw) else "G2-item") + suffix


def _explain(name, cycle):
    """The cycle in words, beginning with its first transaction by id."""
    first = min(range(len(cycle)), key=lambda i: str(cycle[i].a.id))
    cycle = cycle[first:] + cycle[:first]
    lines = [f"a cycle of {len(cycle)}"]
    for d in cycle:
        lines.append(f"      T{d.a.id} --{d.kind}--> T{d.b.id}: T{d.b.id} {d.why}")
    return Anomaly(name, "\n".join(lines), dict.fromkeys(d.a for d in cycle))
