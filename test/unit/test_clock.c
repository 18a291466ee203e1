/*
 * test_clock.c: the clock, the same tests for both engines, against a real
 * server.
 */
#include "bytes.h"
#include "server.h"

#include "base/stats.h"
#include "step/clock.h"
#include "step/clock_keep.h"
#include "step/clock_wait.h"
#include "step/step_int.h"

#define LEASE_MS 60000
#define SHORT_MS 500		/* a lease that ends: five commands go within .6 of it, mostly in a hundredth */
#define WORKERS_FOR_JOBS 4

#define B(s) mosql_bytes(s, sizeof(s) - 1)

static MosqlStepper ck;
static MosqlEngine engine;
static MosqlSnapshotList list;
static uint64 schema;
static MosqlTimestamp ts;
static MosqlRecord record;
static uint64 raced;

static void
begin(void)
{
	ck.redis = server_client(5000);
	ck.ns = "test";
	ck.engine = engine;
	server_command(ck.redis, "FLUSHALL");
}

static void
reconnect(void)
{
	ck.redis = server_client(5000);
}

static uint64
open_session(int lease_ms)
{
	return mosql_clock_open(&ck, lease_ms, &schema);
}

static MosqlDecideArgs
args_for(uint64 sid, uint64 n)
{
	return (MosqlDecideArgs) {.tx = {sid, n},.parts = B("p\0rts"),.lease_ms = LEASE_MS};
}

static MosqlDecision
decide(uint64 sid, uint64 n)
{
	MosqlDecideArgs args = args_for(sid, n);

	return mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL);
}

/* By the schema version that the clock told last. */
static MosqlDecision
decide_now(uint64 sid, uint64 n)
{
	MosqlDecideArgs args = args_for(sid, n);

	args.schema = schema;
	return mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL);
}

/* The same, for a transaction that has begun at that version. */
static MosqlDecision
decide_since(uint64 sid, uint64 n, uint64 since)
{
	MosqlDecideArgs args = args_for(sid, n);

	args.schema = schema;
	args.since = since;
	return mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL);
}

static MosqlRecordState
status(uint64 sid, uint64 n)
{
	MosqlTxid	tx = {sid, n};

	mosql_clock_status(&ck, &tx, 1, &record, &list);
	return record.state;
}

static MosqlRecordState
aborted(uint64 sid, uint64 n)
{
	mosql_clock_abort(&ck, (MosqlTxid) {sid, n}, &record, &list);
	return record.state;
}

static MosqlRecordState
settle(uint64 sid, uint64 n)
{
	mosql_clock_settle(&ck, (MosqlTxid) {sid, n}, &record, &list, NULL);
	return record.state;
}

static char *
text_of(uint64 number)
{
	return psprintf(UINT64_FORMAT, number);
}

static char *
session_key(uint64 sid)
{
	return psprintf("test:{test.clock}:s:" UINT64_FORMAT, sid);
}

static int64
number(const MosqlReply *reply)
{
	return (int64) mosql_reply_u64(reply);
}

static MosqlTimestamp
server_now(void)
{
	const MosqlReply *reply = server_command(ck.redis, "TIME");

	return number(reply->elem[0]) * INT64CONST(1000000) + number(reply->elem[1]);
}

static bool
listed(MosqlTimestamp S)
{
	for (int i = 0; i < list.n; i++)
		if (list.snapshots[i] == S)
			return true;
	return false;
}

/* --- sessions --- */

static void
test_open(void)
{
	uint64		a,
				b;

	begin();
	schema = 99;
	a = open_session(LEASE_MS);
	CHECK_INT(schema, 0);
	b = open_session(LEASE_MS);
	CHECK(a > 0 && b > a);
	CHECK_STR(server_command(ck.redis, "HGET", "test:{test.clock}:c", "format")->str.data, MOSQL_CLOCK_FORMAT);
	CHECK_INT(number(server_command(ck.redis, "ZCARD", "test:{test.clock}:e")), 2);
	CHECK(number(server_command(ck.redis, "HGET", session_key(a), "lease"))
		  > (int64) server_now() + 50 * 1000000);
}

static void
test_foreign_format(void)
{
	begin();
	server_command(ck.redis, "HSET", "test:{test.clock}:c", "format", "1");
	CHECK_RAISES(ERRCODE_FEATURE_NOT_SUPPORTED, open_session(LEASE_MS));
	CHECK(pgstub_error.hint[0] != '\0');
	CHECK(server_command(ck.redis, "HGET", "test:{test.clock}:c", "sid")->kind == MOSQL_REPLY_NIL);
}

static void
test_wrong_type(void)
{
	begin();
	server_command(ck.redis, "SET", "test:{test.clock}:c", "x");
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, open_session(LEASE_MS));
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_clock_snapshots(&ck, &list, &schema));
}

/* Rows have 7 bytes for a time: one beyond is not handed out. */
static void
test_impossible_time(void)
{
	MosqlTimestamp S;
	uint64		a;

	begin();
	a = open_session(LEASE_MS);
	server_command(ck.redis, "HSET", "test:{test.clock}:c", "last", "72057594037927940");
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_clock_snapshots(&ck, &list, &schema));
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED,
				 (void) mosql_clock_snapshot(&ck, a, 1, LEASE_MS, &S, &schema));
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, (void) decide(a, 1));
}

/* Whether a decision that throws may have been made is told by the timestamp. */
static void
test_damaged_answer(void)
{
	uint64		a;
	bool		written;

	begin();
	a = open_session(LEASE_MS);
	server_command(ck.redis, "ZADD", "test:{test.clock}:p", "5.5", "1.1");
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, (void) decide(a, 1));
	CHECK(ts != 0);
	server_command(ck.redis, "DEL", "test:{test.clock}:p");
	CHECK_INT(status(a, 1), MOSQL_RECORD_COMMITTED);

	server_command(ck.redis, "RPUSH", "test:{test.clock}:p", "x");
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, (void) decide(a, 2));
	written = ts != 0;
	CHECK(written == (engine == MOSQL_ENGINE_WATCH));
	server_command(ck.redis, "DEL", "test:{test.clock}:p");
	CHECK_INT(status(a, 2), written ? MOSQL_RECORD_COMMITTED : MOSQL_RECORD_NONE);

	server_command(ck.redis, "HSET", "test:{test.clock}:c", "last", "72057594037927940");
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, (void) decide(a, 3));
	CHECK((ts != 0) == (engine == MOSQL_ENGINE_SCRIPT));
}

/* Whoever is dead stays dead, and everything of his but commits is forgotten. */
static void
test_lease_ends(void)
{
	MosqlTimestamp S,
				S2;
	uint64		a,
				b;
	MosqlDecideArgs args;

	begin();
	a = open_session(SHORT_MS);
	args = args_for(a, 1);
	args.lease_ms = SHORT_MS;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
	CHECK_INT(aborted(a, 2), MOSQL_RECORD_ABORTED);
	CHECK(mosql_clock_snapshot(&ck, a, 1, SHORT_MS, &S, &schema));
	usleep(SHORT_MS * 1500);

	CHECK_INT(decide(a, 3), MOSQL_REFUSED_LEASE);
	CHECK(!mosql_clock_snapshot(&ck, a, 2, LEASE_MS, &S2, &schema));
	CHECK_INT(decide(a, 2), MOSQL_REFUSED_ABORTED);
	CHECK_INT(decide(a, 1), MOSQL_DECIDED);
	CHECK(listed(S));
	CHECK_INT(decide(a, 3), MOSQL_REFUSED_LEASE);

	b = open_session(LEASE_MS);
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK_INT(list.n, 0);
	CHECK_INT(status(a, 1), MOSQL_RECORD_COMMITTED);
	CHECK_INT(status(a, 2), MOSQL_RECORD_NONE);
	CHECK_INT(number(server_command(ck.redis, "ZCARD", "test:{test.clock}:e")), 1);
	CHECK_INT(decide(a, 2), MOSQL_REFUSED_LEASE);
	CHECK_INT(decide(b, 1), MOSQL_DECIDED);
}

/* Nodes come along with a snapshot; not where it was asked for twice, for its script was missing, and one may have been read before it. */
static void
test_along(void)
{
	uint64		nodes[] = {1, 2};
	MosqlNodeImage images[2];
	MosqlNodesAlong along = {.n = 2,.nodes = nodes,.images = images,.came = true};
	MosqlTimestamp S;
	uint64		sid;
	bool		script = engine == MOSQL_ENGINE_SCRIPT;

	begin();
	sid = open_session(LEASE_MS);
	CHECK_INT(mosql_step_reads_along(&ck, nodes, 2), script);
	server_command(ck.redis, "HSET", "test:{0000000000000001}", "a", "1");
	for (int i = 1; i <= 2; i++)
		CHECK(mosql_clock_snapshot_along(&ck, sid, i, LEASE_MS, &S, &schema, &along));
	CHECK_INT(along.came, script);
	if (!script)
		return;
	CHECK(images[0].found && images[0].node == 1 && mosql_bytes_equal(images[0].fields[0].value, B("1")));
	CHECK(!images[1].found);
	server_command(ck.redis, "SCRIPT", "FLUSH");
	CHECK(mosql_clock_snapshot_along(&ck, sid, 3, LEASE_MS, &S, &schema, &along) && !along.came);
	CHECK(mosql_clock_snapshot_along(&ck, sid, 4, LEASE_MS, &S, &schema, &along) && along.came);
	server_command(ck.redis, "SET", "test:{0000000000000002}", "x");
	CHECK(mosql_clock_snapshot_along(&ck, sid, 5, LEASE_MS, &S, &schema, &along) && !along.came);
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK_INT(list.n, 5);
}

