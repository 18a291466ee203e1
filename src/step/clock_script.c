/*
 * clock_script.c: the clock by server-side scripts, one round trip each.
 *
 * Layer: step.
 */
#include "step/step_int.h"
#include "step/clock_lua.h"

static MosqlScript open_script = {.name = "open", .source = open_lua};
static MosqlScript close_script = {.name = "close", .source = close_lua};
static MosqlScript snapshot_script = {.name = "snapshot", .source = snapshot_lua};
static MosqlScript decide_script = {.name = "decide", .source = decide_lua};
static MosqlScript status_script = {.name = "status", .source = status_lua};
static MosqlScript abort_script = {.name = "abort", .source = abort_lua};
static MosqlScript settle_script = {.name = "settle", .source = settle_lua};
static MosqlScript drop_script = {.name = "drop", .source = drop_lua};
static MosqlScript reap_script = {.name = "reap", .source = reap_lua};
static MosqlScript expire_script = {.name = "expire", .source = expire_lua};
static MosqlScript sessions_script = {.name = "sessions", .source = sessions_lua};
static MosqlScript snapshots_script = {.name = "snapshots", .source = snapshots_lua};

/* One call; the reply is of the expected kind, or LOST if mode is ONCE. */
static const MosqlReply *
call_script_as(MosqlStepper *clock, const MosqlClockKeys *keys, MosqlScript *script,
			   MosqlSendMode mode, bool durable, bool touch, int argc, MosqlBytes *argv,
			   MosqlReplyKind expected, MosqlBudget *budget)
{
	MosqlScriptCall call = {script, keys->slot, mode, argc, argv, NULL};

	call.durable = durable && clock->durable;
	if (touch && clock->durable)
		call.touch = mosql_clock_touch(keys);

	mosql_script_run(clock->redis, &call, 1, budget);
	if (call.reply->kind != MOSQL_REPLY_LOST)
		mosql_step_check(call.reply, expected, keys->prefix);
	return call.reply;
}

/* What is read, or written, may be lost with the server. */
static const MosqlReply *
call_script(MosqlStepper *clock, const MosqlClockKeys *keys, MosqlScript *script,
			int argc, MosqlBytes *argv, MosqlReplyKind expected)
{
	return call_script_as(clock, keys, script, MOSQL_SEND_REPEATABLE, false, false,
						  argc, argv, expected, NULL);
}

/* Neither what is written nor what is read may be lost. */
static const MosqlReply *
call_durable(MosqlStepper *clock, const MosqlClockKeys *keys, MosqlScript *script,
			 int argc, MosqlBytes *argv, MosqlReplyKind expected, MosqlBudget *budget)
{
	return call_script_as(clock, keys, script, MOSQL_SEND_REPEATABLE, true, true,
						  argc, argv, expected, budget);
}

/* argv of a script whose keys and arguments are at hand. */
#define ARGUMENTS(script, nkeys, ...) \
	arguments(script, nkeys, lengthof(((MosqlBytes[]) {__VA_ARGS__})), \
			  (MosqlBytes[]) {__VA_ARGS__})

static MosqlBytes *
arguments(MosqlScript *script, int nkeys, int n, const MosqlBytes *rest)
{
	MosqlBytes *argv = mosql_script_argv(script, nkeys, n - nkeys);

	memcpy(argv + 3, rest, n * sizeof(MosqlBytes));
	return argv;
}

static MosqlBytes
lease_length(int lease_ms)
{
	return mosql_clock_number((uint64) lease_ms * 1000);
}

static void
ignore_reply(void *arg, const MosqlReply *reply)
{
}

static uint64
script_open(MosqlStepper *clock, int lease_ms, bool found, uint64 *schema)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = ARGUMENTS(&open_script, 4,
								 keys.counter, keys.ends, keys.snapshots, keys.dead,
								 keys.prefix, lease_length(lease_ms),
								 LITERAL(MOSQL_CLOCK_FORMAT),
								 mosql_clock_number(MOSQL_CLOCK_SWEEP),
								 found ? LITERAL("1") : LITERAL("0"),
								 mosql_clock_who(clock));
	const MosqlReply *reply = call_durable(clock, &keys, &open_script,
										   13, argv, MOSQL_REPLY_ARRAY, NULL);

	if (mosql_step_elem(reply, 0)->integer == 2)
		return 0;
	if (mosql_step_elem(reply, 0)->integer != 0)
		mosql_clock_refuse_format(&keys, mosql_reply_bytes(mosql_step_elem(reply, 1)));
	*schema = mosql_reply_u64(mosql_step_elem(reply, 2));
	return mosql_reply_u64(mosql_step_elem(reply, 1));
}

