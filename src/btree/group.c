/*
 * group.c: ascending keys, grouped by the leaves that cover them.
 *
 * Layer: btree.  What a step on a leaf is planned by: which leaf, and how the step finds out that it is still
 * that one.  From caches; leaves that these do not know are looked at, or guessed.
 */
#include "btree/btree_int.h"

/*
 * Guess the leaf of keys that came here straight from its parent: it is as that knows it.  False if that is
 * not known any more, or has been read anew since it led here, and would send some of the keys elsewhere.
 */
static bool
guess(const Search *s, const SearchItem *item, MosqlLeafGroup *group)
{
	const CachedNode *parent = mosql_btree_cache_find(s->tree, item->parent);
	int			c;
	MosqlBytes	high;

	if (parent == NULL || item->epoch != 0 || item->from.data != NULL)
		return false;
	c = mosql_btree_child_index(parent->children, parent->nchildren, s->keys[item->first], false);
	high = mosql_btree_child_end(parent, c);
	if (parent->children[c].node != item->node ||
		(high.data != NULL && mosql_bytes_compare(s->keys[item->first + item->n - 1], high) >= 0))
		return false;
	*group = (MosqlLeafGroup)
	{
		.leaf = item->node, .first = item->first, .n = item->n, .nfields = -1,
		.guessed = true, .packed = true,
		.low = parent->children[c].separator, .high = high
	};
	return true;
}

/*
 * The items' leaves for which no hint will do; with their blocks, if some of the keys are to be looked up there, or it matters how
 * new those are.
 */
static void
read_missing_hints(Search *s, const MosqlKeyUse *uses, MosqlTimestamp at_most)
{
	uint64	   *ids = MemoryContextAlloc(s->tree->scratch, s->nitems * sizeof(uint64) + 1);
	bool		blocks = false;
	int			n = 0;

	for (int i = 0; i < s->nitems; i++)
		if (!mosql_btree_knows_newest(mosql_btree_search_cached(s, &s->items[i]), at_most))
		{
			ids[n++] = s->items[i].node;
			blocks |= uses != NULL && (uses[s->items[i].first] == MOSQL_KEY_FIELD || (uses[s->items[i].first] & MOSQL_KEY_REWRITES) != 0);
		}
	if (n > 0 && at_most > 0 && at_most < MOSQL_TS_MAX)
		mosql_btree_read_newest(s->tree, ids, n);
	else if (n > 0)
		mosql_btree_read_hints(s->tree, ids, n, blocks);
}

static int
compare_groups(const void *a, const void *b)
{
	int			x = ((const MosqlLeafGroup *) a)->first;
	int			y = ((const MosqlLeafGroup *) b)->first;

	return (x > y) - (x < y);
}

/* Sort groups by key and join those that ended up in the same leaf. */
static int
tidy_groups(MosqlLeafGroup *groups, int n)
{
	int			out = 0;

	for (int i = 1; i < n; i++)
		if (groups[i].first < groups[i - 1].first)
		{
			qsort(groups, n, sizeof(MosqlLeafGroup), compare_groups);
			break;
		}
	for (int i = 0; i < n; i++)
	{
		if (out > 0 && groups[out - 1].leaf == groups[i].leaf &&
			groups[out - 1].generation == groups[i].generation &&
			mosql_btree_same_bound(groups[out - 1].high, groups[i].high))
		{
			groups[out - 1].n += groups[i].n;
			groups[out - 1].rewrites |= groups[i].rewrites;
		}
		else
			groups[out++] = groups[i];
	}
	return out;
}

/* A leaf in which nothing is beside the block but n locks: meta, block, and perhaps a purge mark. */
#define ALONE_MAX_FIELDS	3

/* Is a packed leaf to be written as a whole with the keys of an item? */
static bool
is_to_be_rewritten(const CachedNode *leaf, const MosqlKeyUse *uses, int n)
{
	if (leaf->meta.state != MOSQL_NODE_PACKED || leaf->meta.loaded.whole || leaf->nfields > ALONE_MAX_FIELDS + n ||
		n < MOSQL_REWRITE_MIN_ROWS)
		return false;
	for (int i = 0; i < n; i++)
		if ((uses[i] & MOSQL_KEY_REWRITES) == 0)
			return false;
	return true;
}

/*
 * Is a packed leaf to be unpacked for the keys of an item?  Where many of its rows are fields, whoever reads one gets a
 * block that is of little use.
 */
static bool
is_to_be_unpacked(const CachedNode *leaf, const MosqlKeyUse *uses, int n)
{
	int			nfields = Max(leaf->nfields, 2);	/* meta and block */
	int			more = 0;

	if (is_to_be_rewritten(leaf, uses, n))
		return false;
	for (int i = 0; i < n; i++)
	{
		MosqlKeyUse use = uses[i] & ~MOSQL_KEY_REWRITES;

		if (use == MOSQL_KEY_UNPACK)
			return true;
		more += use != MOSQL_KEY_LOOK;
	}
	return more > 0 && nfields + more > MOSQL_BESIDE_MAX_FIELDS;
}

