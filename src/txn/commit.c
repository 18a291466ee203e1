/*
 * commit.c: the drive of one session's commit: prepare, decide, apply; again if
 * need be.
 *
 * Layer: txn.  Runs in the pre-commit callback; together.c drives what several
 * sessions and PostgreSQL itself have to commit.  Two round trips when nothing
 * is in the way: prepare (all leaves in parallel) and decide; apply is sent and
 * not waited for.  What is on the clock's server is left to decide, which does all three of it (one_step.c).
 *
 *      attempt:  new transaction id
 *                prepare ---- conflict ----> release, 40001
 *                   |   \---- busy --------> release, wait, next attempt (for a lock: all sessions, together.c)
 *                   |    \--- lost --------> release, next attempt
 *                decide ----- aborted -----> release, next attempt
 *                   |   \---- lease -------> release, new session, next attempt
 *                   |    \--- schema ------> release, check, next attempt or 40001
 *                   |     |--- unknown -----> 08007
 *                   |     \-- not at once -> prepare the rest
 *                apply
 *
 * An attempt after "busy" or "aborted" is no weaker than the first: every
 * expectation is compared again.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/timestamp.h"

#include "step/clock_keep.h"
#include "txn/leaf_step.h"
#include "txn/local.h"
#include "txn/lock_int.h"
#include "txn/recover.h"
#include "txn/xact_int.h"

int			mosql_txn_commit_timeout_ms = 10000;
MosqlSchemaCheck mosql_txn_schema_check = NULL;
MosqlSchemaChanged mosql_txn_schema_changed = NULL;

/* See txn_int.h. */
void
mosql_commit_conflict(const MosqlSession *session, const char *detail)
{
	mosql_stats.conflicts++;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errdetail("%s", detail),
			 errhint("The transaction might succeed if retried.")));
}

static void
report_kept_busy(const MosqlSession *session)
{
	mosql_commit_conflict(session, "Other transactions kept a row of this one busy for longer than mosql_fdw.commit_timeout.");
}

/* ---- room for new rows ---- */

/*
 * So many rows of a tree a commit writes, at least, that writes packed leaves anew: while it does, it keeps others away from rows next to
 * those, which a small commit, of which there are many, is not to do.
 */
#ifndef REWRITE_MIN_WRITES
#define REWRITE_MIN_WRITES	1000
#endif

/*
 * May packed leaves of the tree be written anew by the commit?  Not if it looks at anything there, for that would be in a leaf
 * that is loading, or not, according to what else is in the leaf.
 */
static bool
may_rewrite(const MosqlParticipant *part)
{
	if (mosql_btree_loads(part->tree) == MOSQL_COMPRESSION_NONE || part->nranges > 0 || part->n < REWRITE_MIN_WRITES)
		return false;
	for (int i = 0; i < part->n; i++)
		if (part->items[i].kind != MOSQL_ITEM_WRITE)
			return false;
	return true;
}

/*
 * In place of the new keys (wanted, in an array with room for all): all that a participant writes, for what is deleted in a leaf that is
 * written anew gives room.
 */
static void
add_written(MosqlCommit *commit, const MosqlParticipant *part, MosqlTreeKeys *wanted)
{
	MosqlBytes *keys = unconstify(MosqlBytes *, wanted->keys);
	MosqlKeyUse *uses = MemoryContextAllocHuge(commit->cxt, part->n * sizeof(MosqlKeyUse));
	int8	   *growth = MemoryContextAllocHuge(commit->cxt, part->n);

	for (int i = 0; i < part->n; i++)
	{
		const MosqlItem *item = &part->items[i];

		keys[i] = item->key;
		uses[i] = mosql_item_use(item) | (mosql_item_may_be_by_leaf(item) ? MOSQL_KEY_REWRITES : 0);
		growth[i] = item->change->kind == MOSQL_CHANGE_DELETE ? -1 : item->base == MOSQL_BASE_ABSENT;
	}
	wanted->n = part->n;
	wanted->uses = uses;
	wanted->growth = growth;
}

