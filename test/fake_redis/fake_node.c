/*
 * fake_node.c: a server that expects what its script says and answers so.
 *
 * A process of its own, plain C, one connection at a time.
 */
#include "story.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_MAX (1 << 20)

typedef struct FakeNode
{
	const Story *story;
	int			node;
	int			listener;		/* -1: the node is down */
	int			conn;			/* -1: none */
	int			step;			/* line of the script */
	const char *slots;			/* "0-99=0,100-16383=1", or NULL: no cluster */
	const char *always;			/* the answer to what is not expected, or NULL */
	char	   *buffer;			/* received */
	int			len;
	bool		hurry;			/* no pauses between bytes */
	bool		failed;
} FakeNode;

static void
complain(FakeNode *f, int line, const char *what, const char *got)
{
	printf("#   %s:%d: node %d: %s%s\n", f->story->name, line, f->node, what, got);
	fflush(stdout);
	f->failed = true;
}

/* The next line of the script that is this node's, or NULL. */
static const StoryLine *
current_step(FakeNode *f)
{
	for (; f->step < f->story->nlines; f->step++)
	{
		const StoryLine *line = &f->story->lines[f->step];

		if (line->words[0][0] == '0' + f->node && line->words[0][1] == '\0')
			return line;
	}
	return NULL;
}

static void
hang_up(FakeNode *f)
{
	if (f->conn >= 0)
		close(f->conn);
	f->conn = -1;
	f->len = 0;
}

static void
send_bytes(FakeNode *f, const char *data, size_t len)
{
	size_t		piece = f->story->bytewise ? 1 : len;

	for (size_t at = 0; at < len && f->conn >= 0; at += piece)
	{
		if (send(f->conn, data + at, piece, MSG_NOSIGNAL) < 0)
			hang_up(f);
		else if (f->story->bytewise && len < 200 && !f->hurry)
			usleep(300);
	}
}

/* Escapes \r \n \0 \\, and $PORT0 ... for the ports of the nodes. */
static void
send_escaped(FakeNode *f, const char *text)
{
	char		out[4096];
	size_t		n = 0;

	for (; *text != '\0' && n < sizeof(out) - 16; text++)
	{
		if (strncmp(text, "$PORT", 5) == 0)
		{
			n += snprintf(out + n, 16, "%d", f->story->ports[text[5] - '0']);
			text += 5;
		}
		else if (*text == '\\')
		{
			text++;
			out[n++] = *text == 'r' ? '\r' : *text == 'n' ? '\n' : *text == '0' ? '\0' : *text;
		}
		else
			out[n++] = *text;
	}
	send_bytes(f, out, n);
}

/* The answer to CLUSTER SLOTS. */
static void
send_slots(FakeNode *f)
{
	char		out[2048];
	char		ranges[1536];
	int			n = 0;
	int			count = 0;

	if (f->slots == NULL)
	{
		send_escaped(f, "-ERR This instance has cluster support disabled\\r\\n");
		return;
	}
	for (const char *p = f->slots; p != NULL && *p != '\0';)
	{
		int			from;
		int			to;
		int			node;

		if (sscanf(p, "%d-%d=%d", &from, &to, &node) != 3)
			break;
		n += snprintf(ranges + n, sizeof(ranges) - n,
					  "*3\r\n:%d\r\n:%d\r\n*3\r\n$9\r\n127.0.0.1\r\n:%d\r\n$2\r\nid\r\n",
					  from, to, f->story->ports[node]);
		count++;
		p = strchr(p, ',');
		if (p != NULL)
			p++;
	}
	ranges[n] = '\0';
	n = snprintf(out, sizeof(out), "*%d\r\n%s", count, ranges);
	f->hurry = true;
	send_bytes(f, out, n);
}

/* So many strings of so many bytes, as fast as they are taken. */
static void
flood(FakeNode *f, int strings, int len)
{
	char		data[64 * 1024];
	int			n = 0;

	while (strings > 0 && f->conn >= 0)
	{
		for (n = 0; strings > 0 && n + len + 32 < sizeof(data); strings--)
		{
			n += sprintf(data + n, "$%d\r\n", len);
			memset(data + n, 'x', len);
			n += len + sprintf(data + n + len, "\r\n");
		}
		for (int sent = 0; sent < n && f->conn >= 0;)
		{
			ssize_t		took = send(f->conn, data + sent, n - sent, MSG_NOSIGNAL);

			if (took < 0)
				hang_up(f);
			else
				sent += took;
		}
	}
}

