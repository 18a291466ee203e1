/*
 * test_btree.c: the tree against a sorted array.
 *
 * Runs twice: with the limits of the product, and (make LIMITS=tiny) with
 * leaves and inner nodes so small that a few thousand rows make deep trees.
 * BTREE_TEST_SCALE multiplies the number of random operations (default 1);
 * BTREE_TEST_SEED (default 1) changes them; BTREE_TEST_ONLY=test_... runs one case;
 * BTREE_TEST_BENCH=1 prints speeds.
 */
#include "unit.h"

#include <unistd.h>

#include "common/pg_prng.h"

#include "memstore.h"

#include "base/limits.h"
#include "base/retry.h"
#include "base/stats.h"
#include "btree/btree_int.h"
#include "code/row.h"

#define ROOT		7
#define TINY		(MOSQL_LEAF_MAX_ROWS < 20)

/* --- the truth: keys[0 .. nkeys - 1] ascending, value 0 = absent --- */

typedef struct World
{
	MemStore   *mem;
	MosqlNodeStore *store;
	int			nkeys;
	MosqlBytes *keys;
	uint32	   *values;
	int64	   *changed;		/* when, on `time` */
	int64		time;
	uint32		last_value;
	int			ntrees;
	MosqlTree  *trees[3];		/* handles, each with its own stale cache */
	int			depth;			/* of operations within operations */
	bool		damaged;		/* answers may be wrong, they must only end */
	int64		operations;
} World;

static uint64 seed = 1;
static bool leaping = false;	/* scans may be of several ranges */

static int
scaled(int n)
{
	const char *s = getenv("BTREE_TEST_SCALE");
	double		scale = s ? atof(s) : 1;

	return Max((int) (n * scale), 1);
}

static uint32
rnd(World *w, uint32 n)
{
	return (uint32) (memstore_random(w->mem) % n);
}

static int
compare_bytes(const void *a, const void *b)
{
	return mosql_bytes_compare(*(const MosqlBytes *) a, *(const MosqlBytes *) b);
}

/* Keys of random lengths over a small alphabet (many common prefixes), the
 * empty key among them, or fixed 8-byte numbers. */
static void
make_keys(World *w, int n, bool numbers)
{
	int			out = 0;

	w->keys = palloc(n * sizeof(MosqlBytes));
	for (int i = 0; i < n; i++)
	{
		char		buf[40];
		int			len = 0;

		if (numbers)
			for (len = 0; len < 8; len++)
				buf[len] = (char) ((uint64) i * 3 >> (8 * (7 - len)));
		else if (i > 0)
			for (len = 0; len < 1 + (int) rnd(w, 3) * (int) rnd(w, 12) + 4; len++)
				buf[len] = "\x00\x01" "ab\xff"[rnd(w, 5)];
		w->keys[i] = mosql_bytes_copy(CurrentMemoryContext, mosql_bytes(buf, len));
	}
	qsort(w->keys, n, sizeof(MosqlBytes), compare_bytes);
	for (int i = 0; i < n; i++)
		if (out == 0 || compare_bytes(&w->keys[out - 1], &w->keys[i]) != 0)
			w->keys[out++] = w->keys[i];
	w->nkeys = out;
	w->values = palloc0(n * sizeof(uint32));
	w->changed = palloc0(n * sizeof(int64));
}

static World *
world_open(int nkeys, bool numbers, int ntrees)
{
	World	   *w = palloc0(sizeof(World));

	w->mem = memstore_open(seed++);
	w->store = &w->mem->store;
	make_keys(w, nkeys, numbers);
	CHECK(mosql_btree_create(w->store, ROOT, false));
	w->ntrees = ntrees;
	for (int i = 0; i < ntrees; i++)
		w->trees[i] = mosql_btree_open(w->store, ROOT, CurrentMemoryContext);
	return w;
}

/* Another world like w, with two handles, in the current context. */
static void
world_copy(World *c, const World *w)
{
	*c = *w;
	c->mem = memstore_copy(w->mem);
	c->store = &c->mem->store;
	c->values = palloc(w->nkeys * sizeof(uint32));
	c->changed = palloc(w->nkeys * sizeof(int64));
	memcpy(c->values, w->values, w->nkeys * sizeof(uint32));
	memcpy(c->changed, w->changed, w->nkeys * sizeof(int64));
	c->ntrees = 2;
	for (int i = 0; i < 2; i++)
		c->trees[i] = mosql_btree_open(c->store, ROOT, CurrentMemoryContext);
}

/* Windows of scans that were asked for ahead, and taken. */
static int64 windows_taken;

static void
world_close(World *w)
{
	for (int i = 0; i < w->ntrees; i++)
		mosql_btree_close(w->trees[i]);
	CHECK_INT(w->mem->asked, 0);
	windows_taken += w->mem->took;
	memstore_close(w->mem);
}

static MosqlTree *
any_tree(World *w)
{
	return w->trees[rnd(w, w->ntrees)];
}

/* --- writing, as the layer above does it --- */

static MosqlBytes
field_of(char kind, MosqlBytes key)
{
	StringInfoData buf;

	initStringInfo(&buf);
	mosql_field_put(&buf, kind, key);
	return mosql_bytes_of(&buf);
}

static MosqlBytes
generation_of(uint64 generation)
{
	char	   *p = palloc(8);

	for (int i = 0; i < 8; i++)
		p[i] = (char) (generation >> (8 * (7 - i)));
	return mosql_bytes(p, 8);
}

/*
 * Write keys (indexes ascending, distinct) with values (0: delete) until all
 * steps have gone through.  Rows are 4 bytes, some padded to `pad` bytes.
 */
static void
write_keys(World *w, MosqlTree *tree, const int *index, const uint32 *values, int n, int pad)
{
	MosqlBytes	meta_field = mosql_bytes("m", 1);
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	int		   *left = palloc(n * sizeof(int));
	MosqlBudget budget = mosql_budget_start(20000);

	for (int i = 0; i < n; i++)
		left[i] = i;
	while (n > 0)
	{
		MosqlLeafGroup *groups;
		MosqlStep **steps;
		int			ngroups;
		int			nleft = 0;

		for (int i = 0; i < n; i++)
			keys[i] = w->keys[index[left[i]]];
		ngroups = mosql_btree_group(tree, keys, n, 0, &groups);
		steps = palloc(ngroups * sizeof(MosqlStep *));
		for (int g = 0; g < ngroups; g++)
		{
			MosqlStep  *step = steps[g] = palloc0(sizeof(MosqlStep));

			step->node = groups[g].leaf;
			step->ncompares = 1;
			step->compares = palloc0(sizeof(MosqlCompare));
			step->compares[0].kind = MOSQL_COMPARE_EQUAL;
			step->compares[0].field = meta_field;
			step->compares[0].bytes = generation_of(groups[g].generation);
			step->nreads = 1;
			step->reads = &meta_field;
			step->nwrites = groups[g].n;
			step->writes = palloc(groups[g].n * sizeof(MosqlWrite));
			for (int i = 0; i < groups[g].n; i++)
			{
				uint32		value = values[left[groups[g].first + i]];
				int			size = 4 + (value % 7 == 0 ? pad : 0);
				char	   *row = palloc0(size);

				memcpy(row, &value, 4);
				step->writes[i] = (MosqlWrite)
				{
					value ? MOSQL_WRITE_SET : MOSQL_WRITE_DELETE,
					field_of('r', keys[groups[g].first + i]), mosql_bytes(row, size)
				};
			}
		}
		w->store->run_steps(w->store, steps, ngroups);
		for (int g = 0; g < ngroups; g++)
		{
			MosqlStep  *step = steps[g];

			for (int i = groups[g].first; i < groups[g].first + groups[g].n; i++)
			{
				int			k = index[left[i]];

				if (step->status == MOSQL_STEP_DONE)
				{
					w->values[k] = values[left[i]];
					w->changed[k] = ++w->time;
				}
				else
				{
					/* what a lost step did is not known before it is repeated */
					if (step->status == MOSQL_STEP_LOST)
						w->changed[k] = INT64CONST(1) << 60;
					left[nleft++] = left[i];
				}
			}
		}
		for (int g = 0; g < ngroups; g++)
		{
			MosqlStep  *step = steps[g];

			if (step->status != MOSQL_STEP_LOST)
				mosql_btree_observe(tree, step->node, step->values[0], step->nfields);
			if (step->status == MOSQL_STEP_DONE && mosql_btree_is_crowded(step->nfields, 30))
				mosql_btree_split(tree, keys[groups[g].first + groups[g].n - 1], rnd(w, 2));
		}
		if (nleft == n && !mosql_budget_pause(&budget))
		{
			CHECK(!"writing never ends" || w->damaged);
			return;
		}
		n = nleft;
	}
}

/* --- operations and their checks --- */

static bool
row_is(World *w, int k, MosqlBytes row, int64 since)
{
	uint32		value = 0;

	if (w->changed[k] > since)
		return true;			/* somebody wrote it meanwhile */
	if (row.data != NULL && row.len >= 4)
		memcpy(&value, row.data, 4);
	return value == w->values[k];
}

static void
do_write(World *w, bool delete)
{
	int			n = rnd(w, 4) == 0 ? 1 + rnd(w, 60) : 1;
	int			start = rnd(w, w->nkeys);
	int			gap = rnd(w, 3) == 0 ? 1 : 1 + rnd(w, 20);
	int		   *index = palloc(n * sizeof(int));
	uint32	   *values = palloc(n * sizeof(uint32));
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	MosqlTree  *tree = any_tree(w);
	int			m = 0;

	for (int k = start; m < n && k < w->nkeys; k += 1 + rnd(w, gap))
	{
		index[m] = k;
		keys[m] = w->keys[k];
		values[m++] = delete ? 0 : ++w->last_value;
	}
	if (!delete && rnd(w, 3))
		memstore_reserve(tree, keys, m, 30);
	write_keys(w, tree, index, values, m, 20);
	w->operations += m;
}

static void
do_get(World *w)
{
	int			n = 1 + (rnd(w, 4) == 0 ? rnd(w, 40) : 0);
	int		   *index = palloc(n * sizeof(int));
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	MosqlPoint *points = palloc(n * sizeof(MosqlPoint));
	int64		since = w->time;
	bool		ok = true;

	for (int i = 0; i < n; i++)
	{
		index[i] = rnd(w, w->nkeys);
		keys[i] = w->keys[index[i]];
	}
	mosql_btree_get(any_tree(w), keys, n, points);
	for (int i = 0; i < n; i++)
		ok = ok && row_is(w, index[i], points[i].row, since);
	CHECK(ok || w->damaged);
	w->operations += n;
}

static void
do_scan(World *w, int max_leaves)
{
	int			from = rnd(w, w->nkeys + 1);
	int			width = rnd(w, 4) ? (int) rnd(w, 300) : w->nkeys;
	int			to = Min(from + width, w->nkeys);
	MosqlBytes	low = rnd(w, 8) ? (from < w->nkeys ? w->keys[from] : w->keys[w->nkeys - 1]) : MOSQL_ABSENT;
	MosqlBytes	high = to < w->nkeys ? w->keys[to] : MOSQL_ABSENT;
	bool		backward = rnd(w, 2);
	int64		since = w->time;
	int			next;
	int			end = backward ? (low.data == NULL ? 0 : Min(from, w->nkeys - 1)) : to;
	bool		ok = true;
	bool		complete = true;
	MosqlScan  *scan;
	MosqlLeaf  *leaves;
	int			n;

	if (low.data == NULL)
		from = 0;
	from = Min(from, w->nkeys - 1);
	next = backward ? to - 1 : from;
	scan = mosql_btree_scan_begin(any_tree(w), low, high, backward, 1 + rnd(w, 8));
	while (ok && (n = mosql_btree_scan_next(scan, &leaves)) > 0)
	{
		for (int l = 0; l < n && ok; l++)
			for (int e = 0; e < leaves[l].n && ok; e++)
			{
				const MosqlEntry *entry = &leaves[l].entries[backward ? leaves[l].n - 1 - e : e];

				/* all between the last entry and this one must be absent */
				for (;;)
				{
					int			c;

					if (backward ? next < end : next >= end)
					{
						ok = false;
						break;
					}
					c = compare_bytes(&w->keys[next], &entry->key);
					if (c != 0)
						ok = ok && row_is(w, next, MOSQL_ABSENT, since);
					else
						ok = ok && row_is(w, next, entry->row, since);
					next += backward ? -1 : 1;
					if (c == 0 || !ok)
						break;
					if (backward ? c < 0 : c > 0)
						ok = false;
				}
				w->operations++;
			}
		if (--max_leaves == 0)
		{
			complete = false;
			break;
		}
	}
	if (complete)
		for (; ok && (backward ? next >= end : next < end); next += backward ? -1 : 1)
			ok = row_is(w, next, MOSQL_ABSENT, since);
	mosql_btree_scan_end(scan);
	if (!CHECK(ok || w->damaged))
		printf("#   %s scan from key %d to %d of %d, at key %d\n", backward ? "backward" : "forward",
			   from, to, w->nkeys, next);
}

/* Several ranges in one scan: what is there in any of them, and nothing else. */
static void
do_leaps(World *w)
{
	int			n = 1 + rnd(w, rnd(w, 2) ? 5 : 60);
	MosqlKeyRange *ranges = palloc(n * sizeof(MosqlKeyRange));
	int		   *wanted = palloc(w->nkeys * sizeof(int));	/* keys in the ranges, in scan order */
	int			nwanted = 0;
	int			nranges = 0;
	int			at = 0;
	bool		backward = rnd(w, 2);
	int64		since = w->time;
	int			next = 0;
	bool		ok = true;
	MosqlScan  *scan;
	MosqlLeaf  *leaves;

	while (nranges < n && at < w->nkeys)
	{
		int			from = at + (int) rnd(w, rnd(w, 3) ? 8 : Max(w->nkeys / 4, 1));
		int			to = from + (int) rnd(w, rnd(w, 4) ? 6 : 200);

		from = Min(from, w->nkeys - 1);
		ranges[nranges].low = nranges == 0 && from == 0 && rnd(w, 2) ? mosql_bytes("", 0) : w->keys[from];
		ranges[nranges++].high = to < w->nkeys ? w->keys[to] : MOSQL_ABSENT;
		to = Min(to, w->nkeys);
		for (int k = from; k < to; k++)
			wanted[nwanted++] = k;
		at = to;				/* the next range may begin where this one ends */
	}
	for (int i = 0; backward && i < nwanted / 2; i++)
	{
		int			k = wanted[i];

		wanted[i] = wanted[nwanted - 1 - i];
		wanted[nwanted - 1 - i] = k;
	}

	scan = mosql_btree_scan_begin_ranges(any_tree(w), ranges, nranges, backward, 1 + rnd(w, 8));
	while (ok && (n = mosql_btree_scan_next(scan, &leaves)) > 0)
		for (int l = 0; l < n && ok; l++)
			for (int e = 0; e < leaves[l].n && ok; e++)
			{
				const MosqlEntry *entry = &leaves[l].entries[backward ? leaves[l].n - 1 - e : e];

				/* those before it must be absent */
				while (ok && next < nwanted && compare_bytes(&w->keys[wanted[next]], &entry->key) != 0)
					ok = row_is(w, wanted[next++], MOSQL_ABSENT, since);
				ok = ok && next < nwanted && row_is(w, wanted[next], entry->row, since);
				next++;
				w->operations++;
			}
	for (; ok && next < nwanted; next++)
		ok = row_is(w, wanted[next], MOSQL_ABSENT, since);
	mosql_btree_scan_end(scan);
	if (!CHECK(ok || w->damaged))
		printf("#   %s scan of %d ranges\n", backward ? "backward" : "forward", nranges);
}

/* Delete all keys of a stretch, so that leaves become empty. */
static void
do_clear(World *w)
{
	int			from = rnd(w, w->nkeys);
	int			to = from + 1 + (int) rnd(w, 8 * MOSQL_LEAF_MAX_ROWS);
	int		   *index;
	uint32	   *values;

	to = Min(to, w->nkeys);
	index = palloc((to - from) * sizeof(int));
	values = palloc0((to - from) * sizeof(uint32));
	for (int k = from; k < to; k++)
		index[k - from] = k;
	write_keys(w, any_tree(w), index, values, to - from, 0);
	w->operations += to - from;
}

/*
 * A part of a pass of maintenance: the next windows of leaves from a key on, those
 * that look empty merged away, and small inner nodes where the pass comes to their
 * end.  windows 0: to the end of the tree.
 */
static void
merge_from(World *w, MosqlTree *tree, MosqlBytes low, int windows)
{
	MosqlScan  *scan;
	MosqlLeaf  *leaves;
	int			n;

	do
	{
		MosqlLeaf **empty;
		MosqlBytes	end;
		int			nempty = 0;

		scan = mosql_btree_scan_begin(tree, low, MOSQL_ABSENT, false, 1 + rnd(w, 16));
		n = mosql_btree_scan_next(scan, &leaves);
		empty = palloc(n * sizeof(MosqlLeaf *));
		for (int i = 0; i < n; i++)
			if (leaves[i].n == 0 || rnd(w, 20) == 0)
				empty[nempty++] = &leaves[i];
		end = mosql_bytes_copy(CurrentMemoryContext, leaves[n - 1].meta.high);
		mosql_btree_merge_leaves(tree, empty, nempty);
		mosql_btree_merge_parents(tree, end);
		mosql_btree_scan_end(scan);
		low = end;
	} while (low.data != NULL && --windows != 0);
}

static void
do_merge(World *w)
{
	merge_from(w, any_tree(w), rnd(w, 3) ? w->keys[rnd(w, w->nkeys)] : MOSQL_ABSENT, 1 + rnd(w, 4));
}

/*
 * What the sweep makes of one node.  All sessions that lived when a signpost was
 * unlinked have ended: here by saying so to everybody who is at it.
 */
static void
sweep_node(World *w, MosqlTree *tree, uint64 node)
{
	MosqlNodeImage image;
	MosqlNodeMeta meta;

	if (node == ROOT || !memstore_image(w->mem, node, &image) ||
		!mosql_meta_decode(image.fields[0].value, &meta) || meta.tree != ROOT)
		return;
	switch (mosql_btree_examine(tree, node, &meta))
	{
		case MOSQL_NODE_USED:
			break;
		case MOSQL_NODE_UNLINKED:
			w->mem->incarnation++;
			/* fall through */
		case MOSQL_NODE_UNREACHABLE:
			w->store->delete_nodes(w->store, &node, 1);
			break;
	}
}

static void
do_sweep(World *w)
{
	uint64	   *ids;
	int			n = memstore_ids(w->mem, &ids);

	for (int i = 0; i < 10; i++)
		sweep_node(w, any_tree(w), ids[rnd(w, n)]);
}

static void
sweep_all(World *w, MosqlTree *tree)
{
	uint64	   *ids;
	int			n = memstore_ids(w->mem, &ids);

	for (int i = 0; i < n; i++)
		sweep_node(w, tree, ids[i]);
}

/* One random operation in a memory context of its own. */
static void
do_something(World *w)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "operation", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	int			what = rnd(w, 100);

	w->depth++;
	if (what < 36)
		do_write(w, false);
	else if (what < 54)
		do_write(w, true);
	else if (what < 57)
		do_clear(w);
	else if (what < 62)
		do_merge(w);
	else if (what < 64)
		do_sweep(w);
	else if (what < 86)
		do_get(w);
	else if (leaping && rnd(w, 2))
		do_leaps(w);
	else
		do_scan(w, rnd(w, 3) ? 0 : 2);
	w->depth--;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* --- whole trees --- */

static int	check_errors;
static int	check_warnings;
static int	check_firsts;		/* signposts that nobody can unlink: no fault */
static char check_text[200];

/*
 * Is this node dead, and the first child of the node above?  Then its separator is that
 * one's own low fence, and stays: maintenance looked, and the parent split before the
 * unlinking.
 */
static bool
is_first_and_dead(World *w, uint64 node)
{
	uint64	   *ids;
	int			n = memstore_ids(w->mem, &ids);
	MosqlNodeImage image;
	MosqlNodeMeta dead;

	if (!memstore_image(w->mem, node, &image) ||
		!mosql_meta_decode(image.fields[0].value, &dead) || dead.state != MOSQL_NODE_DEAD)
		return false;
	for (int i = 0; i < n; i++)
	{
		MosqlNodeMeta meta;
		MosqlChild *children;
		int			nchildren;

		if (!memstore_image(w->mem, ids[i], &image) ||
			!mosql_meta_decode(image.fields[0].value, &meta) || meta.state != MOSQL_NODE_NORMAL ||
			meta.level != dead.level + 1 || !mosql_bytes_equal(meta.low, dead.low))
			continue;
		for (int f = 0; f < image.nfields; f++)
			if (mosql_bytes_equal(image.fields[f].field, mosql_bytes("s", 1)) &&
				mosql_children_decode(image.fields[f].value, &children, &nchildren) &&
				nchildren > 0 && children[0].node == node)
				return true;
	}
	return false;
}

static void
report(void *arg, char severity, uint64 node, const char *what)
{
	if (severity == 'W' && is_first_and_dead(arg, node))
	{
		check_firsts++;
		return;
	}
	if (severity == 'E')
		check_errors++;
	else
		check_warnings++;
	if (severity == 'E' && getenv("BTREE_TEST_VERBOSE"))
		printf("# %c node %llu: %s\n", severity, (unsigned long long) node, what);
	snprintf(check_text, sizeof(check_text), "%s", what);
}

static int64 check_rows;
static int64 check_leaves;

static void
on_leaf(void *arg, const MosqlLeaf *leaf)
{
	check_leaves++;
	for (int i = 0; i < leaf->n; i++)
		check_rows += leaf->entries[i].row.data != NULL;
}

static void
check_tree(World *w, MosqlTree *tree)
{
	check_errors = check_warnings = check_firsts = 0;
	check_rows = check_leaves = 0;
	mosql_btree_check(tree, report, on_leaf, w);
}

/*
 * No finding of any kind, and exactly the rows that should be there.  raced: parents
 * may have split while leaves below them were merged away.
 */
static void
expect_sound_tree(World *w, bool raced)
{
	int64		rows = 0;

	check_tree(w, w->trees[0]);
	for (int k = 0; k < w->nkeys; k++)
		rows += w->values[k] != 0;
	CHECK_INT(check_errors, 0);
	CHECK_INT(check_warnings, 0);
	if (!raced)
		CHECK_INT(check_firsts, 0);
	CHECK_INT(check_rows, rows);
	if (check_errors + check_warnings > 0)
		printf("#   %s\n", check_text);
}

