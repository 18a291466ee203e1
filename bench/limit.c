/*
 * limit.c: how fast the commit protocol can be without SQL.
 *
 * The TPC-B transaction as its round trips only, on the leaves that pgbench's
 * tables would have: three reads by key (account, teller, branch), prepare of
 * four leaves in parallel (those and history), decide at the clock; then the
 * four applies, and the end of the transaction record, are sent and not waited
 * for.  Increments commute: every transaction has an intent field of its own.
 * What this program reaches is what mosql_fdw could reach if PostgreSQL cost
 * nothing; it loads the Redis servers the same.
 *
 *     limit --nodes 127.0.0.1:7000,... --load                  write the tables
 *     limit --nodes 127.0.0.1:7000,... --clients 4 --seconds 10
 *
 * Prints "clients N tps N latency_us N".
 */
#define _GNU_SOURCE
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLOTS 16384
#define MAX_NODES 64
#define LEAF_ROWS 124
#define FILLER_BYTES 84
#define MAX_ARGS 12

enum { PREPARE, APPLY, DECIDE, SCRIPTS };

static const char *const script_text[SCRIPTS] = {
	/* KEYS: leaf; ARGV: meta (empty: a new leaf), row field, intent field, intent */
	[PREPARE] =
	"local v = redis.call('HMGET', KEYS[1], 'm', ARGV[2])\n"
	"if (v[1] or '') ~= ARGV[1] or (v[2] ~= false) ~= (ARGV[1] ~= '') then return 0 end\n"
	"redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])\n"
	"return redis.call('HLEN', KEYS[1])\n",
	/* KEYS: leaf; ARGV: row field, intent field, increment (empty: insert), timestamp */
	[APPLY] =
	"local v = redis.call('HMGET', KEYS[1], ARGV[1], ARGV[2])\n"
	"if not v[2] then return 0 end\n"
	"local row\n"
	"if ARGV[3] == '' then row = v[2]\n"
	"else row = struct.pack('>i4', struct.unpack('>i4', v[1], 8) + ARGV[3]) .. v[1]:sub(12) end\n"
	"redis.call('HDEL', KEYS[1], ARGV[2])\n"
	"redis.call('HSET', KEYS[1], ARGV[1], struct.pack('>i8', ARGV[4]):sub(2) .. row)\n"
	"return 1\n",
	/* KEYS: clock; ARGV: transaction id, record */
	[DECIDE] =
	"if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end\n"
	"local t = redis.call('TIME')\n"
	"local now, last = t[1] * 1000000 + t[2], tonumber(redis.call('HGET', KEYS[1], 'last') or 0)\n"
	"if now <= last then now = last + 1 end\n"
	"now = string.format('%.0f', now)\n"
	"redis.call('HSET', KEYS[1], 'last', now, ARGV[1], now .. ARGV[2])\n"
	"return now\n",
};

static char node_host[MAX_NODES][64];
static int	node_port[MAX_NODES];
static int	nnodes;
static uint8_t slot_node[SLOTS];
static char script_sha[SCRIPTS][41];
static int	scale = 10;
static volatile bool finished;
static int64_t run;				/* told apart from earlier ones by its start */

static const char meta[] = "generation 1, level 0, low fence, high fence, right";

typedef struct Client
{
	pthread_t	thread;
	int			number;
	redisContext *node[MAX_NODES];
	int			owed[MAX_NODES];	/* replies that nobody has read yet */
	uint64_t	random;
	int64_t		transactions;
	int64_t		retries;
	int64_t		microseconds;
} Client;

/* ---- the cluster ---- */

static void
die(const char *what, const char *detail)
{
	fprintf(stderr, "limit: %s: %s\n", what, detail);
	exit(1);
}

static uint16_t
slot_of(const char *key)
{
	const char *open = strchr(key, '{');
	const char *close = open ? strchr(open, '}') : NULL;
	const char *p = close ? open + 1 : key;
	const char *end = close ? close : key + strlen(key);
	uint16_t	crc = 0;

	for (; p < end; p++)
	{
		crc ^= (uint16_t) ((uint8_t) *p << 8);
		for (int bit = 0; bit < 8; bit++)
			crc = (crc & 0x8000) ? (uint16_t) (crc << 1 ^ 0x1021) : (uint16_t) (crc << 1);
	}
	return crc % SLOTS;
}

