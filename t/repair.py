#!/usr/bin/python3
"""What is damaged or lost in Redis costs no more than that, and can be repaired.

One PostgreSQL server, one plain Redis, both engines.

  orphans    a definition is lost: its trees stay, mosql_fdw_gc() lists them, and they go
             when mosql_fdw.orphan_retention is over, not before

  damage     a damaged leaf, inner node or definition: maintenance goes on with the rest, and
             mosql_fdw_check() says all that is wrong, and neither deletes anything
  repair     each action of mosql_fdw_repair() on seeded damage, a dry run first, which
             changes nothing; docs/repair.md has the same recipes; mosql_fdw_sessions()
             finds the session that is to be ended

    t/repair.py [PART]...
"""
import contextlib
import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

ROWS = 400
DDL = """
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, n int, s text) SERVER redis;
CREATE FOREIGN TABLE other (id serial OPTIONS (key 'true') NOT NULL, n int) SERVER redis;
"""
SETTINGS = {"mosql_fdw.maintenance_rate": 0, "mosql_fdw.signpost_retention": 0}


class World:
    """A database with a table of some leaves, an index on it, and another table."""

    def __init__(self, redis, server, engine, part):
        self.server, self.engine = server, engine
        self.db = f"repair_{part}_{engine}"
        self.redis = redis
        self.r = Redis(redis.ports[0])
        make_database(server, self.db, redis.nodes, {"atomic": engine}, DDL)
        self.conn = self.connect()
        query(self.conn, f"INSERT INTO t SELECT g, g % 10, 'row ' || g FROM generate_series(1, {ROWS}) g")
        query(self.conn, "CREATE INDEX t_n ON t (n)")
        query(self.conn, "INSERT INTO other (n) SELECT g FROM generate_series(1, 5) g")

    def connect(self, **settings):
        return self.server.connect(self.db, **{**SETTINGS, **settings})

    def anew(self):
        """Another session instead of ours, whose caches are empty."""
        self.conn.close()
        self.end_leases()
        self.conn = self.connect()

    def clock(self, command, key, *args):
        return self.r(command, "%s:{%s.clock}:%s" % (self.db, self.db, key), *args)

    def end_leases(self):
        """Everybody who ever was is dead."""
        for sid in [int(s) for s in self.clock("ZRANGE", "e", 0, -1)]:
            if self.clock("HGET", f"s:{sid}", "lease"):
                self.clock("HSET", f"s:{sid}", "lease", 1)
                self.clock("ZADD", "e", "XX", 1, sid)

    def maintain(self, times=1, **settings):
        """Of a session of its own; the last pass' row."""
        with contextlib.closing(self.connect(**settings)) as c:
            for _ in range(times):
                c.autocommit = True
                rows = query(c, "SELECT row_to_json(m) FROM mosql_fdw_maintain('redis') m")
        return rows[0][0]

    def warns(self):
        """Does maintenance tell of a lost definition?"""
        with contextlib.closing(self.connect()) as c:
            c.autocommit = True
            query(c, "SELECT * FROM mosql_fdw_maintain('redis')")
            return any("whose definition" in n for n in c.notices)

    def nodes(self, tree=None):
        """Redis keys of all nodes, or of those that say they are of this tree."""
        found = []
        for key in self.r("KEYS", self.db + ":*"):
            if re.fullmatch(rb".*:\{[0-9a-f]{16}\}", key):
                meta = self.r("HGET", key, "m") if self.r("TYPE", key) == b"hash" else None
                if tree is None or (meta and int.from_bytes(meta[12:20], "big") == tree):
                    found.append(key)
        return sorted(found)

    def everything(self):
        """What all keys but the clock's hold.  (DUMP of a hash is in the order of its buckets,
        and changes while Redis rehashes it.)"""
        def content(key):
            if self.r("TYPE", key) == b"hash":
                fields = self.r("HGETALL", key)
                return sorted(zip(fields[::2], fields[1::2]))
            return self.r("DUMP", key)
        return {k: content(k) for k in self.r("KEYS", self.db + ":*") if b".clock}" not in k}

    def dump(self, table="t"):
        """(level, Redis key) of a table's nodes."""
        return query(self.conn, "SELECT level, node FROM mosql_fdw_dump(%s)", (table,))

    def root(self, table="t"):
        level, node = max(self.dump(table))
        return int.from_bytes(self.r("HGET", node, "m")[12:20], "big")

    def definition(self, name):
        """Leaf and field of a table's definition."""
        for key in self.nodes(1):
            for f in self.r("HKEYS", key):
                if f[:2] == b"rT" and b"\0\x01" + name.encode() + b"\0\x01" in f:
                    return key, f

    def close(self):
        self.conn.close()
        self.r.close()


def gc_trees(world):
    return query(world.conn, "SELECT name, finding, action FROM mosql_fdw_gc('redis') WHERE kind = 'tree' ORDER BY name")


def orphans(world):
    """One lost definition does not become a lost table."""
    at = f"{world.engine}, a definition is lost"
    key, field = world.definition("t")
    stored = world.r("HGET", key, field)
    root = world.root()
    nodes = world.nodes(root)
    before = set(world.nodes())
    world.conn.close()
    world.end_leases()
    world.r("HDEL", key, field)
    tap.equal([world.warns() for _ in range(3)], [False, True, False],
              f"{at}: the second sweep tells it, once")
    world.conn = world.connect()
    tap.equal(error_of(world.conn, "SELECT count(*) FROM t")[0], "42P01", f"{at}: the table is gone")
    tap.equal(set(before) - set(world.nodes()), set(), f"{at}: maintenance leaves all nodes alone")
    trees = gc_trees(world)
    table = [t for t in trees if t[0] == "%016x" % root]
    tap.ok(table and "public.t" in table[0][1] and "id integer, n integer, s text" in table[0][1] and
           f"{ROWS} rows" in table[0][1], f"{at}: mosql_fdw_gc() lists its tree", trees)
    tap.ok(len(trees) == 2 and any("index or sequence of public.t" in t[1] for t in trees),
           f"{at}: and that of the index", trees)
    tap.equal(value(world.conn, "SELECT count(*) FROM other"), 5, f"{at}: the other table is used as before")

    world.r("HSET", key, field, stored)
    world.anew()
    tap.equal(value(world.conn, "SELECT count(*) FROM t"), ROWS, f"{at}: and when it is back, so is the table")
    tap.equal(findings(world.conn, "t"), ([], []), f"{at}: in order")
    world.maintain(2)
    tap.equal(gc_trees(world), [], f"{at}: mosql_fdw_gc() forgets")

    world.conn.close()
    world.end_leases()
    world.r("HDEL", key, field)
    world.maintain(1)
    world.maintain(1, **{"mosql_fdw.orphan_retention": 0})
    tap.equal(set(nodes) & set(world.nodes()), set(), f"{at}: gone when the retention is over")
    world.conn = world.connect()
    tap.equal(gc_trees(world), [], f"{at}: and nothing is listed any more")
    tap.equal(findings(world.conn, "other"), ([], []), f"{at}: the other table is in order")


