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
#include "utils/guc.h"
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
	MosqlSorter *sorter;		/* at the end: the one at hand */
	MosqlReportDuplicate report;	/* NULL: as of an index that is created */
	void	   *report_arg;
};

/* See definition.h. */
MosqlCompression
mosql_table_compression(Oid relid)
{
	const char *said = mosql_table_or_server_option(relid, "compression");

	if (said == NULL || strcmp(said, "lz4") == 0)
		return MOSQL_COMPRESSION_LZ4;
	return strcmp(said, "zstd") == 0 ? MOSQL_COMPRESSION_ZSTD : MOSQL_COMPRESSION_NONE;
}

/* See definition.h. */
bool
mosql_table_is_together(Oid relid)
{
	const char *said = mosql_table_or_server_option(relid, "placement");

	return said == NULL || strcmp(said, "clock") == 0;
}

/* See definition.h. */
int
mosql_table_pack_after_s(Oid relid)
{
	const char *said = mosql_table_or_server_option(relid, "pack_after");
	int			seconds = MOSQL_PACK_AFTER_S;

	if (mosql_table_compression(relid) == MOSQL_COMPRESSION_NONE || (said != NULL && strcmp(said, MOSQL_PACK_NEVER) == 0))
		return -1;
	if (said != NULL)
		(void) parse_int(said, &seconds, GUC_UNIT_S, NULL);
	return seconds;
}

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

/* See table_int.h. */
void
mosql_fill_report_to(MosqlFill *fill, MosqlReportDuplicate report, void *arg)
{
	fill->report = report;
	fill->report_arg = arg;
}

static void
report_duplicate(void *arg, const MosqlIndex *index, MosqlBytes key)
{
	const MosqlFill *fill = arg;

	if (fill->report != NULL)
		fill->report(fill->report_arg, index, key);
	mosql_table_report_duplicate(fill->rel, fill->table, index,
								 index != NULL && mosql_table_excludes(fill->rel, index), key);
}

/* What is done with the sorted rows (index NULL), and the entries of each index. */
typedef void (*EndSorted) (MosqlFill *fill, MosqlTree *tree, const MosqlIndex *index, void *arg);

static void
end_each(MosqlFill *fill, EndSorted end, void *arg)
{
	for (int i = fill->rows != NULL ? -1 : 0; i < fill->table->nindexes; i++)
	{
		const MosqlIndex *index = i < 0 ? NULL : &fill->table->indexes[i];

		fill->sorter = i < 0 ? fill->rows : fill->entries[i];
		mosql_sorter_sort(fill->sorter);
		end(fill, index ? index->entries->tree : fill->table->tree, index, arg);
		mosql_sorter_end(fill->sorter);
	}
}

/* Equal keys are duplicates: entries that may be equal end with their row's. */
static void
load_sorted(MosqlFill *fill, MosqlTree *tree, const MosqlIndex *index, void *version)
{
	MosqlLoad  *load = mosql_load_begin(fill->table->session, mosql_btree_root(tree),
										*(const MosqlTimestamp *) version,
										mosql_table_compression(RelationGetRelid(fill->rel)),
										mosql_table_is_together(RelationGetRelid(fill->rel)));

	while (mosql_sorter_next_distinct(fill->sorter, report_duplicate, fill, index))
	{
		CHECK_FOR_INTERRUPTS();
		mosql_load_add(load, mosql_sorter_bytes(fill->sorter, MOSQL_SORT_BY),
					   mosql_sorter_bytes(fill->sorter, MOSQL_SORT_COLUMNS));
	}
	mosql_load_end(load);
}

/* See table_int.h. */
void
mosql_fill_end(MosqlFill *fill, MosqlTimestamp version)
{
	end_each(fill, load_sorted, &version);
}

static void
put_sorted(MosqlFill *fill, MosqlTree *tree, const MosqlIndex *index, void *cid)
{
	MosqlTxn   *txn = mosql_txn_current(fill->table->session);

	while (mosql_sorter_next_distinct(fill->sorter, report_duplicate, fill, index))
	{
		CHECK_FOR_INTERRUPTS();
		(void) mosql_txn_insert(txn, tree, mosql_sorter_bytes(fill->sorter, MOSQL_SORT_BY),
								mosql_sorter_bytes(fill->sorter, MOSQL_SORT_COLUMNS),
								*(const CommandId *) cid, MOSQL_KEY_NEW);
	}
}

/* See table_int.h. */
void
mosql_fill_end_in_buffer(MosqlFill *fill, CommandId cid)
{
	end_each(fill, put_sorted, &cid);
}
