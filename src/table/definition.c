/*
 * definition.c: the definition of a table, or a sequence of its own, as bytes.
 *
 * Layer: table.  A row of the catalog's tree, in the form of all rows;
 * src/table/README.md gives its columns.  Needs no server but for the
 * database's encoding.
 */
#include "postgres.h"

#include "table/table_int.h"

/* Columns of a catalog row; a table's column with id n is at COLUMN_FIRST + n. */
#define COLUMN_FORMAT	1
#define COLUMN_ID		2
#define COLUMN_ROOT		3
#define COLUMN_FLAGS	4
#define COLUMN_NEXT		5
#define COLUMN_NAMES	6
#define COLUMN_COMMENT	7
#define COLUMN_CHECKS	8
#define COLUMN_FIRST	16
#define INDEX_FIRST		(1 << 16)	/* an index with id n is at INDEX_FIRST + n */

#define SEQUENCE_FIRST	(1 << 17)	/* the sequence of column n is at SEQUENCE_FIRST + n */

#define DETAIL_FIRST	(3 << 16)	/* details of column n are at DETAIL_FIRST + n */

#define REFERENCE_FIRST	(1 << 18)	/* a foreign key with id n is at REFERENCE_FIRST + n */
#define REFERRER_FIRST	(9 << 15)	/* ... that leads to the table at REFERRER_FIRST + n */

#define BUILD_FIRST		(5 << 16)	/* an index being built, with id n, is at BUILD_FIRST + n */

#define SEQUENCE_FORMAT	1	/* of sequences that no column owns */

#define FLAG_HIDDEN_ROW_ID	1

#define COLUMN_FLAG_NOT_NULL	1
#define COLUMN_FLAG_DROPPED		2
#define COLUMN_FLAG_MISSING		4	/* the value in rows that lack it follows */
#define COLUMN_FLAG_LABELS		8	/* labels of an enum follow */
#define COLUMN_FLAG_SHAPE		16	/* what a composite type consists of follows */
#define COLUMN_FLAGS_KNOWN		31

/* More labels than an enum has. */
#define MAX_LABELS		(1 << 16)

/* More columns than PostgreSQL can have, counting dropped ones. */
#define MAX_COLUMN_ID	(1 << 15)

#define INDEX_FLAG_UNIQUE				1
#define INDEX_FLAG_NULLS_NOT_DISTINCT	2
#define INDEX_FLAG_CONSTRAINT			4
#define INDEX_FLAG_PREDICATE			8
#define INDEX_FLAG_LOCALE				16
#define INDEX_FLAG_ORDERED				32

#define BUILD_FLAG_CLOSING	1

#define REFERENCE_FLAG_VALIDATED	1
#define REFERENCE_FLAG_DEFERRABLE	2
#define REFERENCE_FLAG_DEFERRED		4

#define SEQUENCE_FLAG_CYCLE		1
#define SEQUENCE_FLAG_IDENTITY	2
#define SEQUENCE_FLAG_ALWAYS	4

#define DETAIL_FLAG_EXPRESSION	1
#define DETAIL_FLAG_GENERATED	2
#define DETAIL_FLAG_COMMENT		4
#define DETAIL_FLAG_FORMER		8

/* More constraints than a table has. */
#define MAX_CHECKS		(1 << 15)

#define INDEX_COLUMN_FLAG_DESCENDING	1
#define INDEX_COLUMN_FLAG_NULLS_FIRST	2
#define INDEX_COLUMN_FLAG_EXPRESSION	4	/* instead of a column */

static void
put_string(StringInfo out, const char *string)
{
	MosqlBytes	utf8 = mosql_text_to_utf8(string, strlen(string));

	mosql_varint_put(out, utf8.len);
	appendBinaryStringInfo(out, utf8.data, utf8.len);
}

static bool
get_string(MosqlBytes *in, const char **string)
{
	uint64		len;
	MosqlBytes	text;

	if (!mosql_varint_get(in, &len) || len > in->len)
		return false;
	text = mosql_text_from_utf8(mosql_bytes(in->data, len));
	if (text.data == NULL)
		return false;
	*string = pnstrdup(text.data, text.len);
	in->data += len;
	in->len -= len;
	return true;
}

/* How a label is said: by its name; with what rows store of it, where that is another;
 * with the names that it had in between, too. */
typedef enum LabelKind
{
	LABEL_PLAIN, LABEL_RENAMED, LABEL_FORMER
} LabelKind;

static void
put_label(StringInfo out, const MosqlLabel *label)
{
	LabelKind	kind = label->former != NIL ? LABEL_FORMER
		: strcmp(label->name, label->stored) != 0 ? LABEL_RENAMED : LABEL_PLAIN;
	ListCell   *cell;

	mosql_varint_put(out, kind);
	put_string(out, label->name);
	if (kind != LABEL_PLAIN)
		put_string(out, label->stored);
	if (kind == LABEL_FORMER)
		mosql_varint_put(out, list_length(label->former));
	foreach(cell, label->former)
		put_string(out, lfirst(cell));
}

