/*
 * test_fake_redis.c: layer redis against scripted nodes.
 *
 * Plays each file of stories/ twice: nodes answer at once, and byte by byte.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stats.h"
#include "redis/redis.h"
#include "story.h"

/* The client's side while a story is played. */
typedef struct Player
{
	const Story *story;
	const StoryLine *line;
	MosqlRedis *redis;
	MemoryContext cxt;			/* of the present batch */
	MosqlBatch *batch;			/* being collected, or run last */
	bool		collecting;
	bool		raised;			/* by the last RUN */
	int			timeout_ms;
	uint64		pin;
	uint64		breaks;
	int			detached[MOSQL_REPLY_LOST + 1];
	MosqlStats	before;
	int64		start_us;
} Player;

static bool
check_line(const Player *p, bool ok, const char *got)
{
	char		what[512];

	snprintf(what, sizeof(what), "%s", p->line->rest);
	if (!unit_check(ok, what, p->story->name, p->line->number))
		printf("#   got %s\n", got);
	return ok;
}

/*
 * ---------------------------------------------------------------------------
 * The client's verbs
 * ---------------------------------------------------------------------------
 */

static const char *
word(const Player *p, int i)
{
	return i < p->line->nwords ? p->line->words[i] : "";
}

static MosqlSendMode
mode_named(const char *name)
{
	return strcmp(name, "once") == 0 ? MOSQL_SEND_ONCE :
		strcmp(name, "pinned") == 0 ? MOSQL_SEND_PINNED : MOSQL_SEND_REPEATABLE;
}

static MosqlBatch *
collecting(Player *p)
{
	if (!p->collecting)
	{
		p->cxt = AllocSetContextCreate(CurrentMemoryContext, "batch", ALLOCSET_DEFAULT_SIZES);
		p->batch = mosql_batch_create(p->redis, p->cxt);
		p->collecting = true;
	}
	return p->batch;
}

/* Words from `from` on, commands separated by ";", as one group. */
static void
add_group(Player *p, int from)
{
	MosqlBytes *args = palloc(STORY_MAX_WORDS * sizeof(MosqlBytes));
	const MosqlBytes *argv[STORY_MAX_WORDS];
	int			argc[STORY_MAX_WORDS] = {0};
	int			n = 0;
	uint16		slot = 0;
	bool		durable = strncmp(word(p, 2), "durable_", 8) == 0;
	MosqlSendMode mode = mode_named(word(p, 2) + (durable ? 8 : 0));
	int			group;

	argv[0] = args;
	for (int i = from; i < p->line->nwords; i++)
	{
		const char *w = word(p, i);

		if (strcmp(w, ";") == 0)
		{
			argv[n + 1] = argv[n] + argc[n];
			n++;
			continue;
		}
		((MosqlBytes *) argv[n])[argc[n]++] = mosql_bytes(w, strlen(w));
		if (argc[n] == 2)
			slot = mosql_redis_slot(mosql_bytes(w, strlen(w)));
	}
	group = mosql_batch_add_group(collecting(p), slot, mode, mode == MOSQL_SEND_PINNED ? p->pin : 0,
								  n + 1, argc, argv);
	if (durable)
		mosql_batch_make_durable(p->batch, group);
}

static void
do_run(Player *p)
{
	MosqlBudget budget = mosql_budget_start(p->timeout_ms);
	MosqlBatch *batch = collecting(p);
	const char *expected = strcmp(word(p, 2), "raises") == 0 ? word(p, 3) : "";

	p->raised = PGSTUB_RAISES(mosql_batch_run(batch, &budget));
	p->collecting = false;
	if (p->raised)
		check_line(p, strcmp(expected, pgstub_sqlstate(pgstub_error.sqlstate)) == 0,
				   psprintf("%s %s (%s)", pgstub_sqlstate(pgstub_error.sqlstate),
							pgstub_error.message, pgstub_error.detail));
	else
	{
		check_line(p, *expected == '\0', "no error");
		p->pin = mosql_batch_connection(batch, 0);
	}
}

static const char *const kinds[] = {"nil", "string", "status", "error", "integer", "array", "lost"};

