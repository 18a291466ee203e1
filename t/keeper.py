#!/usr/bin/python3
"""The keeper (src/admin/keeper.c): who waits for his client keeps his session, who is gone
loses it at once, and where nobody holds anything nothing is asked.

  idle     a transaction with a snapshot waits for its client for longer than its lease; others
           change what it reads all the while; it goes on as if nothing had been
  gone     backends are killed (the server restarts) or terminated in the middle of
           transactions: their sessions are gone soon, those of others stay
  restart  the server is stopped at once and started again: the same
  stopped  a whole server sleeps (SIGSTOP) for longer than the lease: it has lost its session,
           and waking up does not bring it back
  locks    a row that is locked stays so for longer than a lease, and is free when its backend is
           killed; the view mosql_fdw_locks; wait events, log_lock_waits, counters
  dropped  a database is dropped beneath its open transactions: no worker is started for it
  crowded  no worker can be started: the log says so, once
  quiet    nobody holds anything: not one command

Each with the keeper that PostgreSQL starts, and with one that the first transaction asks for.
    t/keeper.py [PART]...
"""
import glob
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

LEASE = 5                       # seconds, of those that are to outlive it: the keeper extends it each second
WITHIN = 20.0                   # seconds until a dead session is gone: mostly 1; its lease would last for 30 to 60
TABLE = "CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, v int) SERVER redis"


