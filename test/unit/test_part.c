/*
 * test_part.c: the participants of a transaction record.
 */
#include "bytes.h"

#include "base/limits.h"
#include "code/part.h"
#include "code/row.h"

#define B(s) mosql_bytes(s, sizeof(s) - 1)

static StringInfoData
example(void)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_part_put_head(&out, MOSQL_PART_KEYS, 7, 2);
	mosql_part_put_key(&out, B("a"));
	mosql_part_put_key(&out, B(""));
	mosql_part_put_head(&out, MOSQL_PART_RANGE, UINT64CONST(1) << 60, 2);
	mosql_part_put_key(&out, B("b\0"));
	mosql_part_put_key(&out, B("bc"));
	mosql_part_put_head(&out, MOSQL_PART_MARKS, 9, 1);
	mosql_part_put_key(&out, B("x"));
	mosql_part_put_high(&out, B("y"));
	mosql_part_put_head(&out, MOSQL_PART_MARKS, 9, 1);
	mosql_part_put_key(&out, B(""));
	mosql_part_put_high(&out, MOSQL_ABSENT);
	mosql_part_put_head(&out, MOSQL_PART_TREE, 11, 0);
	return out;
}

static void
test_round_trip(void)
{
	StringInfoData bytes = example();
	MosqlBytes	rest = mosql_bytes_of(&bytes);
	MosqlBytes	key;
	MosqlPart	part;

	CHECK_INT(mosql_part_next(&rest, &part), 1);
	CHECK(part.kind == MOSQL_PART_KEYS && part.root == 7 && part.n == 2);
	CHECK(mosql_part_key(&part.keys, &key) && mosql_bytes_equal(key, B("a")));
	CHECK(mosql_part_key(&part.keys, &key) && key.len == 0 && key.data != NULL);
	CHECK(!mosql_part_key(&part.keys, &key));
	CHECK_INT(mosql_part_next(&rest, &part), 1);
	CHECK(part.kind == MOSQL_PART_RANGE && part.root == UINT64CONST(1) << 60);
	CHECK(mosql_bytes_equal(part.low, B("b\0")) && mosql_bytes_equal(part.high, B("bc")));
	CHECK_INT(mosql_part_next(&rest, &part), 1);
	CHECK(part.kind == MOSQL_PART_MARKS && mosql_bytes_equal(part.low, B("x")) &&
		  mosql_bytes_equal(part.high, B("y")));
	CHECK_INT(mosql_part_next(&rest, &part), 1);
	CHECK(part.kind == MOSQL_PART_MARKS && part.low.len == 0 && part.high.data == NULL);
	CHECK_INT(mosql_part_next(&rest, &part), 1);
	CHECK(part.kind == MOSQL_PART_TREE && part.root == 11);
	CHECK_INT(mosql_part_next(&rest, &part), 0);
}

/* Whatever is cut off or changed is refused, or is parts of the same length. */
static void
test_damage(void)
{
	StringInfoData bytes = example();
	int			ends = 0;

	for (int len = 0; len < bytes.len; len++)
	{
		char	   *copy = malloc(len + 1);
		MosqlBytes	rest = mosql_bytes(copy, len);
		MosqlPart	part;
		int			got;

		memcpy(copy, bytes.data, len);
		while ((got = mosql_part_next(&rest, &part)) == 1)
			;
		ends += got == 0;
		free(copy);
	}
	CHECK_INT(ends, 5);			/* nothing, and after each part but the last */
	for (int i = 0; i < bytes.len; i++)
		for (int c = 0; c < 256; c++)
		{
			char	   *copy = malloc(bytes.len);
			MosqlBytes	rest = mosql_bytes(copy, bytes.len);
			MosqlBytes	key;
			MosqlPart	part;

			memcpy(copy, bytes.data, bytes.len);
			copy[i] = (char) c;
			while (mosql_part_next(&rest, &part) == 1)
				while (mosql_part_key(&part.keys, &key))
					CHECK(key.data >= copy && key.data + key.len <= copy + bytes.len);
			free(copy);
		}
}

static bool
refused(MosqlBytes bytes)
{
	MosqlPart	part;

	return mosql_part_next(&bytes, &part) == -1;
}

static void
test_refused(void)
{
	StringInfoData out;

	CHECK(refused(B("Z\1\1\0")));
	CHECK(refused(B("K\1\0")));			/* no keys */
	CHECK(refused(B("D\1\1\0")));		/* none is wanted */
	CHECK(refused(B("D\0\0")));			/* of no tree */
	CHECK(refused(B("K\0\1\1a")));		/* no root */
	CHECK(refused(B("K\1\2\1a")));		/* one key short */
	CHECK(refused(B("R\1\2\1b\1a")));	/* upside down */
	CHECK(refused(B("R\1\1\1a\1b")));
	CHECK(refused(B("M\1\2\1a\0")));
	CHECK(refused(B("M\1\1\1a\2")));
	CHECK(refused(B("K\1\1\377\377\377\377\377\377\377\377\377\1")));
	initStringInfo(&out);
	mosql_part_put_head(&out, MOSQL_PART_KEYS, 1, MOSQL_RECORD_MAX_KEYS + 1);
	for (int i = 0; i <= MOSQL_RECORD_MAX_KEYS; i++)
		mosql_part_put_key(&out, B("k"));
	CHECK(refused(mosql_bytes_of(&out)));
}

int
main(void)
{
	RUN(test_round_trip);
	RUN(test_damage);
	RUN(test_refused);
	return unit_finish();
}
