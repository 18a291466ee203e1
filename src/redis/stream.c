/*
 * stream.c: what goes out of a connection, and what comes in.
 *
 * Layer: redis.  Commands are formatted into one buffer and leave in as few
 * writes as possible; each leaves a note in the ring of pending commands, and
 * replies are handed out in that order.
 */
#include "redis/redis_int.h"

#include <sys/socket.h>

#include "base/stats.h"

/* Memory kept for output between batches; more is given back when idle. */
#define OUT_KEEP_BYTES	(2 * MOSQL_PIPELINE_MAX_BYTES)

/*
 * ---------------------------------------------------------------------------
 * Output
 * ---------------------------------------------------------------------------
 */

/* Room for more bytes at out + out_len; throws for lack of memory. */
static void
reserve_output(MosqlConnection *conn, size_t more)
{
	size_t		size = Max(conn->out_size, 4096);

	if (!mosql_connection_has_output(conn))
	{
		conn->out_pos = conn->out_len = 0;
		if (conn->out_size > OUT_KEEP_BYTES && more < OUT_KEEP_BYTES)
		{
			pfree(conn->out);
			conn->out = NULL;
			conn->out_size = 0;
			size = 4096;
		}
	}
	else if (conn->out_len + more > conn->out_size && conn->out_pos > 0)
	{
		memmove(conn->out, conn->out + conn->out_pos, conn->out_len - conn->out_pos);
		conn->out_len -= conn->out_pos;
		conn->out_pos = 0;
	}
	while (size < conn->out_len + more)
		size *= 2;
	if (conn->out == NULL)
		conn->out = MemoryContextAllocHuge(conn->redis->cxt, size);
	else if (size > conn->out_size)
		conn->out = repalloc_huge(conn->out, size);
	conn->out_size = size;
}

/* Room for one more pending command; throws for lack of memory. */
static void
reserve_pending(MosqlConnection *conn)
{
	MosqlPending *ring;

	if (conn->under_way < conn->ring_size)
		return;
	ring = MemoryContextAlloc(conn->redis->cxt, 2 * conn->ring_size * sizeof(MosqlPending));
	for (int i = 0; i < conn->under_way; i++)
		ring[i] = *mosql_connection_pending(conn, i);
	pfree(conn->ring);
	conn->ring = ring;
	conn->ring_head = 0;
	conn->ring_size *= 2;
}

/* "<type><number>\r\n" at p; returns the end. */
static char *
put_number(char *p, char type, size_t number)
{
	char		digits[20];
	int			n = 0;

	do
		digits[n++] = '0' + number % 10;
	while ((number /= 10) > 0);
	*p++ = type;
	while (n > 0)
		*p++ = digits[--n];
	*p++ = '\r';
	*p++ = '\n';
	return p;
}

void
mosql_connection_append(MosqlConnection *conn, int argc, const MosqlBytes *argv,
						const MosqlPending *pending)
{
	size_t		size = 32;
	char	   *p;

	Assert(conn->state == MOSQL_READY || pending->kind == MOSQL_PENDING_GREETING);
	for (int i = 0; i < argc; i++)
		size += argv[i].len + 32;
	reserve_output(conn, size);
	reserve_pending(conn);

	/* nothing throws from here on */
	p = put_number(conn->out + conn->out_len, '*', argc);
	for (int i = 0; i < argc; i++)
	{
		p = put_number(p, '$', argv[i].len);
		if (argv[i].len > 0)
			memcpy(p, argv[i].data, argv[i].len);
		p += argv[i].len;
		*p++ = '\r';
		*p++ = '\n';
	}
	Assert(p <= conn->out + conn->out_size);

	*mosql_connection_pending(conn, conn->under_way) = *pending;
	mosql_connection_pending(conn, conn->under_way)->start = conn->queued_bytes;
	conn->under_way++;
	conn->queued_bytes += (p - conn->out) - conn->out_len;
	conn->out_len = p - conn->out;
	mosql_stats.commands++;
}

void
mosql_connection_ask_map(MosqlConnection *conn)
{
	MosqlBytes	argv[2] = {mosql_bytes("CLUSTER", 7), mosql_bytes("SLOTS", 5)};
	MosqlPending pending = {.kind = MOSQL_PENDING_MAP, .owner = conn->redis->ask_number};

	mosql_connection_append(conn, 2, argv, &pending);
	conn->wants_map = false;
}

/*
 * If writing fails, the server may have said before why it hung up: read that
 * first.
 */
