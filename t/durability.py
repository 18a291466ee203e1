#!/usr/bin/python3
"""durability 'replicated': primaries fail over and over, nothing acknowledged is lost.

Three primaries with a replica each, two PostgreSQL servers.  Clients transfer
money, increment counters, insert rows (leaves split) and look at snapshots, and
keep books of what was acknowledged.  Meanwhile primaries fail, in turn:

  kill      kill -9; it comes back, empty, as a replica
  manual    CLUSTER FAILOVER, at the replica
  takeover  CLUSTER FAILOVER TAKEOVER: the old primary is not asked, and goes on
            until it hears of it

The node that has the clock's slot has its turn every other time.  In the end
every acknowledged commit is there, as a whole; sums agree; timestamps never went
back; the trees are sound; no client saw an error of another class than
conflicts and connections.

Then a backend dies at a debug point of a commit or of a split, and right after it
the primaries are taken over: what it had done so far, and nothing else, is what the
other server finds and finishes.

Then a decision stays without a copy, and its owner dies: maintenance must leave it alone.

Then values of a sequence are drawn while its replica sleeps, and the replica takes over:
none is drawn twice.

Then a table and a number are locked, their replica sleeps, and takes over: they are locked still, and meanwhile
nobody has got such a lock without copies.

Then a commit, all of which is on one server, stays without a copy, and a replica takes over that does not know
of it: nobody has been shown it.

Then a primary is taken over and does not hear of it: maintenance must not take its word
for which tables there are.

At last durability 'fsync', without replicas: all Redis nodes are killed at once, and
start again from their logs.

One PostgreSQL server uses the engine `script`, the other `watch`.

    t/durability.py [FAILOVERS] [SECONDS]        seed: MOSQL_TEST_SEED
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import load
from mosqltest import *

ALLOWED = "40001|40P01|08...|57P..|53200|gone"
NODE_TIMEOUT_MS = 1000
HOWS = ("kill", "manual", "takeover")
RECOVERY = 90                   # seconds for a cluster to be whole again, mostly 3: copies are made, all agree


def info(cluster, port):
    """INFO replication as a dict; {} if it does not answer."""
    with contextlib.suppress(OSError, RedisError):
        r = Redis(port, timeout=2)
        try:
            text = r("INFO", "replication").decode()
            return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
        finally:
            r.close()
    return {}


def owners(cluster):
    """slot -> port, from whoever answers."""
    for port in cluster.ports:
        with contextlib.suppress(OSError, RedisError):
            out = {}
            for low, high, primary, *_ in cluster.ask(port, "CLUSTER", "SLOTS"):
                out.update(dict.fromkeys(range(low, high + 1), primary[1]))
            if len(out) == 16384:
                return out
    return {}


def replica_of(cluster, port):
    for p in cluster.ports:
        i = info(cluster, p)
        if i.get("role") == "slave" and i.get("master_port") == str(port) and \
                i.get("master_link_status") == "up":
            return p
    return None


def acknowledges(port):
    """Does a replica answer for what its primary has now?  One that has just come says it is online before it does."""
    with contextlib.closing(Redis(port)) as r:
        return r("PING") and r("WAIT", 1, 200) == 1


def healthy(cluster):
    """Three primaries, each with a replica that is in sync, and all agree."""
    infos = [info(cluster, p) for p in cluster.ports]
    return sum(i.get("role") == "master" and i.get("connected_slaves") == "1" and
               "state=online" in i.get("slave0", "") for i in infos) == 3 and \
        sum(i.get("role") == "slave" and i.get("master_link_status") == "up" for i in infos) == 3 and \
        all(acknowledges(p) for p, i in zip(cluster.ports, infos) if i.get("role") == "master") and \
        all(b"cluster_state:ok" in cluster.ask(p, "CLUSTER", "INFO") for p in cluster.ports)


def fail(cluster, port, how):
    """Returns whether its replica took over."""
    heir = replica_of(cluster, port)
    if heir is None:
        return False
    if how == "kill":
        cluster.kill(port)
    else:
        cluster.ask(heir, "CLUSTER", "FAILOVER", *(["TAKEOVER"] if how == "takeover" else []))
    took = wait_until(lambda: info(cluster, heir).get("role") == "master", RECOVERY, 0.05)
    if how == "kill":
        cluster.restart(port)
    return bool(took)


class Watcher(threading.Thread):
    """Does a timestamp of the clock ever go back?  Snapshots follow each other."""

    def __init__(self, cluster, ns):
        super().__init__(daemon=True)
        self.cluster, self.key = cluster, "%s:{%s.clock}:c" % (ns, ns)
        self.highest = 0
        self.back = []
        self.seen = 0
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(0.05):
            try:
                slot = self.cluster.ask(self.cluster.ports[0], "CLUSTER", "KEYSLOT", self.key)
                port = owners(self.cluster).get(slot)
                if port is None or info(self.cluster, port).get("connected_slaves") != "1":
                    continue    # what a primary without replica says is no promise
                r = Redis(port, timeout=1)
                last = int(r("HGET", self.key, "last") or 0)
                # only what the replica has counts as issued
                if r("WAIT", 1, 300) < 1 or r("ROLE")[0] != b"master":
                    continue
                r.close()
            except (OSError, RedisError, ValueError, IndexError):
                continue
            self.seen += 1
            if last < self.highest:
                self.back.append(f"{self.highest} was followed by {last}")
            self.highest = max(self.highest, last)


# Where a backend dies, and how many of its 300 rows are there then.
POINTS = (("after-prepare", 0), ("after-decide", 300), ("apply-some", 300), ("split-frozen", 0),
          ("split-created", 0), ("split-cut", 0))


def half_done(cluster, servers, db):
    """Half a commit, half a split; then no primary is what it was."""
    wrong = []
    for k, (point, rows) in enumerate(POINTS):
        tag = 1000000 + k
        conn = servers[0].connect(db)
        query(conn, f"SET mosql_fdw.debug_crash_at = '{point}'")
        # rows around one that is there: its leaf is in the middle and must split
        _, state = attempt(conn, "INSERT INTO entry SELECT %s, g, repeat('x', 50) "
                                 "FROM generate_series(1, 300) g", (tag,))
        conn.close()
        if state != "gone":
            wrong.append(f"{point}: not reached ({state})")
            continue
        for port in sorted(set(owners(cluster).values())):
            if not fail(cluster, port, "takeover"):
                wrong.append(f"{point}: {port} was not taken over")
        since = time.monotonic()
        with contextlib.closing(servers[1].connect(db)) as c:
            got = None

            def readable():
                nonlocal got
                got = attempt(c, "SELECT count(*) FROM entry WHERE id = %s", (tag,))
                return got[1] is None or not re.fullmatch(ALLOWED, got[1])
            wait_until(readable, RECOVERY, 0.1)
            if got[1] is not None or got[0][0][0] != rows:
                wrong.append(f"{point}: {got}, {rows} rows expected")
            if not wait_until(lambda: healthy(cluster), RECOVERY, 0.1):
                wrong.append(f"{point}: the cluster does not recover")

            def writable():
                nonlocal got
                got = attempt(c, "INSERT INTO entry SELECT %s, g, 'y' FROM generate_series(301, 600) g", (tag,))
                return got[1] is None or not re.fullmatch(ALLOWED, got[1])
            wait_until(writable, RECOVERY, 0.1)
            if got[1] is not None:
                wrong.append(f"{point}: rows cannot be added: {got}")
            there = value(c, "SELECT count(*) FROM entry WHERE id = %s", (tag,))
            if there != rows + 300:
                wrong.append(f"{point}: {there} rows, {rows + 300} expected")
            wrong += [f"{point}: {f}" for f in findings(c, "entry")[0][:5]]
        servers[0].wait_up()
        tap.note(f"{point}: {time.monotonic() - since:.1f} s")
    tap.ok(not wrong, "what a dead backend left survives takeovers, and is finished", "\n".join(wrong))


def no_copies(cluster, servers, db):
    """A decision without a copy, and its owner dead: maintenance must not build on it."""
    for engine, (one, two) in zip(ENGINES, (servers, servers[::-1])):
        maintainer = two.connect(db, **{"mosql_fdw.maintenance_rate": 0})
        victim = one.connect(db)
        clock = "%s:{%s.clock}:" % (db, db)
        primary = cluster.owner(clock + "c")
        for i in range(20):         # a leaf elsewhere, where there are copies
            query(victim, f"CREATE FOREIGN TABLE {engine}{i} (id int OPTIONS (key 'true') NOT NULL) SERVER redis")
            leaf = "%s:{%s}" % (db, value(
                victim, f"SELECT substring(node from '[0-9a-f]{{16}}') FROM mosql_fdw_dump('{engine}{i}') "
                        "WHERE level = 0"))
            if cluster.owner(leaf) != primary:
                break
        tap.ok(cluster.owner(leaf) != primary, f"{engine}: a leaf apart from the clock")
        table = f"{engine}{i}"
        query(victim, f"INSERT INTO {table} VALUES (1)")
        query(maintainer, "SELECT mosql_fdw_maintain('redis')")
        query(victim, f"SELECT * FROM {table}")
        replica = replica_of(cluster, primary)
        cluster.signal(replica, signal.SIGSTOP)
        query(victim, "SET mosql_fdw.debug_crash_at = 'before-settle'")
        _, state = attempt(victim, f"INSERT INTO {table} VALUES (2)")
        tap.equal(state, "gone", f"{engine}: the owner dies after a decision without a copy")
        one.wait_up()
        for s in [int(s) for s in cluster.on(clock + "e", "ZRANGE", clock + "e", 0, -1)]:
            key = f"{clock}s:{s}"
            if any(v.startswith(b"C") for v in cluster.on(key, "HVALS", key)):
                cluster.on(key, "HSET", key, "lease", 1)
                cluster.on(key, "ZADD", clock + "e", 1, s)
        before = cluster.on(leaf, "HKEYS", leaf)
        _, state = attempt(maintainer, "SELECT mosql_fdw_maintain('redis')")
        tap.equal((state, sorted(cluster.on(leaf, "HKEYS", leaf))), ("08006", sorted(before)),
                  f"{engine}: maintenance does not apply it")
        cluster.signal(replica, signal.SIGCONT)
        tap.ok(wait_until(lambda: healthy(cluster), RECOVERY, 0.1), f"{engine}: the copy is made")
        maintainer.close()
        with contextlib.closing(two.connect(db, **{"mosql_fdw.maintenance_rate": 0})) as c:
            done = wait_until(lambda: attempt(c, "SELECT mosql_fdw_maintain('redis')")[1] is None)
            tap.ok(done, f"{engine}: then maintenance goes on")
        rows = [k for k in cluster.on(leaf, "HKEYS", leaf) if not k.startswith(b"m")]
        tap.ok(len(rows) == 2 and all(k.startswith(b"r") for k in rows), f"{engine}: and applies it", rows)


def forbidden(cluster, servers, db):
    """WAIT is forbidden between prepare and decide, and so fails where the decision does not."""
    for engine, server in zip(ENGINES, servers):
        user, name = "app_" + engine, f"{db}_forbidden_{engine}"

        def allow(*rules):
            for port in cluster.ports:
                cluster.ask(port, "ACL", "SETUSER", user, *rules)

        allow("on", ">secret", "~*", "&*", "+@all")
        make_database(server, name, cluster.nodes, {"durability": "replicated", "replicas": "1", "atomic": engine},
                      "CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, n int) SERVER redis; "
                      "INSERT INTO t SELECT g, 0 FROM generate_series(1, 10) g",
                      mapping={"username": user, "password": "secret"})
        c, holder = server.connect(name), server.connect(name)
        query(holder, "SELECT mosql_fdw_debug_lock('before-decide')")
        query(c, "SET mosql_fdw.debug_points = on")
        result = []
        t = threading.Thread(target=lambda: result.append(error_of(c, "UPDATE t SET n = 1 WHERE id < 10")))
        t.start()
        wait_until(lambda: value(holder, "SELECT count(*) FROM pg_locks WHERE NOT granted"))
        allow("-wait")
        query(holder, "SELECT mosql_fdw_debug_unlock('before-decide')")
        t.join(60)
        allow("+wait")
        code, text = result[0]
        tap.equal(code, "08007", f"{engine}, WAIT is forbidden before decide: COMMIT does not know")
        asked = re.search(r"'([0-9]+\.[0-9]+)'", str(text))
        fate = asked and wait_until(lambda: attempt(
            holder, "SELECT mosql_fdw_transaction_status('redis', %s)", (asked[1],))[0])
        fate = fate and fate[0][0]
        tap.ok(fate in ("committed", "aborted"), f"{engine}, WAIT is forbidden before decide: asked later, it is known", (text, fate))
        tap.ok(wait_until(lambda: attempt(holder, "UPDATE t SET n = n + 0")[1] is None),
               f"{engine}, WAIT is allowed again: the rows can be changed")
        tap.equal(value(holder, "SELECT sum(n) FROM t"), 9 if fate == "committed" else 0,
                  f"{engine}, WAIT is forbidden before decide: as it says, all or nothing")
        c.close()
        holder.close()


def find_definitions(cluster, ns, table):
    """The key of the leaf that has a table's definition."""
    for port in sorted(set(owners(cluster).values())):
        for key in cluster.ask(port, "KEYS", ns + ":{0*"):
            if any(f.startswith(b"r") and table.encode() in f for f in cluster.ask(port, "HKEYS", key)):
                return key.decode()
    return None


