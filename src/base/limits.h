/*
 * limits.h: every bound of the product, with its reason.
 *
 * Those of the tree may be set smaller on the command line, so that tests get
 * deep trees from few rows.
 */
#ifndef MOSQL_LIMITS_H
#define MOSQL_LIMITS_H

/*
 * Rows in a leaf before it splits.  Redis searches a listpack from its start, so
 * longer leaves make every step dearer; shorter ones cost memory per row (about
 * 150 bytes of key and meta a leaf).  70 rows of 110 bytes just fill one of the
 * allocator's sizes (8 kB); with as many intents they stay a listpack when
 * hash-max-listpack-entries is at least 256.
 */
#ifndef MOSQL_LEAF_MAX_ROWS
#define MOSQL_LEAF_MAX_ROWS			70
#endif

/*
 * As full a load leaves a leaf, in percent: else the first row that comes to each splits it, which is eight round trips.
 * (As full as PostgreSQL's B-trees are by default.)
 */
#define MOSQL_LEAF_FILL_PERCENT		90
#define MOSQL_LEAF_FILL(max)		((max) * MOSQL_LEAF_FILL_PERCENT / 100)

/*
 * A leaf that is packed has so many rows, or half as many bytes as fit.  Smaller ones stay fields:
 * they take little, and small tables are written to all the time.
 */
#ifndef MOSQL_PACK_MIN_ROWS
#define MOSQL_PACK_MIN_ROWS			(MOSQL_LEAF_MAX_ROWS / 2)
#endif

/*
 * Fields of a packed leaf, at most, when who changes rows leaves it packed: a read by key
 * brings the block along, which is worth less and less.
 */
#ifndef MOSQL_BESIDE_MAX_FIELDS
#define MOSQL_BESIDE_MAX_FIELDS		(2 + MOSQL_LEAF_MAX_ROWS / 4)
#endif

/* So many rows of a packed leaf a commit writes by writing the leaf anew, if it can, instead of one by one. */
#ifndef MOSQL_REWRITE_MIN_ROWS
#define MOSQL_REWRITE_MIN_ROWS		(MOSQL_LEAF_MAX_ROWS / 4)
#endif

/*
 * Seconds after the newest of its rows that maintenance packs a leaf, unless option pack_after says other:
 * who comes back to a row mostly does so sooner.
 */
#define MOSQL_PACK_AFTER_S			600

/* Bytes in a leaf before it splits; a single larger row has a leaf alone. */
#ifndef MOSQL_LEAF_MAX_BYTES
#define MOSQL_LEAF_MAX_BYTES		(32 * 1024)
#endif

/* Children of an inner node before it splits: one node is one small read. */
#ifndef MOSQL_INNER_MAX_CHILDREN
#define MOSQL_INNER_MAX_CHILDREN	256
#endif

/* Bytes of separators in an inner node before it splits (long keys). */
#define MOSQL_INNER_MAX_BYTES		(64 * 1024)

/* Levels of a tree; 256^8 leaves never happen, so more is a damaged tree. */
#ifndef MOSQL_TREE_MAX_LEVEL
#define MOSQL_TREE_MAX_LEVEL		8
#endif

/* Steps along right siblings before a search calls the tree damaged. */
#define MOSQL_TREE_MAX_HOPS			1000

/* New leaves created by one split of one leaf (bulk loads). */
#ifndef MOSQL_SPLIT_MAX_PIECES
#define MOSQL_SPLIT_MAX_PIECES		4096
#endif

/* A key: 32 columns, 8 kB in all (a field name that every step repeats). */
#define MOSQL_KEY_MAX_COLUMNS		32
#define MOSQL_KEY_MAX_BYTES			8192

/*
 * Rows of a block, more than a leaf has: with the length of keys it bounds what decoding
 * allocates.  And its bytes before compression: what Redis takes as one value.
 */
#define MOSQL_BLOCK_MAX_ROWS		1024
#define MOSQL_BLOCK_MAX_BYTES		(4 * 1024 * 1024)

/* One value: 64 MB, so that a row and its intent stay below Redis' 512 MB. */
#define MOSQL_VALUE_MAX_BYTES		(64 * 1024 * 1024)

/* One row with all its columns. */
#define MOSQL_ROW_MAX_BYTES			(128 * 1024 * 1024)

/* Values longer than this are compressed where that makes them smaller. */
#define MOSQL_COMPRESS_MIN_BYTES	2048

/*
 * Snapshots in the list that a decision brings, the newest, before it has a gap: each costs the clock
 * 0.5 us; mostly fewer statements are under way.  And older versions of a row, beyond which its writer
 * asks for all snapshots: what a gap keeps may be more than anybody needs.
 */
#ifndef MOSQL_CLOCK_NEWEST
#define MOSQL_CLOCK_NEWEST			16
#endif
#ifndef MOSQL_ROW_LONG_VERSIONS
#define MOSQL_ROW_LONG_VERSIONS		32
#endif
#define MOSQL_ROW_LONG_BYTES		(16 * 1024)

/* Commands under way on one connection before replies are read. */
#define MOSQL_PIPELINE_MAX_COMMANDS	512
#define MOSQL_PIPELINE_MAX_BYTES	(1024 * 1024)

