/*
 * ahead_path.c: joins whose look-ups are read ahead.
 *
 * Layer: fdw, planner side.  A nested loop with a parameterised inner scan asks for the rows of one
 * outer row at a time.  Here its outer side gets a node on top, a Key Batch (ahead.c), which takes
 * up to a thousand outer rows and reads what the inner scan is going to look for, together:
 *
 *     Nested Loop
 *       ->  Custom Scan (Key Batch)
 *             Read Ahead: child (p = parent.id)
 *             ->  Foreign Scan on parent
 *       ->  Foreign Scan on child
 *             Key: p = $0
 *
 * The join itself is PostgreSQL's own, of any type, and the inner scan the one that it always is; it finds
 * its rows in memory.  So a batch can be wrong about what will be looked for, and nothing but
 * time is lost.
 *
 * Only where the values are columns and constants: evaluating them early cannot fail.  Not where rows
 * are locked, or volatile functions find them: those that LIMIT leaves alone must not be.
 */
#include "postgres.h"

#include <math.h>

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paramassign.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"

#include "base/limits.h"
#include "fdw/ahead.h"
#include "fdw/plan_int.h"

int			mosql_fdw_join_batch = MOSQL_JOIN_BATCH;

/* For fewer outer rows a node of its own is not worth it. */
#define AHEAD_LEAST_ROWS	10

/* Where so many rows answer one look-up, it takes its time anyway. */
#define AHEAD_MOST_FOUND	100

/* A row looked up by its key, in rows read with their neighbours: measured, 20 us to 1.4 us. */
#define AHEAD_POINT_FACTOR	15

/* Leaves that one round trip of a long scan reads: btree.h's largest window. */
#define AHEAD_WINDOW_LEAVES	64

static const CustomPathMethods ahead_path_methods;
static set_join_pathlist_hook_type next_join_pathlist = NULL;

/* ---- what can be read ahead ---- */

/* Are these columns, of the outer side or of outer queries, and constants?  *outer: of the first. */
static bool
is_plain(Node *node, const RelOptInfo *outerrel, bool *outer)
{
	ListCell   *lc;

	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	if (IsA(node, Const) || IsA(node, Param))
		return true;
	if (!IsA(node, Var))
		return false;
	foreach(lc, outerrel->reltarget->exprs)
	{
		const Var  *var = lfirst(lc);

		if (var->varno == ((Var *) node)->varno && var->varattno == ((Var *) node)->varattno)
			return *outer = true;
	}
	return false;
}

static bool
has_only_columns(const RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->reltarget->exprs)
		if (!IsA(lfirst(lc), Var))
			return false;
	return true;
}

/* Is a prefix of the key, at least, equal to plain values, one of which the outer side has? */
static bool
are_plain(const MosqlKeyQuals *quals, const RelOptInfo *outerrel)
{
	bool		outer = false;
	ListCell   *lc;

	foreach(lc, quals->exprs)
		if (!is_plain(lfirst(lc), outerrel, &outer))
			return false;
	return outer && quals->nequal > 0;
}

/*
 * Can others tell that more of its rows are read than are wanted: are rows locked as they come, or volatile
 * functions called to find them?
 */
static bool
is_told_by_reading(const Query *query)
{
	ListCell   *lc;

	if (query->hasForUpdate || query->rowMarks != NIL ||
		contain_volatile_functions((Node *) query->jointree))
		return true;
	foreach(lc, query->rtable)
	{
		const RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (contain_volatile_functions((Node *) rte->functions) ||
			contain_volatile_functions((Node *) rte->securityQuals) ||
			(rte->rtekind == RTE_SUBQUERY && rte->subquery != NULL &&
			 (is_told_by_reading(rte->subquery) ||
			  contain_volatile_functions((Node *) rte->subquery->targetList))))
			return true;
	}
	foreach(lc, query->cteList)
		if (is_told_by_reading(castNode(Query, lfirst_node(CommonTableExpr, lc)->ctequery)))
			return true;
	return false;
}

/* The same of this query, and of those in its conditions and above it, which are planned by now. */
static bool
is_told_anywhere(const PlannerInfo *root)
{
	ListCell   *lc;

	foreach(lc, root->glob->subroots)
	{
		const Query *query = lfirst_node(PlannerInfo, lc)->parse;

		if (is_told_by_reading(query) || contain_volatile_functions((Node *) query->targetList))
			return true;
	}
	return is_told_by_reading(root->parse);
}

