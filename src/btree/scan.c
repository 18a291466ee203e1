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
 *
 * Several ranges are one scan that leaps: from the end of a leaf to the range that has
 * keys behind it.  Leaves between ranges are left out of the window, so that many
 * small ranges take as few round trips as one.
 *
 * A scan that has read more than one window, and whose windows have grown to their full size, is going to read on, as far
 * as one knows: then the next window is asked for before the last one is looked at, so that the servers read while we
 * decode.  What is asked for is what the cache says of the leaves that come next; if it says something else by the time
 * when they are wanted, they are read then.
 * Nothing rests on when a leaf is read, but that it is after the scan has begun: what a snapshot sees of it never changes.
 */
#include "btree/btree_int.h"

/* So many leaves of a scan leave hints for the writes that may follow. */
#define SCAN_HINTS		64

/* No window is asked for after one of more bytes: both are kept, and what is not taken for a while lies in the servers' buffers. */
#define PREFETCH_MAX_BYTES	(1024 * 1024)

/* Nodes that were asked for. */
typedef struct AskedNodes
{
	const MosqlNodeImage *given;	/* they are here; or NULL */
	MosqlPrefetch *prefetch;	/* NULL: none */
	void		(*drop) (MosqlPrefetch *prefetch);	/* the tree may be gone before the scan's memory is */
	uint64		incarnation;	/* of the tree's store */
	int			n;
	uint64		ids[BTREE_SCAN_WINDOW + 1];
} AskedNodes;

struct MosqlScan
{
	MosqlTree  *tree;
	MemoryContext context;
	MemoryContext window_context;	/* of the leaves last returned */
	int			nranges;
	MosqlKeyRange *ranges;		/* ascending, disjoint, none empty */
	bool		backward;
	bool		keeps_all;		/* MosqlLeaf.all */
	bool		keeps_hints;	/* of more than SCAN_HINTS leaves */
	bool		at_once;		/* windows are to be of one moment; */
	bool		told;			/* and come with the schema version: */
	uint64		schema;			/* of the last one, or 0 */
	bool		was_at_once;	/* the last one is */
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
	size_t		window_bytes;	/* of the nodes that were read last */
	AskedNodes	asked;			/* of the next window; */
	bool		asks;			/* and so far it has always come in time */
	MemoryContextCallback forget;	/* what was asked for */
};

/* Is a key (data NULL: none, beyond all) below an upper bound (data NULL: none)? */
static bool
is_below(MosqlBytes key, MosqlBytes high)
{
	return high.data == NULL || (key.data != NULL && mosql_bytes_compare(key, high) < 0);
}

/* The first range that has keys from `key` on; nranges if none has. */
static int
first_range_from(const MosqlScan *scan, MosqlBytes key)
{
	int			low = 0;
	int			high = scan->nranges;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (is_below(key, scan->ranges[middle].high))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The last range that has keys below `key` (data NULL: all are); -1 if none has. */
static int
last_range_below(const MosqlScan *scan, MosqlBytes key)
{
	int			low = 0;
	int			high = scan->nranges;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (is_below(scan->ranges[middle].low, key))
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

static void
drop_asked(void *arg)
{
	MosqlScan  *scan = (MosqlScan *) arg;

	if (scan->asked.prefetch != NULL)
		scan->asked.drop(scan->asked.prefetch);
	scan->asked.prefetch = NULL;
	scan->asked.given = NULL;
}

/* See btree.h. */
MosqlScan *
mosql_btree_scan_begin_ranges(MosqlTree *tree, const MosqlKeyRange *ranges, int n,
							  bool backward, int first_window)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql scan",
											  ALLOCSET_SMALL_SIZES);
	MosqlScan  *scan = MemoryContextAllocZero(cxt, sizeof(MosqlScan));

	scan->tree = tree;
	scan->context = cxt;
	scan->window_context = AllocSetContextCreate(cxt, "mosql scan window", ALLOCSET_DEFAULT_SIZES);
	scan->asks = tree->store->prefetch != NULL;
	scan->forget = (MemoryContextCallback) {.func = drop_asked,.arg = scan};
	MemoryContextRegisterResetCallback(cxt, &scan->forget);
	scan->ranges = MemoryContextAlloc(cxt, Max(n, 1) * sizeof(MosqlKeyRange));
	for (int i = 0; i < n; i++)
	{
		MosqlKeyRange *range = &scan->ranges[scan->nranges];

		if (!is_below(ranges[i].low, ranges[i].high))
			continue;
		range->low = mosql_bytes_copy(cxt, ranges[i].low);
		range->high = mosql_bytes_copy(cxt, ranges[i].high);
		Assert(scan->nranges == 0 || !is_below(range->low, range[-1].high));
		scan->nranges++;
	}
	scan->backward = backward;
	scan->window = Min(Max(first_window, 1), BTREE_SCAN_WINDOW);
	scan->done = scan->nranges == 0;
	if (!scan->done)
		scan->position = backward ? scan->ranges[scan->nranges - 1].high : scan->ranges[0].low;
	return scan;
}

