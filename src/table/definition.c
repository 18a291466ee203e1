/*
 * definition.c: the definition of a table as bytes.
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
#define COLUMN_FIRST	16
#define INDEX_FIRST		(1 << 16)	/* an index with id n is at INDEX_FIRST + n */

#define CATALOG_FORMAT	1

#define FLAG_HIDDEN_ROW_ID	1

#define COLUMN_FLAG_NOT_NULL	1
#define COLUMN_FLAG_DROPPED		2
#define COLUMN_FLAG_MISSING		4	/* the value in rows that lack it follows */

/* More columns than PostgreSQL can have, counting dropped ones. */
#define MAX_COLUMN_ID	(1 << 15)

#define INDEX_FLAG_UNIQUE				1
#define INDEX_FLAG_NULLS_NOT_DISTINCT	2
#define INDEX_FLAG_CONSTRAINT			4

#define INDEX_COLUMN_FLAG_DESCENDING	1
#define INDEX_COLUMN_FLAG_NULLS_FIRST	2

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

static MosqlBytes
encode_column(const MosqlDefinitionColumn *column)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_varint_put(&out, (column->not_null ? COLUMN_FLAG_NOT_NULL : 0) |
					 (column->dropped ? COLUMN_FLAG_DROPPED : 0) |
					 (column->missing.data ? COLUMN_FLAG_MISSING : 0));
	mosql_varint_put(&out, column->key_position + 1);
	put_string(&out, column->name);
	put_string(&out, column->type);
	put_string(&out, column->collation);
	if (column->missing.data != NULL)
		appendBinaryStringInfo(&out, column->missing.data, column->missing.len);
	return mosql_bytes_of(&out);
}

static bool
decode_column(MosqlBytes in, MosqlDefinitionColumn *column)
{
	uint64		flags;
	uint64		position;

	if (!mosql_varint_get(&in, &flags) || !mosql_varint_get(&in, &position) ||
		position > MOSQL_KEY_MAX_COLUMNS)
		return false;
	column->not_null = (flags & COLUMN_FLAG_NOT_NULL) != 0;
	column->dropped = (flags & COLUMN_FLAG_DROPPED) != 0;
	column->key_position = (int) position - 1;
	if (!get_string(&in, &column->name) || !get_string(&in, &column->type) ||
		!get_string(&in, &column->collation))
		return false;
	column->missing = flags & COLUMN_FLAG_MISSING
		? mosql_bytes_copy(CurrentMemoryContext, in) : MOSQL_ABSENT;
	return in.len == 0 || column->missing.data != NULL;
}

static MosqlBytes
encode_index(const MosqlDefinitionIndex *index)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_varint_put(&out, (index->unique ? INDEX_FLAG_UNIQUE : 0) |
					 (index->nulls_not_distinct ? INDEX_FLAG_NULLS_NOT_DISTINCT : 0) |
					 (index->constraint ? INDEX_FLAG_CONSTRAINT : 0));
	mosql_varint_put(&out, index->root);
	put_string(&out, index->name);
	mosql_varint_put(&out, index->nkeys);
	for (int i = 0; i < index->nkeys; i++)
	{
		mosql_varint_put(&out, index->keys[i].column);
		mosql_varint_put(&out, (index->keys[i].descending ? INDEX_COLUMN_FLAG_DESCENDING : 0) |
						 (index->keys[i].nulls_first ? INDEX_COLUMN_FLAG_NULLS_FIRST : 0));
	}
	mosql_varint_put(&out, index->nincluded);
	for (int i = 0; i < index->nincluded; i++)
		mosql_varint_put(&out, index->included[i]);
	return mosql_bytes_of(&out);
}

/* A count or a column id. */
static bool
get_small(MosqlBytes *in, uint64 max, uint64 *value)
{
	return mosql_varint_get(in, value) && *value <= max;
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
	index->nkeys = (int) n;
	index->keys = palloc(n * sizeof(MosqlDefinitionIndexColumn));
	for (int i = 0; i < index->nkeys; i++)
	{
		if (!get_small(&in, MAX_COLUMN_ID, &n) || !mosql_varint_get(&in, &flags))
			return false;
		index->keys[i].column = (uint32) n;
		index->keys[i].descending = (flags & INDEX_COLUMN_FLAG_DESCENDING) != 0;
		index->keys[i].nulls_first = (flags & INDEX_COLUMN_FLAG_NULLS_FIRST) != 0;
	}
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
	return index->root != 0 && in.len == 0;
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
	mosql_column_put_int(&out, COLUMN_FORMAT, CATALOG_FORMAT, 2);
	mosql_column_put_int(&out, COLUMN_ID, (int64) definition->id, 8);
	mosql_column_put_int(&out, COLUMN_ROOT, (int64) definition->root, 8);
	mosql_column_put_int(&out, COLUMN_FLAGS,
						 definition->hidden_row_id ? FLAG_HIDDEN_ROW_ID : 0, 4);
	mosql_column_put_int(&out, COLUMN_NEXT, definition->next_column, 4);
	mosql_column_put_bytes(&out, COLUMN_NAMES, mosql_bytes_of(&names));
	for (int i = 0; i < definition->ncolumns; i++)
		mosql_column_put_bytes(&out, COLUMN_FIRST + definition->columns[i].id,
							   encode_column(&definition->columns[i]));
	for (int i = 0; i < definition->nindexes; i++)
		mosql_column_put_bytes(&out, INDEX_FIRST + definition->indexes[i].id,
							   encode_index(&definition->indexes[i]));
	definition->bytes = mosql_bytes_of(&out);
}

static void
refuse_format(int64 format)
{
	if (format != CATALOG_FORMAT)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table definition in Redis has format " INT64_FORMAT, format),
				 errdetail("This version of mosql_fdw knows format %d.", CATALOG_FORMAT),
				 errhint("Install a newer mosql_fdw on this server.")));
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
decode_field(MosqlDefinition *definition, const MosqlColumn *stored)
{
	static const MosqlWire wires[] = {
		[COLUMN_FORMAT] = MOSQL_WIRE_2,[COLUMN_ID] = MOSQL_WIRE_8,[COLUMN_ROOT] = MOSQL_WIRE_8,
		[COLUMN_FLAGS] = MOSQL_WIRE_4,[COLUMN_NEXT] = MOSQL_WIRE_4,[COLUMN_NAMES] = MOSQL_WIRE_BYTES
	};
	MosqlBytes	value = stored->value;

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
			refuse_format(mosql_read_int(value.data, 2));
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
