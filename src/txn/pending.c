/*
 * pending.c: committed transactions whose applies are not all acknowledged.
 *
 * Layer: txn.  What apply has not seen done is redone later the way any helper would, when the session begins another
 * transaction, idles, or ends; only then is the record dropped (rule 5).  Transactions whose outcome the client was told to be
 * unknown are settled first.
 */
#include "postgres.h"

#include "storage/ipc.h"

#include "step/clock_keep.h"
#include "txn/recover.h"

static size_t
copied_size(MosqlBytes b)
{
	return b.len + 1;
}

static MosqlBytes
copy_to(char **at, MosqlBytes b)
{
	MosqlBytes	copy = MOSQL_ABSENT;

	if (b.data != NULL)
	{
		memcpy(*at, b.data, b.len);
		copy = mosql_bytes(*at, b.len);
		*at += copied_size(b);
	}
	return copy;
}

/* One allocation: the struct, its arrays, the bytes. */
MosqlPending *
mosql_pending_make(MosqlCommit *commit)
{
	MosqlSession *session = commit->session;
	MosqlPending *pending;
	size_t		size = sizeof(MosqlPending);
	int			nkeys = 0;
	char	   *at;

	for (int p = 0; p < commit->nparts; p++)
		for (int i = 0; i < commit->parts[p].n; i++)
			if (mosql_item_leaves_intent(&commit->parts[p].items[i]))
			{
				nkeys++;
				size += copied_size(commit->parts[p].items[i].key);
			}
	for (int m = 0; m < commit->nmarks; m++)
		size += copied_size(commit->marks[m].low) + copied_size(commit->marks[m].high);
	size += nkeys * (sizeof(uint64) + sizeof(MosqlBytes));
	size += commit->nmarks * (sizeof(uint64) + 2 * sizeof(MosqlBytes));
	size += mosql_txn_dropped(commit->txn, NULL) * sizeof(uint64);

	pending = MemoryContextAllocHuge(session->cxt, size);
	memset(pending, 0, sizeof(*pending));
	pending->session = session;
	pending->tx = commit->tx;
	at = (char *) (pending + 1);
	pending->keys = (MosqlBytes *) at;
	at += nkeys * sizeof(MosqlBytes);
	pending->mark_low = (MosqlBytes *) at;
	at += commit->nmarks * sizeof(MosqlBytes);
	pending->mark_high = (MosqlBytes *) at;
	at += commit->nmarks * sizeof(MosqlBytes);
	pending->roots = (uint64 *) at;
	at += nkeys * sizeof(uint64);
	pending->mark_roots = (uint64 *) at;
	at += commit->nmarks * sizeof(uint64);
	pending->dropped = (uint64 *) at;
	pending->ndropped = mosql_txn_dropped(commit->txn, pending->dropped);
	at += pending->ndropped * sizeof(uint64);

	for (int p = 0; p < commit->nparts; p++)
		for (int i = 0; i < commit->parts[p].n; i++)
			if (mosql_item_leaves_intent(&commit->parts[p].items[i]))
			{
				pending->roots[pending->nkeys] = mosql_btree_root(commit->parts[p].tree);
				pending->keys[pending->nkeys++] = copy_to(&at, commit->parts[p].items[i].key);
			}
	for (int m = 0; m < commit->nmarks; m++)
	{
		pending->mark_roots[m] = mosql_btree_root(commit->marks[m].tree);
		pending->mark_low[m] = copy_to(&at, commit->marks[m].low);
		pending->mark_high[m] = copy_to(&at, commit->marks[m].high);
	}
	pending->nmarks = commit->nmarks;
	return pending;
}

/* So long after a commit its session, if it idles, looks whether all was applied; and again, if not, as long after that. */
#ifndef PENDING_PAUSE_US
#define PENDING_PAUSE_US	1000000
#endif

void
mosql_pending_add(MosqlPending *pending)
{
	MosqlSession *session = pending->session;

	dlist_push_tail(&session->pending, &pending->node);
	session->pending_due_us = mosql_now_us() + PENDING_PAUSE_US;
}

void
mosql_pending_answered(void *arg, MosqlStepStatus status, int nfields)
{
	MosqlPending *pending = arg;

	(void) nfields;
	Assert(pending->outstanding > 0);
	pending->outstanding--;
	if (status != MOSQL_STEP_DONE)
		pending->failed = true;
}

void
mosql_pending_unknown(MosqlCommit *commit)
{
	MosqlPending *pending = commit->pending;

	pending->unknown = pending->failed = true;
	mosql_pending_add(pending);
	commit->pending = NULL;
}