def stale_definitions(cluster, servers, dbs):
    """A primary has lost its slots and does not know; maintenance that still asks it for
    the definitions must not sweep away the tables created since.  (Their creator does
    not wait for copies: the new primary has no replica yet.)"""
    one, two = servers
    for db in dbs:                  # the definitions are not where the clock is
        make_database(two, db, cluster.nodes, {"durability": "replicated", "replicas": "1"},
                      "CREATE FOREIGN TABLE steady (id int OPTIONS (key 'true') NOT NULL) SERVER redis")
        leaf = find_definitions(cluster, db, "steady")
        if cluster.owner(leaf) != cluster.clock_port(db):
            break
    old, clock_port = cluster.owner(leaf), cluster.clock_port(db)
    heir = replica_of(cluster, old)
    others = [p for p in cluster.ports if p not in (old, heir)]
    make_database(one, db, ",".join(f"{HOSTS[p]}:{p}" for p in others))
    maintainer = two.connect(db, **{"mosql_fdw.maintenance_rate": 0})
    query(maintainer, "INSERT INTO steady VALUES (1)")
    query(maintainer, "SELECT mosql_fdw_maintain('redis')")

    ids = [cluster.ask(p, "CLUSTER", "MYID") for p in [heir] + others]
    cluster.ask(old, "CONFIG", "SET", "cluster-require-full-coverage", "no")
    for i in ids:                   # whom it does not know it does not listen to
        cluster.ask(old, "CLUSTER", "FORGET", i)
    cluster.ask(heir, "CLUSTER", "FAILOVER", "TAKEOVER")
    slot = cluster.ask(old, "CLUSTER", "KEYSLOT", leaf)
    agreed = wait_until(lambda: all(
        any(low <= slot <= high and primary[1] == heir
            for low, high, primary, *_ in cluster.ask(p, "CLUSTER", "SLOTS")) for p in others))
    tap.ok(agreed, "a primary is taken over and does not hear of it")
    with contextlib.closing(one.connect(db)) as c:
        for i in range(6):
            query(c, f"CREATE FOREIGN TABLE fresh{i} (id int OPTIONS (key 'true') NOT NULL) SERVER redis; "
                     f"INSERT INTO fresh{i} SELECT generate_series(1, 10)")
    clock = "%s:{%s.clock}:" % (db, db)
    sid = int(cluster.ask(clock_port, "HGET", clock + "c", "sid"))
    key = f"{clock}s:{sid}"
    tap.ok(wait_until(lambda: not cluster.ask(clock_port, "EXISTS", key)),
           "tables are created, and their creator's session ends")
    tap.ok(cluster.ask(old, "EXISTS", leaf) == 1 and find_definitions(cluster, db, "fresh0"),
           "the old primary still answers")
    tap.equal(attempt(maintainer, "SELECT mosql_fdw_maintain('redis')")[1], "08006",
              "maintenance does not believe its definitions")
    maintainer.close()
    with contextlib.closing(one.connect(db)) as c:
        tap.equal([attempt(c, f"SELECT count(*) FROM fresh{i}") for i in range(6)], [([(10,)], None)] * 6,
                  "the tables are there")


