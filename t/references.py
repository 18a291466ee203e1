#!/usr/bin/python3
"""Two PostgreSQL servers, one namespace: a foreign key that one declares is enforced by
both, or what would break it is refused.

    t/references.py"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

WRITERS = 3                     # sessions per server
SECONDS = 10
PARENTS = 12

UNKNOWN = "not known to this server"
KEYS = "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' ORDER BY 1"
IMPORT = "IMPORT FOREIGN SCHEMA public LIMIT TO (%s) FROM SERVER redis INTO public"


class Pair:
    def __init__(self, servers):
        self.servers = servers
        self.a, self.b = (s.connect("shared") for s in servers)

    def refused(self, conn, what, sql, state, words=""):
        got, said = error_of(conn, sql)
        if got == "40001":      # somebody else's definition was new to it
            got, said = error_of(conn, sql)
        tap.ok(got == state and words in (said or ""), what, f"{got} {said}")

    def works(self, conn, what, sql):
        self.refused(conn, what, sql, None)


def known_to_one(pair):
    """What b may do with one of the two tables."""
    a, b = pair.a, pair.b
    query(a, "CREATE TABLE p (id int PRIMARY KEY, v text, n int NOT NULL DEFAULT 0, u int UNIQUE);"
          "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE, x int)")
    query(a, "INSERT INTO p SELECT g, 'x', 0, g FROM generate_series(1, 9) g; INSERT INTO c VALUES (1, 1)")
    query(b, IMPORT % "p")
    pair.works(b, "parent alone: INSERT", "INSERT INTO p VALUES (10, 'ten', 0, 10)")
    pair.works(b, "parent alone: UPDATE", "UPDATE p SET v = 'y' WHERE id = 1")
    pair.works(b, "parent alone: n = n + 1", "UPDATE p SET n = n + 1 WHERE id = 1")
    pair.refused(b, "parent alone: DELETE", "DELETE FROM p WHERE id = 9", "55000", UNKNOWN)
    pair.refused(b, "parent alone: another key", "UPDATE p SET id = 20 WHERE id = 9", "55000", UNKNOWN)
    pair.refused(b, "parent alone: ON CONFLICT that changes the key",
                 "INSERT INTO p VALUES (9) ON CONFLICT (id) DO UPDATE SET id = 30", "55000", UNKNOWN)
    pair.refused(b, "parent alone: TRUNCATE", "TRUNCATE p", "0A000", "referenced")
    pair.refused(b, "parent alone: DROP TABLE", "DROP TABLE p", "2BP01", UNKNOWN)
    pair.refused(b, "parent alone: another type", "ALTER TABLE p ALTER id TYPE bigint", "2BP01", UNKNOWN)
    query(b, "SET mosql_fdw.drop_data = off; DROP TABLE p; RESET mosql_fdw.drop_data")
    query(b, IMPORT % "c")
    pair.refused(b, "child alone: INSERT", "INSERT INTO c VALUES (2, 2)", "55000", UNKNOWN)
    pair.refused(b, "child alone: another parent", "UPDATE c SET p = 2", "55000", UNKNOWN)
    pair.refused(b, "child alone: p + 1", "UPDATE c SET p = p + 1 WHERE id = 1", "55000", UNKNOWN)
    pair.works(b, "child alone: UPDATE", "UPDATE c SET x = 1")
    pair.works(b, "child alone: DELETE", "DELETE FROM c WHERE id = 1")
    query(a, "INSERT INTO c VALUES (1, 1)")
    query(b, IMPORT % "p")


def known_to_both(pair):
    a, b = pair.a, pair.b
    tap.equal(query(b, KEYS), query(a, KEYS), "imported one by one: the foreign key is there")
    pair.refused(b, "insert without parent", "INSERT INTO c VALUES (2, 99)", "23503")
    pair.works(b, "insert with parent", "INSERT INTO c VALUES (2, 2)")
    pair.works(b, "delete", "DELETE FROM p WHERE id = 2")
    tap.equal(query(a, "SELECT id, p FROM c ORDER BY id"), [(1, 1)], "the other server sees the cascade")
    query(a, "ALTER TABLE c ADD CONSTRAINT more FOREIGN KEY (x) REFERENCES p (u)")
    pair.refused(b, "a new one is not known: child", "INSERT INTO c VALUES (3, 3, 3)", "55000", "mosql_fdw_refresh")
    pair.refused(b, "a new one is not known: parent", "DELETE FROM p WHERE id = 3", "55000", "mosql_fdw_refresh")
    pair.refused(b, "... nor that its index is needed", "ALTER TABLE p DROP CONSTRAINT p_u_key", "2BP01", UNKNOWN)
    tap.equal(query(b, "SELECT kind, name FROM mosql_fdw_gc('redis')"), [("foreign key", "more")],
              "mosql_fdw_gc() names it")
    query(b, "SELECT mosql_fdw_refresh('c')")
    tap.equal(query(b, "SELECT * FROM mosql_fdw_gc('redis')"), [], "refreshed: nothing differs")
    pair.refused(b, "refreshed: child", "INSERT INTO c VALUES (3, 3, 99)", "23503", "more")
    pair.works(b, "refreshed: INSERT", "INSERT INTO c VALUES (3, 3, 4)")
    pair.refused(b, "refreshed: parent", "DELETE FROM p WHERE id = 4", "23503", "more")
    query(a, "ALTER TABLE c DROP CONSTRAINT more; ALTER TABLE c ADD CONSTRAINT more FOREIGN KEY (x)"
          " REFERENCES p (u) ON DELETE SET NULL")
    pair.refused(b, "another one of that name", "DELETE FROM p WHERE id = 4", "55000", "mosql_fdw_refresh")
    query(b, "SELECT mosql_fdw_refresh('c')")
    pair.works(b, "refreshed: its action", "DELETE FROM p WHERE id = 4")
    tap.equal(query(a, "SELECT x FROM c WHERE id = 3"), [(None,)], "... is done")
    query(a, "ALTER TABLE c DROP CONSTRAINT more; CREATE TABLE q (id int PRIMARY KEY);"
          "ALTER TABLE c ADD CONSTRAINT more FOREIGN KEY (x) REFERENCES p")
    query(b, "SELECT mosql_fdw_refresh('c'); " + IMPORT % "q")
    query(a, "ALTER TABLE c DROP CONSTRAINT more; ALTER TABLE c ADD CONSTRAINT more FOREIGN KEY (x) REFERENCES q")
    pair.refused(b, "one of that name that leads to another table", "INSERT INTO c VALUES (4, 3, 3)", "55000",
                 "mosql_fdw_refresh")
    query(a, "ALTER TABLE c DROP CONSTRAINT more; DROP TABLE q")
    query(b, "SET mosql_fdw.drop_data = off; DROP TABLE q CASCADE; RESET mosql_fdw.drop_data")
    pair.works(b, "dropped by the other server", "INSERT INTO c VALUES (4, 3, 99)")
    query(b, "SELECT mosql_fdw_refresh('p')")
    tap.equal(query(b, "SELECT conname FROM pg_constraint WHERE contype = 'f'"), [("c_p_fkey",)],
              "refreshed: it is gone")
    query(b, "ALTER TABLE c RENAME CONSTRAINT c_p_fkey TO renamed")
    pair.refused(b, "renamed here", "INSERT INTO c VALUES (5, 99)", "23503", "renamed")
    pair.refused(a, "renamed there", "INSERT INTO c VALUES (5, 99)", "55000", "mosql_fdw_refresh")
    query(a, "SELECT mosql_fdw_refresh('c')")
    pair.refused(a, "renamed there, refreshed", "INSERT INTO c VALUES (5, 99)", "23503", "renamed")


def attached(pair):
    """CREATE TABLE, and a dump, of what is in Redis."""
    a, b = pair.a, pair.b
    bindir = run(os.environ.get("PG_CONFIG", "pg_config"), "--bindir").strip()
    args = lambda s: ["-h", s.args["host"], "-p", s.args["port"], "-U", "postgres"]
    file = os.path.join(pair.servers[1].home, "dump.sql")
    drop = "SET mosql_fdw.drop_data = off; DROP TABLE c, p; RESET mosql_fdw.drop_data"

    query(a, "ANALYZE p, c")
    run(f"{bindir}/pg_dump", *args(pair.servers[0]), "-d", "shared", "-f", file)
    query(b, drop)
    text = open(file).read()
    tap.ok("ADD CONSTRAINT renamed FOREIGN KEY (p) REFERENCES public.p(id) ON DELETE CASCADE" in text
           and "CREATE TRIGGER" not in text, "pg_dump has the foreign key, also after ANALYZE")
    lines = text.splitlines(keepends=True)
    with open(file, "w") as out:
        out.writelines(line for line in lines if "EXTENSION" not in line)
    run(f"{bindir}/psql", *args(pair.servers[1]), "-X", "-d", "shared", "-f", file)
    tap.equal(query(b, KEYS), query(a, KEYS), "a restored dump attaches, with the foreign key")
    query(b, drop)
    query(b, "CREATE TABLE p (id int PRIMARY KEY, v text, n int NOT NULL DEFAULT 0, u int UNIQUE);"
          "CREATE TABLE c (id int PRIMARY KEY, p int CONSTRAINT renamed REFERENCES p ON DELETE CASCADE, x int)")
    tap.equal(query(b, KEYS), query(a, KEYS), "CREATE TABLE attaches, with the foreign key")
    pair.refused(b, "... and enforces it", "INSERT INTO c VALUES (5, 99)", "23503", "renamed")
    tap.equal(query(a, "SELECT * FROM mosql_fdw_gc('redis')"), [], "nothing differs")


def emptied(pair):
    """TRUNCATE by the other server, between two statements."""
    a, b = pair.a, pair.b
    query(a, "CREATE TABLE plain (p int REFERENCES p)")
    query(b, IMPORT % "plain")
    for rest in ("INSERT INTO plain VALUES (5)", "INSERT INTO c VALUES (51, 5)", "DELETE FROM p WHERE id = 6"):
        query(a, "INSERT INTO p SELECT g FROM generate_series(3, 9) g ON CONFLICT DO NOTHING")
        query(a, "BEGIN; INSERT INTO c VALUES (50, 3)")
        query(b, "TRUNCATE p, c, plain")
        time.sleep(0.2)         # the rows' trees go
        state, said = error_of(a, f"{rest}; COMMIT")
        tap.ok(state == "40001", f"TRUNCATE by the other server, then {rest}", f"{state} {said}")
        query(a, "ROLLBACK")
        tap.equal(query(b, "SELECT count(*) FROM c"), [(0,)], "... nothing is there")
    query(b, "SET mosql_fdw.drop_data = off; DROP TABLE plain; RESET mosql_fdw.drop_data")
    query(a, "DROP TABLE plain")


class Writer(Repeater):
    """Adds and removes children and parents, on one server, at any isolation level."""

    def __init__(self, server, seed):
        super().__init__()
        self.conn = server.connect("shared")
        self.random = random.Random(seed)
        self.outcomes = {}

    def turn(self):
        r = self.random
        parent, other = r.randrange(PARENTS), r.randrange(PARENTS)
        level = r.choice(("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"))
        sql = r.choice((f"INSERT INTO kid (p) VALUES ({parent})",
                        f"INSERT INTO kid (p, d) VALUES ({parent}, {other})",
                        f"DELETE FROM kid WHERE p = {parent}",
                        f"UPDATE kid SET p = {other} WHERE p = {parent}",
                        f"DELETE FROM parent WHERE id = {parent}",
                        f"INSERT INTO parent (id) VALUES ({parent}) ON CONFLICT DO NOTHING",
                        f"UPDATE parent SET n = n + 1 WHERE id = {parent}",
                        f"UPDATE parent SET id = {other} WHERE id = {parent}"))
        state, _ = error_of(self.conn, f"BEGIN ISOLATION LEVEL {level}; {sql}; COMMIT")
        if state is not None:
            error_of(self.conn, "ROLLBACK")
        self.outcomes[state] = self.outcomes.get(state, 0) + 1


def at_once(pair):
    """Writers of both ends, on both servers: no orphan, ever."""
    a = pair.a
    query(a, "CREATE TABLE parent (id int PRIMARY KEY, n int NOT NULL DEFAULT 0);"
          "CREATE TABLE kid (id serial PRIMARY KEY, p int NOT NULL REFERENCES parent ON UPDATE CASCADE,"
          " d int REFERENCES parent ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED);"
          "CREATE INDEX ON kid (p)")
    query(a, f"INSERT INTO parent SELECT g FROM generate_series(0, {PARENTS - 1}) g")
    query(pair.b, IMPORT % "parent, kid")
    writers = [Writer(s, 100 * i + j) for i, s in enumerate(pair.servers) for j in range(WRITERS)]
    for w in writers:
        w.start()
    orphans, looks, until = [], 0, time.monotonic() + SECONDS
    while time.monotonic() < until or (looks < 1000 and sum(w.outcomes.get(None, 0) for w in writers) <= 50):
        orphans += query(a, "SELECT k.id, k.p, k.d FROM kid k WHERE NOT EXISTS (SELECT FROM parent WHERE id = k.p)"
                         " OR (d IS NOT NULL AND NOT EXISTS (SELECT FROM parent WHERE id = k.d))")
        looks += 1
    for w in writers:
        w.halt.set()
    for w in writers:
        w.join(60)
    done = {}
    for w in writers:
        for state, n in w.outcomes.items():
            done[state] = done.get(state, 0) + n
    tap.note(f"outcomes: {done}, {looks} looks")
    tap.ok(not orphans, "no row without its parent", orphans[:5])
    tap.ok(not any(w.crash for w in writers), "no writer broke off", [w.crash for w in writers])
    tap.ok(set(done) <= {None, "40001", "40P01", "23503", "23505"}, "no other errors", done)
    tap.ok(done.get(None, 0) > 50 and done.get("23503", 0) > 0, "something was done, and refused", done)
    tap.equal(findings(a, "kid")[0], [], "kid is in order")
    tap.equal(findings(a, "parent")[0], [], "parent is in order")


def body():
    cluster = Cluster("references")
    servers = [Server("references1"), Server("references2")]
    for server in servers:
        make_database(server, "shared", cluster.nodes)
        conn = server.connect("shared")
        query(conn, "SELECT mosql_fdw_enable('redis')")
        conn.close()
    pair = Pair(servers)
    for part in (known_to_one, known_to_both, attached, emptied, at_once):
        with section(part.__name__):
            part(pair)
    for server in servers:
        tap.equal(server.crashes(), [], "no backend crashed")


main(body)
