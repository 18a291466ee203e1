/*
 * create.c: making trees and taking them away.
 *
 * Layer: btree.
 */
#include "btree/btree_int.h"

/* The step that creates a node of a new tree. */
static MosqlStep *
new_node(MosqlTree *tree, uint64 id, int level)
{
	MosqlNodeMeta meta = {
		.generation = mosql_btree_next_generation(0), .level = level, .state = MOSQL_NODE_NORMAL, .tree = tree->root,
		.low = {"", 0}
	};
	MosqlStep  *step = mosql_btree_step_new(tree, id, 2);

	mosql_btree_step_expect_absent(step);
	mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(tree, &meta));
	return step;
}

/*
 * Write a new empty tree: one leaf, then the root that leads to it.  Two round
 * trips.  Returns false, leaving nothing behind, if the root exists already.
 */
bool
mosql_btree_create(MosqlNodeStore *store, uint64 root, bool together)
{
	MosqlTree  *tree = mosql_btree_open(store, root, CurrentMemoryContext);
	MosqlBytes	fields[2];
	MosqlFieldRead read = {.node = root, .nfields = 2, .fields = fields};
	MosqlChild	child = {{"", 0}, store->new_id(store, together)};
	MosqlStep  *step = new_node(tree, child.node, 0);
	bool		created;

	mosql_btree_steps_run(tree, &step, 1);
	if (!mosql_btree_step_created(step))
		mosql_btree_damage(tree, child.node, "a node that was to be created exists");
	step = new_node(tree, root, 1);
	mosql_btree_step_set(step, mosql_btree_separators_field(),
						 mosql_btree_children_bytes(tree, &child, 1));
	mosql_btree_steps_run(tree, &step, 1);
	created = step->status == MOSQL_STEP_DONE;
	if (!created)
	{
		/* by an earlier sending of ours?  Then it leads to our leaf. */
		fields[0] = mosql_btree_meta_field();
		fields[1] = mosql_btree_separators_field();
		store->read_fields(store, &read, 1);
		created = read.values[1].data != NULL &&
			mosql_bytes_equal(read.values[1], step->writes[1].value);
		if (!created)
			store->delete_nodes(store, &child.node, 1);
		/* Race -- our session died after the first sending, and the sweep came by */
		if (read.values[0].data == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not create a tree in namespace \"%s\"", store->ns),
					 errdetail("The session's lease ran out meanwhile, and what it had made was taken for garbage."),
					 errhint("The transaction might succeed if retried.")));
	}
	mosql_btree_close(tree);
	return created;
}

/* See btree.h. */
bool
mosql_btree_exists(MosqlNodeStore *store, uint64 root)
{
	MosqlBytes	field = mosql_btree_meta_field();
	MosqlFieldRead read = {.node = root, .nfields = 1, .fields = &field};
	MosqlNodeMeta meta;

	store->read_fields(store, &read, 1);
	if (read.values[0].data == NULL)
		return false;
	if (!mosql_meta_decode(read.values[0], &meta))
		mosql_report_damage(store->ns, root, "its meta field does not decode");
	return meta.state != MOSQL_NODE_DEAD;
}

/* A tree that is being destroyed, or as much of it as somebody has time for. */
typedef struct Destruction
{
	MosqlTree  *tree;
	MosqlDestroyMore more;		/* NULL: all of it */
	void	   *arg;
	bool		stopped;
} Destruction;

static void
delete_some(Destruction *work, const uint64 *nodes, int n)
{
	if (n == 0 || work->stopped)
		return;
	work->tree->store->delete_nodes(work->tree->store, nodes, n);
	work->stopped = work->more != NULL && !work->more(work->arg, n);
}

/*
 * Delete all below an inner node, bottom up and from the right; siblings that no parent links go
 * before those that lead to them, so that who is interrupted, or stops, leaves what another run
 * finds.  A node with children goes when they have: what is gone is not looked for again.  What only the heir
 * of a first child leads to is the sweep's: that one's parent has its turn later.
 */
