"""What the fault tests (t/) and the workloads (test/workloads/) share.

TAP output; private PostgreSQL servers and Redis nodes through script/server and
script/cluster; a small Redis client; threads of clients that retry and record.

Everything that is started here is stopped when the program ends, however it
ends.  Settings (environment): MOSQL_TEST_PREFIX, prefix of the servers' names;
MOSQL_TEST_BUILD, release or assert; MOSQL_TEST_KEEP, leave servers running.
"""
import atexit
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
try:
    import psycopg2
except ModuleNotFoundError:     # a program that runs by itself, before script/test has
    subprocess.run(["bash", "-c", 'source "$0/script/lib.sh"; need_packages python3-psycopg2 procps', TOP], check=True)
    import psycopg2
import psycopg2.extensions

PREFIX = os.environ.get("MOSQL_TEST_PREFIX", "tap-")
BUILD = os.environ.get("MOSQL_TEST_BUILD", "release")
READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE = (
    "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
LEVELS = (READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE)
ENGINES = ("script", "watch")

# The last debug point before a commit in one step, whose next message is what decides.
AT_ONCE = {"script": "before-one-step", "watch": "one-step-read"}

# Seconds that a test waits for what must come by itself, mostly within milliseconds, and at most
# within a few looks of a waiter or a keeper, each a second: so long that no machine is too slow
# for it, and shorter than what is left of a lease (60 s, extended in its last half), so that what
# comes only because a lease is over is a fault.
LONG_WAIT = 25


# ---- TAP ----

class Tap:
    """Counts and prints; safe to use from several threads."""

    def __init__(self):
        self.n = self.bad = 0
        self.lock = threading.Lock()

    def ok(self, good, name, why=None):
        with self.lock:
            self.n += 1
            self.bad += not good
            print(f"{'ok' if good else 'not ok'} {self.n} - {name}", flush=True)
            if not good and why not in (None, ""):
                self._note(why)
        return bool(good)

    def equal(self, got, wanted, name):
        return self.ok(got == wanted, name, f"got {got!r}\nwanted {wanted!r}")

    def skip(self, name, why):
        with self.lock:
            self.n += 1
            print(f"ok {self.n} - {name} # SKIP {why}", flush=True)

    def note(self, text):
        with self.lock:
            self._note(text)

    def _note(self, text):
        lines = str(text).splitlines()
        for line in lines[:30]:
            print(f"# {line[:400]}", flush=True)
        if len(lines) > 30:
            print(f"# ... and {len(lines) - 30} lines more", flush=True)


tap = Tap()


def main(body):
    """Run a test program's body; its exit code."""
    rc = 1
    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda *_: sys.exit(143))
    started = time.monotonic()
    try:
        body()
        print(f"1..{tap.n}", flush=True)
        rc = 1 if tap.bad else 0
    except SystemExit as e:
        rc = e.code
    except BaseException:       # whatever it was: the tests end here
        tap.ok(False, "the test runs to its end", traceback.format_exc())
    finally:
        tap.note(f"{time.monotonic() - started:.1f} s")
        stop_everything()
    sys.stdout.flush()
    os._exit(rc if isinstance(rc, int) else 1)      # threads may hang, servers do not


@contextlib.contextmanager
def section(name):
    """A part of a test whose failure does not end the others."""
    tap.note(f"---- {name}")
    started = time.monotonic()
    try:
        yield
    except Exception:
        tap.ok(False, f"{name}: runs to its end", traceback.format_exc())
    tap.note(f"{name}: {time.monotonic() - started:.1f} s")


# ---- processes ----

_running = []


def stop_at_end(thing):
    """Its stop() is called when the program ends; the last come first."""
    _running.append(thing)


def stop_everything():
    if os.environ.get("MOSQL_TEST_KEEP"):
        return
    while _running:
        try:
            _running.pop().stop()
        except Exception as e:
            tap.note(f"could not stop: {e}")


atexit.register(stop_everything)


