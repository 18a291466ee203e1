/*
 * btree_int.h: what the files of the tree share.
 *
 * Layer: btree, private.  See README.md for the argument behind the protocol.
 *
 * Memory.  Each public call begins with mosql_btree_enter(): it empties the
 * tree's scratch context and brings the cache back under its bound.  Between
 * two such points nothing in the cache is freed, so that pointers to cached
 * nodes and to their keys hold for the whole call.  Results for the caller go
 * into the context that was current when the call was made.
 */
#ifndef MOSQL_BTREE_INT_H
#define MOSQL_BTREE_INT_H

#include "base/base.h"
#include "base/debug.h"
#include "base/limits.h"
#include "base/retry.h"
#include "base/stats.h"
#include "btree/btree.h"
#include "code/block.h"
#include "code/node.h"
#include "step/step.h"

/* Longest wait for somebody else's half-done work before an error says so. */
#ifndef BTREE_WAIT_MS
#define BTREE_WAIT_MS			10000
#endif

/* Descents from the root in one search that got nowhere: then it is damage. */
#define BTREE_MAX_RESTARTS		8

/* Right siblings followed from a cached parent before the parent is read again. */
#define BTREE_CACHED_HOPS		3

/* Right siblings followed from a fresh parent before they are linked to it. */
#define BTREE_LINK_HOPS			64

/* Times that a search meets a node being merged away before it helps. */
#define BTREE_MERGE_WAITS		4

/* Metas or inner nodes read in one batch; whole leaves read in one batch. */
#define BTREE_READ_BATCH		1024
#define BTREE_LEAF_BATCH		256

/* Leaves in the largest window of a scan. */
#ifndef BTREE_SCAN_WINDOW
#define BTREE_SCAN_WINDOW		64
#endif

/*
 * Which keys a block has not: a Bloom filter.  Of a full leaf's block it says of one key in forty or so that it may be there, which is
 * not.
 */
#define BTREE_FILTER_WORDS		8

typedef struct BlockFilter
{
	bool		filled;
	uint64		bits[BTREE_FILTER_WORDS];
} BlockFilter;

/*
 * An inner node, or what is known of a leaf ("hint": its meta and number of
 * fields).  One chunk of memory with all its bytes.
 */
typedef struct CachedNode
{
	uint64		id;
	struct CachedNode *chain;	/* next in the bucket, or in the retired list */
	struct CachedNode *prev;	/* ring of the clock */
	struct CachedNode *next;
	size_t		size;
	uint64		epoch;			/* tree->epoch when it was read */
	int			usage;			/* rounds of the clock it survives */
	int			nfields;		/* leaves; -1: not known */
	bool		copied;			/* in this generation it is known to have its copies */
	MosqlNodeMeta meta;
	BlockFilter *filter;		/* of the block of a packed leaf in this generation; else NULL (beside.c) */
	MosqlTimestamp newest;		/* of that block's rows; MOSQL_TS_MAX: not known */
	int			nchildren;		/* inner nodes */
	MosqlChild *children;
} CachedNode;

/* Is a leaf packed, with a block that has something newer than that, or may have it? */
static inline bool
mosql_btree_has_newer(const CachedNode *leaf, MosqlTimestamp at_most)
{
	return leaf->meta.state == MOSQL_NODE_PACKED && leaf->newest > at_most;
}

/* Where the keys of an inner node's child end, as the node has it; data NULL: nowhere. */
static inline MosqlBytes
mosql_btree_child_end(const CachedNode *parent, int c)
{
	return c + 1 < parent->nchildren ? parent->children[c + 1].separator : parent->meta.high;
}

/* A block as it was read by key, so that who writes there need not read it again. */
typedef struct KeptBlock
{
	uint64		leaf;
	uint64		generation;
	MosqlBytes	bytes;			/* what its rows are, the leaf's meta says */
} KeptBlock;

/* So many of a tree: some 100 kB. */
#ifndef BTREE_BLOCKS
#define BTREE_BLOCKS			32
#endif

struct MosqlTree
{
	MosqlNodeStore *store;
	uint64		root;
	MemoryContext context;		/* the handle and its cache */
	MemoryContext call;			/* emptied by each public call */
	MemoryContext scratch;		/* that, or a part of it that ends sooner */

	/* what was read before this number is not fresh enough; see search.c */
	uint64		epoch;
	uint64		incarnation;	/* of the store when the cache was filled */
	uint64		breaks;			/* of the store when the call began */

	/* cache */
	bool		distrusted;		/* it may be what led to damage: to be emptied */
	CachedNode **buckets;
	uint32		nbuckets;		/* a power of two */
	uint32		nnodes;
	size_t		bytes;
	CachedNode *hand;			/* of the clock; NULL: empty */
	CachedNode *retired;		/* replaced during this call */

