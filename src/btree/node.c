/*
 * node.c: nodes as the tree believes them, steps on nodes, errors.
 *
 * Layer: btree.  Stored bytes pass through the functions here before anything
 * relies on them; what does not hold is reported as damage (XX001) with the
 * node's name.
 */
#include "btree/btree_int.h"

#include "common/pg_prng.h"

/* The next call on the tree begins without what is cached of it. */
void
mosql_btree_damage(const MosqlTree *tree, uint64 node, const char *what)
{
	unconstify(MosqlTree *, tree)->distrusted = true;
	mosql_report_damage(tree->store->ns, node, what);
}

/* The root is missing, or a signpost to nowhere. */
void
mosql_btree_gone(const MosqlTree *tree)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("the tree of this table no longer exists in namespace \"%s\": it was dropped or truncated",
					tree->store->ns),
			 errhint("Retry the transaction. If that does not help, a Redis node may have lost the tree's root: mosql_fdw_check(table) examines the table; see docs/repair.md.")));
	pg_unreachable();
}

/*
 * Is the tree nobody's: its root missing or dead, or there without a tree?
 *
 * Race -- the step that creates a root arrives late, or once more: when the tree was destroyed, or when the sweep
 * has taken the leaf, which is made first, since the maker's session had died.  So there is a root again, as it
 * was created, which leads to nothing, and which no definition names: it has no label.  The sweep destroys it.
 */
static bool
is_nobodys(const MosqlTree *tree)
{
	static const char label = MOSQL_FIELD_LABEL;
	MosqlNodeStore *store = tree->store;
	MosqlBytes	fields[2];
	MosqlFieldRead read = {.node = tree->root,.nfields = 2,.fields = fields};
	MosqlNodeMeta meta;

	fields[0] = mosql_btree_meta_field();
	fields[1] = mosql_bytes(&label, 1);
	store->read_fields(store, &read, 1);
	if (read.values[0].data == NULL)
		return true;
	mosql_btree_meta(tree, tree->root, read.values[0], &meta);
	return meta.state == MOSQL_NODE_DEAD ||
		(tree->root >> MOSQL_ID_COUNTER_BITS != 0 && read.values[1].data == NULL &&
		 mosql_btree_is_first_generation(meta.generation));
}

uint64
mosql_btree_breaks(const MosqlTree *tree)
{
	return tree->store->breaks != NULL ? tree->store->breaks(tree->store) : 0;
}

/* So many nodes that a tree leads over are on all servers that it is on, mostly. */
#define WITNESSES	64

static void
report_passing(const MosqlTree *tree, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not read a tree in namespace \"%s\"", tree->store->ns),
			 errdetail("%s", why),
			 errhint("The transaction might succeed if retried.")));
}

/* Who is cached, and the root's children, as who walks has no cache; up to WITNESSES with the n that are there. */
static int
add_witnesses(MosqlTree *tree, uint64 *nodes, int n)
{
	const CachedNode *cached = tree->hand;
	MosqlBytes	field = mosql_btree_separators_field();
	MosqlFieldRead root = {.node = tree->root, .nfields = 1, .fields = &field};
	MosqlChild *children;
	int			nchildren;

	for (uint32 i = 0; i < tree->nnodes && n < WITNESSES * 3 / 4; i++, cached = cached->next)
		nodes[n++] = cached->id;
	tree->store->read_fields(tree->store, &root, 1);
	if (root.values[0].data != NULL && mosql_children_decode(root.values[0], &children, &nchildren))
		for (int i = 0; i < nchildren && n < WITNESSES; i++)
			nodes[n++] = children[i].node;
	return n;
}

/* Those of the nodes that can be asked with their copies: they are there, and no keys of another type. */
static int
keep_nodes(MosqlTree *tree, uint64 *nodes, int n)
{
	MosqlFieldRead *reads = mosql_btree_meta_reads(nodes, n);
	int			nkept = 0;

	if (n > 0)
		tree->store->read_fields(tree->store, reads, n);
	for (int i = 0; i < n; i++)
		if (reads[i].values[0].data != NULL)
			nodes[nkept++] = nodes[i];
	return nkept;
}

