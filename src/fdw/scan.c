/*
 * scan.c: ForeignScan at execution: key ranges in, rows out.
 *
 * Layer: fdw.  The plan says which conditions bound the key (fdw_private) and
 * with which values (fdw_exprs).  At the first row they become ranges: points
 * are read in batches, one round trip each; ranges with more than one key are
 * scanned together.  Rows come in key order, or backwards, over all ranges.
 *
 * One view serves the node for its whole life, so that rescans, thousands in a
 * nested loop, cost an evaluation and a read and nothing else.
 *
 * Memory.  Rows as bytes live in point_cxt (a batch) or in the row scan; what
 * is decoded lives in the per-tuple context of the node's expressions, which
 * the executor resets when it asks for the next row and not before.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/rel.h"

#include "fdw/ahead.h"
#include "fdw/exec_int.h"

/* ---- setting up ---- */

/* The role whose rights and user mapping count. */
static Oid
scan_user(ForeignScanState *node)
{
#if PG_VERSION_NUM >= 160000
	return ((ForeignScan *) node->ss.ps.plan)->checkAsUser;
#else
	Scan	   *plan = (Scan *) node->ss.ps.plan;

	return exec_rt_fetch(plan->scanrelid, node->ss.ps.state)->checkAsUser;
#endif
}

static void
init_needed(MosqlScanState *scan, List *attributes)
{
	ListCell   *lc;

	scan->needs_none = attributes == NIL;
	if (list_member_int(attributes, 0))
		return;
	scan->needed = palloc0(scan->table->natts * sizeof(bool) + 1);
	foreach(lc, attributes)
	{
		int			attnum = lfirst_int(lc);

		Assert(attnum <= scan->table->natts);
		if (attnum > 0)
			scan->needed[attnum - 1] = true;
	}
}

/* The values of the key conditions come first in fdw_exprs (direct.c appends). */
static void
init_values(MosqlScanState *scan, ForeignScanState *node, List *exprs)
{
	ListCell   *lc;
	int			n = 0;

	for (int i = 0; i < scan->nconds; i++)
		n += scan->conds[i].ncolumns;
	for (int i = 0; i < scan->narms; i++)
		n += scan->arms[i].nvalues;
	n += scan->tids != MOSQL_TIDS_NONE;
	Assert(n <= list_length(exprs));
	scan->nvalues = n;
	scan->exprs = palloc(n * sizeof(ExprState *) + 1);
	scan->types = palloc(n * sizeof(Oid) + 1);
	scan->values = palloc(n * sizeof(Datum) + 1);
	scan->nulls = palloc(n * sizeof(bool) + 1);
	n = 0;
	foreach(lc, exprs)
	{
		Expr	   *expr = (Expr *) lfirst(lc);

		if (n == scan->nvalues)
			break;
		scan->types[n] = exprType((Node *) expr);
		scan->exprs[n++] = ExecInitExpr(expr, &node->ss.ps);
	}
}

/* The plan is older than the definition: planned again, it will be right. */
const MosqlIndex *
mosql_exec_index(const MosqlTable *table, int id, uint64 root)
{
	const MosqlIndex *index = mosql_table_index(table, id);

	if (index != NULL && index->entries->root == root)
		return index;
	ResetPlanCache();
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("the indexes of foreign table \"%s\" were changed by another server",
					get_rel_name(table->relid)),
			 errhint("The transaction might succeed if retried.")));
}

const MosqlIndex *
mosql_exec_index_of(const MosqlTable *table, const List *index)
{
	return mosql_exec_index(table, linitial_int(index),
							(uint64) (uint32) lthird_int(index) << 32 |
							(uint32) lfourth_int(index));
}

/* EvalPlanQual evaluates a row again in a state of its own, and yet is the same statement. */
static const EState *
statement_of(const EState *estate)
{
	while (estate->es_epq_active != NULL)
		estate = estate->es_epq_active->parentestate;
	return estate;
}

/* As the plan says it may (MOSQL_SCAN_LOCK). */
static void
init_locks(MosqlScanState *scan, List *lock, const EState *estate)
{
	if (lock == NIL || estate->es_epq_active != NULL ||
		!mosql_lock_is_wanted(RelationGetRelid(scan->rel)))
		return;
	scan->locks = true;
	scan->locks_at_once = lthird_int(lock) != 0 && !IsolationUsesXactSnapshot();
	scan->locker = (MosqlLocker)
	{
		scan->rel, scan->table, scan->txn, linitial_int(lock), lsecond_int(lock),
			lfourth_int(lock) != 0
	};
	scan->estate = estate;
	scan->lock_limit = list_nth_int(lock, 4);
	scan->row_by_row = list_nth_int(lock, 5) != 0;
}