	MosqlCompression loads;		/* of leaves that a commit fills; NONE: it fills none */
	bool		together;		/* of its first leaves (place.c) */

	/* beside.c */
	KeptBlock  *blocks;			/* [BTREE_BLOCKS]; NULL: none yet */
	int			next_block;
};

/* --- cache.c --- */
extern void mosql_btree_enter(MosqlTree *tree);
extern bool mosql_btree_wakes_up(MosqlTree *tree);
extern CachedNode *mosql_btree_cache_find(MosqlTree *tree, uint64 id);
extern CachedNode *mosql_btree_cache_put(MosqlTree *tree, uint64 id, const MosqlNodeMeta *meta,
										 const MosqlChild *children, int nchildren, int nfields);
extern void mosql_btree_cache_drop(MosqlTree *tree, uint64 id);
extern void mosql_btree_hint_put(MosqlTree *tree, uint64 leaf, const MosqlNodeMeta *meta, int nfields);
extern void mosql_btree_hint_put_leaf(MosqlTree *tree, const MosqlLeaf *leaf);

/* --- place.c --- */
extern uint64 mosql_btree_new_leaf(MosqlTree *tree, int before);

/* --- node.c: decoding with checks, steps, errors --- */
extern bool mosql_btree_unbroken(MosqlTree *tree, void (*work) (void *arg), void *arg);
extern void mosql_btree_damage(const MosqlTree *tree, uint64 node, const char *what) pg_attribute_noreturn();
extern void mosql_btree_gone(const MosqlTree *tree) pg_attribute_noreturn();
extern void mosql_btree_astray(MosqlTree *tree, uint64 node, const char *what) pg_attribute_noreturn();
extern void mosql_btree_missing(MosqlTree *tree, uint64 node) pg_attribute_noreturn();
extern void mosql_btree_wait(const MosqlTree *tree, MosqlBudget *budget, uint64 node);
extern const char *mosql_btree_meta_fault(const MosqlTree *tree, uint64 node, MosqlBytes m,
										  MosqlNodeMeta *meta);
extern void mosql_btree_meta(const MosqlTree *tree, uint64 node, MosqlBytes m, MosqlNodeMeta *meta);
extern const char *mosql_btree_children_fault(const MosqlNodeMeta *meta, MosqlBytes s,
											  MosqlChild **children, int *n);
extern bool mosql_btree_serves(const MosqlTree *tree, const MosqlNodeMeta *meta, MosqlBytes key);
extern bool mosql_btree_same_bound(MosqlBytes a, MosqlBytes b);

static inline MosqlBytes
mosql_btree_meta_field(void)
{
	static const char name = MOSQL_FIELD_META;

	return mosql_bytes(&name, 1);
}

static inline MosqlBytes
mosql_btree_separators_field(void)
{
	static const char name = MOSQL_FIELD_SEPARATORS;

	return mosql_bytes(&name, 1);
}

extern MosqlBytes mosql_btree_image_field(const MosqlNodeImage *image, char field);
extern MosqlBytes mosql_btree_image_key_field(const MosqlNodeImage *image, char prefix, MosqlBytes key);
extern MosqlStep *mosql_btree_step_new(MosqlTree *tree, uint64 node, int max_writes);
extern void mosql_btree_step_expect_absent(MosqlStep *step);
extern void mosql_btree_step_expect_generation(MosqlStep *step, uint64 generation);
extern void mosql_btree_step_set(MosqlStep *step, MosqlBytes field, MosqlBytes value);
extern void mosql_btree_step_raise(MosqlStep *step, MosqlBytes field, MosqlBytes value);
extern void mosql_btree_step_delete(MosqlStep *step, MosqlBytes field);
extern uint64 mosql_btree_next_generation(uint64 generation);

/* Is it that of a node as it was created? */
extern bool mosql_btree_is_first_generation(uint64 generation);
extern MosqlBytes mosql_btree_meta_bytes(MosqlTree *tree, const MosqlNodeMeta *meta);
extern MosqlBytes mosql_btree_children_bytes(MosqlTree *tree, const MosqlChild *children, int n);
extern void mosql_btree_steps_run(MosqlTree *tree, MosqlStep **steps, int n);
extern bool mosql_btree_step_created(const MosqlStep *step);

/* A growing array of steps. */
typedef struct StepList
{
	MosqlStep **steps;
	int			n;
	int			max;
} StepList;

extern void mosql_btree_steps_add(MosqlTree *tree, StepList *list, MosqlStep *step);

/*
 * Cut a sequence of n items of given sizes into runs of at most max_items and
 * max_bytes (one larger item is a run alone).  starts[n] gets the first item
 * of each run; returns their number.
 */
