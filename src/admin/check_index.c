/*
 * check_index.c: do a table's indexes say what its rows say?
 *
 * Layer: admin, a part of mosql_fdw_check().  At one snapshot: every row has the
 * entry that it must have, in every index, and no index has more entries than were
 * found so.  Different rows have different entries, so both together mean that there is
 * no other entry.  If there is, each is named.  Costs a read of every row and a look-up
 * of every entry; where something is wrong, also the other way round.  An index that
 * this server cannot compute is left out.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "admin/admin.h"

/* Rows whose entries are looked up together. */
#define BATCH_ROWS	1000

typedef struct IndexCheck
{
	const MosqlTable *table;
	MosqlView  *view;
	TupleTableSlot *slot;
	MosqlIndexFinding report;
	void	   *arg;
	int64	   *nfound;			/* by index: entries of rows */
	int			n;				/* rows in the batch */
	MosqlBytes *keys;			/* of the rows, in batch_cxt */
	MosqlBytes **entries;		/* by index: keys of their entries; absent: none */
	MemoryContext batch_cxt;
} IndexCheck;

static void
start_batch(IndexCheck *check)
{
	MemoryContext old;

	MemoryContextReset(check->batch_cxt);
	old = MemoryContextSwitchTo(check->batch_cxt);
	check->n = 0;
	check->keys = palloc(BATCH_ROWS * sizeof(MosqlBytes));
	check->entries = palloc(check->table->nindexes * sizeof(MosqlBytes *));
	for (int i = 0; i < check->table->nindexes; i++)
		check->entries[i] = palloc(BATCH_ROWS * sizeof(MosqlBytes));
	MemoryContextSwitchTo(old);
}

/* Note a row, and the entries that it must have. */
static void
add_row(IndexCheck *check, const MosqlRow *row)
{
	const MosqlTable *table = check->table;
	MemoryContext old = MemoryContextSwitchTo(check->batch_cxt);

	check->keys[check->n] = mosql_bytes_copy(check->batch_cxt, row->key);
	ExecClearTuple(check->slot);
	mosql_table_get_row(table, row->key, row->columns, NULL, check->slot->tts_values,
						check->slot->tts_isnull);
	ExecStoreVirtualTuple(check->slot);
	for (int i = 0; i < table->nindexes; i++)
	{
		StringInfoData key;
		StringInfoData columns;

		check->entries[i][check->n] = MOSQL_ABSENT;
		initStringInfo(&key);
		initStringInfo(&columns);
		if (table->indexes[i].broken != NULL ||
			mosql_index_entry(&table->indexes[i], check->slot, row->key, &key,
							  &columns) == MOSQL_ENTRY_NONE)
			continue;
		check->entries[i][check->n] = mosql_bytes_of(&key);
	}
	check->n++;
	MemoryContextSwitchTo(old);
}

/* The entries of one index that the batch's rows must have. */
static void
look_up_entries(IndexCheck *check, int index_number, const MosqlBytes *entries)
{
	const MosqlIndex *index = &check->table->indexes[index_number];
	MosqlBytes *keys = palloc(check->n * sizeof(MosqlBytes));
	int		   *rows = palloc(check->n * sizeof(int));
	MosqlRow   *found = palloc0(check->n * sizeof(MosqlRow));
	int			n = 0;

	for (int r = 0; r < check->n; r++)
	{
		if (entries[r].data == NULL)
			continue;
		rows[n] = r;
		keys[n++] = entries[r];
	}
	if (n > 0)
		mosql_view_get(check->view, index->entries->tree, keys, n, found);
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	key = check->keys[rows[i]];

		if (!found[i].found)
			check->report(check->arg, index,
						  psprintf("the row with %s has no entry",
								   mosql_table_describe_key(check->table, key)));
		else if (!mosql_bytes_equal(mosql_index_row_key(index, &found[i]), key))
			check->report(check->arg, index,
						  psprintf("the entry of the row with %s leads to another row",
								   mosql_table_describe_key(check->table, key)));
		check->nfound[index_number] += found[i].found;
	}
}

static void
look_up_batch(IndexCheck *check)
{
	MemoryContext old = MemoryContextSwitchTo(check->batch_cxt);

	for (int i = 0; i < check->table->nindexes && check->n > 0; i++)
		look_up_entries(check, i, check->entries[i]);
	MemoryContextSwitchTo(old);
}

