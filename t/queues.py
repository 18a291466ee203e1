#!/usr/bin/python3
"""Queues of jobs that others wrote, unmodified, on two PostgreSQL servers and one cluster:
workers of both take jobs with FOR UPDATE SKIP LOCKED, some of them are killed, and each job
runs once.

  gue            in Go: the row of a job is locked for as long as the job runs
  river          in Go: a job is there once (a unique index on a function of its own), and completes in the
                 transaction of its work
  procrastinate  in Python: its functions, triggers and enums in the database

    t/queues.py [PART]...

The libraries come from their registries, Go's proxy and PyPI, by versions and hashes that
test/clients/ has; where no registry can be reached their part is left out."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

CLIENTS = os.path.join(TOP, "test", "clients")
LIBRARIES = os.path.join(TOP, "tmp", "queues")
JOBS = 240
WORKERS = 2                     # threads of each of four processes, two on each server


# ---- what is tried ----

def fetch(name, *command, cwd=CLIENTS, **settings):
    """Get a library; False, and a skipped test, if that cannot be."""
    said = ""
    for _ in range(3):
        try:
            done = subprocess.run(command, cwd=cwd, env={**os.environ, **settings}, timeout=600, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            said = "no answer in ten minutes"
            break
        if done.returncode == 0:
            return True
        said = done.stdout.strip()[-200:].replace("\n", " ")
    tap.skip(name, "its registry cannot be reached: " + said)
    return False


def fetch_go(name):
    return fetch(name, "go", "build", "-mod=readonly", "-o", os.path.join(LIBRARIES, name), ".", cwd=os.path.join(CLIENTS, name),
                 GOPATH=os.path.join(LIBRARIES, "go"), GOCACHE=os.path.join(LIBRARIES, "go-build"), GOFLAGS="-buildvcs=false -modcacherw",
                 GOTOOLCHAIN="local", CGO_ENABLED="0")


def fetch_procrastinate():
    return fetch("procrastinate", "/usr/bin/python3", "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "--upgrade",
                 "--only-binary", ":all:", "--target", os.path.join(LIBRARIES, "python"), "-r", "procrastinate.txt")


GUE = [os.path.join(LIBRARIES, "gue")]
RIVER = [os.path.join(LIBRARIES, "river")]
PROCRASTINATE = ["/usr/bin/python3", os.path.join(CLIENTS, "procrastinate_app.py")]

# as in gue's migrations/schema.sql
GUE_SCHEMA = """
CREATE TABLE gue_jobs (
    job_id      TEXT        NOT NULL PRIMARY KEY,
    priority    SMALLINT    NOT NULL,
    run_at      TIMESTAMPTZ NOT NULL,
    job_type    TEXT        NOT NULL,
    args        BYTEA       NOT NULL,
    error_count INTEGER     NOT NULL DEFAULT 0,
    last_error  TEXT,
    queue       TEXT        NOT NULL,
    created_at  TIMESTAMPTZ NOT NULL,
    updated_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX IF NOT EXISTS idx_gue_jobs_selector ON gue_jobs (queue, run_at, priority);
"""


# ---- how ----

class App:
    """A database of that name on both servers, with the same tables in Redis, and its workers."""

    def __init__(self, name, command, cluster, servers):
        self.name, self.command, self.servers, self.workers = name, command, servers, []
        for s in servers:
            self.sql(s, f"CREATE DATABASE {name}", "postgres")
            self.sql(s, "CREATE EXTENSION mosql_fdw")
            self.sql(s, f"ALTER DATABASE {name} SET mosql_fdw.locking = 'pessimistic'")
            self.sql(s, f"""CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw
                            OPTIONS (nodes '{cluster.nodes}', namespace '{name}')""")
        self.sql(servers[0], "SELECT mosql_fdw_enable('redis')")
        self.sql(servers[0], "CREATE TABLE ran (id bigserial PRIMARY KEY, key int, who int)")

    def env(self, server):
        return {**os.environ, "PGHOST": server.args["host"], "PGPORT": server.args["port"], "PGUSER": "postgres",
                "PGDATABASE": self.name, "PYTHONPATH": os.path.join(LIBRARIES, "python")}

    def sql(self, server, text, dbname=None):
        with contextlib.closing(server.connect(dbname or self.name)) as conn:
            return query(conn, text)

    def say(self, server, *args):
        """Run the program to its end."""
        done = subprocess.run([*self.command, *map(str, args)], env=self.env(server), timeout=600, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise RuntimeError(done.stdout)

    def copy_schema(self):
        """What the first server has, to the second: by pg_dump and psql, as anybody would."""
        one, two = map(self.env, self.servers)
        dump = subprocess.run(["pg_dump", "--schema-only"], env=one, timeout=600, text=True, check=True, capture_output=True).stdout
        said = subprocess.run(["psql", "-qX"], input=dump, env=two, timeout=600, text=True, capture_output=True).stderr
        tap.equal(re.findall("ERROR: +(.*)", said), ['server "redis" already exists'], f"{self.name}: its schema goes to the second server")

    def start(self, which, *args):
        self.workers.append(subprocess.Popen([*self.command, "work", *map(str, args)], env=self.env(self.servers[which]),
                                             text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        stop_at_end(self.Killer(self.workers[-1]))

    class Killer:
        def __init__(self, process):
            self.stop = process.kill

    def ran(self):
        return self.sql(self.servers[0], "SELECT count(*), count(DISTINCT key), count(DISTINCT who) FROM ran")[0]

    def check(self, left):
        """Each job has run once, on both servers the same can be seen, nothing is broken."""
        tap.equal(self.ran()[:2], (JOBS, JOBS), f"{self.name}: each of {JOBS} jobs ran once")
        tap.ok(self.ran()[2] >= 4, f"{self.name}: all took part", self.ran())
        for i, s in enumerate(self.servers):
            tap.equal(self.sql(s, left), [(0,)], f"{self.name}: none is left, seen from server {i + 1}")
        tap.equal(self.sql(self.servers[0], """SELECT t.ftrelid::regclass::text, c.* FROM pg_foreign_table t,
                           mosql_fdw_check(t.ftrelid) c WHERE severity = 'broken'"""), [], f"{self.name}: the trees are sound")


def gue(cluster, servers):
    """A worker that is killed holds a job: another one gets it."""
    if not fetch_go("gue"):
        return
    app = App("gue", GUE, cluster, servers)
    app.sql(servers[0], GUE_SCHEMA)
    app.copy_schema()
    app.say(servers[0], "enqueue", 1, JOBS // 2)
    app.say(servers[1], "enqueue", JOBS // 2 + 1, JOBS)
    for i in range(4):
        app.start(i % 2, WORKERS)
    wait_until(lambda: app.ran()[2] == 4 and app.ran()[0] > JOBS // 8, 120)
    for victim in app.workers[:2]:
        victim.send_signal(signal.SIGKILL)
        app.start(0, WORKERS)
    wait_until(lambda: app.ran()[0] >= JOBS, 300)
    began = []
    for worker in app.workers:
        worker.send_signal(signal.SIGTERM)
        said = worker.communicate(timeout=120)[0]
        began += re.findall("^began (.*)", said, re.M)
        tap.ok(worker.returncode == 0 or worker in app.workers[:2], "gue: a worker ends in order", said[-1000:])
    again = len(began) - JOBS - sum(key % 7 == 3 for key in range(1, JOBS + 1))
    tap.ok(0 <= again <= 2 * WORKERS, "gue: none begins twice but those that fail, and those of the killed", f"{again} more")
    app.check("SELECT count(*) FROM gue_jobs")


def finish(app):
    """All jobs have run: their workers end."""
    wait_until(lambda: app.ran()[0] >= JOBS, 60)
    for worker in app.workers:
        worker.send_signal(signal.SIGTERM)
        said = worker.communicate(timeout=30)[0]
        tap.ok(worker.returncode == 0 and "Traceback" not in said, f"{app.name}: a worker ends in order, without an error", said[-1000:])


def river(cluster, servers):
    if not fetch_go("river"):
        return
    app = App("river", RIVER, cluster, servers)
    app.say(servers[0], "schema")
    app.copy_schema()
    app.say(servers[0], "enqueue", 1, JOBS // 2, 0)
    app.say(servers[1], "enqueue", JOBS // 2 - 9, JOBS, 10)
    for i in range(4):
        app.start(i % 2, WORKERS)
    finish(app)
    app.check("SELECT count(*) FROM river_job WHERE state <> 'completed'")


def procrastinate(cluster, servers):
    if not fetch_procrastinate():
        return
    app = App("procrastinate", PROCRASTINATE, cluster, servers)
    app.say(servers[0], "schema")
    app.copy_schema()
    app.say(servers[0], "defer", 1, JOBS // 2)
    for i in range(4):
        app.start(i % 2, WORKERS)
    wait_until(lambda: app.ran()[2] == 4 or app.ran()[0] == JOBS // 2, 120)
    first = JOBS // 2 + 1
    while app.ran()[2] < 4 and first + 4 < JOBS:       # one that is slow to start shall get some, too
        time.sleep(1)
        app.say(servers[1], "defer", first, first + 3)
        first += 4
    app.say(servers[1], "defer", first, JOBS)
    wait_until(lambda: app.ran()[0] >= JOBS, 300)
    for worker in app.workers:
        worker.send_signal(signal.SIGTERM)
        said = worker.communicate(timeout=120)[0]
        tap.ok(worker.returncode == 0 and "Traceback" not in said, "procrastinate: a worker ends in order, without an error", said[-1000:])
    app.check("SELECT count(*) FROM procrastinate_jobs WHERE status <> 'succeeded'")


def body():
    os.makedirs(LIBRARIES, exist_ok=True)
    cluster = Cluster("queues")
    servers = [Server("queues1"), Server("queues2")]
    for part in gue, river, procrastinate:
        if part.__name__ in sys.argv[1:] or not sys.argv[1:]:
            with section(part.__name__):
                part(cluster, servers)
    for server in servers:
        tap.equal(server.crashes(), [], "no backend died")


main(body)
