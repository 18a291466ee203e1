#!/usr/bin/python3
"""Hooks below ours and above it see the statements that we do ourselves: pg_stat_statements, loaded
before us or after us, counts the same for tables in Redis as for PostgreSQL's own.

    t/hooks.py"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

STATEMENTS = (
    "CREATE TABLE a (id int PRIMARY KEY, t text)",
    "CREATE TABLE a (id int)",                                  # there is one: not counted
    "CREATE INDEX a_t ON a (t)",
    "CREATE INDEX a_nosuch ON a (nosuch)",
    "CREATE TABLE b AS SELECT i FROM generate_series(1, 3) i",
    "CREATE TABLE c (id int PRIMARY KEY REFERENCES a)",
    "DO $$ BEGIN CREATE INDEX nested ON a (t DESC); END $$",
    "BEGIN", "LOCK TABLE a, b", "COMMIT",
    "ALTER TABLE a ADD COLUMN x int UNIQUE, DROP COLUMN t",     # one, that we do in two parts
    "ALTER TABLE a ADD COLUMN y int",
    "COMMENT ON TABLE a IS 'commented'",
    "VACUUM a",
    "VACUUM (ANALYZE) a, b",
    "CREATE INDEX CONCURRENTLY a_y ON a (y)",
    "REINDEX INDEX CONCURRENTLY a_y",
    "CLUSTER a USING a_pkey",
    "TRUNCATE a, c",
    "CREATE TABLE h (i int) USING heap",
    "DROP TABLE c, h",
    "DROP TABLE b",
    "DROP INDEX CONCURRENTLY a_y",
    "DROP TABLE a",
)
COUNTED = ("SELECT query, toplevel, calls, rows FROM public.pg_stat_statements WHERE dbid ="
           " (SELECT oid FROM pg_database WHERE datname = current_database())"
           " AND query ~ '^(CREATE|DO|LOCK|ALTER|COMMENT|VACUUM|REINDEX|CLUSTER|TRUNCATE|DROP)'"
           " AND (toplevel OR query ~ 'nested') ORDER BY query COLLATE \"C\", toplevel")


def told(server, **settings):
    """What comes of the statements, and what is counted of them."""
    with contextlib.closing(server.connect("hooks", **settings)) as conn:
        query(conn, "LOAD 'mosql_fdw'")
        query(conn, "SET pg_stat_statements.track = 'all'")
        query(conn, "SELECT public.pg_stat_statements_reset()")
        said = [attempt(conn, sql) for sql in STATEMENTS]
        return said, query(conn, COUNTED)


def compare(server, cluster, libraries):
    """The same statements on PostgreSQL's own tables and ours, with these libraries loaded in this order."""
    with contextlib.closing(server.connect()) as conn:
        query(conn, f"ALTER SYSTEM SET shared_preload_libraries = {libraries}")
    server.restart()
    make_database(server, "hooks", cluster.nodes, {}, "CREATE EXTENSION pg_stat_statements; CREATE SCHEMA own; CREATE SCHEMA ours")
    theirs = told(server, search_path="own")
    found = told(server, search_path="ours", **{"mosql_fdw.default_server": "redis"})
    tap.equal([(sql, what) for sql, what in zip(STATEMENTS, found[0])], [(sql, what) for sql, what in zip(STATEMENTS, theirs[0])],
              f"{libraries}: the statements do the same")
    tap.equal(found[1], theirs[1], "and are counted the same")
    with contextlib.closing(server.connect()) as conn:
        query(conn, "DROP DATABASE hooks")


def body():
    cluster = Cluster("hooks", plain=True)
    server = Server("hooks")
    with contextlib.closing(server.connect()) as conn:
        if not query(conn, "SELECT 1 FROM pg_available_extensions WHERE name = 'pg_stat_statements'"):
            tap.skip("what pg_stat_statements counts", "it is not installed")
            return
    compare(server, cluster, "pg_stat_statements")
    compare(server, cluster, "mosql_fdw, pg_stat_statements")


main(body)