static void
put_labels(StringInfo out, const MosqlDefinitionColumn *column)
{
	mosql_varint_put(out, column->nlabels);
	for (int i = 0; i < column->nlabels; i++)
		put_label(out, &column->labels[i]);
}

static bool
get_label(MosqlBytes *in, MosqlLabel *label)
{
	uint64		kind;
	uint64		n = 0;
	const char *name;

	if (!mosql_varint_get(in, &kind) || kind > LABEL_FORMER || !get_string(in, &label->name))
		return false;
	label->stored = label->name;
	if (kind != LABEL_PLAIN && !get_string(in, &label->stored))
		return false;
	if (kind == LABEL_RENAMED && strcmp(label->stored, label->name) == 0)
		return false;
	if (kind == LABEL_FORMER && (!mosql_varint_get(in, &n) || n == 0))
		return false;
	for (; n > 0; n--)
	{
		if (!get_string(in, &name))
			return false;
		label->former = lappend(label->former, (void *) name);
	}
	return true;
}

static bool
get_labels(MosqlBytes *in, MosqlDefinitionColumn *column)
{
	uint64		n;

	if (!mosql_varint_get(in, &n) || n == 0 || n > MAX_LABELS || n > in->len)
		return false;
	column->nlabels = (int) n;
	column->labels = palloc0(n * sizeof(MosqlLabel));
	for (int i = 0; i < column->nlabels; i++)
		if (!get_label(in, &column->labels[i]))
			return false;
	return true;
}

static MosqlBytes
encode_column(const MosqlDefinitionColumn *column)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_varint_put(&out, (column->not_null ? COLUMN_FLAG_NOT_NULL : 0) |
					 (column->dropped ? COLUMN_FLAG_DROPPED : 0) |
					 (column->missing.data ? COLUMN_FLAG_MISSING : 0) |
					 (column->nlabels > 0 ? COLUMN_FLAG_LABELS : 0) |
					 (column->shape ? COLUMN_FLAG_SHAPE : 0));
	mosql_varint_put(&out, column->key_position + 1);
	put_string(&out, column->name);
	put_string(&out, column->type);
	put_string(&out, column->collation);
	if (column->nlabels > 0)
		put_labels(&out, column);
	if (column->shape != NULL)
		put_string(&out, column->shape);
	if (column->missing.data != NULL)
		appendBinaryStringInfo(&out, column->missing.data, column->missing.len);
	return mosql_bytes_of(&out);
}

static bool
decode_column(MosqlBytes in, MosqlDefinitionColumn *column)
{
	uint64		flags;
	uint64		position;

	if (!mosql_varint_get(&in, &flags) || flags > COLUMN_FLAGS_KNOWN ||
		!mosql_varint_get(&in, &position) || position > MOSQL_KEY_MAX_COLUMNS)
		return false;
	column->not_null = (flags & COLUMN_FLAG_NOT_NULL) != 0;
	column->dropped = (flags & COLUMN_FLAG_DROPPED) != 0;
	column->key_position = (int) position - 1;
	if (!get_string(&in, &column->name) || !get_string(&in, &column->type) ||
		!get_string(&in, &column->collation) ||
		((flags & COLUMN_FLAG_LABELS) && !get_labels(&in, column)) ||
		((flags & COLUMN_FLAG_SHAPE) && !get_string(&in, &column->shape)))
		return false;
	column->missing = flags & COLUMN_FLAG_MISSING
		? mosql_bytes_copy(CurrentMemoryContext, in) : MOSQL_ABSENT;
	return in.len == 0 || column->missing.data != NULL;
}

static void
encode_index_column(StringInfo out, const MosqlDefinitionIndexColumn *column)
{
	mosql_varint_put(out, column->column);
	mosql_varint_put(out, (column->descending ? INDEX_COLUMN_FLAG_DESCENDING : 0) |
					 (column->nulls_first ? INDEX_COLUMN_FLAG_NULLS_FIRST : 0) |
					 (column->expression ? INDEX_COLUMN_FLAG_EXPRESSION : 0));
	if (column->expression == NULL)
		return;
	put_string(out, column->expression);
	put_string(out, column->type);
	put_string(out, column->collation);
}

