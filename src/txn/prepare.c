/*
 * prepare.c: place the intents, all leaves in parallel.
 *
 * Layer: txn.  One mini-transaction per leaf.  It compares
 *
 *   - the leaf's generation: so it still covers the keys and is not frozen for
 *     them (rule 2); a failed compare returns the meta, the tree looks again;
 *   - no read mark of anybody else on the leaf, if it writes there (rule 13);
 *   - per key: no intent; and the row as expected: the version that was read,
 *     or absent, or, for an increment, live (rule 15);
 *   - for keys that were only read (SERIALIZABLE, FOR UPDATE): no intent, and
 *     nothing newer than was read; for absent rows also the purge mark;
 *   - for ranges that were read (SERIALIZABLE, children): no intent, no field that is newer than was read, and the
 *     purge mark; of a packed leaf it is known by its generation that its block has nothing newer (rule 49);
 *   - of a leaf that a load is to fill: that it is empty, in place of all these (rule 46); of a packed leaf that is
 *     written anew: that nothing is beside its block, where the rows are as expected (rule 51);
 *   - for locks of more than a row (LOCK TABLE): that they are there (rule 37);
 *   - when all that is done, for keys that foreign keys lead to: the row is live, and
 *     no intent deletes it (rule 22);
 *
 * and writes the intents and, if something was read there, a read mark.
 *
 * The step compares bytes.  What a difference means is judged here, from one
 * more read of the row: a conflict (40001), somebody in the way (wait), or
 * merely another expectation (a tombstone that was purged meanwhile).
 *
 * A step whose reply was lost is never sent again: the attempt is released and
 * the next one has a new id (rule 1).
 */
#include "postgres.h"

#include "code/claim.h"
#include "txn/leaf_step.h"
#include "txn/recover.h"

/* Rows and leaves worked on at a time, so that memory stays bounded. */
#define ROUND_MAX_RANGE_LEAVES 64

/* ---- one round ---- */

typedef struct Round
{
	MosqlCommit *commit;
	int			nsteps;
	int			nitems;
	bool		again;			/* a split was in the way of something */
	bool		references;		/* the rest is done: their turn */
	bool		progress;		/* a leaf was prepared: time well spent */
	MosqlLeafStep **leaves;
} Round;

/*
 * A read mark covers a leaf as a whole, so it must not be placed while a part
 * of the leaf is on its way into another one (rule 13): the copy would miss it.
 * The next round finds the leaf as it is when the split is finished.  True if it was
 * in the way.
 */
static bool
finish_split(MosqlTree *tree, const MosqlLeafGroup *group)
{
	if (group->frozen_from.data == NULL)
		return false;
	mosql_btree_finish_split(tree, group->leaf);
	return true;
}

static bool
any_reads(MosqlItem *const *items, const MosqlLeafGroup *group)
{
	for (int i = 0; i < group->n; i++)
		if (items[group->first + i]->kind == MOSQL_ITEM_CHECK)
			return true;
	return false;
}

/* A step that only makes sure that a leaf is still loading for somebody (rule 47). */
static void
add_loading(Round *round, MosqlParticipant *part, const MosqlLeafGroup *group, MosqlItem *item)
{
	MosqlLeafStep *leaf = palloc(sizeof(MosqlLeafStep));

	mosql_leaf_step_start(leaf, part->tree, group->leaf, group->generation, 1);
	mosql_leaf_step_take(leaf, item, MOSQL_ABSENT);
	leaf->loader = group->loaded.loader;
	leaf->anew = group->loaded.over;
	round->leaves[round->nsteps++] = leaf;
}

/* Of a leaf without rows: its meta, and perhaps a purge mark. */
#define EMPTY_MAX_FIELDS	2

/*
 * Are the items of a leaf all that it is to hold, and to be one block?  `all`: none of them comes in a later round.  Who certifies
 * ranges of the tree would have to tell his own block from others.
 */
static bool
is_to_be_filled(const MosqlParticipant *part, const MosqlLeafGroup *group, const MosqlLeafStep *leaf, bool all)
{
	return part->loads != MOSQL_COMPRESSION_NONE && part->nranges == 0 && all && leaf->nitems == group->n &&
		group->nfields <= EMPTY_MAX_FIELDS;
}

/* A step for some items of a leaf, and what its block has of them. */
static void
add_items(Round *round, const MosqlParticipant *part, const MosqlLeafGroup *group,
		  MosqlItem **items, const MosqlBytes *in_block, int n, bool all, MosqlBytes txid)
{
	MosqlLeafStep *leaf = palloc(sizeof(MosqlLeafStep));

	mosql_leaf_step_start(leaf, part->tree, group->leaf, group->generation, n);
	for (int i = 0; i < n; i++)
	{
		items[i]->sent = items[i]->kind == MOSQL_ITEM_WRITE;
		mosql_leaf_step_take(leaf, items[i], in_block[i]);
	}
	if (group->packed || !mosql_leaf_step_is_bulk(leaf, group->nfields))
		mosql_leaf_step_add_items(round->commit, leaf, txid);
	else if (is_to_be_filled(part, group, leaf, all) &&
			 mosql_leaf_step_add_block(round->commit, leaf, group, part->loads))
		mosql_leaf_step_note_sent(round->commit, leaf);
	else
		mosql_leaf_step_add_bulk(round->commit, leaf, txid);
	round->leaves[round->nsteps++] = leaf;
	round->nitems += n;
}