static void
expect_sound(World *w)
{
	expect_sound_tree(w, false);
}

/* The keys that divide a range ascend, and lie within it. */
static void
expect_division(World *w, MosqlTree *tree)
{
	static const int maxima[] = {2, 7, 64};

	for (int i = 0; i < 3; i++)
	{
		MosqlBytes	keys[64];
		MosqlKeyRange range = {i == 0 ? mosql_bytes("", 0) : w->keys[w->nkeys / 10],
		i == 1 ? w->keys[w->nkeys * 9 / 10] : MOSQL_ABSENT};
		int			n = mosql_btree_divide(tree, range, maxima[i], keys);
		bool		ok = n >= 0 && n <= maxima[i];

		for (int k = 0; k < n && ok; k++)
			ok = mosql_bytes_compare(k > 0 ? keys[k - 1] : range.low, keys[k]) < 0 &&
				(range.high.data == NULL || mosql_bytes_compare(keys[k], range.high) < 0);
		CHECK(ok);
	}
}

/* Every key through get, and scans over all in both directions. */
static void
expect_rows(World *w, MosqlTree *tree)
{
	MosqlPoint *points = palloc(w->nkeys * sizeof(MosqlPoint));
	bool		ok = true;

	mosql_btree_get(tree, w->keys, w->nkeys, points);
	for (int k = 0; k < w->nkeys; k++)
		ok = ok && row_is(w, k, points[k].row, w->time);
	CHECK(ok);
	for (int backward = 0; backward < 2; backward++)
	{
		MosqlScan  *scan = mosql_btree_scan_begin(tree, MOSQL_ABSENT, MOSQL_ABSENT, backward, 1);
		MosqlLeaf  *leaves;
		int			k = backward ? w->nkeys - 1 : 0;
		int			n;

		ok = true;
		while ((n = mosql_btree_scan_next(scan, &leaves)) > 0)
			for (int l = 0; l < n; l++)
				for (int e = 0; e < leaves[l].n; e++)
				{
					const MosqlEntry *entry = &leaves[l].entries[backward ? leaves[l].n - 1 - e : e];

					while (k >= 0 && k < w->nkeys && w->values[k] == 0)
						k += backward ? -1 : 1;
					ok = ok && k >= 0 && k < w->nkeys &&
						compare_bytes(&w->keys[k], &entry->key) == 0 && row_is(w, k, entry->row, w->time);
					k += backward ? -1 : 1;
				}
		while (k >= 0 && k < w->nkeys && w->values[k] == 0)
			k += backward ? -1 : 1;
		CHECK(ok && k == (backward ? -1 : w->nkeys));
		mosql_btree_scan_end(scan);
	}
	expect_division(w, tree);
}

/* Nothing in the store but the tree: counted by dump. */
static int64 dumped;

static void
count_node(void *arg, uint64 node, const MosqlNodeMeta *meta, int nentries, int nintents, size_t bytes)
{
	dumped++;
}

static void
expect_no_garbage(World *w)
{
	sweep_all(w, w->trees[0]);	/* signposts are no garbage */
	dumped = 0;
	mosql_btree_dump(w->trees[0], count_node, NULL);
	CHECK_INT(w->mem->nnodes, dumped);
}

/* Group a key of every leaf and of every frozen range: whoever writes finishes
 * what is unfinished. */
typedef struct Fences
{
	MosqlBytes *keys;
	int			n;
} Fences;

static void
add_fences(void *arg, uint64 node, const MosqlNodeMeta *meta, int nentries, int nintents, size_t bytes)
{
	Fences	   *fences = arg;

	if (meta->level > 0)
		return;
	fences->keys = fences->keys == NULL ? palloc(2 * sizeof(MosqlBytes)) :
		repalloc(fences->keys, (fences->n + 2) * sizeof(MosqlBytes));
	fences->keys[fences->n++] = mosql_bytes_copy(GetMemoryChunkContext(fences->keys), meta->low);
	if (meta->state == MOSQL_NODE_SPLITTING)
		fences->keys[fences->n++] = mosql_bytes_copy(GetMemoryChunkContext(fences->keys), meta->split_key);
}

static void
touch_all(World *w, MosqlTree *tree)
{
	Fences		fences = {palloc(2 * sizeof(MosqlBytes)), 0};
	MosqlLeafGroup *groups;
	int			n = 0;

	mosql_btree_dump(tree, add_fences, &fences);
	for (int i = 0; i < fences.n; i++)
		if (n == 0 || compare_bytes(&fences.keys[n - 1], &fences.keys[i]) != 0)
			fences.keys[n++] = fences.keys[i];
	n = mosql_btree_group(tree, fences.keys, n, 0, &groups);
}

/* --- the cases --- */

static void
test_empty(void)
{
	World	   *w = world_open(10, true, 1);
	MosqlBytes	key = w->keys[3];
	MosqlPoint	point;
	double		rows;
	double		bytes;
	double		leaves;
	int			levels;
	uint64	   *ids;

	CHECK(!mosql_btree_create(w->store, ROOT, false));
	CHECK_INT(w->mem->nnodes, 2);
	CHECK(mosql_btree_exists(w->store, ROOT));
	CHECK(!mosql_btree_exists(w->store, ROOT + 1));
	mosql_btree_get(w->trees[0], &key, 1, &point);
	CHECK(point.row.data == NULL && point.intent.data == NULL && point.purged == 0);
	expect_rows(w, w->trees[0]);
	expect_sound(w);
	CHECK_INT(check_leaves, 1);
	mosql_btree_estimate(w->trees[0], &rows, &bytes, &leaves, &levels);
	CHECK(rows == 0 && leaves == 1 && levels == 2);
	CHECK_INT(mosql_btree_leaf_ids(w->trees[0], &ids), 1);
	mosql_btree_destroy(w->trees[0], NULL, NULL);
	CHECK_INT(w->mem->nnodes, 0);
	CHECK_RAISES(ERRCODE_UNDEFINED_TABLE, mosql_btree_get(w->trees[0], &key, 1, &point));
	world_close(w);
}

/* Leaves of several trees that are not known are read together. */
static void
test_look_ahead(void)
{
	World	   *w = world_open(3000, true, 3);
	MosqlPoint *points = palloc(w->nkeys * sizeof(MosqlPoint));
	MosqlTreeKeys wanted[2];
	MosqlLeafGroup *groups;
	int64		before;

	for (int k = 0; k < w->nkeys; k++)
	{
		uint32		value = k + 1;

		memstore_reserve(w->trees[0], &w->keys[k], 1, 20);
		write_keys(w, w->trees[0], &k, &value, 1, 0);
	}
	for (int t = 0; t < 2; t++)
	{
		mosql_btree_get(w->trees[1 + t], w->keys, w->nkeys, points);	/* inner nodes */
		for (int k = 0; k < w->nkeys; k++)
			mosql_btree_observe(w->trees[1 + t], points[k].leaf, MOSQL_ABSENT, -1);
		wanted[t] = (MosqlTreeKeys) {w->trees[1 + t], w->keys + 100 * t, w->nkeys / 4, 20, MOSQL_KEY_FIELD};
	}
	before = w->mem->round_trips;
	mosql_btree_look_ahead(wanted, 1);
	CHECK_INT(w->mem->round_trips - before, 0);	/* one tree does so by itself */
	mosql_btree_look_ahead(wanted, 2);
	CHECK_INT(w->mem->round_trips - before, 1);
	for (int t = 0; t < 2; t++)
		mosql_btree_group(wanted[t].tree, wanted[t].keys, wanted[t].n, 0, &groups);
	CHECK_INT(w->mem->round_trips - before, 1);
	mosql_btree_look_ahead(wanted, 2);
	CHECK_INT(w->mem->round_trips - before, 1);
	expect_sound(w);
	world_close(w);
}

/* One round trip per read with a warm cache, none to group. */

/* Some leaves are read at one moment where that is asked for, and can be; more of them than a window are not. */
static void
check_at_once(World *w)
{
	int64		before = w->mem->round_trips;
	MosqlBytes	high = w->keys[100 + 3 * MOSQL_LEAF_MAX_ROWS];
	int			n;

	if (MOSQL_INNER_MAX_CHILDREN < 64)
		return;					/* they may have two parents */
	CHECK(mosql_btree_reads_at_once(w->trees[0], w->keys[100], high, 8, false));
	CHECK(!mosql_btree_reads_at_once(w->trees[0], w->keys[100], high, 2, false));
	CHECK(!mosql_btree_reads_at_once(w->trees[0], w->keys[100], MOSQL_ABSENT, 8, false));
	CHECK_INT(w->mem->round_trips - before, 0);
	for (int asked = 0; asked < 2; asked++)
		for (int window = 2; window <= 8; window += 6)
		{
			MosqlScan  *scan = mosql_btree_scan_begin(w->trees[0], w->keys[100], high, false, window);
			MosqlLeaf  *leaves;

			if (asked)
				mosql_btree_scan_at_once(scan, false);
			n = mosql_btree_scan_next(scan, &leaves);
			CHECK(n >= 2);
			CHECK_INT(mosql_btree_scan_was_at_once(scan), asked && window == 8);
			mosql_btree_scan_end(scan);
		}
	CHECK_INT(w->mem->round_trips - before, 4);
	for (int told = 0; told < 2; told++)
	{
		MosqlScan  *scan = mosql_btree_scan_begin(w->trees[0], w->keys[100], w->keys[101], false, 8);
		MosqlLeaf  *leaves;

		mosql_btree_scan_at_once(scan, told);
		n = mosql_btree_scan_next(scan, &leaves);
		CHECK_INT(mosql_btree_scan_schema(scan), told);
		mosql_btree_scan_end(scan);
	}
}

/* Who wants one window is given no second one; who goes on has the next one on its way. */
static void
test_asked_ahead(void)
{
	World	   *w = world_open(TINY ? 300 : 30000, true, 1);
	int		   *index = palloc(w->nkeys * sizeof(int));
	uint32	   *values = palloc(w->nkeys * sizeof(uint32));
	MosqlScan  *scan;
	MosqlLeaf  *leaves;

	for (int k = 0; k < w->nkeys; k++)
	{
		index[k] = k;
		values[k] = k + 1;
	}
	memstore_reserve(w->trees[0], w->keys, w->nkeys, 20);
	write_keys(w, w->trees[0], index, values, w->nkeys, 0);
	for (int backward = 0; backward < 2; backward++)
	{
		int			asked = 0;

		scan = mosql_btree_scan_begin(w->trees[0], MOSQL_ABSENT, MOSQL_ABSENT, backward, 1000);
		CHECK(mosql_btree_scan_next(scan, &leaves) > 0);
		CHECK_INT(w->mem->asked, 0);
		while (asked == 0 && mosql_btree_scan_next(scan, &leaves) > 0)
			asked += w->mem->asked;
		CHECK_INT(asked, 1);
		mosql_btree_scan_end(scan);
		CHECK_INT(w->mem->asked, 0);
	}
	world_close(w);
}

static void
test_round_trips(void)
{
	World	   *w = world_open(3000, true, 2);
	int		   *index = palloc(w->nkeys * sizeof(int));
	uint32	   *values = palloc(w->nkeys * sizeof(uint32));
	MosqlPoint *points = palloc(w->nkeys * sizeof(MosqlPoint));
	MosqlLeafGroup *groups;
	int64		before;

	for (int k = 0; k < w->nkeys; k++)
	{
		index[k] = k;
		values[k] = k + 1;
	}
	memstore_reserve(w->trees[0], w->keys, w->nkeys, 20);
	write_keys(w, w->trees[0], index, values, w->nkeys, 0);
	before = w->mem->round_trips;
	mosql_btree_group(w->trees[0], w->keys, w->nkeys, 0, &groups);
	CHECK_INT(w->mem->round_trips - before, 0);
	mosql_btree_get(w->trees[0], w->keys, w->nkeys, points);
	CHECK_INT(w->mem->round_trips - before, 1);
	for (int k = 0; k < 100; k++)
		mosql_btree_get(w->trees[0], &w->keys[k * 29], 1, points);
	CHECK_INT(w->mem->round_trips - before, 101);
	CHECK(mosql_btree_reads_at_once(w->trees[0], w->keys[1500], w->keys[1500], 1, false));
	CHECK(mosql_btree_reads_at_once(w->trees[0], w->keys[w->nkeys - 1], MOSQL_ABSENT, 1, false));
	CHECK(!mosql_btree_reads_at_once(w->trees[0], w->keys[0], w->keys[w->nkeys - 1], 1, false));
	CHECK(!mosql_btree_reads_at_once(w->trees[0], w->keys[0], MOSQL_ABSENT, 1, false));
	CHECK_INT(w->mem->round_trips - before, 101);
	check_at_once(w);

	/* a cold cache: one per level */
	before = w->mem->round_trips;
	mosql_btree_get(w->trees[1], &w->keys[1500], 1, points);
	CHECK(w->mem->round_trips - before <= 1 + MOSQL_TREE_MAX_LEVEL);
	if (!TINY)
		CHECK_INT(w->mem->round_trips - before, 3 - (mosql_btree_leaf_ids(w->trees[0], &(uint64 *) {0}) < 256));
	expect_rows(w, w->trees[0]);
	expect_sound(w);
	expect_no_garbage(w);
	world_close(w);
}

/* So many leaves a load of n rows fills. */
static int
loaded_leaves(int n)
{
	int			rows = MOSQL_LEAF_FILL(MOSQL_LEAF_MAX_ROWS);

	return (n + rows - 1) / rows;
}

/* Load in ascending order, in batches: leaves that are full but for a tenth, few round trips. */
static void
test_bulk_load(void)
{
	World	   *w = world_open(scaled(TINY ? 20000 : 200000), true, 1);
	int			batch = w->nkeys / 5 + 1;
	int		   *index = palloc(batch * sizeof(int));
	uint32	   *values = palloc(batch * sizeof(uint32));
	double		rows;
	double		bytes;
	double		leaves;
	int			levels;
	uint64	   *ids;

	for (int start = 0; start < w->nkeys; start += batch)
	{
		int			n = Min(batch, w->nkeys - start);
		MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "batch", ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(cxt);
		int64		before;

		for (int i = 0; i < n; i++)
		{
			index[i] = start + i;
			values[i] = start + i + 1;
		}
		before = w->mem->round_trips;
		memstore_reserve(w->trees[0], w->keys + start, n, 20);
		if (!TINY)
			CHECK(w->mem->round_trips - before < 40);
		before = w->mem->round_trips;
		write_keys(w, w->trees[0], index, values, n, 0);
		if (!TINY)
			CHECK_INT(w->mem->round_trips - before, 1);
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
	}
	expect_sound(w);
	expect_no_garbage(w);
	if (!TINY)
		CHECK_INT(check_leaves, loaded_leaves(w->nkeys));
	CHECK_INT(mosql_btree_leaf_ids(w->trees[0], &ids), check_leaves);
	mosql_btree_estimate(w->trees[0], &rows, &bytes, &leaves, &levels);
	if (!CHECK(rows > w->nkeys * 0.5 && rows < w->nkeys * 2.0))
		printf("#   estimated %.0f rows in %.0f leaves, are %d in %lld\n", rows, leaves, w->nkeys, (long long) check_leaves);
	CHECK(leaves > check_leaves * 0.5 && leaves < check_leaves * 2.0);
	CHECK(bytes == 12);
	if (getenv("BTREE_TEST_BENCH"))
		printf("# %d rows, %d levels, %lld leaves\n", w->nkeys, levels, (long long) check_leaves);
	mosql_btree_destroy(w->trees[0], NULL, NULL);
	CHECK_INT(w->mem->nnodes, 0);
	world_close(w);
}

/* Out of three loads so many pack. */
static uint32 loads_pack = 2;

/* Write keys[from ..] as a load does, as far as it goes; batch: rows per call. */
static int
load_keys(World *w, MosqlTree *tree, int from, int n, int batch)
{
	MosqlBytes *rows = palloc(Max(n, 1) * sizeof(MosqlBytes));
	int			done = 0;

	for (int i = 0; i < n; i++)
	{
		uint32		value = from + i + 1;
		char	   *row = palloc0(value % 501 == 0 ? MOSQL_LEAF_MAX_BYTES / 2 : 4);

		memcpy(row, &value, 4);
		rows[i] = mosql_bytes(row, value % 501 == 0 ? MOSQL_LEAF_MAX_BYTES / 2 : 4);
	}
	while (done < n)
	{
		int			next = Min(batch, n - done);
		int			written = mosql_btree_load(tree, w->keys + from + done, rows + done, next,
											   rnd(w, 3) < loads_pack, done + next == n);

		CHECK(written <= next && (written > 0 || batch <= MOSQL_LEAF_MAX_ROWS));
		if (written == 0)
			batch *= 2;			/* the rest of the last call, and more */
		for (int i = done; i < done + written; i++)
			w->values[from + i] = from + i + 1;
		done += written;
	}
	return done;
}

/* A tree that nobody else knows is written once, in leaves that are full but for a tenth. */
static void
test_private_load(void)
{
	for (volatile int batch = 1; batch < 40000; batch *= TINY ? 50 : 20)
	{
		MemoryContext caller = CurrentMemoryContext;
		World	   *w = world_open(scaled(TINY ? 2000 : 20000), true, 2);
		int64		before = w->mem->round_trips;
		int			half = w->nkeys / 2;
		MosqlBytes	row = mosql_bytes("four", 4);

		CHECK_INT(mosql_btree_load(w->trees[0], NULL, NULL, 0, MOSQL_COMPRESSION_LZ4, true), 0);
		CHECK_INT(w->mem->round_trips, before);
		load_keys(w, w->trees[0], 0, half, batch);
		expect_sound(w);
		load_keys(w, w->trees[1], half, w->nkeys - half, batch);	/* behind a leaf that is not full */
		expect_sound(w);
		expect_no_garbage(w);
		expect_rows(w, w->trees[0]);
		expect_rows(w, w->trees[1]);
		if (!TINY && batch >= w->nkeys)
		{
			CHECK(w->mem->round_trips - before < 60);
			CHECK(check_leaves <= w->nkeys / MOSQL_LEAF_MAX_ROWS + w->nkeys / 501 * 2 + 2);
		}

		/* below what is there: it is not ours alone */
		CHECK(PGSTUB_RAISES(mosql_btree_load(w->trees[0], &w->keys[half], &row, 1, MOSQL_COMPRESSION_LZ4, true)));
		MemoryContextSwitchTo(caller);
		CHECK_INT(pgstub_error.sqlstate, ERRCODE_T_R_SERIALIZATION_FAILURE);
		for (int i = 0; i < scaled(300); i++)
			do_something(w);
		expect_sound(w);
		expect_rows(w, w->trees[0]);
		world_close(w);
	}
}

static int
count_packed(World *w)
{
	MosqlTree  *tree = mosql_btree_open(w->store, ROOT, CurrentMemoryContext);
	uint64	   *ids;
	int			n = mosql_btree_leaf_ids(tree, &ids);
	MosqlLeaf  *leaves;
	int			npacked = 0;

	mosql_btree_read_leaves(tree, ids, n, &leaves);
	for (int i = 0; i < n; i++)
		npacked += leaves[i].meta.state == MOSQL_NODE_PACKED;
	mosql_btree_close(tree);
	return npacked;
}

/* One value each, of keys that are scattered; by a handle that may believe what is over. */
static void
write_scattered(World *w, MosqlTree *tree, int n, uint32 value)
{
	int		   *which = palloc(n * sizeof(int));
	uint32	   *values = palloc(n * sizeof(uint32));

	for (int i = 0; i < n; i++)
	{
		which[i] = (int) ((int64) i * w->nkeys / n);
		values[i] = value + i;
	}
	memstore_reserve(tree, w->keys, 1, 20);
	write_keys(w, tree, which, values, n, 0);
}

/*
 * Leaves that are packed are read as they are, by key and in ranges, and unpacked by who
 * writes, two round trips for any number of them; another handle, which knows them as packed, finds
 * the rows all the same, and the other way round.
 */
static void
test_packed(void)
{
	World	   *w = world_open(60 * MOSQL_LEAF_MAX_ROWS, true, 2);
	MosqlPoint	point;
	int			npacked;
	int64		before;

	loads_pack = 3;
	for (int done = 0; done < w->nkeys; done += load_keys(w, w->trees[0], done, w->nkeys - done, w->nkeys))
		;
	npacked = count_packed(w);
	CHECK(npacked > 0);
	expect_rows(w, w->trees[1]);
	CHECK_INT(count_packed(w), npacked);
	mosql_btree_get(w->trees[1], &w->keys[7], 1, &point);
	before = w->mem->round_trips;
	mosql_btree_get(w->trees[1], &w->keys[7], 1, &point);
	CHECK_INT(w->mem->round_trips - before, 1);
	write_scattered(w, w->trees[0], w->nkeys / 3, 1000000);
	CHECK_INT(count_packed(w), 0);
	expect_rows(w, w->trees[1]);	/* its hints say packed */
	write_scattered(w, w->trees[1], w->nkeys / 2, 2000000);
	expect_rows(w, w->trees[0]);
	expect_sound(w);
	expect_no_garbage(w);
	world_close(w);
	loads_pack = 2;
}

/* All leaves of the tree, as they are now. */
static int
read_all_leaves(World *w, MosqlTree *tree, MosqlLeaf **leaves)
{
	uint64	   *ids;
	int			n = mosql_btree_leaf_ids(tree, &ids);

	mosql_btree_read_leaves(tree, ids, n, leaves);
	return n;
}

/* Pack those that may be; returns how many were. */
static int
pack_leaves(MosqlTree *tree, MosqlLeaf *leaves, int n)
{
	const MosqlLeaf **ripe = palloc(n * sizeof(MosqlLeaf *));
	MosqlPackCounts counts = {0};
	int			nripe = 0;

	for (int i = 0; i < n; i++)
		if (mosql_btree_may_pack(&leaves[i]))
			ripe[nripe++] = &leaves[i];
	mosql_btree_pack(tree, ripe, nripe, MOSQL_COMPRESSION_LZ4, &counts);
	CHECK(counts.leaves == 0 || counts.bytes_after <= counts.bytes_before / 4 * 3);
	return (int) counts.leaves;
}

