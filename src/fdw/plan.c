/*
 * plan.c: the plan of a scan: what is evaluated where, and all that execution needs.
 *
 * Layer: fdw, planner side.
 */
#include "postgres.h"

#include <math.h>

#include "access/sysattr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"

#include "fdw/ahead.h"
#include "fdw/plan_int.h"

/* ---- which attributes ---- */

/* Attributes that the scan must decode: MOSQL_SCAN_NEEDED; system ones: MOSQL_SCAN_SYSTEM. */
static List *
needed_attributes(PlannerInfo *root, RelOptInfo *rel, List *local, int *system)
{
	Bitmapset  *attrs = NULL;
	List	   *needed = NIL;
	int			i = -1;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &attrs);
	pull_varattnos((Node *) local, rel->relid, &attrs);
	*system = mosql_system_needed(root, attrs);
	while ((i = bms_next_member(attrs, i)) >= 0)
	{
		AttrNumber	attnum = i + FirstLowInvalidHeapAttributeNumber;

		if (attnum >= 0)
			needed = lappend_int(needed, attnum);
	}
	return needed;
}

/* Would an index's entries do for these attributes, as needed_attributes() lists them? */
static bool
entries_suffice(const MosqlTable *table, const MosqlIndex *index, const List *attributes,
				int system)
{
	bool	   *needed = palloc0((table->natts + 1) * sizeof(bool));
	const ListCell *lc;

	foreach(lc, attributes)
	{
		if (lfirst_int(lc) == 0)
			return false;
		needed[lfirst_int(lc) - 1] = true;
	}
	return system == 0 && mosql_index_covers(table, index, needed);
}

/*
 * The conditions that have to be evaluated for each row, and those that need not: the
 * ranges, or the predicate of the index, imply them.  These are evaluated again only
 * when EvalPlanQual rechecks a row.
 */
static void
sort_clauses(const MosqlKeyQuals *quals, List *predicate, List *clauses, List **local,
			 List **exact)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->pseudoconstant || IsA(rinfo->clause, CurrentOfExpr))
			continue;			/* a gating Result above does it; the scan is by it alone */
		if ((list_member_ptr(quals->used, rinfo) && !list_member_ptr(quals->recheck, rinfo)) ||
			(predicate != NIL && !contain_mutable_functions((Node *) rinfo->clause) &&
			 predicate_implied_by(list_make1(rinfo->clause), predicate, false)))
			*exact = lappend(*exact, rinfo->clause);
		else
			*local = lappend(*local, rinfo->clause);
	}
}

/* Do the entries have all that the query may ask of the relation? */
bool
mosql_plan_is_covered(PlannerInfo *root, RelOptInfo *rel, const MosqlTable *table,
					  const MosqlAccess *access)
{
	List	   *local = NIL;
	List	   *exact = NIL;
	List	   *attributes;
	int			system;

	sort_clauses(access->quals, access->predicate, rel->baserestrictinfo, &local, &exact);
	attributes = needed_attributes(root, rel, local, &system);
	return entries_suffice(table, access->index, attributes, system);
}

/* ---- the plan ---- */

static bool
has_inner_params(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
		return ((Param *) node)->paramkind != PARAM_EXTERN;
	if (IsA(node, SubPlan) || IsA(node, AlternativeSubPlan) || IsA(node, Var))
		return true;
	return expression_tree_walker(node, has_inner_params, context);
}

/* Does the query name another foreign table, perhaps one that needs no scan? */
static bool
has_other_tables(const Query *parse)
{
	int			n = 0;
	ListCell   *lc;

	foreach(lc, parse->rtable)
	{
		const RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_FOREIGN_TABLE)
			n++;
	}
	return n > 1;
}

/*
 * Does the whole statement read nothing but what this scan does, by the table's own key, once?  If that is one row it needs no
 * snapshot under READ COMMITTED: the row's latest version is a state of the
 * database by itself.  So is a leaf, if nobody is committing there.  (With a snapshot comes the schema version, which
 * tells whether the join with a table that was removed could be.)
 */
static bool
is_only_read(PlannerInfo *root, RelOptInfo *rel, ForeignPath *path, const MosqlKeyQuals *quals)
{
	const Query *parse = root->parse;

	return path->path.param_info == NULL && rel->reloptkind == RELOPT_BASEREL && root->parent_root == NULL &&
		bms_membership(root->all_baserels) == BMS_SINGLETON && !has_other_tables(parse) &&
		!parse->hasSubLinks && !parse->hasModifyingCTE && !parse->hasRecursive &&
		parse->cteList == NIL && parse->setOperations == NULL &&
		root->glob->subplans == NIL && root->glob->subroots == NIL &&
		!has_inner_params((Node *) quals->exprs, NULL);
}

/* Rows that the query wants of this scan, for its first read; 0: unknown. */
static int
wanted_rows(PlannerInfo *root, RelOptInfo *rel, ForeignPath *path, List *local)
{
	const MosqlRelPlan *plan = rel->fdw_private;
	double		rows = root->limit_tuples;

	if (rows <= 0 || path->path.param_info != NULL ||
		bms_membership(root->all_baserels) != BMS_SINGLETON ||
		!pathkeys_contained_in(root->query_pathkeys, path->path.pathkeys))
		return plan->options->fetch_size;
	if (local != NIL)
		rows /= Max(clauselist_selectivity(root, local, rel->relid, JOIN_INNER, NULL), 1e-6);
	return (int) Min(ceil(rows), 1e9);
}

