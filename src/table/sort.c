/*
 * sort.c: rows and entries in the order of their keys, on disk where they are many.
 *
 * Layer: table.  PostgreSQL's own sort, over strings of bytes.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "utils/tuplesort.h"

#include "table/table_int.h"

struct MosqlSorter
{
	Tuplesortstate *sort;
	TupleTableSlot *put;
	TupleTableSlot *sorted;
	StringInfoData last;		/* of mosql_sorter_next_distinct(); empty: none yet */
};

MosqlSorter *
mosql_sorter_begin(int memory_kb)
{
	MosqlSorter *sorter = palloc(sizeof(MosqlSorter));
	TupleDesc	desc = CreateTemplateTupleDesc(MOSQL_SORT_ATTRIBUTES);
	AttrNumber	attnum = MOSQL_SORT_BY;
	Oid			less = 1957;	/* bytea < bytea, which has no name in C */
	Oid			collation = InvalidOid;
	bool		nulls_first = false;

	for (int i = 1; i <= MOSQL_SORT_ATTRIBUTES; i++)
		TupleDescInitEntry(desc, i, NULL, BYTEAOID, -1, 0);
	sorter->sort = tuplesort_begin_heap(desc, 1, &attnum, &less, &collation, &nulls_first,
										memory_kb, NULL, TUPLESORT_NONE);
	sorter->put = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	sorter->sorted = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	initStringInfo(&sorter->last);
	return sorter;
}

void
mosql_sorter_end(MosqlSorter *sorter)
{
	ExecDropSingleTupleTableSlot(sorter->put);
	ExecDropSingleTupleTableSlot(sorter->sorted);
	tuplesort_end(sorter->sort);
	pfree(sorter->last.data);
	pfree(sorter);
}

/* What is absent becomes null. */
void
mosql_sorter_put(MosqlSorter *sorter, MosqlBytes by, MosqlBytes key, MosqlBytes columns)
{
	const MosqlBytes values[MOSQL_SORT_ATTRIBUTES] = {by, key, columns};
	TupleTableSlot *slot = sorter->put;

	ExecClearTuple(slot);
	for (int i = 0; i < MOSQL_SORT_ATTRIBUTES; i++)
	{
		bytea	   *value = palloc(VARHDRSZ + values[i].len);

		SET_VARSIZE(value, VARHDRSZ + values[i].len);
		if (values[i].len > 0)
			memcpy(VARDATA(value), values[i].data, values[i].len);
		slot->tts_values[i] = PointerGetDatum(value);
		slot->tts_isnull[i] = values[i].data == NULL;
	}
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(sorter->sort, slot);
}

void
mosql_sorter_sort(MosqlSorter *sorter)
{
	tuplesort_performsort(sorter->sort);
}

bool
mosql_sorter_next(MosqlSorter *sorter)
{
	return tuplesort_gettupleslot(sorter->sort, true, false, sorter->sorted, NULL);
}

MosqlBytes
mosql_sorter_bytes(const MosqlSorter *sorter, int attnum)
{
	bool		isnull;
	Datum		value = slot_getattr(sorter->sorted, attnum, &isnull);
	bytea	   *bytes = isnull ? NULL : DatumGetByteaPP(value);

	return bytes ? mosql_bytes(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)) : MOSQL_ABSENT;
}

/* See table_int.h. */
bool
mosql_sorter_next_distinct(MosqlSorter *sorter, MosqlReportDuplicate report, void *arg,
						   const MosqlIndex *index)
{
	MosqlBytes	by;

	if (!mosql_sorter_next(sorter))
		return false;
	by = mosql_sorter_bytes(sorter, MOSQL_SORT_BY);
	if (sorter->last.len > 0 && mosql_bytes_equal(by, mosql_bytes_of(&sorter->last)))
		report(arg, index, by);
	resetStringInfo(&sorter->last);
	appendBinaryStringInfo(&sorter->last, by.data, by.len);
	return true;
}
