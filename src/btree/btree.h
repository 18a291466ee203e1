/*
 * btree.h: a B-link tree of leaves in a node store.
 *
 * Layer: btree.  Knows keys, fences, separators and splits; knows no SQL, no
 * transactions (rows and intents are bytes that it moves by key) and no Redis
 * (it works on a MosqlNodeStore: src/txn implements it over src/step, the unit
 * tests in memory).
 *
 * Shape.  The root is always an inner node and its id never changes; a new
 * tree is a root of level 1 with one empty leaf.  Inner nodes are cached and
 * never validated: a leaf's fences tell whether a cached path led astray.
 * src/btree/README.md argues every race.
 */
#ifndef MOSQL_BTREE_H
#define MOSQL_BTREE_H

#include "base/base.h"
#include "code/block.h"
#include "code/node.h"
#include "step/step.h"

/*
 * What the tree stands on.  All calls work on many nodes in parallel, one
 * round trip each, and allocate results in the current memory context.
 */
typedef struct MosqlNodeStore MosqlNodeStore;
struct MosqlNodeStore
{
	const char *ns;				/* for error messages */
	void		(*read_nodes) (MosqlNodeStore *store, const uint64 *nodes, int n,
							   MosqlNodeImage *images);

	/*
	 * Can these be read as they are at one moment (told: with the schema version of then or later)?  Then do, schema NULL if it is not
	 * asked for; false: it was refused, and they cannot.  NULL: they cannot.
	 */
	bool		(*reads_at_once) (MosqlNodeStore *store, const uint64 *nodes, int n, bool told);
	bool		(*read_nodes_at_once) (MosqlNodeStore *store, const uint64 *nodes, int n,
									   MosqlNodeImage *images, uint64 *schema);

	/* step.h has what these promise.  NULL: nodes cannot be asked for before they are wanted. */
	MosqlPrefetch *(*prefetch) (MosqlNodeStore *store, const uint64 *nodes, int n);
	bool		(*prefetched) (MosqlPrefetch *prefetch, MosqlNodeImage *images);
	void		(*prefetch_drop) (MosqlPrefetch *prefetch);

	void		(*read_fields) (MosqlNodeStore *store, MosqlFieldRead *reads, int n);
	void		(*run_steps) (MosqlNodeStore *store, MosqlStep **steps, int n);
	void		(*delete_nodes) (MosqlNodeStore *store, const uint64 *nodes, int n);

	/*
	 * An id that no node has had.  together: of one that should be where all are that ask so, if the store has a place
	 * where what is done to several nodes at once costs less.  Nothing rests on it.
	 */
	uint64		(*new_id) (MosqlNodeStore *store, bool together);
	bool		durable;		/* run_steps waits for copies, also of what a step
								 * that wrote nothing has seen */

	/*
	 * A number that changes when this process may have been cut off from the
	 * others for so long that they no longer reckon with it: what it read
	 * before must not be acted on.  Local, no round trip.
	 */
	uint64		(*incarnation) (MosqlNodeStore *store);

	/*
	 * How often a connection broke: a failover may be behind it, and may have taken back what was read
	 * before.  Local.  NULL: that never happens.
	 */
	uint64		(*breaks) (MosqlNodeStore *store);

	/*
	 * Do something whose steps rest on the ones before.  False: it was given up halfway,
	 * because a server may have forgotten those.  NULL: none ever does.
	 */
	bool		(*unbroken) (MosqlNodeStore *store, void (*work) (void *arg), void *arg);
};

typedef struct MosqlTree MosqlTree;

/* Bytes of inner nodes and leaf hints that one tree may cache (GUC). */
extern int	mosql_btree_cache_kb;

/*
 * A handle on a tree; makes no round trip.  Memory (caches included) is a
 * child context of parent.
 */
extern MosqlTree *mosql_btree_open(MosqlNodeStore *store, uint64 root, MemoryContext parent);
extern void mosql_btree_close(MosqlTree *tree);
extern uint64 mosql_btree_root(const MosqlTree *tree);

/* Write a new empty tree, its leaf together with others, or anywhere.  Returns false if the root exists already. */
extern bool mosql_btree_create(MosqlNodeStore *store, uint64 root, bool together);

