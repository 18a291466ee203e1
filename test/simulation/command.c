/*
 * command.c: the commands of a Redis server, as far as the product uses them.
 */
#include "sim.h"

#include <math.h>
#include <stdlib.h>

#include "redis/redis.h"

#define IS(i, text) (argv[i].len == strlen(text) && pg_strncasecmp(argv[i].data, text, argv[i].len) == 0)

typedef struct Call
{
	SimClient  *client;
	SimShard   *shard;
	int			argc;
	const MosqlBytes *argv;
	SimAnswer  *to;
	bool		failed;
} Call;

static MosqlBytes
text_of(const char *text)
{
	return mosql_bytes(text, strlen(text));
}

static bool
refuse(Call *call, const char *why)
{
	call->to->error(call->to, why);
	call->failed = true;
	return false;
}

/* The key of a command if it has that type (or is not there); else WRONGTYPE. */
static bool
key_of(Call *call, char type, bool create, SimKey **key)
{
	*key = sim_key(call->shard, call->argv[1], create);
	if (*key != NULL && (*key)->n > 0 && (*key)->type != type)
		return refuse(call, "WRONGTYPE Operation against a key holding the wrong kind of value");
	return true;
}

static void
put(Call *call, SimKey *key, char type, MosqlBytes field, MosqlBytes value)
{
	sim_put(call->shard, key, type, field, value);
	call->client->wrote = call->shard->position;
	call->client->script_wrote = true;
}

static void
say_bulk(Call *call, MosqlBytes value)
{
	call->to->bulk(call->to, value);
}

static void
say_number(Call *call, int64 n)
{
	call->to->integer(call->to, n);
}

/* A number as text; at: what is behind the place for it. */
static MosqlBytes
digits_of(int64 n, char *at)
{
	const char *end = at;
	uint64		left = n < 0 ? -(uint64) n : (uint64) n;

	do
		*--at = (char) ('0' + left % 10);
	while ((left /= 10) > 0);
	if (n < 0)
		*--at = '-';
	return mosql_bytes(at, end - at);
}

#define DIGITS(n)	digits_of(n, (char[32]) {0} + 32)

/* ---- hashes ---- */

static void
hash_set(Call *call)
{
	SimKey	   *key;
	int			added = 0;

	if (call->argc < 4 || call->argc % 2 != 0)
	{
		refuse(call, "ERR wrong number of arguments for 'hset' command");
		return;
	}
	if (!key_of(call, 'h', true, &key))
		return;
	for (int i = 2; i < call->argc; i += 2)
	{
		added += sim_get(key, call->argv[i]).data == NULL;
		put(call, key, 'h', call->argv[i],
			mosql_bytes(call->argv[i + 1].len > 0 ? call->argv[i + 1].data : "", call->argv[i + 1].len));
	}
	say_number(call, added);
}

static void
hash_setnx(Call *call)
{
	SimKey	   *key;

	if (!key_of(call, 'h', true, &key))
		return;
	if (sim_get(key, call->argv[2]).data != NULL)
		say_number(call, 0);
	else
	{
		put(call, key, 'h', call->argv[2], call->argv[3]);
		say_number(call, 1);
	}
}

static void
field_remove(Call *call, char type)
{
	SimKey	   *key;
	int			n = 0;

	if (!key_of(call, type, false, &key))
		return;
	for (int i = 2; key != NULL && i < call->argc; i++)
		if (sim_get(key, call->argv[i]).data != NULL)
		{
			put(call, key, type, call->argv[i], MOSQL_ABSENT);
			n++;
		}
	say_number(call, n);
}

static void
hash_get(Call *call)
{
	SimKey	   *key;

	if (key_of(call, 'h', false, &key))
		say_bulk(call, sim_get(key, call->argv[2]));
}

static void
hash_mget(Call *call)
{
	SimKey	   *key;

	if (!key_of(call, 'h', false, &key))
		return;
	call->to->array(call->to, call->argc - 2);
	for (int i = 2; i < call->argc; i++)
		say_bulk(call, sim_get(key, call->argv[i]));
}