def run(*command, timeout=600, check=True, netns=None):
    if netns:
        command = ("ip", "netns", "exec", netns) + command
    env = {k: v for k, v in os.environ.items() if not k.startswith("PG") or
           k in ("PG_CONFIG", "PG_VERSION")}
    done = subprocess.run(command, cwd=TOP, env=env, timeout=timeout, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def wait_until(what, seconds=LONG_WAIT, pause=0.02):
    """Poll until what() is true; its value, or the last false one."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value or time.monotonic() > end:
            return value
        time.sleep(pause)


# ---- Redis ----

class RedisError(Exception):
    pass


HOSTS = {}      # port -> address of the nodes that are not at 127.0.0.1


class Redis:
    """One connection to one node.  Replies: str-like bytes, int, list, None."""

    def __init__(self, port, timeout=60, password=None):
        self.port = port
        self.sock = socket.create_connection((HOSTS.get(port, "127.0.0.1"), port), timeout=timeout)
        self.file = self.sock.makefile("rb")
        if password:
            self("AUTH", password)

    def __call__(self, *args):
        parts = [a if isinstance(a, bytes) else str(a).encode() for a in args]
        self.sock.sendall(b"*%d\r\n" % len(parts) +
                          b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if not line:
            raise ConnectionError("closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RedisError(rest.decode(errors="replace"))
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        n = int(rest)
        if n < 0:
            return None
        if kind == b"*":
            return [self.reply() for _ in range(n)]
        data = self.file.read(n + 2)
        return data[:-2]

    def close(self):
        self.file.close()
        self.sock.close()


class Cluster:
    """Nodes of script/cluster.  places: the network namespaces they live in."""

    def __init__(self, name, primaries=3, replicas=0, plain=False, settings=(), places=()):
        self.name = PREFIX + name
        self.plain = plain
        self.pids = {}                  # port -> pid, of those that were asked for
        run("script/cluster", "stop", "--name", self.name)
        args = ["--plain"] if plain else ["--primaries", str(primaries), "--replicas", str(replicas)]
        self.settings = [a for s in settings for a in ("--set", s)]
        args += self.settings + [a for p in places for a in ("--in", p)]
        _running.append(self)
        self.nodes = run("script/cluster", "start", "--name", self.name, *args).split()[-1]
        self.ports = [self._note(n) for n in self.nodes.split(",")]
        self.primaries = self.ports[:1 if plain else primaries]

    @staticmethod
    def _note(node):
        host, port = node.split(":")
        HOSTS[int(port)] = host
        return int(port)

    def add(self, place=None):
        """One more primary, which has no slots yet; its port."""
        port = self._note(run("script/cluster", "add", "--name", self.name, *self.settings,
                              *(["--in", place] if place else [])).split()[-1])
        self.ports.append(port)
        return port

    def remove(self, port):
        run("script/cluster", "remove", "--name", self.name, str(port))
        self.ports.remove(port)

    def stop(self):
        for port in self.ports:         # a stopped process does not mind, but be kind
            with contextlib.suppress(OSError, ValueError, AttributeError):
                os.kill(self.pid(port), signal.SIGCONT)
        run("script/cluster", "stop", "--name", self.name)

    def kill(self, port):
        run("script/cluster", "kill", "--name", self.name, str(port))

    def restart(self, port):
        run("script/cluster", "restart", "--name", self.name, str(port))
        self.pids.pop(port, None)       # another process now

    def redis(self, port, **kw):
        return Redis(port, **kw)

    def ask(self, port, *args):
        r = Redis(port)
        try:
            return r(*args)
        finally:
            r.close()

    def socket(self):
        """The path of the first node's socket, if it was started with "unixsocket socket"."""
        return os.path.join(self.ask(self.ports[0], "CONFIG", "GET", "dir")[1].decode(), "socket")

    def pid(self, port):
        if port not in self.pids:
            info = self.ask(port, "INFO", "server").decode()
            self.pids[port] = int(re.search(r"process_id:(\d+)", info)[1])
        return self.pids[port]

    def remember_pids(self):
        for port in self.ports:
            self.pid(port)

    def signal(self, port, sig):
        os.kill(self.pid(port), sig)

    def map(self):
        """slot -> port of its primary."""
        owner = {}
        for low, high, primary, *_ in self.ask(self.ports[0], "CLUSTER", "SLOTS"):
            for slot in range(low, high + 1):
                owner[slot] = primary[1]
        return owner

    def owner(self, key):
        """Port of the primary that has this key."""
        if self.plain:
            return self.ports[0]
        slot = self.ask(self.ports[0], "CLUSTER", "KEYSLOT", key)
        return self.map()[slot]

    def on(self, key, *args):
        """Run a command where the key is."""
        return self.ask(self.owner(key), *args)

    def clock_port(self, ns):
        return self.owner("%s:{%s.clock}:c" % (ns, ns))

    def everywhere(self, *args):
        return [self.ask(p, *args) for p in self.primaries]


class Proxy:
    """Stands before a plain Redis and, when armed, spoils one exchange: the
    next one that changes the clock of a namespace.

        reply    Redis executes it, the answer is lost
        request  it never arrives
        late     it arrives after the connection broke, when release() is called
    """

    def __init__(self, port):
        self.upstream = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.nodes = f"127.0.0.1:{self.port}"
        self.armed = None
        self.spoiled = threading.Event()
        self.held = []
        self.answers = []
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, how):
        self.spoiled.clear()
        self.armed = how

    def release(self):
        """Deliver what came too late; the answers."""
        self.answers = []
        for server, data in self.held:
            server.sendall(data)
            wait_until(lambda: self.answers)
        for server, _ in self.held:
            server.shutdown(socket.SHUT_RDWR)
        self.held = []
        return self.answers

    def stop(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.upstream))
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            muted = threading.Event()
            threading.Thread(target=self._replies, args=(server, client, muted), daemon=True).start()
            threading.Thread(target=self._requests, args=(client, server, muted), daemon=True).start()

    def _replies(self, server, client, muted):
        try:
            while True:
                data = server.recv(65536)
                if not data:
                    break
                if muted.is_set():
                    self.answers.append(data)
                else:
                    client.sendall(data)
        except OSError:
            pass
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _command(file):
        """One request: its bytes and its words."""
        line = file.readline()
        if not line.startswith(b"*"):
            return None, None
        raw, words = [line], []
        for _ in range(int(line[1:])):
            head = file.readline()
            body = file.read(int(head[1:]) + 2)
            raw += [head, body]
            words.append(body[:-2])
        return b"".join(raw), words

    def _requests(self, client, server, muted):
        file = client.makefile("rb")
        in_multi = touches = False
        held = b""
        try:
            while True:
                raw, words = self._command(file)
                if raw is None:
                    break
                name = words[0].upper()
                clock = any(b".clock}:" in w for w in words[1:])
                if name == b"MULTI":
                    in_multi, touches = True, False
                if in_multi:
                    touches |= clock
                changes = name in (b"EVAL", b"EVALSHA") and clock or name == b"EXEC" and touches
                if name == b"EXEC":
                    in_multi = False
                if not (self.armed and changes):
                    server.sendall(raw)
                    continue
                how, self.armed = self.armed, None
                muted.set()
                if how == "reply":
                    server.sendall(raw)
                    time.sleep(0.05)
                elif how == "late":
                    self.held.append((server, raw))
                client.shutdown(socket.SHUT_RDWR)
                self.spoiled.set()
                if how == "late":
                    return
                break
        except (OSError, ValueError):
            pass
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


