/*
 * together.c: one PostgreSQL transaction, several sessions: all or none.
 *
 * Layer: txn.  A transaction that has used several namespaces has a session in each,
 * with a clock of its own.  All are prepared before the first decides (rule 26):
 *
 *      PostgreSQL's own locks; interrupts are served by our waits alone (local.c)
 *      prepare each ---- conflict ----> take all back, 40001
 *        \--- a lock to wait for -----> take all back, wait, begin again
 *      PostgreSQL's own checks ---- fail ----> take all back, that error
 *      foresee each but the first ---- would be refused ----> prepare that one again
 *      -------------------------------------------------- interrupts wait from here
 *      decide the first ---- refused ----> prepare that one again
 *      ================================================== it is committed from here
 *      decide the others ---- refused ----> prepare that one again, decide;
 *                                           a conflict: 08007, which names both
 *      apply each
 *
 * Race -- a session was foreseen, and is refused after the first has decided, a moment
 * later: a waiter has aborted it, its lease is over, a definition has changed.  Unless it
 * was pushed aside by somebody who then wrote what this one depends on, it is prepared
 * again and decides.  What remains is told honestly: part of it is committed, and nobody
 * should try again.
 *
 * With one session it is prepare, check, decide, apply: no round trip is added.  What is on the clock's server is
 * prepared and applied by the step that decides (one_step.c).  An INSERT that is the whole transaction is
 * tried first without having looked up its keys.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/proc.h"

#include "txn/local.h"
#include "txn/txn_int.h"
#include "txn/xact_int.h"

MosqlCommitLocks mosql_txn_commit_locks_hook = NULL;

typedef struct Together
{
	int			n;
	MosqlCommit **commits;
} Together;

/* Is something written, in this session or, of PostgreSQL's own, with a transaction id? */
static bool
writes_elsewhere(const MosqlSession *session)
{
	dlist_iter	iter;

	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return true;
	dlist_foreach(iter, &mosql_sessions)
	{
		const MosqlSession *other = dlist_container(MosqlSession, node, iter.cur);

		if (other != session && mosql_txn_has_written(other))
			return true;
	}
	return false;
}

/*
 * Definitions first: trees made under a lease that has ended cannot be saved by another
 * attempt, so they must not come second.
 */
static void
add_commit(Together *all, MosqlCommit *commit)
{
	int			at = all->n++;

	for (; commit->txn->changes_schema && at > 0; at--)
		all->commits[at] = all->commits[at - 1];
	all->commits[at] = commit;
}

static void
collect_all(Together *all)
{
	dlist_iter	iter;
	int			max = 0;

	dlist_foreach(iter, &mosql_sessions)
		max++;
	all->commits = palloc(max * sizeof(MosqlCommit *));
	dlist_foreach(iter, &mosql_sessions)
	{
		MosqlSession *session = dlist_container(MosqlSession, node, iter.cur);
		MosqlCommit *commit;

		if (session->txn == NULL)
			continue;
		commit = mosql_commit_begin(session->txn, writes_elsewhere(session));
		if (commit != NULL)
			add_commit(all, commit);
	}
	for (int i = 0; i < all->n; i++)
		all->commits[i]->several = all->n > 1;
}

/* Is one to be prepared before another?  By what all servers know it by. */
static bool
comes_before(const MosqlCommit *a, const MosqlCommit *b)
{
	int			c = strcmp(a->session->config.ns, b->session->config.ns);

	return c < 0 || (c == 0 && strcmp(a->session->config.redis.nodes, b->session->config.redis.nodes) < 0);
}

/*
 * In an order that all transactions share, whatever the order of the decisions: who waits
 * in one namespace for somebody else holds something in earlier ones only (rule 25).  False: a lock has to be waited for.
 */
static bool
prepare_all(Together *all)
{
	for (;;)
	{
		MosqlCommit *next = NULL;

		for (int i = 0; i < all->n; i++)
			if (all->commits[i]->state == MOSQL_COMMIT_IDLE &&
				(next == NULL || comes_before(all->commits[i], next)))
				next = all->commits[i];
		if (next == NULL)
			return true;
		if (!mosql_commit_prepare(next))
			return false;
	}
}

/* PostgreSQL's own, which are waited for with nothing in place in Redis. */
static void
take_local_locks(bool taken)
{
	if (mosql_txn_commit_locks_hook != NULL)
		mosql_txn_commit_locks_hook(taken);
	if (taken)
		(void) mosql_local_lock(true);
	else
		mosql_local_unlock();
}