static void
hash_all(Call *call, bool names, bool values)
{
	SimKey	   *key;
	int			n;

	if (!key_of(call, 'h', false, &key))
		return;
	n = key != NULL ? key->n : 0;
	call->to->array(call->to, n * (names + values));
	for (int i = 0; i < n; i++)
	{
		if (names)
			say_bulk(call, key->fields[i].name);
		if (values)
			say_bulk(call, key->fields[i].value);
	}
}

static void
hash_add(Call *call)
{
	SimKey	   *key;
	MosqlBytes	old;
	int64		sum;

	if (!key_of(call, 'h', true, &key))
		return;
	old = sim_get(key, call->argv[2]);
	sum = (old.data ? strtoll(old.data, NULL, 10) : 0) + strtoll(call->argv[3].data, NULL, 10);
	put(call, key, 'h', call->argv[2], DIGITS(sum));
	if (call->argv[2].len == 3 && memcmp(call->argv[2].data, "sid", 3) == 0 && !call->shard->isolated)
		sim_session_drawn((uint64) sum);
	say_number(call, sum);
}

/* ---- sorted sets ---- */

static double
score_of(const SimField *field)
{
	double		score;

	memcpy(&score, field->value.data, sizeof(score));
	return score;
}

static void
sorted_add(Call *call)
{
	const MosqlBytes *argv = call->argv;
	SimKey	   *key;
	bool		only_new = false,
				only_old = false;
	int			at = 2;
	int			n = 0;

	for (; at < call->argc && (IS(at, "NX") || IS(at, "XX")); at++)
	{
		only_new |= IS(at, "NX");
		only_old |= IS(at, "XX");
	}
	if (!key_of(call, 'z', true, &key))
		return;
	for (; at + 1 < call->argc; at += 2)
	{
		double		score = strtod(argv[at].data, NULL);
		bool		there = sim_get(key, argv[at + 1]).data != NULL;

		if (there ? only_new : only_old)
			continue;
		put(call, key, 'z', argv[at + 1], mosql_bytes(&score, sizeof(score)));
		n += !there;
	}
	say_number(call, n);
}

static int
compare_scores(const void *a, const void *b)
{
	const SimField *x = a,
			   *y = b;
	double		p = score_of(x),
				q = score_of(y);

	return p != q ? (p < q ? -1 : 1) : mosql_bytes_compare(x->name, y->name);
}

static void
say_score(Call *call, double score)
{
	char		text[40];

	if (fabs(score) < 9e15 && score == (double) (int64) score)
	{
		say_bulk(call, DIGITS((int64) score));
		return;
	}
	snprintf(text, sizeof(text), "%.17g", score);
	say_bulk(call, text_of(text));
}

static void
say_members(Call *call, const SimField *fields, int n, bool scores)
{
	call->to->array(call->to, n * (1 + scores));
	for (int i = 0; i < n; i++)
	{
		say_bulk(call, fields[i].name);
		if (scores)
			say_score(call, score_of(&fields[i]));
	}
}

/* "(5", "-inf", "7": is the score beyond it? */
static bool
is_within(double score, MosqlBytes low, MosqlBytes high)
{
	bool		open_low = low.data[0] == '(',
				open_high = high.data[0] == '(';
	double		from = strtod(low.data + open_low, NULL),
				to = strtod(high.data + open_high, NULL);

	return (open_low ? score > from : score >= from) && (open_high ? score < to : score <= to);
}

static void
reverse_fields(SimField *fields, int n)
{
	for (int i = 0; i < n / 2; i++)
	{
		SimField	field = fields[i];

		fields[i] = fields[n - 1 - i];
		fields[n - 1 - i] = field;
	}
}

/* Z[REV]RANGE key start stop [WITHSCORES], ZRANGEBYSCORE key low high [LIMIT 0 n], and
 * ZREVRANGEBYSCORE key high low */
