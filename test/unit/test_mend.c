/*
 * test_mend.c: trees that lost some of their nodes, and are made whole.
 *
 * Runs twice, as test_btree.c does: with the limits of the product, and with tiny ones.
 * MEND_TEST_SCALE multiplies the number of random trees (default 1); MEND_TEST_SEED
 * (default 1) changes them; MEND_TEST_VERBOSE=1 prints trees, and what is said of them;
 * MEND_TEST_BENCH=1 takes a larger tree to tell how long that takes.
 */
#include "unit.h"

#include "common/pg_prng.h"

#include "memstore.h"

#include "base/limits.h"
#include "base/retry.h"
#include "btree/btree_int.h"

#define ROOT		7
#define TINY		(MOSQL_LEAF_MAX_ROWS < 20)
#define MAX_LOST	100000

/* Does it raise an error?  The memory context stays. */
#define DIES(...) \
	({ \
		MemoryContext context_ = CurrentMemoryContext; \
		bool		dies_ = PGSTUB_RAISES(__VA_ARGS__); \
		MemoryContextSwitchTo(context_); \
		dies_; \
	})

static uint64 seed = 1;

/* What is true: values[k] of the key k, 0: absent. */
typedef struct World
{
	MemoryContext cxt;
	MemStore   *mem;
	MosqlNodeStore *store;
	MosqlTree  *tree;
	int			nkeys;
	MosqlBytes *keys;
	uint32	   *values;
	uint32		last_value;
} World;

/* What a mend has said. */
typedef struct Said
{
	int			nlost;			/* ranges whose rows may be gone */
	MosqlBytes *low;
	MosqlBytes *high;
	int			counts[MOSQL_MEND_NOT + 1];
	const char *fault;			/* of the last MOSQL_MEND_NOT */
} Said;

static uint32
rnd(World *w, uint32 n)
{
	return (uint32) (memstore_random(w->mem) % n);
}

/* ---- a tree ---- */

static World *
world_open(int nkeys)
{
	World	   *w = palloc0(sizeof(World));

	w->cxt = CurrentMemoryContext;
	w->mem = memstore_open(seed++);
	w->store = &w->mem->store;
	w->nkeys = nkeys;
	w->keys = palloc(nkeys * sizeof(MosqlBytes));
	w->values = palloc0(nkeys * sizeof(uint32));
	for (int i = 0; i < nkeys; i++)
	{
		char		key[4] = {(char) (i >> 24), (char) (i >> 16), (char) (i >> 8), (char) i};

		w->keys[i] = mosql_bytes_copy(CurrentMemoryContext, mosql_bytes(key, 4));
	}
	CHECK(mosql_btree_create(w->store, ROOT, false));
	w->tree = mosql_btree_open(w->store, ROOT, CurrentMemoryContext);
	return w;
}

static void
world_close(World *w)
{
	mosql_btree_close(w->tree);
	memstore_close(w->mem);
}

/* Another process. */
static void
reopen(World *w)
{
	mosql_btree_close(w->tree);
	w->tree = mosql_btree_open(w->store, ROOT, w->cxt);
}

static MosqlBytes
field_of(char kind, MosqlBytes key)
{
	StringInfoData buf;

	initStringInfo(&buf);
	mosql_field_put(&buf, kind, key);
	return mosql_bytes_of(&buf);
}

static MosqlStep *
write_step(World *w, const MosqlLeafGroup *group, int first, bool delete)
{
	MosqlStep  *step = mosql_btree_step_new(w->tree, group->leaf, group->n);

	mosql_btree_step_expect_generation(step, group->generation);
	for (int i = group->first; i < group->first + group->n; i++)
	{
		uint32	   *value = palloc(sizeof(uint32));

		*value = w->values[first + i] = delete ? 0 : ++w->last_value;
		if (delete)
			mosql_btree_step_delete(step, field_of('r', w->keys[first + i]));
		else
			mosql_btree_step_set(step, field_of('r', w->keys[first + i]), mosql_bytes((char *) value, 4));
	}
	return step;
}

/* Write a stretch of keys, one leaf after the other; splits what gets full. */
static void
write_keys(World *w, int first, int n, bool delete)
{
	while (n > 0)
	{
		MosqlLeafGroup *groups;
		MosqlStep  *step;
		MosqlStep	made;
		MosqlBytes	last;
		int			done;

		(void) mosql_btree_group(w->tree, w->keys + first, n, 0, &groups);
		done = groups[0].n;
		last = w->keys[first + done - 1];
		step = write_step(w, &groups[0], first, delete);
		w->store->run_steps(w->store, &step, 1);
		made = *step;			/* the next call on the tree frees it */
		mosql_btree_observe(w->tree, made.node, made.values[0], made.nfields);
		if (made.status != MOSQL_STEP_DONE)
			continue;
		if (mosql_btree_is_crowded(made.nfields, 30))
			mosql_btree_split(w->tree, last, false);
		first += done;
		n -= done;
	}
}

/* All keys at once, in leaves that are packed. */
static void
load_packed(World *w)
{
	MosqlBytes *rows = palloc(w->nkeys * sizeof(MosqlBytes));

	for (int k = 0; k < w->nkeys; k++)
	{
		uint32	   *value = palloc(sizeof(uint32));

		*value = w->values[k] = ++w->last_value;
		rows[k] = mosql_bytes((char *) value, 4);
	}
	CHECK_INT(mosql_btree_load(w->tree, w->keys, rows, w->nkeys, MOSQL_COMPRESSION_LZ4, true), w->nkeys);
}

