/*
 * step.c: steps by whichever engine; checks of replies.
 *
 * Layer: step.
 */
#include "step/step_int.h"

#include "code/node.h"

void
mosql_step_run(MosqlStepper *stepper, MosqlStep **steps, int n, MosqlBudget *budget)
{
	if (n == 0)
		return;

	/* what a step counts as if an error is thrown before its own answer */
	for (int i = 0; i < n; i++)
	{
		steps[i]->status = MOSQL_STEP_LOST;
		steps[i]->failed = -1;
		steps[i]->nfields = 0;
		steps[i]->values = NULL;
	}
	if (stepper->engine == MOSQL_ENGINE_SCRIPT)
		mosql_step_run_script(stepper, steps, n, budget);
	else
		mosql_step_run_watch(stepper, steps, n, budget);
}

MosqlBytes
mosql_step_key(const MosqlStepper *stepper, uint64 node)
{
	StringInfoData key;
	MosqlBytes	exact;

	initStringInfo(&key);
	mosql_node_key(&key, stepper->ns, node);
	exact = mosql_bytes_copy(CurrentMemoryContext, mosql_bytes(key.data, key.len));
	pfree(key.data);			/* a kilobyte, and there may be a million keys */
	return exact;
}

MosqlBytes
mosql_step_wake_key(MosqlBytes node_key, MosqlBytes owner)
{
	StringInfoData key;

	initStringInfo(&key);
	appendBinaryStringInfo(&key, node_key.data, (int) node_key.len);
	appendStringInfoString(&key, MOSQL_WAKE_INFIX);
	for (size_t i = 0; i < owner.len; i++)
		appendStringInfo(&key, "%02x", (uint8) owner.data[i]);
	return mosql_bytes_of(&key);
}

MosqlBytes
mosql_step_wake_list(const MosqlStepper *stepper, uint64 node, MosqlBytes owner)
{
	return mosql_step_wake_key(mosql_step_key(stepper, node), owner);
}

static uint32
get_uint32(const char *bytes)
{
	const uint8 *p = (const uint8 *) bytes;

	return (uint32) p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

/* Number of the wait, length of the intents field, both fields. */
bool
mosql_step_told(MosqlBytes message, uint32 number, MosqlBytes *intents, MosqlBytes *row)
{
	size_t		head = 2 * sizeof(uint32);
	uint32		n;

	if (message.len < head || get_uint32(message.data) != number)
		return false;
	n = get_uint32(message.data + sizeof(uint32));
	if (n == 0 || n > message.len - head)
		return false;
	*intents = mosql_bytes(message.data + head, n);
	*row = head + n == message.len ? MOSQL_ABSENT : mosql_bytes(message.data + head + n, message.len - head - n);
	return true;
}

static bool
starts_with(MosqlBytes text, const char *word)
{
	size_t		len = strlen(word);

	return text.len >= len && memcmp(text.data, word, len) == 0;
}

bool
mosql_step_is_redirection(const MosqlReply *reply)
{
	static const char because[] = "EXECABORT Transaction discarded because of: ";
	static const char *const words[] = {
		"MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN", "LOADING", "READONLY", "MASTERDOWN", "BUSY "
	};
	MosqlBytes	text = reply->str;

	if (reply->kind != MOSQL_REPLY_ERROR)
		return false;
	if (starts_with(text, because))
		text = mosql_bytes(text.data + strlen(because), text.len - strlen(because));
	for (int i = 0; i < lengthof(words); i++)
		if (starts_with(text, words[i]))
			return true;
	return false;
}

void
mosql_step_check(const MosqlReply *reply, MosqlReplyKind expected, MosqlBytes key)
{
	if (reply->kind == expected)
		return;

	/* inside a script it is part of a longer message */
	if (reply->kind == MOSQL_REPLY_ERROR && strstr(reply->str.data, "WRONGTYPE") != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("Redis key \"%.*s\" does not have the expected type", (int) key.len, key.data),
				 errdetail("Redis says: %s", mosql_redis_text(reply->str)),
				 errhint("Something else writes keys into this namespace.")));
	/* Lua's and Redis' words for a number that is none */
	if (reply->kind == MOSQL_REPLY_ERROR &&
		(strstr(reply->str.data, ": attempt to ") != NULL ||
		 strstr(reply->str.data, "value is not an integer") != NULL))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("Redis key \"%.*s\" is damaged", (int) key.len, key.data),
				 errdetail("Redis says: %s", mosql_redis_text(reply->str))));
	mosql_reply_check(reply, psprintf("a step on key \"%.*s\"", (int) key.len, key.data));
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("unexpected reply of Redis to a step on key \"%.*s\"", (int) key.len, key.data)));
}

static void
raise_parts(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("a reply of Redis does not have the parts that it should")));
}

const MosqlReply *
mosql_step_elem(const MosqlReply *reply, int i)
{
	if (reply->kind != MOSQL_REPLY_ARRAY || i < 0 || i >= reply->n)
		raise_parts();
	return reply->elem[i];
}

MosqlBytes
mosql_step_text(const MosqlReply *reply, int i)
{
	const MosqlReply *elem = mosql_step_elem(reply, i);

	if (elem->kind != MOSQL_REPLY_STRING)
		raise_parts();
	return elem->str;
}

uint64
mosql_reply_u64(const MosqlReply *reply)
{
	if (reply->kind == MOSQL_REPLY_INTEGER)
		return (uint64) reply->integer;
	if (reply->kind == MOSQL_REPLY_STRING)
		return strtoull(reply->str.data, NULL, 10);
	return 0;
}
