#!/usr/bin/python3
"""Row locks (mosql_fdw.locking = pessimistic), between two front-ends and both engines.

  hot     many clients lock one row, compute, and write it: none fails, no update is lost
  queue   workers take jobs with SKIP LOCKED: each job is done once
  waits   NOWAIT, lock_timeout, statement_timeout, cancel; ROLLBACK, ROLLBACK TO SAVEPOINT,
          an error, and the end of a backend let go at once
  loads   an INSERT of many rows waits for who has inserted one of them
  circle  a deadlock between two servers is found when it comes about: one victim
  mixed   optimistic transactions, increments among them, meet locks: they wait
  beside  FOR KEY SHARE is no conflict with updates; who gives up a wait leaves none
  parents a foreign key that leads to a unique index, whose values pass from row to row meanwhile
  counted a row that was only incremented, which locks nothing, is held by the child that is inserted then
  looked  a row that is incremented and then looked at is held from the look on, in which its newest version is; who
          looks each time locks with the increment, in the same round trip
  shown   who is let in is told the row, and need not look
  let_go  on one Redis locks of rows that were only locked end in the step that commits
  kept_rows  what is locked need not be read again to be changed; but if the lock was given back in between
  proved  the key of a child need not be looked up where its parent is the transaction's own insert; it is locked
  known   of all that a dead one held a waiter waits for the first
  died    what a dead commit left is cleared by NOWAIT, and by a foreign key's look
  moved   who waits for a row that a split takes to another leaf is told to look there
  quiet   who waits does not hammer Redis
  numbers mosql_fdw_advisory_xact_lock() and its kin hold on both servers
  kept    mosql_fdw_advisory_lock() and its kin hold beyond transactions, as PostgreSQL's do, and
          are let go with the backend
  lost    ... and are lost only with an error
  given_back  ... and a snapshot that was given back when a connection broke holds nothing back for as long
  tables  LOCK TABLE on one server, in each mode, excludes LOCK TABLE and statements on the other as
          it does between two sessions and a heap table; who has written before waits at COMMIT
  tables_altered  who writes beside an ALTER TABLE that has looked at all rows, or CREATE INDEX
  tables_referenced  who writes a child, or deletes a parent, beside ADD FOREIGN KEY or VALIDATE CONSTRAINT;
          and who changes a foreign key that has become another one
  tables_waiting  waits for a table end with a cancel and timeouts, also at COMMIT; a lock of a
          table that is lost is an error; DO, partitions
  twice   a failover takes back that somebody was let in, and leaves his wait, which becomes a lock once more
  often   who is refused a lock now and then needs no more memory each time
  ended   a waiter whose session was ended, or forgotten, is told so, and does not wait for ever; nor does it lock on
  late    what a session's last transaction has not applied yet takes nothing from its next one; what
          a node brought back of an earlier transaction is not waited for by the same session
  killed  a waiter that dies in the queue is in nobody's way
  rates   by hand: clients on one row, ours beside PostgreSQL's own table, and an UPDATE of
          many rows beside clients that update single ones (bench/README.md); with PLAIN=1 on one plain Redis

    t/locks.py [PART]..."""
import os
import re
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

DDL = """CREATE FOREIGN TABLE hot (id int OPTIONS (key 'true') NOT NULL, n int, s text) SERVER redis;
    CREATE FOREIGN TABLE jobs (id int OPTIONS (key 'true') NOT NULL, state text, started int) SERVER redis"""
CLIENTS = 8
JOBS = 120
SOON = 20                       # seconds: some looks, each a second, are 3; a lease lasts for 30 to 60, and waits do not end


class World:
    def __init__(self, cluster, one, two, engine, name="locks"):
        self.servers, self.db, self.cluster, self.engine = (one, two), f"{name}_{engine}", cluster, engine
        for server in self.servers:
            make_database(server, self.db, cluster.nodes, {"atomic": engine}, DDL)
        self.conn = self.connect()
        query(self.conn, "INSERT INTO hot SELECT g, 0, '' FROM generate_series(1, 20) g")

    def connect(self, which=0, locking="pessimistic", **settings):
        return self.servers[which].connect(self.db, **{"mosql_fdw.locking": locking, **settings})


