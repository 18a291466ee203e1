/*
 * maintain.c: maintenance and what it keeps, as SQL functions.
 *
 * Layer: admin.  sql/mosql_fdw--1.0.sql documents each for users.
 */
#include "postgres.h"

#include <limits.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "foreign/foreign.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "admin/maintain.h"
#include "step/clock_keep.h"

int			mosql_maintain_rate = 1000;
bool		mosql_maintain_on = true;
int			mosql_maintain_naptime_s = 60;

PG_FUNCTION_INFO_V1(mosql_fdw_maintain);
PG_FUNCTION_INFO_V1(mosql_fdw_transaction_status);
PG_FUNCTION_INFO_V1(mosql_fdw_progress);

void
mosql_maintain_init(void)
{
	DefineCustomIntVariable("mosql_fdw.maintenance_rate",
							"Leaves per second that maintenance looks at.",
							"0: as many as it can.",
							&mosql_maintain_rate, 1000, 0, INT_MAX,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("mosql_fdw.maintenance",
							 "The background worker does maintenance.",
							 "It exists if mosql_fdw is in shared_preload_libraries.",
							 &mosql_maintain_on, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("mosql_fdw.maintenance_naptime",
							"Time between two rounds of maintenance in a database.",
							NULL,
							&mosql_maintain_naptime_s, 60, 1, INT_MAX / 1000000,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
}

/* ---- servers ---- */

List *
mosql_maintain_servers(void)
{
	Relation	catalog = table_open(ForeignServerRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;
	List	   *servers = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Oid			serverid = ((Form_pg_foreign_server) GETSTRUCT(tuple))->oid;

		if (mosql_fdw_is_our_server(serverid))
			servers = lappend_oid(servers, serverid);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	list_sort(servers, list_oid_cmp);	/* as they were made */
	return servers;
}

/* The named server, or all that the current user may use. */
static List *
servers_argument(FunctionCallInfo fcinfo, int i)
{
	List	   *servers = NIL;
	ListCell   *lc;

	if (!PG_ARGISNULL(i))
	{
		char	   *name = mosql_admin_text_arg(fcinfo, i);

		(void) mosql_admin_server_session(name);	/* checks, does not connect */
		return list_make1_oid(mosql_admin_our_server(name)->serverid);
	}
	foreach(lc, mosql_maintain_servers())
		if (mosql_admin_may_use_server(lfirst_oid(lc)))
			servers = lappend_oid(servers, lfirst_oid(lc));
	return servers;
}

/* ---- each of several servers ---- */

typedef struct Visit
{
	ReturnSetInfo *out;
	Oid			serverid;
	MosqlPutServer put;
} Visit;

/* A MosqlAttempt. */
static void
visit(void *arg)
{
	const Visit *visit = arg;

	visit->put(visit->out, visit->serverid, mosql_fdw_session(visit->serverid, InvalidOid));
}

/*
 * A server that does not answer, or does not let us in, is no reason to do without the others, unless it is
 * the one that was asked for: false, with a WARNING.
 */
static bool
try_visit(bool named, ReturnSetInfo *out, Oid serverid, MosqlPutServer put)
{
	Visit		one = {out, serverid, put};
	ErrorData  *error;

	if (named)
	{
		visit(&one);
		return true;
	}
	error = mosql_admin_attempt_server(visit, &one);
	if (error != NULL)
		mosql_admin_warn(error, psprintf("server \"%s\" is left out", GetForeignServer(serverid)->servername));
	return error == NULL;
}

void
mosql_admin_put_servers(FunctionCallInfo fcinfo, MosqlPutServer put)
{
	List	   *servers = servers_argument(fcinfo, 0);
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, servers)
		(void) try_visit(!PG_ARGISNULL(0), (ReturnSetInfo *) fcinfo->resultinfo, lfirst_oid(lc), put);
}

/* ---- mosql_fdw_maintain ---- */

static void
check_transaction(const char *server, MosqlSession *session)
{
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("mosql_fdw_maintain() must run at READ COMMITTED"),
				 errdetail("The transaction's snapshot would hide tables that were created since, and keep old rows."),
				 errhint("Call it outside of a transaction block, or after BEGIN ISOLATION LEVEL READ COMMITTED.")));
	if (mosql_txn_has_written(session))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("mosql_fdw_maintain() cannot run in a transaction that has changed tables of server \"%s\"",
						server),
				 errhint("Call it in a transaction of its own.")));
}

/* A MosqlPutServer: may we, and does the server answer? */
static void
ask_clock(ReturnSetInfo *out, Oid serverid, MosqlSession *session)
{
	MosqlJob   *jobs;

	check_transaction(GetForeignServer(serverid)->servername, session);
	(void) mosql_clock_jobs(mosql_session_stepper(session), &jobs);
}

static void
put_result(ReturnSetInfo *out, const char *server, const MosqlPassResult *result)
{
	const MosqlVacuumCounts *v = &result->vacuum;
	Datum		values[] = {
		CStringGetTextDatum(server),
		CStringGetTextDatum(mosql_pass_outcome_name(result->outcome)),
		Int64GetDatum(result->orphans.sessions),
		Int64GetDatum(result->orphans.reaped),
		Int64GetDatum(v->leaves),
		Int64GetDatum(v->rows_pruned),
		Int64GetDatum(v->tombstones_purged),
		Int64GetDatum(v->intents_applied),
		Int64GetDatum(v->intents_removed),
		Int64GetDatum(v->marks_removed),
		Int64GetDatum(v->splits_finished),
		Int64GetDatum(v->leaves_merged),
		Int64GetDatum(v->nodes_deleted),
		Int64GetDatum(v->packed.leaves),
		Int64GetDatum(v->damaged),
		Int64GetDatum(result->analyzed),
		Float8GetDatum(result->seconds)
	};
	bool		nulls[lengthof(values)] = {false};

	tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
}