/* Are the first leaves of a tree to be together, those that this handle makes?  As it is in the beginning: no. */
extern void mosql_btree_set_together(MosqlTree *tree, bool together);

/* Does the tree's root exist?  One round trip. */
extern bool mosql_btree_exists(MosqlNodeStore *store, uint64 root);

/*
 * Before anything is called damaged: was it told by servers that are still who they were?  breaks: what mosql_btree_breaks()
 * said before it was read; 40001 if a connection has broken since.  Where copies are waited for these nodes, and those that are
 * cached, are asked with them: 08006 if one of their servers has a successor, and goes on answering all the same.
 */
extern uint64 mosql_btree_breaks(const MosqlTree *tree);
extern void mosql_btree_doubt(MosqlTree *tree, uint64 breaks, const uint64 *nodes, int n);

/*
 * Mark the root of a tree that nobody uses any more dead, and delete all nodes; restartable: children
 * go before parents, the root last.  more (NULL: go on to the end) is asked before the first are deleted,
 * and after each few hundred nodes, how many these were; where it says no the rest is left for
 * another call, and false returned.  A tree of one leaf goes at once: one who draws from a sequence looks
 * at its counter alone.
 */
typedef bool (*MosqlDestroyMore) (void *arg, int nodes);
extern bool mosql_btree_destroy(MosqlTree *tree, MosqlDestroyMore more, void *arg);

/* What became of a root that was to be marked dead. */
typedef enum MosqlKilled
{
	MOSQL_KILLED,				/* it is dead; its tree can be destroyed */
	MOSQL_KILL_GONE,			/* it was not there */
	MOSQL_KILL_DAMAGED			/* its meta does not decode: left as it is */
} MosqlKilled;

/*
 * Mark the roots of n trees of one store dead, as mosql_btree_destroy() does first with each: two round
 * trips for all of them.
 */
extern void mosql_btree_kill(MosqlTree **trees, int n, MosqlKilled *killed);

/* --- steps on leaves: which leaf, at which generation --- */

typedef struct MosqlLeafGroup
{
	uint64		leaf;
	uint64		generation;		/* a step compares it at offset 0 of "m" */
	int			first;			/* keys[first .. first + n - 1] belong to it */
	int			n;
	int			nfields;		/* fields it had when last seen, -1 unknown */
	bool		packed;			/* it has a block (mosql_btree_group_beside()) */
	bool		rewrites;		/* ... and may be written anew, as a whole (MOSQL_KEY_REWRITES); else its keys are to be grouped
								 * again without that, for some may have to be unpacked */
	MosqlBytes	block;			/* rewrites: the block, in the current context */
	MosqlLoaded loaded;			/* loader.session != 0: it is loading; no step is made there but those of loading.c.
								 * Packed: what the block's rows are */
	bool		guessed;		/* mosql_btree_group_guess(): it has not been looked at */
	MosqlBytes	low;			/* guessed: its low fence; valid as the next */
	MosqlBytes	high;			/* its high fence (data NULL: none); valid until
								 * the next call on this tree */
	MosqlBytes	frozen_from;	/* being split: its keys from here on are frozen
								 * (data NULL: none are); as long valid */
} MosqlLeafGroup;

/*
 * Group ascending, distinct keys by the leaves that cover them, from caches
 * and, where those know nothing, by reading metas (one round trip for all
 * leaves).  Leaves frozen for one of the keys are helped to finish their
 * split.  Packed ones are unpacked, but for those of whose block in the group's generation it is known that it has no row newer
 * than at_most (0: there are none).  The result may be stale the moment it returns: the step's compare of
 * the generation finds out; then call mosql_btree_observe() with the meta that
 * the step read, and group again.
 */
extern int	mosql_btree_group(MosqlTree *tree, const MosqlBytes *keys, int n,
							  MosqlTimestamp at_most, MosqlLeafGroup **groups);

/* What a step does to a key: it may have to be a field for that. */
typedef enum MosqlKeyUse
{
	MOSQL_KEY_LOOK,				/* its row is compared, or locked */
	MOSQL_KEY_FIELD,			/* it becomes a field: brought out of the block, or inserted */
	MOSQL_KEY_NEW_FIELD,		/* the same, and no block has it: rows[i] may say nothing of it */
	MOSQL_KEY_UNPACK,			/* it is deleted */
	MOSQL_KEY_REWRITES = 0x10	/* with one of these: written, and if so are many keys of a packed leaf, the leaf may be as a whole */
} MosqlKeyUse;

