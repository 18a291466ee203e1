/*
 * test_redis.c: the parts of layer redis that need no socket.
 */
#include "unit.h"

#include "redis/redis_int.h"

static uint16
slot(const char *key)
{
	return mosql_redis_slot(mosql_bytes(key, strlen(key)));
}

/* Values from CLUSTER KEYSLOT of a server. */
static void
test_slot(void)
{
	CHECK_INT(slot("123456789"), 0x31C3);
	CHECK_INT(slot(""), 0);
	CHECK_INT(slot("foo"), 12182);
	CHECK_INT(slot("bar"), 5061);
	CHECK_INT(slot("{foo}.x"), 12182);
	CHECK_INT(slot("x{foo}y{bar}"), 12182);
	CHECK_INT(slot("{foo"), slot("{foo"));
	CHECK(slot("{}foo") != slot("foo"));
	CHECK_INT(slot("foo{{bar}}zap"), slot("{bar"));
	CHECK_INT(slot("mosql:{00000000000000ff}"), slot("00000000000000ff"));
	CHECK_INT(mosql_redis_slot(mosql_bytes("a\0b", 3)) == slot("a"), 0);
}

static void
test_nodes(void)
{
	static const char *const good[] = {"h:1", "a:1,b:65535", " a:1 , b:2 ", "[::1]:7000",
		"[2001:db8::1]:1,[::2]:2,10.0.0.1:3", "/run/redis/redis.sock", " /a:b "};
	static const char *const bad[] = {"", ",", "a", "a:", ":1", "a:0", "a:65536", "a:1,", "a:b",
		"::1:7000", "[::1]", "[::1:7000", "[]:1", "a b:1", "a:1x", "a:-1", "[::1]7000"};
	const char *list = " 10.0.0.1:6379,[fe80::1]:7001";
	const char *host;
	int			len;
	int			port;

	for (int i = 0; i < lengthof(good); i++)
		CHECK(mosql_redis_check_nodes(good[i]) == NULL);
	for (int i = 0; i < lengthof(bad); i++)
		if (!CHECK(mosql_redis_check_nodes(bad[i]) != NULL))
			printf("#   accepted \"%s\"\n", bad[i]);

	CHECK(mosql_nodes_next(&list, &host, &len, &port) == NULL);
	CHECK(len == 8 && memcmp(host, "10.0.0.1", 8) == 0 && port == 6379);
	CHECK(mosql_nodes_next(&list, &host, &len, &port) == NULL);
	CHECK(len == 7 && memcmp(host, "fe80::1", 7) == 0 && port == 7001);
	CHECK(list == NULL);

	list = "/run/redis/redis.sock ";
	CHECK(mosql_nodes_next(&list, &host, &len, &port) == NULL);
	CHECK(len == 21 && memcmp(host, "/run/redis/redis.sock", 21) == 0 && port == 0 && list == NULL);
	CHECK(mosql_redis_check_nodes(psprintf("/%0106d", 0)) == NULL);
	CHECK(mosql_redis_check_nodes(psprintf("/%0107d", 0)) != NULL);

	CHECK(mosql_nodes_split("::1:7000", &len, &port) && len == 3 && port == 7000);
	CHECK(mosql_nodes_split(":7000", &len, &port) && len == 0);
	CHECK(!mosql_nodes_split("nonsense", &len, &port));
}

static void
test_classes(void)
{
#define CLASS(text) mosql_error_classify(mosql_bytes(text, strlen(text)))
	CHECK_INT(CLASS("MOVED 1 h:2"), MOSQL_ERROR_MOVED);
	CHECK_INT(CLASS("ASK 1 h:2"), MOSQL_ERROR_ASK);
	CHECK_INT(CLASS("TRYAGAIN x"), MOSQL_ERROR_LATER);
	CHECK_INT(CLASS("EXECABORT Transaction discarded because of previous errors."),
			  MOSQL_ERROR_EXECABORT);
	CHECK_INT(CLASS("EXECABORT Transaction discarded because of: LOADING x"), MOSQL_ERROR_LATER);
	CHECK_INT(CLASS("EXECABORT Transaction discarded because of: ERR x"), MOSQL_ERROR_EXECABORT);
	CHECK_INT(CLASS("OOM command not allowed"), MOSQL_ERROR_RAISE);
	CHECK_INT(CLASS("NOSCRIPT x"), MOSQL_ERROR_OTHER);
	CHECK_INT(CLASS(""), MOSQL_ERROR_OTHER);
	CHECK_INT(CLASS("MOVE"), MOSQL_ERROR_OTHER);
}

