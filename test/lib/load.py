"""A load for fault tests, with its books: transfers and counters from both
servers, while others look whether every snapshot adds up."""
from mosqltest import *

DDL = """
CREATE FOREIGN TABLE account (id int OPTIONS (key 'true') NOT NULL, balance int) SERVER redis;
CREATE FOREIGN TABLE counter (id int OPTIONS (key 'true') NOT NULL, n bigint) SERVER redis;
CREATE FOREIGN TABLE entry (id int OPTIONS (key 'true') NOT NULL, n int OPTIONS (key 'true') NOT NULL, pad text) SERVER redis;
"""
TABLES = ("account", "counter", "entry")


class Load:
    def __init__(self, servers, db, accounts=1000, counters=40, seed=1):
        self.servers, self.db, self.seed = servers, db, seed
        self.accounts, self.counters = accounts, counters
        self.total = accounts * 100
        self.wrong = []
        self.lock = threading.Lock()
        self.sure = [0] * counters          # acknowledged increments
        self.unsure = [0] * counters        # those of unknown outcome
        self.entries = {}                   # writer -> numbers acknowledged
        self.ids = iter(range(1, 1 << 30))
        with contextlib.closing(servers[0].connect(db)) as c:
            query(c, f"INSERT INTO account SELECT g, 100 FROM generate_series(1, {accounts}) g;"
                  f"INSERT INTO counter SELECT g, 0 FROM generate_series(0, {counters - 1}) g")
        self.crowd = Clients()

    # What clients do.

    def transfer(self, conn, rng):
        a, b = rng.sample(range(1, self.accounts + 1), 2)
        n = rng.randint(1, 9)
        if rng.random() < 0.5:
            query(conn, "UPDATE account SET balance = balance - %s WHERE id = %s", (n, a))
            query(conn, "UPDATE account SET balance = balance + %s WHERE id = %s", (n, b))
        else:
            rows = dict(query(conn, "SELECT id, balance FROM account WHERE id IN (%s, %s) FOR UPDATE", (a, b)))
            query(conn, "UPDATE account SET balance = %s WHERE id = %s", (rows[a] - n, a))
            query(conn, "UPDATE account SET balance = %s WHERE id = %s", (rows[b] + n, b))
        conn.commit()

    def increment(self, conn, rng):
        ids = [rng.randrange(self.counters) for _ in range(3)]
        for i in sorted(set(ids)):
            query(conn, "UPDATE counter SET n = n + 1 WHERE id = %s", (i,))
        try:
            conn.commit()
        except psycopg2.Error as e:
            # 08007 says that the outcome is unknown, and a dead server says nothing;
            # every other error says that nothing happened
            if e.pgcode in ("08007", None) or conn.closed:
                with self.lock:
                    for i in set(ids):
                        self.unsure[i] += 1
            raise
        with self.lock:
            for i in set(ids):
                self.sure[i] += 1

    def insert(self, conn, rng):
        """New rows all the time: leaves split."""
        if not hasattr(rng, "id"):
            rng.id, rng.n = next(self.ids), 0
        rng.n += 1
        query(conn, "INSERT INTO entry SELECT %s, %s * 20 + g, repeat('x', 50) FROM generate_series(1, 20) g",
              (rng.id, rng.n))
        conn.commit()
        with self.lock:
            self.entries.setdefault(rng.id, set()).add(rng.n)

    def scan(self, conn, rng):
        got = query(conn, "SELECT sum(balance), count(*) FROM account")[0]
        if got != (self.total, self.accounts):
            self.wrong.append(f"a snapshot has {got}")
        conn.commit()

    def start(self, works=("transfer", "increment", "insert", "scan"), each=2, level=None, **settings):
        for w in works:
            for i in range(each):
                self.crowd.add(Client(self.servers[i % len(self.servers)], self.db, getattr(self, w),
                                      f"{self.seed} {w} {i}", level, **settings))

    def settle(self, seconds=60):
        return self.crowd.stop(seconds)

    # Is everything in its place?

    def anomalies(self):
        """Sums are the same on both servers; no acknowledged increment or row is
        lost or counted twice.  [(name, what is wrong)]."""
        found = [("a snapshot that does not add up", w) for w in self.wrong]
        for i, s in enumerate(self.servers):
            with contextlib.closing(s.connect(self.db)) as c:
                got = query(c, "SELECT sum(balance), count(*) FROM account")[0]
                if got != (self.total, self.accounts):
                    found.append(("the sum in the end", f"server {i + 1} has {got}, not {self.total}, {self.accounts}"))
        with contextlib.closing(self.servers[-1].connect(self.db)) as c:
            n = dict(query(c, "SELECT id, n FROM counter"))
            found += [("an increment that is lost or doubled", f"{i}: {n.get(i)}, acknowledged {a}, unknown {u}")
                      for i, (a, u) in enumerate(zip(self.sure, self.unsure))
                      if not a <= (n.get(i) or 0) <= a + u]
            there = {}
            for i, k, rows in query(c, "SELECT id, (n - 1) / 20, count(*) FROM entry GROUP BY 1, 2"):
                there.setdefault(i, set()).add(k)
                if rows != 20:
                    found.append(("an insert that is not whole", f"{rows} of 20 rows of {i}.{k}"))
            for i, ns in self.entries.items():
                if ns - there.get(i, set()):
                    found.append(("an insert that is lost", f"{i}: {sorted(ns - there.get(i, set()))[:10]}"))
        return found

    def verify(self, name):
        found = self.anomalies()
        tap.ok(not found, f"{name}: every snapshot adds up, no increment or insert is lost or doubled",
               "\n".join(map(str, found[:10])) + f"\n{len(found)} in all")
        with contextlib.closing(self.servers[-1].connect(self.db)) as c:
            found = [f for t in TABLES for f in findings(c, t)[0]]
            tap.ok(not found, f"{name}: nothing is broken in Redis", "\n".join(map(str, found[:10])))
