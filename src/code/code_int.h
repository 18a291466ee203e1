/*
 * code_int.h: reading and writing bytes, for the files of this layer.
 *
 * Layer: code.  Readers take from the front of a MosqlBytes and return false
 * where it is too short; what they leave in it then is of no use.
 */
#ifndef MOSQL_CODE_INT_H
#define MOSQL_CODE_INT_H

#include "base/base.h"
#include "code/row.h"
#include "port/pg_bswap.h"

/* The longest LEB128 of 64 bits. */
#define VARINT_MAX_BYTES 10

/* Room for n more bytes at the end of out, which then counts them as there. */
static inline char *
grow(StringInfo out, size_t n)
{
	char	   *p;

	/* too much is refused there, not cut off here */
	enlargeStringInfo(out, (int) Min(n, (size_t) PG_INT32_MAX));
	p = out->data + out->len;
	out->len += (int) n;
	out->data[out->len] = '\0';
	return p;
}

static inline char *
put_bytes(char *p, MosqlBytes b)
{
	if (b.len > 0)
		memcpy(p, b.data, b.len);
	return p + b.len;
}

static inline char *
put_uint64(char *p, uint64 value)
{
	value = pg_hton64(value);
	memcpy(p, &value, sizeof(value));
	return p + sizeof(value);
}

static inline uint64
get_uint64(const char *p)
{
	uint64		value;

	memcpy(&value, p, sizeof(value));
	return pg_ntoh64(value);
}

/* 56 bits: 7 bytes. */
static inline char *
put_ts(char *p, MosqlTimestamp ts)
{
	for (int shift = 48; shift >= 0; shift -= 8)
		*p++ = (char) (ts >> shift);
	return p;
}

static inline MosqlTimestamp
get_ts(const char *p)
{
	MosqlTimestamp ts = 0;

	for (int i = 0; i < 7; i++)
		ts = ts << 8 | (uint8) p[i];
	return ts;
}

static inline int
varint_size(uint64 value)
{
	int			n = 1;

	while ((value >>= 7) != 0)
		n++;
	return n;
}

static inline char *
put_varint(char *p, uint64 value)
{
	while (value >= 0x80)
	{
		*p++ = (char) (value | 0x80);
		value >>= 7;
	}
	*p++ = (char) value;
	return p;
}

static inline bool
take(MosqlBytes *in, size_t n, const char **data)
{
	if (in->len < n)
		return false;
	*data = in->data;
	in->data += n;
	in->len -= n;
	return true;
}

/* Nearly all varints have one byte. */
static inline bool
take_varint(MosqlBytes *in, uint64 *value)
{
	if (in->len > 0 && (uint8) in->data[0] < 0x80)
	{
		*value = (uint8) in->data[0];
		in->data++;
		in->len--;
		return true;
	}
	return mosql_varint_get(in, value);
}

/* A varint length of at most max, and as many bytes. */
static inline bool
take_run(MosqlBytes *in, size_t max, MosqlBytes *run)
{
	uint64		len;

	if (!take_varint(in, &len) || len > max || len > in->len)
		return false;
	run->data = in->data;
	run->len = (size_t) len;
	in->data += run->len;
	in->len -= run->len;
	return true;
}

#endif							/* MOSQL_CODE_INT_H */
