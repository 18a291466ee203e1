/*
 * row_security.c: ALTER TABLE ... ENABLE, DISABLE ROW LEVEL SECURITY.
 *
 * Layer: admin.  What it does: fdw/row_security.c.  The table's option row_security says it, because pg_dump, also
 * that of pg_upgrade, writes options of foreign tables, and looks for row-level security at tables alone; and
 * pg_class, where PostgreSQL looks, follows the option.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "admin/utility.h"

#define OPTION	"row_security"

static const DefElem *
find_option(Oid relid)
{
	ListCell   *lc;

	foreach(lc, GetForeignTable(relid)->options)
		if (strcmp(lfirst_node(DefElem, lc)->defname, OPTION) == 0)
			return lfirst_node(DefElem, lc);
	return NULL;
}

/* One after another, the last one says what the statement leaves. */
static bool
is_last(const AlterTableStmt *statement, const AlterTableCmd *command)
{
	const AlterTableCmd *last = NULL;
	ListCell   *lc;

	foreach(lc, statement->cmds)
	{
		const AlterTableCmd *other = lfirst_node(AlterTableCmd, lc);

		if (other->subtype == AT_EnableRowSecurity || other->subtype == AT_DisableRowSecurity)
			last = other;
	}
	return last == command;
}

bool
mosql_admin_set_row_security(Oid relid, const AlterTableStmt *statement, AlterTableCmd *command)
{
	bool		last = is_last(statement, command);
	bool		enable = command->subtype == AT_EnableRowSecurity;
	bool		given = find_option(relid) != NULL;
	MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(command));	/* the statement's */
	DefElem    *option = makeDefElem(OPTION, (Node *) makeString(pstrdup("true")), -1);

	option->defaction = !enable ? DEFELEM_DROP : given ? DEFELEM_SET : DEFELEM_ADD;
	command->subtype = AT_GenericOptions;
	command->def = (Node *) list_make1(option);
	MemoryContextSwitchTo(old);
	return last && (enable || given);
}

void
mosql_admin_follow_row_security(Oid relid)
{
	const DefElem *option = find_option(relid);
	bool		enabled = option != NULL && defGetBoolean(unconstify(DefElem *, option));
	Relation	catalog = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	if (((Form_pg_class) GETSTRUCT(tuple))->relrowsecurity != enabled)
	{
		((Form_pg_class) GETSTRUCT(tuple))->relrowsecurity = enabled;
		CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
		CommandCounterIncrement();
	}
	table_close(catalog, RowExclusiveLock);
}
