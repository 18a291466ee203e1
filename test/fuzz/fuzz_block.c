/*
 * fuzz_block.c: a packed leaf's block.
 *
 * Input: a byte that says what the rest is: 0, a block; 1, the body of a plain one; else
 * LZ4's output, of so many times 256 bytes.  Without that few inputs would have lengths that fit.
 */
#include "fuzz.h"

#include "code/block.h"
#include "code/row.h"

const int	fuzz_errors[] = {0};

static MosqlBytes
framed(MosqlBytes in, int choice)
{
	StringInfoData out;

	if (choice == 0)
		return in;
	initStringInfo(&out);
	appendStringInfoChar(&out, choice == 1 ? 0 : 1);
	mosql_varint_put(&out, choice == 1 ? in.len : (choice - 1) * 256);
	appendBinaryStringInfo(&out, in.data, (int) in.len);
	return fuzz_tight(mosql_bytes_of(&out));
}

/* Written again, compressed or not, the same comes back; a plain block byte by byte. */
static void
check_again(MosqlBytes in, const MosqlBlock *block, MosqlCompression compression)
{
	StringInfoData out;
	MosqlBlock	back;

	initStringInfo(&out);
	mosql_block_encode(&out, compression, block->keys, block->rows, block->n);
	if (compression == MOSQL_COMPRESSION_NONE && in.data[0] == 0)
		MUST(mosql_bytes_equal(mosql_bytes_of(&out), in));
	MUST(mosql_block_decode(mosql_bytes_of(&out), &back) && back.n == block->n);
	for (int i = 0; i < block->n; i++)
		MUST(mosql_bytes_equal(back.keys[i], block->keys[i]) && mosql_bytes_equal(back.rows[i], block->rows[i]));
}

/* Every other key, and one before each that is not there. */
static void
check_find(MosqlBytes in, const MosqlBlock *block)
{
	MosqlBytes *asked = palloc(2 * block->n * sizeof(MosqlBytes));
	MosqlBytes *found = palloc(2 * block->n * sizeof(MosqlBytes));
	int			n = 0;

	for (int i = 0; i < block->n; i += 2)
	{
		MosqlBytes	before = block->keys[i];

		if (before.len > 0)
		{
			before.len--;
			if (i == 0 || mosql_bytes_compare(block->keys[i - 1], before) < 0)
				asked[n++] = before;
		}
		asked[n++] = block->keys[i];
	}
	MUST(mosql_block_find(in, asked, n, found));
	for (int i = 0, k = 0; k < n; k++)
	{
		while (i < block->n && mosql_bytes_compare(block->keys[i], asked[k]) < 0)
			i++;
		if (i < block->n && mosql_bytes_equal(block->keys[i], asked[k]))
			MUST(found[k].data != NULL && mosql_bytes_equal(found[k], block->rows[i]));
		else
			MUST(found[k].data == NULL);
	}
}

void
fuzz_one(MosqlBytes in)
{
	int			choice = fuzz_byte(&in);
	MosqlBytes	block_bytes = framed(in, choice);
	MosqlBlock	block;

	if (!mosql_block_decode(block_bytes, &block))
	{
		MosqlBytes	key = {"k", 1};
		MosqlBytes	row;

		MUST(block.n == 0 && !mosql_block_find(block_bytes, &key, 1, &row));
		return;
	}
	MUST(block.n > 0 && block.n <= MOSQL_BLOCK_MAX_ROWS);
	for (int i = 0; i < block.n; i++)
	{
		(void) fuzz_hash(block.rows[i]);
		MUST(block.keys[i].len <= MOSQL_KEY_MAX_BYTES);
		MUST(i == 0 || mosql_bytes_compare(block.keys[i - 1], block.keys[i]) < 0);
	}
	check_again(block_bytes, &block, MOSQL_COMPRESSION_NONE);
	check_again(block_bytes, &block, MOSQL_COMPRESSION_LZ4);
	check_again(block_bytes, &block, MOSQL_COMPRESSION_ZSTD);
	check_find(block_bytes, &block);
}