static MosqlBytes
encode_index(const MosqlDefinitionIndex *index)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_varint_put(&out, (index->unique ? INDEX_FLAG_UNIQUE : 0) |
					 (index->nulls_not_distinct ? INDEX_FLAG_NULLS_NOT_DISTINCT : 0) |
					 (index->constraint ? INDEX_FLAG_CONSTRAINT : 0) |
					 (index->predicate ? INDEX_FLAG_PREDICATE : 0) |
					 (index->locale ? INDEX_FLAG_LOCALE : 0) |
					 (index->ordered ? INDEX_FLAG_ORDERED : 0));
	mosql_varint_put(&out, index->root);
	put_string(&out, index->name);
	mosql_varint_put(&out, index->nkeys);
	for (int i = 0; i < index->nkeys; i++)
		encode_index_column(&out, &index->keys[i]);
	mosql_varint_put(&out, index->nincluded);
	for (int i = 0; i < index->nincluded; i++)
		mosql_varint_put(&out, index->included[i]);
	if (index->predicate != NULL)
		put_string(&out, index->predicate);
	if (index->locale != NULL)
		put_string(&out, index->locale);
	return mosql_bytes_of(&out);
}

/* A count or a column id. */
static bool
get_small(MosqlBytes *in, uint64 max, uint64 *value)
{
	return mosql_varint_get(in, value) && *value <= max;
}

static bool
decode_index_column(MosqlBytes *in, MosqlDefinitionIndexColumn *column)
{
	uint64		id;
	uint64		flags;

	memset(column, 0, sizeof(*column));
	if (!get_small(in, MAX_COLUMN_ID, &id) || !mosql_varint_get(in, &flags))
		return false;
	column->column = (uint32) id;
	column->descending = (flags & INDEX_COLUMN_FLAG_DESCENDING) != 0;
	column->nulls_first = (flags & INDEX_COLUMN_FLAG_NULLS_FIRST) != 0;
	if (!(flags & INDEX_COLUMN_FLAG_EXPRESSION))
		return true;
	return id == 0 && get_string(in, &column->expression) && get_string(in, &column->type) &&
		get_string(in, &column->collation);
}

static bool
decode_index(MosqlBytes in, MosqlDefinitionIndex *index)
{
	uint64		flags;
	uint64		n;

	if (!mosql_varint_get(&in, &flags) || !mosql_varint_get(&in, &index->root) ||
		!get_string(&in, &index->name) || !get_small(&in, MOSQL_KEY_MAX_COLUMNS, &n) || n == 0)
		return false;
	index->unique = (flags & INDEX_FLAG_UNIQUE) != 0;
	index->nulls_not_distinct = (flags & INDEX_FLAG_NULLS_NOT_DISTINCT) != 0;
	index->constraint = (flags & INDEX_FLAG_CONSTRAINT) != 0;
	index->ordered = (flags & INDEX_FLAG_ORDERED) != 0;
	index->nkeys = (int) n;
	index->keys = palloc(n * sizeof(MosqlDefinitionIndexColumn));
	for (int i = 0; i < index->nkeys; i++)
		if (!decode_index_column(&in, &index->keys[i]))
			return false;
	if (!get_small(&in, MAX_COLUMN_ID, &n))
		return false;
	index->nincluded = (int) n;
	index->included = palloc(Max(n, 1) * sizeof(uint32));
	for (int i = 0; i < index->nincluded; i++)
	{
		if (!get_small(&in, MAX_COLUMN_ID, &n))
			return false;
		index->included[i] = (uint32) n;
	}
	if (((flags & INDEX_FLAG_PREDICATE) && !get_string(&in, &index->predicate)) ||
		((flags & INDEX_FLAG_LOCALE) && !get_string(&in, &index->locale)))
		return false;
	return index->root != 0 && in.len == 0;
}

static MosqlBytes
encode_build(const MosqlDefinitionBuild *build)
{
	StringInfoData out;
	MosqlBytes	index = encode_index(&build->index);

	initStringInfo(&out);
	mosql_varint_put(&out, build->closing ? BUILD_FLAG_CLOSING : 0);
	mosql_varint_put(&out, build->log);
	mosql_varint_put(&out, build->session);
	appendBinaryStringInfo(&out, index.data, index.len);
	return mosql_bytes_of(&out);
}

static bool
decode_build(MosqlBytes in, MosqlDefinitionBuild *build)
{
	uint64		flags;

	if (!mosql_varint_get(&in, &flags) || !mosql_varint_get(&in, &build->log) ||
		!mosql_varint_get(&in, &build->session))
		return false;
	build->closing = (flags & BUILD_FLAG_CLOSING) != 0;
	return build->log != 0 && decode_index(in, &build->index);
}

static void
put_signed(StringInfo out, int64 value)
{
	mosql_varint_put(out, (uint64) value << 1 ^ (uint64) (value >> 63));
}

static bool
get_signed(MosqlBytes *in, int64 *value)
{
	uint64		zigzag;

	if (!mosql_varint_get(in, &zigzag))
		return false;
	*value = (int64) (zigzag >> 1) ^ -(int64) (zigzag & 1);
	return true;
}