/*
 * The same for steps that may be made beside a block: leaves that are packed stay so, but where one of
 * the keys is to be unpacked, or so many rows are to become fields that the block is in the way (uses NULL: all are looks).
 * rows[i] is what the block has of a key, under the generation of its group; absent: nothing, or there
 * is no block.  Memory of the current context.  A round trip more, if a block is not known.  rows NULL:
 * they are not wanted.
 */
extern int	mosql_btree_group_beside(MosqlTree *tree, const MosqlBytes *keys, const MosqlKeyUse *uses, int n,
									 MosqlLeafGroup **groups, MosqlBytes *rows);

/*
 * The same for looks whose steps find out themselves whether the leaf serves the keys: a leaf of which nothing is known
 * is guessed, by what leads to it, and not read.  Instead of a generation such a group has the fences that the
 * leaf is to have, and it may be packed.  A guess that failed is to be told to mosql_btree_observe(), and the keys are to be grouped
 * without guesses.
 */
extern int	mosql_btree_group_guess(MosqlTree *tree, const MosqlBytes *keys, int n, MosqlLeafGroup **groups);

/* All of them guessed, and nothing is read: keys to whose leaves the caches do not lead are in no group.  Throws nothing. */
extern int	mosql_btree_group_known(MosqlTree *tree, const MosqlBytes *keys, int n, MosqlLeafGroup **groups);

/* A step on a group's leaf finds it as it was when it was grouped, or guessed; at most three compares more. */
extern void mosql_btree_expect_group(const MosqlTree *tree, const MosqlLeafGroup *group, MosqlStep *step);

/* A guess was right: fill in what the step has read of the leaf, and remember it. */
extern void mosql_btree_guess_right(MosqlTree *tree, MosqlLeafGroup *group, MosqlBytes meta);

/* The field in which a packed leaf has its block, and what a step has read there under a generation, for later. */
extern MosqlBytes mosql_btree_block_field(void);
extern void mosql_btree_block_keep(MosqlTree *tree, uint64 leaf, uint64 generation, MosqlBytes block);

/*
 * Finish the split that a leaf is in, by its name: looking its frozen keys up may lead
 * past it, where the parent is known to have the new leaf already.  A leaf that is in none
 * any more is at least known to be so.  One round trip or more.
 */
extern void mosql_btree_finish_split(MosqlTree *tree, uint64 leaf);

/*
 * Tell the caches what a step saw of a leaf: its meta (data NULL: the node is
 * gone) and its number of fields (-1: not known).
 */
extern void mosql_btree_observe(MosqlTree *tree, uint64 leaf, MosqlBytes meta, int nfields);

/*
 * Before a range's next leaves (at most max of them, and those below one inner node) are grouped one by one, with the same
 * at_most: read what the caches do not know of them, and of their blocks, and unpack those that would be
 * unpacked then.  At most four round trips, and none where the caches know enough.  Advisory.
 */
extern void mosql_btree_thaw_range(MosqlTree *tree, MosqlBytes low, MosqlBytes high, MosqlTimestamp at_most, int max);

/* Empty the caches: for who has read much of a tree and will not come back soon. */
extern void mosql_btree_forget(MosqlTree *tree);

/* Ascending keys of a tree: of new rows, or of all that are written there. */
typedef struct MosqlTreeKeys
{
	MosqlTree  *tree;
	const MosqlBytes *keys;
	int			n;
	size_t		row_bytes;		/* of a new row on average: 1 to MOSQL_ROW_MAX_BYTES */
	MosqlKeyUse use;			/* FIELD, or NEW_FIELD if all of them are such: no block is to be read for them */
	const MosqlKeyUse *uses;	/* of each; NULL: all are new, and of that use */
	const int8 *growth;			/* with uses: how many rows more each makes: 1, 0 or -1 */
} MosqlTreeKeys;

/* A leaf that is loading, in which some of these keys would not fit. */
typedef struct MosqlBusyLeaf
{
	MosqlTree  *tree;			/* NULL: there is none */
	MosqlBytes	key;			/* the first that belongs there */
	MosqlLoaded loaded;
} MosqlBusyLeaf;

