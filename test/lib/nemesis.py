"""Faults, to be injected into and healed in a running world.

A nemesis is made with a world and a random generator, so that a seed tells what it
does.  inject() does the harm, heal() undoes it and returns when what was hurt is
healthy again; both may be called from any thread.  What they do is in the world's
log, with times.  Each class says

    group     what it hurts: postgres, redis, topology, network.  Two faults at a
              time are from groups that do not hinder each other's healing
    needs     "net" (a network of namespaces), "replicas", "disk" (append-only file)
    forgets   Redis may lose what it acknowledged, unless commits wait for replicas
    hold      seconds between inject and heal, from and to
    stall     seconds for which it may block a client whose own server is not hurt
    held      seconds for which who is hurt may keep rows locked that such a client wants: as
              long as it lives, even if it sleeps, and until its lease ends if its server is gone
"""
from mosqltest import *
from mover import Mover

NODE_TIMEOUT = 2.0              # cluster-node-timeout of script/cluster
FAILOVER = NODE_TIMEOUT + 3.0   # until it is noticed, plus votes
BLOCKED = 1.0                   # by a dead client, at most: the promise
LEASE = 3.0                     # mosql_fdw.debug_lease of these servers
WELL = 90.0                     # for things to get well again


class World:
    """What there is: one cluster, two servers and perhaps a spare one; work, which
    is what runs on them: a Run of test/workloads, or whatever has its db, options,
    servers, make_tables() and add_server()."""

    def __init__(self, cluster, servers, net=None, work=None):
        self.cluster, self.servers, self.net, self.work = cluster, servers, net, work
        self.has = {n for n, there in (("net", net), ("replicas", len(cluster.ports) > len(cluster.primaries)),
                                       ("disk", "appendonly yes" in cluster.settings)) if there}
        self.started = time.monotonic()
        self.lock = threading.Lock()
        self.lines = []
        self.spare = None
        # in the network: first the nodes in their order, then the servers
        self.place_of = {p: i for i, p in enumerate(cluster.ports)}
        self.place_of.update({s: len(cluster.ports) + i for i, s in enumerate(servers)})

    def log(self, text):
        with self.lock:
            self.lines.append(f"{time.monotonic() - self.started:8.3f} {text}")

    # -- Redis --

    def alive(self):
        ports = []
        for p in self.cluster.ports:
            with contextlib.suppress(OSError, RedisError):
                Redis(p, timeout=1)("PING")
                ports.append(p)
        return ports

    def owners(self):
        """slot -> port, as a node sees it that sees the cluster whole."""
        for p in self.alive():
            with contextlib.suppress(OSError, RedisError):
                if b"cluster_state:ok" in self.cluster.ask(p, "CLUSTER", "INFO"):
                    return {s: primary[1] for low, high, primary, *_ in self.cluster.ask(p, "CLUSTER", "SLOTS")
                            for s in range(low, high + 1)}
        return {}

    def primaries(self):
        return sorted(set(self.owners().values()))

    def clock_slot(self):
        ns = self.work.options["namespace"]
        return self.cluster.ask(self.alive()[0], "CLUSTER", "KEYSLOT", "%s:{%s.clock}:c" % (ns, ns))

    def clock(self):
        return self.owners()[self.clock_slot()]

    def choose_primary(self, rng):
        """The clock's as often as any other."""
        clock = self.clock()
        others = [p for p in self.primaries() if p != clock]
        return clock if not others or rng.random() < 0.5 else rng.choice(others)

    def healthy(self):
        """All nodes are up, agree who has what, and replicas are in sync."""
        try:
            maps = set()
            for p in self.cluster.ports:
                r = Redis(p, timeout=1)
                if b"cluster_state:ok" not in r("CLUSTER", "INFO"):
                    return False
                if "master_link_status:down" in r("INFO", "replication").decode():
                    return False
                nodes = r("CLUSTER", "NODES").decode()
                if re.search(r"\bfail\??\b|disconnected|handshake", nodes):
                    return False
                maps.add(str(sorted((low, high, primary[1]) for low, high, primary, *_ in r("CLUSTER", "SLOTS"))))
                r.close()
            return len(maps) == 1
        except (OSError, RedisError):
            return False

    def wait_healthy(self):
        if not wait_until(self.healthy, WELL, 0.1):
            raise RuntimeError("the cluster does not get well")

    def let_take_over(self, may):
        """Shall replicas take over?  One that does lacks what its primary has not sent yet, and on a busy machine that
        may happen before a short fault is over."""
        for p in self.cluster.ports if "replicas" in self.has else ():
            self.cluster.ask(p, "CONFIG", "SET", "cluster-replica-no-failover", "no" if may else "yes")

    # -- PostgreSQL --

    def backends(self, server):
        """Process ids of the load's backends."""
        try:
            with contextlib.closing(server.connect()) as c:
                return [p for p, in query(c, "SELECT pid FROM pg_stat_activity WHERE datname = %s "
                                          "AND backend_type = 'client backend'", (self.work.db,))]
        except psycopg2.Error:
            return []

    def reload(self, server, **settings):
        """Settings of a running server by file and SIGHUP: no backend is needed."""
        path = os.path.join(server.home, "data", "postgresql.auto.conf")
        with open(path, "w") as f:
            f.writelines(f"{k} = '{v}'\n" for k, v in settings.items())
        with contextlib.suppress(OSError):
            os.kill(server.postmaster(), signal.SIGHUP)


