/*
 * network.c: sockets between front-ends and Redis servers.
 *
 * The product's client runs as it is: the linker leads its calls of the socket
 * functions here (--wrap).  Bytes of one connection arrive in order, each message after
 * a time of its own; a connection may break at any message, and what was under way then
 * arrives or does not, or arrives when its sender has long gone on.
 */
#include "fault.h"
#include "locks.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#define FD_BASE		10000

/*
 * Messages of one transaction, or one round of maintenance: of a tenth nobody has need, be
 * the network as bad as it may.  Who sends more goes in a circle.
 */
#define SENT_MAX	30000

typedef enum SocketState
{
	SOCKET_NEW, SOCKET_CONNECTING, SOCKET_OPEN, SOCKET_REFUSED, SOCKET_BROKEN, SOCKET_CLOSED
} SocketState;

typedef struct Bytes
{
	char	   *data;
	size_t		len;
	size_t		size;
	size_t		at;				/* read so far */
} Bytes;

typedef struct SimSocket
{
	int			fd;
	SimFrontEnd *fe;
	SocketState state;			/* as its front-end sees it */
	Bytes		in;				/* arrived there */
	int64		last_up_us;		/* arrival of the last message to the server */
	int64		last_down_us;
	int64		cut_us;			/* what arrives from then on is lost; 0: not cut */
	Bytes		server_in;		/* arrived at the server */
	Bytes		server_out;		/* room for what it answers */
	uint64		server_epoch;	/* the server has not restarted since */
	SimClient	client;
} SimSocket;

typedef struct Message
{
	SimSocket  *socket;
	bool		misleads;		/* of an isolated primary */
	bool		loses;			/* aim.c: the server does what it says, and dies */
	int64		dies_after_us;
	size_t		len;
	char		data[FLEXIBLE_ARRAY_MEMBER];
} Message;

SimNetwork	sim_network = {30, 300, 0, 0, 0};
uint64		sim_messages;

static SimSocket **sockets;
static SimSocket **waiting;		/* some of them, by WAIT, or no longer */
static int	nwaiting;
static int	maxwaiting;
static int	nsockets;
static int	maxsockets;

static void
append(Bytes *bytes, const char *data, size_t len)
{
	if (bytes->at == bytes->len)
		bytes->at = bytes->len = 0;
	if (bytes->len + len > bytes->size)
	{
		bytes->size = Max(2 * bytes->size, bytes->len + len + 1024);
		bytes->data = realloc(bytes->data, bytes->size);
	}
	memcpy(bytes->data + bytes->len, data, len);
	bytes->len += len;
}

static SimSocket *
socket_of(int fd)
{
	return fd >= FD_BASE && fd < FD_BASE + nsockets ? sockets[fd - FD_BASE] : NULL;
}

static void
notify(SimSocket *s)
{
	if (s->state != SOCKET_CLOSED)
		sim_wake(s->fe, s->fe->wake);
}

static int64
travel_us(void)
{
	int64		us = sim_between(sim_network.min_us, sim_network.max_us);

	if (sim_network.late_per_million > 0 && sim_below(1000000) < sim_network.late_per_million)
		us += sim_below(sim_network.late_max_us);
	return us;
}

/* When a message arrives that is sent now, behind another one. */
static int64
arrival_us(int64 previous_us)
{
	int64		us = sim_now_us + travel_us();

	return Max(us, previous_us + 1);
}

/* ---- breaking ---- */

static void
breaks(void *arg, uint64 tag)
{
	SimSocket  *s = arg;

	if (s->state == SOCKET_OPEN || s->state == SOCKET_CONNECTING)
	{
		s->state = SOCKET_BROKEN;
		notify(s);
	}
}

/* From that time on nothing arrives; the front-end learns of it then, or later. */
static void
cut(SimSocket *s, int64 from_us)
{
	if (s->cut_us != 0 || s->state == SOCKET_CLOSED)
		return;
	s->cut_us = Max(from_us, 1);
	sim_at(from_us + sim_below(1000), breaks, s, 0);
}

