/*
 * keeper.c: leases of sessions whose transactions wait for their clients, and the end of
 * sessions whose processes are gone.
 *
 * Layer: admin.  fdw/keep.c has what backends note for it, who starts it, and how a session is
 * known to be of this PostgreSQL server.
 *
 * There is one keeper, connected to no database, so that it is in nobody's way.  Each second
 * it looks at what is noted, in shared memory; nothing else happens where nothing is noted
 * for long.  It starts a worker for a database in which a session has been noted for a
 * quarter of its lease, or where processes have ended without having ended their sessions,
 * and for each database once when the server has started.  The worker first ends the
 * sessions of processes that are gone, where it was started for that; then it extends the
 * leases of what is noted, each when a quarter of it is over, as long as there is something
 * to extend: so a transaction that takes less than that costs nothing.  Then it goes, lest
 * it is in the way of DROP DATABASE.
 *
 * A lease that has run out stays so (rule 7), whyever the keeper was late: it was stopped
 * with the whole server, or Redis did not answer.
 *
 * To end a session is what its lease would do: whatever is argued in docs/commit.md about a
 * lease that runs out at any moment holds here.  So a mistake about who is gone would cost
 * that transaction its commit, and nobody else anything.
 *
 * Race -- a process begins while its database is looked at: it is in shared memory before it
 * has a session at a clock, and sessions are listed before we look there.
 */
#include "postgres.h"

#include "access/xact.h"
#include "foreign/foreign.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/procsignal.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "admin/maintain.h"
#include "base/retry.h"
#include "fdw/keep.h"

/* Workers at a time: those that begin with the server, and all. */
#define MAX_FIRST		2
#define MAX_WORKERS		16

/* A keeper that was not started with the server goes when nothing was noted for so long. */
#define LINGER_S		60

/* A worker goes when there was nothing to extend for so many looks. */
#define LINGER_LOOKS	3

#define LOOK_MS			1000

extern PGDLLEXPORT void mosql_keeper_main(Datum arg);
extern PGDLLEXPORT void mosql_keeper_database(Datum arg);

void
mosql_keeper_init(void)
{
	BackgroundWorker worker = {0};

	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	mosql_keep_describe(&worker);
	worker.bgw_main_arg = BoolGetDatum(true);
	RegisterBackgroundWorker(&worker);
}

/* ---- the keeper ---- */

typedef struct Worker
{
	Oid			database;
	BackgroundWorkerHandle *handle;
} Worker;

static Worker workers[MAX_WORKERS];
static int	nworkers = 0;

