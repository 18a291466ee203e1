/*
 * get.c: reading rows by key.
 *
 * Layer: btree.  One read per leaf asks for its meta, its purge mark and per
 * key the row and the intent; and, unless the leaf is known not to be packed, for the block that holds
 * what is no field.  The meta tells whether this was the right leaf.
 */
#include "code/block.h"
#include "code/loaded.h"
#include "btree/btree_int.h"

/* Points are asked for in any order; the search wants them ascending. */
typedef struct Asked
{
	MosqlBytes	key;
	int			index;
} Asked;

static int
compare_asked(const void *a, const void *b)
{
	return mosql_bytes_compare(((const Asked *) a)->key, ((const Asked *) b)->key);
}

/* Meta and purge mark; then per key the row and the intent; then the block. */
#define FIELDS_FIRST	2
#define FIELDS_PER_KEY	2

static bool
has_block(const MosqlNodeMeta *meta)
{
	return meta->state == MOSQL_NODE_PACKED || meta->state == MOSQL_NODE_LOADING;
}

/* A leaf that may be packed is asked for its block, too. */
static bool
asks_block(const CachedNode *hint)
{
	return hint == NULL || has_block(&hint->meta);
}

/* The read that an item needs; names in the scratch context. */
static MosqlFieldRead
build_read(const Search *s, const SearchItem *item, bool block)
{
	static const char purged = MOSQL_FIELD_PURGED;
	int			nkeys = item->n;
	MosqlFieldRead read = {
		.node = item->node,
		.nfields = FIELDS_FIRST + FIELDS_PER_KEY * nkeys + (block ? 1 : 0)
	};
	const MosqlBytes *keys = s->keys + item->first;
	size_t		size = 0;
	char	   *to;

	for (int i = 0; i < nkeys; i++)
		size += FIELDS_PER_KEY * (keys[i].len + 1);
	read.fields = MemoryContextAllocHuge(s->tree->scratch, read.nfields * sizeof(MosqlBytes) + size);
	to = (char *) (read.fields + read.nfields);
	read.fields[0] = mosql_btree_meta_field();
	read.fields[1] = mosql_bytes(&purged, 1);
	for (int i = 0; i < nkeys; i++)
	{
		static const char kinds[FIELDS_PER_KEY] = {MOSQL_FIELD_ROW, MOSQL_FIELD_INTENT};

		for (int k = 0; k < FIELDS_PER_KEY; k++)
		{
			read.fields[FIELDS_FIRST + FIELDS_PER_KEY * i + k] = mosql_bytes(to, keys[i].len + 1);
			*to++ = kinds[k];
			if (keys[i].len > 0)
				memcpy(to, keys[i].data, keys[i].len);
			to += keys[i].len;
		}
	}
	if (block)
		read.fields[read.nfields - 1] = mosql_btree_block_field();
	return read;
}

/* Take over rows as they are fields. */
static void
take_fields(const MosqlFieldRead *read, int n, MosqlPoint *points)
{
	for (int i = 0; i < n; i++)
	{
		points[i].row = read->values[FIELDS_FIRST + FIELDS_PER_KEY * i];
		points[i].intent = read->values[FIELDS_FIRST + FIELDS_PER_KEY * i + 1];
	}
}

/*
 * Take over what no field of a packed leaf has.  Its block is kept for who writes there.  Of a leaf that is loading the block
 * has intents as well.
 */
static void
take_block(Search *s, const SearchItem *item, const MosqlNodeMeta *meta, MosqlBytes block, MosqlPoint *points)
{
	MosqlBytes *rows = MemoryContextAllocHuge(s->tree->scratch, 2 * item->n * sizeof(MosqlBytes));
	MosqlBytes *intents = rows + item->n;

	if (block.data == NULL)
		mosql_btree_damage(s->tree, item->node, "it is packed, but its block is missing");
	if (!mosql_block_find(block, s->keys + item->first, item->n, rows) ||
		!mosql_loaded_take(&meta->loaded, rows, intents, item->n))
		mosql_btree_damage(s->tree, item->node, "its block does not decode");
	for (int i = 0; i < item->n; i++)
	{
		points[i].loader = meta->loaded.loader;
		points[i].locks = meta->loaded.locks;
		if (points[i].row.data == NULL)
			points[i].row = rows[i];
		if (points[i].intent.data == NULL)
			points[i].intent = intents[i];
	}
	if (meta->state == MOSQL_NODE_PACKED)
		mosql_btree_block_keep(s->tree, item->node, meta->generation, block);
}

/*
 * Take over what a read brought for the keys that its leaf covers.  False if the
 * leaf is being split and may not serve them (mosql_btree_serves()).
 */
static bool
take(Search *s, SearchItem *item, bool block, const MosqlFieldRead *read, MosqlPoint *points)
{
	MosqlTree  *tree = s->tree;
	MosqlTimestamp purged = 0;
	MosqlNodeMeta meta;
	bool		packed;

	if (read->values[0].data == NULL)
	{
		mosql_btree_search_settle(s, item, NULL);
		return true;
	}
	mosql_btree_meta(tree, item->node, read->values[0], &meta);
	if (meta.level != 0)
		mosql_btree_damage(tree, item->node, "an inner node where a leaf was expected");
	mosql_btree_hint_put(tree, item->node, &meta, -1);
	if (!mosql_btree_serves(tree, &meta, s->keys[item->first + item->n - 1]))
	{
		mosql_btree_search_again(s, item);
		return false;
	}
	packed = has_block(&meta);
	if (packed && !block)
	{
		/* not as the hint had it, which is what was read now */
		mosql_btree_search_again(s, item);
		return true;
	}
	if (read->values[1].data != NULL)
	{
		if (read->values[1].len != MOSQL_TS_BYTES)
			mosql_btree_damage(tree, item->node, "its purge mark does not decode");
		purged = mosql_ts_get(read->values[1].data);
	}
	item->n = mosql_btree_search_settle(s, item, &meta);
	points += item->first;
	for (int i = 0; i < item->n; i++)
		points[i] = (MosqlPoint) {.purged = purged,.leaf = item->node};
	take_fields(read, item->n, points);
	if (packed)
		take_block(s, item, &meta, read->values[read->nfields - 1], points);
	return true;
}

