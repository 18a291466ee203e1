/*
 * parallel.c: a scan that the leader of a parallel query shares with its workers.
 *
 * Layer: fdw.  The leader draws the statement's snapshot (above READ COMMITTED it is the
 * transaction's), and divides the range of keys by what the inner nodes say.  Pieces are handed
 * out by a counter in shared memory; whoever has taken one, worker or leader, reads it by the
 * ordinary scan of that range of keys.  So each key is read once, at one snapshot, whatever
 * becomes of the leaves meanwhile: that the pieces are of similar size is all that depends on them.
 *
 *     MosqlParallel   who reads, what, at which snapshot; the counter; what workers cost
 *     bounds[n + 1]   where the pieces begin, and the last one ends
 *     bytes           the bounds, and the table's definition
 *
 * A worker works by the definition that the leader works by, so that it reads none.  It connects
 * when it has got its first piece.
 *
 * Alone.  Whether the scan can be shared is asked when the plan is executed, each time: a
 * transaction that has written sees more than what is stored (share.c).  If not, no worker is
 * launched for this Gather, which PostgreSQL does not tell from one that finds no
 * free worker: the leader reads everything, also where parallel_leader_participation is off.
 *
 * The end.  Core ends the leader's node before it waits for workers that are still reading, where
 * not all rows were wanted.  Then the snapshot stays registered until the transaction ends, so that
 * none of them meets a row that was pruned since, and fails a query that is done.
 *
 * A worker that dies, or fails, fails the query: core tells the leader.
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/dsm.h"
#include "storage/spin.h"
#include "utils/memutils.h"

#include "fdw/exec_int.h"

/* More pieces than this are no use to any number of workers. */
#define MAX_PIECES		4096

typedef struct Bound
{
	uint32		at;				/* in the bytes */
	int32		len;			/* -1: there is no end */
} Bound;

struct MosqlParallel
{
	Oid			userid;			/* whose rights and user mapping count */
	uint64		root;			/* of the tree that is read */
	MosqlTimestamp S;
	int			npieces;
	Bound		definition;
	pg_atomic_uint32 next;		/* piece */

	slock_t		lock;			/* of what follows */
	bool		ended;			/* the leader wants no more */
	int			reading;		/* workers */
	MosqlScanCost cost;			/* theirs */

	Bound		bounds[FLEXIBLE_ARRAY_MEMBER];
};

/* ---- in the leader ---- */

/* What Estimate has found, for InitializeDSM. */
struct MosqlDivision
{
	int			npieces;
	MosqlBytes *bounds;			/* [npieces + 1] */
};

/*
 * May other processes take part in what this node does now?  What it needs besides
 * (qualifications, columns) is planned so (mosql_plan_workers()).
 */
static bool
may_share(const MosqlScanState *scan, ForeignScanState *node)
{
	MosqlFdwOptions *options;

	if (scan->locks || scan->system != 0 || scan->single || scan->narms > 0 || scan->backward ||
		scan->tids != MOSQL_TIDS_NONE || (scan->index != NULL && !scan->index_only) ||
		node->ss.ps.state->es_epq_active != NULL ||
		!mosql_view_may_share(scan->view, scan->keys->tree))
		return false;
	options = mosql_fdw_options(RelationGetRelid(scan->rel), InvalidOid, scan->userid);
	return options->max_connections == 0;
}

/* Divide what is to be read; NULL: there is nothing to divide. */
static struct MosqlDivision *
divide(MosqlScanState *scan, ForeignScanState *node)
{
	struct MosqlDivision *division;
	MosqlStats	before;
	const MosqlRange *range;

	mosql_exec_scan_ranges(scan, node->ss.ps.ps_ExprContext);
	if (scan->ranges->n != 1 || scan->ranges->ranges[0].point)
		return NULL;
	range = &scan->ranges->ranges[0];
	before = mosql_stats;
	division = palloc(sizeof(*division));
	division->bounds = palloc((MAX_PIECES + 1) * sizeof(MosqlBytes));
	(void) mosql_view_share(scan->view);
	division->npieces = 1 + mosql_view_divide(scan->view, scan->keys->tree,
											  (MosqlKeyRange) {range->low, range->high},
											  MAX_PIECES - 1, division->bounds + 1);
	division->bounds[0] = range->low;
	division->bounds[division->npieces] = range->high;
	if (scan->costed)
		mosql_cost_add(&scan->cost, &before);
	return division;
}

/* The node reads alone, from the start. */
static void
be_alone(MosqlScanState *scan)
{
	scan->parallel = NULL;
	scan->in_pieces = false;
	scan->ranges = NULL;
	scan->next_range = 0;
}