static MosqlBytes
encode_sequence(const MosqlSequence *sequence)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_varint_put(&out, (sequence->cycle ? SEQUENCE_FLAG_CYCLE : 0) |
					 (sequence->identity ? SEQUENCE_FLAG_IDENTITY : 0) |
					 (sequence->always ? SEQUENCE_FLAG_ALWAYS : 0));
	mosql_varint_put(&out, sequence->counter);
	put_signed(&out, sequence->start);
	put_signed(&out, sequence->increment);
	put_signed(&out, sequence->min);
	put_signed(&out, sequence->max);
	put_signed(&out, sequence->cache);
	return mosql_bytes_of(&out);
}

static bool
decode_sequence(MosqlBytes in, MosqlSequence *sequence)
{
	uint64		flags;

	if (!mosql_varint_get(&in, &flags) || !mosql_varint_get(&in, &sequence->counter) ||
		!get_signed(&in, &sequence->start) || !get_signed(&in, &sequence->increment) ||
		!get_signed(&in, &sequence->min) || !get_signed(&in, &sequence->max) ||
		!get_signed(&in, &sequence->cache))
		return false;
	sequence->cycle = (flags & SEQUENCE_FLAG_CYCLE) != 0;
	sequence->identity = (flags & SEQUENCE_FLAG_IDENTITY) != 0;
	sequence->always = (flags & SEQUENCE_FLAG_ALWAYS) != 0;
	return in.len == 0 && sequence->counter != 0 && sequence->increment != 0 &&
		sequence->min < sequence->max && sequence->cache > 0;
}

static bool
has_details(const MosqlDefinitionColumn *column)
{
	return !column->dropped && (column->expression != NULL || column->generated ||
								column->comment != NULL || column->former != NIL);
}

static MosqlBytes
encode_details(const MosqlDefinitionColumn *column)
{
	StringInfoData out;
	ListCell   *cell;

	initStringInfo(&out);
	mosql_varint_put(&out, (column->expression ? DETAIL_FLAG_EXPRESSION : 0) |
					 (column->generated ? DETAIL_FLAG_GENERATED : 0) |
					 (column->comment ? DETAIL_FLAG_COMMENT : 0) |
					 (column->former ? DETAIL_FLAG_FORMER : 0));
	if (column->expression != NULL)
		put_string(&out, column->expression);
	if (column->comment != NULL)
		put_string(&out, column->comment);
	foreach(cell, column->former)
		put_string(&out, lfirst(cell));
	return mosql_bytes_of(&out);
}

static bool
decode_details(MosqlBytes in, MosqlDefinitionColumn *column)
{
	uint64		flags;

	if (!mosql_varint_get(&in, &flags) ||
		((flags & DETAIL_FLAG_EXPRESSION) && !get_string(&in, &column->expression)) ||
		((flags & DETAIL_FLAG_COMMENT) && !get_string(&in, &column->comment)))
		return false;
	column->generated = (flags & DETAIL_FLAG_GENERATED) != 0;
	while ((flags & DETAIL_FLAG_FORMER) && in.len > 0)
	{
		const char *name;

		if (!get_string(&in, &name))
			return false;
		column->former = lappend(column->former, (void *) name);
	}
	return in.len == 0;
}

static MosqlBytes
encode_checks(const MosqlDefinition *definition)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_varint_put(&out, definition->nchecks);
	for (int i = 0; i < definition->nchecks; i++)
	{
		put_string(&out, definition->checks[i].name);
		put_string(&out, definition->checks[i].expression);
		mosql_varint_put(&out, definition->checks[i].ncolumns);
		for (int j = 0; j < definition->checks[i].ncolumns; j++)
			mosql_varint_put(&out, definition->checks[i].columns[j]);
	}
	return mosql_bytes_of(&out);
}

static bool
decode_check(MosqlBytes *in, MosqlDefinitionCheck *check)
{
	uint64		n;

	if (!get_string(in, &check->name) || !get_string(in, &check->expression) ||
		!get_small(in, MAX_COLUMN_ID, &n))
		return false;
	check->ncolumns = (int) n;
	check->columns = palloc(Max(n, 1) * sizeof(uint32));
	for (int i = 0; i < check->ncolumns; i++)
	{
		if (!get_small(in, MAX_COLUMN_ID, &n))
			return false;
		check->columns[i] = (uint32) n;
	}
	return true;
}

static bool
decode_checks(MosqlBytes in, MosqlDefinition *definition)
{
	uint64		n;

	if (!get_small(&in, MAX_CHECKS, &n))
		return false;
	definition->nchecks = (int) n;
	definition->checks = palloc(Max(n, 1) * sizeof(MosqlDefinitionCheck));
	for (int i = 0; i < definition->nchecks; i++)
		if (!decode_check(&in, &definition->checks[i]))
			return false;
	return in.len == 0;
}

