/*
 * search.c: from the root to the nodes that cover given keys.
 *
 * Layer: btree.  One search moves any number of ascending keys at once, level
 * by level, so that what has to be read on one level is read in one round
 * trip, and with a warm cache nothing is read at all.  The caller gets items
 * ("these keys should be in this node"), looks at the nodes in whatever way
 * suits it (hints, metas, rows, whole leaves), and settles each item with the
 * meta that it saw; what the node turned out not to cover travels on.
 *
 *     mosql_btree_search_begin(&s, tree, keys, n, level);
 *     while (mosql_btree_search_next(&s) > 0)
 *         for each of s.items:
 *             look at item->node
 *             covered = mosql_btree_search_settle(&s, item, meta);
 *             use the first `covered` keys of the item
 *     mosql_btree_search_end(&s);
 *
 * Freshness.  tree->epoch counts; each cached node carries the epoch in which
 * it was read.  An item may use any cached node until it fails: then the epoch
 * is advanced and the keys start again at the root, and only nodes read since
 * then count.  So a stale cache costs one descent, and a path that fails twice
 * is no matter of staleness.
 */
#include "btree/btree_int.h"

/* --- where a key stands to a node, in either direction --- */

static bool
left_of(const MosqlNodeMeta *meta, MosqlBytes key, bool backward)
{
	if (meta->low.len == 0)
		return false;
	if (backward)
		return key.data != NULL && mosql_bytes_compare(key, meta->low) <= 0;
	return mosql_bytes_compare(key, meta->low) < 0;
}

static bool
right_of(const MosqlNodeMeta *meta, MosqlBytes key, bool backward)
{
	if (meta->high.data == NULL)
		return false;
	if (backward)
		return key.data == NULL || mosql_bytes_compare(key, meta->high) > 0;
	return mosql_bytes_compare(key, meta->high) >= 0;
}