def draw(conn, n):
    """Up to n values, as acknowledged, and the SQLSTATEs of the other draws."""
    got = [attempt(conn, "SELECT mosql_fdw_nextval('drawn_id_seq')") for _ in range(n)]
    return [rows[0][0] for rows, state in got if state is None], \
        sorted({state for _, state in got if state is not None})


def take_over(cluster, engine, primary, replica):
    """The primary dies while its replica sleeps, which takes over when it wakes."""
    cluster.kill(primary)
    cluster.signal(replica, signal.SIGCONT)
    tap.ok(wait_until(lambda: info(cluster, replica).get("role") == "master", RECOVERY, 0.05),
           f"{engine}: the replica takes over")
    cluster.restart(primary)
    tap.ok(wait_until(lambda: healthy(cluster), RECOVERY, 0.1), f"{engine}: the cluster is whole again")


def sequences(cluster, servers, db):
    """A value counts only when the counter's copies have it."""
    for engine, server in zip(ENGINES, servers):
        ns = f"{db}_drawn_{engine}"
        make_database(server, ns, cluster.nodes,
                      {"durability": "replicated", "replicas": "1", "replica_timeout": "300",
                       "atomic": engine},
                      "CREATE FOREIGN TABLE drawn (id serial OPTIONS (key 'true') NOT NULL) SERVER redis")
        counter = next(k for p in sorted(set(owners(cluster).values()))
                       for k in cluster.ask(p, "KEYS", ns + ":{0*") if cluster.ask(p, "HEXISTS", k, "q"))
        primary = cluster.owner(counter)
        replica = replica_of(cluster, primary)
        with contextlib.closing(server.connect(ns)) as c:
            before, errors = draw(c, 3)
            tap.equal((before, errors), ([1, 2, 3], []), f"{engine}: values with copies")
            cluster.signal(replica, signal.SIGSTOP)
            alone, errors = draw(c, 3)
            tap.equal((alone, errors), ([], ["08006"]), f"{engine}: no value without copies")
            tap.equal(attempt(c, "SELECT mosql_fdw_setval('drawn_id_seq', 100)")[1], "08006",
                      f"{engine}: nor is one set")
        take_over(cluster, engine, primary, replica)
        with contextlib.closing(server.connect(ns)) as c:
            wait_until(lambda: attempt(c, "SELECT 1 FROM drawn")[1] is None, RECOVERY, 0.1)
            after = []
            wait_until(lambda: after.extend(draw(c, 1)[0]) or len(after) >= 5)
            tap.ok(len(after) >= 5 and not set(after) & set(before + alone),
                   f"{engine}: no value twice", (before, alone, after))


