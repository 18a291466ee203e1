/*
 * scan.c: ranges of leaves, in both directions.
 *
 * Layer: btree.  The parent (a cached inner node of level 1) tells which
 * leaves come next; a window of them is read in one round trip and grows with
 * the scan.  What was read counts only as far as the fences join: leaf by
 * leaf, the next one must begin (backward: end) where the scan stands.  Where
 * they do not, because a leaf was split or its parent is out of date, the
 * window ends there, the parent is read again, and if that does not help the
 * next leaf is found by a search, which follows right links.
 *
 * So a scan returns each key of its range from exactly one leaf, whatever
 * splits go on.  Versions and snapshots are the business of the layer above.
 */
#include "btree/btree_int.h"

/* So many leaves of a scan leave hints for the writes that may follow. */
#define SCAN_HINTS		64

struct MosqlScan
{
	MosqlTree  *tree;
	MemoryContext context;
	MemoryContext window_context;	/* of the leaves last returned */
	MosqlBytes	low;
	MosqlBytes	high;
	bool		backward;
	bool		done;

	/*
	 * Where the scan stands: forward, the smallest key not yet returned;
	 * backward, the upper bound of what is left (data NULL: none).
	 */
	MosqlBytes	position;
	int			window;			/* leaves to read next */
	uint64		epoch;			/* the parent must not be older */
	bool		refreshed;		/* the parent did not fit, so a new one is read */
	bool		search;			/* that did not help: search the next leaf */
	int64		nread;			/* leaves returned so far */
};

/* See btree.h. */
MosqlScan *
mosql_btree_scan_begin(MosqlTree *tree, MosqlBytes low, MosqlBytes high,
					   bool backward, int first_window)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql scan",
											  ALLOCSET_SMALL_SIZES);
	MosqlScan  *scan = MemoryContextAllocZero(cxt, sizeof(MosqlScan));

	scan->tree = tree;
	scan->context = cxt;
	scan->window_context = AllocSetContextCreate(cxt, "mosql scan window", ALLOCSET_DEFAULT_SIZES);
	scan->low = mosql_bytes_copy(cxt, low);
	scan->high = mosql_bytes_copy(cxt, high);
	scan->backward = backward;
	scan->position = mosql_bytes_copy(cxt, backward ? high : low);
	scan->window = Min(Max(first_window, 1), BTREE_SCAN_WINDOW);
	scan->done = high.data != NULL && mosql_bytes_compare(low, high) >= 0;
	return scan;
}

void
mosql_btree_scan_end(MosqlScan *scan)
{
	MemoryContextDelete(scan->context);
}

/* Does the scan stand at this leaf? */
static bool
stands_at(const MosqlScan *scan, const MosqlNodeMeta *meta)
{
	MosqlBytes	pos = scan->position;

	if (meta->state != MOSQL_NODE_NORMAL && meta->state != MOSQL_NODE_SPLITTING)
		return false;
	if (scan->backward)
		return (meta->high.data == NULL || (pos.data != NULL && mosql_bytes_compare(pos, meta->high) <= 0)) &&
			(meta->low.len == 0 || pos.data == NULL || mosql_bytes_compare(meta->low, pos) < 0);
	return mosql_bytes_compare(meta->low, pos) <= 0 &&
		(meta->high.data == NULL || mosql_bytes_compare(pos, meta->high) < 0);
}

/*
 * The leaf at the scan's position is taken: clip it and move on.  To the position,
 * not to the range: a leaf that took over its right sibling since it was returned
 * comes once more, with keys that the scan has passed.
 */
static void
advance(MosqlScan *scan, MosqlLeaf *leaf)
{
	MosqlTree  *tree = scan->tree;
	MosqlBytes	to = scan->backward ? leaf->meta.low : leaf->meta.high;

	if (scan->backward)
		mosql_btree_leaf_clip(leaf, scan->low, scan->position);
	else
		mosql_btree_leaf_clip(leaf, scan->position, scan->high);
	if (scan->nread++ < SCAN_HINTS || mosql_btree_cache_find(tree, leaf->node) != NULL)
		mosql_btree_hint_put(tree, leaf->node, &leaf->meta, leaf->nfields);
	if (scan->backward)
		scan->done = to.len == 0 || mosql_bytes_compare(to, scan->low) <= 0;
	else
		scan->done = to.data == NULL ||
			(scan->high.data != NULL && mosql_bytes_compare(to, scan->high) >= 0);
	scan->position = to;		/* in the window's context; copied at its end */
}

/*
 * Ids of the next leaves as the parent has them, in scan order, at most the
 * window; ids[n], if not 0, is the parent's right sibling, worth reading along.
 */