def lost_root(world):
    """Definition and root are lost: the leaves stay all the same."""
    at = f"{world.engine}, definition and root are lost"
    key, field = world.definition("t")
    root = world.root()
    leaves = [k for k in world.nodes(root) if b"%016x" % root not in k]
    world.conn.close()
    world.end_leases()
    world.r("HDEL", key, field)
    world.r("DEL", "%s:{%016x}" % (world.db, root))
    world.maintain(2)
    tap.equal(set(leaves) - set(world.nodes()), set(), f"{at}: maintenance leaves the leaves alone")
    world.conn = world.connect()
    trees = gc_trees(world)
    tap.ok(any(t[0] == "%016x" % root and "root is missing" in t[1] for t in trees),
           f"{at}: mosql_fdw_gc() lists what is left", trees)
    world.conn.close()
    world.maintain(2, **{"mosql_fdw.orphan_retention": 0})
    tap.equal(set(leaves) & set(world.nodes()), set(), f"{at}: gone when the retention is over")
    world.conn = world.connect()


def killed(world):
    """What was never committed, and what a transaction says is garbage, goes at once."""
    probe = world.server.connect()
    for point, sql in (("after-prepare", "CREATE FOREIGN TABLE n (id int OPTIONS (key 'true') NOT NULL) SERVER redis"),
                       ("after-decide", "TRUNCATE other"),
                       ("after-decide", "DROP INDEX t_n"),
                       ("after-decide", "DROP FOREIGN TABLE t")):
        at = f"{world.engine}, killed at {point}: {sql.split(' (')[0]}"
        before = set(world.nodes())
        world.conn.close()
        victim = world.connect(**{"mosql_fdw.debug_crash_at": point})
        attempt(victim, sql)
        tap.ok(victim.closed, f"{at}: it dies")
        wait_until(lambda: attempt(probe, "SELECT 1")[1] is not None)
        world.server.wait_up()
        probe = world.server.connect()
        world.end_leases()
        world.maintain(2)
        world.conn = world.connect()
        after = set(world.nodes())
        if sql.startswith("CREATE"):
            tap.equal(after - before, set(), f"{at}: what it made is gone")
        else:
            tap.ok(before - after, f"{at}: what it drops is gone", sorted(before - after))
        tap.equal(gc_trees(world), [], f"{at}: nothing is left over")
    probe.close()


def leaves_of(world, table="t"):
    return [n for level, n in world.dump(table) if level == 0]


def damage(world):
    """One damage does not keep maintenance and checks from the rest."""
    r = world.r
    leaves = leaves_of(world)
    rows = [sorted(f for f in r("HKEYS", k) if f[:1] == b"r" and len(f) > 1) for k in leaves]
    root = "%s:{%016x}" % (world.db, world.root())
    key, field = world.definition("t")
    kinds = [
        ("a leaf is gone", lambda: r("DEL", leaves[1]), 1),
        ("a leaf is a string", lambda: r("SET", leaves[2], "x"), 1),
        ("a leaf's meta is garbage", lambda: r("HSET", leaves[0], "m", "garbage"), 1),
        ("a row is garbage", lambda: r("HSET", leaves[1], rows[1][3], "garbage"), 1),
        ("two leaves are damaged", lambda: (r("HSET", leaves[0], rows[0][3], ""), r("HSET", leaves[-1], "m", "x")), 2),
        ("the last leaf is gone", lambda: r("DEL", leaves[-1]), 1),
        ("the root's children are garbage", lambda: r("HSET", root, "s", "garbage"), 1),
        ("the root is a list", lambda: (r("DEL", root), r("RPUSH", root, "x")), 1),
        ("the definition is garbage", lambda: r("HSET", key, field, r("HGET", key, field)[:30]), 1),
    ]
    for name, damage, least in kinds:
        at = f"{world.engine}, {name}"
        reader = world.connect(level="REPEATABLE READ")
        reader.autocommit = False
        query(reader, "SELECT count(*) FROM t")
        query(world.conn, "DELETE FROM other WHERE id > 2")
        query(world.conn, "UPDATE t SET s = 'new' WHERE id % 3 = 0")
        reader.rollback()
        reader.close()
        copies = {k: r("DUMP", k) for k in r("KEYS", world.db + ":*") if b".clock" not in k}
        damage()
        before = set(world.nodes())
        done = world.maintain()
        tap.ok(done["outcome"] == "done" and done["leaves_damaged"] >= least, f"{at}: maintenance goes on, and counts", done)
        tap.ok(done["tombstones_purged"] >= 3 and (done["rows_pruned"] > 0 or "root" in name or "definition" in name),
               f"{at}: with what is sound", done)
        tap.equal(before - set(world.nodes()), set(), f"{at}: and deletes nothing")
        with contextlib.closing(world.connect()) as c:
            state, found = error_of(c, "SELECT severity, node, finding FROM mosql_fdw_check('t')")
            if "definition" not in name:
                tap.ok(state is None and sum(f[0] == "broken" for f in found) >= least, f"{at}: mosql_fdw_check() lists it", (state, found))
            tap.equal([f for f in findings(c, "other")[0] if "does not decode" not in f[2]], [],
                      f"{at}: the other table is sound")
        world.maintain()
        for k, copy in copies.items():
            r("RESTORE", k, 0, copy, "REPLACE")
        world.anew()
        query(world.conn, "INSERT INTO other (n) SELECT g FROM generate_series(1, 3) g")
        tap.equal(value(world.conn, "SELECT count(*) FROM t"), ROWS, f"{at}: mended, all rows are there")
        tap.equal(findings(world.conn, "t"), ([], []), f"{at}: mended, all is well")
        world.maintain()


