#!/usr/bin/python3
"""A Redis that lies: now and then a part of a reply is something else: nothing, a number beyond all bounds, bytes of a
row that are cut or changed, an error that nobody made, more or fewer elements.  Statements end in errors, or do what
they can; no backend ends, and none goes on for ever, with either engine.  When the lies are over all works that is not
damaged by then: what was read as a lie may have been written as truth.

    t/liar.py [SEED [SECONDS]]
"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

LIES = 0.02                     # of replies
LIMIT = 60.0                    # seconds that a statement may take, mostly 3 at most: a loop has no end
INTEGERS = [0, -1, 1, 3, 2 ** 31, 2 ** 63 - 1, -2 ** 63]
ERRORS = [b"ERR x", b"WRONGTYPE x", b"OOM x", b"MOVED 1 127.0.0.1:1", b"TRYAGAIN x", b"READONLY x", b"NOPERM x",
          b"UNBLOCKED x", b"EXECABORT x", b"BUSY x", b"NOSCRIPT x", b"\xff\xfe"]
DDL = """
CREATE FOREIGN TABLE a (id int PRIMARY KEY, t text, n int) SERVER redis;
CREATE INDEX ON a (n);
CREATE FOREIGN TABLE c (id int PRIMARY KEY, t text) SERVER redis;
INSERT INTO a SELECT g, 't' || g, g FROM generate_series(1, 200) g;
"""
STATEMENTS = [
    "SELECT count(*), sum(n) FROM a",
    "INSERT INTO a SELECT g, 'v' || g, g FROM generate_series({r} * 1000, {r} * 1000 + 30) g ON CONFLICT DO NOTHING",
    "BEGIN; UPDATE a SET n = n + 1 WHERE id = 1; SELECT * FROM a WHERE id IN (1, 2, 3) FOR UPDATE; DELETE FROM a WHERE id = {r} * 1000 + 7; COMMIT",
    "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(n) FROM a; UPDATE a SET t = 'x' || id WHERE id BETWEEN 5 AND 12; COMMIT",
    "SELECT * FROM a WHERE n BETWEEN 10 AND 20",
    "TRUNCATE c",
    "INSERT INTO c SELECT g, repeat('z', 3000) FROM generate_series(1, 40) g ON CONFLICT DO NOTHING",
    "DELETE FROM c WHERE id % 2 = 0",
    "BEGIN; LOCK TABLE c; SELECT count(*) FROM c; ROLLBACK",
    "SELECT mosql_fdw_advisory_lock('redis', 5), mosql_fdw_advisory_unlock('redis', 5)",
    "SELECT count(*) FROM mosql_fdw_check('a')",
    "SELECT count(*) FROM mosql_fdw_gc('redis')",
    "SELECT count(*) FROM mosql_fdw_maintain('redis')",
    "SELECT count(*) FROM mosql_fdw_sessions('redis')",
    "SELECT count(*) FROM mosql_fdw_locks",
    "SELECT count(*) FROM mosql_fdw_progress",
    "SELECT mosql_fdw_transaction_status('redis', '1.1')",
    "ANALYZE a",
]


class Liar(Proxy):
    """Stands before a plain Redis; lies while `rng` is set."""
    rng = None

    def _replies(self, server, client, muted):
        file = server.makefile("rb")
        with contextlib.suppress(OSError, ValueError):
            while True:
                reply = self._read(file)
                rng = self.rng
                if rng and rng.random() < LIES:
                    reply = self._spoil(reply, rng.choice(list(self._places(reply))))
                client.sendall(self._bytes(reply))
        for end in client, server:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _read(self, file):
        """(kind, bytes, list of replies, or None)."""
        line = file.readline()
        kind, rest = line[:1], line[1:-2]
        if not line or kind in b"+-:":
            if not line:
                raise ValueError("the end")
            return kind, rest
        n = int(rest)
        if n < 0:
            return kind, None
        return kind, file.read(n + 2)[:-2] if kind == b"$" else [self._read(file) for _ in range(n)]

    def _bytes(self, reply):
        kind, value = reply
        if value is None:
            return kind + b"-1\r\n"
        if kind in b"+-:":
            return kind + value + b"\r\n"
        body = value + b"\r\n" if kind == b"$" else b"".join(map(self._bytes, value))
        return kind + str(len(value)).encode() + b"\r\n" + body

    def _places(self, reply, at=()):
        yield at
        if reply[0] == b"*":
            for i, element in enumerate((reply[1] or [])[:200]):
                yield from self._places(element, at + (i,))

    def _spoil(self, reply, at):
        if not at:
            return self._lie(reply)
        elements = list(reply[1])
        elements[at[0]] = self._spoil(elements[at[0]], at[1:])
        return reply[0], elements

    def _lie(self, reply):
        kind, value = reply
        rng = self.rng or random
        lies = [(b"$", None), (b"*", None), (b"*", []), (b"*", [reply, reply]), (b"$", b""), (b"+", b"OK"),
                (b":", str(rng.choice(INTEGERS)).encode()), (b"$", rng.randbytes(rng.choice([1, 7, 8, 16, 22, 100]))),
                (b"-", rng.choice(ERRORS))]
        if value and kind == b"*":
            lies += [(kind, value[:-1]), (kind, value + value[-1:])]
        elif value and kind == b"$":
            i = rng.randrange(len(value))
            lies += [(kind, value[:i]), (kind, value + value[i:]), (kind, value[:i] + rng.randbytes(1) + value[i + 1:])]
        return rng.choice(lies)


class Believer(Repeater):
    """Says statements, one after the other, whatever becomes of them."""

    def __init__(self, server, db, seed):
        super().__init__()
        self.server, self.db, self.rng, self.conn, self.worst = server, db, random.Random(seed), None, ""

    def turn(self):
        sql = self.rng.choice(STATEMENTS).format(r=self.rng.randint(1, 50))
        started = time.monotonic()
        try:
            if self.conn is None or self.conn.closed:
                # a lock that Redis says is given back, and is not, is waited for
                self.conn = self.server.connect(self.db, **{"mosql_fdw.commit_timeout": "2s", "lock_timeout": "10s"})
            query(self.conn, sql)
        except psycopg2.Error as e:
            self.note(state_of(self.conn, e), str(e))
            if self.conn is not None:
                attempt(self.conn, "ROLLBACK")
        self.done += 1
        if time.monotonic() - started > self.slowest:
            self.slowest, self.worst = time.monotonic() - started, sql

    def close(self):
        if self.conn is not None:
            self.conn.close()


def lies(server, liar, engine, seed, seconds):
    db = "liar_" + engine
    liar.rng = None
    make_database(server, db, liar.nodes, {"atomic": engine, "command_timeout": 2000, "connect_timeout": 1000}, DDL)
    believers = [Believer(server, db, seed + i) for i in range(3)]
    liar.rng = random.Random(seed)
    for b in believers:
        b.start()
    time.sleep(seconds)
    liar.rng = None
    for b in believers:
        b.halt.set()
    for b in believers:
        b.join(LIMIT)
    tap.equal([b.worst for b in believers if b.is_alive() or b.slowest > LIMIT], [], f"{engine}: no statement goes on for ever")
    tap.equal([b.crash for b in believers if b.crash], [], f"{engine}: the test itself is well")
    tap.equal(server.crashes(), [], f"{engine}: no backend ends")
    tap.ok(all(b.done > sum(b.errors.values()) for b in believers), f"{engine}: statements were made",
           [(b.done, b.errors) for b in believers])
    tap.note(f"{engine}: {sum(b.done for b in believers)} statements, slowest {max(b.slowest for b in believers):.1f} s")
    server.wait_up()
    db += "_after"              # what lies were believed of in the other one, nobody knows
    make_database(server, db, liar.nodes, {"atomic": engine})
    with contextlib.closing(server.connect(db)) as conn:
        query(conn, "CREATE FOREIGN TABLE after (id int PRIMARY KEY) SERVER redis; INSERT INTO after VALUES (1)")
        tap.equal(value(conn, "SELECT count(*) FROM after"), 1, f"{engine}: afterwards all goes on")


def body():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 20
    cluster = Cluster("liar", plain=True)
    liar = Liar(int(cluster.nodes.split(":")[1]))
    server = Server("liar")
    for engine in ("script", "watch"):
        lies(server, liar, engine, seed, seconds)
    liar.stop()


main(body)
