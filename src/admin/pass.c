/*
 * pass.c: one pass of maintenance over a namespace.
 *
 * Layer: admin.  The order:
 *
 *   sessions    forget those whose lease ran out; after that, nothing that they
 *               held back is held back any more
 *   commits     finish what dead sessions committed, the small ones
 *   dropped     destroy trees that transactions have given up
 *   vacuum      each tree, the definitions' own first; leaves of tables that are quiet are packed
 *   commits     the large ones: their leaves were just tidied
 *   sweep       nodes that nobody can reach
 *   sessions    once more: those that vacuum wrote "aborted" for
 *
 * Every step in it is a helper's step or compares what it relies on, so that
 * passes may run beside each other and any load, and may die anywhere; the next
 * one starts from the beginning.  The job at the clock (step/clock_keep.h) only
 * saves doing the work twice, and shows how far it is.
 *
 * When nothing was committed since the last pass found nothing to do, and no
 * snapshot kept anything from being done, an automatic pass ends after the
 * sessions and commits.  What aborted transactions may have left meanwhile is
 * looked for once in FULL_INTERVAL, and quiet leaves are packed then: what is locked or looked at
 * all the time without being changed would else be packed, and unpacked again, by each pass.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

#include "admin/maintain.h"
#include "base/debug.h"
#include "base/interrupt.h"
#include "base/limits.h"
#include "base/retry.h"
#include "step/clock_keep.h"

/* A full pass, and a sweep, at least so often. */
#define FULL_INTERVAL_US	(INT64CONST(3600) * 1000000)

/* Leaves per step of vacuum, at most; a page of the sweep counts as as many. */
#define BATCH_LEAVES		64
#define BATCHES_PER_S		10

/* Between two notes of how far we are. */
#define NOTE_INTERVAL_US	1000000

typedef struct Pass
{
	MosqlSession *session;
	MosqlStepper *clock;
	Oid			serverid;
	uint64		sid;			/* under which the job was taken */
	MosqlPassResult *result;
	bool		lost;			/* the job is somebody else's now */
	MosqlTimestamp now;			/* by the clock, when a pass that packs began; 0: this one does not */

	/* --- how far it is --- */
	const char *phase;
	const char *table;			/* NULL: none */
	uint64		done;
	int64		total;			/* -1: unknown */
	int64		noted_us;

	/* --- the pace --- */
	int64		due_us;			/* when the leaves so far are paid for */

	/* --- trees as they were counted last --- */
	int			nsizes;
	MosqlTreeSize *sizes;
} Pass;

/* A tree to go through. */
typedef struct PassTree
{
	uint64		root;
	const char *table;			/* NULL: the definitions */
	const MosqlDefinition *of;	/* its table's, if it is rows or an index that is ready; else NULL */
} PassTree;

const char *
mosql_pass_outcome_name(MosqlPassOutcome outcome)
{
	switch (outcome)
	{
		case MOSQL_PASS_DONE:
			return "done";
		case MOSQL_PASS_BUSY:
			return "busy";
		case MOSQL_PASS_RECENT:
			return "recent";
		case MOSQL_PASS_IDLE:
			return "idle";
		case MOSQL_PASS_TAKEN_OVER:
			return "taken over";
	}
	pg_unreachable();
}

/* ---- telling how far it is ---- */

/* The result as a JSON object, appended. */
static void
put_result(StringInfo out, const MosqlPassResult *result)
{
	const MosqlVacuumCounts *v = &result->vacuum;
	const struct
	{
		const char *name;
		uint64		count;
	}			counts[] = {
		{"sessions_expired", result->orphans.sessions},
		{"commits_finished", result->orphans.reaped},
		{"leaves", v->leaves},
		{"rows_pruned", v->rows_pruned},
		{"tombstones_purged", v->tombstones_purged},
		{"intents_applied", v->intents_applied},
		{"intents_removed", v->intents_removed},
		{"marks_removed", v->marks_removed},
		{"splits_finished", v->splits_finished},
		{"nodes_merged", v->leaves_merged},
		{"nodes_deleted", v->nodes_deleted},
		{"leaves_packed", v->packed.leaves},
		{"bytes_before_packing", v->packed.bytes_before},
		{"bytes_packed", v->packed.bytes_after},
		{"leaves_damaged", v->damaged}
	};

	appendStringInfoChar(out, '{');
	for (int i = 0; i < lengthof(counts); i++)
		appendStringInfo(out, "%s\"%s\": " UINT64_FORMAT, i > 0 ? ", " : "",
						 counts[i].name, counts[i].count);
	appendStringInfoChar(out, '}');
}

