#!/usr/bin/python3
"""Maintenance: what dead front-ends leave behind goes, and how it ended is known.

Two PostgreSQL servers on one cluster, both engines.

  orphans    backends are killed at points of a commit; their leases end; then the
             other server's mosql_fdw_maintain() leaves no intent, record, mark,
             snapshot or session behind, all of a commit is there or nothing, and
             mosql_fdw_transaction_status() says the same before and after
  unknown    COMMIT ends with 08007, and the id in the message is good for an answer
  killed     maintenance itself is killed at each of its points; the next is clean
  election   one at a time
  load       it does not disturb clients
  locks      those of sessions that are gone leave the rows; who waits for them gets them
  worker     the background worker does all that by itself, survives Redis being
             away, kill -9 and a restart of PostgreSQL, can be switched off, and gives
             way to who needs the database without sessions

    t/maintain.py [PART]...
"""
import contextlib
import json
import os
import re
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

ROWS = 1000
DDL = """
CREATE FOREIGN TABLE acct (id int OPTIONS (key 'true') NOT NULL, bal int, note text) SERVER redis;
CREATE FOREIGN TABLE log (id int OPTIONS (key 'true') NOT NULL, tag text) SERVER redis;
CREATE FOREIGN TABLE cnt (name text OPTIONS (key 'true') NOT NULL, n bigint) SERVER redis;
CREATE FOREIGN TABLE bin (id int OPTIONS (key 'true') NOT NULL) SERVER redis;
"""
TABLES = ("acct", "log", "cnt")


class Clock:
    """The clock's keys, looked at and changed behind everybody's back."""

    def __init__(self, cluster, ns):
        self.cluster, self.ns = cluster, ns
        self.prefix = "%s:{%s.clock}:" % (ns, ns)
        self.redis = cluster.redis(cluster.clock_port(ns))

    def __call__(self, command, key, *args):
        return self.redis(command, self.prefix + key, *args)

    def sessions(self):
        return sorted(int(k.decode().rsplit(":", 1)[1])
                      for k in self.redis("KEYS", self.prefix.replace("{", "\\{") + "s:*")
                      or self.redis("KEYS", self.prefix + "s:*"))

    def records(self, sid):
        """number -> "C" or "A" of a session."""
        flat = self("HGETALL", f"s:{sid}")
        return {int(flat[i]): flat[i + 1][:1].decode()
                for i in range(0, len(flat), 2) if flat[i] not in (b"lease", b"span", b"who")}

    def end_lease(self, sid):
        self("HSET", f"s:{sid}", "lease", 1)
        self("ZADD", "e", "XX", 1, sid)

    def newest(self):
        return int(self("HGET", "c", "sid"))


class World:
    def __init__(self, cluster, one, two, engine, db):
        self.cluster, self.one, self.two, self.engine, self.db = cluster, one, two, engine, db
        for s in (one, two):
            make_database(s, db, cluster.nodes, {"atomic": engine, "command_timeout": 1500, "pack_after": 0}, DDL)
        with contextlib.closing(one.connect(db)) as c:
            query(c, f"""
                INSERT INTO acct SELECT g, 100, '' FROM generate_series(1, {ROWS}) g;
                INSERT INTO cnt VALUES ('a', 0), ('b', 0);""")
        self.clock = Clock(cluster, db)

    def victim(self, point, sql, level=None):
        """Killed at point; (session id, number) of its transaction at the clock."""
        probe = self.one.connect()
        conn = self.one.connect(self.db, level=level, **{"mosql_fdw.debug_crash_at": point})
        try:
            query(conn, sql)
            died = False
        except psycopg2.Error:
            died = conn.closed
        finally:
            conn.close()
        if died:
            wait_until(lambda: attempt(probe, "SELECT 1")[1] is not None)
            self.one.wait_up()
        probe.close()
        return died

    def maintain(self, conn):
        columns = ("server, outcome, sessions_expired, commits_finished, intents_applied, "
                   "intents_removed, marks_removed, nodes_deleted")
        return dict(zip(re.split(", ", columns),
                        query(conn, f"SELECT {columns} FROM mosql_fdw_maintain('redis')")[0]))

    def fate(self, conn, tx):
        return value(conn, "SELECT mosql_fdw_transaction_status('redis', %s)", (tx,))

    def intents(self, conn):
        """Transactions that have an intent somewhere, as mosql_fdw_check names them."""
        found = [f for t in TABLES for f in findings(conn, t)[1]]
        return {m[1] for f in found for m in [re.match(r"intent of transaction (\d+\.\d+)", f[2])] if m}

    def marks(self):
        """Leaves with read marks."""
        n = 0
        for port in self.cluster.primaries:
            r = self.cluster.redis(port)
            for key in r("KEYS", self.db + ":*"):
                if b".clock}" not in key and r("TYPE", key) == b"hash":     # (those of waiters are not)
                    n += r("HEXISTS", key, "l")
            r.close()
        return n

    def leftovers(self, conn, mine):
        """Everything at the clock and in leaves that should not be there."""
        out = []
        for sid in self.clock.sessions():
            if sid not in mine:
                out.append(f"session {sid}: {self.clock.records(sid)}")
        out += [f"snapshot {f.decode()}" for f in self.clock("ZRANGE", "p", 0, -1)
                if int(f.split(b".")[0]) not in mine]
        out += [f"dead {s.decode()}" for s in self.clock("SMEMBERS", "d")]
        out += [f"tree {r.decode()}" for r in self.clock("HKEYS", "g")]
        out += [f"intent of {t}" for t in self.intents(conn)]
        out += [str(f) for t in TABLES for fs in findings(conn, t) for f in fs]
        if self.marks():
            out.append(f"{self.marks()} leaves with read marks")
        return out


