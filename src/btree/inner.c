/*
 * inner.c: inserting and removing separators, splitting inner nodes, growing the
 * root.
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
 *
 * What may be linked.  A child is inserted only if a node that is part of the level
 * below was seen to lead to it *after* the inner node was read; and whoever takes a
 * separator out raises the generation, also when it is not there.  So a splitter
 * that comes so late that its new node was merged away and deleted meanwhile cannot
 * link it any more: README.md, "Signposts".
 */
#include "btree/btree_int.h"

/* Children that the level above must get. */
typedef struct Uppers
{
	MosqlChild *children;
	int			n;
} Uppers;

/* What is to happen to one level of a tree. */
typedef struct LevelChange
{
	MosqlTree  *tree;
	const MosqlChild *children;
	Search		s;				/* for where they belong */
	bool		ended;
	bool		failed;			/* a change of it, before */
	Uppers		uppers;
} LevelChange;

/* What happens to one inner node. */
typedef struct InnerChange
{
	LevelChange *of;
	const CachedNode *old;		/* as read */
	SearchItem	item;			/* the children in question that belong to it */
	MosqlChild *children;		/* as they are to be */
	int			nchildren;
	int			changed;		/* how many are inserted or taken out */
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
			int			above = node->meta.level;

			c = mosql_btree_child_index(node->children, node->nchildren, children[i].separator, false);
			if (above <= level)
				break;
			node = mosql_btree_cache_find(tree, node->children[c].node);
			if (node != NULL && node->meta.level >= above)
				node = NULL;	/* damage, which the search will meet */
		}
		if (node == NULL || node->meta.level != level || node->nchildren == 0 ||
			node->children[c].node != children[i].node)
			children[out++] = children[i];
	}
	return out;
}

/* A new child, and what is thought to be its left neighbour. */
typedef struct Candidate
{
	int			child;			/* index into the children to insert */
	InnerChange *change;
	uint64		left;			/* 0: none known */
	int			left_child;		/* if that is to be inserted, too; else -1 */
	bool		confirmed;
} Candidate;

/* What the separators of the node and those to insert say is left of each of these. */
static int
find_candidates(InnerChange *change, Candidate *out)
{
	const MosqlChild *children = change->of->children;
	const CachedNode *old = change->old;
	int			n = 0;
	int			o = 0;			/* old->children[o - 1] is the last one below */

	for (int i = 0; i < change->item.n; i++)
	{
		int			child = change->item.first + i;
		Candidate  *c = &out[n];

		while (o < old->nchildren && compare_children(&old->children[o], &children[child]) < 0)
			o++;
		if (o < old->nchildren && compare_children(&old->children[o], &children[child]) == 0 &&
			old->children[o].node == children[child].node)
			continue;			/* it is there already */
		*c = (Candidate) {.child = child, .change = change, .left_child = -1};
		if (o > 0)
			c->left = old->children[o - 1].node;
		if (i > 0 && (o == 0 || compare_children(&old->children[o - 1], &children[child - 1]) <= 0))
		{
			c->left = children[child - 1].node;
			if (n > 0 && out[n - 1].child == child - 1)
				c->left_child = n - 1;
		}
		n++;
	}
	return n;
}

/* Does a node with this meta, which was part of its level, lead on to a child? */
static bool
leads_to(const MosqlTree *tree, uint64 node, MosqlBytes m, int level, const MosqlChild *child)
{
	MosqlNodeMeta meta;

	return m.data != NULL && mosql_btree_meta_fault(tree, node, m, &meta) == NULL &&
		meta.level == level &&
		mosql_node_is_alive(meta.state) &&
		meta.right == child->node && mosql_bytes_equal(meta.high, child->separator);
}

/*
 * Find out which of the new children are part of their level, after their parents
 * were read: children that are not are left out.  One round trip, if nobody has
 * split or merged their left neighbours; else one more search for each of those.
 *
 * Race -- a failover takes back the split that made a child part of its level.  So what
 * leads to it is looked at with its copies, whoever has split it.
 */
