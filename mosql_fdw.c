/*
 * mosql_fdw.c: the table of contents.
 *
 * Module magic, settings, the start-up of each layer, and the foreign data
 * wrapper's routine in call order.  src/README.md leads through the layers.
 */
#include "postgres.h"

#include <limits.h>

#include "utils/guc.h"

#include "admin/admin.h"
#include "admin/maintain.h"
#include "base/limits.h"
#include "btree/btree.h"
#include "fdw/fdw_int.h"
#include "table/table.h"
#include "txn/txn.h"

#if PG_VERSION_NUM >= 180000
PG_MODULE_MAGIC_EXT(.name = "mosql_fdw",.version = "1.0");
#else
PG_MODULE_MAGIC;
#endif

PG_FUNCTION_INFO_V1(mosql_fdw_handler);

extern PGDLLEXPORT void _PG_init(void);

static const struct config_enum_entry locking_options[] = {
	{"optimistic", MOSQL_OPTIMISTIC, false},
	{"pessimistic", MOSQL_PESSIMISTIC, false},
	{NULL, 0, false}
};

static void
define_settings(void)
{
	DefineCustomIntVariable("mosql_fdw.inner_cache_size",
							"Memory for cached inner nodes, per table and backend.",
							"A table whose inner nodes fit is read by key in one round trip.",
							&mosql_btree_cache_kb, MOSQL_INNER_CACHE_KB, 64, INT_MAX / 1024,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("mosql_fdw.snapshot_cache",
							"Memory for what one snapshot has read and may be asked for again, per statement or transaction.",
							"Subqueries and inner sides of joins that come back for it take no round trip. 0: nothing is kept.",
							&mosql_txn_snapshot_cache_kb, MOSQL_SNAPSHOT_CACHE_KB, 0, INT_MAX / 1024,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("mosql_fdw.join_batch",
							"Outer rows of a nested loop whose look-ups are read together.",
							"1: they are read one by one. mosql_fdw.snapshot_cache bounds what they find.",
							&mosql_fdw_join_batch, MOSQL_JOIN_BATCH, 1, 10000,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("mosql_fdw.max_transaction_size",
							"Memory for the writes of one transaction.",
							"Writes stay in the backend until commit; a larger transaction is refused.",
							&mosql_txn_max_mb, 1024, 1, 1024 * 1024,
							PGC_USERSET, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomEnumVariable("mosql_fdw.locking",
							 "Whether transactions wait for each other's rows, or are checked at commit.",
							 "Pessimistic: rows that are inserted, changed, referenced, or read FOR UPDATE and the like are locked until the end. An option of the table or server wins.",
							 &mosql_txn_locking, MOSQL_PESSIMISTIC, locking_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("mosql_fdw.commit_timeout",
							"Time in which a commit may wait and retry before it is given up.",
							"What was written is taken back; SQLSTATE 40001.",
							&mosql_txn_commit_timeout_ms, 10000, 100, INT_MAX / 1000,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomBoolVariable("mosql_fdw.one_step",
							 "Whether the step that decides a small commit also writes what is on its Redis.",
							 "Off: they are prepared, decided and applied like large ones.",
							 &mosql_txn_one_step, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("mosql_fdw.one_message",
							 "Whether what a commit asks of one Redis node at a time is one message.",
							 "Off: one per leaf of a table or index.",
							 &mosql_step_messages, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("mosql_fdw.intent_timeout",
							"Time after which another server's unfinished commit is aborted.",
							"Longer than any commit takes: a shorter time aborts live ones.",
							&mosql_txn_intent_timeout_ms, 500, 10, INT_MAX / 1000,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("mosql_fdw.drop_time",
							"Time for which COMMIT gives back the memory of dropped and truncated tables.",
							"What is left then is left to maintenance.",
							&mosql_txn_drop_ms, MOSQL_DROP_TIME_MS, 0, INT_MAX / 1000,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("mosql_fdw.signpost_retention",
							"Time for which maintenance keeps a node that was merged away.",
							"Counted from when it was unlinked, and in any case until all sessions of that time have ended.",
							&mosql_txn_signpost_retention_ms, MOSQL_SIGNPOST_RETENTION_MS, 0, INT_MAX / 1000,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("mosql_fdw.orphan_retention",
							"Time for which maintenance keeps a table's data when its definition is lost.",
							"Counted from when a sweep first found it; what a transaction drops goes at once.",
							&mosql_txn_orphan_retention_s, MOSQL_ORPHAN_RETENTION_S, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("mosql_fdw.sequence_block",
							"Values of a shared sequence that a session draws at once, and keeps.",
							"More if the sequence's CACHE is larger. 1: none is kept, so that who calls nextval() later gets a later value.",
							&mosql_fdw_sequence_block, 1, 1, 1000000,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("mosql_fdw.drop_data",
							 "Dropping a foreign table drops its data in Redis.",
							 "Off: only the local foreign table goes, the data stays for other servers.",
							 &mosql_admin_drop_data, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("mosql_fdw.default_server",
							   "Server on which CREATE TABLE makes foreign tables.",
							   "Empty: CREATE TABLE makes local tables, as ever.",
							   &mosql_admin_default_server, "",
							   PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("mosql_fdw.present_as_table",
							 "The catalogs show foreign tables of mosql_fdw as tables.",
							 "For tools that look for pg_class.relkind = 'r'.",
							 &mosql_admin_present_as_table, false,
							 PGC_USERSET, 0, NULL, NULL, NULL);
}

/*
 * pg_upgrade makes the extension's objects one by one, its views in pg_catalog, too.  This
 * library is loaded by then: functions come first.
 */
static void
allow_upgrade(void)
{
	if (IsBinaryUpgrade)
		SetConfigOption("allow_system_table_mods", "on", PGC_SUSET, PGC_S_SESSION);
}

void
_PG_init(void)
{
	allow_upgrade();
	define_settings();
	mosql_maintain_init();
	mosql_locks_init();
	mosql_admin_init_debug();
	MarkGUCPrefixReserved("mosql_fdw");

	mosql_txn_init();
	mosql_table_init();
	mosql_fdw_init();
	mosql_fdw_init_proofs();
	mosql_fdw_init_routed();
	mosql_fdw_init_row_security();
	mosql_references_init();
	mosql_later_init();
	mosql_cursor_init();
	mosql_lock_init();
	mosql_ahead_init();
	mosql_admin_init_ddl();
	mosql_admin_init_types();
	mosql_admin_init_gone();
	mosql_admin_init_utility();
	mosql_admin_init_present();
	mosql_worker_init();
	mosql_keeper_init();
	mosql_fdw_init_sequences();
	mosql_admin_init_sequences();
}

Datum
mosql_fdw_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *fdw = makeNode(FdwRoutine);

	/* planning a scan */
	fdw->GetForeignRelSize = mosqlGetForeignRelSize;
	fdw->GetForeignPaths = mosqlGetForeignPaths;
	fdw->GetForeignPlan = mosqlGetForeignPlan;

	/* running it */
	fdw->BeginForeignScan = mosqlBeginForeignScan;
	fdw->IterateForeignScan = mosqlIterateForeignScan;
	fdw->ReScanForeignScan = mosqlReScanForeignScan;
	fdw->EndForeignScan = mosqlEndForeignScan;

	/* running it in several processes */
	fdw->IsForeignScanParallelSafe = mosqlIsForeignScanParallelSafe;
	fdw->EstimateDSMForeignScan = mosqlEstimateDSMForeignScan;
	fdw->InitializeDSMForeignScan = mosqlInitializeDSMForeignScan;
	fdw->ReInitializeDSMForeignScan = mosqlReInitializeDSMForeignScan;
	fdw->InitializeWorkerForeignScan = mosqlInitializeWorkerForeignScan;

	/* planning a modification */
	fdw->IsForeignRelUpdatable = mosqlIsForeignRelUpdatable;
	fdw->AddForeignUpdateTargets = mosqlAddForeignUpdateTargets;
	fdw->PlanForeignModify = mosqlPlanForeignModify;
	fdw->PlanDirectModify = mosqlPlanDirectModify;

	/* running it row by row */
	fdw->BeginForeignModify = mosqlBeginForeignModify;
	fdw->ExecForeignInsert = mosqlExecForeignInsert;
	fdw->GetForeignModifyBatchSize = mosqlGetForeignModifyBatchSize;
	fdw->ExecForeignBatchInsert = mosqlExecForeignBatchInsert;
	fdw->ExecForeignUpdate = mosqlExecForeignUpdate;
	fdw->ExecForeignDelete = mosqlExecForeignDelete;
	fdw->EndForeignModify = mosqlEndForeignModify;

	/* COPY, and rows routed to a partition */
	fdw->BeginForeignInsert = mosqlBeginForeignInsert;
	fdw->EndForeignInsert = mosqlEndForeignInsert;

	/* running it inside the scan */
	fdw->BeginDirectModify = mosqlBeginDirectModify;
	fdw->IterateDirectModify = mosqlIterateDirectModify;
	fdw->EndDirectModify = mosqlEndDirectModify;

	/* SELECT ... FOR UPDATE */
	fdw->GetForeignRowMarkType = mosqlGetForeignRowMarkType;
	fdw->RefetchForeignRow = mosqlRefetchForeignRow;
	fdw->RecheckForeignScan = mosqlRecheckForeignScan;

	/* EXPLAIN, ANALYZE, TRUNCATE, IMPORT FOREIGN SCHEMA */
	fdw->ExplainForeignScan = mosqlExplainForeignScan;
	fdw->ExplainForeignModify = mosqlExplainForeignModify;
	fdw->ExplainDirectModify = mosqlExplainDirectModify;
	fdw->AnalyzeForeignTable = mosqlAnalyzeForeignTable;
	fdw->ExecForeignTruncate = mosqlExecForeignTruncate;
	fdw->ImportForeignSchema = mosqlImportForeignSchema;

	PG_RETURN_POINTER(fdw);
}
