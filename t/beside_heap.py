#!/usr/bin/python3
"""Row locks beside PostgreSQL's own tables: the same statements, in the same order, between
sessions on a heap table, and between sessions of two servers on ours with
mosql_fdw.locking = pessimistic.  Who waits, who goes on when, and with which rows or SQLSTATE
must be the same.

The stories follow the isolation tests of PostgreSQL 15 (src/test/isolation/specs), whose names
they have, in words of our own (t/pg_specs.py plays the specs themselves).  At the end:
what differs, as docs/locking.md says."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from isolation import PATIENCE, WAITS, Session
from mosqltest import *

HEAP = """CREATE SCHEMA native;
    CREATE TABLE native.account (id int PRIMARY KEY, n int, s text, u int UNIQUE);
    CREATE TABLE native.child (id int PRIMARY KEY, pid int REFERENCES native.account ON DELETE CASCADE)"""
OURS = """LOAD 'mosql_fdw';
    CREATE FOREIGN TABLE account (id int PRIMARY KEY, n int, s text, u int UNIQUE) SERVER redis;
    CREATE FOREIGN TABLE child (id int PRIMARY KEY, pid int REFERENCES account ON DELETE CASCADE) SERVER redis"""
ROWS = ("DELETE FROM child", "DELETE FROM account", "INSERT INTO account VALUES (1, 0, 'one', 1), (2, 0, 'two', 2), (3, 0, 'three', 3)")
LOOK = .3           # who has not come back by then waits

GET = "SELECT id, n, s FROM account WHERE id = 1 "
SET = "UPDATE account SET n = n + 1, s = s || '{}' WHERE id = 1"
MODES = ("FOR KEY SHARE", "FOR SHARE", "FOR NO KEY UPDATE", "FOR UPDATE")
RR = "BEGIN ISOLATION LEVEL REPEATABLE READ"


def stories():
    for held in MODES:
        for asked in MODES:
            yield f"tuplelock-conflict: {held}, {asked}", [
                (1, "BEGIN"), (1, GET + held), (2, GET + asked), (1, "COMMIT")]
    for asked in MODES:
        for change in "UPDATE account SET s = 'u' WHERE id = 1", "DELETE FROM account WHERE id = 1", "UPDATE account SET u = 9 WHERE id = 1":
            for end in "COMMIT", "ROLLBACK":
                yield f"lock-update-delete: {change}; {asked}; {end}", [(1, "BEGIN"), (1, change), (2, GET + asked), (1, end)]
                yield f"propagate-lock-delete, {asked} first: {change}; {end}", [(1, "BEGIN"), (1, GET + asked), (2, change), (1, end)]
    for asked in MODES:
        yield f"lock-committed-update, lock-committed-keyupdate: {asked}, REPEATABLE READ", [
            (1, RR), (1, "SELECT count(*) FROM account"), (2, "UPDATE account SET u = 9 WHERE id = 1"), (1, GET + asked), (1, "ROLLBACK")]
        yield f"update-locked-tuple: {asked}, then UPDATE in a savepoint that is rolled back", [
            (1, "BEGIN"), (1, GET + asked), (1, "SAVEPOINT a"), (1, SET.format("x")), (1, "ROLLBACK TO a"),
            (2, SET.format("y")), (1, "COMMIT"), (2, GET)]
    yield "nowait", [(1, "BEGIN"), (1, GET + "FOR UPDATE"), (2, GET + "FOR UPDATE NOWAIT"), (1, "COMMIT")]
    yield "nowait-2", [(1, "BEGIN"), (1, GET + "FOR SHARE"), (2, "BEGIN"), (2, GET + "FOR SHARE NOWAIT"),
                       (2, GET + "FOR UPDATE NOWAIT"), (2, "ROLLBACK"), (1, "COMMIT")]
    yield "nowait-3", [(1, "BEGIN"), (1, GET + "FOR UPDATE"), (2, "BEGIN"), (2, GET + "FOR UPDATE"),
                       (3, GET + "FOR UPDATE NOWAIT"), (1, "COMMIT"), (2, "COMMIT")]
    yield "skip-locked", [(1, "BEGIN"), (1, "SELECT id FROM account ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"), (2, "BEGIN"),
                          (2, "SELECT id FROM account ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"),
                          (3, "SELECT id FROM account ORDER BY id FOR UPDATE SKIP LOCKED"), (1, "COMMIT"), (2, "COMMIT")]
    yield "skip-locked-2", [(1, "BEGIN"), (1, GET + "FOR SHARE"), (2, "BEGIN"), (2, GET + "FOR SHARE SKIP LOCKED"),
                            (2, "SELECT id FROM account ORDER BY id FOR UPDATE SKIP LOCKED"), (2, "COMMIT"), (1, "COMMIT")]
    yield "skip-locked-3", [(1, "BEGIN"), (1, GET + "FOR UPDATE"), (2, GET + "FOR UPDATE"), (3, GET + "FOR UPDATE SKIP LOCKED"), (1, "COMMIT")]
    yield "tuplelock-update", [(1, "BEGIN"), (1, GET + "FOR KEY SHARE"), (2, "BEGIN"), (2, SET.format("b")), (3, "BEGIN"),
                               (3, SET.format("c")), (1, "COMMIT"), (2, "COMMIT"), (3, "COMMIT"), (1, GET)]
    yield "tuplelock-upgrade-no-deadlock", [
        (1, "BEGIN"), (2, "BEGIN"), (3, "BEGIN"), (1, GET + "FOR KEY SHARE"), (2, GET + "FOR UPDATE"),
        (1, GET + "FOR NO KEY UPDATE"), (1, "COMMIT"), (2, "COMMIT"), (3, "COMMIT")]
    yield "multixact-no-deadlock", [
        (1, "BEGIN"), (2, "BEGIN"), (3, "BEGIN"), (1, "SAVEPOINT a"), (1, GET + "FOR SHARE"), (2, GET + "FOR SHARE"),
        (1, "ROLLBACK TO a"), (1, "COMMIT"), (3, GET + "FOR UPDATE"), (2, "COMMIT"), (3, "COMMIT")]
    yield "multixact-no-forget", [
        (1, "BEGIN"), (1, GET + "FOR KEY SHARE"), (2, "BEGIN"), (2, SET.format("b")), (3, GET + "FOR KEY SHARE"),
        (3, GET + "FOR UPDATE"), (2, "COMMIT"), (1, "COMMIT")]
    for strength in "FOR KEY SHARE", "FOR UPDATE":
        yield f"delete-abort-savept: {strength}", [
            (1, "BEGIN"), (1, GET + strength), (1, "SAVEPOINT f"), (1, "DELETE FROM account WHERE id = 1"), (1, "ROLLBACK TO f"),
            (2, GET + "FOR UPDATE"), (1, "COMMIT")]
    yield "aborted-keyrevoke", [
        (1, "BEGIN"), (1, "SAVEPOINT f"), (1, "UPDATE account SET u = 9 WHERE id = 1"), (1, "ROLLBACK TO f"),
        (2, "BEGIN"), (2, GET + "FOR KEY SHARE"), (1, GET + "FOR KEY SHARE"), (1, "COMMIT"), (2, "COMMIT")]
    for end in "COMMIT", "ROLLBACK":
        yield f"eval-plan-qual, wx: {end}", [
            (1, "BEGIN"), (1, "UPDATE account SET n = n + 450, s = 'w' WHERE id = 1"), (2, "BEGIN"),
            (2, "UPDATE account SET n = n + 1000, s = s || 'x' WHERE id = 1 RETURNING n"), (1, end), (2, "COMMIT"), (1, GET)]
        yield f"eval-plan-qual, conditions that hold no longer: {end}", [
            (1, "BEGIN"), (1, "UPDATE account SET n = 7, s = 'w' WHERE id = 1"), (2, "UPDATE account SET s = 'never' WHERE n = 0 RETURNING id"),
            (1, end), (2, "SELECT id, s FROM account ORDER BY id")]
        yield f"eval-plan-qual, join: {end}", [
            (1, "BEGIN"), (1, "UPDATE account SET n = 2, s = 'w' WHERE id = 1"),
            (2, "SELECT a.id, a.n, b.n FROM account a JOIN account b ON b.id = 2 WHERE a.id = 1 AND a.n < 9 FOR UPDATE OF a"), (1, end)]
        yield f"insert-conflict-do-nothing: {end}", [
            (1, "BEGIN"), (1, "INSERT INTO account VALUES (4, 1, 'a', 4)"),
            (2, "INSERT INTO account VALUES (4, 2, 'b', 4) ON CONFLICT DO NOTHING RETURNING id"), (1, end), (2, "SELECT n, s FROM account WHERE id = 4")]
        yield f"insert-conflict-do-update: {end}", [
            (1, "BEGIN"), (1, "INSERT INTO account VALUES (4, 1, 'a', 4)"),
            (2, "INSERT INTO account VALUES (4, 2, 'b', 4) ON CONFLICT (id) DO UPDATE SET s = account.s || excluded.s RETURNING s"),
            (1, end), (2, "SELECT n, s FROM account WHERE id = 4")]
        yield f"insert-conflict-do-update, unique index: {end}", [
            (1, "BEGIN"), (1, "INSERT INTO account VALUES (4, 1, 'a', 4)"),
            (2, "INSERT INTO account VALUES (5, 2, 'b', 4) ON CONFLICT (u) DO UPDATE SET s = account.s || excluded.s RETURNING id, s"),
            (1, end), (2, "SELECT id, s FROM account WHERE u = 4")]
        yield f"a duplicate key: {end}", [
            (1, "BEGIN"), (1, "INSERT INTO account VALUES (4, 1, 'a', 4)"), (2, "INSERT INTO account VALUES (4, 2, 'b', 5)"), (1, end)]
        yield f"fk-snapshot, a parent that goes: {end}", [
            (1, "BEGIN"), (1, "DELETE FROM account WHERE id = 1"), (2, "INSERT INTO child VALUES (1, 1)"), (1, end),
            (2, "SELECT * FROM child")]
    yield "fk-contention", [(1, "BEGIN"), (1, "INSERT INTO child VALUES (1, 1)"), (2, "UPDATE account SET s = 'b' WHERE id = 1"), (1, "COMMIT")]
    yield "fk-deadlock", [
        (1, "BEGIN"), (2, "BEGIN"), (1, "INSERT INTO child VALUES (1, 1)"), (2, "INSERT INTO child VALUES (2, 1)"),
        (1, SET.format("a")), (2, SET.format("b")), (1, "COMMIT"), (2, "COMMIT"), (1, GET)]
    # applications save whole rows
    for value, key in (1, 1), (9, 1), (1, 7):
        yield f"fk-contention, all columns are set, unique value {value}, key {key}", [
            (1, "BEGIN"), (1, "INSERT INTO child VALUES (1, 1)"),
            (2, f"UPDATE account SET id = {key}, n = 5, s = 'b', u = {value} WHERE id = 1 RETURNING n"), (1, "COMMIT")]
    yield "fk-deadlock, all columns are set", [
        (1, "BEGIN"), (2, "BEGIN"), (1, "INSERT INTO child VALUES (1, 1)"), (2, "INSERT INTO child VALUES (2, 1)"),
        (1, "UPDATE account SET n = 5, s = 'a', u = 1 WHERE id = 1"), (2, "UPDATE account SET n = 6, s = 'b', u = 1 WHERE id = 1"),
        (1, "COMMIT"), (2, "COMMIT"), (1, GET)]
    yield "fk-deadlock2", [
        (1, "BEGIN"), (2, "BEGIN"), (1, "UPDATE account SET s = 'a' WHERE id = 1"), (2, "INSERT INTO child VALUES (2, 1)"),
        (1, "INSERT INTO child VALUES (1, 1)"), (1, "COMMIT"), (2, "COMMIT")]


    # what stays locked: session 2 gets the rest
    rest = "SELECT id FROM account ORDER BY id FOR UPDATE SKIP LOCKED"
    for locks in (
            "SELECT id FROM account ORDER BY id LIMIT 1 FOR UPDATE", "SELECT id FROM account ORDER BY id DESC LIMIT 2 FOR SHARE",
            "SELECT id FROM account ORDER BY id LIMIT 1 OFFSET 1 FOR UPDATE", "SELECT id FROM account WHERE n = 0 AND u > 1 ORDER BY id LIMIT 1 FOR UPDATE",
            "SELECT id FROM account ORDER BY s LIMIT 1 FOR UPDATE", "SELECT id FROM account WHERE id IN (1, 2, 3) ORDER BY id LIMIT 2 FOR UPDATE",
            "SELECT id FROM account ORDER BY id FETCH FIRST (SELECT 2) ROWS ONLY FOR UPDATE", "SELECT id FROM account WHERE id = 2 LIMIT 1 FOR UPDATE",
            "SELECT a.id, c.id FROM account a JOIN child c ON c.pid = a.id WHERE c.id > 1 FOR UPDATE", "SELECT a.id FROM account a JOIN child c ON c.pid = a.id FOR UPDATE OF c",
            "SELECT a.id FROM account a JOIN child c ON c.pid = a.id ORDER BY a.id LIMIT 1 FOR UPDATE OF a",
            "SELECT a.id, c.id FROM account a LEFT JOIN child c ON c.pid = a.id WHERE c.id IS NULL FOR UPDATE OF a",
            "SELECT id FROM account a WHERE EXISTS (SELECT FROM child WHERE pid = a.id AND id > 1) FOR UPDATE",
            "SELECT id FROM (SELECT id FROM account ORDER BY id LIMIT 1 FOR UPDATE) x JOIN child USING (id)",
            "WITH x AS (SELECT id FROM account ORDER BY id FOR UPDATE) SELECT id FROM x LIMIT 1",
            "DO $$ DECLARE i int; BEGIN SELECT id INTO i FROM account ORDER BY id FOR UPDATE; END $$",
            "DO $$ DECLARE i int; BEGIN SELECT id INTO i FROM account WHERE id IN (3, 2, 1) ORDER BY id FOR UPDATE; END $$",
            "DO $$ DECLARE i int; BEGIN SELECT id INTO i FROM account ORDER BY s FOR UPDATE; END $$",
            "DO $$ DECLARE c CURSOR FOR SELECT id FROM account ORDER BY id FOR UPDATE; i int; BEGIN OPEN c; FETCH c INTO i; END $$",
            "DECLARE c CURSOR FOR SELECT id FROM account ORDER BY id FOR UPDATE; FETCH 2 FROM c",
            "DECLARE c CURSOR FOR SELECT id FROM account ORDER BY id LIMIT 2 FOR UPDATE; FETCH 1 FROM c",
            "SET cursor_tuple_fraction = 1; DECLARE c CURSOR FOR SELECT id FROM account ORDER BY id FOR UPDATE; MOVE 1 FROM c"):
        yield f"what stays locked: {locks}", [(1, "INSERT INTO child VALUES (1, 2), (2, 3)"), (1, "BEGIN"), (1, locks), (2, rest), (1, "COMMIT")]
    yield "what stays locked, of rows that were skipped, or are others by now", [
        (1, "BEGIN"), (1, "UPDATE account SET n = 1 WHERE id = 1"), (2, "BEGIN"), (2, "SELECT id FROM account WHERE n = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"),
        (3, "BEGIN"), (3, "SELECT id FROM account WHERE n = 0 ORDER BY id LIMIT 2 FOR UPDATE"), (1, "COMMIT"), (2, "COMMIT"), (2, rest), (3, "COMMIT")]


def differing():
    """What differs: name, steps, which of them, what the heap's says there, and ours."""
    yield ("lock-committed-update: FOR KEY SHARE above READ COMMITTED", [
        (1, RR), (1, "SELECT count(*) FROM account"), (2, SET.format("b")), (1, GET + "FOR KEY SHARE"), (1, "ROLLBACK")],
        3, None, "40001")
    yield ("tuplelock-upgrade: nobody overtakes who waits", [
        (1, "BEGIN"), (1, GET + "FOR SHARE"), (2, "BEGIN"), (2, GET + "FOR UPDATE"), (3, GET + "FOR SHARE"), (1, "COMMIT"), (2, "COMMIT")],
        4, None, WAITS)
    yield ("insert-conflict-do-nothing: a primary key whose row is only locked", [
        (1, "BEGIN"), (1, GET + "FOR UPDATE"), (2, "INSERT INTO account VALUES (1, 0, '', 9)"), (1, "COMMIT")], 2, "23505", WAITS)


