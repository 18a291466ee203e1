"""A workload: its tables, what one transaction of a client does, and its checker."""
import itertools
import random
import re
import time

import checker
from mosqltest import *

_runs = itertools.count(1)


# ---- where rows are ----

# Between the rows that matter lie others, enough for a dozen leaves, in as many slots.
FILLERS, GAP, STEP = 1000, 100000, 389
BESIDE = FILLERS * GAP


def place(k):
    """The row of a workload's key: keys come in tens, by turns spread over all leaves
    and side by side behind them."""
    if k // 10 % 2:
        return BESIDE + k
    return k * STEP % FILLERS * GAP + k // FILLERS + 1


def key_at(row):
    """The other way round."""
    if row >= BESIDE:
        return row - BESIDE
    return row // GAP * pow(STEP, -1, FILLERS) % FILLERS + (row % GAP - 1) * FILLERS


def fill(conn, table):
    """Rows of a table of two columns that nobody looks at; the second is null."""
    query(conn, f"INSERT INTO {table} SELECT g * {GAP}, NULL FROM generate_series(0, {FILLERS - 1}) g")


def keyed(rows):
    """Key -> value of rows (place, value), without fillers."""
    return {key_at(row): v for row, v in rows if row >= BESIDE or row % GAP}


class Rollback(Exception):
    """Raised by a workload's transaction that wants to be rolled back."""


class Workload:
    """One object per run.  Class attributes say what there is to know beforehand.

    Operations follow from the seed: client c's transaction n draws from a generator
    of its own, so that the same seed gives the same wishes whatever else happens."""

    name = None
    tables = ()                 # "name (column type [KEY], ...)"
    levels = LEVELS
    allowed = CONFLICTS         # SQLSTATEs that transactions may end in
    clients = 6                 # at least so many
    native = True               # may run on PostgreSQL's own tables

    def __init__(self, level=SERIALIZABLE, seed=1, clients=None):
        self.level, self.seed = level, seed
        self.clients = max(clients or 0, type(self).clients)
        self.on_native = False      # the tables are PostgreSQL's own
        self.pace = {}              # client -> number of its transaction

    def setup(self, conn):
        """First rows; conn commits by itself."""

    def transaction(self, s):
        """One transaction of a client, through Session s; its commit is not done here."""
        raise NotImplementedError

    def final(self, s):
        """Read everything, when all is over."""

    def level_of(self, s):
        return self.level

    def server_of(self, client, n):
        """Which server client's transaction n goes to: a number, taken modulo theirs."""
        return client

    @staticmethod
    def check(history, level=None, **how):
        """[Anomaly] that the history shows; nothing but the history counts."""
        return checker.check(history, level, **how)

    @classmethod
    def table_names(cls):
        return [t.split()[0] for t in cls.tables]

    @classmethod
    def ddl(cls, native=False):
        """CREATE TABLE, or CREATE FOREIGN TABLE, statements."""
        out = []
        for t in cls.tables:
            if native:
                keys = re.findall(r"(\w+) \w+ KEY", t)
                t = t.replace(" KEY", " NOT NULL")
                out.append(f"CREATE TABLE {t[:-1]}, PRIMARY KEY ({', '.join(keys)}));")
            else:
                t = t.replace(" KEY", " OPTIONS (key 'true') NOT NULL")
                out.append(f"CREATE FOREIGN TABLE {t} SERVER redis;")
        return "\n".join(out)


class Together:
    """A workload whose clients shall be in the same transaction number at about the
    same time, since they race for rows that belong to that number."""

    PATIENCE = 0.05                 # seconds to wait for the others

    def meet(self, s):
        """Wait a little for those who are just behind; who is far behind, because its
        server is gone perhaps, leaps ahead later."""
        until = time.monotonic() + self.PATIENCE
        while any(s.n - 2 <= n < s.n for n in list(self.pace.values())) and time.monotonic() < until:
            time.sleep(0.0005)
        s.leap = max(self.pace.values())