/*
 * Before new keys of n different trees of one store are prepared: split leaves, at once into as many
 * pieces as needed, so that the rows fit.  A packed leaf that may be written anew (MOSQL_KEY_REWRITES) need only hold what it will
 * have then, without the rows that are deleted.  Runs
 * of keys beyond a leaf's last row leave that leaf full (long ones but for a tenth) and get leaves of
 * their own.  Does nothing, without a round trip, where the caches say there
 * is room; else eight or nine, for all leaves of all trees.
 * Returns where no room could be made, since nobody splits a leaf that is loading: when that is settled one reserves again.
 */
extern MosqlBusyLeaf mosql_btree_reserve(const MosqlTreeKeys *wanted, int n);

/*
 * Before keys of several trees of one store are looked for, each tree by itself: what the caches do not know
 * of their leaves is read together, in one round trip instead of one for each tree.  Advisory: leaves to which
 * the caches do not lead are left out.
 */
extern void mosql_btree_look_ahead(const MosqlTreeKeys *wanted, int n);

/* After a step reported nfields: is this leaf due for a split? */
extern bool mosql_btree_is_crowded(int nfields, size_t row_bytes);

/*
 * Read the leaf that covers key and split it if it is really over the limits;
 * at_end: key was the largest of an ascending run, so split there, not in the
 * middle.
 */
extern void mosql_btree_split(MosqlTree *tree, MosqlBytes key, bool at_end);

/* --- leaves that a commit fills --- */

/* Are they to be filled in this tree, and how?  NONE, as it is in the beginning: no. */
extern void mosql_btree_set_loads(MosqlTree *tree, MosqlCompression how);
extern MosqlCompression mosql_btree_loads(const MosqlTree *tree);

/*
 * Add what makes an empty leaf of the group's keys loading, with rows of these columns in a block, to a step that compares
 * the generation and that the leaf is empty.  False, and nothing is added, if the caches do not have the leaf
 * as a normal one, or a block does not pay.
 */
extern bool mosql_btree_fill(MosqlTree *tree, const MosqlLeafGroup *group, MosqlTxid loader, MosqlCompression how,
							 const MosqlBytes *keys, const MosqlBytes *columns, MosqlStep *step);

/*
 * Add what makes a packed leaf (rewrites) loading, over its rows, with these columns at the group's keys (absent: deleted), to a step that compares
 * the generation and that nothing is beside the block, or but locks (locks) of its transaction, which go.  False, and nothing is added, if the leaf would have more rows than
 * fit, or the block does not pay.
 */
extern bool mosql_btree_rewrite(MosqlTree *tree, const MosqlLeafGroup *group, MosqlTxid loader, bool locks, MosqlCompression how,
								const MosqlBytes *keys, const MosqlBytes *columns, MosqlStep *step);

/*
 * The step that settles a leaf that is loading for an attempt: committed at `since` (whole: some snapshot may ask what
 * was before; else the purge mark is raised where something is deleted), or, since 0, taken back.  NULL if the caches do not have it so under this generation, as they have it when it was grouped
 * or read.  In the current context.
 */
extern MosqlStep *mosql_btree_settle_step(MosqlTree *tree, uint64 leaf, uint64 generation, MosqlTxid loader,
										  MosqlTimestamp since, bool whole);

/*
 * The next meta of a packed leaf, of which no snapshot asks any more what was there before it was written as a whole; empty: no
 * row is left, so that it needs no block.  In the current context.
 */
extern MosqlBytes mosql_btree_plain_meta(const MosqlNodeMeta *meta, bool empty);

/* What a step that was done has written to a leaf's meta is what the caches have from now on. */
extern void mosql_btree_remember(MosqlTree *tree, const MosqlStep *step);

/* --- trees that nobody else writes to --- */

/*
 * Write rows, ascending and above all that the tree holds, into leaves that a tenth is left free of.
 * Returns how many of them: what does not fill a leaf is to come again first with the next
 * call, unless this is the last one (finish).  how: leaves of some rows are packed, unless it is NONE.  40001
 * if somebody else has written there, or a connection broke, where a server may have forgotten
 * then.  About six round trips for any number of rows.
 */
extern int	mosql_btree_load(MosqlTree *tree, const MosqlBytes *keys, const MosqlBytes *rows, int n,
							 MosqlCompression how, bool finish);

