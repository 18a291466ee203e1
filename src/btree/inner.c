/*
 * inner.c: inserting separators, splitting inner nodes, growing the root.
 *
 * Layer: btree.  An inner node changes in one step that compares its
 * generation and writes separators and meta.  When it overflows,
 *
 *          .. [ a b c d e f ] ..            level l
 *
 * the right pieces are created first, as nodes that nobody knows,
 *
 *          .. [ a b c d e f ] ..   (c d) -> (e f) -> ..
 *
 * and one step on the node makes them part of the tree:
 *
 *          .. [ a b ] -> [ c d ] -> [ e f ] -> ..
 *
 * Their separators then go to level l + 1 in the same way.  A crash before
 * the step leaves garbage that nobody can reach; a crash after it leaves right
 * siblings that searches reach over the right link and link themselves.  The
 * root keeps its id: all its pieces become new nodes, and its one step writes
 * a level more and those nodes as children.
 */
#include "btree/btree_int.h"

/* What happens to one inner node. */
typedef struct InnerChange
{
	const CachedNode *old;		/* as read */
	SearchItem	item;			/* the new children that belong to it */
	MosqlChild *children;		/* merged */
	int			nchildren;
	int			added;
	bool		at_end;			/* all new ones are beyond the old ones */
	MosqlNodeMeta meta;			/* after the change */
	MosqlChild *kept;			/* children after the change */
	int			nkept;
	MosqlChild *made;			/* new nodes: low fence and id */
	int			nmade;
	int			nuppers;		/* made[0 .. nuppers - 1] have to be inserted above */
	MosqlStep **creates;		/* [nmade] */
	MosqlStep  *step;
} InnerChange;

static int
compare_children(const void *a, const void *b)
{
	return mosql_bytes_compare(((const MosqlChild *) a)->separator,
							   ((const MosqlChild *) b)->separator);
}

/* Sort, and drop separators that are there twice. */
static int
tidy_children(MosqlChild *children, int n)
{
	int			out = 0;

	for (int i = 1; i < n; i++)
		if (compare_children(&children[i - 1], &children[i]) >= 0)
		{
			qsort(children, n, sizeof(MosqlChild), compare_children);
			break;
		}
	for (int i = 0; i < n; i++)
		if (out == 0 || compare_children(&children[out - 1], &children[i]) != 0)
			children[out++] = children[i];
	return out;
}

/* Keep only those that the cached inner nodes of the level do not have. */
static int
drop_known(MosqlTree *tree, int level, MosqlChild *children, int n)
{
	int			out = 0;

	for (int i = 0; i < n; i++)
	{
		const CachedNode *node = mosql_btree_cache_find(tree, tree->root);
		int			c = 0;

		while (node != NULL && node->nchildren > 0)
		{
			c = mosql_btree_child_index(node->children, node->nchildren, children[i].separator, false);
			if (node->meta.level <= level)
				break;
			node = mosql_btree_cache_find(tree, node->children[c].node);
		}
		if (node == NULL || node->meta.level != level || node->nchildren == 0 ||
			node->children[c].node != children[i].node)
			children[out++] = children[i];
	}
	return out;
}

/*
 * The same separator leads to another node.  One of the two is dead (merged
 * away, and a late helper linked it again): the living one stays.
 */
static bool
replaces(MosqlTree *tree, const MosqlChild *new, const MosqlChild *old)
{
	MosqlBytes	field = mosql_btree_meta_field();
	MosqlFieldRead read = {.node = old->node, .nfields = 1, .fields = &field};
	MosqlNodeMeta meta;

	tree->store->read_fields(tree->store, &read, 1);
	if (read.values[0].data == NULL)
		return true;
	mosql_btree_meta(tree, old->node, read.values[0], &meta);
	return meta.state == MOSQL_NODE_DEAD;
}

