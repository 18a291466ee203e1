/*
 * clock_keep.c: housekeeping at the clock: outcomes, jobs, sizes, trees without a name.
 *
 * Layer: step.
 *
 * How a transaction ended, asked by somebody else and perhaps hours later.  The
 * one who asks has its id from an error 08007, so its owner never dropped its
 * record.  Then, in one atomic look at record, log and lease:
 *
 *   a record "committed"           committed
 *   an entry in the log            committed: reaping a dead session's record
 *                                  writes the entry in the same step
 *   else, the session lives        "aborted" is final (decide refuses); without a
 *                                  record decide may still be on its way
 *   else, id above the newest      no such session was ever opened here
 *   else, id at most `forgot`      an entry may have been there and gone
 *   else                           aborted: the dead decide nothing, and if it had
 *                                  committed, record or entry would be there
 *
 * A record "aborted" is not looked at in the last three: a late resolver may have
 * written it for a transaction that was reaped.  "Dead" must hold for good, also
 * where another node's clock is a little behind after a failover; so a lease that
 * only lies in the past is removed before anybody is told "aborted".
 */
#include "postgres.h"

#include "step/clock_keep.h"
#include "step/clock_watch_int.h"

/* Logged outcomes forgotten by one call. */
#define FORGET_OUTCOMES		1000

/* A name or text that somebody wrote, zero-terminated. */
static char *
copy_text(MosqlBytes b)
{
	return pnstrdup(b.data, b.len);
}

static MosqlBytes
text_bytes(const char *text)
{
	return mosql_bytes(text, strlen(text));
}

/*
 * MULTI, what the caller adds, EXEC, and the server's time as the first reply.
 * durable: what is read may not be lost by a failover; add_touch() sees to it that
 * there is something to wait for.
 */
static void
atomic_begin(Watch *watch)
{
	write_begin(watch);
	mosql_commands_put(&watch->commands, LITERAL("TIME"));
}

static const MosqlReply *
atomic_run(Watch *watch, bool durable)
{
	const MosqlReply *time;

	run_atomic(watch, durable);
	time = mosql_step_elem(watch->exec, 0);
	watch->now = mosql_reply_u64(mosql_step_elem(time, 0)) * 1000000 + mosql_reply_u64(mosql_step_elem(time, 1));
	return watch->exec;
}

/* ---- outcomes ---- */

/* Take away a lease that ran out, unless it was extended meanwhile. */
static void
end_lease(Watch *watch, MosqlBytes session)
{
	read_begin(watch, session, MOSQL_ABSENT);
	mosql_commands_put(&watch->commands, LITERAL("HGET"), session, LITERAL("lease"));
	read_run(watch);
	if (!is_dead(watch, mosql_reply_bytes(read_reply(watch, 0))))
		return;
	write_begin(watch);
	mosql_commands_put(&watch->commands, LITERAL("HDEL"), session, LITERAL("lease"));
	(void) write_run(watch);
}

MosqlFate
mosql_clock_fate(MosqlStepper *clock, MosqlTxid tx)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, tx.session);

	for (;;)
	{
		const MosqlReply *exec;
		const MosqlReply *c;
		MosqlRecord record;
		MosqlBytes	lease;

		atomic_begin(&watch);
		mosql_commands_put(&watch.commands, LITERAL("HMGET"), session, LITERAL("lease"),
						   mosql_clock_number(tx.n));
		mosql_commands_put(&watch.commands, LITERAL("ZSCORE"), watch.keys.outcomes,
						   mosql_clock_snapshot_field(tx.session, tx.n));
		mosql_commands_put(&watch.commands, LITERAL("HMGET"), watch.keys.counter,
						   LITERAL("sid"), LITERAL("forgot"));
		add_touch(&watch);
		exec = atomic_run(&watch, true);
		lease = mosql_reply_bytes(mosql_step_elem(mosql_step_elem(exec, 1), 0));
		record = mosql_clock_record(&watch.keys, tx.session,
									mosql_reply_bytes(mosql_step_elem(mosql_step_elem(exec, 1), 1)));
		c = mosql_step_elem(exec, 3);

		if (record.state == MOSQL_RECORD_COMMITTED || mosql_step_elem(exec, 2)->kind != MOSQL_REPLY_NIL)
			return MOSQL_FATE_COMMITTED;
		if (!is_dead(&watch, lease))
			return record.state == MOSQL_RECORD_ABORTED ? MOSQL_FATE_ABORTED : MOSQL_FATE_IN_PROGRESS;
		if (tx.session > mosql_reply_u64(mosql_step_elem(c, 0)) || tx.session <= mosql_reply_u64(mosql_step_elem(c, 1)))
			return MOSQL_FATE_UNKNOWN;
		if (lease.data == NULL)
			return MOSQL_FATE_ABORTED;
		end_lease(&watch, session);
		if (watch.outcome != MOSQL_EXEC_DONE)
			start_over(&watch);
	}
}

