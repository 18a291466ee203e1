/*
 * sort.c: rows and entries in the order of their keys, on disk where they are many.
 *
 * Layer: table.  Rows often come in order: those that are read in the order of their row ids and get a key
 * which was counted up with them, or come from a file that was dumped in order.  So they are kept as they come,
 * as a *run* of bytes, as long as none is before the last one; beyond the memory that they may
 * take the rest of the run goes to a file.  The first one that is before the last makes
 * PostgreSQL's own sort of the run, and of all that follows.  So order costs a compare and a copy per row, and disorder
 * shows early.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "commands/tablespace.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/buffile.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "table/table_int.h"

/* ---- a run ---- */

#define CHUNK_MIN_BYTES		8192
#define CHUNK_MAX_BYTES		(256 * 1024)

/* Instead of a length. */
#define LENGTH_ABSENT		PG_UINT32_MAX

/* Rows one after the other, each as the lengths of its strings, and then these. */
typedef struct Chunk
{
	struct Chunk *next;
	size_t		size;
	size_t		used;
	char		data[FLEXIBLE_ARRAY_MEMBER];
} Chunk;

typedef struct Run
{
	MemoryContext cxt;
	size_t		limit;
	size_t		bytes;			/* of the chunks in memory, which come first */
	Chunk	   *first;
	Chunk	   *tail;			/* the one that is being filled */
	BufFile    *file;			/* the chunks behind these, as `used` and bytes; NULL: none */
	Chunk	   *through;		/* what is on its way to or from the file; then it is the tail */
	size_t		at;				/* reading: in the first one, or `through` */
	bool		from_file;
} Run;

static Run *
run_begin(int memory_kb)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql run", ALLOCSET_DEFAULT_SIZES);
	Run		   *run = MemoryContextAllocZero(cxt, sizeof(Run));

	run->cxt = cxt;
	run->limit = (size_t) memory_kb * 1024;
	return run;
}

static void
run_end(Run *run)
{
	if (run->file != NULL)
		BufFileClose(run->file);
	MemoryContextDelete(run->cxt);
}

static Chunk *
make_chunk(Run *run, size_t size)
{
	Chunk	   *chunk = MemoryContextAllocHuge(run->cxt, offsetof(Chunk, data) + size);

	chunk->next = NULL;
	chunk->size = size;
	chunk->used = 0;
	return chunk;
}

/* `through` is empty from then on, and has that much room. */
static void
make_room(Run *run, size_t size)
{
	if (run->through == NULL || run->through->size < size)
	{
		if (run->through != NULL)
			pfree(run->through);
		run->through = make_chunk(run, size);
	}
	run->through->used = 0;
}

static void
write_through(Run *run)
{
	BufFileWrite(run->file, &run->through->used, sizeof(size_t));
	BufFileWrite(run->file, run->through->data, run->through->used);
}

static void
begin_file(Run *run)
{
	MemoryContext old = MemoryContextSwitchTo(run->cxt);

	PrepareTempTablespaces();
	run->file = BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
}

/* A tail with room for a row of that size. */
static void
next_tail(Run *run, size_t row)
{
	size_t		size = Max(row, Min(Max(run->bytes, CHUNK_MIN_BYTES), CHUNK_MAX_BYTES));

	if (run->file == NULL && run->bytes + size <= run->limit)
	{
		Chunk	   *chunk = make_chunk(run, size);

		if (run->tail != NULL)
			run->tail->next = chunk;
		else
			run->first = chunk;
		run->tail = chunk;
		run->bytes += size;
		return;
	}
	if (run->file != NULL)
		write_through(run);
	else
		begin_file(run);
	make_room(run, size);
	run->tail = run->through;
}

static void
run_put(Run *run, const MosqlBytes *values)
{
	uint32		lengths[MOSQL_SORT_ATTRIBUTES];
	size_t		size = sizeof(lengths);
	char	   *to;

	for (int i = 0; i < MOSQL_SORT_ATTRIBUTES; i++)
	{
		lengths[i] = values[i].data == NULL ? LENGTH_ABSENT : (uint32) values[i].len;
		size += values[i].data == NULL ? 0 : values[i].len;
	}
	if (run->tail == NULL || run->tail->size - run->tail->used < size)
		next_tail(run, size);
	to = run->tail->data + run->tail->used;
	run->tail->used += size;
	memcpy(to, lengths, sizeof(lengths));
	to += sizeof(lengths);
	for (int i = 0; i < MOSQL_SORT_ATTRIBUTES; i++)
		if (values[i].data != NULL && values[i].len > 0)
		{
			memcpy(to, values[i].data, values[i].len);
			to += values[i].len;
		}
}