/* The keys of a participant's new rows, and how long these are on average. */
static MosqlTreeKeys
new_keys(MosqlCommit *commit, const MosqlParticipant *part)
{
	MosqlBytes *keys = NULL;
	MosqlKeyUse use = MOSQL_KEY_NEW_FIELD;
	size_t		bytes = 0;
	int			n = 0;

	for (int i = 0; i < part->n; i++)
	{
		const MosqlItem *item = &part->items[i];

		if (item->kind != MOSQL_ITEM_WRITE || item->base != MOSQL_BASE_ABSENT)
			continue;
		if (!item->change->entry->of_row)
			use = MOSQL_KEY_FIELD;
		if (keys == NULL)
			keys = MemoryContextAllocHuge(commit->cxt, part->n * sizeof(MosqlBytes));
		keys[n++] = item->key;
		bytes += item->change->columns.len;
	}
	return (MosqlTreeKeys) {part->tree, keys, n, Min(bytes / Max(n, 1) + 1, MOSQL_ROW_MAX_BYTES), use};
}

/* From so many new rows of a tree, or bytes of them, on, leaves of them alone are filled with blocks (rule 46). */
#ifndef LOAD_MIN_ROWS
#define LOAD_MIN_ROWS	1000
#endif
#define LOAD_MIN_BYTES	(1024 * 1024)

/* The time for which others keep leaves that are written anew is not counted. */
static void
wait_for_leaf(MosqlCommit *commit, const MosqlBlocker *blocker)
{
	Assert(!commit->several);
	mosql_lock_wait_for_leaf(commit->session, blocker, mosql_lock_load_budget());
	commit->budget = mosql_budget_start(mosql_txn_commit_timeout_ms);
}

/*
 * Rows without room all go to one leaf.  So where it cannot be made before a load of somebody else is settled, that is waited for,
 * as long as for a row; who reserves has nothing in place, so that no circle goes through here.
 */
static void
make_room(MosqlCommit *commit, const MosqlTreeKeys *wanted, int n)
{
	MosqlBusyLeaf busy;

	commit->budget = mosql_budget_start(mosql_txn_commit_timeout_ms);
	while ((busy = mosql_btree_reserve(wanted, n)).tree != NULL)
	{
		MosqlBlocker blocker = {.tree = busy.tree,.key = busy.key,.tx = busy.loaded.loader,.loading = true,.anew = busy.loaded.over};

		mosql_stats.waits++;
		if (blocker.anew)
			wait_for_leaf(commit, &blocker);
		else if (!mosql_recover_wait(commit->session, &blocker, &commit->budget))
			report_kept_busy(commit->session);
	}
}

static void
reserve(MosqlCommit *commit)
{
	MosqlTreeKeys *wanted = palloc(commit->nparts * sizeof(MosqlTreeKeys) + 1);
	int			n = 0;

	for (int p = 0; p < commit->nparts; p++)
	{
		wanted[n] = new_keys(commit, &commit->parts[p]);
		if (wanted[n].n >= LOAD_MIN_ROWS || wanted[n].n * wanted[n].row_bytes >= LOAD_MIN_BYTES)
			commit->parts[p].loads = mosql_btree_loads(commit->parts[p].tree);
		commit->parts[p].rewrites = may_rewrite(&commit->parts[p]);
		if (wanted[n].n > 0 && commit->parts[p].rewrites)
			add_written(commit, &commit->parts[p], &wanted[n]);
		n += wanted[n].n > 0;
	}
	if (n > 1)
		mosql_btree_look_ahead(wanted, n);
	make_room(commit, wanted, n);
}

/* ---- attempts ---- */

/* A loser's pause: as long as it has run, doubled with each further loss; at most so long. */
#define LOSS_PAUSE_UNIT_US	10000
#define LOSS_PAUSE_MAX_US	200000
#define LOSSES_MAX			6

