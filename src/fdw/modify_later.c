/*
 * modify_later.c: rows of a join that UPDATE and DELETE lock and change together.
 *
 * Layer: fdw.  Where the table's locking is pessimistic and the target is part of a join, no
 * scan knows which of its rows will be changed (lock_plan.c); each would be locked by itself
 * when it is changed, a round trip a row.  So what the plan returns waits here, some hundred
 * rows, until all of them are locked in one read; then they are changed in the plan's order,
 * as if they came then.  Only where nobody looks at a row between the plan and the end of
 * the batch: no RETURNING, no row triggers, no check option, no function in the query that may look at
 * the table meanwhile, and the target of the statement itself, not of a WITH.
 *
 * The executor has counted a row when it was put here; one that turns out not to be changed,
 * because it is gone, does not fit any more, or was changed already, is taken off the count
 * before ExecutorRun() returns.
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "lib/ilist.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "fdw/exec_int.h"

/* As the plan returned them. */
typedef struct Waiting
{
	MinimalTuple plan;
	MinimalTuple new;			/* UPDATE's new row */
} Waiting;

struct MosqlLater
{
	dlist_node	node;			/* in laters */
	MemoryContextCallback forget;
	ModifyTableState *mtstate;
	ResultRelInfo *rri;
	TupleTableSlot *plan_slot;	/* for rows that waited */
	TupleTableSlot *new_slot;
	MemoryContext cxt;			/* those that wait */
	int			n;
	Waiting		waiting[MOSQL_POINTS_PER_READ];
};

/* Of all statements that run. */
static dlist_head laters = DLIST_STATIC_INIT(laters);

static ExecutorRun_hook_type next_executor_run = NULL;

/* What is built in and volatile (random(), nextval()) runs no query; others see what is written so far. */
static bool
may_look(Oid function, void *arg)
{
	return function >= FirstNormalObjectId && func_volatile(function) == PROVOLATILE_VOLATILE;
}

static bool
may_look_walker(Node *node, void *arg)
{
	if (node == NULL)
		return false;
	if (check_functions_in_node(node, may_look, NULL))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, may_look_walker, arg, 0);
	return expression_tree_walker(node, may_look_walker, arg);
}

/* May the query see what it has written so far? */
bool
mosql_later_may_look(const Query *query)
{
	return may_look_walker((Node *) query, NULL);
}

bool
mosql_later_fits(PlannerInfo *root, const ModifyTable *plan)
{
	ListCell   *lc;

	if (mosql_later_may_look(root->parse))
		return false;
	foreach(lc, root->glob->subroots)	/* sub-selects of expressions are no part of the query any more */
		if (mosql_later_may_look(lfirst_node(PlannerInfo, lc)->parse))
			return false;
	if (plan->operation == CMD_INSERT)
		return true;
	return (plan->operation == CMD_UPDATE || plan->operation == CMD_DELETE) && plan->canSetTag &&
		plan->returningLists == NIL && plan->withCheckOptionLists == NIL &&
		bms_membership(root->all_baserels) == BMS_MULTIPLE;
}

static void
forget(void *arg)
{
	dlist_delete(&((MosqlLater *) arg)->node);
}

bool
mosql_has_row_triggers(const TriggerDesc *triggers, CmdType operation)
{
	if (triggers == NULL)
		return false;
	switch (operation)
	{
		case CMD_INSERT:
			return triggers->trig_insert_before_row || triggers->trig_insert_after_row ||
				triggers->trig_insert_new_table;
		case CMD_DELETE:
			return triggers->trig_delete_before_row || triggers->trig_delete_after_row ||
				triggers->trig_delete_old_table;
		default:
			return triggers->trig_update_before_row || triggers->trig_update_after_row ||
				triggers->trig_update_old_table || triggers->trig_update_new_table;
	}
}

MosqlLater *
mosql_later_open(ModifyTableState *mtstate, ResultRelInfo *rri)
{
	MemoryContext cxt = mtstate->ps.state->es_query_cxt;
	MosqlLater *later;

	if (mosql_has_row_triggers(rri->ri_TrigDesc, mtstate->operation))
		return NULL;
	later = MemoryContextAllocZero(cxt, sizeof(MosqlLater));
	later->mtstate = mtstate;
	later->rri = rri;
	later->cxt = AllocSetContextCreate(cxt, "mosql rows to change", ALLOCSET_DEFAULT_SIZES);
	later->forget = (MemoryContextCallback) {forget, later};
	MemoryContextRegisterResetCallback(cxt, &later->forget);
	dlist_push_tail(&laters, &later->node);
	return later;
}

static int
compare_rows(const void *a, const void *b)
{
	return mosql_bytes_compare(((const MosqlRow *) a)->key, ((const MosqlRow *) b)->key);
}

/* Rows by key, ascending, each once: how many that are. */
static int
sort_rows(MosqlRow *rows, int n)
{
	int			m = 0;

	qsort(rows, n, sizeof(MosqlRow), compare_rows);
	for (int i = 0; i < n; i++)
		if (m == 0 || !mosql_bytes_equal(rows[m - 1].key, rows[i].key))
			rows[m++] = rows[i];
	return m;
}

