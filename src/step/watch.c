/*
 * watch.c: the engine `watch`: optimistic transactions of Redis.
 *
 * Layer: step.  One step is two groups of commands on one connection:
 *
 *     read   UNWATCH, WATCH key, HMGET key fields (or HGETALL), HLEN key
 *     write  MULTI, HDEL, HSET, HLEN, EXEC
 *
 * The compares are made here in between.  EXEC answers nil, and does nothing,
 * if the key was touched since WATCH; then the step starts over.
 *
 * A connection has ONE set of watched keys: EXEC and UNWATCH drop all of it.
 * So at most one step per connection is between its two groups.  Steps on the
 * same server follow each other like a chain: a batch carries the write group
 * of one step and behind it the read group of the next, so k steps on a server
 * cost k + 1 round trips, and different servers run in parallel.
 *
 * Race -- two read groups on one connection.  Routes are guesses until a
 * server answered (a slot moves, MOVED is followed), so two steps thought to
 * be on different servers may meet on one connection.  The first EXEC there
 * would drop the watch of the second step, and its EXEC would write without
 * any check; and its UNWATCH has dropped that of the first, even if it comes to no EXEC itself.
 * Therefore the connections are compared after every batch, and who shares one with
 * another read group of that batch starts over; and so do all if a read group was sent
 * more than once, for it may have passed by anywhere.
 *
 * Race -- a watch left behind by a step that failed its compares, had nothing
 * to write, or was interrupted by an error.  It makes a later EXEC on that
 * connection fail although its own key is unchanged.  The UNWATCH at the head
 * of each read group prevents that.  It cannot hurt another step: none is
 * between its groups on this connection, see above.
 *
 * Race -- the connection breaks in between.  The write group is pinned to the
 * connection of its WATCH, so it never runs unguarded on a new one.
 *
 * Redirections inside MULTI end in EXECABORT; nothing was written, the step
 * starts over and its read group finds the way.  It may find a slot that is
 * just being moved to that server (ASK): there, the write group too needs
 * ASKING, which holds for the whole MULTI.  So ASKING is sent from the second
 * attempt on; where nothing is moving it means nothing.  A key that is moved
 * between the two groups is touched by that, on either server.
 */
#include "step/step_int.h"
#include "base/stats.h"
#include "code/claim.h"
#include "code/node.h"

/* --- groups of commands --- */

void
mosql_commands_init(MosqlCommands *commands)
{
	commands->n = 0;
	commands->size = 8;
	commands->argc = palloc(commands->size * sizeof(int));
	commands->argv = palloc(commands->size * sizeof(MosqlBytes *));
}

MosqlBytes *
mosql_commands_add(MosqlCommands *commands, int argc)
{
	if (commands->n == commands->size)
	{
		commands->size *= 2;
		commands->argc = repalloc(commands->argc, commands->size * sizeof(int));
		commands->argv = repalloc(commands->argv, commands->size * sizeof(MosqlBytes *));
	}
	commands->argc[commands->n] = argc;
	commands->argv[commands->n] = palloc(argc * sizeof(MosqlBytes));
	return commands->argv[commands->n++];
}

void
mosql_commands_copy(MosqlCommands *commands, int argc, const MosqlBytes *argv)
{
	memcpy(mosql_commands_add(commands, argc), argv, argc * sizeof(MosqlBytes));
}

int
mosql_commands_batch(const MosqlCommands *commands, MosqlBatch *batch,
					 uint16 slot, MosqlSendMode mode, uint64 pin)
{
	return mosql_batch_add_group(batch, slot, mode, pin, commands->n, commands->argc,
								 (const MosqlBytes *const *) commands->argv);
}

void
mosql_commands_multi(MosqlCommands *commands, MosqlRedis *redis, bool asking)
{
	mosql_commands_init(commands);
	if (asking && mosql_redis_is_cluster(redis))
		mosql_commands_put(commands, LITERAL("ASKING"));
	mosql_commands_put(commands, LITERAL("MULTI"));
}