/* See btree.h.  What does not exist has no copies: so the nodes in question are not asked alone. */
void
mosql_btree_doubt(MosqlTree *tree, uint64 breaks, const uint64 *nodes, int n)
{
	MemoryContext old = MemoryContextSwitchTo(tree->scratch);
	uint64		asked[WITNESSES];
	MosqlBytes	metas[WITNESSES];
	int			nasked = Min(n, WITNESSES / 2);

	if (nasked > 0)
		memcpy(asked, nodes, nasked * sizeof(uint64));
	if (tree->store->durable)
	{
		nasked = keep_nodes(tree, asked, add_witnesses(tree, asked, nasked));
		mosql_btree_look(tree, asked, nasked, metas);
	}
	MemoryContextSwitchTo(old);
	if (mosql_btree_breaks(tree) != breaks)
		report_passing(tree, "A connection to Redis broke meanwhile: another server may have taken over, which has other nodes.");
}

/*
 * A node that the tree leads to is not there, or not the one that it should be: damage, unless the tree is
 * gone, or the reader was away since his call began, for so long that what he has read before leads to what
 * maintenance has taken since.  (A search begins anew then, search.c; a walk that holds a whole level cannot.)
 *
 * Race -- a part of the path was read from a primary that is cut off, and whose successor has gone on; or a failover
 * has taken back what was read.  Who waits for copies can find out (by the connection that breaks, if it is over);
 * the others know of the latter alone, which is part of their incarnation.
 */
void
mosql_btree_astray(MosqlTree *tree, uint64 node, const char *what)
{
	if (is_nobodys(tree))
		mosql_btree_gone(tree);
	if (tree->store->incarnation(tree->store) != tree->incarnation)
		report_passing(tree, "The session's lease ran out meanwhile, and nodes that it was about to read are gone.");
	mosql_btree_doubt(tree, tree->breaks, &node, 1);
	mosql_btree_damage(tree, node, what);
}

void
mosql_btree_missing(MosqlTree *tree, uint64 node)
{
	mosql_btree_astray(tree, node, "the tree leads here, but the node is missing");
}

/*
 * Pause before looking again at a node that somebody else is changing; an
 * error when the budget is spent.
 */
void
mosql_btree_wait(const MosqlTree *tree, MosqlBudget *budget, uint64 node)
{
	StringInfoData name;

	if (mosql_budget_pause(budget))
		return;
	initStringInfo(&name);
	mosql_node_key(&name, tree->store->ns, node);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("tree node \"%s\" stayed busy for %d ms", name.data, BTREE_WAIT_MS),
			 errhint("Another session may have died while it changed the tree; maintenance finishes its work.")));
}

/*
 * May the leaf be read for this key (data NULL: for all)?  Where a server may fail over, or
 * forget, a leaf that is being split serves only what stays in it.  For its cut
 * may be lost after the new leaf was written to, or is known to somebody: then the leaf has
 * an old copy of those rows again, frozen as before; whoever wants them finishes
 * the split once more.
 */
bool
mosql_btree_serves(const MosqlTree *tree, const MosqlNodeMeta *meta, MosqlBytes key)
{
	return (!tree->store->durable && tree->store->unbroken == NULL) ||
		meta->state != MOSQL_NODE_SPLITTING ||
		(key.data != NULL && mosql_bytes_compare(key, meta->split_key) < 0);
}

/* Two upper bounds, where data NULL stands for "none". */
bool
mosql_btree_same_bound(MosqlBytes a, MosqlBytes b)
{
	return (a.data == NULL) == (b.data == NULL) && mosql_bytes_equal(a, b);
}

