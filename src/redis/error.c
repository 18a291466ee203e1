/*
 * error.c: what goes wrong on the Redis side, as PostgreSQL errors.
 *
 * Layer: redis.  One table says what each error reply means; one function
 * turns replies, another turns failures of servers into ereport.
 */
#include "redis/redis_int.h"

typedef struct ErrorRule
{
	const char *prefix;			/* of the message */
	MosqlErrorClass class;
	bool		doubts_map;		/* the map may be out of date */
	int			sqlstate;
	const char *hint;
} ErrorRule;

/*
 * LATER and RAISE only for errors that come before execution: Redis checks
 * them when it accepts the command, or, in a script, before its first write.
 */
static const ErrorRule rules[] = {
	{"MOVED ", MOSQL_ERROR_MOVED, true, ERRCODE_CONNECTION_FAILURE,
	"The cluster is being reorganized; try again."},
	{"ASK ", MOSQL_ERROR_ASK, false, ERRCODE_CONNECTION_FAILURE,
	"The cluster is being reorganized; try again."},
	{"TRYAGAIN", MOSQL_ERROR_LATER, false, ERRCODE_CONNECTION_FAILURE,
	"The cluster is being reorganized; try again."},
	{"CLUSTERDOWN", MOSQL_ERROR_LATER, true, ERRCODE_CONNECTION_FAILURE,
	"A part of the cluster has no working primary; see CLUSTER INFO on that server."},
	{"LOADING", MOSQL_ERROR_LATER, true, ERRCODE_CANNOT_CONNECT_NOW,
	"The server is still loading its data from disk."},
	{"MASTERDOWN", MOSQL_ERROR_LATER, true, ERRCODE_CONNECTION_FAILURE,
	"The server is a replica that has lost its primary."},
	{"READONLY", MOSQL_ERROR_LATER, true, ERRCODE_READ_ONLY_SQL_TRANSACTION,
	"The server is a replica; in a cluster a failover may be under way."},
	{"BUSY ", MOSQL_ERROR_LATER, false, ERRCODE_CANNOT_CONNECT_NOW,
	"Another client's script runs for too long; see SCRIPT KILL."},
	{"ERR max number of clients", MOSQL_ERROR_LATER, false,	/* "reached"; with cluster mode "+ cluster connections reached" */
	ERRCODE_TOO_MANY_CONNECTIONS,
	"Raise the server's setting maxclients."},
	{"EXECABORT", MOSQL_ERROR_EXECABORT, false, ERRCODE_FDW_ERROR, NULL},
	{"NOAUTH", MOSQL_ERROR_RAISE, false, ERRCODE_INVALID_PASSWORD,
	"Set user and password in the user mapping."},
	{"WRONGPASS", MOSQL_ERROR_RAISE, false, ERRCODE_INVALID_PASSWORD,
	"Check user and password in the user mapping."},
	{"DENIED", MOSQL_ERROR_RAISE, false, ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
	"The server runs in protected mode; give it a password."},
	{"NOPERM", MOSQL_ERROR_RAISE, false, ERRCODE_INSUFFICIENT_PRIVILEGE,
	"Extend the rights of that Redis user with ACL SETUSER."},
	{"ERR The user executing the script can't", MOSQL_ERROR_OTHER, false,	/* Redis 7.0 */
	ERRCODE_INSUFFICIENT_PRIVILEGE, "Extend the rights of that Redis user with ACL SETUSER."},
	{"ERR ACL failure in script", MOSQL_ERROR_OTHER, false,		/* Redis 7.2 and later, Valkey */
	ERRCODE_INSUFFICIENT_PRIVILEGE, "Extend the rights of that Redis user with ACL SETUSER."},
	{"OOM", MOSQL_ERROR_RAISE, false, ERRCODE_OUT_OF_MEMORY,
	"Raise the server's setting maxmemory, or add nodes to the cluster."},
	{"MISCONF", MOSQL_ERROR_OTHER, false, ERRCODE_IO_ERROR,
	"The server cannot save its data; see its log."},
	{"NOREPLICAS", MOSQL_ERROR_OTHER, false, ERRCODE_INSUFFICIENT_RESOURCES,
	"Too few replicas are connected; see the server's setting min-replicas-to-write."},
	{"ERR unknown command 'WAITAOF'", MOSQL_ERROR_RAISE, false, ERRCODE_FEATURE_NOT_SUPPORTED,
	"Durability \"fsync\" needs Redis 7.2 or Valkey, or the server's setting appendfsync always."},
	{"ERR unknown command 'WAIT'", MOSQL_ERROR_RAISE, false, ERRCODE_FEATURE_NOT_SUPPORTED,
	"Durability \"replicated\" needs the server's command WAIT, under this name."},
	{"WRONGTYPE", MOSQL_ERROR_OTHER, false, ERRCODE_DATA_CORRUPTED,
	"Something else than this extension wrote under its keys."},
	{"", MOSQL_ERROR_OTHER, false, ERRCODE_FDW_ERROR, NULL}
};