def repair(world, action, target=None, dry_run=False, state=None):
    """Rows (object, finding, done) of a repair, after a dry run that must change nothing."""
    sql = "SELECT * FROM mosql_fdw_repair('redis', %s, %s, %s)"
    with contextlib.closing(world.connect()) as c:
        while (before := world.everything()) != (time.sleep(0.1) or world.everything()):
            pass                # what was committed last is still being applied
        would = error_of(c, sql, (action, target, True))
        after = world.everything()
        changed = [k for k in before.keys() | after.keys() if before.get(k) != after.get(k)]
        tap.equal(changed, [], f"{world.engine}, {action}: a dry run changes nothing")
        got = error_of(c, sql, (action, target, False))
        tap.equal((would[0], got[0]), (state, state), f"{world.engine}, {action}: it says so first, then does it"
                  if state is None else f"{world.engine}, {action}: is refused")
        if got[0] != state:
            tap.note(str(got[1]))
        if state is None:
            tap.equal([w[:2] for w in would[1]], [g[:2] for g in got[1]], f"{world.engine}, {action}: the dry run finds the same")
            return got[1]
        return got[1]


def mend(world):
    """Lost and damaged nodes and rows cost what was in them, and no more."""
    r = world.r
    query(world.conn, "ALTER DATABASE %s SET mosql_fdw.commit_timeout = 2000" % world.db)
    query(world.conn, "INSERT INTO t SELECT g, 0, repeat('x', 300) FROM generate_series(1001, 22000) g")
    total = value(world.conn, "SELECT count(*) FROM t")
    world.anew()
    nodes = world.dump()
    leaves = [n for level, n in nodes if level == 0]
    inner = [n for level, n in nodes if level == 1]
    root = "%s:{%016x}" % (world.db, world.root())
    top = max(level for level, n in nodes)
    tap.ok(len(inner) >= 2 and top > 1, f"{world.engine}: the tree has levels enough", (len(leaves), len(inner), top))
    rows = lambda k: sorted(f for f in r("HKEYS", k) if f[:1] == b"r" and len(f) > 1)
    n = dict(query(world.conn, "SELECT node, entries FROM mosql_fdw_dump('t')")).__getitem__
    tap.ok(rows(leaves[4]) and not rows(leaves[9]), f"{world.engine}: some leaves have fields, and one that was loaded a block")
    copies = {k: r("DUMP", k) for k in world.nodes(world.root())}
    kinds = [
        ("a leaf is gone", [("DEL", leaves[5])], n(leaves[5])),
        ("the first leaf is gone", [("DEL", leaves[0])], n(leaves[0])),
        ("the last leaf is gone", [("DEL", leaves[-1])], n(leaves[-1])),
        ("two neighbours are gone", [("DEL", leaves[7], leaves[8])], n(leaves[7]) + n(leaves[8])),
        ("a leaf is a string", [("SET", leaves[9], "x")], n(leaves[9])),
        ("a leaf's meta is garbage", [("HSET", leaves[4], "m", "garbage")], 0),
        ("a row is garbage", [("HSET", leaves[3], rows(leaves[3])[2], "garbage")], 1),
        ("a value is no text", [("HSET", leaves[3], rows(leaves[3])[2], r("HGET", leaves[3], rows(leaves[3])[2])[:8] + b"\x1d\x02\xff\xfe")], 1),
        ("an intent is garbage", [("HSET", leaves[3], b"i" + rows(leaves[3])[2][1:], "x")], 0),
        ("an inner node is gone", [("DEL", inner[1])], 0),
        ("the first inner node is gone", [("DEL", inner[0])], 0),
        ("two inner nodes are gone, and a leaf", [("DEL", inner[0], inner[1], leaves[200])], n(leaves[200])),
        ("an inner node's children are garbage", [("HSET", inner[1], "s", "garbage")], 0),
        ("the root is gone", [("DEL", root)], 0),
        ("the root's children are garbage", [("HSET", root, "s", "garbage")], 0),
        ("the root is a list", [("DEL", root), ("RPUSH", root, "x")], 0),
        ("all inner nodes are gone", [("DEL", root, *inner)], 0),
        ("a loaded leaf's meta is garbage", [("HSET", leaves[9], "m", "garbage")], n(leaves[9])),
        ("a loaded leaf's block is garbage", [("HSET", leaves[9], "b", "garbage")], n(leaves[9])),
        ("a loaded leaf's block is gone", [("HDEL", leaves[9], "b")], n(leaves[9])),
    ]
    for name, commands, lost in kinds if world.engine == "script" else kinds[::4]:
        at = f"{world.engine}, {name}"
        world.conn.close()
        for command in commands:
            r(*command)
        rows_ = repair(world, "table", "t")
        tap.ok(rows_, f"{at}: says what is wrong", rows_)
        if lost > 1:
            tap.ok(any("lost" in str(x[2]) and "keys from" in x[1] for x in rows_) or sum(x[2] == "this row is dropped" for x in rows_) == lost,
                   f"{at}: names the keys that are lost", rows_)
        world.conn = world.connect()
        tap.equal(error_of(world.conn, "SELECT count(*) FROM t")[1], [(total - lost,)], f"{at}: {lost} rows are lost, all others are there")
        with contextlib.closing(world.connect()) as c:
            if name == kinds[0][0]:
                query(c, "SELECT mosql_fdw_version()")
                tap.equal(error_of(c, "REINDEX INDEX t_n")[0], None, f"{at}: REINDEX")
            tap.equal(findings(c, "t"), ([], []), f"{at}: all is well")
            tap.equal(error_of(c, "INSERT INTO t SELECT g, 0, 'new' FROM generate_series(1, 1200) g ON CONFLICT DO NOTHING; DELETE FROM t WHERE s = 'new'")[0], None,
                      f"{at}: and can be written to")
        for k, copy in copies.items():
            r("RESTORE", k, 0, copy, "REPLACE")
        for k in set(world.nodes(world.root())) - set(copies):
            r("DEL", k)
        world.anew()
        query(world.conn, "DROP INDEX IF EXISTS t_n")
    tap.equal(value(world.conn, "SELECT count(*) FROM t"), total, f"{world.engine}: as it was")