def waits_for_lock(monitor, session):
    return value(monitor, f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {session.pid}") == "Lock"


def tell(conns, steps, monitor=None, model=None):
    """What comes of each step, and of those who waited; model: the heap's, with which time is not spared.
    monitor: asked whether they wait for a lock, or are slow."""
    sessions, said = {}, []

    def patient_outcome(session):
        end = time.monotonic() + PATIENCE
        while not (found := session.outcome(LOOK)) and time.monotonic() < end and not waits_for_lock(monitor, session):
            pass
        return found

    def note(who, what):
        expected = model[len(said)] if model and len(said) < len(model) else None
        waits = expected is not None and expected[2] == WAITS
        found = patient_outcome(sessions[who]) if monitor else \
            sessions[who].outcome(PATIENCE if expected is not None and not waits else LOOK)
        said.append((who, what, found or WAITS))

    for who, sql in steps:
        if who not in sessions:
            sessions[who] = Session(conns[who](), attempt)
        if sessions[who].step:
            said.append((who, sql, "cannot be asked"))
            break
        sessions[who].ask(sql, sql)
        note(who, sql)
        for other in sorted(sessions):
            if other != who and sessions[other].step:
                note(other, "goes on?")
    for s in sessions.values():
        s.close()
    return said


def body():
    cluster = Cluster("beside")
    servers = [Server(name) for name in ("beside1", "beside2")]
    for server in servers:
        make_database(server, "beside", cluster.nodes, {}, OURS)
    native = servers[0].connect("beside")
    query(native, HEAP)
    ours = servers[0].connect("beside")
    query(ours, "LOAD 'mosql_fdw'")

    def heap():
        conn = servers[0].connect("beside")
        query(conn, "SET search_path = native")
        return conn

    def redis(server):
        conn = server.connect("beside", **{"mosql_fdw.locking": "pessimistic"})
        query(conn, "SELECT count(*) FROM account, child")
        return conn

    query(native, "SET search_path = native")
    heaps = {who: heap for who in (1, 2, 3)}
    both = {who: lambda server=servers[who % 2]: redis(server) for who in (1, 2, 3)}
    for name, steps in stories():
        if len(sys.argv) > 1 and not any(name.startswith(a) for a in sys.argv[1:]):
            continue
        for conn in native, ours:
            for sql in ROWS:
                query(conn, sql)
        theirs = tell(heaps, steps, native)
        found = tell(both, steps, model=theirs)
        tap.equal(found, theirs, name)
    for name, steps, at, there, here in differing():
        for conn in native, ours:
            for sql in ROWS:
                query(conn, sql)
        theirs = tell(heaps, steps, native)
        model = [(who, sql, here if (who, sql) == steps[at] else what) for who, sql, what in theirs]
        said = [theirs, tell(both, steps, model=model)]
        states = [what if what == WAITS else what[1] for s in said for who, sql, what in s if (who, sql) == steps[at]]
        tap.equal(states, [there, here], f"differs: {name}")
    for conn in native, ours:
        conn.close()


main(body)