void
sim_cut(SimFrontEnd *fe, SimServer *server)
{
	for (int i = 0; i < nsockets; i++)
	{
		SimSocket  *s = sockets[i];

		if ((fe == NULL || s->fe == fe) && (server == NULL || s->client.server == server) &&
			s->cut_us == 0 && s->state != SOCKET_CLOSED)
			cut(s, sim_now_us + (sim_chance(500) ? 0 : sim_below(2 * sim_network.max_us)));
	}
}

/* Its process ends: what it has not answered it never will, and what is late comes to no other one. */
void
sim_server_stops(SimServer *server)
{
	for (int i = 0; i < nsockets; i++)
	{
		SimSocket  *s = sockets[i];

		if (s->client.server != server)
			continue;
		if (s->cut_us > sim_now_us)
			s->cut_us = sim_now_us;
		cut(s, sim_now_us);
	}
}

/* Who reaches it no more waits for what will not come. */
void
sim_server_isolated(SimServer *server)
{
	for (int i = 0; i < nsockets; i++)
		if (sockets[i]->client.server == server && !sim_is_reached(sockets[i]->fe, server))
			cut(sockets[i], sim_now_us);
}

/* As replicationSetMaster(): who waits there is sent away, and what was written has no copies. */
void
sim_server_demoted(SimServer *server)
{
	static SimKey flushed = {.version = PG_UINT64_MAX};	/* what was watched has changed */

	for (int i = 0; i < nsockets; i++)
	{
		SimClient  *client = &sockets[i]->client;

		if (client->server != server)
			continue;
		if (client->waits || client->blocks)
			cut(sockets[i], sim_now_us);
		for (int w = 0; w < client->nwatched; w++)
			client->watched[w].key = &flushed;
		client->wrote = PG_UINT64_MAX;
	}
}

/* ---- to the front-end ---- */

static void
reply_arrives(void *arg, uint64 tag)
{
	Message    *message = arg;
	SimSocket  *s = message->socket;

	if (s->state == SOCKET_OPEN && (s->cut_us == 0 || sim_now_us < s->cut_us))
	{
		s->fe->misled |= message->misleads;
		append(&s->in, message->data, message->len);
		notify(s);
	}
	free(message);
}

static void
ship(SimSocket *s, const Bytes *bytes)
{
	Message    *message;

	if (bytes->len == 0)
		return;
	message = malloc(offsetof(Message, data) + bytes->len);
	message->socket = s;
	message->misleads = s->client.server->shard->isolated;
	if (message->misleads)
		claims_forgot_us = sim_now_us;	/* what was locked there nobody else knows */
	message->len = bytes->len;
	memcpy(message->data, bytes->data, bytes->len);
	s->last_down_us = arrival_us(s->last_down_us);
	sim_at(s->last_down_us, reply_arrives, message, 0);
}

/* ---- answers as bytes ---- */

typedef struct WireAnswer
{
	SimAnswer	answer;
	Bytes		out;
} WireAnswer;

static void
wire_head(WireAnswer *to, char type, int64 n)
{
	char		text[32];
	char	   *at = text + sizeof(text);
	uint64		left = n < 0 ? -(uint64) n : (uint64) n;

	*--at = '\n';
	*--at = '\r';
	do
		*--at = (char) ('0' + left % 10);
	while ((left /= 10) > 0);
	if (n < 0)
		*--at = '-';
	*--at = type;
	append(&to->out, at, text + sizeof(text) - at);
}

static void
wire_integer(SimAnswer *to, int64 value)
{
	wire_head((WireAnswer *) to, ':', value);
}

static void
wire_bulk(SimAnswer *to, MosqlBytes value)
{
	Bytes	   *out = &((WireAnswer *) to)->out;

	if (value.data == NULL)
	{
		wire_head((WireAnswer *) to, '$', -1);
		return;
	}
	wire_head((WireAnswer *) to, '$', (int64) value.len);
	append(out, value.data, value.len);
	append(out, "\r\n", 2);
}

