/*
 * apply.c: from intents to rows, after the decision.
 *
 * Layer: txn.  Sent at once and not waited for (small commits), or in bounded
 * rounds (large ones).  Each key compares "the intent is still mine": a helper
 * may have applied it already and somebody else may have written since.
 *
 * Nothing here may fail the transaction: it is committed.  What was not
 * acknowledged as done is remembered in a MosqlPending (pending.c) and redone
 * later the way any helper would.
 */
#include "postgres.h"

#include "code/claim.h"
#include "txn/recover.h"

/* Up to so many leaves are applied without waiting. */
#define DETACHED_MAX_LEAVES	512
#define APPLY_MAX_ROUNDS	20

int
mosql_apply_writes(MosqlSession *session, uint64 node, MosqlBytes field_row, MosqlBytes old_row,
				   bool live, MosqlBytes columns, MosqlTimestamp ts,
				   const MosqlSnapshotList *list, MosqlWrite *writes)
{
	MosqlVersion version = {.ts = ts, .end = MOSQL_TS_MAX, .live = live, .columns = columns};
	int			n = mosql_step_supersede(field_row, old_row, &version, list, writes);

	if (n == 0)
		mosql_report_damage(session->config.ns, node, "a row does not decode");
	return n;
}

/* ---- the owner's apply ---- */

typedef struct ApplyStep
{
	MosqlStep	step;
	MosqlTree  *tree;
	uint64		generation;		/* that the step compares */
	bool		settles;		/* a leaf that was filled */
	int			nitems;
	MosqlItem **items;
} ApplyStep;

/* What applies take off: the attempt, and the owner of its locks. */
static MosqlBytes
ended_ids(const MosqlCommit *commit, MosqlBytes txid)
{
	StringInfoData both;

	if (commit->txn->owner.session == 0)
		return txid;
	mosql_string_init(&both, 2 * MOSQL_TXID_BYTES);
	appendBinaryStringInfo(&both, txid.data, MOSQL_TXID_BYTES);
	mosql_txid_put(&both, commit->txn->owner);
	return mosql_bytes_of(&both);
}

static void
build_write(MosqlCommit *commit, MosqlStep *step, MosqlItem *item, MosqlBytes txid)
{
	MosqlBytes	intent = mosql_field_name(MOSQL_FIELD_INTENT, item->key);

	/* claims may stand in front of it; its own go along, and who waits is let in */
	mosql_step_expect(step, MOSQL_COMPARE_LISTED, intent, 0, txid);
	step->writes[step->nwrites++] = (MosqlWrite) {MOSQL_WRITE_UNLIST, intent, ended_ids(commit, txid)};
	step->nwrites += mosql_apply_writes(commit->session, step->node,
										mosql_field_name(MOSQL_FIELD_ROW, item->key),
										item->old_row,
										item->change->kind != MOSQL_CHANGE_DELETE,
										item->columns, commit->ts, &commit->list,
										step->writes + step->nwrites);
}

/*
 * An increment that is added where the row lies.  Others may have been applied
 * since prepare looked, in any order: sums do not care, and nobody needs the
 * states between them, as long as the row is plain (keeps no older version)
 * and no snapshot was registered when we decided.  The columns stay where they
 * are, because only increments touch this row while ours is in flight.
 */
static bool
is_added_in_place(const MosqlCommit *commit, const MosqlItem *item)
{
	return commit->list.n == 0 && item->old_row.len > MOSQL_ROW_KIND_OFFSET &&
		item->old_row.data[MOSQL_ROW_KIND_OFFSET] == MOSQL_ROW_PLAIN_KIND[0];
}

