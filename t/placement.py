#!/usr/bin/python3
"""Where leaves are, on three primaries: the first of each tree on the node of the clock, the others anywhere.

    t/placement.py"""
import contextlib
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import mosqltest
from mosqltest import *
from mover import Mover

mosqltest.BUILD = "small"       # leaves of four rows
TOGETHER = 4                    # MOSQL_TOGETHER_MAX_LEAVES
MANY = 12                       # trees that are all at one of three nodes by chance: one time in half a million
DDL = "CREATE FOREIGN TABLE {0} (id int OPTIONS (key 'true') NOT NULL, n int, v text) SERVER redis {1}"


def leaves(cluster, ns):
    """Of each tree in Redis but that of definitions, by its root: the port of each leaf, in key order."""
    trees = {}
    for port in cluster.primaries:
        with contextlib.closing(cluster.redis(port)) as r:
            for key in r("KEYS", ns + ":{????????????????}"):
                meta = r("HGET", key, "m")
                level, _, flags = meta[9:12]
                (root,) = struct.unpack(">Q", meta[12:20])
                at = 20 + 8 * (flags & 1) + 8 * (flags >> 1 & 1)
                if level == 0 and root != 1:    # fences are shorter than 128 bytes here
                    trees.setdefault(root, []).append((meta[at + 1:at + 1 + meta[at]], port))
    return {root: [port for _, port in sorted(found)] for root, found in trees.items()}


class World:
    def __init__(self, cluster, server, db):
        self.cluster, self.db = cluster, db
        self.conn = server.connect(db)
        self.known = set()
        self.new()

    def new(self):
        """The leaves of trees that were made since the last call."""
        trees = leaves(self.cluster, self.db)
        new = [ports for root, ports in trees.items() if root not in self.known]
        self.known |= set(trees)
        return new

    def do(self, *statements):
        for sql in statements:
            query(self.conn, sql)
        return self.new()

    @property
    def clock(self):
        return self.cluster.clock_port(self.db)

    def first_together(self, name, trees, wanted):
        """The first four leaves of each of so many trees are with the clock, and many of the others are not."""
        tap.equal(len(trees), wanted, f"{name}: so many trees")
        tap.equal([ports[:TOGETHER] for ports in trees], [[self.clock] * len(ports[:TOGETHER]) for ports in trees],
                  f"{name}: the first leaves are on the clock's node")
        rest = [port != self.clock for ports in trees for port in ports[TOGETHER:]]
        tap.ok(sum(rest) >= len(rest) / 3, f"{name}: {sum(rest)} of the {len(rest)} others are elsewhere")

    def trips(self, sql):
        """Round trips of a statement that is known to the caches."""
        query(self.conn, sql)
        before = value(self.conn, "SELECT value FROM mosql_fdw_stats() WHERE name = 'round_trips'")
        query(self.conn, sql)
        return value(self.conn, "SELECT value FROM mosql_fdw_stats() WHERE name = 'round_trips'") - before


ROWS = "SELECT i, i, i::text FROM generate_series({}, {}) i"


def made(world):
    """Trees that commands make, and fill."""
    world.first_together("CREATE", world.do(DDL.format("a", ""), "CREATE INDEX a_n ON a (n)"), 2)
    tap.equal(world.do("INSERT INTO a " + ROWS.format(1, 400)), [], "INSERT makes no tree")
    grown = leaves(world.cluster, world.db)
    world.first_together("rows at once", [ports for ports in grown.values() if len(ports) > 50], 2)
    with world.conn.cursor() as c:
        c.execute(f"BEGIN; {DDL.format('b', '')}; INSERT INTO b {ROWS.format(1, 200)}; COMMIT")
    world.first_together("a load", world.new(), 1)
    world.first_together("an index of what is there", world.do("CREATE INDEX b_n ON b (n)"), 1)
    world.first_together("TRUNCATE", world.do("TRUNCATE a"), 2)
    world.first_together("ALTER", world.do("ALTER FOREIGN TABLE b ALTER n TYPE bigint"), 2)
    world.do(DDL.format("c", ""))
    for i in range(60):
        query(world.conn, f"INSERT INTO c VALUES ({i}, {i}, '')")
    grown = leaves(world.cluster, world.db)
    world.first_together("row by row", [ports for root, ports in grown.items() if len(ports) == max(
        len(p) for p in grown.values() if len(p) < 30)], 1)