static void
wire_array(SimAnswer *to, int n)
{
	wire_head((WireAnswer *) to, '*', n);
}

static void
wire_line(SimAnswer *to, char type, const char *text)
{
	Bytes	   *out = &((WireAnswer *) to)->out;

	append(out, &type, 1);
	append(out, text, strlen(text));
	append(out, "\r\n", 2);
}

static void
wire_status(SimAnswer *to, const char *text)
{
	wire_line(to, '+', text);
}

static void
wire_error(SimAnswer *to, const char *text)
{
	wire_line(to, '-', text);
}

/* ---- the server's side ---- */

/* "<type><n>\r\n" at *p: the number, and *p behind it; false: not all there. */
static bool
parse_number(const char **p, const char *end, int64 *n)
{
	const char *line = memchr(*p, '\n', end - *p);

	if (line == NULL)
		return false;
	*n = 0;
	for (const char *digit = *p + 1; digit < line && *digit >= '0' && *digit <= '9'; digit++)
		*n = *n * 10 + (*digit - '0');
	*p = line + 1;
	return true;
}

/* The next command that has arrived as a whole; its length, 0: none. */
static size_t
parse_command(const Bytes *in, int *argc, MosqlBytes **argv)
{
	static MosqlBytes *args;
	static int	max;
	const char *start = in->data + in->at;
	const char *p = start;
	const char *end = in->data + in->len;
	int64		n;

	if (p >= end || !parse_number(&p, end, &n))
		return 0;
	if (n > max)
		args = realloc(args, (max = (int) n + 64) * sizeof(MosqlBytes));
	for (int i = 0; i < n; i++)
	{
		int64		len;

		if (p >= end || !parse_number(&p, end, &len) || end - p < len + 2)
			return 0;
		args[i] = mosql_bytes(p, len);
		p += len + 2;
	}
	*argc = (int) n;
	*argv = args;
	return p - start;
}

/* A command as words: its name, its key, and the beginning of what follows, byte by byte. */
static void
trace_command(const SimSocket *s, int argc, const MosqlBytes *argv)
{
	char		text[256];
	int			n = 0;
	bool		script = argc > 3 && argv[0].len >= 4 && pg_strncasecmp(argv[0].data, "EVAL", 4) == 0;

	for (int i = script ? 3 : 1; i < argc && n < 160; i++)
	{
		text[n++] = ' ';
		for (size_t at = 0; at < argv[i].len && at < 48 && n < 200; at++)
			n += sprintf(text + n, argv[i].data[at] > ' ' && argv[i].data[at] < 127 ? "%c" : "\\%02x",
						 (uint8) argv[i].data[at]);
	}
	text[n] = '\0';
	sim_trace("server %d, of fe%d: %.*s%s", s->client.server->number, s->fe->number,
			  (int) Min(argv[0].len, 7), argv[0].data, text);
}

static bool is_served(const SimSocket *s);
static void wait_ends(void *arg, uint64 tag);
static void list_wait_ends(void *arg, uint64 tag);

/* ---- who waits for a list ---- */

static SimSocket **blocked;		/* in the order in which they began */
static int	nblocked;
static int	maxblocked;

static void
block(SimSocket *s)
{
	if (nblocked == maxblocked)
		blocked = realloc(blocked, (maxblocked = Max(64, 2 * maxblocked)) * sizeof(SimSocket *));
	blocked[nblocked++] = s;
	if (s->client.blocks_until_us < PG_INT64_MAX)
		sim_at(s->client.blocks_until_us, list_wait_ends, s, 0);
}

static void
unblock(SimSocket *s)
{
	int			at = 0;

	while (at < nblocked && blocked[at] != s)
		at++;
	if (at == nblocked)
		return;
	memmove(&blocked[at], &blocked[at + 1], (--nblocked - at) * sizeof(SimSocket *));
	s->client.blocks = false;
	free((char *) s->client.list.data);
	s->client.list = MOSQL_ABSENT;
}

