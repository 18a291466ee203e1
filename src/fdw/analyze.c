/*
 * analyze.c: ANALYZE: rows from random leaves.
 *
 * Layer: fdw.  The inner nodes list all leaves; some of them, picked at random,
 * are read in batches, and their rows go through a reservoir.  Rows of one leaf
 * are neighbours, so that more rows are read than kept.  The sample is of the
 * newest committed versions; intents are left alone: statistics need no
 * snapshot.
 *
 * What this transaction wrote is in no leaf yet.  If it has changed the table, and so many leaves
 * would be read anyway, all rows are, as the transaction sees them.
 */
#include "postgres.h"

#include <limits.h>
#include <math.h>

#include "access/htup_details.h"
#include "commands/vacuum.h"
#include "common/pg_prng.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "code/row.h"
#include "fdw/fdw_int.h"

/* Leaves read at least, where there are so many: some 80 000 rows. */
#define ANALYZE_MIN_LEAVES		1000

/* Leaves per round trip. */
#define ANALYZE_BATCH_LEAVES	64

typedef struct Sample
{
	const MosqlTable *table;
	TupleDesc	desc;
	HeapTuple  *rows;
	int			target;
	int			nrows;
	double		seen;			/* live rows so far */
	Datum	   *values;
	bool	   *nulls;
	MemoryContext row_cxt;
	MemoryContext caller;		/* of the rows */
} Sample;

/* Whose place in the reservoir the next row takes; -1: nobody's (algorithm R). */
static int
choose_place(Sample *sample)
{
	double		place;

	sample->seen += 1;
	if (sample->nrows < sample->target)
		return sample->nrows++;
	place = pg_prng_double(&pg_global_prng_state) * sample->seen;
	if (place >= sample->target)
		return -1;
	heap_freetuple(sample->rows[(int) place]);
	return (int) place;
}

/* MosqlTableVisit */
static bool
sample_row(const MosqlRow *row, TupleTableSlot *slot, void *arg)
{
	Sample	   *sample = arg;
	int			place = choose_place(sample);
	MemoryContext old;

	if (place < 0)
		return true;
	old = MemoryContextSwitchTo(sample->caller);
	sample->rows[place] = heap_form_tuple(sample->desc, slot->tts_values, slot->tts_isnull);
	MemoryContextSwitchTo(old);
	return true;
}

static void
sample_leaf(Sample *sample, const MosqlLeaf *leaf)
{
	for (int i = 0; i < leaf->n; i++)
	{
		const MosqlEntry *entry = &leaf->entries[i];
		MosqlVersion version;
		MemoryContext old;
		int			place;

		if (entry->row.data == NULL ||
			mosql_row_visible(entry->row, leaf->purged, MOSQL_TS_MAX, &version) != MOSQL_VISIBLE_LIVE)
			continue;
		place = choose_place(sample);
		if (place < 0)
			continue;

		MemoryContextReset(sample->row_cxt);
		old = MemoryContextSwitchTo(sample->row_cxt);
		mosql_table_get_row(sample->table, entry->key, version.columns, NULL,
							sample->values, sample->nulls);
		MemoryContextSwitchTo(old);
		sample->rows[place] = heap_form_tuple(sample->desc, sample->values, sample->nulls);
	}
}

/* Move a random choice of n leaves to the front. */
static void
shuffle(uint64 *ids, int nleaves, int n)
{
	for (int i = 0; i < n && i < nleaves - 1; i++)
	{
		int			j = i + (int) (pg_prng_double(&pg_global_prng_state) * (nleaves - i));
		uint64		id = ids[i];

		ids[i] = ids[j];
		ids[j] = id;
	}
}

static void
sample_leaves(Sample *sample, uint64 *ids, int nleaves, int n)
{
	MemoryContext batch_cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql analyze batch",
													ALLOCSET_DEFAULT_SIZES);

	shuffle(ids, nleaves, n);
	for (int i = 0; i < n; i += ANALYZE_BATCH_LEAVES)
	{
		int			count = Min(ANALYZE_BATCH_LEAVES, n - i);
		MosqlLeaf  *leaves;
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(batch_cxt);
		old = MemoryContextSwitchTo(batch_cxt);
		mosql_btree_read_leaves(sample->table->tree, ids + i, count, &leaves);
		MemoryContextSwitchTo(old);
		for (int j = 0; j < count; j++)
			sample_leaf(sample, &leaves[j]);
	}
	MemoryContextDelete(batch_cxt);
}

/*
 * Round trips: the levels of the tree, and one per ANALYZE_BATCH_LEAVES leaves; after own
 * changes of the table as for a scan of it.  Row versions are no dead rows in PostgreSQL's sense.
 */
static int
acquire_sample(Relation rel, int elevel, HeapTuple *rows, int target, double *total,
			   double *dead)
{
	MosqlSession *session = mosql_fdw_session_for(RelationGetRelid(rel), rel->rd_rel->relowner);
	MosqlTable *table = mosql_table_open(rel, session);
	uint64	   *ids;
	int			nleaves = mosql_btree_leaf_ids(table->tree, &ids);
	int			n = Min(nleaves, Max(ANALYZE_MIN_LEAVES, target / 20));
	Sample		sample = {0};

	sample.table = table;
	sample.desc = RelationGetDescr(rel);
	sample.rows = rows;
	sample.target = target;
	sample.values = palloc(sizeof(Datum) * sample.desc->natts);
	sample.nulls = palloc(sizeof(bool) * sample.desc->natts);
	sample.row_cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql analyze row",
										   ALLOCSET_DEFAULT_SIZES);

	sample.caller = CurrentMemoryContext;
	if (n == nleaves && mosql_txn_has_changed(session, mosql_btree_root(table->tree)))
		mosql_table_visit(rel, session, NULL, false, sample_row, &sample);
	else
		sample_leaves(&sample, ids, nleaves, n);
	MemoryContextDelete(sample.row_cxt);

	*total = n > 0 ? rint(sample.seen * nleaves / n) : 0;
	*dead = 0;
	ereport(elevel,
			(errmsg("\"%s\": read %d of %d leaves, containing %.0f rows; %d rows in sample, %.0f estimated total rows",
					RelationGetRelationName(rel), n, nleaves, sample.seen, sample.nrows, *total)));
	return sample.nrows;
}

/*
 * pages: leaves, at least one; counted, so that maintenance can tell by them
 * whether the table has grown since.
 */
bool
mosqlAnalyzeForeignTable(Relation rel, AcquireSampleRowsFunc *func, BlockNumber *pages)
{
	MosqlSession *session = mosql_fdw_session_for(RelationGetRelid(rel), rel->rd_rel->relowner);
	MosqlTable *table = mosql_table_open(rel, session);
	uint64	   *ids;
	int			leaves = mosql_btree_leaf_ids(table->tree, &ids);

	pfree(ids);
	*pages = (BlockNumber) Max(leaves, 1);
	*func = acquire_sample;
	return true;
}