/*
 * Only the log is watched.  `forgot` never goes back: who raises it removes the
 * entries in the same step, and so disturbs whoever read them too.
 */
int
mosql_clock_forget_outcomes(MosqlStepper *clock, int64 keep_ms)
{
	Watch		watch = watch_start(clock, NULL);

	for (;;)
	{
		const MosqlReply *old;
		MosqlBytes *argv;
		uint64		forgot;
		int			n = 0;

		read_begin(&watch, watch.keys.outcomes, MOSQL_ABSENT);
		mosql_commands_put(&watch.commands, LITERAL("HGET"), watch.keys.counter, LITERAL("forgot"));
		mosql_commands_put(&watch.commands, LITERAL("ZRANGE"), watch.keys.outcomes, LITERAL("0"),
						   mosql_clock_number(FORGET_OUTCOMES - 1), LITERAL("WITHSCORES"));
		read_run(&watch);
		forgot = mosql_reply_u64(read_reply(&watch, 0));
		old = read_reply(&watch, 1);
		mosql_step_check(old, MOSQL_REPLY_ARRAY, watch.keys.outcomes);

		argv = palloc((2 + old->n) * sizeof(MosqlBytes));
		argv[n++] = LITERAL("ZREM");
		argv[n++] = watch.keys.outcomes;
		for (int i = 0; i + 1 < old->n; i += 2)
		{
			if (strtod(mosql_step_text(old, i + 1).data, NULL) + (double) keep_ms * 1000 >= (double) watch.now)
				break;
			forgot = Max(forgot, strtoull(mosql_step_text(old, i).data, NULL, 10));
			argv[n++] = mosql_step_elem(old, i)->str;
		}
		if (n == 2)
			return 0;
		write_begin(&watch);
		mosql_commands_put(&watch.commands, LITERAL("HSET"), watch.keys.counter, LITERAL("forgot"),
						   mosql_clock_number(forgot));
		mosql_commands_copy(&watch.commands, n, argv);
		if (write_run(&watch) == MOSQL_EXEC_DONE)
			return n - 2;
		start_over(&watch);
	}
}

/* ---- jobs: no need to wait for copies ---- */

/* "<R or E> <sid> <started> <updated> <mark> <text>" */
static MosqlBytes
put_job(const MosqlJob *job)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfo(&out, "%c " UINT64_FORMAT " " UINT64_FORMAT " " UINT64_FORMAT " " UINT64_FORMAT " ",
					 job->running ? 'R' : 'E', job->sid, job->started, job->updated, job->mark);
	appendBinaryStringInfo(&out, job->text.data, (int) job->text.len);
	return mosql_bytes_of(&out);
}

static bool
next_number(char **at, uint64 *number)
{
	char	   *end;

	if (!(**at >= '0' && **at <= '9'))
		return false;
	*number = strtoull(*at, &end, 10);
	if (*end != ' ')
		return false;
	*at = end + 1;
	return true;
}

/* XX001 if it is damaged. */
static MosqlJob
get_job(const Watch *watch, const char *name, MosqlBytes stored)
{
	MosqlJob	job = {.name = name,.now = watch->now};
	char	   *text = copy_text(stored);
	char	   *at = text + 2;

	job.running = text[0] == 'R';
	if (!(text[0] == 'R' || text[0] == 'E') || text[1] != ' ' ||
		!next_number(&at, &job.sid) || !next_number(&at, &job.started) ||
		!next_number(&at, &job.updated) || !next_number(&at, &job.mark))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged job \"%s\" in Redis key \"%s\"", name, watch->keys.jobs.data)));
	job.text = text_bytes(at);
	return job;
}

/* Read a job and a session's lease, watching both.  False if there is no job. */
static bool
read_job(Watch *watch, const char *name, MosqlBytes session, MosqlJob *job, MosqlBytes *lease)
{
	MosqlBytes	stored;

	read_begin(watch, watch->keys.jobs, session);
	mosql_commands_put(&watch->commands, LITERAL("HGET"), session, LITERAL("lease"));
	mosql_commands_put(&watch->commands, LITERAL("HGET"), watch->keys.jobs, text_bytes(name));
	read_run(watch);
	*lease = mosql_reply_bytes(read_reply(watch, 0));
	stored = mosql_reply_bytes(read_reply(watch, 1));
	*job = (MosqlJob) {0};
	if (stored.data != NULL)
		*job = get_job(watch, name, stored);
	return stored.data != NULL;
}

