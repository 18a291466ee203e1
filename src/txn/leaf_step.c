/*
 * leaf_step.c: the mini-transaction that prepares one leaf, from what a commit expects.
 *
 * Layer: txn.  What it compares, and why, stands at the head of prepare.c, which sends it
 * and judges what fails.
 */
#include "postgres.h"

#include "code/claim.h"
#include "step/one_step.h"
#include "txn/leaf_step.h"

/* ---- small byte makers, in the current context ---- */

MosqlBytes
mosql_field_name(char prefix, MosqlBytes key)
{
	char	   *p = palloc(key.len + 1);

	p[0] = prefix;
	memcpy(p + 1, key.data, key.len);
	return mosql_bytes(p, key.len + 1);
}

MosqlBytes
mosql_txid_bytes(MosqlTxid tx)
{
	StringInfoData buf;

	mosql_string_init(&buf, MOSQL_TXID_BYTES);
	mosql_txid_put(&buf, tx);
	return mosql_bytes_of(&buf);
}

/* ---- building a leaf's step ---- */

static void
add_compare(MosqlLeafStep *leaf, MosqlItem *item, MosqlCompareKind kind, MosqlBytes field,
			int offset, MosqlBytes bytes)
{
	leaf->blame[leaf->step.ncompares] = item;
	mosql_step_expect(&leaf->step, kind, field, offset, bytes);
}

static void
add_write(MosqlLeafStep *leaf, MosqlWriteKind kind, MosqlBytes field, MosqlBytes value)
{
	leaf->step.writes[leaf->step.nwrites++] = (MosqlWrite) {kind, field, value};
}

static MosqlBytes
intent_bytes(MosqlTxid tx, const MosqlChange *change)
{
	StringInfoData buf;
	MosqlIntent intent = {.tx = tx};

	mosql_string_init(&buf, MOSQL_TXID_BYTES + change->columns.len + 16);
	switch (change->kind)
	{
		case MOSQL_CHANGE_PUT:
			intent.kind = MOSQL_INTENT_PUT;
			intent.payload = change->columns;
			break;
		case MOSQL_CHANGE_DELETE:
			intent.kind = MOSQL_INTENT_DELETE;
			intent.payload = mosql_bytes("", 0);
			break;
		case MOSQL_CHANGE_INCREMENT:
			{
				StringInfoData inc;

				initStringInfo(&inc);
				mosql_increments_encode(&inc, change->inc, change->ninc);
				intent.kind = MOSQL_INTENT_INCREMENT;
				intent.payload = mosql_bytes_of(&inc);
				break;
			}
	}
	mosql_intent_encode(&buf, &intent);
	return mosql_bytes_of(&buf);
}

bool
mosql_item_is_increment(const MosqlItem *item)
{
	return item->kind == MOSQL_ITEM_WRITE && item->change->kind == MOSQL_CHANGE_INCREMENT;
}

static MosqlTxid
owner_of_claims(const MosqlCommit *commit)
{
	return commit->txn->owner.session != 0 ? commit->txn->owner : commit->tx;
}

/*
 * Must the item's own lock still be there, whatever else is: a lock of a table, say, though its definition is
 * written as well (rule 37)?  As HOLDS compares it; MOSQL_ABSENT: no.
 */
MosqlBytes
mosql_item_held(const MosqlCommit *commit, const MosqlItem *item)
{
	if (item->kind == MOSQL_ITEM_CLAIM || (item->kind == MOSQL_ITEM_WRITE && item->strength > 0))
		return mosql_lock_asked_surely(owner_of_claims(commit), item->strength);
	return MOSQL_ABSENT;
}

/*
 * What an item asks of those who are at its row: an update, say, that there be no lock that
 * excludes it.  Owner and strength, as ADMITS and HOLDS compare them.
 */
