/*
 * path.c: the ways to a table's rows that the planner can choose from.
 *
 * Layer: fdw, planner side.  A table is a tree ordered by its key, and each index
 * one ordered by its own, so there is one kind of scan: the ranges of a key that
 * the conditions leave, in key order, forwards or backwards.  What the planner can
 * choose, for the table's key, and for each index that conditions bound or whose
 * order is of use:
 *
 *   - the base path, bounded by conditions with constants and parameters; in
 *     key order, which serves ORDER BY, LIMIT, MIN and merge joins for free;
 *   - the same backwards, if that order is of use;
 *   - parameterised paths, bounded by join clauses: the inner side of nested
 *     loops.  They need no option to exist;
 *   - a path that the processes of a parallel query divide (parallel_path.c);
 *   - unions, where each arm of an OR bounds some key;
 *   - rows by ctid, if conditions say which (tid.c).
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_collation.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "fdw/plan_int.h"

/* Sets of outer relations tried for parameterised paths. */
#define PLAN_MAX_PARAMETER_SETS	16

/* ---- one path ---- */

/* ForeignPath.fdw_private: Boolean backward, the index's id (0: the table itself); then for
 * rows by ctid the condition, for a union its OR and the ids of its arms' indexes; for look-ups
 * that are read ahead, mosql_ahead_link()'s. */
static List *
path_private(const MosqlAccess *access, bool backward)
{
	List	   *private = list_make2(makeBoolean(backward),
									 makeInteger(access->index ? access->index->id : 0));
	List	   *ids = NIL;

	for (int i = 0; i < access->narms; i++)
		ids = lappend_int(ids, access->arms[i].index ? access->arms[i].index->id : 0);
	if (access->tids != NULL)
		return lappend(private, access->tids);
	return access->narms > 0 ? lappend(lappend(private, access->or), ids) : private;
}

/* Do enable_seqscan and its like advise against this way? */
static bool
is_disabled(const MosqlAccess *access)
{
	if (access->narms > 0 && access->index == NULL && !enable_bitmapscan)
		return true;
	if (access->index != NULL)
		return !enable_indexscan || (access->only && !enable_indexonlyscan);
	return access->narms == 0 && access->quals->nconds == 0 && !enable_seqscan;
}

/* workers: 0, or so many divide it among them, and the leader. */
static ForeignPath *
make_path(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *access, double rows,
		  List *pathkeys, Relids required_outer, bool backward, int workers)
{
	MosqlRelPlan    *plan = rel->fdw_private;
	ForeignPath *path;
	Cost		startup;
	Cost		total;

	mosql_plan_cost(root, rel, plan, access, rows, &startup, &total);
	if (workers > 0)
		mosql_plan_divide(plan, workers, &rows, &startup, &total);
#if PG_VERSION_NUM < 180000
	if (is_disabled(access))
	{
		startup += disable_cost;
		total += disable_cost;
	}
#endif
	path = create_foreignscan_path(root, rel, NULL, rows,
#if PG_VERSION_NUM >= 180000
								   is_disabled(access) ? 1 : 0, /* disabled nodes */
#endif
								   startup, total, pathkeys, required_outer, NULL,
#if PG_VERSION_NUM >= 170000
								   NIL, /* restrictions of foreign joins */
#endif
								   path_private(access, backward));
	path->path.parallel_aware = path->path.parallel_safe = workers > 0;
	path->path.parallel_workers = workers;
	return path;
}

static void
add_scan_path(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *access, double rows,
			  List *pathkeys, Relids required_outer, bool backward)
{
	add_path(rel, (Path *) make_path(root, rel, access, rows, pathkeys, required_outer, backward,
									 0));
}

/* ... whose rows come in no order, as several processes return them. */
static void
add_divided_path(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *access)
{
	int			workers = mosql_plan_workers(root, rel, access);

	if (workers > 0)
		add_partial_path(rel, (Path *) make_path(root, rel, access, rel->rows, NIL, NULL, false,
												 workers));
}

/* ---- order ---- */

/* A key column as the query has it. */
static Expr *
key_expression(PlannerInfo *root, RelOptInfo *rel, const MosqlTableColumn *column)
{
	Oid			type;
	int32		typmod;
	Oid			collation;

	if (column->planned != NULL)
		return (Expr *) mosql_quals_key_node(column, rel->relid);
	get_atttypetypmodcoll(planner_rt_fetch(rel->relid, root)->relid, column->attnum,
						  &type, &typmod, &collation);
	return (Expr *) makeVar(rel->relid, column->attnum, type, typmod, collation, 0);
}

