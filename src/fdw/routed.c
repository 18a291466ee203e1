/*
 * routed.c: INSERT ... ON CONFLICT into a partitioned table whose partitions are ours.
 *
 * Layer: fdw.  Where a statement says ON CONFLICT, the executor opens the unique indexes of each partition that
 * it routes a row to, to insert into them speculatively, and knows but btree for that (XX000), before it asks the
 * wrapper.  Of a foreign table it makes no other use of the clause.  So the clause is taken out of the plan, and left
 * to us by a sign that the executor does not look at in a plan without ON CONFLICT: a column number that is none.
 * EXPLAIN is shown the plan as it was.
 *
 * That is only so where all partitions are ours: one of PostgreSQL's own needs what the plan says.  The plan is made
 * anew when a table below the parent gets another partition.  What else the executor does for DO UPDATE is done here,
 * the expressions of SET and WHERE for each partition's columns; but not the parent's triggers for each
 * statement of UPDATE, which it fires by what the plan says: they are refused.
 */
#include "postgres.h"

#include "access/attmap.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "fdw/exec_int.h"

#define NO_COLUMN	(-1)

/* What stands before the columns of SET in onConflictCols. */
typedef enum RoutedSign
{
	SIGN_NO_COLUMN,
	SIGN_IN_BATCHES,
	SIGN_LENGTH
} RoutedSign;

static planner_hook_type next_planner = NULL;
static ExecutorStart_hook_type next_executor_start = NULL;
static ExecutorFinish_hook_type next_executor_finish = NULL;

static bool
has_sign(const ModifyTable *plan)
{
	return plan->onConflictAction == ONCONFLICT_NONE && plan->onConflictCols != NIL &&
		linitial_int(plan->onConflictCols) == NO_COLUMN;
}

/* Of a plan, or NULL (COPY). */
OnConflictAction
mosql_exec_conflict_action(const ModifyTable *plan)
{
	if (plan == NULL || !has_sign(plan))
		return plan == NULL ? ONCONFLICT_NONE : plan->onConflictAction;
	return plan->onConflictSet != NIL ? ONCONFLICT_UPDATE : ONCONFLICT_NOTHING;
}

/* Rows that are routed may wait, to be written together (as mosqlPlanForeignModify() says of others). */
bool
mosql_exec_routes_in_batches(const ModifyTable *plan)
{
	return has_sign(plan) && list_nth_int(plan->onConflictCols, SIGN_IN_BATCHES);
}

/* Where the parent's columns are. */
AttrMap *
mosql_fdw_columns_of_partition(Relation partition, Relation parent)
{
	return build_attrmap_by_name(RelationGetDescr(partition), RelationGetDescr(parent)
#if PG_VERSION_NUM >= 160000
								 ,false /* none is missing */
#endif
		);
}

/* Of which index of the parent is it a part?  One of these, or InvalidOid. */
static Oid
ancestor_among(Oid indexid, const List *arbiters)
{
	ListCell   *lc;

	foreach(lc, get_rel_relispartition(indexid) ? get_partition_ancestors(indexid) : NIL)
		if (list_member_oid(arbiters, lfirst_oid(lc)))
			return lfirst_oid(lc);
	return InvalidOid;
}

List *
mosql_exec_routed_arbiters(Relation rel, const List *arbiters)
{
	List	   *here = NIL;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
		if (OidIsValid(ancestor_among(lfirst_oid(lc), arbiters)))
			here = lappend_oid(here, lfirst_oid(lc));
	if (list_length(here) != list_length(arbiters))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("partition \"%s\" lacks a unique index of its parent", RelationGetRelationName(rel)),
				 errhint("DETACH PARTITION and ATTACH PARTITION make it anew.")));
	return here;
}

/* ---- DO UPDATE: expressions about the parent's columns become such about the partition's ---- */

static List *
for_partition(List *expressions, Index parent, const AttrMap *map, Oid row_type)
{
	Node	   *mapped = (Node *) copyObject(expressions);
	bool		whole_row;

	mapped = map_variable_attnos(mapped, INNER_VAR, 0, map, row_type, &whole_row);	/* excluded */
	return (List *) map_variable_attnos(mapped, parent, 0, map, row_type, &whole_row);
}

/* As ExecInitPartitionInfo() does it for a plan with the clause. */
void
mosql_exec_routed_update(ModifyTableState *mtstate, ResultRelInfo *rri)
{
	const ModifyTable *plan = (const ModifyTable *) mtstate->ps.plan;
	EState	   *estate = mtstate->ps.state;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
	Relation	rel = rri->ri_RelationDesc;
	Index		parent = mtstate->resultRelInfo->ri_RangeTableIndex;
	Oid			row_type = RelationGetForm(rel)->reltype;
	AttrMap    *map = mosql_fdw_columns_of_partition(rel, mtstate->resultRelInfo->ri_RelationDesc);
	OnConflictSetState *state = makeNode(OnConflictSetState);
	List	   *columns = NIL;

	for (int i = SIGN_LENGTH; i < list_length(plan->onConflictCols); i++)
		columns = lappend_int(columns, map->attnums[list_nth_int(plan->onConflictCols, i) - 1]);
	if (mtstate->ps.ps_ExprContext == NULL)
		ExecAssignExprContext(estate, &mtstate->ps);
	state->oc_Existing = table_slot_create(rel, &estate->es_tupleTable);
	state->oc_ProjSlot = table_slot_create(rel, &estate->es_tupleTable);
	state->oc_ProjInfo = ExecBuildUpdateProjection(for_partition(plan->onConflictSet, parent, map, row_type), true,
												   columns, RelationGetDescr(rel), mtstate->ps.ps_ExprContext,
												   state->oc_ProjSlot, &mtstate->ps);
	state->oc_WhereClause = ExecInitQual(for_partition((List *) plan->onConflictWhere, parent, map, row_type), &mtstate->ps);
	rri->ri_onConflict = state;
	MemoryContextSwitchTo(old);
}

