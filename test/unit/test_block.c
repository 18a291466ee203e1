/*
 * test_block.c: blocks of rows.
 */
#include "bytes.h"

#include "code/block.h"

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

/* Random rows of which many are alike. */
static int
random_rows(MosqlBytes *keys, MosqlBytes *rows, int max)
{
	int			key_max = 1 + random_below(random_below(20) ? 12 : 300);
	int			n = 1 + random_below(max);

	for (int i = 0; i < n; i++)
		keys[i] = random_string(key_max);
	n = sort_keys(keys, n);
	for (int i = 0; i < n; i++)
		rows[i] = i > 0 && random_below(2) ? rows[i - 1] : random_string(random_below(30) ? 20 : 500);
	return n;
}

static void
test_round_trip(void)
{
	StringInfoData buf;
	MosqlBytes	keys[200];
	MosqlBytes	rows[200];
	int			compressed = 0;

	initStringInfo(&buf);
	for (int round = 0; round < 2000; round++)
	{
		int			n = random_rows(keys, rows, round < 1000 ? 5 : 200);
		bool		compress = round % 2;
		MosqlBlock	block;
		int			wrong = 0;

		resetStringInfo(&buf);
		appendStringInfoString(&buf, "front");
		mosql_block_encode(&buf, compress, keys, rows, n);
		compressed += buf.data[5] == 1;
		if (!mosql_block_decode(tight(mosql_bytes(buf.data + 5, buf.len - 5)), &block))
		{
			CHECK(!"a block decodes");
			continue;
		}
		wrong += block.n != n;
		for (int i = 0; i < n && wrong == 0; i++)
			wrong += !mosql_bytes_equal(block.keys[i], keys[i]) || !mosql_bytes_equal(block.rows[i], rows[i]);
		if (wrong)
			CHECK(!"a block comes back");
	}
	CHECK(compressed > 300);
}

int
main(void)
{
	RUN(test_round_trip);
	return unit_finish();
}
