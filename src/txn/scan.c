/*
 * scan.c: rows of key ranges, the write buffer merged in.
 *
 * Layer: txn.  The tree delivers windows of leaves; intents of a whole window
 * are settled with one question to the clock.  The buffer's rows that this
 * view can see do not change while it is open, so they are collected once.
 *
 * As far as the snapshot has seen the ranges already, from where the scan begins, rows come
 * from there (reuse.c); the tree is asked for the rest.
 *
 * A scan that is all that its statement reads, at READ COMMITTED, tries to do without a snapshot
 * (rule 45).  One leaf is read in one command, some on one server in
 * one MULTI.  If they have all of the ranges, and no intent in them, then all commits that were decided by that moment are
 * applied there, and no others: the newest versions are what a snapshot would show that is drawn at that moment.  Else
 * nothing of it counts; a snapshot is drawn, and the ranges are read anew.
 *
 * The transaction's first scan of a tree finds out that the definition is current, as a snapshot would: the schema version comes
 * with the leaves, where one server has both, and is the one that the transaction goes by, or nothing counts.  On PostgreSQL's
 * own tables nobody could change it after that.
 */
#include "txn/reuse.h"
#include "txn/txn_int.h"
#include "txn/view_int.h"

/* Leaves in the first window of a range that will be read to its end; of a piece of one. */
#define WHOLE_RANGE_WINDOW	MOSQL_BTREE_AT_ONCE
#define PIECE_WINDOW		64

struct MosqlRowScan
{
	MosqlView  *view;
	MosqlTree  *tree;
	bool		backward;
	MosqlTimestamp S;			/* MOSQL_TS_MAX: it does without a snapshot, or tries to, */
	bool		told;			/* if it is told that the definition is current; */
	bool		whole;			/* and has: the window is all of the ranges */
	MosqlScan  *scan;			/* NULL: at its end */
	int			first_window;
	MosqlNodesAlong	along;			/* leaves that came with the snapshot, for the first window */
	MemoryContext cxt;			/* the scan */
	MemoryContext window_cxt;	/* what a window's intents needed */

	/* --- what the snapshot has seen --- */
	MosqlSeen  *seen;			/* NULL: nothing is looked up, nor kept, there */
	bool		recalls;		/* the scan still stands in what was seen */
	const MosqlSeenPart *part;	/* there, or NULL */
	int			part_row;		/* its next row, */
	int			part_end;		/* up to this one; they lie in ranges[range] */
	int			nranges;
	MosqlKeyRange *ranges;
	int			range;
	MosqlBytes	position;		/* in it: where to go on (backward: below it) */

	/* --- the window --- */
	int			nleaves;
	MosqlLeaf  *leaves;
	int			leaf;
	int			entry;			/* next entry of leaves[leaf] */
	MosqlStatusCache cache;
	bool		have;			/* `stored` is the next stored row */
	MosqlRow	stored;

	/* --- own rows in the ranges, ascending --- */
	int			nown;
	int			maxown;
	MosqlEntryW **own;
	int			next_own;
};

/* Those of the next range. */
static void
collect_own(MosqlRowScan *scan, MosqlBuffer *buffer, const MosqlKeyRange *range)
{
	for (MosqlEntryW *e = mosql_buffer_seek(buffer, range->low); e != NULL; e = e->next[0])
	{
		if (range->high.data != NULL && mosql_bytes_compare(e->key, range->high) >= 0)
			break;
		if (mosql_entry_visible(e, scan->view->curcid) == NULL)
			continue;
		if (scan->nown == scan->maxown)
		{
			scan->maxown = Max(64, scan->maxown * 2);
			scan->own = scan->own ? repalloc_huge(scan->own, scan->maxown * sizeof(*scan->own))
				: MemoryContextAllocHuge(scan->cxt, scan->maxown * sizeof(*scan->own));
		}
		scan->own[scan->nown++] = e;
	}
}

MosqlRowScan *
mosql_view_scan_begin(MosqlView *view, MosqlTree *tree, MosqlBytes low, MosqlBytes high,
					  bool backward, int64 limit_hint)
{
	MosqlKeyRange range = {low, high};

	return mosql_view_scan_begin_ranges(view, tree, &range, 1, backward, limit_hint);
}

/* Are the ranges that a view reads certified? */
static bool
certifies(const MosqlView *view)
{
	return view->certified || view->txn->isolation == MOSQL_SERIALIZABLE;
}

