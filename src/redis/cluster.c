/*
 * cluster.c: which server has which slot.
 *
 * Layer: redis.  The map comes from CLUSTER SLOTS of any server; a server that
 * has cluster support disabled makes it a plain one, which has all slots.
 *
 * Nobody waits for the map unless it is unknown: when somebody is redirected,
 * the map is asked for by the way, and single slots are corrected at once from
 * the redirections.  At most one request counts at a time; its number is
 * redis->ask_number, and replies to older ones are ignored.
 */
#include "redis/redis_int.h"

#include <poll.h>

/* Servers listed are few; a cluster has at most 1000 nodes. */
#define SERVERS_MAX 16384

static void
add_server(MosqlRedis *redis, MosqlServer *server)
{
	if (redis->nservers >= SERVERS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("more than %d Redis servers", SERVERS_MAX)));
	if (redis->nservers == redis->servers_size)
	{
		int			size = 2 * redis->servers_size;

		redis->servers = repalloc(redis->servers, size * sizeof(MosqlServer *));
		redis->polls = repalloc(redis->polls, size * sizeof(struct pollfd));
		redis->polled = repalloc(redis->polled, size * sizeof(MosqlServer *));
		redis->servers_size = size;
	}
	server->index = redis->nservers;
	redis->servers[redis->nservers++] = server;
}

MosqlServer *
mosql_cluster_server(MosqlRedis *redis, const char *host, int host_len, int port)
{
	MosqlServer *server;
	MemoryContext old;

	for (int i = 0; i < redis->nservers; i++)
	{
		server = redis->servers[i];
		if (server->port == port && strncmp(server->host, host, host_len) == 0 &&
			server->host[host_len] == '\0')
			return server;
	}

	old = MemoryContextSwitchTo(redis->cxt);
	server = palloc0(sizeof(MosqlServer));
	server->host = pnstrdup(host, host_len);
	server->port = port;
	server->address = port == 0 ? server->host :
		psprintf(strchr(server->host, ':') ? "[%s]:%d" : "%s:%d", server->host, port);
	server->queue_head = server->queue_tail = -1;
	add_server(redis, server);
	MemoryContextSwitchTo(old);
	return server;
}

/*
 * ---------------------------------------------------------------------------
 * Asking
 * ---------------------------------------------------------------------------
 */

/* The server asked did not answer usefully: the next one, please. */
static void
ask_failed(MosqlRedis *redis, MosqlServer *server, int sqlstate, const char *why)
{
	redis->asked = NULL;
	redis->ask_number++;
	redis->ask_failures++;
	redis->ask_next = server->index + 1;
	redis->ask_failure_server = server;
	mosql_failure_set(&redis->ask_failure, sqlstate, why);
	if (mosql_failure_is_final(&redis->ask_failure))
		redis->ask_fatal = true;
	if (redis->running != NULL)
		mosql_batch_reroute(redis->running, false);
}

/*
 * Which server to ask next: all in turn, but while the servers that serve
 * slots are known, the others (old addresses, replicas) only if configured.
 */
static MosqlServer *
next_to_ask(MosqlRedis *redis)
{
	for (int i = 0; i < redis->nservers; i++)
	{
		MosqlServer *server = redis->servers[(redis->ask_next + i) % redis->nservers];

		if (server->primary || server->index < redis->nseeds)
			return server;
	}
	return redis->servers[0];
}

/* A round asks as many servers as might know. */
static int
round_length(const MosqlRedis *redis)
{
	int			n = 0;

	for (int i = 0; i < redis->nservers; i++)
		n += redis->servers[i]->primary || i < redis->nseeds;
	return n;
}

/* A server that takes the question and does not answer is given up after a
 * while; the answer, should it still come, is ignored. */
static bool
still_asking(MosqlRedis *redis)
{
	if (redis->asked == NULL)
		return false;
	if (mosql_now_us() < redis->ask_deadline_us)
		return true;
	ask_failed(redis, redis->asked, ERRCODE_CONNECTION_FAILURE,
			   "The server did not answer CLUSTER SLOTS in time.");
	return false;
}

bool
mosql_cluster_ask(MosqlRedis *redis)
{
	if (still_asking(redis))
		return true;
	while (redis->ask_failures < round_length(redis))
	{
		MosqlServer *server = next_to_ask(redis);
		MosqlConnection *conn = server->conn;

		if (conn == NULL)
			conn = mosql_connection_open(server, redis);
		if (conn == NULL)
		{
			ask_failed(redis, server, server->failure.sqlstate, server->failure.text);
			continue;
		}
		redis->asked = server;
		redis->ask_number++;
		redis->ask_deadline_us = mosql_now_us() + (int64) redis->connect_timeout_ms * 1000;
		if (conn->state == MOSQL_READY)
			mosql_connection_ask_map(conn);
		else
			conn->wants_map = true;
		return true;
	}
	redis->ask_failures = 0;	/* the next call begins a new round */
	return false;
}

