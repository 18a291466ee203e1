/*
 * step_int.h: what the files of this layer share with each other only.
 */
#ifndef MOSQL_STEP_INT_H
#define MOSQL_STEP_INT_H

#include "base/limits.h"
#include "step/step.h"
#include "step/clock.h"

/*
 * How long a loop that starts over (a conflict in WATCH, a redirection inside
 * MULTI) goes on when its caller gave no budget.  Each single wait has the
 * client's command timeout besides.
 */
#define MOSQL_STEP_TIMEOUT_MS	10000

/*
 * From so many fields on, a step reads the whole hash: HMGET searches a
 * listpack from its start for every field, HGETALL passes over it once but
 * returns it all.  Measured on leaves of 120 rows and as many intents: equal
 * at 120 fields, HMGET a quarter faster at 40, HGETALL a third at 240.
 */
#define MOSQL_STEP_WHOLE_FIELDS	100

/* How far the clock leaps when another process takes over, microseconds: see
 * clock_lua.h, which has it as text. */
#define MOSQL_CLOCK_LEAP	2000000

/*
 * Where the clock leaps to at a time, from what it issued last.  It leapt to `leapt`, when
 * the time was `took`, the last time that it did so; 0: never.
 *
 * A process may find the same as one before it found: restarted from the same dump, once
 * more.  What that one has issued it does not know, and must not issue again.  By the time
 * alone it does not, if the time is beyond `last`: then later is further.  But `last` is
 * ahead of the time for a while after a leap, and a dump may be written then.  So as long
 * as it may be, half of the time that has passed since then is added: more than was issued
 * in it, for nobody issues a timestamp every two microseconds.  It is ahead no longer once it
 * has come as far again as the leap was ahead: with k issued in the time e since, that is
 * e < (leapt - took) + k and k <= e / 2, so k < leapt - took.
 */
static inline uint64
mosql_clock_leap(uint64 now, uint64 last, uint64 leapt, uint64 took)
{
	if (now > took && last < 2 * leapt - took)
		last += (now - took) / 2;
	return Max(last, now) + MOSQL_CLOCK_LEAP;
}

/*
 * The least session id to be given out at a time (us since 1970; the clock's, which is
 * beyond a predecessor's): 128 us since 2026-01-01 each.  So a clock that forgot which
 * ids it gave out gives out none of them again, unless more than 7812 were drawn a second
 * (rule 23).  MOSQL_SESSION_ID_BITS are enough until 2097.  clock_lua.h has the numbers
 * as text.
 */
#define MOSQL_CLOCK_EPOCH	UINT64CONST(1767225600000000)
#define MOSQL_CLOCK_ID		128

/* Sessions' leases are no longer than this, microseconds; those of prefixes are. */
#define MOSQL_CLOCK_LEASE	((uint64) MOSQL_LEASE_MS * 1000)

StaticAssertDecl(MOSQL_LEASE_MS == 60000, "clock_lua.h knows this number");
StaticAssertDecl(UINT64CONST(1) << MOSQL_SESSION_ID_BITS == UINT64CONST(17592186044416),
				 "clock_lua.h knows this number");

static inline uint64
mosql_clock_floor(uint64 now)
{
	return now > MOSQL_CLOCK_EPOCH ? (now - MOSQL_CLOCK_EPOCH) / MOSQL_CLOCK_ID : 0;
}

/* When an id was drawn, or somewhat later if others were drawn very fast. */
static inline MosqlTimestamp
mosql_clock_drawn(uint64 sid)
{
	return MOSQL_CLOCK_EPOCH + sid * MOSQL_CLOCK_ID;
}

#define LITERAL(s) mosql_bytes(s, sizeof(s) - 1)

/* --- evaluate.c --- */

/* One compare; image only for RANGE and COUNT, value for all others. */
extern bool mosql_step_holds(const MosqlCompare *compare, MosqlBytes value,
							 const MosqlNodeImage *image);

/* --- script.c: server-side scripts --- */
typedef struct MosqlScript
{
	const char *name;			/* for messages */
	const char *source;
	char		sha[41];		/* hex SHA1 of source, empty until first use */
} MosqlScript;

