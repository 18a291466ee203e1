#!/usr/bin/python3
"""Many clients, few connections, bounded memory.

    t/load.py [--clients N] [--seconds S] [--bound N] [--seed N] [--only PARTS]

Idle connections are closed, connections per Redis node stay below the bound,
whoever waits for one gets it in turn or is told in time; a backend's memory does
not grow with what it has done; and N clients on each of two PostgreSQL servers run
a TPC-B-like load for S seconds (default 100 and 15; the full test of a release is
--clients 300 --seconds 300) without an error."""
import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

TABLE = """
CREATE FOREIGN TABLE item (id int OPTIONS (key 'true') NOT NULL, n int) SERVER redis;
INSERT INTO item SELECT g, 0 FROM generate_series(1, 100) g;
"""

TPCB = """
CREATE FOREIGN TABLE accounts (aid int OPTIONS (key 'true') NOT NULL, bid int, abalance int) SERVER redis;
CREATE FOREIGN TABLE tellers (tid int OPTIONS (key 'true') NOT NULL, bid int, tbalance int) SERVER redis;
CREATE FOREIGN TABLE branches (bid int OPTIONS (key 'true') NOT NULL, bbalance int) SERVER redis;
CREATE FOREIGN TABLE history (tid int, bid int, aid int, delta int, mtime timestamp) SERVER redis;
"""
FILL = """
INSERT INTO branches SELECT g, 0 FROM generate_series(1, 30) g;
INSERT INTO tellers SELECT g, g % 30, 0 FROM generate_series(1, 300) g;
INSERT INTO accounts SELECT g, g % 30, 0 FROM generate_series(1, 30000) g;
"""
SCRIPT = r"""
\set aid random(1, 30000)
\set bid random(1, 30)
\set tid random(1, 300)
\set delta random(-5000, 5000)
BEGIN;
UPDATE accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM accounts WHERE aid = :aid;
UPDATE tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO history VALUES (:tid, :bid, :aid, :delta, now());
END;
"""


# ---- what Redis and the kernel say ----

def clients_of(cluster):
    """The most connections that a Redis node has, without replicas, ourselves, and those on which somebody waits, or has
    waited, for a row."""
    most = 0
    for port in cluster.primaries:
        lines = cluster.ask(port, "CLIENT", "LIST").decode().splitlines()
        most = max(most, sum("flags=N" in line and "cmd=client" not in line and "cmd=blpop" not in line for line in lines))
    return most