class Nemesis:
    group, needs, forgets, hold, stall, held = "postgres", (), False, (1.0, 3.0), BLOCKED, 0.0

    def __init__(self, world, rng):
        self.world, self.rng = world, rng
        self.hurt = set()       # servers whose own clients suffer

    def __str__(self):
        return type(self).__name__

    def log(self, text):
        self.world.log(f"{self}: {text}")

    def inject(self):
        raise NotImplementedError

    def heal(self):
        raise NotImplementedError

    def a_server(self):
        server = self.rng.choice(self.world.servers)
        self.hurt.add(server)
        return server


class Repeated(Nemesis):
    """Does harm() again and again until it heals."""

    pause = (0.2, 1.0)

    def inject(self):
        self.stop, self.error = threading.Event(), None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.prepare()
        self.thread.start()

    def _run(self):
        try:
            while not self.stop.is_set():
                self.harm()
                self.stop.wait(self.rng.uniform(*self.pause))
        except Exception:
            self.error = traceback.format_exc()

    def heal(self):
        self.stop.set()
        self.thread.join(WELL)
        self.mend()
        if self.error:
            raise RuntimeError(self.error)

    def prepare(self):
        pass

    def mend(self):
        pass


# ---- PostgreSQL ----

class KillBackend(Repeated):
    """kill -9 at random times; PostgreSQL then ends all its backends."""

    pause = (0.5, 1.5)
    held = LEASE

    def prepare(self):
        self.server = self.a_server()

    def harm(self):
        pids = self.world.backends(self.server)
        if pids:
            pid = self.rng.choice(pids)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.log(f"killed {pid} of {self.server.name}")

    def mend(self):
        if not self.server.wait_up():
            raise RuntimeError(f"{self.server.name} does not come up")


class CrashAt(Nemesis):
    """Who first comes to a certain debug point is killed there."""

    hold = (0.5, 1.5)
    held = LEASE
    patience = 2.0                  # for somebody to come there
    points = ("before-prepare", "prepare-some", "after-prepare", "after-decide", "apply-some", "after-apply",
              "help-step", "blocker-asked", "blocker-aborted", "split-frozen", "split-created", "split-cut",
              "read-intents", "read-status-asked")

    def inject(self):
        self.server, point = self.a_server(), self.rng.choice(self.points)
        self.log(f"{point} on {self.server.name}")
        crashes = lambda: self.server.log().count("LOG:  mosql_fdw.debug_crash_at: ")
        before = crashes()
        self.world.reload(self.server, **{"mosql_fdw.debug_crash_at": point})
        wait_until(lambda: crashes() > before, self.patience)
        self.log(f"{crashes() - before} backends killed")
        self.world.reload(self.server)

    def heal(self):
        if not self.server.wait_up():
            raise RuntimeError(f"{self.server.name} does not come up")


class PauseBackend(Nemesis):
    """SIGSTOP of some backends, wherever they are, for longer than every timeout."""

    hold = (LEASE + 1, LEASE + 3)
    held = hold[1]

    def inject(self):
        server = self.a_server()
        pids = self.world.backends(server)
        self.pids = self.rng.sample(pids, min(len(pids), self.rng.choice((1, 1, 2, 4))))
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        self.log(f"stopped {self.pids} of {server.name}")

    def heal(self):
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class RestartServer(Nemesis):
    """A server is shut down, fast or immediately, and comes again."""

    held = LEASE

    def inject(self):
        self.server, how = self.a_server(), self.rng.choice(("fast", "immediate"))
        self.log(f"{self.server.name}, {how}")
        self.server.stop(how)

    def heal(self):
        self.server.restart()


