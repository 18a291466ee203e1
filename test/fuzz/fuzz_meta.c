/*
 * fuzz_meta.c: the meta field of a node.
 */
#include "fuzz.h"

#include "code/node.h"

const int	fuzz_errors[] = {0};

static bool
same(MosqlBytes a, MosqlBytes b)
{
	return (a.data == NULL) == (b.data == NULL) && mosql_bytes_equal(a, b);
}

/* A key stands to a node as its fences say. */
static void
check_cover(const MosqlNodeMeta *meta, MosqlBytes key)
{
	MosqlCover	cover = mosql_meta_cover(meta, key);
	bool		right = meta->high.data != NULL && mosql_bytes_compare(key, meta->high) >= 0;
	bool		left = mosql_bytes_compare(key, meta->low) < 0;

	if (meta->state == MOSQL_NODE_DEAD)
		MUST(cover == MOSQL_COVER_DEAD);
	else if (left)
		MUST(cover == MOSQL_COVER_LEFT);
	else if (right)
		MUST(cover == MOSQL_COVER_RIGHT);
	else if (meta->state == MOSQL_NODE_NORMAL)
		MUST(cover == MOSQL_COVER_OK);
	else
		MUST(cover == MOSQL_COVER_OK || cover == MOSQL_COVER_FROZEN || cover == MOSQL_COVER_DYING);
}

void
fuzz_one(MosqlBytes in)
{
	MosqlNodeMeta meta;
	MosqlNodeMeta again;
	StringInfoData out;

	if (!mosql_meta_decode(in, &meta))
		return;
	initStringInfo(&out);
	mosql_meta_encode(&out, &meta);
	MUST(mosql_bytes_equal(mosql_bytes_of(&out), in));
	MUST(mosql_meta_decode(mosql_bytes_of(&out), &again));
	MUST(again.generation == meta.generation && again.level == meta.level &&
		 again.state == meta.state && again.tree == meta.tree && again.right == meta.right &&
		 again.other == meta.other && same(again.low, meta.low) &&
		 same(again.high, meta.high) && same(again.split_key, meta.split_key));
	check_cover(&meta, in);
	check_cover(&meta, meta.low);
	check_cover(&meta, meta.high);
	check_cover(&meta, meta.split_key);
}
