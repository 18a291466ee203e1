/*
 * clock_watch.c: the clock by optimistic transactions of Redis.
 *
 * Layer: step.  A function that decides by what it reads takes two round trips:
 * a read group (UNWATCH, WATCH, TIME, reads) and, pinned to its connection, a
 * write group (MULTI ... EXEC); nil from EXEC starts it over.  See watch.c for
 * what is behind UNWATCH and the pin.  A function that needs no decision is one
 * MULTI ... EXEC without WATCH, one round trip.
 *
 * What is watched: whatever can change the decision.  A session's hash holds
 * its lease and its records, so nobody can declare it dead, or write a record,
 * unnoticed; ...:c holds the last timestamp, so decisions and snapshots follow
 * each other.  The server's time is read with them: as long as the watched
 * keys are unchanged, the step counts as made at that moment.  The snapshot
 * hash is not watched: registering a snapshot changes ...:c too, and one that
 * is released meanwhile only makes the list longer than needed.
 */
#include "step/clock_watch_int.h"

/* In the read group: who answers?  Nobody has a name without cluster mode. */
static void
add_who(Watch *watch)
{
	if (mosql_redis_is_cluster(watch->clock->redis))
		mosql_commands_put(&watch->commands, LITERAL("CLUSTER"), LITERAL("MYID"));
	else
		mosql_commands_put(&watch->commands, LITERAL("ECHO"), LITERAL("-"));
}

/*
 * See LUA_TAKE_OVER.  node: who issued last.  Returns the last timestamp to go on
 * from; *leapt says whether that is to be stored, with the new name.
 */
static uint64
take_over(Watch *watch, const MosqlReply *last, const MosqlReply *node, const MosqlReply *me,
		  bool *leapt)
{
	uint64		ts = mosql_reply_u64(last);

	mosql_step_check(me, MOSQL_REPLY_STRING, watch->keys.counter);
	*leapt = !mosql_bytes_equal(mosql_reply_bytes(node), me->str);
	if (*leapt && node->kind != MOSQL_REPLY_NIL)
		ts = Max(ts, watch->now) + MOSQL_CLOCK_LEAP;
	return ts;
}

static void
add_name(Watch *watch, const MosqlReply *me)
{
	mosql_commands_put(&watch->commands, LITERAL("HSET"), watch->keys.counter,
					   LITERAL("node"), me->str);
}

/* The last two commands of a group that returns the snapshot list. */
static void
add_list(Watch *watch)
{
	mosql_commands_put(&watch->commands, LITERAL("HGET"), watch->keys.counter, LITERAL("last"));
	mosql_commands_put(&watch->commands, LITERAL("HVALS"), watch->keys.snapshots);
}

static MosqlSnapshotList
exec_list(const Watch *watch)
{
	const MosqlReply *exec = watch->exec;

	return mosql_clock_list(&watch->keys, mosql_step_elem(exec, exec->n - 1),
							mosql_step_elem(exec, exec->n - 2));
}

static void
ignore_reply(void *arg, const MosqlReply *reply)
{
}

static void
send_detached(MosqlStepper *clock, const MosqlClockKeys *keys, int argc, const MosqlBytes *argv)
{
	mosql_redis_send(clock->redis, keys->slot, argc, argv, ignore_reply, NULL);
}

static bool
is_committed(MosqlBytes record)
{
	return record.len > 0 && record.data[0] == 'C';
}

/* --- sessions --- */

/*
 * Forget a session if it is dead; what somebody else changes meanwhile is left
 * to the next open.
 */
