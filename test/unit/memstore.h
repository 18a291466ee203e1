/*
 * memstore.h: a node store in memory, for tests of the tree.
 *
 * Steps mean what src/step/evaluate.c says.  Faults can be injected: crashes
 * (an error with MEMSTORE_CRASH) at a chosen step, lost replies, and a hook
 * that runs before each round trip, in which a test lets somebody else work on
 * the same store.
 */
#ifndef MEMSTORE_H
#define MEMSTORE_H

#include "btree/btree.h"

#define MEMSTORE_CRASH	ERRCODE_CRASH_SHUTDOWN

typedef struct MemStore
{
	MosqlNodeStore store;		/* first: handed out as MosqlNodeStore */
	struct MemNode **buckets;
	int			nbuckets;
	int			nnodes;
	uint64		next_id;
	uint64		incarnation;	/* raise it: the process slept for long */
	uint64		breaks;			/* raise it: a connection broke */
	uint64		rng;

	/* faults */
	int64		crash_at;		/* number of the step that crashes, and all after it; 0: none */
	bool		crash_after;	/* with the step made */
	bool		crash_once;		/* that step alone: a connection breaks */
	int64		lose_at;		/* number of the step that is made, and its reply lost */
	double		lost;			/* chance that a reply gets lost */
	void		(*hook) (void *arg);	/* before each round trip */
	void	   *hook_arg;
	bool		borrow;			/* images point into the store (benchmarks) */

	/* counted */
	int64		steps;
	int64		round_trips;
	int64		nodes_read;
	int64		nodes_deleted;
	int			asked;			/* prefetches that have not ended */
	int64		took;			/* that were taken */
} MemStore;

extern MemStore *memstore_open(uint64 seed);
extern void memstore_close(MemStore *mem);
extern MemStore *memstore_copy(const MemStore *mem);
extern uint64 memstore_random(MemStore *mem);
extern int	memstore_ids(const MemStore *mem, uint64 **ids);

/* Set, or delete with data NULL, a field behind the tree's back. */
extern void memstore_set(MemStore *mem, uint64 node, MosqlBytes field, MosqlBytes value);
extern bool memstore_image(MemStore *mem, uint64 node, MosqlNodeImage *image);

/* Room for new keys of one tree, with rows of so many bytes; a leaf that is in the way of it. */
static inline MosqlBusyLeaf
memstore_reserve(MosqlTree *tree, const MosqlBytes *keys, int n, size_t row_bytes)
{
	MosqlTreeKeys wanted = {tree, keys, n, row_bytes, MOSQL_KEY_FIELD};

	return mosql_btree_reserve(&wanted, 1);
}

#endif							/* MEMSTORE_H */