# A commit of every kind: updates, an increment, a delete, many inserts; the
# reader's adds read marks on leaves that it does not write to.
WORK = """BEGIN;
    UPDATE acct SET bal = bal - 10 WHERE id = 3;
    UPDATE acct SET note = '{tag}' WHERE id IN (200, 500, 900);
    UPDATE cnt SET n = n + 1 WHERE name = 'a';
    DELETE FROM acct WHERE id = {number};
    INSERT INTO log SELECT {number} * 1000 + g, '{tag}' FROM generate_series(1, 200) g;
    COMMIT"""
READER = """BEGIN ISOLATION LEVEL SERIALIZABLE;
    SELECT sum(bal) FROM acct WHERE id BETWEEN 600 AND 700;
    UPDATE cnt SET n = n + 1 WHERE name = 'b';
    COMMIT"""


def orphans(world):
    name = world.engine
    conn = world.two.connect(world.db, **{"mosql_fdw.maintenance_rate": 0})
    query(conn, "SELECT count(*) FROM cnt")
    mine = {world.clock.newest()}
    for sid in world.clock.sessions():      # of those who made the tables
        if sid not in mine:
            world.clock.end_lease(sid)
    world.maintain(conn)
    cases = [("after-decide", "committed", WORK), ("after-prepare", "aborted", WORK),
             ("after-decide", "committed", READER), ("after-prepare", "aborted", READER)]
    if world.engine == "script":
        cases.append(("apply-some", "committed", WORK))
    known = []
    for number, (point, fate, work) in enumerate(cases, 11):
        at = f"{name}, killed at {point}, {'SERIALIZABLE' if work is READER else 'large'}"
        tag = f"t{number}"
        tap.ok(world.victim(point, work.format(tag=tag, number=number)), f"{at}: it dies")
        # PostgreSQL's restart ended our session on server one, not this one
        sid = world.clock.newest()
        records = world.clock.records(sid)
        if fate == "committed":
            tap.ok("C" in records.values(), f"{at}: its record is there", records)
            tx = f"{sid}.{max(n for n, r in records.items() if r == 'C')}"
        else:
            tap.equal(records, {}, f"{at}: it has no record")
            tx = (world.intents(conn) or {f"{sid}.1"}).pop()
        tap.equal(world.fate(conn, tx), fate if fate == "committed" else "in progress",
                  f"{at}: known at once, as far as it is")
        world.clock.end_lease(sid)
        tap.equal(world.fate(conn, tx), fate, f"{at}: known when its lease is over")
        did = world.maintain(conn)
        tap.equal(did["outcome"], "done", f"{at}: maintenance")
        tap.equal(did["commits_finished"], 1 if fate == "committed" else 0, f"{at}: commits finished")
        tap.equal(world.leftovers(conn, mine), [], f"{at}: nothing is left over")
        tap.equal(world.fate(conn, tx), fate, f"{at}: the answer stays the same")
        if work is WORK:
            seen = (value(conn, f"SELECT count(*) FROM log WHERE tag = '{tag}'"),
                    value(conn, f"SELECT count(*) FROM acct WHERE note = '{tag}'"),
                    value(conn, f"SELECT count(*) FROM acct WHERE id = {number}"))
            tap.equal(seen, (200, 3, 0) if fate == "committed" else (0, 0, 1), f"{at}: all or nothing")
        known.append((tx, fate))
    for tx, fate in known:
        tap.equal(world.fate(conn, tx), fate, f"{name}: {tx} is still {fate}")
    conn.close()


