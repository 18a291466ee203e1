/*
 * pack.c: leaves whose rows are one block, and how they become fields again.
 *
 * Layer: btree.  A packed leaf holds its rows in one field, compressed (code/block.h), instead
 * of a field each: state PACKED, field "b", and no rows, intents or marks beside it.
 *
 *     pack     by who makes the leaf (load.c), before anybody leads to it
 *     unpack   by whoever comes to write: one step, that compares the generation, sets all
 *              rows as fields, takes the block out, and makes the leaf NORMAL
 *
 * A packed leaf is frozen as a whole, like the upper part of one that is being split: who
 * reads is served, and who wants to write helps first.  It can be no other way than by a
 * step that compares its generation that the leaf changes, and so the block that is unpacked is
 * the one that was read with it.  Any number of helpers may be at it: the first wins, and for
 * the others the generation is another one.  There is no state in between, so nobody
 * need finish anything for anybody; what a failover takes back is a leaf that is packed again, with
 * the same rows.  A step that was sent again, or is late, finds a later generation.
 */
#include "code/block.h"
#include "btree/btree_int.h"

MosqlBytes
mosql_btree_block_field(void)
{
	static const char name = MOSQL_FIELD_BLOCK;

	return mosql_bytes(&name, 1);
}

/* Metas of leaves that the cache does not know, for the cache. */
static void
read_hints(MosqlTree *tree, const uint64 *ids, int n)
{
	MosqlFieldRead *reads = palloc0(n * sizeof(MosqlFieldRead) + 1);
	MosqlBytes	field = mosql_btree_meta_field();
	int			nreads = 0;

	for (int i = 0; i < n; i++)
		if (mosql_btree_cache_find(tree, ids[i]) == NULL)
			reads[nreads++] = (MosqlFieldRead) {.node = ids[i],.nfields = 1,.fields = &field};
	if (nreads > 0)
		tree->store->read_fields(tree->store, reads, nreads);
	for (int i = 0; i < nreads; i++)
	{
		MosqlNodeMeta meta;

		if (reads[i].values[0].data == NULL)
			continue;
		mosql_btree_meta(tree, reads[i].node, reads[i].values[0], &meta);
		mosql_btree_hint_put(tree, reads[i].node, &meta, -1);
	}
}

/* See btree.h. */
void
mosql_btree_thaw_range(MosqlTree *tree, MosqlBytes low, MosqlBytes high, int max)
{
	const CachedNode *parent;
	MemoryContext old;
	uint64	   *ids;
	int			nids = 0;
	int			n = 0;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	parent = mosql_btree_find_inner(tree, low, false, 1, 0);
	ids = palloc(max * sizeof(uint64));
	for (int i = mosql_btree_child_index(parent->children, parent->nchildren, low, false);
		 i < parent->nchildren && nids < max; i++)
	{
		if (nids > 0 && high.data != NULL &&
			mosql_bytes_compare(parent->children[i].separator, high) >= 0)
			break;
		ids[nids++] = parent->children[i].node;
	}
	read_hints(tree, ids, nids);
	for (int i = 0; i < nids; i++)
	{
		const CachedNode *hint = mosql_btree_cache_find(tree, ids[i]);

		if (hint != NULL && hint->meta.level == 0 && hint->meta.state == MOSQL_NODE_PACKED)
			ids[n++] = ids[i];
	}
	if (n > 0)
		mosql_btree_thaw(tree, ids, n);
	MemoryContextSwitchTo(old);
}

/* The step that unpacks a leaf, as it was read. */
static MosqlStep *
unpack_step(MosqlTree *tree, const MosqlLeaf *leaf)
{
	MosqlStep  *step = mosql_btree_step_new(tree, leaf->node, 2 + leaf->n);
	MosqlNodeMeta meta = leaf->meta;

	Assert(meta.state == MOSQL_NODE_PACKED && leaf->n > 0);
	meta.generation = mosql_btree_next_generation(meta.generation);
	meta.state = MOSQL_NODE_NORMAL;
	mosql_btree_step_expect_generation(step, leaf->meta.generation);
	mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(tree, &meta));
	mosql_btree_step_delete(step, mosql_btree_block_field());
	for (int i = 0; i < leaf->n; i++)
		mosql_btree_step_set(step, mosql_btree_field_name(tree, MOSQL_FIELD_ROW, leaf->entries[i].key),
							 leaf->entries[i].row);
	return step;
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