/* What the job says: src/admin/maintain.c shows it.  outcome: of ours, in ASCII, or an
 * error's message. */
static const char *
describe(const Pass *pass, const char *outcome)
{
	StringInfoData out;
	StringInfoData text;
	MosqlBytes	utf8;

	initStringInfo(&out);
	mosql_progress_describe(&out, pass->phase, pass->table, pass->done, pass->total);
	if (outcome != NULL)
	{
		initStringInfo(&text);
		escape_json(&text, outcome);
		utf8 = mosql_text_to_utf8(text.data, text.len);
		appendStringInfoString(&out, ", \"outcome\": ");
		appendBinaryStringInfo(&out, utf8.data, utf8.len);
	}
	appendStringInfoString(&out, ", \"result\": ");
	put_result(&out, pass->result);
	appendStringInfoChar(&out, '}');
	return out.data;
}

/*
 * Say how far it is, at most once a second.  Sets pass->lost.  55006 where the background worker stands in the way of
 * somebody else.
 */
static void
note(Pass *pass)
{
	int64		now = mosql_now_us();

	if (now - pass->noted_us < NOTE_INTERVAL_US)
		return;
	pass->noted_us = now;
	mosql_worker_give_way();
	if (mosql_session_id(pass->session) != pass->sid ||
		!mosql_clock_job_note(pass->clock, MOSQL_JOB_MAINTAIN, pass->sid, mosql_txn_lease_ms,
							  describe(pass, NULL)))
		pass->lost = true;
	else
		mosql_session_note_contact(pass->session);
}

static void
enter_phase(Pass *pass, const char *phase, const char *table, int64 total)
{
	pass->phase = phase;
	pass->table = table;
	pass->done = 0;
	pass->total = total;
	note(pass);
}

/* ---- the pace ---- */

/*
 * Some leaves were looked at: wait until the rate allows for the next ones.  Time
 * that was lost elsewhere is not made up for.
 */
static void
pace(Pass *pass, uint64 leaves)
{
	int64		now = mosql_now_us();

	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending && MyBackendType == B_BG_WORKER)	/* perhaps of the rate */
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	if (mosql_maintain_rate > 0)
	{
		pass->due_us = Max(pass->due_us, now) + (int64) (leaves * 1000000 / mosql_maintain_rate);
		while ((now = mosql_now_us()) < pass->due_us)
		{
			(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 (long) Min((pass->due_us - now + 999) / 1000, 1000),
							 PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
			note(pass);
		}
	}
	note(pass);
}

/* ---- trees ---- */

/*
 * All trees that definitions name now, and the definitions' own.  *damaged: how many
 * definitions cannot be read, whose trees are not among them.
 */
static int
list_trees(MosqlSession *session, PassTree **trees, int *damaged)
{
	MosqlDefinition *definitions;
	MosqlNamedSequence *sequences;
	int			ndefinitions;
	int			nsequences;
	int			max = 1;
	int			n = 0;

	*damaged = mosql_table_everything(session, &definitions, &ndefinitions, &sequences, &nsequences);
	max += nsequences;
	for (int i = 0; i < ndefinitions; i++)
		max += 1 + definitions[i].nindexes + definitions[i].ncolumns + 2 * definitions[i].nbuilds;
	*trees = palloc(max * sizeof(PassTree));
	(*trees)[n++] = (PassTree) {mosql_table_catalog_root(), NULL};
	for (int i = 0; i < ndefinitions; i++)
	{
		const MosqlDefinition *table = &definitions[i];
		const char *name = psprintf("%s.%s", table->schema, table->name);

		(*trees)[n++] = (PassTree) {table->root, name, table};
		for (int j = 0; j < table->nindexes; j++)
			(*trees)[n++] = (PassTree) {table->indexes[j].root, name, table};
		for (int j = 0; j < table->ncolumns; j++)
			if (table->columns[j].sequence.counter != 0)
				(*trees)[n++] = (PassTree) {table->columns[j].sequence.counter, name};
		for (int j = 0; j < table->nbuilds; j++)
		{
			(*trees)[n++] = (PassTree) {table->builds[j].index.root, name};
			(*trees)[n++] = (PassTree) {table->builds[j].log, name};
		}
	}
	for (int i = 0; i < nsequences; i++)
		(*trees)[n++] = (PassTree)
		{
			sequences[i].sequence.counter,
			psprintf("%s.%s", sequences[i].schema, sequences[i].name)
		};
	return n;
}

