/*
 * world.c: time, chance, events; front-ends as coroutines.
 *
 * The world runs one event after the other, in the order of their times.  An event
 * may let a front-end go on, which runs until it waits again; nothing else runs
 * meanwhile.  So a run is a function of its seed.
 */
#include "sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "miscadmin.h"

/* ---- chance ---- */

uint64		sim_seed;
static uint64 chance_state;

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64
sim_random(void)
{
	uint64		z = (chance_state += UINT64CONST(0x9E3779B97F4A7C15));

	if (chance_state == UINT64CONST(0x9E3779B97F4A7C15))
		z = (chance_state += sim_seed * UINT64CONST(0xD1342543DE82EF95));
	z = (z ^ (z >> 30)) * UINT64CONST(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64CONST(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

uint64
sim_other_chance(uint64 state)
{
	uint64		old = chance_state;

	chance_state = state;
	return old;
}

int64
sim_below(int64 n)
{
	return n <= 1 ? 0 : (int64) (sim_random() % (uint64) n);
}

int64
sim_between(int64 low, int64 high)
{
	return low + sim_below(high - low + 1);
}

bool
sim_chance(int per_mille)
{
	return sim_below(1000) < per_mille;
}

/* ---- telling ---- */

bool		sim_tracing = false;

static void
say(const char *format, va_list args)
{
	printf("%12.6f  ", (double) sim_now_us / 1e6);
	if (sim_self != NULL)
		printf("fe%-3d ", sim_self->number);
	else
		printf("      ");
	vprintf(format, args);
	putchar('\n');
}

void
sim_trace(const char *format,...)
{
	va_list		args;

	if (!sim_tracing)
		return;
	va_start(args, format);
	say(format, args);
	va_end(args);
}

bool
sim_sees_anything(void)
{
	return sim_is_torn || (sim_self != NULL && (sim_self->misled || sim_self->began_us <= sim_forgot_us));
}

void
sim_fail(const char *format,...)
{
	va_list		args;

	if (sim_self != NULL && sim_self->nest_level > 0 && sim_sees_anything())
		ereport(ERROR, (errcode(ERRCODE_SYSTEM_ERROR), errmsg("a server has forgotten: %s", format)));
	va_start(args, format);
	printf("FAILED  seed " UINT64_FORMAT "\n", sim_seed);
	say(format, args);
	va_end(args);
	fflush(stdout);
	_exit(1);
}

/* ---- events: a heap ---- */

typedef struct Event
{
	int64		time_us;
	uint64		order;			/* of those at the same time */
	SimEvent	run;
	void	   *arg;
	uint64		tag;
} Event;

int64		sim_now_us = INT64CONST(1800000000000000);

static Event *events;
static int	nevents;
static int	maxevents;
static uint64 last_order;

static bool
is_before(const Event *a, const Event *b)
{
	return a->time_us != b->time_us ? a->time_us < b->time_us : a->order < b->order;
}

void
sim_at(int64 time_us, SimEvent run, void *arg, uint64 tag)
{
	Event		event = {Max(time_us, sim_now_us), ++last_order, run, arg, tag};
	int			at = nevents++;

	if (nevents > maxevents)
	{
		maxevents = Max(1024, 2 * maxevents);
		events = realloc(events, maxevents * sizeof(Event));
	}
	while (at > 0 && is_before(&event, &events[(at - 1) / 2]))
	{
		events[at] = events[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	events[at] = event;
}

static Event
next_event(void)
{
	Event		first = events[0];
	Event		last = events[--nevents];
	int			at = 0;

	for (;;)
	{
		int			child = 2 * at + 1;

		if (child >= nevents)
			break;
		if (child + 1 < nevents && is_before(&events[child + 1], &events[child]))
			child++;
		if (!is_before(&events[child], &last))
			break;
		events[at] = events[child];
		at = child;
	}
	if (nevents > 0)
		events[at] = last;
	return first;
}

void
sim_run(int64 until_us)
{
	while (nevents > 0 && events[0].time_us <= until_us)
	{
		Event		event = next_event();

		sim_now_us = event.time_us;
		event.run(event.arg, event.tag);
	}
	sim_now_us = Max(sim_now_us, until_us);
}

/* ---- front-ends ---- */

/* The product's variables: the linker gathers them (Makefile). */
extern char __start_fe_data[],
			__stop_fe_data[],
			__start_fe_bss[],
			__stop_fe_bss[];

#define DATA_BYTES	((size_t) (__stop_fe_data - __start_fe_data))
#define BSS_BYTES	((size_t) (__stop_fe_bss - __start_fe_bss))

#define STACK_BYTES	(512 * 1024)

/* Begun by makecontext(), gone on with by _longjmp(), which asks the kernel for nothing. */
typedef struct Context
{
	ucontext_t	start;
	bool		started;
	jmp_buf		registers;
	char	   *stack;
} Context;

SimFrontEnd *sim_self;

static jmp_buf world;
static SimFrontEnd *loaded;		/* whose variables are in place */
static char *pristine;			/* as the program was started */
static int	last_number;

static void
copy_out(char *image)
{
	memcpy(image, __start_fe_data, DATA_BYTES);
	memcpy(image + DATA_BYTES, __start_fe_bss, BSS_BYTES);
}

static void
copy_in(const char *image)
{
	memcpy(__start_fe_data, image, DATA_BYTES);
	memcpy(__start_fe_bss, image + DATA_BYTES, BSS_BYTES);
}

static void
load(SimFrontEnd *fe)
{
	if (loaded == fe)
		return;
	if (loaded != NULL)
		copy_out(loaded->image);
	copy_in(fe->image);
	loaded = fe;
}

/* Give way to the world. */
static void
give_way(SimFrontEnd *fe)
{
	if (_setjmp(((Context *) fe->context)->registers) == 0)
		_longjmp(world, 1);
}

static void
enter(void)
{
	sim_host_start();
	sim_self->main(sim_self);
	sim_self->finished = true;
	for (;;)
		give_way(sim_self);
}

/* Let a front-end run until it waits. */
static void
go_on(SimFrontEnd *fe)
{
	Context    *context = fe->context;

	load(fe);
	sim_self = fe;
	if (_setjmp(world) == 0)
	{
		if (context->started)
			_longjmp(context->registers, 1);
		context->started = true;
		setcontext(&context->start);
	}
	sim_self = NULL;
	if (fe->finished)
		fe->alive = false;
}

static void
first_event(void *arg, uint64 tag)
{
	SimFrontEnd *fe = arg;

	if (fe->alive)
		go_on(fe);
}

SimFrontEnd *
sim_front_end(SimMain main, void *work)
{
	SimFrontEnd *fe = calloc(1, sizeof(SimFrontEnd));
	Context    *context = calloc(1, sizeof(Context));

	if (pristine == NULL)
	{
		pristine = malloc(DATA_BYTES + BSS_BYTES);
		copy_out(pristine);
	}
	fe->number = ++last_number;
	fe->alive = true;
	fe->main = main;
	fe->work = work;
	fe->image = malloc(DATA_BYTES + BSS_BYTES);
	memcpy(fe->image, pristine, DATA_BYTES + BSS_BYTES);
	context->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	getcontext(&context->start);
	context->start.uc_stack.ss_sp = context->stack;
	context->start.uc_stack.ss_size = STACK_BYTES;
	makecontext(&context->start, enter, 0);
	fe->context = context;
	sim_at(sim_now_us, first_event, fe, 0);
	return fe;
}

/* kill -9: it never goes on.  What it sent is under way. */
void
sim_kill(SimFrontEnd *fe)
{
	Context    *context = fe->context;

	Assert(sim_self == NULL);
	if (!fe->alive)
		return;
	sim_trace("fe%d is killed", fe->number);
	fe->alive = false;
	sim_cut(fe, NULL);
	if (loaded == fe)
		loaded = NULL;
	munmap(context->stack, STACK_BYTES);
	free(context);
	free(fe->image);
	fe->context = fe->image = NULL;
}

/* ---- waiting ---- */

static void
time_has_come(void *arg, uint64 tag)
{
	SimFrontEnd *fe = arg;

	if (!fe->alive || fe->wake != tag)
		return;
	if (fe->sleeping && fe->wakes_us > sim_now_us)
	{
		sim_at(fe->wakes_us, time_has_come, fe, tag);
		return;
	}
	fe->sleeping = false;
	go_on(fe);
}

bool
sim_wait(int64 until_us)
{
	SimFrontEnd *fe = sim_self;
	uint64		wake = ++fe->wake;

	Assert(fe != NULL);
	sim_at(until_us, time_has_come, fe, wake);
	give_way(fe);
	return sim_now_us < until_us;
}

static void
woken(void *arg, uint64 tag)
{
	time_has_come(arg, tag);
}

void
sim_wake(SimFrontEnd *fe, uint64 wake)
{
	if (fe->alive && fe->wake == wake)
		sim_at(sim_now_us, woken, fe, wake);
}

void
sim_stop(SimFrontEnd *fe, int64 until_us)
{
	if (!fe->alive)
		return;
	sim_trace("fe%d is stopped until %.6f", fe->number, (double) until_us / 1e6);
	fe->sleeping = true;
	fe->wakes_us = until_us;
}

static void
interrupt(SimFrontEnd *fe, volatile sig_atomic_t *pending)
{
	Assert(sim_self == NULL);
	if (!fe->alive)
		return;
	load(fe);
	InterruptPending = true;
	*pending = true;
	sim_wake(fe, fe->wake);
}

void
sim_cancel(SimFrontEnd *fe)
{
	sim_trace("fe%d is cancelled", fe->number);
	interrupt(fe, &QueryCancelPending);
}

/* It ends with its transaction, or in the middle of it. */
void
sim_terminate(SimFrontEnd *fe)
{
	sim_trace("fe%d is terminated", fe->number);
	fe->terminated = true;
	interrupt(fe, &ProcDiePending);
}
