/*
 * plan.c: paths and plans for a foreign table.
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
 *   - unions, where each arm of an OR bounds some key;
 *   - rows by ctid, if conditions say which (tid.c).
 *
 * Costs.  What counts is round trips (options fdw_startup_cost, each) and rows
 * read (fdw_tuple_cost, each).  One batch of points is one round trip, however
 * many; ranges take one per window of leaves, at least one per parent of leaves.
 *
 * Rows.  pg_class.reltuples if the table was analysed; else, or with
 * use_remote_estimate, counted in Redis from the tree's inner nodes, and
 * remembered for a while.  Planning a read by whole key needs neither: it
 * costs no round trip.
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_collation.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/typcache.h"

#include "base/retry.h"
#include "fdw/exec_int.h"

/* Leaves that one round trip of a long scan reads: btree.h's largest window. */
#define PLAN_WINDOW_LEAVES		64

/* Leaves below one inner node: half of what it may have, as random inserts leave it. */
#define PLAN_PARENT_LEAVES		128

/* Assumed when nobody has counted. */
#define PLAN_ROWS_PER_LEAF		80.0
#define PLAN_UNKNOWN_ROWS		1000.0

/* A row read by its key, in rows read with their neighbours. */
#define PLAN_POINT_FACTOR		2

/* Sets of outer relations tried for parameterised paths. */
#define PLAN_MAX_PARAMETER_SETS	16

/* One way to the rows: the table's own key, or an index. */
typedef struct Access
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
	struct Access *arms;		/* index and keys of the union are theirs, if they agree */
} Access;

/* RelOptInfo.fdw_private */
typedef struct RelPlan
{
	MosqlTable *table;
	MosqlFdwOptions *options;
	MosqlKeyQuals *quals;		/* of baserestrictinfo */
	double		rows_per_leaf;
} RelPlan;

/* ---- how many rows ---- */

typedef struct CountKey
{
	Oid			relid;
	uint64		tree;
} CountKey;

typedef struct Count
{
	CountKey	key;
	double		rows;
	double		leaves;
	int64		at_us;			/* when it was counted */
} Count;

/* So many are remembered; then all are forgotten. */
#define COUNTS_MAX		1024

static HTAB *counts = NULL;

/* A small table may have grown tenfold in a second, a large one has not. */
static int64
count_lifetime_us(double rows)
{
	return rows < 1000 ? 1000000 : rows < 100000 ? 10000000 : 60000000;
}

/*
 * Rows and leaves as counted in Redis: some round trips if nobody has counted
 * lately.  only_known: none; returns NULL if nobody ever has.
 */
