/*
 * local.c: PostgreSQL's own half of a commit.
 *
 * Layer: txn.  Redis decides in the pre-commit callback; PostgreSQL has some work
 * left then, of which parts may fail.  What can be done or tried before the decision
 * is (docs/commit.md, "PostgreSQL's own commit"):
 *
 *   AtEOXact_Parallel, AfterTriggerEndXact, AtEOXact_LargeObject: never fail
 *   PreCommit_on_commit_actions      done before; nothing is left to do
 *   PreCommit_Notify                 its lock is taken first of all, and there is room
 *   PreCommit_CheckForSerializationFailure
 *                                    done before; cannot fail a second time
 *   a cancel, a termination, a timeout  served before, then held
 *   smgrDoPendingSyncs, AtEOXact_RelationMap, the commit record
 *                                    a disk that fails, memory that is out: remains
 *
 * and for what remains the error says that Redis has committed.
 *
 * Interrupts are held from before the first intent is placed.  Until the decision our own
 * waits serve them all the same (base/interrupt.h), but what would be FATAL is an ERROR
 * there: so what was placed is taken back, and PostgreSQL ends the session when the
 * transaction is over.  What comes between two waits is served by the next one.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/async.h"
#include "commands/tablecmds.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/fmgroids.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "txn/local.h"
#include "txn/txn_int.h"

/* Of the queue of notifications: what one transaction adds hardly fills the rest. */
#define QUEUE_FULL	0.9

static bool under_way = false;	/* a commit, which holds interrupts once */
static uint32 holds_before;
static ErrorContextCallback context;
static bool context_pushed = false;

/*
 * ON COMMIT DROP may take columns of our tables along, and a foreign key between
 * temporary tables may refuse ON COMMIT DELETE ROWS.  Core does it once more: what was
 * dropped is passed over, what is empty stays empty.
 */
void
mosql_local_act(void)
{
	if (MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE)
		PreCommit_on_commit_actions();
}

/*
 * Has the transaction executed NOTIFY (or LISTEN, which then waits for a lock that it
 * does not need)?  Core tells only by refusing to PREPARE it: a look at two pointers,
 * which has no other effect.
 */
static bool
has_notifications(void)
{
	MemoryContext caller = CurrentMemoryContext;
	uint32		interrupts = InterruptHoldoffCount;
	volatile bool any = false;

	PG_TRY();
	{
		AtPrepare_Notify();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		if (geterrcode() != ERRCODE_FEATURE_NOT_SUPPORTED)
			PG_RE_THROW();
		FlushErrorState();
		InterruptHoldoffCount = interrupts;
		any = true;
	}
	PG_END_TRY();
	return any;
}

/*
 * The lock under which notifications are queued, until the transaction ends: with
 * lock_timeout, deadlocks and cancels now, not after the decision.  Who has it is alone
 * in adding to the queue, so that the room that is there stays.
 *
 * Race -- T1 has the lock, and waits for T2's intents; T2 waits for the lock: nobody would
 * see that deadlock.  So it is taken before anything is placed in Redis, and let go of before a lock of a row is
 * waited for: who waits for it is in nobody's way there, and who has it waits for nobody of this server who wants it.
 */
static void
lock_notifications(void)
{
	(void) GetCurrentTransactionId();
	LockSharedObject(DatabaseRelationId, InvalidOid, 0, AccessExclusiveLock);
	if (DatumGetFloat8(OidFunctionCall0(F_PG_NOTIFICATION_QUEUE_USAGE)) > QUEUE_FULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many notifications in the NOTIFY queue")));
}

bool
mosql_local_lock(bool wait)
{
	if (!has_notifications())
		return true;
	if (wait)
		lock_notifications();
	return wait;
}

void
mosql_local_unlock(void)
{
	if (has_notifications())
		UnlockSharedObject(DatabaseRelationId, InvalidOid, 0, AccessExclusiveLock);
}

/*
 * The check of SERIALIZABLE comes last.  It marks the transaction as prepared, as
 * PREPARE TRANSACTION does: from then on others have to give way, and none dooms it.  So
 * the second check, core's, finds nothing that the first did not find or prevent.
 */
void
mosql_local_check(void)
{
	PreCommit_CheckForSerializationFailure();
}

/* ---- interrupts ---- */

/* libpq/libpq.h has it, which needs headers of GSSAPI. */
extern bool pq_check_connection(void);

/* As ProcessInterrupts() would find out in a moment, which then is FATAL. */
static bool
client_is_lost(void)
{
	if (CheckClientConnectionPending && client_connection_check_interval > 0 &&
		!pq_check_connection())
		ClientConnectionLost = true;
	return ClientConnectionLost;
}

/*
 * An ERROR in place of what is FATAL in ProcessInterrupts().  (It has one more, a conflict
 * with recovery, but a standby commits nothing here.)  The reason stays pending: PostgreSQL
 * ends the session with it as soon as the transaction is over.
 */
static void
end_with_error(void)
{
	if (ProcDiePending)
		ereport(ERROR,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("terminating connection due to administrator command")));
	if (client_is_lost())
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("connection to client lost")));
#if PG_VERSION_NUM >= 170000
	if (TransactionTimeoutPending && TransactionTimeout > 0)
		ereport(ERROR,
				(errcode(ERRCODE_TRANSACTION_TIMEOUT),
				 errmsg("terminating connection due to transaction timeout")));