/*
 * ---------------------------------------------------------------------------
 * Replies
 * ---------------------------------------------------------------------------
 */

static const char everything[] =
"*8\r\n$5\r\nhe\0lo\r\n$0\r\n\r\n$-1\r\n:-42\r\n+OK\r\n-ERR no\r\n*0\r\n*2\r\n*1\r\n:7\r\n*-1\r\n";

static void
check_everything(const MosqlReply *r)
{
	CHECK_INT(r->kind, MOSQL_REPLY_ARRAY);
	CHECK_INT(r->n, 8);
	CHECK(r->elem[0]->kind == MOSQL_REPLY_STRING && r->elem[0]->str.len == 5 &&
		  memcmp(r->elem[0]->str.data, "he\0lo", 6) == 0);
	CHECK(r->elem[1]->kind == MOSQL_REPLY_STRING && r->elem[1]->str.len == 0 &&
		  r->elem[1]->str.data[0] == '\0');
	CHECK_INT(r->elem[2]->kind, MOSQL_REPLY_NIL);
	CHECK(r->elem[3]->kind == MOSQL_REPLY_INTEGER && r->elem[3]->integer == -42);
	CHECK_INT(r->elem[4]->kind, MOSQL_REPLY_STATUS);
	CHECK_STR(r->elem[4]->str.data, "OK");
	CHECK_INT(r->elem[5]->kind, MOSQL_REPLY_ERROR);
	CHECK_STR(r->elem[5]->server, "here:1");
	CHECK(r->elem[6]->kind == MOSQL_REPLY_ARRAY && r->elem[6]->n == 0);
	CHECK(r->elem[7]->n == 2 && r->elem[7]->elem[0]->elem[0]->integer == 7);
	CHECK_INT(r->elem[7]->elem[1]->kind, MOSQL_REPLY_NIL);
}

static MosqlServer here = {.address = "here:1"};

/* At every length of piece, and cut once at every place. */
static void
test_reply_pieces(void)
{
	size_t		len = sizeof(everything) - 1;

	for (size_t piece = 1; piece <= len; piece++)
	{
		MosqlConnection conn = {.into = CurrentMemoryContext, .server = &here};
		redisReader *reader = mosql_reply_reader_create(&conn);
		void	   *reply = NULL;

		for (size_t at = 0; at < len; at += piece)
		{
			CHECK(reply == NULL);
			CHECK(redisReaderFeed(reader, everything + at, Min(piece, len - at)) == REDIS_OK);
			CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK);
		}
		if (CHECK(reply != NULL))
			check_everything(reply);
		redisReaderFree(reader);
	}
}

/* The owner of a reply goes away when `at` bytes of it have come. */
static void
test_reply_unwanted(void)
{
	size_t		len = sizeof(everything) - 1;

	for (size_t at = 0; at < len; at++)
	{
		MemoryContext owner = AllocSetContextCreate(CurrentMemoryContext, "owner",
													ALLOCSET_DEFAULT_SIZES);
		MosqlConnection conn = {.into = owner, .server = &here};
		redisReader *reader = mosql_reply_reader_create(&conn);
		void	   *reply = NULL;

		redisReaderFeed(reader, everything, at);
		CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK && reply == NULL);
		conn.into = NULL;
		MemoryContextDelete(owner);
		redisReaderFeed(reader, everything + at, len - at);
		CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL);

		/* the next one is read as if nothing had happened */
		conn.into = CurrentMemoryContext;
		redisReaderFeed(reader, everything, len);
		CHECK(redisReaderGetReply(reader, &reply) == REDIS_OK);
		if (CHECK(reply != NULL))
			check_everything(reply);
		redisReaderFree(reader);
	}
}