/*
 * What the query says of the order of a key column's expression: under its own collation, if
 * that is the key's order, or under "C", as the bytes are ordered whatever the column says.
 */
static EquivalenceClass *
order_class(PlannerInfo *root, RelOptInfo *rel, const MosqlTableColumn *column,
			const TypeCacheEntry *type, Expr *expr)
{
	Oid			own = exprCollation((Node *) expr);
	Oid			collations[2] = {own, C_COLLATION_OID};

	for (int i = 0; i < (OidIsValid(own) ? 2 : 1); i++)
	{
		EquivalenceClass *ec = NULL;

		if (mosql_quals_key_ordered(column, collations[i]))
			ec = get_eclass_for_sort_expr(root, expr,
#if PG_VERSION_NUM < 160000
										  NULL, /* no outer join in between */
#endif
										  get_mergejoin_opfamilies(type->eq_opr), type->btree_opintype,
										  collations[i], 0, rel->relids, false);
		if (ec != NULL)
			return ec;
	}
	return NULL;
}

/*
 * The order of one key column as the query names it, NULL if nothing in the
 * query sorts or joins by it.
 */
static PathKey *
column_pathkey(PlannerInfo *root, RelOptInfo *rel, const MosqlTableColumn *column, bool backward,
			   bool *constant)
{
	TypeCacheEntry *type = lookup_type_cache(column->type,
											 TYPECACHE_BTREE_OPFAMILY | TYPECACHE_EQ_OPR);
	EquivalenceClass *ec;
	ListCell   *lc;
	bool		reversed = backward != column->descending;
	bool		nulls_first = column->nullable ? column->nulls_first != backward : reversed;

	*constant = false;
	if (!OidIsValid(type->btree_opf) || !OidIsValid(type->eq_opr))
		return NULL;

	ec = order_class(root, rel, column, type, key_expression(root, rel, column));
	if (ec == NULL)
		return NULL;
	*constant = EC_MUST_BE_REDUNDANT(ec);

	/* A table's key columns are never null: take whatever the query says of nulls. */
	foreach(lc, root->query_pathkeys)
	{
		PathKey    *key = lfirst_node(PathKey, lc);
#if PG_VERSION_NUM >= 180000
		bool		descending = key->pk_cmptype == COMPARE_GT;
#else
		bool		descending = key->pk_strategy == BTGreaterStrategyNumber;
#endif

		if (key->pk_eclass == ec && key->pk_opfamily == type->btree_opf &&
			descending == reversed && (!column->nullable || key->pk_nulls_first == nulls_first))
			return key;
	}
#if PG_VERSION_NUM >= 180000
	return make_canonical_pathkey(root, ec, type->btree_opf,
								  reversed ? COMPARE_GT : COMPARE_LT, nulls_first);
#else
	return make_canonical_pathkey(root, ec, type->btree_opf,
								  reversed ? BTGreaterStrategyNumber : BTLessStrategyNumber,
								  nulls_first);
#endif
}

/*
 * The pathkeys of a scan in key order, NIL if the query has no use for them.
 * Leading columns that are equal to one value do not count for the order.
 */
static List *
scan_pathkeys(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *access, bool backward)
{
	const MosqlTable *table = access->keys;
	List	   *pathkeys = NIL;

	for (int i = 0; i < table->nkeys; i++)
	{
		const MosqlTableColumn *column = &table->columns[table->key_attnums[i] - 1];
		bool		single = i < access->quals->nequal &&
			access->quals->conds[i].kind != MOSQL_COND_IN;
		bool		constant;
		PathKey    *key = column_pathkey(root, rel, column, backward, &constant);
		ListCell   *lc;

		if (constant || (single && key == NULL))
			continue;
		if (key == NULL)
			break;

		/* a column equal to an earlier one adds nothing */
		foreach(lc, pathkeys)
		{
			if (lfirst_node(PathKey, lc)->pk_eclass == key->pk_eclass)
				break;
		}
		if (lc == NULL)
			pathkeys = lappend(pathkeys, key);
	}
	return truncate_useless_pathkeys(root, rel, pathkeys);
}

/* ---- parameterised paths ---- */

static bool
member_is_column(PlannerInfo *root, RelOptInfo *rel, EquivalenceClass *ec, EquivalenceMember *em,
				 void *arg)
{
	return mosql_quals_is_key(arg, rel->relid, (Node *) em->em_expr);
}