def strays(world):
    """What a load left that died in the middle of a split does not take the place of a leaf that is lost."""
    at = f"{world.engine}, a load died in a split"
    query(world.conn, "CREATE FOREIGN TABLE u (id int OPTIONS (key 'true'), s text) SERVER redis")
    query(world.conn, "INSERT INTO u SELECT g, 'old' FROM generate_series(10, 1000, 10) g")
    probe = world.server.connect()
    victim = world.connect(**{"mosql_fdw.debug_crash_at": "split-pieces"})
    attempt(victim, "INSERT INTO u SELECT g, 'loaded' FROM generate_series(1, 999) g WHERE g % 10 > 0")
    tap.ok(victim.closed, f"{at}: it dies")
    wait_until(lambda: attempt(probe, "SELECT 1")[1] is not None)
    world.server.wait_up()
    world.conn = world.connect()
    pieces = world.nodes(world.root("u"))
    query(world.conn, "UPDATE u SET s = 'new'")
    leaves = leaves_of(world, "u")
    pieces = [k for k in pieces if k.decode() not in leaves and k.decode() not in [n for _, n in world.dump("u")]]
    tap.ok(len(leaves) > 1 and len(pieces) > 2, f"{at}: it leaves pieces beside", (leaves, pieces))
    lost = len([f for f in world.r("HKEYS", leaves[1]) if f[:1] == b"r" and len(f) > 1])
    world.conn.close()
    world.r("DEL", leaves[1])
    rows = repair(world, "table", "u")
    tap.ok(any("are lost" in str(x[2]) for x in rows) and sum("left out" in str(x[2]) for x in rows) > 2,
           f"{at}: they are named, and left out", rows)
    world.conn = world.connect()
    tap.equal(query(world.conn, "SELECT s, count(*) FROM u GROUP BY s"), [("new", 100 - lost)], f"{at}: no old row is back")
    world.conn.close()
    world.end_leases()
    world.maintain(2)
    tap.equal([k for k in pieces if world.r("EXISTS", k)], [], f"{at}: the sweep takes them away")
    world.conn = world.connect()
    tap.equal(findings(world.conn, "u"), ([], []), f"{at}: all is well")


def clock(world):
    """The clock is lost, or fell back."""
    counters = ("last", "sid", "schema")
    seen = lambda: {k: int(world.clock("HGET", "c", k) or 0) for k in counters}
    for name, damage in (
            ("is gone", lambda: [world.r("DEL", k) for k in world.r("KEYS", world.db + ":*") if b".clock}" in k]),
            ("counts from the start", lambda: world.clock("HSET", "c", "last", 5, "sid", 1, "schema", 0)),
            ("is a string", lambda: world.clock("SET", "c", "x")),
            ("has no numbers", lambda: world.clock("HSET", "c", "last", "x", "sid", "-5"))):
        at = f"{world.engine}, the clock {name}"
        before = seen()
        world.conn.close()
        damage()
        rows = repair(world, "clock")
        after = seen()
        tap.ok(all(after[k] > before[k] for k in counters), f"{at}: ahead of all that it ever issued", (before, after, rows))
        world.conn = world.connect()
        tap.equal(value(world.conn, "SELECT count(*) FROM t"), ROWS, f"{at}: the rows are there")
        tap.equal(error_of(world.conn, "UPDATE t SET n = n WHERE id <= 50; CREATE FOREIGN TABLE n (id int) SERVER redis; DROP FOREIGN TABLE n")[0], None,
                  f"{at}: and can be changed")
        tap.equal(findings(world.conn, "t"), ([], []), f"{at}: all is well")
        world.maintain()
    rows = query(world.conn, "SELECT * FROM mosql_fdw_repair('redis', 'clock')")
    tap.ok(all(x[2] is None for x in rows), f"{world.engine}: a sound clock needs no repair", rows)
    # of another program's namespace nothing is repaired
    snapshots = world.clock("ZRANGE", "p", 0, -1)
    own = world.clock("HGET", "c", "format")
    for f in (str(int(own) - 1), str(int(own) + 1)):
        world.clock("HSET", "c", "format", f)
        before = (world.everything(), seen(), snapshots)
        for action in ("'clock'", "'table', 't'", "'definitions'", "'index', 't_n'", "'session', '1'", "'transaction', '1.1'",
                       "'discard', '0000000001000002'"):
            tap.equal(error_of(world.conn, f"SELECT mosql_fdw_repair('redis', {action}" +
                               f"{', NULL' if ',' not in action else ''}, dry_run := false)")[0], "0A000",
                      f"{world.engine}: a namespace of format {f}: {action} is refused")
        tap.ok(before == (world.everything(), seen(), world.clock("ZRANGE", "p", 0, -1)) and
               world.clock("HGET", "c", "format") == f.encode(), f"{world.engine}: and nothing of it is changed")
    world.clock("HSET", "c", "format", own)
    # damage is no time, and no id
    at = f"{world.engine}, the clock is gone, and rows are damaged"
    before = seen()
    leaf = leaves_of(world)[1]
    r1, r2 = sorted(f for f in world.r("HKEYS", leaf) if f[:1] == b"r" and len(f) > 1)[2:4]
    world.conn.close()
    old = world.r("HGET", leaf, r1)
    world.r("HSET", leaf, r1, b"\x7f" * 7 + old[7:])
    world.r("HSET", leaf, b"i" + r2[1:], b"\xff" * 8 + b"\0" * 8 + b"D")
    for k in [k for k in world.r("KEYS", world.db + ":*") if b".clock}" in k]:
        world.r("DEL", k)
    rows = repair(world, "clock")
    after = seen()
    tap.ok(any("2 times and ids are impossible" in x[1] for x in rows), f"{at}: it says so", rows)
    tap.ok(all(before[k] < after[k] < before[k] + 2 ** 48 for k in counters), f"{at}: it does not follow them", (before, after))
    world.r("HSET", leaf, r1, old)
    world.r("HDEL", leaf, b"i" + r2[1:])
    world.conn = world.connect()