class Session:
    """What one transaction of a client works with: conn; its level; rng, made for
    this transaction; state, a dict that the client keeps; record()."""

    def __init__(self, workload, client, n, conn, state, level=REPEATABLE_READ, final=False):
        self.workload, self.client, self.n, self.level = workload, client, n, level
        self.conn, self.state, self.final = conn, state, final
        self.rng = random.Random(f"{workload.seed} {workload.name} {client} {n}")
        self.ops, self.statement, self._elements = [], -1, 0
        self.leap = 0               # the number that the next transaction shall have at least

    def query(self, sql, args=None):
        """All rows, or None."""
        return self._execute(sql, args)[0]

    def execute(self, sql, args=None):
        """How many rows were concerned."""
        return self._execute(sql, args)[1]

    def _execute(self, sql, args):
        self.statement += 1
        with self.conn.cursor() as c:
            c.execute(sql, args)
            return (c.fetchall() if c.description else None), c.rowcount

    def record(self, name, key, value):
        """An operation of the last statement, which has succeeded."""
        self.ops.append([name, key, value, self.statement])

    def element(self):
        """A number that nobody else gets, and the same for the same seed."""
        self._elements += 1
        return (self.n * 64 + self._elements) * 256 + self.client + 1


class Worker(Repeater):
    """A client: transactions, one after another, until told to stop."""

    def __init__(self, run, client):
        super().__init__()
        self.work, self.client = run, client
        self.state, self.connections = {}, {}
        self.n = 0                  # number of the next transaction

    def turn(self):
        state = self.work.one(self, self.n)
        self.n += 1
        if state and not re.fullmatch(CONFLICTS, state):
            self.halt.wait(0.05)

    def close(self):
        for conn in self.connections.values():
            conn.close()