/* --- reading by key --- */

typedef struct MosqlPoint
{
	MosqlBytes	row;			/* raw fields, data NULL: absent */
	MosqlBytes	intent;
	MosqlTimestamp purged;
	uint64		leaf;
	MosqlTxid	loader;			/* the leaf is loading for that attempt: an intent stands for what its block has */
	bool		locks;			/* ... and it stands for locks of its transaction */
} MosqlPoint;

/*
 * Read keys (any order, duplicates allowed), each from a leaf that covers it;
 * one round trip when the cached paths are right.  Reading a frozen range
 * needs no help: its leaf still holds the rows.
 */
extern void mosql_btree_get(MosqlTree *tree, const MosqlBytes *keys, int n, MosqlPoint *points);

/*
 * The same of one key, in a node that came otherwise; no round trip.  Bytes point into the image.  False: this is no leaf
 * that has the key for all to read, its rows are in a block, or another state of it is known.
 */
extern bool mosql_btree_get_in(MosqlTree *tree, MosqlBytes key, const MosqlNodeImage *image, MosqlPoint *point);

/* --- reading ranges --- */

typedef struct MosqlEntry
{
	MosqlBytes	key;
	MosqlBytes	row;			/* data NULL: none (only an intent or a mark) */
	MosqlBytes	intent;
	MosqlBytes	marks;
	bool		in_block;		/* the row is in the leaf's block, and no field */
} MosqlEntry;

typedef struct MosqlLeaf
{
	uint64		node;
	MosqlNodeMeta meta;
	MosqlTimestamp purged;
	MosqlBytes	range_marks;
	int			nfields;		/* as stored: a block is one */
	MosqlBytes	block;			/* packed: as stored, in the image */
	MosqlTimestamp newest;		/* packed: of the block's rows; MOSQL_TS_MAX: not known */
	bool		stale;			/* packed: the block holds more than rows (mosql_loaded_is_stale()) */
	int			n;				/* entries within the scan's range, ascending */
	MosqlEntry *entries;
	bool		clipped;		/* it has others, beyond that range */
	int			nall;			/* all of its entries, as they were read */
	MosqlEntry *all;			/* NULL: the scan does not keep them */
} MosqlLeaf;

/* Is a leaf in a state, and of a size, to be packed; or is it packed, and stale? */
extern bool mosql_btree_may_pack(const MosqlLeaf *leaf);

/*
 * Pack leaves that were read, may be packed, and hold nothing but rows, where that pays, and where they are
 * still as they were read.  Changed ones stay as they are; those that are stale, and do not pay any more, are unpacked.  One round trip.
 */
typedef struct MosqlPackCounts
{
	uint64		leaves;			/* packed */
	uint64		bytes_before;	/* of their fields, as Redis keeps them, about */
	uint64		bytes_after;	/* of their blocks */
} MosqlPackCounts;

extern void mosql_btree_pack(MosqlTree *tree, const MosqlLeaf *const *leaves, int n, MosqlCompression how,
							 MosqlPackCounts *counts);

typedef struct MosqlScan MosqlScan;

/*
 * Scan keys low <= key < high (low empty, high.data NULL: no bound), in
 * windows of leaves, each window one round trip, growing from first_window to
 * 64 leaves.  Copies the bounds.  Memory in a child of the current context.
 */
extern MosqlScan *mosql_btree_scan_begin(MosqlTree *tree, MosqlBytes low, MosqlBytes high,
										 bool backward, int first_window);

/* Keys low <= key < high; high.data NULL: no bound. */
typedef struct MosqlKeyRange
{
	MosqlBytes	low;
	MosqlBytes	high;
} MosqlKeyRange;

/*
 * The same for n ranges, ascending and disjoint, in one scan: leaves of many small
 * ranges share windows.  What is returned of a leaf is what is in some range.
 */
extern MosqlScan *mosql_btree_scan_begin_ranges(MosqlTree *tree, const MosqlKeyRange *ranges,
												int n, bool backward, int first_window);

/*
 * The next window: leaves in scan order (entries ascending in each, whatever
 * the direction).  0 at the end.  Valid until the next call.
 */
extern int	mosql_btree_scan_next(MosqlScan *scan, MosqlLeaf **leaves);

