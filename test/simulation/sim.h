/*
 * sim.h: the real code of base to txn, many front-ends in one process, on simulated
 * time and a simulated network, from a seed.
 *
 *     world.c      time, chance, events; front-ends as coroutines
 *     host.c       what the operating system and PostgreSQL are to a front-end; hash.c: its tables
 *     core.c       what commits of PostgreSQL's own are
 *     memory.c     its memory contexts
 *     network.c    sockets between front-ends and Redis servers
 *     keyspace.c   what a Redis server stores; how it forgets
 *     command.c    its commands
 *     script.c     its scripts, run by Lua
 *     cluster.c    servers, slots, replicas
 *     oracle.c     what was committed, in order: what every read must give
 *     work.c       transactions at random
 *     insert.c     with rows that come, and keys that move
 *     exec.c       with what the executor asks for beyond rows
 *     locks.c      with row locks; claims.c: who holds them, and waits
 *     number.c     with locks of sessions
 *     parallel.c   in several processes
 *     far.c        in two namespaces
 *     damage.c     nodes that are lost, and made anew
 *     fault.c      what goes wrong
 *     aim.c        at a site that is aimed at
 *     main.c       one run
 *
 * A front-end is a coroutine with its own copy of all variables of the product: they
 * are in sections of their own (Makefile), which world.c exchanges when it switches.
 * Everything here is outside of those sections, and shared.
 */
#ifndef SIM_H
#define SIM_H

#include "postgres.h"

#include "base/base.h"

/* ---- chance: one generator for a whole run ---- */

extern uint64 sim_seed;
extern uint64 sim_random(void);
extern int64 sim_below(int64 n);		/* 0 .. n - 1 */
extern int64 sim_between(int64 low, int64 high);
extern bool sim_chance(int per_mille);

/* Go on with another sequence; what leads back to the present one. */
extern uint64 sim_other_chance(uint64 state);

/* ---- time and events ---- */

extern int64 sim_now_us;			/* of the world; no node's clock need agree */
typedef void (*SimEvent) (void *arg, uint64 tag);
extern void sim_at(int64 time_us, SimEvent event, void *arg, uint64 tag);

/* Run until nothing is left to do, or that time has come. */
extern void sim_run(int64 until_us);

/*
 * ---- what is wrong, and what is going on ----
 *
 * A transaction that began before a server forgot, or that an isolated primary has answered, may see
 * anything (docs/durability.md): in that one, sim_fail() raises an error instead.  So it does in each
 * where the database is torn.
 */

extern bool sim_tracing;
extern void sim_trace(const char *format,...) pg_attribute_printf(1, 2);
extern bool sim_sees_anything(void);	/* this front-end's transaction, or its end */
extern void sim_fail(const char *format,...) pg_attribute_printf(1, 2) pg_attribute_noreturn();

/* ---- front-ends ---- */

typedef struct SimFrontEnd SimFrontEnd;
typedef void (*SimMain) (SimFrontEnd *self);

struct SimFrontEnd
{
	int			number;			/* never used again */
	bool		alive;
	bool		finished;		/* its main has returned */
	bool		sleeping;		/* stopped by a fault until `wakes_us` */
	int64		wakes_us;
	void	   *work;			/* of work.c */
	uint64		wake;			/* what it waits for: a number per wait */
	int			nest_level;		/* of PostgreSQL's transaction */
	bool		local_fails;	/* PostgreSQL's next commit does, after ours */
	bool		local_failed;	/* that of its last transaction did */
	bool		hasty_tree;		/* sites.c */
	const char *clock_function;
	const void *site;			/* aim.c: it sends there */
	int			aim;			/* who has aimed, */
	int			aimed;			/* at which message: 1 is the next; 0: none */
	bool		terminated;		/* it was told to end */
	int64		began_us;		/* its transaction */
	bool		misled;			/* an isolated primary has answered since */
	uint64		sent;			/* messages since then */

	/* --- world.c --- */
	void	   *context;		/* its registers and stack */
	char	   *image;			/* its copy of the product's variables */
	SimMain		main;
};

extern SimFrontEnd *sim_self;	/* NULL: the world itself */
extern SimFrontEnd *sim_front_end(SimMain main, void *work);
extern void sim_kill(SimFrontEnd *fe);

/* In a front-end: give way until somebody calls sim_wake() with its wake number, or until
 * that time.  True if woken. */
extern bool sim_wait(int64 until_us);
extern void sim_wake(SimFrontEnd *fe, uint64 wake);
extern void sim_stop(SimFrontEnd *fe, int64 until_us);

