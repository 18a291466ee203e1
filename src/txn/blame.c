/*
 * blame.c: is an error this transaction's own, or has another one caused it?
 *
 * Layer: txn.  Nobody is waited for before commit, so a statement may go on with rows that
 * another transaction has changed since.  Commit would refuse that, with 40001; but
 * checks that look at the latest state come first, and see the other's change as a
 * fault of this one: two sessions give the same row the same unique value, and the second
 * finds that value taken, by its own row.  So before such an error is reported, what the
 * transaction rests on is looked at again.  Only errors pay for it: a round trip per
 * tree, none where nothing was written, locked or (SERIALIZABLE) read.
 *
 * What counts: rows that it changed, as of the version it changed; rows that it locked;
 * keys that ON CONFLICT found free; under SERIALIZABLE keys that it read.  All that the
 * command at hand has changed is looked at, for it had to read as much; of what is
 * older, the newest BLAME_MAX, so that a loop that catches its errors does not read its
 * whole transaction at each of them.
 */
#include "postgres.h"

#include "txn/txn_int.h"

/* So many of the changes of earlier commands, of the rows locked, of the keys read. */
#define BLAME_MAX		256

/* Keys that are read together. */
#define BLAME_BATCH		1000

typedef enum SuspectKind
{
	SUSPECT_VERSION,			/* must be live and have this version */
	SUSPECT_ABSENT,				/* must not be live */
	SUSPECT_READ,				/* must not be newer than the snapshot */
	SUSPECT_BLAMED				/* the row that the error is about */
} SuspectKind;

typedef struct Suspect
{
	MosqlTree  *tree;
	MosqlBytes	key;
	SuspectKind kind;
	MosqlTimestamp version;
	bool		covered;		/* BLAMED: it was read, also as absent */
} Suspect;

typedef struct Suspects
{
	int			n;
	int			max;
	Suspect    *all;
} Suspects;

/* ---- who ---- */

static Suspect *
add_suspect(Suspects *suspects, MosqlTree *tree, MosqlBytes key, SuspectKind kind)
{
	Suspect    *suspect;

	if (suspects->n == suspects->max)
	{
		suspects->max = Max(64, suspects->max * 2);
		suspects->all = suspects->all == NULL
			? MemoryContextAllocHuge(CurrentMemoryContext, suspects->max * sizeof(Suspect))
			: repalloc_huge(suspects->all, suspects->max * sizeof(Suspect));
	}
	suspect = &suspects->all[suspects->n++];
	memset(suspect, 0, sizeof(Suspect));
	suspect->tree = tree;
	suspect->key = key;
	suspect->kind = kind;
	return suspect;
}

static MosqlTree *
tree_of(MosqlTxn *txn, const MosqlEntryW *entry)
{
	for (MosqlBuffer *buffer = txn->buffers; buffer != NULL; buffer = buffer->next_buffer)
		if (mosql_buffer_lookup(buffer, entry->key) == entry)
			return buffer->tree;
	pg_unreachable();
}

/* Rows that were changed, each by its newest change. */
static void
add_written(MosqlTxn *txn, CommandId cid, Suspects *suspects)
{
	int			older = 0;

	for (const MosqlChange *c = txn->journal; c != NULL && older < BLAME_MAX; c = c->earlier)
	{
		bool		absent = c->base == MOSQL_BASE_ABSENT && c->entry->found_free &&
			c->kind != MOSQL_CHANGE_DELETE;

		older += c->cid < cid;
		if (c != c->entry->top || (c->base != MOSQL_BASE_VERSION && !absent))
			continue;
		add_suspect(suspects, tree_of(txn, c->entry), c->entry->key,
					absent ? SUSPECT_ABSENT : SUSPECT_VERSION)->version = c->version;
	}
}

static void
add_locked(MosqlTxn *txn, Suspects *suspects)
{
	int			n = 0;

	for (const MosqlLock *lock = txn->locks; lock != NULL && n < BLAME_MAX; lock = lock->earlier)
	{
		Assert(lock->entry->locked);
		if (!lock->entry->pinned)
			continue;			/* FOR KEY SHARE alone, beside which others may change the row */
		add_suspect(suspects, lock->tree, lock->entry->key, SUSPECT_VERSION)->version =
			lock->entry->lock_version;
		n++;
	}
}

/* SERIALIZABLE: keys that were read. */
static void
add_read(MosqlTxn *txn, Suspects *suspects)
{
	int			n = 0;

	for (int i = txn->nreads - 1; i >= 0 && n < BLAME_MAX; i--)
		if (!txn->reads[i].range)
		{
			add_suspect(suspects, txn->reads[i].tree, txn->reads[i].low, SUSPECT_READ);
			n++;
		}
}

