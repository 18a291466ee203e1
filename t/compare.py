#!/usr/bin/python3
"""The same statements on tables in Redis and on PostgreSQL's own, with the same keys and
indexes: rows, counts and SQLSTATEs must be the same.  Types, keys, indexes, statements
and values at random.  (t/conditions.py goes into all conditions.)

    t/compare.py [SEED [STATEMENTS]]

Without a seed: two fixed ones, and one made of the date."""
import datetime
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from comparison import *

SEEDS = [int(sys.argv[1])] if len(sys.argv) > 1 else [1, 2, int(datetime.date.today().strftime("%Y%m%d"))]
STATEMENTS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
ROWS = 120
SECONDS = 15                    # of a seed, on a slow machine: the rest of its statements is left out

WORDS = WORDS + ["ba", "Zz", "ä"]

# a type, and literals of it; small domains, so that values meet
TYPES = {
    "int": lambda r: str(r.randint(-6, 12)),
    "smallint": lambda r: str(r.randint(-4, 6)),
    "bigint": lambda r: str(r.choice([-5000000000, -1, 0, 1, 2, 3, 4, 5, 5000000000])),
    "numeric": lambda r: r.choice(["-1.5", "0", "0.0", "1", "1.0", "1.50", "1e20", "'NaN'", "2", "-1000", "'Infinity'"]),
    "text": lambda r: "'%s'" % r.choice(WORDS),
    'text COLLATE "C"': lambda r: "'%s'" % r.choice(WORDS),
    'text COLLATE "en-x-icu"': lambda r: "'%s'" % r.choice(WORDS),
    "varchar(5)": lambda r: "'%s'" % r.choice(WORDS),
    'char(3) COLLATE "C"': lambda r: "'%s'" % r.choice(["", "a", "a ", "ab", "b", "abc", "Z"]),
    "date": lambda r: f"'2020-01-{r.randint(1, 9):02}'",
    "timestamp": lambda r: f"'2020-01-0{r.randint(1, 4)} {r.choice(['00:00', '12:00', '23:59:59.5'])}'",
    "timestamptz": lambda r: f"'2020-03-{r.choice(['28', '29', '30'])} {r.choice(['00:00', '02:30', '12:00'])}+0{r.randint(0, 2)}'",
    "boolean": lambda r: r.choice(["true", "false"]),
    "double precision": lambda r: r.choice(["-1.5", "0", "'-0'", "1", "1.5", "'NaN'", "'Infinity'", "1e-300", "2"]),
    "real": lambda r: r.choice(["-1.5", "0", "1", "1.1", "0.1", "2", "16777216"]),
    "bytea": lambda r: r.choice([r"'\x'", r"'\x00'", r"'\x00ff'", r"'\xff'", r"'\x61'"]),
    "uuid": lambda r: f"'{r.randint(0, 6):08}-0000-0000-0000-000000000000'",
    "interval": lambda r: r.choice(["'1 day'", "'24:00'", "'1 mon'", "'30 days'", "'-1 day'", "'0'"]),
    "mood": lambda r: r.choice(["'sad'", "'ok'", "'happy'", "'a'"]),
}
ORDERED = [t for t in TYPES if t not in ("boolean",)]
NUMBERS = ("int", "smallint", "bigint", "numeric", "double precision", "real")
STRINGS = [t for t in TYPES if t.startswith(("text", "varchar"))]
WAYS = ["enable_hashjoin", "enable_mergejoin", "enable_nestloop", "enable_sort", "enable_material",
        "enable_memoize", "enable_indexscan"]

# a value of the second type compared with a column of the first
OTHERS = {"int": ["bigint", "smallint", "numeric", "double precision"], "smallint": ["int", "bigint"],
          "bigint": ["int", "numeric"], "numeric": ["int", "double precision"],
          "real": ["double precision", "numeric"], "double precision": ["real", "int"],
          "date": ["timestamp", "timestamptz"], "timestamp": ["date", "timestamptz"],
          "timestamptz": ["date", "timestamp"]}


class Column:
    def __init__(self, name, type, not_null):
        self.name, self.type, self.not_null = name, type, not_null
        self.bare = type.split(" COLLATE")[0]


