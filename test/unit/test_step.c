/*
 * test_step.c: the contract of the mini-transaction, the same tests for both
 * engines, against a real server.
 */
#include "unit.h"
#include "server.h"
#include "steps.h"

#include "base/stats.h"
#include "code/claim.h"
#include "code/node.h"

static MosqlEngine engine;

static MosqlBytes
str(const char *s)
{
	return mosql_bytes(s, strlen(s));
}

/* A stepper with connections of its own, on an empty server. */
static void
begin(void)
{
	stepper.redis = server_client(5000);
	stepper.ns = "test";
	stepper.engine = engine;
	stepper.durable = false;
	server_command(stepper.redis, "FLUSHALL");
}

static void
reconnect(void)
{
	stepper.redis = server_client(5000);
}

static MosqlStep *
new_step(uint64 node)
{
	return new_large_step(node, 32);
}

static void
compare_range(MosqlStep *step, MosqlBytes low, MosqlBytes upper, MosqlBytes tx, MosqlBytes at_most)
{
	step->compares[step->ncompares++] = (MosqlCompare) {MOSQL_COMPARE_RANGE, low, 0, tx, upper, at_most};
}

/* Does a single compare hold on node 1? */
static bool
holds(MosqlCompareKind kind, const char *field, int offset, MosqlBytes bytes)
{
	MosqlStep  *step = new_step(1);
	MosqlStepStatus status;

	compare(step, kind, str(field), offset, bytes);
	writing(step, MOSQL_WRITE_SET, B("zz"), B("written"));
	status = run(step);
	CHECK_INT(step->failed, status == MOSQL_STEP_DONE ? -1 : 0);
	CHECK((get(1, B("zz")).data != NULL) == (status == MOSQL_STEP_DONE));
	step = new_step(1);
	writing(step, MOSQL_WRITE_DELETE, B("zz"), MOSQL_ABSENT);
	run(step);
	return status == MOSQL_STEP_DONE;
}

/* --- compares --- */

static void
test_compares(void)
{
	begin();
	set(1, B("m"), B("abc\0def\xff"));
	set(1, B("e"), B(""));

	CHECK(holds(MOSQL_COMPARE_ABSENT, "x", 0, B("")));
	CHECK(!holds(MOSQL_COMPARE_ABSENT, "m", 0, B("")));
	CHECK(!holds(MOSQL_COMPARE_ABSENT, "e", 0, B("")));

	CHECK(holds(MOSQL_COMPARE_EQUAL, "m", 0, B("abc")));
	CHECK(holds(MOSQL_COMPARE_EQUAL, "m", 2, B("c\0d")));
	CHECK(holds(MOSQL_COMPARE_EQUAL, "m", 7, B("\xff")));
	CHECK(!holds(MOSQL_COMPARE_EQUAL, "m", 7, B("\xff\xff")));
	CHECK(!holds(MOSQL_COMPARE_EQUAL, "m", 0, B("abd")));
	CHECK(!holds(MOSQL_COMPARE_EQUAL, "x", 0, B("abc")));
	CHECK(!holds(MOSQL_COMPARE_EQUAL, "x", 0, B("")));
	CHECK(holds(MOSQL_COMPARE_EQUAL, "e", 0, B("")));
	CHECK(holds(MOSQL_COMPARE_EQUAL, "e", 300, B("")));

	CHECK(holds(MOSQL_COMPARE_AT_MOST, "x", 0, B("a")));
	CHECK(holds(MOSQL_COMPARE_AT_MOST, "m", 0, B("abc")));
	CHECK(holds(MOSQL_COMPARE_AT_MOST, "m", 0, B("abd")));
	CHECK(!holds(MOSQL_COMPARE_AT_MOST, "m", 0, B("abb")));
	CHECK(!holds(MOSQL_COMPARE_AT_MOST, "m", 7, B("\xfe")));
	CHECK(holds(MOSQL_COMPARE_AT_MOST, "m", 3, B("\0e")));
	CHECK(!holds(MOSQL_COMPARE_AT_MOST, "m", 3, B("\0\0")));
	CHECK(holds(MOSQL_COMPARE_AT_MOST, "m", 20, B("a")));

	CHECK(holds(MOSQL_COMPARE_IN, "m", 1, B("xb")));
	CHECK(holds(MOSQL_COMPARE_IN, "m", 3, B("x\0")));
	CHECK(!holds(MOSQL_COMPARE_IN, "m", 1, B("xy")));
	CHECK(!holds(MOSQL_COMPARE_IN, "m", 8, B("xy\0")));
	CHECK(!holds(MOSQL_COMPARE_IN, "m", 1, B("")));
	CHECK(!holds(MOSQL_COMPARE_IN, "x", 0, B("Ll")));
	set(1, B("%"), B("%."));
	CHECK(holds(MOSQL_COMPARE_IN, "%", 0, B("a%")));
	CHECK(!holds(MOSQL_COMPARE_IN, "%", 1, B("ab")));

	CHECK(holds(MOSQL_COMPARE_ONLY, "x", 0, B("a")));
	CHECK(holds(MOSQL_COMPARE_ONLY, "m", 0, B("abc\0def\xff")));
	CHECK(!holds(MOSQL_COMPARE_ONLY, "m", 0, B("abc")));
	CHECK(!holds(MOSQL_COMPARE_ONLY, "e", 0, B("abc")));

	CHECK(!holds(MOSQL_COMPARE_WHOLE, "x", 0, B("a")));
	CHECK(!holds(MOSQL_COMPARE_WHOLE, "x", 0, B("")));
	CHECK(holds(MOSQL_COMPARE_WHOLE, "e", 0, B("")));
	CHECK(holds(MOSQL_COMPARE_WHOLE, "m", 0, B("abc\0def\xff")));
	CHECK(!holds(MOSQL_COMPARE_WHOLE, "m", 0, B("abc")));
	CHECK(!holds(MOSQL_COMPARE_WHOLE, "m", 0, B("abc\0def\xffg")));
	CHECK(!holds(MOSQL_COMPARE_WHOLE, "e", 0, B("abc")));

	CHECK(holds(MOSQL_COMPARE_COUNT, "m", 3, MOSQL_ABSENT));
	CHECK(!holds(MOSQL_COMPARE_COUNT, "m", 2, MOSQL_ABSENT));
	CHECK(!holds(MOSQL_COMPARE_COUNT, "m", 4, MOSQL_ABSENT));
	CHECK(!holds(MOSQL_COMPARE_COUNT, "x", 256 + 3, MOSQL_ABSENT));
}

/* Upper-case letters sort first in bytes, last in many locales. */
static void
test_compare_is_bytewise(void)
{
	begin();
	set(1, B("m"), B("a"));
	CHECK(!holds(MOSQL_COMPARE_AT_MOST, "m", 0, B("B")));
	set(1, B("m"), B("B"));
	CHECK(holds(MOSQL_COMPARE_AT_MOST, "m", 0, B("a")));
	set(1, B("m"), B("\x7f"));
	CHECK(holds(MOSQL_COMPARE_AT_MOST, "m", 0, B("\x80")));
}

static bool
range_holds(MosqlBytes low, MosqlBytes upper, const char *tx, MosqlBytes at_most)
{
	MosqlStep  *step = new_step(1);

	compare_range(step, low, upper, str(tx), at_most);
	writing(step, MOSQL_WRITE_APPEND, B("l"), B("0123456789abcdef"));
	return run(step) == MOSQL_STEP_DONE;
}

static void
test_range(void)
{
	begin();
	set(1, B("m"), B("meta"));
	set(1, B("rb"), B("0000005Lrow"));
	set(1, B("rd"), B("0000009T"));
	set(1, B("id"), B("aaaaaaaaaaaaaaaaP"));

	CHECK(range_holds(B("a"), B("b"), "", B("0000001")));
	CHECK(range_holds(B(""), B("d"), "", B("0000005")));
	CHECK(!range_holds(B(""), B("d"), "", B("0000004")));
	CHECK(range_holds(B("bb"), B("d"), "", B("0000004")));
	CHECK(range_holds(B("b"), MOSQL_ABSENT, "aaaaaaaaaaaaaaaa", B("0000009")));
	CHECK(!range_holds(B("b"), MOSQL_ABSENT, "aaaaaaaaaaaaaaaa", B("0000008")));
	CHECK(!range_holds(B("b"), MOSQL_ABSENT, "aaaaaaaaaaaaaaab", B("0000009")));
	CHECK(range_holds(B("b"), B("d"), "aaaaaaaaaaaaaaab", B("0000009")));
	CHECK(range_holds(B("b"), B(""), "aaaaaaaaaaaaaaab", B("0000001")));
	CHECK(range_holds(B("e"), MOSQL_ABSENT, "aaaaaaaaaaaaaaab", B("0000001")));
	CHECK(range_holds(B("b"), B("d"), "", MOSQL_ABSENT));
}

static bool
own_locks_hold(const char *owner, int n)
{
	MosqlStep  *step = new_step(1);

	compare_range(step, B(""), MOSQL_ABSENT, str(owner), B("0000000"));
	step->compares[0].offset = MOSQL_RANGE_OWN_LOCKS + n;
	return run(step) == MOSQL_STEP_DONE;
}

