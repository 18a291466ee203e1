/*
 * message.c: the engine `script` for steps: those for one server in one message.
 *
 * Layer: step.  Steps that run in parallel, or are sent together, are for a few servers.  Those for one
 * are one call of the script (step_lua.h), which runs one after the other; each is the
 * mini-transaction that it is alone, with an answer of its own.  A step that the server
 * does not serve there was not done, and is sent alone, to be redirected or to fail as ever.
 *
 *     steps --gather--> messages --run--> answers
 *                                   \--> left alone --run--> answers
 *
 * Why that is the same protocol: docs/commit.md, "One message per server".
 */
#include "step/step_int.h"

bool		mosql_step_messages = true;

/* A step alone, or several for one server. */
typedef struct Message
{
	int			route;			/* -1: not known */
	int			n;
	int			first;			/* of its steps; the others by `next` */
	int			last;
	int			argc;
	size_t		bytes;
} Message;

struct MosqlMessages
{
	MosqlStepper *stepper;
	MosqlStep **steps;
	MosqlScriptCall *alone;		/* per step: as it is sent alone */
	int		   *next;			/* per step: the next one in its message, or -1 */
	int			n;				/* messages */
	int			sent;
	Message    *messages;
};

static size_t
call_bytes(const MosqlScriptCall *call)
{
	size_t		bytes = 0;

	for (int i = 3; i < call->argc; i++)
		bytes += call->argv[i].len;
	return bytes;
}

/*
 * The message that a step may be added to: the last one for its server, if its steps are sent alike and
 * there is room.
 */
static Message *
find_room(const MosqlMessages *all, const MosqlScriptCall *call, int route, size_t bytes)
{
	for (int m = all->n - 1; m >= 0 && route >= 0; m--)
	{
		Message    *message = &all->messages[m];
		const MosqlScriptCall *other = &all->alone[message->first];

		if (message->route == route)
			return other->mode == call->mode && other->durable == call->durable &&
				message->n < MOSQL_MESSAGE_MAX_STEPS &&
				message->bytes + bytes <= MOSQL_MESSAGE_MAX_BYTES ? message : NULL;
	}
	return NULL;
}

static void
add_step(MosqlMessages *all, int i, bool together)
{
	const MosqlScriptCall *call = &all->alone[i];
	int			route = together ? mosql_redis_route(all->stepper->redis, call->slot) : -1;
	size_t		bytes = together ? call_bytes(call) : 0;
	Message    *message = find_room(all, call, route, bytes);

	all->next[i] = -1;
	if (message == NULL)
	{
		message = &all->messages[all->n++];
		*message = (Message) {.route = route, .first = i, .last = i, .argc = 3};
	}
	else
		all->next[message->last] = i;
	message->last = i;
	message->n++;
	message->argc += 2 + call->argc - 4;
	message->bytes += bytes;
}

MosqlMessages *
mosql_step_gather(MosqlStepper *stepper, MosqlStep **steps, int n)
{
	MosqlMessages *all = palloc0(sizeof(MosqlMessages));
	bool		together = n > 1 && mosql_step_messages &&
		(stepper->alone_until_us == 0 || mosql_now_us() >= stepper->alone_until_us);

	Assert(stepper->engine == MOSQL_ENGINE_SCRIPT);
	all->stepper = stepper;
	all->steps = steps;
	all->alone = palloc(n * sizeof(MosqlScriptCall));
	all->next = palloc(n * sizeof(int));
	all->messages = palloc(n * sizeof(Message));
	for (int i = 0; i < n; i++)
	{
		all->alone[i] = mosql_step_call(stepper, steps[i]);
		add_step(all, i, together);
	}
	return all;
}

/* See step_lua.h for keys, of which a message has none, and arguments. */
static MosqlScriptCall
message_call(const MosqlMessages *all, const Message *message)
{
	MosqlScriptCall call = all->alone[message->first];
	MosqlBytes *arg;

	if (message->n == 1)
		return call;
	arg = call.argv = mosql_script_argv(call.script, 0, message->argc - 3);
	call.argc = message->argc;
	arg += 3;
	for (int i = message->first; i >= 0; i = all->next[i])
	{
		const MosqlScriptCall *step = &all->alone[i];
		int			nargs = step->argc - 4;

		*arg++ = step->argv[3];
		*arg++ = mosql_clock_number(nargs);
		memcpy(arg, step->argv + 4, nargs * sizeof(MosqlBytes));
		arg += nargs;
	}
	Assert(arg == call.argv + call.argc);
	return call;
}

/*
 * A reply that has an answer for each of n steps; one that is lost has none; false: the message was refused as
 * a whole, and its steps may be sent again: who refuses scripts without keys perhaps takes them.
 */
static bool
has_answers(const MosqlScriptCall *call, int n)
{
	const MosqlReply *reply = call->reply;

	if (reply->kind == MOSQL_REPLY_LOST)
		return true;
	if (reply->kind == MOSQL_REPLY_ERROR && call->mode == MOSQL_SEND_REPEATABLE)
		return false;
	mosql_step_check(reply, MOSQL_REPLY_ARRAY, call->argv[3]);
	if (reply->n != n)
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("Redis answered %d steps with %d answers", n, reply->n)));
	return true;
}

