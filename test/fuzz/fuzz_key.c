/*
 * fuzz_key.c: keys of several columns.
 *
 * Input: a run that names the columns' encodings (fuzz.h), then two keys, the
 * first as a run.  What decodes must encode to the same bytes, and the order
 * of the bytes must be that of the values.
 */
#include "fuzz.h"

#include <math.h>

#include "code/key.h"

const int	fuzz_errors[] = {0};

#define COLUMNS_MAX 4

typedef enum Kind
{
	INT1, INT2, INT4, INT8, FLOAT4, FLOAT8, FIXED16, BYTES, NUMERIC, NULL_INT, DESCENDING_BYTES,
	INET, BITS, NKINDS
} Kind;

typedef struct Value
{
	Kind		kind;
	int64		integer;
	double		number;
	MosqlBytes	bytes;
	MosqlNumericKind class;
	bool		negative;
	int			weight;
	int			ndigits;
	int16	   *digits;
} Value;

/* Bytes [0, len) of a key's column inverted, as a descending index column has them. */
static MosqlBytes
inverted(MosqlBytes in)
{
	StringInfoData copy;

	initStringInfo(&copy);
	appendBinaryStringInfo(&copy, in.data, (int) in.len);
	mosql_key_invert(&copy, 0);
	return mosql_bytes_of(&copy);
}

static bool
get_bytes(MosqlBytes *in, Value *v)
{
	StringInfoData out;

	initStringInfo(&out);
	if (!mosql_key_get_bytes(in, &out))
		return false;
	v->bytes = mosql_bytes_of(&out);
	return true;
}

static bool
get_bits(MosqlBytes *in, Value *v)
{
	StringInfoData out;

	initStringInfo(&out);
	if (!mosql_key_get_bits(in, &out, &v->integer))
		return false;
	v->bytes = mosql_bytes_of(&out);
	return true;
}

static bool
get_value(MosqlBytes *in, Value *v)
{
	static const int widths[] = {1, 2, 4, 8, 4, 8};
	bool		isnull;
	MosqlBytes	flipped;
	size_t		before;

	switch (v->kind)
	{
		case INT1:
		case INT2:
		case INT4:
		case INT8:
			return mosql_key_get_int(in, widths[v->kind], &v->integer);
		case FLOAT4:
		case FLOAT8:
			return mosql_key_get_float(in, widths[v->kind], &v->number);
		case FIXED16:
			v->bytes.len = 16;
			return mosql_key_get_fixed(in, 16, &v->bytes.data);
		case BYTES:
			return get_bytes(in, v);
		case NUMERIC:
			v->digits = palloc((in->len / 2 + 1) * sizeof(int16));
			return mosql_key_get_numeric(in, &v->class, &v->negative, &v->weight, v->digits,
										 &v->ndigits);
		case NULL_INT:
			if (!mosql_key_get_null(in, false, &isnull))
				return false;
			v->negative = isnull;
			return isnull || mosql_key_get_int(in, 4, &v->integer);
		case INET:
			v->bytes.data = palloc(16);
			return mosql_key_get_inet(in, (uint8 *) unconstify(char *, v->bytes.data), &v->ndigits,
									  &v->weight);
		case BITS:
			return get_bits(in, v);
		default:				/* DESCENDING_BYTES */
			flipped = inverted(*in);
			before = flipped.len;
			if (!get_bytes(&flipped, v))
				return false;
			in->data += before - flipped.len;
			in->len -= before - flipped.len;
			return true;
	}
}

static void
put_value(StringInfo out, const Value *v)
{
	int			start = out->len;

	switch (v->kind)
	{
		case INT1:
			mosql_key_put_int(out, v->integer, 1);
			break;
		case INT2:
			mosql_key_put_int(out, v->integer, 2);
			break;
		case INT4:
			mosql_key_put_int(out, v->integer, 4);
			break;
		case INT8:
			mosql_key_put_int(out, v->integer, 8);
			break;
		case FLOAT4:
			mosql_key_put_float(out, v->number, 4);
			break;
		case FLOAT8:
			mosql_key_put_float(out, v->number, 8);
			break;
		case FIXED16:
			mosql_key_put_fixed(out, v->bytes.data, 16);
			break;
		case BYTES:
			mosql_key_put_bytes(out, v->bytes);
			break;
		case NUMERIC:
			mosql_key_put_numeric(out, v->class, v->negative, v->weight, v->digits, v->ndigits);
			break;
		case NULL_INT:
			mosql_key_put_null(out, v->negative, false);
			if (!v->negative)
				mosql_key_put_int(out, v->integer, 4);
			break;
		case INET:
			mosql_key_put_inet(out, (const uint8 *) v->bytes.data, v->ndigits, v->weight);
			break;
		case BITS:
			mosql_key_put_bits(out, v->bytes, v->integer);
			break;
		default:
			mosql_key_put_bytes(out, v->bytes);
			mosql_key_invert(out, start);
			break;
	}
}

static int
sign(double d)
{
	return (d > 0) - (d < 0);
}

