/*
 * test_format.c: docs/format.md tells the truth.
 *
 * Each example there is a block
 *
 *     ```hex name
 *     00 01 02   what these bytes are
 *     ```
 *
 * and is compared here with what the code writes.  Run with an argument, it
 * prints the bytes of all examples.
 */
#include "bytes.h"

#include <ctype.h>
#include <math.h>

#include "code/block.h"
#include "code/loaded.h"
#include "code/key.h"
#include "code/claim.h"
#include "code/node.h"
#include "code/row.h"

#define FORMAT_MD "../../docs/format.md"

static StringInfoData document;
static bool print_only;
static int	examples;

static void
read_document(void)
{
	FILE	   *file = fopen(FORMAT_MD, "r");
	int			c;

	initStringInfo(&document);
	if (!CHECK(file != NULL))
		return;
	while ((c = getc(file)) != EOF)
		appendStringInfoChar(&document, (char) c);
	fclose(file);
}

/* The hex bytes at the start of each line of a block, as one line. */
static const char *
documented(const char *name)
{
	const char *p = strstr(document.data, psprintf("\n```hex %s\n", name));
	StringInfoData out;

	initStringInfo(&out);
	if (p == NULL)
		return "(not there)";
	for (p = strchr(p + 1, '\n') + 1; *p != '\0' && strncmp(p, "```", 3) != 0;)
	{
		while (isxdigit((unsigned char) p[0]) && isxdigit((unsigned char) p[1]))
		{
			appendStringInfo(&out, "%s%.2s", out.len > 0 ? " " : "", p);
			p += 2;
			if (*p != ' ')
				break;
			p++;
		}
		p = strchr(p, '\n');
		if (p == NULL)
			break;
		p++;
	}
	return out.data;
}

static void
example(const char *name, const StringInfoData *bytes)
{
	const char *is = hex(mosql_bytes_of(bytes));

	examples++;
	if (print_only)
		printf("```hex %s\n%s\n```\n\n", name, is);
	else if (!CHECK(strcmp(is, documented(name)) == 0))
		printf("#   %s\n#   is         %s\n#   documented %s\n", name, is, documented(name));
}

#define EXAMPLE(name, ...) \
	do { \
		StringInfoData b; \
		initStringInfo(&b); \
		__VA_ARGS__; \
		example(name, &b); \
	} while (0)

static MosqlBytes
chars(const char *s)
{
	return mosql_bytes(s, strlen(s));
}

static void
test_scalars(void)
{
	EXAMPLE("varint-5", mosql_varint_put(&b, 5));
	EXAMPLE("varint-300", mosql_varint_put(&b, 300));
	EXAMPLE("timestamp", mosql_ts_put(&b, UINT64CONST(1700000000000000)));
	EXAMPLE("transaction", mosql_txid_put(&b, (MosqlTxid) {258, 3}));
}

static void
test_keys(void)
{
	static const int16 digits[] = {1, 2345, 6780};
	static const int16 cent[] = {100};
	static const int16 one[] = {1};
	static const uint8 host[] = {10, 1, 2, 3};
	int			from;

	EXAMPLE("key-int4-7", mosql_key_put_int(&b, 7, 4));
	EXAMPLE("key-int4-minus-1", mosql_key_put_int(&b, -1, 4));
	EXAMPLE("key-int2-minus-32768", mosql_key_put_int(&b, -32768, 2));
	EXAMPLE("key-float8-1.5", mosql_key_put_float(&b, 1.5, 8));
	EXAMPLE("key-float8-minus-1.5", mosql_key_put_float(&b, -1.5, 8));
	EXAMPLE("key-float8-zero", mosql_key_put_float(&b, -0.0, 8));
	EXAMPLE("key-float8-nan", mosql_key_put_float(&b, NAN, 8));
	EXAMPLE("key-float4-nan", mosql_key_put_float(&b, NAN, 4));
	EXAMPLE("key-string", mosql_key_put_bytes(&b, chars("ab")));
	EXAMPLE("key-string-zero", mosql_key_put_bytes(&b, mosql_bytes("a\0b", 3)));
	EXAMPLE("key-string-empty", mosql_key_put_bytes(&b, chars("")));
	EXAMPLE("key-string-prefix", mosql_key_put_prefix(&b, chars("ab")));
	EXAMPLE("key-string-after-prefix",
			mosql_key_put_prefix(&b, chars("ab"));
			CHECK(mosql_key_after_prefix(&b)));
	EXAMPLE("key-numeric-0", mosql_key_put_numeric(&b, MOSQL_NUMERIC_FINITE, false, 0, one, 0));
	EXAMPLE("key-numeric-1", mosql_key_put_numeric(&b, MOSQL_NUMERIC_FINITE, false, 0, one, 1));
	EXAMPLE("key-numeric-0.01", mosql_key_put_numeric(&b, MOSQL_NUMERIC_FINITE, false, -1, cent, 1));
	EXAMPLE("key-numeric-12345.678",
			mosql_key_put_numeric(&b, MOSQL_NUMERIC_FINITE, false, 1, digits, 3));
	EXAMPLE("key-numeric-minus-12345.678",
			mosql_key_put_numeric(&b, MOSQL_NUMERIC_FINITE, true, 1, digits, 3));
	EXAMPLE("key-numeric-1e400", mosql_key_put_numeric(&b, MOSQL_NUMERIC_FINITE, false, 100, one, 1));
	EXAMPLE("key-inet-host", mosql_key_put_inet(&b, host, 4, 32));
	EXAMPLE("key-inet-12", mosql_key_put_inet(&b, host, 4, 12));
	EXAMPLE("key-bits", mosql_key_put_bits(&b, mosql_bytes("\xa0\x80", 2), 9));
	EXAMPLE("key-bits-empty", mosql_key_put_bits(&b, chars(""), 0));
	EXAMPLE("key-descending",
			from = b.len;
			mosql_key_put_bytes(&b, chars("ab"));
			mosql_key_invert(&b, from));
	EXAMPLE("key-two-columns",
			mosql_key_put_int(&b, 7, 4);
			mosql_key_put_bytes(&b, chars("ab")));
	EXAMPLE("field-row",
			StringInfoData key;
			initStringInfo(&key);
			mosql_key_put_int(&key, 7, 4);
			mosql_field_put(&b, MOSQL_FIELD_ROW, mosql_bytes_of(&key)));
}

