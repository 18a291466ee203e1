/*
 * build.c: CREATE INDEX while others go on writing.
 *
 * Layer: table.  One command, a row of transactions:
 *
 *     publish    the definition says that an index is being built: whoever writes
 *                to the table logs what that changes in the index (build_log.c)
 *     scan       the table as of a snapshot, sorted by the index's order
 *     load       the entries into a tree of the index, leaf by leaf, each left full
 *     catch up   read the log as of a later snapshot, do to the tree what it says
 *                since the one before; again, until little was left
 *     close      the definition says that nobody may write: writers wait
 *     finish     catch up for the last time; the definition says that it is an index
 *
 * finish is part of the transaction that the caller commits.  Nobody but the builder
 * touches the index's tree before that is decided.
 *
 * Nothing is lost.  Decide compares the schema version, so who decides after publish
 * knows of the build, and has logged.  Who decided before it is seen by the scan's
 * snapshot, which is drawn later.  A change that is seen by the scan and logged, too, has
 * a version up to that snapshot, and is skipped.  Who decides after close knows that,
 * and has not written (mosql_table_open_for_write() waits, build_log.c makes sure);
 * what was decided before close is seen by the snapshot of the last catching up.  Who
 * decides after finish knows the index.  No lease and no clock is waited for: the price
 * is that transactions which are writing to the table at publish, or at close, fail
 * once with 40001.
 *
 * Duplicates.  The tree is the index as of one snapshot after the other, each change
 * in the order of the transactions' timestamps, and of their commands.  So what is
 * found twice was there twice: 23505, also if only between two commands of one
 * transaction.
 *
 * The builder fails, or is cancelled: its transaction is rolled back, and the hook
 * below takes the build out of the definition, in a transaction of its own.  It dies:
 * maintenance does that when its session's lease is over, or mosql_fdw_gc(), or the next
 * CREATE INDEX.  Until then writers go on logging; if it died closing, they fail, with
 * 55P03 and then 40001.  Whoever changes the table so that the index would no longer
 * fit takes builds out as well: then the builder does not find its own, and fails.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/tuptable.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/debug.h"
#include "base/retry.h"
#include "step/clock_keep.h"
#include "table/table_int.h"

/* Entries between two looks at the lease while loading; changes per transaction while
 * catching up, or as many as one should have bytes. */
#define LOAD_ENTRIES		20000
#define CATCH_UP_CHANGES	5000

/* So few changes are left for the time when writers wait; but who writes faster than
 * we follow is not waited for for ever. */
#define FEW_CHANGES			500
#define MAX_ROUNDS			20

/* To take away what a rolled back command leaves. */
#define DROP_TRIES			5

/* Between two notes of how far we are. */
#define NOTE_INTERVAL_US	1000000

/* What the name of its job begins with. */
#define BUILD_JOB			"create index "

/* While writers wait they look so often whether the builder is alive. */
#define CHECK_INTERVAL_US	1000000

/*
 * Which build, for those who take it away: in the bytes that are sent, for a
 * transaction that is being rolled back cannot look up how to convert characters.
 */
typedef struct BuildName
{
	MosqlSession *session;
	MosqlBytes	key;			/* of the table in the catalog */
	const char *job;			/* its name */
	uint64		log;			/* no other build has this one */
	uint64		builder;
	bool		dead;			/* it was found so: of another one the build stays */
} BuildName;

struct MosqlBuild
{
	Relation	rel;
	MosqlSession *session;
	const MosqlDefinitionIndex *index;
	bool		exclusion;
	const char *schema;
	const char *table;
	BuildName	name;
	uint64		root;			/* of the index's tree */
	MosqlTimestamp base;		/* the tree is the index as of this snapshot */
	MosqlSorter *sorter;
	uint64		load_breaks;	/* of mosql_load_end() */

	/* --- progress --- */
	const char *phase;
	uint64		done;
	int64		total;			/* -1: unknown */
	int64		noted_us;		/* 0: not in this phase yet */
	uint64		rows_seen;		/* by note(), which asks for the time now and then */
};

/* To be taken away if PostgreSQL's transaction is rolled back; in its memory. */
static BuildName *doomed = NULL;

