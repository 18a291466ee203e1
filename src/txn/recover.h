/*
 * recover.h: finishing, or undoing, what others left in the way (recover.c).
 *
 * Layer: txn, within it.
 */
#ifndef MOSQL_RECOVER_H
#define MOSQL_RECOVER_H

#include "txn/txn_int.h"

/*
 * Turn the intent of a committed transaction on a key into a row, wherever the key
 * is now; harmless if somebody did it already.
 *
 * apply_keys: those of the keys (ascending) that lie on the first one's leaf, in one step;
 * returns how many, at least one.
 *
 * apply_leaf: the key, and all that is found from there to the end of its leaf.  Returns up
 * to where, from the key on, none is left; absent if there is no end.
 */
extern void mosql_recover_apply(MosqlSession *session, MosqlTree *tree, MosqlBytes key,
								MosqlTxid tx, MosqlTimestamp ts, const MosqlSnapshotList *list);
extern int	mosql_recover_apply_keys(MosqlSession *session, MosqlTree *tree, const MosqlBytes *keys,
									 int n, MosqlTxid tx, MosqlTimestamp ts,
									 const MosqlSnapshotList *list);
extern MosqlBytes mosql_recover_apply_leaf(MosqlSession *session, MosqlTree *tree, MosqlBytes key,
										   MosqlTxid tx, MosqlTimestamp ts,
										   const MosqlSnapshotList *list);

/* Take an aborted transaction's intents off a key and the rest of its leaf; the same. */
extern MosqlBytes mosql_recover_remove(MosqlSession *session, MosqlTree *tree, MosqlBytes key,
									   MosqlTxid tx);

/* Take a decided transaction's read marks off the leaves of low <= key < high. */
extern void mosql_recover_unmark(MosqlSession *session, MosqlTree *tree, MosqlBytes low,
								 MosqlBytes high, MosqlTxid tx);

/*
 * (durable modes) Who reads the tree after this finds everything that was committed
 * before; 08006 where copies are missing.  A round trip per leaf, and some.
 */
extern void mosql_recover_confirm(MosqlSession *session, MosqlTree *tree);

extern bool mosql_recover_met(MosqlSession *session, MosqlTxid tx, int64 *since_us);

/*
 * A blocker was met again: ask the clock, help or remove, or after
 * intent_timeout without a sign of life abort it.  since_us: as mosql_recover_met() has said, or 0
 * of the dead.
 * Returns true when it is out of the way.
 */
extern bool mosql_recover_blocker(MosqlSession *session, const MosqlBlocker *blocker,
								  int64 since_us);

/*
 * Until a blocker is out of the way, by itself or by the above.  False when the budget
 * is spent before.  One or two round trips for each look.
 */
extern bool mosql_recover_wait(MosqlSession *session, const MosqlBlocker *blocker,
							   const MosqlBudget *budget);

#endif							/* MOSQL_RECOVER_H */