/* May the step not be made before the leaf is unpacked, or its split is finished? */
static bool
is_frozen(const Search *s, const SearchItem *item, const CachedNode *leaf, MosqlTimestamp at_most,
		  const MosqlKeyUse *uses)
{
	if (leaf->meta.state == MOSQL_NODE_SPLITTING)
		return mosql_bytes_compare(s->keys[item->first + item->n - 1], leaf->meta.split_key) >= 0;
	return mosql_btree_has_newer(leaf, at_most) ||
		(leaf->meta.state == MOSQL_NODE_PACKED && uses != NULL &&
		 is_to_be_unpacked(leaf, uses + item->first, item->n));
}

/* The group of an item, by what is known of its leaf. */
static MosqlLeafGroup
group_of(const SearchItem *item, const CachedNode *leaf, const MosqlKeyUse *uses)
{
	MosqlLeafGroup group = {
		.leaf = item->node,.generation = leaf->meta.generation,.first = item->first,.n = item->n,
		.nfields = leaf->nfields,.packed = leaf->meta.state == MOSQL_NODE_PACKED,.loaded = leaf->meta.loaded,
		.rewrites = uses != NULL && is_to_be_rewritten(leaf, uses + item->first, item->n),.high = leaf->meta.high
	};

	if (leaf->meta.state == MOSQL_NODE_SPLITTING)
		group.frozen_from = leaf->meta.split_key;
	return group;
}

/* Room for one more. */
static MosqlLeafGroup *
next_group(MosqlLeafGroup **groups, int n, int *max)
{
	if (n == *max)
	{
		*max *= 2;
		*groups = repalloc_huge(*groups, *max * sizeof(MosqlLeafGroup));
	}
	return &(*groups)[n];
}

/* Those of the items whose leaves are not known that can be guessed; the others stay.  Returns how many groups there are. */
static int
guess_groups(Search *s, MosqlLeafGroup **groups, int ngroups, int *max)
{
	int			left = 0;

	for (int i = 0; i < s->nitems; i++)
		if (mosql_btree_search_cached(s, &s->items[i]) == NULL && guess(s, &s->items[i], next_group(groups, ngroups, max)))
			ngroups++;
		else
			s->items[left++] = s->items[i];
	s->nitems = left;
	return ngroups;
}

/*
 * mosql_btree_group(), mosql_btree_group_beside() (at_most MOSQL_TS_MAX: whatever their blocks have) or
 * mosql_btree_group_guess() (guess), within a call; the array is in the current context.
 */
int
mosql_btree_group_keys(MosqlTree *tree, const MosqlBytes *keys, int n, MosqlTimestamp at_most, bool guesses,
					   const MosqlKeyUse *uses, MosqlLeafGroup **groups)
{
	Search		s;
	int			ngroups = 0;
	int			max = 16;

	*groups = palloc(max * sizeof(MosqlLeafGroup));
	if (n == 0)
		return 0;
#ifdef USE_ASSERT_CHECKING
	for (int i = 1; i < n; i++)
		Assert(mosql_bytes_compare(keys[i - 1], keys[i]) < 0);
#endif
	mosql_btree_search_begin(&s, tree, keys, n, 0);
	while (mosql_btree_search_next(&s) > 0)
	{
		uint64	   *frozen = NULL;
		int			nfrozen = 0;

		if (guesses)
			ngroups = guess_groups(&s, groups, ngroups, &max);
		read_missing_hints(&s, uses, at_most);
		for (int i = 0; i < s.nitems; i++)
		{
			SearchItem	item = s.items[i];
			const CachedNode *hint = mosql_btree_search_cached(&s, &item);

			item.n = mosql_btree_search_settle(&s, &item, hint ? &hint->meta : NULL);
			if (item.n == 0)
				continue;
			if (is_frozen(&s, &item, hint, at_most, uses))
			{
				if (frozen == NULL)
					frozen = MemoryContextAllocHuge(tree->scratch, s.nitems * sizeof(uint64));
				frozen[nfrozen++] = item.node;
				mosql_btree_search_again(&s, &item);
				continue;
			}
			*next_group(groups, ngroups, &max) = group_of(&item, hint, uses);
			ngroups++;
		}
		if (nfrozen > 0)
			mosql_btree_search_help(&s, frozen, nfrozen);
	}
	mosql_btree_search_end(&s);
	ngroups = tidy_groups(*groups, ngroups);
	Assert(ngroups > 0 && (*groups)[ngroups - 1].first + (*groups)[ngroups - 1].n == n);
	return ngroups;
}

/* See btree.h. */
int
mosql_btree_group(MosqlTree *tree, const MosqlBytes *keys, int n, MosqlTimestamp at_most, MosqlLeafGroup **groups)
{
	mosql_btree_enter(tree);
	return mosql_btree_group_keys(tree, keys, n, at_most, false, NULL, groups);
}

