/*
 * pack.c: leaves whose rows are one block, and how they become fields again.
 *
 * Layer: btree.  A packed leaf holds its rows in one field, compressed (code/block.h), instead
 * of a field each: state PACKED, field "b", and beside it rows that were written since, and intents.
 *
 *     pack     by who makes the leaf (load.c), before anybody leads to it; or by maintenance: one
 *              step, that compares the generation, all rows as they were read, and that there is
 *              no other field, takes the fields out and sets the block
 *     unpack   by whoever comes to delete, or to write much: one step, that compares the generation, sets all
 *              rows as fields, takes the block out, and makes the leaf NORMAL
 *
 * To these a packed leaf is frozen as a whole, like the upper part of one that is being split: who
 * reads is served, and who deletes helps first.  It can be no other way than by a
 * step that compares its generation that the leaf changes, and so the block that is unpacked is
 * the one that was read with it.  Any number of helpers may be at it: the first wins, and for
 * the others the generation is another one.  There is no state in between, so nobody
 * need finish anything for anybody; what a failover takes back is a leaf that is packed again, with
 * the same rows.  A step that was sent again, or is late, finds a later generation.
 */
#include "code/block.h"
#include "code/loaded.h"
#include "btree/btree_int.h"

/* See btree.h. */
void
mosql_btree_thaw_range(MosqlTree *tree, MosqlBytes low, MosqlBytes high, MosqlTimestamp at_most, int max)
{
	const CachedNode *parent;
	MemoryContext old;
	uint64	   *ids;
	uint64	   *missing;
	int			nids = 0;
	int			nmissing = 0;
	int			n = 0;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	parent = mosql_btree_find_inner(tree, low, false, 1, 0);
	ids = palloc(max * sizeof(uint64));
	missing = palloc(max * sizeof(uint64));
	for (int i = mosql_btree_child_index(parent->children, parent->nchildren, low, false);
		 i < parent->nchildren && nids < max; i++)
	{
		if (nids > 0 && high.data != NULL &&
			mosql_bytes_compare(parent->children[i].separator, high) >= 0)
			break;
		ids[nids++] = parent->children[i].node;
	}
	for (int i = 0; i < nids; i++)
		if (!mosql_btree_knows_newest(mosql_btree_cache_find(tree, ids[i]), at_most))
			missing[nmissing++] = ids[i];
	if (nmissing > 0)
		mosql_btree_read_newest(tree, missing, nmissing);
	for (int i = 0; i < nids; i++)
	{
		const CachedNode *hint = mosql_btree_cache_find(tree, ids[i]);

		if (hint != NULL && hint->meta.level == 0 && mosql_btree_has_newer(hint, at_most))
			ids[n++] = ids[i];
	}
	if (n > 0)
		mosql_btree_thaw(tree, ids, n);
	MemoryContextSwitchTo(old);
}

/* What Redis keeps for a field beside its bytes, about. */
#define FIELD_OVERHEAD	20

/*
 * And no fuller than two: who reads a row gets all of the block.  (Rows that grow make leaves larger than they are
 * when they are split.)
 */
static bool
is_half_full(int n, size_t bytes)
{
	return n >= 2 && n <= MOSQL_BLOCK_MAX_ROWS && bytes <= 2 * MOSQL_LEAF_MAX_BYTES &&
		(n >= MOSQL_PACK_MIN_ROWS || bytes >= MOSQL_LEAF_MAX_BYTES / 2);
}

/*
 * See btree.h.  Room is not made beside a block, whose rows nobody counts: if a leaf with more rows than fit were packed again, it
 * would grow with each pass.  As it is it comes to be unpacked, and split.
 */
bool
mosql_btree_may_pack(const MosqlLeaf *leaf)
{
	size_t		bytes = 0;
	int			fields = 0;

	for (int i = 0; i < leaf->n; i++)
	{
		bytes += leaf->entries[i].key.len + leaf->entries[i].row.len;
		fields += !leaf->entries[i].in_block;
	}
	if (leaf->clipped)
		return false;			/* the rest would be lost: fields are counted, a block's rows are not */
	if (leaf->meta.state == MOSQL_NODE_PACKED && leaf->stale)
		return true;
	return (leaf->meta.state == MOSQL_NODE_NORMAL || leaf->meta.state == MOSQL_NODE_PACKED) &&
		fields > 0 && is_half_full(leaf->n, bytes) &&
		(leaf->meta.state == MOSQL_NODE_NORMAL || leaf->n <= MOSQL_LEAF_MAX_ROWS);
}

