/*
 * reuse.h: what view.c and scan.c need of reuse.c.
 */
#ifndef MOSQL_REUSE_H
#define MOSQL_REUSE_H

#include "txn/seen.h"
#include "txn/txn_int.h"

/* What was seen at the snapshot of a view, NULL: nothing is looked up there.  Made if the view
 * is to fill it. */
extern MosqlSeen *mosql_reuse_seen(MosqlView *view, MosqlTree *tree, MosqlTimestamp S);

/* Is what the view reads to be kept there? */
extern bool mosql_reuse_fills(const MosqlView *view, const MosqlSeen *seen);

/* The part that a key is in (seen.h), also among what the view has read ahead; and is anything
 * known there of the tree? */
extern const MosqlSeenPart *mosql_reuse_find(const MosqlView *view, const MosqlSeen *seen,
											 const MosqlTree *tree, MosqlBytes key, bool below);
extern bool mosql_reuse_knows(const MosqlView *view, const MosqlSeen *seen, const MosqlTree *tree);

/* The smallest key behind this one: with a zero byte at its end. */
extern MosqlBytes mosql_reuse_key_after(MosqlBytes key);

/*
 * Keep a leaf that was read, with `all` of its entries, after the snapshot was drawn, and whose
 * `entries` were settled: all stretches of keys without an intent that nobody has asked about,
 * and without damage.  Throws nothing but for memory.
 */
extern void mosql_reuse_keep_leaf(MosqlSeen *seen, MosqlTree *tree, const MosqlLeaf *leaf,
								  const MosqlStatusCache *cache);

/*
 * Rows by key (rows[where[i]] for wanted[i]): what is known is filled in, as
 * mosql_view_get() does, and noted as read; the others move to the front of both lists.
 * Returns how many.  A round trip only where a leaf that is come back to is read as a whole.
 */
extern int	mosql_reuse_get(MosqlView *view, MosqlTree *tree, MosqlSeen *seen, MosqlBytes *wanted,
							int *where, int n, MosqlRow *rows);

/* Keep a key that was read, settled, at the snapshot: its row, or (found false) that there is none. */
extern void mosql_reuse_keep_key(MosqlSeen *seen, MosqlTree *tree, const MosqlSeenRow *row,
								 bool found);

/* Keep rows that were read by key, settled, at the snapshot. */
extern void mosql_reuse_keep_rows(MosqlSeen *seen, MosqlTree *tree, const MosqlPoint *points,
								  const int *where, int n, const MosqlRow *rows);

#endif							/* MOSQL_REUSE_H */