/*
 * A step that writes a packed leaf anew, with all of its items.  If that cannot be they are grouped again, each for itself: the
 * leaf may have to be unpacked for them.
 */
static void
add_rewrite(Round *round, const MosqlParticipant *part, const MosqlLeafGroup *group, MosqlItem **items,
			const MosqlBytes *in_block, bool all)
{
	MosqlLeafStep *leaf = palloc(sizeof(MosqlLeafStep));

	mosql_leaf_step_start(leaf, part->tree, group->leaf, group->generation, group->n);
	for (int i = 0; i < group->n; i++)
		mosql_leaf_step_take(leaf, items[i], in_block[i]);
	if (!all || !mosql_leaf_step_add_rewrite(round->commit, leaf, group, mosql_btree_loads(part->tree)))
	{
		for (int i = 0; i < group->n; i++)
			items[i]->no_bulk = true;
		round->again = true;
		return;
	}
	for (int i = 0; i < group->n; i++)
		items[i]->sent = true;
	mosql_leaf_step_note_sent(round->commit, leaf);
	round->leaves[round->nsteps++] = leaf;
	round->nitems += group->n;
}

static void
collect_items(Round *round, MosqlParticipant *part, MosqlBytes txid)
{
	MosqlBytes *keys;
	MosqlBytes *rows;
	MosqlKeyUse *uses;
	MosqlItem **items;
	MosqlLeafGroup *groups;
	int			n = 0,
				ngroups;
	int			max = Min(part->n, MOSQL_ROUND_MAX_ITEMS - round->nitems);
	bool		more = false;	/* than that */

	if (max <= 0 || round->nsteps >= MOSQL_ROUND_MAX_STEPS)
		return;
	keys = palloc(max * sizeof(MosqlBytes));
	rows = palloc(max * sizeof(MosqlBytes));
	uses = palloc(max * sizeof(MosqlKeyUse));
	items = palloc(max * sizeof(MosqlItem *));
	for (int i = 0; i < part->n; i++)
		if (!part->items[i].done &&
			(part->items[i].kind == MOSQL_ITEM_REFERENCE) == round->references)
		{
			more = n == max;
			if (more)
				break;
			items[n] = &part->items[i];
			uses[n] = mosql_item_use(items[n]);
			if (part->rewrites && mosql_item_may_be_by_leaf(items[n]))
				uses[n] |= MOSQL_KEY_REWRITES;
			keys[n++] = part->items[i].key;
		}
	if (n == 0)
		return;
	ngroups = mosql_btree_group_beside(part->tree, keys, uses, n, &groups, rows);
	for (int g = 0; g < ngroups && round->nsteps < MOSQL_ROUND_MAX_STEPS; g++)
	{
		Assert(groups[g].n > 0 &&
			   groups[g].first == (g == 0 ? 0 : groups[g - 1].first + groups[g - 1].n));
		if (groups[g].frozen_from.data != NULL && any_reads(items, &groups[g]))
		{
			/* what the groups point to is gone after this: all of them again */
			(void) finish_split(part->tree, &groups[g]);
			round->again = true;
			return;
		}
		if (groups[g].loaded.loader.session != 0)
		{
			add_loading(round, part, &groups[g], items[groups[g].first]);
			continue;
		}
		if (groups[g].rewrites)
		{
			add_rewrite(round, part, &groups[g], items + groups[g].first, rows + groups[g].first,
						g < ngroups - 1 || !more);
			continue;
		}
		for (int done = 0; done < groups[g].n && round->nsteps < MOSQL_ROUND_MAX_STEPS;
			 done += MOSQL_STEP_MAX_ITEMS)
			add_items(round, part, &groups[g], items + groups[g].first + done, rows + groups[g].first + done,
					  Min(groups[g].n - done, MOSQL_STEP_MAX_ITEMS), g < ngroups - 1 || !more, txid);
	}
}

/* Does a leaf that ends at this fence end the range? */
static bool
ends_range(const MosqlItem *range, MosqlBytes fence)
{
	return fence.data == NULL ||
		(range->high.data != NULL && mosql_bytes_compare(fence, range->high) >= 0);
}