# ---- COMMIT ends with 08007 ----

def unknown(plain, one, two, engine):
    """The connection to the clock breaks at decide, and nobody answers in time."""
    name = f"{engine}, unknown outcome"
    db = f"unknown_{engine}"
    before = AT_ONCE[engine]
    proxy = Proxy(plain.ports[0])
    make_database(one, db, proxy.nodes, {"atomic": engine, "command_timeout": 700}, DDL)
    make_database(two, db, plain.nodes, {"atomic": engine}, DDL)
    clock = Clock(plain, db)
    other = two.connect(db, **{"mosql_fdw.maintenance_rate": 0})
    query(other, f"INSERT INTO acct SELECT g, 100, '' FROM generate_series(1, {ROWS}) g")
    query(other, "UPDATE acct SET bal = bal WHERE id = 900")    # the server knows the script
    holder = one.connect(db)

    def commit(how, between, n, also="", before=before):
        """Spoil decide, do something before it is settled; (the error, session)."""
        conn = one.connect(db)
        query(conn, "SELECT count(*) FROM acct")
        sid = clock.newest()
        query(holder, f"SELECT mosql_fdw_debug_lock('{before}'), mosql_fdw_debug_lock('before-settle')")
        query(conn, f"SET mosql_fdw.debug_points = on; BEGIN; UPDATE acct SET bal = bal + 1 WHERE id IN ({n}, {n + 500}); {also}")
        result = []
        t = threading.Thread(target=lambda: result.append(error_of(conn, "COMMIT")))
        t.start()
        waiting = lambda: value(holder, "SELECT count(*) FROM pg_locks WHERE NOT granted")
        wait_until(waiting)
        proxy.arm(how)
        query(holder, f"SELECT mosql_fdw_debug_unlock('{before}')")
        proxy.spoiled.wait(60)
        wait_until(waiting)
        between(sid)
        query(holder, "SELECT mosql_fdw_debug_unlock('before-settle')")
        since = time.monotonic()
        t.join(60)
        taken.append(time.monotonic() - since)
        attempt(conn, "ROLLBACK; SET mosql_fdw.debug_points = off")
        return conn, sid, result[0] if result else (None, "no answer")

    taken = []

    def changed(n):
        return [r[0] - 100 for r in query(other, f"SELECT bal FROM acct WHERE id IN ({n}, {n + 500}) ORDER BY id")]

    def id_of(error):
        found = re.search(r"outcome of transaction (\d+\.\d+)", error[1] if error[1] else "")
        return found[1] if found else "1.1"

    def status(tx):
        return value(other, "SELECT mosql_fdw_transaction_status('redis', %s)", (tx,))

    # 1. decided, the clock silent while it is settled
    at = f"{name}, reply lost, clock silent"
    plain.remember_pids()
    conn, sid, error = commit("reply", lambda _: plain.signal(plain.ports[0], signal.SIGSTOP), 1)
    plain.signal(plain.ports[0], signal.SIGCONT)
    tap.equal(error[0], "08007", f"{at}: 08007")
    tx = id_of(error)
    tap.equal(tx.split(".")[0], str(sid), f"{at}: the message names the transaction")
    tap.ok("mosql_fdw_transaction_status" in str(error[1]), f"{at}: and the hint says whom to ask", error[1])
    tap.equal(status(tx), "committed", f"{at}: committed")
    query(conn, "SELECT count(*) FROM acct WHERE id = 2")     # the session's next transaction settles
    wait_until(lambda: not findings(other, "acct")[1])
    tap.equal(findings(other, "acct"), ([], []), f"{at}: its session's next transaction finishes it")
    tap.equal(changed(1), [1, 1], f"{at}: and it is there")
    query(conn, "UPDATE acct SET note = 'later' WHERE id = 3")
    query(conn, "UPDATE acct SET note = 'later' WHERE id = 4")
    tap.equal(status(tx), "committed", f"{at}: also when its session went on")
    conn.close()
    wait_until(lambda: str(sid).encode() in clock("SMEMBERS", "d") or clock("HGET", f"s:{sid}", "lease") is None)
    tap.equal(status(tx), "committed", f"{at}: and after it")
    query(other, "SELECT mosql_fdw_maintain('redis')")
    tap.equal(clock.records(sid), {}, f"{at}: maintenance drops the record")
    tap.equal(status(tx), "committed", f"{at}: and keeps the outcome")

    # the same, with a tree that it has dropped
    at = f"{name}, a truncated table"
    query(other, "CREATE FOREIGN TABLE big (id int OPTIONS (key 'true')) SERVER redis; INSERT INTO big SELECT generate_series(1, 1000)")
    with contextlib.closing(one.connect(db)) as c:
        query(c, "CREATE FOREIGN TABLE big (id int OPTIONS (key 'true')) SERVER redis")
    conn, sid, error = commit("reply", lambda _: plain.signal(plain.ports[0], signal.SIGSTOP), 60, "TRUNCATE big", "after-prepare")
    plain.signal(plain.ports[0], signal.SIGCONT)
    tap.equal(error[0], "08007", f"{at}: 08007")
    tap.ok(taken[-1] >= 0.5 + 1.25, f"{at}: it says so when nobody reads the old tree any more", taken)
    tap.equal((status(id_of(error)), clock("HLEN", "g")), ("committed", 0), f"{at}: committed")
    query(conn, "SELECT count(*) FROM acct WHERE id = 2")
    tap.equal(clock("HLEN", "g"), 1, f"{at}: its session's next transaction puts the tree on the list")
    query(other, "SELECT mosql_fdw_maintain('redis')")
    tap.equal((clock("HLEN", "g"), value(other, "SELECT count(*) FROM big")), (0, 0), f"{at}: and maintenance destroys it")
    conn.close()

    # 2. never decided; the request comes when nobody waits for it any more
    at = f"{name}, request late, lease over"
    conn, sid, error = commit("late", clock.end_lease, 20)
    tap.equal(error[0], "08007", f"{at}: 08007")
    tx = id_of(error)
    tap.equal(status(tx), "aborted", f"{at}: aborted")
    proxy.release()
    tap.equal(status(tx), "aborted", f"{at}: the request arrives, and changes nothing")
    tap.equal(clock.records(sid).get(int(tx.split(".")[1])), None, f"{at}: no record")
    conn.close()
    query(other, "SELECT mosql_fdw_maintain('redis')")
    tap.equal(status(tx), "aborted", f"{at}: also after maintenance")
    tap.equal(changed(20), [0, 0], f"{at}: nothing of it is there")
    tap.equal(findings(other, "acct"), ([], []), f"{at}: nothing is left over")

    # 3. never decided, the session lives: it settles with its next transaction
    at = f"{name}, request lost, clock silent"
    conn, sid, error = commit("request", lambda _: plain.signal(plain.ports[0], signal.SIGSTOP), 40)
    plain.signal(plain.ports[0], signal.SIGCONT)
    tap.equal(error[0], "08007", f"{at}: 08007")
    tx = id_of(error)
    first = status(tx)                  # the settling itself may have arrived, late
    tap.ok(first in ("in progress", "aborted"), f"{at}: in progress, or aborted", first)
    query(conn, "SELECT count(*) FROM acct WHERE id = 2")
    tap.equal(status(tx), "aborted", f"{at}: aborted once its session goes on")
    tap.equal(findings(other, "acct"), ([], []), f"{at}: nothing is left over")
    tap.equal(changed(40), [0, 0], f"{at}: nothing of it is there")
    for c in (conn, holder, other):
        c.close()
    proxy.stop()