static void
sorted_range(Call *call, bool by_score, bool reverse)
{
	const MosqlBytes *argv = call->argv;
	SimKey	   *key;
	SimField   *sorted;
	int			n;
	int			from = 0;
	bool		scores = false;
	int64		limit = -1;

	if (!key_of(call, 'z', false, &key))
		return;
	n = key != NULL ? key->n : 0;
	sorted = malloc(n * sizeof(SimField) + 1);
	if (n > 0)
		memcpy(sorted, key->fields, n * sizeof(SimField));
	qsort(sorted, n, sizeof(SimField), compare_scores);
	if (reverse)
		reverse_fields(sorted, n);
	for (int i = 4; i < call->argc; i++)
	{
		by_score |= IS(i, "BYSCORE");
		scores |= IS(i, "WITHSCORES");
		if (IS(i, "LIMIT") && i + 2 < call->argc)
			limit = strtoll(argv[i + 2].data, NULL, 10);
	}
	if (by_score)
	{
		int			m = 0;

		for (int i = 0; i < n; i++)
			if (is_within(score_of(&sorted[i]), argv[2 + reverse], argv[3 - reverse]))
				sorted[m++] = sorted[i];
		n = m;
	}
	else
	{
		int64		first = strtoll(argv[2].data, NULL, 10),
					last = strtoll(argv[3].data, NULL, 10);

		from = (int) Max(first < 0 ? n + first : first, 0);
		n = (int) Max(Min(last < 0 ? n + last : last, n - 1) - from + 1, 0);
	}
	say_members(call, sorted + from, limit >= 0 ? (int) Min(n, limit) : n, scores);
	free(sorted);
}

static void
sorted_score(Call *call)
{
	SimKey	   *key;
	MosqlBytes	value;
	double		score;

	if (!key_of(call, 'z', false, &key))
		return;
	value = sim_get(key, call->argv[2]);
	if (value.data == NULL)
	{
		say_bulk(call, MOSQL_ABSENT);
		return;
	}
	memcpy(&score, value.data, sizeof(score));
	say_score(call, score);
}

/* ---- sets ---- */

static void
set_add(Call *call)
{
	SimKey	   *key;
	int			n = 0;

	if (!key_of(call, 's', true, &key))
		return;
	for (int i = 2; i < call->argc; i++)
		if (sim_get(key, call->argv[i]).data == NULL)
		{
			put(call, key, 's', call->argv[i], mosql_bytes("", 0));
			n++;
		}
	say_number(call, n);
}

static void
set_random(Call *call)
{
	SimKey	   *key;
	int64		want = call->argc > 2 ? strtoll(call->argv[2].data, NULL, 10) : 1;
	int			n;
	int			from;

	if (!key_of(call, 's', false, &key))
		return;
	n = key != NULL ? key->n : 0;
	want = Min(want, n);
	from = (int) sim_below(Max(n, 1));
	call->to->array(call->to, (int) want);
	for (int i = 0; i < want; i++)
		say_bulk(call, key->fields[(from + i) % n].name);
}

/* ---- lists ---- */

/* Names that ascend with what was ever pushed. */
static void
list_push(Call *call)
{
	SimKey	   *key;

	if (!key_of(call, 'l', true, &key))
		return;
	for (int i = 2; i < call->argc; i++)
	{
		char		name[32];

		snprintf(name, sizeof(name), "%020lu", (unsigned long) key->version);
		put(call, key, 'l', text_of(name), call->argv[i]);
	}
	say_number(call, key->n);
}

static bool
list_pop(SimClient *client, SimKey *key, SimAnswer *to)
{
	Call		call = {client, client->server->shard, 0, NULL, to};

	if (key == NULL || key->n == 0)
		return false;
	to->array(to, 2);
	to->bulk(to, key->name);
	to->bulk(to, key->fields[0].value);
	put(&call, key, 'l', key->fields[0].name, MOSQL_ABSENT);
	return true;
}

bool
sim_list_pop(SimClient *client, SimAnswer *to)
{
	return list_pop(client, sim_key(client->server->shard, client->list, false), to);
}

/*
 * BLPOP key seconds.  Who cannot wait, in a script or EXEC, has nothing at once.  One key, as
 * the product has it.
 */
static void
list_pop_or_wait(Call *call)
{
	SimClient  *client = call->client;
	SimKey	   *key;
	double		seconds = strtod(call->argv[2].data, NULL);

	if (!key_of(call, 'l', false, &key) || list_pop(client, key, call->to))
		return;
	if (client->in_script || client->multi)
	{
		call->to->array(call->to, -1);
		return;
	}
	client->blocks = true;
	client->list = mosql_bytes(memcpy(malloc(call->argv[1].len), call->argv[1].data, call->argv[1].len), call->argv[1].len);
	client->blocks_until_us = seconds > 0 ? sim_now_us + (int64) (seconds * 1000000) : PG_INT64_MAX;
}

