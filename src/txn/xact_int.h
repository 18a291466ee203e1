/*
 * xact_int.h: what xact.c needs of commit.c and together.c.
 */
#ifndef MOSQL_XACT_INT_H
#define MOSQL_XACT_INT_H

#include "txn/txn_int.h"

/*
 * Commit what all sessions have written, all or none (together.c).  Throws 40001 and
 * others before it is decided, 08007 after; then interrupts are held, and PostgreSQL's
 * own commit must follow (local.h).
 */
extern void mosql_txn_commit_all(void);

/* The transaction has ended: note the trees that nobody needs now as garbage. */
/* True: the transaction has dropped some. */
extern bool mosql_txn_settle_trees(MosqlTxn *txn, bool committed);

#endif							/* MOSQL_XACT_INT_H */
