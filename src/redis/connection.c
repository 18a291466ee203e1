/*
 * connection.c: one socket to one server.
 *
 * Layer: redis.  Nothing here waits: each function does what is possible now,
 * and mosql_redis_pump() calls mosql_connection_progress() when poll() says
 * that there is more.
 *
 *     CONNECTING ──connect()──> GREETING ──AUTH is OK──> READY
 *         └────────────no password──────────────────────────^
 *
 * (With durability `fsync` the server's log settings are asked for in between.)
 *
 * Commands are appended only while READY.  AUTH is waited for, because what
 * follows a refused AUTH would run as the default user.
 *
 * A connection that breaks is closed and freed at once, and everybody whose
 * reply is missing is told: functions that may do so return false, and the
 * caller must not touch the connection any more.
 */
#include "redis/redis_int.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/stats.h"
#include "storage/fd.h"

/* A nonblocking socket that connects, or has; false, with errno, if that fails at once. */
static bool
try_address(MosqlConnection *conn, const struct sockaddr *address, socklen_t len)
{
	int			on = 1;

	conn->fd = socket(address->sa_family, SOCK_STREAM, 0);
	if (conn->fd < 0)
		return false;
	(void) fcntl(conn->fd, F_SETFD, FD_CLOEXEC);
	(void) fcntl(conn->fd, F_SETFL, O_NONBLOCK);
	if (address->sa_family != AF_UNIX)
	{
		(void) setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		(void) setsockopt(conn->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	}
	if (connect(conn->fd, address, len) == 0 || errno == EINPROGRESS)
		return true;
	on = errno;
	close(conn->fd);
	conn->fd = -1;
	errno = on;
	return false;
}

static bool
try_path(MosqlConnection *conn)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	Assert(strlen(conn->server->host) < sizeof(address.sun_path));
	strlcpy(address.sun_path, conn->server->host, sizeof(address.sun_path));
	return try_address(conn, (struct sockaddr *) &address, sizeof(address));
}

/*
 * The path, or the address at conn->address, or the next one that does not fail at once.  False if there
 * is none; errno tells about the last.
 */
static bool
try_addresses(MosqlConnection *conn)
{
	if (conn->server->port == 0)
		return try_path(conn);
	for (; conn->address != NULL; conn->address = conn->address->ai_next)
		if (try_address(conn, conn->address->ai_addr, conn->address->ai_addrlen))
			return true;
	return false;
}

/*
 * Resolve the name.  This may block for as long as the resolver takes: give
 * numeric addresses where that matters.  NULL: failure is set.
 */
static struct addrinfo *
resolve(MosqlServer *server)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM,
	.ai_flags = AI_NUMERICSERV};
	struct addrinfo *result;
	char		port[12];
	int			rc;

	snprintf(port, sizeof(port), "%d", server->port);
	rc = getaddrinfo(server->host, port, &hints, &result);
	if (rc == 0)
		return result;
	mosql_failure_set(&server->failure, MOSQL_COULD_NOT_CONNECT, gai_strerror(rc));
	return NULL;
}

/* The struct alone, READY for nothing yet. */
static MosqlConnection *
new_connection(MosqlServer *server, MosqlRedis *redis)
{
	MosqlConnection *conn = MemoryContextAllocZero(redis->cxt, sizeof(MosqlConnection));

	conn->redis = redis;
	conn->server = server;
	conn->fd = -1;
	conn->ring_size = 16;
	conn->ring = MemoryContextAlloc(redis->cxt, conn->ring_size * sizeof(MosqlPending));
	conn->scratch = AllocSetContextCreate(redis->cxt, "mosql connection", ALLOCSET_SMALL_SIZES);
	conn->serial = ++redis->last_serial;
	conn->used_us = mosql_now_us();
	conn->deadline_us = conn->used_us + (int64) redis->connect_timeout_ms * 1000;
	return conn;
}

