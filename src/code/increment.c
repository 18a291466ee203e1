/*
 * increment.c: column += delta, as an operation that waits in an intent.
 *
 * Layer: code.  An encoded list of increments is, in ascending column id,
 *
 *     varint (column id << 3 | wire type 1, 2 or 3)
 *     varint delta, zigzag (0, -1, 1, -2 ... become 0, 1, 2, 3 ...)
 *
 * The width is the column's, so that a row whose column has another one by
 * the time of the apply is found to be damaged, not silently cut.
 */
#include "code/code_int.h"

#include "common/int.h"

/* False if it does not fit the width. */
static bool
add(int64 value, int64 delta, int width, int64 *sum)
{
	if (pg_add_s64_overflow(value, delta, sum))
		return false;
	if (width == 8)
		return true;
	return width == 4 ? *sum == (int32) *sum : *sum == (int16) *sum;
}

/*
 * The columns keep their widths, so the new row is a copy with some bytes
 * replaced.  Whatever the result but OK, out is as it was.
 */
MosqlIncrementResult
mosql_columns_increment(StringInfo out, MosqlBytes columns,
						const MosqlIncrement *inc, int ninc)
{
	MosqlBytes	in = columns;
	int			start = out->len;
	char	   *copy = put_bytes(grow(out, columns.len), columns) - columns.len;
	MosqlIncrementResult result = MOSQL_INCREMENT_OK;
	MosqlColumn c;
	int			more;

	while ((more = mosql_column_next(&in, &c)) == 1)
		for (int i = 0; i < ninc; i++)
		{
			char	   *value;
			int64		sum;

			if (inc[i].column != c.column || c.wire == MOSQL_WIRE_NULL)
				continue;
			Assert(inc[i].width == 2 || inc[i].width == 4 || inc[i].width == 8);
			if (c.wire > MOSQL_WIRE_8 || c.value.len != inc[i].width)
			{
				more = -1;
				goto done;
			}
			value = copy + (c.value.data - columns.data);
			if (add(mosql_read_int(value, inc[i].width), inc[i].delta, inc[i].width, &sum))
				for (int at = inc[i].width - 1; at >= 0; at--, sum >>= 8)
					value[at] = (char) sum;
			else
				result = MOSQL_INCREMENT_OVERFLOW;
		}
done:
	if (more == -1)
		result = MOSQL_INCREMENT_DAMAGED;
	if (result != MOSQL_INCREMENT_OK)
	{
		out->len = start;
		out->data[start] = '\0';
	}
	return result;
}

bool
mosql_increment_fits(MosqlBytes columns, const MosqlIncrement *inc, int64 more)
{
	MosqlIncrement sum = *inc;
	StringInfoData out;

	if (pg_add_s64_overflow(sum.delta, more, &sum.delta))
		return false;
	mosql_string_init(&out, columns.len);
	return mosql_columns_increment(&out, columns, &sum, 1) == MOSQL_INCREMENT_OK;
}

static uint64
zigzag(int64 n)
{
	return ((uint64) n << 1) ^ (n < 0 ? PG_UINT64_MAX : 0);
}

static int64
unzigzag(uint64 n)
{
	return (int64) ((n >> 1) ^ ((n & 1) != 0 ? PG_UINT64_MAX : 0));
}

/* The first of the list with a column above `after` (-1: the first of all). */
static const MosqlIncrement *
next_by_column(const MosqlIncrement *inc, int ninc, int64 after)
{
	const MosqlIncrement *best = NULL;

	for (int i = 0; i < ninc; i++)
		if ((int64) inc[i].column > after && (best == NULL || inc[i].column < best->column))
			best = &inc[i];
	return best;
}

/* Any order; each column at most once. */
void
mosql_increments_encode(StringInfo out, const MosqlIncrement *inc, int ninc)
{
	const MosqlIncrement *next;
	int64		after = -1;
	int			written = 0;

	while ((next = next_by_column(inc, ninc, after)) != NULL)
	{
		int			wire = next->width == 2 ? MOSQL_WIRE_2 : next->width == 4 ? MOSQL_WIRE_4 : MOSQL_WIRE_8;

		Assert(next->width == 2 || next->width == 4 || next->width == 8);
		mosql_varint_put(out, (uint64) next->column << 3 | wire);
		mosql_varint_put(out, zigzag(next->delta));
		after = next->column;
		written++;
	}
	Assert(written == ninc);
	(void) written;
}

bool
mosql_increments_decode(MosqlBytes in, MosqlIncrement **inc, int *ninc)
{
	int64		after = -1;
	size_t		max = in.len / 2;	/* two bytes is the least that one takes */

	*ninc = 0;
	*inc = NULL;
	if (in.len > MOSQL_ROW_MAX_BYTES)
		return false;
	*inc = palloc_extended((max + 1) * sizeof(MosqlIncrement), MCXT_ALLOC_HUGE);
	while (in.len > 0)
	{
		MosqlIncrement *next = &(*inc)[*ninc];
		uint64		tag;
		uint64		delta;
		int			wire;

		if (!take_varint(&in, &tag) || tag >> 3 > PG_UINT32_MAX || !take_varint(&in, &delta))
			return false;
		wire = (int) (tag & 7);
		if (wire < MOSQL_WIRE_2 || wire > MOSQL_WIRE_8 || (int64) (tag >> 3) <= after)
			return false;
		*next = (MosqlIncrement) {(uint32) (tag >> 3), 1 << wire, unzigzag(delta)};
		after = next->column;
		(*ninc)++;
	}
	return true;
}
