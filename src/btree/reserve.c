/*
 * reserve.c: when to split leaves, and where.
 *
 * Layer: btree.  The policy above the mechanism of split.c.
 *
 * A leaf is full at MOSQL_LEAF_MAX_ROWS entries or MOSQL_LEAF_MAX_BYTES.  The
 * limits are soft: nothing breaks when concurrent writers push a leaf a little
 * beyond; the next one that notices splits it.
 *
 *   rows after the last row of a leaf (ascending loads, also those that grow
 *   somewhere in the middle of the key space): fill leaves completely, one
 *   after the other; what was there stays as full as it is; many at once leave a tenth free
 *
 *   a run of rows between two neighbours: the same, and what was to the right
 *   of the run gets a leaf of its own, so that the run can go on at an end
 *
 *   anything else: pieces of equal size, three quarters full at most
 *
 * Rows that are deleted stay in their leaf for a while.  Not so in a packed one that is written anew (loading.c): there as many can come
 * as go, and the leaf is neither unpacked nor split.
 */
#include "btree/btree_int.h"

/* Fruitless rounds of group, read and split before reserve() leaves it at that. */
#define RESERVE_ROUNDS		16

/* So many new keys between two neighbours are a run, not chance. */
#define RUN_MIN_KEYS		Max(MOSQL_LEAF_MAX_ROWS / 8, 2)

/* Without knowing its size we trust a leaf to have room for so many. */
#define TRUST_KEYS			(MOSQL_LEAF_MAX_ROWS / 8)

/* Fields of a leaf that is_crowded() does not take for rows. */
#define FIELDS_SLACK		(2 + MOSQL_LEAF_MAX_ROWS / 8)

/* What a leaf holds and is going to hold, in key order. */
typedef struct Load
{
	MosqlBytes *keys;
	uint32	   *sizes;
	int			n;
	size_t		bytes;
} Load;

static uint32
entry_bytes(const MosqlEntry *entry)
{
	size_t		bytes = entry->key.len + Max(entry->row.len, entry->intent.len);

	return (uint32) Min(bytes, PG_UINT32_MAX);
}

static void
load_add(Load *load, MosqlBytes key, uint32 size)
{
	load->keys[load->n] = key;
	load->sizes[load->n] = size;
	load->bytes += size;
	load->n++;
}

/* Merge the leaf's entries with the new keys; arrays in the scratch context. */
static void
load_build(MosqlTree *tree, Load *load, const MosqlLeaf *leaf, const MosqlBytes *keys, int n,
		   size_t row_bytes)
{
	int			max = leaf->n + n + 1;
	int			k = 0;

	memset(load, 0, sizeof(Load));
	load->keys = MemoryContextAllocHuge(tree->scratch, max * sizeof(MosqlBytes));
	load->sizes = MemoryContextAllocHuge(tree->scratch, max * sizeof(uint32));
	for (int i = 0; i < leaf->n; i++)
	{
		const MosqlEntry *entry = &leaf->entries[i];
		int			c = -1;

		while (k < n && (c = mosql_bytes_compare(keys[k], entry->key)) < 0)
			load_add(load, keys[k++], (uint32) row_bytes);
		if (k < n && c == 0)
			k++;
		load_add(load, entry->key, entry_bytes(entry));
	}
	while (k < n)
		load_add(load, keys[k++], (uint32) row_bytes);
}

static bool
fits(int n, size_t bytes)
{
	return n <= MOSQL_LEAF_MAX_ROWS && (bytes <= MOSQL_LEAF_MAX_BYTES || n < 2);
}

/* The shortest key above prev that is not above next: prev < bound <= next. */
MosqlBytes
mosql_btree_bound_between(MosqlBytes prev, MosqlBytes next)
{
	size_t		n = 0;

	while (n < prev.len && n < next.len && prev.data[n] == next.data[n])
		n++;
	Assert(n < next.len);
	return mosql_bytes(next.data, n + 1);
}

