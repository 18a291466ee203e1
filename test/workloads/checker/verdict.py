"""check(): is a history what its isolation levels promise?

Beside the cycles (cycles.py) there is what reads say by themselves:

    G1a             something of a transaction that failed was seen
    G1b             a state in the middle of a transaction was seen
    dirty-update    something was built on what a transaction that failed wrote
    lost            acknowledged, and not there for one who looked later
    lost-update     two transactions read a value and both overwrote it
    duplicate       an element twice, or removed twice
    garbage         what nobody wrote
    incompatible    two reads of a list of which neither is the beginning of the other
    internal        a transaction does not see its own writes
    non-repeatable  a transaction saw two states of one thing
"""
from . import cycles
from .history import READ_COMMITTED
from .observations import Observations

# What READ COMMITTED permits of the above.
PERMITTED = {"lost-update", "non-repeatable"}

# What a database shows that forgets: to be left out where durability is not promised.
DURABILITY = {"lost", "stale-read"}


def check(history, level=None, real_time=True):
    """[Anomaly] that the isolation levels of the transactions forbid; with level, what
    it would forbid if they all had had that one.  real_time: commits must also respect
    the order in which transactions began after others were acknowledged."""
    transactions = list(history)
    seen = Observations(transactions)
    found = cycles.find(seen, level, real_time)
    for a in seen.found:
        levels = {level or t.level for t in a.transactions}
        if a.name not in PERMITTED or READ_COMMITTED not in levels:
            found.append(a)
    return found


def names(found):
    return {a.name for a in found}
