/*
 * walk.c: all nodes of a tree, level by level.
 *
 * Layer: btree.  For statistics, sampling, dump, check and destroy.  A walk
 * reads the children that a parent names and whatever it finds between them
 * over right links, so it also meets nodes that a splitter did not live to
 * link (README.md, "Which nodes").  It bypasses the cache.
 */
#include "btree/btree_int.h"

/* Leaves and inner nodes that an estimate looks at per level. */
#define ESTIMATE_LEAVES		8
#define ESTIMATE_INNER		16

/* Fill in meta and children of a node that was read. */
static void
decode(MosqlTree *tree, WalkNode *node, MosqlBytes m, MosqlBytes s)
{
	node->fault = mosql_btree_meta_fault(tree, node->id, m, &node->meta);
	if (node->fault == NULL && node->meta.level > 0 && node->meta.state != MOSQL_NODE_DEAD)
		node->fault = mosql_btree_children_fault(&node->meta, s, &node->children, &node->nchildren);
}

/* Read nodes (id set) in batches. */
static void
read_nodes(MosqlTree *tree, WalkNode *nodes, int n, bool whole)
{
	MosqlBytes	fields[2];
	uint64		ids[BTREE_LEAF_BATCH];
	MosqlNodeImage images[BTREE_LEAF_BATCH];
	MosqlFieldRead reads[BTREE_LEAF_BATCH];

	fields[0] = mosql_btree_meta_field();
	fields[1] = mosql_btree_separators_field();
	for (int done = 0; done < n; done += BTREE_LEAF_BATCH)
	{
		int			batch = Min(n - done, BTREE_LEAF_BATCH);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < batch; i++)
		{
			ids[i] = nodes[done + i].id;
			reads[i] = (MosqlFieldRead)
			{
				.node = ids[i], .nfields = 2, .fields = fields
			};
		}
		if (whole)
			tree->store->read_nodes(tree->store, ids, batch, images);
		else
			tree->store->read_fields(tree->store, reads, batch);
		for (int i = 0; i < batch; i++)
		{
			WalkNode   *node = &nodes[done + i];

			if (whole)
			{
				node->image = images[i];
				node->found = images[i].found;
				if (node->found)
					decode(tree, node, mosql_btree_image_field(&images[i], MOSQL_FIELD_META),
						   mosql_btree_image_field(&images[i], MOSQL_FIELD_SEPARATORS));
			}
			else
			{
				node->found = reads[i].values[0].data != NULL || reads[i].values[1].data != NULL;
				if (node->found)
					decode(tree, node, reads[i].values[0], reads[i].values[1]);
			}
			if (node->found && node->fault == NULL && node->meta.level > 0)
				mosql_stats.inner_reads++;
			else
				mosql_stats.leaf_reads++;
		}
	}
}

static WalkNode *
add_node(WalkNode **nodes, int *n, int *max, uint64 id, bool linked)
{
	WalkNode   *node;

	if (*n == *max)
	{
		*max *= 2;
		*nodes = repalloc_huge(*nodes, *max * sizeof(WalkNode));
	}
	node = &(*nodes)[(*n)++];
	memset(node, 0, sizeof(WalkNode));
	node->id = id;
	node->linked = linked;
	return node;
}

/* Is this node one that its left sibling may lead on from? */
static bool
in_chain(const WalkNode *node)
{
	return node->found && node->fault == NULL && node->meta.state != MOSQL_NODE_DEAD;
}

static bool
ends_beyond(const WalkNode *node, const WalkEdge *edge)
{
	return !edge->known ||
		(edge->high.data != NULL &&
		 (node->meta.high.data == NULL || mosql_bytes_compare(node->meta.high, edge->high) > 0));
}

static WalkEdge
edge_of(const WalkNode *node)
{
	return in_chain(node) ? (WalkEdge) {true, node->meta.level, node->meta.high, node->meta.right} : (WalkEdge) {0};
}

/*
 * Read n children in key order and the nodes between them that no parent
 * knows; `high` is where the last child ends.  whole: leaves as images, else
 * meta and separators only.  Palloc'ed in the current context; returns the
 * number of nodes.
 *
 * edge: how far the level was met before, and then with these nodes (not copied); NULL: not known.
 * Where the first child is a signpost, what follows it and is not linked is reached from its heir
 * alone, which is left of these children.
 */
