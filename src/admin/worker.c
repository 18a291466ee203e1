/*
 * worker.c: maintenance in the background.
 *
 * Layer: admin.  Only if mosql_fdw is in shared_preload_libraries.  As with
 * autovacuum there is one launcher, connected to no database, which starts
 * short-lived workers: every mosql_fdw.maintenance_naptime one for each database.
 * A worker ends at once where the extension is not installed, else it makes an
 * automatic pass over each server, as the server's owner.
 *
 * Errors are logged, and end the pass over one server; the next server follows.  A
 * database where something failed is tried again later, and later each time.  The
 * exit code of a worker tells the launcher nothing, so a word in shared memory
 * does.  If a worker crashes, PostgreSQL restarts all processes, the launcher too.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "foreign/foreign.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

#include "admin/maintain.h"
#include "base/retry.h"

/* Databases that are worked on at a time. */
#define MAX_WORKERS			2

/* After failures the naptime doubles, up to so many times. */
#define MAX_BACKOFF			6

/* Seconds after which the launcher is started again. */
#define RESTART_S			5

extern PGDLLEXPORT void mosql_worker_launcher(Datum arg);
extern PGDLLEXPORT void mosql_worker_database(Datum arg);

/* One word per worker under way, in shared memory. */
typedef struct WorkerSlot
{
	bool		succeeded;		/* set by the worker as the last thing it does */
} WorkerSlot;

static WorkerSlot *slots = NULL;
static bool is_worker = false;	/* for a database */
static shmem_request_hook_type next_shmem_request = NULL;
static shmem_startup_hook_type next_shmem_startup = NULL;

/* ---- start-up ---- */

static void
request_memory(void)
{
	if (next_shmem_request != NULL)
		next_shmem_request();
	RequestAddinShmemSpace(MAX_WORKERS * sizeof(WorkerSlot));
}

static void
set_up_memory(void)
{
	bool		found;

	if (next_shmem_startup != NULL)
		next_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	slots = ShmemInitStruct("mosql_fdw workers", MAX_WORKERS * sizeof(WorkerSlot), &found);
	if (!found)
		memset(slots, 0, MAX_WORKERS * sizeof(WorkerSlot));
	LWLockRelease(AddinShmemInitLock);
}

static BackgroundWorker
describe(const char *name, const char *function)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	strlcpy(worker.bgw_library_name, "mosql_fdw", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, function, sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, name, BGW_MAXLEN);
	strlcpy(worker.bgw_type, name, BGW_MAXLEN);
	return worker;
}

void
mosql_worker_init(void)
{
	BackgroundWorker launcher;

	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	next_shmem_request = shmem_request_hook;
	shmem_request_hook = request_memory;
	next_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = set_up_memory;

	launcher = describe("mosql_fdw launcher", "mosql_worker_launcher");
	launcher.bgw_restart_time = RESTART_S;
	RegisterBackgroundWorker(&launcher);
}

/* ---- the launcher ---- */

/* A database, and when it is its turn. */
typedef struct Database
{
	Oid			id;
	bool		there;			/* seen by the last look at pg_database */
	int64		due_us;
	int			failures;		/* in a row */
	int			slot;			/* -1: nobody works on it */
	BackgroundWorkerHandle *handle;
} Database;

static List *databases = NIL;	/* of Database */

static Database *
find_database(Oid id)
{
	ListCell   *lc;
	Database   *database;

	foreach(lc, databases)
	{
		database = lfirst(lc);
		if (database->id == id)
			return database;
	}
	database = MemoryContextAllocZero(TopMemoryContext, sizeof(Database));
	database->id = id;
	database->slot = -1;
	database->due_us = mosql_now_us();
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		databases = lappend(databases, database);
		MemoryContextSwitchTo(old);
	}
	return database;
}

