#!/usr/bin/python3
"""PostgreSQL's own commit beside that in Redis: what may refuse it does so before Redis has
decided, and if it fails all the same afterwards the error says so, and no rows are
destroyed.  A session that ends while it is prepared takes back what it has placed.

Several namespaces in one transaction: waits are bounded after the first decision; a backend
is killed at every debug point of the joint commit, and Redis nodes between its decisions.

    t/together.py [PART]..."""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

TABLES = """
    CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, v text) SERVER redis;
    INSERT INTO t SELECT n, 'old' FROM generate_series(1, 1000) n;
    CREATE TABLE mine (id int PRIMARY KEY, v text);
    INSERT INTO mine VALUES (1, 'old');"""


def state(conn):
    """The row of ours, and PostgreSQL's own."""
    return (value(conn, "SELECT v FROM t WHERE id = 1"), value(conn, "SELECT v FROM mine WHERE id = 1"))


def begin(conn, *statements):
    query(conn, "BEGIN")
    for sql in statements:
        query(conn, sql)


def keys(cluster):
    return sum(cluster.everywhere("DBSIZE"))


def notify(cluster, server):
    """The lock of NOTIFY is with a transaction that waits for a standby that is not there."""
    a, b = server.connect("shared"), server.connect("shared", synchronous_commit="on")
    waiting = threading.Thread(target=lambda: attempt(b, "INSERT INTO mine VALUES (9, ''); NOTIFY other"))
    waiting.start()
    wait_until(lambda: value(a, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == 1)
    query(a, "SET lock_timeout = '200ms'")

    begin(a, "UPDATE t SET v = 'new' WHERE id = 1", "UPDATE mine SET v = 'new'", "NOTIFY x")
    tap.equal(attempt(a, "COMMIT")[1], "55P03", "NOTIFY: COMMIT waits for its lock no longer than lock_timeout")
    tap.equal(state(a), ("old", "old"), "NOTIFY: and then nothing is committed")
    before = keys(cluster)
    begin(a, "DROP FOREIGN TABLE t", "NOTIFY x")
    tap.equal(attempt(a, "COMMIT")[1], "55P03", "NOTIFY: the same of a DROP")
    tap.equal(value(a, "SELECT count(*) FROM t"), 1000, "NOTIFY: and the rows are there")
    tap.ok(keys(cluster) >= before, "NOTIFY: all of them")
    query(server_wide, "SELECT pg_cancel_backend(%s)", (b.info.backend_pid,))
    waiting.join()

    heard = server.connect("shared")
    query(heard, "LISTEN x")
    begin(a, "UPDATE t SET v = 'new' WHERE id = 1", "NOTIFY x, 'once'")
    query(a, "COMMIT")
    wait_until(lambda: heard.poll() or heard.notifies)
    time.sleep(0.2)
    heard.poll()
    tap.equal([n.payload for n in heard.notifies], ["once"], "NOTIFY: heard once")
    query(a, "UPDATE t SET v = 'old' WHERE id = 1")
    for c in (a, b, heard):
        c.close()


def on_commit(conn):
    begin(conn, "UPDATE t SET v = 'new' WHERE id = 1",
          "CREATE TEMP TABLE p (id int PRIMARY KEY) ON COMMIT DELETE ROWS",
          "CREATE TEMP TABLE c (id int REFERENCES p) ON COMMIT PRESERVE ROWS")
    tap.equal(attempt(conn, "COMMIT")[1], "0A000", "ON COMMIT DELETE ROWS refuses because of a foreign key")
    tap.equal(state(conn), ("old", "old"), "... and then nothing is committed")
    query(conn, "CREATE TEMP TABLE kept (id int) ON COMMIT DELETE ROWS")
    begin(conn, "INSERT INTO kept VALUES (1)", "UPDATE t SET v = 'new' WHERE id = 1")
    query(conn, "COMMIT")
    tap.equal((value(conn, "SELECT count(*) FROM kept"), state(conn)), (0, ("new", "old")),
              "ON COMMIT DELETE ROWS deletes them")
    begin(conn, "CREATE TEMP TABLE gone (a int, b int) ON COMMIT DROP",
          "CREATE FOREIGN TABLE f (id int OPTIONS (key 'true') NOT NULL, x gone, y int) SERVER redis",
          "INSERT INTO f VALUES (1, (2, 3), 4)")
    query(conn, "COMMIT")
    tap.equal(attempt(conn, "SELECT * FROM f"), ([(1, 4)], None),
              "a column that ON COMMIT DROP takes along is dropped in Redis, too")
    query(conn, "DROP FOREIGN TABLE f; UPDATE t SET v = 'old' WHERE id = 1")


def failing(cluster, server):
    """An error after the decision, as of a disk that fails."""
    conn = server.connect("shared")

    def fails(name, *statements):
        begin(conn, *statements)
        query(conn, "SET LOCAL mosql_fdw.debug_error_at = 'after-decide'")
        code, message = error_of(conn, "COMMIT")
        tap.equal(code, "08007", f"{name}: PostgreSQL's commit fails after the decision: 08007")
        tap.ok('after it was done in namespace "shared"' in message, f"{name}: the error says so", message)

    fails("UPDATE", "UPDATE t SET v = 'new' WHERE id = 1", "UPDATE mine SET v = 'new'")
    tap.equal(state(conn), ("new", "old"), "UPDATE: as it says")
    query(conn, "UPDATE t SET v = 'old' WHERE id = 1")

    fails("CREATE", "CREATE FOREIGN TABLE made (id int OPTIONS (key 'true') NOT NULL) SERVER redis",
          "INSERT INTO made SELECT generate_series(1, 1000)")
    tap.equal(attempt(conn, "SELECT 1 FROM made")[1], "42P01", "CREATE: not here")
    query(conn, "IMPORT FOREIGN SCHEMA public LIMIT TO (made) FROM SERVER redis INTO public")
    tap.equal(value(conn, "SELECT count(*) FROM made"), 1000, "CREATE: but in Redis, with its rows")

    before = keys(cluster)
    fails("DROP", "DROP FOREIGN TABLE made")
    tap.equal(attempt(conn, "SELECT count(*) FROM made")[1], "42P01", "DROP: done in Redis")
    tap.ok(keys(cluster) >= before, "DROP: its rows are not destroyed", f"{before} keys, {keys(cluster)}")
    tap.ok(any("made" in str(row) for row in query(conn, "SELECT * FROM mosql_fdw_gc('redis')")),
           "DROP: mosql_fdw_gc() names the table")
    query(conn, "DROP FOREIGN TABLE made")

    before = keys(cluster)
    fails("TRUNCATE", "TRUNCATE t", "INSERT INTO t VALUES (1, 'old')")
    tap.equal(value(conn, "SELECT count(*) FROM t"), 1, "TRUNCATE: done in Redis")
    tap.ok(keys(cluster) >= before, "TRUNCATE: the former rows are not destroyed")

    fails("ALTER", "ALTER FOREIGN TABLE t ADD COLUMN w int DEFAULT 7")
    tap.equal(attempt(conn, "SELECT * FROM t")[1], "42P16", "ALTER: this server's table differs")
    query(conn, "SELECT mosql_fdw_refresh('t')")
    tap.equal(attempt(conn, "SELECT * FROM t"), ([(1, 'old', 7)], None), "ALTER: until it is refreshed")
    tap.equal(findings(conn, "t")[0], [], "all is in order")
    conn.close()


def procedures(conn):
    """COMMIT inside a procedure, COMMIT AND CHAIN: interrupts work afterwards."""
    query(conn, "CREATE PROCEDURE many() LANGUAGE plpgsql AS 'BEGIN FOR i IN 1..5 LOOP "
          "UPDATE t SET v = i WHERE id = 1; UPDATE mine SET v = i; COMMIT; END LOOP; END'")
    query(conn, "CALL many()")
    tap.equal(state(conn), ("5", "5"), "a procedure commits both")
    begin(conn, "UPDATE t SET v = 'x' WHERE id = 1")
    query(conn, "COMMIT AND CHAIN")
    query(conn, "UPDATE t SET v = 'y' WHERE id = 1")
    query(conn, "COMMIT")
    query(conn, "SET statement_timeout = '100ms'")
    tap.equal(attempt(conn, "SELECT pg_sleep(5)")[1], "57014", "and a timeout is served afterwards")
    begin(conn, "UPDATE t SET v = 'z' WHERE id = 1")
    query(conn, "SET LOCAL mosql_fdw.debug_error_at = 'after-decide'")
    attempt(conn, "COMMIT")
    tap.equal(attempt(conn, "SELECT pg_sleep(5)")[1], "57014", "... after one that failed, too")
    query(conn, "RESET statement_timeout")
    query(conn, "BEGIN; UPDATE t SET v = 'p' WHERE id = 1")
    tap.equal(attempt(conn, "PREPARE TRANSACTION 'p'")[1], "0A000", "PREPARE TRANSACTION is refused")
    tap.equal(state(conn)[0], "z", "... and nothing is there")


# ---- sessions that end ----

FOREVER = "600s"
OPTIMISTIC = {"mosql_fdw.locking": "optimistic"}


@contextlib.contextmanager
def held(server, db, point):
    """Everybody is held at the point; yields what lets them go."""
    with contextlib.closing(server.connect(db)) as c:
        query(c, f"SELECT mosql_fdw_debug_lock('{point}')")
        yield lambda: query(c, f"SELECT mosql_fdw_debug_unlock('{point}')")


def in_background(conn, sql):
    result = []
    t = threading.Thread(target=lambda: result.append(error_of(conn, sql)))
    t.start()
    return t, result


def waiting(probe, backend):
    return value(probe, "SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted", (backend,))


def waits(probe, backend):
    return wait_until(lambda: waiting(probe, backend))


def terminate(probe, conn):
    query(probe, "SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,))


def hang_up_now(probe, conn):
    with socket.socket(fileno=os.dup(conn.fileno())) as s:
        s.shutdown(socket.SHUT_RDWR)


def hang_up(probe, conn):
    hang_up_now(probe, conn)
    time.sleep(1.5)             # client_connection_check_interval, 0.1 s


def outlast(probe, conn):
    time.sleep(2)               # transaction_timeout, 0.8 s


def free_at_once(conn, name, tables=("t",)):
    """Nobody's intents are in the way, although they would not time out."""
    query(conn, f"SET mosql_fdw.intent_timeout = '{FOREVER}'; SET mosql_fdw.commit_timeout = '{LONG_WAIT}s'")
    started = time.monotonic()
    states = [attempt(conn, f"UPDATE {t} SET v = 'old' WHERE id = 1")[1] for t in tables]
    took = time.monotonic() - started
    tap.ok(set(states) == {None} and took < LONG_WAIT, f"{name}: what it had placed is taken back", (states, took))
    query(conn, "RESET mosql_fdw.intent_timeout; RESET mosql_fdw.commit_timeout")


def ended(server):
    """A backend is terminated, or its client gone, between its prepare and its decision."""
    probe = server.connect("shared")
    for tables in (("t",), ("t", "b.t")):
        for point in ("prepare-some", "after-prepare", "before-decide"):
            for how in (terminate, hang_up) + (outlast,) * (probe.server_version >= 170000):
                name = f"{how.__name__} at {point}, {len(tables)} namespaces"
                conn = server.connect("shared")
                backend = conn.info.backend_pid
                query(conn, "SET mosql_fdw.debug_points = on; SET mosql_fdw.one_step = off; SET client_connection_check_interval = '100ms'")
                if how == outlast:
                    query(conn, "SET transaction_timeout = '800ms'")
                begin(conn, "UPDATE mine SET v = 'new'", *(f"UPDATE {t} SET v = 'new' WHERE id = 1" for t in tables))
                with held(server, "shared", point) as go:
                    t, result = in_background(conn, "COMMIT")
                    waits(probe, backend)
                    how(probe, conn)
                    go()
                t.join(60)
                tap.ok(result and result[0][0] in ("57P01", "25P04", "gone"), f"{name}: the session ends", result)
                wait_until(lambda: value(probe, "SELECT count(*) FROM pg_stat_activity WHERE pid = %s", (backend,)) == 0)
                free_at_once(probe, name, tables)
                tap.equal(state(probe), ("old", "old"), f"{name}: nothing is committed")
                conn.close()

    # ... while it waits for NOTIFY's lock, it has placed nothing
    # (without locks: else its row is locked, as in PostgreSQL)
    a, b, c = (server.connect("shared", synchronous_commit=s, **OPTIMISTIC) for s in ("local", "on", "local"))
    t, _ = in_background(b, "INSERT INTO mine VALUES (8, ''); NOTIFY other")
    wait_until(lambda: value(probe, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == 1)
    begin(a, "UPDATE t SET v = 'new' WHERE id = 1", "NOTIFY x")
    u, result = in_background(a, "COMMIT")
    waits(probe, a.info.backend_pid)
    free_at_once(c, "waiting for NOTIFY's lock")
    query(probe, "SELECT pg_terminate_backend(%s)", (a.info.backend_pid,))
    u.join(60)
    tap.ok(result[0][0] in ("57P01", "gone"), "waiting for NOTIFY's lock: the session can be ended", result)
    query(probe, "SELECT pg_cancel_backend(%s)", (b.info.backend_pid,))
    t.join(60)
    query(probe, "DELETE FROM mine WHERE id = 8")
    for x in (a, b, c, probe):
        x.close()


def handed_over(server, engine):
    """A backend ends in the middle of a transaction: who waits for its rows has them at once, in whatever leaf they are."""
    probe = server.connect("shared")
    for row in (1, 700):
        took = []
        for how in (terminate, hang_up_now, terminate):
            holder, waiter = server.connect("shared"), server.connect("shared")
            if row == 700:      # these are dropped first, and all is rolled back before
                query(holder, "CREATE TEMP TABLE goes (i int)")
            begin(holder, "SELECT v FROM t WHERE id % 20 = 0 FOR UPDATE", "SAVEPOINT s",
                  f"SELECT v FROM t WHERE id = {row} FOR UPDATE")
            t, result = in_background(waiter, f"UPDATE t SET v = v WHERE id = {row}")
            tap.ok(wait_until(lambda: value(probe, "SELECT count(*) FROM mosql_fdw_locks WHERE NOT granted")), "handed over: one waits")
            started = time.monotonic()
            how(probe, holder)
            t.join(60)
            took.append(time.monotonic() - started)
            tap.equal(result, [(None, None)], "handed over: and has the row")
            holder.close()
            waiter.close()
        # who is not told looks once a second
        tap.ok(engine == "watch" or min(took) < 0.5, f"handed over: at once, row {row}", took)
    probe.close()


def exits(cluster, server):
    """Redis is silent when a backend is terminated that has made a table, and locked rows: its exit waits for nothing."""
    probe, conn = server.connect("shared"), server.connect("shared")
    begin(conn, "CREATE FOREIGN TABLE made (id int OPTIONS (key 'true') NOT NULL) SERVER redis",
          "INSERT INTO made SELECT generate_series(1, 100)", "SELECT 1 FROM t FOR UPDATE")
    backend, before = conn.info.backend_pid, len(re.findall("FATAL", server.log()))
    for p in cluster.primaries:
        cluster.pid(p)
        cluster.signal(p, signal.SIGSTOP)
    try:
        started = time.monotonic()
        terminate(probe, conn)
        gone = wait_until(lambda: value(probe, "SELECT count(*) FROM pg_stat_activity WHERE pid = %s", (backend,)) == 0)
        took = time.monotonic() - started
    finally:
        for p in cluster.primaries:
            cluster.signal(p, signal.SIGCONT)
    tap.ok(gone and took < 5, "exit while Redis is silent: at once", f"{took:.1f} s")
    tap.equal(len(re.findall("FATAL", server.log())) - before, 1, "exit while Redis is silent: no other error on the way")
    wait_until(lambda: attempt(probe, "SELECT 1 FROM t WHERE id = 1")[1] is None)
    for c in (probe, conn):
        c.close()


# ---- renames ----

def renames(server):
    """ALTER TYPE ... RENAME VALUE keeps nobody from the tables, and nobody sees half of it."""
    owner, probe = server.connect("shared"), server.connect("shared")
    query(owner, "CREATE TYPE mood AS ENUM ('ok', 'sad'); "
          "CREATE FOREIGN TABLE feels (id int OPTIONS (key 'true') NOT NULL, m mood DEFAULT 'ok' CHECK (m <> 'sad')) "
          "SERVER redis; INSERT INTO feels VALUES (1, 'ok')")
    query(probe, "SET statement_timeout = '25s'; SELECT * FROM feels")
    begin(owner, "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'")
    tap.equal(attempt(probe, "SELECT m FROM feels WHERE id = 1"), ([("ok",)], None), "RENAME VALUE: rows are read meanwhile")
    tap.equal(attempt(probe, "INSERT INTO feels VALUES (2, 'ok')"), (None, None), "RENAME VALUE: and written")
    with contextlib.closing(server.connect("shared")) as new:
        tap.equal(attempt(new, "SET statement_timeout = '25s'; SELECT count(*) FROM feels WHERE m = 'ok'"), ([(2,)], None),
                  "RENAME VALUE: by a new session, too")
    query(probe, "RESET statement_timeout")
    query(owner, "SET mosql_fdw.debug_points = on")
    with held(server, "shared", "after-decide") as go:
        t, result = in_background(owner, "COMMIT")
        waits(probe, owner.info.backend_pid)
        new = server.connect("shared")
        u, seen = in_background(new, "SELECT m FROM feels ORDER BY id")
        tap.ok(waits(probe, new.info.backend_pid), "RENAME VALUE: after the decision who opens the table waits")
        go()
    t.join(60)
    u.join(60)
    tap.equal((result, seen), ([(None, None)], [(None, [("fine",), ("fine",)])]), "RENAME VALUE: and finds the new name")
    tap.equal(attempt(probe, "SELECT m FROM feels WHERE id = 2"), ([("fine",)], None), "RENAME VALUE: as does everybody")
    new.close()

    # whom COMMIT waits for, because he has locked the table, opens it meanwhile
    begin(owner, "ALTER TYPE mood RENAME VALUE 'fine' TO 'good'")
    begin(probe, "SET LOCAL lock_timeout = '8s'", "LOCK TABLE feels IN SHARE MODE")
    t, result = in_background(owner, "COMMIT")
    tap.ok(wait_until(lambda: value(server_wide, "SELECT count(*) FROM mosql_fdw_locks WHERE NOT granted")),
           "RENAME VALUE: COMMIT waits for who has locked the table")
    tap.equal(attempt(probe, "SELECT m FROM feels WHERE id = 1; COMMIT")[1], None, "RENAME VALUE: who opens it")
    attempt(probe, "ROLLBACK")
    t.join(60)
    tap.equal(result, [(None, None)], "RENAME VALUE: then it goes on")
    query(owner, "ALTER TYPE mood RENAME VALUE 'good' TO 'fine'")

    # without an end, beside readers and writers, old sessions and new ones
    query(owner, "RESET mosql_fdw.debug_points")
    errors, stop = {}, threading.Event()

    def turn(fresh):
        conn = server.connect("shared")
        n = 0
        while not stop.is_set():
            n += 1
            if fresh:
                conn.close()
                conn = server.connect("shared")
            for sql in ("SELECT m FROM feels WHERE id = 1", "SELECT count(*) FROM feels",
                        "INSERT INTO feels VALUES (floor(random() * 1000000)) ON CONFLICT DO NOTHING"):
                code, text = error_of(conn, sql)
                if code not in (None, CONFLICT):
                    errors[code] = text
        conn.close()
    threads = [threading.Thread(target=turn, args=(i == 0,)) for i in range(3)]
    for t in threads:
        t.start()
    names, done = ["fine", "good"], 0
    until = time.monotonic() + 5
    while time.monotonic() < until:
        code, text = error_of(owner, f"ALTER TYPE mood RENAME VALUE '{names[0]}' TO '{names[1]}'")
        done += code is None
        if code is None:
            names.reverse()
        elif code != CONFLICT:
            errors["rename " + code] = text
    stop.set()
    for t in threads:
        t.join(60)
    tap.note(f"{done} renames")
    tap.equal(errors, {}, "renames without an end: nobody is told that another server changed the table")
    query(owner, "DROP FOREIGN TABLE feels; DROP TYPE mood")
    for c in (owner, probe):
        c.close()


# ---- several namespaces ----

def bounded(server):
    """Definitions change again and again after the first decision: COMMIT comes to an end."""
    probe, other, conn = (server.connect("shared") for _ in range(3))
    lockers = [server.connect("shared") for _ in range(2)]
    point = "after-prepare"

    def change():               # of other tables
        for name in ("redis", "other"):
            query(other, f"CREATE FOREIGN TABLE x_{name} (id int OPTIONS (key 'true') NOT NULL) SERVER {name}")
            query(other, f"DROP FOREIGN TABLE x_{name}")

    query(conn, "SET mosql_fdw.debug_points = on; SET mosql_fdw.commit_timeout = '1s'")
    begin(conn, "UPDATE t SET v = 'new' WHERE id = 1", "UPDATE b.t SET v = 'new' WHERE id = 1")
    with held(server, "shared", "decided-some") as go:
        t, result = in_background(conn, "COMMIT")
        waits(probe, conn.info.backend_pid)
        query(lockers[0], f"SELECT mosql_fdw_debug_lock('{point}')")
        change()
        go()
    started = time.monotonic()
    for i in range(14):
        # the next one stands behind the victim in the lock's queue, and has it after it
        wait_until(lambda: result or waiting(probe, conn.info.backend_pid))
        if result:
            break
        time.sleep(1.1)
        change()
        u, _ = in_background(lockers[(i + 1) % 2], f"SELECT mosql_fdw_debug_lock('{point}')")
        waits(probe, lockers[(i + 1) % 2].info.backend_pid)
        query(lockers[i % 2], f"SELECT mosql_fdw_debug_unlock('{point}')")
        u.join(60)
        wait_until(lambda: result, 0.5)
    for c in lockers:
        c.close()
    t.join(60)
    took = time.monotonic() - started
    tap.ok(result and result[0][0] == "08007" and "refused repeatedly" in result[0][1],
           "endless DDL after the first decision: 08007", result)
    tap.ok(took < 12, "endless DDL: not much later than mosql_fdw.commit_timeout", f"{took:.1f} s")   # 14 rounds take 16 s
    query(probe, "UPDATE t SET v = 'old' WHERE id = 1; UPDATE b.t SET v = 'old' WHERE id = 1")
    for c in (probe, other, conn):
        c.close()


def crossing(server):
    """Two transactions use the namespaces in opposite orders: who waits holds nothing that comes later.
    (With locks they would wait for each other before COMMIT: docs/locking.md.)"""
    probe, one, two = (server.connect("shared", **OPTIMISTIC) for _ in range(3))
    with contextlib.closing(server.connect("shared")) as conn:      # locks of who died in other parts are in nobody's way then
        for table in "t", "b.t":
            query(conn, f"SELECT FROM {table} WHERE id = 1 FOR UPDATE")
    for conn, tables in ((one, ("b.t", "t")), (two, ("t", "b.t"))):
        query(conn, f"SET mosql_fdw.intent_timeout = '{FOREVER}'")
        begin(conn, *(f"UPDATE {t} SET v = v WHERE id = 1" for t in tables))
    query(one, "SET mosql_fdw.debug_points = on")
    with held(server, "shared", "after-prepare") as go:
        t, first = in_background(one, "COMMIT")
        waits(probe, one.info.backend_pid)      # it is prepared in "second", and nowhere else
        u, second = in_background(two, "COMMIT")
        time.sleep(0.5)
        tap.equal(findings(probe, "t")[1], [], "crossing: the second has placed nothing in what the first needs")
        tap.ok(not second, "crossing: it waits", second)
        started = time.monotonic()
        go()
    t.join(60)
    u.join(60)
    took = time.monotonic() - started
    tap.ok((first[0][0], second[0][0]) == (None, CONFLICT) and took < 9, "crossing: the first gets through at once",
           (first, second, took))
    for c in (probe, one, two):
        c.close()


def aside(server):
    """COMMIT waits for a lock of a row, whose holder wants what the commit would keep from him meanwhile."""
    one, two = server.connect("shared", **OPTIMISTIC), server.connect("shared", lock_timeout="8s")
    query(two, "CREATE FOREIGN TABLE b.wide (id int OPTIONS (key 'true') NOT NULL, v text) SERVER other; "
          "INSERT INTO b.wide SELECT n, 'old' FROM generate_series(1, 3000) n")
    for name, first, then, last in (
            ("NOTIFY's lock", "NOTIFY x", "NOTIFY x", "COMMIT"),
            ("a row next to many of another namespace", "UPDATE b.wide SET v = 'new' WHERE id % 2 = 0", "SELECT 1",
             "SELECT v FROM b.wide WHERE id = 1 FOR UPDATE; COMMIT")):
        begin(one, "UPDATE t SET v = 'aside' WHERE id = 1", first)
        begin(two, "SELECT v FROM t WHERE id = 1 FOR UPDATE", then)
        t, result = in_background(one, "COMMIT")
        tap.ok(wait_until(lambda: value(server_wide, "SELECT count(*) FROM mosql_fdw_locks WHERE NOT granted")),
               f"aside: COMMIT waits for a row whose holder wants {name}")
        tap.equal(attempt(two, last)[1], None, "aside: he has it")
        attempt(two, "ROLLBACK")
        t.join(60)
        tap.equal(result, [(None, None)], "aside: and so has COMMIT the row")
        attempt(one, "ROLLBACK")
    query(two, "UPDATE t SET v = 'old' WHERE id = 1; DROP FOREIGN TABLE b.wide")
    for c in (one, two):
        c.close()


def lapsed(server):
    """Both leases end between the decisions, and maintenance takes the session for dead: the rest is
    prepared again under another id, and decides; unless somebody has changed it meanwhile.  Without
    locks: the keeper would extend the lease of a session that holds some, as long as its process is there."""
    probe, conn = server.connect("shared", **OPTIMISTIC), server.connect("shared", **OPTIMISTIC)
    query(conn, "SET mosql_fdw.debug_lease = '500ms'; SET mosql_fdw.debug_points = on")
    for row, code in ((100, None), (1, "08007")):
        tag = f"lapsed {row}"
        joint(conn, tag)
        with held(server, "shared", "decided-some") as go:
            t, result = in_background(conn, "COMMIT")
            waits(probe, conn.info.backend_pid)
            time.sleep(1.2)
            for name in ("redis", "other"):
                query(probe, f"SELECT mosql_fdw_maintain('{name}')")
            for table in ("t", "b.t"):
                query(probe, f"UPDATE {table} SET v = 'other' WHERE id = {row}")
            go()
        t.join(60)
        tap.equal(result[0][0], code, f"a lease ends between two decisions, row {row} is changed: {code}")
        attempt(conn, "ROLLBACK")
        # joint() writes the rows 1, 51, 101 ...
        counts = [tagged(probe, table, tag) for table in ("t", "b.t")]
        tap.equal(counts, [20, 20] if code is None else [19, 0], "... as it says")
    query(probe, "UPDATE t SET v = 'old'; UPDATE b.t SET v = 'old'; UPDATE mine SET v = 'old'")
    tap.equal([f for table in ("t", "b.t") for f in findings(probe, table)[0]], [], "... and nothing is broken")
    for c in (probe, conn):
        c.close()


# What a backend leaves that is killed there: in the namespace that decides first, in the other.
KILLED = {
    "before-prepare": (0, 0), "prepare-some": (0, 0), "after-prepare": (0, 0), "before-decide": (0, 0),
    "decided-some": (1, 0), "after-decide": (1, 1), "apply-some": (1, 1), "after-apply": (1, 1),
}
ROWS = 1000                     # of each namespace, on all nodes


def tagged(conn, table, tag):
    """Of the rows that a transaction writes: how many there are, at one snapshot."""
    return value(conn, f"SELECT count(*) FROM {table} WHERE v = %s", (tag,))


def joint(conn, tag, rows=20):
    """One transaction in both namespaces, and PostgreSQL's own table."""
    begin(conn, *(f"UPDATE {t} SET v = '{tag}' WHERE id % {ROWS // rows} = 1" for t in ("t", "b.t")),
          f"UPDATE mine SET v = '{tag}' WHERE id = 1")


def killed(one, two, engine):
    """kill -9 of the backend at each point of the joint commit; clients of another server go on."""
    look = two.connect("shared")
    with open(os.path.join(TOP, "src/txn/together.c")) as source:
        points = set(re.findall(r'MOSQL_DEBUG_POINT\("([^"]+)"\)', source.read()))
    tap.ok(points and points <= set(KILLED), "a backend is killed at each debug point of together.c", points)
    for number, point in enumerate(KILLED):
        if engine == "watch" and point == "apply-some":
            continue            # it sends nothing that it does not wait for
        name = f"{engine}, killed at {point}"
        probe, conn = one.connect(), one.connect("shared")
        joint(conn, f"told {number}")
        query(conn, "COMMIT")
        query(conn, f"SET mosql_fdw.debug_crash_at = '{point}'")
        joint(conn, f"lost {number}", 40)
        tap.equal(attempt(conn, "COMMIT")[1], "gone", f"{name}: it dies")
        started = time.monotonic()
        # rows: 40 of the second, among them the 20 of the first
        seen = [tuple(tagged(look, t, f"{what} {number}") for what in ("told", "lost")) for t in ("t", "b.t")]
        wanted = {0: (20, 0), 1: (0, 40)}
        tap.equal(seen, [wanted[i] for i in KILLED[point]],
                  f"{name}: each namespace has all of it or nothing, and what was acknowledged")
        states = [attempt(look, f"UPDATE {t} SET v = v")[1] for t in ("t", "b.t")]
        took = time.monotonic() - started
        tap.ok(states == [None, None] and took < LONG_WAIT, f"{name}: others change the same rows", (states, took))
        tap.equal([tuple(tagged(look, t, f"{what} {number}") for what in ("told", "lost")) for t in ("t", "b.t")],
                  seen, f"{name}: and it stays so")
        left = [f for t in ("t", "b.t") for fs in findings(look, t) for f in fs]
        if left:
            wait_until(lambda: not any(fs for t in ("t", "b.t") for fs in findings(look, t)))
            left = [f for t in ("t", "b.t") for fs in findings(look, t) for f in fs]
        tap.equal(left, [], f"{name}: nothing is left over")
        wait_until(lambda: attempt(probe, "SELECT 1")[1])
        probe.close()
        one.wait_up()
        with contextlib.closing(one.connect("shared")) as again:
            tap.equal(value(again, "SELECT v FROM mine WHERE id = 1"), f"told {number}",
                      f"{name}: PostgreSQL's own table is as it was")
    look.close()


class Disks:
    """Two Redis servers that keep what they have acknowledged, one namespace on each."""

    def __init__(self):
        self.all = {ns: Cluster("together-" + ns, plain=True, settings=("appendonly yes", "appendfsync always"))
                    for ns in ("shared", "second")}

    def die(self, ns):
        self.all[ns].kill(self.all[ns].ports[0])

    def wake(self, ns):
        self.all[ns].restart(self.all[ns].ports[0])

    def fall_silent(self, ns):
        self.all[ns].pid(self.all[ns].ports[0])
        self.all[ns].signal(self.all[ns].ports[0], signal.SIGSTOP)

    def speak(self, ns):
        self.all[ns].signal(self.all[ns].ports[0], signal.SIGCONT)

    def stop(self):
        for c in self.all.values():
            c.stop()


def nodes_fail(server, disks, engine):
    """A Redis node fails between the decisions: that of the first namespace, or of the second."""
    look = server.connect("shared")
    ns_of = {"t": "shared", "b.t": "second"}
    for fail, mend in ((disks.die, disks.wake), (disks.fall_silent, disks.speak)):
        for which in ("first", "second"):
            name = f"{engine}, {fail.__name__.replace('_', ' ')}, {which}"
            tag = name.replace(",", "")
            conn = server.connect("shared")
            query(conn, "SET mosql_fdw.debug_points = on")
            joint(conn, tag)    # t comes first
            failing_ns = "shared" if which == "first" else "second"
            with held(server, "shared", "decided-some") as go:
                t, result = in_background(conn, "COMMIT")
                waits(look, conn.info.backend_pid)
                fail(failing_ns)
                go()
                t.join(60)
            code, text = result[0]
            attempt(conn, "ROLLBACK")
            mend(failing_ns)
            if which == "first":
                tap.equal(code, None, f"{name}: COMMIT succeeds, for both have decided")
                wanted = {"t": {20}, "b.t": {20}}
            else:
                tap.ok(code == "08007" and 'It is committed in namespace "shared"' in text and
                       re.search('not( known)? in namespace "second"', text), f"{name}: 08007 names both", result)
                wanted = {"t": {20}, "b.t": {0, 20}}
                asked = re.search(r"mosql_fdw_transaction_status\(server, '([0-9.]+)'\)", text)
                if asked:
                    fate = wait_until(lambda: attempt(look, "SELECT mosql_fdw_transaction_status('other', %s)",
                                                      (asked[1],))[0])[0][0]
                    if fate == "in progress":   # its session settles it with its next transaction
                        wait_until(lambda: attempt(conn, "UPDATE b.t SET v = v WHERE id = 500")[1] is None)
                        fate = value(look, "SELECT mosql_fdw_transaction_status('other', %s)", (asked[1],))
                    tap.ok(fate in ("committed", "aborted"), f"{name}: asked later, it is known", fate)
                    wanted["b.t"] = {20 if fate == "committed" else 0}
            # what could not be given back of its locks goes with its next transaction, or with its lease
            for table in wanted:
                wait_until(lambda: attempt(conn, f"SELECT 1 FROM {table} WHERE id = 1")[1] is None)
            for table, counts in wanted.items():
                ok = wait_until(lambda: attempt(look, f"SELECT 1 FROM {table} WHERE id = 1")[1] is None)
                got = tagged(look, table, tag) if ok else None
                tap.ok(got in counts, f"{name}: {ns_of[table]} is as COMMIT said", (got, counts))
                until = wait_until(lambda: attempt(look, f"UPDATE {table} SET v = v")[1] is None)
                tap.ok(until, f"{name}: all rows of {ns_of[table]} can be changed")
                tap.equal(findings(look, table)[0], [], f"{name}: nothing is broken in {ns_of[table]}")
            tap.equal(value(look, "SELECT v FROM mine WHERE id = 1") == tag, code is None,
                      f"{name}: PostgreSQL's own table, too")
            conn.close()
    look.close()


def second_namespace(conn, nodes, engine, ns, create):
    query(conn, f"CREATE SERVER other FOREIGN DATA WRAPPER mosql_fdw OPTIONS (nodes '{nodes}', namespace '{ns}', "
          f"atomic '{engine}', command_timeout '2000'); CREATE SCHEMA b")
    if create:
        query(conn, f"CREATE FOREIGN TABLE b.t (id int OPTIONS (key 'true') NOT NULL, v text) SERVER other; "
              f"INSERT INTO b.t SELECT n, 'old' FROM generate_series(1, {ROWS}) n")
    else:
        query(conn, "IMPORT FOREIGN SCHEMA b LIMIT TO (t) FROM SERVER other INTO b")


def kills(cluster):
    one, two = Server("together1"), Server("together2")
    for engine in ENGINES:
        for s in (one, two):
            make_database(s, "shared", cluster.nodes, {"atomic": engine}, TABLES if s is one else "")
            with contextlib.closing(s.connect("shared")) as c:
                if s is two:
                    query(c, "IMPORT FOREIGN SCHEMA public LIMIT TO (t) FROM SERVER redis INTO public")
                second_namespace(c, cluster.nodes, engine, "second", s is one)
        killed(one, two, engine)
        cluster.everywhere("FLUSHALL")
    tap.equal(one.crashes() + two.crashes(), [], "no backend died of itself")


def failures(server):
    for engine in ENGINES:
        disks = Disks()
        make_database(server, "shared", disks.all["shared"].nodes, {"atomic": engine, "command_timeout": "2000"}, TABLES)
        with contextlib.closing(server.connect("shared")) as c:
            second_namespace(c, disks.all["second"].nodes, engine, "second", True)
        nodes_fail(server, disks, engine)
        disks.stop()


def body():
    global server_wide
    cluster = Cluster("together")
    server = Server("together", ["synchronous_standby_names=nobody", "synchronous_commit=local",
                                 "max_prepared_transactions=2"])
    wanted = sys.argv[1:]

    def part(name, run, *args):
        if not wanted or name in wanted:
            with section(name):
                run(*args)

    for engine in ENGINES:
        tap.note(f"==== {engine}")
        make_database(server, "shared", cluster.nodes, {"atomic": engine}, TABLES)
        server_wide = server.connect("shared")
        second_namespace(server_wide, cluster.nodes, engine, "second", True)
        part("on_commit", on_commit, server_wide)
        part("notify", notify, cluster, server)
        part("ended", ended, server)
        part("handed_over", handed_over, server, engine)
        part("exits", exits, cluster, server)
        part("renames", renames, server)
        part("crossing", crossing, server)
        part("aside", aside, server)
        part("lapsed", lapsed, server)
        part("bounded", bounded, server)
        part("procedures", procedures, server_wide)
        query(server_wide, "UPDATE t SET v = 'old' WHERE id = 1; UPDATE mine SET v = 'old'")
        part("failing", failing, cluster, server)
        server_wide.close()
        cluster.everywhere("FLUSHALL")
    part("failures", failures, server)
    part("kills", kills, cluster)
    tap.equal(server.crashes(), [], "no backend crashed")


main(body)
