#!/usr/bin/python3
"""Redis is unreachable, closed, full, read-only, slow, silent, hangs up, or holds garbage.

Each time: the right SQLSTATE within the timeout, the backend lives, the
transaction is cleanly over, nothing is half visible; and when Redis is well
again, everything goes on.
    t/faults.py [PART]...
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import load
from mosqltest import *

TIMEOUT = 2.0                   # command_timeout of these servers
SLACK = 6.0                     # for a busy machine: who waits for each table, or retries, does so for 10 s and more
LEASE = ["mosql_fdw.debug_lease=15000"]     # of who ended and could not tell a silent node that his locks are free
DDL = """
CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, n int, pad text) SERVER redis;
CREATE FOREIGN TABLE u (id int OPTIONS (key 'true') NOT NULL, n int, pad text) SERVER redis;
"""
OPTIONS = {"command_timeout": "2000", "connect_timeout": "1000"}


class World:
    """Servers started when a part first needs them."""

    def __init__(self):
        self.made = {}

    def get(self, name, make):
        if name not in self.made:
            self.made[name] = make()
        return self.made[name]

    @property
    def one(self):
        return self.get("one", lambda: Server("faults1", LEASE))

    @property
    def two(self):
        return self.get("two", lambda: Server("faults2", LEASE))

    @property
    def cluster(self):
        return self.get("cluster", lambda: Cluster("faults"))

    @property
    def plain(self):
        return self.get("plain", lambda: Cluster("faults-plain", plain=True))


world = World()


def fails(conn, sql, states, name, within=TIMEOUT + SLACK, says=""):
    """The statement fails so, in time, and the session goes on."""
    started = time.monotonic()
    state, text = error_of(conn, sql)
    took = time.monotonic() - started
    good = state is not None and re.fullmatch(states, state) and re.search(says, text)
    if "|" in states and good:
        tap.note(f"{state}: {text.splitlines()[0]}")
    tap.ok(good, f"{name}: {states}", f"{state}: {text}")
    tap.ok(took <= within, f"{name}: in time", f"after {took:.2f} s, allowed are {within:.2f}")
    if conn.info.transaction_status != 0:
        attempt(conn, "ROLLBACK")
    tap.equal(attempt(conn, "SELECT 1"), ([(1,)], None), f"{name}: the session lives")
    return state


def works(conn, sql, name):
    state, text = error_of(conn, sql)
    if state and conn.info.transaction_status != 0:
        attempt(conn, "ROLLBACK")
    return tap.ok(state is None, name, f"{state}: {text}")


def again(conn, sql, name, seconds=60):
    """It works again: soon, or when a lease is over."""
    last = []

    def ok():
        state, text = error_of(conn, sql)
        last[:] = [state, text]
        return state is None
    started = time.monotonic()
    good = wait_until(ok, seconds, 0.1)
    tap.ok(good, name, last)
    return time.monotonic() - started


def holds(conn, name):
    """Both tables say the same: every transaction here writes both or none."""
    q = "SELECT count(*), coalesce(sum(id), 0), coalesce(sum(n), 0) FROM "
    query(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ")
    t, u = query(conn, q + "t"), query(conn, q + "u")
    query(conn, "COMMIT")
    tap.equal(t, u, f"{name}: all or nothing")


def sound(conn, name, tables=("t", "u")):
    found = [f for x in tables for f in findings(conn, x)[0]]
    tap.ok(not found, f"{name}: nothing is broken", "\n".join(map(str, found[:10])))


def both(first, last, n=0, pad=10):
    """Rows into both tables."""
    rows = f"SELECT g, {n}, repeat(md5(g::text), {pad}) FROM generate_series({first}, {last}) g"
    return f"BEGIN; INSERT INTO t {rows}; INSERT INTO u {rows}; COMMIT"


# ---- nobody there ----

def unreachable():
    deaf = socket.create_server(("127.0.0.1", 0), backlog=1)
    fillers = []
    for _ in range(4):          # its queue is full: connecting gets no answer
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(deaf.getsockname())
        fillers.append(s)
    silent = socket.create_server(("127.0.0.1", 0), backlog=100)
    free = socket.create_server(("127.0.0.1", 0))
    closed_port = free.getsockname()[1]
    free.close()
    chatty = socket.create_server(("127.0.0.1", 0))
    loading = socket.create_server(("127.0.0.1", 0))

    def talk(listener, answer):
        def serve(c):
            with contextlib.suppress(OSError):
                file = c.makefile("rb")
                while True:
                    raw, _ = Proxy._command(file)
                    if raw is None:
                        break
                    c.sendall(answer)
            c.close()

        def accept():
            while True:
                try:
                    c, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(c,), daemon=True).start()
        threading.Thread(target=accept, daemon=True).start()
    talk(chatty, b"HTTP/1.0 400 Bad Request\r\n\r\n")
    talk(loading, b"-LOADING Redis is loading the dataset in memory\r\n")

    for name, port, states in (
            ("a closed port", closed_port, "08001"),
            ("a port that does not answer", deaf.getsockname()[1], "08001"),
            ("a server that is silent", silent.getsockname()[1], "0800[16]"),
            ("a server that is not Redis", chatty.getsockname()[1], "08..."),
            ("a Redis that is loading", loading.getsockname()[1], "57P03")):
        db = "nobody"
        make_database(world.one, db, f"127.0.0.1:{port}", OPTIONS)
        with contextlib.closing(world.one.connect(db)) as c:
            fails(c, "CREATE FOREIGN TABLE x (id int OPTIONS (key 'true') NOT NULL) SERVER redis",
                  states, f"{name}: CREATE", says=str(port))
            query(c, "SET statement_timeout = 300")
            if states != "08001" or "answer" in name:
                fails(c, "CREATE FOREIGN TABLE x (id int OPTIONS (key 'true') NOT NULL) SERVER redis",
                      "57014", f"{name}, statement_timeout", 0.3 + SLACK / 2)
    for s in (deaf, silent, chatty, loading, *fillers):
        s.close()

    # nodes that are there make up for those that are not
    make_database(world.one, "nobody", f"127.0.0.1:{closed_port},{world.cluster.nodes}", OPTIONS, DDL)
    with contextlib.closing(world.one.connect("nobody")) as c:
        works(c, "SELECT * FROM t", "one of the nodes is enough")

    # two different Redis servers are no cluster
    make_database(world.one, "nobody", f"{world.plain.nodes},127.0.0.1:{closed_port}", OPTIONS)
    with contextlib.closing(world.one.connect("nobody")) as c:
        fails(c, "CREATE FOREIGN TABLE x (id int OPTIONS (key 'true') NOT NULL) SERVER redis",
              "22...|HV...|08...", "two nodes that are no cluster")


# ---- passwords ----

def passwords():
    closed = Cluster("faults-auth", plain=True)
    try:
        admin = Redis(closed.ports[0])
        admin("CONFIG", "SET", "requirepass", "secret")
        admin("ACL", "SETUSER", "app", "on", ">pass word", "~*", "+@all")
        admin("ACL", "SETUSER", "reader", "on", ">r", "~*", "+@read", "+@connection", "+@scripting",
              "+time", "+cluster|slots", "+info")
        create = "CREATE FOREIGN TABLE {} (id int OPTIONS (key 'true') NOT NULL) SERVER redis"
        for engine in ENGINES:
            for name, mapping, states in (
                    ("no password", {}, "28P01"),
                    ("a wrong password", {"password": "wrong"}, "28P01"),
                    ("an unknown user", {"username": "nobody", "password": "secret"}, "28P01"),
                    ("the right password", {"password": "secret"}, None),
                    ("user and password", {"username": "app", "password": "pass word"}, None),
                    ("a user who may only read", {"username": "reader", "password": "r"}, "42501")):
                make_database(world.one, "auth", closed.nodes,
                              {**OPTIONS, "atomic": engine, "namespace": "auth_" + engine},
                              mapping=mapping)
                with contextlib.closing(world.one.connect("auth")) as c:
                    name = f"{engine}, {name}"
                    if states:
                        fails(c, create.format("x"), states, name, SLACK)
                        if "wrong" in name:
                            query(c, "ALTER USER MAPPING FOR PUBLIC SERVER redis OPTIONS (SET password 'secret')")
                            works(c, create.format("mended"), f"{name}, put right in the same session")
                            query(c, "DROP FOREIGN TABLE mended")
                    else:
                        query(c, create.format("y"))
                        works(c, "SELECT * FROM y", name)
                        query(c, "DROP FOREIGN TABLE y")
    finally:
        with contextlib.suppress(Exception):
            admin("CONFIG", "SET", "requirepass", "")
        closed.stop()


# ---- full ----

def give_back(conn):
    """Locks that a Redis node could not be told of go with the session's next transaction."""
    attempt(conn, "SELECT 1 FROM t WHERE id = 1")