static const Count *
count_rows(const MosqlTable *table, bool only_known)
{
	CountKey	key;
	Count	   *count;
	bool		found;
	double		rows;
	double		row_bytes;
	double		leaves;
	int			levels;

	if (counts != NULL && hash_get_num_entries(counts) >= COUNTS_MAX)
	{
		hash_destroy(counts);
		counts = NULL;
	}
	if (counts == NULL)
	{
		HASHCTL		ctl = {0};

		ctl.keysize = sizeof(CountKey);
		ctl.entrysize = sizeof(Count);
		counts = hash_create("mosql_fdw row counts", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	}
	memset(&key, 0, sizeof(key));	/* padding is hashed, too */
	key.relid = table->relid;
	key.tree = mosql_btree_root(table->tree);

	count = hash_search(counts, &key, HASH_FIND, &found);
	if (only_known || (found && mosql_now_us() - count->at_us < count_lifetime_us(count->rows)))
		return count;

	mosql_btree_estimate(table->tree, &rows, &row_bytes, &leaves, &levels);
	count = hash_search(counts, &key, HASH_ENTER, &found);
	count->rows = rows;
	count->leaves = leaves;
	count->at_us = mosql_now_us();
	return count;
}

/* Set rel->tuples and pages, and rows_per_leaf. */
static void
estimate_table(RelOptInfo *rel, RelPlan *plan)
{
	bool		analysed = rel->tuples > 0 && !plan->options->use_remote_estimate;
	const Count *count = count_rows(plan->table, analysed || plan->quals->whole_key);

	plan->rows_per_leaf = PLAN_ROWS_PER_LEAF;
	if (count != NULL && count->leaves >= 1 && count->rows >= 1)
		plan->rows_per_leaf = Max(1.0, count->rows / count->leaves);
	if (!analysed)
		rel->tuples = count != NULL ? Max(count->rows, 1.0) : PLAN_UNKNOWN_ROWS;
	rel->pages = (BlockNumber) Min(ceil(rel->tuples / plan->rows_per_leaf), (double) INT_MAX);
}

static double
array_length(PlannerInfo *root, Node *array)
{
#if PG_VERSION_NUM >= 170000
	return Max(1.0, estimate_array_length(root, array));
#else
	return Max(1.0, (double) estimate_array_length(array));
#endif
}

/* How many combinations of values the = and IN conditions make. */
static double
count_combinations(PlannerInfo *root, const MosqlKeyQuals *quals)
{
	double		n = 1;
	int			at = 0;

	for (int i = 0; i < quals->nconds; i++)
	{
		if (quals->conds[i].kind == MOSQL_COND_IN)
			n *= array_length(root, list_nth(quals->exprs, at));
		at += quals->conds[i].ncolumns;
	}
	return n;
}

/* All key columns bound by = or IN: whole keys are known before reading. */
static bool
reads_points(const Access *access)
{
	const MosqlKeyQuals *quals = access->quals;

	for (int i = 0; i < quals->nconds; i++)
		if (quals->conds[i].kind == MOSQL_COND_ISNULL)
			return false;
	return access->keys->unique_key && access->keys->nkeys > 0 &&
		quals->nequal == access->keys->nkeys;
}

/* The conditions of the key ranges, and those of a partial index that they do not imply. */
static List *
with_predicate(const Access *access)
{
	List	   *clauses = list_copy(access->quals->used);
	ListCell   *lc;

	foreach(lc, access->predicate)
		if (!predicate_implied_by(list_make1(lfirst(lc)), access->quals->used, false))
			clauses = lappend(clauses, lfirst(lc));
	return clauses;
}

/* Rows in the key ranges, of which other conditions may leave fewer. */
static double
rows_in_ranges(PlannerInfo *root, RelOptInfo *rel, const Access *access)
{
	const MosqlKeyQuals *quals = access->quals;
	double		rows = rel->tuples;

	if (quals->whole_key)
		return 1;
	if (reads_points(access))
		return clamp_row_est(Min(rows, count_combinations(root, quals)));
	if (quals->nconds > 0 || access->predicate != NIL)
		rows *= clauselist_selectivity(root, with_predicate(access), rel->relid, JOIN_INNER,
									   NULL);
	return clamp_row_est(rows);
}

/* Rows that satisfy all clauses, knowing that keys are unique. */
static double
rows_returned(PlannerInfo *root, RelOptInfo *rel, const Access *access, List *clauses)
{
	List	   *others;

	if (!reads_points(access))
		return clamp_row_est(rel->tuples *
							 clauselist_selectivity(root, clauses, rel->relid, JOIN_INNER, NULL));
	others = list_difference_ptr(clauses, access->quals->used);
	return clamp_row_est(rows_in_ranges(root, rel, access) *
						 clauselist_selectivity(root, others, rel->relid, JOIN_INNER, NULL));
}

static bool
is_known_unique(const RelOptInfo *rel, const MosqlTable *table)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		if (mosql_fdw_is_key(table, lfirst_node(IndexOptInfo, lc)))
			return true;
	}
	return false;
}