#endif
}

/*
 * In our waits.  Whoever holds interrupts besides the commit has his reason.
 *
 * Race -- a signal arrives between our look and PostgreSQL's: the process ends on the spot,
 * and what it has placed is in the way until mosql_fdw.intent_timeout, as if it had crashed.
 */
static void
serve(void)
{
	if (!InterruptPending || InterruptHoldoffCount > 1 || CritSectionCount > 0 || proc_exit_inprogress)
		return;
	end_with_error();
	RESUME_INTERRUPTS();
	CHECK_FOR_INTERRUPTS();
	HOLD_INTERRUPTS();
}

void
mosql_local_begin(void)
{
	Assert(!under_way);
	holds_before = InterruptHoldoffCount;
	HOLD_INTERRUPTS();
	under_way = true;
	mosql_serve_interrupts = serve;
}

bool
mosql_local_resume_timeout(void)
{
	int64		ran_ms = (GetCurrentTimestamp() - GetCurrentStatementStartTimestamp()) / 1000;

	if (StatementTimeout <= 0 || get_timeout_active(STATEMENT_TIMEOUT))
		return false;
	enable_timeout_after(STATEMENT_TIMEOUT, Max(StatementTimeout - ran_ms, 1));
	return true;
}

void
mosql_local_end_timeout(void)
{
	disable_timeout(STATEMENT_TIMEOUT, false);
}

void
mosql_local_hold(void)
{
	Assert(under_way && mosql_serve_interrupts != NULL);
	serve();
	mosql_serve_interrupts = NULL;
}

void
mosql_local_resume(void)
{
	Assert(under_way && mosql_serve_interrupts == NULL);
	mosql_serve_interrupts = serve;
}

void
mosql_local_catch(void)
{
	Assert(under_way);
	mosql_serve_interrupts = NULL;
	InterruptHoldoffCount = holds_before + 1;
}

void
mosql_local_leave(void)
{
	Assert(under_way);
	mosql_serve_interrupts = NULL;
	under_way = false;
	RESUME_INTERRUPTS();
}

/* ---- errors after the decision ---- */

/*
 * Called by ereport().  arg not NULL: all that was decided is applied, so the client is told of this error.  (Before,
 * errors are our own, and caught.  Nobody else is to wait for one that ends in a PANIC.)
 */
static void
say_what_is_committed(void *arg)
{
	int			category = ERRCODE_TO_CATEGORY(geterrcode());
	dlist_iter	iter;

	if (category == ERRCODE_SUCCESSFUL_COMPLETION || category == ERRCODE_WARNING)
		return;
	(void) errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN);
	dlist_foreach(iter, &mosql_sessions)
	{
		const MosqlSession *session = dlist_container(MosqlSession, node, iter.cur);

		if (session->txn != NULL && session->txn->decided)
		{
			errcontext("COMMIT in PostgreSQL, after it was done in namespace \"%s\"",
					   session->config.ns);
			if (arg != NULL && CritSectionCount == 0)
				mosql_txn_wait_for_drops(session->txn); /* this tells so, and what they have dropped stays (rule 39) */
		}
	}
	(void) errhint("What was written to tables of mosql_fdw is committed; what was written to tables of this PostgreSQL server is not. mosql_fdw_gc() lists tables that differ.");
}

/*
 * transaction_timeout would end the connection as soon as interrupts are served again,
 * before the client is told.  (Core switches it off, too, but somewhat later.)
 */
static void
stop_transaction_timeout(void)
{
#if PG_VERSION_NUM >= 170000
	if (TransactionTimeout > 0)
		disable_timeout(TRANSACTION_TIMEOUT, false);
	TransactionTimeoutPending = false;
#endif
}

void
mosql_local_decided(void)
{
	Assert(under_way && mosql_serve_interrupts == NULL && !context_pushed);
	stop_transaction_timeout();
	context.callback = say_what_is_committed;
	context.arg = NULL;
	context.previous = error_context_stack;
	error_context_stack = &context;
	context_pushed = true;
}

/*
 * Others may have their turn before PostgreSQL's commit record, postgres_fdw for one, and
 * wait for as long as their servers like: who is cancelled there gets the error that says
 * what is committed.  But what has arrived so far is not meant for them, and waits for the
 * end; and PostgreSQL itself serves nothing between here and there, but in ON COMMIT actions.
 */
void
mosql_local_others(void)
{
	Assert(under_way && mosql_serve_interrupts == NULL);
	context.arg = &context;
	if (!InterruptPending && !(MyXactFlags & XACT_FLAGS_ACCESSEDTEMPNAMESPACE))
		mosql_local_leave();
}

/* Whoever caught an error has reset the stack of contexts. */
void
mosql_local_ends(void)
{
	if (context_pushed && error_context_stack == &context)
		error_context_stack = context.previous;
	context_pushed = false;
}

/*
 * An error has reset the count of holds.  Core holds interrupts itself, once: so more than
 * one hold includes ours.
 */
void
mosql_local_end(bool committed)
{
	Assert(!context_pushed);
	if (under_way && committed && InterruptHoldoffCount > 1)
		RESUME_INTERRUPTS();
	mosql_serve_interrupts = NULL;
	under_way = false;
}