static bool
starts_with(MosqlBytes message, const char *prefix)
{
	size_t		len = strlen(prefix);

	return message.len >= len && memcmp(message.data, prefix, len) == 0;
}

/*
 * The rule of a message.  EXECABORT may carry the cause: "EXECABORT Transaction
 * discarded because of: READONLY ..."; then the cause counts.
 */
static const ErrorRule *
find_rule(MosqlBytes message)
{
	static const char because[] = "EXECABORT Transaction discarded because of: ";
	const ErrorRule *rule = rules;

	if (starts_with(message, because))
	{
		MosqlBytes	cause = mosql_bytes(message.data + sizeof(because) - 1,
										message.len - (sizeof(because) - 1));
		const ErrorRule *inner = find_rule(cause);

		if (inner->class != MOSQL_ERROR_OTHER)
			return inner;
	}
	while (!starts_with(message, rule->prefix))
		rule++;					/* the last one matches everything */
	return rule;
}

MosqlErrorClass
mosql_error_classify(MosqlBytes message)
{
	return find_rule(message)->class;
}

bool
mosql_error_doubts_map(MosqlBytes message)
{
	return find_rule(message)->doubts_map;
}

bool
mosql_error_hangs_up(MosqlBytes message)
{
	return starts_with(message, "ERR max number of clients") ||
		starts_with(message, "DENIED");
}

int
mosql_error_sqlstate(MosqlBytes message)
{
	return find_rule(message)->sqlstate;
}

/* Its beginning, if it is long. */
const char *
mosql_error_text(char *text, size_t size, MosqlBytes said)
{
	size_t		len = Min(said.len, size - 1);

	for (size_t i = 0; i < len; i++)
		text[i] = said.data[i] < ' ' || said.data[i] > '~' ? '?' : said.data[i];
	text[len] = '\0';
	return text;
}

const char *
mosql_redis_text(MosqlBytes said)
{
	size_t		size = Min(said.len, 500) + 1;

	return mosql_error_text(palloc(size), size, said);
}

void
mosql_failure_set(MosqlFailure *failure, int sqlstate, const char *text)
{
	failure->sqlstate = sqlstate;
	strlcpy(failure->text, text, sizeof(failure->text));
}

/* Trying again with the same credentials is pointless, and may lock accounts. */
bool
mosql_failure_is_final(const MosqlFailure *failure)
{
	return failure->sqlstate == ERRCODE_INVALID_PASSWORD ||
		failure->sqlstate == ERRCODE_INSUFFICIENT_PRIVILEGE ||
		failure->sqlstate == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE ||
		failure->sqlstate == ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION;
}

void
mosql_error_raise_reply(const char *server, MosqlBytes message, const char *attempt)
{
	const ErrorRule *rule = find_rule(message);

	ereport(ERROR,
			(errcode(rule->sqlstate),
			 server != NULL ?
			 errmsg("Redis server %s: %s", server, mosql_redis_text(message)) :
			 errmsg("Redis: %s", mosql_redis_text(message)),
			 attempt != NULL ? errdetail("Attempted: %s.", attempt) : 0,
			 rule->hint != NULL ? errhint("%s", rule->hint) : 0));
	pg_unreachable();
}

/* What to do about it: if a server has said what is wrong, as for that reply. */
static const char *
hint_for(const MosqlFailure *failure, int sqlstate)
{
	const ErrorRule *rule = find_rule(mosql_bytes(failure->text, strlen(failure->text)));

	if (rule->hint != NULL && rule->sqlstate == sqlstate)
		return rule->hint;
	if (sqlstate == ERRCODE_INVALID_PASSWORD)
		return "Check user and password in the user mapping.";
	if (sqlstate == MOSQL_COULD_NOT_CONNECT)
		return "Check the option nodes of the foreign server, and that Redis runs there.";
	return NULL;
}

void
mosql_error_raise_failure(const MosqlServer *server, const MosqlFailure *failure)
{
	int			sqlstate = failure->sqlstate != 0 ? failure->sqlstate : ERRCODE_CONNECTION_FAILURE;
	bool		connecting = sqlstate == MOSQL_COULD_NOT_CONNECT;
	const char *address = server != NULL ? server->address : "(none)";
	const char *hint = hint_for(failure, sqlstate);

	ereport(ERROR,
			(errcode(sqlstate),
			 connecting ? errmsg("could not connect to Redis server %s", address) :
			 sqlstate == ERRCODE_CONNECTION_FAILURE ?
			 errmsg("lost contact with Redis server %s", address) :
			 errmsg("Redis server %s refused the connection", address),
			 errdetail_internal("%s", failure->text),
			 hint != NULL ? errhint("%s", hint) : 0));
	pg_unreachable();
}

void
mosql_reply_check(const MosqlReply *reply, const char *attempt)
{
	if (reply->kind == MOSQL_REPLY_ERROR)
		mosql_error_raise_reply(reply->server, reply->str, attempt);
}
