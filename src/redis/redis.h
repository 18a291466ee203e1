/*
 * redis.h: a client of one Redis (or Valkey) Cluster, or of one plain server.
 *
 * Layer: redis.  Knows connections, slots, redirections and pipelining; knows
 * nothing of SQL, trees or transactions.  Built on hiredis (0.14 and 1.x): its
 * protocol reader and command formatter; the waiting is ours, so that every
 * wait can be cancelled and has a timeout.
 *
 * Two ways to talk:
 *
 *  - A batch: any number of command groups for any nodes, all sent, all waited
 *    for, in parallel over the nodes ("start all, finish all"): one round trip
 *    whatever the number of commands, within a window that bounds what is
 *    under way on one connection.  MOVED, ASK, TRYAGAIN, CLUSTERDOWN, LOADING,
 *    READONLY (a demoted primary) and refused connections are retried within
 *    the budget; none of them means that the command was executed.
 *
 *  - A detached send: the command is written, nobody waits, and a callback gets
 *    the reply whenever replies of that connection are read next.
 *
 * Errors raised (ereport ERROR): 08001 cannot connect, 08006 lost or timed
 * out, 28P01 wrong or missing credentials, 42501 not permitted (ACL), 53200
 * Redis out of memory (OOM), 57P03 still loading, 25006 read-only server,
 * 57014 cancelled, 55000 no disk where `fsync` wants one.  Other error replies are returned as MOSQL_REPLY_ERROR.
 * After any error the connection that was in an unknown state is closed; the
 * client stays usable.
 */
#ifndef MOSQL_REDIS_H
#define MOSQL_REDIS_H

#include "base/base.h"
#include "base/retry.h"

typedef struct MosqlRedis MosqlRedis;
typedef struct MosqlBatch MosqlBatch;

typedef struct MosqlRedisConfig
{
	const char *nodes;			/* "host:port,host:port"; IPv6 in brackets */
	const char *username;		/* NULL: none */
	const char *password;		/* NULL: none */
	int			connect_timeout_ms;
	int			command_timeout_ms; /* default budget of a batch */
	int			blocking_ms;	/* for so long a command may wait in a server, which is not
								 * silent then; 0 */
	uint32		wait_event;		/* what waits are shown as in pg_stat_activity; 0: as an
								 * extension's */

	/* what a durable command waits for; see mosql_batch_make_durable() */
	int			replicas;		/* that acknowledge it; 0: none need to */
	bool		fsync;			/* it is on the primary's disk */
	int			replica_timeout_ms;
} MosqlRedisConfig;

typedef enum MosqlReplyKind
{
	MOSQL_REPLY_NIL,
	MOSQL_REPLY_STRING,			/* bulk string */
	MOSQL_REPLY_STATUS,			/* +OK, +QUEUED */
	MOSQL_REPLY_ERROR,			/* -ERR ...; str is the message */
	MOSQL_REPLY_INTEGER,
	MOSQL_REPLY_ARRAY,
	MOSQL_REPLY_LOST			/* it is unknown whether the command ran, or
								 * whether its effect survives a failover */
} MosqlReplyKind;

typedef struct MosqlReply
{
	MosqlReplyKind kind;
	int			n;				/* ARRAY */
	int64		integer;
	MosqlBytes	str;			/* STRING, STATUS, ERROR; also zero-terminated */
	struct MosqlReply **elem;
	const char *server;			/* ERROR: who said so, "host:port"; may be NULL */
} MosqlReply;

/* How a group behaves when its connection breaks after it was sent. */
typedef enum MosqlSendMode
{
	MOSQL_SEND_REPEATABLE,		/* send again (reads, idempotent writes) */
	MOSQL_SEND_ONCE,			/* report MOSQL_REPLY_LOST */
	MOSQL_SEND_PINNED			/* as ONCE, and only on the connection of `pin`,
								 * never redirected: redirection errors are
								 * returned as MOSQL_REPLY_ERROR */
} MosqlSendMode;

/*
 * Parse and check a node list.  Returns NULL if it is well-formed, else what
 * is wrong with it, in words for an errdetail.
 */
extern const char *mosql_redis_check_nodes(const char *nodes);

/*
 * A client; connects on first use.  All memory hangs below parent; closing, or
 * deleting parent, closes the sockets.
 */
extern MosqlRedis *mosql_redis_open(const MosqlRedisConfig *config, MemoryContext parent);
extern void mosql_redis_close(MosqlRedis *redis);

/*
 * Is a batch half-way?  Only seen when the backend ends in the middle of one
 * (FATAL unwinds nothing); then close is all that may still be called.
 */
extern bool mosql_redis_is_busy(const MosqlRedis *redis);