static void
sweep(Watch *watch, uint64 sid)
{
	MosqlBytes	session = mosql_clock_session_key(&watch->keys, sid);
	MosqlBytes	name = mosql_clock_number(sid);
	char	   *prefix = psprintf(UINT64_FORMAT ".", sid);
	MosqlBytes	lease = MOSQL_ABSENT;
	bool		keep = false;
	const MosqlReply *fields;
	const MosqlReply *names;
	MosqlBytes *argv;
	int			n = 2;

	read_begin(watch, session, MOSQL_ABSENT);
	mosql_commands_put(&watch->commands, LITERAL("HGETALL"), session);
	mosql_commands_put(&watch->commands, LITERAL("HKEYS"), watch->keys.snapshots);
	read_run(watch);
	fields = read_reply(watch, 0);
	names = read_reply(watch, 1);

	argv = palloc((2 + fields->n + names->n) * sizeof(MosqlBytes));
	argv[0] = LITERAL("HDEL");
	argv[1] = session;
	for (int i = 0; i + 1 < fields->n; i += 2)
	{
		MosqlBytes	field = mosql_step_elem(fields, i)->str;

		if (is_committed(mosql_step_elem(fields, i + 1)->str))
			keep = true;
		else
			argv[n++] = field;
		if (mosql_bytes_equal(field, LITERAL("lease")))
			lease = mosql_step_elem(fields, i + 1)->str;
	}

	write_begin(watch);
	if (!is_dead(watch, lease))
		mosql_commands_put(&watch->commands, LITERAL("ZADD"), watch->keys.ends, lease, name);
	else
	{
		mosql_commands_put(&watch->commands, LITERAL("ZREM"), watch->keys.ends, name);
		if (n > 2)
			mosql_commands_copy(&watch->commands, n, argv);
		n = 2;
		argv[1] = watch->keys.snapshots;
		for (int i = 0; i < names->n; i++)
			if (strncmp(names->elem[i]->str.data, prefix, strlen(prefix)) == 0)
				argv[n++] = names->elem[i]->str;
		if (n > 2)
			mosql_commands_copy(&watch->commands, n, argv);
		if (keep)
			mosql_commands_put(&watch->commands, LITERAL("SADD"), watch->keys.dead, name);
	}
	(void) write_run(watch);
}

/*
 * Draw an id, 0 if there is no database and none is to be founded; *oldest gets
 * the index entries that end first.
 */
static uint64
open_session(Watch *watch, int lease_ms, bool found, uint64 *schema, const MosqlReply **oldest)
{
	for (;;)
	{
		const MosqlReply *c;
		MosqlBytes	sid;
		MosqlBytes	ends;

		read_begin(watch, watch->keys.counter, MOSQL_ABSENT);
		mosql_commands_put(&watch->commands, LITERAL("HMGET"), watch->keys.counter,
						   LITERAL("format"), LITERAL("schema"), LITERAL("sid"));
		mosql_commands_put(&watch->commands, LITERAL("ZRANGE"), watch->keys.ends, LITERAL("0"),
						   mosql_clock_number(MOSQL_CLOCK_SWEEP - 1), LITERAL("WITHSCORES"));
		read_run(watch);
		c = read_reply(watch, 0);
		*oldest = read_reply(watch, 1);
		if (mosql_step_elem(c, 0)->kind != MOSQL_REPLY_NIL &&
			!mosql_bytes_equal(mosql_step_elem(c, 0)->str, LITERAL(MOSQL_CLOCK_FORMAT)))
			mosql_clock_refuse_format(&watch->keys, mosql_step_elem(c, 0)->str);
		if (mosql_step_elem(c, 0)->kind == MOSQL_REPLY_NIL && !found)
			return 0;
		*schema = mosql_reply_u64(mosql_step_elem(c, 1));
		sid = mosql_clock_number(mosql_reply_u64(mosql_step_elem(c, 2)) + 1);
		ends = mosql_clock_number(watch->now + (uint64) lease_ms * 1000);

		write_begin(watch);
		mosql_commands_put(&watch->commands, LITERAL("HSET"), watch->keys.counter,
						   LITERAL("format"), LITERAL(MOSQL_CLOCK_FORMAT), LITERAL("sid"), sid);
		mosql_commands_put(&watch->commands, LITERAL("HSET"),
						   mosql_clock_session_key(&watch->keys, mosql_reply_u64(mosql_step_elem(c, 2)) + 1),
						   LITERAL("lease"), ends);
		mosql_commands_put(&watch->commands, LITERAL("ZADD"), watch->keys.ends, ends, sid);
		if (write_run(watch) == MOSQL_EXEC_DONE)
			return mosql_reply_u64(mosql_step_elem(c, 2)) + 1;
		start_over(watch);
	}
}

static uint64
watch_open(MosqlStepper *clock, int lease_ms, bool found, uint64 *schema)
{
	Watch		watch = watch_start(clock, NULL);
	const MosqlReply *oldest;
	uint64		sid = open_session(&watch, lease_ms, found, schema, &oldest);
	uint64		now = watch.now;

	for (int i = 0; sid != 0 && i + 1 < oldest->n; i += 2)
		if (strtod(mosql_step_elem(oldest, i + 1)->str.data, NULL) < (double) now)
			sweep(&watch, mosql_reply_u64(mosql_step_elem(oldest, i)));
	return sid;
}

