/*
 * cache.c: inner nodes and leaf hints that a tree handle remembers.
 *
 * Layer: btree.  A hash table by node id with clock eviction.  Nothing here
 * is ever validated: leaf fences and the generation compare of each step tell
 * when the cache led astray (README.md, "Caches").
 */
#include "btree/btree_int.h"

int			mosql_btree_cache_kb = MOSQL_INNER_CACHE_KB;

#ifndef CACHE_MIN_BUCKETS
#define CACHE_MIN_BUCKETS	64
#endif

/* Inner nodes are used by every search, hints by those of one leaf. */
#define USAGE_INNER			3
#define USAGE_HINT			1

static uint32
bucket_of(const MosqlTree *tree, uint64 id)
{
	id ^= id >> 33;
	id *= UINT64CONST(0xff51afd7ed558ccd);
	id ^= id >> 33;
	return (uint32) id & (tree->nbuckets - 1);
}

/* A handle; no round trip. */
MosqlTree *
mosql_btree_open(MosqlNodeStore *store, uint64 root, MemoryContext parent)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "mosql tree", ALLOCSET_SMALL_SIZES);
	MosqlTree  *tree = MemoryContextAllocZero(cxt, sizeof(MosqlTree));

	tree->store = store;
	tree->root = root;
	tree->context = cxt;
	tree->call = AllocSetContextCreate(cxt, "mosql tree call", ALLOCSET_DEFAULT_SIZES);
	tree->scratch = tree->call;
	tree->epoch = 1;
	tree->nbuckets = CACHE_MIN_BUCKETS;
	tree->buckets = MemoryContextAllocZero(cxt, tree->nbuckets * sizeof(CachedNode *));
	return tree;
}

void
mosql_btree_close(MosqlTree *tree)
{
	MemoryContextDelete(tree->context);
}

uint64
mosql_btree_root(const MosqlTree *tree)
{
	return tree->root;
}

