/*
 * seen.h: what a snapshot has seen, by stretches of keys (seen.c).
 *
 * Layer: txn.  Pure memory: who fills it, and who looks there, is reuse.c's business.
 */
#ifndef MOSQL_SEEN_H
#define MOSQL_SEEN_H

#include "base/base.h"

#define MOSQL_SEEN_LEVELS	12

typedef struct MosqlSeenRow
{
	MosqlBytes	key;
	MosqlBytes	columns;
	MosqlTimestamp version;
} MosqlSeenRow;

/*
 * All rows that there are, as the snapshot shows them, with low <= key < high (data NULL: no
 * bound), ascending.  Stays as it is, and where it is, as long as the MosqlSeen does.
 */
typedef struct MosqlSeenPart
{
	MosqlBytes	low;
	MosqlBytes	high;
	int			n;
	MosqlSeenRow *rows;
	int			height;
	struct MosqlSeenPart *next[FLEXIBLE_ARRAY_MEMBER];
} MosqlSeenPart;

typedef struct MosqlSeen MosqlSeen;

/* An empty one for the snapshot S, of so much memory; in a child of the parent. */
extern MosqlSeen *mosql_seen_create(MemoryContext parent, MosqlTimestamp S, size_t limit);
extern void mosql_seen_free(MosqlSeen *seen);
extern MosqlTimestamp mosql_seen_snapshot(const MosqlSeen *seen);

/* Was something refused because its memory is used up? */
extern bool mosql_seen_is_full(const MosqlSeen *seen);

/* Is anything known of this tree? */
extern bool mosql_seen_knows(const MosqlSeen *seen, uint64 root);

/* The part that a key is in, or (below) what is just below it, data NULL: the end; else NULL. */
extern const MosqlSeenPart *mosql_seen_find(const MosqlSeen *seen, uint64 root, MosqlBytes key,
											bool below);

/* The first row of a part with row.key >= key; part->n if there is none. */
extern int	mosql_seen_position(const MosqlSeenPart *part, MosqlBytes key);

/*
 * These are all rows with low <= key < high; copied.  What overlaps with parts that are there
 * goes in once.  Does nothing where there is no memory left.
 */
extern void mosql_seen_add(MosqlSeen *seen, uint64 root, MosqlBytes low, MosqlBytes high,
						   const MosqlSeenRow *rows, int n);

/* Note that rows of this leaf were read by key; was that so before, not long ago? */
extern void mosql_seen_note_leaf(MosqlSeen *seen, uint64 root, uint64 leaf);
extern bool mosql_seen_noted_leaf(const MosqlSeen *seen, uint64 root, uint64 leaf);
extern void mosql_seen_forget_leaf(MosqlSeen *seen, uint64 root, uint64 leaf);

#endif							/* MOSQL_SEEN_H */
