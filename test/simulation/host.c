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
#include "locks.h"

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
int			LockTimeout = 0;
int			DeadlockTimeout = 1000;
bool		log_lock_waits = false;
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

static pg_on_exit_callback exit_callback;
static Datum exit_arg;

void
before_shmem_exit(pg_on_exit_callback function, Datum arg)
{
	exit_callback = function;
	exit_arg = arg;
}

/*
 * FATAL: no PG_CATCH runs, the transaction is rolled back on the way out, and nobody comes
 * back from here.
 */
static void
exit_process(void)
{
	SimFrontEnd *fe = sim_self;
	Work	   *work = fe->work;

	sim_trace("ends, as it was told");
	if (work->tx != NULL)
		oracle_died(work->tx);	/* as long as its session is there */
	work->tx = NULL;
	InterruptPending = ProcDiePending = QueryCancelPending = false;
	InterruptHoldoffCount = 1;
	proc_exit_inprogress = true;
	PG_exception_stack = NULL;
	if (fe->nest_level > 0)
	{
		MemoryContextSwitchTo(TopTransactionContext);
		end_callback(XACT_EVENT_ABORT, end_arg);
	}
	fe->nest_level = 0;
	MemoryContextSwitchTo(TopMemoryContext);
	if (exit_callback != NULL)
		exit_callback(1, exit_arg);
	fe->finished = true;
	(void) sim_wait(PG_INT64_MAX);
}

/* In place of that of pgstub.c, which knows cancels alone. */
void
ProcessInterrupts(void)
{
	if (InterruptHoldoffCount != 0 || CritSectionCount != 0)
		return;
	if (ProcDiePending)
		exit_process();
	InterruptPending = false;
	if (QueryCancelPending)
	{
		QueryCancelPending = false;
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling statement due to user request")));
	}
}

/* Two sweeps may come by between a decision and the moment when the tree that it drops is dead, or listed. */
static bool
may_be_dropped(const ErrorData *report)
{
	return report->elevel == WARNING && strstr(report->message, "whose definition") != NULL;
}

/*
 * Damage is said of what is whole: whoever says it, aloud or to itself, is wrong, whatever an isolated primary
 * has told him, or a server has forgotten meanwhile.  What is really damaged (damage.c) is so at the end, when all else
 * was looked at.
 */
static void
judge_report(const ErrorData *report)
{
	if (report->sqlerrcode == ERRCODE_DATA_CORRUPTED && !may_be_dropped(report) && !sim_is_torn && !damage_is_done())
		sim_fail("damage is reported, and there is none: %s%s%s", report->message,
				 report->detail != NULL ? ": " : "", report->detail != NULL ? report->detail : "");
}

void
sim_host_start(void)
{
	pgstub_start();
	pgstub_on_report = judge_report;
	MyProcPid = sim_self->number;
	pg_prng_seed(&pg_global_prng_state, sim_random());
	mosql_txn_lease_ms = setting.lease_ms;
	mosql_txn_one_step = sim_self->number % 4 != 0 && (!sim_runs || sim_self->number % 4 == 1);	/* both ways meet */
	mosql_step_messages = sim_self->number % 3 != 0;
	mosql_txn_snapshot_cache_kb = sim_self->number % 5 == 0 ? 0 : sim_self->number % 5 == 1 ? 4 : 1024;
	mosql_txn_signpost_retention_ms = 2 * setting.lease_ms;
	mosql_txn_orphan_retention_s = 2;
	log_lock_waits = sim_self->number % 2 == 0;
	mosql_txn_drop_ms = sim_self->number % 2 == 0 ? 0 : MOSQL_DROP_TIME_MS;
	mosql_txn_init();
}

void
sim_begin(int isolation)
{
	CHECK_FOR_INTERRUPTS();		/* a termination that came too late for the last one */
	XactIsoLevel = isolation;
	sim_self->sent = 0;
	sim_self->began_us = sim_now_us;
	sim_self->misled = false;
	sim_self->local_failed = false;
	started = GetCurrentTimestamp();
	sim_core_begin(true);
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

int			ParallelWorkerNumber = -1;

void
sim_worker_ends(SimFrontEnd *fe)
{
	MemoryContextSwitchTo(TopTransactionContext);
	end_callback(XACT_EVENT_PARALLEL_COMMIT, end_arg);
	MemoryContextReset(TopTransactionContext);
	fe->nest_level = 0;
}

/* Of PostgreSQL's own commit a disk, or memory, may be in want: txn/local.c says what that means. */
static void
fail_locally(SimFrontEnd *fe)
{
	if (!fe->local_fails)
		return;
	fe->local_fails = false;
	fe->local_failed = true;
	sim_trace("PostgreSQL's own commit fails");
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("could not write to the log")));
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
			fail_locally(fe);
		}
		PG_CATCH();
		{
			pgstub_error_take();
			locks_failed(((Work *) fe->work)->tx);
			failed = true;
		}
		PG_END_TRY();
	}
	locks_let_go(((Work *) fe->work)->tx);
	MemoryContextSwitchTo(TopTransactionContext);
	HOLD_INTERRUPTS();
	end_callback(failed ? XACT_EVENT_ABORT : XACT_EVENT_COMMIT, end_arg);
	RESUME_INTERRUPTS();
	MemoryContextReset(TopTransactionContext);
	fe->nest_level = 0;
	return !failed || !commit;
}