/*
 * Leaves that are fields are packed as they were read, in one round trip, and unpacked again
 * by who writes, whatever he believes them to be.  One that has changed since stays as it is: a row that was
 * written, came or went, a field of another kind, fences that moved; and so does one whose
 * reply was lost, and that is found packed.
 */
static void
test_packed_later(void)
{
	World	   *w = world_open(60 * MOSQL_LEAF_MAX_ROWS, true, 2);
	static const char lock[MOSQL_TXID_BYTES + 2] = "0123456789abcdefL";
	MosqlLeaf  *leaves;
	int64		before;
	int			npacked;
	int			n;
	int			gone = 0;

	loads_pack = 0;
	for (int done = 0; done < w->nkeys; done += load_keys(w, w->trees[0], done, w->nkeys - done, w->nkeys))
		;
	CHECK_INT(count_packed(w), 0);
	write_scattered(w, w->trees[1], w->nkeys, 1000000);
	n = read_all_leaves(w, w->trees[0], &leaves);
	before = w->mem->round_trips;
	npacked = pack_leaves(w->trees[0], leaves, n);
	CHECK_INT(w->mem->round_trips - before, 1);
	CHECK(npacked > n / 2);
	CHECK_INT(count_packed(w), npacked);
	expect_rows(w, w->trees[0]);
	expect_rows(w, w->trees[1]);	/* its hints say fields */
	CHECK_INT(pack_leaves(w->trees[0], leaves, n), 0);
	write_scattered(w, w->trees[1], w->nkeys, 2000000);
	CHECK_INT(count_packed(w), 0);
	CHECK_INT(pack_leaves(w->trees[0], leaves, n), 0);

	for (int round = 0; round < 3; round++)
	{
		n = read_all_leaves(w, w->trees[0], &leaves);
		if (round == 0)
			write_scattered(w, w->trees[1], w->nkeys, 3000000);
		for (int i = 0; i < n && round > 0; i++)
			memstore_set(w->mem, leaves[i].node,
						 round == 1 ? field_of('i', leaves[i].entries[0].key) : mosql_bytes("l", 1),
						 mosql_bytes(lock, round == 1 ? sizeof(lock) : MOSQL_TXID_BYTES));
		CHECK_INT(pack_leaves(w->trees[0], leaves, n), 0);
		CHECK_INT(count_packed(w), 0);
		for (int i = 0; i < n && round > 0; i++)
			memstore_set(w->mem, leaves[i].node,
						 round == 1 ? field_of('i', leaves[i].entries[0].key) : mosql_bytes("l", 1), MOSQL_ABSENT);
	}
	n = read_all_leaves(w, w->trees[0], &leaves);
	for (int i = 0; i < n; i++)
		if (leaves[i].n > 1)
		{
			memstore_set(w->mem, leaves[i].node, field_of('r', leaves[i].entries[0].key), MOSQL_ABSENT);
			gone++;
		}
	CHECK(gone > n / 2);
	CHECK_INT(pack_leaves(w->trees[0], leaves, n), 0);
	for (int i = 0; i < n; i++)
		if (leaves[i].n > 1)
			memstore_set(w->mem, leaves[i].node, field_of('r', leaves[i].entries[0].key), leaves[i].entries[0].row);
	w->mem->lost = 0.5;
	n = read_all_leaves(w, w->trees[0], &leaves);
	(void) pack_leaves(w->trees[0], leaves, n);
	w->mem->lost = 0;
	expect_rows(w, w->trees[1]);
	expect_sound(w);
	write_scattered(w, w->trees[1], w->nkeys, 4000000);
	expect_rows(w, w->trees[0]);
	expect_sound(w);
	expect_no_garbage(w);
	world_close(w);
	loads_pack = 2;
}

/*
 * One step on each leaf that brings rows out, as prepare does, and one that writes them, those that no block has as well.  New
 * values sort above all that is there, as timestamps do.  Returns how many rows were in blocks.
 */
static int
write_keys_beside(World *w, MosqlTree *tree, const MosqlBytes *keys, int n, uint32 value)
{
	MosqlBytes	meta_field = mosql_bytes("m", 1);
	MosqlBytes *rows = palloc(n * sizeof(MosqlBytes));
	MosqlKeyUse *uses = palloc(n * sizeof(MosqlKeyUse));
	MosqlLeafGroup *groups;
	int			ngroups;
	int			nblock = 0;

	for (int i = 0; i < n; i++)
		uses[i] = MOSQL_KEY_FIELD;
	ngroups = mosql_btree_group_beside(tree, keys, uses, n, &groups, rows);
	for (int g = 0; g < ngroups; g++)
		for (int writes = 0; writes < 2; writes++)
		{
			MosqlCompare compare = {MOSQL_COMPARE_EQUAL, meta_field, 0, generation_of(groups[g].generation)};
			MosqlStep	step = {.node = groups[g].leaf,.ncompares = 1,.compares = &compare};
			MosqlStep  *steps[1] = {&step};

			step.nreads = 1;
			step.reads = &meta_field;
			step.writes = palloc(groups[g].n * sizeof(MosqlWrite));
			for (int i = groups[g].first; i < groups[g].first + groups[g].n; i++)
			{
				char	   *row = palloc(8);

				memset(row, 0xff, 4);
				memcpy(row + 4, &value, 4);
				nblock += !writes && rows[i].data != NULL;
				if (writes || rows[i].data != NULL)
					step.writes[step.nwrites++] = (MosqlWrite)
				{
					writes ? MOSQL_WRITE_SET : MOSQL_WRITE_MAX, field_of('r', keys[i]),
						writes ? mosql_bytes(row, 8) : rows[i]
				};
			}
			w->store->run_steps(w->store, steps, 1);
			CHECK_INT(step.status, MOSQL_STEP_DONE);
			mosql_btree_observe(tree, step.node, step.values[0], step.nfields);
		}
	return nblock;
}

/* Every stride-th row from first on. */
static int
write_beside(World *w, MosqlTree *tree, int first, int stride, uint32 value)
{
	MosqlBytes *keys = palloc(w->nkeys * sizeof(MosqlBytes));
	int			n = 0;

	for (int k = first; k < w->nkeys; k += stride)
		keys[n++] = w->keys[k];
	return write_keys_beside(w, tree, keys, n, value);
}

/* By key and in a range: every stride-th row from first on is that new one, and the others are there. */
static void
expect_beside(World *w, MosqlTree *tree, int first, int stride, uint32 value)
{
	MosqlPoint *points = palloc(w->nkeys * sizeof(MosqlPoint));
	MosqlLeaf  *leaves;
	int			n = read_all_leaves(w, tree, &leaves);
	int			k = 0;

	mosql_btree_get(tree, w->keys, w->nkeys, points);
	for (int l = 0; l < n; l++)
		for (int e = 0; e < leaves[l].n; e++, k++)
		{
			bool		new = k >= first && (k - first) % stride == 0;

			CHECK(mosql_bytes_equal(leaves[l].entries[e].key, w->keys[k]));
			CHECK(mosql_bytes_equal(leaves[l].entries[e].row, points[k].row));
			CHECK_INT(points[k].row.len == 8 && memcmp(points[k].row.data + 4, &value, 4) == 0, new);
		}
	CHECK_INT(k, w->nkeys);
}

/*
 * Rows that are written beside the blocks: who reads finds them, by key and in ranges; the leaves stay packed,
 * and cost nobody a round trip whose handle has read the block; unpacking keeps them, also by who has
 * read the leaf before; they are packed again as they were read, and else not; and where many fields
 * are beside a block the next one unpacks it.
 */
static void
test_beside(void)
{
	World	   *w = world_open(20 * MOSQL_LEAF_MAX_ROWS, true, 2);
	int			stride = TINY ? 2 * MOSQL_LEAF_MAX_ROWS : MOSQL_LEAF_MAX_ROWS / 4;
	MosqlPoint *points = palloc(w->nkeys * sizeof(MosqlPoint));
	MosqlLeaf  *leaves;
	MosqlLeaf **stale;
	MosqlBytes *all_rows = palloc(w->nkeys * sizeof(MosqlBytes));
	MosqlBytes	row;
	MosqlLeafGroup *groups;
	int			npacked;
	int			n;
	int64		before;

	loads_pack = 3;
	for (int done = 0; done < w->nkeys; done += load_keys(w, w->trees[0], done, w->nkeys - done, w->nkeys))
		;
	npacked = count_packed(w);
	CHECK(npacked > 10);
	n = read_all_leaves(w, w->trees[0], &leaves);
	CHECK(write_beside(w, w->trees[0], 3, stride, 1) >= w->nkeys / stride / 2);
	CHECK_INT(count_packed(w), npacked);
	expect_beside(w, w->trees[0], 3, stride, 1);
	expect_beside(w, w->trees[1], 3, stride, 1);
	expect_sound(w);
	mosql_btree_get(w->trees[1], w->keys + 5, 1, points);
	before = w->mem->round_trips;
	(void) mosql_btree_group_beside(w->trees[1], w->keys + 5, NULL, 1, &groups, &row);
	CHECK_INT(w->mem->round_trips - before, 0);
	CHECK(groups[0].packed && mosql_bytes_equal(row, points[0].row));

	/* who has read the leaf before somebody wrote beside its block unpacks it */
	stale = palloc(n * sizeof(MosqlLeaf *));
	npacked = 0;
	for (int i = 0; i < n; i++)
		if (leaves[i].meta.state == MOSQL_NODE_PACKED)
			stale[npacked++] = &leaves[i];
	mosql_btree_enter(w->trees[1]);
	mosql_btree_unpack(w->trees[1], stale, npacked);
	CHECK_INT(count_packed(w), 0);
	expect_beside(w, w->trees[0], 3, stride, 1);
	expect_sound(w);

	/* packed again, with what is beside */
	n = read_all_leaves(w, w->trees[0], &leaves);
	npacked = pack_leaves(w->trees[0], leaves, n);
	CHECK(npacked > 10);
	expect_beside(w, w->trees[1], 3, stride, 1);	/* its hints said fields */
	CHECK(write_beside(w, w->trees[1], 3, stride, 2) >= w->nkeys / stride / 2);
	expect_beside(w, w->trees[0], 3, stride, 2);
	n = read_all_leaves(w, w->trees[0], &leaves);
	(void) write_beside(w, w->trees[1], 3, stride, 3);
	CHECK_INT(pack_leaves(w->trees[0], leaves, n), 0);
	n = read_all_leaves(w, w->trees[0], &leaves);
	CHECK(pack_leaves(w->trees[0], leaves, n) >= 10);
	expect_beside(w, w->trees[1], 3, stride, 3);
	n = read_all_leaves(w, w->trees[0], &leaves);
	CHECK_INT(pack_leaves(w->trees[0], leaves, n), 0);

	/* looks at all rows leave all packed; so many beside their blocks do not */
	(void) mosql_btree_group_beside(w->trees[0], w->keys, NULL, w->nkeys, &groups, all_rows);
	CHECK(count_packed(w) > 10);
	(void) write_beside(w, w->trees[0], 0, 1, 4);
	CHECK_INT(count_packed(w), 0);
	expect_beside(w, w->trees[1], 0, 1, 4);
	expect_sound(w);
	world_close(w);
	loads_pack = 2;
}

/* What a block has of a key, looked up alone by the second handle; returns the round trips. */
static int64
look_beside(World *w, MosqlBytes key, MosqlBytes *row)
{
	int64		before = w->mem->round_trips;
	MosqlKeyUse use = MOSQL_KEY_FIELD;
	MosqlLeafGroup *groups;

	CHECK_INT(mosql_btree_group_beside(w->trees[1], &key, &use, 1, &groups, row), 1);
	return w->mem->round_trips - before;
}

/* The same of a key in each leaf that is in none; another one with each round. */
static int64
look_between(World *w, const MosqlLeaf *leaves, int n, int round)
{
	int64		round_trips = 0;

	for (int i = 0; i < n; i++)
	{
		char		key[9];
		MosqlBytes	row;

		memcpy(key, leaves[i].entries[leaves[i].n / 2].key.data, 8);
		key[8] = (char) round;
		round_trips += look_beside(w, mosql_bytes(key, 9), &row);
		CHECK(row.data == NULL);
	}
	return round_trips;
}

/*
 * Who inserts into more leaves than whose blocks are kept reads each block once, and with the leaf's meta: from then on it is known of
 * most keys that they are not in it, until it is another one.  A key that is in it is found.
 */
static void
test_filters(void)
{
	World	   *w = world_open(4 * BTREE_BLOCKS * MOSQL_LEAF_MAX_ROWS, true, 2);
	MosqlPoint *points = palloc(w->nkeys * sizeof(MosqlPoint));
	MosqlLeaf  *leaves;
	MosqlBytes	row;
	int64		trips;
	int			n;

	loads_pack = 3;
	for (int done = 0; done < w->nkeys; done += load_keys(w, w->trees[0], done, w->nkeys - done, w->nkeys))
		;
	n = read_all_leaves(w, w->trees[0], &leaves);
	trips = look_between(w, leaves, n, 0);
	CHECK(trips >= n && trips < n + n / 4);
	for (int round = 1; round < 4; round++)
	{
		trips = look_between(w, leaves, n, round);
		CHECK(TINY || trips < n / 8);
	}
	for (int i = 0; i < n; i++)
		for (int e = 0; e < leaves[i].n && leaves[i].meta.state == MOSQL_NODE_PACKED; e += 9)
		{
			(void) look_beside(w, leaves[i].entries[e].key, &row);
			CHECK(mosql_bytes_equal(row, leaves[i].entries[e].row));
		}

	/* other blocks */
	(void) write_beside(w, w->trees[0], 0, MOSQL_LEAF_MAX_ROWS, 1);
	n = read_all_leaves(w, w->trees[0], &leaves);
	CHECK(pack_leaves(w->trees[0], leaves, n) > n / 2);
	mosql_btree_get(w->trees[1], w->keys, w->nkeys, points);	/* hints of the new generations */
	trips = look_between(w, leaves, n, 4);
	CHECK(trips > n / 4);
	trips = look_between(w, leaves, n, 5);
	CHECK(TINY || trips < n / 8);
	for (int k = 0; k < w->nkeys; k += 5)
	{
		(void) look_beside(w, w->keys[k], &row);
		CHECK(row.data == NULL || mosql_bytes_equal(row, points[k].row));
	}
	world_close(w);
	loads_pack = 2;
}

/*
 * Rows are inserted beside blocks and packed with them, again and again: the leaves are split when they are full, as those are
 * that nobody packs.
 */
static void
test_inserted_beside(void)
{
	World	   *w = world_open(10 * MOSQL_LEAF_MAX_ROWS, true, 1);
	int			stride = Max(MOSQL_LEAF_MAX_ROWS / 8, 2);
	MosqlBytes *keys = palloc(w->nkeys * sizeof(MosqlBytes));
	MosqlLeaf  *leaves;
	int64		splits = mosql_stats.splits;
	int			beside = 0;

	loads_pack = 3;
	for (int done = 0; done < w->nkeys; done += load_keys(w, w->trees[0], done, w->nkeys - done, w->nkeys))
		;
	for (int round = 1; round < 20; round++)
	{
		MosqlTreeKeys wanted = {.tree = w->trees[0],.keys = keys,.row_bytes = 20,.use = MOSQL_KEY_FIELD};
		int			nleaves;

		for (int k = 0; k < w->nkeys; k += stride)
		{
			char	   *key = palloc(9);

			memcpy(key, w->keys[k].data, 8);
			key[8] = (char) round;
			keys[wanted.n++] = mosql_bytes(key, 9);
		}
		(void) mosql_btree_reserve(&wanted, 1);
		CHECK_INT(write_keys_beside(w, w->trees[0], keys, wanted.n, round), 0);
		nleaves = read_all_leaves(w, w->trees[0], &leaves);
		for (int i = 0; i < nleaves; i++)
		{
			beside += leaves[i].meta.state == MOSQL_NODE_PACKED && leaves[i].nfields > 2;
			CHECK(leaves[i].n <= MOSQL_LEAF_MAX_ROWS + MOSQL_BESIDE_MAX_FIELDS);
		}
		(void) pack_leaves(w->trees[0], leaves, nleaves);
		check_tree(w, w->trees[0]);
		CHECK_INT(check_errors + check_warnings, 0);
		CHECK_INT(check_rows, w->nkeys + round * wanted.n);
	}
	CHECK(beside > 0 && mosql_stats.splits > splits);
	world_close(w);
	loads_pack = 2;
}

/* As who certifies all rows as of a time: every leaf in turn.  Returns how many have stayed packed. */
static int
certify_all(World *w, MosqlTree *tree, MosqlTimestamp at_most)
{
	MosqlBytes	at = w->keys[0];
	int			npacked = 0;

	for (int i = 0; at.data != NULL; i++)
	{
		MosqlLeafGroup *group;

		if (i % 16 == 0)
			mosql_btree_thaw_range(tree, at, MOSQL_ABSENT, at_most, 16);
		CHECK_INT(mosql_btree_group(tree, &at, 1, at_most, &group), 1);
		npacked += group->packed;
		at = mosql_bytes_copy(CurrentMemoryContext, group->high);
	}
	return npacked;
}

/* Rows with ascending timestamps, from 1 on, packed by a load. */
static void
load_timestamps(World *w)
{
	MosqlBytes *rows = palloc(w->nkeys * sizeof(MosqlBytes));

	for (int i = 0; i < w->nkeys; i++)
	{
		StringInfoData row;

		initStringInfo(&row);
		mosql_ts_put(&row, i + 1);
		appendBinaryStringInfo(&row, "Lrow", 4);
		rows[i] = mosql_bytes_of(&row);
	}
	for (int done = 0; done < w->nkeys;)
		done += mosql_btree_load(w->trees[0], w->keys + done, rows + done, w->nkeys - done, MOSQL_COMPRESSION_LZ4, true);
}

/*
 * Ranges that are certified: leaves whose blocks have nothing newer than that stay packed, at no round trip if the handle has
 * scanned them for it, or knows their blocks already; others are unpacked.  What is known of a block says nothing of the next
 * one in the same leaf.
 */
static void
test_certified_ranges(void)
{
	World	   *w = world_open(80 * MOSQL_LEAF_MAX_ROWS, true, 3);
	MosqlScan  *scan = mosql_btree_scan_begin(w->trees[2], MOSQL_ABSENT, MOSQL_ABSENT, false, 8);
	MosqlLeafGroup *groups;
	MosqlLeaf  *leaves;
	int			all;
	int			some;
	int			n;
	int64		before;

	load_timestamps(w);
	all = count_packed(w);
	CHECK(all > 64);
	CHECK_INT(certify_all(w, w->trees[1], w->nkeys), all);
	CHECK_INT(count_packed(w), all);
	before = w->mem->round_trips;
	CHECK_INT(certify_all(w, w->trees[1], w->nkeys), all);
	CHECK_INT(w->mem->round_trips - before, 0);
	mosql_btree_scan_keep_hints(scan);
	while (mosql_btree_scan_next(scan, &leaves) > 0)
		;
	mosql_btree_scan_end(scan);
	before = w->mem->round_trips;
	CHECK_INT(certify_all(w, w->trees[2], w->nkeys), all);
	CHECK_INT(w->mem->round_trips - before, 0);

	/* the newest row is in the last leaf; half of them */
	some = certify_all(w, w->trees[1], w->nkeys - 1);
	CHECK_INT(some, all - 1);
	CHECK_INT(count_packed(w), some);
	some = certify_all(w, w->trees[0], w->nkeys / 2);
	CHECK(some > all / 3 && some < 2 * all / 3);
	CHECK_INT(count_packed(w), some);

	/* packed again, with a row that is newer: known to be old are the blocks that were there before */
	(void) write_beside(w, w->trees[0], 0, w->nkeys, 1);
	n = read_all_leaves(w, w->trees[0], &leaves);
	CHECK(pack_leaves(w->trees[0], leaves, n) > all / 3);
	CHECK_INT(count_packed(w), all);
	CHECK_INT(certify_all(w, w->trees[0], w->nkeys), all - 1);
	CHECK_INT(count_packed(w), all - 1);
	for (int i = 0; i < 3; i++)
		CHECK_INT(mosql_btree_group(w->trees[i], w->keys, w->nkeys, 0, &groups), n);
	CHECK_INT(count_packed(w), 0);
	world_close(w);
}

/*
 * Rows are brought out, somebody reads the leaves, a failover takes that back, and those leaves are unpacked as they were read: the rows
 * are there, as the blocks had them.
 */
static void
test_brought_out_and_lost(void)
{
	World	   *w = world_open(10 * MOSQL_LEAF_MAX_ROWS, true, 1);
	MosqlPoint *before = palloc(w->nkeys * sizeof(MosqlPoint));
	MosqlPoint *after = palloc(w->nkeys * sizeof(MosqlPoint));
	MosqlLeaf  *leaves;
	MosqlLeaf **packed;
	int			npacked = 0;
	int			n;

	loads_pack = 3;
	for (int done = 0; done < w->nkeys; done += load_keys(w, w->trees[0], done, w->nkeys - done, w->nkeys))
		;
	mosql_btree_get(w->trees[0], w->keys, w->nkeys, before);
	CHECK(write_beside(w, w->trees[0], 1, MOSQL_LEAF_MAX_ROWS, 1) > 0);
	n = read_all_leaves(w, w->trees[0], &leaves);
	packed = palloc(n * sizeof(MosqlLeaf *));
	for (int i = 0; i < n; i++)
	{
		if (leaves[i].meta.state != MOSQL_NODE_PACKED)
			continue;
		packed[npacked++] = &leaves[i];
		for (int e = 0; e < leaves[i].n; e++)
			if (!leaves[i].entries[e].in_block)
			{
				MosqlWrite	lost = {MOSQL_WRITE_DELETE, field_of('r', leaves[i].entries[e].key), MOSQL_ABSENT};
				MosqlStep	step = {.node = leaves[i].node,.nwrites = 1,.writes = &lost};
				MosqlStep  *steps[1] = {&step};

				w->store->run_steps(w->store, steps, 1);
			}
	}
	CHECK(npacked > 1);
	mosql_btree_enter(w->trees[0]);
	mosql_btree_unpack(w->trees[0], packed, npacked);
	CHECK_INT(count_packed(w), 0);
	mosql_btree_get(w->trees[0], w->keys, w->nkeys, after);
	for (int k = 0; k < w->nkeys; k++)
		CHECK(after[k].row.data != NULL);
	for (int i = 0; i < npacked; i++)
		for (int k = 0; k < w->nkeys; k++)
			if (before[k].leaf == packed[i]->node)
				CHECK(mosql_bytes_equal(before[k].row, after[k].row));
	expect_sound(w);
	world_close(w);
	loads_pack = 2;
}

