/*
 * evaluate.c: what compares and writes mean, in C.
 *
 * Layer: step.  The script in step_lua.h says the same in Lua; test_step.c
 * runs random steps through both and through Redis.
 */
#include "step/step_int.h"
#include "code/claim.h"
#include "code/node.h"

/* At most len bytes from offset on; empty past the end, never absent. */
static MosqlBytes
slice(MosqlBytes value, size_t offset, size_t len)
{
	if (offset > value.len)
		offset = value.len;
	return mosql_bytes(value.data + offset, Min(len, value.len - offset));
}

/* Is a field one lock of an owner, and nothing else? */
static bool
is_own_lock(MosqlBytes field, MosqlBytes owner)
{
	MosqlClaim	claim;

	return mosql_bytes_equal(slice(field, 0, MOSQL_TXID_BYTES), owner) && mosql_claim_next(&field, &claim) &&
		claim.kind == MOSQL_CLAIM_LOCK && field.len == 0;
}

/* Are all intents of a field those of one transaction, and, if they count, no claims there? */
static bool
is_alone(MosqlBytes field, const MosqlCompare *compare)
{
	MosqlBytes	rest = field;
	MosqlClaim	claim;

	while (compare->offset == MOSQL_RANGE_SKIPS_CLAIMS && mosql_claim_next(&rest, &claim))
		;
	return (rest.len == 0 && field.len > 0) ||
		mosql_bytes_equal(slice(rest, 0, compare->bytes.len), compare->bytes);
}

/*
 * No foreign intent and no row newer than at_most between two keys.  Rows are
 * looked at whatever their kind, so that a tombstone counts as a change.
 */
static bool
range_holds(const MosqlCompare *compare, const MosqlNodeImage *image)
{
	bool		own = compare->offset >= MOSQL_RANGE_OWN_LOCKS;
	int			left = own ? compare->offset - MOSQL_RANGE_OWN_LOCKS : 0;

	for (int i = 0; i < image->nfields; i++)
	{
		MosqlBytes	field = image->fields[i].field;
		MosqlBytes	value = image->fields[i].value;
		MosqlBytes	key;

		if (field.len == 0 ||
			(field.data[0] != MOSQL_FIELD_ROW && field.data[0] != MOSQL_FIELD_INTENT))
			continue;
		key = mosql_bytes(field.data + 1, field.len - 1);
		if (mosql_bytes_compare(key, compare->field) < 0)
			continue;
		if (compare->upper.data != NULL && mosql_bytes_compare(key, compare->upper) >= 0)
			continue;
		if (field.data[0] == MOSQL_FIELD_INTENT)
		{
			if (own ? !is_own_lock(value, compare->bytes) : !is_alone(value, compare))
				return false;
			left -= own;
		}
		else if (compare->at_most.len > 0 &&
				 mosql_bytes_compare(slice(value, 0, compare->at_most.len), compare->at_most) > 0)
			return false;
	}
	return left == 0;
}

/*
 * Is an intent of a transaction in an intents field (node.h), or a claim of an owner?
 * Bytes that do not decode end the search.
 */
static bool
is_listed(MosqlBytes field, MosqlBytes tx)
{
	MosqlBytes	rest = field;
	MosqlClaim	claim;
	size_t		at = 0;

	while (mosql_claim_next(&rest, &claim))
	{
		if (mosql_bytes_equal(mosql_bytes(field.data + at, MOSQL_TXID_BYTES), tx))
			return true;
		at += MOSQL_CLAIM_BYTES;
	}
	while (at + MOSQL_TXID_BYTES + 1 <= field.len)
	{
		size_t		next = field.len;

		if (field.data[at + MOSQL_INTENT_KIND_OFFSET] == MOSQL_INTENT_INCREMENT)
		{
			if (at + MOSQL_TXID_BYTES + 2 > field.len)
				return false;
			next = at + MOSQL_TXID_BYTES + 2 +
				(uint8) field.data[at + MOSQL_INTENT_KIND_OFFSET + 1];
			if (next > field.len)
				return false;
		}
		if (mosql_bytes_equal(mosql_bytes(field.data + at, MOSQL_TXID_BYTES), tx))
			return true;
		at = next;
	}
	return false;
}