/* Steps for the next leaves of a range, as far as this round takes. */
static void
collect_range(Round *round, MosqlParticipant *part, MosqlItem *range, MosqlBytes txid)
{
	MosqlBytes	at = range->key;

	mosql_btree_thaw_range(part->tree, range->key, range->high, range->version, ROUND_MAX_RANGE_LEAVES);
	for (int n = 0; n < ROUND_MAX_RANGE_LEAVES && round->nsteps < MOSQL_ROUND_MAX_STEPS; n++)
	{
		MosqlLeafGroup *group;
		MosqlLeafStep *leaf;

		(void) mosql_btree_group(part->tree, &at, 1, range->version, &group);
		if (finish_split(part->tree, group))
		{
			round->again = true;
			return;
		}
		if (group->loaded.loader.session != 0)
		{
			add_loading(round, part, group, range);
			return;
		}
		leaf = palloc(sizeof(MosqlLeafStep));
		mosql_leaf_step_start(leaf, part->tree, group->leaf, group->generation, 1);
		leaf->range_low = at;
		leaf->range_high = mosql_bytes_copy(CurrentMemoryContext, group->high);
		mosql_leaf_step_add_range(round->commit, leaf, range, txid);
		round->leaves[round->nsteps++] = leaf;
		if (ends_range(range, leaf->range_high))
			return;
		at = leaf->range_high;
	}
}

static void
collect_ranges(Round *round, MosqlParticipant *part, MosqlBytes txid)
{
	for (int i = 0; i < part->nranges; i++)
		if (!part->ranges[i].done)
			collect_range(round, part, &part->ranges[i], txid);
}

/* The mark is on this leaf, and on every leaf that is split off it from now on. */
static void
remember_mark(MosqlCommit *commit, MosqlLeafStep *leaf)
{
	MosqlMark  *mark;
	MosqlNodeMeta meta;

	if (commit->nmarks == commit->maxmarks)
	{
		int			max = Max(16, commit->maxmarks * 2);
		MosqlMark  *grown = MemoryContextAlloc(commit->attempt_cxt, max * sizeof(MosqlMark));

		if (commit->nmarks > 0)
			memcpy(grown, commit->marks, commit->nmarks * sizeof(MosqlMark));
		commit->marks = grown;
		commit->maxmarks = max;
	}
	if (!mosql_meta_decode(leaf->step.values[0], &meta))
		mosql_report_damage(commit->session->config.ns, leaf->step.node, "its meta does not decode");
	mark = &commit->marks[commit->nmarks++];
	mark->tree = leaf->tree;
	mark->leaf = leaf->step.node;
	mark->generation = meta.generation;
	mark->with_writes = leaf->writes;
	mark->low = mosql_bytes_copy(commit->attempt_cxt, meta.low);
	mark->high = mosql_bytes_copy(commit->attempt_cxt, meta.high);
}

static void
set_blocker(MosqlBlocker *blocker, const MosqlLeafStep *leaf, MosqlBytes key, MosqlTxid tx, bool mark,
			MemoryContext cxt)
{
	blocker->tree = leaf->tree;
	blocker->key = mosql_bytes_copy(cxt, key);
	blocker->tx = tx;
	blocker->mark = mark;
	blocker->loading = leaf->loader.session != 0;
	blocker->anew = leaf->anew;
	blocker->strength = 0;
}

/*
 * The increment must fit the row whichever of the others in flight commit, so
 * that an overflow is found before the decision.  If one of those is what
 * makes it doubtful, wait for it.  intents: as they were before ours.
 */
static MosqlOutcome
check_overflow(MosqlCommit *commit, MosqlItem *item, MosqlBytes intents, MosqlTxid *other)
{
	const MosqlChange *change = item->change;
	MosqlVersion newest;

	if (!mosql_row_newest(item->old_row, &newest))
		mosql_report_damage(commit->session->config.ns, 0, "a row does not decode");
	for (int i = 0; i < change->ninc; i++)
	{
		int64		plus,
					minus;

		if (!mosql_intents_sum(intents, change->inc[i].column, &plus, &minus, other))
			mosql_report_damage(commit->session->config.ns, 0, "an increment does not decode");
		if (mosql_increment_fits(newest.columns, &change->inc[i], plus) &&
			mosql_increment_fits(newest.columns, &change->inc[i], minus))
			continue;
		if (plus != 0 || minus != 0)
			return MOSQL_BUSY;
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("integer out of range"),
				 errdetail("Another transaction changed the row since the statement computed it.")));
	}
	return MOSQL_PREPARED;
}

/*
 * Of two transactions the older one: the one whose first attempt has the smaller
 * number.  Numbers are times of the front-ends' clocks; where those differ some give way
 * more often than others, no more (rule 25).
 */
static bool
is_older(MosqlTxid a, MosqlTxid b)
{
	return a.n != b.n ? a.n < b.n : a.session < b.session;
}

/* The attempt gives way to the oldest of those that it must give way to. */
static void
note_blocker(MosqlCommit *commit, const MosqlBlocker *found)
{
	if (commit->blocker.strength > 0)
		return;					/* a lock is waited for in any case, holding nothing */
	if (commit->blocker.tree == NULL || is_older(found->tx, commit->blocker.tx))
		commit->blocker = *found;
}