/* Double the buckets when chains get long. */
static void
grow(MosqlTree *tree)
{
	uint32		old_n = tree->nbuckets;
	CachedNode **old = tree->buckets;
	CachedNode **new = MemoryContextAllocExtended(tree->context, 2 * old_n * sizeof(CachedNode *),
												  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

	tree->buckets = new;
	tree->nbuckets = 2 * old_n;
	for (uint32 i = 0; i < old_n; i++)
		for (CachedNode *node = old[i], *next; node != NULL; node = next)
		{
			uint32		b = bucket_of(tree, node->id);

			next = node->chain;
			node->chain = new[b];
			new[b] = node;
		}
	pfree(old);
}

/* Take a node out of table and ring; it stays readable until the next call. */
static void
retire(MosqlTree *tree, CachedNode *node)
{
	CachedNode **link = &tree->buckets[bucket_of(tree, node->id)];

	while (*link != node)
	{
		Assert(*link != NULL);
		link = &(*link)->chain;
	}
	*link = node->chain;
	if (node->next == node)
		tree->hand = NULL;
	else
	{
		if (tree->hand == node)
			tree->hand = node->next;
		node->prev->next = node->next;
		node->next->prev = node->prev;
	}
	tree->nnodes--;
	tree->bytes -= node->size;
	node->chain = tree->retired;
	tree->retired = node;
}

/*
 * Race -- this process slept for longer than its lease: signposts that its cache
 * still knows may have been taken away (README.md, "Signposts").  Then nothing cached
 * is used any more, and true is returned: nor must any path be that was known
 * before.
 */
bool
mosql_btree_wakes_up(MosqlTree *tree)
{
	uint64		incarnation = tree->store->incarnation(tree->store);

	if (tree->incarnation == incarnation)
		return false;
	while (tree->hand != NULL)
		retire(tree, tree->hand);
	tree->incarnation = incarnation;
	return true;
}

/*
 * Begin a public call: free what earlier calls left, evict down to the bound.
 * After an error that called the tree damaged, evict everything: inner nodes are
 * never validated, and what was damaged may have been mended.
 */
void
mosql_btree_enter(MosqlTree *tree)
{
	size_t		limit = tree->distrusted ? 0 : (size_t) mosql_btree_cache_kb * 1024;

	tree->distrusted = false;
	tree->scratch = tree->call;
	MemoryContextReset(tree->call);
	(void) mosql_btree_wakes_up(tree);
	tree->breaks = mosql_btree_breaks(tree);
	while (tree->bytes > limit && tree->hand != NULL)
	{
		CachedNode *node = tree->hand;

		tree->hand = node->next;
		if (node->usage > 0)
			node->usage--;
		else
			retire(tree, node);
	}
	while (tree->retired != NULL)
	{
		CachedNode *node = tree->retired;

		tree->retired = node->chain;
		pfree(node);
	}
}

/* What is cached under an id, or NULL. */
CachedNode *
mosql_btree_cache_find(MosqlTree *tree, uint64 id)
{
	CachedNode *node = tree->buckets[bucket_of(tree, id)];

	while (node != NULL && node->id != id)
		node = node->chain;
	if (node != NULL)
		node->usage = node->meta.level > 0 ? USAGE_INNER : USAGE_HINT;
	return node;
}

void
mosql_btree_cache_drop(MosqlTree *tree, uint64 id)
{
	CachedNode *node = mosql_btree_cache_find(tree, id);

	if (node != NULL)
		retire(tree, node);
}

static MosqlBytes
copy_bytes(char **to, MosqlBytes b)
{
	MosqlBytes	copy = {*to, b.len};

	if (b.data == NULL)
		return b;
	if (b.len > 0)
		memcpy(*to, b.data, b.len);
	*to += b.len;
	return copy;
}

/*
 * Remember a node (copies everything) in place of what was known of it, even
 * if that was a higher generation: after a failover the store is right.
 * Returns the cached node.
 */
CachedNode *
mosql_btree_cache_put(MosqlTree *tree, uint64 id, const MosqlNodeMeta *meta,
					  const MosqlChild *children, int nchildren, int nfields)
{
	CachedNode *old = mosql_btree_cache_find(tree, id);
	CachedNode *node;
	CachedNode **bucket;
	bool		packed = meta->state == MOSQL_NODE_PACKED;
	size_t		size = sizeof(CachedNode) + nchildren * sizeof(MosqlChild) + (packed ? sizeof(BlockFilter) : 0);
	char	   *to;

	for (int i = 0; i < nchildren; i++)
		size += children[i].separator.len;
	size += meta->low.len + meta->high.len + meta->split_key.len + 1;

	node = MemoryContextAllocHuge(tree->context, size);
	node->id = id;
	node->size = size;
	node->epoch = tree->epoch;
	node->usage = nchildren > 0 ? USAGE_INNER : USAGE_HINT;
	node->nfields = nfields;
	node->meta = *meta;
	node->copied = old != NULL && old->copied && old->meta.generation == meta->generation;
	node->nchildren = nchildren;
	node->children = (MosqlChild *) (node + 1);
	to = (char *) (node->children + nchildren);
	node->filter = NULL;
	node->newest = MOSQL_TS_MAX;
	if (packed)
	{
		node->filter = memset(to, 0, sizeof(BlockFilter));
		to += sizeof(BlockFilter);
	}
	node->meta.low = copy_bytes(&to, meta->low);
	node->meta.high = copy_bytes(&to, meta->high);
	node->meta.split_key = copy_bytes(&to, meta->split_key);
	for (int i = 0; i < nchildren; i++)
	{
		node->children[i].separator = copy_bytes(&to, children[i].separator);
		node->children[i].node = children[i].node;
	}

	if (old != NULL)
		retire(tree, old);
	if (tree->nnodes >= 2 * tree->nbuckets)
		grow(tree);
	bucket = &tree->buckets[bucket_of(tree, id)];
	node->chain = *bucket;
	*bucket = node;
	if (tree->hand == NULL)
		tree->hand = node->prev = node->next = node;
	else
	{
		/* just behind the hand: the last one it comes to */
		node->next = tree->hand;
		node->prev = tree->hand->prev;
		node->prev->next = node;
		node->next->prev = node;
	}
	tree->nnodes++;
	tree->bytes += size;
	return node;
}

/* What was seen of a leaf; nfields -1 if not seen. */
void
mosql_btree_hint_put(MosqlTree *tree, uint64 leaf, const MosqlNodeMeta *meta, int nfields)
{
	CachedNode *hint = mosql_btree_cache_find(tree, leaf);

	if (hint == NULL || hint->meta.generation != meta->generation || hint->meta.level != 0)
		mosql_btree_cache_put(tree, leaf, meta, NULL, 0, nfields);
	else
	{
		hint->epoch = tree->epoch;
		if (nfields >= 0)
			hint->nfields = nfields;
	}
}

/* The same of a leaf that was read as a whole. */
void
mosql_btree_hint_put_leaf(MosqlTree *tree, const MosqlLeaf *leaf)
{
	mosql_btree_hint_put(tree, leaf->node, &leaf->meta, leaf->nfields);
	if (leaf->meta.state == MOSQL_NODE_PACKED)
		mosql_btree_cache_find(tree, leaf->node)->newest = leaf->newest;
}

/* See btree.h. */
void
mosql_btree_forget(MosqlTree *tree)
{
	tree->distrusted = true;
	mosql_btree_enter(tree);
}

/* See btree.h. */
void
mosql_btree_observe(MosqlTree *tree, uint64 leaf, MosqlBytes m, int nfields)
{
	MosqlNodeMeta meta;

	mosql_btree_enter(tree);
	if (m.data == NULL)
	{
		mosql_btree_cache_drop(tree, leaf);
		return;
	}
	mosql_btree_meta(tree, leaf, m, &meta);
	if (meta.level != 0)
		mosql_btree_damage(tree, leaf, "an inner node where a leaf was expected");
	mosql_btree_hint_put(tree, leaf, &meta, nfields);
}
