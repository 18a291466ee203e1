/*
 * import.c: IMPORT FOREIGN SCHEMA: the tables in Redis as foreign tables here.
 *
 * Layer: fdw.  Core sorts out LIMIT TO and EXCEPT by itself; the created tables
 * attach to their definitions like any other CREATE FOREIGN TABLE.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

#include "fdw/fdw_int.h"

/* LIMIT TO and EXCEPT name tables by their names in Redis. */
static bool
is_wanted(const ImportForeignSchemaStmt *stmt, const char *name)
{
	ListCell   *cell;

	if (stmt->list_type == FDW_IMPORT_SCHEMA_ALL)
		return true;
	foreach(cell, stmt->table_list)
		if (strcmp(((RangeVar *) lfirst(cell))->relname, name) == 0)
			return stmt->list_type == FDW_IMPORT_SCHEMA_LIMIT_TO;
	return stmt->list_type == FDW_IMPORT_SCHEMA_EXCEPT;
}

/* Empty is what was dropped. */
static bool
is_there(const char *text)
{
	return text != NULL && text[0] != '\0';
}

/* ---- sequences that defaults draw from ---- */

/* A local sequence like the one in Redis, which counts. */
static void
create_sequence(const RangeVar *name, const MosqlSequence *sequence, Oid serverid)
{
	Oid			schemaid = get_namespace_oid(name->schemaname, false);
	char	   *sql = psprintf("CREATE SEQUENCE %s INCREMENT " INT64_FORMAT " MINVALUE "
							   INT64_FORMAT " MAXVALUE " INT64_FORMAT " START " INT64_FORMAT
							   " CACHE " INT64_FORMAT "%s",
							   quote_qualified_identifier(name->schemaname, name->relname),
							   sequence->increment, sequence->min, sequence->max,
							   sequence->start, sequence->cache,
							   sequence->cycle ? " CYCLE" : "");
	int			result;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	result = SPI_execute(sql, false, 0);
	if (result != SPI_OK_UTILITY)
		elog(ERROR, "SPI_execute failed: %s", sql);
	SPI_finish();
	CommandCounterIncrement();
	mosql_fdw_note_shared(get_relname_relid(name->relname, schemaid), serverid);
}

/* Its counter is in Redis: in a column of ours, or under its name. */
static bool
is_in_redis(Oid seqid, Oid serverid)
{
	Oid			relid;
	AttrNumber	attnum;
	bool		identity;

	return get_rel_relkind(seqid) == RELKIND_SEQUENCE &&
		(mosql_fdw_sequence_owner(seqid, &relid, &attnum, &identity) ||
		 mosql_fdw_shared_on(seqid) == serverid);
}

/*
 * NULL: it is here, now or already; else why it cannot be.  What has the name here and is
 * not shared stays what it is: the definition cannot say that it should be.
 */
static const char *
bring_sequence(const char *text, Oid serverid)
{
#if PG_VERSION_NUM >= 160000
	RangeVar   *name = makeRangeVarFromNameList(stringToQualifiedNameList(text, NULL));
#else
	RangeVar   *name = makeRangeVarFromNameList(stringToQualifiedNameList(text));
#endif
	const MosqlNamedSequence *there;
	Oid			here;

	if (name->schemaname == NULL || name->catalogname != NULL)
		return psprintf("Sequence %s is named without its schema.", text);
	here = RangeVarGetRelid(name, NoLock, true);
	if (OidIsValid(here))
		return is_in_redis(here, serverid) ? NULL
			: psprintf("It draws from sequence %s, which is another one here, and not shared.", text);
	there = mosql_named_sequence(mosql_fdw_session(serverid, InvalidOid), name->schemaname,
								 name->relname);
	if (there == NULL)
		return psprintf("It draws from sequence %s, which is not in Redis.", text);
	if (!OidIsValid(get_namespace_oid(name->schemaname, true)))
		return psprintf("It draws from sequence %s, and there is no schema \"%s\" here.", text,
						name->schemaname);
	create_sequence(name, &there->sequence, serverid);
	return NULL;
}

/* nextval() of a sequence in Redis as the number that it gives. */
static Node *
without_shared_draws(Node *node, void *context)
{
	const FuncExpr *call = (const FuncExpr *) node;
	const Const *seqid;

	if (node == NULL)
		return NULL;
	if (IsA(node, FuncExpr) && call->funcid == F_NEXTVAL && IsA(linitial(call->args), Const))
	{
		seqid = linitial(call->args);
		if (!seqid->constisnull && is_in_redis(DatumGetObjectId(seqid->constvalue), *(Oid *) context))
			return (Node *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(0),
									  false, FLOAT8PASSBYVAL);
	}
	return expression_tree_mutator(node, without_shared_draws, context);
}

/* ---- what a definition says in SQL ---- */

/*
 * Whoever can write to Redis, or may make a table on some server, has written it.  So none
 * of it is taken into a statement as it stands: types and collations are looked up by
 * their names, expressions are analysed and looked at (table/portable.c), and PostgreSQL
 * prints what it has understood.
 */
