#!/usr/bin/python3
"""The sweep: what crashes leave behind in Redis goes, and nothing else.

Two PostgreSQL servers on one cluster, both engines.  Backends are killed in the middle
of splits, of CREATE, TRUNCATE and DROP; others only seem to be dead, and go on after
the sweep has taken away what they had made.  Afterwards every node that is in Redis
is reached from the root of a table, and every row that was committed is there.
"""
import contextlib
import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

DDL = "CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, v text) SERVER redis;"
SETTINGS = {"mosql_fdw.maintenance_rate": 0, "mosql_fdw.signpost_retention": 0,
            "mosql_fdw.intent_timeout": "100ms"}


POINTS = ("split-frozen", "split-pieces", "split-created", "split-cut", "inner-created", "inner-split")


class World:
    def __init__(self, cluster, one, two, engine):
        self.cluster, self.one, self.two, self.engine = cluster, one, two, engine
        self.db = "sweep_" + engine
        for s in (one, two):
            make_database(s, self.db, cluster.nodes, {"atomic": engine}, DDL)
        self.conn = two.connect(self.db, **SETTINGS)
        query(self.conn, "INSERT INTO t SELECT g, 'old' FROM generate_series(1, 300) g")
        self.rows = 300

    def clock(self, command, key, *args):
        with contextlib.closing(self.cluster.redis(self.cluster.clock_port(self.db))) as r:
            return r(command, "%s:{%s.clock}:%s" % (self.db, self.db, key), *args)

    def newest(self):
        return int(self.clock("HGET", "c", "sid"))

    def end_lease(self, sid):
        self.clock("HSET", f"s:{sid}", "lease", 1)
        self.clock("ZADD", "e", "XX", 1, sid)

    def close(self, conn):
        """Nobody is left but a new session: one that cannot give back an id in time, on a busy machine, keeps it for its lease."""
        pid = conn.info.backend_pid
        for c in (conn, self.conn):
            c.close()
        with contextlib.closing(self.one.connect()) as probe:
            wait_until(lambda: value(probe, "SELECT count(*) FROM pg_stat_activity WHERE pid = %s", (pid,)) == 0)
        for sid in [int(s) for s in self.clock("ZRANGE", "e", 0, -1)]:
            if self.clock("HGET", f"s:{sid}", "lease"):
                self.end_lease(sid)
        self.conn = self.two.connect(self.db, **SETTINGS)

    def nodes(self):
        """node -> (state, root of its tree), of all that are in Redis."""
        found = {}
        for port in self.cluster.primaries:
            with contextlib.closing(self.cluster.redis(port)) as r:
                for key in r("KEYS", self.db + ":*"):
                    m = re.fullmatch(rb".*:\{([0-9a-f]{16})\}", key)
                    meta = m and r("HGET", key, "m")
                    if meta:
                        found[m[1].decode()] = (chr(meta[10]), int.from_bytes(meta[12:20], "big"))
        return found

    def garbage(self, tables=("t",)):
        """Nodes that are no part of these tables, nor of the definitions' tree."""
        known = set()
        for t in tables:
            known |= {re.search("([0-9a-f]{16})", r[0])[1]
                      for r in query(self.conn, "SELECT node FROM mosql_fdw_dump(%s)", (t,))}
        return {n: what for n, what in self.nodes().items() if n not in known and what[1] != 1}

    def sent(self):
        """Bytes that the cluster's primaries have sent so far."""
        total = 0
        for port in self.cluster.primaries:
            with contextlib.closing(self.cluster.redis(port)) as r:
                total += int(re.search(rb"total_net_output_bytes:(\d+)", r("INFO", "stats"))[1])
        return total

    def maintain(self, times=1):
        for _ in range(times):
            query(self.conn, "SELECT outcome FROM mosql_fdw_maintain('redis')")

    def check(self, at, rows, tables=("t",)):
        tap.equal(value(self.conn, "SELECT count(*) FROM t"), rows, f"{at}: the rows are there")
        tap.equal(value(self.conn, "SELECT count(*) FROM t WHERE id = ANY(ARRAY(SELECT id FROM t))"), rows,
                  f"{at}: and found by key")
        for t in tables:
            tap.equal(findings(self.conn, t), ([], []), f"{at}: {t} is in order")
        tap.equal(self.garbage(tables), {}, f"{at}: and nothing else is in Redis")


