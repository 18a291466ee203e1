/*
 * client.c: opening and closing a client, waiting, detached commands.
 *
 * Layer: redis.
 */
#include "redis/redis_int.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/interrupt.h"
#include "base/stats.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "utils/wait_event.h"

/*
 * ---------------------------------------------------------------------------
 * Opening and closing
 * ---------------------------------------------------------------------------
 */

/* The client's memory goes away: give back sockets, call nobody. */
static void
release_sockets(void *arg)
{
	MosqlRedis *redis = arg;

	for (int i = 0; i < redis->nservers; i++)
	{
		if (redis->servers[i]->conn != NULL)
			mosql_connection_abandon(redis->servers[i]->conn);
		redis->servers[i]->conn = NULL;
	}
	for (MosqlBatch *b = redis->batches; b != NULL; b = b->next)
		b->redis = NULL;
}

static void
add_seeds(MosqlRedis *redis, const char *nodes)
{
	while (nodes != NULL)
	{
		const char *host;
		int			host_len;
		int			port;
		const char *wrong = mosql_nodes_next(&nodes, &host, &host_len, &port);

		if (wrong != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid list of Redis servers"),
					 errdetail_internal("%s", wrong)));
		(void) mosql_cluster_server(redis, host, host_len, port);
	}
	redis->nseeds = redis->nservers;
}

MosqlRedis *
mosql_redis_open(const MosqlRedisConfig *config, MemoryContext parent)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "mosql redis client", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MosqlRedis *redis = palloc0(sizeof(MosqlRedis));

	redis->cxt = cxt;
	redis->username = config->username ? pstrdup(config->username) : NULL;
	redis->password = config->password ? pstrdup(config->password) : NULL;
	redis->connect_timeout_ms = config->connect_timeout_ms;
	redis->wait_event = config->wait_event != 0 ? config->wait_event : PG_WAIT_EXTENSION;
	redis->command_timeout_ms = config->command_timeout_ms;
	redis->blocking_ms = config->blocking_ms;
	redis->replicas = config->replicas;
	redis->fsync = config->fsync;
	redis->replica_timeout_ms = config->replica_timeout_ms;
	redis->servers_size = 8;
	redis->servers = palloc(redis->servers_size * sizeof(MosqlServer *));
	redis->polls = palloc(redis->servers_size * sizeof(struct pollfd));
	redis->polled = palloc(redis->servers_size * sizeof(MosqlServer *));
	redis->map = palloc(MOSQL_SLOTS * sizeof(int16));
	memset(redis->map, 0xFF, MOSQL_SLOTS * sizeof(int16));
	redis->now_us = mosql_now_us();
	add_seeds(redis, config->nodes);

	redis->on_delete.func = release_sockets;
	redis->on_delete.arg = redis;
	MemoryContextRegisterResetCallback(cxt, &redis->on_delete);
	MemoryContextSwitchTo(old);
	return redis;
}

static void
close_all(MosqlRedis *redis)
{
	redis->asked = NULL;
	redis->ask_number++;
	redis->map_stale = true;
	for (int i = 0; i < redis->nservers; i++)
		if (redis->servers[i]->conn != NULL)
			mosql_connection_close(redis->servers[i]->conn, 0, NULL);
}

/* Wait until the servers in polls[0 .. n) have hung up. */
static void
wait_for_hangup(MosqlRedis *redis, int n)
{
	int64		deadline_us = mosql_now_us() + MOSQL_HANGUP_MS * 1000;
	int64		left_us;

	while (n > 0 && (left_us = deadline_us - mosql_now_us()) > 0)
	{
		if (poll(redis->polls, n, (int) (left_us / 1000) + 1) <= 0)
			continue;
		for (int i = n - 1; i >= 0; i--)
		{
			ssize_t		len;

			if (redis->polls[i].revents == 0)
				continue;
			len = recv(redis->polls[i].fd, redis->buffer, sizeof(redis->buffer), 0);
			if (len <= 0 || redis->buffer[0] == '-')	/* gone, or QUIT was refused */
				redis->polls[i] = redis->polls[--n];
		}
	}
}

/*
 * QUIT has the server close first, and its end of the connection is gone when
 * we see that: who connects next comes on top of nobody.
 */
void
mosql_redis_disconnect(MosqlRedis *redis)
{
	int			n = 0;

	Assert(redis->running == NULL);
	for (int i = 0; i < redis->nservers; i++)
	{
		MosqlConnection *conn = redis->servers[i]->conn;

		if (conn != NULL && mosql_connection_quit(conn))
			redis->polls[n++] = (struct pollfd) {.fd = conn->fd, .events = POLLIN};
	}
	wait_for_hangup(redis, n);
	close_all(redis);
}

bool
mosql_redis_is_connected(const MosqlRedis *redis)
{
	for (int i = 0; i < redis->nservers; i++)
		if (redis->servers[i]->conn != NULL)
			return true;
	return false;
}

