/*
 * session_lock.c: locks that a session holds beyond its transactions.
 *
 * Layer: txn.  They are claims like those of transactions (lock.c), of keys that no row has.
 * While a session has some:
 *
 *   - its transactions' claims have the same owner: so they are not in each other's way, and
 *     whoever looks for deadlocks sees one who waits and holds;
 *   - it keeps its id, whatever its age, when its sockets are closed, too.  The keeper extends the
 *     lease; and who begins a transaction after half a lease in which the clock has not
 *     seen him asks whether it is there still;
 *   - a lock that is lost is told: the next transaction fails, once.  It is lost with the id
 *     (a lease that ran out, a session that somebody ended), or by a Redis node that
 *     forgot it: where a connection broke, the locks are looked for.
 *
 * What an id that is left would take along, when locks of rows could not be taken back, is
 * taken back again (leftovers), before each transaction and while the backend idles, until it
 * is done and no claim that was under way can arrive any more.  So are snapshots, which hold back pruning:
 * nobody waits for the command that gives one back, and a connection that breaks (as is noticed when it is used next) loses it,
 * or a failover what it did.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "code/claim.h"
#include "step/clock_keep.h"
#include "txn/lock_int.h"

/* So long what a broken connection carried may still arrive, and so often it is undone. */
#define LEFTOVER_US			(60 * 1000 * 1000)
#define LEFTOVER_PAUSE_US	(1000 * 1000)

/* Where a server is silent trying takes so long, and a moment more for each table; the pause then is so
 * many times as long. */
#define LEFTOVER_TRY_US		(1000 * 1000)
#define LEFTOVER_EACH_US	(100 * 1000)
#define LEFTOVER_PAUSE_FACTOR	5
#define LEFTOVER_PAUSE_MAX_US	(30 * 1000 * 1000)

/* ---- what is held ---- */

static MosqlSessionLock *
find_lock(const MosqlSession *session, uint64 root, MosqlBytes key)
{
	MosqlSessionLock *lock = session->locks;

	while (lock != NULL && !(lock->root == root && mosql_bytes_equal(lock->key, key)))
		lock = lock->next;
	return lock;
}

static int
strength_of(const MosqlSessionLock *lock)
{
	int			strength = lock != NULL ? MOSQL_UPDATE : 0;

	while (strength > 0 && lock->counts[strength] == 0)
		strength--;
	return strength;
}

int
mosql_session_lock_strength(const MosqlSession *session, uint64 root, MosqlBytes key)
{
	return strength_of(find_lock(session, root, key));
}

static MosqlSessionLock *
make_lock(MosqlSession *session, uint64 root, MosqlBytes key)
{
	MosqlSessionLock *lock = MemoryContextAllocZero(session->cxt, sizeof(MosqlSessionLock));

	lock->root = root;
	lock->key = mosql_bytes_copy(session->cxt, key);
	return lock;
}

static void
free_lock(MosqlSessionLock *lock)
{
	pfree(unconstify(char *, lock->key.data));
	pfree(lock);
}

/* The last lock goes, and with it the reason to keep the id. */
static void
forget_lock(MosqlSession *session, MosqlSessionLock *lock)
{
	MosqlSessionLock **at = &session->locks;

	while (*at != lock)
		at = &(*at)->next;
	*at = lock->next;
	free_lock(lock);
	if (session->txn == NULL)
		mosql_session_unkeep(session);
}

void
mosql_session_unkeep(MosqlSession *session)
{
	if (session->kept_sid == 0 || session->locks != NULL)
		return;
	mosql_txn_keep_hook(session, false);
	session->kept_sid = 0;
}

bool
mosql_session_is_needed(const MosqlSession *session)
{
	return session->txn != NULL || session->locks != NULL;
}

/* ---- locking ---- */

/* Not known to be where it was taken: perhaps a node has forgotten, or what gave it back has failed. */
static bool
is_in_doubt(const MosqlSession *session)
{
	return session->lock_breaks != mosql_redis_breaks(session->redis);
}

/*
 * Give a lock back, down to a strength.  Throws; then it is in doubt whether that was done, so that the next
 * transaction looks for the locks, and this one asks before it relies on them.
 */
static void
lower(MosqlSession *session, MosqlTree *tree, MosqlBytes key, int strength)
{
	uint64		breaks = session->lock_breaks;

	session->lock_breaks = PG_UINT64_MAX;
	mosql_lock_lower(session, tree, key, strength);
	session->lock_breaks = breaks;
}

