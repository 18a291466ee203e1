/*
 * test_one_step.c: a commit in one step against a real server: what it refuses, what it
 * writes, and that rows become what history.c and increment.c make of them.  By both engines.
 */
#include "bytes.h"
#include "server.h"
#include "steps.h"

#include "base/debug.h"
#include "code/claim.h"
#include "code/node.h"
#include "step/one_step.h"

#define LEASE_MS 60000

static MosqlEngine engine;
static uint64 schema;
static uint64 sid;
static MosqlTimestamp ts;
static MosqlSnapshotList snapshots;

static void
begin(void)
{
	stepper.redis = server_client(5000);
	stepper.ns = "test";
	stepper.engine = engine;
	stepper.durable = false;
	server_command(stepper.redis, "FLUSHALL");
	sid = mosql_clock_open(&stepper, LEASE_MS, &schema);
}

static MosqlStep *
new_step(uint64 node, int parts)
{
	MosqlStep  *step = new_large_step(node, parts);

	reading(step, B("m"));
	return step;
}

static bool
is(uint64 node, MosqlBytes field, MosqlBytes expected)
{
	MosqlBytes	found = get(node, field);

	return (found.data == NULL) == (expected.data == NULL) && mosql_bytes_equal(found, expected);
}

static MosqlDecision
commit_of(uint64 session, uint64 n, MosqlStep **steps, int nsteps, uint64 drop)
{
	MosqlDecideArgs args = {
		.tx = {session, n},.schema = schema,.parts = B(""),.lease_ms = LEASE_MS,
		.ndrops = drop > 0,.drops = &drop
	};

	return mosql_clock_commit(&stepper, &args, steps, nsteps, &ts, &snapshots, &schema, NULL);
}

static MosqlRecordState
record_of(uint64 n)
{
	MosqlTxid	tx = {sid, n};
	MosqlRecord record;
	MosqlSnapshotList list;

	mosql_clock_status(&stepper, &tx, 1, &record, &list);
	return record.state;
}

static MosqlBytes
row_of(MosqlTimestamp at, const char *kind, MosqlBytes rest)
{
	StringInfoData out;

	initStringInfo(&out);
	for (int i = 6; i >= 0; i--)
		appendStringInfoCharMacro(&out, (char) (at >> (8 * i)));
	appendStringInfoString(&out, kind);
	appendBinaryStringInfo(&out, rest.data, rest.len);
	return mosql_bytes(out.data, out.len);
}

/* Node 1 gets row "ra", node 2 row "rb". */
static MosqlDecision
write_two(uint64 session, uint64 n, uint64 drop)
{
	MosqlStep  *steps[] = {new_step(1, 4), new_step(2, 4)};

	for (int i = 0; i < 2; i++)
	{
		MosqlBytes	row = i == 0 ? B("ra") : B("rb");

		compare(steps[i], MOSQL_COMPARE_EQUAL, B("m"), 0, B("meta"));
		compare(steps[i], MOSQL_COMPARE_ABSENT, row, 0, MOSQL_ABSENT);
		writing(steps[i], MOSQL_WRITE_VERSION, row, B("columns"));
	}
	return commit_of(session, n, steps, 2, drop);
}

static void
two_leaves(void)
{
	begin();
	set(1, B("m"), B("meta 1"));
	set(2, B("m"), B("meta 2"));
}

static void
test_two_leaves(void)
{
	MosqlTimestamp first;

	two_leaves();
	CHECK_INT(write_two(sid, 1, 0), MOSQL_DECIDED);
	CHECK(is(1, B("ra"), row_of(ts, "L", B("columns"))));
	CHECK(is(2, B("rb"), row_of(ts, "L", B("columns"))));
	CHECK_INT(record_of(1), MOSQL_RECORD_COMMITTED);
	first = ts;

	/* the second compares that nothing is there: neither leaf is touched */
	set(1, B("zz"), B("x"));
	CHECK_INT(write_two(sid, 2, 1), MOSQL_REFUSED_AT_ONCE);
	CHECK(is(1, B("ra"), row_of(first, "L", B("columns"))));
	CHECK_INT(record_of(2), MOSQL_RECORD_NONE);
	CHECK_INT(record_of(1), MOSQL_RECORD_COMMITTED);
}

