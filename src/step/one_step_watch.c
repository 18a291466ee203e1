/*
 * one_step_watch.c: a commit that is one step, by WATCH.
 *
 * Layer: step.  Two groups of commands on one connection of a plain Redis, where all keys are:
 *
 *     read   UNWATCH, WATCH counter, session, leaves; TIME; what the clock and each leaf has
 *     write  MULTI, the counter, the record, rows as they are to be; EXEC
 *
 * Compares, timestamp and rows are made here in between.  What was read is as of one moment, that
 * of EXEC, if EXEC does anything: WATCH stands before all reads, and nil is answered if a key of
 * these was written since.  See watch.c for what is behind UNWATCH and the pin.
 *
 * The timestamp is chosen before MULTI, and holds only as long as nobody draws one: whoever registers
 * a snapshot, or decides, makes EXEC fail.  So it is tried some times, and left to the ordinary way then.
 *
 * Race -- a snapshot is registered after they were read: that writes the counter.  The set of them is
 * not watched: one that is released meanwhile makes a row keep more than is needed.
 *
 * Race -- the lease ends between the groups, which writes nothing: the step counts as made when it was
 * read.  Nobody goes by the end of a lease but who writes the session's hash first, which is watched.
 *
 * Race -- EXEC arrives late, when its sender has lost the connection and settled (36): then it wrote
 * "aborted" there, or found the lease over, and said that nobody knows.
 */
#include "base/debug.h"
#include "code/node.h"
#include "step/clock_watch_int.h"
#include "step/one_step.h"

/*
 * Each takes two round trips, and the ordinary way six and more, with others in its way as well: so a try pays as long
 * as one in a few succeeds (bench/README.md).
 */
#define MOST_TRIES	8

/* A leaf's step. */
typedef struct Leaf
{
	MosqlStep  *step;			/* as it was given */
	MosqlStep	wide;			/* the same, which reads as well what its rows depend on besides their fields */
	MosqlBytes	key;
	int			at;				/* its reply */
	bool		purges;
	int			nwrites;		/* what is to be written, */
	MosqlWrite *writes;
	int			nolds;			/* and what the fields have of those writes that depend on it */
	MosqlBytes *olds;
} Leaf;

/* One commit under way. */
typedef struct AtOnce
{
	Watch		watch;
	const MosqlDecideArgs *args;
	WatchDecision decision;
	MosqlTimestamp ts;
	MosqlSnapshotList list;
	int			n;
	Leaf	   *leaves;
	int			counts;			/* of EXEC's replies, the first that is a leaf's number of fields */
	MosqlDecision refused;		/* by the clock; else AT_ONCE */
} AtOnce;

/* What has to be known of a leaf, besides the row, for a write: the increments in flight, or the purge mark. */
static MosqlBytes
also_reads(const MosqlWrite *write)
{
	StringInfoData name;

	if (write->kind == MOSQL_WRITE_TOMBSTONE)
		return MOSQL_PURGED_FIELD;
	if (write->kind != MOSQL_WRITE_INCREMENT)
		return MOSQL_ABSENT;
	mosql_string_init(&name, write->field.len);
	mosql_field_put(&name, MOSQL_FIELD_INTENT, mosql_bytes(write->field.data + 1, write->field.len - 1));
	return mosql_bytes_of(&name);
}

static void
start_leaf(const AtOnce *all, Leaf *leaf, MosqlStep *step)
{
	leaf->step = step;
	leaf->key = mosql_step_key(all->watch.clock, step->node);
	leaf->wide = *step;
	leaf->wide.reads = palloc((step->nreads + step->nwrites + 1) * sizeof(MosqlBytes));
	memcpy(leaf->wide.reads, step->reads, step->nreads * sizeof(MosqlBytes));
	for (int i = 0; i < step->nwrites; i++)
	{
		MosqlBytes	field = also_reads(&step->writes[i]);

		if (field.data != NULL)
			leaf->wide.reads[leaf->wide.nreads++] = field;
	}
	leaf->writes = palloc((2 * step->nwrites + 1) * sizeof(MosqlWrite));
	leaf->olds = palloc((2 * step->nwrites + 1) * sizeof(MosqlBytes));
}

/* ---- the read group ---- */

static void
add_reads(AtOnce *all)
{
	Watch	   *watch = &all->watch;
	MosqlBytes *keys = palloc((2 + all->n) * sizeof(MosqlBytes));

	keys[0] = watch->keys.counter;
	keys[1] = mosql_clock_session_key(&watch->keys, all->args->tx.session);
	for (int i = 0; i < all->n; i++)
		keys[2 + i] = all->leaves[i].key;
	read_begin_on(watch, keys, 2 + all->n);
	mosql_watch_add_decision(watch, all->args, &all->decision);
	mosql_watch_add_snapshots(watch, all->args->all_snapshots);
	for (int i = 0; i < all->n; i++)
	{
		all->leaves[i].at = watch->commands.n;
		(void) mosql_watch_add_reads(&watch->commands, &all->leaves[i].wide, all->leaves[i].key);
	}
}

