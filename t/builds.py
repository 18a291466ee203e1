#!/usr/bin/python3
"""CREATE INDEX while others write, from another PostgreSQL server.

  load    clients insert, update, move and delete rows while indexes are created and
          dropped: they meet no error but 40001, and the indexes say what the rows say
  waits   a writer that meets the end of a build waits for it, and is in the index
  small   a build is not bounded by the size of a transaction
  fails   nothing stays of a build that fails, whatever the database's encoding
  killed  a builder is killed at each of its points: writers go on, at the latest when
          its lease is over; nothing stays of the build, and the next one is right
  dropped the table of a build that died is dropped before anybody has taken that away
  left    a builder fails, and so does taking the build away, while it has a lock beyond transactions: writers go on

    t/builds.py [PART]..."""
import contextlib
import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

ROWS = 20000
DDL = "CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, a int, b text, u int) SERVER redis"
INDEXES = ("CREATE INDEX t_a ON t (a DESC NULLS LAST, b)",
           "CREATE UNIQUE INDEX t_u ON t (u) INCLUDE (a)",
           "CREATE INDEX CONCURRENTLY t_b ON t (b) INCLUDE (u)")
WRITERS = 3


def write(conn, rng):
    """One change of one to three rows.  u is unique: each id has ten values of its own."""
    def u(row):
        return rng.choice(["NULL", str(row * 10 + rng.randint(0, 9))])

    with conn.cursor() as c:
        for _ in range(rng.choice((1, 1, 3))):
            row = rng.randint(1, ROWS + 2000)
            kind = rng.random()
            if kind < .3:
                c.execute(f"DELETE FROM t WHERE id = {row}")
            elif kind < .6:
                c.execute(f"UPDATE t SET a = a + {rng.randint(-3, 3)}, u = {u(row)} WHERE id = {row}")
            elif kind < .7:
                c.execute(f"UPDATE t SET u = NULL WHERE id IN ({row}, {row + 1})")
            else:
                c.execute(f"INSERT INTO t VALUES ({row}, {rng.randint(1, 500)}, 'x{row % 77}', {u(row)})"
                          " ON CONFLICT (id) DO UPDATE SET b = excluded.b, a = NULL")
    conn.commit()


class World:
    def __init__(self, cluster, one, two, engine):
        self.one, self.two, self.db = one, two, f"builds_{engine}"
        self.cluster, self.nodes, self.engine = cluster, cluster.nodes, engine
        for s in (one, two):
            make_database(s, self.db, cluster.nodes, {"atomic": engine}, DDL)
        self.conn = two.connect(self.db)
        query(self.conn, f"INSERT INTO t SELECT g, g % 500, 'x' || g % 77, g * 10 FROM generate_series(1, {ROWS}) g")

    def writers(self, **settings):
        clients = Clients()
        for n in range(WRITERS):
            clients.add(Client(self.two, self.db, write, n + 1, pause=.002, **settings))
        return clients


def load(world):
    conn = world.one.connect(world.db)
    with world.writers() as clients:
        wait_until(lambda: clients.done > 20)
        for number in range(2):
            for index in INDEXES:
                before = clients.done
                tap.equal(error_of(conn, index)[0], None, f"round {number + 1}, {index}")
                tap.ok(clients.done > before, f"round {number + 1}: clients wrote meanwhile",
                       f"{clients.done - before}")
            tap.ok(clients.hold(), f"round {number + 1}: clients rest")
            wait_until(lambda: findings(conn, "t") == ([], []))
            tap.equal(findings(conn, "t"), ([], []), f"round {number + 1}: the indexes are right")
            clients.go()
            if number == 0:
                query(conn, "DROP INDEX t_a, t_u, t_b")
        tap.equal(clients.unexpected(CONFLICTS), "", "no errors but conflicts")
        # A build changes the definitions when it begins and when it ends, a DROP once an index.
        changes = 2 * 2 * len(INDEXES) + len(INDEXES)
        tap.ok(clients.errors().get(CONFLICT, 0) <= changes * WRITERS, "at most one for each client and change of definitions",
               f"{clients.errors()} of {clients.done}, {changes} changes")
        tap.note(f"{clients.done} transactions, {clients.errors()}, slowest "
                 f"{max(c.slowest for c in clients.all):.2f} s")
    tap.equal(query(conn, "SELECT operation FROM mosql_fdw_progress WHERE operation LIKE 'create%'"), [],
              "no build is shown any more")
    query(conn, "DROP INDEX t_a, t_u, t_b")
    conn.close()


