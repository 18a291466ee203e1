/*
 * columns.c: the columns of a row.
 *
 * Layer: code.  row.h has the layout.  A decoder that stops at the first
 * damaged column never hands out bytes outside the row; it also never hands
 * out one column twice, because ids must ascend.
 */
#include "code/code_int.h"

/* Wire type of a fixed width. */
static MosqlWire
wire_of(int width)
{
	switch (width)
	{
		case 1:
			return MOSQL_WIRE_1;
		case 2:
			return MOSQL_WIRE_2;
		case 4:
			return MOSQL_WIRE_4;
		case 8:
			return MOSQL_WIRE_8;
	}
	Assert(width == 16);
	return MOSQL_WIRE_16;
}

static inline uint64
tag_of(uint32 column, MosqlWire wire)
{
	return (uint64) column << 3 | wire;
}

/* Tag and room for the value: a pointer to where it goes. */
static char *
put_tag(StringInfo out, uint32 column, MosqlWire wire, size_t room)
{
	uint64		tag = tag_of(column, wire);

	return put_varint(grow(out, varint_size(tag) + room), tag);
}

static void
write_int(char *p, int64 value, int width)
{
	for (int i = width - 1; i >= 0; i--)
	{
		p[i] = (char) value;
		value >>= 8;
	}
}

void
mosql_column_put_int(StringInfo out, uint32 column, int64 value, int width)
{
	Assert(width == 1 || width == 2 || width == 4 || width == 8);
	write_int(put_tag(out, column, wire_of(width), width), value, width);
}

void
mosql_column_put_fixed(StringInfo out, uint32 column, const void *data, int width)
{
	memcpy(put_tag(out, column, wire_of(width), width), data, width);
}

static void
put_run(StringInfo out, uint32 column, MosqlWire wire, MosqlBytes value)
{
	char	   *p;

	Assert(value.len <= MOSQL_VALUE_MAX_BYTES);
	p = put_tag(out, column, wire, varint_size(value.len) + value.len);
	put_bytes(put_varint(p, value.len), value);
}

void
mosql_column_put_bytes(StringInfo out, uint32 column, MosqlBytes value)
{
	put_run(out, column, MOSQL_WIRE_BYTES, value);
}

/* value: varint length before compression, compressed data (layer table). */
void
mosql_column_put_compressed(StringInfo out, uint32 column, MosqlBytes value)
{
	put_run(out, column, MOSQL_WIRE_COMPRESSED, value);
}

void
mosql_column_put_null(StringInfo out, uint32 column)
{
	(void) put_tag(out, column, MOSQL_WIRE_NULL, 0);
}

/* Whether the next tag, if there is one, names a column after this one.  Nearly all tags have one byte. */
static inline bool
next_ascends(const char *next, size_t len, uint32 column)
{
	MosqlBytes	in;
	uint64		tag;

	if (len == 0)
		return true;
	if ((uint8) next[0] < 0x80)
		return (uint8) next[0] >> 3 > column;
	in = mosql_bytes(next, len);
	return mosql_varint_get(&in, &tag) && tag >> 3 > column;
}

int
mosql_column_next(MosqlBytes *in, MosqlColumn *out)
{
	uint64		tag;

	if (in->len == 0)
		return 0;
	if (!take_varint(in, &tag) || tag >> 3 > PG_UINT32_MAX)
		return -1;
	out->column = (uint32) (tag >> 3);
	out->wire = (MosqlWire) (tag & 7);
	if (out->wire <= MOSQL_WIRE_16)
	{
		out->value.len = (size_t) 1 << out->wire;
		if (!take(in, out->value.len, &out->value.data))
			return -1;
	}
	else if (out->wire == MOSQL_WIRE_NULL)
		out->value = mosql_bytes(in->data, 0);
	else if (!take_run(in, MOSQL_VALUE_MAX_BYTES, &out->value))
		return -1;
	return next_ascends(in->data, in->len, out->column) ? 1 : -1;
}

int64
mosql_read_int(const char *data, int width)
{
	uint16		u16;
	uint32		u32;

	switch (width)
	{
		case 1:
			return (int8) data[0];
		case 2:
			memcpy(&u16, data, 2);
			return (int16) pg_ntoh16(u16);
		case 4:
			memcpy(&u32, data, 4);
			return (int32) pg_ntoh32(u32);
		case 8:
			return (int64) get_uint64(data);
	}
	Assert(false);
	return 0;
}
