/*
 * mend.c: damaged and lost nodes are made anew, by what the others say.
 *
 * Layer: btree.  For mosql_fdw_repair().  The caller has found all nodes of the tree by
 * their names.  Level by level, from the root down, the chain of right links is followed
 * and compared with what the level above leads to; where it meets a node that is missing,
 * or whose bytes do not decode, that one is made anew, under its own id, with its own low
 * fence: so nothing that leads to it has to change.
 *
 *   a leaf         keeps the fields of the old one that decode and are within its fences;
 *                  where it was missing it is empty
 *   an inner node  leads to all nodes of the level below whose low fence it covers, linked
 *                  before or not
 *   the root       leads to all nodes of the highest level there is
 *
 * Its high fence and right link come from the next node on its level: the nearest that is
 * there and counts, or that a parent leads to.  A node that decodes is never written,
 * whatever it says: where sound nodes contradict each other, that is reported, and left
 * alone.
 *
 * Nobody can tell a lost signpost that is still linked from a lost leaf: it becomes one, empty.
 * If its heir is lost, too, what is lost with that is named with it; of an heir that has lost its
 * meta alone the rows from there on go, each named as beyond the fences.  (They might be kept, but a leaf
 * that is frozen, whose cut was lost, has such rows as well, and these are old.)
 *
 * Which nodes count.  Not all that are there are part of their level: a split that died
 * leaves new nodes behind that nobody leads to, with rows as they were then (README.md,
 * "Many pieces at once"), and merges leave dying and dead ones.  As long as nothing is
 * lost, what is part of the level covers all of these.  Where that is lost they lie in the
 * gap, and must not be taken for what follows it: rows that were deleted since would be
 * there again.  So a node counts if
 *
 *   - it has been changed since it was created: that is done to part of a level only;
 *   - or an inner node leads to it: only what is part of its level is linked;
 *   - or one that counts ends where it begins, and leads to it.
 *
 * None of these holds for a real leaf that was never split since, whose left neighbour is
 * lost, and that is not linked.  If the inner node above is there, being unlinked tells
 * against it: links are made in the round trip after the cut, or by whoever comes by
 * first, before he writes; so what is unlinked has no row that is newer than the split,
 * and it lasts for moments, but strays for up to an hour.  It is left out, and the report
 * names it: what may be lost by that are rows of the one leaf that was being cut.
 *
 * If the inner node above is lost too, nobody can tell, and one node in nine of a tree that
 * lost a third of itself would be in doubt: it counts, and the report says so, unless it, or
 * one that it leads to, contradicts what there is evidence for: overlaps it, or leads to
 * another one where that begins.  An old stray comes in by that only if both the leaf and
 * the inner node that took its place are lost before the sweep comes by.
 *
 * A dying node counts where the left neighbour leads to it, which has not absorbed it
 * then.  If that is lost it does not: it holds nothing that is needed (a leaf is empty, and
 * of an inner node only the children count), and whoever meets it finds that nobody leads
 * to it, and buries it.
 *
 * Beside the chain two things are mended.  Signposts that parents still lead to: searches
 * meet them first.  And splits under way that lost a new leaf: whoever finished such a one
 * would lead to what is not there, while the old leaf still has all the rows.
 *
 * Race -- others are at work.  Nobody can use a node that does not decode, or do anything
 * to one that is missing; the step compares that it is as it was read.  Sound nodes may
 * split and merge meanwhile: a separator may be missing, or lead to a dead node, and a
 * right link to a node that has been split ends there (README.md, "Structure").  What
 * counts is decided by what was found before: a node that was brought in since may be
 * missing there, but the walk comes to it by its left neighbour, which is sound.
 */
#include "btree/mend_int.h"

/* ---- what is known ---- */

/* See btree.h. */
void
mosql_btree_known_children(MosqlKnownNode *known, MosqlBytes separators)
{
	known->nchildren = -1;
	if (known->meta.level > 0 &&
		mosql_btree_children_fault(&known->meta, separators, &known->children, &known->nchildren) != NULL)
		known->nchildren = -1;
}

