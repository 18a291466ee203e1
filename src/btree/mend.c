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
 * there, or that a parent leads to.  A node that decodes is never written, whatever it
 * says: where sound nodes contradict each other, that is reported, and left alone.
 *
 * Race -- others are at work.  Nobody can use a node that does not decode, or do anything
 * to one that is missing; the step compares that it is as it was read.  Sound nodes may
 * split and merge meanwhile: a separator may be missing, or lead to a dead node, and a
 * right link to a node that has been split ends there (README.md, "Structure").
 */
#include "btree/btree_int.h"
#include "code/row.h"

typedef struct Mend
{
	MosqlTree  *tree;
	const MosqlMending *how;
	int			nknown;
	const MosqlKnownNode *known;	/* by level, then low fence */
	int			done;			/* nodes made anew, or that would be */
} Mend;

/* A place in the chain of a level. */
typedef struct Place
{
	uint64		node;
	int			level;
	MosqlBytes	low;
	MosqlBytes	high;			/* data NULL: none */
	uint64		right;
	bool		bounded;		/* high and right are known */
	int			nchildren;		/* inner nodes */
	MosqlChild *children;
} Place;

/* ---- what is known ---- */

static int
compare_known(const void *a, const void *b)
{
	const MosqlKnownNode *x = a;
	const MosqlKnownNode *y = b;

	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	return mosql_bytes_compare(x->low, y->low);
}

/* The nearest known node of a level with a low fence above this one; NULL if none. */
static const MosqlKnownNode *
next_known(const Mend *mend, int level, MosqlBytes low)
{
	for (int i = 0; i < mend->nknown; i++)
		if (mend->known[i].level == level && mosql_bytes_compare(mend->known[i].low, low) > 0)
			return &mend->known[i];
	return NULL;
}

static bool
is_known(const Mend *mend, uint64 node)
{
	for (int i = 0; i < mend->nknown; i++)
		if (mend->known[i].node == node)
			return true;
	return false;
}

/* Children for a node of a level that covers [low, high): one at least. */
static MosqlChild *
known_children(Mend *mend, int level, MosqlBytes low, MosqlBytes high, int *n)
{
	MosqlChild *children = palloc_extended((mend->nknown + 1) * sizeof(MosqlChild), MCXT_ALLOC_HUGE);
	uint64		first = 0;
	MosqlBytes	end = MOSQL_ABSENT; /* of the last of them */

	*n = 0;
	for (int i = 0; i < mend->nknown; i++)
	{
		const MosqlKnownNode *known = &mend->known[i];

		if (known->level != level)
			continue;
		if (known->high.data != NULL && mosql_bytes_equal(known->high, low))
			first = known->right;	/* that is how the one that begins here is called */
		if (mosql_bytes_compare(known->low, low) < 0 ||
			(high.data != NULL && mosql_bytes_compare(known->low, high) >= 0) ||
			(*n > 0 && (end.data == NULL || mosql_bytes_compare(known->low, end) < 0)))
			continue;			/* what another one covers is a split's that was given up */
		children[(*n)++] = (MosqlChild) {known->low, known->node};
		end = known->high;
	}
	if (*n == 0 || !mosql_bytes_equal(children[0].separator, low))
	{
		memmove(children + 1, children, *n * sizeof(MosqlChild));
		children[0] = (MosqlChild)
		{
			low, first != 0 ? first : mend->tree->store->new_id(mend->tree->store)
		};
		(*n)++;
	}
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

/* What is wrong with a field of a leaf; NULL: nothing. */
static const char *
field_fault(Mend *mend, const MosqlFieldValue *field, const Place *place)
{
	MosqlBytes	key;
	MosqlBytes	rest = field->value;
	MosqlIntent intent;
	int			got;

	if (field->field.len == 0)
		return "a field without a name";
	key = mosql_bytes(field->field.data + 1, field->field.len - 1);
	if (key.len > 0 && strchr("rik", field->field.data[0]) != NULL &&
		(mosql_bytes_compare(key, place->low) < 0 ||
		 (place->high.data != NULL && mosql_bytes_compare(key, place->high) >= 0)))
		return "a key beyond the fences";
	switch (field->field.data[0])
	{
		case MOSQL_FIELD_META:
			return key.len > 0 ? "a field of an unknown kind" : NULL;
		case MOSQL_FIELD_PURGED:
			return key.len > 0 || field->value.len != MOSQL_TS_BYTES ? "a damaged purge mark" : NULL;
		case MOSQL_FIELD_RANGE_MARKS:
		case MOSQL_FIELD_KEY_MARKS:
			return field->value.len % MOSQL_TXID_BYTES != 0 ? "damaged read marks" : NULL;
		case MOSQL_FIELD_INTENT:
			while ((got = mosql_intent_next(&rest, &intent)) == 1)
				;
			return key.len == 0 || got < 0 ? "a damaged intent" : NULL;
		case MOSQL_FIELD_ROW:
			return key.len == 0 ? "a row without a key" :
				mend->how->row_fault(mend->how->arg, key, field->value);
		default:
			return "a field of an unknown kind";
	}
}

/* Take what is damaged out of a leaf, and give it a meta if meta is not NULL. */
static void
mend_fields(Mend *mend, const MosqlNodeImage *image, const Place *place, const MosqlNodeMeta *meta)
{
	MosqlBytes	old = image->found ? mosql_btree_image_field(image, MOSQL_FIELD_META) : MOSQL_ABSENT;
	MosqlStep  *step = mosql_btree_step_new(mend->tree, place->node, image->nfields + 2);
	const char *fault;

	step->compares = palloc((image->nfields + 1) * sizeof(MosqlCompare));
	mosql_step_expect_same(step, mosql_btree_meta_field(), old);
	for (int i = 0; i < image->nfields; i++)
	{
		const MosqlFieldValue *field = &image->fields[i];

		if (place->level > 0 || (meta != NULL && mosql_bytes_equal(field->field, mosql_btree_meta_field())))
			continue;
		fault = field_fault(mend, field, place);
		if (fault == NULL)
			continue;
		mend->how->report(mend->how->arg, MOSQL_MEND_FIELD, place->node,
						  mosql_bytes(field->field.data + Min(field->field.len, 1),
									  field->field.len - Min(field->field.len, 1)),
						  MOSQL_ABSENT, fault);
		mend->done++;
		mosql_step_expect_same(step, field->field, field->value);
		mosql_btree_step_delete(step, field->field);
	}
	if (meta != NULL)
		mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(mend->tree, meta));
	if (meta != NULL && place->level > 0)
		mosql_btree_step_set(step, mosql_btree_separators_field(),
							 mosql_btree_children_bytes(mend->tree, place->children, place->nchildren));
	if (mend->how->dry_run || step->nwrites == 0)
		return;
	mosql_btree_steps_run(mend->tree, &step, 1);
	mosql_btree_cache_drop(mend->tree, place->node);
	if (step->status != MOSQL_STEP_DONE)
		mosql_btree_damage(mend->tree, place->node, "it changed while it was repaired; try again");
}