/*
 * Somebody in the way whom this session has met before is perhaps done, or
 * dead: then the way is cleared at once, and this attempt may go on.
 */
static bool
clear_known(MosqlCommit *commit, const MosqlBlocker *blocker)
{
	int64		since_us;

	return mosql_recover_met(commit->session, blocker->tx, &since_us) &&
		mosql_recover_blocker(commit->session, blocker, since_us);
}

/*
 * Others may be in the way besides the blocker that a compare named, and may be
 * dead as well: the time of each runs from now on, not from when its turn comes.
 */
static void
meet(MosqlCommit *commit, const MosqlBlocker *blocker, MosqlTxid tx)
{
	int64		since_us;

	if (!mosql_txid_equal(tx, commit->tx) && !mosql_txid_equal(tx, blocker->tx))
		(void) mosql_recover_met(commit->session, tx, &since_us);
}

static void
meet_intents(MosqlCommit *commit, const MosqlBlocker *blocker, MosqlBytes intents)
{
	MosqlIntent intent;

	while (mosql_intent_next(&intents, &intent) == 1)
		meet(commit, blocker, intent.tx);
}

static void
meet_marks(MosqlCommit *commit, const MosqlBlocker *blocker, MosqlBytes marks)
{
	for (size_t at = 0; at + MOSQL_TXID_BYTES <= marks.len; at += MOSQL_TXID_BYTES)
		meet(commit, blocker, mosql_txid_get(marks.data + at));
}

/* The row of an item, of which `field` was read: what is no field is as in the block. */
static MosqlBytes
as_field(const MosqlLeafStep *leaf, int i, MosqlBytes field)
{
	return field.data != NULL ? field : leaf->in_block[i];
}

/* A write is in place: keep what apply needs. */
static MosqlOutcome
write_prepared(MosqlCommit *commit, MosqlLeafStep *leaf, int i)
{
	MosqlItem  *item = leaf->items[i];
	int			at = leaf->old_at[i];
	MosqlTxid	other = {0, 0};
	MosqlBlocker found;

	item->columns = item->change->columns;
	item->by_leaf = leaf->fills;
	item->old_row = at < 0 ? MOSQL_ABSENT
		: mosql_bytes_copy(commit->attempt_cxt, as_field(leaf, i, leaf->step.values[at]));
	if (at >= 0 && item->old_row.data == NULL && item->base != MOSQL_BASE_ABSENT)
		ereport(ERROR,			/* nor does the item count as prepared then */
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("Redis says of a row both that it is there and that it is not")));
	mosql_stats.rows_beside += leaf->in_block[i].data != NULL && !leaf->fills;
	if (!mosql_item_is_increment(item) || item->by_leaf ||
		check_overflow(commit, item, leaf->step.values[at + 1], &other) == MOSQL_PREPARED)
		return MOSQL_PREPARED;
	/* the sum is to be checked anew in any case: the next attempt does */
	set_blocker(&found, leaf, item->key, other, false, commit->attempt_cxt);
	note_blocker(commit, &found);
	(void) clear_known(commit, &found);
	return MOSQL_BUSY;
}

/* All compares of a leaf's step held. */
static MosqlOutcome
leaf_prepared(MosqlCommit *commit, MosqlLeafStep *leaf)
{
	MosqlOutcome outcome = MOSQL_PREPARED;

	if (leaf->fills)
		mosql_btree_remember(leaf->tree, &leaf->step);
	else
		mosql_btree_observe(leaf->tree, leaf->step.node, leaf->step.values[0], leaf->step.nfields);
	mosql_stats.leaves_rewritten += leaf->rewrites;
	commit->placed |= leaf->writes || leaf->marks;
	if (leaf->marks)
		remember_mark(commit, leaf);
	if (leaf->range != NULL)
	{
		MosqlItem  *range = leaf->range;

		/*
		 * The range goes on behind this leaf, if all before it is marked.  If
		 * not, this leaf's turn comes again, which does no harm.
		 */
		if (!mosql_bytes_equal(range->key, leaf->range_low))
			return outcome;
		if (ends_range(range, leaf->range_high))
			range->done = true;
		else
			range->key = mosql_bytes_copy(commit->attempt_cxt, leaf->range_high);
		return outcome;
	}
	for (int i = 0; i < leaf->nitems; i++)
	{
		leaf->items[i]->done = true;
		if (leaf->items[i]->kind == MOSQL_ITEM_WRITE &&
			write_prepared(commit, leaf, i) != MOSQL_PREPARED)
			outcome = MOSQL_BUSY;
	}
	return outcome;
}

/* ---- judging a compare that failed ---- */

/* The oldest of somebody else's marks in a list of transaction ids. */
static bool
foreign_mark(MosqlBytes list, MosqlTxid mine, MosqlTxid *oldest)
{
	bool		found = false;

	for (size_t at = 0; at + MOSQL_TXID_BYTES <= list.len; at += MOSQL_TXID_BYTES)
	{
		MosqlTxid	tx = mosql_txid_get(list.data + at);

		if (mosql_txid_equal(tx, mine) || (found && !is_older(tx, *oldest)))
			continue;
		*oldest = tx;
		found = true;
	}
	return found;
}

