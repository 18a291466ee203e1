/*
 * drop.c: DROP TABLE of ours and of PostgreSQL's own in one statement.
 *
 * Layer: admin.  Core drops tables or foreign tables, not both; cut in two, the statement would fail where
 * they depend on each other, as a table and one that inherits from it do.  So it is one deletion here.
 * Of our tables alone it is core's DROP FOREIGN TABLE (plain.c).
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

#include "admin/utility.h"

/* Ours or not, what DROP TABLE drops. */
static bool
is_table(Oid relid)
{
	char		relkind = get_rel_relkind(relid);

	return relkind == RELKIND_RELATION || relkind == RELKIND_PARTITIONED_TABLE ||
		mosql_fdw_is_ours(relid);
}

bool
mosql_admin_takes_drop(const DropStmt *drop)
{
	bool		ours = false;
	bool		others = false;
	ListCell   *lc;

	if (drop->removeType != OBJECT_TABLE)
		return false;
	foreach(lc, drop->objects)
	{
		Oid			relid = RangeVarGetRelid(makeRangeVarFromNameList(lfirst(lc)), NoLock, true);

		if (OidIsValid(relid) && mosql_fdw_is_ours(relid))
			ours = true;
		else
			others = true;
	}
	return ours && others;
}

static bool
owns_schema(Oid schemaid)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(NamespaceRelationId, schemaid, GetUserId());
#else
	return pg_namespace_ownercheck(schemaid, GetUserId());
#endif
}

/* Before the lock is taken, and again if the name means another table by then. */
static void
check_may_drop(const RangeVar *name, Oid relid, Oid old_relid, void *arg)
{
	if (!OidIsValid(relid) || relid == old_relid)
		return;
	if (!is_table(relid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", name->relname)));
	if (!mosql_admin_owns(relid) && !owns_schema(get_rel_namespace(relid)))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, name->relname);
	if (!allowSystemTableMods && relid < FirstUnpinnedObjectId)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied: \"%s\" is a system catalog", name->relname)));
}

/* In core's words. */
static void
report_missing(const RangeVar *name, bool missing_ok)
{
	bool		schema = name->schemaname != NULL &&
		!OidIsValid(LookupNamespaceNoError(name->schemaname));
	const char *what = schema ? "schema" : "table";
	const char *which = schema ? name->schemaname : name->relname;

	if (missing_ok)
		ereport(NOTICE,
				(errmsg("%s \"%s\" does not exist, skipping", what, which)));
	else
		ereport(ERROR,
				(errcode(schema ? ERRCODE_UNDEFINED_SCHEMA : ERRCODE_UNDEFINED_TABLE),
				 errmsg("%s \"%s\" does not exist", what, which)));
}

void
mosql_admin_run_drop(const MosqlStatement *statement)
{
	const DropStmt *drop = castNode(DropStmt, statement->tree);
	ObjectAddresses *tables = new_object_addresses();
	ListCell   *lc;

	foreach(lc, drop->objects)
	{
		RangeVar   *name = makeRangeVarFromNameList(lfirst(lc));
		Oid			relid = RangeVarGetRelidExtended(name, AccessExclusiveLock, RVR_MISSING_OK,
													 check_may_drop, NULL);
		ObjectAddress table;

		if (!OidIsValid(relid))
		{
			report_missing(name, drop->missing_ok);
			continue;
		}
		ObjectAddressSet(table, RelationRelationId, relid);
		add_exact_object_address(&table, tables);
	}
	performMultipleDeletions(tables, drop->behavior, 0);
	free_object_addresses(tables);
}