def killed(world):
    cases = [
        ("split-pieces", "INSERT INTO t SELECT g, 'new' FROM generate_series(1001, 2000) g", None, 3),
        ("split-created", "INSERT INTO t SELECT g, 'new' FROM generate_series(2001, 3000) g", None, 0),
        ("inner-created", "INSERT INTO t SELECT g, 'new' FROM generate_series(10001, 32000) g", None, 1),
        ("after-prepare", "CREATE FOREIGN TABLE n (id int OPTIONS (key 'true') NOT NULL) SERVER redis", None, 2),
        ("after-decide", "TRUNCATE t", 0, 2),
    ]
    for point, sql, rows, least in cases:
        at = f"{world.engine}, killed at {point}: {sql.split()[0]}"
        probe = world.one.connect()
        victim = world.one.connect(world.db, **{"mosql_fdw.debug_crash_at": point})
        query(victim, "SELECT count(*) FROM t WHERE id = 1") if point != "after-prepare" else None
        attempt(victim, sql)
        tap.ok(victim.closed, f"{at}: it dies")
        wait_until(lambda: attempt(probe, "SELECT 1")[1] is not None)
        world.one.wait_up()
        sid = world.newest()
        left = world.garbage()
        tap.ok(len(left) >= least, f"{at}: it leaves nodes behind", left)
        world.maintain()
        tap.ok(set(left) <= set(world.nodes()) or least == 0, f"{at}: which stay while it may be alive")
        world.end_lease(sid)
        world.maintain(3)
        world.rows = world.rows if rows is None else rows
        world.check(at, world.rows)