static int
watch_expire(MosqlStepper *clock, int max)
{
	Watch		watch = watch_start(clock, NULL);
	const MosqlReply *oldest;
	int			n = 0;

	read_begin(&watch, watch.keys.ends, MOSQL_ABSENT);
	mosql_commands_put(&watch.commands, LITERAL("ZRANGE"), watch.keys.ends, LITERAL("0"),
					   mosql_clock_number(max - 1), LITERAL("WITHSCORES"));
	read_run(&watch);
	oldest = read_reply(&watch, 0);
	while (2 * n + 1 < oldest->n &&
		   strtod(mosql_step_elem(oldest, 2 * n + 1)->str.data, NULL) < (double) watch.now)
		n++;
	for (int i = 0; i < n; i++)
		sweep(&watch, mosql_reply_u64(mosql_step_elem(oldest, 2 * i)));
	return n;
}

/*
 * Nobody waits, so nothing can be read: end the lease and put the session in
 * front of the index, where the next open finds and forgets it.  Either of the
 * two alone does no harm.
 */
static void
watch_close(MosqlStepper *clock, uint64 sid)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes	end[] = {LITERAL("HDEL"), mosql_clock_session_key(&keys, sid), LITERAL("lease")};
	MosqlBytes	expose[] = {
		LITERAL("ZADD"), keys.ends, LITERAL("XX"), LITERAL("0"), mosql_clock_number(sid)
	};

	send_detached(clock, &keys, lengthof(end), end);
	send_detached(clock, &keys, lengthof(expose), expose);
}

static bool
watch_snapshot(MosqlStepper *clock, uint64 sid, uint64 snapid, int lease_ms,
			   MosqlTimestamp *S, uint64 *schema)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, sid);
	MosqlBytes	field = mosql_clock_snapshot_field(sid, snapid);

	for (;;)
	{
		MosqlBytes	lease;
		MosqlBytes	text;
		const MosqlReply *c;
		const MosqlReply *me;
		uint64		last;
		bool		leapt;

		read_begin(&watch, watch.keys.counter, session);
		mosql_commands_put(&watch.commands, LITERAL("HGET"), session, LITERAL("lease"));
		mosql_commands_put(&watch.commands, LITERAL("HMGET"), watch.keys.counter,
						   LITERAL("last"), LITERAL("schema"), LITERAL("node"));
		mosql_commands_put(&watch.commands, LITERAL("HGET"), watch.keys.snapshots, field);
		add_who(&watch);
		read_run(&watch);
		lease = mosql_reply_bytes(read_reply(&watch, 0));
		c = read_reply(&watch, 1);
		me = read_reply(&watch, 3);
		last = take_over(&watch, mosql_step_elem(c, 0), mosql_step_elem(c, 2), me, &leapt);
		*schema = mosql_reply_u64(mosql_step_elem(c, 1));
		if (is_dead(&watch, lease))
			return false;
		*S = mosql_reply_u64(read_reply(&watch, 2));
		if (*S != 0)
			*S = mosql_clock_time(&watch.keys, *S);
		if (*S != 0 && (watch.outcome != MOSQL_EXEC_LOST || !clock->durable))
			return true;		/* registered by a call whose reply was lost */
		if (*S != 0)
		{
			write_begin(&watch);
			add_touch(&watch);
			if (write_run(&watch) == MOSQL_EXEC_DONE)
				return true;
			start_over(&watch);
			continue;
		}

		*S = mosql_clock_time(&watch.keys, Max(watch.now, last));
		text = mosql_clock_number(*S);
		write_begin(&watch);
		mosql_commands_put(&watch.commands, LITERAL("HSET"), watch.keys.counter, LITERAL("last"), text);
		mosql_commands_put(&watch.commands, LITERAL("HSET"), watch.keys.snapshots, field, text);
		add_extend(&watch, sid, lease, lease_ms);
		if (leapt)
			add_name(&watch, me);
		/* before a timestamp of a new server is used, its leap must be safe */
		if (write_run_as(&watch, leapt) == MOSQL_EXEC_DONE)
			return true;
		start_over(&watch);
	}
}