static void
script_close(MosqlStepper *clock, uint64 sid)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = ARGUMENTS(&close_script, 4,
								 mosql_clock_session_key(&keys, sid),
								 keys.ends, keys.snapshots, keys.dead,
								 mosql_clock_number(sid));

	mosql_script_send(clock->redis, &close_script, keys.slot, 8, argv, ignore_reply, NULL);
}

/* Before what a new server issues is used, its leap must be safe: once more, durably. */
static bool
has_leapt(const MosqlStepper *clock, const MosqlReply *leapt)
{
	return clock->durable && leapt->integer != 0;
}

/* The snapshot is registered before a node is read behind it, since one connection's commands run one after the other. */
static const MosqlReply *
call_along(MosqlStepper *clock, const MosqlClockKeys *keys, int argc, MosqlBytes *argv, MosqlNodesAlong *along)
{
	MosqlScriptCall call = {&snapshot_script, keys->slot, MOSQL_SEND_REPEATABLE, argc, argv};
	MosqlBytes *nodes = palloc(along->n * sizeof(MosqlBytes));

	for (int i = 0; i < along->n; i++)
		nodes[i] = mosql_step_key(clock, along->nodes[i]);
	call.along = along;
	call.along_keys = nodes;
	mosql_script_run(clock->redis, &call, 1, NULL);
	mosql_step_check(call.reply, MOSQL_REPLY_ARRAY, keys->prefix);
	return call.reply;
}

static bool
script_snapshot(MosqlStepper *clock, uint64 sid, uint64 snapid, int lease_ms,
				MosqlTimestamp *S, uint64 *schema, MosqlNodesAlong *along)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = ARGUMENTS(&snapshot_script, 4,
								 keys.counter, mosql_clock_session_key(&keys, sid),
								 keys.ends, keys.snapshots,
								 mosql_clock_number(sid),
								 mosql_clock_snapshot_field(sid, snapid),
								 lease_length(lease_ms));
	const MosqlReply *reply = along == NULL
		? call_script(clock, &keys, &snapshot_script, 10, argv, MOSQL_REPLY_ARRAY)
		: call_along(clock, &keys, 10, argv, along);
	bool		dead = mosql_step_elem(reply, 0)->integer != 0;

	if (!dead && has_leapt(clock, mosql_step_elem(reply, 3)))
	{
		reply = call_durable(clock, &keys, &snapshot_script, 10, argv, MOSQL_REPLY_ARRAY, NULL);
		if (along != NULL)
			along->came = false;	/* it may be another snapshot */
	}
	dead = mosql_step_elem(reply, 0)->integer != 0;
	*schema = mosql_reply_u64(mosql_step_elem(reply, dead ? 1 : 2));
	if (!dead)
		*S = mosql_clock_time(&keys, mosql_reply_u64(mosql_step_elem(reply, 1)));
	return !dead;
}

/* In a reply, from `last` on. */
static MosqlSnapshotList
script_list(const MosqlClockKeys *keys, const MosqlReply *reply, int i)
{
	return mosql_clock_list(keys, mosql_step_elem(reply, i), mosql_step_elem(reply, i + 1), 1,
							mosql_step_elem(reply, i + 2));
}

StaticAssertDecl(MOSQL_DECIDED == 0 && MOSQL_REFUSED_ABORTED == 1 &&
				 MOSQL_REFUSED_LEASE == 2 && MOSQL_REFUSED_SCHEMA == 3 && MOSQL_REFUSED_FORGOTTEN == 4,
				 "decide_lua knows these numbers");