/* Merge new children into the old ones. */
static void
merge(MosqlTree *tree, InnerChange *change, const MosqlChild *new)
{
	const CachedNode *old = change->old;
	int			n = change->item.n;
	int			o = 0;
	int			out = 0;

	change->at_end = n > 0 && compare_children(&old->children[old->nchildren - 1], &new[0]) < 0;
	change->children = palloc_extended((old->nchildren + n) * sizeof(MosqlChild), MCXT_ALLOC_HUGE);
	for (int i = 0; i < n; i++)
	{
		while (o < old->nchildren && compare_children(&old->children[o], &new[i]) < 0)
			change->children[out++] = old->children[o++];
		if (o < old->nchildren && compare_children(&old->children[o], &new[i]) == 0)
		{
			if (old->children[o].node == new[i].node || !replaces(tree, &new[i], &old->children[o]))
				continue;
			o++;
		}
		change->children[out++] = new[i];
		change->added++;
	}
	while (o < old->nchildren)
		change->children[out++] = old->children[o++];
	change->nchildren = out;
}

/* Cut children into pieces that fit into nodes; returns how many. */
static int
cut_children(const MosqlChild *children, int n, bool fill, int *starts)
{
	uint32	   *sizes = palloc_extended(n * sizeof(uint32), MCXT_ALLOC_HUGE);
	size_t		total = 0;

	for (int i = 0; i < n; i++)
	{
		sizes[i] = children[i].separator.len + 16;
		total += sizes[i];
	}
	starts[0] = 0;
	if (n <= MOSQL_INNER_MAX_CHILDREN && (total <= MOSQL_INNER_MAX_BYTES || n < 4))
		return 1;
	return mosql_btree_partition(sizes, n, MOSQL_INNER_MAX_CHILDREN,
								 Max(MOSQL_INNER_MAX_BYTES, total / n * 2), fill, starts);
}

/* The steps that create nodes for pieces first .. npieces - 1 of children. */
static void
create_pieces(MosqlTree *tree, StepList *creates, const MosqlNodeMeta *like,
			  const MosqlChild *children, int n, const int *starts, int first, int npieces,
			  MosqlChild *made)
{
	for (int i = first; i < npieces; i++)
		made[i - first] = (MosqlChild)
	{
		children[starts[i]].separator, tree->store->new_id(tree->store)
	};
	for (int i = first; i < npieces; i++)
	{
		MosqlStep  *step = mosql_btree_step_new(tree, made[i - first].node, 2);
		int			end = i + 1 < npieces ? starts[i + 1] : n;
		MosqlNodeMeta meta = *like;

		meta.generation = mosql_btree_next_generation(0);
		meta.low = children[starts[i]].separator;
		meta.high = i + 1 < npieces ? made[i + 1 - first].separator : like->high;
		meta.right = i + 1 < npieces ? made[i + 1 - first].node : like->right;
		mosql_btree_step_expect_absent(step);
		mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(tree, &meta));
		mosql_btree_step_set(step, mosql_btree_separators_field(),
							 mosql_btree_children_bytes(tree, children + starts[i], end - starts[i]));
		mosql_btree_steps_add(tree, creates, step);
	}
}

/*
 * The root is full: put its children into new nodes, and those into new nodes
 * again until the root can hold what is left.
 */
static void
grow_root(MosqlTree *tree, InnerChange *change, StepList *creates, int *starts, int npieces)
{
	MosqlChild *made = palloc_extended(2 * change->nchildren * sizeof(MosqlChild), MCXT_ALLOC_HUGE);

	change->made = made;
	change->kept = change->children;
	change->nkept = change->nchildren;
	while (npieces > 1)
	{
		create_pieces(tree, creates, &change->meta, change->kept, change->nkept, starts, 0, npieces,
					  made + change->nmade);
		change->kept = made + change->nmade;
		change->nkept = npieces;
		change->nmade += npieces;
		if (++change->meta.level > MOSQL_TREE_MAX_LEVEL)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("a tree of namespace \"%s\" cannot have more than %d levels",
							tree->store->ns, MOSQL_TREE_MAX_LEVEL)));
		npieces = cut_children(change->kept, change->nkept, change->at_end, starts);
	}
}

