/*
 * clock_watch_int.h: a function of the clock as one optimistic transaction of
 * Redis: a read group, then a write group on the same connection.
 *
 * Layer: step.  Shared by clock_watch.c, the engine, one_step_watch.c, and clock_keep.c, which
 * knows no other way.  See watch.c for what is behind UNWATCH and the pin.
 */
#ifndef MOSQL_CLOCK_WATCH_INT_H
#define MOSQL_CLOCK_WATCH_INT_H

#include "step/step_int.h"
#include "base/stats.h"

/* One function under way. */
typedef struct Watch
{
	MosqlStepper *clock;
	MosqlClockKeys keys;
	MosqlBudget *budget;		/* of each batch; may be NULL */
	MosqlBudget own;			/* of all attempts */
	MosqlCommands commands;		/* the group being made or run */
	MosqlBatch *batch;
	int			group;
	uint64		connection;		/* of the read group */
	MosqlExec	outcome;		/* of the last write group */
	const MosqlReply *exec;		/* replies inside EXEC */
	uint64		now;			/* the server's time, from the read group */
	bool		once;			/* too few copies: LOST, not an error */
} Watch;

static inline Watch
watch_start(MosqlStepper *clock, MosqlBudget *budget)
{
	Watch		watch = {.clock = clock,.budget = budget};

	watch.keys = mosql_clock_keys(clock->ns);
	watch.own = budget != NULL ? *budget : mosql_budget_start(MOSQL_STEP_TIMEOUT_MS);
	watch.own.attempts = 0;
	return watch;
}

static inline void
run_group(Watch *watch, MosqlSendMode mode, uint64 pin, bool durable)
{
	watch->batch = mosql_batch_create(watch->clock->redis, CurrentMemoryContext);
	watch->group = mosql_commands_batch(&watch->commands, watch->batch, watch->keys.slot, mode, pin);
	if (durable && watch->clock->durable)
		mosql_batch_make_durable(watch->batch, watch->group);
	mosql_batch_run(watch->batch, watch->budget);
}

/* --- the read group: UNWATCH, WATCH, TIME, then whatever is added --- */

#define READ_FIRST 3

static inline void
read_begin_on(Watch *watch, const MosqlBytes *keys, int n)
{
	MosqlBytes *argv;

	mosql_commands_init(&watch->commands);
	mosql_commands_put(&watch->commands, LITERAL("UNWATCH"));
	argv = mosql_commands_add(&watch->commands, 1 + n);
	argv[0] = LITERAL("WATCH");
	memcpy(argv + 1, keys, n * sizeof(MosqlBytes));
	mosql_commands_put(&watch->commands, LITERAL("TIME"));
}

static inline void
read_begin(Watch *watch, MosqlBytes key1, MosqlBytes key2)
{
	MosqlBytes	keys[] = {key1, key2};

	read_begin_on(watch, keys, key2.data != NULL ? 2 : 1);
}

/* The i-th reply after TIME. */
static inline const MosqlReply *
read_reply(const Watch *watch, int i)
{
	return mosql_batch_reply(watch->batch, watch->group, READ_FIRST + i);
}

static inline void
run_reads(Watch *watch)
{
	run_group(watch, MOSQL_SEND_REPEATABLE, 0, false);
	for (int i = 0; i < watch->commands.n; i++)
	{
		const MosqlReply *reply = mosql_batch_reply(watch->batch, watch->group, i);

		if (reply->kind == MOSQL_REPLY_ERROR)
			mosql_step_check(reply, MOSQL_REPLY_STATUS, watch->keys.prefix);
	}
}

/* It is answered, and nothing in it is an error. */
static inline void
read_done(Watch *watch)
{
	const MosqlReply *time = read_reply(watch, -1);

	mosql_step_check(time, MOSQL_REPLY_ARRAY, watch->keys.prefix);
	watch->now = mosql_reply_u64(mosql_step_elem(time, 0)) * 1000000 +
		mosql_reply_u64(mosql_step_elem(time, 1));
	watch->connection = mosql_batch_connection(watch->batch, watch->group);
}

static inline void
read_run(Watch *watch)
{
	run_reads(watch);
	read_done(watch);
}

/* --- the write group: MULTI, whatever is added, EXEC --- */

static inline void
write_begin(Watch *watch)
{
	mosql_commands_multi(&watch->commands, watch->clock->redis,
						 watch->outcome == MOSQL_EXEC_RESTART);
}

/*
 * What is read inside it may not be lost either; any write to this server sees
 * to that.
 */
static inline void
add_touch(Watch *watch)
{
	if (watch->clock->durable)
		mosql_commands_copy(&watch->commands, MOSQL_TOUCH_ARGS, mosql_clock_touch(&watch->keys));
}