/* REPLY group command kind [text] */
static void
do_reply(Player *p)
{
	const MosqlReply *r;
	const char *said = "";

	if (p->raised || p->batch == NULL)
	{
		check_line(p, false, "an error before");
		return;
	}
	r = mosql_batch_reply(p->batch, atoi(word(p, 2)), atoi(word(p, 3)));
	if (r->str.data != NULL)
		said = r->str.data;
	else if (r->kind == MOSQL_REPLY_INTEGER)
		said = psprintf("%lld", (long long) r->integer);
	else if (r->kind == MOSQL_REPLY_ARRAY)
		said = psprintf("%d", r->n);
	if (strcmp(word(p, 5), "length") == 0)
		check_line(p, r->str.len == atoi(word(p, 6)), psprintf("%zu", r->str.len));
	else
		check_line(p, strcmp(kinds[r->kind], word(p, 4)) == 0 &&
				   strncmp(said, word(p, 5), strlen(word(p, 5))) == 0,
				   psprintf("%s %s", kinds[r->kind], said));
}

static void
on_detached(void *arg, const MosqlReply *reply)
{
	((Player *) arg)->detached[reply->kind]++;
}

static void
do_detach(Player *p)
{
	MosqlBytes	argv[STORY_MAX_WORDS];
	int			argc = 0;

	for (int i = 2; i < p->line->nwords; i++)
		argv[argc++] = mosql_bytes(word(p, i), strlen(word(p, i)));
	if (strcmp(word(p, 1), "DETACH") == 0)
		mosql_redis_send(p->redis, mosql_redis_slot(argv[1]), argc, argv, on_detached, p);
	else
		mosql_redis_send_durable(p->redis, mosql_redis_slot(argv[1]), argc, argv, on_detached, p);
}

/* COPIES n: so many answers are to come to the question for copies. */
static void
do_copies(Player *p)
{
	int			n = mosql_redis_send_wait(p->redis, on_detached, p);

	check_line(p, n == atoi(word(p, 2)), psprintf("%d", n));
}

static void
do_detached(Player *p)
{
	for (int k = 0; k < lengthof(kinds); k++)
		if (strcmp(word(p, 2), kinds[k]) == 0)
			check_line(p, p->detached[k] == atoi(word(p, 3)), psprintf("%d", p->detached[k]));
}

static void
do_stat(Player *p)
{
	int64		got = -1;
	const char *name = word(p, 2);

	if (strcmp(name, "round_trips") == 0)
		got = mosql_stats.round_trips - p->before.round_trips;
	else if (strcmp(name, "redirects") == 0)
		got = mosql_stats.redirects - p->before.redirects;
	else if (strcmp(name, "reconnects") == 0)
		got = mosql_stats.reconnects - p->before.reconnects;
	check_line(p, got == atoi(word(p, 3)), psprintf("%lld", (long long) got));
}

/* FENCE began: against breaks since BEGAN; FENCE: since now.  What it returns is for LIFT. */
static void
do_fence(Player *p)
{
	if (strcmp(word(p, 2), "began") != 0)
		p->breaks = mosql_redis_breaks(p->redis);
	check_line(p, mosql_redis_fence(p->redis, p->breaks) == 0, "another fence");
}

/*
 * The host "two.test" has two addresses: one where nobody answers, since its listener's queue is full,
 * and then 127.0.0.1.
 */
static struct sockaddr_in deaf;
static int	deaf_sockets[3];

static void
open_deaf(void)
{
	socklen_t	len = sizeof(deaf);
	int			ok;

	for (int i = 0; i < lengthof(deaf_sockets); i++)
		deaf_sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	deaf = (struct sockaddr_in) {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	ok = bind(deaf_sockets[0], (struct sockaddr *) &deaf, len) == 0 && listen(deaf_sockets[0], 0) == 0 &&
		getsockname(deaf_sockets[0], (struct sockaddr *) &deaf, &len) == 0;
	if (!ok)
		elog(ERROR, "cannot listen: %m");
	for (int i = 1; i < lengthof(deaf_sockets); i++)
		(void) connect(deaf_sockets[i], (struct sockaddr *) &deaf, len);
}

static void
close_deaf(void)
{
	for (int i = 0; i < lengthof(deaf_sockets) && deaf.sin_port != 0; i++)
		close(deaf_sockets[i]);
	deaf.sin_port = 0;
}

/* In the place of the C library's, which answers for all other names. */
int
getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **result)
{
	int			(*of_system) (const char *, const char *, const struct addrinfo *, struct addrinfo **) =
		dlsym(RTLD_NEXT, "getaddrinfo");
	char		deaf_port[12];
	int			rc;

	if (strcmp(host, "two.test") != 0)
		return of_system(host, port, hints, result);
	snprintf(deaf_port, sizeof(deaf_port), "%d", ntohs(deaf.sin_port));
	rc = of_system("127.0.0.1", deaf_port, hints, result);
	return rc != 0 ? rc : of_system("127.0.0.1", port, hints, &(*result)->ai_next);
}

