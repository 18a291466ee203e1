/*
 * test_row.c: varints, columns, increments.
 */
#include "bytes.h"

#include "code/row.h"
#include "common/int.h"

/* ---- varint ---- */

static bool
decode_varint(MosqlBytes in)
{
	uint64		value;
	MosqlBytes	all = in;
	StringInfoData again;

	if (!mosql_varint_get(&in, &value))
		return false;
	initStringInfo(&again);
	mosql_varint_put(&again, value);
	CHECK(mosql_bytes_equal(mosql_bytes_of(&again), mosql_bytes(all.data, all.len - in.len)));
	return in.len == 0;
}

static void
test_varint(void)
{
	StringInfoData buf;
	uint64		back;

	initStringInfo(&buf);
	for (int i = 0; i < 20000; i++)
	{
		uint64		value = i < 1000 ? (uint64) i : i == 1000 ? PG_UINT64_MAX : random_magnitude();
		MosqlBytes	in;

		resetStringInfo(&buf);
		mosql_varint_put(&buf, value);
		in = tight(mosql_bytes_of(&buf));
		if (!mosql_varint_get(&in, &back) || back != value || in.len != 0)
			CHECK(!"varint comes back");
		if (i % 100 == 0)
			CHECK_INT(damage(mosql_bytes_of(&buf), decode_varint), 0);
	}
	CHECK(!decode_varint(mosql_bytes("\x80\x00", 2)));	/* 0 in two bytes */
	CHECK(!decode_varint(mosql_bytes("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 10)));
	CHECK(!decode_varint(mosql_bytes("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11)));
	CHECK(decode_varint(mosql_bytes("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 10)));
	CHECK(!decode_varint(MOSQL_ABSENT));
	damage_random(MOSQL_ABSENT, 50000, decode_varint);
}

/* ---- columns ---- */

#define MAX_COLUMNS 8

typedef struct Row
{
	int			n;
	MosqlColumn columns[MAX_COLUMNS];
} Row;

static void
random_row(Row *row, StringInfo out)
{
	int64		id = -1;
	static const int widths[] = {1, 2, 4, 8, 16};

	row->n = random_below(MAX_COLUMNS + 1);
	for (int i = 0; i < row->n; i++)
	{
		MosqlColumn *c = &row->columns[i];

		id += 1 + (random_below(5) ? random_below(3) : random_below(100000000));
		c->column = (uint32) id;
		c->wire = (MosqlWire) random_below(8);
		if (c->wire <= MOSQL_WIRE_16)
		{
			char	   *p = palloc(16);

			for (int j = 0; j < 16; j++)
				p[j] = (char) random_bits();
			c->value = mosql_bytes(p, widths[c->wire]);
			if (c->wire <= MOSQL_WIRE_8 && random_below(2))
				mosql_column_put_int(out, c->column, mosql_read_int(p, widths[c->wire]), widths[c->wire]);
			else
				mosql_column_put_fixed(out, c->column, p, widths[c->wire]);
		}
		else if (c->wire == MOSQL_WIRE_NULL)
		{
			c->value = mosql_bytes("", 0);
			mosql_column_put_null(out, c->column);
		}
		else
		{
			c->value = random_string(random_below(20) ? 5 : 300);
			if (c->wire == MOSQL_WIRE_BYTES)
				mosql_column_put_bytes(out, c->column, c->value);
			else
				mosql_column_put_compressed(out, c->column, c->value);
		}
	}
}

static bool
decode_columns(MosqlBytes in)
{
	MosqlBytes	all = in;
	MosqlColumn c;
	int64		last = -1;
	int			more;

	while ((more = mosql_column_next(&in, &c)) == 1)
	{
		CHECK((int64) c.column > last);
		last = c.column;
		CHECK(c.value.data >= all.data && c.value.data + c.value.len <= all.data + all.len);
		for (size_t i = 0; i < c.value.len; i++)
			(void) ((volatile const char *) c.value.data)[i];
	}
	return more == 0;
}

static void
test_columns(void)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < 3000; i++)
	{
		Row			row;
		MosqlBytes	in;
		MosqlColumn c;
		int			wrong = 0;
		int			accepted;

		resetStringInfo(&buf);
		random_row(&row, &buf);
		in = tight(mosql_bytes_of(&buf));
		for (int j = 0; j < row.n; j++)
			wrong += mosql_column_next(&in, &c) != 1 || c.column != row.columns[j].column ||
				c.wire != row.columns[j].wire || !mosql_bytes_equal(c.value, row.columns[j].value);
		wrong += mosql_column_next(&in, &c) != 0;
		if (wrong)
			CHECK(!"columns come back");
		if (i < 200)
		{
			/* only what ends with a column is a row */
			accepted = damage(mosql_bytes_of(&buf), decode_columns);
			CHECK_INT(accepted, row.n);
		}
	}
	damage_random(MOSQL_ABSENT, 100000, decode_columns);
}

static void
test_column_damage(void)
{
	static const struct
	{
		const char *bytes;
		int			n;
	}			bad[] = {
		{"\x08\x01\x08\x02", 4},	/* the same column twice */
		{"\x10\x01\x08\x02", 4},	/* descending */
		{"\x0F\x01", 2},		/* null, then descending */
		{"\x0D\x05\x61", 3},	/* shorter than it says */
		{"\x0D\xFF\xFF\xFF\xFF\x0F", 6},
		{"\x0D\x80\x00", 3},	/* a length in a longer form */
		{"\x80\x80\x80\x80\x80\x02\x01", 7},	/* column id of 33 bits */
		{"\x0A\x01\x02\x03", 4}
	};

	for (int i = 0; i < lengthof(bad); i++)
		CHECK(!decode_columns(tight(mosql_bytes(bad[i].bytes, bad[i].n))));
	CHECK(decode_columns(mosql_bytes("\x08\x01\x10\x02", 4)));
	CHECK(decode_columns(MOSQL_ABSENT));
}

static void
test_read_int(void)
{
	CHECK_INT(mosql_read_int("\xFF", 1), -1);
	CHECK_INT(mosql_read_int("\x80\x00", 2), PG_INT16_MIN);
	CHECK_INT(mosql_read_int("\x7F\xFF\xFF\xFF", 4), PG_INT32_MAX);
	CHECK_INT(mosql_read_int("\x80\x00\x00\x00\x00\x00\x00\x00", 8), PG_INT64_MIN);
	CHECK_INT(mosql_read_int("\x00\x00\x00\x00\x00\x00\x01\x02", 8), 258);
}

/* ---- increments ---- */

static int64
random_delta(void)
{
	int64		n = (int64) (random_magnitude() >> 1);

	return random_below(2) ? n : -n - random_below(2);
}

static int64
min_of(int width)
{
	return width == 2 ? PG_INT16_MIN : width == 4 ? PG_INT32_MIN : PG_INT64_MIN;
}

static int64
max_of(int width)
{
	return width == 2 ? PG_INT16_MAX : width == 4 ? PG_INT32_MAX : PG_INT64_MAX;
}

/* Against the columns written from the sums. */
static void
test_increment(void)
{
	StringInfoData row,
				expected,
				out;
	int			seen[3] = {0};

	initStringInfo(&row);
	initStringInfo(&expected);
	initStringInfo(&out);
	for (int i = 0; i < 50000; i++)
	{
		MosqlIncrement inc[4];
		int			ninc = 0;
		MosqlIncrementResult result = MOSQL_INCREMENT_OK;
		MosqlIncrementResult got;

		resetStringInfo(&row);
		resetStringInfo(&expected);
		resetStringInfo(&out);
		appendStringInfoString(&out, "before");
		for (uint32 column = 1; column <= 4; column++)
		{
			int			width = 2 << random_below(3);
			int64		value = random_delta() % max_of(width);
			int64		sum = value;
			bool		isnull = random_below(5) == 0;

			if (random_below(2))
			{
				inc[ninc++] = (MosqlIncrement) {column, width, random_delta() >> random_below(64)};
				if (random_below(20) == 0)
					inc[ninc - 1].delta = random_below(2) ? PG_INT64_MIN : PG_INT64_MAX;
				if (!isnull && (pg_add_s64_overflow(value, inc[ninc - 1].delta, &sum) ||
								sum < min_of(width) || sum > max_of(width)))
				{
					result = MOSQL_INCREMENT_OVERFLOW;
					sum = 0;
				}
			}
			if (isnull)
				continue;
			mosql_column_put_int(&row, column, value, width);
			mosql_column_put_int(&expected, column, sum, width);
		}
		if (ninc == 2 && random_below(2))	/* the order does not matter */
		{
			MosqlIncrement first = inc[0];

			inc[0] = inc[1];
			inc[1] = first;
		}
		got = mosql_columns_increment(&out, mosql_bytes_of(&row), inc, ninc);
		seen[got]++;
		if (got != result || memcmp(out.data, "before", 6) != 0 ||
			!mosql_bytes_equal(mosql_bytes(out.data + 6, out.len - 6),
							   got == MOSQL_INCREMENT_OK ? mosql_bytes_of(&expected) : MOSQL_ABSENT))
			CHECK(!"increment is addition");
	}
	CHECK(seen[0] > 1000 && seen[1] > 1000 && seen[2] == 0);
}

static void
test_increment_damage(void)
{
	StringInfoData row,
				out;
	MosqlIncrement inc = {2, 4, 1};

	initStringInfo(&row);
	initStringInfo(&out);
	mosql_column_put_int(&row, 2, 7, 8);	/* another width */
	CHECK_INT(mosql_columns_increment(&out, mosql_bytes_of(&row), &inc, 1), MOSQL_INCREMENT_DAMAGED);
	resetStringInfo(&row);
	mosql_column_put_bytes(&row, 2, mosql_bytes("1234", 4));	/* not an integer */
	CHECK_INT(mosql_columns_increment(&out, mosql_bytes_of(&row), &inc, 1), MOSQL_INCREMENT_DAMAGED);
	resetStringInfo(&row);
	mosql_column_put_int(&row, 2, 7, 4);
	appendStringInfoChar(&row, (char) 0xFF);	/* damaged behind the column */
	CHECK_INT(mosql_columns_increment(&out, mosql_bytes_of(&row), &inc, 1), MOSQL_INCREMENT_DAMAGED);
	CHECK_INT(out.len, 0);
	CHECK_INT(mosql_columns_increment(&out, MOSQL_ABSENT, &inc, 1), MOSQL_INCREMENT_OK);
	CHECK_INT(out.len, 0);
}

static bool
decode_increments(MosqlBytes in)
{
	MosqlIncrement *inc;
	int			ninc;
	StringInfoData again;

	if (!mosql_increments_decode(in, &inc, &ninc))
		return false;
	initStringInfo(&again);
	mosql_increments_encode(&again, inc, ninc);
	CHECK(mosql_bytes_equal(mosql_bytes_of(&again), in));
	return true;
}

static void
test_increment_list(void)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < 5000; i++)
	{
		MosqlIncrement inc[5];
		MosqlIncrement *back;
		int			n = random_below(6);
		int			nback;
		int			wrong = 0;

		for (int j = 0; j < n; j++)
			inc[j] = (MosqlIncrement) {(j == 0 ? 0 : inc[j - 1].column + 1) + random_below(1000),
					2 << random_below(3), random_delta()};
		resetStringInfo(&buf);
		mosql_increments_encode(&buf, inc, n);
		wrong += !mosql_increments_decode(tight(mosql_bytes_of(&buf)), &back, &nback) || nback != n;
		for (int j = 0; j < n && wrong == 0; j++)
			wrong += back[j].column != inc[j].column || back[j].width != inc[j].width ||
				back[j].delta != inc[j].delta;
		if (n >= 2 && wrong == 0)
		{
			StringInfoData other;
			MosqlIncrement last = inc[n - 1];

			memmove(inc + 1, inc, (n - 1) * sizeof(MosqlIncrement));
			inc[0] = last;
			initStringInfo(&other);
			mosql_increments_encode(&other, inc, n);
			wrong += !mosql_bytes_equal(mosql_bytes_of(&other), mosql_bytes_of(&buf));
		}
		if (wrong)
			CHECK(!"increments come back");
		if (i < 200)
			CHECK_INT(damage(mosql_bytes_of(&buf), decode_increments), n);
	}
	CHECK(!decode_increments(mosql_bytes("\x0A\x02\x0A\x02", 4)));	/* column twice */
	CHECK(!decode_increments(mosql_bytes("\x08\x02", 2)));	/* one byte wide */
	CHECK(!decode_increments(mosql_bytes("\x0D\x02", 2)));
	damage_random(MOSQL_ABSENT, 50000, decode_increments);
}

/* A token differs from version to version, and of a tagged row from content to content. */
static void
test_token(void)
{
	StringInfoData buf;
	StringInfoData added;
	MosqlIncrement inc = {.column = 1,.width = 4,.delta = 1};
	uint32		token;

	initStringInfo(&buf);
	initStringInfo(&added);
	mosql_column_put_int(&buf, 1, 9, 4);
	CHECK(!mosql_row_is_tagged(mosql_bytes_of(&buf)));
	CHECK(!mosql_row_is_tagged(MOSQL_ABSENT));
	CHECK_INT(mosql_row_token(UINT64CONST(0x12345678abcdef), mosql_bytes_of(&buf)), 0x78abcdef);
	CHECK_INT(mosql_row_token(UINT64CONST(0x12345678abcdee), MOSQL_ABSENT), 0x78abcdee);
	for (uint64 low = 0; low < 3; low++)
		CHECK_INT(mosql_row_token(UINT64CONST(1) << 40 | low, MOSQL_ABSENT), low + 3);

	mosql_row_tag(&buf, 0x80000001);
	CHECK(mosql_row_is_tagged(mosql_bytes_of(&buf)));
	token = mosql_row_token(1000, mosql_bytes_of(&buf));
	CHECK_INT(mosql_row_token(2000, mosql_bytes_of(&buf)), token);
	CHECK(mosql_columns_increment(&added, mosql_bytes_of(&buf), &inc, 1) == MOSQL_INCREMENT_OK);
	CHECK(mosql_row_is_tagged(mosql_bytes_of(&added)));
	CHECK(mosql_row_token(2000, mosql_bytes_of(&added)) != token);
	resetStringInfo(&buf);
	mosql_column_put_int(&buf, 1, 9, 4);
	mosql_row_tag(&buf, 0x80000002);
	CHECK(mosql_row_token(1000, mosql_bytes_of(&buf)) != token);
}

int
main(void)
{
	RUN(test_token);
	RUN(test_varint);
	RUN(test_columns);
	RUN(test_column_damage);
	RUN(test_read_int);
	RUN(test_increment);
	RUN(test_increment_damage);
	RUN(test_increment_list);
	return unit_finish();
}