# ---- maintenance itself dies ----

def rubbish(world, number):
    """Work for all of maintenance: commits of the dead, one with a tree that it has dropped, nodes of a
    split that nobody finished, old versions, emptied leaves."""
    world.victim("after-decide", WORK.format(tag=f"k{number}", number=number))
    world.clock.end_lease(world.clock.newest())
    world.victim("after-decide", "TRUNCATE bin")
    world.clock.end_lease(world.clock.newest())
    world.victim("split-pieces", f"INSERT INTO log SELECT {number} * 100000 + g, 'never' FROM generate_series(1, 1000) g")
    world.clock.end_lease(world.clock.newest())
    conn = world.two.connect(world.db)
    reader = world.two.connect(world.db, autocommit=False, level=REPEATABLE_READ)
    query(reader, "SELECT count(*) FROM acct")
    query(conn, "UPDATE acct SET note = note || '.' WHERE id > 700")
    query(conn, "INSERT INTO log SELECT g, 'rubbish' FROM generate_series(1000000, 1002000) g")
    query(conn, "DELETE FROM log WHERE tag = 'rubbish'")
    reader.rollback()
    reader.close()
    conn.close()


def killed(world):
    tap.ok(len(debug_points("maintenance")) >= 10, "points of maintenance are found in the sources", debug_points("maintenance"))
    for number, point in enumerate(debug_points("maintenance"), 101):
        at = f"{world.engine}, maintenance killed at {point}"
        rubbish(world, number)
        # the sweep spares what is newer than the oldest living session
        conn = world.two.connect(world.db, **{"mosql_fdw.maintenance_rate": 0})
        query(conn, "SELECT count(*) FROM cnt")
        mine = {world.clock.newest()}
        tap.ok(world.victim(point, "SELECT mosql_fdw_maintain('redis')"), f"{at}: it dies")
        did = world.maintain(conn)
        tap.equal(did["outcome"], "busy", f"{at}: for the others it is at it")
        world.clock.end_lease(world.clock.newest())
        state = query(conn, "SELECT state FROM mosql_fdw_progress WHERE operation = 'maintenance'")
        tap.equal(state, [("died",)], f"{at}: until its lease is over")
        did = world.maintain(conn)
        tap.equal(did["outcome"], "done", f"{at}: the next one does it all")
        tap.equal(world.leftovers(conn, mine), [], f"{at}: nothing is left over")
        tap.equal((value(conn, f"SELECT count(*) FROM log WHERE tag = 'k{number}'"),
                   value(conn, "SELECT count(*) FROM log WHERE tag = 'never'"),
                   value(conn, f"SELECT count(*) FROM acct WHERE id = {number}")), (200, 0, 0),
                  f"{at}: what was committed is there")
        conn.close()