static redisContext *
open_node(int i)
{
	redisContext *c = redisConnect(node_host[i], node_port[i]);

	if (c == NULL || c->err)
		die("cannot connect", c ? c->errstr : "out of memory");
	return c;
}

/* Who serves which slots; a plain server serves all. */
static void
learn_nodes(const char *nodes)
{
	redisContext *c;
	redisReply *slots;

	if (sscanf(nodes, "%63[^:]:%d", node_host[0], &node_port[0]) != 2)
		die("not host:port", nodes);
	nnodes = 1;
	c = open_node(0);
	slots = redisCommand(c, "CLUSTER SLOTS");
	if (slots == NULL)
		die("lost connection", c->errstr);
	if (slots->type == REDIS_REPLY_ARRAY)
	{
		nnodes = 0;
		for (size_t i = 0; i < slots->elements; i++)
		{
			redisReply **range = slots->element[i]->element;
			const char *host = range[2]->element[0]->str;
			int			port = (int) range[2]->element[1]->integer;
			int			n;

			for (n = 0; n < nnodes; n++)
				if (node_port[n] == port && strcmp(node_host[n], host) == 0)
					break;
			if (n == nnodes)
			{
				if (nnodes == MAX_NODES)
					die("too many nodes", nodes);
				snprintf(node_host[n], sizeof(node_host[n]), "%s", host);
				node_port[n] = port;
				nnodes++;
			}
			for (long long s = range[0]->integer; s <= range[1]->integer; s++)
				slot_node[s] = (uint8_t) n;
		}
	}
	freeReplyObject(slots);
	redisFree(c);
}

static void
open_client(Client *c)
{
	for (int i = 0; i < nnodes; i++)
		c->node[i] = open_node(i);
	for (int i = 0; i < nnodes; i++)
		for (int s = 0; s < SCRIPTS; s++)
		{
			redisReply *r = redisCommand(c->node[i], "SCRIPT LOAD %s", script_text[s]);

			if (r == NULL || r->type != REDIS_REPLY_STRING)
				die("SCRIPT LOAD", r ? r->str : c->node[i]->errstr);
			if (c->number == 0 && i == 0)
				snprintf(script_sha[s], sizeof(script_sha[s]), "%s", r->str);
			freeReplyObject(r);
		}
}

/* ---- sending and receiving ---- */

typedef struct Arg
{
	const void *data;
	size_t		len;
} Arg;

#define TEXT(s) ((Arg) {(s), strlen(s)})

/* Queue a command for the node that serves key. */
static int
queue(Client *c, const char *key, int n, const Arg *args)
{
	int			node = slot_node[slot_of(key)];
	const char *argv[MAX_ARGS];
	size_t		len[MAX_ARGS];

	for (int i = 0; i < n; i++)
	{
		argv[i] = args[i].data;
		len[i] = args[i].len;
	}
	redisAppendCommandArgv(c->node[node], n, argv, len);
	c->owed[node]++;
	return node;
}

static void
flush_node(Client *c, int node)
{
	int			done = 0;

	while (!done)
		if (redisBufferWrite(c->node[node], &done) == REDIS_ERR)
			die("lost connection", c->node[node]->errstr);
}

static void
flush_all(Client *c)
{
	for (int i = 0; i < nnodes; i++)
		if (c->owed[i] > 0)
			flush_node(c, i);
}

/* Read what a node owes, up to and including the reply to the last command
 * queued there but `later`; returns that one. */
static redisReply *
receive(Client *c, int node, int later)
{
	redisReply *r = NULL;

	while (c->owed[node] > later)
	{
		if (r)
			freeReplyObject(r);
		if (redisGetReply(c->node[node], (void **) &r) != REDIS_OK)
			die("lost connection", c->node[node]->errstr);
		if (r->type == REDIS_REPLY_ERROR)
			die("Redis says", r->str);
		c->owed[node]--;
	}
	return r;
}

/* ---- the tables ---- */

