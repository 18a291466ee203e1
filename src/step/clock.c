/*
 * clock.c: the clock's functions: names, numbers and records, and the choice
 * of the engine.
 *
 * Layer: step.  clock_script.c and clock_watch.c do the work and leave the same
 * data; every function is one atomic step (docs/commit.md).
 */
#include "step/step_int.h"

#include <math.h>

static const MosqlClockEngine *
engine(const MosqlStepper *clock)
{
	return clock->engine == MOSQL_ENGINE_SCRIPT ? &mosql_clock_script : &mosql_clock_watch;
}

/* --- names and numbers --- */

static MosqlBytes
key_of(MosqlBytes base, const char *suffix)
{
	size_t		len = strlen(suffix);
	char	   *key = palloc(base.len + len + 1);

	memcpy(key, base.data, base.len);
	memcpy(key + base.len, suffix, len + 1);
	return mosql_bytes(key, base.len + len);
}

MosqlClockKeys
mosql_clock_keys(const char *ns)
{
	const char *text = psprintf("%s:{%s.clock}:", ns, ns);
	MosqlBytes	base = mosql_bytes(text, strlen(text));
	MosqlClockKeys keys;

	keys.counter = key_of(base, "c");
	keys.ends = key_of(base, "e");
	keys.snapshots = key_of(base, "p");
	keys.dead = key_of(base, "d");
	keys.outcomes = key_of(base, "o");
	keys.jobs = key_of(base, "j");
	keys.sizes = key_of(base, "z");
	keys.unnamed = key_of(base, "u");
	keys.garbage = key_of(base, "g");
	keys.waits = key_of(base, "w");
	keys.signs = key_of(base, "a:");
	keys.prefix = key_of(base, "s:");
	keys.slot = mosql_redis_slot(keys.counter);
	return keys;
}

/* Of all these keys. */
uint16
mosql_clock_slot(const char *ns)
{
	char	   *tag = psprintf("{%s.clock}", ns);
	uint16		slot = mosql_redis_slot(mosql_bytes(tag, strlen(tag)));

	pfree(tag);
	return slot;
}

MosqlBytes
mosql_clock_session_key(const MosqlClockKeys *keys, uint64 sid)
{
	char	   *key = psprintf("%s" UINT64_FORMAT, keys->prefix.data, sid);

	return mosql_bytes(key, strlen(key));
}

MosqlBytes
mosql_clock_number(uint64 n)
{
	char	   *text = psprintf(UINT64_FORMAT, n);

	return mosql_bytes(text, strlen(text));
}

MosqlBytes
mosql_clock_snapshot_field(uint64 sid, uint64 snapid)
{
	char	   *field = psprintf(UINT64_FORMAT "." UINT64_FORMAT, sid, snapid);

	return mosql_bytes(field, strlen(field));
}

/* Any write will do; this one leaves the hash as it was, after the first time. */
MosqlBytes *
mosql_clock_touch(const MosqlClockKeys *keys)
{
	MosqlBytes *argv = palloc(MOSQL_TOUCH_ARGS * sizeof(MosqlBytes));

	argv[0] = LITERAL("HSET");
	argv[1] = keys->counter;
	argv[2] = LITERAL("touched");
	argv[3] = LITERAL("1");
	return argv;
}

/* "A", or "C<ts> <parts>". */
MosqlRecord
mosql_clock_record(const MosqlClockKeys *keys, uint64 sid, MosqlBytes stored)
{
	MosqlRecord record = {MOSQL_RECORD_NONE};
	char	   *end;

	if (stored.data == NULL)
		return record;
	if (stored.len == 1 && stored.data[0] == 'A')
	{
		record.state = MOSQL_RECORD_ABORTED;
		return record;
	}
	if (stored.len > 2 && stored.data[0] == 'C')
	{
		record.ts = strtoull(stored.data + 1, &end, 10);
		if (end > stored.data + 1 && *end == ' ' && end < stored.data + stored.len &&
			record.ts > 0 && record.ts < MOSQL_TS_MAX)
		{
			record.state = MOSQL_RECORD_COMMITTED;
			record.parts = mosql_bytes(end + 1, stored.data + stored.len - (end + 1));
			return record;
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("damaged transaction record in Redis key \"%s" UINT64_FORMAT "\"",
					keys->prefix.data, sid)));
}

