/*
 * place.c: where a tree's leaves are.
 *
 * Layer: btree.  An id says where its node is, as far as the store is concerned, and stays with the node: so what is
 * decided here is decided when a leaf is made.  Leaves are anywhere, so that a tree that grows is spread over all there is.
 * But the first few, while they are all that the tree has, may be together (MosqlNodeStore.new_id): small trees are
 * what transactions write to again and again, a counter, a branch, a queue.
 *
 * What the caches say of a tree's size may be out of date, and others make leaves at the same time: then it is some leaves more that are
 * together, or fewer.
 */
#include "btree/btree_int.h"

/* See btree.h. */
void
mosql_btree_set_together(MosqlTree *tree, bool together)
{
	tree->together = together;
}

/* How many leaves a tree has, by the caches; a lot, if it has more than one inner node, or they do not have its root. */
static int
count_leaves(MosqlTree *tree)
{
	const CachedNode *root = mosql_btree_cache_find(tree, tree->root);

	return root != NULL && root->meta.level == 1 ? root->nchildren : MOSQL_TOGETHER_MAX_LEAVES;
}

/* The id of a leaf that is to be made, after `before` others that the parent does not know yet.  A round trip, where the store has used up its ids. */
uint64
mosql_btree_new_leaf(MosqlTree *tree, int before)
{
	bool		together = tree->together && before < MOSQL_TOGETHER_MAX_LEAVES - count_leaves(tree);

	return tree->store->new_id(tree->store, together);
}
