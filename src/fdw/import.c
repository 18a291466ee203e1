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
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_type.h"
#include "parser/parser.h"
#include "utils/builtins.h"
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

/*
 * A definition's words for a type and a collation go into SQL: they are read as
 * what they should be and written anew, so that nothing else comes along.  Nor does
 * anything with an expression (mosql_expression_check).  What that calls runs as
 * whoever inserts, as defaults do: who writes to Redis is trusted that far.
 */
static char *
type_name(const char *stored)
{
	Oid			type;
	int32		typmod;

#if PG_VERSION_NUM >= 160000
	(void) parseTypeString(stored, &type, &typmod, NULL);
#else
	parseTypeString(stored, &type, &typmod, false);
#endif
	return format_type_extended(type, typmod, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

static char *
collation_name(const char *stored)
{
#if PG_VERSION_NUM >= 160000
	return NameListToQuotedString(stringToQualifiedNameList(stored, NULL));
#else
	return NameListToQuotedString(stringToQualifiedNameList(stored));
#endif
}

/* Empty is what was dropped. */
static bool
is_there(const char *text)
{
	return text != NULL && text[0] != '\0';
}

/* ---- sequences that defaults draw from ---- */

/* The names in nextval('...'::regclass) of an expression. */
static bool
find_sequences(Node *node, void *context)
{
	List	  **names = context;

	if (node == NULL)
		return false;
	if (IsA(node, FuncCall) && list_length(((FuncCall *) node)->args) == 1 &&
		strcmp(strVal(llast(((FuncCall *) node)->funcname)), "nextval") == 0)
	{
		Node	   *arg = linitial(((FuncCall *) node)->args);

		if (IsA(arg, TypeCast))
			arg = ((TypeCast *) arg)->arg;
		if (IsA(arg, A_Const) && !((A_Const *) arg)->isnull && IsA(&((A_Const *) arg)->val, String))
			*names = lappend(*names, strVal(&((A_Const *) arg)->val));
	}
	return raw_expression_tree_walker(node, find_sequences, context);
}

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

/* NULL: it is here, now or already; else why it cannot be. */
static const char *
bring_sequence(const char *text, Oid serverid)
{
#if PG_VERSION_NUM >= 160000
	RangeVar   *name = makeRangeVarFromNameList(stringToQualifiedNameList(text, NULL));
#else
	RangeVar   *name = makeRangeVarFromNameList(stringToQualifiedNameList(text));
#endif
	const MosqlNamedSequence *there;

	if (name->schemaname == NULL)
		return psprintf("Sequence %s is named without its schema.", text);
	there = mosql_named_sequence(mosql_fdw_session(serverid, InvalidOid), name->schemaname,
								 name->relname);
	if (there == NULL)
		return psprintf("It draws from sequence %s, which is not in Redis.", text);
	if (!OidIsValid(get_namespace_oid(name->schemaname, true)))
		return psprintf("It draws from sequence %s, and there is no schema \"%s\" here.", text,
						name->schemaname);
	if (!OidIsValid(RangeVarGetRelid(name, NoLock, true)))
		create_sequence(name, &there->sequence, serverid);
	return NULL;
}

/* Raw parse trees know no expressions by themselves: it is a query of one. */
static List *
sequences_of(const char *stored)
{
	List	   *names = NIL;

	(void) find_sequences(linitial_node(RawStmt, raw_parser(stored, RAW_PARSE_PLPGSQL_EXPR))->stmt,
						  &names);
	return names;
}

void
mosql_fdw_bring_sequences(MosqlDefinition *table, Oid serverid)
{
	for (int i = 0; i < table->ncolumns; i++)
	{
		MosqlDefinitionColumn *column = &table->columns[i];
		const char *why = NULL;
		ListCell   *cell;

		if (column->dropped || column->generated || !is_there(column->expression))
			continue;
		foreach(cell, sequences_of(mosql_expression_check(column->expression)))
			if (why == NULL)
				why = bring_sequence(lfirst(cell), serverid);
		if (why == NULL)
			continue;
		ereport(NOTICE,
				(errmsg("column \"%s\" of table \"%s.%s\" has no default here", column->name,
						table->schema, table->name),
				 errdetail_internal("%s", why),
				 errhint("ALTER FOREIGN TABLE ... ALTER COLUMN ... SET DEFAULT sets it.")));
		column->expression = NULL;
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
	return strcmp(column->type, "integer") == 0 ? "serial" : type_name(column->type);
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
					 serial ? serial_type(column) : type_name(column->type));
	if (column->key_position >= 0 && in_order)
		appendStringInfoString(sql, " OPTIONS (key 'true')");
	else if (column->key_position >= 0)
		appendStringInfo(sql, " OPTIONS (key '%d')", column->key_position + 1);
	if (column->collation[0] != '\0' && strcmp(column->collation, "\"default\"") != 0)
		appendStringInfo(sql, " COLLATE %s", collation_name(column->collation));
	if (column->not_null)
		appendStringInfoString(sql, " NOT NULL");
	if (column->sequence.counter != 0 && column->sequence.identity)
		mosql_fdw_put_identity(sql, &column->sequence);
	else if (is_there(column->expression) && column->generated)
		appendStringInfo(sql, " GENERATED ALWAYS AS (%s) STORED", mosql_expression_check(column->expression));
	else if (is_there(column->expression) && !column->generated && !serial)
		appendStringInfo(sql, " DEFAULT (%s)", mosql_expression_check(column->expression));
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

static char *
create_statement(const ImportForeignSchemaStmt *stmt, const MosqlDefinition *table)
{
	StringInfoData sql;
	bool		in_order = key_is_in_order(table);
	bool		first = true;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE FOREIGN TABLE %s (", quote_identifier(table->name));
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
						 mosql_expression_check(table->checks[i].expression));
		first = false;
	}
	appendStringInfo(&sql, ") SERVER %s OPTIONS (schema_name %s, table_name %s)",
					 quote_identifier(stmt->server_name),
					 quote_literal_cstr(table->schema), quote_literal_cstr(table->name));
	return sql.data;
}

/*
 * One scan of the definitions.  No options: an unknown one is HV00D.
 */
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
			mosql_fdw_bring_sequences(&tables[i], serverid);
			commands = lappend(commands, create_statement(stmt, &tables[i]));
		}
	return commands;
}