bool
mosql_pending_any(MosqlSession *session)
{
	return !dlist_is_empty(&session->pending);
}

/* What is to be done about a transaction's keys or marks. */
typedef struct PendingWork
{
	MosqlSession *session;
	MosqlPending *pending;
	const MosqlSnapshotList *list;	/* only to apply */
	int			i;

	/* --- only to remove: of this tree, nothing is left from the key at hand to the end --- */
	uint64		cleared;
	MosqlBytes	cleared_to;
} PendingWork;

/* These three are MosqlTreeWork.  Each moves work->i to the last that it has done. */
static void
apply_keys(void *arg)
{
	PendingWork *work = arg;
	MosqlPending *pending = work->pending;
	uint64		root = pending->roots[work->i];
	int			n = 1;

	while (n < MOSQL_ROUND_MAX_ITEMS && work->i + n < pending->nkeys && pending->roots[work->i + n] == root)
		n++;
	work->i += mosql_recover_apply_keys(work->session, mosql_session_tree(work->session, root),
										pending->keys + work->i, n, pending->tx, pending->ts,
										work->list) - 1;
	pending->nredone = work->i + 1;
}

static void
remove_key(void *arg)
{
	PendingWork *work = arg;
	const MosqlPending *pending = work->pending;
	uint64		root = pending->roots[work->i];
	MosqlBytes	key = pending->keys[work->i];

	/* keys ascend: those of a leaf went with its first */
	if (work->cleared == root && (work->cleared_to.data == NULL ||
								  mosql_bytes_compare(key, work->cleared_to) < 0))
		return;
	work->cleared_to = mosql_recover_remove(work->session, mosql_session_tree(work->session, root),
											key, pending->tx);
	work->cleared = root;
}

static void
remove_mark(void *arg)
{
	const PendingWork *work = arg;
	const MosqlPending *pending = work->pending;

	mosql_recover_unmark(work->session,
						 mosql_session_tree(work->session, pending->mark_roots[work->i]),
						 pending->mark_low[work->i], pending->mark_high[work->i], pending->tx);
}

/*
 * One after the other.  Where a table was dropped or truncated since there is
 * nothing to do, but the others have their turn.
 */
static void
work_through(PendingWork work, int first, const uint64 *roots, int n, MosqlTreeWork step)
{
	uint64		gone = 0;

	for (work.i = first; work.i < n; work.i++)
		if (roots[work.i] != gone && !mosql_session_try_tree(step, &work))
			gone = roots[work.i];
}

/*
 * Without copies the clock may have forgotten the decision: then it is not made any more, and
 * others may have aborted what was prepared.
 */
static bool
is_forgotten(MosqlSession *session, const MosqlPending *pending)
{
	MosqlRecord record;
	MosqlSnapshotList list;

	if (session->stepper.durable)
		return false;
	mosql_clock_status(&session->stepper, &pending->tx, 1, &record, &list);
	return record.state != MOSQL_RECORD_COMMITTED;
}

/* Redo a transaction's applies as a helper; may throw, and goes on there the next time. */
static void
redo(MosqlSession *session, MosqlPending *pending)
{
	MosqlSnapshotList list;
	PendingWork work = {session, pending, &list};
	uint64		schema;

	if (is_forgotten(session, pending))
	{
		pending->failed = false;
		return;
	}
	if (!session->stepper.durable)
		pending->nredone = 0;	/* that may be forgotten as well */
	mosql_clock_snapshots(&session->stepper, &list, &schema);
	work_through(work, pending->nredone, pending->roots, pending->nkeys, apply_keys);
	work_through(work, 0, pending->mark_roots, pending->nmarks, remove_mark);
	pending->failed = false;
}

/*
 * Settle a transaction whose outcome was reported as unknown, and finish it one
 * way or the other; may throw.  If the lease is over, only others can tell
 * (from the record, for which maintenance keeps the outcome).  What it dropped goes on the list: its record
 * stays for as long as the session, and nobody else would look for these trees.
 */
static void
settle_unknown(MosqlSession *session, MosqlPending *pending)
{
	MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);
	MosqlRecord record;
	MosqlSnapshotList list;
	PendingWork work = {session, pending, &list};

	mosql_clock_settle(&session->stepper, pending->tx, &record, &list, &budget);
	if (record.state == MOSQL_RECORD_COMMITTED)
	{
		pending->ts = record.ts;
		mosql_clock_put_garbage(&session->stepper, pending->dropped, pending->ndropped);
		redo(session, pending);
	}
	else if (record.state == MOSQL_RECORD_ABORTED)
	{
		work_through(work, 0, pending->roots, pending->nkeys, remove_key);
		work_through(work, 0, pending->mark_roots, pending->nmarks, remove_mark);
	}
}

