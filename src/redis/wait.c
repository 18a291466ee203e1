/*
 * wait.c: durable commands: what replicas and the disk have.
 *
 * Layer: redis.  Behind durable groups one WAIT (or WAITAOF) is sent in the same
 * write; until its answer they are ANSWERED but not DONE:
 *
 *     SENT ──replies──> ANSWERED ──enough──> DONE
 *                          ├──too few──────> FAILED (08006), or LOST in mode ONCE
 *                          └──broken───────> once more, or LOST in mode ONCE
 *
 * Replies come in the order of the commands.  So when WAIT is answered, the
 * groups of that connection that are ANSWERED are those sent before it, and all
 * that they wrote is in the part of the replication stream that it covers.
 */
#include "redis/redis_int.h"

/* A reply LOST for lack of replicas: integer + 1 of them have it. */
#define SHORT_BASE	1

bool
mosql_redis_is_durable(const MosqlRedis *redis)
{
	return redis->replicas > 0 || redis->fsync;
}

uint64
mosql_redis_breaks(const MosqlRedis *redis)
{
	return redis->breaks;
}

uint64
mosql_redis_fence(MosqlRedis *redis, uint64 breaks)
{
	uint64		before = redis->fence;

	if (before == 0)
		redis->fence = breaks + 1;
	return before;
}

void
mosql_redis_lift(MosqlRedis *redis, uint64 before)
{
	redis->fence = before;
}

int64
mosql_redis_hurry(MosqlRedis *redis, int64 until_us)
{
	int64		before = redis->hurry_us;

	redis->hurry_us = until_us;
	return before;
}

int64
mosql_redis_timeout_us(const MosqlRedis *redis)
{
	return mosql_now_us() + (int64) redis->command_timeout_ms * 1000;
}

bool
mosql_redis_is_fenced_off(const MosqlRedis *redis)
{
	return redis->fence != 0 && redis->breaks + 1 > redis->fence;
}

bool
mosql_connection_waits(const MosqlConnection *conn)
{
	const MosqlRedis *redis = conn->redis;

	return redis->replicas > 0 || (redis->fsync && !conn->synchronous);
}

bool
mosql_redis_waits(const MosqlRedis *redis)
{
	bool		connected = false;

	for (int i = 0; i < redis->nservers; i++)
	{
		const MosqlConnection *conn = redis->servers[i]->conn;

		connected |= conn != NULL;
		if (conn != NULL && mosql_connection_waits(conn))
			return true;
	}
	return !connected && mosql_redis_is_durable(redis);
}

void
mosql_batch_make_durable(MosqlBatch *batch, int group)
{
	Assert(group >= 0 && group < batch->ngroups && !batch->ran);
	batch->groups[group].durable = true;
}

void
mosql_connection_append_wait(MosqlConnection *conn, const MosqlPending *pending)
{
	const MosqlRedis *redis = conn->redis;
	char		replicas[16];
	char		timeout[16];
	MosqlBytes	argv[4];
	int			argc = 0;

	snprintf(replicas, sizeof(replicas), "%d", redis->replicas);
	snprintf(timeout, sizeof(timeout), "%d", redis->replica_timeout_ms);
	if (redis->fsync && !conn->synchronous)
	{
		argv[argc++] = mosql_bytes("WAITAOF", 7);
		argv[argc++] = mosql_bytes("1", 1);
	}
	else
		argv[argc++] = mosql_bytes("WAIT", 4);
	argv[argc++] = mosql_bytes(replicas, strlen(replicas));
	argv[argc++] = mosql_bytes(timeout, strlen(timeout));
	mosql_connection_append(conn, argc, argv, pending);
}

/* How many replicas have it, -1 if that is no answer; *disk: the primary's. */
static int
count_copies(const MosqlReply *reply, bool *disk)
{
	*disk = true;
	if (reply->kind == MOSQL_REPLY_INTEGER)
		return (int) Min(Max(reply->integer, 0), PG_INT32_MAX - 1);
	if (reply->kind != MOSQL_REPLY_ARRAY || reply->n != 2 ||
		reply->elem[0]->kind != MOSQL_REPLY_INTEGER || reply->elem[1]->kind != MOSQL_REPLY_INTEGER)
		return -1;
	*disk = reply->elem[0]->integer >= 1;
	return (int) Min(Max(reply->elem[1]->integer, 0), PG_INT32_MAX - 1);
}

