/*
 * redis_int.h: what the files of this layer know of each other.
 *
 *     MosqlRedis ── servers[] ── MosqlServer ── conn ── MosqlConnection
 *         │                          │                      │
 *         │ map[16384]: slot ──> server index               │ FIFO of
 *         │                          │                      │ MosqlPending
 *         └─ running ── MosqlBatch   └─ queue of groups     │   │
 *                          └─ groups[] <────────────────────────┘
 *
 * A server is one Redis process, known by its address; it is never forgotten
 * while the client lives, so pointers to it stay valid.  (A *node* is a tree
 * node everywhere else in the product.)  A connection comes and goes; its
 * serial number is never used again.
 */
#ifndef MOSQL_REDIS_INT_H
#define MOSQL_REDIS_INT_H

#include <hiredis/hiredis.h>

#include "base/limits.h"
#include "redis/redis.h"

#define MOSQL_SLOTS				16384

/* A name in the DNS has up to 253 bytes; longer ones are no hosts. */
#define MOSQL_HOST_MAX_BYTES	255

/* One recv(); also the bound of what is parsed before the buffer moves on. */
#define MOSQL_RECEIVE_BYTES		(32 * 1024)

/* So many of them at most, before others have their turn, and cancel requests, and deadlines. */
#define MOSQL_RECEIVE_AT_ONCE	32

/* The longest wait without looking for interrupts and the postmaster. */
#define MOSQL_TICK_MS			100

/* An idle connection this old is looked at before it is trusted. */
#define MOSQL_IDLE_CHECK_US		50000

/* Nothing is sent again with less time than this left to answer. */
#define MOSQL_LAST_ATTEMPT_US	20000

/* A server that is silent for so long may have been replaced: ask others. */
#define MOSQL_SILENCE_US		500000

/* How long a server may take to hang up after QUIT. */
#define MOSQL_HANGUP_MS			200

/* How long a detached command may wait for room in a connection's window, and its reply for the next byte. */
#define MOSQL_DETACHED_WAIT_US		(1000 * 1000)

typedef struct MosqlConnection MosqlConnection;

/* What is wrong with a server, for the user. */
typedef struct MosqlFailure
{
	int			sqlstate;
	char		text[256];
} MosqlFailure;

typedef struct MosqlServer
{
	int			index;			/* in redis->servers */
	char	   *host;			/* or the path of a socket, */
	int			port;			/* then this is 0 */
	char	   *address;		/* host:port, or that path, as in messages and errors */
	bool		primary;		/* serves slots in the present map */
	bool		connected_before;
	MosqlConnection *conn;		/* NULL: none */
	MosqlFailure failure;		/* the last one */

	/* groups of the running batch that wait for this server: -1 = none */
	int			queue_head;
	int			queue_tail;
} MosqlServer;

/* Who waits for a reply. */
typedef enum MosqlPendingKind
{
	MOSQL_PENDING_NOBODY,		/* ASKING, or given up */
	MOSQL_PENDING_GREETING,		/* the connection itself: AUTH, CONFIG GET */
	MOSQL_PENDING_MAP,			/* the cluster map: CLUSTER SLOTS */
	MOSQL_PENDING_BATCH,
	MOSQL_PENDING_WAIT,			/* a batch's groups that are ANSWERED */
	MOSQL_PENDING_DETACHED
} MosqlPendingKind;

typedef struct MosqlPending
{
	MosqlPendingKind kind;
	int			group;			/* BATCH */
	int			command;		/* BATCH: index in the group */
	uint64		owner;			/* BATCH, WAIT: its id; MAP: number of the request */
	uint64		start;			/* position of its first byte in the stream */
	MosqlReplyCallback done;	/* DETACHED */
	void	   *arg;
} MosqlPending;

typedef enum MosqlConnectionState
{
	MOSQL_CONNECTING,			/* connect() is under way */
	MOSQL_GREETING,				/* AUTH or CONFIG GET is sent, only its reply
								 * is awaited */
	MOSQL_READY
} MosqlConnectionState;