/* From here on the tree is asked, for these ranges. */
static void
begin_tree(MosqlRowScan *scan, const MosqlKeyRange *ranges, int n)
{
	MemoryContext old = MemoryContextSwitchTo(scan->cxt);

	scan->recalls = false;
	scan->scan = mosql_btree_scan_begin_ranges(scan->tree, ranges, n, scan->backward,
											   scan->first_window);
	MemoryContextSwitchTo(old);
	if (scan->along.came)
		mosql_btree_scan_give(scan->scan, scan->along.nodes, scan->along.n, scan->along.images);
	scan->along.came = false;
	if (mosql_reuse_fills(scan->view, scan->seen))
		mosql_btree_scan_keep_all(scan->scan);
	if (certifies(scan->view))
		mosql_btree_scan_keep_hints(scan->scan);
	if (scan->S == MOSQL_TS_MAX)
		mosql_btree_scan_at_once(scan->scan, scan->told);
}

static void
start_range(MosqlRowScan *scan, int range)
{
	scan->range = range;
	if (range >= 0 && range < scan->nranges)
		scan->position = scan->backward ? scan->ranges[range].high : scan->ranges[range].low;
}

/* For later. */
static void
copy_ranges(MosqlRowScan *scan, const MosqlKeyRange *ranges, int n)
{
	scan->nranges = n;
	scan->ranges = palloc(n * sizeof(MosqlKeyRange));
	for (int i = 0; i < n; i++)
		scan->ranges[i] = (MosqlKeyRange)
	{
		mosql_bytes_copy(scan->cxt, ranges[i].low), mosql_bytes_copy(scan->cxt, ranges[i].high)
	};
}

static void
begin_recall(MosqlRowScan *scan, const MosqlKeyRange *ranges, int n)
{
	scan->recalls = true;
	copy_ranges(scan, ranges, n);
	start_range(scan, scan->backward ? n - 1 : 0);
}

static bool
is_met(const MosqlTxn *txn, uint64 root)
{
	for (int i = 0; i < txn->nmet; i++)
		if (txn->met[i] == root)
			return true;
	return false;
}

/* The tree's definition is the one that was current when it was scanned: for the scans that come. */
static void
note_met(MosqlTxn *txn, uint64 root)
{
	if (txn->nmet < MOSQL_MET_TREES && !is_met(txn, root))
		txn->met[txn->nmet++] = root;
}

/* The leaves of the first window, as far as one knows, if the snapshot can bring them. */
static void
prepare_along(MosqlRowScan *scan, const MosqlKeyRange *ranges, int n)
{
	MosqlNodesAlong *along = &scan->along;
	uint64	   *ids;

	*along = (MosqlNodesAlong) {0};
	if (!mosql_view_would_draw(scan->view) || mosql_load_is_later(scan->view, scan->tree))
		return;
	ids = palloc((scan->first_window + 1) * sizeof(uint64));
	along->n = mosql_btree_first_nodes(scan->tree, ranges, n, scan->backward, scan->first_window, ids);
	along->nodes = ids;
	if (!mosql_step_reads_along(&scan->view->txn->session->stepper, ids, along->n))
		along->n = 0;
	along->images = palloc(Max(along->n, 1) * sizeof(MosqlNodeImage));
}

/*
 * The snapshot of a scan, in the scan's memory; that of a statement has compared the definitions that the transaction goes by.  If it is
 * drawn now, it brings the first leaves, where the clock's server has them.
 */
static MosqlTimestamp
scan_snapshot(MosqlRowScan *scan, const MosqlKeyRange *ranges, int n)
{
	MosqlView  *view = scan->view;
	MosqlTimestamp S;

	prepare_along(scan, ranges, n);
	S = mosql_view_snapshot_along(view, scan->along.n > 0 ? &scan->along : NULL);
	if (view->statement->drawn)
		note_met(view->txn, mosql_btree_root(scan->tree));
	return S;
}

/* Is it worth trying to do without a snapshot, with a first window of so many leaves?  The read finds out. */
static bool
may_do_without(MosqlView *view, MosqlTree *tree, const MosqlKeyRange *ranges, int n, int window, bool told)
{
	ErrorContextCallback context;
	bool		at_once;

	if (!mosql_view_may_do_without(view) || (told && !mosql_view_knows_definitions(view)))
		return false;
	mosql_txn_begin_read(view->txn->session, &context);
	at_once = mosql_btree_reads_at_once(tree, ranges[0].low, ranges[n - 1].high, Min(window, WHOLE_RANGE_WINDOW), told);
	mosql_txn_end_read(&context);
	return at_once;
}

