#!/usr/bin/python3
"""The extended protocol, and pipelines: the server says message by message what it says of
PostgreSQL's own tables, when an INSERT that might be the whole transaction (docs/commit.md) finds its key.

    t/extended.py"""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

TABLES = "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE); INSERT INTO t SELECT i, i FROM generate_series(1, 5) i"
SYNC = None
TAKEN, FREE = "INSERT INTO t VALUES (1, 100)", "INSERT INTO t VALUES (50, 50)"
STORIES = (         # statements; where there is SYNC, and at the end, the client waits for the answers
    ("a key that is taken", TAKEN),
    ("an entry that is taken", "INSERT INTO t VALUES (100, 2)"),
    ("two rows of one key", "INSERT INTO t VALUES (7, 7), (7, 8)"),
    ("a row that is refused", "INSERT INTO t VALUES (1, 100), (9, 1 / 0)"),
    ("a key that is free", FREE),
    ("with another statement behind it", TAKEN, "SELECT 1"),
    ("... that has an effect", TAKEN, "SELECT pg_notify('nobody', '')"),
    ("... that takes it back", TAKEN, "ROLLBACK"),
    ("... that commits it", TAKEN, "COMMIT", "SELECT 1"),
    ("... that empties the table", TAKEN, "TRUNCATE t"),
    ("... that drops it", TAKEN, "DROP TABLE t"),
    ("... that fails", FREE, "SELECT 1 / 0"),
    ("the second of two", FREE, TAKEN),
    ("the first of two", TAKEN, FREE),
    ("both free, one key", FREE, FREE),
    ("before BEGIN", TAKEN, "BEGIN", SYNC, "SAVEPOINT s", SYNC, "SELECT count(*) FROM t", SYNC, "ROLLBACK"),
    ("before BEGIN, and free", FREE, "BEGIN", SYNC, "SAVEPOINT s", SYNC, "SELECT count(*) FROM t", SYNC, "ROLLBACK TO s", SYNC, "COMMIT"),
)


class Wire:
    """A client that says of a pipeline's statements Parse, Bind and Execute, and Sync at its end."""

    def __init__(self, server, dbname, options):
        with contextlib.closing(server.connect(dbname)) as conn:
            host, port, user = conn.info.host, conn.info.port, conn.info.user
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LONG_WAIT)
        self.socket.connect(f"{host}/.s.PGSQL.{port}")
        self.file = self.socket.makefile("rb")
        words = {"user": user, "database": dbname, "options": options}
        self.send("", struct.pack("!i", 196608) + b"".join(f"{k}\0{v}\0".encode() for k, v in words.items()) + b"\0")
        self.told()

    def send(self, kind, body=b""):
        self.socket.sendall(kind.encode() + struct.pack("!i", len(body) + 4) + body)

    def statement(self, sql):
        return [("P", b"\0" + sql.encode() + b"\0\0\0"), ("B", b"\0\0\0\0\0\0\0\0"), ("E", b"\0\0\0\0\0")]

    def told(self):
        """What arrives, to ReadyForQuery: completions, errors and rows."""
        messages = []
        while not messages or messages[-1][0] != "Z":
            kind, size = struct.unpack("!ci", self.file.read(5))
            body = self.file.read(size - 4)
            if kind == b"E":
                body = [f[1:].decode() for f in body.split(b"\0") if f[:1] in (b"C", b"M", b"D", b"n")]
            if kind in b"CDEZ":
                messages.append((kind.decode(), body))
        return messages

    def pipeline(self, statements):
        """All in one send, as drivers do, so that Sync arrives with them."""
        messages = [m for sql in statements for m in self.statement(sql)] + [("S", b"")]
        self.socket.sendall(b"".join(k.encode() + struct.pack("!i", len(b) + 4) + b for k, b in messages))
        return self.told()

    def close(self):
        self.file.close()
        self.socket.close()


def pipelines(story):
    out = [[]]
    for sql in story:
        out[-1].append(sql) if sql is not SYNC else out.append([])
    return out


def tell(server, schema, story, **settings):
    """What is told, and what is there in the end, of a table that is new."""
    with contextlib.closing(server.connect("extended", search_path=schema, **settings)) as conn:
        query(conn, "LOAD 'mosql_fdw'")
        query(conn, "DROP TABLE IF EXISTS t")
        for sql in TABLES.split("; "):
            query(conn, sql)
        with contextlib.closing(Wire(server, "extended", f"-c search_path={schema}")) as wire:
            told = [wire.pipeline(p) for p in pipelines(story)]
        there = query(conn, "SELECT to_regclass('t') IS NOT NULL")
        return told, query(conn, "SELECT * FROM t ORDER BY id") if there == [(True,)] else None


def round_trips(server, statements):
    """Of them, each by itself."""
    with contextlib.closing(Wire(server, "extended", "-c search_path=ours")) as wire:
        wire.pipeline(["INSERT INTO t VALUES (1000, 1000)"])
        wire.pipeline(["SELECT mosql_fdw_stats_reset()"])
        for sql in statements:
            wire.pipeline([sql])
        told = wire.pipeline(["SELECT value FROM mosql_fdw_stats() WHERE name = 'round_trips'"])
        return int([body for kind, body in told if kind == "D"][0][6:])


def body():
    cluster = Cluster("extended", plain=True)
    server = Server("extended")
    make_database(server, "extended", cluster.nodes, {}, "CREATE SCHEMA own; CREATE SCHEMA ours")
    for name, *story in STORIES:
        tap.equal(tell(server, "ours", story, **{"mosql_fdw.default_server": "redis"}), tell(server, "own", story), name)
    tell(server, "ours", [FREE], **{"mosql_fdw.default_server": "redis"})
    tap.equal(round_trips(server, ["INSERT INTO t VALUES (1001, 1001)", "INSERT INTO t VALUES (1002, 1002)"]), 2, "one round trip each")


main(body)
