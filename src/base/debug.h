/*
 * debug.h: named points where tests hold, or end, this process.
 *
 * A point costs one test of a static flag.  With mosql_fdw.debug_points = on
 * it takes and gives back a shared advisory lock named after itself, so that a
 * test session that holds mosql_fdw_debug_lock('name') stops everybody there
 * (after TimescaleDB).  With mosql_fdw.debug_crash_at = 'name' the backend
 * kills itself with SIGKILL there; with mosql_fdw.debug_error_at it raises an
 * error.
 */
#ifndef MOSQL_DEBUG_H
#define MOSQL_DEBUG_H

#include "base/base.h"

extern bool mosql_debug_active; /* any of the three settings is on */

/* What happens at a point: set by src/admin/debug.c, NULL without a server. */
typedef void (*MosqlDebugHook) (const char *name);
extern MosqlDebugHook mosql_debug_hook;

extern void mosql_debug_reach(const char *name);

#define MOSQL_DEBUG_POINT(name) \
	do { \
		if (unlikely(mosql_debug_active)) \
			mosql_debug_reach(name); \
	} while (0)

#endif							/* MOSQL_DEBUG_H */
