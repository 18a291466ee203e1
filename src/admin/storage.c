/*
 * storage.c: clauses about local storage.
 *
 * Layer: admin.  WITH (...), TABLESPACE, UNLOGGED and their like mean nothing for rows in Redis.  They are
 * checked as core checks them, so that what is mistyped is told, and then left out, with a NOTICE.
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/reloptions.h"
#include "access/toast_compression.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/tablespace.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

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

static void
check_compression(const char *name)
{
	if (name != NULL && strcmp(name, "default") != 0 && !CompressionMethodIsValid(CompressionNameToMethod(name)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid compression method \"%s\"", name)));
}

static bool
is_storage_name(const char *name)
{
	static const char *const names[] = {"plain", "external", "extended", "main",
#if PG_VERSION_NUM >= 160000
		"default",
#endif
	};

	for (int i = 0; i < lengthof(names); i++)
		if (pg_strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

/* SET STORAGE, SET COMPRESSION: core's questions, in its order. */
static void
check_column_storage(Oid relid, const AlterTableCmd *command)
{
	AttrNumber	attnum = get_attnum(relid, command->name);
	const char *name = strVal(command->def);
	bool		storage = command->subtype == AT_SetStorage;
	Oid			type;

	if (storage && !is_storage_name(name))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid storage type \"%s\"", name)));
	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", command->name,
						get_rel_name(relid))));
	type = attnum > 0 ? get_atttype(relid, attnum) : InvalidOid;
	if (attnum > 0 && get_typstorage(type) == TYPSTORAGE_PLAIN &&
		pg_strcasecmp(name, "default") != 0 && !(storage && pg_strcasecmp(name, "plain") == 0))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 storage ? errmsg("column data type %s can only have storage PLAIN", format_type_be(type))
				 : errmsg("column data type %s does not support compression", format_type_be(type))));
	if (!storage)
		check_compression(name);
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
			check_column_storage(relid, command);
			break;
		default:
			break;
	}
}

/* ---- ALTER INDEX ... SET (...), RESET (...), SET TABLESPACE ---- */

static bool
is_storage_alone(const AlterTableStmt *alter)
{
	ListCell   *lc;

	foreach(lc, alter->cmds)
		switch (lfirst_node(AlterTableCmd, lc)->subtype)
		{
			case AT_SetRelOptions:
			case AT_ResetRelOptions:
			case AT_SetTableSpace:
				break;
			default:
				return false;
		}
	return true;
}

/* A bare index (index_bare.c) is checked as what it is, another as the btree that it stands for. */
static void
check_index_storage(Oid indexid, const AlterTableCmd *command)
{
	Relation	index = relation_open(indexid, AccessShareLock);
	Oid			method = mosql_admin_is_bare_index(indexid) ? index->rd_rel->relam : BTREE_AM_OID;

	if (command->subtype == AT_SetRelOptions)
		(void) index_reloptions(GetIndexAmRoutineByAmId(method, false)->amoptions,
								transformRelOptions((Datum) 0, (List *) command->def, NULL, NULL, false, false), true);
	else if (command->subtype == AT_SetTableSpace)
		(void) get_tablespace_oid(command->name, false);
	relation_close(index, AccessShareLock);
}

static void
alter_index(const MosqlStatement *statement, void *arg)
{
	const AlterTableStmt *alter = (const AlterTableStmt *) statement->tree;
	Oid			indexid = *(Oid *) arg;
	ListCell   *lc;

	mosql_admin_check_owner(indexid);
	foreach(lc, alter->cmds)
		check_index_storage(indexid, lfirst_node(AlterTableCmd, lc));
	mosql_admin_notice_storage(get_rel_name(IndexGetRelation(indexid, false)));
}

bool
mosql_admin_run_alter_index(const MosqlStatement *statement, Oid indexid)
{
	if (!is_storage_alone((const AlterTableStmt *) statement->tree))
		return false;
	mosql_admin_run_below(statement, alter_index, &indexid);
	return true;
}

/* ---- CREATE TABLE ---- */

/* Has a column COMPRESSION, or STORAGE?  What is none is an error. */
static bool
names_storage(const List *elements)
{
	const ListCell *lc;

	foreach(lc, elements)
	{
		const ColumnDef *column = lfirst(lc);

		if (IsA(column, ColumnDef))
			check_compression(column->compression);
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