class KillPostmaster(Nemesis):
    """kill -9 of the postmaster: its backends notice when they next wait."""

    held = LEASE

    def inject(self):
        self.server = self.a_server()
        self.log(self.server.name)
        os.kill(self.server.postmaster(), signal.SIGKILL)

    def heal(self):
        self.server.restart()


class AddServer(Nemesis):
    """One more server takes part for a while, and is stopped in the middle."""

    hold = (2.0, 4.0)
    held = LEASE

    def inject(self):
        world = self.world
        if world.spare is None:
            world.spare = Server("spare", netns=world.net and world.net.names[world.net.add()],
                                 settings=[f"mosql_fdw.debug_lease={int(LEASE * 1000)}"])
        else:
            world.spare.restart()
        world.work.make_tables(world.spare)
        self.log("it joins")
        world.work.add_server(world.spare)

    def heal(self):
        self.log("it is stopped")
        self.world.spare.stop(self.rng.choice(("fast", "immediate")))
        self.world.work.servers.remove(self.world.spare)


# ---- Redis ----

class KillPrimary(Nemesis):
    """A primary dies and its replica takes over; it comes back as a replica."""

    group, needs, forgets, hold, stall = "redis", ("replicas",), True, (FAILOVER, FAILOVER + 1), FAILOVER + 2

    def inject(self):
        self.port = self.world.choose_primary(self.rng)
        self.log(f"{self.port}")
        self.world.cluster.kill(self.port)

    def heal(self):
        port = self.port
        if not wait_until(lambda: self.world.owners() and port not in self.world.owners().values(), WELL, 0.1):
            raise RuntimeError(f"nobody takes over from {port}")
        self.world.cluster.restart(port)
        self.world.cluster.pids = {}
        self.world.wait_healthy()


class RestartNode(Nemesis):
    """kill -9 of a node with an append-only file, which is started again."""

    group, needs, hold, stall = "redis", ("disk",), (0.3, 1.0), 6.0

    def inject(self):
        self.port = self.world.choose_primary(self.rng)
        self.log(f"{self.port}")
        self.world.cluster.kill(self.port)

    def heal(self):
        self.world.cluster.restart(self.port)
        self.world.cluster.pids = {}
        self.world.wait_healthy()


class PauseNode(Nemesis):
    """SIGSTOP of a node for less than the node timeout: nobody takes over."""

    group, hold, stall = "redis", (0.3, 1.0), 1.0 + BLOCKED

    def inject(self):
        self.port = self.world.choose_primary(self.rng)
        self.pid = self.world.cluster.pid(self.port)
        self.log(f"{self.port}")
        os.kill(self.pid, signal.SIGSTOP)

    def heal(self):
        os.kill(self.pid, signal.SIGCONT)
        self.world.wait_healthy()


class PauseNodeLong(PauseNode):
    """SIGSTOP for so long that a replica takes over; the old primary wakes up
    and believes for a moment that it still is one."""

    needs, forgets, hold, stall = ("replicas",), True, (FAILOVER, FAILOVER + 2), FAILOVER + 2


class FillNode(Nemesis):
    """A node has no memory to give: writes fail, removals do not."""

    group, hold, stall = "redis", (0.2, 1.5), 1.5 + BLOCKED

    def inject(self):
        self.port = self.world.choose_primary(self.rng)
        self.log(f"{self.port}")
        self.world.cluster.ask(self.port, "CONFIG", "SET", "maxmemory", "1mb")

    def heal(self):
        self.world.cluster.ask(self.port, "CONFIG", "SET", "maxmemory", "0")


# ---- the shape of the cluster ----

class MoveSlots(Repeated):
    """Slots move to other nodes, those with keys and the clock's."""

    group, hold, pause = "topology", (2.0, 4.0), (0.0, 0.05)

    def prepare(self):
        self.mover = Mover(self.world.primaries())
        self.clock = self.world.clock_slot()

    def harm(self):
        slot = self.clock if self.rng.random() < 0.2 else self.rng.choice(self.mover.slots_with_keys())
        if self.mover.is_rested(slot):
            self.mover.move(slot, self.rng)

    def mend(self):
        self.log(f"{self.mover.moved} slots with {self.mover.keys} keys")
        self.world.wait_healthy()


