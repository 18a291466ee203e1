#!/usr/bin/python3
"""Somebody who can write to Redis, and has a role without privileges here, wants more.

He writes into the definitions of tables: defaults, CHECK constraints, what generates
columns, indexes, types, collations.  A superuser imports, refreshes, reads, analyzes
and inserts.  Whatever was written: the superuser runs nothing of it but built-in
functions that harm nobody, and what cannot be taken is left out with a NOTICE, or an error.

The functions, domain and operator of role eve say in the server's log who runs them.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "test", "lib"))
from mosqltest import *

DB = "hostile"
ROLES = """
DROP ROLE IF EXISTS eve;
CREATE ROLE eve;
"""
# Of role eve: all that she may make in schema public.
EVIL = """
GRANT CREATE ON SCHEMA public TO eve;
SET ROLE eve;
CREATE FUNCTION evil(x text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS
    $$BEGIN RAISE WARNING 'evil(%) runs as %', x, current_user; RETURN x; END$$;
CREATE FUNCTION evil_bool(x text) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT public.evil(x) IS NOT NULL';
CREATE FUNCTION length(x varchar) RETURNS int IMMUTABLE LANGUAGE sql AS $$SELECT pg_catalog.length(public.evil('length'))$$;
CREATE FUNCTION concat2(a text, b text) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT public.evil('operator')$$;
CREATE FUNCTION concat2(a varchar, b varchar) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT public.evil('better operator')$$;
CREATE OPERATOR public.|| (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = concat2);
CREATE OPERATOR public.#@# (LEFTARG = text, RIGHTARG = text, FUNCTION = concat2);
CREATE COLLATION the_order_of_bytes (provider = libc, locale = 'C');
CREATE DOMAIN evil_domain AS text CHECK (public.evil_bool(VALUE));
CREATE TYPE evil_pair AS (x public.evil_domain);
CREATE SEQUENCE victim;
RESET ROLE;
"""
WIDTH = 150
TEXTS = {       # long texts of the table below, as they stand in the definition
    "default": b"'" + b"d" * WIDTH + b"'::text",
    "check": b"(v <> '" + b"c" * WIDTH + b"'::text)",
    "generated": b"(v || '" + b"g" * WIDTH + b"'::text)",
    "index": b"($2 || '" + b"i" * WIDTH + b"'::text)",
    "predicate": b"($2 <> '" + b"p" * WIDTH + b"'::text)",
}
DDL = f"""
CREATE SCHEMA source;
CREATE FOREIGN TABLE source.t (
    id int OPTIONS (key 'true') NOT NULL, v text, d text DEFAULT '{"d" * WIDTH}',
    n character varying(10485760), c text COLLATE public.the_order_of_bytes,
    g text GENERATED ALWAYS AS (v || '{"g" * WIDTH}') STORED,
    {"o" * 60} int, CONSTRAINT {"k" * 60} CHECK (id > 0), CHECK (v <> '{"c" * WIDTH}')) SERVER redis;
COMMENT ON COLUMN source.t.v IS '{"m" * 60}';
CREATE INDEX {"x" * 60} ON source.t (n);
CREATE INDEX by_expression ON source.t ((v || '{"i" * WIDTH}'));
CREATE INDEX by_predicate ON source.t (v) WHERE v <> '{"p" * WIDTH}';
INSERT INTO source.t (id, v) SELECT i, 'v' || i FROM generate_series(1, 10) i;
"""
TEXT = [        # of type text
    "public.evil('called')",
    "(SELECT public.evil('sublink'))",
    "(SELECT 'x')",
    "'x'), EXTRA (public.evil('pasted')",
    "'x')); ALTER ROLE eve SUPERUSER; --",
    "((('(literal)'::public.evil_pair)).x)::text",
    "(ROW('row')::public.evil_pair)::text",
    "'domain'::public.evil_domain",
    "('{array}'::public.evil_domain[])[1]",
    "'a'::text OPERATOR(public.#@#) 'b'::text",
    "'a'::varchar || 'b'::varchar",
    "length('abc'::varchar)::text",
    "public.length('abc'::varchar)::text",
    "evil('unqualified')",
    "CASE WHEN public.evil('case') = 'a' THEN 'b' ELSE 'c' END",
    "COALESCE(public.evil('coalesce'), 'x')",
    "(ARRAY[public.evil('array')])[1]",
    "query_to_xml('SELECT public.evil(''xml'')', true, true, '')::text",
    "table_to_xml('pg_authid', true, true, '')::text",
    "XMLSERIALIZE(CONTENT query_to_xml('SELECT 1', true, true, '') AS text)",
    "XMLELEMENT(NAME x)::text",
    "pg_read_file('PG_VERSION')",
    "pg_catalog.pg_read_file('PG_VERSION')",
    "encode(pg_read_binary_file('PG_VERSION'), 'hex')",
    "(SELECT string_agg(rolpassword, '') FROM pg_authid)",
    "set_config('role', 'eve', false)",
    "current_setting('data_directory')",
    "lo_import('PG_VERSION')::text",
    "lo_from_bytea(0, 'x')::text",
    "pg_terminate_backend(pg_backend_pid())::text",
    "pg_sleep(1)::text",
    "txid_current()::text",
    "pg_advisory_lock(1)::text",
    "pg_reload_conf()::text",
    "ts_rewrite('a', 'SELECT ''a''::tsquery, ''b''::tsquery')::text",
    "satisfies_hash_partition(1259, 1, 0, 1)::text",
    "array_in('{domain}'::cstring, 'public.evil_domain'::regtype, -1)::text",
    "nextval('public.victim')::text",
    "nextval('public.victim'::regclass)::text",
    "currval('public.victim')::text",
    "setval('public.victim', 1)::text",
    "'public.victim'::regclass::text",
    "max('x')",
    "count(*)::text",
    "row_number() OVER ()::text",
    "generate_series(1, 3)::text",
    "$1", "$99", "id::text", "t::text", "'x' AS y", "'x' FROM pg_authid", "*", "", "'", "((",
]
ALLOWED = [     # and as PostgreSQL shows it
    ("now()::text", "(now())::text"),
    ("(now() + '1 day'::interval)::text", "((now() + '1 day'::interval))::text"),
    ("CURRENT_USER", "CURRENT_USER"),
    ("gen_random_uuid()::text", "(gen_random_uuid())::text"),
    ("to_char(now(), 'YYYY')", "to_char(now(), 'YYYY'::text)"),
    ("upper('x' || 1)", "upper(('x'::text || 1))"),
    ("CASE WHEN 1 = ANY (ARRAY[1, 2]) THEN 'a' ELSE NULLIF('b', 'c') END",
     "CASE WHEN (1 = ANY (ARRAY[1, 2])) THEN 'a'::text ELSE NULLIF('b'::text, 'c'::text) END"),
    ("pg_catalog.length('abc'::varchar)::text", "(length(('abc'::character varying)::text))::text"),
    ("concat('a', 1, current_date)", "concat('a', 1, CURRENT_DATE)"),
]
BOOL = ["public.evil_bool('called')", "(SELECT public.evil_bool('sublink'))",
        "public.evil('x') = 'x'", "v OPERATOR(public.#@#) 'a' = 'b'",
        "'(x)'::public.evil_pair IS NOT NULL", "'x'::public.evil_domain = 'x'",
        "pg_read_file('PG_VERSION') <> ''", "query_to_xml('SELECT public.evil(''xml'')', true, true, '') IS NOT NULL",
        "true) NOT VALID, ADD CHECK (public.evil_bool('pasted')", "EXISTS (SELECT FROM pg_authid)",
        "pg_terminate_backend(pg_backend_pid())", "set_config('role', 'eve', false) = ''",
        "length('abc'::varchar) = 3", "tableoid = 'pg_class'::regclass"]
TYPES = ["public.evil_domain", "public.evil_domain[]", "public.evil_pair", "integer); DROP TABLE x; --", "int DEFAULT evil('x')",
         "pg_catalog.regclass", "SETOF text", "pg_authid.oid%TYPE", "trigger", "internal", "text, more int"]
COLLATIONS = ['"C" DEFAULT evil(\'x\')', "public.none", '"C", x int', "a.b.c.d"]
NAMES = ['x" int); ALTER ROLE eve SUPERUSER; --', "x'; ALTER ROLE eve SUPERUSER; --", "x\\'; ALTER ROLE eve SUPERUSER; --",
         "$$; ALTER ROLE eve SUPERUSER; --", "*/ ALTER ROLE eve SUPERUSER; --"]
DANGEROUS = ("evil|query_to_xml|table_to_xml|pg_read|set_config|current_setting|lo_|terminate|sleep|txid|advisory|"
             "reload|ts_rewrite|satisfies|array_in|victim|SELECT|xml|regclass|public\\.")


class Definitions:
    """The rows of the definitions: hash fields in Redis."""

    def __init__(self, redis):
        self.r = redis
        assert wait_until(self.read)

    def read(self):
        """True: the row is applied, in one version.  (The root of a tree has a copy.)"""
        self.fields = {}
        for key in self.r("KEYS", DB + ":*"):
            if self.r("TYPE", key) != b"hash" or b"clock" in key:
                continue
            flat = self.r("HGETALL", key)
            for name, content in zip(flat[::2], flat[1::2]):
                if name[:1] == b"r" and b"by_expression" in content:
                    self.fields[key, name] = content
        return len(self.fields) == 1 and all(content.count(old) == 1 for content in self.fields.values()
                                             for old in TEXTS.values())

    def write(self, old, new):
        """The same length: the rest of the row stays what it is."""
        assert len(new) <= len(old), (old, new)
        for (key, name), content in self.fields.items():
            assert content.count(old) == 1, old
            self.r("HSET", key, name, content.replace(old, new.ljust(len(old))))

    def restore(self):
        for (key, name), content in self.fields.items():
            self.r("HSET", key, name, content)


def use(server, what):
    """A superuser does all that one does; what of his catalogs is dangerous then."""
    found = []
    with contextlib.closing(server.connect(DB)) as c:
        for sql in ("SELECT count(*) FROM source.t", "SELECT mosql_fdw_refresh('attached.t')",
                    "SELECT * FROM attached.t WHERE v || 'x' = 'y'",
                    "CREATE SCHEMA imported",
                    "IMPORT FOREIGN SCHEMA source FROM SERVER redis INTO imported",
                    "SELECT count(*) FROM imported.t WHERE v > 'a'", "ANALYZE imported.t", "ANALYZE attached.t",
                    "INSERT INTO imported.t (id, v) VALUES (100, 'new')",
                    "UPDATE imported.t SET v = 'newer' WHERE id = 100",
                    "INSERT INTO attached.t (id, v) VALUES (101, 'new')",
                    "SELECT * FROM mosql_fdw_gc('redis')"):
            state, text = error_of(c, sql)
            if state == "gone":
                return [f"{sql}: the session is gone: {text}"]
        found = query(c, f"""
            SELECT conrelid::regclass || ': ' || pg_get_expr(conbin, conrelid) FROM pg_constraint
            WHERE contype = 'c' AND conrelid::regclass::text IN ('imported.t', 'attached.t')
                AND pg_get_expr(conbin, conrelid) ~ '{DANGEROUS}'
            UNION ALL SELECT adrelid::regclass || ': ' || pg_get_expr(adbin, adrelid) FROM pg_attrdef
            WHERE adrelid::regclass::text IN ('imported.t', 'attached.t')
                AND pg_get_expr(adbin, adrelid) ~ '{DANGEROUS}'
            UNION ALL SELECT pg_get_indexdef(indexrelid) FROM pg_index
            WHERE indrelid::regclass::text IN ('imported.t', 'attached.t')
                AND pg_get_indexdef(indexrelid) ~ '{DANGEROUS.replace("|public", "|OPERATOR.public")}'
            UNION ALL SELECT 'superuser' FROM pg_roles WHERE rolname = 'eve' AND rolsuper
            UNION ALL SELECT 'sequence' FROM pg_depend WHERE objid = 'victim'::regclass AND refclassid = 'pg_foreign_server'::regclass""")
        query(c, "SET mosql_fdw.drop_data = off; DROP SCHEMA IF EXISTS imported CASCADE")
    return [f"{what}: {f[0]}" for f in found]


def attach(conn):
    query(conn, "SET mosql_fdw.drop_data = off; DROP SCHEMA IF EXISTS attached CASCADE; CREATE SCHEMA attached;"
          "IMPORT FOREIGN SCHEMA source FROM SERVER redis INTO attached")


def ran(server):
    """What of eve's ran, and not as eve."""
    return [l for l in re.findall(r"evil\(.*\) runs as \w+", server.log()) if not l.endswith("runs as eve")]


def try_all(server, definitions, conn, kind, old, texts):
    wrong = []
    before = len(ran(server))
    for text in texts:
        attach(conn)
        definitions.write(old, text.encode())
        wrong += use(server, text)
        if len(ran(server)) > before:
            wrong.append(f"{text}: {ran(server)[before:]}")
            before = len(ran(server))
        definitions.restore()
    tap.ok(not wrong, f"{kind}: {len(texts)} ways up that are none", "\n".join(wrong))


def allowed(definitions, conn):
    wrong = []
    for text, expected in ALLOWED:
        definitions.write(TEXTS["default"], text.encode())
        attach(conn)
        shown = query(conn, "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'attached.t'::regclass AND adnum = 3")
        got = re.sub(r"\s+", " ", shown[0][0]).strip() if shown else None
        if got != expected:
            wrong.append(f"{text}: {got}")
        definitions.restore()
    tap.ok(not wrong, "what harms nobody comes along", "\n".join(wrong))


def body():
    plain = Cluster("hostile", plain=True)
    server = Server("hostile")
    with contextlib.closing(server.connect()) as c:
        query(c, ROLES)
    make_database(server, DB, plain.nodes, {"namespace": DB}, EVIL + DDL)
    conn = server.connect(DB)
    definitions = Definitions(Redis(plain.ports[0]))
    with section("expressions"):
        try_all(server, definitions, conn, "default", TEXTS["default"], TEXT)
        try_all(server, definitions, conn, "generated column", TEXTS["generated"], TEXT)
        try_all(server, definitions, conn, "index expression", TEXTS["index"], TEXT)
        try_all(server, definitions, conn, "CHECK", TEXTS["check"], BOOL)
        try_all(server, definitions, conn, "index predicate", TEXTS["predicate"], BOOL)
    with section("names"):
        try_all(server, definitions, conn, "type", b"character varying(10485760)", TYPES)
        try_all(server, definitions, conn, "collation", b'public.the_order_of_bytes', COLLATIONS)
        for kind, letter in (("name of a column", b"o"), ("of a constraint", b"k"), ("of an index", b"x"), ("comment", b"m")):
            try_all(server, definitions, conn, kind, letter * 60, NAMES)
    with section("what is allowed"):
        allowed(definitions, conn)
    attach(conn)
    tap.equal(query(conn, "SELECT count(*) FROM attached.t WHERE id < 100"), [(10,)], "the rows are there")
    tap.equal(server.crashes(), [], "no backend died")


main(body)
