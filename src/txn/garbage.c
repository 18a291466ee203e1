/*
 * garbage.c: trees that a transaction has given up, and what becomes of them.
 *
 * Layer: txn.  What a committed transaction has dropped, or one that is rolled back has made, nobody comes
 * to by a definition any more.  COMMIT, or ROLLBACK, destroys it for mosql_fdw.drop_time, so that what is
 * small is gone at once; what is left then goes on a list at the clock, and maintenance destroys it
 * at its own pace.  (docs/commit.md, "Dropped trees", rules 39 to 41.)
 *
 * Race -- somebody reads by a definition of before: whoever asks for a row that is not there any more
 * starts from the root, and finds it dead, or gone.  But where leaves stay, who has cached the way to them
 * finds them as they were.  Each statement that reads without a snapshot goes by a schema version that it
 * has asked for a short while ago; so whoever drops trees that are not gone yet waits as long, from
 * the decision on, before its client learns that they are.
 *
 * Race -- the committer dies: its record names the trees until they are destroyed or on the list
 * (pending.c), and who finishes it puts them there (orphans.c).
 *
 * Race -- a server has forgotten the commit, without copies, and a definition names such a tree again.
 * Maintenance reads the list first, then the definitions, and leaves alone what these name; if a connection
 * breaks between, it destroys nothing.  COMMIT itself destroys only if none has broken since it began.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "step/clock_keep.h"
#include "txn/txn_int.h"

int			mosql_txn_drop_ms = MOSQL_DROP_TIME_MS;

/* ---- by whose transaction it was ---- */

typedef struct Collection
{
	MosqlSession *session;
	int64		until_us;
} Collection;

static bool
has_time(void *arg, int nodes)
{
	(void) nodes;
	return mosql_now_us() < ((const Collection *) arg)->until_us;
}

/* Each root is killed, also when there is no time for more.  What is not gone stays noted. */
static void
destroy_noted(void *arg)
{
	Collection *work = arg;
	MosqlSession *session = work->session;

	for (int i = session->ngarbage - 1; i >= 0; i--)
	{
		mosql_session_note_dead(session, session->garbage[i]);
		if (mosql_btree_destroy(mosql_session_tree(session, session->garbage[i]), has_time, work))
			session->garbage[i] = session->garbage[--session->ngarbage];
	}
}

static void
destroy_unbroken(void *arg)
{
	MosqlSession *session = ((Collection *) arg)->session;

	mosql_session_do_unbroken(session, session->garbage_breaks, destroy_noted, arg);
}

static void
put_on_list(void *arg)
{
	MosqlSession *session = arg;

	mosql_clock_put_garbage(&session->stepper, session->garbage, session->ngarbage);
	session->ngarbage = 0;
}

/*
 * While interrupts are held: what is committed cannot be cancelled.  Whose client is gone, or who is
 * terminated, tells nobody anything.
 */
static void
wait_until_fresh(int64 decided_us)
{
	int64		until = decided_us + (int64) MOSQL_SCHEMA_FRESH_MS * 1000;

	for (int64 now = mosql_now_us(); now < until && !ProcDiePending; now = mosql_now_us())
		pg_usleep((long) Min(until - now, MOSQL_RETRY_MAX_US));
}

static void
list_dropped(void *arg)
{
	const MosqlTxn *txn = arg;
	uint64	   *roots;
	int			n = 0;

	for (const MosqlTreeNote *note = txn->trees; note != NULL; note = note->next)
		n += note->drop;
	roots = palloc(n * sizeof(uint64) + 1);
	n = 0;
	for (const MosqlTreeNote *note = txn->trees; note != NULL; note = note->next)
		if (note->drop)
			roots[n++] = note->root;
	if (n > 0)
		mosql_clock_put_garbage(&txn->session->stepper, roots, n);
}

/* See txn_int.h. */
void
mosql_txn_leave_drops(MosqlTxn *txn)
{
	(void) mosql_do_quietly(list_dropped, txn);
}