/* Two locks of one owner, and no more; nobody waits, nobody else has one, and no row is a field. */
static void
test_own_locks(void)
{
	begin();
	set(1, B("m"), B("meta"));
	set(1, B("b"), B("block"));
	CHECK(own_locks_hold("aaaaaaaaaaaaaaaa", 0) && !own_locks_hold("aaaaaaaaaaaaaaaa", 1));
	set(1, B("ib"), B("aaaaaaaaaaaaaaaaL\3\0\0\0\3"));
	set(1, B("id"), B("aaaaaaaaaaaaaaaaL\4\0\0\0\0"));
	CHECK(own_locks_hold("aaaaaaaaaaaaaaaa", 2) && !own_locks_hold("aaaaaaaaaaaaaaab", 2));
	CHECK(!own_locks_hold("aaaaaaaaaaaaaaaa", 1) && !own_locks_hold("aaaaaaaaaaaaaaaa", 3) && !own_locks_hold("aaaaaaaaaaaaaaaa", 0));
	set(1, B("ie"), B("aaaaaaaaaaaaaaaaL\4\0\0\0\0bbbbbbbbbbbbbbbbW\4\0\0\0\1"));
	CHECK(!own_locks_hold("aaaaaaaaaaaaaaaa", 3));
	set(1, B("ie"), B("aaaaaaaaaaaaaaaaW\4\0\0\0\1"));
	CHECK(!own_locks_hold("aaaaaaaaaaaaaaaa", 3));
	set(1, B("ie"), B("aaaaaaaaaaaaaaaaD"));
	CHECK(!own_locks_hold("aaaaaaaaaaaaaaaa", 3));
	set(1, B("ie"), B("aaaaaaaaaaaaaaaaL\4\0\0\0\0"));
	CHECK(own_locks_hold("aaaaaaaaaaaaaaaa", 3));
	set(1, B("rb"), B("0000005Lrow"));
	CHECK(!own_locks_hold("aaaaaaaaaaaaaaaa", 3));
}

/* The first compare that fails is named, and its step changes nothing. */
static void
test_failed(void)
{
	MosqlStep  *step = new_step(1);

	begin();
	set(1, B("a"), B("1"));
	compare(step, MOSQL_COMPARE_EQUAL, B("a"), 0, B("1"));
	compare_range(step, B(""), MOSQL_ABSENT, B("t"), B("1"));
	compare(step, MOSQL_COMPARE_ABSENT, B("a"), 0, MOSQL_ABSENT);
	compare(step, MOSQL_COMPARE_EQUAL, B("b"), 0, B("1"));
	reading(step, B("b"));
	reading(step, B("a"));
	writing(step, MOSQL_WRITE_SET, B("b"), B("2"));
	writing(step, MOSQL_WRITE_DELETE, B("a"), MOSQL_ABSENT);
	writing(step, MOSQL_WRITE_MAX, B("c"), B("2"));
	CHECK_INT(run(step), MOSQL_STEP_FAILED);
	CHECK_INT(step->failed, 2);
	CHECK_INT(step->nfields, 1);
	CHECK(step->values[0].data == NULL);
	CHECK(mosql_bytes_equal(step->values[1], B("1")));
	CHECK(get(1, B("b")).data == NULL);
	CHECK(get(1, B("c")).data == NULL);
	CHECK(mosql_bytes_equal(get(1, B("a")), B("1")));
}

/* --- writes --- */

static void
test_writes(void)
{
	MosqlStep  *step = new_step(1);

	begin();
	set(1, B("old"), B("x"));
	set(1, B("max1"), B("5"));
	set(1, B("max2"), B("5"));
	set(1, B("list1"), B("aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb"));
	set(1, B("list2"), B("aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb"));
	set(1, B("list3"), B("aaaaaaaaaaaaaaaa"));
	set(1, B("list4"), B("aaaaaaaaaaaaaaaa"));

	writing(step, MOSQL_WRITE_SET, B("new"), B("\0bin\xff\r\n"));
	writing(step, MOSQL_WRITE_SET, B("empty"), B(""));
	writing(step, MOSQL_WRITE_DELETE, B("old"), MOSQL_ABSENT);
	writing(step, MOSQL_WRITE_DELETE, B("never"), MOSQL_ABSENT);
	writing(step, MOSQL_WRITE_MAX, B("max0"), B(""));
	writing(step, MOSQL_WRITE_MAX, B("max1"), B("6"));
	writing(step, MOSQL_WRITE_MAX, B("max2"), B("49"));
	writing(step, MOSQL_WRITE_APPEND, B("list0"), B("cccccccccccccccc"));
	writing(step, MOSQL_WRITE_APPEND, B("list1"), B("bbbbbbbbbbbbbbbb"));
	writing(step, MOSQL_WRITE_REMOVE, B("list2"), B("aaaaaaaaaaaaaaaa"));
	writing(step, MOSQL_WRITE_REMOVE, B("list3"), B("aaaaaaaaaaaaaaaa"));
	writing(step, MOSQL_WRITE_APPEND, B("list4"), B("bbbbbbbbbbbbbbbb"));
	writing(step, MOSQL_WRITE_REMOVE, B("list5"), B("bbbbbbbbbbbbbbbb"));
	reading(step, B("old"));
	reading(step, B("new"));
	CHECK_INT(run(step), MOSQL_STEP_DONE);
	CHECK(mosql_bytes_equal(step->values[0], B("x")));
	CHECK(step->values[1].data == NULL);
	CHECK_INT(step->nfields, 9);

	CHECK(mosql_bytes_equal(get(1, B("new")), B("\0bin\xff\r\n")));
	CHECK(get(1, B("empty")).data != NULL && get(1, B("empty")).len == 0);
	CHECK(get(1, B("old")).data == NULL);
	CHECK(get(1, B("max0")).data != NULL);
	CHECK(mosql_bytes_equal(get(1, B("max1")), B("6")));
	CHECK(mosql_bytes_equal(get(1, B("max2")), B("5")));
	CHECK(mosql_bytes_equal(get(1, B("list0")), B("cccccccccccccccc")));
	CHECK(mosql_bytes_equal(get(1, B("list1")), B("aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb")));
	CHECK(mosql_bytes_equal(get(1, B("list2")), B("bbbbbbbbbbbbbbbb")));
	CHECK(get(1, B("list3")).data == NULL);
	CHECK(mosql_bytes_equal(get(1, B("list4")), B("aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb")));
	CHECK(get(1, B("list5")).data == NULL);
}

/* An entry is found at multiples of its length only. */
static void
test_list_alignment(void)
{
	MosqlStep  *step = new_step(1);

	begin();
	set(1, B("l"), B("aaaaaaaabbbbbbbbaaaaaaaabbbbbbbb"));
	writing(step, MOSQL_WRITE_REMOVE, B("l"), B("bbbbbbbbaaaaaaaa"));
	CHECK_INT(run(step), MOSQL_STEP_DONE);
	CHECK_INT(get(1, B("l")).len, 32);
	step = new_step(1);
	writing(step, MOSQL_WRITE_APPEND, B("l"), B("bbbbbbbbaaaaaaaa"));
	CHECK_INT(run(step), MOSQL_STEP_DONE);
	CHECK_INT(get(1, B("l")).len, 48);
}

/* The last field goes: the node is gone. */
static void
test_emptied(void)
{
	MosqlStep  *step = new_step(1);
	MosqlNodeImage image;
	uint64		node = 1;

	begin();
	set(1, B("a"), B("1"));
	writing(step, MOSQL_WRITE_DELETE, B("a"), MOSQL_ABSENT);
	CHECK_INT(run(step), MOSQL_STEP_DONE);
	CHECK_INT(step->nfields, 0);
	mosql_step_read_nodes(&stepper, &node, 1, &image, NULL);
	CHECK(!image.found);
}

/* Only compares, only reads, nothing at all. */
static void
test_partial_steps(void)
{
	MosqlStep  *step;

	begin();
	set(1, B("a"), B("1"));
	step = new_step(1);
	reading(step, B("a"));
	CHECK_INT(run(step), MOSQL_STEP_DONE);
	CHECK(mosql_bytes_equal(step->values[0], B("1")));
	CHECK_INT(step->nfields, 1);
	step = new_step(1);
	compare(step, MOSQL_COMPARE_EQUAL, B("a"), 0, B("2"));
	CHECK_INT(run(step), MOSQL_STEP_FAILED);
	step = new_step(1);
	CHECK_INT(run(step), MOSQL_STEP_DONE);
	CHECK_INT(step->nfields, 1);
	step = new_step(7);
	CHECK_INT(run(step), MOSQL_STEP_DONE);
	CHECK_INT(step->nfields, 0);
	mosql_step_run(&stepper, NULL, 0, NULL);
}

/* As many parts as the largest real steps have, and more than unpack() takes. */
static void
test_large(void)
{
	MosqlStep  *step = new_large_step(1, 300);

	begin();
	for (int i = 0; i < 150; i++)
	{
		compare(step, MOSQL_COMPARE_ABSENT, str(psprintf("i%d", i)), 0, MOSQL_ABSENT);
		compare(step, MOSQL_COMPARE_ABSENT, str(psprintf("r%d", i)), 0, MOSQL_ABSENT);
		writing(step, MOSQL_WRITE_SET, str(psprintf("i%d", i)), str(psprintf("value %d", i)));
	}
	CHECK_INT(run(step), MOSQL_STEP_DONE);
	CHECK_INT(step->nfields, 150);
	CHECK_INT(run(step), MOSQL_STEP_FAILED);
	CHECK_INT(step->failed, 0);
	CHECK(mosql_bytes_equal(get(1, B("i149")), B("value 149")));

	step = new_large_step(2, 9000);
	for (int i = 0; i < 9000; i++)
		writing(step, MOSQL_WRITE_SET, str(psprintf("f%d", i)), str(psprintf("%d", i)));
	CHECK_INT(run(step), MOSQL_STEP_DONE);
	CHECK_INT(step->nfields, 9000);
	step = new_large_step(2, 9000);
	for (int i = 0; i < 8999; i++)
		writing(step, MOSQL_WRITE_DELETE, str(psprintf("f%d", i)), MOSQL_ABSENT);
	CHECK_INT(run(step), MOSQL_STEP_DONE);
	CHECK_INT(step->nfields, 1);
	CHECK(mosql_bytes_equal(get(2, B("f8999")), B("8999")));
}

/* --- several steps --- */

