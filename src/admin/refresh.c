/*
 * refresh.c: a foreign table becomes what another server made of its table.
 *
 * Layer: admin.  A RENAME COLUMN for each column whose name here is a former name
 * there, then one ALTER FOREIGN TABLE from the local relation to the definition in
 * Redis.  No data changes, since values are in Redis under the columns' ids; so the
 * hooks that bring changes there look away meanwhile.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "foreign/foreign.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/admin.h"

Oid			mosql_admin_half_refreshed = InvalidOid;

PG_FUNCTION_INFO_V1(mosql_fdw_refresh);

/* ---- columns that were renamed ---- */

static bool
is_former(const MosqlDefinitionColumn *column, const char *name)
{
	ListCell   *cell;

	foreach(cell, column->former)
		if (strcmp(lfirst(cell), name) == 0)
			return true;
	return false;
}

/* What a column that is not there under its name is called now; NULL: it is gone. */
static const char *
new_name(const MosqlDefinition *here, const MosqlDefinition *there, const char *name)
{
	for (int i = 0; i < there->ncolumns; i++)
	{
		const MosqlDefinitionColumn *column = &there->columns[i];

		if (!column->dropped && is_former(column, name) &&
			mosql_definition_column(here, column->name) == NULL)
			return column->name;
	}
	return NULL;
}

/* The first RENAME COLUMN that brings them closer; NULL if there is none. */
static char *
rename_statement(Relation rel, const MosqlDefinition *there)
{
	MosqlDefinition *here = mosql_definition_describe(rel);

	for (int i = 0; i < here->ncolumns; i++)
	{
		const char *from = here->columns[i].name;
		const char *to = mosql_definition_column(there, from) == NULL
			? new_name(here, there, from) : NULL;

		if (to != NULL)
			return psprintf("ALTER FOREIGN TABLE %s RENAME COLUMN %s TO %s",
							quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
													   RelationGetRelationName(rel)),
							quote_identifier(from), quote_identifier(to));
	}
	return NULL;
}

/* ---- what else differs ---- */

static bool
is_generated(Relation rel, const char *column)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), column);

	return TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attgenerated != '\0';
}

/* "ALTER COLUMN a ..." for each way in which a column differs.  One that leaves the key can be null later. */
static void
put_changes(StringInfo sql, const MosqlDefinitionColumn *mine,
			const MosqlDefinitionColumn *theirs)
{
	const char *name = quote_identifier(mine->name);
	bool		leaves_key = mine->key_position >= 0 && theirs->key_position < 0;

	if (mosql_admin_is_retyped(mine, theirs))
	{
		appendStringInfo(sql, ", ALTER COLUMN %s TYPE %s", name, theirs->type);
		if (theirs->collation[0] != '\0' && strcmp(theirs->collation, "\"default\"") != 0)
			appendStringInfo(sql, " COLLATE %s", theirs->collation);
	}
	if ((mine->key_position >= 0) != (theirs->key_position >= 0))
		appendStringInfo(sql, ", ALTER COLUMN %s OPTIONS (%s)", name,
						 theirs->key_position >= 0 ? "ADD key 'true'" : "DROP key");
	if (mine->not_null != theirs->not_null && (theirs->not_null || !leaves_key))
		appendStringInfo(sql, ", ALTER COLUMN %s %s NOT NULL", name,
						 theirs->not_null ? "SET" : "DROP");
}

static bool
has_other_types(Relation rel, const MosqlDefinition *there)
{
	MosqlDefinition *here = mosql_definition_describe(rel);

	for (int i = 0; i < here->ncolumns; i++)
	{
		const MosqlDefinitionColumn *theirs = mosql_definition_column(there, here->columns[i].name);

		if (theirs != NULL && mosql_admin_is_retyped(&here->columns[i], theirs))
			return true;
	}
	return false;
}

/* Of ", ALTER COLUMN ..."; NULL of nothing. */
static char *
statement_of(Relation rel, const StringInfoData *changes)
{
	if (changes->len == 0)
		return NULL;
	return psprintf("ALTER FOREIGN TABLE %s %s",
					quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
											   RelationGetRelationName(rel)),
					changes->data + 2);
}

/* What goes before columns get other types, NULL if nothing: core looks at the whole statement first. */
static char *
drop_statement(Relation rel, const MosqlDefinition *there)
{
	StringInfoData changes;
	int			nesting = mosql_expression_settings();

	initStringInfo(&changes);
	mosql_admin_put_drops(rel, mosql_definition_describe(rel), there, &changes);
	AtEOXact_GUC(true, nesting);
	return statement_of(rel, &changes);
}

/* The statement, NULL if the columns agree. */
static char *
alter_statement(Relation rel, const MosqlDefinition *there)
{
	MosqlDefinition *here = mosql_definition_describe(rel);
	StringInfoData changes;

	initStringInfo(&changes);

	/* first, as they may depend on columns that go */
	for (int i = 0; i < here->ncolumns; i++)
	{
		const char *mine = here->columns[i].name;
		const MosqlDefinitionColumn *theirs = mosql_definition_column(there, mine);

		if (theirs != NULL && is_generated(rel, mine) && !theirs->generated)
			appendStringInfo(&changes, ", ALTER COLUMN %s DROP EXPRESSION", quote_identifier(mine));
	}
	for (int i = 0; i < here->ncolumns; i++)
	{
		const MosqlDefinitionColumn *theirs = mosql_definition_column(there,
																	  here->columns[i].name);

		if (theirs == NULL)
			appendStringInfo(&changes, ", DROP COLUMN %s", quote_identifier(here->columns[i].name));
		else
			put_changes(&changes, &here->columns[i], theirs);
	}
	for (int i = 0; i < there->ncolumns; i++)
		if (!there->columns[i].dropped &&
			mosql_definition_column(here, there->columns[i].name) == NULL)
		{
			appendStringInfoString(&changes, ", ADD COLUMN ");
			mosql_fdw_put_column(&changes, &there->columns[i], false);
		}
	return statement_of(rel, &changes);
}