/* Live sessions are not swept, and neither are snapshots of longer ids. */
static void
test_sweep_spares_others(void)
{
	MosqlTimestamp S;
	uint64		first = 0;
	uint64		live = 0;

	begin();
	for (int i = 1; i <= 20; i++)
	{
		uint64		sid = open_session(i == 10 ? LEASE_MS : SHORT_MS * 4);

		first = first == 0 ? sid : first;
		live = i == 10 ? sid : live;
		CHECK(mosql_clock_snapshot(&ck, sid, 5, SHORT_MS * 4, &S, &schema));
	}
	server_command(ck.redis, "ZADD", "test:{test.clock}:p", "7", psprintf(UINT64_FORMAT "0.5", first));
	usleep(SHORT_MS * 5000);
	(void) open_session(LEASE_MS);	/* 16 of 19 */
	CHECK_INT(number(server_command(ck.redis, "ZCARD", "test:{test.clock}:p")), 5);
	(void) open_session(LEASE_MS);
	CHECK_INT(number(server_command(ck.redis, "ZCARD", "test:{test.clock}:p")), 2);
	CHECK(mosql_clock_snapshot(&ck, live, 6, LEASE_MS, &S, &schema));
	CHECK_INT(number(server_command(ck.redis, "ZCARD", "test:{test.clock}:e")), 3);
}

static void
test_lease_is_extended(void)
{
	MosqlTimestamp S;
	uint64		sid;
	MosqlDecideArgs args;

	begin();
	sid = open_session(SHORT_MS * 3);
	args = args_for(sid, 0);
	args.lease_ms = SHORT_MS * 3;
	for (int i = 0; i < 4; i++)
	{
		usleep(SHORT_MS * 1800);
		args.tx.n = i;
		if (i % 2 == 0)
			CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
		else
			CHECK(mosql_clock_snapshot(&ck, sid, i, SHORT_MS * 3, &S, &schema));
	}
	CHECK(number(server_command(ck.redis, "ZSCORE", "test:{test.clock}:e", text_of(sid)))
		  == number(server_command(ck.redis, "HGET", session_key(sid), "lease")));
}

static void
test_close(void)
{
	MosqlTimestamp S;
	uint64		a;

	begin();
	a = open_session(LEASE_MS);
	CHECK_INT(decide(a, 1), MOSQL_DECIDED);
	aborted(a, 2);
	CHECK(mosql_clock_snapshot(&ck, a, 1, LEASE_MS, &S, &schema));
	mosql_clock_close(&ck, a);
	CHECK(mosql_redis_drain(ck.redis, 1000));
	CHECK_INT(decide(a, 3), MOSQL_REFUSED_LEASE);
	(void) open_session(LEASE_MS);
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK_INT(list.n, 0);
	CHECK_INT(status(a, 2), MOSQL_RECORD_NONE);
	CHECK_INT(status(a, 1), MOSQL_RECORD_COMMITTED);
	CHECK_INT(number(server_command(ck.redis, "ZCARD", "test:{test.clock}:e")), 1);
}

/* Who lives: neither the closed nor the forgotten, and nobody not drawn yet. */
static void
test_sessions(void)
{
	MosqlSessions sessions;
	uint64		a,
				b,
				c,
				d;

	begin();
	mosql_clock_sessions(&ck, &sessions);
	CHECK(sessions.newest == 0 && sessions.n == 0 && !mosql_clock_is_dead(&sessions, 1));
	a = open_session(LEASE_MS);
	b = open_session(SHORT_MS);
	c = open_session(LEASE_MS);
	d = open_session(LEASE_MS);
	mosql_clock_sessions(&ck, &sessions);
	CHECK(sessions.n == 4 && sessions.newest == d && sessions.live[0] == a && sessions.live[3] == d);
	mosql_clock_close(&ck, c);
	CHECK(mosql_redis_drain(ck.redis, 1000));
	usleep(SHORT_MS * 1500);

	/* a lease that has ended may lie in the future of another server's time */
	mosql_clock_sessions(&ck, &sessions);
	CHECK(!mosql_clock_is_dead(&sessions, b));
	(void) mosql_clock_expire(&ck, 10);
	mosql_clock_sessions(&ck, &sessions);
	CHECK(sessions.n == 2 && sessions.newest == d);
	CHECK(!mosql_clock_is_dead(&sessions, a) && !mosql_clock_is_dead(&sessions, d));
	CHECK(mosql_clock_is_dead(&sessions, b) && mosql_clock_is_dead(&sessions, c));
	CHECK(!mosql_clock_is_dead(&sessions, d + 1));

	/* a late resolver brings a dead one back into the index, until that is forgotten */
	aborted(c, 1);
	CHECK_INT(mosql_clock_expire(&ck, 10), 1);
	mosql_clock_sessions(&ck, &sessions);
	CHECK(sessions.n == 2 && mosql_clock_is_dead(&sessions, c));
}

/* Somebody else extends a lease, but revives none, and makes none longer than it may be. */
static void
test_extend(void)
{
	uint64		a,
				b,
				lease,
				before;

	begin();
	a = open_session(LEASE_MS);
	b = open_session(SHORT_MS);
	lease = number(server_command(ck.redis, "HGET", session_key(a), "lease"));
	CHECK(mosql_clock_extend(&ck, a, LEASE_MS));
	CHECK_INT(number(server_command(ck.redis, "HGET", session_key(a), "lease")), lease);

	lease = server_now() + LEASE_MS * 500;
	server_command(ck.redis, "HSET", session_key(a), "lease", text_of(lease));
	before = server_now();
	CHECK(mosql_clock_extend(&ck, a, LEASE_MS));
	lease = number(server_command(ck.redis, "HGET", session_key(a), "lease"));
	CHECK(lease >= before + LEASE_MS * 1000 && lease <= server_now() + LEASE_MS * 1000);
	CHECK_INT(number(server_command(ck.redis, "ZSCORE", "test:{test.clock}:e", text_of(a))), lease);

	/* too far away, or asked for more than it may be */
	server_command(ck.redis, "HSET", session_key(a), "lease", text_of(lease + 100000000));
	CHECK(mosql_clock_extend(&ck, a, LEASE_MS * 10));
	lease = number(server_command(ck.redis, "HGET", session_key(a), "lease"));
	CHECK(lease <= server_now() + LEASE_MS * 1000);

	usleep(SHORT_MS * 1500);
	lease = number(server_command(ck.redis, "HGET", session_key(b), "lease"));
	CHECK(!mosql_clock_extend(&ck, b, SHORT_MS));
	CHECK_INT(number(server_command(ck.redis, "HGET", session_key(b), "lease")), lease);
	(void) mosql_clock_end_session(&ck, a);
	CHECK(!mosql_clock_extend(&ck, a, LEASE_MS));
	CHECK(server_command(ck.redis, "HGET", session_key(a), "lease")->kind == MOSQL_REPLY_NIL);
}

/* What the clock knows of each, whatever is damaged. */
static void
test_list_sessions(void)
{
	MosqlSessionState *sessions;
	MosqlTimestamp now,
				S;
	uint64		a,
				b,
				c;

	begin();
	CHECK_INT(mosql_clock_list_sessions(&ck, &sessions, &now), 0);
	ck.who = "{\"pid\": 7}";
	a = open_session(LEASE_MS);
	ck.who = NULL;
	b = open_session(SHORT_MS);
	c = open_session(LEASE_MS);
	CHECK(mosql_clock_snapshot(&ck, a, 1, LEASE_MS, &S, &schema));
	CHECK(mosql_clock_snapshot(&ck, a, 2, LEASE_MS, &ts, &schema) && ts >= S);
	server_command(ck.redis, "HDEL", session_key(c), "lease");
	usleep(SHORT_MS * 1500);

	CHECK_INT(mosql_clock_list_sessions(&ck, &sessions, &now), 3);
	CHECK(sessions[0].sid == a && sessions[1].sid == b && sessions[2].sid == c);
	CHECK(sessions[0].opened <= now && now - sessions[0].opened < 10000000);
	CHECK(sessions[0].lease > now && sessions[0].span == (uint64) LEASE_MS * 1000);
	CHECK(sessions[0].nsnapshots == 2 && sessions[0].oldest == S);
	CHECK(mosql_bytes_equal(sessions[0].who, B("{\"pid\": 7}")));
	CHECK(sessions[1].lease > 0 && sessions[1].lease < now && sessions[1].oldest == MOSQL_TS_MAX);
	CHECK(sessions[1].nsnapshots == 0 && sessions[1].who.len == 0);
	CHECK_INT(sessions[2].lease, 0);

	/* a snapshot of somebody who is not in the index; and words instead of numbers */
	server_command(ck.redis, "ZADD", "test:{test.clock}:p", "5", "99.1");
	server_command(ck.redis, "HSET", session_key(a), "lease", "soon");
	CHECK_INT(mosql_clock_list_sessions(&ck, &sessions, &now), 4);
	CHECK(sessions[0].sid == 99 && sessions[0].oldest == 5 && sessions[0].lease == 0);
	CHECK(sessions[1].sid == a && sessions[1].lease == 0);

	/* what a session said of itself goes with it */
	mosql_clock_close(&ck, a);
	CHECK(mosql_redis_drain(ck.redis, 1000));
	CHECK_INT(number(server_command(ck.redis, "EXISTS", session_key(a))), 0);
}