bool
mosql_maintain_names_tree(MosqlSession *session, uint64 root)
{
	PassTree   *trees;
	int			damaged;
	int			n = list_trees(session, &trees, &damaged);
	bool		named = damaged > 0;

	for (int i = 0; i < n; i++)
		named |= trees[i].root == root;
	return named;
}

static int64
last_size(const Pass *pass, uint64 root)
{
	for (int i = 0; i < pass->nsizes; i++)
		if (pass->sizes[i].root == root)
			return (int64) pass->sizes[i].leaves;
	return -1;
}

/* At a low rate small batches, so that the load is even. */
static int
batch_leaves(void)
{
	if (mosql_maintain_rate == 0)
		return BATCH_LEAVES;
	return Min(Max(mosql_maintain_rate / BATCHES_PER_S, 1), BATCH_LEAVES);
}

/* The next batch of a tree. */
typedef struct BatchWork
{
	Pass	   *pass;
	const PassTree *tree;
	MosqlPacking packing;
	StringInfo	position;
	int			single;			/* leaves still to be looked at one by one */
	bool		more;
	bool		warned;
} BatchWork;

/* A MosqlTreeWork. */
static void
vacuum_batch(void *arg)
{
	BatchWork  *work = arg;
	MosqlSession *session = work->pass->session;

	work->more = mosql_vacuum_tree(session, mosql_session_tree(session, work->tree->root),
								   work->position, work->single > 0 ? 1 : batch_leaves(),
								   work->packing, &work->pass->result->vacuum);
}

/* A MosqlTreeWork. */
static void
skip_leaf(void *arg)
{
	BatchWork  *work = arg;
	MosqlSession *session = work->pass->session;

	work->more = mosql_vacuum_skip(mosql_session_tree(session, work->tree->root), work->position);
}

/*
 * A batch met damage: its leaves are looked at one by one; one that fails alone is left
 * as it is, for mosql_fdw_check() and mosql_fdw_repair().  Nothing near damage is merged or
 * deleted: what does that fails like any search there.
 */
static void
pass_damage(BatchWork *work, const char *damage)
{
	if (work->single == 0)
	{
		work->single = batch_leaves();
		return;
	}
	work->pass->result->vacuum.damaged++;
	if (!work->warned)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("maintenance leaves out what is damaged of %s%s",
						work->tree->table ? "table " : "the definitions",
						work->tree->table ? work->tree->table : ""),
				 errdetail("%s", damage),
				 errhint("mosql_fdw_check() says what is damaged; see docs/repair.md.")));
	work->warned = true;
	if (mosql_session_try_tree_damage(skip_leaf, work, &damage) != MOSQL_TREE_SOUND)
		work->more = false;		/* the root itself */
}

/* One batch; a batch that fails leaves the position where it was. */
static void
run_batch(BatchWork *work)
{
	MosqlBytes	before = mosql_bytes_copy(CurrentMemoryContext, mosql_bytes_of(work->position));
	const char *damage;

	switch (mosql_session_try_tree_damage(vacuum_batch, work, &damage))
	{
		case MOSQL_TREE_SOUND:
			work->single = Max(work->single - 1, 0);
			break;
		case MOSQL_TREE_GONE:
			work->more = false;	/* dropped meanwhile */
			break;
		case MOSQL_TREE_DAMAGED:
			resetStringInfo(work->position);
			appendBinaryStringInfo(work->position, before.data, (int) before.len);
			pass_damage(work, damage);
			break;
	}
}