static BuildName
name_build(MosqlSession *session, const char *schema, const char *table, const char *index)
{
	const char *text = psprintf(BUILD_JOB "%s.%s", schema, index);
	MosqlBytes	utf8 = mosql_text_to_utf8(text, strlen(text));

	return (BuildName)
	{
		.session = session,.key = mosql_catalog_key(schema, table),
			.job = pnstrdup(utf8.data, utf8.len)
	};
}

/* ---- the definition ---- */

static void
report_taken_away(const MosqlBuild *build)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not create index \"%s\" due to a concurrent change of the table",
					build->index->name),
			 errdetail("Another server changed its columns or truncated it, or took this one for dead."),
			 errhint("Create the index again.")));
}

static int
find_build(const MosqlDefinition *definition, uint64 log)
{
	for (int i = 0; definition != NULL && i < definition->nbuilds; i++)
		if (definition->builds[i].log == log)
			return i;
	return -1;
}

static void
remove_build(MosqlDefinition *definition, int at)
{
	memmove(&definition->builds[at], &definition->builds[at + 1],
			(definition->nbuilds - at - 1) * sizeof(MosqlDefinitionBuild));
	definition->nbuilds--;
}

/* The definition, which has our build at *at; 40001 if somebody took it away. */
static MosqlDefinition *
own_definition(const MosqlBuild *build, int *at)
{
	MosqlDefinition *definition = mosql_table_definition(build->session, build->schema,
														 build->table);

	*at = find_build(definition, build->name.log);
	if (*at < 0)
		report_taken_away(build);
	return definition;
}

static void
write_definition(const MosqlBuild *build, MosqlDefinition *definition)
{
	mosql_definition_update(build->session, definition);
	CacheInvalidateRelcache(build->rel);
}

/* ---- progress ---- */

static const char *
describe(const MosqlBuild *build)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_progress_describe(&out, build->phase,
							psprintf("%s.%s", build->schema, build->table),
							build->done, build->total);
	appendStringInfoChar(&out, '}');
	return out.data;
}

/*
 * Say how far it is, at most once a second.  It extends the lease, too.  To ask for the time takes
 * a twentieth of what a row does: every 64th does.
 */
static void
note(MosqlBuild *build)
{
	int64		now;
	char	   *text;

	if (build->rows_seen++ % 64 != 0 && build->noted_us != 0)
		return;
	now = mosql_now_us();
	if (now - build->noted_us < NOTE_INTERVAL_US)
		return;
	build->noted_us = now;
	text = unconstify(char *, describe(build));
	if (mosql_clock_job_note(mosql_session_stepper(build->session), build->name.job,
							 build->name.builder, mosql_txn_lease_ms, text))
		mosql_session_note_contact(build->session);
	pfree(text);
}

static void
enter_phase(MosqlBuild *build, const char *phase, int64 total)
{
	build->phase = phase;
	build->done = 0;
	build->total = total;
	build->noted_us = 0;
	note(build);
}

/* ---- taking a build away ---- */

/* In a transaction of its own; nothing happens if it is not there. */
static bool
drop_build(const BuildName *name)
{
	MosqlTxn   *txn = mosql_txn_chain(name->session);
	MosqlTree  *catalog = mosql_catalog_tree(name->session);
	MosqlView  *view = mosql_view_open(txn, name, GetCurrentCommandId(false), true);
	MosqlRow	row = {0};
	MosqlBuildCut cut = {0};

	mosql_view_get(view, catalog, &name->key, 1, &row);
	mosql_view_close(view);
	if (row.found)
		cut = mosql_definition_cut_build(row.columns, name->log);
	if (cut.found && name->dead && cut.session != name->builder)
		return false;			/* it goes on under another id */
	mosql_clock_job_forget(mosql_session_stepper(name->session), name->job, name->builder);
	if (!cut.found)
		return false;
	mosql_txn_drops_tree(txn, name->log);
	mosql_txn_drops_tree(txn, cut.root);
	(void) mosql_txn_update(txn, catalog, name->key, row.version, cut.bytes,
							GetCurrentCommandId(true));
	mosql_txn_changes_schema(txn);
	(void) mosql_txn_chain(name->session);
	return true;
}

