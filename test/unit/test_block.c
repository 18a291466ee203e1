/*
 * test_block.c: blocks of rows: they come back, by key as well, and damage is refused.
 */
#include "bytes.h"

#include "code/block.h"
#include "code/row.h"

#define ROWS_MAX 200
#define KIND_OFFSET 0

static int
compare_bytes(const void *a, const void *b)
{
	return mosql_bytes_compare(*(const MosqlBytes *) a, *(const MosqlBytes *) b);
}

/* n strings in order, each once; returns how many those are. */
static int
sort_keys(MosqlBytes *keys, int n)
{
	int			distinct = 0;

	qsort(keys, n, sizeof(MosqlBytes), compare_bytes);
	for (int i = 0; i < n; i++)
		if (distinct == 0 || mosql_bytes_compare(keys[distinct - 1], keys[i]) < 0)
			keys[distinct++] = keys[i];
	return distinct;
}

/* Of few letters or of any bytes, so that some blocks can be compressed and some cannot. */
static MosqlBytes
random_value(int max_len)
{
	MosqlBytes	value = random_string(max_len);

	if (random_below(2))
		for (size_t i = 0; i < value.len; i++)
			((char *) value.data)[i] = (char) random_bits();
	return value;
}

/* Random rows of which some are alike; returns how many. */
static int
random_rows(MosqlBytes *keys, MosqlBytes *rows, int max)
{
	int			key_max = 1 + random_below(random_below(20) ? 12 : 300);
	int			n = 1 + random_below(max);

	for (int i = 0; i < n; i++)
		keys[i] = random_string(key_max);
	n = sort_keys(keys, n);
	for (int i = 0; i < n; i++)
		rows[i] = i > 0 && random_below(2) ? rows[i - 1] : random_value(random_below(30) ? 20 : 500);
	return n;
}

static MosqlBytes
encode(MosqlCompression compression, const MosqlBytes *keys, const MosqlBytes *rows, int n)
{
	StringInfoData buf;

	initStringInfo(&buf);
	mosql_block_encode(&buf, compression, keys, rows, n);
	return mosql_bytes_of(&buf);
}

static bool
same_rows(const MosqlBlock *block, const MosqlBytes *keys, const MosqlBytes *rows, int n)
{
	if (block->n != n)
		return false;
	for (int i = 0; i < n; i++)
		if (!mosql_bytes_equal(block->keys[i], keys[i]) || !mosql_bytes_equal(block->rows[i], rows[i]) ||
			block->rows[i].data == NULL)
			return false;
	return true;
}

/*
 * Some keys, of the block and others: found is what is there.  `in` may be overwritten once
 * rows were found.
 */
static bool
finds(MosqlBytes in, const MosqlBytes *keys, const MosqlBytes *rows, int n)
{
	MosqlBytes	asked[ROWS_MAX];
	MosqlBytes	found[ROWS_MAX];
	MosqlBytes	copy = tight(in);
	int			m = random_below(3) ? random_below(5) : random_below(ROWS_MAX);

	for (int i = 0; i < m; i++)
		asked[i] = random_below(4) ? keys[random_below(n)] : random_string(12);
	m = sort_keys(asked, m);
	for (int i = 0; i < m; i++)
		found[i] = mosql_bytes("?", 1);
	if (!mosql_block_find(copy, asked, m, found))
		return false;
	memset((char *) copy.data, '?', copy.len);
	for (int i = 0; i < m; i++)
	{
		const MosqlBytes *key = bsearch(&asked[i], keys, n, sizeof(MosqlBytes), compare_bytes);

		if ((key == NULL) != (found[i].data == NULL) ||
			(key != NULL && !mosql_bytes_equal(found[i], rows[key - keys])))
			return false;
	}
	return true;
}

/*
 * A block that is sound: has rows in order, which are found, and when they are written
 * again the same comes back: of a plain block, the same bytes.
 */
static void
check_sound(MosqlBytes in, const MosqlBlock *block)
{
	MosqlBytes *found = palloc(block->n * sizeof(MosqlBytes));
	MosqlBytes	again = encode(in.data[KIND_OFFSET] == 1, block->keys, block->rows, block->n);
	MosqlBlock	back;

	if (block->n <= 0 || block->n > MOSQL_BLOCK_MAX_ROWS)
		CHECK(!"as many rows as there may be");
	for (int i = 1; i < block->n; i++)
		if (mosql_bytes_compare(block->keys[i - 1], block->keys[i]) >= 0)
			CHECK(!"keys ascend");
	if (in.data[KIND_OFFSET] == 0 && !mosql_bytes_equal(again, in))
		CHECK(!"one encoding of a plain block");
	if (!mosql_block_decode(again, &back) || !same_rows(&back, block->keys, block->rows, block->n))
		CHECK(!"what was decoded can be encoded");
	if (!mosql_block_find(in, block->keys, block->n, found))
		CHECK(!"what decodes is searched");
	for (int i = 0; i < block->n; i++)
		if (!mosql_bytes_equal(found[i], block->rows[i]))
			CHECK(!"all rows are found");
}

