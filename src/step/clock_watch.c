/*
 * clock_watch.c: the clock by optimistic transactions of Redis.
 *
 * Layer: step.  A function that decides by what it reads takes two round trips:
 * a read group (UNWATCH, WATCH, TIME, reads) and, pinned to its connection, a
 * write group (MULTI ... EXEC); nil from EXEC starts it over.  See watch.c for
 * what is behind UNWATCH and the pin.  A function that needs no decision is one
 * MULTI ... EXEC without WATCH, one round trip, or, where each command may be of a later
 * moment than the one before, merely reads.
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

static void
add_issued(Watch *watch)
{
	mosql_commands_put(&watch->commands, LITERAL("HMGET"), watch->keys.counter,
					   LITERAL("last"), LITERAL("schema"), LITERAL("node"), LITERAL("leapt"),
					   LITERAL("took"));
	mosql_commands_put(&watch->commands, LITERAL("INFO"), LITERAL("replication"));
}

/* The master_replid in what INFO says; "-" where it has none. */
static MosqlBytes
term_of(MosqlBytes info)
{
	static const char name[] = "master_replid:";
	const char *at = strstr(pnstrdup(info.data, info.len), name);

	if (at == NULL)
		return LITERAL("-");
	at += strlen(name);
	return mosql_bytes(at, strcspn(at, "\r\n"));
}

/* The replies to add_issued(). */
static Issued
read_issued(const Watch *watch, const MosqlReply *c, const MosqlReply *info)
{
	Issued		issued;
	MosqlBytes	node = mosql_reply_bytes(mosql_step_elem(c, 2));

	mosql_step_check(info, MOSQL_REPLY_STRING, watch->keys.counter);
	issued.last = mosql_reply_u64(mosql_step_elem(c, 0));
	issued.schema = mosql_reply_u64(mosql_step_elem(c, 1));
	issued.leapt = mosql_reply_u64(mosql_step_elem(c, 3));
	issued.took = mosql_reply_u64(mosql_step_elem(c, 4));
	issued.me = term_of(info->str);
	issued.foreign = mosql_step_elem(c, 0)->kind != MOSQL_REPLY_NIL &&
		!mosql_bytes_equal(node, issued.me);
	return issued;
}

/*
 * See LUA_TAKE_OVER.  A step of its own, which is durable, since nothing that a new
 * process issues may be used before its leap is safe.  True if it was tried: then what
 * was read is old.
 */
static bool
take_over(Watch *watch, const Issued *issued)
{
	uint64		last = mosql_clock_leap(watch->now, issued->last, issued->leapt, issued->took);
	uint64		schema = issued->schema == 0 ? 0 : Max(issued->schema + 1, last);

	if (!issued->foreign)
		return false;
	write_begin(watch);
	mosql_commands_put(&watch->commands, LITERAL("HSET"), watch->keys.counter,
					   LITERAL("node"), issued->me, LITERAL("last"), mosql_clock_number(last),
					   LITERAL("schema"), mosql_clock_number(schema),
					   LITERAL("leapt"), mosql_clock_number(last),
					   LITERAL("took"), mosql_clock_number(watch->now));
	if (write_run(watch) != MOSQL_EXEC_DONE)
		start_over(watch);
	return true;
}

/*
 * The last commands of a group that returns the snapshot list, in this order: a
 * snapshot that is registered between them is newer than `last`; one that
 * is released between them needs nothing any more.
 */
#define LIST_COMMANDS 3

void
mosql_watch_add_snapshots(Watch *watch, bool all)
{
	MosqlBytes	most = all ? LITERAL("-1") : mosql_clock_number(MOSQL_CLOCK_NEWEST - 1);

	mosql_commands_put(&watch->commands, LITERAL("ZRANGE"), watch->keys.snapshots, LITERAL("0"),
					   LITERAL("0"), LITERAL("WITHSCORES"));
	mosql_commands_put(&watch->commands, LITERAL("ZREVRANGE"), watch->keys.snapshots, LITERAL("0"),
					   most, LITERAL("WITHSCORES"));
}