/* The same of the intents on a row. */
static bool
foreign_intent(MosqlBytes intents, MosqlTxid mine, MosqlTxid *oldest)
{
	MosqlIntent intent;
	bool		found = false;

	while (mosql_intent_next(&intents, &intent) == 1)
	{
		if (mosql_txid_equal(intent.tx, mine) || (found && !is_older(intent.tx, *oldest)))
			continue;
		*oldest = intent.tx;
		found = true;
	}
	return found;
}

/* What decodes no more is in the way for ever: XX001, and no next attempt. */
static void
check_intents(const MosqlCommit *commit, uint64 node, MosqlBytes intents)
{
	bool		empty = intents.data != NULL && intents.len == 0;
	MosqlIntent intent;
	int			got;

	do
		got = mosql_intent_next(&intents, &intent);
	while (got == 1);
	if (got < 0 || empty)
		mosql_report_damage(commit->session->config.ns, node, "an intent does not decode");
}

/*
 * row, purged: as they are now, no intent in the way.  MOSQL_PREPARED: the
 * expectation was refined or the failure has passed; try again.
 */
static MosqlOutcome
judge_row(MosqlCommit *commit, uint64 node, MosqlItem *item, MosqlBytes row, MosqlBytes purged)
{
	MosqlTxn   *txn = commit->txn;
	MosqlVersion v = {0};
	bool		live = false;
	bool		bounded = txn->drawn;	/* REPEATABLE READ and above */
	bool		purged_since;

	if (row.data != NULL)
	{
		if (!mosql_row_newest(row, &v))
			mosql_report_damage(commit->session->config.ns, node, "a row does not decode");
		live = v.live;
	}
	if (purged.data != NULL && purged.len != MOSQL_TS_BYTES)
		mosql_report_damage(commit->session->config.ns, node, "its purge mark does not decode");
	/* since S was drawn: somebody purged, which only who has lost S meets */
	purged_since = bounded && purged.data != NULL && mosql_ts_get(purged.data) > txn->S;
	if (purged_since && row.data == NULL)
		return MOSQL_CONFLICT;
	if (item->kind == MOSQL_ITEM_CHECK && item->base != MOSQL_BASE_LIVE)
	{
		/* its step compares the purge mark in any case: it would fail for ever */
		if (item->exact ? v.ts != item->version : v.ts > txn->S || purged_since)
			return MOSQL_CONFLICT;
		return MOSQL_PREPARED;
	}
	switch (item->base)
	{
		case MOSQL_BASE_LIVE:
			return live ? MOSQL_PREPARED : MOSQL_CONFLICT;
		case MOSQL_BASE_VERSION:
			return v.ts == item->version ? MOSQL_PREPARED : MOSQL_CONFLICT;
		case MOSQL_BASE_ABSENT:
			if (live || (bounded && v.ts > txn->S))
			{
				txn->session->doubts |= live && item->change->entry->proved_free;
				return MOSQL_CONFLICT;
			}
			item->version = v.ts;	/* a tombstone, or 0: nothing */
			return MOSQL_PREPARED;
	}
	return MOSQL_CONFLICT;
}

static MosqlOutcome
judge_range(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlBlocker *blocker)
{
	MosqlItem  *range = leaf->range;
	MosqlLeaf  *now = mosql_btree_read_leaf(leaf->tree, leaf->range_low);
	bool		busy = false;

	for (int i = 0; i < now->n; i++)
	{
		MosqlEntry *entry = &now->entries[i];
		MosqlVersion v;
		MosqlTxid	tx;

		if (mosql_bytes_compare(entry->key, leaf->range_low) < 0 ||
			(range->high.data != NULL && mosql_bytes_compare(entry->key, range->high) >= 0))
			continue;
		check_intents(commit, now->node, entry->intent);
		if (foreign_intent(entry->intent, commit->tx, &tx))
		{
			if (!busy || is_older(tx, blocker->tx))
				set_blocker(blocker, leaf, entry->key, tx, false, commit->attempt_cxt);
			busy = true;
			continue;
		}
		if (entry->row.data == NULL)
			continue;
		if (!mosql_row_newest(entry->row, &v))
			mosql_report_damage(commit->session->config.ns, now->node, "a row does not decode");
		if (v.ts > range->version)
			return MOSQL_CONFLICT;
	}
	if (now->purged > range->version && mosql_commit_compares_purged(commit))
		return MOSQL_CONFLICT;
	for (int i = 0; i < now->n && busy; i++)
		meet_intents(commit, blocker, now->entries[i].intent);
	return busy ? MOSQL_BUSY : MOSQL_PREPARED;
}

