/*
 * test_redis_live.c: layer redis against real servers.
 *
 * MOSQL_TEST_NODES names them ("host:port,..."); without it nothing is tested.
 * Writes keys "mosqltest:..." only.
 */
#include "unit.h"

#include <time.h>

#include "base/stats.h"
#include "redis/redis.h"

static MosqlRedis *redis;

#define LIT(s) mosql_bytes(s, sizeof(s) - 1)

static MosqlBytes
str_of(const char *s)
{
	return mosql_bytes(s, strlen(s));
}

static MosqlBytes
key_of(int i)
{
	return str_of(psprintf("mosqltest:{%d}", i));
}

/* Many keys on all servers, more than a window, values of many sizes. */
static void
test_many(void)
{
	int			n = 5000;
	char	   *big = palloc(300000);
	MosqlBatch *batch = mosql_batch_create(redis, CurrentMemoryContext);

	memset(big, 'x', 300000);
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	key = key_of(i);
		MosqlBytes	argv[3] = {LIT("SET"), key, mosql_bytes(big, i % 100 == 0 ? 3 * i + 7 : i % 50)};

		CHECK_INT(mosql_batch_add(batch, mosql_redis_slot(key), MOSQL_SEND_ONCE, 3, argv), i);
	}
	mosql_batch_run(batch, NULL);
	for (int i = 0; i < n; i++)
		CHECK_INT(mosql_batch_reply(batch, i, 0)->kind, MOSQL_REPLY_STATUS);

	batch = mosql_batch_create(redis, CurrentMemoryContext);
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	key = key_of(i);
		MosqlBytes	argv[2] = {LIT("GET"), key};

		mosql_batch_add(batch, mosql_redis_slot(key), MOSQL_SEND_REPEATABLE, 2, argv);
	}
	mosql_batch_run(batch, NULL);
	for (int i = 0; i < n; i++)
	{
		const MosqlReply *r = mosql_batch_reply(batch, i, 0);

		CHECK_INT(r->str.len, i % 100 == 0 ? 3 * i + 7 : i % 50);
	}
}

static void
test_transaction(void)
{
	MosqlBytes	key = LIT("mosqltest:{t}");
	MosqlBytes	watch[2] = {LIT("WATCH"), key};
	MosqlBytes	get[2] = {LIT("GET"), key};
	MosqlBytes	multi[1] = {LIT("MULTI")};
	MosqlBytes	set[3] = {LIT("SET"), key, LIT("new")};
	MosqlBytes	exec[1] = {LIT("EXEC")};
	const MosqlBytes *first[2] = {watch, get};
	const MosqlBytes *second[3] = {multi, set, exec};
	int			first_argc[2] = {2, 2};
	int			second_argc[3] = {1, 3, 1};
	MosqlBatch *batch = mosql_batch_create(redis, CurrentMemoryContext);
	uint64		pin;

	mosql_batch_add_group(batch, mosql_redis_slot(key), MOSQL_SEND_REPEATABLE, 0, 2, first_argc, first);
	mosql_batch_run(batch, NULL);
	CHECK_STR(mosql_batch_reply(batch, 0, 0)->str.data, "OK");
	pin = mosql_batch_connection(batch, 0);
	CHECK(pin != 0);

	batch = mosql_batch_create(redis, CurrentMemoryContext);
	mosql_batch_add_group(batch, mosql_redis_slot(key), MOSQL_SEND_PINNED, pin, 3, second_argc, second);
	mosql_batch_add(batch, mosql_redis_slot(key), MOSQL_SEND_REPEATABLE, 2, get);
	mosql_batch_run(batch, NULL);
	CHECK(mosql_batch_follows(batch, 0, 1) && !mosql_batch_follows(batch, 1, 0));
	CHECK_STR(mosql_batch_reply(batch, 0, 1)->str.data, "QUEUED");
	CHECK_INT(mosql_batch_reply(batch, 0, 2)->n, 1);
	CHECK_INT(mosql_batch_connection(batch, 0), pin);

	/* the connection is gone: nothing is known */
	mosql_redis_disconnect(redis);
	batch = mosql_batch_create(redis, CurrentMemoryContext);
	mosql_batch_add_group(batch, mosql_redis_slot(key), MOSQL_SEND_PINNED, pin, 3, second_argc, second);
	mosql_batch_run(batch, NULL);
	CHECK_INT(mosql_batch_reply(batch, 0, 2)->kind, MOSQL_REPLY_LOST);
}

static int	detached;

static void
count(void *arg, const MosqlReply *reply)
{
	if (reply->kind == MOSQL_REPLY_STATUS)
		detached++;
}

static void
test_detached(void)
{
	for (int i = 0; i < 2000; i++)
	{
		MosqlBytes	key = key_of(i);
		MosqlBytes	argv[3] = {LIT("SET"), key, LIT("detached")};

		if (i % 100 == 0)
			mosql_redis_cork(redis);
		mosql_redis_send(redis, mosql_redis_slot(key), 3, argv, count, NULL);
		if (i % 100 == 50)
			mosql_redis_uncork(redis);
	}
	mosql_redis_uncork(redis);
	CHECK(mosql_redis_drain(redis, 5000));
	CHECK_INT(detached, 2000);
}