void
mosql_exec_scan_init(MosqlScanState *scan, ForeignScanState *node, Relation rel, Oid userid)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	List	   *private = plan->fdw_private;
	MosqlSession *session = mosql_fdw_session_for(RelationGetRelid(rel), userid);

	scan->rel = rel;
	scan->userid = OidIsValid(userid) ? userid : GetUserId();
	scan->costed = node->ss.ps.state->es_instrument != 0;	/* the node's own comes later */
	scan->txn = mosql_txn_current(session);
	scan->table = mosql_table_open_locked(rel, session, list_nth(private, MOSQL_SCAN_LOCK) != NIL ?
										  RowShareLock : AccessShareLock, true);
	if (plan->operation != CMD_SELECT)	/* increments, without a node above */
	{
		scan->table = mosql_table_open_for_write(rel, session);
		mosql_table_check_rules(rel, scan->table);
	}
	mosql_exec_scan_prepare(scan, node);
}

void
mosql_exec_scan_prepare(MosqlScanState *scan, ForeignScanState *node)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	List	   *private = plan->fdw_private;
	List	   *index;

	scan->nconds = mosql_conds_decode(list_nth(private, MOSQL_SCAN_CONDS), &scan->conds);
	mosql_union_init(scan, list_nth(private, MOSQL_SCAN_ARMS));
	scan->tids = intVal(list_nth(private, MOSQL_SCAN_TIDS));
	init_values(scan, node, plan->fdw_exprs);
	init_needed(scan, list_nth(private, MOSQL_SCAN_NEEDED));
	scan->backward = boolVal(list_nth(private, MOSQL_SCAN_BACKWARD));
	scan->limit = intVal(list_nth(private, MOSQL_SCAN_LIMIT));
	scan->system = intVal(list_nth(private, MOSQL_SCAN_SYSTEM));
	scan->single = boolVal(list_nth(private, MOSQL_SCAN_SINGLE)) && !mosql_cursor_is_opening();
	scan->alone = boolVal(list_nth(private, MOSQL_SCAN_ALONE)) && !mosql_cursor_is_opening();
	index = list_nth(private, MOSQL_SCAN_INDEX);
	scan->keys = scan->table;
	if (linitial_int(index) != 0)
	{
		scan->index = mosql_exec_index_of(scan->table, index);
		scan->index_only = lsecond_int(index) != 0;
		scan->keys = scan->index->entries;
	}

	scan->range_cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql ranges",
											ALLOCSET_SMALL_SIZES);
	scan->point_cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql points",
											ALLOCSET_DEFAULT_SIZES);
	scan->fetch_cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql rows by index",
											ALLOCSET_DEFAULT_SIZES);
	scan->scan_cxt = CurrentMemoryContext;

	init_locks(scan, list_nth(private, MOSQL_SCAN_LOCK), node->ss.ps.state);

	/*
	 * Now, and not at the first row: a cursor's view belongs to the savepoint
	 * level that the cursor was opened at.  (No snapshot is drawn yet.)
	 */
	scan->view = mosql_view_open(scan->txn, statement_of(node->ss.ps.state),
								 node->ss.ps.state->es_snapshot->curcid, scan->single);
}

/*
 * May the filter be evaluated twice per row, and before ctid is there?
 */
static bool
is_repeatable(const ForeignScan *plan)
{
	List	   *qual = plan->scan.plan.qual;
	Bitmapset  *columns = NULL;

	if (qual == NIL || contain_volatile_functions((Node *) qual) ||
		contain_subplans((Node *) qual))
		return false;
	pull_varattnos((Node *) qual, plan->scan.scanrelid, &columns);
	return !bms_is_member(SelfItemPointerAttributeNumber - FirstLowInvalidHeapAttributeNumber,
						  columns);
}

/*
 * What is read for a parameter of another node, or rescanned, is probably read again.  Rows
 * that are locked at once are always the newest.
 */
static void
init_reuse(MosqlScanState *scan, const Plan *plan, int eflags)
{
	if (!scan->locks)
		mosql_view_reuse(scan->view, (eflags & EXEC_FLAG_REWIND) != 0 ||
						 (scan->nvalues > 0 && !bms_is_empty(plan->extParam)));
}