static bool
is_allowed(const Node *tree)
{
	return IsA(tree, AlterTableStmt) || IsA(tree, RenameStmt) || IsA(tree, CommentStmt) ||
		IsA(tree, CreateSeqStmt) || IsA(tree, AlterSeqStmt);
}

/*
 * The statement has parts that came from Redis.  They can say what a column is, but
 * not run anything else, nor name what an unsafe search_path would find.
 */
static void
check_statement(const char *statement)
{
	List	   *statements = raw_parser(statement, RAW_PARSE_DEFAULT);

	if (list_length(statements) != 1 ||
		!is_allowed(linitial_node(RawStmt, statements)->stmt))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged table definition in Redis"),
				 errdetail("It does not make one statement: %s", statement)));
}

/* With hooks and triggers that take nothing to Redis; but for what triggers of others run within it. */
static void
run_alter(const char *statement)
{
	MosqlTableCommand *command = mosql_table_command;
	bool		before = command->refreshing;
	int			nesting = mosql_expression_settings();

	check_statement(statement);
	command->refreshing = true;
	PG_TRY();
	{
		mosql_admin_run_sql(statement);
	}
	PG_FINALLY();
	{
		command->refreshing = before;
	}
	PG_END_TRY();
	AtEOXact_GUC(true, nesting);
}

/* ALTER refuses a table that this command has open: so it is closed meanwhile. */
static Relation
run_and_note(Relation rel, const char *statement, StringInfo done)
{
	Oid			relid = RelationGetRelid(rel);

	appendStringInfo(done, "%s%s", done->len > 0 ? ";\n" : "", statement);
	relation_close(rel, NoLock);
	run_alter(statement);
	return relation_open(relid, NoLock);
}

/* The same before the columns agree: as the table is then, it must not get into Redis. */
static Relation
run_halfway(Relation rel, const char *statement, StringInfo done)
{
	mosql_admin_half_refreshed = RelationGetRelid(rel);
	PG_TRY();
	{
		rel = run_and_note(rel, statement, done);
	}
	PG_FINALLY();
	{
		mosql_admin_half_refreshed = InvalidOid;
	}
	PG_END_TRY();
	return rel;
}

/* A NOTICE for each foreign key that did not come here, since the other table is not. */
static void
note_foreign_keys(Oid relid, const MosqlDefinition *there)
{
	for (int i = 0; i < there->nreferences; i++)
	{
		const MosqlDefinitionReference *key = &there->references[i];

		if (!mosql_admin_knows_foreign_key(relid, there, key))
			ereport(NOTICE,
					(errmsg("foreign key \"%s\" of foreign table \"%s\" cannot be enforced here",
							key->name, get_rel_name(relid)),
					 errdetail("It leads to table \"%s.%s\" in Redis. Until that is here, rows that would have to be looked up there are refused.",
							   key->schema, key->table),
					 errhint("Use IMPORT FOREIGN SCHEMA for that table, or mosql_fdw_refresh() if it is here.")));
	}
}

Datum
mosql_fdw_refresh(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Relation	rel;
	MosqlDefinition *there;
	const char *schema;
	const char *name;
	StringInfoData done;
	char	   *statement;
	ListCell   *cell;

	mosql_admin_check_ours(relid);
	rel = mosql_admin_lock_owned(relid, AccessExclusiveLock, "refresh");
	mosql_table_remote_name(rel, &schema, &name);
	there = mosql_table_definition(mosql_fdw_session_for(relid, InvalidOid), schema, name);
	if (there == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s.%s\" of foreign table \"%s\" does not exist in Redis",
						schema, name, RelationGetRelationName(rel)),
				 errhint("Drop the foreign table, and perhaps create it again. If the namespace or nodes of its server, or the table's schema_name or table_name, were changed, set them back instead.")));
	mosql_fdw_localize(there, GetForeignTable(relid)->serverid);
	initStringInfo(&done);
	while ((statement = rename_statement(rel, there)) != NULL)
		rel = run_and_note(rel, statement, &done);
	if (has_other_types(rel, there))
	{
		relation_close(rel, NoLock);	/* core drops none of one in use */
		mosql_admin_leave_foreign_keys(relid);
		rel = relation_open(relid, NoLock);
	}
	statement = drop_statement(rel, there);
	if (statement != NULL)
		rel = run_halfway(rel, statement, &done);
	for (int i = 0; i < 2 && (statement = alter_statement(rel, there)) != NULL; i++)
	{							/* once more, for what leaves the key */
		rel = run_and_note(rel, statement, &done);
		relation_close(rel, NoLock);
		mosql_admin_follow_key(relid, false);
		rel = relation_open(relid, NoLock);
	}
	foreach(cell, mosql_admin_detail_statements(rel, there))
		rel = run_and_note(rel, lfirst(cell), &done);
	relation_close(rel, NoLock);
	mosql_admin_follow_key(relid, false);
	mosql_admin_follow_indexes(relid);
	mosql_admin_follow_foreign_keys(relid);
	note_foreign_keys(relid, there);
	if (done.len == 0)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(done.data));
}