/* Lay out the node after the change; add the steps that create new nodes. */
static void
plan_change(MosqlTree *tree, InnerChange *change, StepList *creates)
{
	int		   *starts = palloc_extended(change->nchildren * sizeof(int), MCXT_ALLOC_HUGE);
	int			npieces = cut_children(change->children, change->nchildren, change->at_end, starts);

	change->meta = change->old->meta;
	change->kept = change->children;
	change->nkept = change->nchildren;
	if (npieces > 1 && change->old->id == tree->root)
		grow_root(tree, change, creates, starts, npieces);
	else if (npieces > 1)
	{
		change->made = palloc_extended(npieces * sizeof(MosqlChild), MCXT_ALLOC_HUGE);
		change->nmade = change->nuppers = npieces - 1;
		create_pieces(tree, creates, &change->meta, change->children, change->nchildren,
					  starts, 1, npieces, change->made);
		change->nkept = starts[1];
		change->meta.high = change->made[0].separator;
		change->meta.right = change->made[0].node;
	}
	change->meta.generation = mosql_btree_next_generation(change->meta.generation);
	change->step = mosql_btree_step_new(tree, change->old->id, 2);
	mosql_btree_step_expect_generation(change->step, change->old->meta.generation);
	mosql_btree_step_set(change->step, mosql_btree_meta_field(),
						 mosql_btree_meta_bytes(tree, &change->meta));
	mosql_btree_step_set(change->step, mosql_btree_separators_field(),
						 mosql_btree_children_bytes(tree, change->kept, change->nkept));
}

/*
 * The step failed on the generation; was that because an earlier sending of
 * it (whose reply got lost) had taken effect?  Then the first new node is what
 * a search for its low fence finds, now and forever; else nobody knows it.
 */
static bool
took_effect(MosqlTree *tree, const InnerChange *change)
{
	const CachedNode *found;

	found = mosql_btree_find_inner(tree, change->made[0].separator, false,
								   change->old->meta.level, ++tree->epoch);
	return found->id == change->made[0].node;
}

/* The change is made: put what it wrote in the cache. */
static void
remember(MosqlTree *tree, const InnerChange *change)
{
	mosql_btree_cache_put(tree, change->old->id, &change->meta, change->kept, change->nkept, -1);
	for (int i = 0; i < change->nmade; i++)
	{
		const MosqlWrite *writes = change->creates[i]->writes;
		MosqlNodeMeta meta;
		MosqlChild *children;
		int			n;

		mosql_btree_meta(tree, change->made[i].node, writes[0].value, &meta);
		if (mosql_children_decode(writes[1].value, &children, &n))
			mosql_btree_cache_put(tree, change->made[i].node, &meta, children, n, -1);
	}
}

/* Delete nodes that never became part of the tree. */
static void
discard(MosqlTree *tree, const InnerChange *change)
{
	uint64	   *ids = palloc(change->nmade * sizeof(uint64));

	for (int i = 0; i < change->nmade; i++)
		ids[i] = change->made[i].node;
	tree->store->delete_nodes(tree->store, ids, change->nmade);
}

/*
 * Read the nodes that the items arrived at and settle; returns the changes to
 * make, one per node that lacks a child.
 */
static int
read_and_merge(Search *s, const MosqlChild *children, InnerChange *changes, int *covered)
{
	MosqlTree  *tree = s->tree;
	uint64	   *ids = palloc(s->nitems * sizeof(uint64));
	int			n = 0;

	for (int i = 0; i < s->nitems; i++)
		ids[i] = s->items[i].node;
	mosql_btree_read_inner(tree, ids, s->nitems);
	*covered = 0;
	for (int i = 0; i < s->nitems; i++)
	{
		const CachedNode *node = mosql_btree_cache_find(tree, ids[i]);
		InnerChange *change = &changes[n];

		memset(change, 0, sizeof(InnerChange));
		change->item = s->items[i];
		if (node != NULL && node->meta.level != s->level && node->meta.state != MOSQL_NODE_DEAD)
		{
			/* the root, which grew since it was cached */
			if (node->id != tree->root)
				mosql_btree_damage(tree, node->id, "it is not on the level where the tree has it");
			mosql_btree_search_again(s, &change->item);
			continue;
		}
		change->item.n = mosql_btree_search_settle(s, &change->item, node ? &node->meta : NULL);
		*covered += change->item.n;
		if (change->item.n == 0)
			continue;

		/* two items of one node: the second has to wait for the next round */
		if (n > 0 && changes[n - 1].old->id == node->id)
		{
			mosql_btree_search_again(s, &change->item);
			continue;
		}
		change->old = node;
		merge(tree, change, children + change->item.first);
		if (change->added > 0)
			n++;
	}
	return n;
}