static void
build_increment(MosqlCommit *commit, MosqlStep *step, MosqlItem *item, MosqlBytes txid)
{
	const MosqlChange *change = item->change;
	MosqlBytes	intent = mosql_field_name(MOSQL_FIELD_INTENT, item->key);
	MosqlBytes	row = mosql_field_name(MOSQL_FIELD_ROW, item->key);
	MosqlStepDelta *deltas = palloc(change->ninc * sizeof(MosqlStepDelta));
	int			n = 0;

	for (int i = 0; i < change->ninc; i++)
	{
		/* a null column stays null */
		if (!mosql_row_column_offset(item->old_row, change->inc[i].column, &deltas[n].offset))
			continue;
		deltas[n].width = change->inc[i].width;
		deltas[n++].delta = change->inc[i].delta;
	}
	mosql_step_expect(step, MOSQL_COMPARE_LISTED, intent, 0, txid);
	mosql_step_expect(step, MOSQL_COMPARE_IN, row, MOSQL_ROW_KIND_OFFSET,
					  mosql_bytes(MOSQL_ROW_PLAIN_KIND, 1));
	step->writes[step->nwrites++] = (MosqlWrite) {MOSQL_WRITE_UNLIST, intent, ended_ids(commit, txid)};
	step->writes[step->nwrites++] = (MosqlWrite)
	{
		MOSQL_WRITE_ADD, row, mosql_step_add(commit->ts, deltas, n)
	};
}

static void
build_apply(MosqlCommit *commit, ApplyStep *apply, const MosqlLeafGroup *group, MosqlItem **items,
			int n)
{
	MosqlStep  *step = &apply->step;
	MosqlBytes	txid = mosql_txid_bytes(commit->tx);

	memset(apply, 0, sizeof(*apply));
	apply->items = items;
	apply->nitems = n;
	step->node = group->leaf;
	apply->generation = group->generation;
	step->repeatable = true;
	step->durable = true;		/* before the record may be dropped */
	step->touch = true;
	step->compares = palloc0((2 * n + 1) * sizeof(MosqlCompare));
	step->reads = palloc(sizeof(MosqlBytes));
	step->writes = palloc((3 * n + 1) * sizeof(MosqlWrite));
	step->reads[step->nreads++] = MOSQL_META_FIELD;
	mosql_step_expect(step, MOSQL_COMPARE_EQUAL, MOSQL_META_FIELD, 0,
					  mosql_generation_bytes(group->generation));
	for (int i = 0; i < n; i++)
	{
		MosqlItem  *item = apply->items[i];

		if (item->change->kind == MOSQL_CHANGE_INCREMENT)
			build_increment(commit, step, item, txid);
		else
			build_write(commit, step, item, txid);
	}
	if (commit->nmarks > 0)
		step->writes[step->nwrites++] =
			(MosqlWrite) {MOSQL_WRITE_REMOVE, MOSQL_MARKS_FIELD, txid};
}

/*
 * A leaf that prepare has written as a whole: all of its items in one, however many (rule 48).  False if it is not loading any more.
 * Of the snapshots only the older ones count, which may ask what was there before: as prepare has compared, what the block says.
 */
static bool
build_settle(MosqlCommit *commit, MosqlTree *tree, ApplyStep *apply, const MosqlLeafGroup *group, MosqlItem **items)
{
	MosqlStep  *step = mosql_btree_settle_step(tree, group->leaf, group->generation, commit->tx, commit->ts,
											   !mosql_row_may_purge(commit->ts, &commit->list));

	if (step == NULL)
		return false;
	*apply = (ApplyStep) {.step = *step,.settles = true,.generation = group->generation,.nitems = group->n,.items = items};
	apply->step.durable = apply->step.touch = true;
	return true;
}

/* As any helper does it, leaf by leaf: keys of one tree, ascending. */
static void
apply_as_helper(MosqlCommit *commit, MosqlTree *tree, const MosqlBytes *keys, int n)
{
	for (int i = 0; i < n;)
		i += mosql_recover_apply_keys(commit->session, tree, keys + i, n - i, commit->tx,
									  commit->ts, &commit->list);
}

/*
 * Its step failed for one of its keys: somebody has applied it already, and perhaps others.  Or its leaf was written as a whole, and is
 * settled, or the session does not know it as it is.
 */
static void
apply_rest(MosqlCommit *commit, ApplyStep *apply)
{
	MosqlBytes *keys = palloc(apply->nitems * sizeof(MosqlBytes));

	for (int i = 0; i < apply->nitems; i++)
		keys[i] = apply->items[i]->key;
	apply_as_helper(commit, apply->tree, keys, apply->nitems);
	for (int i = 0; i < apply->nitems; i++)
		apply->items[i]->done = true;
}

static bool
goes_into_history(const MosqlCommit *commit, const MosqlItem *item)
{
	return item->change->kind == MOSQL_CHANGE_INCREMENT && !item->by_leaf && !is_added_in_place(commit, item);
}