/* --- snapshots --- */

static void
test_snapshots(void)
{
	MosqlTimestamp S,
				again,
				S2;
	MosqlTimestamp before;
	uint64		a;

	begin();
	before = server_now();
	a = open_session(LEASE_MS);
	CHECK(mosql_clock_snapshot(&ck, a, 1, LEASE_MS, &S, &schema));
	CHECK(S >= before && S <= server_now());
	CHECK_INT(decide(a, 1), MOSQL_DECIDED);
	CHECK(ts > S);
	CHECK(list.n == 1 && listed(S) && list.last == ts);

	/* the same registration again, after the clock has moved */
	CHECK(mosql_clock_snapshot(&ck, a, 1, LEASE_MS, &again, &schema));
	CHECK_INT(again, S);
	CHECK(mosql_clock_snapshot(&ck, a, 2, LEASE_MS, &S2, &schema));
	CHECK(S2 >= ts);
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK(list.n == 2 && listed(S) && listed(S2) && list.last == S2);

	mosql_clock_release(&ck, a, 1);
	CHECK(mosql_redis_drain(ck.redis, 1000));
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK(list.n == 1 && listed(S2));
}

/* Is the list bounded: the newest of these, and the oldest? */
static bool
is_bounded(const MosqlTimestamp *S, int n)
{
	bool		all = list.n == MOSQL_CLOCK_NEWEST + 1 && listed(S[0]);

	for (int i = n - MOSQL_CLOCK_NEWEST; i < n; i++)
		all &= listed(S[i]);
	return all && list.gap_from == S[0] && list.gap_to == S[n - MOSQL_CLOCK_NEWEST];
}

static bool
is_whole(int n)
{
	return list.n == n && list.gap_from == 0 && list.gap_to == 0;
}

/* Lists that come with answers do not grow with the snapshots. */
static void
test_many_snapshots(void)
{
	MosqlTimestamp S[100];
	MosqlDecideArgs args;
	uint64		a;

	begin();
	a = open_session(LEASE_MS);
	for (int i = 0; i < lengthof(S); i++)
	{
		CHECK(mosql_clock_snapshot(&ck, a, i, LEASE_MS, &S[i], &schema));
		if (i + 1 == MOSQL_CLOCK_NEWEST - 1)
		{
			CHECK_INT(decide(a, 1), MOSQL_DECIDED);
			CHECK(is_whole(MOSQL_CLOCK_NEWEST - 1) && listed(S[0]));
		}
	}
	CHECK_INT(decide(a, 2), MOSQL_DECIDED);
	CHECK(is_bounded(S, lengthof(S)) && list.last == ts);
	CHECK_INT(decide(a, 2), MOSQL_DECIDED);
	CHECK_INT(status(a, 2), MOSQL_RECORD_COMMITTED);
	CHECK(is_bounded(S, lengthof(S)) && list.last == ts);
	CHECK_INT(aborted(a, 3), MOSQL_RECORD_ABORTED);
	CHECK(is_bounded(S, lengthof(S)) && list.last == ts);
	CHECK_INT(settle(a, 4), MOSQL_RECORD_ABORTED);
	CHECK(is_bounded(S, lengthof(S)) && list.last == ts);
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK(is_whole(lengthof(S)) && listed(S[50]));
	args = args_for(a, 5);
	args.all_snapshots = true;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
	CHECK(is_whole(lengthof(S)) && listed(S[50]));

	for (int i = MOSQL_CLOCK_NEWEST - 5; i < lengthof(S); i++)
		mosql_clock_release(&ck, a, i);
	CHECK(mosql_redis_drain(ck.redis, 1000));
	CHECK_INT(decide(a, 6), MOSQL_DECIDED);
	CHECK(is_whole(MOSQL_CLOCK_NEWEST - 5) && listed(S[0]));
}

/* A score is a double: what it does not hold is not handed out. */
static void
test_snapshot_beyond_scores(void)
{
	MosqlTimestamp S;
	uint64		a;

	begin();
	a = open_session(LEASE_MS);
	server_command(ck.redis, "HSET", "test:{test.clock}:c", "last", text_of(MOSQL_CLOCK_SCORES - 1));
	CHECK(mosql_clock_snapshot(&ck, a, 1, LEASE_MS, &S, &schema));
	CHECK_INT(S, MOSQL_CLOCK_SCORES - 1);
	CHECK(mosql_clock_snapshot(&ck, a, 1, LEASE_MS, &S, &schema));
	CHECK_INT(S, MOSQL_CLOCK_SCORES - 1);
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK(list.n == 1 && listed(MOSQL_CLOCK_SCORES - 1));
	server_command(ck.redis, "HSET", "test:{test.clock}:c", "last", text_of(MOSQL_CLOCK_SCORES + 2));
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, (void) mosql_clock_snapshot(&ck, a, 2, LEASE_MS, &S, &schema));
}

/* A namespace of the format before, whose snapshots are a hash, is left as it is. */
static void
test_former_format(void)
{
	begin();
	server_command(ck.redis, "HSET", "test:{test.clock}:c", "format", "5", "last", "5");
	server_command(ck.redis, "HSET", "test:{test.clock}:p", "1.1", "5");
	CHECK_RAISES(ERRCODE_FEATURE_NOT_SUPPORTED, open_session(LEASE_MS));
	CHECK(strstr(pgstub_error.message, "\"5\"") != NULL && strstr(pgstub_error.message, "\"" MOSQL_CLOCK_FORMAT "\"") != NULL);
	CHECK_INT(number(server_command(ck.redis, "HLEN", "test:{test.clock}:p")), 1);
}

/* Nor is it rebuilt, nor a later one; what no program ever wrote there is damage. */
static void
test_rebuild_by_format(void)
{
	static const struct
	{
		const char *format;
		bool		foreign;
	}			all[] = {{"5", true}, {"9", true}, {"11", true}, {MOSQL_CLOCK_FORMAT, false}, {"", false}, {"10x", false}, {"010", false}};
	const MosqlClockState least = {.last = 10,.sid = 10,.schema = 10};

	for (volatile int i = 0; i < lengthof(all); i++)
	{
		begin();
		server_command(ck.redis, "HSET", "test:{test.clock}:c", "format", all[i].format, "last", "5");
		server_command(ck.redis, "HSET", "test:{test.clock}:p", "1.1", "5");
		if (all[i].foreign)
		{
			CHECK_RAISES(ERRCODE_FEATURE_NOT_SUPPORTED, mosql_clock_check_format(&ck));
			CHECK_RAISES(ERRCODE_FEATURE_NOT_SUPPORTED, mosql_clock_rebuild(&ck, &least));
		}
		else
		{
			mosql_clock_check_format(&ck);
			mosql_clock_rebuild(&ck, &least);
		}
		CHECK_INT(number(server_command(ck.redis, "EXISTS", "test:{test.clock}:p")), all[i].foreign);
		CHECK_STR(server_command(ck.redis, "HGET", "test:{test.clock}:c", "format")->str.data,
				  all[i].foreign ? all[i].format : MOSQL_CLOCK_FORMAT);
		CHECK_STR(server_command(ck.redis, "HGET", "test:{test.clock}:c", "last")->str.data,
				  all[i].foreign ? "5" : "10");
	}
}

/*
 * It goes on behind where it had leapt to, which only it knows: who then begins is not told that another
 * process may have forgotten what he has seen.
 */
static void
test_rebuild_after_leap(void)
{
	static const char key[] = "test:{test.clock}:c";
	static const char *const damaged[] = {"last", "schema", "leapt", "took"};
	const MosqlTimestamp leapt = UINT64CONST(3000000000123456);

	for (int i = 0; i < lengthof(damaged); i++)
	{
		MosqlClockState state;
		uint64		a;

		begin();
		(void) open_session(LEASE_MS);
		server_command(ck.redis, "HSET", key, "leapt", psprintf(UINT64_FORMAT, leapt), "took", "3000000000000000",
					   "last", psprintf(UINT64_FORMAT, leapt), "schema", psprintf(UINT64_FORMAT, leapt));
		server_command(ck.redis, "HSET", key, damaged[i], "nonsense");
		mosql_clock_read_state(&ck, &state);
		CHECK(!state.there);
		CHECK(state.last >= leapt);
		state.last++;
		state.schema = Max(state.schema + 1, state.last);
		mosql_clock_rebuild(&ck, &state);
		a = open_session(LEASE_MS);
		CHECK(schema > leapt);
		CHECK_INT(decide_since(a, 1, schema), MOSQL_DECIDED);
	}
}

/* last may be ahead of the time (a failover); nothing goes backward. */
static void
test_time_behind(void)
{
	MosqlTimestamp S;
	MosqlTimestamp future = UINT64CONST(3000000000123456);
	uint64		a;

	begin();
	a = open_session(LEASE_MS);
	server_command(ck.redis, "HSET", "test:{test.clock}:c", "last", psprintf(UINT64_FORMAT, future));
	CHECK(mosql_clock_snapshot(&ck, a, 1, LEASE_MS, &S, &schema));
	CHECK_INT(S, future);
	CHECK_INT(decide(a, 1), MOSQL_DECIDED);
	CHECK_INT(ts, future + 1);
	CHECK(mosql_clock_snapshot(&ck, a, 2, LEASE_MS, &S, &schema));
	CHECK_INT(S, future + 1);
}