static void
put_ids(StringInfo out, const uint32 *ids, int n)
{
	mosql_varint_put(out, n);
	for (int i = 0; i < n; i++)
		mosql_varint_put(out, ids[i]);
}

static bool
get_ids(MosqlBytes *in, uint32 **ids, int *n)
{
	uint64		value;

	if (!get_small(in, MOSQL_KEY_MAX_COLUMNS, &value))
		return false;
	*n = (int) value;
	*ids = palloc(Max(*n, 1) * sizeof(uint32));
	for (int i = 0; i < *n; i++)
	{
		if (!get_small(in, MAX_COLUMN_ID, &value))
			return false;
		(*ids)[i] = (uint32) value;
	}
	return true;
}

static MosqlBytes
encode_reference(const MosqlDefinitionReference *reference)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_varint_put(&out, (reference->validated ? REFERENCE_FLAG_VALIDATED : 0) |
					 (reference->deferrable ? REFERENCE_FLAG_DEFERRABLE : 0) |
					 (reference->deferred ? REFERENCE_FLAG_DEFERRED : 0));
	mosql_varint_put(&out, (uint8) reference->match);
	mosql_varint_put(&out, (uint8) reference->on_update);
	mosql_varint_put(&out, (uint8) reference->on_delete);
	put_string(&out, reference->name);
	put_string(&out, reference->schema);
	put_string(&out, reference->table);
	put_ids(&out, reference->columns, reference->n);
	put_ids(&out, reference->referenced, reference->n);
	put_ids(&out, reference->set, reference->nset);
	return mosql_bytes_of(&out);
}

/* One of these characters. */
static bool
get_letter(MosqlBytes *in, const char *letters, char *letter)
{
	uint64		value;

	if (!get_small(in, 127, &value) || value == 0)
		return false;
	*letter = (char) value;
	return strchr(letters, *letter) != NULL;
}

static bool
decode_reference(MosqlBytes in, MosqlDefinitionReference *reference)
{
	uint64		flags;
	int			n;

	if (!mosql_varint_get(&in, &flags) || !get_letter(&in, "fs", &reference->match) ||
		!get_letter(&in, "arcnd", &reference->on_update) ||
		!get_letter(&in, "arcnd", &reference->on_delete) ||
		!get_string(&in, &reference->name) || !get_string(&in, &reference->schema) ||
		!get_string(&in, &reference->table) ||
		!get_ids(&in, &reference->columns, &reference->n) ||
		!get_ids(&in, &reference->referenced, &n) ||
		!get_ids(&in, &reference->set, &reference->nset))
		return false;
	reference->validated = (flags & REFERENCE_FLAG_VALIDATED) != 0;
	reference->deferrable = (flags & REFERENCE_FLAG_DEFERRABLE) != 0;
	reference->deferred = (flags & REFERENCE_FLAG_DEFERRED) != 0;
	return in.len == 0 && n == reference->n && n > 0;
}

static MosqlBytes
encode_referrer(const MosqlDefinitionReferrer *referrer)
{
	StringInfoData out;

	initStringInfo(&out);
	put_string(&out, referrer->name);
	put_string(&out, referrer->schema);
	put_string(&out, referrer->table);
	put_ids(&out, referrer->columns, referrer->n);
	return mosql_bytes_of(&out);
}

static bool
decode_referrer(MosqlBytes in, MosqlDefinitionReferrer *referrer)
{
	return get_string(&in, &referrer->name) && get_string(&in, &referrer->schema) &&
		get_string(&in, &referrer->table) && get_ids(&in, &referrer->columns, &referrer->n) &&
		in.len == 0 && referrer->n > 0;
}

/*
 * Its columns' ids ascend in the array; new columns get the highest.  The
 * schema's and the table's name are repeated for the tools that read rows.
 */
