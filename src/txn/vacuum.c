/*
 * vacuum.c: what transactions leave in leaves and nobody needs any more.
 *
 * Layer: txn.  Maintenance goes through a tree in batches of leaves.  In each:
 *
 *   1. finish splits, so that no part of a leaf is frozen;
 *   2. settle intents and read marks: of decided transactions at once, the way
 *      any helper does (recover.c); undecided ones are remembered, and if they
 *      are still there intent_timeout later, aborted;
 *   3. remove old versions and tombstones that no snapshot needs: one step per
 *      leaf that has any;
 *   4. merge leaves away that are empty now (btree/merge.c).
 *
 * Nothing here is special: every step is one that a writer or helper might make,
 * and compares what it relies on.  So any number of maintainers may be at it, and
 * one may die anywhere.
 *
 * Pruning beside commits.  The list of snapshots is drawn first (rule 10), and
 * old lists only prune less (code/history.c).  The step compares the generation,
 * each row it changes as a whole, and that there is no intent on it.  What a
 * transaction does that prepared before is then one of these: its intent is there,
 * so we keep off; or it is applied, so that the row differs.  What prepares after
 * us finds the same newest version as before, or, after a purge, none and the purge
 * mark (rule 11).
 */
#include "postgres.h"

#include "txn/txn_int.h"

/* Undecided transactions remembered per session; others wait for another pass. */
#define DOUBTS_MAX			1024

/* Transactions asked about in one step of the clock. */
#define STATUS_BATCH		512

/* Somebody's undecided intent or mark, and when it was first met. */
typedef struct Doubt
{
	uint64		root;
	MosqlTxid	tx;
	bool		mark;
	int64		since_us;
	MosqlBytes	key;
} Doubt;

/* Lives in the session from one batch to the next. */
struct MosqlDoubts
{
	MemoryContext cxt;
	int			n;
	Doubt		doubts[DOUBTS_MAX];
};

typedef struct Vacuum
{
	MosqlSession *session;
	MosqlTree  *tree;
	MosqlVacuumCounts *counts;
	MosqlSnapshotList list;
	int			n;
	MosqlLeaf  *leaves;			/* as read; replaced where something was settled */
} Vacuum;

/* ---- the batch ---- */

/*
 * Read the next leaves.  A leaf in the middle of a split would keep its frozen part
 * to itself: finish it and read again.
 */
static void
read_batch(Vacuum *vacuum, MosqlBytes from, int max_leaves)
{
	for (int attempt = 0;; attempt++)
	{
		MosqlScan  *scan = mosql_btree_scan_begin(vacuum->tree, from, MOSQL_ABSENT, false, max_leaves);
		int			frozen = 0;

		/* the scan, and with it the leaves, lives in the context of the batch */
		vacuum->n = mosql_btree_scan_next(scan, &vacuum->leaves);
		for (int i = 0; i < vacuum->n; i++)
		{
			MosqlLeafGroup *group;

			if (vacuum->leaves[i].meta.state != MOSQL_NODE_SPLITTING)
				continue;
			(void) mosql_btree_group(vacuum->tree, &vacuum->leaves[i].meta.split_key, 1, &group);
			frozen++;
		}
		vacuum->counts->splits_finished += frozen;
		if (frozen == 0 || attempt > 0)
			return;
		mosql_btree_scan_end(scan);
	}
}

/* ---- intents and marks ---- */

static int
compare_txids(const void *a, const void *b)
{
	const MosqlTxid *x = a;
	const MosqlTxid *y = b;

	if (x->session != y->session)
		return x->session < y->session ? -1 : 1;
	return (x->n > y->n) - (x->n < y->n);
}

/* What the clock says about the transactions met in a batch. */
typedef struct Verdicts
{
	int			n;
	int			max;
	MosqlTxid  *txs;			/* ascending */
	MosqlRecord *records;
} Verdicts;

