#!/usr/bin/python3
"""Queries whose scans parallel workers divide.

  bank    transfers, late-bound increments, and rows that come and go, so that leaves are split and
          merged: each sum that workers add up is that of one moment, at both levels
  killed  a worker is ended while it reads, or the query is cancelled: the query fails, and says no
          number; nothing stays at the clock
  early   who wants a few rows only does not meet an error of those who still read

    t/parallel.py [PART]..."""
import contextlib
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import mosqltest
from mosqltest import *

mosqltest.BUILD = "small"       # leaves of four rows
ROWS = 4000
TOTAL = ROWS * 100
SECONDS = 15
SETTINGS = {"min_parallel_table_scan_size": 0, "parallel_setup_cost": 0, "parallel_tuple_cost": 0,
            "max_parallel_workers_per_gather": 2}
DDL = "CREATE FOREIGN TABLE t (id int OPTIONS (key 'true') NOT NULL, n int NOT NULL) SERVER redis OPTIONS (fdw_startup_cost '0', fdw_tuple_cost '5')"
SLOW_QUERY = "SELECT count(*) FROM t WHERE pg_sleep(0.005) IS NOT NULL"


def transfer(conn, rng):
    """Moves some money, in one of several ways; rows that are not multiples of ten come and go with nothing."""
    kind = rng.random()
    a, b = (10 * rng.randint(1, ROWS) for _ in range(2))
    amount = rng.randint(1, 50)
    with conn.cursor() as c:
        if kind < .4:
            c.execute(f"UPDATE t SET n = n - {amount} WHERE id = {a}")
            c.execute(f"UPDATE t SET n = n + {amount} WHERE id = {b}")
        elif kind < .6:
            c.execute(f"UPDATE t SET n = n + CASE id WHEN {a} THEN -{amount} ELSE {amount} END WHERE id IN ({a}, {b})"
                      if a != b else "SELECT 1")
        elif kind < .9:
            c.execute(f"INSERT INTO t SELECT {a} + i, 0 FROM generate_series(1, 9) i ON CONFLICT DO NOTHING")
        else:
            c.execute(f"DELETE FROM t WHERE id > {a} AND id < {a} + 500 AND id % 10 > 0")
    conn.commit()


def is_shared(conn, sql):
    plan = "\n".join(r[0] for r in query(conn, "EXPLAIN (ANALYZE, COSTS OFF) " + sql))
    return "Parallel Foreign Scan" in plan and "Workers Launched: 0" not in plan and "Workers Launched" in plan


def bank(server, db):
    wrong, sums, conflicts, shared = [], {}, {}, {}
    with Clients() as crowd, contextlib.closing(server.connect(db)) as owner:
        for i in range(3):
            crowd.add(Client(server, db, transfer, i))
        stop = threading.Event()

        def maintain():
            with contextlib.closing(server.connect(db)) as c:
                while not stop.is_set():
                    attempt(c, "SELECT * FROM mosql_fdw_maintain('redis')")
                    time.sleep(0.5)

        def look(level):
            sums[level] = conflicts[level] = shared[level] = 0
            with contextlib.closing(server.connect(db, False, level, **SETTINGS)) as c:
                while not stop.is_set():
                    try:
                        seen = [query(c, "SELECT sum(n), count(*) FILTER (WHERE id % 10 = 0) FROM t")[0]
                                for _ in range(2)]
                        if sums[level] % 5 == 0:
                            shared[level] += is_shared(c, "SELECT sum(n) FROM t")
                        c.commit()
                    except psycopg2.Error as e:
                        if state_of(c, e) != CONFLICT:
                            wrong.append(str(e))
                        conflicts[level] += 1
                        c.rollback()
                        continue
                    sums[level] += 1
                    wrong.extend(s for s in seen if s != (TOTAL, ROWS))
                    if level == "REPEATABLE READ" and seen[0] != seen[1]:
                        wrong.append(seen)
        threads = [threading.Thread(target=maintain)] + \
            [threading.Thread(target=look, args=(level,)) for level in ("READ COMMITTED", "REPEATABLE READ")]
        for t in threads:
            t.start()
        time.sleep(SECONDS)
        stop.set()
        for t in threads:
            t.join(LONG_WAIT)
        crowd.stop()
        errors = {}
        for c in crowd.all:
            tap.equal(c.crash, None, "a client runs to its end")
            for state in c.errors:
                if state not in (CONFLICT, DEADLOCK):
                    errors[state] = c.messages[state]
        tap.equal(errors, {}, "writers meet conflicts alone")
        tap.equal(wrong[:5], [], "each sum is of one moment")
        tap.ok(all(sums.values()) and all(shared.values()), "sums were added up, by workers, at both levels",
               (sums, conflicts, shared))
        tap.note(f"{sums} sums, {conflicts} conflicts, {sum(c.done for c in crowd.all)} transactions")
        tap.equal(findings(owner, "t")[0], [], "nothing is broken")
        tap.equal(value(owner, "SELECT sum(n) FROM t"), TOTAL, "no money is lost")