/* As clusterRedirectBlockedClientIfNeeded(), and replicationUnblock..() of Redis 7. */
const char *
sim_list_refused(const SimClient *client)
{
	static char moved[64];
	int			slot = mosql_redis_slot(client->list);
	const SimShard *shard = client->server->shard;

	if (client->server != shard->primary)
		return "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
	if (!sim_is_cluster || sim_owns(client->server, slot) || shard == sim_moving[slot])
		return NULL;
	snprintf(moved, sizeof(moved), "MOVED %d 10.0.0.1:%d", slot,
			 7000 + sim_shards[sim_slots[slot]].primary->number);
	return moved;
}

/* ---- keys ---- */

static void
expire_key(Call *call)
{
	SimKey	   *key = sim_key(call->shard, call->argv[1], false);

	if (key == NULL || key->n == 0)
	{
		say_number(call, 0);
		return;
	}
	key->expires_us = sim_server_time(call->client->server) + strtoll(call->argv[2].data, NULL, 10) * 1000;
	say_number(call, 1);
}

/* What is over is gone when somebody comes by. */
static void
drop_expired(Call *call)
{
	SimKey	   *key = sim_key(call->shard, call->argv[1], false);

	if (key == NULL || key->n == 0 || key->expires_us == 0 ||
		key->expires_us > sim_server_time(call->client->server))
		return;
	while (key->n > 0)
		sim_put(call->shard, key, key->type, key->fields[key->n - 1].name, MOSQL_ABSENT);
}

static void
unlink_keys(Call *call)
{
	int			n = 0;

	for (int i = 1; i < call->argc; i++)
	{
		SimKey	   *key = sim_key(call->shard, call->argv[i], false);

		if (key == NULL || key->n == 0)
			continue;
		n++;
		while (key->n > 0)
			put(call, key, key->type, key->fields[key->n - 1].name, MOSQL_ABSENT);
	}
	say_number(call, n);
}

static void
say_type(Call *call)
{
	const SimKey *key = sim_key(call->shard, call->argv[1], false);

	call->to->status(call->to, key == NULL || key->n == 0 ? "none" : key->type == 'h' ? "hash" :
					 key->type == 'z' ? "zset" : key->type == 's' ? "set" : "list");
}

static void
count_keys(Call *call)
{
	int			n = 0;

	for (int i = 1; i < call->argc; i++)
	{
		const SimKey *key = sim_key(call->shard, call->argv[i], false);

		n += key != NULL && key->n > 0;
	}
	say_number(call, n);
}

/* SCAN cursor MATCH pattern COUNT n: our patterns are "prefix*" or "prefix{*}". */
static void
scan_keys(Call *call)
{
	SimKey	   *found[1000];
	uint64		cursor = strtoull(call->argv[1].data, NULL, 10);
	int64		count = call->argc > 5 ? strtoll(call->argv[5].data, NULL, 10) : 10;
	MosqlBytes	pattern = call->argc > 3 ? call->argv[3] : text_of("*");
	const char *star = memchr(pattern.data, '?', pattern.len);
	size_t		prefix;
	int			n = 0;
	SimKey	   *key = NULL;
	char		text[32];

	if (star == NULL)
		star = memchr(pattern.data, '*', pattern.len);
	prefix = star != NULL ? star - pattern.data : pattern.len;
	while (n < Min(count, 1000) && (key = sim_next_key(call->shard, &cursor)) != NULL)
		if (key->name.len >= prefix && memcmp(key->name.data, pattern.data, prefix) == 0)
			found[n++] = key;
	snprintf(text, sizeof(text), UINT64_FORMAT, key == NULL ? 0 : cursor);
	call->to->array(call->to, 2);
	say_bulk(call, text_of(text));
	call->to->array(call->to, n);
	for (int i = 0; i < n; i++)
		say_bulk(call, found[i]->name);
}

/* ---- the server ---- */

static void
say_time(Call *call)
{
	int64		now = sim_server_time(call->client->server);

	call->to->array(call->to, 2);
	say_bulk(call, DIGITS(now / 1000000));
	say_bulk(call, DIGITS(now % 1000000));
}