static bool
decode(MosqlBytes in)
{
	MosqlBlock	block;
	MosqlBytes	key = {"a", 1};
	MosqlBytes	row;

	if (mosql_block_decode(in, &block))
	{
		check_sound(in, &block);
		return true;
	}
	if (block.n != 0 || block.keys != NULL || block.rows != NULL)
		CHECK(!"nothing of what is damaged");
	if (mosql_block_find(in, &key, 1, &row) || mosql_block_find(in, NULL, 0, NULL))
		CHECK(!"what does not decode is not searched");
	return false;
}

static void
test_round_trip(void)
{
	MosqlBytes	keys[ROWS_MAX];
	MosqlBytes	rows[ROWS_MAX];
	int			kinds[3] = {0};

	for (int round = 0; round < 2000; round++)
	{
		int			n = random_rows(keys, rows, round < 1000 ? 5 : ROWS_MAX);
		MosqlCompression wanted = round % 3;
		MosqlBytes	plain = encode(MOSQL_COMPRESSION_NONE, keys, rows, n);
		MosqlBytes	block = encode(wanted, keys, rows, n);
		MosqlBlock	back;

		kinds[(int) block.data[KIND_OFFSET]]++;
		if (block.len > plain.len || plain.data[KIND_OFFSET] != 0 ||
			(block.len == plain.len && block.data[KIND_OFFSET] != 0))
			CHECK(!"compressed is smaller, or it is not");
		if (!mosql_block_decode(tight(block), &back) || !same_rows(&back, keys, rows, n))
			CHECK(!"a block comes back");
		if (!finds(block, keys, rows, n))
			CHECK(!"rows of a block are found");
		if (wanted == MOSQL_COMPRESSION_NONE && !mosql_bytes_equal(block, plain))
			CHECK(!"plain where that is wanted");
	}
	CHECK(kinds[1] > 200 && kinds[1] < 660 && kinds[2] > 200 && kinds[2] < 660);
}

/* It is appended, and as large as it says. */
static void
test_appended(void)
{
	MosqlBytes	key = {"k", 1};
	char		blanks[300];
	MosqlBytes	row = {blanks, sizeof(blanks)};
	StringInfoData buf;
	MosqlBlock	block;

	memset(blanks, ' ', sizeof(blanks));
	initStringInfo(&buf);
	appendStringInfoString(&buf, "front");
	mosql_block_encode(&buf, MOSQL_COMPRESSION_LZ4, &key, &row, 1);
	CHECK(buf.len < 40 && memcmp(buf.data, "front\1", 6) == 0 && buf.data[buf.len] == '\0');
	CHECK(mosql_block_decode(mosql_bytes(buf.data + 5, buf.len - 5), &block));
	CHECK(same_rows(&block, &key, &row, 1));
}

/* The longest keys, as many rows as there may be, and the smallest of all. */
static void
test_extremes(void)
{
	static char long_key[MOSQL_KEY_MAX_BYTES];
	static char numbers[MOSQL_BLOCK_MAX_ROWS][4];
	MosqlBytes	keys[MOSQL_BLOCK_MAX_ROWS];
	MosqlBytes	rows[MOSQL_BLOCK_MAX_ROWS];
	char	   *large = palloc(3 * 1024 * 1024);

	for (int i = 0; i < MOSQL_BLOCK_MAX_ROWS; i++)
	{
		snprintf(numbers[i], 4, "%03x", i);
		keys[i] = mosql_bytes(numbers[i], 3);
		rows[i] = mosql_bytes("x", random_below(2));
	}
	CHECK(decode(encode(MOSQL_COMPRESSION_LZ4, keys, rows, MOSQL_BLOCK_MAX_ROWS)));
	CHECK(decode(encode(MOSQL_COMPRESSION_NONE, keys, rows, MOSQL_BLOCK_MAX_ROWS)));

	keys[0] = mosql_bytes("", 0);
	rows[0] = mosql_bytes("", 0);
	CHECK(decode(encode(MOSQL_COMPRESSION_LZ4, keys, rows, 1)));
	keys[1] = mosql_bytes(long_key, sizeof(long_key) - 1);
	keys[2] = mosql_bytes(long_key, sizeof(long_key));
	for (int i = 0; i < 3 * 1024 * 1024; i++)
		large[i] = (char) (i >> 3);
	rows[2] = mosql_bytes(large, 3 * 1024 * 1024);
	for (int kind = MOSQL_COMPRESSION_NONE; kind <= MOSQL_COMPRESSION_ZSTD; kind++)
	{
		CHECK(decode(encode(kind, keys, rows, 3)));
		CHECK(finds(encode(kind, keys, rows, 3), keys, rows, 3));
	}
}

