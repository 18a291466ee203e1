/*
 * permit.c: how many sessions of this PostgreSQL server may be connected.
 *
 * Layer: fdw.  Server option max_connections.  A session has at most one
 * connection to each Redis node, so a bound on the sessions that are connected
 * bounds the connections of each node.  A permit is the right to be connected;
 * a pool counts the permits of one list of nodes, for all backends and databases
 * of this PostgreSQL server.
 *
 * Pools are a few hundred bytes of shared memory, made by the first backend that
 * needs them: no shared_preload_libraries, as with contrib/pg_prewarm.  (When
 * preloaded the memory is requested properly.)  Heavyweight locks would do as
 * well, and PostgreSQL would see deadlocks through them, but a waiter has to
 * choose one of N locks and then stands behind its holder, however long that
 * one takes; here all stand in one queue.
 *
 *     take ──> held, in use ──transaction ends──> held, idle ──next one──> in use
 *                     │                               │
 *                     └── give, when somebody waits ──┴──> the longest waiter
 *
 * Fairness.  A permit that is given while somebody waits is handed over
 * (`granted`) and not free: newcomers queue behind.  Race -- a newcomer, or the
 * giver itself, runs while the one that the permit was granted to has not woken
 * up yet: it takes only what was granted after it came (`grants`).
 *
 * Idle holders.  A backend keeps its permit and its connections between
 * transactions, because connecting is dearer than most transactions.  Who
 * waits asks one idle holder to give: by the signal for lagging readers of
 * invalidation messages (catch-up), upon which an idle backend runs an empty
 * transaction, and connection.c looks around at its end.  Race -- an idle
 * holder that becomes idle just now: both sides look under the same lock; either
 * the holder sees the waiter, or the waiter sees that it is idle.
 *
 * Deadlocks.  One who waits for a permit may hold row locks of local tables that
 * a holder waits for: not seen by PostgreSQL, but the wait for a permit ends, with
 * an error, after connect_timeout.
 *
 * Crashes.  A backend gives its permits when it exits; if it is killed PostgreSQL
 * makes its shared memory anew, with all counts at zero.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "utils/wait_event.h"

#include "base/retry.h"
#include "fdw/fdw_int.h"
#include "fdw/shared.h"

/* Lists of nodes that are in use with a bound at the same time: one bit each. */
#define MAX_POOLS	16

/* A waiter looks again, and asks one more idle holder, this often. */
#define LOOK_MS		100

typedef struct Pool
{
	uint64		key;			/* hash of the nodes; meaningless if unused */
	int			max;			/* the bound, as last told */
	int			used;			/* permits held or granted */
	int			waiting;
	int			granted;		/* of these: have a permit and do not know yet */
	uint64		grants;			/* ever made: who came later has no part in them */
	ConditionVariable turn;
} Pool;

typedef struct Permits
{
	LWLock		lock;			/* first: shared.h */
	int			next_asked;		/* where to look for an idle holder: in turn */
	Pool		pools[MAX_POOLS];
	uint16		idle[FLEXIBLE_ARRAY_MEMBER];	/* per backend: pools it idles in */
} Permits;

static Permits *permits = NULL;
static int	held[MAX_POOLS];	/* permits of this backend */
static Pool *waiting_for = NULL;	/* this backend stands in its queue */
static bool exit_registered = false;
static shmem_request_hook_type previous_request_hook = NULL;

/* ---- shared memory ---- */

static Size
permits_size(void)
{
	return offsetof(Permits, idle) + MaxBackends * sizeof(uint16);
}

static void
request_memory(void)
{
	if (previous_request_hook != NULL)
		previous_request_hook();
	RequestAddinShmemSpace(permits_size());
}

/* Called by _PG_init. */
void
mosql_permit_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_memory;
}

static void
init_pools(void *piece)
{
	Permits    *made = piece;

	for (int i = 0; i < MAX_POOLS; i++)
		ConditionVariableInit(&made->pools[i].turn);
}

/* ---- under the lock ---- */

/* The pool of this key, or an unused one; NULL: all are in use. */
static Pool *
find_pool(uint64 key)
{
	Pool	   *unused = NULL;

	for (int i = 0; i < MAX_POOLS; i++)
	{
		Pool	   *pool = &permits->pools[i];

		if (pool->used == 0 && pool->waiting == 0)
			unused = unused ? unused : pool;
		else if (pool->key == key)
			return pool;
	}
	if (unused != NULL)
		unused->key = key;
	return unused;
}

/*
 * A backend that holds a permit of this pool and is idle: its process id, or 0.
 * The next one to ask finds another.
 */
static pid_t
find_idle(int number)
{
	uint16		bit = 1 << number;

	for (int n = 0; n < MaxBackends; n++)
	{
		int			i = permits->next_asked = (permits->next_asked + 1) % MaxBackends;

		if (permits->idle[i] & bit)
		{
			permits->idle[i] &= ~bit;
			return GetPGProcByNumber(i)->pid;
		}
	}
	return 0;
}

/* A permit comes back: to who waits, unless the bound was lowered meanwhile. */
static void
give_back(Pool *pool)
{
	if (pool->waiting > pool->granted && pool->used <= pool->max)
	{
		pool->granted++;
		pool->grants++;
	}
	else
		pool->used--;
}

/* ---- taking ---- */

/*
 * In the queue: take a permit granted since we came, or a free one (the bound was
 * raised).  Else ask an idle holder for its own.
 */
