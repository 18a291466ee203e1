/*
 * fuzz_values.c: keys and columns of a row as values of their types.
 *
 * Input: a byte that chooses the key's columns, the key as a run (fuzz.h), then
 * the columns.  The table has one column of each type that is decoded without
 * the type's own functions; those are PostgreSQL's.
 */
#include "fuzz.h"

#include "catalog/pg_type.h"
#include "common/pg_lzcompress.h"
#include "utils/date.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "table/table_int.h"

const int	fuzz_errors[] = {ERRCODE_DATA_CORRUPTED, 0};

typedef struct Type
{
	Oid			oid;
	MosqlCodec	codec;
	int			width;
	MosqlKeyClass key_class;
	bool		in_row;			/* also as a key column */
} Type;

static const Type types[] = {
	{INT4OID, MOSQL_CODEC_FIXED, 4, MOSQL_KEY_INT, false},
	{TEXTOID, MOSQL_CODEC_TEXT, 0, MOSQL_KEY_TEXT, false},
	{BOOLOID, MOSQL_CODEC_FIXED, 1, MOSQL_KEY_BOOL, false},
	{CHAROID, MOSQL_CODEC_FIXED, 1, MOSQL_KEY_INT, false},
	{INT2OID, MOSQL_CODEC_FIXED, 2, MOSQL_KEY_INT, false},
	{INT8OID, MOSQL_CODEC_FIXED, 8, MOSQL_KEY_INT, false},
	{FLOAT4OID, MOSQL_CODEC_FIXED, 4, MOSQL_KEY_FLOAT, true},
	{FLOAT8OID, MOSQL_CODEC_FIXED, 8, MOSQL_KEY_FLOAT, true},
	{DATEOID, MOSQL_CODEC_FIXED, 4, MOSQL_KEY_DATE, false},
	{TIMEOID, MOSQL_CODEC_FIXED, 8, MOSQL_KEY_TIME, false},
	{TIMESTAMPTZOID, MOSQL_CODEC_FIXED, 8, MOSQL_KEY_TIMESTAMP, false},
	{UUIDOID, MOSQL_CODEC_UUID, UUID_LEN, MOSQL_KEY_UUID, false},
	{BYTEAOID, MOSQL_CODEC_BYTEA, 0, MOSQL_KEY_BYTEA, false},
	{NAMEOID, MOSQL_CODEC_TEXT, 0, MOSQL_KEY_TEXT, false},
	{INT4OID, MOSQL_CODEC_FIXED, 4, MOSQL_KEY_NUMERIC, true},
	{INT4OID, MOSQL_CODEC_FIXED, 4, MOSQL_KEY_TIMETZ, false},
	{INT4OID, MOSQL_CODEC_FIXED, 4, MOSQL_KEY_INTERVAL, true},
	{INT4OID, MOSQL_CODEC_FIXED, 4, MOSQL_KEY_ARRAY, true},
	{INT4OID, MOSQL_CODEC_FIXED, 4, MOSQL_KEY_RANGE, true}
};

/* What arrays and ranges are made of. */
static MosqlTableColumn part = {
	.type = TEXTOID,.key_class = MOSQL_KEY_TEXT,.codec = MOSQL_CODEC_TEXT
};

#define NTYPES lengthof(types)

static MosqlTableColumn columns[NTYPES];
static AttrNumber key_attnums[NTYPES];
static int16 by_id[NTYPES + 2];

/* Column ids are 1 up, and there is one that was dropped, NTYPES + 1. */
static MosqlTable
make_table(int choice)
{
	MosqlTable	table = {.natts = NTYPES,.columns = columns,.key_attnums = key_attnums,
	.nids = NTYPES + 2,.by_id = by_id};

	by_id[0] = by_id[NTYPES + 1] = -1;
	for (int i = 0; i < NTYPES; i++)
	{
		const Type *type = &types[i];
		bool		is_key = i == choice % (int) NTYPES || (choice >= 128 && i == choice / 8 % (int) NTYPES);

		columns[i] = (MosqlTableColumn) {
			.attnum = i + 1,.id = i + 1,.type = type->oid,.key_class = type->key_class,
			.codec = type->codec,.fixed_width = type->width,.byval = type->codec == MOSQL_CODEC_FIXED,
			.in_row = !is_key || type->in_row,.part = &part
		};
		by_id[i + 1] = i;
		if (is_key)
			key_attnums[table.nkeys++] = i + 1;
	}
	return table;
}

/* Bytes of a value, which all must be there. */
static uint64
touch(const MosqlTableColumn *column, Datum value)
{
	if (column->key_class == MOSQL_KEY_TIMETZ && !column->in_row)
		return ((TimeTzADT *) DatumGetPointer(value))->zone;
	if (column->type == NAMEOID && !column->in_row)
		return strlen(DatumGetCString(value));
	switch (column->codec)
	{
		case MOSQL_CODEC_FIXED:
			return value;
		case MOSQL_CODEC_UUID:
			return fuzz_hash(mosql_bytes(DatumGetPointer(value), UUID_LEN));
		default:
			return fuzz_hash(mosql_bytes(DatumGetPointer(value), VARSIZE(DatumGetPointer(value))));
	}
}

void
fuzz_one(MosqlBytes in)
{
	int			choice = fuzz_byte(&in);
	MosqlBytes	key = fuzz_run(&in);
	MosqlBytes	row = fuzz_tight(in);
	MosqlTable	table = make_table(choice);
	const char *fault = mosql_table_check_row(&table, key, row);
	Datum		values[NTYPES];
	bool		nulls[NTYPES];
	bool		needed[NTYPES];

	for (int i = 0; i < NTYPES; i++)
		needed[i] = (fuzz_hash(row) >> i & 1) != 0;
	if (fault == NULL)
	{
		mosql_table_get_row(&table, key, row, needed, values, nulls);
		for (int i = 0; i < NTYPES; i++)
			MUST(needed[i] || nulls[i]);
	}
	mosql_table_get_row(&table, key, row, NULL, values, nulls);
	MUST(fault == NULL || table.nkeys == 0 || strstr(fault, "key") != NULL);
	for (int i = 0; i < NTYPES; i++)
		if (!nulls[i])
			(void) touch(&columns[i], values[i]);
}