/* --- transactions --- */

static void
watch_snapshots(MosqlStepper *clock, MosqlSnapshotList *list, uint64 *schema)
{
	Watch		watch = watch_start(clock, NULL);

	write_begin(&watch);
	mosql_commands_put(&watch.commands, LITERAL("HGET"), watch.keys.counter, LITERAL("schema"));
	add_list(&watch);
	run_atomic(&watch, false);
	*schema = mosql_reply_u64(mosql_step_elem(watch.exec, 0));
	*list = exec_list(&watch);
}

/*
 * One command cannot look before it deletes, and need not: the owner drops
 * what it knows to be committed, and if somebody has written "aborted" there
 * since, then because the record was already dropped, so that it says nothing.
 */
static void
watch_drop(MosqlStepper *clock, uint64 sid, const uint64 *ns, int n)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = palloc((2 + n) * sizeof(MosqlBytes));

	argv[0] = LITERAL("HDEL");
	argv[1] = mosql_clock_session_key(&keys, sid);
	for (int i = 0; i < n; i++)
		argv[2 + i] = mosql_clock_number(ns[i]);
	send_detached(clock, &keys, 2 + n, argv);
}

/* The read group of decide. */
static void
decide_read(Watch *watch, const MosqlDecideArgs *args, MosqlBytes session, MosqlBytes n)
{
	MosqlBytes *argv;

	read_begin(watch, watch->keys.counter, session);
	argv = mosql_commands_add(&watch->commands, 4 + args->ndrops);
	argv[0] = LITERAL("HMGET");
	argv[1] = session;
	argv[2] = LITERAL("lease");
	argv[3] = n;
	for (int i = 0; i < args->ndrops; i++)
		argv[4 + i] = mosql_clock_number(args->drops[i]);
	mosql_commands_put(&watch->commands, LITERAL("HMGET"), watch->keys.counter,
					   LITERAL("last"), LITERAL("schema"), LITERAL("node"));
	add_who(watch);
	read_run(watch);
}

/* Its write group. */
static void
decide_write(Watch *watch, const MosqlDecideArgs *args, MosqlBytes session, MosqlBytes n,
			 const MosqlReply *s, MosqlTimestamp ts, uint64 schema, const MosqlReply *me)
{
	MosqlBytes	text = mosql_clock_number(ts);
	StringInfoData record;

	initStringInfo(&record);
	appendStringInfo(&record, "C" UINT64_FORMAT " ", ts);
	appendBinaryStringInfo(&record, args->parts.data != NULL ? args->parts.data : "",
						   (int) args->parts.len);

	write_begin(watch);
	if (args->schema_change)
		mosql_commands_put(&watch->commands, LITERAL("HSET"), watch->keys.counter,
						   LITERAL("last"), text, LITERAL("decided"), text,
						   LITERAL("schema"), mosql_clock_number(schema));
	else
		mosql_commands_put(&watch->commands, LITERAL("HSET"), watch->keys.counter,
						   LITERAL("last"), text, LITERAL("decided"), text);
	mosql_commands_put(&watch->commands, LITERAL("HSET"), session, n, mosql_bytes_of(&record));
	if (me != NULL)
		add_name(watch, me);
	for (int i = 0; i < args->ndrops; i++)
		if (is_committed(mosql_reply_bytes(mosql_step_elem(s, 2 + i))))
			mosql_commands_put(&watch->commands, LITERAL("HDEL"), session,
							   mosql_clock_number(args->drops[i]));
	add_extend(watch, args->tx.session, mosql_reply_bytes(mosql_step_elem(s, 0)), args->lease_ms);
	add_list(watch);
}

