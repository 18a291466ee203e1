#!/usr/bin/python3
"""SIGSTOP of a backend at every debug point, for longer than every timeout, and then
SIGCONT: it wakes up in a world that has gone on without it.

Its lease is a second here (mosql_fdw.debug_lease), mosql_fdw.intent_timeout as by
default, and it sleeps for three.  Its server has no room for a keeper, so that the lease runs
out as if the whole server had been stopped (with a keeper the locks of a process that is there
are there, as PostgreSQL's own).  Meanwhile clients of the other server

  * see all of its transaction or nothing, and always the same sums;
  * go on with the very rows it had its hands on, when the lease is over and a waiter has
    looked for such, though it still sleeps;
  * do the same transaction themselves, if it was not decided.

When it wakes up, what its COMMIT answers must be what is there; a reader sees
its snapshot or is told that it is too old; and nothing is left over.
    t/pause.py [POINT|several|slow]...
"""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *
from victim import *

LEASE, SLEEP = 1.0, 3.0
WITHIN = 20.0                   # the lease and three looks are 4; it sleeps until all others are through, or LONG_WAIT is over
AT_A_TIME = 4
DECIDED = {"after-decide", "apply-some", "after-apply"}
UNDECIDED = {"before-prepare", "prepare-some", "after-prepare", *AT_ONCE.values()}


