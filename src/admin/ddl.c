/*
 * ddl.c: the definitions in Redis follow the DDL of this server.
 *
 * Layer: admin.  Two event triggers and a hook see what happens to our foreign
 * tables:
 *
 *   ddl_command_end    CREATE, ALTER, IMPORT: the relation is there, compare it
 *                      with the definition in Redis and bring that up to it
 *   object_access_hook DROP of a table or a column, whatever drops it: also
 *                      DROP SCHEMA, SERVER, EXTENSION or TYPE ... CASCADE, and
 *                      DROP OWNED; it runs while the relation is still there.  New
 *                      names of sequences, too, also by ALTER SCHEMA, and new owners
 *   ddl_command_start  loads this library, lest a session's first command is a
 *                      DROP that the hook does not see; does what core would
 *                      refuse in ALTER TABLE (primary_key.c), and what the utility
 *                      hook would have done, had it been there (first.c)
 *
 * All changes belong to the current transaction: ROLLBACK takes them back on
 * both sides.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "commands/event_trigger.h"
#include "commands/tablecmds.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "admin/utility.h"

bool		mosql_admin_drop_data = true;

static object_access_hook_type next_object_access_hook = NULL;

PG_FUNCTION_INFO_V1(mosql_fdw_ddl_start);
PG_FUNCTION_INFO_V1(mosql_fdw_ddl_end);

/* ---- drops ---- */

/*
 * While a table is dropped: an unreachable Redis need not keep the local table
 * alive.  (Context callbacks may add a hint to the error being built.)
 */
static void
hint_drop_data(void *arg)
{
	int			class = ERRCODE_TO_CATEGORY(geterrcode());

	if (class == ERRCODE_TO_CATEGORY(ERRCODE_CONNECTION_EXCEPTION) ||
		class == ERRCODE_TO_CATEGORY(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION) ||
		geterrcode() == ERRCODE_CANNOT_CONNECT_NOW)
		errhint("To drop only the local foreign table \"%s\", set mosql_fdw.drop_data to off.",
				(const char *) arg);
}

/*
 * A temporary table over one that is permanent in Redis (IMPORT ... INTO
 * pg_temp): the end of a session must not take the data with it.
 */
bool
mosql_admin_is_window(Relation rel)
{
	const char *schema;
	const char *name;

	if (rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP)
		return false;
	mosql_table_remote_name(rel, &schema, &name);
	return strncmp(schema, "pg_temp_", strlen("pg_temp_")) != 0;
}

static void
drop_relation(Oid relid)
{
	ErrorContextCallback context;
	Relation	rel;

	if (!mosql_admin_drop_data)
		return;
	rel = relation_open(relid, NoLock); /* whoever drops it has the lock */
	if (mosql_admin_is_window(rel))
	{
		relation_close(rel, NoLock);
		return;
	}
	context.callback = hint_drop_data;
	context.arg = RelationGetRelationName(rel);
	context.previous = error_context_stack;
	error_context_stack = &context;

	mosql_table_drop(rel, mosql_fdw_session_for(relid, InvalidOid));

	error_context_stack = context.previous;
	relation_close(rel, NoLock);
}

static void
drop_column(Oid relid, AttrNumber attnum)
{
	char	   *name = get_attname(relid, attnum, true);
	char	   *difference;
	Relation	rel;

	if (name == NULL)
		return;
	rel = relation_open(relid, NoLock);
	switch (mosql_table_drop_column(rel, mosql_fdw_session_for(relid, InvalidOid), name, &difference))
	{
		case MOSQL_COLUMN_DROPPED:
			break;
		case MOSQL_COLUMN_KEY:
			mosql_admin_note_gone_key(relid, name);
			if (!mosql_admin_drop_data)
				mosql_admin_check_gone();	/* the table stays in Redis, and so must its rows */
			break;
		case MOSQL_COLUMN_DIFFERS:
			mosql_admin_note_gone_other(relid, difference);
			break;
	}
	relation_close(rel, NoLock);
}