/* Each compare of the second leaf keeps the first one as it is, too. */
static void
test_all_or_nothing(void)
{
	static const struct
	{
		MosqlCompareKind kind;
		const char *field;
		const char *bytes;
	}			failing[] = {
		{MOSQL_COMPARE_ABSENT, "m", ""}, {MOSQL_COMPARE_EQUAL, "m", "other"},
		{MOSQL_COMPARE_AT_MOST, "m", "a"}, {MOSQL_COMPARE_IN, "m", "xyz"},
		{MOSQL_COMPARE_ONLY, "m", "other"}, {MOSQL_COMPARE_OPEN, "m", "xyz"},
		{MOSQL_COMPARE_WHOLE, "m", "meta"}, {MOSQL_COMPARE_HOLDS, "none", "0123456789abcdef\3"},
	};

	two_leaves();
	for (int i = 0; i < lengthof(failing); i++)
	{
		MosqlStep  *steps[] = {new_step(1, 4), new_step(2, 4)};
		MosqlBytes	field = mosql_bytes(failing[i].field, strlen(failing[i].field));

		compare(steps[0], MOSQL_COMPARE_EQUAL, B("m"), 0, B("meta"));
		writing(steps[0], MOSQL_WRITE_VERSION, B("ra"), B("columns"));
		compare(steps[1], MOSQL_COMPARE_EQUAL, B("m"), 0, B("meta"));
		compare(steps[1], failing[i].kind, field, 0, mosql_bytes(failing[i].bytes, strlen(failing[i].bytes)));
		CHECK_INT(commit_of(sid, 10 + i, steps, 2, 0), MOSQL_REFUSED_AT_ONCE);
		CHECK(steps[0]->status != MOSQL_STEP_FAILED);
		CHECK_INT(steps[1]->status, MOSQL_STEP_FAILED);
		CHECK_INT(steps[1]->failed, 1);
		CHECK(mosql_bytes_equal(steps[1]->values[0], B("meta 2")));
		CHECK(is(1, B("ra"), MOSQL_ABSENT));
		CHECK_INT(record_of(10 + i), MOSQL_RECORD_NONE);
	}
}

/* What decide refuses: "aborted", a lease that is over, another schema version. */
static void
test_refused(void)
{
	MosqlRecord record;
	MosqlSnapshotList list;
	uint64		dead,
				known;

	two_leaves();
	mosql_clock_abort(&stepper, (MosqlTxid) {sid, 1}, &record, &list);
	CHECK_INT(write_two(sid, 1, 0), MOSQL_REFUSED_ABORTED);
	known = schema++;
	CHECK_INT(write_two(sid, 2, 0), MOSQL_REFUSED_SCHEMA);
	CHECK_INT(schema, known);	/* as the clock tells */
	dead = mosql_clock_open(&stepper, 50, &schema);
	pg_usleep(100000);
	CHECK_INT(write_two(dead, 3, 0), MOSQL_REFUSED_LEASE);
	CHECK_INT(write_two(dead + 1000, 3, 0), MOSQL_REFUSED_LEASE);
	CHECK(is(1, B("ra"), MOSQL_ABSENT) && is(2, B("rb"), MOSQL_ABSENT));
	CHECK_INT(write_two(sid, 4, 0), MOSQL_DECIDED);
	CHECK_INT(record_of(1), MOSQL_RECORD_ABORTED);
}

/* A request that was executed once, or settled, does nothing when it arrives again. */
static void
test_once(void)
{
	MosqlRecord record;
	MosqlSnapshotList list;

	two_leaves();
	CHECK_INT(write_two(sid, 1, 0), MOSQL_DECIDED);
	mosql_clock_settle(&stepper, (MosqlTxid) {sid, 1}, &record, &list, NULL);
	CHECK(record.state == MOSQL_RECORD_COMMITTED && record.ts == ts && record.parts.len == 0);
	CHECK_INT(write_two(sid, 1, 0), MOSQL_REFUSED_AT_ONCE);	/* not "aborted" */
	mosql_clock_settle(&stepper, (MosqlTxid) {sid, 2}, &record, &list, NULL);
	CHECK_INT(record.state, MOSQL_RECORD_ABORTED);
	CHECK_INT(write_two(sid, 2, 0), MOSQL_REFUSED_ABORTED);
}

/* Records of earlier ones go in the same step. */
static void
test_drops(void)
{
	MosqlStep  *step;

	two_leaves();
	CHECK_INT(write_two(sid, 1, 0), MOSQL_DECIDED);
	step = new_step(1, 2);
	compare(step, MOSQL_COMPARE_EQUAL, B("m"), 0, B("meta"));
	writing(step, MOSQL_WRITE_VERSION, B("rc"), B("c"));
	CHECK_INT(commit_of(sid, 2, &step, 1, 1), MOSQL_DECIDED);
	CHECK_INT(record_of(1), MOSQL_RECORD_NONE);
	CHECK_INT(record_of(2), MOSQL_RECORD_COMMITTED);
	CHECK(mosql_bytes_equal(step->values[0], B("meta 1")));
	CHECK_INT(step->nfields, 3);
}