static void
add_list(Watch *watch, bool all)
{
	mosql_commands_put(&watch->commands, LITERAL("HGET"), watch->keys.counter, LITERAL("last"));
	mosql_watch_add_snapshots(watch, all);
}

MosqlSnapshotList
mosql_watch_read_list(const Watch *watch, const MosqlReply *last, const MosqlReply *oldest,
					  const MosqlReply *newest, bool all)
{
	mosql_step_check(oldest, MOSQL_REPLY_ARRAY, watch->keys.snapshots);
	return mosql_clock_list(&watch->keys, last, newest, 2,
							all || oldest->n < 2 ? NULL : oldest->elem[1]);
}

static MosqlSnapshotList
exec_list(const Watch *watch, bool all)
{
	const MosqlReply *exec = watch->exec;
	int			i = exec->n - LIST_COMMANDS;

	return mosql_watch_read_list(watch, mosql_step_elem(exec, i), mosql_step_elem(exec, i + 1),
								 mosql_step_elem(exec, i + 2), all);
}

/* Of reads alone: the first of them is the i-th. */
static MosqlSnapshotList
plain_list(const Watch *watch, int i, bool all)
{
	return mosql_watch_read_list(watch, plain_reply(watch, i), plain_reply(watch, i + 1),
								 plain_reply(watch, i + 2), all);
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

/* What a session's hash says of its life, and the fields that go when it is forgotten. */
typedef struct Life
{
	MosqlBytes	lease;
	uint64		span;			/* how long it is at most */
	bool		committed;		/* there are records that stay */
	bool		empty;			/* there is nothing at all */
	int			n;
	MosqlBytes *fields;
} Life;

static Life
read_life(const MosqlReply *fields)
{
	Life		life = {.lease = MOSQL_ABSENT,.span = MOSQL_CLOCK_LEASE,.empty = fields->n == 0};

	life.fields = palloc(Max(fields->n, 1) * sizeof(MosqlBytes));
	for (int i = 0; i + 1 < fields->n; i += 2)
	{
		MosqlBytes	field = mosql_step_elem(fields, i)->str;
		const MosqlReply *value = mosql_step_elem(fields, i + 1);

		if (is_committed(value->str))
			life.committed = true;
		else
			life.fields[life.n++] = field;
		if (mosql_bytes_equal(field, LITERAL("lease")))
			life.lease = value->str;
		else if (mosql_bytes_equal(field, LITERAL("span")))
			life.span = mosql_reply_u64(value);
	}
	return life;
}

/* In the write group: one HDEL or ZREM of some fields or members. */
static void
add_removal(Watch *watch, MosqlBytes command, MosqlBytes key, int n, const MosqlBytes *fields)
{
	MosqlBytes *argv;

	if (n == 0)
		return;
	argv = mosql_commands_add(&watch->commands, 2 + n);
	argv[0] = command;
	argv[1] = key;
	memcpy(argv + 2, fields, n * sizeof(MosqlBytes));
}

/*
 * In the write group: everything of a dead session but its commits, with which it is among
 * the dead; so it is if there is nothing of it, which a slot may bring that is on its way.
 */
static void
add_forget(Watch *watch, uint64 sid, const Life *life, const MosqlReply *snapshots)
{
	MosqlBytes	name = mosql_clock_number(sid);
	char	   *prefix = psprintf(UINT64_FORMAT ".", sid);
	MosqlBytes *mine = palloc(Max(snapshots->n, 1) * sizeof(MosqlBytes));
	int			n = 0;

	for (int i = 0; i < snapshots->n; i++)
		if (strncmp(mosql_step_text(snapshots, i).data, prefix, strlen(prefix)) == 0)
			mine[n++] = snapshots->elem[i]->str;
	mosql_commands_put(&watch->commands, LITERAL("ZREM"), watch->keys.ends, name);
	add_removal(watch, LITERAL("HDEL"), mosql_clock_session_key(&watch->keys, sid), life->n, life->fields);
	add_removal(watch, LITERAL("ZREM"), watch->keys.snapshots, n, mine);
	if (life->committed || life->empty)
		mosql_commands_put(&watch->commands, LITERAL("SADD"), watch->keys.dead, name);
}

/*
 * Forget a session if it is dead, and cut a lease that is too long (see LUA_SWEEP); what
 * somebody else changes meanwhile is left to the next open.
 */
static void
sweep(Watch *watch, uint64 sid)
{
	MosqlBytes	session = mosql_clock_session_key(&watch->keys, sid);
	Life		life;

	read_begin(watch, session, MOSQL_ABSENT);
	mosql_commands_put(&watch->commands, LITERAL("HGETALL"), session);
	mosql_commands_put(&watch->commands, LITERAL("ZRANGE"), watch->keys.snapshots, LITERAL("0"), LITERAL("-1"));
	/* nothing is seen of a slot that is on its way, unless both have arrived */
	mosql_commands_put(&watch->commands, LITERAL("EXISTS"), session, watch->keys.snapshots);
	read_run(watch);
	life = read_life(read_reply(watch, 0));

	write_begin(watch);
	if (is_dead(watch, life.lease))
		add_forget(watch, sid, &life, read_reply(watch, 1));
	else
	{
		if (strtoull(life.lease.data, NULL, 10) - watch->now > life.span)
		{
			life.lease = mosql_clock_number(watch->now + life.span);
			mosql_commands_put(&watch->commands, LITERAL("HSET"), session, LITERAL("lease"), life.lease);
		}
		mosql_commands_put(&watch->commands, LITERAL("ZADD"), watch->keys.ends, life.lease,
						   mosql_clock_number(sid));
	}
	(void) write_run(watch);
}

/* In the read group: the index entries that end first, and those that end last. */
#define ENDS_COMMANDS 2

static void
add_ends(Watch *watch, int max)
{
	MosqlBytes	last = mosql_clock_number(max - 1);

	mosql_commands_put(&watch->commands, LITERAL("ZRANGE"), watch->keys.ends, LITERAL("0"),
					   last, LITERAL("WITHSCORES"));
	mosql_commands_put(&watch->commands, LITERAL("ZREVRANGE"), watch->keys.ends, LITERAL("0"),
					   last, LITERAL("WITHSCORES"));
}

/* Sweep those of them that have ended, or are too far away; returns how many had ended. */
static int
sweep_ends(Watch *watch, const MosqlReply *oldest, const MosqlReply *newest)
{
	double		now = (double) watch->now;
	int			n = 0;

	for (int i = 0; i + 1 < oldest->n; i += 2)
		if (strtod(mosql_step_text(oldest, i + 1).data, NULL) < now)
		{
			sweep(watch, mosql_reply_u64(mosql_step_elem(oldest, i)));
			n++;
		}
	for (int i = 0; i + 1 < newest->n; i += 2)
		if (strtod(mosql_step_text(newest, i + 1).data, NULL) > now + MOSQL_CLOCK_LEASE)
			sweep(watch, mosql_reply_u64(mosql_step_elem(newest, i)));
	return n;
}

/* In the write group: a new session, and with the first one the database. */
static void
add_session(Watch *watch, const Issued *issued, bool found, uint64 sid, int lease_ms)
{
	MosqlBytes	name = mosql_clock_number(sid);
	MosqlBytes	ends = mosql_clock_number(watch->now + (uint64) lease_ms * 1000);

	mosql_commands_put(&watch->commands, LITERAL("HSET"), watch->keys.counter,
					   LITERAL("format"), LITERAL(MOSQL_CLOCK_FORMAT), LITERAL("sid"), name);
	if (found)
		mosql_commands_put(&watch->commands, LITERAL("HSET"), watch->keys.counter,
						   LITERAL("node"), issued->me, LITERAL("last"), LITERAL("0"));
	mosql_commands_put(&watch->commands, LITERAL("HSET"),
					   mosql_clock_session_key(&watch->keys, sid), LITERAL("lease"), ends,
					   LITERAL("span"), mosql_clock_number((uint64) lease_ms * 1000),
					   LITERAL("who"), mosql_clock_who(watch->clock));
	mosql_commands_put(&watch->commands, LITERAL("ZADD"), watch->keys.ends, ends, name);
}

/*
 * Draw an id, 0 if there is no database and none is to be founded; ends[] gets the
 * replies to add_ends().
 */
static uint64
open_session(Watch *watch, int lease_ms, bool found, uint64 *schema, const MosqlReply **ends)
{
	for (;;)
	{
		const MosqlReply *c;
		Issued		issued;
		uint64		sid;

		read_begin(watch, watch->keys.counter, MOSQL_ABSENT);
		add_issued(watch);
		mosql_commands_put(&watch->commands, LITERAL("HMGET"), watch->keys.counter,
						   LITERAL("format"), LITERAL("sid"), LITERAL("last"));
		add_ends(watch, MOSQL_CLOCK_SWEEP);
		read_run(watch);
		issued = read_issued(watch, read_reply(watch, 0), read_reply(watch, 1));
		c = read_reply(watch, ISSUED_COMMANDS);
		ends[0] = read_reply(watch, ISSUED_COMMANDS + 1);
		ends[1] = read_reply(watch, ISSUED_COMMANDS + 2);
		if (mosql_step_elem(c, 0)->kind != MOSQL_REPLY_NIL &&
			!mosql_bytes_equal(mosql_step_elem(c, 0)->str, LITERAL(MOSQL_CLOCK_FORMAT)))
			mosql_clock_refuse_format(&watch->keys, mosql_step_elem(c, 0)->str);
		if (mosql_step_elem(c, 0)->kind == MOSQL_REPLY_NIL && !found)
			return 0;
		if (take_over(watch, &issued))
			continue;
		*schema = issued.schema;
		sid = Max(mosql_reply_u64(mosql_step_elem(c, 1)) + 1,
				  mosql_clock_floor(Max(watch->now, issued.last)));
		if (sid >> MOSQL_SESSION_ID_BITS != 0)
			return sid;			/* clock.c says what is wrong */

		write_begin(watch);
		add_session(watch, &issued, mosql_step_elem(c, 2)->kind == MOSQL_REPLY_NIL, sid, lease_ms);
		if (write_run(watch) == MOSQL_EXEC_DONE)
			return sid;
		start_over(watch);
	}
}

static uint64
watch_open(MosqlStepper *clock, int lease_ms, bool found, uint64 *schema)
{
	Watch		watch = watch_start(clock, NULL);
	const MosqlReply *ends[ENDS_COMMANDS];
	uint64		sid = open_session(&watch, lease_ms, found, schema, ends);

	if (sid != 0 && sid >> MOSQL_SESSION_ID_BITS == 0)
		(void) sweep_ends(&watch, ends[0], ends[1]);
	return sid;
}

static int
watch_expire(MosqlStepper *clock, int max)
{
	Watch		watch = watch_start(clock, NULL);

	read_begin(&watch, watch.keys.ends, MOSQL_ABSENT);
	add_ends(&watch, max);
	read_run(&watch);
	return sweep_ends(&watch, read_reply(&watch, 0), read_reply(&watch, 1));
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
	MosqlBytes	end[] = {
		LITERAL("HDEL"), mosql_clock_session_key(&keys, sid), LITERAL("lease"), LITERAL("span"),
		LITERAL("who")
	};
	MosqlBytes	expose[] = {
		LITERAL("ZADD"), keys.ends, LITERAL("XX"), LITERAL("0"), mosql_clock_number(sid)
	};

	send_detached(clock, &keys, lengthof(end), end);
	send_detached(clock, &keys, lengthof(expose), expose);
}

static bool
watch_snapshot(MosqlStepper *clock, uint64 sid, uint64 snapid, int lease_ms,
			   MosqlTimestamp *S, uint64 *schema, MosqlNodesAlong *along)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, sid);
	MosqlBytes	field = mosql_clock_snapshot_field(sid, snapid);

	for (;;)
	{
		const MosqlReply *registered;
		MosqlBytes	lease;
		MosqlBytes	text;
		Issued		issued;
		bool		again;

		read_begin(&watch, watch.keys.counter, session);
		add_issued(&watch);
		mosql_commands_put(&watch.commands, LITERAL("HGET"), session, LITERAL("lease"));
		mosql_commands_put(&watch.commands, LITERAL("ZSCORE"), watch.keys.snapshots, field);
		read_run(&watch);
		issued = read_issued(&watch, read_reply(&watch, 0), read_reply(&watch, 1));
		lease = mosql_reply_bytes(read_reply(&watch, ISSUED_COMMANDS));
		if (take_over(&watch, &issued))
			continue;
		*schema = issued.schema;
		if (is_dead(&watch, lease))
			return false;
		registered = read_reply(&watch, ISSUED_COMMANDS + 1);
		again = registered->kind != MOSQL_REPLY_NIL;
		if (again)
			*S = mosql_clock_snapshot_time(&watch.keys, registered);
		if (again && (watch.outcome != MOSQL_EXEC_LOST || !clock->durable))
			return true;		/* registered by a call whose reply was lost */
		write_begin(&watch);
		if (again)
			add_touch(&watch);
		else
		{
			*S = mosql_clock_time(&watch.keys, Max(watch.now, issued.last));
			text = mosql_clock_number(*S);
			mosql_commands_put(&watch.commands, LITERAL("HSET"), watch.keys.counter, LITERAL("last"), text);
			mosql_commands_put(&watch.commands, LITERAL("ZADD"), watch.keys.snapshots, text, field);
			add_extend(&watch, sid, lease, lease_ms);
		}
		if (write_run_as(&watch, again) == MOSQL_EXEC_DONE)
			return true;
		start_over(&watch);
	}
}