/*
 * Who waits for a lock holds nothing (rule 33), in no namespace, nor what he has locked of PostgreSQL's own to commit: who holds
 * that lock may wait for it.
 */
static void
wait_for_lock(Together *all)
{
	MosqlCommit *waiting = NULL;

	for (int i = 0; i < all->n; i++)
		if (all->commits[i]->state == MOSQL_COMMIT_PREPARED)
			mosql_commit_put_off(all->commits[i]);
		else if (all->commits[i]->waits)
			waiting = all->commits[i];
	take_local_locks(false);
	mosql_commit_wait(waiting);
}

/* False: one has to be prepared again first. */
static bool
foresee_rest(Together *all)
{
	for (int i = 1; i < all->n; i++)
		if (!mosql_commit_foresee(all->commits[i]))
			return false;
	return true;
}

/* False: a lock had to be waited for, and nothing is in place. */
static bool
decide_first(Together *all)
{
	if (all->n == 1)
		mosql_commit_may_be_at_once(all->commits[0]);
	for (;;)
	{
		if (!prepare_all(all))
		{
			wait_for_lock(all);
			return false;
		}
		mosql_local_check();
		MOSQL_DEBUG_POINT("before-decide");
		if (!foresee_rest(all))
			continue;
		mosql_local_hold();
		if (mosql_commit_decide(all->commits[0]))
			return true;
		mosql_local_resume();
	}
}

/*
 * All of them have mosql_fdw.commit_timeout from now on to wait and retry in, and no more,
 * whatever refuses them, for nobody can interrupt that.
 */
static void
decide_rest(Together *all)
{
	MosqlBudget rest = mosql_budget_start(mosql_txn_commit_timeout_ms);

	for (int i = 1; i < all->n; i++)
	{
		mosql_commit_limit(all->commits[i], &rest);
		MOSQL_DEBUG_POINT("decided-some");
		while (!mosql_commit_decide(all->commits[i]))
			while (!mosql_commit_prepare(all->commits[i]))
				mosql_commit_wait(all->commits[i]);
	}
}

static void
apply_all(Together *all)
{
	for (int i = 0; i < all->n; i++)
		if (all->commits[i]->state == MOSQL_COMMIT_DECIDED)
			mosql_commit_end(all->commits[i]);
}

/* "it is so in namespace "a", "b"", of the commits in that state; appended. */
static void
name_all(StringInfo out, const Together *all, MosqlCommitState state, const char *what)
{
	const char *before = what;

	for (int i = 0; i < all->n; i++)
		if (all->commits[i]->state == state)
		{
			appendStringInfo(out, "%s\"%s\"", before, all->commits[i]->session->config.ns);
			before = ", ";
		}
}

/* Of several namespaces, or of one and this server's own tables, not all are committed. */
static void
report_half(Together *all, const ErrorData *error)
{
	StringInfoData fate;
	bool		decided = all->commits[0]->state == MOSQL_COMMIT_DECIDED;
	MosqlTxn  **txns = palloc(all->n * sizeof(MosqlTxn *));
	int			n = 0;

	initStringInfo(&fate);
	name_all(&fate, all, MOSQL_COMMIT_DECIDED, "It is committed in namespace ");
	name_all(&fate, all, MOSQL_COMMIT_IDLE, decided ? ", and not in namespace " : "It is not committed in namespace ");
	name_all(&fate, all, MOSQL_COMMIT_UNKNOWN, fate.len > 0 ? "; it is not known in namespace " : "It is not known in namespace ");
	for (int i = 0; i < all->n; i++)
		if (all->commits[i]->state == MOSQL_COMMIT_DECIDED)
			txns[n++] = all->commits[i]->txn;
	apply_all(all);
	for (int i = 0; i < n; i++)
		mosql_txn_wait_for_drops(txns[i]);	/* what they have dropped stays, and this tells of it */
	ereport(ERROR,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 errmsg(decided ? "the transaction is committed in part" : "the transaction may be committed in part"),
			 errdetail("%s: %s. %s", fate.data, error->message, error->detail != NULL ? error->detail : ""),
			 errhint("Do not run it again as a whole. What it has written to tables of this PostgreSQL server is rolled back.%s%s",
					 error->sqlerrcode == ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN && error->hint != NULL ? " " : "",
					 error->sqlerrcode == ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN && error->hint != NULL ? error->hint : "")));
}

