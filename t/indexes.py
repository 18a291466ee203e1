#!/usr/bin/python3
"""Secondary indexes against PostgreSQL's own: random tables, indexes, writes and
queries, on a foreign table and on a local one, must give the same rows, counts and
errors.

    t/indexes.py [SEED [STATEMENTS]]"""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

SEEDS = [int(sys.argv[1])] if len(sys.argv) > 1 else [1, 2, 3]
STATEMENTS = int(sys.argv[2]) if len(sys.argv) > 2 else 600
COLUMNS = ["id", "a", "b", "c", "e", "g"]

# expressions, and the column whose values theirs are like
EXPRESSIONS = {"upper(b)": "b", "coalesce(b, 'ab')": "b", "(b || 'a')": "b", "(a + id % 3)": "a",
               "abs(a)": "a", "(c * a)": "c", "coalesce(c, a)": "c", "(e + interval '1 day')": "e",
               "(a > 2)": "g", "(c IS NULL)": "g", "(NOT g)": "g"}

CREATE = 'id int %s, a int, b text COLLATE "C", c numeric, e timestamp, g boolean'
FILL = """INSERT INTO %s SELECT i, i %% 11 - 5, (array[NULL, 'a', 'b', 'z', 'aa'])[1 + i %% 5],
    nullif(i %% 5, 0), timestamp '2020-01-01' + i %% 9 * interval '1 day', i %% 3 = 0
    FROM generate_series(1, 300) i"""