/* Its own lock goes, and who waits is let in and told. */
static void
test_locks(void)
{
	char		mine[22] = "0123456789abcdefL\4\0\0\0\0";
	char		waits[22] = "0123456789ABCDEFW\4\0\0\0\1";
	MosqlStep  *step = NULL;
	StringInfoData field;

	two_leaves();
	initStringInfo(&field);
	appendBinaryStringInfo(&field, mine, 22);
	appendBinaryStringInfo(&field, waits, 22);
	set(1, B("ia"), mosql_bytes_of(&field));
	set(1, B("ib"), mosql_bytes(mine, 22));
	step = new_step(1, 8);
	compare(step, MOSQL_COMPARE_ADMITS, B("ia"), 0, mosql_bytes("0123456789abcdef\4", 17));
	writing(step, MOSQL_WRITE_UNLIST, B("ia"), mosql_bytes(mine, 16));
	writing(step, MOSQL_WRITE_VERSION, B("ra"), B("a"));
	writing(step, MOSQL_WRITE_UNLIST, B("ib"), mosql_bytes(mine, 16));
	writing(step, MOSQL_WRITE_VERSION, B("rb"), B("b"));
	CHECK_INT(commit_of(sid, 1, &step, 1, 0), MOSQL_DECIDED);
	waits[16] = 'L';
	waits[21] = 0;				/* he has not been answered */
	CHECK(is(1, B("ia"), mosql_bytes(waits, 22)));
	CHECK(is(1, B("ib"), MOSQL_ABSENT));
	CHECK_INT(server_command(stepper.redis, "LLEN", "test:{0000000000000001}:w:30313233343536373839414243444546")->integer, 1);
}

/* ---- rows, as history.c and increment.c have them ---- */

#define ROWS		4
#define SNAPSHOTS	40

static struct
{
	MosqlBytes	rows[ROWS];		/* what is to be stored */
	int			n;
	MosqlTimestamp snapshots[SNAPSHOTS];
	uint64		ids[SNAPSHOTS];
	uint64		last_id;
	uint64		last_tx;
	bool		many;			/* snapshots, and rows that keep many versions */
	MosqlSnapshotList list;		/* that the next commit prunes by */
}			play;

static const int widths[] = {2, 4, 8};

static int64
random_value(int width)
{
	int64		most = width == 8 ? PG_INT64_MAX : (INT64CONST(1) << (8 * width - 1)) - 1;

	switch (random_below(6))
	{
		case 0:
			return most - random_below(3);
		case 1:
			return -most + random_below(3);
		case 2:
			return (int64) (random_bits() & (uint64) most);
	}
	return random_below(2000) - 1000;
}

/* Columns 1 to 3 are integers of 2, 4 and 8 bytes, where they are not null. */
static MosqlBytes
random_columns(void)
{
	StringInfoData out;

	initStringInfo(&out);
	for (int i = 0; i < 3; i++)
		if (random_below(8) > 0)
			mosql_column_put_int(&out, 1 + i, random_value(widths[i]), widths[i]);
		else if (random_below(2))
			mosql_column_put_null(&out, 1 + i);
	if (random_below(2))
		mosql_column_put_bytes(&out, 7, random_string(random_below(8) ? 20 : 200));
	if (random_below(3) == 0)
		mosql_column_put_fixed(&out, 40, "0123456789abcdef", 16);
	if (random_below(3) == 0)
		mosql_column_put_int(&out, 100000, 5, 1);
	return mosql_bytes_of(&out);
}

static int
random_increments(MosqlIncrement *inc)
{
	int			n = 0;

	for (int i = 0; i < 3; i++)
		if (random_below(2))
			inc[n++] = (MosqlIncrement) {1 + i, widths[i], random_value(widths[i])};
	if (n == 0)
		inc[n++] = (MosqlIncrement) {2, 4, 1};
	return n;
}

static void
change_snapshots(void)
{
	if (play.n > 0 && random_below(play.many ? 20 : 4) == 0)
	{
		int			gone = random_below(play.n);

		mosql_clock_release(&stepper, sid, play.ids[gone]);
		CHECK(mosql_redis_drain(stepper.redis, 1000));
		play.n--;
		play.snapshots[gone] = play.snapshots[play.n];
		play.ids[gone] = play.ids[play.n];
	}
	if (play.n < SNAPSHOTS && random_below(6) == 0)
	{
		play.ids[play.n] = ++play.last_id;
		CHECK(mosql_clock_snapshot(&stepper, sid, play.last_id, LEASE_MS, &play.snapshots[play.n], &schema));
		play.n++;
	}
}