/* Add the other relations of a clause to the sets, unless they are there. */
static List *
add_set(List *sets, RelOptInfo *rel, Relids relids)
{
	Relids		outer = bms_del_member(bms_union(relids, rel->lateral_relids), rel->relid);
	ListCell   *lc;

	if (bms_is_empty(outer) || list_length(sets) >= PLAN_MAX_PARAMETER_SETS)
		return sets;
	foreach(lc, sets)
	{
		if (bms_equal(lfirst(lc), outer))
			return sets;
	}
	return lappend(sets, outer);
}

static List *
add_sets_of(List *sets, PlannerInfo *root, RelOptInfo *rel, const MosqlTable *table, List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (join_clause_is_movable_to(rinfo, rel) && mosql_quals_usable(root, rel, table, rinfo))
			sets = add_set(sets, rel, rinfo->clause_relids);
	}
	return sets;
}

/*
 * Sets of outer relations whose rows could bound the key: those of single join
 * clauses, then pairs of them, then all together (composite keys joined from
 * several relations).
 */
static List *
parameter_sets(PlannerInfo *root, RelOptInfo *rel, const MosqlTable *table)
{
	List	   *sets = add_sets_of(NIL, root, rel, table, rel->joininfo);
	Relids		all = NULL;
	int			nsingle;

	for (int i = 0; i < table->nkeys && rel->has_eclass_joins; i++)
	{
		MosqlTableColumn *column = &table->columns[table->key_attnums[i] - 1];

		sets = add_sets_of(sets, root, rel, table,
						   generate_implied_equalities_for_column(root, rel, member_is_column,
																  column, rel->lateral_referencers));
	}

	nsingle = list_length(sets);
	for (int i = 0; i < nsingle && table->nkeys > 1; i++)
	{
		all = bms_add_members(all, list_nth(sets, i));
		for (int j = i + 1; j < nsingle && nsingle <= 4; j++)
			sets = add_set(sets, rel, bms_union(list_nth(sets, i), list_nth(sets, j)));
	}
	return bms_is_empty(all) ? sets : add_set(sets, rel, all);
}

static void
add_parameterised_paths(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *base)
{
	Oid			relid = planner_rt_fetch(rel->relid, root)->relid;
	ListCell   *lc;

	foreach(lc, parameter_sets(root, rel, base->keys))
	{
		ParamPathInfo *param = get_baserel_parampathinfo(root, rel, lfirst(lc));
		List	   *clauses = list_concat_copy(rel->baserestrictinfo, param->ppi_clauses);
		MosqlAccess		access = *base;

		access.quals = mosql_quals_find(root, rel, relid, base->keys, clauses);

		/* of use only if a join clause bounds the key */
		if (list_difference_ptr(access.quals->used, rel->baserestrictinfo) == NIL)
			continue;
		if (base->index == NULL)
			param->ppi_rows = mosql_plan_rows_returned(root, rel, &access, clauses);
		add_scan_path(root, rel, &access, param->ppi_rows, NIL, param->ppi_req_outer, false);
	}
}

/* All paths of one access; an index that is of no use gets none. */
static void
add_paths(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *access)
{
	List	   *forward = scan_pathkeys(root, rel, access, false);
	List	   *backward = scan_pathkeys(root, rel, access, true);

	if (access->index == NULL || access->quals->nconds > 0 || access->predicate != NIL ||
		forward != NIL)
		add_scan_path(root, rel, access, rel->rows, forward, rel->lateral_relids, false);
	if (backward != NIL)
		add_scan_path(root, rel, access, rel->rows, backward, rel->lateral_relids, true);
	if (access->index == NULL || access->quals->nconds > 0 || access->predicate != NIL)
		add_divided_path(root, rel, access);
	add_parameterised_paths(root, rel, access);
}

/* The predicate of an index as the query would have it. */
List *
mosql_plan_index_predicate(RelOptInfo *rel, const MosqlIndex *index)
{
	List	   *predicate = copyObject(index->implied);

	if (rel->relid != 1)
		ChangeVarNodes((Node *) predicate, 1, rel->relid, 0);
	return predicate;
}

/* The equalities with other tables that the query implies for its rows. */
static List *
implied_equalities(PlannerInfo *root, RelOptInfo *rel)
{
#if PG_VERSION_NUM >= 160000
	Relids		all = root->all_query_rels;
#else
	Relids		all = root->all_baserels;
#endif
	Relids		others = bms_difference(all, rel->relids);

	if (rel->reloptkind != RELOPT_BASEREL || bms_is_empty(others))
		return NIL;
	return generate_join_implied_equalities(root, bms_union(rel->relids, others), others, rel
#if PG_VERSION_NUM >= 160000
											,NULL
#endif
		);
}

/*
 * Has the index all rows that the query may want?  Also by its join clauses: a row
 * that does not satisfy them is in no result.
 */
