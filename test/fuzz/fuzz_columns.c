/*
 * fuzz_columns.c: a row's columns, and increments on them.
 *
 * Input: a run of encoded increments (fuzz.h), then columns.
 */
#include "fuzz.h"

#include "code/row.h"

const int	fuzz_errors[] = {0};

static int
width_of(MosqlWire wire)
{
	return 1 << (int) wire;
}

/* Each column written again gives the same bytes; true if all decode. */
static bool
check_columns(MosqlBytes in)
{
	MosqlBytes	rest = in;
	MosqlColumn column;
	StringInfoData out;
	int64		last = -1;
	int			got;

	initStringInfo(&out);
	while ((got = mosql_column_next(&rest, &column)) == 1)
	{
		MUST((int64) column.column > last);
		last = column.column;
		MUST(column.value.data >= in.data && column.value.data + column.value.len <= in.data + in.len);
		if (column.wire == MOSQL_WIRE_BYTES)
			mosql_column_put_bytes(&out, column.column, column.value);
		else if (column.wire == MOSQL_WIRE_COMPRESSED)
			mosql_column_put_compressed(&out, column.column, column.value);
		else if (column.wire == MOSQL_WIRE_16)
			mosql_column_put_fixed(&out, column.column, column.value.data, 16);
		else if (column.wire == MOSQL_WIRE_NULL)
			mosql_column_put_null(&out, column.column);
		else
			mosql_column_put_int(&out, column.column,
								 mosql_read_int(column.value.data, width_of(column.wire)),
								 width_of(column.wire));
	}
	if (got == 0)
		MUST(mosql_bytes_equal(mosql_bytes_of(&out), in));
	return got == 0;
}

/* There and back is where we were. */
static void
check_increments(MosqlBytes columns, bool sound, const MosqlIncrement *inc, int ninc)
{
	MosqlIncrement *back = palloc((ninc + 1) * sizeof(MosqlIncrement));
	StringInfoData out;
	StringInfoData out2;
	MosqlIncrementResult result;

	initStringInfo(&out);
	initStringInfo(&out2);
	result = mosql_columns_increment(&out, columns, inc, ninc);
	if (!sound)
		MUST(result == MOSQL_INCREMENT_DAMAGED);
	if (result != MOSQL_INCREMENT_OK)
	{
		MUST(out.len == 0);
		return;
	}
	MUST(out.len == columns.len && check_columns(mosql_bytes_of(&out)));
	for (int i = 0; i < ninc; i++)
	{
		if (inc[i].delta == PG_INT64_MIN)
			return;
		back[i] = inc[i];
		back[i].delta = -inc[i].delta;
	}
	MUST(mosql_columns_increment(&out2, mosql_bytes_of(&out), back, ninc) == MOSQL_INCREMENT_OK);
	MUST(mosql_bytes_equal(mosql_bytes_of(&out2), columns));
}

void
fuzz_one(MosqlBytes in)
{
	MosqlBytes	encoded = fuzz_run(&in);
	MosqlBytes	columns = fuzz_tight(in);
	bool		sound = check_columns(columns);
	MosqlIncrement *inc;
	int			ninc;
	StringInfoData out;

	if (!mosql_increments_decode(encoded, &inc, &ninc))
		return;
	initStringInfo(&out);
	mosql_increments_encode(&out, inc, ninc);
	MUST(mosql_bytes_equal(mosql_bytes_of(&out), encoded));
	check_increments(columns, sound, inc, ninc);
}