/* Give back what is not palloc'ed. */
void
mosql_connection_abandon(MosqlConnection *conn)
{
	if (conn->fd >= 0)
		close(conn->fd);
	ReleaseExternalFD();
	if (conn->reader != NULL)
		redisReaderFree(conn->reader);
	if (conn->addresses != NULL)
		freeaddrinfo(conn->addresses);
	conn->fd = -1;
	conn->reader = NULL;
	conn->addresses = NULL;
}

MosqlConnection *
mosql_connection_open(MosqlServer *server, MosqlRedis *redis)
{
	MosqlConnection *conn;
	struct addrinfo *addresses = NULL;

	Assert(server->conn == NULL);
	if (server->port != 0 && (addresses = resolve(server)) == NULL)
		return NULL;
	if (!AcquireExternalFD())
	{
		if (addresses != NULL)
			freeaddrinfo(addresses);
		mosql_failure_set(&server->failure, ERRCODE_INSUFFICIENT_RESOURCES,
						  "Too many files are open (max_files_per_process).");
		return NULL;
	}

	conn = new_connection(server, redis);
	server->conn = conn;		/* from here on the client owns it all */
	conn->addresses = conn->address = addresses;
	conn->refused = NULL;
	conn->reader = mosql_reply_reader_create(conn);
	if (conn->reader == NULL)
	{
		mosql_connection_close(conn, ERRCODE_OUT_OF_MEMORY, "Out of memory.");
		return NULL;
	}
	if (!try_addresses(conn))
	{
		mosql_connection_close(conn, MOSQL_COULD_NOT_CONNECT, strerror(errno));
		return NULL;
	}
	if (server->connected_before)
		mosql_stats.reconnects++;
	return conn;
}

bool
mosql_connection_become_ready(MosqlConnection *conn)
{
	conn->state = MOSQL_READY;
	conn->server->connected_before = true;
	if (conn->wants_map && conn->redis->asked == conn->server)
	{
		mosql_connection_ask_map(conn);
		return mosql_connection_flush(conn);
	}
	return true;
}

/*
 * What `fsync` means on this server depends on how it writes its log: ask.  A
 * server that writes none is of no use then (stream.c looks at the answer).
 */
bool
mosql_connection_introduced(MosqlConnection *conn)
{
	MosqlPending pending = {.kind = MOSQL_PENDING_GREETING};
	MosqlBytes	argv[3] = {mosql_bytes("CONFIG", 6), mosql_bytes("GET", 3), mosql_bytes("*append*", 8)};

	conn->introduced = true;
	if (!conn->redis->fsync)
		return mosql_connection_become_ready(conn);
	conn->state = MOSQL_GREETING;
	mosql_connection_append(conn, 3, argv, &pending);
	return mosql_connection_flush(conn);
}

/* connect() is done: introduce ourselves. */
static bool
greet(MosqlConnection *conn)
{
	MosqlRedis *redis = conn->redis;
	MosqlPending pending = {.kind = MOSQL_PENDING_GREETING};
	MosqlBytes	argv[3];
	int			argc = 0;

	if (conn->addresses != NULL)
		freeaddrinfo(conn->addresses);
	conn->addresses = conn->address = NULL;
	if (redis->password == NULL)
		return mosql_connection_introduced(conn);

	argv[argc++] = mosql_bytes("AUTH", 4);
	if (redis->username != NULL)
		argv[argc++] = mosql_bytes(redis->username, strlen(redis->username));
	argv[argc++] = mosql_bytes(redis->password, strlen(redis->password));
	conn->state = MOSQL_GREETING;
	mosql_connection_append(conn, argc, argv, &pending);
	return mosql_connection_flush(conn);
}

/* The next address that does not fail at once has as long as the one before.  False, with errno, if there is none. */
static bool
try_next_address(MosqlConnection *conn, int error)
{
	close(conn->fd);
	conn->fd = -1;
	errno = error;
	if (conn->address != NULL)
		conn->address = conn->address->ai_next;
	if (conn->address == NULL || !try_addresses(conn))
		return false;
	conn->deadline_us = mosql_now_us() + (int64) conn->redis->connect_timeout_ms * 1000;
	return true;
}