int
mosql_btree_walk(MosqlTree *tree, const MosqlChild *children, int n, MosqlBytes high,
				 WalkEdge *edge, bool whole, WalkNode **nodes)
{
	WalkEdge	unknown = {0};
	WalkNode   *read = palloc_extended(Max(n, 1) * sizeof(WalkNode), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	int			max = n + 16;
	int			out = 0;

	if (edge == NULL)
		edge = &unknown;
	for (int i = 0; i < n; i++)
	{
		read[i].id = children[i].node;
		read[i].linked = true;
	}
	read_nodes(tree, read, n, whole);
	*nodes = palloc_extended(max * sizeof(WalkNode), MCXT_ALLOC_HUGE);
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	end = i + 1 < n ? children[i + 1].separator : high;
		const WalkNode *node = &read[i];

		*add_node(nodes, &out, &max, read[i].id, true) = read[i];
		if (in_chain(node) && ends_beyond(node, edge))
			*edge = edge_of(node);
		else if (!node->found || node->fault != NULL)
			edge->known = false;	/* nobody knows what follows */
		while (edge->known && edge->high.data != NULL &&
			   (end.data == NULL || mosql_bytes_compare(edge->high, end) < 0))
		{
			WalkNode   *right = add_node(nodes, &out, &max, edge->right, false);

			read_nodes(tree, right, 1, whole);

			/* fences ascend, so this ends even if the links make a circle */
			if (in_chain(right) &&
				(right->meta.level != edge->level || !mosql_bytes_equal(right->meta.low, edge->high)))
				right->fault = "its low fence or level does not join its left sibling";
			*edge = edge_of(right);
		}
	}
	pfree(read);
	return out;
}

/* The root, whatever is there; in the current context. */
WalkNode *
mosql_btree_walk_any_root(MosqlTree *tree)
{
	WalkNode   *root = palloc0(sizeof(WalkNode));

	root->id = tree->root;
	root->linked = true;
	read_nodes(tree, root, 1, true);
	return root;
}

/* The root, which must be sound; in the current context. */
static WalkNode *
walk_root(MosqlTree *tree)
{
	WalkNode   *root = mosql_btree_walk_any_root(tree);

	if (!root->found)
		mosql_btree_gone(tree);
	if (root->fault != NULL)
		mosql_btree_damage(tree, root->id, root->fault);
	if (root->meta.state == MOSQL_NODE_DEAD)
		mosql_btree_gone(tree);
	return root;
}

/* See btree.h. */
MosqlBytes
mosql_btree_bound_after(MosqlTree *tree, MosqlBytes key)
{
	MemoryContext caller = CurrentMemoryContext;
	MosqlBytes	bound = MOSQL_ABSENT;
	WalkNode   *node;

	mosql_btree_enter(tree);
	MemoryContextSwitchTo(tree->scratch);
	node = walk_root(tree);
	for (int hops = 0; hops < MOSQL_TREE_MAX_HOPS; hops++)
	{
		WalkNode   *next = palloc0(sizeof(WalkNode));

		if (!in_chain(node) || node->meta.level == 0)
			break;
		if (node->meta.high.data != NULL && mosql_bytes_compare(key, node->meta.high) >= 0)
			next->id = node->meta.right;
		else
		{
			int			c = mosql_btree_child_index(node->children, node->nchildren, key, false);

			if (c + 1 < node->nchildren)
				bound = node->children[c + 1].separator;
			else if (node->meta.high.data != NULL)
				bound = node->meta.high;
			next->id = node->children[c].node;
		}
		read_nodes(tree, next, 1, false);
		node = next;
	}
	MemoryContextSwitchTo(caller);
	return bound.data == NULL ? bound : mosql_bytes_copy(caller, bound);
}

/* Put the children of many inner nodes in one array. */
static int
all_children(MosqlTree *tree, const WalkNode *nodes, int n, MosqlChild **children)
{
	int64		total = 0;
	int			out = 0;

	for (int i = 0; i < n; i++)
	{
		if (nodes[i].found && nodes[i].fault != NULL)
			mosql_btree_damage(tree, nodes[i].id, nodes[i].fault);
		if (!nodes[i].found)
			mosql_btree_missing(tree, nodes[i].id);
		total += nodes[i].nchildren;
	}
	if (total > PG_INT32_MAX)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("the tree has too many nodes to list")));
	*children = palloc_extended(Max(total, 1) * sizeof(MosqlChild), MCXT_ALLOC_HUGE);
	for (int i = 0; i < n; i++)
	{
		memcpy(*children + out, nodes[i].children, nodes[i].nchildren * sizeof(MosqlChild));
		out += nodes[i].nchildren;
	}
	return out;
}

/* See btree.h. */
int
mosql_btree_leaf_ids(MosqlTree *tree, uint64 **ids)
{
	MemoryContext old;
	WalkNode   *nodes;
	MosqlChild *children;
	int			n = 1;
	int			nchildren;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	nodes = walk_root(tree);
	for (int level = nodes->meta.level; level > 1; level--)
	{
		nchildren = all_children(tree, nodes, n, &children);
		n = mosql_btree_walk(tree, children, nchildren, MOSQL_ABSENT, NULL, false, &nodes);
		for (int i = 0; i < n; i++)
			if (nodes[i].found && nodes[i].fault == NULL && nodes[i].meta.level != level - 1)
				mosql_btree_damage(tree, nodes[i].id, "it is not on the level where the tree has it");
	}
	nchildren = all_children(tree, nodes, n, &children);
	MemoryContextSwitchTo(old);
	*ids = palloc_extended(nchildren * sizeof(uint64), MCXT_ALLOC_HUGE);
	for (int i = 0; i < nchildren; i++)
		(*ids)[i] = children[i].node;
	return nchildren;
}