static void
test_parallel(void)
{
	MosqlStep  *steps[20];

	begin();
	for (int i = 0; i < 20; i++)
	{
		steps[i] = new_step(i);
		if (i % 3 == 0)
			compare(steps[i], MOSQL_COMPARE_EQUAL, B("no"), 0, B("x"));
		writing(steps[i], MOSQL_WRITE_SET, B("a"), str(psprintf("%d", i)));
	}
	mosql_step_run(&stepper, steps, 20, NULL);
	for (int i = 0; i < 20; i++)
	{
		CHECK_INT(steps[i]->status, i % 3 == 0 ? MOSQL_STEP_FAILED : MOSQL_STEP_DONE);
		CHECK((get(i, B("a")).data != NULL) == (i % 3 != 0));
	}

	/* on one node they happen one after the other */
	for (int i = 0; i < 20; i++)
	{
		steps[i] = new_step(100);
		if (i > 0)
			compare(steps[i], MOSQL_COMPARE_EQUAL, B("a"), 0, str(psprintf("%02d", i - 1)));
		writing(steps[i], MOSQL_WRITE_SET, B("a"), str(psprintf("%02d", i)));
	}
	mosql_step_run(&stepper, steps, 20, NULL);
	for (int i = 0; i < 20; i++)
		CHECK_INT(steps[i]->status, MOSQL_STEP_DONE);
	CHECK(mosql_bytes_equal(get(100, B("a")), B("19")));
}

/* A failed step's watch does not trouble the next step on its connection. */
static void
test_no_watch_left(void)
{
	MosqlRedis *other;
	MosqlStep  *step = new_step(1);
	int64		retries;

	begin();
	other = server_client(5000);
	compare(step, MOSQL_COMPARE_EQUAL, B("no"), 0, B("x"));
	writing(step, MOSQL_WRITE_SET, B("a"), B("1"));
	CHECK_INT(run(step), MOSQL_STEP_FAILED);
	retries = mosql_stats.step_retries;
	server_command(other, "HSET", "test:{0000000000000001}", "b", "1");
	set(2, B("a"), B("1"));
	CHECK_INT(mosql_stats.step_retries, retries);
}

static int	sent_status;
static int	sent_nfields;
static int	sent_calls;

static void
sent(void *arg, MosqlStepStatus status, int nfields)
{
	sent_status = status;
	sent_nfields = nfields;
	sent_calls += *(int *) arg;
}

static void
test_send(void)
{
	MosqlStep  *step = new_step(1);
	int			one = 1;

	if (engine != MOSQL_ENGINE_SCRIPT)
		return;
	begin();
	sent_calls = 0;
	writing(step, MOSQL_WRITE_SET, B("a"), B("1"));
	writing(step, MOSQL_WRITE_SET, B("b"), B("1"));
	mosql_step_send(&stepper, step, sent, &one);
	CHECK(mosql_redis_drain(stepper.redis, 1000));
	CHECK_INT(sent_calls, 1);
	CHECK_INT(sent_status, MOSQL_STEP_DONE);
	CHECK_INT(sent_nfields, 2);

	/* now by hash, and refused */
	set(1, B("c"), B("1"));
	compare(step, MOSQL_COMPARE_ABSENT, B("a"), 0, MOSQL_ABSENT);
	mosql_step_send(&stepper, step, sent, &one);
	mosql_step_send(&stepper, step, NULL, NULL);
	CHECK(mosql_redis_drain(stepper.redis, 1000));
	CHECK_INT(sent_calls, 2);
	CHECK_INT(sent_status, MOSQL_STEP_FAILED);
	CHECK_INT(sent_nfields, 3);

	/* an error is LOST, not an exception */
	server_command(stepper.redis, "SET", "test:{0000000000000002}", "x");
	step->node = 2;
	mosql_step_send(&stepper, step, sent, &one);
	CHECK(mosql_redis_drain(stepper.redis, 1000));
	CHECK_INT(sent_calls, 3);
	CHECK_INT(sent_status, MOSQL_STEP_LOST);
}

/* Who has two servers sends each of them the script's text once. */
static void
test_send_two(void)
{
	MosqlStep  *step = new_step(1);
	MosqlRedis *clients[2];
	int			one = 1;

	if (engine != MOSQL_ENGINE_SCRIPT)
		return;
	writing(step, MOSQL_WRITE_SET, B("a"), B("1"));
	for (int i = 0; i < 2; i++)
	{
		begin();
		clients[i] = stepper.redis;
	}
	for (int i = 0; i < 6; i++)
	{
		int64		before = mosql_stats.bytes_sent;

		stepper.redis = clients[i % 2];
		mosql_step_send(&stepper, step, sent, &one);
		CHECK(mosql_redis_drain(stepper.redis, 1000));
		CHECK_INT(sent_status, MOSQL_STEP_DONE);
		CHECK(mosql_stats.bytes_sent - before < 1000 || i < 2);
	}
}

/* --- the world around --- */

static void
test_reads(void)
{
	uint64		nodes[3] = {1, 2, 3};
	MosqlNodeImage images[3];
	MosqlBytes	fields[3] = {B("a"), B("x"), B("b")};
	MosqlFieldRead reads[2] = {{1, 3, fields}, {2, 1, fields}};

	begin();
	set(1, B("a"), B("1"));
	set(1, B("b"), B(""));
	set(3, B("c"), B("\0\xff"));
	mosql_step_read_nodes(&stepper, nodes, 3, images, NULL);
	CHECK(images[0].found && images[0].nfields == 2 && images[0].node == 1);
	CHECK(!images[1].found && images[1].nfields == 0);
	CHECK(images[2].found && mosql_bytes_equal(images[2].fields[0].value, B("\0\xff")));
	mosql_step_read_fields(&stepper, reads, 2, NULL);
	CHECK(mosql_bytes_equal(reads[0].values[0], B("1")));
	CHECK(reads[0].values[1].data == NULL);
	CHECK(reads[0].values[2].data != NULL && reads[0].values[2].len == 0);
	CHECK(reads[1].values[0].data == NULL);
	mosql_step_delete_nodes(&stepper, nodes, 2, NULL);
	mosql_step_read_nodes(&stepper, nodes, 3, images, NULL);
	CHECK(!images[0].found && !images[1].found && images[2].found);
	mosql_step_read_nodes(&stepper, NULL, 0, NULL, NULL);
}

/* Nodes that were asked for, other commands meanwhile; dropped before they have come, and after. */
static void
test_prefetch(void)
{
	uint64		nodes[3] = {1, 2, 3};
	MosqlNodeImage images[3];
	MosqlPrefetch *asked;
	int64		trips;

	begin();
	set(1, B("a"), B("1"));
	set(1, B("b"), B(""));
	set(3, B("c"), B("\0\xff"));
	trips = mosql_stats.round_trips;
	asked = mosql_step_prefetch(&stepper, nodes, 3, true);
	CHECK(mosql_step_prefetched(asked, images));
	CHECK_INT(mosql_stats.round_trips - trips, 1);
	CHECK(images[0].found && images[0].nfields == 2 && images[0].node == 1);
	CHECK(mosql_bytes_equal(images[0].fields[0].field, B("a")) && images[0].fields[1].value.len == 0);
	CHECK(!images[1].found && images[1].nfields == 0);
	CHECK(images[2].found && mosql_bytes_equal(images[2].fields[0].value, B("\0\xff")));

	asked = mosql_step_prefetch(&stepper, nodes, 3, true);
	CHECK(mosql_bytes_equal(get(1, B("a")), B("1")));
	set(1, B("a"), B("2"));
	trips = mosql_stats.round_trips;
	CHECK(mosql_step_prefetched(asked, images));
	CHECK_INT(mosql_stats.round_trips - trips, 0);
	CHECK(mosql_bytes_equal(images[0].fields[0].value, B("1")));

	mosql_step_prefetch_drop(mosql_step_prefetch(&stepper, nodes, 3, true));
	asked = mosql_step_prefetch(&stepper, nodes, 3, true);
	CHECK(mosql_bytes_equal(get(1, B("a")), B("2")));
	mosql_step_prefetch_drop(asked);
}

/* What does not come as a node does takes all of them with it, and they can be read. */
static void
test_prefetch_fails(void)
{
	uint64		nodes[3] = {1, 2, 3};
	MosqlNodeImage images[3];
	MosqlPrefetch *asked;
	MosqlRedis *other = server_client(5000);

	begin();
	set(1, B("a"), B("1"));
	server_command(other, "SET", "test:{0000000000000002}", "x");
	CHECK(!mosql_step_prefetched(mosql_step_prefetch(&stepper, nodes, 3, true), images));
	CHECK(mosql_step_prefetched(mosql_step_prefetch(&stepper, nodes, 1, true), images));

	asked = mosql_step_prefetch(&stepper, nodes, 1, true);
	mosql_redis_disconnect(stepper.redis);
	CHECK(!mosql_step_prefetched(asked, images));
	asked = mosql_step_prefetch(&stepper, nodes, 1, true);
	mosql_step_prefetch_drop(asked);
	mosql_redis_disconnect(stepper.redis);
	mosql_step_read_nodes(&stepper, nodes, 1, images, NULL);
	CHECK(images[0].found);
}

