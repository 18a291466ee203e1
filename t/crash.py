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
    # those that only maintenance reaches are t/maintain.py's
    return [n for n in sorted(set(names), key=names.index)
            if not re.match("(maintain|vacuum|merge|sweep|stray)-", n)]


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
        who = self.sql + ["the same transaction"]
        slowest = max((r[0] - since, w) for r, w in zip(results, who) if r and r[0])
        return slowest, stuck, results[-1] and results[-1][1]

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
    def __init__(self, cluster, one, two, engine, proxy=None):
        self.one, self.two, self.engine, self.proxy = one, two, engine, proxy
        self.level = SERIALIZABLE if engine == "script" else READ_COMMITTED
        self.db = ("lost_" if proxy else "crash_") + engine
        self.number = 0
        self.known = set()
        options = {"atomic": engine, "command_timeout": "4000"}
        for s in (one, two):
            make_database(s, self.db, proxy.nodes if proxy and s is one else cluster.nodes,
                          options, DDL)
        with contextlib.closing(two.connect(self.db)) as c:
            fill(c)

    def died(self, probe):
        """After a crash PostgreSQL ends all backends, then starts anew."""
        wait_until(lambda: attempt(probe, "SELECT 1")[1], 10)
        self.one.wait_up()
        return True

    def victim(self, point, big=None, again=False):
        """Run the transaction; True if its backend died on the way.  again: with
        the keys of the one before."""
        self.number += not again
        self.tag = f"{point}.{self.number}{'.again' if again else ''}"
        probe = self.one.connect()
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
            return self.died(probe)
        finally:
            conn.close()
            probe.close()

    def reader(self, point):
        probe = self.one.connect()
        conn = self.one.connect(self.db)
        try:
            query(conn, f"SET mosql_fdw.debug_crash_at = '{point}'")
            query(conn, "SELECT sum(bal) FROM acct; SELECT sum(n) FROM cnt; SELECT count(*) FROM swap")
            return False
        except psycopg2.Error:
            if not conn.closed:
                raise
            return self.died(probe)
        finally:
            conn.close()
            probe.close()

    # Ways to get a backend to the point; each returns True if it died there.

    def plainly(self, point):
        return self.victim(point)

    def after_an_undecided_one(self, point):
        self.victim("after-prepare")
        return self.victim(point, again=True)

    def after_a_decided_one(self, point):
        self.victim("after-decide")
        return self.victim(point)

    def reading_an_undecided_one(self, point):
        self.victim("after-prepare")
        return self.reader(point)

    def with_many_rows(self, point):
        self.big = self.number
        return self.victim(point, big=self.big)

    def with_lost_reply(self, point):
        return self.spoiled("reply", point)

    def with_lost_request(self, point):
        return self.spoiled("request", point)

    def with_late_request(self, point):
        """The decision arrives when nobody waits for it any more."""
        died = self.spoiled("late", point)
        self.proxy.release()
        return died

    def spoiled(self, how, point):
        """Stop the victim between prepare and decide, then spoil decide."""
        holder = self.one.connect(self.db)
        probe = self.one.connect()
        died = []
        query(holder, "SELECT mosql_fdw_debug_lock('after-prepare')")
        self.number += 1
        self.tag = f"{point}.{self.number}"
        conn = self.one.connect(self.db)
        try:
            query(conn, f"SET mosql_fdw.debug_points = on; SET mosql_fdw.debug_crash_at = '{point}'")
            query(conn, "BEGIN")
            transaction(conn, self.tag, self.number)
            t = threading.Thread(target=lambda: died.append(attempt(conn, "COMMIT")[1]))
            t.start()
            if not wait_until(lambda: value(holder, "SELECT count(*) FROM pg_locks WHERE NOT granted")):
                return False
            self.proxy.arm(how)
            query(holder, "SELECT mosql_fdw_debug_unlock('after-prepare')")
            t.join(20)
        finally:
            holder.close()
        return died == ["gone"] and self.died(probe)

    def check(self, point, way, name, proceed, conn):
        since = time.monotonic()
        first = seen(conn, self.tag, self.big)
        (slowest, who), stuck, again = proceed.run(since, self.tag + ".again", self.number)
        tap.ok(True, f"{name}: the backend dies ({way.replace('_', ' ')})")
        # a second dead one in the way costs mosql_fdw.intent_timeout once more
        limit = WITHIN + (way.startswith("after_an_undecided"))
        tap.ok(not stuck and slowest <= limit, f"{name}: the others proceed within {limit:g} s",
               f"slowest {slowest:.2f} s: {who}; stuck: {stuck}")
        tap.note(f"slowest after {slowest:.2f} s; {first or 'nothing'} of it visible")
        last = seen(conn, self.tag, self.big) if again else ""
        wanted = {"all"} if point in ALL or way == "with_lost_reply" else \
            {""} if point in NOTHING or way == "with_lost_request" else {"", "all"}
        tap.ok(first == last and last in wanted, f"{name}: all or nothing, from the start",
               f"at first {first!r}, at last {last!r}")

        tap.equal(again, "23505" if last == "all" else None,
                  f"{name}: what did not happen can be done again, what did cannot")
        if again is None:
            tap.equal(seen(conn, self.tag + ".again"), "all", f"{name}: and then it is there")

        found = [(t, f) for t in TABLES for f in findings(conn, t)[0]]
        tap.ok(not found, f"{name}: nothing is broken", found)
        self.touch(conn)
        # the last commit itself is applied without being waited for
        wait_until(lambda: not self.leftovers(conn), 3, 0.2)
        found = self.leftovers(conn)
        if "created" in point or "pieces" in point:
            # new nodes that nobody heard of before their maker died
            lost = {f for f in found if f[3].startswith("no path from the root")}
            tap.note(f"{len(lost)} nodes are lost")
            self.known |= lost
            found -= lost
        tap.ok(not found, f"{name}: nothing is left over", "\n".join(map(str, sorted(found)[:8])))

    def touch(self, conn):
        """Change every row, and insert those that were deleted once more."""
        query(conn, "INSERT INTO swap SELECT g, '' FROM generate_series("
              "(SELECT greatest(min(id) - 3, 1) FROM swap), (SELECT min(id) - 1 FROM swap)) g")
        query(conn, "DELETE FROM swap WHERE id < (SELECT max(id) - 9 FROM swap)")
        query(conn, "UPDATE acct SET note = note; UPDATE cnt SET n = n; UPDATE swap SET note = note; "
              "UPDATE ledger SET tag = tag")
        query(conn, "DELETE FROM big")

    def leftovers(self, conn):
        return {(t,) + f for t in TABLES for fs in findings(conn, t) for f in fs} - self.known

    def test(self, point):
        name = f"{self.engine}, {point}"
        ways = [self.plainly, self.after_an_undecided_one, self.after_a_decided_one,
                self.reading_an_undecided_one, self.with_many_rows]
        if "inner" in point:
            ways = [self.with_many_rows]
        if self.proxy:
            ways = [self.with_lost_reply, self.with_lost_request, self.with_late_request]
        if point.startswith(("help", "blocker")):
            ways = ways[1:]
        if point.startswith("read"):
            ways = ways[3:]
        conn = self.two.connect(self.db)
        proceed = Proceed(self.two, self.db)
        try:
            for way in ways:
                self.big = None
                if way(point):
                    self.check(point, way.__name__, name, proceed, conn)
                    if not self.proxy:
                        break
                elif self.proxy:
                    tap.ok(False, f"{name}: a backend dies there ({way.__name__})")
            else:
                if not self.proxy:
                    tap.ok(False, f"{name}: a backend dies there", "no transaction came there")
        finally:
            proceed.close()
            conn.close()


def body():
    names = sys.argv[1:] or points()
    cluster = Cluster("crash")
    plain = Cluster("crash-plain", plain=True)
    proxy = Proxy(plain.ports[0])
    one, two = Server("crash1"), Server("crash2")
    tap.ok(len(points()) >= 12, "debug points are found in the sources")
    for engine in ENGINES:
        crash = Crash(cluster, one, two, engine)
        lost = Crash(plain, one, two, engine, proxy)
        for point in names:
            if engine == "watch" and point == "apply-some":
                continue        # `watch` sends nothing that it does not wait for
            with section(f"{engine}, {point}"):
                (lost if "settle" in point else crash).test(point)
    tap.equal(one.crashes() + two.crashes(), [], "no backend died of itself")


main(body)