Datum
mosql_fdw_maintain(PG_FUNCTION_ARGS)
{
	List	   *servers = servers_argument(fcinfo, 0);
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, servers)
	{
		MosqlSession *session;
		MosqlPassResult result;

		if (!try_visit(!PG_ARGISNULL(0), NULL, lfirst_oid(lc), ask_clock))
			continue;
		session = mosql_fdw_session(lfirst_oid(lc), InvalidOid);
		mosql_maintain_pass(lfirst_oid(lc), session, false, &result);
		result.analyzed = mosql_maintain_statistics(lfirst_oid(lc), session);
		put_result((ReturnSetInfo *) fcinfo->resultinfo,
				   GetForeignServer(lfirst_oid(lc))->servername, &result);
	}
	return (Datum) 0;
}

/* ---- mosql_fdw_transaction_status ---- */

MosqlTxid
mosql_admin_parse_txid(const char *text)
{
	MosqlTxid	tx = {0};
	char	   *end;

	if (*text >= '1' && *text <= '9')
	{
		errno = 0;
		tx.session = strtoull(text, &end, 10);
		if (errno == 0 && end[0] == '.' && end[1] >= '1' && end[1] <= '9')
		{
			tx.n = strtoull(end + 1, &end, 10);
			if (errno == 0 && *end == '\0')
				return tx;
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			 errmsg("invalid transaction id: \"%s\"", text),
			 errhint("Two numbers with a dot between them, as the error message of the COMMIT has them.")));
}

Datum
mosql_fdw_transaction_status(PG_FUNCTION_ARGS)
{
	MosqlTxid	tx = mosql_admin_parse_txid(mosql_admin_text_arg(fcinfo, 1));
	MosqlSession *session = mosql_admin_server_session(mosql_admin_text_arg(fcinfo, 0));
	const char *status = NULL;

	switch (mosql_clock_fate(mosql_session_stepper(session), tx))
	{
		case MOSQL_FATE_UNKNOWN:
			status = "unknown";
			break;
		case MOSQL_FATE_IN_PROGRESS:
			status = "in progress";
			break;
		case MOSQL_FATE_COMMITTED:
			status = "committed";
			break;
		case MOSQL_FATE_ABORTED:
			status = "aborted";
			break;
	}
	PG_RETURN_TEXT_P(cstring_to_text(status));
}

/* ---- mosql_fdw_progress ---- */

Datum
mosql_admin_json(MosqlBytes stored)
{
	MemoryContext caller = CurrentMemoryContext;
	MosqlBytes	text = mosql_text_from_utf8(stored);
	volatile Datum details = (Datum) 0;

	PG_TRY();
	{
		if (text.data != NULL)
			details = DirectFunctionCall1(jsonb_in,
										  CStringGetDatum(pnstrdup(text.data, text.len)));
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		if (ERRCODE_TO_CATEGORY(geterrcode()) != ERRCODE_DATA_EXCEPTION)
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
	return details;
}

/* Is it a number, as the view takes it for one, or not there? */
static bool
is_number(Jsonb *details, const char *name)
{
	JsonbValue	buffer;
	JsonbValue *value = JB_ROOT_IS_OBJECT(details)
		? getKeyJsonValueFromContainer(&details->root, name, strlen(name), &buffer) : NULL;
	char	   *end;

	if (value == NULL || value->type == jbvNull)
		return true;
	if (value->type != jbvNumeric)
		return false;
	errno = 0;
	(void) strtoll(DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value->val.numeric))), &end, 10);
	return errno == 0 && *end == '\0';
}

/* What a job says of itself, and its name; XX001 if the view could not show them. */
static Datum
job_details(MosqlSession *session, const MosqlJob *job, MosqlBytes *name)
{
	Datum		details = mosql_admin_json(job->text);

	*name = mosql_text_from_utf8(mosql_bytes(job->name, strlen(job->name)));
	if (details == (Datum) 0 || name->data == NULL || job->started > MOSQL_TS_MAX || job->updated > MOSQL_TS_MAX ||
		!is_number(DatumGetJsonbP(details), "done") || !is_number(DatumGetJsonbP(details), "total"))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged progress of \"%s\" in namespace \"%s\"",
						name->data != NULL ? pnstrdup(name->data, name->len) : "",
						mosql_session_namespace(session))));
	return details;
}

static void
put_jobs(ReturnSetInfo *out, Oid serverid, MosqlSession *session)
{
	const char *server = GetForeignServer(serverid)->servername;
	MosqlJob   *jobs;
	int			n = mosql_clock_jobs(mosql_session_stepper(session), &jobs);

	for (int i = 0; i < n; i++)
	{
		MosqlBytes	name;
		Datum		details = job_details(session, &jobs[i], &name);
		const char *state = !jobs[i].running ? "ended" : jobs[i].alive ? "running" : "died";
		Datum		values[] = {
			CStringGetTextDatum(server),
			CStringGetTextDatum(pnstrdup(name.data, name.len)),
			CStringGetTextDatum(state),
			TimestampTzGetDatum(mosql_admin_time(jobs[i].started)),
			TimestampTzGetDatum(mosql_admin_time(jobs[i].updated)),
			Int64GetDatum(jobs[i].sid),
			details
		};
		bool		nulls[lengthof(values)] = {false};

		tuplestore_putvalues(out->setResult, out->setDesc, values, nulls);
	}
}

Datum
mosql_fdw_progress(PG_FUNCTION_ARGS)
{
	mosql_admin_put_servers(fcinfo, put_jobs);
	return (Datum) 0;
}
