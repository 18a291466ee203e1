/*
 * mend_int.h: what the files share that mend a tree.
 *
 * Layer: btree, private to mend.c and mend_fields.c.
 */
#ifndef MOSQL_MEND_INT_H
#define MOSQL_MEND_INT_H

#include "btree/btree_int.h"

/* Nodes read ahead in one round trip. */
#define MEND_BATCH		64

/* The nodes of a level that count: ascending, and no two cover the same key. */
typedef struct Chain
{
	int			n;
	const MosqlKnownNode **nodes;
	bool	   *sure;			/* [n] false: counts only because nobody can tell */
} Chain;

typedef struct Mend
{
	MosqlTree  *tree;
	const MosqlMending *how;
	int			nknown;
	const MosqlKnownNode *known;	/* by level, then low fence */
	Chain		chains[MOSQL_TREE_MAX_LEVEL + 2];
	int			done;			/* nodes made anew, or that would be */

	/* --- read ahead --- */
	MemoryContext ahead;
	int			nimages;
	MosqlNodeImage images[MEND_BATCH];
} Mend;

/* A place in the chain of a level. */
typedef struct Place
{
	uint64		node;
	int			level;
	MosqlBytes	low;
	MosqlBytes	high;			/* data NULL: none */
	uint64		right;
	bool		bounded;		/* high and right are known */
	int			nchildren;		/* inner nodes */
	MosqlChild *children;
} Place;

/*
 * Take what is damaged out of a node, and give it a meta if meta is not NULL (separators with it, above
 * the leaves).  Reports each loss; XX001 if the node changed meanwhile.
 */
extern void mosql_btree_mend_fields(Mend *mend, const MosqlNodeImage *image, const Place *place,
									const MosqlNodeMeta *meta);

#endif							/* MOSQL_MEND_INT_H */