static inline MosqlExec
write_run_as(Watch *watch, bool durable)
{
	const MosqlReply *last;

	mosql_commands_put(&watch->commands, LITERAL("EXEC"));
	run_group(watch, MOSQL_SEND_PINNED, watch->connection, durable);
	last = mosql_batch_reply(watch->batch, watch->group, watch->commands.n - 1);
	if (mosql_reply_is_short(last) && !watch->once)
		mosql_redis_raise_short(watch->clock->redis, last);
	watch->outcome = mosql_watch_outcome(watch->batch, watch->group, watch->commands.n,
										 watch->keys.prefix, &watch->exec);
	return watch->outcome;
}

static inline MosqlExec
write_run(Watch *watch)
{
	return write_run_as(watch, true);
}

/* Before another attempt: pause, or give up. */
static inline void
start_over(Watch *watch)
{
	if (watch->outcome == MOSQL_EXEC_CONFLICT)
		mosql_stats.step_retries++;
	if (!mosql_budget_pause(&watch->own))
		mosql_watch_give_up(watch->outcome);
}

/* The same group without WATCH: atomic, repeatable. */
static inline void
run_atomic(Watch *watch, bool durable)
{
	mosql_commands_put(&watch->commands, LITERAL("EXEC"));
	for (;;)
	{
		run_group(watch, MOSQL_SEND_REPEATABLE, 0, durable);
		watch->outcome = mosql_watch_outcome(watch->batch, watch->group, watch->commands.n,
											 watch->keys.prefix, &watch->exec);
		if (watch->outcome == MOSQL_EXEC_DONE)
			return;
		start_over(watch);
	}
}

/*
 * --- reads alone, one after the other, on one connection ---
 *
 * For what needs no more.  A Redis that is full refuses all commands between MULTI and
 * EXEC, but no reads.
 */

static inline void
plain_begin(Watch *watch)
{
	mosql_commands_init(&watch->commands);
}

/* The i-th reply. */
static inline const MosqlReply *
plain_reply(const Watch *watch, int i)
{
	return mosql_batch_reply(watch->batch, watch->group, i);
}

/* --- parts --- */

static inline bool
is_dead(const Watch *watch, MosqlBytes lease)
{
	return lease.data == NULL || strtoull(lease.data, NULL, 10) < watch->now;
}

/* Extend a lease with less than half of its length left, or one impossibly long. */
static inline void
add_extend(Watch *watch, uint64 sid, MosqlBytes lease, int lease_ms)
{
	uint64		left = strtoull(lease.data, NULL, 10) - watch->now;
	uint64		length = (uint64) lease_ms * 1000;
	MosqlBytes	ends = mosql_clock_number(watch->now + length);

	if (left >= length / 2 && left <= MOSQL_CLOCK_LEASE)
		return;
	mosql_commands_put(&watch->commands, LITERAL("HSET"),
					   mosql_clock_session_key(&watch->keys, sid), LITERAL("lease"), ends);
	mosql_commands_put(&watch->commands, LITERAL("ZADD"), watch->keys.ends, ends,
					   mosql_clock_number(sid));
}

/* --- a decision (clock_watch.c) --- */

/* What the clock has issued, as the read group found it. */
typedef struct Issued
{
	uint64		last;
	uint64		schema;
	uint64		leapt;			/* see mosql_clock_leap() */
	uint64		took;
	MosqlBytes	me;				/* master_replid of the server that answers */
	bool		foreign;		/* another one issued last */
} Issued;

#define ISSUED_COMMANDS 2

/* What it goes by. */
typedef struct WatchDecision
{
	MosqlBytes	session;		/* its key */
	MosqlBytes	n;
	Issued		issued;
	const MosqlReply *s;		/* lease, record, and the records that are to be dropped */
	MosqlRecord record;
} WatchDecision;

/* In a read group that watches the counter and the session: the first commands behind TIME.  And when it is answered. */
#define DECISION_COMMANDS (ISSUED_COMMANDS + 1)
extern void mosql_watch_add_decision(Watch *watch, const MosqlDecideArgs *args, WatchDecision *decision);
extern void mosql_watch_read_decision(const Watch *watch, const MosqlDecideArgs *args, WatchDecision *decision);

/* Why it is refused; DECIDED: it is not, or was made before (its record is COMMITTED). */
extern MosqlDecision mosql_watch_judge_decision(const Watch *watch, const MosqlDecideArgs *args,
												const WatchDecision *decision);

/* Two commands: the snapshots, a bounded list or all; and the list of their replies, `last` before them. */
extern void mosql_watch_add_snapshots(Watch *watch, bool all);
extern MosqlSnapshotList mosql_watch_read_list(const Watch *watch, const MosqlReply *last, const MosqlReply *oldest,
											   const MosqlReply *newest, bool all);

/* In the write group. */
extern void mosql_watch_write_decision(Watch *watch, const MosqlDecideArgs *args, const WatchDecision *decision,
									   MosqlTimestamp ts, uint64 schema);

#endif							/* MOSQL_CLOCK_WATCH_INT_H */
