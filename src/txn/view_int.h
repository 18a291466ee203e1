/*
 * view_int.h: what scan.c, reuse.c and xact.c need of view.c and scan.c.
 */
#ifndef MOSQL_VIEW_INT_H
#define MOSQL_VIEW_INT_H

#include "txn/txn_int.h"

/* Does it read at the statement's snapshot, not at the transaction's? */
extern bool mosql_view_has_own_snapshot(const MosqlView *view);

/*
 * May one atomic read take the place of its snapshot?  At READ COMMITTED, if none is drawn, and what is known of definitions is
 * new enough (rule 39).
 */
extern bool mosql_view_may_do_without(const MosqlView *view);

/* Settle the intents in the entries of leaves that were read, all together. */
extern void mosql_leaves_settle(MosqlSession *session, MosqlTree *tree, MosqlLeaf *leaves,
								int nleaves, MosqlStatusCache *cache);

/* To be called now and then while a statement reads on. */
extern void mosql_view_keep_alive(MosqlView *view);

/* Forget statements begun at this nesting level or deeper. */
extern void mosql_view_subabort(MosqlTxn *txn, int level);

/* Unregister every snapshot of the transaction; never throws. */
extern void mosql_view_end(MosqlTxn *txn);

#endif							/* MOSQL_VIEW_INT_H */