struct MosqlConnection
{
	MosqlRedis *redis;
	MosqlServer *server;
	uint64		serial;
	MosqlConnectionState state;
	int			fd;
	int64		deadline_us;	/* of CONNECTING and GREETING */
	int64		used_us;		/* last sent something */
	int64		heard_us;		/* last received something */
	struct addrinfo *addresses; /* while CONNECTING; NULL: to a path */
	struct addrinfo *address;	/* the one being tried */
	bool		heard;			/* it has answered something */
	bool		torn;			/* a group is half appended */
	bool		wants_map;		/* ask for the map once READY */
	bool		introduced;		/* AUTH is done with: the next greeting is CONFIG GET */
	bool		synchronous;	/* appendfsync always, at all times: a reply implies the disk */
	bool		unsynced;		/* durable detached commands since the last WAIT */

	/*
	 * Incoming.  The reply of the first pending command is built in `into`;
	 * NULL means that nobody wants it any more.
	 */
	redisReader *reader;
	MemoryContext into;
	MemoryContext scratch;		/* for replies that nobody keeps */
	bool		begun;			/* a part of that reply is built there */
	size_t		elements;		/* of that reply's arrays, as announced */
	const char *refused;		/* why it is not believed (reply.c); NULL: it is */

	/* outgoing bytes: out[out_pos .. out_len) are not sent yet */
	char	   *out;
	size_t		out_size;
	size_t		out_len;
	size_t		out_pos;
	uint64		queued_bytes;	/* stream position of the end of out */
	uint64		sent_bytes;		/* stream position of what the kernel took */

	/* commands without a reply yet, a ring */
	MosqlPending *ring;
	int			ring_size;		/* a power of two */
	int			ring_head;
	int			under_way;
};

typedef enum MosqlTopology
{
	MOSQL_TOPOLOGY_UNKNOWN,
	MOSQL_TOPOLOGY_PLAIN,		/* one server without cluster mode */
	MOSQL_TOPOLOGY_CLUSTER
} MosqlTopology;

struct MosqlRedis
{
	MemoryContext cxt;
	MemoryContextCallback on_delete;
	char	   *username;
	char	   *password;
	int			connect_timeout_ms;
	int			command_timeout_ms;
	int			blocking_ms;
	int			replicas;
	bool		fsync;
	int			replica_timeout_ms;
	uint32		wait_event;		/* what a wait is shown as */
	uint64		breaks;			/* connections in use that broke */
	uint64		fence;			/* one more than their number may be; 0: none */
	int64		hurry_us;		/* nobody waits for longer than until then; 0: as long as he likes */
	bool		unsynced_lost;	/* one of them was unsynced */

	MosqlServer **servers;		/* the configured ones first */
	int			nservers;
	int			servers_size;
	int			nseeds;
	uint64		last_serial;
	int64		now_us;			/* the time, as of the last wait */

	/* the map */
	MosqlTopology topology;
	int16	   *map;			/* [MOSQL_SLOTS] server index or -1 */
	const MosqlServer *told_by;	/* the map, as it is; NULL: nobody yet */
	bool		map_stale;		/* somebody was redirected or not answered */
	bool		redirected;		/* what passed for a plain server has redirected somebody */
	MosqlServer *asked;			/* of whom it is being asked, or NULL */
	uint64		ask_number;
	int64		ask_deadline_us;
	int			ask_next;		/* index of the server to ask next */
	int			ask_failures;	/* servers that failed in this round */
	MosqlFailure ask_failure;	/* the last of them */
	MosqlServer *ask_failure_server;
	bool		ask_fatal;		/* ... and asking again is pointless */

	/* batches */
	MosqlBatch *running;
	MosqlBatch *batches;		/* all that may still be referred to */
	uint64		last_batch_id;
	bool		corked;

	struct pollfd *polls;		/* for mosql_redis_pump */
	MosqlServer **polled;
	char		buffer[MOSQL_RECEIVE_BYTES];
};

/* slot.c: mosql_redis_slot() */

/* nodes.c: the list of addresses */

/*
 * Take the next "host:port" off *list (which advances; NULL at the end).
 * Returns NULL and sets host (pointer into the list), host_len and port (0: it is the path
 * of a socket), or says what is wrong.
 */
extern const char *mosql_nodes_next(const char **list, const char **host, int *host_len, int *port);

/* May it be the name or address of a host?  Such are printable ASCII without blanks, whatever a server says. */
extern bool mosql_nodes_is_host(const char *text, size_t len);

/*
 * Split the "host:port" of a redirection at its last colon: the host is the
 * first *host_len bytes (0: the server that said it).  False if malformed.
 */
extern bool mosql_nodes_split(const char *address, int *host_len, int *port);