/*
 * May somebody else's intent of that kind be on the row?  Where a foreign key leads, an
 * update may, of a row that is there.  Without one it is an insert, perhaps decided and
 * not applied yet, for which there was a row to be referenced: wait for it.  Where claims
 * were seen the step asks as KEY SHARE does, which waits for updates, too.
 */
static bool
lets_in(const MosqlItem *item, uint8 kind, MosqlBytes row)
{
	MosqlVersion newest;

	if (item->kind == MOSQL_ITEM_REFERENCE)
		return !item->claims && strchr(MOSQL_INTENT_LIVE_KINDS, kind) != NULL && row.data != NULL &&
			mosql_row_newest(row, &newest) && newest.live;
	return mosql_item_is_increment(item) && kind == MOSQL_INTENT_INCREMENT;
}

/* What an item waits with in the queue of its row: an increment holds no lock but there. */
static int
waiting_strength(MosqlBytes asked)
{
	int			strength = asked.data[asked.len - 1];

	return strength == MOSQL_INCREMENTING ? MOSQL_NO_KEY_UPDATE : strength;
}

void
mosql_item_forget_lock(MosqlItem *item)
{
	item->strength = 0;
	item->base = MOSQL_BASE_VERSION;
}

/*
 * There are claims at the item's row.  BUSY: one is in its way.  PREPARED: none is, and the
 * step asks them from now on; but perhaps an intent is.
 */
static MosqlOutcome
judge_claims(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlItem *item, MosqlBytes field,
			 MosqlBlocker *blocker)
{
	MosqlBytes	asked = mosql_item_asked(commit, item);
	MosqlBytes	rest = field;
	MosqlClaim	claim;

	item->claims = true;
	if (item->kind == MOSQL_ITEM_CHECK)
	{
		if (item->strength > 0 && !mosql_claims_hold(field, asked))
			mosql_item_forget_lock(item);
		return MOSQL_PREPARED;
	}
	while (mosql_claim_next(&rest, &claim))
		;
	if (mosql_claims_admit(mosql_bytes(field.data, field.len - rest.len), asked))
		return MOSQL_PREPARED;
	set_blocker(blocker, leaf, item->key, (MosqlTxid) {0, 0}, false, commit->attempt_cxt);
	blocker->strength = waiting_strength(asked);
	return MOSQL_BUSY;
}

/* What is there by now, of an item and of all that its leaf's step was about. */
typedef struct Evidence
{
	MosqlBytes	row;			/* of the item */
	MosqlBytes	intents;
	MosqlBytes	marks;			/* of the leaf */
	MosqlBytes	purged;
	MosqlBytes	meta;
	const MosqlBytes *all;		/* intents: [nitems] of the leaf's step */
} Evidence;

#define EVIDENCE_FIELDS		5

static Evidence
read_evidence(MosqlCommit *commit, const MosqlLeafStep *leaf, const MosqlItem *item)
{
	int			n = EVIDENCE_FIELDS + leaf->nitems;
	MosqlBytes *fields = palloc(n * sizeof(MosqlBytes));
	MosqlFieldRead read = {.node = leaf->step.node,.nfields = n,.fields = fields};

	fields[0] = mosql_field_name(MOSQL_FIELD_ROW, item->key);
	fields[1] = mosql_field_name(MOSQL_FIELD_INTENT, item->key);
	fields[2] = MOSQL_MARKS_FIELD;
	fields[3] = MOSQL_PURGED_FIELD;
	fields[4] = MOSQL_META_FIELD;
	for (int i = 0; i < leaf->nitems; i++)
		fields[EVIDENCE_FIELDS + i] = mosql_field_name(MOSQL_FIELD_INTENT, leaf->items[i]->key);
	mosql_step_read_fields(&commit->session->stepper, &read, 1, NULL);
	return (Evidence)
	{
		read.values[0], read.values[1], read.values[2], read.values[3], read.values[4],
			read.values + EVIDENCE_FIELDS
	};
}

/* A transaction is in the way, with an intent or a mark; and whoever else is met there. */
static MosqlOutcome
blame_transaction(MosqlCommit *commit, const MosqlLeafStep *leaf, const MosqlItem *item,
				  const Evidence *now, MosqlTxid tx, bool mark, MosqlBlocker *blocker)
{
	set_blocker(blocker, leaf, item->key, tx, mark, commit->attempt_cxt);
	for (int i = 0; i < leaf->nitems; i++)
		meet_intents(commit, blocker, now->all[i]);
	if (mark || leaf->writes)
		meet_marks(commit, blocker, now->marks);
	return MOSQL_BUSY;
}