class Table:
    def __init__(self, name, columns, key):
        self.name, self.columns, self.key = name, columns, key
        self.unique = []        # lists of columns that ON CONFLICT can name
        self.leading = key[:1]  # columns that keys and indexes begin with

    def column(self, name):
        return next(c for c in self.columns if c.name == name)


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.step = 0
        self.tables = []
        self.indexes = []

    # ---- tables ----

    def chance(self, p):
        return self.r.random() < p

    def make_table(self, name):
        r = self.r
        types = r.sample(list(TYPES), 5) + ["int"] + r.sample(["text", 'text COLLATE "C"', "numeric", "bigint"], 1)
        columns = [Column(f"c{i}", t, self.chance(.3)) for i, t in enumerate(types)]
        keyed = self.chance(.85)
        key = [c.name for c in r.sample(columns, r.choice([1, 1, 2, 2, 3]))] if keyed else []
        if keyed and len(key) < 3 and self.chance(.6) and "c5" not in key:
            key.append("c5")    # so that more rows are different
        for c in columns:
            c.not_null |= c.name in key
        table = Table(name, columns, key)
        if key:
            table.unique.append(key)
        self.tables.append(table)
        return "CREATE TABLE %s (%s%s)" % (
            name, ", ".join(f"{c.name} {c.type}{' NOT NULL' if c.not_null else ''}" for c in columns),
            f", PRIMARY KEY ({', '.join(key)})" if key else "")

    def make_index(self, table):
        r = self.r
        name = f"{table.name}_i{self.step}"
        keys = r.sample(table.columns, r.choice([1, 1, 2, 2, 3]))
        unique = self.chance(.3)
        order = ["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"]
        rest = [c.name for c in table.columns if c not in keys and self.chance(.15)]
        parts = [self.expression("", k) if self.chance(.2) else k.name for k in keys]
        where = f" WHERE {self.predicate(table)}" if self.chance(.2) else ""
        sql = "CREATE %sINDEX %s ON %s (%s)%s%s%s" % (
            "UNIQUE " if unique else "", name, table.name,
            ", ".join(part + r.choice(order) for part in parts),
            f" INCLUDE ({', '.join(rest)})" if rest else "",
            " NULLS NOT DISTINCT" if unique and self.chance(.3) else "", where)
        plain = unique and not where and parts == [k.name for k in keys]
        return name, parts if plain else None, sql

    # ---- values and conditions ----

    def value(self, column, null=.08):
        return "NULL" if self.chance(null) else f"{TYPES[column.type](self.r)}::{column.bare}"

    def foreign_value(self, column):
        """A value of a type that can be compared with the column's."""
        other = self.r.choice(OTHERS.get(column.type, [column.type]))
        return f"{TYPES[other](self.r)}::{other.split(' COLLATE')[0]}"

    def ordered(self, table):
        return self.r.choice([c for c in table.columns if c.type in ORDERED])

    def expression(self, prefix, column):
        """Of a column, as an index may have it; in parentheses unless it is a call."""
        name = prefix + column.name
        if column.type in ("int", "smallint", "bigint"):
            return f"(abs({name}) % 4)"
        if column.type in STRINGS:
            return f"lower({name})"
        return f"({name} IS NULL)"

    def predicate(self, table):
        """Of a partial index; queries have the same ones now and then."""
        column = self.r.choice(table.columns)
        return self.r.choice([f"{column.name} IS NOT NULL", f"{column.name} IS NULL"] +
                             [f"{c.name} > 0" for c in table.columns if c.type in NUMBERS])

    def comparison(self, alias, table):
        r = self.r
        if self.chance(.1):
            column = r.choice(table.columns)
            value = str(r.randint(0, 3)) if column.type in ("int", "smallint", "bigint") else \
                f"lower({self.value(column)})" if column.type in STRINGS else r.choice(["true", "false"])
            return f"{self.expression(alias + '.', column)} {r.choice(['=', '=', '<', '>='])} {value}"
        if self.chance(.05):
            return f"{alias}.{self.predicate(table)}"
        # columns of the key, and those that indexes begin with, more often than not
        kind = r.random()
        column = table.column(r.choice(table.key)) if table.key and kind < .25 else \
            table.column(r.choice(table.leading)) if table.leading and kind < .65 else r.choice(table.columns)
        name = f"{alias}.{column.name}"
        kind = r.random()
        if kind < .06:
            return f"{name} IS {r.choice(['', 'NOT '])}NULL"
        if kind < .16:
            return f"{name} {r.choice(['', '', 'NOT '])}IN ({', '.join(self.value(column) for _ in range(r.randint(1, 5)))})"
        if kind < .22:
            return f"{name} = ANY (ARRAY[{', '.join(self.value(column) for _ in range(r.randint(1, 4)))}]::{column.bare}[])"
        if kind < .27:
            return f"{name} BETWEEN {self.value(column)} AND {self.value(column)}"
        if kind < .33 and len(table.key) > 1 and self.chance(.7):
            keys = table.key[:r.randint(2, len(table.key))]
            return self.row_comparison(alias, table, keys)
        if kind < .36:
            return self.row_comparison(alias, table, [c.name for c in r.sample(table.columns, 2)])
        if kind < .42 and column.type in STRINGS:
            pattern = r.choice(["a%", "%", "ab", "a_", "", "b%", "%b", "a\\%", "é%"])
            return f"{name} {r.choice(['', 'NOT '])}LIKE '{pattern}'"
        if kind < .47 and column.type in STRINGS:
            return f"{name} COLLATE \"C\" {r.choice(['<', '>=', '='])} {self.value(column)}"
        if kind < .5:
            return f"{name} IS {r.choice(['', 'NOT '])}DISTINCT FROM {self.value(column, .3)}"
        if kind < .58:
            return f"{name} {r.choice(['=', '<', '<=', '>', '>='])} {self.foreign_value(column)}"
        if kind < .62:
            return f"{self.value(column)} {r.choice(['=', '<', '<=', '>', '>='])} {name}"
        if column.type == "boolean" and self.chance(.6):
            return r.choice([name, f"NOT {name}", f"{name} IS TRUE", f"{name} IS NOT TRUE", f"{name} IS UNKNOWN",
                             f"{name} = true"])
        return f"{name} {r.choice(['=', '=', '=', '<', '<=', '>', '>=', '<>'])} {self.value(column)}"

    def row_comparison(self, alias, table, names):
        names = [f"{alias}.{n}" for n in names]
        values = [self.value(table.column(n.split(".")[1]), .05) for n in names]
        if self.chance(.35):
            rows = ", ".join("(%s)" % ", ".join(self.value(table.column(n.split(".")[1]), .05) for n in names)
                             for _ in range(self.r.randint(1, 3)))
            return f"({', '.join(names)}) IN ({rows})"
        return f"({', '.join(names)}) {self.r.choice(['<', '<=', '>', '>=', '=', '<>'])} ({', '.join(values)})"

    def joining(self, left, lt, right, rt):
        """A condition between two tables; None if they have no columns of a type."""
        pairs = [(a, b) for a in lt.columns for b in rt.columns if a.type == b.type] + \
                [(a, b) for a in lt.columns for b in rt.columns if a.type in NUMBERS[:3] and b.type in NUMBERS[:3]]
        if not pairs:
            return None
        a, b = self.r.choice(pairs)
        sql = f"{left}.{a.name} {self.r.choice(['=', '=', '=', '=', '<', '>='])} {right}.{b.name}"
        if self.chance(.25):
            a, b = self.r.choice(pairs)
            sql = f"{sql} {self.r.choice(['AND', 'AND', 'OR'])} {left}.{a.name} = {right}.{b.name}"
        return f"({sql})"

    def subquery(self, alias, table):
        r = self.r
        other = r.choice(self.tables)
        where = self.where("s", other, depth=1, subqueries=False)
        same = [(a, b) for a in table.columns for b in other.columns if a.type == b.type]
        kind = r.random()
        if kind < .4:
            join = self.joining(alias, table, "s", other)
            if join:
                return f"{r.choice(['', 'NOT '])}EXISTS (SELECT FROM {other.name} s WHERE {join} AND {where})"
        if same:
            a, b = r.choice(same)
            if kind < .75:
                return f"{alias}.{a.name} {r.choice(['', 'NOT '])}IN (SELECT s.{b.name} FROM {other.name} s WHERE {where})"
            if b.bare not in ("boolean", "uuid", "bytea"):
                return f"{alias}.{a.name} {r.choice(['=', '<', '>='])} (SELECT {r.choice(['max', 'min'])}(s.{b.name}) FROM {other.name} s WHERE {where})"
        return self.comparison(alias, table)

    def where(self, alias, table, depth=2, subqueries=True):
        r = self.r
        kind = r.random()
        if depth > 0 and kind < .22:
            parts = [self.where(alias, table, depth - 1, False) for _ in range(r.randint(2, 3))]
            return "(" + " OR ".join(parts) + ")"
        if depth > 0 and kind < .5:
            parts = [self.where(alias, table, depth - 1, subqueries) for _ in range(r.randint(2, 3))]
            return "(" + " AND ".join(parts) + ")"
        if kind < .51 + .1 * depth:
            parts = [self.comparison(alias, table) for _ in range(r.randint(2, 3))]
            return "(" + " OR ".join(parts) + ")"
        if depth > 0 and kind < .75:
            return f"NOT ({self.where(alias, table, depth - 1, False)})"
        if subqueries and kind < .82:
            return self.subquery(alias, table)
        return self.comparison(alias, table)

    # ---- queries ----

    def order_all(self, columns):
        """A total order: of whole rows."""
        r = self.r
        first = r.sample(columns, min(len(columns), r.randint(1, 3)))
        rest = [c for c in columns if c not in first]
        return ", ".join(c + r.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]) for c in first) + \
            "".join(", " + c for c in rest)

    def select(self):
        r = self.r
        kind = r.random()
        t = r.choice(self.tables)
        names = [f"t.{c.name}" for c in t.columns]
        where = self.where("t", t)
        if kind < .3:
            return f"SELECT * FROM {t.name} t WHERE {where}" + self.tail(names)
        if kind < .4:
            some = r.sample(names, r.randint(1, 3))
            distinct = r.choice(["", "DISTINCT "])
            return f"SELECT {distinct}{', '.join(some)} FROM {t.name} t WHERE {where}" + self.tail(some)
        if kind < .48:
            some = r.sample(names, r.randint(1, 2))
            return (f"SELECT {', '.join(some)}, count(*), count({r.choice(names)}) FROM {t.name} t WHERE {where} "
                    f"GROUP BY {', '.join(some)}" + self.tail(some))
        if kind < .54:
            c = self.ordered(t)
            if c.bare in ("uuid", "bytea"):
                return f"SELECT count(DISTINCT t.{c.name}) FROM {t.name} t WHERE {where}"
            return f"SELECT min(t.{c.name}), max(t.{c.name}), count(*) FROM {t.name} t WHERE {where}"
        if kind < .58:
            c = self.ordered(t)
            return (f"SELECT {names[0]}, rank() OVER (order by t.{c.name}) FROM {t.name} t WHERE {where}")
        if kind < .62:
            u = r.choice(self.tables)
            a, b = r.choice(t.columns), r.choice(u.columns)
            return (f"SELECT t.{a.name}::text FROM {t.name} t WHERE {where} {r.choice(['UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT'])} "
                    f"SELECT u.{b.name}::text FROM {u.name} u WHERE {self.where('u', u)}")
        return self.join(t, names, where)

    def tail(self, columns):
        if self.chance(.45):
            return ""
        return f" ORDER BY {self.order_all(columns)}" + \
            (f" LIMIT {self.r.randint(0, 15)}" if self.chance(.6) else "") + \
            (f" OFFSET {self.r.randint(0, 5)}" if self.chance(.2) else "")

    def join(self, t, names, where):
        r = self.r
        u = r.choice(self.tables)
        on = self.joining("t", t, "u", u)
        if on is None:
            return f"SELECT count(*) FROM {t.name} t, {u.name} u WHERE {where} AND {self.where('u', u)}"
        names = names + [f"u.{c.name}" for c in u.columns]
        kind = r.random()
        if kind < .35:
            return f"SELECT * FROM {t.name} t JOIN {u.name} u ON {on} WHERE {where}" + self.tail(names)
        if kind < .6:
            how = r.choice(["LEFT", "RIGHT", "FULL"])
            if how == "FULL":
                on = on.split(" OR ")[0].strip("()")
                if " AND " in on or any(o in on for o in ("<", ">")):
                    how = "LEFT"
                on = f"({on})"
            few = r.choice([names, names[:len(t.columns)]])
            return f"SELECT {', '.join(few)} FROM {t.name} t {how} JOIN {u.name} u ON {on} WHERE {where}" + self.tail(few)
        if kind < .7:
            inner = self.order_all([f"u.{c.name}" for c in u.columns])
            return (f"SELECT t.*, l.* FROM {t.name} t, LATERAL (SELECT * FROM {u.name} u WHERE {on} "
                    f"order by {inner} LIMIT {r.randint(1, 3)}) l WHERE {where}")
        if kind < .8:
            return (f"WITH w AS {r.choice(['', 'MATERIALIZED ', 'NOT MATERIALIZED '])}(SELECT * FROM {u.name} u WHERE {self.where('u', u)}) "
                    f"SELECT t.*, u.* FROM {t.name} t JOIN w u ON {on} WHERE {where}" + self.tail(names))
        if kind < .9:
            v = r.choice(self.tables)
            on2 = self.joining("u", u, "v", v) or "true"
            return (f"SELECT count(*), count(t.c0), count(u.c0), count(v.c0) FROM {t.name} t "
                    f"{r.choice(['JOIN', 'LEFT JOIN'])} {u.name} u ON {on} {r.choice(['JOIN', 'LEFT JOIN'])} {v.name} v ON {on2} "
                    f"WHERE {where}")
        return f"SELECT t.* FROM {t.name} t WHERE {where} AND {self.subquery('t', t)}" + self.tail(names[:len(t.columns)])

    # ---- writes ----

    def row(self, table):
        return "(%s)" % ", ".join(self.value(c, 0 if c.not_null else .12) for c in table.columns)

    def returning(self, alias, table):
        return f" RETURNING {alias}.*" if self.chance(.4) else ""

    def settings(self, table, prefix=""):
        r = self.r
        columns = r.sample(table.columns, r.choice([1, 1, 2]))
        out = []
        for c in columns:
            kind = r.random()
            if c.type in ("int", "bigint") and kind < .3 and not any(c.name in u for u in table.unique):
                out.append(f"{c.name} = {prefix}{c.name} {r.choice(['+', '-'])} {r.randint(0, 3)}")
            elif kind < .38 and prefix == "t." and c.name not in table.key:
                out.append(f"{c.name} = excluded.{c.name}")
            else:
                out.append(f"{c.name} = {self.value(c, 0 if c.not_null else .1)}")
        return ", ".join(out)

    def on_conflict(self, table):
        r = self.r
        if self.chance(.4):
            if table.unique and self.chance(.5):
                return f" ON CONFLICT ({', '.join(r.choice(table.unique))}) DO NOTHING"
            return " ON CONFLICT DO NOTHING"
        if not table.unique:
            return ""
        sql = f" ON CONFLICT ({', '.join(r.choice(table.unique))}) DO UPDATE SET {self.settings(table, 't.')}"
        if self.chance(.3):
            sql += f" WHERE {self.comparison('t', table)}"
        return sql

    def write(self):
        r = self.r
        t = r.choice(self.tables)
        kind = r.random()
        if kind < .4:
            rows = ", ".join(self.row(t) for _ in range(r.choice([1, 1, 2, 3, 6])))
            return f"INSERT INTO {t.name} AS t VALUES {rows}" + \
                (self.on_conflict(t) if self.chance(.6) else "") + self.returning("t", t)
        if kind < .48:
            names = [f"t.{c.name}" for c in t.columns]
            changed = ", ".join(self.value(c, 0) if self.chance(.4) else f"t.{c.name}" for c in t.columns)
            return (f"INSERT INTO {t.name} AS t SELECT {changed} FROM {t.name} t WHERE {self.where('t', t)} "
                    f"ORDER BY {self.order_all(names)} LIMIT {r.randint(1, 8)}") + \
                (self.on_conflict(t) if self.chance(.6) else "")
        if kind < .72:
            return f"UPDATE {t.name} AS t SET {self.settings(t)} WHERE {self.where('t', t)}" + self.returning("t", t)
        u = r.choice(self.tables)
        on = self.joining("t", t, "u", u)
        if kind < .8 and on:
            sets = ", ".join(f"{c.name} = {self.value(c, 0)}" for c in r.sample(t.columns, r.choice([1, 2])))
            return f"UPDATE {t.name} AS t SET {sets} FROM {u.name} u WHERE {on} AND {self.where('t', t)} AND {self.where('u', u)}"
        if kind < .86 and on:
            return f"DELETE FROM {t.name} AS t USING {u.name} u WHERE {on} AND {self.where('t', t)} AND {self.where('t', t)}"
        return f"DELETE FROM {t.name} AS t WHERE {self.where('t', t)} AND {self.where('t', t)}" + self.returning("t", t)

    def prepared(self):
        """A statement with parameters, and lists of values for it."""
        r = self.r
        t = r.choice(self.tables)
        columns = r.sample(t.columns, r.randint(1, 3))
        conditions, types, n = [], [], 0
        for c in columns:
            kind = r.random()
            if kind < .2:
                conditions.append(f"t.{c.name} = ANY (${n + 1})")
                types.append((f"{c.bare.split('(')[0]}[]", c, True))
            elif kind < .3:
                conditions.append(f"(t.{c.name} = ${n + 1} OR t.{c.name} = {self.value(c)})")
                types.append((c.bare.split("(")[0], c, False))
            else:
                conditions.append(f"t.{c.name} {r.choice(['=', '=', '<', '>='])} ${n + 1}")
                types.append((c.bare.split("(")[0], c, False))
            n += 1
        sql = r.choice([f"SELECT * FROM {t.name} t WHERE ", f"SELECT count(*) FROM {t.name} t WHERE ",
                        f"DELETE FROM {t.name} AS t WHERE {self.where('t', t)} AND {self.where('t', t)} AND ",
                        f"UPDATE {t.name} AS t SET {self.settings(t)} WHERE {self.where('t', t)} AND "]) + \
            " AND ".join(conditions)
        return (f"PREPARE p{self.step} ({', '.join(t for t, _, _ in types)}) AS {sql}",
                [f"EXECUTE p{self.step} (%s)" % ", ".join(
                    f"ARRAY[{', '.join(self.value(c) for _ in range(r.randint(1, 4)))}]::{c.bare}[]" if array else self.value(c)
                    for _, c, array in types) for _ in range(3)])


