/*
 * split.c: cutting leaves in pieces, safe at each step, and finishing what
 * others began.
 *
 * Layer: btree.  One leaf L = [low, high), to be cut at b1 < b2 < .. < bk:
 *
 *   1. freeze  L: "SPLITTING at b1 into R1", generation up.  From here on no
 *              step touches keys >= b1 of L; those < b1 stay in use.
 *   2. read    L whole: what is >= b1 in it can no longer change.
 *   3. create  Rk .. R2, which nobody can know yet, each with its share.
 *   4. create  R1 = [b1, b2), right sibling R2, only if it does not exist.
 *   5. cut     L: keys >= b1 go, high fence b1, right sibling R1, NORMAL,
 *              generation up.  This makes R1 .. Rk part of the tree.
 *   6. link    R1 .. Rk in the parent (inner.c).
 *
 * If steps 1 and 2 were swapped, a row could be written to L after it was
 * copied; if 3 and 4, a crash between them would leave R1 with a right sibling
 * that does not exist; if 4 and 5, rows would be gone until somebody repaired
 * it, with nothing left to repair from; if 5 and 6, writers would find R1
 * before L is cut, and L and R1 would both take the same keys.
 *
 * A helper does 2, 4, 5, 6 with k = 1: its R1 is [b1, high).  README.md tells
 * why any number of splitters and helpers may be at it.
 */
#include "btree/btree_int.h"
#include "code/claim.h"

/* The fields that an entry may have, in the order of the arrays below. */
static const char kinds[3] = {MOSQL_FIELD_ROW, MOSQL_FIELD_INTENT, MOSQL_FIELD_KEY_MARKS};

/* The name of a field of an entry, in the scratch context. */
MosqlBytes
mosql_btree_field_name(MosqlTree *tree, char kind, MosqlBytes key)
{
	char	   *name = MemoryContextAlloc(tree->scratch, key.len + 1);

	name[0] = kind;
	if (key.len > 0)
		memcpy(name + 1, key.data, key.len);
	return mosql_bytes(name, key.len + 1);
}

/* A leaf as somebody is going to create it. */
static MosqlStep *
create_step(const Split *split, int piece)
{
	static const char purged = MOSQL_FIELD_PURGED;
	static const char range_marks = MOSQL_FIELD_RANGE_MARKS;
	MosqlTree  *tree = split->tree;
	const MosqlLeaf *leaf = split->leaf;
	bool		last = piece + 1 == split->n;
	int			first = mosql_btree_leaf_position(leaf, split->bounds[piece]);
	int			end = last ? leaf->n : mosql_btree_leaf_position(leaf, split->bounds[piece + 1]);
	MosqlStep  *step = mosql_btree_step_new(tree, split->nodes[piece], 3 + 3 * (end - first));
	MosqlNodeMeta meta = leaf->meta;

	/* nothing of the leaf is lost between two pieces */
	Assert(first <= end && (!last || end == leaf->n));
	meta.generation = mosql_btree_next_generation(0);
	meta.state = MOSQL_NODE_NORMAL;
	meta.other = 0;
	meta.split_key = MOSQL_ABSENT;
	meta.low = split->bounds[piece];
	meta.high = last ? leaf->meta.high : split->bounds[piece + 1];
	meta.right = last ? leaf->meta.right : split->nodes[piece + 1];
	mosql_btree_step_expect_absent(step);
	mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(tree, &meta));
	if (leaf->purged != 0)
	{
		StringInfoData ts;

		initStringInfo(&ts);
		mosql_ts_put(&ts, leaf->purged);
		mosql_btree_step_set(step, mosql_bytes(&purged, 1), mosql_bytes_of(&ts));
	}
	if (leaf->range_marks.data != NULL)
		mosql_btree_step_set(step, mosql_bytes(&range_marks, 1), leaf->range_marks);
	for (int i = first; i < end; i++)
	{
		const MosqlEntry *entry = &leaf->entries[i];
		const MosqlBytes values[] = {entry->row, entry->intent, entry->marks};

		for (int k = 0; k < 3; k++)
			if (values[k].data != NULL)
				mosql_btree_step_set(step, mosql_btree_field_name(tree, kinds[k], entry->key), values[k]);
	}
	return step;
}