/* CLUSTER SLOTS: every run of slots of one shard. */
static void
say_slots(Call *call)
{
	static int	ends[lengthof(sim_slots)];
	static int	runs;
	static uint64 moves;		/* when these were found */

	if (runs == 0 || moves != sim_slot_moves)
	{
		moves = sim_slot_moves;
		runs = 0;
		for (int s = 1; s <= lengthof(sim_slots); s++)
			if (s == lengthof(sim_slots) || sim_slots[s] != sim_slots[s - 1])
				ends[runs++] = s;
	}
	call->to->array(call->to, runs);
	for (int r = 0; r < runs; r++)
	{
		int			s = r > 0 ? ends[r - 1] : 0;
		const SimServer *primary = sim_primary(call->client->server, s);

		call->to->array(call->to, 3);
		say_number(call, s);
		say_number(call, ends[r] - 1);
		call->to->array(call->to, 3);
		say_bulk(call, text_of("10.0.0.1"));
		say_number(call, 7000 + primary->number);
		say_bulk(call, text_of(sim_node_id(primary)));
	}
}

static void
cluster(Call *call)
{
	const MosqlBytes *argv = call->argv;

	if (!sim_is_cluster)
		refuse(call, "ERR This instance has cluster support disabled");
	else if (IS(1, "MYID"))
		say_bulk(call, text_of(sim_node_id(call->client->server)));
	else if (IS(1, "SLOTS"))
		say_slots(call);
	else
		refuse(call, "ERR unknown subcommand");
}

/* A primary has a name of its own each time that it starts, or becomes one. */
static void
say_info(Call *call)
{
	const SimServer *server = call->client->server;
	char		text[80];

	snprintf(text, sizeof(text), "# Replication\r\nmaster_replid:%020d%020d\r\n", server->number + 1, server->terms);
	say_bulk(call, text_of(text));
}

/* ---- dispatch ---- */

typedef struct Command
{
	const char *name;
	int			min_args;
	bool		has_key;
	bool		writes;
	bool		grows;			/* refused when memory is full */
} Command;

static const Command commands[] = {
	{"HGET", 3, true}, {"HMGET", 3, true}, {"HGETALL", 2, true}, {"HKEYS", 2, true},
	{"HVALS", 2, true}, {"HLEN", 2, true}, {"HSET", 4, true, true, true},
	{"HDEL", 3, true, true}, {"HSETNX", 4, true, true, true}, {"HINCRBY", 4, true, true, true},
	{"ZADD", 4, true, true, true}, {"ZREM", 3, true, true}, {"ZSCORE", 3, true},
	{"ZRANGE", 4, true}, {"ZRANGEBYSCORE", 4, true},
	{"ZREVRANGE", 4, true}, {"ZREVRANGEBYSCORE", 4, true}, {"INFO", 1}, {"SADD", 3, true, true, true},
	{"SREM", 3, true, true}, {"RPUSH", 3, true, true, true}, {"BLPOP", 3, true, true},
	{"PEXPIRE", 3, true, true}, {"SRANDMEMBER", 2, true}, {"UNLINK", 2, true, true},
	{"DEL", 2, true, true}, {"WATCH", 2, true}, {"SCAN", 2}, {"TIME", 1}, {"TYPE", 2, true}, {"CLUSTER", 2},
	{"ECHO", 2}, {"EXISTS", 2, true}, {"PING", 1}, {"CONFIG", 2}, {"MULTI", 1}, {"EXEC", 1}, {"UNWATCH", 1},
	{"ASKING", 1}, {"QUIT", 1}, {"WAIT", 3}, {"EVAL", 3}, {"EVALSHA", 3},
	{NULL}
};

