/*
 * key_numeric.c: numeric as a key.
 *
 * Layer: code.  The value is 0.d1d2d3... * 10000^(weight + 1) in digits of
 * base 10000, d1 and the last one not 0.  The encoding of a positive number:
 *
 *     1 byte   0xBF + weight, for weights from -61 to 61
 *              0x81, 0xFD for smaller and larger ones, then
 *              2 bytes: weight + 32768, big-endian
 *     2 bytes  per digit, big-endian: 2 * digit, + 1 if another one follows
 *
 * Negative ones are the same inverted.  First bytes in all:
 *
 *     0x01  -Infinity
 *     0x02 .. 0x7E  negative
 *     0x80  zero
 *     0x81 .. 0xFD  positive
 *     0xFE  Infinity
 *     0xFF  NaN
 *
 * Order.  Of two positive numbers the one with the larger weight is larger.
 * With equal weights the first digit in which they differ decides; if there is
 * none and one has more digits, that one is larger, and it differs in the bit
 * "another one follows" of the last common digit.  That bit also makes the
 * encoding prefix-free, so that inverting all bytes reverses the order.
 */
#include "code/key.h"
#include "code/code_int.h"

#define FIRST_NINF		0x01
#define FIRST_ZERO		0x80
#define FIRST_TINY		0x81
#define FIRST_WEIGHT_0	0xBF
#define FIRST_HUGE		0xFD
#define FIRST_PINF		0xFE
#define FIRST_NAN		0xFF

#define NEAR_WEIGHT		61
#define WEIGHT_BIAS		32768
#define BASE			10000

static char *
put_uint16(char *p, unsigned int value)
{
	*p++ = (char) (value >> 8);
	*p++ = (char) value;
	return p;
}

static void
put_magnitude(StringInfo out, int weight, const int16 *digits, int ndigits)
{
	bool		near = weight >= -NEAR_WEIGHT && weight <= NEAR_WEIGHT;
	char	   *p = grow(out, (near ? 1 : 3) + 2 * (size_t) ndigits);

	Assert(weight >= -WEIGHT_BIAS && weight < WEIGHT_BIAS);
	if (near)
		*p++ = (char) (FIRST_WEIGHT_0 + weight);
	else
	{
		*p++ = (char) (weight < 0 ? FIRST_TINY : FIRST_HUGE);
		p = put_uint16(p, weight + WEIGHT_BIAS);
	}
	for (int i = 0; i < ndigits; i++)
	{
		Assert(digits[i] >= 0 && digits[i] < BASE);
		p = put_uint16(p, 2 * digits[i] + (i < ndigits - 1 ? 1 : 0));
	}
}

void
mosql_key_put_numeric(StringInfo out, MosqlNumericKind kind, bool negative,
					  int weight, const int16 *digits, int ndigits)
{
	int			start = out->len;

	if (kind != MOSQL_NUMERIC_FINITE)
	{
		*grow(out, 1) = (char) (kind == MOSQL_NUMERIC_NAN ? FIRST_NAN :
								kind == MOSQL_NUMERIC_PINF ? FIRST_PINF : FIRST_NINF);
		return;
	}
	while (ndigits > 0 && digits[0] == 0)
	{
		digits++;
		ndigits--;
		weight--;
	}
	while (ndigits > 0 && digits[ndigits - 1] == 0)
		ndigits--;
	if (ndigits == 0)
	{
		*grow(out, 1) = (char) FIRST_ZERO;
		return;
	}
	put_magnitude(out, weight, digits, ndigits);
	if (negative)
		mosql_key_invert(out, start);
}

/* Two bytes, inverted if flip is 0xFFFF. */
static bool
take_uint16(MosqlBytes *in, unsigned int flip, unsigned int *value)
{
	const char *p;

	if (!take(in, 2, &p))
		return false;
	*value = ((unsigned int) (uint8) p[0] << 8 | (uint8) p[1]) ^ flip;
	return true;
}

/* The weight of a number whose first byte says that it is far from 0. */
static bool
skip_far_weight(MosqlBytes *in, unsigned int flip, bool tiny)
{
	unsigned int biased;

	if (!take_uint16(in, flip, &biased))
		return false;
	return tiny ? biased < WEIGHT_BIAS - NEAR_WEIGHT : biased > WEIGHT_BIAS + NEAR_WEIGHT;
}

bool
mosql_key_skip_numeric(MosqlBytes *in)
{
	const char *p;
	int			first;
	unsigned int flip;
	unsigned int word;
	bool		leading = true;

	if (!take(in, 1, &p))
		return false;
	first = (uint8) *p;
	if (first == FIRST_NINF || first == FIRST_ZERO || first >= FIRST_PINF)
		return true;
	flip = first < FIRST_ZERO ? 0xFFFF : 0;
	first ^= flip & 0xFF;
	if (first < FIRST_TINY || first > FIRST_HUGE)
		return false;
	if ((first == FIRST_TINY || first == FIRST_HUGE) &&
		!skip_far_weight(in, flip, first == FIRST_TINY))
		return false;
	do
	{
		if (!take_uint16(in, flip, &word) || word / 2 >= BASE || (leading && word / 2 == 0))
			return false;
		leading = false;
	} while (word & 1);
	return word != 0;			/* the last digit is not 0 */
}

bool
mosql_key_get_numeric(MosqlBytes *in, MosqlNumericKind *kind, bool *negative,
					  int *weight, int16 *digits, int *ndigits)
{
	MosqlBytes	at = *in;
	unsigned int first;
	unsigned int flip;
	unsigned int word;

	*ndigits = 0;
	*weight = 0;
	if (!mosql_key_skip_numeric(in))
		return false;			/* below, everything is there */
	first = (uint8) *at.data++;
	at.len--;
	*negative = first < FIRST_ZERO;
	*kind = first == FIRST_NAN ? MOSQL_NUMERIC_NAN :
		first == FIRST_PINF ? MOSQL_NUMERIC_PINF :
		first == FIRST_NINF ? MOSQL_NUMERIC_NINF : MOSQL_NUMERIC_FINITE;
	if (*kind != MOSQL_NUMERIC_FINITE || first == FIRST_ZERO)
		return true;
	flip = *negative ? 0xFFFF : 0;
	first ^= flip & 0xFF;
	if (first != FIRST_TINY && first != FIRST_HUGE)
		*weight = (int) first - FIRST_WEIGHT_0;
	else if (take_uint16(&at, flip, &word))
		*weight = (int) word - WEIGHT_BIAS;
	while (take_uint16(&at, flip, &word))
	{
		digits[(*ndigits)++] = (int16) (word / 2);
		if ((word & 1) == 0)
			break;
	}
	return true;
}