/* Answers to the steps; those that were not done, for where they were sent, go to `left`. */
static int
answer(MosqlMessages *all, const Message *message, const MosqlScriptCall *call, int *left, int nleft)
{
	MosqlStepper *stepper = all->stepper;
	const MosqlReply *reply = call->reply;
	bool		together = message->n > 1;
	bool		refused = together && !has_answers(call, message->n);
	int			k = 0;

	for (int i = message->first; i >= 0; i = all->next[i], k++)
	{
		const MosqlReply *own = together && reply->kind == MOSQL_REPLY_ARRAY ? reply->elem[k] : reply;

		if (refused || (together && own->kind == MOSQL_REPLY_NIL))
		{
			left[nleft++] = i;
			continue;
		}
		mosql_step_answered(stepper, all->steps[i], all->alone[i].argv[3], own);
		if (own->kind != MOSQL_REPLY_LOST)
			mosql_step_note_cached(stepper->redis, all->alone[i].slot, true);
	}
	return nleft;
}

/* Steps that were not done in a message, each alone. */
static void
run_left(MosqlMessages *all, const int *left, int n, MosqlBudget *budget)
{
	MosqlStepper *stepper = all->stepper;
	MosqlScriptCall *calls = palloc(n * sizeof(MosqlScriptCall));

	stepper->alone_until_us = mosql_now_us() + MOSQL_MESSAGE_PAUSE_MS * 1000;
	for (int k = 0; k < n; k++)
		calls[k] = all->alone[left[k]];
	mosql_script_run(stepper->redis, calls, n, budget);
	for (int k = 0; k < n; k++)
		mosql_step_answered(stepper, all->steps[left[k]], calls[k].argv[3], calls[k].reply);
}

void
mosql_step_run_script(MosqlStepper *stepper, MosqlStep **steps, int n, MosqlBudget *budget)
{
	MosqlMessages *all = mosql_step_gather(stepper, steps, n);
	MosqlScriptCall *calls = palloc(all->n * sizeof(MosqlScriptCall));
	int		   *left = palloc(n * sizeof(int));
	int			nleft = 0;

	for (int m = 0; m < all->n; m++)
		calls[m] = message_call(all, &all->messages[m]);
	mosql_script_run(stepper->redis, calls, all->n, budget);
	for (int m = 0; m < all->n; m++)
		nleft = answer(all, &all->messages[m], &calls[m], left, nleft);
	if (nleft > 0)
		run_left(all, left, nleft, budget);
}

/* ---- detached ---- */

/* What a detached message remembers until its reply is here. */
typedef struct Detached
{
	MosqlRedis *redis;
	MosqlStepCallback done;
	void	   *arg;
	int			n;
	uint16		slots[MOSQL_MESSAGE_MAX_STEPS];
} Detached;

/* What the answer to a step says; NULL, or what is none, is LOST. */
static MosqlStepStatus
detached_status(const MosqlReply *reply, int *nfields)
{
	*nfields = 0;
	if (reply == NULL || reply->kind != MOSQL_REPLY_ARRAY || reply->n < 2 ||
		reply->elem[0]->kind != MOSQL_REPLY_INTEGER || reply->elem[1]->kind != MOSQL_REPLY_INTEGER)
		return MOSQL_STEP_LOST;
	*nfields = (int) reply->elem[1]->integer;
	return reply->elem[0]->integer < 0 ? MOSQL_STEP_DONE : MOSQL_STEP_FAILED;
}

static void
detached_done(void *arg, const MosqlReply *reply)
{
	Detached	detached = *(Detached *) arg;
	bool		missing = mosql_script_is_missing(reply);

	pfree(arg);
	for (int i = 0; i < detached.n; i++)
	{
		const MosqlReply *own = reply;
		MosqlStepStatus status;
		int			nfields;

		if (detached.n > 1)
			own = reply->kind == MOSQL_REPLY_ARRAY && reply->n == detached.n ? reply->elem[i] : NULL;
		status = detached_status(own, &nfields);
		if (missing || status != MOSQL_STEP_LOST)
			mosql_step_note_cached(detached.redis, detached.slots[i], !missing);
		if (detached.done != NULL)
			detached.done(detached.arg, status, nfields);
	}
}

int
mosql_messages_next(const MosqlMessages *messages)
{
	return messages->sent < messages->n ? messages->messages[messages->sent].n : 0;
}

void
mosql_messages_send(MosqlMessages *messages, MosqlStepCallback done, void *arg)
{
	const Message *message = &messages->messages[messages->sent++];
	MosqlScriptCall call = message_call(messages, message);
	MosqlRedis *redis = messages->stepper->redis;
	Detached   *detached = MemoryContextAlloc(TopMemoryContext, sizeof(Detached));

	*detached = (Detached) {redis, done, arg};
	for (int i = message->first; i >= 0; i = messages->next[i])
		detached->slots[detached->n++] = messages->alone[i].slot;
	if (!mosql_step_is_cached(redis, call.slot))
		mosql_script_use_source(call.script, call.argv);
	if (call.durable)
		mosql_redis_send_durable(redis, call.slot, call.argc, call.argv, detached_done, detached);
	else
		mosql_redis_send(redis, call.slot, call.argc, call.argv, detached_done, detached);
}

void
mosql_step_send(MosqlStepper *stepper, MosqlStep *step, MosqlStepCallback done, void *arg)
{
	Assert(stepper->engine == MOSQL_ENGINE_SCRIPT);
	mosql_messages_send(mosql_step_gather(stepper, &step, 1), done, arg);
}
