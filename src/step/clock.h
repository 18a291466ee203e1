/*
 * clock.h: the clock of a namespace: timestamps, decisions, snapshots, sessions.
 *
 * Layer: step.  All keys of the clock share one slot (tag "{<ns>.clock}"):
 *
 *     <ns>:{<ns>.clock}:c          hash: last (timestamp), sid (session counter),
 *                                  schema (version counter), format, node (master_replid
 *                                  of who issued `last`); decided
 *                                  (highest commit timestamp), forgot (clock_keep.h)
 *     <ns>:{<ns>.clock}:e          sorted set: session id by lease end (us), the index
 *                                  for finding expired sessions
 *     <ns>:{<ns>.clock}:p          sorted set: "<sid>.<snapid>" by snapshot timestamp
 *     <ns>:{<ns>.clock}:d          set: ids of dead sessions that left committed records
 *     <ns>:{<ns>.clock}:o, :j, :z, :u  housekeeping: clock_keep.h
 *     <ns>:{<ns>.clock}:w          who waits for whom: clock_wait.h
 *     <ns>:{<ns>.clock}:s:<sid>    hash of one session: "lease" -> its end (us);
 *                                  "span" -> how long it is at most (us);
 *                                  "who" -> what its owner says of itself;
 *                                  "<n>" -> transaction record: "C<ts> <parts>" or "A"
 *
 * Each function is one atomic step, by script or by WATCH/MULTI/EXEC as the
 * stepper's engine says; both leave the same data.  A session
 * is dead when its "lease" field is missing or in the past of the server's
 * TIME; the dead never come back (rule 7).  When another process than before
 * answers, `last` leaps ahead, and the schema version with it (rule 16).
 * With a durable stepper, what is returned survives a failover, except for what
 * only a snapshot or the list of snapshots says.    Every call by a live session with
 * less than half of its lease left extends it in the same step.
 */
#ifndef MOSQL_CLOCK_H
#define MOSQL_CLOCK_H

#include "base/base.h"
#include "base/retry.h"
#include "code/row.h"
#include "step/step.h"

typedef enum MosqlRecordState
{
	MOSQL_RECORD_NONE,
	MOSQL_RECORD_ABORTED,
	MOSQL_RECORD_COMMITTED,
	MOSQL_RECORD_UNKNOWN		/* settle only: the lease ran out meanwhile */
} MosqlRecordState;

typedef struct MosqlRecord
{
	MosqlRecordState state;
	MosqlTimestamp ts;			/* COMMITTED */
	MosqlBytes	parts;			/* COMMITTED: as given to decide */
} MosqlRecord;

typedef enum MosqlDecision
{
	MOSQL_DECIDED,				/* committed */
	MOSQL_REFUSED_ABORTED,		/* somebody wrote "aborted" */
	MOSQL_REFUSED_LEASE,		/* the session's lease ran out */
	MOSQL_REFUSED_SCHEMA,		/* the schema version is stale */
	MOSQL_REFUSED_FORGOTTEN,	/* another process took over since the transaction began; not
								 * where the clock waits for copies */
	MOSQL_REFUSED_AT_ONCE,		/* not in one step (one_step.h): nothing was done */
	MOSQL_DECISION_LOST			/* settle it */
} MosqlDecision;

/*
 * Draw a session id and its lease (lease_ms): greater than all before, and at least
 * what the time allows (rule 23); XX001 beyond the last one.  Also forgets up to 16 sessions
 * that ran out: their snapshots and "aborted" records, their lease field, and
 * the index entry (committed records stay for whoever applies them).  Notes clock->who.
 * *schema gets the schema version.
 */
extern uint64 mosql_clock_open(MosqlStepper *clock, int lease_ms, uint64 *schema);

/*
 * The same, if the namespace has a database; else 0, and nothing is written.
 * open founds one.
 */
extern uint64 mosql_clock_open_existing(MosqlStepper *clock, int lease_ms, uint64 *schema);

/* Forget a session that ends: lease, snapshots, "aborted" records. Detached. */
extern void mosql_clock_close(MosqlStepper *clock, uint64 sid);

/*
 * Draw S = max(server time, last), store it as last, register it under
 * (sid, snapid); a repeated call returns the S registered first (rule 8).
 * Returns false if the session is dead.  Also returns the schema version.
 */
extern bool mosql_clock_snapshot(MosqlStepper *clock, uint64 sid, uint64 snapid, int lease_ms,
								 MosqlTimestamp *S, uint64 *schema);

/* The same, and it may bring nodes along: no round trip more. */
extern bool mosql_clock_snapshot_along(MosqlStepper *clock, uint64 sid, uint64 snapid, int lease_ms,
									   MosqlTimestamp *S, uint64 *schema, MosqlNodesAlong *along);

/*
 * Lists of snapshots that come with decisions and records are bounded: of more than
 * MOSQL_CLOCK_NEWEST they have the newest and the oldest, and a gap between (code/row.h).  Scores are doubles, exact below: times until the year 2255. */