/* Lock what `made` stands for, if it does; it is freed if that is not had. */
static bool
lock_or_free(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength, LockWaitPolicy policy, MosqlSessionLock *made)
{
	bool		held;

	PG_TRY();
	{
		held = mosql_lock_for_session(txn, tree, key, strength, policy);
	}
	PG_CATCH();
	{
		if (made != NULL)
			free_lock(made);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (!held && made != NULL)
		free_lock(made);
	return held;
}

bool
mosql_session_lock(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength,
				   LockWaitPolicy policy)
{
	MosqlSession *session = txn->session;
	MosqlSessionLock *lock = find_lock(session, mosql_btree_root(tree), key);
	MosqlSessionLock *made = NULL;

	Assert(strength > 0 && strength < MOSQL_SESSION_STRENGTHS);
	if (strength_of(lock) < strength || is_in_doubt(session))
	{
		uint64		breaks = mosql_redis_breaks(session->redis);

		if (lock == NULL)
			lock = made = make_lock(session, mosql_btree_root(tree), key);
		if (!lock_or_free(txn, tree, key, strength, policy, made))
			return false;
		if (session->locks == NULL)
		{
			session->lock_owner = txn->owner;
			session->lock_breaks = breaks;
		}
		if (made != NULL)
		{
			made->next = session->locks;
			session->locks = made;
		}
	}
	lock->counts[strength]++;
	return true;
}

bool
mosql_session_unlock(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength)
{
	MosqlSession *session = txn->session;
	MosqlSessionLock *lock = find_lock(session, mosql_btree_root(tree), key);
	int			before = strength_of(lock);
	int			left;

	if (lock == NULL || lock->counts[strength] == 0)
		return false;
	lock->counts[strength]--;
	left = strength_of(lock);
	lock->counts[strength]++;	/* until it is done */
	if (left < before)
		lower(session, tree, key, Max(left, mosql_txn_strength(txn, tree, key)));
	lock->counts[strength]--;
	if (left == 0)
		forget_lock(session, lock);
	return true;
}

/* All of one session, which may be in a transaction that holds some of them, too. */
static void
unlock_all(MosqlSession *session)
{
	while (session->locks != NULL)
	{
		MosqlSessionLock *lock = session->locks;
		MosqlTree  *tree = mosql_session_tree(session, lock->root);

		lower(session, tree, lock->key,
			  session->txn != NULL ? mosql_txn_strength(session->txn, tree, lock->key) : 0);
		forget_lock(session, lock);
	}
}

void
mosql_sessions_unlock_all(const char *ns)
{
	dlist_iter	iter;

	dlist_foreach(iter, &mosql_sessions)
	{
		MosqlSession *session = dlist_container(MosqlSession, node, iter.cur);

		if (session->locks != NULL && (ns == NULL || strcmp(ns, session->config.ns) == 0))
			unlock_all(session);
	}
}

/* ---- lost? ---- */

void
mosql_session_lose_locks(MosqlSession *session)
{
	while (session->locks != NULL)
	{
		forget_lock(session, session->locks);
		session->locks_lost = true;
	}
	while (session->leftovers != NULL)
	{
		MosqlLeftover *leftover = session->leftovers;

		session->leftovers = leftover->next;
		pfree(leftover);
	}
}

void
mosql_session_report_lost(MosqlSession *session)
{
	if (!session->locks_lost)
		return;
	session->locks_lost = false;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the advisory locks of this session in namespace \"%s\" are lost", session->config.ns),
			 errdetail("Its lease ran out, or somebody ended it, or a Redis node has forgotten them. Others may have locked the same since."),
			 errhint("Lock again.")));
}

bool
mosql_session_has_locks(const MosqlSession *session)
{
	return session->locks != NULL;
}

void
mosql_session_tell_lost(MosqlSession *session)
{
	Assert(session->locks == NULL);
	session->locks_lost = true;
}

/* They are in doubt. */
static bool
are_there(MosqlSession *session)
{
	for (const MosqlSessionLock *lock = session->locks; lock != NULL; lock = lock->next)
	{
		MosqlPoint	point;

		memset(&point, 0, sizeof(point));
		mosql_btree_get(mosql_session_tree(session, lock->root), &lock->key, 1, &point);
		if (point.intent.data == NULL ||
			!mosql_claims_hold(point.intent, mosql_lock_asked_surely(session->lock_owner, strength_of(lock))))
			return false;
	}
	return true;
}

/* Those that are left go with the id.  Throws. */
static void
leave(MosqlSession *session)
{
	mosql_session_drop(session);
	if (!mosql_pending_any(session))
		mosql_clock_close(&session->stepper, session->sid);
	mosql_session_renew(session);
}

