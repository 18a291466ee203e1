/*
 * ahead.c: the Key Batch: outer rows of a nested loop, of which the look-ups are read ahead.
 *
 * Layer: fdw, executor side.  The node takes a batch of rows from below, evaluates for each what the
 * inner scan will evaluate when the join comes to it, reads all of that together with the inner
 * scan's view (txn/ahead.c), and hands out the rows.  Batches grow, 1, 16, 256, and then a thousand
 * rows, so that a LIMIT, or an EXISTS, does not pay for what it does not want; they shrink where what
 * is found is large.
 *
 * Inner scan and node find each other by a parameter of the executor, as a recursive union and its
 * work table do: its value is the node's state.
 */
#include "postgres.h"

#include "access/table.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/ruleutils.h"

#include "fdw/ahead.h"

/* What a row that is kept takes beside its bytes, about. */
#define KEPT_OVERHEAD	256

typedef struct AheadState
{
	CustomScanState css;		/* first: the executor's */
	MosqlScanCost cost;
	MosqlScanState *inner;		/* NULL: there is none to read for */

	/* --- what is looked for --- */
	int			nconds;
	MosqlCond  *conds;
	int			nvalues;
	ExprState **exprs;
	Oid		   *types;
	Datum	   *values;
	bool	   *nulls;

	/* --- the batch --- */
	int			size;			/* rows of the next one, */
	int			most;			/* which become no more than these */
	int			nrows;
	int			row;			/* next of slots */
	bool		ended;			/* there are no more below */
	int			nslots;
	TupleTableSlot **slots;
	MemoryContext rows_cxt;		/* slots and their rows, until the next batch */
	MemoryContext read_cxt;		/* while they are read */
	MemoryContext kept_cxt;		/* what was read and found no room with the snapshot's */
} AheadState;

static const CustomExecMethods ahead_exec_methods;

/* ---- setting up ---- */

static Node *
create_state(CustomScan *plan)
{
	AheadState *state = (AheadState *) newNode(sizeof(AheadState), T_CustomScanState);

	state->css.methods = &ahead_exec_methods;
	return (Node *) state;
}

static void
init_values(AheadState *state, List *exprs)
{
	ListCell   *lc;

	state->exprs = palloc(list_length(exprs) * sizeof(ExprState *));
	state->types = palloc(list_length(exprs) * sizeof(Oid));
	state->values = palloc(list_length(exprs) * sizeof(Datum));
	state->nulls = palloc(list_length(exprs) * sizeof(bool));
	foreach(lc, exprs)
	{
		state->types[state->nvalues] = exprType(lfirst(lc));
		state->exprs[state->nvalues++] = ExecInitExpr(lfirst(lc), &state->css.ss.ps);
	}
}

static void
begin_batches(CustomScanState *node, EState *estate, int eflags)
{
	AheadState *state = (AheadState *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	ParamExecData *link = &estate->es_param_exec_vals[intVal(list_nth(plan->custom_private,
																	 MOSQL_AHEAD_LINK))];

	node->custom_ps = list_make1(ExecInitNode(linitial(plan->custom_plans), estate, eflags));
	link->value = PointerGetDatum(state);
	link->isnull = false;
	state->nconds = mosql_conds_decode(list_nth(plan->custom_private, MOSQL_AHEAD_CONDS),
									   &state->conds);
	init_values(state, plan->custom_exprs);
	state->size = 1;
	state->most = mosql_fdw_join_batch;
	state->rows_cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql batch rows",
											ALLOCSET_DEFAULT_SIZES);
	state->read_cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql batch keys",
											ALLOCSET_DEFAULT_SIZES);
	state->kept_cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql batch look-ups",
											ALLOCSET_DEFAULT_SIZES);
}

void
mosql_ahead_join(EState *estate, int link, MosqlScanState *inner)
{
	AheadState *state = link < 0 ? NULL : (AheadState *)
		DatumGetPointer(estate->es_param_exec_vals[link].value);

	if (state != NULL && !inner->locks)
		state->inner = inner;
}

/* ---- reading ahead ---- */