/* ---- names of sequences ---- */

/*
 * A row of a catalog as the command has made it, which the caches do not know yet; NULL
 * if it is gone.
 */
static HeapTuple
newest_row(Oid catalogid, Oid indexid, Oid object)
{
	Relation	catalog = table_open(catalogid, AccessShareLock);
	AttrNumber	attno = catalogid == RelationRelationId ? Anum_pg_class_oid : Anum_pg_namespace_oid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, attno, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
	scan = systable_beginscan(catalog, indexid, true, SnapshotSelf, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = heap_copytuple(tuple);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return tuple;
}

/* ALTER SEQUENCE ... RENAME or SET SCHEMA, and other things that change no name. */
static void
sequence_altered(Oid seqid)
{
	HeapTuple	tuple = newest_row(RelationRelationId, ClassOidIndexId, seqid);
	Form_pg_class form;
	const char *schema = get_namespace_name(get_rel_namespace(seqid));
	const char *name = get_rel_name(seqid);
	const char *to_schema;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_class) GETSTRUCT(tuple);
	to_schema = get_namespace_name(form->relnamespace);
	if (strcmp(name, NameStr(form->relname)) != 0 || strcmp(schema, to_schema) != 0)
		mosql_admin_sequence_renamed(seqid, schema, name, to_schema, NameStr(form->relname));
}

/* The relations with this oid in that column of pg_class. */
static List *
relations_with(AttrNumber column, Oid value)
{
	Relation	catalog = table_open(RelationRelationId, AccessShareLock);
	List	   *found = NIL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(value));
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		found = lappend_oid(found, ((Form_pg_class) GETSTRUCT(tuple))->oid);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/* ALTER SCHEMA ... RENAME */
static void
schema_altered(Oid schemaid)
{
	HeapTuple	tuple = newest_row(NamespaceRelationId, NamespaceOidIndexId, schemaid);
	const char *from = get_namespace_name(schemaid);
	const char *to;
	ListCell   *cell;

	if (!HeapTupleIsValid(tuple))
		return;
	to = NameStr(((Form_pg_namespace) GETSTRUCT(tuple))->nspname);
	if (from == NULL || strcmp(from, to) == 0)
		return;
	foreach(cell, relations_with(Anum_pg_class_relnamespace, schemaid))
		if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_SEQUENCE)
			mosql_admin_sequence_renamed(lfirst_oid(cell), from, get_rel_name(lfirst_oid(cell)), to,
										 get_rel_name(lfirst_oid(cell)));
}

/* ---- owners ---- */

/*
 * Indexes belong to whom their table belongs, now.  Core sees to that for tables that can have indexes, and
 * foreign tables are none of those.
 */
static void
follow_owner(Oid relid)
{
	HeapTuple	table = newest_row(RelationRelationId, ClassOidIndexId, relid);
	Oid			owner;
	Relation	rel;
	ListCell   *cell;

	if (!HeapTupleIsValid(table))
		return;
	owner = ((Form_pg_class) GETSTRUCT(table))->relowner;
	rel = relation_open(relid, AccessShareLock);
	foreach(cell, RelationGetIndexList(rel))
	{
		HeapTuple	index = newest_row(RelationRelationId, ClassOidIndexId, lfirst_oid(cell));

		if (HeapTupleIsValid(index) && ((Form_pg_class) GETSTRUCT(index))->relowner != owner)
			ATExecChangeOwner(lfirst_oid(cell), owner, true, AccessExclusiveLock);
	}
	relation_close(rel, AccessShareLock);	/* whoever alters it holds more */
}

/* ---- the hook ---- */