void
mosql_watch_give_up(MosqlExec outcome)
{
	if (outcome == MOSQL_EXEC_CONFLICT)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("a change of stored data was overtaken by others until its time was up"),
				 errhint("Retry the transaction, or set the server option atomic to 'script'.")));
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("a change of stored data was refused or lost by Redis until its time was up"),
			 errhint("The cluster may be under reorganization or failover; try again.")));
}

MosqlExec
mosql_watch_outcome(const MosqlBatch *batch, int group, int n, MosqlBytes key,
					const MosqlReply **exec)
{
	const MosqlReply *last = mosql_batch_reply(batch, group, n - 1);

	if (last->kind == MOSQL_REPLY_NIL)
		return MOSQL_EXEC_CONFLICT;
	if (last->kind == MOSQL_REPLY_LOST)
		return MOSQL_EXEC_LOST;
	if (last->kind == MOSQL_REPLY_ERROR)
	{
		/* refused as a whole, for a command that was not even queued */
		if (mosql_step_is_redirection(last))
			return MOSQL_EXEC_RESTART;
		for (int i = 0; i < n - 1; i++)
		{
			const MosqlReply *reply = mosql_batch_reply(batch, group, i);

			if (mosql_step_is_redirection(reply))
				return MOSQL_EXEC_RESTART;
			if (reply->kind == MOSQL_REPLY_ERROR)
				mosql_step_check(reply, MOSQL_REPLY_STATUS, key);
		}
	}
	mosql_step_check(last, MOSQL_REPLY_ARRAY, key);
	for (int i = 0; i < last->n; i++)
		if (last->elem[i]->kind == MOSQL_REPLY_ERROR)
			mosql_step_check(last->elem[i], MOSQL_REPLY_STATUS, key);
	*exec = last;
	return MOSQL_EXEC_DONE;
}

/* --- steps --- */

typedef enum WatchState
{
	WATCH_UNREAD,					/* (again) to be read */
	WATCH_READING,				/* read group in the batch */
	WATCH_WATCHED,				/* compares held, to be written on `connection` */
	WATCH_WRITING,				/* write group in the batch */
	WATCH_DONE
} WatchState;

/* A step on its way. */
typedef struct WatchStep
{
	MosqlStep  *step;
	WatchState	state;
	MosqlBytes	key;
	uint16		slot;
	bool		reads;			/* fields, before their number */
	int			group;			/* of the running batch */
	uint64		connection;		/* where the read group of the last batch was; 0: it had none */
	bool		strayed;		/* it was not sent there at once */
	MosqlExec	outcome;		/* of the last write group */
	MosqlCommands commands;		/* WATCHED: the write group */
	bool		durable;
	bool		touch;			/* MosqlStep.touch, and the stepper is durable */
	MosqlStepStatus result;		/* WATCHED: what the step is once that is made */
} WatchStep;

static bool
needs_old(const MosqlWrite *write)
{
	return write->kind != MOSQL_WRITE_SET && write->kind != MOSQL_WRITE_DELETE;
}

/* May a wait become a lock by it? */
static bool
lets_in(const MosqlWrite *write)
{
	return write->kind == MOSQL_WRITE_UNLIST || write->kind == MOSQL_WRITE_CLAIM;
}

/* Fields to read: of compares, of reads, of writes that depend on the old value. */
static int
fields_to_read(const MosqlStep *step)
{
	int			n = step->ncompares + step->nreads;

	for (int i = 0; i < step->nwrites; i++)
		n += needs_old(&step->writes[i]);
	return n;
}

static bool
reads_whole(const MosqlStep *step)
{
	for (int i = 0; i < step->ncompares; i++)
		if (mosql_step_sees_all(&step->compares[i]))
			return true;
	return fields_to_read(step) > MOSQL_STEP_WHOLE_FIELDS;
}