/* An intents field goes: those who wait in it listen at this node, and are told. */
static void
take_intents(MosqlTree *tree, MosqlStep *step, const MosqlEntry *entry)
{
	MosqlBytes	field = mosql_btree_field_name(tree, MOSQL_FIELD_INTENT, entry->key);
	MosqlBytes	rest = entry->intent;
	StringInfoData ids = {0};
	MosqlClaim	claim;

	while (mosql_claim_next(&rest, &claim))
		if (claim.kind == MOSQL_CLAIM_WAIT)
		{
			if (ids.data == NULL)
				initStringInfo(&ids);
			mosql_txid_put(&ids, claim.owner);
		}
	if (ids.data == NULL)
		mosql_btree_step_delete(step, field);
	else
		step->writes[step->nwrites++] = (MosqlWrite) {MOSQL_WRITE_MOVED, field, mosql_bytes_of(&ids)};
}

/* Cut the frozen leaf. */
static MosqlStep *
cut_step(const Split *split)
{
	MosqlTree  *tree = split->tree;
	const MosqlLeaf *leaf = split->leaf;
	int			first = mosql_btree_leaf_position(leaf, split->bounds[0]);
	MosqlStep  *step = mosql_btree_step_new(tree, leaf->node, 1 + 3 * (leaf->n - first));
	MosqlNodeMeta meta = leaf->meta;

	meta.generation = mosql_btree_next_generation(meta.generation);
	meta.state = MOSQL_NODE_NORMAL;
	meta.other = 0;
	meta.split_key = MOSQL_ABSENT;
	meta.high = split->bounds[0];
	meta.right = split->nodes[0];
	mosql_btree_step_expect_generation(step, leaf->meta.generation);
	mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(tree, &meta));
	for (int i = first; i < leaf->n; i++)
	{
		const MosqlEntry *entry = &leaf->entries[i];

		if (entry->row.data != NULL)
			mosql_btree_step_delete(step, mosql_btree_field_name(tree, MOSQL_FIELD_ROW, entry->key));
		if (entry->intent.data != NULL)
			take_intents(tree, step, entry);
		if (entry->marks.data != NULL)
			mosql_btree_step_delete(step, mosql_btree_field_name(tree, MOSQL_FIELD_KEY_MARKS, entry->key));
	}
	return step;
}

/*
 * What a step that set the meta left, for the cache: of a cut and the creates before it.  Not before
 * the cut: what is created by somebody who comes too late is no part of the tree.
 */
void
mosql_btree_remember(MosqlTree *tree, const MosqlStep *step)
{
	MosqlBytes	written = mosql_step_sets(step, mosql_btree_meta_field());
	MosqlNodeMeta meta;

	if (written.data == NULL)
		return;
	mosql_btree_meta(tree, step->node, written, &meta);
	mosql_btree_hint_put(tree, step->node, &meta, step->nfields);
}

/* Is this meta field that of a leaf frozen into a given node? */
static bool
is_frozen_into(const MosqlTree *tree, uint64 leaf, MosqlBytes m, uint64 other)
{
	MosqlNodeMeta meta;

	if (m.data == NULL)
		return false;
	mosql_btree_meta(tree, leaf, m, &meta);
	return meta.state == MOSQL_NODE_SPLITTING && meta.other == other;
}

/*
 * Step 1.  Each is sent once.
 *
 * Race -- a failover takes a freeze back, and others write to the leaf.  Sent again it would freeze that
 * leaf under the same generation, and who has read the first one would confirm what he has.  A freeze
 * that was not heard of is nobody's: if it is there, whoever meets it finishes it.
 */