static void
note_waiting(SimSocket *s)
{
	for (int i = 0; i < nwaiting; i++)
		if (waiting[i] == s)
			return;
	if (nwaiting == maxwaiting)
		waiting = realloc(waiting, (maxwaiting = Max(64, 2 * maxwaiting)) * sizeof(SimSocket *));
	waiting[nwaiting++] = s;
}

static void
serve(SimSocket *s)
{
	WireAnswer	to = {{wire_integer, wire_bulk, wire_array, wire_status, wire_error}, s->server_out};
	SimClient  *client = &s->client;
	SimShard   *shard = client->server->shard;
	uint64		before = shard->position;
	int			argc;
	MosqlBytes *argv;
	size_t		len;

	if (client->waits)
	{
		int			copies = sim_copies(shard, client->wrote);

		if (copies < client->wants && sim_now_us < client->waits_until_us)
			return;
		client->waits = false;
		to.answer.integer(&to.answer, copies);
	}
	while (!client->waits && !client->blocks && (len = parse_command(&s->server_in, &argc, &argv)) > 0)
	{
		if (sim_tracing)
			trace_command(s, argc, argv);
		sim_command(client, argc, argv, &to.answer);
		s->server_in.at += len;
		if (client->waits && sim_copies(shard, client->wrote) >= client->wants)
		{
			client->waits = false;
			to.answer.integer(&to.answer, sim_copies(shard, client->wrote));
		}
		else if (client->waits)
		{
			sim_at(client->waits_until_us, wait_ends, s, 0);
			note_waiting(s);
		}
		if (client->blocks)
			block(s);
	}
	if (shard->position != before)
		sim_replicate(shard);
	ship(s, &to.out);
	to.out.len = 0;
	s->server_out = to.out;
	if (shard->position != before)
		sim_check_lists();
}

static bool
is_served(const SimSocket *s)
{
	return s->client.server->up && (s->cut_us == 0 || sim_now_us < s->cut_us);
}

static void
wait_ends(void *arg, uint64 tag)
{
	SimSocket  *s = arg;

	if (s->client.waits && is_served(s))
		serve(s);
}

/* The wait of a client for a list is over: with an element, or what else there is to say. */
static void
unblock_with(SimSocket *s, bool popped, const char *error)
{
	WireAnswer	to = {{wire_integer, wire_bulk, wire_array, wire_status, wire_error}};

	if (popped)
	{
		(void) sim_list_pop(&s->client, &to.answer);
		sim_replicate(s->client.server->shard);
	}
	else if (error != NULL)
		to.answer.error(&to.answer, error);
	else
		to.answer.array(&to.answer, -1);
	unblock(s);
	ship(s, &to.out);
	free(to.out.data);
	serve(s);					/* what it has sent meanwhile */
}

static bool
list_has_some(const SimClient *client)
{
	const SimKey *key = sim_key(client->server->shard, client->list, false);

	return key != NULL && key->n > 0;
}

/* Something was written: who waits for it has it, in order. */
void
sim_check_lists(void)
{
	for (int i = 0; i < nblocked;)
		if (!is_served(blocked[i]))
			unblock(blocked[i]);
		else if (list_has_some(&blocked[i]->client) && sim_list_refused(&blocked[i]->client) == NULL)
		{
			unblock_with(blocked[i], true, NULL);
			i = 0;				/* others may have gone meanwhile */
		}
		else
			i++;
}

static void
list_wait_ends(void *arg, uint64 tag)
{
	SimSocket  *s = arg;

	if (s->client.blocks && s->client.blocks_until_us <= sim_now_us && is_served(s))
		unblock_with(s, false, NULL);
}

