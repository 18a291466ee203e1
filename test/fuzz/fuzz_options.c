/*
 * fuzz_options.c: options of servers, user mappings, tables and columns.
 *
 * Input: a byte that chooses where they stand, then name and value by turns, a
 * line each.  What passes the check is read back, and lies in its bounds.
 */
#include "fuzz.h"

#include "catalog/pg_attribute.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "nodes/parsenodes.h"
#include "nodes/value.h"

#include "fdw/fdw_int.h"
#include "redis/redis_int.h"
#include "server.h"

const int	fuzz_errors[] = {
	ERRCODE_FDW_INVALID_OPTION_NAME, ERRCODE_FDW_INVALID_STRING_FORMAT,
	ERRCODE_INSUFFICIENT_PRIVILEGE, 0
};

#define OPTIONS_MAX 8

/* The next line without its end; never NULL. */
static char *
next_line(MosqlBytes *in)
{
	const char *end = in->len > 0 ? memchr(in->data, '\n', in->len) : NULL;
	size_t		len = end ? end - in->data : in->len;
	char	   *line = pnstrdup(in->len > 0 ? in->data : "", len);

	in->data += Min(len + 1, in->len);
	in->len -= Min(len + 1, in->len);
	return line;
}

/* What read the list, read all of it the same way. */
static void
check_nodes(const char *nodes)
{
	const char *host;
	int			host_len;
	int			port;

	if (mosql_redis_check_nodes(nodes) != NULL)
		return;
	while (nodes != NULL)
	{
		MUST(mosql_nodes_next(&nodes, &host, &host_len, &port) == NULL);
		MUST(host_len > 0 && port <= 65535);
		MUST(port >= 1 || (port == 0 && host[0] == '/'));
		(void) fuzz_hash(mosql_bytes(host, host_len));
	}
}

static void
check_redirection(const char *address)
{
	int			host_len;
	int			port;

	if (mosql_nodes_split(address, &host_len, &port))
		MUST(host_len >= 0 && host_len < strlen(address) && port >= 1 && port <= 65535);
}

/* The setting, which the option overrides. */
int			mosql_txn_locking = MOSQL_OPTIMISTIC;

static List *
make_options(MosqlBytes *in)
{
	List	   *list = palloc0(offsetof(List, initial_elements) + OPTIONS_MAX * sizeof(ListCell));

	list->type = T_List;
	list->max_length = OPTIONS_MAX;
	list->elements = list->initial_elements;
	while (in->len > 0 && list->length < OPTIONS_MAX)
	{
		DefElem    *def = palloc0(sizeof(DefElem));
		String	   *value = palloc0(sizeof(String));

		def->type = T_DefElem;
		def->defname = next_line(in);
		value->type = T_String;
		value->sval = next_line(in);
		def->arg = (Node *) value;
		list->elements[list->length++].ptr_value = def;
		check_nodes(value->sval);
		check_redirection(value->sval);
	}
	return list->length > 0 ? list : NIL;
}

void
fuzz_one(MosqlBytes in)
{
	static const Oid catalogs[] = {
		ForeignServerRelationId, ForeignTableRelationId, UserMappingRelationId, AttributeRelationId
	};
	Oid			catalog = catalogs[fuzz_byte(&in) % lengthof(catalogs)];
	MosqlFdwOptions *options;

	server_options = make_options(&in);
	mosql_fdw_check_options(server_options, catalog);
	if (catalog != ForeignServerRelationId)
		return;
	options = mosql_fdw_options(InvalidOid, 1, InvalidOid);
	MUST(mosql_redis_check_nodes(options->session.redis.nodes) == NULL);
	MUST(strlen(options->session.ns) > 0 && strlen(options->session.ns) <= 48);
	MUST(options->session.redis.connect_timeout_ms > 0);
	MUST(options->session.redis.command_timeout_ms > 0);
	MUST(options->batch_size >= 1 && options->batch_size <= 100000 && options->fetch_size >= 0);
	MUST(options->startup_cost >= 0 && options->tuple_cost >= 0);
}