/*
 * ---------------------------------------------------------------------------
 * The answer
 * ---------------------------------------------------------------------------
 */

static bool
text_is(const MosqlReply *reply, const char *text)
{
	return reply->kind == MOSQL_REPLY_STRING && strcmp(reply->str.data, text) == 0;
}

/*
 * The server of an entry [host, port, id, metadata].  No host, or an empty
 * one: the host that was asked.  "?": unknown name, the metadata may have the
 * IP address.  NULL if the entry is malformed.
 */
static MosqlServer *
server_of_entry(MosqlRedis *redis, const MosqlServer *asked, const MosqlReply *entry)
{
	const MosqlReply *host;

	if (entry->kind != MOSQL_REPLY_ARRAY || entry->n < 2 ||
		entry->elem[1]->kind != MOSQL_REPLY_INTEGER ||
		entry->elem[1]->integer < 1 || entry->elem[1]->integer > 65535)
		return NULL;
	host = entry->elem[0];
	if (text_is(host, "?") && entry->n >= 4 && entry->elem[3]->kind == MOSQL_REPLY_ARRAY)
	{
		const MosqlReply *meta = entry->elem[3];

		for (int i = 0; i + 1 < meta->n; i += 2)
			if (text_is(meta->elem[i], "ip"))
				host = meta->elem[i + 1];
	}
	if (host->kind == MOSQL_REPLY_NIL || text_is(host, "") || text_is(host, "?"))
		return mosql_cluster_server(redis, asked->host, strlen(asked->host),
									entry->elem[1]->integer);
	if (host->kind != MOSQL_REPLY_STRING || !mosql_nodes_is_host(host->str.data, host->str.len))
		return NULL;
	return mosql_cluster_server(redis, host->str.data, host->str.len, entry->elem[1]->integer);
}

/* What a map says: by slot the server's index, -1 where none is; who serves any. */
typedef struct Map
{
	int16		slots[MOSQL_SLOTS];
	bool		primary[SERVERS_MAX];
} Map;

/* One range [first, last, primary, replica ...]; false if malformed. */
static bool
read_range(MosqlRedis *redis, const MosqlServer *asked, const MosqlReply *range, Map *map)
{
	MosqlServer *server;
	int64		first,
				last;
	int16		index;

	if (range->kind != MOSQL_REPLY_ARRAY || range->n < 3 ||
		range->elem[0]->kind != MOSQL_REPLY_INTEGER ||
		range->elem[1]->kind != MOSQL_REPLY_INTEGER ||
		range->elem[0]->integer < 0 || range->elem[1]->integer >= MOSQL_SLOTS)
		return false;
	server = server_of_entry(redis, asked, range->elem[2]);
	if (server == NULL)
		return false;
	first = range->elem[0]->integer;
	last = range->elem[1]->integer;
	index = server->index;
	for (int64 slot = first; slot <= last; slot++)
		map->slots[slot] = index;
	map->primary[index] |= first <= last;
	return true;
}

/*
 * Race -- a server may be replaced without a word on our connection to it, which is idle: what it
 * answered may be forgotten as if that had broken, and nobody asks it again (rule 34).
 */
static void
make_primary(MosqlRedis *redis, MosqlServer *server, bool primary)
{
	redis->breaks += server->primary && !primary && server->conn != NULL && server->conn->heard;
	server->primary = primary;
}

/*
 * Take over a new map.  It is built beside the old one: a malformed answer changes nothing, nor
 * does one without a slot, of a node that was taken out of the cluster, or is not in it yet.
 */
static bool
read_map(MosqlRedis *redis, const MosqlServer *asked, const MosqlReply *reply)
{
	Map			map = {0};

	memset(map.slots, 0xFF, sizeof(map.slots));
	if (reply->kind != MOSQL_REPLY_ARRAY || reply->n == 0 || reply->n > MOSQL_SLOTS)
		return false;
	for (int i = 0; i < reply->n; i++)
		if (!read_range(redis, asked, reply->elem[i], &map))
			return false;

	memcpy(redis->map, map.slots, sizeof(map.slots));
	for (int i = 0; i < redis->nservers; i++)
		make_primary(redis, redis->servers[i], map.primary[i]);
	return true;
}

/*
 * It has no cluster mode: then it is the only server.  Not where a cluster is known: there, it has
 * come to an address that a node had.
 */
static void
answered_plain(MosqlRedis *redis, MosqlServer *server)
{
	if (redis->topology == MOSQL_TOPOLOGY_CLUSTER)
	{
		ask_failed(redis, server, MOSQL_COULD_NOT_CONNECT, "The server has cluster support disabled.");
		return;
	}
	if (redis->nseeds > 1 || redis->redirected)
	{
		redis->ask_fatal = true;
		ask_failed(redis, server, MOSQL_COULD_NOT_CONNECT, redis->redirected ?
				   "A node of a cluster needs the command CLUSTER SLOTS, under this name." :
				   "The server has cluster support disabled, but several servers are listed.");
		return;
	}
	redis->topology = MOSQL_TOPOLOGY_PLAIN;
	for (int slot = 0; slot < MOSQL_SLOTS; slot++)
		redis->map[slot] = server->index;
	for (int i = 0; i < redis->nservers; i++)
		redis->servers[i]->primary = redis->servers[i] == server;
}

