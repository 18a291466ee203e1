/*
 * keep.c: which sessions of this PostgreSQL server have to live, told to its keeper.
 *
 * Layer: fdw.  A session's lease is extended by what it says to the clock.  A transaction that
 * waits for its client says nothing; but it may hold locks, or a snapshot.  So it notes its
 * session here, in shared memory, and the keeper, a background worker (admin/keeper.c),
 * extends the leases of those that are noted for long, and ends the sessions of processes
 * that are gone.
 *
 *     Keep         one: the lock, who is the keeper, databases that have something to end
 *     Backend []   by number of the process: who it is, and the sessions that it notes
 *
 * The array is a segment of dynamic shared memory, made by the first process that has a
 * session: it grows with max_connections, and without shared_preload_libraries there is
 * little room elsewhere.  A crash of a backend destroys it with all else, and everybody
 * begins anew.
 *
 * No secrets.  What is noted is an id, and whose session it is: the server's and the user's
 * OIDs.  The keeper looks the options up in the catalogs, as the user's backend has done.
 *
 * Noting costs some stores, since a backend writes only its own entry: the id is written last
 * and read first and last, and no id is used twice.
 *
 * The keeper is a process that PostgreSQL starts with the server if we are preloaded.  Else
 * the first note asks the postmaster for it.  That is sound: the postmaster starts it again
 * when it has ended for an error, also after a crash of all processes, when it ends the
 * sessions of before; and it goes by itself when nobody has noted anything for a while.
 * Race -- it goes while somebody notes: the one notes, then looks for a keeper; the other
 * resigns, then looks for notes.  One of them sees the other.
 *
 * The home of a session.  After a restart the keeper ends the sessions of the processes that
 * were there before: it must be sure that they are this server's, and that those are gone.
 * The lock file of the data directory sees to it that a directory has one server at a time,
 * whose processes are all gone before the next one starts; and a directory is known by its
 * device and inode as long as the machine is up, which has an id of its own.  A copy, a
 * standby, a restored backup, a clone of the machine: each differs in one of these.
 * After a restart of the machine the leases do it, as they do where it has no such id.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "base/limits.h"
#include "base/retry.h"
#include "fdw/keep.h"
#include "fdw/shared.h"

/* Databases that have something to end, at a time; beyond, leases do it. */
#define MAX_LEFT		64

/* Who asked for a keeper in vain does not ask again for so long. */
#define ASK_AGAIN_US	10000000

typedef struct Session
{
	pg_atomic_uint64 sid;		/* 0: nothing is noted here */
	Oid			server;
	Oid			user;
	int			lease_ms;
	int64		since_us;
} Session;

typedef struct Backend
{
	int			pid;			/* 0: none */
	Oid			database;
	int64		started;
	Session		sessions[MOSQL_KEPT_SESSIONS];
} Backend;

typedef struct Keep
{
	LWLock		lock;			/* first: shared.h */
	dsm_handle	segment;		/* of the backends */
	int			keeper;			/* its process id; 0: there is none */
	int			keeper_number;
	int64		asked_us;		/* for one, last */
	Oid			left[MAX_LEFT]; /* InvalidOid: free */
} Keep;

static Keep *shared_keep = NULL;
static Backend *backends = NULL;
static Backend *mine = NULL;
static shmem_request_hook_type previous_request_hook = NULL;

/* ---- shared memory ---- */

static void
request_memory(void)
{
	if (previous_request_hook != NULL)
		previous_request_hook();
	RequestAddinShmemSpace(sizeof(Keep));
}

void
mosql_keep_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_memory;
}

/* Under the lock. */
static dsm_segment *
create_segment(Keep *keep)
{
	Size		size = mul_size(MaxBackends, sizeof(Backend));
	dsm_segment *segment = dsm_create(size, 0);
	Backend    *array = dsm_segment_address(segment);

	memset(array, 0, size);
	for (int i = 0; i < MaxBackends; i++)
		for (int j = 0; j < MOSQL_KEPT_SESSIONS; j++)
			pg_atomic_init_u64(&array[i].sessions[j].sid, 0);
	dsm_pin_segment(segment);
	keep->segment = dsm_segment_handle(segment);
	return segment;
}

void
mosql_keep_attach(void)
{
	dsm_segment *segment;
	Keep	   *keep;

	if (backends != NULL)
		return;
	keep = mosql_shared_attach("mosql_fdw keeper", sizeof(Keep), NULL);
	LWLockAcquire(&keep->lock, LW_EXCLUSIVE);
	segment = keep->segment == DSM_HANDLE_INVALID ? create_segment(keep) : dsm_attach(keep->segment);
	LWLockRelease(&keep->lock);
	if (segment == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("shared memory of mosql_fdw is gone")));
	dsm_pin_mapping(segment);
	shared_keep = keep;
	backends = dsm_segment_address(segment);
}

