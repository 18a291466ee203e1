/*
 * debug.c: what happens at a debug point.
 *
 * Layer: admin.  Settings for superusers and tests: points hold while a test has
 * their lock, crash the backend, or raise an error; leases may be made short.  A point's lock is
 * an advisory lock of the current database named after the hash of the point's
 * name, so that pg_locks and the isolation tester see who waits.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "common/hashfn.h"
#include "storage/lock.h"
#include "utils/guc.h"

#include "admin/admin.h"
#include "base/debug.h"
#include "base/interrupt.h"
#include "base/limits.h"

/* Distinguishes our advisory locks from those of applications (which use 1, 2). */
#define LOCK_SPACE	0x6d6f

static bool debug_points = false;
static char *debug_crash_at = NULL;
static char *debug_error_at = NULL;

static LOCKTAG
lock_of(const char *name)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0,
						 DatumGetUInt32(hash_any((const unsigned char *) name, strlen(name))),
						 LOCK_SPACE);
	return tag;
}

static bool
is_named(const char *setting, const char *name)
{
	return setting != NULL && strcmp(setting, name) == 0;
}

static void
reach(const char *name)
{
	if (is_named(debug_crash_at, name))
	{
		elog(LOG, "mosql_fdw.debug_crash_at: %s", name);
		kill(MyProcPid, SIGKILL);
	}
	if (!IsTransactionState())
		return;					/* an abort must neither wait nor fail */
	if (is_named(debug_error_at, name))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("mosql_fdw.debug_error_at: %s", name)));
	if (debug_points)
	{
		LOCKTAG		tag = lock_of(name);

		(void) LockAcquire(&tag, ShareLock, false, false);
		(void) LockRelease(&tag, ShareLock, false);
		mosql_check_interrupts();	/* in a commit the lock's wait does not */
	}
}

static void
update_active(bool points, const char *crash_at, const char *error_at)
{
	mosql_debug_active = points || (crash_at != NULL && crash_at[0] != '\0') ||
		(error_at != NULL && error_at[0] != '\0');
}

static void
assign_points(bool value, void *extra)
{
	update_active(value, debug_crash_at, debug_error_at);
}

static void
assign_crash_at(const char *value, void *extra)
{
	update_active(debug_points, value, debug_error_at);
}

static void
assign_error_at(const char *value, void *extra)
{
	update_active(debug_points, debug_crash_at, value);
}

void
mosql_admin_init_debug(void)
{
	mosql_debug_hook = reach;
	DefineCustomBoolVariable("mosql_fdw.debug_points",
							 "Stops at debug points whose lock a test holds.",
							 NULL, &debug_points, false, PGC_SUSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							 NULL, assign_points, NULL);
	DefineCustomStringVariable("mosql_fdw.debug_crash_at",
							   "Kills the backend at this debug point.",
							   "The server then restarts, as after any crash.",
							   &debug_crash_at, "", PGC_SUSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							   NULL, assign_crash_at, NULL);
	DefineCustomStringVariable("mosql_fdw.debug_error_at",
							   "Raises an error at this debug point.",
							   NULL, &debug_error_at, "", PGC_SUSET,
							   GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							   NULL, assign_error_at, NULL);
	DefineCustomIntVariable("mosql_fdw.debug_lease",
							"Length of a session's lease at the clock.",
							"Short, a test need not wait long until a session that pauses is dead.",
							&mosql_txn_lease_ms, MOSQL_LEASE_MS, 100, MOSQL_LEASE_MS, PGC_SUSET,
							GUC_UNIT_MS | GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							NULL, NULL, NULL);
}

PG_FUNCTION_INFO_V1(mosql_fdw_debug_lock);
PG_FUNCTION_INFO_V1(mosql_fdw_debug_unlock);

/* Hold everybody at a debug point until mosql_fdw_debug_unlock() or the end of
 * this session. */
Datum
mosql_fdw_debug_lock(PG_FUNCTION_ARGS)
{
	LOCKTAG		tag = lock_of(mosql_admin_text_arg(fcinfo, 0));

	(void) LockAcquire(&tag, ExclusiveLock, true, false);
	PG_RETURN_VOID();
}

/* Let them go; returns false, with a warning, if the lock was not held. */
Datum
mosql_fdw_debug_unlock(PG_FUNCTION_ARGS)
{
	LOCKTAG		tag = lock_of(mosql_admin_text_arg(fcinfo, 0));

	PG_RETURN_BOOL(LockRelease(&tag, ExclusiveLock, true));
}
