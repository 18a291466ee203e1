/*
 * script.c: server-side scripts, and the engine `script` for steps.
 *
 * Layer: step.  A script is called by the SHA-1 of its source (EVALSHA).  A
 * server that does not know it (new, restarted, failed over, SCRIPT FLUSH)
 * answers NOSCRIPT and has done nothing; the same call is then sent again with
 * the source (EVAL), which also caches it there.
 */
#include "step/step_int.h"
#include "step/step_lua.h"

static MosqlScript step_script = {.name = "step", .source = step_lua};

/*
 * Where the step script is believed to be cached, for detached steps: nobody
 * could repeat one after NOSCRIPT.  One bit per slot, of the clients used last;
 * a wrong bit costs a LOST, never more.
 */
#define CACHED_CLIENTS	4

typedef struct Cached
{
	const MosqlRedis *redis;
	uint8		slot[16384 / 8];
} Cached;

static Cached *cached;			/* of CACHED_CLIENTS; NULL: of none yet */
static int	cached_next;		/* to be taken for another client */

static Cached *
cached_find(const MosqlRedis *redis)
{
	for (int i = 0; cached != NULL && i < CACHED_CLIENTS; i++)
		if (cached[i].redis == redis)
			return &cached[i];
	return NULL;
}

void
mosql_step_note_cached(const MosqlRedis *redis, uint16 slot, bool is)
{
	Cached	   *known = cached_find(redis);

	if (known == NULL)
	{
		if (cached == NULL)
			cached = MemoryContextAllocZero(TopMemoryContext, CACHED_CLIENTS * sizeof(Cached));
		known = &cached[cached_next];
		cached_next = (cached_next + 1) % CACHED_CLIENTS;
		*known = (Cached) {redis};
	}
	if (is)
		known->slot[slot / 8] |= 1 << (slot % 8);
	else
		known->slot[slot / 8] &= ~(1 << (slot % 8));
}

bool
mosql_step_is_cached(const MosqlRedis *redis, uint16 slot)
{
	const Cached *known = cached_find(redis);

	return known != NULL && (known->slot[slot / 8] & (1 << (slot % 8))) != 0;
}

bool
mosql_script_is_missing(const MosqlReply *reply)
{
	return reply->kind == MOSQL_REPLY_ERROR &&
		reply->str.len >= 8 && memcmp(reply->str.data, "NOSCRIPT", 8) == 0;
}

static MosqlBytes
small_number(int n)
{
	static const char digits[] = "0123456789";

	if (n < 10)
		return mosql_bytes(digits + n, 1);
	return mosql_clock_number(n);
}

MosqlBytes *
mosql_script_argv(MosqlScript *script, int nkeys, int nargs)
{
	MosqlBytes *argv = palloc((3 + nkeys + nargs) * sizeof(MosqlBytes));

	if (script->sha[0] == '\0')
		mosql_sha1_hex(script->source, strlen(script->source), script->sha);
	argv[0] = LITERAL("EVALSHA");
	argv[1] = mosql_bytes(script->sha, 40);
	argv[2] = small_number(nkeys);
	return argv;
}

void
mosql_script_use_source(const MosqlScript *script, MosqlBytes *argv)
{
	argv[0] = LITERAL("EVAL");
	argv[1] = mosql_bytes(script->source, strlen(script->source));
}

/* One group per call. */
static void
add_call(MosqlBatch *batch, const MosqlScriptCall *call)
{
	const int	argc[] = {call->argc, MOSQL_TOUCH_ARGS};
	const MosqlBytes *const argv[] = {call->argv, call->touch};
	int			group = mosql_batch_add_group(batch, call->slot, call->mode, 0,
											  call->touch != NULL ? 2 : 1, argc, argv);

	if (call->durable)
		mosql_batch_make_durable(batch, group);
}

/* Their groups follow those of the calls. */
static void
add_along(MosqlBatch *batch, const MosqlScriptCall *call)
{
	for (int i = 0; call->along != NULL && i < call->along->n; i++)
		mosql_batch_add(batch, mosql_redis_slot(call->along_keys[i]), MOSQL_SEND_REPEATABLE, 2,
						(MosqlBytes[]) {LITERAL("HGETALL"), call->along_keys[i]});
}

/*
 * What came along, if all of it was read behind the call, on its connection.  What is refused is for who reads it the ordinary
 * way.
 */
static void
take_along(MosqlBatch *batch, const MosqlScriptCall *call)
{
	MosqlNodesAlong *along = call->along;

	along->came = true;
	for (int i = 0; i < along->n && along->came; i++)
	{
		const MosqlReply *reply = mosql_batch_reply(batch, 1 + i, 0);

		along->came = reply->kind == MOSQL_REPLY_ARRAY && mosql_batch_follows(batch, 0, 1 + i);
		if (along->came)
			mosql_step_image(reply, along->nodes[i], &along->images[i]);
	}
}