/* Increments that must find their place in a history. */
static void
apply_into_histories(MosqlCommit *commit)
{
	for (int p = 0; p < commit->nparts; p++)
	{
		MosqlParticipant *part = &commit->parts[p];
		MosqlBytes *keys = NULL;
		int			n = 0;

		for (int i = 0; i < part->n; i++)
		{
			MosqlItem  *item = &part->items[i];

			if (item->kind != MOSQL_ITEM_WRITE || item->done || !goes_into_history(commit, item))
				continue;
			if (keys == NULL)
				keys = MemoryContextAllocHuge(commit->cxt, (part->n - i) * sizeof(MosqlBytes));
			item->done = true;
			keys[n++] = item->key;
		}
		apply_as_helper(commit, part->tree, keys, n);
	}
}

/* Steps for some items of a tree, ascending; false if there is not room for all. */
static bool
add_items(MosqlCommit *commit, MosqlTree *tree, MosqlItem **items, const MosqlBytes *keys, int n,
		  ApplyStep **steps, int *nsteps)
{
	MosqlLeafGroup *groups;
	int			ngroups = mosql_btree_group_beside(tree, keys, NULL, n, &groups, NULL);

	for (int g = 0; g < ngroups; g++)
		for (int done = 0; done < groups[g].n; done += MOSQL_STEP_MAX_ITEMS)
		{
			ApplyStep  *apply;
			MosqlItem **of = items + groups[g].first;

			if (*nsteps == MOSQL_ROUND_MAX_STEPS)
				return false;
			apply = palloc(sizeof(ApplyStep));
			if (of[0]->by_leaf && !build_settle(commit, tree, apply, &groups[g], of))
			{
				apply_rest(commit, &(ApplyStep) {.tree = tree,.items = of,.nitems = groups[g].n});
				break;
			}
			if (!of[0]->by_leaf)
				build_apply(commit, apply, &groups[g], of + done, Min(groups[g].n - done, MOSQL_STEP_MAX_ITEMS));
			apply->tree = tree;
			steps[(*nsteps)++] = apply;
			if (apply->settles)
				break;
		}
	return true;
}

/* Steps for up to a round of items not done yet.  *all: that is all of them. */
static int
build_round(MosqlCommit *commit, ApplyStep **steps, bool *all)
{
	int			nsteps = 0;

	*all = true;
	for (int p = 0; p < commit->nparts && *all; p++)
	{
		MosqlParticipant *part = &commit->parts[p];
		int			max = Min(part->n, MOSQL_ROUND_MAX_ITEMS);
		MosqlBytes *keys = palloc(max * sizeof(MosqlBytes) + 1);
		MosqlItem **items = palloc(max * sizeof(MosqlItem *) + 1);
		int			n = 0;

		for (int i = 0; i < part->n; i++)
		{
			MosqlItem  *item = &part->items[i];

			if (item->kind != MOSQL_ITEM_WRITE || item->done || goes_into_history(commit, item))
				continue;
			if (n == max)
			{
				*all = false;
				break;
			}
			items[n] = item;
			keys[n++] = item->key;
		}
		if (n > 0 && !add_items(commit, part->tree, items, keys, n, steps, &nsteps))
			*all = false;
	}
	return nsteps;
}

/*
 * Takes this transaction's mark off a leaf, if the leaf is as it was when the mark was
 * placed; if it was split since, mosql_recover_unmark() finds the copies.
 */
static MosqlStep *
unmark_step(const MosqlMark *mark, MosqlBytes txid)
{
	MosqlStep  *step = palloc0(sizeof(MosqlStep));

	step->node = mark->leaf;
	step->repeatable = true;
	step->compares = palloc0(sizeof(MosqlCompare));
	mosql_step_expect(step, MOSQL_COMPARE_EQUAL, MOSQL_META_FIELD, 0,
					  mosql_generation_bytes(mark->generation));
	step->writes = palloc(sizeof(MosqlWrite));
	step->writes[step->nwrites++] = (MosqlWrite) {MOSQL_WRITE_REMOVE, MOSQL_MARKS_FIELD, txid};
	return step;
}

/* Detached. */
static void
send_unmark(MosqlCommit *commit, const MosqlMark *mark, MosqlStepCallback done, void *arg)
{
	MosqlStep  *step = unmark_step(mark, mosql_txid_bytes(commit->tx));

	mosql_step_send(&commit->session->stepper, step, done, arg);
}

