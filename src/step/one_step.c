/*
 * one_step.c: a commit that is one step.
 *
 * Layer: step.  The rules are 35 and 36 of docs/commit.md; one_step_lua.h does the work, or, for engine `watch`,
 * one_step_watch.c.
 */
#include "step/one_step.h"

#include "step/one_step_lua.h"
#include "step/step_int.h"

static MosqlScript one_step_script = {.name = "one step", .source = one_step_lua};

bool
mosql_one_step_is_possible(const MosqlStepper *clock)
{
	return !mosql_redis_waits(clock->redis) &&
		(clock->engine == MOSQL_ENGINE_SCRIPT || !mosql_redis_is_cluster(clock->redis));
}

bool
mosql_one_step_reaches(const MosqlStepper *clock, uint64 node)
{
	MosqlBytes	key;
	int			route;

	if (!mosql_redis_is_cluster(clock->redis))
		return true;
	key = mosql_step_key(clock, node);
	route = mosql_redis_route(clock->redis, mosql_redis_slot(key));
	pfree(unconstify(char *, key.data));	/* many may be asked about (txn/session.c) */
	return route >= 0 && route == mosql_redis_route(clock->redis, mosql_clock_slot(clock->ns));
}

#define INCREMENT_BYTES	13

bool
mosql_step_increment(StringInfo out, const MosqlIncrement *inc, int ninc)
{
	for (int i = 0; i < ninc; i++)
	{
		int64		bound = inc[i].width == 8 ? PG_INT64_MAX : (INT64CONST(1) << (8 * inc[i].width - 1)) - 1;

		if (inc[i].delta > bound || inc[i].delta < -bound)
			return false;
		for (int at = 24; at >= 0; at -= 8)
			appendStringInfoCharMacro(out, (char) (inc[i].column >> at));
		appendStringInfoCharMacro(out, (char) inc[i].width);
		for (int at = 56; at >= 0; at -= 8)
			appendStringInfoCharMacro(out, (char) ((uint64) inc[i].delta >> at));
	}
	return true;
}

int
mosql_step_read_increment(MosqlBytes value, MosqlIncrement **inc)
{
	int			n = (int) (value.len / INCREMENT_BYTES);

	*inc = palloc((n + 1) * sizeof(MosqlIncrement));
	for (int i = 0; i < n; i++)
	{
		const uint8 *p = (const uint8 *) value.data + i * INCREMENT_BYTES;

		(*inc)[i] = (MosqlIncrement)
		{
			(uint32) p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3], p[4], mosql_read_int((const char *) p + 5, 8)
		};
	}
	return n;
}

#define FIXED_ARGUMENTS	8

static int
count_arguments(const MosqlDecideArgs *args, MosqlStep *const *steps, int nsteps)
{
	int			n = FIXED_ARGUMENTS + args->ndrops;

	for (int i = 0; i < nsteps; i++)
		n += 1 + mosql_step_arguments(steps[i]);
	return n;
}

/* See one_step_lua.h for keys and arguments. */
static int
put_call(MosqlStepper *clock, const MosqlClockKeys *keys, const MosqlDecideArgs *args,
		 MosqlStep **steps, int nsteps, MosqlBytes *argv)
{
	MosqlBytes *arg = argv + 3;

	*arg++ = keys->counter;
	*arg++ = mosql_clock_session_key(keys, args->tx.session);
	*arg++ = keys->ends;
	*arg++ = keys->snapshots;
	*arg++ = mosql_clock_number(args->tx.n);
	*arg++ = mosql_clock_number(args->schema);
	*arg++ = mosql_clock_number(args->tx.session);
	*arg++ = mosql_clock_number((uint64) args->lease_ms * 1000);
	*arg++ = mosql_clock_number(args->ndrops);
	*arg++ = args->parts;
	*arg++ = mosql_clock_number(clock->durable ? 0 : args->since);
	*arg++ = mosql_clock_number(args->all_snapshots);
	Assert(arg == argv + 3 + 4 + FIXED_ARGUMENTS);
	for (int i = 0; i < args->ndrops; i++)
		*arg++ = mosql_clock_number(args->drops[i]);
	for (int i = 0; i < nsteps; i++)
	{
		*arg++ = mosql_step_key(clock, steps[i]->node);
		arg = mosql_step_put_arguments(clock, steps[i], arg);
	}
	return arg - argv;
}

