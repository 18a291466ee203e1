#!/usr/bin/python3
"""Random conditions over every type that a key or an index can have, on tables in Redis
and on PostgreSQL's own: the same rows.  Each condition is asked in many forms (literals
and parameters, order and limit, cursors in both directions, joins, min and max, UPDATE and
DELETE), of a table for each key and index, so that the planner takes that one.

    t/conditions.py [--seed N] [--minutes M] [--rounds N] [--engine script|watch]

Without a seed it is made of the date, and printed.  Leaves have four rows.  A difference is
printed as a script: the rows that it needs, the statement, what each said, and the plan."""
import argparse
import datetime
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
import mosqltest
from comparison import *

mosqltest.BUILD = "small"
ROWS = 40
INDEXES = 4                     # tables with one each
CONDITIONS = 25                 # of a round, each in as many forms as there are tables

WORDS = WORDS + ["abc", "aa"]

# Values of a type; few, so that they meet.
VALUES = {
    "boolean": ["true", "false"],
    "smallint": ["-32768", "-1", "0", "1", "2", "3", "32767"],
    "integer": ["-2147483648", "-1", "0", "1", "2", "3", "100000", "2147483647"],
    "bigint": ["-9223372036854775808", "-5000000000", "-1", "0", "1", "2", "3", "9007199254740993", "9223372036854775807"],
    "numeric": ["-Infinity", "-1e30", "-1.5", "0", "0.00", "1", "1.0", "1.5", "2", "3", "1e-20", "9007199254740993", "1e30", "Infinity", "NaN"],
    "numeric(8,2)": ["-1.5", "0", "0.01", "1", "1.5", "2", "3", "99999.99", "NaN"],
    "real": ["-Infinity", "-1.5", "-0", "0", "0.1", "1", "1.5", "2", "3", "16777216", "1e-40", "Infinity", "NaN"],
    "double precision": ["-Infinity", "-1.5", "-0", "0", "0.1", "1", "1.5", "2", "3", "16777217", "9007199254740992", "1e-310", "Infinity", "NaN"],
    "text": WORDS,
    'text COLLATE "C"': WORDS,
    "varchar(5)": WORDS,
    "char(3)": ["", "a", "A", "ab", "abc", "b", "B", "é", "a b"],
    'char(3) COLLATE "C"': ["", "a", "A", "ab", "abc", "b", "B", "é", "a b"],
    "bytea": [r"\x", r"\x00", r"\x0000", r"\x00ff", r"\xff", r"\xffff", r"\x61"],
    "date": ["-infinity", "4713-01-01 BC", "1999-12-31", "2020-03-28", "2020-03-29", "2020-03-30", "infinity"],
    "time": ["00:00", "00:00:00.000001", "02:30", "12:00", "23:59:59.999999", "24:00"],
    "timetz": ["00:00+00", "02:30+02", "02:30+00", "00:30-02", "12:00+01", "24:00+00"],
    "timestamp": ["-infinity", "1999-12-31 12:00", "2020-03-28 00:00", "2020-03-29 00:00", "2020-03-29 02:30", "2020-03-29 12:00", "infinity"],
    "timestamptz": ["-infinity", "1999-12-31 12:00+00", "2020-03-28 00:00+01", "2020-03-28 23:00+00", "2020-03-29 00:00+00",
                    "2020-03-29 03:30+02", "2020-03-29 12:00+00", "infinity"],
    "interval": ["-1 mon", "-1 day", "0", "1 day", "24:00", "30 days", "1 mon", "1 mon 1 us", "178000000 years"],
    "uuid": [f"{i:08x}-0000-0000-0000-000000000000" for i in (0, 1, 2, 3, 0xffffffff)],
    "mood": ["sad", "ok", "happy", "a"],
}
GROUPS = [["smallint", "integer", "bigint", "numeric", "numeric(8,2)", "real", "double precision"],
          ["text", 'text COLLATE "C"', "varchar(5)", "char(3)", 'char(3) COLLATE "C"', "name"],
          ["date", "timestamp", "timestamptz"], ["time", "timetz", "interval"]]