static void
test_primaries(void)
{
	int			n = mosql_redis_primary_count(redis);
	MosqlBatch *batch = mosql_batch_create(redis, CurrentMemoryContext);
	MosqlBytes	argv[3] = {LIT("CONFIG"), LIT("GET"), LIT("port")};
	MosqlConnectionInfo *info;

	CHECK(mosql_redis_is_cluster(redis) ? n >= 1 : n == 1);
	for (int i = 0; i < n; i++)
		mosql_batch_add_to_primary(batch, i, MOSQL_SEND_REPEATABLE, 3, argv);
	mosql_batch_run(batch, NULL);
	for (int i = 0; i < n; i++)
	{
		const MosqlReply *r = mosql_batch_reply(batch, i, 0);

		CHECK(r->kind == MOSQL_REPLY_ARRAY && r->n == 2);
		for (int k = 0; k < i; k++)
			CHECK(strcmp(r->elem[1]->str.data, mosql_batch_reply(batch, k, 0)->elem[1]->str.data) != 0);
	}
	CHECK(mosql_redis_connections(redis, &info) >= n);
	CHECK(info[0].connected && info[0].under_way == 0);
}

/* DEBUG SLEEP or a busy script hold the server; SIGALRM cancels. */
static void
sleeping_batch(void)
{
	MosqlBytes	key = LIT("mosqltest:{s}");
	MosqlBytes	script[4] = {LIT("EVAL"),
		LIT("local t = redis.call('TIME') local e = t[1] * 1000000 + t[2] + 2000000 "
			"repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] > e return 'slept'"),
	LIT("1"), key};
	MosqlBatch *batch = mosql_batch_create(redis, CurrentMemoryContext);

	mosql_batch_add(batch, mosql_redis_slot(key), MOSQL_SEND_ONCE, 4, script);
	mosql_batch_run(batch, NULL);
}

static void
test_cancel(void)
{
	MosqlBytes	key = LIT("mosqltest:{s}");
	MosqlBytes	argv[2] = {LIT("ECHO"), LIT("here")};
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "batch", ALLOCSET_DEFAULT_SIZES);
	MosqlBatch *batch;
	int64		start = mosql_now_us();

	MemoryContextSwitchTo(cxt);
	pgstub_cancel_after_ms(50);
	CHECK_RAISES(ERRCODE_QUERY_CANCELED, sleeping_batch());
	CHECK(mosql_now_us() - start < 1000000);	/* the server answers after two seconds */
	MemoryContextSwitchTo(TopMemoryContext);
	MemoryContextDelete(cxt);

	/* the late reply is thrown away, the next command gets its own */
	batch = mosql_batch_create(redis, CurrentMemoryContext);
	mosql_batch_add(batch, mosql_redis_slot(key), MOSQL_SEND_ONCE, 2, argv);
	mosql_batch_run(batch, NULL);
	CHECK_STR(mosql_batch_reply(batch, 0, 0)->str.data, "here");
}

static void
measure(const char *what, int loops, int commands, int argc, const MosqlBytes *argv)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "measure", ALLOCSET_DEFAULT_SIZES);
	int64		trips = mosql_stats.round_trips;
	int64		start = mosql_now_us();
	struct timespec cpu0,
				cpu1;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu0);
	for (int i = 0; i < loops; i++)
	{
		MosqlBatch *batch = mosql_batch_create(redis, cxt);

		for (int k = 0; k < commands; k++)
			mosql_batch_add(batch, mosql_redis_slot(argv[1]), MOSQL_SEND_REPEATABLE, argc, argv);
		mosql_batch_run(batch, NULL);
		MemoryContextReset(cxt);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu1);
	start = mosql_now_us() - start;
	printf("# %s: %.1f us per batch of %d (%.1f us of CPU here), %lld round trips\n", what,
		   (double) start / loops, commands,
		   ((cpu1.tv_sec - cpu0.tv_sec) * 1e6 + (cpu1.tv_nsec - cpu0.tv_nsec) / 1e3) / loops,
		   (long long) mosql_stats.round_trips - trips);
	MemoryContextDelete(cxt);
}

static void
test_speed(void)
{
	MosqlBytes	key = LIT("mosqltest:{h}");
	MosqlBytes	get[4] = {LIT("HMGET"), key, LIT("r1"), LIT("m")};
	MosqlBytes	all[2] = {LIT("HGETALL"), key};
	MosqlBytes	set[2 + 2 * 120];
	MosqlBatch *batch = mosql_batch_create(redis, CurrentMemoryContext);

	set[0] = LIT("HSET");
	set[1] = key;
	for (int i = 0; i < 120; i++)
	{
		set[2 + 2 * i] = str_of(psprintf("r%d", i));
		set[3 + 2 * i] = str_of(psprintf("%0100d", i));
	}
	mosql_batch_add(batch, mosql_redis_slot(key), MOSQL_SEND_REPEATABLE, 242, set);
	mosql_batch_run(batch, NULL);
	measure("HMGET", 10000, 1, 4, get);
	measure("HMGET", 2000, 8, 4, get);
	measure("HGETALL of 120", 1000, 1, 2, all);
	measure("HGETALL of 120", 100, 100, 2, all);
	measure("HSET of 120", 100, 100, 242, set);
}

int
main(void)
{
	MosqlRedisConfig config = {.nodes = getenv("MOSQL_TEST_NODES"),
		.username = getenv("MOSQL_TEST_USER"), .password = getenv("MOSQL_TEST_PASSWORD"),
	.connect_timeout_ms = 1000, .command_timeout_ms = 5000};

	if (config.nodes == NULL)
	{
		printf("# MOSQL_TEST_NODES is not set\n");
		return unit_finish();
	}
	redis = mosql_redis_open(&config, TopMemoryContext);
	RUN(test_many);
	RUN(test_detached);
	RUN(test_transaction);
	RUN(test_primaries);
	RUN(test_cancel);
	if (getenv("MOSQL_TEST_SPEED") != NULL)
		RUN(test_speed);
	mosql_redis_close(redis);
	return unit_finish();
}