/* --- transactions --- */

static void
watch_snapshots(MosqlStepper *clock, MosqlSnapshotList *list, uint64 *schema)
{
	Watch		watch = watch_start(clock, NULL);

	for (;;)
	{
		Issued		issued;

		plain_begin(&watch);
		add_issued(&watch);
		add_list(&watch, true);
		run_reads(&watch);
		issued = read_issued(&watch, plain_reply(&watch, 0), plain_reply(&watch, 1));
		*schema = issued.schema;
		*list = plain_list(&watch, ISSUED_COMMANDS, true);
		if (!issued.foreign)
			return;

		read_begin(&watch, watch.keys.counter, MOSQL_ABSENT);
		add_issued(&watch);
		read_run(&watch);
		issued = read_issued(&watch, read_reply(&watch, 0), read_reply(&watch, 1));
		(void) take_over(&watch, &issued);
	}
}

/*
 * In the write group: those records go, of these, that may (see LUA_DROP); s[from] is the
 * first.  Returns how many.
 */
static int
add_drops(Watch *watch, const Issued *issued, MosqlBytes session, const MosqlReply *s, int from,
		  const uint64 *ns, int n)
{
	MosqlBytes *fields = palloc(Max(n, 1) * sizeof(MosqlBytes));
	int			ngone = 0;

	for (int i = 0; i < n; i++)
	{
		MosqlBytes	record = mosql_reply_bytes(mosql_step_elem(s, from + i));

		if (is_committed(record) && strtoull(record.data + 1, NULL, 10) > issued->leapt)
			fields[ngone++] = mosql_clock_number(ns[i]);
	}
	add_removal(watch, LITERAL("HDEL"), session, ngone, fields);
	return ngone;
}

