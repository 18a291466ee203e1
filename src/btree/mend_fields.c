/*
 * mend_fields.c: what is damaged goes out of a node, and what decodes stays.
 *
 * Layer: btree.  One step per node, which compares that all it takes away is as it was read.  A packed
 * leaf of which anything is damaged is unpacked by it: rows of a block that decodes are
 * judged, and kept, one by one.
 */
#include "btree/mend_int.h"
#include "code/block.h"
#include "code/loaded.h"

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

/* The fields of a node; of a packed leaf those that it has when it is unpacked. */
typedef struct Fields
{
	MosqlBytes	block;			/* instead of the last ones; data NULL: none */
	int			n;
	int			nstored;		/* the first ones are stored as they are */
	const MosqlFieldValue *fields;
	const char *fault;			/* what is wrong with the block */
} Fields;

static Fields
all_fields(Mend *mend, const MosqlNodeImage *image, const MosqlLoaded *loaded)
{
	static const char name = MOSQL_FIELD_BLOCK;
	MosqlBlock	block = {0};
	MosqlBytes *intents = NULL;
	MosqlFieldValue *fields;
	Fields		all = {.block = mosql_btree_image_field(image, name)};

	if (all.block.data == NULL)
		all.fault = "its block is missing";
	else if (!mosql_block_decode(all.block, &block) ||
			 !mosql_loaded_take(loaded, block.rows, intents = palloc(block.n * sizeof(MosqlBytes)), block.n))
	{
		all.fault = "its block does not decode";
		block.n = 0;
	}
	fields = palloc((image->nfields + 2 * block.n) * sizeof(MosqlFieldValue) + 1);
	for (int i = 0; i < image->nfields; i++)
		if (!mosql_bytes_equal(image->fields[i].field, mosql_bytes(&name, 1)))
			fields[all.nstored++] = image->fields[i];
	all.n = all.nstored;
	for (int i = 0; i < block.n; i++)
	{
		if (block.rows[i].data != NULL)
			fields[all.n++] = (MosqlFieldValue)
		{
			mosql_btree_field_name(mend->tree, MOSQL_FIELD_ROW, block.keys[i]), block.rows[i]
		};
		if (intents[i].data != NULL)
			fields[all.n++] = (MosqlFieldValue)
		{
			mosql_btree_field_name(mend->tree, MOSQL_FIELD_INTENT, block.keys[i]), intents[i]
		};
	}
	all.fields = fields;
	return all;
}

/* Is a row of the block a field as well, sound or not?  Then that is the row, and the block has what it was. */
static bool
is_beside(const Fields *all, MosqlBytes name)
{
	for (int i = 0; i < all->nstored; i++)
		if (mosql_bytes_equal(all->fields[i].field, name))
			return true;
	return false;
}

static void
report_field(Mend *mend, uint64 node, MosqlBytes field, const char *fault)
{
	int			kind = Min(field.len, 1);

	mend->how->report(mend->how->arg, MOSQL_MEND_FIELD, node,
					  mosql_bytes(field.data + kind, field.len - kind), MOSQL_ABSENT, fault);
	mend->done++;
}

/*
 * The step of a packed leaf: it is unpacked, without what is damaged.  No writes if nothing
 * is.  Rows beside the block are later ones: one that is damaged is lost, and what the block has of it does not come back.
 *
 * Race -- somebody writes another row beside the block in between, under the same generation: as when a leaf is unpacked (pack.c),
 * what is a field by now is the row.
 */
