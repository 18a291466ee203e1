/*
 * orphans.c: commits of dead sessions, brought to their end.
 *
 * Layer: txn.  A session that died between its decision and the drop of its
 * record leaves intents, marks and the record.  Whoever meets the intents applies
 * them; nobody but maintenance drops the record, and only after everything that
 * it names was looked at.  Each key is a helper's step, so that any number of
 * helpers, maintainers, and the owner itself, should it wake up, may be at it.
 *
 * Race -- a table is dropped meanwhile: there is nothing left to apply to.
 *
 * A tree that the commit dropped is put on the list of what is to be destroyed (garbage.c), since the
 * record says so: no definition names it, but neither does one name a tree whose definition was lost,
 * and those stay (sweep.c).
 *
 * Race -- the owner was only paused, and drops its record itself: then it has
 * seen all of its applies acknowledged, and nobody will ask how it ended.
 */
#include "postgres.h"

#include "code/part.h"
#include "step/clock_keep.h"
#include "txn/recover.h"

/* Dead sessions looked at in one go. */
#define ORPHAN_SESSIONS		100

/* Leaves in the first window of a range that a large commit wrote. */
#define RANGE_WINDOW		8

/*
 * What was seen of these leaves is durable when this returns.  (They are as they
 * were read, or were split since, and what a split makes of them is durable.)
 */
static void
confirm_leaves(MosqlSession *session, const MosqlLeaf *leaves, int n)
{
	MosqlStep **steps = palloc(n * sizeof(MosqlStep *));

	for (int i = 0; i < n; i++)
	{
		steps[i] = palloc0(sizeof(MosqlStep));
		steps[i]->node = leaves[i].node;
		steps[i]->repeatable = steps[i]->no_count = true;
		steps[i]->durable = steps[i]->touch = true;
	}
	mosql_step_run(&session->stepper, steps, n, NULL);
}

/*
 * Apply the intents that tx has left between two keys, inclusive; true if there
 * were none.  Those that others have applied are durable when this returns.
 */
static bool
apply_range(MosqlSession *session, MosqlTree *tree, const MosqlPart *part, MosqlTxid tx,
			MosqlTimestamp ts, const MosqlSnapshotList *list)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql orphan window",
											  ALLOCSET_DEFAULT_SIZES);
	StringInfoData end;
	MosqlScan  *scan;
	MosqlLeaf  *leaves;
	bool		none = true;
	int			n;

	initStringInfo(&end);
	appendBinaryStringInfo(&end, part->high.data, (int) part->high.len);
	appendStringInfoChar(&end, '\0');
	scan = mosql_btree_scan_begin(tree, part->low, mosql_bytes_of(&end), false, RANGE_WINDOW);
	while ((n = mosql_btree_scan_next(scan, &leaves)) > 0)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);
		MosqlIntent intent;

		for (int i = 0; i < n; i++)
			for (int j = 0; j < leaves[i].n; j++)
			{
				CHECK_FOR_INTERRUPTS();
				if (!mosql_intents_find(leaves[i].entries[j].intent, tx, &intent))
					continue;
				mosql_recover_apply_leaf(session, tree, leaves[i].entries[j].key, tx, ts, list);
				none = false;
				break;			/* what is left of the leaf, by a split: the next time */
			}
		if (session->stepper.durable)
			confirm_leaves(session, leaves, n);
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
	}
	mosql_btree_scan_end(scan);
	MemoryContextDelete(cxt);
	return none;
}

/*
 * All of a range.  Race -- where copies are waited for: another helper's apply was
 * seen and is then lost in a failover, before confirm_leaves() could tell: so look
 * once more after it.
 */
static void
finish_range(MosqlSession *session, MosqlTree *tree, const MosqlPart *part,
			 const MosqlOrphan *orphan, const MosqlSnapshotList *list)
{
	int			wanted = session->stepper.durable ? 2 : 1;
	int			clean = 0;

	while (clean < wanted)
		clean = apply_range(session, tree, part, orphan->tx, orphan->record.ts, list)
			? clean + 1 : 0;
}

/* A part of what an orphan has written. */
typedef struct PartWork
{
	MosqlSession *session;
	const MosqlPart *part;
	const MosqlOrphan *orphan;
	const MosqlSnapshotList *list;
} PartWork;

/* A MosqlTreeWork. */
static void
finish_part(void *arg)
{
	const PartWork *work = arg;
	const MosqlPart *part = work->part;
	MosqlSession *session = work->session;
	MosqlTree  *tree = mosql_session_tree(session, part->root);
	MosqlTxid	tx = work->orphan->tx;
	MosqlBytes	keys = part->keys;
	MosqlBytes	key;

	switch (part->kind)
	{
		case MOSQL_PART_KEYS:
			while (mosql_part_key(&keys, &key))
				mosql_recover_apply(session, tree, key, tx, work->orphan->record.ts, work->list);
			break;
		case MOSQL_PART_RANGE:
			finish_range(session, tree, part, work->orphan, work->list);
			break;
		case MOSQL_PART_MARKS:
			mosql_recover_unmark(session, tree, part->low, part->high, tx);
			break;
		case MOSQL_PART_TREE:
			mosql_clock_put_garbage(&session->stepper, &part->root, 1);
			break;
	}
}