def seem_dead(world):
    """Held in the middle, given up by the clock, swept, and then going on."""
    holder = world.one.connect(world.db)
    first = 100000
    for lease_ends in (False, True):
        if world.engine == "watch" and not lease_ends:
            continue
        for point in POINTS if world.engine == "script" else ("split-pieces", "split-created"):
            at = f"{world.engine}, held at {point}, {'its lease ends' if lease_ends else 'alive'}"
            n = 22000 if point.startswith("inner") else 1000
            query(world.conn, "DELETE FROM t WHERE id > 300")
            world.maintain(2)
            conn = world.one.connect(world.db, **{"mosql_fdw.debug_points": "on"})
            query(conn, "SELECT sum(id) FROM t")
            sid = world.newest()
            query(holder, "SELECT mosql_fdw_debug_lock(%s)", (point,))
            result = []
            sql = f"INSERT INTO t SELECT g, 'new' FROM generate_series({first}, {first + n - 1}) g"
            t = threading.Thread(target=lambda: result.append(attempt(conn, sql)))
            t.start()
            held = wait_until(lambda: value(holder, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
            tap.ok(held, f"{at}: it is held there")
            if lease_ends:
                world.end_lease(sid)
            world.maintain(3)
            query(holder, "SELECT mosql_fdw_debug_unlock(%s)", (point,))
            t.join(60)
            tap.ok(result and result[0][1] is None, f"{at}: it goes on and commits", result)
            world.close(conn)
            world.maintain(3)
            world.check(at, world.rows + n)
            first += n
    holder.close()


def crowd(world, conn, first, n):
    """Insert rows over conn; the leaves made for them are merged before they come: then all lie on one."""
    with contextlib.closing(world.one.connect(world.db)) as holder:
        query(conn, "SELECT sum(id) FROM t")
        query(holder, "SELECT mosql_fdw_debug_lock('before-prepare')")
        result = []
        sql = f"INSERT INTO t SELECT g, 'new' FROM generate_series({first}, {first + n - 1}) g"
        t = threading.Thread(target=lambda: result.append(attempt(conn, sql)))
        t.start()
        held = wait_until(lambda: value(holder, "SELECT count(*) FROM pg_locks WHERE NOT granted"), 120)
        tap.ok(held, f"{world.engine}: {n} rows are held before their intents are placed")
        world.maintain(3)
        query(holder, "SELECT mosql_fdw_debug_unlock('before-prepare')")
        t.join(300)
        return result[0] if result else None


def crowded(world):
    """A leaf with many rows or intents, more than a step can be about, or beside a large row."""
    query(world.conn, "DELETE FROM t WHERE id > 300")
    world.maintain(2)
    with contextlib.closing(world.one.connect(world.db, **{"mosql_fdw.debug_points": "on"})) as conn:
        done = crowd(world, conn, 300001, 70000)
        tap.ok(done and done[1] is None, f"{world.engine}: 70,000 rows are committed into one leaf", done)
        query(conn, "SELECT 1 FROM t LIMIT 1")
        world.close(conn)
    world.maintain(3)
    world.check(f"{world.engine}, 70,000 rows in a leaf", world.rows + 70000)
    query(world.conn, "DELETE FROM t WHERE id > 300")
    query(world.conn, "UPDATE t SET v = (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 4000) g) WHERE id = 300")
    world.maintain(2)

    at = f"{world.engine}, 70,000 intents of the dead on one leaf"
    conn = world.one.connect(world.db, **{"mosql_fdw.debug_points": "on",
                                          "mosql_fdw.debug_crash_at": "after-prepare"})
    query(conn, "SELECT sum(id) FROM t")
    sid = world.newest()
    crowd(world, conn, 500001, 70000)
    tap.ok(conn.closed, f"{at}: it dies")
    world.one.wait_up()
    world.end_lease(sid)
    before = world.sent()
    query(world.conn, "SET statement_timeout = '300s'")
    tap.equal(attempt(world.conn, "SELECT outcome FROM mosql_fdw_maintain('redis')")[1], None,
              f"{at}: maintenance ends")
    query(world.conn, "RESET statement_timeout")
    sent = world.sent() - before
    tap.ok(sent < 64 << 20, f"{at}: and does not read the leaf for each of them", f"{sent >> 20} MB")
    world.maintain(3)
    world.check(at, world.rows)


def loaders(world):
    """A tree that nobody else knows: its maker is killed, swept while it seems dead, or loses connections."""
    copy = "ALTER FOREIGN TABLE t ALTER COLUMN id TYPE bigint"
    query(world.conn, "DELETE FROM t WHERE id > 300")
    query(world.conn, "INSERT INTO t SELECT g, 'new' FROM generate_series(10001, 30000) g")
    world.maintain(2)
    rows = world.rows + 20000
    for point in ("build-leaves-created", "build-leaves-brought-in"):
        at = f"{world.engine}, a copy killed at {point}"
        probe = world.one.connect()
        victim = world.one.connect(world.db, **{"mosql_fdw.debug_crash_at": point})
        attempt(victim, copy)
        tap.ok(victim.closed, f"{at}: it dies")
        wait_until(lambda: attempt(probe, "SELECT 1")[1] is not None)
        world.one.wait_up()
        sid = world.newest()
        left = world.garbage()
        tap.ok(len(left) > 200, f"{at}: it leaves nodes behind", len(left))
        world.maintain()
        tap.equal(set(left) - set(world.nodes()), set(), f"{at}: which stay while it may be alive")
        world.end_lease(sid)
        world.maintain(3)
        world.check(at, rows)

    with contextlib.closing(world.one.connect(world.db)) as holder:
        for point in ("build-leaves-created", "build-leaves-brought-in"):
            at = f"{world.engine}, a copy held at {point}, its lease ends"
            conn = world.one.connect(world.db, **{"mosql_fdw.debug_points": "on"})
            query(conn, "SELECT sum(id) FROM t")
            sid = world.newest()
            query(holder, "SELECT mosql_fdw_debug_lock(%s)", (point,))
            result = []
            t = threading.Thread(target=lambda: result.append(attempt(conn, copy)))
            t.start()
            held = wait_until(lambda: value(holder, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
            tap.ok(held, f"{at}: it is held there")
            world.end_lease(sid)
            world.maintain(3)
            query(holder, "SELECT mosql_fdw_debug_unlock(%s)", (point,))
            t.join(60)
            tap.ok(result and result[0][1] in ("40001", "42P01"), f"{at}: swept meanwhile, it fails", result)
            world.close(conn)
            world.maintain(3)
            world.check(at, rows)

    with contextlib.closing(world.one.connect(world.db)) as holder:
        at = f"{world.engine}, a copy cancelled with leaves that are not brought in"
        conn = world.one.connect(world.db, **{"mosql_fdw.debug_points": "on", "statement_timeout": "3s"})
        query(holder, "SELECT mosql_fdw_debug_lock('build-leaves-created')")
        tap.equal(attempt(conn, copy)[1], "57014", f"{at}: it ends")
        query(holder, "SELECT mosql_fdw_debug_unlock('build-leaves-created')")
        query(conn, "SELECT 1 FROM t LIMIT 1")      # with which garbage goes
        world.check(at, rows)
        conn.close()

    with contextlib.closing(world.one.connect(world.db)) as holder, contextlib.closing(
            world.one.connect(world.db, **{"mosql_fdw.debug_points": "on"})) as conn:
        at = f"{world.engine}, an index of its own transactions, connections break after its load"
        query(holder, "SELECT mosql_fdw_debug_lock('build-loaded')")
        result = []
        t = threading.Thread(target=lambda: result.append(attempt(conn, "CREATE INDEX t_v ON t (left(v, 9), id)")))
        t.start()
        wait_until(lambda: value(holder, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
        world.cluster.everywhere("CLIENT", "KILL", "TYPE", "normal")
        query(holder, "SELECT mosql_fdw_debug_unlock('build-loaded')")
        t.join(60)
        tap.ok(result and result[0][1] == "40001", f"{at}: it fails", result)
        attempt(conn, "SELECT 1 FROM t LIMIT 1")
        attempt(world.conn, "SELECT 1 FROM t LIMIT 1")

    for broken in (True, False):
        at = f"{world.engine}, a copy, then connections {'break' if broken else 'last'}"
        with contextlib.closing(world.one.connect(world.db)) as conn:
            query(conn, "BEGIN")
            query(conn, "CREATE INDEX t_v ON t (left(v, 9), id)")
            query(conn, "INSERT INTO t VALUES (5000, 'more')")
            if broken:
                world.cluster.everywhere("CLIENT", "KILL", "TYPE", "normal")
            tap.equal(attempt(conn, "COMMIT")[1], "40001" if broken else None, f"{at}: COMMIT")
            attempt(conn, "SELECT 1 FROM t LIMIT 1")    # with which garbage goes
        attempt(world.conn, "SELECT 1 FROM t LIMIT 1")
        if broken:
            world.end_lease(world.newest())
            # meets what is broken, on one node after the other
            wait_until(lambda: attempt(world.conn, "SELECT outcome FROM mosql_fdw_maintain('redis')")[1] is None)
            world.maintain(3)
            world.check(at, rows)
    tap.equal(findings(world.conn, "t"), ([], []), f"{at}: the index is right")
    tap.equal(value(world.conn, "SELECT count(*) FROM t WHERE v = 'more'"), 1, f"{at}: and so are later rows")
    query(world.conn, "SELECT mosql_fdw_gc('redis')")
    query(world.conn, "DROP INDEX t_v")
    query(world.conn, "DELETE FROM t WHERE id > 300")
    world.maintain(3)


def counters(world):
    """The counters of sequences are no tables: they stay as long as they are in use, and no longer."""
    before = set(world.nodes())
    conn = world.one.connect(world.db)
    query(conn, "CREATE FOREIGN TABLE s (id serial OPTIONS (key 'true'), n int GENERATED ALWAYS AS IDENTITY)"
                " SERVER redis")
    query(conn, "CREATE SEQUENCE shared")
    query(conn, "ALTER FOREIGN TABLE s ADD COLUMN m int DEFAULT nextval('shared')")
    query(conn, "INSERT INTO s DEFAULT VALUES")
    sid = world.newest()
    conn.close()
    world.end_lease(sid)
    world.maintain(3)
    conn = world.one.connect(world.db)
    at = f"{world.engine}, a table with sequences"
    tap.equal(attempt(conn, "INSERT INTO s DEFAULT VALUES")[1], None, f"{at}: they go on after the sweep")
    tap.equal(value(conn, "SELECT count(DISTINCT id) + count(DISTINCT n) + count(DISTINCT m) FROM s"), 6, f"{at}: with new values")
    query(conn, "ALTER SEQUENCE s_id_seq RESTART WITH 100")
    query(conn, "INSERT INTO s DEFAULT VALUES")
    query(conn, "DROP FOREIGN TABLE s")
    query(conn, "DROP SEQUENCE shared")
    sid = world.newest()
    conn.close()
    world.end_lease(sid)
    world.maintain(3)
    tap.equal(set(world.nodes()) - before, set(), f"{at}: dropped, it leaves nothing")


def worn(world):
    """Who keeps his id for long, with a lock, and has used up its numbers: the ids that he draws them from then end before him.  What
    he makes after that is his all the same."""
    at = f"{world.engine}, a session that outlives its numbers"
    conn = world.one.connect(world.db)
    query(conn, "SELECT mosql_fdw_advisory_lock('redis', 1)")
    sid = world.newest()
    query(conn, "BEGIN")
    query(conn, "CREATE FOREIGN TABLE numbered (n int) SERVER redis")   # rows without a key have a number each
    query(conn, "INSERT INTO numbered SELECT g FROM generate_series(1, 1050000) g")
    query(conn, "ROLLBACK")
    further = world.newest()
    tap.ok(further > sid, f"{at}: it has drawn another id for them")
    world.end_lease(further)
    query(conn, "BEGIN")
    query(conn, "CREATE FOREIGN TABLE w (id int OPTIONS (key 'true') NOT NULL, n serial) SERVER redis")
    query(conn, "INSERT INTO w SELECT generate_series(1, 5000)")
    world.maintain(2)
    query(conn, "COMMIT")
    tap.equal(attempt(conn, "SELECT count(*), max(n) FROM w"), ([(5000, 5000)], None), f"{at}: what it has committed is there")
    query(conn, "DROP FOREIGN TABLE w")
    world.close(conn)
    world.maintain(3)
    world.check(at, value(world.conn, "SELECT count(*) FROM t"))


def dropped(world):
    """COMMIT leaves to maintenance what it has no time to destroy: nobody reads it, and it goes."""
    table = "CREATE FOREIGN TABLE d (id int OPTIONS (key 'true') NOT NULL, v text, n serial) SERVER redis"

    def fill(conn, rows, first=1):
        query(conn, f"INSERT INTO d SELECT g, 'old' FROM generate_series({first}, {first + rows - 1}) g")

    def listed():
        return {int(r) for r in world.clock("HKEYS", "g")}

    def gone(at, least):
        left = world.garbage(("t", "d"))
        tap.ok(len(left) >= least, f"{at}: leaves stay at first", len(left))
        world.maintain()
        rest = world.garbage(("t", "d"))            # of the index and the sequence, which are no table
        tap.ok(len(rest) <= 4, f"{at}: and maintenance takes them away", rest)
        tap.equal(listed(), set(), f"{at}: and off the list")

    conn = world.one.connect(world.db, **{"mosql_fdw.drop_time": 0})
    reader, later = world.two.connect(world.db), world.two.connect(world.db)
    query(later, "CREATE FUNCTION opens() RETURNS refcursor LANGUAGE plpgsql AS $$ DECLARE c refcursor; "
                 "BEGIN OPEN c FOR SELECT v FROM d WHERE id = 5; RETURN c; END $$")
    query(conn, table)
    query(conn, "CREATE INDEX d_v ON d (v)")
    query(world.conn, table)
    query(world.conn, "SELECT mosql_fdw_gc('redis')")
    commands = "SELECT value FROM mosql_fdw_stats() WHERE name = 'commands'"
    costs = []
    for rows in (300, 6000):
        at = f"{world.engine}, TRUNCATE of {rows} rows"
        fill(conn, rows)
        query(reader, "BEGIN")
        tap.equal(value(reader, "SELECT v FROM d WHERE id = 5"), "old", f"{at}: somebody knows the way")
        query(later, "BEGIN")
        query(later, "SELECT v FROM d WHERE id = 5")
        portal = value(later, "SELECT opens()")
        query(conn, "BEGIN")
        query(conn, "TRUNCATE d")
        before = value(conn, commands)
        query(conn, "COMMIT")
        costs.append(value(conn, commands) - before)
        tap.equal(attempt(reader, "SELECT v FROM d WHERE id = 5")[1], "40001",
                  f"{at}: who has read before in his transaction is told")
        query(reader, "ROLLBACK")
        tap.equal(query(reader, "SELECT v FROM d WHERE id = 5"), [], f"{at}: another one finds nothing")
        tap.equal(attempt(later, f'FETCH ALL IN "{portal}"')[1], "40001", f"{at}: who has opened a portal before, and fetches now, is told")
        query(later, "ROLLBACK")
        gone(at, rows // 70)
    tap.ok(costs[1] <= costs[0] + 10, f"{world.engine}: COMMIT costs as much whatever there was", costs)

    at = f"{world.engine}, ROLLBACK of what was loaded"
    query(conn, "BEGIN")
    query(conn, "TRUNCATE d")
    fill(conn, 3000)
    query(conn, "ROLLBACK")
    gone(at, 40)

    at = f"{world.engine}, a root on the list that a definition names"
    fill(conn, 100)
    root = int(value(conn, "SELECT substring(node FROM '[0-9a-f]{16}') FROM mosql_fdw_dump('d') LIMIT 1"), 16)
    world.clock("HSET", "g", str(root), "")
    world.maintain()
    tap.equal(value(conn, "SELECT count(*) FROM d"), 100, f"{at}: its rows stay")
    tap.equal(listed(), set(), f"{at}: and the entry goes")

    at = f"{world.engine}, TRUNCATE, killed before the list"
    fill(conn, 3000, 1001)
    conn.close()
    probe = world.one.connect()
    victim = world.one.connect(world.db, **{"mosql_fdw.drop_time": 0, "mosql_fdw.debug_crash_at": "garbage-left"})
    query(victim, "SELECT count(*) FROM d WHERE id = 1")
    attempt(victim, "TRUNCATE d")
    tap.ok(victim.closed, f"{at}: it dies")
    wait_until(lambda: attempt(probe, "SELECT 1")[1] is not None)
    world.one.wait_up()
    world.end_lease(world.newest())
    gone(at, 40)

    query(world.conn, "DROP FOREIGN TABLE d")
    world.maintain()
    tap.equal(world.garbage(), {}, f"{world.engine}, DROP: nothing is left")
    with contextlib.closing(world.one.connect(world.db)) as conn:
        query(conn, "DROP FOREIGN TABLE d")
    for c in (reader, later):
        c.close()


def lost(cluster, server):
    """Redis has lost the root of a table, then that of the definitions: what is left stays."""
    db = "sweep_lost"
    make_database(server, db, cluster.nodes, {}, DDL)
    with contextlib.closing(server.connect(db)) as conn:
        query(conn, "INSERT INTO t SELECT g, 'new' FROM generate_series(1, 1000) g")
        nodes = [re.search("([0-9a-f]{16})", r[0])[1] for r in query(conn, "SELECT node FROM mosql_fdw_dump('t')")]
    keys = ["%s:{%s}" % (db, n) for n in nodes]
    root = next(k for k in keys if cluster.on(k, "HGET", k, "m")[12:20].hex() in k)
    rest = [k for k in keys if k != root]
    for name, key in (("a table's root", root), ("the definitions' root", "%s:{%016x}" % (db, 1))):
        with contextlib.closing(server.connect(db, **SETTINGS)) as conn:
            attempt(conn, "SELECT 1 FROM t WHERE id = 1")
            cluster.on(key, "DEL", key)
        for _ in range(3):
            with contextlib.closing(server.connect(db, **SETTINGS)) as conn:
                state = attempt(conn, "SELECT * FROM mosql_fdw_maintain('redis')")[1]
        gone = [k for k in rest if not cluster.on(k, "EXISTS", k)]
        tap.equal(gone, [], f"{name} is lost: maintenance deletes nothing of what is left")
    tap.equal(state, "XX001", "maintenance says that the definitions are gone")
    with contextlib.closing(server.connect(db)) as conn:
        tap.equal(error_of(conn, DDL.replace("TABLE t", "TABLE n"))[0], "XX001", "and so does CREATE")


def lose_table(cluster, db, name):
    """The definition of a table is lost, and whoever made it is dead."""
    clock = "%s:{%s.clock}:" % (db, db)
    for sid in [int(s) for s in cluster.on(clock + "e", "ZRANGE", clock + "e", 0, -1)]:
        if cluster.on(clock + "e", "HGET", clock + f"s:{sid}", "lease"):
            cluster.on(clock + "e", "HSET", clock + f"s:{sid}", "lease", 1)
            cluster.on(clock + "e", "ZADD", clock + "e", "XX", 1, sid)
    for port in cluster.primaries:
        for key in cluster.ask(port, "KEYS", db + ":{*"):
            if b".clock}" in key or int.from_bytes(cluster.ask(port, "HGET", key, "m")[12:20], "big") != 1:
                continue
            for field in cluster.ask(port, "HKEYS", key):
                if field.startswith(b"r") and name.encode() in field:
                    cluster.ask(port, "HDEL", key, field)


def ahead(cluster, server):
    """A tree was found without a definition when the server's time was ahead: it is not kept until that time comes."""
    db = "sweep_ahead"
    unnamed = "%s:{%s.clock}:u" % (db, db)
    make_database(server, db, cluster.nodes, {}, DDL)
    with contextlib.closing(server.connect(db)) as conn:
        query(conn, "INSERT INTO t SELECT g, 'new' FROM generate_series(1, 1000) g")
        keys = ["%s:{%s}" % (db, re.search("([0-9a-f]{16})", r[0])[1]) for r in query(conn, "SELECT node FROM mosql_fdw_dump('t')")]
    lose_table(cluster, db, "t")
    with contextlib.closing(server.connect(db, **SETTINGS)) as conn:
        query(conn, "SELECT * FROM mosql_fdw_maintain('redis')")
    found = cluster.on(unnamed, "HGETALL", unnamed)
    tap.equal(len(found), 2, "a tree whose definition is lost is found")
    since, rest = found[1].split(b" ", 1)
    cluster.on(unnamed, "HSET", unnamed, found[0], b"%d %s" % (int(since) + 365 * 86400 * 1000000, rest))
    with contextlib.closing(server.connect(db, **{**SETTINGS, "mosql_fdw.orphan_retention": 0})) as conn:
        query(conn, "SELECT * FROM mosql_fdw_maintain('redis')")
    tap.equal([k for k in keys if cluster.on(k, "EXISTS", k)], [], "and goes, though the server's time was ahead then")


def full(cluster, server):
    """A tree that no definition names goes root first, also where the root's server refuses to be written to."""
    db = "sweep_full"
    make_database(server, db, cluster.nodes, {}, DDL)
    clock = cluster.clock_port(db)
    trees = {}
    with contextlib.closing(server.connect(db)) as conn:
        for i in range(100):
            name = f"lost{i}"
            query(conn, DDL.replace("TABLE t", f"TABLE {name}"))
            query(conn, f"INSERT INTO {name} SELECT g, 'new' FROM generate_series(1, 1000) g")
            keys = ["%s:{%s}" % (db, re.search("([0-9a-f]{16})", r[0])[1])
                    for r in query(conn, f"SELECT node FROM mosql_fdw_dump('{name}')")]
            root = next(k for k in keys if cluster.on(k, "HGET", k, "m")[12:20].hex() in k)
            if cluster.owner(root) != clock and cluster.owner(root) not in trees:
                trees[cluster.owner(root)] = (name, root, keys)
            if len(trees) == len(cluster.primaries) - 1:
                break
    for port, (name, root, keys) in trees.items():
        lose_table(cluster, db, name)
        cluster.ask(port, "CONFIG", "SET", "maxmemory", 1)
        with contextlib.closing(server.connect(db, **{**SETTINGS, "mosql_fdw.orphan_retention": 0})) as conn:
            state = attempt(conn, "SELECT * FROM mosql_fdw_maintain('redis')")[1]
        cluster.ask(port, "CONFIG", "SET", "maxmemory", 0)
        tap.equal(state, "53200", "the server with a lost table's root is full: maintenance says so")
        tap.equal([k for k in keys if not cluster.on(k, "EXISTS", k)], [], "and has deleted nothing below a root that lives")
    with contextlib.closing(server.connect(db, **{**SETTINGS, "mosql_fdw.orphan_retention": 0})) as conn:
        query(conn, "SELECT * FROM mosql_fdw_maintain('redis')")
    tap.equal([k for *_, keys in trees.values() for k in keys if cluster.on(k, "EXISTS", k)], [], "with room again all of it goes")


def body():
    cluster = Cluster("sweep")
    # without a keeper, which ends the sessions of those who are killed
    one, two = (Server(f"sweep{i}", ["max_worker_processes=0"]) for i in (1, 2))
    for engine in ("script", "watch"):
        world = World(cluster, one, two, engine)
        with section(f"{engine}, killed"):
            killed(world)
        query(world.conn, "INSERT INTO t SELECT g, 'old' FROM generate_series(1, 300) g")
        world.rows = 300
        with section(f"{engine}, seem dead"):
            seem_dead(world)
        with section(f"{engine}, crowded"):
            crowded(world)
        with section(f"{engine}, loaders"):
            loaders(world)
        with section(f"{engine}, counters"):
            counters(world)
        with section(f"{engine}, worn"):
            worn(world)
        with section(f"{engine}, dropped"):
            dropped(world)
        world.conn.close()
    with section("roots are lost"):
        lost(cluster, one)
    with section("time was ahead"):
        ahead(cluster, one)
    with section("a root's server is full"):
        full(cluster, one)
    tap.equal(one.crashes() + two.crashes(), [], "no backend died of itself")


main(body)