/* See btree.h. */
int
mosql_btree_group_guess(MosqlTree *tree, const MosqlBytes *keys, int n, MosqlLeafGroup **groups)
{
	mosql_btree_enter(tree);
	return mosql_btree_group_keys(tree, keys, n, MOSQL_TS_MAX, true, NULL, groups);
}

/* The leaf that the caches lead to, from the root; false if they do not. */
static bool
guess_from_root(MosqlTree *tree, MosqlBytes key, MosqlLeafGroup *group)
{
	const CachedNode *node = mosql_btree_cache_find(tree, tree->root);
	int			level = node != NULL ? node->meta.level : 0;
	MosqlBytes	high;
	int			c;

	for (;; level--)			/* it ends, whatever the nodes say of one another */
	{
		if (node == NULL || node->nchildren == 0 || node->meta.state == MOSQL_NODE_DEAD || node->meta.level != level)
			return false;
		c = mosql_btree_child_index(node->children, node->nchildren, key, false);
		high = mosql_btree_child_end(node, c);
		if (high.data != NULL && mosql_bytes_compare(key, high) >= 0)
			return false;
		if (level == 1)
			break;
		node = mosql_btree_cache_find(tree, node->children[c].node);
	}
	*group = (MosqlLeafGroup)
	{
		.leaf = node->children[c].node,.nfields = -1,.guessed = true,.low = node->children[c].separator,.high = high
	};
	return true;
}

/* See btree.h. */
int
mosql_btree_group_known(MosqlTree *tree, const MosqlBytes *keys, int n, MosqlLeafGroup **groups)
{
	int			ngroups = 0;

	mosql_btree_enter(tree);
	*groups = palloc(n * sizeof(MosqlLeafGroup) + 1);
	for (int i = 0; i < n; i++)
	{
		MosqlLeafGroup *last = ngroups > 0 ? &(*groups)[ngroups - 1] : NULL;

		if (last != NULL && (last->high.data == NULL || mosql_bytes_compare(keys[i], last->high) < 0))
			last->n++;
		else if (guess_from_root(tree, keys[i], &(*groups)[ngroups]))
		{
			(*groups)[ngroups].first = i;
			(*groups)[ngroups++].n = 1;
		}
	}
	return ngroups;
}

/* See btree.h. */
void
mosql_btree_guess_right(MosqlTree *tree, MosqlLeafGroup *group, MosqlBytes m)
{
	MosqlNodeMeta meta;

	Assert(group->guessed);
	mosql_btree_enter(tree);
	mosql_btree_meta(tree, group->leaf, m, &meta);
	mosql_btree_hint_put(tree, group->leaf, &meta, -1);
	group->guessed = false;
	group->generation = meta.generation;
	group->packed = meta.state == MOSQL_NODE_PACKED;
	group->loaded = meta.loaded;
}

/*
 * A leaf that was guessed is of this tree and alive, not being split nor merged, and has these fences, whatever its right
 * sibling is.  A node stays on its level.
 */
static void
expect_guessed(const MosqlTree *tree, const MosqlLeafGroup *group, MosqlStep *step)
{
	static const char alive[] = {MOSQL_NODE_NORMAL, MOSQL_NODE_PACKED};
	MosqlBytes	field = mosql_btree_meta_field();
	bool		has_right = group->high.data != NULL;
	int			fences = MOSQL_META_RIGHT_OFFSET + (has_right ? sizeof(uint64) : 0);
	StringInfoData buf;
	MosqlNodeMeta meta = {
		.state = MOSQL_NODE_NORMAL,.tree = tree->root,.right = has_right,.low = group->low,.high = group->high
	};

	mosql_string_init(&buf, fences + group->low.len + group->high.len + 8);
	mosql_meta_encode(&buf, &meta);
	mosql_step_expect(step, MOSQL_COMPARE_IN, field, MOSQL_META_STATE_OFFSET, mosql_bytes(alive, sizeof(alive)));
	mosql_step_expect(step, MOSQL_COMPARE_EQUAL, field, MOSQL_META_FLAGS_OFFSET,
					  mosql_bytes(buf.data + MOSQL_META_FLAGS_OFFSET, MOSQL_META_RIGHT_OFFSET - MOSQL_META_FLAGS_OFFSET));
	mosql_step_expect(step, MOSQL_COMPARE_EQUAL, field, fences, mosql_bytes(buf.data + fences, buf.len - fences));
}

/* See btree.h. */
void
mosql_btree_expect_group(const MosqlTree *tree, const MosqlLeafGroup *group, MosqlStep *step)
{
	if (group->guessed)
		expect_guessed(tree, group, step);
	else
		mosql_step_expect(step, MOSQL_COMPARE_EQUAL, mosql_btree_meta_field(), 0,
						  mosql_generation_bytes(group->generation));
}