static MosqlStep *
mend_packed(Mend *mend, const MosqlNodeImage *image, const Place *place, MosqlNodeMeta *meta, bool anew)
{
	Fields		all = all_fields(mend, image, &meta->loaded);
	MosqlStep  *step = mosql_btree_step_new(mend->tree, place->node, all.n + 3);
	bool		damaged = all.fault != NULL || anew;

	step->compares = palloc((all.nstored + 2) * sizeof(MosqlCompare));
	mosql_step_expect_same(step, mosql_btree_meta_field(),
						   mosql_btree_image_field(image, MOSQL_FIELD_META));
	mosql_step_expect_same(step, mosql_btree_block_field(), all.block);
	if (all.fault != NULL)
	{
		mend->how->report(mend->how->arg, MOSQL_MEND_LOST, place->node, place->low, place->high, all.fault);
		mend->done++;
	}
	for (int i = 0; i < all.n; i++)
	{
		const MosqlFieldValue *field = &all.fields[i];
		bool		stored = i < all.nstored;
		const char *fault;

		if (mosql_bytes_equal(field->field, mosql_btree_meta_field()))
			continue;
		if (!stored && is_beside(&all, field->field))
			continue;
		fault = field_fault(mend, field, place);
		if (fault != NULL)
		{
			report_field(mend, place->node, field->field, fault);
			damaged = true;
		}
		if (fault != NULL && stored)
		{
			mosql_step_expect_same(step, field->field, field->value);
			mosql_btree_step_delete(step, field->field);
		}
		if (fault == NULL && !stored)
			mosql_btree_step_raise(step, field->field, field->value);
	}
	if (!damaged)
		step->nwrites = 0;
	else
	{
		if (all.block.data != NULL)
			mosql_btree_step_delete(step, mosql_btree_block_field());
		meta->state = MOSQL_NODE_NORMAL;
		mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(mend->tree, meta));
	}
	return step;
}

/* The step of any other node: what is damaged goes, and it gets a meta if that is not NULL. */
static MosqlStep *
mend_stored(Mend *mend, const MosqlNodeImage *image, const Place *place, const MosqlNodeMeta *meta)
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
		report_field(mend, place->node, field->field, fault);
		mosql_step_expect_same(step, field->field, field->value);
		mosql_btree_step_delete(step, field->field);
	}
	if (meta != NULL)
		mosql_btree_step_set(step, mosql_btree_meta_field(), mosql_btree_meta_bytes(mend->tree, meta));
	if (meta != NULL && place->level > 0)
		mosql_btree_step_set(step, mosql_btree_separators_field(),
							 mosql_btree_children_bytes(mend->tree, place->children, place->nchildren));
	return step;
}

/* Take what is damaged out of a leaf, and give it a meta if meta is not NULL. */
void
mosql_btree_mend_fields(Mend *mend, const MosqlNodeImage *image, const Place *place, const MosqlNodeMeta *meta)
{
	MosqlBytes	m = image->found ? mosql_btree_image_field(image, MOSQL_FIELD_META) : MOSQL_ABSENT;
	bool		has_block = image->found && mosql_btree_image_field(image, MOSQL_FIELD_BLOCK).data != NULL;
	MosqlNodeMeta unpacked = {.state = MOSQL_NODE_NORMAL};
	MosqlStep  *step;

	if (meta != NULL)
		unpacked = *meta;
	else if (mosql_meta_decode(m, &unpacked))
		unpacked.generation = mosql_btree_next_generation(unpacked.generation);
	/* no step leaves a block in a leaf that is not packed: it is the meta that is wrong */
	if (place->level == 0 && meta == NULL && unpacked.state == MOSQL_NODE_NORMAL && has_block)
	{
		mend->how->report(mend->how->arg, MOSQL_MEND_LEAF, place->node, place->low, place->high,
						  "it has a block, but is not packed");
		mend->done++;
	}
	if (place->level == 0 &&
		(unpacked.state == MOSQL_NODE_PACKED || unpacked.state == MOSQL_NODE_LOADING || (unpacked.state == MOSQL_NODE_NORMAL && has_block)))
		step = mend_packed(mend, image, place, &unpacked,
						   meta != NULL || unpacked.state == MOSQL_NODE_NORMAL);
	else
		step = mend_stored(mend, image, place, meta);
	if (mend->how->dry_run || step->nwrites == 0)
		return;
	mosql_btree_steps_run(mend->tree, &step, 1);
	mosql_btree_cache_drop(mend->tree, place->node);
	if (step->status != MOSQL_STEP_DONE)
		mosql_btree_damage(mend->tree, place->node, "it changed while it was repaired; try again");
}
