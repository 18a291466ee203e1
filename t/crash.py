#!/usr/bin/python3
"""kill -9 of a backend at every debug point.

Two PostgreSQL servers on one cluster.  On the first, a transaction over several
tables, leaves and Redis nodes is killed at a point; then clients of the second
must

  * see all of it or nothing, at once, and always the same sums;
  * go on with the very rows it had its hands on, within two seconds;
  * leave nothing behind: mosql_fdw_check() is silent once all rows were touched.

The points are those in the sources, so that a new one is tested or fails here.
    t/crash.py [POINT]...
"""
import os
import re
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

ACCOUNTS, BALANCE = 700, 1000
NEW_ROWS = 300                  # more than two leaves' worth: splits
BIG_ROWS = 34000                # more leaves than an inner node has children
TOUCHED = (3, 180, 350, 520, 690)
WITHIN = 2.0

# What must be left by a backend killed there; other points: anything whole.
NOTHING = {"before-prepare", "prepare-some", "after-prepare"}
ALL = {"after-decide", "apply-some", "after-apply"}

DDL = """
CREATE FOREIGN TABLE acct (id int OPTIONS (key 'true') NOT NULL, bal int, note text) SERVER redis;
CREATE FOREIGN TABLE cnt (name text OPTIONS (key 'true') NOT NULL, n bigint) SERVER redis;
CREATE FOREIGN TABLE ledger (id int OPTIONS (key 'true') NOT NULL, tag text, amount int) SERVER redis;
CREATE FOREIGN TABLE swap (id int OPTIONS (key 'true') NOT NULL, note text) SERVER redis;
CREATE FOREIGN TABLE big (tag int OPTIONS (key 'true') NOT NULL, id int OPTIONS (key 'true') NOT NULL) SERVER redis;
"""
TABLES = ("acct", "cnt", "ledger", "swap", "big")


def points():
    names = []
    for root, _, files in os.walk(os.path.join(TOP, "src")):
        for f in sorted(files):
            if f.endswith(".c"):
                with open(os.path.join(root, f)) as source:
                    names += re.findall(r'MOSQL_DEBUG_POINT\("([^"]+)"\)', source.read())
    return sorted(set(names), key=names.index)


def fill(conn):
    query(conn, f"""
        INSERT INTO acct SELECT g, {BALANCE}, '' FROM generate_series(1, {ACCOUNTS}) g;
        INSERT INTO cnt VALUES ('a', 0), ('b', 0);
        INSERT INTO ledger SELECT g * 100000, '', 0 FROM generate_series(1, 300) g;
        INSERT INTO swap SELECT g, '' FROM generate_series(1, 10) g;""")


def transaction(conn, tag, number):
    """The victim's work; keys of the new rows depend on number only."""
    a, b, c, d, e = TOUCHED
    query(conn, f"""
        UPDATE acct SET bal = bal - 10 WHERE id = {a};
        UPDATE acct SET bal = bal + 10 WHERE id = {e};
        UPDATE acct SET note = '{tag}' WHERE id IN ({b}, {c}, {d});
        UPDATE cnt SET n = n + 1 WHERE name = 'a';
        UPDATE cnt SET n = n - 1 WHERE name = 'b';
        DELETE FROM swap WHERE id = (SELECT min(id) FROM swap);
        INSERT INTO swap SELECT max(id) + 1, '{tag}' FROM swap;
        SELECT sum(bal) FROM acct WHERE id BETWEEN 100 AND 400;
        INSERT INTO ledger SELECT (g * 7919 % 30000000) * 10 + {number % 10}, '{tag}', 1
            FROM generate_series({number} * {NEW_ROWS} + 1, ({number} + 1) * {NEW_ROWS}) g;""")


