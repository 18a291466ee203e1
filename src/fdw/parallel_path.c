/*
 * parallel_path.c: which scans a parallel query may divide among its processes, and their cost.
 *
 * Layer: fdw, planner side.  Only such a scan runs in a worker (parallel.c): it has a piece of
 * shared memory, in which its leader says what to read, and at which snapshot.  All other paths are
 * marked as not safe, since a worker could not know; so a worker never reads the whole inner side of
 * a join, but it can be divided, too (parallel hash joins, parallel appends).
 *
 * Not divided: what locks, or names ctid or xmin, which are numbers of this backend's; points;
 * unions and rows by way of an index; columns whose input functions must not run in a worker;
 * SERIALIZABLE, whose reads COMMIT certifies; servers with max_connections, lest a query waits for
 * itself; and tables that are smaller than min_parallel_table_scan_size, a leaf taken for a page.
 */
#include "postgres.h"

#include <math.h>

#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/pg_proc.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/lsyscache.h"

#include "fdw/plan_int.h"

/* Round trips until a worker reads: it connects, and draws a session id. */
#define WORKER_ROUND_TRIPS	4

/*
 * May this table have paths that run in workers?  Which it is, is decided when there is more known
 * about it (mosql_plan_workers).
 */
bool
mosqlIsForeignScanParallelSafe(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	return !IsolationIsSerializable();
}

/* May values of all columns be made in a worker? */
static bool
are_columns_safe(const MosqlTable *table)
{
	for (int i = 0; i < table->natts; i++)
	{
		const MosqlTableColumn *column = &table->columns[i];

		if (column->attnum == 0 ||
			(column->codec != MOSQL_CODEC_BINARY && column->codec != MOSQL_CODEC_INOUT))
			continue;
		if (OidIsValid(column->reader) || !OidIsValid(column->receive.fn_oid) ||
			func_parallel(column->receive.fn_oid) != PROPARALLEL_SAFE)
			return false;
	}
	return true;
}

static bool
names_system_column(const RelOptInfo *rel)
{
	Bitmapset  *attrs = NULL;
	ListCell   *lc;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &attrs);
	foreach(lc, rel->baserestrictinfo)
		pull_varattnos((Node *) lfirst_node(RestrictInfo, lc)->clause, rel->relid, &attrs);
	for (int i = FirstLowInvalidHeapAttributeNumber + 1; i < 0; i++)
		if (i != TableOidAttributeNumber &&
			bms_is_member(i - FirstLowInvalidHeapAttributeNumber, attrs))
			return true;
	return false;
}

/* Is what is read one range, of which there is more than one key? */
static bool
is_one_range(const MosqlAccess *access)
{
	if (access->narms > 0 || access->tids != NULL || access->quals->whole_key ||
		(access->index != NULL && (!access->only || access->index->econtext != NULL)))
		return false;
	for (int i = 0; i < access->quals->nconds; i++)
		if (access->quals->conds[i].kind == MOSQL_COND_IN)
			return false;
	return true;
}

/* See plan_int.h. */
int
mosql_plan_workers(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *access)
{
	const MosqlRelPlan *plan = rel->fdw_private;
	double		leaves;

	if (!rel->consider_parallel || !bms_is_empty(rel->lateral_relids) || !is_one_range(access) ||
		plan->options->max_connections > 0 || mosql_txn_has_written(plan->table->session) ||
		names_system_column(rel) || !are_columns_safe(plan->table))
		return 0;
	leaves = ceil(mosql_plan_rows_in_ranges(root, rel, access) / plan->rows_per_leaf);
	return compute_parallel_worker(rel, leaves, -1, max_parallel_workers_per_gather);
}

/*
 * See plan_int.h.  As core reckons for its own scans: the leader helps, less the more workers it
 * looks after.
 */
void
mosql_plan_divide(const MosqlRelPlan *plan, int workers, double *rows, Cost *startup, Cost *total)
{
	double		divisor = workers;
	Cost		run = *total - *startup;

	if (parallel_leader_participation)
		divisor += Max(0, 1.0 - 0.3 * workers);
	*startup += WORKER_ROUND_TRIPS * plan->options->startup_cost;
	*total = *startup + run / divisor;
	*rows = clamp_row_est(*rows / divisor);
}