def locks(cluster, servers, db):
    """A lock of a table, or of a number, counts only when it has its copies."""
    for engine, server in zip(ENGINES, servers):
        ns = f"{db}_locks_{engine}"
        make_database(server, ns, cluster.nodes,
                      {"durability": "replicated", "replicas": "1", "replica_timeout": "1000", "atomic": engine},
                      "CREATE FOREIGN TABLE locked (id int OPTIONS (key 'true') NOT NULL) SERVER redis; "
                      "CREATE FOREIGN TABLE other (id int OPTIONS (key 'true') NOT NULL) SERVER redis")
        primary = cluster.owner(find_definitions(cluster, ns, "locked"))
        replica = replica_of(cluster, primary)
        with contextlib.closing(server.connect(ns)) as one, contextlib.closing(server.connect(ns)) as two:
            query(one, "SELECT mosql_fdw_advisory_lock('redis', 1)")
            query(one, "BEGIN")
            query(one, "LOCK TABLE locked IN SHARE MODE")
            query(two, "SELECT count(*) FROM other")
            query(two, "BEGIN")
            cluster.signal(replica, signal.SIGSTOP)
            tap.equal(attempt(two, "LOCK TABLE other IN SHARE MODE")[1], "08006", f"{engine}: no LOCK TABLE without copies")
            query(two, "ROLLBACK")
            query(two, "BEGIN")
            tap.equal(attempt(two, "SELECT mosql_fdw_advisory_xact_lock('redis', 2)")[1], "08006", f"{engine}: nor a number")
            query(two, "ROLLBACK")
            take_over(cluster, engine, primary, replica)
            error = error_of(one, "COMMIT")
            tap.ok(error[0] is None, f"{engine}: who had the table has it at COMMIT", error)
            tap.equal(attempt(one, "INSERT INTO locked VALUES (1)")[1], None, f"{engine}: and has the number")
            got = wait_until(lambda: attempt(two, "SELECT mosql_fdw_try_advisory_lock('redis', 1)")[0], RECOVERY, 0.1)
            tap.equal(got, [(False,)], f"{engine}: which nobody else gets")


