/*
 * post.c: steps are sent before their answers are wanted.
 *
 * Layer: step.  The commands are detached ones, so whoever posts goes on meanwhile: Redis makes some steps while
 * the next are thought out.  A step that is not known to be done, because its slot has moved, its connection
 * broke, the server lacks the script, or a compare failed, is LOST: it is then run the ordinary way, which knows
 * what to do.  So only steps are posted that may be sent again.
 *
 * Memory: as in prefetch.c.  Whoever does not come to the end, for there was an error, has his answers ignored.
 */
#include "step/step_int.h"

/* One step's answer is to go where. */
typedef struct PostedStep
{
	MosqlPosted *posted;
	MosqlStep  *step;			/* not touched before the end */
	bool		done;
} PostedStep;

struct MosqlPosted
{
	MemoryContext cxt;
	MosqlStepper *stepper;
	MemoryContextCallback *given_up;	/* in the caller's context */
	int			n;
	int			max;
	PostedStep *steps;
	int			expected;		/* answers that have not come yet */
	bool		dropped;		/* nobody wants them */
};

static void
drop(MosqlPosted *posted)
{
	posted->dropped = true;
	if (posted->expected == 0)
		MemoryContextDelete(posted->cxt);
}

/* The context in which it began goes; arg: NULL once it has ended. */
static void
give_up(void *arg)
{
	if (arg != NULL)
		drop(arg);
}

MosqlPosted *
mosql_step_post_begin(MosqlStepper *stepper, int max)
{
	MemoryContext cxt;
	MosqlPosted *posted;

	if (stepper->engine != MOSQL_ENGINE_SCRIPT || stepper->durable)
		return NULL;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql posted steps", ALLOCSET_SMALL_SIZES);
	posted = MemoryContextAllocZero(cxt, sizeof(MosqlPosted));
	posted->cxt = cxt;
	posted->stepper = stepper;
	posted->max = max;
	posted->steps = MemoryContextAlloc(cxt, max * sizeof(PostedStep));
	posted->given_up = palloc0(sizeof(MemoryContextCallback));
	posted->given_up->func = give_up;
	posted->given_up->arg = posted;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, posted->given_up);
	MemoryContextSetParent(cxt, TopMemoryContext);
	return posted;
}

/* See MosqlReplyCallback: throws nothing. */
static void
hear_step(void *arg, const MosqlReply *reply)
{
	PostedStep *step = arg;
	MosqlPosted *posted = step->posted;
	int			nfields;

	Assert(posted->expected > 0);
	step->done = mosql_step_status_of(reply, &nfields) == MOSQL_STEP_DONE;
	if (--posted->expected == 0 && posted->dropped)
		MemoryContextDelete(posted->cxt);
}

void
mosql_step_post(MosqlPosted *posted, MosqlStep **steps, int n)
{
	MosqlRedis *redis = posted->stepper->redis;
	MosqlScriptCall *calls = palloc(n * sizeof(MosqlScriptCall));

	Assert(posted->n + n <= posted->max);
	for (int i = 0; i < n; i++)
	{
		Assert(steps[i]->repeatable);
		calls[i] = mosql_step_call(posted->stepper, steps[i]);
	}
	mosql_redis_cork(redis);
	for (int i = 0; i < n; i++)
	{
		PostedStep *step = &posted->steps[posted->n++];

		*step = (PostedStep) {posted, steps[i]};
		posted->expected++;
		mosql_redis_send(redis, calls[i].slot, calls[i].argc, calls[i].argv, hear_step, step);
	}
	mosql_redis_uncork(redis);
}

void
mosql_step_post_end(MosqlPosted *posted)
{
	(void) mosql_redis_await(posted->stepper->redis, &posted->expected);
	for (int i = 0; i < posted->n; i++)
		posted->steps[i].step->status = posted->steps[i].done ? MOSQL_STEP_DONE : MOSQL_STEP_LOST;
	posted->given_up->arg = NULL;
	drop(posted);
}
