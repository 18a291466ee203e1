/*
 * ahead.h: the Key Batch, the node above the outer side of a nested loop that reads ahead what the
 * inner side is going to look for: ahead_path.c plans it, ahead.c runs it.
 *
 * Layer: fdw.
 */
#ifndef MOSQL_AHEAD_H
#define MOSQL_AHEAD_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

#include "fdw/exec_int.h"

extern const CustomScanMethods mosql_ahead_scan_methods;

/* Index into CustomScan.custom_private; custom_exprs has the values, of the outer rows. */
enum MosqlAheadPrivate
{
	MOSQL_AHEAD_CONDS,			/* as MOSQL_SCAN_CONDS */
	MOSQL_AHEAD_LINK,			/* Integer: the parameter by which the inner scan finds the node */
	MOSQL_AHEAD_TABLE,			/* OidList: inner table, as whom it is read */
	MOSQL_AHEAD_INDEX,			/* Integer: id of the index that is read, 0: none */
	MOSQL_AHEAD_NAME			/* String: the inner table as the query calls it */
};

/* Outer rows of the next batch: small ones first, for those who want few. */
static inline int
mosql_ahead_grow(int size)
{
	return size * 16;
}

/* At plan time: the parameter that links inner scan and node. */
extern int	mosql_ahead_link(PlannerInfo *root, Integer *link);

/* The inner scan has begun; link: as MOSQL_SCAN_AHEAD. */
extern void mosql_ahead_join(EState *estate, int link, MosqlScanState *inner);

#endif							/* MOSQL_AHEAD_H */