static void
dropped(Oid relid, int attnum)
{
	if (attnum != 0)
		mosql_admin_attribute_dropped(relid);
	if (mosql_fdw_is_ours(relid))
	{
		if (attnum == 0)
			drop_relation(relid);
		else
			drop_column(relid, attnum);
	}
	else if (get_rel_relkind(relid) != RELKIND_SEQUENCE)
		mosql_admin_index_dropped(relid);
	else if (mosql_admin_drop_data)
		mosql_admin_sequence_dropped(relid);
}

static void
object_access(ObjectAccessType access, Oid class, Oid object, int subid, void *arg)
{
	if (next_object_access_hook != NULL)
		next_object_access_hook(access, class, object, subid, arg);

	/* also in binary upgrades, which make keys before they say whose the table is */
	if (access == OAT_POST_ALTER && class == RelationRelationId && subid == 0 && mosql_fdw_is_ours(object))
		follow_owner(object);
	if (mosql_table_command->refreshing || IsBinaryUpgrade)
		return;
	if (access == OAT_DROP && class == ConstraintRelationId)
		mosql_admin_foreign_key_dropped(object);
	if (class != RelationRelationId && class != NamespaceRelationId)
		return;
	if (access == OAT_DROP && class == RelationRelationId)
		dropped(object, subid);
	else if (access == OAT_POST_ALTER && class == RelationRelationId && subid == 0 &&
			 get_rel_relkind(object) == RELKIND_SEQUENCE)
		sequence_altered(object);
	else if (access == OAT_POST_ALTER && class == NamespaceRelationId)
		schema_altered(object);
}


void
mosql_admin_init_ddl(void)
{
	next_object_access_hook = object_access_hook;
	object_access_hook = object_access;
}

/* ---- creations and changes ---- */

/*
 * DROP TABLE, as a session's first command, of our tables alone: core shall take it for
 * DROP FOREIGN TABLE.  Nor does core know that an index is in use if its table is:
 * nobody opens those of foreign tables.
 */
static void
prepare_drop(DropStmt *drop)
{
	ListCell   *cell;

	if (drop->removeType == OBJECT_INDEX)
		foreach(cell, drop->objects)
			mosql_admin_check_index_unused(RangeVarGetRelid(makeRangeVarFromNameList(lfirst(cell)),
															NoLock, true));
	mosql_table_command->drops_sequences = drop->removeType == OBJECT_SEQUENCE;
	if (drop->removeType != OBJECT_TABLE)
		return;
	foreach(cell, drop->objects)
	{
		Oid			relid = RangeVarGetRelid(makeRangeVarFromNameList(lfirst(cell)), NoLock, true);

		if (!OidIsValid(relid) || !mosql_fdw_is_ours(relid))
			return;
	}
	drop->removeType = OBJECT_FOREIGN_TABLE;
}

/* RENAME COLUMN, RENAME CONSTRAINT */
static void
note_renamed(const RenameStmt *rename)
{
	Oid			relid = rename->relation == NULL ? InvalidOid
		: RangeVarGetRelid(rename->relation, NoLock, true);

	if (OidIsValid(relid) &&
		(rename->renameType == OBJECT_COLUMN || rename->renameType == OBJECT_TABCONSTRAINT))
		mosql_admin_note_before(relid);
}

/*
 * What the hook runs it has prepared, or prepares itself.  In a session's first command there was none: then the tree is
 * the one that core runs after this (a copy, if it came from a cached plan), so that changes to it count.  Did they not,
 * core would refuse the command, as it does for foreign tables.
 */
Datum
mosql_fdw_ddl_start(PG_FUNCTION_ARGS)
{
	Node	   *command;
	bool		taken;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("mosql_fdw_ddl_start() can only be called as an event trigger")));
	command = ((EventTriggerData *) fcinfo->context)->parsetree;
	if (command == NULL || IsBinaryUpgrade)
		PG_RETURN_NULL();
	taken = mosql_admin_was_taken(command);
	mosql_table_begin_command();
	mosql_admin_refuse_unsupported(command);
	mosql_admin_note_types(command);
	if (IsA(command, DropStmt))
		prepare_drop((DropStmt *) command);
	else if (IsA(command, RenameStmt))
		note_renamed((RenameStmt *) command);
	else if (IsA(command, AlterSeqStmt))
		mosql_admin_note_owner((AlterSeqStmt *) command);
	else if (!taken)
		mosql_admin_run_first(command);
	PG_RETURN_NULL();
}