class Generator:
    """SQL with TBL for the table's name."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.step = 0
        self.predicates = []

    def term(self):
        """A column or an expression, and the column that it is like."""
        if self.r.random() < .25:
            return self.r.choice(list(EXPRESSIONS.items()))
        return (self.r.choice(COLUMNS),) * 2

    def value(self, column):
        r = self.r
        if r.random() < .15:
            return "NULL"
        return {"id": lambda: str(r.randint(1, 400)),
                "a": lambda: str(r.randint(-5, 5)),
                "b": lambda: "'%s'" % r.choice(["", "a", "ab", "abc", "b", "\\x", "zz", "a%"]),
                "c": lambda: str(r.choice([-1.5, 0, 1, 1.50, 2, 100, -1000])),
                "e": lambda: "'2020-01-0%d'" % r.randint(1, 9),
                "g": lambda: r.choice(["true", "false"])}[column]()

    def condition(self):
        r = self.r
        if self.predicates and r.random() < .2:
            return r.choice(self.predicates)
        term, column = self.term()
        kind = r.random()
        if kind < .1:
            return term + " IS NULL"
        if kind < .2:
            return term + " IS NOT NULL"
        if kind < .3:
            return f"{term} IN ({','.join(self.value(column) for _ in range(r.randint(1, 4)))})"
        if kind < .35 and column != "g":
            return f"({term}, a) {r.choice(['<', '<=', '>', '>='])} ({self.value(column)}, {self.value('a')})"
        if kind < .42:
            return f"b LIKE '{r.choice(['a%', '%', 'ab', 'a_', '', 'b%'])}'"
        if kind < .5:
            return f"({term} = {self.value(column)} OR {term} = {self.value(column)})"
        if column == "g":
            return r.choice(["", "NOT "]) + term
        return f"{term} {r.choice(['=', '=', '<', '<=', '>', '>=', '<>'])} {self.value(column)}"

    def index(self):
        r = self.r
        keys = list({self.term()[0]: None for _ in range(r.randint(1, 3))})
        order = ["", " DESC", " DESC NULLS LAST", " NULLS FIRST", ""]
        included = [c for c in ["a", "b", "c", "e"] if c not in keys and r.random() < .2]
        predicate = self.condition() if r.random() < .3 else None
        if predicate:
            self.predicates.append(predicate)
        return "({}){}{}".format(", ".join(k + r.choice(order) for k in keys),
                                 f" INCLUDE ({', '.join(included)})" if included else "",
                                 f" WHERE {predicate}" if predicate else "")

    def row(self):
        return "(%s)" % ", ".join(self.value(c) if c != "id" else str(self.r.randint(1, 400))
                                  for c in COLUMNS)

    def write(self):
        r = self.r
        kind = r.random()
        if kind < .55:
            return "INSERT INTO TBL VALUES " + ", ".join(self.row() for _ in range(r.randint(1, 3))) + \
                r.choice(["", " ON CONFLICT DO NOTHING",
                          " ON CONFLICT (id) DO UPDATE SET a = excluded.a, c = excluded.c"])
        if kind < .6:
            return f"UPDATE TBL SET a = a + 1 WHERE id = {r.randint(1, 400)}"
        if kind < .9:
            column = r.choice(COLUMNS)
            # far apart: the order in which rows are moved is nobody's promise
            new = self.value(column) if column != "id" else f"id + {self.step * 1000}"
            return f"UPDATE TBL SET {column} = {new} WHERE {self.condition()}"
        return f"DELETE FROM TBL WHERE {self.condition()} AND {self.condition()}"

    def select(self):
        r = self.r
        what = r.choice(["*", "id", "a, b", "count(*)", "c, id", "b", "max(a), min(b)"])
        sql = f"SELECT {what} FROM TBL WHERE " + \
            " AND ".join(self.condition() for _ in range(r.randint(1, 3)))
        if "(" not in what and r.random() < .5:
            keys = r.sample(["a", "b", "c", "e", "id", *EXPRESSIONS], r.randint(1, 3))
            sql += " ORDER BY " + ", ".join(
                k + r.choice([" DESC", "", " NULLS FIRST", " DESC NULLS LAST"]) for k in keys) + ", id"
            if r.random() < .5:
                sql += f" LIMIT {r.randint(1, 20)}"
        return sql


def outcome(cursor, sql, ordered):
    try:
        cursor.execute(sql)
    except psycopg2.Error as e:
        return e.pgcode
    if cursor.description is None:
        return cursor.rowcount
    rows = cursor.fetchall()
    return rows if ordered else sorted(map(repr, rows))


def run_seed(conn, seed):
    generator = Generator(seed)
    cursor = conn.cursor()
    cursor.execute("DROP FOREIGN TABLE IF EXISTS f; DROP TABLE IF EXISTS p")
    cursor.execute(f"""CREATE FOREIGN TABLE f ({CREATE % "OPTIONS (key 'true')"}) SERVER redis""")
    cursor.execute(f"CREATE TABLE p ({CREATE % 'PRIMARY KEY'})")
    cursor.execute(FILL % "p")
    cursor.execute("INSERT INTO f SELECT * FROM p")
    cursor.execute("ANALYZE f")  # plans do not hang on when rows were counted
    indexes, differences, through = [], [], 0

    def both(sql):
        ordered = "ORDER BY" in sql
        here, there = (outcome(cursor, sql.replace("TBL", t), ordered) for t in ("f", "p"))
        if here != there:
            differences.append(f"{generator.step}: {sql}\n  ours {str(here)[:300]}\n  PostgreSQL's {str(there)[:300]}")
        return here

    for generator.step in range(1, STATEMENTS + 1):
        kind = generator.r.random()
        if kind < .04 and len(indexes) < 7:
            name = f"i{generator.step}"
            unique = "UNIQUE " if generator.r.random() < .3 else ""
            if not isinstance(both(f"CREATE {unique}INDEX TBL_{name} ON TBL {generator.index()}"), str):
                indexes.append(name)
        elif kind < .05 and indexes:
            both(f"DROP INDEX TBL_{indexes.pop(generator.r.randrange(len(indexes)))}")
        elif kind < .45:
            both(generator.write())
        else:
            sql = generator.select()
            cursor.execute("EXPLAIN " + sql.replace("TBL", "f"))
            through += any("Index" in line for line, in cursor.fetchall())
            both(sql)
        if len(differences) > 3:
            break
    both("SELECT * FROM TBL ORDER BY id")
    tap.ok(not differences, f"seed {seed}: the same as PostgreSQL", "\n".join(differences))
    tap.ok(through > STATEMENTS / 20, f"seed {seed}: {through} queries went through an index")
    tap.equal(findings(conn, "f"), ([], []), f"seed {seed}: mosql_fdw_check finds nothing")


def damage(cluster, conn):
    """An entry that is gone, and one too many, are found."""
    query(conn, """CREATE FOREIGN TABLE d (id int OPTIONS (key 'true'), v text) SERVER redis;
        CREATE INDEX d_v ON d (v); INSERT INTO d VALUES (1, 'needle'), (2, 'hay');""")
    tap.equal(findings(conn, "d"), ([], []), "a sound index")
    wait_until(lambda: entry(cluster, b"needle") is not None)
    port, key, field, row = entry(cluster, b"needle")
    r = Redis(port)
    r("HDEL", key, field)
    tap.ok(any("no entry" in f[2] for f in findings(conn, "d")[0]), "a row without its entry is found")
    r("HSET", key, field, row)
    r("HSET", key, field.replace(b"needle", b"needlf"), row)
    tap.ok(any("(v)=(needlf) belongs to no row" in f[2] for f in findings(conn, "d")[0]),
           "an entry without its row is found")
    r("HDEL", key, field)
    tap.equal(sorted(f[2].split(": ")[-1] for f in findings(conn, "d")[0]),
              ["the entry with (v)=(needlf) belongs to no row", "the row with (id)=(1) has no entry"],
              "one too few and one too many: both are named")
    query(conn, "DROP FOREIGN TABLE d")


def entry(cluster, text):
    """(port, key, field, value) of the row in Redis whose key has this text."""
    for port in cluster.primaries:
        r = Redis(port)
        for key in r("KEYS", "indexes:*"):
            if r("TYPE", key) not in (b"hash", "hash"):
                continue
            fields = r("HGETALL", key)
            for field, value in zip(fields[::2], fields[1::2]):
                if field[:1] == b"r" and text in field:
                    return port, key, field, value


def body():
    cluster = Cluster("indexes")
    server = Server("indexes")
    # reading rows is dear, so that small tables use their indexes
    make_database(server, "indexes", cluster.nodes, {"fdw_tuple_cost": "100", "fdw_startup_cost": "0"})
    conn = server.connect("indexes")
    damage(cluster, conn)
    for seed in SEEDS:
        run_seed(conn, seed)


main(body)
