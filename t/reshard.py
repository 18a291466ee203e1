#!/usr/bin/python3
"""Slots move from node to node while clients work: nobody notices.

Every slot that holds keys of ours is moved once or more, among them the clock's,
whose several keys are for a while on two nodes.  Clients see no errors but the
conflicts that they have without it, and all books agree."""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import load
from mosqltest import *
from mover import Mover

SECONDS = float(os.environ.get("MOSQL_TEST_SECONDS", 8))
LEAST = 20                      # slots that are to move: for longer, where that takes longer
APART = 2000                    # keys that lie so far apart are on leaves of their own, packed ones too


def in_parts(cluster, servers):
    """The clock's slot arrives, all but the key of a session that died after its decision; then
    somebody opens a session, which forgets those whose lease is over."""
    one, two = servers
    for engine in ENGINES:
        db = "parts_" + engine
        at = f"{engine}, the clock's slot in parts"
        for s in servers:
            make_database(s, db, cluster.nodes, {"atomic": engine}, "CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL) SERVER redis")
        key = ("%s:{%s.clock}:%%s" % (db, db)).__mod__
        settings = {"mosql_fdw.intent_timeout": "100ms"}
        source = cluster.clock_port(db)
        a = Redis(source)
        victim = one.connect(db, **{"mosql_fdw.debug_crash_at": "after-decide", "mosql_fdw.one_step": "off"})
        query(victim, "SELECT count(*) FROM t")
        sid = int(a("HGET", key("c"), "sid"))
        attempt(victim, "INSERT INTO t VALUES (1)")
        wait_until(lambda: victim.closed)
        one.wait_up()
        holder = two.connect(db)                # so that there are snapshots
        query(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ")
        query(holder, "SELECT count(*) FROM t")
        a("SADD", key("d"), 1)                  # and some of the dead
        a("HSET", key(f"s:{sid}"), "lease", 1)
        a("ZADD", key("e"), "XX", 1, sid)
        slot = a("CLUSTER", "KEYSLOT", key("c"))
        target = next(p for p in cluster.primaries if p != source)
        b = Redis(target)
        ids = {p: r("CLUSTER", "MYID").decode() for p, r in ((source, a), (target, b))}
        b("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
        a("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
        a("MIGRATE", HOSTS.get(target, "127.0.0.1"), target, "", 0, 60000, "KEYS", *map(key, "cepd"))
        opener = two.connect(db, **{**settings, "statement_timeout": "2s"})
        b("ASKING")
        newest = int(b("HGET", key("c"), "sid"))
        attempt(opener, "SELECT count(*) FROM t")
        b("ASKING")
        tap.equal(int(b("HGET", key("c"), "sid")), newest, f"{at}: who opens a session, and looks for dead ones, waits for the slot")
        rest = a("CLUSTER", "GETKEYSINSLOT", slot, 100)
        tap.ok(key(f"s:{sid}").encode() in rest, f"{at}: the dead one's key is not there yet", rest)
        a("MIGRATE", HOSTS.get(target, "127.0.0.1"), target, "", 0, 60000, "KEYS", *rest)
        for p in cluster.primaries:
            Redis(p)("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
        query(holder, "COMMIT")
        with contextlib.closing(two.connect(db, **settings)) as conn:
            for _ in range(3):
                query(conn, "SELECT outcome FROM mosql_fdw_maintain('redis')")
            tap.equal(b("HGETALL", key(f"s:{sid}")), [], f"{at}: nothing is left of the dead one")
            tap.equal(value(conn, "SELECT count(*) FROM t"), 1, f"{at}: what it committed is there")


def under_load(cluster, servers, db, name, seed):
    """Clients work on tables that are there, while slots move."""
    work = load.Load(servers, db, seed=seed)
    rng = random.Random(seed)
    mover = Mover(cluster.primaries)
    clock = cluster.ask(cluster.ports[0], "CLUSTER", "KEYSLOT", "%s:{%s.clock}:c" % (db, db))
    with work.crowd:
        work.start()
        end = time.monotonic() + SECONDS
        over = lambda: time.monotonic() > (end if mover.moved >= LEAST else end + 120)
        while not over():
            slots = mover.slots_with_keys()
            rng.shuffle(slots)
            for i, slot in enumerate(slots):
                mover.move(slot, rng)
                if i % 5 == 0 and mover.is_rested(clock):
                    mover.move(clock, rng)
                if over():
                    break
            wait_until(over, 0.3)
        since = time.monotonic()
        tap.ok(work.crowd.everybody_went_on(since, LONG_WAIT), f"{name}: all clients go on")
        tap.ok(work.settle(), f"{name}: all clients come to an end")
    tap.note(f"{mover.moved} slots with {mover.keys} keys moved, {work.crowd.done} "
             f"transactions, errors {work.crowd.errors()}")
    tap.ok(mover.moved >= LEAST, f"{name}: slots were moved")
    tap.ok(wait_until(mover.agreed, pause=0.2), f"{name}: the nodes agree who has what",
           mover.disagreement())
    bad = work.crowd.unexpected(CONFLICTS)
    tap.ok(not bad, f"{name}: no error but conflicts", bad)
    work.verify(name)


def spread(cluster):
    """Every other slot that has keys to each of two nodes: moved to and fro, all may have come to be on one of them."""
    mover = Mover(cluster.primaries)
    for i, slot in enumerate(mover.slots_with_keys()):
        mover.move(slot, random, cluster.primaries[i % 2])
    tap.ok(wait_until(mover.agreed, pause=0.2), "the nodes agree who has what", mover.disagreement())


def trips(conn, one_step):
    """Round trips of a commit of twenty rows, on as many leaves: some of them will not be on the clock's server."""
    query(conn, f"SET mosql_fdw.one_step = {one_step}")
    for _ in range(2):
        query(conn, "SELECT mosql_fdw_stats_reset()")
        query(conn, f"UPDATE two SET n = n + 1 WHERE id IN ({', '.join(map(str, range(1, 20 * APART, APART)))})")
    return value(conn, "SELECT value FROM mosql_fdw_stats() WHERE name = 'round_trips'")


def one_becomes_two(servers, seed):
    """One primary has all slots, and a commit is one step; then a second one gets some of them."""
    cluster = Cluster("reshard-one", primaries=1)
    name, db = "one primary becomes two", "reshard_one"
    for s in servers:
        make_database(s, db, cluster.nodes, {}, load.DDL + "; CREATE FOREIGN TABLE two (id int OPTIONS (key 'true') NOT NULL, n int) SERVER redis")
    with contextlib.closing(servers[0].connect(db)) as conn:
        query(conn, f"INSERT INTO two SELECT i, 0 FROM generate_series(1, {20 * APART}) i")
        once, ordinary = trips(conn, "on"), trips(conn, "off")
        tap.ok(once < ordinary, f"{name}: a commit is one step before", (once, ordinary))
        cluster.primaries.append(cluster.add())
        under_load(cluster, servers, db, name, seed)
        spread(cluster)
        trips(conn, "on")
        once, ordinary = trips(conn, "on"), trips(conn, "off")
        tap.equal(once, ordinary, f"{name}: and is not any more")
        tap.equal(query(conn, "SELECT n, count(*) FROM two GROUP BY 1 ORDER BY 1"), [(0, 20 * APART - 20), (10, 20)],
                  f"{name}: each increment counts once")
        tap.equal(query(conn, "SELECT * FROM mosql_fdw_check('two')"), [], f"{name}: the tree is sound")


def body():
    seed = int(os.environ.get("MOSQL_TEST_SEED", time.time()))
    tap.note(f"MOSQL_TEST_SEED={seed}")
    cluster = Cluster("reshard")
    servers = [Server("reshard1"), Server("reshard2")]
    for engine in ENGINES:
        db = "reshard_" + engine
        with section(engine):
            for s in servers:
                make_database(s, db, cluster.nodes, {"atomic": engine}, load.DDL)
            under_load(cluster, servers, db, engine, seed)
    with section("one becomes two"):
        one_becomes_two(servers, seed)
    with section("in parts"):
        in_parts(cluster, servers)
    tap.equal([c for c in servers[1].crashes()], [], "no backend died")


main(body)