/* See txn_int.h. */
void
mosql_txn_wait_for_drops(const MosqlTxn *txn)
{
	for (const MosqlTreeNote *note = txn->trees; note != NULL; note = note->next)
		if (note->drop)
		{
			wait_until_fresh(txn->decided_us);
			return;
		}
}

/* See txn_int.h.  If the clock cannot be told, all that is tried again with the next transaction. */
void
mosql_session_end_trees(MosqlSession *session, bool drops, int64 decided_us)
{
	Collection	work = {session, mosql_now_us() + (int64) mosql_txn_drop_ms * 1000};

	if (session->ngarbage == 0)
		return;
	(void) mosql_do_quietly(destroy_unbroken, &work);
	if (session->ngarbage == 0)
		return;
	MOSQL_DEBUG_POINT("garbage-left");
	(void) mosql_do_quietly(put_on_list, session);
	if (drops)
		wait_until_fresh(decided_us);
}

/* ---- by maintenance ---- */

struct MosqlGarbage
{
	MosqlSession *session;
	uint64		breaks;			/* of connections, before the list was read */
	int			n;
	uint64	   *roots;

	/* --- the one at hand --- */
	uint64		root;
	MosqlDestroyMore more;
	void	   *arg;
	bool		done;
};

MosqlGarbage *
mosql_garbage_begin(MosqlSession *session)
{
	MosqlGarbage *garbage = palloc0(sizeof(MosqlGarbage));

	garbage->session = session;
	garbage->breaks = mosql_redis_breaks(session->redis);
	garbage->n = mosql_clock_garbage(&session->stepper, &garbage->roots);
	return garbage->n > 0 ? garbage : NULL;
}

static void
destroy_listed(void *arg)
{
	MosqlGarbage *garbage = arg;
	MosqlTree  *tree = mosql_btree_open(&garbage->session->store.store, garbage->root, CurrentMemoryContext);

	garbage->done = mosql_btree_destroy(tree, garbage->more, garbage->arg);
	mosql_btree_close(tree);
	if (garbage->done)
		mosql_clock_drop_garbage(&garbage->session->stepper, &garbage->root, 1);
}

/* A MosqlTreeWork. */
static void
destroy_listed_unbroken(void *arg)
{
	MosqlGarbage *garbage = arg;

	mosql_session_do_unbroken(garbage->session, garbage->breaks, destroy_listed, arg);
}

static void
take_off_list(void *arg)
{
	MosqlGarbage *garbage = arg;

	mosql_clock_drop_garbage(&garbage->session->stepper, &garbage->root, 1);
}

/*
 * See txn.h.  One that is damaged stays on the list: its root is dead, or damaged, so the sweep sees
 * to what is left of it.  One that a definition names is taken off: the definitions were read after the
 * list, so the commit that dropped it is forgotten; and should that definition be lost, its label keeps it.
 */
void
mosql_garbage_destroy(MosqlGarbage *garbage, const uint64 *named, int n, MosqlDestroyMore more,
					  void *arg, MosqlVacuumCounts *counts)
{
	const char *damage;

	garbage->more = more;
	garbage->arg = arg;
	garbage->done = true;
	for (int i = 0; i < garbage->n && garbage->done; i++)
	{
		bool		is_named = garbage->roots[i] >> MOSQL_ID_COUNTER_BITS == 0;	/* fixed: no session made it */

		for (int j = 0; j < n && !is_named; j++)
			is_named = named[j] == garbage->roots[i];
		garbage->root = garbage->roots[i];
		if (is_named)
		{
			mosql_session_do_unbroken(garbage->session, garbage->breaks, take_off_list, garbage);
			continue;
		}
		MOSQL_DEBUG_POINT("maintain-garbage");
		if (mosql_session_try_tree_damage(destroy_listed_unbroken, garbage, &damage) == MOSQL_TREE_DAMAGED)
		{
			counts->damaged++;
			garbage->done = true;
		}
		else
			counts->trees_destroyed += garbage->done;
	}
}