def election(world):
    """One maintains, slowly; the others say so, and show how far it is."""
    name = f"{world.engine}, one at a time"
    slow = world.one.connect(world.db, **{"mosql_fdw.maintenance_rate": 3})
    conn = world.two.connect(world.db)
    result = []
    t = threading.Thread(target=lambda: result.append(attempt(
        slow, "SELECT outcome FROM mosql_fdw_maintain('redis')")))
    t.start()
    progress = "SELECT state, phase, table_name, done, total, by FROM mosql_fdw_progress WHERE operation = 'maintenance'"
    row = wait_until(lambda: [r for r in query(conn, progress) if r[0] == "running" and r[1] == "vacuum" and r[3] > 0])
    tap.ok(row and row[0][2] and "process %d on" % slow.info.backend_pid in row[0][5],
           f"{name}: its progress is seen from the other server", row)
    tap.equal(value(conn, "SELECT outcome FROM mosql_fdw_maintain('redis')"), "busy", f"{name}: busy")
    started = time.monotonic()
    with contextlib.closing(world.one.connect()) as c:
        query(c, f"SELECT pg_cancel_backend({slow.info.backend_pid})")
    t.join(60)
    tap.ok(result == [(None, "57014")] and time.monotonic() - started < LONG_WAIT, f"{name}: it can be cancelled",
           f"{result}, {time.monotonic() - started:.2f} s")
    row = query(conn, "SELECT state, outcome FROM mosql_fdw_progress WHERE operation = 'maintenance'")
    tap.ok(row[0][0] == "ended" and row[0][1].startswith("failed: "), f"{name}: and says that it was", row)
    query(conn, "SET mosql_fdw.maintenance_rate = 0")
    tap.equal(value(conn, "SELECT outcome FROM mosql_fdw_maintain('redis')"), "done", f"{name}: the next one is free to start")

    # what a job says, where anybody may have written it, does not break the view for other servers
    for job, text in (("done", b'E 1 1 1 0 {"done": "x"}'), ("total", b'E 1 1 1 0 {"total": 1e30}'), ("bool", b'E 1 1 1 0 {"done": true}'),
                      ("time", b"E 1 18446744073709551615 1 0 {}"), (b"\xff", b"E 1 1 1 0 {}")):
        world.clock("HSET", "j", job, text)
        tap.equal([attempt(conn, f"SELECT * FROM mosql_fdw_progress{of}")[1] for of in ("('redis')", "")], ["XX001", None],
                  f"{name}: a damaged job ({job})")
        world.clock("HDEL", "j", job)
    world.clock("HSET", "j", "other", b'E 1 1 1 0 {"done": 5, "total": null, "phase": [1]}')
    tap.equal(query(conn, "SELECT done, total, phase FROM mosql_fdw_progress WHERE operation = 'other'"), [(5, None, "[1]")],
              f"{name}: an unknown one")
    world.clock("HDEL", "j", "other")
    conn.close()
    slow.close()


