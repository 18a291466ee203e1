/*
 * merge.c: taking emptied leaves, and inner nodes that became small, out of the
 * tree; finishing what others began.
 *
 * Layer: btree.  R is to be merged into its left sibling L, both under the same
 * parent:
 *
 *          L = [a, b)  ->  R = [b, c)  ->  N
 *
 *   1. dying   R: compares that it is empty (an inner node: nothing), generation
 *              up.  From here on no step succeeds on R, and nobody is served by it.
 *   2. read    R: it can no longer change.
 *   3. absorb  L takes over R's range, right sibling and purge mark, an inner
 *              node the separators: compares L's generation, hence that R still
 *              is its right sibling.  This makes R no part of the tree.
 *
 *          L = [a, c)  ->  N
 *
 *   4. dead    R: a signpost for those who still have it in their caches.
 *   5. unlink  R's separator goes out of the parent (inner.c).
 *   6. bury    some time later: unlink once more, then note which sessions live
 *              (the sweep, src/txn/sweep.c); when they have ended R is deleted.
 *
 * If 1 and 2 were swapped, R could get a row after it was read, and L would inherit
 * a purge mark that is too low; if 2 and 3, the same; if 3 and 4, a search that meets
 * the dead R would look to the left of it, find that L ends there, and be led back to
 * R; if 4 and 6, R could be deleted while L leads to it.  4 and 5 may be swapped.
 *
 * R may be the first of a run of nodes that are dying: L absorbs them all in one
 * step.  Anybody who meets a dying node does 2 to 5.  README.md tells why any number
 * of maintainers and helpers may be at it.
 */
#include "btree/btree_int.h"

/* Inner nodes are merged if both together fill no more than half of one. */
#define MERGE_MAX_CHILDREN	(MOSQL_INNER_MAX_CHILDREN / 2)
#define MERGE_MAX_BYTES		(MOSQL_INNER_MAX_BYTES / 2)

/* A dying node as it will be until somebody marks it dead. */
typedef struct Dying
{
	uint64		node;
	MosqlNodeMeta meta;
	MosqlTimestamp purged;		/* leaves */
	MosqlChild *children;		/* inner nodes */
	int			nchildren;
	bool		done;			/* dead, or not known to be dying */
} Dying;

typedef struct Merge
{
	MosqlTree  *tree;
	int			n;
	Dying	   *nodes;			/* those that are to be merged away, ascending */
	int			nmerged;		/* nodes that we have marked dead */
	StepList	deaths;			/* the steps that did it */
	int			nunlink;
	int			maxunlink;
	MosqlChild *unlink;			/* separators to take out, all of one level */
	int			level;			/* of the nodes */
} Merge;

/* --- reading --- */

/*
 * Read nodes (id set) that may be dying; one round trip per batch.  What is not
 * dying is marked done.
 */
static void
read_dying(MosqlTree *tree, Dying *nodes, int n)
{
	static const char purged = MOSQL_FIELD_PURGED;
	MosqlBytes	fields[3];

	fields[0] = mosql_btree_meta_field();
	fields[1] = mosql_bytes(&purged, 1);
	fields[2] = mosql_btree_separators_field();
	for (int done = 0; done < n; done += BTREE_READ_BATCH)
	{
		int			batch = Min(n - done, BTREE_READ_BATCH);
		MosqlFieldRead *reads = palloc0(batch * sizeof(MosqlFieldRead));

		for (int i = 0; i < batch; i++)
			reads[i] = (MosqlFieldRead)
		{
			.node = nodes[done + i].node, .nfields = 3, .fields = fields
		};
		tree->store->read_fields(tree->store, reads, batch);
		for (int i = 0; i < batch; i++)
		{
			Dying	   *node = &nodes[done + i];
			const MosqlBytes *values = reads[i].values;
			const char *fault;

			node->done = true;
			if (values[0].data == NULL)
				continue;
			mosql_btree_meta(tree, node->node, values[0], &node->meta);
			if (node->meta.state != MOSQL_NODE_DYING)
				continue;
			if (values[1].data != NULL && values[1].len != MOSQL_TS_BYTES)
				mosql_btree_damage(tree, node->node, "its purge mark does not decode");
			node->purged = values[1].data != NULL ? mosql_ts_get(values[1].data) : 0;
			if (node->meta.level > 0)
			{
				fault = mosql_btree_children_fault(&node->meta, values[2], &node->children,
												   &node->nchildren);
				if (fault != NULL)
					mosql_btree_damage(tree, node->node, fault);
			}
			if (node->meta.low.len == 0)
				mosql_btree_damage(tree, node->node, "the first node of a level is dying");
			node->done = false;
		}
	}
}

