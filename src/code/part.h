/*
 * part.h: a commit's participants, as its record at the clock names them.
 *
 * Layer: code.  Whoever has to finish a dead session's commit finds its intents
 * and read marks by them.  A record holds any number of parts:
 *
 *     1 byte    kind: 'K' keys, 'R' range of keys, 'M' read marks, 'D' a tree to destroy
 *     varint    root of the tree
 *     varint    'K': number of keys; 'R': 2; 'M': 1; 'D': 0
 *               'K': the keys; 'R': the lowest and the highest one, inclusive;
 *               'M': the lowest one, then 1 byte: 1 if there is an upper bound,
 *               else 0; if so, that key, exclusive
 *
 * each key with its length before it, as a varint.
 */
#ifndef MOSQL_PART_H
#define MOSQL_PART_H

#include "base/base.h"

typedef enum MosqlPartKind
{
	MOSQL_PART_KEYS = 'K', MOSQL_PART_RANGE = 'R', MOSQL_PART_MARKS = 'M',
	MOSQL_PART_TREE = 'D'
} MosqlPartKind;

typedef struct MosqlPart
{
	MosqlPartKind kind;
	uint64		root;
	uint64		n;				/* KEYS */
	MosqlBytes	keys;			/* KEYS: encoded, for mosql_part_key() */
	MosqlBytes	low;			/* RANGE, MARKS */
	MosqlBytes	high;			/* RANGE: inclusive; MARKS: exclusive, absent for none */
} MosqlPart;

/* A head is followed by its keys, if any; put_high ends a part of marks. */
extern void mosql_part_put_head(StringInfo out, MosqlPartKind kind, uint64 root, uint64 n);
extern void mosql_part_put_key(StringInfo out, MosqlBytes key);
extern void mosql_part_put_high(StringInfo out, MosqlBytes high);

/* The next part: 1, 0 at the end, -1 if the bytes are damaged. */
extern int	mosql_part_next(MosqlBytes *in, MosqlPart *part);

/* The next key of a part that mosql_part_next() returned; false at the end. */
extern bool mosql_part_key(MosqlBytes *keys, MosqlBytes *key);

#endif							/* MOSQL_PART_H */