typedef struct Row
{
	char		leaf[64];		/* the key in Redis */
	char		field[6];		/* 'r' and the number, big-endian */
	size_t		field_len;
} Row;

static Row
row_of(char table, uint32_t id)
{
	Row			row;

	snprintf(row.leaf, sizeof(row.leaf), "limit:{%c%u}", table, id / LEAF_ROWS);
	row.field[0] = 'r';
	for (int i = 0; i < 4; i++)
		row.field[1 + i] = (char) (id >> (24 - 8 * i));
	row.field_len = 5;
	return row;
}

static void
load_table(Client *c, char table, uint32_t rows, size_t filler)
{
	char		value[7 + 4 + 8 + FILLER_BYTES];

	memset(value, 0, sizeof(value));
	memset(value + 19, ' ', FILLER_BYTES);
	for (uint32_t id = 0; id < rows; id++)
	{
		Row			row = row_of(table, id);

		if (id % LEAF_ROWS == 0)
			queue(c, row.leaf, 4, (Arg[]) {TEXT("HSET"), TEXT(row.leaf), TEXT("m"), TEXT(meta)});
		queue(c, row.leaf, 4, (Arg[]) {TEXT("HSET"), TEXT(row.leaf),
									   {row.field, row.field_len}, {value, 19 + filler}});
		if (id % 10000 == 9999 || id == rows - 1)
		{
			flush_all(c);
			for (int i = 0; i < nnodes; i++)
			{
				redisReply *r = receive(c, i, 0);

				if (r)
					freeReplyObject(r);
			}
		}
	}
}

/* ---- the transaction ---- */

static uint32_t
draw(Client *c, uint32_t n)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return (uint32_t) (c->random % n);
}

static void
read_row(Client *c, const Row *row)
{
	char		intent[8];
	int			node;
	redisReply *r;

	memcpy(intent, row->field, row->field_len);
	intent[0] = 'i';
	node = queue(c, row->leaf, 5, (Arg[]) {TEXT("HMGET"), TEXT(row->leaf), TEXT("m"),
										   {row->field, row->field_len}, {intent, row->field_len}});
	flush_node(c, node);
	r = receive(c, node, 0);
	if (r->type != REDIS_REPLY_ARRAY || r->element[1]->type != REDIS_REPLY_STRING)
		die("row missing", "load first: --load");
	freeReplyObject(r);
}

static void
transaction(Client *c, int64_t number)
{
	static __thread uint32_t history;
	Row			rows[4] = {
		row_of('a', draw(c, (uint32_t) scale * 100000)),
		row_of('t', draw(c, (uint32_t) scale * 10)),
		row_of('b', draw(c, (uint32_t) scale)),
	};
	char		intents[4][32];
	size_t		intent_len[4];
	char		delta[16];
	char		txid[16];
	char		ts[24];
	char		payload[64];
	bool		prepared = true;
	redisReply *r;
	int			clock;

	/* 1. Read. */
	for (int i = 0; i < 3; i++)
		read_row(c, &rows[i]);

	snprintf(delta, sizeof(delta), "%d", (int) draw(c, 10001) - 5000);
	memset(payload, 'h', sizeof(payload));
	snprintf(rows[3].leaf, sizeof(rows[3].leaf), "limit:{h%llx.%d.%u}",
			 (unsigned long long) run, c->number, history / LEAF_ROWS);
	memcpy(rows[3].field, (char[]) {'r', (char) (history >> 24), (char) (history >> 16),
									(char) (history >> 8), (char) history}, 5);
	rows[3].field_len = 5;
	history++;

	/* 2. Prepare, all leaves at once. */
	snprintf(txid, sizeof(txid), "%04x%09llx", c->number, (unsigned long long) number & 0xfffffffffULL);
	for (int i = 0; i < 4; i++)
	{
		intents[i][0] = 'i';
		memcpy(intents[i] + 1, rows[i].field + 1, rows[i].field_len - 1);
		memcpy(intents[i] + rows[i].field_len, txid, 13);
		intent_len[i] = rows[i].field_len + 13;
		queue(c, rows[i].leaf, 8, (Arg[]) {
			TEXT("EVALSHA"), TEXT(script_sha[PREPARE]), TEXT("1"), TEXT(rows[i].leaf),
			TEXT(i < 3 ? meta : ""), {rows[i].field, rows[i].field_len},
			{intents[i], intent_len[i]}, {payload, i < 3 ? 20 : 50}});
	}
	flush_all(c);
	for (int n = 0; n < nnodes; n++)
		while (c->owed[n] > 0)
		{
			r = receive(c, n, c->owed[n] - 1);
			if (r->type == REDIS_REPLY_INTEGER && r->integer == 0)
				prepared = false;
			freeReplyObject(r);
		}
	if (!prepared)
		c->retries++;

	/* 3. Decide. */
	clock = queue(c, "limit:{clock}", 6, (Arg[]) {
		TEXT("EVALSHA"), TEXT(script_sha[DECIDE]), TEXT("1"), TEXT("limit:{clock}"),
		TEXT(txid), {payload, sizeof(payload)}});
	flush_node(c, clock);
	r = receive(c, clock, 0);
	snprintf(ts, sizeof(ts), "%s", r->str);
	freeReplyObject(r);

	/* 4. Apply and forget. */
	for (int i = 0; i < 4; i++)
		queue(c, rows[i].leaf, 8, (Arg[]) {
			TEXT("EVALSHA"), TEXT(script_sha[APPLY]), TEXT("1"), TEXT(rows[i].leaf),
			{rows[i].field, rows[i].field_len}, {intents[i], intent_len[i]},
			TEXT(i < 3 ? delta : ""), TEXT(ts)});
	queue(c, "limit:{clock}", 3, (Arg[]) {TEXT("HDEL"), TEXT("limit:{clock}"), TEXT(txid)});
	flush_all(c);
}