static int
next_leaves(const MosqlScan *scan, const CachedNode *parent, uint64 *ids)
{
	const MosqlChild *children = parent->children;
	int			c = mosql_btree_child_index(children, parent->nchildren, scan->position, scan->backward);
	int			n = 0;

	if (scan->backward)
	{
		while (c >= 0 && n < scan->window)
		{
			ids[n++] = children[c].node;
			if (mosql_bytes_compare(children[c].separator, scan->low) <= 0)
				break;
			c--;
		}
		ids[n] = 0;
		return n;
	}
	while (c < parent->nchildren && n < scan->window)
	{
		if (n > 0 && scan->high.data != NULL &&
			mosql_bytes_compare(children[c].separator, scan->high) >= 0)
			break;
		ids[n++] = children[c++].node;
	}
	ids[n] = 0;
	if (c == parent->nchildren && parent->meta.high.data != NULL &&
		mosql_btree_cache_find(scan->tree, parent->meta.right) == NULL &&
		(scan->high.data == NULL || mosql_bytes_compare(parent->meta.high, scan->high) < 0))
		ids[n] = parent->meta.right;
	return n;
}

/* An inner node that was read along with leaves. */
static void
take_inner(MosqlTree *tree, const MosqlNodeImage *image)
{
	MosqlNodeMeta meta;
	MosqlChild *children;
	int			n;

	mosql_stats.inner_reads++;
	mosql_stats.leaf_reads--;
	if (!image->found)
		return;
	mosql_btree_meta(tree, image->node, mosql_btree_image_field(image, MOSQL_FIELD_META), &meta);
	if (meta.level > 0 && meta.state == MOSQL_NODE_NORMAL &&
		mosql_btree_children_fault(&meta, mosql_btree_image_field(image, MOSQL_FIELD_SEPARATORS),
								   &children, &n) == NULL)
		mosql_btree_cache_put(tree, image->node, &meta, children, n, -1);
}

/* Read a window and take from it what joins.  Returns the leaves taken. */
static int
read_window(MosqlScan *scan, MosqlLeaf *leaves)
{
	MosqlTree  *tree = scan->tree;
	const CachedNode *parent = mosql_btree_find_inner(tree, scan->position, scan->backward,
													  1, scan->epoch);
	uint64		ids[BTREE_SCAN_WINDOW + 1];
	MosqlNodeImage images[BTREE_SCAN_WINDOW + 1];
	int			n = next_leaves(scan, parent, ids);
	int			taken = 0;

	mosql_btree_read_images(tree, ids, n + (ids[n] != 0), images);
	if (ids[n] != 0)
		take_inner(tree, &images[n]);
	while (taken < n && !scan->done)
	{
		MosqlLeaf  *leaf = &leaves[taken];

		if (!images[taken].found)
		{
			mosql_btree_cache_drop(tree, ids[taken]);
			break;
		}
		mosql_btree_leaf_decode(tree, &images[taken], leaf);
		if (!stands_at(scan, &leaf->meta))
		{
			/* what is known of it now will lead the search */
			mosql_btree_hint_put(tree, leaf->node, &leaf->meta, leaf->nfields);
			break;
		}
		if (!mosql_btree_serves(tree, &leaf->meta, MOSQL_ABSENT))
		{
			if (taken == 0)
				mosql_btree_split_help(tree, &ids[0], 1);
			break;
		}
		advance(scan, leaf);
		taken++;
	}

	/*
	 * The parent is out of date: read it again.  If that was done just now, a
	 * search has to find the leaf that it does not know.
	 */
	scan->search = taken == 0 && scan->refreshed;
	scan->refreshed = taken < n && !scan->done;
	if (scan->refreshed)
		scan->epoch = ++tree->epoch;
	return taken;
}

/* See btree.h. */
int
mosql_btree_scan_next(MosqlScan *scan, MosqlLeaf **leaves)
{
	MosqlTree  *tree = scan->tree;
	MemoryContext old;
	int			n = 0;

	mosql_btree_enter(tree);
	if (scan->done)
		return 0;

	/* The position is in the memory of the window that goes away. */
	if (scan->position.data != NULL)
		scan->position = mosql_bytes_copy(tree->scratch, scan->position);
	MemoryContextReset(scan->window_context);
	old = MemoryContextSwitchTo(scan->window_context);
	if (scan->position.data != NULL)
		scan->position = mosql_bytes_copy(scan->window_context, scan->position);

	*leaves = palloc(scan->window * sizeof(MosqlLeaf));
	while (n == 0)
	{
		CHECK_FOR_INTERRUPTS();
		if (!scan->search)
			n = read_window(scan, *leaves);
		else
		{
			scan->search = scan->refreshed = false;
			(*leaves)[0] = *mosql_btree_read_covering(tree, scan->position, scan->backward);
			advance(scan, *leaves);
			n = 1;
		}
	}
	scan->window = Min(2 * scan->window, BTREE_SCAN_WINDOW);
	MemoryContextSwitchTo(old);
	return n;
}
