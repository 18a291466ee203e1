/*
 * debug.c: the switch behind MOSQL_DEBUG_POINT.
 *
 * Layer: base.  Locks and settings need a server, so what happens at a point is
 * src/admin/debug.c's business.
 */
#include "postgres.h"

#include "base/debug.h"

bool		mosql_debug_active = false;
MosqlDebugHook mosql_debug_hook = NULL;

void
mosql_debug_reach(const char *name)
{
	if (mosql_debug_hook != NULL)
		mosql_debug_hook(name);
}
