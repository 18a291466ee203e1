/*
 * vacuum.c: what transactions leave in leaves and nobody needs any more.
 *
 * Layer: txn.  Maintenance goes through a tree in batches of leaves.  In each:
 *
 *   1. finish splits, so that no part of a leaf is frozen;
 *   2. settle intents and read marks: of decided transactions, the way any helper
 *      does (recover.c); undecided ones are left alone while their session lives,
 *      however long they take, and aborted once it is dead; locks, and waits for them,
 *      of sessions that are dead (who waits for such a lock does not wait for us);
 *   3. remove old versions and tombstones that no snapshot needs: one step per
 *      leaf that has any;
 *   4. merge leaves away that are empty now (btree/merge.c);
 *   5. pack leaves that nobody has written to for a while (btree/pack.c).
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

#include "code/block.h"
#include "code/claim.h"
#include "code/loaded.h"
#include "txn/recover.h"

/* Transactions asked about in one step of the clock. */
#define STATUS_BATCH		512

/* Sessions that ended, forgotten in one step. */
#define EXPIRE_BATCH		100

typedef struct Vacuum
{
	MosqlSession *session;
	MosqlTree  *tree;
	MosqlVacuumCounts *counts;
	MosqlPacking packing;
	MosqlSnapshotList list;
	bool		asked;			/* who lives, in this batch: */
	MosqlSessions sessions;
	int			n;
	MosqlLeaf  *leaves;			/* as read; replaced where something was settled */
	bool	   *changed;		/* by pruning: not as read any more */
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
			if (vacuum->leaves[i].meta.state != MOSQL_NODE_SPLITTING)
				continue;
			mosql_btree_finish_split(vacuum->tree, vacuum->leaves[i].node);
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

/* Up to where a transaction's intents are off the leaves. */
typedef struct Cleared
{
	bool		any;
	MosqlBytes	end;			/* absent: no end */
} Cleared;

/* What the clock says about the transactions met in a batch, and what became of them. */
typedef struct Verdicts
{
	int			n;
	int			max;
	MosqlTxid  *txs;			/* ascending */
	MosqlRecord *records;
	Cleared    *cleared;
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
	verdicts->cleared = palloc_extended(out * sizeof(Cleared), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (int done = 0; done < out; done += STATUS_BATCH)
		mosql_clock_status(&vacuum->session->stepper, verdicts->txs + done,
						   Min(out - done, STATUS_BATCH), verdicts->records + done, &vacuum->list);
}

/* Dead for good, that is forgotten; asked once in a batch. */
static bool
is_dead(Vacuum *vacuum, uint64 sid)
{
	if (!vacuum->asked)
	{
		(void) mosql_clock_expire(&vacuum->session->stepper, EXPIRE_BATCH);
		mosql_clock_sessions(&vacuum->session->stepper, &vacuum->sessions);
		vacuum->asked = true;
	}
	return mosql_clock_is_dead(&vacuum->sessions, sid);
}

/*
 * Undecided transactions of dead sessions are aborted.  While a session lives nobody but
 * a writer in need takes its transaction for dead: a commit may take its time, and
 * meets nobody when only maintenance is about.
 *
 * Race -- it was decided after we asked, and its session died since: "aborted" is only
 * written if there is no record, and who is dead for good decides nothing any more.
 */
static void
abort_dead(Vacuum *vacuum, Verdicts *verdicts)
{
	for (int i = 0; i < verdicts->n; i++)
		if (verdicts->records[i].state == MOSQL_RECORD_NONE &&
			is_dead(vacuum, verdicts->txs[i].session))
			mosql_clock_abort(&vacuum->session->stepper, verdicts->txs[i], &verdicts->records[i],
							  &vacuum->list);
}

/* Where in the verdicts it is. */
static int
find_verdict(const Verdicts *verdicts, MosqlTxid tx)
{
	const MosqlTxid *found = bsearch(&tx, verdicts->txs, verdicts->n, sizeof(MosqlTxid),
									 compare_txids);

	Assert(found != NULL);
	return (int) (found - verdicts->txs);
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

/*
 * One intent; true if the leaf is no longer as it was read.  A transaction's intents go a
 * leaf at a time, those of the keys to come with the first: a leaf is read once for each
 * transaction, not once for each key.
 *
 * "Aborted" is final only if the intent is there still (rule 4), which is what removing it
 * compares: an applied one never comes back.
 */
static bool
settle_intent(Vacuum *vacuum, MosqlBytes key, MosqlTxid tx, const Verdicts *verdicts)
{
	int			i = find_verdict(verdicts, tx);
	const MosqlRecord *record = &verdicts->records[i];
	Cleared    *cleared = &verdicts->cleared[i];
	bool		committed = record->state == MOSQL_RECORD_COMMITTED;

	if (!committed && record->state != MOSQL_RECORD_ABORTED)
		return false;
	if (!cleared->any || (cleared->end.data != NULL &&
						  mosql_bytes_compare(key, cleared->end) >= 0))
		cleared->end = committed ?
			mosql_recover_apply_leaf(vacuum->session, vacuum->tree, key, tx, record->ts, &vacuum->list) :
			mosql_recover_remove(vacuum->session, vacuum->tree, key, tx);
	cleared->any = true;
	if (committed)
		vacuum->counts->intents_applied++;
	else
		vacuum->counts->intents_removed++;
	return true;
}

/* Is it for the owner of an aborted attempt, who lives, to take this leaf back, for it stands for locks of his (rule 56)? */
static bool
is_left_to_owner(Vacuum *vacuum, const MosqlLeaf *leaf, MosqlTxid tx, const Verdicts *verdicts)
{
	return leaf->meta.loaded.locks && verdicts->records[find_verdict(verdicts, tx)].state == MOSQL_RECORD_ABORTED &&
		tx.session != vacuum->session->sid && !is_dead(vacuum, tx.session);
}

/* The owners of a field's claims who are dead: 16 bytes each. */
static MosqlBytes
dead_owners(Vacuum *vacuum, MosqlBytes field)
{
	StringInfoData owners;
	MosqlClaim	claim;

	initStringInfo(&owners);
	while (mosql_claim_next(&field, &claim))
		if (is_dead(vacuum, claim.owner.session))
			mosql_txid_put(&owners, claim.owner);
	return mosql_bytes_of(&owners);
}

/*
 * Take what the dead have locked, or wait for, off a leaf, in one step, which lets in whoever
 * waits for it (rule 30).  Nothing of the rows is compared: a claim is its owner's, by an id
 * that nobody else ever has, and the dead do not come back (7).  What is not there any more
 * somebody else has taken out.  False if there was nothing, or the leaf has changed.
 */
static bool
remove_claims(Vacuum *vacuum, const MosqlLeaf *leaf)
{
	MosqlStep	step = {.node = leaf->node, .repeatable = true, .no_count = true};
	MosqlStep  *steps[1] = {&step};
	MosqlCompare compare;
	int			removed = 0;

	step.compares = &compare;
	mosql_step_expect(&step, MOSQL_COMPARE_EQUAL, MOSQL_META_FIELD, 0,
					  mosql_generation_bytes(leaf->meta.generation));
	step.writes = palloc(leaf->n * sizeof(MosqlWrite) + 1);
	for (int e = 0; e < leaf->n; e++)
	{
		MosqlBytes	owners = dead_owners(vacuum, leaf->entries[e].intent);

		if (owners.len == 0)
			continue;
		removed += (int) (owners.len / MOSQL_TXID_BYTES);
		step.writes[step.nwrites++] = (MosqlWrite)
		{
			MOSQL_WRITE_UNLIST, mosql_field_name(MOSQL_FIELD_INTENT, leaf->entries[e].key), owners
		};
	}
	if (removed == 0)
		return false;
	mosql_step_run(&vacuum->session->stepper, steps, 1, NULL);
	if (step.status != MOSQL_STEP_DONE)
		return false;
	vacuum->counts->intents_removed += removed;
	return true;
}

/* Settle all of a leaf that can be; read it again if that changed it. */
static void
settle_leaf(Vacuum *vacuum, MosqlLeaf *leaf, const Verdicts *verdicts)
{
	bool		changed = remove_claims(vacuum, leaf);

	for (int e = 0; e < leaf->n; e++)
	{
		MosqlBytes	rest = leaf->entries[e].intent;
		MosqlIntent intent;

		while (next_intent(vacuum, leaf, &rest, &intent) && !is_left_to_owner(vacuum, leaf, intent.tx, verdicts))
			changed |= settle_intent(vacuum, leaf->entries[e].key, intent.tx, verdicts);
	}
	for (size_t at = 0; at + MOSQL_TXID_BYTES <= leaf->range_marks.len; at += MOSQL_TXID_BYTES)
	{
		MosqlTxid	tx = mosql_txid_get(leaf->range_marks.data + at);

		/* a decided transaction's marks may go, whether it is applied or not */
		if (verdicts->records[find_verdict(verdicts, tx)].state == MOSQL_RECORD_NONE)
			continue;
		unmark(vacuum, leaf->meta.low, tx);
		changed = true;
	}
	if (changed)
	{
		MosqlBytes	low = mosql_bytes_copy(CurrentMemoryContext, leaf->meta.low);

		*leaf = *mosql_btree_read_leaf(vacuum->tree, low);
	}
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

/*
 * The row is there, as read, and nobody is at it.  Absent would not do: who deletes it
 * meanwhile may have left no tombstone, and we would bring it back.
 */
static void
expect_row(MosqlStep *step, const MosqlEntry *entry)
{
	Assert(entry->row.data != NULL);
	mosql_step_expect_same(step, mosql_field_name(MOSQL_FIELD_ROW, entry->key), entry->row);
	mosql_step_expect(step, MOSQL_COMPARE_ABSENT,
					  mosql_field_name(MOSQL_FIELD_INTENT, entry->key), 0, MOSQL_ABSENT);
}

/* Does the block of a packed leaf have a row that lives, which is hidden by a field? */
static bool
is_in_block(const Vacuum *vacuum, const MosqlLeaf *leaf, MosqlBytes key)
{
	MosqlBytes	row;
	MosqlVersion newest;

	if (!mosql_block_find(leaf->block, &key, 1, &row) || !mosql_loaded_take(&leaf->meta.loaded, &row, NULL, 1) ||
		(row.data != NULL && !mosql_row_newest(row, &newest)))
		mosql_report_damage(vacuum->session->config.ns, leaf->node, "its block does not decode");
	return row.data != NULL && newest.live;
}

/* Add what is to be done about one row; true if it stays in some form. */
static bool
prune_row(Vacuum *vacuum, const MosqlLeaf *leaf, const MosqlEntry *entry, Prune *prune)
{
	MosqlStep  *step = &prune->step;
	MosqlVersion newest;
	StringInfoData out;

	if (entry->row.data == NULL || entry->intent.data != NULL || entry->marks.data != NULL || entry->in_block)
		return true;
	if (!mosql_row_newest(entry->row, &newest))
		mosql_report_damage(vacuum->session->config.ns, leaf->node, "a row does not decode");
	if (!newest.live && mosql_row_may_purge(newest.ts, &vacuum->list))
	{
		/* an older version in the block would be back */
		if (leaf->meta.state == MOSQL_NODE_PACKED && is_in_block(vacuum, leaf, entry->key))
			return true;
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

static bool
is_at_rest(const MosqlLeaf *leaf)
{
	return leaf->meta.state == MOSQL_NODE_NORMAL || leaf->meta.state == MOSQL_NODE_PACKED;
}

/* Is all that a packed leaf holds deleted, in its block? */
static bool
is_all_deleted(const MosqlLeaf *leaf)
{
	MosqlVersion newest;

	for (int i = 0; i < leaf->n; i++)
		if (!leaf->entries[i].in_block || leaf->entries[i].intent.data != NULL || leaf->entries[i].marks.data != NULL ||
			!mosql_row_newest(leaf->entries[i].row, &newest) || newest.live)
			return false;
	return true;
}

/*
 * What is to be done about a block: nobody asks any more what was before it was written as a whole; and if nothing is left
 * of it the leaf becomes one that can be merged away: who has inserted beside the block meanwhile keeps his field.
 */
static void
plan_block(Vacuum *vacuum, const MosqlLeaf *leaf, Prune *prune)
{
	MosqlStep  *step = &prune->step;
	bool		empty = is_all_deleted(leaf);

	if (leaf->meta.loaded.whole ? !mosql_row_may_purge(leaf->meta.loaded.since, &vacuum->list) : !empty)
		return;
	step->writes[step->nwrites++] = (MosqlWrite)
	{
		MOSQL_WRITE_SET, MOSQL_META_FIELD, mosql_btree_plain_meta(&leaf->meta, empty)
	};
	if (leaf->meta.loaded.deletes)	/* as the meta says: a field may hide it, and a failover forget that (53) */
		prune->purged = Max(prune->purged, leaf->meta.loaded.since);
	if (!empty)
		return;
	step->writes[step->nwrites++] = (MosqlWrite)
	{
		MOSQL_WRITE_DELETE, mosql_btree_block_field(), MOSQL_ABSENT
	};
	prune->empties = leaf->range_marks.data == NULL;
}

/*
 * The step for a leaf; no writes if there is nothing to do.  A leaf that is being split
 * again since read_batch() may have an old copy of the frozen rows (rule 20): left alone.
 */
static Prune *
plan_prune(Vacuum *vacuum, const MosqlLeaf *leaf)
{
	static MosqlBytes meta_field = {"m", 1};
	Prune	   *prune = palloc0(sizeof(Prune));
	MosqlStep  *step = &prune->step;

	step->node = leaf->node;
	step->repeatable = true;
	step->compares = palloc((2 * leaf->n + 1) * sizeof(MosqlCompare));
	step->writes = palloc((leaf->n + 3) * sizeof(MosqlWrite));
	step->reads = &meta_field;
	step->nreads = 1;
	mosql_step_expect(step, MOSQL_COMPARE_EQUAL, MOSQL_META_FIELD, 0,
					  mosql_generation_bytes(leaf->meta.generation));
	prune->empties = leaf->range_marks.data == NULL && leaf->meta.state == MOSQL_NODE_NORMAL;
	for (int i = 0; i < leaf->n && is_at_rest(leaf); i++)
		if (prune_row(vacuum, leaf, &leaf->entries[i], prune))
			prune->empties = false;
	if (leaf->meta.state == MOSQL_NODE_PACKED && !leaf->clipped)
		plan_block(vacuum, leaf, prune);
	if (prune->purged > 0)
		step->writes[step->nwrites++] = (MosqlWrite)
		{
			MOSQL_WRITE_MAX, MOSQL_PURGED_FIELD, mosql_ts_bytes(prune->purged)
		};
	return prune;
}

/* A step that was done may have written the leaf's meta: that is what it is from now on, for who merges it away. */
static void
take_meta(Vacuum *vacuum, const MosqlStep *step, MosqlLeaf *leaf)
{
	MosqlBytes	written = mosql_step_sets(step, MOSQL_META_FIELD);

	if (written.data == NULL)
		return;
	if (!mosql_meta_decode(written, &leaf->meta))
		mosql_report_damage(vacuum->session->config.ns, leaf->node, "its meta does not decode");
	mosql_btree_remember(vacuum->tree, step);
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
		vacuum->changed[i] = prunes[i]->step.nwrites > 0;
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
		take_meta(vacuum, &prune->step, &vacuum->leaves[i]);
		if (prune->empties)
			empty[nempty++] = &vacuum->leaves[i];
	}
	return nempty;
}

/* ---- leaves that nobody writes to ---- */

/*
 * Are all rows of a leaf plain, live, and old, and is nothing else there?  Who reads, at whatever
 * snapshot, finds in a block what he would find in the fields, so nobody's snapshot is asked about.
 */
static bool
is_quiet(const Vacuum *vacuum, const MosqlLeaf *leaf)
{
	MosqlVersion newest;

	for (int e = 0; e < leaf->n; e++)
	{
		const MosqlEntry *entry = &leaf->entries[e];

		if (entry->row.data == NULL || entry->intent.data != NULL || entry->marks.data != NULL ||
			!mosql_row_newest(entry->row, &newest) || newest.ts >= vacuum->packing.before ||
			entry->row.data[MOSQL_ROW_KIND_OFFSET] != *MOSQL_ROW_PLAIN_KIND)
			return false;
	}
	return leaf->range_marks.data == NULL;
}

static void
pack_leaves(Vacuum *vacuum)
{
	const MosqlLeaf **ripe = palloc(vacuum->n * sizeof(MosqlLeaf *) + 1);
	int			n = 0;

	for (int i = 0; i < vacuum->n; i++)
	{
		const MosqlLeaf *leaf = &vacuum->leaves[i];

		if (!vacuum->changed[i] && mosql_btree_may_pack(leaf) && is_quiet(vacuum, leaf))
			ripe[n++] = leaf;
	}
	if (n > 0)
		mosql_btree_pack(vacuum->tree, ripe, n, vacuum->packing.how, &vacuum->counts->packed);
}

/* ---- one call ---- */

/*
 * Each leaf once, ascending.  Race -- another maintainer merged a leaf away while we settled what it
 * held: what was read again in its place is its left neighbour, which we have already, as it was.
 */
static void
drop_overtaken(Vacuum *vacuum)
{
	int			n = 0;

	for (int i = 0; i < vacuum->n; i++)
	{
		while (n > 0 && mosql_bytes_compare(vacuum->leaves[n - 1].meta.low, vacuum->leaves[i].meta.low) >= 0)
			n--;
		vacuum->leaves[n++] = vacuum->leaves[i];
	}
	vacuum->n = n;
}

/*
 * What the leaves of a batch hold, by what the clock says.  Race -- it forgets the record in between: a server has come back
 * with what it had a while ago.  Then a connection has broken (34); nothing more is done by that answer, and the batch is left
 * to another pass.
 */
static void
settle_leaves(void *arg)
{
	Vacuum	   *vacuum = arg;
	Verdicts	verdicts = {0};

	ask_clock(vacuum, &verdicts);
	abort_dead(vacuum, &verdicts);
	for (int i = 0; i < vacuum->n; i++)
		settle_leaf(vacuum, &vacuum->leaves[i], &verdicts);
}

static bool
vacuum_batch(Vacuum *vacuum, StringInfo position, int max_leaves)
{
	MosqlLeaf **empty;
	uint64		schema;
	MosqlBytes	next;
	int			nempty;

	mosql_clock_snapshots(&vacuum->session->stepper, &vacuum->list, &schema);
	read_batch(vacuum, mosql_bytes_of(position), Min(Max(max_leaves, 1), 64));
	vacuum->counts->leaves += vacuum->n;
	next = vacuum->n > 0 ? vacuum->leaves[vacuum->n - 1].meta.high : MOSQL_ABSENT;
	next = mosql_bytes_copy(CurrentMemoryContext, next);

	if (!mosql_session_try_unbroken(vacuum->session, settle_leaves, vacuum))
		vacuum->n = 0;
	drop_overtaken(vacuum);
	empty = palloc(vacuum->n * sizeof(MosqlLeaf *) + 1);
	vacuum->changed = palloc0(vacuum->n * sizeof(bool) + 1);
	nempty = prune_leaves(vacuum, empty);
	if (nempty > 0)
		vacuum->counts->leaves_merged += mosql_btree_merge_leaves(vacuum->tree, empty, nempty);
	vacuum->counts->leaves_merged += mosql_btree_merge_parents(vacuum->tree, next);
	if (vacuum->packing.before > 0)
		pack_leaves(vacuum);

	resetStringInfo(position);
	if (next.data == NULL)
		return false;
	appendBinaryStringInfo(position, next.data, next.len);
	return true;
}

/* See txn.h. */
bool
mosql_vacuum_tree(MosqlSession *session, MosqlTree *tree, StringInfo position, int max_leaves,
				  MosqlPacking packing, MosqlVacuumCounts *counts)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql vacuum",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Vacuum		vacuum = {.session = session, .tree = tree, .packing = packing, .counts = counts};
	bool		more;

	more = vacuum_batch(&vacuum, position, max_leaves);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return more;
}

/* See txn.h. */
bool
mosql_vacuum_skip(MosqlTree *tree, StringInfo position)
{
	MosqlBytes	next = mosql_btree_bound_after(tree, mosql_bytes_of(position));

	resetStringInfo(position);
	if (next.data == NULL)
		return false;
	appendBinaryStringInfo(position, next.data, (int) next.len);
	return true;
}