static void
forget_doomed(void *arg)
{
	doomed = NULL;
}

/* From here on a rollback takes it away. */
static void
doom(const BuildName *name)
{
	MemoryContextCallback *callback = MemoryContextAllocZero(TopTransactionContext,
															 sizeof(MemoryContextCallback));

	if (doomed == NULL)
	{
		callback->func = forget_doomed;
		MemoryContextRegisterResetCallback(TopTransactionContext, callback);
		doomed = MemoryContextAlloc(TopTransactionContext, sizeof(BuildName));
	}
	*doomed = *name;
	doomed->key = mosql_bytes_copy(TopTransactionContext, name->key);
	doomed->job = MemoryContextStrdup(TopTransactionContext, name->job);
}

/* False: it failed, and is perhaps still there. */
static bool
try_drop(const BuildName *name)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool done = false;
	uint32		held = InterruptHoldoffCount;

	PG_TRY();
	{
		(void) drop_build(name);
		done = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		InterruptHoldoffCount = held;	/* an error resets it */
	}
	PG_END_TRY();
	mosql_txn_cancel(name->session);
	return done;
}

/*
 * MosqlAbortHook.  Another change of the definition may come first, hence several
 * tries.  What fails for good is left to maintenance, which takes it away when its
 * session is dead: so this backend goes on as another one.
 */
static void
drop_doomed(void)
{
	const BuildName *name = doomed;
	bool		done = false;
	bool		locked;

	doomed = NULL;
	if (name == NULL)
		return;
	locked = mosql_session_has_locks(name->session);
	HOLD_INTERRUPTS();			/* bounded by timeouts */
	for (int i = 0; !done && i < DROP_TRIES &&
		 !mosql_redis_is_busy(mosql_session_redis(name->session)); i++)
		done = try_drop(name);
	RESUME_INTERRUPTS();
	if (!done)
		mosql_session_leave_id(name->session);
	if (locked && !mosql_session_has_locks(name->session))
		mosql_session_tell_lost(name->session);
}

void
mosql_build_init(void)
{
	mosql_txn_abort_hook = drop_doomed;
}

static BuildName
name_dead(MosqlSession *session, const char *schema, const char *table,
		  const MosqlDefinitionBuild *there)
{
	BuildName	name = name_build(session, schema, table, there->index.name);

	name.log = there->log;
	name.builder = there->session;
	name.dead = true;
	return name;
}

/* Sessions whose lease is over are forgotten first: only then do they count as dead. */
static int
drop_dead(MosqlSession *session)
{
	MosqlOrphanCounts counts = {0};
	MosqlDefinition *definitions;
	MosqlSessions sessions;
	int			n = mosql_table_definitions(session, NULL, &definitions);
	int			any = 0;
	int			dropped = 0;

	for (int i = 0; i < n; i++)
		any += definitions[i].nbuilds;
	if (any == 0)
		return 0;
	mosql_orphans_forget(session, &counts);
	mosql_clock_sessions(mosql_session_stepper(session), &sessions);
	for (int i = 0; i < n; i++)
		for (int b = 0; b < definitions[i].nbuilds; b++)
		{
			const MosqlDefinitionBuild *there = &definitions[i].builds[b];
			BuildName	name;

			if (!mosql_clock_is_dead(&sessions, there->session))
				continue;
			name = name_dead(session, definitions[i].schema, definitions[i].name, there);
			dropped += drop_build(&name);
		}
	return dropped;
}

/*
 * Of builders that died, and whose builds are gone: with the table, say, which somebody has dropped.  (A builder that dies just now
 * is not shown any more; its build is taken away the next time.)
 */
static void
forget_dead_jobs(MosqlSession *session)
{
	MosqlStepper *clock = mosql_session_stepper(session);
	MosqlJob   *jobs;
	int			n = mosql_clock_jobs(clock, &jobs);

	for (int i = 0; i < n; i++)
		if (jobs[i].running && !jobs[i].alive && strncmp(jobs[i].name, BUILD_JOB, strlen(BUILD_JOB)) == 0)
			mosql_clock_job_forget(clock, jobs[i].name, jobs[i].sid);
}