bool
mosql_step_holds(const MosqlCompare *compare, MosqlBytes value, const MosqlNodeImage *image)
{
	Assert(compare->offset >= 0);

	switch (compare->kind)
	{
		case MOSQL_COMPARE_ABSENT:
			return value.data == NULL;
		case MOSQL_COMPARE_EQUAL:
			return value.data != NULL &&
				mosql_bytes_equal(slice(value, compare->offset, compare->bytes.len), compare->bytes);
		case MOSQL_COMPARE_AT_MOST:
			return value.data == NULL ||
				mosql_bytes_compare(slice(value, compare->offset, compare->bytes.len), compare->bytes) <= 0;
		case MOSQL_COMPARE_IN:
			return value.data != NULL && value.len > (size_t) compare->offset &&
				compare->bytes.len > 0 &&
				memchr(compare->bytes.data, value.data[compare->offset], compare->bytes.len) != NULL;
		case MOSQL_COMPARE_ONLY:
			return value.data == NULL || mosql_bytes_equal(value, compare->bytes);
		case MOSQL_COMPARE_RANGE:
			Assert(image != NULL);
			return range_holds(compare, image);
		case MOSQL_COMPARE_OPEN:
			return value.data == NULL ||
				(value.len > (size_t) compare->offset && compare->bytes.len > 0 &&
				 memchr(compare->bytes.data, value.data[compare->offset], compare->bytes.len) != NULL);
		case MOSQL_COMPARE_LISTED:
			return is_listed(value, compare->bytes);
		case MOSQL_COMPARE_WHOLE:
			return value.data != NULL && mosql_bytes_equal(value, compare->bytes);
		case MOSQL_COMPARE_ADMITS:
			return value.data == NULL || mosql_claims_admit(value, compare->bytes);
		case MOSQL_COMPARE_HOLDS:
			return value.data != NULL && mosql_claims_hold(value, compare->bytes);
		case MOSQL_COMPARE_COUNT:
			Assert(image != NULL);
			return image->nfields == compare->offset;
	}
	elog(ERROR, "unknown kind of compare: %d", (int) compare->kind);
	return false;
}

int
mosql_step_evaluate(const MosqlStep *step, MosqlFieldGetter get, void *arg,
					const MosqlNodeImage *image)
{
	for (int i = 0; i < step->ncompares; i++)
	{
		const MosqlCompare *compare = &step->compares[i];
		MosqlBytes	value = MOSQL_ABSENT;

		if (!mosql_step_sees_all(compare))
			value = get(arg, compare->field);
		if (!mosql_step_holds(compare, value, image))
			return i;
	}
	return -1;
}

/* Where a 16-byte entry stands in a list; -1: not in it. */
static ssize_t
list_find(MosqlBytes list, MosqlBytes entry)
{
	Assert(entry.len == MOSQL_TXID_BYTES);

	for (size_t i = 0; i + MOSQL_TXID_BYTES <= list.len; i += MOSQL_TXID_BYTES)
		if (memcmp(list.data + i, entry.data, MOSQL_TXID_BYTES) == 0)
			return (ssize_t) i;
	return -1;
}

static MosqlBytes
list_append(MosqlBytes list, MosqlBytes entry)
{
	char	   *out = palloc(list.len + entry.len);

	if (list.len > 0)
		memcpy(out, list.data, list.len);
	memcpy(out + list.len, entry.data, entry.len);
	return mosql_bytes(out, list.len + entry.len);
}

static MosqlBytes
list_remove(MosqlBytes list, size_t start, size_t end)
{
	size_t		rest = list.len - end;
	char	   *out;

	if (start + rest == 0)
		return MOSQL_ABSENT;
	out = palloc(start + rest);
	memcpy(out, list.data, start);
	memcpy(out + start, list.data + end, rest);
	return mosql_bytes(out, start + rest);
}

#define ADD_HEAD_BYTES	7
#define ADD_DELTA_BYTES	13

