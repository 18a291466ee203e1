/*
 * routed.c: INSERT ... ON CONFLICT into a partitioned table whose partitions are ours.
 *
 * Layer: fdw.  Where a statement says ON CONFLICT, the executor opens the unique indexes of each partition that
 * it routes a row to, to insert into them speculatively, and knows but btree for that (XX000), before it asks the
 * wrapper.  Of a foreign table it makes no other use of the clause.  So DO NOTHING is taken out of the plan, and left
 * to us by a sign that the executor does not look at in a plan without ON CONFLICT: a column number that is none.
 *
 * That is only so where all partitions are ours: one of PostgreSQL's own needs what the plan says.  The plan is made
 * anew when a table below the parent gets another partition.  DO UPDATE is refused: its expressions are about columns of
 * the parent, and the executor would not show them rows of ours.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "fdw/exec_int.h"

#define NO_COLUMN	(-1)

static planner_hook_type next_planner = NULL;

bool
mosql_exec_routes_nothing(const ModifyTable *plan)
{
	return plan->onConflictAction == ONCONFLICT_NONE && plan->onConflictCols != NIL &&
		linitial_int(plan->onConflictCols) == NO_COLUMN;
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

static void
take_conflict(PlannedStmt *statement, ModifyTable *plan)
{
	const RangeTblEntry *rte = rt_fetch(linitial_int(plan->resultRelations), statement->rtable);
	Below		below;

	if (plan->operation != CMD_INSERT || plan->onConflictAction == ONCONFLICT_NONE ||
		rte->relkind != RELKIND_PARTITIONED_TABLE)
		return;
	below = look_below(rte->relid);
	/* planned anew when there are others below it, whether this plan is changed or not */
	statement->relationOids = list_concat_unique_oid(statement->relationOids, below.tables);
	if (!below.ours)
		return;
	if (plan->onConflictAction == ONCONFLICT_UPDATE)
		refuse(rte->relid, "DO UPDATE", "INSERT into the partition, or UPDATE before INSERT ... ON CONFLICT DO NOTHING.");
	if (below.others)
		refuse(rte->relid, "DO NOTHING", "INSERT into the partition, or make all partitions tables of one kind.");
	plan->onConflictAction = ONCONFLICT_NONE;
	plan->onConflictCols = list_make1_int(NO_COLUMN);
}

static PlannedStmt *
plan_statement(Query *query, const char *text, int options, ParamListInfo params)
{
	PlannedStmt *statement = (next_planner != NULL ? next_planner : standard_planner) (query, text, options, params);
	ListCell   *lc;

	if (statement->planTree != NULL && IsA(statement->planTree, ModifyTable))
		take_conflict(statement, (ModifyTable *) statement->planTree);
	foreach(lc, statement->hasModifyingCTE ? statement->subplans : NIL)
		if (lfirst(lc) != NULL && IsA(lfirst(lc), ModifyTable))
			take_conflict(statement, lfirst(lc));
	return statement;
}

void
mosql_fdw_init_routed(void)
{
	next_planner = planner_hook;
	planner_hook = plan_statement;
}