/* Leaves that a scan of n ranges reads first. */
static int
first_window(int n, int64 limit_hint)
{
	if (limit_hint > 0)
		return (int) Min(16, 1 + limit_hint / (MOSQL_LEAF_MAX_ROWS / 2));
	return limit_hint < 0 ? PIECE_WINDOW : WHOLE_RANGE_WINDOW + n - 1;
}

static MosqlRowScan *
scan_begin(MosqlView *view, MosqlTree *tree, const MosqlKeyRange *ranges, int n,
		   bool backward, int64 limit_hint, bool alone)
{
	MosqlBuffer *buffer = mosql_buffer_find(view->txn, tree, false);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql row scan",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MosqlRowScan *scan = palloc0(sizeof(MosqlRowScan));

	scan->cxt = cxt;
	scan->view = view;
	scan->tree = tree;
	scan->backward = backward;
	scan->window_cxt = AllocSetContextCreate(cxt, "mosql scan window", ALLOCSET_DEFAULT_SIZES);
	scan->first_window = first_window(n, limit_hint);
	scan->told = !is_met(view->txn, mosql_btree_root(tree));
	alone = alone && may_do_without(view, tree, ranges, n, scan->first_window, scan->told);
	scan->S = alone ? MOSQL_TS_MAX : scan_snapshot(scan, ranges, n);
	for (int i = 0; i < n && buffer != NULL; i++)
		collect_own(scan, buffer, &ranges[i]);
	scan->next_own = scan->backward ? scan->nown - 1 : 0;
	if (alone)
		copy_ranges(scan, ranges, n);
	scan->seen = mosql_reuse_seen(view, tree, scan->S);
	if (scan->seen != NULL && mosql_reuse_knows(view, scan->seen, tree))
		begin_recall(scan, ranges, n);
	else if (!mosql_load_is_later(view, tree))
		begin_tree(scan, ranges, n);
	for (int i = 0; i < n && certifies(view); i++)
		mosql_txn_note_range(view->txn, tree, ranges[i].low, ranges[i].high, scan->S);
	MemoryContextSwitchTo(old);
	return scan;
}

MosqlRowScan *
mosql_view_scan_begin_ranges(MosqlView *view, MosqlTree *tree, const MosqlKeyRange *ranges, int n,
							 bool backward, int64 limit_hint)
{
	return scan_begin(view, tree, ranges, n, backward, limit_hint, false);
}

MosqlRowScan *
mosql_view_scan_begin_alone(MosqlView *view, MosqlTree *tree, const MosqlKeyRange *ranges, int n,
							bool backward, int64 limit_hint)
{
	return scan_begin(view, tree, ranges, n, backward, limit_hint, true);
}

/* ---- rows that the snapshot has seen ---- */

/* Does a range end where the part does, or before? */
static bool
ends_in(const MosqlRowScan *scan, const MosqlSeenPart *part)
{
	const MosqlKeyRange *range = &scan->ranges[scan->range];

	if (scan->backward)
		return mosql_bytes_compare(part->low, range->low) <= 0;
	return part->high.data == NULL ||
		(range->high.data != NULL && mosql_bytes_compare(range->high, part->high) <= 0);
}

static bool
is_empty(const MosqlKeyRange *range)
{
	return range->high.data != NULL && mosql_bytes_compare(range->low, range->high) >= 0;
}

static void
leave_part(MosqlRowScan *scan)
{
	if (ends_in(scan, scan->part))
		start_range(scan, scan->range + (scan->backward ? -1 : 1));
	else
		scan->position = scan->backward ? scan->part->low : scan->part->high;
	scan->part = NULL;
}