/* The one of the nodes to be merged that has this id, or NULL. */
static Dying *
find_dying(Merge *merge, uint64 node)
{
	for (int i = 0; i < merge->n; i++)
		if (merge->nodes[i].node == node && !merge->nodes[i].done)
			return &merge->nodes[i];
	return NULL;
}

/* --- steps --- */

/*
 * Step 3: L takes over a run of nodes, each the right sibling of the one before.
 * Returns false if L has changed since it was read.
 */
static bool
absorb(MosqlTree *tree, const CachedNode *left, Dying *const *run, int n)
{
	static const char purged_field = MOSQL_FIELD_PURGED;
	MosqlStep  *step = mosql_btree_step_new(tree, left->id, 2);
	MosqlNodeMeta meta = left->meta;
	MosqlTimestamp purged = 0;
	MosqlChild *children = NULL;
	int			nchildren = 0;

	Assert(meta.state == MOSQL_NODE_NORMAL || meta.state == MOSQL_NODE_PACKED || meta.state == MOSQL_NODE_LOADING);
	meta.generation = mosql_btree_next_generation(meta.generation);
	meta.high = run[n - 1]->meta.high;
	meta.right = run[n - 1]->meta.right;
	mosql_btree_step_expect_generation(step, left->meta.generation);
	mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(tree, &meta));
	if (meta.level == 0)
	{
		for (int i = 0; i < n; i++)
			purged = Max(purged, run[i]->purged);
		if (purged > 0)
		{
			StringInfoData ts;

			initStringInfo(&ts);
			mosql_ts_put(&ts, purged);
			mosql_btree_step_raise(step, mosql_bytes(&purged_field, 1), mosql_bytes_of(&ts));
		}
	}
	else
	{
		int			max = left->nchildren;

		for (int i = 0; i < n; i++)
			max += run[i]->nchildren;
		children = palloc(max * sizeof(MosqlChild));
		memcpy(children, left->children, left->nchildren * sizeof(MosqlChild));
		nchildren = left->nchildren;
		for (int i = 0; i < n; i++)
		{
			memcpy(children + nchildren, run[i]->children, run[i]->nchildren * sizeof(MosqlChild));
			nchildren += run[i]->nchildren;
		}
		mosql_btree_step_set(step, mosql_btree_separators_field(),
							 mosql_btree_children_bytes(tree, children, nchildren));
	}
	mosql_btree_steps_run(tree, &step, 1);
	if (step->status != MOSQL_STEP_DONE)
	{
		mosql_btree_cache_drop(tree, left->id);
		return false;
	}
	mosql_btree_cache_put(tree, left->id, &meta, children, nchildren,
						  meta.level == 0 && meta.state == MOSQL_NODE_NORMAL ? step->nfields : -1);
	return true;
}

/*
 * That nodes are as they were read is durable, where that is asked for: their next
 * step is not to rest on one that a failover takes back.  False if one of them has
 * changed.  Without copies that is left to the next step's own compare.
 */
static bool
confirm(MosqlTree *tree, const uint64 *ids, const uint64 *generations, int n)
{
	StepList	list = {0};
	bool		same = true;

	if (!tree->store->durable)
		return true;
	for (int i = 0; i < n; i++)
	{
		MosqlStep  *step = mosql_btree_step_new(tree, ids[i], 1);

		mosql_btree_step_expect_generation(step, generations[i]);
		mosql_btree_steps_add(tree, &list, step);
	}
	mosql_btree_steps_run(tree, list.steps, list.n);
	for (int i = 0; i < n; i++)
		if (list.steps[i]->status != MOSQL_STEP_DONE)
		{
			mosql_btree_cache_drop(tree, ids[i]);
			same = false;
		}
	return same;
}