void
mosql_definition_encode(MosqlDefinition *definition)
{
	StringInfoData out;
	StringInfoData names;

	initStringInfo(&out);
	initStringInfo(&names);
	put_string(&names, definition->schema);
	put_string(&names, definition->name);
	mosql_column_put_int(&out, COLUMN_FORMAT, mosql_definition_format(definition), 2);
	mosql_column_put_int(&out, COLUMN_ID, (int64) definition->id, 8);
	mosql_column_put_int(&out, COLUMN_ROOT, (int64) definition->root, 8);
	mosql_column_put_int(&out, COLUMN_FLAGS,
						 definition->hidden_row_id ? FLAG_HIDDEN_ROW_ID : 0, 4);
	mosql_column_put_int(&out, COLUMN_NEXT, definition->next_column, 4);
	mosql_column_put_bytes(&out, COLUMN_NAMES, mosql_bytes_of(&names));
	if (definition->comment != NULL)
		mosql_column_put_bytes(&out, COLUMN_COMMENT, mosql_text_to_utf8(definition->comment,
												  strlen(definition->comment)));
	if (definition->nchecks > 0)
		mosql_column_put_bytes(&out, COLUMN_CHECKS, encode_checks(definition));
	for (int i = 0; i < definition->ncolumns; i++)
		mosql_column_put_bytes(&out, COLUMN_FIRST + definition->columns[i].id,
							   encode_column(&definition->columns[i]));
	for (int i = 0; i < definition->nindexes; i++)
		mosql_column_put_bytes(&out, INDEX_FIRST + definition->indexes[i].id,
							   encode_index(&definition->indexes[i]));
	for (int i = 0; i < definition->ncolumns; i++)
		if (definition->columns[i].sequence.counter != 0)
			mosql_column_put_bytes(&out, SEQUENCE_FIRST + definition->columns[i].id,
								   encode_sequence(&definition->columns[i].sequence));
	for (int i = 0; i < definition->ncolumns; i++)
		if (has_details(&definition->columns[i]))
			mosql_column_put_bytes(&out, DETAIL_FIRST + definition->columns[i].id,
								   encode_details(&definition->columns[i]));
	for (int i = 0; i < definition->nreferences; i++)
		mosql_column_put_bytes(&out, REFERENCE_FIRST + definition->references[i].id,
							   encode_reference(&definition->references[i]));
	for (int i = 0; i < definition->nreferrers; i++)
		mosql_column_put_bytes(&out, REFERRER_FIRST + definition->referrers[i].id,
							   encode_referrer(&definition->referrers[i]));
	for (int i = 0; i < definition->nbuilds; i++)
		mosql_column_put_bytes(&out, BUILD_FIRST + definition->builds[i].id,
							   encode_build(&definition->builds[i]));
	definition->bytes = mosql_bytes_of(&out);
}

static void
check_format(int64 format, int oldest, int known)
{
	if (format < oldest || format > known)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table definition in Redis has format " INT64_FORMAT, format),
				 errdetail("This version of mosql_fdw knows format %d.", known),
				 format > known ? errhint("Install a newer mosql_fdw on this server.")
				 : errhint("Another version of mosql_fdw made it: dump the tables with that one, and restore them into another namespace.")));
}

static bool
decode_table_column(MosqlDefinition *definition, const MosqlColumn *stored)
{
	MosqlDefinitionColumn *column;

	if (stored->wire != MOSQL_WIRE_BYTES || stored->column - COLUMN_FIRST > MAX_COLUMN_ID)
		return false;
	if (definition->columns == NULL)
		definition->columns = palloc(sizeof(MosqlDefinitionColumn));
	else
		definition->columns = repalloc(definition->columns, (definition->ncolumns + 1) *
									   sizeof(MosqlDefinitionColumn));
	column = &definition->columns[definition->ncolumns++];
	memset(column, 0, sizeof(*column));
	column->id = stored->column - COLUMN_FIRST;
	return decode_column(stored->value, column);
}

static bool
decode_table_index(MosqlDefinition *definition, const MosqlColumn *stored)
{
	MosqlDefinitionIndex *index;

	if (stored->wire != MOSQL_WIRE_BYTES)
		return false;
	if (definition->indexes == NULL)
		definition->indexes = palloc(sizeof(MosqlDefinitionIndex));
	else
		definition->indexes = repalloc(definition->indexes, (definition->nindexes + 1) *
									   sizeof(MosqlDefinitionIndex));
	index = &definition->indexes[definition->nindexes++];
	memset(index, 0, sizeof(*index));
	index->id = stored->column - INDEX_FIRST;
	return decode_index(stored->value, index);
}

static bool
decode_table_build(MosqlDefinition *definition, const MosqlColumn *stored)
{
	MosqlDefinitionBuild *build;

	if (stored->wire != MOSQL_WIRE_BYTES)
		return false;
	if (definition->builds == NULL)
		definition->builds = palloc(sizeof(MosqlDefinitionBuild));
	else
		definition->builds = repalloc(definition->builds, (definition->nbuilds + 1) *
									  sizeof(MosqlDefinitionBuild));
	build = &definition->builds[definition->nbuilds++];
	memset(build, 0, sizeof(*build));
	build->id = stored->column - BUILD_FIRST;
	return decode_build(stored->value, build);
}

/* Room for one more at the end of an array, zeroed. */
#define APPEND(array, n) \
	((array) = (array) == NULL ? palloc(sizeof(*(array))) \
	 : repalloc((array), ((n) + 1) * sizeof(*(array))), \
	 memset(&(array)[n], 0, sizeof(*(array))), &(array)[(n)++])