MosqlScan *
mosql_btree_scan_begin(MosqlTree *tree, MosqlBytes low, MosqlBytes high,
					   bool backward, int first_window)
{
	MosqlKeyRange range = {low.data == NULL ? mosql_bytes("", 0) : low, high};

	return mosql_btree_scan_begin_ranges(tree, &range, 1, backward, first_window);
}

void
mosql_btree_scan_keep_all(MosqlScan *scan)
{
	scan->keeps_all = true;
}

void
mosql_btree_scan_keep_hints(MosqlScan *scan)
{
	scan->keeps_hints = true;
}

void
mosql_btree_scan_at_once(MosqlScan *scan, bool told)
{
	scan->at_once = true;
	scan->told = told;
}

void
mosql_btree_scan_end(MosqlScan *scan)
{
	MemoryContextDelete(scan->context);
}

bool
mosql_btree_scan_was_at_once(const MosqlScan *scan)
{
	return scan->done && scan->was_at_once;
}

/* See btree.h. */
uint64
mosql_btree_scan_schema(const MosqlScan *scan)
{
	return scan->schema;
}

/* Does the scan stand at this leaf? */
static bool
stands_at(const MosqlScan *scan, const MosqlNodeMeta *meta)
{
	MosqlBytes	pos = scan->position;

	if (!mosql_node_is_alive(meta->state))
		return false;
	if (scan->backward)
		return (meta->high.data == NULL || (pos.data != NULL && mosql_bytes_compare(pos, meta->high) <= 0)) &&
			(meta->low.len == 0 || pos.data == NULL || mosql_bytes_compare(meta->low, pos) < 0);
	return mosql_bytes_compare(meta->low, pos) <= 0 &&
		(meta->high.data == NULL || mosql_bytes_compare(pos, meta->high) < 0);
}

/* Leave the entries that are in some range. */
static void
drop_between(const MosqlScan *scan, MosqlLeaf *leaf)
{
	int			r = leaf->n > 0 ? first_range_from(scan, leaf->entries[0].key) : 0;
	int			kept = 0;

	for (int i = 0; i < leaf->n && r < scan->nranges; i++)
	{
		MosqlBytes	key = leaf->entries[i].key;

		while (r < scan->nranges && !is_below(key, scan->ranges[r].high))
			r++;
		if (r < scan->nranges && mosql_bytes_compare(key, scan->ranges[r].low) >= 0)
			leaf->entries[kept++] = leaf->entries[i];
	}
	leaf->n = kept;
}

/* From a fence to the next key that is in a range; false if there is none. */
static bool
move_to(MosqlScan *scan, MosqlBytes fence)
{
	int			r;

	if (scan->backward)
	{
		r = fence.len == 0 ? -1 : last_range_below(scan, fence);
		if (r < 0)
			return false;
		scan->position = is_below(fence, scan->ranges[r].high) ? fence : scan->ranges[r].high;
		return true;
	}
	r = fence.data == NULL ? scan->nranges : first_range_from(scan, fence);
	if (r == scan->nranges)
		return false;
	scan->position = is_below(fence, scan->ranges[r].low) ? scan->ranges[r].low : fence;
	return true;
}

static void
keep_all(const MosqlScan *scan, MosqlLeaf *leaf)
{
	leaf->nall = 0;
	leaf->all = NULL;
	if (!scan->keeps_all)
		return;
	leaf->nall = leaf->n;
	leaf->all = palloc(Max(leaf->n, 1) * sizeof(MosqlEntry));
	memcpy(leaf->all, leaf->entries, leaf->n * sizeof(MosqlEntry));
}

