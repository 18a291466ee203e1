/*
 * seen.c: what a snapshot has seen, by stretches of keys.
 *
 * Layer: txn.  Per tree a skip list (Pugh, 1990) of parts: disjoint ranges of keys of which
 * all rows are known.  A leaf is one part as a rule, a row that was read by its key one of
 * that key alone, with or without a row.
 *
 * Scans stand in parts while others are added, and rows point into them.  So a part is never
 * freed before all of them are; one that a larger one covers is only taken out of the list.
 */
#include "postgres.h"

#include "txn/seen.h"

/* Leaves that were read by key not long ago, per tree. */
#define NOTED_LEAVES	64

typedef struct SeenTree
{
	struct SeenTree *next;
	uint64		root;
	int			nnoted;			/* ever */
	uint64		noted[NOTED_LEAVES];
	MosqlSeenPart *head;		/* in front of all parts, itself none */
} SeenTree;

struct MosqlSeen
{
	MemoryContext cxt;
	MosqlTimestamp S;
	size_t		limit;
	size_t		bytes;
	bool		full;
	uint64		random;
	SeenTree   *trees;
};

MosqlSeen *
mosql_seen_create(MemoryContext parent, MosqlTimestamp S, size_t limit)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "mosql seen", ALLOCSET_DEFAULT_SIZES);
	MosqlSeen  *seen = MemoryContextAllocZero(cxt, sizeof(MosqlSeen));

	seen->cxt = cxt;
	seen->S = S;
	seen->limit = limit;
	seen->random = S | 1;
	return seen;
}

void
mosql_seen_free(MosqlSeen *seen)
{
	MemoryContextDelete(seen->cxt);
}

MosqlTimestamp
mosql_seen_snapshot(const MosqlSeen *seen)
{
	return seen->S;
}

bool
mosql_seen_is_full(const MosqlSeen *seen)
{
	return seen->full;
}

/* ---- memory ---- */

/* What an AllocSet takes for so much: powers of two for what is small. */
static size_t
space_of(size_t size)
{
	size_t		space = 64;

	while (space < size && space < 8192)
		space *= 2;
	return Max(space, size) + 16;
}

static void *
take_space(MosqlSeen *seen, size_t size)
{
	seen->bytes += space_of(size);
	return MemoryContextAllocHuge(seen->cxt, size);
}

static bool
has_space(MosqlSeen *seen, size_t size)
{
	if (seen->bytes + space_of(size) <= seen->limit)
		return true;
	seen->full = true;
	return false;
}

/* ---- trees ---- */

static SeenTree *
find_tree(const MosqlSeen *seen, uint64 root)
{
	for (SeenTree *tree = seen->trees; tree != NULL; tree = tree->next)
		if (tree->root == root)
			return tree;
	return NULL;
}

/* Made if need be; NULL: no memory left. */
static SeenTree *
make_tree(MosqlSeen *seen, uint64 root)
{
	SeenTree   *tree = find_tree(seen, root);
	size_t		size = offsetof(MosqlSeenPart, next) + MOSQL_SEEN_LEVELS * sizeof(MosqlSeenPart *);

	if (tree != NULL || !has_space(seen, sizeof(SeenTree) + size))
		return tree;
	tree = take_space(seen, sizeof(SeenTree) + size);
	memset(tree, 0, sizeof(SeenTree) + size);
	tree->root = root;
	tree->head = (MosqlSeenPart *) (tree + 1);
	tree->head->height = MOSQL_SEEN_LEVELS;
	tree->next = seen->trees;
	seen->trees = tree;
	return tree;
}

bool
mosql_seen_knows(const MosqlSeen *seen, uint64 root)
{
	const SeenTree *tree = find_tree(seen, root);

	return tree != NULL && tree->head->next[0] != NULL;
}

void
mosql_seen_note_leaf(MosqlSeen *seen, uint64 root, uint64 leaf)
{
	SeenTree   *tree = make_tree(seen, root);

	if (tree != NULL && !mosql_seen_noted_leaf(seen, root, leaf))
		tree->noted[tree->nnoted++ % NOTED_LEAVES] = leaf;
}

bool
mosql_seen_noted_leaf(const MosqlSeen *seen, uint64 root, uint64 leaf)
{
	const SeenTree *tree = find_tree(seen, root);

	for (int i = 0; tree != NULL && i < Min(tree->nnoted, NOTED_LEAVES); i++)
		if (tree->noted[i] == leaf)
			return true;
	return false;
}

void
mosql_seen_forget_leaf(MosqlSeen *seen, uint64 root, uint64 leaf)
{
	SeenTree   *tree = find_tree(seen, root);

	for (int i = 0; tree != NULL && i < Min(tree->nnoted, NOTED_LEAVES); i++)
		if (tree->noted[i] == leaf)
			tree->noted[i] = 0;
}

/* ---- looking ---- */

/*
 * On each level the last part with part.low < key (data NULL: the last one), or the head;
 * equal: also one that begins right there.
 */