void
mosql_session_keep_locks(MosqlSession *session)
{
	uint64		breaks = mosql_redis_breaks(session->redis);

	if (!mosql_session_extend(session))
		mosql_session_renew(session);	/* throws */
	if (is_in_doubt(session))
	{
		if (!are_there(session))
			leave(session);		/* throws */
		session->lock_breaks = breaks;
	}
	if (mosql_session_leftovers_due(session) > 0)
		mosql_session_try_leftovers(session);
}

/* ---- leftovers ---- */

/* Did a connection break since no snapshot was registered?  (Without locks they go with the id, in some minutes.) */
static bool
may_have_snapshots(const MosqlSession *session)
{
	return session->locks != NULL && session->released_breaks != mosql_redis_breaks(session->redis);
}

static void
release_snapshots(void *arg)
{
	MosqlSession *session = arg;
	uint64		breaks = mosql_redis_breaks(session->redis);

	mosql_clock_release_all(&session->stepper, session->sid);
	session->released_breaks = breaks;
}

void
mosql_session_note_leftover(MosqlSession *session, uint64 root, int n,
							MosqlBytes (*key_of) (const void *arg, int i), const void *arg)
{
	size_t		size = sizeof(MosqlLeftover) + n * sizeof(MosqlBytes);
	MosqlLeftover *leftover;
	char	   *at;

	if (session->locks == NULL)
		return;
	for (int i = 0; i < n; i++)
		size += key_of(arg, i).len;
	leftover = MemoryContextAllocExtended(session->cxt, size, MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	if (leftover == NULL)
		return;
	leftover->root = root;
	leftover->since_us = mosql_now_us();
	session->leftovers_due_us = Max(session->leftovers_due_us, leftover->since_us + LEFTOVER_PAUSE_US);
	leftover->n = n;
	leftover->keys = (MosqlBytes *) (leftover + 1);
	at = (char *) (leftover->keys + n);
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	key = key_of(arg, i);

		memcpy(at, key.data, key.len);
		leftover->keys[i] = mosql_bytes(at, key.len);
		at += key.len;
	}
	leftover->next = session->leftovers;
	session->leftovers = leftover;
}

typedef struct LeftoverWork
{
	MosqlSession *session;
	const MosqlLeftover *leftover;
} LeftoverWork;

/* A MosqlTreeWork. */
static void
take_again(void *arg)
{
	const LeftoverWork *work = arg;
	const MosqlLeftover *leftover = work->leftover;
	MosqlTree  *tree = mosql_session_tree(work->session, leftover->root);

	mosql_lock_take_again(work->session, tree, leftover->keys, leftover->n);
}

/* That a tree is gone is no failure. */
static void
try_to_take_again(void *arg)
{
	(void) mosql_session_try_tree(take_again, arg);
}

/* False: a server did not answer. */
static bool
try_until(MosqlSession *session, void (*work) (void *arg), void *arg, int64 until_us)
{
	MemoryContext cxt = AllocSetContextCreate(session->cxt, "mosql leftover", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(cxt);
	int64		before = mosql_redis_hurry(session->redis, until_us);
	bool		done = mosql_do_quietly(work, arg);

	(void) mosql_redis_hurry(session->redis, before);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(cxt);
	return done;
}

void
mosql_session_try_leftovers(MosqlSession *session)
{
	MosqlLeftover **at = &session->leftovers;
	int64		start_us = mosql_now_us();
	int64		pause_us = LEFTOVER_PAUSE_US;

	Assert(session->txn == NULL);
	if (start_us < session->leftovers_due_us)
		return;
	if (may_have_snapshots(session) && !try_until(session, release_snapshots, session, start_us + LEFTOVER_TRY_US))
		pause_us = LEFTOVER_PAUSE_MAX_US;
	while (*at != NULL)
	{
		MosqlLeftover *leftover = *at;
		LeftoverWork work = {session, leftover};
		bool		done = try_until(session, try_to_take_again, &work, Max(start_us + LEFTOVER_TRY_US, mosql_now_us() + LEFTOVER_EACH_US));

		if (!done)
			pause_us = LEFTOVER_PAUSE_MAX_US;
		if (!done || start_us - leftover->since_us <= LEFTOVER_US)
		{
			at = &leftover->next;
			continue;
		}
		*at = leftover->next;
		pfree(leftover);
	}
	session->leftovers_due_us = mosql_now_us() +
		Max(LEFTOVER_PAUSE_US, Min(pause_us, LEFTOVER_PAUSE_FACTOR * (mosql_now_us() - start_us)));
}

int64
mosql_session_leftovers_due(const MosqlSession *session)
{
	return session->leftovers != NULL || may_have_snapshots(session) ? Max(session->leftovers_due_us, 1) : 0;
}