# ---- PostgreSQL ----

def waits_inside(probe, conn, event="."):
    """Is its backend at work, and waits for something: a lock (event 'Lock'), Redis ('Extension'), anything?"""
    return value(probe, "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND state = 'active' "
                        "AND wait_event_type ~ %s AND wait_event_type <> 'Client'", (conn.info.backend_pid, event))


class Server:
    """A PostgreSQL of script/server, perhaps in a network namespace; tcp: also at 127.0.0.1; checkout: by that one, of
    the PostgreSQL that it finds."""

    def __init__(self, name, settings=(), netns=None, tcp=False, checkout=None):
        self.name, self.netns = PREFIX + name, netns
        self.script = ["script/server"] if checkout is None else \
            ["env", "-C", checkout, "-u", "PG_CONFIG", "-u", "PG_VERSION", "-u", "LD_LIBRARY_PATH", "script/server"]
        run(*self.script, "stop", "--name", self.name, "immediate")
        args = []
        for s in settings:
            args += ["-c", s]
        _running.append(self)
        run(*self.script, "start", "--name", self.name, "--build", BUILD,
            "-c", "log_min_messages=warning", *(["--tcp"] if tcp else []), *args, timeout=600, netns=netns)
        env = run(*self.script, "env", "--name", self.name)
        self.args = dict(host=re.search(r"PGHOST=(\S+)", env)[1],
                         port=re.search(r"PGPORT=(\S+)", env)[1], user="postgres")
        self.home = os.path.dirname(self.args["host"])
        self.witness = None         # of the next crash

    def stop(self, how="immediate"):
        run(*self.script, "stop", "--name", self.name, how)

    def restart(self, how="immediate"):
        """Stop it, if it runs, and start it again with the same data."""
        run(*self.script, "restart", "--name", self.name, how, netns=self.netns)

    def postmaster(self):
        with open(os.path.join(self.home, "data", "postmaster.pid")) as f:
            return int(f.readline())

    def connect(self, dbname="postgres", autocommit=True, level=None, options=None, **settings):
        settings = dict(settings)
        if "mosql_fdw.debug_crash_at" in settings:
            self.witness = self.connect()
        text = " ".join(f"-c {k}={v}" for k, v in settings.items())
        if options:
            text += " " + options
        conn = psycopg2.connect(dbname=dbname, options=text, application_name="mosql test",
                                connect_timeout=60, **self.args)
        conn.autocommit = autocommit
        if level:
            conn.set_session(isolation_level=level)
        return conn

    def wait_up(self, seconds=90):
        """After a backend was killed the server restarts: wait for that.  Who hears of the end of a
        backend may be faster than the postmaster: a connection from before is to be gone."""
        if self.witness:
            wait_until(lambda: attempt(self.witness, "SELECT 1")[1] is not None)
            self.witness.close()
            self.witness = None

        def up():
            try:
                self.connect().close()
                return True
            except psycopg2.OperationalError:
                return False
        return wait_until(up, seconds, 0.05)

    def log(self):
        run_dir = os.path.join(TOP, "tmp")
        for path in (os.path.join(run_dir, "pg-" + self.name, "log"),
                     os.path.join(run_dir, "run", "pg-" + self.name, "log")):
            if os.path.exists(path):
                with open(path, errors="replace") as f:
                    return f.read()
        return ""

    def crashes(self):
        """Backends that died of a signal that nobody sent: a bug."""
        return re.findall(r"terminated by signal (?:6|7|8|11)\b.*|TRAP:.*|PANIC:.*", self.log())