/* Another server issues timestamps now: `last` leaps ahead of time and itself, once. */
static void
test_takeover(void)
{
	static const char key[] = "test:{test.clock}:c";
	MosqlTimestamp future = UINT64CONST(3000000000123456);
	MosqlTimestamp S,
				before;
	uint64		a,
				known;

	begin();
	a = open_session(LEASE_MS);
	CHECK_INT(decide(a, 1), MOSQL_DECIDED);
	before = ts;
	CHECK_INT(decide(a, 2), MOSQL_DECIDED);
	CHECK(ts - before < MOSQL_CLOCK_LEAP);
	before = ts;
	server_command(ck.redis, "HSET", key, "node", "somebody else");
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK_INT(schema, 0);		/* there are no definitions */
	server_command(ck.redis, "HSET", key, "node", "somebody else", "last", text_of(before), "schema", "1");
	CHECK(mosql_clock_snapshot(&ck, a, 1, LEASE_MS, &S, &schema));
	CHECK(S >= before + MOSQL_CLOCK_LEAP && S < before + 10 * (uint64) MOSQL_CLOCK_LEAP);
	CHECK_INT(decide(a, 3), MOSQL_REFUSED_SCHEMA);
	CHECK_INT(decide_since(a, 3, 1), MOSQL_REFUSED_FORGOTTEN);
	/* one that had leapt further, and was forgotten with that */
	CHECK_INT(decide_since(a, 3, schema + 1), MOSQL_REFUSED_FORGOTTEN);
	CHECK_INT(decide_now(a, 3), MOSQL_DECIDED);
	CHECK_INT(ts, S + 1);

	server_command(ck.redis, "HSET", key, "node", "somebody else", "last",
				   psprintf(UINT64_FORMAT, future));
	known = schema;
	CHECK_INT(decide_now(a, 4), MOSQL_REFUSED_SCHEMA);
	CHECK(schema > known);
	CHECK_INT(decide_now(a, 4), MOSQL_DECIDED);
	CHECK_INT(ts, future + MOSQL_CLOCK_LEAP + 1);
	CHECK_INT(decide_now(a, 5), MOSQL_DECIDED);
	CHECK_INT(ts, future + MOSQL_CLOCK_LEAP + 2);

	/* whoever issued what is there has left no name */
	server_command(ck.redis, "HDEL", key, "node");
	known = schema;
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK(list.last > future + 2 * MOSQL_CLOCK_LEAP + 2 && list.last < future + 3 * MOSQL_CLOCK_LEAP);
	CHECK(schema > known);

	/* a primary that was a replica meanwhile, of one that was asked for nothing */
	before = list.last;
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK_INT(list.last, before);
	server_command(ck.redis, "REPLICAOF", "127.0.0.1", "1");
	server_command(ck.redis, "REPLICAOF", "NO", "ONE");
	known = schema;
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK(list.last >= before + MOSQL_CLOCK_LEAP && schema > known);
}

/*
 * A clock that has forgotten the last moments, as after a restart from an old dump:
 * what it had given out it does not give out again, and nothing is decided that was
 * prepared before.
 */
static void
test_forgetful(void)
{
	static const char key[] = "test:{test.clock}:c";
	MosqlTimestamp issued;
	uint64		a,
				b,
				known;
	MosqlDecideArgs args;

	begin();
	a = open_session(LEASE_MS);
	args = args_for(a, 9);
	args.schema_change = true;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
	known = schema;
	server_command(ck.redis, "COPY", key, "dump:{test.clock}");
	b = open_session(LEASE_MS);
	args.tx = (MosqlTxid) {b, 1};
	args.schema = known;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
	CHECK(schema > known);
	issued = ts;

	server_command(ck.redis, "RENAME", "dump:{test.clock}", key);
	server_command(ck.redis, "HSET", key, "node", "the one before");
	args = args_for(a, 1);
	args.schema = known;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_REFUSED_SCHEMA);
	CHECK(schema > issued);
	CHECK_INT(decide_now(a, 2), MOSQL_DECIDED);
	CHECK(ts > issued);
	known = schema;
	CHECK(open_session(LEASE_MS) > b);
	CHECK_INT(schema, known);
}

static int64
lease_left(uint64 sid)
{
	return number(server_command(ck.redis, "HGET", session_key(sid), "lease")) - (int64) server_now();
}

static void
set_lease(uint64 sid, int64 left)
{
	char	   *end = text_of(server_now() + left);

	server_command(ck.redis, "HSET", session_key(sid), "lease", end);
	server_command(ck.redis, "ZADD", "test:{test.clock}:e", end, text_of(sid));
}

/* The server's time was ahead: leases of then are cut to their length, and end. */
static void
test_lease_far_away(void)
{
	const int64 day = INT64CONST(86400) * 1000000;
	MosqlTimestamp S;
	uint64		a,
				b,
				c,
				prefix;

	begin();
	prefix = open_session(86400 * 1000);
	a = open_session(LEASE_MS);
	b = open_session(SHORT_MS);
	c = open_session(LEASE_MS);
	CHECK(lease_left(prefix) > day - 10 * 1000000);
	set_lease(a, day / 2);
	set_lease(b, 2 * day);
	set_lease(c, 2 * day);
	CHECK(mosql_clock_snapshot(&ck, b, 1, SHORT_MS, &S, &schema));
	CHECK(lease_left(b) <= SHORT_MS * 1000);	/* who lives cuts his own */
	set_lease(b, 2 * day);
	(void) open_session(LEASE_MS);
	CHECK(lease_left(a) > 0 && lease_left(a) <= LEASE_MS * 1000);
	CHECK(lease_left(b) <= SHORT_MS * 1000);
	CHECK(lease_left(prefix) > day - 20 * 1000000);
	set_lease(prefix, 2 * day);
	set_lease(c, 2 * day);
	CHECK_INT(mosql_clock_expire(&ck, 1), 0);
	CHECK_INT(mosql_clock_expire(&ck, 100), 0);
	CHECK(lease_left(prefix) > day - 20 * 1000000 && lease_left(prefix) <= day);
	CHECK(lease_left(c) <= LEASE_MS * 1000);
	CHECK_INT(decide_now(a, 1), MOSQL_DECIDED);
	usleep(SHORT_MS * 1500);
	mosql_clock_expire(&ck, 100);
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK_INT(list.n, 0);		/* b's snapshot went with it */
}

/* Ids follow the time, or each other where that is faster. */
static void
test_ids(void)
{
	uint64		least;
	uint64		a;

	begin();
	least = mosql_clock_floor(server_now());
	a = open_session(LEASE_MS);
	CHECK(a >= least && a <= mosql_clock_floor(server_now()));
	CHECK(least >> MOSQL_SESSION_ID_BITS == 0);
	CHECK_INT(mosql_clock_floor(0), 0);
	CHECK_INT(mosql_clock_floor(UINT64CONST(1767225600000256)), 2);
	server_command(ck.redis, "HSET", "test:{test.clock}:c", "sid", text_of(a + 1000000));
	CHECK_INT(open_session(LEASE_MS), a + 1000001);
	server_command(ck.redis, "HSET", "test:{test.clock}:c", "sid", "17592186044415");
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, open_session(LEASE_MS));
	CHECK_INT(number(server_command(ck.redis, "HGET", "test:{test.clock}:c", "sid")), 17592186044415);
}

/* An empty namespace is told from a database; nothing is written there. */
static void
test_founding(void)
{
	uint64		first;

	begin();
	CHECK_INT(mosql_clock_open_existing(&ck, LEASE_MS, &schema), 0);
	CHECK_INT(mosql_clock_open_existing(&ck, LEASE_MS, &schema), 0);
	first = open_session(LEASE_MS);
	CHECK(first > 0 && mosql_clock_open_existing(&ck, LEASE_MS, &schema) > first);
}

/* --- transactions --- */

static void
test_decide(void)
{
	MosqlTimestamp first;
	uint64		a;

	begin();
	a = open_session(LEASE_MS);
	CHECK_INT(status(a, 1), MOSQL_RECORD_NONE);
	CHECK_INT(decide(a, 1), MOSQL_DECIDED);
	first = ts;
	CHECK(first <= server_now() && first > server_now() - 10 * 1000000);
	CHECK_INT(status(a, 1), MOSQL_RECORD_COMMITTED);
	CHECK_INT(record.ts, first);
	CHECK(mosql_bytes_equal(record.parts, B("p\0rts")));
	CHECK_INT(decide(a, 2), MOSQL_DECIDED);
	CHECK(ts > first);

	/* again: the same answer, also when the schema has moved on */
	CHECK_INT(decide(a, 1), MOSQL_DECIDED);
	CHECK_INT(ts, first);
	server_command(ck.redis, "HSET", "test:{test.clock}:c", "schema", "7");
	CHECK_INT(decide(a, 1), MOSQL_DECIDED);
	CHECK_INT(ts, first);
	CHECK_INT(schema, 7);
}

static void
test_decide_without_parts(void)
{
	uint64		a;
	MosqlDecideArgs args;

	begin();
	a = open_session(LEASE_MS);
	args = args_for(a, 1);
	args.parts = MOSQL_ABSENT;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
	CHECK_INT(status(a, 1), MOSQL_RECORD_COMMITTED);
	CHECK_INT(record.parts.len, 0);
}

