/*
 * core.c: what txn/local.c calls of PostgreSQL, which does nothing here but fail now and then.
 *
 * Part of the front-end, as host.c is.
 */
#include "sim.h"

#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/async.h"
#include "commands/tablecmds.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "storage/proc.h"
#include "utils/timeout.h"

int			MyXactFlags = 0;
int			StatementTimeout = 0;	/* sim_cancel() stands for it */
int			client_connection_check_interval = 0;
volatile sig_atomic_t CheckClientConnectionPending = false;
volatile sig_atomic_t ClientConnectionLost = false;

static TransactionId own_xid;	/* it writes tables of PostgreSQL's own */
static bool notifies;
static bool is_checked;

extern bool pq_check_connection(void);

/* Of a new transaction: what else it does, besides ours; `alone`: nothing. */
void
sim_core_begin(bool alone)
{
	is_checked = false;
	notifies = !alone && sim_chance(20);
	own_xid = !alone && sim_chance(100) ? FirstNormalTransactionId : InvalidTransactionId;
	MyXactFlags = !alone && sim_chance(50) ? XACT_FLAGS_ACCESSEDTEMPNAMESPACE : 0;
}

static void
fail(int per_mille, int sqlstate, const char *message)
{
	if (sim_chance(per_mille))
		ereport(ERROR, (errcode(sqlstate), errmsg("%s", message)));
}

TransactionId
GetTopTransactionIdIfAny(void)
{
	return own_xid;
}

TransactionId
GetCurrentTransactionId(void)
{
	return own_xid = FirstNormalTransactionId;
}

void
PreCommit_on_commit_actions(void)
{
	fail(100, ERRCODE_FOREIGN_KEY_VIOLATION, "a foreign key between temporary tables refuses");
}

/* As it tells that there is a NOTIFY: by refusing to PREPARE. */
void
AtPrepare_Notify(void)
{
	if (notifies)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("cannot PREPARE")));
}

void
LockSharedObject(Oid classid, Oid objid, uint16 objsubid, LOCKMODE lockmode)
{
	if (sim_chance(200))
		pg_usleep(sim_below(1000000));
	fail(100, ERRCODE_LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout");
}

void
UnlockSharedObject(Oid classid, Oid objid, uint16 objsubid, LOCKMODE lockmode)
{
}

/* pg_notification_queue_usage() */
Datum
OidFunctionCall0Coll(Oid function, Oid collation)
{
	return Float8GetDatum(sim_chance(50) ? 0.95 : 0.1);
}

/* Under SERIALIZABLE; once it has passed it passes again. */
void
PreCommit_CheckForSerializationFailure(void)
{
	if (own_xid != InvalidTransactionId && !is_checked)
		fail(50, ERRCODE_T_R_SERIALIZATION_FAILURE, "could not serialize access");
	is_checked = true;
}

bool
pq_check_connection(void)
{
	return !ClientConnectionLost;
}

bool
get_timeout_active(TimeoutId id)
{
	return false;
}

void
enable_timeout_after(TimeoutId id, int delay_ms)
{
	Assert(false);
}

void
disable_timeout(TimeoutId id, bool keep_indicator)
{
}

TimestampTz
GetCurrentStatementStartTimestamp(void)
{
	return GetCurrentTimestamp();
}
