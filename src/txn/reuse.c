/*
 * reuse.c: what was read at a snapshot is not read again.
 *
 * Layer: txn.  What a snapshot shows of a row is final once it was read and settled: what is
 * decided later gets a timestamp above it.  So views that come back for the same rows (inner
 * sides of nested loops, correlated subqueries, rescans; above READ COMMITTED all statements
 * of a transaction) find them, and the rest of their leaves, in memory (seen.c): of the
 * statement at READ COMMITTED, else of the transaction.
 *
 * Only the committed rows are remembered.  Own writes lie over them as over those that come
 * from Redis, and commit certifies what was read here as if it had come from there.
 *
 * Never from here: what reads the latest state (no snapshot, locks, look-ups of keys that are
 * written, foreign keys), and what asks who has locked a row; their views do not say
 * mosql_view_reuse().  Nor definitions.  Nor anything in a transaction that loads rows past
 * the write buffer (load.c): those come under the snapshots that are there.
 */
#include "postgres.h"

#include "txn/reuse.h"
#include "txn/view_int.h"

int			mosql_txn_snapshot_cache_kb = MOSQL_SNAPSHOT_CACHE_KB;

/* So few keys, in a leaf that was read by key before: then it is read as a whole. */
#define MAX_TOGETHER	16

/* See txn.h. */
void
mosql_view_reuse(MosqlView *view, bool again)
{
	view->reuses = true;
	view->again |= again;
}

/* Is it likely that what this view reads is wanted again? */
static bool
fills(const MosqlView *view)
{
	return view->again || !mosql_view_has_own_snapshot(view);
}

/* See reuse.h. */
MosqlSeen *
mosql_reuse_seen(MosqlView *view, MosqlTree *tree, MosqlTimestamp S)
{
	MosqlTxn   *txn = view->txn;
	MosqlSeen **seen = mosql_view_has_own_snapshot(view) ? &view->statement->seen : &txn->seen;

	if (!view->reuses || S == MOSQL_TS_MAX || txn->loads || mosql_txn_snapshot_cache_kb == 0 ||
		mosql_btree_root(tree) == MOSQL_CATALOG_ROOT)
		return NULL;
	if (*seen == NULL && fills(view))
		*seen = mosql_seen_create(txn->cxt, S, (size_t) mosql_txn_snapshot_cache_kb * 1024);
	return *seen != NULL && mosql_seen_snapshot(*seen) == S ? *seen : NULL;
}

/* See reuse.h. */
bool
mosql_reuse_fills(const MosqlView *view, const MosqlSeen *seen)
{
	return seen != NULL && fills(view) && !mosql_seen_is_full(seen);
}

/* What was read ahead, of the same snapshot; NULL: nothing. */
static const MosqlSeen *
ahead_of(const MosqlView *view, const MosqlSeen *seen)
{
	if (view->ahead == NULL || mosql_seen_snapshot(view->ahead) != mosql_seen_snapshot(seen))
		return NULL;
	return view->ahead;
}

/* See reuse.h. */
const MosqlSeenPart *
mosql_reuse_find(const MosqlView *view, const MosqlSeen *seen, const MosqlTree *tree,
				 MosqlBytes key, bool below)
{
	uint64		root = mosql_btree_root(tree);
	const MosqlSeenPart *part = mosql_seen_find(seen, root, key, below);
	const MosqlSeen *ahead = part == NULL ? ahead_of(view, seen) : NULL;

	return ahead != NULL ? mosql_seen_find(ahead, root, key, below) : part;
}

/* See reuse.h. */
bool
mosql_reuse_knows(const MosqlView *view, const MosqlSeen *seen, const MosqlTree *tree)
{
	uint64		root = mosql_btree_root(tree);
	const MosqlSeen *ahead = ahead_of(view, seen);

	return mosql_seen_knows(seen, root) || (ahead != NULL && mosql_seen_knows(ahead, root));
}

/* ---- leaves ---- */

/* See reuse.h. */
MosqlBytes
mosql_reuse_key_after(MosqlBytes key)
{
	return mosql_bytes(mosql_bytes_copy(CurrentMemoryContext, key).data, key.len + 1);
}