bool
mosql_redis_is_busy(const MosqlRedis *redis)
{
	return redis->running != NULL;
}

void
mosql_redis_close(MosqlRedis *redis)
{
	redis->running = NULL;
	close_all(redis);
	MemoryContextDelete(redis->cxt);
}

bool
mosql_redis_is_cluster(MosqlRedis *redis)
{
	mosql_cluster_need_map(redis);
	return redis->topology == MOSQL_TOPOLOGY_CLUSTER;
}

int
mosql_redis_route(MosqlRedis *redis, uint16 slot)
{
	MosqlServer *server = mosql_cluster_route(redis, slot);

	return server != NULL ? server->index : -1;
}

int
mosql_redis_connections(MosqlRedis *redis, MosqlConnectionInfo **out)
{
	int			n = 0;

	*out = palloc(redis->nservers * sizeof(MosqlConnectionInfo));
	for (int i = 0; i < redis->nservers; i++)
	{
		const MosqlServer *server = redis->servers[i];

		if (server->conn == NULL)
			continue;
		(*out)[n].host = server->host;
		(*out)[n].port = server->port;
		(*out)[n].connected = server->conn->state == MOSQL_READY;
		(*out)[n].under_way = server->conn->under_way;
		n++;
	}
	return n;
}

/*
 * ---------------------------------------------------------------------------
 * Waiting
 * ---------------------------------------------------------------------------
 */

/*
 * Send what is left, and fill redis->polls with what to wait for.  Returns the
 * number, or -1 if a connection broke: then the caller's picture of things is
 * outdated.  *wake_us becomes earlier if a connection attempt ends earlier.
 */
static int
prepare_polls(MosqlRedis *redis, int64 *wake_us)
{
	int			n = 0;

	for (int i = 0; i < redis->nservers; i++)
	{
		MosqlConnection *conn = redis->servers[i]->conn;
		short		events = 0;

		if (conn == NULL)
			continue;
		if (conn->state != MOSQL_CONNECTING && mosql_connection_has_output(conn) &&
			!mosql_connection_flush(conn))
			return -1;
		if (conn->state != MOSQL_READY)
			*wake_us = Min(*wake_us, conn->deadline_us);
		if (conn->state == MOSQL_CONNECTING || mosql_connection_has_output(conn))
			events |= POLLOUT;
		if (conn->under_way > 0)
			events |= POLLIN;
		if (events == 0)
			continue;
		redis->polls[n] = (struct pollfd) {.fd = conn->fd, .events = events};
		redis->polled[n++] = redis->servers[i];
	}
	return n;
}

/* Go on with every connection that poll() found ready. */
static void
handle_polls(MosqlRedis *redis, int n)
{
	for (int i = 0; i < n; i++)
	{
		MosqlConnection *conn = redis->polled[i]->conn;

		/* it may have been closed, or replaced, meanwhile */
		if (redis->polls[i].revents != 0 && conn != NULL && conn->fd == redis->polls[i].fd)
			(void) mosql_connection_progress(conn, redis->polls[i].revents);
	}
}

/* Give up what has been connecting for too long.  True if there was any. */
static bool
expire_connecting(MosqlRedis *redis)
{
	bool		any = false;

	for (int i = 0; i < redis->nservers; i++)
	{
		MosqlConnection *conn = redis->servers[i]->conn;

		if (conn != NULL && conn->state != MOSQL_READY && redis->now_us >= conn->deadline_us)
		{
			mosql_connection_expire(conn);
			any = true;
		}
	}
	return any;
}

/*
 * Race -- a signal that arrives between the check for interrupts and poll()
 * does not end the wait; so no wait is longer than MOSQL_TICK_MS.
 *
 * What comes without pause does not put off the deadline: once it is over, what is there is taken,
 * and no more.
 */
bool
mosql_redis_pump(MosqlRedis *redis, int64 deadline_us, bool interruptible)
{
	int64		wake_us = deadline_us;
	int64		wait_us;
	int			n;
	int			rc;

	if (interruptible)
		mosql_check_interrupts();
	n = prepare_polls(redis, &wake_us);
	if (n < 0)
		return true;
	redis->now_us = mosql_now_us();
	wait_us = Min(Max(wake_us - redis->now_us, 0), MOSQL_TICK_MS * 1000);

	pgstat_report_wait_start(redis->wait_event);
	rc = poll(redis->polls, n, (int) ((wait_us + 999) / 1000));
	pgstat_report_wait_end();

	if (rc > 0)
	{
		handle_polls(redis, n);
		(void) expire_connecting(redis);
		return redis->now_us < deadline_us;
	}
	redis->now_us = mosql_now_us();
	if (IsUnderPostmaster && !PostmasterIsAlive())
		proc_exit(1);
	return expire_connecting(redis) || redis->now_us < deadline_us;
}

/*
 * ---------------------------------------------------------------------------
 * Detached commands
 * ---------------------------------------------------------------------------
 */