def attach(world):
    """A definition is lost: the tree says what it was; or it is not wanted any more."""
    for name, table in (("t", True), ("other", True)):
        at = f"{world.engine}, the definition of {name} is lost"
        n = value(world.conn, f"SELECT count(*) FROM {name}")
        key, field = world.definition(name)
        root = "%016x" % world.root(name)
        world.conn.close()
        world.end_leases()
        world.r("HDEL", key, field)
        repair(world, "attach", root, state="55000")
        world.maintain()
        rows = repair(world, "attach", root)
        tap.ok(f"public.{name}" in rows[0][1], f"{at}: attached", rows)
        world.conn = world.connect()
        tap.equal(value(world.conn, f"SELECT count(*) FROM {name}"), n, f"{at}: all rows are there")
        tap.equal(findings(world.conn, name), ([], []), f"{at}: all is well, the index too")
        world.maintain()
        tap.equal(gc_trees(world), [], f"{at}: nothing is left over")
    tap.equal(error_of(world.conn, "INSERT INTO other (n) VALUES (6)")[0], None, f"{world.engine}: the sequence goes on")
    key, field = world.definition("t")
    root = world.root()
    world.conn.close()
    world.end_leases()
    world.r("HDEL", key, field)
    world.maintain()
    rows = repair(world, "discard", "%016x" % root)
    tap.equal((rows[0][2], world.nodes(root)), ("destroyed", []), f"{world.engine}, discard: it is gone")
    world.conn = world.connect()


def others(world):
    """Transactions and sessions of others; who may do all this."""
    probe = world.server.connect()
    for point, committed in (("after-prepare", False), ("after-decide", True)):
        victim = world.connect(**{"mosql_fdw.debug_crash_at": point, "mosql_fdw.one_step": "off"})
        attempt(victim, "UPDATE t SET s = 'killed' WHERE id IN (1, 200)")
        wait_until(lambda: attempt(probe, "SELECT 1")[1] is not None)
        world.server.wait_up()
        probe = world.server.connect()
        world.conn = world.connect()
        found = findings(world.conn, "t")[1]
        tx = next(m[1] for f in found for m in [re.match(r"intent of transaction (\d+\.\d+)", f[2])] if m)
        rows = repair(world, "transaction", tx)
        tap.ok(rows[0][1] == ("committed" if committed else "not decided"), f"{world.engine}, killed {point}: {tx}", rows)
        tap.equal(value(world.conn, "SELECT mosql_fdw_transaction_status('redis', %s)", (tx,)),
                  "committed" if committed else "aborted", f"{world.engine}, killed {point}: it is settled")
        tap.equal(value(world.conn, "SELECT count(*) FROM t WHERE s = 'killed'"), 2 if committed else 0,
                  f"{world.engine}, killed {point}: all or nothing")
        sid = tx.split(".")[0]
        rows = repair(world, "session", sid)
        tap.ok(rows[0][2].startswith("ended"), f"{world.engine}: session {sid} is ended", rows)
        tap.equal(world.clock("HGET", f"s:{sid}", "lease"), None, f"{world.engine}: its lease is gone")
        rows = query(world.conn, "SELECT * FROM mosql_fdw_repair('redis', 'session', %s)", (sid,))
        tap.equal(rows[0][1], "no such session lives", f"{world.engine}: and it is no more")
    reader = world.connect(level="REPEATABLE READ")
    reader.autocommit = False
    query(reader, "SELECT count(*) FROM t")
    (name,) = world.clock("ZRANGE", "p", 0, -1)
    sid = int(name.decode().split(".")[0])
    who = query(world.conn, """
        SELECT session_id, state, own, pid, database, application_name, oldest_snapshot BETWEEN opened AND lease_until,
               snapshots FROM mosql_fdw_sessions('redis') WHERE oldest_snapshot IS NOT NULL AND NOT own""")
    tap.equal(who, [(sid, "alive", False, reader.info.backend_pid, world.db, "mosql test", True, 1)],
              f"{world.engine}: mosql_fdw_sessions() says who holds old rows")
    # as after a jump of Redis' clock, to a year ahead and back
    ahead = int(world.clock("HGET", f"s:{sid}", "lease")) + 365 * 86400 * 1000000
    world.clock("HSET", f"s:{sid}", "lease", ahead)
    world.clock("ZADD", "e", ahead, sid)
    found = query(world.conn, "SELECT session_id::text FROM mosql_fdw_sessions('redis') WHERE state = 'ahead'")
    tap.equal(found, [(str(sid),)], f"{world.engine}: and whose lease lies too far ahead")
    repair(world, "session", found[0][0])
    tap.equal(world.clock("ZRANGE", "p", 0, -1), [], f"{world.engine}: an ended session's snapshots hold nothing back")
    tap.equal(query(world.conn, "SELECT 1 FROM mosql_fdw_sessions('redis') WHERE session_id = %s", (sid,)), [],
              f"{world.engine}: it is not listed any more")
    reader.close()
    world.clock("HSET", f"s:{sid}", "who", "{" * 5000)
    world.clock("ZADD", "e", 5, sid)
    tap.equal(query(world.conn, "SELECT state, lease_until, pid FROM mosql_fdw_sessions('redis') WHERE session_id = %s", (sid,)),
              [("ended", None, None)], f"{world.engine}: damage hides no session")
    for sql, state in (("'nonsense'", "22023"), ("'table'", "22023"), ("'table', 'none'", "42P01"), ("'tree', 'x'", "22P02"),
                       ("'transaction', '1'", "22P02"), ("'session', 'x'", "22P02"), ("'discard', '00000000000000ff'", "55000")):
        tap.equal(error_of(world.conn, f"SELECT mosql_fdw_repair('redis', {sql})")[0], state, f"{world.engine}: {sql} is {state}")
    tap.equal(len(query(world.conn, "SELECT * FROM mosql_fdw_repair('redis')")), 9, f"{world.engine}: what there is")
    tap.equal(error_of(world.conn, "BEGIN; UPDATE other SET n = 1; SELECT mosql_fdw_repair('redis', 'clock'); COMMIT")[0],
              "25001", f"{world.engine}: not in a transaction that has written")
    error_of(world.conn, "ROLLBACK")
    query(world.conn, "DROP ROLE IF EXISTS mosql_mender")
    query(world.conn, "CREATE ROLE mosql_mender; GRANT USAGE ON FOREIGN SERVER redis TO mosql_mender; GRANT EXECUTE ON FUNCTION mosql_fdw_repair(text, text, text, boolean) TO mosql_mender; SET ROLE mosql_mender")
    tap.equal(error_of(world.conn, "SELECT mosql_fdw_repair('redis', 'clock')")[0], "42501", f"{world.engine}: only superusers")
    query(world.conn, "RESET ROLE; DROP OWNED BY mosql_mender; DROP ROLE mosql_mender")