/* Has the transaction looked whether this row is there? */
static bool
has_read(const MosqlTxn *txn, const MosqlTree *tree, MosqlBytes key)
{
	for (int i = 0; i < txn->nreads; i++)
	{
		const MosqlRead *read = &txn->reads[i];
		int			c;

		if (read->tree != tree)
			continue;
		c = mosql_bytes_compare(key, read->low);
		if (c == 0 || (c > 0 && read->range && (read->high.data == NULL ||
												mosql_bytes_compare(key, read->high) < 0)))
			return true;
	}
	return false;
}

/* ---- is it still so? ---- */

/*
 * The row blamed.  One that is there, and keeps a key taken, is of use against the
 * transaction only if it had looked there, at its snapshot, and found it free.  One that
 * is not, a parent or a child that has gone since the snapshot, would have been no fault.
 */
static bool
has_blamed_changed(MosqlTxn *txn, const Suspect *suspect, const MosqlPoint *point,
				   const MosqlStatusCache *cache, bool live, MosqlTimestamp version)
{
	MosqlBytes	columns;

	if (!txn->drawn)
		return false;
	if (live)
		return suspect->covered && version > txn->S;
	return mosql_point_visible(txn->session, point, point->leaf, txn->S, cache, &columns,
							   &version);
}

static bool
has_changed(MosqlTxn *txn, const Suspect *suspect, const MosqlPoint *point,
			const MosqlStatusCache *cache)
{
	MosqlBytes	columns;
	MosqlTimestamp version;
	bool		live = mosql_point_visible(txn->session, point, point->leaf, MOSQL_TS_MAX, cache,
										   &columns, &version);

	switch (suspect->kind)
	{
		case SUSPECT_VERSION:
			return !live || version != suspect->version;
		case SUSPECT_ABSENT:
			return live;
		case SUSPECT_READ:
			return txn->drawn && version > txn->S;
		case SUSPECT_BLAMED:
			return has_blamed_changed(txn, suspect, point, cache, live, version);
	}
	return false;
}

/* Some suspects of one tree; one round trip. */
static bool
has_any_changed(MosqlTxn *txn, const Suspect *suspects, int n)
{
	MosqlTree  *tree = suspects[0].tree;
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	MosqlPoint *points = palloc0(n * sizeof(MosqlPoint));
	MosqlStatusCache cache = {0};
	ErrorContextCallback context;

	for (int i = 0; i < n; i++)
		keys[i] = suspects[i].key;
	mosql_txn_begin_read(txn->session, &context);
	mosql_btree_get(tree, keys, n, points);
	mosql_points_settle(txn->session, tree, keys, points, n, true, &cache);
	mosql_txn_end_read(&context);
	for (int i = 0; i < n; i++)
		if (has_changed(txn, &suspects[i], &points[i], &cache))
			return true;
	return false;
}

static int
compare_suspects(const void *a, const void *b)
{
	const Suspect *x = a,
			   *y = b;

	if (x->tree != y->tree)
		return x->tree < y->tree ? -1 : 1;
	return mosql_bytes_compare(x->key, y->key);
}

static bool
has_one_changed(MosqlTxn *txn, Suspects *suspects)
{
	MemoryContext batch = AllocSetContextCreate(CurrentMemoryContext, "mosql suspects read",
												ALLOCSET_DEFAULT_SIZES);
	bool		changed = false;
	int			n;

	qsort(suspects->all, suspects->n, sizeof(Suspect), compare_suspects);
	for (int i = 0; i < suspects->n && !changed; i += n)
	{
		const Suspect *first = &suspects->all[i];
		MemoryContext old = MemoryContextSwitchTo(batch);

		CHECK_FOR_INTERRUPTS();
		for (n = 1; i + n < suspects->n && n < BLAME_BATCH && first[n].tree == first->tree;)
			n++;
		changed = has_any_changed(txn, first, n);
		MemoryContextSwitchTo(old);
		MemoryContextReset(batch);
	}
	MemoryContextDelete(batch);
	return changed;
}

/*
 * Race -- the other's change is seen in the row blamed, and not in those it rests on?  It
 * is one transaction's, decided before the first of the two was read; a read of the
 * latest state counts what is decided.
 */
void
mosql_txn_blame(MosqlTxn *txn, CommandId cid, MosqlTree *tree, MosqlBytes key)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql suspects",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Suspects	suspects = {0};
	bool		changed;

	add_written(txn, cid, &suspects);
	add_locked(txn, &suspects);
	add_read(txn, &suspects);
	if (key.data != NULL && txn->drawn)
		add_suspect(&suspects, tree, key, SUSPECT_BLAMED)->covered = has_read(txn, tree, key);
	changed = suspects.n > 0 && has_one_changed(txn, &suspects);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	if (!changed)
		return;
	mosql_stats.conflicts++;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errdetail("A row that this statement rests on was changed by another transaction that committed first."),
			 errhint("The transaction might succeed if retried.")));
}