static MosqlDecision
script_decide(MosqlStepper *clock, const MosqlDecideArgs *args, MosqlTimestamp *ts,
			  MosqlSnapshotList *list, uint64 *schema, MosqlBudget *budget)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = mosql_script_argv(&decide_script, 4, 8 + args->ndrops);
	MosqlBytes *arg = argv + 3;
	const MosqlReply *reply;
	int64		decision;

	Assert(args->ndrops <= MOSQL_CLOCK_DROPS);	/* clock.c sees to it */
	*arg++ = keys.counter;
	*arg++ = mosql_clock_session_key(&keys, args->tx.session);
	*arg++ = keys.ends;
	*arg++ = keys.snapshots;
	*arg++ = mosql_clock_number(args->tx.n);
	*arg++ = mosql_clock_number(args->schema);
	*arg++ = args->schema_change ? LITERAL("1") : LITERAL("0");
	*arg++ = mosql_clock_number(args->tx.session);
	*arg++ = lease_length(args->lease_ms);
	*arg++ = args->parts;
	*arg++ = mosql_clock_number(clock->durable ? 0 : args->since);
	*arg++ = args->all_snapshots ? LITERAL("1") : LITERAL("0");
	for (int i = 0; i < args->ndrops; i++)
		*arg++ = mosql_clock_number(args->drops[i]);

	reply = call_script_as(clock, &keys, &decide_script, MOSQL_SEND_ONCE, true, false,
						   arg - argv, argv, MOSQL_REPLY_ARRAY, budget);
	if (reply->kind == MOSQL_REPLY_LOST)
		return MOSQL_DECISION_LOST;
	decision = mosql_step_elem(reply, 0)->integer;
	if (decision < MOSQL_DECIDED || decision > MOSQL_REFUSED_FORGOTTEN)
		mosql_step_check(reply, MOSQL_REPLY_INTEGER, keys.prefix);
	*schema = mosql_reply_u64(mosql_step_elem(reply, 1));
	if (decision == MOSQL_DECIDED)
	{
		*ts = mosql_reply_u64(mosql_step_elem(reply, 2));	/* also if it is damaged */
		*ts = mosql_clock_time(&keys, *ts);
		*list = script_list(&keys, reply, 3);
	}
	return (MosqlDecision) decision;
}

static void
script_status(MosqlStepper *clock, const MosqlTxid *txs, int n,
			  MosqlRecord *records, MosqlSnapshotList *list)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = mosql_script_argv(&status_script, 2 + n, n);
	const MosqlReply *reply;

	argv[3] = keys.counter;
	argv[4] = keys.snapshots;
	for (int i = 0; i < n; i++)
	{
		argv[5 + i] = mosql_clock_session_key(&keys, txs[i].session);
		argv[5 + n + i] = mosql_clock_number(txs[i].n);
	}
	reply = call_durable(clock, &keys, &status_script, 5 + 2 * n, argv, MOSQL_REPLY_ARRAY, NULL);
	*list = script_list(&keys, reply, 1);
	for (int i = 0; i < n; i++)
		records[i] = mosql_clock_record(&keys, txs[i].session,
										mosql_reply_bytes(mosql_step_elem(reply, 4 + i)));
}

/* The answer of abort and settle. */
static void
one_record(const MosqlClockKeys *keys, MosqlTxid tx, const MosqlReply *reply,
		   MosqlRecord *record, MosqlSnapshotList *list)
{
	*record = mosql_clock_record(keys, tx.session, mosql_reply_bytes(mosql_step_elem(reply, 4)));
	if (mosql_step_elem(reply, 0)->integer != 0)
		record->state = MOSQL_RECORD_UNKNOWN;
	*list = script_list(keys, reply, 1);
}

static void
script_abort(MosqlStepper *clock, MosqlTxid tx, MosqlRecord *record, MosqlSnapshotList *list)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = ARGUMENTS(&abort_script, 4,
								 keys.counter, keys.snapshots,
								 mosql_clock_session_key(&keys, tx.session), keys.ends,
								 mosql_clock_number(tx.n), mosql_clock_number(tx.session));

	one_record(&keys, tx, call_durable(clock, &keys, &abort_script,
									   9, argv, MOSQL_REPLY_ARRAY, NULL), record, list);
}

