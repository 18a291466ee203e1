/*
 * plan_int.h: what the planner's chapters share: estimate.c, path.c, plan.c.
 *
 * Layer: fdw, planner side.
 */
#ifndef MOSQL_PLAN_INT_H
#define MOSQL_PLAN_INT_H

#include "fdw/exec_int.h"
#include "nodes/pathnodes.h"

/* One way to the rows: the table's own key, or an index. */
typedef struct MosqlAccess
{
	const MosqlIndex *index;	/* NULL: the table itself */
	const MosqlTable *keys;		/* the table, or the index's entries */
	MosqlKeyQuals *quals;
	bool		only;			/* entries have all that the query needs */
	List	   *predicate;		/* what all its rows satisfy */
	RestrictInfo *tids;			/* not by a key at all: ctid = this, or = ANY */

	/* --- a union: what any arm of an OR finds (union.c) --- */
	RestrictInfo *or;
	int			narms;
	struct MosqlAccess *arms;	/* index and keys of the union are theirs, if they agree */
} MosqlAccess;

/* RelOptInfo.fdw_private */
typedef struct MosqlRelPlan
{
	MosqlTable *table;
	MosqlFdwOptions *options;
	MosqlKeyQuals *quals;		/* of baserestrictinfo */
	double		rows_per_leaf;
} MosqlRelPlan;

/* ---- estimate.c ---- */

/* Rows in the key ranges, of which other conditions may leave fewer. */
extern double mosql_plan_rows_in_ranges(PlannerInfo *root, RelOptInfo *rel,
										const MosqlAccess *access);

/* Rows that satisfy all clauses, knowing that keys are unique. */
extern double mosql_plan_rows_returned(PlannerInfo *root, RelOptInfo *rel,
									   const MosqlAccess *access, List *clauses);

/* What reading costs, of which `rows` are returned. */
extern void mosql_plan_cost(PlannerInfo *root, RelOptInfo *rel, const MosqlRelPlan *plan,
							const MosqlAccess *access, double rows, Cost *startup, Cost *total);

/* ---- parallel_path.c ---- */

/* How many workers may read this besides the leader; 0: none. */
extern int	mosql_plan_workers(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *access);

/* Rows and cost of all of it to those of one of the processes. */
extern void mosql_plan_divide(const MosqlRelPlan *plan, int workers, double *rows, Cost *startup,
							  Cost *total);

/* ---- path.c ---- */

/* The predicate of an index as the query would have it. */
extern List *mosql_plan_index_predicate(RelOptInfo *rel, const MosqlIndex *index);

/* The conditions of one arm of an OR by this key, together with the others of the table;
 * NULL: the arm itself does not bound it. */
extern MosqlKeyQuals *mosql_plan_arm_quals(PlannerInfo *root, RelOptInfo *rel,
										   const MosqlTable *keys, const RestrictInfo *or, int arm,
										   List *clauses);

/* ---- lock_plan.c ---- */

/*
 * MOSQL_SCAN_LOCK: strength, LockWaitPolicy, 1 if points may be locked in the step that reads
 * them, 1 if for UPDATE or DELETE, how many rows LIMIT wants (0: all), 1 if one comes up after the other.
 * NIL: the scan locks nothing.  local: the filter; by_key: the scan is of the table's own key;
 * one_key: by all of it, to one row at most.
 */
extern List *mosql_plan_lock(PlannerInfo *root, RelOptInfo *rel, const Path *path, List *local, bool by_key,
							 bool one_key);

/* ---- plan.c ---- */

/* Do the entries have all that the query may ask of the relation? */
extern bool mosql_plan_is_covered(PlannerInfo *root, RelOptInfo *rel, const MosqlTable *table,
								  const MosqlAccess *access);

#endif							/* MOSQL_PLAN_INT_H */