int
mosql_table_drop_dead_builds(MosqlSession *session)
{
	int			dropped = drop_dead(session);

	forget_dead_jobs(session);
	return dropped;
}

/* ---- transactions ---- */

/*
 * Commit what there is, and go on under the id that the definition names: the
 * session's may have changed, if it was busy sorting for longer than its lease.
 */
static void
next_transaction(MosqlBuild *build)
{
	MosqlDefinition *definition;
	MosqlStepper *clock = mosql_session_stepper(build->session);
	MosqlJob	other;
	int			at;

	(void) mosql_txn_chain(build->session);
	while (mosql_session_id(build->session) != build->name.builder)
	{
		mosql_clock_job_forget(clock, build->name.job, build->name.builder);
		build->name.builder = mosql_session_id(build->session);
		doom(&build->name);
		definition = own_definition(build, &at);
		definition->builds[at].session = build->name.builder;
		write_definition(build, definition);
		(void) mosql_txn_chain(build->session);
		(void) mosql_clock_job_start(clock, build->name.job, build->name.builder,
									 mosql_txn_lease_ms, describe(build), &other);
	}
	CHECK_FOR_INTERRUPTS();
}

/* ---- scan and load ---- */

/* The table as it is cached now, and our build in it. */
static MosqlTable *
open_table(const MosqlBuild *build, MosqlBuildLog **log)
{
	MosqlTable *table = mosql_table_open(build->rel, build->session);
	int			at;

	for (int i = 0; i < table->nbuilds; i++)
		if (table->builds[i].root == build->name.log)
		{
			*log = &table->builds[i];
			return table;
		}
	(void) own_definition(build, &at);
	elog(ERROR, "index \"%s\" is not being built", build->index->name);
}

static void
scan_table(MosqlBuild *build)
{
	MosqlBuildLog *log;
	MosqlTable *table = open_table(build, &log);
	MosqlTxn   *txn = mosql_txn_current(build->session);
	MosqlView  *view = mosql_view_open(txn, build, GetCurrentCommandId(false), false);
	MosqlRowScan *scan = mosql_view_scan_begin(view, table->tree, mosql_bytes("", 0),
											   MOSQL_ABSENT, false, 0);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(build->rel), &TTSOpsVirtual);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql index build",
											  ALLOCSET_DEFAULT_SIZES);
	const bool *needed = mosql_index_needed(table, &log->index);
	MosqlRow	row = {0};

	build->base = mosql_view_snapshot(view);
	while (mosql_view_scan_next(scan, &row))
	{
		StringInfoData key;
		StringInfoData columns;
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(cxt);
		old = MemoryContextSwitchTo(cxt);
		ExecClearTuple(slot);
		mosql_table_get_row(table, row.key, row.columns, needed, slot->tts_values,
							slot->tts_isnull);
		ExecStoreVirtualTuple(slot);
		initStringInfo(&key);
		initStringInfo(&columns);
		if (mosql_index_entry(&log->index, slot, row.key, &key, &columns) != MOSQL_ENTRY_NONE)
			mosql_sorter_put(build->sorter, mosql_bytes_of(&key), MOSQL_ABSENT, mosql_bytes_of(&columns));
		MemoryContextSwitchTo(old);
		build->done++;
		note(build);
	}
	mosql_view_scan_end(scan);
	mosql_view_close(view);
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextDelete(cxt);
}

static void
report_duplicate(const MosqlBuild *build, MosqlBytes key)
{
	MosqlBuildLog *log;
	MosqlTable *table = open_table(build, &log);

	mosql_table_report_duplicate(build->rel, table, &log->index, build->exclusion, key);
}

static void
report_equal(void *build, const MosqlIndex *index, MosqlBytes key)
{
	report_duplicate(build, key);
}

