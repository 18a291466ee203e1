/*
 * enable.c: mosql_fdw_enable() and mosql_fdw_disable(): plain DDL for a database.
 *
 * Layer: admin.  Three settings of the database do it: session_preload_libraries, so
 * that the hook is there before a session's first statement, mosql_fdw.default_server, and
 * mosql_fdw.present_as_table: who says CREATE TABLE looks for tables.
 */
#include "postgres.h"

#include "catalog/pg_db_role_setting.h"
#include "commands/dbcommands.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/varlena.h"

#include "admin/admin.h"

PG_FUNCTION_INFO_V1(mosql_fdw_enable);
PG_FUNCTION_INFO_V1(mosql_fdw_disable);

#define LIBRARY "mosql_fdw"

/* The libraries that the sessions of this database load, by its own setting or
 * else the server's; in the current context. */
static List *
preloaded(void)
{
	static const char *const sql =
		"SELECT coalesce("
		" (SELECT pg_catalog.substr(s, 27) FROM pg_catalog.pg_db_role_setting,"
		"  pg_catalog.unnest(setconfig) s WHERE setrole OPERATOR(pg_catalog.=) 0"
		"  AND setdatabase OPERATOR(pg_catalog.=) (SELECT oid FROM pg_catalog.pg_database"
		"   WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())"
		"  AND pg_catalog.starts_with(s, 'session_preload_libraries=')),"
		" (SELECT reset_val FROM pg_catalog.pg_settings"
		"  WHERE name OPERATOR(pg_catalog.=) 'session_preload_libraries'), '')";
	MemoryContext caller = CurrentMemoryContext;
	char	   *value;
	List	   *libraries;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute(sql, true, 1) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "SPI_execute failed");
	value = MemoryContextStrdup(caller, SPI_getvalue(SPI_tuptable->vals[0],
													 SPI_tuptable->tupdesc, 1));
	SPI_finish();
	if (!SplitDirectoriesString(value, ',', &libraries))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the value of session_preload_libraries is not a list of libraries"),
				 errhint("ALTER DATABASE ... SET session_preload_libraries to a list of names, or RESET it, and call this function again.")));
	return libraries;
}

/* ALTER DATABASE, with this library added to the list or taken out. */
static void
preload(bool on)
{
	const char *database = quote_identifier(get_database_name(MyDatabaseId));
	StringInfoData sql;
	ListCell   *lc;
	bool		any = false;

	initStringInfo(&sql);
	appendStringInfo(&sql, "ALTER DATABASE %s SET session_preload_libraries =", database);
	foreach(lc, preloaded())
	{
		if (strcmp(lfirst(lc), LIBRARY) == 0)
			continue;
		appendStringInfo(&sql, "%s %s", any ? "," : "", quote_literal_cstr(lfirst(lc)));
		any = true;
	}
	if (on)
		appendStringInfo(&sql, "%s " "'" LIBRARY "'", any ? "," : "");
	else if (!any)
	{
		resetStringInfo(&sql);
		appendStringInfo(&sql, "ALTER DATABASE %s RESET session_preload_libraries", database);
	}
	mosql_admin_run_sql(sql.data);
}

static void
set_default_server(const char *server)
{
	const char *database = quote_identifier(get_database_name(MyDatabaseId));

	mosql_admin_run_sql(server[0] != '\0' ?
						psprintf("ALTER DATABASE %s SET mosql_fdw.default_server = %s", database,
								 quote_literal_cstr(server)) :
						psprintf("ALTER DATABASE %s RESET mosql_fdw.default_server", database));
	SetConfigOption("mosql_fdw.default_server", server, PGC_USERSET, PGC_S_SESSION);
}

static void
set_present(bool on)
{
	const char *database = quote_identifier(get_database_name(MyDatabaseId));

	mosql_admin_run_sql(psprintf(on ? "ALTER DATABASE %s SET mosql_fdw.present_as_table = on" :
								 "ALTER DATABASE %s RESET mosql_fdw.present_as_table", database));
	SetConfigOption("mosql_fdw.present_as_table", on ? "on" : "off", PGC_USERSET, PGC_S_SESSION);
}

Datum
mosql_fdw_enable(PG_FUNCTION_ARGS)
{
	char	   *server = NameStr(*PG_GETARG_NAME(0));

	(void) mosql_admin_our_server(server);
	preload(true);
	set_default_server(server);
	set_present(true);
	PG_RETURN_VOID();
}

Datum
mosql_fdw_disable(PG_FUNCTION_ARGS)
{
	preload(false);
	set_default_server("");
	set_present(false);
	PG_RETURN_VOID();
}