/* The part at the scan's position; false if there is none, or no range any more. */
static bool
enter_part(MosqlRowScan *scan)
{
	const MosqlKeyRange *range;
	const MosqlSeenPart *part;

	mosql_view_keep_alive(scan->view);
	while (scan->range >= 0 && scan->range < scan->nranges && is_empty(&scan->ranges[scan->range]))
		start_range(scan, scan->range + (scan->backward ? -1 : 1));
	if (scan->range < 0 || scan->range >= scan->nranges)
		return false;
	range = &scan->ranges[scan->range];
	part = mosql_reuse_find(scan->view, scan->seen, scan->tree, scan->position, scan->backward);
	if (part == NULL)
		return false;
	mosql_stats.snapshot_hits++;
	scan->part = part;
	if (scan->backward)
	{
		scan->part_row = scan->position.data ? mosql_seen_position(part, scan->position) : part->n;
		scan->part_end = mosql_seen_position(part, range->low);
	}
	else
	{
		scan->part_row = mosql_seen_position(part, scan->position);
		scan->part_end = range->high.data ? mosql_seen_position(part, range->high) : part->n;
	}
	return true;
}

/* The tree is asked for what is left of the ranges. */
static void
end_recall(MosqlRowScan *scan)
{
	MosqlKeyRange *rest = scan->ranges;
	int			n = scan->range + 1;

	scan->recalls = false;
	if (scan->range < 0 || scan->range >= scan->nranges)
		return;
	if (scan->backward)
		rest[scan->range].high = scan->position;
	else
	{
		rest += scan->range;
		rest[0].low = scan->position;
		n = scan->nranges - scan->range;
	}
	begin_tree(scan, rest, n);
}

/* The next row that was seen; false where that ends. */
static bool
next_seen(MosqlRowScan *scan, MosqlRow *row)
{
	const MosqlSeenRow *seen;

	for (;;)
	{
		if (scan->part == NULL && !enter_part(scan))
			return false;
		if (scan->backward ? scan->part_row > scan->part_end : scan->part_row < scan->part_end)
			break;
		leave_part(scan);
	}
	seen = &scan->part->rows[scan->backward ? --scan->part_row : scan->part_row++];
	*row = (MosqlRow) {.found = true,.key = seen->key,.columns = seen->columns,.version = seen->version};
	return true;
}

/* ---- leaves ---- */

/* See view_int.h. */
void
mosql_leaves_settle(MosqlSession *session, MosqlTree *tree, MosqlLeaf *leaves, int nleaves,
					MosqlStatusCache *cache)
{
	int			n = 0;
	MosqlBytes *keys;
	MosqlPoint *points;
	MosqlEntry **entries;
	MosqlLeaf **leaf_of;

	for (int l = 0; l < nleaves; l++)
		for (int e = 0; e < leaves[l].n; e++)
			n += leaves[l].entries[e].intent.data != NULL;
	memset(cache, 0, sizeof(*cache));
	if (n == 0)
		return;

	keys = palloc(n * sizeof(MosqlBytes));
	points = palloc(n * sizeof(MosqlPoint));
	entries = palloc(n * sizeof(MosqlEntry *));
	leaf_of = palloc(n * sizeof(MosqlLeaf *));
	n = 0;
	for (int l = 0; l < nleaves; l++)
		for (int e = 0; e < leaves[l].n; e++)
		{
			MosqlEntry *entry = &leaves[l].entries[e];

			if (entry->intent.data == NULL)
				continue;
			keys[n] = entry->key;
			points[n].row = entry->row;
			points[n].intent = entry->intent;
			points[n].purged = leaves[l].purged;
			points[n].leaf = leaves[l].node;
			leaf_of[n] = &leaves[l];
			entries[n++] = entry;
		}
	mosql_points_settle(session, tree, keys, points, n, false, cache);
	for (int i = 0; i < n; i++)
	{
		entries[i]->row = points[i].row;
		entries[i]->intent = points[i].intent;
		leaf_of[i]->purged = Max(leaf_of[i]->purged, points[i].purged);
	}
}

/* Rows of a window, and what is around them, for who comes back. */
static void
keep_window(MosqlRowScan *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->window_cxt);

	for (int l = 0; l < scan->nleaves && mosql_reuse_fills(scan->view, scan->seen); l++)
		mosql_reuse_keep_leaf(scan->seen, scan->tree, &scan->leaves[l], &scan->cache);
	MemoryContextSwitchTo(old);
}

/* Is a commit at a row of the ranges? */
static bool
has_intent(const MosqlLeaf *leaf)
{
	for (int e = 0; e < leaf->n; e++)
	{
		MosqlBytes	intents = leaf->entries[e].intent;
		MosqlIntent intent;

		if (intents.data != NULL && mosql_intent_next(&intents, &intent) != 0)
			return true;
	}
	return false;
}

