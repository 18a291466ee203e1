#!/usr/bin/python3
"""What the planner has proved from a unique index or a primary key stays true, or is not
used, when another PostgreSQL server changes it: joins that were removed, inner sides of
which one match was enough, for fresh plans and cached ones.

    t/proofs.py"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

TABLES = """
    CREATE FOREIGN TABLE o (id int OPTIONS (key 'true') NOT NULL, x int) SERVER redis;
    CREATE FOREIGN TABLE i (id int OPTIONS (key 'true') NOT NULL, u int, v int NOT NULL) SERVER redis;
    CREATE UNIQUE INDEX i_u ON i (u);
    INSERT INTO o SELECT n, n FROM generate_series(1, 20) n;
    INSERT INTO i SELECT n, n, n FROM generate_series(1, 20) n;"""

# the query, and what it says of the 20 rows, of which one has a duplicate of u afterwards
QUERIES = {
    "a join removed": ("SELECT count(o.id) FROM o LEFT JOIN i ON o.x = i.u", 20, 21),
    "the same, with a read of one row by key":
        ("SELECT o.x FROM o LEFT JOIN i ON o.x = i.u WHERE o.id = 7", [(7,)], [(7,), (7,)]),
    "a join of which one match is enough":
        ("SELECT count(i.v) FROM o JOIN i ON o.x = i.u", 20, 21),
    "a semijoin made a join": ("SELECT count(*) FROM i WHERE u IN (SELECT x FROM o)", 20, 21),
    "a self-join": ("SELECT count(*) FROM i a JOIN i b ON a.u = b.u", 20, 23),
}


def answer(conn, sql):
    """Its rows, or value, and how often it had to be run until it worked."""
    for tries in range(1, 4):
        rows, state = attempt(conn, sql)
        if state is None:
            return (rows[0][0] if "count" in sql else rows), tries
        if state != "40001":
            return state, tries
    return state, tries


def check(pair, name, what, change, index):
    """b asks, a changes, b asks again."""
    sql, before, after = QUERIES[name] if name in QUERIES else (name, None, None)
    a, b = pair
    query(a, TABLES)
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (o, i) FROM SERVER redis INTO public")
    ask = sql
    if what == "cached":
        query(b, f"SET plan_cache_mode = force_generic_plan; PREPARE q AS {sql}")
        ask = "EXECUTE q"
    for _ in range(2):
        tap.equal(answer_of(b, ask, sql)[0], before, f"{name}, {what}: before {index}")
    query(a, change)
    got, tries = answer_of(b, ask, sql)
    tap.ok(got == after and tries <= 2, f"{name}, {what}: after {index}, at once or with a retry",
           f"got {got!r}, wanted {after!r}, tries {tries}")
    tap.equal(answer_of(b, ask, sql), (after, 1), f"{name}, {what}: and then at once")
    if what == "cached":
        query(b, "DEALLOCATE q")
    query(a, "DROP FOREIGN TABLE o, i")
    query(b, "SET mosql_fdw.drop_data = off; DROP FOREIGN TABLE o, i; RESET mosql_fdw.drop_data")


def answer_of(conn, ask, sql):
    """As answer(), for a statement that was prepared."""
    got, tries = answer(conn, ask)
    if "count" in sql and isinstance(got, list):
        got = got[0][0]
    return got, tries


DROPPED = "DROP INDEX i_u; INSERT INTO i VALUES (21, 7, 7)"
CHANGED = """DROP INDEX i_u; CREATE UNIQUE INDEX i_u ON i (u, id); INSERT INTO i VALUES (21, 7, 7)"""


def indexes(pair):
    for name in QUERIES:
        for what in ("fresh", "cached"):
            check(pair, name, what, DROPPED, "the index was dropped")
    check(pair, "a join removed", "cached", CHANGED, "the index was changed")
    check(pair, "a join removed", "fresh", CHANGED, "the index was changed")


def primary_key(pair):
    """The key becomes (id, u): that is 42P16 on the other server, also for a plan without it."""
    a, b = pair
    query(a, TABLES)
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (o, i) FROM SERVER redis INTO public")
    query(b, """SET plan_cache_mode = force_generic_plan;
        PREPARE q AS SELECT count(o.id) FROM o LEFT JOIN i ON o.x = i.id""")
    tap.equal(answer_of(b, "EXECUTE q", "count")[0], 20, "a join removed by the primary key: before")
    query(a, """DROP INDEX i_u; ALTER FOREIGN TABLE i ALTER u SET NOT NULL, ALTER u OPTIONS (ADD key 'true');
        INSERT INTO i VALUES (7, 8, 7)""")
    for what, ask in (("cached", "EXECUTE q"), ("fresh", "SELECT count(o.id) FROM o LEFT JOIN i ON o.x = i.id")):
        state = answer(b, ask)[0]
        tap.equal(state, "42P16", f"... {what}: after the key was changed the error says so")
    query(b, "SELECT mosql_fdw_refresh('i')")
    for ask in ("EXECUTE q", "SELECT count(o.id) FROM o LEFT JOIN i ON o.x = i.id"):
        tap.equal(answer_of(b, ask, "count")[0], 21, "... and right after mosql_fdw_refresh()")


def refresh(pair):
    """An index of the same name that is another one now."""
    a, b = pair
    query(a, "DROP FOREIGN TABLE o, i")
    query(b, "SET mosql_fdw.drop_data = off; DROP FOREIGN TABLE o, i; RESET mosql_fdw.drop_data")
    query(a, TABLES)
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (o, i) FROM SERVER redis INTO public")
    query(a, "DROP INDEX i_u; CREATE UNIQUE INDEX i_u ON i (v, u DESC)")
    upsert = "INSERT INTO i VALUES (30, 7, 7) ON CONFLICT (v, u) DO UPDATE SET v = 70"
    tap.equal(attempt(b, upsert)[1], "42P10", "an index of the same name, changed: unknown at first")
    query(b, "SELECT mosql_fdw_refresh('i')")
    tap.equal(value(b, "SELECT pg_get_indexdef('i_u'::regclass)"),
              "CREATE UNIQUE INDEX i_u ON public.i USING mosql (v, u DESC)", "... and shown after mosql_fdw_refresh()")
    tap.equal(attempt(b, upsert)[1], None, "... and used")
    tap.equal(query(a, "SELECT id, v FROM i WHERE id IN (7, 30)"), [(7, 70)], "... rightly")


def in_transaction(pair):
    """A transaction keeps to what it saw, or fails."""
    a, b = pair
    for level in (READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE):
        query(a, "DROP FOREIGN TABLE IF EXISTS o, i")
        query(b, "SET mosql_fdw.drop_data = off; DROP FOREIGN TABLE IF EXISTS o, i; RESET mosql_fdw.drop_data")
        query(a, TABLES)
        query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (o, i) FROM SERVER redis INTO public")
        sql = QUERIES["a join removed"][0]
        query(b, f"BEGIN ISOLATION LEVEL {level}")
        tap.equal(value(b, sql), 20, f"{level}: before")
        query(a, DROPPED)
        rows, state = attempt(b, sql)
        if level == READ_COMMITTED:
            tap.equal(state, "40001", f"{level}: a statement at a snapshot after the change fails")
        else:
            tap.equal((rows, state), ([(20,)], None), f"{level}: as of its snapshot")
        query(b, "ROLLBACK")
        tap.equal(answer(b, sql)[0], 21, f"{level}: the next transaction is right")


def harmless(pair):
    """What makes no plan wrong fails no statement."""
    a, b = pair
    query(a, "DROP FOREIGN TABLE o, i")
    query(b, "SET mosql_fdw.drop_data = off; DROP FOREIGN TABLE o, i; RESET mosql_fdw.drop_data")
    query(a, TABLES)
    query(b, "IMPORT FOREIGN SCHEMA public LIMIT TO (o, i) FROM SERVER redis INTO public")
    sql = QUERIES["a join removed"][0]
    query(b, f"SET plan_cache_mode = force_generic_plan; DEALLOCATE ALL; PREPARE q AS {sql}")
    for change in ("CREATE INDEX i_v ON i (v)", "CREATE FOREIGN TABLE other (id int OPTIONS (key 'true')) SERVER redis",
                   "COMMENT ON FOREIGN TABLE i IS 'x'", "ALTER FOREIGN TABLE i ALTER v SET DEFAULT 5"):
        tap.equal(answer_of(b, "EXECUTE q", sql), (20, 1), f"before {change}")
        query(a, change)
        tap.equal(answer_of(b, "EXECUTE q", sql), (20, 1), "... at once right after it")


def body():
    cluster = Cluster("proofs")
    servers = [Server("proofs1"), Server("proofs2")]
    for server in servers:
        make_database(server, "shared", cluster.nodes)
    pair = [s.connect("shared") for s in servers]
    for part in (indexes, primary_key, refresh, in_transaction, harmless):
        with section(part.__name__):
            part(pair)
    for server in servers:
        tap.equal(server.crashes(), [], "no backend crashed")


main(body)
