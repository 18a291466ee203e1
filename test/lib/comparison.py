"""The same statement on tables in Redis and on PostgreSQL's own: what each says, in a form
that is equal if they agree; t/compare.py and t/conditions.py."""
import decimal

import psycopg2

from mosqltest import *

WORDS = ["", "a", "A", "ab", "aB", "b", "B", "é", "z", "a b", "a%", "x_y"]


def make_compared(server, db, cluster, **options):
    """A database for it; reading rows is dear, so that small tables use their indexes."""
    make_database(server, db, cluster.nodes, {"fdw_tuple_cost": "100", "fdw_startup_cost": "0", **options},
                  ddl="CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'a')")


def plain(value, loosely):
    """loosely: which of several equal values stands for them is nobody's promise."""
    if isinstance(value, memoryview):
        return bytes(value)
    if loosely and isinstance(value, float) and value == 0:
        return 0.0
    if loosely and isinstance(value, decimal.Decimal) and value.is_finite():
        return value.normalize() + 0
    return value


def answer(conn, sql, any_order, loosely):
    """Its rows as texts, or how many rows it changed; for an error a tuple, SQLSTATE and text."""
    try:
        with conn.cursor() as c:
            c.execute(sql)
            if c.description is None:
                return c.rowcount
            rows = [repr(tuple(plain(v, loosely) for v in row)) for row in c.fetchall()]
            return sorted(rows) if any_order else rows
    except psycopg2.Error as e:
        return (state_of(conn, e), str(e).strip())


def agree(here, there):
    """Errors of the same SQLSTATE are the same."""
    if isinstance(here, tuple) and isinstance(there, tuple):
        return here[0] == there[0]
    return here == there