def load(world):
    """Clients of both servers, and maintenance without pause."""
    name = f"{world.engine}, under load"

    def work(conn, rng):
        a, b = rng.sample(range(600, ROWS), 2)
        query(conn, "UPDATE acct SET bal = bal - 1 WHERE id = %s", (a,))
        query(conn, "UPDATE acct SET bal = bal + 1 WHERE id = %s", (b,))
        n = rng.randrange(10 ** 7, 2 * 10 ** 7)
        query(conn, "INSERT INTO log SELECT %s", (n,)) if rng.random() < .5 else \
            query(conn, "DELETE FROM log WHERE id BETWEEN %s AND %s", (n, n + 2 * 10 ** 6))
        conn.commit()

    conn = world.two.connect(world.db, **{"mosql_fdw.maintenance_rate": 0})
    before = value(conn, "SELECT sum(bal) FROM acct")
    passes = 0
    with Clients() as clients:
        for i in range(6):
            clients.add(Client((world.one, world.two)[i % 2], world.db, work, 100 + i))
        end = time.monotonic() + 5
        while time.monotonic() < end:
            tap.equal(world.maintain(conn)["outcome"], "done", f"{name}: maintenance") if passes < 1 else world.maintain(conn)
            passes += 1
        tap.ok(clients.stop(), f"{name}: clients end")
        tap.equal(clients.unexpected(CONFLICTS + "|23505"), "", f"{name}: no other errors than conflicts")
        tap.note(f"{name}: {passes} passes, {clients.done} transactions, {clients.errors()}, "
                 f"slowest {max(c.slowest for c in clients.all):.2f} s")
        tap.ok(max(c.slowest for c in clients.all) < 9, f"{name}: nobody waits for long")     # but for commit_timeout, 10 s
    tap.equal(value(conn, "SELECT sum(bal) FROM acct"), before, f"{name}: no money is lost")
    world.maintain(conn)
    found = wait_until(lambda: not [f for t in TABLES for fs in findings(conn, t) for f in fs])
    tap.ok(found, f"{name}: all is in order", [findings(conn, t) for t in TABLES])
    conn.close()


# ---- locks of the dead ----

def claim(owner, kind, number=0):
    """src/code/claim.h; FOR UPDATE."""
    return struct.pack(">QQcBI", *owner, kind, 4, number)


def locks(world):
    """Put where nobody waits for them, or somebody who lives: as they would be left behind."""
    name = f"{world.engine}, locks"
    live, dead = world.one.connect(world.db), world.two.connect(world.db)
    ids = []
    for conn in (live, dead):
        query(conn, "SELECT count(*) FROM acct")
        ids.append(value(conn, "SELECT session_id FROM mosql_fdw_sessions('redis') WHERE own"))
    query(live, "UPDATE acct SET note = note")      # so that rows are fields, beside the blocks of a load
    dead.close()
    mine, theirs = ((sid, 7) for sid in ids)
    tap.ok(wait_until(lambda: ids[1] not in world.clock.sessions()), f"{name}: a session has ended")
    rows, key, port = max((len([f for f in r("HKEYS", k) if f[:1] == b"r"]), k, port)
                          for port in world.cluster.primaries
                          for r in [world.cluster.redis(port)]
                          for k in r("KEYS", world.db + ":*") if r("TYPE", k) == b"hash")
    r = world.cluster.redis(port)
    fields = [b"i" + f[1:] for f in sorted(r("HKEYS", key)) if f[:1] == b"r"][:3]
    tap.ok(rows >= 20, f"{name}: a leaf is found", rows)
    before = [claim(theirs, b"L"), claim(theirs, b"L") + claim(mine, b"W", 1) + claim(theirs, b"W", 2),
              claim(mine, b"L")]
    for field, stored in zip(fields, before):
        r("HSET", key, field, stored)
    tap.ok(world.maintain(live)["intents_removed"] >= 3, f"{name}: maintenance takes those of the dead away")
    after = [r("HGET", key, field) for field in fields]
    tap.equal(after[0], None, f"{name}: where nobody waits nothing is left")
    tap.equal(after[1] and after[1][16:17], b"L", f"{name}: who waits has the lock")
    tap.equal(after[1] and len(after[1]), 22, f"{name}: alone")
    tap.equal(r("LLEN", key + b":w:" + b"%016x%016x" % mine), 1, f"{name}: and is told")
    tap.equal(after[2], before[2], f"{name}: that of a session that lives stays")
    for field in fields:
        r("HDEL", key, field)
    tap.equal([f for t in TABLES for f in findings(live, t)[0]], [], f"{name}: all is in order")
    live.close()