static bool
has_wanted_rows(PlannerInfo *root, RelOptInfo *rel, List *predicate)
{
	List	   *clauses = list_copy(rel->baserestrictinfo);
	ListCell   *lc;

	if (predicate == NIL)
		return true;
	foreach(lc, rel->joininfo)
		if (join_clause_is_movable_to(lfirst_node(RestrictInfo, lc), rel))
			clauses = lappend(clauses, lfirst(lc));
	clauses = list_concat(clauses, implied_equalities(root, rel));
	return predicate_implied_by(predicate, clauses, false);
}

/* ---- unions ---- */

/*
 * What one arm of an OR says together with all the other conditions of the table.
 * *own: the arm's clauses.
 */
static List *
arm_clauses(const RestrictInfo *or, int arm, List *clauses, List **own)
{
	Node	   *node = list_nth(castNode(BoolExpr, or->orclause)->args, arm);

	*own = is_andclause(node) ? ((BoolExpr *) node)->args : list_make1(node);
	return list_concat(list_delete_ptr(list_copy(clauses), unconstify(RestrictInfo *, or)), *own);
}

/*
 * By this key?  NULL: the arm itself does not bound it.  (An arm that is an OR again is no
 * RestrictInfo.)
 */
MosqlKeyQuals *
mosql_plan_arm_quals(PlannerInfo *root, RelOptInfo *rel, const MosqlTable *keys,
					 const RestrictInfo *or, int arm, List *clauses)
{
	List	   *own;
	List	   *all = arm_clauses(or, arm, clauses, &own);
	MosqlKeyQuals *quals;
	bool		bounds = false;
	ListCell   *lc;

	foreach(lc, own)
		if (!IsA(lfirst(lc), RestrictInfo))
			return NULL;
	quals = mosql_quals_find(root, rel, planner_rt_fetch(rel->relid, root)->relid, keys, all);
	foreach(lc, own)
		bounds |= list_member_ptr(quals->used, lfirst(lc));
	return bounds && quals->nconds > 0 ? quals : NULL;
}

/* The access among n by which an arm finds the fewest rows; false if none bounds it. */
static bool
choose_arm(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *accesses, int n,
		   const RestrictInfo *or, int arm, List *clauses, MosqlAccess *chosen)
{
	double		fewest = 0;

	chosen->keys = NULL;
	for (int i = 0; i < n; i++)
	{
		MosqlAccess		access = accesses[i];
		double		rows;

		access.quals = mosql_plan_arm_quals(root, rel, access.keys, or, arm, clauses);
		if (access.quals == NULL)
			continue;
		rows = mosql_plan_rows_in_ranges(root, rel, &access);
		if (chosen->keys == NULL || rows < fewest)
		{
			*chosen = access;
			fewest = rows;
		}
	}
	return chosen->keys != NULL;
}

/*
 * The path for an OR whose arms are bounded by any of n accesses.  If that is one and
 * the same, rows come in its order, else in that of the table's key.  param: for the
 * inner side of a nested loop, where order is of no use.
 */
static void
add_union_path(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *accesses, int n,
			   RestrictInfo *or, ParamPathInfo *param)
{
	const MosqlRelPlan *plan = rel->fdw_private;
	MosqlAccess		access = {.keys = plan->table,.or = or,.quals = palloc0(sizeof(MosqlKeyQuals))};
	List	   *clauses = param == NULL ? rel->baserestrictinfo
		: list_concat_copy(rel->baserestrictinfo, param->ppi_clauses);
	bool		same = true;
	List	   *pathkeys;

	access.narms = list_length(castNode(BoolExpr, or->orclause)->args);
	access.arms = palloc0(access.narms * sizeof(MosqlAccess));
	for (int i = 0; i < access.narms; i++)
	{
		if (!choose_arm(root, rel, accesses, n, or, i, clauses, &access.arms[i]))
			return;
		same &= access.arms[i].keys == access.arms[0].keys;
	}
	if (same)
	{
		access.index = access.arms[0].index;
		access.keys = access.arms[0].keys;
		access.only = access.arms[0].only;
	}
	if (param != NULL)
	{
		add_scan_path(root, rel, &access, param->ppi_rows, NIL, param->ppi_req_outer, false);
		return;
	}
	pathkeys = scan_pathkeys(root, rel, &access, false);
	add_scan_path(root, rel, &access, rel->rows, pathkeys, rel->lateral_relids, false);
	pathkeys = scan_pathkeys(root, rel, &access, true);
	if (pathkeys != NIL)
		add_scan_path(root, rel, &access, rel->rows, pathkeys, rel->lateral_relids, true);
}

