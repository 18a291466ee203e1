/*
 * test_key.c: keys are ordered as their values are, cannot run into each other,
 * and come back.
 */
#include "bytes.h"

#include <math.h>

#include "code/key.h"

static StringInfoData key_a,
			key_b;

static MosqlBytes
reset(StringInfo key)
{
	if (key->data == NULL)
		initStringInfo(key);
	resetStringInfo(key);
	return mosql_bytes_of(key);
}

static void
setup(void)
{
	initStringInfo(&key_a);
	initStringInfo(&key_b);
}

/* ---- integers ---- */

static void
test_int(void)
{
	static const int widths[] = {1, 2, 4, 8};

	setup();
	for (int w = 0; w < 4; w++)
	{
		int			unused = 64 - 8 * widths[w];
		int			wrong = 0;

		for (int i = 0; i < 20000; i++)
		{
			int64		a = (int64) (random_bits() << unused) >> unused >> random_below(64 - unused);
			int64		b = random_below(4) ? (int64) (random_bits() << unused) >> unused : a;
			int64		back;
			MosqlBytes	in;

			reset(&key_a);
			reset(&key_b);
			mosql_key_put_int(&key_a, a, widths[w]);
			mosql_key_put_int(&key_b, b, widths[w]);
			wrong += key_a.len != widths[w];
			wrong += sign(mosql_bytes_compare(mosql_bytes_of(&key_a), mosql_bytes_of(&key_b))) !=
				(a > b) - (a < b);
			in = tight(mosql_bytes_of(&key_a));
			wrong += !mosql_key_get_int(&in, widths[w], &back) || back != a || in.len != 0;
			in = tight(mosql_bytes(key_a.data, widths[w] - 1));
			wrong += mosql_key_get_int(&in, widths[w], &back);
		}
		CHECK_INT(wrong, 0);
	}
}

/* All values of one byte, and the ends of the others. */
static void
test_int_ends(void)
{
	static const int64 ends[][2] = {
		{PG_INT8_MIN, PG_INT8_MAX}, {PG_INT16_MIN, PG_INT16_MAX},
		{PG_INT32_MIN, PG_INT32_MAX}, {PG_INT64_MIN, PG_INT64_MAX}
	};

	setup();
	for (int i = -128; i < 127; i++)
	{
		reset(&key_a);
		reset(&key_b);
		mosql_key_put_int(&key_a, i, 1);
		mosql_key_put_int(&key_b, i + 1, 1);
		CHECK(mosql_bytes_compare(mosql_bytes_of(&key_a), mosql_bytes_of(&key_b)) < 0);
	}
	for (int w = 0; w < 4; w++)
		for (int e = 0; e < 2; e++)
		{
			MosqlBytes	in;
			int64		back;

			reset(&key_a);
			mosql_key_put_int(&key_a, ends[w][e], 1 << w);
			in = mosql_bytes_of(&key_a);
			CHECK(mosql_key_get_int(&in, 1 << w, &back) && back == ends[w][e]);
			for (int i = 0; i < 1 << w; i++)
				CHECK_INT((uint8) key_a.data[i], e ? 0xFF : 0);
		}
}

/* ---- floats ---- */

static double
random_float(int width)
{
	static const double special[] = {
		0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, -NAN, 1e-320, -1e-320, 1e308, -1e308, 1.5
	};
	union
	{
		uint64		i;
		double		d;
	}			bits;

	if (random_below(3) == 0)
		bits.d = special[random_below(lengthof(special))];
	else
		bits.i = random_bits();
	return width == 4 ? (double) (float) bits.d : bits.d;
}

/* As btfloat8cmp orders them. */
static int
compare_floats(double a, double b)
{
	if (isnan(a) || isnan(b))
		return !!isnan(a) - !!isnan(b);
	return (a > b) - (a < b);
}

static bool
decode_float8(MosqlBytes in)
{
	double		d;
	MosqlBytes	all = in;

	if (!mosql_key_get_float(&in, 8, &d))
		return false;
	/* one value, one encoding */
	reset(&key_a);
	mosql_key_put_float(&key_a, d, 8);
	CHECK(memcmp(key_a.data, all.data, 8) == 0);
	return in.len == 0;
}

static bool
decode_float4(MosqlBytes in)
{
	double		d;
	MosqlBytes	all = in;

	if (!mosql_key_get_float(&in, 4, &d))
		return false;
	reset(&key_a);
	mosql_key_put_float(&key_a, d, 4);
	CHECK(memcmp(key_a.data, all.data, 4) == 0);
	return in.len == 0;
}