/*
 * Make a block of rows, if that pays: of a leaf that is half full, and comes to be a quarter
 * smaller at least.  For who reads one row gets the whole block.  *bytes: what the fields take.
 */
bool
mosql_btree_make_block(MosqlCompression how, const MosqlBytes *keys, const MosqlBytes *rows, int n,
					   StringInfo block, size_t *bytes)
{
	size_t		own = 0;

	for (int i = 0; i < n; i++)
		own += keys[i].len + rows[i].len;
	*bytes = own + (size_t) n * FIELD_OVERHEAD;
	if (!is_half_full(n, own))
		return false;
	mosql_string_init(block, own / 2);
	mosql_block_encode(block, how, keys, rows, n);
	return (size_t) block->len <= *bytes / 4 * 3;
}

/* The rows of a leaf that are fields. */
static int
count_fields(const MosqlLeaf *leaf)
{
	int			n = 0;

	for (int i = 0; i < leaf->n; i++)
		n += !leaf->entries[i].in_block;
	return n;
}

/*
 * The step that packs a leaf, or packs it again, as it was read: it compares the node as a whole, so that it turns what
 * is there into another form of the same, however late it comes.  The generation stands for the
 * meta, which it writes, and for a block that is there; and it is raised, so that no step which was planned for fields finds them
 * gone and takes that for rows that are not there.
 */
static MosqlStep *
pack_step(MosqlTree *tree, const MosqlLeaf *leaf, const StringInfo block)
{
	static const char purged = MOSQL_FIELD_PURGED;
	MosqlStep  *step = mosql_btree_step_new(tree, leaf->node, 2 + leaf->n);
	MosqlNodeMeta meta = leaf->meta;
	int			nfields = 1 + count_fields(leaf) + (leaf->purged != 0) + (meta.state == MOSQL_NODE_PACKED);
	const MosqlCompare *generation;
	StringInfoData purge_mark;

	Assert(mosql_btree_may_pack(leaf) && leaf->range_marks.data == NULL);
	meta.generation = mosql_btree_next_generation(meta.generation);
	meta.state = MOSQL_NODE_PACKED;
	meta.loaded = (MosqlLoaded) {0};	/* its rows carry their own timestamps now */
	mosql_btree_step_expect_generation(step, leaf->meta.generation);
	generation = step->compares;
	step->compares = palloc((3 + leaf->n) * sizeof(MosqlCompare));
	step->compares[0] = *generation;
	mosql_step_expect(step, MOSQL_COMPARE_COUNT, mosql_btree_meta_field(), nfields, MOSQL_ABSENT);
	mosql_string_init(&purge_mark, MOSQL_TS_BYTES);
	mosql_ts_put(&purge_mark, leaf->purged);
	mosql_step_expect_same(step, mosql_bytes(&purged, 1),
						   leaf->purged != 0 ? mosql_bytes_of(&purge_mark) : MOSQL_ABSENT);
	mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(tree, &meta));
	mosql_btree_step_set(step, mosql_btree_block_field(), mosql_bytes_of(block));
	for (int i = 0; i < leaf->n; i++)
	{
		MosqlBytes	field = mosql_btree_field_name(tree, MOSQL_FIELD_ROW, leaf->entries[i].key);

		Assert(leaf->entries[i].intent.data == NULL && leaf->entries[i].marks.data == NULL);
		if (leaf->entries[i].in_block)
			continue;
		mosql_step_expect_same(step, field, leaf->entries[i].row);
		mosql_btree_step_delete(step, field);
	}
	return step;
}

/* The block of a leaf, as it was read; false if it does not pay. */
static bool
leaf_block(const MosqlLeaf *leaf, MosqlCompression how, StringInfo block, size_t *bytes)
{
	MosqlBytes *keys = palloc(2 * leaf->n * sizeof(MosqlBytes) + 1);
	MosqlBytes *rows = keys + leaf->n;
	bool		pays;

	for (int i = 0; i < leaf->n; i++)
	{
		keys[i] = leaf->entries[i].key;
		rows[i] = leaf->entries[i].row;
	}
	pays = mosql_btree_make_block(how, keys, rows, leaf->n, block, bytes);
	pfree(keys);
	return pays;
}