/* Make room for a stretch; dies at the given step, if it comes to that many. */
static void
reserve(World *w, int first, int n, int dies_at)
{
	bool		died;

	w->mem->crash_at = dies_at > 0 ? w->mem->steps + dies_at : 0;
	w->mem->crash_after = rnd(w, 2);
	died = DIES(memstore_reserve(w->tree, w->keys + first, n, MOSQL_LEAF_MAX_BYTES / 6));
	w->mem->crash_at = 0;
	if (died)
		reopen(w);
}

static void
merge_some(World *w, int first)
{
	MosqlScan  *scan = mosql_btree_scan_begin(w->tree, w->keys[first], MOSQL_ABSENT, false, 16);
	MosqlLeaf  *leaves;
	int			n = mosql_btree_scan_next(scan, &leaves);
	MosqlLeaf **empty = palloc(n * sizeof(MosqlLeaf *));
	MosqlBytes	end = mosql_bytes_copy(CurrentMemoryContext, leaves[n - 1].meta.high);
	int			nempty = 0;

	for (int i = 0; i < n; i++)
		if (leaves[i].n == 0)
			empty[nempty++] = &leaves[i];
	mosql_btree_merge_leaves(w->tree, empty, nempty);
	mosql_btree_merge_parents(w->tree, end);
	mosql_btree_scan_end(scan);
}

/* Merge some, and die on the way; did it? */
static bool
merge(World *w, int first, int dies_at)
{
	bool		died;

	w->mem->crash_at = dies_at > 0 ? w->mem->steps + dies_at : 0;
	w->mem->crash_after = rnd(w, 2);
	died = DIES(merge_some(w, first));
	w->mem->crash_at = 0;
	if (died)
		reopen(w);
	return died;
}