static MosqlBytes
example_columns(int32 number)
{
	StringInfoData b;

	initStringInfo(&b);
	mosql_column_put_int(&b, 1, number, 4);
	mosql_column_put_bytes(&b, 2, chars("abc"));
	return mosql_bytes_of(&b);
}

static void
test_rows(void)
{
	MosqlIncrement inc[] = {{1, 4, 5}, {3, 8, -1}};
	MosqlVersion versions[] = {
		{.ts = 40, .end = MOSQL_TS_MAX, .live = true, .columns = example_columns(9)},
		{.ts = 20, .end = 30, .live = true, .columns = example_columns(8)},
		{.ts = 0, .end = 10}
	};
	MosqlVersion tombstone = {.ts = 50, .end = MOSQL_TS_MAX};

	EXAMPLE("columns",
			mosql_column_put_int(&b, 1, 9, 4);
			mosql_column_put_bytes(&b, 2, chars("abc"));
			mosql_column_put_int(&b, 4, 1, 1);
			mosql_column_put_compressed(&b, 20, chars("\x88\x27...")));
	EXAMPLE("increments", mosql_increments_encode(&b, inc, 2));
	EXAMPLE("row-plain", mosql_history_encode(&b, &(MosqlHistory) {1, true, versions}));
	EXAMPLE("row-tombstone", mosql_history_encode(&b, &(MosqlHistory) {1, true, &tombstone}));
	EXAMPLE("row-complete", mosql_history_encode(&b, &(MosqlHistory) {1, false, versions}));
	EXAMPLE("row-older", mosql_history_encode(&b, &(MosqlHistory) {2, true, versions}));
	EXAMPLE("row-absent-first", mosql_history_encode(&b, &(MosqlHistory) {3, false, versions}));
}

/* Compressed bytes are LZ4's; the ones here are put down, and must be read. */
static void
test_blocks(void)
{
	MosqlBytes	keys[] = {mosql_bytes("\x80\0\0\7", 4), mosql_bytes("\x80\0\0\x08", 4)};
	MosqlVersion version = {.ts = 40, .end = MOSQL_TS_MAX, .live = true, .columns = example_columns(9)};
	StringInfoData row;
	MosqlBytes	rows[2];
	MosqlBlock	block;

	initStringInfo(&row);
	mosql_history_encode(&row, &(MosqlHistory) {1, true, &version});
	rows[0] = rows[1] = mosql_bytes_of(&row);
	EXAMPLE("block-plain", mosql_block_encode(&b, MOSQL_COMPRESSION_NONE, keys, rows, 2));
	EXAMPLE("block-rewritten",
			StringInfoData changed;
			StringInfoData deleted;
			MosqlBytes	written[2];

			initStringInfo(&changed);
			initStringInfo(&deleted);
			mosql_loaded_put(&changed, rows[0], example_columns(9));
			mosql_loaded_put(&deleted, rows[1], MOSQL_ABSENT);
			written[0] = mosql_bytes_of(&changed);
			written[1] = mosql_bytes_of(&deleted);
			mosql_block_encode(&b, MOSQL_COMPRESSION_NONE, keys, written, 2));
	EXAMPLE("block-compressed",
			StringInfoData plain;
			initStringInfo(&plain);
			mosql_block_encode(&plain, MOSQL_COMPRESSION_NONE, keys, rows, 2);
			appendBinaryStringInfo(&b, "\1\x30\xF9\x0F", 4);
			appendBinaryStringInfo(&b, plain.data + 2, 30);
			appendBinaryStringInfo(&b, "\x12\0\x50\x15\3abc", 8);
			CHECK(mosql_block_decode(mosql_bytes_of(&b), &block) && block.n == 2);
			for (int i = 0; i < block.n; i++)
				CHECK(mosql_bytes_equal(block.keys[i], keys[i]) && mosql_bytes_equal(block.rows[i], rows[i])));
}

