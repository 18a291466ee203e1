/*
 * host.c: what the operating system and PostgreSQL are to a front-end.
 *
 * Part of the front-end: its variables are exchanged with those of the product.  The
 * rest of PostgreSQL is test/unit/pgstub.c.  Functions of the C library that the
 * product calls are caught by the linker (--wrap, see Makefile).
 */
#include "sim.h"

#include <time.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/timestamp.h"

#include "access/parallel.h"
#include "common/pg_prng.h"
#include "pgstub.h"
#include "txn/local.h"
#include "work.h"

/* ---- time ---- */

extern int	__wrap_clock_gettime(clockid_t id, struct timespec *t);

int
__wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	t->tv_sec = sim_now_us / 1000000;
	t->tv_nsec = sim_now_us % 1000000 * 1000;
	return 0;
}

/* Front-ends' own clocks differ by seconds; nothing may rest on them. */
TimestampTz
GetCurrentTimestamp(void)
{
	return sim_now_us + sim_self->number % 5 * 700000 -
		((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY) * USECS_PER_SEC;
}

void
pg_usleep(long microsec)
{
	if (microsec > 0)
		(void) sim_wait(sim_now_us + microsec);
}

/* ---- transactions ---- */

int			XactIsoLevel = XACT_READ_COMMITTED;
bool		XactReadOnly = false;
bool		proc_exit_inprogress = false;

static TimestampTz started;
static XactCallback end_callback;
static void *end_arg;
static SubXactCallback sub_callback;
static void *sub_arg;

void
RegisterXactCallback(XactCallback callback, void *arg)
{
	end_callback = callback;
	end_arg = arg;
}

void
UnregisterXactCallback(XactCallback callback, void *arg)
{
	end_callback = NULL;
}

void
RegisterSubXactCallback(SubXactCallback callback, void *arg)
{
	sub_callback = callback;
	sub_arg = arg;
}

TimestampTz
GetCurrentTransactionStartTimestamp(void)
{
	return started;
}

int
GetCurrentTransactionNestLevel(void)
{
	return sim_self->nest_level;
}

void
before_shmem_exit(pg_on_exit_callback function, Datum arg)
{
}

void
sim_host_start(void)
{
	pgstub_start();
	MyProcPid = sim_self->number;
	pg_prng_seed(&pg_global_prng_state, sim_random());
	mosql_txn_lease_ms = setting.lease_ms;
	mosql_txn_signpost_retention_ms = 2 * setting.lease_ms;
	mosql_txn_orphan_retention_s = 2;
	mosql_txn_init();
}

void
sim_begin(int isolation)
{
	XactIsoLevel = isolation;
	started = GetCurrentTimestamp();
	sim_self->nest_level = 1;
}

void
sim_savepoint(void)
{
	sim_self->nest_level++;
}

void
sim_end_savepoint(bool commit)
{
	sub_callback(commit ? SUBXACT_EVENT_COMMIT_SUB : SUBXACT_EVENT_ABORT_SUB, 0, 0, sub_arg);
	sim_self->nest_level--;
}

/* Nothing is PostgreSQL's own here: in place of local.c. */
int			ParallelWorkerNumber = -1;

TransactionId
GetTopTransactionIdIfAny(void)
{
	return InvalidTransactionId;
}

void
mosql_local_act(void)
{
}

void
mosql_local_lock(void)
{
}

void
mosql_local_begin(void)
{
}

void
mosql_local_leave(void)
{
}

void
mosql_local_catch(void)
{
}

void
mosql_local_check(void)
{
}

void
mosql_local_hold(void)
{
}

void
mosql_local_resume(void)
{
}

void
mosql_local_decided(void)
{
}

void
mosql_local_others(void)
{
}

void
mosql_local_ends(void)
{
}

void
mosql_local_end(bool committed)
{
}

/* As CommitTransaction() and AbortTransaction(): callbacks after the commit throw nothing. */
bool
sim_transaction(SimFrontEnd *fe, bool commit)
{
	volatile bool failed = !commit;

	while (fe->nest_level > 1)
		sim_end_savepoint(commit);
	if (commit)
	{
		PG_TRY();
		{
			end_callback(XACT_EVENT_PRE_COMMIT, end_arg);
		}
		PG_CATCH();
		{
			pgstub_error_take();
			failed = true;
		}
		PG_END_TRY();
	}
	MemoryContextSwitchTo(TopTransactionContext);
	HOLD_INTERRUPTS();
	end_callback(failed ? XACT_EVENT_ABORT : XACT_EVENT_COMMIT, end_arg);
	RESUME_INTERRUPTS();
	MemoryContextReset(TopTransactionContext);
	fe->nest_level = 0;
	return !failed || !commit;
}