/* reply.c */
extern const MosqlReply mosql_reply_lost;

/* A reader that builds replies in conn->into.  NULL: no memory. */
extern redisReader *mosql_reply_reader_create(MosqlConnection *conn);

/*
 * The reader has read all that there is, and waits for more: why that is not to be waited
 * for; NULL: it is.  What is refused already while elements are made stands in
 * conn->refused, and the reader has failed.
 */
extern const char *mosql_reply_excess(const redisReader *reader);

/* error.c */

/* What an error reply means for the command; ordered by nothing. */
typedef enum MosqlErrorClass
{
	MOSQL_ERROR_OTHER,			/* the caller's business */
	MOSQL_ERROR_MOVED,			/* from here ... */
	MOSQL_ERROR_ASK,
	MOSQL_ERROR_LATER,			/* TRYAGAIN, CLUSTERDOWN, LOADING, ... */
	MOSQL_ERROR_EXECABORT,		/* ... to here: it was not executed */
	MOSQL_ERROR_RAISE			/* not executed, and no retry helps */
} MosqlErrorClass;

extern MosqlErrorClass mosql_error_classify(MosqlBytes message);

/* True if this LATER error may mean that the map is out of date. */
extern bool mosql_error_doubts_map(MosqlBytes message);

/* True if the server says this to a new connection and closes it. */
extern bool mosql_error_hangs_up(MosqlBytes message);

/* Raise ERROR for an error reply.  Does not return. */
extern void mosql_error_raise_reply(const char *server, MosqlBytes message, const char *attempt)
			pg_attribute_noreturn();

/* Raise ERROR for a failure of a server (NULL: of all).  Does not return. */
extern void mosql_error_raise_failure(const MosqlServer *server, const MosqlFailure *failure)
			pg_attribute_noreturn();

/* True if there is no point in trying again. */
extern bool mosql_failure_is_final(const MosqlFailure *failure);

extern void mosql_failure_set(MosqlFailure *failure, int sqlstate, const char *text);

/* mosql_redis_text() without memory.  Returns text. */
extern const char *mosql_error_text(char *text, size_t size, MosqlBytes said);

/* The SQLSTATE of an error reply. */
extern int	mosql_error_sqlstate(MosqlBytes message);

/* connection.c, stream.c: one socket */

#define MOSQL_COULD_NOT_CONNECT ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION

/*
 * Begin to connect; the connection is usable once it is MOSQL_READY.  NULL if
 * that failed at once; server->failure tells why.  Throws for lack of memory.
 */
extern MosqlConnection *mosql_connection_open(MosqlServer *server, MosqlRedis *redis);

/*
 * Close and free.  Everybody who waits is told; sqlstate and why go to
 * server->failure (0, NULL: not worth mentioning).
 */
extern void mosql_connection_close(MosqlConnection *conn, int sqlstate, const char *why);

/*
 * Send QUIT, if nothing is under way.  When the connection is closed afterwards it
 * leaves no TIME_WAIT behind: backends that take turns would use up all ports.
 */
extern bool mosql_connection_quit(MosqlConnection *conn);

/* It has been connecting for too long: try the next address of its name, or close it. */
extern void mosql_connection_expire(MosqlConnection *conn);

/* As a memory context goes away: only give back what is not memory. */
extern void mosql_connection_abandon(MosqlConnection *conn);

/*
 * Append a command to what is to be sent.  Throws for lack of memory, with
 * nothing changed.
 */
extern void mosql_connection_append(MosqlConnection *conn, int argc, const MosqlBytes *argv,
									const MosqlPending *pending);

/* Append CLUSTER SLOTS for the request redis->ask_number. */
extern void mosql_connection_ask_map(MosqlConnection *conn);

/* Send what the kernel takes.  False if the connection broke and is gone. */
extern bool mosql_connection_flush(MosqlConnection *conn);

/* Receive until there is nothing more, or much has come.  False if the connection broke and is gone. */
extern bool mosql_connection_receive(MosqlConnection *conn);

/* AUTH was accepted, or is not needed.  False if the connection broke and is gone. */
extern bool mosql_connection_become_ready(MosqlConnection *conn);

/* AUTH was accepted, or is not needed: what else there is to ask. */
extern bool mosql_connection_introduced(MosqlConnection *conn);

/* Go on after poll() said so.  False if the connection broke and is gone. */
extern bool mosql_connection_progress(MosqlConnection *conn, short revents);