static void
wait_a_while(int ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

static void
collect_workers(void)
{
	pid_t		pid;

	for (int i = nworkers - 1; i >= 0; i--)
		if (GetBackgroundWorkerPid(workers[i].handle, &pid) == BGWH_STOPPED)
		{
			pfree(workers[i].handle);
			workers[i] = workers[--nworkers];
		}
}

/* A worker for a database, unless there is one; first: it begins by ending sessions. */
static bool
start_worker(Oid database, bool first)
{
	BackgroundWorker worker = {0};
	MemoryContext old;
	bool		started;

	for (int i = 0; i < nworkers; i++)
		if (workers[i].database == database)
			return true;
	if (nworkers == MAX_WORKERS)
		return false;
	mosql_keep_describe(&worker);
	strlcpy(worker.bgw_function_name, "mosql_keeper_database", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "mosql_fdw keeper of a database", BGW_MAXLEN);
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = BoolGetDatum(first);
	memcpy(worker.bgw_extra, &database, sizeof(Oid));
	old = MemoryContextSwitchTo(TopMemoryContext);
	started = RegisterDynamicBackgroundWorker(&worker, &workers[nworkers].handle);
	MemoryContextSwitchTo(old);
	if (started)
		workers[nworkers++].database = database;
	return started;
}

/* How long may a session be noted until its lease is to be extended? */
static int64
quarter_us(const MosqlKept *kept)
{
	return (int64) kept->lease_ms * 1000 / 4;
}

/* What was left in databases that are gone, or let nobody in, ends with its leases: no worker could see to it. */
static List *
left_behind(void)
{
	List	   *left = mosql_keep_left();
	List	   *there = left != NIL ? mosql_worker_databases() : NIL;
	ListCell   *lc;

	foreach(lc, left)
		if (!list_member_oid(there, lfirst_oid(lc)))
		{
			(void) mosql_keep_take_left(lfirst_oid(lc));
			left = foreach_delete_current(left, lc);
		}
	return left;
}

/* Workers for what is there to do.  Is there anything? */
static bool
look_around(void)
{
	static bool complained = false;
	MosqlKept  *kept;
	int			n = mosql_keep_list(&kept);
	int64		now_us = mosql_now_us();
	List	   *left = left_behind();
	ListCell   *lc;
	bool		done = true;

	for (int i = 0; i < n; i++)
		if (now_us - kept[i].since_us >= quarter_us(&kept[i]))
			done &= start_worker(kept[i].database, false);
	foreach(lc, left)
		done &= start_worker(lfirst_oid(lc), false);
	if (!done && !complained)
		ereport(LOG,
				(errmsg("mosql_fdw could not start a worker that keeps sessions alive"),
				 errhint("Raise max_worker_processes.")));
	complained = !done;
	return n > 0 || left != NIL;
}

/* Each database once, a few at a time; what is left of the list. */
static List *
begin_databases(List *databases)
{
	while (databases != NIL && nworkers < MAX_FIRST &&
		   start_worker(linitial_oid(databases), true))
		databases = list_delete_first(databases);
	return databases;
}

/*
 * arg: it was started with the server, and stays.
 */
void
mosql_keeper_main(Datum arg)
{
	bool		stays = DatumGetBool(arg);
	MemoryContext cxt;
	List	   *first;
	int64		busy_us = mosql_now_us();

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	if (!mosql_keep_serve())
		proc_exit(0);
	MemoryContextSwitchTo(TopMemoryContext);
	first = mosql_keep_home()[0] != '\0' ? mosql_worker_databases() : NIL;
	cxt = AllocSetContextCreate(TopMemoryContext, "mosql keeper", ALLOCSET_DEFAULT_SIZES);

	while (!ShutdownRequestPending)
	{
		collect_workers();
		first = begin_databases(first);
		MemoryContextSwitchTo(cxt);
		if (look_around() || first != NIL || nworkers > 0)
			busy_us = mosql_now_us();
		MemoryContextSwitchTo(TopMemoryContext);
		MemoryContextReset(cxt);
		if (!stays && mosql_now_us() - busy_us > (int64) LINGER_S * 1000000 && mosql_keep_retire())
			proc_exit(0);		/* never again */
		wait_a_while(LOOK_MS);
	}
	proc_exit(1);
}

/* ---- a worker: who speaks to which clock ---- */

typedef struct Link
{
	Oid			server;
	Oid			user;
	MosqlSession *session;		/* NULL: it failed, and is opened anew */
	bool		complained;		/* since it worked last */
} Link;

static List *links = NIL;		/* of Link, in TopMemoryContext */

static Link *
find_link(Oid server, Oid user)
{
	MemoryContext old;
	ListCell   *lc;
	Link	   *link;

	foreach(lc, links)
	{
		link = lfirst(lc);
		if (link->server == server && link->user == user)
			return link;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	link = palloc0(sizeof(Link));
	link->server = server;
	link->user = user;
	links = lappend(links, link);
	MemoryContextSwitchTo(old);
	return link;
}

typedef void (*Work) (MosqlStepper *clock, void *arg);

/*
 * Do it in a transaction, as that user would.  False, and logged once until it works again,
 * if it failed; then options are looked up anew the next time.
 */
static bool
work_with(Link *link, Work work, void *arg)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool done = false;

	PG_TRY();
	{
		StartTransactionCommand();
		if (link->session == NULL)
			link->session = mosql_fdw_open_session(link->server, link->user);
		work(mosql_session_stepper(link->session), arg);
		CommitTransactionCommand();
		link->complained = false;
		done = true;
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		if (!link->complained)
			EmitErrorReport();
		link->complained = true;
		AbortCurrentTransaction();
		FlushErrorState();
		if (link->session != NULL)
			mosql_session_close(link->session);
		link->session = NULL;
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	return done;
}

/* ---- a worker: sessions of processes that are gone ---- */

static bool
is_gone(const MosqlSessionState *session)
{
	Jsonb	   *who = mosql_session_who(session);
	char	   *home = mosql_session_said(who, "home");
	char	   *pid = mosql_session_said(who, "pid");
	char	   *started = mosql_session_said(who, "started");

	if (home == NULL || pid == NULL || started == NULL ||
		home[0] == '\0' || strcmp(home, mosql_keep_home()) != 0)
		return false;
	return !mosql_keep_is_alive(atoi(pid), strtoll(started, NULL, 10));
}

/* A Work. */
static void
end_gone(MosqlStepper *clock, void *arg)
{
	MosqlSessionState *sessions;
	MosqlTimestamp now;
	int			n = mosql_clock_list_sessions(clock, &sessions, &now);
	int			ended = 0;

	(void) arg;
	for (int i = 0; i < n; i++)
		if (sessions[i].lease != 0 && is_gone(&sessions[i]))
		{
			(void) mosql_clock_end_session(clock, sessions[i].sid);
			ended++;
		}
	if (ended > 0)
		(void) mosql_clock_expire(clock, ended);
}

/* On all servers of this database. */
static void
end_sessions(void)
{
	List	   *servers = mosql_worker_servers();
	ListCell   *lc;

	foreach(lc, servers)
	{
		ForeignServer *server = lfirst(lc);

		(void) work_with(find_link(server->serverid, server->owner), end_gone, NULL);
	}
}

/* ---- a worker: leases ---- */

/* A session that is noted. */
typedef struct Charge
{
	MosqlKept	kept;
	int64		extended_us;	/* or since when it is noted */
	bool		dead;
	bool		there;			/* it is still noted */
} Charge;

static List *charges = NIL;		/* of Charge, in TopMemoryContext */

static Charge *
find_charge(const MosqlKept *kept)
{
	MemoryContext old;
	ListCell   *lc;
	Charge	   *charge;

	foreach(lc, charges)
	{
		charge = lfirst(lc);
		if (charge->kept.sid == kept->sid && charge->kept.since_us == kept->since_us)
			return charge;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	charge = palloc0(sizeof(Charge));
	charge->kept = *kept;
	charge->extended_us = kept->since_us;
	charges = lappend(charges, charge);
	MemoryContextSwitchTo(old);
	return charge;
}

/* A Work. */
static void
extend(MosqlStepper *clock, void *arg)
{
	Charge	   *charge = arg;

	charge->dead = !mosql_clock_extend(clock, charge->kept.sid, charge->kept.lease_ms);
}

/* What is noted in this database for long. */
static void
look_at_notes(int64 now_us)
{
	MosqlKept  *kept;
	int			n = mosql_keep_list(&kept);
	ListCell   *lc;

	foreach(lc, charges)
		((Charge *) lfirst(lc))->there = false;
	for (int i = 0; i < n; i++)
		if (kept[i].database == MyDatabaseId && now_us - kept[i].since_us >= quarter_us(&kept[i]))
			find_charge(&kept[i])->there = true;
	foreach(lc, charges)
	{
		Charge	   *charge = lfirst(lc);

		if (charge->there)
			continue;
		charges = foreach_delete_current(charges, lc);
		pfree(charge);
	}
}

/* Extend what is due.  Returns when to look again, ms. */
static int
extend_leases(void)
{
	int64		wait_us = (int64) LOOK_MS * 1000;
	ListCell   *lc;

	look_at_notes(mosql_now_us());
	foreach(lc, charges)
	{
		Charge	   *charge = lfirst(lc);
		int64		before_us = mosql_now_us();

		if (charge->dead)
			continue;
		if (before_us - charge->extended_us >= quarter_us(&charge->kept) &&
			work_with(find_link(charge->kept.server, charge->kept.user), extend, charge))
			charge->extended_us = before_us;
		wait_us = Min(wait_us, quarter_us(&charge->kept));
	}
	return (int) Max(wait_us / 1000, 20);
}

/*
 * arg: begin by ending sessions.
 */
void
mosql_keeper_database(Datum arg)
{
	bool		first = DatumGetBool(arg);
	int			quiet = 0;
	MemoryContext cxt;
	Oid			database;

	memcpy(&database, MyBgworkerEntry->bgw_extra, sizeof(Oid));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET, PGC_S_OVERRIDE);
	mosql_keep_attach();
	cxt = AllocSetContextCreate(TopMemoryContext, "mosql keeper", ALLOCSET_DEFAULT_SIZES);

	while (quiet < LINGER_LOOKS)
	{
		int			wait_ms;

		MemoryContextSwitchTo(cxt);
		if (mosql_keep_take_left(database) || first)
			end_sessions();
		wait_ms = extend_leases();
		quiet = charges == NIL ? quiet + 1 : 0;
		if (first && quiet > 0)
			break;
		first = false;
		MemoryContextSwitchTo(TopMemoryContext);
		MemoryContextReset(cxt);
		wait_a_while(wait_ms);
	}
	proc_exit(0);
}