/* What the inner scan will read for the batch: ranges, ascending, each one once. */
static MosqlRanges *
batch_ranges(AheadState *state)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	MosqlRanges **sets = palloc(state->nrows * sizeof(MosqlRanges *));

	for (int i = 0; i < state->nrows; i++)
	{
		ResetExprContext(econtext);
		econtext->ecxt_scantuple = state->slots[i];
		for (int j = 0; j < state->nvalues; j++)
			state->values[j] = ExecEvalExprSwitchContext(state->exprs[j], econtext,
														 &state->nulls[j]);
		sets[i] = mosql_ranges_build(state->inner->keys, state->conds, state->nconds,
									 state->values, state->nulls, state->types);
	}
	return mosql_ranges_union(sets, state->nrows);
}

static void
read_points(MosqlView *view, MosqlTree *tree, const MosqlRanges *ranges)
{
	MosqlBytes *keys = palloc(Max(ranges->n, 1) * sizeof(MosqlBytes));
	int			n = 0;

	for (int i = 0; i < ranges->n; i++)
		if (ranges->ranges[i].point)
			keys[n++] = ranges->ranges[i].low;
	for (int i = 0; i < n && mosql_view_ahead_has_room(view); i += MOSQL_POINTS_PER_READ)
		mosql_view_ahead_keys(view, tree, keys + i, Min(n - i, MOSQL_POINTS_PER_READ));
}

static void
read_ranges(MosqlView *view, MosqlTree *tree, const MosqlRanges *ranges)
{
	MosqlKeyRange *wanted = palloc(Max(ranges->n, 1) * sizeof(MosqlKeyRange));
	int			n = 0;

	for (int i = 0; i < ranges->n; i++)
		if (!ranges->ranges[i].point)
			wanted[n++] = (MosqlKeyRange)
		{
			ranges->ranges[i].low, ranges->ranges[i].high
		};
	mosql_view_ahead_ranges(view, tree, wanted, n);
}

/* The rows that the index's entries in the ranges lead to. */
static void
read_rows(MosqlScanState *inner, const MosqlRanges *ranges)
{
	MosqlBytes *keys = palloc(MOSQL_POINTS_PER_READ * sizeof(MosqlBytes));
	int			n = 0;

	for (int i = 0; i < ranges->n; i++)
	{
		MosqlKeyRange range = {ranges->ranges[i].low, ranges->ranges[i].high};
		MosqlRow	entry;

		while (mosql_view_ahead_next(inner->view, inner->keys->tree, &range, &entry))
		{
			keys[n++] = mosql_index_row_key(inner->index, &entry);
			if (n < MOSQL_POINTS_PER_READ)
				continue;
			mosql_view_ahead_keys(inner->view, inner->table->tree, keys, n);
			n = 0;
			if (!mosql_view_ahead_has_room(inner->view))
				return;
		}
	}
	mosql_view_ahead_keys(inner->view, inner->table->tree, keys, n);
}

/* What is found should fit into what may be kept: so many rows at most, by what has come for these. */
static int
most_rows(int64 bytes, int nrows)
{
	int64		fit = (int64) mosql_txn_snapshot_cache_kb * 1024 / 2 / (bytes / nrows + KEPT_OVERHEAD);

	return (int) Min(Max(fit, 2), mosql_fdw_join_batch);	/* one alone is not read ahead, nor measured */
}

static void
read_batch(AheadState *state)
{
	MosqlScanState *inner = state->inner;
	MemoryContext old = MemoryContextSwitchTo(state->read_cxt);
	MosqlStats	before = mosql_stats;
	MosqlRanges *ranges = batch_ranges(state);

	mosql_view_ahead_start(inner->view, state->kept_cxt);
	read_points(inner->view, inner->keys->tree, ranges);
	read_ranges(inner->view, inner->keys->tree, ranges);
	if (inner->index != NULL && !inner->index_only)
		read_rows(inner, ranges);
	mosql_cost_add(&state->cost, &before);
	state->cost.rows_read += ranges->n;
	state->most = most_rows(mosql_stats.bytes_received - before.bytes_received, state->nrows);
	MemoryContextSwitchTo(old);
	MemoryContextReset(state->read_cxt);
}

/* ---- rows ---- */