static void
vacuum_tree(Pass *pass, const PassTree *tree, MosqlPacking packing)
{
	MemoryContext batch = AllocSetContextCreate(CurrentMemoryContext, "mosql maintenance batch",
												ALLOCSET_DEFAULT_SIZES);
	StringInfoData position;
	BatchWork	work = {.pass = pass,.tree = tree,.packing = packing,.position = &position,.more = true};

	initStringInfo(&position);
	enter_phase(pass, "vacuum", tree->table, last_size(pass, tree->root));
	while (work.more && !pass->lost)
	{
		uint64		seen = pass->result->vacuum.leaves;
		MemoryContext old = MemoryContextSwitchTo(batch);
		uint64		leaves;

		run_batch(&work);
		MOSQL_DEBUG_POINT("maintain-vacuum");
		leaves = pass->result->vacuum.leaves - seen;
		pass->done += leaves;
		pace(pass, leaves);
		MemoryContextSwitchTo(old);
		MemoryContextReset(batch);
	}
	/* a pass goes through all trees there are: no cache of one outlives its turn */
	mosql_btree_forget(mosql_session_tree(pass->session, tree->root));
	if (!pass->lost)
		mosql_clock_put_size(pass->clock, tree->root, pass->done);
	pfree(position.data);
	MemoryContextDelete(batch);
}

/* ---- which leaves are packed ---- */

/* A table of this database, and what its options say. */
typedef struct PackedTable
{
	const char *schema;			/* in Redis */
	const char *name;
	int			after_s;		/* -1: never */
	MosqlCompression compression;
} PackedTable;

/* This database's tables on the server; those that somebody is changing are left for another pass. */
static List *
packed_tables(Oid serverid)
{
	List	   *tables = NIL;
	ListCell   *lc;

	foreach(lc, mosql_admin_server_tables(serverid))
	{
		PackedTable *table = palloc0(sizeof(PackedTable));
		Relation	rel;

		if (!ConditionalLockRelationOid(lfirst_oid(lc), AccessShareLock))
			continue;
		rel = try_table_open(lfirst_oid(lc), NoLock);
		if (rel != NULL)
		{
			mosql_table_remote_name(rel, &table->schema, &table->name);
			table->schema = pstrdup(table->schema);
			table->name = pstrdup(table->name);
			table->after_s = mosql_table_pack_after_s(RelationGetRelid(rel));
			table->compression = mosql_table_compression(RelationGetRelid(rel));
			tables = lappend(tables, table);
			table_close(rel, NoLock);
		}
		UnlockRelationOid(lfirst_oid(lc), AccessShareLock);
	}
	return tables;
}

/*
 * Which leaves of a tree are packed, and how.  Of several tables here that are one in Redis,
 * whose options differ, the most cautious counts.
 */
static MosqlPacking
tree_packing(const Pass *pass, const PassTree *tree, const List *tables)
{
	MosqlPacking none = {0};
	MosqlPacking packing = {0};
	ListCell   *lc;

	if (tree->of == NULL)
		return none;
	foreach(lc, tables)
	{
		const PackedTable *table = lfirst(lc);
		uint64		after_us = (uint64) Max(table->after_s, 0) * 1000000;
		bool		first = packing.before == 0;

		if (strcmp(table->schema, tree->of->schema) != 0 || strcmp(table->name, tree->of->name) != 0)
			continue;
		if (table->after_s < 0 || pass->now < after_us)
			return none;
		packing.before = first ? pass->now - after_us : Min(packing.before, pass->now - after_us);
		packing.how = first ? table->compression : Min(packing.how, table->compression);
	}
	return packing;
}