/* The child that a key belongs to; children[0] for anything smaller. */
int
mosql_btree_child_index(const MosqlChild *children, int n, MosqlBytes key, bool backward)
{
	int			lo = 0;
	int			hi = n;			/* children[lo] is left enough, [hi] is not */

	if (backward && key.data == NULL)
		return n - 1;
	while (hi - lo > 1)
	{
		int			mid = (lo + hi) / 2;
		int			c = mosql_bytes_compare(children[mid].separator, key);

		if (backward ? c < 0 : c <= 0)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* How many of n ascending keys are below a bound. */
static int
count_below(const MosqlBytes *keys, int n, MosqlBytes bound)
{
	int			lo = 0;			/* keys[lo - 1] is below */
	int			step = 1;

	/* gallop, then halve: short runs are the rule */
	while (lo + step <= n && mosql_bytes_compare(keys[lo + step - 1], bound) < 0)
	{
		lo += step;
		step *= 2;
	}
	for (int hi = Min(lo + step - 1, n); lo < hi;)
	{
		int			mid = (lo + hi) / 2;

		if (mosql_bytes_compare(keys[mid], bound) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* --- lists --- */

static void *
room_for(MosqlTree *tree, void *array, int n, int *max, size_t size)
{
	void	   *new;

	if (n < *max)
		return array;
	*max = Max(8, 2 * *max);
	new = MemoryContextAllocHuge(tree->scratch, *max * size);
	if (n > 0)
		memcpy(new, array, n * size);
	return new;
}

static void
push(Search *s, const SearchItem *item)
{
	s->pending = room_for(s->tree, s->pending, s->npending, &s->maxpending, sizeof(SearchItem));
	s->pending[s->npending++] = *item;
}

static void
arrive(Search *s, const SearchItem *item)
{
	s->items = room_for(s->tree, s->items, s->nitems, &s->maxitems, sizeof(SearchItem));
	s->items[s->nitems++] = *item;
}

/* Start a search for n > 0 keys on a level.  The keys must stay in place. */
void
mosql_btree_search_begin(Search *s, MosqlTree *tree, const MosqlBytes *keys, int n, int level)
{
	memset(s, 0, sizeof(Search));
	s->tree = tree;
	s->keys = keys;
	s->level = level;
	s->incarnation = tree->incarnation;
	s->budget = mosql_budget_start(BTREE_WAIT_MS);
	push(s, &(SearchItem)
		 {
			 .node = tree->root, .level = -1, .n = n
		 });
}

/*
 * Look at the same node once more.  Whoever says so has seen to it that this ends: the node
 * is the root, read anew; some of its keys were settled; or the search pauses, which spends
 * its budget.
 */
void
mosql_btree_search_again(Search *s, const SearchItem *item)
{
	push(s, item);
}

/*
 * Finish the splits of leaves that cannot serve their items yet, or unpack them, before the next round.
 * Once should do; but a connection may break each time, or another split begin.  So from the second
 * time on the search pauses, and ends with an error when its budget is spent.
 */
void
mosql_btree_search_help(Search *s, const uint64 *leaves, int n)
{
	mosql_btree_thaw(s->tree, leaves, n);
	s->pause |= s->helped;
	s->helped = true;
}

/*
 * These keys got lost: begin again at the root, trusting nothing read before
 * now.  All that get lost in one round count as one restart.
 */
static void
restart(Search *s, const SearchItem *item)
{
	if (!s->restarted)
	{
		s->restarted = true;
		if (++s->restarts > BTREE_MAX_RESTARTS)
			mosql_btree_astray(s->tree, item->node,
							   "the tree leads here for keys that belong elsewhere, or the node is missing");
		if (s->restarts > 1)
			s->pause = true;
		s->tree->epoch++;
	}
	push(s, &(SearchItem)
		 {
			 .node = s->tree->root, .level = -1, .first = item->first, .n = item->n,
			 .epoch = s->tree->epoch, .reached = item->reached
		 });
}

/* This node came by a right link: its parent may not know it. */
static void
note_link(Search *s, const SearchItem *item, const MosqlNodeMeta *meta)
{
	s->links = room_for(s->tree, s->links, s->nlinks, &s->maxlinks, sizeof(SearchLink));
	s->links[s->nlinks++] = (SearchLink)
	{
		.level = meta->level,
		.child = {mosql_bytes_copy(s->tree->scratch, meta->low), item->node}
	};
}

/* Keys beyond the node's high fence go on to its right sibling. */
static void
move_right(Search *s, const SearchItem *item, const MosqlNodeMeta *meta, int covered)
{
	SearchItem	rest = *item;

	rest.node = meta->right;
	rest.level = meta->level;
	rest.first += covered;
	rest.n -= covered;
	rest.from = meta->high;
	rest.separator = MOSQL_ABSENT;
	if (s->firm && s->tree->store->durable && meta->level > 0)
		rest.passed = item->node;
	if (++rest.hops > (item->epoch == 0 ? BTREE_CACHED_HOPS : BTREE_LINK_HOPS))
	{
		/*
		 * The parent was cached: perhaps it is long out of date.  The parent
		 * is fresh: a splitter died before it linked its work (or is at it).
		 */
		if (item->epoch != 0)
		{
			s->relink = true;
			if (rest.reached.data == NULL || mosql_bytes_compare(rest.from, rest.reached) > 0)
			{
				s->restarts = 0;	/* the last descent got less far */
				rest.reached = mosql_bytes_copy(s->tree->scratch, rest.from);
			}
		}
		restart(s, &rest);
	}
	else
		push(s, &rest);
}

/*
 * A dead node is in the way.  What is to its left has its keys, or leads to
 * them.  The heir that it names may be gone by now, so it is not relied on.
 */
static void
leave_dead(Search *s, const SearchItem *item, const MosqlNodeMeta *meta)
{
	MosqlTree  *tree = s->tree;
	SearchItem	next = *item;

	if (item->node == tree->root)
		mosql_btree_gone(tree);
	if (meta->low.len == 0 || s->passed + ++next.hops > MOSQL_TREE_MAX_HOPS)
		mosql_btree_astray(tree, item->node, "a dead node where the tree needs one that lives");
	mosql_btree_cache_drop(tree, item->node);
	if (item->parent != 0)
		mosql_btree_cache_drop(tree, item->parent); /* maintenance unlinks the dead */
	next.node = 0;
	next.level = meta->level;
	next.from = next.separator = MOSQL_ABSENT;
	next.dead = mosql_bytes_copy(tree->scratch, meta->low);
	push(s, &next);
}

/*
 * A parent that was read just now leads to a node that does not exist.  Perhaps it
 * was taken away since; perhaps somebody was late linking it, and then it would be
 * so for ever.  Go on to the left, as if the separator were not there: if the node is
 * lost, and not merged away, its left sibling leads to it, and then it is damage.
 */
static void
leave_missing(Search *s, const SearchItem *item)
{
	MosqlTree  *tree = s->tree;
	SearchItem	next = *item;

	if (++next.hops > MOSQL_TREE_MAX_HOPS)
		mosql_btree_missing(tree, item->node);
	if (s->ndangling == 0 || s->dangling_level == item->level)
	{
		s->dangling = room_for(tree, s->dangling, s->ndangling, &s->maxdangling, sizeof(MosqlChild));
		s->dangling[s->ndangling++] = (MosqlChild) {item->separator, item->node};
		s->dangling_level = item->level;
	}
	mosql_btree_cache_drop(tree, item->parent);
	next.node = 0;
	next.separator = MOSQL_ABSENT;
	next.dead = item->separator;
	push(s, &next);
}

/*
 * A node that is being merged away serves nobody: wait, and when it stays so,
 * do what is left to do, since whoever began it may be dead.
 */
static void
wait_for_merge(Search *s, const SearchItem *item, const MosqlNodeMeta *meta)
{
	SearchItem	next = *item;

	mosql_btree_cache_drop(s->tree, item->node);
	s->pause = true;
	if (++next.waits >= BTREE_MERGE_WAITS)
	{
		s->dying = room_for(s->tree, s->dying, s->ndying, &s->maxdying, sizeof(MosqlChild));
		s->dying[s->ndying++] = (MosqlChild) {mosql_bytes_copy(s->tree->scratch, meta->low), item->node};
	}
	push(s, &next);
}

/*
 * May the search end at a dying node?  Not if its last key is to the right of it: a
 * dying node that has been absorbed leads to where its right sibling was, and that may
 * be dead, so that what lies left of it would be this node again.
 */
static bool
ends_at_dying(const Search *s, const MosqlNodeMeta *meta, MosqlBytes last)
{
	return s->takes_dying && meta->level == s->level && !right_of(meta, last, s->backward);
}

/*
 * Settle an item with its node's meta (NULL: the node does not exist).
 * Returns how many of its keys, from the first, the node covers; the others
 * travel on and come back as items of a later round.  A dead node sends all
 * keys to what lies left of it; one that is being merged away has them wait.
 * A frozen range counts as covered.
 */
int
mosql_btree_search_settle(Search *s, const SearchItem *item, const MosqlNodeMeta *meta)
{
	MosqlTree  *tree = s->tree;
	const MosqlBytes *keys = s->keys + item->first;
	int			covered;

	if (meta == NULL)
	{
		if (item->node == tree->root)
			mosql_btree_gone(tree);
		mosql_btree_cache_drop(tree, item->node);
		if (item->epoch != 0 && item->separator.len > 0)
			leave_missing(s, item);
		else
			restart(s, item);
		return 0;
	}
	if (item->level >= 0 && meta->level != item->level)
		mosql_btree_damage(tree, item->node, "it is not on the level where the tree has it");
	if (item->from.data != NULL && meta->state != MOSQL_NODE_DEAD &&
		!mosql_bytes_equal(item->from, meta->low))
		mosql_btree_damage(tree, item->node, "its low fence does not join its left sibling");
	if (left_of(meta, keys[0], s->backward))
	{
		restart(s, item);
		return 0;
	}
	if (meta->state == MOSQL_NODE_DEAD)
	{
		leave_dead(s, item, meta);
		return 0;
	}
	if (meta->state == MOSQL_NODE_DYING && !ends_at_dying(s, meta, keys[item->n - 1]))
	{
		wait_for_merge(s, item, meta);
		return 0;
	}
	if (item->from.data != NULL)
		note_link(s, item, meta);
	if (!right_of(meta, keys[item->n - 1], s->backward))
		return item->n;
	covered = s->backward ? 0 : count_below(keys, item->n, meta->high);
	move_right(s, item, meta, covered);
	return covered;
}

/* Hand the keys of an inner node on to its children. */
static void
expand(Search *s, const SearchItem *item, const CachedNode *node)
{
	int			end = item->first + mosql_btree_search_settle(s, item, node ? &node->meta : NULL);
	int			first = item->first;

	while (first < end)
	{
		int			c = mosql_btree_child_index(node->children, node->nchildren, s->keys[first],
												s->backward);
		int			n = end - first;

		if (c + 1 < node->nchildren && !s->backward)
			n = count_below(s->keys + first, n, node->children[c + 1].separator);
		Assert(n > 0);
		push(s, &(SearchItem)
			 {
				 .node = node->children[c].node, .parent = node->id,
				 .separator = node->children[c].separator,
				 .level = node->meta.level - 1,
				 .first = first, .n = n, .epoch = item->epoch, .reached = item->reached
			 });
		first += n;
	}
}

/* What the cache has of an item's node, if it is fresh enough for it. */
CachedNode *
mosql_btree_search_cached(const Search *s, const SearchItem *item)
{
	CachedNode *node = mosql_btree_cache_find(s->tree, item->node);

	return node != NULL && node->epoch >= item->epoch ? node : NULL;
}

/* Is the item's node a root that is lower than the level wanted? */
static bool
ends_below(const Search *s, const SearchItem *item)
{
	const CachedNode *node = mosql_btree_search_cached(s, item);

	return item->level < 0 && node != NULL && node->meta.state != MOSQL_NODE_DEAD && node->meta.level < s->level;
}

/*
 * Look at a root that is too low once more: it has grown since it was cached.
 *
 * Race -- it has grown, we read it, and a failover takes the growth back, since it had no copies yet.  Then
 * the level that we know of is no part of the tree: nobody who begins anew gets there, and nothing is damaged.
 */
static void
restart_below(Search *s, const SearchItem *item)
{
	if (s->restarts >= BTREE_MAX_RESTARTS && !s->restarted)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("a tree in namespace \"%s\" has lost its highest level", s->tree->store->ns),
				 errdetail("A server forgot its last changes while this session built on one of them."),
				 errhint("The transaction might succeed if retried.")));
	restart(s, item);
}

/* An inner node as it was read, into the cache; what does not exist is dropped from it. */
static void
take_inner(MosqlTree *tree, const MosqlFieldRead *read)
{
	MosqlNodeMeta meta;
	MosqlChild *children = NULL;
	int			nchildren = 0;
	const char *fault;

	if (read->values[0].data == NULL && read->values[1].data == NULL)
	{
		mosql_btree_cache_drop(tree, read->node);
		return;
	}
	mosql_btree_meta(tree, read->node, read->values[0], &meta);
	if (meta.level == 0)
		mosql_btree_damage(tree, read->node, "a leaf where an inner node was expected");
	fault = meta.state == MOSQL_NODE_DEAD ? NULL :
		mosql_btree_children_fault(&meta, read->values[1], &children, &nchildren);
	if (fault != NULL)
		mosql_btree_damage(tree, read->node, fault);
	mosql_btree_cache_put(tree, read->node, &meta, children, nchildren, -1);
}

/* Read inner nodes, each of its tree, all of one store, into the caches, BTREE_READ_BATCH per round trip. */
void
mosql_btree_read_inner(MosqlTree *const *trees, const uint64 *ids, int n)
{
	MemoryContext old = MemoryContextSwitchTo(trees[0]->scratch);
	MosqlNodeStore *store = trees[0]->store;
	MosqlBytes	fields[2];

	fields[0] = mosql_btree_meta_field();
	fields[1] = mosql_btree_separators_field();
	for (int done = 0; done < n;)
	{
		int			batch = Min(n - done, BTREE_READ_BATCH);
		MosqlFieldRead *reads = palloc0(batch * sizeof(MosqlFieldRead));

		for (int i = 0; i < batch; i++)
			reads[i] = (MosqlFieldRead)
		{
			.node = ids[done + i], .nfields = 2, .fields = fields
		};
		store->read_fields(store, reads, batch);
		mosql_stats.inner_reads += batch;
		for (int i = 0; i < batch; i++)
			take_inner(trees[done + i], &reads[i]);
		done += batch;
	}
	MemoryContextSwitchTo(old);
}

/* The same, of one tree. */
static void
read_inner(MosqlTree *tree, const uint64 *ids, int n)
{
	MosqlTree **trees;

	if (n == 0)
		return;
	trees = MemoryContextAllocHuge(tree->scratch, n * sizeof(MosqlTree *));
	for (int i = 0; i < n; i++)
		trees[i] = tree;
	mosql_btree_read_inner(trees, ids, n);
}

/* What was read of a leaf, its meta and perhaps its block, into the caches. */
void
mosql_btree_take_hint(MosqlTree *tree, const MosqlFieldRead *read)
{
	MosqlNodeMeta meta;

	mosql_btree_meta(tree, read->node, read->values[0], &meta);
	mosql_btree_hint_put(tree, read->node, &meta, -1);
	if (read->nfields > 1 && meta.state == MOSQL_NODE_PACKED)
		mosql_btree_block_keep(tree, read->node, meta.generation, read->values[1]);
}

/*
 * Metas of leaves into the cache, BTREE_READ_BATCH per round trip; what does not exist is dropped from it.  blocks: and their blocks, if
 * they are no more than are kept.
 */
void
mosql_btree_read_hints(MosqlTree *tree, const uint64 *ids, int n, bool blocks)
{
	MemoryContext old = MemoryContextSwitchTo(tree->scratch);
	MosqlBytes	fields[2] = {mosql_btree_meta_field(), mosql_btree_block_field()};
	int			nfields = blocks && n <= BTREE_BLOCKS ? 2 : 1;
	MosqlFieldRead *reads = palloc0(Min(n, BTREE_READ_BATCH) * sizeof(MosqlFieldRead) + 1);

	for (int done = 0; done < n; done += BTREE_READ_BATCH)
	{
		int			batch = Min(n - done, BTREE_READ_BATCH);

		for (int i = 0; i < batch; i++)
			reads[i] = (MosqlFieldRead) {.node = ids[done + i],.nfields = nfields,.fields = fields};
		tree->store->read_fields(tree->store, reads, batch);
		for (int i = 0; i < batch; i++)
		{
			if (reads[i].values[0].data == NULL)
			{
				mosql_btree_cache_drop(tree, reads[i].node);
				continue;
			}
			mosql_btree_take_hint(tree, &reads[i]);
		}
	}
	MemoryContextSwitchTo(old);
}

/* True if an item is where the search ends; the root says so only when read. */
static bool
has_arrived(Search *s, const SearchItem *item)
{
	const CachedNode *root;

	if (item->level >= 0)
		return item->level == s->level;
	if (s->level == 0)
		return false;
	root = mosql_btree_search_cached(s, item);
	return root != NULL && root->meta.state != MOSQL_NODE_DEAD && root->meta.level == s->level;
}

/*
 * Insert what was found unlinked into the parents, or learn that it is there: the next
 * descent gets further.
 */
static void
relink(Search *s)
{
	SearchLink *links = s->links;
	int			n = s->nlinks;

	s->relink = false;
	s->links = NULL;
	s->nlinks = s->maxlinks = 0;
	for (int level = 0; level < MOSQL_TREE_MAX_LEVEL; level++)
	{
		MosqlChild *children = NULL;
		int			nchildren = 0;

		for (int i = 0; i < n; i++)
			if (links[i].level == level)
			{
				if (children == NULL)
					children = MemoryContextAllocHuge(s->tree->scratch, n * sizeof(MosqlChild));
				children[nchildren++] = links[i].child;
			}
		if (nchildren > 0)
			mosql_stats.helps += mosql_btree_inner_insert(s->tree, level + 1, children, nchildren);
	}
}

/* All keys on their way begin again at the root: a long sleep is over. */
static void
begin_anew(Search *s)
{
	s->tree->epoch++;
	for (int i = 0; i < s->npending; i++)
		s->pending[i] = (SearchItem)
	{
		.node = s->tree->root, .level = -1, .first = s->pending[i].first, .n = s->pending[i].n,
		.epoch = s->tree->epoch
	};
}

static CachedNode *find_one(Search *s, uint64 epoch);

/*
 * Look for what lies left of the dead nodes that were met: by searches of their own, which
 * may meet dead nodes in turn.  They end, because what lies left of a fence and is dead
 * begins further left (or the path is wrong: settle() restarts), and after
 * MOSQL_TREE_MAX_HOPS in all.
 */
static void
pass_dead(Search *s)
{
	for (int i = 0; i < s->npending; i++)
	{
		SearchItem *item = &s->pending[i];
		Search		left;

		if (item->dead.data == NULL)
			continue;
		mosql_btree_search_begin(&left, s->tree, &item->dead, 1, item->level);
		left.backward = left.takes_dying = true;
		left.firm = s->firm;
		left.passed = s->passed + item->hops;
		item->node = find_one(&left, ++s->tree->epoch)->id;
		item->dead = MOSQL_ABSENT;
	}
}

/*
 * Who builds on what he finds (links it, merges it, takes something out of it) goes right from an inner
 * node only when that has its copies; durable stores only.  The others, who look for rows, need not:
 * a leaf is whole with its own fences, and its split comes to be whatever a failover takes back.
 *
 * Race -- a failover takes back the split that led here.  Then this node is no part of the tree, and
 * what it has absorbed, or what was taken out of it, would be missing in the node that is.
 */
static void
confirm_passed(Search *s)
{
	MosqlTree  *tree = s->tree;
	uint64	   *nodes = NULL;
	MosqlBytes *metas;
	int			n = 0;

	for (int i = 0; i < s->npending; i++)
		if (s->pending[i].passed != 0)
		{
			if (nodes == NULL)
				nodes = MemoryContextAllocHuge(tree->scratch, s->npending * sizeof(uint64));
			nodes[n++] = s->pending[i].passed;
		}
	if (n == 0)
		return;
	metas = MemoryContextAllocHuge(tree->scratch, n * sizeof(MosqlBytes));
	mosql_btree_look(tree, nodes, n, metas);
	n = 0;
	for (int i = 0; i < s->npending; i++)
	{
		SearchItem *item = &s->pending[i];
		MosqlBytes	m;
		MosqlNodeMeta meta;

		if (item->passed == 0)
			continue;
		m = metas[n++];
		if (m.data == NULL || mosql_btree_meta_fault(tree, item->passed, m, &meta) != NULL ||
			meta.state != MOSQL_NODE_NORMAL || meta.right != item->node)
		{
			/* not, or no longer, so: look at it again; the hop counts all the same */
			mosql_btree_cache_drop(tree, item->passed);
			item->node = item->passed;
			item->from = MOSQL_ABSENT;
		}
		item->passed = 0;
	}
}

/*
 * Must the root be read with its copies before the search goes down from it?  Only for who builds on what he finds; durable
 * stores only.  What leads further down has its copies: a node is linked when that it is part of its level has them (inner.c),
 * but the step by which the root grows makes its children a level.
 *
 * Race -- the root has grown at a primary that is cut off, or a failover takes that back.  Then these children are no part of the
 * tree: what is taken out of them stays in the root, and what is deleted then is linked still.
 */
static bool
wants_copies(const Search *s, const SearchItem *item)
{
	const CachedNode *root;

	if (!s->firm || !s->tree->store->durable || item->level >= 0)
		return false;
	root = mosql_btree_search_cached(s, item);
	return root == NULL || (!root->copied && root->meta.level > s->level);
}

/* Read the root into the cache, with its copies. */
static void
read_copied_root(MosqlTree *tree)
{
	MemoryContext old = MemoryContextSwitchTo(tree->scratch);
	MosqlBytes	fields[2] = {mosql_btree_meta_field(), mosql_btree_separators_field()};
	MosqlFieldRead read = {.node = tree->root, .nfields = 2, .fields = fields};
	CachedNode *root;

	mosql_btree_look_fields(tree, &read, 1);
	mosql_stats.inner_reads++;
	take_inner(tree, &read);
	root = mosql_btree_cache_find(tree, tree->root);
	if (root != NULL)
		root->copied = true;
	MemoryContextSwitchTo(old);
}

/*
 * Move all keys on until each is at the level wanted.  Returns the number of
 * items; 0 when the search is over.  One round trip per level that the cache
 * does not know.
 */
int
mosql_btree_search_next(Search *s)
{
	MosqlTree  *tree = s->tree;

	s->nitems = 0;
	while (s->npending > 0)
	{
		SearchItem *work = s->pending;
		int			nwork = s->npending;
		uint64	   *wanted = NULL;
		int			nwanted = 0;
		int			maxwanted = 0;
		bool		copied_root = false;

		CHECK_FOR_INTERRUPTS();
		if (s->relink)
			relink(s);
		if (s->pause)
			mosql_btree_wait(tree, &s->budget, work[0].node);
		if (s->ndying > 0)
			mosql_btree_merge_help(tree, s->dying, s->ndying);
		s->ndying = 0;
		pass_dead(s);
		confirm_passed(s);
		if (s->incarnation != s->tree->store->incarnation(s->tree->store))
		{
			(void) mosql_btree_wakes_up(tree);
			s->incarnation = tree->incarnation;
			begin_anew(s);
		}
		s->pause = s->restarted = false;

		for (int i = 0; i < nwork; i++)
			if (wants_copies(s, &work[i]))
				copied_root = true;
			else if ((work[i].level < 0 || work[i].level != s->level) && mosql_btree_search_cached(s, &work[i]) == NULL)
			{
				wanted = room_for(tree, wanted, nwanted, &maxwanted, sizeof(uint64));
				wanted[nwanted++] = work[i].node;
			}
		if (copied_root)
			read_copied_root(tree);
		if (nwanted > 0)
			read_inner(tree, wanted, nwanted);

		s->pending = NULL;
		s->npending = s->maxpending = 0;
		for (int i = 0; i < nwork; i++)
		{
			if (has_arrived(s, &work[i]))
				arrive(s, &work[i]);
			else if (ends_below(s, &work[i]))
				restart_below(s, &work[i]);
			else
				expand(s, &work[i], mosql_btree_search_cached(s, &work[i]));
		}
	}
	return s->nitems;
}

/* Finish a search: link what was found unlinked, take out what leads nowhere. */
void
mosql_btree_search_end(Search *s)
{
	Assert(s->npending == 0);
	if (s->nlinks > 0)
		relink(s);
	if (s->ndangling > 0)
		mosql_btree_inner_remove(s->tree, s->dangling_level + 1, s->dangling, s->ndangling);
}

/* The shared part of the next two: the node must be no staler than epoch. */
static CachedNode *
find_one(Search *s, uint64 epoch)
{
	MosqlTree  *tree = s->tree;
	CachedNode *found = NULL;
	int			level = s->level;

	while (mosql_btree_search_next(s) > 0)
	{
		SearchItem *item = &s->items[0];
		CachedNode *node = mosql_btree_search_cached(s, item);

		if (node == NULL || node->epoch < epoch)
		{
			if (level == 0)
				mosql_btree_read_hints(tree, &item->node, 1, false);
			else
				read_inner(tree, &item->node, 1);
			node = mosql_btree_search_cached(s, item);
		}
		if (node != NULL && node->meta.level != level && item->level < 0 &&
			node->meta.state != MOSQL_NODE_DEAD)
			mosql_btree_search_again(s, item);	/* the root has grown since it was cached */
		else if (mosql_btree_search_settle(s, item, node ? &node->meta : NULL) > 0)
			found = node;
	}
	mosql_btree_search_end(s);
	Assert(found != NULL);
	return found;
}

/*
 * The inner node of a level (> 0) that covers a key (backward: what is just
 * below it), no staler than epoch.  Cached; no round trip if the cache is
 * fresh enough.
 */
CachedNode *
mosql_btree_find_inner(MosqlTree *tree, MosqlBytes key, bool backward, int level, uint64 epoch)
{
	Search		s;

	mosql_btree_search_begin(&s, tree, &key, 1, level);
	s.backward = backward;
	return find_one(&s, epoch);
}

/* See btree.h. */
uint64
mosql_btree_leaf_of(MosqlTree *tree, MosqlBytes key)
{
	const CachedNode *parent;

	mosql_btree_enter(tree);
	parent = mosql_btree_find_inner(tree, key, false, 1, 0);
	return parent->children[mosql_btree_child_index(parent->children, parent->nchildren, key,
													false)].node;
}

/* The root, from the cache if it is there. */
CachedNode *
mosql_btree_find_root(MosqlTree *tree)
{
	CachedNode *root = mosql_btree_cache_find(tree, tree->root);

	if (root == NULL)
	{
		read_inner(tree, &tree->root, 1);
		root = mosql_btree_cache_find(tree, tree->root);
	}
	if (root == NULL || root->meta.state == MOSQL_NODE_DEAD)
		mosql_btree_gone(tree);
	return root;
}

/*
 * Is there a level above this one?  The root is read now, with its copies where these are waited for.
 *
 * Race -- a failover takes back the root's growth, since it had no copies when we read it.  Then its highest level, and
 * all that led there, is no part of the tree.
 */
bool
mosql_btree_has_level_above(MosqlTree *tree, int level)
{
	MosqlBytes	m;
	MosqlNodeMeta meta;

	if (level == 0)
		return true;
	mosql_btree_cache_drop(tree, tree->root);
	mosql_btree_look(tree, &tree->root, 1, &m);
	if (m.data == NULL)
		mosql_btree_gone(tree);
	mosql_btree_meta(tree, tree->root, m, &meta);
	if (meta.state == MOSQL_NODE_DEAD)
		mosql_btree_gone(tree);
	return level < meta.level;
}

/*
 * The same for any level, read now, to build on, of which it is a matter of course that the path
 * to it may be stale.  Of a leaf only the meta is known.  takes_dying: the node may
 * be one that is being merged away.
 */
CachedNode *
mosql_btree_find_node(MosqlTree *tree, MosqlBytes key, bool backward, int level, bool takes_dying)
{
	Search		s;

	mosql_btree_search_begin(&s, tree, &key, 1, level);
	s.backward = backward;
	s.takes_dying = takes_dying;
	s.firm = true;
	return find_one(&s, ++tree->epoch);
}

/*
 * Fields of nodes, as they are now; one round trip.  Where copies are waited for what is returned
 * has them: no failover takes it back, and a primary that has a successor cannot tell an old one.
 */
void
mosql_btree_look_fields(MosqlTree *tree, MosqlFieldRead *reads, int n)
{
	StepList	list = {0};

	if (!tree->store->durable)
	{
		if (n > 0)
			tree->store->read_fields(tree->store, reads, n);
		return;
	}
	for (int i = 0; i < n; i++)
	{
		MosqlStep  *step = mosql_btree_step_new(tree, reads[i].node, 1);

		step->nreads = reads[i].nfields;
		step->reads = reads[i].fields;
		mosql_btree_steps_add(tree, &list, step);
	}
	mosql_btree_steps_run(tree, list.steps, list.n);
	for (int i = 0; i < n; i++)
		reads[i].values = list.steps[i]->values;
}

/* Reads of these nodes' metas. */
MosqlFieldRead *
mosql_btree_meta_reads(const uint64 *nodes, int n)
{
	MosqlFieldRead *reads = palloc0(Max(n, 1) * sizeof(MosqlFieldRead));
	MosqlBytes *field = palloc(sizeof(MosqlBytes));

	*field = mosql_btree_meta_field();
	for (int i = 0; i < n; i++)
		reads[i] = (MosqlFieldRead) {.node = nodes[i], .nfields = 1, .fields = field};
	return reads;
}

/* The same of metas (data NULL: there is no such node). */
void
mosql_btree_look(MosqlTree *tree, const uint64 *nodes, int n, MosqlBytes *metas)
{
	MosqlFieldRead *reads = mosql_btree_meta_reads(nodes, n);

	mosql_btree_look_fields(tree, reads, n);
	for (int i = 0; i < n; i++)
		metas[i] = reads[i].values[0];
}

/* Is a node that was read as it is with its copies?  Where none are waited for that is not asked. */
bool
mosql_btree_is_current(MosqlTree *tree, const CachedNode *node)
{
	MosqlNodeMeta meta;
	MosqlBytes	m;

	if (!tree->store->durable)
		return true;
	mosql_btree_look(tree, &node->id, 1, &m);
	return m.data != NULL && mosql_btree_meta_fault(tree, node->id, m, &meta) == NULL &&
		meta.generation == node->meta.generation;
}
