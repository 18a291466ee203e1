/*
 * part.c: a commit's participants as bytes.
 *
 * Layer: code.
 */
#include "code/part.h"
#include "base/limits.h"
#include "code/code_int.h"

void
mosql_part_put_head(StringInfo out, MosqlPartKind kind, uint64 root, uint64 n)
{
	appendStringInfoChar(out, (char) kind);
	mosql_varint_put(out, root);
	mosql_varint_put(out, n);
}

void
mosql_part_put_key(StringInfo out, MosqlBytes key)
{
	mosql_varint_put(out, key.len);
	appendBinaryStringInfo(out, key.data, (int) key.len);
}

void
mosql_part_put_high(StringInfo out, MosqlBytes high)
{
	appendStringInfoChar(out, high.data != NULL);
	if (high.data != NULL)
		mosql_part_put_key(out, high);
}

/* Bounds of marked ranges may be longer than any key. */
static bool
take_key(MosqlBytes *in, MosqlBytes *key)
{
	uint64		len;
	const char *p;

	if (!take_varint(in, &len) || len > in->len || !take(in, (size_t) len, &p))
		return false;
	*key = mosql_bytes(p, (size_t) len);
	return true;
}

bool
mosql_part_key(MosqlBytes *keys, MosqlBytes *key)
{
	return keys->len > 0 && take_key(keys, key);
}

static bool
take_keys(MosqlBytes *in, MosqlPart *part)
{
	const char *start = in->data;
	MosqlBytes	key;

	if (part->n == 0 || part->n > MOSQL_RECORD_MAX_KEYS)
		return false;
	for (uint64 i = 0; i < part->n; i++)
		if (!take_key(in, &key))
			return false;
	part->keys = mosql_bytes(start, in->data - start);
	return true;
}

static bool
take_marks(MosqlBytes *in, MosqlPart *part)
{
	const char *p;

	if (part->n != 1 || !take_key(in, &part->low) || !take(in, 1, &p) || *p < 0 || *p > 1)
		return false;
	return *p == 0 || take_key(in, &part->high);
}

int
mosql_part_next(MosqlBytes *in, MosqlPart *part)
{
	const char *p;
	bool		sound;

	if (in->len == 0)
		return 0;
	*part = (MosqlPart) {0};
	if (!take(in, 1, &p) || !take_varint(in, &part->root) || !take_varint(in, &part->n) ||
		part->root == 0)
		return -1;
	part->kind = (MosqlPartKind) *p;
	switch (part->kind)
	{
		case MOSQL_PART_KEYS:
			sound = take_keys(in, part);
			break;
		case MOSQL_PART_RANGE:
			sound = part->n == 2 && take_key(in, &part->low) && take_key(in, &part->high) &&
				mosql_bytes_compare(part->low, part->high) <= 0;
			break;
		case MOSQL_PART_MARKS:
			sound = take_marks(in, part);
			break;
		case MOSQL_PART_TREE:
			sound = part->n == 0;
			break;
		default:
			sound = false;
	}
	return sound ? 1 : -1;
}