static void
refuse_time(const MosqlClockKeys *keys, const char *text)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("damaged clock: impossible time %s in Redis key \"%s\" or \"%s\"",
					text, keys->counter.data, keys->snapshots.data)));
}

/* Rows have 7 bytes for a time: one that does not fit must not get that far. */
MosqlTimestamp
mosql_clock_time(const MosqlClockKeys *keys, uint64 ts)
{
	if (ts == 0 || ts >= MOSQL_TS_MAX)
		refuse_time(keys, psprintf(UINT64_FORMAT, ts));
	return ts;
}

MosqlTimestamp
mosql_clock_snapshot_time(const MosqlClockKeys *keys, const MosqlReply *score)
{
	double		time;

	mosql_step_check(score, MOSQL_REPLY_STRING, keys->snapshots);
	time = strtod(score->str.data, NULL);
	if (!(time >= 1 && time < (double) MOSQL_CLOCK_SCORES) || time != floor(time))
		refuse_time(keys, pnstrdup(score->str.data, Min(score->str.len, 40)));
	return (MosqlTimestamp) time;
}

/*
 * Engine watch reads the oldest before the newest.  It may be gone by then, which only makes the gap
 * larger than it need be; and who is new then is newer than `last`, and matters to nobody.
 */
MosqlSnapshotList
mosql_clock_list(const MosqlClockKeys *keys, const MosqlReply *last, const MosqlReply *newest,
				 int stride, const MosqlReply *oldest)
{
	uint64		ts = mosql_reply_u64(last);
	MosqlTimestamp *snapshots;
	MosqlSnapshotList list = {ts == 0 ? 0 : mosql_clock_time(keys, ts)};	/* a new clock has none */

	mosql_step_check(newest, MOSQL_REPLY_ARRAY, keys->snapshots);
	list.snapshots = snapshots = palloc((newest->n / stride + 1) * sizeof(MosqlTimestamp));
	for (int i = stride - 1; i < newest->n; i += stride)
		snapshots[list.n++] = mosql_clock_snapshot_time(keys, newest->elem[i]);
	if (oldest == NULL || oldest->kind == MOSQL_REPLY_NIL || list.n < MOSQL_CLOCK_NEWEST)
		return list;
	list.gap_from = mosql_clock_snapshot_time(keys, oldest);
	list.gap_to = snapshots[list.n - 1];
	snapshots[list.n++] = list.gap_from;
	return list;
}

void
mosql_clock_refuse_format(const MosqlClockKeys *keys, MosqlBytes found)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("the database in this Redis namespace has format \"%.*s\", this extension knows \"%s\"",
					(int) found.len, found.data, MOSQL_CLOCK_FORMAT),
			 errdetail("The format is stored in Redis key \"%s\", field \"format\".",
					   keys->counter.data),
			 errhint("Use the version of mosql_fdw that the other PostgreSQL servers use.")));
}

/* --- the functions of clock.h --- */

/* Node ids have room for ids of so many bits: a larger one must not get that far. */
static uint64
open_session(MosqlStepper *clock, int lease_ms, bool found, uint64 *schema)
{
	uint64		sid = engine(clock)->open(clock, lease_ms, found, schema);

	if (sid >> MOSQL_SESSION_ID_BITS != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged clock: impossible session id " UINT64_FORMAT " in Redis key \"%s\"",
						sid, mosql_clock_keys(clock->ns).counter.data)));
	return sid;
}

uint64
mosql_clock_open(MosqlStepper *clock, int lease_ms, uint64 *schema)
{
	return open_session(clock, lease_ms, true, schema);
}

uint64
mosql_clock_open_existing(MosqlStepper *clock, int lease_ms, uint64 *schema)
{
	return open_session(clock, lease_ms, false, schema);
}

void
mosql_clock_close(MosqlStepper *clock, uint64 sid)
{
	engine(clock)->close(clock, sid);
}

bool
mosql_clock_snapshot(MosqlStepper *clock, uint64 sid, uint64 snapid, int lease_ms,
					 MosqlTimestamp *S, uint64 *schema)
{
	return mosql_clock_snapshot_along(clock, sid, snapid, lease_ms, S, schema, NULL);
}