/* -Infinity, finite, Infinity, NaN. */
static int
numeric_class(const Value *v)
{
	return v->class == MOSQL_NUMERIC_NINF ? 0 : v->class == MOSQL_NUMERIC_FINITE ? 1 :
		v->class == MOSQL_NUMERIC_PINF ? 2 : 3;
}

static int
compare_magnitudes(const Value *a, const Value *b)
{
	if (a->weight != b->weight)
		return a->weight < b->weight ? -1 : 1;
	for (int i = 0; i < a->ndigits || i < b->ndigits; i++)
	{
		int			x = i < a->ndigits ? a->digits[i] : 0;
		int			y = i < b->ndigits ? b->digits[i] : 0;

		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

static int
compare_numerics(const Value *a, const Value *b)
{
	int			sa = a->ndigits == 0 ? 0 : a->negative ? -1 : 1;
	int			sb = b->ndigits == 0 ? 0 : b->negative ? -1 : 1;

	if (numeric_class(a) != numeric_class(b) || a->class != MOSQL_NUMERIC_FINITE)
		return numeric_class(a) - numeric_class(b);
	if (sa != sb)
		return sa - sb;
	return sa == 0 ? 0 : sa * compare_magnitudes(a, b);
}

static int
compare_bits(MosqlBytes a, MosqlBytes b, int n)
{
	for (int i = 0; i < n; i++)
	{
		int			x = (uint8) a.data[i / 8] >> (7 - i % 8) & 1;
		int			y = (uint8) b.data[i / 8] >> (7 - i % 8) & 1;

		if (x != y)
			return x - y;
	}
	return 0;
}

/* As network_cmp() and bit_cmp() do it. */
static int
compare_addresses(const Value *a, const Value *b)
{
	int			c = a->ndigits - b->ndigits;

	if (c == 0)
		c = compare_bits(a->bytes, b->bytes, Min(a->weight, b->weight));
	if (c == 0)
		c = a->weight - b->weight;
	return c != 0 ? c : compare_bits(a->bytes, b->bytes, 8 * a->ndigits);
}

static int
compare_bit_strings(const Value *a, const Value *b)
{
	int			c = compare_bits(a->bytes, b->bytes, Min(a->integer, b->integer));

	return c != 0 ? c : sign((double) (a->integer - b->integer));
}

static int
compare_values(const Value *a, const Value *b)
{
	switch (a->kind)
	{
		case FLOAT4:
		case FLOAT8:
			if (isnan(a->number) || isnan(b->number))
				return isnan(a->number) - isnan(b->number);
			return sign(a->number > b->number) - sign(a->number < b->number);
		case FIXED16:
		case BYTES:
			return mosql_bytes_compare(a->bytes, b->bytes);
		case NUMERIC:
			return compare_numerics(a, b);
		case DESCENDING_BYTES:
			return -mosql_bytes_compare(a->bytes, b->bytes);
		case INET:
			return compare_addresses(a, b);
		case BITS:
			return compare_bit_strings(a, b);
		case NULL_INT:
			if (a->negative || b->negative)
				return a->negative - b->negative;
			break;
		default:
			break;
	}
	return (a->integer > b->integer) - (a->integer < b->integer);
}

/* All columns of a key; false if damaged or longer. */
static bool
get_key(MosqlBytes key, const Kind *kinds, int n, Value *values)
{
	MosqlBytes	rest = key;
	StringInfoData out;

	for (int i = 0; i < n; i++)
	{
		values[i] = (Value) {.kind = kinds[i]};
		if (!get_value(&rest, &values[i]))
			return false;
	}
	if (rest.len > 0)
		return false;
	initStringInfo(&out);
	for (int i = 0; i < n; i++)
		put_value(&out, &values[i]);
	MUST(mosql_bytes_equal(mosql_bytes_of(&out), key));
	return true;
}

/* Every key that begins with this one is below what comes after the prefix. */
static void
check_after_prefix(MosqlBytes key)
{
	StringInfoData after;

	initStringInfo(&after);
	appendBinaryStringInfo(&after, key.data, (int) key.len);
	if (mosql_key_after_prefix(&after))
	{
		MUST(mosql_bytes_compare(key, mosql_bytes_of(&after)) < 0);
		MUST(after.len <= key.len && memcmp(after.data, key.data, after.len) != 0);
	}
	else
		for (size_t i = 0; i < key.len; i++)
			MUST((uint8) key.data[i] == 0xFF);
}

void
fuzz_one(MosqlBytes in)
{
	MosqlBytes	names = fuzz_run(&in);
	MosqlBytes	a = fuzz_run(&in);
	MosqlBytes	b = fuzz_tight(in);
	Kind		kinds[COLUMNS_MAX];
	Value		va[COLUMNS_MAX];
	Value		vb[COLUMNS_MAX];
	int			n = Min(names.len, COLUMNS_MAX);
	int			c = 0;

	for (int i = 0; i < n; i++)
		kinds[i] = (uint8) names.data[i] % NKINDS;
	check_after_prefix(a);
	if (!get_key(a, kinds, n, va) || !get_key(b, kinds, n, vb))
		return;
	for (int i = 0; i < n && c == 0; i++)
		c = compare_values(&va[i], &vb[i]);
	MUST(sign(c) == sign(mosql_bytes_compare(a, b)));
}