/*
 * Tell the planner that the key is unique, if its constraint was dropped: an
 * index that nobody can scan (paths over indexes are made for local tables
 * only), but which join and group estimates look at.  Not for collations under
 * which different bytes may be equal.
 */
static void
add_key_as_index(RelOptInfo *rel, const MosqlTable *table)
{
	IndexOptInfo *index = makeNode(IndexOptInfo);
	int			n = table->nkeys;

	if (n == 0 || n > INDEX_MAX_KEYS || is_known_unique(rel, table))
		return;
	index->indexkeys = palloc0(sizeof(int) * n);
	index->indexcollations = palloc0(sizeof(Oid) * n);
	index->opfamily = palloc0(sizeof(Oid) * n);
	index->opcintype = palloc0(sizeof(Oid) * n);
	index->canreturn = palloc0(sizeof(bool) * n);
	for (int i = 0; i < n; i++)
	{
		const MosqlTableColumn *column = &table->columns[table->key_attnums[i] - 1];
		TypeCacheEntry *type = lookup_type_cache(column->type, TYPECACHE_BTREE_OPFAMILY);

		if (!OidIsValid(type->btree_opf) ||
			(OidIsValid(column->collation) && !get_collation_isdeterministic(column->collation)))
			return;
		index->indexkeys[i] = column->attnum;
		index->indexcollations[i] = column->collation;
		index->opfamily[i] = type->btree_opf;
		index->opcintype[i] = type->btree_opintype;
	}
	index->rel = rel;
	index->pages = rel->pages;
	index->tuples = rel->tuples;
	index->ncolumns = index->nkeycolumns = n;
	index->unique = index->immediate = true;
	index->hypothetical = true;
	rel->indexlist = lappend(rel->indexlist, index);
}

/*
 * Opens the table (its definition is read from Redis on first use in the
 * backend); counts rows, see estimate_table.
 */
void
mosqlGetForeignRelSize(PlannerInfo *root, RelOptInfo *rel, Oid relid)
{
	RelPlan    *plan = palloc0(sizeof(RelPlan));
	Relation	relation = table_open(relid, NoLock);
	Access		access = {0};

	rel->fdw_private = plan;
	plan->options = mosql_fdw_options(relid, InvalidOid, rel->userid);
	plan->table = mosql_table_open(relation, mosql_fdw_session_for(relid, rel->userid));
	table_close(relation, NoLock);

	plan->quals = mosql_quals_find(root, rel, relid, plan->table, rel->baserestrictinfo);
	estimate_table(rel, plan);
	check_index_predicates(root, rel);
	add_key_as_index(rel, plan->table);
	set_baserel_size_estimates(root, rel);
	access.keys = plan->table;
	access.quals = plan->quals;
	rel->rows = rows_returned(root, rel, &access, rel->baserestrictinfo);
}

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

		if (rinfo->pseudoconstant)
			continue;			/* a gating Result above does it */
		if ((list_member_ptr(quals->used, rinfo) && !list_member_ptr(quals->recheck, rinfo)) ||
			(predicate != NIL && !contain_mutable_functions((Node *) rinfo->clause) &&
			 predicate_implied_by(list_make1(rinfo->clause), predicate, false)))
			*exact = lappend(*exact, rinfo->clause);
		else
			*local = lappend(*local, rinfo->clause);
	}
}

/* Do the entries have all that the query may ask of the relation? */
static bool
is_covered(PlannerInfo *root, RelOptInfo *rel, const MosqlTable *table, const Access *access)
{
	List	   *local = NIL;
	List	   *exact = NIL;
	List	   *attributes;
	int			system;

	sort_clauses(access->quals, access->predicate, rel->baserestrictinfo, &local, &exact);
	attributes = needed_attributes(root, rel, local, &system);
	return entries_suffice(table, access->index, attributes, system);
}

/* ---- costs and paths ---- */

/*
 * Entries of an index lead to their rows, unless they suffice: those are read in
 * batches of points, which lie all over the tree and cost more than neighbours.
 */