/* See btree.h. */
void
mosql_btree_read_leaves(MosqlTree *tree, const uint64 *ids, int n, MosqlLeaf **leaves)
{
	MosqlNodeImage *images;

	mosql_btree_enter(tree);
	images = MemoryContextAllocHuge(tree->scratch, Max(n, 1) * sizeof(MosqlNodeImage));
	*leaves = palloc_extended(Max(n, 1) * sizeof(MosqlLeaf), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	mosql_btree_read_images(tree, ids, n, images);
	for (int i = 0; i < n; i++)
	{
		(*leaves)[i].node = ids[i];
		if (images[i].found)
			mosql_btree_leaf_decode(tree, &images[i], &(*leaves)[i]);
	}
}

/* Pick at most max of n, evenly. */
static int
sample(MosqlChild *children, int n, int max)
{
	if (n <= max)
		return n;
	for (int i = 0; i < max; i++)
		children[i] = children[(int64) i * n / max + n / (2 * max)];
	return max;
}

/*
 * See btree.h.  One round trip per level: of each level a few nodes, whose
 * fan-outs are multiplied.
 */
void
mosql_btree_estimate(MosqlTree *tree, double *rows, double *row_bytes,
					 double *leaves, int *levels)
{
	MemoryContext old;
	WalkNode   *nodes;
	int			n = 1;
	double		width = 1;		/* nodes on this level */
	double		sum = 0;
	double		bytes = 0;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	nodes = walk_root(tree);
	*levels = nodes->meta.level + 1;
	for (int level = nodes->meta.level; level > 0; level--)
	{
		MosqlChild *children;
		int			nchildren = all_children(tree, nodes, n, &children);

		width = width * nchildren / n;
		n = sample(children, nchildren, level > 1 ? ESTIMATE_INNER : ESTIMATE_LEAVES);
		nodes = palloc0(n * sizeof(WalkNode));
		for (int i = 0; i < n; i++)
			nodes[i].id = children[i].node;
		read_nodes(tree, nodes, n, level == 1);
	}
	for (int i = 0; i < n; i++)
	{
		MosqlLeaf	leaf;

		if (!nodes[i].found)
			continue;
		mosql_btree_leaf_decode(tree, &nodes[i].image, &leaf);
		for (int j = 0; j < leaf.n; j++)
			if (leaf.entries[j].row.data != NULL)
			{
				sum++;
				bytes += leaf.entries[j].key.len + leaf.entries[j].row.len;
			}
	}
	*leaves = width;
	*rows = sum / n * width;
	*row_bytes = sum > 0 ? bytes / sum : 0;
	MemoryContextSwitchTo(old);
}

/* --- dump --- */

typedef struct Dump
{
	MosqlTree  *tree;
	MosqlDumpNode each;
	void	   *arg;
	WalkEdge	edges[MOSQL_TREE_MAX_LEVEL + 1];
} Dump;

/* Report one node. */
static void
dump_node(const Dump *dump, const WalkNode *node)
{
	MosqlTree  *tree = dump->tree;
	size_t		bytes = 0;
	int			nentries = node->nchildren;
	int			nintents = 0;

	if (!node->found)
		mosql_btree_missing(tree, node->id);
	if (node->fault != NULL)
		mosql_btree_damage(tree, node->id, node->fault);
	for (int i = 0; i < node->image.nfields; i++)
		bytes += node->image.fields[i].field.len + node->image.fields[i].value.len;
	if (node->meta.level == 0 && node->meta.state != MOSQL_NODE_DEAD)
	{
		MosqlLeaf	leaf;

		mosql_btree_leaf_decode(tree, &node->image, &leaf);
		nentries = leaf.n;
		for (int i = 0; i < leaf.n; i++)
			nintents += leaf.entries[i].intent.data != NULL;
	}
	dump->each(dump->arg, node->id, &node->meta, nentries, nintents, bytes);
}

/* A node, then all below it; memory of one level at a time. */
static void
dump_below(Dump *dump, const WalkNode *node)
{
	MosqlTree  *tree = dump->tree;
	WalkEdge   *edge;
	MemoryContext cxt;
	MemoryContext old;
	WalkNode   *nodes;
	int			n;

	dump_node(dump, node);
	if (node->meta.level == 0 || node->meta.state == MOSQL_NODE_DEAD)
		return;
	edge = &dump->edges[node->meta.level - 1];
	cxt = AllocSetContextCreate(tree->scratch, "mosql tree walk", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	n = mosql_btree_walk(tree, node->children, node->nchildren, node->meta.high, edge, true, &nodes);
	edge->high = mosql_bytes_copy(tree->scratch, edge->high);
	for (int i = 0; i < n; i++)
	{
		if (nodes[i].found && nodes[i].fault == NULL && nodes[i].meta.level + 1 != node->meta.level)
			mosql_btree_damage(tree, nodes[i].id, "it is not on the level where the tree has it");
		dump_below(dump, &nodes[i]);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* See btree.h: a parent before its children, siblings in key order. */
void
mosql_btree_dump(MosqlTree *tree, MosqlDumpNode each, void *arg)
{
	Dump		dump = {tree, each, arg};
	MemoryContext old;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	dump_below(&dump, walk_root(tree));
	MemoryContextSwitchTo(old);
}
