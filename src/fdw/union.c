/*
 * union.c: a scan for an OR: what any of its arms finds.
 *
 * Layer: fdw, executor side.  Each arm bounds some key: the table's own or an index's
 * (path.c).  If it is the same one for all arms, their ranges together are the ranges
 * of the scan.  Else the entries that the indexes' arms find are read first, at the
 * node's snapshot; the keys of their rows are points of the table's own key, and are
 * united with the ranges of arms on that.  So a row comes once, in the order of the
 * key, however many arms find it, and rows are read in batches.
 *
 * The condition is evaluated again for each row.  That is what allows to give up: if the
 * keys take more than work_mem, the whole table is read.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "fdw/exec_int.h"

/* Keys of rows, from entries of one arm. */
typedef struct Keys
{
	MosqlRanges ranges;			/* points */
	int			max;
	Size	   *bytes;			/* that the keys of all arms take */
} Keys;

void
mosql_union_init(MosqlScanState *scan, List *arms)
{
	ListCell   *lc;

	if (arms == NIL)
		return;
	scan->arms = palloc0(list_length(arms) * sizeof(MosqlScanArm));
	foreach(lc, arms)
	{
		MosqlScanArm *arm = &scan->arms[scan->narms++];
		List	   *index = linitial((List *) lfirst(lc));

		arm->keys = scan->table;
		if (linitial_int(index) != 0)
		{
			arm->index = mosql_exec_index_of(scan->table, index);
			arm->keys = arm->index->entries;
		}
		arm->nconds = mosql_conds_decode(lsecond((List *) lfirst(lc)), &arm->conds);
		for (int i = 0; i < arm->nconds; i++)
			arm->nvalues += arm->conds[i].ncolumns;
	}
}

/* False: they take too much memory. */
static bool
add_key(Keys *keys, MosqlBytes key)
{
	MosqlBytes	copy = mosql_bytes_copy(CurrentMemoryContext, key);
	MosqlBytes	high;
	char	   *after = palloc(key.len + 1);

	memcpy(after, key.data, key.len);
	after[key.len] = '\0';
	high = mosql_bytes(after, key.len + 1);
	if (keys->ranges.n == keys->max)
	{
		keys->max = Max(64, keys->max * 2);
		keys->ranges.ranges = keys->ranges.ranges == NULL
			? palloc(keys->max * sizeof(MosqlRange))
			: repalloc_huge(keys->ranges.ranges, keys->max * sizeof(MosqlRange));
	}
	keys->ranges.ranges[keys->ranges.n++] = (MosqlRange) {.point = true,.low = copy,.high = high};
	*keys->bytes += sizeof(MosqlRange) + GetMemoryChunkSpace(after) +
		GetMemoryChunkSpace(unconstify(char *, copy.data));
	return *keys->bytes <= (Size) work_mem * 1024;
}

/* The entries of points i .. i + n - 1. */
static bool
add_points(MosqlScanState *scan, const MosqlScanArm *arm, const MosqlRange *ranges, int n,
		   MemoryContext work, Keys *keys)
{
	MemoryContext old = MemoryContextSwitchTo(work);
	MosqlBytes *wanted = palloc(n * sizeof(MosqlBytes));
	MosqlRow   *entries = palloc0(n * sizeof(MosqlRow));
	bool		fits = true;

	for (int i = 0; i < n; i++)
		wanted[i] = ranges[i].low;
	mosql_view_get(scan->view, arm->keys->tree, wanted, n, entries);
	MemoryContextSwitchTo(old);
	for (int i = 0; i < n && fits; i++)
		if (entries[i].found)
			fits = add_key(keys, mosql_index_row_key(arm->index, &entries[i]));
	return fits;
}

/* ... of n ranges. */
static bool
add_ranges(MosqlScanState *scan, const MosqlScanArm *arm, const MosqlRange *ranges, int n,
		   MemoryContext work, Keys *keys)
{
	MemoryContext old = MemoryContextSwitchTo(work);
	MosqlKeyRange *wanted = palloc(n * sizeof(MosqlKeyRange));
	MosqlRowScan *rows;
	MosqlRow	entry;
	bool		fits = true;

	for (int i = 0; i < n; i++)
		wanted[i] = (MosqlKeyRange) {ranges[i].low, ranges[i].high};
	rows = mosql_view_scan_begin_ranges(scan->view, arm->keys->tree, wanted, n, false, 0);
	MemoryContextSwitchTo(old);
	while (fits && mosql_view_scan_next(rows, &entry))
	{
		CHECK_FOR_INTERRUPTS();
		fits = add_key(keys, mosql_index_row_key(arm->index, &entry));
	}
	mosql_view_scan_end(rows);
	return fits;
}

/* The keys of the rows that an index's arm finds, as points; false if it is too many. */
static bool
read_arm(MosqlScanState *scan, const MosqlScanArm *arm, const MosqlRanges *ranges, Keys *keys)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "mosql union",
											   ALLOCSET_DEFAULT_SIZES);
	bool		fits = true;
	int			n;

	for (int i = 0; i < ranges->n && fits; i += n)
	{
		const MosqlRange *first = &ranges->ranges[i];

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(work);
		n = 1;
		while (i + n < ranges->n && first[n].point == first->point &&
			   !(first->point && n == MOSQL_POINTS_PER_READ))
			n++;
		fits = first->point ? add_points(scan, arm, first, n, work, keys)
			: add_ranges(scan, arm, first, n, work, keys);
	}
	MemoryContextDelete(work);
	return fits;
}

static MosqlRanges *
everything(void)
{
	MosqlRanges *all = palloc0(sizeof(MosqlRanges));

	all->n = 1;
	all->ranges = palloc0(sizeof(MosqlRange));
	all->ranges[0].low = mosql_bytes("", 0);
	all->ranges[0].high = MOSQL_ABSENT;
	return all;
}

MosqlRanges *
mosql_union_ranges(MosqlScanState *scan)
{
	MosqlRanges **sets = palloc(scan->narms * sizeof(MosqlRanges *));
	Keys	   *keys = palloc0(scan->narms * sizeof(Keys));
	Size		bytes = 0;
	int			at = 0;			/* first value of the arm */

	for (int i = 0; i < scan->narms; i++)
	{
		const MosqlScanArm *arm = &scan->arms[i];

		sets[i] = mosql_ranges_build(arm->keys, arm->conds, arm->nconds, scan->values + at,
									 scan->nulls + at, scan->types + at);
		at += arm->nvalues;
		if (arm->keys == scan->keys)
			continue;
		keys[i].ranges.all_points = true;
		keys[i].bytes = &bytes;
		if (!read_arm(scan, arm, sets[i], &keys[i]))
			return everything();
		sets[i] = &keys[i].ranges;
	}
	return mosql_ranges_union(sets, scan->narms);
}