/* Read ascending, distinct keys; values in the current context. */
static void
get_sorted(MosqlTree *tree, const MosqlBytes *keys, int n, MosqlPoint *points)
{
	Search		s;

	mosql_btree_search_begin(&s, tree, keys, n, 0);
	while (mosql_btree_search_next(&s) > 0)
	{
		MosqlFieldRead *reads = MemoryContextAllocHuge(tree->scratch,
													   s.nitems * sizeof(MosqlFieldRead));
		bool	   *blocks = MemoryContextAllocHuge(tree->scratch, s.nitems * sizeof(bool));
		int			nreads = 0;
		int			nfrozen = 0;
		uint64	   *frozen = NULL;

		for (int i = 0; i < s.nitems; i++)
		{
			const CachedNode *hint = mosql_btree_cache_find(tree, s.items[i].node);

			/* what is known to be further right need not be asked for here */
			if (hint != NULL && hint->epoch >= s.items[i].epoch && hint->meta.level == 0 &&
				(hint->meta.state == MOSQL_NODE_NORMAL || has_block(&hint->meta)))
				s.items[i].n = mosql_btree_search_settle(&s, &s.items[i], &hint->meta);
			if (s.items[i].n == 0)
				continue;
			s.items[nreads] = s.items[i];
			blocks[nreads] = asks_block(hint);
			reads[nreads] = build_read(&s, &s.items[nreads], blocks[nreads]);
			nreads++;
		}
		if (nreads > 0)
			tree->store->read_fields(tree->store, reads, nreads);
		for (int i = 0; i < nreads; i++)
			if (!take(&s, &s.items[i], blocks[i], &reads[i], points))
			{
				if (frozen == NULL)
					frozen = MemoryContextAllocHuge(tree->scratch, nreads * sizeof(uint64));
				frozen[nfrozen++] = s.items[i].node;
			}
		if (nfrozen > 0)
			mosql_btree_search_help(&s, frozen, nfrozen);
	}
	mosql_btree_search_end(&s);
}

/* Sort, drop duplicates, read, and hand out what was read. */
static void
get_unsorted(MosqlTree *tree, const MosqlBytes *keys, int n, MosqlPoint *points)
{
	Asked	   *asked = MemoryContextAllocHuge(tree->scratch, n * sizeof(Asked));
	MosqlBytes *sorted = MemoryContextAllocHuge(tree->scratch, n * sizeof(MosqlBytes));
	MosqlPoint *found = MemoryContextAllocHuge(tree->scratch, n * sizeof(MosqlPoint));
	int			nsorted = 0;

	for (int i = 0; i < n; i++)
		asked[i] = (Asked) {keys[i], i};
	qsort(asked, n, sizeof(Asked), compare_asked);
	for (int i = 0; i < n; i++)
		if (i == 0 || compare_asked(&asked[i - 1], &asked[i]) != 0)
			sorted[nsorted++] = asked[i].key;
	get_sorted(tree, sorted, nsorted, found);
	for (int i = 0, at = 0; i < n; i++)
	{
		if (i > 0 && compare_asked(&asked[i - 1], &asked[i]) != 0)
			at++;
		points[asked[i].index] = found[at];
	}
}

/* See btree.h. */
void
mosql_btree_get(MosqlTree *tree, const MosqlBytes *keys, int n, MosqlPoint *points)
{
	bool		ascending = true;

	mosql_btree_enter(tree);
	if (n == 0)
		return;
	mosql_stats.point_reads += n;
	for (int i = 1; i < n && ascending; i++)
		ascending = mosql_bytes_compare(keys[i - 1], keys[i]) < 0;
	if (ascending)
		get_sorted(tree, keys, n, points);
	else
		get_unsorted(tree, keys, n, points);
}

/* See btree.h. */
bool
mosql_btree_get_in(MosqlTree *tree, MosqlBytes key, const MosqlNodeImage *image, MosqlPoint *point)
{
	MosqlBytes	purged = mosql_btree_image_field(image, MOSQL_FIELD_PURGED);
	const CachedNode *hint;
	MosqlNodeMeta meta;

	mosql_btree_enter(tree);
	hint = mosql_btree_cache_find(tree, image->node);
	if (!image->found || !mosql_meta_decode(mosql_btree_image_field(image, MOSQL_FIELD_META), &meta) ||
		meta.tree != tree->root || meta.level != 0 || meta.state != MOSQL_NODE_NORMAL ||
		mosql_meta_cover(&meta, key) != MOSQL_COVER_OK || (purged.data != NULL && purged.len != MOSQL_TS_BYTES) ||
		(hint != NULL && hint->meta.generation != meta.generation))
		return false;
	mosql_btree_hint_put(tree, image->node, &meta, image->nfields);
	*point = (MosqlPoint) {
		.row = mosql_btree_image_key_field(image, MOSQL_FIELD_ROW, key),
		.intent = mosql_btree_image_key_field(image, MOSQL_FIELD_INTENT, key),
		.purged = purged.data == NULL ? 0 : mosql_ts_get(purged.data),.leaf = image->node
	};
	return true;
}
