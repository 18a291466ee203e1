/*
 * key.c: key columns whose memcmp order is the order of their values.
 *
 * Layer: code.  Numeric has a file of its own, key_numeric.c.
 *
 * Why each is prefix-free, so that the next column cannot influence how two
 * values compare: integers, floats and fixed bytes have one width per column;
 * strings end in a pair that cannot be inside of one; how long an address is,
 * its first byte and the number of bits say.  An encoding that is inverted for descending order stays prefix-free.
 *
 * One value, one encoding: `get` refuses bytes that `put` would not write.
 */
#include "code/key.h"
#include "code/code_int.h"

#include <math.h>

/* Inside strings: 0x00 is followed by one of these. */
#define STRING_END		0x01
#define STRING_ZERO		0xFF

/* Before a value that may be null. */
#define NULL_FIRST		0x00
#define NOT_NULL		0x01
#define NULL_LAST		0x02

static void
put_width(StringInfo out, uint64 bits, int width)
{
	char	   *p = grow(out, width);

	for (int shift = 8 * (width - 1); shift >= 0; shift -= 8)
		*p++ = (char) (bits >> shift);
}

static bool
get_width(MosqlBytes *in, int width, uint64 *bits)
{
	const char *p;

	if (!take(in, width, &p))
		return false;
	*bits = 0;
	for (int i = 0; i < width; i++)
		*bits = *bits << 8 | (uint8) p[i];
	return true;
}

static inline uint64
sign_bit(int width)
{
	return UINT64CONST(1) << (8 * width - 1);
}

/* All bits of so many bytes. */
static inline uint64
mask(int width)
{
	return PG_UINT64_MAX >> (64 - 8 * width);
}

void
mosql_key_put_int(StringInfo out, int64 value, int width)
{
	Assert(width == 1 || width == 2 || width == 4 || width == 8);
	Assert(width == 8 || (value >= -(int64) sign_bit(width) && value < (int64) sign_bit(width)));
	put_width(out, (uint64) value ^ sign_bit(width), width);
}

bool
mosql_key_get_int(MosqlBytes *in, int width, int64 *value)
{
	uint64		bits;
	int			unused = 64 - 8 * width;

	if (!get_width(in, width, &bits))
		return false;
	/* to the top and back down, which spreads the sign */
	*value = (int64) ((bits ^ sign_bit(width)) << unused) >> unused;
	return true;
}

static uint64
float_bits(double value, int width)
{
	float		narrow = (float) value;
	uint32		bits32;
	uint64		bits64;

	if (width == 4)
	{
		memcpy(&bits32, &narrow, 4);
		return bits32;
	}
	memcpy(&bits64, &value, 8);
	return bits64;
}

static double
float_of_bits(uint64 bits, int width)
{
	uint32		bits32 = (uint32) bits;
	float		narrow;
	double		wide;

	if (width == 4)
	{
		memcpy(&narrow, &bits32, 4);
		return narrow;
	}
	memcpy(&wide, &bits, 8);
	return wide;
}

/*
 * IEEE 754 numbers of one sign are ordered as their bits are: set the sign bit
 * of positive ones, invert negative ones.
 */
void
mosql_key_put_float(StringInfo out, double value, int width)
{
	uint64		bits;

	Assert(width == 4 || width == 8);
	if (isnan(value))
		bits = float_bits(INFINITY, width) | sign_bit(width) >> (width == 4 ? 9 : 12);
	else
		bits = float_bits(value == 0 ? 0.0 : value, width);
	if (bits & sign_bit(width))
		bits = ~bits & mask(width);
	else
		bits |= sign_bit(width);
	put_width(out, bits, width);
}

bool
mosql_key_get_float(MosqlBytes *in, int width, double *value)
{
	uint64		bits;
	bool		negative;

	if (!get_width(in, width, &bits))
		return false;
	negative = (bits & sign_bit(width)) == 0;
	bits = negative ? ~bits & mask(width) : bits & ~sign_bit(width);
	*value = float_of_bits(bits, width);
	if (isnan(*value))			/* one of many */
		return !negative &&
			bits == (float_bits(INFINITY, width) | sign_bit(width) >> (width == 4 ? 9 : 12));
	return !(negative && *value == 0);
}

void
mosql_key_put_fixed(StringInfo out, const void *data, int n)
{
	if (n > 0)
		memcpy(grow(out, n), data, n);
}

bool
mosql_key_get_fixed(MosqlBytes *in, int n, const char **data)
{
	return take(in, n, data);
}

/* Copies what is between zeros as a whole. */
void
mosql_key_put_prefix(StringInfo out, MosqlBytes value)
{
	while (value.len > 0)
	{
		const char *zero = memchr(value.data, 0, value.len);
		size_t		n = zero ? zero - value.data : value.len;
		char	   *p = put_bytes(grow(out, n + (zero ? 2 : 0)), mosql_bytes(value.data, n));

		if (zero == NULL)
			return;
		*p++ = 0;
		*p = (char) STRING_ZERO;
		value.data += n + 1;
		value.len -= n + 1;
	}
}

void
mosql_key_put_bytes(StringInfo out, MosqlBytes value)
{
	char	   *p;

	mosql_key_put_prefix(out, value);
	p = grow(out, 2);
	*p++ = 0;
	*p = STRING_END;
}