static void
freeze(Split *splits, int n)
{
	StepList	list = {0};
	Split	  **of = palloc(n * sizeof(Split *));

	for (int i = 0; i < n; i++)
	{
		MosqlNodeMeta meta = splits[i].leaf->meta;
		MosqlStep  *step;

		if (splits[i].frozen)
			continue;
		Assert(meta.state == MOSQL_NODE_NORMAL);
		meta.generation = mosql_btree_next_generation(meta.generation);
		meta.state = MOSQL_NODE_SPLITTING;
		meta.split_key = splits[i].bounds[0];
		meta.other = splits[i].nodes[0];
		step = mosql_btree_step_new(splits[i].tree, splits[i].leaf->node, 1);
		mosql_btree_step_expect_generation(step, splits[i].leaf->meta.generation);
		mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(splits[i].tree, &meta));
		step->repeatable = false;
		of[list.n] = &splits[i];
		mosql_btree_steps_add(splits[i].tree, &list, step);
	}
	mosql_btree_steps_run(splits[0].tree, list.steps, list.n);
	for (int i = 0; i < list.n; i++)
		if (list.steps[i]->status != MOSQL_STEP_DONE)
		{
			of[i]->given_up = true;
			mosql_btree_cache_drop(of[i]->tree, list.steps[i]->node);
		}
	if (list.n > 0)
		MOSQL_DEBUG_POINT("split-frozen");
}

/* Step 2.  A leaf that a helper has cut meanwhile is done. */
static void
read_frozen(Split *splits, int n)
{
	uint64	   *ids = palloc(n * sizeof(uint64));
	Split	  **of = palloc(n * sizeof(Split *));
	MosqlNodeImage *images;
	int			nread = 0;

	for (int i = 0; i < n; i++)
		if (!splits[i].frozen && !splits[i].given_up)
		{
			of[nread] = &splits[i];
			ids[nread++] = splits[i].leaf->node;
		}
	if (nread == 0)
		return;
	images = palloc(nread * sizeof(MosqlNodeImage));
	mosql_btree_read_images(splits[0].tree, ids, nread, images);
	for (int i = 0; i < nread; i++)
	{
		Split	   *split = of[i];
		MosqlTree  *tree = split->tree;
		MosqlLeaf  *leaf = palloc0(sizeof(MosqlLeaf));

		if (images[i].found)
		{
			split->leaf = mosql_btree_leaf_decode(tree, &images[i], leaf);
			mosql_btree_hint_put(tree, leaf->node, &leaf->meta, leaf->nfields);
		}
		else
			mosql_btree_cache_drop(tree, ids[i]);
		split->frozen = leaf->meta.state == MOSQL_NODE_SPLITTING && leaf->meta.other == split->nodes[0];
		split->given_up = !split->frozen;
	}
}

/*
 * What a helper found frozen must stay frozen before anything is made of it:
 * whoever froze it has perhaps not waited for copies yet.  Durable stores only.
 */
static void
confirm_frozen(Split *splits, int n)
{
	StepList	list = {0};
	Split	  **of = palloc(n * sizeof(Split *));

	for (int i = 0; i < n; i++)
	{
		MosqlStep  *step;

		if (!splits[i].frozen || splits[i].given_up)
			continue;
		step = mosql_btree_step_new(splits[i].tree, splits[i].leaf->node, 1);
		mosql_btree_step_expect_generation(step, splits[i].leaf->meta.generation);
		of[list.n] = &splits[i];
		mosql_btree_steps_add(splits[i].tree, &list, step);
	}
	mosql_btree_steps_run(splits[0].tree, list.steps, list.n);
	for (int i = 0; i < list.n; i++)
		if (list.steps[i]->status != MOSQL_STEP_DONE)
		{
			of[i]->given_up = true;
			mosql_btree_cache_drop(of[i]->tree, list.steps[i]->node);
		}
}

/* Step 3. */
static void
create_rest(Split *splits, int n, StepList *creates)
{
	for (int i = 0; i < n; i++)
	{
		splits[i].first_rest = creates->n;
		for (int piece = splits[i].n - 1; piece > 0 && !splits[i].given_up; piece--)
			mosql_btree_steps_add(splits[i].tree, creates, create_step(&splits[i], piece));
		splits[i].nrest = creates->n - splits[i].first_rest;
	}
	mosql_btree_steps_run(splits[0].tree, creates->steps, creates->n);
	for (int i = 0; i < n; i++)
		for (int c = splits[i].first_rest; c < splits[i].first_rest + splits[i].nrest; c++)
			if (!mosql_btree_step_created(creates->steps[c]))
				mosql_btree_damage(splits[i].tree, creates->steps[c]->node,
								   "a node that was to be created exists");
	if (creates->n > 0)
		MOSQL_DEBUG_POINT("split-pieces");
}

