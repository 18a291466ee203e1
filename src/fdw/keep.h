/*
 * keep.h: sessions that have to live while their transactions wait for their clients.
 *
 * Layer: fdw.
 */
#ifndef MOSQL_KEEP_H
#define MOSQL_KEEP_H

#include "base/base.h"
#include "nodes/pg_list.h"
#include "postmaster/bgworker.h"

/* This process will have sessions at clocks; once, before the first. */
extern void mosql_keep_enter(void);

/*
 * A session of this process has to live from now on, until the end: its id, its server, who
 * uses it, and the length of its lease.  Sees to it that there is a keeper.  Returns its
 * place; -1: there is none left, and it lives as long as its lease.
 */
extern int	mosql_keep_begin(uint64 sid, Oid serverid, Oid user, int lease_ms);
extern void mosql_keep_end(int place);

/* What tells this PostgreSQL server from all others, "" if nothing does for sure. */
extern const char *mosql_keep_home(void);

/* From _PG_init. */
extern void mosql_keep_init(void);

/* ---- for the keeper (admin/keeper.c) ---- */

/* Before all else of it. */
extern void mosql_keep_attach(void);

/* The process that is to be the keeper. */
extern void mosql_keep_describe(BackgroundWorker *worker);

typedef struct MosqlKept
{
	Oid			database;
	uint64		sid;
	Oid			server;
	Oid			user;
	int			lease_ms;
	int64		since_us;		/* mosql_now_us() */
} MosqlKept;

/* The caller is the keeper from now on, until it ends; false: there is one. */
extern bool mosql_keep_serve(void);

/* Nobody is kept, and the caller is the keeper no more; false: somebody came just now. */
extern bool mosql_keep_retire(void);

/* What is to be kept, in the current context. */
extern int	mosql_keep_list(MosqlKept **kept);

/*
 * Databases of which processes have ended without having ended their sessions; take: strike
 * one off, true if it was there.
 */
extern List *mosql_keep_left(void);
extern bool mosql_keep_take_left(Oid database);

/* Is this process of this server there? */
extern bool mosql_keep_is_alive(int pid, int64 started);

#endif							/* MOSQL_KEEP_H */