List *
mosql_worker_databases(void)
{
	MemoryContext caller = CurrentMemoryContext;
	List	   *found = NIL;
	Relation	catalog;
	TableScanDesc scan;
	HeapTuple	tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	catalog = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(catalog, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext old = MemoryContextSwitchTo(caller);

		/* a limit of -2 marks one whose DROP was interrupted */
		if (form->datallowconn && !form->datistemplate && form->datconnlimit != -2)
			found = lappend_oid(found, form->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(catalog, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
	return found;
}

/* Which databases are there? */
static void
look_for_databases(void)
{
	List	   *found = mosql_worker_databases();
	ListCell   *lc;

	foreach(lc, databases)
		((Database *) lfirst(lc))->there = false;
	foreach(lc, found)
		find_database(lfirst_oid(lc))->there = true;
	list_free(found);

	foreach(lc, databases)
	{
		Database   *database = lfirst(lc);

		if (database->there || database->slot >= 0)
			continue;
		databases = foreach_delete_current(databases, lc);
		pfree(database);
	}
}

/* Whose workers have ended?  Their databases' next turn. */
static void
collect_workers(void)
{
	ListCell   *lc;

	foreach(lc, databases)
	{
		Database   *database = lfirst(lc);
		pid_t		pid;
		int64		pause_us;

		if (database->slot < 0 ||
			GetBackgroundWorkerPid(database->handle, &pid) != BGWH_STOPPED)
			continue;
		if (slots[database->slot].succeeded)
			database->failures = 0;
		else
			database->failures = Min(database->failures + 1, MAX_BACKOFF);
		pause_us = (int64) mosql_maintain_naptime_s * 1000000 << database->failures;
		database->due_us += pause_us;
		database->due_us = Max(database->due_us, mosql_now_us());
		pfree(database->handle);
		database->slot = -1;
	}
}

static int
free_slot(void)
{
	ListCell   *lc;
	bool		used[MAX_WORKERS] = {false};

	foreach(lc, databases)
	{
		Database   *database = lfirst(lc);

		if (database->slot >= 0)
			used[database->slot] = true;
	}
	for (int i = 0; i < MAX_WORKERS; i++)
		if (!used[i])
			return i;
	return -1;
}

/* A worker for a database; false if PostgreSQL has no room for one. */
static bool
start_worker(Database *database, int slot)
{
	BackgroundWorker worker = describe("mosql_fdw maintenance", "mosql_worker_database");
	MemoryContext old;
	bool		started;

	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = Int32GetDatum(slot);
	memcpy(worker.bgw_extra, &database->id, sizeof(Oid));
	slots[slot].succeeded = false;
	old = MemoryContextSwitchTo(TopMemoryContext);
	started = RegisterDynamicBackgroundWorker(&worker, &database->handle);
	MemoryContextSwitchTo(old);
	if (started)
	{
		database->slot = slot;
		database->due_us = mosql_now_us();
	}
	return started;
}

/* Start workers for databases whose turn it is, those waiting longest first. */
static void
start_workers(void)
{
	static bool complained = false;
	int			slot;

	while ((slot = free_slot()) >= 0)
	{
		Database   *next = NULL;
		ListCell   *lc;

		foreach(lc, databases)
		{
			Database   *database = lfirst(lc);

			if (database->there && database->slot < 0 && database->due_us <= mosql_now_us() &&
				(next == NULL || database->due_us < next->due_us))
				next = database;
		}
		if (next == NULL)
			return;
		if (!start_worker(next, slot))
		{
			if (!complained)
				ereport(LOG,
						(errmsg("mosql_fdw could not start a worker for maintenance"),
						 errhint("Raise max_worker_processes.")));
			complained = true;
			return;
		}
		complained = false;
	}
}

/*
 * It wakes up when a worker starts or ends, and once a second to see whose turn it
 * is; PostgreSQL's own launcher does as much.
 */
void
mosql_worker_launcher(Datum arg)
{
	int64		looked_us = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	while (!ShutdownRequestPending)
	{
		int64		now = mosql_now_us();

		collect_workers();
		if (mosql_maintain_on)
		{
			if (looked_us == 0 || now - looked_us >= (int64) mosql_maintain_naptime_s * 1000000)
			{
				look_for_databases();
				looked_us = now;
			}
			start_workers();
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 mosql_maintain_on ? 1000 : 60000, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
	proc_exit(1);				/* 0 would mean: never again */
}

/* ---- a worker ---- */

static void
say_which_server(void *arg)
{
	errcontext("maintenance of server \"%s\"", (const char *) arg);
}

List *
mosql_worker_servers(void)
{
	MemoryContext caller = CurrentMemoryContext;
	List	   *servers = NIL;
	ListCell   *lc;

	StartTransactionCommand();
	if (OidIsValid(get_extension_oid("mosql_fdw", true)))
		foreach(lc, mosql_maintain_servers())
		{
			MemoryContext old = MemoryContextSwitchTo(caller);

			servers = lappend(servers, GetForeignServer(lfirst_oid(lc)));
			MemoryContextSwitchTo(old);
		}
	CommitTransactionCommand();
	MemoryContextSwitchTo(caller);
	return servers;
}

/*
 * Who waits for all sessions of a database to end holds a lock on it that nobody who starts one can have.  He
 * waits for five seconds.
 */
void
mosql_worker_give_way(void)
{
	LOCKTAG		tag;

	if (!is_worker)
		return;
	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (LockAcquire(&tag, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("maintenance gives way to a command that needs database \"%s\" without sessions",
						get_database_name(MyDatabaseId))));
	(void) LockRelease(&tag, RowExclusiveLock, false);
}

/* A pass, then statistics, each in a transaction of its own. */
static void
maintain(const ForeignServer *server)
{
	MosqlPassResult result;

	pgstat_report_activity(STATE_RUNNING, psprintf("maintenance of server %s", server->servername));
	StartTransactionCommand();
	mosql_worker_give_way();
	mosql_maintain_pass(server->serverid, mosql_fdw_session(server->serverid, server->owner), true, &result);
	CommitTransactionCommand();

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	result.analyzed = mosql_maintain_statistics(server->serverid,
												mosql_fdw_session(server->serverid,
																  server->owner));
	PopActiveSnapshot();
	CommitTransactionCommand();
	elog(DEBUG1, "maintenance of server \"%s\": %s, %.3f s", server->servername,
		 mosql_pass_outcome_name(result.outcome), result.seconds);
}

/* The same; false, with the error logged, if it failed. */
static bool
try_maintain(const ForeignServer *server)
{
	MemoryContext caller = CurrentMemoryContext;
	ErrorContextCallback context = {error_context_stack, say_which_server, server->servername};
	volatile bool done = false;

	error_context_stack = &context;
	PG_TRY();
	{
		maintain(server);
		done = true;
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		EmitErrorReport();
		AbortCurrentTransaction();
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	error_context_stack = context.previous;
	return done;
}

/*
 * A transaction's snapshot would hide tables and keep old rows: pass.c.  Nor is a pass to end for what clients are
 * given, as in autovacuum.
 */
static void
set_defaults(void)
{
	SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_read_only", "off", PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("lock_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
#if PG_VERSION_NUM >= 170000
	SetConfigOption("transaction_timeout", "0", PGC_SUSET, PGC_S_OVERRIDE);
#endif
}

void
mosql_worker_database(Datum arg)
{
	int			slot = DatumGetInt32(arg);
	Oid			database;
	bool		done = true;
	List	   *servers;
	ListCell   *lc;

	memcpy(&database, MyBgworkerEntry->bgw_extra, sizeof(Oid));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	is_worker = true;
	set_defaults();

	MemoryContextSwitchTo(AllocSetContextCreate(TopMemoryContext, "mosql worker",
												ALLOCSET_DEFAULT_SIZES));
	servers = mosql_worker_servers();
	foreach(lc, servers)
	{
		CHECK_FOR_INTERRUPTS();
		done &= try_maintain(lfirst(lc));
	}
	pgstat_report_activity(STATE_IDLE, NULL);
	slots[slot].succeeded = done;
	proc_exit(0);
}