/* A server that has hung up on who had replies to read: what is sent once is sent on a new connection. */
static void
test_prefetch_then_closed(void)
{
	uint64		node = 1;
	MosqlStep  *step = new_step(1);
	MosqlPrefetch *asked;
	MosqlNodeImage image;
	MosqlRedis *other = server_client(5000);

	begin();
	set(1, B("a"), B("1"));
	server_command(other, "PING");
	asked = mosql_step_prefetch(&stepper, &node, 1, true);
	server_command(other, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
	pg_usleep(100000);
	writing(step, MOSQL_WRITE_SET, B("a"), B("2"));
	CHECK_INT(run(step), MOSQL_STEP_DONE);
	if (mosql_step_prefetched(asked, &image))
		CHECK(mosql_bytes_equal(image.fields[0].value, B("1")));
}

/* Who is not answered for a second does without, long before his command timeout, and hears the answer later. */
static void
test_prefetch_of_the_silent(void)
{
	uint64		node = 1;
	MosqlNodeImage image;

	begin();
	set(1, B("a"), B("1"));
	server_command(stepper.redis, "CLIENT", "PAUSE", "2500", "ALL");
	CHECK(!mosql_step_prefetched(mosql_step_prefetch(&stepper, &node, 1, true), &image));
	mosql_step_read_nodes(&stepper, &node, 1, &image, NULL);
	CHECK(image.found);
}

/* Nobody waits for room. */
static void
test_prefetch_no_room(void)
{
	uint64		nodes[64];
	MosqlNodeImage images[64];
	MosqlPrefetch *asked[12];
	int			came = 0;

	begin();
	for (int i = 0; i < lengthof(nodes); i++)
		nodes[i] = i;
	set(1, B("a"), B("1"));
	for (int i = 0; i < lengthof(asked); i++)
		asked[i] = mosql_step_prefetch(&stepper, nodes, lengthof(nodes), true);
	for (int i = 0; i < lengthof(asked); i++)
		came += mosql_step_prefetched(asked[i], images);
	CHECK(came > 0 && came < lengthof(asked));
	CHECK(mosql_step_prefetched(mosql_step_prefetch(&stepper, nodes, 64, true), images));
}

static void
test_reads_at_once(void)
{
	uint64		nodes[3] = {1, 2, 3};
	uint64		schema = 1;
	MosqlNodeImage images[3];

	begin();
	set(1, B("a"), B("1"));
	set(3, B("c"), B("\0\xff"));
	CHECK_INT(mosql_step_reads_at_once(&stepper, nodes, 3, false), stepper.engine == MOSQL_ENGINE_SCRIPT);
	if (stepper.engine != MOSQL_ENGINE_SCRIPT)
		return;
	CHECK(mosql_step_read_nodes_at_once(&stepper, nodes, 3, images, NULL, NULL));
	CHECK(images[0].found && images[0].nfields == 1 && images[0].node == 1);
	CHECK(!images[1].found && images[1].nfields == 0);
	CHECK(images[2].found && mosql_bytes_equal(images[2].fields[0].value, B("\0\xff")));
	server_command(stepper.redis, "HSET", "test:{test.clock}:c", "schema", "7");
	CHECK(mosql_step_read_nodes_at_once(&stepper, nodes, 1, images, &schema, NULL));
	CHECK(images[0].found && images[0].nfields == 1 && schema == 7);
	CHECK(mosql_step_read_nodes_at_once(&stepper, nodes, 3, images, &schema, NULL));
	CHECK(images[2].found && schema == 7);
	server_command(stepper.redis, "DEL", "test:{test.clock}:c");
	CHECK(mosql_step_read_nodes_at_once(&stepper, nodes, 3, images, &schema, NULL));
	CHECK_INT(schema, 0);
	server_command(stepper.redis, "SET", "test:{0000000000000002}", "x");
	CHECK(!mosql_step_read_nodes_at_once(&stepper, nodes, 3, images, NULL, NULL));
}

/* Who may not call one of the commands is refused, and can go on; without memory to queue them, too. */
static void
test_refused_at_once(void)
{
	static const char *const needed[] = {"-multi", "-exec", "-hgetall"};
	uint64		nodes[2] = {1, 2};
	MosqlNodeImage images[2];

	if (stepper.engine != MOSQL_ENGINE_SCRIPT)
		return;
	begin();
	set(1, B("a"), B("1"));
	for (int i = 0; i < lengthof(needed); i++)
	{
		server_command(stepper.redis, "ACL", "SETUSER", "default", needed[i]);
		CHECK(!mosql_step_read_nodes_at_once(&stepper, nodes, 2, images, NULL, NULL));
		server_command(stepper.redis, "ACL", "SETUSER", "default", "+@all");
		CHECK(mosql_bytes_equal(get(1, B("a")), B("1")));
	}
	server_command(stepper.redis, "CONFIG", "SET", "maxmemory", "1");
	(void) mosql_step_read_nodes_at_once(&stepper, nodes, 2, images, NULL, NULL);		/* Valkey 8 does not mind */
	mosql_step_read_nodes(&stepper, nodes, 2, images, NULL);
	CHECK(images[0].found && !images[1].found);
	server_command(stepper.redis, "CONFIG", "SET", "maxmemory", "0");
	CHECK(mosql_step_read_nodes_at_once(&stepper, nodes, 2, images, NULL, NULL));
}

static void
test_wrong_type(void)
{
	MosqlStep  *step = new_step(1);
	uint64		node = 1;
	MosqlNodeImage image;
	MosqlBytes	field = B("a");
	MosqlFieldRead read = {1, 1, &field};

	begin();
	server_command(stepper.redis, "SET", "test:{0000000000000001}", "x");
	writing(step, MOSQL_WRITE_SET, B("a"), B("1"));
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, run(step));
	CHECK(strstr(pgstub_error.message, "test:{0000000000000001}") != NULL);
	reading(step, B("a"));
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, run(step));
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_step_read_nodes(&stepper, &node, 1, &image, NULL));
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_step_read_fields(&stepper, &read, 1, NULL));
	stepper.lenient = true;
	mosql_step_read_nodes(&stepper, &node, 1, &image, NULL);
	CHECK(image.found && image.nfields == 0);
	mosql_step_read_fields(&stepper, &read, 1, NULL);
	CHECK(read.values[0].data != NULL && read.values[0].len == 0);
	stepper.lenient = false;
	step->node = 2;
	CHECK_INT(run(step), MOSQL_STEP_DONE);
}

/* A message has steps of all sorts of ends; what ends one of them ends no other. */
static void
test_message(void)
{
	MosqlStep  *steps[4];

	begin();
	for (int i = 0; i < 4; i++)
	{
		steps[i] = new_step(i);
		reading(steps[i], B("a"));
		writing(steps[i], MOSQL_WRITE_DELETE, B("none"), MOSQL_ABSENT);
		writing(steps[i], MOSQL_WRITE_SET, B("a"), str(psprintf("%d", i)));
	}
	compare(steps[1], MOSQL_COMPARE_EQUAL, B("b"), 0, B("x"));
	set(0, B("a"), B("old"));
	mosql_step_run(&stepper, steps, 4, NULL);
	for (int i = 0; i < 4; i++)
	{
		CHECK_INT(steps[i]->status, i == 1 ? MOSQL_STEP_FAILED : MOSQL_STEP_DONE);
		CHECK_INT(steps[i]->nfields, i == 1 ? 0 : 1);
		CHECK((steps[i]->values[0].data != NULL) == (i == 0));
	}

	/* and it is one */
	for (int together = 0; together < 2; together++)
	{
		const char *calls;

		mosql_step_messages = together;
		mosql_step_run(&stepper, steps, 4, NULL);
		server_command(stepper.redis, "CONFIG", "RESETSTAT");
		mosql_step_run(&stepper, steps, 4, NULL);
		calls = server_command(stepper.redis, "INFO", "commandstats")->str.data;
		if (engine == MOSQL_ENGINE_SCRIPT)
			CHECK(strstr(calls, together ? "cmdstat_evalsha:calls=1," : "cmdstat_evalsha:calls=4,") != NULL);
	}

	/* a foreign key in the middle is reported, and the others are done */
	server_command(stepper.redis, "SET", "test:{0000000000000001}", "x");
	for (int i = 0; i < 4; i++)
		steps[i]->writes[1].value = B("new");
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_step_run(&stepper, steps, 4, NULL));
	CHECK(strstr(pgstub_error.message, "test:{0000000000000001}") != NULL);
	for (int i = 0; i < 4; i++)
		if (i != 1 && engine == MOSQL_ENGINE_SCRIPT)
			CHECK(mosql_bytes_equal(get(i, B("a")), B("new")));
	stepper.alone_until_us = 0;
}

/* Steps that are larger than a message, and more than it takes, in their order. */
static void
test_message_bounds(void)
{
	enum {N = 3 * MOSQL_MESSAGE_MAX_STEPS + 5};
	MosqlStep  *steps[N];
	MosqlBytes	large = mosql_bytes(palloc0(MOSQL_MESSAGE_MAX_BYTES), MOSQL_MESSAGE_MAX_BYTES);

	begin();
	for (int i = 0; i < N; i++)
	{
		steps[i] = new_step(1);
		steps[i]->repeatable = i % 40 == 7;
		if (i > 0)
			compare(steps[i], MOSQL_COMPARE_EQUAL, B("a"), 0, str(psprintf("%03d", i - 1)));
		writing(steps[i], MOSQL_WRITE_SET, B("a"), str(psprintf("%03d", i)));
		if (i % 50 == 10)
			writing(steps[i], MOSQL_WRITE_SET, B("b"), large);
	}
	mosql_step_run(&stepper, steps, N, NULL);
	for (int i = 0; i < N; i++)
		CHECK_INT(steps[i]->status, MOSQL_STEP_DONE);
}

/* What a message reads is bounded, too: the rest is done alone. */
static void
test_message_reads(void)
{
	MosqlStep  *steps[5];
	MosqlBytes	large = mosql_bytes(palloc0(600 * 1024), 600 * 1024);

	begin();
	for (int i = 0; i < 5; i++)
	{
		set(i, B("a"), large);
		steps[i] = new_step(i);
		reading(steps[i], B("a"));
		writing(steps[i], MOSQL_WRITE_SET, B("b"), B("new"));
	}
	stepper.alone_until_us = 0;
	mosql_step_run(&stepper, steps, 5, NULL);
	for (int i = 0; i < 5; i++)
	{
		CHECK_INT(steps[i]->status, MOSQL_STEP_DONE);
		CHECK_INT(steps[i]->values[0].len, 600 * 1024);
		CHECK_INT(steps[i]->nfields, 2);
	}
	CHECK((stepper.alone_until_us > 0) == (engine == MOSQL_ENGINE_SCRIPT));
	stepper.alone_until_us = 0;
}

/*
 * No memory left: nothing is written, whatever the order of commands.  Deletes
 * alone still work in a script; inside MULTI Redis and Valkey up to 8 refuse
 * everything then, Valkey 9 does not.
 */
