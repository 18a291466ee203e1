/*
 * group.c: what becomes of the groups of a running batch.
 *
 * Layer: redis.  Replies come in, connections break, the map changes: each
 * event moves groups between the lists that run.c describes, or ends them.
 */
#include "redis/redis_int.h"

#include "base/stats.h"

/* Redirections of one group that are followed at once; more must pause. */
#define REDIRECTS_AT_ONCE	5

/*
 * ---------------------------------------------------------------------------
 * Lists of groups
 * ---------------------------------------------------------------------------
 */

void
mosql_group_enqueue(MosqlBatch *batch, int *head, int *tail, int group)
{
	batch->groups[group].next = -1;
	if (*head < 0)
		*head = group;
	else
		batch->groups[*tail].next = group;
	*tail = group;
}

/* The first of the list, which must not be empty. */
int
mosql_group_pop(MosqlBatch *batch, int *head)
{
	int			group = *head;

	Assert(group >= 0);
	*head = batch->groups[group].next;
	return group;
}

void
mosql_group_push(MosqlBatch *batch, MosqlGroupList *list, const MosqlGroup *group)
{
	mosql_group_enqueue(batch, &list->head, &list->tail, group - batch->groups);
}

/* Move everything from a list to the end of another. */
void
mosql_group_move_all(MosqlBatch *batch, int *head, MosqlGroupList *to)
{
	while (*head >= 0)
	{
		int			group = mosql_group_pop(batch, head);

		mosql_group_enqueue(batch, &to->head, &to->tail, group);
	}
}

/*
 * ---------------------------------------------------------------------------
 * The end of a group
 * ---------------------------------------------------------------------------
 */

void
mosql_group_finish(MosqlBatch *batch, MosqlGroup *group, MosqlGroupState state)
{
	Assert(batch->unfinished > 0);
	group->state = state;
	batch->unfinished--;
	if (state == MOSQL_GROUP_FAILED && batch->failed_group < 0)
		batch->failed_group = group - batch->groups;
}

/*
 * It may have run, or has no connection to run on: missing replies are LOST; if
 * it is ANSWERED, all are, for nobody knows whether its effect stays.
 */
void
mosql_group_finish_lost(MosqlBatch *batch, MosqlGroup *group, const MosqlReply *lost)
{
	for (int i = 0; i < group->ncommands; i++)
		if (batch->commands[group->first + i].reply == NULL ||
			group->state == MOSQL_GROUP_ANSWERED)
			batch->commands[group->first + i].reply = lost;
	mosql_group_finish(batch, group, MOSQL_GROUP_DONE);
}

void
mosql_group_give_up(MosqlBatch *batch, MosqlGroup *group)
{
	if (group->mode == MOSQL_SEND_PINNED)
		mosql_group_finish_lost(batch, group, &mosql_reply_lost);
	else
		mosql_group_finish(batch, group, MOSQL_GROUP_FAILED);
}

void
mosql_group_give_up_all(MosqlBatch *batch, int *head)
{
	while (*head >= 0)
		mosql_group_give_up(batch, &batch->groups[mosql_group_pop(batch, head)]);
}

void
mosql_group_try_again(MosqlBatch *batch, MosqlGroup *group, bool at_once)
{
	group->state = MOSQL_GROUP_WAITING;
	if (batch->expired)
		mosql_group_give_up(batch, group);
	else if (at_once)
		mosql_group_push(batch, &batch->todo, group);
	else
	{
		group->asking = false;	/* the slot may have arrived by then */
		mosql_group_push(batch, &batch->paused, group);
	}
}

/*
 * ---------------------------------------------------------------------------
 * Replies
 * ---------------------------------------------------------------------------
 */

bool
mosql_command_is(const MosqlCommand *command, const char *name)
{
	return command->argv[0].len == strlen(name) &&
		pg_strncasecmp(command->argv[0].data, name, command->argv[0].len) == 0;
}

