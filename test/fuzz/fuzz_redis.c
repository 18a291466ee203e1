/*
 * fuzz_redis.c: everything that a Redis server may answer to the client.
 *
 * Input: a byte of choices, then what is received (sockets.h).  The client
 * learns the map of a cluster, runs batches in all modes, sends detached
 * commands and shows what it knows.  Errors are those of redis.h; whatever
 * happens, every reply is there afterwards and every socket is closed.
 */
#include "sockets.h"

const int	fuzz_errors[] = {
	ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION, ERRCODE_CONNECTION_FAILURE,
	ERRCODE_INVALID_PASSWORD, ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
	ERRCODE_INSUFFICIENT_PRIVILEGE, ERRCODE_OUT_OF_MEMORY, ERRCODE_CANNOT_CONNECT_NOW,
	ERRCODE_READ_ONLY_SQL_TRANSACTION, ERRCODE_TOO_MANY_CONNECTIONS, ERRCODE_PROTOCOL_VIOLATION,
	ERRCODE_INSUFFICIENT_RESOURCES, ERRCODE_IO_ERROR, ERRCODE_FDW_ERROR, ERRCODE_DATA_CORRUPTED,
	ERRCODE_PROGRAM_LIMIT_EXCEEDED, ERRCODE_FEATURE_NOT_SUPPORTED, 0
};

static int	called;

static void
count_call(void *arg, const MosqlReply *reply)
{
	called++;
	MUST(reply != NULL);
}

/* A reply is a tree without holes, and its strings end in a zero. */
static void
check_reply(const MosqlReply *reply)
{
	MUST(reply != NULL);
	switch (reply->kind)
	{
		case MOSQL_REPLY_NIL:
		case MOSQL_REPLY_INTEGER:
		case MOSQL_REPLY_LOST:
			break;
		case MOSQL_REPLY_STRING:
		case MOSQL_REPLY_STATUS:
		case MOSQL_REPLY_ERROR:
			MUST(reply->str.data[reply->str.len] == '\0');
			break;
		case MOSQL_REPLY_ARRAY:
			for (int i = 0; i < reply->n; i++)
				check_reply(reply->elem[i]);
			break;
	}
}

static MosqlBytes
word(const char *text)
{
	return mosql_bytes(text, strlen(text));
}

/* Groups of one and of several commands, in all modes and for several slots. */
static void
run_batch(MosqlRedis *redis, int choice)
{
	MosqlBatch *batch = mosql_batch_create(redis, CurrentMemoryContext);
	MosqlBytes	get[2] = {word("GET"), word("{a}")};
	MosqlBytes	multi[1] = {word("MULTI")};
	MosqlBytes	set[3] = {word("SET"), word("{b}"), word("1")};
	MosqlBytes	exec[1] = {word("EXEC")};
	const MosqlBytes *const argv[3] = {multi, set, exec};
	const int	argc[3] = {1, 3, 1};
	int			groups[3];

	groups[0] = mosql_batch_add(batch, mosql_redis_slot(get[1]), MOSQL_SEND_REPEATABLE, 2, get);
	groups[1] = mosql_batch_add(batch, mosql_redis_slot(set[1]), MOSQL_SEND_ONCE, 3, set);
	groups[2] = mosql_batch_add_group(batch, mosql_redis_slot(set[1]),
									  (choice & 1) ? MOSQL_SEND_ONCE : MOSQL_SEND_REPEATABLE, 0,
									  3, argc, argv);
	mosql_batch_run(batch, NULL);
	for (int i = 0; i < 2; i++)
		check_reply(mosql_batch_reply(batch, groups[i], 0));
	for (int i = 0; i < 3; i++)
		check_reply(mosql_batch_reply(batch, groups[2], i));

	if (choice & 2)
	{
		uint64		pin = mosql_batch_connection(batch, groups[2]);
		MosqlBatch *pinned = mosql_batch_create(redis, CurrentMemoryContext);
		int			group = mosql_batch_add_group(pinned, mosql_redis_slot(set[1]),
												  MOSQL_SEND_PINNED, pin, 3, argc, argv);

		mosql_batch_run(pinned, NULL);
		for (int i = 0; i < 3; i++)
			check_reply(mosql_batch_reply(pinned, group, i));
	}
}

static void
use(MosqlRedis *redis, int choice)
{
	MosqlBytes	hdel[3] = {word("HDEL"), word("{a}"), word("f")};
	MosqlConnectionInfo *info;
	int			n;

	if (mosql_redis_is_cluster(redis))
		n = mosql_redis_primary_count(redis);
	run_batch(redis, choice);
	called = 0;
	for (int i = 0; i < 3; i++)
		mosql_redis_send(redis, mosql_redis_slot(word("{a}")), 3, hdel, count_call, NULL);
	if ((choice & 4) && mosql_redis_drain(redis, 100))
		MUST(called == 3);
	run_batch(redis, choice >> 3);
	n = mosql_redis_connections(redis, &info);
	for (int i = 0; i < n; i++)
		MUST(info[i].port > 0 && info[i].port <= 65535);
	mosql_redis_disconnect(redis);
	MUST(called == 3 && sockets_closed());
}

void
fuzz_one(MosqlBytes in)
{
	int			choice = fuzz_byte(&in);
	MosqlRedisConfig config = {
		.nodes = (choice & 64) ? "h1:7001" : "h1:7001,h2:7002",
		.password = (choice & 128) ? "secret" : NULL,
		.connect_timeout_ms = 50, .command_timeout_ms = 200
	};
	MosqlRedis *redis = sockets_open(&config, NULL, &in);

	PG_TRY();
	{
		use(redis, choice);
	}
	PG_CATCH();
	{
		/* it stays usable after an error */
		if (mosql_redis_is_busy(redis))
			mosql_redis_close(redis);
		else
		{
			mosql_redis_disconnect(redis);
			mosql_redis_close(redis);
		}
		MUST(sockets_closed());
		PG_RE_THROW();
	}
	PG_END_TRY();
	mosql_redis_close(redis);
}