static void
test_out_of_memory(void)
{
	MosqlStep  *both = new_step(1);
	MosqlStep  *delete = new_step(1);
	bool		raised;

	begin();
	set(1, B("a"), B("1"));
	writing(both, MOSQL_WRITE_SET, B("b"), B("1"));
	writing(delete, MOSQL_WRITE_DELETE, B("a"), MOSQL_ABSENT);
	server_command(stepper.redis, "CONFIG", "SET", "maxmemory", "1");
	CHECK_RAISES(ERRCODE_OUT_OF_MEMORY, run(both));
	CHECK_INT(both->status, MOSQL_STEP_LOST);
	raised = PGSTUB_RAISES(run(delete));
	server_command(stepper.redis, "CONFIG", "SET", "maxmemory", "0");
	CHECK(!raised || engine == MOSQL_ENGINE_WATCH);
	CHECK((get(1, B("a")).data != NULL) == raised);
	CHECK(get(1, B("b")).data == NULL);
}

/* The first write is what a step says, or what comes of a list that it empties. */
static void
check_rights(const char *denied, bool list)
{
	MosqlBytes	tx = str("0123456789abcdef");
	MosqlBytes	old = str("0123456789abcdefD");
	MosqlStep  *steps[2];

	begin();
	for (int i = 0; i < 2; i++)
	{
		set(i, B("a"), old);
		steps[i] = new_step(i);
		writing(steps[i], list ? MOSQL_WRITE_UNLIST : MOSQL_WRITE_DELETE, B("a"), list ? tx : MOSQL_ABSENT);
		writing(steps[i], list ? MOSQL_WRITE_MAX : MOSQL_WRITE_SET, B("b"), B("1"));
	}
	server_command(stepper.redis, "ACL", "SETUSER", "default", denied);
	CHECK_RAISES(ERRCODE_INSUFFICIENT_PRIVILEGE, mosql_step_run(&stepper, steps, 2, NULL));
	CHECK_RAISES(ERRCODE_INSUFFICIENT_PRIVILEGE, run(steps[1]));
	server_command(stepper.redis, "ACL", "SETUSER", "default", "+@all");
	stepper.alone_until_us = 0;
	for (int i = 0; i < 2; i++)
		CHECK(mosql_bytes_equal(get(i, B("a")), old) && get(i, B("b")).data == NULL);
}

/* Who may delete fields and not set them, or the other way round, changes nothing. */
static void
test_rights(void)
{
	for (int list = 0; list < 2; list++)
	{
		check_rights("-hset", list);
		check_rights("-hdel", list);
	}
}

/* The servers forget scripts when they restart. */
static void
test_script_flush(void)
{
	MosqlStep  *steps[3];

	begin();
	for (int round = 0; round < 2; round++)
	{
		for (int i = 0; i < 3; i++)
		{
			steps[i] = new_step(i);
			writing(steps[i], MOSQL_WRITE_SET, B("a"), B("1"));
		}
		mosql_step_run(&stepper, steps, 3, NULL);
		for (int i = 0; i < 3; i++)
			CHECK_INT(steps[i]->status, MOSQL_STEP_DONE);
		server_command(stepper.redis, "SCRIPT", "FLUSH");
	}
}

/* The server does not answer in time: repeatable or not makes the difference. */
static void
test_lost(void)
{
	MosqlStep  *step = new_step(1);
	MosqlBudget budget;
	bool		raised;

	begin();
	set(1, B("a"), B("0"));
	writing(step, MOSQL_WRITE_SET, B("a"), B("1"));
	kill(server_pid, SIGSTOP);
	budget = mosql_budget_start(300);
	raised = PGSTUB_RAISES(mosql_step_run(&stepper, &step, 1, &budget));
	kill(server_pid, SIGCONT);
	CHECK(raised || step->status == MOSQL_STEP_LOST);
	if (raised)
		CHECK_INT(pgstub_error.sqlstate, ERRCODE_CONNECTION_FAILURE);
	CHECK_INT(step->status, MOSQL_STEP_LOST);
	set(1, B("b"), B("0"));		/* the client goes on */
}

/* --- random steps: Redis and evaluate.c agree --- */

static uint64 seed = 88172645463325252ULL;

static int
random_below(int n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (int) ((seed >> 16) % n);
}

#define MODEL_FIELDS 40

static MosqlFieldValue model[MODEL_FIELDS];

static int
random_field(void)
{
	return random_below(random_below(3) == 0 ? MODEL_FIELDS : 12);
}

static MosqlBytes
random_value(int max)
{
	char	   *p = palloc(max + 1);
	int			len = random_below(max + 1);

	for (int i = 0; i < len; i++)
		p[i] = "\0aAb\xff"[random_below(5)];
	return mosql_bytes(p, len);
}

static MosqlBytes
random_entry(void)
{
	static const char entries[3][17] = {"aaaaaaaaaaaaaaaa", "aaaaaaaaAAAAAAAA", "bbbbbbbbbbbbbbb\xff"};

	return mosql_bytes(entries[random_below(3)], 16);
}

static MosqlBytes
model_get(void *arg, MosqlBytes field)
{
	for (int i = 0; i < MODEL_FIELDS; i++)
		if (mosql_bytes_equal(model[i].field, field))
			return model[i].value;
	return MOSQL_ABSENT;
}

/* An increment's intent mostly, else one that takes the rest of the field. */
static MosqlBytes
random_intent(void)
{
	StringInfoData buf;
	MosqlBytes	tx = random_entry();
	int			len = random_below(4);

	initStringInfo(&buf);
	appendBinaryStringInfo(&buf, tx.data, tx.len);
	appendStringInfoChar(&buf, random_below(5) > 0 ? 'I' : 'P');
	appendStringInfoChar(&buf, (char) len);
	for (int i = 0; i < len; i++)
		appendStringInfoChar(&buf, (char) random_below(256));
	return mosql_bytes_of(&buf);
}

static MosqlBytes
random_add(void)
{
	MosqlStepDelta deltas[3];
	int			n = random_below(4);

	for (int i = 0; i < n; i++)
		deltas[i] = (MosqlStepDelta)
	{
		random_below(12), 2 << random_below(3),
			((int64) random_below(1 << 30) << 33) - random_below(1 << 30)
	};
	return mosql_step_add((MosqlTimestamp) random_below(1 << 30) << 24, deltas, n);
}

/* Of rows up to n, or of tables. */
static int
random_strength(int n)
{
	if (random_below(30) == 0)
		return random_below(256);
	return random_below(3) == 0 ? MOSQL_TABLE_MODE + 1 + random_below(8) : 1 + random_below(n);
}

/* Rarely bytes that make no sense. */
static MosqlBytes
random_request(void)
{
	StringInfoData buf;
	MosqlBytes	owner = random_entry();
	MosqlClaim	claim = {{0, 0}, "LWWS"[random_below(4)],
	random_strength(4), random_below(3)};

	initStringInfo(&buf);
	mosql_claim_encode(&buf, &claim);
	memcpy(buf.data, owner.data, MOSQL_TXID_BYTES);
	if (random_below(50) == 0)
		buf.len--;
	return mosql_bytes_of(&buf);
}

static MosqlBytes
random_asked(void)
{
	MosqlBytes	owner = random_entry();
	char	   *out = palloc(MOSQL_TXID_BYTES + 2);

	memcpy(out, owner.data, MOSQL_TXID_BYTES);
	out[MOSQL_TXID_BYTES] = (char) random_strength(6);
	out[MOSQL_TXID_BYTES + 1] = MOSQL_ASKED_SURELY;
	return mosql_bytes(out, MOSQL_TXID_BYTES + 1 + random_below(2));
}

static MosqlBytes
random_entries(void)
{
	char	   *out = palloc(2 * MOSQL_TXID_BYTES);

	memcpy(out, random_entry().data, MOSQL_TXID_BYTES);
	memcpy(out + MOSQL_TXID_BYTES, random_entry().data, MOSQL_TXID_BYTES);
	return mosql_bytes(out, 2 * MOSQL_TXID_BYTES);
}

static MosqlNodeImage
model_image(void)
{
	MosqlNodeImage image = {1, false, 0, palloc(sizeof(model))};

	for (int i = 0; i < MODEL_FIELDS; i++)
		if (model[i].value.data != NULL)
			image.fields[image.nfields++] = model[i];
	image.found = image.nfields > 0;
	return image;
}

/* Of the last compare, a range: that its intents fields are all locks of one owner. */
static void
expect_own_locks(MosqlStep *step)
{
	MosqlCompare *range = &step->compares[step->ncompares - 1];
	MosqlNodeImage image = model_image();
	int			n = 0;

	for (int i = 0; i < image.nfields; i++)
	{
		MosqlBytes	key = mosql_bytes(image.fields[i].field.data + 1, image.fields[i].field.len - 1);

		n += image.fields[i].field.data[0] == 'i' && mosql_bytes_compare(key, range->field) >= 0 &&
			(range->upper.data == NULL || mosql_bytes_compare(key, range->upper) < 0);
	}
	range->bytes = random_entry();
	range->offset = MOSQL_RANGE_OWN_LOCKS + Max(n - (random_below(6) == 0), 0);
}