/* ---- who this server is ---- */

/* What the machine is called until it is started again; false if nothing says so. */
static bool
boot_id(char *id, size_t size)
{
	int			file = open("/proc/sys/kernel/random/boot_id", O_RDONLY);
	ssize_t		n = file >= 0 ? read(file, id, size) : -1;

	if (file >= 0)
		(void) close(file);
	return n > 0;
}

const char *
mosql_keep_home(void)
{
	static char home[17];
	struct
	{
		uint64		system;
		uint64		device;
		uint64		inode;
		char		boot[64];
		char		host[256];
	}			all;
	struct stat directory;

	if (home[0] != '\0')
		return home;
	memset(&all, 0, sizeof(all));
	if (stat(DataDir, &directory) != 0 || !boot_id(all.boot, sizeof(all.boot)))
		return "";
	(void) gethostname(all.host, sizeof(all.host) - 1);
	all.system = GetSystemIdentifier();
	all.device = directory.st_dev;
	all.inode = directory.st_ino;
	snprintf(home, sizeof(home), "%016llx",
			 (unsigned long long) hash_bytes_extended((const unsigned char *) &all, sizeof(all), 0));
	return home;
}

/* ---- the keeper ---- */

static void
start_keeper(void)
{
	BackgroundWorker worker = {0};
	int64		now_us = mosql_now_us();
	bool		ask;

	LWLockAcquire(&shared_keep->lock, LW_EXCLUSIVE);
	ask = shared_keep->keeper == 0 && now_us - shared_keep->asked_us > ASK_AGAIN_US;
	if (ask)
		shared_keep->asked_us = now_us;
	LWLockRelease(&shared_keep->lock);
	if (!ask)
		return;
	mosql_keep_describe(&worker);
	if (!RegisterDynamicBackgroundWorker(&worker, NULL))
		ereport(LOG,
				(errmsg("mosql_fdw could not start its keeper"),
				 errdetail("A transaction that waits for its client loses its locks and its snapshot when its lease is over."),
				 errhint("Raise max_worker_processes.")));
}

void
mosql_keep_describe(BackgroundWorker *worker)
{
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_ConsistentState;
	worker->bgw_restart_time = 1;
	strlcpy(worker->bgw_library_name, "mosql_fdw", sizeof(worker->bgw_library_name));
	strlcpy(worker->bgw_function_name, "mosql_keeper_main", sizeof(worker->bgw_function_name));
	strlcpy(worker->bgw_name, "mosql_fdw keeper", BGW_MAXLEN);
	strlcpy(worker->bgw_type, "mosql_fdw keeper", BGW_MAXLEN);
}

/* Called as the process ends. */
static void
resign(int code, Datum arg)
{
	(void) code;
	(void) arg;
	LWLockAcquire(&shared_keep->lock, LW_EXCLUSIVE);
	if (shared_keep->keeper == MyProcPid)
		shared_keep->keeper = 0;
	LWLockRelease(&shared_keep->lock);
}

/* False if somebody else is it. */
static bool
take_office(void)
{
	bool		taken;

	LWLockAcquire(&shared_keep->lock, LW_EXCLUSIVE);
	taken = shared_keep->keeper == 0;
	if (taken)
	{
		shared_keep->keeper = MyProcPid;
		shared_keep->keeper_number = mosql_shared_my_number();
	}
	LWLockRelease(&shared_keep->lock);
	return taken;
}

bool
mosql_keep_serve(void)
{
	mosql_keep_attach();
	before_shmem_exit(resign, (Datum) 0);
	return take_office();
}

static bool
is_anything_noted(void)
{
	for (int i = 0; i < MaxBackends; i++)
		for (int j = 0; j < MOSQL_KEPT_SESSIONS; j++)
			if (pg_atomic_read_u64(&backends[i].sessions[j].sid) != 0)
				return true;
	return false;
}

bool
mosql_keep_retire(void)
{
	if (is_anything_noted() || mosql_keep_left() != NIL)
		return false;
	resign(0, (Datum) 0);
	pg_memory_barrier();
	return !is_anything_noted() || !take_office();
}

/* ---- what backends say ---- */

/*
 * As the process ends, before its transaction is rolled back, and after sessions that no
 * transaction uses were closed: what is noted still was not.
 */