/* Entries are equal only if they say that their rows are duplicates. */
static void
load_entries(MosqlBuild *build)
{
	MosqlLoad  *load;
	uint64		n = 0;

	next_transaction(build);
	load = mosql_load_begin(build->session, build->root, build->base,
							mosql_table_compression(RelationGetRelid(build->rel)),
							mosql_table_is_together(RelationGetRelid(build->rel)));
	while (mosql_sorter_next_distinct(build->sorter, report_equal, build, NULL))
	{
		if (++n % LOAD_ENTRIES == 0)
			next_transaction(build);
		mosql_load_add(load, mosql_sorter_bytes(build->sorter, MOSQL_SORT_BY),
					   mosql_sorter_bytes(build->sorter, MOSQL_SORT_COLUMNS));
		build->done++;
		note(build);
	}
	build->load_breaks = mosql_load_end(load);
	next_transaction(build);
}

static void
scan_and_load(MosqlBuild *build)
{
	enter_phase(build, "scanning table",
				build->rel->rd_rel->reltuples > 0 ? (int64) build->rel->rd_rel->reltuples : -1);
	build->sorter = mosql_sorter_begin(maintenance_work_mem);
	scan_table(build);
	MOSQL_DEBUG_POINT("build-scanned");
	enter_phase(build, "loading entries", (int64) build->done);
	mosql_sorter_sort(build->sorter);
	load_entries(build);
	mosql_sorter_end(build->sorter);
	MOSQL_DEBUG_POINT("build-loaded");
}

/* ---- catching up ---- */

/* Where what goes (0), or comes (1), by a change stands in the history of the index. */
static MosqlBytes
history_place(const MosqlRow *row, const MosqlLoggedChange *change, uint8 comes, StringInfo out)
{
	resetStringInfo(out);
	pq_sendint64(out, row->version);
	pq_sendint32(out, change->command);
	pq_sendint8(out, comes);
	appendBinaryStringInfo(out, row->key.data, row->key.len);
	return mosql_bytes_of(out);
}

static void
put_change(MosqlBuild *build, const MosqlRow *row, StringInfo place)
{
	MosqlLoggedChange change = mosql_build_log_decode(row->columns);

	if (change.old_key.data != NULL)
		mosql_sorter_put(build->sorter, history_place(row, &change, 0, place), change.old_key, MOSQL_ABSENT);
	if (change.new_key.data != NULL)
		mosql_sorter_put(build->sorter, history_place(row, &change, 1, place), change.new_key,
				   change.new_columns);
}

/* The changes that are not in the tree yet, to be sorted; their number. */
static uint64
read_log(MosqlBuild *build)
{
	MosqlTxn   *txn = mosql_txn_current(build->session);
	MosqlTree  *tree = mosql_session_tree(build->session, build->name.log);
	MosqlView  *view = mosql_view_open(txn, build, GetCurrentCommandId(false), false);
	MosqlTimestamp snapshot = mosql_view_snapshot(view);
	MosqlRowScan *scan = mosql_view_scan_begin(view, tree, mosql_bytes("", 0), MOSQL_ABSENT,
											   false, 0);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql index change",
											  ALLOCSET_DEFAULT_SIZES);
	StringInfoData place;
	MosqlRow	row = {0};
	uint64		n = 0;

	initStringInfo(&place);
	while (mosql_view_scan_next(scan, &row))
	{
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		if (row.version <= build->base)
			continue;
		MemoryContextReset(cxt);
		old = MemoryContextSwitchTo(cxt);
		put_change(build, &row, &place);
		MemoryContextSwitchTo(old);
		n++;
		note(build);
	}
	mosql_view_scan_end(scan);
	mosql_view_close(view);
	MemoryContextDelete(cxt);
	build->base = snapshot;
	return n;
}

/* What was put is looked up before it is committed. */
static void
check_changes(MosqlBuild *build)
{
	MosqlBytes	duplicate;

	if (build->index->unique &&
		!mosql_txn_check_inserts(mosql_txn_current(build->session),
								 mosql_session_tree(build->session, build->root),
								 MOSQL_INSERTS_LOOK, &duplicate))
		report_duplicate(build, duplicate);
}