/* The script asks for snapshots one by one; watch has the bounded list that others get. */
static void
know_snapshots(void)
{
	MosqlTxid	tx = {sid, 1};
	MosqlRecord record;

	play.list = (MosqlSnapshotList) {.n = play.n,.snapshots = play.snapshots};
	if (engine == MOSQL_ENGINE_WATCH)
		mosql_clock_status(&stepper, &tx, 1, &record, &play.list);
}

/* Watch leaves it to the ordinary way, which asks for all snapshots. */
static bool
is_left_long(int row)
{
	return play.list.gap_to > 0 && (play.rows[row].len > MOSQL_ROW_LONG_BYTES ||
									mosql_row_is_long(play.rows[row], MOSQL_ROW_LONG_VERSIONS));
}

static MosqlBytes
row_name(int row)
{
	return mosql_bytes(psprintf("r%d", row), 2);
}

static MosqlDecision
write_row(int row, MosqlWriteKind kind, MosqlBytes value)
{
	MosqlStep  *step = new_step(1, 2);

	compare(step, MOSQL_COMPARE_EQUAL, B("m"), 0, B("meta"));
	if (kind == MOSQL_WRITE_INCREMENT)
		compare(step, MOSQL_COMPARE_OPEN, mosql_bytes(psprintf("i%d", row), 2), 16, B("IP"));
	writing(step, kind, row_name(row), value);
	play.last_tx++;
	return commit_of(sid, play.last_tx, &step, 1, play.last_tx - 1);
}

/* Is the row what C makes of it?  Absent: it was to go, with a purge mark. */
static void
expect_row(int row, bool live, MosqlBytes columns)
{
	MosqlSnapshotList list = play.list;
	MosqlVersion version = {.ts = ts,.end = MOSQL_TS_MAX,.live = live,.columns = columns};
	StringInfoData out;

	list.last = ts;
	if (!live && mosql_row_may_purge(ts, &list))
	{
		play.rows[row] = MOSQL_ABSENT;
		CHECK(is(1, B("p"), mosql_bytes(row_of(ts, "", B("")).data, 7)));
	}
	else
	{
		initStringInfo(&out);
		CHECK(mosql_row_supersede(&out, play.rows[row], &version, &list));
		play.rows[row] = mosql_bytes_of(&out);
	}
	CHECK(is(1, row_name(row), play.rows[row]));
}

static void
add_to_row(int row)
{
	MosqlIncrement inc[3];
	int			n = random_increments(inc);
	StringInfoData value,
				sum;
	MosqlVersion newest;
	MosqlIncrementResult result;

	if (!mosql_row_newest(play.rows[row], &newest) || !newest.live)
		return;
	initStringInfo(&value);
	initStringInfo(&sum);
	CHECK(mosql_step_increment(&value, inc, n));
	result = mosql_columns_increment(&sum, newest.columns, inc, n);
	if (result == MOSQL_INCREMENT_OK)
	{
		CHECK_INT(write_row(row, MOSQL_WRITE_INCREMENT, mosql_bytes_of(&value)), MOSQL_DECIDED);
		expect_row(row, true, mosql_bytes_of(&sum));
		return;
	}
	CHECK_INT(write_row(row, MOSQL_WRITE_INCREMENT, mosql_bytes_of(&value)), MOSQL_REFUSED_AT_ONCE);
	CHECK(is(1, row_name(row), play.rows[row]));
}

static void
test_rows(void)
{
	int			long_rows = 0;

	begin();
	memset(&play, 0, sizeof(play));
	set(1, B("m"), B("meta"));
	for (int i = 0; i < 4000; i++)
	{
		int			row = random_below(ROWS);
		MosqlBytes	columns = random_columns();

		play.many = i >= 3000;
		change_snapshots();
		know_snapshots();
		if (is_left_long(row))
		{
			CHECK_INT(write_row(row, MOSQL_WRITE_VERSION, columns), MOSQL_REFUSED_AT_ONCE);
			CHECK_INT(record_of(play.last_tx), MOSQL_RECORD_NONE);
			long_rows++;
			continue;
		}
		switch (random_below(5))
		{
			case 0:
				if (play.rows[row].data == NULL)
					break;
				CHECK_INT(write_row(row, MOSQL_WRITE_TOMBSTONE, B("")), MOSQL_DECIDED);
				expect_row(row, false, B(""));
				break;
			case 1:
			case 2:
				CHECK_INT(write_row(row, MOSQL_WRITE_VERSION, columns), MOSQL_DECIDED);
				expect_row(row, true, columns);
				break;
			default:
				add_to_row(row);
		}
	}
	CHECK((long_rows > 0) == (engine == MOSQL_ENGINE_WATCH));
}