/* True when the servers form a cluster (connects if not known yet). */
extern bool mosql_redis_is_cluster(MosqlRedis *redis);

/* The slot of a key: CRC16 of the key or of its {hash tag}, modulo 16384. */
extern uint16 mosql_redis_slot(MosqlBytes key);

/*
 * Start collecting a batch; it and its replies live in cxt.  If cxt is reset
 * or deleted before the replies are in (an error in between), they are thrown
 * away on arrival.
 */
extern MosqlBatch *mosql_batch_create(MosqlRedis *redis, MemoryContext cxt);

/*
 * Add one command.  The array argv is copied, the bytes it points to are not:
 * they must stay until the batch has run.  Returns its group number.
 */
extern int	mosql_batch_add(MosqlBatch *batch, uint16 slot, MosqlSendMode mode,
							int argc, const MosqlBytes *argv);

/*
 * Add a group: commands that go to one connection back to back, and are
 * redirected or repeated only as a whole.  pin is 0 or a connection number of
 * mosql_batch_connection().
 */
extern int	mosql_batch_add_group(MosqlBatch *batch, uint16 slot, MosqlSendMode mode,
								  uint64 pin, int ncommands,
								  const int *argc, const MosqlBytes *const *argv);

/*
 * Does this client wait for replicas, or for the disk, behind durable commands?
 */
extern bool mosql_redis_is_durable(const MosqlRedis *redis);

/* And must it: does not every reply say as much, as with appendfsync always?  By the servers that are connected. */
extern bool mosql_redis_waits(const MosqlRedis *redis);

/*
 * A group whose replies count only when the replicas (config.replicas) and the
 * primary's disk (config.fsync) have what it wrote: a WAIT, or WAITAOF, follows
 * it in the same write, one for all durable groups that leave together, so that
 * it costs no round trip.  Nothing changes unless mosql_redis_is_durable().
 *
 * WAIT covers what this connection wrote last, and with it whatever that
 * server's replication stream has before it, no matter who wrote that.  A group
 * that reads something which must not be lost has to write, too.
 *
 * Too few replicas within config.replica_timeout_ms: the batch raises 08006, or,
 * in modes ONCE and PINNED, the replies are LOST and mosql_reply_is_short().
 */
extern void mosql_batch_make_durable(MosqlBatch *batch, int group);
extern bool mosql_reply_is_short(const MosqlReply *reply);

/* Raise 08006 for such a reply.  Does not return. */
extern void mosql_redis_raise_short(const MosqlRedis *redis, const MosqlReply *reply)
			pg_attribute_noreturn();

/* A server's error is a reply, whatever it be: also one that would be raised, for rights or memory are missing. */
extern void mosql_batch_take_errors(MosqlBatch *batch);

/*
 * How often a connection broke that was in use, or a server that was in use is primary no
 * more: a failover may be behind it.
 */
extern uint64 mosql_redis_breaks(const MosqlRedis *redis);

/*
 * Until it is lifted: a batch that would be sent after a connection broke that was in use,
 * since `breaks` was read, raises 08006 instead; a detached command is LOST.  So whoever does one thing after the other
 * knows that the processes which answered the first live on when the next is done.  Returns
 * what mosql_redis_lift() takes to set things back; of two fences the outer one counts.
 */
extern uint64 mosql_redis_fence(MosqlRedis *redis, uint64 breaks);
extern void mosql_redis_lift(MosqlRedis *redis, uint64 before);
extern bool mosql_redis_is_fenced_off(const MosqlRedis *redis);

/*
 * Until it is lifted, with what it returned, no batch waits for longer than until then,
 * whatever its own budget: so many exchanges have one deadline.  0: none.
 */
extern int64 mosql_redis_hurry(MosqlRedis *redis, int64 until_us);

/* When the configured command timeout is over that begins now. */
extern int64 mosql_redis_timeout_us(const MosqlRedis *redis);

/* To every primary of the cluster (SCAN-like sweeps, CONFIG GET): the number
 * of primaries, and a group addressed to the i-th. */
extern int	mosql_redis_primary_count(MosqlRedis *redis);
extern int	mosql_batch_add_to_primary(MosqlBatch *batch, int primary, MosqlSendMode mode,
									   int argc, const MosqlBytes *argv);

/*
 * Send everything, wait for everything: one round trip.  budget may be NULL:
 * the configured command timeout.
 */
extern void mosql_batch_run(MosqlBatch *batch, MosqlBudget *budget);

/* The reply of the i-th command of a group (0 for single commands). */
extern const MosqlReply *mosql_batch_reply(const MosqlBatch *batch, int group, int i);