class Sleeper:
    """A backend of server one that stops at a point and is then stopped for good."""

    def __init__(self, server, db, point, level, **settings):
        self.server, self.db, self.point = server, db, point
        settings["mosql_fdw.debug_lease"] = int(LEASE * 1000)
        self.held, self.conn = server.connect(db), server.connect(db, level=level, **settings)
        query(self.held, "SET statement_timeout = '60s'")
        query(self.conn, "SELECT count(*) FROM acct")       # it has a session and caches
        query(self.conn, "SET mosql_fdw.debug_points = on")
        self.pid = self.conn.info.backend_pid
        self.answer = []

    def run(self, work):
        """Start its work; true if it sleeps at the point now."""
        query(self.held, "SELECT mosql_fdw_debug_lock(%s)", (self.point,))
        there = self.begin(work) and self.arrives(self.held)
        if there:
            os.kill(self.pid, signal.SIGSTOP)
        query(self.held, "SELECT mosql_fdw_debug_unlock(%s)", (self.point,))
        return there

    def begin(self, work):
        def body():
            try:
                work(self.conn)
                self.answer.append(None)
            except psycopg2.Error as e:
                self.answer.append(state_of(self.conn, e))
        self.thread = threading.Thread(target=body, daemon=True)
        self.thread.start()
        return True

    def arrives(self, conn):
        """Does it wait for the point's lock?"""
        wait_until(lambda: self.answer or value(
            conn, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = %s", (self.pid,)))
        return not self.answer

    def wake(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def outcome(self):
        """SQLSTATE of its work, None if all went well."""
        self.thread.join(60)
        return self.answer[0] if self.answer else "it does not end"

    def close(self):
        self.wake()
        self.held.close()
        self.conn.close()


class Pause:
    def __init__(self, cluster, one, two, engine, point):
        self.one, self.two, self.engine, self.point = one, two, engine, point
        self.db = f"pause_{engine}_{point.replace('-', '_')}"
        self.level = SERIALIZABLE if engine == "script" and point not in AT_ONCE.values() else READ_COMMITTED
        self.name = f"{engine}, {point}"
        for s in (one, two):
            make_database(s, self.db, cluster.nodes, {"atomic": engine, "command_timeout": "4000"}, DDL)
        with contextlib.closing(two.connect(self.db)) as c:
            fill(c)

    def work(self, number):
        def run(conn):
            query(conn, "BEGIN ISOLATION LEVEL " + self.level)
            transaction(conn, f"{self.point}.{number}", number)
            if "inner" in self.point:
                query(conn, f"INSERT INTO big SELECT {number}, g FROM generate_series(1, {BIG_ROWS}) g")
            query(conn, "COMMIT")
        return run

    @staticmethod
    def read(conn):
        query(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ")
        total = value(conn, "SELECT sum(bal) FROM acct")
        query(conn, "SELECT sum(n) FROM cnt; SELECT count(*) FROM swap; COMMIT")
        if total != ACCOUNTS * BALANCE:
            raise AssertionError(f"a reader that slept saw {total}")

    def sleepers(self):
        """Who sleeps where: some points are only reached by those who meet others."""
        sleep = lambda point: Sleeper(self.one, self.db, point, self.level)
        if self.point.startswith(("help", "blocker", "read")):
            first = sleep("after-prepare" if self.point.startswith(("blocker", "read")) else "after-decide")
            first.run(self.work(1))
            second = sleep(self.point)
            # whoever meets somebody who is decided helps; so the same rows, other keys
            there = second.run(self.read if self.point.startswith("read") else self.work(2))
            return [first, second], there
        only = sleep(self.point)
        return [only], only.run(self.work(1))

    def test(self):
        conn = self.two.connect(self.db)
        proceed = Proceed(self.two, self.db)
        sleepers, there = self.sleepers()
        try:
            tap.ok(there, f"{self.name}: a backend stops there", [s.answer for s in sleepers])
            if there:
                self.check(conn, proceed, sleepers)
        finally:
            for s in sleepers:
                s.close()
            proceed.close()
            conn.close()

    def check(self, conn, proceed, sleepers):
        name, tag, since = self.name, f"{self.point}.1", time.monotonic()
        first = seen(conn, tag)
        (slowest, who), stuck, again = proceed.run(since, tag + ".again", 1)
        tap.ok(not stuck and slowest <= WITHIN, f"{name}: the others proceed within {WITHIN:g} s",
               f"slowest {slowest:.2f} s: {who}; stuck: {stuck}")
        decided = "all" if again == "23505" else ""
        wanted = {"all"} if self.point in DECIDED or self.point == "help-step" else \
            {""} if self.point in UNDECIDED or self.point.startswith(("blocker", "read")) else {"", "all"}
        tap.ok(first == seen(conn, tag) == decided and first in wanted, f"{name}: all or nothing, from the start",
               f"at first {first!r}, then {seen(conn, tag)!r}, the same again {again}")

        time.sleep(max(0, SLEEP - (time.monotonic() - since)))
        outcomes, there = [], []
        for number, s in enumerate(sleepers, 1):
            s.wake()
            outcomes.append(s.outcome())
            # before the next one wakes, who may have waited for these rows, and go on with them
            there.append(seen(conn, f"{self.point}.{number}"))
        tap.note(f"{name}: others after {slowest:.2f} s; the sleepers' answers {outcomes}")
        last = there[0]
        if outcomes[0] == "08007":
            tap.ok(last in ("", "all"), f"{name}: unknown, but whole", last)
        else:
            tap.ok(outcomes[0] in (None, CONFLICT) and last == ("all" if outcomes[0] is None else ""),
                   f"{name}: COMMIT said what is there", f"{outcomes[0]}, and there is {last!r}")
        if self.point.startswith("read"):
            tap.ok(outcomes[1] in (None, CONFLICT), f"{name}: the reader's snapshot is whole or too old", outcomes[1])
        elif len(sleepers) > 1:
            other = there[1]
            tap.ok(outcomes[1] == "08007" or (outcomes[1] in (None, CONFLICT) and
                   other == ("all" if outcomes[1] is None else "")),
                   f"{name}: COMMIT of the second said what is there", f"{outcomes[1]}, and there is {other!r}")

        touch(conn)
        wait_until(lambda: not leftovers(conn), pause=0.2)
        found = leftovers(conn)
        if "pieces" in self.point:
            # new nodes that nobody heard of: it gave the split up; a sweep finds them
            lost = {f for f in found if f[3].startswith("no path from the root")}
            tap.note(f"{len(lost)} nodes are lost")
            found -= lost
        tap.ok(not found, f"{name}: nothing is broken or left over", "\n".join(map(str, sorted(found)[:8])))


def several(cluster, one, two):
    """Many dead ones in one leaf cost as much as one.  Without locks: they want the same rows,
    and all are to have prepared."""
    many, intent_timeout = 6, 2.0
    optimistic = {"mosql_fdw.locking": "optimistic", "mosql_fdw.one_step": "off"}
    for engine in ENGINES:
        db, name = f"pause_{engine}_several", f"{engine}, {many} in one leaf"
        for s in (one, two):
            make_database(s, db, cluster.nodes, {"atomic": engine, "command_timeout": "4000"}, DDL)
        with contextlib.closing(two.connect(db, **optimistic)) as conn:
            fill(conn)
            sleepers = [Sleeper(one, db, "after-prepare", READ_COMMITTED, **optimistic) for _ in range(many)]
            try:
                # (a statement that reads the rows later would meet all sleepers at once)
                query(conn, f"SET mosql_fdw.intent_timeout = {int(intent_timeout * 1000)}; BEGIN")
                query(conn, f"UPDATE acct SET note = 'awake' WHERE id <= {many}")
                # one lock for all: a sleeper that is stopped is granted it, and keeps it
                held = sleepers[0].held
                query(held, "SELECT mosql_fdw_debug_lock('after-prepare')")
                for i, s in enumerate(sleepers):
                    s.begin(lambda c, i=i: query(c, f"UPDATE acct SET note = 'asleep' WHERE id = {i + 1}"))
                tap.ok(all(s.arrives(held) for s in sleepers), f"{name}: they stop")
                for s in sleepers:
                    os.kill(s.pid, signal.SIGSTOP)
                query(held, "SELECT mosql_fdw_debug_unlock('after-prepare')")
                began = time.monotonic()
                tap.equal(attempt(conn, "COMMIT")[1], None,
                          f"{name}: a writer of all their rows goes on")
                took = time.monotonic() - began
                tap.ok(took < intent_timeout * many / 2, f"{name}: and waits once, not for each of them",
                       f"{took:.2f} s")
                tap.note(f"{name}: {took:.2f} s")
            finally:
                for s in sleepers:
                    s.wake()
                tap.equal([s.outcome() for s in sleepers], [CONFLICT] * many, f"{name}: they lost")
                for s in sleepers:
                    s.close()
            tap.equal(value(conn, "SELECT count(*) FROM acct WHERE note = 'awake'"), many, f"{name}: the writer won")


def large(cluster, one, two):
    """A dead one with many rows is cleared away leaf by leaf, not row by row."""
    for engine in ENGINES:
        db, name = f"pause_{engine}_large", f"{engine}, one with {ACCOUNTS} rows"
        for s in (one, two):
            make_database(s, db, cluster.nodes, {"atomic": engine}, DDL)
        with contextlib.closing(two.connect(db)) as conn:
            fill(conn)
            sleeper = Sleeper(one, db, "after-prepare", READ_COMMITTED)
            try:
                tap.ok(sleeper.run(lambda c: query(c, "UPDATE acct SET note = 'asleep'")), f"{name}: it stops")
                helps = lambda: dict(query(conn, "SELECT name, value FROM mosql_fdw_stats()"))["helps"]
                before, began = helps(), time.monotonic()
                tap.equal(attempt(conn, "UPDATE acct SET note = 'awake'")[1], None, f"{name}: others go on")
                took, steps = time.monotonic() - began, helps() - before
                tap.ok(0 < steps < ACCOUNTS / 5, f"{name}: with a step for each leaf", f"{steps} steps")
                tap.note(f"{name}: {took:.2f} s, {steps} steps")
            finally:
                sleeper.wake()
                tap.equal(sleeper.outcome(), CONFLICT, f"{name}: it lost")
                sleeper.close()
            tap.equal(value(conn, "SELECT count(*) FROM acct WHERE note = 'awake'"), ACCOUNTS,
                      f"{name}: the writer won")


def places_intents(cluster, ns, asleep):
    """Does a server other than that one have an intent of this namespace?"""
    for port in cluster.primaries:
        for key in cluster.ask(port, "KEYS", ns + ":{*}") if port != asleep else []:
            if any(f.startswith(b"i") for f in cluster.ask(port, "HKEYS", key)):
                return True
    return False


def slow(cluster, one, two):
    """A commit that lives is not aborted by who waits for its rows, however long a server takes.
    (With the engine watch nothing is placed anywhere before all servers have answered.)"""
    asleep = 1.5            # of the server: three times intent_timeout, and far less than cluster-node-timeout
    db, name = "pause_slow", "a server that is slow"
    for s in (one, two):
        make_database(s, db, cluster.nodes, {"command_timeout": "20000", "placement": "spread"}, DDL)
    port = next(p for p in cluster.primaries if p != cluster.clock_port(db))
    optimistic = {"mosql_fdw.locking": "optimistic"}
    with contextlib.closing(one.connect(db, **optimistic)) as patient, \
            contextlib.closing(two.connect(db, **optimistic)) as other:
        fill(other)
        query(patient, "BEGIN; UPDATE acct SET note = 'patient'")
        query(other, "SELECT note FROM acct; SET statement_timeout = 200")
        retries = lambda: dict(query(patient, "SELECT name, value FROM mosql_fdw_stats()"))["prepare_retries"]
        before, answers = retries(), []
        cluster.signal(port, signal.SIGSTOP)
        try:
            awake = [i for i in range(1, ACCOUNTS, 20)
                     if attempt(other, f"SELECT note FROM acct WHERE id = {i}")[1] is None]
            query(other, "RESET statement_timeout")
            commit = threading.Thread(target=lambda: answers.append(attempt(patient, "COMMIT")[1]))
            commit.start()
            wait_until(lambda: places_intents(cluster, db, port))
            rival = threading.Thread(target=lambda: attempt(other, f"UPDATE acct SET note = 'other' WHERE id = {awake[0]}"))
            rival.start()
            time.sleep(asleep)
        finally:
            cluster.signal(port, signal.SIGCONT)
        commit.join(60)
        rival.join(60)
        tap.equal(answers, [None], f"{name}: a commit that waits for it is not refused")
        tap.equal(retries() - before, 0, f"{name}: nor aborted meanwhile")


def body():
    names = [p for p in sys.argv[1:] or debug_points() if "settle" not in p and p not in ("several", "slow")]
    cluster, plain = Cluster("pause", settings=("cluster-node-timeout 60000",)), Cluster("pause-plain", plain=True)
    one, two = Server("pause1", ["max_worker_processes=0"]), Server("pause2")
    todo = [(e, p) for p in names for e in ENGINES
            if p not in AT_ONCE.values() and not (e == "watch" and (p == "apply-some" or "inner" in p))]
    todo.reverse()

    def worker():
        while True:
            try:
                engine, point = todo.pop()
            except IndexError:
                return
            try:
                Pause(cluster, one, two, engine, point).test()
            except Exception:
                tap.ok(False, f"{engine}, {point}: runs to its end", traceback.format_exc())
    threads = [threading.Thread(target=worker) for _ in range(AT_A_TIME)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for engine, point in AT_ONCE.items():
        if point in names:
            write_few()
            Pause(plain, one, two, engine, point).test()
    if not sys.argv[1:] or "several" in sys.argv:
        several(cluster, one, two)
        large(cluster, one, two)
    if not sys.argv[1:] or "slow" in sys.argv:
        slow(cluster, one, two)
    tap.equal(one.crashes() + two.crashes(), [], "no backend died")


main(body)