static void
test_abort(void)
{
	uint64		a;

	begin();
	a = open_session(LEASE_MS);
	CHECK_INT(aborted(a, 1), MOSQL_RECORD_ABORTED);
	CHECK_INT(aborted(a, 1), MOSQL_RECORD_ABORTED);
	CHECK_INT(status(a, 1), MOSQL_RECORD_ABORTED);
	CHECK_INT(decide(a, 1), MOSQL_REFUSED_ABORTED);
	CHECK_INT(decide(a, 2), MOSQL_DECIDED);
	CHECK_INT(aborted(a, 2), MOSQL_RECORD_COMMITTED);
	CHECK_INT(record.ts, ts);
	CHECK_INT(list.last, ts);
	CHECK_INT(decide(a, 3), MOSQL_DECIDED);
	CHECK_INT(number(server_command(ck.redis, "ZCARD", "test:{test.clock}:e")), 1);
}

static void
test_status_of_many(void)
{
	MosqlTimestamp S;
	MosqlTxid	txs[4];
	MosqlRecord records[4];
	uint64		a,
				b;

	begin();
	a = open_session(LEASE_MS);
	b = open_session(LEASE_MS);
	CHECK(mosql_clock_snapshot(&ck, a, 1, LEASE_MS, &S, &schema));
	CHECK_INT(decide(a, 1), MOSQL_DECIDED);
	aborted(b, 1);
	txs[0] = (MosqlTxid) {a, 1};
	txs[1] = (MosqlTxid) {a, 2};
	txs[2] = (MosqlTxid) {b, 1};
	txs[3] = (MosqlTxid) {12345, 1};
	mosql_clock_status(&ck, txs, 4, records, &list);
	CHECK_INT(records[0].state, MOSQL_RECORD_COMMITTED);
	CHECK_INT(records[0].ts, ts);
	CHECK_INT(records[1].state, MOSQL_RECORD_NONE);
	CHECK_INT(records[2].state, MOSQL_RECORD_ABORTED);
	CHECK_INT(records[3].state, MOSQL_RECORD_NONE);
	CHECK(list.n == 1 && listed(S) && list.last == ts);
}

static void
test_damaged_record(void)
{
	uint64		a;

	begin();
	a = open_session(LEASE_MS);
	server_command(ck.redis, "HSET", session_key(a), "1", "Cx");
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, status(a, 1));
	server_command(ck.redis, "HSET", session_key(a), "1",
				   "C72057594037927935 x");
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, status(a, 1));
}

static void
test_schema(void)
{
	uint64		a,
				version;
	MosqlDecideArgs args;

	begin();
	a = open_session(LEASE_MS);
	args = args_for(a, 1);
	args.schema_change = true;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
	version = schema;
	CHECK_INT(version, ts);
	schema = 99;
	CHECK_INT(decide(a, 2), MOSQL_REFUSED_SCHEMA);
	CHECK_INT(schema, version);
	CHECK_INT(status(a, 2), MOSQL_RECORD_NONE);
	args = args_for(a, 2);
	args.schema = version;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
	schema = 99;
	(void) open_session(LEASE_MS);
	CHECK_INT(schema, version);
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK_INT(schema, version);
	CHECK_INT(list.last, ts);
}

/* The order of refusals: aborted, lease, schema. */
static void
test_refusals(void)
{
	uint64		a;
	MosqlDecideArgs args;

	begin();
	a = open_session(SHORT_MS);
	aborted(a, 1);
	usleep(SHORT_MS * 1500);
	args = args_for(a, 1);
	args.schema = 5;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_REFUSED_ABORTED);
	args.tx.n = 2;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_REFUSED_LEASE);
	a = open_session(LEASE_MS);
	args.tx.session = a;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_REFUSED_SCHEMA);
}

static void
test_settle(void)
{
	uint64		a;

	begin();
	a = open_session(LEASE_MS);
	CHECK_INT(settle(a, 1), MOSQL_RECORD_ABORTED);
	CHECK_INT(decide(a, 1), MOSQL_REFUSED_ABORTED);
	CHECK_INT(settle(a, 1), MOSQL_RECORD_ABORTED);
	CHECK_INT(decide(a, 2), MOSQL_DECIDED);
	CHECK_INT(settle(a, 2), MOSQL_RECORD_COMMITTED);
	CHECK_INT(record.ts, ts);
	CHECK_INT(list.last, ts);

	/* dead: only "committed" is certain */
	a = open_session(SHORT_MS);
	CHECK_INT(aborted(a, 1), MOSQL_RECORD_ABORTED);
	server_command(ck.redis, "HSET", session_key(a), "2", "C5 ");
	usleep(SHORT_MS * 1500);
	CHECK_INT(settle(a, 1), MOSQL_RECORD_UNKNOWN);
	CHECK_INT(settle(a, 2), MOSQL_RECORD_COMMITTED);
	CHECK_INT(record.ts, 5);
	CHECK_INT(settle(a, 3), MOSQL_RECORD_UNKNOWN);
	CHECK_INT(status(a, 3), MOSQL_RECORD_NONE);
}

static void
test_drop(void)
{
	uint64		a;
	uint64		ns[3] = {1, 2, 9};
	uint64		drops[2] = {3, 4};
	MosqlDecideArgs args;

	begin();
	a = open_session(LEASE_MS);
	for (int i = 1; i <= 4; i++)
		CHECK_INT(decide(a, i), MOSQL_DECIDED);
	mosql_clock_drop(&ck, a, ns, 3);
	mosql_clock_drop(&ck, a, ns, 0);
	CHECK(mosql_redis_drain(ck.redis, 1000));
	CHECK_INT(status(a, 1), MOSQL_RECORD_NONE);
	CHECK_INT(status(a, 2), MOSQL_RECORD_NONE);
	CHECK_INT(status(a, 3), MOSQL_RECORD_COMMITTED);

	/* on the way to the next decision, also a refused one */
	args = args_for(a, 5);
	args.drops = drops;
	args.ndrops = 1;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
	CHECK_INT(status(a, 3), MOSQL_RECORD_NONE);
	CHECK_INT(status(a, 4), MOSQL_RECORD_COMMITTED);
	args.tx.n = 6;
	args.schema = 1;
	args.drops = drops + 1;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_REFUSED_SCHEMA);
	CHECK(mosql_redis_drain(ck.redis, 1000));
	CHECK_INT(status(a, 4), MOSQL_RECORD_NONE);
	CHECK_INT(status(a, 5), MOSQL_RECORD_COMMITTED);
}

/*
 * Of what another process decided the intents may be back, in a dump, though the owner has seen
 * them go: it drops no record of then, neither by itself nor with a decision.
 */
static void
test_drop_of_before(void)
{
	static const char key[] = "test:{test.clock}:c";
	uint64		a;
	uint64		ns[2] = {1, 2};
	MosqlDecideArgs args;

	begin();
	a = open_session(LEASE_MS);
	CHECK_INT(decide(a, 1), MOSQL_DECIDED);
	server_command(ck.redis, "HSET", key, "node", "the one before");
	mosql_clock_drop(&ck, a, ns, 1);
	CHECK(mosql_redis_drain(ck.redis, 1000));
	CHECK_INT(status(a, 1), MOSQL_RECORD_COMMITTED);
	CHECK_INT(decide(a, 2), MOSQL_DECIDED);
	args = args_for(a, 3);
	args.drops = ns;
	args.ndrops = 2;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
	CHECK_INT(status(a, 1), MOSQL_RECORD_COMMITTED);
	CHECK_INT(status(a, 2), MOSQL_RECORD_NONE);
	mosql_clock_drop(&ck, a, ns, 1);
	CHECK(mosql_redis_drain(ck.redis, 1000));
	CHECK_INT(status(a, 1), MOSQL_RECORD_COMMITTED);
}

/* Restarted twice from a dump that was written when the clock had just leapt. */
static void
test_leap_twice(void)
{
	static const char key[] = "test:{test.clock}:c";
	MosqlTimestamp issued = 0;
	uint64		sid = 0;

	begin();
	(void) open_session(LEASE_MS);
	server_command(ck.redis, "HSET", key, "node", "the one before");
	(void) open_session(LEASE_MS);
	server_command(ck.redis, "COPY", key, "dump:{test.clock}");
	for (int i = 0; i < 3; i++)
	{
		uint64		drawn;

		server_command(ck.redis, "COPY", "dump:{test.clock}", key, "REPLACE");
		server_command(ck.redis, "HSET", key, "node", "another one");
		drawn = open_session(LEASE_MS);
		CHECK(drawn > sid);
		sid = drawn;
		CHECK_INT(decide_now(sid, 1), MOSQL_DECIDED);
		CHECK(ts > issued);
		issued = ts;
		pg_usleep(2000);
	}
}

/* More drops than fit into one call. */
static void
test_many_drops(void)
{
	enum {N = 2500};
	uint64	   *ns = palloc(N * sizeof(uint64));
	uint64		a;
	MosqlDecideArgs args;

	begin();
	a = open_session(LEASE_MS);
	for (int round = 0; round < 2; round++)
	{
		for (int i = 0; i < N; i++)
		{
			ns[i] = i + 10;
			server_command(ck.redis, "HSET", session_key(a),
						   psprintf("%d", i + 10), "C5 ");
		}
		args = args_for(a, 1);
		args.drops = ns;
		args.ndrops = N;
		if (round == 0)
			mosql_clock_drop(&ck, a, ns, N);
		else
			CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
		CHECK(mosql_redis_drain(ck.redis, 1000));
		CHECK_INT(number(server_command(ck.redis, "HLEN", session_key(a))),
				  3 + round);
	}
}