/* Claims and intents at the item's row.  PREPARED: none is in its way. */
static MosqlOutcome
judge_intents(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlItem *item, const Evidence *now,
			  MosqlBlocker *blocker)
{
	MosqlBytes	rest = now->intents;
	MosqlBytes	held = mosql_item_held(commit, item);
	MosqlIntent intent;
	MosqlIntent own;
	MosqlTxid	tx;

	check_intents(commit, leaf->step.node, now->intents);
	if (held.data != NULL)
	{
		commit->lost_claim = !mosql_claims_hold(now->intents, held);
		if (commit->lost_claim)
			return MOSQL_CONFLICT;
		if (item->kind == MOSQL_ITEM_CLAIM)
			return MOSQL_PREPARED;
	}
	if (mosql_claims_begin(now->intents))
	{
		MosqlOutcome outcome = judge_claims(commit, leaf, item, now->intents, blocker);

		if (outcome != MOSQL_PREPARED)
			return outcome;
	}
	else if (item->kind == MOSQL_ITEM_CHECK)
		mosql_item_forget_lock(item);
	if (mosql_intent_next(&rest, &intent) != 1)
		return MOSQL_PREPARED;
	if (mosql_intents_find(now->intents, commit->tx, &own))
		return MOSQL_AGAIN;		/* a step that was done and not noticed */
	if (foreign_intent(now->intents, commit->tx, &tx) && !lets_in(item, intent.kind, now->row))
		return blame_transaction(commit, leaf, item, now, tx, false, blocker);
	return MOSQL_PREPARED;
}

/* The leaf's marks, of which the item names the leaf. */
static MosqlOutcome
judge_marks(MosqlCommit *commit, const MosqlLeafStep *leaf, const MosqlItem *item,
			const Evidence *now, MosqlBlocker *blocker)
{
	MosqlTxid	tx;

	if (now->marks.len % MOSQL_TXID_BYTES != 0)
		mosql_report_damage(commit->session->config.ns, leaf->step.node, "its read marks do not decode");
	if (!foreign_mark(now->marks, commit->tx, &tx))
		return MOSQL_PREPARED;
	return blame_transaction(commit, leaf, item, now, tx, true, blocker);
}

static MosqlOutcome
judge(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlBlocker *blocker)
{
	MosqlItem  *blamed = leaf->blame[leaf->step.failed];
	MosqlItem  *item;
	MosqlOutcome outcome;
	Evidence	now;

	if (leaf->range != NULL)
		return judge_range(commit, leaf, blocker);
	if (leaf->bulk)
	{
		for (int i = 0; i < leaf->nitems; i++)
			leaf->items[i]->no_bulk = true;
		return MOSQL_PREPARED;
	}
	item = blamed != NULL ? blamed : leaf->items[0];
	now = read_evidence(commit, leaf, item);
	if (!mosql_bytes_equal(now.meta, leaf->step.values[0]))
	{
		/* split since: the row may be elsewhere */
		mosql_btree_observe(leaf->tree, leaf->step.node, now.meta, -1);
		return MOSQL_PREPARED;
	}
	for (int i = 0; i < leaf->nitems; i++)
		if (leaf->items[i] == item)
			now.row = as_field(leaf, i, now.row);
	outcome = judge_intents(commit, leaf, item, &now, blocker);
	if (outcome != MOSQL_PREPARED)
		return outcome;
	if (blamed == NULL)
		return judge_marks(commit, leaf, item, &now, blocker);
	if (item->kind == MOSQL_ITEM_CLAIM)
		return MOSQL_PREPARED;
	return judge_row(commit, leaf->step.node, item, now.row, now.purged);
}

/*
 * The leaf is loading.  For this very attempt: then its range has been joined with that of another leaf since it was filled, so that
 * more of the rows belong there, and another attempt finds it so; or a row is looked at that is not written here,
 * and there is none in a leaf that was empty.
 */
static MosqlOutcome
judge_loading(MosqlCommit *commit, const MosqlLeafStep *leaf, MosqlBlocker *blocker)
{
	if (mosql_txid_equal(leaf->loader, commit->tx))
		return leaf->items[0]->kind == MOSQL_ITEM_REFERENCE ? MOSQL_CONFLICT : MOSQL_AGAIN;
	set_blocker(blocker, leaf, leaf->items[0]->key, leaf->loader, false, commit->attempt_cxt);
	return MOSQL_BUSY;
}

/*
 * Who is in the way, and dead or done, is taken out of it.  Of others the younger ones
 * are waited for with what is held, and an older one is given way to (rule 25).
 */
static MosqlOutcome
judge_and_clear(MosqlCommit *commit, MosqlLeafStep *leaf)
{
	MosqlBlocker found;
	MosqlOutcome outcome = leaf->loader.session != 0 ? judge_loading(commit, leaf, &found) : judge(commit, leaf, &found);

	if (outcome != MOSQL_BUSY)
		return outcome;
	if (found.strength > 0)
	{
		commit->blocker = found;	/* and hold nothing meanwhile (rule 33) */
		return MOSQL_BUSY;
	}
	if (clear_known(commit, &found))
		return MOSQL_PREPARED;
	note_blocker(commit, &found);
	return is_older(commit->tx, found.tx) ? MOSQL_HELD_UP : MOSQL_BUSY;
}