static void
unmark(MosqlCommit *commit, const MosqlMark *mark)
{
	mosql_recover_unmark(commit->session, mark->tree, mark->low, mark->high, commit->tx);
}

static void
remove_marks(MosqlCommit *commit)
{
	for (int m = 0; m < commit->nmarks; m++)
		unmark(commit, &commit->marks[m]);
}

/* Large commits: rounds, each waited for. */
static void
apply_in_rounds(MosqlCommit *commit)
{
	MemoryContext cxt = AllocSetContextCreate(commit->cxt, "mosql apply round",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	int			failures = 0;

	while (failures < APPLY_MAX_ROUNDS)
	{
		ApplyStep **applies = palloc(MOSQL_ROUND_MAX_STEPS * sizeof(ApplyStep *));
		bool		all;
		int			n = build_round(commit, applies, &all);
		MosqlStep **steps = palloc(n * sizeof(MosqlStep *) + 1);
		bool		failed = false;

		if (n == 0)
			break;
		for (int i = 0; i < n; i++)
			steps[i] = &applies[i]->step;
		mosql_step_run(&commit->session->stepper, steps, n, NULL);
		MOSQL_DEBUG_POINT("apply-some");
		for (int i = 0; i < n; i++)
		{
			ApplyStep  *apply = applies[i];

			if (steps[i]->status == MOSQL_STEP_DONE)
			{
				for (int j = 0; j < apply->nitems; j++)
					apply->items[j]->done = true;
				if (apply->settles)
					mosql_btree_remember(apply->tree, steps[i]);
				else
					mosql_btree_observe(apply->tree, steps[i]->node, steps[i]->values[0],
										steps[i]->nfields);
				mosql_stats.leaves_packed += apply->settles;
				continue;
			}
			failed = true;
			if (steps[i]->status == MOSQL_STEP_FAILED && steps[i]->failed == 0)
				mosql_btree_observe(apply->tree, steps[i]->node, steps[i]->values[0], -1);
			else
				apply_rest(commit, apply);
		}
		failures += failed;
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	if (failures >= APPLY_MAX_ROUNDS)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("leaves changed faster than rows could be applied")));
	remove_marks(commit);
}

/*
 * Does one of the applies take this mark off?  Only a step on the leaf as it was
 * when the mark was placed: if that was split since, there are copies.  A leaf
 * whose only writes are increments that go into histories has no step here.
 */
static bool
takes_off(ApplyStep *const *applies, int n, const MosqlMark *mark)
{
	for (int i = 0; i < n; i++)
		if (applies[i]->step.node == mark->leaf && applies[i]->generation == mark->generation)
			return true;
	return false;
}

/* Small commits: sent, not waited for. */
static bool
apply_detached(MosqlCommit *commit, MosqlPending *pending)
{
	ApplyStep **applies = palloc(MOSQL_ROUND_MAX_STEPS * sizeof(ApplyStep *));
	MosqlStep **steps;
	MosqlMessages *messages;
	bool		all;
	int			n = build_round(commit, applies, &all);
	int			size;

	if (!all || n > DETACHED_MAX_LEAVES || commit->session->stepper.engine == MOSQL_ENGINE_WATCH)
		return false;
	steps = palloc(n * sizeof(MosqlStep *) + 1);
	for (int i = 0; i < n; i++)
	{
		steps[i] = &applies[i]->step;
		steps[i]->nreads = 0;	/* nobody will look */
		steps[i]->no_count = true;
		steps[i]->nfields = -1;
		if (applies[i]->settles)	/* if not, whoever goes by it finds another generation */
			mosql_btree_remember(applies[i]->tree, steps[i]);
		mosql_stats.leaves_packed += applies[i]->settles;
	}
	messages = mosql_step_gather(&commit->session->stepper, steps, n);
	mosql_redis_cork(commit->session->redis);	/* one write per server */
	while ((size = mosql_messages_next(messages)) > 0)
	{
		pending->outstanding += size;
		mosql_messages_send(messages, mosql_pending_answered, pending);
		MOSQL_DEBUG_POINT("apply-some");
	}
	for (int m = 0; m < commit->nmarks; m++)
	{
		if (commit->marks[m].with_writes && takes_off(applies, n, &commit->marks[m]))
			continue;
		pending->outstanding++;
		send_unmark(commit, &commit->marks[m], mosql_pending_answered, pending);
	}
	pending->outstanding += mosql_step_send_wait(&commit->session->stepper, mosql_pending_answered, pending);
	mosql_redis_uncork(commit->session->redis);
	return true;
}