/* Steps on groups, by what they compare; returns how many groups' leaves were as expected, and tells the caches. */
static int
touch_groups(World *w, MosqlTree *tree, MosqlLeafGroup *groups, int ngroups)
{
	MosqlBytes	meta = mosql_bytes("m", 1);
	int			ndone = 0;

	for (int g = 0; g < ngroups; g++)
	{
		MosqlCompare compares[3];
		MosqlStep	step = {.node = groups[g].leaf,.compares = compares,.nreads = 1,.reads = &meta};
		MosqlStep  *steps[1] = {&step};

		mosql_btree_expect_group(tree, &groups[g], &step);
		w->store->run_steps(w->store, steps, 1);
		if (step.status != MOSQL_STEP_DONE)
			mosql_btree_observe(tree, step.node, step.values[0], -1);
		else if (groups[g].guessed)
			mosql_btree_guess_right(tree, &groups[g], step.values[0]);
		ndone += step.status == MOSQL_STEP_DONE;
	}
	return ndone;
}

/* By key, in groups of which some are perhaps guessed: each leaf named by its group covers the group's keys. */
static void
expect_grouped(World *w, MosqlTree *tree, const MosqlLeafGroup *groups, int ngroups, int n)
{
	MosqlPoint *points = palloc(n * sizeof(MosqlPoint));
	int			at = 0;

	mosql_btree_get(tree, w->keys, n, points);
	for (int g = 0; g < ngroups; g++)
	{
		CHECK_INT(groups[g].first, at);
		for (int end = at + groups[g].n; at < end; at++)
			CHECK(points[at].leaf == groups[g].leaf);
	}
	CHECK_INT(at, n);
}

/* A root that is damaged, and its own child, as the cache has it, leads nowhere, and to no end of looking either. */
static void
expect_no_way(World *w, MosqlTree *tree)
{
	CachedNode *root = mosql_btree_cache_find(tree, mosql_btree_root(tree));
	MosqlLeafGroup *groups;

	root->meta.level++;
	for (int c = 0; c < root->nchildren; c++)
		root->children[c].node = mosql_btree_root(tree);
	CHECK_INT(mosql_btree_group_known(tree, w->keys, w->nkeys, &groups), 0);
	mosql_btree_forget(tree);
}

/*
 * Leaves that were not looked at are guessed, without a round trip (by caches alone, if they lead there), and found by the step
 * itself to be right, packed or not; what was split since is found to be wrong, and grouped anew with what was met.
 */
static void
test_guess(void)
{
	World	   *w = world_open(20 * MOSQL_LEAF_MAX_ROWS, true, 3);
	MosqlPoint *points = palloc(w->nkeys * sizeof(MosqlPoint));
	MosqlLeafGroup *groups;
	int			ngroups;
	int			nguessed = 0;
	int			nknown;
	int			half = w->nkeys / 2;
	int64		before;

	loads_pack = 3;
	for (int done = 0; done < half; done += load_keys(w, w->trees[0], done, half - done, w->nkeys))
		;
	CHECK(count_packed(w) > 0);
	before = w->mem->round_trips;
	CHECK_INT(mosql_btree_group_known(w->trees[1], w->keys, half, &groups), 0);
	CHECK_INT(w->mem->round_trips - before, 0);
	for (int t = 1; t < 3; t++)
	{
		mosql_btree_get(w->trees[t], w->keys, half, points);	/* inner nodes */
		for (int k = 0; k < half; k++)
			mosql_btree_observe(w->trees[t], points[k].leaf, MOSQL_ABSENT, -1);
	}
	before = w->mem->round_trips;
	nknown = mosql_btree_group_known(w->trees[1], w->keys, w->nkeys, &groups);
	CHECK_INT(w->mem->round_trips - before, 0);
	expect_grouped(w, w->trees[0], groups, nknown, w->nkeys);
	before = w->mem->round_trips;
	ngroups = mosql_btree_group_guess(w->trees[1], w->keys, w->nkeys, &groups);
	CHECK_INT(w->mem->round_trips - before, 0);
	CHECK_INT(ngroups, nknown);
	for (int g = 0; g < ngroups; g++)
		nguessed += groups[g].guessed;
	CHECK_INT(nguessed, ngroups);
	CHECK_INT(touch_groups(w, w->trees[1], groups, ngroups), ngroups);
	expect_grouped(w, w->trees[1], groups, ngroups, w->nkeys);
	ngroups = mosql_btree_group_guess(w->trees[1], w->keys, w->nkeys, &groups);
	for (int g = 0; g < ngroups; g++)
		CHECK(!groups[g].guessed);

	/* the last one is not the last one any more */
	for (int done = half; done < w->nkeys; done += load_keys(w, w->trees[0], done, w->nkeys - done, w->nkeys))
		;
	ngroups = mosql_btree_group_guess(w->trees[2], w->keys, w->nkeys, &groups);
	CHECK(groups[ngroups - 1].guessed && groups[ngroups - 1].high.data == NULL);
	CHECK_INT(touch_groups(w, w->trees[2], groups, ngroups), ngroups - 1);
	CHECK(mosql_btree_group(w->trees[2], w->keys, w->nkeys, 0, &groups) > ngroups);
	ngroups = mosql_btree_group_beside(w->trees[2], w->keys, NULL, w->nkeys, &groups, NULL);
	expect_grouped(w, w->trees[2], groups, ngroups, w->nkeys);
	CHECK_INT(touch_groups(w, w->trees[2], groups, ngroups), ngroups);
	expect_sound(w);
	expect_no_way(w, w->trees[2]);
	world_close(w);
	loads_pack = 2;
}

/* While somebody looks up what blocks have: a connection breaks, and the first leaf is unpacked and loses its row. */
static void
unpack_and_delete(void *arg)
{
	World	   *w = arg;
	int			k = 0;
	uint32		gone = 0;

	w->mem->hook = NULL;
	w->mem->incarnation++;
	write_keys(w, w->trees[1], &k, &gone, 1, 0);
}

/*
 * Two leaves are grouped by what was known of them: the first one's block is at hand, the other one is not what
 * it was.  When they are grouped anew the first one has changed as well, and what its block had of a row counts no more:
 * it would come back.
 */
static void
test_block_outdated(void)
{
	World	   *w = world_open(20 * MOSQL_LEAF_MAX_ROWS, true, 2);
	MosqlBytes	keys[2];
	MosqlBytes	rows[2];
	MosqlPoint	point;
	MosqlLeafGroup *groups;

	loads_pack = 3;
	for (int done = 0; done < w->nkeys; done += load_keys(w, w->trees[0], done, w->nkeys - done, w->nkeys))
		;
	keys[0] = w->keys[0];
	keys[1] = w->keys[w->nkeys / 2];
	(void) mosql_btree_group_beside(w->trees[0], keys, NULL, 2, &groups, NULL);
	CHECK(groups[0].packed && groups[1].packed);
	mosql_btree_get(w->trees[0], keys, 1, &point);
	(void) mosql_btree_group(w->trees[1], keys + 1, 1, 0, &groups);
	w->mem->hook = unpack_and_delete;
	w->mem->hook_arg = w;
	CHECK_INT(mosql_btree_group_beside(w->trees[0], keys, NULL, 2, &groups, rows), 2);
	CHECK(w->mem->hook == NULL);
	CHECK(!groups[0].packed && rows[0].data == NULL);
	CHECK(!groups[1].packed && rows[1].data == NULL);
	world_close(w);
	loads_pack = 2;
}

/* ---- leaves that a commit fills ---- */

/* Columns of a key, that shrink: made of its number. */
static MosqlBytes
columns_of(int k)
{
	char	   *columns = palloc(40);

	memset(columns, 'c', 40);
	memcpy(columns, &k, sizeof(k));
	return mosql_bytes(columns, 40);
}

/* Fill a group's leaf for an attempt, by a step that compares its generation and that it is empty; the step's status, or -1. */
static int
fill_group(World *w, MosqlTree *tree, const MosqlLeafGroup *group, MosqlTxid tx)
{
	static const char never[MOSQL_TXID_BYTES];
	MosqlBytes	meta_field = mosql_bytes("m", 1);
	MosqlBytes *columns = palloc(group->n * sizeof(MosqlBytes));
	MosqlCompare compares[2] = {
		{MOSQL_COMPARE_EQUAL, meta_field, 0, generation_of(group->generation)},
		{MOSQL_COMPARE_RANGE, mosql_bytes("", 0), 0, mosql_bytes(never, MOSQL_TXID_BYTES)}
	};
	MosqlWrite	writes[2];
	MosqlStep	step = {.node = group->leaf,.ncompares = 2,.compares = compares,.writes = writes,.nreads = 1,.reads = &meta_field};
	MosqlStep  *steps[1] = {&step};

	compares[1].at_most = mosql_bytes(never, MOSQL_TS_BYTES);
	for (int i = 0; i < group->n; i++)
		columns[i] = columns_of(group->first + i);
	if (!mosql_btree_fill(tree, group, tx, MOSQL_COMPRESSION_LZ4, w->keys + group->first, columns, &step))
		return -1;
	w->store->run_steps(w->store, steps, 1);
	if (step.status == MOSQL_STEP_DONE)
		mosql_btree_remember(tree, &step);
	return step.status;
}

static int
settle_leaf(World *w, MosqlTree *tree, const MosqlLeafGroup *group, MosqlTxid tx, MosqlTimestamp since, bool whole)
{
	MosqlStep  *step = mosql_btree_settle_step(tree, group->leaf, group->generation, tx, since, whole);

	if (step == NULL)
		return -1;
	w->store->run_steps(w->store, &step, 1);
	if (step->status == MOSQL_STEP_DONE)
		mosql_btree_remember(tree, step);
	return step->status;
}

/* What a leaf that was filled is to whoever reads it, by key and as a whole: 'i' intents, 'r' rows as of `since`, 0 nothing. */
static void
expect_filled(World *w, MosqlTree *tree, const MosqlLeafGroup *group, char kind, MosqlTxid tx, MosqlTimestamp since, bool whole)
{
	MosqlPoint *points = palloc(group->n * sizeof(MosqlPoint));
	MosqlLeaf  *leaf = mosql_btree_read_leaf(tree, w->keys[group->first]);
	MosqlIntent intent;
	MosqlVersion v;

	CHECK_INT(leaf->n, kind != 0 ? group->n : 0);
	mosql_btree_get(tree, w->keys + group->first, group->n, points);
	for (int i = 0; i < group->n; i++)
	{
		MosqlBytes	columns = columns_of(group->first + i);
		MosqlBytes	rest = points[i].intent;

		CHECK((points[i].row.data != NULL) == (kind == 'r') && (points[i].intent.data != NULL) == (kind == 'i'));
		CHECK(mosql_txid_equal(points[i].loader, kind == 'i' ? tx : (MosqlTxid) {0, 0}));
		if (kind == 'i')
			CHECK(mosql_intent_next(&rest, &intent) == 1 && mosql_txid_equal(intent.tx, tx) &&
				  mosql_bytes_equal(intent.payload, columns));
		if (kind == 'r')
			CHECK(mosql_row_newest(points[i].row, &v) && v.ts == since && mosql_bytes_equal(v.columns, columns) &&
				  mosql_row_visible(points[i].row, 0, since - 1, &v) == (whole ? MOSQL_VISIBLE_ABSENT : MOSQL_VISIBLE_TOO_OLD));
		if (kind != 0)
			CHECK(mosql_bytes_equal(leaf->entries[i].key, w->keys[group->first + i]) &&
				  mosql_bytes_equal(leaf->entries[i].row, points[i].row) &&
				  mosql_bytes_equal(leaf->entries[i].intent, points[i].intent));
	}
}

/*
 * Empty leaves are filled with a block, and settled: whoever reads finds intents, then rows as of that time, or nothing.  Each
 * step is done once, by whoever is first, and no other has his way meanwhile: who splits, unpacks, or makes room leaves
 * the leaf as it is; a neighbour that is merged into it leaves the block where it is.
 */
static void
test_filled(void)
{
	World	   *w = world_open(20 * MOSQL_LEAF_MAX_ROWS, true, 2);
	const MosqlTxid tx = {7, 9};
	const MosqlTxid other = {7, 10};
	MosqlLeafGroup *groups;
	MosqlLeafGroup *again;
	int			n;
	int			nfilled = 0;
	int64		before;

	memstore_reserve(w->trees[0], w->keys, w->nkeys, 40);
	n = mosql_btree_group(w->trees[0], w->keys, w->nkeys, 0, &groups);
	CHECK(n > 10);
	for (int g = 0; g < n; g++)
	{
		MosqlLeafGroup *now;
		MosqlBusyLeaf busy;
		MosqlTimestamp since = 100 + g;

		groups[g].high = groups[g].frozen_from = MOSQL_ABSENT;
		(void) mosql_btree_group(w->trees[0], w->keys + groups[g].first, 1, 0, &now);
		if (fill_group(w, w->trees[0], &groups[g], tx) < 0)
			continue;
		nfilled++;
		/* once, and for nobody else */
		CHECK(fill_group(w, w->trees[1], &groups[g], other) != MOSQL_STEP_DONE);
		expect_filled(w, w->trees[1], &groups[g], 'i', tx, 0, false);
		expect_filled(w, w->trees[0], &groups[g], 'i', tx, 0, false);

		/* it is a group of its own to those who write, and stays as it is */
		before = mosql_stats.leaves_unpacked;
		CHECK_INT(mosql_btree_group(w->trees[1], w->keys + groups[g].first, groups[g].n, 0, &again), 1);
		CHECK(mosql_txid_equal(again->loaded.loader, tx) && !again->packed);
		busy = memstore_reserve(w->trees[1], w->keys + groups[g].first, groups[g].n, MOSQL_LEAF_MAX_BYTES / 2);
		CHECK(busy.tree == w->trees[1] && mosql_txid_equal(busy.loaded.loader, tx) &&
			  mosql_bytes_equal(busy.key, w->keys[groups[g].first]));
		mosql_btree_split(w->trees[1], w->keys[groups[g].first], false);
		CHECK_INT(mosql_stats.leaves_unpacked, before);
		CHECK_INT(mosql_btree_group(w->trees[1], w->keys + groups[g].first, groups[g].n, 0, &again), 1);
		CHECK(again->leaf == groups[g].leaf && mosql_txid_equal(again->loaded.loader, tx));

		/* settled once, for its own attempt */
		CHECK_INT(settle_leaf(w, w->trees[1], again, other, since, false), -1);
		(void) mosql_btree_group(w->trees[0], w->keys + groups[g].first, 1, 0, &now);
		if (g % 3 == 2)
		{
			CHECK_INT(settle_leaf(w, w->trees[1], again, tx, 0, false), MOSQL_STEP_DONE);
			CHECK(settle_leaf(w, w->trees[0], now, tx, since, false) != MOSQL_STEP_DONE);
			mosql_btree_observe(w->trees[0], now->leaf, MOSQL_ABSENT, -1);
			expect_filled(w, w->trees[0], &groups[g], 0, tx, 0, false);
			continue;
		}
		CHECK_INT(settle_leaf(w, w->trees[1], again, tx, since, g % 3 == 1), MOSQL_STEP_DONE);
		CHECK(settle_leaf(w, w->trees[0], now, tx, 0, false) != MOSQL_STEP_DONE);
		expect_filled(w, w->trees[0], &groups[g], 'r', tx, since, g % 3 == 1);
		expect_filled(w, w->trees[1], &groups[g], 'r', tx, since, g % 3 == 1);
		if (g == 0)				/* now there is room to be had */
		{
			busy = memstore_reserve(w->trees[1], w->keys + groups[g].first, groups[g].n, MOSQL_LEAF_MAX_BYTES / 2);
			CHECK(busy.tree == NULL);
		}
	}
	CHECK(nfilled > n / 2);

	/* unpacked, they are the same rows */
	for (int g = 0; g < n; g++)
	{
		MosqlLeaf  *leaf = mosql_btree_read_leaf(w->trees[0], w->keys[groups[g].first]);
		MosqlTimestamp since = leaf->meta.loaded.since;
		bool		whole = leaf->meta.loaded.whole;

		if (since == 0)
			continue;
		(void) mosql_btree_group(w->trees[1], w->keys + groups[g].first, groups[g].n, 0, &again);
		leaf = mosql_btree_read_leaf(w->trees[0], w->keys[groups[g].first]);
		CHECK_INT(leaf->meta.state, MOSQL_NODE_NORMAL);
		CHECK(leaf->meta.loaded.since == 0);
		expect_filled(w, w->trees[0], &groups[g], 'r', tx, since, whole);
	}
	world_close(w);
}

/* ---- leaves that are written anew ---- */

/*
 * Room for a commit that writes packed leaves anew: what it deletes there makes some, and nothing is split or unpacked; what is
 * left over is.
 */
static void
test_room_anew(void)
{
	World	   *w = world_open(20 * MOSQL_LEAF_MAX_ROWS, true, 1);
	MosqlBytes *keys = palloc(2 * w->nkeys * sizeof(MosqlBytes));
	MosqlKeyUse *uses = palloc(2 * w->nkeys * sizeof(MosqlKeyUse));
	int8	   *growth = palloc(2 * w->nkeys);
	MosqlTreeKeys wanted = {w->trees[0], keys, 2 * w->nkeys, 20, MOSQL_KEY_FIELD, uses, growth};
	int64		splits;
	int			npacked;

	loads_pack = 3;
	load_timestamps(w);
	loads_pack = 2;
	npacked = count_packed(w);
	CHECK(npacked > 10);
	for (int k = 0; k < w->nkeys; k++)
	{
		keys[2 * k] = w->keys[k];
		keys[2 * k + 1] = mosql_bytes(memcpy(palloc0(w->keys[k].len + 1), w->keys[k].data, w->keys[k].len), w->keys[k].len + 1);
		uses[2 * k] = MOSQL_KEY_UNPACK | MOSQL_KEY_REWRITES;
		uses[2 * k + 1] = MOSQL_KEY_FIELD | MOSQL_KEY_REWRITES;
		growth[2 * k] = -1;
		growth[2 * k + 1] = 1;
	}
	splits = mosql_stats.splits;
	(void) mosql_btree_reserve(&wanted, 1);
	CHECK_INT(count_packed(w), npacked);
	CHECK_INT(mosql_stats.splits, splits);

	/* one more in twenty: where the leaf is not as full */
	for (int k = 0; k < w->nkeys; k += 20)
		growth[2 * k] = 0;
	(void) mosql_btree_reserve(&wanted, 1);
	CHECK(TINY || count_packed(w) == npacked);
	CHECK(TINY || mosql_stats.splits == splits);

	/* none goes: twice as many as fit */
	for (int k = 0; k < w->nkeys; k++)
		growth[2 * k] = 0;
	(void) mosql_btree_reserve(&wanted, 1);
	CHECK(TINY || count_packed(w) == 0);
	CHECK(mosql_stats.splits > splits);
	expect_no_garbage(w);
	world_close(w);
}

/* What a rewriter makes of a key: it is left, changed or deleted. */
static bool
is_rewritten(int k)
{
	return k % 3 != 0;
}

static bool
is_deleted(int k)
{
	return k % 3 == 2;
}

/* Two of three keys of a group; or NULL if that is not to be. */
static MosqlStep *
rewrite_step(World *w, MosqlTree *tree, const MosqlLeafGroup *group, MosqlTxid tx)
{
	static const char never[MOSQL_TXID_BYTES];
	MosqlBytes *columns = palloc(group->n * sizeof(MosqlBytes));
	MosqlBytes *keys = palloc(group->n * sizeof(MosqlBytes));
	MosqlLeafGroup of = *group;
	MosqlStep  *step = palloc0(sizeof(MosqlStep));

	of.n = 0;
	step->node = group->leaf;
	step->compares = palloc0(2 * sizeof(MosqlCompare));
	step->writes = palloc(2 * sizeof(MosqlWrite));
	mosql_step_expect(step, MOSQL_COMPARE_EQUAL, mosql_bytes("m", 1), 0, generation_of(group->generation));
	mosql_step_expect(step, MOSQL_COMPARE_RANGE, mosql_bytes("", 0), 0, mosql_bytes(never, MOSQL_TXID_BYTES));
	step->compares[1].at_most = mosql_bytes(never, MOSQL_TS_BYTES);
	for (int k = group->first; k < group->first + group->n; k++)
		if (is_rewritten(k))
		{
			keys[of.n] = w->keys[k];
			columns[of.n++] = is_deleted(k) ? MOSQL_ABSENT : columns_of(k + 7);
		}
	return mosql_btree_rewrite(tree, &of, tx, false, MOSQL_COMPRESSION_LZ4, keys, columns, step) ? step : NULL;
}

static MosqlStepStatus
run_one(World *w, MosqlTree *tree, MosqlStep *step)
{
	step->status = MOSQL_STEP_LOST;
	w->store->run_steps(w->store, &step, 1);
	if (step->status == MOSQL_STEP_DONE)
		mosql_btree_remember(tree, step);
	return step->status;
}

/* What a key is: as it was loaded, or with what is not decided, or as of `since`, by key and in its leaf. */
static void
expect_written(World *w, MosqlTree *tree, int k, const MosqlBytes *before, bool loading, MosqlTimestamp since, bool whole)
{
	MosqlLeaf  *leaf = mosql_btree_read_leaf(tree, w->keys[k]);
	MosqlPoint	point;
	MosqlIntent intent;
	MosqlVersion v;
	int			at = mosql_btree_leaf_position(leaf, w->keys[k]);
	bool		is_there = at < leaf->n && mosql_bytes_equal(leaf->entries[at].key, w->keys[k]);

	mosql_btree_get(tree, &w->keys[k], 1, &point);
	CHECK(is_there == (point.row.data != NULL));
	CHECK(!is_there || (mosql_bytes_equal(leaf->entries[at].row, point.row) &&
						mosql_bytes_equal(leaf->entries[at].intent, point.intent)));
	if (since == 0 || !is_rewritten(k))
		CHECK(mosql_bytes_equal(point.row, *before));
	CHECK((point.intent.data != NULL) == (loading && is_rewritten(k)));
	if (point.intent.data != NULL)
		CHECK(mosql_intent_next(&point.intent, &intent) == 1 &&
			  intent.kind == (is_deleted(k) ? MOSQL_INTENT_DELETE : MOSQL_INTENT_PUT));
	if (since == 0 || !is_rewritten(k))
		return;
	if (is_deleted(k) && !whole)
	{
		CHECK(point.row.data == NULL && point.purged == since);
		return;
	}
	CHECK(mosql_row_newest(point.row, &v) && v.ts == since && v.live == !is_deleted(k) &&
		  (!v.live || mosql_bytes_equal(v.columns, columns_of(k + 7))));
	CHECK_INT(mosql_row_visible(point.row, 0, since - 1, &v), whole ? MOSQL_VISIBLE_LIVE : MOSQL_VISIBLE_TOO_OLD);
}

