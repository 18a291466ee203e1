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
 *
 * Race -- somebody attaches such a tree again, whose root was not killed yet (mosql_fdw_repair()), and his
 * definition is not committed when we read them.  He takes it off the list, and looks whether its root is alive,
 * while he has the job MOSQL_JOB_GARBAGE; under which maintenance reads the list, and the definitions, and kills the roots
 * (mosql_garbage_begin(), mosql_garbage_kill()).  It destroys without the job, but only what is dead.
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

	/* --- the tree at hand --- */
	MosqlTree  *tree;
	bool		done;
} Collection;

static bool
has_time(void *arg, int nodes)
{
	(void) nodes;
	return mosql_now_us() < ((const Collection *) arg)->until_us;
}

/* A MosqlTreeWork. */
static void
destroy_one(void *arg)
{
	Collection *work = arg;

	work->done = mosql_btree_destroy(work->tree, has_time, work);
}

/* True: it is gone.  One that is damaged stays noted, and keeps nobody from the others. */
static bool
destroy_guarded(Collection *work)
{
	const char *damage;

	work->done = false;
	switch (mosql_session_try_tree_damage(destroy_one, work, &damage))
	{
		case MOSQL_TREE_SOUND:
			return work->done;
		case MOSQL_TREE_GONE:
			return true;
		case MOSQL_TREE_DAMAGED:
			break;
	}
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a tree in namespace \"%s\" that nobody uses any more could not be destroyed",
					work->session->config.ns),
			 errdetail("%s", damage),
			 errhint("Maintenance deletes what is left of it.")));
	return false;
}

/*
 * All roots are killed first, in two round trips, also when there is no time for more: nobody who begins
 * there finds anything, whatever becomes of the others.  What is not gone stays noted.
 */