/* False if an idle connection turned out to be dead; it is closed then. */
extern bool mosql_connection_check_idle(MosqlConnection *conn);

static inline bool
mosql_connection_has_output(const MosqlConnection *conn)
{
	return conn->out_pos < conn->out_len;
}

static inline MosqlPending *
mosql_connection_pending(const MosqlConnection *conn, int i)
{
	return &conn->ring[(conn->ring_head + i) & (conn->ring_size - 1)];
}

/* Bytes whose replies are not in yet. */
static inline uint64
mosql_connection_bytes_under_way(const MosqlConnection *conn)
{
	return conn->under_way == 0 ? 0 :
		conn->queued_bytes - conn->ring[conn->ring_head].start;
}

/* Does the window take n commands more? */
static inline bool
mosql_connection_has_room(const MosqlConnection *conn, int n)
{
	return conn->under_way + n <= MOSQL_PIPELINE_MAX_COMMANDS &&
		mosql_connection_bytes_under_way(conn) < MOSQL_PIPELINE_MAX_BYTES;
}

/* cluster.c */

/* Find a server by address, or get to know it. */
extern MosqlServer *mosql_cluster_server(MosqlRedis *redis, const char *host, int host_len, int port);

/*
 * See to it that somebody is being asked for the map.  False if nobody is left
 * in this round (redis->ask_failure); the next call begins a new round.
 */
extern bool mosql_cluster_ask(MosqlRedis *redis);

/* The reply to CLUSTER SLOTS, or NULL: the connection broke. */
extern void mosql_cluster_answer(MosqlRedis *redis, MosqlServer *server, const MosqlReply *reply);

/* A slot was redirected: remember, and have the map refreshed. */
extern void mosql_cluster_moved(MosqlRedis *redis, uint16 slot, MosqlServer *server);

/* The map may be out of date; ask anybody but this server. */
extern void mosql_cluster_doubt(MosqlRedis *redis, const MosqlServer *server);

/* The server of a slot; NULL if unknown. */
extern MosqlServer *mosql_cluster_route(MosqlRedis *redis, uint16 slot);

/* Why there is no map.  Does not return. */
extern void mosql_cluster_raise(MosqlRedis *redis) pg_attribute_noreturn();

/* Connect and learn the topology unless it is known.  Throws 08001 and so on. */
extern void mosql_cluster_need_map(MosqlRedis *redis);

/* client.c */

/*
 * Send what is to be sent, wait for something to happen, and handle it.
 * False if deadline_us passed.  Throws 57014, if interruptible.
 */
extern bool mosql_redis_pump(MosqlRedis *redis, int64 deadline_us, bool interruptible);

/* batch.c, run.c, group.c: collecting a batch, running it, its groups */

typedef enum MosqlGroupState
{
	MOSQL_GROUP_WAITING,		/* in batch->todo, batch->paused or a server's queue */
	MOSQL_GROUP_SENT,
	MOSQL_GROUP_ANSWERED,		/* replies are in; it waits for the replicas */
	MOSQL_GROUP_DONE,
	MOSQL_GROUP_FAILED			/* not executed; run raises the reason in the end */
} MosqlGroupState;

typedef struct MosqlCommand
{
	int			argc;
	const MosqlBytes *argv;
	const MosqlReply *reply;	/* NULL: not in yet */
} MosqlCommand;

typedef struct MosqlGroup
{
	uint16		slot;
	MosqlSendMode mode;
	MosqlGroupState state;
	int			first;			/* its commands in batch->commands */
	int			ncommands;
	int			missing;		/* replies not in yet, while SENT */
	int			attempts;		/* times sent */
	int			redirects;
	bool		asking;			/* the next attempt is an ASK redirection */
	bool		durable;
	int			next;			/* in its list; -1 = last */
	MosqlServer *fixed;			/* addressed to this server, whatever the map says */
	MosqlServer *target;		/* of the present attempt */
	uint64		pin;
	uint64		serial;			/* connection of the last attempt */
	uint64		start;			/* its first byte in that stream */
	const MosqlReply *refusal;	/* the first reply of the last attempt that says
								 * "not executed, try again"; or NULL */
} MosqlGroup;

typedef struct MosqlGroupList
{
	int			head;			/* -1 = empty */
	int			tail;
} MosqlGroupList;

#define MOSQL_BATCH_INLINE_GROUPS	8
#define MOSQL_BATCH_INLINE_ARGS		48