static void
test_float(void)
{
	setup();
	for (int width = 4; width <= 8; width += 4)
	{
		int			wrong = 0;

		for (int i = 0; i < 50000; i++)
		{
			double		a = random_float(width);
			double		b = random_float(width);
			double		back;
			MosqlBytes	in;

			reset(&key_a);
			reset(&key_b);
			mosql_key_put_float(&key_a, a, width);
			mosql_key_put_float(&key_b, b, width);
			wrong += sign(mosql_bytes_compare(mosql_bytes_of(&key_a), mosql_bytes_of(&key_b))) !=
				compare_floats(a, b);
			in = mosql_bytes_of(&key_a);
			wrong += !mosql_key_get_float(&in, width, &back) || compare_floats(back, a) != 0 ||
				(a == 0 && signbit(back)) || in.len != 0;
		}
		CHECK_INT(wrong, 0);
	}
	damage_random(MOSQL_ABSENT, 20000, decode_float8);
	damage_random(mosql_bytes("\xFF\xF8", 2), 20000, decode_float8);
	damage_random(mosql_bytes("\x00\x07\xFF", 3), 20000, decode_float8);
	damage_random(MOSQL_ABSENT, 20000, decode_float4);
	damage_random(mosql_bytes("\xFF\xC0", 2), 20000, decode_float4);
}

/* ---- strings ---- */

static bool
decode_string(MosqlBytes in)
{
	StringInfoData value;
	MosqlBytes	all = in;
	bool		ok;

	initStringInfo(&value);
	ok = mosql_key_get_bytes(&in, &value);
	if (ok)
	{
		reset(&key_a);
		mosql_key_put_bytes(&key_a, mosql_bytes_of(&value));
		CHECK(mosql_bytes_equal(mosql_bytes_of(&key_a), mosql_bytes(all.data, all.len - in.len)));
	}
	return ok && in.len == 0;
}

static void
test_bytes(void)
{
	int			wrong = 0;

	setup();
	for (int i = 0; i < 50000; i++)
	{
		MosqlBytes	a = random_string(5);
		MosqlBytes	b = random_string(5);
		StringInfoData back;
		MosqlBytes	in;

		reset(&key_a);
		reset(&key_b);
		mosql_key_put_bytes(&key_a, a);
		mosql_key_put_bytes(&key_b, b);
		wrong += sign(mosql_bytes_compare(mosql_bytes_of(&key_a), mosql_bytes_of(&key_b))) !=
			sign(mosql_bytes_compare(a, b));
		in = tight(mosql_bytes_of(&key_a));
		initStringInfo(&back);
		wrong += !mosql_key_get_bytes(&in, &back) || in.len != 0 ||
			!mosql_bytes_equal(mosql_bytes_of(&back), a);
		if (i < 300)
			CHECK_INT(damage(mosql_bytes_of(&key_a), decode_string), 0);
		pfree(back.data);
	}
	CHECK_INT(wrong, 0);
	damage_random(MOSQL_ABSENT, 20000, decode_string);
}

/* "starts with": a string has the prefix if and only if it is in the range. */
static void
test_prefix_range(void)
{
	int			wrong = 0;
	StringInfoData key;

	setup();
	initStringInfo(&key);
	for (int i = 0; i < 50000; i++)
	{
		MosqlBytes	prefix = random_string(3);
		MosqlBytes	value = random_string(5);
		bool		starts = value.len >= prefix.len &&
			(prefix.len == 0 || memcmp(value.data, prefix.data, prefix.len) == 0);
		bool		bounded;
		bool		in_range;

		reset(&key_a);
		reset(&key_b);
		resetStringInfo(&key);
		mosql_key_put_prefix(&key_a, prefix);
		mosql_key_put_prefix(&key_b, prefix);
		bounded = mosql_key_after_prefix(&key_b);
		mosql_key_put_bytes(&key, value);
		in_range = mosql_bytes_compare(mosql_bytes_of(&key), mosql_bytes_of(&key_a)) >= 0 &&
			(!bounded || mosql_bytes_compare(mosql_bytes_of(&key), mosql_bytes_of(&key_b)) < 0);
		wrong += starts != in_range;
	}
	CHECK_INT(wrong, 0);
}