typedef struct Redo
{
	MosqlSession *session;
	MosqlPending *pending;
} Redo;

static void
redo_pending(void *arg)
{
	const Redo *work = arg;

	if (work->pending->unknown)
		settle_unknown(work->session, work->pending);
	else
		redo(work->session, work->pending);
}

/* A redo that failed waits for so many times its duration, at most for REDO_PAUSE_MAX_US. */
#define REDO_PAUSE_FACTOR	10
#define REDO_PAUSE_MAX_US	30000000

/*
 * A failure now is no failure of what the caller is doing: try again later, and not at once,
 * for each try may wait for a server that does not answer.
 */
static bool
try_redo(MosqlSession *session, MosqlPending *pending)
{
	int64		start_us = mosql_now_us();
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext cxt = AllocSetContextCreate(caller, "mosql redo", ALLOCSET_DEFAULT_SIZES);
	uint32		held = InterruptHoldoffCount;
	volatile bool ok = true;

	PG_TRY();
	{
		Redo		work = {session, pending};

		MemoryContextSwitchTo(cxt);
		mosql_session_do_unbroken(session, mosql_redis_breaks(session->redis), redo_pending, &work);
		MemoryContextSwitchTo(caller);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		if (geterrcode() == ERRCODE_QUERY_CANCELED || geterrcode() == ERRCODE_ADMIN_SHUTDOWN)
			PG_RE_THROW();
		ok = false;
		FlushErrorState();
		InterruptHoldoffCount = held;
	}
	PG_END_TRY();
	MemoryContextDelete(cxt);
	if (!ok)
	{
		int64		now = mosql_now_us();

		pending->not_before_us = now + Min(REDO_PAUSE_FACTOR * (now - start_us), REDO_PAUSE_MAX_US);
	}
	return ok;
}

static void
drop_record(MosqlSession *session, MosqlTxid tx)
{
	if (tx.session == session->sid)
		mosql_session_add_drop(session, tx.n);
	else
		mosql_session_drop_records(session, tx.session, &tx.n, 1);
}

/*
 * While the process exits nothing is redone: an ERROR would be FATAL then.
 */
void
mosql_pending_finish(MosqlSession *session)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &session->pending)
	{
		MosqlPending *pending = dlist_container(MosqlPending, node, iter.cur);

		if (pending->outstanding > 0)
			continue;
		if (pending->failed &&
			(proc_exit_inprogress || mosql_now_us() < pending->not_before_us || !try_redo(session, pending)))
			continue;
		/* rule 5: no intent of it is left */
		Assert(pending->outstanding == 0 && (pending->unknown || !pending->failed));
		/* rule 40: nor a tree that nothing else names */
		if (session->ngarbage > 0 && !pending->unknown)
			continue;
		/* of an unknown one the record stays with the session: somebody may ask */
		if (!pending->unknown)
			drop_record(session, pending->tx);
		dlist_delete(&pending->node);
		pfree(pending);
	}
	if (session->ndrops > 64)
		mosql_session_drop(session);
}

/* ---- while the session idles ---- */

/* Where a server is silent it takes no longer. */
#define CATCH_UP_MS		1000

static void
drain_and_finish(void *arg)
{
	MosqlSession *session = arg;

	if (mosql_redis_drain(session->redis, CATCH_UP_MS))
		mosql_pending_finish(session);
}

void
mosql_pending_catch_up(MosqlSession *session)
{
	MemoryContext cxt = AllocSetContextCreate(session->cxt, "mosql catch up", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(cxt);
	int64		start_us = mosql_now_us();
	int64		before = mosql_redis_hurry(session->redis, start_us + CATCH_UP_MS * 1000);

	(void) mosql_do_quietly(drain_and_finish, session);
	(void) mosql_redis_hurry(session->redis, before);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(cxt);
	session->pending_due_us = mosql_now_us() +
		Max(PENDING_PAUSE_US, REDO_PAUSE_FACTOR * (mosql_now_us() - start_us));
}

/*
 * What the step that decided has done itself waits for nothing.  A session that has closed its connections has
 * tried, and leaves the rest to its next transaction, and to who meets it.
 */
int64
mosql_pending_due(MosqlSession *session)
{
	dlist_iter	iter;

	if (!mosql_redis_is_connected(session->redis))
		return 0;
	dlist_foreach(iter, &session->pending)
	{
		const MosqlPending *pending = dlist_container(MosqlPending, node, iter.cur);

		if (pending->outstanding > 0 || pending->failed)
			return session->pending_due_us;
	}
	return 0;
}