def query(conn, sql, args=None):
    """All rows, or None."""
    with conn.cursor() as c:
        c.execute(sql, args)
        return c.fetchall() if c.description else None


def value(conn, sql, args=None):
    return query(conn, sql, args)[0][0]


def attempt(conn, sql, args=None):
    """(rows, None) or (None, SQLSTATE); 'gone' if the connection died."""
    try:
        return query(conn, sql, args), None
    except psycopg2.Error as e:
        return None, state_of(conn, e)


def state_of(conn, e):
    if e.pgcode:
        return e.pgcode
    lost = conn is None or conn.closed or "server closed the connection" in str(e)
    return "gone" if lost else "?" + str(e)


def error_of(conn, sql, args=None):
    """(SQLSTATE, message with detail) of a statement; (None, rows) if it works."""
    try:
        return None, query(conn, sql, args)
    except psycopg2.Error as e:
        text = str(e)
        return state_of(conn, e), text


def make_database(server, name, nodes, options=None, ddl="", mapping=None, locale=None, encoding=None):
    """A database with the extension, server "redis", and tables; locale, encoding: not the server's."""
    with contextlib.closing(server.connect()) as c:
        query(c, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        if encoding:
            locale = "C"
        query(c, f"CREATE DATABASE {name}" + (f" TEMPLATE template0 LOCALE '{locale}'" if locale else "") +
              (f" ENCODING '{encoding}'" if encoding else ""))
    with contextlib.closing(server.connect(name)) as c:
        opts = {"nodes": nodes, "namespace": name}
        opts.update(options or {})
        query(c, "CREATE EXTENSION mosql_fdw")
        query(c, "CREATE SERVER redis FOREIGN DATA WRAPPER mosql_fdw OPTIONS (" +
              ", ".join(f"{k} '{v}'" for k, v in opts.items()) + ")")
        if mapping:
            query(c, "CREATE USER MAPPING FOR PUBLIC SERVER redis OPTIONS (" +
                  ", ".join(f"{k} '{v}'" for k, v in mapping.items()) + ")")
        if ddl:
            query(c, ddl)


def findings(conn, table):
    """What mosql_fdw_check() says: (broken, unfinished)."""
    rows = query(conn, "SELECT severity, node, finding FROM mosql_fdw_check(%s)", (table,))
    return ([r for r in rows if r[0] == "broken"], [r for r in rows if r[0] != "broken"])


# Debug points that only one operation reaches; all others are those of transactions.
OPERATIONS = {"maintenance": "(maintain|vacuum|merge|sweep|stray)-", "build": "build-", "first use": "first-",
              "several namespaces": "decided-", "row locks": "lock-", "dropped trees": "garbage-",
              "reads without a snapshot": "draw-"}


def debug_points(operation=None):
    """Those of the sources, in their order: of an operation, or of transactions."""
    names = []
    for root, _, files in os.walk(os.path.join(TOP, "src")):
        for f in sorted(files):
            if f.endswith(".c"):
                with open(os.path.join(root, f)) as source:
                    names += re.findall(r'MOSQL_DEBUG_POINT\("([^"]+)"\)', source.read())

    def operation_of(name):
        return next((o for o, pattern in OPERATIONS.items() if re.match(pattern, name)), None)

    return [n for n in dict.fromkeys(names) if operation_of(n) == operation]


# ---- clients under load ----

# Serialization failures are part of the bargain; so is an unknown outcome when
# the clock's node disappears in the middle of decide.
CONFLICT = "40001"
DEADLOCK = "40P01"
CONFLICTS = f"{CONFLICT}|{DEADLOCK}"        # who locks may meet a deadlock
SLOW = 0.5


class Repeater(threading.Thread):
    """Calls turn() over and over, until told to stop, and rests while the gate is shut.
    An exception from it is a bug of the test and is kept in .crash; in the end close()."""

    def __init__(self):
        super().__init__(daemon=True)
        self.done = 0
        self.errors = {}        # SQLSTATE -> how often
        self.messages = {}      # SQLSTATE -> the first message
        self.slowest = 0.0
        self.last_done = 0.0
        self.crash = None
        self.halt = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.idle = threading.Event()

    def turn(self):
        raise NotImplementedError

    def close(self):
        """Close what it has open."""

    def note(self, state, message):
        self.errors[state] = self.errors.get(state, 0) + 1
        self.messages.setdefault(state, message)

    def run(self):
        try:
            while not self.halt.is_set():
                if not self.gate.is_set():
                    self.idle.set()
                    self.gate.wait(0.05)
                    continue
                self.turn()
        except Exception:
            self.crash = traceback.format_exc()
        finally:
            self.idle.set()
            self.close()


class Client(Repeater):
    """Calls work(conn, rng) over and over.

    work returns normally for a commit.  A psycopg2 error is counted by its
    SQLSTATE; the session is reconnected if it died."""

    def __init__(self, server, dbname, work, seed, level=None, pause=0, **settings):
        super().__init__()
        self.server, self.dbname, self.work = server, dbname, work
        self.level, self.settings, self.pause = level, settings, pause
        self.rng = random.Random(seed)
        self.slow = []          # calls of more than SLOW seconds: (begin, seconds, SQLSTATE or None)
        self.conn = None

    def turn(self):
        started, state = time.monotonic(), None
        try:
            if self.conn is None or self.conn.closed:
                self.conn = self.server.connect(self.dbname, False, self.level, **self.settings)
            self.work(self.conn, self.rng)
            self.done += 1
            self.last_done = time.monotonic()
        except psycopg2.Error as e:
            state = state_of(self.conn, e)
            self.note(state, str(e))
            if self.conn is not None and not self.conn.closed:
                try:
                    self.conn.rollback()
                except psycopg2.Error:
                    self.conn.close()
        took = time.monotonic() - started
        self.slowest = max(self.slowest, took)
        if took > SLOW:
            self.slow.append((started, took, state))
        if state not in (None, CONFLICT, DEADLOCK):
            time.sleep(0.05)
        if self.pause:
            time.sleep(self.pause)

    def close(self):
        if self.conn is not None and not self.conn.closed:
            self.conn.close()


class Clients:
    """A crowd of them, over several servers."""

    def __init__(self):
        self.all = []

    def add(self, client):
        self.all.append(client)
        client.start()
        return client

    def hold(self, seconds=60):
        """Let everybody finish what they do, and wait."""
        for c in self.all:
            c.idle.clear()
            c.gate.clear()
        return all(c.idle.wait(seconds) for c in self.all)

    def go(self):
        for c in self.all:
            c.idle.clear()
            c.gate.set()

    def stop(self, seconds=60):
        for c in self.all:
            c.halt.set()
            c.gate.set()
        for c in self.all:
            c.join(seconds)
        return not any(c.is_alive() for c in self.all)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def done(self):
        return sum(c.done for c in self.all)

    def errors(self):
        total = {}
        for c in self.all:
            for k, v in c.errors.items():
                total[k] = total.get(k, 0) + v
        return total

    def unexpected(self, allowed):
        """Messages of errors whose SQLSTATE no pattern allows, and crashes."""
        out = []
        for c in self.all:
            out += [f"{k}: {m}" for k, m in c.messages.items()
                    if not re.fullmatch(allowed, k)]
            if c.crash:
                out.append(c.crash)
        return "\n".join(out)

    def everybody_went_on(self, since, seconds):
        """Did each client commit something after `since`, within `seconds`?"""
        return wait_until(lambda: all(c.last_done > since for c in self.all), seconds)