static void
vacuum_trees(Pass *pass)
{
	List	   *tables = pass->now > 0 ? packed_tables(pass->serverid) : NIL;
	PassTree   *trees;
	int			damaged;
	int			n = list_trees(pass->session, &trees, &damaged);
	uint64	   *gone;
	int			ngone = 0;

	pass->nsizes = mosql_clock_sizes(pass->clock, &pass->sizes);
	for (int i = 0; i < n && !pass->lost; i++)
		vacuum_tree(pass, &trees[i], tree_packing(pass, &trees[i], tables));

	gone = palloc(Max(pass->nsizes, 1) * sizeof(uint64));
	for (int s = 0; s < pass->nsizes; s++)
	{
		bool		found = false;

		for (int i = 0; i < n && !found; i++)
			found = trees[i].root == pass->sizes[s].root;
		if (!found)
			gone[ngone++] = pass->sizes[s].root;
	}
	if (damaged == 0)
		mosql_clock_drop_sizes(pass->clock, gone, ngone);
}

/* ---- trees that transactions have given up ---- */

/* Deleting so many nodes takes a server as long as looking at a leaf. */
#define NODES_PER_LEAF	10

/* A MosqlDestroyMore. */
static bool
go_on_destroying(void *arg, int nodes)
{
	Pass	   *pass = arg;

	pass->done += nodes;
	pass->result->vacuum.nodes_deleted += nodes;
	pace(pass, (nodes + NODES_PER_LEAF - 1) / NODES_PER_LEAF);
	return !pass->lost;
}

typedef struct ForgetWork
{
	MosqlStepper *clock;
	const char *name;
	uint64		sid;
} ForgetWork;

static void
forget_job(void *arg)
{
	const ForgetWork *work = arg;

	mosql_clock_job_forget(work->clock, work->name, work->sid);
}

/* See maintain.h. */
void
mosql_maintain_forget_job(MosqlStepper *clock, const char *name, uint64 sid)
{
	ForgetWork	work = {clock, name, sid};

	(void) mosql_do_quietly(forget_job, &work);
}

/*
 * Kill what is on the list and has no name.  If a definition cannot be read, nobody knows which
 * trees it names: then NULL, as if there were none.
 */
static MosqlGarbage *
kill_dropped(Pass *pass)
{
	MosqlGarbage *garbage = mosql_garbage_begin(pass->session);
	PassTree   *trees;
	uint64	   *named;
	int			damaged;
	int			n;

	if (garbage == NULL)
		return NULL;
	n = list_trees(pass->session, &trees, &damaged);
	if (damaged > 0)
		return NULL;
	named = palloc(n * sizeof(uint64));
	for (int i = 0; i < n; i++)
		named[i] = trees[i].root;
	MOSQL_DEBUG_POINT("maintain-garbage-read");
	if (!mosql_clock_job_note(pass->clock, MOSQL_JOB_GARBAGE, pass->sid, mosql_txn_lease_ms, describe(pass, NULL)))
		return NULL;			/* we were paused, and somebody may have attached one of them since */
	mosql_garbage_kill(garbage, named, n, &pass->result->vacuum);
	return garbage;
}

/*
 * Who attaches such a tree again has the job meanwhile: it takes as long as killing the roots
 * does, not destroying the trees.  If it is somebody's, this is for the next pass.
 */
static void
destroy_dropped(Pass *pass)
{
	MosqlGarbage *volatile garbage = NULL;
	MosqlJob	other;

	if (mosql_garbage_begin(pass->session) == NULL)
		return;
	enter_phase(pass, "dropped tables", NULL, -1);
	if (!mosql_clock_job_start(pass->clock, MOSQL_JOB_GARBAGE, pass->sid, mosql_txn_lease_ms,
							   describe(pass, NULL), &other))
		return;
	PG_TRY();
	{
		garbage = kill_dropped(pass);
	}
	PG_FINALLY();
	{
		mosql_maintain_forget_job(pass->clock, MOSQL_JOB_GARBAGE, pass->sid);
	}
	PG_END_TRY();
	if (garbage != NULL)
		mosql_garbage_destroy(garbage, go_on_destroying, pass);
}

/* ---- nodes that nobody can reach ---- */

static bool
find_job(Pass *pass, const char *name, MosqlJob *job)
{
	MosqlJob   *jobs;
	int			n = mosql_clock_jobs(pass->clock, &jobs);

	for (int i = 0; i < n; i++)
		if (strcmp(jobs[i].name, name) == 0)
		{
			*job = jobs[i];
			return true;
		}
	return false;
}

