/*
 * advisory.c: mosql_fdw_advisory_lock() and its kin.
 *
 * Layer: admin.  What PostgreSQL's functions of these names without the prefix do, for all
 * front-ends of a namespace (table/advisory.c).  Each serves both signatures: (server, bigint)
 * and (server, int, int).
 */
#include "postgres.h"

#include "admin/maintain.h"
#include "table/table.h"

PG_FUNCTION_INFO_V1(mosql_fdw_advisory_lock);
PG_FUNCTION_INFO_V1(mosql_fdw_advisory_lock_shared);
PG_FUNCTION_INFO_V1(mosql_fdw_try_advisory_lock);
PG_FUNCTION_INFO_V1(mosql_fdw_try_advisory_lock_shared);
PG_FUNCTION_INFO_V1(mosql_fdw_advisory_xact_lock);
PG_FUNCTION_INFO_V1(mosql_fdw_advisory_xact_lock_shared);
PG_FUNCTION_INFO_V1(mosql_fdw_try_advisory_xact_lock);
PG_FUNCTION_INFO_V1(mosql_fdw_try_advisory_xact_lock_shared);
PG_FUNCTION_INFO_V1(mosql_fdw_advisory_unlock);
PG_FUNCTION_INFO_V1(mosql_fdw_advisory_unlock_shared);
PG_FUNCTION_INFO_V1(mosql_fdw_advisory_unlock_all);

static MosqlNumber
number_of(FunctionCallInfo fcinfo, bool session)
{
	MosqlNumber number = {.session = session,.pair = PG_NARGS() == 3};

	if (number.pair)
		number.number = (int64) ((uint64) (uint32) PG_GETARG_INT32(1) << 32 | (uint32) PG_GETARG_INT32(2));
	else
		number.number = PG_GETARG_INT64(1);
	return number;
}

static MosqlSession *
session_of(FunctionCallInfo fcinfo)
{
	return mosql_admin_server_session(mosql_admin_text_arg(fcinfo, 0));
}

static bool
lock_number(FunctionCallInfo fcinfo, bool session, bool shared, bool wait)
{
	MosqlNumber number = number_of(fcinfo, session);

	return mosql_table_lock_number(session_of(fcinfo), &number, shared, wait);
}

/* As PostgreSQL says it. */
static bool
unlock_number(FunctionCallInfo fcinfo, bool shared)
{
	MosqlNumber number = number_of(fcinfo, true);

	if (mosql_table_unlock_number(session_of(fcinfo), &number, shared))
		return true;
	ereport(WARNING,
			(errmsg("you don't own a lock of type %s", shared ? "ShareLock" : "ExclusiveLock")));
	return false;
}

Datum
mosql_fdw_advisory_lock(PG_FUNCTION_ARGS)
{
	(void) lock_number(fcinfo, true, false, true);
	PG_RETURN_VOID();
}

Datum
mosql_fdw_advisory_lock_shared(PG_FUNCTION_ARGS)
{
	(void) lock_number(fcinfo, true, true, true);
	PG_RETURN_VOID();
}

Datum
mosql_fdw_try_advisory_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(lock_number(fcinfo, true, false, false));
}

Datum
mosql_fdw_try_advisory_lock_shared(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(lock_number(fcinfo, true, true, false));
}

Datum
mosql_fdw_advisory_xact_lock(PG_FUNCTION_ARGS)
{
	(void) lock_number(fcinfo, false, false, true);
	PG_RETURN_VOID();
}

Datum
mosql_fdw_advisory_xact_lock_shared(PG_FUNCTION_ARGS)
{
	(void) lock_number(fcinfo, false, true, true);
	PG_RETURN_VOID();
}

Datum
mosql_fdw_try_advisory_xact_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(lock_number(fcinfo, false, false, false));
}

Datum
mosql_fdw_try_advisory_xact_lock_shared(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(lock_number(fcinfo, false, true, false));
}

Datum
mosql_fdw_advisory_unlock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(unlock_number(fcinfo, false));
}

Datum
mosql_fdw_advisory_unlock_shared(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(unlock_number(fcinfo, true));
}

Datum
mosql_fdw_advisory_unlock_all(PG_FUNCTION_ARGS)
{
	mosql_sessions_unlock_all(PG_ARGISNULL(0) ? NULL : mosql_session_namespace(session_of(fcinfo)));
	PG_RETURN_VOID();
}