/*
 * Since when PostgreSQL's transaction runs, in units of 1/256 us: room for as many
 * attempts.  All sessions of it have the same age (rule 25).
 */
uint64
mosql_txn_age(void)
{
	return (uint64) Max(GetCurrentTransactionStartTimestamp(), 0) << MOSQL_TXN_AGE_SHIFT;
}

/*
 * Race -- the session was renewed after it took its locks: decide asks for the lease of the
 * new id, while whoever finds the old one dead takes the locks away, at any time.  So what was
 * only locked is compared and marked like what was read without a lock (rule 29).
 */
static bool
has_lost_its_locks(const MosqlCommit *commit)
{
	return commit->txn->owner.session != 0 && commit->txn->owner.session != commit->tx.session;
}

static void
start_attempt(MosqlCommit *commit)
{
	MemoryContextReset(commit->attempt_cxt);
	commit->tx = mosql_session_next_txid(commit->session, mosql_txn_age());
	commit->placed = commit->released = commit->stands = false;
	commit->blocker.tree = NULL;
	commit->blocker.strength = 0;
	commit->breaks = mosql_redis_breaks(commit->session->redis);
	commit->nmarks = commit->maxmarks = 0;
	commit->marks = NULL;
	commit->sent = NULL;
	commit->one_step = NULL;
	for (int p = 0; p < commit->nparts; p++)
	{
		MosqlParticipant *part = &commit->parts[p];

		for (int i = 0; i < part->n; i++)
		{
			part->items[i].done = part->items[i].here = part->items[i].sent = part->items[i].by_leaf = false;
			if (part->items[i].kind == MOSQL_ITEM_CHECK && part->items[i].strength > 0 &&
				has_lost_its_locks(commit))
				mosql_item_forget_lock(&part->items[i]);
		}
		for (int i = 0; i < part->nranges; i++)
			part->ranges[i].done = false;
	}
}

/* Ranges move along while they are marked: put them back. */
static void
save_ranges(MosqlCommit *commit, MosqlBytes **saved)
{
	int			n = 0;

	for (int p = 0; p < commit->nparts; p++)
		n += commit->parts[p].nranges;
	*saved = palloc(n * sizeof(MosqlBytes) + 1);
	n = 0;
	for (int p = 0; p < commit->nparts; p++)
		for (int i = 0; i < commit->parts[p].nranges; i++)
			(*saved)[n++] = commit->parts[p].ranges[i].key;
}

static void
restore_ranges(MosqlCommit *commit, const MosqlBytes *saved)
{
	int			n = 0;

	for (int p = 0; p < commit->nparts; p++)
		for (int i = 0; i < commit->parts[p].nranges; i++)
			commit->parts[p].ranges[i].key = saved[n++];
}

/*
 * An older transaction is in the way, and this one has given way: it is not to disturb
 * that one again before it has ended, or given way itself.  Who had nothing in place
 * disturbs nobody: it just tries again.  A leaf that is written anew is waited for like a lock; but by who may
 * have something in place in another namespace like anybody else.
 */
static void
wait_for_others(MosqlCommit *commit, int waits)
{
	MosqlBudget pause = commit->budget;
	bool		waited = true;

	mosql_stats.waits++;
	pause.attempts = Min(waits, 5);
	commit->waits = commit->blocker.strength > 0;
	if (commit->waits)
		return;					/* mosql_commit_wait() */
	if (commit->blocker.tree != NULL && commit->blocker.anew && !commit->several)
		wait_for_leaf(commit, &commit->blocker);
	else if (commit->placed && commit->blocker.tree != NULL)
		waited = mosql_recover_wait(commit->session, &commit->blocker, &commit->budget);
	else
		waited = mosql_budget_pause(&pause);
	if (!waited)
		report_kept_busy(commit->session);
}

/*
 * A tree that was made under an id that this session no longer has may have been
 * swept away as a dead session's (sweep.c).  Decide refuses the id if it dies from
 * now on.
 */
