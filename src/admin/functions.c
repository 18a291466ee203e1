/*
 * functions.c: version, counters and connections, as SQL functions.
 *
 * Layer: admin.  sql/mosql_fdw--1.0.sql documents each for users.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "code/node.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "admin/admin.h"
#include "base/stats.h"

#define VERSION	"1.0"

PG_FUNCTION_INFO_V1(mosql_fdw_version);
PG_FUNCTION_INFO_V1(mosql_fdw_stats);
PG_FUNCTION_INFO_V1(mosql_fdw_stats_reset);
PG_FUNCTION_INFO_V1(mosql_fdw_get_connections);
PG_FUNCTION_INFO_V1(mosql_fdw_disconnect);
PG_FUNCTION_INFO_V1(mosql_fdw_disconnect_all);

/* ---- shared by the functions ---- */

char *
mosql_admin_text_arg(FunctionCallInfo fcinfo, int i)
{
	return text_to_cstring(PG_GETARG_TEXT_PP(i));
}

void
mosql_admin_run_sql(const char *sql)
{
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	mosql_table_command->continues = true;
	if (SPI_execute(sql, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not run: %s", sql);
	SPI_finish();
	CommandCounterIncrement();
}

ForeignServer *
mosql_admin_our_server(const char *name)
{
	ForeignServer *server = GetForeignServerByName(name, true);

	if (server == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server \"%s\" does not exist", name),
				 errhint("CREATE SERVER ... FOREIGN DATA WRAPPER mosql_fdw makes one; \\des in psql lists those that there are.")));
	if (!mosql_fdw_is_our_server(server->serverid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" is not a server of mosql_fdw", name),
				 errhint("CREATE SERVER ... FOREIGN DATA WRAPPER mosql_fdw makes one; \\des in psql lists those that there are.")));
	return server;
}

MosqlSession *
mosql_admin_server_session(const char *name)
{
	ForeignServer *server = mosql_admin_our_server(name);

	mosql_admin_check_server(server->serverid);
	return mosql_fdw_session(server->serverid, InvalidOid);
}

List *
mosql_admin_server_tables(Oid serverid)
{
	Relation	catalog = table_open(ForeignTableRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;
	List	   *tables = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_foreign_table form = (Form_pg_foreign_table) GETSTRUCT(tuple);

		if (form->ftserver == serverid)
			tables = lappend_oid(tables, form->ftrelid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return tables;
}

bool
mosql_admin_seeming_name(Oid relid, const char **schema, const char **name)
{
	List	   *options;
	const char *remote;

	*schema = get_namespace_name(get_rel_namespace(relid));
	*name = get_rel_name(relid);
	if (*schema == NULL || *name == NULL ||
		!SearchSysCacheExists1(FOREIGNTABLEREL, ObjectIdGetDatum(relid)))
		return false;			/* dropped meanwhile */
	options = GetForeignTable(relid)->options;
	if ((remote = mosql_table_option(options, "table_name")) != NULL)
		*name = remote;
	if ((remote = mosql_table_option(options, "schema_name")) != NULL)
		*schema = remote;
	return true;
}

bool
mosql_admin_seems_named(Oid relid, const char *schema, const char *name)
{
	const char *own_schema;
	const char *own_name;

	return mosql_admin_seeming_name(relid, &own_schema, &own_name) &&
		strcmp(name, own_name) == 0 && strcmp(schema, own_schema) == 0;
}

TimestampTz
mosql_admin_time(MosqlTimestamp us)
{
	return (TimestampTz) us - (TimestampTz) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
}

char *
mosql_admin_node_name(MosqlSession *session, uint64 node)
{
	StringInfoData name;

	initStringInfo(&name);
	mosql_node_key(&name, mosql_session_namespace(session), node);
	return name.data;
}

void
mosql_admin_check_ours(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!mosql_fdw_is_ours(relid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a foreign table of mosql_fdw", name),
				 errhint("\\det in psql lists foreign tables and their servers.")));
}

Relation
mosql_admin_open_table(Oid relid, MosqlSession **session, MosqlTable **table)
{
	Relation	rel;
	AclResult	result;

	mosql_admin_check_ours(relid);
	result = pg_class_aclcheck(relid, GetUserId(), ACL_SELECT);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FOREIGN_TABLE, get_rel_name(relid));
	if (check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for foreign table %s", get_rel_name(relid)),
				 errdetail("Row-level security hides its rows.")));
	rel = relation_open(relid, AccessShareLock);
	*session = mosql_fdw_session_for(relid, InvalidOid);
	*table = mosql_table_open(rel, *session);
	return rel;
}