static void
run(Call *call, const char *name)
{
	switch (name[0])
	{
		case 'H':
			if (strcmp(name, "HGET") == 0)
				hash_get(call);
			else if (strcmp(name, "HMGET") == 0)
				hash_mget(call);
			else if (strcmp(name, "HSET") == 0)
				hash_set(call);
			else if (strcmp(name, "HDEL") == 0)
				field_remove(call, 'h');
			else if (strcmp(name, "HGETALL") == 0)
				hash_all(call, true, true);
			else if (strcmp(name, "HKEYS") == 0)
				hash_all(call, true, false);
			else if (strcmp(name, "HVALS") == 0)
				hash_all(call, false, true);
			else if (strcmp(name, "HSETNX") == 0)
				hash_setnx(call);
			else if (strcmp(name, "HINCRBY") == 0)
				hash_add(call);
			else
			{
				SimKey	   *key;

				if (key_of(call, 'h', false, &key))
					say_number(call, key != NULL ? key->n : 0);
			}
			break;
		case 'Z':
			if (strcmp(name, "ZADD") == 0)
				sorted_add(call);
			else if (strcmp(name, "ZREM") == 0)
				field_remove(call, 'z');
			else if (strcmp(name, "ZSCORE") == 0)
				sorted_score(call);
			else
				sorted_range(call, strstr(name, "BYSCORE") != NULL, name[2] == 'E');
			break;
		case 'S':
			if (strcmp(name, "SADD") == 0)
				set_add(call);
			else if (strcmp(name, "SREM") == 0)
				field_remove(call, 's');
			else if (strcmp(name, "SRANDMEMBER") == 0)
				set_random(call);
			else
				scan_keys(call);
			break;
		case 'R':
			list_push(call);
			break;
		case 'B':
			list_pop_or_wait(call);
			break;
		case 'U':
		case 'D':
			unlink_keys(call);
			break;
		case 'T':
			if (strcmp(name, "TYPE") == 0)
				say_type(call);
			else
				say_time(call);
			break;
		case 'I':
			say_info(call);
			break;
		case 'C':
			if (strcmp(name, "CLUSTER") == 0)
				cluster(call);
			else
				call->to->array(call->to, 0);
			break;
		case 'E':
			if (strcmp(name, "ECHO") == 0)
				say_bulk(call, call->argv[1]);
			else if (strcmp(name, "EXISTS") == 0)
				count_keys(call);
			else
				sim_script(call->client, call->argc, call->argv, call->to);
			break;
		default:
			if (strcmp(name, "PEXPIRE") == 0)
				expire_key(call);
			else
				call->to->status(call->to, "PONG");
	}
}

/* It is looked for once, and then found by its letters. */
static const Command *
find_command(MosqlBytes name)
{
	static const Command *found[256];
	const Command **last = &found[name.len == 0 ? 0 : (uint8) (name.data[0] * 7 + name.data[name.len - 1] * 31 + name.len * 5 +
														   name.data[name.len / 2])];

	if (*last != NULL && strncmp(name.data, (*last)->name, name.len) == 0 && (*last)->name[name.len] == '\0')
		return *last;
	for (const Command *c = commands; c->name != NULL; c++)
		if ((name.data[0] & 0x5f) == c->name[0] && name.len == strlen(c->name) && pg_strncasecmp(name.data, c->name, name.len) == 0)
			return *last = c;
	return NULL;
}

/* The keys of a command, which are of one slot: how many. */
static int
keys_of(const Command *command, int argc, const MosqlBytes *argv, const MosqlBytes **keys)
{
	if (command->name[0] == 'E' && command->name[1] == 'V')
	{
		*keys = &argv[3];
		return Min(atoi(argv[2].data), argc - 3);
	}
	*keys = &argv[1];
	if (!command->has_key)
		return 0;
	return IS(0, "UNLINK") || IS(0, "DEL") || IS(0, "WATCH") || IS(0, "EXISTS") ? argc - 1 : 1;
}

/* Where the keys of some commands lie. */
typedef struct Whereabouts
{
	int			slot;			/* -1: nowhere */
	int			there;
	int			missing;
} Whereabouts;

static void
look_for_keys(const SimClient *client, int argc, const MosqlBytes *argv, Whereabouts *found)
{
	const Command *command = find_command(argv[0]);
	const MosqlBytes *keys;
	int			n = keys_of(command, argc, argv, &keys);

	for (int i = 0; i < n; i++)
	{
		const SimKey *key = sim_key(client->server->shard, keys[i], false);

		found->slot = mosql_redis_slot(keys[i]);
		if (key != NULL && key->n > 0)
			found->there++;
		else
			found->missing++;
	}
}

/*
 * A script comes by keys that it did not declare, of any slot.  Who gives the slot away refuses what
 * is not there any more; who takes it shows nothing unless the script was sent on to it (ASKING), and
 * then also of a key that is not there yet that it is absent, but no such key among several.
 */
