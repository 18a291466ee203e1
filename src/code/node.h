/*
 * node.h: tree nodes and intents as bytes.
 *
 * Layer: code.  Pure functions; docs/format.md gives the bytes.
 *
 * A node is one Redis hash.  Its fields:
 *
 *     "m"        meta (below); its first 8 bytes are the generation, so that a
 *                step can compare them alone
 *     "s"        inner nodes: the sorted separators and children
 *     "p"        leaves: purge mark, 7 bytes timestamp (absent: 0)
 *     "l"        leaves: transactions with a range read mark on the leaf
 *     "r" + key  leaves: a row's history
 *     "b"        packed leaves: the rows that have no field, in one block (block.h)
 *     "i" + key  leaves: the intent on that key
 *     "k" + key  leaves: transactions with a read mark on that key
 *     "u"        dead nodes: when they were unlinked; see src/txn/sweep.c
 *     "d"        roots: whose tree it is; see src/table/label.c
 *
 * A list of transactions is a concatenation of 16-byte transaction ids.
 */
#ifndef MOSQL_NODE_H
#define MOSQL_NODE_H

#include "base/base.h"
#include "base/limits.h"

/* An id of a node: the session that made it (0: a fixed root), and a number of these bits. */
#define MOSQL_ID_COUNTER_BITS	(64 - MOSQL_SESSION_ID_BITS)

#define MOSQL_FIELD_META		'm'
#define MOSQL_FIELD_SEPARATORS	's'
#define MOSQL_FIELD_PURGED		'p'
#define MOSQL_FIELD_RANGE_MARKS	'l'
#define MOSQL_FIELD_ROW			'r'
#define MOSQL_FIELD_BLOCK		'b'
#define MOSQL_FIELD_INTENT		'i'
#define MOSQL_FIELD_KEY_MARKS	'k'
#define MOSQL_FIELD_UNLINKED	'u'
#define MOSQL_FIELD_LABEL		'd'

#define MOSQL_PURGED_FIELD		mosql_bytes("p", 1)

/* In a meta: its state; what of the following there is; the right sibling, or else the fences. */
#define MOSQL_META_STATE_OFFSET	10
#define MOSQL_META_FLAGS_OFFSET	11
#define MOSQL_META_RIGHT_OFFSET	20

#define MOSQL_GENERATION_BYTES	8
#define MOSQL_TXID_BYTES		16
#define MOSQL_TS_BYTES			7
#define MOSQL_NODE_FORMAT		1

/* The Redis key of a node: "<ns>:{<16 hex digits>}", appended to out. */
extern void mosql_node_key(StringInfo out, const char *ns, uint64 node);

/* The inverse, for sweeps over all keys; false if it is no node's key. */
extern bool mosql_node_key_parse(MosqlBytes redis_key, const char *ns, uint64 *node);

/* A pattern for SCAN that matches all of these and little else. */
extern void mosql_node_key_pattern(StringInfo out, const char *ns);

/* Append field name prefix + key. */
extern void mosql_field_put(StringInfo out, char prefix, MosqlBytes key);

extern void mosql_ts_put(StringInfo out, MosqlTimestamp ts);
extern MosqlTimestamp mosql_ts_get(const char *data);
/* A generation, and a timestamp, as a step compares it; palloc'ed. */
extern MosqlBytes mosql_generation_bytes(uint64 generation);
extern MosqlBytes mosql_ts_bytes(MosqlTimestamp ts);
extern void mosql_txid_put(StringInfo out, MosqlTxid tx);
extern MosqlTxid mosql_txid_get(const char *data);

typedef enum MosqlNodeState
{
	MOSQL_NODE_NORMAL = 'N',
	MOSQL_NODE_SPLITTING = 'S', /* keys >= split_key are frozen, go to `other` */
	MOSQL_NODE_PACKED = 'P',	/* a leaf whose rows are frozen, in one block */
	MOSQL_NODE_LOADING = 'L',	/* a leaf whose block is of a transaction that may not be decided */
	MOSQL_NODE_DYING = 'D',		/* being merged away: serves nobody */
	MOSQL_NODE_DEAD = 'X'		/* signpost: its keys are at `other` */
} MosqlNodeState;

/* Does a node in this state serve its keys?  (A splitting one those below its split key.) */
static inline bool
mosql_node_is_alive(MosqlNodeState state)
{
	return state != MOSQL_NODE_DYING && state != MOSQL_NODE_DEAD;
}

/*
 * A block that was written before its transaction was decided: what that writes carries no timestamp, and what it is stands
 * here (docs/commit.md, "Loaded leaves").  All 0: all rows are what they say, or there is no block.
 */
