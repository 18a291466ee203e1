"""Lists, registers and ranges of several tables in one transaction, at any level."""
from .append import Lists
from .base import *
from .phantom import Sets
from .register import Registers

MIXED = "MIXED"


class Mix(Workload):
    """Each transaction at a level of its own, and each must get what its level promises
    whatever those of the others are."""

    name = "mix"
    levels = (MIXED,)
    allowed = CONFLICTS + "|23505"
    tables = Lists.tables + Registers.tables + Sets.tables
    native = False                  # PostgreSQL's SERIALIZABLE counts only among its like
    AHEAD = 60

    def setup(self, conn):
        for table in ("ints", "texts", "register"):
            fill(conn, table)

    def level_of(self, s):
        return s.rng.choice(LEVELS)

    def transaction(self, s):
        base = s.n // self.AHEAD
        for _ in range(s.rng.randint(2, 5)):
            what = s.rng.randrange(6)
            k = s.rng.randrange(3)
            if what == 0:
                Lists.append(s, base * 10 + k * 3, blind=s.level == READ_COMMITTED)
            elif what == 1:
                Lists.read(s, base * 10 + k * 3)
            elif what == 2:
                Registers.read(s, base * 10 + k)
                Registers.write(s, base * 10 + k)
            elif what == 3:
                Registers.read(s, *range(base * 10, base * 10 + 3))
            elif what == 4:
                Sets.add(s, base * 2 + k % 2)
            else:
                elements = Sets.scan(s, base * 2 + k % 2)
                if elements and s.rng.random() < 0.3:
                    Sets.remove(s, base * 2 + k % 2, s.rng.choice(sorted(elements)))

    def final(self, s):
        Sets.scan_all(s)
        Registers.read_all(s)
        Lists.read_all(s)
