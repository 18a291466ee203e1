/*
 * collect.c: what of a transaction takes part in its commit: writes, locks and reads, by tree
 * and in key order; and, for assertions, what the phases of a commit promise each other.
 *
 * Layer: txn.  commit.c has the drive.
 */
#include "postgres.h"

#include "code/claim.h"
#include "txn/txn_int.h"

static MosqlParticipant *
participant(MosqlCommit *commit, MosqlTree *tree)
{
	for (int i = 0; i < commit->nparts; i++)
		if (commit->parts[i].tree == tree)
			return &commit->parts[i];
	commit->parts[commit->nparts].tree = tree;
	return &commit->parts[commit->nparts++];
}

bool
mosql_entry_is_void(const MosqlEntryW *entry)
{
	return entry->top == NULL ||
		(entry->top->kind == MOSQL_CHANGE_DELETE && entry->top->base == MOSQL_BASE_ABSENT);
}

/*
 * A row that is locked FOR KEY SHARE only, which others may change beside; that it is there is
 * what the lock says.  (SERIALIZABLE: it was read as well, and its item stands for that, too.)
 */
static bool
lets_update(const MosqlTxn *txn, const MosqlEntryW *e)
{
	return e->locked && !e->pinned && e->strength > 0 && txn->isolation != MOSQL_SERIALIZABLE;
}

/* A lock of more than the row: LOCK TABLE, an advisory lock (rule 37). */
static bool
is_relied_on(const MosqlEntryW *e)
{
	return e->relied_on && e->strength > 0;
}

/* Is a row that is neither written nor locked to be there? */
static bool
must_be_live(const MosqlEntryW *e)
{
	return e->referenced || e->shown;
}

/* Has the commit anything to compare, or write, there? */
static bool
takes_part(const MosqlEntryW *e)
{
	return !mosql_entry_is_void(e) || e->locked || must_be_live(e) || is_relied_on(e);
}

/* Returns whether there is something that must be decided: a write, or a lock. */
static bool
add_writes(MosqlCommit *commit, MosqlBuffer *buffer)
{
	MosqlTxn   *txn = commit->txn;
	MosqlParticipant *part;
	bool		any = false;
	int			n = 0;

	for (MosqlEntryW *e = buffer->head[0]; e != NULL; e = e->next[0])
		n += takes_part(e);
	if (n == 0)
		return false;
	part = participant(commit, buffer->tree);
	part->items = MemoryContextAllocHuge(commit->cxt, n * sizeof(MosqlItem));
	memset(part->items, 0, n * sizeof(MosqlItem));
	for (MosqlEntryW *e = buffer->head[0]; e != NULL; e = e->next[0])
	{
		MosqlItem  *item;

		if (!takes_part(e))
			continue;
		item = &part->items[part->n++];
		item->key = e->key;
		item->claims = e->strength > 0 || e->held != NULL;
		if (mosql_entry_is_void(e) && !e->locked && !is_relied_on(e))
		{
			item->kind = MOSQL_ITEM_REFERENCE;
			item->base = MOSQL_BASE_LIVE;
			continue;
		}
		any = true;
		if (mosql_entry_is_void(e) && is_relied_on(e))
		{
			item->kind = MOSQL_ITEM_CLAIM;
			item->strength = e->strength;
			continue;
		}
		if (mosql_entry_is_void(e))
		{
			item->kind = MOSQL_ITEM_CHECK;
			item->exact = true;
			item->version = e->lock_version;
			/* KEY SHARE alone, where the version matters, keeps away no more than no lock */
			item->strength = e->strength >= MOSQL_SHARE || lets_update(txn, e) ? e->strength : 0;
			item->base = lets_update(txn, e) ? MOSQL_BASE_LIVE : MOSQL_BASE_VERSION;
			continue;
		}
		item->kind = MOSQL_ITEM_WRITE;
		item->strength = is_relied_on(e) ? e->strength : 0;
		item->locked = e->strength;
		item->change = e->top;
		item->base = e->top->base;
		item->version = item->base == MOSQL_BASE_LIVE ? 0 : e->top->version;
		/* who inserts a row that he has locked before has lost the lock, whatever it let go by */
		if (e->pinned ? e->top->version != e->lock_version : e->locked && e->top->base == MOSQL_BASE_ABSENT)
			mosql_commit_conflict(commit->session, "A row was changed by another transaction after this one had locked it.");
		if (txn->drawn && item->version > txn->S)
			mosql_commit_conflict(commit->session, "A row was changed by a transaction that committed after this one's snapshot.");
	}
	return any;
}