/* What the dead have committed is found, and dropped only if they are dead. */
static void
test_orphans(void)
{
	MosqlOrphan *orphans;
	uint64		ns[2] = {1, 2};
	uint64		a,
				b;

	begin();
	a = open_session(SHORT_MS * 2);
	b = open_session(LEASE_MS);
	for (int i = 1; i <= 2; i++)
	{
		MosqlDecideArgs args = args_for(a, i);

		args.lease_ms = SHORT_MS * 2;
		CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
		CHECK_INT(decide(b, i), MOSQL_DECIDED);
	}
	CHECK_INT(mosql_clock_orphans(&ck, 10, &orphans), 0);
	CHECK(!mosql_clock_reap(&ck, a, ns, 2));
	CHECK_INT(status(a, 1), MOSQL_RECORD_COMMITTED);
	usleep(SHORT_MS * 2500);
	(void) open_session(LEASE_MS);
	CHECK_INT(mosql_clock_orphans(&ck, 10, &orphans), 2);
	CHECK(orphans[0].tx.session == a && orphans[0].tx.n + orphans[1].tx.n == 3);
	CHECK(orphans[0].record.state == MOSQL_RECORD_COMMITTED);
	CHECK(mosql_bytes_equal(orphans[1].record.parts, B("p\0rts")));
	CHECK(mosql_clock_reap(&ck, a, ns, 1));
	CHECK_INT(mosql_clock_orphans(&ck, 10, &orphans), 1);
	CHECK_INT(orphans[0].tx.n, 2);

	/* late resolvers write "aborted": it goes with the rest of the session's key */
	CHECK_INT(aborted(a, 1), MOSQL_RECORD_ABORTED);
	CHECK(mosql_clock_reap(&ck, a, ns, 2));
	CHECK_INT(mosql_clock_orphans(&ck, 10, &orphans), 0);
	CHECK_INT(status(a, 1), MOSQL_RECORD_NONE);
	CHECK_INT(number(server_command(ck.redis, "EXISTS", session_key(a))), 0);
	CHECK(!mosql_clock_reap(&ck, b, ns, 2));
	CHECK_INT(status(b, 2), MOSQL_RECORD_COMMITTED);

	/* a dead one on the list that has nothing (any more) is reported, and goes */
	server_command(ck.redis, "SADD", "test:{test.clock}:d", text_of(a));
	CHECK_INT(mosql_clock_orphans(&ck, 10, &orphans), 1);
	CHECK(orphans[0].tx.session == a && orphans[0].record.state == MOSQL_RECORD_NONE);
	CHECK(mosql_clock_reap(&ck, a, ns, 0));
	CHECK_INT(mosql_clock_orphans(&ck, 10, &orphans), 0);
}

/* Sessions that ran out are forgotten without anybody opening one. */
static void
test_expire(void)
{
	MosqlTimestamp S;
	uint64		sid;

	begin();
	for (int i = 0; i < 5; i++)
	{
		sid = open_session(i == 2 ? LEASE_MS : SHORT_MS);
		CHECK(mosql_clock_snapshot(&ck, sid, 1, SHORT_MS, &S, &schema));
		CHECK_INT(aborted(sid, 1), MOSQL_RECORD_ABORTED);
	}
	CHECK_INT(mosql_clock_expire(&ck, 3), 0);
	usleep(SHORT_MS * 1500);
	CHECK_INT(mosql_clock_expire(&ck, 3), 3);
	CHECK_INT(mosql_clock_expire(&ck, 3), 1);
	CHECK_INT(mosql_clock_expire(&ck, 3), 0);
	CHECK_INT(number(server_command(ck.redis, "ZCARD", "test:{test.clock}:p")), 1);
	CHECK_INT(server_command(ck.redis, "KEYS", "test:{test.clock}:s:*")->n, 1);
}

/* --- housekeeping --- */

static MosqlFate
fate(uint64 sid, uint64 n)
{
	return mosql_clock_fate(&ck, (MosqlTxid) {sid, n});
}

/*
 * Every state in which the one who asks may find a transaction; what is final
 * stays so through the death of the session, reaping, and late resolvers.
 */
static void
test_fate(void)
{
	MosqlDecideArgs args;
	uint64		ns[1] = {1};
	uint64		a,
				b;

	begin();
	a = open_session(SHORT_MS * 3);
	args = args_for(a, 1);
	args.lease_ms = SHORT_MS * 3;
	CHECK_INT(mosql_clock_decide(&ck, &args, &ts, &list, &schema, NULL), MOSQL_DECIDED);
	CHECK_INT(fate(a, 1), MOSQL_FATE_COMMITTED);
	CHECK_INT(fate(a, 2), MOSQL_FATE_IN_PROGRESS);
	CHECK_INT(aborted(a, 2), MOSQL_RECORD_ABORTED);
	CHECK_INT(fate(a, 2), MOSQL_FATE_ABORTED);
	CHECK_INT(fate(a, 3), MOSQL_FATE_IN_PROGRESS);
	CHECK_INT(fate(a + 1, 1), MOSQL_FATE_UNKNOWN);
	usleep(SHORT_MS * 3500);

	/* dead by its lease: from the first answer on for good, whatever the time */
	CHECK_INT(fate(a, 3), MOSQL_FATE_ABORTED);
	CHECK(server_command(ck.redis, "HGET", session_key(a),
						 "lease")->kind == MOSQL_REPLY_NIL);
	CHECK_INT(fate(a, 1), MOSQL_FATE_COMMITTED);
	CHECK_INT(fate(a, 2), MOSQL_FATE_ABORTED);
	CHECK_INT(decide(a, 3), MOSQL_REFUSED_LEASE);

	CHECK_INT(mosql_clock_expire(&ck, 10), 1);
	CHECK_INT(fate(a, 1), MOSQL_FATE_COMMITTED);
	CHECK_INT(fate(a, 2), MOSQL_FATE_ABORTED);
	CHECK(mosql_clock_reap(&ck, a, ns, 1));
	CHECK_INT(status(a, 1), MOSQL_RECORD_NONE);
	CHECK_INT(fate(a, 1), MOSQL_FATE_COMMITTED);
	CHECK_INT(aborted(a, 1), MOSQL_RECORD_ABORTED);
	CHECK_INT(fate(a, 1), MOSQL_FATE_COMMITTED);
	CHECK_INT(fate(a, 3), MOSQL_FATE_ABORTED);

	/* what is forgotten is unknown, and so is what might have been */
	b = open_session(SHORT_MS);
	usleep(SHORT_MS * 1500);
	CHECK_INT(mosql_clock_forget_outcomes(&ck, 60000), 0);
	CHECK_INT(fate(a, 1), MOSQL_FATE_COMMITTED);
	CHECK_INT(mosql_clock_forget_outcomes(&ck, 1), 1);
	CHECK_INT(mosql_clock_forget_outcomes(&ck, 1), 0);
	CHECK_INT(fate(a, 1), MOSQL_FATE_UNKNOWN);
	CHECK_INT(fate(a, 2), MOSQL_FATE_UNKNOWN);
	CHECK_INT(fate(b, 1), MOSQL_FATE_ABORTED);
}

/* The log is forgotten from its old end, in portions, and `forgot` only grows. */
static void
test_forget_outcomes(void)
{
	int			gone = 0,
				got;

	begin();
	(void) open_session(LEASE_MS);
	for (int i = 0; i < 2500; i++)
		server_command(ck.redis, "ZADD", "test:{test.clock}:o", psprintf("%d", 1000 + i),
					   psprintf("%d.1", i < 1000 ? 5000 - i : i));
	server_command(ck.redis, "ZADD", "test:{test.clock}:o",
				   psprintf(UINT64_FORMAT, server_now()), "9999.1");
	while ((got = mosql_clock_forget_outcomes(&ck, 60000)) > 0)
	{
		gone += got;
		CHECK_INT(number(server_command(ck.redis, "HGET", "test:{test.clock}:c", "forgot")), 5000);
	}
	CHECK_INT(gone, 2500);
	CHECK_INT(number(server_command(ck.redis, "ZCARD", "test:{test.clock}:o")), 1);
}