/*
 * Did any command of a refused group run, that does more than tell the
 * connection or the server something?  Then the group cannot be repeated,
 * unless it is REPEATABLE.  When in doubt: yes.
 */
static bool
something_ran(const MosqlBatch *batch, const MosqlGroup *group)
{
	static const char *const harmless[] = {"MULTI", "WATCH", "UNWATCH", "DISCARD",
	"WAIT", "WAITAOF", "PING"};

	for (int i = 0; i < group->ncommands; i++)
	{
		const MosqlCommand *command = &batch->commands[group->first + i];
		const MosqlReply *reply = command->reply;
		bool		ran = true;

		if (reply->kind == MOSQL_REPLY_ERROR)
			ran = mosql_error_classify(reply->str) == MOSQL_ERROR_OTHER;
		else if (reply->kind == MOSQL_REPLY_STATUS && strcmp(reply->str.data, "QUEUED") == 0)
			ran = false;
		for (int k = 0; ran && k < lengthof(harmless); k++)
			ran = !mosql_command_is(command, harmless[k]);
		if (ran)
			return true;
	}
	return false;
}

/*
 * The server a redirection names: "MOVED 3999 host:port"; without host it is
 * the one that said it.  NULL if it cannot be understood.
 */
static MosqlServer *
redirected_to(MosqlRedis *redis, const MosqlGroup *group, const char *message)
{
	const char *address = strrchr(message, ' ');
	int			host_len;
	int			port;

	if (address == NULL || !mosql_nodes_split(address + 1, &host_len, &port) ||
		address[1] == '?')
		return NULL;
	if (host_len == 0)
		return mosql_cluster_server(redis, group->target->host, strlen(group->target->host), port);
	return mosql_cluster_server(redis, address + 1, host_len, port);
}

/*
 * The group was refused: follow the redirection, or wait.
 *
 * Race -- a slot moves key by key.  Where it comes from one command has found its key, and
 * another, whose key has moved or was never there, is to ask where the slot goes.  There the
 * first key is not yet, which looks as if it were nowhere: what has one answer here must not
 * get another one there.  So the group waits until its keys are together, as Redis itself has
 * commands on several keys wait.
 */
static void
follow(MosqlBatch *batch, MosqlGroup *group)
{
	MosqlRedis *redis = batch->redis;
	MosqlBytes	message = group->refusal->str;
	MosqlErrorClass class = mosql_error_classify(message);
	bool		waits = class == MOSQL_ERROR_LATER ||
		(class == MOSQL_ERROR_ASK && something_ran(batch, group));
	MosqlServer *server = waits ? NULL : redirected_to(redis, group, message.data);

	for (int i = 0; i < group->ncommands; i++)
		batch->commands[group->first + i].reply = NULL;
	if (server == NULL)
	{
		if (mosql_error_doubts_map(message))
			mosql_cluster_doubt(redis, group->target);
		mosql_group_try_again(batch, group, false);
		return;
	}
	mosql_stats.redirects++;
	group->redirects++;
	if (class == MOSQL_ERROR_MOVED)
		mosql_cluster_moved(redis, group->slot, server);
	group->asking = class == MOSQL_ERROR_ASK;
	group->target = server;
	mosql_group_try_again(batch, group, group->redirects <= REDIRECTS_AT_ONCE);
}

/*
 * All replies of a group are in.  If it is durable they do not count yet: its
 * WAIT is on the way behind it (run.c).
 */
static void
complete(MosqlBatch *batch, MosqlConnection *conn, MosqlGroup *group)
{
	if (group->refusal == NULL && group->durable && mosql_connection_waits(conn))
	{
		group->state = MOSQL_GROUP_ANSWERED;
		return;
	}
	batch->sent--;
	if (group->refusal == NULL || group->mode == MOSQL_SEND_PINNED ||
		(group->mode == MOSQL_SEND_ONCE && something_ran(batch, group)) ||
		(group->fixed != NULL && mosql_error_classify(group->refusal->str) != MOSQL_ERROR_LATER))
		mosql_group_finish(batch, group, MOSQL_GROUP_DONE);
	else
		follow(batch, group);
}