/*
 * Packed leaves are written anew, and settled in each way: readers find what was there, with intents, then what is there since, or what was
 * there; each step is done once.  What somebody has written beside the block keeps it from being written.  Afterwards they are packed
 * again without what nobody asks for, or unpacked; and a leaf of which somebody may ask what was there is not written so again.
 */
static void
test_rewritten(void)
{
	World	   *w = world_open(20 * MOSQL_LEAF_MAX_ROWS, true, 2);
	const MosqlTxid tx = {7, 9};
	MosqlKeyUse *uses = palloc(w->nkeys * sizeof(MosqlKeyUse));
	MosqlBytes *rows = palloc(w->nkeys * sizeof(MosqlBytes));
	MosqlLeafGroup *groups;
	MosqlLeaf  *leaves;
	int			n;
	int			nrewritten = 0;

	loads_pack = 3;
	load_timestamps(w);
	loads_pack = 2;
	for (int i = 0; i < w->nkeys; i++)
		uses[i] = MOSQL_KEY_UNPACK | MOSQL_KEY_REWRITES;
	n = mosql_btree_group_beside(w->trees[0], w->keys, uses, w->nkeys, &groups, rows);
	CHECK(count_packed(w) > 10);
	for (int g = 0; g < n; g++)
	{
		MosqlLeafGroup group = groups[g];
		MosqlLeafGroup now;
		MosqlTimestamp since = 1000000 + g;
		MosqlStep  *step;
		MosqlStep  *twice;
		MosqlLeafGroup *beside;
		int			way = g % 4;	/* whole, not whole, taken back, somebody is faster */

		if (!group.rewrites || group.n < 4)
			continue;
		CHECK(group.packed && group.block.data != NULL);
		step = rewrite_step(w, w->trees[0], &group, tx);
		twice = rewrite_step(w, w->trees[0], &group, tx);
		CHECK(step != NULL);
		if (step == NULL)
			continue;
		if (way == 3)
		{
			memstore_set(w->mem, group.leaf, field_of('r', w->keys[group.first + 1]), rows[group.first + 1]);
			CHECK_INT(run_one(w, w->trees[0], step), MOSQL_STEP_FAILED);
			expect_written(w, w->trees[1], group.first + 1, &rows[group.first + 1], false, 0, false);
			continue;
		}
		nrewritten++;
		CHECK_INT(run_one(w, w->trees[0], step), MOSQL_STEP_DONE);
		CHECK_INT(run_one(w, w->trees[0], twice), MOSQL_STEP_FAILED);
		for (int t = 0; t < 2; t++)
			for (int k = group.first; k < group.first + group.n; k++)
				expect_written(w, w->trees[t], k, &rows[k], true, 0, false);
		(void) mosql_btree_group_beside(w->trees[1], w->keys + group.first, NULL, 1, &beside, NULL);
		now = *beside;
		CHECK(mosql_txid_equal(now.loaded.loader, tx) && !now.packed);
		CHECK_INT(settle_leaf(w, w->trees[1], &now, (MosqlTxid) {7, 10}, since, true), -1);
		if (way == 2)
			since = 0;
		CHECK_INT(settle_leaf(w, w->trees[1], &now, tx, since, way == 0), MOSQL_STEP_DONE);
		for (int t = 0; t < 2; t++)
			for (int k = group.first; k < group.first + group.n; k++)
				expect_written(w, w->trees[t], k, &rows[k], false, since, way == 0);
		/* once more, but where what was before may be asked for */
		(void) mosql_btree_group_beside(w->trees[0], w->keys + group.first, uses, group.n, &beside, rows + group.first);
		CHECK(beside->packed == (way != 0) && beside->rewrites == (way != 0));
		for (int k = group.first; way == 0 && k < group.first + group.n; k++)
		{
			MosqlPoint	point;
			MosqlVersion v;

			mosql_btree_get(w->trees[1], &w->keys[k], 1, &point);
			CHECK(mosql_row_newest(point.row, &v) && v.live == (!is_rewritten(k) || !is_deleted(k)));
			CHECK(!is_rewritten(k) || v.ts == since);
		}
	}
	CHECK(TINY || nrewritten > 10);	/* small blocks do not pay */
	expect_no_garbage(w);

	/* packed again, or unpacked: nothing stale is left, and the rows are what they were */
	n = read_all_leaves(w, w->trees[0], &leaves);
	(void) pack_leaves(w->trees[0], leaves, n);
	{
		MosqlLeaf  *after;

		CHECK_INT(read_all_leaves(w, w->trees[0], &after), n);
		for (int i = 0; i < n; i++)
		{
			CHECK(!after[i].stale && after[i].n == leaves[i].n);
			for (int e = 0; e < after[i].n; e++)
				CHECK(mosql_bytes_equal(after[i].entries[e].key, leaves[i].entries[e].key) &&
					  mosql_bytes_equal(after[i].entries[e].row, leaves[i].entries[e].row));
		}
	}
	world_close(w);
}

/* A leaf that a scan has read from some key on is not packed as if that were all of it. */
static void
test_packed_in_part(void)
{
	World	   *w = world_open(20 * MOSQL_LEAF_MAX_ROWS, true, 1);
	MosqlScan  *scan;
	MosqlLeaf  *leaves;
	MosqlLeaf  *leaf;
	int			n;
	int			at;

	loads_pack = 3;
	load_timestamps(w);
	loads_pack = 2;
	leaf = mosql_btree_read_leaf(w->trees[0], w->keys[0]);
	at = Max(leaf->n / 8, 1);	/* what is left is enough for a block */
	CHECK_INT(leaf->meta.state, MOSQL_NODE_PACKED);
	memstore_set(w->mem, leaf->node, field_of('r', w->keys[at + 1]), leaf->entries[at + 1].row);
	scan = mosql_btree_scan_begin(w->trees[0], w->keys[at], MOSQL_ABSENT, false, 4);
	n = mosql_btree_scan_next(scan, &leaves);
	CHECK(n > 0 && leaves[0].node == leaf->node && leaves[0].n < leaf->n);
	(void) pack_leaves(w->trees[0], leaves, n);
	mosql_btree_scan_end(scan);
	CHECK_INT(mosql_btree_read_leaf(w->trees[0], w->keys[0])->n, leaf->n);
	world_close(w);
}

/* A row that came into the last leaf meanwhile is neither cut off nor overwritten. */
static MosqlBytes overtaking_key;

static void
overtake(void *arg)
{
	World	   *w = arg;
	MosqlTree  *tree;
	uint64	   *ids;
	int			n;
	static const char intent[MOSQL_TXID_BYTES + 1] = "0123456789abcdefD";

	if (overtaking_key.data == NULL || w->mem->steps < 4)
		return;
	w->mem->hook = NULL;
	tree = mosql_btree_open(w->store, ROOT, CurrentMemoryContext);
	n = mosql_btree_leaf_ids(tree, &ids);
	memstore_set(w->mem, ids[n - 1], field_of('i', overtaking_key), mosql_bytes(intent, sizeof(intent)));
	mosql_btree_close(tree);
}

static void
test_load_overtaken(void)
{
	for (volatile int empty = 0; empty < 2; empty++)
	{
		World	   *w = world_open(1000, true, 1);
		MemoryContext caller = CurrentMemoryContext;
		volatile int from = empty ? 0 : 100;
		bool		raised;

		loads_pack = 0;			/* a packed leaf has no intents */
		if (!empty)
			load_keys(w, w->trees[0], 0, from, 1000);
		overtaking_key = w->keys[500];
		w->mem->steps = 4;
		w->mem->hook = overtake;
		w->mem->hook_arg = w;
		raised = PGSTUB_RAISES(load_keys(w, w->trees[0], from, w->nkeys - from, 1000));
		CHECK(raised);
		MemoryContextSwitchTo(caller);
		w->mem->hook = NULL;
		check_tree(w, w->trees[0]);
		CHECK_INT(check_errors, 0);
		world_close(w);
	}
	overtaking_key = MOSQL_ABSENT;
	loads_pack = 2;
}

/* One row at a time, ascending, descending, random, then in random order away. */
static void
test_single_inserts(void)
{
	for (int order = 0; order < 3; order++)
	{
		World	   *w = world_open(scaled(TINY ? 2000 : 8000), order == 0, 2);

		for (int i = 0; i < w->nkeys; i++)
		{
			MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "op", ALLOCSET_DEFAULT_SIZES);
			MemoryContext old = MemoryContextSwitchTo(cxt);
			int			k = order == 0 ? i : order == 1 ? w->nkeys - 1 - i : (int) ((int64) i * 7919 % w->nkeys);
			uint32		value = i + 1;

			memstore_reserve(w->trees[0], &w->keys[k], 1, 20);
			write_keys(w, w->trees[0], &k, &value, 1, 0);
			MemoryContextSwitchTo(old);
			MemoryContextDelete(cxt);
		}
		expect_sound(w);
		expect_no_garbage(w);
		if (order == 0)			/* full leaves */
			CHECK(check_leaves <= w->nkeys / MOSQL_LEAF_MAX_ROWS + 2);
		else
			CHECK(check_leaves <= 2.5 * w->nkeys / MOSQL_LEAF_MAX_ROWS + 2);
		expect_rows(w, w->trees[1]);
		world_close(w);
	}
}

static void
test_random(void)
{
	for (int round = 0; round < 4; round++)
	{
		World	   *w = world_open(TINY ? 3000 : 20000, round % 2, 3);
		int			n = scaled(TINY ? 6000 : 10000);

		for (int i = 0; i < n; i++)
			do_something(w);
		expect_sound(w);
		expect_no_garbage(w);
		for (int i = 0; i < w->ntrees; i++)
			expect_rows(w, w->trees[i]);
		if (getenv("BTREE_TEST_BENCH"))
			printf("# %lld rows and keys\n", (long long) w->operations);
		world_close(w);
	}
}

/* With a cache that holds next to nothing. */
static void
test_small_cache(void)
{
	World	   *w = world_open(TINY ? 2000 : 20000, false, 3);
	int			kb = mosql_btree_cache_kb;

	mosql_btree_cache_kb = 2;
	for (int i = 0; i < scaled(2000); i++)
		do_something(w);
	expect_sound(w);
	expect_rows(w, w->trees[0]);
	mosql_btree_cache_kb = 0;
	for (int i = 0; i < scaled(500); i++)
		do_something(w);
	expect_rows(w, w->trees[0]);
	mosql_btree_cache_kb = kb;
	world_close(w);
}

/*
 * Somebody else works between any two round trips: the hook runs whole
 * operations of other handles inside those of this one.
 */
static void
interfere(void *arg)
{
	World	   *w = arg;
	MosqlTree  *first = w->trees[0];

	if (w->depth >= 3 || rnd(w, 3) != 0)
		return;

	/* the handle that is in the middle of something must not be used */
	w->trees[0] = w->trees[w->depth];
	w->ntrees = 1;
	do_something(w);
	w->trees[0] = first;
}

static void
test_interleaved(void)
{
	for (int round = 0; round < 4; round++)
	{
		World	   *w = world_open(TINY ? 400 : 4000, round % 2, 3);
		int			n = scaled(TINY ? 3000 : 3000);

		w->mem->hook = interfere;
		w->mem->hook_arg = w;
		w->mem->lost = round < 2 ? 0 : 0.05;
		for (int i = 0; i < n; i++)
		{
			w->ntrees = 1;
			do_something(w);
		}
		w->mem->hook = NULL;
		w->mem->lost = 0;
		w->ntrees = 3;
		expect_rows(w, w->trees[0]);
		touch_all(w, w->trees[1]);
		touch_all(w, w->trees[1]);
		sweep_all(w, w->trees[2]);
		expect_sound_tree(w, true);
		expect_no_garbage(w);
		world_close(w);
	}
}

/* As the two above, with scans of several ranges. */
static void
test_leaps(void)
{
	leaping = true;
	for (int round = 0; round < 2; round++)
	{
		World	   *w = world_open(TINY ? 400 : 4000, round % 2, 3);

		w->mem->hook = round == 0 ? NULL : interfere;
		w->mem->hook_arg = w;
		for (int i = 0; i < scaled(2000); i++)
		{
			w->ntrees = round == 0 ? 3 : 1;
			do_something(w);
		}
		w->mem->hook = NULL;
		w->ntrees = 3;
		expect_rows(w, w->trees[0]);
		world_close(w);
	}
	leaping = false;
}

static void
test_lost_replies(void)
{
	World	   *w = world_open(TINY ? 2000 : 5000, false, 3);

	w->mem->lost = 0.2;
	for (int i = 0; i < scaled(3000); i++)
		do_something(w);
	w->mem->lost = 0;
	/* what the last ones left half done is finished by whoever comes next, or by the sweep */
	touch_all(w, w->trees[0]);
	sweep_all(w, w->trees[0]);
	touch_all(w, w->trees[0]);
	expect_sound_tree(w, true);
	expect_no_garbage(w);
	expect_rows(w, w->trees[0]);
	world_close(w);
}

/*
 * Crash at each step of a protocol, before and after the step: whoever comes
 * next finds all rows, finishes the work, and leaves a clean tree.
 */
typedef void (*Protocol) (World *w, MosqlTree *tree);

static void
crash_everywhere(World *w, Protocol protocol, int stride)
{
	for (volatile int after = 0; after < 2; after++)
		for (volatile int64 at = 1;; at += 1 + (at > 60 ? rnd(w, stride) : 0))
		{
			MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "crash", ALLOCSET_DEFAULT_SIZES);
			MemoryContext old = MemoryContextSwitchTo(cxt);
			World		c = *w;
			MosqlTree  *tree;
			int			failed = unit_failed;
			bool		crashed;

			c.mem = memstore_copy(w->mem);
			c.store = &c.mem->store;
			tree = mosql_btree_open(c.store, ROOT, cxt);
			c.mem->crash_at = at;
			c.mem->crash_after = after;
			crashed = PGSTUB_RAISES(protocol(&c, tree));
			MemoryContextSwitchTo(cxt);
			if (crashed)
				CHECK_INT(pgstub_error.sqlstate, MEMSTORE_CRASH);
			c.mem->crash_at = 0;
			mosql_btree_close(tree);

			c.ntrees = 2;
			c.trees[0] = mosql_btree_open(c.store, ROOT, cxt);
			c.trees[1] = mosql_btree_open(c.store, ROOT, cxt);
			check_tree(&c, c.trees[0]);
			CHECK_INT(check_errors, 0);
			expect_rows(&c, c.trees[at % 2]);
			touch_all(&c, c.trees[1]);	/* finish splits */
			touch_all(&c, c.trees[1]);	/* link what came out of them */
			sweep_all(&c, c.trees[0]);	/* unlink the dead */
			expect_sound(&c);
			expect_no_garbage(&c);

			/* the tree works, and the same again succeeds */
			protocol(&c, c.trees[1]);
			protocol(&c, c.trees[0]);
			expect_rows(&c, c.trees[0]);
			expect_sound(&c);
			memstore_close(c.mem);
			if (unit_failed > failed)
				printf("#   crash %s step %lld\n", after ? "after" : "before", (long long) at);
			MemoryContextSwitchTo(old);
			MemoryContextDelete(cxt);
			if (!crashed || unit_failed > 20)
				break;
		}
}

/* A tree with every third key, and an intent, marks and a purge mark per leaf. */
static World *
crash_world(int nkeys)
{
	World	   *w = world_open(nkeys, false, 1);
	uint64	   *ids;
	int			n;

	for (int k = 0; k < w->nkeys; k += 3)
	{
		uint32		value = k + 1;

		write_keys(w, w->trees[0], &k, &value, 1, 0);
	}
	n = memstore_ids(w->mem, &ids);
	for (int i = 0; i < n; i++)
	{
		MosqlNodeImage image;
		MosqlNodeMeta meta;

		memstore_image(w->mem, ids[i], &image);
		if (mosql_meta_decode(image.fields[0].value, &meta) && meta.level == 0)
		{
			memstore_set(w->mem, ids[i], mosql_bytes("p", 1), mosql_bytes("\0\0\0\0\0\0\1", 7));
			memstore_set(w->mem, ids[i], mosql_bytes("l", 1), mosql_bytes("0123456789abcdef", 16));
		}
	}
	return w;
}

/* Reserve for many new keys all over. */
static void
protocol_reserve(World *w, MosqlTree *tree)
{
	MosqlBytes *keys = palloc(w->nkeys * sizeof(MosqlBytes));
	int			n = 0;

	for (int k = 0; k < w->nkeys; k++)
		if (w->values[k] == 0)
			keys[n++] = w->keys[k];
	memstore_reserve(tree, keys, n, MOSQL_LEAF_MAX_BYTES / 5);
}

/* Reserve for a long run after the last key. */
static void
protocol_append(World *w, MosqlTree *tree)
{
	int			n = TINY ? 300 : 3000;
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));

	for (int i = 0; i < n; i++)
	{
		char	   *key = palloc(20);

		keys[i] = mosql_bytes(key, sprintf(key, "\xff\xff\xff\xff\xff\xff\xff\xff\xff%09d", i));
	}
	memstore_reserve(tree, keys, n, 20);
}

static void
protocol_split(World *w, MosqlTree *tree)
{
	MosqlBytes *keys = palloc(w->nkeys * sizeof(MosqlBytes));

	for (int k = 0; k < w->nkeys; k++)
		keys[k] = w->keys[k];
	memstore_reserve(tree, keys + w->nkeys / 4, w->nkeys / 2, MOSQL_LEAF_MAX_BYTES / 3);
	mosql_btree_split(tree, w->keys[w->nkeys / 2], rnd(w, 2));
}

/*
 * A load that dies leaves all rows of a batch or none, and a tree that is whole; the sweep
 * finds the rest.
 */
static void
test_crash_load(void)
{
	World	   *w = world_open(TINY ? 400 : 4000, true, 1);
	volatile int half = w->nkeys / 3;
	volatile bool crashed = true;

	load_keys(w, w->trees[0], 0, half, w->nkeys);
	for (volatile int after = 0; after < 2; after++)
		for (volatile int64 at = 1; crashed || at == 1; at += 1 + (at > 20 ? rnd(w, TINY ? 5 : 10) : 0))
		{
			MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "crash", ALLOCSET_DEFAULT_SIZES);
			MemoryContext old = MemoryContextSwitchTo(cxt);
			World		c;
			MosqlTree  *tree;
			double		rows;

			world_copy(&c, w);
			tree = mosql_btree_open(c.store, ROOT, cxt);
			c.mem->crash_at = at;
			c.mem->crash_after = after;
			crashed = PGSTUB_RAISES(load_keys(&c, tree, half, c.nkeys - half, c.nkeys));
			MemoryContextSwitchTo(cxt);
			c.mem->crash_at = 0;
			mosql_btree_close(tree);
			check_tree(&c, c.trees[0]);
			CHECK_INT(check_errors, 0);
			rows = check_rows;
			CHECK(rows == half || rows == c.nkeys);
			for (int k = half; k < c.nkeys; k++)
				c.values[k] = rows == half ? 0 : k + 1;
			expect_rows(&c, c.trees[0]);
			sweep_all(&c, c.trees[0]);
			sweep_all(&c, c.trees[0]);
			if (rows == half)
				load_keys(&c, c.trees[1], half, c.nkeys - half, c.nkeys);
			expect_rows(&c, c.trees[1]);
			touch_all(&c, c.trees[1]);
			expect_sound(&c);
			expect_no_garbage(&c);
			mosql_btree_destroy(c.trees[1], NULL, NULL);
			CHECK_INT(c.mem->nnodes, 0);
			world_close(&c);
			MemoryContextSwitchTo(old);
			MemoryContextDelete(cxt);
			if (unit_failed > 20)
				return;
		}
	world_close(w);
}

/*
 * A load that does not hear of a step, and gives up: also if the step was made, the tree is whole.  What
 * is left over is the sweep's.
 */
static void
test_broken_load(void)
{
	World	   *w = world_open(TINY ? 400 : 4000, true, 1);
	volatile int half = w->nkeys / 3;
	volatile bool broke = true;

	load_keys(w, w->trees[0], 0, half, w->nkeys);
	for (volatile int made = 0; made < 2; made++)
		for (volatile int64 at = 1; broke || at == 1; at++)
		{
			MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "broken", ALLOCSET_DEFAULT_SIZES);
			MemoryContext old = MemoryContextSwitchTo(cxt);
			World		c;

			world_copy(&c, w);
			c.mem->crash_at = at;
			c.mem->crash_after = made;
			c.mem->crash_once = true;
			broke = PGSTUB_RAISES(load_keys(&c, c.trees[0], half, c.nkeys - half, c.nkeys));
			MemoryContextSwitchTo(cxt);
			c.mem->crash_at = 0;
			check_tree(&c, c.trees[1]);
			CHECK_INT(check_errors, 0);
			CHECK(check_rows == half || check_rows == c.nkeys);
			for (int k = half; k < c.nkeys; k++)
				c.values[k] = check_rows == half ? 0 : k + 1;
			sweep_all(&c, c.trees[1]);
			touch_all(&c, c.trees[1]);
			expect_sound(&c);
			mosql_btree_destroy(c.trees[1], NULL, NULL);
			CHECK_INT(c.mem->nnodes, 0);
			world_close(&c);
			MemoryContextSwitchTo(old);
			MemoryContextDelete(cxt);
			if (unit_failed > 20)
				return;
		}
	world_close(w);
}

/* Replies that get lost: what was not heard to be done is found to be. */
static void
test_lost_load(void)
{
	World	   *w = world_open(TINY ? 2000 : 20000, true, 2);

	w->mem->lost = 0.2;
	load_keys(w, w->trees[0], 0, w->nkeys, 1000);
	w->mem->lost = 0;
	expect_sound(w);
	expect_no_garbage(w);
	expect_rows(w, w->trees[1]);
	world_close(w);
}