void
mosqlBeginForeignScan(ForeignScanState *node, int eflags)
{
	MosqlScanState *scan;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	if (IsParallelWorker() && node->ss.ps.plan->parallel_aware)
		return;					/* mosqlInitializeWorkerForeignScan() */
	scan = palloc0(sizeof(MosqlScanState));
	mosql_exec_scan_init(scan, node, node->ss.ss_currentRelation, scan_user(node));
	init_reuse(scan, node->ss.ps.plan, eflags);
	mosql_ahead_join(node->ss.ps.state, intVal(list_nth(((ForeignScan *) node->ss.ps.plan)->fdw_private,
														 MOSQL_SCAN_AHEAD)), scan);
	scan->filters = scan->system != 0 && is_repeatable((ForeignScan *) node->ss.ps.plan);
	node->fdw_state = scan;
}

/* ---- what to read ---- */

void
mosql_exec_scan_ranges(MosqlScanState *scan, ExprContext *econtext)
{
	MosqlStats	before = mosql_stats;
	MemoryContext old;

	mosql_view_begin_read(scan->view);
	if (scan->ranges != NULL)
		MemoryContextReset(scan->range_cxt);
	for (int i = 0; i < scan->nvalues && scan->tids != MOSQL_TIDS_CURRENT; i++)
		scan->values[i] = ExecEvalExpr(scan->exprs[i], econtext, &scan->nulls[i]);
	old = MemoryContextSwitchTo(scan->range_cxt);
	if (scan->narms > 0)
		scan->ranges = mosql_union_ranges(scan);
	else if (scan->tids != MOSQL_TIDS_NONE)
		scan->ranges = mosql_tid_ranges(scan, econtext);
	else
		scan->ranges = mosql_ranges_build(scan->keys, scan->conds, scan->nconds,
										  scan->values, scan->nulls, scan->types);
	MemoryContextSwitchTo(old);
	if (scan->costed)
		mosql_cost_add(&scan->cost, &before);
}

/* The i-th range in scan order. */
static const MosqlRange *
range_at(const MosqlScanState *scan, int i)
{
	return &scan->ranges->ranges[scan->backward ? scan->ranges->n - 1 - i : i];
}

/* ---- reading ---- */

/*
 * Read the points that come next, up to the next range that is none, together.
 * With a LIMIT the first batch is small: rows may be missing or filtered, so
 * later ones are full.
 */
static void
read_points(MosqlScanState *scan)
{
	int			max = MOSQL_POINTS_PER_READ;
	int			first = scan->next_range;
	int			n = 0;
	int			wanted = scan->locks_at_once ? mosql_lock_scan_wanted(scan) : 0;
	MosqlBytes	one_key;
	MosqlBytes *keys = &one_key;
	MemoryContext old;

	if (scan->limit > 0 && first == 0)
		max = (int) Min(max, Max(scan->limit, 8));
	if (wanted > 0)
		max = Min(max, wanted);
	while (n < max && first + n < scan->ranges->n && range_at(scan, first + n)->point)
		n++;
	Assert(n > 0);

	MemoryContextReset(scan->point_cxt);
	old = MemoryContextSwitchTo(scan->point_cxt);
	scan->rows = &scan->one_row;
	if (n > 1)
	{
		keys = palloc(n * sizeof(MosqlBytes));
		scan->rows = palloc0(n * sizeof(MosqlRow));
	}
	for (int i = 0; i < n; i++)
		keys[i] = range_at(scan, first + i)->low;
	if (wanted > 0)
		mosql_lock_get(&scan->locker, scan->view, keys, n, scan->rows);
	else
		mosql_view_get(scan->view, scan->keys->tree, keys, n, scan->rows);
	MemoryContextSwitchTo(old);

	scan->next_range += n;
	scan->nrows = n;
	scan->row = 0;
	scan->all_in_batch = first == 0 && n == scan->ranges->n;
}

/* The ranges that come next, up to the next point, in one scan. */
static void
begin_ranges(MosqlScanState *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->scan_cxt);
	int			first = scan->next_range;
	MosqlKeyRange *ranges;
	int			n = 0;

	while (first + n < scan->ranges->n && !range_at(scan, first + n)->point)
		n++;
	Assert(n > 0);
	scan->alone &= n == scan->ranges->n && !scan->in_pieces;
	ranges = palloc(n * sizeof(MosqlKeyRange));
	for (int i = 0; i < n; i++)
	{
		const MosqlRange *range = range_at(scan, scan->backward ? first + n - 1 - i : first + i);

		ranges[i] = (MosqlKeyRange) {range->low, range->high};
	}
	scan->scan = (scan->alone ? mosql_view_scan_begin_alone : mosql_view_scan_begin_ranges)
		(scan->view, scan->keys->tree, ranges, n, scan->backward, scan->in_pieces ? -1 : scan->limit);
	pfree(ranges);
	scan->next_range += n;
	MemoryContextSwitchTo(old);
}

