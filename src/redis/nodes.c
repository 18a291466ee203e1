/*
 * nodes.c: lists of server addresses: "host:port,[2001:db8::1]:port", or "/path/of/a/socket".
 *
 * Layer: redis.
 */
#include "redis/redis_int.h"

#include <ctype.h>
#include <sys/un.h>

/* The number in text[0 .. len), or -1 if it is no TCP port. */
static int
parse_port(const char *text, size_t len)
{
	int			port = 0;

	if (len == 0 || len > 5)
		return -1;
	for (size_t i = 0; i < len; i++)
	{
		if (!isdigit((unsigned char) text[i]))
			return -1;
		port = port * 10 + (text[i] - '0');
	}
	return port >= 1 && port <= 65535 ? port : -1;
}

/* The path of a Unix-domain socket, as PostgreSQL's own clients know it by its slash. */
static const char *
parse_path(const char *text, int len)
{
	return len < (int) sizeof(((struct sockaddr_un *) NULL)->sun_path) ? NULL : "The path of a socket is too long.";
}

/* Host and port of one list element, which has no blanks around it. */
static const char *
parse_element(const char *text, int len, const char **host, int *host_len, int *port)
{
	const char *colon;

	if (len == 0)
		return "An address is empty.";
	if (text[0] == '/')
	{
		*host = text;
		*host_len = len;
		*port = 0;
		return parse_path(text, len);
	}
	if (text[0] == '[')
	{
		const char *close = memchr(text, ']', len);

		if (close == NULL)
			return "An IPv6 address has no closing bracket.";
		if (close + 1 == text + len || close[1] != ':')
			return "A port is missing after an IPv6 address in brackets.";
		*host = text + 1;
		*host_len = close - *host;
		colon = close + 1;
	}
	else
	{
		colon = memchr(text, ':', len);
		if (colon == NULL)
			return "An address has no port: write host:port.";
		if (memchr(colon + 1, ':', text + len - (colon + 1)) != NULL)
			return "An IPv6 address must be enclosed in brackets: [address]:port.";
		*host = text;
		*host_len = colon - text;
	}
	if (*host_len == 0)
		return "A host name is empty.";
	for (int i = 0; i < *host_len; i++)
		if (isspace((unsigned char) (*host)[i]))
			return "A host name contains a blank.";
	*port = parse_port(colon + 1, text + len - (colon + 1));
	return *port < 0 ? "A port is not a number from 1 to 65535." : NULL;
}

const char *
mosql_nodes_next(const char **list, const char **host, int *host_len, int *port)
{
	const char *begin = *list;
	const char *end = strchr(begin, ',');

	*list = end != NULL ? end + 1 : NULL;
	if (end == NULL)
		end = begin + strlen(begin);
	while (begin < end && isspace((unsigned char) *begin))
		begin++;
	while (end > begin && isspace((unsigned char) end[-1]))
		end--;
	return parse_element(begin, end - begin, host, host_len, port);
}

const char *
mosql_redis_check_nodes(const char *nodes)
{
	while (nodes != NULL)
	{
		const char *host;
		int			host_len;
		int			port;
		const char *wrong = mosql_nodes_next(&nodes, &host, &host_len, &port);

		if (wrong != NULL)
			return wrong;
	}
	return NULL;
}

/* Shown in errors and views as it is: see MOSQL_HOST_MAX_BYTES. */
bool
mosql_nodes_is_host(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return len <= MOSQL_HOST_MAX_BYTES;
}

/* Redirections carry no brackets: "::1:7000". */
bool
mosql_nodes_split(const char *address, int *host_len, int *port)
{
	const char *colon = strrchr(address, ':');

	if (colon == NULL)
		return false;
	*host_len = colon - address;
	*port = parse_port(colon + 1, strlen(colon + 1));
	return *port > 0 && mosql_nodes_is_host(address, *host_len);
}