/*
 * What a row is where it is no field, as a packed leaf's block has it: the new version comes on top of that; of a field
 * that is there; and nothing is written if a compare fails.
 */
static void
test_brought_out(void)
{
	MosqlIncrement inc = {1, 4, 1};
	MosqlBytes	old = row_of(50, "L", B("\x0a\0\0\0\1"));
	MosqlTimestamp S;
	MosqlVersion newest;
	StringInfoData value;
	MosqlStep  *step;

	two_leaves();
	initStringInfo(&value);
	CHECK(mosql_step_increment(&value, &inc, 1));
	CHECK(mosql_clock_snapshot(&stepper, sid, 1, LEASE_MS, &S, &schema));
	for (int i = 0; i < 3; i++)
	{
		step = new_step(1, 8);
		compare(step, MOSQL_COMPARE_AT_MOST, B("rnew"), 0, i == 0 ? B("\0") : B("\377"));
		compare(step, MOSQL_COMPARE_OPEN, B("rnew"), MOSQL_ROW_KIND_OFFSET, B("Ll"));
		compare(step, MOSQL_COMPARE_EQUAL, B("m"), 0, i == 0 ? B("other") : B("meta"));
		writing(step, MOSQL_WRITE_MAX, B("rnew"), old);
		writing(step, MOSQL_WRITE_INCREMENT, B("rnew"), mosql_bytes_of(&value));
		CHECK_INT(commit_of(sid, 1 + i, &step, 1, 0), i == 0 ? MOSQL_REFUSED_AT_ONCE : MOSQL_DECIDED);
		if (i == 0)
		{
			CHECK(is(1, B("rnew"), MOSQL_ABSENT));
			continue;
		}
		CHECK(mosql_row_newest(get(1, B("rnew")), &newest) && newest.live && newest.ts == ts);
		CHECK(mosql_bytes_equal(newest.columns, i == 1 ? B("\x0a\0\0\0\2") : B("\x0a\0\0\0\3")));
		/* the snapshot finds what it was */
		CHECK_INT(mosql_row_visible(get(1, B("rnew")), 0, S, &newest), MOSQL_VISIBLE_LIVE);
		CHECK_INT(newest.ts, 50);
	}
}

/* Rows that do not decode, or are of a later time, are left as they are. */
static void
test_damaged_rows(void)
{
	const MosqlBytes damaged[] = {
		B("short"), B("\6\1\1\1\1\1\1X"), row_of(UINT64CONST(1) << 52, "L", B("x")),
		row_of(5, "l", B("\x7f")), row_of(5, "l", B("\1x")), row_of(50, "l", B("\1x\1short")),
		row_of(50, "L", B("\x0a\0"))
	};
	MosqlTimestamp S;
	StringInfoData value;
	MosqlIncrement inc = {1, 4, 1};

	two_leaves();
	initStringInfo(&value);
	CHECK(mosql_step_increment(&value, &inc, 1));
	CHECK(mosql_clock_snapshot(&stepper, sid, 1, LEASE_MS, &S, &schema));
	for (int i = 0; i < lengthof(damaged); i++)
	{
		set(1, B("r0"), damaged[i]);
		if (i < 6)
			CHECK_INT(write_row(0, MOSQL_WRITE_VERSION, B("x")), MOSQL_REFUSED_AT_ONCE);
		CHECK_INT(write_row(0, MOSQL_WRITE_INCREMENT, mosql_bytes_of(&value)), MOSQL_REFUSED_AT_ONCE);
		CHECK(is(1, B("r0"), damaged[i]));
	}
}

static void
put_in_flight(StringInfo out, uint64 n, int64 delta)
{
	MosqlIncrement inc = {1, 4, delta};
	MosqlIntent intent = {.tx = {9, n},.kind = MOSQL_INTENT_INCREMENT};
	StringInfoData payload;

	initStringInfo(&payload);
	mosql_increments_encode(&payload, &inc, 1);
	intent.payload = mosql_bytes_of(&payload);
	mosql_intent_encode(out, &intent);
}