VALUES_OF_OTHERS = {"name": WORDS}
STRINGS = ("text", 'text COLLATE "C"', "varchar(5)", "char(3)", 'char(3) COLLATE "C"')
NO_MAX = ("boolean", "bytea", "uuid", "interval")   # not in all versions; which of two equal ones
COMPARE = ["=", "=", "=", "<", "<=", ">", ">=", "<>"]
TESTS = ["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE", "IS UNKNOWN", "IS NOT UNKNOWN", "IS NULL", "IS NOT NULL"]
ORDERS = ["", " ASC NULLS FIRST", " DESC", " DESC NULLS LAST"]
WAYS = ["enable_hashjoin", "enable_mergejoin", "enable_nestloop", "enable_sort", "enable_material", "enable_memoize",
        "enable_indexonlyscan", "enable_bitmapscan", "enable_hashagg"]


def bare(type):
    return type.split(" COLLATE")[0]


def literal(value, type):
    return "NULL::" + bare(type) if value is None else "'%s'::%s" % (value, bare(type))


class Condition:
    """Text with {n} for values; they are literals, or parameters."""

    def __init__(self, r, columns, table):
        self.r, self.columns, self.keys = r, columns, table.keys
        self.values = []
        self.sql = self.tree(r.choice([0, 1, 2]))
        if self.chance(.5):                 # what an index can be asked
            bounds = [self.bound(name) for name in self.keys[:r.choice([1, 1, 2])]] + table.hints * self.chance(.8)
            self.sql = f"({r.choice([' AND ', ' AND ', ' OR ']).join([self.sql] + bounds)})"

    def literals(self):
        return self.fill([literal(v, t) for v, t in self.values])

    def parameters(self):
        return self.fill([f"${i + 1}" for i in range(len(self.values))])

    def fill(self, words):
        out = self.sql
        for i, word in reversed(list(enumerate(words))):
            out = out.replace(f"<<{i}>>", word)
        return out

    def chance(self, p):
        return self.r.random() < p

    def put(self, value, type):
        self.values.append((value, type))
        return f"<<{len(self.values) - 1}>>"

    def value(self, type, null=.08):
        return self.put(None if self.chance(null) else self.r.choice(VALUES.get(type) or VALUES_OF_OTHERS[type]), type)

    def array(self, type):
        if self.chance(.04):
            return self.put(None, bare(type) + "[]")
        values = [None if self.chance(.1) else self.r.choice(VALUES[type]) for _ in range(self.r.choice([0, 1, 2, 2, 3, 5]))]
        inner = ",".join("NULL" if v is None else '"%s"' % v.replace("\\", "\\\\") for v in values)
        return self.put("{%s}" % inner, bare(type) + "[]")

    def other(self, type):
        """A type that can be compared with this one."""
        for group in GROUPS:
            if type in group and self.chance(.5):
                some = [t for t in group if t != "interval" or type == "interval"]
                if type in ("time", "timetz", "interval"):
                    some = [t for t in some if t in ("time", "timetz")] if type != "interval" else [type]
                return self.r.choice(some)
        return type

    def column(self):
        return self.keys[0] if self.chance(.55) else self.r.choice(self.keys if self.chance(.6) else list(self.columns))

    def row(self):
        r = self.r
        n = r.choice([2, 2, 3])
        names = self.keys[:n] if len(self.keys) >= 2 and self.chance(.7) else r.sample(list(self.columns), min(n, len(self.columns)))
        left = "ROW(%s)" % ", ".join(names)

        def right():
            return "ROW(%s)" % ", ".join(self.value(self.columns[c]) for c in names)

        kind = r.random()
        if kind < .5:
            op = r.choice(COMPARE)
            return f"{left} {op} {right()}" if self.chance(.7) else f"{right()} {op} {left}"
        if kind < .65:
            return f"{left} {r.choice(['', 'NOT '])}IN ({', '.join(right() for _ in range(r.randint(1, 3)))})"
        if kind < .8:
            return f"{left} IS {r.choice(['', 'NOT '])}NULL"
        if kind < .9:
            return f"{left} IS {r.choice(['', 'NOT '])}DISTINCT FROM {right()}"
        return f"{left} {r.choice(['', 'NOT '])}BETWEEN {right()} AND {right()}"

    def string(self, name, type):
        r = self.r
        kind = r.random()
        if kind < .4:
            pattern = r.choice(["a%", "%", "ab", "a_", "", "b%", "%b", "a\\%", "é%", "a%b", "_"])
            return f"{name} {r.choice(['', 'NOT '])}{r.choice(['LIKE', 'LIKE', 'ILIKE'])} {self.put(pattern, 'text')}"
        if kind < .55:
            return f"{name} {r.choice(['~', '!~', '~*'])} {self.put(r.choice(['^a', '^a$', '^(a|b)', '^$', 'b', '^ab.*']), 'text')}"
        if kind < .65 and not type.startswith("char"):
            return f"{name} ^@ {self.value('text')}"
        return f"{name} COLLATE \"C\" {r.choice(COMPARE)} {self.value(type)}"

    def atom(self):
        r = self.r
        name = self.column()
        type = self.columns[name]
        kind = r.random()
        if type == "boolean" and kind < .5:
            return r.choice([name, f"NOT {name}", f"{name} {r.choice(TESTS)}", f"{name} {r.choice(TESTS)}"])
        if type in STRINGS and kind < .25:
            return self.string(name, type)
        if kind < .32:
            left, right = name, self.value(self.other(type))
            if self.chance(.25):
                left, right = right, left
            return f"{left} {r.choice(COMPARE)} {right}"
        if kind < .40:
            return f"{name} {r.choice(COMPARE)} {self.value(type)}"
        if kind < .45:
            return f"{name} {r.choice(['', 'NOT '])}BETWEEN {r.choice(['', 'SYMMETRIC '])}{self.value(type)} AND {self.value(self.other(type))}"
        if kind < .53:
            return f"{name} {r.choice(['', '', 'NOT '])}IN ({', '.join(self.value(type) for _ in range(r.randint(1, 4)))})"
        if kind < .62:
            return f"{name} {r.choice(['= ANY', '= ANY', '<> ALL', '< ANY', '>= ANY', '> ALL', '<= ALL'])} ({self.array(type)})"
        if kind < .68:
            return f"{name} {r.choice(['IS NULL', 'IS NOT NULL'])}"
        if kind < .74:
            return f"{name} IS {r.choice(['', 'NOT '])}DISTINCT FROM {self.value(type, .3)}"
        if kind < .84:
            return self.row()
        if kind < .88:
            return f"coalesce({name}, {self.value(type, 0)}) {r.choice(COMPARE)} {self.value(type)}"
        if kind < .91:
            return f"nullif({name}, {self.value(type)}) {r.choice(COMPARE)} {self.value(type)}"
        same = [c for c in self.columns if self.columns[c] == type and c != name]
        if same:
            return f"{name} {r.choice(COMPARE)} {r.choice(same)}"
        return f"({name} IS NULL) {r.choice(['', 'IS NOT TRUE', '= true', 'IS FALSE'])}"

    def bound(self, name):
        r = self.r
        type = self.columns[name]
        kind = r.random()
        if kind < .4:
            return f"{name} = {self.value(type, 0)}"
        if kind < .5:
            return f"{name} IS {r.choice(['', 'NOT '])}NULL"
        if kind < .6:
            return f"{name} IN ({', '.join(self.value(type) for _ in range(3))})"
        return f"{name} {r.choice(['<', '<=', '>', '>='])} {self.value(self.other(type), 0)}"

    def tree(self, depth):
        r = self.r
        kind = r.random()
        if depth == 0 or kind < .4:
            return self.atom()
        if kind < .6:
            return "(" + " AND ".join(self.tree(depth - 1) for _ in range(r.choice([2, 2, 3]))) + ")"
        if kind < .75:
            return "(" + " OR ".join(self.tree(depth - 1) for _ in range(r.choice([2, 2, 3]))) + ")"
        if kind < .83:
            return f"NOT ({self.tree(depth - 1)})"
        if kind < .91:
            return f"({self.tree(depth - 1)}) {r.choice(TESTS)}"
        if kind < .95:
            return f"CASE WHEN {self.atom()} THEN {self.atom()} ELSE {self.atom()} END"
        return f"coalesce({self.atom()}, {r.choice(['true', 'false'])})"