MosqlBytes
mosql_item_asked(const MosqlCommit *commit, const MosqlItem *item)
{
	MosqlTxid	owner = owner_of_claims(commit);
	bool		update = item->kind == MOSQL_ITEM_WRITE && item->change->kind == MOSQL_CHANGE_PUT &&
		item->version != 0;

	if (item->kind == MOSQL_ITEM_CHECK)
		return mosql_lock_asked(owner, item->strength > 0 ? item->strength : MOSQL_READING);
	if (item->kind == MOSQL_ITEM_REFERENCE)
		return mosql_lock_asked(owner, MOSQL_KEY_SHARE);
	if (mosql_item_is_increment(item))
		return mosql_lock_asked(owner, MOSQL_INCREMENTING);
	return mosql_lock_asked(owner, update ? MOSQL_NO_KEY_UPDATE : MOSQL_UPDATE);
}

/*
 * Nobody is at the row who is in the way.  Where claims have been seen they are asked; else
 * the field's first bytes, or that there is none, say as much and cost less.  Increments
 * let other increments in, references all that leaves the row there.
 */
static void
add_intent_compare(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlItem *item, MosqlBytes intent)
{
	MosqlBytes	held = mosql_item_held(commit, item);

	if (held.data != NULL)
		add_compare(leaf, item, MOSQL_COMPARE_HOLDS, intent, 0, held);
	if (item->kind == MOSQL_ITEM_CLAIM)
		return;
	if (item->kind == MOSQL_ITEM_CHECK && item->strength > 0)
		add_compare(leaf, item, MOSQL_COMPARE_HOLDS, intent, 0, mosql_item_asked(commit, item));
	else if (item->claims)
		add_compare(leaf, item, MOSQL_COMPARE_ADMITS, intent, 0, mosql_item_asked(commit, item));
	else if (item->kind == MOSQL_ITEM_REFERENCE)
		add_compare(leaf, item, MOSQL_COMPARE_OPEN, intent, MOSQL_INTENT_KIND_OFFSET,
					mosql_bytes(MOSQL_INTENT_LIVE_KINDS, 2));
	else if (mosql_item_is_increment(item))
		add_compare(leaf, item, MOSQL_COMPARE_OPEN, intent, MOSQL_INTENT_KIND_OFFSET,
					mosql_bytes(MOSQL_INTENT_SHARED_KINDS, 1));
	else
		add_compare(leaf, item, MOSQL_COMPARE_ABSENT, intent, 0, MOSQL_ABSENT);
}

MosqlKeyUse
mosql_item_use(const MosqlItem *item)
{
	if (item->kind != MOSQL_ITEM_WRITE)
		return MOSQL_KEY_LOOK;
	if (item->change->kind == MOSQL_CHANGE_DELETE)
		return MOSQL_KEY_UNPACK;
	return item->base == MOSQL_BASE_ABSENT && item->change->entry->of_row ? MOSQL_KEY_NEW_FIELD : MOSQL_KEY_FIELD;
}

/* Room for n items: per item at most 4 compares, 2 reads, 3 writes. */
void
mosql_leaf_step_start(MosqlLeafStep *leaf, MosqlTree *tree, uint64 node, uint64 generation, int n)
{
	memset(leaf, 0, sizeof(*leaf));
	leaf->tree = tree;
	leaf->step.node = node;
	leaf->step.durable = true;
	leaf->step.compares = palloc((4 * n + 3) * sizeof(MosqlCompare));
	leaf->blame = palloc((4 * n + 3) * sizeof(MosqlItem *));
	leaf->step.reads = palloc((2 * n + 1) * sizeof(MosqlBytes));
	leaf->step.writes = palloc((3 * n + 1) * sizeof(MosqlWrite));
	leaf->items = palloc((n + 1) * sizeof(MosqlItem *));
	leaf->old_at = palloc((n + 1) * sizeof(int));
	leaf->in_block = palloc((n + 1) * sizeof(MosqlBytes));
	leaf->step.reads[leaf->step.nreads++] = MOSQL_META_FIELD;
	add_compare(leaf, NULL, MOSQL_COMPARE_EQUAL, MOSQL_META_FIELD, 0,
				mosql_generation_bytes(generation));
}

