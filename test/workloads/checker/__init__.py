"""Whether a history of transactions can be: pure Python, knows nothing but the record.

    history.py       transactions and their operations, as JSON lines
    observations.py  what lists, registers and sets say about the order of transactions
    points.py        the graph of snapshots and commits, per isolation level
    cycles.py        its cycles, named after Adya
    verdict.py       check(): all of it together
    simulate.py      histories of databases that are right, or wrong in a known way

Workloads with a rule of their own check that themselves (workload/).
"""
from .history import FAIL, INFO, OK, Anomaly, History, Transaction
from .verdict import DURABILITY, check

__all__ = ["FAIL", "INFO", "OK", "Anomaly", "History", "Transaction", "DURABILITY", "check"]