def private_kb(pid):
    """Memory of a process that is its own; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return int(re.search(r"RssAnon:\s+(\d+)", f.read())[1])
    except (OSError, TypeError):
        return 0


# ---- idle connections ----

IDLE = 4                        # seconds: in that time twenty sessions are made, mostly in half of one


def idle(cluster, server):
    make_database(server, "idle", cluster.nodes, {"idle_timeout": IDLE * 1000}, TABLE)
    wait_until(lambda: clients_of(cluster) == 0)
    conns = [server.connect("idle") for _ in range(20)]
    for c in conns:
        query(c, "SELECT count(*) FROM item")
    tap.ok(clients_of(cluster) >= 20, "idle: each backend is connected")
    tap.ok(wait_until(lambda: clients_of(cluster) == 0), "idle: and closes when nobody has used it",
           clients_of(cluster))
    tap.equal(cluster.on("idle:{idle.clock}:e", "ZCARD", "idle:{idle.clock}:e"), 0,
              "idle: the session ids were given back")
    tap.equal({value(c, "SELECT n FROM item WHERE id = 1") for c in conns}, {0},
              "idle: the next statement connects again")

    one = conns[0]
    before = value(one, "SELECT value FROM mosql_fdw_stats() WHERE name = 'reconnects'")
    query(one, "BEGIN")
    query(one, "UPDATE item SET n = 1 WHERE id = 1")
    time.sleep(IDLE + 1)
    query(one, "UPDATE item SET n = 2 WHERE id = 2")
    query(one, "COMMIT")
    tap.equal(value(one, "SELECT value FROM mosql_fdw_stats() WHERE name = 'reconnects'"), before,
              "idle: not in the middle of a transaction")
    attempt(one, "SELECT 1 / (n - n) FROM item")
    tap.ok(wait_until(lambda: clients_of(cluster) == 0), "idle: after an error, too")

    # at work with pauses shorter and longer than the timeout
    for i in range(4):
        query(one, "UPDATE item SET n = n + 1 WHERE id = 3")
        time.sleep(0.3 if i % 2 else IDLE + 1)
    tap.equal(value(one, "SELECT n FROM item WHERE id = 3"), 4, "idle: nothing is lost over it")
    tap.equal(findings(one, "item"), ([], []), "idle: no intent is left behind")
    for c in conns:
        c.close()


# ---- permits ----

WAIT = "SELECT n FROM item WHERE id = 1"
PATIENT = 6                     # connect_timeout, seconds: who waits in vain is told then
SOON = 5                        # who need not wait for it mostly waits for some milliseconds


def in_background(work):
    """Start work(); returns a function that waits for its result and seconds."""
    box = []

    def body():
        started = time.monotonic()
        box.append((work(), time.monotonic() - started))
    thread = threading.Thread(target=body, daemon=True)
    thread.start()

    def result(seconds=60):
        thread.join(seconds)
        return box[0] if box else (None, seconds)
    result.thread = thread
    return result


def queued(probe, conn):
    """Start to wait for a permit, as in_background()."""
    waiting = in_background(lambda: attempt(conn, WAIT))
    wait_until(lambda: waits_inside(probe, conn))
    time.sleep(0.2)
    return waiting


def hold(conn):
    query(conn, "BEGIN")
    query(conn, "UPDATE item SET n = n + 1 WHERE id = 9")


def permits(cluster, server):
    bound = {"max_connections": 2, "connect_timeout": PATIENT * 1000}
    make_database(server, "few", cluster.nodes, bound, TABLE)
    make_database(server, "few2", cluster.nodes, bound, TABLE)
    a, b, c = (server.connect("few") for _ in range(3))
    other = server.connect("few2")
    free = server.connect("few")        # never connects to Redis

    hold(a)
    hold(b)
    (state, text), took = in_background(lambda: error_of(c, WAIT))()
    tap.ok(state == "53300" and "max_connections" in text and PATIENT - 0.2 < took < 4 * PATIENT,
           "bound: who finds none free is told after connect_timeout", f"{state} {took:.1f} s {text}")
    tap.equal(attempt(other, WAIT)[1], "53300", "bound: it holds for all databases")

    waiting = queued(free, c)
    query(free, "SELECT pg_cancel_backend(%s)", (c.info.backend_pid,))
    (_, state), took = waiting()
    tap.ok(state == "57014" and took < SOON, "bound: the wait can be cancelled", f"{state} {took:.2f} s")

    waiting = queued(free, c)
    query(a, "COMMIT")
    (rows, state), took = waiting()
    tap.ok(rows and took < SOON, "bound: COMMIT hands over to who waits", f"{rows} {state} {took:.2f} s")
    query(b, "COMMIT")

    (rows, state), took = in_background(lambda: attempt(a, WAIT))()
    tap.ok(rows and took < SOON, "bound: an idle backend gives way at once", f"{rows} {state} {took:.2f} s")
    (rows, state), took = in_background(lambda: attempt(other, WAIT))()
    tap.ok(rows and took < SOON, "bound: to another database, too", f"{rows} {state} {took:.2f} s")
    for _ in range(5):
        for x in (a, b, c):
            query(x, "UPDATE item SET n = n + 1 WHERE id = 5")
    tap.equal(value(other, "SELECT 1"), 1, "bound: nobody minds")
    tap.equal(value(a, "SELECT n FROM item WHERE id = 5"), 15, "bound: taking turns loses nothing")
    tap.ok(clients_of(cluster) <= 2, "bound: Redis sees no more than two", clients_of(cluster))

    # who waits while his chosen holder is busy elsewhere gets the other permit
    hold(b)
    query(a, "SELECT 1 FROM item LIMIT 1")
    query(a, "BEGIN")                   # idle holder inside a local transaction
    (rows, state), took = in_background(lambda: attempt(c, WAIT))()
    tap.ok(rows is None and state == "53300", "bound: a holder inside a transaction block is not asked",
           f"{rows} {state} {took:.2f} s")
    waiting = queued(free, c)
    query(a, "COMMIT")
    tap.ok(waiting()[0][0], "bound: but gives way when its transaction ends")
    query(b, "ROLLBACK")

    # a procedure that never waits for its client
    query(a, "CREATE PROCEDURE many() LANGUAGE plpgsql AS 'BEGIN FOR i IN 1..800 LOOP "
          "UPDATE item SET n = n + 1 WHERE id = 6; PERFORM pg_sleep(0.005); COMMIT; END LOOP; END'")
    hold(b)
    running = in_background(lambda: attempt(a, "CALL many()"))
    wait_until(lambda: waits_inside(free, a))
    time.sleep(0.3)
    (rows, state), took = in_background(lambda: attempt(c, WAIT))()
    tap.ok(rows and running.thread.is_alive(),
           "bound: a procedure gives way between its transactions", f"{rows} {state} {took:.2f} s")
    tap.equal(running()[0][1], None, "bound: and goes on")
    query(b, "COMMIT")
    tap.equal(value(c, "SELECT n FROM item WHERE id = 6"), 800, "bound: with all of its work done")

    # who is terminated in the queue leaves it
    hold(a)
    hold(b)
    waiting = queued(free, c)
    query(free, "SELECT pg_terminate_backend(%s, 5000)", (c.info.backend_pid,))
    waiting()
    c = server.connect("few")
    query(a, "COMMIT")
    query(b, "COMMIT")
    for x in (a, b, c, other, c, b, a):
        (rows, state), took = in_background(lambda: attempt(x, WAIT))()
        if not rows:
            break
    tap.ok(rows, "bound: who is terminated in the queue leaves it", f"{rows} {state} {took:.2f} s")

    # a session that was closed needs a permit as the first one did
    query(c, "BEGIN")
    query(c, "SELECT mosql_fdw_transaction_status('redis', '1.1')")
    query(c, "SELECT mosql_fdw_disconnect_all()")
    query(c, "COMMIT")
    hold(a)
    hold(b)
    tap.equal(attempt(c, WAIT)[1], "53300", "bound: also for who closed its session in the transaction before")
    query(a, "COMMIT")
    query(b, "COMMIT")

    # two mappings that say the same share one session, which other options may not join
    query(a, "ALTER SERVER redis OPTIONS (SET max_connections '1', SET connect_timeout '3000')")
    query(a, "CREATE ROLE someone SUPERUSER; CREATE USER MAPPING FOR someone SERVER redis")
    query(a, "BEGIN")
    query(a, WAIT)
    query(a, "SET LOCAL ROLE someone")
    tap.equal(attempt(a, WAIT)[1], None, "bound: two user mappings with the same options need one")
    query(a, "ROLLBACK")
    query(a, "ALTER USER MAPPING FOR someone SERVER redis OPTIONS (ADD username 'other', ADD password 'any')")
    query(a, "BEGIN")
    query(a, WAIT)
    query(a, "SET LOCAL ROLE someone")
    tap.equal(attempt(a, WAIT)[1], "0A000", "bound: with others they are refused, not made to wait")
    query(a, "ROLLBACK")
    query(a, "ALTER SERVER redis OPTIONS (SET max_connections '2', SET connect_timeout '6000')")

    # dead holders
    for x in (a, b, c, other):
        query(x, "SELECT mosql_fdw_disconnect_all()")
    hold(a)
    hold(b)
    query(free, "SELECT pg_terminate_backend(%s, 5000)", (a.info.backend_pid,))
    (rows, state), took = in_background(lambda: attempt(c, WAIT))()
    tap.ok(rows and took < SOON, "bound: who is terminated gives it back", f"{rows} {state} {took:.2f} s")
    os.kill(b.info.backend_pid, signal.SIGKILL)
    wait_until(lambda: attempt(c, "SELECT 1")[1] is not None)   # the server has noticed
    server.wait_up()
    x, y = server.connect("few"), server.connect("few")
    hold(x)
    tap.equal(attempt(y, WAIT)[1], None, "bound: after a crash all are free again")
    for x in (a, b, c, other, free, x, y):
        x.close()


# ---- memory of one backend ----

def memory(cluster, server, rounds=25):
    make_database(server, "memory", cluster.nodes, None, TABLE)

    def create(c, i):
        query(c, "CREATE FOREIGN TABLE come (a int OPTIONS (key 'true') NOT NULL, b text) SERVER redis")
        query(c, "INSERT INTO come SELECT g, 'x' FROM generate_series(1, 300) g")
        query(c, "SELECT count(*) FROM come")
        query(c, "DROP FOREIGN TABLE come")

    def truncate(c, i):
        query(c, "INSERT INTO stay SELECT g, 'x' FROM generate_series(1, 300) g")
        query(c, "TRUNCATE stay")

    def small(c, i):
        for k in range(30):
            query(c, "UPDATE item SET n = n + 1 WHERE id = %s", (k + 1,))
            query(c, "UPDATE item SET n = 7 WHERE id = %s", (k + 50,))
            query(c, "SELECT sum(n) FROM item WHERE id < %s", (k,))

    def errors(c, i):
        query(c, "BEGIN ISOLATION LEVEL SERIALIZABLE")
        query(c, "SELECT sum(n) FROM item")
        query(c, "SAVEPOINT s")
        attempt(c, "INSERT INTO item VALUES (1, 1)")
        query(c, "ROLLBACK TO s")
        query(c, "UPDATE item SET n = 1 WHERE id = 20")
        query(c, "COMMIT" if i % 2 else "ROLLBACK")

    def connect(c, i):
        query(c, "SELECT mosql_fdw_disconnect_all()")
        query(c, "SELECT n FROM item WHERE id = 1")

    with contextlib.closing(server.connect("memory")) as c:
        query(c, "CREATE FOREIGN TABLE stay (a int OPTIONS (key 'true') NOT NULL, b text) SERVER redis")
        for work in (create, truncate, small, errors, connect):
            sizes = []
            for part in range(3):
                for i in range(rounds):
                    work(c, i)
                sizes.append((private_kb(c.info.backend_pid),
                              int(value(c, "SELECT sum(total_bytes) FROM pg_backend_memory_contexts") / 1024)))
            # the first part fills caches
            grown = [last - middle for middle, last in zip(sizes[1], sizes[2])]
            tap.ok(max(grown) < 300, f"memory: {work.__name__} leaves nothing behind",
                   f"process and contexts, kB, after each of three parts: {sizes}")


def large(cluster, server, rows=200000):
    """Transactions and scans of many rows."""
    make_database(server, "large", cluster.nodes, None, """
        CREATE FOREIGN TABLE wide (a int OPTIONS (key 'true') NOT NULL, b int) SERVER redis""")
    with contextlib.closing(server.connect("large")) as c:
        pid = c.info.backend_pid
        query(c, f"INSERT INTO wide SELECT g, g FROM generate_series(1, {rows}) g")
        for sql in ("UPDATE wide SET b = b + 1", "DELETE FROM wide WHERE a % 2 = 0"):
            query(c, sql)
        query(c, "SELECT 1 FROM wide LIMIT 1")      # what was left of the last commit goes
        left = private_kb(pid)
        tap.ok(left < 40000, f"memory: a commit of {rows} rows gives back what it took", f"{left} kB")
    with contextlib.closing(server.connect("large")) as c:
        pid = c.info.backend_pid
        query(c, "SELECT count(*) FROM wide WHERE a < 5000")
        before = private_kb(pid)
        query(c, "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL mosql_fdw.snapshot_cache = 0")
        query(c, "SELECT count(b), max(a) FROM wide")
        query(c, "SELECT count(b), max(a) FROM (SELECT * FROM wide ORDER BY a DESC) s")
        query(c, "COMMIT")
        grown = private_kb(pid) - before
        tap.ok(grown < 6000, "memory: a scan takes what a few leaves take", f"{grown} kB")
        query(c, "SET mosql_fdw.max_transaction_size = '1MB'")
        tap.equal(attempt(c, f"UPDATE wide SET b = 0 WHERE b = {rows}"), (None, None),
                  "memory: rows that an UPDATE looks at and leaves alone cost nothing")
        tap.equal(attempt(c, "UPDATE wide SET b = 0 WHERE b < random() - 1")[1], "54000",
                  "memory: or count, where they cannot be told in advance")


# ---- the crowd ----

class Crowd:
    """pgbench on one server."""

    def __init__(self, server, clients, seconds, seed):
        env = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        text = run("script/server", "env", "--name", server.name)
        env["PATH"] = re.search(r"PATH=(.*?):\$PATH", text)[1] + ":" + env["PATH"]
        self.script = os.path.join(TOP, "tmp", f"load-{server.name}.sql")
        with open(self.script, "w") as f:
            f.write(SCRIPT)
        self.process = subprocess.Popen(
            ["pgbench", "-n", "-M", "prepared", "-f", self.script, "-c", str(clients), "-j", "1",
             "-T", str(seconds), "--max-tries=1000", "--random-seed", str(seed),
             "-h", server.args["host"], "-p", server.args["port"], "-U", "postgres", "tpcb"],
            env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def result(self, timeout):
        try:
            self.out, self.err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.out, self.err = self.process.communicate()
            self.err += "pgbench did not end in time"
        os.unlink(self.script)

    def number(self, pattern):
        m = re.search(pattern, self.out)
        return float(m[1]) if m else 0.0


def crowd(cluster, servers, clients, seconds, bound, seed):
    for s in servers:
        make_database(s, "tpcb", cluster.nodes,
                      {"max_connections": bound, "connect_timeout": 20000}, TPCB)
    with contextlib.closing(servers[0].connect("tpcb")) as c:
        query(c, FILL)
    watchers = [s.connect("tpcb") for s in servers]
    # buffers fit the longest message so far, so that memory may rise once; a leak does so each time
    for again in False, True:
        samples = run_crowd(cluster, servers, watchers, clients, seconds, bound, seed + again * len(servers))
        third = len(samples) // 3
        if not tap.ok(third, "crowd: memory was looked at", f"{len(samples)} samples"):
            break
        middle, last = (sum(x) / third / clients / len(servers)
                        for x in (samples[third:2 * third], samples[-third:]))
        said = f"kB per backend: {middle:.0f} in the second third, {last:.0f} in the last"
        tap.note(said)
        if again or last < middle * 1.03 + 100:
            tap.ok(last < middle * 1.03 + 100, "crowd: memory does not grow", said)
            break
    check_books(watchers)


def run_crowd(cluster, servers, watchers, clients, seconds, bound, seed):
    """pgbench on each server; samples of the memory of all its backends, in kB."""
    crowds = [Crowd(s, clients, seconds, seed + i) for i, s in enumerate(servers)]
    samples = []
    most = now = 0
    started = time.monotonic()
    while any(c.process.poll() is None for c in crowds) and time.monotonic() < started + seconds + 600:
        before, now = now, clients_of(cluster)
        most = max(most, min(before, now))      # one that was closed is counted until the server has noticed
        if len(samples) < (time.monotonic() - started) * 2:
            pids = [[r[0] for r in query(w, "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench'")]
                    for w in watchers]
            if all(len(p) == clients for p in pids):
                samples.append(sum(private_kb(p) for ps in pids for p in ps))
        time.sleep(0.1)
    for c in crowds:
        c.result(600)
    for i, c in enumerate(crowds):
        tap.ok(c.process.returncode == 0 and not re.search("error|aborted|did not end", c.err),
               f"crowd: {clients} clients on server {i + 1} see no error", c.err)
        tap.note(f"server {i + 1}: {c.number('tps = ([0-9.]+)'):.0f} transactions/s, "
                 f"{c.number('retried: [0-9]+ .([0-9.]+)'):.2f} % retried, "
                 f"latency {c.number('latency average = ([0-9.]+)'):.0f} ms")
        tap.ok(c.number(r"actually processed: ([0-9]+)") > 0 and
               c.number(r"failed transactions: ([0-9]+)") == 0, f"crowd: all succeed, server {i + 1}", c.out)
    if bound:
        tap.ok(0 < most <= bound * len(servers),
               f"crowd: at most {bound} connections of each server to a Redis node", most)
    return samples


def check_books(watchers):
    for i, w in enumerate(watchers):
        sums = query(w, "SELECT (SELECT sum(abalance) FROM accounts), (SELECT sum(tbalance) FROM tellers),"
                     "(SELECT sum(bbalance) FROM branches), (SELECT coalesce(sum(delta), 0) FROM history)")[0]
        tap.ok(len(set(sums)) == 1, f"crowd: the books agree, server {i + 1}", sums)
        broken = [f for t in ("accounts", "tellers", "branches", "history") for f in findings(w, t)[0]]
        tap.ok(not broken, f"crowd: nothing is broken, server {i + 1}", broken[:10])
        w.close()


def body():
    args = argparse.ArgumentParser()
    args.add_argument("--clients", type=int, default=100)
    args.add_argument("--seconds", type=int, default=15)
    args.add_argument("--bound", type=int, default=40, help="option max_connections, 0: none")
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--only", default="idle permits memory large crowd", help="sections to run")
    args = args.parse_args()
    cluster = Cluster("load")
    settings = (f"max_connections={args.clients + 30}", "max_worker_processes=0")
    servers = [Server("load1", settings), Server("load2", settings)]
    for part in (idle, permits, memory, large):
        if part.__name__ in args.only:
            with section(part.__name__):
                part(cluster, servers[0])
    if "crowd" in args.only:
        with section("crowd"):
            crowd(cluster, servers, args.clients, args.seconds, args.bound, args.seed)
    for i, s in enumerate(servers):
        tap.equal(s.crashes(), [], f"server {i + 1} did not crash")


if __name__ == "__main__":
    main(body)