int
mosql_watch_add_reads(MosqlCommands *commands, const MosqlStep *step, MosqlBytes key)
{
	MosqlBytes *argv;

	if (reads_whole(step))
		mosql_commands_put(commands, LITERAL("HGETALL"), key);
	else if (fields_to_read(step) > 0)
	{
		argv = mosql_commands_add(commands, 2 + fields_to_read(step));
		*argv++ = LITERAL("HMGET");
		*argv++ = key;
		for (int i = 0; i < step->ncompares; i++)
			*argv++ = step->compares[i].field;
		for (int i = 0; i < step->nreads; i++)
			*argv++ = step->reads[i];
		for (int i = 0; i < step->nwrites; i++)
			if (needs_old(&step->writes[i]))
				*argv++ = step->writes[i].field;
	}
	else
		return 0;
	return 1;
}

/* UNWATCH and WATCH stand first, unless there is nothing to write. */
static int
read_offset(const WatchStep *watch)
{
	return watch->step->nwrites > 0 || watch->touch ? 2 : 0;
}

static void
add_read_group(WatchStep *watch, MosqlBatch *batch)
{
	MosqlCommands commands;

	mosql_commands_init(&commands);
	if (read_offset(watch) > 0)
	{
		mosql_commands_put(&commands, LITERAL("UNWATCH"));
		mosql_commands_put(&commands, LITERAL("WATCH"), watch->key);
	}
	watch->reads = mosql_watch_add_reads(&commands, watch->step, watch->key) > 0;
	mosql_commands_put(&commands, LITERAL("HLEN"), watch->key);
	if (watch->touch)
		mosql_commands_put(&commands, LITERAL("HGET"), watch->key, LITERAL("m"));
	watch->group = mosql_commands_batch(&commands, batch, watch->slot, MOSQL_SEND_REPEATABLE, 0);
	watch->state = WATCH_READING;
}

/* Values by name, from HGETALL: sorted once, then searched. */
typedef struct Fields
{
	MosqlNodeImage image;
	MosqlFieldValue *sorted;
} Fields;

static int
compare_fields(const void *a, const void *b)
{
	return mosql_bytes_compare(((const MosqlFieldValue *) a)->field,
							   ((const MosqlFieldValue *) b)->field);
}

static void
fields_fill(Fields *fields, const MosqlReply *reply)
{
	mosql_step_image(reply, 0, &fields->image);
	fields->sorted = palloc(Max(fields->image.nfields, 1) * sizeof(MosqlFieldValue));
	memcpy(fields->sorted, fields->image.fields, fields->image.nfields * sizeof(MosqlFieldValue));
	qsort(fields->sorted, fields->image.nfields, sizeof(MosqlFieldValue), compare_fields);
}

static MosqlBytes
fields_get(const Fields *fields, MosqlBytes name)
{
	MosqlFieldValue key = {name, MOSQL_ABSENT};
	MosqlFieldValue *found = bsearch(&key, fields->sorted, fields->image.nfields,
									 sizeof(MosqlFieldValue), compare_fields);

	return found != NULL ? found->value : MOSQL_ABSENT;
}

/* The values of fields_to_read(), in that order; *image for RANGE and COUNT. */
static MosqlBytes *
values_read(const MosqlStep *step, const MosqlReply *reply, MosqlNodeImage *image)
{
	int			n = fields_to_read(step);
	MosqlBytes *values = palloc(Max(n, 1) * sizeof(MosqlBytes));
	MosqlBytes *value = values;
	Fields		fields;

	if (!reads_whole(step))
	{
		for (int i = 0; i < n; i++)
			values[i] = mosql_reply_bytes(mosql_step_elem(reply, i));
		return values;
	}
	fields_fill(&fields, reply);
	*image = fields.image;
	for (int i = 0; i < step->ncompares; i++)
		*value++ = fields_get(&fields, step->compares[i].field);
	for (int i = 0; i < step->nreads; i++)
		*value++ = fields_get(&fields, step->reads[i]);
	for (int i = 0; i < step->nwrites; i++)
		if (needs_old(&step->writes[i]))
			*value++ = fields_get(&fields, step->writes[i].field);
	return values;
}

