/*
 * usual.h: rows that a session's transactions usually increment.
 *
 * Layer: txn.
 */
#ifndef MOSQL_USUAL_H
#define MOSQL_USUAL_H

#include "txn/txn_int.h"

typedef struct MosqlUsual MosqlUsual;

/* A row of a usual leaf, if that came, the row is there, and nothing is to be found out about it; else it is to be read. */
extern bool mosql_usual_get(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, MosqlPoint *point);

/* An increment has found its row in this leaf. */
extern void mosql_usual_note(MosqlTxn *txn, const MosqlTree *tree, uint64 leaf);

/* The transaction is committed: what it has not wanted is asked for less often. */
extern void mosql_usual_end(MosqlTxn *txn);

#endif
