/*
 * loading.c: leaves that a commit writes as one block before it is decided.
 *
 * Layer: btree.  A large commit makes room first (reserve.c): leaves that hold nothing yet.  All of its rows in such a leaf
 * are written as one block, in place of an intent each; and so is a packed leaf of which it changes many rows
 * (docs/commit.md, "Loaded leaves", "Leaves written anew"):
 *
 *     NORMAL, empty                                  PACKED, nothing beside the block
 *       | fill: compares that it is empty;             | rewrite: compares that nothing is beside the block; another block,
 *       | block, LOADING for an attempt                | with the rows as they are, too, LOADING over them
 *     LOADING   whoever reads finds an intent of that attempt at each row that it writes (leaf.c, get.c)
 *       | settle: PACKED, with the timestamp of the commit; or as before: empty, or PACKED, "undone"
 *
 * Each of these steps compares the generation and raises it, so none that was planned before one of them succeeds after it.
 * A leaf that is loading is frozen for all who write or certify there, until its attempt has ended, which is for the layer
 * above to find out.
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

/* Add that the leaf is loading, with that block, to a step. */
static void
add_loading(MosqlTree *tree, const CachedNode *hint, MosqlLoaded loaded, MosqlBytes block, MosqlStep *step)
{
	MosqlNodeMeta meta = hint->meta;

	meta.generation = mosql_btree_next_generation(meta.generation);
	meta.state = MOSQL_NODE_LOADING;
	meta.loaded = loaded;
	mosql_btree_step_set(step, mosql_btree_meta_field(), meta_bytes(tree, &meta));
	mosql_btree_step_set(step, mosql_btree_block_field(), block);
}

static MosqlBytes
written_row(MosqlBytes before, MosqlBytes columns)
{
	StringInfoData row;

	mosql_string_init(&row, MOSQL_TS_BYTES + 8 + columns.len + before.len);
	mosql_loaded_put(&row, before, columns);
	return mosql_bytes_of(&row);
}

/* See btree.h. */
bool
mosql_btree_fill(MosqlTree *tree, const MosqlLeafGroup *group, MosqlTxid loader, MosqlCompression how,
				 const MosqlBytes *keys, const MosqlBytes *columns, MosqlStep *step)
{
	const CachedNode *hint = leaf_as_of(tree, group->leaf, group->generation);
	MosqlBytes *rows = palloc(group->n * sizeof(MosqlBytes));
	StringInfoData block;
	size_t		bytes;

	if (hint == NULL || hint->meta.state != MOSQL_NODE_NORMAL)
		return false;
	for (int i = 0; i < group->n; i++)
		rows[i] = written_row(MOSQL_ABSENT, columns[i]);
	if (!mosql_btree_make_block(how, keys, rows, group->n, &block, &bytes))
		return false;
	add_loading(tree, hint, (MosqlLoaded) {.loader = loader}, mosql_bytes_of(&block), step);
	return true;
}

/*
 * The rows of a block, and what is written to some keys, ascending: all of a block again.  Returns how many there are; *stay: how many
 * of them when what is deleted is gone.
 */
static int
merge_written(const MosqlBlock *block, const MosqlBytes *keys, const MosqlBytes *columns, int n, MosqlBytes *all_keys,
			  MosqlBytes *all_rows, int *stay)
{
	int			out = 0;
	int			w = 0;
	int			deleted = 0;

	for (int i = 0; i < n; i++)
		deleted += columns[i].data == NULL;

	for (int i = 0; i < block->n; i++)
	{
		int			c = 1;

		for (; w < n && (c = mosql_bytes_compare(keys[w], block->keys[i])) < 0; w++, out++)
		{
			all_keys[out] = keys[w];
			all_rows[out] = written_row(MOSQL_ABSENT, columns[w]);
		}
		all_keys[out] = block->keys[i];
		if (w < n && c == 0)
			all_rows[out++] = written_row(block->rows[i], columns[w++]);
		else if (block->rows[i].data != NULL)
			all_rows[out++] = block->rows[i];
	}
	for (; w < n; w++, out++)
	{
		all_keys[out] = keys[w];
		all_rows[out] = written_row(MOSQL_ABSENT, columns[w]);
	}
	*stay = out - deleted;
	return out;
}