/*
 * The leaf at the scan's position is taken: clip it and move on.  To the position,
 * not to the ranges alone: a leaf that took over its right sibling since it was returned
 * comes once more, with keys that the scan has passed.
 */
static void
advance(MosqlScan *scan, MosqlLeaf *leaf)
{
	MosqlTree  *tree = scan->tree;

	keep_all(scan, leaf);
	if (scan->backward)
		mosql_btree_leaf_clip(leaf, scan->ranges[0].low, scan->position);
	else
		mosql_btree_leaf_clip(leaf, scan->position, scan->ranges[scan->nranges - 1].high);
	if (scan->nranges > 1)
		drop_between(scan, leaf);
	if (scan->nread++ < SCAN_HINTS || scan->keeps_hints || mosql_btree_cache_find(tree, leaf->node) != NULL)
		mosql_btree_hint_put_leaf(tree, leaf);

	/* the position is in the window's context now; copied at its end */
	scan->done = !move_to(scan, scan->backward ? leaf->meta.low : leaf->meta.high);
}

/*
 * The child, from c on in scan order, that has keys of some range; -1 if none of these
 * has any.
 */
static int
next_child(const MosqlScan *scan, const CachedNode *parent, int c)
{
	const MosqlChild *children = parent->children;

	if (c < 0 || c >= parent->nchildren)
		return -1;
	if (scan->backward)
	{
		int			r = last_range_below(scan, mosql_btree_child_end(parent, c));

		if (r < 0 || is_below(children[c].separator, scan->ranges[r].high))
			return r < 0 ? -1 : c;
		return mosql_btree_child_index(children, parent->nchildren, scan->ranges[r].high, true);
	}
	else
	{
		int			r = first_range_from(scan, children[c].separator);

		if (r == scan->nranges)
			return -1;
		if (mosql_bytes_compare(scan->ranges[r].low, children[c].separator) <= 0)
			return c;
		if (parent->meta.high.data != NULL && !is_below(scan->ranges[r].low, parent->meta.high))
			return -1;
		return mosql_btree_child_index(children, parent->nchildren, scan->ranges[r].low, false);
	}
}

/* Has the right sibling of a parent keys that follow right on what the parent has? */
static bool
goes_on(const MosqlScan *scan, const CachedNode *parent)
{
	MosqlBytes	end = parent->meta.high;
	int			r = end.data == NULL ? scan->nranges : first_range_from(scan, end);

	return r < scan->nranges && mosql_bytes_compare(scan->ranges[r].low, end) <= 0;
}

/*
 * Ids of the next leaves as the parent has them, in scan order, at most the
 * window; ids[n], if not 0, is the parent's right sibling, worth reading along.
 */
