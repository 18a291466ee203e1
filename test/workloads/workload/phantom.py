"""Phantoms: reads of ranges, and rows that come and go in them."""
from .base import *


class Sets:
    """A set is the rows of one grp."""

    tables = ("member (grp int KEY, id bigint KEY, pad text)",)

    @staticmethod
    def scan(s, grp):
        rows = s.query("SELECT id FROM member WHERE " + s.rng.choice((
            "grp = %(g)s", "grp = %(g)s ORDER BY id DESC", "grp >= %(g)s AND grp < %(g)s + 1",
            "grp = %(g)s AND id BETWEEN -9e18 AND 9e18", "(grp, id) >= (%(g)s, -9000000000000000000) AND grp <= %(g)s")),
            {"g": grp})
        s.record("scan", grp, [r[0] for r in rows])
        return [r[0] for r in rows]

    @staticmethod
    def add(s, grp):
        e = s.element() * s.rng.choice((-1, 1))
        s.execute("INSERT INTO member VALUES (%s, %s, %s)", (grp, e, "x" * s.rng.randrange(100)))
        s.record("add", grp, e)

    @staticmethod
    def remove(s, grp, e):
        if s.execute("DELETE FROM member WHERE grp = %s AND id = %s", (grp, e)) == 1:
            s.record("remove", grp, e)

    @staticmethod
    def scan_all(s):
        sets = {}
        for grp, e in s.query("SELECT grp, id FROM member"):
            sets.setdefault(grp, []).append(e)
        for grp, elements in sets.items():
            s.record("scan", grp, elements)


class Phantom(Together, Sets, Workload):
    """Look at one set, change another or the same: predicate write skew.  Two sets per
    round of five transactions."""

    name = "phantom"

    def transaction(self, s):
        base = s.n // 5 * 2
        self.meet(s)
        a, b = base + s.rng.randrange(2), base + s.rng.randrange(2)
        elements = self.scan(s, a)
        if s.rng.random() < 0.2:
            self.scan(s, 2 * base + 1 - a)
        if s.rng.random() < 0.75:
            self.add(s, b)
        elif elements:
            self.remove(s, a, s.rng.choice(sorted(elements)))
        if s.rng.random() < 0.2:
            self.scan(s, b)

    def final(self, s):
        self.scan_all(s)
