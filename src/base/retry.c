/*
 * retry.c: budgets of time and randomised pauses.
 *
 * Layer: base.
 */
#include "base/retry.h"

#include <limits.h>
#include <time.h>

#include "base/interrupt.h"
#include "common/pg_prng.h"

/* Microseconds of a clock that nobody sets back.  No system call on Linux. */
int64
mosql_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64) t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

MosqlBudget
mosql_budget_start(int timeout_ms)
{
	return (MosqlBudget) {mosql_now_us() + (int64) timeout_ms * 1000, 0};
}

/*
 * Rounded up, so that a wait for what is left never ends early and spins.
 */
int
mosql_budget_left_ms(const MosqlBudget *budget)
{
	int64		left_us = budget->deadline_us - mosql_now_us();

	if (left_us <= 0)
		return 0;
	return (int) Min((left_us + 999) / 1000, INT_MAX);
}

/*
 * "Full jitter": a pause is anywhere between nothing and a cap that doubles.
 * Clients that collided once are spread evenly, not just shifted together.
 */
static int64
pause_length_us(int attempts)
{
	int64		cap = MOSQL_RETRY_MAX_US;

	if (attempts < 10)			/* 100 us << 9 is beyond the maximum */
		cap = Min((int64) MOSQL_RETRY_MIN_US << attempts, cap);
	return 1 + (int64) (pg_prng_double(&pg_global_prng_state) * (double) cap);
}

/*
 * The sleep ends early when a signal arrives, and then starts again for the
 * rest.  Race -- a signal between the check and the sleep is seen only after
 * the sleep, at most MOSQL_RETRY_MAX_US later.
 */
static void
sleep_until(int64 until)
{
	for (int64 now = mosql_now_us(); now < until; now = mosql_now_us())
	{
		pg_usleep((long) Min(until - now, MOSQL_RETRY_MAX_US));
		mosql_check_interrupts();
	}
}

bool
mosql_budget_pause(MosqlBudget *budget)
{
	int64		now = mosql_now_us();

	mosql_check_interrupts();
	if (now >= budget->deadline_us)
		return false;
	sleep_until(Min(now + pause_length_us(budget->attempts), budget->deadline_us));
	budget->attempts++;
	return true;
}

void
mosql_pause(int64 at_most_us)
{
	int64		half = at_most_us / 2;

	mosql_check_interrupts();
	sleep_until(mosql_now_us() + half +
				(int64) (pg_prng_double(&pg_global_prng_state) * (double) half));
}