static int
next_leaves(const MosqlScan *scan, const CachedNode *parent, uint64 *ids)
{
	int			c = mosql_btree_child_index(parent->children, parent->nchildren, scan->position,
											scan->backward);
	int			n = 0;

	while (c >= 0 && n < scan->window)
	{
		ids[n++] = parent->children[c].node;
		c = next_child(scan, parent, scan->backward ? c - 1 : c + 1);
	}
	ids[n] = 0;
	if (!scan->backward && c < 0 && goes_on(scan, parent) &&
		mosql_btree_cache_find(scan->tree, parent->meta.right) == NULL)
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

/* The images of these nodes, if they are what was asked for, or the first of it, and have come. */
static bool
take_asked(MosqlScan *scan, const uint64 *ids, int n, MosqlNodeImage *images)
{
	AskedNodes *asked = &scan->asked;
	bool		came;

	if (asked->prefetch == NULL && asked->given == NULL)
		return false;
	if (n > asked->n || memcmp(ids, asked->ids, n * sizeof(uint64)) != 0 || asked->incarnation != scan->tree->incarnation)
	{
		drop_asked(scan);
		return false;
	}
	if (asked->given != NULL)
	{
		memcpy(images, asked->given, n * sizeof(MosqlNodeImage));
		asked->given = NULL;
		return true;
	}
	came = scan->tree->store->prefetched(asked->prefetch, images);
	asked->prefetch = NULL;		/* not before: if it throws there is something to drop */
	scan->asks = came;
	return came;
}

static size_t
bytes_of(const MosqlNodeImage *images, int n)
{
	size_t		bytes = 0;

	for (int i = 0; i < n; i++)
		for (int f = 0; f < images[i].nfields; f++)
			bytes += images[i].fields[f].field.len + images[i].fields[f].value.len;
	return bytes;
}

/* The images of a window's nodes. */
static void
read_nodes(MosqlScan *scan, const uint64 *ids, int n, MosqlNodeImage *images)
{
	scan->was_at_once = false;
	scan->schema = 0;
	if (take_asked(scan, ids, n, images))
	{
		mosql_stats.leaf_reads += n;
		return;
	}
	scan->was_at_once = scan->at_once && (n > 1 || scan->told) &&
		mosql_btree_read_images_at_once(scan->tree, ids, n, images, scan->told ? &scan->schema : NULL);
	if (!scan->was_at_once)
		mosql_btree_read_images(scan->tree, ids, n, images);
}

/* The parent of the next leaf, or one that was it once, as the cache has it; NULL: it has none. */
static const CachedNode *
cached_parent(const MosqlScan *scan)
{
	const CachedNode *node = mosql_btree_cache_find(scan->tree, scan->tree->root);

	while (node != NULL && node->nchildren > 0 && node->meta.level > 1)
	{
		int			c = mosql_btree_child_index(node->children, node->nchildren, scan->position, scan->backward);

		node = mosql_btree_cache_find(scan->tree, node->children[c].node);
	}
	return node != NULL && node->nchildren > 0 ? node : NULL;
}

/* See btree.h. */
int
mosql_btree_first_nodes(MosqlTree *tree, const MosqlKeyRange *ranges, int n, bool backward,
						int first_window, uint64 *ids)
{
	MosqlScan	scan = {
		.tree = tree,.nranges = n,.ranges = unconstify(MosqlKeyRange *, ranges),.backward = backward,
		.window = Min(Max(first_window, 1), BTREE_SCAN_WINDOW)
	};
	const CachedNode *parent;
	int			found;

	for (int i = 0; i < n; i++)
		if (!is_below(ranges[i].low, ranges[i].high))
			return 0;
	mosql_btree_enter(tree);
	scan.position = backward ? ranges[n - 1].high : ranges[0].low;
	parent = cached_parent(&scan);
	if (parent == NULL)
		return 0;
	found = next_leaves(&scan, parent, ids);
	return found + (ids[found] != 0);
}

/* See btree.h. */
void
mosql_btree_scan_give(MosqlScan *scan, const uint64 *ids, int n, const MosqlNodeImage *images)
{
	Assert(scan->asked.prefetch == NULL && scan->nread == 0 && n <= BTREE_SCAN_WINDOW + 1);
	scan->asked.given = images;
	scan->asked.incarnation = scan->tree->incarnation;
	scan->asked.n = n;
	memcpy(scan->asked.ids, ids, n * sizeof(uint64));
}

/*
 * Ask for the next window, if it is worth it: the last one, of so many leaves, was a full one, as the parent said, and not the first.  Some
 * want one window and no more.
 */
static void
ask_ahead(MosqlScan *scan, int taken)
{
	MosqlNodeStore *store = scan->tree->store;
	AskedNodes *asked = &scan->asked;
	const CachedNode *parent;

	Assert(asked->prefetch == NULL && asked->given == NULL);
	if (!scan->asks || scan->done || scan->search || scan->refreshed || scan->at_once ||
		scan->nread < BTREE_SCAN_WINDOW || scan->nread == taken || scan->window_bytes > PREFETCH_MAX_BYTES)
		return;
	parent = cached_parent(scan);
	if (parent == NULL)
		return;
	asked->n = next_leaves(scan, parent, asked->ids);
	asked->n += asked->ids[asked->n] != 0;
	if (asked->n == 0)
		return;
	asked->drop = store->prefetch_drop;
	asked->incarnation = scan->tree->incarnation;
	asked->prefetch = store->prefetch(store, asked->ids, asked->n);
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

	read_nodes(scan, ids, n + (ids[n] != 0), images);
	scan->window_bytes = bytes_of(images, n);
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
			mosql_btree_hint_put_leaf(tree, leaf);
			break;
		}
		if (!mosql_btree_serves(tree, &leaf->meta, MOSQL_ABSENT))
		{
			if (taken == 0)
				mosql_btree_thaw(tree, &ids[0], 1);
			break;
		}
		advance(scan, leaf);
		taken++;
	}

	scan->was_at_once |= taken == 1;

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
			scan->schema = 0;
			(*leaves)[0] = *mosql_btree_read_covering(tree, scan->position, scan->backward);
			advance(scan, *leaves);
			scan->was_at_once = true;
			n = 1;
		}
	}
	scan->window = Min(2 * scan->window, BTREE_SCAN_WINDOW);
	ask_ahead(scan, n);
	MemoryContextSwitchTo(old);
	return n;
}