static bool
try_to_take(Pool *pool, int max, uint64 grants_before)
{
	bool		taken = true;
	pid_t		idle = 0;

	LWLockAcquire(&permits->lock, LW_EXCLUSIVE);
	pool->max = max;
	if (pool->granted > 0 && pool->grants > grants_before)
		pool->granted--;
	else if (pool->used < max)
		pool->used++;
	else
		taken = false;
	if (taken)
	{
		pool->waiting--;
		waiting_for = NULL;
	}
	else
		idle = find_idle(pool - permits->pools);
	LWLockRelease(&permits->lock);
	if (idle != 0)
		(void) SendProcSignal(idle, PROCSIG_CATCHUP_INTERRUPT, -1); /* look it up by pid */
	return taken;
}

/*
 * Out of the queue, without a permit.  One granted meanwhile is for whoever waits
 * now.
 */
static void
stop_waiting(void)
{
	Pool	   *pool = waiting_for;

	LWLockAcquire(&permits->lock, LW_EXCLUSIVE);
	pool->waiting--;
	if (pool->granted > pool->waiting)
	{
		pool->granted--;
		pool->used--;
	}
	pool->grants++;
	waiting_for = NULL;
	LWLockRelease(&permits->lock);
	ConditionVariableSignal(&pool->turn);	/* the signal may have been for us */
}

/* As the process ends: everything back, and out of the queue. */
static void
give_all(int code, Datum arg)
{
	(void) code;
	(void) arg;
	if (waiting_for != NULL)	/* FATAL passes no PG_CATCH */
		stop_waiting();
	for (int i = 0; i < MAX_POOLS; i++)
		while (held[i] > 0)
			mosql_permit_give(i);
}

/* False if the time is over.  Throws 57014. */
static bool
wait_for_turn(Pool *pool, int max, uint64 grants_before, int timeout_ms)
{
	MosqlBudget budget = mosql_budget_start(timeout_ms);
	bool		taken = false;

	PG_TRY();
	{
		int			left_ms;

		ConditionVariablePrepareToSleep(&pool->turn);
		while (!(taken = try_to_take(pool, max, grants_before)) &&
			   (left_ms = mosql_budget_left_ms(&budget)) > 0)
			(void) ConditionVariableTimedSleep(&pool->turn, Min(left_ms, LOOK_MS),
											   PG_WAIT_EXTENSION);
	}
	PG_CATCH();
	{
		(void) ConditionVariableCancelSleep();
		stop_waiting();
		PG_RE_THROW();
	}
	PG_END_TRY();
	(void) ConditionVariableCancelSleep();
	if (!taken)
		stop_waiting();
	return taken;
}

int
mosql_permit_take(uint64 key, int max, int timeout_ms)
{
	Pool	   *pool;
	uint64		grants = 0;
	bool		taken = false;
	int			number;

	if (permits == NULL)
		permits = mosql_shared_attach("mosql_fdw permits", permits_size(), init_pools);
	if (!exit_registered)
	{
		on_shmem_exit(give_all, (Datum) 0);
		exit_registered = true;
	}

	LWLockAcquire(&permits->lock, LW_EXCLUSIVE);
	pool = find_pool(key);
	if (pool != NULL && pool->used < max && pool->waiting <= pool->granted)
	{
		pool->max = max;
		pool->used++;
		taken = true;
	}
	else if (pool != NULL)
	{
		pool->waiting++;
		waiting_for = pool;
		grants = pool->grants;
	}
	LWLockRelease(&permits->lock);

	if (pool == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("more than %d lists of Redis nodes are in use with option max_connections",
						MAX_POOLS),
				 errhint("Name the same cluster by the same nodes everywhere.")));
	if (!taken && !wait_for_turn(pool, max, grants, timeout_ms))
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_CONNECTIONS),
				 errmsg("no connection to Redis was free within %d ms", timeout_ms),
				 errdetail("This PostgreSQL server has %d sessions connected, as many as option max_connections allows.",
						   max),
				 errhint("Raise max_connections or connect_timeout, or run fewer clients at a time.")));
	number = pool - permits->pools;
	held[number]++;
	return number;
}

/* ---- holding and giving ---- */

void
mosql_permit_give(int number)
{
	Pool	   *pool = &permits->pools[number];

	Assert(held[number] > 0);
	held[number]--;
	LWLockAcquire(&permits->lock, LW_EXCLUSIVE);
	if (held[number] == 0)
		permits->idle[mosql_shared_my_number()] &= ~(1 << number);
	give_back(pool);
	LWLockRelease(&permits->lock);
	ConditionVariableSignal(&pool->turn);
}

bool
mosql_permit_idle(int number)
{
	Pool	   *pool = &permits->pools[number];
	bool		keep;

	Assert(held[number] > 0);
	LWLockAcquire(&permits->lock, LW_EXCLUSIVE);
	keep = pool->waiting <= pool->granted && pool->used <= pool->max;
	if (keep)
		permits->idle[mosql_shared_my_number()] |= 1 << number;
	LWLockRelease(&permits->lock);
	return keep;
}

void
mosql_permit_use(int number)
{
	Assert(held[number] > 0);
	LWLockAcquire(&permits->lock, LW_EXCLUSIVE);
	permits->idle[mosql_shared_my_number()] &= ~(1 << number);
	LWLockRelease(&permits->lock);
}