/* The younger ones in the way are about to end, or to give way. */
static bool
wait_holding(MosqlCommit *commit, int waits)
{
	MosqlBudget pause = commit->budget;

	mosql_stats.waits++;
	pause.attempts = Min(waits, 5);
	return mosql_budget_pause(&pause);
}

/* ---- the drive ---- */

static bool
any_lost(MosqlStep *const *steps, int n)
{
	for (int i = 0; i < n; i++)
		if (steps[i]->status == MOSQL_STEP_LOST)
			return true;
	return false;
}

/* MOSQL_PREPARED: nothing in the way so far. */
static MosqlOutcome
run_round(Round *round)
{
	MosqlCommit *commit = round->commit;
	MosqlStep **steps = palloc(round->nsteps * sizeof(MosqlStep *));
	MosqlOutcome worst = MOSQL_PREPARED;

	for (int i = 0; i < round->nsteps; i++)
		steps[i] = &round->leaves[i]->step;
	mosql_step_run(&commit->session->stepper, steps, round->nsteps, NULL);
	MOSQL_DEBUG_POINT("prepare-some");

	for (int i = 0; i < round->nsteps; i++)
	{
		if (steps[i]->status != MOSQL_STEP_DONE || round->leaves[i]->loader.session != 0)
			continue;
		round->progress = true;
		if (leaf_prepared(commit, round->leaves[i]) != MOSQL_PREPARED)
			worst = MOSQL_BUSY;
	}
	if (!any_lost(steps, round->nsteps))
		commit->sent = NULL;	/* not before: what a row shows may end the attempt */
	for (int i = 0; i < round->nsteps && worst != MOSQL_CONFLICT; i++)
	{
		MosqlOutcome outcome = MOSQL_PREPARED;

		if (steps[i]->status == MOSQL_STEP_LOST)
			outcome = MOSQL_AGAIN;
		else if (steps[i]->status == MOSQL_STEP_FAILED && steps[i]->failed == 0)
			mosql_btree_observe(round->leaves[i]->tree, steps[i]->node, steps[i]->values[0], -1);
		else if (steps[i]->status == MOSQL_STEP_DONE && round->leaves[i]->loader.session != 0)
			outcome = judge_and_clear(commit, round->leaves[i]);
		else if (steps[i]->status == MOSQL_STEP_FAILED)
		{
			mosql_btree_observe(round->leaves[i]->tree, steps[i]->node, steps[i]->values[0],
								steps[i]->nfields);
			outcome = judge_and_clear(commit, round->leaves[i]);
		}
		worst = Max(worst, outcome);
	}
	return worst;
}

/* The time that it takes to place something is not waited. */
static MosqlOutcome
run_timed_round(Round *round)
{
	int64		since_us = mosql_now_us();
	MosqlOutcome outcome = run_round(round);

	if (round->progress && !round->commit->limited)
		round->commit->budget.deadline_us += mosql_now_us() - since_us;
	return outcome;
}

/* How long nothing may come of it; what it takes to place the intents does not count. */
static MosqlBudget
idle_budget(const MosqlCommit *commit)
{
	return commit->limited ? commit->budget : mosql_budget_start(mosql_txn_commit_timeout_ms);
}

MosqlOutcome
mosql_txn_prepare(MosqlCommit *commit)
{
	MemoryContext round_cxt = AllocSetContextCreate(commit->attempt_cxt, "mosql prepare round",
													ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(round_cxt);
	MosqlBudget idle = idle_budget(commit);
	MosqlOutcome outcome;
	bool		references = false;
	int			waits = 0;

	Assert(mosql_commit_is_sound(commit) && !commit->released);
	mosql_sign_begin(commit->session, commit->tx);
	for (;;)
	{
		Round		round = {.commit = commit,.references = references};
		MosqlBytes	txid = mosql_txid_bytes(commit->tx);

		round.leaves = palloc(MOSQL_ROUND_MAX_STEPS * sizeof(MosqlLeafStep *));
		for (int i = 0; i < commit->nparts; i++)
		{
			collect_items(&round, &commit->parts[i], txid);
			collect_ranges(&round, &commit->parts[i], txid);
		}
		outcome = MOSQL_PREPARED;
		if (round.nsteps == 0 && !round.again)
		{
			if (references || !commit->txn->refers)
				break;
			references = true;
			continue;
		}
		if (round.nsteps > 0)
			outcome = run_timed_round(&round);
		if (outcome == MOSQL_HELD_UP)
			outcome = wait_holding(commit, waits++) ? MOSQL_PREPARED : MOSQL_BUSY;
		if (outcome != MOSQL_PREPARED)
			break;

		/* leaves that move cost a round, and nothing else, however long the others take */
		if (round.progress)
			idle = idle_budget(commit);
		else if (mosql_budget_left_ms(&idle) == 0)
		{
			outcome = MOSQL_AGAIN;
			break;
		}
		MemoryContextReset(round_cxt);
	}
	Assert(outcome != MOSQL_PREPARED || mosql_commit_is_prepared(commit));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(round_cxt);
	return outcome;
}
