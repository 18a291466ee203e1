#!/usr/bin/python3
"""A Redis primary dies, its replica takes over, clients go on.

Redis replicates asynchronously: what a primary acknowledged in its last moment
may be missing on the replica.  So there are two promises, and two tests:

  quiet  Nothing is under way when the primary dies, and the replicas have
         everything (WAIT).  Then nothing is lost, and all books agree.

  busy   The primary dies under load.  Clients go on after the failover, and see
         no other errors than those of lost connections and conflicts; backends
         live.  Not promised: that commits of the last moment are still there,
         or there as a whole.  What is missing is told, not judged.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import load
from mosqltest import *

ALLOWED = "40001|40P01|08...|57P..|gone"
WITHIN = 60                     # node timeout 2 s, election, and the slowest retry are 5; who is stuck stays so


def primary_of(cluster, ns, what):
    """The primary that has the clock, or one that does not."""
    alive = live_ports(cluster)
    owner = {}
    for low, high, primary, *_ in cluster.ask(alive[0], "CLUSTER", "SLOTS"):
        for slot in range(low, high + 1):
            owner[slot] = primary[1]
    clock = owner[cluster.ask(alive[0], "CLUSTER", "KEYSLOT", "%s:{%s.clock}:c" % (ns, ns))]
    if what == "clock":
        return clock
    return next(p for p in sorted(set(owner.values())) if p != clock)


def live_ports(cluster):
    out = []
    for p in cluster.ports:
        with contextlib.suppress(OSError):
            cluster.ask(p, "PING")
            out.append(p)
    return out


def replicated(cluster):
    """Everything acknowledged is on the replicas."""
    for p in live_ports(cluster):
        r = Redis(p)
        if r("ROLE")[0] == b"master":
            # a write, so that WAIT has something to wait for on this connection
            r("PUBLISH", "x", "x")
            offsets = lambda: r("ROLE")
            if not wait_until(lambda: all(int(s[2]) >= offsets()[1] for s in offsets()[2]) and offsets()[2]):
                return False
        r.close()
    return True


def rejoin(cluster, port):
    """The dead node comes back, as a replica, and catches up."""
    cluster.restart(port)

    def in_sync():
        with contextlib.suppress(OSError, RedisError):
            info = cluster.ask(port, "INFO", "replication").decode()
            return "role:slave" in info and "master_link_status:up" in info
    return wait_until(in_sync, 90, 0.2) and wait_until(lambda: all(
        b"cluster_state:ok" in cluster.ask(p, "CLUSTER", "INFO") for p in cluster.ports), pause=0.2)


def body():
    seed = int(os.environ.get("MOSQL_TEST_SEED", time.time()))
    tap.note(f"MOSQL_TEST_SEED={seed}")
    cluster = Cluster("failover", replicas=1)
    servers = [Server("failover1"), Server("failover2")]
    for engine, whom in (("script", "clock"), ("watch", "other")):
        db = "failover_" + engine
        with section(f"{engine}, quiet, the {whom}'s primary"):
            name = f"{engine}, quiet, {whom}"
            for s in servers:
                make_database(s, db, cluster.nodes, {"atomic": engine}, load.DDL)
            work = load.Load(servers, db, accounts=500, seed=seed)
            work.start(("transfer", "increment", "insert", "scan"))
            time.sleep(1.5)
            tap.ok(work.crowd.hold(), f"{name}: clients pause")
            time.sleep(0.2)         # applies are not waited for
            tap.ok(replicated(cluster), f"{name}: the replicas have everything")
            port = primary_of(cluster, db, whom)
            cluster.kill(port)
            since = time.monotonic()
            work.crowd.go()
            tap.ok(work.crowd.everybody_went_on(since, WITHIN), f"{name}: all clients go on",
                   f"{sum(c.last_done > since for c in work.crowd.all)} of {len(work.crowd.all)}: "
                   f"{work.crowd.errors()}")
            tap.note(f"the last after {time.monotonic() - since:.1f} s; errors {work.crowd.errors()}")
            time.sleep(1)
            tap.ok(work.settle(), f"{name}: all clients come to an end")
            bad = work.crowd.unexpected(ALLOWED)
            tap.ok(not bad, f"{name}: only errors of connections and conflicts", bad)
            work.verify(name)
            tap.ok(rejoin(cluster, port), f"{name}: the dead node comes back as a replica")

    with section("script, busy"):
        db = "failover_busy"
        for s in servers:
            make_database(s, db, cluster.nodes, {"atomic": "script"}, load.DDL)
        work = load.Load(servers, db, accounts=500, seed=seed)
        # no splits: half of a split that is lost would be a damaged tree, which
        # nobody promised to survive without durable replication
        work.start(("transfer", "increment", "scan"))
        time.sleep(1.5)
        port = primary_of(cluster, db, "other")
        cluster.kill(port)
        since = time.monotonic()
        tap.ok(work.crowd.everybody_went_on(since, WITHIN), "busy: all clients go on",
               f"{sum(c.last_done > since for c in work.crowd.all)} of {len(work.crowd.all)}: "
               f"{work.crowd.errors()}")
        tap.note(f"the last after {time.monotonic() - since:.1f} s; errors {work.crowd.errors()}")
        time.sleep(1)
        tap.ok(work.settle(), "busy: all clients come to an end")
        bad = work.crowd.unexpected(ALLOWED)
        tap.ok(not bad, "busy: only errors of connections and conflicts", bad)
        with contextlib.closing(servers[1].connect(db)) as c:
            total = value(c, "SELECT sum(balance) FROM account")
            lost = sum(max(0, a - n) for a, (_, n) in
                       zip(work.sure, query(c, "SELECT id, n FROM counter ORDER BY id")))
            tap.note(f"off by {total - work.total}; {lost} acknowledged increments lost; "
                     f"{len(work.wrong)} snapshots did not add up")
            found = [f for t in load.TABLES for f in findings(c, t)[0]]
            tap.ok(not found, "busy: nothing is broken in Redis", "\n".join(map(str, found[:10])))
    tap.equal([c for s in servers for c in s.crashes()], [], "no backend died")


main(body)