static void
check_trees(const MosqlCommit *commit)
{
	for (const MosqlTreeNote *note = commit->txn->trees; note != NULL; note = note->next)
		if (!note->drop && note->sid != commit->tx.session)
			mosql_commit_conflict(commit->session, "The session's lease ran out after this transaction created or truncated a table.");
}

void
mosql_commit_lost_claim(MosqlSession *session)
{
	mosql_commit_conflict(session, "A lock of a table, or an advisory lock, was lost before the transaction could commit.");
}

/* What a lock of a table has kept away can be compared with nothing else (rule 37). */
static void
check_claims(const MosqlCommit *commit)
{
	if (!has_lost_its_locks(commit))
		return;
	for (int p = 0; p < commit->nparts; p++)
		for (int i = 0; i < commit->parts[p].n; i++)
			if (mosql_item_held(commit, &commit->parts[p].items[i]).data != NULL)
				mosql_commit_lost_claim(commit->session);
}

/*
 * The clock refused for a reason that no row and no other transaction's commit is to
 * blame for: what the attempt took is not counted, so that a long commit gets another
 * one.  Not for ever.
 */
#define REFUSALS_MAX	10

static void
forgive_time(MosqlCommit *commit)
{
	if (!commit->limited && commit->refusals++ < REFUSALS_MAX)
		commit->budget = mosql_budget_start(mosql_txn_commit_timeout_ms);
}

void
mosql_commit_limit(MosqlCommit *commit, const MosqlBudget *budget)
{
	commit->limited = true;
	commit->budget = *budget;
}

/*
 * A step of an attempt that was prepared is done.  Of one that was not, nothing is left,
 * and another attempt makes sense.
 */
typedef bool (*AttemptStep) (MosqlCommit *commit);

/*
 * Decide has refused the schema version: a definition was changed, or its table locked, which is
 * waited for as for any lock (rule 37), and then looked at again: before the next attempt has its id, with nothing in
 * place, while interrupts are served.  An AttemptStep.
 *
 * Race -- it is raised again while we look: then decide refuses once more.
 */
static bool
check_definitions(MosqlCommit *commit)
{
	MosqlSession *session = commit->session;
	uint64		schema = session->schema;	/* known before we look */
	MosqlBytes	locked = MOSQL_ABSENT;
	int			strength = 0;

	if (mosql_txn_schema_check == NULL || !mosql_txn_schema_check(session, &locked, &strength))
		mosql_commit_conflict(session, "The definition of a table was changed by another transaction.");
	if (locked.data != NULL)
	{
		commit->blocker = (MosqlBlocker)
		{
			.tree = mosql_session_tree(session, MOSQL_CATALOG_ROOT),.key = locked,.strength = strength
		};
		commit->waits = true;
		return false;
	}
	commit->txn->schema = schema;
	commit->stale = false;
	return true;
}

/* What is not left to the step that decides.  True: all is in place.  Else released. */
static bool
prepare_rest(MosqlCommit *commit)
{
	MosqlSession *session = commit->session;
	MosqlOutcome outcome = mosql_txn_prepare(commit);

	if (outcome != MOSQL_PREPARED)
	{
		mosql_txn_release(commit);
		if (commit->unchecked)
			return false;
	}
	switch (outcome)
	{
		case MOSQL_PREPARED:
			MOSQL_DEBUG_POINT("after-prepare");
			return true;
		case MOSQL_CONFLICT:
			if (commit->lost_claim)
				mosql_commit_lost_claim(session);
			mosql_commit_conflict(session, "A row that this transaction read or wrote was changed by another one that committed first.");
			break;
		case MOSQL_HELD_UP:
		case MOSQL_BUSY:
			wait_for_others(commit, commit->tries);
			break;
		case MOSQL_AGAIN:
			if (!mosql_budget_pause(&commit->budget))
				mosql_commit_conflict(session, "The transaction could not be prepared within mosql_fdw.commit_timeout.");
			break;
	}
	return false;
}