static MosqlStep *
random_step(void)
{
	MosqlStep  *step = new_large_step(1, MOSQL_STEP_WHOLE_FIELDS + 32);
	int			ncompares = random_below(4) == 0 ? random_below(30) : random_below(4);
	int			nwrites = random_below(6);
	bool		used[MODEL_FIELDS] = {0};

	step->repeatable = random_below(2);
	step->durable = random_below(2);
	step->touch = random_below(2);
	if (random_below(20) == 0)
		for (int i = 0; i < MOSQL_STEP_WHOLE_FIELDS; i++)
		{
			MosqlFieldValue *f = &model[random_field()];

			compare(step, f->value.data == NULL ? MOSQL_COMPARE_ABSENT : MOSQL_COMPARE_EQUAL,
					f->field, 0, f->value);
		}
	for (int i = 0; i < ncompares; i++)
	{
		MosqlBytes	field = model[random_field()].field;
		MosqlBytes	value = model_get(NULL, field);
		MosqlCompareKind kind = random_below(12);
		bool		whole;

		/* mostly what holds, so that long steps get through */
		if (kind == MOSQL_COMPARE_ABSENT && value.data != NULL && random_below(4) > 0)
			kind = random_below(2) ? MOSQL_COMPARE_ONLY : MOSQL_COMPARE_WHOLE;
		whole = kind == MOSQL_COMPARE_ONLY || kind == MOSQL_COMPARE_WHOLE;
		if (kind == MOSQL_COMPARE_LISTED)
			compare(step, kind, field, 0, random_entry());
		else if (kind == MOSQL_COMPARE_COUNT)
			compare(step, kind, field, model_image().nfields + (random_below(4) == 0), MOSQL_ABSENT);
		else if (kind >= MOSQL_COMPARE_ADMITS)
			compare(step, kind, field, 0, random_asked());
		else if (kind == MOSQL_COMPARE_RANGE)
		{
			compare_range(step, random_value(2), random_below(2) ? random_value(2) : MOSQL_ABSENT,
						  random_below(2) ? random_value(1) : B(""),
						  random_below(2) ? B("\xff\xff\xff\xff\xff\xff\xff") : random_value(7));
			step->compares[step->ncompares - 1].offset = random_below(2) ? MOSQL_RANGE_SKIPS_CLAIMS : 0;
			if (random_below(3) == 0)
				expect_own_locks(step);
		}
		else if (value.data != NULL && random_below(4) > 0)
		{
			int			offset = whole ? 0 : random_below((int) value.len + 1);
			size_t		len = whole ? value.len :
				random_below((int) value.len - offset + 1);

			compare(step, kind, field, offset, mosql_bytes(value.data + offset, len));
		}
		else
			compare(step, kind, field, random_below(3), random_value(4));
	}
	for (int i = random_below(4); i > 0; i--)
		reading(step, model[random_field()].field);
	for (int i = 0; i < nwrites; i++)
	{
		int			f = random_field();
		MosqlWriteKind kind = random_below(11);

		if (kind > MOSQL_WRITE_CLAIM)
			kind = kind == 9 ? MOSQL_WRITE_CLAIM : MOSQL_WRITE_MOVED;

		if (used[f])
			continue;
		used[f] = true;
		writing(step, kind, model[f].field,
				kind == MOSQL_WRITE_CONCAT ? random_intent() :
				kind == MOSQL_WRITE_ADD ? random_add() :
				kind == MOSQL_WRITE_CLAIM ? random_request() :
				kind == MOSQL_WRITE_UNLIST && random_below(3) == 0 ? random_entries() :
				kind >= MOSQL_WRITE_APPEND ? random_entry() :
				random_below(4) == 0 ? random_entry() : random_value(9));
	}
	return step;
}

static bool
same_image(const MosqlNodeImage *image)
{
	MosqlNodeImage expected = model_image();

	if (image->nfields != expected.nfields)
		return false;
	for (int i = 0; i < image->nfields; i++)
	{
		MosqlBytes	value = model_get(NULL, image->fields[i].field);

		if (value.data == NULL || !mosql_bytes_equal(value, image->fields[i].value))
			return false;
	}
	return true;
}

/* What a step is to answer. */
typedef struct ModelOutcome
{
	int			failed;
	MosqlBytes	values[4];
} ModelOutcome;

/* What C says of it, which the model becomes; new values are in cxt. */
static ModelOutcome
model_run(const MosqlStep *step, MemoryContext cxt)
{
	MosqlNodeImage image = model_image();
	ModelOutcome outcome = {mosql_step_evaluate(step, model_get, NULL, &image)};

	for (int i = 0; i < step->nreads; i++)
		outcome.values[i] = model_get(NULL, step->reads[i]);
	if (outcome.failed < 0)
		for (int i = 0; i < step->nwrites; i++)
			for (int j = 0; j < MODEL_FIELDS; j++)
				if (mosql_bytes_equal(model[j].field, step->writes[i].field))
					model[j].value = mosql_bytes_copy(cxt, mosql_step_written(&step->writes[i], model[j].value));
	return outcome;
}

static bool
is_outcome(const MosqlStep *step, const ModelOutcome *expected)
{
	bool		ok = step->failed == expected->failed &&
		step->status == (expected->failed < 0 ? MOSQL_STEP_DONE : MOSQL_STEP_FAILED);

	for (int i = 0; i < step->nreads; i++)
		ok &= (step->values[i].data != NULL) == (expected->values[i].data != NULL) &&
			mosql_bytes_equal(step->values[i], expected->values[i]);
	return ok;
}

/* Up to three at a time, which are one message where they are sent alike. */
static void
test_random_steps(void)
{
	const char *prefixes = "rilkmp";
	MemoryContext test = CurrentMemoryContext;
	int			done = 0;

	begin();
	stepper.durable = true;		/* touching changes nothing */
	for (int i = 0; i < MODEL_FIELDS; i++)
	{
		char	   *name = psprintf("%c%c%c", prefixes[i % 6], "aAb\xff"[i / 6 % 4], "aA\x01"[i % 3]);

		model[i].field = mosql_bytes(name, 1 + i / 6 % 3);
		model[i].value = MOSQL_ABSENT;
		for (int j = 0; j < i; j++)
			if (mosql_bytes_equal(model[i].field, model[j].field))
				model[i].field = mosql_bytes(psprintf("r%02d", i), 3);
	}
	for (int round = 0; round < 2000; round++)
	{
		MemoryContext cxt = AllocSetContextCreate(test, "round", ALLOCSET_DEFAULT_SIZES);
		MosqlStep  *steps[3];
		ModelOutcome expected[3];
		MosqlNodeImage image;
		uint64		start = seed;
		uint64		node = 1;
		int			n = engine == MOSQL_ENGINE_SCRIPT ? 1 + random_below(3) : 1;
		bool		ok = true;

		MemoryContextSwitchTo(cxt);
		for (int i = 0; i < n; i++)
		{
			steps[i] = random_step();
			expected[i] = model_run(steps[i], test);
		}
		mosql_step_run(&stepper, steps, n, NULL);
		for (int i = 0; i < n; i++)
		{
			ok &= is_outcome(steps[i], &expected[i]);
			done += steps[i]->status == MOSQL_STEP_DONE;
		}
		mosql_step_read_nodes(&stepper, &node, 1, &image, NULL);
		ok &= same_image(&image) && steps[n - 1]->nfields == image.nfields;
		MemoryContextSwitchTo(test);
		MemoryContextDelete(cxt);
		if (!ok)
		{
			printf("# round %d, seed " UINT64_FORMAT "\n", round, start);
			CHECK(ok);
			return;
		}
	}
	CHECK(done > 700 && done < 3500);
}

/* --- locks --- */

static void
claim_numbered(char owner, MosqlClaimKind kind, int strength, uint32 number)
{
	StringInfoData buf;
	MosqlStep  *step = new_step(1);

	initStringInfo(&buf);
	mosql_claim_encode(&buf, &(MosqlClaim) {{1, owner}, kind, strength, number});
	writing(step, MOSQL_WRITE_CLAIM, B("ik"), mosql_bytes_of(&buf));
	CHECK_INT(run(step), MOSQL_STEP_DONE);
}

static void
claim(char owner, MosqlClaimKind kind, int strength)
{
	claim_numbered(owner, kind, strength, 0);
}

static void
unlist(char owner)
{
	StringInfoData buf;
	MosqlStep  *step = new_step(1);

	initStringInfo(&buf);
	mosql_txid_put(&buf, (MosqlTxid) {1, owner});
	writing(step, MOSQL_WRITE_UNLIST, B("ik"), mosql_bytes_of(&buf));
	CHECK_INT(run(step), MOSQL_STEP_DONE);
}

static MosqlBytes
asked(char owner, int strength)
{
	StringInfoData buf;

	initStringInfo(&buf);
	mosql_txid_put(&buf, (MosqlTxid) {1, owner});
	appendStringInfoChar(&buf, (char) strength);
	return mosql_bytes_of(&buf);
}

/* How many messages are there for it, of which none stays for ever? */
static int
messages(char owner)
{
	const char *list = psprintf("test:{0000000000000001}:w:0000000000000001%016x", owner);
	int			n = (int) server_command(stepper.redis, "LLEN", list)->integer;
	int64		left = server_command(stepper.redis, "PTTL", list)->integer;

	CHECK(n == 0 ? left == -2 : left > 0 && left <= MOSQL_WAKE_KEEP_MS);
	return n;
}

/* A wait that became a lock is told in the step that made it so, and nobody else is. */
static void
test_messages(void)
{
	begin();
	set(1, B("m"), B("x"));
	claim(1, MOSQL_CLAIM_WAIT, MOSQL_UPDATE);
	claim(2, MOSQL_CLAIM_WAIT, MOSQL_SHARE);
	claim(3, MOSQL_CLAIM_WAIT, MOSQL_SHARE);
	claim(4, MOSQL_CLAIM_WAIT, MOSQL_UPDATE);
	claim(5, MOSQL_CLAIM_LOCK, MOSQL_SHARE);
	unlist(5);
	CHECK_INT(messages(1) + messages(2) + messages(3) + messages(4) + messages(5), 0);
	unlist(1);
	CHECK(messages(1) == 0 && messages(2) == 1 && messages(3) == 1 && messages(4) == 0);
	unlist(2);
	CHECK_INT(messages(4), 0);
	unlist(3);
	CHECK(messages(2) == 1 && messages(3) == 1 && messages(4) == 1);
	CHECK(holds(MOSQL_COMPARE_HOLDS, "ik", 0, asked(4, MOSQL_UPDATE)));
	CHECK(!holds(MOSQL_COMPARE_ADMITS, "ik", 0, asked(5, MOSQL_KEY_SHARE)));
	CHECK(holds(MOSQL_COMPARE_ADMITS, "absent", 0, asked(5, MOSQL_KEY_SHARE)));
	CHECK(!holds(MOSQL_COMPARE_HOLDS, "absent", 0, asked(5, MOSQL_KEY_SHARE)));
	unlist(4);
	CHECK(get(1, B("ik")).data == NULL);
}

/* The owner's locks go, and the row (absent: it does, too) is another one, in the same step. */
static void
pass_on(char owner, MosqlBytes row)
{
	StringInfoData buf;
	MosqlStep  *step = new_step(1);

	initStringInfo(&buf);
	mosql_txid_put(&buf, (MosqlTxid) {1, owner});
	writing(step, MOSQL_WRITE_UNLIST, B("ik"), mosql_bytes_of(&buf));
	writing(step, row.data != NULL ? MOSQL_WRITE_SET : MOSQL_WRITE_DELETE, B("rk"), row);
	CHECK_INT(run(step), MOSQL_STEP_DONE);
}