static void
destroy_noted(void *arg)
{
	Collection *work = arg;
	MosqlSession *session = work->session;
	int			n = session->ngarbage;
	MosqlTree **trees = palloc(n * sizeof(MosqlTree *));
	MosqlKilled *killed = palloc(n * sizeof(MosqlKilled));

	for (int i = 0; i < n; i++)
	{
		trees[i] = mosql_session_tree(session, session->garbage[i]);
		mosql_session_note_dead(session, session->garbage[i]);
	}
	if (n > 1)					/* else destroying it begins so */
		mosql_btree_kill(trees, n, killed);
	for (int i = n - 1; i >= 0; i--)
	{
		work->tree = trees[i];
		if ((n > 1 && killed[i] == MOSQL_KILL_GONE) || destroy_guarded(work))
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
	int64		until = decided_us + (int64) MOSQL_DROP_WAIT_MS * 1000;

	for (int64 now = mosql_now_us(); now < until && !ProcDiePending; now = mosql_now_us())
		pg_usleep((long) Min(until - now, MOSQL_RETRY_MAX_US));
}

/* See txn_int.h. */
int
mosql_txn_dropped(const MosqlTxn *txn, uint64 *roots)
{
	int			n = 0;

	for (const MosqlTreeNote *note = txn->trees; note != NULL; note = note->next)
		if (note->drop)
		{
			if (roots != NULL)
				roots[n] = note->root;
			n++;
		}
	return n;
}

static void
list_dropped(void *arg)
{
	const MosqlTxn *txn = arg;
	uint64	   *roots = palloc(mosql_txn_dropped(txn, NULL) * sizeof(uint64) + 1);
	int			n = mosql_txn_dropped(txn, roots);

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
	if (mosql_txn_dropped(txn, NULL) > 0)
		wait_until_fresh(txn->decided_us);
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

/* Trees whose roots are killed at a time. */
#define KILL_BATCH	64

struct MosqlGarbage
{
	MosqlSession *session;
	uint64		breaks;			/* of connections, before the list was read */
	int			n;
	uint64	   *roots;			/* on the list */
	int			ndead;
	uint64	   *dead;			/* those of them that are to be destroyed: their roots are dead */

	/* --- those to be killed --- */
	int			nleft;
	uint64	   *left;
	MosqlVacuumCounts *counts;

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
	garbage->dead = palloc(garbage->n * sizeof(uint64) + 1);
	garbage->left = palloc(garbage->n * sizeof(uint64) + 1);
	return garbage->n > 0 ? garbage : NULL;
}

/* One that a definition names, or that no session made, is left alone. */
static bool
is_named(uint64 root, const uint64 *named, int n)
{
	return root >> MOSQL_ID_COUNTER_BITS == 0 ||
		bsearch(&root, named, n, sizeof(uint64), mosql_uint64_compare) != NULL;
}

/* The next of those that are left: their roots are killed, and what is gone is on the list no more. */
static void
kill_batch(MosqlGarbage *garbage, const uint64 *roots, int n)
{
	MosqlSession *session = garbage->session;
	MosqlTree  *trees[KILL_BATCH];
	MosqlKilled killed[KILL_BATCH];
	uint64		gone[KILL_BATCH];
	int			ngone = 0;

	for (int i = 0; i < n; i++)
		trees[i] = mosql_btree_open(&session->store.store, roots[i], CurrentMemoryContext);
	mosql_btree_kill(trees, n, killed);
	for (int i = 0; i < n; i++)
	{
		mosql_btree_close(trees[i]);
		if (killed[i] == MOSQL_KILLED)
			garbage->dead[garbage->ndead++] = roots[i];
		else if (killed[i] == MOSQL_KILL_GONE)
			gone[ngone++] = roots[i];
		else
			garbage->counts->damaged++;
	}
	mosql_clock_drop_garbage(&session->stepper, gone, ngone);
	garbage->counts->trees_destroyed += ngone;
}

static void
kill_left(void *arg)
{
	MosqlGarbage *garbage = arg;

	for (int done = 0; done < garbage->nleft; done += KILL_BATCH)
		kill_batch(garbage, garbage->left + done, Min(garbage->nleft - done, KILL_BATCH));
}

static void
take_off_named(void *arg)
{
	MosqlGarbage *garbage = arg;

	mosql_clock_drop_garbage(&garbage->session->stepper, garbage->roots, garbage->n);
}

/*
 * See txn.h.  One that is damaged stays on the list: its root is dead, or damaged, so the sweep sees
 * to what is left of it.  One that a definition names is taken off: the definitions were read after the
 * list, so the commit that dropped it is forgotten; and should that definition be lost, its label keeps it.
 */
void
mosql_garbage_kill(MosqlGarbage *garbage, uint64 *named, int n, MosqlVacuumCounts *counts)
{
	int			nnamed = 0;

	garbage->counts = counts;
	qsort(named, n, sizeof(uint64), mosql_uint64_compare);
	for (int i = 0; i < garbage->n; i++)
		if (is_named(garbage->roots[i], named, n))
			garbage->roots[nnamed++] = garbage->roots[i];
		else
			garbage->left[garbage->nleft++] = garbage->roots[i];
	garbage->n = nnamed;
	if (nnamed > 0)
		mosql_session_do_unbroken(garbage->session, garbage->breaks, take_off_named, garbage);
	mosql_session_do_unbroken(garbage->session, garbage->breaks, kill_left, garbage);
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

/* See txn.h. */
void
mosql_garbage_destroy(MosqlGarbage *garbage, MosqlDestroyMore more, void *arg)
{
	const char *damage;

	garbage->more = more;
	garbage->arg = arg;
	garbage->done = true;
	for (int i = 0; i < garbage->ndead && garbage->done; i++)
	{
		garbage->root = garbage->dead[i];
		MOSQL_DEBUG_POINT("maintain-garbage");
		if (mosql_session_try_tree_damage(destroy_listed_unbroken, garbage, &damage) == MOSQL_TREE_DAMAGED)
		{
			garbage->counts->damaged++;
			garbage->done = true;
		}
		else
			garbage->counts->trees_destroyed += garbage->done;
	}
}