def seen(conn, tag, big=None):
    """How much of a transaction there is: '' nothing, 'all', or what is wrong."""
    query(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ")
    total = value(conn, "SELECT sum(bal) FROM acct")
    notes = value(conn, "SELECT count(*) FROM acct WHERE note = %s", (tag,))
    rows = value(conn, "SELECT count(*) FROM ledger WHERE tag = %s", (tag,))
    swaps, mine = query(conn, "SELECT count(*), count(*) FILTER (WHERE note = %s) FROM swap", (tag,))[0]
    counts = value(conn, "SELECT sum(n) FROM cnt")
    loaded = None if big is None else value(conn, "SELECT count(*) FROM big WHERE tag = %s", (big,))
    query(conn, "COMMIT")
    if total != ACCOUNTS * BALANCE or swaps != 10 or counts != 0:
        return f"sums: {total}, {swaps}, {counts}"
    if (notes, rows, mine) == (0, 0, 0) and loaded in (None, 0):
        return ""
    if (notes, rows, mine) == (3, NEW_ROWS, 1) and loaded in (None, BIG_ROWS):
        return "all"
    return f"half: notes {notes}, rows {rows}, swap {mine}, big {loaded}"


def until_committed(conn, sql, deadline):
    """Seconds from now until it commits; None if it does not in time."""
    state = None
    while time.monotonic() < deadline:
        _, state = attempt(conn, "BEGIN; " + sql + "; COMMIT")
        if state is None:
            return time.monotonic(), None
        attempt(conn, "ROLLBACK")
        if state != CONFLICT:
            break
    return None, state


class Proceed:
    """Clients of the other server, each on one row, one on all of them."""

    def __init__(self, server, db):
        a, b, c, d, e = TOUCHED
        self.sql = [f"UPDATE acct SET note = note WHERE id = {i}" for i in TOUCHED]
        self.sql += [f"UPDATE acct SET bal = bal - 1 WHERE id = {a}; "
                     f"UPDATE acct SET bal = bal + 1 WHERE id = {e}",
                     "UPDATE cnt SET n = n + 1 WHERE name = 'a'; UPDATE cnt SET n = n - 1 WHERE name = 'b'",
                     "UPDATE acct SET bal = bal WHERE id IN (%d, %d, %d, %d, %d); "
                     "UPDATE cnt SET n = n; UPDATE swap SET note = note" % TOUCHED]
        self.conns = [server.connect(db) for _ in range(len(self.sql) + 1)]
        for c in self.conns:
            query(c, "SELECT count(*) FROM acct; SELECT count(*) FROM cnt; SELECT count(*) FROM swap")

    def run(self, since, tag, number):
        """When the slowest had committed, who did not, and what became of the
        victim's transaction when it was tried again: None or an SQLSTATE."""
        results = [None] * len(self.conns)

        def one(i):
            if i < len(self.sql):
                results[i] = until_committed(self.conns[i], self.sql[i], since + 15)
            else:
                results[i] = self.again(since + 15, tag, number)
        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(self.conns))]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
        stuck = [(s, r) for s, r in zip(self.sql + ["once more"], results) if not r or r[0] is None]
        times = [r[0] - since for r in results if r and r[0]]
        return max(times, default=99), stuck, results[-1] and results[-1][1]

    def again(self, deadline, tag, number):
        """The victim's client asks the other server: the same keys."""
        state = None
        while time.monotonic() < deadline:
            try:
                query(self.conns[-1], "BEGIN")
                transaction(self.conns[-1], tag, number)
                query(self.conns[-1], "COMMIT")
                return time.monotonic(), None
            except psycopg2.Error as e:
                state = state_of(self.conns[-1], e)
                attempt(self.conns[-1], "ROLLBACK")
                if state == "23505":
                    return time.monotonic(), state
                if state != CONFLICT:
                    break
        return None, state

    def close(self):
        for c in self.conns:
            c.close()