/* Set a pending interrupt in a front-end that does not run now. */
extern void sim_cancel(SimFrontEnd *fe);
extern void sim_terminate(SimFrontEnd *fe);

/* ---- host.c ---- */

extern void sim_host_start(void);		/* in a new front-end, before anything else */
extern bool sim_transaction(SimFrontEnd *fe, bool commit);	/* end it; false: it failed */
extern void sim_worker_ends(SimFrontEnd *fe);	/* of a parallel query */
extern void sim_begin(int isolation);
extern void sim_savepoint(void);
extern void sim_end_savepoint(bool commit);

/* ---- core.c ---- */

extern void sim_core_begin(bool alone);

/* ---- Redis ---- */

/* A value of a field; data NULL: none. */
typedef struct SimField
{
	MosqlBytes	name;
	MosqlBytes	value;
} SimField;

typedef struct SimKey
{
	struct SimKey *next;		/* of its bucket */
	MosqlBytes	name;
	uint32		hash;
	int			slot;
	char		type;			/* 'h' hash, 'z' sorted set, 's' set, 'l' list */
	int			n;
	int			max;
	uint64		version;		/* for WATCH */
	int64		expires_us;		/* by its server's clock; 0: never */
	SimField   *fields;
} SimKey;

/* One change, to be taken back when a server turns out to have lost it. */
typedef struct SimUndo
{
	SimKey	   *key;
	char		type;
	MosqlBytes	name;
	MosqlBytes	old;
} SimUndo;

#define SIM_REPLICAS_MAX 2

typedef struct SimServer SimServer;

/* What is stored at one place: a primary and its replicas. */
typedef struct SimShard
{
	int			number;
	SimServer  *primary;
	SimServer  *replicas[SIM_REPLICAS_MAX];
	int			nreplicas;
	SimKey    **buckets;
	int			nbuckets;
	int			nkeys;
	uint64		position;		/* changes made so far */
	uint64		first_undo;		/* position of undo[0] */
	int			nundo;
	int			maxundo;
	SimUndo    *undo;
	uint64		saved;			/* what a dump has */
	int64		behind_until_us;	/* replicas get nothing before */
	bool		isolated;		/* an old primary's own, which lasts as long as its lease does; */
	int			unreached;		/* of three front-ends one does not reach it; */
	int16	   *slots;			/* and it goes by the slots of then */
} SimShard;

struct SimServer
{
	int			number;			/* its port is 7000 + number */
	int			terms;			/* it has started, or become a primary */
	SimShard   *shard;
	bool		up;
	bool		full;			/* refuses writes that need memory */
	uint64		applied;		/* as a replica: has the changes before this */
	int64		ahead_us;		/* of its clock */
	int			nscripts;
	char		(*scripts)[41];
};

extern SimKey *sim_key(SimShard *shard, MosqlBytes name, bool create);
extern MosqlBytes sim_get(const SimKey *key, MosqlBytes field);
extern void sim_put(SimShard *shard, SimKey *key, char type, MosqlBytes field, MosqlBytes value);
extern void sim_forget(SimShard *shard, uint64 position);	/* all from there on */
extern void sim_copy(const SimShard *from, SimShard *to);
extern void sim_free_keys(SimShard *shard);
extern void sim_clear(SimShard *shard);	/* nothing is left, nor to be taken back */
extern void sim_trim(SimShard *shard, uint64 position);	/* nobody will forget before it */
extern SimKey *sim_next_key(SimShard *shard, uint64 *cursor);

/* Where a command's answer goes. */
typedef struct SimAnswer SimAnswer;
struct SimAnswer
{
	void		(*integer) (SimAnswer *to, int64 value);
	void		(*bulk) (SimAnswer *to, MosqlBytes value);	/* data NULL: nil */
	void		(*array) (SimAnswer *to, int n);	/* n answers follow; -1: nil */
	void		(*status) (SimAnswer *to, const char *text);
	void		(*error) (SimAnswer *to, const char *text);
};

/* A connection as the server sees it, as far as commands need it. */
typedef struct SimClient
{
	SimServer  *server;
	bool		in_script;
	bool		script_wrote;	/* then nothing of it is refused any more */
	bool		multi;
	bool		broken_multi;
	int			nqueued;
	int			maxqueued;
	struct
	{
		int			argc;
		MosqlBytes *argv;
	}		   *queued;
	int			nwatched;
	int			maxwatched;
	struct
	{
		SimKey	   *key;
		uint64		version;
	}		   *watched;
	bool		asking;
	uint64		wrote;			/* the shard's position after its last write */
	/* WAIT */
	bool		waits;
	int			wants;
	int64		waits_until_us;
	/* BLPOP */
	bool		blocks;
	int64		blocks_until_us;
	MosqlBytes	list;			/* its own copy */
} SimClient;