void
mosql_leaf_step_take(MosqlLeafStep *leaf, MosqlItem *item, MosqlBytes in_block)
{
	leaf->in_block[leaf->nitems] = in_block;
	leaf->items[leaf->nitems++] = item;
}

/*
 * The row is in the leaf's block, and perhaps in a field, then in a version no older; a field is never deleted
 * there, but where the block says that it is, too (rules 44, 55).  So "absent" means as in the block, which the generation stands for: what
 * that is is known here, and the compare lets it pass, or none does, as for who would insert a row that is there.
 */
static void
add_block_compare(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlItem *item, MosqlBytes field, MosqlBytes in_block)
{
	static const char never[MOSQL_TS_BYTES];
	MosqlTxn   *txn = commit->txn;
	MosqlVersion v;

	if (!mosql_row_newest(in_block, &v))
		mosql_report_damage(commit->session->config.ns, leaf->step.node, "a row does not decode");
	if (item->kind == MOSQL_ITEM_CHECK && !item->exact)
	{
		if (v.ts > txn->S)
			add_compare(leaf, item, MOSQL_COMPARE_EQUAL, field, 0, mosql_bytes(never, MOSQL_TS_BYTES));
		add_compare(leaf, item, MOSQL_COMPARE_AT_MOST, field, 0, mosql_ts_bytes(txn->S));
		add_compare(leaf, item, MOSQL_COMPARE_AT_MOST, MOSQL_PURGED_FIELD, 0, mosql_ts_bytes(txn->S));
	}
	else if (item->base == MOSQL_BASE_LIVE && v.live)
		add_compare(leaf, item, MOSQL_COMPARE_OPEN, field, MOSQL_ROW_KIND_OFFSET,
					mosql_bytes(MOSQL_ROW_LIVE_KINDS, 2));
	else if (item->base == MOSQL_BASE_LIVE)
		add_compare(leaf, item, MOSQL_COMPARE_IN, field, MOSQL_ROW_KIND_OFFSET,
					mosql_bytes(MOSQL_ROW_LIVE_KINDS, 2));
	else if (item->version == v.ts && (item->base == MOSQL_BASE_VERSION || (!v.live && (!txn->drawn || v.ts <= txn->S))))
		add_compare(leaf, item, MOSQL_COMPARE_AT_MOST, field, 0, mosql_ts_bytes(item->version));
	else
		add_compare(leaf, item, MOSQL_COMPARE_EQUAL, field, 0, mosql_ts_bytes(item->version));
}

/* The row must be as expected; kinds as the head of this file says. */
static void
add_row_compare(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlItem *item, MosqlBytes field)
{
	MosqlTxn   *txn = commit->txn;

	if (item->kind == MOSQL_ITEM_CHECK && !item->exact)
	{
		add_compare(leaf, item, MOSQL_COMPARE_AT_MOST, field, 0, mosql_ts_bytes(txn->S));
		add_compare(leaf, item, MOSQL_COMPARE_AT_MOST, MOSQL_PURGED_FIELD, 0,
					mosql_ts_bytes(txn->S));
	}
	else if (item->base == MOSQL_BASE_LIVE)
		add_compare(leaf, item, MOSQL_COMPARE_IN, field, MOSQL_ROW_KIND_OFFSET,
					mosql_bytes(MOSQL_ROW_LIVE_KINDS, 2));
	else if (item->version != 0)
		add_compare(leaf, item, MOSQL_COMPARE_EQUAL, field, 0, mosql_ts_bytes(item->version));
	else
	{
		add_compare(leaf, item, MOSQL_COMPARE_ABSENT, field, 0, MOSQL_ABSENT);
		if (txn->drawn)
			add_compare(leaf, item, MOSQL_COMPARE_AT_MOST, MOSQL_PURGED_FIELD, 0,
						mosql_ts_bytes(txn->S));
	}
}