static int64
count_entries(IndexCheck *check, const MosqlIndex *index)
{
	MosqlRowScan *scan = mosql_view_scan_begin(check->view, index->entries->tree,
											   mosql_bytes("", 0), MOSQL_ABSENT, false, 0);
	MosqlRow	row;
	int64		n = 0;

	while (mosql_view_scan_next(scan, &row))
	{
		CHECK_FOR_INTERRUPTS();
		n++;
	}
	mosql_view_scan_end(scan);
	return n;
}

/* Has the row of an entry this entry? */
static bool
is_of_row(IndexCheck *check, const MosqlIndex *index, MosqlBytes entry, const MosqlRow *row)
{
	StringInfoData key;
	StringInfoData columns;

	if (!row->found)
		return false;
	initStringInfo(&key);
	initStringInfo(&columns);
	ExecClearTuple(check->slot);
	mosql_table_get_row(check->table, row->key, row->columns, NULL, check->slot->tts_values,
						check->slot->tts_isnull);
	ExecStoreVirtualTuple(check->slot);
	return mosql_index_entry(index, check->slot, row->key, &key, &columns) != MOSQL_ENTRY_NONE &&
		mosql_bytes_equal(mosql_bytes_of(&key), entry);
}

/* Report those of n entries that no row has; in batch_cxt. */
static void
report_surplus(IndexCheck *check, const MosqlIndex *index, const MosqlBytes *entries,
			   const MosqlBytes *row_keys, int n)
{
	MosqlRow   *rows = palloc0(Max(n, 1) * sizeof(MosqlRow));

	if (n > 0)
		mosql_view_get(check->view, check->table->tree, row_keys, n, rows);
	for (int i = 0; i < n; i++)
		if (!is_of_row(check, index, entries[i], &rows[i]))
			check->report(check->arg, index,
						  psprintf("the entry with %s belongs to no row",
								   mosql_table_describe_key(index->entries, entries[i])));
}

/* Look for the row of every entry. */
static void
find_surplus(IndexCheck *check, const MosqlIndex *index)
{
	MosqlRowScan *scan = mosql_view_scan_begin(check->view, index->entries->tree,
											   mosql_bytes("", 0), MOSQL_ABSENT, false, 0);
	MosqlBytes	entries[BATCH_ROWS];
	MosqlBytes	row_keys[BATCH_ROWS];
	MosqlRow	entry;
	bool		more = true;

	while (more)
	{
		MemoryContext old;
		int			n = 0;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(check->batch_cxt);
		while (n < BATCH_ROWS && (more = mosql_view_scan_next(scan, &entry)))
		{
			entries[n] = mosql_bytes_copy(check->batch_cxt, entry.key);
			row_keys[n++] = mosql_bytes_copy(check->batch_cxt, mosql_index_row_key(index, &entry));
		}
		old = MemoryContextSwitchTo(check->batch_cxt);
		report_surplus(check, index, entries, row_keys, n);
		MemoryContextSwitchTo(old);
	}
	mosql_view_scan_end(scan);
}

void
mosql_admin_check_indexes(Relation rel, const MosqlTable *table, MosqlIndexFinding report,
						  void *arg)
{
	IndexCheck	check = {.table = table,.report = report,.arg = arg};
	MosqlRowScan *scan;
	MosqlRow	row;

	if (table->nindexes == 0)
		return;
	check.nfound = palloc0(table->nindexes * sizeof(int64));
	check.view = mosql_view_open(mosql_txn_current(table->session), &check,
								 GetCurrentCommandId(false), false);
	check.slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsVirtual);
	check.batch_cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql index check",
											ALLOCSET_DEFAULT_SIZES);
	start_batch(&check);
	scan = mosql_view_scan_begin(check.view, table->tree, mosql_bytes("", 0), MOSQL_ABSENT,
								 false, 0);
	while (mosql_view_scan_next(scan, &row))
	{
		CHECK_FOR_INTERRUPTS();
		add_row(&check, &row);
		if (check.n < BATCH_ROWS)
			continue;
		look_up_batch(&check);
		start_batch(&check);
	}
	mosql_view_scan_end(scan);
	look_up_batch(&check);
	for (int i = 0; i < table->nindexes; i++)
	{
		if (table->indexes[i].broken == NULL &&
			count_entries(&check, &table->indexes[i]) > check.nfound[i])
			find_surplus(&check, &table->indexes[i]);
	}
	mosql_view_close(check.view);
	ExecDropSingleTupleTableSlot(check.slot);
	MemoryContextDelete(check.batch_cxt);
}
