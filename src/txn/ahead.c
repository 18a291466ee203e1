/*
 * ahead.c: rows that a view is going to ask for one by one are read together.
 *
 * Layer: txn.  What is read goes where a view that comes back looks first: to what its snapshot
 * has seen (reuse.c), and where that is full to a part of the view's own, which lasts until the
 * next batch.  So who reads ahead changes no answer: rows are looked up as ever, own writes over
 * them, and are noted as read then.  What was not kept, for want of memory or because it is damaged,
 * is read then.
 */
#include "postgres.h"

#include "txn/reuse.h"
#include "txn/view_int.h"

/* Leaves in the first window of ranges: as many as there are ranges, but no more than this. */
#define AHEAD_WINDOW	64

void
mosql_view_ahead_start(MosqlView *view, MemoryContext cxt)
{
	if (view->ahead != NULL)
		mosql_seen_free(view->ahead);
	view->ahead = NULL;
	view->ahead_cxt = cxt;
}

bool
mosql_view_ahead_has_room(const MosqlView *view)
{
	return view->ahead == NULL || !mosql_seen_is_full(view->ahead);
}

/* What the snapshot has seen, if it is possible to read ahead; else NULL. */
static MosqlSeen *
seen_of(MosqlView *view, MosqlTree *tree)
{
	if (view->ahead_cxt == NULL || mosql_load_is_later(view, tree))
		return NULL;
	return mosql_reuse_seen(view, tree, mosql_view_snapshot(view));
}

/* Where there is no room any more: the view's own. */
static MosqlSeen *
own_part(MosqlView *view, const MosqlSeen *seen)
{
	if (view->ahead == NULL)
		view->ahead = mosql_seen_create(view->ahead_cxt, mosql_seen_snapshot(seen),
										(size_t) mosql_txn_snapshot_cache_kb * 1024);
	return view->ahead;
}

/* ---- keys ---- */

static void
read_keys(MosqlView *view, MosqlTree *tree, MosqlSeen *seen, const MosqlBytes *keys, int n)
{
	MosqlTimestamp S = mosql_seen_snapshot(seen);
	MosqlPoint *points = palloc0(n * sizeof(MosqlPoint));
	MosqlStatusCache cache = {0};

	mosql_btree_get(tree, keys, n, points);
	mosql_points_settle(view->txn->session, tree, keys, points, n, false, &cache);
	for (int i = 0; i < n; i++)
	{
		MosqlSeenRow row = {.key = keys[i]};
		const char *fault;
		MosqlVisible visible = mosql_point_look(&points[i], S, &cache, &row.columns, &row.version,
												&fault);

		if (visible == MOSQL_VISIBLE_LIVE || visible == MOSQL_VISIBLE_ABSENT)
		{
			mosql_reuse_keep_key(seen, tree, &row, visible == MOSQL_VISIBLE_LIVE);
			if (mosql_seen_is_full(seen))
				mosql_reuse_keep_key(own_part(view, seen), tree, &row,
									 visible == MOSQL_VISIBLE_LIVE);
		}
	}
}

/* ---- ranges ---- */

static void
read_ranges(MosqlView *view, MosqlTree *tree, MosqlSeen *seen, const MosqlKeyRange *ranges, int n)
{
	MosqlScan  *scan = mosql_btree_scan_begin_ranges(tree, ranges, n, false, Min(n, AHEAD_WINDOW));
	int			nleaves;
	MosqlLeaf  *leaves;

	mosql_btree_scan_keep_all(scan);
	while ((nleaves = mosql_btree_scan_next(scan, &leaves)) > 0)
	{
		MosqlStatusCache cache = {0};

		mosql_leaves_settle(view->txn->session, tree, leaves, nleaves, &cache);
		for (int i = 0; i < nleaves; i++)
		{
			mosql_reuse_keep_leaf(seen, tree, &leaves[i], &cache);
			if (mosql_seen_is_full(seen))
				mosql_reuse_keep_leaf(own_part(view, seen), tree, &leaves[i], &cache);
		}
		if (!mosql_view_ahead_has_room(view))
			break;
	}
	mosql_btree_scan_end(scan);
}

