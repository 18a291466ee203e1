/*
 * primary_key.c: the key of a foreign table as PostgreSQL's primary key.
 *
 * Layer: admin.  DefineIndex() refuses foreign tables, index_create() does not.
 * So the key columns of a table (OPTIONS (key 'true')) become a primary key
 * constraint, named <table>_pkey, with an index of access method "mosql"
 * (index_am.c), when the table is created, and again when ALTER changes them.
 *
 * ALTER TABLE ... ADD PRIMARY KEY makes its columns the key columns, if they are
 * not, as those that pg_dump writes are.  Core would refuse it, so it is taken
 * out of the statement before core sees it.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "commands/comment.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "admin/utility.h"

/* Does the primary key that PostgreSQL knows have these columns? */
static bool
covers(Oid indexid, const AttrNumber *attnums, int n)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	Form_pg_index index;
	bool		same;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	index = (Form_pg_index) GETSTRUCT(tuple);
	same = index->indnkeyatts == n;
	for (int i = 0; same && i < n; i++)
		same = index->indkey.values[i] == attnums[i];
	ReleaseSysCache(tuple);
	return same;
}

/*
 * Key columns are never null: the statement that says so of those that do not
 * yet, or NULL.  SQL, since it differs from version to version what there is to
 * do (a constraint of its own since 18).
 */
static char *
set_not_null(Relation rel, const AttrNumber *attnums, int n)
{
	StringInfoData sql;
	bool		any = false;

	initStringInfo(&sql);
	appendStringInfo(&sql, "ALTER FOREIGN TABLE %s.%s",
					 quote_identifier(get_namespace_name(RelationGetNamespace(rel))),
					 quote_identifier(RelationGetRelationName(rel)));
	for (int i = 0; i < n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnums[i] - 1);

		if (att->attnotnull)
			continue;
		appendStringInfo(&sql, "%s ALTER COLUMN %s SET NOT NULL", any ? "," : "",
						 quote_identifier(NameStr(att->attname)));
		any = true;
	}
	return any ? sql.data : NULL;
}

/* The index and its constraint.  name NULL: what it was called, or <table>_pkey. */
static void
create(Relation rel, const char *name, const AttrNumber *attnums, int n)
{
	MosqlLocalIndex index = {.primary = true,.constraint = true,.unique = true,.nkeys = n};

	index.name = name != NULL ? name : mosql_admin_kept_key(RelationGetRelid(rel));
	if (index.name == NULL)
		index.name = ChooseRelationName(RelationGetRelationName(rel), NULL, "pkey",
										RelationGetNamespace(rel), true);
	memcpy(index.attnums, attnums, n * sizeof(AttrNumber));
	(void) mosql_admin_create_local_index(rel, &index);
}

/* Did this transaction make one of these columns a key column? */
static bool
is_new_key(Relation rel, const AttrNumber *attnums, int n)
{
	for (int i = 0; i < n; i++)
	{
		HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(RelationGetRelid(rel)),
											Int16GetDatum(attnums[i]));
		bool		changed;

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for attribute %d", attnums[i]);
		changed = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
		ReleaseSysCache(tuple);
		if (changed)
			return true;
	}
	return false;
}

/*
 * Bring a table's primary key up to its key columns.  The relation must not be
 * open in the caller, since ALTER refuses relations in use.  An ALTER that we
 * run here comes back to this function through the event trigger, and does the
 * rest: hence the second look.
 */
void
mosql_admin_follow_key(Oid relid, bool created)
{
	Relation	rel = relation_open(relid, AccessExclusiveLock);
	AttrNumber	attnums[INDEX_MAX_KEYS];
	int			n = mosql_table_key_columns(rel, attnums);
	Oid			primary = mosql_fdw_primary_key(rel);
	char	   *sql;

	if (OidIsValid(primary) ? covers(primary, attnums, n)
		: n == 0 || (!created && !is_new_key(rel, attnums, n)))
	{
		relation_close(rel, NoLock);
		return;
	}
	if (OidIsValid(primary))
		mosql_admin_drop_local_index(primary);
	sql = set_not_null(rel, attnums, n);
	relation_close(rel, NoLock);
	if (sql != NULL)
		mosql_admin_run_sql(sql);

	rel = relation_open(relid, NoLock);
	if (n > 0 && !OidIsValid(mosql_fdw_primary_key(rel)))
		create(rel, NULL, attnums, n);
	relation_close(rel, NoLock);
}