/* From so many inserts on a leaf that is nearly empty is looked at as a whole. */
#ifndef BULK_MIN_ITEMS
#define BULK_MIN_ITEMS		16
#endif
#define BULK_MAX_FIELDS		4

bool
mosql_leaf_step_is_bulk(const MosqlLeafStep *leaf, int nfields)
{
	if (leaf->nitems < BULK_MIN_ITEMS || nfields < 0 || nfields > BULK_MAX_FIELDS)
		return false;
	for (int i = 0; i < leaf->nitems; i++)
		if (leaf->items[i]->kind != MOSQL_ITEM_WRITE || leaf->items[i]->no_bulk || leaf->items[i]->claims ||
			leaf->items[i]->base != MOSQL_BASE_ABSENT || leaf->items[i]->version != 0)
			return false;
	return true;
}

/*
 * A load fills leaves that were made for it: one compare that there is nothing
 * at all between the first and the last key, instead of two per key.  Where it
 * fails, its items take the other way, which finds out what is there.
 */
void
mosql_leaf_step_add_bulk(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlBytes txid)
{
	MosqlItem  *last = leaf->items[leaf->nitems - 1];
	MosqlCompare *compare;
	StringInfoData upper;

	mosql_string_init(&upper, last->key.len + 1);
	appendBinaryStringInfo(&upper, last->key.data, last->key.len);
	appendStringInfoChar(&upper, '\0');
	leaf->writes = true;
	leaf->bulk = true;
	add_compare(leaf, NULL, MOSQL_COMPARE_ONLY, MOSQL_MARKS_FIELD, 0, txid);
	add_compare(leaf, leaf->items[0], MOSQL_COMPARE_RANGE, leaf->items[0]->key, 0, txid);
	compare = &leaf->step.compares[leaf->step.ncompares - 1];
	compare->upper = mosql_bytes_of(&upper);
	compare->at_most = mosql_ts_bytes(0);
	if (commit->txn->drawn)
		add_compare(leaf, leaf->items[0], MOSQL_COMPARE_AT_MOST, MOSQL_PURGED_FIELD, 0,
					mosql_ts_bytes(commit->txn->S));
	for (int i = 0; i < leaf->nitems; i++)
	{
		MosqlItem  *item = leaf->items[i];

		leaf->old_at[i] = -1;
		add_write(leaf, MOSQL_WRITE_SET, mosql_field_name(MOSQL_FIELD_INTENT, item->key),
				  intent_bytes(commit->tx, item->change));
	}
}

/*
 * There is nothing in the leaf, whoever's, but a block that the generation stands for, and so many locks of this transaction, which
 * nobody waits for.  inserts: rows of which there is nothing.
 */
static void
expect_nothing(MosqlCommit *commit, MosqlLeafStep *leaf, int nlocks, bool inserts)
{
	static const char zeros[MOSQL_TXID_BYTES];
	MosqlBytes	nobody = mosql_bytes(zeros, MOSQL_TXID_BYTES);

	leaf->writes = leaf->bulk = leaf->fills = true;
	add_compare(leaf, NULL, MOSQL_COMPARE_ONLY, MOSQL_MARKS_FIELD, 0, nobody);
	add_compare(leaf, leaf->items[0], MOSQL_COMPARE_RANGE, mosql_bytes("", 0), nlocks > 0 ? MOSQL_RANGE_OWN_LOCKS + nlocks : 0,
				nlocks > 0 ? mosql_txid_bytes(owner_of_claims(commit)) : nobody);
	leaf->step.compares[leaf->step.ncompares - 1].at_most = mosql_ts_bytes(0);
	if (inserts && commit->txn->drawn)
		add_compare(leaf, leaf->items[0], MOSQL_COMPARE_AT_MOST, MOSQL_PURGED_FIELD, 0,
					mosql_ts_bytes(commit->txn->S));
}