/* A relation that the command touched. */
typedef struct Touched
{
	Oid			relid;
	bool		created;		/* a foreign table */
	bool		local;			/* a table */
} Touched;

/* The relations that the running command created or altered; the array is in
 * the caller's context. */
static int
touched_relations(Touched **touched)
{
	MemoryContext caller = CurrentMemoryContext;
	int			n;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute("SELECT objid, command_tag OPERATOR(pg_catalog.=) 'CREATE FOREIGN TABLE',"
					" command_tag OPERATOR(pg_catalog.=) 'CREATE TABLE'"
					" FROM pg_catalog.pg_event_trigger_ddl_commands()"
					" WHERE classid OPERATOR(pg_catalog.=) 1259", true, 0) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed");

	n = (int) SPI_processed;
	*touched = MemoryContextAlloc(caller, Max(n, 1) * sizeof(Touched));
	for (int i = 0; i < n; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		bool		isnull;

		(*touched)[i].relid =
			DatumGetObjectId(SPI_getbinval(tuple, SPI_tuptable->tupdesc, 1, &isnull));
		(*touched)[i].created =
			DatumGetBool(SPI_getbinval(tuple, SPI_tuptable->tupdesc, 2, &isnull));
		(*touched)[i].local =
			DatumGetBool(SPI_getbinval(tuple, SPI_tuptable->tupdesc, 3, &isnull));
	}
	SPI_finish();
	return n;
}

/* Does the command change the expression of a column whose values are stored? */
static bool
changes_stored(Relation rel, const Node *command)
{
#if PG_VERSION_NUM >= 170000
	ListCell   *lc;

	if (command == NULL || !IsA(command, AlterTableStmt))
		return false;
	foreach(lc, ((const AlterTableStmt *) command)->cmds)
	{
		const AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);
		AttrNumber	attnum = cmd->subtype == AT_SetExpression ?
			get_attnum(RelationGetRelid(rel), cmd->name) : InvalidAttrNumber;

		if (attnum > 0 &&
			get_attgenerated(RelationGetRelid(rel), attnum) == ATTRIBUTE_GENERATED_STORED)
			return true;
	}
#endif
	return false;
}

/*
 * CREATE TABLE reports the table, and then each ALTER that makes its keys: what it was
 * created with must not pass for changes of a table that was in Redis already.
 */
static bool
is_first(const Touched *touched, int i)
{
	for (int j = 0; j < i; j++)
		if (touched[j].relid == touched[i].relid && touched[j].created)
			return false;
	return true;
}

/*
 * ALTER TABLE is reported in parts, where core makes a sequence for a new column between them.  At the end of the command
 * one look sees all of it; a second one would do once more what USING says.
 */
static bool
comes_again(const Touched *touched, int n, int i)
{
	if (touched[i].created || touched[i].local || get_rel_relkind(touched[i].relid) == RELKIND_SEQUENCE)
		return false;			/* a sequence is made, and then owned */
	for (int j = i + 1; j < n; j++)
		if (touched[j].relid == touched[i].relid)
			return true;
	return false;
}

/* Does it lead the foreign table to another table in Redis? */
static bool
names_another(const Node *command)
{
	ListCell   *cell;
	ListCell   *lc;

	if (command == NULL || !IsA(command, AlterTableStmt))
		return false;
	foreach(cell, ((const AlterTableStmt *) command)->cmds)
	{
		const AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);

		if (cmd->subtype != AT_GenericOptions)
			continue;
		foreach(lc, (List *) cmd->def)
		{
			const char *option = lfirst_node(DefElem, lc)->defname;

			if (strcmp(option, "schema_name") == 0 || strcmp(option, "table_name") == 0)
				return true;
		}
	}
	return false;
}