/*
 * Runs that fill leaves.  Many rows at once come from a load: who comes later shall find room.  Few come one
 * after the other: what they leave behind is full.
 */
static int
pack_densely(const uint32 *sizes, int n, int *starts)
{
	bool		loads = n > 2 * MOSQL_LEAF_MAX_ROWS;
	int			max_rows = loads ? MOSQL_LEAF_FILL(MOSQL_LEAF_MAX_ROWS) : MOSQL_LEAF_MAX_ROWS;
	int			max_bytes = loads ? MOSQL_LEAF_FILL(MOSQL_LEAF_MAX_BYTES) : MOSQL_LEAF_MAX_BYTES;

	return mosql_btree_partition(sizes, n, max_rows, max_bytes, true, starts);
}

/*
 * Cut a load in pieces.  The items before `fill_end` are packed densely, the
 * rest (if any) starts a piece of its own; fill_end 0: equal pieces.  Fills in
 * n, bounds and nodes of split.  Returns false if MOSQL_SPLIT_MAX_PIECES did
 * not suffice: the last piece has to be split again.
 */
static bool
plan_pieces(MosqlTree *tree, const Load *load, int fill_end, Split *split)
{
	int		   *starts = MemoryContextAllocHuge(tree->scratch, load->n * sizeof(int));
	int			npieces;

	if (fill_end == 0)
		npieces = mosql_btree_partition(load->sizes, load->n, MOSQL_LEAF_MAX_ROWS,
										MOSQL_LEAF_MAX_BYTES, false, starts);
	else
	{
		int			right;

		npieces = pack_densely(load->sizes, fill_end, starts);
		right = pack_densely(load->sizes + fill_end, load->n - fill_end, starts + npieces);
		for (int i = 0; i < right; i++)
			starts[npieces + i] += fill_end;
		npieces += right;
	}
	Assert(npieces > 1);

	split->n = Min(npieces - 1, MOSQL_SPLIT_MAX_PIECES);
	split->bounds = MemoryContextAllocHuge(tree->scratch, split->n * sizeof(MosqlBytes));
	split->nodes = MemoryContextAllocHuge(tree->scratch, split->n * sizeof(uint64));
	for (int i = 0; i < split->n; i++)
	{
		split->bounds[i] = mosql_btree_bound_between(load->keys[starts[i + 1] - 1], load->keys[starts[i + 1]]);
		split->nodes[i] = mosql_btree_new_leaf(tree, i);
	}
	return split->n == npieces - 1;
}

/*
 * Where dense packing ends for new keys that go into a leaf; 0: nowhere.  Keys without a row
 * are such as somebody is inserting, most likely these: their transaction has locked them.
 */
static int
fill_end(const Load *load, const MosqlLeaf *leaf, const MosqlBytes *keys, int n)
{
	int			next = mosql_btree_leaf_position(leaf, keys[0]);

	while (next < leaf->n && leaf->entries[next].row.data == NULL)
		next++;
	if (next == leaf->n)
		return load->n;
	if (n >= RUN_MIN_KEYS && mosql_bytes_compare(keys[n - 1], leaf->entries[next].key) < 0)
		return load->n - (leaf->n - next);
	return 0;
}

/* How many of a group's keys are of new rows. */
static int
count_new(const MosqlTreeKeys *wanted, const MosqlLeafGroup *group)
{
	int			n = 0;

	if (wanted->growth == NULL)
		return group->n;
	for (int i = group->first; i < group->first + group->n; i++)
		n += wanted->growth[i] > 0;
	return n;
}

/* How many rows more the group's leaf will have when all are written, and what is deleted is gone. */
static int
growth_of(const MosqlTreeKeys *wanted, const MosqlLeafGroup *group)
{
	int			growth = 0;

	for (int i = group->first; i < group->first + group->n; i++)
		growth += wanted->growth[i];
	return growth;
}