/*
 * Lose the reply of each step in turn, and let somebody else finish the work
 * and build on it before the step is sent again.
 */
typedef struct Rival
{
	World	   *w;
	Protocol	protocol;
	bool		busy;
} Rival;

static void
rival_works(void *arg)
{
	Rival	   *rival = arg;
	World	   *w = rival->w;

	if (rival->busy || w->mem->lose_at == 0 || w->mem->steps < w->mem->lose_at)
		return;
	rival->busy = true;
	touch_all(w, w->trees[0]);
	if (rnd(w, 4))
		rival->protocol(w, w->trees[0]);
	if (rnd(w, 2))
		touch_all(w, w->trees[0]);
	w->mem->hook = NULL;
}

static void
lose_everywhere(World *w, Protocol protocol, Protocol rivals, int stride)
{
	for (int64 at = 1;; at += 1 + (at > 60 ? rnd(w, stride) : 0))
	{
		MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "lose", ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(cxt);
		World		c;
		Rival		rival = {&c, rivals, false};
		int			failed = unit_failed;

		world_copy(&c, w);
		c.mem->lose_at = at;
		c.mem->hook = rival_works;
		c.mem->hook_arg = &rival;
		protocol(&c, c.trees[1]);
		c.mem->hook = NULL;
		c.mem->lose_at = 0;
		expect_rows(&c, c.trees[at % 2]);
		touch_all(&c, c.trees[0]);
		touch_all(&c, c.trees[0]);
		sweep_all(&c, c.trees[0]);
		expect_sound_tree(&c, true);
		expect_no_garbage(&c);
		memstore_close(c.mem);
		if (unit_failed > failed)
			printf("#   lost reply of step %lld\n", (long long) at);
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
		if (!rival.busy || unit_failed > 20)
			break;
	}
}

/* The same run of new keys, but with other sizes: other bounds. */
static void
protocol_append_differently(World *w, MosqlTree *tree)
{
	int			n = 40 + rnd(w, 200);
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));

	for (int i = 0; i < n; i++)
	{
		char	   *key = palloc(20);

		keys[i] = mosql_bytes(key, sprintf(key, "\xff\xff\xff\xff\xff\xff\xff\xff\xff%09d", i));
	}
	memstore_reserve(tree, keys, n, MOSQL_LEAF_MAX_BYTES / 2);
}

static void
test_lost_and_overtaken(void)
{
	World	   *w = crash_world(TINY ? 60 : 300);

	for (int i = 0; i < scaled(3); i++)
		lose_everywhere(w, protocol_append, protocol_append_differently, 10);
	lose_everywhere(w, protocol_reserve, protocol_split, 20);
	lose_everywhere(w, protocol_split, protocol_reserve, 20);
	world_close(w);
}

/* ---- several trees ---- */

#define SEVERAL	3

/* Three trees of one store that hold the same: every other key. */
static World *
several_world(int nkeys)
{
	World	   *w = world_open(nkeys, true, 1);
	int			n = w->nkeys / 2;
	int		   *index = palloc(n * sizeof(int));
	uint32	   *values = palloc(n * sizeof(uint32));
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));

	for (int i = 0; i < n; i++)
	{
		index[i] = 2 * i;
		keys[i] = w->keys[2 * i];
		values[i] = i + 1;
	}
	for (w->ntrees = 1; w->ntrees < SEVERAL; w->ntrees++)
	{
		uint64		root = w->store->new_id(w->store, false);

		CHECK(mosql_btree_create(w->store, root, false));
		w->trees[w->ntrees] = mosql_btree_open(w->store, root, CurrentMemoryContext);
	}
	for (int t = 0; t < SEVERAL; t++)
	{
		memstore_reserve(w->trees[t], keys, n, 20);
		write_keys(w, w->trees[t], index, values, n, 0);
	}
	return w;
}

/* A tree of its own, which is to be together. */
static World *
together_world(int nkeys)
{
	World	   *w = world_open(nkeys, true, 1);
	uint64		root = w->store->new_id(w->store, false);

	CHECK(mosql_btree_create(w->store, root, true));
	w->trees[0] = mosql_btree_open(w->store, root, CurrentMemoryContext);
	mosql_btree_set_together(w->trees[0], true);
	return w;
}

/* So many leaves of a tree, those with the lowest keys, are together (memstore.c), and no others. */
static void
expect_together(World *w, int wanted)
{
	uint64	   *ids;
	int			n = mosql_btree_leaf_ids(w->trees[0], &ids);

	CHECK(n > 2 * MOSQL_TOGETHER_MAX_LEAVES);
	for (int i = 0; i < n; i++)
		CHECK_INT(ids[i] % 2 == 0, i < wanted);
}

/* The first leaves of a tree are together, however they come about. */
static void
test_together(void)
{
	World	   *w;

	for (volatile int batch = 2 * MOSQL_LEAF_MAX_ROWS; batch < 40 * MOSQL_LEAF_MAX_ROWS; batch *= 6)
	{
		w = together_world(30 * MOSQL_LEAF_MAX_ROWS);
		load_keys(w, w->trees[0], 0, w->nkeys, batch);
		expect_together(w, MOSQL_TOGETHER_MAX_LEAVES);
		expect_rows(w, w->trees[0]);
		world_close(w);

		w = together_world(30 * MOSQL_LEAF_MAX_ROWS);
		for (int k = 0; k < w->nkeys; k += batch)
			memstore_reserve(w->trees[0], &w->keys[k], Min(batch, w->nkeys - k), 20);
		expect_together(w, MOSQL_TOGETHER_MAX_LEAVES);
		world_close(w);
	}
	w = together_world(30 * MOSQL_LEAF_MAX_ROWS);
	mosql_btree_set_together(w->trees[0], false);	/* but its first leaf is */
	load_keys(w, w->trees[0], 0, w->nkeys, w->nkeys);
	expect_together(w, 1);
	world_close(w);
}

/* The same store, seen by somebody who knows nothing yet. */
static void
several_reopen(World *c, const World *w)
{
	*c = *w;
	for (int t = 0; t < SEVERAL; t++)
		c->trees[t] = mosql_btree_open(c->store, mosql_btree_root(w->trees[t]), CurrentMemoryContext);
}

/* Room for the other keys, a stretch of them, in some of the trees. */
static void
several_reserve(World *w, int first, int ntrees)
{
	MosqlTreeKeys wanted[SEVERAL];
	MosqlBytes *keys = palloc(w->nkeys * sizeof(MosqlBytes));
	int			n = 0;

	for (int k = 1; k < w->nkeys; k += 2)
		keys[n++] = w->keys[k];
	for (int t = first; t < first + ntrees; t++)
		wanted[t - first] = (MosqlTreeKeys) {w->trees[t], keys, n, 20, MOSQL_KEY_FIELD};
	mosql_btree_reserve(wanted, ntrees);
}

static void
several_expect(World *w)
{
	for (int t = 0; t < SEVERAL; t++)
	{
		expect_rows(w, w->trees[t]);
		touch_all(w, w->trees[t]);
		touch_all(w, w->trees[t]);
		check_tree(w, w->trees[t]);
		if (check_errors + check_warnings > 0)
			printf("#   %s\n", check_text);
		CHECK_INT(check_errors, 0);
		CHECK_INT(check_warnings, 0);
	}
}

/* Leaves of several trees are split in as many round trips as those of one. */
static void
test_several_trees(void)
{
	World	   *w = several_world(TINY ? 60 : 2000);
	int64		before = w->mem->round_trips;
	int64		alone;
	int64		start = mosql_stats.splits;
	int64		splits;

	several_reserve(w, 0, 1);
	alone = w->mem->round_trips - before;
	if (!TINY)
		CHECK_INT(alone, 9);	/* 8 where a leaf is cut in two */
	splits = mosql_stats.splits - start;
	CHECK(splits > 0);
	before = w->mem->round_trips;
	several_reserve(w, 1, 2);
	CHECK_INT(w->mem->round_trips - before, alone);
	CHECK_INT(mosql_stats.splits - start, 3 * splits);
	before = w->mem->round_trips;
	several_reserve(w, 0, SEVERAL);
	CHECK_INT(w->mem->round_trips - before, 0);
	several_expect(w);
	world_close(w);
}

/* Somebody else makes room in the same trees, before any of the round trips. */
static void
several_rival(void *arg)
{
	Rival	   *rival = arg;
	World		other;

	if (rival->busy || --rival->w->depth > 0)
		return;
	rival->busy = true;
	several_reopen(&other, rival->w);
	several_reserve(&other, 0, SEVERAL);
}

/* It dies before and after each step, its replies get lost, it is overtaken: no tree is the worse for the others. */
static void
test_several_faults(void)
{
	World	   *w = several_world(TINY ? 60 : 600);
	volatile bool met = true;

	for (volatile int fault = 0; fault < 4; fault++)
		for (volatile int64 at = 1; met || at == 1; at++)
		{
			MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "several", ALLOCSET_DEFAULT_SIZES);
			MemoryContext old = MemoryContextSwitchTo(cxt);
			MemStore   *mem = memstore_copy(w->mem);
			World		c = *w;
			Rival		rival = {&c, NULL, false};

			c.mem = mem;
			c.store = &mem->store;
			several_reopen(&c, &c);
			c.depth = at;
			mem->hook_arg = &rival;
			mem->hook = fault == 3 ? several_rival : NULL;
			mem->crash_at = fault < 2 ? at : 0;
			mem->crash_after = fault == 1;
			mem->lose_at = fault == 2 ? at : 0;
			met = PGSTUB_RAISES(several_reserve(&c, 0, SEVERAL));
			MemoryContextSwitchTo(cxt);
			met = met || rival.busy || (fault == 2 && mem->steps >= at);
			mem->hook = NULL;
			mem->crash_at = mem->lose_at = 0;
			several_reopen(&c, &c);
			several_expect(&c);
			memstore_close(mem);
			MemoryContextSwitchTo(old);
			MemoryContextDelete(cxt);
			if (unit_failed > 20)
				return;
		}
	world_close(w);
}

static void
test_crash_reserve(void)
{
	World	   *w = crash_world(TINY ? 120 : 1000);

	crash_everywhere(w, protocol_reserve, TINY ? 20 : 60);
	world_close(w);
}

static void
test_crash_append(void)
{
	World	   *w = crash_world(TINY ? 60 : 600);

	crash_everywhere(w, protocol_append, 10);
	world_close(w);
}

static void
test_crash_split(void)
{
	World	   *w = crash_world(TINY ? 60 : 600);

	crash_everywhere(w, protocol_split, 20);
	world_close(w);
}

/* Keys that the load has locked before it makes room are no neighbours of it: it is dense. */
static void
test_locked_load(void)
{
	for (int between = 0; between < 2; between++)
	{
		World	   *w = world_open(5 * MOSQL_LEAF_MAX_ROWS, true, 1);
		MosqlTree  *tree = w->trees[0];
		int			last = w->nkeys - 1;
		int			n = w->nkeys - between;
		uint32		value = 1;
		int		   *index = palloc(n * sizeof(int));
		uint32	   *values = palloc(n * sizeof(uint32));
		uint64		leaf = mosql_btree_read_leaf(tree, w->keys[0])->node;

		if (between)
			write_keys(w, tree, &last, &value, 1, 0);
		for (int k = 0; k < n; k++)
		{
			memstore_set(w->mem, leaf, field_of('i', w->keys[k]), mosql_bytes("lock", 4));
			index[k] = k;
			values[k] = k + 1;
		}
		(void) mosql_btree_read_leaf(tree, w->keys[0]);
		memstore_reserve(tree, w->keys, n, 20);
		write_keys(w, tree, index, values, n, 0);
		expect_sound(w);
		CHECK_INT(check_leaves, loaded_leaves(n) + between);
		world_close(w);
	}
}

/* What a split copies: intents, both marks, the purge mark. */
static void
test_split_copies(void)
{
	World	   *w = world_open(50, true, 1);
	MosqlTree  *tree = w->trees[0];
	MosqlLeaf  *leaf = mosql_btree_read_leaf(tree, w->keys[0]);
	uint64		id = leaf->node;

	for (int k = 0; k < w->nkeys; k++)
	{
		memstore_set(w->mem, id, field_of('i', w->keys[k]), mosql_bytes("intent", 6));
		if (k % 2)
			memstore_set(w->mem, id, field_of('k', w->keys[k]), mosql_bytes("0123456789abcdef", 16));
		if (k % 3)
			memstore_set(w->mem, id, field_of('r', w->keys[k]), mosql_bytes("row", 3));
	}
	memstore_set(w->mem, id, mosql_bytes("p", 1), mosql_bytes("\0\0\0\0\0\1\2", 7));
	memstore_set(w->mem, id, mosql_bytes("l", 1), mosql_bytes("fedcba9876543210", 16));
	{
		MosqlBytes *keys = palloc(400 * sizeof(MosqlBytes));

		/* not many, but said to be long */
		for (int k = 0; k < w->nkeys; k++)
			keys[k] = w->keys[k];
		memstore_reserve(tree, keys + 10, 30, MOSQL_LEAF_MAX_BYTES / 10);
		mosql_btree_split(tree, keys[20], false);
	}
	for (int k = 0; k < w->nkeys; k++)
	{
		MosqlEntry *entry = NULL;

		leaf = mosql_btree_read_leaf(tree, w->keys[k]);
		for (int i = 0; i < leaf->n; i++)
			if (mosql_bytes_equal(leaf->entries[i].key, w->keys[k]))
				entry = &leaf->entries[i];
		CHECK(entry != NULL);
		if (entry == NULL)
			continue;
		CHECK(entry->intent.len == 6);
		CHECK((entry->marks.len == 16) == (k % 2 != 0));
		CHECK((entry->row.len == 3) == (k % 3 != 0));
		CHECK_INT(leaf->purged, 0x102);
		CHECK(leaf->range_marks.len == 16 && leaf->range_marks.data[0] == 'f');
	}
	for (int k = 0; k < w->nkeys; k++)
		w->values[k] = k % 3;
	check_tree(w, tree);
	CHECK_INT(check_errors + check_warnings, 0);
	if (TINY)
		CHECK(check_leaves > 3);
	world_close(w);
}

/* --- dead and dying nodes, as maintenance leaves them --- */

static void
set_meta(World *w, uint64 id, const MosqlNodeMeta *meta)
{
	StringInfoData buf;

	initStringInfo(&buf);
	mosql_meta_encode(&buf, meta);
	memstore_set(w->mem, id, mosql_bytes("m", 1), mosql_bytes_of(&buf));
}

static void
merged_away(int stage)
{
	World	   *w = world_open(1000, true, 2);
	MosqlTree  *tree = w->trees[0];
	MosqlTree  *other = w->trees[1];
	uint64	   *ids;
	MosqlLeaf  *leaves;
	MosqlNodeMeta left;
	MosqlNodeMeta right;
	MosqlLeafGroup *groups;
	MosqlPoint	point;
	int			n;
	int			k = -1;

	for (int i = 0; i < w->nkeys; i++)
	{
		uint32		value = i + 1;

		memstore_reserve(tree, &w->keys[i], 1, 20);
		write_keys(w, tree, &i, &value, 1, 0);
	}
	expect_rows(w, other);		/* warm caches */
	mosql_btree_group(other, w->keys, w->nkeys, 0, &groups);
	n = mosql_btree_leaf_ids(tree, &ids);
	CHECK(n > 3);
	mosql_btree_read_leaves(tree, ids, n, &leaves);
	left = leaves[1].meta;
	right = leaves[2].meta;

	/* empty the right one, as nobody else would do it */
	for (int i = 0; i < w->nkeys; i++)
		if (mosql_meta_cover(&right, w->keys[i]) == MOSQL_COVER_OK)
		{
			memstore_set(w->mem, ids[2], field_of('r', w->keys[i]), MOSQL_ABSENT);
			w->values[i] = 0;
			k = i;
		}
	right.state = MOSQL_NODE_DYING;
	right.generation++;
	set_meta(w, ids[2], &right);
	check_tree(w, tree);
	CHECK_INT(check_errors, 0);
	CHECK_INT(check_warnings, 1);
	switch (stage)
	{
		case 2:
			left.high = right.high;
			left.right = right.right;
			left.generation++;
			set_meta(w, ids[1], &left);
			right.state = MOSQL_NODE_DEAD;
			right.other = ids[1];
			right.generation++;
			set_meta(w, ids[2], &right);
			break;
		case 1:
			left.high = right.high;
			left.right = right.right;
			left.generation++;
			set_meta(w, ids[1], &left);
			break;
	}
	check_tree(w, tree);
	CHECK_INT(check_errors, 0);
	CHECK_INT(check_warnings, 1);

	mosql_btree_get(other, &w->keys[k], 1, &point);
	CHECK(point.row.data == NULL && point.leaf == ids[1]);
	expect_rows(w, other);
	expect_rows(w, tree);
	CHECK_INT(mosql_btree_group(other, &w->keys[k], 1, 0, &groups), 1);
	CHECK_INT(groups[0].leaf, ids[1]);
	{
		uint32		value = 77;

		write_keys(w, tree, &k, &value, 1, 0);
	}
	expect_rows(w, other);
	check_tree(w, tree);
	CHECK_INT(check_errors, 0);
	CHECK_INT(check_warnings, stage == 2);	/* the helper has unlinked it as well */
	sweep_all(w, tree);
	expect_sound(w);
	expect_no_garbage(w);
	expect_rows(w, other);
	world_close(w);
}

static void
test_merged_away(void)
{
	for (int stage = 0; stage < 3; stage++)
		merged_away(stage);
}

/*
 * A run of leaves was absorbed, and whoever did it died when some of them (bits of
 * `dead`) had been marked dead: in any order, since that is one round trip.
 */
static void
run_absorbed(int dead)
{
	World	   *w = world_open(1000, true, 2);
	int			order[] = {4, 2, 3};
	uint64	   *ids;
	MosqlLeaf  *leaves;
	MosqlNodeMeta left;
	int			n;

	for (int i = 0; i < w->nkeys; i++)
	{
		uint32		value = i + 1;

		memstore_reserve(w->trees[0], &w->keys[i], 1, 20);
		write_keys(w, w->trees[0], &i, &value, 1, 0);
	}
	expect_rows(w, w->trees[1]);	/* warm cache */
	n = mosql_btree_leaf_ids(w->trees[0], &ids);
	CHECK(n > 5);
	mosql_btree_read_leaves(w->trees[0], ids, n, &leaves);
	left = leaves[1].meta;
	left.high = leaves[4].meta.high;
	left.right = leaves[4].meta.right;
	left.generation++;
	set_meta(w, ids[1], &left);
	for (int r = 2; r <= 4; r++)
	{
		MosqlNodeMeta meta = leaves[r].meta;

		for (int i = 0; i < w->nkeys; i++)
			if (mosql_meta_cover(&meta, w->keys[i]) == MOSQL_COVER_OK)
			{
				memstore_set(w->mem, ids[r], field_of('r', w->keys[i]), MOSQL_ABSENT);
				w->values[i] = 0;
			}
		meta.state = dead & 1 << (r - 2) ? MOSQL_NODE_DEAD : MOSQL_NODE_DYING;
		meta.other = meta.state == MOSQL_NODE_DEAD ? ids[1] : 0;
		meta.generation += meta.state == MOSQL_NODE_DEAD ? 2 : 1;
		set_meta(w, ids[r], &meta);
	}
	check_tree(w, w->trees[0]);
	CHECK_INT(check_errors, 0);
	for (int i = 0; i < 3; i++)
	{
		MosqlPoint	point;

		mosql_btree_get(w->trees[1], &leaves[order[i]].meta.low, 1, &point);
		CHECK(point.row.data == NULL && point.leaf == ids[1]);
	}
	expect_rows(w, w->trees[1]);
	expect_rows(w, w->trees[0]);
	sweep_all(w, w->trees[0]);
	expect_sound(w);
	expect_no_garbage(w);
	world_close(w);
}

static void
test_run_absorbed(void)
{
	for (int dead = 0; dead < 8; dead++)
		run_absorbed(dead);
}

/* Everybody who comes after a merge that died between any two steps. */
static void
protocol_merge(World *w, MosqlTree *tree)
{
	merge_from(w, tree, MOSQL_ABSENT, 0);
}

/* Many empty leaves, side by side and apart, in a tree of several levels. */
static World *
emptied_world(int nkeys)
{
	World	   *w = crash_world(nkeys);
	uint64	   *ids;
	int			n = memstore_ids(w->mem, &ids);

	for (int i = 0; i < n; i++)
		memstore_set(w->mem, ids[i], mosql_bytes("l", 1), MOSQL_ABSENT);
	for (int k = 0; k < w->nkeys; k++)
		if (w->values[k] != 0 && k % (w->nkeys / 4) < w->nkeys / 6)
		{
			uint32		none = 0;

			write_keys(w, w->trees[0], &k, &none, 1, 0);
		}
	return w;
}

static void
test_crash_merge(void)
{
	World	   *w = emptied_world(TINY ? 300 : 3000);

	crash_everywhere(w, protocol_merge, 10);
	world_close(w);
}

/* Rivals split and fill what is being merged. */
static void
protocol_fill(World *w, MosqlTree *tree)
{
	MosqlBytes *keys = palloc(w->nkeys * sizeof(MosqlBytes));

	for (int k = 0; k < w->nkeys; k++)
		keys[k] = w->keys[k];
	memstore_reserve(tree, keys, w->nkeys, MOSQL_LEAF_MAX_BYTES / 5);
	for (int i = 0; i < 20; i++)
	{
		int			k = rnd(w, w->nkeys);
		uint32		value = ++w->last_value;

		write_keys(w, tree, &k, &value, 1, 0);
	}
}

static void
test_merge_overtaken(void)
{
	World	   *w = emptied_world(TINY ? 200 : 1500);

	lose_everywhere(w, protocol_merge, protocol_merge, 10);
	lose_everywhere(w, protocol_merge, protocol_fill, 10);
	lose_everywhere(w, protocol_fill, protocol_merge, 30);
	lose_everywhere(w, protocol_append, protocol_merge, 10);
	world_close(w);
}

/*
 * A queue: insert right, delete left, for ever.  With maintenance now and then the
 * tree stays as small as what is in it.
 */
