/*
 * fuzz_tree.c: trees of nodes of any content.
 *
 * Input: nodes, each of 8 bytes id, a byte with the number of its fields, and
 * names and values as runs (fuzz.h); the first one is the root.  Then everything that
 * reads a tree is done, and at last what changes it.  Every call ends, and with
 * an error if it does not have a result.  By the input's hash the store is one that waits
 * for copies, one that may forget, or neither.
 */
#include "fuzz.h"

#include "btree/btree.h"
#include "memstore.h"

const int	fuzz_errors[] = {
	ERRCODE_DATA_CORRUPTED, ERRCODE_UNDEFINED_TABLE, ERRCODE_OBJECT_IN_USE,
	ERRCODE_PROGRAM_LIMIT_EXCEEDED, 0
};

#define NODES_MAX	12
#define ENTRIES_MAX	100000

static uint64
take_id(MosqlBytes *in)
{
	uint64		id = 0;

	for (int i = 0; i < 8; i++)
		id = id << 8 | fuzz_byte(in);
	return id;
}

/* Returns the root's id. */
static uint64
fill(MemStore *mem, MosqlBytes *in)
{
	uint64		root = 0;

	for (int i = 0; i < NODES_MAX && in->len > 9; i++)
	{
		uint64		id = take_id(in);
		int			n = fuzz_byte(in);

		if (i == 0)
			root = id;
		while (n-- > 0 && in->len > 0)
		{
			MosqlBytes	name = fuzz_run(in);

			memstore_set(mem, id, name, fuzz_run(in));
		}
	}
	return root;
}

static int	nfindings;
static int	nseen;

static void
count_finding(void *arg, char severity, uint64 node, const char *what)
{
	MUST((severity == 'E' || severity == 'W') && what[0] != '\0');
	nfindings++;
}

static void
count_leaf(void *arg, const MosqlLeaf *leaf)
{
	nseen++;
	for (int i = 0; i < leaf->n; i++)
		(void) fuzz_hash(leaf->entries[i].key);
}

static void
count_node(void *arg, uint64 node, const MosqlNodeMeta *meta, int nentries, int nintents, size_t bytes)
{
	MUST(nentries >= 0 && nintents >= 0);
	nseen++;
}

/* Keys come in order, and not for ever. */
static void
scan(MosqlTree *tree, bool backward)
{
	MosqlScan  *scan = mosql_btree_scan_begin(tree, mosql_bytes("", 0), MOSQL_ABSENT, backward, 1);
	MosqlBytes	last = MOSQL_ABSENT;
	MosqlLeaf  *leaves;
	int			n;
	int			total = 0;

	while ((n = mosql_btree_scan_next(scan, &leaves)) > 0)
		for (int i = 0; i < n; i++)
			for (int j = 0; j < leaves[i].n; j++)
			{
				MosqlBytes	key = leaves[i].entries[backward ? leaves[i].n - 1 - j : j].key;
				int			c = last.data == NULL ? 0 : mosql_bytes_compare(key, last);

				MUST(last.data == NULL || (backward ? c < 0 : c > 0));
				last = mosql_bytes_copy(CurrentMemoryContext, key);
				MUST(++total < ENTRIES_MAX);
			}
	mosql_btree_scan_end(scan);
}

static void
read_all(MosqlTree *tree, const MosqlBytes *keys, int n)
{
	MosqlPoint *points = palloc0(n * sizeof(MosqlPoint));
	MosqlLeafGroup *groups;
	MosqlLeaf **leaves;
	uint64	   *ids;
	double		rows,
				row_bytes,
				nleaves;
	int			levels;

	mosql_btree_get(tree, keys, n, points);
	for (int i = 0; i < n; i++)
		(void) mosql_btree_read_leaf(tree, keys[i]);
	scan(tree, false);
	scan(tree, true);
	mosql_btree_estimate(tree, &rows, &row_bytes, &nleaves, &levels);
	MUST(rows >= 0 && levels > 0);
	n = mosql_btree_leaf_ids(tree, &ids);
	leaves = palloc0((n + 1) * sizeof(MosqlLeaf *));
	mosql_btree_read_leaves(tree, ids, n, leaves);
	(void) mosql_btree_group(tree, keys, 2, 0, &groups);
}

/* An error of one call must not keep the next from being made. */
#define ATTEMPT(...) \
	do { \
		MemoryContext cxt_ = CurrentMemoryContext; \
		if (PGSTUB_RAISES(__VA_ARGS__)) \
		{ \
			bool		expected_ = false; \
			MemoryContextSwitchTo(cxt_); \
			for (const int *e_ = fuzz_errors; *e_ != 0; e_++) \
				expected_ |= pgstub_error.sqlstate == *e_; \
			if (!expected_) \
				fprintf(stderr, "%s: %s\n", pgstub_sqlstate(pgstub_error.sqlstate), pgstub_error.message); \
			MUST(expected_); \
		} \
	} while (0)

static void
use(MemStore *mem, uint64 root)
{
	MosqlBytes	keys[] = {
		mosql_bytes("", 0), mosql_bytes("\x80\0\0\1", 4), mosql_bytes("\x80\0\0\40", 4),
		mosql_bytes("\xff\xff\xff\xff\xff", 5)
	};
	MosqlTree  *tree = mosql_btree_open(&mem->store, root, CurrentMemoryContext);

	nfindings = nseen = 0;
	ATTEMPT(mosql_btree_check(tree, count_finding, count_leaf, NULL));
	ATTEMPT(mosql_btree_dump(tree, count_node, NULL));
	ATTEMPT(read_all(tree, keys, lengthof(keys)));

	/* the caches are gone */
	tree = mosql_btree_open(&mem->store, root, CurrentMemoryContext);
	ATTEMPT(scan(tree, true));
	ATTEMPT(memstore_reserve(tree, keys, lengthof(keys), 100));
	ATTEMPT(mosql_btree_split(tree, keys[1], false));
	ATTEMPT(mosql_btree_split(tree, keys[2], true));
	ATTEMPT(read_all(tree, keys, lengthof(keys)));
	ATTEMPT(mosql_btree_destroy(tree, NULL, NULL));
}

/* Nothing ever breaks here. */
static bool
unbroken(MosqlNodeStore *store, void (*work) (void *arg), void *arg)
{
	work(arg);
	return true;
}

void
fuzz_one(MosqlBytes in)
{
	MemStore   *mem = memstore_open(1);
	uint32		kind = fuzz_hash(in) % 3;

	mem->store.durable = kind == 1;
	mem->store.unbroken = kind == 2 ? unbroken : NULL;
	mem->next_id = UINT64CONST(0x7000000000000000);
	PG_TRY();
	{
		use(mem, fill(mem, &in));
	}
	PG_FINALLY();
	{
		memstore_close(mem);
	}
	PG_END_TRY();
}