/*
 * Are the leaves that were read all of the ranges, as one moment has left them?  So if they come with their fences
 * at that moment, and no commit is at a row of the ranges (rule 45).  And did the transaction's definition hold then?
 */
static bool
is_of_one_moment(const MosqlRowScan *scan, int64 before_us)
{
	MosqlTxn   *txn = scan->view->txn;

	if (scan->told && scan->scan != NULL)
	{
		if (!mosql_session_hear(txn->session, mosql_btree_scan_schema(scan->scan), before_us) ||
			!mosql_view_knows_definitions(scan->view))
			return false;
		note_met(txn, mosql_btree_root(scan->tree));
	}
	if (scan->nleaves > 0 && !mosql_btree_scan_was_at_once(scan->scan))
		return false;
	for (int l = 0; l < scan->nleaves; l++)
		if (has_intent(&scan->leaves[l]))
			return false;
	return true;
}

/* Nothing was returned yet: the snapshot is drawn, and the ranges are read from the start. */
static void
draw_late(MosqlRowScan *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->cxt);

	MOSQL_DEBUG_POINT("draw-late");
	scan->S = scan_snapshot(scan, scan->ranges, scan->nranges);
	MemoryContextSwitchTo(old);
	mosql_btree_scan_end(scan->scan);
	begin_tree(scan, scan->ranges, scan->nranges);
}

/* The next leaves.  False: they say nothing without a snapshot. */
static bool
read_window(MosqlRowScan *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->window_cxt);
	MosqlSession *session = scan->view->txn->session;
	ErrorContextCallback context;
	int64		before_us = mosql_now_us();
	bool		counts;

	mosql_txn_begin_read(session, &context);
	scan->nleaves = scan->scan ? mosql_btree_scan_next(scan->scan, &scan->leaves) : 0;
	scan->whole = scan->S == MOSQL_TS_MAX && is_of_one_moment(scan, before_us) && !mosql_session_lost_touch(session);
	counts = scan->S != MOSQL_TS_MAX || scan->whole;
	if (scan->nleaves > 0 && counts)
		mosql_leaves_settle(session, scan->tree, scan->leaves, scan->nleaves, &scan->cache);
	mosql_txn_end_read(&context);
	MemoryContextSwitchTo(old);
	return counts;
}

static void
start_window(MosqlRowScan *scan)
{
	scan->leaf = 0;
	scan->entry = scan->backward ? scan->leaves[0].n - 1 : 0;
}

static bool
next_window(MosqlRowScan *scan)
{
	mosql_view_keep_alive(scan->view);
	MemoryContextReset(scan->window_cxt);
	if (!read_window(scan))
	{
		draw_late(scan);
		(void) read_window(scan);
	}

	/* a row purged after S has left no trace but this mark (rule 11) */
	for (int l = 0; l < scan->nleaves; l++)
		if (scan->leaves[l].purged > scan->S)
			mosql_report_too_old(scan->view->txn->session);
	if (scan->nleaves == 0)
	{
		if (scan->scan)
			mosql_btree_scan_end(scan->scan);
		scan->scan = NULL;
		return false;
	}
	keep_window(scan);
	start_window(scan);
	return true;
}

/* The next entry in scan order, NULL at the end of the scan. */
static MosqlEntry *
next_entry(MosqlRowScan *scan, MosqlLeaf **leaf_out)
{
	for (;;)
	{
		MosqlLeaf  *leaf;

		if (scan->leaf >= scan->nleaves)
		{
			if (scan->scan == NULL || scan->whole || !next_window(scan))
				return NULL;
		}
		leaf = &scan->leaves[scan->leaf];
		if (scan->backward ? scan->entry >= 0 : scan->entry < leaf->n)
		{
			*leaf_out = leaf;
			return &leaf->entries[scan->backward ? scan->entry-- : scan->entry++];
		}
		scan->leaf++;
		if (scan->leaf < scan->nleaves)
			scan->entry = scan->backward ? scan->leaves[scan->leaf].n - 1 : 0;
	}
}