/* What a server announces: is it waited for?  Bytes one by one, as the worst that can come. */
static bool
is_believed(const char *bytes, size_t len)
{
	MosqlConnection conn = {.into = CurrentMemoryContext, .server = &here};
	redisReader *reader = mosql_reply_reader_create(&conn);
	void	   *reply = NULL;
	bool		believed = true;

	for (size_t i = 0; i < len && believed; i++)
	{
		redisReaderFeed(reader, bytes + i, 1);
		believed = redisReaderGetReply(reader, &reply) == REDIS_OK &&
			(reply != NULL || mosql_reply_excess(reader) == NULL);
	}
	redisReaderFree(reader);
	return believed;
}

static void
test_reply_excess(void)
{
	static const char *const good[] = {
		"$536870912\r\nabc", "*1000000\r\n", "*2\r\n$3\r\nabc\r\n$536870912\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "-ERR\r\n", ":1", "+", "*"
	};
	static const char *const bad[] = {
		"$536870913\r\n", "$2000000000\r\n", "*2000000000\r\n", "*16777217\r\n", "*9000000\r\n*9000000\r\n",
		"*2\r\n$3\r\nabc\r\n$2000000000\r\n", "*2\r\n:1\r\n*2000000000\r\n", "$99999999999999999999\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
	};
	char	   *line = palloc(70000);

	for (int i = 0; i < lengthof(good); i++)
		CHECK(is_believed(good[i], strlen(good[i])));
	for (int i = 0; i < lengthof(bad); i++)
		CHECK(!is_believed(bad[i], strlen(bad[i])));
	memset(line, 'x', 70000);
	for (const char *kind = "+-:$*"; *kind; kind++)
	{
		line[0] = *kind;
		CHECK(is_believed(line, 60000) || *kind == ':' || *kind == '$' || *kind == '*');
		CHECK(!is_believed(line, 70000));
	}
	pfree(line);
}

static void
test_reply_check(void)
{
	static const char *const in_script[] = {
		"ERR The user executing the script can't run this command or subcommand script: 5e, on @user_script:1.",
		"ERR ACL failure in script: User default has no permissions to run the 'hset' command script: 5e, on @user_script:1.",
	};
	MosqlReply	error = {.kind = MOSQL_REPLY_ERROR, .str = {"OOM too \x01 much", 14}};
	MosqlReply	ok = {.kind = MOSQL_REPLY_STATUS, .str = {"OK", 2}};

	CHECK_RAISES(ERRCODE_OUT_OF_MEMORY, mosql_reply_check(&error, "test"));
	CHECK_STR(pgstub_error.message, "Redis: OOM too ? much");
	error.server = "h:1";
	error.str = mosql_bytes("NOPERM x", 8);
	CHECK_RAISES(ERRCODE_INSUFFICIENT_PRIVILEGE, mosql_reply_check(&error, "test"));
	CHECK_STR(pgstub_error.message, "Redis server h:1: NOPERM x");
	CHECK_STR(pgstub_error.detail, "Attempted: test.");
	for (int i = 0; i < lengthof(in_script); i++)
	{
		error.str = mosql_bytes(in_script[i], strlen(in_script[i]));
		CHECK_RAISES(ERRCODE_INSUFFICIENT_PRIVILEGE, mosql_reply_check(&error, "test"));
	}
	CHECK(!PGSTUB_RAISES(mosql_reply_check(&ok, "test")));
	CHECK(!PGSTUB_RAISES(mosql_reply_check(&mosql_reply_lost, "test")));
}

static void
test_budget(void)
{
	MosqlBudget b = mosql_budget_start(1000);
	int			pauses = 0;

	CHECK(mosql_budget_left_ms(&b) > 500 && mosql_budget_left_ms(&b) <= 1000);
	while (mosql_budget_pause(&b))
		pauses++;
	CHECK(pauses >= 3 && pauses < 1000);
	CHECK_INT(mosql_budget_left_ms(&b), 0);
	pgstub_cancel();
	b = mosql_budget_start(1000);
	CHECK_RAISES(ERRCODE_QUERY_CANCELED, mosql_budget_pause(&b));
}

int
main(void)
{
	RUN(test_slot);
	RUN(test_nodes);
	RUN(test_classes);
	RUN(test_reply_pieces);
	RUN(test_reply_unwanted);
	RUN(test_reply_excess);
	RUN(test_reply_check);
	RUN(test_budget);
	return unit_finish();
}