/* Beside increments of others, whichever of them commit. */
static void
test_beside_increments(void)
{
	static const struct
	{
		int64		value,
					mine,
					others[2];
		bool		fits;
	}			cases[] = {
		{10, 5, {1, 2}, true}, {10, -5, {-100000, 2}, true},
		{2000000000, 1, {200000000, -200000000}, false}, {-2000000000, -1, {-200000000, 5}, false},
		{0, 1, {2147483647, 0}, false}, {0, 2147483647, {5, 0}, false},
	};

	two_leaves();
	for (int i = 0; i < lengthof(cases); i++)
	{
		StringInfoData columns,
					intents,
					value;
		MosqlIncrement inc = {1, 4, cases[i].mine};

		initStringInfo(&columns);
		initStringInfo(&intents);
		initStringInfo(&value);
		mosql_column_put_int(&columns, 1, cases[i].value, 4);
		set(1, B("r0"), row_of(5, "L", mosql_bytes_of(&columns)));
		for (int j = 0; j < 2; j++)
			put_in_flight(&intents, 1 + j, cases[i].others[j]);
		set(1, B("i0"), mosql_bytes_of(&intents));
		CHECK(mosql_step_increment(&value, &inc, 1));
		CHECK_INT(write_row(0, MOSQL_WRITE_INCREMENT, mosql_bytes_of(&value)),
				  cases[i].fits ? MOSQL_DECIDED : MOSQL_REFUSED_AT_ONCE);
		resetStringInfo(&columns);
		mosql_column_put_int(&columns, 1, cases[i].value + (cases[i].fits ? cases[i].mine : 0), 4);
		CHECK(is(1, B("r0"), row_of(cases[i].fits ? ts : 5, "L", mosql_bytes_of(&columns))));
		CHECK(is(1, B("i0"), mosql_bytes_of(&intents)));
	}
	set(1, B("i0"), B("0123456789abcdefPx"));
	{
		StringInfoData value;
		MosqlIncrement inc = {1, 4, 1};

		initStringInfo(&value);
		CHECK(mosql_step_increment(&value, &inc, 1));
		CHECK_INT(write_row(0, MOSQL_WRITE_INCREMENT, mosql_bytes_of(&value)), MOSQL_REFUSED_AT_ONCE);
	}
}

/* A key of another type, and lack of memory: nothing is written. */
static void
test_errors(void)
{
	two_leaves();
	server_command(stepper.redis, "DEL", "test:{0000000000000002}");
	server_command(stepper.redis, "SET", "test:{0000000000000002}", "x");
	CHECK_INT(write_two(sid, 1, 0), MOSQL_REFUSED_AT_ONCE);
	CHECK(is(1, B("ra"), MOSQL_ABSENT));
	CHECK_INT(record_of(1), MOSQL_RECORD_NONE);

	two_leaves();
	server_command(stepper.redis, "CONFIG", "SET", "maxmemory", "1");
	CHECK_RAISES(ERRCODE_OUT_OF_MEMORY, (void) write_two(sid, 1, 0));
	server_command(stepper.redis, "CONFIG", "SET", "maxmemory", "0");
	CHECK(is(1, B("ra"), MOSQL_ABSENT));
	CHECK_INT(record_of(1), MOSQL_RECORD_NONE);
	CHECK_INT(write_two(sid, 2, 0), MOSQL_DECIDED);
}

/* It does nothing: watch says why, and the script leaves it to the ordinary way. */
static void
check_damaged_clock(void)
{
	if (engine == MOSQL_ENGINE_WATCH)
		CHECK_RAISES(ERRCODE_DATA_CORRUPTED, (void) write_two(sid, 1, 0));
	else
		CHECK_INT(write_two(sid, 1, 0), MOSQL_REFUSED_AT_ONCE);
	CHECK_INT(ts, 0);
	CHECK(is(1, B("ra"), MOSQL_ABSENT) && is(2, B("rb"), MOSQL_ABSENT));
}

/* Times that no clock gives would destroy rows. */
static void
test_damaged_clock(void)
{
	static const char *const lasts[] = {"144115188075855872", "72057594037927940", "inf"};
	static const char *const snapshots[] = {"1152921504606846976", "0", "-1", "inf"};

	/* "inf" is 0 to watch, which goes by its time then */
	for (int i = 0; i < lengthof(lasts) - (engine == MOSQL_ENGINE_WATCH); i++)
	{
		two_leaves();
		server_command(stepper.redis, "HSET", "test:{test.clock}:c", "last", lasts[i]);
		check_damaged_clock();
	}
	for (int i = 0; i < lengthof(snapshots); i++)
	{
		two_leaves();
		server_command(stepper.redis, "ZADD", "test:{test.clock}:p", snapshots[i], "1.1");
		check_damaged_clock();
	}
}