/*
 * Unions for each OR that is no condition of a key as it is: by all keys together,
 * and by each of several alone, which may give a better order.  And for each OR that
 * joins: its arms with values of the outer relations.
 */
static void
add_unions(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *accesses, int n)
{
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		bool		is_used = false;

		if (rinfo->orclause == NULL || rinfo->pseudoconstant)
			continue;
		for (int i = 0; i < n; i++)
			is_used |= list_member_ptr(accesses[i].quals->used, rinfo);
		if (is_used)
			continue;
		add_union_path(root, rel, accesses, n, rinfo, NULL);
		for (int i = 0; i < n && n > 1; i++)
			add_union_path(root, rel, &accesses[i], 1, rinfo, NULL);
	}
	foreach(lc, rel->joininfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		List	   *set;

		if (rinfo->orclause == NULL || !join_clause_is_movable_to(rinfo, rel))
			continue;
		set = add_set(NIL, rel, rinfo->clause_relids);
		if (set != NIL)
			add_union_path(root, rel, accesses, n, rinfo,
						   get_baserel_parampathinfo(root, rel, linitial(set)));
	}
}

/* ---- ctid ---- */

static bool
member_is_ctid(PlannerInfo *root, RelOptInfo *rel, EquivalenceClass *ec, EquivalenceMember *em,
			   void *arg)
{
	return mosql_tid_is_of((Node *) em->em_expr, rel->relid);
}

/*
 * Rows that a condition names by ctid, and by that of an outer relation.  What it says
 * is evaluated again, and all other conditions are.
 */
static void
add_tid_paths(PlannerInfo *root, RelOptInfo *rel)
{
	const MosqlRelPlan *plan = rel->fdw_private;
	MosqlAccess		access = {.keys = plan->table,.quals = palloc0(sizeof(MosqlKeyQuals))};
	List	   *joins = list_copy(rel->joininfo);
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		access.tids = lfirst_node(RestrictInfo, lc);
		if (mosql_tid_is_usable(root, rel, access.tids))
			add_scan_path(root, rel, &access, rel->rows, NIL, rel->lateral_relids, false);
	}
	if (rel->has_eclass_joins)
		joins = list_concat(joins,
							generate_implied_equalities_for_column(root, rel, member_is_ctid, NULL,
																   rel->lateral_referencers));
	foreach(lc, joins)
	{
		List	   *set;
		ParamPathInfo *param;

		access.tids = lfirst_node(RestrictInfo, lc);
		if (!join_clause_is_movable_to(access.tids, rel) ||
			!mosql_tid_is_usable(root, rel, access.tids))
			continue;
		set = add_set(NIL, rel, access.tids->clause_relids);
		if (set == NIL)
			continue;
		param = get_baserel_parampathinfo(root, rel, linitial(set));
		add_scan_path(root, rel, &access, param->ppi_rows, NIL, param->ppi_req_outer, false);
	}
}

/* WHERE CURRENT OF: there is no other way to the row.  False: the query does not say so. */
static bool
add_current_of_path(PlannerInfo *root, RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
		if (IsA(lfirst_node(RestrictInfo, lc)->clause, CurrentOfExpr))
		{
			add_tid_paths(root, rel);
			return true;
		}
	return false;
}

/* ---- the callback ---- */

void
mosqlGetForeignPaths(PlannerInfo *root, RelOptInfo *rel, Oid relid)
{
	MosqlRelPlan    *plan = rel->fdw_private;
	MosqlAccess		access = {.keys = plan->table,.quals = plan->quals};
	MosqlAccess	   *accesses = palloc((plan->table->nindexes + 1) * sizeof(MosqlAccess));
	int			n = 0;

	if (mosql_fdw_is_hidden(rel))
	{
		mark_dummy_rel(rel);
		return;
	}
	if (add_current_of_path(root, rel))
		return;
	accesses[n++] = access;
	for (int i = 0; i < plan->table->nindexes; i++)
	{
		access.index = &plan->table->indexes[i];
		access.keys = access.index->entries;
		access.predicate = mosql_plan_index_predicate(rel, access.index);
		if (access.index->broken != NULL || !has_wanted_rows(root, rel, access.predicate))
			continue;
		access.quals = mosql_quals_find(root, rel, relid, access.keys, rel->baserestrictinfo);
		access.only = mosql_plan_is_covered(root, rel, plan->table, &access);
		accesses[n++] = access;
	}
	for (int i = 0; i < n; i++)
		add_paths(root, rel, &accesses[i]);
	add_unions(root, rel, accesses, n);
	add_tid_paths(root, rel);
}
