/*
 * view_int.h: what scan.c and xact.c need of view.c.
 */
#ifndef MOSQL_VIEW_INT_H
#define MOSQL_VIEW_INT_H

#include "txn/txn_int.h"

/* To be called now and then while a statement reads on. */
extern void mosql_view_keep_alive(MosqlView *view);

/* Forget statements begun at this nesting level or deeper. */
extern void mosql_view_subabort(MosqlTxn *txn, int level);

/* Unregister every snapshot of the transaction; never throws. */
extern void mosql_view_end(MosqlTxn *txn);

#endif							/* MOSQL_VIEW_INT_H */