/* A rest that does not fill half a leaf, and rows that do not shrink, are intents, as ever. */
bool
mosql_leaf_step_add_block(MosqlCommit *commit, MosqlLeafStep *leaf, const MosqlLeafGroup *group,
						  MosqlCompression how)
{
	MosqlBytes *keys = palloc(leaf->nitems * sizeof(MosqlBytes));
	MosqlBytes *columns = palloc(leaf->nitems * sizeof(MosqlBytes));

	Assert(leaf->nitems == group->n);
	for (int i = 0; i < leaf->nitems; i++)
	{
		Assert(leaf->items[i]->change->kind == MOSQL_CHANGE_PUT);
		keys[i] = leaf->items[i]->key;
		columns[i] = leaf->items[i]->change->columns;
		leaf->old_at[i] = -1;
	}
	if (!mosql_btree_fill(leaf->tree, group, commit->tx, how, keys, columns, &leaf->step))
		return false;
	expect_nothing(commit, leaf, 0, true);
	return true;
}

/* Is the row that a packed leaf's block has as the item expects it?  As add_row_compare() asks a field. */
static bool
is_as_expected(const MosqlItem *item, MosqlBytes row, const MosqlVersion *newest)
{
	if (item->base == MOSQL_BASE_LIVE)
		return row.data != NULL && newest->live;
	return row.data != NULL ? item->version == newest->ts : item->version == 0;
}

/* The columns that the item leaves at a row, of which this is the newest version; false if that cannot be said here. */
static bool
columns_after(const MosqlItem *item, const MosqlVersion *newest, MosqlBytes *columns)
{
	StringInfoData sum;

	*columns = item->change->kind == MOSQL_CHANGE_PUT ? item->change->columns : MOSQL_ABSENT;
	if (item->change->kind != MOSQL_CHANGE_INCREMENT)
		return true;
	mosql_string_init(&sum, newest->columns.len + 16);
	if (mosql_columns_increment(&sum, newest->columns, item->change->inc, item->change->ninc) != MOSQL_INCREMENT_OK)
		return false;
	*columns = mosql_bytes_of(&sum);
	return true;
}

/*
 * The item's lock is there, and goes: the leaf that is loading keeps everybody away in its place, until the attempt is decided, or
 * taken back, which puts it there again (apply.c).
 */
static void
take_over_lock(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlItem *item)
{
	MosqlBytes	intent = mosql_field_name(MOSQL_FIELD_INTENT, item->key);

	if (item->locked == 0)
		return;
	add_compare(leaf, item, MOSQL_COMPARE_HOLDS, intent, 0,
				item->strength > 0 ? mosql_item_held(commit, item) : mosql_lock_asked(owner_of_claims(commit), item->locked));
	add_write(leaf, MOSQL_WRITE_DELETE, intent, MOSQL_ABSENT);
}

/*
 * What a row is is known by the block, which the generation stands for, as nothing is beside it.  Who writes there meanwhile leaves a
 * field; afterwards nobody does before the leaf is settled (47).  So an increment's sum is what it will be.
 */
bool
mosql_leaf_step_add_rewrite(MosqlCommit *commit, MosqlLeafStep *leaf, const MosqlLeafGroup *group,
							MosqlCompression how)
{
	MosqlBytes *keys = palloc(leaf->nitems * sizeof(MosqlBytes));
	MosqlBytes *columns = palloc(leaf->nitems * sizeof(MosqlBytes));
	bool		inserts = false;
	int			nlocks = 0;

	Assert(leaf->nitems == group->n && group->rewrites);
	for (int i = 0; i < leaf->nitems; i++)
	{
		MosqlItem  *item = leaf->items[i];
		MosqlVersion newest = {0};

		if (leaf->in_block[i].data != NULL && !mosql_row_newest(leaf->in_block[i], &newest))
			mosql_report_damage(commit->session->config.ns, leaf->step.node, "a row does not decode");
		if (!is_as_expected(item, leaf->in_block[i], &newest) || !columns_after(item, &newest, &columns[i]) ||
			(leaf->in_block[i].data == NULL && columns[i].data == NULL))
			return false;
		inserts |= leaf->in_block[i].data == NULL;
		nlocks += item->locked > 0;
		keys[i] = item->key;
		leaf->old_at[i] = -1;
	}
	if (nlocks > MOSQL_RANGE_MAX_LOCKS || !mosql_btree_rewrite(leaf->tree, group, commit->tx, nlocks > 0, how, keys, columns, &leaf->step))
		return false;
	expect_nothing(commit, leaf, nlocks, inserts);
	for (int i = 0; i < leaf->nitems && nlocks > 0; i++)
		take_over_lock(commit, leaf, leaf->items[i]);
	leaf->rewrites = true;
	commit->stands |= nlocks > 0;
	return true;
}