typedef struct MosqlLoaded
{
	MosqlTxid	loader;			/* LOADING: the attempt, of which that is intents */
	bool		over;			/* LOADING: the leaf was packed, and its rows are in the block, too */
	bool		deletes;		/* LOADING over rows, and PACKED whole: some of these are deleted */
	bool		locks;			/* LOADING over rows: it stands for locks of its transaction, too */
	MosqlTimestamp since;		/* PACKED: when it was decided */
	bool		whole;			/* ... and what was before that may be asked for; else nobody can ask */
	bool		undone;			/* PACKED: it was taken back: what was before is what is there */
} MosqlLoaded;

typedef struct MosqlNodeMeta
{
	uint64		generation;		/* goes up whenever meta or separators change */
	uint8		level;			/* 0: leaf */
	MosqlNodeState state;
	uint64		tree;			/* root id of the tree it belongs to */
	uint64		right;			/* right sibling, 0: none */
	uint64		other;			/* SPLITTING: the new node; DEAD: the heir */
	MosqlBytes	low;			/* inclusive; empty: no bound */
	MosqlBytes	high;			/* exclusive; data NULL: no bound */
	MosqlBytes	split_key;		/* SPLITTING only */
	MosqlLoaded loaded;			/* LOADING and PACKED only */
} MosqlNodeMeta;

extern void mosql_meta_encode(StringInfo out, const MosqlNodeMeta *meta);

/* Byte strings point into `in`.  False if damaged or of an unknown format. */
extern bool mosql_meta_decode(MosqlBytes in, MosqlNodeMeta *meta);

/* Where a key stands to a node. */
typedef enum MosqlCover
{
	MOSQL_COVER_OK,
	MOSQL_COVER_LEFT,			/* key < low */
	MOSQL_COVER_RIGHT,			/* key >= high: go to `right` */
	MOSQL_COVER_FROZEN,			/* the split must be finished first */
	MOSQL_COVER_DYING,
	MOSQL_COVER_DEAD			/* go to `other` */
} MosqlCover;
extern MosqlCover mosql_meta_cover(const MosqlNodeMeta *meta, MosqlBytes key);

/* --- inner nodes --- */

/*
 * n children; child i holds keys from separator[i] (separator[0] is the
 * node's low fence) up to separator[i + 1].
 */
typedef struct MosqlChild
{
	MosqlBytes	separator;
	uint64		node;
} MosqlChild;

extern void mosql_children_encode(StringInfo out, const MosqlChild *children, int n);

/* Palloc'ed array, bytes point into `in`; false if damaged or not ascending. */
extern bool mosql_children_decode(MosqlBytes in, MosqlChild **children, int *n);

/* --- intents --- */
typedef enum MosqlIntentKind
{
	MOSQL_INTENT_PUT = 'P',		/* payload: the row's columns */
	MOSQL_INTENT_DELETE = 'D',
	MOSQL_INTENT_INCREMENT = 'I'	/* payload: increments (row.h) */
} MosqlIntentKind;

typedef struct MosqlIntent
{
	MosqlTxid	tx;				/* the first 16 bytes */
	MosqlIntentKind kind;
	MosqlBytes	payload;
} MosqlIntent;

/*
 * Append an intent.  An intents field holds one 'P' or 'D', or any number of
 * increments of different transactions one after the other: those commute.
 */
extern void mosql_intent_encode(StringInfo out, const MosqlIntent *intent);

/*
 * The next intent of a field; payload points into it.  Returns 1: got one,
 * 0: end, -1: damaged.
 */
extern int	mosql_intent_next(MosqlBytes *in, MosqlIntent *intent);

/*
 * What the increments of an intents field may add to a column, at most: those up, and those down.
 * *other: whose one of them is, if there is one.  False if there is something else, or it does not decode.
 */
extern bool mosql_intents_sum(MosqlBytes intents, uint32 column, int64 *plus, int64 *minus, MosqlTxid *other);

/* Bytes that encoded increments may have: their length is one byte. */
#define MOSQL_INCREMENTS_MAX_BYTES 255

/* Where an intent's kind stands, and the kind that lets others in. */
#define MOSQL_INTENT_KIND_OFFSET 16
#define MOSQL_INTENT_SHARED_KINDS "I"
#define MOSQL_INTENT_LIVE_KINDS "PI"	/* that leave a live row live */

/* Damaged stored bytes: XX001 naming the Redis key and what is wrong. */
extern void mosql_report_damage(const char *ns, uint64 node, const char *what) pg_attribute_noreturn();

#endif							/* MOSQL_NODE_H */