/* In the tree every entry is as the history so far left it: what goes is there. */
static void
apply_sorted(MosqlBuild *build, CommandId cid)
{
	MosqlTxn   *txn = mosql_txn_current(build->session);
	MosqlTree  *tree = mosql_session_tree(build->session, build->root);
	MosqlBytes	key = mosql_sorter_bytes(build->sorter, MOSQL_SORT_KEY);
	MosqlBytes	columns = mosql_sorter_bytes(build->sorter, MOSQL_SORT_COLUMNS);

	if (columns.data == NULL)
		(void) mosql_txn_delete(txn, tree, key, MOSQL_VERSION_ANY, cid);
	else if (mosql_txn_insert(txn, tree, key, columns, cid,
							  build->index->unique ? MOSQL_KEY_MAY_EXIST
							  : MOSQL_KEY_NEW) == MOSQL_DUPLICATE)
		report_duplicate(build, key);
}

static void
apply_changes(MosqlBuild *build)
{
	CommandId	cid = FirstCommandId;

	next_transaction(build);
	while (mosql_sorter_next(build->sorter))
	{
		apply_sorted(build, cid++);
		build->done++;
		note(build);
		if (cid == CATCH_UP_CHANGES || mosql_txn_is_full(build->session))
		{
			check_changes(build);
			next_transaction(build);
			cid = FirstCommandId;
		}
	}
	check_changes(build);
	next_transaction(build);
}

/* Follow the log up to now: how many changes there were. */
static uint64
catch_up(MosqlBuild *build)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql index catching up",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	uint64		n;

	build->sorter = mosql_sorter_begin(maintenance_work_mem);
	n = read_log(build);
	mosql_sorter_sort(build->sorter);
	apply_changes(build);
	mosql_sorter_end(build->sorter);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return n;
}

/* ---- the command ---- */

static void
publish(MosqlBuild *build)
{
	MosqlSession *session = build->session;
	MosqlDefinition *definition;
	MosqlDefinitionBuild *there;

	(void) mosql_txn_chain(session);
	definition = mosql_table_definition(session, build->schema, build->table);
	if (definition == NULL)
		mosql_table_missing(build->rel, build->schema, build->table);
	mosql_definition_check_new_index(build->rel, definition, build->index);
	build->root = mosql_table_create_tree(session, mosql_table_is_together(RelationGetRelid(build->rel)));
	build->name.log = mosql_table_create_tree(session, false);
	build->name.builder = mosql_session_id(session);

	if (definition->builds == NULL)
		definition->builds = palloc(sizeof(MosqlDefinitionBuild));
	else
		definition->builds = repalloc(definition->builds, (definition->nbuilds + 1) *
									  sizeof(MosqlDefinitionBuild));
	there = &definition->builds[definition->nbuilds];
	*there = (MosqlDefinitionBuild)
	{
		.id = definition->nbuilds > 0 ? there[-1].id + 1 : 1,
			.index = *build->index,.log = build->name.log,.session = build->name.builder
	};
	there->index.root = build->root;
	definition->nbuilds++;
	write_definition(build, definition);
	doom(&build->name);
	next_transaction(build);
}

/* What fails because the build was taken away is reported as that. */
static void
run_guarded(MosqlBuild *build, void (*part) (MosqlBuild *build))
{
	MemoryContext caller = CurrentMemoryContext;

	PG_TRY();
	{
		part(build);
	}
	PG_CATCH();
	{
		ErrorData  *error;
		int			at;

		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		if (error->sqlerrcode == ERRCODE_T_R_SERIALIZATION_FAILURE ||
			error->sqlerrcode == ERRCODE_UNDEFINED_TABLE)
		{
			mosql_txn_cancel(build->session);
			(void) own_definition(build, &at);
		}
		ReThrowError(error);
	}
	PG_END_TRY();
}

static void
build_index(MosqlBuild *build)
{
	scan_and_load(build);
	enter_phase(build, "catching up", -1);
	for (int round = 0; round < MAX_ROUNDS && catch_up(build) > FEW_CHANGES; round++)
		;
	MOSQL_DEBUG_POINT("build-caught-up");
}

static void
close_log(MosqlBuild *build)
{
	MosqlDefinition *definition;
	int			at;

	enter_phase(build, "closing", -1);
	definition = own_definition(build, &at);
	definition->builds[at].closing = true;
	write_definition(build, definition);
	next_transaction(build);
	MOSQL_DEBUG_POINT("build-closing");
	(void) catch_up(build);
}