static void
test_nodes(void)
{
	MosqlNodeMeta leaf = {
		.generation = 5, .level = 0, .state = MOSQL_NODE_NORMAL, .tree = 0x01000001, .right = 0x01000003,
		.low = {"", 0}, .high = mosql_bytes("\x80\0\0\x40", 4)
	};
	MosqlNodeMeta dead = leaf;
	MosqlChild	children[] = {
		{{"", 0}, 0x01000002}, {mosql_bytes("\x80\0\0\x40", 4), 0x01000003}
	};
	MosqlIntent put = {{258, 3}, MOSQL_INTENT_PUT, example_columns(9)};
	MosqlIntent delete = {{258, 3}, MOSQL_INTENT_DELETE};
	MosqlIntent increment = {{258, 3}, MOSQL_INTENT_INCREMENT};
	StringInfoData payload;
	MosqlIncrement inc = {1, 4, 5};

	initStringInfo(&payload);
	mosql_increments_encode(&payload, &inc, 1);
	increment.payload = mosql_bytes_of(&payload);
	dead.state = MOSQL_NODE_DEAD;
	dead.other = 0x01000002;
	dead.generation = 9;

	EXAMPLE("meta-leaf", mosql_meta_encode(&b, &leaf));
	leaf.generation = 6;
	leaf.state = MOSQL_NODE_SPLITTING;
	leaf.split_key = mosql_bytes("\x80\0\0\x20", 4);
	leaf.other = 0x01000004;
	EXAMPLE("meta-splitting", mosql_meta_encode(&b, &leaf));
	EXAMPLE("meta-dead", mosql_meta_encode(&b, &dead));
	leaf.state = MOSQL_NODE_LOADING;
	leaf.loaded.loader = (MosqlTxid) {258, 9};
	EXAMPLE("meta-loading", mosql_meta_encode(&b, &leaf));
	leaf.loaded.over = leaf.loaded.deletes = true;
	EXAMPLE("meta-rewritten", mosql_meta_encode(&b, &leaf));
	leaf.generation++;
	leaf.state = MOSQL_NODE_PACKED;
	leaf.loaded = (MosqlLoaded) {.since = 10316,.whole = true};
	EXAMPLE("meta-loaded", mosql_meta_encode(&b, &leaf));
	EXAMPLE("separators", mosql_children_encode(&b, children, 2));
	EXAMPLE("intent-put", mosql_intent_encode(&b, &put));
	EXAMPLE("intent-delete", mosql_intent_encode(&b, &delete));
	EXAMPLE("intent-increment", mosql_intent_encode(&b, &increment));
	EXAMPLE("claims",
			mosql_claim_encode(&b, &(MosqlClaim) {{258, 9}, MOSQL_CLAIM_LOCK, MOSQL_NO_KEY_UPDATE, 0});
			mosql_claim_encode(&b, &(MosqlClaim) {{263, 1}, MOSQL_CLAIM_WAIT, MOSQL_UPDATE, 2}));
}

/* No example there that is not compared here. */
static void
test_all_compared(void)
{
	int			there = 0;

	for (const char *p = document.data; (p = strstr(p, "\n```hex ")) != NULL; p++)
		there++;
	CHECK_INT(there, examples);
	CHECK(strstr(document.data, psprintf("for that node (**format %d**)", MOSQL_NODE_FORMAT)) != NULL);
}

int
main(int argc, char **argv)
{
	print_only = argc > 1;
	if (!print_only)
		read_document();
	RUN(test_scalars);
	RUN(test_keys);
	RUN(test_rows);
	RUN(test_blocks);
	RUN(test_nodes);
	if (!print_only)
		RUN(test_all_compared);
	return unit_finish();
}