def options(world):
    spread = world.do(*(DDL.format(f"s{i}", "OPTIONS (placement 'spread')") for i in range(MANY)))
    tap.ok(any(ports != [world.clock] for ports in spread), "placement 'spread': anywhere", spread)
    query(world.conn, "ALTER SERVER redis OPTIONS (ADD placement 'spread')")
    spread = world.do(*(DDL.format(f"u{i}", "") for i in range(MANY)))
    tap.ok(any(ports != [world.clock] for ports in spread), "of the server, too", spread)
    world.first_together("the table wins", world.do(*(DDL.format(f"v{i}", "OPTIONS (placement 'clock')") for i in range(MANY))), MANY)
    query(world.conn, "ALTER SERVER redis OPTIONS (DROP placement)")


def elsewhere(world):
    """A table whose leaf is not with the clock; known, and with rows."""
    for i in range(MANY):
        if world.do(DDL.format(f"away{i}", "OPTIONS (placement 'spread')")) != [[world.clock]]:
            world.do(f"INSERT INTO away{i} {ROWS.format(1, 3)}")
            return f"away{i}"


def at_once(world):
    """What a commit costs that is all there."""
    world.do(*(DDL.format(t, "") for t in ("one", "two")), *(f"INSERT INTO {t} {ROWS.format(1, 3)}" for t in ("one", "two")))
    world.do("CREATE INDEX two_n ON two (n)")
    with_two = "WITH o AS (UPDATE one SET n = n + 1 WHERE id = 1) UPDATE two SET n = n + 1 WHERE id = 1"
    once = world.trips(with_two)
    query(world.conn, "SET mosql_fdw.one_step = off")
    ordinary = world.trips(with_two)
    query(world.conn, "RESET mosql_fdw.one_step")
    tap.ok(once < ordinary, "a commit of two tables and an index is one step", (once, ordinary))
    tap.note(f"{once} round trips, in two steps {ordinary}")
    hot = "UPDATE {} SET v = md5(v) WHERE id = 1".format
    tap.equal([world.trips(hot(table)) for table in ("one", elsewhere(world))], [2, 3],
              "so an UPDATE by key takes two round trips, where the leaf is elsewhere three")
    return with_two


def moved(world, with_two):
    """The clock's slot goes to another node: what is new follows, and what was there is as good as leaves anywhere."""
    before = world.clock
    mover = Mover(world.cluster.ports)
    slot = world.cluster.ask(before, "CLUSTER", "KEYSLOT", "%s:{%s.clock}:c" % (world.db, world.db))
    mover.move(slot, random.Random(1), next(p for p in world.cluster.ports if p != before))
    tap.ok(world.clock != before, "the clock has moved")
    tap.ok(wait_until(lambda: attempt(world.conn, with_two)[1] is None), "which who knows the other node is told with 40001")
    n = value(world.conn, "SELECT n FROM one WHERE id = 1")
    world.trips(with_two)
    tap.equal(query(world.conn, "SELECT one.n, two.n FROM one JOIN two USING (id) WHERE id = 1"), [(n + 2, n + 2)],
              "commits go on")
    world.first_together("new tables", world.do(*(DDL.format(f"w{i}", "") for i in range(MANY))), MANY)
    for table in ("a", "b", "c", "one", "two"):
        tap.equal(findings(world.conn, table), ([], []), f"{table}: sound")


def body():
    cluster = Cluster("placement")
    server = Server("placement")
    make_database(server, "placement", cluster.nodes)
    with contextlib.closing(server.connect("placement")) as c:
        query(c, "SELECT mosql_fdw_enable('redis')")
    world = World(cluster, server, "placement")
    made(world)
    options(world)
    moved(world, at_once(world))
    tap.equal(server.crashes(), [], "no backend has crashed")


main(body)