/* If a connection breaks the decision may be forgotten: redo() asks. */
static void
apply_all(void *arg)
{
	MosqlCommit *commit = arg;

	if (!apply_detached(commit, commit->pending))
		apply_in_rounds(commit);
	apply_into_histories(commit);
}

static void
apply_unbroken(void *arg)
{
	MosqlCommit *commit = arg;

	mosql_session_do_unbroken(commit->session, commit->breaks, apply_all, commit);
}

void
mosql_txn_apply(MosqlCommit *commit)
{
	MemoryContext old = MemoryContextSwitchTo(commit->cxt);
	MosqlPending *pending = commit->pending;

	/* what decide has found */
	Assert(commit->state == MOSQL_COMMIT_DECIDED && commit->ts != 0);
	Assert(mosql_commit_is_prepared(commit));
	Assert(pending->outstanding == 0 && mosql_txid_equal(pending->tx, commit->tx));
	pending->ts = commit->ts;
	mosql_pending_add(pending);
	for (int p = 0; p < commit->nparts; p++)
		for (int i = 0; i < commit->parts[p].n; i++)
			commit->parts[p].items[i].done = commit->parts[p].items[i].here;

	/* the transaction is committed; what the step that decided has written is applied */
	if (pending->nkeys + pending->nmarks > 0 && !mosql_do_quietly(apply_unbroken, commit))
	{
		mosql_redis_uncork(commit->session->redis);
		pending->failed = true;
	}
	MemoryContextSwitchTo(old);
}

/* ---- taking an attempt back ---- */

static void
nobody_waits(void *arg, MosqlStepStatus status, int nfields)
{
	(void) arg;
	(void) status;
	(void) nfields;
}

/*
 * Takes this transaction's intents off some keys of a leaf.  One that is not there does not
 * stop the others (rule 3): taking it off writes nothing.
 */
static MosqlStep *
release_step(const MosqlLeafGroup *group, const MosqlBytes *keys, int n, MosqlBytes txid)
{
	MosqlStep  *step = palloc0(sizeof(MosqlStep));

	step->node = group->leaf;
	step->repeatable = true;
	step->compares = palloc0(sizeof(MosqlCompare));
	mosql_step_expect(step, MOSQL_COMPARE_EQUAL, MOSQL_META_FIELD, 0,
					  mosql_generation_bytes(group->generation));
	step->writes = palloc(n * sizeof(MosqlWrite));
	for (int i = 0; i < n; i++)
		step->writes[step->nwrites++] = (MosqlWrite)
	{
		MOSQL_WRITE_UNLIST, mosql_field_name(MOSQL_FIELD_INTENT, keys[i]), txid
	};
	step->reads = palloc(sizeof(MosqlBytes));
	step->reads[step->nreads++] = MOSQL_META_FIELD;
	return step;
}

/* Send the steps, or, where the engine cannot, run them within one budget. */
static void
send_all(MosqlSession *session, MosqlStep **steps, int n)
{
	if (session->stepper.engine == MOSQL_ENGINE_WATCH)
	{
		MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);

		if (n > 0)
			mosql_step_run(&session->stepper, steps, n, &budget);
		return;
	}
	mosql_redis_cork(session->redis);
	for (int i = 0; i < n; i++)
		mosql_step_send(&session->stepper, steps[i], nobody_waits, NULL);
	mosql_redis_uncork(session->redis);
}

/* The intents in one tree. */
typedef struct ReleaseWork
{
	MosqlCommit *commit;
	MosqlParticipant *part;
	MosqlBudget *budget;		/* NULL: detached */
} ReleaseWork;

/* A leaf's step, and the items that it is about. */
typedef struct Release
{
	MosqlItem **items;
	int			n;
	bool		puts_back;		/* locks */
} Release;

/*
 * The locks that were taken over with the leaf are there again, in the step that takes it back: for the next attempt, and so that nobody
 * slips in between.
 */