static void
add_fetches(const Access *access, double entries, double *round_trips, double *read)
{
	if (access->index == NULL || access->only)
		return;
	*round_trips += ceil(entries / MOSQL_POINTS_PER_READ);
	*read += entries * PLAN_POINT_FACTOR;
}

/* Round trips for the rows, or entries, in the ranges of one key, and how many are read. */
static void
cost_ranges(PlannerInfo *root, RelOptInfo *rel, const RelPlan *plan, const Access *access,
			double *round_trips, double *read)
{
	*read = rows_in_ranges(root, rel, access);
	if (reads_points(access))
		*round_trips = ceil(*read / (PLAN_WINDOW_LEAVES * plan->rows_per_leaf));
	else
	{
		double		ranges = count_combinations(root, access->quals);
		double		parents = 1 + floor(rel->tuples / (PLAN_PARENT_LEAVES * plan->rows_per_leaf));

		/* a window has leaves of one parent */
		*round_trips = Min(ranges, parents) +
			floor((ranges + *read / plan->rows_per_leaf) / PLAN_WINDOW_LEAVES);

		/* the first and the last leaf of a range hold others' rows, too */
		*read = Min(rel->tuples, *read + ranges * plan->rows_per_leaf / 2);
	}
	*round_trips = Max(*round_trips, 1.0);
}

/* All arms, and the rows that their entries lead to. */
static void
cost_union(PlannerInfo *root, RelOptInfo *rel, const RelPlan *plan, const Access *access,
		   double *round_trips, double *read)
{
	double		entries = 0;

	*round_trips = *read = 0;
	for (int i = 0; i < access->narms; i++)
	{
		const Access *arm = &access->arms[i];
		double		arm_round_trips;
		double		arm_read;

		cost_ranges(root, rel, plan, arm, &arm_round_trips, &arm_read);
		if (arm->keys == access->keys || !reads_points(arm) || arm->index != NULL)
			*round_trips += arm_round_trips;
		*read += arm_read;
		if (arm->index != NULL)
			entries += rows_in_ranges(root, rel, arm);
	}
	if (entries > 0 && !access->only)
	{
		entries = Min(entries, rel->tuples);
		*round_trips += ceil(entries / MOSQL_POINTS_PER_READ);
		*read += entries * PLAN_POINT_FACTOR;
	}
}

/* Rows that a condition on ctid names. */
static double
count_tids(PlannerInfo *root, const RestrictInfo *tids, Index relid)
{
	bool		array;
	Node	   *value = (Node *) mosql_tid_value(tids, relid, &array);

	return array ? array_length(root, value) : 1;
}

static void
cost_scan(PlannerInfo *root, RelOptInfo *rel, const RelPlan *plan, const Access *access,
		  double rows, Cost *startup, Cost *total)
{
	double		read;
	double		round_trips;
	Cost		run;

	if (access->narms > 0)
		cost_union(root, rel, plan, access, &round_trips, &read);
	else if (access->tids != NULL)
	{
		read = count_tids(root, access->tids, rel->relid);
		round_trips = ceil(read / MOSQL_POINTS_PER_READ);
	}
	else
	{
		cost_ranges(root, rel, plan, access, &round_trips, &read);
		add_fetches(access, rows_in_ranges(root, rel, access), &round_trips, &read);
	}

	*startup = plan->options->startup_cost + rel->baserestrictcost.startup +
		rel->reltarget->cost.startup;
	run = (round_trips - 1) * plan->options->startup_cost +
		read * (plan->options->tuple_cost + cpu_tuple_cost + rel->baserestrictcost.per_tuple) +
		rows * rel->reltarget->cost.per_tuple;
	*total = *startup + run;
}

/* ForeignPath.fdw_private: Boolean backward, the index's id (0: the table itself); then for
 * rows by ctid the condition, for a union its OR and the ids of its arms' indexes. */