/* May this join be one? */
static bool
is_candidate(PlannerInfo *root, RelOptInfo *outerrel, RelOptInfo *innerrel, JoinType jointype)
{
	return mosql_fdw_join_batch > 1 && mosql_txn_snapshot_cache_kb > 0 &&
		(jointype == JOIN_INNER || jointype == JOIN_LEFT || jointype == JOIN_SEMI ||
		 jointype == JOIN_ANTI) &&
		innerrel->reloptkind == RELOPT_BASEREL && innerrel->fdwroutine != NULL &&
		innerrel->fdwroutine->GetForeignRelSize == mosqlGetForeignRelSize &&
		(outerrel->reloptkind == RELOPT_BASEREL || outerrel->reloptkind == RELOPT_JOINREL) &&
		(root->parse->commandType == CMD_SELECT || root->parse->commandType == CMD_INSERT) &&
		has_only_columns(outerrel);
}

/* ---- costs ---- */

static double
count_batches(double rows)
{
	double		first = 0;
	double		batches = 0;

	for (int size = 1; first < rows && size < mosql_fdw_join_batch; size = mosql_ahead_grow(size))
	{
		first += size;
		batches++;
	}
	return batches + ceil(Max(rows - first, 0) / mosql_fdw_join_batch);
}

/* Reading ahead for so many outer rows, of which each finds so many. */
static Cost
lookup_cost(const MosqlRelPlan *plan, const MosqlAccess *access, double lookups, double found)
{
	double		batches = count_batches(lookups);
	double		trips = batches;
	double		points = 0;

	if (access->quals->whole_key && access->keys->unique_key)
		points += lookups;
	else
		trips += floor(lookups / AHEAD_WINDOW_LEAVES);
	if (access->index != NULL && !access->only)
	{
		trips += batches;
		points += lookups * found;
	}
	return trips * plan->options->startup_cost +
		points * AHEAD_POINT_FACTOR * plan->options->tuple_cost;
}

/* ---- paths ---- */

static CustomPath *
make_batch_path(const MosqlRelPlan *plan, Path *outer, Cost lookups, List *private)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = outer->parent;
	path->path.pathtarget = outer->pathtarget;
	path->path.rows = outer->rows;
	path->path.pathkeys = outer->pathkeys;
#if PG_VERSION_NUM >= 180000
	path->path.disabled_nodes = outer->disabled_nodes;
#endif
	path->path.startup_cost = outer->startup_cost + plan->options->startup_cost;
	path->path.total_cost = outer->total_cost + lookups + outer->rows * cpu_tuple_cost;
	path->custom_paths = list_make1(outer);
	path->custom_private = private;
	path->methods = &ahead_path_methods;
	return path;
}

/* The same inner path where what it reads has been read ahead: without round trips. */
static ForeignPath *
make_inner_path(const MosqlRelPlan *plan, const MosqlAccess *access, const ForeignPath *path,
				Integer *link)
{
	ForeignPath *inner = makeNode(ForeignPath);
	double		trips = access->index != NULL && !access->only ? 2 : 1;

	*inner = *path;
	inner->fdw_private = lappend(list_copy(path->fdw_private), link);
	inner->path.startup_cost = 0;
	inner->path.total_cost = Max(path->path.total_cost - trips * plan->options->startup_cost,
								 plan->options->tuple_cost);
	return inner;
}

static void
add_join_path(PlannerInfo *root, RelOptInfo *joinrel, JoinType jointype, Path *outer, Path *inner,
			  JoinPathExtraData *extra)
{
	JoinCostWorkspace workspace;

	initial_cost_nestloop(root, &workspace, jointype, outer, inner, extra);
	add_path(joinrel, (Path *)
			 create_nestloop_path(root, joinrel, jointype, &workspace, extra, outer, inner,
								  extra->restrictlist,
								  build_join_pathkeys(root, joinrel, jointype, outer->pathkeys),
								  NULL));
}

static MosqlAccess
access_of(PlannerInfo *root, RelOptInfo *rel, const ForeignPath *path)
{
	const MosqlRelPlan *plan = rel->fdw_private;
	List	   *clauses = list_concat_copy(rel->baserestrictinfo, path->path.param_info->ppi_clauses);
	MosqlAccess access = {.keys = plan->table};

	access.index = mosql_table_index(plan->table, intVal(lsecond(path->fdw_private)));
	if (access.index != NULL)
	{
		access.keys = access.index->entries;
		access.predicate = mosql_plan_index_predicate(rel, access.index);
	}
	access.quals = mosql_quals_find(root, rel, planner_rt_fetch(rel->relid, root)->relid,
									access.keys, clauses);
	access.only = access.index != NULL && mosql_plan_is_covered(root, rel, plan->table, &access);
	return access;
}