#define MOSQL_CLOCK_SCORES (UINT64CONST(1) << 53)

/* Unregister; detached. */
extern void mosql_clock_release(MosqlStepper *clock, uint64 sid, uint64 snapid);

typedef struct MosqlDecideArgs
{
	MosqlTxid	tx;
	uint64		schema;			/* version the transaction used */
	uint64		since;			/* and when it began; 0: it does not matter */
	bool		schema_change;	/* it changes the schema: version + 1 */
	bool		all_snapshots;	/* the list is to have them all */
	MosqlBytes	parts;			/* participants, opaque here */
	int			lease_ms;
	int			ndrops;			/* earlier records of this session to drop in */
	const uint64 *drops;		/* the same step (rule 5), whatever is decided */
} MosqlDecideArgs;

/*
 * Decide: refuse or commit (docs/commit.md).  On DECIDED *ts is the commit
 * timestamp, *list (current context) the registered snapshots (a bounded list) with last = ts,
 * *schema the version now.  Deciding a decided transaction returns the same
 * ts again.  On a refusal *schema is the version now.  If this throws XX001 and *ts is
 * not 0, the record may be written all the same; otherwise it is not.
 */
extern MosqlDecision mosql_clock_decide(MosqlStepper *clock, const MosqlDecideArgs *args,
										MosqlTimestamp *ts, MosqlSnapshotList *list,
										uint64 *schema, MosqlBudget *budget);

/*
 * The attempt is under way, which says so for the k-th time, k > 0: a sign of life, for those who
 * wait.  Detached; it goes by itself after a minute.  Who asks gets the last k, 0 if there is none.
 */
extern void mosql_clock_sign(MosqlStepper *clock, MosqlTxid tx, uint64 k);
extern uint64 mosql_clock_last_sign(MosqlStepper *clock, MosqlTxid tx);

/* Records of several transactions, in one step, with a bounded list of snapshots. */
extern void mosql_clock_status(MosqlStepper *clock, const MosqlTxid *txs, int n,
							   MosqlRecord *records, MosqlSnapshotList *list);

/* Write "aborted" unless there is a record; returns what it is then. */
extern void mosql_clock_abort(MosqlStepper *clock, MosqlTxid tx,
							  MosqlRecord *record, MosqlSnapshotList *list);

/*
 * The owner lost the reply of decide (rule 6): writes "aborted" if there is no
 * record; UNKNOWN if there is none (or "aborted") and the session is dead.
 */
extern void mosql_clock_settle(MosqlStepper *clock, MosqlTxid tx,
							   MosqlRecord *record, MosqlSnapshotList *list, MosqlBudget *budget);

/* Drop records of this session, all applies of which are acknowledged. Detached. */
extern void mosql_clock_drop(MosqlStepper *clock, uint64 sid, const uint64 *ns, int n);

/* All snapshots (vacuum, checks), and the schema version. */
extern void mosql_clock_snapshots(MosqlStepper *clock, MosqlSnapshotList *list, uint64 *schema);

/*
 * Forget up to max sessions whose lease ran out, as opening one does.  Returns
 * how many had ended: max means that there may be more.
 */
extern int	mosql_clock_expire(MosqlStepper *clock, int max);

/* The sessions that may be alive, and how many ids were given out. */
typedef struct MosqlSessions
{
	uint64		newest;			/* highest session id drawn */
	int			n;
	uint64	   *live;			/* ascending */
} MosqlSessions;

/*
 * Who lives.  An id that is at most `newest` and not in the list belongs to a
 * session that is dead for good: it was forgotten.  A lease that has merely ended
 * says less (rule 16): the list names such a session until somebody forgets it
 * (mosql_clock_expire()).  Ids drawn later are above `newest`.  Memory: 8 bytes per session, in the
 * current context.
 */
extern void mosql_clock_sessions(MosqlStepper *clock, MosqlSessions *sessions);

/* Is a session id's session dead for good, as far as this list knows? */
extern bool mosql_clock_is_dead(const MosqlSessions *sessions, uint64 sid);

/* A committed transaction whose session died before it dropped the record. */
typedef struct MosqlOrphan
{
	MosqlTxid	tx;
	MosqlRecord record;
} MosqlOrphan;

/*
 * Records left by some dead sessions (at most max_sessions of them, picked at
 * random), for maintenance, which applies them and then reaps them.  A session
 * on the list that has no such record any more is there once, with tx.n = 0 and
 * state NONE.  Two round trips.
 */
extern int	mosql_clock_orphans(MosqlStepper *clock, int max_sessions, MosqlOrphan **orphans);

/*
 * Drop records of a dead session, all applies of which are made, and log their
 * outcome (clock_keep.h); checks in the same step that the session is dead
 * (rule 5), returns false if it lives.  n = 0 only takes a session without
 * records off the list.
 */
extern bool mosql_clock_reap(MosqlStepper *clock, uint64 sid, const uint64 *ns, int n);

#endif							/* MOSQL_CLOCK_H */