/* Keys are ranges without an end.  Damage is for those who ask for the rows. */
static void
read_if_sound(MosqlView *view, MosqlTree *tree, MosqlSeen *seen, const MosqlBytes *keys,
			  const MosqlKeyRange *ranges, int n)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext reading = AllocSetContextCreate(caller, "mosql read ahead", ALLOCSET_DEFAULT_SIZES);
	uint32		held = InterruptHoldoffCount;
	ErrorContextCallback context;

	mosql_view_keep_alive(view);
	mosql_txn_begin_read(view->txn->session, &context);
	PG_TRY();
	{
		MemoryContextSwitchTo(reading);
		if (keys != NULL)
			read_keys(view, tree, seen, keys, n);
		else
			read_ranges(view, tree, seen, ranges, n);
		MemoryContextSwitchTo(caller);
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
	mosql_txn_end_read(&context);
	MemoryContextDelete(reading);
}

/* ---- what is not known yet ---- */

void
mosql_view_ahead_keys(MosqlView *view, MosqlTree *tree, const MosqlBytes *keys, int n)
{
	MosqlSeen  *seen = seen_of(view, tree);
	MosqlBytes *wanted = palloc(Max(n, 1) * sizeof(MosqlBytes));
	int			m = 0;

	for (int i = 0; i < n && seen != NULL; i++)
		if (mosql_reuse_find(view, seen, tree, keys[i], false) == NULL)
			wanted[m++] = keys[i];
	if (m > 0)
		read_if_sound(view, tree, seen, wanted, NULL, m);
	pfree(wanted);
}

/* Is all of it known?  (A leaf that has changed since is known in pieces.) */
static bool
is_known(const MosqlView *view, const MosqlSeen *seen, const MosqlTree *tree, MosqlKeyRange range)
{
	const MosqlSeenPart *part;

	while ((part = mosql_reuse_find(view, seen, tree, range.low, false)) != NULL)
	{
		if (part->high.data == NULL || (range.high.data != NULL &&
										mosql_bytes_compare(range.high, part->high) <= 0))
			return true;
		range.low = part->high;
	}
	return false;
}

void
mosql_view_ahead_ranges(MosqlView *view, MosqlTree *tree, const MosqlKeyRange *ranges, int n)
{
	MosqlSeen  *seen = seen_of(view, tree);
	MosqlKeyRange *wanted = palloc(Max(n, 1) * sizeof(MosqlKeyRange));
	int			m = 0;

	for (int i = 0; i < n && seen != NULL; i++)
		if (!is_known(view, seen, tree, ranges[i]))
			wanted[m++] = ranges[i];
	if (m > 0)
		read_if_sound(view, tree, seen, NULL, wanted, m);
	pfree(wanted);
}

bool
mosql_view_ahead_next(MosqlView *view, MosqlTree *tree, MosqlKeyRange *range, MosqlRow *row)
{
	MosqlSeen  *seen = seen_of(view, tree);
	const MosqlSeenPart *part;

	if (seen == NULL)
		return false;
	while ((part = mosql_reuse_find(view, seen, tree, range->low, false)) != NULL)
	{
		int			at = mosql_seen_position(part, range->low);
		const MosqlSeenRow *found = &part->rows[at];

		if (at < part->n)
		{
			if (range->high.data != NULL && mosql_bytes_compare(found->key, range->high) >= 0)
				return false;
			*row = (MosqlRow) {.found = true,.key = found->key,.columns = found->columns};
			row->version = found->version;
			range->low = mosql_reuse_key_after(found->key);
			return true;
		}
		if (part->high.data == NULL || (range->high.data != NULL &&
										mosql_bytes_compare(part->high, range->high) >= 0))
			return false;
		range->low = part->high;
	}
	return false;
}