def shown(server, db):
    """What is shown as committed has its copies, also where a whole commit might be one step."""
    cluster = Cluster("durability-one", primaries=1, replicas=1)
    primary, replica = cluster.ports
    make_database(server, db, cluster.nodes,
                  {"durability": "replicated", "replicas": "1", "replica_timeout": "300", "command_timeout": "2000"},
                  "CREATE FOREIGN TABLE shown (id int OPTIONS (key 'true') NOT NULL, v text) SERVER redis; "
                  "INSERT INTO shown VALUES (1, 'old'), (2, 'old')")
    reads = ("SELECT v FROM shown WHERE id = 1", "SELECT min(v) FROM shown WHERE id < 2")
    with contextlib.closing(server.connect(db)) as one, contextlib.closing(server.connect(db)) as two:
        for c in (one, two):
            query(c, "UPDATE shown SET v = 'old' WHERE id = 2")
            query(c, reads[1])
        cluster.signal(replica, signal.SIGSTOP)
        cluster.ask(primary, "CLIENT", "KILL", "TYPE", "replica")
        state = attempt(one, "UPDATE shown SET v = 'new' WHERE id = 1")[1]
        tap.ok(state in ("08006", "08007"), "one server: no commit without copies", state)
        seen = {rows[0][0] for rows, _ in [attempt(two, r) for r in reads * 2] if rows}
        cluster.kill(primary)
        cluster.signal(replica, signal.SIGCONT)
        cluster.ask(replica, "CLUSTER", "FAILOVER", "TAKEOVER")
        tap.ok(wait_until(lambda: info(cluster, replica).get("role") == "master", RECOVERY, 0.05), "one server: the replica takes over")
        cluster.restart(primary)
        tap.ok(wait_until(lambda: acknowledges(replica), RECOVERY, 0.1), "one server: it has a replica")
        left = wait_until(lambda: attempt(two, reads[0])[0], RECOVERY, 0.1)
        tap.ok(left == [("old",)] and seen == {"old"}, "one server: what nobody has acknowledged nobody was shown", (seen, left))