static bool
means_plain(const MosqlReply *reply)
{
	return strstr(reply->str.data, "cluster support disabled") != NULL ||
		strncmp(reply->str.data, "ERR unknown command", 19) == 0;
}

void
mosql_cluster_answer(MosqlRedis *redis, MosqlServer *server, const MosqlReply *reply)
{
	Assert(redis->asked == server);
	if (reply == NULL)
	{
		ask_failed(redis, server, server->failure.sqlstate, server->failure.text);
		return;
	}
	if (reply->kind == MOSQL_REPLY_ERROR && means_plain(reply))
		answered_plain(redis, server);
	else if (reply->kind == MOSQL_REPLY_ERROR)
	{
		int			sqlstate = mosql_error_sqlstate(reply->str);
		char		text[sizeof(redis->ask_failure.text)];

		ask_failed(redis, server, sqlstate == ERRCODE_FDW_ERROR ? ERRCODE_CONNECTION_FAILURE : sqlstate,
				   mosql_error_text(text, sizeof(text), reply->str));
	}
	else if (server->port == 0)
	{
		redis->ask_fatal = true;
		ask_failed(redis, server, MOSQL_COULD_NOT_CONNECT,
				   "It is a node of a cluster, which is to be listed by host and port.");
	}
	else if (read_map(redis, server, reply))
	{
		redis->topology = MOSQL_TOPOLOGY_CLUSTER;
		redis->redirected = false;
	}
	else if (reply->kind == MOSQL_REPLY_ARRAY && reply->n == 0)
		ask_failed(redis, server, MOSQL_COULD_NOT_CONNECT,
				   "It is in cluster mode, and knows of no server that has hash slots.");
	else
		ask_failed(redis, server, ERRCODE_CONNECTION_FAILURE,
				   "The reply to CLUSTER SLOTS is malformed.");

	if (redis->asked != NULL)	/* it went well */
	{
		redis->asked = NULL;
		redis->ask_number++;
		redis->told_by = server;
		redis->ask_failures = 0;
		redis->ask_fatal = false;
		redis->map_stale = false;
		if (redis->running != NULL)
			mosql_batch_reroute(redis->running, true);
	}
}

/* What was a plain server is a node now: then all is to be asked anew. */
void
mosql_cluster_moved(MosqlRedis *redis, uint16 slot, MosqlServer *server)
{
	if (redis->topology == MOSQL_TOPOLOGY_CLUSTER)
		redis->map[slot] = server->index;
	else
	{
		redis->redirected = true;
		redis->topology = MOSQL_TOPOLOGY_UNKNOWN;
	}
	server->primary = true;
	if (!redis->map_stale && redis->asked == NULL)
		redis->ask_next = server->index;	/* it knows better */
	redis->map_stale = true;
}

void
mosql_cluster_doubt(MosqlRedis *redis, const MosqlServer *server)
{
	if (!redis->map_stale && redis->asked == NULL)
		redis->ask_next = server->index + 1;
	redis->map_stale = true;
}

MosqlServer *
mosql_cluster_route(MosqlRedis *redis, uint16 slot)
{
	if (redis->topology == MOSQL_TOPOLOGY_UNKNOWN || redis->map[slot] < 0)
		return NULL;
	return redis->servers[redis->map[slot]];
}

void
mosql_cluster_raise(MosqlRedis *redis)
{
	if (redis->asked != NULL)
	{
		redis->ask_failure_server = redis->asked;
		mosql_failure_set(&redis->ask_failure,
						  MOSQL_COULD_NOT_CONNECT,
						  "It did not answer in time.");
	}
	mosql_error_raise_failure(redis->ask_failure_server, &redis->ask_failure);
}

void
mosql_cluster_need_map(MosqlRedis *redis)
{
	MosqlBudget budget;

	if (redis->topology != MOSQL_TOPOLOGY_UNKNOWN)
		return;
	budget = mosql_budget_start(redis->command_timeout_ms);
	if (redis->hurry_us != 0)
		budget.deadline_us = Min(budget.deadline_us, redis->hurry_us);
	redis->ask_failures = 0;
	redis->ask_fatal = redis->redirected = false;
	while (redis->topology == MOSQL_TOPOLOGY_UNKNOWN)
	{
		bool		going_on;

		if (mosql_cluster_ask(redis))
			going_on = mosql_redis_pump(redis, budget.deadline_us, true);
		else
			going_on = !redis->ask_fatal && mosql_budget_pause(&budget);
		if (redis->topology == MOSQL_TOPOLOGY_UNKNOWN && (redis->ask_fatal || !going_on))
			mosql_cluster_raise(redis);
	}
}