static List *
path_private(const Access *access, bool backward)
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
is_disabled(const Access *access)
{
	if (access->narms > 0 && access->index == NULL && !enable_bitmapscan)
		return true;
	if (access->index != NULL)
		return !enable_indexscan || (access->only && !enable_indexonlyscan);
	return access->narms == 0 && access->quals->nconds == 0 && !enable_seqscan;
}

static void
add_scan_path(PlannerInfo *root, RelOptInfo *rel, const Access *access, double rows,
			  List *pathkeys, Relids required_outer, bool backward)
{
	RelPlan    *plan = rel->fdw_private;
	ForeignPath *path;
	Cost		startup;
	Cost		total;

	cost_scan(root, rel, plan, access, rows, &startup, &total);
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
	add_path(rel, (Path *) path);
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
 * The order of one key column as the query names it, NULL if nothing in the
 * query sorts or joins by it.
 */
static PathKey *
column_pathkey(PlannerInfo *root, RelOptInfo *rel, const MosqlTableColumn *column,
			   bool backward, bool *constant)
{
	TypeCacheEntry *type = lookup_type_cache(column->type,
											 TYPECACHE_BTREE_OPFAMILY | TYPECACHE_EQ_OPR);
	Oid			collation;
	Expr	   *expr;
	EquivalenceClass *ec;
	ListCell   *lc;
	bool		reversed = backward != column->descending;
	bool		nulls_first = column->nullable ? column->nulls_first != backward : reversed;

	*constant = false;
	if (!OidIsValid(type->btree_opf) || !OidIsValid(type->eq_opr))
		return NULL;

	expr = key_expression(root, rel, column);

	/* The bytes are in the order of COLLATE "C", whatever the column says. */
	collation = exprCollation((Node *) expr);
	if (OidIsValid(collation) && !mosql_quals_key_ordered(column, collation))
		collation = C_COLLATION_OID;
	if (!mosql_quals_key_ordered(column, collation))
		return NULL;
	ec = get_eclass_for_sort_expr(root, expr,
#if PG_VERSION_NUM < 160000
								  NULL, /* no outer join in between */
#endif
								  get_mergejoin_opfamilies(type->eq_opr), type->btree_opintype,
								  collation, 0, rel->relids, false);
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
scan_pathkeys(PlannerInfo *root, RelOptInfo *rel, const Access *access, bool backward)
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
member_is_column(PlannerInfo *root, RelOptInfo *rel, EquivalenceClass *ec,
				 EquivalenceMember *em, void *arg)
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
add_sets_of(List *sets, PlannerInfo *root, RelOptInfo *rel, const MosqlTable *table,
			List *clauses)
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
add_parameterised_paths(PlannerInfo *root, RelOptInfo *rel, const Access *base)
{
	Oid			relid = planner_rt_fetch(rel->relid, root)->relid;
	ListCell   *lc;

	foreach(lc, parameter_sets(root, rel, base->keys))
	{
		ParamPathInfo *param = get_baserel_parampathinfo(root, rel, lfirst(lc));
		List	   *clauses = list_concat_copy(rel->baserestrictinfo, param->ppi_clauses);
		Access		access = *base;

		access.quals = mosql_quals_find(root, rel, relid, base->keys, clauses);

		/* of use only if a join clause bounds the key */
		if (list_difference_ptr(access.quals->used, rel->baserestrictinfo) == NIL)
			continue;
		if (base->index == NULL)
			param->ppi_rows = rows_returned(root, rel, &access, clauses);
		add_scan_path(root, rel, &access, param->ppi_rows, NIL, param->ppi_req_outer, false);
	}
}

/* All paths of one access; an index that is of no use gets none. */
static void
add_paths(PlannerInfo *root, RelOptInfo *rel, const Access *access)
{
	List	   *forward = scan_pathkeys(root, rel, access, false);
	List	   *backward = scan_pathkeys(root, rel, access, true);

	if (access->index == NULL || access->quals->nconds > 0 || access->predicate != NIL ||
		forward != NIL)
		add_scan_path(root, rel, access, rel->rows, forward, rel->lateral_relids, false);
	if (backward != NIL)
		add_scan_path(root, rel, access, rel->rows, backward, rel->lateral_relids, true);
	add_parameterised_paths(root, rel, access);
}

/* The predicate of an index as the query would have it. */
static List *
index_predicate(RelOptInfo *rel, const MosqlIndex *index)
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
static MosqlKeyQuals *
arm_quals(PlannerInfo *root, RelOptInfo *rel, const MosqlTable *keys, const RestrictInfo *or,
		  int arm, List *clauses)
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
choose_arm(PlannerInfo *root, RelOptInfo *rel, const Access *accesses, int n,
		   const RestrictInfo *or, int arm, List *clauses, Access *chosen)
{
	double		fewest = 0;

	chosen->keys = NULL;
	for (int i = 0; i < n; i++)
	{
		Access		access = accesses[i];
		double		rows;

		access.quals = arm_quals(root, rel, access.keys, or, arm, clauses);
		if (access.quals == NULL)
			continue;
		rows = rows_in_ranges(root, rel, &access);
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
add_union_path(PlannerInfo *root, RelOptInfo *rel, const Access *accesses, int n, RestrictInfo *or,
			   ParamPathInfo *param)
{
	const RelPlan *plan = rel->fdw_private;
	Access		access = {.keys = plan->table,.or = or,.quals = palloc0(sizeof(MosqlKeyQuals))};
	List	   *clauses = param == NULL ? rel->baserestrictinfo
		: list_concat_copy(rel->baserestrictinfo, param->ppi_clauses);
	bool		same = true;
	List	   *pathkeys;

	access.narms = list_length(castNode(BoolExpr, or->orclause)->args);
	access.arms = palloc0(access.narms * sizeof(Access));
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
add_unions(PlannerInfo *root, RelOptInfo *rel, const Access *accesses, int n)
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
	const RelPlan *plan = rel->fdw_private;
	Access		access = {.keys = plan->table,.quals = palloc0(sizeof(MosqlKeyQuals))};
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

void
mosqlGetForeignPaths(PlannerInfo *root, RelOptInfo *rel, Oid relid)
{
	RelPlan    *plan = rel->fdw_private;
	Access		access = {.keys = plan->table,.quals = plan->quals};
	Access	   *accesses = palloc((plan->table->nindexes + 1) * sizeof(Access));
	int			n = 0;

	accesses[n++] = access;
	for (int i = 0; i < plan->table->nindexes; i++)
	{
		access.index = &plan->table->indexes[i];
		access.keys = access.index->entries;
		access.predicate = index_predicate(rel, access.index);
		if (access.index->broken != NULL || !has_wanted_rows(root, rel, access.predicate))
			continue;
		access.quals = mosql_quals_find(root, rel, relid, access.keys, rel->baserestrictinfo);
		access.only = is_covered(root, rel, plan->table, &access);
		accesses[n++] = access;
	}
	for (int i = 0; i < n; i++)
		add_paths(root, rel, &accesses[i]);
	add_unions(root, rel, accesses, n);
	add_tid_paths(root, rel);
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
 * Does the whole statement read just one row, this one?  Then it needs no
 * snapshot under READ COMMITTED: the row's latest version is a state of the
 * database by itself.  (With a snapshot comes the schema version, which tells whether
 * the join with a table that was removed could be.)
 */
static bool
is_single_read(PlannerInfo *root, RelOptInfo *rel, ForeignPath *path, const MosqlKeyQuals *quals)
{
	const Query *parse = root->parse;

	return quals->whole_key && path->path.param_info == NULL &&
		rel->reloptkind == RELOPT_BASEREL && root->parent_root == NULL &&
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
	const RelPlan *plan = rel->fdw_private;
	double		rows = root->limit_tuples;

	if (rows <= 0 || path->path.param_info != NULL ||
		bms_membership(root->all_baserels) != BMS_SINGLETON ||
		!pathkeys_contained_in(root->query_pathkeys, path->path.pathkeys))
		return plan->options->fetch_size;
	if (local != NIL)
		rows /= Max(clauselist_selectivity(root, local, rel->relid, JOIN_INNER, NULL), 1e-6);
	return (int) Min(ceil(rows), 1e9);
}

static const MosqlIndex *
index_by_id(const RelPlan *plan, uint32 id)
{
	for (int i = 0; id != 0 && i < plan->table->nindexes; i++)
		if (plan->table->indexes[i].id == id)
			return &plan->table->indexes[i];
	return NULL;
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
	const RelPlan *plan = rel->fdw_private;
	const RestrictInfo *or;
	List	   *arms = NIL;
	ListCell   *lc;

	if (list_length(path->fdw_private) < 4)
		return NIL;
	or = lthird(path->fdw_private);
	foreach(lc, (List *) lfourth(path->fdw_private))
	{
		const MosqlIndex *index = index_by_id(plan, lfirst_int(lc));
		MosqlKeyQuals *quals = arm_quals(root, rel, index ? index->entries : plan->table, or,
										 foreach_current_index(lc), clauses);

		arms = lappend(arms, list_make2(index_private(index, false),
										mosql_conds_encode(quals->conds, quals->nconds)));
		*exprs = list_concat(*exprs, quals->exprs);
	}
	return arms;
}

/* MOSQL_SCAN_TIDS of a path by ctid; appends its value to *exprs. */
static int
tids_private(const ForeignPath *path, Index relid, List **exprs)
{
	bool		array;

	if (list_length(path->fdw_private) != 3)
		return 0;
	*exprs = lappend(*exprs, mosql_tid_value(lthird(path->fdw_private), relid, &array));
	return array ? 2 : 1;
}

ForeignScan *
mosqlGetForeignPlan(PlannerInfo *root, RelOptInfo *rel, Oid relid, ForeignPath *path, List *tlist,
					List *clauses, Plan *outer_plan)
{
	const RelPlan *plan = rel->fdw_private;
	const MosqlIndex *index = index_by_id(plan, intVal(lsecond(path->fdw_private)));
	const MosqlTable *keys = index ? index->entries : plan->table;
	List	   *exprs = NIL;
	List	   *arms = arms_private(root, rel, path, clauses, &exprs);
	int			tids = tids_private(path, rel->relid, &exprs);
	MosqlKeyQuals *quals = mosql_quals_find(root, rel, relid, keys,
											arms == NIL && tids == 0 ? clauses : NIL);
	List	   *local = NIL;
	List	   *exact = NIL;
	List	   *private = NIL;
	List	   *needed;
	int			system;

	sort_clauses(quals, index ? index_predicate(rel, index) : NIL, clauses, &local, &exact);
	needed = needed_attributes(root, rel, local, &system);

	/* In the order of enum MosqlScanPrivate. */
	private = lappend(private, mosql_conds_encode(quals->conds, quals->nconds));
	private = lappend(private, needed);
	private = lappend(private, copyObject(linitial(path->fdw_private)));
	private = lappend(private, makeInteger(arms == NIL ? wanted_rows(root, rel, path, local)
										   : plan->options->fetch_size));
	private = lappend(private, makeBoolean(index == NULL && is_single_read(root, rel, path, quals)));
	private = lappend(private, makeInteger(system));
	private = lappend(private, index_private(index, index != NULL &&
											 entries_suffice(plan->table, index, needed, system)));
	private = lappend(private, arms);
	private = lappend(private, makeInteger(tids));

	return make_foreignscan(tlist, local, rel->relid, list_concat(exprs, quals->exprs), private,
							NIL, exact, outer_plan);
}
