#!/usr/bin/python3
"""A Redis that forgot: SAVE, go on, kill -9, start again from the dump, go on.

Durability 'none'.  Two PostgreSQL servers; the first one's sessions live on over the
restart, with what they have cached.  Not promised: what was written between the dump and
the end.  Promised: that nothing acknowledged afterwards is lost or undone by what one of
them still knows, or by ids and versions that are given out once more; a unique index and
NOT NULL made afterwards hold for all.

Twice: a plain Redis, which forgets everything; and a cluster in which the clock alone
does (its keys are put back as they were).  With each engine.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

ROWS = 40


class Case:
    def __init__(self, servers, cluster, engine):
        self.ns = f"forgetful_{'plain' if cluster.plain else 'cluster'}_{engine}"
        self.name = f"{'plain' if cluster.plain else 'cluster'}, {engine}"
        self.cluster, self.servers = cluster, servers
        for s in servers:
            make_database(s, self.ns, cluster.nodes, {"atomic": engine})
        self.port = cluster.ports[0] if cluster.plain else cluster.clock_port(self.ns)
        self.clock = "%s:{%s.clock}:c" % (self.ns, self.ns)

    def connect(self, i):
        return self.servers[i].connect(self.ns)

    def table(self, name):
        """Known to both servers."""
        with contextlib.closing(self.connect(0)) as a, contextlib.closing(self.connect(1)) as b:
            query(a, f"CREATE FOREIGN TABLE {name} (id int OPTIONS (key 'true') NOT NULL, "
                     "v int, w int) SERVER redis")
            query(a, f"INSERT INTO {name} SELECT g, 0, 0 FROM generate_series(1, {ROWS}) g")
            query(b, f"IMPORT FOREIGN SCHEMA public LIMIT TO ({name}) FROM SERVER redis INTO public")
            return name

    def clock_keys(self):
        return self.cluster.ask(self.port, "KEYS", self.clock[:-1] + "*")

    def save(self):
        self.cluster.ask(self.port, "SAVE")
        self.saved = {k: self.cluster.ask(self.port, "DUMP", k) for k in self.clock_keys()}

    def fall(self):
        """The node starts again from what it has saved."""
        if not self.cluster.plain:
            self.cluster.ask(self.port, "SAVE")
        self.cluster.kill(self.port)
        self.cluster.restart(self.port)

        def up():
            with contextlib.suppress(OSError, RedisError):
                return self.cluster.ask(self.port, "HGET", self.clock, "sid") is not None
        tap.ok(wait_until(up, pause=0.05), f"{self.name}: back from the dump")
        if not self.cluster.plain:
            for k in self.clock_keys():
                self.cluster.ask(self.port, "DEL", k)
            for k, dump in self.saved.items():
                self.cluster.ask(self.port, "RESTORE", k, 0, dump)

    def until_done(self, conn, sql):
        """What is refused for the connection's sake is tried again."""
        got = None

        def done():
            nonlocal got
            got = attempt(conn, sql)
            return got[1] is None or not re.fullmatch("40001|08...", got[1])
        wait_until(done, pause=0.05)
        if got[1] is not None:
            raise AssertionError(f"{sql}: {got}")
        return got[0]