def waits(world):
    holder, builder = world.one.connect(world.db), world.one.connect(world.db, **{"mosql_fdw.debug_points": "on"})
    query(holder, "SELECT mosql_fdw_debug_lock('build-closing')")
    results = {}

    def run(name, conn, sql):
        results[name] = error_of(conn, sql)[0]

    build = threading.Thread(target=run, args=("build", builder, INDEXES[0]))
    build.start()
    wait_until(lambda: value(holder, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
    time.sleep(1.1)         # whoever was idle for a second looks what is new
    writer = threading.Thread(target=run, args=("write", world.conn, "INSERT INTO t VALUES (-1, 12345, 'late', NULL)"))
    writer.start()
    time.sleep(.3)
    tap.ok(writer.is_alive(), "a writer waits while the build is being finished")
    with contextlib.closing(world.two.connect(world.db)) as reader:
        tap.equal(error_of(reader, "SELECT count(*) FROM t")[0], None, "a reader does not")
    query(holder, "SELECT mosql_fdw_debug_unlock('build-closing')")
    build.join(60)
    writer.join(60)
    tap.equal(results, {"build": None, "write": None}, "then both are done")
    tap.equal(query(holder, "SELECT id FROM t WHERE a = 12345"), [(-1,)], "and the row is in the index")
    tap.equal(findings(holder, "t")[0], [], "which is right")
    query(holder, "DELETE FROM t WHERE id = -1; DROP INDEX t_a")
    for c in (holder, builder):
        c.close()


def small(world):
    """What is built need not fit into a transaction."""
    with contextlib.closing(world.one.connect(world.db, **{"mosql_fdw.max_transaction_size": "1MB"})) as conn:
        tap.equal(error_of(conn, INDEXES[0])[0], None, "an index is larger than a transaction may be")
        tap.equal(findings(conn, "t")[0], [], "and right")
        query(conn, "DROP INDEX t_a")


def fails(world):
    """Rolled back, a transaction cannot look up how to convert characters."""
    db = f"{world.db}_latin"
    make_database(world.one, db, world.nodes, {"atomic": world.engine},
                  "CREATE FOREIGN TABLE \"tür\" (id int OPTIONS (key 'true') NOT NULL, \"größe\" int) SERVER redis",
                  encoding="LATIN1")
    with contextlib.closing(world.one.connect(db)) as conn:
        query(conn, "INSERT INTO \"tür\" VALUES (1, 1), (2, 1)")
        for encoding in "LATIN1", "UTF8":
            conn.set_client_encoding(encoding)
            tap.equal(error_of(conn, "CREATE UNIQUE INDEX \"öfter\" ON \"tür\" (\"größe\")")[0], "23505",
                      f"a build fails, client {encoding}")
            tap.equal(query(conn, "SELECT operation FROM mosql_fdw_progress"), [],
                      f"and nothing is shown of it, client {encoding}")
        query(conn, "UPDATE \"tür\" SET \"größe\" = id")
        tap.equal(error_of(conn, "CREATE UNIQUE INDEX \"öfter\" ON \"tür\" (\"größe\")")[0], None, "its name is free")


def killed(world):
    points = debug_points("build")
    tap.ok(len(points) >= 5, "points of a build are found in the sources", points)
    for number, point in enumerate(points):
        index = INDEXES[number % 2]
        with world.writers(**{"mosql_fdw.commit_timeout": 400}) as clients:
            wait_until(lambda: clients.done > 5)
            conn = world.one.connect(world.db, **{"mosql_fdw.debug_crash_at": point,
                                                  "mosql_fdw.debug_lease": 2000})
            tap.ok(error_of(conn, index)[0] is not None and conn.closed, f"killed at {point}: it dies")
            conn.close()
            tap.ok(clients.everybody_went_on(time.monotonic(), LONG_WAIT), f"killed at {point}: writers go on")
            tap.equal(clients.unexpected(f"{CONFLICTS}|55P03"), "", f"killed at {point}: no errors but conflicts and 55P03")
        world.one.wait_up()
        time.sleep(2)           # its lease
        query(world.conn, "SELECT mosql_fdw_maintain('redis')")
        tap.equal(query(world.conn, "SELECT operation, state FROM mosql_fdw_progress WHERE operation LIKE 'create%'"),
                  [], f"killed at {point}: maintenance takes it away")
        tap.equal(error_of(world.conn, index)[0], None, f"killed at {point}: another server creates it")
        tap.equal(findings(world.conn, "t")[0], [], f"killed at {point}: and it is right")
        query(world.conn, f"DROP INDEX {index.split(' ON ')[0].split()[-1]}")


def dropped(world):
    """The table goes before anybody has taken the build away: then its job goes all the same."""
    with contextlib.closing(world.one.connect(world.db)) as conn:
        query(conn, "CREATE FOREIGN TABLE d (id int OPTIONS (key 'true') NOT NULL, n int) SERVER redis")
        query(conn, "INSERT INTO d SELECT g, g FROM generate_series(1, 100) g")
    conn = world.one.connect(world.db, **{"mosql_fdw.debug_crash_at": "build-loaded", "mosql_fdw.debug_lease": 2000})
    tap.ok(error_of(conn, "CREATE INDEX d_n ON d (n)")[0] is not None and conn.closed, "a builder dies")
    conn.close()
    world.one.wait_up()
    with contextlib.closing(world.one.connect(world.db)) as conn:
        query(conn, "DROP FOREIGN TABLE d")
    time.sleep(2)               # its lease
    query(world.conn, "SELECT mosql_fdw_maintain('redis')")
    tap.equal(query(world.conn, "SELECT operation, state FROM mosql_fdw_progress WHERE operation LIKE 'create%'"), [],
              "its table is dropped: maintenance takes away what told of it")


def left(world):
    db = f"{world.db}_left"
    make_database(world.one, db, world.nodes, {"command_timeout": 300}, DDL)
    holder, writer = world.one.connect(db), world.one.connect(db, **{"mosql_fdw.commit_timeout": 500})
    conn = world.one.connect(db, **{"mosql_fdw.debug_points": "on", "mosql_fdw.debug_lease": 5000})
    query(writer, "INSERT INTO t SELECT g, g FROM generate_series(1, 100) g")
    query(conn, "SELECT mosql_fdw_advisory_lock('redis', 1)")
    query(holder, "SELECT mosql_fdw_debug_lock('build-closing')")
    results = []
    build = threading.Thread(target=lambda: results.append(error_of(conn, INDEXES[0])[0]))
    build.start()
    wait_until(lambda: value(holder, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
    world.cluster.remember_pids()
    for port in world.cluster.primaries:
        world.cluster.signal(port, signal.SIGSTOP)
    query(holder, "SELECT mosql_fdw_debug_unlock('build-closing')")
    build.join(60)
    for port in world.cluster.primaries:
        world.cluster.signal(port, signal.SIGCONT)
    tap.ok(results and results[0] is not None, "a builder fails where Redis is silent", results)
    tap.ok(wait_until(lambda: attempt(writer, "INSERT INTO t VALUES (-1, 1) ON CONFLICT (id) DO UPDATE SET a = 2")[1] is None, pause=.5),
           "writers go on, though it idles and had a lock beyond transactions")
    tap.equal(error_of(conn, "SELECT count(*) FROM t")[0], "55000", "it is told that this is lost")
    tap.equal(error_of(conn, INDEXES[0])[0], None, "and creates the index")
    for c in (holder, writer, conn):
        c.close()


def body():
    parts = sys.argv[1:] or ["load", "waits", "small", "fails", "killed", "dropped", "left"]
    cluster = Cluster("builds")
    one, two = Server("builds1"), Server("builds2")
    for engine in ENGINES:
        world = World(cluster, one, two, engine)
        for part in (load, waits, small, fails, killed, dropped, left):
            if part.__name__ in parts and (part not in (killed, dropped, left) or engine == "script"):
                with section(f"{engine}, {part.__name__}"):
                    part(world)
        world.conn.close()
    tap.equal(two.crashes(), [], "no backend of the writers' server died")


main(body)
