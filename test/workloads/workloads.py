#!/usr/bin/python3
"""Workloads over two PostgreSQL servers and one cluster, checked for anomalies.

    test/workloads/workloads.py [--seconds N] [--seed N] [--engine script|watch]
                                [--level 'READ COMMITTED'] [--clients N] [WORKLOAD]...

bank      transfers; the sum of all accounts is the same in every snapshot
counter   late-bound increments: none fails, none is lost
append    lists; cycles of dependencies are searched for (test/lib/history.py)
skew      write skew and phantoms, impossible at SERIALIZABLE
unique    inserts of the same key: exactly one wins
own       what was committed on one server is seen on the other at once

Each takes about N seconds (default 10), shared among engines and isolation
levels.  A failure prints the seed that started it.
"""
import argparse
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import history
from mosqltest import *

SNAPSHOT_LEVELS = (REPEATABLE_READ, SERIALIZABLE)


class Run:
    """One workload, engine and isolation level."""

    def __init__(self, servers, db, level, seconds, seed, clients):
        self.servers, self.db, self.level = servers, db, level
        self.seconds, self.seed, self.clients = seconds, seed, clients
        self.name = db.replace("_", ", ") + (f", {level.lower()}" if level else "")

    def connect(self, i=0, **kw):
        return self.servers[i % len(self.servers)].connect(self.db, **kw)

    def crowd(self, *works, n=None, level=None, **settings):
        """Clients that do works in turn, half of them on each server."""
        crowd = Clients()
        for i in range(n or self.clients):
            crowd.add(Client(self.servers[i % len(self.servers)], self.db, works[i // 2 % len(works)],
                             f"{self.seed} {self.name} {i}", level or self.level, **settings))
        return crowd

    def finish(self, crowd, allowed="40001"):
        time.sleep(self.seconds)
        ended = crowd.stop()
        tap.ok(ended, f"{self.name}: all clients come to an end")
        bad = crowd.unexpected(allowed)
        tap.ok(not bad, f"{self.name}: no other errors than {allowed or 'none'}",
               f"seed {self.seed}\n{bad}")
        tap.ok(crowd.done > 0, f"{self.name}: work is done")
        tap.note(f"{crowd.done} done, errors {crowd.errors()}")

    def sound(self, *tables):
        conn = self.connect(1)
        found = [f for t in tables for f in findings(conn, t)[0]]
        tap.ok(not found, f"{self.name}: nothing is broken in Redis", found)
        conn.close()

    def equal(self, got, wanted, what):
        return tap.ok(got == wanted, f"{self.name}: {what}",
                      f"seed {self.seed}\ngot {got}\nwanted {wanted}")

    def none(self, wrong, what):
        return tap.ok(not wrong, f"{self.name}: {what}", f"seed {self.seed}\n" +
                      "\n".join(map(str, wrong[:5])))


# ---- bank ----

BANK = """
CREATE FOREIGN TABLE account (id int OPTIONS (key 'true') NOT NULL, balance int) SERVER redis;
CREATE FOREIGN TABLE transfer (a int OPTIONS (key 'true') NOT NULL, n int OPTIONS (key 'true') NOT NULL,
                               amount int) SERVER redis;
"""


def bank(run):
    """Accounts spread over several leaves.  Transfers by increments, by values
    computed by the client (FOR UPDATE keeps them honest under READ COMMITTED),
    and by moving an account to another key."""
    accounts, money = 300, 100
    total = accounts * money
    wrong = []
    setup = run.connect()
    query(setup, f"INSERT INTO account SELECT g * 10, {money} FROM generate_series(1, {accounts}) g")

    def pick(rng):
        # a few hot accounts, and all others
        a, b = rng.sample(range(1, accounts + 1), 2)
        if rng.random() < 0.3:
            a = rng.randint(1, 5)
        return (a * 10, b * 10) if a != b else (a * 10, (a % accounts + 1) * 10)

    def increments(conn, rng):
        a, b = pick(rng)
        n = rng.randint(1, 9)
        with conn.cursor() as c:
            c.execute("UPDATE account SET balance = balance - %s WHERE id BETWEEN %s AND %s + 9", (n, a, a))
            if c.rowcount == 1:
                c.execute("UPDATE account SET balance = balance + %s WHERE id = %s", (n, b))
                if c.rowcount != 1:
                    conn.rollback()
                    return
        conn.commit()

    def values(conn, rng):
        a, b = pick(rng)
        n = rng.randint(1, 9)
        lock = " FOR UPDATE" if run.level == READ_COMMITTED else ""
        rows = dict(query(conn, "SELECT id, balance FROM account WHERE id IN (%s, %s) ORDER BY id" + lock,
                          (a, b)))
        if len(rows) == 2:
            query(conn, "UPDATE account SET balance = %s WHERE id = %s", (rows[a] - n, a))
            query(conn, "UPDATE account SET balance = %s WHERE id = %s", (rows[b] + n, b))
            query(conn, "INSERT INTO transfer SELECT %s, coalesce(max(n), 0) + 1, %s FROM transfer "
                  "WHERE a = %s", (a, n, a))
        try:
            conn.commit()
        except psycopg2.errors.UniqueViolation:
            conn.rollback()

    def move(conn, rng):
        a, _ = pick(rng)
        moved = query(conn, "DELETE FROM account WHERE id BETWEEN %s AND %s RETURNING id, balance",
                      (a, a + 9))
        if moved:
            (old, balance), = moved
            query(conn, "INSERT INTO account VALUES (%s, %s)", (a + (old - a + 1) % 10, balance))
        conn.commit()

    def scan(conn, rng):
        how = rng.choice(("SELECT sum(balance), count(*) FROM account",
                          "SELECT sum(balance), count(*) FROM (SELECT * FROM account ORDER BY id DESC) x"))
        for _ in range(1 if run.level == READ_COMMITTED else 3):
            got = query(conn, how)[0]
            if got != (total, accounts):
                wrong.append(f"a snapshot has {got}")
        conn.commit()

    crowd = run.crowd(increments, scan, values, move, n=max(8, run.clients))
    run.finish(crowd, "40001|23505")
    run.none(wrong, "every snapshot has the same sum")
    for i in (0, 1):
        run.equal(query(run.connect(i), "SELECT sum(balance), count(*) FROM account")[0],
                  (total, accounts), f"the sum in the end, server {i + 1}")
    run.sound("account", "transfer")


# ---- counter ----

COUNTER = """
CREATE FOREIGN TABLE counter (name text OPTIONS (key 'true') NOT NULL, n bigint, m int) SERVER redis;
CREATE FOREIGN TABLE event (client int OPTIONS (key 'true') NOT NULL, n int OPTIONS (key 'true') NOT NULL) SERVER redis;
"""


def counter(run):
    """As TPC-B does it: one hot row, and rows of one's own."""
    setup = run.connect()
    query(setup, "INSERT INTO counter VALUES ('hot', 0, 0), ('warm1', 0, 0), ('warm2', 0, 0)")
    added, lock, numbers = {"hot": 0, "warm1": 0, "warm2": 0}, threading.Lock(), iter(range(1 << 30))
    twice = []

    def plus(conn, rng):
        if not hasattr(rng, "client"):
            rng.client, rng.count = next(numbers), 0
        warm = rng.choice(("warm1", "warm2"))
        n, m = rng.randint(-5, 9), rng.randint(1, 3)
        query(conn, "UPDATE counter SET n = n + %s, m = m - %s WHERE name = 'hot'", (n, m))
        query(conn, "UPDATE counter SET n = n - %s WHERE name = %s", (m, warm))
        query(conn, "INSERT INTO event VALUES (%s, %s)", (rng.client, rng.count))
        conn.commit()
        rng.count += 1
        with lock:
            added["hot"] += n
            added[warm] -= m

    def look(conn, rng):
        before = getattr(rng, "seen", -1)
        events = value(conn, "SELECT count(*) FROM event")
        conn.commit()
        if events < before:
            twice.append(f"{before} events, then {events}")
        rng.seen = events

    crowd = run.crowd(plus, plus, plus, look, n=max(8, run.clients))
    allowed = "" if run.level == READ_COMMITTED else "40001"
    run.finish(crowd, allowed)
    for i in (0, 1):
        got = dict((r[0], r[1]) for r in query(run.connect(i), "SELECT name, n, m FROM counter"))
        run.equal(got, added, f"every acknowledged increment counts once, server {i + 1}")
    done = sum(c.done for c in crowd.all if c.work is plus)
    run.equal(value(run.connect(1), "SELECT count(*) FROM event"), done, "one event per transaction")
    run.none(twice, "no event disappears")
    run.sound("counter", "event")


# ---- append ----

APPEND = """
CREATE FOREIGN TABLE ints (k int OPTIONS (key 'true') NOT NULL, v int[]) SERVER redis;
CREATE FOREIGN TABLE texts (k int OPTIONS (key 'true') NOT NULL, v text) SERVER redis;
"""


def append(run):
    """Transactions of one to four reads and appends of eight lists: int[] and
    text, by SQL's || and by values the client computed (not under READ
    COMMITTED, which permits to lose those)."""
    log, lock, element = [], threading.Lock(), iter(range(1, 1 << 30))
    keys = 8
    setup = run.connect()
    # some lists exist, others are made by the first append
    query(setup, "INSERT INTO ints SELECT g, '{}' FROM generate_series(0, 1) g; "
          "INSERT INTO texts SELECT g, '' FROM generate_series(4, 5) g")

    def read(conn, k):
        rows = query(conn, f"SELECT v FROM {'ints' if k < keys // 2 else 'texts'} WHERE k = %s", (k,))
        if not rows or not rows[0][0]:
            return []
        return rows[0][0] if k < keys // 2 else [int(e) for e in rows[0][0].split()]

    def add(conn, rng, k, e):
        table = "ints" if k < keys // 2 else "texts"
        new = [e] if k < keys // 2 else f" {e}"
        with conn.cursor() as c:
            if run.level != READ_COMMITTED and rng.random() < 0.5:
                rows = query(conn, f"SELECT v FROM {table} WHERE k = %s", (k,))
                c.execute(f"UPDATE {table} SET v = %s WHERE k = %s",
                          ((rows[0][0] if rows else new[:0]) + new, k))
            else:
                c.execute(f"UPDATE {table} SET v = v || %s WHERE k = %s", (new, k))
            if c.rowcount == 0:
                c.execute(f"INSERT INTO {table} VALUES (%s, %s)", (k, new))

    def work(conn, rng):
        ops = []
        t = history.Transaction(ops, history.UNKNOWN, time.monotonic())
        t.name = f"T{next(element)}"
        try:
            for _ in range(rng.randint(1, 4)):
                k = rng.randrange(keys)
                if rng.random() < 0.5:
                    ops.append(("read", k, read(conn, k)))
                else:
                    e = next(element)
                    ops.append(("append", k, e))
                    add(conn, rng, k, e)
            if rng.random() < 0.05:
                t.outcome = history.FAIL
                conn.rollback()
                return
            conn.commit()
            t.end = time.monotonic()
            t.outcome = history.OK
        except psycopg2.Error as e:
            if e.pgcode in ("40001", "23505"):
                t.outcome = history.FAIL
            raise
        finally:
            with lock:
                log.append(t)

    crowd = run.crowd(work)
    run.finish(crowd, "40001|23505")
    for i in (0, 1):
        conn = run.connect(i)
        final = {k: read(conn, k) for k in range(keys)}
        found = [a for a in history.anomalies(log, final)
                 if a[0] in history.FORBIDDEN[run.level]]
        run.none([f"{n}: {why[:600]}" for n, why in found], f"no anomalies, server {i + 1}")
    run.sound("ints", "texts")


# ---- write skew, phantoms ----

SKEW = """
CREATE FOREIGN TABLE oncall (shift int OPTIONS (key 'true') NOT NULL, doctor int OPTIONS (key 'true') NOT NULL,
                             present bool) SERVER redis;
CREATE FOREIGN TABLE booking (room int OPTIONS (key 'true') NOT NULL, hour int OPTIONS (key 'true') NOT NULL,
                              who text) SERVER redis;
CREATE FOREIGN TABLE pair_a (id int OPTIONS (key 'true') NOT NULL) SERVER redis;
CREATE FOREIGN TABLE pair_b (id int OPTIONS (key 'true') NOT NULL) SERVER redis;
"""


def skew(run):
    shifts = 3
    wrong, numbers = [], iter(range(1, 1 << 30))
    setup = run.connect()
    query(setup, f"INSERT INTO oncall SELECT s, d, true FROM generate_series(1, {shifts}) s, "
          "generate_series(1, 3) d")

    def doctors(conn, rng):
        """One doctor stays present, always."""
        s, d = rng.randint(1, shifts), rng.randint(1, 3)
        present = value(conn, "SELECT count(*) FROM oncall WHERE shift = %s AND present", (s,))
        if present == 0:
            wrong.append(f"shift {s} is deserted")
        if present > 1:
            query(conn, "UPDATE oncall SET present = false WHERE shift = %s AND doctor = %s", (s, d))
        else:
            query(conn, "UPDATE oncall SET present = true WHERE shift = %s", (s,))
        conn.commit()

    def rooms(conn, rng):
        """No two bookings within three hours: the gap is a range without rows."""
        room, hour = rng.randint(1, 3), rng.randint(0, 400) + 40 * (next(numbers) // 60)
        taken = value(conn, "SELECT count(*) FROM booking WHERE room = %s AND hour BETWEEN %s AND %s",
                      (room, hour - 2, hour + 2))
        if taken == 0:
            query(conn, "INSERT INTO booking VALUES (%s, %s, 'x')", (room, hour))
        conn.commit()

    def pairs(conn, rng):
        """Into one table if the other does not have it: reads of absent keys."""
        i = next(numbers) // 4
        a, b = rng.sample(("pair_a", "pair_b"), 2)
        if not query(conn, f"SELECT 1 FROM {a} WHERE id = %s", (i,)):
            query(conn, f"INSERT INTO {b} VALUES (%s)", (i,))
        conn.commit()

    crowd = run.crowd(doctors, rooms, pairs, n=max(6, run.clients))
    run.finish(crowd, "40001|23505")
    conn = run.connect(1)
    close = query(conn, "SELECT x.room, x.hour, y.hour FROM booking x, booking y "
                  "WHERE x.room = y.room AND y.hour > x.hour AND y.hour <= x.hour + 2")
    both = query(conn, "SELECT id FROM pair_a WHERE id IN (SELECT id FROM pair_b)")
    shifts_left = query(conn, "SELECT shift FROM oncall GROUP BY 1 HAVING count(*) FILTER (WHERE present) = 0")
    if run.level == SERIALIZABLE:
        run.none(wrong + shifts_left, "no shift is without a doctor (write skew)")
        run.none(close, "no bookings overlap (phantoms)")
        run.none(both, "no id is in both tables (reads of absent rows)")
        tap.note(f"{value(conn, 'SELECT count(*) FROM booking')} bookings")
    else:
        tap.note(f"permitted at this level: {len(wrong)} deserted shifts seen, {len(close)} overlaps, "
                 f"{len(both)} pairs")
    run.sound("oncall", "booking", "pair_a", "pair_b")


# ---- unique ----

UNIQUE = """
CREATE FOREIGN TABLE slot (id int OPTIONS (key 'true') NOT NULL, owner text) SERVER redis;
"""


def unique(run):
    """Clients race for the same keys, free them, and race again."""
    names = iter(range(1 << 30))
    wrong, lock = [], threading.Lock()
    held = {}

    def race(conn, rng):
        if not hasattr(rng, "me"):
            rng.me, rng.mine = f"client{next(names)}", []
        if len(rng.mine) > 4:
            i = rng.mine.pop(0)
            with lock:
                held.pop(i, None)       # from here on others may have it
            with conn.cursor() as c:
                c.execute("DELETE FROM slot WHERE id = %s AND owner = %s", (i, rng.me))
                if c.rowcount != 1:
                    wrong.append(f"{rng.me} lost {i}")
            try:
                conn.commit()
            except psycopg2.errors.SerializationFailure:
                wrong.append(f"{rng.me} could not free {i}, which nobody else may touch")
            return
        i = rng.randint(1, 12) * 50
        try:
            if rng.random() < 0.5:
                query(conn, "INSERT INTO slot VALUES (%s, %s)", (i, rng.me))
            else:
                query(conn, "INSERT INTO slot SELECT g, %s FROM generate_series(%s, %s) g WHERE g = %s",
                      (rng.me, i - 1, i + 1, i))
            conn.commit()
        except (psycopg2.errors.UniqueViolation, psycopg2.errors.SerializationFailure):
            conn.rollback()
            return
        with lock:
            other = held.setdefault(i, rng.me)
        if other != rng.me:
            wrong.append(f"{i} was inserted by {other} and by {rng.me}")
        rng.mine.append(i)
        rows = query(conn, "SELECT owner FROM slot WHERE id = %s", (i,))
        conn.commit()
        if rows != [(rng.me,)]:
            wrong.append(f"{rng.me} inserted {i}, and reads {rows}")

    crowd = run.crowd(race)
    run.finish(crowd, "")
    run.none(wrong, "each key has one owner")
    run.equal(dict(query(run.connect(1), "SELECT id, owner FROM slot")), held, "the rows in the end")
    run.sound("slot")


# ---- own ----

OWN = """
CREATE FOREIGN TABLE own (id int OPTIONS (key 'true') NOT NULL, n int, pad text) SERVER redis;
"""


def own(run):
    """Committed here, read there, by key and by scan; no way back in time."""
    ids = iter(range(1, 1 << 30))
    wrong = []
    others = {}

    def work(conn, rng):
        if not hasattr(rng, "id"):
            rng.id, rng.n = next(ids), 0
            query(conn, "INSERT INTO own VALUES (%s, 0, '')", (rng.id,))
            conn.commit()
            other = 1 if conn.info.host == run.servers[0].args["host"] else 0
            others[rng.id] = run.connect(other, autocommit=False, level=run.level)
        there = others[rng.id]
        n = rng.n + 1
        query(conn, rng.choice(("UPDATE own SET n = n + 1 WHERE id = %s",
                                "UPDATE own SET n = n + 1, pad = 'x' || %s WHERE id = %s"))
              .replace("'x' || %s", f"'x{n}'"), (rng.id,))
        if rng.random() < 0.3:
            query(conn, "INSERT INTO own VALUES (%s, %s, repeat('y', 300))", (rng.id * 1000000 + n, n))
        conn.commit()
        rng.n = n
        sql = rng.choice(("SELECT n FROM own WHERE id = %s",
                          "SELECT n FROM own WHERE id BETWEEN %s AND %s + 0".replace("%s + 0", str(rng.id)),
                          "SELECT n FROM own WHERE id + 0 = %s AND id < 1000000",
                          "SELECT max(n) FROM own WHERE id = %s OR id BETWEEN {0} AND {1}".format(
                              rng.id * 1000000, rng.id * 1000000 + 999999)))
        got = value(there, sql, (rng.id,))
        there.commit()
        if got != n:
            wrong.append(f"committed {n}, the other server reads {got}: {sql}")
            rng.n = got

    crowd = run.crowd(work)
    run.finish(crowd, "40001" if run.level != READ_COMMITTED else "40001")
    run.none(wrong, "what was committed is seen on the other server")
    run.sound("own")


WORKLOADS = {
    "bank": (bank, BANK, LEVELS),
    "counter": (counter, COUNTER, LEVELS),
    "append": (append, APPEND, LEVELS),
    "skew": (skew, SKEW, (SERIALIZABLE, REPEATABLE_READ)),
    "unique": (unique, UNIQUE, (READ_COMMITTED, SERIALIZABLE)),
    "own": (own, OWN, LEVELS),
}


def body():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--engine", choices=ENGINES)
    p.add_argument("--level", type=str.upper, choices=LEVELS)
    p.add_argument("--clients", type=int, default=6)
    p.add_argument("workload", nargs="*")
    args = p.parse_args()
    tap.note(f"--seed {args.seed} --seconds {args.seconds:g}")
    tap.equal(history.self_test(), [], "the checker of histories knows bad ones from good ones")

    cluster = Cluster("work")
    servers = [Server("work1"), Server("work2")]
    engines = [args.engine] if args.engine else ENGINES
    for name in args.workload or WORKLOADS:
        work, ddl, levels = WORKLOADS[name]
        levels = [l for l in levels if args.level in (None, l)]
        for engine in engines:
            for level in levels:
                db = f"{name}_{engine}"
                with section(f"{db}, {level}"):
                    ns = db + level[:6].strip().lower().replace(" ", "")
                    for s in servers:
                        make_database(s, db, cluster.nodes, {"atomic": engine, "namespace": ns}, ddl)
                    work(Run(servers, db, level, args.seconds / len(engines) / len(levels),
                             args.seed, args.clients))
    crashes = [c for s in servers for c in s.crashes()]
    tap.equal(crashes, [], "no backend died")


main(body)