/*
 * The entry as it was settled, if it was: those within the ranges are, in the same order, and
 * have the same key in memory.
 */
static const MosqlEntry *
settled_entry(const MosqlLeaf *leaf, const MosqlEntry *entry, int *at)
{
	if (*at < leaf->n && leaf->entries[*at].key.data == entry->key.data)
		return &leaf->entries[(*at)++];
	return NULL;
}

/* What it is at the snapshot, if that is known without asking anybody. */
static bool
look_at(const MosqlLeaf *leaf, const MosqlEntry *entry, const MosqlEntry *settled,
		MosqlTimestamp S, const MosqlStatusCache *cache, MosqlSeenRow *row, bool *live)
{
	MosqlPoint	point = {.purged = leaf->purged,.leaf = leaf->node};
	MosqlVisible visible;
	const char *fault;
	MosqlBytes	intents = entry->intent;
	MosqlIntent intent;

	if (settled == NULL && mosql_intent_next(&intents, &intent) != 0)
		return false;
	point.row = settled ? settled->row : entry->row;
	point.intent = settled ? settled->intent : MOSQL_ABSENT;
	row->key = entry->key;
	visible = mosql_point_look(&point, S, cache, &row->columns, &row->version, &fault);
	*live = visible == MOSQL_VISIBLE_LIVE;
	return *live || visible == MOSQL_VISIBLE_ABSENT;
}

/* See reuse.h. */
void
mosql_reuse_keep_leaf(MosqlSeen *seen, MosqlTree *tree, const MosqlLeaf *leaf,
					  const MosqlStatusCache *cache)
{
	MosqlTimestamp S = mosql_seen_snapshot(seen);
	MosqlSeenRow *rows = palloc(Max(leaf->nall, 1) * sizeof(MosqlSeenRow));
	MosqlBytes	low = leaf->meta.low;
	int			settled = 0;
	int			n = 0;

	if (leaf->all == NULL || leaf->purged > S)
		return;					/* above S: rows may have gone without another trace */
	for (int i = 0; i < leaf->nall; i++)
	{
		const MosqlEntry *entry = &leaf->all[i];
		bool		live;

		if (look_at(leaf, entry, settled_entry(leaf, entry, &settled), S, cache, &rows[n], &live))
		{
			n += live;
			continue;
		}
		mosql_seen_add(seen, mosql_btree_root(tree), low, entry->key, rows, n);
		low = mosql_reuse_key_after(entry->key);
		n = 0;
	}
	mosql_seen_add(seen, mosql_btree_root(tree), low, leaf->meta.high, rows, n);
	pfree(rows);
}

/* ---- keys ---- */

/* Those that are known are taken out of the list; returns how many are left. */
static int
take_known(MosqlView *view, MosqlTree *tree, const MosqlSeen *seen, MosqlBytes *wanted,
		   int *where, int n, MosqlRow *rows)
{
	int			left = 0;

	for (int i = 0; i < n; i++)
	{
		const MosqlSeenPart *part = mosql_reuse_find(view, seen, tree, wanted[i], false);
		MosqlRow   *row = &rows[where[i]];
		int			at;

		if (part == NULL)
		{
			wanted[left] = wanted[i];
			where[left++] = where[i];
			continue;
		}
		at = mosql_seen_position(part, wanted[i]);
		*row = (MosqlRow) {.key = wanted[i]};
		row->found = at < part->n && mosql_bytes_equal(part->rows[at].key, wanted[i]);
		if (row->found)
		{
			row->columns = part->rows[at].columns;
			if (view->ahead != NULL)	/* which goes with the next batch */
				row->columns = mosql_bytes_copy(CurrentMemoryContext, row->columns);
			row->version = part->rows[at].version;
		}
		mosql_txn_note_read(view->txn, tree, wanted[i]);
	}
	return left;
}

static int
compare_keys(const void *a, const void *b)
{
	return mosql_bytes_compare(*(const MosqlBytes *) a, *(const MosqlBytes *) b);
}