class Both:
    """The same statement on a session of each kind."""

    def __init__(self, server, seed, notes):
        self.ours, self.theirs = server.connect("compare"), server.connect("compare")
        self.notes = notes
        self.failed = 0
        for conn, schema in ((self.ours, "ours"), (self.theirs, "theirs")):
            query(conn, f"DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}; SET search_path = {schema}, public; "
                        "SET timezone = 'Europe/Berlin'")
        query(self.ours, "SET mosql_fdw.default_server = 'redis'")

    def __call__(self, sql):
        """What ours said; a difference is noted."""
        any_order = not (" ORDER BY " in sql and sql.startswith("SELECT"))
        loosely = any(word in sql for word in ("DISTINCT", "GROUP BY", "UNION", "EXCEPT", "INTERSECT", "min(", "max("))
        here, there = (answer(conn, sql, any_order, loosely) for conn in (self.ours, self.theirs))
        if not agree(here, there):
            self.failed += 1
            self.notes.append(f"{sql}\n  ours         {self.short(here, there)}\n  PostgreSQL's {self.short(there, here)}")
        return here

    @staticmethod
    def short(one, other):
        if isinstance(one, list) and isinstance(other, list):
            return f"{len(one)} rows, only here {[x for x in one if x not in other][:3]}"
        return str(one)[:400]


