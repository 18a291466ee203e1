#!/usr/bin/python3
"""Rows come, change and go beside maintenance, which never rests.

Two PostgreSQL servers on one cluster, both engines.  Each worker has rows of its own, and
so knows what they are: it inserts, updates, increments, moves and deletes them, alone
and many at once, on either server.  Readers at REPEATABLE READ come and go, so that there
are old versions and tombstones to remove; they compare the table with its index, and
with itself.  mosql_fdw_maintain() runs in a loop on both servers.  In the end every row
is there as its worker left it, the index says the same, and nothing is out of order. Leaves are
packed by each pass (pack_after 0), and unpacked by the next write.

    t/vacuum.py [SECONDS]"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 12
WORKERS = 4
ROWS = 40                       # that a worker may have
DDL = """
CREATE FOREIGN TABLE item (id int OPTIONS (key 'true') NOT NULL, n int NOT NULL, v text NOT NULL) SERVER redis;
CREATE INDEX item_v ON item (v);
CREATE INDEX item_n ON item (n DESC) WHERE n % 2 = 0;
"""


class Owner:
    """A worker's rows: id -> (n, v), as of its last commit."""

    def __init__(self, number):
        self.number = number
        self.rows = {}

    def ids(self, rng, n):
        return [WORKERS * i + self.number for i in rng.sample(range(ROWS), n)]

    def change(self, conn, rng, rows):
        """One statement, and the same on rows; the server's count must agree."""
        kind = rng.choice(["insert", "insert", "update", "update", "increment", "delete", "delete", "move"])
        ids = self.ids(rng, rng.choice([1, 1, 2, 5, 20]) if kind != "increment" else 3)
        there = [i for i in ids if i in rows]
        v = f"v{rng.randrange(50)}"
        with conn.cursor() as c:
            if kind == "insert":
                c.execute("INSERT INTO item SELECT i, 0, %s FROM unnest(%s) i ON CONFLICT DO NOTHING", (v, ids))
                wanted = len(ids) - len(there)
                rows.update((i, (0, v)) for i in ids if i not in rows)
            elif kind == "update":
                c.execute("UPDATE item SET v = %s, n = n * 2 %% 1001 WHERE id = ANY(%s)", (v, ids))
                wanted = len(there)
                rows.update((i, (rows[i][0] * 2 % 1001, v)) for i in there)
            elif kind == "increment":
                for i in ids:
                    c.execute("UPDATE item SET n = n + 1 WHERE id = %s", (i,))
                wanted = None
                rows.update((i, (rows[i][0] + 1, rows[i][1])) for i in there)
            elif kind == "delete":
                c.execute("DELETE FROM item WHERE id = ANY(%s)", (ids,))
                wanted = len(there)
                for i in there:
                    del rows[i]
            else:               # to where nothing is, and back the next time
                there = [i for i in there if i + 100000 not in rows]
                c.execute("UPDATE item SET id = id + 100000 WHERE id = ANY(%s)", (there,))
                wanted = len(there)
                for i in there:
                    rows[i + 100000] = rows.pop(i)
                back = [i for i in rows if i >= 100000 and i - 100000 not in rows]
                c.execute("UPDATE item SET id = id - 100000 WHERE id = ANY(%s)", (back,))
                for i in back:
                    rows[i - 100000] = rows.pop(i)
            if wanted is not None and kind != "move" and c.rowcount != wanted:
                raise AssertionError(f"{kind} of {ids}: {c.rowcount} rows instead of {wanted}")

    def work(self, conn, rng):
        rows = dict(self.rows)
        for _ in range(rng.choice([1, 1, 3])):
            self.change(conn, rng, rows)
        conn.commit()
        self.rows = rows


def read(conn, rng):
    """One snapshot shows one state, whatever way."""
    by_key = "SELECT count(*), sum(n), sum(id) FROM item"
    first = query(conn, by_key)
    time.sleep(rng.random() * 0.02)
    by_index = query(conn, "SELECT count(*), sum(n), sum(id) FROM item WHERE v >= ''")
    even = query(conn, "SELECT count(*), sum(n), sum(id) FROM item WHERE n % 2 = 0")
    odd = query(conn, "SELECT count(*), sum(n), sum(id) FROM item WHERE n % 2 <> 0")
    again = query(conn, by_key)
    conn.commit()
    both = [tuple(sum(x or 0 for x in pair) for pair in zip(even[0], odd[0]))]
    if not first == by_index == again or both != [tuple(x or 0 for x in first[0])]:
        raise AssertionError(f"one snapshot: {first}, by index {by_index}, {both}, later {again}")


def maintain(conn, rng):
    """Where the other server is at it, nothing is done."""
    query(conn, "SELECT outcome FROM mosql_fdw_maintain('redis')")
    conn.commit()


def churn(servers, cluster, engine):
    name, db = f"{engine}, {SECONDS:.0f} s", f"vacuum_{engine}"
    options = {"atomic": engine, "pack_after": 0}
    make_database(servers[0], db, cluster.nodes, options, DDL)
    make_database(servers[1], db, cluster.nodes, options)
    with contextlib.closing(servers[1].connect(db)) as c:
        query(c, "IMPORT FOREIGN SCHEMA public FROM SERVER redis INTO public")
    owners = [Owner(i) for i in range(WORKERS)]
    keep = {"mosql_fdw.maintenance_rate": 0, "mosql_fdw.signpost_retention": 0}
    with Clients() as clients:
        for i, owner in enumerate(owners):
            clients.add(Client(servers[i % 2], db, owner.work, i))
        for i, server in enumerate(servers):
            clients.add(Client(server, db, read, 10 + i, REPEATABLE_READ, pause=.05,
                               **{"mosql_fdw.snapshot_cache": 16384 * i}))
            clients.add(Client(server, db, maintain, 20 + i, pause=.05, **keep))
        time.sleep(SECONDS)
        tap.ok(clients.stop(), f"{name}: clients end")
    tap.equal(clients.unexpected(CONFLICTS), "", f"{name}: every count and every snapshot was right")
    tap.note(f"{name}: {clients.done} transactions, {clients.errors()}")
    rows = sorted((i,) + row for owner in owners for i, row in owner.rows.items())
    with contextlib.closing(servers[0].connect(db, **keep)) as c:
        tap.equal(query(c, "SELECT id, n, v FROM item ORDER BY id"), rows, f"{name}: all rows, and no others")
        tap.equal(query(c, "SELECT id, n, v FROM item WHERE v >= '' ORDER BY v, id"),
                  sorted(rows, key=lambda r: (r[2], r[0])), f"{name}: by the index, too")
        query(c, "SELECT mosql_fdw_maintain('redis')")
        tap.ok(wait_until(lambda: findings(c, "item") == ([], [])), f"{name}: nothing is out of order",
               findings(c, "item"))


def body():
    cluster = Cluster("vacuum")
    servers = [Server("vacuum1"), Server("vacuum2")]
    for engine in ENGINES:
        with section(engine):
            churn(servers, cluster, engine)
    tap.equal([s.crashes() for s in servers], [[], []], "no backend died of itself")


main(body)