static void
test_queue(void)
{
	int			width = TINY ? 40 : 500;
	World	   *w = world_open(width * 60, true, 2);
	int			most = 0;

	for (int from = 0; from + 2 * width <= w->nkeys; from += width)
	{
		MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "round", ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(cxt);
		int		   *index = palloc(width * sizeof(int));
		uint32	   *values = palloc0(width * sizeof(uint32));

		for (int i = 0; i < width; i++)
			index[i] = from + i;
		write_keys(w, w->trees[0], index, values, width, 0);
		for (int i = 0; i < width; i++)
		{
			index[i] = from + width + i;
			values[i] = index[i] + 1;
		}
		memstore_reserve(w->trees[0], w->keys + from + width, width, 20);
		write_keys(w, w->trees[0], index, values, width, 0);
		merge_from(w, w->trees[1], MOSQL_ABSENT, 0);
		sweep_all(w, w->trees[1]);
		dumped = 0;
		mosql_btree_dump(w->trees[1], count_node, NULL);
		most = Max(most, dumped);
		CHECK_INT(w->mem->nnodes, dumped);
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
	}
	expect_sound(w);
	expect_rows(w, w->trees[0]);

	/* the leaves that are full, some empty ones, and half as many inner nodes */
	if (!CHECK(most <= 3 * (width / MOSQL_LEAF_MAX_ROWS + 1) + 4 * MOSQL_TREE_MAX_LEVEL))
		printf("#   up to %d nodes\n", most);
	world_close(w);
}

/*
 * A splitter sleeps before it creates, links or cuts; meanwhile all that it was at
 * is finished, emptied, merged away and deleted.
 */
typedef struct Sleeper
{
	World	   *w;
	int64		at;				/* the round trip before which it falls asleep */
	int64		seen;
	bool		knows;			/* that it has slept for long */
	bool		slept;
} Sleeper;

static void
oversleep(void *arg)
{
	Sleeper    *sleeper = arg;
	World	   *w = sleeper->w;
	int			n = 0;
	int		   *index;
	uint32	   *none;
	uint64		incarnation = w->mem->incarnation;

	if (sleeper->slept || ++sleeper->seen < sleeper->at)
		return;
	sleeper->slept = true;
	w->mem->hook = NULL;
	touch_all(w, w->trees[0]);
	touch_all(w, w->trees[0]);
	index = palloc(w->nkeys * sizeof(int));
	none = palloc0(w->nkeys * sizeof(uint32));
	for (int k = 0; k < w->nkeys; k++)
		index[n++] = k;
	write_keys(w, w->trees[0], index, none, n, 0);
	for (int pass = 0; pass < 6; pass++)
	{
		merge_from(w, w->trees[0], MOSQL_ABSENT, 0);
		sweep_all(w, w->trees[0]);
	}
	if (!sleeper->knows)
		w->mem->incarnation = incarnation;
}

static void
test_late_splitter(void)
{
	World	   *w = crash_world(TINY ? 120 : 600);
	uint64	   *ids;
	int			n = memstore_ids(w->mem, &ids);

	for (int i = 0; i < n; i++)
		memstore_set(w->mem, ids[i], mosql_bytes("l", 1), MOSQL_ABSENT);
	for (int knows = 0; knows < 2; knows++)
		for (int64 at = 1;; at++)
		{
			MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "late", ALLOCSET_DEFAULT_SIZES);
			MemoryContext old = MemoryContextSwitchTo(cxt);
			World		c;
			Sleeper		sleeper = {.w = &c, .at = at, .knows = knows};
			int			failed = unit_failed;

			world_copy(&c, w);
			c.mem->hook = oversleep;
			c.mem->hook_arg = &sleeper;
			protocol_reserve(&c, c.trees[1]);
			c.mem->hook = NULL;
			expect_rows(&c, c.trees[0]);
			expect_rows(&c, c.trees[1]);
			touch_all(&c, c.trees[0]);
			touch_all(&c, c.trees[0]);
			sweep_all(&c, c.trees[0]);
			expect_sound(&c);
			expect_no_garbage(&c);
			protocol_fill(&c, c.trees[1]);
			expect_rows(&c, c.trees[0]);
			expect_sound(&c);
			memstore_close(c.mem);
			if (unit_failed > failed)
				printf("#   fell asleep before round trip %lld, %s\n", (long long) at,
					   knows ? "and knows it" : "without knowing");
			MemoryContextSwitchTo(old);
			MemoryContextDelete(cxt);
			if (!sleeper.slept || unit_failed > 20)
				break;
		}
	world_close(w);
}

/* Low fences of the parents of leaves. */
static void
add_parents(void *arg, uint64 node, const MosqlNodeMeta *meta, int nentries, int nintents, size_t bytes)
{
	Fences	   *fences = arg;

	if (meta->level != 1)
		return;
	fences->keys = repalloc(fences->keys, (fences->n + 1) * sizeof(MosqlBytes));
	fences->keys[fences->n++] = mosql_bytes_copy(GetMemoryChunkContext(fences->keys), meta->low);
}

/* A separator of a node that does not exist is passed, and taken out. */
static void
test_dangling(void)
{
	World	   *w = world_open(1000, true, 2);
	Fences		parents = {palloc(sizeof(MosqlBytes)), 0};
	uint64	   *ids;
	MosqlLeaf  *leaves;
	MosqlNodeMeta left;
	int			n;
	int			at;

	for (int i = 0; i < w->nkeys; i++)
	{
		uint32		value = i + 1;

		memstore_reserve(w->trees[0], &w->keys[i], 1, 20);
		write_keys(w, w->trees[0], &i, &value, 1, 0);
	}
	n = mosql_btree_leaf_ids(w->trees[0], &ids);
	mosql_btree_read_leaves(w->trees[0], ids, n, &leaves);
	mosql_btree_dump(w->trees[0], add_parents, &parents);
	for (at = n / 2;; at++)
	{
		bool		first = false;

		for (int i = 0; i < parents.n; i++)
			first |= mosql_bytes_equal(parents.keys[i], leaves[at].meta.low);
		if (!first)
			break;
	}
	left = leaves[at - 1].meta;
	for (int i = 0; i < w->nkeys; i++)
		if (mosql_meta_cover(&leaves[at].meta, w->keys[i]) == MOSQL_COVER_OK)
			w->values[i] = 0;
	left.high = leaves[at].meta.high;
	left.right = leaves[at].meta.right;
	left.generation++;
	set_meta(w, ids[at - 1], &left);
	w->store->delete_nodes(w->store, &ids[at], 1);
	check_tree(w, w->trees[1]);
	CHECK(check_errors > 0);
	expect_rows(w, w->trees[1]);
	expect_rows(w, w->trees[0]);
	expect_sound(w);

	/* but a node that its left sibling leads to is lost */
	n = mosql_btree_leaf_ids(w->trees[0], &ids);
	w->store->delete_nodes(w->store, &ids[n - 2], 1);
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, expect_rows(w, w->trees[1]));
	world_close(w);
}

/*
 * A world with a row for every key; returns the index of a leaf (of those that ids and
 * leaves get) that is the first child of its parent, which is not the first parent.
 */
static World *
loaded_world(uint64 **ids, MosqlLeaf **leaves, int *first)
{
	World	   *w = world_open(2 * MOSQL_INNER_MAX_CHILDREN * MOSQL_LEAF_MAX_ROWS, true, 2);
	int		   *index = palloc(w->nkeys * sizeof(int));
	uint32	   *values = palloc(w->nkeys * sizeof(uint32));
	Fences		parents = {palloc(sizeof(MosqlBytes)), 0};
	int			n;

	for (int k = 0; k < w->nkeys; k++)
	{
		index[k] = k;
		values[k] = k + 1;
	}
	memstore_reserve(w->trees[0], w->keys, w->nkeys, 20);
	write_keys(w, w->trees[0], index, values, w->nkeys, 0);
	n = mosql_btree_leaf_ids(w->trees[0], ids);
	mosql_btree_read_leaves(w->trees[0], *ids, n, leaves);
	mosql_btree_dump(w->trees[0], add_parents, &parents);
	*first = 0;
	for (int i = 1; i + 1 < n && *first == 0; i++)
		for (int p = 0; p < parents.n; p++)
			if (mosql_bytes_equal(parents.keys[p], (*leaves)[i].meta.low))
				*first = i;
	CHECK(*first > 0);
	return w;
}

/*
 * A parent split when its leaf R was being merged away, so that R is the first child of
 * the new one: it stays linked, and harmless, until the parents are merged.
 */
static void
test_first_and_dead(void)
{
	uint64	   *ids;
	MosqlLeaf  *leaves;
	int			r;
	World	   *w = loaded_world(&ids, &leaves, &r);
	MosqlNodeMeta left = leaves[r - 1].meta;
	MosqlNodeMeta dead = leaves[r].meta;
	int		   *index = palloc(w->nkeys * sizeof(int));
	uint32	   *none = palloc0(w->nkeys * sizeof(uint32));
	MosqlPoint	point;
	int			k = -1;

	expect_rows(w, w->trees[1]);	/* warm cache */
	for (int i = 0; i < w->nkeys; i++)
	{
		index[i] = i;
		if (mosql_meta_cover(&dead, w->keys[i]) != MOSQL_COVER_OK)
			continue;
		memstore_set(w->mem, ids[r], field_of('r', w->keys[i]), MOSQL_ABSENT);
		w->values[i] = 0;
		k = i;
	}
	left.high = dead.high;
	left.right = dead.right;
	left.generation++;
	set_meta(w, ids[r - 1], &left);
	dead.state = MOSQL_NODE_DEAD;
	dead.other = ids[r - 1];
	dead.generation += 2;
	set_meta(w, ids[r], &dead);

	for (int round = 0; round < 2; round++)
	{
		mosql_btree_get(w->trees[1], &w->keys[k], 1, &point);
		CHECK(point.row.data == NULL && point.leaf == ids[r - 1]);
		expect_rows(w, w->trees[0]);
		expect_sound_tree(w, true);
		CHECK_INT(check_firsts, 1);
		sweep_all(w, w->trees[0]);
		CHECK(memstore_image(w->mem, ids[r], &(MosqlNodeImage) {0}));
	}
	write_keys(w, w->trees[1], &k, &(uint32) {77}, 1, 0);
	expect_rows(w, w->trees[0]);

	write_keys(w, w->trees[0], index, none, w->nkeys, 0);
	for (int pass = 0; pass < 6; pass++)
	{
		merge_from(w, w->trees[0], MOSQL_ABSENT, 0);
		sweep_all(w, w->trees[0]);
	}
	CHECK(!memstore_image(w->mem, ids[r], &(MosqlNodeImage) {0}));
	expect_rows(w, w->trees[1]);
	expect_sound(w);
	expect_no_garbage(w);
	world_close(w);
}

/*
 * The ruins of splits that died before they linked anything: more leaves side by side
 * than a search that gets nowhere would pass.
 */
static void
test_ruins(void)
{
	int			nleaves = 2 * BTREE_MAX_RESTARTS * BTREE_LINK_HOPS;
	World	   *w = world_open(nleaves, true, 2);
	uint64	   *ids;
	MosqlLeaf  *leaf;
	MosqlNodeMeta meta;
	MosqlPoint	point;

	CHECK_INT(mosql_btree_leaf_ids(w->trees[0], &ids), 1);
	mosql_btree_read_leaves(w->trees[0], ids, 1, &leaf);
	meta = leaf->meta;
	for (int i = 0; i < nleaves; i++)
	{
		uint64		id = i == 0 ? ids[0] : 100000 + i;

		meta.low = i == 0 ? mosql_bytes("", 0) : w->keys[i];
		meta.high = i + 1 < nleaves ? w->keys[i + 1] : MOSQL_ABSENT;
		meta.right = i + 1 < nleaves ? 100001 + i : 0;
		set_meta(w, id, &meta);
	}
	mosql_btree_get(w->trees[1], &w->keys[nleaves - 1], 1, &point);
	CHECK_INT(point.leaf, 100000 + nleaves - 1);
	touch_all(w, w->trees[0]);
	expect_rows(w, w->trees[1]);
	expect_sound(w);
	world_close(w);
}

/*
 * A root that came late: as it was created, its leaf gone, and no definition names it.  Who still looks for
 * that tree is told that it is gone; with a label it is damaged.
 */
static void
test_late_root(void)
{
	World	   *w = world_open(10, false, 1);
	MemoryContext caller = CurrentMemoryContext;
	const volatile uint64 root = UINT64CONST(5) << MOSQL_ID_COUNTER_BITS | 1;
	MosqlPoint	point;

	CHECK(mosql_btree_create(w->store, root, false));
	w->store->delete_nodes(w->store, &w->mem->next_id, 1);
	for (volatile int named = 0; named < 2; named++)
	{
		MosqlTree  *tree = mosql_btree_open(w->store, root, caller);
		const volatile int state = named ? ERRCODE_DATA_CORRUPTED : ERRCODE_UNDEFINED_TABLE;

		if (named)
			memstore_set(w->mem, root, mosql_bytes("d", 1), mosql_bytes("label", 5));
		CHECK(PGSTUB_RAISES(mosql_btree_get(tree, w->keys, 1, &point)));
		MemoryContextSwitchTo(caller);
		CHECK_INT(pgstub_error.sqlstate, state);
		mosql_btree_close(tree);
	}
	world_close(w);
}

/* --- damaged bytes --- */

/* Ends what would go on for ever. */
static void
count_down(void *arg)
{
	int		   *left = arg;

	if (--*left <= 0)
		ereport(ERROR, (errcode(MEMSTORE_CRASH), errmsg("too many round trips")));
}

/*
 * A dead leaf Z, second child of a parent, has the low fence of the first, Y.  What lies
 * left of it leads to Y, and Y to Z; and as long as the parent, which is dropped from the
 * cache for its dead child, is not cached, Y might have to be linked.
 */
static void
test_circle(void)
{
	uint64	   *ids;
	MosqlLeaf  *leaves;
	int			y;
	World	   *w = loaded_world(&ids, &leaves, &y);
	MosqlNodeMeta meta;
	MosqlPoint	point;
	MosqlBytes	key;
	MemoryContext cxt = CurrentMemoryContext;
	int			left = 20000;

	meta = leaves[y + 1].meta;
	key = meta.low;
	meta.low = leaves[y].meta.low;
	meta.state = MOSQL_NODE_DEAD;
	meta.other = ids[y];
	meta.generation++;
	set_meta(w, ids[y + 1], &meta);
	w->mem->hook = count_down;
	w->mem->hook_arg = &left;
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_btree_get(w->trees[1], &key, 1, &point));
	MemoryContextSwitchTo(cxt);
	w->mem->hook = NULL;
	world_close(w);
}

/*
 * The same the other way: Z's low fence is to the right of the separator that leads to it,
 * so that what lies left of Z is Z.
 */
static void
test_dead_right(void)
{
	uint64	   *ids;
	MosqlLeaf  *leaves;
	int			y;
	World	   *w = loaded_world(&ids, &leaves, &y);
	MosqlNodeMeta meta = leaves[y + 1].meta;
	MosqlBytes	key = meta.low;
	MosqlPoint	point;
	MemoryContext cxt = CurrentMemoryContext;
	int			left = 1000;

	meta.low = leaves[y + 2].meta.low;
	meta.state = MOSQL_NODE_DEAD;
	meta.other = ids[y];
	meta.generation++;
	set_meta(w, ids[y + 1], &meta);
	w->mem->hook = count_down;
	w->mem->hook_arg = &left;
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_btree_get(w->trees[1], &key, 1, &point));
	MemoryContextSwitchTo(cxt);
	w->mem->hook = NULL;
	world_close(w);
}

/* All separators of a node lead to another one. */
static void
mislead(World *w, uint64 node, uint64 to)
{
	MosqlNodeImage image;
	MosqlChild *children;
	int			n;
	StringInfoData bytes;

	CHECK(memstore_image(w->mem, node, &image));
	CHECK(mosql_children_decode(mosql_btree_image_field(&image, MOSQL_FIELD_SEPARATORS), &children, &n));
	for (int i = 0; i < n; i++)
		children[i].node = to;
	initStringInfo(&bytes);
	mosql_children_encode(&bytes, children, n);
	memstore_set(w->mem, node, mosql_btree_separators_field(), mosql_bytes_of(&bytes));
}

/* A root that is its own child is not one that has grown. */
static void
test_own_child(void)
{
	uint64	   *ids;
	MosqlLeaf  *leaves;
	int			y;
	World	   *w = loaded_world(&ids, &leaves, &y);
	MemoryContext cxt = CurrentMemoryContext;

	mislead(w, ROOT, ROOT);
	mosql_btree_cache_drop(w->trees[1], ROOT);
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, expect_rows(w, w->trees[1]));
	MemoryContextSwitchTo(cxt);
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_btree_find_inner(w->trees[1], w->keys[0], false, 1, 0));
	MemoryContextSwitchTo(cxt);
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED,
				 mosql_btree_inner_insert(w->trees[1], 1, &(MosqlChild) {w->keys[5], 12345}, 1));
	MemoryContextSwitchTo(cxt);
	world_close(w);
}

/* A root that leads to the leaves itself, as before it grew. */
static void
lead_from_root(World *w, const uint64 *ids, const MosqlLeaf *leaves, int n)
{
	MosqlChild *children = palloc(n * sizeof(MosqlChild));
	MosqlNodeMeta meta = mosql_btree_find_root(w->trees[0])->meta;
	StringInfoData bytes;

	CHECK_INT(meta.level, 2);
	for (int i = 0; i < n; i++)
		children[i] = (MosqlChild) {leaves[i].meta.low, ids[i]};
	initStringInfo(&bytes);
	mosql_children_encode(&bytes, children, n);
	memstore_set(w->mem, ROOT, mosql_btree_separators_field(), mosql_bytes_of(&bytes));
	meta.level = 1;
	meta.generation--;
	set_meta(w, ROOT, &meta);
}

static void
forget_growth(World *w, const MosqlLeaf *leaves)
{
	uint64	   *ids;
	int			n = mosql_btree_leaf_ids(w->trees[0], &ids);

	lead_from_root(w, ids, leaves, n);
}

/*
 * The root has grown, somebody has read it, and a failover takes that back: who builds on its highest level is told
 * to try again, and that no data are damaged; then he knows better.
 */
static void
test_lost_growth(void)
{
	uint64	   *ids;
	MosqlLeaf  *leaves;
	int			y;
	World	   *w = loaded_world(&ids, &leaves, &y);
	MosqlTree  *tree = w->trees[1];
	MemoryContext cxt = CurrentMemoryContext;

	expect_rows(w, tree);
	forget_growth(w, leaves);
	CHECK_RAISES(ERRCODE_T_R_SERIALIZATION_FAILURE, (void) mosql_btree_merge_parents(tree, MOSQL_ABSENT));
	MemoryContextSwitchTo(cxt);
	CHECK_INT(mosql_btree_merge_parents(tree, MOSQL_ABSENT), 0);
	expect_rows(w, tree);
	world_close(w);
}

/* The same while an inner node, of that level, is being merged away: *id, as *meta says. */
static World *
lost_beside_dying(int level, uint64 *id, MosqlNodeMeta *meta)
{
	uint64	   *ids;
	MosqlLeaf  *leaves;
	int			y;
	World	   *w = loaded_world(&ids, &leaves, &y);
	CachedNode *node = mosql_btree_find_inner(w->trees[1], leaves[y].meta.low, false, 1, 0);

	*id = node->id;
	*meta = node->meta;
	meta->low = mosql_bytes_copy(CurrentMemoryContext, meta->low);
	meta->high = mosql_bytes_copy(CurrentMemoryContext, meta->high);
	meta->level = level;
	meta->state = MOSQL_NODE_DYING;
	meta->generation++;
	forget_growth(w, leaves);
	set_meta(w, *id, meta);
	mosql_btree_forget(w->trees[1]);
	return w;
}

/* It is part of no level then, and goes; further up than anybody gets nobody could finish that: it is of no use. */
static void
test_lost_growth_merge(void)
{
	MosqlNodeMeta meta;
	uint64		id;
	World	   *w = lost_beside_dying(1, &id, &meta);
	MosqlTree  *tree = w->trees[1];

	CHECK_INT(mosql_btree_examine(tree, id, &meta), MOSQL_NODE_USED);	/* it was: now it is dead */
	meta.state = MOSQL_NODE_DEAD;
	CHECK_INT(mosql_btree_examine(tree, id, &meta), MOSQL_NODE_UNLINKED);
	expect_rows(w, tree);
	world_close(w);
	w = lost_beside_dying(2, &id, &meta);
	CHECK_INT(mosql_btree_examine(w->trees[1], id, &meta), MOSQL_NODE_UNREACHABLE);
	expect_rows(w, w->trees[1]);
	world_close(w);
}

/* What a primary that is cut off has: its growth is gone when the root is asked for with its copies. */
typedef struct CutOff
{
	World	   *w;
	const uint64 *ids;
	const MosqlLeaf *leaves;
	int			n;
	bool		over;
	void		(*run_steps) (MosqlNodeStore *store, MosqlStep **steps, int n);
} CutOff;

static CutOff cut_off;

static void
run_steps_cut_off(MosqlNodeStore *store, MosqlStep **steps, int n)
{
	for (int i = 0; i < n; i++)
		if (steps[i]->node == ROOT && !cut_off.over)
		{
			cut_off.over = true;
			lead_from_root(cut_off.w, cut_off.ids, cut_off.leaves, cut_off.n);
		}
	cut_off.run_steps(store, steps, n);
}

/*
 * A signpost, and a root whose growth is on a primary that is cut off: it is taken out of what leads to it where that
 * has no growth, before it counts as unlinked.
 */
