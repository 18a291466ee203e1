/*
 * run.c: running a batch: routing, pipelining, redirections, repetitions.
 *
 * Layer: redis.  The way of a group:
 *
 *                    ┌──────────── the map is new ────────────┐
 *                    v                                        │
 *     todo ──route──> queue of its server ──fill──> SENT ──> DONE
 *      ^  └─no map─> unrouted                        │
 *      ├──────────────── MOVED, ASK ─────────────────┤
 *      └── paused <──── TRYAGAIN, LOADING, no connection ... when the budget
 *                                                    is spent: FAILED
 *
 * The main loop does whatever is possible without waiting, then waits for all
 * servers at once.  It ends when each group is DONE or FAILED; only then are
 * errors raised, so that no reply of the batch is left under way, except after
 * a cancel request.
 */
#include "redis/redis_int.h"

#include "base/stats.h"

/*
 * ---------------------------------------------------------------------------
 * Sending
 * ---------------------------------------------------------------------------
 */

/*
 * Append all commands of a group.  ASKING holds for the next command, or, if
 * that is MULTI, for the whole transaction.  If memory runs out in between the
 * connection stays marked as torn: a MULTI without its EXEC would swallow
 * whatever comes next.
 */
static void
send_group(MosqlBatch *batch, MosqlConnection *conn, MosqlGroup *group)
{
	static const MosqlBytes asking[1] = {{"ASKING", 6}};
	static const MosqlPending nobody = {.kind = MOSQL_PENDING_NOBODY};
	MosqlPending pending = {.kind = MOSQL_PENDING_BATCH, .owner = batch->id,
	.group = group - batch->groups};
	bool		in_multi = false;

	conn->torn = true;
	group->start = conn->queued_bytes;
	group->serial = conn->serial;
	group->refusal = NULL;
	for (int i = 0; i < group->ncommands; i++)
	{
		const MosqlCommand *command = &batch->commands[group->first + i];

		if (group->asking)
		{
			if (!in_multi)
				mosql_connection_append(conn, 1, asking, &nobody);
			in_multi = (in_multi || mosql_command_is(command, "MULTI")) && !mosql_command_is(command, "EXEC");
		}
		pending.command = i;
		mosql_connection_append(conn, command->argc, command->argv, &pending);
	}
	conn->torn = false;
	group->asking = false;
	if (group->attempts++ > 0)
		batch->trip_counted = false;
	group->missing = group->ncommands;
	group->state = MOSQL_GROUP_SENT;
	batch->sent++;
}

/* Is there room in the window?  A group larger than it goes alone. */
static bool
has_room(const MosqlConnection *conn, const MosqlGroup *group)
{
	return conn->under_way == 0 || mosql_connection_has_room(conn, group->ncommands);
}

/* An open connection to the server, READY or not; NULL if there is none. */
static MosqlConnection *
connected(MosqlRedis *redis, MosqlServer *server)
{
	if (server->conn != NULL && server->conn->state == MOSQL_READY &&
		!mosql_connection_check_idle(server->conn))
		Assert(server->conn == NULL);
	if (server->conn == NULL)
		(void) mosql_connection_open(server, redis);
	return server->conn;
}

/*
 * Send from a server's queue what the window takes.  The window is refilled
 * only when half of it is free, so that commands leave in large writes.  One
 * WAIT behind them is for all durable groups among them.  (If memory for it runs
 * out the batch ends in an error, with those groups ANSWERED at most.)
 */