/* The step fails with 42501, and nothing was written. */
static void
check_refused_rights(void)
{
	PG_TRY();
	{
		CHECK_INT(write_two(sid, 1, 0), MOSQL_REFUSED_AT_ONCE);
	}
	PG_CATCH();
	{
		pgstub_error_take();
		CHECK_INT(pgstub_error.sqlstate, ERRCODE_INSUFFICIENT_PRIVILEGE);
	}
	PG_END_TRY();
	server_command(stepper.redis, "ACL", "SETUSER", "default", "+@all", "allkeys");
	CHECK(is(1, B("ra"), MOSQL_ABSENT) && is(2, B("rb"), MOSQL_ABSENT));
	CHECK_INT(record_of(1), MOSQL_RECORD_NONE);
}

/* Who may not call all that the step needs is refused before anything is written. */
static void
test_rights(void)
{
	static const char *const needed[] = {"hlen", "hset", "hmget"};

	for (int i = 0; i < lengthof(needed); i++)
	{
		two_leaves();
		server_command(stepper.redis, "ACL", "SETUSER", "default", psprintf("-%s", needed[i]));
		check_refused_rights();
	}
}

/* Who may write to the clock, and only read leaves. */
static void
test_rights_to_keys(void)
{
	two_leaves();
	server_command(stepper.redis, "ACL", "SETUSER", "default", "resetkeys", "%R~*", "~*clock*");
	check_refused_rights();
}

/* ---- between what watch has read and its EXEC ---- */

static struct
{
	MosqlStepper stepper;		/* another one, on a connection of its own */
	uint64		sid;
	void		(*act) (void);
	int			times;			/* that it acts */
	int			reached;
	MosqlTimestamp S;
}			meanwhile;

static void
reach(const char *name)
{
	if (strcmp(name, "one-step-read") != 0)
		return;
	meanwhile.reached++;
	if (meanwhile.times-- > 0)
		meanwhile.act();
}

static void
begin_meanwhile(void (*act) (void), int times)
{
	uint64		version;

	two_leaves();
	set(1, B("ra"), row_of(5, "L", B("old")));
	meanwhile.stepper = stepper;
	meanwhile.stepper.redis = server_client(5000);
	meanwhile.sid = mosql_clock_open(&meanwhile.stepper, LEASE_MS, &version);
	meanwhile.act = act;
	meanwhile.times = times;
	meanwhile.reached = 0;
}

/* Of version 5, a new one. */
static MosqlDecision
update_one(uint64 n, MosqlStep **step)
{
	MosqlDecision decision;

	*step = new_step(1, 4);
	compare(*step, MOSQL_COMPARE_EQUAL, B("m"), 0, B("meta"));
	compare(*step, MOSQL_COMPARE_ABSENT, B("ia"), 0, MOSQL_ABSENT);
	compare(*step, MOSQL_COMPARE_EQUAL, B("ra"), 0, row_of(5, "", B("")));
	writing(*step, MOSQL_WRITE_VERSION, B("ra"), B("new"));
	mosql_debug_active = true;
	mosql_debug_hook = reach;
	decision = commit_of(sid, n, step, 1, 0);
	mosql_debug_active = false;
	return decision;
}

static void
register_snapshot(void)
{
	uint64		version;

	CHECK(mosql_clock_snapshot(&meanwhile.stepper, meanwhile.sid, 100 + meanwhile.times, LEASE_MS, &meanwhile.S, &version));
}

static void
decide_other(void)
{
	uint64		version;
	MosqlTimestamp other;
	MosqlSnapshotList list;
	MosqlDecideArgs args = {
		.tx = {meanwhile.sid, 100 + meanwhile.times},.schema = schema,.parts = B(""),.lease_ms = LEASE_MS
	};

	CHECK_INT(mosql_clock_decide(&meanwhile.stepper, &args, &other, &list, &version, NULL), MOSQL_DECIDED);
}

static void
touch_leaf(void)
{
	server_command(meanwhile.stepper.redis, "HSET", "test:{0000000000000001}", "rz", "other");
}

static void
place_intent(void)
{
	server_command(meanwhile.stepper.redis, "HSET", "test:{0000000000000001}", "ia", "0123456789abcdefPx");
}

static void
settle_it(void)
{
	MosqlRecord record;
	MosqlSnapshotList list;

	mosql_clock_settle(&meanwhile.stepper, (MosqlTxid) {sid, 1}, &record, &list, NULL);
	CHECK_INT(record.state, MOSQL_RECORD_ABORTED);
}