static void
end_range(MosqlScanState *scan)
{
	if (scan->scan != NULL)
		mosql_view_scan_end(scan->scan);
	scan->scan = NULL;
}

/* The next row, or entry, in the ranges; its bytes are valid until the next call. */
static bool
next_in_ranges(MosqlScanState *scan, MosqlRow *row)
{
	for (;;)
	{
		if (scan->scan != NULL)
		{
			if (mosql_view_scan_next(scan->scan, row))
				return true;
			if (!scan->alone)	/* else it may be asked for once more */
				end_range(scan);
		}
		while (scan->row < scan->nrows)
		{
			const MosqlRow *read = &scan->rows[scan->row++];

			if (read->found)
			{
				*row = *read;
				return true;
			}
		}
		if (scan->next_range >= scan->ranges->n && !mosql_parallel_next(scan))
			return false;
		CHECK_FOR_INTERRUPTS();
		if (range_at(scan, scan->next_range)->point)
			read_points(scan);
		else
			begin_ranges(scan);
	}
}

/* Rows that a batch of entries leads to; batches grow, as in a range. */
#define FIRST_FETCH		64

/* An entry and its row are told by two servers: damage only if both are still who they were. */
static void
report_no_row(MosqlScanState *scan)
{
	mosql_view_doubt(scan->view, scan->index->entries->tree);
	mosql_view_doubt(scan->view, scan->table->tree);
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("an entry of index \"%s\" of foreign table \"%s\" has no row",
					scan->index->name, RelationGetRelationName(scan->rel)),
			 errhint("DROP INDEX and CREATE INDEX build it anew.")));
}

/*
 * Entries that come next, and their rows, in one read.  Both are read at the same
 * snapshot, so each entry has its row.
 */
static bool
fetch_rows(MosqlScanState *scan)
{
	MemoryContext old;
	MosqlBytes *keys;
	MosqlRow	entry;
	int			n = 0;

	if (scan->fetch_size == 0)
		scan->fetch_size = scan->limit > 0 ? (int) Min(Max(scan->limit, 8), MOSQL_POINTS_PER_READ)
			: FIRST_FETCH;
	MemoryContextReset(scan->fetch_cxt);
	old = MemoryContextSwitchTo(scan->fetch_cxt);
	keys = palloc(scan->fetch_size * sizeof(MosqlBytes));
	while (n < scan->fetch_size && next_in_ranges(scan, &entry))
		keys[n++] = mosql_bytes_copy(scan->fetch_cxt, mosql_index_row_key(scan->index, &entry));
	scan->fetched_rows = palloc0(Max(n, 1) * sizeof(MosqlRow));
	if (n > 0)
		mosql_view_get(scan->view, scan->table->tree, keys, n, scan->fetched_rows);
	MemoryContextSwitchTo(old);
	for (int i = 0; i < n; i++)
		if (!scan->fetched_rows[i].found)
			report_no_row(scan);
	scan->fetch_size = Min(scan->fetch_size * 2, MOSQL_POINTS_PER_READ);
	scan->nfetched = n;
	scan->fetched = 0;
	return n > 0;
}

/* The next row of the scan (index_only: entry). */
static bool
next_row(MosqlScanState *scan, MosqlRow *row)
{
	if (scan->index == NULL || scan->index_only)
		return next_in_ranges(scan, row);
	if (scan->fetched == scan->nfetched && !fetch_rows(scan))
		return false;
	*row = scan->fetched_rows[scan->fetched++];
	return true;
}

/* next_row with its cost noted. */
static bool
next_row_costed(MosqlScanState *scan, MosqlRow *row)
{
	MosqlStats	before = mosql_stats;
	bool		found = next_row(scan, row);

	mosql_cost_add(&scan->cost, &before);
	if (found)
		scan->cost.rows_read++;
	return found;
}

void
mosql_exec_store_row(const MosqlTable *table, const MosqlRow *row, const bool *needed,
					 TupleTableSlot *slot)
{
	mosql_table_get_row(table, row->key, row->columns, needed, slot->tts_values,
						slot->tts_isnull);
	ExecStoreVirtualTuple(slot);
}