static void
confirm(int level, Candidate *candidates, int n)
{
	uint64	   *lefts = palloc(Min(n, BTREE_READ_BATCH) * sizeof(uint64) + 1);
	MosqlBytes *metas = palloc(Min(n, BTREE_READ_BATCH) * sizeof(MosqlBytes) + 1);

	for (int done = 0; done < n; done += BTREE_READ_BATCH)
	{
		int			batch = Min(n - done, BTREE_READ_BATCH);
		int			nlefts = 0;

		for (int i = 0; i < batch; i++)
			if (candidates[done + i].left != 0)
				lefts[nlefts++] = candidates[done + i].left;
		mosql_btree_look(candidates[done].change->of->tree, lefts, nlefts, metas);
		for (int i = 0, r = 0; i < batch; i++)
		{
			Candidate  *c = &candidates[done + i];
			MosqlTree  *tree = c->change->of->tree;
			const MosqlChild *child = &c->change->of->children[c->child];

			/* a left neighbour that is new itself must be confirmed before it counts */
			if (c->left != 0)
				c->confirmed = leads_to(tree, c->left, metas[r++], level - 1, child) &&
					(c->left_child < 0 || candidates[c->left_child].confirmed);
			if (!c->confirmed)
			{
				uint64		left = mosql_btree_find_node(tree, child->separator, true,
														 level - 1, false)->id;
				MosqlBytes	m;

				mosql_btree_look(tree, &left, 1, &m);
				c->confirmed = leads_to(tree, left, m, level - 1, child);
			}
		}
	}
}

/*
 * Merge confirmed children into the old ones.  If the same separator leads to
 * another node, that one is dead: on its level one node at a time begins there.
 */
static void
merge(InnerChange *change, const Candidate *new, int n)
{
	const MosqlChild *children = change->of->children;
	const CachedNode *old = change->old;
	int			o = 0;
	int			out = 0;

	change->at_end = n > 0 &&
		compare_children(&old->children[old->nchildren - 1], &children[new[0].child]) < 0;
	change->children = palloc_extended((old->nchildren + n) * sizeof(MosqlChild), MCXT_ALLOC_HUGE);
	for (int i = 0; i < n; i++)
	{
		const MosqlChild *child = &children[new[i].child];

		if (!new[i].confirmed)
			continue;
		while (o < old->nchildren && compare_children(&old->children[o], child) < 0)
			change->children[out++] = old->children[o++];
		if (o < old->nchildren && compare_children(&old->children[o], child) == 0)
			o++;
		change->children[out++] = *child;
		change->changed++;
	}
	while (o < old->nchildren)
		change->children[out++] = old->children[o++];
	change->nchildren = out;
}

/*
 * Take children out of the old ones.  The first stays whatever it leads to: its
 * separator is the node's own low fence.
 */
