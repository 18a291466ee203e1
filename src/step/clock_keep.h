/*
 * clock_keep.h: housekeeping at the clock: outcomes of transactions kept for
 * those who ask later, jobs and who does them, sizes of trees, trees without a name.
 *
 * Layer: step.  In the clock's slot:
 *
 *     <ns>:{<ns>.clock}:o          sorted set: "<sid>.<n>" of a committed transaction
 *                                  whose record maintenance has dropped, by the
 *                                  time (us) it was dropped
 *     <ns>:{<ns>.clock}:c forgot   highest session id among those that left :o
 *     <ns>:{<ns>.clock}:j          hash: name of a job -> who does it and how far
 *                                  it is, or how its last run ended
 *     <ns>:{<ns>.clock}:z          hash: root of a tree -> its leaves when they
 *                                  were last counted
 *     <ns>:{<ns>.clock}:u          hash: root of a tree that no definition names ->
 *                                  "<since> <nodes>": when the sweep first found it (us),
 *                                  and how many nodes it has found
 *
 * All of it is done by WATCH, whatever the stepper's engine: it is rare, and what
 * it watches hardly anybody else writes.
 */
#ifndef MOSQL_CLOCK_KEEP_H
#define MOSQL_CLOCK_KEEP_H

#include "step/clock.h"

/* ---- how did a transaction end? ---- */

typedef enum MosqlFate
{
	MOSQL_FATE_UNKNOWN,			/* no trace of it, and there may have been one */
	MOSQL_FATE_IN_PROGRESS,		/* its session lives and may still decide it */
	MOSQL_FATE_COMMITTED,
	MOSQL_FATE_ABORTED
} MosqlFate;

/*
 * The fate of a transaction whose owner did not learn it (SQLSTATE 08007), and
 * which therefore was not dropped by its owner.  COMMITTED and ABORTED are final:
 * asked again, the answer is the same until the outcome is forgotten, then
 * UNKNOWN.  A session found dead by its lease is made dead for good first.
 */
extern MosqlFate mosql_clock_fate(MosqlStepper *clock, MosqlTxid tx);

/*
 * Forget logged outcomes older than keep_ms, remembering up to which session;
 * returns how many were forgotten, at most 1000.
 */
extern int	mosql_clock_forget_outcomes(MosqlStepper *clock, int64 keep_ms);

/* ---- jobs ---- */

/*
 * Work on the namespace of which only one session at a time shall do each kind.
 * A job whose session died is free.  Being done twice all the same (a doer that
 * paused for longer than its lease) must be harmless: this saves work, it does
 * not exclude.
 */
typedef struct MosqlJob
{
	const char *name;
	uint64		sid;			/* who does, or did it */
	bool		running;		/* false: it has ended */
	bool		alive;			/* the session is */
	MosqlTimestamp started;		/* all by the clock server's time */
	MosqlTimestamp updated;
	MosqlTimestamp now;
	uint64		mark;			/* set at the end; its meaning is the job's */
	MosqlBytes	text;			/* likewise; zero-terminated */
} MosqlJob;

/*
 * Take a job.  False if another live session is at it; then, and when it was
 * done before, *other (current context) says by whom and how; name NULL: never.
 */
extern bool mosql_clock_job_start(MosqlStepper *clock, const char *name, uint64 sid, int lease_ms,
								  const char *text, MosqlJob *other);

/* Say how far it is; extends the lease.  False if it is no longer ours. */
extern bool mosql_clock_job_note(MosqlStepper *clock, const char *name, uint64 sid, int lease_ms,
								 const char *text);

/* It is done; what is said stays until it is started again. */
extern void mosql_clock_job_end(MosqlStepper *clock, const char *name, uint64 sid, int lease_ms,
								uint64 mark, const char *text);

/* Strike a job off that this session has, or had when it died. */
extern void mosql_clock_job_forget(MosqlStepper *clock, const char *name, uint64 sid);

/* All jobs known, in the current context. */
extern int	mosql_clock_jobs(MosqlStepper *clock, MosqlJob **jobs);

/* ---- sizes of trees ---- */

typedef struct MosqlTreeSize
{
	uint64		root;
	uint64		leaves;
} MosqlTreeSize;

extern void mosql_clock_put_size(MosqlStepper *clock, uint64 root, uint64 leaves);
extern int	mosql_clock_sizes(MosqlStepper *clock, MosqlTreeSize **sizes);

/* Forget trees that are gone. */
extern void mosql_clock_drop_sizes(MosqlStepper *clock, const uint64 *roots, int n);