static bool
is_alive(Watch *watch, uint64 sid)
{
	MosqlBytes	session = mosql_clock_session_key(&watch->keys, sid);

	atomic_begin(watch);
	mosql_commands_put(&watch->commands, LITERAL("HGET"), session, LITERAL("lease"));
	(void) atomic_run(watch, false);
	return !is_dead(watch, mosql_reply_bytes(mosql_step_elem(watch->exec, 1)));
}

static void
add_job(Watch *watch, const MosqlJob *job)
{
	mosql_commands_put(&watch->commands, LITERAL("HSET"), watch->keys.jobs,
					   text_bytes(job->name), put_job(job));
}

/*
 * The holder's death is looked up in a step of its own, before: the dead stay
 * dead, and that the job is still the dead one's is watched.
 */
bool
mosql_clock_job_start(MosqlStepper *clock, const char *name, uint64 sid, int lease_ms,
					  const char *text, MosqlJob *other)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, sid);
	uint64		known_dead = 0;

	for (;;)
	{
		MosqlJob	mine;
		MosqlBytes	lease;

		if (read_job(&watch, name, session, other, &lease) && other->running &&
			other->sid != sid && other->sid != known_dead)
		{
			uint64		holder = other->sid;

			other->alive = is_alive(&watch, holder);
			if (other->alive)
				return false;
			known_dead = holder;
			continue;
		}
		if (is_dead(&watch, lease))
			return false;		/* we died ourselves */
		mine = (MosqlJob)
		{
			.name = name,.sid = sid,.running = true,
			.started = watch.now,.updated = watch.now,.text = text_bytes(text)
		};
		write_begin(&watch);
		add_job(&watch, &mine);
		add_extend(&watch, sid, lease, lease_ms);
		if (write_run_as(&watch, false) == MOSQL_EXEC_DONE)
			return true;
		start_over(&watch);
	}
}

/* One more write of a job that is ours. */
static bool
write_job(MosqlStepper *clock, const char *name, uint64 sid, int lease_ms, bool running,
		  uint64 mark, const char *text)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, sid);

	for (;;)
	{
		MosqlJob	job;
		MosqlBytes	lease;

		if (!read_job(&watch, name, session, &job, &lease) || !job.running || job.sid != sid ||
			is_dead(&watch, lease))
			return false;
		job.running = running;
		job.updated = watch.now;
		job.mark = mark;
		job.text = text_bytes(text);
		write_begin(&watch);
		add_job(&watch, &job);
		add_extend(&watch, sid, lease, lease_ms);
		if (write_run_as(&watch, false) == MOSQL_EXEC_DONE)
			return true;
		start_over(&watch);
	}
}

bool
mosql_clock_job_note(MosqlStepper *clock, const char *name, uint64 sid, int lease_ms,
					 const char *text)
{
	return write_job(clock, name, sid, lease_ms, true, 0, text);
}

void
mosql_clock_job_end(MosqlStepper *clock, const char *name, uint64 sid, int lease_ms,
					uint64 mark, const char *text)
{
	(void) write_job(clock, name, sid, lease_ms, false, mark, text);
}

void
mosql_clock_job_forget(MosqlStepper *clock, const char *name, uint64 sid)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, sid);

	for (;;)
	{
		MosqlJob	job;
		MosqlBytes	lease;

		if (!read_job(&watch, name, session, &job, &lease) || job.sid != sid)
			return;
		write_begin(&watch);
		mosql_commands_put(&watch.commands, LITERAL("HDEL"), watch.keys.jobs, text_bytes(name));
		if (write_run_as(&watch, false) == MOSQL_EXEC_DONE)
			return;
		start_over(&watch);
	}
}

int
mosql_clock_jobs(MosqlStepper *clock, MosqlJob **jobs)
{
	Watch		watch = watch_start(clock, NULL);
	const MosqlReply *fields;
	int			n;

	atomic_begin(&watch);
	mosql_commands_put(&watch.commands, LITERAL("HGETALL"), watch.keys.jobs);
	fields = mosql_step_elem(atomic_run(&watch, false), 1);
	n = fields->n / 2;
	*jobs = palloc0(Max(n, 1) * sizeof(MosqlJob));
	for (int i = 0; i < n; i++)
		(*jobs)[i] = get_job(&watch, copy_text(mosql_step_elem(fields, 2 * i)->str),
							 mosql_step_elem(fields, 2 * i + 1)->str);
	for (int i = 0; i < n; i++)
		(*jobs)[i].alive = is_alive(&watch, (*jobs)[i].sid);
	return n;
}

/* ---- sizes ---- */

