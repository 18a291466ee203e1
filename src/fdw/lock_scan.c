/*
 * lock_scan.c: scans that lock the rows that they return.
 *
 * Layer: fdw.  In batches: read as the snapshot shows them, leave out what the filter
 * refuses, lock the rest, and ask the filter again, and the conditions that were taken for
 * bounds of the key, where a row has changed since.  What is returned is locked, and the
 * newest version.  lock_plan.c says which scans do so.
 */
#include "postgres.h"

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
} MosqlLockBatch;

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

/* Rows that pass the filter, as many as a batch takes. */
static void
read_batch(ForeignScanState *node, MosqlLockBatch *batch)
{
	MosqlRow	row = {0};

	MemoryContextReset(batch->cxt);
	batch->n = batch->next = 0;
	batch->rows = MemoryContextAlloc(batch->cxt, batch->size * sizeof(MosqlRow));
	while (batch->n < batch->size)
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

	batch->locked = palloc(batch->n * sizeof(MosqlLocked));
	for (int i = 0; i < batch->n; i++)
		order[i] = i;
	qsort_arg(order, batch->n, sizeof(int), compare_keys, batch->rows);
	for (int i = 0; i < batch->n; i++)
		sorted[i] = batch->rows[order[i]];
	mosql_lock_rows(&scan->locker, sorted, batch->n, newest, locked);
	if (scan->costed)
		mosql_cost_add(&scan->cost, &before);
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
		MosqlLocked locked = batch->locked[batch->next++];

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
		if (batch->last)
			return ExecClearTuple(slot);
		read_batch(node, batch);
		if (batch->n > 0)
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
	batch->n = batch->next = 0;
	batch->last = false;
}
