/*
 * leaf.c: whole leaves, from the fields of a hash to sorted entries.
 *
 * Layer: btree.  The hot path of every scan: one array per leaf, no palloc per
 * entry, bytes stay where the reply has them.
 */
#include "code/block.h"
#include "code/loaded.h"
#include "code/row.h"
#include "btree/btree_int.h"

static int
compare_entries(const void *a, const void *b)
{
	return mosql_bytes_compare(((const MosqlEntry *) a)->key, ((const MosqlEntry *) b)->key);
}

/* Add the intents and marks (sorted) to the rows (sorted) of a leaf. */
static void
merge_extras(MosqlLeaf *leaf, const MosqlEntry *extras, int n)
{
	MosqlEntry *rows = leaf->entries;
	MosqlEntry *out = palloc((leaf->n + n) * sizeof(MosqlEntry));
	int			nout = 0;
	int			r = 0;

	for (int i = 0; i < n; i++)
	{
		int			c = 1;

		while (r < leaf->n && (c = compare_entries(&rows[r], &extras[i])) < 0)
			out[nout++] = rows[r++];
		if (r < leaf->n && c == 0)
			out[nout++] = rows[r++];
		else if (nout == 0 || compare_entries(&out[nout - 1], &extras[i]) != 0)
			out[nout++] = (MosqlEntry) {.key = extras[i].key};
		if (extras[i].intent.data != NULL)
			out[nout - 1].intent = extras[i].intent;
		if (extras[i].marks.data != NULL)
			out[nout - 1].marks = extras[i].marks;
	}
	while (r < leaf->n)
		out[nout++] = rows[r++];
	pfree(rows);
	leaf->entries = out;
	leaf->n = nout;
}

/*
 * The rows of a packed leaf: those of its block, but where a row is a field (sorted), which wins.  Of one that is loading: with the
 * loader's intents.  Returns what is wrong, or NULL.
 */
static const char *
take_block(MosqlLeaf *leaf, MosqlBytes bytes, const MosqlEntry *rows, int n)
{
	MosqlBlock	block;
	MosqlBytes *intents;
	MosqlEntry *out;
	int			r = 0;

	if (bytes.data == NULL)
		return "it is packed, but its block is missing";
	if (!mosql_block_decode(bytes, &block))
		return "its block does not decode";
	leaf->stale = mosql_loaded_is_stale(&leaf->meta.loaded, block.rows, block.n);
	intents = palloc(block.n * sizeof(MosqlBytes));
	if (!mosql_loaded_take(&leaf->meta.loaded, block.rows, intents, block.n))
		return "its block does not decode";
	leaf->newest = mosql_rows_newest(block.rows, block.n);
	out = leaf->entries = palloc((block.n + n) * sizeof(MosqlEntry));
	for (int i = 0; i < block.n; i++)
	{
		int			c = 1;

		while (r < n && (c = mosql_bytes_compare(rows[r].key, block.keys[i])) < 0)
			*out++ = rows[r++];
		if (r < n && c == 0)
			*out++ = rows[r++];
		else if (block.rows[i].data != NULL || intents[i].data != NULL)
			*out++ = (MosqlEntry)
		{
			.key = block.keys[i],.row = block.rows[i],.intent = intents[i],.in_block = true
		};
	}
	while (r < n)
		*out++ = rows[r++];
	leaf->n = out - leaf->entries;
	return NULL;
}

/* What the fields of a leaf were sorted into. */
typedef struct LeafFields
{
	MosqlEntry *entries;		/* rows, */
	int			n;
	bool		sorted;
	MosqlEntry *extras;			/* intents and marks, before this */
	int			nextras;
	MosqlBytes	block;
} LeafFields;

static void
sort_row(LeafFields *to, MosqlBytes key, MosqlBytes row)
{
	int			n = to->n++;

	to->entries[n] = (MosqlEntry) {.key = key,.row = row};
	if (n > 0 && to->sorted)
		to->sorted = compare_entries(&to->entries[n - 1], &to->entries[n]) < 0;
}

