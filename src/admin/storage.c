/*
 * storage.c: clauses about local storage.
 *
 * Layer: admin.  WITH (...), TABLESPACE, UNLOGGED and their like mean nothing for rows in Redis.  They are
 * checked as core checks them, so that what is mistyped is told, and then left out, with a NOTICE.
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/tablespace.h"
#include "utils/lsyscache.h"

#include "admin/utility.h"

void
mosql_admin_notice_storage(const char *table)
{
	static bool said = false;

	if (said)
		return;
	said = true;
	ereport(NOTICE,
			(errmsg("storage settings of table \"%s\" are ignored", table),
			 errdetail("Its rows are in Redis: WITH (...), TABLESPACE, UNLOGGED and their like mean nothing there. This is said once per session.")));
}

/* ---- what core would refuse ---- */

static void
check_table_options(List *options)
{
#if PG_VERSION_NUM >= 180000
	static const char *const namespaces[] = HEAP_RELOPT_NAMESPACES;
#else
	static char *namespaces[] = HEAP_RELOPT_NAMESPACES;
#endif

	(void) heap_reloptions(RELKIND_RELATION,
						   transformRelOptions((Datum) 0, options, NULL, namespaces, true, false), true);
	(void) heap_reloptions(RELKIND_TOASTVALUE,
						   transformRelOptions((Datum) 0, options, "toast", namespaces, true, false),
						   true);
}

void
mosql_admin_check_index_options(List *options, const char *tablespace)
{
	(void) index_reloptions(GetIndexAmRoutineByAmId(BTREE_AM_OID, false)->amoptions,
							transformRelOptions((Datum) 0, options, NULL, NULL, false, false), true);
	if (tablespace != NULL)
		(void) get_tablespace_oid(tablespace, false);
}

/* The index of a table: CLUSTER ... USING, CLUSTER ON. */
void
mosql_admin_check_index_name(Oid relid, const char *name)
{
	if (name != NULL && !OidIsValid(get_relname_relid(name, get_rel_namespace(relid))))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("index \"%s\" for table \"%s\" does not exist", name, get_rel_name(relid))));
}

/* An action of ALTER TABLE that means nothing here. */
void
mosql_admin_check_storage_action(Oid relid, const AlterTableCmd *command)
{
	switch (command->subtype)
	{
		case AT_SetRelOptions:
			check_table_options((List *) command->def);
			break;
		case AT_SetTableSpace:
			(void) get_tablespace_oid(command->name, false);
			break;
		case AT_ClusterOn:
			mosql_admin_check_index_name(relid, command->name);
			break;
		case AT_SetStorage:
		case AT_SetCompression:
			if (get_attnum(relid, command->name) == InvalidAttrNumber)
				ereport(ERROR,
						(errcode(ERRCODE_UNDEFINED_COLUMN),
						 errmsg("column \"%s\" of relation \"%s\" does not exist", command->name,
								get_rel_name(relid))));
			break;
		default:
			break;
	}
}

/* ---- CREATE TABLE ---- */

/* Has a column COMPRESSION, or STORAGE? */
static bool
names_storage(const List *elements)
{
	const ListCell *lc;

	foreach(lc, elements)
	{
		const ColumnDef *column = lfirst(lc);

		if (IsA(column, ColumnDef) && (column->compression != NULL || column->storage != 0))
			return true;
#if PG_VERSION_NUM >= 160000
		if (IsA(column, ColumnDef) && column->storage_name != NULL)
			return true;
#endif
	}
	return false;
}

void
mosql_admin_check_storage(const CreateStmt *create)
{
	check_table_options(create->options);
	if (create->tablespacename != NULL)
		(void) get_tablespace_oid(create->tablespacename, false);
	if (names_storage(create->tableElts) || create->options != NIL || create->tablespacename != NULL ||
		create->relation->relpersistence == RELPERSISTENCE_UNLOGGED)
		mosql_admin_notice_storage(create->relation->relname);
}