/* connect() has an outcome: go on, or try the next address. */
static bool
finish_connect(MosqlConnection *conn)
{
	int			error = 0;
	socklen_t	len = sizeof(error);

	if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error == 0)
		return greet(conn);
	if (try_next_address(conn, error))
		return true;
	mosql_connection_close(conn, MOSQL_COULD_NOT_CONNECT, strerror(errno));
	return false;
}

void
mosql_connection_expire(MosqlConnection *conn)
{
	if (conn->state != MOSQL_CONNECTING || !try_next_address(conn, ETIMEDOUT))
		mosql_connection_close(conn, MOSQL_COULD_NOT_CONNECT, "Timed out.");
}

/* Is nothing under way that a batch waits for? */
static bool
is_left_alone(const MosqlConnection *conn)
{
	for (int i = 0; i < conn->under_way; i++)
		if (mosql_connection_pending(conn, i)->kind != MOSQL_PENDING_DETACHED)
			return false;
	return true;
}

/*
 * A server that restarted, or closes idle clients, must not make a command
 * that is sent only once end as LOST.  Before it did it may have answered detached commands.
 */
bool
mosql_connection_check_idle(MosqlConnection *conn)
{
	char		byte;
	ssize_t		n;

	if (conn->redis->now_us < conn->used_us + MOSQL_IDLE_CHECK_US || !is_left_alone(conn))
		return true;
	if (conn->under_way > 0 && !mosql_connection_receive(conn))
		return false;
	if (conn->under_way > 0)
		return true;
	n = recv(conn->fd, &byte, 1, MSG_PEEK);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return true;
	mosql_connection_close(conn, 0, NULL);
	return false;
}

bool
mosql_connection_progress(MosqlConnection *conn, short revents)
{
	if (conn->state == MOSQL_CONNECTING)
		return finish_connect(conn);
	if ((revents & POLLOUT) && !mosql_connection_flush(conn))
		return false;
	if (revents & (POLLIN | POLLERR | POLLHUP | POLLNVAL))
		return mosql_connection_receive(conn);
	return true;
}

/*
 * Tell everybody whose reply is missing.  They do not talk to Redis from
 * there, so the ring does not change meanwhile.
 */
static void
disappoint(MosqlConnection *conn)
{
	MosqlRedis *redis = conn->redis;

	for (int i = 0; i < conn->under_way; i++)
	{
		const MosqlPending *p = mosql_connection_pending(conn, i);

		if (p->kind == MOSQL_PENDING_DETACHED)
			p->done(p->arg, &mosql_reply_lost);
		else if (p->kind == MOSQL_PENDING_BATCH &&
				 redis->running != NULL && redis->running->id == p->owner)
			mosql_batch_lose(redis->running, p, conn->sent_bytes);
	}
	if (redis->running != NULL)
		mosql_batch_confirm(redis->running, conn, NULL);
}

void
mosql_connection_close(MosqlConnection *conn, int sqlstate, const char *why)
{
	MosqlRedis *redis = conn->redis;
	MosqlServer *server = conn->server;
	bool		usable = conn->state == MOSQL_READY && conn->heard;

	Assert(server->conn == conn);
	server->conn = NULL;
	if (why != NULL)
		mosql_failure_set(&server->failure, sqlstate, why);
	mosql_connection_abandon(conn);
	redis->breaks += usable;
	redis->unsynced_lost |= conn->unsynced;
	disappoint(conn);
	if (!usable && redis->running != NULL)
		mosql_batch_unreachable(redis->running, server);
	if (redis->asked == server)
		mosql_cluster_answer(redis, server, NULL);
	if (conn->out != NULL)
		pfree(conn->out);
	MemoryContextDelete(conn->scratch);
	pfree(conn->ring);
	pfree(conn);
}

bool
mosql_connection_quit(MosqlConnection *conn)
{
	static const char quit[] = "*1\r\n$4\r\nQUIT\r\n";
	struct linger reset = {.l_onoff = 1, .l_linger = 0};

	if (conn->state != MOSQL_READY || conn->under_way > 0 ||
		send(conn->fd, quit, sizeof(quit) - 1, MSG_NOSIGNAL) != sizeof(quit) - 1)
		return false;
	(void) setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	return true;
}