/* No more is put; it is read from the beginning. */
static void
run_rewind(Run *run)
{
	if (run->file == NULL)
		return;
	write_through(run);
	if (BufFileSeek(run->file, 0, 0, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind a temporary file")));
}

static void
read_file(Run *run, void *to, size_t size)
{
	if (BufFileRead(run->file, to, size) != size)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read a temporary file")));
}

/* The chunk that is read next; the one before is forgotten.  NULL: there is none. */
static Chunk *
next_chunk(Run *run)
{
	Chunk	   *done = run->first;
	size_t		used;

	run->at = 0;
	if (!run->from_file && done != NULL)
	{
		run->first = done->next;
		pfree(done);
	}
	if (run->first != NULL)
		return run->first;
	run->from_file = run->file != NULL;
	if (!run->from_file)
		return NULL;
	if (BufFileRead(run->file, &used, sizeof(used)) != sizeof(used))
		used = 0;				/* that was all */
	make_room(run, used);
	read_file(run, run->through->data, used);
	run->through->used = used;
	return used > 0 ? run->through : NULL;
}

/* False: that was all.  What it gave is good until the next call. */
static bool
run_next(Run *run, MosqlBytes *values)
{
	Chunk	   *chunk = run->from_file ? run->through : run->first;
	uint32		lengths[MOSQL_SORT_ATTRIBUTES];

	if (chunk == NULL ? run->file != NULL : run->at == chunk->used)
		chunk = next_chunk(run);
	if (chunk == NULL)
		return false;
	memcpy(lengths, chunk->data + run->at, sizeof(lengths));
	run->at += sizeof(lengths);
	for (int i = 0; i < MOSQL_SORT_ATTRIBUTES; i++)
	{
		if (lengths[i] == LENGTH_ABSENT)
		{
			values[i] = MOSQL_ABSENT;
			continue;
		}
		values[i] = mosql_bytes(chunk->data + run->at, lengths[i]);
		run->at += lengths[i];
	}
	return true;
}

/* ---- a sort ---- */

struct MosqlSorter
{
	MemoryContext cxt;			/* in which it was begun */
	int			memory_kb;
	Run		   *run;			/* NULL: some came out of order */
	Tuplesortstate *sort;		/* of those, then */
	TupleTableSlot *slot_put;
	TupleTableSlot *slot_sorted;
	char	   *buffer;			/* values of a row that is put */
	size_t		buffer_size;
	MosqlBytes	row[MOSQL_SORT_ATTRIBUTES]; /* that was taken last */
	StringInfoData last;		/* what the last row that was put, or taken as distinct, is sorted by */
	bool		any;			/* there was one */
};

MosqlSorter *
mosql_sorter_begin(int memory_kb)
{
	MosqlSorter *sorter = palloc0(sizeof(MosqlSorter));

	sorter->cxt = CurrentMemoryContext;
	sorter->memory_kb = memory_kb;
	sorter->run = run_begin(memory_kb);
	initStringInfo(&sorter->last);
	return sorter;
}

void
mosql_sorter_end(MosqlSorter *sorter)
{
	if (sorter->run != NULL)
		run_end(sorter->run);
	else
	{
		ExecDropSingleTupleTableSlot(sorter->slot_put);
		ExecDropSingleTupleTableSlot(sorter->slot_sorted);
		tuplesort_end(sorter->sort);
		pfree(sorter->buffer);
	}
	pfree(sorter->last.data);
	pfree(sorter);
}

static void
begin_sort(MosqlSorter *sorter)
{
	MemoryContext old = MemoryContextSwitchTo(sorter->cxt);
	TupleDesc	desc = CreateTemplateTupleDesc(MOSQL_SORT_ATTRIBUTES);
	AttrNumber	attnum = MOSQL_SORT_BY;
	Oid			less = 1957;	/* bytea < bytea, which has no name in C */
	Oid			collation = InvalidOid;
	bool		nulls_first = false;

	for (int i = 1; i <= MOSQL_SORT_ATTRIBUTES; i++)
		TupleDescInitEntry(desc, i, NULL, BYTEAOID, -1, 0);
	sorter->sort = tuplesort_begin_heap(desc, 1, &attnum, &less, &collation, &nulls_first,
										sorter->memory_kb, NULL, TUPLESORT_NONE);
	sorter->slot_put = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	sorter->slot_sorted = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	sorter->buffer_size = CHUNK_MIN_BYTES;
	sorter->buffer = palloc(sorter->buffer_size);
	MemoryContextSwitchTo(old);
}

/* What is absent becomes null. */
static void
sort_put(MosqlSorter *sorter, const MosqlBytes *values)
{
	TupleTableSlot *slot = sorter->slot_put;
	size_t		size = 0;
	char	   *to;

	for (int i = 0; i < MOSQL_SORT_ATTRIBUTES; i++)
		size += MAXALIGN(VARHDRSZ + values[i].len);
	if (size > sorter->buffer_size)
	{
		sorter->buffer = repalloc_huge(sorter->buffer, size);
		sorter->buffer_size = size;
	}
	ExecClearTuple(slot);
	to = sorter->buffer;
	for (int i = 0; i < MOSQL_SORT_ATTRIBUTES; i++)
	{
		SET_VARSIZE(to, VARHDRSZ + values[i].len);
		if (values[i].len > 0)
			memcpy(VARDATA(to), values[i].data, values[i].len);
		slot->tts_values[i] = PointerGetDatum(to);
		slot->tts_isnull[i] = values[i].data == NULL;
		to += MAXALIGN(VARHDRSZ + values[i].len);
	}
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(sorter->sort, slot);
}

/* A row came out of order. */
static void
leave_run(MosqlSorter *sorter)
{
	Run		   *run = sorter->run;
	MosqlBytes	values[MOSQL_SORT_ATTRIBUTES];

	begin_sort(sorter);
	run_rewind(run);
	while (run_next(run, values))
	{
		CHECK_FOR_INTERRUPTS();
		sort_put(sorter, values);
	}
	sorter->run = NULL;
	run_end(run);
}

static void
remember(MosqlSorter *sorter, MosqlBytes by)
{
	resetStringInfo(&sorter->last);
	appendBinaryStringInfo(&sorter->last, by.data, by.len);
	sorter->any = true;
}

void
mosql_sorter_put(MosqlSorter *sorter, MosqlBytes by, MosqlBytes key, MosqlBytes columns)
{
	const MosqlBytes values[MOSQL_SORT_ATTRIBUTES] = {by, key, columns};

	if (sorter->run != NULL && sorter->any &&
		mosql_bytes_compare(by, mosql_bytes_of(&sorter->last)) < 0)
		leave_run(sorter);
	if (sorter->run == NULL)
	{
		sort_put(sorter, values);
		return;
	}
	run_put(sorter->run, values);
	remember(sorter, by);
}

void
mosql_sorter_sort(MosqlSorter *sorter)
{
	if (sorter->run != NULL)
		run_rewind(sorter->run);
	else
		tuplesort_performsort(sorter->sort);
	sorter->any = false;
}

bool
mosql_sorter_next(MosqlSorter *sorter)
{
	TupleTableSlot *slot = sorter->slot_sorted;

	if (sorter->run != NULL)
		return run_next(sorter->run, sorter->row);
	if (!tuplesort_gettupleslot(sorter->sort, true, false, slot, NULL))
		return false;
	slot_getallattrs(slot);
	for (int i = 0; i < MOSQL_SORT_ATTRIBUTES; i++)
	{
		bytea	   *bytes = slot->tts_isnull[i] ? NULL : DatumGetByteaPP(slot->tts_values[i]);

		sorter->row[i] = bytes ? mosql_bytes(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)) : MOSQL_ABSENT;
	}
	return true;
}

MosqlBytes
mosql_sorter_bytes(const MosqlSorter *sorter, int attnum)
{
	return sorter->row[attnum - 1];
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
	if (sorter->any && mosql_bytes_equal(by, mosql_bytes_of(&sorter->last)))
		report(arg, index, by);
	remember(sorter, by);
	return true;
}