bool
mosql_redis_wait_is_met(const MosqlRedis *redis, const MosqlReply *reply)
{
	bool		disk;

	return count_copies(reply, &disk) >= redis->replicas && disk;
}

bool
mosql_reply_is_short(const MosqlReply *reply)
{
	return reply->kind == MOSQL_REPLY_LOST && reply->integer >= SHORT_BASE;
}

void
mosql_redis_raise_short(const MosqlRedis *redis, const MosqlReply *reply)
{
	int			n = (int) (reply->integer - SHORT_BASE);

	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 redis->replicas > 0 ?
			 errmsg("%d of %d replicas of Redis server %s acknowledged a write within %d ms",
					Min(n, redis->replicas), redis->replicas, reply->server,
					redis->replica_timeout_ms) :
			 errmsg("Redis server %s did not have a write on disk within %d ms",
					reply->server, redis->replica_timeout_ms),
			 errhint("Check that each primary has its replicas and that they are in sync; the server options durability, replicas and replica_timeout say what is waited for.")));
	pg_unreachable();
}

/* A reply that says so, in the batch's memory; NULL: out of memory. */
static const MosqlReply *
make_short(MosqlBatch *batch, const MosqlConnection *conn, int copies)
{
	MosqlReply *reply = MemoryContextAllocExtended(batch->cxt, sizeof(MosqlReply),
												   MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);

	if (reply == NULL)
		return &mosql_reply_lost;
	reply->kind = MOSQL_REPLY_LOST;
	reply->integer = SHORT_BASE + copies;
	reply->server = conn->server->address;
	return reply;
}

/* It surely ran, but too few copies are there. */
static void
fall_short(MosqlBatch *batch, MosqlGroup *group, const MosqlReply *why)
{
	if (group->mode == MOSQL_SEND_REPEATABLE)
	{
		if (batch->shortfall == NULL)
			batch->shortfall = why;
		mosql_group_finish(batch, group, MOSQL_GROUP_FAILED);
	}
	else
		mosql_group_finish_lost(batch, group, why);
}

/* Nobody knows which copies are there: as if no reply had come. */
static void
stay_unconfirmed(MosqlBatch *batch, MosqlGroup *group)
{
	mosql_cluster_doubt(batch->redis, group->target);
	if (group->mode != MOSQL_SEND_REPEATABLE)
	{
		mosql_group_finish_lost(batch, group, &mosql_reply_lost);
		return;
	}
	for (int i = 0; i < group->ncommands; i++)
		batch->commands[group->first + i].reply = NULL;
	mosql_group_try_again(batch, group, group->attempts <= 1);
}

void
mosql_batch_confirm(MosqlBatch *batch, const MosqlConnection *conn, const MosqlReply *reply)
{
	bool		disk = false;
	int			copies = reply != NULL ? count_copies(reply, &disk) : -1;
	bool		enough = copies >= batch->redis->replicas && disk;
	const MosqlReply *why = NULL;

	if (reply != NULL && reply->kind == MOSQL_REPLY_ERROR && batch->raise == NULL &&
		mosql_error_classify(reply->str) == MOSQL_ERROR_RAISE)
		batch->raise = reply;	/* no right to WAIT, or no such command */
	for (int i = 0; i < batch->ngroups; i++)
	{
		MosqlGroup *group = &batch->groups[i];

		if (group->state != MOSQL_GROUP_ANSWERED || group->serial != conn->serial)
			continue;
		batch->sent--;
		if (enough)
			mosql_group_finish(batch, group, MOSQL_GROUP_DONE);
		else if (batch->raise != NULL && batch->raise == reply)
			mosql_group_finish_lost(batch, group, &mosql_reply_lost);
		else if (copies < 0)
			stay_unconfirmed(batch, group);
		else
		{
			if (why == NULL)
				why = make_short(batch, conn, copies);
			fall_short(batch, group, why);
		}
	}
}