/* See leaf_step.h. */
bool
mosql_item_may_be_by_leaf(const MosqlItem *item)
{
	return !item->no_bulk && (!item->claims || item->locked > 0);
}

/*
 * Race -- the attempt ends, by a cancel, say, while the step is on its way: then the leaf has another generation, which nobody has told us.  But
 * it is known, for the step sets it.
 */
void
mosql_leaf_step_note_sent(MosqlCommit *commit, const MosqlLeafStep *leaf)
{
	MosqlSentLeaf *sent = MemoryContextAlloc(commit->attempt_cxt, sizeof(MosqlSentLeaf));
	MosqlBytes	meta = mosql_step_sets(&leaf->step, MOSQL_META_FIELD);

	Assert(meta.data != NULL);
	*sent = (MosqlSentLeaf)
	{
		.next = commit->sent,.tree = leaf->tree,.leaf = leaf->step.node,.meta = mosql_bytes_copy(commit->attempt_cxt, meta)
	};
	commit->sent = sent;
}

/* What the leaf's items are: writes, which compare its marks, or reads that leave one. */
static void
note_kinds(MosqlLeafStep *leaf, MosqlBytes txid)
{
	for (int i = 0; i < leaf->nitems; i++)
	{
		MosqlItem  *item = leaf->items[i];

		if (item->kind == MOSQL_ITEM_WRITE)
			leaf->writes = true;
		else if (item->kind == MOSQL_ITEM_CHECK && item->strength == 0)
			leaf->marks = true;	/* a lock keeps others away by itself */
	}
	if (leaf->writes)
		add_compare(leaf, NULL, MOSQL_COMPARE_ONLY, MOSQL_MARKS_FIELD, 0, txid);
}

static void
expect_item(MosqlCommit *commit, MosqlLeafStep *leaf, int i, MosqlBytes row, MosqlBytes intent)
{
	MosqlItem  *item = leaf->items[i];

	/* nothing would hide the block's row when the deletion is applied: its leaf is unpacked before, or written as a whole */
	Assert(leaf->in_block[i].data == NULL || mosql_item_use(item) != MOSQL_KEY_UNPACK);
	add_intent_compare(commit, leaf, item, intent);
	if (item->kind == MOSQL_ITEM_CLAIM)
		return;
	if (leaf->in_block[i].data != NULL)
		add_block_compare(commit, leaf, item, row, leaf->in_block[i]);
	else
		add_row_compare(commit, leaf, item, row);
}

void
mosql_leaf_step_add_items(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlBytes txid)
{
	note_kinds(leaf, txid);
	leaf->step.touch = !leaf->writes && !leaf->marks;	/* somebody else wrote that row */
	for (int i = 0; i < leaf->nitems; i++)
	{
		MosqlItem  *item = leaf->items[i];
		MosqlBytes	row = mosql_field_name(MOSQL_FIELD_ROW, item->key);
		MosqlBytes	intent = mosql_field_name(MOSQL_FIELD_INTENT, item->key);
		bool		shared = mosql_item_is_increment(item);

		expect_item(commit, leaf, i, row, intent);
		leaf->old_at[i] = -1;
		if (item->kind != MOSQL_ITEM_WRITE)
			continue;
		if (leaf->in_block[i].data != NULL)
			add_write(leaf, MOSQL_WRITE_MAX, row, leaf->in_block[i]);
		add_write(leaf, shared || item->claims ? MOSQL_WRITE_CONCAT : MOSQL_WRITE_SET, intent,
				  intent_bytes(commit->tx, item->change));
		if (item->base == MOSQL_BASE_LIVE || item->version != 0)
		{
			leaf->old_at[i] = leaf->step.nreads;
			leaf->step.reads[leaf->step.nreads++] = row;
			if (shared)
				leaf->step.reads[leaf->step.nreads++] = intent;
		}
	}
	if (leaf->marks)
		add_write(leaf, MOSQL_WRITE_APPEND, MOSQL_MARKS_FIELD, txid);
}