/*
 * See the callback's documentation.  Also called for a node that has been shared before, when its
 * Gather begins anew.
 */
Size
mosqlEstimateDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt)
{
	MosqlScanState *scan = (MosqlScanState *) node->fdw_state;
	MemoryContext old = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
	struct MosqlDivision *division = NULL;
	Size		size = sizeof(struct MosqlParallel);

	be_alone(scan);
	if (may_share(scan, node))
		division = divide(scan, node);
	if (division != NULL)
	{
		size = add_size(size, mul_size(division->npieces + 1, sizeof(Bound)));
		for (int i = 0; i <= division->npieces; i++)
			size = add_size(size, division->bounds[i].len);
		size = add_size(size, scan->table->definition.len);
	}
	scan->division = division;
	MemoryContextSwitchTo(old);
	return size;
}

/* Bytes into shared memory; returns where the next ones go. */
static char *
put_bytes(struct MosqlParallel *parallel, char *to, MosqlBytes bytes, Bound *bound)
{
	bound->at = (uint32) (to - (char *) parallel);
	bound->len = bytes.data == NULL ? -1 : (int32) bytes.len;
	if (bound->len > 0)
		memcpy(to, bytes.data, bytes.len);
	return to + Max(bound->len, 0);
}

static MosqlBytes
get_bytes(const struct MosqlParallel *parallel, const Bound *bound)
{
	return bound->len < 0 ? MOSQL_ABSENT : mosql_bytes((const char *) parallel + bound->at, bound->len);
}

static void
add_cost(MosqlScanCost *sum, const MosqlScanCost *cost)
{
	int64	   *to = (int64 *) sum;
	const int64 *from = (const int64 *) cost;

	StaticAssertStmt(sizeof(MosqlScanCost) % sizeof(int64) == 0, "counters are int64");
	for (size_t i = 0; i < sizeof(MosqlScanCost) / sizeof(int64); i++)
		to[i] += from[i];
}

/*
 * The segment goes, in the leader: the workers have ended.  Their cost is the node's, which
 * EXPLAIN asks for later.
 */
static void
segment_goes(dsm_segment *segment, Datum arg)
{
	MosqlScanState *scan = (MosqlScanState *) DatumGetPointer(arg);

	add_cost(&scan->cost, &scan->parallel->cost);
	scan->parallel = NULL;
}

static void
begin_pieces(MosqlScanState *scan)
{
	scan->in_pieces = true;
	scan->piece_ranges = (MosqlRanges) {0, &scan->piece, false};
	scan->ranges = &scan->piece_ranges;
	scan->next_range = 0;
}

void
mosqlInitializeDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt, void *coordinate)
{
	MosqlScanState *scan = (MosqlScanState *) node->fdw_state;
	struct MosqlParallel *parallel = coordinate;
	struct MosqlDivision *division = scan->division;
	char	   *to;

	if (division == NULL || pcxt->seg == NULL)
	{
		be_alone(scan);
		pcxt->nworkers_to_launch = 0;
		return;
	}
	memset(parallel, 0, sizeof(*parallel));
	parallel->userid = scan->userid;
	parallel->root = mosql_btree_root(scan->keys->tree);
	parallel->S = mosql_view_snapshot(scan->view);
	parallel->npieces = division->npieces;
	pg_atomic_init_u32(&parallel->next, 0);
	SpinLockInit(&parallel->lock);
	to = (char *) &parallel->bounds[division->npieces + 1];
	for (int i = 0; i <= division->npieces; i++)
		to = put_bytes(parallel, to, division->bounds[i], &parallel->bounds[i]);
	(void) put_bytes(parallel, to, scan->table->definition, &parallel->definition);
	scan->parallel = parallel;
	scan->segment = pcxt->seg;
	on_dsm_detach(pcxt->seg, segment_goes, PointerGetDatum(scan));
	begin_pieces(scan);
}

/*
 * Once more, workers having ended.  By other values it would be another range, for which there is
 * perhaps no room: then the leader goes on alone.
 */
void
mosqlReInitializeDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt, void *coordinate)
{
	MosqlScanState *scan = (MosqlScanState *) node->fdw_state;

	if (scan->parallel != NULL && (scan->nvalues > 0 || !may_share(scan, node)))
	{
		cancel_on_dsm_detach(scan->segment, segment_goes, PointerGetDatum(scan));
		be_alone(scan);
	}
	if (scan->parallel == NULL)
	{
		pcxt->nworkers_to_launch = 0;
		return;
	}
	Assert(scan->parallel == coordinate && scan->parallel->reading == 0);
	pg_atomic_write_u32(&scan->parallel->next, 0);
	begin_pieces(scan);
}