struct MosqlBatch
{
	MosqlRedis *redis;			/* NULL: the client is gone */
	MosqlBatch *prev;			/* in redis->batches */
	MosqlBatch *next;
	uint64		id;
	MemoryContext cxt;
	MemoryContextCallback on_reset;
	bool		ran;
	bool		expired;		/* no more attempts */
	bool		takes_errors;	/* none is raised that is a reply */

	MosqlGroup *groups;
	int			ngroups;
	int			groups_size;
	MosqlCommand *commands;
	int			ncommands;
	int			commands_size;
	MosqlBytes *args;			/* where the next argv goes */
	int			args_left;

	/* while it runs */
	int			unfinished;		/* groups neither DONE nor FAILED */
	int			sent;			/* groups that are SENT or ANSWERED */
	bool		trip_counted;
	int64		listen_us;		/* when to look for silent servers */
	int64		resume_us;		/* when `paused` ends while others are under way; 0 = unset */
	MosqlGroupList todo;		/* to be routed */
	MosqlGroupList unrouted;	/* waiting for the map */
	MosqlGroupList paused;		/* to be routed after a pause */
	int			failed_group;	/* the first that FAILED; -1 = none */
	const MosqlReply *raise;	/* the first error reply to be raised */
	const MosqlReply *shortfall;	/* the first answer of too few replicas */

	/* enough for the hot path, so that a batch is one allocation */
	MosqlGroup	inline_groups[MOSQL_BATCH_INLINE_GROUPS];
	MosqlCommand inline_commands[MOSQL_BATCH_INLINE_GROUPS];
	MosqlBytes	inline_args[MOSQL_BATCH_INLINE_ARGS];
};

/* Lists of groups, by index; a server's queue is one, too. */
extern void mosql_group_enqueue(MosqlBatch *batch, int *head, int *tail, int group);
extern void mosql_group_push(MosqlBatch *batch, MosqlGroupList *list, const MosqlGroup *group);
extern int	mosql_group_pop(MosqlBatch *batch, int *head);
extern void mosql_group_move_all(MosqlBatch *batch, int *head, MosqlGroupList *to);

/* It surely did not run, and there is no more time, or no sense in trying. */
extern void mosql_group_give_up(MosqlBatch *batch, MosqlGroup *group);
extern void mosql_group_give_up_all(MosqlBatch *batch, int *head);

/* To be tried again, at once or after a pause. */
extern void mosql_group_try_again(MosqlBatch *batch, MosqlGroup *group, bool at_once);

/* Is the command of this name?  In any case of letters. */
extern bool mosql_command_is(const MosqlCommand *command, const char *name);

/* It owes us replies, and nothing was sent or heard for a while. */
extern bool mosql_server_is_silent(const MosqlRedis *redis, const MosqlServer *server);

/* A reply for a group of the running batch. */
extern void mosql_batch_deliver(MosqlBatch *batch, MosqlConnection *conn,
								const MosqlPending *pending, const MosqlReply *reply);

/* The connection broke before the reply came; sent_bytes as it was then. */
extern void mosql_batch_lose(MosqlBatch *batch, const MosqlPending *pending, uint64 sent_bytes);

/* wait.c: durable groups */

/* Does a durable command need WAIT or WAITAOF behind it on this connection? */
extern bool mosql_connection_waits(const MosqlConnection *conn);

/* Append that command. */
extern void mosql_connection_append_wait(MosqlConnection *conn, const MosqlPending *pending);

/* Its answer for the running batch, or NULL: the connection broke. */
extern void mosql_batch_confirm(MosqlBatch *batch, const MosqlConnection *conn,
								const MosqlReply *reply);

/* The ends of a group, for wait.c. */
extern void mosql_group_finish(MosqlBatch *batch, MosqlGroup *group, MosqlGroupState state);
extern void mosql_group_finish_lost(MosqlBatch *batch, MosqlGroup *group, const MosqlReply *lost);

/* No connection to this server: what is queued for it must wait or fail. */
extern void mosql_batch_unreachable(MosqlBatch *batch, MosqlServer *server);

/*
 * Route again what waits for the map: asking failed.  Or, with everything, what
 * waits for any server: the map is new.
 */
extern void mosql_batch_reroute(MosqlBatch *batch, bool everything);

#endif							/* MOSQL_REDIS_INT_H */