/* Who has not taken over drops nothing. */
static void
watch_drop(MosqlStepper *clock, uint64 sid, const uint64 *ns, int n)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, sid);

	for (;;)
	{
		MosqlBytes *argv;
		Issued		issued;

		read_begin(&watch, session, MOSQL_ABSENT);
		add_issued(&watch);
		argv = mosql_commands_add(&watch.commands, 2 + n);
		argv[0] = LITERAL("HMGET");
		argv[1] = session;
		for (int i = 0; i < n; i++)
			argv[2 + i] = mosql_clock_number(ns[i]);
		read_run(&watch);
		issued = read_issued(&watch, read_reply(&watch, 0), read_reply(&watch, 1));
		write_begin(&watch);
		if (issued.foreign ||
			add_drops(&watch, &issued, session, read_reply(&watch, ISSUED_COMMANDS), 0, ns, n) == 0 ||
			write_run_as(&watch, false) == MOSQL_EXEC_DONE)
			return;
		start_over(&watch);
	}
}

void
mosql_watch_add_decision(Watch *watch, const MosqlDecideArgs *args, WatchDecision *decision)
{
	MosqlBytes *argv;

	add_issued(watch);
	argv = mosql_commands_add(&watch->commands, 4 + args->ndrops);
	argv[0] = LITERAL("HMGET");
	argv[1] = decision->session = mosql_clock_session_key(&watch->keys, args->tx.session);
	argv[2] = LITERAL("lease");
	argv[3] = decision->n = mosql_clock_number(args->tx.n);
	for (int i = 0; i < args->ndrops; i++)
		argv[4 + i] = mosql_clock_number(args->drops[i]);
}