/* ---- trees that no definition names ---- */

typedef struct MosqlUnnamedTree
{
	uint64		root;
	MosqlTimestamp since;		/* found first, by the clock server's time */
	uint64		nodes;			/* by the last sweep */
	bool		told;			/* a WARNING has said that its definition is lost */
} MosqlUnnamedTree;

/* All that are noted, by root, ascending; *now gets the server's time. */
extern int	mosql_clock_unnamed(MosqlStepper *clock, MosqlUnnamedTree **trees, MosqlTimestamp *now);
extern void mosql_clock_put_unnamed(MosqlStepper *clock, const MosqlUnnamedTree *trees, int n);
extern void mosql_clock_drop_unnamed(MosqlStepper *clock, const uint64 *roots, int n);

/* ---- trees that a transaction has given up, and that are to be destroyed ---- */

/* The roots of all, in the current context. */
extern int	mosql_clock_garbage(MosqlStepper *clock, uint64 **roots);
extern void mosql_clock_put_garbage(MosqlStepper *clock, const uint64 *roots, int n);
extern void mosql_clock_drop_garbage(MosqlStepper *clock, const uint64 *roots, int n);

/* ---- repair ---- */

/* What the clock has issued so far. */
typedef struct MosqlClockState
{
	bool		there;			/* it has a format, and all of it are numbers */
	MosqlTimestamp last;		/* or where it has leapt to, if that is later */
	uint64		sid;
	uint64		schema;
	MosqlTimestamp now;			/* the server's time */
} MosqlClockState;

/*
 * 0A000 if the namespace has another format than this program's, of which it may not understand, nor
 * change, anything.  No format, or damage in its place, is none.  One round trip.
 */
extern void mosql_clock_check_format(MosqlStepper *clock);

/*
 * What is left of the clock: its counters, or what registered snapshots and sessions say
 * if those are higher.  Damaged parts count as 0.
 */
extern void mosql_clock_read_state(MosqlStepper *clock, MosqlClockState *state);

/*
 * Make the clock's counters at least these; whatever holds another type than it should is
 * removed, so only of a namespace of our format, or none: else 0A000, and nothing is changed.
 */
extern void mosql_clock_rebuild(MosqlStepper *clock, const MosqlClockState *least);

/*
 * End somebody else's session, as if its lease had run out: then it is forgotten.  Returns
 * the end of its lease, 0 if it had none.
 */
extern MosqlTimestamp mosql_clock_end_session(MosqlStepper *clock, uint64 sid);

/*
 * Extend somebody else's lease, to lease_ms from now, or less if that is longer than it was
 * ever to be.  False if it has run out: it is never revived (rule 7).  Two round trips, or
 * one if it has more than three quarters left.
 */
extern bool mosql_clock_extend(MosqlStepper *clock, uint64 sid, int lease_ms);

/* ---- look again ---- */

/*
 * Raise the schema version, without a commit: whoever decides by the one before is refused,
 * and looks at his definitions, and at who has locked them, again.  Returns it.  One round trip.
 */
extern uint64 mosql_clock_raise_schema(MosqlStepper *clock);

/* ---- who is there? ---- */

/* A session that is not forgotten yet, and what the clock knows of it. */
typedef struct MosqlSessionState
{
	uint64		sid;
	MosqlTimestamp opened;		/* by its id, so no better than that: mosql_clock_drawn() */
	MosqlTimestamp lease;		/* its end; 0: it was ended */
	uint64		span;			/* how long a lease of it is at most, us */
	int			nsnapshots;		/* that it has registered */
	MosqlTimestamp oldest;		/* of them; MOSQL_TS_MAX: none */
	MosqlBytes	who;			/* what it said of itself; damaged, perhaps */
} MosqlSessionState;

/*
 * All of them by id, ascending, in the current context; *now gets the server's time.  Two
 * round trips.  What is damaged counts as 0: this is for those who look for the damage.
 */
extern int	mosql_clock_list_sessions(MosqlStepper *clock, MosqlSessionState **sessions,
									  MosqlTimestamp *now);

/* Unregister all snapshots of a session that needs none.  A round trip, or two. */
extern void mosql_clock_release_all(MosqlStepper *clock, uint64 sid);

/* ---- is there anything to do? ---- */

/*
 * The highest commit timestamp (0: none known), and whether a snapshot registered
 * before it may have kept old versions from being pruned.
 */
extern MosqlTimestamp mosql_clock_decided(MosqlStepper *clock, bool *held_back);

#endif							/* MOSQL_CLOCK_KEEP_H */