def full():
    cluster = world.cluster

    def limit(bytes_):
        for p in cluster.primaries:
            r = Redis(p)
            if bytes_ < 0:
                used = int(re.search(r"used_memory:(\d+)", r("INFO", "memory").decode())[1])
                r("CONFIG", "SET", "maxmemory", used - bytes_)
            else:
                r("CONFIG", "SET", "maxmemory", bytes_)
            r.close()

    for engine in ENGINES:
        name = f"full, {engine}"
        db = "full_" + engine
        for s in (world.one, world.two):
            make_database(s, db, cluster.nodes, {**OPTIONS, "atomic": engine}, DDL)
        a, b, lapsed = world.one.connect(db), world.two.connect(db), world.two.connect(db)
        try:
            query(a, both(1, 2000))
            query(b, "SELECT * FROM t WHERE id = 7")    # a new session's id needs room at the clock
            query(lapsed, "SET mosql_fdw.debug_lease = '1s'; SELECT count(*) FROM t")
            limit(-3000000)     # room for three megabytes more
            state, i = None, 0
            while state is None and i < 60:
                i += 1
                started = time.monotonic()
                state, text = error_of(a, both(10000 * i, 10000 * i + 300, pad=30))
            took = time.monotonic() - started
            attempt(a, "ROLLBACK")
            tap.equal(state, "53200", f"{name}: inserts until it is full")
            tap.ok(took < TIMEOUT + SLACK, f"{name}: says so in time", f"{took:.1f} s")
            tap.note(f"after {i} transactions of 600 rows: {str(text).splitlines()[0]}")
            # whether reads work depends on the room that is left for a snapshot; by key they do
            works(b, "SELECT * FROM t WHERE id = 7", f"{name}: rows are still read")
            limit(1)
            fails(a, "UPDATE t SET n = 1 WHERE id = 5", "53200", f"{name}, update")
            fails(a, "BEGIN; DELETE FROM t WHERE id = 5; DELETE FROM u WHERE id = 5; COMMIT", "53200",
                  f"{name}, delete")
            fails(a, "CREATE FOREIGN TABLE z (id int OPTIONS (key 'true') NOT NULL) SERVER redis",
                  "53200", f"{name}, DDL")
            for who, conn in (("after errors", a), ("by another server", b)):
                works(conn, "SELECT * FROM t WHERE id = 7", f"{name}: rows are read with nothing left, {who}")
            # who was idle for a second asks for the schema version first, and for longer, draws an id
            time.sleep(1.2)
            for who, conn in (("after errors", a), ("by another server", b), ("whose lease is over", lapsed)):
                works(conn, "SELECT * FROM t WHERE id = 7", f"{name}: ... and after a while, {who}")
            fails(lapsed, "SELECT count(*) FROM t", "53200", f"{name}, a snapshot")
            limit(0)
            again(b, "SELECT 1 FROM t WHERE id = 7", f"{name}: room again")
            works(lapsed, both(5100001, 5100600), f"{name}: whose lease was over writes again")
            holds(b, name)
            works(a, both(5000001, 5000300), f"{name}: the same session writes again")

            # full in the middle of prepare, and between prepare and decide: nothing happened
            query(a, "SET mosql_fdw.debug_points = on")
            for point in ("before-prepare", "prepare-some", "after-prepare"):
                held = world.one.connect(db)
                query(held, f"SELECT mosql_fdw_debug_lock('{point}')")
                t, result = in_background(a, "BEGIN; UPDATE t SET n = 3 WHERE id <= 100; "
                                          "UPDATE u SET n = 3 WHERE id <= 100; " + both(6000001, 6000200)[7:])
                wait_until(lambda: value(held, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
                limit(1)
                query(held, f"SELECT mosql_fdw_debug_unlock('{point}')")
                t.join(60)
                held.close()
                attempt(a, "ROLLBACK")
                limit(0)
                at = f"{name} at {point}"
                state = result[0][0] if result else "no answer"
                # a script that first takes something away, as an old record, may write then
                wanted = ("53200",) if point == "before-prepare" else ("53200", None)
                tap.ok(state in wanted, f"{at}: COMMIT says so", result)
                tap.equal(value(b, "SELECT count(*) FROM t WHERE id > 6000000"), 0 if state else 200,
                          f"{at}: and nothing happened")
                give_back(a)
                holds(b, at)
                again(b, "BEGIN; UPDATE t SET n = 0 WHERE id <= 100; UPDATE u SET n = 0 WHERE id <= 100; COMMIT",
                      f"{at}: its rows can be changed")
                again(b, "BEGIN; DELETE FROM t WHERE id > 6000000; DELETE FROM u WHERE id > 6000000; COMMIT",
                      f"{at}: and so can new ones")
            query(a, "RESET mosql_fdw.debug_points")

            # full between decide and apply: committed is committed
            held = world.one.connect(db)
            query(held, "SELECT mosql_fdw_debug_lock('after-decide')")
            query(a, "SET mosql_fdw.debug_points = on")
            result = []
            t = threading.Thread(target=lambda: result.append(error_of(
                a, "BEGIN; UPDATE t SET n = n + 7, pad = 'new' WHERE id BETWEEN 1 AND 1500; "
                   "UPDATE u SET n = n + 7, pad = 'new' WHERE id BETWEEN 1 AND 1500; COMMIT")))
            t.start()
            wait_until(lambda: value(held, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
            limit(1)
            query(held, "SELECT mosql_fdw_debug_unlock('after-decide')")
            t.join(60)
            held.close()
            tap.equal(result and result[0][0], None, f"{name}: full after decide, COMMIT succeeds")
            state, text = error_of(b, "UPDATE t SET n = 0 WHERE id = 5")
            tap.equal(state, "53200", f"{name}: whoever meets the rows says what is wrong")
            limit(0)
            holds(b, f"{name}, full at apply")
            tap.equal(query(b, "SELECT count(*) FROM t WHERE n = 7 AND pad = 'new'"), [(1500,)],
                      f"{name}: what was committed is there")
            query(a, "RESET mosql_fdw.debug_points")
            # (committed rows are finished one by one; a busy machine may need several COMMITs)
            again(b, "BEGIN; UPDATE t SET n = n; UPDATE u SET n = n; COMMIT", f"{name}: all rows can be changed", 40)
            again(a, "BEGIN; UPDATE t SET n = n; UPDATE u SET n = n; COMMIT", f"{name}: by both", 40)
            sound(b, name)
        finally:
            limit(0)
            a.close()
            b.close()
            lapsed.close()


# ---- what does not decode ----

def undecodable():
    """Whoever meets it while committing says so, and does not wait for it to go away."""
    cluster = world.cluster
    for engine in ENGINES:
        db = "undecodable_" + engine
        make_database(world.one, db, cluster.nodes, {**OPTIONS, "atomic": engine}, DDL)
        c = world.one.connect(db)
        query(c, "INSERT INTO t SELECT g, 0, '' FROM generate_series(1, 10) g")
        node = value(c, "SELECT node FROM mosql_fdw_dump('t') WHERE level = 0")
        names = sorted(f for f in cluster.on(node, "HKEYS", node) if f.startswith(b"r"))
        row, intent = names[4], b"i" + names[4][1:]
        good = cluster.on(node, "HGET", node, row)

        def damaged(name, field, content, sql):
            cluster.on(node, "HSET", node, field, content)
            at = f"{engine}, {name}"
            fails(c, sql, "XX001", at, 2, says="docs/repair.md")
            cluster.on(node, "HDEL", node, field)
            cluster.on(node, "HSET", node, row, good)
            attempt(c, "ROLLBACK")

        increment = "UPDATE t SET n = n + 1 WHERE id = 5"
        insert = "INSERT INTO t VALUES (100, 1, '')"
        certify = "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM t WHERE id > 1; "
        damaged("an intent is garbage", intent, "garbage", increment)
        damaged("an intent is empty", intent, "", increment)
        damaged("an intent is cut off", intent, b"\0" * 16, increment)
        damaged("an intent of no kind", intent, b"\0" * 16 + b"X", increment)
        damaged("a row is garbage", row, "garbage", increment)
        damaged("read marks are garbage", "l", "garbage", insert)
        cluster.on(node, "HDEL", node, "p")
        damaged("a purge mark is garbage", "p", b"\xff" * 9,
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM u; " + insert + "; COMMIT")
        # it comes between what was read and COMMIT
        for name, field, content in (("an intent", intent, "garbage"), ("a row", row, "\xff" * 8)):
            query(c, certify + "INSERT INTO u VALUES (1, 1, '')")
            damaged(f"{name} that was read is garbage", field, content, "COMMIT")
        works(c, "UPDATE t SET n = n + 1", f"{engine}: mended, all rows can be changed")
        sound(c, f"{engine}, mended")
        c.close()


# ---- mappings that go ----

def mappings():
    """Whoever has used one closes its connections with its next transaction."""
    plain = world.plain
    plain.ask(plain.ports[0], "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all")

    def connected():
        return sum(b"user=app" in line for line in plain.ask(plain.ports[0], "CLIENT", "LIST").splitlines())

    make_database(world.one, "mappings", plain.nodes, {**OPTIONS, "idle_timeout": "0"}, DDL)
    a, b = world.one.connect("mappings"), world.one.connect("mappings")
    try:
        for change in ("DROP USER MAPPING FOR postgres SERVER redis",
                       "ALTER USER MAPPING FOR postgres SERVER redis OPTIONS (SET username 'default')",
                       "DROP SERVER redis CASCADE"):
            attempt(b, "DROP USER MAPPING IF EXISTS FOR postgres SERVER redis")
            query(b, "CREATE USER MAPPING FOR postgres SERVER redis OPTIONS (username 'app', password 'secret')")
            query(a, "SELECT count(*) FROM t")
            query(b, "SELECT count(*) FROM t")
            tap.equal(connected(), 2, f"{change}: before it both are connected")
            query(b, "BEGIN; " + change)
            query(b, "ROLLBACK")
            query(a, "SELECT count(*) FROM t")
            tap.equal(connected() > 0, True, f"{change}: rolled back")
            query(b, change)
            query(a, "SELECT 1")
            tap.ok(wait_until(lambda: connected() == 0), f"{change}: after it nobody is", connected())
    finally:
        a.close()
        b.close()
        plain.ask(plain.ports[0], "ACL", "DELUSER", "app")


# ---- read-only ----

def readonly():
    cluster = world.cluster
    for engine in ENGINES:
        name, db = f"read-only, {engine}", "readonly_" + engine
        for s in (world.one, world.two):
            make_database(s, db, cluster.nodes, {**OPTIONS, "atomic": engine}, DDL)
        a, b = world.one.connect(db), world.two.connect(db)
        query(a, both(1, 500))
        try:
            for p in cluster.primaries:
                cluster.ask(p, "CONFIG", "SET", "min-replicas-to-write", 1)
            fails(a, "UPDATE t SET n = n + 1 WHERE id = 3", "53000|25006|08006",
                  f"{name}, too few replicas", says="min-replicas|NOREPLICAS|replica")
            fails(b, both(1001, 1400), "53000|25006|08006", f"{name}, many rows")
        finally:
            for p in cluster.primaries:
                cluster.ask(p, "CONFIG", "SET", "min-replicas-to-write", 0)
        again(a, "SELECT 1 FROM t WHERE id = 1", f"{name}: over")
        holds(b, name)
        works(b, both(1001, 1400), f"{name}: written")
        sound(b, name)
        a.close()
        b.close()
    plain = world.plain
    main = Cluster("faults-main", plain=True)
    try:
        make_database(world.one, "replica", plain.nodes, OPTIONS, DDL)
        with contextlib.closing(world.one.connect("replica")) as c:
            query(c, both(1, 10))
            plain.ask(plain.ports[0], "REPLICAOF", "127.0.0.1", main.ports[0])
            fails(c, "UPDATE t SET n = 1 WHERE id = 1", "25006|08006|57P03|42P01|40001", "a replica",
                  2 * TIMEOUT + SLACK)
            fails(c, both(11, 12), "25006|08006|57P03|42P01|40001", "a replica, insert", 2 * TIMEOUT + SLACK)
    finally:
        plain.ask(plain.ports[0], "REPLICAOF", "NO", "ONE")
        plain.ask(plain.ports[0], "FLUSHALL")
        main.stop()


# ---- silent ----

def healthy(cluster):
    return wait_until(lambda: all(b"cluster_state:ok" in cluster.ask(p, "CLUSTER", "INFO")
                                  for p in cluster.primaries), pause=0.1)


@contextlib.contextmanager
def stopped(cluster, port):
    cluster.pid(port)
    cluster.signal(port, signal.SIGSTOP)
    try:
        yield
    finally:
        cluster.signal(port, signal.SIGCONT)
        healthy(cluster)


def in_background(conn, sql):
    result = []
    t = threading.Thread(target=lambda: result.append(error_of(conn, sql)))
    t.start()
    return t, result


def intents(conn, cluster, except_port):
    """Leaves with somebody's intent, but not on one node."""
    return [node for t in ("t", "u") for _, node, finding in findings(conn, t)[1]
            if finding.startswith("intent of") and cluster.owner(node) != except_port]


def silent():
    cluster = world.cluster
    for engine in ENGINES:
        name, db = f"silent, {engine}", "silent_" + engine
        for s in (world.one, world.two):
            make_database(s, db, cluster.nodes, {**OPTIONS, "atomic": engine}, DDL)
        a, b = world.one.connect(db), world.two.connect(db)
        query(a, both(1, 1500))     # leaves on every node
        query(b, "SELECT count(*) FROM t")
        clock = cluster.clock_port(db)
        other = next(p for p in cluster.primaries if p != clock)
        # (PostgreSQL ends statement_timeout when it begins to commit.)
        statements = {
            "scan": "SELECT sum(n) FROM t",
            "commit": "BEGIN; UPDATE t SET n = n + 1; UPDATE u SET n = n + 1; COMMIT",
        }
        for where, port in (("clock", clock), ("other", other)):
            for what, sql in statements.items():
                at = f"{name}, {where}'s node, {what}"
                with stopped(cluster, port):
                    query(a, "SET statement_timeout = 400")
                    fails(a, sql, "57014", f"{at}, statement_timeout", 0.4 + SLACK / 2)
                    query(a, "RESET statement_timeout")
            at = f"{name}, {where}'s node"
            with stopped(cluster, port):
                fails(a, statements["commit"], "08006|08001|08007", f"{at}, commit", 2 * TIMEOUT + SLACK)
                fails(b, "SELECT sum(n) FROM t", "08006|08001|57P03", f"{at}, scan")
            for phase, sql in (("scan", statements["scan"]), ("prepare", statements["commit"])):
                for function, states in (("pg_cancel_backend", ("57014",)),
                                         ("pg_terminate_backend", ("57P01", "gone"))):
                    victim, held = world.one.connect(db), world.one.connect(db)
                    if phase == "prepare":
                        query(held, "SELECT mosql_fdw_debug_lock('before-prepare')")
                        query(victim, "SET mosql_fdw.debug_points = on")
                        t, result = in_background(victim, sql)
                        wait_until(lambda: value(held, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
                    with stopped(cluster, port):
                        if phase == "prepare":
                            query(held, "SELECT mosql_fdw_debug_unlock('before-prepare')")
                        else:
                            t, result = in_background(victim, sql)
                        wait_until(lambda: waits_inside(held, victim, "Extension"))
                        time.sleep(0.3)
                        started = time.monotonic()
                        query(held, f"SELECT {function}({victim.info.backend_pid})")
                        t.join(60)
                        took = time.monotonic() - started
                    tap.ok(result and result[0][0] in states, f"{at}, {phase}, {function}: {states[0]}", result)
                    # what was placed is taken back first, then what was locked: each waits for the node
                    allowed = SLACK / 2 + (1.5 + 2 * TIMEOUT) * (phase == "prepare")
                    tap.ok(took < allowed, f"{at}, {phase}, {function}: soon", f"{took:.2f} s")
                    victim.close()
                    held.close()
                    if phase == "prepare":
                        # nobody else looks at these rows
                        wait_until(lambda: not intents(b, cluster, port))
                        tap.equal(intents(b, cluster, port), [], f"{at}, {phase}, {function}: "
                                  "what was placed on the other nodes is taken back")
            again(a, "SELECT 1 FROM t WHERE id = 1", f"{at}: awake again")
            again(b, "BEGIN; UPDATE t SET n = n; UPDATE u SET n = n; COMMIT", f"{at}: all rows can be changed")
            holds(b, at)

        # the clock falls silent between prepare and decide, for a while or for good
        for pause, states in ((0.8, {None}), (2 * TIMEOUT + 2, {"08007", "08006", CONFLICT})):
            at = f"{name}, the clock during decide, {pause:g} s"
            before = value(b, "SELECT sum(n) FROM t")
            held = world.one.connect(db)
            query(held, "SELECT mosql_fdw_debug_lock('after-prepare')")
            query(a, "SET mosql_fdw.debug_points = on")
            started = time.monotonic()
            t, result = in_background(a, "BEGIN; UPDATE t SET n = n + 1; UPDATE u SET n = n + 1; COMMIT")
            wait_until(lambda: value(held, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
            with stopped(cluster, clock):
                query(held, "SELECT mosql_fdw_debug_unlock('after-prepare')")
                time.sleep(pause)
            t.join(60)
            held.close()
            attempt(a, "ROLLBACK")
            query(a, "RESET mosql_fdw.debug_points")
            tap.ok(result and result[0][0] in states, f"{at}: {states}", result)
            give_back(a)
            again(b, "BEGIN; UPDATE t SET n = n; UPDATE u SET n = n; COMMIT", f"{at}: all rows can be changed")
            holds(b, at)
            change = value(b, "SELECT sum(n) FROM t") - before
            rows = value(b, "SELECT count(*) FROM t")
            wanted = {rows} if result[0][0] is None else \
                {0, rows} if result[0][0] == "08007" else {0}
            tap.ok(change in wanted, f"{at}: as COMMIT said",
                   f"{result[0][0]}: changed {change}, expected {wanted}")
        sound(b, name)
        a.close()
        b.close()


# ---- decide's exchange is spoiled ----

def spoiled():
    plain = world.plain
    proxy = Proxy(plain.ports[0])
    for engine in ENGINES:
        db = "spoiled_" + engine
        for s, nodes in ((world.one, proxy.nodes), (world.two, plain.nodes)):
            make_database(s, db, nodes, {**OPTIONS, "atomic": engine}, DDL)
        a, b = world.one.connect(db), world.two.connect(db)
        query(a, both(1, 300))
        for how in ("reply", "request", "late"):
            for sql in ("BEGIN; UPDATE t SET n = n + 1 WHERE id = 3; UPDATE u SET n = n + 1 WHERE id = 3; COMMIT",
                        "BEGIN; UPDATE t SET n = n + 1; UPDATE u SET n = n + 1; COMMIT"):
                name = f"{engine}, decide's {how} is lost, {'one row' if 'id = 3' in sql else 'all rows'}"
                at = AT_ONCE[engine] if "id = 3" in sql else "after-prepare"
                held = world.one.connect(db)
                query(held, f"SELECT mosql_fdw_debug_lock('{at}')")
                query(a, "SET mosql_fdw.debug_points = on")
                before = value(b, "SELECT n FROM t WHERE id = 3")
                t, result = in_background(a, sql)
                wait_until(lambda: value(held, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
                proxy.arm(how)
                query(held, f"SELECT mosql_fdw_debug_unlock('{at}')")
                spoilt = proxy.spoiled.wait(60)
                t.join(60)
                answers = proxy.release()
                held.close()
                query(a, "RESET mosql_fdw.debug_points")
                tap.ok(spoilt, f"{name}: it was")
                tap.ok(result and result[0][0] in (None, CONFLICT), f"{name}: the outcome is known", result)
                if result and result[0][0]:
                    attempt(a, "ROLLBACK")
                after = value(b, "SELECT n FROM t WHERE id = 3")
                tap.equal(after - before, int(result[0][0] is None), f"{name}: it happened as COMMIT said, once")
                if how == "late":
                    tap.note(f"it came late and was answered: {answers}")
                holds(b, name)
        works(b, "BEGIN; UPDATE t SET n = n; UPDATE u SET n = n; COMMIT", f"{engine}: all rows can be changed")
        sound(b, engine)
        a.close()
        b.close()
    proxy.stop()


# ---- hanging up ----

def hangups():
    cluster = world.cluster
    for engine in ENGINES:
        name, db = f"hang-ups, {engine}", "hangups_" + engine
        for s in (world.one, world.two):
            make_database(s, db, cluster.nodes, {**OPTIONS, "atomic": engine, "command_timeout": "8000"},
                          load.DDL)
        work = load.Load([world.one, world.two], db, accounts=400)
        rng = random.Random(4711)
        with work.crowd:
            work.start()
            end, cuts = time.monotonic() + 5, 0
            admins = [Redis(p) for p in cluster.primaries]
            while time.monotonic() < end:
                r = rng.choice(admins)
                clients = [l for l in r("CLIENT", "LIST", "TYPE", "normal").decode().splitlines()
                           if "cmd=client" not in l]
                for line in rng.sample(clients, min(len(clients), rng.choice((1, 1, 2, 100)))):
                    with contextlib.suppress(RedisError):
                        r("CLIENT", "KILL", "ID", re.search(r"\bid=(\d+)", line)[1])
                        cuts += 1
                time.sleep(rng.choice((0, 0.005, 0.03)))
            since = time.monotonic()
            tap.ok(work.crowd.everybody_went_on(since, LONG_WAIT), f"{name}: all clients go on",
                   work.crowd.errors())
            tap.ok(work.settle(), f"{name}: all clients come to an end")
        tap.note(f"{cuts} connections cut, {work.crowd.done} transactions, errors {work.crowd.errors()}")
        bad = work.crowd.unexpected(CONFLICTS + "|08...")
        tap.ok(not bad, f"{name}: only errors of connections and conflicts", bad)
        work.verify(name)


# ---- a node dies in the middle ----

def death():
    """Without replicas and without disk its data is gone: whoever needs it is
    told so; what is on other nodes and in other tables stays usable."""
    cluster = Cluster("faults-death")
    name = "a node's death"
    try:
        for s in (world.one, world.two):
            make_database(s, "death", cluster.nodes, OPTIONS, DDL)
        a, b = world.one.connect("death"), world.two.connect("death")
        query(a, both(1, 1000))
        clock = cluster.clock_port("death")
        port = next(p for p in cluster.primaries if p != clock)
        query(a, "BEGIN; UPDATE t SET n = n + 1; UPDATE u SET n = n + 1")
        cluster.kill(port)
        # what was placed is taken back, then what was locked in either table: each waits for the node
        fails(a, "COMMIT", "08006|08001", f"{name}, commit", 4 * TIMEOUT + SLACK)
        fails(b, "SELECT sum(n) FROM t", "08006|08001", f"{name}, scan")
        cluster.restart(port)   # empty
        healthy(cluster)
        for sql in "SELECT sum(n) FROM t", "UPDATE t SET n = n + 1", both(5000, 5200):
            # perhaps somebody has dropped it: who tries again is told that nobody did
            until = time.monotonic() + LONG_WAIT
            while True:
                state, text = error_of(b, sql)
                attempt(b, "ROLLBACK")
                if state != CONFLICT or time.monotonic() > until:
                    break
                time.sleep(0.3)
            if state is None and sql.startswith("BEGIN"):       # the nodes that new rows need all live
                # (a join may read all of one table)
                state, text = error_of(b, "SELECT (SELECT count(*) FROM t WHERE id BETWEEN 5000 AND 5200), "
                                       "(SELECT count(*) FROM u WHERE id BETWEEN 5000 AND 5200)")
                tap.ok(state is None and text == [(201, 201)], f"{name}: what was written can be read", f"{state}: {text}")
                continue
            tap.ok(state in ("XX001", "42P01"), f"{name}: what is gone is called damage: {sql[:20]}", f"{state}: {text}")
        works(b, "SELECT count(*) FROM pg_class", f"{name}: backends live")
        state, rows = error_of(b, "SELECT * FROM mosql_fdw_check('t')")
        tap.ok(state in ("42P01", "XX001") or any("broken" in r for r in rows),
               f"{name}: mosql_fdw_check() sees it", f"{state}: {rows}")
        a.close()
        b.close()
    finally:
        cluster.stop()


# ---- limits ----

def limits():
    db = "limits"
    make_database(world.one, db, world.cluster.nodes, {"command_timeout": "30000"}, """
        CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, n int, pad text) SERVER redis;
        CREATE FOREIGN TABLE k (id text OPTIONS (key 'true') NOT NULL, n int) SERVER redis;
        CREATE FOREIGN TABLE b (id int OPTIONS (key 'true') NOT NULL, x bytea, y bytea, z bytea) SERVER redis;
        CREATE FOREIGN TABLE s (id int OPTIONS (key 'true') NOT NULL, n smallint, i int, l bigint) SERVER redis;
        """)
    c = world.one.connect(db)
    query(c, "SET mosql_fdw.max_transaction_size = '1MB'")
    fails(c, "INSERT INTO t SELECT g, 0, repeat('x', 1000) FROM generate_series(1, 3000) g", "54000",
          "a transaction too large", 10, "mosql_fdw.max_transaction_size")
    fails(c, "COPY t FROM PROGRAM 'seq 1 200000 | sed \"s/$/\\t0\\tabc/\"'", "54000", "a COPY too large", 20,
          "mosql_fdw.max_transaction_size")
    query(c, "INSERT INTO t SELECT g, 0, '' FROM generate_series(1, 1000) g")
    fails(c, "UPDATE t SET pad = (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 100) g)", "54000", "an update too large", 10,
          "mosql_fdw.max_transaction_size")
    tap.equal(query(c, "SELECT count(*), max(pad) FROM t"), [(1000, "")], "nothing of them is there")
    query(c, "RESET mosql_fdw.max_transaction_size")

    works(c, "INSERT INTO k VALUES (repeat('k', 8000), 1)", "a key of 8000 bytes")
    tap.equal(value(c, "SELECT n FROM k WHERE id = repeat('k', 8000)"), 1, "is found")
    fails(c, "INSERT INTO k VALUES (repeat('k', 9000), 1)", "54000", "a key too long", 10, "8192")
    fails(c, "UPDATE k SET id = repeat('k', 9000)", "54000", "a key made too long", 10, "8192")
    tap.equal(query(c, "SELECT count(*) FROM k WHERE id = repeat('k', 9000)"), [(0,)],
              "looking for a key that is too long finds nothing")

    mb = 1024 * 1024
    big = "decode(repeat(md5(random()::text), {}), 'hex')"
    fails(c, f"INSERT INTO b (id, x) VALUES (1, {big.format(65 * mb // 16)})", "54000", "a value too long",
          30, "64 MB|67108864")
    # bytes that do not compress
    fails(c, f"INSERT INTO b SELECT 1, v, v, v FROM (SELECT string_agg(decode(md5(g::text), 'hex'), '') v "
          f"FROM generate_series(1, {45 * mb // 16}) g) x", "54000", "a row too large", 60, "128 MB|134217728")
    works(c, f"INSERT INTO b (id, x) VALUES (2, {big.format(20 * mb // 16)})", "a value of 20 MB")
    tap.equal(query(c, "SELECT id, length(x) FROM b"), [(2, 20 * mb)], "comes back whole")

    # increments: the statement says that a number overflows, whoever changed it
    query(c, "INSERT INTO s VALUES (1, 32760, 2147483640, 9223372036854775800)")
    for column in ("n", "i", "l"):
        fails(c, f"UPDATE s SET {column} = {column} + 100 WHERE id = 1", "22003", f"overflow of {column}", 10)
    d = world.one.connect(db)
    query(c, "BEGIN; UPDATE s SET n = n + 6 WHERE id = 1")
    query(d, "UPDATE s SET n = n + 6 WHERE id = 1")
    fails(c, "COMMIT", "22003", "overflow by two transactions", 10)
    tap.equal(value(c, "SELECT n FROM s"), 32766, "counted once")
    columns = ", ".join(f"c{i} int OPTIONS (key 'true') NOT NULL" for i in range(33))
    fails(c, f"CREATE FOREIGN TABLE many ({columns}) SERVER redis", "54...", "too many key columns", 10, "32")
    sound(c, "limits", ("t", "k", "b", "s"))
    c.close()
    d.close()


def locked_at(cluster, db):
    """The node that has the only row that is locked."""
    for port in cluster.primaries:
        r = cluster.redis(port)
        fields = [f for key in r("KEYS", f"{db}:*") if r("TYPE", key) == b"hash" for f in r("HKEYS", key)]
        r.close()
        if any(f.startswith(b"i") and not f.startswith(b"iA") for f in fields):
            return port
    return None


def kept():
    """What a session with an advisory lock cannot give back at once, because its node is silent, it gives back
    when it can, though it idles; and one timeout is enough for all tables."""
    cluster = world.cluster
    for engine in ENGINES[:1]:      # above them it is the same
        name, db = f"kept, {engine}", "kept_" + engine
        make_database(world.one, db, cluster.nodes, {**OPTIONS, "atomic": engine, "placement": "spread"})
        a, b = world.one.connect(db), world.one.connect(db)
        others = [p for p in cluster.primaries if p != cluster.clock_port(db)]
        tables = {p: [] for p in cluster.primaries}
        query(a, "SELECT mosql_fdw_advisory_lock('redis', 1)")
        while max(len(tables[p]) for p in others) < 5:
            table = f"k{sum(map(len, tables.values()))}"
            query(a, f"CREATE FOREIGN TABLE {table} (id int OPTIONS (key 'true') NOT NULL) SERVER redis")
            query(a, f"INSERT INTO {table} VALUES (1)")
            query(a, f"BEGIN; SELECT 1 FROM {table} FOR UPDATE")
            tables[locked_at(cluster, db)].append(table)
            query(a, "ROLLBACK")
        silent = max(others, key=lambda p: len(tables[p]))
        query(a, "BEGIN")
        for table in tables[silent][:5]:
            query(a, f"SELECT 1 FROM {table} FOR UPDATE")
        with stopped(cluster, silent):
            started = time.monotonic()
            query(a, "ROLLBACK")
            took = time.monotonic() - started
        tap.ok(took < 3.5 * TIMEOUT, f"{name}: ROLLBACK waits once for a silent node, not for each table", f"{took:.2f} s")
        query(b, "SET lock_timeout = '120s'")
        for table in tables[silent][:5]:
            works(b, f"SELECT 1 FROM {table} FOR UPDATE", f"{name}: given back by a session that idles")
        tap.equal(value(b, "SELECT mosql_fdw_try_advisory_lock('redis', 1)"), False, f"{name}: which keeps its advisory lock")
        a.close()
        b.close()


def patient():
    """command_timeout is for Redis' answers, and not for how long one waits for a row, however late Redis looks at times."""
    db, plain = "patient", world.plain
    make_database(world.one, db, plain.nodes, {"command_timeout": "1200"}, DDL)
    plain.everywhere("CONFIG", "SET", "hz", "1")
    a, b = world.one.connect(db), world.one.connect(db)
    query(a, "INSERT INTO t VALUES (1, 0, '')")
    for turn in range(2):
        query(a, "BEGIN; SELECT n FROM t WHERE id = 1 FOR UPDATE")
        plain.everywhere("BLPOP", "nothing", "0.001")       # it has just looked, and looks again in a second
        time.sleep(0.5)
        waiter, result = in_background(b, "UPDATE t SET n = n * 2 + 1 WHERE id = 1")
        time.sleep(3)
        query(a, "COMMIT")
        waiter.join(LONG_WAIT)
        tap.equal(result, [(None, None)], f"patient: who waits for a row for longer than command_timeout gets it, {turn}")
    plain.everywhere("CONFIG", "SET", "hz", "10")
    a.close()
    b.close()


PARTS = {f.__name__: f for f in (unreachable, passwords, full, undecodable, mappings, readonly, silent, kept, spoiled, hangups, death,
                                 limits, patient)}


def body():
    for name in sys.argv[1:] or PARTS:
        with section(name):
            PARTS[name]()
    crashes = [c for s in (world.one, world.two) for c in s.crashes()]
    tap.equal(crashes, [], "no backend died")


main(body)