/*
 * Does the window have room?  If not, wait for it, but not for ever: callers
 * cannot be cancelled.  A server that answers nothing for that long is hung up
 * on, so that the next command does not wait for it again.  Beside a running batch
 * nobody waits here, nor who says so.
 */
static bool
wait_for_room(MosqlRedis *redis, MosqlServer *server, bool waits)
{
	int64		deadline_us = 0;

	for (;;)
	{
		MosqlConnection *conn = server->conn;

		if (conn == NULL || conn->state != MOSQL_READY)
			return false;
		if (mosql_connection_has_room(conn, 1))
			return true;
		if (redis->running != NULL || !waits)
			return false;
		if (deadline_us == 0)
			deadline_us = mosql_now_us() +
				Min((int64) redis->command_timeout_ms * 1000, MOSQL_DETACHED_WAIT_US);
		if (!mosql_redis_pump(redis, deadline_us, false) && server->conn != NULL &&
			!mosql_connection_has_room(server->conn, 1))
			mosql_connection_close(server->conn, ERRCODE_CONNECTION_FAILURE,
								   "It did not answer in time.");
	}
}

typedef enum SendHow
{
	SEND_PLAIN, SEND_AT_ONCE, SEND_DURABLE
} SendHow;

static void
send_detached(MosqlRedis *redis, uint16 slot, int argc, const MosqlBytes *argv, SendHow how,
			  MosqlReplyCallback done, void *arg)
{
	MosqlServer *server = mosql_cluster_route(redis, slot);
	MosqlPending pending = {.kind = MOSQL_PENDING_DETACHED, .done = done, .arg = arg};

	if (server == NULL || !wait_for_room(redis, server, how != SEND_AT_ONCE) || mosql_redis_is_fenced_off(redis))
	{
		done(arg, &mosql_reply_lost);
		return;
	}
	mosql_connection_append(server->conn, argc, argv, &pending);
	server->conn->unsynced |= how == SEND_DURABLE;
	if (!redis->corked)
		(void) mosql_connection_flush(server->conn);
}

void
mosql_redis_send(MosqlRedis *redis, uint16 slot, int argc, const MosqlBytes *argv,
				 MosqlReplyCallback done, void *arg)
{
	send_detached(redis, slot, argc, argv, SEND_PLAIN, done, arg);
}

void
mosql_redis_send_at_once(MosqlRedis *redis, uint16 slot, int argc, const MosqlBytes *argv,
						 MosqlReplyCallback done, void *arg)
{
	send_detached(redis, slot, argc, argv, SEND_AT_ONCE, done, arg);
}

void
mosql_redis_send_durable(MosqlRedis *redis, uint16 slot, int argc, const MosqlBytes *argv,
						 MosqlReplyCallback done, void *arg)
{
	send_detached(redis, slot, argc, argv, SEND_DURABLE, done, arg);
}

/*
 * Race -- a connection breaks after a durable command was answered and before
 * its WAIT is sent: its successor knows nothing of that command.  So the closing
 * connection leaves a note, and the answer is no.
 */
int
mosql_redis_send_wait(MosqlRedis *redis, MosqlReplyCallback done, void *arg)
{
	MosqlPending pending = {.kind = MOSQL_PENDING_DETACHED, .done = done, .arg = arg};
	int			n = 0;

	for (int i = 0; i < redis->nservers; i++)
	{
		MosqlConnection *conn = redis->servers[i]->conn;

		if (conn == NULL || !conn->unsynced)
			continue;
		if (mosql_connection_waits(conn))
		{
			n++;
			mosql_connection_append_wait(conn, &pending);
		}
		conn->unsynced = false;
		if (!redis->corked)
			(void) mosql_connection_flush(conn);
	}
	if (redis->unsynced_lost)
	{
		redis->unsynced_lost = false;
		n++;
		done(arg, &mosql_reply_lost);
	}
	return n;
}

void
mosql_redis_cork(MosqlRedis *redis)
{
	redis->corked = true;
}

void
mosql_redis_uncork(MosqlRedis *redis)
{
	redis->corked = false;
	for (int i = 0; i < redis->nservers; i++)
	{
		MosqlConnection *conn = redis->servers[i]->conn;

		if (conn != NULL && conn->state == MOSQL_READY)
			(void) mosql_connection_flush(conn);
	}
}

static bool
has_detached(const MosqlRedis *redis)
{
	for (int i = 0; i < redis->nservers; i++)
	{
		const MosqlConnection *conn = redis->servers[i]->conn;

		for (int k = 0; conn != NULL && k < conn->under_way; k++)
			if (mosql_connection_pending(conn, k)->kind == MOSQL_PENDING_DETACHED)
				return true;
	}
	return false;
}

bool
mosql_redis_drain(MosqlRedis *redis, int timeout_ms)
{
	int64		deadline_us = mosql_now_us() + (int64) timeout_ms * 1000;

	Assert(redis->running == NULL);
	while (has_detached(redis))
		if (!mosql_redis_pump(redis, deadline_us, true) && has_detached(redis))
			return false;
	return true;
}