/* OPEN [user=...] [password=...] [seeds=N] [replicas=N] [fsync] [name] */
static void
do_open(Player *p)
{
	StringInfoData nodes;
	MosqlRedisConfig config = {.connect_timeout_ms = 1500, .command_timeout_ms = p->timeout_ms,
	.replica_timeout_ms = 70};
	int			listed = p->story->nnodes;
	const char *host = "127.0.0.1";

	for (int i = 2; i < p->line->nwords; i++)
	{
		if (strncmp(word(p, i), "user=", 5) == 0)
			config.username = word(p, i) + 5;
		else if (strncmp(word(p, i), "password=", 9) == 0)
			config.password = word(p, i) + 9;
		else if (strncmp(word(p, i), "seeds=", 6) == 0)
			listed = atoi(word(p, i) + 6);
		else if (strncmp(word(p, i), "replicas=", 9) == 0)
			config.replicas = atoi(word(p, i) + 9);
		else if (strcmp(word(p, i), "fsync") == 0)
			config.fsync = true;
		else if (strcmp(word(p, i), "name") == 0)
			host = "two.test";
	}
	if (strcmp(host, "two.test") == 0)
		open_deaf();
	initStringInfo(&nodes);
	for (int i = 0; i < listed; i++)
		appendStringInfo(&nodes, "%s%s:%d", i > 0 ? "," : "", host, p->story->ports[i]);
	config.nodes = nodes.data;
	p->redis = mosql_redis_open(&config, TopMemoryContext);
}

static void
do_line(Player *p)
{
	const char *verb = word(p, 1);

	if (strcmp(verb, "OPEN") == 0)
		do_open(p);
	else if (strcmp(verb, "TIMEOUT") == 0)
		p->timeout_ms = atoi(word(p, 2));
	else if (strcmp(verb, "ADD") == 0)
		add_group(p, 3);
	else if (strcmp(verb, "RUN") == 0)
		do_run(p);
	else if (strcmp(verb, "REPLY") == 0)
		do_reply(p);
	else if (strcmp(verb, "SAID") == 0)
		check_line(p, strstr(pgstub_error.message, p->line->rest) != NULL ||
				   strstr(pgstub_error.detail, p->line->rest) != NULL ||
				   strstr(pgstub_error.hint, p->line->rest) != NULL,
				   psprintf("%s (%s)", pgstub_error.message, pgstub_error.detail));
	else if (strcmp(verb, "FORGET") == 0)
		MemoryContextDelete(p->cxt);
	else if (strcmp(verb, "CANCEL") == 0)
		pgstub_cancel_after_ms(atoi(word(p, 2)));
	else if (strcmp(verb, "DETACH") == 0 || strcmp(verb, "DETACH_DURABLE") == 0)
		do_detach(p);
	else if (strcmp(verb, "COPIES") == 0)
		do_copies(p);
	else if (strcmp(verb, "DRAIN") == 0)
		check_line(p, mosql_redis_drain(p->redis, atoi(word(p, 2))) ==
				   (strcmp(word(p, 3), "false") != 0), "the opposite");
	else if (strcmp(verb, "DETACHED") == 0)
		do_detached(p);
	else if (strcmp(verb, "BEGAN") == 0)
		p->breaks = mosql_redis_breaks(p->redis);
	else if (strcmp(verb, "FENCE") == 0)
		do_fence(p);
	else if (strcmp(verb, "LIFT") == 0)
		mosql_redis_lift(p->redis, 0);
	else if (strcmp(verb, "OUTER") == 0)
		check_line(p, mosql_redis_fence(p->redis, mosql_redis_breaks(p->redis)) != 0,
				   "no other fence");
	else if (strcmp(verb, "FENCED_OFF") == 0)
		check_line(p, mosql_redis_is_fenced_off(p->redis) == (strcmp(word(p, 2), "true") == 0),
				   "the opposite");
	else if (strcmp(verb, "STAT") == 0)
		do_stat(p);
	else if (strcmp(verb, "CLUSTER") == 0)
		check_line(p, mosql_redis_is_cluster(p->redis) == (strcmp(word(p, 2), "true") == 0),
				   "the opposite");
	else if (strcmp(verb, "WITHIN") == 0)
		check_line(p, mosql_now_us() - p->start_us < atoi(word(p, 2)) * 1000,
				   psprintf("%lld ms", (long long) (mosql_now_us() - p->start_us) / 1000));
	else if (strcmp(verb, "SLEEP") == 0)
		pg_usleep(1000L * atoi(word(p, 2)));
	else
		check_line(p, false, "an unknown verb");
}