/* More than a block may have is refused before anything is read or written. */
static void
test_too_large(void)
{
	MosqlBytes	key = {"k", 1};
	MosqlBytes	row = {"", (size_t) MOSQL_BLOCK_MAX_BYTES};
	StringInfoData buf;

	initStringInfo(&buf);
	CHECK_RAISES(ERRCODE_PROGRAM_LIMIT_EXCEEDED, mosql_block_encode(&buf, MOSQL_COMPRESSION_LZ4, &key, &row, 1));
	CHECK_INT(buf.len, 0);
}

static void
test_damage(void)
{
	MosqlBytes	keys[ROWS_MAX];
	MosqlBytes	rows[ROWS_MAX];
	char		blanks[100];

	memset(blanks, ' ', sizeof(blanks));
	for (int round = 0; round < 100; round++)
	{
		int			n = random_rows(keys, rows, 6);

		if (round % 2 == 0)
			rows[0] = mosql_bytes(blanks, sizeof(blanks));	/* it can be compressed */
		CHECK_INT(damage(encode(MOSQL_COMPRESSION_NONE, keys, rows, n), decode), 0);
		CHECK_INT(damage(encode(MOSQL_COMPRESSION_LZ4, keys, rows, n), decode), 0);
		CHECK_INT(damage(encode(MOSQL_COMPRESSION_ZSTD, keys, rows, n), decode), 0);
	}
	damage_random(mosql_bytes("\0", 1), 20000, decode);
	damage_random(mosql_bytes("\1\x20\xF0", 3), 20000, decode);
}

/* A plain block around a body. */
static bool
decode_body(const char *body, size_t len)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoChar(&buf, 0);
	mosql_varint_put(&buf, len);
	appendBinaryStringInfo(&buf, body, (int) len);
	return decode(tight(mosql_bytes_of(&buf)));
}

#define BODY(literal) decode_body(literal, sizeof(literal) - 1)
#define RAW(literal) decode(tight(mosql_bytes(literal, sizeof(literal) - 1)))