/*
 * That needs what CREATE FOREIGN TABLE needs.  Asked when core is done, of the relation
 * that it altered, which the name may not have meant before.
 */
static void
follow_name(Oid relid, const Node *command)
{
	Relation	rel;

	if (!names_another(command))
		return;
	mosql_admin_check_server(GetForeignTable(relid)->serverid);
	rel = relation_open(relid, AccessShareLock);
	mosql_table_pin_name(rel);
	relation_close(rel, NoLock);
}

static void
follow(Oid relid, bool created, const RenameStmt *rename, Node *command)
{
	MosqlSession *session;
	Relation	rel;
	bool		made = false;

	if (get_rel_relkind(relid) == RELKIND_SEQUENCE)
		mosql_admin_follow_sequences(relid, command);
	if (!mosql_fdw_is_ours(relid) || relid == mosql_admin_half_refreshed)
		return;
	follow_owner(relid);		/* REASSIGN OWNED, as a session's first command, is not seen */
	follow_name(relid, command);
	mosql_admin_follow_row_security(relid);
	if (rename == NULL)
		mosql_admin_follow_defaults(relid);
	rel = relation_open(relid, AccessShareLock);
	session = mosql_fdw_session_for(relid, InvalidOid);
	if (created)
		made = mosql_admin_register_table(rel);
	else if (rename != NULL)
		mosql_table_rename_column(rel, session, rename->subname, rename->newname);
	else
	{
		mosql_table_alter(rel, session, mosql_admin_usings(rel, command));
		if (!mosql_table_command->refreshing && changes_stored(rel, command))
			mosql_table_recompute(rel, session);
	}
	relation_close(rel, NoLock);
	if (rename == NULL && !(command != NULL && IsA(command, CommentStmt)))
	{
		mosql_admin_follow_key(relid, created);
		mosql_admin_follow_indexes(relid);
		mosql_admin_follow_foreign_keys(relid);
		mosql_admin_follow_sequences(relid, command);
	}
	if (created && !made)
	{
		mosql_admin_import_comments(relid);
		mosql_admin_validate_attached(relid);
	}
	else if (!mosql_table_command->refreshing)
	{
		mosql_admin_follow_details(relid, made, command);
		if (!created && command != NULL && IsA(command, AlterTableStmt))
			mosql_admin_validate(relid, (AlterTableStmt *) command);
	}
}

List *
mosql_admin_altered_tables(Oid relid)
{
	List	   *tables = NIL;
	ListCell   *cell;

	if (get_rel_relkind(relid) != RELKIND_COMPOSITE_TYPE)
		return find_all_inheritors(relid, NoLock, NULL);
	foreach(cell, relations_with(Anum_pg_class_reloftype, get_rel_type_id(relid)))
		tables = list_concat_unique_oid(tables, find_all_inheritors(lfirst_oid(cell), NoLock, NULL));
	return tables;
}

/*
 * ALTER TABLE of a parent reaches its children, ALTER TYPE ... CASCADE tables of the type, but only
 * the parent, or the type, is reported: so look at all below it.
 */
static void
follow_all(const Touched *touched, const RenameStmt *rename, Node *command)
{
	ListCell   *cell;

	if (touched->created)
		follow(touched->relid, true, rename, command);
	else
		foreach(cell, mosql_admin_altered_tables(touched->relid))
			follow(lfirst_oid(cell), false, rename, command);
}

/*
 * ALTER INDEX ... RENAME, or ALTER TABLE ... RENAME CONSTRAINT.  By the time we
 * look it has its new name.
 */
