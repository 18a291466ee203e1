"""A history: what each transaction did and saw, when, and how it ended.

On disk it is JSON lines: the first is a header, each further one a transaction.

An operation is a list: name, key, value, and the number of the statement within the
transaction that it was part of.  What the general checker (verdict.py) understands:

    append key element     the element was put at the end of a list
    list   key [elements]  a list was read
    write  key value       a register was overwritten
    read   key value       a register was read; None: there was none
    add    key element     the element was put into a set
    remove key element     it was there, and was taken out
    scan   key [elements]  a set was read, by a predicate

Elements, and values of a register, are written once in a history.  Whatever else a
workload records is its own checker's business.
"""
import json
import os

OK, FAIL, INFO = "ok", "fail", "info"
READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE = "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"

INFINITY = float("inf")


class Transaction:
    """outcome: OK, FAIL (nothing of it happened) or INFO (unknown: it may yet happen,
    at any time from begin on).  begin and end are seconds of one clock; final: it was
    part of the look at everything when all was over."""

    __slots__ = ("id", "client", "server", "level", "begin", "end", "outcome", "ops", "error", "final")

    def __init__(self, id, ops, outcome=OK, begin=0.0, end=0.0, level=SERIALIZABLE, client=0, server=0,
                 error=None, final=False):
        self.id, self.client, self.server, self.level = id, client, server, level
        self.begin, self.end, self.outcome = begin, end, outcome
        self.ops, self.error, self.final = ops, error, final

    @property
    def acknowledged(self):
        """When its end was known; never, for one of unknown outcome."""
        return INFINITY if self.outcome == INFO else self.end

    def record(self):
        return {name: getattr(self, name) for name in self.__slots__
                if getattr(self, name) not in (None, False) or name == "ops"}

    def __repr__(self):
        """One line for people."""
        ops = "; ".join(_operation(op) for op in self.ops)
        end = "?" if self.outcome == INFO else f"{self.end:.4f}"
        return (f"T{self.id} ({self.outcome}{' ' + self.error if self.error else ''}, "
                f"{'final, ' if self.final else ''}client {self.client}, server {self.server + 1}, "
                f"{self.level.lower()}, {self.begin:.4f} to {end} s): {ops}")


def _operation(op):
    text = " ".join(str(x) for x in op[:3])
    return text if len(text) <= 200 else text[:90] + " ... " + text[-100:]


class Anomaly:
    """name, as in verdict.py or of the workload's rule; text explains it to people."""

    def __init__(self, name, text, transactions=()):
        self.name, self.text, self.transactions = name, text, list(transactions)

    def __str__(self):
        return "\n".join([f"{self.name}: {self.text}"] + [f"    {t!r}" for t in self.transactions])

    __repr__ = __str__


class History:
    """header: a dict, what ran; transactions, in the order of their ends."""

    def __init__(self, transactions=(), **header):
        self.transactions, self.header = list(transactions), header

    def __iter__(self):
        return iter(self.transactions)

    def __len__(self):
        return len(self.transactions)

    def copy(self):
        """Another one, with operations of its own."""
        return History([Transaction(**(t.record() | {"ops": [list(op) for op in t.ops]})) for t in self],
                       **self.header)

    def save(self, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(json.dumps(self.header) + "\n")
            for t in self.transactions:
                f.write(json.dumps(t.record()) + "\n")

    @staticmethod
    def load(path):
        with open(path) as f:
            history = History(**json.loads(f.readline()))
            for line in f:
                history.transactions.append(Transaction(**json.loads(line)))
        return history