static void
fill(MosqlBatch *batch, MosqlServer *server)
{
	MosqlConnection *conn = connected(batch->redis, server);
	MosqlPending wait = {.kind = MOSQL_PENDING_WAIT};
	bool		durable = false;

	if (conn == NULL)
	{
		mosql_batch_unreachable(batch, server);
		return;
	}
	if (conn->state != MOSQL_READY || conn->under_way > MOSQL_PIPELINE_MAX_COMMANDS / 2)
		return;
	if (mosql_redis_is_fenced_off(batch->redis))
	{
		mosql_group_give_up_all(batch, &server->queue_head);
		return;
	}
	wait.owner = batch->id;
	while (server->queue_head >= 0 && has_room(conn, &batch->groups[server->queue_head]))
	{
		MosqlGroup *group = &batch->groups[mosql_group_pop(batch, &server->queue_head)];

		if (group->pin != 0 && group->pin != conn->serial)
		{
			mosql_group_give_up(batch, group);
			continue;
		}
		send_group(batch, conn, group);
		durable |= group->durable;
	}
	if (durable && mosql_connection_waits(conn))
		mosql_connection_append_wait(conn, &wait);
	(void) mosql_connection_flush(conn);
}

/* The server whose present connection has this number, or NULL. */
static MosqlServer *
find_pinned(MosqlRedis *redis, uint64 serial)
{
	for (int i = 0; i < redis->nservers; i++)
	{
		MosqlConnection *conn = redis->servers[i]->conn;

		if (conn != NULL && conn->serial == serial)
			return redis->servers[i];
	}
	return NULL;
}

static void
route(MosqlBatch *batch, MosqlGroup *group)
{
	MosqlRedis *redis = batch->redis;
	MosqlServer *server;

	if (group->pin != 0)
		server = find_pinned(redis, group->pin);
	else if (group->fixed != NULL)
		server = group->fixed;
	else if (group->asking)
		server = group->target;
	else
		server = mosql_cluster_route(redis, group->slot);

	if (server != NULL)
	{
		group->target = server;
		mosql_group_enqueue(batch, &server->queue_head, &server->queue_tail, group - batch->groups);
	}
	else if (group->pin != 0)
		mosql_group_give_up(batch, group);
	else if (redis->topology == MOSQL_TOPOLOGY_UNKNOWN)
		mosql_group_push(batch, &batch->unrouted, group);
	else
	{
		/* nobody serves this slot; that may change, and others may know more */
		mosql_cluster_doubt(redis, redis->told_by);
		group->target = NULL;
		mosql_group_try_again(batch, group, false);
	}
}

/* Nobody could be asked for the map in this round. */
static void
no_map(MosqlBatch *batch)
{
	if (batch->redis->topology != MOSQL_TOPOLOGY_UNKNOWN)
	{
		batch->redis->map_stale = false;	/* until it is doubted again */
		return;
	}
	mosql_group_move_all(batch, &batch->unrouted.head, &batch->todo);
	if (batch->redis->ask_fatal)
		mosql_group_give_up_all(batch, &batch->todo.head);
	else
		mosql_group_move_all(batch, &batch->todo.head, &batch->paused);
}

/* Do all that can be done without waiting. */
static void
dispatch(MosqlBatch *batch)
{
	MosqlRedis *redis = batch->redis;

	while (batch->todo.head >= 0)
		route(batch, &batch->groups[mosql_group_pop(batch, &batch->todo.head)]);
	if (batch->unrouted.head >= 0 ||
		(redis->map_stale && redis->topology == MOSQL_TOPOLOGY_CLUSTER))
	{
		if (redis->ask_fatal || !mosql_cluster_ask(redis))
			no_map(batch);
	}
	for (int i = 0; i < redis->nservers; i++)
		if (redis->servers[i]->queue_head >= 0)
			fill(batch, redis->servers[i]);
}

/*
 * ---------------------------------------------------------------------------
 * The main loop
 * ---------------------------------------------------------------------------
 */

/*
 * Will a wait for sockets bring this batch forward?  Groups that pause had
 * better wait for the new map, too, if it is being asked for.
 */
static bool
is_under_way(const MosqlBatch *batch)
{
	const MosqlRedis *redis = batch->redis;

	if (batch->sent > 0 || redis->asked != NULL)
		return true;
	for (int i = 0; i < redis->nservers; i++)
		if (redis->servers[i]->queue_head >= 0)
			return true;
	return false;
}

/*
 * Time is up.  A connection that owes us replies is in an unknown state:
 * close it.  What was not sent has failed.
 */
