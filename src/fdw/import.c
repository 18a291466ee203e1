/*
 * import.c: IMPORT FOREIGN SCHEMA: the tables in Redis as foreign tables here.
 *
 * Layer: fdw.  Core sorts out LIMIT TO and EXCEPT by itself; the created tables
 * attach to their definitions like any other CREATE FOREIGN TABLE.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "commands/defrem.h"
#include "nodes/parsenodes.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
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

static void
put_identity(StringInfo sql, const MosqlSequence *sequence)
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
		put_identity(sql, &column->sequence);
	else if (column->expression != NULL && column->generated)
		appendStringInfo(sql, " GENERATED ALWAYS AS (%s) STORED", mosql_expression_check(column->expression));
	else if (column->expression != NULL && !column->generated && !serial)
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
		if (!mosql_definition_check_holds(table, &table->checks[i]))
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
	for (int i = 0; i < n; i++)
		if (is_wanted(stmt, tables[i].name))
			commands = lappend(commands, create_statement(stmt, &tables[i]));
	return commands;
}