static void
test_after_prefix(void)
{
	setup();
	CHECK(!mosql_key_after_prefix(&key_a));
	appendBinaryStringInfo(&key_a, "\xFF\xFF", 2);
	CHECK(!mosql_key_after_prefix(&key_a));
	CHECK_INT(key_a.len, 2);
	reset(&key_a);
	appendBinaryStringInfo(&key_a, "a\xFE\xFF\xFF", 4);
	CHECK(mosql_key_after_prefix(&key_a));
	CHECK_STR(hex(mosql_bytes_of(&key_a)), "61 ff");
	CHECK(mosql_key_after_prefix(&key_a));
	CHECK_STR(hex(mosql_bytes_of(&key_a)), "62");
}

/* ---- numeric ---- */

/* value = sum of digits[i] * 10000^(weight - i), negated where negative */
typedef struct Numeric
{
	MosqlNumericKind kind;
	bool		negative;
	int			weight;
	int			n;
	int16		digits[6];
} Numeric;

static Numeric
random_numeric(void)
{
	static const int16 digits[] = {0, 0, 1, 2, 9999, 5000, 4999};
	Numeric		v = {MOSQL_NUMERIC_FINITE};
	int			r = random_below(40);

	if (r < 3)
		v.kind = r == 0 ? MOSQL_NUMERIC_NAN : r == 1 ? MOSQL_NUMERIC_PINF : MOSQL_NUMERIC_NINF;
	v.negative = random_below(2);
	v.weight = random_below(7) - 3;
	switch (random_below(8))
	{
		case 0:
			v.weight += 61;
			break;
		case 1:
			v.weight -= 61;
			break;
		case 2:
			v.weight = random_below(60000) - 30000;
			break;
	}
	v.n = random_below(lengthof(v.digits) + 1);
	for (int i = 0; i < v.n; i++)
		v.digits[i] = digits[random_below(lengthof(digits))];
	return v;
}

static int
digit_at(const Numeric *v, int weight)
{
	int			i = v->weight - weight;

	return i >= 0 && i < v->n ? v->digits[i] : 0;
}

/* By the definition, digit by digit, without any normalisation. */
static int
compare_magnitudes(const Numeric *a, const Numeric *b)
{
	int			tops[2] = {Max(a->weight, b->weight), Min(a->weight, b->weight)};

	/* where the digits of the one and of the other are */
	for (int t = 0; t < 2; t++)
		for (int w = tops[t]; w > tops[t] - 7; w--)
			if (digit_at(a, w) != digit_at(b, w))
				return digit_at(a, w) > digit_at(b, w) ? 1 : -1;
	return 0;
}

static int
rank(const Numeric *v)
{
	switch (v->kind)
	{
		case MOSQL_NUMERIC_NINF:
			return 0;
		case MOSQL_NUMERIC_PINF:
			return 2;
		case MOSQL_NUMERIC_NAN:
			return 3;
		default:
			return 1;
	}
}

static bool
is_zero(const Numeric *v)
{
	for (int i = 0; i < v->n; i++)
		if (v->digits[i] != 0)
			return false;
	return true;
}

static int
numeric_sign(const Numeric *v)
{
	return is_zero(v) ? 0 : v->negative ? -1 : 1;
}

static int
compare_numerics(const Numeric *a, const Numeric *b)
{
	if (rank(a) != rank(b) || rank(a) != 1)
		return sign(rank(a) - rank(b));
	if (numeric_sign(a) != numeric_sign(b))
		return sign(numeric_sign(a) - numeric_sign(b));
	return numeric_sign(a) * compare_magnitudes(a, b);
}

static void
put_numeric(StringInfo out, const Numeric *v)
{
	mosql_key_put_numeric(out, v->kind, v->negative, v->weight, v->digits, v->n);
}

static bool
decode_numeric(MosqlBytes in)
{
	return mosql_key_skip_numeric(&in) && in.len == 0;
}