static int64_t
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static void *
run_client(void *arg)
{
	Client	   *c = arg;
	int64_t		start = now_us();

	while (!finished)
		transaction(c, run + c->transactions++);
	c->microseconds = now_us() - start;
	return NULL;
}

int
main(int argc, char **argv)
{
	const char *nodes = "127.0.0.1:6379";
	int			nclients = 1;
	double		seconds = 5;
	bool		load = false;
	Client	   *clients;
	double		tps = 0;
	int64_t		retries = 0;

	for (int i = 1; i < argc; i++)
	{
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(argv[i], "--load") == 0)
		{
			load = true;
			continue;
		}
		else if (strcmp(argv[i], "--nodes") == 0)
			nodes = value;
		else if (strcmp(argv[i], "--clients") == 0)
			nclients = atoi(value);
		else if (strcmp(argv[i], "--seconds") == 0)
			seconds = atof(value);
		else if (strcmp(argv[i], "--scale") == 0)
			scale = atoi(value);
		else
			die("unknown option", argv[i]);
		i++;
	}
	if (nclients < 1 || seconds <= 0 || scale < 1)
		die("not positive", "--clients, --seconds, --scale");

	run = now_us();
	learn_nodes(nodes);
	clients = calloc((size_t) nclients, sizeof(Client));
	for (int i = 0; i < nclients; i++)
	{
		clients[i].number = i;
		clients[i].random = (uint64_t) now_us() * 2654435761u + (uint64_t) i * 88172645463325252u + 1;
		open_client(&clients[i]);
	}
	if (load)
	{
		load_table(&clients[0], 'a', (uint32_t) scale * 100000, FILLER_BYTES);
		load_table(&clients[0], 't', (uint32_t) scale * 10, 0);
		load_table(&clients[0], 'b', (uint32_t) scale, 0);
		return 0;
	}
	for (int i = 0; i < nclients; i++)
		pthread_create(&clients[i].thread, NULL, run_client, &clients[i]);
	nanosleep(&(struct timespec) {(time_t) seconds, (long) ((seconds - (time_t) seconds) * 1e9)}, NULL);
	finished = true;
	for (int i = 0; i < nclients; i++)
	{
		pthread_join(clients[i].thread, NULL);
		tps += (double) clients[i].transactions * 1e6 / (double) clients[i].microseconds;
		retries += clients[i].retries;
	}
	printf("clients %d tps %.1f latency_us %.1f refused %lld\n", nclients, tps,
		   nclients * 1e6 / tps, (long long) retries);
	return 0;
}