class AddNode(Nemesis):
    """A node joins, gets slots, the clock's among them, gives them back, and goes."""

    group, hold = "topology", (0.5, 2.0)

    def inject(self):
        world = self.world
        place = None
        if world.net:
            i = world.net.add()
            place = world.net.place(i)
        self.port = world.cluster.add(place)
        if world.net:
            world.place_of[self.port] = i
        world.wait_healthy()
        self.mover = Mover(world.primaries() + [self.port])
        slots = self.mover.slots_with_keys()
        self.slots = self.rng.sample(slots, min(10, len(slots)))
        clock = world.clock_slot()
        self.slots = [clock] + [s for s in self.slots if s != clock]
        for s in self.slots:
            self.mover.move(s, self.rng, self.port)
        self.log(f"{self.port} got {len(self.slots)} slots")

    def heal(self):
        for s in self.slots:
            self.mover.move(s, self.rng)
        self.world.wait_healthy()
        self.world.cluster.remove(self.port)
        self.log(f"{self.port} is gone")
        self.world.wait_healthy()


# ---- the network ----

class CutConnections(Repeated):
    """Redis hangs up on some of its clients, time and again: somebody may be hit each time that he tries."""

    group, hold, pause, stall = "network", (1.0, 3.0), (0.0, 0.05), 3.0 + BLOCKED

    def harm(self):
        port = self.rng.choice(self.world.primaries() or self.world.cluster.ports)
        with contextlib.suppress(OSError, RedisError):
            r = Redis(port, timeout=1)
            ids = [re.search(r"\bid=(\d+)", line)[1]
                   for line in r("CLIENT", "LIST", "TYPE", "normal").decode().splitlines()
                   if "cmd=client" not in line and "name=mover" not in line]
            for i in self.rng.sample(ids, min(len(ids), self.rng.choice((1, 1, 2, 100)))):
                with contextlib.suppress(RedisError):
                    r("CLIENT", "KILL", "ID", i)
            r.close()


class CutFrontEnd(Nemesis):
    """A PostgreSQL server no longer reaches one Redis node, in one direction or both."""

    group, needs, hold = "network", ("net",), (2.0, 4.0)
    held = hold[1]

    def targets(self):
        return [self.world.choose_primary(self.rng)]

    def inject(self):
        world, server = self.world, self.a_server()
        ports = self.targets()
        way = self.rng.choice(("both", "requests", "replies"))
        self.log(f"{server.name} from {ports}, {way}")
        for p in ports:
            a, b = world.place_of[server], world.place_of[p]
            if way == "replies":
                a, b = b, a
            world.net.cut(a, b, one_way=way != "both")

    def heal(self):
        self.world.net.heal()


class IsolateFrontEnd(CutFrontEnd):
    """A PostgreSQL server reaches no Redis node for longer than its lease."""

    hold = (LEASE + 1, LEASE + 2)
    held = hold[1]

    def targets(self):
        return self.world.cluster.ports


class IsolatePrimary(Nemesis):
    """A primary is cut off from all other nodes, yet all servers reach it."""

    group, needs, forgets, hold, stall = "network", ("net", "replicas"), True, (FAILOVER, FAILOVER + 1), FAILOVER + 2

    def inject(self):
        world = self.world
        self.port = world.choose_primary(self.rng)
        self.log(f"{self.port}")
        for p in world.cluster.ports:
            if p != self.port:
                world.net.cut(world.place_of[self.port], world.place_of[p])

    def heal(self):
        self.world.net.heal()
        self.world.wait_healthy()


class BlinkNodes(Nemesis):
    """All Redis nodes lose sight of each other, and with what TCP takes to notice that
    it is over for less than the node timeout."""

    group, needs, hold = "network", ("net",), (0.2, 0.6)

    def inject(self):
        world = self.world
        for i, p in enumerate(world.cluster.ports):
            for q in world.cluster.ports[i + 1:]:
                world.net.cut(world.place_of[p], world.place_of[q])

    def heal(self):
        self.world.net.heal()
        self.world.wait_healthy()


FAULTS = {re.sub(r"(?<=[a-z])(?=[A-Z])", "-", c.__name__).lower(): c for c in (
    KillBackend, CrashAt, PauseBackend, RestartServer, KillPostmaster, AddServer,
    KillPrimary, RestartNode, PauseNode, PauseNodeLong, FillNode,
    MoveSlots, AddNode,
    CutConnections, CutFrontEnd, IsolateFrontEnd, IsolatePrimary, BlinkNodes)}


def compatible(a, b):
    """May both be there at a time?  Moving slots needs nodes that answer, and
    cutting heals all cuts at once."""
    groups = {a.group, b.group}
    if len(groups) == 1:
        return False
    if "topology" in groups:
        other = b if a.group == "topology" else a
        return other.group == "postgres" or other is CutConnections or other is CutFrontEnd
    return not (a.forgets and b.forgets)