def run_seed(server, seed):
    g, notes = Generator(seed), []
    both = Both(server, seed, notes)
    r = g.r
    for name in ("a", "b", "c"):
        both(g.make_table(name))
    for t in g.tables:
        for _ in range(3):
            add_index(g, both, t)
        for _ in range(ROWS // 20):
            both(f"INSERT INTO {t.name} VALUES {', '.join(g.row(t) for _ in range(20))} ON CONFLICT DO NOTHING")
        query(both.ours, f"ANALYZE {t.name}")
    in_transaction, savepoints, through, unions = False, 0, 0, 0
    end = time.monotonic() + SECONDS if len(sys.argv) < 2 else float("inf")
    for g.step in range(1, STATEMENTS + 1):
        if time.monotonic() > end:
            tap.note(f"seed {seed}: {g.step} statements")
            break
        kind = r.random()
        if kind < .02 and not in_transaction:
            add_index(g, both, r.choice(g.tables))
        elif kind < .03 and g.indexes and not in_transaction:
            name, table, unique = g.indexes.pop(r.randrange(len(g.indexes)))
            both(f"DROP INDEX {name}")
            if unique:
                table.unique.remove(unique)
        elif kind < .06 and not in_transaction:
            both(f"BEGIN ISOLATION LEVEL {r.choice(LEVELS)}")
            in_transaction, savepoints = True, 0
        elif kind < .1 and in_transaction:
            both(r.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
            in_transaction = False
        elif kind < .15 and in_transaction:
            if savepoints and g.chance(.5):
                both(f"ROLLBACK TO s{savepoints}")
            elif savepoints and g.chance(.3):
                both(f"RELEASE s{savepoints}")
                savepoints -= 1
            else:
                savepoints += 1
                both(f"SAVEPOINT s{savepoints}")
        elif kind < .18:
            # how, not what; on one side only
            for how in WAYS + ["enable_seqscan"]:
                query(both.ours, f"RESET {how}")
            for how in r.sample(WAYS, 2) + ["enable_seqscan"]:
                query(both.ours, f"SET {how} = {r.choice(['on', 'off'])}")
        elif kind < .23:
            protect(both, in_transaction, lambda: run_prepared(g, both))
        elif kind < .5:
            protect(both, in_transaction, lambda: both(g.write()))
        else:
            sql = g.select()
            if g.chance(.1) and sql.startswith("SELECT * FROM") and " JOIN " not in sql:
                sql += " FOR " + r.choice(["UPDATE", "SHARE"])
            explained = attempt(both.ours, "EXPLAIN " + sql)[0] if not in_transaction else None
            through += any("Index" in line for line, in explained or [])
            unions += any("Union:" in line or ") OR (" in line and "Key Range" in line for line, in explained or [])
            protect(both, in_transaction, lambda: both(sql))
        if both.failed > 3:
            break
    if in_transaction:
        both("COMMIT")
    for t in g.tables:
        both(f"SELECT * FROM {t.name}")
        tap.equal(findings(both.ours, t.name), ([], []), f"seed {seed}: mosql_fdw_check('{t.name}') finds nothing")
    tap.ok(not notes, f"seed {seed}: the same as PostgreSQL", "\n".join(notes))
    tap.note(f"seed {seed}: {through} queries through an index, {unions} through several ranges")
    both.ours.close()
    both.theirs.close()
    return through, unions


def protect(both, in_transaction, what):
    """An error does not end the transaction."""
    if in_transaction:
        both("SAVEPOINT protect")
    what()
    if in_transaction:
        both("ROLLBACK TO protect" if both.ours.info.transaction_status == psycopg2.extensions.TRANSACTION_STATUS_INERROR
             else "RELEASE protect")


def run_prepared(g, both):
    prepare, executions = g.prepared()
    if isinstance(both(prepare), tuple):
        return
    query(both.ours, f"SET plan_cache_mode = {g.r.choice(['auto', 'force_generic_plan', 'force_custom_plan'])}")
    for sql in executions:
        both(sql)
        if both.ours.info.transaction_status == psycopg2.extensions.TRANSACTION_STATUS_INERROR:
            return
    both(f"DEALLOCATE p{g.step}")


def add_index(g, both, table):
    g.step += 1
    name, unique, sql = g.make_index(table)
    if isinstance(both(sql), tuple):
        return
    g.indexes.append((name, table, unique))
    table.leading += [c.name for c in table.columns if f"({c.name}" in sql]
    if unique:
        table.unique.append(unique)


def body():
    cluster = Cluster("compare")
    server = Server("compare")
    make_compared(server, "compare", cluster)
    through = unions = 0
    for seed in SEEDS:
        with section(f"seed {seed}"):
            n, m = run_seed(server, seed)
            through, unions = through + n, unions + m
    tap.ok(len(SEEDS) == 1 or through > 3 and unions > 0, "queries went through indexes, and through several ranges", (through, unions))
    tap.equal(server.crashes(), [], "no backend crashed")


main(body)