def lose_definition(world, name):
    """Its table's definition is lost, and maintenance has noted the trees; leaf, field, value, root of it."""
    key, field = world.definition(name)
    stored = world.r("HGET", key, field)
    root = world.root(name)
    world.conn.close()
    world.end_leases()
    world.r("HDEL", key, field)
    world.maintain()
    world.conn = world.connect()
    return key, field, stored, root


def node_key(world, node):
    return "%s:{%016x}" % (world.db, node)


def ruined(world):
    """What no definition names and is damaged besides is listed all the same, can be discarded, and goes in time."""
    r = world.r
    at = f"{world.engine}, no definition names it"
    *_, root = lose_definition(world, "t")
    name, top = "%016x" % root, node_key(world, root)
    leaves = [k for k in world.nodes(root) if name.encode() not in k]
    label = r("HGET", top, "d")
    copies = {k: r("DUMP", k) for k in r("KEYS", world.db + ":*") if b".clock}" not in k}
    kinds = [
        ("the root's meta is garbage", lambda: r("HSET", top, "m", "garbage"), "damaged"),
        ("the root's children are garbage", lambda: r("HSET", top, "s", "garbage"), "damaged"),
        ("the label is garbage", lambda: r("HSET", top, "d", b"\xff\xff"), "nobody knows what"),
        ("the label is cut", lambda: r("HSET", top, "d", label[:40]), "nobody knows what"),
        ("its name is garbage", lambda: r("HSET", top, "d", label[:1] + b"T\xff\xff" + label[4:]), "nobody knows what"),
        ("leaves are garbage", lambda: [r("HSET", k, "m", "garbage") for k in leaves[::2]], "damaged"),
        ("the root is gone", lambda: r("DEL", top), "root is missing"),
        ("the root is a string", lambda: (r("DEL", top), r("SET", top, "x")), "damaged"),
    ]
    for kind, damage, said in kinds if world.engine == "script" else kinds[::3]:
        for way in ("discarded", "in time"):
            damage()
            with contextlib.closing(world.connect()) as c:
                state, found = error_of(c, "SELECT finding FROM mosql_fdw_gc('redis') WHERE kind = 'tree' AND name = %s", (name,))
                tap.ok(state is None and len(found) == 1 and said in found[0][0], f"{at}, {kind}: it is listed", (state, found))
            if way == "discarded":
                if "label" in kind or "name" in kind:
                    repair(world, "attach", name, state="55000")
                repair(world, "discard", name)
                tap.equal(name in [t[0] for t in gc_trees(world)], False, f"{at}, {kind}: discarded, it is listed no more")
            else:
                world.end_leases()
                world.maintain(3, **{"mosql_fdw.orphan_retention": 0})
            left = [k for k in leaves + [top.encode()] if r("EXISTS", k)]
            if way == "in time" and "leaves" in kind:
                left = [k for k in left if r("HGET", k, "m") != b"garbage"]
            tap.equal(left, [], f"{at}, {kind}: {way}, it is gone")
            world.conn.close()
            for k in r("KEYS", world.db + ":*"):
                if b".clock}" not in k:
                    r("DEL", k)
            for k, copy in copies.items():
                r("RESTORE", k, 0, copy, "REPLACE")
            world.end_leases()
            world.maintain()
            world.conn = world.connect()
    tap.equal(findings(world.conn, "other"), ([], []), f"{at}: the other table is in order")


def beside(world):
    """What has a name, or may have one, is neither discarded, nor attached again."""
    at = f"{world.engine}, beside tables that live"
    index = next(int.from_bytes(world.r("HGET", k, "m")[12:20], "big") for k in world.nodes()
                 if int.from_bytes(world.r("HGET", k, "m")[12:20], "big") not in (1, world.root(), world.root("other")))
    for what, root in (("a table", world.root()), ("an index", index), ("the definitions", 1)):
        for action in ("discard", "tree", "attach"):
            tap.equal(error_of(world.conn, "SELECT mosql_fdw_repair('redis', %s, %s, false)", (action, "%016x" % root))[0], "55000",
                      f"{at}: {what} is no unnamed tree: {action}")
    key, field, stored, root = lose_definition(world, "t")
    tap.ok("%016x" % root in [t[0] for t in gc_trees(world)], f"{at}: it is listed")
    world.conn.close()
    world.end_leases()
    world.r("HSET", key, field, stored)
    for action in ("discard", "tree", "attach"):
        repair(world, action, "%016x" % root, state="55000")
    world.conn = world.connect()
    tap.equal(value(world.conn, "SELECT count(*) FROM t"), ROWS, f"{at}: listed, and named again since: all rows are there")
    world.conn.close()
    world.end_leases()
    world.r("HDEL", key, field)
    key2, field2 = world.definition("other")
    stored2 = world.r("HGET", key2, field2)
    world.r("HSET", key2, field2, stored2[:30])
    for action in ("discard", "tree", "attach"):
        repair(world, action, "%016x" % root, state="55000")
    world.r("HSET", key2, field2, stored2)
    world.r("HSET", key, field, stored)
    world.conn = world.connect()
    tap.equal(findings(world.conn, "t"), ([], []), f"{at}: all is well")
    # the root is lost as well, and made anew without a label: what was noted is kept
    lose_definition(world, "t")
    leaves = [k for k in world.nodes(root) if b"%016x" % root not in k]
    world.r("DEL", node_key(world, root))
    repair(world, "tree", "%016x" % root)
    world.end_leases()
    world.maintain(2)
    tap.equal(set(leaves) - set(world.nodes()), set(), f"{at}: a root that was made anew is no garbage")
    tap.ok(any(f"{ROWS} rows" in t[1] for t in gc_trees(world)), f"{at}: and is listed", gc_trees(world))


