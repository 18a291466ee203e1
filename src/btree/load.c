/*
 * load.c: rows in their final form, behind the last one of a tree.
 *
 * Layer: btree.  For trees that nobody else writes to, as long as the transaction that made
 * them has not told their root to anybody (docs/commit.md, "Private trees").  New leaves
 * R1 .. Rk, each as full as can be, come to the right of the last leaf L:
 *
 *   1. read    L, where the new keys belong
 *   2. create  R1 .. Rk with their rows, only if they do not exist
 *   3. bring in: L ends where R1 begins, and leads to it.  The first rows go into L
 *              itself if it is empty.
 *   4. link    R1 .. Rk in the parent (inner.c)
 *
 * Where it pays they are packed (pack.c): the first one that leads to such a leaf is step 3.
 *
 * It is a split whose new leaves hold what comes rather than what was there, so L need not
 * be frozen: step 3 compares that it holds nothing from the bound on, and, by its
 * generation, that it is the last leaf still.  Whoever dies before step 3 leaves leaves that
 * nobody leads to, like a split that dies before its cut; the sweep takes them for
 * the same, and makes sure by that generation that they are not brought in later (stray.c).
 * At each moment the tree is whole.
 */
#include "base/interrupt.h"
#include "btree/btree_int.h"

typedef struct Load
{
	MosqlTree  *tree;
	const MosqlBytes *keys;
	const MosqlBytes *rows;
	int		   *starts;			/* [npieces + 1] the first row of each piece, and the end */
	int			npieces;
	MosqlCompression how;
	int			npacked;		/* leaves, by the last attempt */
	MosqlLeaf  *last;			/* of the tree */
	bool		fills;			/* the first piece goes into it */
	MosqlChild *leaves;			/* new ones */
	int			nleaves;
	MosqlStep **creates;
	MosqlStep  *bring_in;
	bool		unsure;			/* bring_in was sent, and its answer is not known */
	bool		done;
} Load;

/* Somebody else knows the tree, or it is not ours any more. */
static void pg_attribute_noreturn()
report_not_alone(const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not write the rows of a new tree"),
			 errdetail_internal("%s", why),
			 errhint("The transaction might succeed if retried.")));
}

/* Step 1. */
static void
read_last(Load *load)
{
	MosqlLeaf  *last = mosql_btree_read_covering(load->tree, load->keys[0], false);

	if ((last->meta.state != MOSQL_NODE_NORMAL && last->meta.state != MOSQL_NODE_PACKED) ||
		last->meta.high.data != NULL ||
		last->purged != 0 || last->range_marks.data != NULL ||
		(last->n > 0 &&
		 mosql_bytes_compare(last->entries[last->n - 1].key, load->keys[0]) >= 0))
		report_not_alone("Somebody else has written to it.");
	load->last = last;
	load->fills = last->n == 0;
}

static void
name_leaves(Load *load)
{
	const MosqlLeaf *last = load->last;

	load->nleaves = 0;
	load->leaves = palloc(load->npieces * sizeof(MosqlChild));
	for (int i = load->fills ? 1 : 0; i < load->npieces; i++)
	{
		int			first = load->starts[i];
		MosqlBytes	before = first > 0 ? load->keys[first - 1] : last->entries[last->n - 1].key;

		load->leaves[load->nleaves] = (MosqlChild)
		{
			mosql_btree_bound_between(before, load->keys[first]),
			mosql_btree_new_leaf(load->tree, load->nleaves)
		};
		load->nleaves++;
	}
}

/* The writes of a leaf that is to hold a piece: its meta, and its rows, packed where that pays. */
static void
set_leaf(Load *load, MosqlStep *step, MosqlNodeMeta *meta, int piece)
{
	int			first = load->starts[piece];
	int			n = load->starts[piece + 1] - first;
	size_t		bytes;
	StringInfoData block;
	bool		packs = load->how != MOSQL_COMPRESSION_NONE &&
		mosql_btree_make_block(load->how, load->keys + first, load->rows + first, n, &block, &bytes);

	meta->state = packs ? MOSQL_NODE_PACKED : MOSQL_NODE_NORMAL;
	mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(load->tree, meta));
	if (meta->state == MOSQL_NODE_PACKED)
	{
		mosql_btree_step_set(step, mosql_btree_block_field(), mosql_bytes_of(&block));
		load->npacked++;
		return;
	}
	for (int i = first; i < first + n; i++)
		mosql_btree_step_set(step, mosql_btree_field_name(load->tree, MOSQL_FIELD_ROW, load->keys[i]),
							 load->rows[i]);
}

/* Of step 2: the leaf before the next one, or the new last one. */
static MosqlStep *
create_leaf(Load *load, int leaf)
{
	const MosqlChild *next = leaf + 1 < load->nleaves ? &load->leaves[leaf + 1] : NULL;
	int			piece = leaf + load->npieces - load->nleaves;
	MosqlStep  *step = mosql_btree_step_new(load->tree, load->leaves[leaf].node,
											1 + load->starts[piece + 1] - load->starts[piece]);
	MosqlNodeMeta meta = {
		.generation = mosql_btree_next_generation(0),
		.tree = load->tree->root,.low = load->leaves[leaf].separator,
		.high = next != NULL ? next->separator : MOSQL_ABSENT,
		.right = next != NULL ? next->node : 0
	};

	mosql_btree_step_expect_absent(step);
	set_leaf(load, step, &meta, piece);
	return step;
}

