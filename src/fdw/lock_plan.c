/*
 * lock_plan.c: which scans may lock the rows that they return.
 *
 * Layer: fdw, planner side.  A pessimistic transaction locks rows in batches, in the scan,
 * where each row that the scan returns is to be locked: it is the target of an UPDATE or
 * DELETE, or the only table of a SELECT ... FOR UPDATE, as far as its LIMIT goes.
 * Elsewhere rows are locked one by one, when a join has let them through, or a sort below LIMIT.  Whether
 * the table's locking is pessimistic is asked when the plan is executed, and how many rows
 * this run of it wants.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "optimizer/appendinfo.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

#include "code/claim.h"
#include "fdw/plan_int.h"

MosqlStrength
mosql_lock_update_strength(const MosqlTable *table, const Bitmapset *attributes)
{
	int			i = -1;

	while ((i = bms_next_member(attributes, i)) >= 0)
	{
		int			attnum = i + FirstLowInvalidHeapAttributeNumber;

		if (attnum > 0 && attnum <= table->natts && mosql_table_is_unique_column(table, attnum))
			return MOSQL_UPDATE;
	}
	return MOSQL_NO_KEY_UPDATE;
}

bool
mosql_lock_shows_old(const TriggerDesc *triggers, CmdType operation)
{
	if (triggers == NULL)
		return false;
	if (operation == CMD_DELETE)
		return triggers->trig_delete_before_row || triggers->trig_delete_after_row ||
			triggers->trig_delete_old_table;
	return triggers->trig_update_before_row || triggers->trig_update_after_row ||
		triggers->trig_update_old_table;
}

static bool
has_old_row_triggers(PlannerInfo *root, const RelOptInfo *rel)
{
	Relation	relation = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);
	bool		result = mosql_lock_shows_old(relation->trigdesc, root->parse->commandType);

	table_close(relation, NoLock);
	return result;
}

static bool
is_target(const PlannerInfo *root, const RelOptInfo *rel)
{
	return (root->parse->commandType == CMD_UPDATE || root->parse->commandType == CMD_DELETE) &&
		bms_is_member((int) rel->relid, root->all_result_relids);
}

/* SET column = column: it keeps its value. */
static bool
keeps_value(const TargetEntry *entry, AttrNumber attnum, Index relid)
{
	const Var  *var = (const Var *) entry->expr;

	return IsA(var, Var) && var->varno == (int) relid && var->varattno == attnum &&
		var->varlevelsup == 0;
}

/*
 * One row, whose unique columns perhaps get the values that they have (an application that
 * saves all of a row does that): NO KEY UPDATE, which keeps no child away.  If they are others
 * it is more when the row is changed (lock_target.c), a round trip that many rows are spared.
 */
static MosqlStrength
target_strength(PlannerInfo *root, const RelOptInfo *rel, bool one_row)
{
	const MosqlRelPlan *plan = rel->fdw_private;
	Bitmapset  *attributes = NULL;
	List	   *tlist;
	List	   *attnos;
	ListCell   *lc,
			   *entry;

	if (root->parse->commandType == CMD_DELETE)
		return MOSQL_UPDATE;
	if (one_row)
		return MOSQL_NO_KEY_UPDATE;
	get_translated_update_targetlist(root, rel->relid, &tlist, &attnos);
	forboth(lc, attnos, entry, tlist)
		if (!keeps_value(lfirst_node(TargetEntry, entry), lfirst_int(lc), rel->relid))
			attributes = bms_add_member(attributes,
										lfirst_int(lc) - FirstLowInvalidHeapAttributeNumber);
	attributes = bms_union(attributes,
						   get_dependent_generated_columns(root, rel->relid, attributes));
	return mosql_lock_update_strength(plan->table, attributes);
}

/* The mark of FOR UPDATE and kin; NULL: none. */
static const PlanRowMark *
row_mark(const PlannerInfo *root, const RelOptInfo *rel)
{
	const ListCell *lc;

	foreach(lc, root->rowMarks)
	{
		const PlanRowMark *mark = lfirst_node(PlanRowMark, lc);

		if (mark->rti == rel->relid && !mark->isParent && RowMarkRequiresRowShareLock(mark->markType))
			return mark;
	}
	return NULL;
}

/*
 * Is a row locked, and told to the client, before the next is asked for?  Not where the plan sorts, or
 * merges the partitions of a table.
 */
static bool
comes_row_by_row(const PlannerInfo *root, const RelOptInfo *rel, const Path *path)
{
	return rel->reloptkind == RELOPT_BASEREL &&
		pathkeys_contained_in(root->query_pathkeys, path->pathkeys);
}

/* A value that is known; what the planner takes an expression for is an estimate. */
static bool
is_known(const Node *value)
{
	return value == NULL || (IsA(value, Const) && !((const Const *) value)->constisnull);
}

/*
 * The rows that LIMIT lets through or skips, so many for sure, if there are as many; 0: all that the
 * scan returns; -1: nobody knows.
 */
static int
rows_read(const PlannerInfo *root)
{
	const Query *parse = root->parse;

	if (parse->limitCount == NULL && parse->limitOffset == NULL)
		return 0;
	if (parse->limitCount == NULL || !is_known(parse->limitCount) || !is_known(parse->limitOffset) ||
		root->limit_tuples <= 0)
		return -1;
	return (int) Min(root->limit_tuples, 1e9);
}

/* May the filter be evaluated before the executor does, and where ctid is not known? */
static bool
is_filter_plain(const RelOptInfo *rel, List *local)
{
	Bitmapset  *columns = NULL;

	if (contain_volatile_functions((Node *) local))
		return false;
	pull_varattnos((Node *) local, rel->relid, &columns);
	return !bms_is_member(SelfItemPointerAttributeNumber - FirstLowInvalidHeapAttributeNumber,
						  columns);
}

/* FOR UPDATE and kin.  Who asks for a row by its key takes it, whatever is above. */
static List *
plan_marked(const PlannerInfo *root, const RelOptInfo *rel, const Path *path, const PlanRowMark *mark,
			bool at_once, bool one_key)
{
	bool		row_by_row = one_key || comes_row_by_row(root, rel, path);
	int			rows = one_key ? 0 : rows_read(root);

	if (!one_key && (root->parse->commandType != CMD_SELECT || root->parent_root != NULL))
		return NIL;				/* perhaps read in part */
	if (rows < 0 || (rows > 0 && !row_by_row))
		return NIL;
	return lappend_int(list_make5_int(mosql_lock_mark_strength(mark->markType), mark->waitPolicy, at_once,
									  false, rows), row_by_row);
}

List *
mosql_plan_lock(PlannerInfo *root, RelOptInfo *rel, const Path *path, List *local, bool by_key, bool one_key)
{
	bool		alone = bms_membership(root->all_baserels) == BMS_SINGLETON;
	bool		at_once = by_key && local == NIL;
	const PlanRowMark *mark;

	one_key &= by_key;
	if (!is_filter_plain(rel, local))
		return NIL;
	if (is_target(root, rel))
		return alone || has_old_row_triggers(root, rel)
			? lappend_int(list_make5_int(target_strength(root, rel, one_key), LockWaitBlock, at_once, true, 0), true) : NIL;
	mark = row_mark(root, rel);
	return mark != NULL && alone ? plan_marked(root, rel, path, mark, at_once, one_key) : NIL;
}
