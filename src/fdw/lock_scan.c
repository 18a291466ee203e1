/*
 * lock_scan.c: scans that lock the rows that they return.
 *
 * Layer: fdw.  In batches: read as the snapshot shows them, leave out what the filter
 * refuses, lock the rest, and ask the filter again, and the conditions that were taken for
 * bounds of the key, where a row has changed since.  What is returned is locked, and the
 * newest version.  lock_plan.c says which scans do so.
 *
 * No more is locked than LockRows would lock, one by one: no row that a LIMIT does not reach, nor one that
 * is left to the next FETCH.
 */
#include "postgres.h"

#include <limits.h>

#include "executor/executor.h"

#include "fdw/exec_int.h"

/* Rows that are locked together; batches grow. */
#define FIRST_BATCH		64
#define MAX_BATCH		4096

typedef struct MosqlLockBatch
{
	MemoryContext cxt;			/* the rows */
	int			size;			/* of the next batch */
	bool		last;			/* there are no more */
	int			n;
	int			next;
	MosqlRow   *rows;			/* in the order of the scan */
	MosqlLocked *locked;
	int			returned;		/* by the scan, since it has begun */
} MosqlLockBatch;

/* ---- how many rows ---- */

/*
 * A run of the executor that ends after some rows: FETCH, SELECT INTO and loops in PL/pgSQL,
 * a function in SQL, a client that asks for some rows at a time.
 */
typedef struct CountedRun
{
	struct CountedRun *outer;
	const EState *estate;
	uint64		count;
} CountedRun;

static CountedRun *runs = NULL;
static ExecutorRun_hook_type next_executor_run = NULL;

#if PG_VERSION_NUM >= 180000
#define RUN_ARGUMENTS		QueryDesc *query, ScanDirection direction, uint64 count
#define RUN(run)			(run)(query, direction, count)
#else
#define RUN_ARGUMENTS		QueryDesc *query, ScanDirection direction, uint64 count, bool once
#define RUN(run)			(run)(query, direction, count, once)
#endif

static void
executor_run(RUN_ARGUMENTS)
{
	CountedRun	run = {runs, query->estate, count};

	if (count == 0)
	{
		RUN(next_executor_run);
		return;
	}
	runs = &run;
	PG_TRY();
	{
		RUN(next_executor_run);
	}
	PG_FINALLY();
	{
		runs = run.outer;
	}
	PG_END_TRY();
}

void
mosql_lock_init(void)
{
	next_executor_run = ExecutorRun_hook != NULL ? ExecutorRun_hook : standard_ExecutorRun;
	ExecutorRun_hook = executor_run;
}

/*
 * So many rows that the scan returns from here on are certain to come to LockRows, if there are as many.  At the
 * end of LIMIT that is one: it has asked for it, since one was left out above the scan, or is WITH TIES.
 * 0: none, a sort takes the rows.
 */
static int
rows_wanted(const MosqlScanState *scan)
{
	int			wanted = INT_MAX;
	const CountedRun *run = runs;

	if (scan->lock_limit > 0)
		wanted = Max(scan->lock_limit - scan->batch->returned, 1);
	while (run != NULL && run->estate != scan->estate)
		run = run->outer;
	if (run == NULL || scan->locker.changes)
		return wanted;
	if (!scan->row_by_row)
		return 0;
	if (run->count <= scan->estate->es_processed)
		return 1;				/* of a statement that also writes, which counts otherwise */
	return (int) Min((uint64) wanted, run->count - scan->estate->es_processed);
}

/* In the middle of a batch: what it has already is to be returned. */
int
mosql_lock_scan_wanted(const MosqlScanState *scan)
{
	int			wanted = rows_wanted(scan);

	return wanted > 0 ? wanted - scan->batch->n : 0;
}

/* ---- a batch ---- */

static MosqlLockBatch *
batch_of(MosqlScanState *scan)
{
	MosqlLockBatch *batch = scan->batch;

	if (batch != NULL)
		return batch;
	batch = MemoryContextAllocZero(scan->scan_cxt, sizeof(MosqlLockBatch));
	batch->cxt = AllocSetContextCreate(scan->scan_cxt, "mosql rows to lock",
									   ALLOCSET_DEFAULT_SIZES);
	batch->size = FIRST_BATCH;
	return scan->batch = batch;
}

static MosqlRow
copy_row(MemoryContext cxt, const MosqlRow *row)
{
	MosqlRow	copy = *row;

	copy.key = mosql_bytes_copy(cxt, row->key);
	copy.columns = mosql_bytes_copy(cxt, row->columns);
	return copy;
}