/* ---- ADD PRIMARY KEY ---- */

int
mosql_admin_named_columns(Oid relid, const List *names, AttrNumber *attnums)
{
	ListCell   *cell;
	int			n = 0;

	if (list_length(names) > INDEX_MAX_KEYS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("cannot use more than %d columns in an index", INDEX_MAX_KEYS)));
	foreach(cell, names)
	{
		const char *name = strVal(lfirst(cell));
		AttrNumber	attnum = get_attnum(relid, name);

		if (attnum <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" named in key does not exist", name)));
		for (int i = 0; i < n; i++)
			if (attnums[i] == attnum)
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_COLUMN),
						 errmsg("column \"%s\" appears twice in primary key constraint", name)));
		attnums[n++] = attnum;
	}
	return n;
}

static void
check_primary_key(Relation rel, bool is_plain)
{
	if (!is_plain)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("unsupported kind of primary key for foreign table \"%s\"",
						RelationGetRelationName(rel)),
				 errdetail("Rows are stored by their key, and it is checked at once."),
				 errhint("Use PRIMARY KEY (...) without INCLUDE or DEFERRABLE.")));
}

/* ALTER COLUMN name OPTIONS (action key 'value'), DROP without a value. */
static AlterTableCmd *
key_command(Relation rel, AttrNumber attnum, DefElemAction action, char *value)
{
	AlterTableCmd *command = makeNode(AlterTableCmd);

	command->subtype = AT_AlterColumnGenericOptions;
	command->name = pstrdup(NameStr(TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attname));
	command->def = (Node *) list_make1(makeDefElemExtended(NULL, "key",
														   value ? (Node *) makeString(value) : NULL,
														   action, -1));
	return command;
}

/*
 * The places are in the options only if they are not those of the columns.
 */
List *
mosql_admin_key_commands(Relation rel, const AttrNumber *attnums, int n)
{
	AttrNumber	before[INDEX_MAX_KEYS];
	int			nbefore = mosql_table_key_columns(rel, before);
	bool		in_order = true;
	List	   *commands = NIL;

	if (nbefore == n && memcmp(before, attnums, n * sizeof(AttrNumber)) == 0)
		return NIL;
	for (int i = 1; i < n; i++)
		in_order &= attnums[i] > attnums[i - 1];
	for (int i = 0; i < n; i++)
	{
		List	   *options = GetForeignColumnOptions(RelationGetRelid(rel), attnums[i]);

		/* key is the only option that columns have */
		commands = lappend(commands, key_command(rel, attnums[i],
												 options != NIL ? DEFELEM_SET : DEFELEM_ADD,
												 in_order ? "true" : psprintf("%d", i + 1)));
	}
	for (int i = 0; i < Min(nbefore, INDEX_MAX_KEYS); i++)
	{
		bool		stays = false;

		for (int j = 0; j < n; j++)
			stays |= attnums[j] == before[i];
		if (!stays)
			commands = lappend(commands, key_command(rel, before[i], DEFELEM_DROP, NULL));
	}
	return commands;
}

/* The commands as a statement; NULL: nothing to do. */
static char *
set_key_options(Relation rel, const AttrNumber *attnums, int n)
{
	StringInfoData sql;
	List	   *commands = mosql_admin_key_commands(rel, attnums, n);
	ListCell   *cell;

	initStringInfo(&sql);
	appendStringInfo(&sql, "ALTER FOREIGN TABLE %s.%s",
					 quote_identifier(get_namespace_name(RelationGetNamespace(rel))),
					 quote_identifier(RelationGetRelationName(rel)));
	foreach(cell, commands)
	{
		const AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
		DefElem    *option = linitial_node(DefElem, (List *) command->def);

		appendStringInfo(&sql, "%s ALTER COLUMN %s OPTIONS (", cell == list_head(commands) ? "" : ",",
						 quote_identifier(command->name));
		if (option->defaction == DEFELEM_DROP)
			appendStringInfoString(&sql, "DROP key)");
		else
			appendStringInfo(&sql, "%s key '%s')", option->defaction == DEFELEM_SET ? "SET" : "ADD",
							 defGetString(option));
	}
	return commands == NIL ? NULL : sql.data;
}

