/*
 * look.c: what only looks, or keeps books: fates of transactions, rows by number, jobs,
 * sizes, lists of who is there.
 */
#include "work_int.h"

#include "step/clock_keep.h"
#include "step/clock_wait.h"
#include "txn/txn_int.h"

/*
 * What became of a transaction whose client was told that nobody knows: the answer is
 * final.  It may commit while it is asked about.
 */
void
look_fate(Client *client)
{
	SimTx	   *tx = oracle_unknown();
	MosqlFate	fate;

	if (tx == NULL || (tx->far && client->far == NULL))
		return;
	fate = mosql_clock_fate(mosql_session_stepper(tx->far ? client->far : client->session), (MosqlTxid) {tx->sid, tx->n});
	sim_trace("tx %d has fate %d", tx->number, fate);
	sim_self->misled = false;	/* an answer is final, whoever gave it */
	if (fate == MOSQL_FATE_COMMITTED || fate == MOSQL_FATE_ABORTED)
		oracle_told(tx, fate == MOSQL_FATE_COMMITTED);
}

/* A row that was read is found again by its handle, and by its number. */
void
look_handle(Client *client, MosqlTree *tree, const MosqlRow *row)
{
	uint64		handle = mosql_txn_handle_put(client->txn, tree, row);
	uint64		number = mosql_txn_number_put(client->txn, tree, row);
	MosqlRow	again;
	MosqlBytes	key;

	if (!mosql_txn_handle_get(client->txn, handle, &again) || again.version != row->version ||
		!mosql_bytes_equal(again.key, row->key))
		sim_fail("tx %d does not find a row by its handle", client->tx->number);
	if (mosql_txn_number_of(client->txn, tree, row->key) != number ||
		!mosql_txn_number_get(client->txn, tree, number, &again) || again.version != row->version ||
		!mosql_bytes_equal(again.key, row->key) ||
		!mosql_txn_number_key(client->txn, tree, number, &key) || !mosql_bytes_equal(key, row->key))
		sim_fail("tx %d does not find a row by its number", client->tx->number);
}

/* ---- for maintenance ---- */

static void
see_node(void *arg, uint64 node, const MosqlNodeMeta *meta, int nentries, int nintents, size_t bytes)
{
	++*(int *) arg;
}

/* While others are at work much is found that passes. */
static void
find_nothing(void *arg, char severity, uint64 node, const char *what)
{
}

static void
check_leaf(void *arg, const MosqlLeaf *leaf)
{
	mosql_txn_check_leaf(arg, leaf, find_nothing, NULL);
}

static void
look_at_tree(MosqlSession *session, uint64 root)
{
	MosqlTree  *tree = mosql_session_tree(session, root);
	double		rows,
				row_bytes,
				nleaves;
	int			levels;
	int			nodes = 0;
	uint64	   *ids;
	MosqlLeaf  *leaves;
	int			n = mosql_btree_leaf_ids(tree, &ids);

	mosql_btree_read_leaves(tree, ids, n, &leaves);
	mosql_btree_estimate(tree, &rows, &row_bytes, &nleaves, &levels);
	mosql_btree_dump(tree, see_node, &nodes);
	mosql_btree_check(tree, find_nothing, check_leaf, session);
	if (n < 1 || nodes < 1 || levels < 1)
		sim_fail("tree %016lx has %d leaves, %d nodes, %d levels", (unsigned long) root, n, nodes, levels);
	mosql_clock_put_size(mosql_session_stepper(session), root, (uint64) n);
}

/* A MosqlTreeWork. */
static void
look_at_fixed_trees(void *arg)
{
	for (int i = 0; i < FIXED_TREES; i++)
		look_at_tree(arg, work_roots[i]);
}

/* By hand, as mosql_fdw_repair() does it: what the session was doing is aborted. */
static void
end_someone(MosqlStepper *clock, uint64 own)
{
	MosqlSessions sessions;
	uint64		sid;

	mosql_clock_sessions(clock, &sessions);
	if (sessions.n == 0)
		return;
	sid = sessions.live[sim_below(sessions.n)];
	if (sid == own)
		return;
	sim_trace("session " UINT64_FORMAT " is ended by hand", sid);
	(void) mosql_clock_end_session(clock, sid);
	(void) mosql_clock_expire(clock, 1000);
}

/* The clock knows the last commit that it has made. */
static void
look_at_decided(MosqlStepper *clock)
{
	MosqlTimestamp before = oracle_moment(TREE_MAIN);
	bool		held_back;
	MosqlTimestamp decided = mosql_clock_decided(clock, &held_back);

	if (decided < Min(before, oracle_moment(TREE_MAIN)))
		sim_fail("the last commit is said to be " UINT64_FORMAT ", and was later", decided);
}

/* A job that one does at a time. */
void
look_around(MosqlSession *session)
{
	MosqlStepper *clock = mosql_session_stepper(session);
	uint64		sid = mosql_session_id(session);
	MosqlSessionState *sessions;
	MosqlTimestamp moment;
	MosqlTimestamp now;
	MosqlClockState state;
	MosqlTreeSize *sizes;
	MosqlWait  *waits;
	MosqlJob   *jobs;
	MosqlJob	other;

	if (!mosql_clock_job_start(clock, "look", sid, mosql_txn_lease_ms, "begins", &other))
		return;					/* somebody else is at it, or our lease is over */
	(void) mosql_session_try_tree(look_at_fixed_trees, session);
	look_at_decided(clock);
	if (sim_chance(100) && !work_stops)
		end_someone(clock, sid);
	(void) mosql_clock_job_note(clock, "look", sid, mosql_txn_lease_ms, "half way");
	(void) mosql_clock_jobs(clock, &jobs);
	(void) mosql_clock_waits(clock, &waits);
	if (sim_chance(200))
		(void) mosql_clock_forget_outcomes(clock, sim_below(4000));
	(void) mosql_clock_list_sessions(clock, &sessions, &now);
	for (int i = mosql_clock_sizes(clock, &sizes) - 1; i >= 0; i--)
		mosql_clock_drop_sizes(clock, &sizes[i].root, 1);
	moment = oracle_moment(TREE_MAIN);
	mosql_clock_read_state(clock, &state);
	if (!state.there || state.last < Min(moment, oracle_moment(TREE_MAIN)))	/* a failover may take back the last commits meanwhile */
		sim_fail("the clock stands at " UINT64_FORMAT ", before the last commit", state.last);
	if (sim_chance(500))
		mosql_clock_job_end(clock, "look", sid, mosql_txn_lease_ms, 0, "done");
	else
		mosql_clock_job_forget(clock, "look", sid);
}
