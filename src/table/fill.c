/*
 * fill.c: the rows of new trees, for commands that make them and fill them at once.
 *
 * Layer: table.  The trees are this transaction's own, and empty, and nobody knows their roots
 * before the definition that names them is committed.  So what is put into them is
 * sorted, each tree's by its keys, and written as it is (docs/commit.md, "Private trees"):
 * not kept in memory until COMMIT, not bounded by mosql_fdw.max_transaction_size.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "table/table_int.h"

/* The least that a sort gets of maintenance_work_mem. */
#define SORT_MIN_KB		1024

struct MosqlFill
{
	Relation	rel;
	const MosqlTable *table;
	MosqlSorter *rows;			/* NULL: the rows stay where they are */
	MosqlSorter **entries;		/* [nindexes] */
};

/* See table_int.h. */
MosqlFill *
mosql_fill_begin(Relation rel, const MosqlTable *table, bool rows)
{
	MosqlFill  *fill = palloc0(sizeof(MosqlFill));
	int			memory_kb = Max(maintenance_work_mem / (table->nindexes + 1), SORT_MIN_KB);

	Assert(table->nbuilds == 0);
	fill->rel = rel;
	fill->table = table;
	if (rows)
		fill->rows = mosql_sorter_begin(memory_kb);
	fill->entries = palloc0(Max(table->nindexes, 1) * sizeof(MosqlSorter *));
	for (int i = 0; i < table->nindexes; i++)
		fill->entries[i] = mosql_sorter_begin(memory_kb);
	return fill;
}

/* See table_int.h. */
void
mosql_fill_put(MosqlFill *fill, TupleTableSlot *slot, MosqlBytes key, MosqlBytes columns)
{
	if (fill->rows != NULL)
		mosql_sorter_put(fill->rows, key, MOSQL_ABSENT, columns);
	for (int i = 0; i < fill->table->nindexes; i++)
	{
		StringInfoData entry;
		StringInfoData included;

		initStringInfo(&entry);
		initStringInfo(&included);
		if (mosql_index_entry(&fill->table->indexes[i], slot, key, &entry, &included) != MOSQL_ENTRY_NONE)
			mosql_sorter_put(fill->entries[i], mosql_bytes_of(&entry), MOSQL_ABSENT,
							 mosql_bytes_of(&included));
	}
}

/* index: NULL for the rows.  Equal keys are duplicates: other entries end with their row's. */
static void
load_sorted(MosqlFill *fill, MosqlSorter *sorter, MosqlTree *tree, const MosqlIndex *index,
			MosqlTimestamp version)
{
	MosqlLoad  *load;
	StringInfoData last;
	bool		any = false;

	mosql_sorter_sort(sorter);
	load = mosql_load_begin(fill->table->session, mosql_btree_root(tree), version);
	initStringInfo(&last);
	while (mosql_sorter_next(sorter))
	{
		MosqlBytes	key = mosql_sorter_bytes(sorter, MOSQL_SORT_BY);

		CHECK_FOR_INTERRUPTS();
		if (any && mosql_bytes_equal(key, mosql_bytes_of(&last)))
			mosql_table_report_duplicate(fill->rel, fill->table, index, key);
		mosql_load_add(load, key, mosql_sorter_bytes(sorter, MOSQL_SORT_COLUMNS));
		resetStringInfo(&last);
		appendBinaryStringInfo(&last, key.data, key.len);
		any = true;
	}
	mosql_load_end(load);
	mosql_sorter_end(sorter);
}

/* See table_int.h. */
void
mosql_fill_end(MosqlFill *fill, MosqlTimestamp version)
{
	if (fill->rows != NULL)
		load_sorted(fill, fill->rows, fill->table->tree, NULL, version);
	for (int i = 0; i < fill->table->nindexes; i++)
		load_sorted(fill, fill->entries[i], fill->table->indexes[i].entries->tree,
					&fill->table->indexes[i], version);
}