/* The slot for the next row of the batch. */
static TupleTableSlot *
next_slot(AheadState *state)
{
	if (state->nrows == state->nslots)
	{
		MemoryContext old = MemoryContextSwitchTo(state->rows_cxt);
		TupleDesc	desc = state->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;
		int			n = Max(state->nslots * 2, 16);

		state->slots = state->slots ? repalloc(state->slots, n * sizeof(TupleTableSlot *))
			: palloc(n * sizeof(TupleTableSlot *));
		while (state->nslots < n)
			state->slots[state->nslots++] = MakeTupleTableSlot(desc, &TTSOpsVirtual);
		MemoryContextSwitchTo(old);
	}
	return state->slots[state->nrows];
}

/* The next batch; false: there are no rows any more.  One row alone the inner scan may read itself. */
static bool
fill_batch(AheadState *state)
{
	PlanState  *below = linitial(state->css.custom_ps);
	bool		ahead = state->inner != NULL && state->css.ss.ps.state->es_epq_active == NULL;
	int			size = ahead ? state->size : 1;

	MemoryContextReset(state->rows_cxt);
	state->slots = NULL;
	state->nslots = state->nrows = state->row = 0;
	while (state->nrows < size && !state->ended)
	{
		TupleTableSlot *slot = ExecProcNode(below);

		if (TupIsNull(slot))
		{
			state->ended = true;
			break;
		}
		ExecCopySlot(next_slot(state), slot);
		state->nrows++;
		if (MemoryContextMemAllocated(state->rows_cxt, true) > (Size) work_mem * 1024)
			break;
	}
	if (state->nrows > 1)
		read_batch(state);
	state->size = Min(mosql_ahead_grow(state->size), state->most);
	return state->nrows > 0;
}

static TupleTableSlot *
next_outer_row(CustomScanState *node)
{
	AheadState *state = (AheadState *) node;
	TupleTableSlot *slot;

	CHECK_FOR_INTERRUPTS();
	if (state->row == state->nrows && !fill_batch(state))
		return ExecClearTuple(node->ss.ss_ScanTupleSlot);
	slot = state->slots[state->row++];
	if (node->ss.ps.ps_ProjInfo == NULL)
		return slot;
	ResetExprContext(node->ss.ps.ps_ExprContext);
	node->ss.ps.ps_ExprContext->ecxt_scantuple = slot;
	return ExecProject(node->ss.ps.ps_ProjInfo);
}

/* Who did not read to the end the last time perhaps does not this time either. */
static void
rescan_batches(CustomScanState *node)
{
	AheadState *state = (AheadState *) node;
	PlanState  *below = linitial(node->custom_ps);

	if (!state->ended || state->row < state->nrows)
		state->size = 1;
	state->most = mosql_fdw_join_batch;
	state->row = state->nrows;
	state->ended = false;
	if (node->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(below, node->ss.ps.chgParam);
	if (below->chgParam == NULL)
		ExecReScan(below);
}

static void
end_batches(CustomScanState *node)
{
	ExecEndNode(linitial(node->custom_ps));
}

/* ---- EXPLAIN ---- */

static void
explain_batches(CustomScanState *node, List *ancestors, ExplainState *es)
{
	AheadState *state = (AheadState *) node;
	CustomScan *plan = (CustomScan *) node->ss.ps.plan;
	List	   *table = list_nth(plan->custom_private, MOSQL_AHEAD_TABLE);
	List	   *context = set_deparse_context_plan(es->deparse_cxt, &plan->scan.plan, ancestors);

	ExplainPropertyText("Read Ahead",
						mosql_explain_lookup(linitial_oid(table), lsecond_oid(table),
											 strVal(list_nth(plan->custom_private, MOSQL_AHEAD_NAME)),
											 intVal(list_nth(plan->custom_private, MOSQL_AHEAD_INDEX)),
											 list_nth(plan->custom_private, MOSQL_AHEAD_CONDS),
											 plan->custom_exprs, context), es);
	if (es->analyze)
		mosql_explain_cost(&state->cost, es);
}

const CustomScanMethods mosql_ahead_scan_methods = {
	.CustomName = "Key Batch",
	.CreateCustomScanState = create_state,
};

static const CustomExecMethods ahead_exec_methods = {
	.CustomName = "Key Batch",
	.BeginCustomScan = begin_batches,
	.ExecCustomScan = next_outer_row,
	.EndCustomScan = end_batches,
	.ReScanCustomScan = rescan_batches,
	.ExplainCustomScan = explain_batches,
};