static void
rename_key(Oid indexid, const char *name)
{
	if (name == NULL || strcmp(get_rel_name(indexid), name) == 0)
		return;
	RenameRelationInternal(indexid, name, false, true);
	CommandCounterIncrement();
}

static void report_second_key(Oid relid, const char *first) pg_attribute_noreturn();

static void
report_second_key(Oid relid, const char *first)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("multiple primary keys for table \"%s\" are not allowed", get_rel_name(relid)),
			 errhint("To replace it: ALTER TABLE ... DROP CONSTRAINT %s, ADD PRIMARY KEY ...",
					 quote_identifier(first))));
}

/* What the primary key is called; NULL: there is none. */
static const char *
key_name(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	Oid			primary = mosql_fdw_primary_key(rel);

	relation_close(rel, AccessShareLock);
	return OidIsValid(primary) ? get_rel_name(primary) : NULL;
}

/* ADD PRIMARY KEY behind ALTER COLUMN ... TYPE of a column of the key, which is not here until the command ends. */
static void
check_key_not_away(Oid relid, const char *key)
{
	if (key != NULL && key_name(relid) == NULL)
		report_second_key(relid, key);
}

/* name NULL: <table>_pkey; is_plain: no INCLUDE or DEFERRABLE. */
static void
add(Oid relid, const char *name, const List *columns, bool is_plain)
{
	Relation	rel = mosql_admin_lock_owned(relid, AccessExclusiveLock, "ALTER TABLE");
	AttrNumber	attnums[INDEX_MAX_KEYS];
	int			n = mosql_admin_named_columns(relid, columns, attnums);
	Oid			primary = mosql_fdw_primary_key(rel);
	char	   *sql;

	mosql_admin_check_create(RelationGetNamespace(rel));
	check_primary_key(rel, is_plain);
	if (OidIsValid(primary) && !covers(primary, attnums, n))
		report_second_key(relid, get_rel_name(primary));
	sql = set_key_options(rel, attnums, n);
	relation_close(rel, NoLock);
	if (sql != NULL)
		mosql_admin_run_sql(sql);				/* rewrites the rows, and makes the constraint */

	rel = relation_open(relid, NoLock);
	primary = mosql_fdw_primary_key(rel);
	if (OidIsValid(primary))
		rename_key(primary, name);
	else
		create(rel, name, attnums, n);
	relation_close(rel, NoLock);
}

List *
mosql_admin_index_columns(const IndexStmt *index)
{
	List	   *columns = NIL;
	ListCell   *cell;

	foreach(cell, index->indexParams)
		columns = lappend(columns, makeString(lfirst_node(IndexElem, cell)->name));
	return columns;
}

void
mosql_admin_add_primary_key(Oid relid, const IndexStmt *index)
{
	Relation	rel;

	mosql_admin_check_index_options(index->options, index->tableSpace);
	add(relid, index->idxname, mosql_admin_index_columns(index),
		!index->deferrable && index->indexIncludingParams == NIL);
	if (index->idxcomment == NULL)
		return;
	rel = relation_open(relid, NoLock);
	CreateComments(mosql_fdw_primary_key(rel), RelationRelationId, 0, index->idxcomment);
	relation_close(rel, NoLock);
}

/* What core would refuse, and means nothing here. */
static bool
is_about_storage(AlterTableType type)
{
	switch (type)
	{
		case AT_SetLogged:
		case AT_SetUnLogged:
		case AT_SetTableSpace:
		case AT_SetRelOptions:
		case AT_ResetRelOptions:
		case AT_SetCompression:
		case AT_SetStorage:
		case AT_ClusterOn:
		case AT_DropCluster:
			return true;
		default:
			return false;
	}
}

/* Core would rebuild the indexes of the column, which it refuses for foreign tables. */
static bool
rebuilds_indexes(AlterTableType type)
{
#if PG_VERSION_NUM >= 170000
	if (type == AT_SetExpression)
		return true;
#endif
	return type == AT_AlterColumnType;
}