/* True: all is in place, or planned, and MosqlPending is made.  Else released. */
static bool
prepare_once(MosqlCommit *commit)
{
	check_trees(commit);
	check_claims(commit);
	mosql_load_check(commit->txn);
	if (commit->one_steps > 0 && !has_lost_its_locks(commit) && mosql_txn_plan_one_step(commit))
		MOSQL_DEBUG_POINT("before-one-step");
	else if (!prepare_rest(commit))
		return false;

	/*
	 * A connection broke: perhaps a server failed that had taken an intent, and
	 * without copies its successor does not have it.
	 */
	if (commit->breaks != mosql_redis_breaks(commit->session->redis))
	{
		mosql_txn_release(commit);
		if (!mosql_budget_pause(&commit->budget))
			mosql_commit_conflict(commit->session, "Connections to Redis broke while the transaction was prepared, until mosql_fdw.commit_timeout.");
		return false;
	}
	commit->pending = mosql_pending_make(commit);
	return true;
}

void
mosql_txn_raise_schema(MosqlTxn *txn)
{
	MosqlSession *session = txn->session;
	uint64		before = session->schema;
	uint64		schema = mosql_clock_raise_schema(&session->stepper);

	if (schema == before + 1)	/* and nobody else did */
	{
		session->schema = schema;
		if (txn->schema == before)
			txn->schema = schema;
		if (txn->compared == before)
			txn->compared = schema;
	}
	else
		session->ask_schema = true;
}

/*
 * The step that decides has found something in the way, and nothing was done: what it would have written is prepared like the
 * rest, which stays, or, if a leaf is known better now, planned once more.
 */
static void
go_on_without(MosqlCommit *commit)
{
	bool		outgrown = mosql_txn_unplan_one_step(commit);

	commit->one_steps = outgrown ? commit->one_steps - 1 : 0;
	if (commit->unchecked && commit->one_steps == 0)
	{
		mosql_txn_release(commit);
		return;
	}
	pfree(commit->pending);
	commit->pending = NULL;
	commit->goes_on = true;
}

/* Decided: true.  Refused: released, and what was the matter is put right; or the attempt goes on. */
static bool
conclude(MosqlCommit *commit, MosqlDecision decision)
{
	MosqlSession *session = commit->session;

	switch (decision)
	{
		case MOSQL_DECIDED:
			return true;
		case MOSQL_REFUSED_ABORTED:
			mosql_txn_release(commit);
			break;
		case MOSQL_REFUSED_LEASE:
			mosql_txn_release(commit);
			mosql_session_renew(session);
			forgive_time(commit);
			break;
		case MOSQL_REFUSED_SCHEMA:
			mosql_txn_release(commit);
			commit->stale = true;
			forgive_time(commit);
			break;
		case MOSQL_REFUSED_FORGOTTEN:
			mosql_txn_release(commit);
			mosql_commit_conflict(session, "Another Redis process than before tells the time: it may have forgotten what this transaction has seen.");
			break;
		case MOSQL_REFUSED_AT_ONCE:
			go_on_without(commit);
			return false;
		case MOSQL_DECISION_LOST:
			pg_unreachable();
	}
	if (!mosql_budget_pause(&commit->budget))
		mosql_commit_conflict(session, "The transaction was refused repeatedly until mosql_fdw.commit_timeout.");
	return false;
}

static bool
decide_once(MosqlCommit *commit)
{
	return conclude(commit, mosql_txn_decide(commit));
}

static bool
foresee_once(MosqlCommit *commit)
{
	return conclude(commit, mosql_txn_foresee(commit));
}

/*
 * A transaction has lost against one that committed first.  Its client will try again,
 * and so will those of others: where many transactions want the same, all but one do
 * their work in vain, and take the one's time.  So who loses again and again pauses before
 * it says so, longer each time.
 */
