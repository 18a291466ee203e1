/*
 * pgstub.h: the stand-in for the PostgreSQL server in tests without a server.
 *
 * The layers base, redis, code, step and btree are compiled against the real
 * server headers and linked with pgstub.c instead of a server.  It has what
 * these layers use: memory contexts (every chunk a malloc of its own, so that
 * the address sanitizer and valgrind see each), ereport with PG_TRY, interrupts,
 * StringInfo, time.  It is initialised before main().
 */
#ifndef PGSTUB_H
#define PGSTUB_H

#include "postgres.h"

#include "utils/memutils.h"

/* What the last error that was caught said; strings live until the next one. */
typedef struct PgStubError
{
	int			sqlstate;		/* as ERRCODE_... */
	const char *message;		/* "" if not given; never NULL */
	const char *detail;
	const char *hint;
} PgStubError;

extern PgStubError pgstub_error;

/* Inside PG_CATCH(): move the error into pgstub_error and forget it. */
extern void pgstub_error_take(void);

/* The five letters of a SQLSTATE; a static buffer. */
extern const char *pgstub_sqlstate(int sqlstate);

/* Run a statement; true if it raised an error, which is then in pgstub_error. */
#define PGSTUB_RAISES(...) \
	({ \
		volatile bool raised_ = false; \
		PG_TRY(); \
		{ \
			__VA_ARGS__; \
		} \
		PG_CATCH(); \
		{ \
			pgstub_error_take(); \
			raised_ = true; \
		} \
		PG_END_TRY(); \
		raised_; \
	})

/* SIGINT, and this function, cancel the query at the next interrupt check. */
extern void pgstub_cancel(void);

/* Raise SIGINT in so many milliseconds; 0 takes it back. */
extern void pgstub_cancel_after_ms(int ms);

/*
 * Make the contexts and what else a process begins with.  Done before main(); test/simulation
 * does it for each of the processes that it plays.
 */
extern void pgstub_start(void);

/* Chunks allocated now in all contexts, to find leaks. */
extern int64 pgstub_chunks(void);

/* Warnings and lesser messages so far; print them if set. */
extern int	pgstub_warnings;
extern bool pgstub_print_messages;

/* Called with each error and warning when it is made, caught or not; NULL: nobody. */
extern void (*pgstub_on_report) (const ErrorData *report);

#endif							/* PGSTUB_H */