typedef struct Text
{
	const MosqlDefinition *table;
	const MosqlDefinitionColumn *column;	/* NULL: a CHECK constraint's */
	Oid			serverid;
	const char *stored;
	const char *local;			/* NULL: it cannot be here */
	const char *why;			/* NULL: no reason but `wrong` */
} Text;

static void
localize_text(void *arg)
{
	Text	   *text = arg;
	ListCell   *cell;

	if (text->column != NULL && !text->column->generated)
		foreach(cell, mosql_expression_draws(text->stored))
			if (text->why == NULL)
				text->why = bring_sequence(lfirst(cell), text->serverid);
	if (text->why == NULL)
		text->local = mosql_expression_localize(text->table, text->column, text->stored,
												without_shared_draws, &text->serverid);
}

/* NULL, with a NOTICE, for what cannot be here. */
static const char *
local_text(const MosqlDefinition *table, const MosqlDefinitionColumn *column, Oid serverid,
		   const char *what, const char *stored)
{
	Text		text = {.table = table,.column = column,.serverid = serverid,.stored = stored};
	const char *wrong = mosql_expression_try(localize_text, &text);

	if (wrong != NULL)
		text.why = psprintf("In Redis it is (%s): %s.", stored, wrong);
	if (text.why == NULL)
		return text.local;
	ereport(NOTICE,
			(errmsg("%s of table \"%s.%s\" is left out", what, table->schema, table->name),
			 errdetail_internal("%s", text.why),
			 errhint("ALTER FOREIGN TABLE can add what is missing, where it is to be trusted.")));
	return NULL;
}

static const char *
column_text(const MosqlDefinition *table, const MosqlDefinitionColumn *column, Oid serverid)
{
	if (!is_there(column->expression))
		return column->expression;
	return local_text(table, column, serverid,
					  psprintf(column->generated ? "what generates column \"%s\"" :
							   "the default of column \"%s\"", column->name),
					  column->expression);
}

void
mosql_fdw_localize(MosqlDefinition *table, Oid serverid)
{
	for (int i = 0; i < table->ncolumns; i++)
	{
		MosqlDefinitionColumn *column = &table->columns[i];
		Oid			type;
		int32		typmod;

		if (column->dropped)
			continue;
		mosql_type_oid(column->type, &type, &typmod);
		column->type = mosql_type_name(type, typmod);
		column->collation = mosql_collation_name(mosql_collation_oid(column->collation));
	}
	for (int i = 0; i < table->ncolumns; i++)
		if (!table->columns[i].dropped)
			table->columns[i].expression = column_text(table, &table->columns[i], serverid);
	for (int i = 0; i < table->nchecks; i++)
	{
		MosqlDefinitionCheck *check = &table->checks[i];

		if (is_there(check->expression) && mosql_definition_check_holds(table, check))
			check->expression = local_text(table, NULL, serverid,
										   psprintf("CHECK constraint \"%s\"", check->name),
										   check->expression);
	}
}

/* ---- statements ---- */

/* serial has no parameters: those in the definition count. */
static const char *
serial_type(const MosqlDefinitionColumn *column)
{
	if (strcmp(column->type, "bigint") == 0)
		return "bigserial";
	if (strcmp(column->type, "smallint") == 0)
		return "smallserial";
	return strcmp(column->type, "integer") == 0 ? "serial" : column->type;
}

void
mosql_fdw_put_identity(StringInfo sql, const MosqlSequence *sequence)
{
	appendStringInfo(sql, " GENERATED %s AS IDENTITY (START " INT64_FORMAT " INCREMENT "
					 INT64_FORMAT " MINVALUE " INT64_FORMAT " MAXVALUE " INT64_FORMAT
					 " CACHE " INT64_FORMAT "%s)",
					 sequence->always ? "ALWAYS" : "BY DEFAULT", sequence->start,
					 sequence->increment, sequence->min, sequence->max, sequence->cache,
					 sequence->cycle ? " CYCLE" : "");
}

void
mosql_fdw_put_column(StringInfo sql, const MosqlDefinitionColumn *column,
					 bool in_order)
{
	bool		serial = column->sequence.counter != 0 && !column->sequence.identity;

	appendStringInfo(sql, "%s %s", quote_identifier(column->name),
					 serial ? serial_type(column) : column->type);
	if (column->key_position >= 0 && in_order)
		appendStringInfoString(sql, " OPTIONS (key 'true')");
	else if (column->key_position >= 0)
		appendStringInfo(sql, " OPTIONS (key '%d')", column->key_position + 1);
	if (column->collation[0] != '\0' && strcmp(column->collation, "\"default\"") != 0)
		appendStringInfo(sql, " COLLATE %s", column->collation);
	if (column->not_null)
		appendStringInfoString(sql, " NOT NULL");
	if (column->sequence.counter != 0 && column->sequence.identity)
		mosql_fdw_put_identity(sql, &column->sequence);
	else if (is_there(column->expression) && column->generated)
		appendStringInfo(sql, " GENERATED ALWAYS AS (%s) STORED", column->expression);
	else if (is_there(column->expression) && !column->generated && !serial)
		appendStringInfo(sql, " DEFAULT (%s)", column->expression);
}

