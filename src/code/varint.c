/*
 * varint.c: unsigned integers in as many bytes as they need (LEB128).
 *
 * Layer: code.  Seven bits per byte, lowest first; the top bit says that more
 * follow.  Every number has exactly one encoding: a superfluous last byte of
 * zero is damage, so that equal things are equal bytes.
 */
#include "code/code_int.h"

void
mosql_varint_put(StringInfo out, uint64 value)
{
	put_varint(grow(out, varint_size(value)), value);
}

/* Takes the number off the front of in; false if there is none. */
bool
mosql_varint_get(MosqlBytes *in, uint64 *value)
{
	uint64		result = 0;
	size_t		max = Min(in->len, VARINT_MAX_BYTES);

	for (size_t i = 0; i < max; i++)
	{
		uint8		byte = (uint8) in->data[i];

		if (i == VARINT_MAX_BYTES - 1 && byte > 1)
			return false;		/* more than 64 bits */
		result |= (uint64) (byte & 0x7F) << (7 * i);
		if (byte < 0x80)
		{
			if (byte == 0 && i > 0)
				return false;	/* not the shortest form */
			in->data += i + 1;
			in->len -= i + 1;
			*value = result;
			return true;
		}
	}
	return false;
}
