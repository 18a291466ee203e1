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
 * Race -- the owner was only paused, and drops its record itself: then it has
 * seen all of its applies acknowledged, and nobody will ask how it ended.
 */
#include "postgres.h"

#include "code/part.h"
#include "step/clock_keep.h"
#include "txn/txn_int.h"

/* Dead sessions looked at in one go. */
#define ORPHAN_SESSIONS		100

/* Leaves in the first window of a range that a large commit wrote. */
#define RANGE_WINDOW		8

/*
 * That these leaves are as they were read is durable: what others have applied there
 * is not to come back with a failover once the record is gone.  The generation
 * says that it is the leaf that was read; that it was the same server, the caller
 * finds out.
 */
static bool
confirm_leaves(MosqlSession *session, const MosqlLeaf *leaves, int n)
{
	MosqlStep **steps = palloc(n * sizeof(MosqlStep *));

	for (int i = 0; i < n; i++)
	{
		MosqlCompare *compare = palloc0(sizeof(MosqlCompare));

		compare->kind = MOSQL_COMPARE_EQUAL;
		compare->field = MOSQL_META_FIELD;
		compare->bytes = mosql_generation_bytes(leaves[i].meta.generation);
		steps[i] = palloc0(sizeof(MosqlStep));
		*steps[i] = (MosqlStep) {
			.node = leaves[i].node, .repeatable = true, .durable = true, .touch = true,
			.ncompares = 1, .compares = compare
		};
	}
	mosql_step_run(&session->stepper, steps, n, NULL);
	for (int i = 0; i < n; i++)
		if (steps[i]->status != MOSQL_STEP_DONE)
			return false;
	return true;
}

/*
 * One way through a range, leaf by leaf.  True if there was nothing of tx left, and
 * that is durable where it has to be.
 */
static bool
apply_range_once(MosqlSession *session, MosqlTree *tree, MosqlBytes low, MosqlBytes high,
				 MosqlTxid tx, MosqlTimestamp ts, const MosqlSnapshotList *list)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql orphan window",
											  ALLOCSET_DEFAULT_SIZES);
	MosqlScan  *scan = mosql_btree_scan_begin(tree, low, high, false, RANGE_WINDOW);
	uint64		breaks = mosql_redis_breaks(session->redis);
	bool		clean = true;
	MosqlLeaf  *leaves;
	int			n;

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
				clean = false;
				break;			/* what a split has kept of the leaf: the next time */
			}
		if (clean && session->stepper.durable)
			clean = confirm_leaves(session, leaves, n);
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
	}
	mosql_btree_scan_end(scan);
	MemoryContextDelete(cxt);
	return clean && mosql_redis_breaks(session->redis) == breaks;
}

/* Apply the intents that tx has left between two keys, inclusive. */
static void
apply_range(MosqlSession *session, MosqlTree *tree, const MosqlPart *part, MosqlTxid tx,
			MosqlTimestamp ts, const MosqlSnapshotList *list)
{
	StringInfoData end;

	initStringInfo(&end);
	appendBinaryStringInfo(&end, part->high.data, (int) part->high.len);
	appendStringInfoChar(&end, '\0');
	while (!apply_range_once(session, tree, part->low, mosql_bytes_of(&end), tx, ts, list))
		CHECK_FOR_INTERRUPTS();
}

static void
finish_part(MosqlSession *session, const MosqlPart *part, const MosqlOrphan *orphan,
			const MosqlSnapshotList *list)
{
	MosqlTree  *tree = mosql_session_tree(session, part->root);
	MosqlBytes	keys = part->keys;
	MosqlBytes	key;

	switch (part->kind)
	{
		case MOSQL_PART_KEYS:
			while (mosql_part_key(&keys, &key))
				mosql_recover_apply(session, tree, key, orphan->tx, orphan->record.ts, list);
			break;
		case MOSQL_PART_RANGE:
			apply_range(session, tree, part, orphan->tx, orphan->record.ts, list);
			break;
		case MOSQL_PART_MARKS:
			mosql_recover_unmark(session, tree, part->low, part->high, orphan->tx);
			break;
	}
}

/* finish_part(), where the tree may be gone. */
static void
try_part(MosqlSession *session, const MosqlPart *part, const MosqlOrphan *orphan,
		 const MosqlSnapshotList *list)
{
	MemoryContext caller = CurrentMemoryContext;

	PG_TRY();
	{
		finish_part(session, part, orphan, list);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		if (geterrcode() != ERRCODE_UNDEFINED_TABLE)
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
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
 * decode: then the record stays, and others are not kept waiting for it.
 */
static bool
finish_orphan(MosqlSession *session, const MosqlOrphan *orphan)
{
	MosqlBytes	rest = orphan->record.parts;
	MosqlPart	part;
	MosqlSnapshotList list;
	uint64		schema;
	int			got;

	mosql_clock_snapshots(&session->stepper, &list, &schema);
	while ((got = mosql_part_next(&rest, &part)) == 1)
		try_part(session, &part, orphan, &list);
	if (got < 0)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged record of transaction " UINT64_FORMAT "." UINT64_FORMAT " in namespace \"%s\"",
						orphan->tx.session, orphan->tx.n, session->config.ns),
				 errdetail("Its list of participants does not decode.")));
	return got == 0;
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
		if (committed && !finish_orphan(session, &orphans[i]))
		{
			MemoryContextSwitchTo(old);
			continue;
		}
		MOSQL_DEBUG_POINT("maintain-applied");
		if (mosql_clock_reap(&session->stepper, orphans[i].tx.session, &orphans[i].tx.n,
							 committed ? 1 : 0))
		{
			counts->reaped += committed;
			any = true;
		}
		MOSQL_DEBUG_POINT("maintain-reaped");
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