def sessions_of_workers(probe):
    """Sessions at the clock but for those of processes that clients have."""
    return query(probe, "SELECT s.pid, s.snapshots FROM mosql_fdw_sessions('redis') s WHERE s.state = 'alive' AND NOT s.own "
                        "AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = s.pid)")


def killed(server, db):
    with contextlib.closing(server.connect(db)) as probe:
        for how in ("pg_terminate_backend", "pg_cancel_backend", "of the leader"):
            with contextlib.closing(server.connect(db, **SETTINGS)) as c:
                pid, result = c.info.backend_pid, []
                thread = threading.Thread(target=lambda: result.append(error_of(c, SLOW_QUERY)))
                thread.start()
                worker = wait_until(lambda: query(probe, "SELECT pid FROM pg_stat_activity WHERE leader_pid = %s AND "
                                                         "wait_event = 'PgSleep'", (pid,)))
                tap.ok(worker, f"{how}: a worker reads")
                time.sleep(0.2)
                if how == "of the leader":
                    query(probe, "SELECT pg_cancel_backend(%s)", (pid,))
                else:
                    query(probe, f"SELECT {how}(%s)", worker[0])
                thread.join(LONG_WAIT)
                tap.ok(result and result[0][0] in ("57P01", "57014"), f"{how}: the query fails", result)
                tap.equal(attempt(c, "SELECT count(*) % 10 FROM t")[1], None, f"{how}: its session goes on")
                tap.equal(wait_until(lambda: not sessions_of_workers(probe)), True,
                          f"{how}: no session of a worker stays at the clock")
                tap.equal(query(probe, "SELECT coalesce(sum(snapshots), 0)::int FROM mosql_fdw_sessions('redis')"), [(0,)],
                          f"{how}: no snapshot stays at the clock")


def early(server, db):
    with contextlib.closing(server.connect(db, **SETTINGS)) as c, contextlib.closing(server.connect(db)) as other:
        tap.ok(is_shared(c, "SELECT * FROM t WHERE n > -1000000 LIMIT 5"), "workers read for a LIMIT")
        failed = []
        for i in range(20):
            rows, state = attempt(c, "SELECT id FROM t WHERE n > -1000000 LIMIT 3")
            if state or len(rows) != 3:
                failed.append((rows, state))
        tap.equal(failed, [], "the rows that are wanted come, and no error")
        tap.equal(wait_until(lambda: query(other, "SELECT coalesce(sum(snapshots), 0)::int FROM mosql_fdw_sessions('redis')")
                             == [(0,)]), True, "no snapshot stays at the clock")


PARTS = {"bank": bank, "killed": killed, "early": early}


def body():
    parts = sys.argv[1:] or list(PARTS)
    cluster = Cluster("parallel", primaries=2)
    server = Server("parallel", ("max_worker_processes=32", "max_parallel_workers=16",
                                 "session_preload_libraries=mosql_fdw",
                                 "mosql_fdw.debug_lease=10000"))    # of who ends in the middle of an exchange, and cannot say so
    make_database(server, "parallel", cluster.nodes, ddl=DDL)
    with contextlib.closing(server.connect("parallel")) as c:
        query(c, f"INSERT INTO t SELECT i * 10, 100 FROM generate_series(1, {ROWS}) i")
        query(c, "ANALYZE t")
    for name in parts:
        with section(name):
            PARTS[name](server, "parallel")
    tap.equal(server.crashes(), [], "no backend has crashed")


main(body)
