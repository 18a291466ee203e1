/*
 * batch.c: collecting a batch, and looking at its replies.
 *
 * Layer: redis.  run.c sends it.
 */
#include "redis/redis_int.h"

/*
 * The batch's memory goes away.  If it was given up half-way (an error),
 * connections may still wait for its replies: they recognise by the id that
 * nobody wants them.  Only a reply that is being read right now has pointers
 * into this memory.
 */
static void
forget_batch(void *arg)
{
	MosqlBatch *batch = arg;
	MosqlRedis *redis = batch->redis;

	if (redis == NULL)
		return;
	if (batch->prev != NULL)
		batch->prev->next = batch->next;
	else
		redis->batches = batch->next;
	if (batch->next != NULL)
		batch->next->prev = batch->prev;
	if (redis->running == batch)
		redis->running = NULL;
	if (batch->unfinished == 0)
		return;

	for (int i = 0; i < redis->nservers; i++)
	{
		MosqlConnection *conn = redis->servers[i]->conn;

		if (conn != NULL && conn->begun && conn->into == batch->cxt)
			conn->into = NULL;
	}
}

MosqlBatch *
mosql_batch_create(MosqlRedis *redis, MemoryContext cxt)
{
	MosqlBatch *batch = MemoryContextAlloc(cxt, sizeof(MosqlBatch));

	memset(batch, 0, offsetof(MosqlBatch, inline_groups));
	batch->redis = redis;
	batch->cxt = cxt;
	batch->id = ++redis->last_batch_id;
	batch->groups = batch->inline_groups;
	batch->groups_size = MOSQL_BATCH_INLINE_GROUPS;
	batch->commands = batch->inline_commands;
	batch->commands_size = MOSQL_BATCH_INLINE_GROUPS;
	batch->args = batch->inline_args;
	batch->args_left = MOSQL_BATCH_INLINE_ARGS;
	batch->failed_group = -1;

	batch->next = redis->batches;
	if (redis->batches != NULL)
		redis->batches->prev = batch;
	redis->batches = batch;
	batch->on_reset.func = forget_batch;
	batch->on_reset.arg = batch;
	MemoryContextRegisterResetCallback(cxt, &batch->on_reset);
	return batch;
}

/* An array twice as large; the first one is part of the batch itself. */
static void *
grow(MosqlBatch *batch, void *array, const void *inline_array, int *size, size_t element)
{
	size_t		old_bytes = *size * element;
	void	   *result;

	if (array == inline_array)
	{
		result = MemoryContextAllocHuge(batch->cxt, 2 * old_bytes);
		memcpy(result, array, old_bytes);
	}
	else
		result = repalloc_huge(array, 2 * old_bytes);
	*size *= 2;
	return result;
}

static void
add_command(MosqlBatch *batch, int argc, const MosqlBytes *argv)
{
	MosqlCommand *command;

	Assert(argc > 0);
	if (batch->ncommands == batch->commands_size)
		batch->commands = grow(batch, batch->commands, batch->inline_commands,
							   &batch->commands_size, sizeof(MosqlCommand));
	if (batch->args_left < argc)
	{
		int			n = Max(256, argc);

		batch->args = MemoryContextAllocHuge(batch->cxt, n * sizeof(MosqlBytes));
		batch->args_left = n;
	}
	memcpy(batch->args, argv, argc * sizeof(MosqlBytes));
	command = &batch->commands[batch->ncommands++];
	command->argc = argc;
	command->argv = batch->args;
	command->reply = NULL;
	batch->args += argc;
	batch->args_left -= argc;
}

/* A group without commands yet; those added next belong to it. */
static MosqlGroup *
add_group(MosqlBatch *batch, uint16 slot, MosqlSendMode mode, int ncommands)
{
	MosqlGroup *group;

	Assert(slot < MOSQL_SLOTS);
	Assert(!batch->ran);
	if (batch->ngroups == batch->groups_size)
		batch->groups = grow(batch, batch->groups, batch->inline_groups,
							 &batch->groups_size, sizeof(MosqlGroup));
	group = &batch->groups[batch->ngroups++];
	memset(group, 0, sizeof(MosqlGroup));
	group->slot = slot;
	group->mode = mode;
	group->first = batch->ncommands;
	group->ncommands = ncommands;
	group->next = -1;
	return group;
}

int
mosql_batch_add(MosqlBatch *batch, uint16 slot, MosqlSendMode mode,
				int argc, const MosqlBytes *argv)
{
	(void) add_group(batch, slot, mode, 1);
	add_command(batch, argc, argv);
	return batch->ngroups - 1;
}

int
mosql_batch_add_group(MosqlBatch *batch, uint16 slot, MosqlSendMode mode, uint64 pin,
					  int ncommands, const int *argc, const MosqlBytes *const *argv)
{
	MosqlGroup *group = add_group(batch, slot, mode, ncommands);

	Assert(ncommands > 0);
	Assert((pin != 0) == (mode == MOSQL_SEND_PINNED));
	group->pin = pin;
	for (int i = 0; i < ncommands; i++)
		add_command(batch, argc[i], argv[i]);
	return batch->ngroups - 1;
}

int
mosql_redis_primary_count(MosqlRedis *redis)
{
	int			n = 0;

	mosql_cluster_need_map(redis);
	for (int i = 0; i < redis->nservers; i++)
		n += redis->servers[i]->primary;
	return n;
}

int
mosql_batch_add_to_primary(MosqlBatch *batch, int primary, MosqlSendMode mode,
						   int argc, const MosqlBytes *argv)
{
	int			group = mosql_batch_add(batch, 0, mode, argc, argv);
	MosqlRedis *redis = batch->redis;

	for (int i = 0; i < redis->nservers; i++)
		if (redis->servers[i]->primary && primary-- == 0)
		{
			batch->groups[group].fixed = redis->servers[i];
			return group;
		}
	/* fewer primaries than a moment ago */
	batch->groups[group].fixed = redis->servers[0];
	return group;
}

/* See redis.h. */
void
mosql_batch_take_errors(MosqlBatch *batch)
{
	batch->takes_errors = true;
}

const MosqlReply *
mosql_batch_reply(const MosqlBatch *batch, int group, int i)
{
	const MosqlGroup *g = &batch->groups[group];

	Assert(group >= 0 && group < batch->ngroups && i >= 0 && i < g->ncommands);
	Assert(g->state == MOSQL_GROUP_DONE && batch->commands[g->first + i].reply != NULL);
	return batch->commands[g->first + i].reply;
}

uint64
mosql_batch_connection(const MosqlBatch *batch, int group)
{
	Assert(group >= 0 && group < batch->ngroups);
	return batch->groups[group].serial;
}

bool
mosql_batch_follows(const MosqlBatch *batch, int first, int second)
{
	const MosqlGroup *a = &batch->groups[first];
	const MosqlGroup *b = &batch->groups[second];

	Assert(first >= 0 && first < batch->ngroups && second >= 0 && second < batch->ngroups);
	return a->serial == b->serial && a->start < b->start;
}

int
mosql_batch_attempts(const MosqlBatch *batch, int group)
{
	Assert(group >= 0 && group < batch->ngroups);
	return batch->groups[group].attempts;
}
