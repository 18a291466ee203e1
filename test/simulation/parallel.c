/*
 * parallel.c: parallel queries: a leader, and workers who read at its snapshot (src/txn/share.c).
 *
 * As src/fdw/parallel.c: the leader divides a tree by its inner nodes, and he and the workers take the pieces, one
 * after the other.  Each row is read once, by one of them, and is as it was at the snapshot.
 */
#include "work_int.h"

#include "access/parallel.h"
#include "access/xact.h"

#include "pgstub.h"

#define PIECES		8
#define WORKERS		2

/* What the processes share; the last one of them frees it. */
typedef struct Shared
{
	int			nprocesses;
	int			tree;
	uint64		root;
	MosqlTimestamp S;
	int			isolation;
	int64		began_us;		/* the leader's transaction, */
	bool		misled;			/* which an isolated primary has answered */
	int			nkeys;			/* between the pieces */
	MosqlBytes	keys[PIECES];
	int			next;			/* piece */
	int			nleft;			/* pieces that are not read */
	bool		stops;			/* somebody has failed */
	bool		seen[KEYS_MAX];
} Shared;

static void
leave(Shared *shared)
{
	if (--shared->nprocesses > 0)
		return;
	for (int i = 0; i < shared->nkeys; i++)
		free((char *) shared->keys[i].data);
	free(shared);
}

static void
read_piece(Shared *shared, MosqlView *view, MosqlTree *tree, int piece)
{
	MosqlBytes	low = piece > 0 ? shared->keys[piece - 1] : mosql_bytes("", 0);
	MosqlBytes	high = piece < shared->nkeys ? shared->keys[piece] : MOSQL_ABSENT;
	MosqlRowScan *scan = mosql_view_scan_begin(view, tree, low, high, false, 0);
	MosqlRow	stored;

	while (mosql_view_scan_next(scan, &stored))
	{
		int			key = work_key_number(shared->tree, stored.key);

		if (shared->seen[key])
			sim_fail("a parallel query reads tree %d key %d twice", shared->tree, key);
		if (!row_equal(work_row(&stored), oracle_stored(shared->tree, key, shared->S)))
			sim_fail("a parallel query reads tree %d key %d at " UINT64_FORMAT ", and it is another one",
					 shared->tree, key, shared->S);
		shared->seen[key] = true;
	}
	mosql_view_scan_end(scan);
	shared->nleft--;
}

static void
read_pieces(Shared *shared, MosqlView *view, MosqlSession *session)
{
	MosqlTree  *tree = mosql_session_tree(session, shared->root);

	while (shared->next <= shared->nkeys && !shared->stops)
		read_piece(shared, view, tree, shared->next++);
}

/* ---- a worker: a process of its own ---- */

static void
work_in_parallel(SimFrontEnd *self)
{
	Shared	   *shared = ((Work *) self->work)->shared;
	MosqlSession *session = ((Work *) self->work)->session = work_session("sim");

	ParallelWorkerNumber = 0;
	sim_begin(shared->isolation);
	self->began_us = shared->began_us;
	self->misled = shared->misled;
	MemoryContextSwitchTo(TopTransactionContext);
	PG_TRY();
	{
		MosqlView  *view = mosql_view_open(mosql_txn_join(session, shared->S), shared, 1, false);

		read_pieces(shared, view, session);
		mosql_view_close(view);
	}
	PG_CATCH();
	{
		pgstub_error_take();
		sim_trace("a worker fails: %s", pgstub_error.message);
		shared->stops = true;
	}
	PG_END_TRY();
	sim_worker_ends(self);
	leave(shared);
	mosql_session_close(session);
}

static void
start_worker(Shared *shared)
{
	Work	   *work = calloc(1, sizeof(Work));

	work->shared = shared;
	shared->nprocesses++;
	(void) sim_front_end(work_in_parallel, work);
}

/* ---- the leader ---- */

static Shared *
share(Client *client, MosqlView *view, int tree)
{
	Shared	   *shared = calloc(1, sizeof(Shared));
	MosqlBytes	keys[PIECES];

	*shared = (Shared)
	{
		.nprocesses = 1, .tree = tree, .root = mosql_btree_root(work_tree(client, tree)), .S = mosql_view_share(view),
		.isolation = XactIsoLevel, .began_us = sim_self->began_us, .misled = sim_self->misled
	};
	shared->nkeys = mosql_view_divide(view, work_tree(client, tree), (MosqlKeyRange) {MOSQL_ABSENT, MOSQL_ABSENT}, PIECES, keys);
	for (int i = 0; i < shared->nkeys; i++)
		shared->keys[i] = mosql_bytes(memcpy(malloc(keys[i].len + 1), keys[i].data, keys[i].len), keys[i].len);
	shared->nleft = shared->nkeys + 1;
	return shared;
}

/* He reads, too, and waits for the others. */
static void
lead(Client *client, MosqlView *view, Shared *shared)
{
	PG_TRY();
	{
		read_pieces(shared, view, client->session);
		while (shared->nleft > 0 && !shared->stops)
			pg_usleep(500);
		if (shared->stops)
			ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE), errmsg("a parallel worker has failed")));
	}
	PG_CATCH();
	{
		shared->stops = true;
		leave(shared);
		PG_RE_THROW();
	}
	PG_END_TRY();
	for (int key = 0; key < work_keys(shared->tree); key++)
		if (!shared->seen[key] && oracle_stored(shared->tree, key, shared->S).live)
			sim_fail("tx %d: a parallel query has not read tree %d key %d at " UINT64_FORMAT, client->tx->number,
					 shared->tree, key, shared->S);
	leave(shared);
}

void
parallel_scan(Client *client)
{
	static const int trees[] = {TREE_MAIN, TREE_PLAIN, TREE_CHILD};
	int			tree = trees[sim_below(lengthof(trees))];
	MosqlView  *view = work_view(client, false);

	(void) mosql_view_snapshot(view);
	if (mosql_view_may_share(view, work_tree(client, tree)))
	{
		Shared	   *shared = share(client, view, tree);

		for (int n = (int) sim_between(1, WORKERS); n > 0; n--)
			start_worker(shared);
		lead(client, view, shared);
		mosql_view_linger(view);
	}
	mosql_view_close(view);
}