typedef struct MosqlScriptCall
{
	MosqlScript *script;
	uint16		slot;
	MosqlSendMode mode;
	int			argc;
	MosqlBytes *argv;			/* from mosql_script_argv */
	const MosqlReply *reply;	/* result: LOST only in mode ONCE */
	bool		durable;		/* wait for copies behind it */
	const MosqlBytes *touch;	/* HSET key field value, sent behind it; or NULL */
	MosqlNodesAlong *along;		/* of a call that runs alone: nodes that are read behind it; or NULL, as */
	const MosqlBytes *along_keys;	/* their keys are then */
} MosqlScriptCall;

#define MOSQL_TOUCH_ARGS 4

/*
 * An argument vector for a script: the first three elements are filled in, the
 * caller fills in nkeys keys and nargs arguments from index 3.
 */
extern MosqlBytes *mosql_script_argv(MosqlScript *script, int nkeys, int nargs);

/*
 * n calls of scripts, in parallel: one round trip, one more where a server does not
 * have one in its cache yet.  Replies may be errors (never NOSCRIPT).
 */
extern void mosql_script_run(MosqlRedis *redis, MosqlScriptCall *calls, int n, MosqlBudget *budget);

/* Send the source itself: for detached calls, which cannot be repeated. */
extern void mosql_script_send(MosqlRedis *redis, MosqlScript *script, uint16 slot,
							  int argc, MosqlBytes *argv,
							  MosqlReplyCallback done, void *arg);

/* A step as arguments of its script, from the plan on: at most how many, and to here. */
extern int	mosql_step_arguments(const MosqlStep *step);
extern MosqlBytes *mosql_step_put_arguments(const MosqlStepper *stepper, const MosqlStep *step,
											MosqlBytes *arg);

/* A step as a call; all but the reply. */
extern MosqlScriptCall mosql_step_call(const MosqlStepper *stepper, const MosqlStep *step);

/* The script's answer into the step on that key.  Throws for errors, and what is no such answer. */
extern void mosql_step_answered(const MosqlStepper *stepper, MosqlStep *step, MosqlBytes key,
								const MosqlReply *reply);

/* The call's vector gets the source itself. */
extern void mosql_script_use_source(const MosqlScript *script, MosqlBytes *argv);

/* Is the script of steps believed to be cached where a slot lives?  Note that it is, or is not. */
extern bool mosql_step_is_cached(const MosqlRedis *redis, uint16 slot);
extern void mosql_step_note_cached(const MosqlRedis *redis, uint16 slot, bool is);

/* NOSCRIPT. */
extern bool mosql_script_is_missing(const MosqlReply *reply);

/* --- message.c: steps for one server in one message --- */
extern void mosql_step_run_script(MosqlStepper *stepper, MosqlStep **steps, int n,
								  MosqlBudget *budget);

/* --- sha1.c --- */
extern void mosql_sha1_hex(const char *data, size_t len, char out[41]);

/* --- watch.c: optimistic transactions of Redis --- */

/* A group of commands under construction. */
typedef struct MosqlCommands
{
	int			n;
	int			size;
	int		   *argc;
	MosqlBytes **argv;
} MosqlCommands;

extern void mosql_commands_init(MosqlCommands *commands);

/* Append a command of argc arguments; returns them to be filled in. */
extern MosqlBytes *mosql_commands_add(MosqlCommands *commands, int argc);

/* Append a command whose arguments are at hand. */
#define mosql_commands_put(commands, ...) \
	mosql_commands_copy(commands, \
						lengthof(((MosqlBytes[]) {__VA_ARGS__})), \
						(MosqlBytes[]) {__VA_ARGS__})
extern void mosql_commands_copy(MosqlCommands *commands, int argc, const MosqlBytes *argv);

extern int	mosql_commands_batch(const MosqlCommands *commands, MosqlBatch *batch,
								 uint16 slot, MosqlSendMode mode, uint64 pin);

/* A new group that starts with MULTI; asking: for a slot that is moving. */
extern void mosql_commands_multi(MosqlCommands *commands, MosqlRedis *redis, bool asking);

/* What became of MULTI ... EXEC. */
typedef enum MosqlExec
{
	MOSQL_EXEC_DONE,
	MOSQL_EXEC_CONFLICT,		/* a watched key changed: nothing was written */
	MOSQL_EXEC_RESTART,			/* redirected: nothing was written */
	MOSQL_EXEC_LOST				/* unknown */
} MosqlExec;