/* Rows that pass the filter, as many as a batch takes, max at most. */
static void
read_batch(ForeignScanState *node, MosqlLockBatch *batch, int max)
{
	MosqlRow	row = {0};

	max = Min(max, batch->size);
	MemoryContextReset(batch->cxt);
	batch->n = batch->next = 0;
	batch->rows = MemoryContextAlloc(batch->cxt, max * sizeof(MosqlRow));
	while (batch->n < max)
	{
		ResetExprContext(node->ss.ps.ps_ExprContext);
		CHECK_FOR_INTERRUPTS();
		if (!mosql_exec_scan_fetch(node, &row))
		{
			batch->last = true;
			return;
		}
		if (mosql_exec_scan_passes(node))
			batch->rows[batch->n++] = copy_row(batch->cxt, &row);
		else
			InstrCountFiltered1(node, 1);
	}
	batch->size = Min(batch->size * 4, MAX_BATCH);
}

static int
compare_keys(const void *a, const void *b, void *rows)
{
	return mosql_bytes_compare(((MosqlRow *) rows)[*(const int *) a].key,
							   ((MosqlRow *) rows)[*(const int *) b].key);
}

/* Locks are taken in the order of the keys, whatever the scan's. */
static void
lock_batch(MosqlScanState *scan, MosqlLockBatch *batch)
{
	MemoryContext old = MemoryContextSwitchTo(batch->cxt);
	int		   *order = palloc(batch->n * sizeof(int));
	MosqlRow   *sorted = palloc(batch->n * sizeof(MosqlRow));
	MosqlRow   *newest = palloc0(batch->n * sizeof(MosqlRow));
	MosqlLocked *locked = palloc(batch->n * sizeof(MosqlLocked));
	MosqlStats	before = mosql_stats;

	for (int i = 0; i < batch->n; i++)
		order[i] = i;
	qsort_arg(order, batch->n, sizeof(int), compare_keys, batch->rows);
	for (int i = 0; i < batch->n; i++)
		sorted[i] = batch->rows[order[i]];
	mosql_lock_rows(&scan->locker, sorted, batch->n, newest, locked);
	if (scan->costed)
		mosql_cost_add(&scan->cost, &before);
	batch->locked = palloc(batch->n * sizeof(MosqlLocked));
	for (int i = 0; i < batch->n; i++)
	{
		batch->locked[order[i]] = locked[i];
		if (locked[i] == MOSQL_LOCKED_NEWER)
			batch->rows[order[i]] = newest[i];
	}
	MemoryContextSwitchTo(old);
}

/* The newest version of a row is in the slot: is it what the scan looks for? */
static bool
fits_still(ForeignScanState *node)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;

	econtext->ecxt_scantuple = node->ss.ss_ScanTupleSlot;
	return ExecQual(node->fdw_recheck_quals, econtext) && mosql_exec_scan_passes(node);
}

/* The next row of the batch into the slot; false at its end. */
static bool
next_in_batch(ForeignScanState *node, MosqlLockBatch *batch)
{
	while (batch->next < batch->n)
	{
		MosqlRow   *row = &batch->rows[batch->next];
		MosqlLocked locked = batch->locked ? batch->locked[batch->next] : MOSQL_LOCKED;

		batch->next++;

		if (locked == MOSQL_NOT_LOCKED)
			continue;
		ResetExprContext(node->ss.ps.ps_ExprContext);
		mosql_exec_scan_store(node, row);
		if (locked == MOSQL_LOCKED_NEWER && !fits_still(node))
		{
			InstrCountFiltered1(node, 1);
			continue;
		}
		mosql_exec_scan_put_tid(node, row);
		batch->returned++;
		return true;
	}
	return false;
}

TupleTableSlot *
mosql_lock_scan_next(ForeignScanState *node)
{
	MosqlScanState *scan = (MosqlScanState *) node->fdw_state;
	MosqlLockBatch *batch = batch_of(scan);
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	while (!next_in_batch(node, batch))
	{
		int			wanted;

		if (batch->last)
			return ExecClearTuple(slot);
		batch->n = batch->next = 0;
		batch->locked = NULL;
		wanted = rows_wanted(scan);
		read_batch(node, batch, wanted > 0 ? wanted : batch->size);
		if (batch->n > 0 && wanted > 0)
			lock_batch(scan, batch);
	}
	return slot;
}

void
mosql_lock_scan_reset(MosqlScanState *scan)
{
	MosqlLockBatch *batch = scan->batch;

	if (batch == NULL)
		return;
	batch->n = batch->next = batch->returned = 0;
	batch->last = false;
}
