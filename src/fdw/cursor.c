/*
 * cursor.c: what cursors show, and UPDATE and DELETE ... WHERE CURRENT OF them.
 *
 * Layer: fdw.  A statement draws its snapshot at its first read.  A cursor's is that of DECLARE, or of
 * PL/pgSQL's OPEN: what others commit until the first FETCH is not in it.  So where the portal has a
 * name, the snapshot is drawn as soon as the plan's nodes are there; a protocol-level portal with a
 * name (JDBC's, with a fetch size) is read next in any case.
 *
 * WHERE CURRENT OF.  Core finds the cursor, says why it will not do, and takes the ctid of its row: of a
 * cursor FOR UPDATE the one that was locked last (lock.c leaves it in the row mark), of another the one
 * in the slot of its scan.  Most scans put none there, since nobody asks for it; but the scan itself
 * knows the row that it has returned last.
 *
 * What is changed is the row of that key as the statement sees it, as PostgreSQL takes the newest
 * version of its row; none, if it is gone, or has another key by now.
 *
 * Back.  A foreign scan goes forward only, so core makes a cursor over one NO SCROLL, unless it says SCROLL, which keeps
 * all rows from the first on.  Of PostgreSQL's own tables a cursor without either can go back.  So can one of ours: where
 * our scans are all that is in the way the plan says so (MOSQL_SCAN_TURNS), and the portal is scrollable.  Nothing is kept
 * until it is asked to go back.  Then the rows are read again, from the first to the one it is on, at the
 * same snapshot, by a node on top that keeps them (core's Material).
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/portal.h"
#include "utils/rel.h"

#include "fdw/exec_int.h"

static planner_hook_type next_planner = NULL;
static ExecutorStart_hook_type next_executor_start = NULL;

static bool
is_our_scan(PlanState *node)
{
	return IsA(node, ForeignScanState) &&
		((ForeignScanState *) node)->fdwroutine->IterateForeignScan == mosqlIterateForeignScan &&
		((ForeignScanState *) node)->fdw_state != NULL;
}

/* ---- the moment of DECLARE ---- */

/* PostgreSQL 16 names portals of loops in PL/pgSQL, too, which read at once. */
bool
mosql_cursor_is_opening(void)
{
	return ActivePortal != NULL && ActivePortal->status == PORTAL_DEFINED &&
		ActivePortal->name[0] != '\0' &&
		strncmp(ActivePortal->name, "<unnamed", strlen("<unnamed")) != 0;
}

/* All scans of a statement share one snapshot, in each session. */
static bool
draw_snapshots(PlanState *node, void *context)
{
	if (is_our_scan(node))
		(void) mosql_view_snapshot(((MosqlScanState *) ((ForeignScanState *) node)->fdw_state)->view);
	return planstate_tree_walker(node, draw_snapshots, context);
}

/* ---- back ---- */

/*
 * Core's ExecSupportsBackwardScan(), as if our scans could; *ours: the first of them.  What it descends into has one
 * plan below, or is an Append.
 */
static bool
could_turn(const Plan *plan, const List *rtable, ForeignScan **ours)
{
	ListCell   *lc;

	if (plan == NULL || plan->parallel_aware)
		return false;
	switch (nodeTag(plan))
	{
		case T_Result:
		case T_Limit:
			return could_turn(outerPlan(plan), rtable, ours);
		case T_SubqueryScan:
			return could_turn(((const SubqueryScan *) plan)->subplan, rtable, ours);
		case T_Append:
			foreach(lc, ((const Append *) plan)->appendplans)
				if (!could_turn(lfirst(lc), rtable, ours))
					return false;
			return ((const Append *) plan)->nasyncplans == 0;
		case T_ForeignScan:
			if (((const Scan *) plan)->scanrelid == 0 ||
				!mosql_fdw_is_ours(rt_fetch(((const Scan *) plan)->scanrelid, rtable)->relid))
				return false;
			if (*ours == NULL)
				*ours = (ForeignScan *) plan;
			return true;
		default:
			return ExecSupportsBackwardScan(unconstify(Plan *, plan));
	}
}

/* CURSOR_OPT_FAST_PLAN: DECLARE, and PL/pgSQL's OPEN. */
static PlannedStmt *
plan_statement(Query *query, const char *text, int options, ParamListInfo params)
{
	PlannedStmt *statement = (next_planner != NULL ? next_planner : standard_planner) (query, text, options, params);
	ForeignScan *ours = NULL;

	if ((options & CURSOR_OPT_FAST_PLAN) != 0 && (options & (CURSOR_OPT_SCROLL | CURSOR_OPT_NO_SCROLL)) == 0 &&
		statement->commandType == CMD_SELECT && statement->rowMarks == NIL &&
		could_turn(statement->planTree, statement->rtable, &ours) && ours != NULL)
		lfirst(list_nth_cell(ours->fdw_private, MOSQL_SCAN_TURNS)) = makeBoolean(true);
	return statement;
}

static bool
turns(PlanState *node, void *context)
{
	if (is_our_scan(node) &&
		boolVal(list_nth(((ForeignScan *) node->plan)->fdw_private, MOSQL_SCAN_TURNS)))
		return true;
	return planstate_tree_walker(node, turns, context);
}