def together(*functions):
    """Each in a thread; what they return, or the error's SQLSTATE."""
    results = [None] * len(functions)

    def run(i):
        try:
            results[i] = functions[i]()
        except Exception as e:
            results[i] = getattr(e, "pgcode", None) or repr(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for t in threads:
        t.start()
    return threads, results


def finish(threads, seconds=LONG_WAIT):
    for t in threads:
        t.join(seconds)
    return not any(t.is_alive() for t in threads)


def until_waits(world, n=1):
    """Until so many wait, and the clock has been told: who closes a circle from now on is the victim."""
    wait_until(lambda: value(world.conn, "SELECT count(*) FROM mosql_fdw_locks WHERE NOT granted") >= n)


def begin(conn, *statements):
    query(conn, "BEGIN")
    return [attempt(conn, sql) for sql in statements][-1]


def hot(world):
    rounds = 15
    conns = [world.connect(i % 2) for i in range(CLIENTS)]

    def work(conn):
        def loop():
            for _ in range(rounds):
                query(conn, "BEGIN")
                n = value(conn, "SELECT n FROM hot WHERE id = 1 FOR UPDATE")
                query(conn, "UPDATE hot SET n = %s, s = md5(s) WHERE id = 1", (n + 1,))
                query(conn, "COMMIT")
            return "done"
        return loop

    start = time.monotonic()
    threads, results = together(*[work(c) for c in conns])
    tap.ok(finish(threads, 600), "all come to an end")
    seconds = time.monotonic() - start
    tap.equal(results, ["done"] * CLIENTS, "nobody fails")
    tap.equal(value(world.conn, "SELECT n FROM hot WHERE id = 1"), rounds * CLIENTS, "no update is lost")
    tap.note(f"{rounds * CLIENTS / seconds:.0f} transactions per second on one row")
    for c in conns:
        c.close()


def queue(world):
    query(world.conn, f"INSERT INTO jobs SELECT g, 'new', 0 FROM generate_series(1, {JOBS}) g")
    conns = [world.connect(i % 2) for i in range(CLIENTS)]

    def work(conn):
        def loop():
            mine = []
            while True:
                query(conn, "BEGIN")
                job = query(conn, "SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
                if not job:
                    query(conn, "ROLLBACK")
                    return mine
                query(conn, "UPDATE jobs SET state = 'done', started = started + 1 WHERE id = %s", job[0])
                query(conn, "COMMIT")
                mine.append(job[0][0])
        return loop

    threads, results = together(*[work(c) for c in conns])
    tap.ok(finish(threads, 600), "all come to an end")
    tap.ok(all(isinstance(r, list) for r in results), "no worker fails", results)
    done = sorted(id for r in results if isinstance(r, list) for id in r)
    left = value(world.conn, "SELECT count(*) FROM jobs WHERE state = 'new'")
    tap.equal(len(done), len(set(done)), "no job is done twice")
    tap.equal((len(done), left), (JOBS, 0), "and all are done")
    tap.equal(query(world.conn, "SELECT DISTINCT started FROM jobs WHERE state = 'done'"), [(1,)], "and says so")
    query(world.conn, "DELETE FROM jobs")
    for c in conns:
        c.close()


def waits(world):
    holder, other = world.connect(0), world.connect(1)
    lock = "SELECT n FROM hot WHERE id = 2 FOR UPDATE"
    begin(holder, lock)
    tap.equal(attempt(other, lock + " NOWAIT")[1], "55P03", "NOWAIT")
    tap.equal(query(other, lock + " SKIP LOCKED"), [], "SKIP LOCKED")
    tap.equal(attempt(other, "SELECT n FROM hot WHERE id = 2 FOR KEY SHARE NOWAIT")[1], "55P03", "the weakest, too")
    for setting, state in ("lock_timeout", "55P03"), ("statement_timeout", "57014"):
        query(other, f"SET {setting} = '300ms'")
        start = time.monotonic()
        tap.equal(attempt(other, lock)[1], state, setting)
        tap.ok(time.monotonic() - start < 20, f"{setting}: soon")      # the holder does not let go
        query(other, f"RESET {setting}")
    threads, results = together(lambda: query(other, lock))
    until_waits(world)
    query(world.servers[1].connect(world.db), "SELECT pg_cancel_backend(%s)", (other.info.backend_pid,))
    tap.ok(finish(threads) and results == ["57014"], "cancelled", results)
    query(holder, "ROLLBACK")
    tap.equal(attempt(other, lock + " NOWAIT")[1], None, "who gave up left nothing behind, nor did ROLLBACK")

    def released(how, first, *release):
        """Who waits is told, and has it within milliseconds; who is not looks a second after he began
        to wait, some 0.9 s from here.  A machine may be that slow once, but not five times."""
        for _ in range(5):
            begin(holder, *first)
            threads, results = together(lambda: query(other, lock))
            until_waits(world)
            start = time.monotonic()
            for sql in release:
                attempt(holder, sql)
            had = finish(threads) and results == [[(0,)]]
            seconds = time.monotonic() - start
            attempt(holder, "ROLLBACK")
            if not had or seconds < .5:
                break
        tap.ok(had, f"{how}: the other has it", results)
        tap.ok(seconds < .5, f"{how}: at once", f"{seconds:.2f} s")

    released("ROLLBACK", [lock], "ROLLBACK")
    released("COMMIT", [lock], "COMMIT")
    released("COMMIT of a write", [lock, "UPDATE hot SET s = 'x' WHERE id = 2"], "COMMIT")
    released("ROLLBACK TO", ["SAVEPOINT a", lock], "ROLLBACK TO a")
    released("an error", [lock], "SELECT 1 / 0", "ROLLBACK")
    begin(holder, "SELECT n FROM hot WHERE id = 2 FOR KEY SHARE", "SAVEPOINT a", lock)
    threads, results = together(lambda: query(other, "SELECT n FROM hot WHERE id = 2 FOR SHARE"))
    until_waits(world)
    query(holder, "ROLLBACK TO a")
    tap.ok(finish(threads) and results == [[(0,)]], "ROLLBACK TO: a lock is the weaker one again", results)
    tap.equal(attempt(other, lock + " NOWAIT")[1], "55P03", "which is still there")
    query(holder, "ROLLBACK")
    begin(holder, lock)
    threads, results = together(lambda: query(other, lock))
    until_waits(world)
    start = time.monotonic()
    holder.close()
    tap.ok(finish(threads) and results == [[(0,)]], "the end of a backend: the other has it", results)
    tap.ok(time.monotonic() - start < SOON, "the end of a backend: soon")
    other.close()


def loads(world):
    """An INSERT of many rows waits for whoever has inserted one of them, and nobody for it."""
    holder, loader = world.connect(0), world.connect(1)
    load = "INSERT INTO jobs SELECT g, 'load', 0 FROM generate_series(1, 2500) g"
    for end, outcome in ("COMMIT", "23505"), ("ROLLBACK", []):
        begin(holder, "INSERT INTO jobs VALUES (1700, 'one', 0)")
        threads, results = together(lambda: attempt(loader, load)[1] or [])
        time.sleep(.5)
        tap.equal(results, [None], f"{end}: a load waits for a key")
        query(holder, end)
        tap.ok(finish(threads), f"{end}: it goes on", results)
        tap.equal(results, [outcome], f"{end}: and ends so")
        tap.equal(value(world.conn, "SELECT count(*) FROM jobs"), 1 if end == "COMMIT" else 2500, f"{end}: rows")
        query(world.conn, "DELETE FROM jobs")
    before = dict(query(loader, "SELECT * FROM mosql_fdw_stats()"))["locks"]
    begin(loader, load.replace("(1, 2500)", "(10001, 12500)"))
    tap.equal(dict(query(loader, "SELECT * FROM mosql_fdw_stats()"))["locks"], before, "a load locks nothing")
    tap.equal(attempt(holder, "INSERT INTO jobs VALUES (11700, 'one', 0)")[1], None, "who inserts one of its keys is first")
    tap.ok(attempt(loader, "COMMIT")[1] in ("40001", "23505"), "and the load fails")
    query(world.conn, "DELETE FROM jobs")
    for c in holder, loader:
        c.close()


def told(world, error, conns, rows):
    """The DETAIL of a deadlock: of each who waits where, on which server, and for whom."""
    names = dict(query(world.conn, "SELECT pid, server FROM mosql_fdw_sessions('redis')"))
    who = [f"{c.info.backend_pid} on server {names[c.info.backend_pid]}" for c in conns]
    detail = (error.diag.message_detail or "") if error is not None else ""
    lines = [re.escape(f"Process {who[i]} waits for ") + row + re.escape(f"; blocked by process {who[1 - i]}.")
             for i, row in enumerate(rows)]
    tap.ok(len(detail.splitlines()) == len(rows) and all(re.search(f"^{line}$", detail, re.M) for line in lines),
           "the DETAIL tells processes, servers and rows", f"{detail}\n{lines}")


def circle(world):
    one, two = world.connect(0), world.connect(1)
    for conn, row in (one, 3), (two, 4):
        begin(conn, f"SELECT n FROM hot WHERE id = {row} FOR UPDATE")
    threads, results = together(lambda: query(one, "SELECT n FROM hot WHERE id = 4 FOR UPDATE"))
    until_waits(world)
    start = time.monotonic()
    try:
        query(two, "SELECT n FROM hot WHERE id = 3 FOR UPDATE")
        state, error = None, None
    except Exception as e:
        state, error = e.pgcode, e
    tap.equal(state, "40P01", "who closes the circle is the victim")
    tap.ok(time.monotonic() - start < 5, "at once")     # waits are told anew after ten looks
    told(world, error, (two, one), tuple(re.escape(f"row (id)=({i}) of table public.hot") for i in (3, 4)))
    query(two, "ROLLBACK")
    tap.ok(finish(threads) and results == [[(0,)]], "the other goes on", results)
    query(one, "ROLLBACK")

    # a table of this server that somebody wants for himself: its keys are not waited for
    third = world.connect(1)
    for conn, row in (one, 3), (two, 4):
        begin(conn, f"SELECT n FROM hot WHERE id = {row} FOR UPDATE")
    threads, results = together(lambda: query(one, "SELECT n FROM hot WHERE id = 4 FOR UPDATE"),
                                lambda: begin(third, "ALTER FOREIGN TABLE hot OPTIONS (ADD batch_size '500')", "ROLLBACK"))
    until_waits(world)
    time.sleep(.5)
    waits = threads[1].is_alive()       # until the victim's locks are gone, at the latest
    start = time.monotonic()
    try:
        query(two, "SELECT n FROM hot WHERE id = 3 FOR UPDATE")
        error = None
    except Exception as e:
        error = e
    tap.ok(waits and time.monotonic() - start < 5, "told at once, whoever waits for the table")
    # newer PostgreSQLs let go first who holds a lock on the table already
    told(world, error, (two, one), tuple(rf"(?:a row|row \(id\)=\({i}\)) of table public\.hot" for i in (3, 4)))
    query(two, "ROLLBACK")
    tap.ok(finish(threads) and results[0] == [(0,)], "the others go on", results)
    query(one, "ROLLBACK")
    third.close()

    # at COMMIT, where no names are looked for
    query(two, "SET mosql_fdw.locking = optimistic")
    begin(one, "SELECT n FROM hot WHERE id = 5 FOR UPDATE")
    begin(two, "SELECT mosql_fdw_advisory_xact_lock('redis', 32)", "UPDATE hot SET s = 'circle' WHERE id = 5")
    threads, results = together(lambda: query(one, "SELECT mosql_fdw_advisory_xact_lock('redis', 32)"))
    until_waits(world)
    try:
        query(two, "COMMIT")
        error = None
    except Exception as e:
        error = e
    tap.equal(error and error.pgcode, "40P01", "a circle that a COMMIT closes")
    told(world, error, (two, one), (r"a row of tree \d+", r"a row of tree \d+"))
    tap.ok(finish(threads) and results == [[("",)]], "the other goes on", results)
    query(one, "ROLLBACK")
    for c in one, two:
        c.close()


def mixed(world):
    holder, other = world.connect(0), world.connect(1, "optimistic")
    for what, sql, expected in (("an increment", "UPDATE hot SET n = n + 1 WHERE id = 5", None),
                                ("an update", "UPDATE hot SET s = md5(s) WHERE id = 5", None),
                                ("a deletion", "DELETE FROM hot WHERE id = 6", None)):
        row = sql.split()[-1]
        begin(holder, f"SELECT n FROM hot WHERE id = {row} FOR UPDATE")
        threads, results = together(lambda: query(other, sql))
        time.sleep(.4)
        tap.ok(threads[0].is_alive(), f"{what} waits for a lock")
        query(holder, "COMMIT")
        tap.ok(finish(threads) and results == [expected], f"{what}: done when it is let go", results)
    begin(holder, "SELECT n FROM hot WHERE id = 5 FOR UPDATE", "UPDATE hot SET n = 100 WHERE id = 5")
    query(other, "BEGIN ISOLATION LEVEL SERIALIZABLE")
    query(other, "SELECT sum(n) FROM hot")
    query(other, "UPDATE hot SET n = 7 WHERE id = 7")
    tap.equal(attempt(other, "COMMIT")[1], None, "who has only read what is locked need not wait")
    query(holder, "COMMIT")
    tap.equal(query(world.conn, "SELECT n FROM hot WHERE id IN (5, 7) ORDER BY id"), [(100,), (7,)], "both are there")
    begin(holder, "SELECT n FROM hot WHERE id = 8 FOR KEY SHARE")
    tap.equal(attempt(other, "UPDATE hot SET s = 'beside' WHERE id = 8")[1], None, "beside KEY SHARE an update goes on")
    query(holder, "ROLLBACK")
    for c in holder, other:
        c.close()
    tap.equal(findings(world.conn, "hot"), ([], []), "nothing is left in the tree")


def beside(world):
    """FOR KEY SHARE leaves the row to those who do not take it away, and pins no version."""
    holder, other = world.connect(0), world.connect(1, "optimistic")
    lock = "SELECT s FROM hot WHERE id = 10 FOR KEY SHARE"
    for what, sql in ("an update", "UPDATE hot SET s = s || 'u' WHERE id = 10"), ("an increment", "UPDATE hot SET n = n + 1 WHERE id = 10"):
        begin(holder, lock)
        query(other, sql)
        tap.equal(attempt(holder, "COMMIT")[1], None, f"{what} beside FOR KEY SHARE: both commit")
        begin(holder, lock)
        query(other, sql)
        query(holder, "SELECT s FROM hot WHERE id = 10 FOR UPDATE")
        tap.equal(attempt(holder, "COMMIT")[1], None, f"{what} before the lock is made stronger")
        begin(holder, lock)
        query(other, sql)
        query(holder, "UPDATE hot SET s = s || 'h' WHERE id = 10")
        tap.equal(attempt(holder, "COMMIT")[1], None, f"{what} before an own one")
    tap.equal(query(world.conn, "SELECT n, s FROM hot WHERE id = 10"), [(3, "uuuhh")], "and nothing is lost")
    strong = "SET LOCAL mosql_fdw.locking = optimistic", "SELECT s FROM hot WHERE id = 10 FOR UPDATE"
    begin(holder, lock, *strong)
    query(other, "UPDATE hot SET s = 'changed' WHERE id = 10")
    tap.equal(attempt(holder, "COMMIT")[1], "40001", "FOR UPDATE without locks pins the version, also beside a KEY SHARE lock")
    begin(holder, lock, "SAVEPOINT a", *strong, "ROLLBACK TO a")
    query(other, "UPDATE hot SET s = 'changed again' WHERE id = 10")
    tap.equal(attempt(holder, "COMMIT")[1], None, "not if it was rolled back to a savepoint")
    begin(holder, lock)
    query(other, "UPDATE hot SET s = 'beside' WHERE id = 10")
    tap.equal(attempt(holder, "INSERT INTO hot VALUES (1, 0, '')")[1], "23505", "a duplicate is not blamed on the row beside")
    query(holder, "ROLLBACK")
    for level, sql, expected in (("READ COMMITTED", "DELETE FROM hot WHERE id = 17", "40001"),
                                 ("REPEATABLE READ", "UPDATE hot SET s = 'beside' WHERE id = 18", None),
                                 ("REPEATABLE READ", "DELETE FROM hot WHERE id = 18", "40001")):
        query(holder, f"BEGIN ISOLATION LEVEL {level}")
        query(holder, f"SELECT s FROM hot WHERE id = {sql.split()[-1]} FOR KEY SHARE")
        for port, key, field, _ in claims_of(world) if expected else ():
            world.cluster.ask(port, "HDEL", key, field)
        query(other, sql)
        tap.equal(attempt(holder, "COMMIT")[1], expected,
                  f"{level}: {sql.split()[0]} beside FOR KEY SHARE{', which Redis has lost,' if expected else ''} {'is noticed' if expected else 'goes on'}")
    begin(holder, "SELECT s FROM hot WHERE id = 19 FOR KEY SHARE")
    for port, key, field, _ in claims_of(world):
        world.cluster.ask(port, "HDEL", key, field)
    query(other, "DELETE FROM hot WHERE id = 19")
    query(holder, "INSERT INTO hot VALUES (19, 0, 'anew')")
    tap.equal(attempt(holder, "COMMIT")[1], "40001", "nor may the holder insert the row again which another one has deleted")
    query(other, "INSERT INTO hot VALUES (19, 0, '')")
    begin(holder, "SELECT s FROM hot WHERE id = 11 FOR UPDATE")
    query(other, "SET mosql_fdw.locking = pessimistic; SET lock_timeout = '30ms'")
    for _ in range(5):
        tap.equal(attempt(other, "SELECT s FROM hot WHERE id = 11 FOR UPDATE")[1], "55P03", "who gives up")
    waits = f"{world.db}:{{{world.db}.clock}}:w"
    tap.equal(world.cluster.on(waits, "HLEN", waits), 0, "leaves no wait at the clock")
    for c in holder, other:
        c.close()


TRIES = 10                      # looks for a parent's row, LOOK_TRIES


def parents(world):
    query(world.conn, "CREATE FOREIGN TABLE parent (id int OPTIONS (key 'true') NOT NULL, k int) SERVER redis")
    query(world.conn, "ALTER TABLE parent ADD UNIQUE (k)")
    query(world.conn, "CREATE FOREIGN TABLE child (id int OPTIONS (key 'true') NOT NULL, k int) SERVER redis")
    query(world.conn, "ALTER TABLE child ADD FOREIGN KEY (k) REFERENCES parent (k)")

    def wait_for_waiters(n):
        wait_until(lambda: value(world.conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == n)

    for rounds, wanted in (0, None), (1, None), (TRIES, "40001"):
        query(world.conn, "TRUNCATE parent, child; INSERT INTO parent SELECT i, CASE i WHEN 1 THEN 7 END FROM generate_series(1, 12) i")
        child, other = world.connect(**{"mosql_fdw.debug_points": "on"}), world.connect(lock_timeout="2s")
        holds, next_ = world.connect(), world.connect()
        query(holds, "SELECT mosql_fdw_debug_lock('lock-parent-entries')")
        query(child, "BEGIN")
        threads, results = together(lambda: query(child, "INSERT INTO child VALUES (1, 7)"))
        for i in range(1, rounds + 1):
            wait_for_waiters(1)
            query(other, f"BEGIN; UPDATE parent SET k = NULL WHERE id = {i}; UPDATE parent SET k = 7 WHERE id = {i + 1}; COMMIT")
            if i < TRIES:       # behind the child, before it comes again
                locks, _ = together(lambda: query(next_, "SELECT mosql_fdw_debug_lock('lock-parent-entries')"))
                wait_for_waiters(2)
            query(holds, "SELECT mosql_fdw_debug_unlock('lock-parent-entries')")
            finish(locks)
            holds, next_ = next_, holds
        query(holds, "SELECT pg_advisory_unlock_all()")
        tap.equal((finish(threads), results), (True, [wanted]), f"a value that passes on {rounds} times while it is looked for")
        if rounds == 1:
            tap.equal(attempt(other, "DELETE FROM parent WHERE id = 1")[1], None, "the row that has it no more is not locked")
            tap.equal(attempt(other, "DELETE FROM parent WHERE id = 2")[1], "55P03", "the one that has it is")
        for c in child, other, holds, next_:
            c.close()
    query(world.conn, "DROP FOREIGN TABLE child, parent")


def along(world):
    """The rows that a new one leads to are locked in the round trip that looks up its key, if all can be had at once."""
    query(world.conn, "CREATE FOREIGN TABLE parent (id int PRIMARY KEY) SERVER redis")
    query(world.conn, "CREATE FOREIGN TABLE other (id int PRIMARY KEY) SERVER redis")
    query(world.conn, "CREATE FOREIGN TABLE child (id int PRIMARY KEY, u int UNIQUE, p int REFERENCES parent, o int REFERENCES other) SERVER redis")
    query(world.conn, "INSERT INTO parent SELECT generate_series(1, 9); INSERT INTO other SELECT generate_series(1, 9)")
    one, two, three = (world.connect() for _ in range(3))

    def free(name, *tables):
        for table, id_ in ("parent", 2), ("other", 3):
            if table in tables:
                tap.equal(attempt(three, f"SELECT FROM {table} WHERE id = {id_} FOR UPDATE NOWAIT")[1], None, f"{name}: {table} is not held")

    def inserts(row, name, *tables, end="ROLLBACK", error=None):
        threads, results = together(lambda: query(two, f"INSERT INTO child VALUES {row}"))
        until_waits(world)
        free(name, *tables)
        query(one, end)
        tap.equal((finish(threads), results), (True, [error]), f"{name}: then {error or 'it is there'}")

    query(two, "INSERT INTO child VALUES (100, 100, 2, 3)")
    query(two, "BEGIN")
    trips = round_trips(two, "INSERT INTO child VALUES (1, NULL, 2, 3)")[0]
    tap.ok(trips == 1 if world.engine == "script" else trips > 1, "a key and two parents: one round trip", trips)
    for table, id_ in ("parent", 2), ("other", 3):
        tap.equal(attempt(three, f"SELECT FROM {table} WHERE id = {id_} FOR UPDATE NOWAIT")[1], "55P03", f"{table} is held")
    query(two, "ROLLBACK")
    free("rolled back", "parent", "other")
    begin(one, "INSERT INTO child VALUES (1, NULL, 1, 1)")
    inserts("(1, NULL, 2, 3)", "who waits for the key", "parent", "other")
    begin(one, "INSERT INTO child VALUES (5, 50, 1, 1)")
    inserts("(2, 50, 2, 3)", "for a unique entry", "parent", "other")
    begin(one, "SELECT FROM parent WHERE id = 2 FOR UPDATE")
    inserts("(7, NULL, 2, 3)", "for a parent", "other")
    begin(one, "DELETE FROM parent WHERE id = 4")
    inserts("(8, NULL, 4, 3)", "for one that is deleted", "other", end="COMMIT", error="23503")
    begin(one, "DELETE FROM parent WHERE id = 5")
    inserts("(9, NULL, 5, 3)", "for one that stays", "other")
    tap.equal(attempt(two, "INSERT INTO child VALUES (10, NULL, 2, 30)")[1], "23503", "one that is not there")
    free("and the statement gone", "parent")
    tap.equal(query(world.conn, "SELECT id FROM child ORDER BY id"), [(1,), (2,), (7,), (9,), (100,)], "what is there")
    query(world.conn, "DROP FOREIGN TABLE child, parent, other")
    for c in one, two, three:
        c.close()


def counted(world):
    query(world.conn, "CREATE FOREIGN TABLE child (id int OPTIONS (key 'true') NOT NULL, hot int) SERVER redis")
    query(world.conn, "ALTER TABLE child ADD FOREIGN KEY (hot) REFERENCES hot")
    one, other = world.connect(), world.connect(lock_timeout="2s")
    begin(one, "UPDATE hot SET n = n + 1 WHERE id = 14", "SAVEPOINT a", "INSERT INTO child VALUES (1, 14)")
    tap.equal(attempt(other, "DELETE FROM hot WHERE id = 14")[1], "55P03", "who deletes it waits")
    tap.equal(attempt(other, "UPDATE hot SET n = n + 1 WHERE id = 14")[1], None, "who increments it does not")
    tap.equal(attempt(one, "COMMIT")[1], None, "and the child commits")
    begin(one, "UPDATE hot SET n = n + 1 WHERE id = 14", "SELECT n FROM hot WHERE id = 14", "INSERT INTO child VALUES (3, 14)")
    tap.equal(attempt(other, "DELETE FROM hot WHERE id = 14")[1], "55P03", "also if it was read in between")
    tap.equal(attempt(one, "COMMIT")[1], None, "and that child commits")
    begin(one, "UPDATE hot SET n = n + 1 WHERE id = 15", "COMMIT")      # it has not looked: so the next one locks nothing
    begin(one, "UPDATE hot SET n = n + 1 WHERE id = 15", "SAVEPOINT a", "INSERT INTO child VALUES (2, 15)", "ROLLBACK TO a")
    tap.equal(attempt(other, "SELECT FROM hot WHERE id = 15 FOR UPDATE NOWAIT")[1], None, "ROLLBACK TO lets go of it")
    query(one, "COMMIT")
    query(world.conn, "DROP FOREIGN TABLE child")
    for c in one, other:
        c.close()


def round_trips(conn, *statements):
    before = dict(query(conn, "SELECT * FROM mosql_fdw_stats()"))["round_trips"]
    rows = [query(conn, sql) for sql in statements][-1]
    return dict(query(conn, "SELECT * FROM mosql_fdw_stats()"))["round_trips"] - before, rows


# Two scans, so at a snapshot: the clock says whether it knows the session.
LEARN = "SELECT count(*) FROM hot a JOIN hot b USING (id)"


def looked(world):
    one, other = world.connect(), world.connect(1, lock_timeout="2s")
    add, look = "UPDATE hot SET n = n + 1 WHERE id = 101", "SELECT n FROM hot WHERE id = 101"
    step = 1 if world.engine == "script" else 2
    query(one, "INSERT INTO hot SELECT g, 0, '' FROM generate_series(101, 104) g")
    query(one, "SELECT count(*) FROM hot")
    begin(one, add)
    query(other, add)
    tap.equal(round_trips(one, look), (step, [(2,)]), "the first look locks, and shows what others have added meanwhile")
    tap.equal(attempt(other, add)[1], "55P03", "who adds now waits")
    tap.equal(attempt(one, "COMMIT")[1], None, "nothing fails")
    query(one, "BEGIN")
    tap.equal(round_trips(one, add)[0], step, "then the increment locks, in the round trip that it takes anyway")
    tap.equal(round_trips(one, look), (0, [(3,)]), "and the look takes none")
    tap.equal(attempt(other, add)[1], "55P03", "who adds waits")
    query(one, "COMMIT")
    begin(one, add, "COMMIT")
    begin(one, add)
    tap.equal(attempt(other, add)[1], None, "who has not looked in his last transaction is in nobody's way")
    query(one, "DELETE FROM hot WHERE id = 101 RETURNING n")
    query(one, "ROLLBACK")
    begin(one, *(f"UPDATE hot SET n = n + 1 WHERE id = {id}" for id in (101, 102, 103)))
    scan = "SELECT id, n FROM hot WHERE id > 100 ORDER BY id DESC"
    query(one, "SELECT count(*) FROM hot WHERE id < 10")    # so that the clock is not asked once more after a second
    first, rows = round_trips(one, scan)
    tap.equal(rows, [(104, 0), (103, 1), (102, 1), (101, 6)], "what a scan shows")
    tap.ok(first - round_trips(one, scan)[0] < 3 * step, "is locked together")
    tap.equal(attempt(other, "SELECT FROM hot WHERE id = 103 FOR UPDATE NOWAIT")[1], "55P03", "and held")
    query(one, "COMMIT")
    begin(one, add, "COMMIT")
    begin(one, add)
    query(other, "DELETE FROM hot WHERE id = 101")
    tap.equal(attempt(one, look)[1], "40001", "a row that was deleted since it was incremented is noticed at the look")
    query(one, "ROLLBACK")
    query(one, "DELETE FROM hot WHERE id > 100")
    for c in one, other:
        c.close()


def point_reads(conn):
    return dict(query(conn, "SELECT * FROM mosql_fdw_stats()"))["point_reads"]


def handed_over(world, one, other, row):
    """What a waiter gets, and how many rows he reads by their keys for it."""
    begin(one, f"UPDATE hot SET s = {row} WHERE id = 9")
    before = point_reads(other)
    threads, results = together(lambda: query(other, "UPDATE hot SET n = n + length(s), s = 'two' WHERE id = 9 RETURNING n"))
    until_waits(world)
    query(one, "COMMIT")
    finish(threads)
    return results, point_reads(other) - before


def shown(world):
    one, other = world.connect(), world.connect(1)
    query(one, "UPDATE hot SET n = 0 WHERE id = 9")
    reads, sums = [], []
    for _ in range(3):          # who waits for longer than a second looks for himself
        results, n = handed_over(world, one, other, "'one'")
        reads.append(n)
        sums += results
    tap.equal(sums, [[(3 * i,)] for i in (1, 2, 3)], "who is let in has the newest row")
    tap.ok(min(reads) == 0 if world.engine == "script" else min(reads) > 0, "script: without reading it", reads)
    tap.equal(handed_over(world, one, other, "repeat('x', 5000)")[0], [[(5009,)]], "a long one he reads")
    for c in one, other:
        c.close()


def viewed(world):
    for table in "altered", "viewed":
        query(world.conn, f"CREATE FOREIGN TABLE {table} (id int PRIMARY KEY, n int) SERVER redis")
    query(world.conn, "INSERT INTO viewed VALUES (1, 0)")
    one, other = world.connect(), world.connect()
    waiter = world.connect()
    begin(one, "SELECT n FROM viewed WHERE id = 1 FOR UPDATE")
    threads, _ = together(lambda: attempt(waiter, "UPDATE viewed SET n = 1 WHERE id = 1"))
    until_waits(world)
    begin(other, "ALTER TABLE altered ADD COLUMN v int")
    query(world.conn, "SET lock_timeout = '2s'")
    tap.equal(attempt(world.conn, "SELECT table_name, key FROM mosql_fdw_locks WHERE granted"),
              ([("public.viewed", "(id)=(1)")], None), "the view waits for no table that it does not show")
    query(world.conn, "RESET lock_timeout")
    for conn in other, one:
        query(conn, "ROLLBACK")
    finish(threads)
    for conn in other, one, waiter:
        conn.close()
    query(world.conn, "DROP FOREIGN TABLE altered, viewed")


def let_go(world):
    plain = World(Cluster("locks_plain", plain=True), *world.servers, world.engine, name="locks_plain")
    query(plain.conn, "CREATE FOREIGN TABLE child (id int OPTIONS (key 'true') NOT NULL, hot int) SERVER redis")
    query(plain.conn, "ALTER TABLE child ADD FOREIGN KEY (hot) REFERENCES hot")
    one, other = plain.connect(), plain.connect(1)
    query(one, "SELECT count(*) FROM hot, child")
    begin(one, "SELECT n FROM hot WHERE id = 1 FOR UPDATE", "INSERT INTO child VALUES (1, 2)", "UPDATE hot SET n = 1 WHERE id = 3")
    commit = round_trips(one, "COMMIT")[0]
    tap.ok(commit == 1 if world.engine == "script" else commit > 1, "script: COMMIT is one round trip", commit)
    tap.equal(attempt(other, "SELECT FROM hot WHERE id < 4 FOR UPDATE NOWAIT")[1], None, "and nothing is locked any more")
    begin(one, "SELECT n FROM hot WHERE id = 1 FOR UPDATE")
    threads, results = together(lambda: query(other, "UPDATE hot SET n = n + 1 WHERE id = 1 RETURNING n"))
    until_waits(plain)
    query(one, "COMMIT")
    tap.ok(finish(threads, SOON) and results == [[(1,)]], "who waits for a row that was only locked is let in", results)
    query(one, "SELECT mosql_fdw_advisory_lock('redis', 1)")
    begin(one, "SELECT n FROM hot WHERE id = 1 FOR UPDATE", "COMMIT")
    tap.equal(attempt(other, "SELECT FROM hot WHERE id = 1 FOR UPDATE NOWAIT")[1], None, "also beside a lock that outlives the transaction")
    tap.equal(value(other, "SELECT mosql_fdw_try_advisory_lock('redis', 1)"), False, "which stays")
    tap.equal(findings(plain.conn, "hot"), ([], []), "nothing is left in the tree")
    for c in one, other, plain.conn:
        c.close()
    plain.cluster.stop()


def kept_rows(world):
    one, other = world.connect(), world.connect()

    def trips(sql):
        return round_trips(one, sql)[0]

    begin(one, "SELECT n FROM hot WHERE id = 16 FOR UPDATE")
    tap.equal(trips("UPDATE hot SET s = s || 'a', n = n + 1 WHERE id = 16"), 0, "UPDATE after FOR UPDATE: no round trip")
    query(one, "UPDATE hot SET s = s || 'b', n = n + 1 WHERE id = 16")
    query(one, "COMMIT")
    begin(one, "SAVEPOINT a", "SELECT n FROM hot WHERE id = 16 FOR UPDATE", "ROLLBACK TO a")
    query(other, "UPDATE hot SET s = s || 'c' WHERE id = 16")
    query(one, "UPDATE hot SET s = s || 'd', n = n + 1 WHERE id = 16")
    query(one, "COMMIT")
    begin(one, "SELECT n FROM hot WHERE id = 16 FOR KEY SHARE", "SAVEPOINT a", "SELECT n FROM hot WHERE id = 16 FOR UPDATE", "ROLLBACK TO a")
    query(other, "UPDATE hot SET s = s || 'e' WHERE id = 16")
    query(one, "UPDATE hot SET s = s || 'f', n = n + 1 WHERE id = 16")
    query(one, "COMMIT")
    begin(one, "SELECT n FROM hot WHERE id = 16 FOR SHARE", "SAVEPOINT a", "UPDATE hot SET s = s || 'no', n = n + 7 WHERE id = 16", "ROLLBACK TO a",
          "UPDATE hot SET s = s || 'g', n = n + 1 WHERE id = 16", "COMMIT")
    tap.equal(query(world.conn, "SELECT s, n FROM hot WHERE id = 16"), [("abcdefg", 5)], "nothing is lost, and nothing is there that was taken back")
    query(one, "SELECT n FROM hot FOR UPDATE")      # waits for sessions that were closed in a transaction
    for sql in ("SELECT n FROM hot ORDER BY id LIMIT 12 FOR UPDATE", "DECLARE c CURSOR FOR SELECT n FROM hot ORDER BY id DESC FOR UPDATE; FETCH 12 FROM c"):
        begin(one, "SELECT count(*) FROM hot")
        n = trips(sql)
        tap.ok(n <= 5, f"rows are locked together: {sql}", n)
        tap.equal(len(query(other, "SELECT id FROM hot ORDER BY id FOR UPDATE SKIP LOCKED")), value(one, "SELECT count(*) - 12 FROM hot"), "as many as are wanted")
        query(one, "ROLLBACK")
    for c in one, other:
        c.close()


def proved(world):
    query(world.conn, "CREATE FOREIGN TABLE ord (id int OPTIONS (key 'true') NOT NULL) SERVER redis")
    query(world.conn, """CREATE FOREIGN TABLE line (ord int OPTIONS (key 'true') NOT NULL, n int OPTIONS (key 'true') NOT NULL, s text)
        SERVER redis""")
    query(world.conn, "ALTER TABLE line ADD FOREIGN KEY (ord) REFERENCES ord")
    one, other = world.connect(), world.connect(lock_timeout="2s")

    def trips(sql):
        before = dict(query(one, "SELECT * FROM mosql_fdw_stats()"))["round_trips"]
        query(one, sql)
        return dict(query(one, "SELECT * FROM mosql_fdw_stats()"))["round_trips"] - before

    def said(sql):
        return attempt(other, sql)[1]

    begin(one, "INSERT INTO ord VALUES (1)", "INSERT INTO line VALUES (1, 1)", "COMMIT")     # leaves are known now
    begin(one, "INSERT INTO ord VALUES (2)")
    n = trips("INSERT INTO line VALUES (2, 1), (2, 2)")
    tap.ok(n == 0 if world.engine == "script" else n > 0, "a child of an own parent costs no round trip", n)
    tap.equal(attempt(one, "SAVEPOINT a; INSERT INTO line VALUES (2, 1)")[1], "23505", "an own child is a duplicate")
    query(one, "ROLLBACK TO a; INSERT INTO line VALUES (2, 3); ROLLBACK TO a; SELECT FROM line WHERE ord = 1 AND n = 1")
    tap.equal(said("INSERT INTO line VALUES (2, 1)"), "55P03", "who inserts that child waits")
    tap.equal(attempt(one, "COMMIT")[1], None, "it commits")
    tap.equal([said("INSERT INTO line VALUES (2, 1)"), said("INSERT INTO line VALUES (2, 3)")], ["23505", None], "it is there, and nothing else is locked")

    begin(one, "SAVEPOINT a", "INSERT INTO ord VALUES (3)", "INSERT INTO line VALUES (3, 1)", "ROLLBACK TO a")
    tap.equal([said("INSERT INTO ord VALUES (3)"), said("INSERT INTO line VALUES (3, 1)")], [None, None], "ROLLBACK TO lets go of both")
    tap.equal(attempt(one, "INSERT INTO line VALUES (3, 1)")[1], "23505", "a parent that was there proves nothing")
    query(one, "ROLLBACK")
    begin(one, "DELETE FROM line WHERE ord = 3", "DELETE FROM ord WHERE id = 3", "INSERT INTO ord VALUES (3)", "INSERT INTO line VALUES (3, 1), (3, 2)")
    tap.equal(attempt(one, "COMMIT")[1], None, "nor does one that the transaction has deleted")
    begin(one, "INSERT INTO ord VALUES (4)", "INSERT INTO line VALUES (4, 1)", "ROLLBACK")
    tap.equal([said("INSERT INTO ord VALUES (4)"), said("INSERT INTO line VALUES (4, 1)")], [None, None], "so does ROLLBACK")
    begin(one, "INSERT INTO ord VALUES (5)", "INSERT INTO line SELECT 5, g FROM generate_series(1, 2500) g")
    tap.equal(attempt(one, "COMMIT")[1], None, "a load of children")
    begin(one, "INSERT INTO ord VALUES (6)", "INSERT INTO line VALUES (6, 1), (6, 2)", "DELETE FROM line WHERE n = 1 AND ord = 6", "COMMIT")
    tap.equal(said("INSERT INTO line VALUES (6, 1)"), None, "nothing is left of one that was deleted again")

    query(other, "SET session_replication_role = replica; INSERT INTO line VALUES (7, 1); SET session_replication_role = origin")
    wrong = []
    for _ in range(2):
        begin(one, "INSERT INTO ord VALUES (7)")
        wrong.append(attempt(one, "INSERT INTO line VALUES (7, 1)")[1] or attempt(one, "COMMIT")[1])
        query(one, "ROLLBACK")
    tap.equal(wrong, ["40001", "23505"], "an orphan, which no foreign key lets in, is a conflict once")
    tap.equal(query(world.conn, "SELECT ord, count(*) FROM line GROUP BY 1 ORDER BY 1"), [(1, 1), (2, 3), (3, 2), (4, 1), (5, 2500), (6, 2), (7, 1)], "the rows are there")
    tap.equal(findings(world.conn, "line"), ([], []), "the table is in order")
    for c in one, other:
        c.close()
    query(world.conn, "DROP FOREIGN TABLE line, ord")


def died(world):
    """What a backend that died leaves of a commit keeps nobody for longer than others of its kind do."""
    def dies(point, sql):
        victim = world.connect(0, "optimistic", **{"mosql_fdw.debug_crash_at": point, "mosql_fdw.one_step": "off"})
        attempt(victim, sql)
        wait_until(lambda: victim.closed)
        world.servers[0].wait_up()

    other, child = world.connect(1), world.connect(1, "optimistic")
    dies("after-decide", "UPDATE hot SET s = 'decided' WHERE id = 12")
    tap.equal(attempt(other, "SELECT s FROM hot WHERE id = 12 FOR UPDATE NOWAIT"), ([("decided",)], None),
              "NOWAIT: who is committed is in nobody's way")
    query(child, """ALTER FOREIGN TABLE jobs ADD COLUMN parent int;
        ALTER FOREIGN TABLE jobs ADD CONSTRAINT j_p FOREIGN KEY (parent) REFERENCES hot""")
    begin(other, "SELECT s FROM hot WHERE id = 13 FOR KEY SHARE")
    dies("after-prepare", "UPDATE hot SET s = 'dead' WHERE id = 13")
    start = time.monotonic()
    tap.equal(attempt(child, "INSERT INTO jobs VALUES (1000, 'new', 0, 13)")[1], None, "a foreign key leads to a row with a lock and the intent of a dead one")
    tap.ok(time.monotonic() - start < SOON, "it waits for no longer than others", f"{time.monotonic() - start:.1f} s")
    world.conn.close()
    world.conn = world.connect()
    for c in other, child:
        c.close()


def calls(cluster, command):
    return sum(int(n) for info in cluster.everywhere("INFO", "commandstats")
               for n in re.findall(rf"cmdstat_{command}:calls=(\d+)", info.decode()))


def known(world):
    """Who is dead stays so for a waiter who knew it, though his session is on the clock's index again, with
    a record that the waiter has aborted: of all that the dead one held, only the first is waited for."""
    victim, waiter, holds = world.connect(0, **{"mosql_fdw.debug_points": "on", "mosql_fdw.one_step": "off"}), world.connect(1), world.connect(0)
    query(world.conn, "INSERT INTO jobs VALUES (1, 'new', 0)")
    query(holds, "SELECT mosql_fdw_debug_lock('after-prepare')")
    begin(victim, "UPDATE hot SET s = 'dead' WHERE id = 19", "UPDATE jobs SET state = 'dead' WHERE id = 1")
    commits, _ = together(lambda: attempt(victim, "COMMIT")[1])
    wait_until(lambda: waits_inside(holds, victim, "Lock"))
    query(waiter, "BEGIN")
    threads, results = together(lambda: query(waiter, "SELECT id FROM hot WHERE id = 19 FOR UPDATE"))
    until_waits(world)
    end_session(world, victim)
    tap.ok(finish(threads) and results == [[(19,)]], "who waits for a dead one has the row", results)
    before = calls(world.cluster, "blpop")
    query(waiter, "SELECT state FROM jobs WHERE id = 1 FOR UPDATE")
    tap.equal(calls(world.cluster, "blpop"), before, "and waits for no other row of his")
    query(waiter, "ROLLBACK")
    query(holds, "SELECT mosql_fdw_debug_unlock('after-prepare')")
    finish(commits)             # under another id, perhaps
    query(world.conn, "DELETE FROM jobs")
    for c in victim, waiter, holds:
        c.close()


def commands(cluster):
    return sum(int(line.split(":")[1]) for info in cluster.everywhere("INFO", "stats")
               for line in info.decode().splitlines() if line.startswith("total_commands_processed:"))


def moved(world):
    """Who waits for a row is told when a split takes it to another leaf, and need not find out by looking."""
    told = lambda: calls(world.cluster, "rpush")
    query(world.conn, "CREATE FOREIGN TABLE long (id int OPTIONS (key 'true') NOT NULL) SERVER redis")
    query(world.conn, "INSERT INTO long SELECT 10000 + g FROM generate_series(1, 20) g")
    one, two = world.connect(), world.connect()
    begin(one, "SELECT id FROM long WHERE id = 10020 FOR UPDATE")
    threads, results = together(lambda: value(two, "SELECT id FROM long WHERE id = 10020 FOR UPDATE"))
    wait_until(lambda: value(world.conn, "SELECT count(*) FROM mosql_fdw_locks WHERE NOT granted") == 1)
    before, splits = told(), dict(query(world.conn, "SELECT * FROM mosql_fdw_stats()"))["splits"]
    query(world.conn, "INSERT INTO long SELECT generate_series(1, 2000)")
    tap.ok(dict(query(world.conn, "SELECT * FROM mosql_fdw_stats()"))["splits"] > splits, "the leaf is split")
    wait_until(lambda: told() > before)
    tap.ok(told() > before, "who waits is told, though nobody let him in", (before, told()))
    tap.ok(threads[0].is_alive(), "and waits on")
    query(one, "COMMIT")
    tap.equal((finish(threads), results), (True, [10020]), "until it is his turn")
    for c in one, two:
        c.close()
    query(world.conn, "DROP FOREIGN TABLE long")


def quiet(world):
    holder, others = world.connect(0), [world.connect(i % 2) for i in range(4)]

    def rate_now():
        before, start = commands(world.cluster), time.monotonic()
        time.sleep(4)
        return (commands(world.cluster) - before) / (time.monotonic() - start)

    begin(holder, "SELECT n FROM hot WHERE id = 9 FOR UPDATE")
    idle = rate_now()           # the keepers, and this question
    threads, results = together(*[lambda c=c: query(c, "SELECT n FROM hot WHERE id = 9 FOR UPDATE") for c in others])
    until_waits(world, len(others))
    time.sleep(1)
    rate = (rate_now() - idle) / len(others)
    query(holder, "COMMIT")
    tap.ok(finish(threads) and results == [[(0,)]] * 4, "all get it", results)
    tap.ok(rate <= 10, "at most ten commands a second and waiter", f"{rate:.1f}")
    tap.note(f"{rate:.1f} commands per second and waiter")
    for c in [holder, *others]:
        c.close()


def often(world):
    holder, conn = world.connect(0), world.connect(1)
    begin(holder, "SELECT n FROM hot WHERE id = 9 FOR UPDATE")
    used = []
    for _ in range(5):
        error_of(conn, "SELECT n FROM hot WHERE id = 9 FOR UPDATE NOWAIT")
        used.append(value(conn, "SELECT sum(used_bytes)::int FROM pg_backend_memory_contexts WHERE name ~ 'mosql'"))
        time.sleep(1.1)         # who lives is asked again
    tap.ok(used[-1] - used[2] < 1000, "who is refused needs no more memory each time", used)
    query(holder, "ROLLBACK")

    advisory(holder, "advisory_lock", 9)
    query(conn, "SET lock_timeout = '1ms'")
    used = []
    for _ in range(3):
        codes = {attempt(conn, "SELECT mosql_fdw_advisory_lock('redis', 9)")[1] for _ in range(30)}
        used.append(value(conn, "SELECT used_bytes FROM pg_backend_memory_contexts WHERE name = 'mosql session'"))
    tap.ok(codes == {"55P03"} and used[-1] - used[1] < 1000, "nor who waits in vain for a lock beyond transactions", (codes, used))
    advisory(holder, "advisory_unlock", 9)
    holder.close()
    conn.close()


def ended(world):
    holder, waiter = world.connect(0), world.connect(1)
    begin(holder, "SELECT n FROM hot WHERE id = 9 FOR UPDATE")
    query(waiter, "BEGIN")
    threads, results = together(lambda: query(waiter, "SELECT n FROM hot WHERE id = 9 FOR UPDATE"))
    until_waits(world)
    end_session(world, waiter)
    tap.ok(finish(threads) and results == ["40001"], "who waits under an id that was ended gets 40001", results)
    query(waiter, "ROLLBACK")
    query(waiter, "BEGIN")
    threads, results = together(lambda: query(waiter, "SELECT n FROM hot WHERE id = 9 FOR UPDATE"))
    waits = wait_until(lambda: value(world.conn, "SELECT count(*) FROM mosql_fdw_locks WHERE NOT granted") == 1 or results != [None])
    tap.ok(waits and results == [None], "its next transaction has another id, and waits", results)
    clock = "%s:{%s.clock}:c" % (world.db, world.db)
    port = world.cluster.clock_port(world.db)
    world.cluster.ask(port, "RENAME", clock, clock + ".away")
    tap.ok(finish(threads) and results == ["40001"], "who waits where the clock has forgotten everybody gets 40001 as well", results)
    world.cluster.ask(port, "RENAME", clock + ".away", clock)
    query(holder, "ROLLBACK")
    holder.close()
    waiter.close()
    late = world.connect(0)
    begin(late, "SELECT n FROM hot WHERE id = 10 FOR UPDATE")
    end_session(world, late)
    query(late, LEARN)
    tap.equal(attempt(late, "SELECT n FROM hot WHERE id = 11 FOR UPDATE")[1], "40001",
              "who has locked under an id that was ended locks no more")
    query(late, "ROLLBACK")
    tap.equal(attempt(late, "SELECT n FROM hot WHERE id = 11 FOR UPDATE")[1], None, "the next transaction does")
    late.close()


def given_back(world):
    one = world.connect(0, "optimistic")
    port = world.cluster.clock_port(world.db)
    registered = lambda: world.cluster.ask(port, "ZCARD", "%s:{%s.clock}:p" % (world.db, world.db))
    advisory(one, "advisory_lock", 30)
    for end in "COMMIT", "ROLLBACK":
        wait_until(lambda: registered() == 0)
        begin(one, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM hot")
        tap.equal(registered(), 1, f"{end}: a snapshot is held")
        world.cluster.ask(port, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        query(one, end)
        query(one, "UPDATE hot SET n = n WHERE id = 1")     # a connection that idles is not looked at
        tap.ok(wait_until(lambda: registered() == 0), f"{end}: it is given back, though the connection broke before", registered())
    tap.equal(advisory(one, "advisory_unlock", 30), True, "and the lock is held all the while")
    one.close()


def claims_of(world, kinds=(b"L",)):
    """All locks in the namespace, or claims of these kinds: port, key, field and value."""
    found = []
    for port in world.cluster.primaries:
        r = world.cluster.redis(port)
        for key in r("KEYS", f"{world.db}:*"):
            if r("TYPE", key) == b"hash":
                fields = r("HGETALL", key)
                found += [(port, key, field, claim) for field, claim in zip(fields[::2], fields[1::2])
                          if field.startswith(b"i") and claim[16:17] in kinds]
        r.close()
    return found


def late(world):
    one, two = world.connect(0), world.connect(1)
    rows = [f"SELECT 1 FROM {t} WHERE id = 9 FOR NO KEY UPDATE SKIP LOCKED" for t in ("hot", "jobs")]
    query(world.conn, "SELECT mosql_fdw_refresh('jobs')")     # the other server may have altered it: died()
    query(world.conn, "INSERT INTO jobs VALUES (9, 'new', 0)")

    def got(conn):
        return [query(conn, sql) == [(1,)] for sql in rows]

    advisory(one, "advisory_lock", 31)
    query(one, "SET mosql_fdw.one_message = off; SET mosql_fdw.one_step = off")
    query(one, "SET mosql_fdw.debug_error_at = 'apply-some'")    # one of the two is applied
    query(one, "BEGIN")
    query(one, "UPDATE hot SET s = 'late' WHERE id = 9")
    query(one, "UPDATE jobs SET state = 'late' WHERE id = 9")
    query(one, "COMMIT")
    query(one, "SET mosql_fdw.debug_error_at = 'help-step'")     # nor is the other tried again
    query(one, "BEGIN")
    query(one, "SELECT n FROM hot WHERE id = 1")
    query(one, "SET mosql_fdw.debug_error_at = ''")
    tap.equal(got(one), [True, True], "the next transaction of the session locks what the last one has written")
    query(two, "BEGIN")
    tap.equal(got(two), [False, False], "and nobody else does")
    query(two, "ROLLBACK")
    tap.equal(attempt(one, "COMMIT")[1], None, "it commits")
    advisory(one, "advisory_unlock", 31)
    query(world.conn, "DELETE FROM jobs")

    three = world.connect(0, lock_timeout="25s")
    sql = "SELECT n FROM hot WHERE id = 12 FOR UPDATE"
    begin(three, sql)
    claims = claims_of(world)
    query(three, "ROLLBACK")
    for port, key, field, claim in claims:
        world.cluster.ask(port, "HSET", key, field, claim)
    tap.ok(claims and attempt(two, sql + " NOWAIT")[1] == "55P03", "a node brings back a lock of a session that lives", claims)
    tap.equal(attempt(three, sql + " NOWAIT")[1], None, "which is not in the way of that session")
    for port, key, field, claim in claims:
        world.cluster.ask(port, "HSET", key, field, claim)
    tap.equal(attempt(three, sql)[1], None, "nor waited for")
    three.close()
    one.close()
    two.close()


NUMBER = "SELECT mosql_fdw_advisory_xact_lock('redis', 30)"
WRITE = "UPDATE hot SET s = 'number' WHERE id = 1"


def end_session(world, conn):
    """Its sessions, and wait until others may take off what it had locked."""
    for sid, in query(world.conn, "SELECT session_id FROM mosql_fdw_sessions('redis') WHERE pid = %s AND state = 'alive'",
                      (conn.info.backend_pid,)):
        query(world.conn, "SELECT mosql_fdw_repair('redis', 'session', %s, dry_run := false)", (str(sid),))
    time.sleep(1.5)


def numbers(world):
    one, two = world.connect(0, "optimistic"), world.connect(1, "optimistic")

    def call(conn, name, number=7):
        return query(conn, f"SELECT mosql_fdw_{name}('redis', {number})")[0][0]

    query(one, "BEGIN")
    call(one, "advisory_xact_lock")
    tap.equal(call(two, "try_advisory_xact_lock"), False, "the other server's session does not get it")
    tap.equal(call(two, "try_advisory_xact_lock_shared"), False, "nor shared")
    tap.equal(call(two, "try_advisory_xact_lock", 8), True, "another number is another lock")
    threads, results = together(lambda: call(two, "advisory_xact_lock"))
    time.sleep(.3)
    tap.ok(threads[0].is_alive(), "who waits waits")
    query(one, "COMMIT")
    tap.ok(finish(threads) and results == [""], "until it is let go", results)
    for conn in one, two:
        query(conn, "BEGIN")
        tap.equal(call(conn, "try_advisory_xact_lock_shared"), True, "several have it shared")
    query(one, "ROLLBACK")
    query(two, "SAVEPOINT a")
    call(two, "advisory_xact_lock", -1)
    query(two, "ROLLBACK TO a")
    tap.equal((call(one, "try_advisory_xact_lock", -1), call(one, "try_advisory_xact_lock")), (True, False),
              "ROLLBACK TO lets go of what came after the savepoint")
    query(two, "SET lock_timeout = '200ms'")
    query(one, "BEGIN")
    call(one, "advisory_xact_lock", 9)
    tap.equal(attempt(two, "SELECT mosql_fdw_advisory_xact_lock('redis', 9)")[1], "55P03", "lock_timeout")
    query(one, "ROLLBACK")
    query(two, "ROLLBACK")
    tap.equal(attempt(one, "SELECT mosql_fdw_advisory_xact_lock('nowhere', 9)")[1], "42704", "no such server")
    query(one, "CREATE ROLE stranger_locks")
    query(one, "SET ROLE stranger_locks")
    tap.equal(attempt(one, "SELECT mosql_fdw_try_advisory_xact_lock('redis', 9)")[1], "42501", "needs USAGE")
    query(one, "RESET ROLE")
    query(one, "DROP ROLE stranger_locks")
    for what, *steps in (("nothing else", NUMBER), ("a write before", WRITE, NUMBER), ("a write after", NUMBER, WRITE),
                         ("a row that is locked", NUMBER, "SELECT n FROM hot WHERE id = 1 FOR UPDATE")):
        begin(one, *steps)
        end_session(world, one)
        tap.equal(call(two, "try_advisory_xact_lock", 30), True, f"{what}: a session that was ended has no lock")
        tap.equal(attempt(one, "COMMIT")[1], "40001", "and does not commit")
        tap.equal(value(world.conn, "SELECT count(*) FROM hot WHERE s = 'number'"), 0, "and changes nothing")
    begin(one, WRITE, "SAVEPOINT s", NUMBER, "ROLLBACK TO s")
    end_session(world, one)
    tap.equal(attempt(one, "COMMIT")[1], None, "one that was given back is not missed")
    tap.equal(attempt(one, NUMBER)[1], None, "another transaction locks again")
    query(world.conn, "UPDATE hot SET s = '' WHERE id = 1")
    for c in one, two:
        c.close()


def advisory(conn, name, *numbers):
    """The result of mosql_fdw_NAME, or an SQLSTATE."""
    rows, state = attempt(conn, f"SELECT mosql_fdw_{name}({', '.join(['%r' % 'redis', *map(str, numbers)])})")
    return rows[0][0] if state is None else state


def kept(world):
    one, two = world.connect(0, "optimistic"), world.connect(1, "optimistic")
    like = world.servers[0].connect(world.db)   # PostgreSQL's own functions, beside

    def same(name, *numbers):
        """Ours says what PostgreSQL's says, in one session."""
        theirs = value(like, f"SELECT pg_{name}({', '.join(map(str, numbers))})")
        tap.equal(advisory(one, name, *numbers), theirs, f"{name}{numbers}: {theirs}")

    def free(number, wanted, name):
        got = advisory(two, "try_advisory_lock", number)
        if got is True:
            advisory(two, "advisory_unlock", number)
        tap.equal(got, wanted, name)

    # counts, both kinds, both signatures
    for name in ("advisory_lock", "advisory_lock", "try_advisory_lock", "advisory_lock_shared", "advisory_unlock",
                 "advisory_unlock_shared", "advisory_unlock_shared", "advisory_unlock"):
        same(name, 1)
    free(1, False, "locked three times, let go twice")
    same("advisory_unlock", 1)
    free(1, True, "let go as often as it was locked")
    same("advisory_unlock", 1)
    same("advisory_lock_shared", 1)
    tap.equal(advisory(two, "try_advisory_lock_shared", 1), True, "shared by two")
    tap.equal(advisory(one, "try_advisory_lock", 1), False, "not made stronger beside another")
    advisory(two, "advisory_unlock_shared", 1)
    same("try_advisory_lock", 1)
    same("advisory_unlock", 1)
    tap.equal((advisory(two, "try_advisory_lock", 1), advisory(two, "try_advisory_lock_shared", 1)), (False, True),
              "shared again when the stronger one is let go")
    advisory(two, "advisory_unlock_shared", 1)
    same("advisory_unlock_shared", 1)
    same("advisory_lock", -5, 7)
    tap.equal((advisory(two, "try_advisory_lock", -5, 7), advisory(two, "try_advisory_lock", 7, -5),
               advisory(two, "try_advisory_lock", (-5 << 32) + 7)), (False, True, True), "two numbers are apart from one")
    advisory(two, "advisory_unlock_all")
    same("advisory_unlock", -5, 7)

    # transactions come and go
    begin(one, "SAVEPOINT a", "SELECT mosql_fdw_advisory_lock('redis', 2)", "ROLLBACK TO a")
    query(one, "ROLLBACK")
    free(2, False, "ROLLBACK keeps it")
    begin(one, "SELECT mosql_fdw_advisory_xact_lock('redis', 2)", "UPDATE hot SET n = n WHERE id = 1")
    query(one, "COMMIT")
    free(2, False, "so does the end of a transaction that has it, too")
    begin(one, "SELECT mosql_fdw_advisory_xact_lock('redis', 2)", "SELECT mosql_fdw_advisory_unlock('redis', 2)")
    free(2, False, "which holds it when the session lets go")
    query(one, "COMMIT")
    free(2, True, "until it ends")
    begin(one, "SELECT mosql_fdw_advisory_xact_lock('redis', 3)", "SELECT mosql_fdw_advisory_lock('redis', 3)")
    query(one, "ROLLBACK")
    free(3, False, "locked first by the transaction, then by the session")
    query(one, "DISCARD ALL")
    free(3, True, "DISCARD ALL")
    for number in 4, 5:
        advisory(one, "advisory_lock_shared", number)
    advisory(one, "advisory_unlock_all")
    free(4, True, "advisory_unlock_all")
    tap.ok("don't own" in "".join(one.notices[-1:]) or advisory(one, "advisory_unlock", 5) is False, "all of them")

    # who waits, and the view
    advisory(one, "advisory_lock", 6)
    threads, results = together(lambda: advisory(two, "advisory_lock", 6))
    until_waits(world)
    shown = query(world.conn, "SELECT key, mode, granted, pid FROM mosql_fdw_locks ORDER BY granted DESC")
    tap.equal(shown, [("advisory (6)", "EXCLUSIVE", True, one.info.backend_pid),
                      ("advisory (6)", "EXCLUSIVE", False, two.info.backend_pid)], "mosql_fdw_locks shows both")
    query(one, "UPDATE hot SET n = n + 1 WHERE id = 2")
    tap.ok(threads[0].is_alive(), "transactions end, the other waits on")
    advisory(one, "advisory_unlock", 6)
    tap.ok(finish(threads) and results == [""], "until it is let go", results)
    tap.equal(query(two, "SELECT key, granted FROM mosql_fdw_locks"), [("advisory (6)", True)], "one's own are shown")
    advisory(two, "advisory_unlock", 6)

    # deadlocks with locks of rows
    query(one, "SET mosql_fdw.locking = pessimistic")
    query(two, "SET mosql_fdw.locking = pessimistic")
    advisory(one, "advisory_lock", 7)
    query(one, "SELECT 1 FROM hot WHERE id = 1")
    begin(two, "SELECT n FROM hot WHERE id = 3 FOR UPDATE")
    query(one, "BEGIN")
    threads, results = together(lambda: attempt(one, "SELECT n FROM hot WHERE id = 3 FOR UPDATE")[1])
    until_waits(world)
    tap.equal(advisory(two, "advisory_lock", 7), "40P01", "a circle of a row and a number")
    query(two, "ROLLBACK")
    tap.ok(finish(threads) and results == [None], "the other goes on", results)
    query(one, "COMMIT")
    free(7, False, "and has its number")

    # the end
    threads, results = together(lambda: advisory(two, "advisory_lock", 7))
    until_waits(world)
    start = time.monotonic()
    one.close()
    tap.ok(finish(threads) and results == [""], "the end of a backend", results)
    tap.ok(time.monotonic() - start < SOON, "soon", f"{time.monotonic() - start:.1f} s")
    one = world.connect(0)
    advisory(one, "advisory_lock", 8)
    threads, results = together(lambda: advisory(two, "advisory_lock", 8))
    until_waits(world)
    time.sleep(.3)
    os.kill(one.info.backend_pid, 9)
    start = time.monotonic()
    tap.ok(finish(threads) and results == [""], "a backend that is killed", results)
    tap.note(f"after {time.monotonic() - start:.1f} s")
    world.servers[0].wait_up()
    world.conn.close()
    world.conn = world.connect()
    two.close()
    like.close()


def lost(world):
    lease = {"mosql_fdw.debug_lease": "5000"}
    one, two = world.connect(0, "optimistic", **lease), world.connect(1, "optimistic")
    advisory(one, "advisory_lock", 20)
    time.sleep(11)
    tap.equal(advisory(two, "try_advisory_lock", 20), False, "it outlives its lease while the session idles")
    query(one, "SELECT n FROM hot WHERE id = 1")
    time.sleep(6)
    query(one, "UPDATE hot SET n = n + 1 WHERE id = 1")
    tap.equal(advisory(two, "try_advisory_lock", 20), False, "and while it works now and then")
    sid = value(one, "SELECT session_id FROM mosql_fdw_sessions('redis') WHERE own AND state = 'alive' ORDER BY 1 LIMIT 1")
    query(world.conn, "SELECT mosql_fdw_repair('redis', 'session', %s, dry_run := false)", (str(sid),))
    time.sleep(2)
    tap.equal(advisory(two, "try_advisory_lock", 20), True, "a session that was ended has no lock")
    tap.equal(attempt(one, "UPDATE hot SET n = n + 1 WHERE id = 1")[1], "55000", "and is told so")
    tap.equal(attempt(one, "UPDATE hot SET n = n + 1 WHERE id = 1")[1], None, "once")
    tap.equal(advisory(one, "advisory_unlock", 20), False, "it has it no more")
    advisory(two, "advisory_unlock", 20)
    advisory(one, "advisory_lock", 21)
    query(world.conn, "SELECT mosql_fdw_repair('redis', 'session', %s, dry_run := false)",
          (str(value(one, "SELECT max(session_id) FROM mosql_fdw_sessions('redis') WHERE own AND state = 'alive'")),))
    tap.equal(attempt(one, "UPDATE hot SET s = 'x' WHERE id = 1")[1], "55000", "a commit notices, too")
    tap.equal(value(world.conn, "SELECT count(*) FROM hot WHERE id = 1 AND s = 'x'"), 0, "and does not happen")
    advisory(one, "advisory_lock_shared", 22)
    query(two, "SET mosql_fdw.locking = pessimistic")
    query(one, "SET mosql_fdw.locking = pessimistic")
    for mode, more in ("SHARE", "UPDATE hot SET n = 1 WHERE id BETWEEN 1 AND 1 AND n >= 0"), ("NO KEY UPDATE", "DELETE FROM hot WHERE id BETWEEN 1 AND 1 AND n >= 0"):
        begin(one, f"SELECT n FROM hot WHERE id = 1 FOR {mode}")
        forget_claims(world, b"")
        query(two, "UPDATE hot SET n = n + 1 WHERE id = 1 AND s IS DISTINCT FROM 'never'")
        tap.equal(attempt(one, more)[1] or attempt(one, "COMMIT")[1], "40001", f"FOR {mode}, lost: who writes the row then does not undo what was written since")
        query(one, "ROLLBACK")
    begin(one, "SELECT n FROM hot WHERE id = 1 FOR SHARE", "UPDATE hot SET n = n + 1 WHERE id = 1")
    tap.equal(attempt(one, "COMMIT")[1], None, "one that is there becomes stronger")
    begin(one, "SELECT count(*) FROM hot")
    forget_claims(world, b"")
    for name in "advisory_lock", "advisory_unlock":
        tap.equal(advisory(two, name, 22), "" if name == "advisory_lock" else True, f"of another session, of a lock that is lost: {name}")
    tap.equal(advisory(one, "advisory_lock", 22), "40001", "a stronger lock does not stand for one that was lost")
    query(one, "ROLLBACK")
    tap.equal(advisory(two, "try_advisory_lock", 22), True, "and is not there")
    advisory(two, "advisory_unlock", 22)
    for c in one, two:
        c.close()


MODES = ("ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE",
         "EXCLUSIVE", "ACCESS EXCLUSIVE")
STATEMENTS = {"a read": "SELECT count(*) FROM {} WHERE n >= 0", "FOR UPDATE": "SELECT n FROM {} WHERE id = 14 FOR UPDATE",
              "an update": "UPDATE {} SET s = 'x' WHERE id = 15 AND n >= 0", "an increment": "UPDATE {} SET n = n + 0 WHERE id = 16",
              "an insert": "INSERT INTO {} VALUES (1000, 0, '')", "a deletion": "DELETE FROM {} WHERE id = 17"}


def tables(world):
    one, two = world.connect(0), world.connect(1)
    here = [world.servers[1].connect(world.db) for _ in range(2)]
    for conn in one, two:
        query(conn, "SELECT count(*) FROM hot")    # loads the library
    query(here[0], "CREATE SCHEMA IF NOT EXISTS native")
    query(here[0], "CREATE TABLE IF NOT EXISTS native.lockable (id int PRIMARY KEY, n int, s text)")
    query(here[0], "INSERT INTO native.lockable SELECT g, 0, '' FROM generate_series(1, 20) g")

    def tried(conn, table, sql):
        """The SQLSTATE, of the statement or its COMMIT."""
        query(conn, "BEGIN")
        state = attempt(conn, sql.format(table))[1] or attempt(conn, "COMMIT")[1]
        if conn.info.transaction_status != 0:
            query(conn, "ROLLBACK")
        return state

    def both(held, sql):
        """What happens beside a lock: between servers, and between sessions on a heap table."""
        found = []
        for holder, other, table in (one, two, "hot"), (*here, "native.lockable"):
            query(holder, "BEGIN")
            for mode in held:
                query(holder, f"LOCK TABLE {table} IN {mode} MODE")
            found.append([tried(other, table, s) for s in sql])
            query(holder, "ROLLBACK")
        return found

    for mode in MODES:
        ours, theirs = both([mode], [f"LOCK TABLE {{}} IN {other} MODE NOWAIT" for other in MODES])
        tap.equal(ours, theirs, f"{mode}: the other's LOCK TABLE")
    ours, theirs = both(["ROW EXCLUSIVE", "SHARE"], [f"LOCK TABLE {{}} IN {other} MODE NOWAIT" for other in MODES])
    tap.equal(ours, theirs, "two modes at once")
    query(two, "SET lock_timeout = '400ms'")
    query(here[1], "SET lock_timeout = '150ms'")
    for locking in "pessimistic", "optimistic":
        query(two, f"SET mosql_fdw.locking = {locking}")
        for mode in MODES:
            ours, theirs = both([mode], STATEMENTS.values())
            tap.equal(dict(zip(STATEMENTS, ours)), dict(zip(STATEMENTS, theirs)), f"{locking}: statements beside {mode}")
            for conn, table in (two, "hot"), (here[1], "native.lockable"):
                query(conn, f"DELETE FROM {table} WHERE id = 1000")
                query(conn, f"INSERT INTO {table} VALUES (17, 0, '') ON CONFLICT DO NOTHING")
    for conn in two, here[1]:
        query(conn, "RESET lock_timeout")

    # who has written before
    begin(two, "UPDATE hot SET s = 'before' WHERE id = 18")
    begin(one, "LOCK TABLE hot IN SHARE MODE")
    threads, results = together(lambda: query(two, "COMMIT"))
    until_waits(world)
    tap.ok(threads[0].is_alive(), "a transaction that wrote before the lock waits at COMMIT")
    tap.equal(value(one, "SELECT s FROM hot WHERE id = 18"), "", "the holder sees nothing of it")
    tap.equal(attempt(one, "UPDATE hot SET s = 'holder' WHERE id = 19")[1], None, "the holder may write")
    query(one, "COMMIT")
    tap.ok(finish(threads) and not isinstance(results[0], str), "and commits then", results)
    tap.equal(query(world.conn, "SELECT s FROM hot WHERE id IN (18, 19) ORDER BY id"), [("before",), ("holder",)], "both are there")
    begin(two, "UPDATE hot SET s = 'x' WHERE id = 18", "SAVEPOINT a")
    begin(one, "SAVEPOINT a", "LOCK TABLE hot IN EXCLUSIVE MODE", "ROLLBACK TO a")
    query(two, "SET lock_timeout = '25s'")
    tap.equal(attempt(two, "COMMIT")[1], None, "ROLLBACK TO lets go")
    query(one, "ROLLBACK")

    # a reader goes on with what the holder has left
    begin(one, "LOCK TABLE hot IN ACCESS EXCLUSIVE MODE", "UPDATE hot SET s = 'newest' WHERE id = 18")
    query(two, "RESET lock_timeout")
    threads, results = together(lambda: query(two, "SELECT s FROM hot WHERE id BETWEEN 18 AND 18 AND n >= 0"))
    until_waits(world)
    shown = query(world.conn, "SELECT table_name, mode, granted FROM mosql_fdw_locks ORDER BY granted DESC")
    tap.equal(shown, [("public.hot", "ACCESS EXCLUSIVE", True), ("public.hot", "ACCESS SHARE", False)], "mosql_fdw_locks shows both")
    query(one, "COMMIT")
    tap.ok(finish(threads) and results == [[("newest",)]], "a reader waits, and sees what was committed", results)

    # circles, definitions, death, rights
    query(two, "SET mosql_fdw.locking = pessimistic")
    begin(two, "SELECT n FROM hot WHERE id = 20 FOR UPDATE")
    begin(one, "LOCK TABLE hot IN SHARE ROW EXCLUSIVE MODE")
    threads, results = together(lambda: attempt(two, "LOCK TABLE hot IN EXCLUSIVE MODE")[1])
    until_waits(world)
    tap.equal(attempt(one, "SELECT n FROM hot WHERE id = 20 FOR UPDATE")[1], "40P01", "a circle of a row and a table")
    query(one, "ROLLBACK")
    tap.ok(finish(threads) and results == [None], "the other goes on", results)
    query(two, "ROLLBACK")
    begin(one, "LOCK TABLE hot")
    query(two, "SET lock_timeout = '300ms'")
    tap.equal(attempt(two, "ALTER FOREIGN TABLE hot ADD COLUMN more int")[1], "55P03", "changes of the definition wait")
    query(one, "ALTER FOREIGN TABLE hot ALTER COLUMN s SET DEFAULT 'd'")
    tap.equal(attempt(one, "COMMIT")[1], None, "but not the holder's own")
    query(two, "RESET lock_timeout")
    begin(one, "LOCK TABLE hot IN SHARE MODE")
    threads, results = together(lambda: attempt(two, "UPDATE hot SET s = 'y' WHERE id = 20")[1])
    time.sleep(.3)
    one.close()
    tap.ok(finish(threads) and results == [None], "the end of the holder", results)
    query(two, "CREATE ROLE stranger_tables")
    query(two, "SET ROLE stranger_tables")
    tap.equal(attempt(two, "BEGIN; LOCK TABLE hot IN SHARE MODE")[1], "42501", "rights come first")
    query(two, "ROLLBACK")
    query(two, "RESET ROLE")
    query(two, "DROP ROLE stranger_tables")
    tap.equal(findings(world.conn, "hot"), ([], []), "nothing is left in the tree")
    for c in two, *here:
        c.close()


def forget_claims(world, what=b"hot"):
    """As a failover without copies: whatever is locked where definitions are is not; b"": nor anything else."""
    for port in world.cluster.ports:
        r = world.cluster.redis(port)
        for key in r("KEYS", "*"):
            if r("TYPE", key) != b"hash":
                continue
            for field in r("HKEYS", key):
                if field.startswith(b"i") and what in field:
                    r("HDEL", key, field)
        r.close()


def end_sessions(world, conn):
    """As if its lease had run out."""
    for sid, in query(conn, "SELECT session_id FROM mosql_fdw_sessions('redis') WHERE own AND state = 'alive'"):
        query(world.conn, "SELECT mosql_fdw_repair('redis', 'session', %s, dry_run := false)", (str(sid),))


def tables_altered(world):
    """Who writes between ALTER TABLE, or CREATE INDEX, and its COMMIT waits, and is not lost."""
    one, two = world.connect(0), world.connect(1)
    query(one, "CREATE FOREIGN TABLE changing (id int OPTIONS (key 'true') NOT NULL, n int, u int) SERVER redis")
    query(two, "CREATE FOREIGN TABLE changing (id int OPTIONS (key 'true') NOT NULL, n int, u int) SERVER redis")
    query(one, "INSERT INTO changing SELECT i, i, i FROM generate_series(1, 300) i")
    query(two, "SELECT count(*) FROM changing")
    for ddl, sql in (("ALTER n TYPE bigint", "INSERT INTO changing VALUES (1000, 1, 1000)"),
                     ("ALTER n TYPE numeric", "UPDATE changing SET u = u + 1000 WHERE id = 7"),
                     ("ADD CONSTRAINT small CHECK (u < 5000)", "INSERT INTO changing VALUES (1001, 2, 6000)"),
                     ("ALTER n SET NOT NULL", "INSERT INTO changing VALUES (1002, NULL, 1002)"),
                     (None, "UPDATE changing SET u = 9 WHERE id = 8")):
        ddl = f"ALTER FOREIGN TABLE changing {ddl}" if ddl else "CREATE UNIQUE INDEX ON changing (u) WHERE id < 500"
        tap.equal(begin(one, ddl)[1], None, ddl)
        threads, results = together(lambda: attempt(two, sql)[1])
        tap.ok(not finish(threads, .4), f"{sql}: waits")
        query(one, "COMMIT")
        finish(threads)
        again = attempt(two, sql)[1] if results[0] else "done"
        if results[0]:
            query(two, "SELECT mosql_fdw_refresh('changing')")
            again = attempt(two, sql)[1]
        bad = "SELECT count(*) FROM changing WHERE n IS NULL OR u > 5000 OR id = 8 AND u = 9"
        tap.ok("6000" in sql or "NULL" in sql or "u = 9" in sql or again in (None, "done"), f"{sql}: {results[0]}, then {again}")
        tap.equal(value(one, bad), 0, "and what is there is right")
    tap.equal(findings(one, "changing"), ([], []), "rows and entries agree")
    query(one, "DROP FOREIGN TABLE changing")
    for c in one, two:
        c.close()


REFERRING = """CREATE FOREIGN TABLE parent (id int OPTIONS (key 'true') NOT NULL, n int) SERVER redis;
    CREATE FOREIGN TABLE child (id int OPTIONS (key 'true') NOT NULL, p int) SERVER redis"""
ORPHANS = "SELECT count(*) FROM child c WHERE p IS NOT NULL AND NOT EXISTS (SELECT FROM parent p WHERE p.id = c.p)"
ADD = "ALTER TABLE child ADD CONSTRAINT refers FOREIGN KEY (p) REFERENCES parent"


def referred(world, one, two, isolation):
    """Who comes between the look at all rows and COMMIT, and who was there before: one of both fails."""
    for command in ADD, "ALTER TABLE child VALIDATE CONSTRAINT refers":
        for sql in ("INSERT INTO child VALUES (1000, 5000)", "UPDATE child SET p = 5000 WHERE id = 7",
                    "DELETE FROM parent WHERE id = 8", "UPDATE parent SET id = 6000 WHERE id = 9"):
            for first in False, True:
                if "VALIDATE" in command:
                    query(one, ADD + " NOT VALID")
                    query(two, "SELECT mosql_fdw_refresh('child')")
                if first:
                    begin(two, sql)     # to be committed behind the other's back
                query(one, f"BEGIN ISOLATION LEVEL {isolation}")
                failed = attempt(one, command)[1]
                threads, results = together(lambda: attempt(two, "COMMIT" if first else sql)[1])
                finish(threads, .3)
                ended = attempt(one, "ROLLBACK" if failed else "COMMIT")[1] or failed
                finish(threads)
                told = f"{isolation} {command.split()[3]} beside {sql}, {'before' if first else 'after'}: {ended}, {results}"
                tap.ok(ended is None or value(one, ORPHANS) == 0 or ended in ("40001", "23503"), told)
                tap.ok(ended is not None or value(one, ORPHANS) == 0, "no row leads nowhere")
                tap.ok(isolation != "READ COMMITTED" or ended is None, "who waits for nobody is not refused")
                query(two, "ROLLBACK")
                query(one, "ALTER TABLE child DROP CONSTRAINT IF EXISTS refers")
                query(one, "TRUNCATE child; TRUNCATE parent")
                query(two, "SELECT mosql_fdw_refresh('child'), mosql_fdw_refresh('parent')")
                fill_referring(one)


def replaced(world, one, two, isolation):
    """Who changes a foreign key that another server drops, or drops and adds anew, beside, changes no other."""
    drop, another = "ALTER TABLE child DROP CONSTRAINT refers", "ALTER TABLE child ADD CONSTRAINT refers FOREIGN KEY (p) REFERENCES other NOT VALID"
    for command in "VALIDATE CONSTRAINT refers", "ALTER CONSTRAINT refers DEFERRABLE":
        for waits in (False, True) if command.startswith("VALIDATE") and isolation == "READ COMMITTED" else (False,):
            for adds in False, True:
                query(one, ADD + " NOT VALID")
                query(two, "SELECT mosql_fdw_refresh('child')")
                query(one, "SELECT count(*) FROM child, parent, other")
                begin(two, "LOCK TABLE child IN SHARE ROW EXCLUSIVE MODE" if waits else "SELECT 1")
                query(one, f"BEGIN ISOLATION LEVEL {isolation}")
                threads = []
                if waits:
                    threads, results = together(lambda: attempt(one, f"ALTER TABLE child {command}")[1])
                    until_waits(world)
                for sql in drop, another if adds else "SELECT 1", "COMMIT":
                    query(two, sql)
                finish(threads)
                failed = results[0] if waits else attempt(one, f"ALTER TABLE child {command}")[1]
                failed = attempt(one, "ROLLBACK" if failed else "COMMIT")[1] or failed
                told = f"{isolation}: {command} beside DROP{' and ADD' if adds else ''}{', waits' if waits else ''}"
                tap.ok(failed in ("55000" if adds else "42704", "40001"), told, failed)
                again = attempt(one, f"ALTER TABLE child {command}")[1]
                tap.equal(again, "55000" if adds else "42704", "and again")
                query(two, "CREATE SCHEMA third; IMPORT FOREIGN SCHEMA public LIMIT TO (child, other) FROM SERVER redis INTO third")
                tap.equal(query(two, "SELECT confrelid::regclass::text, convalidated, condeferrable FROM pg_constraint WHERE conrelid = 'third.child'::regclass AND contype = 'f'"),
                          [("third.other", False, False)] if adds else [], "what is there is as it was")
                query(two, "SET mosql_fdw.drop_data = off; DROP SCHEMA third CASCADE; RESET mosql_fdw.drop_data")
                query(one, "SELECT mosql_fdw_refresh('child')")
                query(one, "ALTER TABLE child DROP CONSTRAINT IF EXISTS refers")
                query(two, "SELECT mosql_fdw_refresh('child')")


def fill_referring(conn):
    query(conn, "INSERT INTO parent SELECT i, i FROM generate_series(1, 400) i")
    query(conn, "INSERT INTO child SELECT i, i FROM generate_series(1, 300) i")


def raced(world, one):
    """The same at random times: whenever the foreign key is there, all rows obey it."""
    stop = threading.Event()

    done = {}

    def write(which, sql):
        conn = world.connect(which)
        while not stop.is_set():
            done[sql] = done.get(sql, 0) + (attempt(conn, sql)[1] is None)
        conn.close()

    threads = [threading.Thread(target=write, args=a) for a in (
        (1, "INSERT INTO child SELECT max(id) + 1, 400 - max(id) % 40 FROM child"),
        (1, "DELETE FROM parent WHERE id = 400 - (random() * 40)::int"),
        (0, "INSERT INTO parent SELECT 400 - i, 0 FROM generate_series(0, 39) i ON CONFLICT DO NOTHING"))]
    for thread in threads:
        thread.start()
    counts = {}
    for _ in range(25):
        if counts:
            time.sleep(.02)             # so that there are children without parents, now and then
        ended = attempt(one, ADD)[1]
        counts[ended] = counts.get(ended, 0) + 1
        if ended is None:
            if value(one, ORPHANS) != 0:
                tap.ok(False, "a row leads nowhere")
            query(one, "ALTER TABLE child DROP CONSTRAINT refers")
        else:
            attempt(one, "DELETE FROM child c WHERE p IS NOT NULL AND NOT EXISTS (SELECT FROM parent p WHERE p.id = c.p)")
    stop.set()
    finish(threads)
    tap.ok(None in counts and set(counts) <= {None, "23503", "40001", "40P01"}, f"ADD FOREIGN KEY beside writers: {counts}")
    tap.ok(all(done.values()), "who write some, too", done)


def tables_referenced(world):
    """A foreign key holds for the rows that were there before it, whoever writes while they are looked at."""
    one, two = world.connect(0), world.connect(1)
    query(one, REFERRING)
    query(two, REFERRING)
    fill_referring(one)
    query(two, "SELECT count(*) FROM child, parent")
    for isolation in "READ COMMITTED", "REPEATABLE READ":
        referred(world, one, two, isolation)
    raced(world, one)
    for conn in one, two:
        query(conn, "CREATE FOREIGN TABLE other (id int OPTIONS (key 'true') NOT NULL) SERVER redis")
    for isolation in "READ COMMITTED", "REPEATABLE READ":
        replaced(world, one, two, isolation)
    query(one, "DROP FOREIGN TABLE child, parent, other")
    query(two, "SET mosql_fdw.drop_data = off; DROP FOREIGN TABLE child, parent, other")
    for c in one, two:
        c.close()


def tables_waiting(world):
    """Waits end, and what was lost is told."""
    one, two = world.connect(0), world.connect(1)
    pid = value(two, "SELECT pg_backend_pid()")
    for conn in one, two:
        query(conn, "SELECT count(*) FROM hot")    # loads the library
    for what, sql in ("a statement", "UPDATE hot SET s = 'no' WHERE id BETWEEN 3 AND 3"), ("COMMIT", None):
        for end, state in ("cancel", "57014"), ("lock_timeout", "55P03"), ("statement_timeout", "57014"):
            if sql is None and end == "statement_timeout":
                continue        # core ends it before the commit begins
            query(two, "RESET lock_timeout")
            query(two, "RESET statement_timeout")
            if end != "cancel":
                query(two, f"SET {end} = '500ms'")
            query(two, "BEGIN")
            if sql is None:
                query(two, "UPDATE hot SET s = 'no' WHERE id = 3")
            begin(one, "LOCK TABLE hot IN SHARE MODE")
            threads, results = together(lambda: attempt(two, sql or "COMMIT")[1])
            if end == "cancel":
                until_waits(world)
                query(world.servers[1].connect("postgres"), f"SELECT pg_cancel_backend({pid})")
            tap.ok(finish(threads, SOON) and results == [state], f"{what} waits for a table until {end}", results)
            query(one, "ROLLBACK")
            finish(threads)
            query(two, "ROLLBACK")
    query(two, "RESET lock_timeout")
    query(two, "RESET statement_timeout")

    for conn in one, two:
        query(conn, "SET lock_timeout = '60s'")
    for mode in "SHARE", "ACCESS EXCLUSIVE":
        begin(one, f"LOCK TABLE hot IN {mode} MODE", "SELECT sum(n) FROM hot")
        end_sessions(world, one)
        tap.equal(attempt(two, "UPDATE hot SET s = 'else' WHERE id = 4 AND n >= 0")[1], None, f"{mode}: who is dead keeps nobody out")
        tap.equal(attempt(one, "COMMIT")[1], "40001", "and does not commit")
        query(one, "ROLLBACK")
        begin(one, f"LOCK TABLE hot IN {mode} MODE", "UPDATE jobs SET started = 0 WHERE id = 1")
        forget_claims(world)
        tap.equal(attempt(one, "COMMIT")[1], "40001", "nor who has lost the lock")
        query(one, "ROLLBACK")
    # what ALTER TABLE has looked at is held by the lock alone, though it writes the definition as well
    for what in "its session has ended", "its lock is lost":
        for sql in "ALTER FOREIGN TABLE hot ALTER COLUMN s SET NOT NULL", "ALTER FOREIGN TABLE hot ALTER COLUMN n TYPE bigint":
            begin(one, sql)
            if what == "its session has ended":
                end_sessions(world, one)
            else:
                forget_claims(world)
            tap.equal(attempt(two, "INSERT INTO hot VALUES (99, 1, NULL)")[1], None, f"{sql}, {what}: others write")
            tap.equal(attempt(one, "COMMIT")[1], "40001", "and it does not commit")
            query(one, "ROLLBACK")
            query(two, "DELETE FROM hot WHERE id = 99")
    begin(one, "LOCK TABLE hot IN SHARE ROW EXCLUSIVE MODE")
    end_sessions(world, one)
    query(two, "UPDATE hot SET s = 'else' WHERE id = 4")
    query(one, LEARN)
    tap.equal(attempt(one, "ALTER FOREIGN TABLE hot ALTER COLUMN n TYPE bigint")[1], "40001", "a lock of an earlier session id is none")
    query(one, "ROLLBACK")
    begin(one, "LOCK TABLE hot IN SHARE MODE", "SELECT sum(n) FROM hot")
    forget_claims(world)
    query(two, "UPDATE hot SET s = 'else' WHERE id = 4")
    tap.equal(attempt(one, "LOCK TABLE hot IN EXCLUSIVE MODE")[1], "40001", "a stronger lock does not stand for one that was lost")
    query(one, "ROLLBACK")
    begin(one, "LOCK TABLE hot IN SHARE MODE", "LOCK TABLE hot IN EXCLUSIVE MODE")
    tap.equal(attempt(one, "COMMIT")[1], None, "one that is there becomes a stronger one")
    for mode in "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE":
        for more in None, "SHARE ROW EXCLUSIVE":
            begin(one, f"LOCK TABLE hot IN {mode} MODE")
            forget_claims(world)
            query(two, "BEGIN; LOCK TABLE hot IN EXCLUSIVE MODE NOWAIT; UPDATE hot SET s = 'x' WHERE id = 4; COMMIT")
            state = attempt(one, f"LOCK TABLE hot IN {more} MODE")[1] if more else attempt(one, "COMMIT")[1]
            tap.equal(state, "40001", f"{mode}, lost: {'a stronger one' if more else 'COMMIT'} notices, too")
            query(one, "ROLLBACK")

    # who has locked the table himself, and changes it
    begin(one, "LOCK TABLE hot IN SHARE MODE", "ALTER FOREIGN TABLE hot ALTER COLUMN s SET DEFAULT 'waits'")
    begin(two, "LOCK TABLE hot IN ACCESS SHARE MODE")
    threads, results = together(lambda: attempt(one, "COMMIT")[1])
    until_waits(world)
    shown = query(world.conn, "SELECT table_name, granted FROM mosql_fdw_locks WHERE mode = 'ACCESS EXCLUSIVE'")
    tap.equal(shown, [("public.hot", False)], "a change waits in the queue for a weaker lock, too")
    query(two, "COMMIT")
    tap.ok(finish(threads) and results == [None], "and goes on then", results)

    # where LOCK TABLE is said, and of what
    query(one, "DO $$BEGIN LOCK TABLE hot IN SHARE MODE; END$$")
    query(one, "BEGIN; DO $$BEGIN LOCK TABLE hot IN SHARE MODE; END$$")
    tap.equal(attempt(two, "BEGIN; LOCK TABLE hot IN ROW EXCLUSIVE MODE NOWAIT")[1], "55P03", "LOCK TABLE within DO")
    query(two, "ROLLBACK")
    query(one, "COMMIT")
    tap.equal(attempt(one, "LOCK TABLE hot")[1], "25P01", "not outside of a transaction")
    for conn in one, two:
        query(conn, "CREATE TABLE parent (id int, n int, s text) PARTITION BY LIST (n)")
        query(conn, "CREATE FOREIGN TABLE part (id int OPTIONS (key 'true') NOT NULL, n int, s text) "
              "SERVER redis OPTIONS (table_name 'hot')")
        query(conn, "ALTER TABLE parent ATTACH PARTITION part DEFAULT")
    begin(one, "LOCK TABLE parent IN SHARE MODE")
    tap.equal(attempt(two, "BEGIN; LOCK TABLE part IN ROW EXCLUSIVE MODE NOWAIT")[1], "55P03", "the partitions are locked")
    query(two, "ROLLBACK")
    query(one, "ROLLBACK")
    begin(one, "LOCK TABLE ONLY parent IN SHARE MODE")
    tap.equal(attempt(two, "BEGIN; LOCK TABLE part IN ROW EXCLUSIVE MODE NOWAIT")[1], None, "but for ONLY")
    query(two, "ROLLBACK")
    query(one, "ROLLBACK")
    for conn in one, two:
        query(conn, "ALTER TABLE parent DETACH PARTITION part")
        query(conn, "SET mosql_fdw.drop_data = off")
        query(conn, "DROP FOREIGN TABLE part")
        query(conn, "DROP TABLE parent")
        conn.close()


def claimed(world):
    """What has claims, as it is."""
    return claims_of(world, (b"L", b"W"))


def let_in_twice(world, one, two, locks, wanted, asks_again):
    """one has it, and gives it back; two is let in, which is lost; one goes on, and ends; two is let in once more."""
    begin(one, "SAVEPOINT a", locks)
    query(two, "BEGIN")
    threads, results = together(lambda: attempt(two, wanted)[1])
    until_waits(world)
    before = [c for c in claimed(world) if c[3][38:39] == b"W"]     # behind a lock; the dead of other tests may have left some
    query(one, "ROLLBACK TO a")
    tap.ok(finish(threads, SOON) and results == [None], f"{wanted}: who has waited is let in", results)
    for port, key, field, value in before:
        world.cluster.ask(port, "HSET", key, field, value)
    query(one, "UPDATE hot SET n = n + 1 WHERE id = 3 AND n >= 0")
    query(one, "COMMIT")
    begin(one, asks_again)              # takes out what is left of an earlier transaction of this session
    query(one, "ROLLBACK")
    now = [value[16:17] for _, key, field, value in claimed(world) if (key, field) in [c[1:3] for c in before]]
    tap.equal(now, [b"L"], "and once more")


def twice(world):
    one, two = world.connect(0), world.connect(1)
    for conn in one, two:
        query(conn, "SELECT count(*) FROM hot")
    for more in "COMMIT", "LOCK TABLE hot IN EXCLUSIVE MODE":
        let_in_twice(world, one, two, "LOCK TABLE hot IN EXCLUSIVE MODE", "LOCK TABLE hot IN SHARE MODE",
                     "LOCK TABLE hot IN ROW SHARE MODE NOWAIT")
        tap.equal(attempt(two, more)[1], "40001", f"{more}: what was done in between is noticed")
        query(two, "ROLLBACK")
    number = "SELECT mosql_fdw_{}('redis', 40)"
    again = number.format("try_advisory_xact_lock")
    let_in_twice(world, one, two, number.format("advisory_xact_lock"), number.format("advisory_xact_lock"), again)
    tap.equal(attempt(two, "COMMIT")[1], "40001", "so of a number")
    let_in_twice(world, one, two, number.format("advisory_xact_lock"), number.format("advisory_lock"), again)
    query(two, "COMMIT")
    world.cluster.everywhere("CLIENT", "KILL", "TYPE", "normal")
    attempt(two, "SELECT count(*) FROM hot")            # finds out that they broke
    tap.equal(attempt(two, "SELECT count(*) FROM hot")[1], "55000", "and of one that the session has")
    tap.equal(advisory(one, "advisory_lock", 40), "", "which is not there then")
    for c in one, two:
        c.close()


def killed(world):
    points = [p for p in debug_points("row locks") if p != "lock-parent-entries"]     # who inserts a child
    tap.ok(len(points) >= 2, "points of waiting are found in the sources", points)
    lock = "SELECT n FROM hot WHERE id = 12 FOR UPDATE"
    for point in points:
        holder = world.connect(0)
        begin(holder, lock)
        tap.equal(attempt(world.connect(1, **{"mosql_fdw.debug_crash_at": point, "statement_timeout": "60s"}), lock)[1], "gone",
                  f"{point}: a waiter dies there")
        world.servers[1].wait_up()
        other = world.connect(1)
        threads, results = together(lambda: query(other, lock))
        until_waits(world)
        query(holder, "COMMIT")
        tap.ok(finish(threads) and results == [[(0,)]], f"{point}: the next one has the lock", results)
        holder.close()
        other.close()


TRANSACTIONS = {"UPDATE": "UPDATE hot SET s = md5(s) WHERE id = 1;",
                "SELECT, UPDATE": "BEGIN;\nSELECT n FROM hot WHERE id = 1;\nUPDATE hot SET s = md5(s) WHERE id = 1;\nEND;",
                "SELECT FOR UPDATE, UPDATE": "BEGIN;\nSELECT n FROM hot WHERE id = 1 FOR UPDATE;\n"
                                             "UPDATE hot SET s = md5(s) WHERE id = 1;\nEND;"}
SYSTEMS = {"ours": "-c mosql_fdw.locking=pessimistic", "optimistic": "-c mosql_fdw.locking=optimistic",
           "PostgreSQL": "-c search_path=native"}
BULK = 200000
CLIENTS_MEASURED = tuple(int(n) for n in os.environ.get("CLIENTS", "1,8,64").split(",") if n)


def pgbench(world, script, clients, seconds, options):
    """(per second, failed in percent)"""
    path = os.path.join(TOP, "tmp", "locks.sql")
    with open(path, "w") as f:
        f.write(script)
    server = world.servers[0].args
    out = subprocess.run(["pgbench", "-n", "-c", str(clients), "-j", "1", "-T", str(seconds), "-f", path,
                          "-h", server["host"], "-p", server["port"], "-U", "postgres", world.db],
                         env={**os.environ, "PGOPTIONS": options}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True).stdout
    return float(re.search(r"tps = ([\d.]+)", out)[1]), float(re.search(r"failed transactions: \d+ \(([\d.]+)%", out)[1])


def rates(world):
    query(world.conn, "CREATE SCHEMA native; CREATE TABLE native.hot (LIKE hot, PRIMARY KEY (id))")
    query(world.conn, "INSERT INTO native.hot SELECT g, 0, '' FROM generate_series(1, 20) g")
    for clients in CLIENTS_MEASURED:
        for name, script in TRANSACTIONS.items():
            found = {system: [] for system in SYSTEMS}
            for _ in range(3):
                for system, options in SYSTEMS.items():
                    found[system].append(pgbench(world, script, clients, 3, options))
            for system, results in found.items():
                tap.note(f"{clients} clients, {name}, {system}: "
                         f"{statistics.median(r[0] for r in results):.0f}/s, {max(r[1] for r in results):.1f} % failed")
                if system == "ours":
                    tap.equal(max(r[1] for r in results), 0, f"{clients} clients, {name}: none failed")
    query(world.conn, f"INSERT INTO hot SELECT g, 0, '' FROM generate_series(100, {BULK + 100}) g")
    alone, beside = [], []
    for round_ in range(2):
        for times, clients in (alone, 0), (beside, 4):
            stop = threading.Event()
            others = [world.connect(i % 2) for i in range(clients)]

            def work(conn, n):
                done = 0
                while not stop.is_set():
                    query(conn, "UPDATE hot SET n = n - 1, s = md5(s) WHERE id = %s", (100 + (done * 7919 + n) % BULK,))
                    done += 1
                return done

            threads, results = together(*[lambda c=c, n=n: work(c, n) for n, c in enumerate(others)])
            start = time.monotonic()
            error = error_of(world.conn, "UPDATE hot SET s = 'bulk' WHERE id >= 100")
            tap.equal(error[0], None, f"an UPDATE of {BULK} rows beside {clients} clients: {error[1]}")
            times.append(time.monotonic() - start)
            stop.set()
            tap.ok(finish(threads) and all(isinstance(r, int) for r in results), "and none of them fails", results)
            for c in others:
                c.close()
    tap.note(f"{BULK} rows alone {min(alone):.1f} s, beside 4 clients {min(beside):.1f} s")


def body():
    parts = sys.argv[1:]
    cluster = Cluster("locks", plain=os.environ.get("PLAIN") == "1")
    one, two = (Server(name, ["max_connections=200"]) for name in ("locks1", "locks2"))
    for engine in ENGINES:
        world = World(cluster, one, two, engine)
        for part in (hot, queue, waits, loads, circle, mixed, quiet, numbers, kept, lost, given_back, tables, tables_altered, tables_referenced, tables_waiting, beside, parents, along, counted, looked, shown, viewed, let_go, kept_rows, moved, proved, known, died, twice, often, ended, late, killed, rates):
            if part.__name__ in parts or (not parts and part != rates):
                with section(f"{engine}, {part.__name__}"):
                    part(world)
        world.conn.close()
    for server in one, two:
        tap.equal(server.crashes(), [], "no backend died")


main(body)