static void
do_something(World *w)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "operation", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	int			first = rnd(w, w->nkeys);
	int			n = 1 + rnd(w, Min(w->nkeys - first, 8 * MOSQL_LEAF_MAX_ROWS));

	switch (rnd(w, 6))
	{
		case 0:
			reserve(w, first, n, 0);
			/* fall through */
		case 1:
			write_keys(w, first, n, false);
			break;
		case 2:
			reserve(w, first, n, 1 + rnd(w, 12));
			break;
		case 3:
			write_keys(w, first, n, true);
			break;
		case 4:
			merge(w, first, 0);
			break;
		case 5:
			merge(w, first, 1 + rnd(w, 12));
			break;
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* ---- losing and mending ---- */

static bool
meta_of(World *w, uint64 node, MosqlNodeMeta *meta, MosqlBytes *separators)
{
	MosqlNodeImage image;

	if (!memstore_image(w->mem, node, &image))
		return false;
	*separators = mosql_btree_image_field(&image, MOSQL_FIELD_SEPARATORS);
	return mosql_meta_decode(mosql_btree_image_field(&image, MOSQL_FIELD_META), meta);
}

static void
lose(World *w, uint64 node)
{
	w->store->delete_nodes(w->store, &node, 1);
}

static const char *
row_fault(void *arg, MosqlBytes key, MosqlBytes row)
{
	return row.len == sizeof(uint32) ? NULL : "it is no number";
}

/* A key, or what is left of it as a fence, as a number. */
static int
key_number(MosqlBytes key)
{
	int			n = 0;

	for (size_t i = 0; i < 4; i++)
		n = n << 8 | (i < key.len ? (uint8) key.data[i] : 0);
	return n;
}

/* The first key that follows one. */
static MosqlBytes
just_after(MosqlBytes key)
{
	StringInfoData after;

	initStringInfo(&after);
	appendBinaryStringInfo(&after, key.data, key.len);
	appendStringInfoChar(&after, '\0');
	return mosql_bytes_of(&after);
}

static void
hear(void *arg, MosqlMendKind kind, uint64 node, MosqlBytes low, MosqlBytes high, const char *fault)
{
	Said	   *said = arg;

	said->counts[kind]++;
	if (getenv("MEND_TEST_VERBOSE"))
		printf("# kind %d, node %llu, [%d, %d): %s\n", kind, (unsigned long long) node,
			   key_number(low), high.data ? key_number(high) : -1, fault);
	if (kind == MOSQL_MEND_NOT)
		said->fault = fault;
	if ((kind == MOSQL_MEND_LOST || kind == MOSQL_MEND_LEAF || kind == MOSQL_MEND_DOUBT) && said->nlost < MAX_LOST)
	{
		said->low[said->nlost] = mosql_bytes_copy(GetMemoryChunkContext(said->low), low);
		said->high[said->nlost++] = mosql_bytes_copy(GetMemoryChunkContext(said->low), high);
	}
	if (kind == MOSQL_MEND_FIELD && said->nlost < MAX_LOST)	/* low is its key */
	{
		said->low[said->nlost] = mosql_bytes_copy(GetMemoryChunkContext(said->low), low);
		said->high[said->nlost++] = mosql_bytes_copy(GetMemoryChunkContext(said->low), just_after(low));
	}
}

/* What is there of the tree. */
static int
known_nodes(World *w, MosqlKnownNode **known)
{
	uint64	   *ids;
	int			nids = memstore_ids(w->mem, &ids);
	int			n = 0;

	*known = palloc(Max(nids, 1) * sizeof(MosqlKnownNode));
	for (int i = 0; i < nids; i++)
	{
		MosqlBytes	separators;
		MosqlKnownNode *k = &(*known)[n];

		*k = (MosqlKnownNode) {.node = ids[i]};
		if (!meta_of(w, ids[i], &k->meta, &separators) || k->meta.tree != ROOT)
			continue;
		mosql_btree_known_children(k, separators);
		n++;
	}
	return n;
}

static int
mend(World *w, bool dry_run, Said *said)
{
	MosqlKnownNode *known;
	int			n = known_nodes(w, &known);
	MosqlMending how = {.dry_run = dry_run,.arg = said,.row_fault = row_fault,.report = hear};

	*said = (Said) {0};
	said->low = palloc_extended(MAX_LOST * sizeof(MosqlBytes), MCXT_ALLOC_HUGE);
	said->high = palloc_extended(MAX_LOST * sizeof(MosqlBytes), MCXT_ALLOC_HUGE);
	return mosql_btree_mend(w->tree, known, n, &how);
}

static bool
is_lost(const Said *said, MosqlBytes key)
{
	for (int i = 0; i < said->nlost; i++)
		if (mosql_bytes_compare(said->low[i], key) <= 0 &&
			(said->high[i].data == NULL || mosql_bytes_compare(key, said->high[i]) < 0))
			return true;
	return false;
}

static int	check_errors;
static char check_text[200];

static void
on_finding(void *arg, char severity, uint64 node, const char *what)
{
	check_errors += severity == 'E';
	if (severity == 'E')
		snprintf(check_text, sizeof(check_text), "node %llu: %s", (unsigned long long) node, what);
}

/* The right links of a level join, from the first node on; returns its first child. */
static uint64
expect_chain(World *w, uint64 node, int level)
{
	uint64		below = 0;
	MosqlBytes	low = {"", 0};

	for (bool first = true; low.data != NULL; first = false)
	{
		MosqlNodeMeta meta;
		MosqlBytes	separators;
		MosqlChild *children;
		int			n;

		if (!CHECK(meta_of(w, node, &meta, &separators) && meta.level == level &&
				   meta.state != MOSQL_NODE_DEAD && mosql_bytes_equal(meta.low, low)))
			return 0;
		CHECK(level == 0 || mosql_btree_children_fault(&meta, separators, &children, &n) == NULL);
		if (first && level > 0)
			below = children[0].node;
		low = meta.high;
		node = meta.right;
	}
	return below;
}

static int
count_errors(World *w)
{
	check_errors = 0;
	mosql_btree_check(w->tree, on_finding, NULL, NULL);
	return check_errors;
}

static void
expect_sound(World *w)
{
	if (!CHECK(count_errors(w) == 0))
		printf("#   %s\n", check_text);
}

/* How many keys have a value that is no longer true; what is gone was said to be. */
static int
judge(World *w, const Said *said)
{
	MosqlPoint *points = palloc_extended(w->nkeys * sizeof(MosqlPoint), MCXT_ALLOC_HUGE);
	int			old = 0;
	int			unsaid = 0;
	uint64		node = ROOT;

	reopen(w);
	for (int level = mosql_btree_find_root(w->tree)->meta.level; level >= 0; level--)
		node = expect_chain(w, node, level);
	mosql_btree_get(w->tree, w->keys, w->nkeys, points);
	for (int k = 0; k < w->nkeys; k++)
	{
		uint32		value = 0;

		if (points[k].row.data != NULL)
			memcpy(&value, points[k].row.data, 4);
		old += value != w->values[k] && value != 0;
		unsaid += value != w->values[k] && !is_lost(said, w->keys[k]);
		if (value != w->values[k] && !is_lost(said, w->keys[k]) && getenv("MEND_TEST_VERBOSE"))
			printf("# key %d is %u and should be %u\n", k, value, w->values[k]);
		w->values[k] = value;
	}
	CHECK_INT(unsaid, 0);
	return old;
}

/* What nobody can reach goes; signposts too, since nobody else is there. */
static void
sweep(World *w)
{
	MosqlKnownNode *known;
	int			n = known_nodes(w, &known);

	for (int i = 0; i < n; i++)
	{
		const MosqlNodeMeta *meta = &known[i].meta;

		/* what is damaged and no part of the tree stays, as in txn/sweep.c */
		if (known[i].node != ROOT && (meta->state == MOSQL_NODE_DEAD || meta->high.data == NULL ||
									  mosql_bytes_compare(meta->low, meta->high) < 0) &&
			mosql_btree_examine(w->tree, known[i].node, meta) != MOSQL_NODE_USED)
			lose(w, known[i].node);
	}
}

/* ---- cases ---- */

/* Where the leaf is that covers a key. */
static uint64
leaf_of(World *w, int k)
{
	MosqlPoint	point;

	mosql_btree_get(w->tree, &w->keys[k], 1, &point);
	return point.leaf;
}

/* Leaves that a load was about to cut in many, and died after so many steps. */
static World *
frozen_world(int steps)
{
	World	   *w = world_open(12 * MOSQL_LEAF_MAX_ROWS);
	int			n = w->nkeys;

	for (int k = 0; k < n; k += 6)
		write_keys(w, k, 1, false);
	reopen(w);
	w->mem->crash_at = w->mem->steps + steps;
	w->mem->crash_after = true;
	(void) DIES(memstore_reserve(w->tree, w->keys + 1, n - 2, MOSQL_LEAF_MAX_BYTES / 6));
	w->mem->crash_at = 0;
	reopen(w);
	return w;
}

/* The pieces of a split that died: first generation, and nothing leads to them. */
static int
count_strays(World *w)
{
	MosqlKnownNode *known;
	int			n = known_nodes(w, &known);
	int			strays = 0;

	for (int i = 0; i < n; i++)
		if (known[i].meta.level == 0 && known[i].meta.state == MOSQL_NODE_NORMAL)
		{
			MosqlNodeMeta meta;
			MosqlBytes	separators;
			MosqlBytes	low = known[i].meta.low;
			uint64		leaf;

			CHECK(meta_of(w, known[i].node, &meta, &separators));
			leaf = mosql_btree_find_node(w->tree, low, false, 0, false)->id;
			strays += leaf != known[i].node;
		}
	return strays;
}

/*
 * A load froze a leaf, made some of the new ones and died; somebody else has cut the leaf in
 * two, and changed the rows since.  That new leaf is lost: what the load left must not take
 * its place.
 */
static void
test_stray_pieces(void)
{
	int			met = 0;

	for (int steps = 2; steps < 200; steps++)
	{
		World	   *w = frozen_world(steps);
		Said		said;
		int			strays;
		uint64		leaf;

		for (int k = 0; k < w->nkeys; k += 6)
			write_keys(w, k, 1, true);
		strays = count_strays(w);
		if (strays > 0)
		{
			met++;
			for (int k = w->nkeys - 1; k >= 0; k -= 2 * MOSQL_LEAF_MAX_ROWS)
			{
				leaf = leaf_of(w, k);
				lose(w, leaf);
				mend(w, true, &said);
				CHECK(said.counts[MOSQL_MEND_LOST] == 1);
				mend(w, false, &said);
				CHECK(said.counts[MOSQL_MEND_LOST] == 1 && said.counts[MOSQL_MEND_NOT] == 0);
				CHECK_INT(judge(w, &said), 0);
			}
			CHECK_INT(mend(w, false, &said), 0);
		}
		world_close(w);
		if (met > 0 && strays == 0)
			break;
	}
	CHECK(met > 0);
}

/* A leaf is lost beside others that were being merged away, at each step of that. */
static void
test_beside_merge(void)
{
	int			dead = 0;

	for (int steps = 1; steps < 100; steps++)
	{
		World	   *w = world_open(6 * MOSQL_LEAF_MAX_ROWS);
		MosqlKnownNode *known;
		int			n;
		bool		died;
		Said		said;

		write_keys(w, 0, w->nkeys, false);
		write_keys(w, 2 * MOSQL_LEAF_MAX_ROWS, 3 * MOSQL_LEAF_MAX_ROWS, true);
		reopen(w);
		died = merge(w, 0, steps);
		n = known_nodes(w, &known);
		for (int i = 0; i < n; i++)
			if (known[i].meta.level == 0 && (known[i].meta.state == MOSQL_NODE_NORMAL))
			{
				World		c = *w;

				c.mem = memstore_copy(w->mem);
				c.store = &c.mem->store;
				c.values = palloc(w->nkeys * sizeof(uint32));
				memcpy(c.values, w->values, w->nkeys * sizeof(uint32));
				c.tree = mosql_btree_open(c.store, ROOT, CurrentMemoryContext);
				lose(&c, known[i].node);
				CHECK_INT(mend(&c, false, &said), 1);
				CHECK_INT(said.counts[MOSQL_MEND_NOT], 0);
				CHECK_INT(judge(&c, &said), 0);
				merge(&c, 0, 0);
				write_keys(&c, 0, c.nkeys, false);
				CHECK_INT(judge(&c, &said), 0);
				mosql_btree_close(c.tree);
				memstore_close(c.mem);
			}
			else
				dead += known[i].meta.state == MOSQL_NODE_DEAD;
		world_close(w);
		if (!died)
			break;
	}
	CHECK(dead > 0);
}

/* The known node of a level that comes first after a key; NULL if there is none. */
static MosqlKnownNode *
known_after(World *w, int level, MosqlBytes key)
{
	MosqlKnownNode *known;
	MosqlKnownNode *found = NULL;
	int			n = known_nodes(w, &known);

	for (int i = 0; i < n; i++)
		if (known[i].meta.level == level && mosql_bytes_compare(known[i].meta.low, key) > 0 &&
			(found == NULL || mosql_bytes_compare(known[i].meta.low, found->meta.low) < 0))
			found = &known[i];
	return found;
}

static void
set_meta(World *w, uint64 node, const MosqlNodeMeta *meta)
{
	memstore_set(w->mem, node, mosql_bytes("m", 1), mosql_btree_meta_bytes(w->tree, meta));
}

/*
 * A leaf is lost that the next one was split off from, and that is not linked: it counts if
 * it was changed since, and is left out if it was not.  The one that was made anew counts
 * from now on.
 */
static void
test_unlinked(void)
{
	for (int changed = 0; changed < 2; changed++)
	{
		World	   *w = world_open(4 * MOSQL_LEAF_MAX_ROWS);
		MosqlKnownNode *leaf;
		MosqlKnownNode *next;
		MosqlNodeMeta root;
		MosqlBytes	separators;
		MosqlChild *children;
		int			n;
		int			left = 0;
		Said		said;

		write_keys(w, 0, w->nkeys, false);
		leaf = known_after(w, 0, mosql_bytes("", 0));
		next = known_after(w, 0, leaf->meta.low);
		CHECK(meta_of(w, ROOT, &root, &separators) && root.level == 1);
		CHECK(mosql_btree_children_fault(&root, separators, &children, &n) == NULL);
		for (int i = 0; i < n; i++)
			if (children[i].node != next->node)
				children[left++] = children[i];
		memstore_set(w->mem, ROOT, mosql_bytes("s", 1), mosql_btree_children_bytes(w->tree, children, left));
		next->meta.generation = mosql_btree_next_generation(changed ? mosql_btree_next_generation(0) : 0);
		set_meta(w, next->node, &next->meta);
		lose(w, leaf->node);
		CHECK_INT(mend(w, false, &said), 1);
		CHECK_INT(said.counts[MOSQL_MEND_LEFT], !changed);
		CHECK(mosql_bytes_equal(said.high[0], changed ? next->meta.low : next->meta.high));
		CHECK_INT(judge(w, &said), 0);
		CHECK(meta_of(w, leaf->node, &root, &separators) && !mosql_btree_is_first_generation(root.generation));
		world_close(w);
	}
}

/* Links of an inner node are gone, all but the first n. */
static void
unlink_all_but(World *w, uint64 node, int n)
{
	MosqlNodeMeta meta;
	MosqlBytes	separators;
	MosqlChild *children;
	int			nchildren;

	CHECK(meta_of(w, node, &meta, &separators));
	CHECK(mosql_btree_children_fault(&meta, separators, &children, &nchildren) == NULL && nchildren > n);
	memstore_set(w->mem, node, mosql_bytes("s", 1), mosql_btree_children_bytes(w->tree, children, n));
}

static int	dumped;

static void
count_node(void *arg, uint64 node, const MosqlNodeMeta *meta, int nentries, int nintents, size_t bytes)
{
	dumped++;
}

/*
 * The first leaf of an inner node was merged into the last one of the inner node before, as happens where that
 * was split meanwhile, and those that follow are not linked: only who knows the heir comes to them.
 * The tree is sound, all of it is met, and so it is when the inner node is made anew, the signpost lost.
 */
static void
test_heir_before(void)
{
	for (int lost = 0; lost < 4; lost++)
	{
		World	   *w = world_open(3 * MOSQL_INNER_MAX_CHILDREN);
		MosqlKnownNode *inner;
		MosqlKnownNode *first;
		MosqlNodeMeta heir;
		MosqlBytes	separators;
		uint64		heir_node;
		uint64	   *ids;
		Said		said;

		memstore_reserve(w->tree, w->keys, w->nkeys, MOSQL_LEAF_MAX_BYTES);	/* a leaf for each row */
		inner = known_after(w, 1, mosql_bytes("", 0));
		first = known_after(w, 0, mosql_bytes("", 0));
		for (heir_node = 0; mosql_bytes_compare(first->meta.low, inner->meta.low) < 0;
			 first = known_after(w, 0, first->meta.low))
			heir_node = first->node;
		CHECK(mosql_bytes_equal(first->meta.low, inner->meta.low) && meta_of(w, heir_node, &heir, &separators));
		heir.high = first->meta.high;
		heir.right = first->meta.right;
		set_meta(w, heir_node, &heir);
		first->meta.state = MOSQL_NODE_DEAD;
		first->meta.other = heir_node;
		set_meta(w, first->node, &first->meta);
		unlink_all_but(w, inner->node, 1);
		reopen(w);
		expect_sound(w);
		dumped = 0;
		mosql_btree_dump(w->tree, count_node, NULL);
		CHECK_INT(dumped, memstore_ids(w->mem, &ids));
		if (lost & 1)
			lose(w, inner->node);
		if (lost & 2)
			lose(w, first->node);
		CHECK_INT(mend(w, false, &said), lost == 3 ? 2 : lost > 0);
		expect_sound(w);
		CHECK_INT(judge(w, &said), 0);
		world_close(w);
	}
}

/*
 * A leaf is lost that had absorbed the next one, and the meta of that one's signpost is damaged, which is linked: nothing tells
 * it from a leaf, and it becomes one. The rows of its range were the heir's: they are lost, and named.
 */
static void
test_spoilt_signpost(void)
{
	World	   *w = world_open(6 * MOSQL_LEAF_MAX_ROWS);
	int			first = 2 * MOSQL_LEAF_MAX_ROWS;
	MosqlKnownNode *leaf;
	MosqlKnownNode *next;
	Said		said;

	write_keys(w, 0, w->nkeys, false);
	leaf = known_after(w, 0, w->keys[first]);
	next = known_after(w, 0, leaf->meta.low);
	write_keys(w, first, w->nkeys - first, true);
	leaf->meta.high = next->meta.high;
	leaf->meta.right = next->meta.right;
	set_meta(w, leaf->node, &leaf->meta);
	memstore_set(w->mem, next->node, mosql_bytes("m", 1), mosql_bytes("x", 1));
	lose(w, leaf->node);
	CHECK_INT(mend(w, false, &said), 2);
	CHECK(said.counts[MOSQL_MEND_LOST] == 2 && said.counts[MOSQL_MEND_LEAF] == 0);
	CHECK_INT(judge(w, &said), 0);
	expect_sound(w);
	world_close(w);
}

/* A leaf that is being split in more than two, of which the first is there; 0: there is none. */
static uint64
half_split(World *w, MosqlNodeMeta *first)
{
	MosqlKnownNode *known;
	int			n = known_nodes(w, &known);
	MosqlBytes	separators;

	for (int i = 0; i < n; i++)
		if (known[i].meta.state == MOSQL_NODE_SPLITTING &&
			meta_of(w, known[i].meta.other, first, &separators) &&
			!mosql_btree_same_bound(first->high, known[i].meta.high))
			return known[i].meta.other;
	return 0;
}

/*
 * A leaf is being split in many, and one of those is lost: the split is called off, and no
 * row is lost.  But not if the new leaves were in use already, and the cut was lost.
 */
static void
test_split_lost(void)
{
	int			met = 0;

	for (int steps = 2; steps < 600 && met < 20; steps += TINY ? 1 : 3)
		for (int used = 0; used < 2; used++)
		{
			World	   *w = frozen_world(steps);
			MosqlNodeMeta first;
			uint64		other = half_split(w, &first);

			if (other != 0)
			{
				Said		said;

				met++;
				first.generation = mosql_btree_next_generation(used ? first.generation : 0);
				set_meta(w, other, &first);
				lose(w, first.right);
				CHECK_INT(mend(w, false, &said), used ? 0 : 1);
				CHECK_INT(said.counts[MOSQL_MEND_SPLIT], !used);
				CHECK_INT(said.counts[MOSQL_MEND_NOT], used);
				if (!used)
				{
					CHECK_INT(judge(w, &said), 0);
					write_keys(w, 0, w->nkeys, false);
					CHECK_INT(judge(w, &said), 0);
				}
			}
			world_close(w);
		}
	CHECK(met > 0);
}

/* Round trips of a check, which finds so many errors. */
static int
trips_of_check(World *w, int errors)
{
	int64		trips = w->mem->round_trips;

	CHECK_INT(count_errors(w), errors);
	return (int) (w->mem->round_trips - trips);
}

/*
 * What a check makes of a leaf that is being split, in a tree of many leaves: it looks at the new leaves alone.
 * They may be in any state in which the cut can lead to them, as after a failover that has lost it, and none may be lost.
 */
static void
test_check_split(void)
{
	World	   *w = world_open(3 * MOSQL_INNER_MAX_CHILDREN);
	MosqlKnownNode *leaf;
	MosqlNodeMeta other;
	MosqlNodeMeta meta;
	int			trips;

	memstore_reserve(w->tree, w->keys, w->nkeys, MOSQL_LEAF_MAX_BYTES);	/* a leaf for each row */
	leaf = known_after(w, 0, mosql_bytes("", 0));
	other = meta = leaf->meta;
	trips = trips_of_check(w, 0);
	meta.state = MOSQL_NODE_SPLITTING;
	meta.other = w->store->new_id(w->store, false);
	meta.split_key = other.low = just_after(leaf->meta.low);
	set_meta(w, leaf->node, &meta);
	CHECK(trips_of_check(w, 0) <= 2 * trips + 2);	/* the new leaf is still to be made */
	set_meta(w, meta.other, &other);
	CHECK(trips_of_check(w, 0) <= 2 * trips + 2);
	other.state = MOSQL_NODE_DYING;
	set_meta(w, meta.other, &other);
	trips_of_check(w, 0);
	other.state = MOSQL_NODE_DEAD;
	other.other = leaf->node;
	set_meta(w, meta.other, &other);
	trips_of_check(w, 1);
	other.state = MOSQL_NODE_NORMAL;
	other.other = 0;
	other.high = just_after(other.low);
	other.right = w->store->new_id(w->store, false);
	set_meta(w, meta.other, &other);
	trips_of_check(w, 1);
	world_close(w);
}

/* Nothing is lost: nothing is done, whatever died in the middle of what. */
static void
test_nothing_lost(void)
{
	for (int round = 0; round < (TINY ? 20 : 3); round++)
	{
		World	   *w = world_open(TINY ? 400 : 4000);

		for (int i = 0; i < 60; i++)
		{
			MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "round", ALLOCSET_DEFAULT_SIZES);
			MemoryContext old = MemoryContextSwitchTo(cxt);
			Said		said;

			do_something(w);
			CHECK_INT(mend(w, false, &said), 0);
			CHECK_INT(said.counts[MOSQL_MEND_NOT] + said.counts[MOSQL_MEND_LEFT], 0);
			MemoryContextSwitchTo(old);
			MemoryContextDelete(cxt);
		}
		world_close(w);
	}
}