/* Are R2 .. Rk as they were created, all of them? */
static bool
is_rest_untouched(const Split *split)
{
	MosqlTree  *tree = split->tree;
	MosqlBytes *metas = palloc(split->n * sizeof(MosqlBytes));

	mosql_btree_look(tree, split->nodes + 1, split->n - 1, metas + 1);
	for (int i = 1; i < split->n; i++)
	{
		MosqlNodeMeta meta;

		if (metas[i].data == NULL)
			return false;
		mosql_btree_meta(tree, split->nodes[i], metas[i], &meta);
		if (!mosql_btree_is_first_generation(meta.generation))
			return false;
	}
	return true;
}

/*
 * R1 exists, and not as we were to create it.  Either a helper created it as
 * [b1, high): then nobody knows R2 .. Rk and they are deleted.  Or ours came
 * to be in spite of a lost reply, a helper cut L, and R1 was changed since:
 * then R2 .. Rk are, or were, in use.  Sets split->n to 1 unless they are.
 *
 * As long as L is frozen nobody uses R1, so that it is as it was created.  After
 * that, R2 is met on the way to the right from R1 if and only if R1 was ours,
 * unless R2 was merged away.  But then it is not as it was created; so that is
 * looked at last.  In doubt the nodes stay: if nobody can reach them the sweep will
 * find them.
 */
static void
settle_rest(Split *split)
{
	MosqlTree  *tree = split->tree;
	uint64		node = split->leaf->node;
	MosqlBytes	m;
	bool		ours = false;

	mosql_btree_look(tree, &node, 1, &m);
	if (!is_frozen_into(tree, node, m, split->nodes[0]))
	{
		node = split->nodes[0];
		for (int hops = 0; !ours; hops++)
		{
			MosqlNodeMeta meta;

			CHECK_FOR_INTERRUPTS();
			mosql_btree_look(tree, &node, 1, &m);
			if (m.data == NULL || hops > MOSQL_TREE_MAX_HOPS)
			{
				/* merged away already: leave the nodes to a sweep */
				split->n = 1;
				return;
			}
			mosql_btree_meta(tree, node, m, &meta);
			if (meta.state == MOSQL_NODE_DEAD)
			{
				split->n = 1;
				return;
			}
			if (meta.right == 0 || mosql_bytes_compare(meta.high, split->bounds[1]) > 0)
				break;
			node = meta.right;
			ours = node == split->nodes[1];
		}
	}
	if (ours)
		return;
	for (int i = 1; i < split->n; i++)
		mosql_btree_cache_drop(tree, split->nodes[i]);
	if (is_rest_untouched(split))
		tree->store->delete_nodes(tree->store, split->nodes + 1, split->n - 1);
	split->n = 1;
}

/* Step 4. */
static void
create_first(Split *splits, int n)
{
	StepList	list = {0};
	Split	  **of = palloc(n * sizeof(Split *));

	for (int i = 0; i < n; i++)
		if (!splits[i].given_up)
		{
			of[list.n] = &splits[i];
			mosql_btree_steps_add(splits[i].tree, &list, create_step(&splits[i], 0));
		}
	mosql_btree_steps_run(splits[0].tree, list.steps, list.n);
	for (int i = 0; i < list.n; i++)
	{
		if (mosql_btree_step_created(list.steps[i]))
			of[i]->created = list.steps[i];
		else
		{
			mosql_btree_cache_drop(of[i]->tree, list.steps[i]->node);
			if (of[i]->n > 1)
				settle_rest(of[i]);
		}
	}
	if (list.n > 0)
		MOSQL_DEBUG_POINT("split-created");
}

