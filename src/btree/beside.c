/*
 * beside.c: steps on packed leaves that leave the block where it is.
 *
 * Layer: btree.  A block is what it is as long as its leaf's generation is the same, which every
 * step compares.  So who has the block of a generation in hand knows by that compare what a row
 * is that has no field, and can compare, write and lock it beside the block (docs/commit.md, "Beside
 * a block"): here it is looked up.  The last blocks that were read by key are kept, and, with what is cached of
 * its leaf, which keys a block has not; those of other leaves are read, all in one round trip.
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "code/block.h"
#include "code/loaded.h"
#include "code/row.h"
#include "btree/btree_int.h"

MosqlBytes
mosql_btree_block_field(void)
{
	static const char name = MOSQL_FIELD_BLOCK;

	return mosql_bytes(&name, 1);
}

/* Of a leaf under a generation; data NULL: not known. */
static MosqlBytes
find_kept(const MosqlTree *tree, uint64 leaf, uint64 generation)
{
	for (int i = 0; tree->blocks != NULL && i < BTREE_BLOCKS; i++)
		if (tree->blocks[i].leaf == leaf && tree->blocks[i].generation == generation)
			return tree->blocks[i].bytes;
	return MOSQL_ABSENT;
}

/* See btree.h.  In place of the one that was kept first. */
void
mosql_btree_block_keep(MosqlTree *tree, uint64 leaf, uint64 generation, MosqlBytes block)
{
	KeptBlock  *kept;

	if (block.data == NULL || find_kept(tree, leaf, generation).data != NULL)
		return;
	if (tree->blocks == NULL)
		tree->blocks = MemoryContextAllocZero(tree->context, BTREE_BLOCKS * sizeof(KeptBlock));
	kept = &tree->blocks[tree->next_block];
	tree->next_block = (tree->next_block + 1) % BTREE_BLOCKS;
	if (kept->bytes.data != NULL)
		pfree((char *) kept->bytes.data);
	*kept = (KeptBlock) {0};
	kept->bytes = mosql_bytes_copy(tree->context, block);
	kept->leaf = leaf;
	kept->generation = generation;
}

/* ---- which keys are not in a block ---- */

/* Of a group's block, by what is cached of its leaf in the group's generation; NULL: it is not cached so. */
static BlockFilter *
filter_of(MosqlTree *tree, const MosqlLeafGroup *group)
{
	const CachedNode *hint = mosql_btree_cache_find(tree, group->leaf);

	return hint != NULL && hint->meta.generation == group->generation ? hint->filter : NULL;
}

/* Four bits of a key. */
static BlockFilter
filter_bits(MosqlBytes key)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) key.data, key.len, 0);
	BlockFilter of = {0};

	for (int i = 0; i < 4; i++, hash >>= 9)
		of.bits[(hash >> 6) % BTREE_FILTER_WORDS] |= UINT64CONST(1) << (hash % 64);
	return of;
}

/* Remember which keys a group's block has not. */
static void
note_keys(MosqlTree *tree, const MosqlLeafGroup *group, MosqlBytes bytes)
{
	BlockFilter *filter = filter_of(tree, group);
	MemoryContext old;
	MosqlBlock	block;

	if (filter == NULL || filter->filled)
		return;
	old = MemoryContextSwitchTo(tree->scratch);
	if (!mosql_block_decode(bytes, &block))
		mosql_btree_damage(tree, group->leaf, "its block does not decode");
	MemoryContextSwitchTo(old);
	for (int i = 0; i < block.n; i++)
	{
		BlockFilter bits = filter_bits(block.keys[i]);

		for (int w = 0; w < BTREE_FILTER_WORDS; w++)
			filter->bits[w] |= bits.bits[w];
	}
	filter->filled = true;
}

static bool
may_have(const BlockFilter *filter, MosqlBytes key)
{
	BlockFilter bits = filter_bits(key);

	for (int w = 0; w < BTREE_FILTER_WORDS; w++)
		if ((filter->bits[w] & bits.bits[w]) != bits.bits[w])
			return false;
	return true;
}