class Table:
    """One in Redis, with one key or index (or all), its columns in order, and hints:
    conditions by which an index can be of use."""

    def __init__(self, name, key, indexes, keys, hints=()):
        self.name, self.key, self.indexes, self.keys, self.hints = name, key, indexes, keys, list(hints)


class Round:
    def __init__(self, conn, seed, number):
        self.conn, self.seed, self.number = conn, seed, number
        self.r = random.Random(f"{seed}.{number}")
        self.statements = self.looked = self.through = self.failed = 0
        types = self.r.sample(list(VALUES), 3)
        if self.chance(.35):
            types[self.r.randrange(3)] = "boolean"
        if self.chance(.3):
            types[1] = types[0]
        self.columns = dict(zip("abc", types))
        self.nullable = self.chance(.75)        # else they can be the key
        self.rows = [(i + 1, *(self.random_value(t) for t in types)) for i in range(ROWS)]
        self.tables = self.make_tables()

    def chance(self, p):
        return self.r.random() < p

    def random_value(self, type):
        return None if self.nullable and self.chance(.2) else self.r.choice(VALUES[type])

    # ---- tables ----

    def index(self, name):
        r = self.r
        keys = r.sample(list(self.columns), r.choice([1, 2, 2, 3]))
        parts = [k + r.choice(ORDERS) for k in keys]
        hints = []
        if self.chance(.2):
            column = r.choice(list(self.columns))
            parts.insert(0, f"({column} IS NULL)")
            hints.append(f"({column} IS NULL) = {r.choice(['true', 'false'])}")
        rest = [c for c in self.columns if c not in keys and self.chance(.4)] + ["id"]
        where = ""
        if self.chance(.25):
            column = r.choice(list(self.columns))
            where = f" WHERE {column} {r.choice(['IS NOT NULL', 'IS NULL'])}"
            if self.columns[column] != "mood" and self.chance(.4):     # which cannot be in a predicate
                where = f" WHERE {column} {r.choice(COMPARE)} {literal(r.choice(VALUES[self.columns[column]]), self.columns[column])}"
        hints += [where[7:]] if where else []
        unique = self.chance(.15) and "id" in rest
        if unique:
            parts.append("id")
            rest.remove("id")
        include = f" INCLUDE ({', '.join(rest)})" if rest and self.chance(.6) else ""
        return f"CREATE {'UNIQUE ' if unique else ''}INDEX {name}_x ON {name} ({', '.join(parts)}){include}{where}", keys, hints

    def make_tables(self):
        tables = []
        if not self.nullable:
            keys = self.r.sample(list(self.columns), self.r.choice([1, 2, 3]))
            tables.append(Table("f_key", keys + ["id"], [], keys))
        for i in range(INDEXES):
            sql, keys, hints = self.index(f"f_{i}")
            tables.append(Table(f"f_{i}", ["id"], [sql], keys, hints))
        several = [self.index("f_all") for _ in range(3)]
        tables.append(Table("f_all", ["id"], [sql.replace("_x ON", f"_x{n} ON") for n, (sql, _, _) in enumerate(several)],
                            list(dict.fromkeys(k for _, ks, _ in several for k in ks))))
        return tables

    def definition(self, table, local):
        columns = ", ".join(f"{c} {t}{'' if self.nullable else ' NOT NULL'}" for c, t in self.columns.items())
        if local:
            return f"CREATE TABLE l (id int PRIMARY KEY, {columns}) USING heap"
        return f"CREATE TABLE {table.name} (id int, {columns}, PRIMARY KEY ({', '.join(table.key)}))"

    def inserts(self, name, rows):
        values = ", ".join("(%d, %s)" % (row[0], ", ".join(literal(v, t) for v, t in zip(row[1:], self.columns.values())))
                           for row in rows)
        return f"INSERT INTO {name} VALUES {values}" if rows else "SELECT 1"

    def script(self, tables, rows):
        return [self.definition(None, True), self.inserts("l", rows)] + \
            [s for t in tables for s in [self.definition(t, False), *t.indexes, self.inserts(t.name, rows), f"ANALYZE {t.name}"]]

    def create(self, tables, rows):
        """Errors, of which there are none."""
        drops = [f"DROP TABLE IF EXISTS {name}" for name in ["l", "f_key", "f_all"] + [f"f_{i}" for i in range(INDEXES)]]
        return [(sql, e) for sql in drops + self.script(tables, rows) for e in [error_of(self.conn, sql)] if e[0]]

    # ---- forms of a question ----

    def plain(self, c, t):
        return [f"SELECT id FROM {t} WHERE {c.literals()}"], True

    def generic(self, c, t):
        types = ", ".join(bare(type).split("(")[0] for _, type in c.values)
        values = ", ".join(literal(v, type) for v, type in c.values)
        if not c.values:
            return self.plain(c, t)
        return ["DEALLOCATE ALL", f"PREPARE p ({types}) AS SELECT id FROM {t} WHERE {c.parameters()}", f"EXECUTE p ({values})"], True

    def covered(self, c, t):
        return [f"SELECT {', '.join(self.form_columns)} FROM {t} WHERE {c.literals()}"], True

    def ordered(self, c, t):
        return [f"SELECT id FROM {t} WHERE {c.literals()} ORDER BY {self.form_order}{self.form_limit}"], False

    def extremes(self, c, t):
        names = [n for n in self.form_columns if self.columns[n] not in NO_MAX] or ["id"]
        return [f"SELECT min({names[0]}), max({names[-1]}), count(*), count({names[0]}) FROM {t} WHERE {c.literals()}"], True

    def cursor(self, c, t):
        return ["BEGIN", f"DECLARE k SCROLL CURSOR FOR SELECT id FROM {t} WHERE {c.literals()} ORDER BY {self.form_order}"] + \
            [f"FETCH {how} FROM k" for how in self.form_fetches] + ["COMMIT"], False

    def delete(self, c, t):
        return ["BEGIN", f"DELETE FROM {t} WHERE {c.literals()} RETURNING id", "ROLLBACK"], True

    def update(self, c, t):
        name = self.form_columns[0]
        return ["BEGIN", f"UPDATE {t} SET {name} = {literal(self.form_value, self.columns[name])} WHERE {c.literals()} RETURNING id",
                f"SELECT id FROM {t} WHERE {c.literals()}", "ROLLBACK"], True

    def changed(self, c, t):
        """With changes of its own that nobody else sees yet."""
        name = self.form_columns[0]
        more = self.inserts(t, [(row[0] + 1000, *row[1:]) for row in self.rows[:3]])
        return ["BEGIN", f"UPDATE {t} SET {name} = {literal(self.form_value, self.columns[name])} WHERE id % 3 = 0",
                "SAVEPOINT s", f"DELETE FROM {t} WHERE id % 7 = 1", more, f"SELECT id FROM {t} WHERE {c.literals()} ORDER BY {self.form_order}",
                "ROLLBACK TO s", f"SELECT id FROM {t} WHERE {c.literals()} ORDER BY {self.form_order}{self.form_limit}", "ROLLBACK"], False

    def join(self, c, t):
        name = self.form_columns[0]
        return [f"SELECT x.id, y.id FROM {t} x JOIN (SELECT * FROM {t} WHERE {c.literals()}) y ON x.{name} {self.form_op} y.{self.form_other}"], True

    def exists(self, c, t):
        name = self.form_columns[0]
        return [f"SELECT x.id FROM {t} x WHERE {self.form_not}EXISTS (SELECT FROM (SELECT * FROM {t} WHERE {c.literals()}) y "
                f"WHERE x.{name} {self.form_op} y.{self.form_other})"], True

    def in_query(self, c, t):
        name = self.form_columns[0]
        return [f"SELECT id FROM {t} WHERE {name} {self.form_not}IN (SELECT {name} FROM {t} WHERE {c.literals()})"], True

    def grouped(self, c, t):
        names = ", ".join(self.form_columns)
        return [f"SELECT count(*), min(id) FROM {t} WHERE {c.literals()} GROUP BY {names}"], True

    FORMS = [plain, plain, plain, generic, generic, covered, ordered, ordered, extremes, cursor, delete, update, changed, join, join, exists,
             in_query, grouped]

    def choose_form(self, table):
        r = self.r
        self.form = r.choice(self.FORMS)
        self.form_columns = table.keys[:r.randint(1, len(table.keys))]
        self.form_order = ", ".join(k + r.choice(ORDERS) for k in self.form_columns) + ", id"
        self.form_limit = r.choice(["", f" LIMIT {r.randint(0, 9)}", f" LIMIT {r.randint(1, 9)} OFFSET {r.randint(0, 4)}"])
        self.form_fetches = [r.choice(["NEXT", "PRIOR", "FORWARD 5", "BACKWARD 3", "FIRST", "LAST", "ABSOLUTE 4", "RELATIVE -2",
                                       "ALL", "BACKWARD ALL"]) for _ in range(5)]
        self.form_value = None if self.nullable and self.chance(.3) else r.choice(VALUES[self.columns[self.form_columns[0]]])
        self.form_op = r.choice(["=", "=", "=", "<", ">="])
        type = self.columns[self.form_columns[0]]
        self.form_other = r.choice([n for n, t in self.columns.items() if t == type or any(type in g and t in g for g in GROUPS[:3])])
        self.form_not = r.choice(["", "NOT "])

    # ---- asking ----

    def outcome(self, statements, any_order):
        """What all statements say, or the first SQLSTATE."""
        said = []
        for sql in statements:
            said.append(answer(self.conn, sql, any_order, True))
            if isinstance(said[-1], tuple):
                query(self.conn, "ROLLBACK")
                return said[-1][0]
        return said

    def compare(self, condition, table):
        """None, or (statements, theirs, ours)."""
        theirs_sql, any_order = self.form(self, condition, "l")
        ours_sql, _ = self.form(self, condition, table.name)
        theirs, ours = self.outcome(theirs_sql, any_order), self.outcome(ours_sql, any_order)
        return None if theirs == ours else (ours_sql, theirs, ours)

    def settings(self):
        r = self.r
        off = ["enable_seqscan"] * self.chance(.85) + r.sample(WAYS, r.choice([0, 1, 2]))
        return [f"RESET {w}" for w in WAYS + ["enable_seqscan"]] + [f"SET {w} = off" for w in off]

    def ask(self, condition, table):
        settings = self.settings()
        query(self.conn, "; ".join(settings))
        self.choose_form(table)
        found = self.compare(condition, table)
        self.statements += 1
        if self.form is Round.plain and self.chance(.2):
            self.looked += 1
            self.through += any("Index" in line or "Union" in line for line in self.plan(self.plain(condition, table.name)[0]))
        if found:
            self.failed += 1
            self.report(condition, table, settings, found)

    def plan(self, statements):
        for sql in statements:
            if sql.startswith(("SELECT", "DELETE", "UPDATE", "EXECUTE", "DECLARE")):
                rows, state = attempt(self.conn, "EXPLAIN (COSTS OFF, VERBOSE) " + sql)
                return [line for line, in rows] if rows else [str(state)]
        return []

    def report(self, condition, table, settings, found):
        """As few rows as show it, if a half of them does."""
        statements, theirs, ours = found
        rows, plan = self.rows, self.plan(statements)
        shrunk = True
        while shrunk and len(rows) > 1:
            shrunk = False
            for part in (rows[:len(rows) // 2], rows[len(rows) // 2:], rows[:-1], rows[1:]):
                self.create([table], part)
                again = self.compare(condition, table)
                if again:
                    rows, shrunk, (statements, theirs, ours) = part, True, again
                    plan = self.plan(statements)
                    break
        lines = ["SET timezone = 'Europe/Berlin';"] + [s + ";" for s in self.script([table], rows)] + \
            [s + ";" for s in settings if s.startswith("SET")] + [s + ";" for s in statements] + \
            [f"-- PostgreSQL's: {theirs}", f"-- ours:         {ours}"] + ["-- " + line for line in plan]
        print("\n".join("# " + line for line in lines), flush=True)
        self.create(self.tables, self.rows)

    def run(self, end):
        query(self.conn, "RESET ALL; SET jit = off; SET timezone = 'Europe/Berlin'; SET mosql_fdw.default_server = 'redis'; "
                         "SET plan_cache_mode = force_generic_plan")
        bad = self.create(self.tables, self.rows)
        if bad:
            tap.ok(False, f"round {self.number}: tables of {', '.join(self.columns.values())}", bad)
            return
        for _ in range(CONDITIONS):
            for table in self.tables:
                if self.failed > 2 or time.monotonic() > end:
                    return
                self.ask(Condition(self.r, self.columns, table), table)


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=int(datetime.date.today().strftime("%Y%m%d")))
    p.add_argument("--minutes", type=float, default=.4)
    p.add_argument("--rounds", type=int, default=10 ** 9)
    p.add_argument("--first", type=int, default=0, help="the first round")
    p.add_argument("--engine", choices=ENGINES)
    return p.parse_args()


def body():
    opts = options()
    tap.note(f"--seed {opts.seed}")
    cluster = Cluster("conditions")
    server = Server("conditions")
    for engine in [opts.engine] if opts.engine else ENGINES:
        make_compared(server, engine, cluster, atomic=engine)
    total = failed = number = looked = through = 0
    end = time.monotonic() + opts.minutes * 60
    psycopg2.extensions.register_type(psycopg2.extensions.new_type(
        (1082, 1114, 1184, 1186, 1083, 1266), "AS_TEXT", lambda v, c: v))   # infinity, BC
    for number in range(opts.first, opts.first + opts.rounds):
        if time.monotonic() > end:
            break
        engine = opts.engine or ENGINES[number % 2]
        with contextlib.closing(server.connect(engine)) as conn:
            one = Round(conn, opts.seed, number)
            one.run(end)
            total, failed = total + one.statements, failed + one.failed
            looked, through = looked + one.looked, through + one.through
            if one.failed:
                tap.note(f"again: t/conditions.py --seed {opts.seed} --first {number} --rounds 1 --engine {engine}")
    tap.ok(failed == 0, f"seed {opts.seed}: the same rows as PostgreSQL", f"{failed} of {total} differ")
    tap.ok(through > 3, "plans go through indexes", through)
    tap.note(f"{total} statements, {number - opts.first} rounds; of {looked} plans {through} went through an index")
    tap.equal(server.crashes(), [], "no backend crashed")


main(body)
