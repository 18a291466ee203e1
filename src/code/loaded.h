/*
 * loaded.h: rows of a block that was written before its transaction was decided.
 *
 * Layer: code.  Pure functions.  Such rows stand in the block without a timestamp; what they are the leaf's
 * meta says (MosqlLoaded).
 */
#ifndef MOSQL_LOADED_H
#define MOSQL_LOADED_H

#include "code/node.h"

/* Append a row for such a block. */
extern void mosql_loaded_put(StringInfo out, MosqlBytes columns);

/*
 * What n rows that came out of a leaf's block (block.h; absent ones stay) are by its meta: as they are stored, if
 * they carry timestamps of their own; if the leaf is loading, intents of the loader; else rows of the time since
 * when they are there.  They are written to where they are, or to memory of the current context.  False if damaged.
 */
extern bool mosql_loaded_take(const MosqlLoaded *loaded, MosqlBytes *rows, int n);

#endif							/* MOSQL_LOADED_H */
