/*
 * sockets.c: see sockets.h.
 */
#include "sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

/* Descriptors from here on are ours. */
#define FIRST_FD	1000
#define MAX_FDS		64

static const char *first;		/* not received yet */
static MosqlBytes *input;
static MosqlBytes piece;		/* of the input, not received yet */
static bool is_open[MAX_FDS];
static int	nopen;

MosqlRedis *
sockets_open(const MosqlRedisConfig *config, const char *first_reply, MosqlBytes *in)
{
	first = first_reply;
	input = in;
	piece = MOSQL_ABSENT;
	memset(is_open, 0, sizeof(is_open));
	nopen = 0;
	return mosql_redis_open(config, CurrentMemoryContext);
}

bool
sockets_closed(void)
{
	return nopen == 0;
}

static bool
at_end(void)
{
	return (first == NULL || *first == '\0') && piece.len == 0 && input->len == 0;
}

/* ---- what the client calls instead of the system ---- */

extern int	__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
extern int	__wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
							   struct addrinfo **res);
extern void __wrap_freeaddrinfo(struct addrinfo *a);
extern int	__wrap_socket(int domain, int type, int protocol);
extern int	__wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
extern int	__wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
extern int	__wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
extern int	__wrap_fcntl(int fd, int command, ...);
extern int	__wrap_close(int fd);
extern ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
extern ssize_t __wrap_recv(int fd, void *data, size_t len, int flags);

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	int			ready = 0;

	for (nfds_t i = 0; i < n; i++)
	{
		fds[i].revents = fds[i].events;
		ready += fds[i].events != 0;
	}
	fuzz_now_us += ready > 0 ? 10 : Max(timeout_ms, 1) * 1000;
	return ready;
}

int
__wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
				   struct addrinfo **res)
{
	static struct sockaddr_in address = {.sin_family = AF_INET};

	*res = calloc(1, sizeof(struct addrinfo));
	(*res)->ai_family = AF_INET;
	(*res)->ai_addr = (struct sockaddr *) &address;
	(*res)->ai_addrlen = sizeof(address);
	return 0;
}

void
__wrap_freeaddrinfo(struct addrinfo *a)
{
	free(a);
}

int
__wrap_socket(int domain, int type, int protocol)
{
	for (int i = 0; i < MAX_FDS; i++)
		if (!is_open[i])
		{
			is_open[i] = true;
			nopen++;
			return FIRST_FD + i;
		}
	errno = EMFILE;
	return -1;
}

int
__wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
	if (!at_end())
		return 0;
	errno = ECONNREFUSED;
	return -1;
}

int
__wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	return 0;
}

int
__wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	*(int *) value = 0;
	return 0;
}

int
__wrap_fcntl(int fd, int command, ...)
{
	return 0;
}

int
__wrap_close(int fd)
{
	MUST(fd >= FIRST_FD && fd < FIRST_FD + MAX_FDS && is_open[fd - FIRST_FD]);
	is_open[fd - FIRST_FD] = false;
	nopen--;
	return 0;
}

ssize_t
__wrap_send(int fd, const void *data, size_t len, int flags)
{
	/* all of it is readable, as far as the sanitizer knows */
	(void) fuzz_hash(mosql_bytes(data, len));
	return (ssize_t) len;
}

ssize_t
__wrap_recv(int fd, void *data, size_t len, int flags)
{
	MUST(is_open[fd - FIRST_FD]);
	if (flags & MSG_PEEK)
	{
		errno = EAGAIN;
		return -1;
	}
	if (first != NULL && *first != '\0')
	{
		len = Min(len, strlen(first));
		memcpy(data, first, len);
		first += len;
		return (ssize_t) len;
	}
	if (piece.len == 0 && input->len > 0)
		piece = fuzz_run(input);
	len = Min(len, piece.len);
	if (len > 0)
		memcpy(data, piece.data, len);
	piece.data += len;
	piece.len -= len;
	return (ssize_t) len;
}