/* Does the oldest message for the owner tell that this wait is over, the field, and this row? */
static bool
tells(char owner, uint32 number, MosqlBytes wanted)
{
	const char *list = psprintf("test:{0000000000000001}:w:0000000000000001%016x", owner);
	MosqlBytes	message = server_command(stepper.redis, "LINDEX", list, "0")->str;
	MosqlBytes	intents;
	MosqlBytes	row;

	return mosql_step_told(message, number, &intents, &row) && mosql_bytes_equal(intents, get(1, B("ik"))) &&
		(row.data == NULL) == (wanted.data == NULL) && mosql_bytes_equal(row, wanted);
}

/* A message tells which wait is over, and its row as the step leaves it, if that is short. */
static void
test_messages_tell(void)
{
	bool		told = stepper.engine == MOSQL_ENGINE_SCRIPT;
	StringInfoData longer;
	MosqlBytes	field;
	MosqlBytes	row;

	begin();
	initStringInfo(&longer);
	appendStringInfoSpaces(&longer, 5000);
	set(1, B("m"), B("x"));
	set(1, B("rk"), B("old"));
	claim(1, MOSQL_CLAIM_LOCK, MOSQL_UPDATE);
	for (int owner = 2; owner <= 5; owner++)
		claim_numbered(owner, MOSQL_CLAIM_WAIT, MOSQL_UPDATE, 70000 + owner);
	pass_on(1, B("new"));
	CHECK(tells(2, 70002, B("new")) == told && !tells(2, 70003, B("new")));
	pass_on(2, MOSQL_ABSENT);
	CHECK(tells(3, 70003, MOSQL_ABSENT) == told);
	pass_on(3, mosql_bytes_of(&longer));
	CHECK(messages(4) == 1 && !tells(4, 70004, mosql_bytes_of(&longer)));
	pass_on(4, mosql_bytes(longer.data, 4000));
	CHECK(tells(5, 70005, mosql_bytes(longer.data, 4000)) == told);
	CHECK(!mosql_step_told(MOSQL_ABSENT, 0, &field, &row) && !mosql_step_told(B("1"), 0, &field, &row));
	CHECK(!mosql_step_told(mosql_bytes("\0\0\0\1\0\0\0\2f", 9), 1, &field, &row));
	CHECK(!mosql_step_told(mosql_bytes("\0\0\0\1\0\0\0\0f", 9), 1, &field, &row));
	CHECK(mosql_step_told(mosql_bytes("\0\0\0\1\0\0\0\1f", 9), 1, &field, &row) && row.data == NULL);
}

static void
moved(char one, char other)
{
	StringInfoData buf;
	MosqlStep  *step = new_step(1);

	initStringInfo(&buf);
	mosql_txid_put(&buf, (MosqlTxid) {1, one});
	mosql_txid_put(&buf, (MosqlTxid) {1, other});
	writing(step, MOSQL_WRITE_SET, B("m"), B("y"));
	writing(step, MOSQL_WRITE_MOVED, B("ik"), mosql_bytes_of(&buf));
	CHECK_INT(run(step), MOSQL_STEP_DONE);
}

/* Who waits in a field that goes elsewhere is told in the step that takes it away. */
static void
test_messages_moved(void)
{
	begin();
	set(1, B("m"), B("x"));
	moved(2, 3);
	CHECK_INT(messages(2) + messages(3), 0);
	claim(1, MOSQL_CLAIM_WAIT, MOSQL_UPDATE);
	claim(2, MOSQL_CLAIM_WAIT, MOSQL_SHARE);
	claim(3, MOSQL_CLAIM_WAIT, MOSQL_SHARE);
	moved(2, 3);
	CHECK(messages(1) == 0 && messages(2) == 1 && messages(3) == 1);
	CHECK(get(1, B("ik")).data == NULL);
	moved(2, 3);
	CHECK(messages(2) == 1 && messages(3) == 1);
}

/* --- many at once --- */

#define WORKERS 4
#define INCREMENTS 300

/* Read, add one, write if unchanged: no update may get lost. */
static int
increment(int worker)
{
	int			bad = 0;

	reconnect();
	for (int i = 0; i < INCREMENTS; i++)
	{
		MosqlStep  *step;

		do
		{
			MosqlBytes	old = get(1, B("n"));

			step = new_step(1);
			compare(step, MOSQL_COMPARE_ONLY, B("n"), 0, old);
			writing(step, MOSQL_WRITE_SET, B("n"), str(psprintf("%d", atoi(old.data) + 1)));
		} while (run(step) == MOSQL_STEP_FAILED);
		bad += step->status != MOSQL_STEP_DONE;

		/* other fields of the same node are no reason to fail */
		step = new_step(1);
		compare(step, MOSQL_COMPARE_ABSENT, str(psprintf("w%d.%d", worker, i)), 0, MOSQL_ABSENT);
		writing(step, MOSQL_WRITE_SET, str(psprintf("w%d.%d", worker, i)), B("x"));
		writing(step, MOSQL_WRITE_APPEND, B("l"), str(psprintf("%08d%08d", worker, i)));
		bad += run(step) != MOSQL_STEP_DONE;
	}
	return bad;
}

static void
test_concurrent(void)
{
	uint64		node = 1;
	MosqlNodeImage image;

	begin();
	set(1, B("n"), B("0"));
	mosql_redis_close(stepper.redis);
	CHECK_INT(server_fork(WORKERS, increment), 0);
	reconnect();
	CHECK_INT(atoi(get(1, B("n")).data), WORKERS * INCREMENTS);
	CHECK_INT(get(1, B("l")).len, 16 * WORKERS * INCREMENTS);
	mosql_step_read_nodes(&stepper, &node, 1, &image, NULL);
	CHECK_INT(image.nfields, 2 + WORKERS * INCREMENTS);
}

/*
 * Money moves between nodes in batches of several steps, each of which moves
 * money inside its node: chains of watched steps do not disturb each other.
 */
static int
transfer(int worker)
{
	reconnect();
	seed += worker * 7919;
	for (int i = 0; i < 100; i++)
	{
		MosqlStep  *steps[4];

		for (int j = 0; j < 4; j++)
		{
			MosqlBytes	fields[2] = {B("a"), B("b")};
			MosqlFieldRead read = {j, 2, fields};
			int			amount = random_below(10);

			mosql_step_read_fields(&stepper, &read, 1, NULL);
			steps[j] = new_step(j);
			compare(steps[j], MOSQL_COMPARE_ONLY, B("a"), 0, read.values[0]);
			writing(steps[j], MOSQL_WRITE_SET, B("a"), str(psprintf("%d", atoi(read.values[0].data) - amount)));
			writing(steps[j], MOSQL_WRITE_SET, B("b"), str(psprintf("%d", atoi(read.values[1].data) + amount)));
		}
		mosql_step_run(&stepper, steps, 4, NULL);
	}
	return 0;
}

static void
test_concurrent_chains(void)
{
	begin();
	for (int j = 0; j < 4; j++)
	{
		set(j, B("a"), B("0"));
		set(j, B("b"), B("0"));
	}
	mosql_redis_close(stepper.redis);
	CHECK_INT(server_fork(WORKERS, transfer), 0);
	reconnect();
	for (int j = 0; j < 4; j++)
	{
		int			a = atoi(get(j, B("a")).data);

		CHECK(a != 0);
		CHECK_INT(a + atoi(get(j, B("b")).data), 0);
	}
}

/* --- a slot moves to another server --- */

static Server *from_server;
static Server *to_server;

static MosqlRedis *
cluster_client(void)
{
	return server_client_of(from_server, 5000);
}

/* Two servers; the first has all slots. */
static void
start_cluster(void)
{
	from_server = server_start(true);
	to_server = server_start(true);
	server_raw(from_server->port, "CLUSTER ADDSLOTSRANGE 0 16383");
	server_raw(to_server->port, psprintf("CLUSTER MEET 127.0.0.1 %d", from_server->port));
	for (int i = 0; i < 1000; i++)
	{
		if (strstr(server_raw(to_server->port, "CLUSTER INFO"), "cluster_state:ok") != NULL &&
			strstr(server_raw(from_server->port, "CLUSTER INFO"), "cluster_known_nodes:2") != NULL)
			return;
		usleep(10000);
	}
	CHECK(!"the cluster comes up");
}

/* A server's own id in the cluster, or the command `format` with it. */
static const char *
with_id(const char *format, int slot, const Server *server)
{
	const char *reply = server_raw(server->port, "CLUSTER MYID");

	return psprintf(format, slot, pnstrdup(strchr(reply, '\n') + 1, 40));
}

static void
begin_move(int slot)
{
	CHECK(server_raw(to_server->port, with_id("CLUSTER SETSLOT %d IMPORTING %s", slot, from_server))[0] == '+');
	CHECK(server_raw(from_server->port, with_id("CLUSTER SETSLOT %d MIGRATING %s", slot, to_server))[0] == '+');
}

static void
move_key(MosqlBytes key)
{
	CHECK_STR(server_raw(from_server->port, psprintf("MIGRATE 127.0.0.1 %d %s 0 1000", to_server->port, key.data)),
			  "+OK\r\n");
}

static void
end_move(int slot)
{
	CHECK(server_raw(to_server->port, with_id("CLUSTER SETSLOT %d NODE %s", slot, to_server))[0] == '+');
	CHECK(server_raw(from_server->port, with_id("CLUSTER SETSLOT %d NODE %s", slot, to_server))[0] == '+');
}

/* Slots that have not moved yet. */
static uint64
moving_node(int i)
{
	return (engine == MOSQL_ENGINE_SCRIPT ? 100 : 200) + i;
}

