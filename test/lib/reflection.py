"""What a schema is, as tools ask for it: PostgreSQL's catalogs and the information schema, by names, so that
what two databases say can be compared."""
from mosqltest import query

MINE = "n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'"
SHOWN = "table_schema NOT IN ('pg_catalog', 'information_schema')"
CONSTRAINED = "constraint_schema NOT IN ('pg_catalog', 'information_schema') AND constraint_name !~ '_not_null$'"

ASPECTS = {
    "tables": f"""SELECT n.nspname, c.relname, c.relkind, c.relpersistence, c.relhasindex, c.relispartition, c.relrowsecurity,
        c.relforcerowsecurity, c.relnatts, c.relchecks, pg_get_userbyid(c.relowner), c.relacl::text,
        c.reloptions::text, obj_description(c.oid, 'pg_class')
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {MINE}""",
    "columns": f"""SELECT n.nspname, c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef,
        a.attidentity, a.attgenerated, a.attstorage, a.attislocal, a.attinhcount, co.collname,
        pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum), a.attacl::text
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum LEFT JOIN pg_collation co ON co.oid = a.attcollation
        WHERE {MINE} AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind NOT IN ('i', 'I')""",
    "constraints": f"""SELECT n.nspname, c.conrelid::regclass::text, c.conname, c.contype, c.condeferrable, c.condeferred, c.convalidated,
        c.conindid::regclass::text, c.confrelid::regclass::text, c.confupdtype, c.confdeltype, c.confmatchtype, c.conislocal, c.coninhcount,
        c.connoinherit, c.conkey::text, c.confkey::text, pg_get_constraintdef(c.oid), pg_get_constraintdef(c.oid, true),
        c.conpfeqop::regoperator[]::text, obj_description(c.oid, 'pg_constraint')
        FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace WHERE {MINE}""",
    "indexes": f"""SELECT n.nspname, i.indexrelid::regclass::text, i.indrelid::regclass::text, i.indisunique, i.indisprimary, i.indisvalid,
        i.indisready, i.indisclustered, i.indisreplident, i.indimmediate, i.indnullsnotdistinct, i.indnatts, i.indnkeyatts, i.indkey::text,
        i.indoption::text, am.amname, pg_get_expr(i.indpred, i.indrelid), pg_get_expr(i.indexprs, i.indrelid), pg_get_indexdef(i.indexrelid),
        (SELECT array_agg(o.opcname ORDER BY k) FROM unnest(i.indclass::oid[]) WITH ORDINALITY u(c, k) JOIN pg_opclass o ON o.oid = u.c)::text,
        (SELECT array_agg(pg_get_indexdef(i.indexrelid, k, true) ORDER BY k) FROM generate_series(1, i.indnatts) k)::text,
        obj_description(i.indexrelid, 'pg_class')
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_am am ON am.oid = c.relam
        WHERE {MINE}""",
    "pg_indexes": "SELECT * FROM pg_indexes WHERE schemaname NOT IN ('pg_catalog', 'information_schema')",
    "pg_tables": "SELECT schemaname, tablename, tableowner, tablespace, hasindexes, hasrules, rowsecurity FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')",
    "sequences": "SELECT * FROM pg_sequences",
    "owned sequences": f"""SELECT n.nspname, c.relname, a.attname, pg_get_serial_sequence(format('%I.%I', n.nspname, c.relname), a.attname),
        d.deptype, d.objid::regclass::text
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.refobjsubid = a.attnum
            AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i') AND d.objid IN (SELECT seqrelid FROM pg_sequence)
        WHERE {MINE} AND c.relkind = 'r'""",
    "enums": f"""SELECT n.nspname, t.typname, array_agg(e.enumlabel ORDER BY e.enumsortorder)::text
        FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid JOIN pg_namespace n ON n.oid = t.typnamespace WHERE {MINE} GROUP BY 1, 2""",
    "types": f"""SELECT n.nspname, t.typname, t.typtype, format_type(t.typbasetype, t.typtypmod), t.typnotnull, t.typdefault,
        t.typrelid::regclass::text FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE {MINE}""",
    "triggers": """SELECT tgrelid::regclass::text, tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal""",
    "inheritance": "SELECT inhrelid::regclass::text, inhparent::regclass::text, inhseqno FROM pg_inherits",
    "views": f"SELECT table_schema, table_name, view_definition, is_updatable FROM information_schema.views WHERE {SHOWN}",
    "information_schema.tables": f"SELECT * FROM information_schema.tables WHERE {SHOWN}",
    "information_schema.columns": f"SELECT * FROM information_schema.columns WHERE {SHOWN}",
    "information_schema.sequences": "SELECT * FROM information_schema.sequences",
    "information_schema.table_constraints": f"SELECT * FROM information_schema.table_constraints WHERE {CONSTRAINED}",
    "information_schema.key_column_usage": f"SELECT * FROM information_schema.key_column_usage WHERE {CONSTRAINED}",
    "information_schema.constraint_column_usage": f"SELECT * FROM information_schema.constraint_column_usage WHERE {CONSTRAINED}",
    "information_schema.referential_constraints": f"SELECT * FROM information_schema.referential_constraints WHERE {CONSTRAINED}",
    "information_schema.check_constraints": f"SELECT * FROM information_schema.check_constraints WHERE {CONSTRAINED}",
    "information_schema.table_privileges": f"SELECT * FROM information_schema.table_privileges WHERE {SHOWN}",
    "information_schema.triggers": "SELECT * FROM information_schema.triggers WHERE trigger_schema NOT IN ('pg_catalog', 'information_schema')",
    "pg_stat_user_tables": "SELECT schemaname, relname FROM pg_stat_user_tables",
    "schemas": f"SELECT n.nspname, pg_get_userbyid(n.nspowner), obj_description(n.oid, 'pg_namespace') FROM pg_namespace n WHERE {MINE}",
}


def reflect(conn, database):
    """A line for each thing of each aspect, sorted; database: its name, which is left out."""
    said = []
    for aspect, sql in ASPECTS.items():
        for row in sorted(map(str, query(conn, sql))):
            said.append(f"{aspect}: {row}".replace(repr(database), "'DATABASE'"))
    return said