void
mosql_exec_scan_store(ForeignScanState *node, MosqlRow *row)
{
	MosqlScanState *scan = (MosqlScanState *) node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	ExecClearTuple(slot);
	if (scan->needs_none)
	{
		memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
		ExecStoreVirtualTuple(slot);
	}
	else if (scan->index_only)
	{
		mosql_index_get_row(scan->table, scan->index, row, scan->needed, slot->tts_values,
							slot->tts_isnull);
		ExecStoreVirtualTuple(slot);
	}
	else
		mosql_exec_store_row(scan->table, row, scan->needed, slot);
	slot->tts_tableOid = RelationGetRelid(scan->rel);
	if (scan->system & MOSQL_SYSTEM_VERSION)
		mosql_system_put(slot, RelationGetRelid(scan->rel),
						 mosql_view_token(scan->view, scan->table->tree, row));
}

bool
mosql_exec_scan_fetch(ForeignScanState *node, MosqlRow *row)
{
	MosqlScanState *scan = (MosqlScanState *) node->fdw_state;

	ExecClearTuple(node->ss.ss_ScanTupleSlot);
	if (!(scan->costed ? next_row_costed(scan, row) : next_row(scan, row)))
		return false;
	mosql_exec_scan_store(node, row);
	return true;
}

bool
mosql_exec_scan_passes(ForeignScanState *node)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = node->ss.ss_ScanTupleSlot;
	return ExecQual(node->ss.ps.qual, econtext);
}

void
mosql_exec_scan_put_tid(ForeignScanState *node, const MosqlRow *row)
{
	const MosqlScanState *scan = (const MosqlScanState *) node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	MosqlTree  *tree = scan->table->tree;

	if (scan->system & MOSQL_SYSTEM_CTID)
		mosql_tid_of_number(mosql_txn_number_put(scan->txn, tree, row), &slot->tts_tid);
	else if (scan->system & MOSQL_SYSTEM_HANDLE)
		mosql_tid_of_handle(mosql_txn_handle_put(scan->txn, tree, row), &slot->tts_tid);
	else
		mosql_tid_of_none(&slot->tts_tid);
}

/*
 * A handle lives as long as the statement.  So rows that the node's filter will
 * refuse get none: a DELETE that looks for a few rows among millions takes memory
 * for the few.
 */
TupleTableSlot *
mosqlIterateForeignScan(ForeignScanState *node)
{
	MosqlScanState *scan = (MosqlScanState *) node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (scan->of_worker && !mosql_parallel_join(node))
		return ExecClearTuple(slot);
	if (scan->ranges == NULL)
		mosql_exec_scan_ranges(scan, node->ss.ps.ps_ExprContext);

	if (scan->locks)
		return mosql_lock_scan_next(node);
	if (!mosql_exec_scan_fetch(node, &scan->current))
		return slot;
	while (scan->filters && !mosql_exec_scan_passes(node))
	{
		InstrCountFiltered1(node, 1);
		ResetExprContext(node->ss.ps.ps_ExprContext);
		CHECK_FOR_INTERRUPTS();
		if (!mosql_exec_scan_fetch(node, &scan->current))
			return slot;
	}
	mosql_exec_scan_put_tid(node, &scan->current);
	return slot;
}

/*
 * Start again.  Points that are all still in memory are returned once more:
 * the view has not changed, so they would be read the same.  That is not only
 * cheaper: a single-row view has no snapshot, and a second read of the row
 * could differ from the first (rule 12).  So it is with ranges that were read without a snapshot (rule 45).
 */
void
mosqlReScanForeignScan(ForeignScanState *node)
{
	MosqlScanState *scan = (MosqlScanState *) node->fdw_state;

	if (scan->ranges == NULL)
		return;
	mosql_lock_scan_reset(scan);
	if (scan->alone && scan->scan != NULL && mosql_view_scan_again(scan->scan))
		return;
	end_range(scan);
	if (!scan->locks)
		mosql_view_reuse(scan->view, true);
	scan->nfetched = scan->fetched = scan->fetch_size = 0;
	if (mosql_parallel_rescan(scan))
		return;
	if (scan->all_in_batch &&
		(scan->single || scan->nvalues == 0 || node->ss.ps.chgParam == NULL))
	{
		scan->row = 0;
		return;
	}
	scan->all_in_batch = false;
	scan->nrows = scan->row = 0;
	scan->next_range = 0;
	if (node->ss.ps.chgParam != NULL && scan->nvalues > 0)
	{
		MemoryContextReset(scan->range_cxt);
		scan->ranges = NULL;
	}
}

void
mosql_exec_scan_close(MosqlScanState *scan)
{
	end_range(scan);
	if (scan->view != NULL)
		mosql_view_close(scan->view);
	scan->view = NULL;
}

void
mosqlEndForeignScan(ForeignScanState *node)
{
	MosqlScanState *scan = (MosqlScanState *) node->fdw_state;

	if (scan == NULL)
		return;
	mosql_parallel_end(scan);
	mosql_exec_scan_close(scan);
}