static const MosqlReply *
run_one(MosqlStepper *clock, const MosqlClockKeys *keys, int argc, const MosqlBytes *argv,
		MosqlReplyKind expected)
{
	MosqlBatch *batch = mosql_batch_create(clock->redis, CurrentMemoryContext);

	mosql_batch_add(batch, keys->slot, MOSQL_SEND_REPEATABLE, argc, argv);
	mosql_batch_run(batch, NULL);
	mosql_step_check(mosql_batch_reply(batch, 0, 0), expected, keys->sizes);
	return mosql_batch_reply(batch, 0, 0);
}

void
mosql_clock_put_size(MosqlStepper *clock, uint64 root, uint64 leaves)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes	argv[] = {
		LITERAL("HSET"), keys.sizes, mosql_clock_number(root), mosql_clock_number(leaves)
	};

	(void) run_one(clock, &keys, lengthof(argv), argv, MOSQL_REPLY_INTEGER);
}

int
mosql_clock_sizes(MosqlStepper *clock, MosqlTreeSize **sizes)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes	argv[] = {LITERAL("HGETALL"), keys.sizes};
	const MosqlReply *fields = run_one(clock, &keys, lengthof(argv), argv, MOSQL_REPLY_ARRAY);
	int			n = fields->n / 2;

	*sizes = palloc(Max(n, 1) * sizeof(MosqlTreeSize));
	for (int i = 0; i < n; i++)
	{
		(*sizes)[i].root = mosql_reply_u64(mosql_step_elem(fields, 2 * i));
		(*sizes)[i].leaves = mosql_reply_u64(mosql_step_elem(fields, 2 * i + 1));
	}
	return n;
}

/* Fields that are named by roots of trees. */
static void
drop_roots(MosqlStepper *clock, const MosqlClockKeys *keys, MosqlBytes key, const uint64 *roots,
		   int n)
{
	MosqlBytes *argv = palloc((2 + n) * sizeof(MosqlBytes));

	if (n == 0)
		return;
	argv[0] = LITERAL("HDEL");
	argv[1] = key;
	for (int i = 0; i < n; i++)
		argv[2 + i] = mosql_clock_number(roots[i]);
	(void) run_one(clock, keys, 2 + n, argv, MOSQL_REPLY_INTEGER);
}

void
mosql_clock_drop_sizes(MosqlStepper *clock, const uint64 *roots, int n)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);

	drop_roots(clock, &keys, keys.sizes, roots, n);
}

/* ---- trees that no definition names ---- */

static int
compare_unnamed(const void *a, const void *b)
{
	return mosql_uint64_compare(&((const MosqlUnnamedTree *) a)->root,
								&((const MosqlUnnamedTree *) b)->root);
}

int
mosql_clock_unnamed(MosqlStepper *clock, MosqlUnnamedTree **trees, MosqlTimestamp *now)
{
	Watch		watch = watch_start(clock, NULL);
	const MosqlReply *fields;
	int			n;

	atomic_begin(&watch);
	mosql_commands_put(&watch.commands, LITERAL("HGETALL"), watch.keys.unnamed);
	fields = mosql_step_elem(atomic_run(&watch, false), 1);
	*now = watch.now;
	n = fields->n / 2;
	*trees = palloc(Max(n, 1) * sizeof(MosqlUnnamedTree));
	for (int i = 0; i < n; i++)
	{
		char	   *at = copy_text(mosql_step_elem(fields, 2 * i + 1)->str);
		MosqlUnnamedTree *tree = &(*trees)[i];

		tree->root = mosql_reply_u64(mosql_step_elem(fields, 2 * i));
		if (!next_number(&at, &tree->since))
			tree->since = watch.now;	/* damaged: found now */
		tree->nodes = strtoull(at, &at, 10);
		tree->told = strcmp(at, " told") == 0;
	}
	qsort(*trees, n, sizeof(MosqlUnnamedTree), compare_unnamed);
	return n;
}

void
mosql_clock_put_unnamed(MosqlStepper *clock, const MosqlUnnamedTree *trees, int n)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = palloc((2 + 2 * n) * sizeof(MosqlBytes));

	if (n == 0)
		return;
	argv[0] = LITERAL("HSET");
	argv[1] = keys.unnamed;
	for (int i = 0; i < n; i++)
	{
		char	   *text = psprintf(UINT64_FORMAT " " UINT64_FORMAT "%s", trees[i].since, trees[i].nodes,
									trees[i].told ? " told" : "");

		argv[2 + 2 * i] = mosql_clock_number(trees[i].root);
		argv[3 + 2 * i] = text_bytes(text);
	}
	(void) run_one(clock, &keys, 2 + 2 * n, argv, MOSQL_REPLY_INTEGER);
}