# ---- the worker ----

def worker(cluster, one):
    """A server of its own, with the library preloaded."""
    name = "worker"
    server = Server("keeper", ["shared_preload_libraries=mosql_fdw", "mosql_fdw.maintenance_naptime=1",
                               "mosql_fdw.maintenance_rate=0"])
    world = World(cluster, one, server, "script", "kept")
    clock = world.clock
    conn = server.connect(world.db)

    def settled(before=0):
        """A pass ended, that began after now."""
        since = value(conn, "SELECT clock_timestamp()")
        return wait_until(lambda: query(conn, "SELECT 1 FROM mosql_fdw_progress WHERE operation = 'maintenance' "
                                        "AND state = 'ended' AND started > %s", (since,)), pause=0.1)

    tap.ok(settled(), f"{name}: it works by itself")
    world.victim("after-decide", WORK.format(tag="w1", number=21))
    sid = clock.newest()
    numbers = []
    wait_until(lambda: numbers.extend(clock.records(sid)) or numbers)
    clock.end_lease(sid)
    tap.ok(wait_until(lambda: sid not in clock.sessions() and not world.intents(conn), pause=0.2),
           f"{name}: it finishes what a dead front-end committed", clock.sessions())
    tap.equal(value(conn, "SELECT count(*) FROM log WHERE tag = 'w1'"), 200, f"{name}: all of it is there")
    tap.equal(world.fate(conn, f"{sid}.{max(numbers)}") if numbers else None, "committed", f"{name}: and known")
    tap.ok(wait_until(lambda: value(conn, "SELECT reltuples FROM pg_class WHERE relname = 'acct'") > 0, pause=0.2),
           f"{name}: it analyzes tables")

    # idle: next to nothing
    tap.ok(wait_until(lambda: query(conn, "SELECT 1 FROM mosql_fdw_progress WHERE operation = 'maintenance' "
                                    "AND outcome = 'idle'"), pause=0.2), f"{name}: it rests when nothing is written")

    # killed: PostgreSQL restarts, and it goes on
    query(conn, "UPDATE acct SET note = 'x' WHERE id = 1")
    with contextlib.closing(server.connect()) as c:
        query(c, f"ALTER DATABASE {world.db} SET mosql_fdw.debug_crash_at = 'maintain-vacuum'")
    tap.ok(wait_until(lambda: attempt(conn, "SELECT 1")[1] is not None, pause=0.2), f"{name}: it is killed")
    tap.ok(server.wait_up(), f"{name}: PostgreSQL is back")
    began = []

    def calm():
        """No worker is to be killed any more; the next one may be quicker than we are."""
        with contextlib.suppress(psycopg2.Error), contextlib.closing(server.connect()) as c:
            if not began:
                query(c, f"ALTER DATABASE {world.db} RESET mosql_fdw.debug_crash_at")
                began.append(value(c, "SELECT clock_timestamp()"))
            alive = ("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'mosql_fdw maintenance' "
                     "AND backend_start <= %s")
            if value(c, alive, (began[0],)) == 0:
                time.sleep(0.5)         # one that has its settings, and is not shown yet
                return value(c, alive, (began[0],)) == 0
        return False
    tap.ok(wait_until(calm, 60, 0.2), f"{name}: and stays there")
    for s in clock.sessions():
        clock.end_lease(s)
    conn = server.connect(world.db)
    tap.ok(settled(), f"{name}: it goes on after that")

    # Redis away: errors are logged, nothing else ends
    launcher = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'mosql_fdw launcher'"
    pid = value(conn, launcher)
    port = cluster.owner(clock.prefix + "c")
    cluster.remember_pids()
    before = len(re.findall("maintenance of server", server.log()))
    cluster.signal(port, signal.SIGSTOP)
    tap.ok(wait_until(lambda: len(re.findall("maintenance of server", server.log())) > before, pause=0.2),
           f"{name}: that Redis is away is logged")
    time.sleep(2)
    cluster.signal(port, signal.SIGCONT)
    times = len(re.findall("maintenance of server", server.log())) - before
    tap.ok(times <= 4, f"{name}: not over and over", times)
    tap.equal(value(conn, launcher), pid, f"{name}: the launcher lives")
    tap.ok(settled(), f"{name}: it goes on when Redis is back")

    # switched off and on
    query(conn, "ALTER SYSTEM SET mosql_fdw.maintenance = off")
    query(conn, "SELECT pg_reload_conf()")

    def rests():
        last = value(conn, "SELECT max(updated) FROM mosql_fdw_progress")
        time.sleep(2)
        return value(conn, "SELECT max(updated) FROM mosql_fdw_progress") == last
    tap.ok(wait_until(rests), f"{name}: it can be switched off")
    job = clock("HGET", "j", "maintenance").split(b" ", 5)
    job[3] = b"%d" % (int(job[3]) + 86400 * 1000000)
    clock("HSET", "j", "maintenance", b" ".join(job))
    query(conn, "ALTER SYSTEM SET mosql_fdw.maintenance = on")
    query(conn, "SELECT pg_reload_conf()")
    tap.ok(settled(), f"{name}: and on, though the last pass was when the server's time was a day ahead")

    # ended like any background process
    query(conn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'mosql_fdw launcher'")
    tap.ok(wait_until(lambda: (query(conn, launcher) or [(pid,)])[0][0] != pid, pause=0.2),
           f"{name}: a launcher that was ended is started again")
    tap.equal(server.crashes(), [], f"{name}: nothing died of itself")

    # in nobody's way who needs the database without sessions: he waits for five seconds, and a pass takes longer
    query(conn, "ALTER SYSTEM SET mosql_fdw.maintenance_rate = 1")
    query(conn, "SELECT pg_reload_conf()")
    query(conn, "UPDATE acct SET note = 'y'")
    conn.close()
    with contextlib.closing(server.connect()) as c:
        busy = (f"SELECT 1 FROM pg_stat_activity WHERE backend_type = 'mosql_fdw maintenance' AND datname = '{world.db}' "
                "AND query LIKE 'maintenance of server%%' AND clock_timestamp() > xact_start + interval '1 s'")
        for command in (f"CREATE DATABASE kept_copy TEMPLATE {world.db}", f"DROP DATABASE {world.db}"):
            tap.ok(wait_until(lambda: query(c, busy), pause=0.1), f"{name}: a pass is under way")
            tap.equal(attempt(c, command)[1], None, f"{name}: it gives way to {command.split()[0]} DATABASE")


def body():
    parts = sys.argv[1:] or ["orphans", "unknown", "killed", "election", "load", "locks", "worker"]
    cluster = Cluster("maintain")
    plain = Cluster("maintain-plain", plain=True)
    # without a keeper (t/keeper.py), which ends sessions before their leases do
    one, two = (Server(f"maintain{i}", ["max_worker_processes=0"]) for i in (1, 2))
    for engine in ENGINES:
        world = World(cluster, one, two, engine, f"maintain_{engine}")
        if "orphans" in parts:
            with section(f"{engine}, orphans"):
                orphans(world)
        if "unknown" in parts:
            with section(f"{engine}, unknown"):
                unknown(plain, one, two, engine)
        if "killed" in parts and engine == "script":
            with section(f"{engine}, killed"):
                killed(world)
        if "election" in parts and engine == "script":
            with section(f"{engine}, election"):
                election(world)
        if "load" in parts:
            with section(f"{engine}, load"):
                load(world)
        if "locks" in parts:
            with section(f"{engine}, locks"):
                locks(world)
    if "worker" in parts:
        with section("worker"):
            worker(cluster, one)
    tap.equal(one.crashes() + two.crashes(), [], "no backend died of itself")


main(body)