/* Step by step: still there, asked for, moved; with steps elsewhere beside it. */
static void
test_moving_slot(void)
{
	MosqlBytes	key;
	int			slot;

	stepper.redis = cluster_client();
	stepper.engine = engine;
	key = mosql_step_key(&stepper, moving_node(1));
	slot = mosql_redis_slot(key);
	set(moving_node(1), B("n"), B("0"));
	for (int phase = 0; phase < 4; phase++)
	{
		if (phase == 1)
			begin_move(slot);
		else if (phase == 2)
			move_key(key);
		else if (phase == 3)
			end_move(slot);
		for (int i = 0; i < 3; i++)
		{
			MosqlStep  *steps[6];
			int			n = phase * 3 + i;

			for (int j = 0; j < 6; j++)
			{
				steps[j] = new_step(moving_node(j));
				if (j == 1)
					compare(steps[j], MOSQL_COMPARE_ONLY, B("n"), 0, str(psprintf("%d", n)));
				writing(steps[j], MOSQL_WRITE_SET, B("n"), str(psprintf("%d", n + 1)));
			}
			stepper.alone_until_us = 0;
			mosql_step_run(&stepper, steps, 6, NULL);
			for (int j = 0; j < 6; j++)
				CHECK_INT(steps[j]->status, MOSQL_STEP_DONE);
		}
	}
	CHECK_INT(atoi(get(moving_node(1), B("n")).data), 12);
}

static int
increment_moving(int worker)
{
	int			bad = 0;

	stepper.redis = cluster_client();
	for (int i = 0; i < 500; i++)
	{
		MosqlStep  *step;

		do
		{
			MosqlBytes	old = get(moving_node(2), B("n"));

			step = new_step(moving_node(2));
			compare(step, MOSQL_COMPARE_ONLY, B("n"), 0, old);
			writing(step, MOSQL_WRITE_SET, B("n"), str(psprintf("%d", atoi(old.data) + 1)));
		} while (run(step) == MOSQL_STEP_FAILED);
		bad += step->status != MOSQL_STEP_DONE;
	}
	return bad;
}

/*
 * Two slots are on the way to one server; of one the node is there, of the other not.  That which
 * is not is still found where it is, though the message's first node is asked for at the other server.
 */
static void
test_message_on_the_move(void)
{
	MosqlBytes	keys[2];
	MosqlStep  *steps[3];

	if (engine != MOSQL_ENGINE_SCRIPT)
		return;
	stepper.redis = cluster_client();
	stepper.engine = engine;
	stepper.alone_until_us = 0;
	for (int i = 0; i < 2; i++)
	{
		keys[i] = mosql_step_key(&stepper, moving_node(10 + i));
		set(moving_node(10 + i), B("m"), B("there"));
		begin_move(mosql_redis_slot(keys[i]));
	}
	move_key(keys[0]);
	for (int i = 0; i < 3; i++)
	{
		steps[i] = new_step(moving_node(10 + i));
		if (i == 1)
			compare(steps[i], MOSQL_COMPARE_ABSENT, B("m"), 0, MOSQL_ABSENT);
		writing(steps[i], MOSQL_WRITE_SET, B("m"), B("new"));
	}
	mosql_step_run(&stepper, steps, 3, NULL);
	CHECK_INT(steps[0]->status, MOSQL_STEP_DONE);
	CHECK_INT(steps[1]->status, MOSQL_STEP_FAILED);
	CHECK_INT(steps[2]->status, MOSQL_STEP_DONE);
	CHECK(stepper.alone_until_us > 0);
	move_key(keys[1]);
	for (int i = 0; i < 2; i++)
		end_move(mosql_redis_slot(keys[i]));
	CHECK(mosql_bytes_equal(get(moving_node(10), B("m")), B("new")));
	CHECK(mosql_bytes_equal(get(moving_node(11), B("m")), B("there")));
}

/* No update is lost while it moves. */
static void
test_moving_slot_under_load(void)
{
	MosqlBytes	key;
	int			slot;

	stepper.redis = cluster_client();
	key = mosql_step_key(&stepper, moving_node(2));
	slot = mosql_redis_slot(key);
	set(moving_node(2), B("n"), B("0"));
	mosql_redis_close(stepper.redis);
	server_fork_start(3, increment_moving);
	usleep(20000);
	begin_move(slot);
	usleep(20000);
	move_key(key);
	usleep(20000);
	end_move(slot);
	CHECK_INT(server_fork_wait(3), 0);
	stepper.redis = cluster_client();
	CHECK_INT(atoi(get(moving_node(2), B("n")).data), 1500);
}

/*
 * Who has a slot that is empty.  What the servers told each other just before may arrive, and be believed, after that: then each says that
 * the other has it, until it is given away again.
 */
static void
give_slot(int slot, const Server *server)
{
	CHECK_STR(server_raw(to_server->port, with_id("CLUSTER SETSLOT %d NODE %s", slot, server)), "+OK\r\n");
	CHECK_STR(server_raw(from_server->port, with_id("CLUSTER SETSLOT %d NODE %s", slot, server)), "+OK\r\n");
}

/* Beside a step that has nothing to write, and is sent on to the same server. */
static int
increment_beside(int worker)
{
	int			bad = 0;

	stepper.redis = cluster_client();
	stepper.engine = engine;
	for (int i = 0; i < 1000; i++)
	{
		MosqlStep  *steps[2];

		do
		{
			MosqlBytes	old = get(moving_node(3), B("n"));

			steps[0] = new_step(moving_node(3));
			compare(steps[0], MOSQL_COMPARE_ONLY, B("n"), 0, old);
			writing(steps[0], MOSQL_WRITE_SET, B("n"), str(psprintf("%d", atoi(old.data) + 1)));
			steps[1] = new_step(moving_node(50));
			compare(steps[1], MOSQL_COMPARE_EQUAL, B("n"), 0, B("there"));
			writing(steps[1], MOSQL_WRITE_SET, B("n"), B("not done"));
			stepper.alone_until_us = 0;
			mosql_step_run(&stepper, steps, 2, NULL);
			bad += steps[1]->status != MOSQL_STEP_FAILED;
		} while (steps[0]->status == MOSQL_STEP_FAILED);
		bad += steps[0]->status != MOSQL_STEP_DONE;
	}
	return bad;
}

/* Steps thought to be on two servers meet on one: the compares of none are lost by that. */
static void
test_steps_that_meet(void)
{
	MosqlBytes	key;
	int			slot;
	int			elsewhere;

	stepper.redis = cluster_client();
	key = mosql_step_key(&stepper, moving_node(3));
	slot = mosql_redis_slot(key);
	elsewhere = mosql_redis_slot(mosql_step_key(&stepper, moving_node(50)));
	set(moving_node(3), B("n"), B("0"));
	begin_move(slot);
	move_key(key);
	end_move(slot);
	mosql_redis_close(stepper.redis);
	server_fork_start(3, increment_beside);
	for (int i = 0; i < 100; i++)
	{
		give_slot(elsewhere, i % 2 == 0 ? to_server : from_server);
		usleep(3000);
	}
	for (int i = 0; i < 3; i++)	/* what has been said of it has arrived */
	{
		usleep(200000);
		give_slot(elsewhere, to_server);
	}
	CHECK_INT(server_fork_wait(3), 0);
	stepper.redis = cluster_client();
	CHECK_INT(atoi(get(moving_node(3), B("n")).data), 3000);
}

/* --- by itself --- */

static void
test_sha1(void)
{
	char		hex[41];
	char	   *million = palloc(1000000);

	mosql_sha1_hex("", 0, hex);
	CHECK_STR(hex, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
	mosql_sha1_hex("abc", 3, hex);
	CHECK_STR(hex, "a9993e364706816aba3e25717850c26c9cd0d89d");
	mosql_sha1_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
	CHECK_STR(hex, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
	memset(million, 'a', 1000000);
	mosql_sha1_hex(million, 1000000, hex);
	CHECK_STR(hex, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

/* The server caches scripts under the name computed here. */
static void
test_hash_is_known(void)
{
	MosqlStep  *step = new_step(1);

	begin();
	if (engine != MOSQL_ENGINE_SCRIPT)
		return;
	server_command(stepper.redis, "SCRIPT", "FLUSH");
	run(step);					/* caches it */
	server_command(stepper.redis, "CONFIG", "RESETSTAT");
	run(step);
	CHECK(strstr(server_command(stepper.redis, "INFO", "commandstats")->str.data,
				 "cmdstat_eval:") == NULL);
}

int
main(void)
{
	server_start(false);
	start_cluster();
	RUN(test_sha1);
	for (engine = MOSQL_ENGINE_SCRIPT; engine <= MOSQL_ENGINE_WATCH; engine++)
	{
		printf("# engine %s\n", engine == MOSQL_ENGINE_SCRIPT ? "script" : "watch");
		RUN(test_compares);
		RUN(test_compare_is_bytewise);
		RUN(test_range);
		RUN(test_own_locks);
		RUN(test_failed);
		RUN(test_writes);
		RUN(test_list_alignment);
		RUN(test_emptied);
		RUN(test_partial_steps);
		RUN(test_large);
		RUN(test_parallel);
		RUN(test_no_watch_left);
		RUN(test_send);
		RUN(test_send_two);
		RUN(test_reads);
		RUN(test_prefetch);
		RUN(test_prefetch_fails);
		RUN(test_prefetch_then_closed);
		RUN(test_prefetch_of_the_silent);
		RUN(test_prefetch_no_room);
		RUN(test_reads_at_once);
		RUN(test_refused_at_once);
		RUN(test_wrong_type);
		RUN(test_message);
		RUN(test_message_bounds);
		RUN(test_message_reads);
		RUN(test_out_of_memory);
		RUN(test_rights);
		RUN(test_script_flush);
		RUN(test_hash_is_known);
		RUN(test_random_steps);
		RUN(test_messages);
		RUN(test_messages_tell);
		RUN(test_messages_moved);
		RUN(test_concurrent);
		RUN(test_concurrent_chains);
		RUN(test_moving_slot);
		RUN(test_message_on_the_move);
		RUN(test_moving_slot_under_load);
		RUN(test_steps_that_meet);
		RUN(test_lost);
	}
	return unit_finish();
}
