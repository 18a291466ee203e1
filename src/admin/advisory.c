/*
 * advisory.c: mosql_fdw_advisory_xact_lock() and its kin.
 *
 * Layer: admin.  What PostgreSQL's functions of these names without the prefix do, for all
 * front-ends of a namespace (table/advisory.c).
 */
#include "postgres.h"

#include "admin/maintain.h"
#include "table/table.h"

PG_FUNCTION_INFO_V1(mosql_fdw_advisory_xact_lock);
PG_FUNCTION_INFO_V1(mosql_fdw_advisory_xact_lock_shared);
PG_FUNCTION_INFO_V1(mosql_fdw_try_advisory_xact_lock);
PG_FUNCTION_INFO_V1(mosql_fdw_try_advisory_xact_lock_shared);

static bool
lock_number(FunctionCallInfo fcinfo, bool shared, bool wait)
{
	MosqlSession *session = mosql_admin_server_session(mosql_admin_text_arg(fcinfo, 0));

	return mosql_table_lock_number(session, PG_GETARG_INT64(1), shared, wait);
}

Datum
mosql_fdw_advisory_xact_lock(PG_FUNCTION_ARGS)
{
	(void) lock_number(fcinfo, false, true);
	PG_RETURN_VOID();
}

Datum
mosql_fdw_advisory_xact_lock_shared(PG_FUNCTION_ARGS)
{
	(void) lock_number(fcinfo, true, true);
	PG_RETURN_VOID();
}

Datum
mosql_fdw_try_advisory_xact_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(lock_number(fcinfo, false, false));
}

Datum
mosql_fdw_try_advisory_xact_lock_shared(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(lock_number(fcinfo, true, false));
}