static void
script_settle(MosqlStepper *clock, MosqlTxid tx, MosqlRecord *record,
			  MosqlSnapshotList *list, MosqlBudget *budget)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = ARGUMENTS(&settle_script, 3,
								 keys.counter, keys.snapshots,
								 mosql_clock_session_key(&keys, tx.session),
								 mosql_clock_number(tx.n));

	one_record(&keys, tx, call_durable(clock, &keys, &settle_script,
									   7, argv, MOSQL_REPLY_ARRAY, budget), record, list);
}

static void
script_drop(MosqlStepper *clock, uint64 sid, const uint64 *ns, int n)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);

	for (int from = 0; from < n; from += MOSQL_CLOCK_DROPS)
	{
		int			count = Min(n - from, MOSQL_CLOCK_DROPS);
		MosqlBytes *argv = mosql_script_argv(&drop_script, 2, count);

		argv[3] = keys.counter;
		argv[4] = mosql_clock_session_key(&keys, sid);
		for (int i = 0; i < count; i++)
			argv[5 + i] = mosql_clock_number(ns[from + i]);
		mosql_script_send(clock->redis, &drop_script, keys.slot, 5 + count, argv,
						  ignore_reply, NULL);
	}
}

static void
script_snapshots(MosqlStepper *clock, MosqlSnapshotList *list, uint64 *schema)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = ARGUMENTS(&snapshots_script, 2, keys.counter, keys.snapshots);
	const MosqlReply *reply = call_script(clock, &keys, &snapshots_script, 5, argv,
										  MOSQL_REPLY_ARRAY);

	if (has_leapt(clock, mosql_step_elem(reply, 3)))
		reply = call_durable(clock, &keys, &snapshots_script, 5, argv, MOSQL_REPLY_ARRAY, NULL);
	*schema = mosql_reply_u64(mosql_step_elem(reply, 1));
	*list = mosql_clock_list(&keys, mosql_step_elem(reply, 0), mosql_step_elem(reply, 2), 1, NULL);
}

static bool
script_reap(MosqlStepper *clock, uint64 sid, const uint64 *ns, int n)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	bool		dead = true;
	int			from = 0;

	do
	{
		int			count = Min(n - from, MOSQL_CLOCK_DROPS);
		MosqlBytes *argv = mosql_script_argv(&reap_script, 3, 1 + count);

		argv[3] = mosql_clock_session_key(&keys, sid);
		argv[4] = keys.dead;
		argv[5] = keys.outcomes;
		argv[6] = mosql_clock_number(sid);
		for (int i = 0; i < count; i++)
			argv[7 + i] = mosql_clock_number(ns[from + i]);
		dead = call_script(clock, &keys, &reap_script, 7 + count, argv,
						   MOSQL_REPLY_INTEGER)->integer != 0;
		from += count;
	} while (dead && from < n);
	return dead;
}

static void
script_sessions(MosqlStepper *clock, MosqlSessions *sessions)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = ARGUMENTS(&sessions_script, 2, keys.counter, keys.ends);
	const MosqlReply *reply = call_durable(clock, &keys, &sessions_script, 5, argv,
										   MOSQL_REPLY_ARRAY, NULL);
	const MosqlReply *live = mosql_step_elem(reply, 1);

	mosql_step_check(live, MOSQL_REPLY_ARRAY, keys.ends);
	sessions->newest = mosql_reply_u64(mosql_step_elem(reply, 0));
	sessions->n = live->n;
	sessions->live = palloc(Max(live->n, 1) * sizeof(uint64));
	for (int i = 0; i < live->n; i++)
		sessions->live[i] = mosql_reply_u64(mosql_step_elem(live, i));
}

static int
script_expire(MosqlStepper *clock, int max)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = ARGUMENTS(&expire_script, 4,
								 keys.counter, keys.ends, keys.snapshots, keys.dead,
								 keys.prefix, mosql_clock_number(max));

	return (int) call_script(clock, &keys, &expire_script, 9, argv,
							 MOSQL_REPLY_INTEGER)->integer;
}

const MosqlClockEngine mosql_clock_script = {
	.open = script_open,
	.close = script_close,
	.snapshot = script_snapshot,
	.decide = script_decide,
	.status = script_status,
	.abort = script_abort,
	.settle = script_settle,
	.drop = script_drop,
	.snapshots = script_snapshots,
	.reap = script_reap,
	.sessions = script_sessions,
	.expire = script_expire,
};