extern int	mosql_btree_partition(const uint32 *sizes, int n, int max_items, size_t max_bytes,
								  bool fill, int *starts);

/* --- leaf.c --- */
extern MosqlLeaf *mosql_btree_leaf_decode(const MosqlTree *tree, const MosqlNodeImage *image,
										  MosqlLeaf *leaf);
extern const char *mosql_btree_leaf_fault(const MosqlNodeImage *image, MosqlLeaf *leaf);
extern void mosql_btree_leaf_clip(MosqlLeaf *leaf, MosqlBytes low, MosqlBytes high);
extern int	mosql_btree_leaf_position(const MosqlLeaf *leaf, MosqlBytes key);
extern bool mosql_btree_can_read_at_once(const MosqlTree *tree, const uint64 *ids, int n, bool told);
extern bool mosql_btree_read_images_at_once(MosqlTree *tree, const uint64 *ids, int n,
											MosqlNodeImage *images, uint64 *schema);
extern void mosql_btree_read_images(MosqlTree *tree, const uint64 *ids, int n, MosqlNodeImage *images);
extern MosqlLeaf *mosql_btree_read_covering(MosqlTree *tree, MosqlBytes key, bool backward);

/* --- beside.c --- */
extern bool mosql_btree_knows_newest(const CachedNode *hint, MosqlTimestamp at_most);
extern void mosql_btree_read_newest(MosqlTree *tree, const uint64 *ids, int n);

/* --- pack.c --- */
extern void mosql_btree_unpack(MosqlTree *tree, MosqlLeaf *const *leaves, int n);
extern bool mosql_btree_make_block(MosqlCompression how, const MosqlBytes *keys, const MosqlBytes *rows,
								   int n, StringInfo block, size_t *bytes);

/* --- search.c --- */

/* A run of keys on its way to the nodes that cover them. */
typedef struct SearchItem
{
	uint64		node;
	uint64		parent;			/* that led here; 0: none did */
	int			level;			/* of that node; -1: the root, whatever its level */
	int			first;			/* keys[first .. first + n - 1] */
	int			n;
	int			hops;			/* right links and heirs followed to get here */
	uint64		epoch;			/* what was read earlier does not count */
	MosqlBytes	from;			/* came by a right link from a node that ends
								 * here; data NULL: came from the parent */
	MosqlBytes	separator;		/* with which that parent leads here */
	MosqlBytes	dead;			/* low fence of a dead node that was in the way:
								 * look for what lies left of it (node is 0) */
	MosqlBytes	reached;		/* how far right a descent got before it had too many
								 * right links to follow; data NULL: none had */
	int			waits;			/* for a merge that this node is in */
	uint64		passed;			/* the inner node that led here by its right link, if that has
								 * to be confirmed; else 0 */
} SearchItem;

/* Siblings found by a right link; perhaps their parent does not know them. */
typedef struct SearchLink
{
	int			level;
	MosqlChild	child;
} SearchLink;

typedef struct Search
{
	MosqlTree  *tree;
	const MosqlBytes *keys;		/* ascending, distinct */
	int			level;			/* where to end */
	bool		backward;		/* one key: the node just below it (data NULL:
								 * the last node) instead of the one that covers it */
	bool		takes_dying;	/* end at nodes that are being merged away, too */
	bool		firm;			/* what is found is built on: see confirm_passed(), wants_copies() */
	SearchItem *items;			/* arrived, for the caller to settle */
	int			nitems;
	int			maxitems;
	SearchItem *pending;		/* still on their way */
	int			npending;
	int			maxpending;
	SearchLink *links;
	int			nlinks;
	int			maxlinks;
	uint64		incarnation;	/* of the tree when it began */
	MosqlBudget budget;
	int			passed;			/* dead nodes, by those who need this search to go on */
	bool		helped;			/* it has finished splits */
	int			restarts;
	bool		restarted;		/* in this round */
	bool		pause;			/* before the next round */
	MosqlChild *dying;			/* merges to finish before the next round */
	int			ndying;
	int			maxdying;
	MosqlChild *dangling;		/* separators of nodes that do not exist */
	int			ndangling;
	int			maxdangling;
	int			dangling_level; /* of those nodes */
	bool		relink;			/* insert links before the next round */
} Search;