/* One at a time; the dead are replaced; whoever was replaced is told. */
static void
test_jobs(void)
{
	MosqlJob	other;
	MosqlJob   *jobs;
	uint64		a,
				b;

	begin();
	a = open_session(SHORT_MS * 3);
	b = open_session(LEASE_MS);
	CHECK_INT(mosql_clock_jobs(&ck, &jobs), 0);
	CHECK(mosql_clock_job_start(&ck, "maintain", a, SHORT_MS * 3, "{\"a\": 1}", &other));
	CHECK(other.name == NULL);
	CHECK(!mosql_clock_job_start(&ck, "maintain", b, LEASE_MS, "b", &other));
	CHECK(other.sid == a && other.running && other.alive && strcmp(other.text.data, "{\"a\": 1}") == 0);
	CHECK(mosql_clock_job_start(&ck, "index 7", b, LEASE_MS, "", &other));
	CHECK(!mosql_clock_job_note(&ck, "maintain", b, LEASE_MS, "mine"));

	/* a note is a sign of life */
	for (int i = 0; i < 3; i++)
	{
		usleep(SHORT_MS * 2000);
		CHECK(mosql_clock_job_note(&ck, "maintain", a, SHORT_MS * 3, psprintf("note %d", i)));
	}
	CHECK_INT(mosql_clock_jobs(&ck, &jobs), 2);
	for (int i = 0; i < 2; i++)
		if (strcmp(jobs[i].name, "maintain") == 0)
			CHECK(jobs[i].alive && jobs[i].running && jobs[i].started < jobs[i].updated &&
				  strcmp(jobs[i].text.data, "note 2") == 0);
		else
			CHECK(strcmp(jobs[i].name, "index 7") == 0 && jobs[i].text.len == 0 && jobs[i].sid == b);

	usleep(SHORT_MS * 4000);
	CHECK(mosql_clock_job_start(&ck, "maintain", b, LEASE_MS, "taken over", &other));
	CHECK(other.sid == a && other.running);
	CHECK(!mosql_clock_job_note(&ck, "maintain", a, LEASE_MS, "late"));
	mosql_clock_job_end(&ck, "maintain", a, LEASE_MS, 5, "late");
	mosql_clock_job_end(&ck, "maintain", b, LEASE_MS, 7, "all done");
	CHECK(!mosql_clock_job_note(&ck, "maintain", b, LEASE_MS, "after the end"));
	CHECK(!mosql_clock_job_start(&ck, "maintain", a, LEASE_MS, "dead", &other));
	CHECK(mosql_clock_job_start(&ck, "maintain", b, LEASE_MS, "again", &other));
	CHECK(!other.running && other.mark == 7 && strcmp(other.text.data, "all done") == 0);

	server_command(ck.redis, "HSET", "test:{test.clock}:j", "maintain", "R 5 x");
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_clock_jobs(&ck, &jobs));
	server_command(ck.redis, "HSET", "test:{test.clock}:j", "maintain", "");
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_clock_jobs(&ck, &jobs));
}

/* Of several that want a job at once, one gets it. */
static int
want_job(int worker)
{
	MosqlJob	other;
	uint64		sid;

	reconnect();
	sid = open_session(LEASE_MS);
	for (int i = 0; i < 20; i++)
		if (mosql_clock_job_start(&ck, psprintf("job %d", i), sid, LEASE_MS, "", &other))
			server_command(ck.redis, "RPUSH", "got", psprintf("%d", i));
	return 0;
}

/* ---- who waits for whom ---- */

#define WAITERS 6

static MosqlWait
wait_of(uint64 owner, uint32 number, const MosqlTxid *ahead, int n)
{
	return (MosqlWait) {{1, owner}, number, 77, B("key"), n, ahead};
}

static bool
same_wait(const MosqlWait *a, const MosqlWait *b)
{
	return mosql_txid_equal(a->owner, b->owner) && a->number == b->number && a->root == b->root &&
		mosql_bytes_equal(a->key, b->key) && a->nahead == b->nahead &&
		(a->nahead == 0 || memcmp(a->ahead, b->ahead, a->nahead * sizeof(MosqlTxid)) == 0);
}

/* A sign is of one attempt, the last one counts, and who finds another's, or none, finds 0. */
static void
test_signs(void)
{
	MosqlTxid	tx = {7, 3};
	MosqlTxid	next = {7, 4};

	begin();
	CHECK_INT(mosql_clock_last_sign(&ck, tx), 0);
	mosql_clock_sign(&ck, tx, 1);
	mosql_clock_sign(&ck, tx, 2);
	CHECK_INT(mosql_clock_last_sign(&ck, tx), 2);
	CHECK_INT(mosql_clock_last_sign(&ck, next), 0);
	mosql_clock_sign(&ck, next, 1);
	CHECK_INT(mosql_clock_last_sign(&ck, next), 1);
	CHECK_INT(mosql_clock_last_sign(&ck, tx), 0);
	CHECK_INT(mosql_clock_last_sign(&ck, (MosqlTxid) {8, 4}), 0);
	CHECK(mosql_redis_drain(ck.redis, 1000));
}

static void
test_waits(void)
{
	MosqlTxid	ids[] = {{1, 1}, {1, 2}, {1, 3}};
	MosqlWait	a = wait_of(1, 1, &ids[1], 2);
	MosqlWait	b = wait_of(2, 1, &ids[2], 1);
	MosqlWait	c = wait_of(3, 5, &ids[0], 1);
	MosqlWait	again = wait_of(2, 2, NULL, 0);
	MosqlWaitEdge edge = {{1, 1}, {1, 3}};
	MosqlWait  *waits;
	int			cycle[3];

	begin();
	CHECK_INT(mosql_clock_waits(&ck, &waits), 0);
	CHECK_INT(mosql_clock_wait(&ck, &a, &waits), 1);
	CHECK(same_wait(&waits[0], &a));
	CHECK_INT(mosql_clock_wait(&ck, &b, &waits), 2);
	CHECK_INT(mosql_waits_cycle(waits, 2, b.owner, NULL, 0, cycle), 0);
	CHECK_INT(mosql_clock_wait(&ck, &c, &waits), 3);
	CHECK(same_wait(&waits[0], &a) && same_wait(&waits[1], &b) && same_wait(&waits[2], &c));
	CHECK_INT(mosql_waits_cycle(waits, 3, c.owner, NULL, 0, cycle), 2);
	CHECK(cycle[0] == 2 && cycle[1] == 0);
	CHECK_INT(mosql_waits_cycle(waits, 3, c.owner, &edge, 1, cycle), 3);
	CHECK(cycle[0] == 2 && cycle[1] == 0 && cycle[2] == 1);
	CHECK_INT(mosql_waits_cycle(waits, 3, (MosqlTxid) {9, 9}, NULL, 0, cycle), 0);

	/* one reports it; another one who has read the same does not */
	CHECK(mosql_clock_deadlock(&ck, waits, cycle, 3));
	CHECK(!mosql_clock_deadlock(&ck, waits, cycle, 3));
	CHECK_INT(mosql_clock_waits(&ck, &waits), 2);

	/* another wait of the same owner: the newest counts, and the end of the old one leaves it */
	CHECK_INT(mosql_clock_wait(&ck, &again, &waits), 2);
	CHECK(same_wait(&waits[1], &again));
	mosql_clock_wait_over(&ck, &b);
	CHECK_INT(mosql_clock_waits(&ck, &waits), 2);
	CHECK(same_wait(&waits[1], &again));
	mosql_clock_wait_over(&ck, &again);
	mosql_clock_wait_over(&ck, &a);
	CHECK_INT(mosql_clock_waits(&ck, &waits), 0);
	CHECK_INT(number(server_command(ck.redis, "EXISTS", "test:{test.clock}:w")), 0);

	/* it is told anew with others ahead: the cycle as it was read is no more */
	mosql_clock_wait(&ck, &a, &waits);
	mosql_clock_wait(&ck, &c, &waits);
	CHECK_INT(mosql_waits_cycle(waits, 2, c.owner, NULL, 0, cycle), 2);
	a.nahead = 1;
	mosql_clock_wait(&ck, &a, &waits);
	CHECK(!mosql_clock_deadlock(&ck, (MosqlWait[]) {wait_of(1, 1, &ids[1], 2), c}, (int[]) {1, 0}, 2));

	server_command(ck.redis, "HSET", "test:{test.clock}:w", "short", "x");
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_clock_waits(&ck, &waits));
}

/* What may be reached from where, without the edges left out. */
static void
reach(const MosqlWait *waits, int n, const MosqlWaitEdge *without, int nwithout,
	  bool reached[WAITERS][WAITERS])
{
	memset(reached, 0, WAITERS * sizeof(reached[0]));
	for (int i = 0; i < n; i++)
		for (int a = 0; a < waits[i].nahead; a++)
			for (int j = 0; j < n; j++)
			{
				bool		out = false;

				for (int k = 0; k < nwithout; k++)
					out |= mosql_txid_equal(without[k].waiter, waits[i].owner) &&
						mosql_txid_equal(without[k].ahead, waits[j].owner);
				reached[i][j] |= !out && mosql_txid_equal(waits[i].ahead[a], waits[j].owner);
			}
	for (int k = 0; k < n; k++)
		for (int i = 0; i < n; i++)
			for (int j = 0; j < n; j++)
				reached[i][j] |= reached[i][k] && reached[k][j];
}

/* Each cycle that is found is one, and one is found if there is any. */
static void
test_cycles(void)
{
	int			wrong = 0;
	int			found = 0;

	for (int round = 0; round < 20000; round++)
	{
		MosqlTxid	ahead[WAITERS][WAITERS];
		MosqlWait	waits[WAITERS];
		MosqlWaitEdge without[2];
		bool		reached[WAITERS][WAITERS];
		int			n = 1 + random_below(WAITERS);
		int			nwithout = random_below(3);
		int			cycle[WAITERS];
		int			start = random_below(n);
		int			length;

		for (int i = 0; i < n; i++)
		{
			waits[i] = wait_of(10 + i, 1, ahead[i], random_below(3));
			for (int a = 0; a < waits[i].nahead; a++)
				ahead[i][a] = (MosqlTxid) {1, 10 + random_below(WAITERS)};
		}
		for (int i = 0; i < nwithout; i++)
			without[i] = (MosqlWaitEdge) {{1, 10 + random_below(n)}, {1, 10 + random_below(n)}};
		reach(waits, n, without, nwithout, reached);
		length = mosql_waits_cycle(waits, n, waits[start].owner, without, nwithout, cycle);
		wrong += (length > 0) != reached[start][start];
		wrong += length > 0 && cycle[0] != start;
		found += length > 1;
		for (int i = 0; i < length; i++)
			wrong += !reached[cycle[i]][cycle[(i + 1) % length]];
	}
	CHECK_INT(wrong, 0);
	CHECK(found > 1000);
}