/* ---- version and counters ---- */

Datum
mosql_fdw_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(VERSION));
}

typedef struct Counter
{
	const char *name;
	const int64 *value;
} Counter;

Datum
mosql_fdw_stats(PG_FUNCTION_ARGS)
{
	static const Counter counters[] = {
		{"round_trips", &mosql_stats.round_trips},
		{"commands", &mosql_stats.commands},
		{"bytes_sent", &mosql_stats.bytes_sent},
		{"bytes_received", &mosql_stats.bytes_received},
		{"redirects", &mosql_stats.redirects},
		{"reconnects", &mosql_stats.reconnects},
		{"leaf_reads", &mosql_stats.leaf_reads},
		{"inner_reads", &mosql_stats.inner_reads},
		{"point_reads", &mosql_stats.point_reads},
		{"snapshot_hits", &mosql_stats.snapshot_hits},
		{"step_retries", &mosql_stats.step_retries},
		{"splits", &mosql_stats.splits},
		{"rows_loaded", &mosql_stats.rows_loaded},
		{"leaves_packed", &mosql_stats.leaves_packed},
		{"leaves_unpacked", &mosql_stats.leaves_unpacked},
		{"leaves_rewritten", &mosql_stats.leaves_rewritten},
		{"rows_beside", &mosql_stats.rows_beside},
		{"commits", &mosql_stats.commits},
		{"conflicts", &mosql_stats.conflicts},
		{"prepare_retries", &mosql_stats.prepare_retries},
		{"waits", &mosql_stats.waits},
		{"lost_writes", &mosql_stats.lost_writes},
		{"helps", &mosql_stats.helps},
		{"locks", &mosql_stats.locks},
		{"lock_waits", &mosql_stats.lock_waits},
		{"lock_wait_us", &mosql_stats.lock_wait_us},
		{"deadlocks", &mosql_stats.deadlocks},
	};
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	StaticAssertStmt(sizeof(MosqlStats) == lengthof(counters) * sizeof(int64),
					 "a counter is missing here");
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < lengthof(counters); i++)
	{
		Datum		values[2] = {CStringGetTextDatum(counters[i].name),
		Int64GetDatum(*counters[i].value)};
		bool		nulls[2] = {false, false};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
mosql_fdw_stats_reset(PG_FUNCTION_ARGS)
{
	memset(&mosql_stats, 0, sizeof(mosql_stats));
	PG_RETURN_VOID();
}

/* ---- connections ---- */

static bool
put_connections(void *arg, const char *server, Oid userid, MosqlSession *session)
{
	ReturnSetInfo *result = arg;
	MosqlConnectionInfo *connections;
	int			n = mosql_redis_connections(mosql_session_redis(session), &connections);
	char	   *user = OidIsValid(userid) ? GetUserNameFromId(userid, true) : NULL;

	for (int i = 0; i < n; i++)
	{
		Datum		values[7] = {0};
		bool		nulls[7] = {server == NULL, user == NULL};

		if (server != NULL)
			values[0] = CStringGetTextDatum(server);
		if (user != NULL)
			values[1] = CStringGetTextDatum(user);
		values[2] = CStringGetTextDatum(connections[i].host);
		values[3] = Int32GetDatum(connections[i].port);
		values[4] = BoolGetDatum(connections[i].connected);
		values[5] = Int32GetDatum(connections[i].under_way);
		values[6] = BoolGetDatum(mosql_session_in_use(session));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return true;
}

Datum
mosql_fdw_get_connections(PG_FUNCTION_ARGS)
{
	InitMaterializedSRF(fcinfo, 0);
	mosql_fdw_each_session(put_connections, fcinfo->resultinfo);
	return (Datum) 0;
}

/* Returns whether a session was closed; those of running transactions stay. */
static bool
disconnect(Oid serverid)
{
	int			busy;
	int			closed = mosql_fdw_close_sessions(serverid, &busy);

	if (busy > 0)
		ereport(WARNING,
				(errmsg("cannot close connections that the current transaction uses")));
	return closed > 0;
}

Datum
mosql_fdw_disconnect(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(disconnect(mosql_admin_our_server(mosql_admin_text_arg(fcinfo, 0))->serverid));
}

Datum
mosql_fdw_disconnect_all(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(disconnect(InvalidOid));
}