/* Is it known that a group's block has none of its keys? */
static bool
has_none(MosqlTree *tree, const MosqlLeafGroup *group, const MosqlBytes *keys)
{
	const BlockFilter *filter = filter_of(tree, group);

	if (filter == NULL || !filter->filled)
		return false;
	for (int i = group->first; i < group->first + group->n; i++)
		if (may_have(filter, keys[i]))
			return false;
	return true;
}

/* ---- how new a block is ---- */

/* Is enough known of a leaf (NULL: nothing is) to tell whether it is packed, with a block that has something newer than that? */
bool
mosql_btree_knows_newest(const CachedNode *hint, MosqlTimestamp at_most)
{
	return hint != NULL &&
		(hint->meta.state != MOSQL_NODE_PACKED || hint->newest != MOSQL_TS_MAX || at_most == 0 || at_most == MOSQL_TS_MAX);
}

/* Hints of leaves, and how new their blocks are, into the cache; one round trip. */
void
mosql_btree_read_newest(MosqlTree *tree, const uint64 *ids, int n)
{
	MemoryContext old = MemoryContextSwitchTo(tree->scratch);
	MosqlBytes	fields[2] = {mosql_btree_meta_field(), mosql_btree_block_field()};
	MosqlFieldRead *reads = palloc0(n * sizeof(MosqlFieldRead));

	for (int i = 0; i < n; i++)
		reads[i] = (MosqlFieldRead) {.node = ids[i],.nfields = 2,.fields = fields};
	tree->store->read_fields(tree->store, reads, n);
	for (int i = 0; i < n; i++)
	{
		const MosqlBytes *values = reads[i].values;
		MosqlNodeMeta meta;
		MosqlBlock	block;

		if (values[0].data == NULL)
		{
			mosql_btree_cache_drop(tree, ids[i]);
			continue;
		}
		mosql_btree_meta(tree, ids[i], values[0], &meta);
		mosql_btree_hint_put(tree, ids[i], &meta, -1);
		if (meta.state == MOSQL_NODE_PACKED && values[1].data != NULL && mosql_block_decode(values[1], &block) &&
			mosql_loaded_take(&meta.loaded, block.rows, NULL, block.n))
			mosql_btree_cache_find(tree, ids[i])->newest = mosql_rows_newest(block.rows, block.n);
	}
	MemoryContextSwitchTo(old);
}

/* ---- what a block has ---- */

static void
find_rows(MosqlTree *tree, const MosqlLeafGroup *group, MosqlBytes block, const MosqlBytes *keys, MosqlBytes *rows)
{
	if (block.data == NULL)
		mosql_btree_damage(tree, group->leaf, "it is packed, but its block is missing");
	if (!mosql_block_find(block, keys + group->first, group->n, rows + group->first) ||
		!mosql_loaded_take(&group->loaded, rows + group->first, NULL, group->n))
		mosql_btree_damage(tree, group->leaf, "its block does not decode");
	for (int i = group->first; i < group->first + group->n; i++)
		if (rows[i].data == NULL)
			note_keys(tree, group, block);
}

/* A group's block is known. */
static void
take_known(MosqlTree *tree, MosqlLeafGroup *group, MosqlBytes block, const MosqlBytes *keys, MosqlBytes *rows)
{
	find_rows(tree, group, block, keys, rows);
	if (group->rewrites)
		group->block = mosql_bytes_copy(CurrentMemoryContext, block);
}