void
mosql_batch_deliver(MosqlBatch *batch, MosqlConnection *conn,
					const MosqlPending *pending, const MosqlReply *reply)
{
	MosqlGroup *group = &batch->groups[pending->group];

	Assert(group->state == MOSQL_GROUP_SENT && group->serial == conn->serial);
	Assert(group->missing > 0);
	batch->commands[group->first + pending->command].reply = reply;
	if (reply->kind == MOSQL_REPLY_ERROR)
	{
		MosqlErrorClass class = mosql_error_classify(reply->str);

		if (class == MOSQL_ERROR_RAISE && batch->raise == NULL && !batch->takes_errors)
			batch->raise = reply;
		if ((class == MOSQL_ERROR_MOVED || class == MOSQL_ERROR_ASK ||
			 class == MOSQL_ERROR_LATER) && group->refusal == NULL)
			group->refusal = reply;
	}
	if (--group->missing == 0)
		complete(batch, conn, group);
}

/*
 * Called for each command without a reply; the first one of a group settles
 * the whole group.  The first repetition is immediate: the connection may just
 * have been idle for too long.
 */
void
mosql_batch_lose(MosqlBatch *batch, const MosqlPending *pending, uint64 sent_bytes)
{
	MosqlGroup *group = &batch->groups[pending->group];
	bool		started = group->start < sent_bytes;

	if (group->state != MOSQL_GROUP_SENT)
		return;
	batch->sent--;
	mosql_cluster_doubt(batch->redis, group->target);
	if (group->mode == MOSQL_SEND_PINNED || (group->mode == MOSQL_SEND_ONCE && started))
	{
		mosql_group_finish_lost(batch, group, &mosql_reply_lost);
		return;
	}
	for (int i = 0; i < group->ncommands; i++)
		batch->commands[group->first + i].reply = NULL;
	group->refusal = NULL;
	mosql_group_try_again(batch, group, group->attempts <= 1);
}

void
mosql_batch_unreachable(MosqlBatch *batch, MosqlServer *server)
{
	bool		final = mosql_failure_is_final(&server->failure);

	if (server->queue_head < 0)
		return;
	mosql_cluster_doubt(batch->redis, server);
	while (server->queue_head >= 0)
	{
		MosqlGroup *group = &batch->groups[mosql_group_pop(batch, &server->queue_head)];

		group->refusal = NULL;
		if (final || group->mode == MOSQL_SEND_PINNED)
			mosql_group_give_up(batch, group);
		else
			mosql_group_try_again(batch, group, false);
	}
}

bool
mosql_server_is_silent(const MosqlRedis *redis, const MosqlServer *server)
{
	const MosqlConnection *conn = server->conn;

	return conn != NULL && conn->state == MOSQL_READY && conn->under_way > 0 &&
		redis->now_us - Max(conn->used_us, conn->heard_us) >
		MOSQL_SILENCE_US + (int64) redis->blocking_ms * 1000;
}

/*
 * A server that is silent and serves no slot any more was replaced: nobody
 * needs to wait for it to the end of the budget.
 */
void
mosql_batch_reroute(MosqlBatch *batch, bool everything)
{
	MosqlRedis *redis = batch->redis;

	mosql_group_move_all(batch, &batch->unrouted.head, &batch->todo);
	for (int i = 0; everything && i < redis->nservers; i++)
	{
		MosqlServer *server = redis->servers[i];

		mosql_group_move_all(batch, &server->queue_head, &batch->todo);
		if (!server->primary && mosql_server_is_silent(redis, server))
			mosql_connection_close(server->conn, ERRCODE_CONNECTION_FAILURE,
								   "It did not answer, and another server took over.");
	}
}