/* Was the job ended a short while ago?  What is of a time to come was ended when the server's time was ahead. */
static bool
is_recent(const MosqlJob *job, int64 within_us)
{
	return job->updated <= job->now && job->now - job->updated < (uint64) within_us;
}

static bool
swept_recently(Pass *pass)
{
	MosqlJob	job;

	return find_job(pass, MOSQL_JOB_SWEEP, &job) && !job.running && is_recent(&job, FULL_INTERVAL_US);
}

/* A MosqlDestroyMore: trees that the sweep destroys are paid for as its pages are. */
static bool
go_on_sweeping(void *arg, int nodes)
{
	Pass	   *pass = arg;

	pass->result->vacuum.nodes_deleted += nodes;
	pace(pass, (nodes + NODES_PER_LEAF - 1) / NODES_PER_LEAF);
	return !pass->lost;
}

/*
 * The definitions are listed after the sweep began, as it asks for.  If one of them cannot
 * be read, nobody knows which trees it names: then no sweep.
 */
static void
sweep_nodes(Pass *pass)
{
	MosqlSweep *sweep = mosql_sweep_begin(pass->session);
	PassTree   *trees;
	uint64	   *roots;
	int			damaged;
	int			n = list_trees(pass->session, &trees, &damaged);
	bool		more = damaged == 0;

	pass->result->vacuum.damaged += damaged;
	if (damaged == 0)
		mosql_table_refresh_labels(pass->session);
	roots = palloc(n * sizeof(uint64));
	for (int i = 0; i < n; i++)
		roots[i] = trees[i].root;
	mosql_sweep_roots(sweep, roots, n);
	while (more && !pass->lost)
	{
		more = mosql_sweep_next(sweep, go_on_sweeping, pass, &pass->result->vacuum);
		MOSQL_DEBUG_POINT("maintain-sweep");
		pass->done = pass->result->vacuum.nodes_scanned;
		pace(pass, BATCH_LEAVES);
	}
	mosql_sweep_end(sweep);
}