/*
 * Decode a meta field; returns what is wrong with it, or NULL.  Bytes of
 * *meta point into m.
 */
const char *
mosql_btree_meta_fault(const MosqlTree *tree, uint64 node, MosqlBytes m, MosqlNodeMeta *meta)
{
	if (m.data == NULL)
		return "its meta field is missing";
	if (!mosql_meta_decode(m, meta))
		return "its meta field does not decode";
	if (meta->tree != tree->root)
		return "it belongs to another tree";
	if (meta->level > MOSQL_TREE_MAX_LEVEL)
		return "its level is impossible";
	if (meta->state == MOSQL_NODE_DEAD)	/* a dead root is its own heir */
		return meta->other == node && node != tree->root ? "it is its own heir" : NULL;
	if (meta->high.data != NULL && mosql_bytes_compare(meta->low, meta->high) >= 0)
		return "its fences are out of order";
	if ((meta->high.data == NULL) != (meta->right == 0) || meta->right == node)
		return "its right sibling does not go with its high fence";
	if (meta->state == MOSQL_NODE_SPLITTING &&
		(meta->split_key.data == NULL || meta->level != 0 ||
		 mosql_bytes_compare(meta->split_key, meta->low) <= 0 ||
		 (meta->high.data != NULL && mosql_bytes_compare(meta->split_key, meta->high) >= 0) ||
		 meta->other == 0 || meta->other == node))
		return "its split is impossible";
	if ((meta->state == MOSQL_NODE_PACKED || meta->state == MOSQL_NODE_LOADING) && meta->level != 0)
		return "it is packed, but no leaf";
	if (node == tree->root && (meta->level == 0 || meta->low.len > 0 || meta->high.data != NULL))
		return "it is the root, but not like a root";
	return NULL;
}

/* Decode a meta field that must be sound. */
void
mosql_btree_meta(const MosqlTree *tree, uint64 node, MosqlBytes m, MosqlNodeMeta *meta)
{
	const char *fault = mosql_btree_meta_fault(tree, node, m, meta);

	if (fault != NULL)
		mosql_btree_damage(tree, node, fault);
}

/*
 * Decode the separators of an inner node whose meta is known; returns what is
 * wrong, or NULL.  The array is palloc'ed, its bytes point into s.
 */
const char *
mosql_btree_children_fault(const MosqlNodeMeta *meta, MosqlBytes s, MosqlChild **children, int *n)
{
	if (s.data == NULL)
		return "its separators are missing";
	if (!mosql_children_decode(s, children, n))
		return "its separators do not decode";
	if (*n == 0)
		return "it has no children";
	if (!mosql_bytes_equal((*children)[0].separator, meta->low))
		return "its first separator is not its low fence";
	if (meta->high.data != NULL &&
		mosql_bytes_compare((*children)[*n - 1].separator, meta->high) >= 0)
		return "its last separator is beyond its high fence";
	for (int i = 0; i < *n; i++)
		if ((*children)[i].node == 0)
			return "it has a child without an id";
	return NULL;
}

/* Field name prefix + key of an image, absent if it has none. */
MosqlBytes
mosql_btree_image_key_field(const MosqlNodeImage *image, char prefix, MosqlBytes key)
{
	for (int i = 0; i < image->nfields; i++)
	{
		MosqlBytes	field = image->fields[i].field;

		if (field.len == key.len + 1 && field.data[0] == prefix && memcmp(field.data + 1, key.data, key.len) == 0)
			return image->fields[i].value;
	}
	return MOSQL_ABSENT;
}

/* A one-letter field. */
MosqlBytes
mosql_btree_image_field(const MosqlNodeImage *image, char field)
{
	return mosql_btree_image_key_field(image, field, mosql_bytes("", 0));
}

/*
 * A repeatable step on a node with one compare and room for writes; it reads
 * the meta.  Lives in the scratch context.
 */