/* Step 5. */
static void
cut(Split *splits, int n)
{
	StepList	list = {0};
	Split	  **of = palloc(n * sizeof(Split *));

	for (int i = 0; i < n; i++)
		if (!splits[i].given_up)
		{
			of[list.n] = &splits[i];
			mosql_btree_steps_add(splits[i].tree, &list, cut_step(&splits[i]));
		}
	mosql_btree_steps_run(splits[0].tree, list.steps, list.n);
	for (int i = 0; i < list.n; i++)
	{
		const MosqlStep *step = list.steps[i];
		MosqlTree  *tree = of[i]->tree;

		if (step->status == MOSQL_STEP_DONE)
		{
			mosql_btree_remember(tree, step);
			if (of[i]->created != NULL)
				mosql_btree_remember(tree, of[i]->created);
			of[i]->cut = of[i]->done = true;
			mosql_stats.splits += of[i]->n;
		}
		else
		{
			/*
			 * Somebody else cut it, or we did before, unheard: links are only made
			 * to nodes that are found to be part of the tree.
			 */
			mosql_btree_cache_drop(tree, step->node);
			of[i]->cut = step->values[0].data != NULL &&
				!is_frozen_into(tree, step->node, step->values[0], of[i]->nodes[0]);
		}
	}
	if (list.n > 0)
		MOSQL_DEBUG_POINT("split-cut");
}

/* Of R2 .. Rk, where our cut brought them in. */
static void
remember_rest(const Split *splits, int n, const StepList *creates)
{
	for (int i = 0; i < n; i++)
		for (int c = 0; splits[i].done && splits[i].n > 1 && c < splits[i].nrest; c++)
			mosql_btree_remember(splits[i].tree, creates->steps[splits[i].first_rest + c]);
}

/*
 * Has this process slept so long that the others may have finished, used, emptied,
 * merged and deleted what it was going to create?  Then it must not go on: the
 * comparison that a node does not exist would not stop it.
 */
static void
give_up_lapsed(Split *splits, int n)
{
	MosqlNodeStore *store = splits[0].tree->store;
	uint64		incarnation = store->incarnation(store);

	for (int i = 0; i < n; i++)
		splits[i].given_up |= splits[i].incarnation != incarnation;
}

#ifdef USE_ASSERT_CHECKING
/* Pieces that are apart, each with some room of its own, all within the leaf. */
static bool
is_plan_sound(const Split *split)
{
	const MosqlNodeMeta *meta = &split->leaf->meta;

	if (split->n < 1 || mosql_bytes_compare(meta->low, split->bounds[0]) >= 0)
		return false;
	for (int i = 0; i < split->n; i++)
		if (split->nodes[i] == 0 || split->nodes[i] == split->leaf->node ||
			(i > 0 && mosql_bytes_compare(split->bounds[i - 1], split->bounds[i]) >= 0))
			return false;
	return meta->high.data == NULL ||
		mosql_bytes_compare(split->bounds[split->n - 1], meta->high) < 0;
}
#endif

typedef struct Splits
{
	Split	   *splits;
	int			n;
} Splits;

/*
 * Steps 1 to 5.  If a server forgot the create, the cut would lose what is in the new leaf:
 * the frozen leaf may be just as frozen in an old dump.
 */
static void
bring_in(void *arg)
{
	Split	   *splits = ((Splits *) arg)->splits;
	int			n = ((Splits *) arg)->n;
	StepList	rest = {0};

	if (splits[0].tree->store->durable)
		confirm_frozen(splits, n);
	freeze(splits, n);
	read_frozen(splits, n);
	give_up_lapsed(splits, n);
	create_rest(splits, n, &rest);
	give_up_lapsed(splits, n);
	create_first(splits, n);
	cut(splits, n);
	remember_rest(splits, n, &rest);
}

/* A connection broke: what was not heard to be done is tried anew, if it is still wanted. */
static void
give_up(Split *splits, int n)
{
	for (int i = 0; i < n; i++)
	{
		splits[i].given_up |= !splits[i].done;
		splits[i].cut = splits[i].done;
		mosql_btree_cache_drop(splits[i].tree, splits[i].leaf->node);
	}
}

/* Step 6. */
static void
link_pieces(const Split *splits, int n)
{
	MosqlNewChildren *links = palloc_extended(n * sizeof(MosqlNewChildren), MCXT_ALLOC_HUGE);
	int			ntrees = 0;

	for (int i = 0; i < n;)
	{
		MosqlNewChildren *of = &links[ntrees];
		int			end = i;
		int			max = 0;

		for (; end < n && splits[end].tree == splits[i].tree; end++)
			max += splits[end].n;
		*of = (MosqlNewChildren) {.tree = splits[i].tree};
		of->children = palloc_extended(max * sizeof(MosqlChild), MCXT_ALLOC_HUGE);
		for (; i < end; i++)
			for (int piece = 0; splits[i].cut && piece < splits[i].n; piece++)
				of->children[of->n++] = (MosqlChild)
			{
				splits[i].bounds[piece], splits[i].nodes[piece]
			};
		ntrees += of->n > 0;
	}
	if (ntrees > 0)
		(void) mosql_btree_inner_insert_all(links, ntrees, 1);
}