/* False: something in it was answered by an error, which the ordinary way will meet. */
static bool
read_keys(AtOnce *all)
{
	Watch	   *watch = &all->watch;

	add_reads(all);
	run_group(watch, MOSQL_SEND_REPEATABLE, 0, false);
	for (int i = 0; i < watch->commands.n; i++)
		if (mosql_batch_reply(watch->batch, watch->group, i)->kind == MOSQL_REPLY_ERROR)
			return false;
	read_done(watch);
	mosql_watch_read_decision(watch, all->args, &all->decision);
	return true;
}

/* The timestamp, and the snapshots as of then.  False: the clock refuses, or is to be taken over first. */
static bool
draw_time(AtOnce *all)
{
	Watch	   *watch = &all->watch;
	const Issued *issued = &all->decision.issued;

	if (issued->foreign || all->decision.record.state == MOSQL_RECORD_COMMITTED)
		return false;
	all->refused = mosql_watch_judge_decision(watch, all->args, &all->decision);
	if (all->refused != MOSQL_DECIDED)
		return false;
	all->refused = MOSQL_REFUSED_AT_ONCE;
	all->list = mosql_watch_read_list(watch, mosql_step_elem(read_reply(watch, 0), 0),
									  read_reply(watch, DECISION_COMMANDS), read_reply(watch, DECISION_COMMANDS + 1),
									  all->args->all_snapshots);
	all->ts = mosql_clock_time(&watch->keys, Max(watch->now, issued->last + 1));
	all->list.last = all->ts;	/* none is registered before EXEC */
	return true;
}

static bool
leaf_holds(const AtOnce *all, Leaf *leaf)
{
	MosqlStep  *step = leaf->step;
	const MosqlReply *fields = mosql_batch_reply(all->watch.batch, all->watch.group, leaf->at);

	mosql_step_check(fields, MOSQL_REPLY_ARRAY, leaf->key);
	mosql_watch_evaluate(&leaf->wide, fields);
	if (leaf->wide.status == MOSQL_STEP_DONE)
		return true;
	step->status = MOSQL_STEP_FAILED;
	step->failed = leaf->wide.failed;
	step->values = leaf->wide.values;
	return false;
}

/* ---- rows ---- */

static void
add_write(Leaf *leaf, MosqlWrite write, MosqlBytes old)
{
	leaf->writes[leaf->nwrites++] = write;
	if (write.kind != MOSQL_WRITE_SET && write.kind != MOSQL_WRITE_DELETE)
		leaf->olds[leaf->nolds++] = old;
}

/*
 * A row gets its version.  Not one that is long where the list has a gap, for which the ordinary way
 * asks for all snapshots (decide.c).
 */
static bool
add_version(const AtOnce *all, Leaf *leaf, MosqlBytes field, MosqlBytes old, bool live, MosqlBytes columns,
			MosqlBytes purged)
{
	MosqlVersion version = {.ts = all->ts,.end = MOSQL_TS_MAX,.live = live,.columns = columns};
	MosqlWrite	writes[2];
	int			n;

	if (all->list.gap_to > 0 &&
		(old.len > MOSQL_ROW_LONG_BYTES || mosql_row_is_long(old, MOSQL_ROW_LONG_VERSIONS)))
		return false;
	n = mosql_step_supersede(field, old, &version, &all->list, writes);
	if (n > 0)
		add_write(leaf, writes[0], MOSQL_ABSENT);
	if (n > 1 && !leaf->purges)
		add_write(leaf, writes[1], purged);
	leaf->purges |= n > 1;
	return n > 0;
}

/* Do they fit, whichever of those in flight commit? */
static bool
increments_fit(MosqlBytes columns, const MosqlIncrement *inc, int ninc, MosqlBytes intents)
{
	for (int i = 0; i < ninc; i++)
	{
		MosqlTxid	other;
		int64		plus,
					minus;

		if (!mosql_intents_sum(intents, inc[i].column, &plus, &minus, &other) ||
			!mosql_increment_fits(columns, &inc[i], plus) || !mosql_increment_fits(columns, &inc[i], minus))
			return false;
	}
	return true;
}

static bool
add_increments(const AtOnce *all, Leaf *leaf, const MosqlWrite *write, MosqlBytes old, MosqlBytes intents)
{
	MosqlIncrement *inc;
	int			ninc = mosql_step_read_increment(write->value, &inc);
	MosqlVersion newest;
	StringInfoData columns;

	if (!mosql_row_newest(old, &newest) || !increments_fit(newest.columns, inc, ninc, intents))
		return false;
	mosql_string_init(&columns, newest.columns.len);
	return mosql_columns_increment(&columns, newest.columns, inc, ninc) == MOSQL_INCREMENT_OK &&
		add_version(all, leaf, write->field, old, true, mosql_bytes_of(&columns), MOSQL_ABSENT);
}

