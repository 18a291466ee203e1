/*
 * check.c: is the tree as it should be?
 *
 * Layer: btree.  Every node is read, in key order, a parent before its
 * children.  Against running writers a finding may be a passing state, so the
 * tree is walked again if there were any, and only what both walks found is
 * reported; an error, if it is not a primary that tells it which has a successor.
 */
#include "btree/btree_int.h"

/* Enough to see that a tree is beyond help. */
#define CHECK_MAX_FINDINGS	10000

typedef struct Finding
{
	char		severity;
	uint64		node;
	const char *what;			/* constant */
} Finding;

typedef struct Check
{
	MosqlTree  *tree;
	MemoryContext context;		/* edges and findings */
	MosqlCheckLeaf on_leaf;
	void	   *arg;
	WalkEdge	edges[MOSQL_TREE_MAX_LEVEL + 1];
	Finding    *findings;
	int			nfindings;
} Check;

static void
find(Check *check, char severity, uint64 node, const char *what)
{
	if (check->nfindings < CHECK_MAX_FINDINGS)
		check->findings[check->nfindings++] = (Finding)
	{
		severity, node, what
	};
}

/* The chain of siblings breaks here, on this level and all below. */
static void
forget_edges(Check *check, int level)
{
	for (int l = 0; l <= level; l++)
		check->edges[l].known = false;
}

/* Fences and right link against the left neighbour of the same level. */
static void
check_edge(Check *check, const WalkNode *node)
{
	WalkEdge   *edge = &check->edges[node->meta.level];

	if (edge->known)
	{
		if (edge->right != node->id)
			find(check, 'E', node->id, "its left neighbour has another right sibling");
		if (edge->high.data == NULL || !mosql_bytes_equal(edge->high, node->meta.low))
			find(check, 'E', node->id, "its low fence is not its left neighbour's high fence");
	}
	*edge = (WalkEdge) {true, node->meta.level, mosql_bytes_copy(check->context, node->meta.high), node->meta.right};
}

/*
 * An unfinished split must be one that can be finished: the first new leaf is still to be created, or all
 * are there.  They may be in use, and in any state that this brings, where a failover has lost the cut.
 */
static void
check_split(Check *check, const WalkNode *node)
{
	MosqlChild	child = {node->meta.split_key, node->meta.other};
	WalkNode   *others;
	int			n = mosql_btree_walk(check->tree, &child, 1, node->meta.high, NULL, false, &others);

	find(check, 'W', node->id, "its split is not finished");
	if (!others->found)
		return;
	for (int i = 0; i < n; i++)
		if (!others[i].found)
			find(check, 'E', node->id, "a new leaf of the split that it is in is missing");
		else if (others[i].fault != NULL)
			find(check, 'E', others[i].id, others[i].fault);
	if (others->fault == NULL &&
		(others->meta.level != 0 || others->meta.state == MOSQL_NODE_DEAD ||
		 !mosql_bytes_equal(others->meta.low, node->meta.split_key)))
		find(check, 'E', node->id, "the node that it is being split into is not fit for it");
}

static void
check_leaf(Check *check, const WalkNode *node)
{
	MosqlLeaf	leaf = {.meta = node->meta};
	const char *fault = mosql_btree_leaf_fault(&node->image, &leaf);

	if (fault != NULL)
		find(check, 'E', node->id, fault);
	else
	{
		if (leaf.range_marks.len % MOSQL_TXID_BYTES != 0)
			find(check, 'E', node->id, "its range marks do not decode");
		for (int i = 0; i < leaf.n; i++)
			if (leaf.entries[i].marks.len % MOSQL_TXID_BYTES != 0)
				find(check, 'E', node->id, "its key marks do not decode");
		if (check->on_leaf != NULL)
			check->on_leaf(check->arg, &leaf);
	}
}