static void
expire(MosqlBatch *batch)
{
	MosqlRedis *redis = batch->redis;

	batch->expired = true;
	for (int i = 0; i < batch->ngroups; i++)
	{
		MosqlGroup *group = &batch->groups[i];

		if (group->state == MOSQL_GROUP_SENT || group->state == MOSQL_GROUP_ANSWERED)
			mosql_connection_close(group->target->conn, ERRCODE_CONNECTION_FAILURE,
								   "It did not answer in time.");
	}
	for (int i = 0; i < redis->nservers; i++)
	{
		MosqlServer *server = redis->servers[i];

		if (server->queue_head >= 0 && server->conn != NULL)
			mosql_connection_close(server->conn,
								   MOSQL_COULD_NOT_CONNECT,
								   "It did not answer in time.");
		mosql_group_give_up_all(batch, &server->queue_head);
	}
	mosql_group_give_up_all(batch, &batch->todo.head);
	mosql_group_give_up_all(batch, &batch->unrouted.head);
	mosql_group_give_up_all(batch, &batch->paused.head);
	Assert(batch->unfinished == 0);
}

/*
 * Is it worth while to try again?  An attempt that has no time to be answered
 * would turn "surely not executed" into "unknown".
 */
static bool
has_time(const MosqlBudget *budget)
{
	return mosql_now_us() + MOSQL_LAST_ATTEMPT_US < budget->deadline_us;
}

static void
end_pause(MosqlBatch *batch)
{
	batch->resume_us = 0;
	mosql_group_move_all(batch, &batch->paused.head, &batch->todo);
}

/* Every now and then: is somebody silent?  Then others may know why. */
static void
listen_for_silence(MosqlBatch *batch)
{
	MosqlRedis *redis = batch->redis;

	if (redis->now_us < batch->listen_us)
		return;
	batch->listen_us = redis->now_us + MOSQL_SILENCE_US;
	for (int i = 0; i < redis->nservers; i++)
		if (mosql_server_is_silent(redis, redis->servers[i]))
			mosql_cluster_doubt(redis, redis->servers[i]);
}

static void (*beat) (void) = NULL;
static int64 beat_due_us = PG_INT64_MAX;

void
mosql_redis_set_beat(void (*function) (void), int64 due_us)
{
	beat = function;
	beat_due_us = due_us;
}

/*
 * Wait for replies.  Groups that pause do not wait for a server that hangs:
 * their pause ends after a while even so.
 */
static void
wait_for_replies(MosqlBatch *batch, const MosqlBudget *budget)
{
	MosqlRedis *redis = batch->redis;
	int64		until = budget->deadline_us;
	bool		pausing = batch->paused.head >= 0 && has_time(budget);

	if (batch->sent > 0 && !batch->trip_counted)
	{
		mosql_stats.round_trips++;
		batch->trip_counted = true;
	}
	if (pausing && batch->resume_us == 0)
		batch->resume_us = mosql_now_us() + MOSQL_RETRY_MAX_US;
	if (pausing)
		until = Min(until, batch->resume_us);

	if (!mosql_redis_pump(redis, until, true) && until == budget->deadline_us)
		expire(batch);
	else if (pausing && redis->now_us >= batch->resume_us)
		end_pause(batch);
	listen_for_silence(batch);
	if (redis->now_us >= beat_due_us)
		beat();
}

/* See redis.h. */
bool
mosql_redis_await(MosqlRedis *redis, const int *awaited)
{
	int64		deadline_us = mosql_redis_timeout_us(redis);
	int64		heard_us = mosql_now_us();

	Assert(redis->running == NULL);
	mosql_stats.round_trips += *awaited > 0;
	while (*awaited > 0)
	{
		int64		received = mosql_stats.bytes_received;

		if (!mosql_redis_pump(redis, Min(deadline_us, heard_us + MOSQL_DETACHED_WAIT_US), true) && *awaited > 0)
			return false;
		if (mosql_stats.bytes_received != received)
			heard_us = redis->now_us;
		if (redis->now_us >= beat_due_us)
			beat();
	}
	return true;
}