static void
test_numeric(void)
{
	int			wrong = 0;

	setup();
	for (int i = 0; i < 300000; i++)
	{
		Numeric		a = random_numeric();
		Numeric		b = random_numeric();
		MosqlBytes	in;

		if (random_below(2))	/* near each other */
		{
			b = a;
			if (random_below(2) && b.n > 0)
				b.digits[random_below(b.n)] = (int16) random_below(3);
			else if (b.n > 0)
				b.n--;
		}
		reset(&key_a);
		reset(&key_b);
		put_numeric(&key_a, &a);
		put_numeric(&key_b, &b);
		wrong += sign(mosql_bytes_compare(mosql_bytes_of(&key_a), mosql_bytes_of(&key_b))) !=
			compare_numerics(&a, &b);
		/* nobody is a proper prefix of somebody else */
		wrong += key_a.len < key_b.len && memcmp(key_a.data, key_b.data, key_a.len) == 0;
		in = mosql_bytes_of(&key_a);
		wrong += !mosql_key_skip_numeric(&in) || in.len != 0;
		if (i < 500)
			CHECK_INT(damage(mosql_bytes_of(&key_a), decode_numeric), 0);
	}
	CHECK_INT(wrong, 0);
	damage_random(MOSQL_ABSENT, 50000, decode_numeric);
}

/* Same value, same bytes: 1, 1.0, 1.00000, 0001. */
static void
test_numeric_scale(void)
{
	static const int16 digits[] = {0, 0, 1, 0, 0};

	setup();
	for (int lead = 0; lead <= 2; lead++)
		for (int trail = 0; trail <= 2; trail++)
		{
			reset(&key_a);
			mosql_key_put_numeric(&key_a, MOSQL_NUMERIC_FINITE, false, lead,
								  digits + 2 - lead, lead + 1 + trail);
			CHECK_STR(hex(mosql_bytes_of(&key_a)), "bf 00 02");
		}
	reset(&key_a);
	mosql_key_put_numeric(&key_a, MOSQL_NUMERIC_FINITE, true, 5, digits, 2);
	CHECK_STR(hex(mosql_bytes_of(&key_a)), "80");
}

/* Encodings that put does not write. */
static void
test_numeric_damage(void)
{
	static const struct
	{
		const char *bytes;
		int			n;
	}			bad[] = {
		{"\x00", 1}, {"\x7F", 1},
		{"\xBF\x00\x00", 3},	/* leading zero */
		{"\xBF\x00\x03\x00\x00", 5},	/* trailing zero */
		{"\xBF\x4E\x20", 3},	/* digit 10000 */
		{"\xFD\x80\x00\x00\x02", 5},	/* a small weight in the long form */
		{"\xFD\x80\x3D\x00\x02", 5},
		{"\x81\x7F\xC3\x00\x02", 5},
		{"\x40\xFF\xFF", 3}		/* -0 */
	};
	MosqlBytes	good = mosql_bytes("\xFD\x80\x3E\x00\x02", 5);

	for (int i = 0; i < lengthof(bad); i++)
		CHECK(!decode_numeric(mosql_bytes(bad[i].bytes, bad[i].n)));
	CHECK(decode_numeric(good));
}

/* ---- null, descending, several columns ---- */

static void
test_null(void)
{
	bool		isnull;
	MosqlBytes	in;

	for (int first = 0; first < 2; first++)
	{
		setup();
		mosql_key_put_null(&key_a, true, first);
		mosql_key_put_null(&key_b, false, first);
		CHECK((mosql_bytes_compare(mosql_bytes_of(&key_a), mosql_bytes_of(&key_b)) < 0) == first);
		in = mosql_bytes_of(&key_a);
		CHECK(mosql_key_get_null(&in, first, &isnull) && isnull && in.len == 0);
		CHECK(!mosql_key_get_null(&in, first, &isnull));
		in = mosql_bytes_of(&key_a);
		CHECK(!mosql_key_get_null(&in, !first, &isnull));
		in = mosql_bytes_of(&key_b);
		CHECK(mosql_key_get_null(&in, first, &isnull) && !isnull);
	}
}

/* One column of a random key: a kind, and the order that it has. */
typedef struct Column
{
	int			kind;			/* 0 int4, 1 bytes, 2 numeric, 3 float8 */
	bool		nullable;
	bool		nulls_first;
	bool		descending;
} Column;

typedef struct Value
{
	bool		isnull;
	int64		number;
	double		real;
	MosqlBytes	string;
	Numeric		numeric;
} Value;

static Value
random_value(void)
{
	Value		v;

	v.isnull = random_below(4) == 0;
	v.number = random_below(3) - 1;
	v.real = random_float(8);
	v.string = random_string(2);
	v.numeric = random_numeric();
	return v;
}