static bool
confirm_dying(MosqlTree *tree, Dying *const *run, int n)
{
	uint64	   *ids = palloc(n * sizeof(uint64));
	uint64	   *generations = palloc(n * sizeof(uint64));

	for (int i = 0; i < n; i++)
	{
		ids[i] = run[i]->node;
		generations[i] = run[i]->meta.generation;
	}
	return confirm(tree, ids, generations, n);
}

/* Step 4 for nodes that `heir` has absorbed, and what has to be unlinked of them. */
static void
mark_dead(Merge *merge, uint64 heir, Dying *const *run, int n)
{
	static const char purged = MOSQL_FIELD_PURGED;
	MosqlTree  *tree = merge->tree;
	StepList	list = {0};

	for (int i = 0; i < n; i++)
	{
		MosqlStep  *step = mosql_btree_step_new(tree, run[i]->node, 2);
		MosqlNodeMeta meta = run[i]->meta;

		meta.generation = mosql_btree_next_generation(meta.generation);
		meta.state = MOSQL_NODE_DEAD;
		meta.other = heir;
		mosql_btree_step_expect_generation(step, run[i]->meta.generation);
		mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(tree, &meta));
		if (meta.level == 0)
			mosql_btree_step_delete(step, mosql_bytes(&purged, 1));
		else
			mosql_btree_step_delete(step, mosql_btree_separators_field());
		mosql_btree_steps_add(tree, &list, step);
	}
	mosql_btree_steps_run(tree, list.steps, list.n);
	for (int i = 0; i < n; i++)
	{
		/* FAILED: somebody else did it, or we before, unheard */
		merge->nmerged += list.steps[i]->status == MOSQL_STEP_DONE;
		mosql_btree_cache_drop(tree, run[i]->node);
		run[i]->done = true;
		if (merge->nunlink == merge->maxunlink)
		{
			merge->maxunlink = Max(16, 2 * merge->maxunlink);
			merge->unlink = merge->unlink == NULL ? palloc(merge->maxunlink * sizeof(MosqlChild)) :
				repalloc(merge->unlink, merge->maxunlink * sizeof(MosqlChild));
		}
		merge->level = run[i]->meta.level;
		merge->unlink[merge->nunlink++] = (MosqlChild) {run[i]->meta.low, run[i]->node};
	}
	MOSQL_DEBUG_POINT("merge-dead");
}

/* --- the drive --- */

/*
 * Merge one dying node away, and with it those of the others that follow it.
 *
 * The left neighbour may be dying, too; then that one goes first.  The nearest
 * node to the left that lives either leads to the dying one, and absorbs it; or it
 * does not: then that has been done, for a dying node that is part of its level has
 * exactly one node that leads to it, and that is the one which the search finds.
 */
static void
merge_away(Merge *merge, Dying *node)
{
	MosqlTree  *tree = merge->tree;
	MosqlBudget budget = mosql_budget_start(BTREE_WAIT_MS);

	while (!node->done)
	{
		Dying	  **run = palloc(merge->n * sizeof(Dying *) + sizeof(Dying *));
		Dying	   *first = node;
		Dying		other;
		const CachedNode *left;
		int			n = 0;

		CHECK_FOR_INTERRUPTS();
		for (;;)
		{
			left = mosql_btree_find_node(tree, first->meta.low, true, first->meta.level, true);
			if (left->meta.state != MOSQL_NODE_DYING)
				break;
			first = find_dying(merge, left->id);
			if (first == NULL)
			{
				other = (Dying) {.node = left->id};
				read_dying(tree, &other, 1);
				first = other.done ? node : &other;
			}
		}
		if (left->meta.state == MOSQL_NODE_SPLITTING)
		{
			mosql_btree_thaw(tree, &left->id, 1);
			continue;
		}
		run[n++] = first;
		if (left->meta.right == first->node)
		{
			Dying	   *next;

			if (!mosql_bytes_equal(left->meta.high, first->meta.low))
				mosql_btree_damage(tree, first->node, "its low fence does not join its left sibling");
			while ((next = find_dying(merge, run[n - 1]->meta.right)) != NULL &&
				   mosql_btree_same_bound(run[n - 1]->meta.high, next->meta.low))
				run[n++] = next;
			if (!confirm_dying(tree, run, n))
			{
				for (int i = 0; i < n; i++)
					read_dying(tree, run[i], 1);	/* done: somebody else's work */
				continue;
			}
			if (!absorb(tree, left, run, n))
			{
				mosql_btree_wait(tree, &budget, left->id);
				continue;
			}
			MOSQL_DEBUG_POINT("merge-absorbed");
		}
		else if (!confirm(tree, &left->id, &left->meta.generation, 1))
			continue;			/* who absorbed it may not have its copies yet */
		mark_dead(merge, left->id, run, n);
	}
}