MosqlBuild *
mosql_table_begin_build(Relation rel, MosqlSession *session, const MosqlDefinitionIndex *index, bool exclusion)
{
	MosqlBuild *build = palloc0(sizeof(MosqlBuild));
	MosqlJob	other;

	build->rel = rel;
	build->session = session;
	build->index = index;
	build->exclusion = exclusion;
	mosql_table_remote_name(rel, &build->schema, &build->table);
	build->name = name_build(session, build->schema, build->table, index->name);
	build->phase = "starting";
	build->total = -1;

	(void) mosql_txn_chain(session);
	mosql_session_keep_id(session);
	(void) mosql_table_drop_dead_builds(session);
	publish(build);
	(void) mosql_clock_job_start(mosql_session_stepper(session), build->name.job, build->name.builder,
								 mosql_txn_lease_ms, describe(build), &other);
	MOSQL_DEBUG_POINT("build-published");
	run_guarded(build, build_index);
	return build;
}

void
mosql_table_finish_build(MosqlBuild *build)
{
	MosqlDefinition *definition;
	MosqlDefinitionIndex index = *build->index;
	int			at;

	run_guarded(build, close_log);
	definition = own_definition(build, &at);
	remove_build(definition, at);
	index.root = build->root;
	(void) mosql_definition_add_index(definition, &index);
	write_definition(build, definition);
	mosql_txn_rests_on_load(mosql_txn_current(build->session), build->load_breaks);
	mosql_txn_drops_tree(mosql_txn_current(build->session), build->name.log);
	mosql_clock_job_forget(mosql_session_stepper(build->session), build->name.job,
						   build->name.builder);
}

/* ---- writers ---- */

/* Forget it if its builder is dead: the caller's failure takes it away. */
static void
check_builder(MosqlTable *table, Relation rel)
{
	MosqlSession *session = table->session;
	MosqlOrphanCounts counts = {0};
	MosqlDefinition *definition;
	MosqlSessions sessions;
	const char *schema;
	const char *table_name;

	mosql_orphans_forget(session, &counts);
	mosql_clock_sessions(mosql_session_stepper(session), &sessions);
	mosql_table_remote_name(rel, &schema, &table_name);
	definition = mosql_table_definition(session, schema, table_name);
	for (int i = 0; definition != NULL && i < definition->nbuilds; i++)
	{
		const MosqlDefinitionBuild *there = &definition->builds[i];
		BuildName	name;

		if (!there->closing || !mosql_clock_is_dead(&sessions, there->session))
			continue;
		name = name_dead(session, schema, table_name, there);
		doom(&name);
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to an index whose creation died"),
				 errdetail("Index \"%s\" of table \"%s\" was being finished.", there->index.name,
						   RelationGetRelationName(rel)),
				 errhint("The transaction might succeed if retried.")));
	}
}

static void
report_closing(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("table \"%s\" cannot be written to while an index is being finished",
					RelationGetRelationName(rel)),
			 errdetail("It was waited for for mosql_fdw.commit_timeout."),
			 errhint("The view mosql_fdw_progress shows who does it. If that server has died, writing becomes possible when its lease is over, after a minute.")));
}

MosqlTable *
mosql_table_open_for_write(Relation rel, MosqlSession *session)
{
	MosqlTable *table = mosql_table_open_locked(rel, session, RowExclusiveLock, false);
	MosqlBudget budget;
	int64		check_at;

	if (!table->closing)
		return table;
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to an index that is being created"),
				 errhint("The transaction might succeed if retried.")));
	budget = mosql_budget_start(mosql_txn_commit_timeout_ms);
	check_at = mosql_now_us() + CHECK_INTERVAL_US;
	while (table->closing)
	{
		bool		paused = mosql_budget_pause(&budget);

		if (!paused || mosql_now_us() >= check_at)
		{
			check_builder(table, rel);
			check_at = mosql_now_us() + CHECK_INTERVAL_US;
		}
		if (!paused)
			report_closing(rel);
		mosql_session_refresh_schema(session);
		table = mosql_table_open(rel, session);
	}
	return table;
}