static bool
adds_foreign_key(Oid relid, const AlterTableCmd *command)
{
	if (command->subtype != AT_AddConstraint ||
		castNode(Constraint, command->def)->contype != CONSTR_FOREIGN)
		return false;
	mosql_admin_add_foreign_key(relid, (const Constraint *) command->def);
	return true;
}

/* VALIDATE CONSTRAINT, ALTER CONSTRAINT. */
static bool
changes_foreign_key(Oid relid, const AlterTableCmd *command)
{
	return (command->subtype == AT_ValidateConstraint &&
			mosql_admin_validate_foreign_key(relid, command->name)) ||
		(command->subtype == AT_AlterConstraint && mosql_admin_alter_foreign_key(relid, command->def));
}

/* Take out of the statement what that does. */
static void
take_done(Oid relid, AlterTableStmt *statement, bool (*does) (Oid relid, const AlterTableCmd *command))
{
	ListCell   *cell;

	foreach(cell, statement->cmds)
		if (does(relid, lfirst_node(AlterTableCmd, cell)))
			statement->cmds = foreach_delete_current(statement->cmds, cell);
}

void
mosql_admin_prepare_alter(AlterTableStmt *statement)
{
	Oid			relid = RangeVarGetRelid(statement->relation, NoLock, true);
	bool		ours = OidIsValid(relid) && mosql_fdw_is_ours(relid);
	const char *key;
	ListCell   *cell;

	mosql_admin_drop_partition_keys(statement);
	if (mosql_admin_attach_partition(statement))
		return;
	if (!OidIsValid(relid) ||
		(!ours && !has_subclass(relid) && statement->objtype != OBJECT_TYPE))
		return;
	key = ours ? key_name(relid) : NULL;
	foreach(cell, statement->cmds)
	{
		AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);

		if (rebuilds_indexes(command->subtype))
		{
			ListCell   *child;

			if (command->subtype == AT_AlterColumnType)
				mosql_admin_take_using(relid, command);
			foreach(child, mosql_admin_altered_tables(relid))
				mosql_admin_drop_for_retype(lfirst_oid(child), command->name, statement);
		}
		else if (ours && command->subtype == AT_AddConstraint)
		{
			Constraint *constraint = castNode(Constraint, command->def);

#if PG_VERSION_NUM >= 180000
			mosql_admin_refuse_overlaps(constraint->without_overlaps);
			if (constraint->contype == CONSTR_NOTNULL && constraint->skip_validation)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("NOT NULL constraints that are NOT VALID are not supported on foreign tables of mosql_fdw"),
						 errhint("UPDATE the rows that are null, then use ALTER COLUMN ... SET NOT NULL.")));
#endif
			if (constraint->contype == CONSTR_PRIMARY)
			{
				check_key_not_away(relid, key);
				mosql_admin_check_index_options(constraint->options, constraint->indexspace);
				if (constraint->indexname != NULL)
					mosql_admin_primary_key_using(relid, constraint);
				add(relid, constraint->conname, constraint->keys,
					!constraint->deferrable && constraint->including == NIL);
			}
			else if (constraint->contype == CONSTR_UNIQUE)
				mosql_admin_add_unique(relid, constraint);
			else if (constraint->contype == CONSTR_EXCLUSION)
				mosql_admin_add_exclusion(relid, constraint);
			else
				continue;
			statement->cmds = foreach_delete_current(statement->cmds, cell);
		}
		else if (ours && (command->subtype == AT_NoForceRowSecurity ||
						  ((command->subtype == AT_EnableRowSecurity ||
							command->subtype == AT_DisableRowSecurity) &&
						   !mosql_admin_set_row_security(relid, statement, command))))
			/* it is not forced, or not enabled, or a later one says */
			statement->cmds = foreach_delete_current(statement->cmds, cell);
		else if (ours && is_about_storage(command->subtype))
		{
			mosql_admin_check_storage_action(relid, command);
			mosql_admin_notice_storage(statement->relation->relname);
			statement->cmds = foreach_delete_current(statement->cmds, cell);
		}
	}
	if (ours)					/* wherever they stand: foreign keys may lead to a new key, the rest may be about them */
	{
		take_done(relid, statement, adds_foreign_key);
		take_done(relid, statement, changes_foreign_key);
	}
	mosql_admin_note_before(relid);
}