/* Step 3. */
static MosqlStep *
bring_in(Load *load)
{
	static const char nobody[MOSQL_TXID_BYTES];
	static const char never[MOSQL_TS_BYTES];
	int			nrows = load->fills ? load->starts[1] : 0;
	MosqlStep  *step = mosql_btree_step_new(load->tree, load->last->node, 1 + nrows);
	MosqlNodeMeta meta = load->last->meta;
	const MosqlCompare *generation;

	meta.generation = mosql_btree_next_generation(meta.generation);
	if (load->nleaves > 0)
	{
		meta.high = load->leaves[0].separator;
		meta.right = load->leaves[0].node;
	}
	mosql_btree_step_expect_generation(step, load->last->meta.generation);
	generation = step->compares;
	step->compares = palloc0(2 * sizeof(MosqlCompare));
	step->compares[0] = *generation;
	/*
	 * No row however old, no intent whoever's, where its range ends or is filled.  A packed leaf has
	 * none there, by its generation.
	 */
	mosql_step_expect(step, MOSQL_COMPARE_RANGE,
					  load->fills ? load->last->meta.low : load->leaves[0].separator, 0,
					  mosql_bytes(nobody, sizeof(nobody)));
	step->compares[1].at_most = mosql_bytes(never, sizeof(never));
	if (load->fills)
		set_leaf(load, step, &meta, 0);
	else
		mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(load->tree, &meta));
	return step;
}

/* Steps 2 and 3.  If a server forgot the leaves, who leads to them would lead to nowhere. */
static void
write_leaves(void *arg)
{
	Load	   *load = arg;

	load->npacked = 0;
	for (int i = 0; i < load->nleaves; i++)
		load->creates[i] = create_leaf(load, i);
	mosql_btree_steps_run(load->tree, load->creates, load->nleaves);
	for (int i = 0; i < load->nleaves; i++)
		if (!mosql_btree_step_created(load->creates[i]))
			mosql_btree_damage(load->tree, load->creates[i]->node, "a node that was to be created exists");
	MOSQL_DEBUG_POINT("build-leaves-created");
	load->bring_in = bring_in(load);
	load->unsure = true;
	mosql_btree_steps_run(load->tree, &load->bring_in, 1);
	load->unsure = false;
	load->done = mosql_btree_step_created(load->bring_in);
	MOSQL_DEBUG_POINT("build-leaves-brought-in");
}

/* Those that were made for a tree that is given up: from its root nobody finds them. */
static void
discard_leaves(void *arg)
{
	const Load *load = arg;
	uint64	   *ids = palloc(load->nleaves * sizeof(uint64));

	for (int i = 0; i < load->nleaves; i++)
		ids[i] = load->leaves[i].node;
	load->tree->store->delete_nodes(load->tree->store, ids, load->nleaves);
}

/*
 * Steps 2 and 3.  Whoever gets an error gives the tree up, and destroys it from its root:
 * so leaves that were not brought in go here.
 *
 * Race -- the connection breaks with step 3 under way.  It may be done, or be done later, and until the tree
 * is destroyed vacuum may come by, which no leaf must lead to nowhere then.  So the leaves stay: they go
 * with the tree if it leads to them, and else with the sweep, when the session has ended.
 */
static void
write_or_discard(Load *load)
{
	MemoryContext cxt = CurrentMemoryContext;

	PG_TRY();
	{
		if (!mosql_btree_unbroken(load->tree, write_leaves, load))
			report_not_alone("A connection to Redis broke meanwhile.");
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		if (load->nleaves > 0 && !load->unsure)
			(void) mosql_do_quietly(discard_leaves, load);
		ReThrowError(error);
	}
	PG_END_TRY();
}

/* What is known of the leaves now; then step 4. */
static void
link_leaves(Load *load)
{
	MosqlTree  *tree = load->tree;

	mosql_btree_remember(tree, load->bring_in);
	for (int i = 0; i < load->nleaves; i++)
		mosql_btree_remember(tree, load->creates[i]);
	mosql_stats.leaves_packed += load->npacked;
	if (load->nleaves > 0)
		mosql_btree_inner_insert(tree, 1, load->leaves, load->nleaves);
}

/* The pieces to be written now: not the last one, unless it is the end. */
static void
cut_pieces(Load *load, int n, bool finish)
{
	uint32	   *sizes = MemoryContextAllocHuge(load->tree->scratch, n * sizeof(uint32));

	load->starts = MemoryContextAllocHuge(load->tree->scratch, (n + 1) * sizeof(int));
	for (int i = 0; i < n; i++)
		sizes[i] = (uint32) Min(load->keys[i].len + load->rows[i].len, PG_UINT32_MAX);
	load->npieces = mosql_btree_partition(sizes, n, MOSQL_LEAF_FILL(MOSQL_LEAF_MAX_ROWS),
										  MOSQL_LEAF_FILL(MOSQL_LEAF_MAX_BYTES), true, load->starts);
	load->starts[load->npieces] = n;
	if (!finish)
		load->npieces--;
}

/* See btree.h. */
int
mosql_btree_load(MosqlTree *tree, const MosqlBytes *keys, const MosqlBytes *rows, int n, MosqlCompression how,
				 bool finish)
{
	MosqlBudget budget = mosql_budget_start(BTREE_WAIT_MS);
	Load		load = {.tree = tree,.keys = keys,.rows = rows,.how = how};
	MemoryContext old;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->call);
	if (n > 0)
		cut_pieces(&load, n, finish);
	while (load.npieces > 0 && !load.done)
	{
		read_last(&load);
		name_leaves(&load);
		load.creates = palloc(Max(load.nleaves, 1) * sizeof(MosqlStep *));
		write_or_discard(&load);
		if (!load.done)			/* the sweep has touched the last leaf: others in its place */
			mosql_btree_wait(tree, &budget, load.last->node);
	}
	if (load.npieces > 0)
		link_leaves(&load);
	MemoryContextSwitchTo(old);
	return load.npieces > 0 ? load.starts[load.npieces] : 0;
}