static bool
decode_table_reference(MosqlDefinition *definition, const MosqlColumn *stored)
{
	MosqlDefinitionReference *reference;
	MosqlDefinitionReferrer *referrer;

	if (stored->wire != MOSQL_WIRE_BYTES)
		return false;
	if (stored->column < REFERRER_FIRST)
	{
		reference = APPEND(definition->references, definition->nreferences);
		reference->id = stored->column - REFERENCE_FIRST;
		return decode_reference(stored->value, reference);
	}
	referrer = APPEND(definition->referrers, definition->nreferrers);
	referrer->id = stored->column - REFERRER_FIRST;
	return decode_referrer(stored->value, referrer);
}

/* What is said of a column behind the columns themselves; NULL: it is not there. */
static MosqlDefinitionColumn *
column_by_id(MosqlDefinition *definition, uint32 id)
{
	for (int i = 0; i < definition->ncolumns; i++)
		if (definition->columns[i].id == id)
			return &definition->columns[i];
	return NULL;
}

static bool
decode_column_sequence(MosqlDefinition *definition, const MosqlColumn *stored)
{
	MosqlDefinitionColumn *column = column_by_id(definition, stored->column - SEQUENCE_FIRST);

	return stored->wire == MOSQL_WIRE_BYTES && column != NULL &&
		decode_sequence(stored->value, &column->sequence);
}

static bool
decode_column_details(MosqlDefinition *definition, const MosqlColumn *stored)
{
	MosqlDefinitionColumn *column = column_by_id(definition, stored->column - DETAIL_FIRST);

	return stored->wire == MOSQL_WIRE_BYTES && column != NULL &&
		decode_details(stored->value, column);
}

static bool
decode_comment(MosqlDefinition *definition, MosqlBytes stored)
{
	MosqlBytes	text = mosql_text_from_utf8(stored);

	if (text.data == NULL)
		return false;
	definition->comment = pnstrdup(text.data, text.len);
	return true;
}

static bool
decode_field(MosqlDefinition *definition, const MosqlColumn *stored)
{
	static const MosqlWire wires[] = {
		[COLUMN_FORMAT] = MOSQL_WIRE_2,[COLUMN_ID] = MOSQL_WIRE_8,[COLUMN_ROOT] = MOSQL_WIRE_8,
		[COLUMN_FLAGS] = MOSQL_WIRE_4,[COLUMN_NEXT] = MOSQL_WIRE_4,[COLUMN_NAMES] = MOSQL_WIRE_BYTES,
		[COLUMN_COMMENT] = MOSQL_WIRE_BYTES,[COLUMN_CHECKS] = MOSQL_WIRE_BYTES
	};
	MosqlBytes	value = stored->value;

	if (stored->column >= BUILD_FIRST)
		return decode_table_build(definition, stored);
	if (stored->column >= REFERENCE_FIRST)
		return decode_table_reference(definition, stored);
	if (stored->column >= DETAIL_FIRST)
		return decode_column_details(definition, stored);
	if (stored->column >= SEQUENCE_FIRST)
		return decode_column_sequence(definition, stored);
	if (stored->column >= INDEX_FIRST)
		return decode_table_index(definition, stored);
	if (stored->column >= COLUMN_FIRST)
		return decode_table_column(definition, stored);
	if (stored->column == 0 || stored->column >= lengthof(wires) ||
		stored->wire != wires[stored->column])
		return false;
	switch (stored->column)
	{
		case COLUMN_FORMAT:
			check_format(mosql_read_int(value.data, 2), MOSQL_DEFINITION_FORMAT,
						 MOSQL_DEFINITION_FORMAT_ORDER);
			return true;
		case COLUMN_ID:
			definition->id = (uint64) mosql_read_int(value.data, 8);
			return true;
		case COLUMN_ROOT:
			definition->root = (uint64) mosql_read_int(value.data, 8);
			return true;
		case COLUMN_FLAGS:
			definition->hidden_row_id =
				(mosql_read_int(value.data, 4) & FLAG_HIDDEN_ROW_ID) != 0;
			return true;
		case COLUMN_NEXT:
			definition->next_column = (uint32) mosql_read_int(value.data, 4);
			return true;
		case COLUMN_COMMENT:
			return decode_comment(definition, value);
		case COLUMN_CHECKS:
			return decode_checks(value, definition);
		default:
			return get_string(&value, &definition->schema) &&
				get_string(&value, &definition->name) && value.len == 0;
	}
}

