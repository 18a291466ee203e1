/*
 * reply.c: replies as trees in a memory context.
 *
 * Layer: redis.  The protocol reader of hiredis calls these functions for each
 * object it has read.  They allocate in the connection's `into` and never
 * throw: an error would jump over hiredis' own state.  NULL tells it that
 * memory is short; or that the reply is not believed, where `refused` says so.
 *
 * Nobody may want the reply (any more): the batch was given up while half of
 * its reply was read.  `into` is NULL then, and the half that was built is
 * gone.  hiredis does not look into our objects, so the rest is read with a
 * dummy in place of each, and no parent is touched.
 */
#include "redis/redis_int.h"

/*
 * Elements of one reply's arrays, and how deep they lie within each other.  The largest
 * replies of ours are hashes of dead sessions, a field per transaction, the deepest
 * those of scripts.  Room for the elements is taken when they are announced, so what
 * announces more is not believed before it is there.
 */
#define ELEMENTS_MAX	(16 * 1024 * 1024)
#define DEPTH_MAX		7

/*
 * Strings: Redis' own bound, which a row with its intent stays below.  Room is taken as
 * bytes come, twice: hiredis hands a string out when it is whole.
 */
#define STRING_MAX_BYTES	(512 * 1024 * 1024)

/* A line: an error, a status, a number.  The longest of Redis quote a command. */
#define LINE_MAX_BYTES	(64 * 1024)

const MosqlReply mosql_reply_lost = {.kind = MOSQL_REPLY_LOST};

static MosqlReply unwanted;

/*
 * A reply with room for len bytes behind it, hung into its parent.  NULL: out
 * of memory; &unwanted: nobody wants it, do not touch.
 */
static MosqlReply *
new_reply(const redisReadTask *task, MosqlReplyKind kind, size_t room)
{
	MosqlConnection *conn = task->privdata;
	MosqlReply *reply;

	conn->begun = true;
	if (conn->into == NULL)
		return &unwanted;
	reply = MemoryContextAllocExtended(conn->into, sizeof(MosqlReply) + room,
									   MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	if (reply == NULL)
		return NULL;
	memset(reply, 0, sizeof(MosqlReply));
	reply->kind = kind;
	if (task->parent != NULL)
	{
		MosqlReply *parent = task->parent->obj;

		Assert(task->idx >= 0 && task->idx < parent->n);
		parent->elem[task->idx] = reply;
	}
	return reply;
}

static void *
create_string(const redisReadTask *task, char *str, size_t len)
{
	MosqlReplyKind kind = task->type == REDIS_REPLY_ERROR ? MOSQL_REPLY_ERROR :
		task->type == REDIS_REPLY_STATUS ? MOSQL_REPLY_STATUS : MOSQL_REPLY_STRING;
	MosqlReply *reply = new_reply(task, kind, len + 1);
	char	   *copy;

	if (reply == NULL || reply == &unwanted)
		return reply;
	copy = (char *) (reply + 1);
	memcpy(copy, str, len);
	copy[len] = '\0';
	reply->str = mosql_bytes(copy, len);
	if (kind == MOSQL_REPLY_ERROR)
		reply->server = ((MosqlConnection *) task->privdata)->server->address;
	return reply;
}

static int
depth_of(const redisReadTask *task)
{
	int			depth = 1;

	for (; task->parent != NULL; task = task->parent)
		depth++;
	return depth;
}

#if HIREDIS_MAJOR >= 1
static void *
create_array(const redisReadTask *task, size_t n)
#else
static void *
create_array(const redisReadTask *task, int n)
#endif
{
	MosqlConnection *conn = task->privdata;
	MosqlReply *reply;

	if (!conn->begun)
		conn->elements = 0;
	if (n > ELEMENTS_MAX - conn->elements || depth_of(task) > DEPTH_MAX)
	{
		conn->refused = "It announces more elements, or deeper ones, than any reply has.";
		return NULL;
	}
	conn->elements += n;
	reply = new_reply(task, MOSQL_REPLY_ARRAY, n * sizeof(MosqlReply *));
	if (reply == NULL || reply == &unwanted)
		return reply;
	reply->n = (int) n;
	reply->elem = (MosqlReply **) (reply + 1);
	return reply;
}

static void *
create_integer(const redisReadTask *task, long long value)
{
	MosqlReply *reply = new_reply(task, MOSQL_REPLY_INTEGER, 0);

	if (reply != NULL && reply != &unwanted)
		reply->integer = value;
	return reply;
}

static void *
create_nil(const redisReadTask *task)
{
	return new_reply(task, MOSQL_REPLY_NIL, 0);
}

#if HIREDIS_MAJOR >= 1

/*
 * Types of RESP3, which nobody asked for.  Without these two functions hiredis
 * would hand out a small number instead of an object.
 */
static void *
create_double(const redisReadTask *task, double value, char *str, size_t len)
{
	return create_string(task, str, len);
}

static void *
create_bool(const redisReadTask *task, int value)
{
	return create_integer(task, value);
}
#endif

/* What hiredis is in the middle of; NULL: between replies. */
static const redisReadTask *
present_task(const redisReader *reader)
{
	if (reader->ridx < 0)
		return NULL;
#if HIREDIS_MAJOR >= 1
	return reader->task[reader->ridx];
#else
	return &reader->rstack[reader->ridx];
#endif
}

/* Of bytes whose number is announced; the second is one of RESP3. */
static bool
is_string(int type)
{
#ifdef REDIS_REPLY_VERB
	if (type == REDIS_REPLY_VERB)
		return true;
#endif
	return type == REDIS_REPLY_STRING;
}

/*
 * hiredis waits for the rest of something: how long has it been announced to be?  Its type
 * is read already, so the line with a string's length, or the line itself, is next.
 */
const char *
mosql_reply_excess(const redisReader *reader)
{
	const redisReadTask *task = present_task(reader);
	const char *line = reader->buf + reader->pos;
	size_t		len = reader->len - reader->pos;

	if (task == NULL || task->type < 0)
		return NULL;
	if (memchr(line, '\r', Min(len, LINE_MAX_BYTES)) == NULL)
		return len < LINE_MAX_BYTES ? NULL : "A line of it is longer than any.";
	if (is_string(task->type) && strtoll(line, NULL, 10) > STRING_MAX_BYTES)
		return "It announces a longer string than any reply has.";
	return NULL;
}

/* The memory context frees. */
static void
free_object(void *reply)
{
}

redisReader *
mosql_reply_reader_create(MosqlConnection *conn)
{
	static redisReplyObjectFunctions functions = {
		.createString = create_string,
		.createArray = create_array,
		.createInteger = create_integer,
		.createNil = create_nil,
#if HIREDIS_MAJOR >= 1
		.createDouble = create_double,
		.createBool = create_bool,
#endif
		.freeObject = free_object,
	};
	redisReader *reader = redisReaderCreateWithFunctions(&functions);

	if (reader != NULL)
	{
		reader->privdata = conn;
		reader->maxbuf = 4 * MOSQL_RECEIVE_BYTES;	/* keep this much when idle */
	}
	return reader;
}