/* ---- planning ---- */

/* What kinds of partitions are below a table. */
typedef struct Below
{
	bool		ours;			/* with unique indexes: of others the executor opens none */
	bool		others;
	List	   *tables;			/* all of them that have partitions */
} Below;

static bool
has_index(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	bool		has = rel->rd_rel->relhasindex;

	table_close(rel, NoLock);
	return has;
}

static Below
look_below(Oid relid)
{
	Below		below = {0};
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, AccessShareLock, NULL))
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_PARTITIONED_TABLE)
			below.tables = lappend_oid(below.tables, lfirst_oid(lc));
		else if (mosql_fdw_is_ours(lfirst_oid(lc)))
			below.ours |= has_index(lfirst_oid(lc));
		else
			below.others = true;
	return below;
}

static void
refuse(Oid relid, const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("ON CONFLICT %s is not supported for partitioned table \"%s\"", what, get_rel_name(relid)),
			 errdetail("It has partitions that are foreign tables of mosql_fdw."),
			 errhint("%s", hint)));
}

static bool
has_update_triggers(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	const TriggerDesc *triggers = rel->trigdesc;
	bool		has = triggers != NULL && (triggers->trig_update_before_statement || triggers->trig_update_after_statement);

	table_close(rel, NoLock);
	return has;
}

static void
take_conflict(PlannedStmt *statement, ModifyTable *plan, bool in_batches)
{
	const RangeTblEntry *rte = rt_fetch(linitial_int(plan->resultRelations), statement->rtable);
	const char *action = plan->onConflictAction == ONCONFLICT_UPDATE ? "DO UPDATE" : "DO NOTHING";
	Below		below;

	if (plan->operation != CMD_INSERT || plan->onConflictAction == ONCONFLICT_NONE ||
		rte->relkind != RELKIND_PARTITIONED_TABLE)
		return;
	below = look_below(rte->relid);
	/* planned anew when there are others below it, whether this plan is changed or not */
	statement->relationOids = list_concat_unique_oid(statement->relationOids, below.tables);
	if (!below.ours)
		return;
	if (below.others)
		refuse(rte->relid, action, "INSERT into the partition, or make all partitions tables of one kind.");
	if (plan->onConflictAction == ONCONFLICT_UPDATE && has_update_triggers(rte->relid))
		refuse(rte->relid, action, "It has triggers for each statement of UPDATE: INSERT into the partition, or make "
			   "them triggers for each row of the partitions.");
	plan->onConflictAction = ONCONFLICT_NONE;
	plan->onConflictCols = list_concat(list_make2_int(NO_COLUMN, in_batches), plan->onConflictCols);
}

static bool
has_conflict_clause(const Query *query)
{
	ListCell   *lc;

	if (query->onConflict != NULL)
		return true;
	foreach(lc, query->hasModifyingCTE ? query->cteList : NIL)
		if (castNode(Query, lfirst_node(CommonTableExpr, lc)->ctequery)->onConflict != NULL)
			return true;
	return false;
}

static PlannedStmt *
plan_statement(Query *query, const char *text, int options, ParamListInfo params)
{
	bool		in_batches = has_conflict_clause(query) && !mosql_later_may_look(query);
	PlannedStmt *statement = (next_planner != NULL ? next_planner : standard_planner) (query, text, options, params);
	ListCell   *lc;

	if (statement->planTree != NULL && IsA(statement->planTree, ModifyTable))
		take_conflict(statement, (ModifyTable *) statement->planTree, in_batches);
	foreach(lc, statement->hasModifyingCTE ? statement->subplans : NIL)
		if (lfirst(lc) != NULL && IsA(lfirst(lc), ModifyTable))
			take_conflict(statement, lfirst(lc), in_batches);
	return statement;
}

/* ---- EXPLAIN ---- */

/* From here on nothing executes by the plan. */
static bool
show_conflict(PlanState *node, void *context)
{
	const ModifyTable *plan = (const ModifyTable *) node->plan;
	ModifyTable *shown;

	if (IsA(node, ModifyTableState) && has_sign(plan))
	{
		shown = palloc(sizeof(ModifyTable));
		*shown = *plan;
		shown->onConflictAction = mosql_exec_conflict_action(plan);
		node->plan = &shown->plan;
	}
	return planstate_tree_walker(node, show_conflict, context);
}

static void
show_statement(QueryDesc *query)
{
	MemoryContext old = MemoryContextSwitchTo(query->estate->es_query_cxt);

	if (query->planstate != NULL)
		(void) show_conflict(query->planstate, NULL);
	MemoryContextSwitchTo(old);
}

static void
executor_start(QueryDesc *query, int eflags)
{
	if (next_executor_start != NULL)
		next_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		show_statement(query);
}

static void
executor_finish(QueryDesc *query)
{
	if (next_executor_finish != NULL)
		next_executor_finish(query);
	else
		standard_ExecutorFinish(query);
	if (query->instrument_options != 0)
		show_statement(query);
}

void
mosql_fdw_init_routed(void)
{
	next_planner = planner_hook;
	planner_hook = plan_statement;
	next_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	next_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
}