/* A field of the leaf as a whole.  Returns what is wrong, or NULL. */
static const char *
sort_single(MosqlLeaf *leaf, LeafFields *to, MosqlBytes field, MosqlBytes value)
{
	switch (field.len == 1 ? field.data[0] : 0)
	{
		case MOSQL_FIELD_META:
			return NULL;
		case MOSQL_FIELD_PURGED:
			if (value.len != MOSQL_TS_BYTES)
				return "its purge mark does not decode";
			leaf->purged = mosql_ts_get(value.data);
			return NULL;
		case MOSQL_FIELD_RANGE_MARKS:
			leaf->range_marks = value;
			return NULL;
		case MOSQL_FIELD_BLOCK:
			if (leaf->meta.state != MOSQL_NODE_PACKED && leaf->meta.state != MOSQL_NODE_LOADING)
				return "it has a block, but is not packed";
			to->block = value;
			return NULL;
		default:
			return "it has a field of an unknown kind";
	}
}

static const char *
sort_field(MosqlLeaf *leaf, LeafFields *to, MosqlBytes field, MosqlBytes value)
{
	MosqlBytes	key;

	if (field.len == 0)
		return "it has a field without a name";
	key = mosql_bytes(field.data + 1, field.len - 1);
	switch (field.data[0])
	{
		case MOSQL_FIELD_ROW:
			sort_row(to, key, value);
			return NULL;
		case MOSQL_FIELD_INTENT:
			to->extras[-++to->nextras] = (MosqlEntry) {.key = key,.intent = value};
			return NULL;
		case MOSQL_FIELD_KEY_MARKS:
			to->extras[-++to->nextras] = (MosqlEntry) {.key = key,.marks = value};
			return NULL;
		default:
			return sort_single(leaf, to, field, value);
	}
}

/*
 * Fill in everything but the meta, which must be decoded already.  Entries are
 * palloc'ed, bytes point into the image, or into what a block was decoded to.
 * Returns what is wrong, or NULL.
 */
const char *
mosql_btree_leaf_fault(const MosqlNodeImage *image, MosqlLeaf *leaf)
{
	MosqlEntry *entries = palloc(Max(image->nfields, 1) * sizeof(MosqlEntry));
	LeafFields	to = {.entries = entries,.sorted = true,.extras = entries + image->nfields};
	const char *fault = NULL;

	leaf->node = image->node;
	leaf->nfields = image->nfields;
	leaf->purged = 0;
	leaf->range_marks = MOSQL_ABSENT;
	leaf->block = MOSQL_ABSENT;
	leaf->newest = MOSQL_TS_MAX;
	leaf->stale = leaf->clipped = false;
	leaf->n = 0;
	leaf->entries = entries;
	for (int i = 0; i < image->nfields; i++)
		if ((fault = sort_field(leaf, &to, image->fields[i].field, image->fields[i].value)) != NULL)
			return fault;

	if (!to.sorted)
		qsort(entries, to.n, sizeof(MosqlEntry), compare_entries);
	leaf->n = to.n;
	leaf->block = to.block;
	if (leaf->meta.state == MOSQL_NODE_LOADING && to.n + to.nextras > 0)
		fault = "it is loading, but has rows or intents";
	else if (leaf->meta.state == MOSQL_NODE_PACKED || leaf->meta.state == MOSQL_NODE_LOADING)
		fault = take_block(leaf, to.block, entries, to.n);
	if (fault != NULL)
		return fault;
	if (to.nextras > 0)
	{
		qsort(to.extras - to.nextras, to.nextras, sizeof(MosqlEntry), compare_entries);
		merge_extras(leaf, to.extras - to.nextras, to.nextras);
	}
	if (leaf->n > 0 &&
		(mosql_bytes_compare(leaf->entries[0].key, leaf->meta.low) < 0 ||
		 (leaf->meta.high.data != NULL &&
		  mosql_bytes_compare(leaf->entries[leaf->n - 1].key, leaf->meta.high) >= 0)))
		return "it holds keys beyond its fences";
	return NULL;
}

/*
 * Decode a leaf that was found; everything damaged is an error.  A dead leaf
 * comes back with n = 0.  Returns leaf.
 */
MosqlLeaf *
mosql_btree_leaf_decode(const MosqlTree *tree, const MosqlNodeImage *image, MosqlLeaf *leaf)
{
	const char *fault;

	mosql_btree_meta(tree, image->node, mosql_btree_image_field(image, MOSQL_FIELD_META), &leaf->meta);
	if (leaf->meta.level != 0)
		mosql_btree_damage(tree, image->node, "an inner node where a leaf was expected");
	fault = mosql_btree_leaf_fault(image, leaf);
	if (leaf->meta.state == MOSQL_NODE_DEAD)
		leaf->n = 0;
	else if (fault != NULL)
		mosql_btree_damage(tree, image->node, fault);
	return leaf;
}