static void
run(MosqlBatch *batch, MosqlBudget *budget)
{
	while (batch->unfinished > 0)
	{
		dispatch(batch);
		if (batch->todo.head >= 0 || batch->unfinished == 0)
			continue;
		if (is_under_way(batch))
			wait_for_replies(batch, budget);
		else if (mosql_budget_pause(budget) && has_time(budget))
			end_pause(batch);
		else
			expire(batch);
	}
}

/* Why the batch failed, for the user. */
static void
raise_failure(const MosqlBatch *batch)
{
	const MosqlGroup *group = &batch->groups[batch->failed_group];

	if (batch->shortfall != NULL)
		mosql_redis_raise_short(batch->redis, batch->shortfall);
	if (mosql_redis_is_fenced_off(batch->redis))
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("a connection to Redis broke in the middle of something that has several steps"),
				 errhint("Try again.")));
	if (batch->redis->topology == MOSQL_TOPOLOGY_UNKNOWN && batch->redis->ask_fatal)
		mosql_cluster_raise(batch->redis);
	if (group->refusal != NULL)
		mosql_error_raise_reply(group->refusal->server, group->refusal->str, NULL);
	if (group->target != NULL)
		mosql_error_raise_failure(group->target, &group->target->failure);
	if (batch->redis->topology == MOSQL_TOPOLOGY_UNKNOWN)
		mosql_cluster_raise(batch->redis);
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("no Redis server serves hash slot %d", group->slot),
			 errhint("The cluster is incomplete; see redis-cli --cluster check.")));
}

/* Everything to its start; queues may be left over from a batch given up. */
static void
prepare_run(MosqlBatch *batch)
{
	MosqlRedis *redis = batch->redis;

	for (int i = 0; i < redis->nservers; i++)
		redis->servers[i]->queue_head = -1;
	redis->now_us = mosql_now_us();
	batch->listen_us = redis->now_us + MOSQL_SILENCE_US;
	redis->ask_failures = 0;
	redis->ask_fatal = redis->redirected = false;
	redis->corked = false;
	batch->unrouted.head = batch->paused.head = batch->todo.head = -1;
	for (int i = 0; i < batch->ngroups; i++)
		mosql_group_push(batch, &batch->todo, &batch->groups[i]);
	batch->unfinished = batch->ngroups;
	redis->running = batch;
}

/* The batch ends here, whether well or not. */
static void
end_run(MosqlRedis *redis)
{
	redis->running = NULL;
	for (int i = 0; i < redis->nservers; i++)
	{
		MosqlServer *server = redis->servers[i];

		server->queue_head = -1;
		if (server->conn != NULL && server->conn->torn)
			mosql_connection_close(server->conn, ERRCODE_OUT_OF_MEMORY, "Out of memory.");
	}
}

/* Whatever happens, the connections are left in a known state. */
static void
run_guarded(MosqlBatch *batch, MosqlBudget *budget)
{
	prepare_run(batch);
	PG_TRY();
	{
		run(batch, budget);
	}
	PG_FINALLY();
	{
		end_run(batch->redis);
	}
	PG_END_TRY();
}

void
mosql_batch_run(MosqlBatch *batch, MosqlBudget *budget)
{
	MosqlBudget own = budget != NULL ? *budget : mosql_budget_start(batch->redis->command_timeout_ms);

	Assert(batch->redis != NULL && batch->redis->running == NULL && !batch->ran);
	batch->ran = true;
	if (batch->redis->hurry_us != 0)
		own.deadline_us = Min(own.deadline_us, batch->redis->hurry_us);
	run_guarded(batch, &own);
	if (budget != NULL)
		budget->attempts = own.attempts;
	Assert(batch->unfinished == 0 && batch->sent == 0);
	if (batch->raise != NULL)
		mosql_error_raise_reply(batch->raise->server, batch->raise->str, NULL);
	if (batch->failed_group >= 0)
		raise_failure(batch);
}
