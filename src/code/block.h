/*
 * block.h: all rows of a packed leaf as one run of bytes.
 *
 * Layer: code.  Pure functions; docs/format.md gives the bytes.  A block is only
 * another representation of row fields: each row's bytes (row.h) come out as they went
 * in.  Keys leave out what they share with the key before; the whole is compressed where
 * that makes it smaller.
 */
#ifndef MOSQL_BLOCK_H
#define MOSQL_BLOCK_H

#include "base/base.h"
#include "base/limits.h"

/* How; of which the smaller is the faster to read. */
typedef enum MosqlCompression
{
	MOSQL_COMPRESSION_NONE,
	MOSQL_COMPRESSION_LZ4,
	MOSQL_COMPRESSION_ZSTD
} MosqlCompression;

/*
 * Append a block: n > 0 ascending distinct keys, each with its row, at most
 * MOSQL_BLOCK_MAX_ROWS.  It is compressed if that is wanted and makes it smaller; the
 * first byte says how.  Throws 54000 beyond MOSQL_BLOCK_MAX_BYTES.
 */
extern void mosql_block_encode(StringInfo out, MosqlCompression compression, const MosqlBytes *keys,
							   const MosqlBytes *rows, int n);

typedef struct MosqlBlock
{
	int			n;
	MosqlBytes *keys;
	MosqlBytes *rows;
} MosqlBlock;

/*
 * All rows, in two allocations of the current context; nothing points into `in`.  False
 * if damaged.
 */
extern bool mosql_block_decode(MosqlBytes in, MosqlBlock *block);

/*
 * The rows of n ascending distinct keys, absent (data NULL) where there are none, in one
 * allocation of the current context; what was decompressed is freed.  False if damaged.
 */
extern bool mosql_block_find(MosqlBytes in, const MosqlBytes *keys, int n, MosqlBytes *rows);

#endif							/* MOSQL_BLOCK_H */