/*
 * Throw for a budget that is spent while an outcome other than DONE asks for
 * another attempt.
 */
extern void mosql_watch_give_up(MosqlExec outcome) pg_attribute_noreturn();

/*
 * The outcome of a group of n commands that ends with EXEC; *exec gets the array of replies for DONE.  Throws for errors other
 * than redirections, also for one inside EXEC's replies; WRONGTYPE as XX001
 * naming the key.
 */
extern MosqlExec mosql_watch_outcome(const MosqlBatch *batch, int group, int n,
									 MosqlBytes key, const MosqlReply **exec);

extern void mosql_step_run_watch(MosqlStepper *stepper, MosqlStep **steps, int n,
								 MosqlBudget *budget);

/*
 * Parts of a step, for who makes groups of his own (one_step_watch.c).  Reads: the command that reads all that the step
 * is about, none (0) or one.  Evaluate: its reply into the step, but the number of fields; behind the values of its reads are
 * those of the fields whose writes depend on them.  Writes: what they are after such values, in that order, and messages to who is
 * let in; false if nothing is to be changed.
 */
extern int	mosql_watch_add_reads(MosqlCommands *commands, const MosqlStep *step, MosqlBytes key);
extern void mosql_watch_evaluate(MosqlStep *step, const MosqlReply *reply);
extern bool mosql_watch_add_writes(MosqlCommands *commands, MosqlBytes key, const MosqlWrite *writes, int n,
								   const MosqlBytes *old);

/* --- step.c --- */

/* The Redis key of a node, palloc'ed. */
extern MosqlBytes mosql_step_key(const MosqlStepper *stepper, uint64 node);

/* Where the owner of a wait on a node is told that it has its lock (step.h). */
extern MosqlBytes mosql_step_wake_key(MosqlBytes node_key, MosqlBytes owner);

/*
 * Throw if reply is an error; WRONGTYPE as XX001 naming the key.  Also throws
 * (XX000) when it is not of the expected kind.
 */
extern void mosql_step_check(const MosqlReply *reply, MosqlReplyKind expected, MosqlBytes key);

/* The i-th element of an array; 08P01 if the reply is no array that long. */
extern const MosqlReply *mosql_step_elem(const MosqlReply *reply, int i);

/* The same, of a text, which has no zero in it or ends there; 08P01 if it is none. */
extern MosqlBytes mosql_step_text(const MosqlReply *reply, int i);

/* Refused for where or when it was sent: not executed, worth another attempt. */
extern bool mosql_step_is_redirection(const MosqlReply *reply);

/* A reply's bytes; absent for nil. */
static inline MosqlBytes
mosql_reply_bytes(const MosqlReply *reply)
{
	return reply->kind == MOSQL_REPLY_STRING ? reply->str : MOSQL_ABSENT;
}

/* An unsigned number, as integer or as decimal string; 0 for nil. */
extern uint64 mosql_reply_u64(const MosqlReply *reply);

/* The fields of a HGETALL reply. */
extern void mosql_step_image(const MosqlReply *reply, uint64 node, MosqlNodeImage *image);

/* --- clock_script.c, clock_watch.c --- */

/* What a session that opens notes of itself. */
static inline MosqlBytes
mosql_clock_who(const MosqlStepper *clock)
{
	const char *who = clock->who != NULL ? clock->who : "";

	Assert(who[0] != 'C');		/* that is a committed record */
	return mosql_bytes(who, strlen(who));
}

/* The names of a clock's keys, its slot, and numbers as text. */
typedef struct MosqlClockKeys
{
	uint16		slot;
	MosqlBytes	counter;		/* ...:c */
	MosqlBytes	ends;			/* ...:e */
	MosqlBytes	snapshots;		/* ...:p */
	MosqlBytes	dead;			/* ...:d */
	MosqlBytes	outcomes;		/* ...:o */
	MosqlBytes	jobs;			/* ...:j */
	MosqlBytes	sizes;			/* ...:z */
	MosqlBytes	unnamed;		/* ...:u */
	MosqlBytes	garbage;		/* ...:g */
	MosqlBytes	waits;			/* ...:w */
	MosqlBytes	signs;			/* ...:a:, before a session's id */
	MosqlBytes	prefix;			/* ...:s: */
} MosqlClockKeys;

