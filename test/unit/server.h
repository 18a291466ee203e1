/*
 * server.h: a redis-server of a test's own, plain, without persistence.
 *
 * Started on a free port with its files in <top>/tmp, killed when the test
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

#include "redis/redis.h"

static pid_t server_pid;
static pid_t server_owner;
static int	server_port;

static inline int
server_free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t	len = sizeof(address);
	int			fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *) &address, len) != 0 ||
		getsockname(fd, (struct sockaddr *) &address, &len) != 0)
		abort();
	close(fd);
	return ntohs(address.sin_port);
}

static inline bool
server_answers(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,.sin_addr.s_addr = htonl(INADDR_LOOPBACK),.sin_port = htons(port)};
	int			fd = socket(AF_INET, SOCK_STREAM, 0);
	bool		ok = connect(fd, (struct sockaddr *) &address, sizeof(address)) == 0;
	char		buf[16] = "";

	ok = ok && write(fd, "PING\r\n", 6) == 6 && read(fd, buf, sizeof(buf) - 1) > 0 && buf[0] == '+';
	close(fd);
	return ok;
}

static inline void
server_stop(void)
{
	if (server_pid > 0 && getpid() == server_owner)
	{
		kill(server_pid, SIGKILL);
		waitpid(server_pid, NULL, 0);
	}
	server_pid = 0;
}

static inline void
server_start(void)
{
	char		dir[64];
	char		port[16];
	const char *top = access("../../src/base/base.h", R_OK) == 0 ? "../.." : ".";

	server_port = server_free_port();
	snprintf(port, sizeof(port), "%d", server_port);
	snprintf(dir, sizeof(dir), "%s/tmp", top);
	(void) mkdir(dir, 0777);
	snprintf(dir, sizeof(dir), "%s/tmp/redis-%s", top, port);
	(void) mkdir(dir, 0777);
	fflush(NULL);
	server_owner = getpid();
	server_pid = fork();
	if (server_pid == 0)
	{
		int			null = open("/dev/null", O_RDWR);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1",
			   "--dir", dir, "--save", "", "--appendonly", "no",
			   "--hash-max-listpack-entries", "256", "--hash-max-listpack-value", "512",
			   (char *) NULL);
		_exit(127);
	}
	atexit(server_stop);
	for (int i = 0; i < 500 && !server_answers(server_port); i++)
		usleep(10000);
	(void) rmdir(dir);			/* nothing is kept there */
	if (!server_answers(server_port))
	{
		fprintf(stderr, "redis-server does not start\n");
		exit(1);
	}
}

/* A client of that server, in the current context. */
static inline MosqlRedis *
server_client(int timeout_ms)
{
	MosqlRedisConfig config = {0};

	config.nodes = psprintf("127.0.0.1:%d", server_port);
	config.connect_timeout_ms = 5000;
	config.command_timeout_ms = timeout_ms;
	return mosql_redis_open(&config, CurrentMemoryContext);
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

/*
 * Run work(i) in n processes at once; the sum of what they exit with: work
 * returns the number of its failures.
 */
static inline int
server_fork(int n, int (*work) (int i))
{
	int			failures = 0;

	fflush(NULL);
	for (int i = 0; i < n; i++)
		if (fork() == 0)
		{
			volatile int bad = 100;

			PG_TRY();
			{
				bad = work(i);
			}
			PG_CATCH();
			{
				FlushErrorState();
			}
			PG_END_TRY();
			fflush(NULL);
			_exit(Min(bad, 100));
		}
	for (int i = 0; i < n; i++)
	{
		int			status;

		/* not the server, which is a child too */
		pid_t		pid = waitpid(0, &status, 0);

		if (pid == server_pid)
			abort();
		failures += WIFEXITED(status) ? WEXITSTATUS(status) : 100;
	}
	return failures;
}

#endif							/* UNIT_SERVER_H */