/*
 * The connection that a group was answered on: a number never used again once
 * that connection is closed.
 */
extern uint64 mosql_batch_connection(const MosqlBatch *batch, int group);

/* How often it was sent: again after a redirection, or on a new connection. */
extern int	mosql_batch_attempts(const MosqlBatch *batch, int group);

/*
 * Did a server answer `second` after `first`, on one connection?  They leave in the order in which they were added, if both are for one server
 * and nothing comes in between: while a slot has no server, or a group is sent again, the others go on.
 */
extern bool mosql_batch_follows(const MosqlBatch *batch, int first, int second);

/*
 * Throw for an error reply with the SQLSTATE it deserves, naming the server
 * and what was attempted; returns if reply is no error.
 */
extern void mosql_reply_check(const MosqlReply *reply, const char *attempt);

/*
 * What a server said as text for messages and results: printable ASCII of bounded length, for it
 * may quote stored bytes in any encoding.
 */
extern const char *mosql_redis_text(MosqlBytes said);

/* Slots that share a connection now have the same number; -1 = unknown yet. */
extern int	mosql_redis_route(MosqlRedis *redis, uint16 slot);

/*
 * Write a command, do not wait.  done is called at most once with the reply,
 * later, from inside any other call of this client; kind is LOST if the
 * connection broke first, and redirection errors arrive as ERROR.  It must not
 * throw or talk to Redis.  Does not throw except for lack of memory: if there
 * is no connection the reply is LOST at once.
 */
typedef void (*MosqlReplyCallback) (void *arg, const MosqlReply *reply);
extern void mosql_redis_send(MosqlRedis *redis, uint16 slot, int argc, const MosqlBytes *argv,
							 MosqlReplyCallback done, void *arg);

/* The same where nothing hangs on the reply: LOST as well where there would be a wait for room. */
extern void mosql_redis_send_at_once(MosqlRedis *redis, uint16 slot, int argc, const MosqlBytes *argv,
									 MosqlReplyCallback done, void *arg);

/* The same for a command whose effect mosql_redis_send_wait() will ask about. */
extern void mosql_redis_send_durable(MosqlRedis *redis, uint16 slot, int argc,
									 const MosqlBytes *argv, MosqlReplyCallback done, void *arg);

/*
 * Ask the servers that got durable detached commands since the last call
 * whether all of those are durable now.  Returns how many answers come (to some
 * of them done may be called before this returns); mosql_redis_wait_is_met()
 * says whether an answer is yes.  What a connection took with it that broke
 * meanwhile is answered once by LOST.
 */
extern int	mosql_redis_send_wait(MosqlRedis *redis, MosqlReplyCallback done, void *arg);
extern bool mosql_redis_wait_is_met(const MosqlRedis *redis, const MosqlReply *reply);

/*
 * Between cork and uncork detached commands are only collected, so that those
 * for one server leave in one system call; any wait sends them, too.
 */
extern void mosql_redis_cork(MosqlRedis *redis);
extern void mosql_redis_uncork(MosqlRedis *redis);

/*
 * Wait for replies of all detached commands, at most timeout_ms; does not
 * throw except when cancelled.  Returns true when none is outstanding.
 */
extern bool mosql_redis_drain(MosqlRedis *redis, int timeout_ms);

/*
 * Wait until so many replies that callbacks count down to 0 have come.  False: nothing came for a second, or they did not in the
 * configured command timeout; so whoever waits can do without them.  A round trip, if they have not come yet.  Throws when cancelled.
 */
extern bool mosql_redis_await(MosqlRedis *redis, const int *awaited);

/*
 * While a batch of any client waits, beat() is called once due_us is over (mosql_now_us();
 * PG_INT64_MAX: never again), for whoever has to say something meanwhile.  It says itself when the
 * next time is.  It may send detached commands, also on the client whose batch is running: they
 * are LOST where there is no room at once.  It must not wait, nor throw but for lack of memory.
 */
extern void mosql_redis_set_beat(void (*beat) (void), int64 due_us);

/* One line per open connection, for mosql_fdw_get_connections(). */
typedef struct MosqlConnectionInfo
{
	const char *host;
	int			port;
	bool		connected;
	int			under_way;
} MosqlConnectionInfo;
extern int	mosql_redis_connections(MosqlRedis *redis, MosqlConnectionInfo **out);

extern bool mosql_redis_is_connected(const MosqlRedis *redis);	/* to any server */

/*
 * Close all sockets, after the servers have closed theirs (200 ms at most); the
 * next use connects again.  Throws nothing.
 */
extern void mosql_redis_disconnect(MosqlRedis *redis);

#endif							/* MOSQL_REDIS_H */