class World:
    def __init__(self, cluster, server, other, engine, name):
        self.cluster, self.server, self.other = cluster, server, other
        self.db = f"keeper_{name}_{engine}"
        for s in (server, other):
            make_database(s, self.db, cluster.nodes, {"atomic": engine}, TABLE)
        self.far = other.connect(self.db)       # of the other server: it sees all sessions
        query(self.far, "INSERT INTO t SELECT g, 0 FROM generate_series(1, 10) g")

    def holder(self, lease=None):
        """A connection in a transaction with a snapshot, and its session's id."""
        conn = self.server.connect(self.db, **{"mosql_fdw.snapshot_cache": 0, **({"mosql_fdw.debug_lease": lease * 1000} if lease else {})})
        query(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ")
        query(conn, "SELECT sum(v) FROM t")
        return conn, value(conn, "SELECT session_id FROM mosql_fdw_sessions('redis') WHERE own")

    def state(self, sid):
        rows = query(self.far, "SELECT state FROM mosql_fdw_sessions('redis') WHERE session_id = %s", (sid,))
        return rows[0][0] if rows else None

    def gone(self, sid, seconds=WITHIN):
        """Within how many seconds it went; None: it did not."""
        started = time.monotonic()
        return time.monotonic() - started if wait_until(lambda: self.state(sid) is None, seconds) else None

    def close(self):
        self.far.close()


def gone_soon(world, sid, name):
    took = world.gone(sid)
    tap.ok(took is not None, f"{name}: its session is gone", f"it is {world.state(sid)}")
    if took is not None:
        tap.note(f"{name}: after {took:.2f} s")


def keeper_there(world):
    """It is, and has looked at what is noted."""
    with contextlib.closing(world.server.connect()) as conn:
        wait_until(lambda: value(conn, "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'mosql_fdw keeper'"))
    time.sleep(1.5)


def children(pid):
    pids = [pid]
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            with open(path) as f:
                fields = f.read().rsplit(")", 1)[1].split()
            if int(fields[1]) == pid:
                pids.append(int(path.split("/")[2]))
    return pids


def idle(world, name):
    conn, sid = world.holder(LEASE)
    reader = world.server.connect(world.db, **{"mosql_fdw.debug_lease": LEASE * 1000})
    query(reader, "BEGIN; SELECT sum(v) FROM t")
    without = value(reader, "SELECT session_id FROM mosql_fdw_sessions('redis') WHERE own")
    seen = set()
    end = time.monotonic() + 2 * LEASE
    while time.monotonic() < end:
        query(world.far, "UPDATE t SET v = v + 1 WHERE id <= 5")
        seen.add(world.state(sid))
        time.sleep(0.2)
    tap.equal(seen, {"alive"}, f"{name}: its session lives for two leases")
    tap.ok(world.state(without) != "alive", f"{name}: that of a transaction that holds nothing does not")
    tap.equal(error_of(conn, "SELECT sum(v) FROM t"), (None, [(0,)]), f"{name}: it reads on, at its snapshot")
    query(conn, "COMMIT")
    conn.close()
    reader.close()


def gone(world, name):
    stays = world.other.connect(world.db)
    query(stays, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT sum(v) FROM t")
    theirs = value(stays, "SELECT session_id FROM mosql_fdw_sessions('redis') WHERE own")

    conn, sid = world.holder()
    mine, here = world.holder()
    keeper_there(world)
    query(mine, "SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,))
    gone_soon(world, sid, f"{name}, terminated")
    tap.equal(world.state(here), "alive", f"{name}, terminated: that of another backend stays")

    os.kill(mine.info.backend_pid, signal.SIGKILL)
    tap.ok(world.server.wait_up(), f"{name}, killed: the server is back")
    gone_soon(world, here, f"{name}, killed")
    tap.equal(world.state(theirs), "alive", f"{name}: that of another server stays")
    for c in (conn, mine, stays):
        c.close()


def restart(world, name):
    conn, sid = world.holder()
    world.server.restart("immediate")
    world.server.wait_up()
    if "asked for" in name:     # by the first transaction, then
        world.holder()[0].close()
    gone_soon(world, sid, name)
    conn.close()


def stopped(world, name):
    conn, sid = world.holder(LEASE)
    query(world.far, "SELECT pg_sleep(%s)", (LEASE,))
    tap.equal(world.state(sid), "alive", f"{name}: it lives")
    pids = children(world.server.postmaster())
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(LEASE + 1)
        tap.ok(world.state(sid) != "alive", f"{name}: the session is dead", world.state(sid))
        query(world.far, "SELECT mosql_fdw_maintain('redis')")     # which forgets the dead
        query(world.far, "UPDATE t SET v = v + 1")
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)
    time.sleep(LEASE)           # it does not come back
    tap.ok(world.state(sid) != "alive", f"{name}: and stays dead", world.state(sid))
    tap.ok(error_of(conn, "SELECT sum(v) FROM t")[0] is not None, f"{name}: its snapshot is gone")
    conn.close()


def waiter(world, got):
    """Somebody on the other server who wants row 1."""
    def run():
        with contextlib.closing(world.other.connect(world.db, **{"mosql_fdw.locking": "pessimistic"})) as conn:
            query(conn, "SET lock_timeout = '60s'; BEGIN")
            got.append(error_of(conn, "SELECT v FROM t WHERE id = 1 FOR UPDATE")[0])
            got.append(time.monotonic())
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def locks(world, name):
    """A lock lives as long as its session; who waits for a dead one gets it."""
    settings = {"mosql_fdw.locking": "pessimistic", "mosql_fdw.debug_lease": LEASE * 1000}
    holder, got = world.server.connect(world.db, **settings), []
    query(holder, "BEGIN; SELECT v FROM t WHERE id = 1 FOR UPDATE")
    thread = waiter(world, got)
    time.sleep(2 * LEASE)
    tap.equal(got, [], f"{name}: a lock is held for two leases")
    rows = query(world.far, "SELECT l.granted, l.mode, l.key, l.table_name, l.pid, l.waits_for = "
                            "ARRAY[h.session_id], l.transaction_start < now() FROM mosql_fdw_locks l, "
                            "mosql_fdw_locks h WHERE h.granted ORDER BY l.granted DESC")
    tap.equal([(r[0], r[1], r[2], r[3], r[5], r[6]) for r in rows],
              [(True, "FOR UPDATE", "(id)=(1)", "public.t", None, True),
               (False, "FOR UPDATE", "(id)=(1)", "public.t", True, True)],
              f"{name}: mosql_fdw_locks shows who holds it, and who waits for whom")
    tap.equal(rows[0][4], holder.info.backend_pid, f"{name}: and which process that is")
    query(holder, "COMMIT")
    thread.join(60)
    tap.equal(got[:1], [None], f"{name}: it is given on at COMMIT")
    holder.close()

    holder, got = world.server.connect(world.db, **{"mosql_fdw.locking": "pessimistic"}), []
    query(holder, "BEGIN; SELECT v FROM t WHERE id = 1 FOR UPDATE")
    thread = waiter(world, got)
    keeper_there(world)
    os.kill(holder.info.backend_pid, signal.SIGKILL)
    world.server.wait_up()
    back = time.monotonic()
    thread.join(60)
    tap.ok(got[:1] == [None] and got[1] - back < WITHIN, f"{name}: the lock of a backend that was killed is given on", got)
    if len(got) == 2:
        tap.note(f"{name}: {got[1] - back:.2f} s after the server was back")
    holder.close()
    many_rows(world, name)


def many_rows(world, name):
    """Rows that a dead one had locked are not waited for one by one."""
    query(world.far, "INSERT INTO t SELECT g, 0 FROM generate_series(101, 400) g")
    holder = world.server.connect(world.db, **{"mosql_fdw.locking": "pessimistic"})
    query(holder, "BEGIN; UPDATE t SET v = -v WHERE id > 100; INSERT INTO t SELECT g, 0 FROM generate_series(501, 560) g")
    os.kill(holder.info.backend_pid, signal.SIGKILL)
    holder.close()
    world.server.wait_up()
    with contextlib.closing(world.other.connect(world.db, **{"mosql_fdw.locking": "pessimistic"})) as conn:
        since = time.monotonic()
        query(conn, "SET lock_timeout = '60s'")
        got = [error_of(conn, sql)[0] for sql in ("UPDATE t SET v = -v WHERE id > 100",
                                                  "INSERT INTO t SELECT g, 0 FROM generate_series(501, 560) g")]
        took = time.monotonic() - since
    tap.ok(got == [None, None] and took < WITHIN, f"{name}: so are some hundred rows, all at once", f"{got}, {took:.2f} s")
    query(world.far, "DELETE FROM t WHERE id > 100")


def seen(world, name):
    """Wait event, log_lock_waits, counters, of those who wait and those who do not."""
    settings = {"mosql_fdw.locking": "pessimistic", "log_lock_waits": "on", "deadlock_timeout": "300ms"}
    with contextlib.closing(world.server.connect(world.db, **settings)) as holder, \
            contextlib.closing(world.server.connect(world.db, **settings)) as late:
        query(holder, "BEGIN; SELECT v FROM t WHERE id <= 2 FOR UPDATE")
        counters = lambda conn: dict(query(conn, "SELECT * FROM mosql_fdw_stats()"))
        got = []
        thread = threading.Thread(target=lambda: got.append(error_of(late, "SELECT v FROM t WHERE id = 1 FOR UPDATE")),
                                  daemon=True)
        thread.start()
        pid = late.info.backend_pid
        tap.ok(wait_until(lambda: query(holder, "SELECT wait_event_type, wait_event FROM pg_stat_activity "
                                        "WHERE pid = %s", (pid,)) == [("Lock", "tuple")]),
               f"{name}: the wait event is Lock, tuple")
        still = lambda: world.server.log().count(f"process {pid} still waiting for a lock of a row")
        wait_until(still)
        time.sleep(1)
        tap.equal(still(), 1,
                  f"{name}: that it waits is logged once")
        query(holder, "COMMIT")
        thread.join(60)
        tap.equal([g[0] for g in got], [None], f"{name}: it gets the lock")
        tap.equal(world.server.log().count(f"process {pid} acquired a lock of a row"), 1, f"{name}: which is logged")
        held, waited = counters(holder), counters(late)
        tap.equal((held["locks"], held["lock_waits"], held["lock_wait_us"], held["deadlocks"]), (2, 0, 0, 0),
                  f"{name}: counted by who has locked")
        tap.equal((waited["locks"], waited["lock_waits"], waited["deadlocks"]), (1, 1, 0), f"{name}: and who has waited")
        tap.ok(900000 < waited["lock_wait_us"] < 100000000, f"{name}: for how long", waited["lock_wait_us"])


def circle(world, name):
    settings = {"mosql_fdw.locking": "pessimistic"}
    with contextlib.closing(world.server.connect(world.db, **settings)) as a, \
            contextlib.closing(world.other.connect(world.db, **settings)) as b:
        for conn, row in ((a, 1), (b, 2)):
            query(conn, f"BEGIN; SELECT v FROM t WHERE id = {row} FOR UPDATE")
        got = []
        thread = threading.Thread(target=lambda: got.append(error_of(b, "SELECT v FROM t WHERE id = 1 FOR UPDATE")[0]),
                                  daemon=True)
        thread.start()
        wait_until(lambda: waits_inside(world.far, b, "Lock"))
        got.append(error_of(a, "SELECT v FROM t WHERE id = 2 FOR UPDATE")[0])
        query(a, "ROLLBACK")
        thread.join(60)
        query(b, "ROLLBACK")
        tap.equal(sorted(got, key=str), ["40P01", None], f"{name}: one victim")
        tap.equal(sum(value(c, "SELECT value FROM mosql_fdw_stats() WHERE name = 'deadlocks'") for c in (a, b)), 1,
                  f"{name}: counted")


def own_locks(world, name):
    """What this transaction has locked, also without anybody who waits; privileges."""
    with contextlib.closing(world.server.connect(world.db, **{"mosql_fdw.locking": "pessimistic"})) as conn:
        query(conn, "BEGIN; SELECT v FROM t WHERE id = 3 FOR SHARE; SELECT v FROM t WHERE id = 2 FOR KEY SHARE")
        show = "SELECT key, mode, granted, pid = pg_backend_pid(), waits_for FROM mosql_fdw_locks ORDER BY 1"
        tap.equal(query(conn, show), [("(id)=(2)", "FOR KEY SHARE", True, True, None),
                                      ("(id)=(3)", "FOR SHARE", True, True, None)], f"{name}: own locks")
        tap.equal(query(world.far, show), [], f"{name}: which others do not see")
        query(conn, "CREATE ROLE nobody_special; SET LOCAL ROLE nobody_special")
        tap.equal(query(conn, show), [], f"{name}: nothing without USAGE on the server")
        query(conn, "RESET ROLE; GRANT USAGE ON FOREIGN SERVER redis TO nobody_special; SET LOCAL ROLE nobody_special")
        tap.equal([r[0] for r in query(conn, show)], [None, None], f"{name}: no keys without SELECT on the table")
        query(conn, "ROLLBACK")
        tap.equal(query(conn, show), [], f"{name}: nothing is left of them")


def dropped(world, name):
    conn, sid = world.holder(LEASE)
    keeper_there(world)
    tap.equal(world.state(sid), "alive", f"{name}: it lives")
    with contextlib.closing(world.server.connect()) as admin:
        before = len(world.server.log())
        query(admin, f"DROP DATABASE {world.db} WITH (FORCE)")
        tap.ok(wait_until(lambda: world.state(sid) != "alive", WITHIN), f"{name}: its session ends with its lease")
        wait_until(lambda: value(admin, "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'mosql_fdw keeper'") <= 1)
    time.sleep(3)               # a keeper that goes on would start a worker each second
    started = world.server.log()[before:].count("FATAL:  database")
    tap.ok(started <= 2, f"{name}: no worker is started for what is not there", f"{started} were")
    conn.close()


def crowded(world, name):
    server = Server("leases4", ["shared_preload_libraries=mosql_fdw", "mosql_fdw.maintenance=off",
                                "max_worker_processes=3"])   # ours, and PostgreSQL's own for logical replication
    there = World(world.cluster, server, world.other, "script", "crowded_alone")
    conn, _ = there.holder(LEASE)
    count = lambda: server.log().count("could not start a worker that keeps sessions alive")
    tap.ok(wait_until(count, WITHIN), f"{name}: the log says it")
    time.sleep(4)               # it looks each second
    tap.equal(count(), 1, f"{name}: once")
    conn.close()
    there.close()
    server.stop()


def quiet(world, name):
    conn, _ = world.holder()
    query(conn, "COMMIT")
    port = int(value(world.far, "SELECT split_part(unnest(srvoptions), ':', 2) FROM pg_foreign_server "
                                "WHERE srvname = 'redis' LIMIT 1"))
    time.sleep(2)               # those that were there may be ending
    redis = Redis(port)
    count = lambda: int(re.search(r"total_commands_processed:(\d+)", redis("INFO", "stats").decode())[1])
    before = count()
    time.sleep(4)
    tap.equal(count() - before, 1, f"{name}: no commands but the one that asks")
    redis.close()
    conn.close()


def body():
    parts = sys.argv[1:] or ["idle", "gone", "restart", "stopped", "locks", "seen", "circle", "own_locks", "dropped", "crowded", "quiet"]
    cluster, plain = Cluster("keeper"), Cluster("keeper1", plain=True)
    other = Server("leases3")
    for kind, settings in (("started", ["shared_preload_libraries=mosql_fdw", "mosql_fdw.maintenance=off"]),
                           ("asked for", [])):
        server = Server(f"leases{1 + (kind != 'started')}", settings)
        for engine in ENGINES if kind == "started" else ENGINES[:1]:
            for part in (idle, gone, restart, stopped, locks, seen, circle, own_locks, dropped, crowded, quiet):
                if part.__name__ not in parts or (part == crowded and (kind, engine) != ("started", "script")):
                    continue
                with section(f"{kind}, {engine}, {part.__name__}"):
                    world = World(plain if part == quiet else cluster, server, other, engine,
                                  f"{part.__name__}_{kind.split()[0]}")
                    part(world, f"{kind}, {engine}, {part.__name__}")
                    world.close()
        server.stop()
    tap.equal(other.crashes(), [], "no backend of the other server died")


main(body)