/* Do the steps up to the next EXPECT. */
static void
act(FakeNode *f)
{
	const StoryLine *line;

	while ((line = current_step(f)) != NULL && strcmp(line->words[1], "EXPECT") != 0)
	{
		const char *verb = line->words[1];

		f->step++;
		f->hurry = false;
		if (strcmp(verb, "SEND") == 0)
			send_escaped(f, line->rest);
		else if (strcmp(verb, "BULK") == 0)
		{
			int			len = atoi(line->words[2]);
			char	   *data = malloc(len + 64);
			int			n = sprintf(data, "$%d\r\n", len);

			memset(data + n, 'x', len);
			memcpy(data + n + len, "\r\n", 2);
			send_bytes(f, data, n + len + 2);
			free(data);
		}
		else if (strcmp(verb, "FLOOD") == 0)
			flood(f, atoi(line->words[2]), atoi(line->words[3]));
		else if (strcmp(verb, "SLEEP") == 0)
			usleep(1000 * atoi(line->words[2]));
		else if (strcmp(verb, "SLOTS") == 0)
			f->slots = line->words[2];
		else if (strcmp(verb, "ALWAYS") == 0)
			f->always = line->rest;
		else if (strcmp(verb, "CLOSE") == 0)
			hang_up(f);
		else if (strcmp(verb, "DOWN") == 0)
		{
			hang_up(f);
			close(f->listener);
			f->listener = -1;
		}
		else
			complain(f, line->number, "unknown verb ", verb);
	}
}

/*
 * Take one command off the buffer, its words joined by blanks.  Returns false
 * if it is not complete.
 */
static bool
take_command(FakeNode *f, char *command, size_t size)
{
	char	   *p = f->buffer;
	char	   *end = f->buffer + f->len;
	char	   *eol;
	int			argc;

	command[0] = '\0';
	if (f->len < 4 || (eol = memchr(p, '\n', end - p)) == NULL)
		return false;
	argc = atoi(p + 1);
	p = eol + 1;
	for (int i = 0; i < argc; i++)
	{
		long		len;

		if (p >= end || (eol = memchr(p, '\n', end - p)) == NULL)
			return false;
		len = atol(p + 1);
		p = eol + 1;
		if (end - p < len + 2)
			return false;
		if (strlen(command) + len + 2 < size)
			snprintf(command + strlen(command), size - strlen(command), "%s%.*s",
					 i > 0 ? " " : "", (int) len, p);
		p += len + 2;
	}
	f->len = end - p;
	memmove(f->buffer, p, f->len);
	return true;
}

static void
hear_commands(FakeNode *f)
{
	char		command[4096];

	while (f->conn >= 0 && take_command(f, command, sizeof(command)))
	{
		const StoryLine *line = current_step(f);
		bool		expected = line != NULL && strcmp(line->rest, command) == 0;

		if (expected)
		{
			f->step++;
			act(f);
		}
		else if (strcmp(command, "CLUSTER SLOTS") == 0)
			send_slots(f);
		else if (f->always != NULL)
		{
			f->hurry = true;
			send_escaped(f, f->always);
		}
		else
		{
			complain(f, line != NULL ? line->number : 0, "unexpected: ", command);
			send_escaped(f, "-ERR unexpected\\r\\n");
		}
	}
}

static void
receive(FakeNode *f)
{
	ssize_t		n = recv(f->conn, f->buffer + f->len, BUFFER_MAX - f->len, 0);

	if (n <= 0)
	{
		hang_up(f);
		return;
	}
	f->len += n;
	hear_commands(f);
}

int
fake_node_play(const Story *story, int node, int listener, int control)
{
	FakeNode	f = {.story = story, .node = node, .listener = listener, .conn = -1};
	const StoryLine *line;

	f.buffer = malloc(BUFFER_MAX);
	act(&f);
	for (;;)
	{
		struct pollfd polls[3] = {{control, POLLIN, 0},
		{f.conn < 0 ? f.listener : -1, POLLIN, 0}, {f.conn, POLLIN, 0}};

		if (poll(polls, 3, -1) < 0 && errno != EINTR)
			break;
		if (polls[2].revents != 0)
			receive(&f);
		else if (polls[1].revents != 0)
		{
			int			on = 1;

			f.conn = accept(f.listener, NULL, NULL);
			(void) setsockopt(f.conn, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		}
		else if (polls[0].revents != 0)
			break;
	}
	line = current_step(&f);
	if (line != NULL)
		complain(&f, line->number, "never happened: ", line->rest);
	free(f.buffer);
	return f.failed ? 1 : 0;
}