static void
put_value(StringInfo out, const Column *c, const Value *v)
{
	int			from;

	if (c->nullable)
	{
		mosql_key_put_null(out, v->isnull, c->nulls_first);
		if (v->isnull)
			return;
	}
	from = out->len;
	switch (c->kind)
	{
		case 0:
			mosql_key_put_int(out, v->number, 4);
			break;
		case 1:
			mosql_key_put_bytes(out, v->string);
			break;
		case 2:
			put_numeric(out, &v->numeric);
			break;
		case 3:
			mosql_key_put_float(out, v->real, 8);
			break;
	}
	if (c->descending)
		mosql_key_invert(out, from);
}

static int
compare_values(const Column *c, const Value *a, const Value *b)
{
	int			result = 0;

	if (c->nullable && (a->isnull || b->isnull))
		return c->nulls_first ? b->isnull - a->isnull : a->isnull - b->isnull;
	switch (c->kind)
	{
		case 0:
			result = sign((int) (a->number - b->number));
			break;
		case 1:
			result = sign(mosql_bytes_compare(a->string, b->string));
			break;
		case 2:
			result = compare_numerics(&a->numeric, &b->numeric);
			break;
		case 3:
			result = compare_floats(a->real, b->real);
			break;
	}
	return c->descending ? -result : result;
}

/*
 * Keys of several columns of all kinds compare column by column: whatever
 * follows a column has no influence on it.
 */
static void
test_columns(void)
{
	int			wrong = 0;

	setup();
	for (int i = 0; i < 200000; i++)
	{
		int			n = 1 + random_below(4);
		int			expected = 0;

		reset(&key_a);
		reset(&key_b);
		for (int c = 0; c < n; c++)
		{
			Column		column = {random_below(4), random_below(2), random_below(2), random_below(2)};
			Value		a = random_value();
			Value		b = random_below(3) ? a : random_value();

			put_value(&key_a, &column, &a);
			put_value(&key_b, &column, &b);
			if (expected == 0)
				expected = compare_values(&column, &a, &b);
			pfree(unconstify(char *, a.string.data));
			if (b.string.data != a.string.data)
				pfree(unconstify(char *, b.string.data));
		}
		wrong += sign(mosql_bytes_compare(mosql_bytes_of(&key_a), mosql_bytes_of(&key_b))) != expected;
	}
	CHECK_INT(wrong, 0);
}

static void
test_fixed(void)
{
	const char *data;
	MosqlBytes	in;

	setup();
	mosql_key_put_fixed(&key_a, "0123456789abcdefXY", 16);
	in = tight(mosql_bytes_of(&key_a));
	CHECK(mosql_key_get_fixed(&in, 16, &data) && memcmp(data, "0123456789abcdef", 16) == 0);
	CHECK(!mosql_key_get_fixed(&in, 1, &data));
}

/* ---- addresses and strings of bits ---- */

typedef struct Address
{
	int			n;
	int			bits;
	uint8		bytes[16];
} Address;

/* Few different bytes, so that many agree in their first bits. */
static Address
random_address(void)
{
	static const uint8 bytes[] = {0, 0, 1, 0x7F, 0x80, 0xFE, 0xFF};
	Address		a = {random_below(2) ? 4 : 16};

	a.bits = random_below(8 * a.n + 1);
	for (int i = 0; i < a.n; i++)
		a.bytes[i] = i < 2 || random_below(3) == 0 ? bytes[random_below(lengthof(bytes))] : 0;
	return a;
}

static int
compare_bits(const uint8 *a, const uint8 *b, int n)
{
	for (int i = 0; i < n; i++)
	{
		int			x = a[i / 8] >> (7 - i % 8) & 1;
		int			y = b[i / 8] >> (7 - i % 8) & 1;

		if (x != y)
			return x - y;
	}
	return 0;
}

/* As network_cmp() does it. */
static int
compare_addresses(const Address *a, const Address *b)
{
	int			c;

	if (a->n != b->n)
		return sign(a->n - b->n);
	c = compare_bits(a->bytes, b->bytes, Min(a->bits, b->bits));
	if (c == 0)
		c = sign(a->bits - b->bits);
	return c != 0 ? c : compare_bits(a->bytes, b->bytes, 8 * a->n);
}

static bool
decode_inet(MosqlBytes in)
{
	Address		a;
	MosqlBytes	all = in;
	bool		ok = mosql_key_get_inet(&in, a.bytes, &a.n, &a.bits);

	if (ok)
	{
		reset(&key_a);
		mosql_key_put_inet(&key_a, a.bytes, a.n, a.bits);
		CHECK(mosql_bytes_equal(mosql_bytes_of(&key_a), mosql_bytes(all.data, all.len - in.len)));
	}
	return ok && in.len == 0;
}