static void
test_lost_growth_unlink(void)
{
	uint64	   *ids;
	MosqlLeaf  *leaves;
	int			y;
	World	   *w = loaded_world(&ids, &leaves, &y);
	int			n = mosql_btree_leaf_ids(w->trees[0], &ids);
	int			r = y + 1;
	MosqlNodeMeta meta = leaves[r].meta;
	uint64		dead;

	for (int k = 0; k < w->nkeys; k++)
		if (mosql_meta_cover(&meta, w->keys[k]) == MOSQL_COVER_OK)
			w->values[k] = 0;
	leaves[y].meta.high = meta.high;
	leaves[y].meta.right = meta.right;
	leaves[y].meta.generation++;
	set_meta(w, ids[y], &leaves[y].meta);
	meta.state = MOSQL_NODE_DEAD;
	meta.other = ids[y];
	meta.generation++;
	set_meta(w, ids[r], &meta);
	w->store->durable = true;
	cut_off = (CutOff) {w, ids, leaves, n, false, w->store->run_steps};
	w->store->run_steps = run_steps_cut_off;
	CHECK_INT(mosql_btree_examine(w->trees[1], ids[r], &meta), MOSQL_NODE_UNLINKED);
	w->store->run_steps = cut_off.run_steps;
	if (!cut_off.over)
		lead_from_root(w, ids, leaves, n);
	dead = ids[r];
	n = mosql_btree_leaf_ids(w->trees[0], &ids);
	for (int i = 0; i < n; i++)
		CHECK(ids[i] != dead);
	expect_rows(w, w->trees[1]);
	world_close(w);
}

static void
count_finding(void *arg, char severity, uint64 node, const char *what)
{
	++*(int *) arg;
}

static void
break_one(void *arg)
{
	++*(uint64 *) arg;
}

/*
 * A leaf is not there that all lead to.  Where copies are waited for it is damage if its server says so with them,
 * and no connection has broken meanwhile.  A check says so, too.
 */
static void
test_astray(void)
{
	uint64	   *ids;
	MosqlLeaf  *leaves;
	int			y;
	World	   *w = loaded_world(&ids, &leaves, &y);
	MemStore   *mem = w->mem;
	MosqlPoint	point;
	MemoryContext cxt = CurrentMemoryContext;
	int			n;

	w->store->durable = true;
	mosql_btree_get(w->trees[1], &leaves[y + 1].meta.low, 1, &point);
	mem->store.delete_nodes(&mem->store, &ids[y + 1], 1);
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_btree_get(w->trees[1], &leaves[y + 1].meta.low, 1, &point));
	MemoryContextSwitchTo(cxt);
	mem->crash_at = mem->steps + 1;
	CHECK_RAISES(MEMSTORE_CRASH, mosql_btree_get(w->trees[1], &leaves[y + 1].meta.low, 1, &point));
	MemoryContextSwitchTo(cxt);
	mem->crash_at = 0;
	mem->hook = break_one;
	mem->hook_arg = &mem->breaks;
	CHECK_RAISES(ERRCODE_T_R_SERIALIZATION_FAILURE,
				 mosql_btree_get(w->trees[1], &leaves[y + 1].meta.low, 1, &point));
	MemoryContextSwitchTo(cxt);
	mem->hook = NULL;
	n = 0;
	mosql_btree_check(w->trees[1], count_finding, NULL, &n);
	CHECK(n > 0);
	mem->crash_at = mem->steps + 1;
	CHECK_RAISES(MEMSTORE_CRASH, mosql_btree_check(w->trees[1], count_finding, NULL, &n));
	MemoryContextSwitchTo(cxt);
	mem->crash_at = 0;
	world_close(w);
}

static bool
always_breaks(MosqlNodeStore *store, void (*work) (void *arg), void *arg)
{
	(void) store;
	(void) work;
	(void) arg;
	return false;
}

static void
scan_all(MosqlTree *tree)
{
	MosqlScan  *scan = mosql_btree_scan_begin(tree, mosql_bytes("", 0), MOSQL_ABSENT, false, 1);
	MosqlLeaf  *leaves;

	while (mosql_btree_scan_next(scan, &leaves) > 0)
		continue;
	mosql_btree_scan_end(scan);
}

/*
 * A leaf that is being split, and each time that somebody finishes that, a connection
 * breaks: whoever needs it is told in the end, and what stays in it is served.
 */
static void
test_unfinished(void)
{
	uint64	   *ids;
	MosqlLeaf  *leaves;
	int			y;
	World	   *w = loaded_world(&ids, &leaves, &y);
	MosqlNodeMeta meta = leaves[y].meta;
	MosqlPoint	point;
	MosqlLeafGroup *groups;
	MosqlBytes	keys[2] = {leaves[y].entries[0].key, leaves[y].entries[leaves[y].n - 1].key};
	MemoryContext cxt = CurrentMemoryContext;
	int			left = 100000;

	meta.state = MOSQL_NODE_SPLITTING;
	meta.split_key = keys[1];
	meta.other = 4711;
	meta.generation++;
	set_meta(w, ids[y], &meta);
	w->store->durable = true;
	w->store->unbroken = always_breaks;
	w->mem->hook = count_down;
	w->mem->hook_arg = &left;
	mosql_btree_get(w->trees[1], &keys[0], 1, &point);
	CHECK(point.leaf == ids[y]);
	CHECK_RAISES(ERRCODE_OBJECT_IN_USE, mosql_btree_get(w->trees[1], keys, 2, &point));
	MemoryContextSwitchTo(cxt);
	CHECK_RAISES(ERRCODE_OBJECT_IN_USE, (void) mosql_btree_read_leaf(w->trees[1], keys[1]));
	MemoryContextSwitchTo(cxt);
	CHECK_RAISES(ERRCODE_OBJECT_IN_USE, (void) mosql_btree_group(w->trees[1], keys, 2, 0, &groups));
	MemoryContextSwitchTo(cxt);
	CHECK_RAISES(ERRCODE_OBJECT_IN_USE, scan_all(w->trees[1]));
	MemoryContextSwitchTo(cxt);
	w->store->unbroken = NULL;
	expect_rows(w, w->trees[1]);
	w->mem->hook = NULL;
	expect_sound(w);
	world_close(w);
}

static bool
breaks_at_last(MosqlNodeStore *store, void (*work) (void *arg), void *arg)
{
	work(arg);
	return false;
}

/*
 * Keys on both sides of where a leaf is being split: its split is finished before they are grouped, and what is guessed
 * after that, since a connection broke and it is not known what became of the leaf, has keys of one leaf only, as their parent
 * knows by then.
 */
static void
test_guess_unfinished(void)
{
	uint64	   *ids;
	MosqlLeaf  *leaves;
	int			y;
	World	   *w = loaded_world(&ids, &leaves, &y);
	MosqlNodeMeta meta = leaves[y].meta;
	MosqlBytes	keys[2] = {leaves[y].entries[0].key, leaves[y].entries[leaves[y].n - 1].key};
	MosqlPoint	points[2];
	MosqlLeafGroup *groups;
	int			ngroups;

	meta.state = MOSQL_NODE_SPLITTING;
	meta.split_key = keys[1];
	meta.other = 4711;
	meta.generation++;
	mosql_btree_get(w->trees[1], keys, 2, points);	/* inner nodes */
	set_meta(w, ids[y], &meta);
	mosql_btree_get(w->trees[1], keys, 1, points);	/* and that it is being split */
	w->store->unbroken = breaks_at_last;
	ngroups = mosql_btree_group_guess(w->trees[1], keys, 2, &groups);
	w->store->unbroken = NULL;
	CHECK_INT(ngroups, 2);
	CHECK_INT(touch_groups(w, w->trees[1], groups, ngroups), 2);
	mosql_btree_get(w->trees[1], keys, 2, points);
	CHECK(points[0].leaf == ids[y] && points[1].leaf == 4711);
	CHECK(groups[0].leaf == ids[y] && groups[1].leaf == 4711);
	expect_rows(w, w->trees[0]);
	expect_sound(w);
	world_close(w);
}

static void
damage(World *w)
{
	uint64	   *ids;
	int			n = memstore_ids(w->mem, &ids);
	uint64		id = ids[rnd(w, n)];
	MosqlNodeImage image;
	MosqlFieldValue *field;
	char	   *bytes;

	if (rnd(w, 2))				/* inner nodes are few */
		id = ROOT;
	if (!memstore_image(w->mem, id, &image))
		return;
	field = &image.fields[rnd(w, image.nfields)];
	if (rnd(w, 2))
		field = &image.fields[0];
	bytes = (char *) field->value.data;
	switch (rnd(w, 7))
	{
		case 0:
			for (int i = 0; i < image.nfields; i++)
				memstore_set(w->mem, id, image.fields[i].field, MOSQL_ABSENT);
			break;
		case 1:
			memstore_set(w->mem, id, field->field, MOSQL_ABSENT);
			break;
		case 2:
			memstore_set(w->mem, id, field->field, mosql_bytes(bytes, rnd(w, field->value.len + 1)));
			break;
		case 3:
			{
				MosqlNodeImage from;

				/* the meta of another node */
				memstore_image(w->mem, ids[rnd(w, n)], &from);
				memstore_set(w->mem, id, from.fields[0].field, from.fields[0].value);
				break;
			}
		case 4:
			memstore_set(w->mem, id, mosql_bytes("x", rnd(w, 2)), mosql_bytes("y", 1));
			break;
		default:
			if (field->value.len > 0)
				bytes[rnd(w, field->value.len)] ^= (char) (1 << rnd(w, 8));
			memstore_set(w->mem, id, field->field, field->value);
			break;
	}
}

static void
destroy_all(World *w)
{
	mosql_btree_destroy(w->trees[0], NULL, NULL);
}

static void
try(World *w, void (*what) (World *w))
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "try", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	bool		raised = PGSTUB_RAISES(what(w));

	MemoryContextSwitchTo(cxt);
	if (raised && pgstub_error.sqlstate == ERRCODE_INTERNAL_ERROR)
		CHECK_STR(pgstub_error.message, "");
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

static void
check_all(World *w)
{
	check_tree(w, w->trees[0]);
}

static void
dump_all(World *w)
{
	mosql_btree_dump(w->trees[0], count_node, NULL);
}

static void
list_all(World *w)
{
	uint64	   *ids;

	mosql_btree_leaf_ids(w->trees[0], &ids);
}

/*
 * What was damaged and is mended again must not live on in a cache: a root that
 * says it is of another level, for a while.
 */
static void
test_mended(void)
{
	World	   *w = world_open(TINY ? 300 : 2000, false, 1);
	MemoryContext cxt = CurrentMemoryContext;
	MosqlNodeImage image;
	MosqlNodeMeta meta;
	MosqlPoint	point = {0};
	StringInfoData bad;
	MosqlBytes	good = MOSQL_ABSENT;

	for (int i = 0; i < 300; i++)
		do_something(w);
	mosql_btree_get(w->trees[0], w->keys, 1, &point);
	CHECK(memstore_image(w->mem, ROOT, &image));
	for (int i = 0; i < image.nfields; i++)
		if (mosql_bytes_equal(image.fields[i].field, mosql_bytes("m", 1)))
			good = mosql_bytes_copy(CurrentMemoryContext, image.fields[i].value);
	CHECK(mosql_meta_decode(good, &meta));
	meta.level = MOSQL_TREE_MAX_LEVEL;
	initStringInfo(&bad);
	mosql_meta_encode(&bad, &meta);

	mosql_btree_close(w->trees[0]);
	w->trees[0] = mosql_btree_open(w->store, ROOT, CurrentMemoryContext);
	memstore_set(w->mem, ROOT, mosql_bytes("m", 1), mosql_bytes_of(&bad));
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_btree_get(w->trees[0], w->keys, 1, &point));
	MemoryContextSwitchTo(cxt);
	memstore_set(w->mem, ROOT, mosql_bytes("m", 1), good);
	CHECK(!PGSTUB_RAISES(mosql_btree_get(w->trees[0], w->keys, 1, &point)));
	world_close(w);
}

static void
test_damage(void)
{
	int			found = 0;
	World	   *w = world_open(TINY ? 300 : 2000, false, 1);

	for (int i = 0; i < 300; i++)
		do_something(w);
	for (int i = 0; i < scaled(TINY ? 600 : 200); i++)
	{
		MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "damage", ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(cxt);
		World		c = *w;

		c.mem = memstore_copy(w->mem);
		c.store = &c.mem->store;
		c.ntrees = 1;
		c.damaged = true;
		c.values = palloc(w->nkeys * sizeof(uint32));
		c.changed = palloc(w->nkeys * sizeof(int64));
		memcpy(c.values, w->values, w->nkeys * sizeof(uint32));
		memcpy(c.changed, w->changed, w->nkeys * sizeof(int64));
		for (int d = rnd(w, 3); d >= 0; d--)
			damage(&c);
		c.trees[0] = mosql_btree_open(c.store, ROOT, cxt);
		check_errors = 0;
		pgstub_error.sqlstate = 0;
		try(&c, check_all);
		found += check_errors > 0 || pgstub_error.sqlstate != 0;
		try(&c, dump_all);
		try(&c, list_all);
		for (int k = 0; k < 12; k++)
			try(&c, do_something);
		try(&c, destroy_all);
		memstore_close(c.mem);
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
	}
	CHECK(found > 0);
	world_close(w);
}

/* A destroy that is interrupted anywhere can be repeated; readers are told. */
static void
test_destroy(void)
{
	World	   *w = crash_world(TINY ? 100 : 1500);
	MemoryContext cxt = CurrentMemoryContext;

	for (int64 at = 1; at < 10000; at++)
	{
		MosqlPoint	point;
		MemStore   *mem = memstore_copy(w->mem);
		MosqlTree  *tree = mosql_btree_open(&mem->store, ROOT, CurrentMemoryContext);
		MosqlTree  *reader = mosql_btree_open(&mem->store, ROOT, CurrentMemoryContext);
		bool		crashed;

		mosql_btree_get(reader, &w->keys[10], 1, &point);
		mem->crash_at = at;
		mem->crash_after = true;
		crashed = PGSTUB_RAISES(mosql_btree_destroy(tree, NULL, NULL));
		MemoryContextSwitchTo(cxt);
		mem->crash_at = 0;
		if (at == 1)
		{
			MosqlTree  *late = mosql_btree_open(&mem->store, ROOT, CurrentMemoryContext);

			CHECK(!mosql_btree_exists(&mem->store, ROOT));
			CHECK_RAISES(ERRCODE_UNDEFINED_TABLE, mosql_btree_get(late, &w->keys[10], 1, &point));
			mosql_btree_close(late);
		}
		mosql_btree_destroy(tree, NULL, NULL);
		CHECK_INT(mem->nnodes, 0);
		CHECK_RAISES(ERRCODE_UNDEFINED_TABLE, mosql_btree_get(reader, &w->keys[10], 1, &point));
		mosql_btree_close(tree);
		mosql_btree_close(reader);
		memstore_close(mem);
		if (!crashed)
			break;
	}
	world_close(w);
}

/* A root that is dead without copies, as a primary that is cut off may tell: all that it leads to stays. */
static void
test_destroy_unconfirmed(void)
{
	World	   *w = crash_world(100);
	MemStore   *mem = w->mem;
	MosqlTree  *tree = mosql_btree_open(&mem->store, ROOT, CurrentMemoryContext);
	MosqlNodeMeta meta = mosql_btree_find_root(tree)->meta;
	int			nodes = mem->nnodes;
	MosqlKilled killed;
	MemoryContext cxt = CurrentMemoryContext;

	meta.state = MOSQL_NODE_DEAD;
	meta.other = ROOT;
	set_meta(w, ROOT, &meta);
	mem->store.durable = true;
	mem->crash_at = mem->steps + 1;
	CHECK_RAISES(MEMSTORE_CRASH, mosql_btree_destroy(tree, NULL, NULL));
	MemoryContextSwitchTo(cxt);
	CHECK_RAISES(MEMSTORE_CRASH, mosql_btree_kill(&tree, 1, &killed));
	MemoryContextSwitchTo(cxt);
	CHECK_INT(mem->nnodes, nodes);
	mem->crash_at = 0;
	mosql_btree_kill(&tree, 1, &killed);
	CHECK_INT(killed, MOSQL_KILLED);
	CHECK(mosql_btree_destroy(tree, NULL, NULL));
	CHECK_INT(mem->nnodes, 0);
	mosql_btree_close(tree);
	world_close(w);
}

static bool
destroy_a_little(void *arg, int nodes)
{
	int		   *asked = arg;

	(void) nodes;
	return ++*asked % 3 != 0;
}

/* One that stops half way has killed the root, and goes on where it was. */
static void
test_destroy_in_parts(void)
{
	World	   *w = crash_world(TINY ? 100 : 100000);
	MosqlTree  *tree = mosql_btree_open(&w->mem->store, ROOT, CurrentMemoryContext);
	MosqlTree  *late = mosql_btree_open(&w->mem->store, ROOT, CurrentMemoryContext);
	MosqlPoint	point;
	int			left = w->mem->nnodes;
	int			asked = 2;
	int			parts = 1;

	CHECK(!mosql_btree_destroy(tree, destroy_a_little, &asked));
	CHECK_INT(w->mem->nnodes, left);
	CHECK_RAISES(ERRCODE_UNDEFINED_TABLE, mosql_btree_get(late, &w->keys[10], 1, &point));
	for (; !mosql_btree_destroy(tree, destroy_a_little, &asked); parts++)
	{
		CHECK(w->mem->nnodes < left);
		left = w->mem->nnodes;
	}
	CHECK(parts > 2);
	CHECK_INT(w->mem->nnodes, 0);
	mosql_btree_close(tree);
	mosql_btree_close(late);
	world_close(w);
}

/* Speeds, if asked for. */
static void
test_speed(void)
{
	World	   *w;
	int			n = 1000000;
	int		   *index;
	uint32	   *values;
	int64		t0;
	int64		t1;
	int64		rows = 0;
	MosqlScan  *scan;
	MosqlLeaf  *leaves;
	MosqlLeafGroup *groups;
	int			k;

	if (getenv("BTREE_TEST_BENCH") == NULL || TINY)
		return;
	w = world_open(n, true, 1);
	index = palloc(n * sizeof(int));
	values = palloc(n * sizeof(uint32));
	for (int i = 0; i < n; i++)
	{
		index[i] = i;
		values[i] = i + 1;
	}
	w->mem->round_trips = 0;
	t0 = mosql_now_us();
	memstore_reserve(w->trees[0], w->keys, n, 100);
	t1 = mosql_now_us();
	printf("# reserve %d keys: %.0f ms, %lld round trips\n", n, (t1 - t0) / 1e3, (long long) w->mem->round_trips);
	w->mem->round_trips = 0;
	t0 = mosql_now_us();
	k = mosql_btree_group(w->trees[0], w->keys, n, 0, &groups);
	t1 = mosql_now_us();
	printf("# group into %d leaves: %.0f ms, %lld round trips\n", k, (t1 - t0) / 1e3, (long long) w->mem->round_trips);
	write_keys(w, w->trees[0], index, values, n, 0);
	w->mem->borrow = true;
	for (int backward = 0; backward < 2; backward++)
	{
		w->mem->round_trips = 0;
		rows = 0;
		t0 = mosql_now_us();
		scan = mosql_btree_scan_begin(w->trees[0], MOSQL_ABSENT, MOSQL_ABSENT, backward, 1);
		while ((k = mosql_btree_scan_next(scan, &leaves)) > 0)
			for (int l = 0; l < k; l++)
				rows += leaves[l].n;
		mosql_btree_scan_end(scan);
		t1 = mosql_now_us();
		printf("# scan %lld rows: %.0f ms, %.1f M rows/s, %lld round trips\n", (long long) rows, (t1 - t0) / 1e3,
			   (double) rows / (t1 - t0), (long long) w->mem->round_trips);
	}
	w->mem->borrow = false;
	world_close(w);
}

/*
 * Run one case, unless BTREE_TEST_ONLY names another.  What it does depends on the seed
 * and its name only, not on the cases before it, nor on how they ended.
 */
static void
run_case(void (*test) (void), const char *name)
{
	const char *only = getenv("BTREE_TEST_ONLY");
	const char *first = getenv("BTREE_TEST_SEED");
	static int	cache_kb = -1;

	if (only != NULL && strcmp(only, name) != 0)
		return;
	if (cache_kb < 0)
		cache_kb = mosql_btree_cache_kb;
	mosql_btree_cache_kb = cache_kb;
	leaping = false;
	dumped = 0;
	check_errors = check_warnings = check_firsts = 0;
	check_rows = check_leaves = 0;
	seed = first != NULL ? strtoull(first, NULL, 10) : 1;
	for (const char *c = name; *c != '\0'; c++)
		seed = seed * 31 + (unsigned char) *c;
	pg_prng_seed(&pg_global_prng_state, seed);	/* generations */
	unit_run(test, name);
}

#define CASE(test) run_case(test, #test)

int
main(void)
{
	CASE(test_empty);
	CASE(test_round_trips);
	CASE(test_asked_ahead);
	CASE(test_look_ahead);
	CASE(test_bulk_load);
	CASE(test_private_load);
	CASE(test_packed);
	CASE(test_packed_later);
	CASE(test_beside);
	CASE(test_filters);
	CASE(test_inserted_beside);
	CASE(test_brought_out_and_lost);
	CASE(test_guess);
	CASE(test_block_outdated);
	CASE(test_certified_ranges);
	CASE(test_filled);
	CASE(test_room_anew);
	CASE(test_rewritten);
	CASE(test_packed_in_part);
	CASE(test_load_overtaken);
	CASE(test_single_inserts);
	CASE(test_locked_load);
	CASE(test_split_copies);
	CASE(test_random);
	CASE(test_small_cache);
	CASE(test_lost_replies);
	CASE(test_interleaved);
	CASE(test_lost_and_overtaken);
	CASE(test_crash_load);
	CASE(test_broken_load);
	CASE(test_lost_load);
	CASE(test_crash_split);
	CASE(test_crash_append);
	CASE(test_together);
	CASE(test_several_trees);
	CASE(test_several_faults);
	CASE(test_crash_reserve);
	CASE(test_merged_away);
	CASE(test_run_absorbed);
	CASE(test_crash_merge);
	CASE(test_merge_overtaken);
	CASE(test_queue);
	CASE(test_late_splitter);
	CASE(test_dangling);
	CASE(test_destroy);
	CASE(test_destroy_in_parts);
	CASE(test_destroy_unconfirmed);
	CASE(test_first_and_dead);
	CASE(test_ruins);
	CASE(test_circle);
	CASE(test_dead_right);
	CASE(test_own_child);
	CASE(test_lost_growth);
	CASE(test_lost_growth_merge);
	CASE(test_lost_growth_unlink);
	CASE(test_astray);
	if (TINY)					/* else it takes a minute */
		CASE(test_unfinished);
	CASE(test_guess_unfinished);
	CASE(test_late_root);
	CASE(test_damage);
	CASE(test_mended);
	CASE(test_speed);
	CASE(test_leaps);
	CHECK(windows_taken > 0);
	return unit_finish();
}