def held(world):
    """The sweep is nobody's when an attach fails, or a sweep is cancelled, though the session lives."""
    at = f"{world.engine}, the sweep"
    *_, root = lose_definition(world, "t")
    query(world.conn, "CREATE SCHEMA s2; CREATE FOREIGN TABLE s2.t (id int OPTIONS (key 'true')) SERVER redis "
                      "OPTIONS (schema_name 'public', table_name 't')")
    sql = "SELECT * FROM mosql_fdw_repair('redis', 'attach', '%016x', false)" % root
    one, two = world.connect(), world.connect()
    tap.equal(error_of(one, sql)[0], "42P07", f"{at}: attach fails, the name is taken")
    tap.equal(error_of(two, sql)[0], "42P07", f"{at}: it does not hold the sweep")
    holder = world.connect()
    victim = world.connect(**{"mosql_fdw.debug_points": "on"})
    query(holder, "SELECT mosql_fdw_debug_lock('maintain-sweep')")
    pid = value(victim, "SELECT pg_backend_pid()")
    result = []
    t = threading.Thread(target=lambda: result.append(error_of(victim, "SELECT * FROM mosql_fdw_maintain('redis')")))
    t.start()
    tap.ok(wait_until(lambda: value(holder, "SELECT count(*) FROM pg_locks WHERE NOT granted")), f"{at}: one is under way")
    tap.equal(error_of(two, sql)[0], "55006", f"{at}: attach says that it is")
    query(holder, "SELECT pg_cancel_backend(%s)", (pid,))
    t.join(60)
    query(holder, "SELECT mosql_fdw_debug_unlock('maintain-sweep')")
    tap.equal(result and result[0][0], "57014", f"{at}: it is cancelled")
    tap.equal(error_of(two, sql)[0], "42P07", f"{at}: cancelled, it is not held")
    for c in (one, two, holder, victim):
        c.close()


def dropped(world):
    """Trees that a commit has dropped: one that is damaged keeps nobody from the others; one that is attached again stays."""
    r = world.r
    at = f"{world.engine}, dropped tables"
    listed = lambda: sorted(int(x) for x in world.clock("HKEYS", "g"))
    state = lambda root: r("HGET", node_key(world, root), "m")[10:11] if r("EXISTS", node_key(world, root)) else None
    query(world.conn, "CREATE SCHEMA many")
    for i in range(5):
        query(world.conn, f"CREATE FOREIGN TABLE many.d{i} (id int OPTIONS (key 'true'), s text) SERVER redis; "
                          f"INSERT INTO many.d{i} SELECT g, repeat('x', 100) FROM generate_series(1, 400) g")
    roots = [world.root(f"many.d{i}") for i in range(5)]
    r("HSET", node_key(world, roots[3]), "s", "garbage")
    r("HSET", node_key(world, roots[1]), "m", "garbage")
    query(world.conn, "SET mosql_fdw.drop_time = 0")
    del world.conn.notices[:]
    query(world.conn, "DROP SCHEMA many CASCADE")
    said = [n for n in world.conn.notices if n.startswith("WARNING")]
    query(world.conn, "SET mosql_fdw.drop_time = '500ms'")
    tap.ok([state(x) for x in roots if x != roots[1]] == [b"X"] * 4 and listed() == sorted(roots),
           f"{at}: all roots are dead, whichever is damaged, and what is left is listed", ([state(x) for x in roots], listed(), roots))
    tap.equal(len([n for n in said if "could not be destroyed" in n]), 2, f"{at}: and each that is damaged is a warning")
    world.maintain()
    tap.equal((listed(), [state(x) for x in (roots[0], roots[2], roots[4])]), (sorted([roots[1], roots[3]]), [None] * 3),
              f"{at}: maintenance destroys the sound ones")
    for root in (roots[1], roots[3]):
        r("DEL", node_key(world, root))
    world.maintain()
    tap.equal(listed(), [], f"{at}: who has lost its root is listed no more")
    # the tree of a lost definition is on the list, since the server with its root has forgotten that it was killed
    for when in ("read", "killed"):
        *_, root = lose_definition(world, "t")
        index = next(int(t[0], 16) for t in gc_trees(world) if "index or sequence of public.t" in t[1])
        for tree in (root, index):
            world.clock("HSET", "g", tree, "")
        sql = "SELECT * FROM mosql_fdw_repair('redis', 'attach', '%016x', false)" % root
        holder, victim = world.connect(), world.connect(**{"mosql_fdw.debug_points": "on"})
        point = "maintain-garbage-read" if when == "read" else "maintain-garbage"
        query(holder, f"SELECT mosql_fdw_debug_lock('{point}')")
        if when == "read":
            # attached, and not committed when the definitions are read
            world.conn.autocommit = False
            query(world.conn, sql)
            tap.equal(listed(), [], f"{at}: what is attached is taken off the list, its index too")
            world.clock("HSET", "g", 1, "")	    # no session made it: it is taken off
        t = threading.Thread(target=lambda: attempt(victim, "SELECT * FROM mosql_fdw_maintain('redis')"))
        t.start()
        tap.ok(wait_until(lambda: value(holder, "SELECT count(*) FROM pg_locks WHERE NOT granted")), f"{at}, {when}: they are being destroyed")
        other = world.connect()
        tap.equal(error_of(other, sql)[0], "55006" if when == "read" else "55000", f"{at}, {when}: attach is refused meanwhile")
        query(holder, f"SELECT mosql_fdw_debug_unlock('{point}')")
        t.join(60)
        if when == "read":
            world.conn.commit()
            world.conn.autocommit = True
            tap.equal((value(world.conn, "SELECT count(*) FROM t"), findings(world.conn, "t")), (ROWS, ([], [])),
                      f"{at}: attached, all rows are there, and the index")
        else:
            tap.equal((listed(), state(root), state(index)), ([], None, None), f"{at}: else it is gone")
        for c in (holder, victim, other):
            c.close()