/*
 * See btree.h.  What the block has is known by the generation, which the step compares.  While somebody may ask what was before the last
 * time, that is not lost, nor is it put into another block: what is before is always a plain row, that lives.
 */
bool
mosql_btree_rewrite(MosqlTree *tree, const MosqlLeafGroup *group, MosqlTxid loader, bool locks, MosqlCompression how,
					const MosqlBytes *keys, const MosqlBytes *columns, MosqlStep *step)
{
	MosqlLoaded loaded = {.loader = loader,.over = true,.locks = locks};
	const CachedNode *hint = leaf_as_of(tree, group->leaf, group->generation);
	MosqlBlock	block;
	StringInfoData out;
	MosqlBytes *rows;
	size_t		bytes;
	int			n;
	int			stay;

	if (hint == NULL || hint->meta.state != MOSQL_NODE_PACKED || hint->meta.loaded.whole)
		return false;
	Assert(group->block.data != NULL);
	if (!mosql_block_decode(group->block, &block) || !mosql_loaded_take(&hint->meta.loaded, block.rows, NULL, block.n))
		mosql_btree_damage(tree, group->leaf, "its block does not decode");
	rows = palloc(2 * (block.n + group->n) * sizeof(MosqlBytes));
	n = merge_written(&block, keys, columns, group->n, rows + block.n + group->n, rows, &stay);
	if (stay > MOSQL_LEAF_MAX_ROWS || !mosql_btree_make_block(how, rows + block.n + group->n, rows, n, &out, &bytes))
		return false;
	for (int i = 0; i < group->n; i++)
		loaded.deletes |= columns[i].data == NULL;
	add_loading(tree, hint, loaded, mosql_bytes_of(&out), step);
	return true;
}

/* The field that says of rows that are none since when; what was deleted leaves no other trace once nobody asks. */
static MosqlBytes
purged_field(void)
{
	static const char name = MOSQL_FIELD_PURGED;

	return mosql_bytes(&name, 1);
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
	meta.state = since != 0 || meta.loaded.over ? MOSQL_NODE_PACKED : MOSQL_NODE_NORMAL;
	meta.loaded = (MosqlLoaded) {.since = since,.whole = whole,.deletes = whole && hint->meta.loaded.deletes,.undone = since == 0 && hint->meta.loaded.over};
	tree->scratch = CurrentMemoryContext;
	step = mosql_btree_step_new(tree, leaf, 2);
	tree->scratch = outer;
	mosql_btree_step_expect_generation(step, generation);
	mosql_btree_step_set(step, mosql_btree_meta_field(), meta_bytes(tree, &meta));
	if (meta.state == MOSQL_NODE_NORMAL)
		mosql_btree_step_delete(step, mosql_btree_block_field());
	if (since != 0 && !whole && hint->meta.loaded.deletes)
		mosql_btree_step_raise(step, purged_field(), mosql_ts_bytes(since));
	return step;
}

/* See btree.h. */
MosqlBytes
mosql_btree_plain_meta(const MosqlNodeMeta *meta, bool empty)
{
	MosqlNodeMeta plain = *meta;
	StringInfoData out;

	Assert(meta->state == MOSQL_NODE_PACKED);
	plain.generation = mosql_btree_next_generation(meta->generation);
	plain.loaded.whole = plain.loaded.deletes = false;
	if (empty)
		plain.state = MOSQL_NODE_NORMAL;
	initStringInfo(&out);
	mosql_meta_encode(&out, &plain);
	return mosql_bytes_of(&out);
}
