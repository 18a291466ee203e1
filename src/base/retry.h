/*
 * retry.h: one budget of time for everything a statement retries.
 *
 * Every retry loop takes a budget.  A pause is randomised ("full jitter"),
 * grows from MOSQL_RETRY_MIN_US to MOSQL_RETRY_MAX_US, checks for interrupts,
 * and never goes past the deadline.
 */
#ifndef MOSQL_RETRY_H
#define MOSQL_RETRY_H

#include "base/base.h"

#define MOSQL_RETRY_MIN_US	100
#define MOSQL_RETRY_MAX_US	50000

typedef struct MosqlBudget
{
	int64		deadline_us;	/* on the monotonic clock of mosql_now_us */
	int			attempts;		/* pauses taken so far */
} MosqlBudget;

/* Monotonic microseconds. */
extern int64 mosql_now_us(void);

/* A budget that ends timeout_ms from now. */
extern MosqlBudget mosql_budget_start(int timeout_ms);

/* Milliseconds left, 0 when spent. */
extern int	mosql_budget_left_ms(const MosqlBudget *budget);

/*
 * Sleep a little before the next attempt.  Returns false, without sleeping,
 * when the budget is spent.  Throws 57014 when the query is cancelled.
 */
extern bool mosql_budget_pause(MosqlBudget *budget);

/* Sleep for a random time, at least half of what is given.  Throws 57014. */
extern void mosql_pause(int64 at_most_us);

#endif							/* MOSQL_RETRY_H */