/* The next stored row that is visible at S. */
static bool
next_stored(MosqlRowScan *scan, MosqlRow *row)
{
	MosqlSession *session = scan->view->txn->session;
	MosqlLeaf  *leaf;
	MosqlEntry *entry;

	if (scan->recalls)
	{
		if (next_seen(scan, row))
			return true;
		end_recall(scan);
	}
	*row = (MosqlRow) {.found = true};
	while ((entry = next_entry(scan, &leaf)) != NULL)
	{
		MosqlPoint	point = {.row = entry->row,.intent = entry->intent,.purged = leaf->purged,.leaf = leaf->node};
		MemoryContext old;
		bool		live;

		if (entry->row.data == NULL && entry->intent.data == NULL)
			continue;
		old = MemoryContextSwitchTo(scan->window_cxt);	/* of what intents make of a row */
		live = mosql_point_visible(session, &point, leaf->node, scan->S, &scan->cache, &row->columns, &row->version);
		MemoryContextSwitchTo(old);
		row->key = entry->key;
		if (live)
			return true;
	}
	return false;
}

/* The next own row, or false.  Rows that this view sees as deleted hide what
 * is stored, so they are returned too, with found = false. */
static bool
peek_own(MosqlRowScan *scan, MosqlBytes *key)
{
	if (scan->next_own < 0 || scan->next_own >= scan->nown)
		return false;
	*key = scan->own[scan->next_own]->key;
	return true;
}

/* The next own row is an increment: it becomes an update of what is shown. */
static void
look_at_own(MosqlRowScan *scan)
{
	MosqlTxn   *txn = scan->view->txn;
	MosqlBuffer *buffer = mosql_buffer_find(txn, scan->tree, false);
	MosqlEntryW **next = &scan->own[scan->next_own];

	mosql_look_at_entries(txn, buffer, scan->view->curcid, next,
						  scan->backward ? scan->next_own + 1 : scan->nown - scan->next_own, scan->backward);
	buffer->looked = true;
	mosql_change_bind(txn, scan->tree, *next);
}

static bool
take_own(MosqlRowScan *scan, MosqlRow *row)
{
	MosqlEntryW *entry = scan->own[scan->next_own];
	MosqlChange *change = mosql_entry_visible(entry, scan->view->curcid);

	if (change != NULL && change->kind == MOSQL_CHANGE_INCREMENT)
		look_at_own(scan);
	scan->next_own += scan->backward ? -1 : 1;
	if (change == NULL || change->kind == MOSQL_CHANGE_DELETE)
		return false;
	row->found = row->own = true;
	row->key = entry->key;
	row->columns = change->columns;
	row->version = change->version;
	return true;
}

/*
 * An own row hides a stored one.  What this transaction has inserted, finding the key free,
 * and deletes again, before this or later, leaves nothing that commit would compare.  If
 * somebody else's row is there by now (READ COMMITTED), it must not stay hidden: a foreign
 * key's look for children would miss it, and the deletion of their parent pass.
 */
static void
check_hidden(MosqlSession *session, MosqlEntryW *own)
{
	if (own->top->base != MOSQL_BASE_ABSENT)
		return;
	own->hides = true;
	session->doubts |= own->proved_free;
	if (own->top->kind == MOSQL_CHANGE_DELETE)
		mosql_report_hidden();
}

bool
mosql_view_scan_next(MosqlRowScan *scan, MosqlRow *row)
{
	if (scan->nown == 0)
		return next_stored(scan, row);
	for (;;)
	{
		bool		stored = scan->have = scan->have || next_stored(scan, &scan->stored);
		MosqlBytes	own_key;

		if (peek_own(scan, &own_key))
		{
			int			c = -1;

			if (stored)
				c = mosql_bytes_compare(own_key, scan->stored.key);
			if (stored && scan->backward)
				c = -c;
			if (c == 0)
			{
				check_hidden(scan->view->txn->session, scan->own[scan->next_own]);
				scan->have = false; /* own row hides it */
			}
			if (c <= 0)
			{
				if (take_own(scan, row))
					return true;
				continue;
			}
		}
		if (!stored)
			return false;
		*row = scan->stored;
		scan->have = false;
		return true;
	}
}

bool
mosql_view_scan_again(MosqlRowScan *scan)
{
	if (!scan->whole)
		return false;
	if (scan->nleaves > 0)
		start_window(scan);
	scan->have = false;
	scan->next_own = scan->backward ? scan->nown - 1 : 0;
	return true;
}

void
mosql_view_scan_end(MosqlRowScan *scan)
{
	if (scan->scan)
		mosql_btree_scan_end(scan->scan);
	MemoryContextDelete(scan->cxt);
}