static MosqlDecision
watch_decide(MosqlStepper *clock, const MosqlDecideArgs *args, MosqlTimestamp *ts,
			 MosqlSnapshotList *list, uint64 *schema, MosqlBudget *budget)
{
	Watch		watch = watch_start(clock, budget);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, args->tx.session);
	MosqlBytes	n = mosql_clock_number(args->tx.n);

	watch.once = true;
	for (;;)
	{
		const MosqlReply *s;
		const MosqlReply *c;
		const MosqlReply *me;
		MosqlRecord record;
		MosqlDecision refusal = MOSQL_DECIDED;
		uint64		last;
		bool		leapt;

		*ts = 0;				/* nothing is written yet */
		decide_read(&watch, args, session, n);
		s = read_reply(&watch, 0);
		c = read_reply(&watch, 1);
		me = read_reply(&watch, 2);
		last = take_over(&watch, mosql_step_elem(c, 0), mosql_step_elem(c, 2), me, &leapt);
		*schema = mosql_reply_u64(mosql_step_elem(c, 1));
		record = mosql_clock_record(&watch.keys, args->tx.session, mosql_reply_bytes(mosql_step_elem(s, 1)));
		if (record.state == MOSQL_RECORD_ABORTED)
			refusal = MOSQL_REFUSED_ABORTED;
		else if (record.state == MOSQL_RECORD_NONE && is_dead(&watch, mosql_reply_bytes(mosql_step_elem(s, 0))))
			refusal = MOSQL_REFUSED_LEASE;
		else if (record.state == MOSQL_RECORD_NONE && *schema != args->schema)
			refusal = MOSQL_REFUSED_SCHEMA;

		/* nothing to decide: only drop what was to be dropped */
		if (refusal != MOSQL_DECIDED || record.state == MOSQL_RECORD_COMMITTED)
			mosql_clock_drop(clock, args->tx.session, args->drops, args->ndrops);
		if (refusal != MOSQL_DECIDED)
			return refusal;
		if (record.state == MOSQL_RECORD_COMMITTED)
		{
			*ts = record.ts;
			watch_snapshots(clock, list, schema);
			return MOSQL_DECIDED;
		}

		*ts = mosql_clock_time(&watch.keys, Max(watch.now, last + 1));
		*schema += args->schema_change;
		decide_write(&watch, args, session, n, s, *ts, *schema, leapt ? me : NULL);
		(void) write_run(&watch);
		if (watch.outcome == MOSQL_EXEC_LOST)
			return MOSQL_DECISION_LOST;
		if (watch.outcome == MOSQL_EXEC_DONE)
		{
			*list = exec_list(&watch);
			return MOSQL_DECIDED;
		}
		start_over(&watch);
	}
}

static void
watch_status(MosqlStepper *clock, const MosqlTxid *txs, int n,
			 MosqlRecord *records, MosqlSnapshotList *list)
{
	Watch		watch = watch_start(clock, NULL);

	write_begin(&watch);
	for (int i = 0; i < n; i++)
		mosql_commands_put(&watch.commands, LITERAL("HGET"),
						   mosql_clock_session_key(&watch.keys, txs[i].session),
						   mosql_clock_number(txs[i].n));
	add_touch(&watch);
	add_list(&watch);
	run_atomic(&watch, true);
	for (int i = 0; i < n; i++)
		records[i] = mosql_clock_record(&watch.keys, txs[i].session,
										mosql_reply_bytes(mosql_step_elem(watch.exec, i)));
	*list = exec_list(&watch);
}

/*
 * HSETNX decides by itself.  The index entry is missing only if the session is
 * already forgotten; with it somebody will forget this record too.
 */
static void
watch_abort(MosqlStepper *clock, MosqlTxid tx, MosqlRecord *record, MosqlSnapshotList *list)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, tx.session);
	MosqlBytes	n = mosql_clock_number(tx.n);

	write_begin(&watch);
	mosql_commands_put(&watch.commands, LITERAL("HSETNX"), session, n, LITERAL("A"));
	mosql_commands_put(&watch.commands, LITERAL("ZADD"), watch.keys.ends, LITERAL("NX"),
					   LITERAL("0"), mosql_clock_number(tx.session));
	mosql_commands_put(&watch.commands, LITERAL("HGET"), session, n);
	add_touch(&watch);
	add_list(&watch);
	run_atomic(&watch, true);
	*record = mosql_clock_record(&watch.keys, tx.session, mosql_reply_bytes(mosql_step_elem(watch.exec, 2)));
	*list = exec_list(&watch);
}

