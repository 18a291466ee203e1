/*
 * server.h: Redis (or Valkey) servers of a test's own, without persistence.
 *
 * Started on free ports with their files in <top>/tmp, killed when the test
 * ends, however it ends.
 */
#ifndef UNIT_SERVER_H
#define UNIT_SERVER_H

#include "postgres.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pgstub.h"
#include "redis/redis.h"

#define SERVERS_MAX 4

typedef struct Server
{
	pid_t		pid;
	int			port;
	char		dir[64];
} Server;

static Server servers[SERVERS_MAX];
static int	nservers;
static pid_t server_owner;

/* The first one is the plain server that most tests use. */
#define server_pid (servers[0].pid)
#define server_port (servers[0].port)

static inline struct sockaddr_in
server_address(int port)
{
	return (struct sockaddr_in) {
		.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK),.sin_port = htons(port)
	};
}

/* A port that is free, and the cluster bus's (+ 10000) too. */
static inline int
server_free_port(void)
{
	for (int port = 21000 + getpid() % 9000;; port++)
	{
		bool		is_free = true;

		for (int bus = 0; bus <= 10000; bus += 10000)
		{
			struct sockaddr_in address = server_address(port + bus);
			int			fd = socket(AF_INET, SOCK_STREAM, 0);
			int			on = 1;

			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
			is_free &= bind(fd, (struct sockaddr *) &address, sizeof(address)) == 0;
			close(fd);
		}
		if (is_free)
			return port;
	}
}

/* One command, in plain words, to one server: the raw reply, "" if none. */
static inline const char *
server_raw(int port, const char *command)
{
	static char buf[16384];
	struct sockaddr_in address = server_address(port);
	struct timeval timeout = {5, 0};
	int			fd = socket(AF_INET, SOCK_STREAM, 0);
	ssize_t		len = 0;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (struct sockaddr *) &address, sizeof(address)) == 0 &&
		write(fd, command, strlen(command)) == (ssize_t) strlen(command) &&
		write(fd, "\r\n", 2) == 2)
		len = read(fd, buf, sizeof(buf) - 1);
	close(fd);
	buf[Max(len, 0)] = '\0';
	return buf;
}

static inline void
server_stop(void)
{
	char		path[128];

	if (getpid() != server_owner)
		return;
	while (nservers > 0)
	{
		Server	   *server = &servers[--nservers];

		kill(server->pid, SIGKILL);
		waitpid(server->pid, NULL, 0);
		snprintf(path, sizeof(path), "%s/nodes.conf", server->dir);
		(void) unlink(path);
		(void) rmdir(server->dir);
	}
}

static inline Server *
server_start(bool cluster)
{
	Server	   *server = &servers[nservers++];
	char		port[16];
	const char *top = access("../../src/base/base.h", R_OK) == 0 ? "../.." : ".";

	if (server_owner == 0)
		atexit(server_stop);
	server_owner = getpid();
	server->port = server_free_port();
	snprintf(port, sizeof(port), "%d", server->port);
	snprintf(server->dir, sizeof(server->dir), "%s/tmp", top);
	(void) mkdir(server->dir, 0777);
	snprintf(server->dir, sizeof(server->dir), "%s/tmp/redis-%s", top, port);
	(void) mkdir(server->dir, 0777);
	fflush(NULL);
	server->pid = fork();
	if (server->pid == 0)
	{
		static const char *const programs[] = {"redis-server", "valkey-server"};
		int			null = open("/dev/null", O_RDWR);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		for (int i = 0; i < 2; i++)		/* the first one that is installed */
			execlp(programs[i], programs[i], "--port", port, "--bind", "127.0.0.1",
				   "--dir", server->dir, "--save", "", "--appendonly", "no",
				   "--hash-max-listpack-entries", "256", "--hash-max-listpack-value", "512",
				   "--cluster-enabled", cluster ? "yes" : "no",
				   (char *) NULL);
		_exit(127);
	}
	for (int i = 0; i < 500 && server_raw(server->port, "PING")[0] != '+'; i++)
		usleep(10000);
	if (server_raw(server->port, "PING")[0] != '+')
	{
		fprintf(stderr, "neither redis-server nor valkey-server starts\n");
		exit(1);
	}
	return server;
}

/* A client of a server, in the current context. */
static inline MosqlRedis *
server_client_of(const Server *server, int timeout_ms)
{
	MosqlRedisConfig config = {0};

	config.nodes = psprintf("127.0.0.1:%d", server->port);
	config.connect_timeout_ms = 5000;
	config.command_timeout_ms = timeout_ms;
	return mosql_redis_open(&config, CurrentMemoryContext);
}

static inline MosqlRedis *
server_client(int timeout_ms)
{
	return server_client_of(&servers[0], timeout_ms);
}

/* Run one command given as words; the reply lives in the current context. */
#define server_command(redis, ...) \
	server_command_words(redis, lengthof(((const char *[]) {__VA_ARGS__})), \
						 (const char *[]) {__VA_ARGS__})

static inline const MosqlReply *
server_command_words(MosqlRedis *redis, int n, const char *const *words)
{
	MosqlBatch *batch = mosql_batch_create(redis, CurrentMemoryContext);
	MosqlBytes *argv = palloc(n * sizeof(MosqlBytes));

	for (int i = 0; i < n; i++)
		argv[i] = mosql_bytes(words[i], strlen(words[i]));
	mosql_batch_add(batch, n > 1 ? mosql_redis_slot(argv[1]) : 0, MOSQL_SEND_REPEATABLE, n, argv);
	mosql_batch_run(batch, NULL);
	return mosql_batch_reply(batch, 0, 0);
}

#define SERVER_WORKERS_MAX 16

static pid_t server_workers[SERVER_WORKERS_MAX];

/* Start work(i) in n processes. */
static inline void
server_fork_start(int n, int (*work) (int i))
{
	Assert(n <= SERVER_WORKERS_MAX);
	fflush(NULL);
	for (int i = 0; i < n; i++)
	{
		server_workers[i] = fork();
		if (server_workers[i] == 0)
		{
			volatile int bad = 100;

			PG_TRY();
			{
				bad = work(i);
			}
			PG_CATCH();
			{
				pgstub_error_take();
				printf("# worker %d: %s %s\n", i, pgstub_sqlstate(pgstub_error.sqlstate),
					   pgstub_error.message);
			}
			PG_END_TRY();
			fflush(NULL);
			_exit(Min(bad, 100));
		}
	}
}

/* The sum of what they exit with: work returns the number of its failures. */
static inline int
server_fork_wait(int n)
{
	int			failures = 0;

	for (int i = 0; i < n; i++)
	{
		int			status;

		waitpid(server_workers[i], &status, 0);
		failures += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
	}
	return failures;
}

static inline int
server_fork(int n, int (*work) (int i))
{
	server_fork_start(n, work);
	return server_fork_wait(n);
}

#endif							/* UNIT_SERVER_H */