/* Nothing was written: which compare of which step did not hold, if that was it? */
static void
answer_failure(MosqlStep **steps, int nsteps, const MosqlReply *reply)
{
	int64		at;

	if (reply->kind != MOSQL_REPLY_ARRAY || reply->n < 5)
		return;
	at = mosql_step_elem(reply, 2)->integer;
	if (at < 0 || at >= nsteps)
		return;
	steps[at]->status = MOSQL_STEP_FAILED;
	steps[at]->failed = (int) mosql_step_elem(reply, 3)->integer;
	steps[at]->values = palloc(sizeof(MosqlBytes));
	steps[at]->values[0] = mosql_reply_bytes(mosql_step_elem(reply, 4));
}

/* Whatever it is that decide does not answer as well, and errors, are AT_ONCE. */
static MosqlDecision
answer_decision(const MosqlReply *reply)
{
	int64		decision;

	if (reply->kind != MOSQL_REPLY_ARRAY || reply->n < 2)
		return MOSQL_REFUSED_AT_ONCE;
	decision = mosql_step_elem(reply, 0)->integer;
	return decision >= MOSQL_DECIDED && decision <= MOSQL_REFUSED_FORGOTTEN ? (MosqlDecision) decision :
		MOSQL_REFUSED_AT_ONCE;
}

static void
answer_steps(MosqlStep **steps, int nsteps, const MosqlReply *reply)
{
	for (int i = 0; i < nsteps; i++)
	{
		steps[i]->status = MOSQL_STEP_DONE;
		steps[i]->values = palloc(sizeof(MosqlBytes));
		steps[i]->values[0] = mosql_reply_bytes(mosql_step_elem(reply, 5 + 2 * i));
		steps[i]->nfields = (int) mosql_step_elem(reply, 6 + 2 * i)->integer;
	}
}

static MosqlDecision
commit_by_script(MosqlStepper *clock, const MosqlDecideArgs *args, MosqlStep **steps, int nsteps,
				 MosqlTimestamp *ts, MosqlSnapshotList *list, uint64 *schema, MosqlBudget *budget)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlScriptCall call = {&one_step_script, keys.slot, MOSQL_SEND_ONCE};
	MosqlDecision decision;

	call.argv = mosql_script_argv(&one_step_script, 4, count_arguments(args, steps, nsteps));
	call.argc = put_call(clock, &keys, args, steps, nsteps, call.argv);
	call.durable = clock->durable;
	mosql_script_run(clock->redis, &call, 1, budget);
	if (call.reply->kind == MOSQL_REPLY_LOST)
		return MOSQL_DECISION_LOST;
	decision = answer_decision(call.reply);
	if (decision == MOSQL_REFUSED_AT_ONCE)
	{
		answer_failure(steps, nsteps, call.reply);
		return decision;
	}
	*schema = mosql_reply_u64(mosql_step_elem(call.reply, 1));
	if (decision != MOSQL_DECIDED)
		return decision;
	*ts = mosql_reply_u64(mosql_step_elem(call.reply, 2));
	*ts = mosql_clock_time(&keys, *ts);
	if (args->parts.len > 0)
		*list = mosql_clock_list(&keys, mosql_step_elem(call.reply, 2), mosql_step_elem(call.reply, 3), 1,
								 mosql_step_elem(call.reply, 4));
	answer_steps(steps, nsteps, call.reply);
	return MOSQL_DECIDED;
}

MosqlDecision
mosql_clock_commit(MosqlStepper *clock, const MosqlDecideArgs *args, MosqlStep **steps, int nsteps,
				   MosqlTimestamp *ts, MosqlSnapshotList *list, uint64 *schema, MosqlBudget *budget)
{
	Assert(!args->schema_change);
	*ts = 0;
	if (args->ndrops > MOSQL_CLOCK_DROPS || !mosql_one_step_is_possible(clock))
		return MOSQL_REFUSED_AT_ONCE;
	return (clock->engine == MOSQL_ENGINE_SCRIPT ? commit_by_script : mosql_clock_commit_by_watch)
		(clock, args, steps, nsteps, ts, list, schema, budget);
}