/* The same from blocks that are read now; false if one is not of the generation that its group goes by. */
static bool
read_rows(MosqlTree *tree, MosqlLeafGroup **groups, int n, const MosqlBytes *keys, MosqlBytes *rows)
{
	MosqlBytes	fields[2] = {mosql_btree_meta_field(), mosql_btree_block_field()};
	MosqlFieldRead *reads = palloc0(n * sizeof(MosqlFieldRead));
	bool		all = true;

	for (int i = 0; i < n; i++)
		reads[i] = (MosqlFieldRead) {.node = groups[i]->leaf,.nfields = 2,.fields = fields};
	tree->store->read_fields(tree->store, reads, n);
	for (int i = 0; i < n; i++)
	{
		const MosqlBytes *values = reads[i].values;
		MosqlNodeMeta meta = {0};

		if (values[0].data == NULL)
			mosql_btree_cache_drop(tree, groups[i]->leaf);
		else
		{
			mosql_btree_meta(tree, groups[i]->leaf, values[0], &meta);
			mosql_btree_hint_put(tree, groups[i]->leaf, &meta, -1);
		}
		if (values[0].data == NULL || meta.generation != groups[i]->generation)
		{
			all = false;
			continue;
		}
		take_known(tree, groups[i], values[1], keys, rows);
		mosql_btree_block_keep(tree, groups[i]->leaf, meta.generation, values[1]);
	}
	return all;
}

/*
 * Is it asked what the block has of a group's keys?  What is in none may yet be deleted in one, with what was before: then it is
 * brought out, or that would be lost.
 */
static bool
is_asked(const MosqlLeafGroup *group, const MosqlKeyUse *uses)
{
	if (!group->packed || uses == NULL || group->rewrites || group->loaded.whole)
		return group->packed;
	for (int i = group->first; i < group->first + group->n; i++)
		if ((uses[i] & ~MOSQL_KEY_REWRITES) != MOSQL_KEY_NEW_FIELD)
			return true;
	return false;
}

/* What the blocks of packed groups have of their keys; false if a leaf has changed since it was grouped. */
static bool
look_up(MosqlTree *tree, MosqlLeafGroup *groups, int n, const MosqlBytes *keys, const MosqlKeyUse *uses,
		MosqlBytes *rows)
{
	MosqlLeafGroup **missing = palloc(n * sizeof(MosqlLeafGroup *));
	int			nmissing = 0;

	for (int g = 0; g < n; g++)
	{
		MosqlBytes	block;

		if (!is_asked(&groups[g], uses))
			continue;
		block = find_kept(tree, groups[g].leaf, groups[g].generation);
		if (block.data != NULL)
			take_known(tree, &groups[g], block, keys, rows);
		else if (groups[g].rewrites || !has_none(tree, &groups[g], keys))
			missing[nmissing++] = &groups[g];
	}
	return nmissing == 0 || read_rows(tree, missing, nmissing, keys, rows);
}

/*
 * See btree.h.
 *
 * Race -- a leaf is packed again, and again, between its grouping and the reading of its block: after some
 * rounds all is unpacked.
 *
 * Race -- one leaf is not what it was, so that all are grouped anew, and meanwhile another one is unpacked, whose
 * block was at hand: what that had of a row says nothing under the new generation, and would bring back what was deleted.  So
 * each round begins with no rows.
 */
int
mosql_btree_group_beside(MosqlTree *tree, const MosqlBytes *keys, const MosqlKeyUse *uses, int n,
						 MosqlLeafGroup **groups, MosqlBytes *rows)
{
	mosql_btree_enter(tree);
	if (rows == NULL)
		return mosql_btree_group_keys(tree, keys, n, MOSQL_TS_MAX, false, uses, groups);
	for (int round = 0; round < BTREE_MAX_RESTARTS; round++)
	{
		int			ngroups = mosql_btree_group_keys(tree, keys, n, MOSQL_TS_MAX, false, uses, groups);

		memset(rows, 0, n * sizeof(MosqlBytes));
		if (look_up(tree, *groups, ngroups, keys, uses, rows))
			return ngroups;
	}
	memset(rows, 0, n * sizeof(MosqlBytes));
	return mosql_btree_group_keys(tree, keys, n, 0, false, NULL, groups);
}