/* See clock.h. */
bool
mosql_clock_snapshot_along(MosqlStepper *clock, uint64 sid, uint64 snapid, int lease_ms,
						   MosqlTimestamp *S, uint64 *schema, MosqlNodesAlong *along)
{
	if (along != NULL)
		along->came = false;
	if (!engine(clock)->snapshot(clock, sid, snapid, lease_ms, S, schema, along))
		return false;
	if (*S >= MOSQL_CLOCK_SCORES)
	{
		MosqlClockKeys keys = mosql_clock_keys(clock->ns);

		refuse_time(&keys, psprintf(UINT64_FORMAT, *S));	/* not what is registered */
	}
	return true;
}

static void
ignore_reply(void *arg, const MosqlReply *reply)
{
}

/* Where a session says that an attempt of its is under way: see docs/format.md. */
static MosqlBytes
sign_key(const MosqlClockKeys *keys, uint64 sid)
{
	char	   *key = psprintf("%s" UINT64_FORMAT, keys->signs.data, sid);

	return mosql_bytes(key, strlen(key));
}

static MosqlBytes
sign_of(MosqlTxid tx, uint64 k)
{
	char	   *text = psprintf(UINT64_FORMAT "." UINT64_FORMAT, tx.n, k);

	return mosql_bytes(text, strlen(text));
}

/* One command by nature, whatever the engine. */
void
mosql_clock_release(MosqlStepper *clock, uint64 sid, uint64 snapid)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes	argv[] = {
		LITERAL("ZREM"), keys.snapshots, mosql_clock_snapshot_field(sid, snapid)
	};

	mosql_redis_send(clock->redis, keys.slot, lengthof(argv), argv, ignore_reply, NULL);
}

/* Plain commands, whatever the engine: nothing rests on a sign. */
void
mosql_clock_sign(MosqlStepper *clock, MosqlTxid tx, uint64 k)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes	key = sign_key(&keys, tx.session);
	MosqlBytes	sign[] = {LITERAL("HSET"), key, LITERAL("sign"), sign_of(tx, k)};
	MosqlBytes	end[] = {LITERAL("PEXPIRE"), key, mosql_clock_number(MOSQL_SIGN_LIFE_MS)};

	mosql_redis_send(clock->redis, keys.slot, lengthof(sign), sign, ignore_reply, NULL);
	mosql_redis_send(clock->redis, keys.slot, lengthof(end), end, ignore_reply, NULL);
}

uint64
mosql_clock_last_sign(MosqlStepper *clock, MosqlTxid tx)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes	key = sign_key(&keys, tx.session);
	MosqlBytes	argv[] = {LITERAL("HGET"), key, LITERAL("sign")};
	MosqlBatch *batch = mosql_batch_create(clock->redis, CurrentMemoryContext);
	int			group = mosql_batch_add(batch, keys.slot, MOSQL_SEND_REPEATABLE, lengthof(argv), argv);
	MosqlBytes	found;
	uint64		n;
	uint64		k;

	mosql_batch_run(batch, NULL);
	found = mosql_reply_bytes(mosql_batch_reply(batch, group, 0));
	if (found.data == NULL || sscanf(found.data, UINT64_FORMAT "." UINT64_FORMAT, &n, &k) != 2)
		return 0;
	return n == tx.n ? k : 0;
}

MosqlDecision
mosql_clock_decide(MosqlStepper *clock, const MosqlDecideArgs *args, MosqlTimestamp *ts,
				   MosqlSnapshotList *list, uint64 *schema, MosqlBudget *budget)
{
	MosqlDecideArgs fewer = *args;

	*ts = 0;
	if (args->ndrops > MOSQL_CLOCK_DROPS)
	{
		fewer.ndrops = MOSQL_CLOCK_DROPS;
		mosql_clock_drop(clock, args->tx.session, args->drops + fewer.ndrops,
						 args->ndrops - fewer.ndrops);
	}
	return engine(clock)->decide(clock, &fewer, ts, list, schema, budget);
}

void
mosql_clock_status(MosqlStepper *clock, const MosqlTxid *txs, int n,
				   MosqlRecord *records, MosqlSnapshotList *list)
{
	Assert(n > 0);
	engine(clock)->status(clock, txs, n, records, list);
}

void
mosql_clock_abort(MosqlStepper *clock, MosqlTxid tx, MosqlRecord *record, MosqlSnapshotList *list)
{
	engine(clock)->abort(clock, tx, record, list);
}

