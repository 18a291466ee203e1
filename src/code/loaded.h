/*
 * loaded.h: rows of a block that was written before its transaction was decided.
 *
 * Layer: code.  Pure functions.  What the transaction writes stands in the block without a timestamp; what it is the leaf's
 * meta says (MosqlLoaded).
 */
#ifndef MOSQL_LOADED_H
#define MOSQL_LOADED_H

#include "code/node.h"

/*
 * Append what such a block has of a key that the transaction writes: the row before (absent: none; else a plain one that lives), and
 * the new columns (absent: it is deleted).  Not both are absent.
 */
extern void mosql_loaded_put(StringInfo out, MosqlBytes before, MosqlBytes columns);

/*
 * What n rows that came out of a leaf's block (block.h; absent ones stay) are by its meta.  Those that are rows stay as they are.  Of
 * the others, if the leaf is loading: the row before, or none, and an intent of the loader; if that was taken back: the
 * row before, or none; else the row since then, and what was before if that may be asked for, or none if it is deleted.
 * They are written to where they are, or to memory of the current context.  intents (NULL: they are not wanted): absent but of a leaf
 * that is loading.  False if damaged.
 */
extern bool mosql_loaded_take(const MosqlLoaded *loaded, MosqlBytes *rows, MosqlBytes *intents, int n);

/*
 * Does the block, as it was decoded, hold more than the rows that there are by the meta: what was before, or what is deleted or was
 * taken back?
 */
extern bool mosql_loaded_is_stale(const MosqlLoaded *loaded, const MosqlBytes *rows, int n);

#endif							/* MOSQL_LOADED_H */