/* The first entry with entry.key >= key, leaf->n if none. */
int
mosql_btree_leaf_position(const MosqlLeaf *leaf, MosqlBytes key)
{
	int			lo = 0;

	for (int hi = leaf->n; lo < hi;)
	{
		int			mid = (lo + hi) / 2;

		if (mosql_bytes_compare(leaf->entries[mid].key, key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Drop entries outside low <= key < high (high.data NULL: no bound). */
void
mosql_btree_leaf_clip(MosqlLeaf *leaf, MosqlBytes low, MosqlBytes high)
{
	int			all = leaf->n;
	int			first = 0;

	if (leaf->n > 0 && mosql_bytes_compare(leaf->entries[0].key, low) < 0)
		first = mosql_btree_leaf_position(leaf, low);
	if (leaf->n > 0 && high.data != NULL &&
		mosql_bytes_compare(leaf->entries[leaf->n - 1].key, high) >= 0)
		leaf->n = mosql_btree_leaf_position(leaf, high);
	leaf->entries += first;
	leaf->n = Max(leaf->n - first, 0);
	leaf->clipped |= leaf->n < all;
}

/* Whole nodes, BTREE_LEAF_BATCH per round trip; images in the current context. */
void
mosql_btree_read_images(MosqlTree *tree, const uint64 *ids, int n, MosqlNodeImage *images)
{
	for (int done = 0; done < n; done += BTREE_LEAF_BATCH)
	{
		CHECK_FOR_INTERRUPTS();
		tree->store->read_nodes(tree->store, ids + done, Min(n - done, BTREE_LEAF_BATCH),
								images + done);
	}
	mosql_stats.leaf_reads += n;
}

bool
mosql_btree_can_read_at_once(const MosqlTree *tree, const uint64 *ids, int n, bool told)
{
	return tree->store->reads_at_once != NULL && tree->store->reads_at_once(tree->store, ids, n, told);
}

/* The same at one moment, with the schema version if schema is not NULL; false: they cannot be read so. */
bool
mosql_btree_read_images_at_once(MosqlTree *tree, const uint64 *ids, int n, MosqlNodeImage *images, uint64 *schema)
{
	CHECK_FOR_INTERRUPTS();
	if (!mosql_btree_can_read_at_once(tree, ids, n, schema != NULL) ||
		!tree->store->read_nodes_at_once(tree->store, ids, n, images, schema))
		return false;
	mosql_stats.leaf_reads += n;
	return true;
}

/*
 * Read the leaf that covers a key (backward: the one just below it; data NULL:
 * the last leaf) as a whole, in the current context.  One round trip if the
 * cached path is right.
 */
MosqlLeaf *
mosql_btree_read_covering(MosqlTree *tree, MosqlBytes key, bool backward)
{
	MosqlLeaf  *leaf = palloc0(sizeof(MosqlLeaf));
	bool		found = false;
	Search		s;

	mosql_btree_search_begin(&s, tree, &key, 1, 0);
	s.backward = backward;
	while (mosql_btree_search_next(&s) > 0)
	{
		MosqlNodeImage image;

		mosql_btree_read_images(tree, &s.items[0].node, 1, &image);
		if (image.found)
		{
			mosql_btree_leaf_decode(tree, &image, leaf);
			mosql_btree_hint_put_leaf(tree, leaf);
			if (!mosql_btree_serves(tree, &leaf->meta, MOSQL_ABSENT))
			{
				mosql_btree_search_help(&s, &s.items[0].node, 1);
				mosql_btree_search_again(&s, &s.items[0]);
				continue;
			}
		}
		if (mosql_btree_search_settle(&s, &s.items[0], image.found ? &leaf->meta : NULL) > 0)
			found = true;
	}
	mosql_btree_search_end(&s);
	Assert(found);
	(void) found;
	return leaf;
}

/* See btree.h. */
MosqlLeaf *
mosql_btree_read_leaf(MosqlTree *tree, MosqlBytes key)
{
	mosql_btree_enter(tree);
	return mosql_btree_read_covering(tree, key, false);
}