static void
check_below(Check *check, const WalkNode *node, const MosqlChild *link, int level)
{
	MemoryContext cxt;
	MemoryContext old;
	WalkNode   *nodes;
	WalkEdge	edge;
	int			n;

	CHECK_FOR_INTERRUPTS();
	if (!node->found || node->fault != NULL)
	{
		find(check, 'E', node->id, node->found ? node->fault : "it is missing");
		forget_edges(check, level);
		return;
	}
	if (node->meta.state == MOSQL_NODE_DEAD)
	{
		find(check, 'W', node->id, "it is dead but still linked");
		return;
	}
	if (node->meta.level != level)
	{
		find(check, 'E', node->id, "it is not on the level where the tree has it");
		forget_edges(check, level);
		return;
	}
	if (node->meta.generation == 0)
		find(check, 'E', node->id, "its generation is zero");
	if (!node->linked)
		find(check, 'W', node->id, "no parent links to it");
	else if (link != NULL && !mosql_bytes_equal(link->separator, node->meta.low))
		find(check, 'E', node->id, "its low fence is not the separator that leads to it");
	if (node->meta.state == MOSQL_NODE_DYING)
	{
		const WalkEdge *edge = &check->edges[level];

		find(check, 'W', node->id, "its merge is not finished");

		/* absorbed already: what it holds is its left neighbour's */
		if (edge->known && edge->right != node->id &&
			(edge->high.data == NULL || mosql_bytes_compare(edge->high, node->meta.low) > 0))
			return;
	}
	if (node->meta.state == MOSQL_NODE_SPLITTING)
		check_split(check, node);
	check_edge(check, node);
	if (level == 0)
	{
		check_leaf(check, node);
		return;
	}

	cxt = AllocSetContextCreate(check->tree->scratch, "mosql tree walk", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	edge = check->edges[level - 1];
	n = mosql_btree_walk(check->tree, node->children, node->nchildren, node->meta.high, &edge, true, &nodes);
	for (int i = 0, c = 0; i < n; i++)
	{
		const MosqlChild *child = nodes[i].linked ? &node->children[c++] : NULL;

		check_below(check, &nodes[i], child, level - 1);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* Walk the tree once. */
static void
run(Check *check)
{
	MemoryContext old = MemoryContextSwitchTo(check->context);
	WalkNode   *root = mosql_btree_walk_any_root(check->tree);

	check->findings = palloc(CHECK_MAX_FINDINGS * sizeof(Finding));
	if (!root->found || root->fault != NULL || root->meta.state == MOSQL_NODE_DEAD)
	{
		find(check, 'E', root->id, !root->found ? "the root of the tree is missing" :
			 root->fault != NULL ? root->fault : "the root of the tree is dead");
		MemoryContextSwitchTo(old);
		return;
	}
	check_below(check, root, NULL, root->meta.level);
	for (int l = 0; l <= root->meta.level; l++)
		if (check->edges[l].known && (check->edges[l].right != 0 || check->edges[l].high.data != NULL))
			find(check, 'E', root->id, "the last node of a level has a right sibling");
	MemoryContextSwitchTo(old);
}

static bool
has(const Check *check, const Finding *finding)
{
	for (int i = 0; i < check->nfindings; i++)
		if (check->findings[i].node == finding->node &&
			check->findings[i].severity == finding->severity &&
			strcmp(check->findings[i].what, finding->what) == 0)
			return true;
	return false;
}

/* Errors are of nodes that are as they were told. */
static void
doubt_errors(const Check *check)
{
	uint64	   *nodes = palloc(Max(check->nfindings, 1) * sizeof(uint64));
	int			n = 0;

	for (int i = 0; i < check->nfindings; i++)
		if (check->findings[i].severity == 'E')
			nodes[n++] = check->findings[i].node;
	if (n > 0)
		mosql_btree_doubt(check->tree, check->tree->breaks, nodes, n);
}

/* See btree.h. */
void
mosql_btree_check(MosqlTree *tree, MosqlCheckReport report,
				  MosqlCheckLeaf on_leaf, void *arg)
{
	Check		first = {.tree = tree, .on_leaf = on_leaf, .arg = arg};
	Check		second = {.tree = tree};

	mosql_btree_enter(tree);
	first.context = second.context = tree->scratch;
	run(&first);
	if (first.nfindings == 0)
		return;
	run(&second);
	doubt_errors(&second);
	for (int i = 0; i < first.nfindings; i++)
		if (has(&second, &first.findings[i]))
			report(arg, first.findings[i].severity, first.findings[i].node, first.findings[i].what);
}