static bool
is_elsewhere(const SimClient *client, int argc, const MosqlBytes *argv)
{
	const SimShard *shard = client->server->shard;
	Whereabouts keys = {-1};

	if (!client->in_script || !sim_is_cluster)
		return false;
	look_for_keys(client, argc, argv, &keys);
	if (keys.slot < 0 || (shard->isolated && sim_owns(client->server, keys.slot)))
		return false;
	if (client->server != shard->primary)
		return true;
	if (shard == &sim_shards[sim_slots[keys.slot]])
		return sim_moving[keys.slot] != NULL && keys.missing > 0;
	return shard != sim_moving[keys.slot] || !client->asking ||
		(keys.missing > 0 && keys.there + keys.missing > 1);
}

/*
 * A command at its turn: alone, in a script, or in EXEC.  Lack of memory refuses a
 * script's first write or none, and what EXEC runs was let in when it was queued.
 */
void
sim_execute(SimClient *client, int argc, const MosqlBytes *argv, SimAnswer *to)
{
	const Command *command = find_command(argv[0]);
	Call		call = {client, client->server->shard, argc, argv, to};

	if (command == NULL)
		to->error(to, "ERR unknown command");
	else if (argc < command->min_args)
		to->error(to, "ERR wrong number of arguments");
	else if (command->grows && client->server->full && !client->multi &&
			 !(client->in_script && client->script_wrote))
		to->error(to, "OOM command not allowed when used memory > 'maxmemory'.");
	else if (is_elsewhere(client, argc, argv))
		to->error(to, "ERR Script attempted to access a non local key in a cluster node");
	else
	{
		if (command->has_key)
			drop_expired(&call);
		run(&call, command->name);
	}
}

/* ---- connections ---- */

static void
forget_queue(SimClient *client)
{
	for (int i = 0; i < client->nqueued; i++)
		free(client->queued[i].argv);
	client->nqueued = 0;
	client->multi = client->broken_multi = false;
}

static void
enqueue(SimClient *client, int argc, const MosqlBytes *argv, SimAnswer *to)
{
	size_t		bytes = argc * sizeof(MosqlBytes);
	MosqlBytes *copy;
	char	   *p;

	for (int i = 0; i < argc; i++)
		bytes += argv[i].len + 1;
	copy = malloc(bytes);
	p = (char *) (copy + argc);
	for (int i = 0; i < argc; i++)
	{
		memcpy(p, argv[i].data, argv[i].len);
		p[argv[i].len] = '\0';
		copy[i] = mosql_bytes(p, argv[i].len);
		p += argv[i].len + 1;
	}
	if (client->nqueued == client->maxqueued)
	{
		client->maxqueued = Max(16, 2 * client->maxqueued);
		client->queued = realloc(client->queued, client->maxqueued * sizeof(client->queued[0]));
	}
	client->queued[client->nqueued].argc = argc;
	client->queued[client->nqueued++].argv = copy;
	to->status(to, "QUEUED");
}

static bool
queue_grows(const SimClient *client)
{
	for (int i = 0; i < client->nqueued; i++)
		if (find_command(client->queued[i].argv[0])->grows)
			return true;
	return false;
}

static void
execute_queue(SimClient *client, SimAnswer *to)
{
	bool		stale = false;

	for (int i = 0; i < client->nwatched; i++)
		stale |= client->watched[i].key->version != client->watched[i].version;
	client->nwatched = 0;
	if (client->broken_multi)
		to->error(to, "EXECABORT Transaction discarded because of previous errors.");
	else if (client->server->full && queue_grows(client))
		to->error(to, "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.");
	else if (stale)
		to->array(to, -1);
	else
	{
		to->array(to, client->nqueued);
		for (int i = 0; i < client->nqueued; i++)
			sim_execute(client, client->queued[i].argc, client->queued[i].argv, to);
	}
	forget_queue(client);
}

static void
watch(SimClient *client, int argc, const MosqlBytes *argv, SimAnswer *to)
{
	for (int i = 1; i < argc; i++)
	{
		SimKey	   *key = sim_key(client->server->shard, argv[i], true);

		if (client->nwatched == client->maxwatched)
		{
			client->maxwatched = Max(8, 2 * client->maxwatched);
			client->watched = realloc(client->watched, client->maxwatched * sizeof(client->watched[0]));
		}
		client->watched[client->nwatched].key = key;
		client->watched[client->nwatched++].version = key->version;
	}
	to->status(to, "OK");
}