/* Steps 2 to 5 for nodes (ids set, one level) of which some are dying. */
static void
finish(void *arg)
{
	Merge	   *merge = arg;

	read_dying(merge->tree, merge->nodes, merge->n);
	for (int i = 0; i < merge->n; i++)
		merge_away(merge, &merge->nodes[i]);
	if (merge->nunlink > 0 && mosql_btree_has_level_above(merge->tree, merge->level))
	{
		mosql_btree_inner_remove(merge->tree, merge->level + 1, merge->unlink, merge->nunlink);
		MOSQL_DEBUG_POINT("merge-unlinked");
	}
}

/*
 * Finish merges that others began.  nodes: with their low fences (of which nothing
 * is made here, but searches have them); what is not dying is left alone.
 */
void
mosql_btree_merge_help(MosqlTree *tree, const MosqlChild *nodes, int n)
{
	MemoryContext old = MemoryContextSwitchTo(tree->scratch);

	/* one by one: they may be of different levels */
	for (int i = 0; i < n; i++)
	{
		Dying		dying = {.node = nodes[i].node};
		Merge		merge = {.tree = tree, .nodes = &dying, .n = 1};

		(void) mosql_btree_unbroken(tree, finish, &merge);
		mosql_stats.helps += merge.nmerged;
	}
	MemoryContextSwitchTo(old);
}

/*
 * Step 1 for nodes in these states; compares that leaves hold nothing.  Each is sent once.
 * Returns how many of the nodes, moved to the front of the array, are dying now.
 *
 * Race -- a failover takes it back, and a row comes and goes.  Sent again it would leave the same
 * generation on a leaf with another purge mark, and who has read the first one would confirm that, and
 * hand the lower mark on.  One that was not heard of is nobody's: whoever meets the node finishes it.
 */
static int
begin(MosqlTree *tree, const MosqlNodeMeta *metas, Dying *nodes, int n)
{
	static const char range_marks = MOSQL_FIELD_RANGE_MARKS;
	static const char nobody[MOSQL_TXID_BYTES];
	static const char never[MOSQL_TS_BYTES];
	StepList	list = {0};
	int			out = 0;

	for (int i = 0; i < n; i++)
	{
		MosqlNodeMeta meta = metas[i];
		MosqlStep  *step = mosql_btree_step_new(tree, nodes[i].node, 1);

		Assert(meta.state == MOSQL_NODE_NORMAL && meta.low.len > 0);
		meta.generation = mosql_btree_next_generation(meta.generation);
		meta.state = MOSQL_NODE_DYING;
		step->repeatable = false;
		mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(tree, &meta));
		if (meta.level > 0)
			mosql_btree_step_expect_generation(step, metas[i].generation);
		else
		{
			MosqlCompare *one;

			mosql_btree_step_expect_generation(step, metas[i].generation);
			one = step->compares;
			step->compares = palloc0(4 * sizeof(MosqlCompare));
			step->compares[0] = *one;
			mosql_step_expect(step, MOSQL_COMPARE_ABSENT, mosql_bytes(&range_marks, 1), 0, MOSQL_ABSENT);
			/* no rows in a block, none that is a field, however old, no intent whoever's */
			mosql_step_expect(step, MOSQL_COMPARE_ABSENT, mosql_btree_block_field(), 0, MOSQL_ABSENT);
			mosql_step_expect(step, MOSQL_COMPARE_RANGE, mosql_bytes("", 0), 0,
							  mosql_bytes(nobody, sizeof(nobody)));
			step->compares[3].at_most = mosql_bytes(never, sizeof(never));
		}
		mosql_btree_steps_add(tree, &list, step);
	}
	mosql_btree_steps_run(tree, list.steps, list.n);
	for (int i = 0; i < n; i++)
	{
		mosql_btree_cache_drop(tree, nodes[i].node);
		if (list.steps[i]->status == MOSQL_STEP_DONE)
			nodes[out++] = nodes[i];
	}
	if (out > 0)
		MOSQL_DEBUG_POINT("merge-dying");
	return out;
}