static void
add_txid(Verdicts *verdicts, MosqlTxid tx)
{
	if (verdicts->n > 0 && mosql_txid_equal(verdicts->txs[verdicts->n - 1], tx))
		return;
	if (verdicts->n == verdicts->max)
	{
		verdicts->max = Max(64, 2 * verdicts->max);
		verdicts->txs = verdicts->txs == NULL ? palloc(verdicts->max * sizeof(MosqlTxid)) :
			repalloc_huge(verdicts->txs, verdicts->max * sizeof(MosqlTxid));
	}
	verdicts->txs[verdicts->n++] = tx;
}

static bool
next_intent(Vacuum *vacuum, const MosqlLeaf *leaf, MosqlBytes *rest, MosqlIntent *intent)
{
	int			got = mosql_intent_next(rest, intent);

	if (got < 0)
		mosql_report_damage(vacuum->session->config.ns, leaf->node, "an intent does not decode");
	return got == 1;
}

/* Ask the clock about everybody who has an intent or a mark in the batch. */
static void
ask_clock(Vacuum *vacuum, Verdicts *verdicts)
{
	int			out = 0;

	for (int i = 0; i < vacuum->n; i++)
	{
		const MosqlLeaf *leaf = &vacuum->leaves[i];

		for (int e = 0; e < leaf->n; e++)
		{
			MosqlBytes	rest = leaf->entries[e].intent;
			MosqlIntent intent;

			while (next_intent(vacuum, leaf, &rest, &intent))
				add_txid(verdicts, intent.tx);
		}
		for (size_t at = 0; at + MOSQL_TXID_BYTES <= leaf->range_marks.len; at += MOSQL_TXID_BYTES)
			add_txid(verdicts, mosql_txid_get(leaf->range_marks.data + at));
	}
	if (verdicts->n == 0)
		return;
	qsort(verdicts->txs, verdicts->n, sizeof(MosqlTxid), compare_txids);
	for (int i = 0; i < verdicts->n; i++)
		if (out == 0 || !mosql_txid_equal(verdicts->txs[out - 1], verdicts->txs[i]))
			verdicts->txs[out++] = verdicts->txs[i];
	verdicts->n = out;
	verdicts->records = palloc_extended(out * sizeof(MosqlRecord), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (int done = 0; done < out; done += STATUS_BATCH)
		mosql_clock_status(&vacuum->session->stepper, verdicts->txs + done,
						   Min(out - done, STATUS_BATCH), verdicts->records + done, &vacuum->list);
}

static const MosqlRecord *
verdict_on(const Verdicts *verdicts, MosqlTxid tx)
{
	const MosqlTxid *found = bsearch(&tx, verdicts->txs, verdicts->n, sizeof(MosqlTxid),
									 compare_txids);

	Assert(found != NULL);
	return &verdicts->records[found - verdicts->txs];
}

/* Remember an undecided transaction; if there is no room another pass will. */
static void
note_doubt(Vacuum *vacuum, MosqlBytes key, MosqlTxid tx, bool mark)
{
	MosqlSession *session = vacuum->session;
	uint64		root = mosql_btree_root(vacuum->tree);
	struct MosqlDoubts *doubts = session->doubts;
	Doubt	   *doubt;

	if (doubts == NULL)
	{
		doubts = session->doubts = MemoryContextAllocZero(session->cxt, sizeof(struct MosqlDoubts));
		doubts->cxt = AllocSetContextCreate(session->cxt, "mosql doubts", ALLOCSET_SMALL_SIZES);
	}
	for (int i = 0; i < doubts->n; i++)
		if (mosql_txid_equal(doubts->doubts[i].tx, tx) && doubts->doubts[i].root == root &&
			doubts->doubts[i].mark == mark && mosql_bytes_equal(doubts->doubts[i].key, key))
			return;
	if (doubts->n == DOUBTS_MAX)
		return;
	doubt = &doubts->doubts[doubts->n++];
	*doubt = (Doubt) {
		.root = root, .tx = tx, .mark = mark, .since_us = mosql_now_us(),
		.key = mosql_bytes_copy(doubts->cxt, key)
	};
}

/* Take a decided transaction's mark off a leaf. */
static void
unmark(Vacuum *vacuum, MosqlBytes low, MosqlTxid tx)
{
	StringInfoData high;

	initStringInfo(&high);
	appendBinaryStringInfo(&high, low.data, low.len);
	appendStringInfoChar(&high, '\0');
	mosql_recover_unmark(vacuum->session, vacuum->tree, low, mosql_bytes_of(&high), tx);
	vacuum->counts->marks_removed++;
}

/* One intent; true if the leaf is no longer as it was read. */
static bool
settle_intent(Vacuum *vacuum, MosqlBytes key, MosqlTxid tx, const MosqlRecord *record)
{
	switch (record->state)
	{
		case MOSQL_RECORD_COMMITTED:
			mosql_recover_apply(vacuum->session, vacuum->tree, key, tx, record->ts, &vacuum->list);
			vacuum->counts->intents_applied++;
			return true;
		case MOSQL_RECORD_ABORTED:

			/*
			 * Final only if the intent is there still (rule 4), which is what
			 * removing it compares: an applied one never comes back.
			 */
			mosql_recover_remove(vacuum->session, vacuum->tree, key, tx);
			vacuum->counts->intents_removed++;
			return true;
		default:
			note_doubt(vacuum, key, tx, false);
			return false;
	}
}

/* Settle all of a leaf that can be; read it again if that changed it. */
static void
settle_leaf(Vacuum *vacuum, MosqlLeaf *leaf, const Verdicts *verdicts)
{
	bool		changed = false;

	for (int e = 0; e < leaf->n; e++)
	{
		MosqlBytes	rest = leaf->entries[e].intent;
		MosqlIntent intent;

		while (next_intent(vacuum, leaf, &rest, &intent))
			changed |= settle_intent(vacuum, leaf->entries[e].key, intent.tx,
									 verdict_on(verdicts, intent.tx));
	}
	for (size_t at = 0; at + MOSQL_TXID_BYTES <= leaf->range_marks.len; at += MOSQL_TXID_BYTES)
	{
		MosqlTxid	tx = mosql_txid_get(leaf->range_marks.data + at);

		/* a decided transaction's marks may go, whether it is applied or not */
		if (verdict_on(verdicts, tx)->state == MOSQL_RECORD_NONE)
			note_doubt(vacuum, leaf->meta.low, tx, true);
		else
		{
			unmark(vacuum, leaf->meta.low, tx);
			changed = true;
		}
	}
	if (changed)
	{
		MosqlBytes	low = mosql_bytes_copy(CurrentMemoryContext, leaf->meta.low);

		*leaf = *mosql_btree_read_leaf(vacuum->tree, low);
	}
}

static bool
is_still_there(Vacuum *vacuum, const Doubt *doubt)
{
	MosqlPoint	point = {0};
	MosqlIntent intent;

	if (doubt->mark)
		return true;
	mosql_btree_get(vacuum->tree, &doubt->key, 1, &point);
	return mosql_intents_find(point.intent, doubt->tx, &intent);
}

/* Returns false if it is too early. */
static bool
resolve_doubt(Vacuum *vacuum, const Doubt *doubt)
{
	MosqlBlocker blocker = {
		.tree = vacuum->tree, .key = doubt->key, .tx = doubt->tx, .mark = doubt->mark
	};

	if (mosql_now_us() - doubt->since_us < (int64) mosql_txn_intent_timeout_ms * 1000)
		return false;
	if (is_still_there(vacuum, doubt))
	{
		if (!mosql_recover_blocker(vacuum->session, &blocker, doubt->since_us))
			return false;
		if (doubt->mark)
			vacuum->counts->marks_removed++;
		else
			vacuum->counts->intents_removed++;
	}
	return true;
}

/*
 * Resolve what was in doubt for long enough; all: wait until that is so for
 * everything of this tree, intent_timeout at most.
 */
static void
resolve_doubts(Vacuum *vacuum, bool all)
{
	struct MosqlDoubts *doubts = vacuum->session->doubts;
	uint64		root = mosql_btree_root(vacuum->tree);
	int			left = 0;

	if (doubts == NULL)
		return;
	for (int i = 0; i < doubts->n; i++)
	{
		Doubt	   *doubt = &doubts->doubts[i];

		if (doubt->root == root)
		{
			MosqlBudget budget = mosql_budget_start(mosql_txn_intent_timeout_ms + 1000);
			bool		done;

			while (!(done = resolve_doubt(vacuum, doubt)) && all && mosql_budget_pause(&budget))
				;
			if (done || all)
				continue;
		}
		doubts->doubts[left++] = *doubt;
	}
	doubts->n = left;
	if (left == 0)
		MemoryContextReset(doubts->cxt);
}

/* Forget what was in doubt in this tree: another pass begins. */
static void
forget_doubts(Vacuum *vacuum)
{
	struct MosqlDoubts *doubts = vacuum->session->doubts;
	int			left = 0;

	if (doubts == NULL)
		return;
	for (int i = 0; i < doubts->n; i++)
		if (doubts->doubts[i].root != mosql_btree_root(vacuum->tree))
			doubts->doubts[left++] = doubts->doubts[i];
	doubts->n = left;
}

/* ---- versions and tombstones ---- */

/* A leaf's step and what it does. */
typedef struct Prune
{
	MosqlStep	step;
	int			npruned;
	int			npurged;
	MosqlTimestamp purged;		/* highest tombstone that goes */
	bool		empties;		/* nothing is left after it */
} Prune;

/* The row as read, and nobody at it. */
static void
expect_row(MosqlStep *step, const MosqlEntry *entry)
{
	mosql_step_expect(step, MOSQL_COMPARE_ONLY, mosql_field_name(MOSQL_FIELD_ROW, entry->key), 0,
					  entry->row);
	mosql_step_expect(step, MOSQL_COMPARE_ABSENT,
					  mosql_field_name(MOSQL_FIELD_INTENT, entry->key), 0, MOSQL_ABSENT);
}

/* Add what is to be done about one row; true if it stays in some form. */
static bool
prune_row(Vacuum *vacuum, const MosqlLeaf *leaf, const MosqlEntry *entry, Prune *prune)
{
	MosqlStep  *step = &prune->step;
	MosqlVersion newest;
	StringInfoData out;

	if (entry->row.data == NULL || entry->intent.data != NULL || entry->marks.data != NULL)
		return true;
	if (!mosql_row_newest(entry->row, &newest))
		mosql_report_damage(vacuum->session->config.ns, leaf->node, "a row does not decode");
	if (!newest.live && mosql_row_may_purge(newest.ts, &vacuum->list))
	{
		expect_row(step, entry);
		step->writes[step->nwrites++] = (MosqlWrite)
		{
			MOSQL_WRITE_DELETE, mosql_field_name(MOSQL_FIELD_ROW, entry->key), MOSQL_ABSENT
		};
		prune->purged = Max(prune->purged, newest.ts);
		prune->npurged++;
		return false;
	}
	if (memchr("LT", entry->row.data[MOSQL_ROW_KIND_OFFSET], 2) != NULL)
		return true;			/* plain: most rows */
	initStringInfo(&out);
	switch (mosql_row_prune(&out, entry->row, &vacuum->list))
	{
		case MOSQL_PRUNED_NOTHING:
			break;
		case MOSQL_PRUNED_SOME:
			expect_row(step, entry);
			step->writes[step->nwrites++] = (MosqlWrite)
			{
				MOSQL_WRITE_SET, mosql_field_name(MOSQL_FIELD_ROW, entry->key), mosql_bytes_of(&out)
			};
			prune->npruned++;
			break;
		case MOSQL_PRUNED_DAMAGED:
			mosql_report_damage(vacuum->session->config.ns, leaf->node, "a row does not decode");
	}
	return true;
}

/* The step for a leaf; no writes if there is nothing to do. */
static Prune *
plan_prune(Vacuum *vacuum, const MosqlLeaf *leaf)
{
	static MosqlBytes meta_field = {"m", 1};
	Prune	   *prune = palloc0(sizeof(Prune));
	MosqlStep  *step = &prune->step;

	step->node = leaf->node;
	step->repeatable = true;
	step->compares = palloc((2 * leaf->n + 1) * sizeof(MosqlCompare));
	step->writes = palloc((leaf->n + 1) * sizeof(MosqlWrite));
	step->reads = &meta_field;
	step->nreads = 1;
	mosql_step_expect(step, MOSQL_COMPARE_EQUAL, MOSQL_META_FIELD, 0,
					  mosql_generation_bytes(leaf->meta.generation));
	prune->empties = leaf->range_marks.data == NULL;
	for (int i = 0; i < leaf->n; i++)
		if (prune_row(vacuum, leaf, &leaf->entries[i], prune))
			prune->empties = false;
	if (prune->npurged > 0)
		step->writes[step->nwrites++] = (MosqlWrite)
		{
			MOSQL_WRITE_MAX, MOSQL_PURGED_FIELD, mosql_ts_bytes(prune->purged)
		};
	return prune;
}

/*
 * Prune all leaves of the batch, in one round trip.  Where somebody was faster
 * nothing happens: whoever writes a row prunes it, and another pass comes.
 * Returns the leaves that are empty now.
 */
static int
prune_leaves(Vacuum *vacuum, MosqlLeaf **empty)
{
	MosqlStep **steps = palloc(vacuum->n * sizeof(MosqlStep *) + 1);
	Prune	  **prunes = palloc(vacuum->n * sizeof(Prune *) + 1);
	int			nsteps = 0;
	int			nempty = 0;

	for (int i = 0; i < vacuum->n; i++)
	{
		prunes[i] = plan_prune(vacuum, &vacuum->leaves[i]);
		if (prunes[i]->step.nwrites > 0)
			steps[nsteps++] = &prunes[i]->step;
	}
	if (nsteps > 0)
	{
		MOSQL_DEBUG_POINT("vacuum-prune");
		mosql_step_run(&vacuum->session->stepper, steps, nsteps, NULL);
	}
	for (int i = 0; i < vacuum->n; i++)
	{
		const Prune *prune = prunes[i];

		if (prune->step.nwrites > 0 && prune->step.status != MOSQL_STEP_DONE)
		{
			if (prune->step.status == MOSQL_STEP_FAILED && prune->step.failed == 0)
				mosql_btree_observe(vacuum->tree, prune->step.node, prune->step.values[0], -1);
			continue;
		}
		vacuum->counts->rows_pruned += prune->npruned;
		vacuum->counts->tombstones_purged += prune->npurged;
		if (prune->empties)
			empty[nempty++] = &vacuum->leaves[i];
	}
	return nempty;
}

/* ---- one call ---- */

static bool
vacuum_batch(Vacuum *vacuum, StringInfo position, int max_leaves)
{
	Verdicts	verdicts = {0};
	MosqlLeaf **empty;
	uint64		schema;
	MosqlBytes	next;
	int			nempty;

	mosql_clock_snapshots(&vacuum->session->stepper, &vacuum->list, &schema);
	if (position->len == 0)
		forget_doubts(vacuum);
	read_batch(vacuum, mosql_bytes_of(position), Min(Max(max_leaves, 1), 64));
	vacuum->counts->leaves += vacuum->n;
	next = vacuum->n > 0 ? vacuum->leaves[vacuum->n - 1].meta.high : MOSQL_ABSENT;
	next = mosql_bytes_copy(CurrentMemoryContext, next);

	ask_clock(vacuum, &verdicts);
	for (int i = 0; i < vacuum->n; i++)
		settle_leaf(vacuum, &vacuum->leaves[i], &verdicts);
	empty = palloc(vacuum->n * sizeof(MosqlLeaf *) + 1);
	nempty = prune_leaves(vacuum, empty);
	if (nempty > 0)
		vacuum->counts->leaves_merged += mosql_btree_merge_leaves(vacuum->tree, empty, nempty);
	vacuum->counts->leaves_merged += mosql_btree_merge_parents(vacuum->tree, next);

	resetStringInfo(position);
	resolve_doubts(vacuum, next.data == NULL);
	if (next.data == NULL)
		return false;
	appendBinaryStringInfo(position, next.data, next.len);
	return true;
}

/* See txn.h. */
bool
mosql_vacuum_tree(MosqlSession *session, MosqlTree *tree, StringInfo position, int max_leaves,
				  MosqlVacuumCounts *counts)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql vacuum",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Vacuum		vacuum = {.session = session, .tree = tree, .counts = counts};
	bool		more;

	more = vacuum_batch(&vacuum, position, max_leaves);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return more;
}