/* What is to be written, of what was read.  False if that is better done in more than one step. */
static bool
make_rows(const AtOnce *all, Leaf *leaf)
{
	const MosqlStep *step = leaf->step;
	const MosqlBytes *beside = leaf->wide.values + step->nreads;
	const MosqlBytes *olds = leaf->wide.values + leaf->wide.nreads;
	MosqlBytes	brought = MOSQL_ABSENT; /* what the row of the next write is, where it is no field */
	bool		made = true;

	leaf->nwrites = leaf->nolds = 0;
	leaf->purges = false;
	for (int i = 0; i < step->nwrites && made; i++)
	{
		const MosqlWrite *write = &step->writes[i];
		MosqlBytes	old = olds[i].data != NULL ? olds[i] : brought;

		brought = MOSQL_ABSENT;
		if (write->kind == MOSQL_WRITE_MAX)
			brought = write->value;
		else if (write->kind == MOSQL_WRITE_UNLIST)
			add_write(leaf, *write, old);
		else if (write->kind == MOSQL_WRITE_VERSION)
			made = add_version(all, leaf, write->field, old, true, write->value, MOSQL_ABSENT);
		else if (write->kind == MOSQL_WRITE_TOMBSTONE)
			made = add_version(all, leaf, write->field, old, false, mosql_bytes("", 0), *beside++);
		else
		{
			Assert(write->kind == MOSQL_WRITE_INCREMENT);
			made = add_increments(all, leaf, write, old, *beside++);
		}
	}
	return made;
}

/* Is it to be done, as far as can be seen?  Then all is made. */
static bool
plan_step(AtOnce *all)
{
	if (!read_keys(all) || !draw_time(all))
		return false;
	for (int i = 0; i < all->n; i++)
		if (!leaf_holds(all, &all->leaves[i]))
			return false;
	for (int i = 0; i < all->n; i++)
		if (!make_rows(all, &all->leaves[i]))
			return false;
	return true;
}

/* ---- the write group ---- */

static MosqlExec
write_keys(AtOnce *all)
{
	Watch	   *watch = &all->watch;

	write_begin(watch);
	mosql_watch_write_decision(watch, all->args, &all->decision, all->ts, all->decision.issued.schema);
	for (int i = 0; i < all->n; i++)
	{
		const Leaf *leaf = &all->leaves[i];

		(void) mosql_watch_add_writes(&watch->commands, leaf->key, leaf->writes, leaf->nwrites, leaf->olds);
	}
	all->counts = watch->commands.n - 1;	/* MULTI has no reply there */
	for (int i = 0; i < all->n; i++)
		if (!all->leaves[i].step->no_count)
			mosql_commands_put(&watch->commands, LITERAL("HLEN"), all->leaves[i].key);
	return write_run(watch);
}

/* Committed: nothing throws.  A count that is not there is not known. */
static void
answer_steps(const AtOnce *all)
{
	const MosqlReply *exec = all->watch.exec;
	int			at = all->counts;

	for (int i = 0; i < all->n; i++)
	{
		MosqlStep  *step = all->leaves[i].step;

		step->status = MOSQL_STEP_DONE;
		step->values = all->leaves[i].wide.values;
		step->nfields = step->no_count ? 0 : at < exec->n ? (int) exec->elem[at]->integer : -1;
		at += !step->no_count;
	}
}

MosqlDecision
mosql_clock_commit_by_watch(MosqlStepper *clock, const MosqlDecideArgs *args, MosqlStep **steps, int nsteps,
							MosqlTimestamp *ts, MosqlSnapshotList *list, uint64 *schema, MosqlBudget *budget)
{
	AtOnce		all = {.watch = watch_start(clock, budget),.args = args,.n = nsteps,.refused = MOSQL_REFUSED_AT_ONCE};

	all.watch.once = true;
	all.leaves = palloc0(Max(nsteps, 1) * sizeof(Leaf));
	for (int i = 0; i < nsteps; i++)
		start_leaf(&all, &all.leaves[i], steps[i]);
	for (int tries = 1; tries <= MOST_TRIES; tries++)
	{
		*ts = 0;				/* nothing is written yet */
		if (!plan_step(&all))
			break;
		MOSQL_DEBUG_POINT("one-step-read");
		*ts = all.ts;
		switch (write_keys(&all))
		{
			case MOSQL_EXEC_DONE:
				*list = all.list;
				*schema = all.decision.issued.schema;
				answer_steps(&all);
				return MOSQL_DECIDED;
			case MOSQL_EXEC_LOST:
				return MOSQL_DECISION_LOST;
			case MOSQL_EXEC_CONFLICT:
				mosql_stats.step_retries++;
				break;
			case MOSQL_EXEC_RESTART:
				break;
		}
		if (tries < MOST_TRIES && !mosql_budget_pause(&all.watch.own))
			break;
	}
	*ts = 0;
	if (all.refused != MOSQL_REFUSED_AT_ONCE)
		*schema = all.decision.issued.schema;
	return all.refused;
}