void
mosql_clock_drop_unnamed(MosqlStepper *clock, const uint64 *roots, int n)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);

	drop_roots(clock, &keys, keys.unnamed, roots, n);
}

/* ---- trees that are to be destroyed ---- */

int
mosql_clock_garbage(MosqlStepper *clock, uint64 **roots)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes	argv[] = {LITERAL("HKEYS"), keys.garbage};
	const MosqlReply *fields = run_one(clock, &keys, lengthof(argv), argv, MOSQL_REPLY_ARRAY);

	*roots = palloc(Max(fields->n, 1) * sizeof(uint64));
	for (int i = 0; i < fields->n; i++)
		(*roots)[i] = mosql_reply_u64(mosql_step_elem(fields, i));
	return fields->n;
}

void
mosql_clock_put_garbage(MosqlStepper *clock, const uint64 *roots, int n)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes *argv = palloc((2 + 2 * n) * sizeof(MosqlBytes));

	if (n == 0)
		return;
	argv[0] = LITERAL("HSET");
	argv[1] = keys.garbage;
	for (int i = 0; i < n; i++)
	{
		argv[2 + 2 * i] = mosql_clock_number(roots[i]);
		argv[3 + 2 * i] = LITERAL("");
	}
	(void) run_one(clock, &keys, 2 + 2 * n, argv, MOSQL_REPLY_INTEGER);
}

void
mosql_clock_drop_garbage(MosqlStepper *clock, const uint64 *roots, int n)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);

	drop_roots(clock, &keys, keys.garbage, roots, n);
}

/* ---- repair ---- */

/* The number in a text; 0 if it is none.  *sound: no text, or a number. */
static uint64
some_number(const MosqlReply *reply, bool *sound)
{
	char	   *end;
	uint64		number;

	if (reply->kind != MOSQL_REPLY_STRING)
	{
		*sound &= reply->kind == MOSQL_REPLY_NIL;
		return 0;
	}
	number = strtoull(copy_text(reply->str), &end, 10);
	if (reply->str.len == 0 || reply->str.data[0] == '-' || (*end != '\0' && *end != '.'))
	{
		*sound = false;
		return 0;
	}
	return number;
}

/* Is the text a number, and another one than our format's?  What no program writes is damage. */
static bool
is_foreign_format(MosqlBytes format)
{
	if (format.data == NULL || format.len == 0 || mosql_bytes_equal(format, LITERAL(MOSQL_CLOCK_FORMAT)))
		return false;
	for (size_t i = 0; i < format.len; i++)
		if (format.data[i] < '0' || format.data[i] > '9')
			return false;
	return format.data[0] != '0';
}

/* See clock_keep.h. */
void
mosql_clock_check_format(MosqlStepper *clock)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBatch *batch = mosql_batch_create(clock->redis, CurrentMemoryContext);
	MosqlBytes	argv[] = {LITERAL("HGET"), keys.counter, LITERAL("format")};
	const MosqlReply *reply;

	mosql_batch_add(batch, keys.slot, MOSQL_SEND_REPEATABLE, lengthof(argv), argv);
	mosql_batch_run(batch, NULL);
	reply = mosql_batch_reply(batch, 0, 0);
	if (reply->kind == MOSQL_REPLY_STRING && is_foreign_format(reply->str))
		mosql_clock_refuse_format(&keys, reply->str);
}