static void
watch_settle(MosqlStepper *clock, MosqlTxid tx, MosqlRecord *record,
			 MosqlSnapshotList *list, MosqlBudget *budget)
{
	Watch		watch = watch_start(clock, budget);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, tx.session);
	MosqlBytes	n = mosql_clock_number(tx.n);

	for (;;)
	{
		const MosqlReply *s;
		bool		dead;

		read_begin(&watch, session, MOSQL_ABSENT);
		mosql_commands_put(&watch.commands, LITERAL("HMGET"), session, LITERAL("lease"), n);
		read_run(&watch);
		s = read_reply(&watch, 0);
		dead = is_dead(&watch, mosql_reply_bytes(mosql_step_elem(s, 0)));
		*record = mosql_clock_record(&watch.keys, tx.session, mosql_reply_bytes(mosql_step_elem(s, 1)));

		write_begin(&watch);
		if (record->state != MOSQL_RECORD_COMMITTED && dead)
			record->state = MOSQL_RECORD_UNKNOWN;
		else if (record->state == MOSQL_RECORD_NONE)
		{
			mosql_commands_put(&watch.commands, LITERAL("HSET"), session, n, LITERAL("A"));
			record->state = MOSQL_RECORD_ABORTED;
		}
		add_touch(&watch);
		add_list(&watch);
		if (write_run(&watch) == MOSQL_EXEC_DONE)
		{
			*list = exec_list(&watch);
			return;
		}
		start_over(&watch);
	}
}

static bool
watch_reap(MosqlStepper *clock, uint64 sid, const uint64 *ns, int n)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, sid);

	for (;;)
	{
		const MosqlReply *fields;
		MosqlBytes	lease = MOSQL_ABSENT;
		int			left = 0;

		read_begin(&watch, session, MOSQL_ABSENT);
		mosql_commands_put(&watch.commands, LITERAL("HGETALL"), session);
		read_run(&watch);
		fields = read_reply(&watch, 0);

		write_begin(&watch);
		for (int i = 0; i + 1 < fields->n; i += 2)
		{
			MosqlBytes	field = mosql_step_elem(fields, i)->str;
			bool		drop = false;

			if (mosql_bytes_equal(field, LITERAL("lease")))
				lease = mosql_step_elem(fields, i + 1)->str;
			if (!is_committed(mosql_step_elem(fields, i + 1)->str))
				continue;
			for (int j = 0; j < n && !drop; j++)
				drop = mosql_reply_u64(mosql_step_elem(fields, i)) == ns[j];
			if (drop)
			{
				mosql_commands_put(&watch.commands, LITERAL("ZADD"), watch.keys.outcomes,
								   mosql_clock_number(watch.now),
								   mosql_clock_snapshot_field(sid, mosql_reply_u64(mosql_step_elem(fields, i))));
				mosql_commands_put(&watch.commands, LITERAL("HDEL"), session, field);
			}
			else
				left++;
		}
		if (!is_dead(&watch, lease))
			return false;
		if (n > 0 && lease.data != NULL)	/* rule 16 */
			mosql_commands_put(&watch.commands, LITERAL("HDEL"), session, LITERAL("lease"));
		if (left == 0)
			mosql_commands_put(&watch.commands, LITERAL("SREM"), watch.keys.dead,
							   mosql_clock_number(sid));
		if (write_run(&watch) == MOSQL_EXEC_DONE)
			return true;
		start_over(&watch);
	}
}

static void
watch_sessions(MosqlStepper *clock, MosqlSessions *sessions)
{
	Watch		watch = watch_start(clock, NULL);
	const MosqlReply *live;

	write_begin(&watch);
	mosql_commands_put(&watch.commands, LITERAL("HGET"), watch.keys.counter, LITERAL("sid"));
	mosql_commands_put(&watch.commands, LITERAL("ZRANGE"), watch.keys.ends, LITERAL("0"), LITERAL("-1"));
	add_touch(&watch);
	run_atomic(&watch, true);
	live = mosql_step_elem(watch.exec, 1);

	sessions->newest = mosql_reply_u64(mosql_step_elem(watch.exec, 0));
	sessions->n = live->n;
	sessions->live = palloc(Max(live->n, 1) * sizeof(uint64));
	for (int i = 0; i < live->n; i++)
		sessions->live[i] = mosql_reply_u64(mosql_step_elem(live, i));
}

const MosqlClockEngine mosql_clock_watch = {
	.open = watch_open,
	.close = watch_close,
	.snapshot = watch_snapshot,
	.decide = watch_decide,
	.status = watch_status,
	.abort = watch_abort,
	.settle = watch_settle,
	.drop = watch_drop,
	.snapshots = watch_snapshots,
	.reap = watch_reap,
	.sessions = watch_sessions,
	.expire = watch_expire,
};