static int
compare_place(int level, MosqlBytes low, const MosqlNodeMeta *meta)
{
	if (level != meta->level)
		return level < meta->level ? -1 : 1;
	return mosql_bytes_compare(low, meta->low);
}

static int
compare_known(const void *a, const void *b)
{
	const MosqlKnownNode *x = a;
	const MosqlKnownNode *y = b;
	int			order = compare_place(x->meta.level, x->meta.low, &y->meta);

	return order != 0 ? order : (x->node > y->node) - (x->node < y->node);
}

/* The first known node of a level from a low fence on, by index. */
static int
known_from(const Mend *mend, int level, MosqlBytes low)
{
	int			from = 0;
	int			to = mend->nknown;

	while (from < to)
	{
		int			middle = from + (to - from) / 2;

		if (compare_place(level, low, &mend->known[middle].meta) > 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* Does the i-th known node begin there? */
static bool
is_known_at(const Mend *mend, int i, int level, MosqlBytes low)
{
	return i < mend->nknown && compare_place(level, low, &mend->known[i].meta) == 0;
}

/* The first of a chain with a low fence at or above this one, or above it, by index. */
static int
chain_from(const Chain *chain, MosqlBytes low, bool above)
{
	int			from = 0;
	int			to = chain->n;

	while (from < to)
	{
		int			middle = from + (to - from) / 2;
		int			order = mosql_bytes_compare(chain->nodes[middle]->meta.low, low);

		if (order < 0 || (order == 0 && above))
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* The known node that a child should be; NULL: it is lost, or says something else. */
static const MosqlKnownNode *
find_known(const Mend *mend, int level, const MosqlChild *child)
{
	for (int i = known_from(mend, level, child->separator);
		 is_known_at(mend, i, level, child->separator); i++)
		if (mend->known[i].node == child->node)
			return &mend->known[i];
	return NULL;
}

/* Is a node known, and no part of its level? */
static bool
is_left_out(const Mend *mend, int level, const MosqlChild *child)
{
	const Chain *chain = &mend->chains[level];
	int			at = chain_from(chain, child->separator, false);

	return (at == chain->n || chain->nodes[at]->node != child->node) &&
		find_known(mend, level, child) != NULL;
}

/* ---- which nodes count ---- */

static bool
is_alive(const MosqlKnownNode *known)
{
	return mosql_node_is_alive(known->meta.state);
}

/* Does it end beyond this low fence? */
static bool
ends_beyond(const MosqlKnownNode *known, MosqlBytes low)
{
	return known->meta.high.data == NULL || mosql_bytes_compare(known->meta.high, low) > 0;
}

/*
 * How the inner node above leads to what begins there, or to what lies left of it; NULL: that
 * inner node is lost.
 */
static const MosqlChild *
find_link(const Mend *mend, int level, MosqlBytes low)
{
	const Chain *above = &mend->chains[level + 1];
	int			at = chain_from(above, low, true) - 1;
	const MosqlKnownNode *parent = at < 0 ? NULL : above->nodes[at];

	if (parent == NULL || parent->nchildren < 0 || !ends_beyond(parent, low))
		return NULL;
	return &parent->children[mosql_btree_child_index(parent->children, parent->nchildren, low, false)];
}

/* Does the inner node above lead to another one there, that is not merged away? */
static bool
leads_elsewhere(const Mend *mend, int level, MosqlBytes low, uint64 node)
{
	const MosqlChild *link = find_link(mend, level, low);
	const MosqlKnownNode *there;

	if (link == NULL || link->node == node || !mosql_bytes_equal(link->separator, low))
		return false;
	there = find_known(mend, level, link);
	return there == NULL || is_alive(there);
}

/* What speaks for a node, whatever lies left of it. */
typedef enum Evidence
{
	EVIDENCE_AGAINST,			/* the inner node above is there, and does not lead to it */
	EVIDENCE_NONE,
	EVIDENCE_FOR
} Evidence;

static Evidence
evidence_for(const Mend *mend, const MosqlKnownNode *known)
{
	const MosqlChild *link;

	if (known->node == mend->tree->root)
		return EVIDENCE_FOR;
	if (!is_alive(known))
		return EVIDENCE_AGAINST;
	if (!mosql_btree_is_first_generation(known->meta.generation))
		return EVIDENCE_FOR;
	link = find_link(mend, known->meta.level, known->meta.low);
	if (link == NULL)
		return EVIDENCE_NONE;
	return link->node == known->node && mosql_bytes_equal(link->separator, known->meta.low)
		? EVIDENCE_FOR : EVIDENCE_AGAINST;
}

/*
 * Is there something against a node that nothing speaks for: it overlaps one that something
 * speaks for (next is the nearest), or leads to another than that, or that than which the
 * inner node above leads to; or against one that would come in with it, because its right
 * link leads there?  n: known from here on; against: of these.
 */
static bool
is_doubtful(const Mend *mend, const MosqlKnownNode *known, const Evidence *evidence,
			const bool *against, int n, const MosqlKnownNode *next)
{
	const MosqlNodeMeta *meta = &known->meta;

	if (*evidence == EVIDENCE_FOR || meta->state == MOSQL_NODE_DYING)
		return false;
	if (*evidence == EVIDENCE_AGAINST || (next != NULL && ends_beyond(known, next->meta.low)))
		return true;
	if (meta->high.data == NULL)
		return false;
	if ((next != NULL && mosql_bytes_equal(meta->high, next->meta.low) && meta->right != next->node) ||
		leads_elsewhere(mend, meta->level, meta->high, meta->right))
		return true;
	for (int i = 1; i < n && mosql_bytes_compare(known[i].meta.low, meta->high) <= 0; i++)
		if (known[i].node == meta->right && evidence[i] != EVIDENCE_FOR)
			return against[i];
	return false;
}

/* Append a node to the chain if it counts. */
static void
judge_known(Chain *chain, const MosqlKnownNode *known, Evidence evidence, bool against)
{
	const MosqlKnownNode *last = chain->n > 0 ? chain->nodes[chain->n - 1] : NULL;
	bool		sure = evidence == EVIDENCE_FOR;
	bool		reached = false;

	if (last != NULL && ends_beyond(last, known->meta.low))
		return;					/* covered */
	if (last != NULL && mosql_bytes_equal(last->meta.high, known->meta.low))
	{
		reached = last->meta.right == known->node && known->meta.state != MOSQL_NODE_DEAD;
		if (!reached && (chain->sure[chain->n - 1] || evidence != EVIDENCE_FOR))
			return;				/* another one begins here */
		sure |= reached && chain->sure[chain->n - 1];
	}
	if (!sure && evidence != EVIDENCE_FOR && (against || (!reached && !is_alive(known))))
		return;
	chain->nodes[chain->n] = known;
	chain->sure[chain->n++] = sure;
}

/* The chain of a level; that of the level above is there. */
static void
make_chain(Mend *mend, int level)
{
	Chain	   *chain = &mend->chains[level];
	int			first = known_from(mend, level, mosql_bytes("", 0));
	int			n = known_from(mend, level + 1, mosql_bytes("", 0)) - first;
	const MosqlKnownNode *known = mend->known + first;
	const MosqlKnownNode *next = NULL;	/* the nearest that there is evidence for */
	Evidence   *evidence = palloc_extended((n + 1) * sizeof(Evidence), MCXT_ALLOC_HUGE);
	bool	   *against = palloc_extended(n + 1, MCXT_ALLOC_HUGE);

	chain->nodes = palloc_extended((n + 1) * sizeof(*chain->nodes), MCXT_ALLOC_HUGE);
	chain->sure = palloc_extended(n + 1, MCXT_ALLOC_HUGE);
	for (int i = n - 1; i >= 0; i--)
	{
		evidence[i] = evidence_for(mend, &known[i]);
		against[i] = is_doubtful(mend, &known[i], &evidence[i], &against[i], n - i, next);
		if (evidence[i] == EVIDENCE_FOR)
			next = &known[i];
	}
	for (int i = 0; i < n; i++)
		judge_known(chain, &known[i], evidence[i], against[i]);
	pfree(evidence);
	pfree(against);
}

/* ---- what follows from it ---- */

/*
 * The first child of an inner node that begins at low: the one that begins there, or as its
 * left neighbour calls it; a signpost where that one has absorbed it; else a new one.
 */
static uint64
first_child(const Mend *mend, int level, MosqlBytes low)
{
	const Chain *chain = &mend->chains[level];
	int			at = chain_from(chain, low, false);
	int			known = known_from(mend, level, low);

	if (at < chain->n && mosql_bytes_equal(chain->nodes[at]->meta.low, low))
		return chain->nodes[at]->node;
	if (at > 0 && chain->nodes[at - 1]->meta.high.data != NULL &&
		mosql_bytes_equal(chain->nodes[at - 1]->meta.high, low))
		return chain->nodes[at - 1]->meta.right;
	for (; is_known_at(mend, known, level, low); known++)
		if (!is_alive(&mend->known[known]))
			return mend->known[known].node;
	return mend->tree->store->new_id(mend->tree->store, false);
}

/* Children for a node of a level that covers [low, high): one at least. */
static MosqlChild *
known_children(const Mend *mend, int level, MosqlBytes low, MosqlBytes high, int *n)
{
	const Chain *chain = &mend->chains[level];
	int			from = chain_from(chain, low, true);
	int			to = high.data == NULL ? chain->n : chain_from(chain, high, false);
	MosqlChild *children = palloc_extended((to - from + 1) * sizeof(MosqlChild), MCXT_ALLOC_HUGE);

	children[0] = (MosqlChild) {low, first_child(mend, level, low)};
	*n = 1;
	for (int i = from; i < to; i++)
		if (is_alive(chain->nodes[i]))
			children[(*n)++] = (MosqlChild) {chain->nodes[i]->meta.low, chain->nodes[i]->node};
	return children;
}

/* ---- one node ---- */

/* What is wrong with a node where the tree needs a sound one; NULL: nothing. */
static const char *
node_fault(Mend *mend, const MosqlNodeImage *image, Place *place, bool *contradicts)
{
	MosqlNodeMeta meta;
	const char *fault;

	*contradicts = false;
	if (!image->found)
		return "it is missing";
	fault = mosql_btree_meta_fault(mend->tree, image->node,
								   mosql_btree_image_field(image, MOSQL_FIELD_META), &meta);
	if (fault != NULL)
	{
		/* another tree's node is not ours to write, whatever it is here for */
		*contradicts = mosql_meta_decode(mosql_btree_image_field(image, MOSQL_FIELD_META), &meta) &&
			meta.tree != mend->tree->root;
		return fault;
	}
	*contradicts = true;
	if (meta.state == MOSQL_NODE_DEAD)
		return "it is dead where the tree needs one that lives";
	if (meta.level != place->level && image->node != mend->tree->root)
		return "it is not on the level where the tree has it";
	if (!mosql_bytes_equal(meta.low, place->low))
		return "its low fence is not where the tree needs it";
	*contradicts = false;
	place->level = meta.level;
	place->high = meta.high;
	place->right = meta.right;
	place->bounded = true;
	if (meta.level == 0)
		return NULL;
	return mosql_btree_children_fault(&meta, mosql_btree_image_field(image, MOSQL_FIELD_SEPARATORS),
									  &place->children, &place->nchildren);
}

/*
 * Where a node that is made anew ends: at the next one that counts, or that is listed and
 * lost.  What is listed and does not count is a signpost.
 */
static void
find_end(const Mend *mend, Place *place, const MosqlChild *listed, int nlisted)
{
	const Chain *chain = &mend->chains[place->level];
	int			at = chain_from(chain, place->low, true);

	place->high = at < chain->n ? chain->nodes[at]->meta.low : MOSQL_ABSENT;
	place->right = at < chain->n ? chain->nodes[at]->node : 0;
	for (int i = 0; i < nlisted; i++)
	{
		if (mosql_bytes_compare(listed[i].separator, place->low) <= 0 ||
			is_left_out(mend, place->level, &listed[i]))
			continue;
		if (place->high.data == NULL || mosql_bytes_compare(listed[i].separator, place->high) < 0)
		{
			place->high = listed[i].separator;
			place->right = listed[i].node;
		}
		return;
	}
}

/*
 * Name the leaves that follow a made one and count only because nobody can tell: up to the
 * next that does for a reason.
 */
static void
report_doubt(Mend *mend, const Place *place)
{
	const Chain *chain = &mend->chains[0];
	int			first = chain_from(chain, place->low, true);
	int			end = first;

	while (end < chain->n && !chain->sure[end])
		end++;
	if (end > first && chain->nodes[first]->node == place->right)
		mend->how->report(mend->how->arg, MOSQL_MEND_DOUBT, place->right, place->high,
						  end < chain->n ? chain->nodes[end]->meta.low : MOSQL_ABSENT,
						  "what leads to it is lost");
}

/* Name the leaves that a made one covers and that may be what a split left. */
static void
report_left_out(Mend *mend, const Place *place)
{
	for (int i = known_from(mend, place->level, place->low); i < mend->nknown; i++)
	{
		const MosqlKnownNode *known = &mend->known[i];

		if (known->meta.level != place->level ||
			(place->high.data != NULL && mosql_bytes_compare(known->meta.low, place->high) >= 0))
			return;
		if (is_alive(known) && known->node != place->node)
			mend->how->report(mend->how->arg, MOSQL_MEND_LEFT, known->node, known->meta.low,
							  known->meta.high, "nothing leads to it");
	}
}

/*
 * Is there a field that only a leaf has?  A damaged meta alone is an empty leaf's, or a signpost's,
 * and if the heir is lost, too, so are the rows here.
 */
static bool
is_leaf_for_sure(const MosqlNodeImage *image)
{
	static const char kinds[] = {MOSQL_FIELD_ROW, MOSQL_FIELD_BLOCK, MOSQL_FIELD_INTENT, MOSQL_FIELD_PURGED,
	MOSQL_FIELD_RANGE_MARKS, MOSQL_FIELD_KEY_MARKS};

	for (int i = 0; i < image->nfields; i++)
		if (image->fields[i].field.len > 0 && memchr(kinds, image->fields[i].field.data[0], sizeof(kinds)) != NULL)
			return true;
	return false;
}

/* Make a node anew. */
static void
make_anew(Mend *mend, const MosqlNodeImage *image, Place *place, const char *fault,
		  const MosqlChild *listed, int nlisted)
{
	MosqlNodeMeta meta = {.state = MOSQL_NODE_NORMAL,.tree = mend->tree->root};

	if (place->node != mend->tree->root && !place->bounded)
		find_end(mend, place, listed, nlisted);
	if (place->level > 0)
		place->children = known_children(mend, place->level - 1, place->low, place->high,
										 &place->nchildren);
	/* not the first: from now on it counts, whatever is lost beside it */
	meta.generation = mosql_btree_next_generation(mosql_btree_next_generation(0));
	meta.level = place->level;
	meta.low = place->low;
	meta.high = place->high;
	meta.right = place->right;
	mend->how->report(mend->how->arg, place->level > 0 ? MOSQL_MEND_INNER :
					  is_leaf_for_sure(image) ? MOSQL_MEND_LEAF : MOSQL_MEND_LOST,
					  place->node, place->low, place->high, fault);
	if (place->level == 0)
	{
		report_left_out(mend, place);
		report_doubt(mend, place);
	}
	mend->done++;
	if (image->found && image->nfields == 0 && !mend->how->dry_run)
		mend->tree->store->delete_nodes(mend->tree->store, &place->node, 1);
	if (image->found && image->nfields == 0)
	{
		MosqlNodeImage none = {.node = image->node};

		mosql_btree_mend_fields(mend, &none, place, &meta);
	}
	else
		mosql_btree_mend_fields(mend, image, place, &meta);
}

/*
 * The node of a place.  What the level above lists next is read with it, since the walk will
 * most likely come there; whoever writes compares that it is still the same.
 */
static const MosqlNodeImage *
read_ahead(Mend *mend, uint64 node, const MosqlChild *listed, int nlisted)
{
	uint64		ids[MEND_BATCH];
	MemoryContext old;

	for (int i = 0; i < mend->nimages; i++)
		if (mend->images[i].node == node)
			return &mend->images[i];
	ids[0] = node;
	mend->nimages = 1;
	for (int i = 1; i < nlisted && mend->nimages < MEND_BATCH; i++)
		ids[mend->nimages++] = listed[i].node;
	MemoryContextReset(mend->ahead);
	old = MemoryContextSwitchTo(mend->ahead);
	mend->tree->store->read_nodes(mend->tree->store, ids, mend->nimages, mend->images);
	MemoryContextSwitchTo(old);
	return &mend->images[0];
}

/* ---- nodes beside the chain ---- */

/* What is wrong with a node that was read; NULL: nothing, or it is not there, or not ours. */
static const char *
ruin_of(const Mend *mend, const MosqlNodeImage *image)
{
	MosqlBytes	m = mosql_btree_image_field(image, MOSQL_FIELD_META);
	MosqlNodeMeta meta;

	if (!image->found || (m.data != NULL && mosql_meta_decode(m, &meta) && meta.tree != mend->tree->root))
		return NULL;
	return mosql_btree_meta_fault(mend->tree, image->node, m, &meta);
}

/*
 * A listed node that the chain passes over is a signpost: who looks for its keys meets it
 * first.  If it is missing or does not decode it becomes one anew.
 */
static void
mend_signpost(Mend *mend, const Place *over, const MosqlChild *listed, int nlisted)
{
	const MosqlNodeImage *image = read_ahead(mend, listed->node, listed, nlisted);
	MosqlNodeMeta meta = {.state = MOSQL_NODE_DEAD,.tree = mend->tree->root,.level = over->level};
	MosqlStep  *step;
	const char *fault = image->found ? ruin_of(mend, image) : "it is missing";

	if (fault == NULL)
		return;
	mend->how->report(mend->how->arg, MOSQL_MEND_SIGNPOST, listed->node, listed->separator, over->high, fault);
	mend->done++;
	if (mend->how->dry_run)
		return;
	meta.generation = mosql_btree_next_generation(0);
	meta.low = listed->separator;
	meta.high = over->high;
	meta.right = over->right;
	meta.other = over->node;
	if (image->found)
		mend->tree->store->delete_nodes(mend->tree->store, &listed->node, 1);
	step = mosql_btree_step_new(mend->tree, listed->node, 1);
	mosql_btree_step_expect_absent(step);
	mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(mend->tree, &meta));
	mosql_btree_steps_run(mend->tree, &step, 1);
	mosql_btree_cache_drop(mend->tree, listed->node);
}

/* Are all new leaves of a split that is under way there?  *ruined: one that does not decode. */
static bool
is_split_whole(Mend *mend, const MosqlNodeMeta *leaf, uint64 *ruined)
{
	MosqlBytes	field = mosql_btree_meta_field();
	MosqlFieldRead read = {.node = leaf->other,.nfields = 1,.fields = &field};
	MosqlBytes	low = leaf->split_key;
	bool		first = true;

	for (;;)
	{
		MosqlNodeMeta meta;

		CHECK_FOR_INTERRUPTS();
		mend->tree->store->read_fields(mend->tree->store, &read, 1);
		if (read.values[0].data == NULL && first)
			return true;		/* whoever finishes the split creates it */
		if (read.values[0].data == NULL ||
			mosql_btree_meta_fault(mend->tree, read.node, read.values[0], &meta) != NULL)
		{
			*ruined = read.values[0].data != NULL ? read.node : 0;
			return false;
		}
		if (meta.state == MOSQL_NODE_DEAD || !mosql_bytes_equal(meta.low, low) || meta.high.data == NULL ||
			(leaf->high.data != NULL && mosql_bytes_compare(meta.high, leaf->high) >= 0))
			return true;
		low = meta.high;
		read.node = meta.right;
		first = false;
	}
}

/* Was a new leaf of a split ever in use?  Then the cut was made, and lost by a failover. */
static bool
was_used(const Mend *mend, const MosqlNodeMeta *leaf)
{
	for (int i = known_from(mend, 0, leaf->split_key); is_known_at(mend, i, 0, leaf->split_key); i++)
		if (mend->known[i].node == leaf->other)
			return evidence_for(mend, &mend->known[i]) == EVIDENCE_FOR;
	return false;
}

/*
 * A split that is under way, and one of the new leaves is lost: whoever finishes it would
 * cut, and lead to what is not there.  But until then the old leaf has it all; so its split
 * is called off, by one step that compares the generation: no cut that was planned can
 * succeed any more.  The new leaves become strays.
 */
static void
mend_split(Mend *mend, const MosqlNodeImage *image)
{
	MosqlBytes	m = mosql_btree_image_field(image, MOSQL_FIELD_META);
	MosqlNodeMeta meta;
	MosqlStep  *step;
	uint64		ruined;

	if (!mosql_meta_decode(m, &meta) || meta.state != MOSQL_NODE_SPLITTING ||
		is_split_whole(mend, &meta, &ruined))
		return;
	if (was_used(mend, &meta))
	{
		mend->how->report(mend->how->arg, MOSQL_MEND_NOT, image->node, meta.low, meta.high,
						  "it has lost a leaf of the split that it is in: repair again when that is finished");
		return;
	}
	mend->how->report(mend->how->arg, MOSQL_MEND_SPLIT, image->node, meta.low, meta.high,
					  "a new leaf of the split that it is in is lost");
	mend->done++;
	if (mend->how->dry_run)
		return;
	step = mosql_btree_step_new(mend->tree, image->node, 1);
	mosql_btree_step_expect_generation(step, meta.generation);
	meta.generation = mosql_btree_next_generation(meta.generation);
	meta.state = MOSQL_NODE_NORMAL;
	meta.other = 0;
	meta.split_key = MOSQL_ABSENT;
	mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(mend->tree, &meta));
	mosql_btree_steps_run(mend->tree, &step, 1);
	mosql_btree_cache_drop(mend->tree, image->node);
	if (step->status == MOSQL_STEP_DONE && ruined != 0)
		mend->tree->store->delete_nodes(mend->tree->store, &ruined, 1);
}

/* ---- a place ---- */

/* Look at the node of a place, and mend it; false where sound nodes contradict each other. */
static bool
mend_node(Mend *mend, Place *place, const MosqlChild *listed, int nlisted)
{
	const MosqlNodeImage *image;
	bool		contradicts;
	const char *fault;

	CHECK_FOR_INTERRUPTS();
	image = read_ahead(mend, place->node, listed, nlisted);
	fault = node_fault(mend, image, place, &contradicts);
	if (contradicts)
	{
		mend->how->report(mend->how->arg, MOSQL_MEND_NOT, place->node, place->low, MOSQL_ABSENT, fault);
		return false;
	}
	if (fault != NULL)
		make_anew(mend, image, place, fault, listed, nlisted);
	else if (place->level == 0)
	{
		mosql_btree_mend_fields(mend, image, place, NULL);
		mend_split(mend, image);
	}
	return true;
}

/* ---- a level ---- */

/* Follow the chain of a level, by what the level above lists; false if it cannot be. */
static bool
mend_level(Mend *mend, int level, const MosqlChild *listed, int nlisted, MosqlChild **below,
		   int *nbelow)
{
	Place		place = {.node = listed[0].node,.low = listed[0].separator};
	int			max = 64;

	*below = palloc_extended(max * sizeof(MosqlChild), MCXT_ALLOC_HUGE);
	*nbelow = 0;
	for (;;)
	{
		MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql mend",
												  ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(cxt);
		bool		mended;

		place.level = level;
		mended = mend_node(mend, &place, listed, nlisted);
		MemoryContextSwitchTo(old);
		while (*nbelow + place.nchildren > max)
		{
			max *= 2;
			*below = repalloc_huge(*below, max * sizeof(MosqlChild));
		}
		for (int i = 0; i < place.nchildren && mended; i++)
			(*below)[(*nbelow)++] = (MosqlChild)
		{
			mosql_bytes_copy(old, place.children[i].separator), place.children[i].node
		};
		if (place.high.data != NULL)
			place.high = mosql_bytes_copy(old, place.high);
		MemoryContextDelete(cxt);
		if (!mended)
			return false;
		while (nlisted > 1 && (place.high.data == NULL ||
							   mosql_bytes_compare(listed[1].separator, place.high) <= 0))
		{
			listed++, nlisted--;
			if (place.high.data == NULL || mosql_bytes_compare(listed->separator, place.high) < 0)
				mend_signpost(mend, &place, listed, nlisted);
		}
		if (place.high.data == NULL)
			return true;
		place = (Place) {.node = place.right,.low = place.high};
	}
}

/* Can this be the meta of a sound node?  Else it is as good as lost (mosql_btree_meta_fault). */
static bool
is_plausible(const MosqlTree *tree, const MosqlKnownNode *known)
{
	const MosqlNodeMeta *meta = &known->meta;

	if (meta->state == MOSQL_NODE_DEAD)
		return known->node != tree->root;
	if (known->node == tree->root)
		return meta->level > 0 && meta->low.len == 0 && meta->high.data == NULL;
	return (meta->high.data == NULL) == (meta->right == 0) && meta->right != known->node &&
		(meta->high.data == NULL || mosql_bytes_compare(meta->low, meta->high) < 0);
}

/* See btree.h. */
int
mosql_btree_mend(MosqlTree *tree, MosqlKnownNode *known, int n, const MosqlMending *how)
{
	Mend	   *mend;
	Place		root = {.node = tree->root,.low = {"", 0}};
	MemoryContext old;
	MosqlChild *listed;
	int			nlisted;
	int			nfound = n;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	n = 0;
	for (int i = 0; i < nfound; i++)
		if (is_plausible(tree, &known[i]))
			known[n++] = known[i];
	mend = palloc0(sizeof(Mend));
	*mend = (Mend) {.tree = tree,.how = how,.nknown = n,.known = known};
	mend->ahead = AllocSetContextCreate(tree->scratch, "mosql mend ahead", ALLOCSET_DEFAULT_SIZES);
	qsort(known, n, sizeof(MosqlKnownNode), compare_known);
	for (int level = n > 0 ? known[n - 1].meta.level : -1; level >= 0; level--)
		make_chain(mend, level);
	root.level = n == 0 ? 1 : known[n - 1].meta.level + 1;
	if (mend_node(mend, &root, NULL, 0))
	{
		listed = root.children;
		nlisted = root.nchildren;
		for (int i = 0; i < nlisted; i++)
			listed[i].separator = mosql_bytes_copy(tree->scratch, listed[i].separator);
		for (int level = root.level - 1; level >= 0; level--)
		{
			MosqlChild *below;
			int			nbelow;

			if (!mend_level(mend, level, listed, nlisted, &below, &nbelow))
				break;
			listed = below;
			nlisted = nbelow;
		}
	}
	MemoryContextSwitchTo(old);
	return mend->done;
}