/* Do the key columns stand in the order of the table's? */
static bool
key_is_in_order(const MosqlDefinition *table)
{
	int			last = -1;

	for (int i = 0; i < table->ncolumns; i++)
	{
		if (table->columns[i].dropped || table->columns[i].key_position < 0)
			continue;
		if (table->columns[i].key_position < last)
			return false;
		last = table->columns[i].key_position;
	}
	return true;
}

/* Behind a constant or name that begins here, in quotes; a quote within is doubled. */
static const char *
end_of_quoted(const char *at)
{
	char		quote = *at++;

	while (*at != '\0' && (*at != quote || at[1] == quote))
		at += *at == quote ? 2 : 1;
	return *at == quote ? at + 1 : at;
}

/*
 * Core reads the statement under the session's standard_conforming_strings.  So that a constant says what was
 * printed all the same, each with a backslash is spelled E'...'; those of quote_literal() are already.
 */
static char *
spell_backslashes(const char *sql)
{
	StringInfoData out;

	initStringInfo(&out);
	for (const char *at = sql; *at != '\0';)
	{
		const char *end = *at == '"' || *at == '\'' ? end_of_quoted(at) : at + 1;
		bool		spell = *at == '\'' && memchr(at, '\\', end - at) != NULL && (at == sql || at[-1] != 'E');

		if (spell)
			appendStringInfoString(&out, " E");
		for (; at < end; at++)
		{
			if (spell && *at == '\\')
				appendStringInfoChar(&out, '\\');
			appendStringInfoChar(&out, *at);
		}
	}
	return out.data;
}

static char *
create_statement(const ImportForeignSchemaStmt *stmt, const MosqlDefinition *table)
{
	StringInfoData sql;
	bool		in_order = key_is_in_order(table);
	bool		first = true;

	initStringInfo(&sql);
	appendStringInfo(&sql, MOSQL_IMPORT_MARK "CREATE FOREIGN TABLE %s (", quote_identifier(table->name));
	for (int i = 0; i < table->ncolumns; i++)
	{
		if (table->columns[i].dropped)
			continue;
		if (!first)
			appendStringInfoString(&sql, ", ");
		mosql_fdw_put_column(&sql, &table->columns[i], in_order);
		first = false;
	}
	for (int i = 0; i < table->nchecks; i++)
	{
		if (!is_there(table->checks[i].expression) ||
			!mosql_definition_check_holds(table, &table->checks[i]))
			continue;
		appendStringInfo(&sql, "%sCONSTRAINT %s CHECK (%s)", first ? "" : ", ",
						 quote_identifier(table->checks[i].name),
						 table->checks[i].expression);
		first = false;
	}
	appendStringInfo(&sql, ") SERVER %s OPTIONS (schema_name %s, table_name %s)",
					 quote_identifier(stmt->server_name),
					 quote_literal_cstr(table->schema), quote_literal_cstr(table->name));
	return spell_backslashes(sql.data);
}

/* A NOTICE for what is asked for by name and is not in Redis: names may be mistyped. */
static void
note_missing(const ImportForeignSchemaStmt *stmt, const MosqlDefinition *tables, int n)
{
	ListCell   *cell;

	if (stmt->list_type != FDW_IMPORT_SCHEMA_LIMIT_TO)
	{
		if (n == 0)
			ereport(NOTICE,
					(errmsg("schema \"%s\" has no tables in Redis", stmt->remote_schema),
					 errhint("SELECT * FROM mosql_fdw_gc('%s') lists the tables that are not here.",
							 stmt->server_name)));
		return;
	}
	foreach(cell, stmt->table_list)
	{
		const char *name = ((RangeVar *) lfirst(cell))->relname;
		int			i = 0;

		while (i < n && strcmp(tables[i].name, name) != 0)
			i++;
		if (i == n)
			ereport(NOTICE,
					(errmsg("table \"%s.%s\" does not exist in Redis", stmt->remote_schema, name),
					 errhint("SELECT * FROM mosql_fdw_gc('%s') lists the tables that are not here.",
							 stmt->server_name)));
	}
}

/*
 * One scan of the definitions.  No options: an unknown one is HV00D.
 */
List *
mosqlImportForeignSchema(ImportForeignSchemaStmt *stmt, Oid serverid)
{
	MosqlDefinition *tables;
	List	   *commands = NIL;
	int			n;

	if (stmt->options != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
				 errmsg("invalid option \"%s\"",
						((DefElem *) linitial(stmt->options))->defname),
				 errhint("IMPORT FOREIGN SCHEMA of mosql_fdw has no options.")));
	n = mosql_table_definitions(mosql_fdw_session(serverid, InvalidOid), stmt->remote_schema,
								&tables);
	note_missing(stmt, tables, n);
	for (int i = 0; i < n; i++)
		if (is_wanted(stmt, tables[i].name))
		{
			mosql_fdw_localize(&tables[i], serverid);
			commands = lappend(commands, create_statement(stmt, &tables[i]));
		}
	return commands;
}