/*
 * The step that unpacks a leaf, as it was read.
 *
 * Race -- somebody brings a row out, or writes one that was out, in between, under the same generation: what is a
 * field by now is the row, and newer than what the block has (rule 44).  So each row is set where it is absent, or older,
 * and what is a field already is left alone.
 *
 * Race -- a row was a field when the leaf was read, and a failover takes that back, under the same generation: then
 * the block has the row.  So all of the block's rows are set, whatever was a field.
 */
static MosqlStep *
unpack_step(MosqlTree *tree, const MosqlLeaf *leaf)
{
	MosqlNodeMeta meta = leaf->meta;
	MosqlBlock	block;
	MosqlStep  *step;

	Assert(meta.state == MOSQL_NODE_PACKED);
	if (!mosql_block_decode(leaf->block, &block) || !mosql_loaded_take(&meta.loaded, block.rows, NULL, block.n))
		mosql_btree_damage(tree, leaf->node, "its block does not decode");
	step = mosql_btree_step_new(tree, leaf->node, 2 + block.n);
	meta.generation = mosql_btree_next_generation(meta.generation);
	meta.state = MOSQL_NODE_NORMAL;
	mosql_btree_step_expect_generation(step, leaf->meta.generation);
	mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(tree, &meta));
	mosql_btree_step_delete(step, mosql_btree_block_field());
	for (int i = 0; i < block.n; i++)
		if (block.rows[i].data != NULL)
			mosql_btree_step_raise(step, mosql_btree_field_name(tree, MOSQL_FIELD_ROW, block.keys[i]), block.rows[i]);
	return step;
}

/* Packs leaves as they were read; see btree.h. */
static void
pack_leaves(MosqlTree *tree, const MosqlLeaf *const *leaves, int n, MosqlCompression how, MosqlPackCounts *counts)
{
	MosqlStep **steps = palloc(n * sizeof(MosqlStep *) + 1);
	size_t	   *before = palloc(n * sizeof(size_t) + 1);
	int		   *after = palloc(n * sizeof(int) + 1);
	int			nsteps = 0;

	for (int i = 0; i < n; i++)
	{
		StringInfoData block;

		after[nsteps] = 0;
		if (leaf_block(leaves[i], how, &block, &before[nsteps]))
		{
			after[nsteps] = block.len;
			steps[nsteps++] = pack_step(tree, leaves[i], &block);
		}
		else if (leaves[i]->stale)
			steps[nsteps++] = unpack_step(tree, leaves[i]);
	}
	if (nsteps > 0)
	{
		MOSQL_DEBUG_POINT("vacuum-pack");
		mosql_btree_steps_run(tree, steps, nsteps);
		MOSQL_DEBUG_POINT("vacuum-packed");
	}
	for (int i = 0; i < nsteps; i++)
	{
		if (steps[i]->status != MOSQL_STEP_DONE)
		{
			mosql_btree_cache_drop(tree, steps[i]->node);
			continue;
		}
		mosql_btree_remember(tree, steps[i]);
		if (after[i] == 0)
			continue;
		mosql_stats.leaves_packed++;
		counts->leaves++;
		counts->bytes_before += before[i];
		counts->bytes_after += after[i];
	}
}

/* See btree.h. */
void
mosql_btree_pack(MosqlTree *tree, const MosqlLeaf *const *leaves, int n, MosqlCompression how,
				 MosqlPackCounts *counts)
{
	MemoryContext old;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	pack_leaves(tree, leaves, n, how, counts);
	MemoryContextSwitchTo(old);
}

/* Unpack leaves, as they were read.  One round trip; where somebody was faster, nothing. */
void
mosql_btree_unpack(MosqlTree *tree, MosqlLeaf *const *leaves, int n)
{
	MosqlStep **steps = palloc(n * sizeof(MosqlStep *));

	for (int i = 0; i < n; i++)
		steps[i] = unpack_step(tree, leaves[i]);
	mosql_btree_steps_run(tree, steps, n);
	for (int i = 0; i < n; i++)
	{
		if (steps[i]->status == MOSQL_STEP_DONE)
		{
			mosql_btree_remember(tree, steps[i]);
			mosql_stats.leaves_unpacked++;
		}
		else
			mosql_btree_cache_drop(tree, steps[i]->node);
	}
}