/* Now and then a server looks whether those who wait are still at the right one. */
void
sim_look_at_blocked(void)
{
	for (int i = 0; i < nblocked;)
		if (is_served(blocked[i]) && sim_list_refused(&blocked[i]->client) != NULL)
		{
			unblock_with(blocked[i], false, sim_list_refused(&blocked[i]->client));
			i = 0;
		}
		else
			i++;
}

/* Replicas have more than before. */
void
sim_check_waits(SimShard *shard)
{
	int			n = 0;

	for (int i = 0; i < nwaiting; i++)
		if (waiting[i]->client.waits && waiting[i]->client.server == shard->primary && is_served(waiting[i]))
			serve(waiting[i]);
	for (int i = 0; i < nwaiting; i++)
		if (waiting[i]->client.waits && is_served(waiting[i]))
			waiting[n++] = waiting[i];
	nwaiting = n;
}

static void
request_arrives(void *arg, uint64 tag)
{
	Message    *message = arg;
	SimSocket  *s = message->socket;

	if (is_served(s))
	{
		if (message->loses)
			aim_arrives(s->client.server->shard, message->dies_after_us);
		append(&s->server_in, message->data, message->len);
		serve(s);
	}
	else if (s->cut_us == 0)
		cut(s, sim_now_us);
	free(message);
}

static void
connected(void *arg, uint64 tag)
{
	SimSocket  *s = arg;

	if (s->state != SOCKET_CONNECTING)
		return;
	s->state = s->client.server->up && sim_is_reached(s->fe, s->client.server) ? SOCKET_OPEN : SOCKET_REFUSED;
	notify(s);
}

/* ---- what the product calls ---- */

extern int	__wrap_socket(int domain, int type, int protocol);
extern int	__wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
extern int	__wrap_fcntl(int fd, int command,...);
extern int	__wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
extern int	__wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
extern int	__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
extern ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
extern ssize_t __wrap_recv(int fd, void *data, size_t len, int flags);
extern int	__wrap_close(int fd);
extern int	__wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
							   struct addrinfo **result);
extern void __wrap_freeaddrinfo(struct addrinfo *address);

int
__wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
				   struct addrinfo **result)
{
	struct addrinfo *a = calloc(1, sizeof(struct addrinfo) + sizeof(struct sockaddr_in));
	struct sockaddr_in *in = (struct sockaddr_in *) (a + 1);

	in->sin_family = AF_INET;
	in->sin_port = htons((uint16) atoi(port));
	a->ai_family = AF_INET;
	a->ai_addr = (struct sockaddr *) in;
	a->ai_addrlen = sizeof(*in);
	*result = a;
	return 0;
}

void
__wrap_freeaddrinfo(struct addrinfo *address)
{
	free(address);
}

int
__wrap_socket(int domain, int type, int protocol)
{
	SimSocket  *s = calloc(1, sizeof(SimSocket));

	if (nsockets == maxsockets)
		sockets = realloc(sockets, (maxsockets = Max(64, 2 * maxsockets)) * sizeof(SimSocket *));
	s->fd = FD_BASE + nsockets;
	s->fe = sim_self;
	sockets[nsockets++] = s;
	return s->fd;
}

int
__wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
	SimSocket  *s = socket_of(fd);
	int			number = ntohs(((const struct sockaddr_in *) address)->sin_port) - 7000;

	Assert(number >= 0 && number < sim_nservers);
	s->client.server = &sim_servers[number];
	s->state = SOCKET_CONNECTING;
	sim_at(sim_now_us + travel_us(), connected, s, 0);
	errno = EINPROGRESS;
	return -1;
}

int
__wrap_fcntl(int fd, int command,...)
{
	return 0;
}

int
__wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	return 0;
}

int
__wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	*(int *) value = socket_of(fd)->state == SOCKET_OPEN ? 0 : ECONNREFUSED;
	return 0;
}