/* The lease is over, and somebody has found that out. */
static void
forget_session(void)
{
	const char *end = psprintf(UINT64_FORMAT, sid);

	server_command(meanwhile.stepper.redis, "HSET", psprintf("test:{test.clock}:s:%s", end), "lease", "1");
	server_command(meanwhile.stepper.redis, "ZADD", "test:{test.clock}:e", "1", end);
	CHECK_INT(mosql_clock_expire(&meanwhile.stepper, 1), 1);
}

static void
kill_connections(void)
{
	server_command(meanwhile.stepper.redis, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
}

/* It is made anew, and right, whatever it was, and by which engine. */
static void
test_overtaken(void)
{
	void		(*const acts[]) (void) = {register_snapshot, decide_other, touch_leaf};
	MosqlVersion version;
	MosqlStep  *step;

	for (int i = 0; i < 2 * lengthof(acts); i++)
	{
		void		(*act) (void) = acts[i / 2];

		begin_meanwhile(act, 1);
		meanwhile.stepper.engine = i % 2 == 0 ? MOSQL_ENGINE_SCRIPT : MOSQL_ENGINE_WATCH;
		CHECK_INT(update_one(1, &step), MOSQL_DECIDED);
		CHECK_INT(meanwhile.reached, 2);
		CHECK(mosql_row_newest(get(1, B("ra")), &version) && version.ts == ts);
		CHECK(mosql_bytes_equal(version.columns, B("new")));
		if (act != register_snapshot)
			continue;
		/* the snapshot finds what it was */
		CHECK(meanwhile.S < ts);
		CHECK_INT(mosql_row_visible(get(1, B("ra")), 0, meanwhile.S, &version), MOSQL_VISIBLE_LIVE);
		CHECK(mosql_bytes_equal(version.columns, B("old")));
	}
}

/* Somebody is always faster: the ordinary way, after a few times. */
static void
test_always_overtaken(void)
{
	MosqlStep  *step;

	begin_meanwhile(register_snapshot, 1000);
	CHECK_INT(update_one(1, &step), MOSQL_REFUSED_AT_ONCE);
	CHECK_INT(meanwhile.reached, 8);
	CHECK(step->status != MOSQL_STEP_FAILED && ts == 0);
	CHECK(is(1, B("ra"), row_of(5, "L", B("old"))));
	CHECK_INT(record_of(1), MOSQL_RECORD_NONE);
}

/* What was compared is not so any more. */
static void
test_in_the_way(void)
{
	void		(*const acts[]) (void) = {place_intent, settle_it, forget_session};
	const MosqlDecision said[] = {MOSQL_REFUSED_AT_ONCE, MOSQL_REFUSED_ABORTED, MOSQL_REFUSED_LEASE};
	MosqlStep  *step;

	for (int i = 0; i < lengthof(acts); i++)
	{
		begin_meanwhile(acts[i], 1);
		CHECK_INT(update_one(1, &step), said[i]);
		CHECK_INT(meanwhile.reached, 1);
		CHECK_INT(step->status == MOSQL_STEP_FAILED, acts[i] == place_intent);
		CHECK(acts[i] != place_intent || step->failed == 1);
		CHECK(is(1, B("ra"), row_of(5, "L", B("old"))));
	}
}

/* EXEC is never sent where WATCH is not: nobody knows, and it is settled. */
static void
test_connection_lost(void)
{
	MosqlRecord record;
	MosqlSnapshotList list;
	MosqlStep  *step;

	begin_meanwhile(kill_connections, 1);
	CHECK_INT(update_one(1, &step), MOSQL_DECISION_LOST);
	mosql_clock_settle(&stepper, (MosqlTxid) {sid, 1}, &record, &list, NULL);
	CHECK_INT(record.state, MOSQL_RECORD_ABORTED);
	CHECK(is(1, B("ra"), row_of(5, "L", B("old"))));
}

static void
run_all(void)
{
	RUN(test_two_leaves);
	RUN(test_all_or_nothing);
	RUN(test_refused);
	RUN(test_once);
	RUN(test_drops);
	RUN(test_locks);
	RUN(test_rows);
	RUN(test_brought_out);
	RUN(test_damaged_rows);
	RUN(test_beside_increments);
	RUN(test_errors);
	RUN(test_damaged_clock);
	RUN(test_rights);
	RUN(test_rights_to_keys);
}

int
main(void)
{
	server_start(false);
	engine = MOSQL_ENGINE_SCRIPT;
	run_all();
	engine = MOSQL_ENGINE_WATCH;
	run_all();
	RUN(test_overtaken);
	RUN(test_always_overtaken);
	RUN(test_in_the_way);
	RUN(test_connection_lost);
	return unit_finish();
}