/* Each command by itself: one that meets another type fails alone. */
void
mosql_clock_read_state(MosqlStepper *clock, MosqlClockState *state)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBatch *batch = mosql_batch_create(clock->redis, CurrentMemoryContext);
	MosqlBytes	time[] = {LITERAL("TIME")};
	MosqlBytes	counter[] = {
		LITERAL("HMGET"), keys.counter, LITERAL("last"), LITERAL("sid"), LITERAL("schema"), LITERAL("format"),
		LITERAL("leapt"), LITERAL("took")
	};
	MosqlBytes	ends[] = {LITERAL("ZRANGE"), keys.ends, LITERAL("0"), LITERAL("-1")};
	MosqlBytes	snapshots[] = {LITERAL("ZRANGE"), keys.snapshots, LITERAL("0"), LITERAL("-1")};
	const MosqlReply *reply;
	bool		sound = true;
	bool		ignored = true;

	*state = (MosqlClockState) {0};
	mosql_batch_add(batch, keys.slot, MOSQL_SEND_REPEATABLE, lengthof(counter), counter);
	mosql_batch_add(batch, keys.slot, MOSQL_SEND_REPEATABLE, lengthof(ends), ends);
	mosql_batch_add(batch, keys.slot, MOSQL_SEND_REPEATABLE, lengthof(snapshots), snapshots);
	mosql_batch_add(batch, keys.slot, MOSQL_SEND_REPEATABLE, lengthof(time), time);
	mosql_batch_run(batch, NULL);
	reply = mosql_batch_reply(batch, 0, 0);
	if (reply->kind == MOSQL_REPLY_ARRAY && reply->n == 6)
	{
		(void) some_number(reply->elem[5], &sound);
		state->last = Max(some_number(reply->elem[0], &sound), some_number(reply->elem[4], &sound));
		state->sid = some_number(reply->elem[1], &sound);
		state->schema = some_number(reply->elem[2], &sound);
		state->there = sound && reply->elem[3]->kind == MOSQL_REPLY_STRING &&
			mosql_bytes_equal(reply->elem[3]->str, LITERAL(MOSQL_CLOCK_FORMAT));
	}
	reply = mosql_batch_reply(batch, 1, 0);
	for (int i = 0; reply->kind == MOSQL_REPLY_ARRAY && i < reply->n; i++)
		state->sid = Max(state->sid, some_number(reply->elem[i], &ignored));
	reply = mosql_batch_reply(batch, 2, 0);
	for (int i = 0; reply->kind == MOSQL_REPLY_ARRAY && i < reply->n; i++)
		state->sid = Max(state->sid, some_number(reply->elem[i], &ignored));
	reply = mosql_batch_reply(batch, 3, 0);
	mosql_step_check(reply, MOSQL_REPLY_ARRAY, keys.counter);
	state->now = mosql_reply_u64(mosql_step_elem(reply, 0)) * 1000000 +
		mosql_reply_u64(mosql_step_elem(reply, 1));
}

/* Remove those of the clock's keys that hold another type. */
static void
remove_foreign(MosqlStepper *clock, const MosqlClockKeys *keys)
{
	const struct
	{
		MosqlBytes	key;
		const char *type;
	}			all[] = {
		{keys->counter, "hash"}, {keys->ends, "zset"}, {keys->snapshots, "zset"},
		{keys->dead, "set"}, {keys->outcomes, "zset"}, {keys->jobs, "hash"},
		{keys->sizes, "hash"}, {keys->unnamed, "hash"}, {keys->garbage, "hash"}
	};

	for (int i = 0; i < lengthof(all); i++)
	{
		MosqlBytes	type[] = {LITERAL("TYPE"), all[i].key};
		MosqlBytes	remove[] = {LITERAL("UNLINK"), all[i].key};
		const MosqlReply *reply = run_one(clock, keys, lengthof(type), type, MOSQL_REPLY_STATUS);

		if (!mosql_bytes_equal(reply->str, text_bytes(all[i].type)) &&
			!mosql_bytes_equal(reply->str, LITERAL("none")))
			(void) run_one(clock, keys, lengthof(remove), remove, MOSQL_REPLY_INTEGER);
	}
}

/* What a counter is to be, that a reply says something of. */
static uint64
at_least(const MosqlReply *reply, int field, uint64 least)
{
	bool		ignored = true;

	return Max(some_number(mosql_step_elem(reply, field), &ignored), least);
}

/* As where another process takes over, the clock leaps: who began before is not decided (rule 16). */
static void
put_counters(Watch *watch, const MosqlReply *was, const MosqlClockState *least)
{
	uint64		leapt = at_least(was, 4, least->last);
	uint64		sid = at_least(was, 1, least->sid);

	mosql_commands_put(&watch->commands, LITERAL("HSET"), watch->keys.counter,
					   LITERAL("format"), LITERAL(MOSQL_CLOCK_FORMAT),
					   LITERAL("last"), mosql_clock_number(at_least(was, 0, leapt)),
					   LITERAL("sid"), mosql_clock_number(sid),
					   LITERAL("schema"), mosql_clock_number(Max(at_least(was, 2, least->schema), leapt)),
					   LITERAL("leapt"), mosql_clock_number(leapt),
					   LITERAL("took"), mosql_clock_number(least->now),
					   LITERAL("forgot"),	/* outcomes that were there are gone */
					   mosql_clock_number(sid));
}

void
mosql_clock_rebuild(MosqlStepper *clock, const MosqlClockState *least)
{
	Watch		watch = watch_start(clock, NULL);

	mosql_clock_check_format(clock);
	remove_foreign(clock, &watch.keys);
	for (;;)
	{
		const MosqlReply *reply;

		read_begin(&watch, watch.keys.counter, MOSQL_ABSENT);
		mosql_commands_put(&watch.commands, LITERAL("HMGET"), watch.keys.counter, LITERAL("last"),
						   LITERAL("sid"), LITERAL("schema"), LITERAL("format"), LITERAL("leapt"));
		read_run(&watch);
		reply = read_reply(&watch, 0);
		mosql_step_check(reply, MOSQL_REPLY_ARRAY, watch.keys.counter);
		if (is_foreign_format(mosql_reply_bytes(mosql_step_elem(reply, 3))))
			mosql_clock_refuse_format(&watch.keys, mosql_step_elem(reply, 3)->str);
		write_begin(&watch);
		put_counters(&watch, reply, least);
		if (write_run(&watch) == MOSQL_EXEC_DONE)
			return;
		start_over(&watch);
	}
}