static void
put_locks_back(const ReleaseWork *work, const MosqlLeafGroup *group, const MosqlItem *first, MosqlStep *step)
{
	const MosqlItem *end = first;
	MosqlWrite *writes;

	/* all of the leaf's, also if a round of releases ends in it */
	while (end < work->part->items + work->part->n &&
		   (group->high.data == NULL || mosql_bytes_compare(end->key, group->high) < 0))
		end++;
	writes = palloc((step->nwrites + (end - first)) * sizeof(MosqlWrite));
	memcpy(writes, step->writes, step->nwrites * sizeof(MosqlWrite));
	step->writes = writes;
	for (const MosqlItem *item = first; item < end; item++)
	{
		MosqlClaim	claim = {work->commit->txn->owner, MOSQL_CLAIM_LOCK, item->locked, 0};
		StringInfoData bytes;

		if (item->locked == 0 || !item->sent)
			continue;
		mosql_string_init(&bytes, MOSQL_CLAIM_BYTES);
		mosql_claim_encode(&bytes, &claim);
		writes[step->nwrites++] = (MosqlWrite)
		{
			MOSQL_WRITE_CLAIM, mosql_field_name(MOSQL_FIELD_INTENT, item->key), mosql_bytes_of(&bytes)
		};
	}
}

/* The step that takes back a leaf that this attempt has written as a whole; NULL if it is none, as far as is known. */
static MosqlStep *
take_back_step(ReleaseWork *work, const MosqlLeafGroup *group, MosqlItem **items)
{
	MosqlStep  *step = mosql_btree_settle_step(work->part->tree, group->leaf, group->generation, work->commit->tx, 0, false);

	if (step != NULL && work->budget != NULL && group->loaded.locks)
		put_locks_back(work, group, items[0], step);
	return step;
}

/* Steps for these items, by leaf; returns their number. */
static int
release_steps(ReleaseWork *work, MosqlItem **items, int n, MosqlStep ***steps, Release **releases)
{
	MosqlBytes	txid = mosql_txid_bytes(work->commit->tx);
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	MosqlLeafGroup *groups;
	int			ngroups;
	int			max;
	int			nsteps = 0;

	for (int i = 0; i < n; i++)
		keys[i] = items[i]->key;
	ngroups = mosql_btree_group_beside(work->part->tree, keys, NULL, n, &groups, NULL);
	max = ngroups + n / MOSQL_STEP_MAX_ITEMS;
	*steps = palloc(max * sizeof(MosqlStep *));
	*releases = palloc(max * sizeof(Release));
	for (int g = 0; g < ngroups; g++)
	{
		int			first = groups[g].first;
		MosqlStep  *settle = take_back_step(work, &groups[g], items + first);

		if (settle != NULL)
		{
			(*releases)[nsteps] = (Release) {items + first, groups[g].n, groups[g].loaded.locks};
			(*steps)[nsteps++] = settle;
			continue;
		}
		for (int done = 0; done < groups[g].n; done += MOSQL_STEP_MAX_ITEMS)
		{
			Release    *of = &(*releases)[nsteps];

			*of = (Release) {items + first + done, Min(groups[g].n - done, MOSQL_STEP_MAX_ITEMS)};
			(*steps)[nsteps++] = release_step(&groups[g], keys + first + done, of->n, txid);
		}
	}
	return nsteps;
}

/*
 * A round of items.  A leaf may have been split since the intents were placed: who waits
 * looks again, for an intent that stays would keep everybody until intent_timeout.
 * False when the time is over.
 */
static bool
release_items(ReleaseWork *work, MosqlItem **items, int n)
{
	while (n > 0)
	{
		MosqlStep **steps;
		Release    *releases;
		int			nsteps = release_steps(work, items, n, &steps, &releases);
		int			left = 0;

		if (work->budget == NULL)
		{
			send_all(work->commit->session, steps, nsteps);
			return true;
		}
		mosql_step_run(&work->commit->session->stepper, steps, nsteps, work->budget);
		for (int i = 0; i < nsteps; i++)
		{
			if (steps[i]->status == MOSQL_STEP_DONE)
				mosql_btree_remember(work->part->tree, steps[i]);
			work->commit->in_doubt |= releases[i].puts_back && steps[i]->status == MOSQL_STEP_LOST;
			if (steps[i]->status != MOSQL_STEP_FAILED)
				continue;
			mosql_btree_observe(work->part->tree, steps[i]->node, steps[i]->values[0], -1);
			memmove(items + left, releases[i].items, releases[i].n * sizeof(MosqlItem *));
			left += releases[i].n;
		}
		n = left;
		if (n > 0 && !mosql_budget_pause(work->budget))
		{
			work->commit->in_doubt |= work->commit->stands;
			return false;
		}
	}
	return true;
}