def attached(world):
    """Sequences and parts of a table come back with it, or are left out where they are ruined."""
    r = world.r
    at = f"{world.engine}, attach"
    query(world.conn, "CREATE SEQUENCE shared; ALTER FOREIGN TABLE other ADD COLUMN m int DEFAULT nextval('shared'); "
                      "INSERT INTO other (n) VALUES (6)")
    world.maintain()
    # a sequence that no column owns
    catalog, field = next((k, f) for k in world.nodes(1) for f in r("HKEYS", k) if f[:1] == b"r" and b"shared" in f)
    stored = r("HGET", catalog, field)
    world.conn.close()
    world.end_leases()
    r("HDEL", catalog, field)
    world.maintain()
    world.conn = world.connect()
    (tree,) = [t for t in gc_trees(world) if "sequence public.shared" in t[1]]
    top = node_key(world, int(tree[0], 16))
    label = r("HGET", top, "d")
    r("HSET", top, "d", label[:-3])
    repair(world, "attach", tree[0], state="55000")
    r("HSET", top, "d", label)
    repair(world, "attach", tree[0])
    world.anew()
    tap.equal(error_of(world.conn, "INSERT INTO other (n) VALUES (7)")[0], None, f"{at}: the sequence is drawn from again")
    tap.equal(value(world.conn, "SELECT count(*) - count(DISTINCT m) FROM other WHERE n >= 6"), 0, f"{at}: with new values")
    # another tree's label
    key, field, stored, root = lose_definition(world, "t")
    other_label = r("HGET", node_key(world, world.root("other")), "d")
    own_label = r("HGET", node_key(world, root), "d")
    renamed = other_label.replace(b"\0\x01other\0\x01", b"\0\x01ether\0\x01", 1)
    for label in (other_label, renamed):
        r("HSET", node_key(world, root), "d", label)
        tap.equal(error_of(world.conn, "SELECT * FROM mosql_fdw_repair('redis', 'attach', %s, false)", ("%016x" % root,))[0],
                  "42P07" if label == other_label else "XX001", f"{at}: another table's label is refused")
    r("HSET", node_key(world, root), "d", own_label)
    # the root of its index is ruined, too
    (index,) = [t[0] for t in gc_trees(world) if "index or sequence of public.t" in t[1]]
    r("HSET", node_key(world, int(index, 16)), "m", "garbage")
    rows = repair(world, "attach", "%016x" % root)
    tap.ok(any("t_n" in x[1] for x in rows), f"{at}: an index whose root is ruined is left out", rows)
    world.anew()
    tap.equal(value(world.conn, "SELECT count(*) FROM t"), ROWS, f"{at}: all rows are there")
    query(world.conn, "DROP INDEX t_n; CREATE INDEX t_n ON t (n)")
    world.end_leases()
    world.maintain()
    repair(world, "discard", index)
    world.anew()
    tap.equal(findings(world.conn, "t"), ([], []), f"{at}: created again, and the ruin discarded, all is well")
    # and of a column's counter
    key, field, stored, root = lose_definition(world, "other")
    counters = [t[0] for t in gc_trees(world) if "index or sequence of public.other" in t[1]]
    for counter in counters:
        r("HSET", node_key(world, int(counter, 16)), "m", "garbage")
    rows = repair(world, "attach", "%016x" % root)
    tap.ok(len(counters) == 1 and any('sequence of column "id"' in x[1] for x in rows), f"{at}: nor is a ruined counter brought back", rows)


def kept(world):
    """What only this server cannot make of a value is no damage; what the clock's log had is unknown without it."""
    at = f"{world.engine}, repair of a table"
    ddl = ("CREATE DOMAIN small AS int%s; CREATE TYPE pair AS (v small, s text); CREATE TYPE mood AS ENUM ('one'%s); "
           "CREATE FOREIGN TABLE d (id int OPTIONS (key 'true'), p pair, s text, m mood) SERVER redis")
    query(world.conn, ddl % ("", ", 'other'"))
    query(world.conn, "INSERT INTO d SELECT g, ROW(g, g::text)::pair, chr(1000 + g), 'other' FROM generate_series(1, 20) g")
    other = world.db + "_other"
    for kind, check, encoding in (("a domain does not take here", " CHECK (value < 10)", None), ("this encoding does not have", "", "LATIN1"),
                                  ("this enum lacks", "", None)):
        make_database(world.server, other, world.redis.nodes, {"atomic": world.engine, "namespace": world.db},
                      ddl % (check, "" if "enum" in kind else ", 'other'"), encoding=encoding)
        with contextlib.closing(world.server.connect(other)) as c:
            tap.equal(error_of(c, "SELECT * FROM mosql_fdw_repair('redis', 'table', 'd', false)"), (None, []),
                      f"{at}: what {kind} is no damage")
            state, found = error_of(c, "SELECT severity FROM mosql_fdw_check('d')")
            tap.equal((state, {f[0] for f in found}), (None, {"broken" if check else "unfinished"}),
                      f"{at}: mosql_fdw_check() goes on, and lists what {kind}")
    tap.equal(value(world.conn, "SELECT count(*) FROM d"), 20, f"{at}: it stays")
    # the index is built into a tree of its own, also where the table was in use before
    before = {int.from_bytes(world.r("HGET", k, "m")[12:20], "big") for k in world.nodes()}
    c = world.connect()
    c.autocommit = False
    query(c, "SELECT count(*) FROM t WHERE n = 3")
    query(c, "REINDEX INDEX t_n")
    c.commit()
    c.close()
    world.anew()
    world.maintain(2)
    after = {int.from_bytes(world.r("HGET", k, "m")[12:20], "big") for k in world.nodes()}
    tap.equal((len(after - before), len(before - after)), (1, 1), f"{world.engine}, REINDEX: a new tree, and the old one is gone")
    tap.equal(findings(world.conn, "t"), ([], []), f"{world.engine}, REINDEX: the entries are in the new one")
    # an outcome that was in the clock's log
    tx = "%d.1" % int(world.clock("HGET", "c", "sid"))
    world.conn.close()
    for k in [k for k in world.r("KEYS", world.db + ":*") if b".clock}" in k]:
        world.r("DEL", k)
    repair(world, "clock")
    world.conn = world.connect()
    tap.equal(value(world.conn, "SELECT mosql_fdw_transaction_status('redis', %s)", (tx,)), "unknown",
              f"{world.engine}, the clock is rebuilt: how a transaction ended before is not known")


PARTS = {"repair": (mend, strays, clock, attach, others), "unnamed": (ruined, beside, held, dropped, attached, kept),
         "damage": (damage,), "orphans": (orphans, lost_root, killed)}


def body():
    redis = Cluster("repair", plain=True)
    server = Server("repair", ["max_worker_processes=0"])    # no keeper ends what is to be ended by hand
    for part in sys.argv[1:] or PARTS:
        for engine in ENGINES:
            for what in PARTS[part]:
                with section(f"{engine}, {what.__name__}"):
                    redis.ask(redis.ports[0], "FLUSHALL")
                    world = World(redis, server, engine, what.__name__)
                    what(world)
                    world.close()


main(body)