/*
 * Is this server the one for these keys?  Else the error is said.  As getNodeByQuery() of
 * Redis has it: who gives a slot away serves the keys that it has still; who takes it
 * serves those that were sent on to it.
 */
static bool
is_ours(const SimClient *client, const Whereabouts *keys, bool writes, SimAnswer *to)
{
	const SimServer *server = client->server;
	const SimShard *shard = server->shard;
	const char *word = "MOVED";
	const SimShard *there;
	char		text[64];

	if (!sim_is_cluster)
	{
		if (server == shard->primary || !writes)
			return true;
		to->error(to, "READONLY You can't write against a read only replica.");
		return false;
	}
	if (keys->slot < 0)
		return true;
	if (shard->isolated && sim_owns(server, keys->slot))
		return true;
	there = &sim_shards[sim_slots[keys->slot]];
	if (server == shard->primary && sim_moving[keys->slot] != NULL && keys->missing > 0 &&
		(shard == there || (shard == sim_moving[keys->slot] && client->asking)))
	{
		if (shard == there && keys->there == 0)
		{
			word = "ASK";
			there = sim_moving[keys->slot];
		}
		else if (shard == there || keys->there + keys->missing > 1)
		{
			to->error(to, "TRYAGAIN Multiple keys request during rehashing of slot");
			return false;
		}
		else
			return true;
	}
	else if (server == shard->primary &&
			 (shard == there || (shard == sim_moving[keys->slot] && client->asking)))
		return true;
	snprintf(text, sizeof(text), "%s %d 10.0.0.1:%d", word, keys->slot, 7000 + there->primary->number);
	to->error(to, text);
	return false;
}

static bool
command_is_ours(const SimClient *client, const Command *command, int argc, const MosqlBytes *argv,
				SimAnswer *to)
{
	Whereabouts keys = {-1};

	look_for_keys(client, argc, argv, &keys);
	return is_ours(client, &keys, command->writes, to);
}

/* What was queued, as a whole; else it is dropped. */
static bool
queue_is_ours(SimClient *client, SimAnswer *to)
{
	Whereabouts keys = {-1};

	for (int i = 0; i < client->nqueued; i++)
		look_for_keys(client, client->queued[i].argc, client->queued[i].argv, &keys);
	if (client->broken_multi || is_ours(client, &keys, true, to))
		return true;
	client->nwatched = 0;
	forget_queue(client);
	return false;
}

/* A command as it arrives. */
void
sim_command(SimClient *client, int argc, const MosqlBytes *argv, SimAnswer *to)
{
	const Command *command = find_command(argv[0]);

	if (command != NULL && strcmp(command->name, "MULTI") == 0)
	{
		client->multi = true;
		to->status(to, "OK");
	}
	else if (command != NULL && strcmp(command->name, "EXEC") == 0)
	{
		if (queue_is_ours(client, to))
			execute_queue(client, to);
	}
	else if (command == NULL || argc < command->min_args ||
			 !command_is_ours(client, command, argc, argv, to))
	{
		if (command == NULL || argc < command->min_args)
			to->error(to, "ERR unknown command or wrong number of arguments");
		client->broken_multi = client->multi;
	}
	else if (client->multi && command->grows && client->server->full)
	{
		to->error(to, "OOM command not allowed when used memory > 'maxmemory'.");
		client->broken_multi = true;
	}
	else if (client->multi)
		enqueue(client, argc, argv, to);
	else if (strcmp(command->name, "WATCH") == 0)
		watch(client, argc, argv, to);
	else if (strcmp(command->name, "UNWATCH") == 0)
	{
		client->nwatched = 0;
		to->status(to, "OK");
	}
	else if (strcmp(command->name, "ASKING") == 0)
	{
		client->asking = true;
		to->status(to, "OK");
		return;
	}
	else if (strcmp(command->name, "WAIT") == 0)
	{
		client->waits = true;	/* network.c answers */
		client->wants = atoi(argv[1].data);
		client->waits_until_us = sim_now_us + atoll(argv[2].data) * 1000;
	}
	else
		sim_execute(client, argc, argv, to);
	client->asking &= client->multi;	/* it holds for one command, or transaction */
}