void
mosql_watch_evaluate(MosqlStep *step, const MosqlReply *reply)
{
	MosqlNodeImage image = {0};
	MosqlBytes *values = values_read(step, reply, &image);

	step->values = values + step->ncompares;
	step->status = MOSQL_STEP_FAILED;
	for (step->failed = 0; step->failed < step->ncompares; step->failed++)
		if (!mosql_step_holds(&step->compares[step->failed], values[step->failed], &image))
			return;
	step->status = MOSQL_STEP_DONE;
	step->failed = -1;
}

/* A message (step.h). */
static void
add_message(MosqlCommands *commands, MosqlBytes key, MosqlBytes owner)
{
	MosqlBytes	list = mosql_step_wake_key(key, owner);

	mosql_commands_put(commands, LITERAL("RPUSH"), list, LITERAL("1"));
	mosql_commands_put(commands, LITERAL("PEXPIRE"), list, mosql_clock_number(MOSQL_WAKE_KEEP_MS));
}

/* The messages that a write leaves. */
static void
add_messages(MosqlCommands *commands, MosqlBytes key, const MosqlWrite *write, MosqlBytes before, MosqlBytes after)
{
	MosqlBytes	owner;

	if (before.data == after.data)
		return;
	for (int n = 0; lets_in(write) && mosql_claims_woken(before, after, n, &owner); n++)
		add_message(commands, key, owner);
	for (size_t at = 0; write->kind == MOSQL_WRITE_MOVED && at < write->value.len; at += MOSQL_TXID_BYTES)
		add_message(commands, key, mosql_bytes(write->value.data + at, MOSQL_TXID_BYTES));
}

/* Deletes before sets, so that the hash never outgrows its final size. */
bool
mosql_watch_add_writes(MosqlCommands *commands, MosqlBytes key, const MosqlWrite *writes, int n,
					   const MosqlBytes *old)
{
	MosqlBytes *dels = palloc((2 + n) * sizeof(MosqlBytes));
	MosqlBytes *sets = palloc((2 + 2 * n) * sizeof(MosqlBytes));
	MosqlBytes *afters = palloc((1 + n) * sizeof(MosqlBytes));
	const MosqlBytes *befores = old;
	int			ndels = 2,
				nsets = 2;

	for (int i = 0; i < n; i++)
	{
		MosqlBytes	before = needs_old(&writes[i]) ? *old++ : MOSQL_ABSENT;
		MosqlBytes	after = mosql_step_written(&writes[i], before);

		afters[i] = after;
		if (needs_old(&writes[i]) && after.data == before.data)
			continue;
		if (after.data == NULL)
			dels[ndels++] = writes[i].field;
		else
		{
			sets[nsets++] = writes[i].field;
			sets[nsets++] = after;
		}
	}
	dels[0] = LITERAL("HDEL");
	sets[0] = LITERAL("HSET");
	dels[1] = sets[1] = key;
	if (ndels > 2)
		mosql_commands_copy(commands, ndels, dels);
	if (nsets > 2)
		mosql_commands_copy(commands, nsets, sets);
	for (int i = 0; i < n; i++)
		if (needs_old(&writes[i]))
			add_messages(commands, key, &writes[i], *befores++, afters[i]);
	return ndels > 2 || nsets > 2;
}

/* The write group.  False if nothing is to be changed. */
static bool
make_write_group(WatchStep *watch, MosqlRedis *redis, const MosqlBytes *old)
{
	const MosqlStep *step = watch->step;

	mosql_commands_multi(&watch->commands, redis, watch->outcome == MOSQL_EXEC_RESTART);
	if (!mosql_watch_add_writes(&watch->commands, watch->key, step->writes, step->nwrites, old))
		return false;
	mosql_commands_put(&watch->commands, LITERAL("HLEN"), watch->key);
	mosql_commands_put(&watch->commands, LITERAL("EXEC"));
	return true;
}

