/*
 * maintain.h: one pass of maintenance over one server, for the SQL function and
 * the background worker; statistics; settings.
 *
 * Layer: admin.
 */
#ifndef MOSQL_MAINTAIN_H
#define MOSQL_MAINTAIN_H

#include "utils/jsonb.h"

#include "admin/admin.h"
#include "step/clock_keep.h"

/* ---- settings ---- */
extern int	mosql_maintain_rate;	/* leaves per second, 0: as fast as it goes */
extern bool mosql_maintain_on;	/* the worker works */
extern int	mosql_maintain_naptime_s;	/* between two passes of the worker */

/* The names of a pass, of its sweep, and of killing what is dropped, in the list of jobs (step/clock_keep.h). */
#define MOSQL_JOB_MAINTAIN	"maintenance"
#define MOSQL_JOB_SWEEP		"sweep"
#define MOSQL_JOB_GARBAGE	"dropped tables"

/* How a pass went. */
typedef enum MosqlPassOutcome
{
	MOSQL_PASS_DONE,
	MOSQL_PASS_BUSY,			/* another session is at it */
	MOSQL_PASS_RECENT,			/* automatic: somebody did it a moment ago */
	MOSQL_PASS_IDLE,			/* automatic: nothing was written since the last one */
	MOSQL_PASS_TAKEN_OVER		/* we paused for too long, another session goes on */
} MosqlPassOutcome;

typedef struct MosqlPassResult
{
	MosqlPassOutcome outcome;
	MosqlOrphanCounts orphans;
	MosqlVacuumCounts vacuum;
	uint64		analyzed;		/* tables of this database */
	double		seconds;
} MosqlPassResult;

extern const char *mosql_pass_outcome_name(MosqlPassOutcome outcome);

/*
 * Does a definition name this tree, or may one do so that cannot be read?  Some round trips.
 */
extern bool mosql_maintain_names_tree(MosqlSession *session, uint64 root);

/* Give up a job that a session has taken, so that others may have it; raises nothing. */
extern void mosql_maintain_forget_job(MosqlStepper *clock, const char *name, uint64 sid);

/*
 * Forget expired sessions, finish commits of the dead, vacuum each tree, pack what is quiet of tables that
 * this database has on serverid, sweep.
 * Leaves per second as mosql_fdw.maintenance_rate says.  automatic: skip what need
 * not be done now.  Inside a PostgreSQL transaction that has written nothing to
 * this server, at READ COMMITTED; interrupts are served throughout.
 */
extern void mosql_maintain_pass(Oid serverid, MosqlSession *session, bool automatic, MosqlPassResult *result);

/*
 * ANALYZE this database's tables on a server whose trees have grown or shrunk by
 * more than a tenth since they were analyzed, as far as the current user may.
 * Returns how many.
 */
extern uint64 mosql_maintain_statistics(Oid serverid, MosqlSession *session);

/* What a job or a session says of itself, as jsonb; 0 if it is no JSON. */
extern Datum mosql_admin_json(MosqlBytes stored);

/*
 * The result of a function whose first argument names a server: put() for that one, or, if it
 * is null, for all that the current user may use, those left out, with a warning, that do not
 * answer, or cannot be used (mosql_admin_is_of_one_server()).  Throws as the privileges say.
 */
typedef void (*MosqlPutServer) (ReturnSetInfo *out, Oid serverid, MosqlSession *session);
extern void mosql_admin_put_servers(FunctionCallInfo fcinfo, MosqlPutServer put);

/* All servers of this extension in the database: OIDs. */
extern List *mosql_maintain_servers(void);

/* Settings, and the launcher if we are preloaded; once, from _PG_init. */
extern void mosql_maintain_init(void);
extern void mosql_locks_init(void);
extern void mosql_worker_init(void);

/*
 * For background workers, outside of a transaction, in the current context.  The OIDs of all
 * databases that one may connect to; all our servers of this database: ForeignServers.
 */
extern List *mosql_worker_databases(void);
extern List *mosql_worker_servers(void);

/*
 * In a worker for maintenance, in a transaction: 55006 if a command waits for this database to be without sessions
 * (DROP DATABASE, CREATE DATABASE ... TEMPLATE).  Elsewhere nothing.
 */
extern void mosql_worker_give_way(void);

/* The keeper, if we are preloaded; once, from _PG_init. */
extern void mosql_keeper_init(void);

/* A string or number of what a session says of itself, as text; NULL if it is not there. */
extern char *mosql_session_said(Jsonb *who, const char *name);

/* Four columns of it: server, pid, database, application; session NULL: nothing is known. */
extern void mosql_session_put_who(const MosqlSessionState *session, Datum *values, bool *nulls);

/* The same, of all of it; NULL if it says nothing that one can read. */
extern Jsonb *mosql_session_who(const MosqlSessionState *session);

#endif							/* MOSQL_MAINTAIN_H */