/*
 * Split leaves in the scratch contexts of their trees, all in parallel; those of a tree follow each
 * other.  Each is as read (NORMAL) or, if frozen, as read after its freeze.  Somebody else may change
 * a leaf first: then nothing happens to it and given_up is set.  Seven or eight
 * round trips, however many leaves, pieces and trees.
 *
 * Trees share no node, and no step here compares or writes a second one; what one leaf's step rests on is
 * an earlier step of the same leaf, or of what it was cut into.  So two trees' leaves are to each other what two
 * leaves of a tree far apart are: the steps of both may come in any order, fail or stay away by themselves.
 */
void
mosql_btree_split_run(Split *splits, int n)
{
	MemoryContext old;
	Splits		all = {splits, n};

	if (n == 0)
		return;
	old = MemoryContextSwitchTo(splits[0].tree->scratch);
#ifdef USE_ASSERT_CHECKING
	for (int i = 0; i < n; i++)
		Assert(splits[i].frozen || is_plan_sound(&splits[i]));
#endif
	if (!mosql_btree_unbroken(splits[0].tree, bring_in, &all))
		give_up(splits, n);
	link_pieces(splits, n);
	MemoryContextSwitchTo(old);
}

/* mosql_btree_thaw() of a batch. */
static void
thaw_batch(MosqlTree *tree, const uint64 *leaves, int n)
{
	MosqlNodeImage *images = palloc(n * sizeof(MosqlNodeImage));
	MosqlLeaf **packed = palloc(n * sizeof(MosqlLeaf *));
	Split	   *splits = palloc0(n * sizeof(Split));
	uint64		incarnation = tree->store->incarnation(tree->store);
	int			nsplits = 0;
	int			npacked = 0;

	mosql_btree_read_images(tree, leaves, n, images);
	for (int i = 0; i < n; i++)
	{
		MosqlLeaf  *leaf = palloc0(sizeof(MosqlLeaf));
		Split	   *split = &splits[nsplits];

		if (!images[i].found)
		{
			mosql_btree_cache_drop(tree, leaves[i]);
			continue;
		}
		mosql_btree_leaf_decode(tree, &images[i], leaf);
		mosql_btree_hint_put(tree, leaf->node, &leaf->meta, leaf->nfields);
		if (leaf->meta.state == MOSQL_NODE_PACKED)
			packed[npacked++] = leaf;
		if (leaf->meta.state != MOSQL_NODE_SPLITTING)
			continue;
		split->tree = tree;
		split->leaf = leaf;
		split->n = 1;
		split->bounds = &leaf->meta.split_key;
		split->nodes = &leaf->meta.other;
		split->frozen = true;
		split->incarnation = incarnation;
		nsplits++;
	}
	if (npacked > 0)
		mosql_btree_unpack(tree, packed, npacked);
	mosql_btree_split_run(splits, nsplits);
	for (int i = 0; i < nsplits; i++)
		mosql_stats.helps += splits[i].cut;
}

/*
 * Make leaves fit for writing, as far as they are frozen: finish the splits that they are in,
 * and unpack them.  Others get a fresh hint.  Two round trips where they are packed.
 */
void
mosql_btree_thaw(MosqlTree *tree, const uint64 *leaves, int n)
{
	MemoryContext outer = tree->scratch;

	for (int done = 0; done < n; done += BTREE_LEAF_BATCH)
	{
		MemoryContext cxt = AllocSetContextCreate(outer, "mosql tree batch", ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(cxt);

		tree->scratch = cxt;
		thaw_batch(tree, leaves + done, Min(n - done, BTREE_LEAF_BATCH));
		tree->scratch = outer;
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
	}
}

/* See btree.h. */
void
mosql_btree_finish_split(MosqlTree *tree, uint64 leaf)
{
	mosql_btree_enter(tree);
	mosql_btree_thaw(tree, &leaf, 1);
}