/* Sweep, unless somebody else does.  What was not finished does not count as done. */
static void
sweep(Pass *pass)
{
	MosqlJob	other;

	enter_phase(pass, "sweep", NULL, -1);
	if (!mosql_clock_job_start(pass->clock, MOSQL_JOB_SWEEP, pass->sid, mosql_txn_lease_ms,
							   describe(pass, NULL), &other))
		return;
	PG_TRY();
	{
		sweep_nodes(pass);
	}
	PG_CATCH();
	{
		mosql_maintain_forget_job(pass->clock, MOSQL_JOB_SWEEP, pass->sid);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (pass->lost)
		mosql_maintain_forget_job(pass->clock, MOSQL_JOB_SWEEP, pass->sid);
	else
		mosql_clock_job_end(pass->clock, MOSQL_JOB_SWEEP, pass->sid, mosql_txn_lease_ms, 0,
							describe(pass, mosql_pass_outcome_name(MOSQL_PASS_DONE)));
}

/* ---- the pass ---- */

static bool
has_worked(const MosqlPassResult *result)
{
	const MosqlVacuumCounts *v = &result->vacuum;

	return result->orphans.sessions + result->orphans.reaped + result->orphans.postponed +
		v->rows_pruned + v->tombstones_purged + v->intents_applied + v->intents_removed +
		v->marks_removed + v->splits_finished + v->leaves_merged + v->nodes_deleted > 0;
}

/*
 * The work.  Returns what the next pass may compare the last commit with: its
 * timestamp if this one found nothing to do and nothing held back, else 0.
 */
static uint64
run(Pass *pass, bool automatic, const MosqlJob *last)
{
	MosqlPassResult *result = pass->result;
	bool		held_back;
	MosqlTimestamp decided = mosql_clock_decided(pass->clock, &held_back);
	bool		full = !automatic || !swept_recently(pass);
	MosqlJob	own;

	enter_phase(pass, "sessions", NULL, -1);
	mosql_orphans_forget(pass->session, &result->orphans);
	MOSQL_DEBUG_POINT("maintain-forgot");
	enter_phase(pass, "commits", NULL, -1);
	mosql_orphans_finish(pass->session, false, &result->orphans);
	destroy_dropped(pass);
	if (!pass->lost && mosql_txn_may_chain(pass->session) && !IsolationUsesXactSnapshot())
		(void) mosql_table_drop_dead_builds(pass->session);
	if (automatic && last != NULL && decided != 0 && last->mark == decided && !held_back &&
		!has_worked(result) && !full)
	{
		result->outcome = MOSQL_PASS_IDLE;
		return decided;
	}
	if (full && find_job(pass, MOSQL_JOB_MAINTAIN, &own))
		pass->now = Max(own.now, decided + 1);	/* versions may be ahead of the time */
	if (!pass->lost)
		vacuum_trees(pass);
	if (!pass->lost && result->orphans.postponed > 0)
	{
		enter_phase(pass, "commits", NULL, -1);
		mosql_orphans_finish(pass->session, true, &result->orphans);
		destroy_dropped(pass);
	}
	if (!pass->lost && full)
		sweep(pass);
	if (!pass->lost)
		mosql_orphans_forget(pass->session, &result->orphans);	/* aborted on the way */
	result->outcome = pass->lost ? MOSQL_PASS_TAKEN_OVER : MOSQL_PASS_DONE;
	return held_back || has_worked(result) ? 0 : decided;
}

typedef struct Failure
{
	Pass	   *pass;
	const char *message;
} Failure;

/* The pass failed: say so, if the clock can be reached; then others may try. */
static void
note_failure(void *arg)
{
	const Failure *failure = arg;
	Pass	   *pass = failure->pass;

	mosql_clock_job_end(pass->clock, MOSQL_JOB_MAINTAIN, pass->sid, mosql_txn_lease_ms, 0,
						describe(pass, psprintf("failed: %s", failure->message)));
}

static void
run_guarded(Pass *pass, bool automatic, const MosqlJob *last)
{
	MemoryContext caller = CurrentMemoryContext;
	uint64		mark = 0;

	PG_TRY();
	{
		mark = run(pass, automatic, last);
	}
	PG_CATCH();
	{
		ErrorData  *error;
		Failure		failure = {pass};

		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		failure.message = error->message;
		(void) mosql_do_quietly(note_failure, &failure);
		ReThrowError(error);
	}
	PG_END_TRY();
	if (!pass->lost)
		mosql_clock_job_end(pass->clock, MOSQL_JOB_MAINTAIN, pass->sid, mosql_txn_lease_ms, mark,
							describe(pass, mosql_pass_outcome_name(pass->result->outcome)));
}

void
mosql_maintain_pass(Oid serverid, MosqlSession *session, bool automatic, MosqlPassResult *result)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql maintenance",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	int64		start_us = mosql_now_us();
	Pass		pass = {.session = session,.serverid = serverid,.result = result,.total = -1};
	MosqlJob	last;
	MosqlJob	other;
	bool		any;

	memset(result, 0, sizeof(*result));
	(void) mosql_txn_current(session);	/* a live session id, until the end */
	pass.clock = mosql_session_stepper(session);
	pass.sid = mosql_session_id(session);
	pass.phase = "start";
	any = find_job(&pass, MOSQL_JOB_MAINTAIN, &last);
	if (any && !last.running && automatic && is_recent(&last, (int64) mosql_maintain_naptime_s * 900000))
		result->outcome = MOSQL_PASS_RECENT;
	else if (!mosql_clock_job_start(pass.clock, MOSQL_JOB_MAINTAIN, pass.sid, mosql_txn_lease_ms,
									describe(&pass, NULL), &other))
		result->outcome = MOSQL_PASS_BUSY;
	else
	{
		mosql_session_note_contact(session);
		MOSQL_DEBUG_POINT("maintain-started");
		run_guarded(&pass, automatic, any && !last.running ? &last : NULL);
	}
	result->seconds = (double) (mosql_now_us() - start_us) / 1e6;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}
