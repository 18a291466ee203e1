"""The books of test/lib/load.py as a workload: transfers, counters, inserts and scans,
with the interface of test/workloads/workload.py."""
import json

import load
from mosqltest import *


class Books:
    name = "books"

    def __init__(self, servers, nodes, level=None, engine="script", seed=1, clients=8, options=None,
                 splits=True):
        self.servers, self.nodes, self.level, self.seed = list(servers), nodes, level, seed
        self.engine, self.clients, self.splits = engine, clients, splits
        self.options = {**(options or {}), "atomic": engine}
        self.db = f"books_{seed}_{engine}"
        self.guests = 0

    def setup(self):
        for s in self.servers:
            self.make_tables(s)
        self.load = load.Load(self.servers, self.db, accounts=500, seed=self.seed)
        self.crowd = self.load.crowd

    def make_tables(self, server):
        make_database(server, self.db, self.nodes, self.options, load.DDL)

    def works(self):
        return ("transfer", "increment", "scan") + (("insert",) if self.splits else ())

    def start(self):
        self.load.start(self.works(), max(1, self.clients // 4), self.level)

    def add_server(self, server):
        """Clients of one more server; they are returned."""
        self.guests += 1
        return [self.crowd.add(Client(server, self.db, getattr(self.load, w),
                                      f"{self.seed} guest {self.guests} {w}", self.level))
                for w in self.works()]

    @property
    def done(self):
        return self.crowd.done

    def errors(self):
        return self.crowd.errors()

    def unexpected(self, allowed):
        return self.crowd.unexpected(allowed)

    def stop(self, seconds):
        return self.crowd.stop(seconds)

    def finish(self):
        self.found = self.load.anomalies()

    def check(self):
        return self.found

    def broken(self):
        with contextlib.closing(self.servers[0].connect(self.db)) as c:
            return [f for t in load.TABLES for f in findings(c, t)[0]]

    def keep(self, path):
        """What is known, for whoever looks into a failure."""
        with open(path, "w") as f:
            json.dump({"sure": self.load.sure, "unsure": self.load.unsure,
                       "entries": {k: sorted(v) for k, v in self.load.entries.items()},
                       "wrong": self.load.wrong[:100], "errors": self.errors(),
                       "messages": [c.messages for c in self.crowd.all],
                       "slow": [c.slow for c in self.crowd.all]}, f, indent=1)