/* As MOSQL_SCAN_INDEX has it. */
static List *
index_private(const MosqlIndex *index, bool only)
{
	return list_make4_int(index ? index->id : 0, only,
						  index ? (int) (index->entries->root >> 32) : 0,
						  index ? (int) (uint32) index->entries->root : 0);
}

/* MOSQL_SCAN_ARMS of a union's path; appends their values to *exprs. */
static List *
arms_private(PlannerInfo *root, RelOptInfo *rel, const ForeignPath *path, List *clauses,
			 List **exprs)
{
	const MosqlRelPlan *plan = rel->fdw_private;
	const RestrictInfo *or;
	List	   *arms = NIL;
	ListCell   *lc;

	if (list_length(path->fdw_private) < 4)
		return NIL;
	or = lthird(path->fdw_private);
	foreach(lc, (List *) lfourth(path->fdw_private))
	{
		const MosqlIndex *index = mosql_table_index(plan->table, lfirst_int(lc));
		const MosqlTable *keys = index ? index->entries : plan->table;
		MosqlKeyQuals *quals = mosql_plan_arm_quals(root, rel, keys, or,
													foreach_current_index(lc), clauses);

		arms = lappend(arms, list_make2(index_private(index, false),
										mosql_conds_encode(quals->conds, quals->nconds)));
		*exprs = list_concat(*exprs, quals->exprs);
	}
	return arms;
}

/* MOSQL_SCAN_TIDS of a path by ctid; appends its value to *exprs. */
static MosqlTids
tids_private(const ForeignPath *path, Index relid, List **exprs)
{
	MosqlTids	tids;
	Expr	   *value;

	if (list_length(path->fdw_private) != 3 || !IsA(lthird(path->fdw_private), RestrictInfo))
		return MOSQL_TIDS_NONE;
	tids = mosql_tid_value(lthird(path->fdw_private), relid, &value);
	*exprs = lappend(*exprs, value);
	return tids;
}

/* MOSQL_SCAN_AHEAD of a path that ahead_path.c has made. */
static int
ahead_private(PlannerInfo *root, const ForeignPath *path)
{
	if (list_length(path->fdw_private) != 3 || !IsA(lthird(path->fdw_private), Integer))
		return -1;
	return mosql_ahead_link(root, lthird(path->fdw_private));
}

ForeignScan *
mosqlGetForeignPlan(PlannerInfo *root, RelOptInfo *rel, Oid relid, ForeignPath *path, List *tlist,
					List *clauses, Plan *outer_plan)
{
	const MosqlRelPlan *plan = rel->fdw_private;
	const MosqlIndex *index = mosql_table_index(plan->table, intVal(lsecond(path->fdw_private)));
	const MosqlTable *keys = index ? index->entries : plan->table;
	List	   *exprs = NIL;
	List	   *arms = arms_private(root, rel, path, clauses, &exprs);
	MosqlTids	tids = tids_private(path, rel->relid, &exprs);
	MosqlKeyQuals *quals = mosql_quals_find(root, rel, relid, keys,
											arms == NIL && tids == MOSQL_TIDS_NONE ? clauses : NIL);
	List	   *local = NIL;
	List	   *exact = NIL;
	List	   *private = NIL;
	List	   *needed;
	int			system;
	bool		only = index == NULL && is_only_read(root, rel, path, quals);

	sort_clauses(quals, index ? mosql_plan_index_predicate(rel, index) : NIL, clauses,
				 &local, &exact);
	needed = needed_attributes(root, rel, local, &system);

	/* In the order of enum MosqlScanPrivate. */
	private = lappend(private, mosql_conds_encode(quals->conds, quals->nconds));
	private = lappend(private, needed);
	private = lappend(private, copyObject(linitial(path->fdw_private)));
	private = lappend(private, makeInteger(arms == NIL ? wanted_rows(root, rel, path, local)
										   : plan->options->fetch_size));
	private = lappend(private, makeBoolean(only && quals->whole_key));
	private = lappend(private, makeInteger(system));
	private = lappend(private, index_private(index, index != NULL &&
											 entries_suffice(plan->table, index, needed, system)));
	private = lappend(private, arms);
	private = lappend(private, makeInteger(tids));
	private = lappend(private, mosql_plan_lock(root, rel, &path->path, local,
											   index == NULL && arms == NIL && tids == MOSQL_TIDS_NONE,
											   quals->whole_key));
	private = lappend(private, makeInteger(ahead_private(root, path)));
	private = lappend(private, makeBoolean(false)); /* MOSQL_SCAN_TURNS */
	private = lappend(private, makeBoolean(only && arms == NIL && tids == MOSQL_TIDS_NONE));

	return make_foreignscan(tlist, local, rel->relid, list_concat(exprs, quals->exprs), private,
							NIL, exact, outer_plan);
}