static void
follow_index_name(const RenameStmt *rename)
{
	const char *from = rename->renameType == OBJECT_TABCONSTRAINT ? rename->subname
		: rename->relation ? rename->relation->relname : NULL;
	Oid			relid;
	Oid			indexid;

	if (rename->relation == NULL || from == NULL)
		return;
	if (rename->renameType == OBJECT_TABCONSTRAINT)
	{
		relid = RangeVarGetRelid(rename->relation, NoLock, true);
		if (OidIsValid(relid) && mosql_fdw_is_ours(relid) &&
			mosql_admin_foreign_key_renamed(relid, rename->subname, rename->newname))
			return;
		indexid = OidIsValid(relid)
			? get_relname_relid(rename->newname, get_rel_namespace(relid)) : InvalidOid;
	}
	else
	{
		RangeVar   *renamed = copyObject(rename->relation);

		renamed->relname = rename->newname;
		indexid = RangeVarGetRelid(renamed, NoLock, true);
	}
	if (OidIsValid(indexid) && mosql_admin_is_our_index(indexid))
		mosql_admin_index_renamed(indexid, from);
}

/* ALTER TABLE ... RENAME CONSTRAINT of a CHECK constraint. */
static void
follow_check_name(const RenameStmt *rename)
{
	Oid			relid = rename->relation == NULL ? InvalidOid
		: RangeVarGetRelid(rename->relation, NoLock, true);

	if (rename->renameType == OBJECT_TABCONSTRAINT && OidIsValid(relid) &&
		mosql_fdw_is_ours(relid) && !mosql_table_command->refreshing)
		mosql_admin_follow_details(relid, false, (Node *) rename);
}

static void
follow_catalog_alone(void)
{
	Touched    *touched;
	int			n = touched_relations(&touched);

	for (int i = 0; i < n; i++)
		if (mosql_fdw_is_ours(touched[i].relid))
			mosql_admin_follow_row_security(touched[i].relid);
}

Datum
mosql_fdw_ddl_end(PG_FUNCTION_ARGS)
{
	const RenameStmt *rename = NULL;
	Node	   *command;
	Touched    *touched;
	int			n;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("mosql_fdw_ddl_end() can only be called as an event trigger")));
	mosql_table_command->followed = true;
	if (IsBinaryUpgrade)
	{
		/* pg_upgrade: the definitions are in Redis already */
		follow_catalog_alone();
		PG_RETURN_NULL();
	}

	mosql_admin_check_gone();
	mosql_admin_end_first();
	command = ((EventTriggerData *) fcinfo->context)->parsetree;
	if (command != NULL && IsA(command, CreateTableAsStmt))
		PG_RETURN_NULL();		/* ours is complete */
	if (command != NULL)
		mosql_admin_follow_types(command);
	if (command != NULL && IsA(command, RenameStmt))
	{
		rename = (const RenameStmt *) command;
		if (rename->renameType != OBJECT_COLUMN && rename->renameType != OBJECT_ATTRIBUTE)
		{
			follow_index_name(rename);
			follow_check_name(rename);
			PG_RETURN_NULL();	/* tables' names in Redis are pinned by options */
		}
	}
	n = touched_relations(&touched);
	for (int i = 0; i < n; i++)
		if (is_first(touched, i) && !comes_again(touched, n, i) && get_rel_relkind(touched[i].relid) != '\0')
		{
			follow_all(&touched[i], rename, command);
			if (touched[i].created || touched[i].local)
				mosql_admin_validate_partition(touched[i].relid, false);
		}
	if (command != NULL && IsA(command, AlterTableStmt))
		mosql_admin_validate_attach((const AlterTableStmt *) command);
	if (command != NULL && IsA(command, AlterDomainStmt))
	{
		mosql_admin_validate_domains((const AlterDomainStmt *) command);
		mosql_admin_follow_domain((const AlterDomainStmt *) command);
	}
	PG_RETURN_NULL();
}