void
mosql_clock_settle(MosqlStepper *clock, MosqlTxid tx, MosqlRecord *record,
				   MosqlSnapshotList *list, MosqlBudget *budget)
{
	engine(clock)->settle(clock, tx, record, list, budget);
}

void
mosql_clock_drop(MosqlStepper *clock, uint64 sid, const uint64 *ns, int n)
{
	if (n > 0)
		engine(clock)->drop(clock, sid, ns, n);
}

void
mosql_clock_snapshots(MosqlStepper *clock, MosqlSnapshotList *list, uint64 *schema)
{
	engine(clock)->snapshots(clock, list, schema);
}

void
mosql_clock_sessions(MosqlStepper *clock, MosqlSessions *sessions)
{
	engine(clock)->sessions(clock, sessions);
	qsort(sessions->live, sessions->n, sizeof(uint64), mosql_uint64_compare);
}

bool
mosql_clock_is_dead(const MosqlSessions *sessions, uint64 sid)
{
	return sid <= sessions->newest &&
		(sessions->n == 0 ||
		 bsearch(&sid, sessions->live, sessions->n, sizeof(uint64),
				 mosql_uint64_compare) == NULL);
}

int
mosql_clock_expire(MosqlStepper *clock, int max)
{
	Assert(max > 0);
	return engine(clock)->expire(clock, max);
}

bool
mosql_clock_reap(MosqlStepper *clock, uint64 sid, const uint64 *ns, int n)
{
	return engine(clock)->reap(clock, sid, ns, n);
}

static void
add_orphan(MosqlOrphan **orphans, int *n, int *size, MosqlTxid tx, MosqlRecord record)
{
	if (*n == *size)
	{
		*size = Max(16, 2 * *size);
		*orphans = *orphans == NULL ? palloc(*size * sizeof(MosqlOrphan)) :
			repalloc(*orphans, *size * sizeof(MosqlOrphan));
	}
	(*orphans)[(*n)++] = (MosqlOrphan) {tx, record};
}

/* Parts of a record outlive the call: they point into the replies. */
int
mosql_clock_orphans(MosqlStepper *clock, int max_sessions, MosqlOrphan **orphans)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBatch *batch = mosql_batch_create(clock->redis, CurrentMemoryContext);
	char		count[16];
	MosqlBytes	argv[] = {LITERAL("SRANDMEMBER"), keys.dead, {count, 0}};
	const MosqlRecord none = {MOSQL_RECORD_NONE};
	const MosqlReply *sids;
	int			n = 0,
				size = 0;

	argv[2].len = snprintf(count, sizeof(count), "%d", max_sessions);
	mosql_batch_add(batch, keys.slot, MOSQL_SEND_REPEATABLE, lengthof(argv), argv);
	mosql_batch_run(batch, NULL);
	sids = mosql_batch_reply(batch, 0, 0);
	mosql_step_check(sids, MOSQL_REPLY_ARRAY, keys.dead);
	*orphans = NULL;
	if (sids->n == 0)
		return 0;

	batch = mosql_batch_create(clock->redis, CurrentMemoryContext);
	for (int i = 0; i < sids->n; i++)
	{
		MosqlBytes *command = palloc(2 * sizeof(MosqlBytes));

		command[0] = LITERAL("HGETALL");
		command[1] = mosql_clock_session_key(&keys, mosql_reply_u64(sids->elem[i]));
		mosql_batch_add(batch, keys.slot, MOSQL_SEND_REPEATABLE, 2, command);
	}
	mosql_batch_run(batch, NULL);
	for (int i = 0; i < sids->n; i++)
	{
		const MosqlReply *fields = mosql_batch_reply(batch, i, 0);
		uint64		sid = mosql_reply_u64(sids->elem[i]);
		int			before = n;

		mosql_step_check(fields, MOSQL_REPLY_ARRAY, mosql_clock_session_key(&keys, sid));
		for (int j = 0; j + 1 < fields->n; j += 2)
		{
			MosqlBytes	value = mosql_reply_bytes(fields->elem[j + 1]);

			if (value.len == 0 || value.data[0] != 'C')
				continue;
			add_orphan(orphans, &n, &size, (MosqlTxid) {sid, mosql_reply_u64(fields->elem[j])},
					   mosql_clock_record(&keys, sid, value));
		}
		if (n == before)
			add_orphan(orphans, &n, &size, (MosqlTxid) {sid, 0}, none);
	}
	return n;
}