static void
test_inet(void)
{
	int			wrong = 0;

	setup();
	for (int i = 0; i < 100000; i++)
	{
		Address		a = random_address();
		Address		b = random_below(4) ? random_address() : a;
		Address		back = {0};
		MosqlBytes	in;

		if (random_below(2))
			b.bits = Min(a.bits, 8 * b.n);
		reset(&key_a);
		reset(&key_b);
		mosql_key_put_inet(&key_a, a.bytes, a.n, a.bits);
		mosql_key_put_inet(&key_b, b.bytes, b.n, b.bits);
		wrong += sign(mosql_bytes_compare(mosql_bytes_of(&key_a), mosql_bytes_of(&key_b))) !=
			compare_addresses(&a, &b);
		in = tight(mosql_bytes_of(&key_a));
		wrong += !mosql_key_get_inet(&in, back.bytes, &back.n, &back.bits) || in.len != 0 ||
			compare_addresses(&a, &back) != 0;
		if (i < 300)
			(void) damage(mosql_bytes_of(&key_a), decode_inet);
	}
	CHECK_INT(wrong, 0);
	damage_random(MOSQL_ABSENT, 20000, decode_inet);
	damage_random(mosql_bytes("\x04", 1), 20000, decode_inet);
}

static bool
decode_bits(MosqlBytes in)
{
	StringInfoData bytes;
	MosqlBytes	all = in;
	int64		bits;
	bool		ok;

	initStringInfo(&bytes);
	ok = mosql_key_get_bits(&in, &bytes, &bits);
	if (ok)
	{
		reset(&key_a);
		mosql_key_put_bits(&key_a, mosql_bytes_of(&bytes), bits);
		CHECK(mosql_bytes_equal(mosql_bytes_of(&key_a), mosql_bytes(all.data, all.len - in.len)));
	}
	pfree(bytes.data);
	return ok && in.len == 0;
}

/* Up to 40 bits; returns how many. */
static int
random_bit_string(uint8 *bytes)
{
	static const uint8 some[] = {0, 0, 0x80, 1, 0xFF};
	int			n = random_below(41);

	memset(bytes, 0, 5);
	for (int i = 0; i < (n + 7) / 8; i++)
		bytes[i] = some[random_below(lengthof(some))];
	if (n % 8 > 0)
		bytes[n / 8] &= 0xFF << (8 - n % 8);
	return n;
}

static void
test_bits(void)
{
	int			wrong = 0;

	setup();
	for (int i = 0; i < 100000; i++)
	{
		uint8		a[5];
		uint8		b[5];
		int			na = random_bit_string(a);
		int			nb = random_bit_string(b);
		int			c = compare_bits(a, b, Min(na, nb));
		int64		bits;
		StringInfoData back;
		MosqlBytes	in;

		reset(&key_a);
		reset(&key_b);
		mosql_key_put_bits(&key_a, mosql_bytes((char *) a, (na + 7) / 8), na);
		mosql_key_put_bits(&key_b, mosql_bytes((char *) b, (nb + 7) / 8), nb);
		wrong += sign(mosql_bytes_compare(mosql_bytes_of(&key_a), mosql_bytes_of(&key_b))) !=
			(c != 0 ? c : sign(na - nb));
		in = tight(mosql_bytes_of(&key_a));
		initStringInfo(&back);
		wrong += !mosql_key_get_bits(&in, &back, &bits) || in.len != 0 || bits != na ||
			memcmp(back.data, a, (na + 7) / 8) != 0;
		pfree(back.data);
		if (i < 300)
			(void) damage(mosql_bytes_of(&key_a), decode_bits);
	}
	CHECK_INT(wrong, 0);
	damage_random(MOSQL_ABSENT, 20000, decode_bits);
}

int
main(void)
{
	RUN(test_int);
	RUN(test_int_ends);
	RUN(test_float);
	RUN(test_bytes);
	RUN(test_prefix_range);
	RUN(test_after_prefix);
	RUN(test_numeric);
	RUN(test_numeric_scale);
	RUN(test_numeric_damage);
	RUN(test_null);
	RUN(test_columns);
	RUN(test_fixed);
	RUN(test_inet);
	RUN(test_bits);
	return unit_finish();
}