static void
pause_after_loss(MosqlSession *session)
{
	int64		ran_us = GetCurrentTimestamp() - GetCurrentTransactionStartTimestamp();
	int64		unit_us = Min(Max(ran_us, 0), LOSS_PAUSE_UNIT_US);

	if (session->losses > 0)
		mosql_pause(Min(unit_us << session->losses, LOSS_PAUSE_MAX_US));
	session->losses = Min(session->losses + 1, LOSSES_MAX);
}

/* Of none of the sessions. */
static bool
nothing_is_decided(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &mosql_sessions)
	{
		const MosqlTxn *txn = dlist_container(MosqlSession, node, iter.cur)->txn;

		if (txn != NULL && txn->decided)
			return false;
	}
	return true;
}

/*
 * An attempt that ends in an error is released, unless its outcome is unknown: then it
 * may be committed.  A termination in one of its waits is an error, too (local.c).
 */
static bool
guarded(MosqlCommit *commit, AttemptStep step)
{
	uint32		held = InterruptHoldoffCount;
	bool		done = false;

	PG_TRY();
	{
		done = step(commit);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		commit->state = MOSQL_COMMIT_IDLE;
		mosql_sign_end(commit->session);
		MemoryContextSwitchTo(commit->cxt);
		error = CopyErrorData();
		FlushErrorState();		/* the release handles errors of its own */
		InterruptHoldoffCount = held;
		if (error->sqlerrcode != ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN)
			mosql_txn_release_detached(commit);
		else
		{
			commit->txn->unknown = true;
			commit->txn->decided_us = mosql_now_us();
			mosql_pending_unknown(commit);
			commit->state = MOSQL_COMMIT_UNKNOWN;
		}
		if (error->sqlerrcode == ERRCODE_UNDEFINED_TABLE)
			mosql_commit_conflict(commit->session, "A table of this transaction was dropped or truncated by another one.");
		if (error->sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE && nothing_is_decided())
			pause_after_loss(commit->session);
		ReThrowError(error);
	}
	PG_END_TRY();
	return done;
}

/* A new one, but if the last goes on, of which a part is in place: then nothing here may throw. */
static void
begin_attempt(MosqlCommit *commit)
{
	if (!commit->goes_on)
	{
		restore_ranges(commit, commit->saved_ranges);
		start_attempt(commit);
		MOSQL_DEBUG_POINT("before-prepare");
	}
	commit->goes_on = false;
}

/* One attempt.  False: another one is to be made, perhaps after a wait. */
static bool
try_to_prepare(MosqlCommit *commit)
{
	if (commit->stale && !guarded(commit, check_definitions))
		return false;
	begin_attempt(commit);
	if (guarded(commit, prepare_once))
		return true;
	mosql_stats.prepare_retries++;
	return false;
}

bool
mosql_commit_prepare(MosqlCommit *commit)
{
	MemoryContext old = MemoryContextSwitchTo(commit->cxt);
	bool		done;

	Assert(commit->state == MOSQL_COMMIT_IDLE && !commit->waits);
	while (!(done = try_to_prepare(commit)))
	{
		commit->tries++;
		if (commit->waits)
			break;
	}
	if (done)
		commit->state = MOSQL_COMMIT_PREPARED;
	MemoryContextSwitchTo(old);
	return done;
}

/* An AttemptStep. */
static bool
wait_for_lock(MosqlCommit *commit)
{
	mosql_lock_wait(commit);
	return true;
}

void
mosql_commit_wait(MosqlCommit *commit)
{
	MemoryContext old = MemoryContextSwitchTo(commit->cxt);

	Assert(commit->state == MOSQL_COMMIT_IDLE && commit->released && commit->waits);
	commit->waits = false;
	(void) guarded(commit, wait_for_lock);
	MemoryContextSwitchTo(old);
}

