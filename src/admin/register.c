/*
 * register.c: CREATE gives a table its name in Redis.
 *
 * Layer: admin.  That name is the one that the statement says, or the one in the options
 * schema_name and table_name.  A table that is there already under it is attached to: so
 * the servers come to share it.  But RENAME, SET SCHEMA and ALTER SCHEMA ... RENAME leave
 * the name in Redis as it is, since other servers know it by that; and who then creates a
 * table under the former name means a new one, as it would be in PostgreSQL, never the
 * one with the rows.  So a name that a table of this database has in Redis is not given
 * again, unless the options say so: the new table gets another, "t#2".  Servers on which
 * the same is said give the same name, and share that table, too.  A temporary one gets a name
 * that no other has.
 *
 * Race -- somebody renames while another creates under the name of before: the unique
 * indexes of pg_class and pg_namespace make the second wait until the first has ended,
 * and the scan below begins after that, with a newer snapshot than either.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_table.h"
#include "commands/defrem.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/admin.h"

static bool
names_table(List *options)
{
	return mosql_table_option(options, "schema_name") != NULL ||
		mosql_table_option(options, "table_name") != NULL;
}

/*
 * Servers of one namespace may list other nodes of one cluster; so nodes are not
 * compared.  In two clusters a name is then kept free that need not be.
 */
static bool
is_of_namespace(Oid serverid, const char *ns)
{
	return mosql_fdw_is_our_server(serverid) &&
		strcmp(mosql_fdw_options(InvalidOid, serverid, InvalidOid)->session.ns, ns) == 0;
}

/*
 * Has a foreign table of pg_foreign_table's row this name in Redis?  One without options
 * (its triggers were disabled) has none yet.  Temporary ones are windows onto a table that
 * is to have its own here.
 */
static bool
has_name(Relation catalog, HeapTuple tuple, const char *schema, const char *name)
{
	Oid			relid = ((Form_pg_foreign_table) GETSTRUCT(tuple))->ftrelid;
	bool		isnull;
	Datum		datum = heap_getattr(tuple, Anum_pg_foreign_table_ftoptions,
									 RelationGetDescr(catalog), &isnull);
	List	   *options = isnull ? NIL : untransformRelOptions(datum);
	const char *its_schema = mosql_table_option(options, "schema_name");
	const char *its_name = mosql_table_option(options, "table_name");

	return its_schema != NULL && its_name != NULL && strcmp(its_schema, schema) == 0 &&
		strcmp(its_name, name) == 0 && !isAnyTempNamespace(get_rel_namespace(relid));
}

/* The table of this database that has the name in this namespace; InvalidOid: none. */
static Oid
table_with_name(const char *ns, const char *schema, const char *name)
{
	Relation	catalog = table_open(ForeignTableRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	Oid			found = InvalidOid;
	HeapTuple	tuple;

	while (!OidIsValid(found) && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_foreign_table form = (Form_pg_foreign_table) GETSTRUCT(tuple);

		if (has_name(catalog, tuple, schema, name) && is_of_namespace(form->ftserver, ns))
			found = form->ftrelid;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/* "name#2", as short as names are. */
static char *
numbered(const char *name, int number)
{
	char		suffix[16];
	int			len = snprintf(suffix, sizeof(suffix), "#%d", number);

	return psprintf("%.*s%s", pg_mbcliplen(name, strlen(name), NAMEDATALEN - 1 - len), name, suffix);
}

/*
 * A temporary table is this session's alone, but each server has a schema pg_temp_3, for one session after another.
 * The clock gives no two sessions the same id.  (mosql_admin_is_window() knows it by how the schema's name begins.)
 */
static void
name_temporary(Relation rel, List *options)
{
	MosqlSession *session = mosql_fdw_session_for(RelationGetRelid(rel), InvalidOid);
	const char *schema;
	const char *name;

	if (mosql_table_option(options, "schema_name") != NULL)
		return;
	(void) mosql_txn_current(session);	/* it has an id */
	mosql_table_remote_name(rel, &schema, &name);
	mosql_table_set_name(rel, psprintf("pg_temp_" UINT64_FORMAT "_%u", mosql_session_id(session),
									   RelationGetRelid(rel)), name);
}

/* A name that is given by the statement alone, and another table has: then another. */
static void
settle_name(Relation rel)
{
	ForeignTable *table = GetForeignTable(RelationGetRelid(rel));
	const char *ns = mosql_fdw_options(InvalidOid, table->serverid, InvalidOid)->session.ns;
	const char *schema;
	const char *name;
	const char *fresh;
	Oid			other;

	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
	{
		name_temporary(rel, table->options);
		return;
	}
	if (names_table(table->options))
		return;
	mosql_table_remote_name(rel, &schema, &name);
	other = table_with_name(ns, schema, name);
	if (!OidIsValid(other))
		return;
	fresh = numbered(name, 2);
	for (int i = 3; OidIsValid(table_with_name(ns, schema, fresh)); i++)
		fresh = numbered(name, i);
	ereport(NOTICE,
			(errmsg("table \"%s\" has the name %s in Redis", name,
					quote_qualified_identifier(schema, fresh)),
			 errdetail("Table %s has the name %s there.",
					   quote_qualified_identifier(get_namespace_name(get_rel_namespace(other)),
												  get_rel_name(other)),
					   quote_qualified_identifier(schema, name)),
			 errhint("For a second foreign table of that one say so in the options schema_name and table_name.")));
	mosql_table_set_name(rel, schema, fresh);
}

bool
mosql_admin_register_table(Relation rel)
{
	settle_name(rel);
	return mosql_table_create(rel, mosql_fdw_session_for(RelationGetRelid(rel), InvalidOid));
}