extern void sim_command(SimClient *client, int argc, const MosqlBytes *argv, SimAnswer *to);
extern void sim_execute(SimClient *client, int argc, const MosqlBytes *argv, SimAnswer *to);
extern void sim_script(SimClient *client, int argc, const MosqlBytes *argv, SimAnswer *to);
extern void sim_script_init(void);

/* A blocked client: if there is something in its list now, it has it. */
extern bool sim_list_pop(SimClient *client, SimAnswer *to);

/* Why it may block no longer; NULL: it may. */
extern const char *sim_list_refused(const SimClient *client);

/* ---- cluster.c ---- */

#define SIM_SERVERS_MAX 16
#define SIM_SHARDS_MAX 4

extern int	sim_nservers;
extern SimServer sim_servers[SIM_SERVERS_MAX];
extern int	sim_nshards;
extern SimShard sim_shards[SIM_SHARDS_MAX];
extern bool sim_is_cluster;
extern bool sim_dumps;			/* servers restart from dumps, with loss */
extern bool sim_locks_tables;	/* clients say LOCK TABLE */
extern bool sim_truncates;		/* half of the clients truncate all the time */
extern bool sim_locks_numbers;	/* sessions hold locks on numbers */
extern bool sim_sweeps;			/* maintenance sweeps every second time */
extern bool sim_loads;			/* ranges are emptied, and filled again, most of the time */
extern bool sim_runs;			/* rows next to each other are changed, most of the time, and packed at once */
extern bool sim_isolates;		/* primaries are isolated */
extern bool sim_grows;			/* one shard has all slots at first */
extern int64 sim_forgot_us;		/* when one did so last */
extern int64 sim_jumped_us;		/* when a server's clock did */
extern bool sim_is_torn;		/* some of several did: nothing is whole any more */
extern bool sim_may_lose;		/* what was acknowledged may be gone, as a whole */
extern int16 sim_slots[16384];	/* which shard */
extern uint64 sim_slot_moves;	/* changes of it */
extern SimShard *sim_moving[16384];	/* on its way to that one, key by key; or NULL */

extern void sim_cluster_start(int nshards, int nreplicas, bool cluster);
extern const char *sim_node_id(const SimServer *server);
extern void sim_replicate(SimShard *shard);		/* something was written */
extern int	sim_copies(const SimShard *shard, uint64 position);
extern void sim_fail_over(SimShard *shard, bool old_comes_back);
extern SimServer *sim_isolate(SimShard *shard);	/* its primary; NULL: it has no replica that could take over */
extern void sim_rejoin(SimServer *server);
extern bool sim_is_reached(const SimFrontEnd *fe, const SimServer *server);
extern const SimServer *sim_primary(const SimServer *by, int slot);	/* as one of them has it */
extern bool sim_owns(const SimServer *server, int slot);
extern void sim_saved(SimShard *shard);
extern void sim_restart(SimServer *server, uint64 position);
extern void sim_empty(SimServer *server);	/* a process without data takes its place */
extern void sim_move_slot(int slot, SimShard *to);	/* begins, and goes on by itself */
extern int64 sim_server_time(const SimServer *server);

/* ---- network.c ---- */

/* How long messages take, in microseconds, and how many in a thousand are late by how much. */
typedef struct SimNetwork
{
	int			min_us;
	int			max_us;
	int			late_per_million;
	int			late_max_us;
	int			cut_per_million;	/* connections that break with a message */
} SimNetwork;
extern SimNetwork sim_network;

extern uint64 sim_messages;
extern void sim_cut(SimFrontEnd *fe, SimServer *server);	/* NULL: all */
extern void sim_server_stops(SimServer *server);
extern void sim_server_isolated(SimServer *server); /* who does not reach it any more learns of that */
extern void sim_server_demoted(SimServer *server);
extern void sim_check_waits(SimShard *shard);
extern void sim_check_lists(void);
extern void sim_look_at_blocked(void);

/* ---- oracle.c ---- */

/* far: of the other namespace. */
extern void sim_record_written(bool far, uint64 sid, uint64 n, MosqlTimestamp ts);
extern void sim_record_forgotten(bool far, uint64 sid, uint64 n);
extern void sim_session_drawn(uint64 sid);
extern uint64 sim_sessions_highest(void);	/* that was drawn */

/* ---- damage.c ---- */

extern bool damage_is_done(void);

/* ---- claims.c ---- */

extern void claims_changed(const SimKey *key, MosqlBytes field, MosqlBytes old, MosqlBytes new, bool forgotten);

#endif							/* SIM_H */