/* From now on leaves come with what is outside of the ranges, too (MosqlLeaf.all). */
extern void mosql_btree_scan_keep_all(MosqlScan *scan);

/* From now on each leaf leaves a hint, as those of the first windows do: what is read will be certified. */
extern void mosql_btree_scan_keep_hints(MosqlScan *scan);

/*
 * How many nodes the first window of such a scan would read, as far as the caches know, without a round trip; 0: they do not.  ids, with room for
 * first_window + 1, gets them.  Who has read them since the scan's snapshot was drawn gives them to the scan, which they must outlive.
 */
extern int	mosql_btree_first_nodes(MosqlTree *tree, const MosqlKeyRange *ranges, int n, bool backward,
									int first_window, uint64 *ids);
extern void mosql_btree_scan_give(MosqlScan *scan, const uint64 *ids, int n, const MosqlNodeImage *images);

/* From now on a window is read as it is at one moment, where that can be done; told: with the schema version of then or later. */
extern void mosql_btree_scan_at_once(MosqlScan *scan, bool told);
extern void mosql_btree_scan_end(MosqlScan *scan);

/* Was the last window all that was left of the ranges, and read at one moment?  One leaf always is. */
extern bool mosql_btree_scan_was_at_once(const MosqlScan *scan);

/* The schema version that came with the last window; 0: none did. */
extern uint64 mosql_btree_scan_schema(const MosqlScan *scan);

/*
 * The leaf that covers a key as far as the caches know, read or not; a round trip or more only
 * where a read of the key would take it as well.
 */
extern uint64 mosql_btree_leaf_of(MosqlTree *tree, MosqlBytes key);

/*
 * Do all keys low <= key < high (data NULL: no bound) belong to one leaf, or to some, at most so many (no more than
 * MOSQL_BTREE_AT_ONCE), that can be read at one moment, told: with the schema version, as far as the caches know?  As many round trips.
 */
#define MOSQL_BTREE_AT_ONCE 8
extern bool mosql_btree_reads_at_once(MosqlTree *tree, MosqlBytes low, MosqlBytes high, int most, bool told);

/* Read one leaf that covers key, decoded in full (no range clipping). */
extern MosqlLeaf *mosql_btree_read_leaf(MosqlTree *tree, MosqlBytes key);

/*
 * Keys within a range, ascending and distinct, that divide it into pieces of a similar number of
 * leaves, as the inner nodes have it now; at most max of them, in the current context.  The ends of
 * the range are not among them.  A round trip for each inner node above those that are used, as far
 * as the cache does not have it.  A hint: nobody splits or merges by it.
 */
extern int	mosql_btree_divide(MosqlTree *tree, MosqlKeyRange range, int max, MosqlBytes *keys);

/* --- merging: for maintenance --- */

/*
 * Merge leaves, as read and thought to be empty, into their left neighbours.
 * Those that are not empty any more, or cannot be merged, stay.  Ascending; about
 * six round trips for any number of neighbours.  Returns how many went.
 */
extern int	mosql_btree_merge_leaves(MosqlTree *tree, MosqlLeaf *const *leaves, int n);

/*
 * Merge inner nodes that end at a key (data NULL: the last ones) into their left
 * neighbours where both are small.  To be called as a pass over the leaves
 * arrives there.  Returns how many went.
 */
extern int	mosql_btree_merge_parents(MosqlTree *tree, MosqlBytes end);

typedef enum MosqlNodeUse
{
	MOSQL_NODE_USED,			/* part of the tree, or not to be decided now */
	MOSQL_NODE_UNLINKED,		/* dead, and whoever begins to search now does not
								 * meet it; to be deleted when all sessions that live
								 * now have ended */
	MOSQL_NODE_UNREACHABLE		/* nobody can reach it, and nobody ever will */
} MosqlNodeUse;

/*
 * What use is a node of this tree (not its root) that was found by name, with this
 * meta?  Finishes a merge that it is in; unlinks it if it is dead; if it is
 * unreachable makes sure that it stays so.  The tree must exist (else 42P01).
 */
extern MosqlNodeUse mosql_btree_examine(MosqlTree *tree, uint64 node, const MosqlNodeMeta *meta);