/* Does the cache say that the new rows fit into a group's leaf, beside its block, or into that? */
static bool
has_room(const MosqlTreeKeys *wanted, const MosqlLeafGroup *group)
{
	size_t		row_bytes = wanted->row_bytes;
	int			n = count_new(wanted, group);
	int			rows;

	if (n == 0 || (group->rewrites && growth_of(wanted, group) <= 0 && n * row_bytes <= MOSQL_LEAF_MAX_BYTES))
		return true;
	if (group->nfields < 0)
		return n <= TRUST_KEYS && n * row_bytes <= MOSQL_LEAF_MAX_BYTES / 8;
	rows = group->nfields - 1 + n;
	return !group->rewrites && fits(rows, rows * row_bytes);
}

/* Does a leaf cover all keys of a group, unfrozen? */
static bool
takes_all(const MosqlNodeMeta *meta, const MosqlBytes *keys, int n)
{
	return mosql_meta_cover(meta, keys[0]) == MOSQL_COVER_OK &&
		mosql_meta_cover(meta, keys[n - 1]) == MOSQL_COVER_OK;
}

/* A tree's keys that are to get room. */
typedef struct Reserve
{
	const MosqlTreeKeys *wanted;
	bool		again;			/* to be looked at once more */
	MosqlBusyLeaf busy;			/* the last that was met */
	uint64	   *frozen;			/* leaves of a batch that are to be thawed before they can be split */
	int			nfrozen;
} Reserve;

/* Leaves for which the caches do not say that there is room. */
typedef struct Crowded
{
	Reserve    *of;
	const MosqlLeafGroup *group;
} Crowded;

/* There is not room for the keys of a group, and nobody can make it before the leaf is settled. */
static void
note_busy(Reserve *of, const MosqlLeafGroup *group, const MosqlLoaded *loaded)
{
	of->busy = (MosqlBusyLeaf) {of->wanted->tree, of->wanted->keys[group->first], *loaded};
}

/* The keys of a group's new rows. */
static const MosqlBytes *
keys_of_new(const MosqlTreeKeys *wanted, const MosqlLeafGroup *group, int *n)
{
	const MosqlBytes *all = wanted->keys + group->first;
	MosqlBytes *keys;

	*n = count_new(wanted, group);
	if (*n == group->n)
		return all;
	keys = palloc(*n * sizeof(MosqlBytes));
	for (int i = 0, k = 0; i < group->n; i++)
		if (wanted->growth[group->first + i] > 0)
			keys[k++] = all[i];
	return keys;
}

/* Does a leaf that may be written anew hold what it will have then? */
static bool
fits_anew(const MosqlTreeKeys *wanted, const MosqlLeafGroup *group, const MosqlLeaf *leaf)
{
	size_t		bytes;
	int			growth;

	if (!group->rewrites || leaf->meta.generation != group->generation)
		return false;
	growth = growth_of(wanted, group);
	bytes = Max(growth, 0) * wanted->row_bytes;
	for (int i = 0; i < leaf->n; i++)
		bytes += entry_bytes(&leaf->entries[i]);
	return fits(leaf->n + growth, bytes) && count_new(wanted, group) * wanted->row_bytes <= MOSQL_LEAF_MAX_BYTES;
}

/*
 * One of them as it was read: is it to be split, and where?  Returns true if *split was filled in; sets again
 * if it has to be looked at once more.
 */