void
mosql_watch_read_decision(const Watch *watch, const MosqlDecideArgs *args, WatchDecision *decision)
{
	decision->issued = read_issued(watch, read_reply(watch, 0), read_reply(watch, 1));
	decision->s = read_reply(watch, ISSUED_COMMANDS);
	decision->record = mosql_clock_record(&watch->keys, args->tx.session,
										  mosql_reply_bytes(mosql_step_elem(decision->s, 1)));
}

MosqlDecision
mosql_watch_judge_decision(const Watch *watch, const MosqlDecideArgs *args, const WatchDecision *decision)
{
	if (decision->record.state == MOSQL_RECORD_ABORTED)
		return MOSQL_REFUSED_ABORTED;
	if (decision->record.state != MOSQL_RECORD_NONE)
		return MOSQL_DECIDED;
	if (is_dead(watch, mosql_reply_bytes(mosql_step_elem(decision->s, 0))))
		return MOSQL_REFUSED_LEASE;
	if (!watch->clock->durable && args->since != 0 &&
		(decision->issued.leapt > args->since || decision->issued.schema < args->since))
		return MOSQL_REFUSED_FORGOTTEN;
	return decision->issued.schema == args->schema ? MOSQL_DECIDED : MOSQL_REFUSED_SCHEMA;
}