void
mosql_script_run(MosqlRedis *redis, MosqlScriptCall *calls, int n, MosqlBudget *budget)
{
	MosqlBatch *batch = mosql_batch_create(redis, CurrentMemoryContext);
	int		   *missing = NULL;
	int			nmissing = 0;

	/* groups of a new batch are numbered from its first, one per call */
	for (int i = 0; i < n; i++)
		add_call(batch, &calls[i]);
	Assert(n == 1 || calls[0].along == NULL);
	add_along(batch, &calls[0]);
	mosql_batch_run(batch, budget);
	for (int i = 0; i < n; i++)
	{
		calls[i].reply = mosql_batch_reply(batch, i, 0);
		if (!mosql_script_is_missing(calls[i].reply))
			continue;
		if (missing == NULL)
			missing = palloc(n * sizeof(int));
		missing[nmissing++] = i;
	}
	if (nmissing == 0)
	{
		if (calls[0].along != NULL)
			take_along(batch, &calls[0]);
		return;
	}

	batch = mosql_batch_create(redis, CurrentMemoryContext);
	for (int i = 0; i < nmissing; i++)
	{
		MosqlScriptCall *call = &calls[missing[i]];

		mosql_script_use_source(call->script, call->argv);
		add_call(batch, call);
	}
	mosql_batch_run(batch, budget);
	for (int i = 0; i < nmissing; i++)
		calls[missing[i]].reply = mosql_batch_reply(batch, i, 0);
}

void
mosql_script_send(MosqlRedis *redis, MosqlScript *script, uint16 slot,
				  int argc, MosqlBytes *argv, MosqlReplyCallback done, void *arg)
{
	mosql_script_use_source(script, argv);
	mosql_redis_send(redis, slot, argc, argv, done, arg);
}

/* --- the step as a call: see step_lua.h for the arguments --- */

static bool
is_conditional(MosqlWriteKind kind)
{
	return kind != MOSQL_WRITE_SET && kind != MOSQL_WRITE_DELETE;
}

/* How many parts of each sort a step has. */
typedef struct StepCounts
{
	int			conditional;
	int			deletes;
	int			sets;
	int			ranges;
	int			bytes;			/* of compares, not counting repeated ones */
} StepCounts;

static bool
takes_bytes(const MosqlCompare *compare)
{
	return compare->kind != MOSQL_COMPARE_ABSENT && compare->kind != MOSQL_COMPARE_COUNT;
}

/*
 * Does the i-th compare need bytes other than those before it?  Many rows are
 * compared with one transaction id.
 */
static bool
has_bytes(const MosqlStep *step, int i)
{
	const MosqlCompare *compare = &step->compares[i];

	if (!takes_bytes(compare))
		return false;
	while (--i >= 0)
		if (takes_bytes(&step->compares[i]))
			return !mosql_bytes_equal(step->compares[i].bytes, compare->bytes);
	return true;
}

static StepCounts
step_count(const MosqlStep *step)
{
	StepCounts	counts = {0};

	for (int i = 0; i < step->nwrites; i++)
	{
		MosqlWriteKind kind = step->writes[i].kind;

		if (is_conditional(kind))
			counts.conditional++;
		else if (kind == MOSQL_WRITE_DELETE)
			counts.deletes++;
		else
			counts.sets++;
	}
	for (int i = 0; i < step->ncompares; i++)
	{
		counts.ranges += step->compares[i].kind == MOSQL_COMPARE_RANGE;
		counts.bytes += has_bytes(step, i);
	}
	return counts;
}

static char *
put_u16(char *p, int n)
{
	if (n < 0 || n > 65535)
		elog(ERROR, "a step has a count or offset of %d, more than 65535", n);
	*p++ = (char) (n >> 8);
	*p++ = (char) n;
	return p;
}

/* Kinds go over the wire as the numbers of the enums. */
StaticAssertDecl(MOSQL_COMPARE_ABSENT == 0 && MOSQL_COMPARE_EQUAL == 1 &&
				 MOSQL_COMPARE_AT_MOST == 2 && MOSQL_COMPARE_IN == 3 &&
				 MOSQL_COMPARE_ONLY == 4 && MOSQL_COMPARE_RANGE == 5 &&
				 MOSQL_WRITE_MAX == 2 && MOSQL_WRITE_APPEND == 3 &&
				 MOSQL_WRITE_REMOVE == 4 && MOSQL_WRITE_CONCAT == 5 &&
				 MOSQL_WRITE_UNLIST == 6 && MOSQL_WRITE_ADD == 7 &&
				 MOSQL_COMPARE_OPEN == 6 && MOSQL_COMPARE_LISTED == 7 &&
				 MOSQL_COMPARE_WHOLE == 8 && MOSQL_COMPARE_ADMITS == 9 &&
				 MOSQL_COMPARE_HOLDS == 10 && MOSQL_COMPARE_COUNT == 11 && MOSQL_WRITE_CLAIM == 8 &&
				 MOSQL_WRITE_VERSION == 9 && MOSQL_WRITE_TOMBSTONE == 10 && MOSQL_WRITE_INCREMENT == 11 &&
				 MOSQL_WRITE_MOVED == 12 &&
				 MOSQL_WAKE_KEEP_MS == 60000, "step_lua.h knows these numbers");