class Run:
    """One workload at one level, on servers and a cluster that exist; see README.md.

    options are those of CREATE SERVER, settings those of the clients' sessions; native:
    PostgreSQL's own tables, on the one server given; directory: where the history goes."""

    def __init__(self, workload, servers, nodes=None, level=SERIALIZABLE, engine="script", seed=1,
                 clients=None, options=None, native=False, directory=None, **settings):
        from . import WORKLOADS
        self.workload = WORKLOADS[workload](level, seed, clients)
        self.workload.on_native = native
        self.servers, self.nodes, self.engine, self.native = list(servers), nodes, engine, native
        self.level, self.seed, self.settings = level, seed, settings
        number = next(_runs)
        where = "native" if native else engine
        self.db = f"{workload}_{where}_{number}"
        self.options = {"atomic": engine, "namespace": f"{workload}{os.getpid()}.{number}"} | (options or {})
        self.name = f"{workload}, {where}, {level.lower()}"
        self.path = os.path.join(directory or os.path.join(TOP, "tmp", "histories", str(seed)),
                                 f"{number:03}-{workload}-{where}-{level.lower().replace(' ', '-')}.jsonl")
        self.started = time.monotonic()
        self.log, self.lock, self.ids = [], threading.Lock(), itertools.count(1)
        self.crowd = Clients()

    # -- before --

    def make_tables(self, server):
        """The database and its tables on one server."""
        if not self.native:
            make_database(server, self.db, self.nodes, self.options, self.workload.ddl())
            return
        with contextlib.closing(server.connect()) as c:
            query(c, f"DROP DATABASE IF EXISTS {self.db} WITH (FORCE)")
            query(c, f"CREATE DATABASE {self.db}")
        with contextlib.closing(server.connect(self.db)) as c:
            query(c, self.workload.ddl(native=True))

    def setup(self):
        for server in dict.fromkeys(self.servers):
            self.make_tables(server)
        with contextlib.closing(self.connect(0)) as c:
            self.workload.setup(c)

    def add_server(self, server):
        """One more; clients come to it as they connect anew."""
        self.servers.append(server)

    def start(self):
        self.started = time.monotonic()
        for i in range(self.workload.clients):
            self.crowd.add(Worker(self, i))

    # -- meanwhile --

    def connect(self, i=0, **kw):
        return self.servers[i % len(self.servers)].connect(self.db, **kw)

    def now(self):
        """Seconds since the start, as in the history."""
        return time.monotonic() - self.started

    def settings_of(self, worker):
        """One in three does not lock: both kinds are right beside each other."""
        if self.native or worker.client % 3 != 2:
            return self.settings
        return {"mosql_fdw.locking": "optimistic"} | self.settings

    def one(self, worker, n):
        """One transaction of a worker, recorded; None or how it failed."""
        server = self.workload.server_of(worker.client, n) % len(self.servers)
        self.workload.pace[worker.client] = n
        session = None
        committing = False
        begin = self.now()
        try:
            conn = worker.connections.get(server)
            if conn is None or conn.closed:
                conn = worker.connections[server] = self.connect(server, autocommit=False, **self.settings_of(worker))
            session = Session(self.workload, worker.client, n, conn, worker.state)
            session.level = self.workload.level_of(session)
            conn.set_session(isolation_level=session.level)
            begin = self.now()
            self.workload.transaction(session)
            committing = True
            conn.commit()
            outcome, state = checker.OK, None
            worker.done += 1
            worker.last_done = time.monotonic()
        except Rollback:
            conn.rollback()
            outcome, state = checker.FAIL, None
        except psycopg2.Error as e:
            state = state_of(worker.connections.get(server), e)
            if session is None:
                worker.note(state, f"connecting: {e}")
                return state
            unknown = committing and (state == "08007" or conn.closed or not e.pgcode)
            outcome = checker.INFO if unknown else checker.FAIL
            worker.note(state, f"{'COMMIT' if committing else 'statement'} at {self.now():.3f} s: {e}")
            self._clean(conn)
        self.record(session, server, begin, outcome, state)
        worker.n = max(worker.n, session.leap)
        worker.slowest = max(worker.slowest, self.now() - begin)
        return state

    @staticmethod
    def _clean(conn):
        if not conn.closed:
            try:
                conn.rollback()
            except psycopg2.Error:
                conn.close()

    def record(self, s, server, begin, outcome, error):
        """A transaction that has just ended."""
        t = checker.Transaction(next(self.ids), s.ops, outcome, begin, self.now(), s.level, s.client, server,
                                error, s.final)
        with self.lock:
            self.log.append(t)

    @property
    def done(self):
        return self.crowd.done

    def errors(self):
        return self.crowd.errors()

    def unexpected(self, allowed=None):
        """Messages of errors that the pattern (of the workload) does not allow."""
        return self.crowd.unexpected(allowed or self.workload.allowed)

    # -- after --

    def stop(self, seconds=60):
        """True if every client came to an end within that time."""
        return self.crowd.stop(seconds)

    def finish(self, seconds=60):
        """Read everything in the end, through each server, and keep the history."""
        for i in range(len(self.servers)):
            self._final(i, time.monotonic() + seconds)
        self.history().save(self.path)

    def _final(self, i, until):
        while True:
            conn = None
            try:
                conn = self.connect(i, autocommit=False, level=REPEATABLE_READ)
                begin = self.now()
                s = Session(self.workload, -1, i, conn, {}, final=True)
                self.workload.final(s)
                conn.commit()
                self.record(s, i, begin, checker.OK, None)
                return
            except psycopg2.Error:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
            finally:
                if conn is not None:
                    conn.close()

    def history(self):
        with self.lock:
            log = list(self.log)
        return checker.History(log, workload=self.workload.name, level=self.level, seed=self.seed,
                               engine=None if self.native else self.engine, native=self.native,
                               clients=self.workload.clients)

    def check(self, level=None, **how):
        """[Anomaly], as the history's levels promise, or as level would."""
        return type(self.workload).check(self.history(), level, **how)

    def broken(self, i=0):
        """What mosql_fdw_check() finds broken."""
        with contextlib.closing(self.connect(i)) as c:
            return [f for t in self.workload.table_names() for f in findings(c, t)[0]]

    def drop(self):
        """Take the databases away; the history stays."""
        for server in dict.fromkeys(self.servers):
            with contextlib.closing(server.connect()) as c:
                query(c, f"DROP DATABASE IF EXISTS {self.db} WITH (FORCE)")
