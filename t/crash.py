#!/usr/bin/python3
"""kill -9 of a backend at every debug point.

Two PostgreSQL servers on one cluster.  On the first, a transaction over several
tables, leaves and Redis nodes is killed at a point; then clients of the second
must

  * see all of it or nothing, at once, and always the same sums;
  * go on with the very rows it had its hands on, soon: its server ends its session, and so its
    locks, within a second, and who waits for them looks each second, and once more at each further
    row of the dead one, or where one of the others is in the way;
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
from victim import *

# Mostly 0.3 to 1.4 s; 4.5 s where several looks follow each other, or the clients have a deadlock
# of their own.  Whoever waits for the end of the dead one's lease needs 30 to 60 s.
WITHIN = 20.0


# What must be left by a backend killed there; other points: anything whole.
NOTHING = {"before-prepare", "prepare-some", "after-prepare", *AT_ONCE.values()}
ALL = {"after-decide", "apply-some", "after-apply"}

# Where a backend dies that loads so many rows, besides.
LOAD_POINTS = ("prepare-some", "after-prepare", "after-decide", "apply-some")


class Crash:
    def __init__(self, cluster, one, two, engine, proxy=None, one_step=""):
        self.one, self.two, self.engine, self.proxy = one, two, engine, proxy
        self.one_step = one_step
        self.level = SERIALIZABLE if engine == "script" and not one_step else READ_COMMITTED
        self.db = ("lost_" if proxy else "crash_") + engine + ("_at_once" if one_step else "")
        self.number = 0
        self.known = set()
        options = {"atomic": engine, "command_timeout": "4000"}
        for s in (one, two):
            make_database(s, self.db, proxy.nodes if proxy and s is one else cluster.nodes,
                          options, DDL)
            with contextlib.closing(s.connect()) as c:
                query(c, f"ALTER DATABASE {self.db} SET mosql_fdw.one_step = {'on' if one_step else 'off'}")
        with contextlib.closing(two.connect(self.db)) as c:
            fill(c)

    def died(self, probe):
        """After a crash PostgreSQL ends all backends, then starts anew."""
        wait_until(lambda: attempt(probe, "SELECT 1")[1])
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
        """Stop the victim between prepare and decide, then spoil decide; or what is both."""
        before = AT_ONCE[self.engine] if self.one_step == "one step" else "after-prepare"
        holder = self.one.connect(self.db)
        probe = self.one.connect()
        died = []
        query(holder, f"SELECT mosql_fdw_debug_lock('{before}')")
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
            # the victim may be dead, and all backends with it, before this one answers
            attempt(holder, f"SELECT mosql_fdw_debug_unlock('{before}')")
            t.join(60)
        finally:
            holder.close()
        return died == ["gone"] and self.died(probe)

    def check(self, point, way, name, proceed, conn):
        since = time.monotonic()
        first = seen(conn, self.tag, self.big)
        (slowest, who), stuck, again = proceed.run(since, self.tag + ".again", self.number)
        tap.ok(True, f"{name}: the backend dies ({way.replace('_', ' ')})")
        tap.ok(not stuck and slowest <= WITHIN, f"{name}: the others proceed within {WITHIN:g} s",
               f"slowest {slowest:.2f} s: {who}; stuck: {stuck}")
        tap.note(f"slowest after {slowest:.2f} s, {who}; {first or 'nothing'} of it visible")
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
        touch(conn)
        if self.big is not None:    # of what was loaded, and not decided, the others touch nothing
            query(conn, "SELECT * FROM mosql_fdw_maintain('redis')")
        # the last commit itself is applied without being waited for
        wait_until(lambda: not self.leftovers(conn) - self.lost(conn, point), pause=0.2)
        lost = self.lost(conn, point)
        if lost:
            tap.note(f"{len(lost)} nodes are lost")
            self.known |= lost
        found = self.leftovers(conn)
        tap.ok(not found, f"{name}: nothing is left over", "\n".join(map(str, sorted(found)[:8])))

    def leftovers(self, conn):
        return leftovers(conn) - self.known

    def lost(self, conn, point):
        """New nodes that nobody heard of before their maker died."""
        if "created" not in point and "pieces" not in point:
            return set()
        return {f for f in self.leftovers(conn) if f[3].startswith("no path from the root")}

    def test(self, point, load=False):
        name = f"{self.engine}{self.one_step and ', ' + self.one_step}, {point}{', load' if load else ''}"
        ways = [self.plainly, self.after_an_undecided_one, self.after_a_decided_one,
                self.reading_an_undecided_one, self.with_many_rows]
        if "inner" in point or load:
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
    names = sys.argv[1:] or debug_points()
    cluster = Cluster("crash")
    plain = Cluster("crash-plain", plain=True)
    proxy = Proxy(plain.ports[0])
    one, two = Server("crash1"), Server("crash2")
    tap.ok(len(debug_points()) >= 12, "debug points are found in the sources")
    for engine in ENGINES:
        crash = Crash(cluster, one, two, engine)
        lost = Crash(plain, one, two, engine, proxy)
        for point in names:
            if point in AT_ONCE.values() or engine == "watch" and point == "apply-some":
                continue        # `watch` sends nothing that it does not wait for
            with section(f"{engine}, {point}"):
                (lost if "settle" in point else crash).test(point)
        # leaves that are filled with blocks
        for point in LOAD_POINTS:
            if point in names:
                with section(f"{engine}, {point}, load"):
                    crash.test(point, load=True)
    write_few()
    for engine in ENGINES:
        crash = Crash(plain, one, two, engine, one_step="one step")
        lost = Crash(plain, one, two, engine, proxy, one_step="one step")
        for point in ("before-one-step", "one-step-read", "before-settle", "after-decide", "after-apply"):
            if point in names and (engine == "watch" or point != "one-step-read"):
                with section(f"{engine}, one step, {point}"):
                    (lost if "settle" in point else crash).test(point)
    crash = Crash(Cluster("crash-one", primaries=1), one, two, "script", one_step="one step")
    for point in ("before-one-step", "after-decide"):
        if point in names:
            with section(f"one step of a cluster, {point}"):
                crash.test(point)
    # what is beside the clock is in the step that decides, the rest is prepared and applied
    crash = Crash(cluster, one, two, "script", one_step="one step and the rest")
    for point in ("prepare-some", "after-prepare", "after-decide", "apply-some", "after-apply"):
        if point in names:
            with section(f"one step and the rest, {point}"):
                crash.test(point)
    tap.equal(one.crashes() + two.crashes(), [], "no backend died of itself")


main(body)