static bool
plan_split(const Crowded *crowded, const MosqlNodeImage *image, Split *split)
{
	const MosqlTreeKeys *wanted = crowded->of->wanted;
	const MosqlBytes *keys;
	int			n;
	MosqlTree  *tree = wanted->tree;
	MosqlLeaf  *leaf = palloc0(sizeof(MosqlLeaf));
	Load		load;

	if (!image->found)
	{
		mosql_btree_cache_drop(tree, crowded->group->leaf);
		crowded->of->again = true;
		return false;
	}
	mosql_btree_leaf_decode(tree, image, leaf);
	mosql_btree_hint_put(tree, leaf->node, &leaf->meta, leaf->nfields);
	if (!takes_all(&leaf->meta, wanted->keys + crowded->group->first, crowded->group->n))
	{
		crowded->of->again = true;
		return false;
	}
	if (fits_anew(wanted, crowded->group, leaf))
		return false;
	keys = keys_of_new(wanted, crowded->group, &n);
	load_build(tree, &load, leaf, keys, n, wanted->row_bytes);
	if (fits(load.n, load.bytes))
		return false;
	if (leaf->meta.state == MOSQL_NODE_LOADING)
	{
		note_busy(crowded->of, crowded->group, &leaf->meta.loaded);
		return false;
	}
	if (leaf->meta.state != MOSQL_NODE_NORMAL)
	{
		/* it is packed, or somebody is at its other end: that first */
		crowded->of->frozen[crowded->of->nfrozen++] = leaf->node;
		crowded->of->again = true;
		return false;
	}
	split->tree = tree;
	split->leaf = leaf;
	if (!plan_pieces(tree, &load, fill_end(&load, leaf, keys, n), split))
		crowded->of->again = true;
	return true;
}

/* Leaves that were found frozen, those of a tree together. */
static void
thaw_found(Reserve *of)
{
	if (of->nfrozen > 0)
		mosql_btree_thaw(of->wanted->tree, of->frozen, of->nfrozen);
	of->nfrozen = 0;
}

/* Split leaves where needed, all together. */
static void
reserve_batch(const Crowded *crowded, int n)
{
	MosqlNodeStore *store = crowded[0].of->wanted->tree->store;
	uint64	   *ids = palloc(n * sizeof(uint64));
	MosqlNodeImage *images = palloc(n * sizeof(MosqlNodeImage));
	Split	   *splits = palloc0(n * sizeof(Split));
	Reserve   **of = palloc(n * sizeof(Reserve *));
	uint64		incarnation = store->incarnation(store);
	int			nsplits = 0;

	for (int i = 0; i < n; i++)
	{
		ids[i] = crowded[i].group->leaf;
		if (i == 0 || crowded[i].of != crowded[i - 1].of)
			crowded[i].of->frozen = palloc(n * sizeof(uint64));
	}
	mosql_btree_read_images(crowded[0].of->wanted->tree, ids, n, images);
	for (int i = 0; i < n; i++)
	{
		of[nsplits] = crowded[i].of;
		splits[nsplits].incarnation = incarnation;
		nsplits += plan_split(&crowded[i], &images[i], &splits[nsplits]);
	}
	mosql_btree_split_run(splits, nsplits);
	for (int i = 0; i < nsplits; i++)
		of[i]->again |= splits[i].given_up;
	for (int i = 0; i < n; i++)
		thaw_found(crowded[i].of);
}

/* The leaves of the keys; those stay packed beside whose block the new rows have room. */
static int
group_new(const MosqlTreeKeys *wanted, MosqlLeafGroup **groups)
{
	const MosqlKeyUse *uses = wanted->uses;

	if (uses == NULL)
	{
		MosqlKeyUse *same = palloc_extended(wanted->n * sizeof(MosqlKeyUse), MCXT_ALLOC_HUGE);

		for (int i = 0; i < wanted->n; i++)
			same[i] = wanted->use;
		uses = same;
	}
	return mosql_btree_group_keys(wanted->tree, wanted->keys, wanted->n, MOSQL_TS_MAX, false, uses, groups);
}