static MosqlBytes
meta_bytes(const MosqlNodeMeta *meta)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_meta_encode(&out, meta);
	return mosql_bytes_of(&out);
}

/*
 * Whatever is lost: afterwards the tree is sound, what is gone was named, and no row is
 * what it was long ago.  leaves: only those are lost; else old rows may come back where
 * leaf and inner node are lost, but the whole of what a primary has had is there.
 */
/* Print nodes that are known. */
static void
show(const MosqlKnownNode *known, int n)
{
	for (int i = 0; i < n; i++)
	{
		const MosqlNodeMeta *meta = &known[i].meta;

		printf("#   %d: %llu [%d, %d) %c gen %llu -> %llu\n", meta->level,
			   (unsigned long long) known[i].node, key_number(meta->low),
			   meta->high.data ? key_number(meta->high) : -1, meta->state,
			   (unsigned long long) (meta->generation >> 32), (unsigned long long) meta->right);
		for (int c = 0; c < known[i].nchildren; c++)
			printf("#      %d: %llu\n", key_number(known[i].children[c].separator),
				   (unsigned long long) known[i].children[c].node);
	}
}

static int
lose_some(World *w, bool leaves)
{
	MosqlKnownNode *known;
	int			n = known_nodes(w, &known);
	uint32		of = 2 + rnd(w, 12);
	int			nlost = 0;
	Said		said;
	int			old;

	expect_sound(w);
	for (int i = 0; i < n; i++)
		if (rnd(w, of) == 0 && (!leaves || known[i].meta.level == 0))
		{
			nlost++;
			if (rnd(w, 4) == 0 && known[i].meta.low.len > 0)
			{
				known[i].meta.high = known[i].meta.low;
				memstore_set(w->mem, known[i].node, mosql_bytes("m", 1), meta_bytes(&known[i].meta));
			}
			else if (rnd(w, 3) == 0)
				memstore_set(w->mem, known[i].node, mosql_bytes("m", 1), mosql_bytes("x", 1));
			else
				lose(w, known[i].node);
		}
	if (getenv("MEND_TEST_VERBOSE"))
		show(known, n);
	mend(w, false, &said);
	if (getenv("MEND_TEST_VERBOSE"))
	{
		n = known_nodes(w, &known);
		printf("# after\n");
		show(known, n);
	}
	CHECK_INT(said.counts[MOSQL_MEND_NOT], 0);
	if (said.counts[MOSQL_MEND_NOT] > 0)
		printf("#   %s\n", said.fault);
	old = judge(w, &said);
	expect_sound(w);
	CHECK_INT(mend(w, false, &said), 0);
	sweep(w);
	return old;
}