/* The leaf of these keys, in one round trip and what their intents take. */
static void
read_leaf(MosqlView *view, MosqlTree *tree, MosqlSeen *seen, const MosqlBytes *keys, int n)
{
	MosqlBytes *sorted = palloc(n * sizeof(MosqlBytes));
	MosqlKeyRange *ranges = palloc(n * sizeof(MosqlKeyRange));
	int			nranges = 0;
	int			nleaves;
	MosqlLeaf  *leaves;
	MosqlScan  *scan;

	for (int i = 0; i < n; i++)
		sorted[i] = keys[i];
	qsort(sorted, n, sizeof(MosqlBytes), compare_keys);
	for (int i = 0; i < n; i++)
		if (i == 0 || !mosql_bytes_equal(sorted[i - 1], sorted[i]))
			ranges[nranges++] = (MosqlKeyRange) {sorted[i], mosql_reuse_key_after(sorted[i])};
	scan = mosql_btree_scan_begin_ranges(tree, ranges, nranges, false, 1);
	mosql_btree_scan_keep_all(scan);
	while ((nleaves = mosql_btree_scan_next(scan, &leaves)) > 0)
	{
		MosqlStatusCache cache = {0};

		mosql_leaves_settle(view->txn->session, tree, leaves, nleaves, &cache);
		for (int i = 0; i < nleaves; i++)
			mosql_reuse_keep_leaf(seen, tree, &leaves[i], &cache);
	}
	mosql_btree_scan_end(scan);
}

/* Damage of other rows of the leaf is for those who read these. */
static void
read_leaf_if_sound(MosqlView *view, MosqlTree *tree, MosqlSeen *seen, const MosqlBytes *keys, int n)
{
	MemoryContext caller = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount;

	PG_TRY();
	{
		read_leaf(view, tree, seen, keys, n);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		if (geterrcode() != ERRCODE_DATA_CORRUPTED)
			PG_RE_THROW();
		FlushErrorState();
		InterruptHoldoffCount = held;
	}
	PG_END_TRY();
}

/* The leaf that all of these keys are in, if other rows of it were read by key before; else 0. */
static uint64
leaf_to_read(MosqlTree *tree, const MosqlSeen *seen, const MosqlBytes *keys, int n)
{
	uint64		leaf = mosql_btree_leaf_of(tree, keys[0]);

	for (int i = 1; i < n; i++)
		if (mosql_btree_leaf_of(tree, keys[i]) != leaf)
			return 0;
	return mosql_seen_noted_leaf(seen, mosql_btree_root(tree), leaf) ? leaf : 0;
}

/* See reuse.h. */
int
mosql_reuse_get(MosqlView *view, MosqlTree *tree, MosqlSeen *seen, MosqlBytes *wanted,
				int *where, int n, MosqlRow *rows)
{
	int			left = take_known(view, tree, seen, wanted, where, n, rows);
	uint64		leaf;
	int			rest;

	mosql_stats.snapshot_hits += n - left;
	if (left == 0 || left > MAX_TOGETHER || !mosql_reuse_fills(view, seen) ||
		(leaf = leaf_to_read(tree, seen, wanted, left)) == 0)
		return left;
	read_leaf_if_sound(view, tree, seen, wanted, left);
	rest = take_known(view, tree, seen, wanted, where, left, rows);
	if (rest == left)			/* damaged, or purged: nothing of it can be kept */
		mosql_seen_forget_leaf(seen, mosql_btree_root(tree), leaf);
	return rest;
}

/* See reuse.h. */
void
mosql_reuse_keep_key(MosqlSeen *seen, MosqlTree *tree, const MosqlSeenRow *row, bool found)
{
	mosql_seen_add(seen, mosql_btree_root(tree), row->key, mosql_reuse_key_after(row->key), row,
				   found ? 1 : 0);
}

/* See reuse.h. */
void
mosql_reuse_keep_rows(MosqlSeen *seen, MosqlTree *tree, const MosqlPoint *points,
					  const int *where, int n, const MosqlRow *rows)
{
	uint64		root = mosql_btree_root(tree);

	for (int i = 0; i < n && !mosql_seen_is_full(seen); i++)
	{
		const MosqlRow *row = &rows[where[i]];
		MosqlSeenRow known = {row->key, row->columns, row->version};

		mosql_reuse_keep_key(seen, tree, &known, row->found);
		if (n <= MAX_TOGETHER)
			mosql_seen_note_leaf(seen, root, points[i].leaf);
	}
}
