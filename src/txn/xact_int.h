/*
 * xact_int.h: what xact.c needs of commit.c.
 */
#ifndef MOSQL_XACT_INT_H
#define MOSQL_XACT_INT_H

#include "txn/txn_int.h"

/* The transaction did not commit: the trees made for it are garbage. */
extern void mosql_txn_abandon_trees(MosqlTxn *txn);

#endif							/* MOSQL_XACT_INT_H */
