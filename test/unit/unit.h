/*
 * unit.h: the smallest test harness that does.
 *
 *     static void
 *     test_something(void)
 *     {
 *         CHECK(1 + 1 == 2);
 *         CHECK_RAISES(ERRCODE_DATA_CORRUPTED, parse("x"));
 *     }
 *
 *     int
 *     main(void)
 *     {
 *         RUN(test_something);
 *         return unit_finish();
 *     }
 *
 * Each case runs in a memory context of its own; an error that it does not
 * catch fails it.  The last line printed is "N passed, N failed".
 */
#ifndef UNIT_H
#define UNIT_H

#include "pgstub.h"

static int	unit_passed;
static int	unit_failed;
static const char *unit_case = "";

static inline bool
unit_check(bool ok, const char *what, const char *file, int line)
{
	if (ok)
		unit_passed++;
	else
	{
		unit_failed++;
		printf("not ok - %s: %s (%s:%d)\n", unit_case, what, file, line);
		fflush(stdout);
	}
	return ok;
}

#define CHECK(cond) unit_check((cond), #cond, __FILE__, __LINE__)

#define CHECK_INT(actual, expected) \
	do { \
		long long	a_ = (long long) (actual), e_ = (long long) (expected); \
		if (!unit_check(a_ == e_, #actual " is " #expected, __FILE__, __LINE__)) \
			printf("#   got %lld, expected %lld\n", a_, e_); \
	} while (0)

#define CHECK_STR(actual, expected) \
	do { \
		const char *a_ = (actual), *e_ = (expected); \
		if (!unit_check(a_ != NULL && strcmp(a_, e_) == 0, #actual " is " #expected, __FILE__, __LINE__)) \
			printf("#   got \"%s\", expected \"%s\"\n", a_ ? a_ : "(null)", e_); \
	} while (0)

/* The statement must raise an error with this SQLSTATE. */
#define CHECK_RAISES(errcode_, ...) \
	do { \
		bool		r_ = PGSTUB_RAISES(__VA_ARGS__); \
		if (!unit_check(r_ && pgstub_error.sqlstate == (errcode_), #__VA_ARGS__ " raises " #errcode_, \
						__FILE__, __LINE__)) \
			printf("#   got %s %s\n", r_ ? pgstub_sqlstate(pgstub_error.sqlstate) : "no error", \
				   r_ ? pgstub_error.message : ""); \
	} while (0)

static inline void
unit_run(void (*test) (void), const char *name)
{
	MemoryContext old = CurrentMemoryContext;
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "test case", ALLOCSET_DEFAULT_SIZES);
	int			failed_before = unit_failed;

	unit_case = name;
	MemoryContextSwitchTo(cxt);
	if (PGSTUB_RAISES(test()))
	{
		unit_failed++;
		printf("not ok - %s: unexpected error %s: %s (%s)\n", name,
			   pgstub_sqlstate(pgstub_error.sqlstate), pgstub_error.message, pgstub_error.detail);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	if (unit_failed == failed_before)
		printf("ok - %s\n", name);
	fflush(stdout);
}

#define RUN(test) unit_run(test, #test)

/* Print the sum; the exit code of main(). */
static inline int
unit_finish(void)
{
	printf("%d passed, %d failed\n", unit_passed, unit_failed);
	return unit_failed == 0 ? 0 : 1;
}

#endif							/* UNIT_H */