static void
lose_rounds(bool leaves)
{
	const char *scale = getenv("MEND_TEST_SCALE");
	int			rounds = (int) ((TINY ? 150 : 15) * (scale ? atof(scale) : 1));
	int			old_rounds = 0;

	for (int round = 0; round < rounds; round++)
	{
		World	   *w = world_open(TINY ? 400 : 4000);
		int			old = 0;

		if (round % 3 == 1)
			load_packed(w);
		for (int i = 0; i < 60; i++)
			do_something(w);
		for (int i = 0; i < 3; i++)
		{
			MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "round", ALLOCSET_DEFAULT_SIZES);
			MemoryContext before = MemoryContextSwitchTo(cxt);

			old += lose_some(w, leaves);
			MemoryContextSwitchTo(before);
			MemoryContextDelete(cxt);
			for (int j = 0; j < 10; j++)
				do_something(w);
		}
		old_rounds += old > 0;
		world_close(w);
		if (unit_failed > 0)
		{
			printf("# round %d\n", round);
			break;
		}
	}
	printf("# %d of %d rounds brought old rows back\n", old_rounds, rounds);
	if (leaves)
		CHECK_INT(old_rounds, 0);
}

static void
test_lost_leaves(void)
{
	lose_rounds(true);
}

static void
test_lost_nodes(void)
{
	lose_rounds(false);
}