/* All steps, for nodes in these states. */
typedef struct Beginning
{
	Merge		merge;
	const MosqlNodeMeta *metas;
} Beginning;

static void
begin_and_finish(void *arg)
{
	Beginning  *beginning = arg;
	Merge	   *merge = &beginning->merge;

	merge->n = begin(merge->tree, beginning->metas, merge->nodes, merge->n);
	if (merge->n > 0)
		finish(merge);
}

/*
 * Returns how many we merged away.  If a server forgot that a node is dying, its left
 * neighbour would take over its range, and it would still serve; so nothing is gone on with
 * when a connection broke.  Others finish it.
 */
static int
merge_nodes(MosqlTree *tree, const MosqlNodeMeta *metas, Dying *nodes, int n)
{
	Beginning	beginning = {{.tree = tree, .nodes = nodes, .n = n}, metas};

	(void) mosql_btree_unbroken(tree, begin_and_finish, &beginning);
	return beginning.merge.nmerged;
}

/*
 * See btree.h.  The first leaf of each parent stays: its separator is the parent's
 * own low fence, and cannot be taken out.
 */
int
mosql_btree_merge_leaves(MosqlTree *tree, MosqlLeaf *const *leaves, int n)
{
	MemoryContext old;
	MosqlNodeMeta *metas;
	Dying	   *nodes;
	uint64		epoch;
	int			nnodes = 0;
	int			merged = 0;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	metas = palloc(n * sizeof(MosqlNodeMeta) + 1);
	nodes = palloc0(n * sizeof(Dying) + 1);
	epoch = ++tree->epoch;
	for (int i = 0; i < n; i++)
	{
		const MosqlLeaf *leaf = leaves[i];
		const CachedNode *parent;

		Assert(i == 0 || mosql_bytes_compare(leaves[i - 1]->meta.low, leaf->meta.low) < 0);
		if (leaf->meta.state != MOSQL_NODE_NORMAL || leaf->meta.low.len == 0)
			continue;
		parent = mosql_btree_find_inner(tree, leaf->meta.low, false, 1, epoch);
		if (mosql_bytes_equal(parent->meta.low, leaf->meta.low))
			continue;
		metas[nnodes] = leaf->meta;
		nodes[nnodes++].node = leaf->node;
	}
	if (nnodes > 0)
		merged = merge_nodes(tree, metas, nodes, nnodes);
	MemoryContextSwitchTo(old);
	return merged;
}

/* Do two inner nodes fit into one, with room to grow? */
static bool
fit_together(const CachedNode *left, const CachedNode *right)
{
	size_t		bytes = 0;

	for (int i = 0; i < left->nchildren; i++)
		bytes += left->children[i].separator.len + 16;
	for (int i = 0; i < right->nchildren; i++)
		bytes += right->children[i].separator.len + 16;
	return left->nchildren + right->nchildren <= MERGE_MAX_CHILDREN && bytes <= MERGE_MAX_BYTES;
}

/* See btree.h.  Here, too, the first child of each parent stays. */
int
mosql_btree_merge_parents(MosqlTree *tree, MosqlBytes end)
{
	MemoryContext old;
	int			merged = 0;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	for (int level = 1;; level++)
	{
		const CachedNode *root = mosql_btree_find_root(tree);
		const CachedNode *node;
		const CachedNode *parent;
		const CachedNode *left;
		Dying		dying = {0};

		if (level >= root->meta.level)
			break;
		node = mosql_btree_find_node(tree, end, true, level, false);
		if (!mosql_btree_same_bound(node->meta.high, end))
			break;				/* the pass has not reached its end */
		if (node->meta.low.len == 0)
			continue;
		parent = mosql_btree_find_inner(tree, node->meta.low, false, level + 1, ++tree->epoch);
		if (mosql_bytes_equal(parent->meta.low, node->meta.low))
			continue;
		left = mosql_btree_find_node(tree, node->meta.low, true, level, false);
		if (left->meta.right != node->id || !fit_together(left, node))
			continue;
		dying.node = node->id;
		merged += merge_nodes(tree, &node->meta, &dying, 1);
	}
	MemoryContextSwitchTo(old);
	return merged;
}