static short
ready(const SimSocket *s, short events)
{
	switch (s->state)
	{
		case SOCKET_OPEN:
			return (events & POLLOUT) | (s->in.at < s->in.len ? events & POLLIN : 0);
		case SOCKET_REFUSED:
		case SOCKET_BROKEN:
			return POLLERR | POLLHUP | events;
		default:
			return 0;
	}
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	int64		until_us = sim_now_us + (int64) timeout_ms * 1000;
	int			found = 0;

	for (;;)
	{
		bool		is_woken;

		for (nfds_t i = 0; i < n; i++)
		{
			fds[i].revents = ready(socket_of(fds[i].fd), fds[i].events);
			found += fds[i].revents != 0;
		}
		if (found > 0)
			return found;
		is_woken = sim_wait(until_us);
		for (nfds_t i = 0; i < n; i++)
			found += ready(socket_of(fds[i].fd), fds[i].events) != 0;
		if (found == 0 && !is_woken)
			return 0;
		if (found == 0)
		{
			errno = EINTR;
			return -1;
		}
		found = 0;
	}
}

/*
 * The connection breaks with what is sent now: that is lost, or arrives and the answer is lost, or
 * arrives after its sender has learnt of the break, and has sent it again perhaps.
 */
#define FATE_ARRIVES	1
#define FATE_LATE		2

static void
break_with_message(SimSocket *s, int fate)
{
	static const char *const fates[] = {"does not arrive", "arrives", "arrives late"};

	sim_trace("the connection to server %d breaks, what was sent %s", s->client.server->number, fates[fate]);
	if (fate == FATE_LATE)
	{
		sim_at(sim_now_us + sim_below(1000), breaks, s, 0);
		s->last_up_us += sim_below(sim_chance(800) ? 50000 : 8000000);
	}
	cut(s, s->last_up_us + (fate > 0));
}

static void
send_message(SimSocket *s, const void *data, size_t len)
{
	bool		breaks_now = sim_network.cut_per_million > 0 && sim_below(1000000) < sim_network.cut_per_million;
	AimStrike	hit = aim_sent(s->fe, s->client.server->shard);
	Message    *message = malloc(offsetof(Message, data) + len);

	message->socket = s;
	message->loses = hit.loses;
	message->dies_after_us = hit.dies_after_us;
	message->len = len;
	memcpy(message->data, data, len);
	sim_messages++;
	if (++s->fe->sent > SENT_MAX && s->fe->nest_level > 0)
		sim_fail("it has sent %d messages in one transaction, and goes on", SENT_MAX);
	s->last_up_us = arrival_us(s->last_up_us) + hit.late_us;
	fault_sent(s->fe);
	if (breaks_now || hit.breaks)
		break_with_message(s, !hit.breaks ? (int) sim_below(3) : hit.loses ? FATE_ARRIVES : FATE_LATE);
	sim_at(s->last_up_us, request_arrives, message, 0);
}

ssize_t
__wrap_send(int fd, const void *data, size_t len, int flags)
{
	SimSocket  *s = socket_of(fd);

	if (s->state != SOCKET_OPEN)
	{
		errno = ECONNRESET;
		return -1;
	}
	send_message(s, data, len);
	return (ssize_t) len;
}

ssize_t
__wrap_recv(int fd, void *data, size_t len, int flags)
{
	SimSocket  *s = socket_of(fd);
	size_t		n = Min(len, s->in.len - s->in.at);

	if (n == 0)
	{
		errno = s->state == SOCKET_OPEN ? EAGAIN : ECONNRESET;
		return -1;
	}
	memcpy(data, s->in.data + s->in.at, n);
	if ((flags & MSG_PEEK) == 0)
		s->in.at += n;
	return (ssize_t) n;
}

static void
hung_up(void *arg, uint64 tag)
{
	unblock(arg);
}

/* What was sent arrives all the same, and then that it was closed. */
int
__wrap_close(int fd)
{
	SimSocket  *s = socket_of(fd);

	if (s->state == SOCKET_OPEN)
		sim_at(arrival_us(s->last_up_us), hung_up, s, 0);

	s->state = SOCKET_CLOSED;
	free(s->in.data);
	s->in = (Bytes) {0};
	return 0;
}