MosqlDefinition *
mosql_definition_decode(MosqlBytes bytes, MosqlTimestamp version)
{
	MosqlDefinition *definition = palloc0(sizeof(MosqlDefinition));
	MosqlBytes	in = bytes;
	MosqlColumn stored;
	int			got;

	while ((got = mosql_column_next(&in, &stored)) > 0)
		if (!decode_field(definition, &stored))
			break;
	if (got != 0 || definition->root == 0 || definition->name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged table definition in Redis"),
				 errdetail("The catalog row of table \"%s\" does not decode.",
						   definition->name ? definition->name : "?")));
	definition->version = version;
	definition->bytes = mosql_bytes_copy(CurrentMemoryContext, bytes);
	return definition;
}

/* Of a build only numbers are read: characters may be in an encoding that nobody can
 * convert now. */
MosqlBuildCut
mosql_definition_cut_build(MosqlBytes bytes, uint64 log)
{
	MosqlBuildCut cut = {0};
	MosqlBytes	in = bytes;
	MosqlColumn stored;
	StringInfoData out;
	const char *start = in.data;

	initStringInfo(&out);
	while (mosql_column_next(&in, &stored) > 0)
	{
		MosqlBytes	value = stored.value;
		uint64		flags;
		uint64		its_log;
		uint64		session;
		uint64		root;

		if (stored.column >= BUILD_FIRST && stored.wire == MOSQL_WIRE_BYTES &&
			mosql_varint_get(&value, &flags) && mosql_varint_get(&value, &its_log) &&
			its_log == log && mosql_varint_get(&value, &session) &&
			mosql_varint_get(&value, &flags) && mosql_varint_get(&value, &root))
		{
			cut.found = true;
			cut.session = session;
			cut.root = root;
		}
		else
			appendBinaryStringInfo(&out, start, in.data - start);
		start = in.data;
	}
	cut.bytes = mosql_bytes_of(&out);
	return cut;
}

/* ---- sequences that no column owns ---- */

/* Columns of their rows. */
#define SEQUENCE_COLUMN_FORMAT		1
#define SEQUENCE_COLUMN_SEQUENCE	2
#define SEQUENCE_COLUMN_NAMES		3	/* schema, name, and those it had, oldest first */

void
mosql_named_sequence_encode(MosqlNamedSequence *sequence)
{
	StringInfoData out;
	StringInfoData names;
	ListCell   *cell;

	initStringInfo(&out);
	initStringInfo(&names);
	put_string(&names, sequence->schema);
	put_string(&names, sequence->name);
	foreach(cell, sequence->former)
		put_string(&names, lfirst(cell));
	mosql_column_put_int(&out, SEQUENCE_COLUMN_FORMAT, SEQUENCE_FORMAT, 2);
	mosql_column_put_bytes(&out, SEQUENCE_COLUMN_SEQUENCE, encode_sequence(&sequence->sequence));
	mosql_column_put_bytes(&out, SEQUENCE_COLUMN_NAMES, mosql_bytes_of(&names));
	sequence->bytes = mosql_bytes_of(&out);
}

static bool
decode_names(MosqlBytes in, MosqlNamedSequence *sequence)
{
	const char *name;

	if (!get_string(&in, &sequence->schema) || !get_string(&in, &sequence->name))
		return false;
	while (in.len > 0)
	{
		if (!get_string(&in, &name))
			return false;
		sequence->former = lappend(sequence->former, (void *) name);
	}
	return list_length(sequence->former) % 2 == 0;
}

static bool
decode_sequence_field(const MosqlColumn *stored, MosqlNamedSequence *sequence)
{
	switch (stored->column)
	{
		case SEQUENCE_COLUMN_FORMAT:
			if (stored->wire != MOSQL_WIRE_2)
				return false;
			check_format(mosql_read_int(stored->value.data, 2), SEQUENCE_FORMAT, SEQUENCE_FORMAT);
			return true;
		case SEQUENCE_COLUMN_SEQUENCE:
			return stored->wire == MOSQL_WIRE_BYTES &&
				decode_sequence(stored->value, &sequence->sequence);
		case SEQUENCE_COLUMN_NAMES:
			return stored->wire == MOSQL_WIRE_BYTES && decode_names(stored->value, sequence);
		default:
			return false;
	}
}

MosqlNamedSequence *
mosql_named_sequence_decode(MosqlBytes bytes, MosqlTimestamp version)
{
	MosqlNamedSequence *sequence = palloc0(sizeof(MosqlNamedSequence));
	MosqlBytes	in = bytes;
	MosqlColumn stored;
	int			got;

	while ((got = mosql_column_next(&in, &stored)) > 0)
		if (!decode_sequence_field(&stored, sequence))
			break;
	if (got != 0 || sequence->name == NULL || sequence->sequence.counter == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged definition of a sequence in Redis"),
				 errdetail("The catalog row of sequence \"%s\" does not decode.",
						   sequence->name ? sequence->name : "?")));
	sequence->version = version;
	sequence->bytes = mosql_bytes_copy(CurrentMemoryContext, bytes);
	return sequence;
}
