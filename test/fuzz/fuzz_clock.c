/*
 * fuzz_clock.c: everything that Redis may answer to steps and to the clock.
 *
 * Input: a byte that chooses engine and function, then what is received
 * (sockets.h).  The server is a plain one.  What comes out must make sense:
 * times that fit 7 bytes, results within the step's own bounds.
 */
#include "sockets.h"

#include "code/node.h"
#include "step/clock.h"
#include "step/one_step.h"
#include "step/step.h"

const int	fuzz_errors[] = {
	ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION, ERRCODE_CONNECTION_FAILURE,
	ERRCODE_INVALID_PASSWORD, ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
	ERRCODE_INSUFFICIENT_PRIVILEGE, ERRCODE_OUT_OF_MEMORY, ERRCODE_CANNOT_CONNECT_NOW,
	ERRCODE_READ_ONLY_SQL_TRANSACTION, ERRCODE_TOO_MANY_CONNECTIONS, ERRCODE_PROTOCOL_VIOLATION,
	ERRCODE_INSUFFICIENT_RESOURCES, ERRCODE_IO_ERROR, ERRCODE_FDW_ERROR, ERRCODE_DATA_CORRUPTED,
	ERRCODE_FEATURE_NOT_SUPPORTED, ERRCODE_T_R_SERIALIZATION_FAILURE, ERRCODE_OBJECT_IN_USE,
	ERRCODE_LOCK_NOT_AVAILABLE, 0
};

#define LEASE_MS 60000

static void
check_list(const MosqlSnapshotList *list)
{
	MUST(list->last < MOSQL_TS_MAX);
	for (int i = 0; i < list->n; i++)
		MUST(list->snapshots[i] < MOSQL_TS_MAX);
	MUST(list->gap_from < MOSQL_TS_MAX && list->gap_to < MOSQL_TS_MAX);
}

static void
check_record(const MosqlRecord *record)
{
	if (record->state != MOSQL_RECORD_COMMITTED)
		return;
	MUST(record->ts > 0 && record->ts < MOSQL_TS_MAX);
	(void) fuzz_hash(record->parts);
}

static void
decide(MosqlStepper *clock)
{
	uint64		drops[] = {3, 4};
	MosqlDecideArgs args = {
		.tx = {7, 9},.schema = 1,.parts = mosql_bytes("parts", 5),.lease_ms = LEASE_MS,
		.ndrops = 2,.drops = drops
	};
	MosqlSnapshotList list;
	MosqlTimestamp ts;
	uint64		schema;

	if (mosql_clock_decide(clock, &args, &ts, &list, &schema, NULL) != MOSQL_DECIDED)
		return;
	MUST(ts > 0 && ts < MOSQL_TS_MAX);
	check_list(&list);
}

static void
commit_at_once(MosqlStepper *clock)
{
	MosqlDecideArgs args = {.tx = {7, 9},.schema = 1,.parts = mosql_bytes("", 0),.lease_ms = LEASE_MS};
	MosqlBytes	read = mosql_bytes("m", 1);
	MosqlWrite	write = {MOSQL_WRITE_VERSION, mosql_bytes("rk", 2), mosql_bytes("columns", 7)};
	MosqlStep	step = {.node = 5,.nreads = 1,.reads = &read,.nwrites = 1,.writes = &write};
	MosqlStep  *steps[] = {&step};
	MosqlTimestamp ts;
	MosqlSnapshotList list;
	uint64		schema;

	if (!mosql_one_step_is_possible(clock) ||
		mosql_clock_commit(clock, &args, steps, 1, &ts, &list, &schema, NULL) != MOSQL_DECIDED)
		return;
	MUST(ts > 0 && ts < MOSQL_TS_MAX);
	(void) fuzz_hash(step.values[0]);
}

static void
use_clock(MosqlStepper *clock, int choice)
{
	MosqlTxid	txs[] = {{7, 9}, {8, 1}};
	MosqlRecord records[2];
	MosqlSnapshotList list;
	MosqlOrphan *orphans;
	MosqlTimestamp S;
	uint64		schema;
	uint64		ns[] = {3, 4};
	int			n;

	switch (choice)
	{
		case 0:
			(void) mosql_clock_open(clock, LEASE_MS, &schema);
			break;
		case 1:
			if (mosql_clock_snapshot(clock, 7, 1, LEASE_MS, &S, &schema))
				MUST(S > 0 && S < MOSQL_TS_MAX);
			mosql_clock_release(clock, 7, 1);
			break;
		case 2:
			decide(clock);
			break;
		case 3:
			mosql_clock_status(clock, txs, 2, records, &list);
			check_record(&records[0]);
			check_record(&records[1]);
			check_list(&list);
			break;
		case 4:
			mosql_clock_abort(clock, txs[0], records, &list);
			check_record(records);
			check_list(&list);
			break;
		case 5:
			mosql_clock_settle(clock, txs[0], records, &list, NULL);
			check_record(records);
			check_list(&list);
			break;
		case 6:
			mosql_clock_snapshots(clock, &list, &schema);
			check_list(&list);
			break;
		case 7:
			n = mosql_clock_orphans(clock, 5, &orphans);
			for (int i = 0; i < n; i++)
				check_record(&orphans[i].record);
			break;
		case 8:
			(void) mosql_clock_reap(clock, 7, ns, 2);
			break;
		default:
			mosql_clock_drop(clock, 7, ns, 2);
			mosql_clock_close(clock, 7);
			break;
	}
}