def updates(case):
    """Sessions of before and of after write the same rows in turn."""
    table = case.table("rows")
    case.save()
    olds = [case.connect(0) for _ in range(4)]
    for i, c in enumerate(olds):            # sessions that the dump does not know
        for g in range(20):
            query(c, f"UPDATE {table} SET v = {g} WHERE id = {ROWS}")
    case.fall()
    news = [case.connect(1) for _ in range(4)]
    reader = case.connect(1)
    case.until_done(reader, f"UPDATE {table} SET v = 0, w = 0")
    wrong, sum = [], 0
    conns = [c for pair in zip(olds, news) for c in pair]
    for turn in range(1, 13):
        for k, c in enumerate(conns):
            row = (turn * 7 + k) % 5 + 1
            sum += turn
            case.until_done(c, f"UPDATE {table} SET v = v + {turn}, w = {turn * 100 + k} WHERE id = {row}")
            got = query(reader, f"SELECT w FROM {table} WHERE id = {row}")[0][0]
            if got != turn * 100 + k:
                wrong.append(f"turn {turn}, connection {k}: {got}")
    for k in range(40):                     # the numbers that the old ones had
        for c in news:
            query(c, f"UPDATE {table} SET w = {k} WHERE id = 7")
            got = query(reader, f"SELECT w FROM {table} WHERE id = 7")[0][0]
            if got != k:
                wrong.append(f"update {k}: {got}")
    there = value(reader, f"SELECT sum(v) FROM {table}")
    tap.ok(not wrong and there == sum, f"{case.name}: no update of afterwards is undone",
           [there, sum] + wrong[:5])
    sids = [int(s.rsplit(b":", 1)[1]) for s in case.cluster.ask(
        case.port, "KEYS", case.clock[:-1] + "s:*")]
    tap.ok(len(sids) >= len(conns), f"{case.name}: each session has an id of its own", sids)
    broken = findings(reader, table)[0]
    tap.ok(not broken, f"{case.name}: the tree is sound", broken[:5])
    for c in conns + [reader]:
        c.close()


def definitions(case):
    """A definition that changes afterwards is obeyed by who has cached a later version."""
    table = case.table("defined")
    idle = case.connect(0)                  # knows the version in the dump
    query(idle, f"INSERT INTO {table} VALUES (1000, 1000, 0)")
    case.save()
    old = case.connect(0)
    query(old, f"INSERT INTO {table} VALUES (1001, 1001, 0)")
    query(old, f"CREATE FOREIGN TABLE another_{table} (id int OPTIONS (key 'true') NOT NULL) SERVER redis")
    query(old, f"INSERT INTO {table} VALUES (1002, 1002, 0)")   # knows a version beyond the dump
    case.fall()
    new = case.connect(1)
    case.until_done(new, f"CREATE INDEX ON {table} (v)")
    for i, c in enumerate((old, idle)):
        for k in range(5):
            case.until_done(c, f"INSERT INTO {table} VALUES ({2000 + 10 * i + k}, {2000 + 10 * i + k}, 0)")
    got = query(new, f"SET enable_seqscan = off; SELECT count(*) FROM {table} WHERE v >= 2000")[0][0]
    tap.equal(got, 10, f"{case.name}: an index made afterwards has the entries of all")
    broken = findings(new, table)[0]
    tap.ok(not broken, f"{case.name}: and agrees with its table", broken[:5])
    for c in (idle, old, new):
        c.close()


def forgotten_version(case):
    """Who knows only what the dump knew, and comes after a change that the clock forgot."""
    table = case.table("changed")
    idle = case.connect(0)
    query(idle, f"INSERT INTO {table} VALUES (1000, 1000, 0)")
    case.save()
    with contextlib.closing(case.connect(1)) as c:
        query(c, f"CREATE INDEX ON {table} (v)")
        query(c, f"SELECT count(*) FROM {table}")
    case.fall()
    case.until_done(idle, f"INSERT INTO {table} VALUES (2000, 2000, 0)")
    with contextlib.closing(case.connect(1)) as c:
        broken = findings(c, table)[0]
        tap.ok(not broken, f"{case.name}: an index that the clock forgot is kept up", broken[:5])
    idle.close()


def body():
    servers = [Server("forgetful1"), Server("forgetful2")]
    for plain in (True, False):
        cluster = Cluster("forgetful_plain" if plain else "forgetful", plain=plain)
        for engine in ENGINES:
            case = Case(servers, cluster, engine)
            # (a plain one forgets the definitions with the version)
            for what in (updates, definitions) + (() if plain else (forgotten_version,)):
                with section(f"{case.name}: {what.__name__}"):
                    what(case)
    tap.equal([c for s in servers for c in s.crashes()], [], "no backend died by itself")


main(body)