bool
mosql_key_get_bytes(MosqlBytes *in, StringInfo out)
{
	for (;;)
	{
		const char *zero = in->len > 0 ? memchr(in->data, 0, in->len) : NULL;
		size_t		n;
		uint8		what;

		if (zero == NULL)
			return false;
		n = zero - in->data;
		if (n + 2 > in->len)
			return false;
		what = (uint8) zero[1];
		if (what != STRING_END && what != STRING_ZERO)
			return false;
		/* the zero itself, where it belongs to the value, comes along */
		if (what == STRING_ZERO)
			n++;
		put_bytes(grow(out, n), mosql_bytes(in->data, n));
		in->len -= zero + 2 - in->data;
		in->data = zero + 2;
		if (what == STRING_END)
			return true;
	}
}

/* ---- addresses ---- */

/* The first byte: PostgreSQL puts the family of 4 bytes first. */
#define INET_FAMILY_4	4
#define INET_FAMILY_6	6

/* The bits of byte i that are the network's. */
static uint8
network_mask(int i, int bits)
{
	int			within = bits - 8 * i;

	return within >= 8 ? 0xFF : within <= 0 ? 0 : (uint8) (0xFF << (8 - within));
}

/*
 * network_cmp() compares the bits that both networks have, then which has more, then the
 * whole address.  Of two networks that agree in the bits of the shorter one, it has zeros
 * where the other may have ones: so it is not above it there, and where they are equal
 * still, the number of bits follows.
 */
void
mosql_key_put_inet(StringInfo out, const uint8 *address, int n, int bits)
{
	char	   *p = grow(out, 1 + n + 1 + n - bits / 8);

	Assert((n == 4 || n == 16) && bits >= 0 && bits <= 8 * n);
	*p++ = n == 4 ? INET_FAMILY_4 : INET_FAMILY_6;
	for (int i = 0; i < n; i++)
		*p++ = (char) (address[i] & network_mask(i, bits));
	*p++ = (char) bits;
	for (int i = bits / 8; i < n; i++)
		*p++ = (char) (address[i] & ~network_mask(i, bits));
}

bool
mosql_key_get_inet(MosqlBytes *in, uint8 *address, int *n, int *bits)
{
	const char *p;

	if (!take(in, 1, &p) || (*p != INET_FAMILY_4 && *p != INET_FAMILY_6))
		return false;
	*n = *p == INET_FAMILY_4 ? 4 : 16;
	if (!take(in, *n + 1, &p))
		return false;
	*bits = (uint8) p[*n];
	if (*bits > 8 * *n)
		return false;
	memcpy(address, p, *n);
	if (!take(in, *n - *bits / 8, &p))
		return false;
	for (int i = *bits / 8; i < *n; i++, p++)
	{
		if ((address[i] & ~network_mask(i, *bits)) || (*p & network_mask(i, *bits)))
			return false;
		address[i] |= (uint8) *p;
	}
	return true;
}

/* ---- strings of bits ---- */

/*
 * bit_cmp() compares the bytes, and the number of bits where the one's are the beginning
 * of the other's, or the same.
 */
void
mosql_key_put_bits(StringInfo out, MosqlBytes bytes, int64 bits)
{
	Assert((int64) bytes.len == (bits + 7) / 8);
	mosql_key_put_bytes(out, bytes);
	*grow(out, 1) = (char) (bits - 8 * Max((int64) bytes.len - 1, 0));
}

bool
mosql_key_get_bits(MosqlBytes *in, StringInfo out, int64 *bits)
{
	int			start = out->len;
	const char *last;
	int			n;

	if (!mosql_key_get_bytes(in, out) || !take(in, 1, &last))
		return false;
	n = out->len - start;
	*bits = 8 * (int64) Max(n - 1, 0) + (uint8) *last;
	if (n == 0)
		return *last == 0;
	return *last >= 1 && *last <= 8 &&
		((uint8) out->data[out->len - 1] & (0xFF >> *last)) == 0;
}

/* The marker is never part of what is inverted: it has its own order. */
void
mosql_key_put_null(StringInfo out, bool isnull, bool nulls_first)
{
	*grow(out, 1) = !isnull ? NOT_NULL : nulls_first ? NULL_FIRST : NULL_LAST;
}

bool
mosql_key_get_null(MosqlBytes *in, bool nulls_first, bool *isnull)
{
	const char *marker;

	if (!take(in, 1, &marker))
		return false;
	*isnull = *marker == (nulls_first ? NULL_FIRST : NULL_LAST);
	return *isnull || *marker == NOT_NULL;
}

void
mosql_key_invert(StringInfo key, int from)
{
	Assert(from >= 0 && from <= key->len);
	for (int i = from; i < key->len; i++)
		key->data[i] = ~key->data[i];
}

/* Where there is none, key stays as it is. */
bool
mosql_key_after_prefix(StringInfo key)
{
	int			len = key->len;

	while (len > 0 && (uint8) key->data[len - 1] == 0xFF)
		len--;
	if (len == 0)
		return false;
	key->data[len - 1]++;
	key->len = len;
	key->data[len] = '\0';
	return true;
}
