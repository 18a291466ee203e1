/*
 * loading.c: empty leaves that a commit fills with a block before it is decided.
 *
 * Layer: btree.  A large commit makes room first (reserve.c): leaves that hold nothing yet.  All of its rows in such a leaf
 * are written as one block, in place of an intent each (docs/commit.md, "Loaded leaves"):
 *
 *     NORMAL, empty
 *       | fill: compares that it is empty; block, LOADING for an attempt     generation raised
 *     LOADING        whoever reads finds an intent of that attempt at each row (leaf.c, get.c)
 *       | settle: packed, with the timestamp of the commit; or empty again   generation raised
 *     PACKED, or NORMAL, empty
 *
 * A leaf that is loading is frozen for all who write or certify there, until its attempt has ended, which is for the layer
 * above to find out.  All steps compare the generation, so none that was planned before one of these steps succeeds after it.
 */
#include "code/block.h"
#include "code/loaded.h"
#include "btree/btree_int.h"

/* See btree.h. */
void
mosql_btree_set_loads(MosqlTree *tree, MosqlCompression how)
{
	tree->loads = how;
}

/* See btree.h. */
MosqlCompression
mosql_btree_loads(const MosqlTree *tree)
{
	return tree->loads;
}

/* What the caches have of a leaf under this generation, if they have it. */
static const CachedNode *
leaf_as_of(MosqlTree *tree, uint64 leaf, uint64 generation)
{
	const CachedNode *hint = mosql_btree_cache_find(tree, leaf);

	return hint != NULL && hint->meta.level == 0 && hint->meta.generation == generation ? hint : NULL;
}

/* A meta in the current context. */
static MosqlBytes
meta_bytes(MosqlTree *tree, const MosqlNodeMeta *meta)
{
	MemoryContext outer = tree->scratch;
	MosqlBytes	bytes;

	tree->scratch = CurrentMemoryContext;
	bytes = mosql_btree_meta_bytes(tree, meta);
	tree->scratch = outer;
	return bytes;
}

/* See btree.h. */
bool
mosql_btree_fill(MosqlTree *tree, const MosqlLeafGroup *group, MosqlTxid loader, MosqlCompression how,
				 const MosqlBytes *keys, const MosqlBytes *columns, MosqlStep *step)
{
	const CachedNode *hint = leaf_as_of(tree, group->leaf, group->generation);
	MosqlBytes *rows = palloc(group->n * sizeof(MosqlBytes));
	StringInfoData block;
	MosqlNodeMeta meta;
	size_t		bytes;

	if (hint == NULL || hint->meta.state != MOSQL_NODE_NORMAL)
		return false;
	for (int i = 0; i < group->n; i++)
	{
		StringInfoData row;

		mosql_string_init(&row, MOSQL_TS_BYTES + 1 + columns[i].len);
		mosql_loaded_put(&row, columns[i]);
		rows[i] = mosql_bytes_of(&row);
	}
	if (!mosql_btree_make_block(how, keys, rows, group->n, &block, &bytes))
		return false;
	meta = hint->meta;
	meta.generation = mosql_btree_next_generation(meta.generation);
	meta.state = MOSQL_NODE_LOADING;
	meta.loaded = (MosqlLoaded) {.loader = loader};
	mosql_btree_step_set(step, mosql_btree_meta_field(), meta_bytes(tree, &meta));
	mosql_btree_step_set(step, mosql_btree_block_field(), mosql_bytes_of(&block));
	return true;
}

/* See btree.h. */
MosqlStep *
mosql_btree_settle_step(MosqlTree *tree, uint64 leaf, uint64 generation, MosqlTxid loader, MosqlTimestamp since, bool whole)
{
	const CachedNode *hint = leaf_as_of(tree, leaf, generation);
	MemoryContext outer = tree->scratch;
	MosqlNodeMeta meta;
	MosqlStep  *step;

	if (hint == NULL || hint->meta.state != MOSQL_NODE_LOADING ||
		!mosql_txid_equal(hint->meta.loaded.loader, loader))
		return NULL;
	meta = hint->meta;
	meta.generation = mosql_btree_next_generation(meta.generation);
	meta.state = since != 0 ? MOSQL_NODE_PACKED : MOSQL_NODE_NORMAL;
	meta.loaded = (MosqlLoaded) {.since = since,.whole = whole};
	tree->scratch = CurrentMemoryContext;
	step = mosql_btree_step_new(tree, leaf, 2);
	tree->scratch = outer;
	mosql_btree_step_expect_generation(step, generation);
	mosql_btree_step_set(step, mosql_btree_meta_field(), meta_bytes(tree, &meta));
	if (since == 0)
		mosql_btree_step_delete(step, mosql_btree_block_field());
	return step;
}

/* See btree.h. */
MosqlBytes
mosql_btree_plain_meta(const MosqlNodeMeta *meta)
{
	MosqlNodeMeta plain = *meta;
	StringInfoData out;

	Assert(meta->state == MOSQL_NODE_PACKED && meta->loaded.whole);
	plain.generation = mosql_btree_next_generation(meta->generation);
	plain.loaded.whole = false;
	initStringInfo(&out);
	mosql_meta_encode(&out, &plain);
	return mosql_bytes_of(&out);
}