/*
 * Steps for one server that are one message, and their bytes: a server does nothing else while
 * it runs them.  A step that is larger is a message of its own.
 */
#define MOSQL_MESSAGE_MAX_STEPS		64
#define MOSQL_MESSAGE_MAX_BYTES		65536

/*
 * For how long each step is a message of its own after a server left some of one to be sent alone:
 * slots are on the move, or it wants each script to keep to one slot.  A round trip lost each time.
 */
#define MOSQL_MESSAGE_PAUSE_MS		1000

/*
 * Leaves of a tree that are together, on the Redis node of the clock: the first ones.  Four leaves are some 250 rows, or 128 kB:
 * what is one row per branch, teller, warehouse or district is there, and of a table that grows no more than that.
 */
#ifndef MOSQL_TOGETHER_MAX_LEAVES
#define MOSQL_TOGETHER_MAX_LEAVES	4
#endif

/*
 * Ids that are tried for one whose slot is there: with N nodes it takes N on average, so that up to some 50 nodes
 * hardly anybody tries in vain.  Each is one of the million that a session's id stands for, so where hardly any slot is there
 * it should not be many.
 */
#define MOSQL_TOGETHER_MAX_TRIES	200

/* Trees whose inner nodes a session remembers: each may fill a cache of its own. */
#ifndef MOSQL_SESSION_MAX_TREES
#define MOSQL_SESSION_MAX_TREES		256
#endif

/* A session's lease at the clock; renewed by every contact in its last half. */
#define MOSQL_LEASE_MS				60000

/* A sign of life (txn/sign.c) is kept for longer than anybody waits between two looks at it. */
#define MOSQL_SIGN_LIFE_MS			60000

/*
 * A statement goes by definitions only if the schema version was heard no longer ago than this; else
 * the clock is asked first.  Who drops a tree that is not gone yet waits for longer (rule 39), by another machine's
 * clock, which runs at another speed: where both are being set, at most by a twelfth (chrony's maxslewrate),
 * the one back and the other forth, a second there is 1.18 of them here.
 */
#define MOSQL_SCHEMA_FRESH_MS		1000
#define MOSQL_DROP_WAIT_MS			1250

/* For how long COMMIT destroys trees that it has dropped, unless mosql_fdw.drop_time says other. */
#define MOSQL_DROP_TIME_MS			500

/*
 * For how long maintenance keeps the outcome of a dead session's transaction, so
 * that whoever was told 08007 can ask.  Long enough for an operator to come back.
 */
#define MOSQL_OUTCOME_KEEP_MS		(INT64CONST(24) * 3600 * 1000)

/* Lease of a further prefix for a session's ids: longer than any transaction. */
#define MOSQL_PREFIX_LEASE_MS		(24 * 60 * 60 * 1000)

/*
 * Sessions of one backend that the keeper keeps alive at a time: one transaction uses that
 * many namespaces.  Those beyond live as long as their lease.
 */
#define MOSQL_KEPT_SESSIONS			4

/*
 * A session takes a new id that often, between transactions: nodes merged away go
 * only when the sessions that may know them have ended.
 */
#ifndef MOSQL_SESSION_MAX_AGE_MS
#define MOSQL_SESSION_MAX_AGE_MS	(5 * 60 * 1000)
#endif

/*
 * And not before that time after it: a message that was under way when its session
 * died (a network that heals, a process stopped while sending) is late by less.
 */
#define MOSQL_SIGNPOST_RETENTION_MS	(15 * 60 * 1000)

/*
 * For how long maintenance keeps a tree that was somebody's and that no definition names
 * any more: long enough for an operator to notice, and to attach it again.
 */
#define MOSQL_ORPHAN_RETENTION_S	(7 * 24 * 60 * 60)

/* What one tree's cached inner nodes may take, unless mosql_fdw.inner_cache_size says other. */
#define MOSQL_INNER_CACHE_KB	(16 * 1024)

/* What is kept of what one snapshot has read, unless mosql_fdw.snapshot_cache says other. */
#define MOSQL_SNAPSHOT_CACHE_KB	(16 * 1024)

/* Outer rows whose look-ups are read together, unless mosql_fdw.join_batch says other: a round trip
 * for each of them is then a thousandth. */
#define MOSQL_JOIN_BATCH		1000

/*
 * Values of a sequence that a query draws ahead, at most: a round trip for each is then a thousandth, and
 * they are used before long.
 */
#define MOSQL_SEQUENCE_AHEAD_MAX	1024

/* What the numbers of rows named by ctid may take between transactions, in all. */
#define MOSQL_NUMBERS_KEEP_BYTES	(4 * 1024 * 1024)

/* What a transaction keeps of the rows that it has locked, lest it reads them again to change them. */
#define MOSQL_LOCKED_ROWS_BYTES		(256 * 1024)

/*
 * A session id has so many bits; the other 20 of a node's id count the nodes that the
 * session makes.  Ids go with the time, 7812 a second, so that they last until 2097.
 */
#define MOSQL_SESSION_ID_BITS		44

/* Keys a transaction record names one by one before it names a range. */
#ifndef MOSQL_RECORD_MAX_KEYS
#define MOSQL_RECORD_MAX_KEYS		64
#endif

#endif							/* MOSQL_LIMITS_H */
