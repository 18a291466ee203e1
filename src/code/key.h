/*
 * key.h: keys whose memcmp order is the order of their values.
 *
 * Layer: code.  Pure functions; docs/format.md gives the bytes.  A key is the
 * concatenation of its columns' encodings; each encoding is prefix-free, so
 * that columns cannot run into each other.  Every `get` advances the cursor
 * and returns false if the bytes are not a valid encoding (the caller reports
 * XX001 with the Redis key it came from).
 */
#ifndef MOSQL_KEY_H
#define MOSQL_KEY_H

#include "base/base.h"
#include "base/limits.h"

/* fixed width, big-endian, sign bit flipped */
extern void mosql_key_put_int(StringInfo out, int64 value, int width /* 1,2,4,8 */ );
extern bool mosql_key_get_int(MosqlBytes *in, int width, int64 *value);

/* IEEE 754 order, -0 = 0, all NaN equal and largest (as PostgreSQL orders them) */
extern void mosql_key_put_float(StringInfo out, double value, int width /* 4,8 */ );
extern bool mosql_key_get_float(MosqlBytes *in, int width, double *value);

/* n raw bytes that compare as they are (uuid, macaddr): no terminator */
extern void mosql_key_put_fixed(StringInfo out, const void *data, int n);
extern bool mosql_key_get_fixed(MosqlBytes *in, int n, const char **data);

/*
 * Any bytes, any length: 0x00 becomes 0x00 0xFF, the end is 0x00 0x01.  get
 * appends the unescaped bytes to out.  mosql_key_put_prefix writes them
 * without the end, for "starts with" ranges.
 */
extern void mosql_key_put_bytes(StringInfo out, MosqlBytes value);
extern void mosql_key_put_prefix(StringInfo out, MosqlBytes value);
extern bool mosql_key_get_bytes(MosqlBytes *in, StringInfo out);

/*
 * A numeric in the parts of PostgreSQL's binary format (numeric_send): base
 * 10000 digits.  Equal values encode equally whatever their display scale;
 * leading and trailing zero digits are stripped here.  Order: -Infinity,
 * negatives, zero, positives, Infinity, NaN.
 */
typedef enum MosqlNumericKind
{
	MOSQL_NUMERIC_FINITE, MOSQL_NUMERIC_NAN, MOSQL_NUMERIC_PINF, MOSQL_NUMERIC_NINF
} MosqlNumericKind;
extern void mosql_key_put_numeric(StringInfo out, MosqlNumericKind kind, bool negative,
								  int weight, const int16 *digits, int ndigits);

/* Skip over one numeric (its exact value is kept in the row). */
extern bool mosql_key_skip_numeric(MosqlBytes *in);

/* Its value for messages; digits has room for in->len / 2 of them. */
extern bool mosql_key_get_numeric(MosqlBytes *in, MosqlNumericKind *kind, bool *negative,
								  int *weight, int16 *digits, int *ndigits);

/*
 * An address of a network: the family, 4 or 16 bytes long, the bytes of the network (bits
 * of the mask, then zeros), the number of these bits, and the bits of the host, from the
 * byte on in which the first one is.  So a network is before all that is within it.
 */
extern void mosql_key_put_inet(StringInfo out, const uint8 *address, int n /* 4,16 */ , int bits);
extern bool mosql_key_get_inet(MosqlBytes *in, uint8 *address /* [16] */ , int *n, int *bits);

/* A string of bits, the last byte filled up with zeros: its bytes; how many bits of the last. */
extern void mosql_key_put_bits(StringInfo out, MosqlBytes bytes, int64 bits);
extern bool mosql_key_get_bits(MosqlBytes *in, StringInfo out, int64 *bits);

/* NULL marker for index columns that may be null: one byte before the value. */
extern void mosql_key_put_null(StringInfo out, bool isnull, bool nulls_first);
extern bool mosql_key_get_null(MosqlBytes *in, bool nulls_first, bool *isnull);

/* Turn the encoding from offset `from` on into its descending form. */
extern void mosql_key_invert(StringInfo key, int from);

/*
 * The smallest key greater than every key that starts with `key`; false if
 * there is none (all bytes 0xFF): the range has no end.
 */
extern bool mosql_key_after_prefix(StringInfo key);

#endif							/* MOSQL_KEY_H */