MosqlStep *
mosql_btree_step_new(MosqlTree *tree, uint64 node, int max_writes)
{
	MemoryContext old = MemoryContextSwitchTo(tree->scratch);
	MosqlStep  *step = palloc0(sizeof(MosqlStep));

	step->node = node;
	step->repeatable = true;
	step->compares = palloc0(sizeof(MosqlCompare) + MOSQL_GENERATION_BYTES);
	step->nreads = 1;
	step->reads = palloc(sizeof(MosqlBytes));
	step->reads[0] = mosql_btree_meta_field();
	step->writes = palloc(max_writes * sizeof(MosqlWrite));
	MemoryContextSwitchTo(old);
	return step;
}

/* The node must not exist yet. */
void
mosql_btree_step_expect_absent(MosqlStep *step)
{
	Assert(step->ncompares == 0);
	step->compares[step->ncompares++] = (MosqlCompare)
	{
		.kind = MOSQL_COMPARE_ABSENT, .field = mosql_btree_meta_field()
	};
}

/* The node must be at this generation: its meta is as it was when read. */
void
mosql_btree_step_expect_generation(MosqlStep *step, uint64 generation)
{
	char	   *bytes = (char *) (step->compares + 1);	/* room left by step_new */

	Assert(step->ncompares == 0);
	for (int i = 0; i < MOSQL_GENERATION_BYTES; i++)
		bytes[i] = (char) (generation >> (8 * (MOSQL_GENERATION_BYTES - 1 - i)));
	step->compares[step->ncompares++] = (MosqlCompare)
	{
		.kind = MOSQL_COMPARE_EQUAL, .field = mosql_btree_meta_field(),
		.bytes = mosql_bytes(bytes, MOSQL_GENERATION_BYTES)
	};
}

void
mosql_btree_step_set(MosqlStep *step, MosqlBytes field, MosqlBytes value)
{
	step->writes[step->nwrites++] = (MosqlWrite) {MOSQL_WRITE_SET, field, value};
}

/* What is greater there stays: rows begin with their timestamps. */
void
mosql_btree_step_raise(MosqlStep *step, MosqlBytes field, MosqlBytes value)
{
	step->writes[step->nwrites++] = (MosqlWrite) {MOSQL_WRITE_MAX, field, value};
}

void
mosql_btree_step_delete(MosqlStep *step, MosqlBytes field)
{
	step->writes[step->nwrites++] = (MosqlWrite) {MOSQL_WRITE_DELETE, field, MOSQL_ABSENT};
}

/*
 * The generation after this one (0: of a new node): higher, and unlike any other
 * that follows it.  For after a failover that lost a change, another change of
 * the same node may be made: a step that knows the lost one must not take the
 * other for it.  The lower half is random: 1 in 2^32 for each such pair.
 */
uint64
mosql_btree_next_generation(uint64 generation)
{
	return ((generation >> 32) + 1) << 32 | pg_prng_uint32(&pg_global_prng_state);
}

bool
mosql_btree_is_first_generation(uint64 generation)
{
	return generation >> 32 == 1;
}

/* An encoded meta, in the scratch context. */
MosqlBytes
mosql_btree_meta_bytes(MosqlTree *tree, const MosqlNodeMeta *meta)
{
	MemoryContext old = MemoryContextSwitchTo(tree->scratch);
	StringInfoData buf;
	MosqlNodeMeta check;

	initStringInfo(&buf);
	mosql_meta_encode(&buf, meta);
	Assert(mosql_btree_meta_fault(tree, PG_UINT64_MAX, mosql_bytes_of(&buf), &check) == NULL);
	(void) check;
	MemoryContextSwitchTo(old);
	return mosql_bytes_of(&buf);
}

/* Encoded separators, in the scratch context. */
MosqlBytes
mosql_btree_children_bytes(MosqlTree *tree, const MosqlChild *children, int n)
{
	MemoryContext old = MemoryContextSwitchTo(tree->scratch);
	StringInfoData buf;

	initStringInfo(&buf);
	mosql_children_encode(&buf, children, n);
	MemoryContextSwitchTo(old);
	return mosql_bytes_of(&buf);
}