static bool
has_range(const MosqlOrphan *orphan)
{
	MosqlBytes	rest = orphan->record.parts;
	MosqlPart	part;
	bool		found = false;

	while (mosql_part_next(&rest, &part) == 1)
		found |= part.kind == MOSQL_PART_RANGE;
	return found;
}

/*
 * Everything that the record names.  False, with a warning, if a part does not
 * decode: or what it names is damaged: then the record stays, and others are not kept waiting for it.  False also
 * if the record is no longer there.  It is asked for once more, because that answer
 * is durable (rule 18): its owner may have died for want of copies.
 */
static bool
finish_orphan(MosqlSession *session, const MosqlOrphan *orphan)
{
	MosqlBytes	rest = orphan->record.parts;
	MosqlPart	part;
	MosqlRecord record;
	MosqlSnapshotList list;
	PartWork	work = {session, &part, orphan, &list};
	const char *damage;
	bool		finished = true;
	int			got;

	mosql_clock_status(&session->stepper, &orphan->tx, 1, &record, &list);
	if (record.state != MOSQL_RECORD_COMMITTED)
		return false;
	while ((got = mosql_part_next(&rest, &part)) == 1)
		if (mosql_session_try_tree_damage(finish_part, &work, &damage) == MOSQL_TREE_DAMAGED)
		{
			ereport(WARNING,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("transaction " UINT64_FORMAT "." UINT64_FORMAT " in namespace \"%s\" cannot be finished",
							orphan->tx.session, orphan->tx.n, session->config.ns),
					 errdetail("%s", damage),
					 errhint("It is committed, and will be finished when that is repaired.")));
			finished = false;
		}
	if (got < 0)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged record of transaction " UINT64_FORMAT "." UINT64_FORMAT " in namespace \"%s\"",
						orphan->tx.session, orphan->tx.n, session->config.ns),
				 errdetail("Its list of participants does not decode.")));
	return got == 0 && finished;
}

/* One orphan, and what became of it. */
typedef struct Finishing
{
	MosqlSession *session;
	const MosqlOrphan *orphan;
	bool		finished;
	bool		reaped;
} Finishing;

/*
 * If a server forgot that its intents were applied, nobody would know any more what they
 * are of: so as long as no connection breaks, else it is tried again.
 */
static void
finish_and_reap(void *arg)
{
	Finishing  *work = arg;
	const MosqlOrphan *orphan = work->orphan;
	bool		committed = orphan->record.state == MOSQL_RECORD_COMMITTED;

	work->finished = !committed || finish_orphan(work->session, orphan);
	if (!work->finished)
		return;
	MOSQL_DEBUG_POINT("maintain-applied");
	work->reaped = mosql_clock_reap(&work->session->stepper, orphan->tx.session, &orphan->tx.n,
									committed ? 1 : 0);
	MOSQL_DEBUG_POINT("maintain-reaped");
}

static Finishing
finish_unbroken(MosqlSession *session, const MosqlOrphan *orphan)
{
	Finishing	work = {session, orphan};

	mosql_session_do_unbroken(session, mosql_redis_breaks(session->redis), finish_and_reap, &work);
	return work;
}

bool
mosql_orphans_finish_one(MosqlSession *session, MosqlTxid tx)
{
	MosqlOrphan orphan = {.tx = tx};
	MosqlSnapshotList list;

	mosql_clock_status(&session->stepper, &tx, 1, &orphan.record, &list);
	return orphan.record.state == MOSQL_RECORD_COMMITTED &&
		finish_unbroken(session, &orphan).finished;
}

/*
 * The orphans of one batch: each finished, then reaped by itself, so that what is
 * done stays done if the next one fails.  Returns whether any was reaped.
 */
static bool
finish_batch(MosqlSession *session, bool ranges, MosqlOrphanCounts *counts)
{
	MosqlOrphan *orphans;
	int			n = mosql_clock_orphans(&session->stepper, ORPHAN_SESSIONS, &orphans);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql orphan",
											  ALLOCSET_DEFAULT_SIZES);
	bool		any = false;

	for (int i = 0; i < n; i++)
	{
		MemoryContext old;
		bool		committed = orphans[i].record.state == MOSQL_RECORD_COMMITTED;

		CHECK_FOR_INTERRUPTS();
		if (committed && !ranges && has_range(&orphans[i]))
		{
			counts->postponed++;
			continue;
		}
		old = MemoryContextSwitchTo(cxt);
		if (finish_unbroken(session, &orphans[i]).reaped)
		{
			counts->reaped += committed;
			any = true;
		}
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
	}
	MemoryContextDelete(cxt);
	return any;
}

void
mosql_orphans_finish(MosqlSession *session, bool ranges, MosqlOrphanCounts *counts)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql orphans",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	bool		any;

	do
	{
		counts->postponed = 0;
		any = finish_batch(session, ranges, counts);
		MemoryContextReset(cxt);
	} while (any);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

void
mosql_orphans_forget(MosqlSession *session, MosqlOrphanCounts *counts)
{
	int			n;

	do
	{
		CHECK_FOR_INTERRUPTS();
		n = mosql_clock_expire(&session->stepper, ORPHAN_SESSIONS);
		counts->sessions += n;
	} while (n == ORPHAN_SESSIONS);
	while (mosql_clock_forget_outcomes(&session->stepper, MOSQL_OUTCOME_KEEP_MS) > 0)
		CHECK_FOR_INTERRUPTS();
}