/*
 * The fields of a small step are sent once each, however often it names them:
 * compares, reads and writes mostly talk of the same few, and Redis searches
 * for each.  place[i]: which one the i-th of them is, from 1.
 */
#define MAX_PLACED	32

typedef struct StepFields
{
	int			n;				/* to read */
	MosqlBytes *fields;			/* compares', reads', conditional writes' */
	bool		placed;
	int			ndistinct;
	MosqlBytes	distinct[MAX_PLACED];
	uint8		place[MAX_PLACED];
} StepFields;

static void
step_fields(const MosqlStep *step, const StepCounts *counts, StepFields *f)
{
	f->n = 0;
	f->ndistinct = 0;
	f->fields = palloc((step->ncompares + step->nreads + counts->conditional + 1) * sizeof(MosqlBytes));
	for (int i = 0; i < step->ncompares; i++)
		f->fields[f->n++] = step->compares[i].field;
	for (int i = 0; i < step->nreads; i++)
		f->fields[f->n++] = step->reads[i];
	for (int i = 0; i < step->nwrites; i++)
		if (is_conditional(step->writes[i].kind))
			f->fields[f->n++] = step->writes[i].field;

	f->placed = f->n <= MAX_PLACED && counts->ranges == 0;
	for (int i = 0; f->placed && i < f->n; i++)
	{
		int			at = 0;

		while (at < f->ndistinct && !mosql_bytes_equal(f->distinct[at], f->fields[i]))
			at++;
		if (at == f->ndistinct)
			f->distinct[f->ndistinct++] = f->fields[i];
		f->place[i] = (uint8) (at + 1);
	}
}

static MosqlBytes
step_plan(const MosqlStepper *stepper, const MosqlStep *step, const StepCounts *counts, const StepFields *f)
{
	char	   *plan = palloc(14 + 3 * step->ncompares + counts->conditional + f->n);
	char	   *p = plan;

	p = put_u16(p, step->ncompares);
	p = put_u16(p, counts->bytes);
	p = put_u16(p, step->nreads);
	p = put_u16(p, counts->conditional);
	p = put_u16(p, counts->deletes);
	p = put_u16(p, counts->sets);
	*p++ = (char) ((counts->ranges > 0 || f->n > MOSQL_STEP_WHOLE_FIELDS ? 1 : 0) |
				   (step->no_count ? 2 : 0) | (stepper->durable && step->touch ? 4 : 0));
	*p++ = (char) (f->placed ? f->ndistinct : 255);
	for (int i = 0; i < step->ncompares; i++)
	{
		const MosqlCompare *compare = &step->compares[i];

		*p++ = (char) (compare->kind | (has_bytes(step, i) ? 0 : 128));
		p = put_u16(p, compare->kind == MOSQL_COMPARE_RANGE ?
					(compare->upper.data != NULL) << 8 | compare->offset : compare->offset);
	}
	for (int i = 0; i < step->nwrites; i++)
		if (is_conditional(step->writes[i].kind))
			*p++ = (char) step->writes[i].kind;
	if (f->placed)
	{
		memcpy(p, f->place, f->n);
		p += f->n;
	}
	return mosql_bytes(plan, p - plan);
}

static int
count_arguments(const MosqlStep *step, const StepCounts *counts)
{
	return 1 + step->ncompares + counts->bytes + step->nreads +
		2 * counts->conditional + counts->deletes + 2 * counts->sets + 2 * counts->ranges;
}

int
mosql_step_arguments(const MosqlStep *step)
{
	StepCounts	counts = step_count(step);

	return count_arguments(step, &counts);
}

static MosqlBytes *
put_writes(const MosqlStep *step, const StepCounts *counts, MosqlBytes *arg)
{
	MosqlBytes *value = arg;
	MosqlBytes *delete = value + counts->conditional;
	MosqlBytes *set = delete + counts->deletes;

	for (int i = 0; i < step->nwrites; i++)
	{
		const MosqlWrite *write = &step->writes[i];

		if (is_conditional(write->kind))
			*value++ = write->value;
		else if (write->kind == MOSQL_WRITE_DELETE)
			*delete++ = write->field;
		else
		{
			*set++ = write->field;
			*set++ = write->value;
		}
	}
	return set;
}