/* What is looked at in this round; no round trip where the caches know. */
static Crowded *
list_crowded(Reserve *trees, int n, int *ncrowded)
{
	MosqlLeafGroup **groups = palloc(n * sizeof(MosqlLeafGroup *));
	int		   *ngroups = palloc0(n * sizeof(int));
	size_t		max = 1;
	Crowded    *crowded;

	for (int t = 0; t < n; t++)
		if (trees[t].again)
			max += ngroups[t] = group_new(trees[t].wanted, &groups[t]);
	crowded = palloc_extended(max * sizeof(Crowded), MCXT_ALLOC_HUGE);
	*ncrowded = 0;
	for (int t = 0; t < n; t++)
	{
		trees[t].again = false;
		for (int i = 0; i < ngroups[t]; i++)
		{
			MosqlLeafGroup *group = &groups[t][i];

			if (has_room(trees[t].wanted, group))
				continue;
			if (group->loaded.loader.session != 0)	/* a few rows more than it is to hold do no harm there */
				note_busy(&trees[t], group, &group->loaded);
			else
				crowded[(*ncrowded)++] = (Crowded) {&trees[t], group};
		}
	}
	return crowded;
}

/* One look at all keys that are left; sets again where another one is needed. */
static void
reserve_round(Reserve *trees, int n)
{
	int			ncrowded;
	Crowded    *crowded = list_crowded(trees, n, &ncrowded);

	/* Leaves are large: free each batch's before the next. */
	for (int done = 0; done < ncrowded; done += BTREE_LEAF_BATCH)
	{
		MemoryContext cxt = AllocSetContextCreate(trees[0].wanted->tree->call, "mosql tree batch",
												  ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(cxt);

		for (int t = 0; t < n; t++)
			trees[t].wanted->tree->scratch = cxt;
		reserve_batch(crowded + done, Min(ncrowded - done, BTREE_LEAF_BATCH));
		for (int t = 0; t < n; t++)
			trees[t].wanted->tree->scratch = trees[t].wanted->tree->call;
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
	}
}

/* ---- leaves of several trees ---- */

/* The leaf that takes a key, by the caches, if they know nothing of it; 0: they do, or do not say which. */
static uint64
unknown_leaf(MosqlTree *tree, MosqlBytes key)
{
	const CachedNode *node = mosql_btree_cache_find(tree, tree->root);

	while (node != NULL && node->meta.level > 0 && node->nchildren > 0)
	{
		int			level = node->meta.level;
		uint64		child = node->children[mosql_btree_child_index(node->children, node->nchildren, key,
																   false)].node;

		node = mosql_btree_cache_find(tree, child);
		if (node == NULL)
			return level == 1 ? child : 0;
		if (node->meta.level >= level)
			return 0;
	}
	return 0;
}

/* Reads for a tree's leaves, n at most; how many.  fields: meta and block. */
static int
list_unknown(const MosqlTreeKeys *wanted, MosqlBytes *fields, MosqlFieldRead *reads, int max)
{
	bool		blocks = wanted->use == MOSQL_KEY_FIELD && wanted->n <= BTREE_BLOCKS;
	int			n = 0;

	for (int i = 0; i < wanted->n && n < max; i++)
	{
		uint64		leaf = unknown_leaf(wanted->tree, wanted->keys[i]);

		if (leaf != 0 && (n == 0 || reads[n - 1].node != leaf))
			reads[n++] = (MosqlFieldRead)
		{
			.node = leaf, .nfields = blocks ? 2 : 1, .fields = fields
		};
	}
	return n;
}

/* See btree.h.  Not for loads, which have many leaves in each tree. */
void
mosql_btree_look_ahead(const MosqlTreeKeys *wanted, int n)
{
	MosqlBytes	fields[2] = {mosql_btree_meta_field(), mosql_btree_block_field()};
	MosqlFieldRead *reads;
	int		   *ends = palloc(n * sizeof(int));
	int			max = 0;
	int			nreads = 0;
	int			ntrees = 0;

	for (int t = 0; t < n; t++)
		max = Min(max + wanted[t].n, BTREE_READ_BATCH);
	reads = palloc(max * sizeof(MosqlFieldRead));
	for (int t = 0; t < n; t++)
	{
		int			m = 0;

		mosql_btree_enter(wanted[t].tree);
		if (wanted[t].n <= BTREE_READ_BATCH)
			m = list_unknown(&wanted[t], fields, reads + nreads, max - nreads);
		ntrees += m > 0;
		ends[t] = nreads += m;
	}
	if (ntrees < 2)
		return;
	wanted[0].tree->store->read_fields(wanted[0].tree->store, reads, nreads);
	for (int t = 0, i = 0; t < n; t++)
		for (; i < ends[t]; i++)
			if (reads[i].values[0].data != NULL)
				mosql_btree_take_hint(wanted[t].tree, &reads[i]);
}

/* ---- reserving ---- */

/* See btree.h.  Advisory: gives up quietly when others keep splitting. */
MosqlBusyLeaf
mosql_btree_reserve(const MosqlTreeKeys *wanted, int n)
{
	MosqlBusyLeaf busy = {0};
	MemoryContext old;
	Reserve    *trees;
	bool		again = true;

	if (n == 0)
		return busy;
	for (int t = 0; t < n; t++)
		mosql_btree_enter(wanted[t].tree);
	old = MemoryContextSwitchTo(wanted[0].tree->call);
	trees = palloc(n * sizeof(Reserve));
	for (int t = 0; t < n; t++)
	{
		Assert(wanted[t].row_bytes > 0 && wanted[t].row_bytes <= MOSQL_ROW_MAX_BYTES);
		Assert((wanted[t].uses == NULL) == (wanted[t].growth == NULL));
		trees[t] = (Reserve) {&wanted[t], wanted[t].n > 0};
	}
	for (int fruitless = 0; again && fruitless < RESERVE_ROUNDS; fruitless++)
	{
		int64		splits = mosql_stats.splits;

		CHECK_FOR_INTERRUPTS();
		reserve_round(trees, n);
		again = false;
		for (int t = 0; t < n; t++)
			again |= trees[t].again;
		if (mosql_stats.splits > splits)
			fruitless = -1;
	}
	for (int t = 0; t < n && busy.tree == NULL; t++)
		busy = trees[t].busy;
	MemoryContextSwitchTo(old);
	return busy;
}

/*
 * See btree.h.  Fields are not only rows, and a false alarm costs a read: some
 * marks and intents in flight do not make a full leaf a crowded one.
 */
bool
mosql_btree_is_crowded(int nfields, size_t row_bytes)
{
	int			rows = nfields - 1 - FIELDS_SLACK;

	return rows > 0 && !fits(rows, rows * row_bytes);
}

/* See btree.h. */
void
mosql_btree_split(MosqlTree *tree, MosqlBytes key, bool at_end)
{
	MemoryContext old;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	for (int attempt = 0; attempt < 3; attempt++)
	{
		Split		split = {.tree = tree,.incarnation = tree->store->incarnation(tree->store)};
		Load		load;
		int			end = 0;

		split.leaf = mosql_btree_read_covering(tree, key, false);
		if (split.leaf->meta.state == MOSQL_NODE_LOADING)
			break;
		if (split.leaf->meta.state != MOSQL_NODE_NORMAL)
		{
			mosql_btree_thaw(tree, &split.leaf->node, 1);
			continue;
		}
		load_build(tree, &load, split.leaf, NULL, 0, 0);
		if (fits(load.n, load.bytes))
			break;
		if (at_end)
		{
			/* what is to the right of the run gets a leaf of its own */
			end = mosql_btree_leaf_position(split.leaf, key);
			if (end < load.n && mosql_bytes_equal(load.keys[end], key))
				end++;
		}
		plan_pieces(tree, &load, end, &split);
		mosql_btree_split_run(&split, 1);
		if (!split.given_up)
			break;
	}
	MemoryContextSwitchTo(old);
}
