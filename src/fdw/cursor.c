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
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/portal.h"
#include "utils/rel.h"

#include "fdw/exec_int.h"

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

static void
executor_start(QueryDesc *query, int eflags)
{
	if (next_executor_start != NULL)
		next_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if (!(eflags & EXEC_FLAG_EXPLAIN_ONLY) && query->planstate != NULL && mosql_cursor_is_opening())
		(void) draw_snapshots(query->planstate, NULL);
}

void
mosql_cursor_init(void)
{
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