/* See txn_int.h. */
bool
mosql_commit_try(MosqlCommit *commit)
{
	MemoryContext old = MemoryContextSwitchTo(commit->cxt);

	Assert(commit->state == MOSQL_COMMIT_IDLE && (commit->tries == 0 || commit->goes_on));
	commit->unchecked = true;
	begin_attempt(commit);
	if (guarded(commit, prepare_once))
		commit->state = MOSQL_COMMIT_PREPARED;
	MemoryContextSwitchTo(old);
	return commit->state == MOSQL_COMMIT_PREPARED;
}

void
mosql_commit_drop(MosqlCommit *commit)
{
	Assert(commit->state == MOSQL_COMMIT_IDLE && commit->pending == NULL);
	MemoryContextDelete(commit->cxt);
}

/* Tries: a leaf into which many insert is another one often. */
#define ONE_STEP_TRIES	3

void
mosql_commit_may_be_at_once(MosqlCommit *commit)
{
	commit->one_steps = ONE_STEP_TRIES;
}

/* From prepared to `state`, or back: then another attempt may be made. */
static bool
go_on(MosqlCommit *commit, AttemptStep step, MosqlCommitState state)
{
	MemoryContext old = MemoryContextSwitchTo(commit->cxt);
	bool		done;

	Assert(commit->state == MOSQL_COMMIT_PREPARED);
	done = guarded(commit, step);
	commit->state = done ? state : MOSQL_COMMIT_IDLE;
	if (!done)
	{
		mosql_stats.prepare_retries++;
		commit->tries++;
	}
	MemoryContextSwitchTo(old);
	return done;
}

bool
mosql_commit_foresee(MosqlCommit *commit)
{
	return go_on(commit, foresee_once, MOSQL_COMMIT_PREPARED);
}

bool
mosql_commit_decide(MosqlCommit *commit)
{
	bool		decided = go_on(commit, decide_once, MOSQL_COMMIT_DECIDED);

	mosql_sign_end(commit->session);
	commit->txn->decided |= decided;
	if (decided)
		commit->txn->decided_us = mosql_now_us();
	return decided;
}

void
mosql_commit_put_off(MosqlCommit *commit)
{
	Assert(commit->state == MOSQL_COMMIT_PREPARED);
	mosql_txn_release(commit);
	commit->state = MOSQL_COMMIT_IDLE;
	commit->tries++;
}

void
mosql_commit_take_time(MosqlCommit *commit)
{
	commit->budget = mosql_budget_start(mosql_txn_commit_timeout_ms);
}

void
mosql_commit_take_back(MosqlCommit *commit)
{
	Assert(commit->state == MOSQL_COMMIT_PREPARED);
	mosql_txn_release_detached(commit);
	commit->state = MOSQL_COMMIT_IDLE;
}

/* ---- trees that come and go with the transaction ---- */

/*
 * What was dropped goes when the transaction has committed, what was made when it has
 * not.  Between the decision and PostgreSQL's own commit it is neither: should that
 * commit fail, Redis names what was made, and does not name what was dropped.  That is
 * left to maintenance then, so that nothing goes that somebody can still reach.
 */
bool
mosql_txn_settle_trees(MosqlTxn *txn, bool committed)
{
	bool		drops = false;

	for (MosqlTreeNote *note = txn->trees; note != NULL; note = note->next)
	{
		drops |= committed && note->drop;
		/* where nobody knows, pending.c finds out */
		if (committed ? note->drop : !note->drop && !txn->decided && !txn->unknown)
			mosql_session_add_garbage(txn->session, note->root, txn->breaks);
	}
	txn->trees = NULL;
	return drops;
}

/* Tell those who want to know that definitions are changed. */
static void
announce_schema(void *session)
{
	mosql_txn_schema_changed(session);
}