/* What one inner path gives, with each way to the outer rows. */
static void
add_paths_of(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
			 JoinType jointype, JoinPathExtraData *extra, const ForeignPath *path)
{
	const MosqlRelPlan *plan = innerrel->fdw_private;
	MosqlAccess access = access_of(root, innerrel, path);
	List	   *conds;
	ListCell   *lc;

	if (!are_plain(access.quals, outerrel) || path->path.rows > AHEAD_MOST_FOUND)
		return;
	conds = mosql_conds_encode(access.quals->conds, access.quals->nconds);
	foreach(lc, outerrel->pathlist)
	{
		Path	   *outer = lfirst(lc);
		Integer    *link = makeInteger(-1);
		List	   *private = list_make5(conds, access.quals->exprs, link,
										 makeInteger((int) innerrel->relid), path->fdw_private);

		if (outer->param_info != NULL || outer->rows < AHEAD_LEAST_ROWS)
			continue;
		add_join_path(root, joinrel, jointype,
					  (Path *) make_batch_path(plan, outer,
											   lookup_cost(plan, &access, outer->rows,
														   path->path.rows), private),
					  (Path *) make_inner_path(plan, &access, path, link), extra);
	}
}

static void
join_pathlist(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
			  JoinType jointype, JoinPathExtraData *extra)
{
	ListCell   *lc;

	if (next_join_pathlist != NULL)
		next_join_pathlist(root, joinrel, outerrel, innerrel, jointype, extra);
	if (!is_candidate(root, outerrel, innerrel, jointype))
		return;
	foreach(lc, innerrel->cheapest_parameterized_paths)
	{
		ForeignPath *path = lfirst(lc);

		if (IsA(path, ForeignPath) && path->path.param_info != NULL &&
			list_length(path->fdw_private) == 2 &&
			bms_is_subset(PATH_REQ_OUTER(&path->path), outerrel->relids) &&
			!is_told_anywhere(root))	/* last: it looks at the whole query */
			add_paths_of(root, joinrel, outerrel, innerrel, jointype, extra, path);
	}
}

/* ---- plans ---- */

/* The parameter by which the two nodes find each other; who comes first chooses it. */
int
mosql_ahead_link(PlannerInfo *root, Integer *link)
{
	if (link->ival < 0)
		link->ival = assign_special_exec_param(root);
	return link->ival;
}

/* A column as the outer plan has it, of whatever outer join. */
static Node *
find_columns(Node *node, void *tlist)
{
	ListCell   *lc;

	if (node == NULL)
		return NULL;
	if (!IsA(node, Var))
		return expression_tree_mutator(node, find_columns, tlist);
	foreach(lc, (List *) tlist)
	{
		const Var  *var = (const Var *) lfirst_node(TargetEntry, lc)->expr;

		if (var->varno == ((Var *) node)->varno && var->varattno == ((Var *) node)->varattno)
			return copyObject((Node *) var);
	}
	elog(ERROR, "column of a join's look-up is not in its outer plan");
}

static Plan *
plan_batch(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		   List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	Plan	   *outer = linitial(custom_plans);
	RelOptInfo *inner = find_base_rel(root, intVal(lfourth(path->custom_private)));
	const RangeTblEntry *rte = planner_rt_fetch(inner->relid, root);

	scan->scan.plan.targetlist = tlist;
	scan->custom_plans = custom_plans;
	scan->custom_scan_tlist = copyObject(outer->targetlist);
	scan->custom_exprs = (List *) find_columns((Node *) lsecond(path->custom_private),
											   outer->targetlist);

	/* in the order of enum MosqlAheadPrivate */
	scan->custom_private = list_make5(linitial(path->custom_private),
									  makeInteger(mosql_ahead_link(root, lthird(path->custom_private))),
									  list_make2_oid(rte->relid, inner->userid),
									  lsecond(list_nth_node(List, path->custom_private, 4)),
									  makeString(rte->eref->aliasname));
	scan->methods = &mosql_ahead_scan_methods;
	return (Plan *) scan;
}

static const CustomPathMethods ahead_path_methods = {
	.CustomName = "Key Batch",
	.PlanCustomPath = plan_batch,
};

void
mosql_ahead_init(void)
{
	next_join_pathlist = set_join_pathlist_hook;
	set_join_pathlist_hook = join_pathlist;
	RegisterCustomScanMethods(&mosql_ahead_scan_methods);
}