bool
mosql_connection_flush(MosqlConnection *conn)
{
	while (mosql_connection_has_output(conn))
	{
		ssize_t		n = send(conn->fd, conn->out + conn->out_pos,
							 conn->out_len - conn->out_pos, MSG_NOSIGNAL);

		if (n >= 0)
		{
			conn->out_pos += n;
			conn->sent_bytes += n;
			conn->used_us = conn->redis->now_us;
			mosql_stats.bytes_sent += n;
		}
		else if (errno == EAGAIN || errno == EWOULDBLOCK)
			break;
		else if (errno != EINTR)
		{
			char		why[128];

			snprintf(why, sizeof(why), "Sending failed: %m.");
			if (mosql_connection_receive(conn))
				mosql_connection_close(conn, ERRCODE_CONNECTION_FAILURE, why);
			return false;
		}
	}
	return true;
}

/*
 * ---------------------------------------------------------------------------
 * Input
 * ---------------------------------------------------------------------------
 */

/* Where the reply to the first pending command is wanted; NULL: nowhere. */
static MemoryContext
wanted_where(const MosqlConnection *conn)
{
	const MosqlPending *first = &conn->ring[conn->ring_head];
	const MosqlBatch *running = conn->redis->running;

	if (conn->under_way == 0)
		return conn->scratch;
	switch (first->kind)
	{
		case MOSQL_PENDING_NOBODY:
			return NULL;
		case MOSQL_PENDING_BATCH:
		case MOSQL_PENDING_WAIT:
			return running != NULL && running->id == first->owner ? running->cxt : NULL;
		case MOSQL_PENDING_GREETING:
		case MOSQL_PENDING_MAP:
		case MOSQL_PENDING_DETACHED:
			return conn->scratch;
	}
	return NULL;
}

/* Close for what the server said. */
static void
close_as_told(MosqlConnection *conn, int sqlstate, const MosqlReply *error)
{
	char		text[256];

	mosql_connection_close(conn, sqlstate, mosql_error_text(text, sizeof(text), error->str));
}

/* What the server said without being asked: why it hangs up. */
static void
hear_complaint(MosqlConnection *conn, const MosqlReply *reply)
{
	if (reply->kind == MOSQL_REPLY_ERROR)
		close_as_told(conn, mosql_error_classify(reply->str) == MOSQL_ERROR_OTHER ?
					  MOSQL_COULD_NOT_CONNECT : mosql_error_sqlstate(reply->str), reply);
	else
		mosql_connection_close(conn, ERRCODE_PROTOCOL_VIOLATION,
							   "The server sent a reply that nobody asked for.");
}

static bool
text_is(const MosqlReply *reply, const char *text)
{
	return reply->kind == MOSQL_REPLY_STRING && strcmp(reply->str.data, text) == 0;
}

/*
 * The reply to CONFIG GET *append*: names and values in turn.  Without a log on
 * disk nothing is durable there.  `always` may have exceptions: while the log is rewritten.
 */
static bool
hear_log_settings(MosqlConnection *conn, const MosqlReply *reply)
{
	bool		logs = false,
				always = false,
				throughout = false;

	if (reply->kind == MOSQL_REPLY_ERROR)
	{
		close_as_told(conn, mosql_error_sqlstate(reply->str), reply);
		return false;
	}
	for (int i = 0; reply->kind == MOSQL_REPLY_ARRAY && i + 1 < reply->n; i += 2)
	{
		if (text_is(reply->elem[i], "appendonly"))
			logs = text_is(reply->elem[i + 1], "yes");
		else if (text_is(reply->elem[i], "appendfsync"))
			always = text_is(reply->elem[i + 1], "always");
		else if (text_is(reply->elem[i], "no-appendfsync-on-rewrite"))
			throughout = text_is(reply->elem[i + 1], "no");
	}
	conn->synchronous = always && throughout;
	if (logs)
		return mosql_connection_become_ready(conn);
	mosql_connection_close(conn, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
						   "Durability \"fsync\" needs the server's setting appendonly yes.");
	return false;
}

/*
 * The reply to AUTH.  Whatever it complains about, credentials it is, unless
 * it is one of the errors that go by.
 */
static bool
hear_greeting(MosqlConnection *conn, const MosqlReply *reply)
{
	MosqlErrorClass class;

	if (conn->introduced)
		return hear_log_settings(conn, reply);
	if (reply->kind != MOSQL_REPLY_ERROR)
		return mosql_connection_introduced(conn);
	class = mosql_error_classify(reply->str);
	close_as_told(conn, class == MOSQL_ERROR_OTHER ? ERRCODE_INVALID_PASSWORD :
				  mosql_error_sqlstate(reply->str), reply);
	return false;
}

/*
 * A server that has too many clients, or trusts none, says so, hangs up, and
 * has executed nothing.  What was sent counts as not sent.
 */
static bool
is_farewell(const MosqlConnection *conn, const MosqlReply *reply)
{
	return !conn->heard && reply->kind == MOSQL_REPLY_ERROR && mosql_error_hangs_up(reply->str);
}

static bool
hear_farewell(MosqlConnection *conn, const MosqlReply *reply)
{
	if (conn->under_way > 0)
		conn->sent_bytes = Min(conn->sent_bytes, conn->ring[conn->ring_head].start);
	close_as_told(conn, mosql_error_sqlstate(reply->str), reply);
	return false;
}