static void
find_before(const SeenTree *tree, MosqlBytes key, bool equal, MosqlSeenPart **before)
{
	MosqlSeenPart *at = tree->head;

	for (int level = MOSQL_SEEN_LEVELS - 1; level >= 0; level--)
	{
		for (MosqlSeenPart *next = at->next[level]; next != NULL; next = at->next[level])
		{
			if (key.data != NULL && mosql_bytes_compare(next->low, key) >= (equal ? 1 : 0))
				break;
			at = next;
		}
		before[level] = at;
	}
}

const MosqlSeenPart *
mosql_seen_find(const MosqlSeen *seen, uint64 root, MosqlBytes key, bool below)
{
	const SeenTree *tree = find_tree(seen, root);
	MosqlSeenPart *before[MOSQL_SEEN_LEVELS];
	const MosqlSeenPart *part;

	if (tree == NULL)
		return NULL;
	find_before(tree, key, !below, before);
	part = before[0];
	if (part == tree->head)
		return NULL;
	if (part->high.data == NULL)
		return part;
	if (key.data == NULL || mosql_bytes_compare(key, part->high) >= (below ? 1 : 0))
		return NULL;
	return part;
}

int
mosql_seen_position(const MosqlSeenPart *part, MosqlBytes key)
{
	int			lo = 0;

	for (int hi = part->n; lo < hi;)
	{
		int			mid = (lo + hi) / 2;

		if (mosql_bytes_compare(part->rows[mid].key, key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* ---- adding ---- */

static bool
is_below(MosqlBytes key, MosqlBytes high)
{
	return high.data == NULL || mosql_bytes_compare(key, high) < 0;
}

static char *
put_bytes(char *to, MosqlBytes *bytes)
{
	if (bytes->data == NULL)
		return to;
	if (bytes->len > 0)
		memcpy(to, bytes->data, bytes->len);
	bytes->data = to;
	return to + bytes->len;
}

/* In one piece: the part, its rows, their bytes.  NULL: no memory left. */
static MosqlSeenPart *
make_part(MosqlSeen *seen, MosqlBytes low, MosqlBytes high, const MosqlSeenRow *rows, int n)
{
	int			height = mosql_random_height(&seen->random, MOSQL_SEEN_LEVELS);
	size_t		head = offsetof(MosqlSeenPart, next) + height * sizeof(MosqlSeenPart *);
	size_t		size = head + n * sizeof(MosqlSeenRow) + low.len + high.len + 1;
	MosqlSeenPart *part;
	char	   *to;

	for (int i = 0; i < n; i++)
		size += rows[i].key.len + rows[i].columns.len;
	if (!has_space(seen, size))
		return NULL;
	part = take_space(seen, size);
	part->height = height;
	part->low = low;
	part->high = high;
	part->n = n;
	part->rows = (MosqlSeenRow *) ((char *) part + head);
	to = (char *) (part->rows + n);
	to = put_bytes(to, &part->low);
	to = put_bytes(to, &part->high);
	for (int i = 0; i < n; i++)
	{
		part->rows[i] = rows[i];
		to = put_bytes(to, &part->rows[i].key);
		to = put_bytes(to, &part->rows[i].columns);
	}
	Assert(to <= (char *) part + size);
	return part;
}

/*
 * The new part takes the place of those that it covers; the last of `before` begin in front
 * of it, and do not reach into it.
 */
static void
link_part(MosqlSeenPart *part, MosqlSeenPart **before)
{
	for (MosqlSeenPart *next = before[0]->next[0];
		 next != NULL && is_below(next->low, part->high); next = next->next[0])
		for (int level = 0; level < next->height; level++)
			before[level]->next[level] = next->next[level];
	for (int level = 0; level < part->height; level++)
	{
		part->next[level] = before[level]->next[level];
		before[level]->next[level] = part;
	}
}

/* Do the parts from the first on hold all of it already? */
static bool
is_covered(const MosqlSeenPart *part, MosqlBytes low, MosqlBytes high)
{
	for (; part != NULL && mosql_bytes_compare(part->low, low) == 0; part = part->next[0])
	{
		if (part->high.data == NULL ||
			(high.data != NULL && mosql_bytes_compare(high, part->high) == 0))
			return true;
		low = part->high;
	}
	return false;
}

void
mosql_seen_add(MosqlSeen *seen, uint64 root, MosqlBytes low, MosqlBytes high,
			   const MosqlSeenRow *rows, int n)
{
	SeenTree   *tree = make_tree(seen, root);
	MosqlSeenPart *before[MOSQL_SEEN_LEVELS];
	MosqlSeenPart *part;

	if (tree == NULL)
		return;
	find_before(tree, low, false, before);
	part = before[0];

	/* what is on the left, and on the right, and goes on beyond the new part, stays as it is */
	if (part != tree->head && is_below(low, part->high))
	{
		if (part->high.data == NULL)
			return;
		low = part->high;
	}
	for (part = part->next[0]; part != NULL && is_below(part->low, high); part = part->next[0])
		if (high.data != NULL && is_below(high, part->high))
			high = part->low;
	if (!is_below(low, high) || is_covered(before[0]->next[0], low, high))
		return;
	while (n > 0 && mosql_bytes_compare(rows[0].key, low) < 0)
		rows++, n--;
	while (n > 0 && !is_below(rows[n - 1].key, high))
		n--;
	part = make_part(seen, low, high, rows, n);
	if (part != NULL)
		link_part(part, before);
}