/* The lease goes, and the index has the session end in the past: who tidies up finds it. */
MosqlTimestamp
mosql_clock_end_session(MosqlStepper *clock, uint64 sid)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, sid);

	for (;;)
	{
		MosqlBytes	lease;

		read_begin(&watch, session, MOSQL_ABSENT);
		mosql_commands_put(&watch.commands, LITERAL("HGET"), session, LITERAL("lease"));
		read_run(&watch);
		lease = mosql_reply_bytes(read_reply(&watch, 0));
		if (lease.data == NULL)
			return 0;
		write_begin(&watch);
		mosql_commands_put(&watch.commands, LITERAL("HDEL"), session, LITERAL("lease"));
		mosql_commands_put(&watch.commands, LITERAL("ZADD"), watch.keys.ends, LITERAL("1"),
						   mosql_clock_number(sid));
		if (write_run(&watch) == MOSQL_EXEC_DONE)
			return strtoull(copy_text(lease), NULL, 10);
		start_over(&watch);
	}
}

/*
 * The session's hash is watched: nobody declares it dead between the look at its lease and
 * the new one.
 */
bool
mosql_clock_extend(MosqlStepper *clock, uint64 sid, int lease_ms)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes	session = mosql_clock_session_key(&watch.keys, sid);

	for (;;)
	{
		uint64		length = (uint64) lease_ms * 1000;
		const MosqlReply *life;
		MosqlBytes	lease;
		uint64		span;
		uint64		left;

		read_begin(&watch, session, MOSQL_ABSENT);
		mosql_commands_put(&watch.commands, LITERAL("HMGET"), session, LITERAL("lease"), LITERAL("span"));
		read_run(&watch);
		life = read_reply(&watch, 0);
		lease = mosql_reply_bytes(mosql_step_elem(life, 0));
		if (is_dead(&watch, lease))
			return false;
		span = mosql_reply_u64(mosql_step_elem(life, 1));
		if (span > 0)
			length = Min(length, span);
		left = strtoull(copy_text(lease), NULL, 10) - watch.now;
		if (left > length / 4 * 3 && left <= length)
			return true;
		lease = mosql_clock_number(watch.now + length);
		write_begin(&watch);
		mosql_commands_put(&watch.commands, LITERAL("HSET"), session, LITERAL("lease"), lease);
		mosql_commands_put(&watch.commands, LITERAL("ZADD"), watch.keys.ends, lease,
						   mosql_clock_number(sid));
		if (write_run_as(&watch, false) == MOSQL_EXEC_DONE)
			return true;
		start_over(&watch);
	}
}

/* ---- who is there? ---- */

/* 0 for what is no time. */
static MosqlTimestamp
some_score(const MosqlReply *reply)
{
	double		score = reply->kind == MOSQL_REPLY_STRING ? strtod(copy_text(reply->str), NULL) : 0;

	return score >= 1 && score < (double) MOSQL_CLOCK_SCORES ? (MosqlTimestamp) score : 0;
}

static int
compare_sessions(const void *a, const void *b)
{
	return mosql_uint64_compare(&((const MosqlSessionState *) a)->sid,
								&((const MosqlSessionState *) b)->sid);
}

/* Of those that hold snapshots, each once per snapshot, and of those in the index. */
static int
collect_sessions(const MosqlReply *snapshots, const MosqlReply *ends, MosqlSessionState *sessions)
{
	bool		ignored = true;
	int			n = 0;
	int			kept = 0;

	for (int i = 0; i < ends->n; i++)
		sessions[n++] = (MosqlSessionState) {.sid = some_number(ends->elem[i], &ignored),.oldest = MOSQL_TS_MAX};
	for (int i = 0; i + 1 < snapshots->n; i += 2)
		sessions[n++] = (MosqlSessionState)
		{
			.sid = some_number(snapshots->elem[i], &ignored),.nsnapshots = 1,
			.oldest = some_score(snapshots->elem[i + 1])
		};
	qsort(sessions, n, sizeof(MosqlSessionState), compare_sessions);
	for (int i = 0; i < n; i++)
	{
		MosqlSessionState *last = kept > 0 ? &sessions[kept - 1] : NULL;

		if (last == NULL || last->sid != sessions[i].sid)
			sessions[kept++] = sessions[i];
		else
		{
			last->nsnapshots += sessions[i].nsnapshots;
			last->oldest = Min(last->oldest, sessions[i].oldest);
		}
	}
	return kept;
}