/* Hand a reply to who waits for it.  False if the connection is gone. */
static bool
hand_over(MosqlConnection *conn, const MosqlPending *pending, const MosqlReply *reply)
{
	MosqlRedis *redis = conn->redis;

	switch (pending->kind)
	{
		case MOSQL_PENDING_NOBODY:
			break;
		case MOSQL_PENDING_GREETING:
			return hear_greeting(conn, reply);
		case MOSQL_PENDING_MAP:
			if (pending->owner == redis->ask_number)
				mosql_cluster_answer(redis, conn->server, reply);
			break;
		case MOSQL_PENDING_BATCH:
			mosql_batch_deliver(redis->running, conn, pending, reply);
			break;
		case MOSQL_PENDING_WAIT:
			mosql_batch_confirm(redis->running, conn, reply);
			break;
		case MOSQL_PENDING_DETACHED:
			pending->done(pending->arg, reply);
			break;
	}
	return true;
}

/* One reply has come.  False if the connection is gone. */
static bool
deliver(MosqlConnection *conn, const MosqlReply *reply)
{
	MosqlPending pending;

	if (conn->into != NULL && is_farewell(conn, reply))
		return hear_farewell(conn, reply);
	if (conn->under_way == 0)
	{
		hear_complaint(conn, reply);
		return false;
	}
	pending = conn->ring[conn->ring_head];
	conn->ring_head = (conn->ring_head + 1) & (conn->ring_size - 1);
	conn->under_way--;
	conn->heard = true;
	return conn->into == NULL || hand_over(conn, &pending, reply);
}

/* No server of ours says such things. */
static bool
refuse_reply(MosqlConnection *conn, const char *why)
{
	char		text[200];

	snprintf(text, sizeof(text), "The reply cannot be read: %s", why);
	mosql_connection_close(conn, ERRCODE_PROTOCOL_VIOLATION, text);
	return false;
}

/*
 * Parse and deliver the whole replies that were fed.  Once something of a
 * reply is built (begun, see reply.c) its context stays; but if nobody wants it
 * any more before it is complete, the rest of it is skipped.
 */
static bool
deliver_replies(MosqlConnection *conn)
{
	for (;;)
	{
		MemoryContext where = wanted_where(conn);
		const char *excess;
		void	   *reply;

		if (!conn->begun)
			conn->into = where;
		else if (where == NULL)
			conn->into = NULL;

		if (redisReaderGetReply(conn->reader, &reply) != REDIS_OK)
		{
			char		why[200];

			if (conn->refused != NULL)
				return refuse_reply(conn, conn->refused);
			snprintf(why, sizeof(why), "The reply cannot be read: %s.", conn->reader->errstr);
			mosql_connection_close(conn, conn->reader->err == REDIS_ERR_OOM ?
								   ERRCODE_OUT_OF_MEMORY : ERRCODE_CONNECTION_FAILURE, why);
			return false;
		}
		if (reply == NULL && conn->begun && conn->under_way == 0)
		{
			/* nor may it end as the answer to a command that is sent meanwhile */
			mosql_connection_close(conn, ERRCODE_PROTOCOL_VIOLATION,
								   "The server sent a reply that nobody asked for.");
			return false;
		}
		if (reply == NULL && (excess = mosql_reply_excess(conn->reader)) != NULL)
			return refuse_reply(conn, excess);
		if (reply == NULL)
			return true;
		conn->begun = false;
		if (!deliver(conn, reply))
			return false;
		if (where == conn->scratch)
			MemoryContextReset(conn->scratch);
	}
}

bool
mosql_connection_receive(MosqlConnection *conn)
{
	MosqlRedis *redis = conn->redis;

	for (int i = 0; i < MOSQL_RECEIVE_AT_ONCE; i++)
	{
		ssize_t		n = recv(conn->fd, redis->buffer, sizeof(redis->buffer), 0);

		if (n > 0)
		{
			mosql_stats.bytes_received += n;
			conn->heard_us = redis->now_us;
			if (redisReaderFeed(conn->reader, redis->buffer, n) != REDIS_OK)
			{
				mosql_connection_close(conn, ERRCODE_OUT_OF_MEMORY, "Out of memory.");
				return false;
			}
			if (!deliver_replies(conn))
				return false;
			if (n < sizeof(redis->buffer))
				return true;
		}
		else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
			return true;
		else
		{
			char		why[128];

			if (n == 0)
				strlcpy(why, "The server closed the connection.", sizeof(why));
			else
				snprintf(why, sizeof(why), "Receiving failed: %m.");
			mosql_connection_close(conn, conn->state == MOSQL_READY ?
								   ERRCODE_CONNECTION_FAILURE : MOSQL_COULD_NOT_CONNECT, why);
			return false;
		}
	}
	return true;
}