/*
 * Where what a damaged node keeps from being read ends, at the latest: a key above this
 * one up to which the tree can be left out, as the sound inner nodes above tell; absent
 * if there is nothing behind it.  In the current context; bypasses the cache.  XX001 only
 * if the root itself is damaged.
 */
extern MosqlBytes mosql_btree_bound_after(MosqlTree *tree, MosqlBytes key);

/* --- repair (mend.c) --- */

/* A node of the tree, the root among them, that was found by its name, and whose meta decodes. */
typedef struct MosqlKnownNode
{
	uint64		node;
	MosqlNodeMeta meta;
	int			nchildren;		/* -1: a leaf, or they do not decode */
	MosqlChild *children;
} MosqlKnownNode;

/* Set the children of a known node; they point into the separators. */
extern void mosql_btree_known_children(MosqlKnownNode *known, MosqlBytes separators);

typedef enum MosqlMendKind
{
	MOSQL_MEND_FIELD,			/* of a leaf, taken out: low is its key */
	MOSQL_MEND_LEAF,			/* made anew with what decodes of it */
	MOSQL_MEND_LOST,			/* a leaf, made anew, empty: what there was from low to high is lost */
	MOSQL_MEND_INNER,			/* made anew from what is below: nothing is lost */
	MOSQL_MEND_SPLIT,			/* called off, since new leaves of it are lost */
	MOSQL_MEND_SIGNPOST,		/* no part of the tree, but met by searches: made anew */
	MOSQL_MEND_LEFT,			/* a sound leaf, left out: a dead split may have left it */
	MOSQL_MEND_DOUBT,			/* sound leaves, kept: a dead split may have left them */
	MOSQL_MEND_NOT				/* sound nodes contradict each other: left alone */
} MosqlMendKind;

typedef struct MosqlMending
{
	bool		dry_run;
	void	   *arg;

	/* what is wrong with a row; NULL: nothing */
	const char *(*row_fault) (void *arg, MosqlBytes key, MosqlBytes row);
	void		(*report) (void *arg, MosqlMendKind kind, uint64 node, MosqlBytes low,
						   MosqlBytes high, const char *fault);
} MosqlMending;

/*
 * Make nodes that are missing or do not decode anew, under their own ids, and take out of
 * leaves what does not decode.  known is sorted.  Reads each node once, in batches; may run
 * beside other work.  Returns how many nodes and fields are, or would be, changed.
 */
extern int	mosql_btree_mend(MosqlTree *tree, MosqlKnownNode *known, int n,
							 const MosqlMending *how);

/* --- whole trees --- */

/* Ids of all leaves in key order, from the inner nodes above them. */
extern int	mosql_btree_leaf_ids(MosqlTree *tree, uint64 **ids);

/* Read leaves by id, for sampling; absent or dead ones come back with n = 0. */
extern void mosql_btree_read_leaves(MosqlTree *tree, const uint64 *ids, int n, MosqlLeaf **leaves);

/* Rows (estimate) and levels: inner nodes read, a few leaves sampled. */
extern void mosql_btree_estimate(MosqlTree *tree, double *rows, double *row_bytes,
								 double *leaves, int *levels);

/*
 * Check structure: levels, fences that join, order, separators that lead to
 * their keys, generations, siblings, rows within fences, no unfinished split
 * left unfinishable.  Calls report once per finding (severity: 'E' broken,
 * 'W' unfinished work such as a split or a missing link).  on_leaf, if given,
 * sees each leaf, so that the layer above can check rows and intents.  With
 * concurrent writers a finding may be a passing state: what is found is read
 * again once before it is reported.
 */
typedef void (*MosqlCheckReport) (void *arg, char severity, uint64 node, const char *what);
typedef void (*MosqlCheckLeaf) (void *arg, const MosqlLeaf *leaf);
extern void mosql_btree_check(MosqlTree *tree, MosqlCheckReport report,
							  MosqlCheckLeaf on_leaf, void *arg);

/* Every node in key order, for mosql_fdw_dump: fence keys, state, sizes. */
typedef void (*MosqlDumpNode) (void *arg, uint64 node, const MosqlNodeMeta *meta,
							   int nentries, int nintents, size_t bytes);
extern void mosql_btree_dump(MosqlTree *tree, MosqlDumpNode each, void *arg);

#endif							/* MOSQL_BTREE_H */