extern MosqlClockKeys mosql_clock_keys(const char *ns);
extern uint16 mosql_clock_slot(const char *ns);
extern MosqlBytes mosql_clock_session_key(const MosqlClockKeys *keys, uint64 sid);
extern MosqlBytes mosql_clock_number(uint64 n);
extern MosqlBytes mosql_clock_snapshot_field(uint64 sid, uint64 snapid);

/*
 * The command that gets what a clock's step has read into the replication
 * stream: MOSQL_TOUCH_ARGS arguments, palloc'ed.  In durable mode it is sent
 * behind steps that may report what somebody else wrote.
 */
extern MosqlBytes *mosql_clock_touch(const MosqlClockKeys *keys);

/* A record as stored; absent gives NONE; damaged bytes are XX001. */
extern MosqlRecord mosql_clock_record(const MosqlClockKeys *keys, uint64 sid, MosqlBytes stored);

/* A time of the clock as it came from Redis: XX001 for one that is never issued. */
extern MosqlTimestamp mosql_clock_time(const MosqlClockKeys *keys, uint64 ts);

/* A registered snapshot, by its score: XX001 for what none is. */
extern MosqlTimestamp mosql_clock_snapshot_time(const MosqlClockKeys *keys, const MosqlReply *score);

/*
 * A snapshot list from replies: `last`; the newest MOSQL_CLOCK_NEWEST snapshots, descending, each
 * stride-th of the array a score; and the score of the oldest.  If that is NULL or nil, or
 * those are fewer, all are there.
 */
extern MosqlSnapshotList mosql_clock_list(const MosqlClockKeys *keys, const MosqlReply *last,
										  const MosqlReply *newest, int stride,
										  const MosqlReply *oldest);

/* The version of the data layout, in the field "format" of ...:c */
#define MOSQL_CLOCK_FORMAT "10"
extern void mosql_clock_refuse_format(const MosqlClockKeys *keys, MosqlBytes found) pg_attribute_noreturn();

/* Sessions that ran out, forgotten by one open. */
#define MOSQL_CLOCK_SWEEP	16

/* Records dropped by one call; unpack() in Lua has room for fewer than 8000. */
#define MOSQL_CLOCK_DROPS	1000

typedef struct MosqlClockEngine
{
	uint64		(*open) (MosqlStepper *, int lease_ms, bool found, uint64 *schema);
	void		(*close) (MosqlStepper *, uint64 sid);
	bool		(*snapshot) (MosqlStepper *, uint64 sid, uint64 snapid, int lease_ms,
							 MosqlTimestamp *S, uint64 *schema, MosqlNodesAlong *along);
	MosqlDecision (*decide) (MosqlStepper *, const MosqlDecideArgs *, MosqlTimestamp *,
							 MosqlSnapshotList *, uint64 *schema, MosqlBudget *);
	void		(*status) (MosqlStepper *, const MosqlTxid *, int n, MosqlRecord *,
						   MosqlSnapshotList *);
	void		(*abort) (MosqlStepper *, MosqlTxid, MosqlRecord *, MosqlSnapshotList *);
	void		(*settle) (MosqlStepper *, MosqlTxid, MosqlRecord *, MosqlSnapshotList *,
						   MosqlBudget *);
	void		(*drop) (MosqlStepper *, uint64 sid, const uint64 *ns, int n);
	void		(*snapshots) (MosqlStepper *, MosqlSnapshotList *, uint64 *schema);
	bool		(*reap) (MosqlStepper *, uint64 sid, const uint64 *ns, int n);
	void		(*sessions) (MosqlStepper *, MosqlSessions *);
	int			(*expire) (MosqlStepper *, int max);
} MosqlClockEngine;

extern const MosqlClockEngine mosql_clock_script;
extern const MosqlClockEngine mosql_clock_watch;

/* --- one_step_watch.c: mosql_clock_commit() of engine `watch` --- */
extern MosqlDecision mosql_clock_commit_by_watch(MosqlStepper *clock, const MosqlDecideArgs *args, MosqlStep **steps,
												 int nsteps, MosqlTimestamp *ts, MosqlSnapshotList *list, uint64 *schema,
												 MosqlBudget *budget);

#endif							/* MOSQL_STEP_INT_H */