static void
destroy_below(Destruction *work, const WalkNode *node)
{
	MosqlTree  *tree = work->tree;
	MemoryContext cxt = AllocSetContextCreate(tree->call, "mosql tree walk", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	WalkNode   *nodes;
	int			n = mosql_btree_walk(tree, node->children, node->nchildren, node->meta.high,
									 NULL, false, &nodes);
	uint64	   *unlinked = palloc_extended((2 * n + 1) * sizeof(uint64), MCXT_ALLOC_HUGE);
	uint64	   *linked = palloc_extended((n + 1) * sizeof(uint64), MCXT_ALLOC_HUGE);
	int			nunlinked = 0;
	int			nlinked = 0;

	for (int i = n - 1; i >= 0 && !work->stopped; i--)
	{
		if (nodes[i].found && nodes[i].fault == NULL)
		{
			if (nodes[i].meta.level + 1 != node->meta.level)
				mosql_btree_damage(tree, nodes[i].id, "it is not on the level where the tree has it");
			if (nodes[i].meta.state == MOSQL_NODE_SPLITTING)
				unlinked[nunlinked++] = nodes[i].meta.other;
			if (nodes[i].nchildren > 0)
			{
				destroy_below(work, &nodes[i]);
				delete_some(work, unlinked, nunlinked);
				delete_some(work, &nodes[i].id, 1);
				nunlinked = 0;
				continue;
			}
		}
		if (nodes[i].linked)
			linked[nlinked++] = nodes[i].id;
		else
			unlinked[nunlinked++] = nodes[i].id;
	}
	delete_some(work, unlinked, nunlinked);
	delete_some(work, linked, nlinked);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* The step that marks a root dead, as it was read, so that whoever still comes learns that the tree is gone. */
static MosqlStep *
kill_step(MosqlTree *tree, MosqlNodeMeta meta)
{
	MosqlStep  *step = mosql_btree_step_new(tree, tree->root, 1);

	mosql_btree_step_expect_generation(step, meta.generation);
	meta.generation = mosql_btree_next_generation(meta.generation);
	meta.state = MOSQL_NODE_DEAD;
	meta.other = tree->root;	/* nobody inherits */
	mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(tree, &meta));
	return step;
}

/*
 * Meta and separators of the root as it is now, with its copies where these are waited for.
 *
 * Race -- it is dead on a primary that is cut off, or a failover takes that back: then nobody has waited for it yet, the successor
 * has a root that lives, and who comes there would take for damage that what it leads to is gone.
 */
static const MosqlBytes *
look_at_root(MosqlTree *tree)
{
	MosqlBytes *fields = palloc(2 * sizeof(MosqlBytes));
	MosqlFieldRead read = {.node = tree->root, .nfields = 2, .fields = fields};

	fields[0] = mosql_btree_meta_field();
	fields[1] = mosql_btree_separators_field();
	mosql_btree_look_fields(tree, &read, 1);
	return read.values;
}

/* The root, dead, with what it leads to; NULL: it is gone.  Also one that leads to nothing that decodes is killed. */
static WalkNode *
kill_root(MosqlTree *tree)
{
	MosqlBudget budget = mosql_budget_start(BTREE_WAIT_MS);

	for (;;)
	{
		const MosqlBytes *values = look_at_root(tree);
		WalkNode   *root = palloc0(sizeof(WalkNode));
		MosqlStep  *step;

		if (values[0].data == NULL)
			return NULL;
		root->id = tree->root;
		mosql_btree_meta(tree, root->id, values[0], &root->meta);
		root->fault = mosql_btree_children_fault(&root->meta, values[1], &root->children,
												 &root->nchildren);
		if (root->meta.state == MOSQL_NODE_DEAD)
			return root;
		step = kill_step(tree, root->meta);
		mosql_btree_steps_run(tree, &step, 1);
		if (step->status == MOSQL_STEP_DONE)
			return root;
		mosql_btree_wait(tree, &budget, root->id);
	}
}

/* One try at those of the trees that `left` has; those that somebody else was faster at stay.  Returns how many. */
static int
kill_left(MosqlTree **trees, MosqlKilled *killed, int *left, int n)
{
	uint64	   *roots = palloc(n * sizeof(uint64));
	MosqlBytes *metas = palloc(n * sizeof(MosqlBytes));
	MosqlStep **steps = palloc(n * sizeof(MosqlStep *));
	int			nsteps = 0;
	int			nleft = 0;

	for (int i = 0; i < n; i++)
		roots[i] = trees[left[i]]->root;
	mosql_btree_look(trees[left[0]], roots, n, metas);	/* see look_at_root() */
	for (int i = 0; i < n; i++)
	{
		MosqlTree  *tree = trees[left[i]];
		MosqlNodeMeta meta;

		if (metas[i].data == NULL)
			killed[left[i]] = MOSQL_KILL_GONE;
		else if (mosql_btree_meta_fault(tree, tree->root, metas[i], &meta) != NULL)
			killed[left[i]] = MOSQL_KILL_DAMAGED;
		else if (meta.state == MOSQL_NODE_DEAD)
			killed[left[i]] = MOSQL_KILLED;
		else
		{
			steps[nsteps++] = kill_step(tree, meta);
			left[nleft++] = left[i];
		}
	}
	mosql_btree_steps_run(trees[left[0]], steps, nsteps);
	n = nleft;
	nleft = 0;
	for (int i = 0; i < n; i++)
		if (steps[i]->status == MOSQL_STEP_DONE)
			killed[left[i]] = MOSQL_KILLED;
		else
			left[nleft++] = left[i];
	return nleft;
}

/* See btree.h. */
void
mosql_btree_kill(MosqlTree **trees, int n, MosqlKilled *killed)
{
	MosqlBudget budget = mosql_budget_start(BTREE_WAIT_MS);
	int		   *left = palloc(n * sizeof(int) + 1);

	for (int i = 0; i < n; i++)
	{
		mosql_btree_enter(trees[i]);
		left[i] = i;
	}
	while (n > 0 && (n = kill_left(trees, killed, left, n)) > 0)
		mosql_btree_wait(trees[left[0]], &budget, trees[left[0]]->root);
}

/* An empty table, or the counter of a sequence. */
static bool
is_tiny(const WalkNode *root)
{
	return root->meta.level == 1 && root->nchildren == 1;
}

/* See btree.h.  Safe to repeat; the root goes last. */
bool
mosql_btree_destroy(MosqlTree *tree, MosqlDestroyMore more, void *arg)
{
	Destruction work = {tree, more, arg};
	MemoryContext old;
	WalkNode   *root;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	root = kill_root(tree);
	if (root != NULL)
	{
		if (root->fault != NULL)
			mosql_btree_damage(tree, root->id, root->fault);
		if (is_tiny(root))
			work.more = NULL;
		work.stopped = work.more != NULL && !more(arg, 0);
		if (!work.stopped)
			destroy_below(&work, root);
		if (!work.stopped)
			tree->store->delete_nodes(tree->store, &tree->root, 1);
	}
	mosql_btree_cache_drop(tree, tree->root);
	MemoryContextSwitchTo(old);
	return !work.stopped;
}