static void
take_out(InnerChange *change)
{
	const MosqlChild *children = change->of->children;
	const CachedNode *old = change->old;
	int			out = 0;

	change->children = palloc_extended(old->nchildren * sizeof(MosqlChild), MCXT_ALLOC_HUGE);
	change->nchildren = old->nchildren;
	for (int o = 0, i = 0; o < old->nchildren; o++)
	{
		while (i < change->item.n &&
			   compare_children(&children[change->item.first + i], &old->children[o]) < 0)
			i++;
		if (o > 0 && i < change->item.n &&
			compare_children(&children[change->item.first + i], &old->children[o]) == 0 &&
			children[change->item.first + i].node == old->children[o].node)
			continue;
		change->children[out++] = old->children[o];
	}
	change->nchildren = out;
	change->changed = old->nchildren - out;
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
		children[starts[i]].separator, tree->store->new_id(tree->store, false)
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
plan_change(InnerChange *change, StepList *creates)
{
	MosqlTree  *tree = change->of->tree;
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

/* Are the new nodes as they were created, all of them? */
static bool
are_untouched(MosqlTree *tree, const InnerChange *change)
{
	uint64	   *nodes = palloc(change->nmade * sizeof(uint64));
	MosqlBytes *metas = palloc(change->nmade * sizeof(MosqlBytes));

	for (int i = 0; i < change->nmade; i++)
		nodes[i] = change->made[i].node;
	mosql_btree_look(tree, nodes, change->nmade, metas);
	for (int i = 0; i < change->nmade; i++)
		if (metas[i].data == NULL ||
			!mosql_bytes_equal(metas[i], change->creates[i]->writes[0].value))
			return false;
	return true;
}

/*
 * The step failed on the generation; was that because an earlier sending of
 * it (whose reply got lost) had taken effect?  Then a search for the first new
 * node's low fence ends there, unless that node was merged away since; but then it
 * is no longer as it was created.  Looked at in this order: if the search does not
 * find it, and afterwards all new nodes are still as created, then it was not
 * part of the level when we searched, and never will be.  What the search ends at
 * instead must have its copies (an old primary would tell an old story); in doubt
 * the nodes stay, and who misses the separators inserts them.
 */
static bool
took_effect(MosqlTree *tree, const InnerChange *change)
{
	const CachedNode *found;

	found = mosql_btree_find_node(tree, change->made[0].separator, false,
								  change->old->meta.level, false);
	return found->id == change->made[0].node || !mosql_btree_is_current(tree, found) ||
		!are_untouched(tree, change);
}

/* The change is made: put what it wrote in the cache. */
static void
remember(MosqlTree *tree, const InnerChange *change)
{
	mosql_btree_cache_put(tree, change->old->id, &change->meta, change->kept, change->nkept, -1)->copied = tree->store->durable;
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

/* Settle the items of one tree, whose nodes were read; see read_parents(). */
static int
settle_parents(LevelChange *of, InnerChange *changes)
{
	Search	   *s = &of->s;
	MosqlTree  *tree = of->tree;
	int			n = 0;

	for (int i = 0; i < s->nitems; i++)
	{
		const CachedNode *node = mosql_btree_cache_find(tree, s->items[i].node);
		InnerChange *change = &changes[n];

		memset(change, 0, sizeof(InnerChange));
		change->of = of;
		change->item = s->items[i];
		if (node != NULL && node->meta.level != s->level && node->meta.state != MOSQL_NODE_DEAD)
		{
			/* the root, which grew since it was cached */
			if (change->item.level >= 0)
				mosql_btree_damage(tree, node->id, "it is not on the level where the tree has it");
			mosql_btree_search_again(s, &change->item);
			continue;
		}
		change->item.n = mosql_btree_search_settle(s, &change->item, node ? &node->meta : NULL);
		if (change->item.n == 0)
			continue;

		/* two items of one node: the second has to wait for the next round */
		if (n > 0 && changes[n - 1].old->id == node->id)
		{
			mosql_btree_search_again(s, &change->item);
			continue;
		}
		change->old = node;
		n++;
	}
	return n;
}

/*
 * Read the nodes that the items arrived at, of all trees, nitems, and settle; returns those that cover
 * some of the children, with which.
 */
static int
read_parents(LevelChange *levels, int nlevels, int nitems, InnerChange *changes)
{
	MosqlTree **trees = palloc(nitems * sizeof(MosqlTree *));
	uint64	   *ids = palloc(nitems * sizeof(uint64));
	int			nread = 0;
	int			n = 0;

	for (int l = 0; l < nlevels; l++)
		for (int i = 0; !levels[l].ended && i < levels[l].s.nitems; i++)
		{
			trees[nread] = levels[l].tree;
			ids[nread++] = levels[l].s.items[i].node;
		}
	if (nread > 0)
		mosql_btree_read_inner(trees, ids, nread);
	for (int l = 0; l < nlevels; l++)
		if (!levels[l].ended)
			n += settle_parents(&levels[l], changes + n);
	return n;
}

/* Insert what is confirmed; returns the changes to make, one per node that lacks a child. */
static int
plan_inserts(int level, InnerChange *changes, int n)
{
	Candidate  *candidates;
	int			ncandidates = 0;
	int			max = 0;
	int			at = 0;
	int			out = 0;

	for (int i = 0; i < n; i++)
		max += changes[i].item.n;
	candidates = palloc_extended(Max(max, 1) * sizeof(Candidate), MCXT_ALLOC_HUGE);
	for (int i = 0; i < n; i++)
	{
		int			found = find_candidates(&changes[i], candidates + ncandidates);

		for (int c = 0; c < found; c++)
			if (candidates[ncandidates + c].left_child >= 0)
				candidates[ncandidates + c].left_child += ncandidates;
		ncandidates += found;
	}
	confirm(level, candidates, ncandidates);
	for (int i = 0; i < n; i++)
	{
		int			first = at;

		while (at < ncandidates && candidates[at].change == &changes[i])
			at++;
		merge(&changes[i], candidates + first, at - first);
		if (changes[i].changed > 0)
			changes[out++] = changes[i];
	}
	return out;
}

/* Create the new nodes of all changes, then run their steps. */
static void
run_changes(InnerChange *changes, int n)
{
	StepList	creates = {0};
	StepList	steps = {0};
	MosqlTree  *tree;
	int			first = 0;

	if (n == 0)
		return;
	tree = changes[0].of->tree;
	for (int i = 0; i < n; i++)
	{
		plan_change(&changes[i], &creates);
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
 * One change was sent.  Returns false if somebody else changed the node first:
 * then the same has to be tried again.
 */
static bool
settle_change(InnerChange *change)
{
	MosqlTree  *tree = change->of->tree;
	Uppers	   *uppers = &change->of->uppers;
	bool		done = change->step->status == MOSQL_STEP_DONE;

	if (done)
		remember(tree, change);
	else
	{
		mosql_btree_cache_drop(tree, change->old->id);
		if (change->nmade > 0 && !(done = took_effect(tree, change)))
			discard(tree, change);
	}
	if (!done || change->nmade == 0)
		return done;
	mosql_stats.splits += change->nmade;
	if (change->nuppers > 0)
	{
		if (uppers->children == NULL)
			uppers->children = palloc(change->nuppers * sizeof(MosqlChild));
		else
			uppers->children = repalloc_huge(uppers->children,
											 (uppers->n + change->nuppers) * sizeof(MosqlChild));
		memcpy(uppers->children + uppers->n, change->made, change->nuppers * sizeof(MosqlChild));
		uppers->n += change->nuppers;
	}
	return true;
}

/*
 * Search on, in all trees; false at the end.  How many nodes were arrived at goes to *nitems.
 *
 * Race -- while another tree is searched this process sleeps for so long that it may count as dead.  What
 * was arrived at before is looked for anew, as a search does with what is on its way.
 */
static bool
search_levels(LevelChange *levels, int n, int *nitems)
{
	MosqlNodeStore *store = levels[0].tree->store;
	bool		more = false;

	*nitems = 0;
	for (int l = 0; l < n; l++)
		if (!levels[l].ended && mosql_btree_search_next(&levels[l].s) == 0)
		{
			mosql_btree_search_end(&levels[l].s);
			levels[l].ended = true;
		}
	for (int l = 0; l < n; l++)
	{
		Search	   *s = &levels[l].s;

		if (levels[l].ended)
			continue;
		more = true;
		if (s->incarnation != store->incarnation(store))
		{
			for (int i = 0; i < s->nitems; i++)
				mosql_btree_search_again(s, &s->items[i]);
			s->nitems = 0;
		}
		*nitems += s->nitems;
	}
	return more;
}

/* The shared loop: returns how many separators were inserted, or taken out. */
static int
change_levels(const MosqlNewChildren *new, int n, int level, bool insert)
{
	LevelChange *levels = palloc0(n * sizeof(LevelChange));
	MosqlNewChildren *uppers = palloc(n * sizeof(MosqlNewChildren));
	int			nuppers = 0;
	int			changed = 0;
	int			nitems;

	for (int l = 0; l < n; l++)
	{
		MosqlBytes *keys = palloc_extended(new[l].n * sizeof(MosqlBytes), MCXT_ALLOC_HUGE);

		for (int i = 0; i < new[l].n; i++)
			keys[i] = new[l].children[i].separator;
		levels[l].tree = new[l].tree;
		levels[l].children = new[l].children;
		mosql_btree_search_begin(&levels[l].s, new[l].tree, keys, new[l].n, level);
		levels[l].s.firm = true;
	}
	while (search_levels(levels, n, &nitems))
	{
		InnerChange *changes = palloc_extended(nitems * sizeof(InnerChange), MCXT_ALLOC_HUGE);
		int			nchanges = read_parents(levels, n, nitems, changes);

		if (insert)
			nchanges = plan_inserts(level, changes, nchanges);
		else
			for (int i = 0; i < nchanges; i++)
				take_out(&changes[i]);
		run_changes(changes, nchanges);
		for (int i = 0; i < nchanges; i++)
		{
			LevelChange *of = changes[i].of;

			if (settle_change(&changes[i]))
				changed += changes[i].changed;
			else
			{
				/* somebody changed the node: the same once more */
				mosql_btree_search_again(&of->s, &changes[i].item);
				of->s.pause = of->failed;
				of->failed = true;
			}
		}
	}
	for (int l = 0; l < n; l++)
		if (levels[l].uppers.n > 0)
			uppers[nuppers++] = (MosqlNewChildren) {levels[l].tree, levels[l].uppers.children, levels[l].uppers.n};
	if (nuppers > 0)
		mosql_btree_inner_insert_all(uppers, nuppers, level + 1);
	return changed;
}

typedef struct Insert
{
	const MosqlNewChildren *new;
	int			n;
	int			level;
	int			inserted;
} Insert;

/*
 * If a server forgot the new nodes, the step that makes room for them would lose what is in
 * them.  Given up halfway: whoever misses the separators inserts them.
 */
static void
insert_levels(void *arg)
{
	Insert	   *insert = arg;

	insert->inserted = change_levels(insert->new, insert->n, insert->level, true);
}

/*
 * Insert children (sorted here; separators are low fences of nodes on level - 1) of n different trees of one
 * store into the inner nodes of a level, and what that splits off into the levels above.
 * Children that are there already do no harm; those that are no part of their level
 * are left out.  Returns how many were inserted.  Per level three round trips, four
 * with splits, for any number of nodes and trees, which have nothing to do with each other; more if somebody
 * else changes them.
 */
int
mosql_btree_inner_insert_all(MosqlNewChildren *new, int n, int level)
{
	MemoryContext old = MemoryContextSwitchTo(new[0].tree->scratch);
	Insert		insert = {new, 0, level};

	for (int l = 0; l < n; l++)
	{
		MosqlNewChildren left = new[l];

		left.n = drop_known(left.tree, level, left.children, tidy_children(left.children, left.n));
		if (left.n > 0)
			new[insert.n++] = left;
	}
	if (insert.n > 0)
		(void) mosql_btree_unbroken(new[0].tree, insert_levels, &insert);
	MemoryContextSwitchTo(old);
	return insert.inserted;
}

/* The same, of one tree. */
int
mosql_btree_inner_insert(MosqlTree *tree, int level, MosqlChild *children, int n)
{
	MosqlNewChildren new = {tree, children, n};

	return mosql_btree_inner_insert_all(&new, 1, level);
}

/*
 * Take the separators of dead children (sorted here) out of the inner nodes of a
 * level, except where one is the first of its node.  The generation of the node
 * that covers a separator goes up in any case, so that whoever has read the node
 * before cannot insert the child any more.  Returns how many were taken out.
 */
int
mosql_btree_inner_remove(MosqlTree *tree, int level, MosqlChild *children, int n)
{
	MemoryContext old = MemoryContextSwitchTo(tree->scratch);
	MosqlNewChildren gone = {tree, children, tidy_children(children, n)};
	int			removed = 0;

	if (gone.n > 0)
		removed = change_levels(&gone, 1, level, false);
	MemoryContextSwitchTo(old);
	return removed;
}