static void
test_concurrent_jobs(void)
{
	begin();
	mosql_redis_close(ck.redis);
	CHECK_INT(server_fork(WORKERS_FOR_JOBS, want_job), 0);
	reconnect();
	CHECK_INT(number(server_command(ck.redis, "LLEN", "got")), 20);
}

static void
test_sizes(void)
{
	MosqlTreeSize *sizes;
	uint64		gone[2] = {7, 99};

	begin();
	CHECK_INT(mosql_clock_sizes(&ck, &sizes), 0);
	mosql_clock_put_size(&ck, 7, 1);
	mosql_clock_put_size(&ck, UINT64CONST(1) << 60, 3);
	mosql_clock_put_size(&ck, 7, 2);
	CHECK_INT(mosql_clock_sizes(&ck, &sizes), 2);
	mosql_clock_drop_sizes(&ck, gone, 2);
	mosql_clock_drop_sizes(&ck, gone, 0);
	CHECK_INT(mosql_clock_sizes(&ck, &sizes), 1);
	CHECK(sizes[0].root == UINT64CONST(1) << 60 && sizes[0].leaves == 3);
}

/* Reading does not move it; a snapshot older than the last commit holds back. */
static void
test_decided(void)
{
	MosqlTimestamp S;
	uint64		a;
	bool		held;

	begin();
	a = open_session(LEASE_MS);
	CHECK_INT(mosql_clock_decided(&ck, &held), 0);
	CHECK(mosql_clock_snapshot(&ck, a, 1, LEASE_MS, &S, &schema));
	CHECK(mosql_clock_decided(&ck, &held) == 0 && !held);
	CHECK_INT(decide(a, 1), MOSQL_DECIDED);
	CHECK(mosql_clock_decided(&ck, &held) == ts && held);
	mosql_clock_release(&ck, a, 1);
	CHECK(mosql_clock_snapshot(&ck, a, 2, LEASE_MS, &S, &schema));
	CHECK(mosql_clock_decided(&ck, &held) == ts && !held);
}

/* The reply of decide is lost, the decision comes later: settle finds out. */
static void
test_decision_lost(void)
{
	MosqlBudget budget;
	MosqlDecideArgs args;
	MosqlDecision decision;
	uint64		a;

	begin();
	a = open_session(LEASE_MS);
	CHECK_INT(decide(a, 1), MOSQL_DECIDED);
	args = args_for(a, 2);
	budget = mosql_budget_start(200);
	kill(server_pid, SIGSTOP);
	decision = MOSQL_DECISION_LOST;
	if (PGSTUB_RAISES(decision = mosql_clock_decide(&ck, &args, &ts, &list, &schema, &budget)))
		CHECK(engine == MOSQL_ENGINE_WATCH && pgstub_error.sqlstate == ERRCODE_CONNECTION_FAILURE);
	kill(server_pid, SIGCONT);
	CHECK_INT(decision, MOSQL_DECISION_LOST);
	settle(a, 2);
	CHECK(record.state == MOSQL_RECORD_COMMITTED || record.state == MOSQL_RECORD_ABORTED);
	CHECK_INT(status(a, 2), record.state);
}

/* --- many at once --- */

#define WORKERS 4
#define DECISIONS 250

/*
 * Each worker decides, one after the other, and writes down what it got in
 * order; with snapshots in between, that must not lie before what was
 * decided.
 */
static int
decide_often(int worker)
{
	MosqlTimestamp previous = 0;
	uint64		sid;
	int			bad = 0;

	reconnect();
	sid = open_session(LEASE_MS);
	for (int i = 0; i < DECISIONS; i++)
	{
		MosqlTimestamp S;

		bad += decide(sid, i) != MOSQL_DECIDED;
		bad += ts <= previous;
		bad += list.last != ts;
		previous = ts;
		server_command(ck.redis, "RPUSH", "timestamps", psprintf(UINT64_FORMAT, ts));
		if (i % 5 == 0)
		{
			bad += !mosql_clock_snapshot(&ck, sid, i, LEASE_MS, &S, &schema);
			bad += S < previous;
			mosql_clock_release(&ck, sid, i);
			previous = S;
		}
	}
	return bad;
}

static int
compare_u64(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a,
				y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

static void
test_concurrent(void)
{
	const MosqlReply *reply;
	uint64	   *all;
	bool		unique = true;

	begin();
	mosql_redis_close(ck.redis);
	CHECK_INT(server_fork(WORKERS, decide_often), 0);
	reconnect();
	reply = server_command(ck.redis, "LRANGE", "timestamps", "0", "-1");
	CHECK_INT(reply->n, WORKERS * DECISIONS);
	all = palloc(reply->n * sizeof(uint64));
	for (int i = 0; i < reply->n; i++)
		all[i] = mosql_reply_u64(reply->elem[i]);
	qsort(all, reply->n, sizeof(uint64), compare_u64);
	for (int i = 1; i < reply->n; i++)
		unique &= all[i] != all[i - 1];
	CHECK(unique);
	mosql_clock_snapshots(&ck, &list, &schema);
	CHECK_INT(list.n, 0);
}

/* Owners decide, others abort the same transactions: both see one outcome. */
static int
race(int worker)
{
	int			bad = 0;

	reconnect();
	for (int i = 0; i < 200; i++)
	{
		MosqlRecordState mine;

		if (worker % 2 == 0)
			mine = decide(raced, i) == MOSQL_DECIDED ? MOSQL_RECORD_COMMITTED : MOSQL_RECORD_ABORTED;
		else
			mine = aborted(raced, i);
		bad += mine != status(raced, i);
	}
	return bad;
}

static void
test_race(void)
{
	begin();
	raced = open_session(LEASE_MS);
	mosql_redis_close(ck.redis);
	CHECK_INT(server_fork(WORKERS, race), 0);
	reconnect();
}

/* Sessions opened at once get different ids, while others are swept. */
static int
open_often(int worker)
{
	reconnect();
	for (int i = 0; i < 100; i++)
		server_command(ck.redis, "SADD", "ids", text_of(open_session(5)));
	return 0;
}

static void
test_concurrent_open(void)
{
	begin();
	mosql_redis_close(ck.redis);
	CHECK_INT(server_fork(WORKERS, open_often), 0);
	reconnect();
	CHECK_INT(number(server_command(ck.redis, "SCARD", "ids")), WORKERS * 100);
	usleep(20000);
	for (int i = 0; i < 40; i++)
		(void) open_session(LEASE_MS);
	CHECK_INT(number(server_command(ck.redis, "ZCARD", "test:{test.clock}:e")), 40);
	CHECK_INT(server_command(ck.redis, "KEYS", "test:{test.clock}:s:*")->n, 40);
}

int
main(void)
{
	server_start(false);
	RUN(test_cycles);
	for (engine = MOSQL_ENGINE_SCRIPT; engine <= MOSQL_ENGINE_WATCH; engine++)
	{
		printf("# engine %s\n", engine == MOSQL_ENGINE_SCRIPT ? "script" : "watch");
		RUN(test_open);
		RUN(test_foreign_format);
		RUN(test_wrong_type);
		RUN(test_impossible_time);
		RUN(test_damaged_answer);
		RUN(test_lease_ends);
		RUN(test_along);
		RUN(test_sweep_spares_others);
		RUN(test_lease_is_extended);
		RUN(test_close);
		RUN(test_sessions);
		RUN(test_extend);
		RUN(test_list_sessions);
		RUN(test_snapshots);
		RUN(test_many_snapshots);
		RUN(test_snapshot_beyond_scores);
		RUN(test_former_format);
		RUN(test_rebuild_by_format);
		RUN(test_rebuild_after_leap);
		RUN(test_time_behind);
		RUN(test_decide);
		RUN(test_decide_without_parts);
		RUN(test_abort);
		RUN(test_takeover);
		RUN(test_forgetful);
		RUN(test_ids);
		RUN(test_lease_far_away);
		RUN(test_founding);
		RUN(test_status_of_many);
		RUN(test_damaged_record);
		RUN(test_schema);
		RUN(test_refusals);
		RUN(test_settle);
		RUN(test_drop);
		RUN(test_drop_of_before);
		RUN(test_leap_twice);
		RUN(test_many_drops);
		RUN(test_orphans);
		RUN(test_expire);
		RUN(test_fate);
		RUN(test_forget_outcomes);
		RUN(test_jobs);
		RUN(test_concurrent_jobs);
		RUN(test_signs);
		RUN(test_waits);
		RUN(test_sizes);
		RUN(test_decided);
		RUN(test_concurrent);
		RUN(test_race);
		RUN(test_concurrent_open);
		RUN(test_decision_lost);
	}
	return unit_finish();
}