/* Lock all that wait.  What came of it each is told when it is changed. */
static void
lock_waiting(MosqlModifyState *modify, MosqlLater *later)
{
	MosqlRow   *rows = palloc0(later->n * sizeof(MosqlRow));
	MosqlRow   *newest = palloc0(later->n * sizeof(MosqlRow));
	MosqlLocked *locked = palloc(later->n * sizeof(MosqlLocked));
	int			m = 0;

	for (int i = 0; i < later->n; i++)
	{
		bool		isnull;
		Datum		ctid;

		ExecForceStoreMinimalTuple(later->waiting[i].plan, later->plan_slot, false);
		ctid = ExecGetJunkAttribute(later->plan_slot, modify->ctid_attno, &isnull);
		if (!isnull)
			mosql_exec_row_of_tid(modify->txn, modify->table->tree, ctid, &rows[m++]);
	}
	m = sort_rows(rows, m);
	if (m > 0)
		mosql_lock_rows(&modify->locker, rows, m, newest, locked);
}

/* The plan's row at hand is this one, also for who evaluates it again. */
static void
change(MosqlLater *later, const Waiting *waiting)
{
	EState	   *estate = later->mtstate->ps.state;
	TupleTableSlot *changed;

	ExecForceStoreMinimalTuple(waiting->plan, later->plan_slot, false);
	EvalPlanQualSetSlot(&later->mtstate->mt_epqstate, later->plan_slot);
	if (waiting->new != NULL)
	{
		ExecForceStoreMinimalTuple(waiting->new, later->new_slot, false);
		later->new_slot->tts_tableOid = RelationGetRelid(later->rri->ri_RelationDesc);
		changed = mosql_exec_update(estate, later->rri, later->new_slot, later->plan_slot);
	}
	else
		changed = mosql_exec_delete(estate, later->rri, ExecGetReturningSlot(estate, later->rri),
									later->plan_slot);
	if (changed == NULL)
		estate->es_processed--;
}

/* All that wait. */
static void
flush(MosqlLater *later)
{
	MosqlModifyState *modify = (MosqlModifyState *) later->rri->ri_FdwState;
	MosqlStats	before = mosql_stats;
	MemoryContext old;

	if (later->n == 0)
		return;
	old = MemoryContextSwitchTo(later->cxt);
	lock_waiting(modify, later);
	mosql_cost_add(&modify->cost, &before);
	/* what the executor makes when it is first needed, EvalPlanQual's state, lasts as long as it */
	MemoryContextSwitchTo(later->mtstate->ps.state->es_query_cxt);
	for (int i = 0; i < later->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(later->mtstate->ps.state);
		change(later, &later->waiting[i]);
	}
	ExecClearTuple(later->plan_slot);
	if (later->new_slot != NULL)
		ExecClearTuple(later->new_slot);
	later->n = 0;
	MemoryContextSwitchTo(old);
	MemoryContextReset(later->cxt);
}

static TupleTableSlot *
slot_like(const MosqlLater *later, TupleTableSlot *slot)
{
	return ExecInitExtraTupleSlot(later->mtstate->ps.state, slot->tts_tupleDescriptor,
								  &TTSOpsMinimalTuple);
}

void
mosql_later_add(MosqlLater *later, TupleTableSlot *new_slot, TupleTableSlot *plan_slot)
{
	MemoryContext old = MemoryContextSwitchTo(later->mtstate->ps.state->es_query_cxt);

	if (later->plan_slot == NULL)
		later->plan_slot = slot_like(later, plan_slot);
	if (later->new_slot == NULL && new_slot != NULL)
		later->new_slot = slot_like(later, new_slot);
	MemoryContextSwitchTo(later->cxt);
	later->waiting[later->n++] = (Waiting)
	{
		ExecCopySlotMinimalTuple(plan_slot), new_slot ? ExecCopySlotMinimalTuple(new_slot) : NULL
	};
	MemoryContextSwitchTo(old);
	if (later->n == MOSQL_POINTS_PER_READ)
		flush(later);
}

/* Before the statement's count is told. */
static void
executor_run(QueryDesc *query, ScanDirection direction, uint64 count
#if PG_VERSION_NUM < 180000
			 ,bool once
#endif
)
{
	dlist_mutable_iter iter;
	MosqlModifyState *fresh;

	mosql_cursor_before_run(query, direction);
	mosql_sequences_before_run(query, count);
#if PG_VERSION_NUM < 180000
	if (next_executor_run != NULL)
		next_executor_run(query, direction, count, once);
	else
		standard_ExecutorRun(query, direction, count, once);
#else
	if (next_executor_run != NULL)
		next_executor_run(query, direction, count);
	else
		standard_ExecutorRun(query, direction, count);
#endif
	dlist_foreach_modify(iter, &laters)
	{
		MosqlLater *later = dlist_container(MosqlLater, node, iter.cur);

		if (later->mtstate->ps.state == query->estate)
			flush(later);
	}
	while ((fresh = mosql_fresh_pending(query->estate)) != NULL)
		mosql_exec_fresh_end(fresh);
	mosql_sequences_take_turn();
}

void
mosql_later_init(void)
{
	next_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
}