extern void mosql_btree_search_begin(Search *s, MosqlTree *tree, const MosqlBytes *keys, int n, int level);
extern int	mosql_btree_search_next(Search *s);
extern int	mosql_btree_search_settle(Search *s, const SearchItem *item, const MosqlNodeMeta *meta);
extern void mosql_btree_search_again(Search *s, const SearchItem *item);
extern void mosql_btree_search_help(Search *s, const uint64 *leaves, int n);
extern void mosql_btree_search_end(Search *s);
extern void mosql_btree_read_inner(MosqlTree *const *trees, const uint64 *ids, int n);
extern void mosql_btree_take_hint(MosqlTree *tree, const MosqlFieldRead *read);
extern void mosql_btree_read_hints(MosqlTree *tree, const uint64 *ids, int n, bool blocks);
extern void mosql_btree_look_fields(MosqlTree *tree, MosqlFieldRead *reads, int n);
extern MosqlFieldRead *mosql_btree_meta_reads(const uint64 *nodes, int n);
extern void mosql_btree_look(MosqlTree *tree, const uint64 *nodes, int n, MosqlBytes *metas);
extern bool mosql_btree_is_current(MosqlTree *tree, const CachedNode *node);
extern CachedNode *mosql_btree_find_inner(MosqlTree *tree, MosqlBytes key, bool backward,
										  int level, uint64 epoch);
extern CachedNode *mosql_btree_find_root(MosqlTree *tree);
extern bool mosql_btree_has_level_above(MosqlTree *tree, int level);
extern CachedNode *mosql_btree_find_node(MosqlTree *tree, MosqlBytes key, bool backward,
										 int level, bool takes_dying);
/* What the cache has of an item's node, if it is fresh enough for it; or NULL. */
extern CachedNode *mosql_btree_search_cached(const Search *s, const SearchItem *item);
extern int	mosql_btree_child_index(const MosqlChild *children, int n, MosqlBytes key, bool backward);

/* --- group.c --- */
extern int	mosql_btree_group_keys(MosqlTree *tree, const MosqlBytes *keys, int n, MosqlTimestamp at_most,
								   bool guess, const MosqlKeyUse *uses, MosqlLeafGroup **groups);

/* --- inner.c --- */

/* Children for the inner nodes of one level of a tree. */
typedef struct MosqlNewChildren
{
	MosqlTree  *tree;
	MosqlChild *children;
	int			n;
} MosqlNewChildren;

extern int	mosql_btree_inner_insert_all(MosqlNewChildren *new, int n, int level);
extern int	mosql_btree_inner_insert(MosqlTree *tree, int level, MosqlChild *children, int n);
extern int	mosql_btree_inner_remove(MosqlTree *tree, int level, MosqlChild *children, int n);

/* --- merge.c --- */
extern void mosql_btree_merge_help(MosqlTree *tree, const MosqlChild *nodes, int n);

/* --- split.c --- */

/* One leaf to be cut into n + 1 pieces. */
typedef struct Split
{
	MosqlTree  *tree;
	MosqlLeaf  *leaf;
	int			n;
	MosqlBytes *bounds;			/* [n] low fences of the new leaves, ascending */
	uint64	   *nodes;			/* [n] ids of the new leaves */
	uint64		incarnation;	/* of the store before the leaf was read */
	bool		frozen;			/* leaf is as read after the freeze */
	bool		given_up;		/* somebody else was faster */
	bool		cut;			/* the leaf has lost its right part */
	bool		done;			/* by our cut */
	MosqlStep  *created;		/* the step that created R1, if it was ours */
	int			first_rest;		/* those that created R2 .. Rk */
	int			nrest;
} Split;

extern void mosql_btree_split_run(Split *splits, int n);
extern void mosql_btree_thaw(MosqlTree *tree, const uint64 *leaves, int n);
extern MosqlBytes mosql_btree_field_name(MosqlTree *tree, char kind, MosqlBytes key);

/* --- reserve.c --- */
extern MosqlBytes mosql_btree_bound_between(MosqlBytes prev, MosqlBytes next);

/* --- walk.c --- */

/* A node as a walk over a whole level meets it. */
typedef struct WalkNode
{
	uint64		id;
	bool		linked;			/* false: reached over a right link only */
	bool		found;
	const char *fault;			/* what is wrong with it; then only the above holds */
	MosqlNodeImage image;		/* if asked for */
	MosqlNodeMeta meta;
	MosqlChild *children;		/* inner nodes */
	int			nchildren;
} WalkNode;

/* How far the nodes of a level have been met, from left to right, and what leads on from there. */
typedef struct WalkEdge
{
	bool		known;
	uint8		level;
	MosqlBytes	high;			/* data NULL: it was the last of its level */
	uint64		right;
} WalkEdge;

extern WalkNode *mosql_btree_walk_any_root(MosqlTree *tree);
extern int	mosql_btree_walk(MosqlTree *tree, const MosqlChild *children, int n, MosqlBytes high,
							 WalkEdge *edge, bool whole, WalkNode **nodes);

#endif							/* MOSQL_BTREE_INT_H */