MosqlBytes *
mosql_step_put_arguments(const MosqlStepper *stepper, const MosqlStep *step, MosqlBytes *arg)
{
	StepCounts	counts = step_count(step);
	StepFields	fields;

	step_fields(step, &counts, &fields);
	*arg++ = step_plan(stepper, step, &counts, &fields);
	if (fields.placed)
		for (int i = 0; i < fields.ndistinct; i++)
			*arg++ = fields.distinct[i];
	else
		for (int i = 0; i < fields.n; i++)
			*arg++ = fields.fields[i];
	for (int i = 0; i < step->ncompares; i++)
		if (has_bytes(step, i))
			*arg++ = step->compares[i].bytes;
	arg = put_writes(step, &counts, arg);
	for (int i = 0; i < step->ncompares; i++)
		if (step->compares[i].kind == MOSQL_COMPARE_RANGE)
		{
			*arg++ = step->compares[i].upper;
			*arg++ = step->compares[i].at_most;
		}
	return arg;
}

MosqlScriptCall
mosql_step_call(const MosqlStepper *stepper, const MosqlStep *step)
{
	int			nargs = mosql_step_arguments(step);
	MosqlBytes *argv = mosql_script_argv(&step_script, 1, nargs);
	MosqlScriptCall call = {.script = &step_script, .argv = argv};

	argv[3] = mosql_step_key(stepper, step->node);
	call.slot = mosql_redis_slot(argv[3]);
	call.mode = step->repeatable ? MOSQL_SEND_REPEATABLE : MOSQL_SEND_ONCE;
	call.durable = stepper->durable && step->durable;
	call.argc = mosql_step_put_arguments(stepper, step, argv + 4) - argv;
	Assert(call.argc <= 4 + nargs);
	return call;
}

/* The script's answer into the step; false if it is not what it should be. */
static bool
step_answer(MosqlStep *step, const MosqlReply *reply)
{
	if (reply->kind != MOSQL_REPLY_ARRAY || reply->n != 2 + step->nreads ||
		reply->elem[0]->kind != MOSQL_REPLY_INTEGER ||
		reply->elem[1]->kind != MOSQL_REPLY_INTEGER ||
		reply->elem[0]->integer < -1 || reply->elem[0]->integer >= step->ncompares)
		return false;

	step->failed = (int) reply->elem[0]->integer;
	step->status = step->failed < 0 ? MOSQL_STEP_DONE : MOSQL_STEP_FAILED;
	step->nfields = (int) reply->elem[1]->integer;
	step->values = palloc(Max(step->nreads, 1) * sizeof(MosqlBytes));
	for (int i = 0; i < step->nreads; i++)
		step->values[i] = mosql_reply_bytes(reply->elem[2 + i]);
	return true;
}

void
mosql_step_answered(const MosqlStepper *stepper, MosqlStep *step, MosqlBytes key, const MosqlReply *reply)
{
	if (mosql_reply_is_short(reply))
		mosql_redis_raise_short(stepper->redis, reply);
	step->status = MOSQL_STEP_LOST;
	if (reply->kind == MOSQL_REPLY_LOST)
		return;
	mosql_step_check(reply, MOSQL_REPLY_ARRAY, key);
	if (!step_answer(step, reply))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("Redis answered a step with something else")));
}

/* What a question for copies remembers: its answers to come. */
typedef struct Waiting
{
	MosqlRedis *redis;
	int			answers;		/* 0 while they are not known yet */
	int			early;			/* came before they were known */
	MosqlStepCallback done;
	void	   *arg;
} Waiting;

static void
wait_done(void *arg, const MosqlReply *reply)
{
	Waiting    *waiting = arg;

	waiting->done(waiting->arg, mosql_redis_wait_is_met(waiting->redis, reply) ?
				  MOSQL_STEP_DONE : MOSQL_STEP_LOST, 0);
	if (waiting->answers == 0)
		waiting->early++;
	else if (--waiting->answers == 0)
		pfree(waiting);
}

int
mosql_step_send_wait(MosqlStepper *stepper, MosqlStepCallback done, void *arg)
{
	Waiting    *waiting;
	int			n;

	if (!stepper->durable)
		return 0;
	waiting = MemoryContextAllocZero(TopMemoryContext, sizeof(Waiting));
	waiting->redis = stepper->redis;
	waiting->done = done;
	waiting->arg = arg;
	n = mosql_redis_send_wait(stepper->redis, wait_done, waiting);
	waiting->answers = n - waiting->early;
	if (waiting->answers == 0)
		pfree(waiting);
	return n;
}