/* A large tree of which a third is lost: not a look at all nodes for each of these. */
static void
test_large(void)
{
	bool		bench = getenv("MEND_TEST_BENCH") != NULL;
	int			nleaves = bench ? 100000 : 20000;
	World	   *w;
	uint64	   *ids;
	int			n;
	int			nlost = 0;
	Said		said;
	int64		start_us;
	int64		trips;

	if (TINY)
		return;
	w = world_open(nleaves);
	/* a leaf for each row */
	memstore_reserve(w->tree, w->keys, w->nkeys, MOSQL_LEAF_MAX_BYTES);
	n = memstore_ids(w->mem, &ids);
	CHECK(n > nleaves);
	for (int i = 0; i < n; i++)
		if (ids[i] % 3 == 0)
		{
			lose(w, ids[i]);
			nlost++;
		}
	trips = w->mem->round_trips;
	start_us = mosql_now_us();
	CHECK_INT(mend(w, false, &said), nlost);
	printf("# %d of %d nodes made anew in %.1f s, %lld round trips\n", nlost, n,
		   (double) (mosql_now_us() - start_us) / 1e6, (long long) (w->mem->round_trips - trips));
	CHECK((mosql_now_us() - start_us) / 1000 < (bench ? 60000 : 15000));
	CHECK(w->mem->round_trips - trips < nlost + n / 8);
	CHECK_INT(judge(w, &said), 0);
	CHECK_INT(count_errors(w), 0);
	world_close(w);
}