void
mosql_watch_write_decision(Watch *watch, const MosqlDecideArgs *args, const WatchDecision *decision,
						   MosqlTimestamp ts, uint64 schema)
{
	MosqlBytes	text = mosql_clock_number(ts);
	StringInfoData record;

	initStringInfo(&record);
	appendStringInfo(&record, "C" UINT64_FORMAT " ", ts);
	appendBinaryStringInfo(&record, args->parts.data != NULL ? args->parts.data : "",
						   (int) args->parts.len);

	if (args->schema_change)
		mosql_commands_put(&watch->commands, LITERAL("HSET"), watch->keys.counter,
						   LITERAL("last"), text, LITERAL("decided"), text,
						   LITERAL("schema"), mosql_clock_number(schema));
	else
		mosql_commands_put(&watch->commands, LITERAL("HSET"), watch->keys.counter,
						   LITERAL("last"), text, LITERAL("decided"), text);
	mosql_commands_put(&watch->commands, LITERAL("HSET"), decision->session, decision->n, mosql_bytes_of(&record));
	(void) add_drops(watch, &decision->issued, decision->session, decision->s, 2, args->drops, args->ndrops);
	add_extend(watch, args->tx.session, mosql_reply_bytes(mosql_step_elem(decision->s, 0)), args->lease_ms);
}