/* Each check of the decoder by itself. */
static void
test_refused(void)
{
	StringInfoData buf;

	CHECK(BODY("\2" "\0\2\1" "\1\1\1" "ab" "c" "xy"));	/* ab, ac */
	CHECK(BODY("\2" "\0\0\0" "\0\1\0" "a"));	/* the empty key, a */
	CHECK(BODY("\2" "\0\1\0" "\1\1\0" "aa"));	/* a, aa */
	CHECK(BODY("\2" "\0\1\0" "\0\1\0" "\x7F\x80")); /* bytes have no sign */
	CHECK(!BODY("\0"));			/* no rows */
	CHECK(!BODY(""));
	CHECK(!BODY("\2" "\0\2\1" "\1\1\1" "ab" "b" "xy")); /* equal; it shares more than it says */
	CHECK(!BODY("\2" "\0\2\1" "\1\1\1" "ab" "a" "xy")); /* descending */
	CHECK(!BODY("\2" "\0\1\0" "\0\1\0" "\x80\x7F"));
	CHECK(!BODY("\2" "\0\2\1" "\1\0\1" "ab" "xy")); /* a prefix */
	CHECK(!BODY("\2" "\0\2\1" "\2\0\1" "ab" "xy")); /* equal */
	CHECK(!BODY("\2" "\0\2\1" "\3\1\1" "ab" "c" "xy")); /* shares more than there is */
	CHECK(!BODY("\1" "\1\1\1" "a" "x"));	/* the first shares nothing */
	CHECK(!BODY("\2" "\0\2\1" "\1\1\1" "ab" "c" "xyz"));	/* bytes left over */
	CHECK(!BODY("\2" "\0\2\1" "\1\1\1" "ab" "c" "x"));
	CHECK(!BODY("\3" "\0\2\1" "\1\1\1" "ab" "c" "xy"));
	CHECK(!BODY("\1" "\0\1\x80\0" "a"));	/* not the shortest varint */
	CHECK(!BODY("\1" "\0\1\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1" "a"));
	CHECK(!BODY("\2" "\0\1\x80\x80\x80\x80\x80\x80\x80\x80\x80\1" "\0\1\x82\x80\x80\x80\x80\x80\x80\x80\x80\1"
				"ab" "xy"));	/* 2^63 and 2^63 + 2: their sum is not 2 */
	CHECK(!BODY("\1" "\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1\0" "a"));
	CHECK(!BODY("\2" "\0\1\0" "\1\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1\0" "a"));

	CHECK(RAW("\0\5" "\1" "\0\1\0" "a"));
	CHECK(RAW("\1\x1C" "\x6D\1\0\1\x17" "ax" "\1\0" "\x50xxxxx"));
	CHECK(!RAW("\3\x1C" "\x6D\1\0\1\x17" "ax" "\1\0" "\x50xxxxx"));	/* an unknown kind */
	CHECK(!RAW("\2\x1C" "\x6D\1\0\1\x17" "ax" "\1\0" "\x50xxxxx"));	/* zstd? no */
	CHECK(!RAW("\2\5" "\1" "\0\1\0" "a"));
	CHECK(!RAW("\0\6" "\1" "\0\1\0" "a"));	/* another length */
	CHECK(!RAW("\0\4" "\1" "\0\1\0" "a"));
	CHECK(!RAW("\1\5" "\x50" "\1" "\0\1\0" "a"));	/* compressed, and not smaller */
	CHECK(!RAW("\1\x86\x80\x80\x80\2" "\x1F" " " "\1\0"));	/* too long */
	CHECK(!RAW("\1\x80\x80\x80\x80\2" "\x1F" " " "\1\0"));	/* more than LZ4 can make of it */
	CHECK(!decode(mosql_bytes("", 0)));
	CHECK(!decode(MOSQL_ABSENT));

	/* one row more, and one byte of a key more, than there may be */
	initStringInfo(&buf);
	for (int n = MOSQL_BLOCK_MAX_ROWS; n <= MOSQL_BLOCK_MAX_ROWS + 1; n++)
	{
		resetStringInfo(&buf);
		mosql_varint_put(&buf, n);
		for (int i = 0; i < n; i++)
		{
			mosql_varint_put(&buf, i);
			appendBinaryStringInfo(&buf, "\1\0", 2);
		}
		for (int i = 0; i < n; i++)
			appendStringInfoChar(&buf, 'k');
		CHECK_INT(decode_body(buf.data, buf.len), n == MOSQL_BLOCK_MAX_ROWS);
	}
	for (int further = MOSQL_KEY_MAX_BYTES; further <= MOSQL_KEY_MAX_BYTES + 1; further++)
	{
		resetStringInfo(&buf);
		appendBinaryStringInfo(&buf, "\1\0", 2);
		mosql_varint_put(&buf, further);
		appendStringInfoChar(&buf, 0);
		for (int i = 0; i < further; i++)
			appendStringInfoChar(&buf, 'k');
		CHECK_INT(decode_body(buf.data, buf.len), further == MOSQL_KEY_MAX_BYTES);
	}
}

/*
 * Nothing stays but what was asked for: one chunk for bytes, two for a block, one for rows;
 * none for what is damaged.
 */
static void
test_memory(void)
{
	char		blanks[100];
	MosqlBytes	keys[] = {{"a", 1}, {"b", 1}};
	MosqlBytes	rows[] = {{blanks, 100}, {blanks, 100}};
	MosqlBytes	found[2];
	MosqlBlock	block;

	memset(blanks, ' ', sizeof(blanks));
	for (int kind = MOSQL_COMPRESSION_NONE; kind <= MOSQL_COMPRESSION_ZSTD; kind++)
	{
		MosqlBytes	bad = encode(kind, keys, rows, 2);
		int64		chunks = pgstub_chunks();
		MosqlBytes	good = encode(kind, keys, rows, 2);
		int64		encode_chunks = pgstub_chunks() - chunks;

		CHECK_INT(good.data[KIND_OFFSET], kind);
		CHECK_INT(encode_chunks, 1);
		chunks = pgstub_chunks();
		CHECK(mosql_block_decode(good, &block));
		CHECK_INT(pgstub_chunks() - chunks, 2);
		chunks = pgstub_chunks();
		CHECK(mosql_block_find(good, keys, 2, found));
		CHECK_INT(pgstub_chunks() - chunks, 1);
		chunks = pgstub_chunks();
		*(char *) memchr(bad.data + 3, 'b', bad.len - 3) = 'a';
		CHECK(!mosql_block_decode(bad, &block));
		CHECK(!mosql_block_find(bad, keys, 2, found));
		CHECK_INT(pgstub_chunks() - chunks, 0);
	}
}

int
main(void)
{
	RUN(test_round_trip);
	RUN(test_appended);
	RUN(test_extremes);
	RUN(test_too_large);
	RUN(test_damage);
	RUN(test_refused);
	RUN(test_memory);
	return unit_finish();
}