static void
leave(int code, Datum arg)
{
	bool		left = false;
	int			keeper = -1;
	int			at = -1;

	(void) code;
	(void) arg;
	for (int j = 0; j < MOSQL_KEPT_SESSIONS; j++)
	{
		left |= pg_atomic_read_u64(&mine->sessions[j].sid) != 0;
		pg_atomic_write_u64(&mine->sessions[j].sid, 0);
	}
	LWLockAcquire(&shared_keep->lock, LW_EXCLUSIVE);
	mine->pid = 0;
	for (int i = 0; left && i < MAX_LEFT; i++)
	{
		if (shared_keep->left[i] == MyDatabaseId)
			left = false;		/* said already */
		else if (at < 0 && !OidIsValid(shared_keep->left[i]))
			at = i;
	}
	if (left && at >= 0)
		shared_keep->left[at] = MyDatabaseId;
	if (shared_keep->keeper != 0)
		keeper = shared_keep->keeper_number;
	LWLockRelease(&shared_keep->lock);
	if (left && keeper >= 0)
		SetLatch(&GetPGProcByNumber(keeper)->procLatch);
}

void
mosql_keep_enter(void)
{
	if (mine != NULL)
		return;
	mosql_keep_attach();
	LWLockAcquire(&shared_keep->lock, LW_EXCLUSIVE);
	mine = &backends[mosql_shared_my_number()];
	mine->pid = MyProcPid;
	mine->database = MyDatabaseId;
	mine->started = MyStartTimestamp;
	for (int j = 0; j < MOSQL_KEPT_SESSIONS; j++)
		pg_atomic_write_u64(&mine->sessions[j].sid, 0);
	LWLockRelease(&shared_keep->lock);
	before_shmem_exit(leave, (Datum) 0);
}

int
mosql_keep_begin(uint64 sid, Oid serverid, Oid user, int lease_ms)
{
	int			place = 0;

	while (place < MOSQL_KEPT_SESSIONS && pg_atomic_read_u64(&mine->sessions[place].sid) != 0)
		place++;
	if (place == MOSQL_KEPT_SESSIONS)
		return -1;
	mine->sessions[place].server = serverid;
	mine->sessions[place].user = user;
	mine->sessions[place].lease_ms = lease_ms;
	mine->sessions[place].since_us = mosql_now_us();
	pg_write_barrier();
	pg_atomic_write_u64(&mine->sessions[place].sid, sid);
	pg_memory_barrier();
	if (shared_keep->keeper == 0)
		start_keeper();
	return place;
}

void
mosql_keep_end(int place)
{
	pg_atomic_write_u64(&mine->sessions[place].sid, 0);
	pg_write_barrier();			/* before it is written anew */
}

/* ---- what the keeper reads ---- */

/* False if nothing is noted there, or it is being written. */
static bool
read_session(Session *session, MosqlKept *kept)
{
	kept->sid = pg_atomic_read_u64(&session->sid);
	pg_read_barrier();
	kept->server = session->server;
	kept->user = session->user;
	kept->lease_ms = session->lease_ms;
	kept->since_us = session->since_us;
	pg_read_barrier();
	return kept->sid != 0 && kept->sid == pg_atomic_read_u64(&session->sid);
}

int
mosql_keep_list(MosqlKept **kept)
{
	int			n = 0;
	int			max = 16;

	*kept = palloc(max * sizeof(MosqlKept));
	LWLockAcquire(&shared_keep->lock, LW_SHARED);
	for (int i = 0; i < MaxBackends; i++)
	{
		if (backends[i].pid == 0)
			continue;
		for (int j = 0; j < MOSQL_KEPT_SESSIONS; j++)
		{
			if (n == max)
				*kept = repalloc(*kept, (max *= 2) * sizeof(MosqlKept));
			(*kept)[n].database = backends[i].database;
			if (read_session(&backends[i].sessions[j], &(*kept)[n]))
				n++;
		}
	}
	LWLockRelease(&shared_keep->lock);
	return n;
}

List *
mosql_keep_left(void)
{
	List	   *left = NIL;

	LWLockAcquire(&shared_keep->lock, LW_SHARED);
	for (int i = 0; i < MAX_LEFT; i++)
		if (OidIsValid(shared_keep->left[i]))
			left = lappend_oid(left, shared_keep->left[i]);
	LWLockRelease(&shared_keep->lock);
	return left;
}

bool
mosql_keep_take_left(Oid database)
{
	bool		found = false;

	LWLockAcquire(&shared_keep->lock, LW_EXCLUSIVE);
	for (int i = 0; i < MAX_LEFT; i++)
		if (shared_keep->left[i] == database)
		{
			shared_keep->left[i] = InvalidOid;
			found = true;
		}
	LWLockRelease(&shared_keep->lock);
	return found;
}

bool
mosql_keep_is_alive(int pid, int64 started)
{
	bool		alive = false;

	LWLockAcquire(&shared_keep->lock, LW_SHARED);
	for (int i = 0; i < MaxBackends; i++)
		alive |= backends[i].pid == pid && backends[i].started == started;
	LWLockRelease(&shared_keep->lock);
	return alive;
}