static int
compare_reads(const void *a, const void *b)
{
	const MosqlRead *x = a,
			   *y = b;

	if (x->tree != y->tree)
		return x->tree < y->tree ? -1 : 1;
	if (x->range != y->range)
		return x->range ? -1 : 1;	/* ranges first */
	return mosql_bytes_compare(x->low, y->low);
}

/* Is key inside one of a participant's ranges (ascending, disjoint)? */
static bool
in_ranges(const MosqlParticipant *part, MosqlBytes key)
{
	int			lo = 0,
				hi = part->nranges;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (mosql_bytes_compare(part->ranges[mid].key, key) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > 0 && (part->ranges[lo - 1].high.data == NULL ||
					  mosql_bytes_compare(key, part->ranges[lo - 1].high) < 0);
}

/* Append a range, joining it with the last one where they touch: as of the older. */
static void
add_range(MosqlParticipant *part, const MosqlRead *read)
{
	MosqlItem  *last = part->nranges > 0 ? &part->ranges[part->nranges - 1] : NULL;

	if (last != NULL && (last->high.data == NULL ||
						 mosql_bytes_compare(read->low, last->high) <= 0))
	{
		if (last->high.data != NULL &&
			(read->high.data == NULL || mosql_bytes_compare(read->high, last->high) > 0))
			last->high = read->high;
		last->version = Min(last->version, read->S);
		return;
	}
	part->ranges[part->nranges++] = (MosqlItem)
	{
		.kind = MOSQL_ITEM_RANGE, .key = read->low, .high = read->high, .version = read->S
	};
}

/*
 * The row of an increment was read as well (SERIALIZABLE): then it is an update
 * of the version that was read, and lets no other increment in.
 */
static void
bind_increment(MosqlCommit *commit, MosqlTree *tree, MosqlItem *item)
{
	if (item->kind != MOSQL_ITEM_WRITE || item->change->kind != MOSQL_CHANGE_INCREMENT)
		return;
	mosql_change_bind(commit->txn, tree, item->change->entry);
	item->base = MOSQL_BASE_VERSION;
	item->version = item->change->version;
}

/* Merge ascending checks into a participant's ascending items. */
static void
merge_checks(MosqlCommit *commit, MosqlParticipant *part, const MosqlRead *reads, int n)
{
	MosqlItem  *merged = MemoryContextAllocHuge(commit->cxt, (part->n + n) * sizeof(MosqlItem) + 1);
	int			m = 0,
				i = 0;

	for (int r = 0; r < n; r++)
	{
		if ((r > 0 && mosql_bytes_equal(reads[r].low, reads[r - 1].low)) ||
			in_ranges(part, reads[r].low))
			continue;
		while (i < part->n && mosql_bytes_compare(part->items[i].key, reads[r].low) < 0)
			merged[m++] = part->items[i++];
		if (i < part->n && mosql_bytes_equal(part->items[i].key, reads[r].low))
		{
			/* its write, or lock, compares as much, being referenced less */
			bind_increment(commit, part->tree, &part->items[i]);
			if (part->items[i].kind == MOSQL_ITEM_REFERENCE)
				part->items[i] = (MosqlItem)
				{
					.kind = MOSQL_ITEM_CHECK, .key = part->items[i].key
				};
			continue;
		}
		memset(&merged[m], 0, sizeof(MosqlItem));
		merged[m].kind = MOSQL_ITEM_CHECK;
		merged[m++].key = reads[r].low;
	}
	while (i < part->n)
		merged[m++] = part->items[i++];
	part->items = merged;
	part->n = m;
}

static void
add_reads(MosqlCommit *commit)
{
	MosqlTxn   *txn = commit->txn;

	qsort(txn->reads, txn->nreads, sizeof(MosqlRead), compare_reads);
	for (int i = 0; i < txn->nreads;)
	{
		MosqlTree  *tree = txn->reads[i].tree;
		MosqlParticipant *part = participant(commit, tree);
		int			first = i,
					keys;

		while (i < txn->nreads && txn->reads[i].tree == tree && txn->reads[i].range)
			i++;
		part->ranges = MemoryContextAllocHuge(commit->cxt, (i - first) * sizeof(MosqlItem) + 1);
		for (int r = first; r < i; r++)
			add_range(part, &txn->reads[r]);
		keys = i;
		while (i < txn->nreads && txn->reads[i].tree == tree)
			i++;
		for (int w = 0; w < part->n; w++)
			if (in_ranges(part, part->items[w].key))
				bind_increment(commit, tree, &part->items[w]);
		merge_checks(commit, part, txn->reads + keys, i - keys);
	}
}

/*
 * Returns false if nothing is to be decided.  A row that was locked is, though nothing
 * may be written: what hangs on it is perhaps written elsewhere, where nobody here sees
 * it.  What a SERIALIZABLE transaction has read is, if it has written, here or
 * `elsewhere` (another namespace, a table of this PostgreSQL server).
 */
bool
mosql_commit_collect(MosqlCommit *commit, bool elsewhere)
{
	MosqlTxn   *txn = commit->txn;
	int			max = 0;
	bool		any = false;

	for (MosqlBuffer *b = txn->buffers; b != NULL; b = b->next_buffer)
		max++;
	for (int i = 0; i < txn->nreads; i++)
		max += i == 0 || txn->reads[i].tree != txn->reads[i - 1].tree;
	commit->parts = palloc0(max * sizeof(MosqlParticipant) + 1);
	for (MosqlBuffer *b = txn->buffers; b != NULL; b = b->next_buffer)
		any |= add_writes(commit, b);
	if (txn->nreads > 0 && (any || elsewhere))
	{
		add_reads(commit);
		any = true;
	}
	return any;
}

/* ---- what the phases promise each other ---- */

#ifdef USE_ASSERT_CHECKING
static bool
is_part_sound(const MosqlParticipant *part)
{
	for (int i = 0; i < part->n; i++)
	{
		const MosqlItem *item = &part->items[i];

		if (item->kind == MOSQL_ITEM_RANGE || (item->kind == MOSQL_ITEM_WRITE) != (item->change != NULL))
			return false;
		if (i > 0 && mosql_bytes_compare(item[-1].key, item->key) >= 0)
			return false;
	}
	for (int i = 0; i < part->nranges; i++)
		if (part->ranges[i].kind != MOSQL_ITEM_RANGE ||
			(i > 0 && (part->ranges[i - 1].high.data == NULL ||
					   mosql_bytes_compare(part->ranges[i - 1].high, part->ranges[i].key) >= 0)))
			return false;
	return true;
}

bool
mosql_commit_is_sound(const MosqlCommit *commit)
{
	for (int p = 0; p < commit->nparts; p++)
	{
		for (int other = 0; other < p; other++)
			if (commit->parts[other].tree == commit->parts[p].tree)
				return false;
		if (!is_part_sound(&commit->parts[p]))
			return false;
	}
	return true;
}

static bool
is_item_prepared(const MosqlItem *item)
{
	if (!item->done || !mosql_item_leaves_intent(item))
		return item->done;
	if (item->by_leaf)
		return true;
	if (item->base != MOSQL_BASE_ABSENT && item->old_row.data == NULL)
		return false;
	return item->change->kind == MOSQL_CHANGE_DELETE || item->columns.data != NULL;
}

bool
mosql_commit_is_prepared(const MosqlCommit *commit)
{
	for (int p = 0; p < commit->nparts; p++)
	{
		for (int i = 0; i < commit->parts[p].n; i++)
			if (!is_item_prepared(&commit->parts[p].items[i]))
				return false;
		for (int i = 0; i < commit->parts[p].nranges; i++)
			if (!commit->parts[p].ranges[i].done)
				return false;
	}
	return true;
}
#endif
