/*
 * estimate.c: how many rows a scan reads and returns, and what that costs.
 *
 * Layer: fdw, planner side.
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

#include "access/table.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/typcache.h"

#include "base/retry.h"
#include "fdw/plan_int.h"

/* Leaves that one round trip of a long scan reads: btree.h's largest window. */
#define PLAN_WINDOW_LEAVES		64

/* Leaves below one inner node: half of what it may have, as random inserts leave it. */
#define PLAN_PARENT_LEAVES		128

/* Assumed when nobody has counted. */
#define PLAN_ROWS_PER_LEAF		80.0
#define PLAN_UNKNOWN_ROWS		1000.0

/* A row read by its key, in rows read with their neighbours. */
#define PLAN_POINT_FACTOR		2

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

/* Set rel->tuples and pages, and rows_per_leaf.  What this transaction wrote is not in Redis:
 * so many rows there may be more. */
static void
estimate_table(RelOptInfo *rel, MosqlRelPlan *plan)
{
	uint64		root = mosql_btree_root(plan->table->tree);
	double		own = mosql_txn_changed_rows(plan->table->session, root);
	bool		analysed = rel->tuples > 0 && !plan->options->use_remote_estimate;
	const Count *count = count_rows(plan->table, analysed || plan->quals->whole_key);

	plan->rows_per_leaf = PLAN_ROWS_PER_LEAF;
	if (count != NULL && count->leaves >= 1 && count->rows >= 1)
		plan->rows_per_leaf = Max(1.0, count->rows / count->leaves);
	if (!analysed)
		rel->tuples = count != NULL ? Max(count->rows + own, 1.0) : Max(own, PLAN_UNKNOWN_ROWS);
	rel->tuples = Max(rel->tuples, own + mosql_txn_loaded_rows(plan->table->session, root));
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
reads_points(const MosqlAccess *access)
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
with_predicate(const MosqlAccess *access)
{
	List	   *clauses = list_copy(access->quals->used);
	ListCell   *lc;

	foreach(lc, access->predicate)
		if (!predicate_implied_by(list_make1(lfirst(lc)), access->quals->used, false))
			clauses = lappend(clauses, lfirst(lc));
	return clauses;
}

/* Rows in the key ranges, of which other conditions may leave fewer. */
double
mosql_plan_rows_in_ranges(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *access)
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
double
mosql_plan_rows_returned(PlannerInfo *root, RelOptInfo *rel, const MosqlAccess *access,
						 List *clauses)
{
	List	   *others;

	if (!reads_points(access))
		return clamp_row_est(rel->tuples *
							 clauselist_selectivity(root, clauses, rel->relid, JOIN_INNER, NULL));
	others = list_difference_ptr(clauses, access->quals->used);
	return clamp_row_est(mosql_plan_rows_in_ranges(root, rel, access) *
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

/* ---- costs ---- */

/*
 * Entries of an index lead to their rows, unless they suffice: those are read in
 * batches of points, which lie all over the tree and cost more than neighbours.
 */
static void
add_fetches(const MosqlAccess *access, double entries, double *round_trips, double *read)
{
	if (access->index == NULL || access->only)
		return;
	*round_trips += ceil(entries / MOSQL_POINTS_PER_READ);
	*read += entries * PLAN_POINT_FACTOR;
}

/* Round trips for the rows, or entries, in the ranges of one key, and how many are read. */
static void
cost_ranges(PlannerInfo *root, RelOptInfo *rel, const MosqlRelPlan *plan,
			const MosqlAccess *access, double *round_trips, double *read)
{
	*read = mosql_plan_rows_in_ranges(root, rel, access);
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
cost_union(PlannerInfo *root, RelOptInfo *rel, const MosqlRelPlan *plan, const MosqlAccess *access,
		   double *round_trips, double *read)
{
	double		entries = 0;

	*round_trips = *read = 0;
	for (int i = 0; i < access->narms; i++)
	{
		const MosqlAccess *arm = &access->arms[i];
		double		arm_round_trips;
		double		arm_read;

		cost_ranges(root, rel, plan, arm, &arm_round_trips, &arm_read);
		if (arm->keys == access->keys || !reads_points(arm) || arm->index != NULL)
			*round_trips += arm_round_trips;
		*read += arm_read;
		if (arm->index != NULL)
			entries += mosql_plan_rows_in_ranges(root, rel, arm);
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
	Expr	   *value;

	return mosql_tid_value(tids, relid, &value) == MOSQL_TIDS_ARRAY
		? array_length(root, (Node *) value) : 1;
}

void
mosql_plan_cost(PlannerInfo *root, RelOptInfo *rel, const MosqlRelPlan *plan,
				const MosqlAccess *access, double rows, Cost *startup, Cost *total)
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
		add_fetches(access, mosql_plan_rows_in_ranges(root, rel, access), &round_trips, &read);
	}

	*startup = plan->options->startup_cost + rel->baserestrictcost.startup +
		rel->reltarget->cost.startup;
	run = (round_trips - 1) * plan->options->startup_cost +
		read * (plan->options->tuple_cost + cpu_tuple_cost + rel->baserestrictcost.per_tuple) +
		rows * rel->reltarget->cost.per_tuple;
	*total = *startup + run;
}

/* ---- the callback ---- */

/*
 * Opens the table (its definition is read from Redis on first use in the
 * backend); counts rows, see estimate_table.
 */
void
mosqlGetForeignRelSize(PlannerInfo *root, RelOptInfo *rel, Oid relid)
{
	MosqlRelPlan    *plan = palloc0(sizeof(MosqlRelPlan));
	Relation	relation = table_open(relid, NoLock);
	MosqlAccess		access = {0};

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
	rel->rows = mosql_plan_rows_returned(root, rel, &access, rel->baserestrictinfo);
}