/* In the error's handling: nothing stays prepared.  Does not return. */
static void
fail(Together *all, MemoryContext cxt)
{
	bool		half = false;
	ErrorData  *error;

	mosql_local_catch();
	MemoryContextSwitchTo(cxt);
	error = CopyErrorData();
	FlushErrorState();
	for (int i = 0; i < all->n; i++)
		if (all->commits[i]->state == MOSQL_COMMIT_PREPARED)
			mosql_commit_take_back(all->commits[i]);
	for (int i = 0; i < all->n; i++)
		half |= all->commits[i]->state == MOSQL_COMMIT_DECIDED ||
			(all->commits[i]->state == MOSQL_COMMIT_UNKNOWN &&
			 (all->n > 1 || TransactionIdIsValid(GetTopTransactionIdIfAny())));
	for (int i = 0; i < all->n; i++)
		if (all->commits[i]->state == MOSQL_COMMIT_UNKNOWN)
			mosql_txn_wait_for_drops(all->commits[i]->txn);	/* perhaps it is committed, and this tells so */
	if (half)
		report_half(all, error);
	mosql_local_leave();
	ReThrowError(error);
}

/*
 * Keys of an INSERT that is the whole transaction were not looked up (mosql_txn_settle_later()): the commit
 * compares that they are free, as it does in any case, so nothing rests on the look-up but
 * waiting, and 23505 in place of 40001.  False: there are no such keys, or something is in the way; nothing is
 * in place then.  What notifications want locked may not be held while somebody waits for a row.
 */
static bool
decide_unchecked(Together *all, MemoryContext cxt)
{
	MosqlCommit *commit = all->commits[0];
	volatile bool decided = false;

	if (all->n != 1 || commit->txn->settle == NULL || !mosql_local_lock(false))
		return false;
	mosql_commit_may_be_at_once(commit);
	mosql_local_begin();
	PG_TRY();
	{
		while (!decided && mosql_commit_try(commit))
		{
			mosql_local_check();
			mosql_local_hold();
			decided = mosql_commit_decide(commit);
			if (!decided)
				mosql_local_resume();
			if (!commit->goes_on)
				break;
		}
	}
	PG_CATCH();
	{
		fail(all, cxt);
	}
	PG_END_TRY();
	if (!decided)
		mosql_local_leave();
	return decided;
}

/* Look the keys up, and lock them, as any INSERT; then there is something else to commit. */
static void
settle(Together *all)
{
	dlist_iter	iter;
	bool		any = false,
				timed;

	for (int i = 0; i < all->n; i++)
		any |= all->commits[i]->txn->settle != NULL;
	if (!any)
		return;
	for (int i = 0; i < all->n; i++)
		mosql_commit_drop(all->commits[i]);
	all->n = 0;
	timed = mosql_local_resume_timeout();
	dlist_foreach(iter, &mosql_sessions)
	{
		MosqlTxn   *txn = dlist_container(MosqlSession, node, iter.cur)->txn;

		if (txn != NULL)
			mosql_txn_settle_inserts(txn);
	}
	if (timed)
		mosql_local_end_timeout();
	collect_all(all);
}

/* False: a lock had to be waited for, and all is to begin again. */
static bool
try_to_decide(Together *all, MemoryContext cxt)
{
	volatile bool decided = false;

	take_local_locks(true);
	for (int i = 0; i < all->n; i++)
		mosql_commit_take_time(all->commits[i]);
	mosql_local_begin();
	PG_TRY();
	{
		decided = decide_first(all);
		if (decided)
			decide_rest(all);
	}
	PG_CATCH();
	{
		fail(all, cxt);
	}
	PG_END_TRY();
	if (!decided)
		mosql_local_leave();
	return decided;
}

static void
decide(Together *all, MemoryContext cxt)
{
	while (!try_to_decide(all, cxt))
		;
}

void
mosql_txn_commit_all(void)
{
	MemoryContext cxt = CurrentMemoryContext;
	Together	all = {0};

	collect_all(&all);
	if (all.n == 0)
		return;
	if (!decide_unchecked(&all, cxt))
	{
		settle(&all);
		decide(&all, cxt);
	}
	mosql_local_decided();
	MOSQL_DEBUG_POINT("after-decide");
	apply_all(&all);
	mosql_local_others();
}
