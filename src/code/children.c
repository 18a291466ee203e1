/*
 * children.c: the separators of an inner node.
 *
 * Layer: code.
 *
 *     varint number of children; then per child
 *     varint length, separator; 8 bytes node id, big-endian
 */
#include "code/node.h"
#include "code/code_int.h"

#define CHILD_MIN_BYTES 9

void
mosql_children_encode(StringInfo out, const MosqlChild *children, int n)
{
	size_t		size = varint_size(n);
	char	   *p;

	Assert(n >= 0);
	for (int i = 0; i < n; i++)
		size += varint_size(children[i].separator.len) + children[i].separator.len + 8;
	p = put_varint(grow(out, size), n);
	for (int i = 0; i < n; i++)
	{
		Assert(i == 0 || mosql_bytes_compare(children[i - 1].separator, children[i].separator) < 0);
		p = put_varint(p, children[i].separator.len);
		p = put_bytes(p, children[i].separator);
		p = put_uint64(p, children[i].node);
	}
	Assert(p == out->data + out->len);
}

bool
mosql_children_decode(MosqlBytes in, MosqlChild **children, int *n)
{
	uint64		count;
	MosqlChild *result;

	*children = NULL;
	*n = 0;
	if (!take_varint(&in, &count) || count > in.len / CHILD_MIN_BYTES || count > PG_INT32_MAX)
		return false;
	result = palloc_extended((count + 1) * sizeof(MosqlChild), MCXT_ALLOC_HUGE);
	for (uint64 i = 0; i < count; i++)
	{
		const char *id;

		if (!take_run(&in, MOSQL_KEY_MAX_BYTES, &result[i].separator) || !take(&in, 8, &id) ||
			(i > 0 && mosql_bytes_compare(result[i - 1].separator, result[i].separator) >= 0))
		{
			pfree(result);
			return false;
		}
		result[i].node = get_uint64(id);
	}
	if (in.len != 0)
	{
		pfree(result);
		return false;
	}
	*children = result;
	*n = (int) count;
	return true;
}