/* The row as it is to be when the step is done; false if that cannot be said here. */
static bool
add_final_write(MosqlLeafStep *leaf, const MosqlChange *change, MosqlBytes row)
{
	StringInfoData increments;

	switch (change->kind)
	{
		case MOSQL_CHANGE_PUT:
			add_write(leaf, MOSQL_WRITE_VERSION, row, change->columns);
			return true;
		case MOSQL_CHANGE_DELETE:
			add_write(leaf, MOSQL_WRITE_TOMBSTONE, row, mosql_bytes("", 0));
			return true;
		case MOSQL_CHANGE_INCREMENT:
			initStringInfo(&increments);
			if (!mosql_step_increment(&increments, change->inc, change->ninc))
				return false;
			add_write(leaf, MOSQL_WRITE_INCREMENT, row, mosql_bytes_of(&increments));
			return true;
	}
	return false;
}

/* A lock that was taken goes in the step; but one that the session may hold beyond the transaction, with the same owner. */
bool
mosql_item_is_let_go(const MosqlCommit *commit, const MosqlItem *item)
{
	return item->kind == MOSQL_ITEM_WRITE || (commit->txn->owner.session != 0 && commit->session->locks == NULL);
}

bool
mosql_leaf_step_add_final(MosqlCommit *commit, MosqlLeafStep *leaf)
{
	bool		inserts = false;
	bool		beside = false;

	note_kinds(leaf, mosql_txid_bytes(commit->tx));
	for (int i = 0; i < leaf->nitems; i++)
	{
		MosqlItem  *item = leaf->items[i];
		MosqlBytes	row = mosql_field_name(MOSQL_FIELD_ROW, item->key);
		MosqlBytes	intent = mosql_field_name(MOSQL_FIELD_INTENT, item->key);

		expect_item(commit, leaf, i, row, intent);
		if (item->claims && mosql_item_is_let_go(commit, item))
			add_write(leaf, MOSQL_WRITE_UNLIST, intent, mosql_txid_bytes(commit->txn->owner));
		if (item->kind != MOSQL_ITEM_WRITE)
			continue;
		if (leaf->in_block[i].data != NULL)
			add_write(leaf, MOSQL_WRITE_MAX, row, leaf->in_block[i]);
		beside |= leaf->in_block[i].data != NULL;
		inserts |= item->base == MOSQL_BASE_ABSENT;
		if (!add_final_write(leaf, item->change, row))
			return false;
	}
	leaf->step.no_count = !inserts && !beside;
	return true;
}

void
mosql_leaf_step_add_range(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlItem *range,
						  MosqlBytes txid)
{
	MosqlCompare *compare;

	leaf->range = range;
	leaf->marks = true;
	add_compare(leaf, range, MOSQL_COMPARE_RANGE, leaf->range_low, MOSQL_RANGE_SKIPS_CLAIMS, txid);
	compare = &leaf->step.compares[leaf->step.ncompares - 1];
	compare->upper = range->high;
	compare->at_most = mosql_ts_bytes(range->version);
	if (mosql_commit_compares_purged(commit))
		add_compare(leaf, range, MOSQL_COMPARE_AT_MOST, MOSQL_PURGED_FIELD, 0, compare->at_most);
	add_write(leaf, MOSQL_WRITE_APPEND, MOSQL_MARKS_FIELD, txid);
}