static void
read_session(MosqlSessionState *session, const MosqlReply *fields)
{
	bool		ignored = true;

	if (fields->kind != MOSQL_REPLY_ARRAY || fields->n != 3)
		return;
	session->lease = some_number(fields->elem[0], &ignored);
	session->span = some_number(fields->elem[1], &ignored);
	session->who = mosql_reply_bytes(fields->elem[2]);
}

int
mosql_clock_list_sessions(MosqlStepper *clock, MosqlSessionState **sessions, MosqlTimestamp *now)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBatch *batch = mosql_batch_create(clock->redis, CurrentMemoryContext);
	const MosqlReply *snapshots;
	const MosqlReply *ends;
	int			n;

	atomic_begin(&watch);
	mosql_commands_put(&watch.commands, LITERAL("ZRANGE"), watch.keys.snapshots, LITERAL("0"),
					   LITERAL("-1"), LITERAL("WITHSCORES"));
	mosql_commands_put(&watch.commands, LITERAL("ZRANGE"), watch.keys.ends, LITERAL("0"), LITERAL("-1"));
	(void) atomic_run(&watch, false);
	snapshots = mosql_step_elem(watch.exec, 1);
	ends = mosql_step_elem(watch.exec, 2);
	*now = watch.now;
	*sessions = palloc((ends->n + snapshots->n / 2 + 1) * sizeof(MosqlSessionState));
	n = collect_sessions(snapshots, ends, *sessions);
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	read[] = {
			LITERAL("HMGET"), mosql_clock_session_key(&watch.keys, (*sessions)[i].sid),
			LITERAL("lease"), LITERAL("span"), LITERAL("who")
		};

		mosql_batch_add(batch, watch.keys.slot, MOSQL_SEND_REPEATABLE, lengthof(read), read);
	}
	if (n > 0)
		mosql_batch_run(batch, NULL);
	for (int i = 0; i < n; i++)
	{
		(*sessions)[i].opened = mosql_clock_drawn((*sessions)[i].sid);
		read_session(&(*sessions)[i], mosql_batch_reply(batch, i, 0));
	}
	return n;
}

/*
 * See clock_keep.h.  Plain commands: nobody else registers any for the session, nor needs them.
 */
void
mosql_clock_release_all(MosqlStepper *clock, uint64 sid)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes	list[] = {LITERAL("ZRANGE"), keys.snapshots, LITERAL("0"), LITERAL("-1")};
	const MosqlReply *names = run_one(clock, &keys, lengthof(list), list, MOSQL_REPLY_ARRAY);
	MosqlBytes *argv = palloc((2 + names->n) * sizeof(MosqlBytes));
	bool		ignored = true;
	int			n = 0;

	argv[n++] = LITERAL("ZREM");
	argv[n++] = keys.snapshots;
	for (int i = 0; i < names->n; i++)
		if (some_number(names->elem[i], &ignored) == sid)
			argv[n++] = names->elem[i]->str;
	if (n > 2)
		(void) run_one(clock, &keys, n, argv, MOSQL_REPLY_INTEGER);
}

/* ---- is there anything to do? ---- */

MosqlTimestamp
mosql_clock_decided(MosqlStepper *clock, bool *held_back)
{
	Watch		watch = watch_start(clock, NULL);
	const MosqlReply *oldest;
	MosqlTimestamp decided;

	atomic_begin(&watch);
	mosql_commands_put(&watch.commands, LITERAL("HGET"), watch.keys.counter, LITERAL("decided"));
	mosql_commands_put(&watch.commands, LITERAL("ZRANGE"), watch.keys.snapshots, LITERAL("0"),
					   LITERAL("0"), LITERAL("WITHSCORES"));
	(void) atomic_run(&watch, false);
	decided = mosql_reply_u64(mosql_step_elem(watch.exec, 1));
	oldest = mosql_step_elem(watch.exec, 2);
	*held_back = oldest->n == 2 && mosql_clock_snapshot_time(&watch.keys, oldest->elem[1]) < decided;
	return decided;
}

/* ---- look again ---- */

/* Repeated it is raised twice, which is no harm. */
uint64
mosql_clock_raise_schema(MosqlStepper *clock)
{
	Watch		watch = watch_start(clock, NULL);

	write_begin(&watch);
	mosql_commands_put(&watch.commands, LITERAL("HINCRBY"), watch.keys.counter, LITERAL("schema"),
					   LITERAL("1"));
	run_atomic(&watch, true);
	return mosql_reply_u64(mosql_step_elem(watch.exec, 0));
}