/* The write group that changes nothing: false if there is nothing to touch. */
static bool
make_touch_group(WatchStep *watch, MosqlRedis *redis, const MosqlReply *meta)
{
	if (meta->kind != MOSQL_REPLY_STRING)
		return false;
	mosql_commands_multi(&watch->commands, redis, watch->outcome == MOSQL_EXEC_RESTART);
	mosql_commands_put(&watch->commands, LITERAL("HSET"), watch->key, LITERAL("m"), meta->str);
	mosql_commands_put(&watch->commands, LITERAL("HLEN"), watch->key);
	mosql_commands_put(&watch->commands, LITERAL("EXEC"));
	return true;
}

/* The step is decided; something is to be written for it first. */
static void
await_write(WatchStep *watch)
{
	watch->result = watch->step->status;
	watch->step->status = MOSQL_STEP_LOST;
	watch->state = WATCH_WATCHED;
}

/* The read group has been answered: evaluate. */
static void
finish_read(WatchStep *watch, MosqlRedis *redis, const MosqlBatch *batch)
{
	MosqlStep  *step = watch->step;
	int			at = read_offset(watch);
	const MosqlReply *reply = mosql_batch_reply(batch, watch->group, at);
	const MosqlReply *hlen = reply;
	const MosqlReply *meta = NULL;

	if (at > 0)
	{
		watch->connection = mosql_batch_connection(batch, watch->group);
		watch->strayed = mosql_batch_attempts(batch, watch->group) > 1;
	}
	for (int i = 0; i < at; i++)
		mosql_step_check(mosql_batch_reply(batch, watch->group, i), MOSQL_REPLY_STATUS, watch->key);
	if (watch->reads)
	{
		mosql_step_check(reply, MOSQL_REPLY_ARRAY, watch->key);
		hlen = mosql_batch_reply(batch, watch->group, ++at);
	}
	if (watch->touch)
		meta = mosql_batch_reply(batch, watch->group, at + 1);
	mosql_step_check(hlen, MOSQL_REPLY_INTEGER, watch->key);
	step->nfields = (int) hlen->integer;

	mosql_watch_evaluate(step, reply);
	watch->state = WATCH_DONE;
	if (step->status == MOSQL_STEP_FAILED)
	{
		if (watch->touch && make_touch_group(watch, redis, meta))
			await_write(watch);
		return;
	}
	if ((step->nwrites > 0 && make_write_group(watch, redis, step->values + step->nreads)) ||
		(watch->touch && make_touch_group(watch, redis, meta)))
		await_write(watch);
}

/*
 * EXEC has been answered.  Returns true if the step has to start over; throws
 * 08006 for too few copies.
 */
static bool
finish_write(WatchStep *watch, const MosqlRedis *redis, const MosqlBatch *batch)
{
	MosqlStep  *step = watch->step;
	const MosqlReply *exec = mosql_batch_reply(batch, watch->group, watch->commands.n - 1);

	if (mosql_reply_is_short(exec))
		mosql_redis_raise_short(redis, exec);
	watch->state = WATCH_UNREAD;
	watch->outcome = mosql_watch_outcome(batch, watch->group, watch->commands.n, watch->key, &exec);
	switch (watch->outcome)
	{
		case MOSQL_EXEC_DONE:
			step->status = watch->result;
			step->nfields = (int) mosql_step_elem(exec, exec->n - 1)->integer;
			watch->state = WATCH_DONE;
			return false;
		case MOSQL_EXEC_CONFLICT:
			mosql_stats.step_retries++;
			return true;
		case MOSQL_EXEC_RESTART:
			return true;
		case MOSQL_EXEC_LOST:
			if (step->repeatable)
				return true;
			step->status = MOSQL_STEP_LOST;
			watch->state = WATCH_DONE;
			return false;
	}
	return false;
}

/* The first race of the file head.  Returns true if any step starts over. */
static bool
start_over_shared(WatchStep *watches, int n)
{
	bool		any = false;

	for (int i = 0; i < n; i++)
	{
		bool		shared = false;

		if (watches[i].state != WATCH_WATCHED)
			continue;
		for (int j = 0; j < n && !shared; j++)
			shared = j != i && watches[j].connection != 0 &&
				(watches[j].strayed || watches[i].strayed ||
				 watches[j].connection == watches[i].connection);
		if (shared)
			watches[i].state = WATCH_UNREAD;
		any |= shared;
	}
	return any;
}