/* Create the new nodes of all changes, then run their steps. */
static void
run_changes(MosqlTree *tree, InnerChange *changes, int n)
{
	StepList	creates = {0};
	StepList	steps = {0};
	int			first = 0;

	for (int i = 0; i < n; i++)
	{
		plan_change(tree, &changes[i], &creates);
		mosql_btree_steps_add(tree, &steps, changes[i].step);
	}
	for (int i = 0; i < n; i++)
	{
		changes[i].creates = creates.steps + first;
		first += changes[i].nmade;
	}
	Assert(first == creates.n);

	/*
	 * In this order: once a node's step is made, searches follow its right
	 * link.
	 */
	mosql_btree_steps_run(tree, creates.steps, creates.n);
	for (int i = 0; i < creates.n; i++)
		if (!mosql_btree_step_created(creates.steps[i]))
			mosql_btree_damage(tree, creates.steps[i]->node, "a node that was to be created exists");
	if (creates.n > 0)
		MOSQL_DEBUG_POINT("inner-created");
	mosql_btree_steps_run(tree, steps.steps, steps.n);
	if (creates.n > 0)
		MOSQL_DEBUG_POINT("inner-split");
}

/*
 * Insert children (sorted here; separators are low fences of living nodes on
 * level - 1) into the inner nodes of a level, and what that splits off into
 * the levels above.  Children that are there already do no harm.  Returns how
 * many were not; *unknown (unless NULL) gets how many were new to the cache.
 * Per level two round trips, three with splits, for any number
 * of nodes; more if somebody else changes them.
 */
int
mosql_btree_inner_insert(MosqlTree *tree, int level, MosqlChild *children, int n, int *unknown)
{
	MemoryContext old = MemoryContextSwitchTo(tree->scratch);
	MosqlBytes *keys;
	MosqlChild *uppers = NULL;
	int			nuppers = 0;
	int			inserted = 0;
	bool		failed = false;
	Search		s;

	n = drop_known(tree, level, children, tidy_children(children, n));
	if (unknown != NULL)
		*unknown = n;
	if (n == 0)
	{
		MemoryContextSwitchTo(old);
		return 0;
	}
	keys = palloc_extended(n * sizeof(MosqlBytes), MCXT_ALLOC_HUGE);
	for (int i = 0; i < n; i++)
		keys[i] = children[i].separator;

	mosql_btree_search_begin(&s, tree, keys, n, level);
	while (mosql_btree_search_next(&s) > 0)
	{
		InnerChange *changes = palloc_extended(s.nitems * sizeof(InnerChange), MCXT_ALLOC_HUGE);
		int			covered;
		int			nchanges = read_and_merge(&s, children, changes, &covered);

		run_changes(tree, changes, nchanges);
		for (int i = 0; i < nchanges; i++)
		{
			InnerChange *change = &changes[i];
			bool		done = change->step->status == MOSQL_STEP_DONE;

			if (done)
				remember(tree, change);
			else
			{
				mosql_btree_cache_drop(tree, change->old->id);
				if (change->nmade > 0 && !(done = took_effect(tree, change)))
					discard(tree, change);
			}
			if (!done)
			{
				/* somebody changed the node: the same once more */
				mosql_btree_search_again(&s, &change->item);
				s.pause = failed;
				failed = true;
				continue;
			}
			inserted += change->added;
			if (change->nmade == 0)
				continue;
			mosql_stats.splits += change->nmade;
			if (uppers == NULL)
				uppers = palloc(change->nuppers * sizeof(MosqlChild));
			else
				uppers = repalloc_huge(uppers, (nuppers + change->nuppers) * sizeof(MosqlChild));
			memcpy(uppers + nuppers, change->made, change->nuppers * sizeof(MosqlChild));
			nuppers += change->nuppers;
		}
	}
	mosql_btree_search_end(&s);
	if (nuppers > 0)
		mosql_btree_inner_insert(tree, level + 1, uppers, nuppers, NULL);
	MemoryContextSwitchTo(old);
	return inserted;
}