/* Where a node that is made anew ends: at the next one that is there, or that is listed. */
static void
find_end(Mend *mend, Place *place, const MosqlChild *listed, int nlisted)
{
	const MosqlKnownNode *known = next_known(mend, place->level, place->low);

	place->high = known != NULL ? known->low : MOSQL_ABSENT;
	place->right = known != NULL ? known->node : 0;
	for (int i = 0; i < nlisted; i++)
	{
		if (mosql_bytes_compare(listed[i].separator, place->low) <= 0)
			continue;
		if (place->high.data == NULL || mosql_bytes_compare(listed[i].separator, place->high) < 0 ||
			(mosql_bytes_equal(listed[i].separator, place->high) && is_known(mend, listed[i].node)))
		{
			place->high = listed[i].separator;
			place->right = listed[i].node;
		}
		return;
	}
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
	meta.generation = mosql_btree_next_generation(0);
	meta.level = place->level;
	meta.low = place->low;
	meta.high = place->high;
	meta.right = place->right;
	mend->how->report(mend->how->arg, place->level > 0 ? MOSQL_MEND_INNER :
					  image->nfields > 0 ? MOSQL_MEND_LEAF : MOSQL_MEND_LOST,
					  place->node, place->low, place->high, fault);
	mend->done++;
	if (image->found && image->nfields == 0 && !mend->how->dry_run)
		mend->tree->store->delete_nodes(mend->tree->store, &place->node, 1);
	if (image->found && image->nfields == 0)
	{
		MosqlNodeImage none = {.node = image->node};

		mend_fields(mend, &none, place, &meta);
	}
	else
		mend_fields(mend, image, place, &meta);
}

/* Look at the node of a place, and mend it; false where sound nodes contradict each other. */
static bool
mend_node(Mend *mend, Place *place, const MosqlChild *listed, int nlisted)
{
	MosqlNodeImage image = {0};
	bool		contradicts;
	const char *fault;

	CHECK_FOR_INTERRUPTS();
	mend->tree->store->read_nodes(mend->tree->store, &place->node, 1, &image);
	fault = node_fault(mend, &image, place, &contradicts);
	if (contradicts)
	{
		mend->how->report(mend->how->arg, MOSQL_MEND_NOT, place->node, place->low, MOSQL_ABSENT, fault);
		return false;
	}
	if (fault != NULL)
		make_anew(mend, &image, place, fault, listed, nlisted);
	else if (place->level == 0)
		mend_fields(mend, &image, place, NULL);
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
		if (!mended || place.high.data == NULL)
			return mended;
		while (nlisted > 1 && mosql_bytes_compare(listed[1].separator, place.high) <= 0)
			listed++, nlisted--;
		place = (Place) {.node = place.right,.low = place.high};
	}
}

/* See btree.h. */
int
mosql_btree_mend(MosqlTree *tree, MosqlKnownNode *known, int n, const MosqlMending *how)
{
	Mend		mend = {.tree = tree,.how = how,.nknown = n,.known = known};
	Place		root = {.node = tree->root,.low = {"", 0}};
	MemoryContext old;
	MosqlChild *listed;
	int			nlisted;

	mosql_btree_enter(tree);
	old = MemoryContextSwitchTo(tree->scratch);
	qsort(known, n, sizeof(MosqlKnownNode), compare_known);
	root.level = n > 0 ? known[n - 1].level + 1 : 1;
	if (mend_node(&mend, &root, NULL, 0))
	{
		listed = root.children;
		nlisted = root.nchildren;
		for (int level = root.level - 1; level >= 0; level--)
		{
			MosqlChild *below;
			int			nbelow;

			if (!mend_level(&mend, level, listed, nlisted, &below, &nbelow))
				break;
			listed = below;
			nlisted = nbelow;
		}
	}
	MemoryContextSwitchTo(old);
	return mend.done;
}