/*
 * Put into the batch what can go: all write groups first, then one read group
 * per route; a step that writes nothing watches nothing and always goes.
 */
static void
fill_batch(MosqlStepper *stepper, WatchStep *watches, int n, MosqlBatch *batch)
{
	int		   *taken = palloc(n * sizeof(int));
	int			ntaken = 0;

	for (int i = 0; i < n; i++)
	{
		if (watches[i].state == WATCH_WATCHED)
		{
			watches[i].group = mosql_commands_batch(&watches[i].commands, batch, watches[i].slot,
													MOSQL_SEND_PINNED, watches[i].connection);
			if (watches[i].durable)
				mosql_batch_make_durable(batch, watches[i].group);
			watches[i].state = WATCH_WRITING;
		}
		watches[i].connection = 0;
		watches[i].strayed = false;
	}
	for (int i = 0; i < n; i++)
	{
		int			route;
		bool		clear = true;

		if (watches[i].state != WATCH_UNREAD)
			continue;
		if (read_offset(&watches[i]) > 0)
		{
			route = mosql_redis_route(stepper->redis, watches[i].slot);
			for (int j = 0; j < ntaken && clear; j++)
				clear = taken[j] != route && taken[j] != -1 && route != -1;
			if (!clear)
				continue;
			taken[ntaken++] = route;
		}
		add_read_group(&watches[i], batch);
	}
	pfree(taken);				/* as often as there are steps for a server */
}

/*
 * Pause before another attempt, unless steps are watched: they would only fail
 * too.  False if the time is up.
 */
static bool
pause_if_alone(const WatchStep *watches, int n, MosqlBudget *budget)
{
	for (int i = 0; i < n; i++)
		if (watches[i].state == WATCH_WATCHED)
			return true;
	return mosql_budget_pause(budget);
}

/* Why a step that is to start over did not succeed. */
static MosqlExec
last_outcome(const WatchStep *watches, int n)
{
	for (int i = 0; i < n; i++)
		if (watches[i].state == WATCH_UNREAD && watches[i].outcome != MOSQL_EXEC_DONE)
			return watches[i].outcome;
	return MOSQL_EXEC_RESTART;
}

void
mosql_step_run_watch(MosqlStepper *stepper, MosqlStep **steps, int n, MosqlBudget *budget)
{
	WatchStep  *watches = palloc0(n * sizeof(WatchStep));
	MosqlBudget own = budget != NULL ? *budget : mosql_budget_start(MOSQL_STEP_TIMEOUT_MS);
	int			left = n;

	own.attempts = 0;			/* short pauses, whatever the caller waited before */
	for (int i = 0; i < n; i++)
	{
		watches[i].step = steps[i];
		watches[i].key = mosql_step_key(stepper, steps[i]->node);
		watches[i].slot = mosql_redis_slot(watches[i].key);
		watches[i].durable = stepper->durable && steps[i]->durable;
		watches[i].touch = stepper->durable && steps[i]->touch;
	}
	while (left > 0)
	{
		MosqlBatch *batch = mosql_batch_create(stepper->redis, CurrentMemoryContext);
		bool		disturbed = false;

		fill_batch(stepper, watches, n, batch);
		mosql_batch_run(batch, budget);
		for (int i = 0; i < n; i++)
		{
			if (watches[i].state == WATCH_WRITING)
				disturbed |= finish_write(&watches[i], stepper->redis, batch);
			else if (watches[i].state == WATCH_READING)
				finish_read(&watches[i], stepper->redis, batch);
			else
				continue;
			left -= watches[i].state == WATCH_DONE;
		}
		disturbed |= start_over_shared(watches, n);

		if (disturbed && !pause_if_alone(watches, n, &own))
			mosql_watch_give_up(last_outcome(watches, n));
	}
}
