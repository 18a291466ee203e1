/*
 * leaf_step.h: the mini-transaction that prepares one leaf.
 *
 * Layer: txn, for prepare.c, and for one_step.c.
 */
#ifndef MOSQL_LEAF_STEP_H
#define MOSQL_LEAF_STEP_H

#include "txn/txn_int.h"

/* One leaf's step and what its parts stand for. */
typedef struct MosqlLeafStep
{
	MosqlStep	step;
	MosqlTree  *tree;
	int			nitems;
	MosqlItem **items;
	MosqlItem  *range;			/* a range mark's step, else NULL */
	MosqlBytes	range_low;		/* where the range begins on this leaf */
	MosqlBytes	range_high;		/* fence of the leaf it marks */
	bool		marks;			/* places a read mark */
	bool		writes;			/* places intents */
	bool		bulk;			/* compares the leaf as a whole */
	bool		fills;			/* ... and writes it as a whole, as a block of the rows, */
	bool		rewrites;		/* ... which was packed before */
	MosqlTxid	loader;			/* that is in the way: the leaf is loading for it, and the step writes nothing */
	bool		anew;			/* ... over rows that were there */
	MosqlItem **blame;			/* per compare: the item, NULL for the leaf */
	int		   *old_at;			/* per item: index into reads, -1 */
	MosqlBytes *in_block;		/* per item: its row in the leaf's block, which counts where the row is no
								 * field; absent: nothing, or the leaf is not packed */
} MosqlLeafStep;

extern bool mosql_item_is_increment(const MosqlItem *item);
extern MosqlBytes mosql_item_asked(const MosqlCommit *commit, const MosqlItem *item);

/*
 * What an item does to its row in a packed leaf.  Who deletes leaves nothing behind that would hide what is in the block; an entry
 * of an index that tells its row is in none (rule 44).
 */
extern MosqlKeyUse mosql_item_use(const MosqlItem *item);

/* A step with room for n items; its first compare is the leaf's generation. */
extern void mosql_leaf_step_start(MosqlLeafStep *leaf, MosqlTree *tree, uint64 node,
								  uint64 generation, int n);

/* One more item, of which the leaf's block has that row. */
extern void mosql_leaf_step_take(MosqlLeafStep *leaf, MosqlItem *item, MosqlBytes in_block);

/* Can its items, inserts all, be compared at once?  nfields: of the leaf, -1 if not known. */
extern bool mosql_leaf_step_is_bulk(const MosqlLeafStep *leaf, int nfields);

/* What the step compares and writes: its items at once, or each for itself, or a range. */
extern void mosql_leaf_step_add_bulk(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlBytes txid);
extern void mosql_leaf_step_add_items(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlBytes txid);

/*
 * In place of add_bulk, where the items are all that the leaf is to hold: their rows as one block (rule 46).  False, and
 * nothing is added, if that does not pay.
 */
extern bool mosql_leaf_step_add_block(MosqlCommit *commit, MosqlLeafStep *leaf, const MosqlLeafGroup *group,
									  MosqlCompression how);

/*
 * In place of add_items, on a packed leaf that may be written anew (group->rewrites) with items that are writes: the rows as they are and
 * are to be, as one block (rule 51).  False, and nothing is added, if one of them is not as expected, or it does not pay.
 */
extern bool mosql_leaf_step_add_rewrite(MosqlCommit *commit, MosqlLeafStep *leaf, const MosqlLeafGroup *group,
										MosqlCompression how);

/* Can a leaf be written as a whole with this item?  Not if others have claims at the row. */
extern bool mosql_item_may_be_by_leaf(const MosqlItem *item);

/* A step that fills a leaf, or writes it anew, is going to be sent: commit->sent. */
extern void mosql_leaf_step_note_sent(MosqlCommit *commit, const MosqlLeafStep *leaf);

/*
 * For a commit in one step: the compares of add_items, and the rows as they are to be.  False if
 * that cannot be.
 */
extern bool mosql_leaf_step_add_final(MosqlCommit *commit, MosqlLeafStep *leaf);

/* Does that step let go of the item's lock, if it has one? */
extern bool mosql_item_is_let_go(const MosqlCommit *commit, const MosqlItem *item);
extern void mosql_leaf_step_add_range(MosqlCommit *commit, MosqlLeafStep *leaf, MosqlItem *range,
									  MosqlBytes txid);

/*
 * Does a range that was read compare the leaf's purge mark?  Below SERIALIZABLE all that is certified is that a parent
 * has no children (rule 22): of one that came and went since, there is nothing to know.
 */
static inline bool
mosql_commit_compares_purged(const MosqlCommit *commit)
{
	return commit->txn->isolation == MOSQL_SERIALIZABLE;
}

#endif							/* MOSQL_LEAF_STEP_H */