class Crash:
    def __init__(self, cluster, one, two, engine):
        self.cluster, self.one, self.two, self.engine = cluster, one, two, engine
        self.level = SERIALIZABLE if engine == "script" else READ_COMMITTED
        self.db = "crash_" + engine
        self.number = 0
        options = {"atomic": engine, "command_timeout": "4000"}
        for s in (one, two):
            make_database(s, self.db, cluster.nodes, options, DDL)
        with contextlib.closing(two.connect(self.db)) as c:
            fill(c)

    def victim(self, point, big=None, **settings):
        """Run the transaction; True if its backend died on the way."""
        self.number += 1
        self.tag = f"{point}.{self.number}"
        conn = self.one.connect(self.db, level=self.level)
        try:
            query(conn, f"SET mosql_fdw.debug_crash_at = '{point}'")
            query(conn, "BEGIN ISOLATION LEVEL " + self.level)
            transaction(conn, self.tag, self.number)
            if big is not None:
                query(conn, f"INSERT INTO big SELECT {big}, g FROM generate_series(1, {BIG_ROWS}) g")
            query(conn, "COMMIT")
            return False
        except psycopg2.Error as e:
            if not conn.closed:
                raise
            return True
        finally:
            conn.close()

    def reader(self, point):
        conn = self.one.connect(self.db)
        try:
            query(conn, f"SET mosql_fdw.debug_crash_at = '{point}'")
            query(conn, "SELECT sum(bal) FROM acct; SELECT sum(n) FROM cnt; SELECT count(*) FROM swap")
            return False
        except psycopg2.Error:
            if not conn.closed:
                raise
            return True
        finally:
            conn.close()

    # Ways to get a backend to the point; each returns True if it died there.

    def plainly(self, point):
        return self.victim(point)

    def after_an_undecided_one(self, point):
        self.victim("after-prepare")
        self.one.wait_up()
        return self.victim(point)

    def after_a_decided_one(self, point):
        self.victim("after-decide")
        self.one.wait_up()
        return self.victim(point)

    def reading_a_decided_one(self, point):
        self.victim("after-decide")
        self.one.wait_up()
        return self.reader(point)

    def with_many_rows(self, point):
        self.big = self.number
        return self.victim(point, big=self.big)

    def with_lost_reply(self, point):
        """The clock's node hangs when decide is sent, and goes on when its
        backend is dead: decide arrives after its owner's end."""
        holder = self.one.connect(self.db)
        query(holder, "SELECT mosql_fdw_debug_lock('after-prepare')")
        query(holder, "ALTER SERVER redis OPTIONS (SET command_timeout '1000')")
        port = self.cluster.clock_port(self.db)
        died = []
        try:
            os.environ["PGOPTIONS"] = ""
            self.number += 1
            self.tag = f"{point}.{self.number}"
            conn = self.one.connect(self.db)
            query(conn, f"SET mosql_fdw.debug_points = on; SET mosql_fdw.debug_crash_at = '{point}'")
            query(conn, "BEGIN")
            transaction(conn, self.tag, self.number)
            t = threading.Thread(target=lambda: died.append(attempt(conn, "COMMIT")[1]))
            t.start()
            waits = wait_until(lambda: value(holder, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
            if not waits:
                return False
            self.cluster.pid(port)
            self.cluster.signal(port, signal.SIGSTOP)
            query(holder, "SELECT mosql_fdw_debug_unlock('after-prepare')")
            t.join(20)
        finally:
            self.cluster.signal(port, signal.SIGCONT)
            holder.close()
        return died == ["gone"]

    def check(self, point, way, name, proceed, conn, since, died):
        first = seen(conn, self.tag, self.big)
        slowest, stuck, again = proceed.run(since, self.tag + ".again", self.number)
        tap.ok(died, f"{name}: the backend dies ({way.replace('_', ' ')})")
        tap.ok(not stuck and slowest <= WITHIN, f"{name}: the others proceed within {WITHIN:g} s",
               f"slowest {slowest:.2f} s; stuck: {stuck}")
        tap.note(f"slowest after {slowest:.2f} s; {first or 'nothing'} of it visible")
        last = seen(conn, self.tag, self.big) if again else ""
        # At once and later: the same, except that a late decide may have come.
        wanted = {"all"} if point in ALL and way == "plainly" else \
            {""} if point in NOTHING and way == "plainly" else {"", "all"}
        tap.ok(first in wanted | {""} and last in wanted, f"{name}: all or nothing",
               f"at first {first!r}, at last {last!r}")
        tap.ok(first == last or way == "with_lost_reply", f"{name}: visible or not from the start",
               f"at first {first!r}, at last {last!r}")

        tap.equal(again, "23505" if last == "all" else None,
                  f"{name}: what did not happen can be done again, what did cannot")
        if again is None:
            tap.equal(seen(conn, self.tag + ".again"), "all", f"{name}: and then it is there")

        found = [(t, f) for t in TABLES for f in findings(conn, t)[0]]
        tap.ok(not found, f"{name}: nothing is broken", found)
        query(conn, "UPDATE acct SET note = note; UPDATE cnt SET n = n; UPDATE swap SET note = note; "
              "UPDATE ledger SET tag = tag")
        query(conn, "UPDATE ledger SET tag = tag")
        if self.big is not None:
            query(conn, "DELETE FROM big")
        # the last update itself is applied without being waited for
        wait_until(lambda: not any(findings(conn, t)[1] for t in TABLES), 3, 0.2)
        found = sorted({(t,) + f for t in TABLES for fs in findings(conn, t) for f in fs})
        tap.ok(not found, f"{name}: nothing is left over", "\n".join(map(str, found[:8])))

    def test(self, point):
        name = f"{self.engine}, {point}"
        ways = [self.plainly, self.after_an_undecided_one, self.after_a_decided_one,
                self.reading_a_decided_one, self.with_many_rows]
        if "inner" in point:
            ways = [self.with_many_rows]
        if "settle" in point:
            ways = [self.with_lost_reply]
        if point.startswith(("help", "blocker")):
            ways = ways[1:]
        if point.startswith("read"):
            ways = ways[3:]
        if not self.one.wait_up():
            tap.ok(False, f"{name}: the server restarts")
            return
        conn = self.two.connect(self.db)
        proceed = Proceed(self.two, self.db)
        try:
            for way in ways:
                self.big = None
                if way(point):
                    self.check(point, way.__name__, name, proceed, conn, time.monotonic(), True)
                    break
            else:
                tap.ok(False, f"{name}: a backend dies there", "no transaction came to that point")
        finally:
            proceed.close()
            conn.close()


def body():
    names = sys.argv[1:] or points()
    cluster = Cluster("crash")
    cluster.remember_pids()
    one, two = Server("crash1"), Server("crash2")
    tap.ok(len(points()) >= 12, "debug points are found in the sources")
    for engine in ENGINES:
        crash = Crash(cluster, one, two, engine)
        for point in names:
            with section(f"{engine}, {point}"):
                crash.test(point)
    tap.equal(one.crashes() + two.crashes(), [], "no backend died of itself")


main(body)