static MosqlBytes
word(const char *text)
{
	return mosql_bytes(text, strlen(text));
}

static void
check_step(const MosqlStep *step)
{
	if (step->status == MOSQL_STEP_LOST)
		return;
	MUST(step->failed >= -1 && step->failed < step->ncompares);
	MUST((step->status == MOSQL_STEP_DONE) == (step->failed == -1));
	for (int i = 0; i < step->nreads; i++)
		(void) fuzz_hash(step->values[i]);
}

/* Two steps on different nodes; range: one of them reads the whole hash. */
static void
run_steps(MosqlStepper *stepper, bool range, bool detached, bool message)
{
	MosqlCompare compares[] = {
		{.kind = MOSQL_COMPARE_EQUAL,.field = word("m"),.bytes = word("12345678")},
		{.kind = range ? MOSQL_COMPARE_RANGE : MOSQL_COMPARE_OPEN,.field = word("ra"),
			.bytes = word("0123456789abcdef"),.upper = word("rz")}
	};
	MosqlBytes	reads[] = {word("m"), word("ra")};
	MosqlWrite	writes[] = {
		{MOSQL_WRITE_SET, word("ra"), word("new")},
		{MOSQL_WRITE_APPEND, word("l"), word("0123456789abcdef")},
		{MOSQL_WRITE_UNLIST, word("ib"), word("0123456789abcdef")},
		{MOSQL_WRITE_DELETE, word("rc"), MOSQL_ABSENT}
	};
	MosqlStep	one = {.node = 5,.repeatable = true,.ncompares = 2,.compares = compares,
	.nreads = 2,.reads = reads,.nwrites = 4,.writes = writes};
	MosqlStep	two = {.node = 6,.repeatable = message,.ncompares = 1,.compares = compares,.nreads = 1,.reads = reads,
	.nwrites = 1,.writes = writes};
	MosqlStep  *steps[] = {&one, &two};

	if (message)				/* they are one where the server is known */
		(void) mosql_redis_is_cluster(stepper->redis);
	mosql_step_run(stepper, steps, 2, NULL);
	check_step(&one);
	check_step(&two);
	if (!detached || stepper->engine != MOSQL_ENGINE_SCRIPT)
		return;
	if (message)
		mosql_messages_send(mosql_step_gather(stepper, steps, 2), NULL, NULL);
	else
		mosql_step_send(stepper, &two, NULL, NULL);
	(void) mosql_redis_drain(stepper->redis, 100);
}

static void
read_nodes(MosqlStepper *stepper)
{
	uint64		nodes[] = {5, 6};
	MosqlNodeImage images[2];
	MosqlBytes	fields[] = {word("m"), word("s")};
	MosqlFieldRead reads[] = {{5, 2, fields, NULL}, {6, 1, fields, NULL}};

	mosql_step_read_nodes(stepper, nodes, 2, images, NULL);
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < images[i].nfields; j++)
		{
			(void) fuzz_hash(images[i].fields[j].field);
			(void) fuzz_hash(images[i].fields[j].value);
		}
	mosql_step_read_fields(stepper, reads, 2, NULL);
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < reads[i].nfields; j++)
			(void) fuzz_hash(reads[i].values[j]);
	mosql_step_delete_nodes(stepper, nodes, 2, NULL);
}

static void
use(MosqlStepper *stepper, int choice, bool message)
{
	if (choice < 10)
		use_clock(stepper, choice);
	else if (choice < 14)
		run_steps(stepper, choice & 1, choice & 2, message);
	else if (choice == 15)
		commit_at_once(stepper);
	else
		read_nodes(stepper);
	(void) mosql_redis_drain(stepper->redis, 100);
}

void
fuzz_one(MosqlBytes in)
{
	int			choice = fuzz_byte(&in);
	MosqlRedisConfig config = {.nodes = "h1:7001",.connect_timeout_ms = 50,.command_timeout_ms = 200};
	MosqlStepper stepper = {
		sockets_open(&config, "-ERR This instance has cluster support disabled\r\n", &in), "ns",
		(choice & 64) ? MOSQL_ENGINE_WATCH : MOSQL_ENGINE_SCRIPT
	};

	PG_TRY();
	{
		use(&stepper, choice % 16, choice & 32);
	}
	PG_FINALLY();
	{
		mosql_redis_close(stepper.redis);
		MUST(sockets_closed());
	}
	PG_END_TRY();
}