/* See btree.h. */
bool
mosql_btree_reads_at_once(MosqlTree *tree, MosqlBytes low, MosqlBytes high, int most, bool told)
{
	const CachedNode *parent;
	uint64		ids[MOSQL_BTREE_AT_ONCE];
	int			first;

	Assert(most <= MOSQL_BTREE_AT_ONCE);
	mosql_btree_enter(tree);
	parent = mosql_btree_find_inner(tree, low, false, 1, 0);
	first = mosql_btree_child_index(parent->children, parent->nchildren, low, false);
	for (int n = 0; n < most && first + n < parent->nchildren;)
	{
		MosqlBytes	end = mosql_btree_child_end(parent, first + n);

		ids[n] = parent->children[first + n].node;
		n++;
		if (end.data == NULL || (high.data != NULL && mosql_bytes_compare(high, end) <= 0))
			return (n == 1 && !told) || mosql_btree_can_read_at_once(tree, ids, n, told);
	}
	return false;
}

/* ---- dividing a range ---- */

/* So many pieces are enough; and so many leaves are worth a piece. */
#define ENOUGH_PIECES	48
#define PIECE_LEAVES	32

typedef struct Division
{
	int			max;
	int			n;
	int			skip;			/* keys that are left out between two that are taken, */
	int			skipped;		/* and have been since the last one */
	MosqlBytes *keys;
} Division;

/* Full: leave out every second one, from now on as well. */
static void
thin_out(Division *division)
{
	int			kept = 0;

	for (int i = 1; i < division->n; i += 2)
		division->keys[kept++] = division->keys[i];
	division->n = kept;
	division->skip = 2 * division->skip + 1;
	division->skipped = 0;
}

static void
add_key(Division *division, MosqlBytes key)
{
	if (division->skipped < division->skip)
	{
		division->skipped++;
		return;
	}
	division->skipped = 0;
	if (division->n == division->max)
		thin_out(division);
	division->keys[division->n++] = mosql_bytes_copy(CurrentMemoryContext, key);
}

/* The children of the inner nodes of a level begin there; returns how many there are. */
static int
divide_by_level(MosqlTree *tree, MosqlKeyRange range, int level, Division *division)
{
	MosqlBytes	at = mosql_bytes_copy(tree->scratch, range.low);
	int			found = 0;

	for (;;)
	{
		const CachedNode *node = mosql_btree_find_inner(tree, at, false, level, 0);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < node->nchildren; i++)
		{
			MosqlBytes	key = node->children[i].separator;

			if (mosql_bytes_compare(key, range.low) <= 0 || mosql_bytes_compare(key, at) < 0 ||
				!is_below(key, range.high))
				continue;
			add_key(division, key);
			found++;
		}
		if (node->meta.high.data == NULL || !is_below(node->meta.high, range.high))
			return found;
		at = mosql_bytes_copy(tree->scratch, node->meta.high);
	}
}

/* See btree.h. */
int
mosql_btree_divide(MosqlTree *tree, MosqlKeyRange range, int max, MosqlBytes *keys)
{
	Division	division = {.max = max,.keys = keys};
	int			level;

	mosql_btree_enter(tree);
	if (range.low.data == NULL)
		range.low = mosql_bytes("", 0);
	for (level = mosql_btree_find_root(tree)->meta.level; level > 0; level--)
	{
		division.n = division.skipped = 0;
		division.skip = level == 1 ? PIECE_LEAVES - 1 : 0;
		if (divide_by_level(tree, range, level, &division) >= ENOUGH_PIECES)
			break;
	}
	return division.n;
}