void
mosql_btree_steps_add(MosqlTree *tree, StepList *list, MosqlStep *step)
{
	if (list->n == list->max)
	{
		int			max = Max(16, 2 * list->max);
		MosqlStep **new = MemoryContextAllocHuge(tree->scratch, max * sizeof(MosqlStep *));

		if (list->n > 0)
			memcpy(new, list->steps, list->n * sizeof(MosqlStep *));
		list->steps = new;
		list->max = max;
	}
	list->steps[list->n++] = step;
}

/*
 * Run steps, those that are repeatable until each is DONE or FAILED: one round trip if no
 * reply gets lost.  FAILED may then mean that an earlier sending of the same
 * step took effect; whoever calls this looks at the node to find out.  Results
 * are in the scratch context.
 */
void
mosql_btree_steps_run(MosqlTree *tree, MosqlStep **steps, int n)
{
	MosqlBudget budget = mosql_budget_start(BTREE_WAIT_MS);
	MemoryContext old = MemoryContextSwitchTo(tree->scratch);
	MosqlStep **left;

	if (n == 0)
	{
		MemoryContextSwitchTo(old);
		return;
	}
	tree->store->run_steps(tree->store, steps, n);
	left = palloc(n * sizeof(MosqlStep *));
	memcpy(left, steps, n * sizeof(MosqlStep *));
	for (;;)
	{
		int			nlost = 0;

		for (int i = 0; i < n; i++)
			if (left[i]->status == MOSQL_STEP_LOST && left[i]->repeatable)
				left[nlost++] = left[i];
		if (nlost == 0)
			break;
		mosql_btree_wait(tree, &budget, left[0]->node);
		n = nlost;
		tree->store->run_steps(tree->store, left, n);
	}
	MemoryContextSwitchTo(old);
}

/*
 * After a step that expected absence and whose first write was the meta: is
 * the node there as this step writes it, by this or by an earlier sending?
 */
bool
mosql_btree_step_created(const MosqlStep *step)
{
	if (step->status == MOSQL_STEP_DONE)
		return true;
	return step->values[0].data != NULL &&
		mosql_bytes_equal(step->values[0], step->writes[0].value);
}

/*
 * See btree_int.h.  fill: runs as full as can be (the last one takes the
 * rest), for ascending loads; otherwise runs of equal length that leave room
 * in each.
 */
int
mosql_btree_partition(const uint32 *sizes, int n, int max_items, size_t max_bytes,
					  bool fill, int *starts)
{
	int			nruns = 0;
	int			items = 0;
	size_t		bytes = 0;

	if (!fill)
	{
		size_t		total = 0;
		size_t		room_items = Max(max_items * 3 / 4, 1);
		size_t		room_bytes = Max(max_bytes * 3 / 4, 1);
		size_t		wanted;

		for (int i = 0; i < n; i++)
			total += Min(sizes[i], max_bytes);
		wanted = Max((n + room_items - 1) / room_items, (total + room_bytes - 1) / room_bytes);
		wanted = Min(Max(wanted, 2), (size_t) Max(n, 1));
		max_items = (n + wanted - 1) / wanted;
	}
	for (int i = 0; i < n; i++)
	{
		if (items == 0 || items >= max_items || bytes + sizes[i] > max_bytes)
		{
			starts[nruns++] = i;
			items = 0;
			bytes = 0;
		}
		items++;
		bytes += sizes[i];
	}
	return nruns;
}

/* See MosqlNodeStore: where no server forgets, or nobody tells, it is simply done. */
bool
mosql_btree_unbroken(MosqlTree *tree, void (*work) (void *arg), void *arg)
{
	if (tree->store->unbroken != NULL)
		return tree->store->unbroken(tree->store, work, arg);
	work(arg);
	return true;
}