static void
play_client(const Story *story)
{
	Player		p = {.story = story, .timeout_ms = 2000, .before = mosql_stats};
	int			open_files;

	p.start_us = mosql_now_us();
	open_files = dup(0);
	close(open_files);
	for (int i = 0; i < story->nlines; i++)
	{
		p.line = &story->lines[i];
		if (strcmp(word(&p, 0), "client") == 0)
			do_line(&p);
	}
	pgstub_cancel_after_ms(0);
	mosql_redis_close(p.redis);
	close_deaf();
	{
		int			now = dup(0);

		close(now);
		unit_check(now == open_files, "all sockets are closed", story->name, 0);
	}
}

/*
 * ---------------------------------------------------------------------------
 * Stories
 * ---------------------------------------------------------------------------
 */

static void
parse_line(Story *story, char *text, int number)
{
	StoryLine  *line = &story->lines[story->nlines];
	char	   *rest = text;

	text[strcspn(text, "\n")] = '\0';
	for (int i = 0; i < 2; i++)
	{
		rest += strspn(rest, " \t");
		rest += strcspn(rest, " \t");
	}
	line->rest = pstrdup(rest + strspn(rest, " \t"));
	line->number = number;
	line->nwords = 0;
	for (char *w = strtok(pstrdup(text), " \t"); w != NULL; w = strtok(NULL, " \t"))
		line->words[line->nwords++] = w;
	if (line->nwords == 0 || line->words[0][0] == '#')
		return;
	if (strcmp(line->words[0], "nodes") == 0)
		story->nnodes = atoi(line->words[1]);
	else
		story->nlines++;
}

static void
read_story(Story *story, const char *path)
{
	FILE	   *f = fopen(path, "r");
	char		text[1024];
	int			number = 0;

	memset(story, 0, sizeof(*story));
	story->name = pstrdup(strrchr(path, '/') + 1);
	story->nnodes = 1;
	while (f != NULL && fgets(text, sizeof(text), f) != NULL)
		parse_line(story, text, ++number);
	if (f != NULL)
		fclose(f);
}

/* A listening socket on a free port. */
static int
listen_somewhere(int *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	len = sizeof(a);
	int			fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *) &a, sizeof(a)) != 0 || listen(fd, 16) != 0 ||
		getsockname(fd, (struct sockaddr *) &a, &len) != 0)
		elog(ERROR, "cannot listen: %m");
	*port = ntohs(a.sin_port);
	return fd;
}

static pid_t
start_node(const Story *story, int node, const int *listeners, const int control[2])
{
	pid_t		pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
	{
		signal(SIGALRM, SIG_DFL);
		alarm(30);				/* whatever happens, it ends */
		close(control[1]);
		for (int i = 0; i < story->nnodes; i++)
			if (i != node)
				close(listeners[i]);
		_exit(fake_node_play(story, node, listeners[node], control[0]));
	}
	return pid;
}

static void
play(Story *story)
{
	int			listeners[STORY_MAX_NODES];
	pid_t		pids[STORY_MAX_NODES];
	int			control[2];

	for (int i = 0; i < story->nnodes; i++)
		listeners[i] = listen_somewhere(&story->ports[i]);
	if (pipe(control) != 0)
		elog(ERROR, "no pipe: %m");
	for (int i = 0; i < story->nnodes; i++)
		pids[i] = start_node(story, i, listeners, control);
	for (int i = 0; i < story->nnodes; i++)
		close(listeners[i]);
	play_client(story);
	close(control[0]);
	close(control[1]);
	for (int i = 0; i < story->nnodes; i++)
	{
		int			status = -1;

		while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
			;
		unit_check(status == 0, psprintf("node %d is content", i), story->name, 0);
	}
}

static char path[1024];
static bool bytewise;

static void
test_story(void)
{
	Story	   *story = palloc(sizeof(Story));

	read_story(story, path);
	story->bytewise = bytewise;
	play(story);
}

static int
is_story(const struct dirent *entry)
{
	size_t		len = strlen(entry->d_name);

	return len > 6 && strcmp(entry->d_name + len - 6, ".story") == 0;
}

int
main(int argc, char **argv)
{
	struct dirent **entries;
	int			n = scandir(STORIES, &entries, is_story, alphasort);

	for (int i = 0; i < n; i++)
	{
		for (int k = 0; k < 2; k++)
		{
			bytewise = k == 1;
			snprintf(path, sizeof(path), STORIES "/%s", entries[i]->d_name);
			if (argc < 2 || strstr(entries[i]->d_name, argv[1]) != NULL)
				unit_run(test_story, psprintf("%s%s", entries[i]->d_name, k ? " byte by byte" : ""));
		}
		free(entries[i]);
	}
	if (n > 0)
		free(entries);
	CHECK(n > 0);
	return unit_finish();
}