/* Core has told the executor already, and has yet to tell whoever fetches. */
static void
let_turn(const QueryDesc *query)
{
	Portal		portal = ActivePortal;

	if (portal != NULL && portal->status == PORTAL_DEFINED && portal->stmts != NIL &&
		linitial(portal->stmts) == query->plannedstmt && turns(query->planstate, NULL))
		portal->cursorOptions = (portal->cursorOptions & ~CURSOR_OPT_NO_SCROLL) | CURSOR_OPT_SCROLL;
}

/* A plan of the same columns that returns nothing of them. */
static Plan *
stand_in(const Plan *plan)
{
	Result	   *result = makeNode(Result);
	ListCell   *lc;

	foreach(lc, plan->targetlist)
	{
		TargetEntry *entry = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));
		Node	   *value = (Node *) entry->expr;

		entry->expr = (Expr *) makeNullConst(exprType(value), exprTypmod(value), exprCollation(value));
		result->plan.targetlist = lappend(result->plan.targetlist, entry);
	}
	return &result->plan;
}

/* Put a Material on top of a plan that is running. */
static PlanState *
keep_rows(QueryDesc *query)
{
	Material   *plan = makeNode(Material);
	PlanState  *below = query->planstate;
	PlanState  *keeper;

	plan->plan.lefttree = stand_in(below->plan);
	plan->plan.targetlist = plan->plan.lefttree->targetlist;
	keeper = ExecInitNode(&plan->plan, query->estate, EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD);
	ExecEndNode(outerPlanState(keeper));
	outerPlanState(keeper) = below;
	plan->plan.lefttree = below->plan;
	return keeper;
}

/* It is asked to go back for the first time: from the row it is on, or behind the last one. */
static void
turn(QueryDesc *query, const PortalData *portal)
{
	EState	   *estate = query->estate;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);

	ExecReScan(query->planstate);
	query->planstate = keep_rows(query);
	estate->es_direction = ForwardScanDirection;
	for (uint64 i = 0; i < portal->portalPos + (portal->atEnd ? 1 : 0); i++)
	{
		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(estate);
		(void) ExecProcNode(query->planstate);
	}
	MemoryContextSwitchTo(old);
}

void
mosql_cursor_before_run(QueryDesc *query, ScanDirection direction)
{
	if (ScanDirectionIsBackward(direction) && ActivePortal != NULL && ActivePortal->queryDesc == query &&
		!IsA(query->planstate, MaterialState) && turns(query->planstate, NULL))
		turn(query, ActivePortal);
}

/* ---- hooks ---- */

static void
executor_start(QueryDesc *query, int eflags)
{
	if (next_executor_start != NULL)
		next_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) || query->planstate == NULL)
		return;
	let_turn(query);
	if (mosql_cursor_is_opening())
		(void) draw_snapshots(query->planstate, NULL);
}

void
mosql_cursor_init(void)
{
	next_planner = planner_hook;
	planner_hook = plan_statement;
	next_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
}

/* ---- WHERE CURRENT OF ---- */

/* The cursor's name, which core has looked at already (execCurrentOf). */
static const char *
cursor_name(const CurrentOfExpr *current, ExprContext *econtext)
{
	ParamListInfo params = econtext->ecxt_param_list_info;
	ParamExternData data;
	ParamExternData *param;

	if (current->cursor_name != NULL)
		return current->cursor_name;
	param = params->paramFetch == NULL ? &params->params[current->cursor_param - 1]
		: params->paramFetch(params, current->cursor_param, false, &data);
	return TextDatumGetCString(param->value);
}

typedef struct Wanted
{
	Oid			relid;
	MosqlScanState *scan;		/* the scan of it that was found */
} Wanted;

static bool
find_scan(PlanState *node, void *context)
{
	Wanted	   *wanted = context;

	if (is_our_scan(node) &&
		RelationGetRelid(((ForeignScanState *) node)->ss.ss_currentRelation) == wanted->relid)
	{
		wanted->scan = ((ForeignScanState *) node)->fdw_state;
		return true;
	}
	return planstate_tree_walker(node, find_scan, context);
}

bool
mosql_cursor_key(MosqlScanState *scan, const CurrentOfExpr *current, ExprContext *econtext,
					 MosqlBytes *key)
{
	Wanted		wanted = {RelationGetRelid(scan->rel), NULL};
	ItemPointerData tid;
	MosqlRow   *row;

	if (!execCurrentOf(unconstify(CurrentOfExpr *, current), econtext, wanted.relid, &tid))
		return false;
	if (mosql_tid_key(scan->txn, scan->table->tree, &tid, key))
		return true;
	find_scan(GetPortalByName(cursor_name(current, econtext))->queryDesc->planstate, &wanted);
	if (wanted.scan == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_CURSOR_STATE),
				 errmsg("the cursor's row of table \"%s\" is not known",
						RelationGetRelationName(scan->rel)),
				 errhint("Declare the cursor FOR UPDATE.")));
	row = &wanted.scan->current;
	*key = wanted.scan->index_only ? mosql_index_row_key(wanted.scan->index, row) : row->key;
	return true;
}