/* See exec_int.h. */
bool
mosql_parallel_rescan(MosqlScanState *scan)
{
	if (!scan->in_pieces)
		return false;
	if (scan->parallel != NULL)
		begin_pieces(scan);		/* the counter is ReInitializeDSM's business */
	else
		be_alone(scan);
	return true;
}

/* ---- in a worker ---- */

/* The rest waits for the first piece: there may be none left. */
void
mosqlInitializeWorkerForeignScan(ForeignScanState *node, shm_toc *toc, void *coordinate)
{
	MosqlScanState *scan = MemoryContextAllocZero(node->ss.ps.state->es_query_cxt,
												  sizeof(MosqlScanState));

	scan->parallel = coordinate;
	scan->of_worker = true;
	node->fdw_state = scan;
}

/* See exec_int.h. */
bool
mosql_parallel_join(ForeignScanState *node)
{
	MosqlScanState *scan = (MosqlScanState *) node->fdw_state;
	struct MosqlParallel *parallel = scan->parallel;
	List	   *private = ((ForeignScan *) node->ss.ps.plan)->fdw_private;
	MosqlStats	before = mosql_stats;
	MosqlSession *session;
	MemoryContext old;
	bool		ended;

	if (scan->joined)
		return true;
	if (pg_atomic_read_u32(&parallel->next) >= (uint32) parallel->npieces)
		return false;
	SpinLockAcquire(&parallel->lock);
	ended = parallel->ended;
	parallel->reading += !ended;
	SpinLockRelease(&parallel->lock);
	if (ended)
		return false;
	scan->joined = true;

	old = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
	scan->rel = node->ss.ss_currentRelation;
	scan->userid = parallel->userid;
	scan->costed = node->ss.ps.state->es_instrument != 0;
	session = mosql_fdw_session_for(RelationGetRelid(scan->rel), scan->userid);
	scan->txn = mosql_txn_join(session, parallel->S);
	scan->table = mosql_table_shared(scan->rel, session, get_bytes(parallel, &parallel->definition),
									 linitial_int((List *) list_nth(private, MOSQL_SCAN_INDEX)));
	mosql_exec_scan_prepare(scan, node);
	if (mosql_btree_root(scan->keys->tree) != parallel->root)
		elog(ERROR, "a parallel worker of mosql_fdw reads another tree than its leader");
	begin_pieces(scan);
	if (scan->costed)
		mosql_cost_add(&scan->cost, &before);
	MemoryContextSwitchTo(old);
	return true;
}

/* ---- in both ---- */

/* See exec_int.h. */
bool
mosql_parallel_next(MosqlScanState *scan)
{
	struct MosqlParallel *parallel = scan->parallel;
	uint32		piece;
	bool		ended;

	if (!scan->in_pieces || parallel == NULL)
		return false;
	SpinLockAcquire(&parallel->lock);
	ended = parallel->ended;
	SpinLockRelease(&parallel->lock);
	if (ended || pg_atomic_read_u32(&parallel->next) >= (uint32) parallel->npieces)
		return false;
	piece = pg_atomic_fetch_add_u32(&parallel->next, 1);
	if (piece >= (uint32) parallel->npieces)
		return false;
	scan->piece.point = false;
	scan->piece.low = get_bytes(parallel, &parallel->bounds[piece]);
	scan->piece.high = get_bytes(parallel, &parallel->bounds[piece + 1]);
	scan->piece_ranges.n = 1;
	scan->next_range = 0;
	return true;
}

static void
end_worker(MosqlScanState *scan)
{
	struct MosqlParallel *parallel = scan->parallel;

	if (!scan->joined)
		return;
	SpinLockAcquire(&parallel->lock);
	add_cost(&parallel->cost, &scan->cost);
	parallel->reading--;
	SpinLockRelease(&parallel->lock);
}

static void
end_leader(MosqlScanState *scan)
{
	struct MosqlParallel *parallel = scan->parallel;
	bool		lingers;

	cancel_on_dsm_detach(scan->segment, segment_goes, PointerGetDatum(scan));
	SpinLockAcquire(&parallel->lock);
	parallel->ended = true;
	lingers = parallel->reading > 0;
	SpinLockRelease(&parallel->lock);
	if (lingers)
		mosql_view_linger(scan->view);
	scan->parallel = NULL;
}

/* See exec_int.h. */
void
mosql_parallel_end(MosqlScanState *scan)
{
	if (scan->parallel == NULL)
		return;
	if (!scan->of_worker)
		end_leader(scan);
	mosql_exec_scan_close(scan);
	if (scan->of_worker)
		end_worker(scan);
	scan->parallel = NULL;
}