def power_cut(servers, seed):
    """Every node dies at once; its log is all that is left."""
    db = "durability_fsync"
    cluster = Cluster("fsync", settings=("appendonly yes", "appendfsync always"))
    for s, engine in zip(servers, ENGINES):
        make_database(s, db, cluster.nodes, {"durability": "fsync", "atomic": engine}, load.DDL)
    work = load.Load(servers, db, accounts=200, seed=seed)
    work.start(("transfer", "increment", "insert", "scan"), each=2)
    time.sleep(2)
    cluster.remember_pids()
    for port in cluster.ports:
        cluster.signal(port, signal.SIGKILL)
    for port in cluster.ports:
        cluster.restart(port)
    since = time.monotonic()
    tap.ok(work.crowd.everybody_went_on(since, RECOVERY), "fsync: all clients go on",
           f"{work.crowd.errors()}")
    tap.ok(work.settle(), "fsync: all clients come to an end")
    bad = work.crowd.unexpected(ALLOWED)
    tap.ok(not bad, "fsync: only errors of connections and conflicts", bad)
    tap.note(f"fsync: errors {work.crowd.errors()}; {sum(work.sure)} increments acknowledged")
    work.verify("fsync")


def body():
    failovers = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    limit = float(sys.argv[2]) if len(sys.argv) > 2 else 400
    seed = int(os.environ.get("MOSQL_TEST_SEED", time.time()))
    tap.note(f"MOSQL_TEST_SEED={seed}")
    rng = random.Random(seed)
    cluster = Cluster("durability", replicas=1, settings=(
        f"cluster-node-timeout {NODE_TIMEOUT_MS}", "cluster-migration-barrier 100"))
    # (script/cluster writes its own cluster-node-timeout first: the later one counts)
    servers = [Server("durability1"), Server("durability2")]
    db = "durability"
    for s, engine in zip(servers, ENGINES):
        make_database(s, db, cluster.nodes,
                      {"durability": "replicated", "replicas": "1", "atomic": engine}, load.DDL)
    work = load.Load(servers, db, accounts=300, seed=seed)
    work.start(("transfer", "increment", "insert", "scan"))
    watcher = Watcher(cluster, db)
    watcher.start()
    clock_slot = cluster.ask(cluster.ports[0], "CLUSTER", "KEYSLOT", watcher.key)
    started, done, stuck = time.monotonic(), {h: 0 for h in HOWS}, []
    for i in range(failovers):
        if time.monotonic() - started > limit:
            break
        if not wait_until(lambda: healthy(cluster), RECOVERY, 0.1):
            stuck.append(f"{i}: the cluster does not recover")
            break
        time.sleep(rng.uniform(0.3, 1.2))
        owner = owners(cluster)
        clock = owner[clock_slot]
        port = clock if i % 2 == 0 else rng.choice([p for p in sorted(set(owner.values())) if p != clock])
        how = HOWS[(i // 2) % 3]
        since = time.monotonic()
        if not fail(cluster, port, how):
            stuck.append(f"{i}: {how} of {port} led to nothing")
            continue
        done[how] += 1
        if i % 3 == 2 and not work.crowd.everybody_went_on(since, RECOVERY):
            stuck.append(f"{i}: {how} of {port}: not all clients went on: "
                         f"{work.crowd.errors()}")
    tap.ok(sum(done.values()) >= min(failovers, 4) and not stuck, "primaries fail, clients go on", "\n".join(stuck))
    tap.note(f"failovers {done} in {time.monotonic() - started:.0f} s")
    tap.ok(wait_until(lambda: healthy(cluster), RECOVERY, 0.1), "the cluster is whole again")
    time.sleep(1.5)
    tap.ok(work.settle(), "all clients come to an end")
    bad = work.crowd.unexpected(ALLOWED)
    tap.ok(not bad, "only errors of connections and conflicts", bad)
    tap.note(f"errors {work.crowd.errors()}; {sum(work.sure)} increments, "
             f"{sum(map(len, work.entries.values()))} inserts of 20 rows acknowledged")
    watcher.over.set()
    watcher.join(60)
    tap.ok(watcher.seen > 10 and not watcher.back, "the clock never goes back",
           f"seen {watcher.seen} times\n" + "\n".join(watcher.back))
    work.verify("after the failovers")
    with section("a backend dies, then primaries are taken over"):
        half_done(cluster, servers, db)
    with section("WAIT is forbidden"):
        forbidden(cluster, servers, db)
    with section("a decision without copies"):
        no_copies(cluster, servers, db)
    with section("values of a sequence and their copies"):
        sequences(cluster, servers, db)
    with section("locks of tables and numbers and their copies"):
        locks(cluster, servers, db)
    with section("what is shown has its copies"):
        shown(servers[ENGINES.index("script")], f"{db}_shown")
    with section("definitions on a primary that was taken over"):
        stale_definitions(cluster, servers, [f"{db}_{i}" for i in range(10)])
    with section("all nodes die, and start from their logs"):
        power_cut(servers, seed)
    tap.equal([c for s in servers for c in s.crashes()], [], "no backend died by itself")
    lost = [line for s in servers for line in s.log().splitlines() if "was lost by Redis" in line]
    tap.equal(lost, [], "no row of a commit was found missing")


main(body)