static int
count_packed(World *w)
{
	MosqlKnownNode *known;
	int			n = known_nodes(w, &known);
	int			npacked = 0;

	for (int i = 0; i < n; i++)
		npacked += known[i].meta.state == MOSQL_NODE_PACKED;
	return npacked;
}

/* The state of a packed leaf says that it is not. */
static void
make_normal(World *w, uint64 leaf)
{
	MosqlNodeMeta meta;
	MosqlBytes	separators;

	CHECK(meta_of(w, leaf, &meta, &separators));
	meta.state = MOSQL_NODE_NORMAL;
	memstore_set(w->mem, leaf, mosql_bytes("m", 1), meta_bytes(&meta));
}

/*
 * Packed leaves: one that has lost its meta, or whose state is wrong, keeps its rows;
 * a block that is damaged, or gone, is lost, and said; the others stay packed.
 */
static void
test_packed(void)
{
	World	   *w = world_open(40 * MOSQL_LEAF_MAX_ROWS);
	Said		said;
	uint64		leaves[6];
	int			npacked;

	load_packed(w);
	CHECK_INT(mend(w, false, &said), 0);
	npacked = count_packed(w);
	CHECK(npacked >= 39);
	for (int i = 0; i < 6; i++)
		leaves[i] = leaf_of(w, (i + 1) * 5 * MOSQL_LEAF_MAX_ROWS);
	memstore_set(w->mem, leaves[0], mosql_bytes("m", 1), mosql_bytes("x", 1));
	memstore_set(w->mem, leaves[1], mosql_bytes("b", 1), mosql_bytes("x", 1));
	memstore_set(w->mem, leaves[2], mosql_bytes("b", 1), MOSQL_ABSENT);
	/* beside a block: what is damaged is lost, and the block's row, an older version of it, does not come back */
	memstore_set(w->mem, leaves[3], field_of('r', w->keys[20 * MOSQL_LEAF_MAX_ROWS]), mosql_bytes("x", 1));
	memstore_set(w->mem, leaves[4], field_of('r', w->keys[25 * MOSQL_LEAF_MAX_ROWS]), mosql_bytes("", 0));
	memstore_set(w->mem, leaves[4], mosql_bytes("m", 1), mosql_bytes("x", 1));
	make_normal(w, leaves[5]);
	CHECK(count_errors(w) > 0);
	CHECK_INT(mend(w, true, &said), 7);
	CHECK_INT(mend(w, false, &said), 7);
	CHECK_INT(said.counts[MOSQL_MEND_FIELD], 2);
	CHECK_INT(said.counts[MOSQL_MEND_LEAF], 3);
	CHECK_INT(said.counts[MOSQL_MEND_LOST], 2);
	CHECK_INT(judge(w, &said), 0);
	for (int k = 0, absent = 0; k < w->nkeys; k++)
	{
		absent += w->values[k] == 0;
		if (k == w->nkeys - 1)
			CHECK_INT(absent, 2 * MOSQL_LEAF_FILL(MOSQL_LEAF_MAX_ROWS) + 2);
	}
	CHECK_INT(count_errors(w), 0);
	CHECK_INT(count_packed(w), npacked - 6);
	CHECK_INT(mend(w, false, &said), 0);
	world_close(w);
}