MosqlBytes
mosql_step_add(MosqlTimestamp ts, const MosqlStepDelta *deltas, int n)
{
	size_t		len = ADD_HEAD_BYTES + (size_t) n * ADD_DELTA_BYTES;
	uint8	   *out = palloc(len);
	uint8	   *p = out;

	for (int i = 0; i < ADD_HEAD_BYTES; i++)
		*p++ = (uint8) (ts >> (8 * (ADD_HEAD_BYTES - 1 - i)));
	for (int d = 0; d < n; d++)
	{
		for (int i = 24; i >= 0; i -= 8)
			*p++ = (uint8) (deltas[d].offset >> i);
		*p++ = (uint8) deltas[d].width;
		for (int i = 56; i >= 0; i -= 8)
			*p++ = (uint8) ((uint64) deltas[d].delta >> i);
	}
	return mosql_bytes(out, len);
}

/* What does not fit the row is left out: the caller compared its kind. */
static MosqlBytes
row_add(MosqlBytes old, MosqlBytes add)
{
	uint8	   *out;
	const uint8 *p = (const uint8 *) add.data;

	if (old.data == NULL || old.len < ADD_HEAD_BYTES)
		return old;
	out = palloc(old.len);
	memcpy(out, old.data, old.len);
	if (memcmp(out, p, ADD_HEAD_BYTES) < 0)
		memcpy(out, p, ADD_HEAD_BYTES);
	for (p += ADD_HEAD_BYTES; p + ADD_DELTA_BYTES <= (const uint8 *) add.data + add.len;
		 p += ADD_DELTA_BYTES)
	{
		size_t		offset = (size_t) p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
		int			width = p[4];
		int			carry = 0;

		if (width > 8 || offset + width > old.len)
			continue;
		for (int i = width - 1; i >= 0; i--)
		{
			int			sum = out[offset + i] + p[5 + 8 - width + i] + carry;

			out[offset + i] = (uint8) sum;
			carry = sum >> 8;
		}
	}
	return mosql_bytes(out, old.len);
}

/* The result is old, the write's value, or a palloc'ed list. */
MosqlBytes
mosql_step_written(const MosqlWrite *write, MosqlBytes old)
{
	ssize_t		at;

	switch (write->kind)
	{
		case MOSQL_WRITE_SET:
			return write->value;
		case MOSQL_WRITE_DELETE:
		case MOSQL_WRITE_MOVED:
			return MOSQL_ABSENT;
		case MOSQL_WRITE_MAX:
			if (old.data == NULL || mosql_bytes_compare(old, write->value) < 0)
				return write->value;
			return old;
		case MOSQL_WRITE_APPEND:
			if (old.data != NULL && list_find(old, write->value) >= 0)
				return old;
			return list_append(old, write->value);
		case MOSQL_WRITE_REMOVE:
			at = old.data == NULL ? -1 : list_find(old, write->value);
			return at < 0 ? old : list_remove(old, at, at + MOSQL_TXID_BYTES);
		case MOSQL_WRITE_CONCAT:
			return list_append(old, write->value);
		case MOSQL_WRITE_UNLIST:
			return mosql_claims_take(old, write->value);
		case MOSQL_WRITE_CLAIM:
			return mosql_claims_request(old, write->value);
		case MOSQL_WRITE_ADD:
			return row_add(old, write->value);
		case MOSQL_WRITE_VERSION:
		case MOSQL_WRITE_TOMBSTONE:
		case MOSQL_WRITE_INCREMENT:
			break;
	}
	elog(ERROR, "unknown kind of write: %d", (int) write->kind);
	return old;
}

int
mosql_step_supersede(MosqlBytes field, MosqlBytes old, const MosqlVersion *version,
					 const MosqlSnapshotList *list, MosqlWrite *writes)
{
	StringInfoData out;

	if (!version->live && mosql_row_may_purge(version->ts, list))
	{
		writes[0] = (MosqlWrite) {MOSQL_WRITE_DELETE, field, MOSQL_ABSENT};
		writes[1] = (MosqlWrite) {MOSQL_WRITE_MAX, MOSQL_PURGED_FIELD, mosql_ts_bytes(version->ts)};
		return 2;
	}
	mosql_string_init(&out, version->columns.len + 32);
	if (!mosql_row_supersede(&out, old, version, list))
		return 0;
	writes[0] = (MosqlWrite) {MOSQL_WRITE_SET, field, mosql_bytes_of(&out)};
	return 1;
}