/* Whatever needs memory after the decision has it from here on. */
MosqlCommit *
mosql_commit_begin(MosqlTxn *txn, bool elsewhere)
{
	MemoryContext cxt = AllocSetContextCreate(txn->cxt, "mosql commit", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MosqlCommit *commit = palloc0(sizeof(MosqlCommit));
	ErrorContextCallback context;
	int			trees = 0;

	commit->txn = txn;
	commit->session = txn->session;
	commit->cxt = cxt;
	commit->attempt_cxt = AllocSetContextCreate(cxt, "mosql commit attempt", ALLOCSET_DEFAULT_SIZES);
	commit->budget = mosql_budget_start(mosql_txn_commit_timeout_ms);
	if (!mosql_commit_collect(commit, elsewhere))
	{
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
		return NULL;
	}
	Assert(mosql_commit_is_sound(commit));
	save_ranges(commit, &commit->saved_ranges);
	for (const MosqlTreeNote *note = txn->trees; note != NULL; note = note->next)
		trees++;
	mosql_session_expect_garbage(commit->session, trees);
	mosql_txn_begin_read(commit->session, &context);
	reserve(commit);
	mosql_txn_end_read(&context);
	MemoryContextSwitchTo(old);
	return commit;
}

void
mosql_commit_end(MosqlCommit *commit)
{
	MemoryContext old = MemoryContextSwitchTo(commit->cxt);

	Assert(commit->state == MOSQL_COMMIT_DECIDED);
	mosql_txn_apply(commit);
	commit->session->losses -= commit->session->losses > 0;
	mosql_stats.commits++;
	MOSQL_DEBUG_POINT("after-apply");
	if (commit->txn->changes_schema && mosql_txn_schema_changed != NULL)
		(void) mosql_do_quietly(announce_schema, commit->session);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(commit->cxt);
}

static void
decide_alone(MosqlCommit *commit)
{
	mosql_commit_may_be_at_once(commit);
	for (;;)
	{
		while (!mosql_commit_prepare(commit))
			mosql_commit_wait(commit);
		mosql_local_hold();
		if (mosql_commit_decide(commit))
			return;
		mosql_local_resume();
	}
}

/* In the middle of PostgreSQL's transaction. */
void
mosql_txn_commit(MosqlTxn *txn)
{
	MemoryContext cxt = CurrentMemoryContext;
	MosqlCommit *commit = mosql_commit_begin(txn, false);

	if (commit != NULL)
	{
		mosql_local_begin();
		PG_TRY();
		{
			decide_alone(commit);
		}
		PG_CATCH();
		{
			ErrorData  *error;

			mosql_local_catch();
			MemoryContextSwitchTo(cxt);
			error = CopyErrorData();
			FlushErrorState();		/* taking back handles errors of its own */
			if (commit->state == MOSQL_COMMIT_PREPARED)
				mosql_commit_take_back(commit);
			if (txn->unknown)
				mosql_txn_wait_for_drops(txn);
			mosql_local_leave();
			ReThrowError(error);
		}
		PG_END_TRY();
		MOSQL_DEBUG_POINT("after-decide");
		mosql_commit_end(commit);
		mosql_local_leave();
	}
	mosql_session_end_trees(txn->session, mosql_txn_settle_trees(txn, true), txn->decided_us);
}

/* ---- schema changes ---- */

void
mosql_txn_changes_schema(MosqlTxn *txn)
{
	txn->changes_schema = true;
}

static void
note_tree(MosqlTxn *txn, uint64 root, bool drop)
{
	MosqlTreeNote *note = MemoryContextAllocZero(txn->cxt, sizeof(MosqlTreeNote));

	note->root = root;
	note->drop = drop;
	note->loaded_by = InvalidCommandId;
	note->sid = txn->session->sid;
	note->level = GetCurrentTransactionNestLevel();
	note->next = txn->trees;
	txn->trees = note;
}

void
mosql_txn_created_tree(MosqlTxn *txn, uint64 root)
{
	note_tree(txn, root, false);
}

void
mosql_txn_drops_tree(MosqlTxn *txn, uint64 root)
{
	note_tree(txn, root, true);
}