/* Somebody who writes a row beside its block before a round trip of the mend. */
typedef struct Writer
{
	World	   *w;
	uint64		leaf;
	int			key;
	int			trips;			/* until then; 0: done */
} Writer;

static void
write_beside(void *arg)
{
	Writer	   *writer = arg;
	uint32	   *value = &writer->w->values[writer->key];

	if (writer->trips == 0 || --writer->trips > 0)
		return;
	*value = PG_UINT32_MAX;		/* in bytes more than what the block has */
	memstore_set(writer->w->mem, writer->leaf, field_of('r', writer->w->keys[writer->key]), mosql_bytes((char *) value, 4));
}

/* A packed leaf has a row that is damaged; others come out of the block, and are written, while it is mended. */
static void
test_packed_written(void)
{
	bool		written = true;

	for (int trip = 1; written; trip++)
	{
		World	   *w = world_open(2 * MOSQL_LEAF_MAX_ROWS);
		Writer		writer = {w, 0, 1, trip};
		Said		said;

		load_packed(w);
		writer.leaf = leaf_of(w, 0);
		memstore_set(w->mem, writer.leaf, field_of('r', w->keys[0]), mosql_bytes("x", 1));
		w->mem->hook = write_beside;
		w->mem->hook_arg = &writer;
		CHECK_INT(mend(w, false, &said), 1);
		w->mem->hook = NULL;
		written = writer.trips == 0;
		CHECK_INT(judge(w, &said), 0);
		CHECK(w->values[0] == 0 && (!written || w->values[1] == PG_UINT32_MAX));
		world_close(w);
	}
}

int
main(void)
{
	const char *first = getenv("MEND_TEST_SEED");

	seed = first != NULL ? strtoull(first, NULL, 10) * 1000000 : 1;
	pg_prng_seed(&pg_global_prng_state, seed);
	RUN(test_stray_pieces);
	RUN(test_beside_merge);
	RUN(test_unlinked);
	RUN(test_heir_before);
	RUN(test_spoilt_signpost);
	RUN(test_split_lost);
	RUN(test_check_split);
	RUN(test_nothing_lost);
	RUN(test_packed);
	RUN(test_packed_written);
	RUN(test_lost_leaves);
	RUN(test_lost_nodes);
	RUN(test_large);
	return unit_finish();
}
