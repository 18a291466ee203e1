/*
 * stray.c: is a node, found by its name, of any use?
 *
 * Layer: btree.  For a sweep over all keys of a namespace.  Every node says where it
 * should be: in which tree, on which level, from which low fence on.  So there is
 * no need to know all nodes of all trees: we look there.
 */
#include "btree/btree_int.h"

/* Does the inner node above lead to it? */
static bool
leads_to(const CachedNode *parent, uint64 node, const MosqlNodeMeta *meta)
{
	const MosqlChild *child = &parent->children[mosql_btree_child_index(parent->children,
																		parent->nchildren,
																		meta->low, false)];

	return child->node == node && mosql_bytes_equal(child->separator, meta->low);
}

/* By what is known of that one: who takes a node for linked that is not does no harm. */
static bool
is_linked(MosqlTree *tree, uint64 node, const MosqlNodeMeta *meta)
{
	return leads_to(mosql_btree_find_inner(tree, meta->low, false, meta->level + 1, 0), node, meta);
}

/* By what that one is now, with its copies: in doubt the node stays. */
static bool
is_unlinked(MosqlTree *tree, uint64 node, const MosqlNodeMeta *meta)
{
	const CachedNode *parent = mosql_btree_find_node(tree, meta->low, false, meta->level + 1, false);

	return !leads_to(parent, node, meta) && mosql_btree_is_current(tree, parent);
}

/* The node that covers a low fence on its level, or the root if the tree is lower. */
static const CachedNode *
find_cover(MosqlTree *tree, const MosqlNodeMeta *meta)
{
	const CachedNode *root;

	mosql_btree_cache_drop(tree, tree->root);
	root = mosql_btree_find_root(tree);
	if (meta->level >= root->meta.level)
		return root;
	for (;;)
	{
		const CachedNode *found = mosql_btree_find_node(tree, meta->low, false, meta->level, false);

		/* a split may be about to bring the node in */
		if (found->meta.state != MOSQL_NODE_SPLITTING)
			return found;
		CHECK_FOR_INTERRUPTS();
		mosql_btree_thaw(tree, &found->id, 1);
	}
}

/* Raise the generation of the node that covers a low fence. */
static void
touch_cover(MosqlTree *tree, const MosqlNodeMeta *meta)
{
	MosqlBudget budget = mosql_budget_start(BTREE_WAIT_MS);

	for (;;)
	{
		const CachedNode *cover = find_cover(tree, meta);
		MosqlStep  *step = mosql_btree_step_new(tree, cover->id, 1);
		MosqlNodeMeta touched = cover->meta;

		touched.generation = mosql_btree_next_generation(touched.generation);
		mosql_btree_step_expect_generation(step, cover->meta.generation);
		mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(tree, &touched));
		mosql_btree_steps_run(tree, &step, 1);
		mosql_btree_cache_drop(tree, cover->id);
		if (step->status == MOSQL_STEP_DONE)
			return;
		mosql_btree_wait(tree, &budget, cover->id);
	}
}

/*
 * See btree.h.
 *
 * A node that no search for its low fence ends at may be one that its maker is about
 * to bring in: with the cut of a leaf, the step of an inner node, or that of the
 * root.  Each of these is a step on the node that covers the low fence on that
 * level (or on the root), planned before the node was created, and compares the
 * generation.  So after we have raised it none of them can succeed any more.
 *
 * A node that was being merged away on a level that a failover has taken back, where nobody gets to finish that, is one
 * that no search ends at, too.
 */
MosqlNodeUse
mosql_btree_examine(MosqlTree *tree, uint64 node, const MosqlNodeMeta *seen)
{
	MosqlNodeUse use = MOSQL_NODE_USED;
	MemoryContext old;
	MosqlNodeMeta meta = *seen;
	const CachedNode *root;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	Assert(node != tree->root && meta.tree == tree->root);
	meta.low = mosql_bytes_copy(tree->scratch, meta.low);
	root = mosql_btree_find_root(tree);
	if (meta.state == MOSQL_NODE_DYING &&
		(meta.level <= root->meta.level || mosql_btree_has_level_above(tree, meta.level - 1)))
		mosql_btree_merge_help(tree, &(MosqlChild) {meta.low, node}, 1);
	else if (meta.state == MOSQL_NODE_DEAD)
	{
		MosqlChild	child = {meta.low, node};
		bool		is_lost = !mosql_btree_has_level_above(tree, meta.level);

		/* of a level that a failover has taken back, with all that led there, nothing is linked */
		if (!is_lost)
			mosql_btree_inner_remove(tree, meta.level + 1, &child, 1);
		if (is_lost || is_unlinked(tree, node, &meta))
			use = MOSQL_NODE_UNLINKED;
	}
	else if ((meta.level >= root->meta.level || !is_linked(tree, node, &meta)) &&
			 find_cover(tree, &meta)->id != node)
	{
		const CachedNode *cover;

		touch_cover(tree, &meta);
		MOSQL_DEBUG_POINT("stray-touched");
		cover = find_cover(tree, &meta);
		if (cover->id != node && mosql_btree_is_current(tree, cover))
			use = MOSQL_NODE_UNREACHABLE;
	}
	MemoryContextSwitchTo(old);
	return use;
}