static MosqlDecision
watch_decide(MosqlStepper *clock, const MosqlDecideArgs *args, MosqlTimestamp *ts,
			 MosqlSnapshotList *list, uint64 *schema, MosqlBudget *budget)
{
	Watch		watch = watch_start(clock, budget);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, args->tx.session);

	watch.once = true;
	for (;;)
	{
		WatchDecision d;
		MosqlDecision refusal;

		*ts = 0;				/* nothing is written yet */
		read_begin(&watch, watch.keys.counter, session);
		mosql_watch_add_decision(&watch, args, &d);
		read_run(&watch);
		mosql_watch_read_decision(&watch, args, &d);
		if (take_over(&watch, &d.issued))
			continue;
		*schema = d.issued.schema;
		refusal = mosql_watch_judge_decision(&watch, args, &d);

		/* nothing to decide: only drop what was to be dropped */
		if (refusal != MOSQL_DECIDED || d.record.state == MOSQL_RECORD_COMMITTED)
			mosql_clock_drop(clock, args->tx.session, args->drops, args->ndrops);
		if (refusal != MOSQL_DECIDED)
			return refusal;
		if (d.record.state == MOSQL_RECORD_COMMITTED)
		{
			*ts = d.record.ts;
			watch_snapshots(clock, list, schema);
			return MOSQL_DECIDED;
		}

		*ts = mosql_clock_time(&watch.keys, Max(watch.now, d.issued.last + 1));
		if (args->schema_change)
			*schema = Max(*schema + 1, *ts);
		write_begin(&watch);
		mosql_watch_write_decision(&watch, args, &d, *ts, *schema);
		add_list(&watch, args->all_snapshots);
		(void) write_run(&watch);
		if (watch.outcome == MOSQL_EXEC_LOST)
			return MOSQL_DECISION_LOST;
		if (watch.outcome == MOSQL_EXEC_DONE)
		{
			*list = exec_list(&watch, args->all_snapshots);
			return MOSQL_DECIDED;
		}
		start_over(&watch);
	}
}

/* Records of one session: one command, hence of one moment; a list that is no older. */
static void
status_of_session(MosqlStepper *clock, const MosqlTxid *txs, int n,
				  MosqlRecord *records, MosqlSnapshotList *list)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes *argv;

	plain_begin(&watch);
	argv = mosql_commands_add(&watch.commands, 2 + n);
	argv[0] = LITERAL("HMGET");
	argv[1] = mosql_clock_session_key(&watch.keys, txs[0].session);
	for (int i = 0; i < n; i++)
		argv[2 + i] = mosql_clock_number(txs[i].n);
	add_list(&watch, false);
	run_reads(&watch);
	for (int i = 0; i < n; i++)
		records[i] = mosql_clock_record(&watch.keys, txs[i].session,
										mosql_reply_bytes(mosql_step_elem(plain_reply(&watch, 0), i)));
	*list = plain_list(&watch, 1, false);
}

static bool
of_one_session(const MosqlTxid *txs, int n)
{
	for (int i = 1; i < n; i++)
		if (txs[i].session != txs[0].session)
			return false;
	return true;
}

static void
watch_status(MosqlStepper *clock, const MosqlTxid *txs, int n,
			 MosqlRecord *records, MosqlSnapshotList *list)
{
	Watch		watch = watch_start(clock, NULL);

	if (!clock->durable && of_one_session(txs, n))
	{
		status_of_session(clock, txs, n, records, list);
		return;
	}
	write_begin(&watch);
	for (int i = 0; i < n; i++)
		mosql_commands_put(&watch.commands, LITERAL("HGET"),
						   mosql_clock_session_key(&watch.keys, txs[i].session),
						   mosql_clock_number(txs[i].n));
	add_touch(&watch);
	add_list(&watch, false);
	run_atomic(&watch, true);
	for (int i = 0; i < n; i++)
		records[i] = mosql_clock_record(&watch.keys, txs[i].session,
										mosql_reply_bytes(mosql_step_elem(watch.exec, i)));
	*list = exec_list(&watch, false);
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
	add_list(&watch, false);
	run_atomic(&watch, true);
	*record = mosql_clock_record(&watch.keys, tx.session, mosql_reply_bytes(mosql_step_elem(watch.exec, 2)));
	*list = exec_list(&watch, false);
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
		add_list(&watch, false);
		if (write_run(&watch) == MOSQL_EXEC_DONE)
		{
			*list = exec_list(&watch, false);
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
		{
			/* what was not there yet when it was forgotten goes, too */
			mosql_commands_put(&watch.commands, LITERAL("UNLINK"), session);
			mosql_commands_put(&watch.commands, LITERAL("SREM"), watch.keys.dead,
							   mosql_clock_number(sid));
		}
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
	mosql_step_check(live, MOSQL_REPLY_ARRAY, watch.keys.ends);

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