/* A MosqlTreeWork.  Only what was sent can be there. */
static void
release_part(void *arg)
{
	ReleaseWork *work = arg;
	MosqlParticipant *part = work->part;
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql release",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	bool		in_time = true;
	int			i = 0;

	while (i < part->n && in_time)
	{
		MosqlItem **items = palloc(Min(part->n - i, MOSQL_ROUND_MAX_ITEMS) * sizeof(MosqlItem *));
		int			n = 0;

		for (; i < part->n && n < MOSQL_ROUND_MAX_ITEMS; i++)
			if (part->items[i].sent)
				items[n++] = &part->items[i];
		in_time = release_items(work, items, n);
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

typedef struct UnmarkWork
{
	MosqlCommit *commit;
	const MosqlMark *mark;
} UnmarkWork;

/* A MosqlTreeWork. */
static void
unmark_one(void *arg)
{
	const UnmarkWork *work = arg;

	unmark(work->commit, work->mark);
}

static void
release_marks(MosqlCommit *commit, MosqlBudget *budget)
{
	MosqlStep **steps = palloc(commit->nmarks * sizeof(MosqlStep *) + 1);
	MosqlBytes	txid = mosql_txid_bytes(commit->tx);

	for (int m = 0; m < commit->nmarks; m++)
		steps[m] = unmark_step(&commit->marks[m], txid);
	if (budget == NULL)
		send_all(commit->session, steps, commit->nmarks);
	else if (commit->nmarks > 0)
		mosql_step_run(&commit->session->stepper, steps, commit->nmarks, budget);
	for (int m = 0; m < commit->nmarks && budget != NULL; m++)
		if (steps[m]->status == MOSQL_STEP_FAILED)
		{
			UnmarkWork	work = {commit, &commit->marks[m]};

			(void) mosql_session_try_tree(unmark_one, &work);
		}
}

/* A table that was dropped or truncated meanwhile does not keep the others. */
static void
release_all(void *arg)
{
	ReleaseWork work = *(const ReleaseWork *) arg;

	for (const MosqlSentLeaf *sent = work.commit->sent; sent != NULL; sent = sent->next)
		mosql_btree_observe(sent->tree, sent->leaf, sent->meta, -1);	/* if not, the step that settles it fails */
	for (int p = 0; p < work.commit->nparts; p++)
	{
		work.part = &work.commit->parts[p];
		(void) mosql_session_try_tree(release_part, &work);
	}
	release_marks(work.commit, work.budget);
}

/*
 * Whatever is not removed here is removed by whoever waits for it; but a leaf that stands for locks only when its transaction lets go
 * of those: commit->in_doubt.  Throws nothing;
 * not to be called while an error is being handled (it catches its own).
 */
static void
release(MosqlCommit *commit, MosqlBudget *budget)
{
	MemoryContext old = MemoryContextSwitchTo(commit->attempt_cxt);
	ReleaseWork work = {.commit = commit,.budget = budget};

	mosql_sign_end(commit->session);
	commit->in_doubt = false;
	if (!mosql_do_quietly(release_all, &work))
	{
		commit->in_doubt = commit->stands;
		mosql_redis_uncork(commit->session->redis);
	}
	if (commit->pending != NULL)
		pfree(commit->pending);
	commit->pending = NULL;
	MemoryContextSwitchTo(old);
}

void
mosql_txn_release(MosqlCommit *commit)
{
	MosqlBudget budget = mosql_budget_start(commit->session->config.redis.command_timeout_ms);

	release(commit, &budget);
	if (commit->in_doubt)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("could not take back an attempt to commit in namespace \"%s\" in time", commit->session->config.ns),
				 errdetail("A Redis node did not answer, and the locks of this transaction are perhaps not there any more.")));
	commit->released = true;
}

void
mosql_txn_release_detached(MosqlCommit *commit)
{
	if (!commit->released)
		release(commit, NULL);
}
