/*
 * exec_int.h: what the executor's chapters share.
 *
 * Layer: fdw.  scan.c (ForeignScan), lock.c (FOR UPDATE and FOR SHARE),
 * modify.c (UPDATE, DELETE, TRUNCATE), insert.c (INSERT, COPY, tuple routing),
 * direct.c (late-bound UPDATE inside the scan).
 */
#ifndef MOSQL_FDW_EXEC_INT_H
#define MOSQL_FDW_EXEC_INT_H

#include "executor/executor.h"
#include "storage/itemptr.h"

#include "code/claim.h"
#include "fdw/fdw_int.h"

/* Keys of an IN list that are read in one batch. */
#define MOSQL_POINTS_PER_READ	1000

/* ---- rows in ctid (tid.c) ---- */

/* The number of a row, which is its ctid for all who ask for that. */
extern void mosql_tid_of_number(uint64 number, ItemPointer tid);

/* A handle of the statement's, where nobody asks. */
extern void mosql_tid_of_handle(uint64 handle, ItemPointer tid);

/* Leads to no row. */
extern void mosql_tid_of_none(ItemPointer tid);

/* Key and version of the row of `tree` that a scan put into a ctid; throws if unknown. */
extern void mosql_exec_row_of_tid(MosqlTxn *txn, MosqlTree *tree, Datum ctid, MosqlRow *row);

/* ---- locks (lock.c) ---- */

/* How rows of one table are locked. */
typedef struct MosqlLocker
{
	Relation	rel;
	MosqlTable *table;
	MosqlTxn   *txn;
	MosqlStrength strength;
	LockWaitPolicy policy;
	bool		changes;		/* for UPDATE or DELETE: what is locked will be written */
} MosqlLocker;

typedef enum MosqlLocked
{
	MOSQL_LOCKED,				/* as it was read */
	MOSQL_LOCKED_NEWER,			/* it has another version since */
	MOSQL_NOT_LOCKED			/* it is gone, or SKIP LOCKED */
} MosqlLocked;

/* Is the table's locking pessimistic? */
extern bool mosql_lock_is_wanted(Oid relid);

/*
 * Lock n rows that were read, or keys that were found free, ascending and distinct; `newest` are the rows that were
 * LOCKED_NEWER, in the current context.  A round trip if nobody is in the way, none for rows
 * that are locked.  55P03, 40P01; 40001 above READ COMMITTED for a row that has changed.
 */
extern void mosql_lock_rows(const MosqlLocker *locker, const MosqlRow *read, int n,
							MosqlRow *newest, MosqlLocked *locked);

/*
 * Read rows by key, as mosql_view_get() does, and lock them in the same step; only under
 * READ COMMITTED, where the newest version is what is wanted.  Those that SKIP LOCKED leaves
 * out are not found.
 */
extern void mosql_lock_get(const MosqlLocker *locker, MosqlView *view, const MosqlBytes *keys,
						   int n, MosqlRow *rows);

/*
 * Read rows by key (ascending) for increments, as mosql_view_peek() does; but those that are locked already as
 * they were then, without a round trip, and, if `claims`, lock the others in the step that reads them, at every
 * isolation level: 40001 if one is newer than the transaction's snapshot.
 */
extern void mosql_lock_peek(const MosqlLocker *locker, MosqlView *view, const MosqlBytes *keys, int n,
							bool claims, MosqlRow *rows);

/* The newest version of a row into a slot of the executor's, which evaluates it again. */
extern void mosql_lock_store(const MosqlLocker *locker, const MosqlRow *row, TupleTableSlot *slot);

/* Does a trigger look at the old row of an UPDATE or DELETE?  triggers may be NULL. */
extern bool mosql_lock_shows_old(const TriggerDesc *triggers, CmdType operation);

/* What an UPDATE of these attributes (offset as pull_varattnos() does) takes; what FOR
 * UPDATE and kin do. */
extern MosqlStrength mosql_lock_update_strength(const MosqlTable *table,
												const Bitmapset *attributes);
extern MosqlStrength mosql_lock_mark_strength(RowMarkType type);

/* What a plan says of system columns, MOSQL_SCAN_SYSTEM: bits. */
#define MOSQL_SYSTEM_HANDLE		1	/* ctid is asked for by UPDATE, DELETE, FOR UPDATE alone */
#define MOSQL_SYSTEM_CTID		2	/* the query names it */
#define MOSQL_SYSTEM_VERSION	4	/* xmin, xmax, cmin, cmax */

/* Which ones does this query, expression or list name?  Junk that core adds does not count. */
extern int	mosql_system_named(Node *node);

/* Which ones does a scan of these attributes (offset as pull_varattnos() does) need? */
extern int	mosql_system_needed(PlannerInfo *root, const Bitmapset *attributes);

/* The row in a slot for heap tuples gets this xmin; its memory is the current context's. */
extern void mosql_system_put(TupleTableSlot *slot, Oid relid, uint32 xmin);
extern void mosql_system_mark_met(TupleTableSlot *slot);

/* Is it the ctid of that relation? */
extern bool mosql_tid_is_of(Node *node, Index relid);

/* Does a condition name rows of the relation by ctid, by what is known before the scan?
 * Then `value` is that. */
extern bool mosql_tid_is_usable(PlannerInfo *root, RelOptInfo *rel, const RestrictInfo *rinfo);
extern MosqlTids mosql_tid_value(const RestrictInfo *rinfo, Index relid, Expr **value);

/* The key of the row that has this ctid, which may be a handle; false: it is not known. */
extern bool mosql_tid_key(MosqlTxn *txn, MosqlTree *tree, ItemPointer tid, MosqlBytes *key);

/* ---- one table in one executor node ---- */

/* What one arm of an OR finds. */
typedef struct MosqlScanArm
{
	const MosqlIndex *index;	/* NULL: by the table's own key */
	const MosqlTable *keys;
	int			nconds;
	MosqlCond  *conds;
	int			nvalues;
} MosqlScanArm;

typedef struct MosqlScanState
{
	MosqlScanCost cost;			/* first: explain.c reads it */
	bool		costed;			/* EXPLAIN ANALYZE: fill it */
	Relation	rel;
	Oid			userid;			/* whose rights and user mapping count */
	MosqlTable *table;
	MosqlTxn   *txn;

	/* --- what it shares with others (parallel.c) --- */
	struct MosqlDivision *division;	/* what is going to be shared; NULL: nothing */
	struct MosqlParallel *parallel;	/* in shared memory; NULL: alone */
	struct dsm_segment *segment;	/* leader: of that */
	bool		of_worker;
	bool		joined;			/* worker: it has begun */
	bool		in_pieces;		/* `ranges` are these: */
	MosqlRanges piece_ranges;	/* one, or none yet */
	MosqlRange	piece;			/* bytes in shared memory */

	/* --- from the plan --- */
	int			nconds;
	MosqlCond  *conds;
	int			nvalues;		/* their values; the same order as fdw_exprs */
	ExprState **exprs;
	Oid		   *types;
	Datum	   *values;
	bool	   *nulls;
	bool	   *needed;			/* by attnum - 1; NULL: all attributes */
	bool		needs_none;		/* count(*): rows only have to exist */
	bool		backward;
	int			system;			/* bits: which system columns rows need */
	bool		filters;		/* ... but only if the row passes the node's filter */
	bool		single;			/* one row by key, and the statement reads nothing else */
	bool		alone;			/* ranges of the table's own key, and nothing else */
	const MosqlIndex *index;	/* read through this index; NULL: the table's own key */
	bool		index_only;		/* its entries suffice */
	const MosqlTable *keys;		/* whose tree the ranges are of: table or entries */
	int64		limit;			/* rows wanted, 0: unknown */
	MosqlTids	tids;			/* nconds is 0 then */
	int			narms;			/* 0, or a union: nconds is 0 then */
	MosqlScanArm *arms;

	/* --- what is locked --- */
	bool		locks;
	bool		locks_at_once;	/* points in the step that reads them */
	MosqlLocker locker;
	const EState *estate;
	int			lock_limit;		/* rows that LIMIT wants, 0: all */
	bool		row_by_row;		/* one comes up after the other */
	struct MosqlLockBatch *batch;	/* lock_scan.c; NULL: none yet */

	/* --- what is read --- */
	MosqlView  *view;			/* from the first row to the end of the node */
	MemoryContext range_cxt;	/* ranges; reset when parameters change */
	MosqlRanges *ranges;		/* NULL: not evaluated yet */
	int			next_range;		/* in scan order, 0 .. ranges->n */

	MosqlRow	current;		/* returned last, if the scan locks nothing; index_only: its entry */

	/* --- a batch of points --- */
	MemoryContext point_cxt;	/* rows of the batch */
	int			nrows;
	int			row;			/* next of rows */
	MosqlRow   *rows;
	MosqlRow	one_row;		/* rows, where there is one */
	bool		all_in_batch;	/* the batch holds all that the scan returns */

	/* --- a range --- */
	MemoryContext scan_cxt;
	MosqlRowScan *scan;			/* NULL: between ranges */

	/* --- rows that entries lead to --- */
	MemoryContext fetch_cxt;
	int			fetch_size;		/* of the next batch */
	int			nfetched;
	int			fetched;		/* next of fetched_rows */
	MosqlRow   *fetched_rows;
} MosqlScanState;

/* The index of that id and root; 40001 if there is none, since the plan was made. */
extern const MosqlIndex *mosql_exec_index(const MosqlTable *table, int id, uint64 root);

/* The same by what a plan says: MOSQL_SCAN_INDEX, not of the table itself. */
extern const MosqlIndex *mosql_exec_index_of(const MosqlTable *table, const List *index);

/*
 * Fill a state from a plan node: opens table and transaction, evaluates and
 * reads nothing.  Memory in the query context, which must be current.
 */
extern void mosql_exec_scan_init(MosqlScanState *scan, ForeignScanState *node, Relation rel,
								 Oid userid);

/* The same with rel, userid, costed, txn and table set. */
extern void mosql_exec_scan_prepare(MosqlScanState *scan, ForeignScanState *node);

/* Evaluate the key conditions to scan->ranges. */
extern void mosql_exec_scan_ranges(MosqlScanState *scan, ExprContext *econtext);

extern void mosql_exec_scan_close(MosqlScanState *scan);

/* ---- parallel.c ---- */

/* A worker's scan begins, if there is something left to read. */
extern bool mosql_parallel_join(ForeignScanState *node);

/* The next piece into scan->ranges; false: there is none, or the scan is not in pieces. */
extern bool mosql_parallel_next(MosqlScanState *scan);

/* The leader's node starts again; false: it is not in pieces. */
extern bool mosql_parallel_rescan(MosqlScanState *scan);

/* The node ends; nothing happens where nothing is shared. */
extern void mosql_parallel_end(MosqlScanState *scan);

/* ---- rows by ctid (tid.c, cursor.c) ---- */

/* The keys of the rows that scan->tids names, as points, in the current context. */
extern MosqlRanges *mosql_tid_ranges(MosqlScanState *scan, ExprContext *econtext);

/*
 * The key of the row of scan->rel that a cursor is on; valid until it moves.  False: it is on none of
 * this table.  Throws what core throws of a cursor that is no good for it.
 */
extern bool mosql_cursor_key(MosqlScanState *scan, const CurrentOfExpr *current,
							 ExprContext *econtext, MosqlBytes *key);

/* Does the statement that is starting belong to a cursor, to be read sometime? */
extern bool mosql_cursor_is_opening(void);

/* Before ExecutorRun() of any query. */
extern void mosql_cursor_before_run(QueryDesc *query, ScanDirection direction);

/* ---- sequence.c ---- */

/* Before ExecutorRun() of any query, of so many rows (0: all). */
extern void mosql_sequences_before_run(const QueryDesc *query, uint64 count);

/* ---- scan.c, for lock_scan.c ---- */

/* The next row into the node's slot, without a ctid; false at the end. */
extern bool mosql_exec_scan_fetch(ForeignScanState *node, MosqlRow *row);
extern void mosql_exec_scan_store(ForeignScanState *node, MosqlRow *row);
extern void mosql_exec_scan_put_tid(ForeignScanState *node, const MosqlRow *row);

/* What the executor is going to ask about the row in the slot. */
extern bool mosql_exec_scan_passes(ForeignScanState *node);

/* ---- lock_scan.c ---- */

/* mosqlIterateForeignScan() of a scan that locks; start again; end. */
extern TupleTableSlot *mosql_lock_scan_next(ForeignScanState *node);
extern void mosql_lock_scan_reset(MosqlScanState *scan);

/* So many rows more are certainly taken by whoever reads a scan that locks, and may be locked now. */
extern int	mosql_lock_scan_wanted(const MosqlScanState *scan);

/* ---- union.c ---- */

/* Take over MOSQL_SCAN_ARMS. */
extern void mosql_union_init(MosqlScanState *scan, List *arms);

/*
 * The ranges of scan->keys in which all rows are that some arm finds, in the current
 * context; the values are evaluated.  Reads entries if the arms are of several keys.
 */
extern MosqlRanges *mosql_union_ranges(MosqlScanState *scan);

/*
 * Decode a row into an empty slot; by-reference values in the current context.
 * needed: by attnum - 1, NULL for all.
 */
extern void mosql_exec_store_row(const MosqlTable *table, const MosqlRow *row,
								 const bool *needed, TupleTableSlot *slot);

/* ---- costs for EXPLAIN ANALYZE ---- */

static inline void
mosql_cost_add(MosqlScanCost *cost, const MosqlStats *before)
{
	const int64 *b = (const int64 *) before;
	const int64 *now = (const int64 *) &mosql_stats;
	int64	   *sum = (int64 *) &cost->used;

	StaticAssertStmt(sizeof(MosqlStats) % sizeof(int64) == 0, "counters are int64");
	for (size_t i = 0; i < sizeof(MosqlStats) / sizeof(int64); i++)
		sum[i] += now[i] - b[i];
}

/* ---- targets of INSERT, UPDATE, DELETE ---- */

typedef struct MosqlModifyState
{
	MosqlScanCost cost;			/* first, as in scans */
	Relation	rel;
	MosqlTable *table;
	MosqlTxn   *txn;
	CommandId	cid;			/* of all writes of this node */

	/* --- checks that core leaves to us on foreign tables --- */
	bool		constrained;	/* NOT NULL or CHECK */
	Bitmapset  *not_null;		/* attributes that are so in Redis, and not yet here */
	bool		bounded_insert; /* partition bound, where core has not routed */
	bool		bounded_update;
	int			ndefaults;		/* COPY: columns to fill in */
	MosqlCopyDefault *defaults;

	int			system;			/* bits: which system columns RETURNING, or ON CONFLICT, names */
	bool		locks;			/* the table's locking is pessimistic */
	MosqlLocker locker;			/* of rows to be changed */
	bool		looks_for_key;	/* more than its strength is needed where unique values change */

	/* --- row identity, UPDATE and DELETE --- */
	AttrNumber	ctid_attno;
	AttrNumber	wholerow_attno;
	TupleTableSlot *old_slot;	/* the old row, for its index entries */
	TupleTableSlot *returned;	/* the new row, with xmin */

	/* --- foreign keys --- */
	struct MosqlReferences *references; /* reference.c; NULL: none are concerned */

	/* --- inserts --- */
	bool		refused;		/* row-level security lets this role insert none */
	bool		do_nothing;		/* ON CONFLICT DO NOTHING */
	MosqlFresh *fresh;			/* rows of an empty table; NULL: they are inserted as they come */
	bool		checks_keys;	/* this node made inserts that need a look-up */
	bool		loads;			/* batch_size of them at once: not all are locked */
	int			lookup_rows;	/* look up keys when so many wait */
	MosqlView  *view;			/* ON CONFLICT's reads */
	TupleTableSlot **kept;		/* its result for a batch */
	int			maxkept;

	/* --- ON CONFLICT --- */
	int			narbiters;
	const MosqlIndex **arbiters;	/* NULL: the table's own key */
	Bitmapset  *found_free;		/* their places among the table's indexes */
	bool		key_found_free;
	bool		do_update;
	bool		knows_strength; /* DO UPDATE: the locker's, by the columns that it sets */
	ModifyTableState *mtstate;
	bool		in_batches;		/* nobody looks at the table while rows wait: mosql_later_fits() */
	struct MosqlLater *later;	/* modify_later.c; NULL: rows are changed as they come */
	TriggerDesc *triggers;		/* the relation's */
	TriggerDesc *update_triggers;	/* without AFTER ROW INSERT */
	bool		captures_inserts;	/* rows for INSERT's transition table */

	/* --- per row --- */
	MemoryContext row_cxt;
	StringInfoData key;			/* reused from row to row */
	StringInfoData columns;
	bool		met_row;		/* ON CONFLICT DO UPDATE: there was one */
} MosqlModifyState;

/* ---- lock_target.c ---- */

/*
 * Lock the row to change, unless the scan did.  False: it is not to be changed any more.  If
 * it has a newer version, *row has that one, and *plan_slot what the plan makes of it.
 */
extern bool mosql_lock_target(MosqlModifyState *modify, ResultRelInfo *rri, CmdType operation,
							  TupleTableSlot **plan_slot, MosqlRow *row);

/* The new row once more, from that. */
extern TupleTableSlot *mosql_lock_project(MosqlModifyState *modify, ResultRelInfo *rri,
										  TupleTableSlot *plan_slot, EState *estate);

/* The row gets another key, perhaps by a trigger, so that the query does not say so. */
extern void mosql_lock_moved(MosqlModifyState *modify, const MosqlRow *row);

/* The row perhaps gets other unique values, by its query (looks_for_key) or a BEFORE trigger.
 * old_slot may be NULL, where there are no indexes. */
extern void mosql_lock_renamed(MosqlModifyState *modify, const MosqlRow *row,
								 TupleTableSlot *old_slot, TupleTableSlot *new_slot);

/* ---- modify_later.c ---- */

/* Does something look at each row that is written?  (Not what comes when all of them are.) */
extern bool mosql_has_row_triggers(const TriggerDesc *triggers, CmdType operation);

/*
 * At plan time: may rows wait for each other, to be locked and written together?  Those that
 * INSERT proposes, if nothing in the query may look at the table meanwhile.
 */
extern bool mosql_later_fits(PlannerInfo *root, const ModifyTable *plan);
extern bool mosql_later_may_look(const Query *query);

typedef struct MosqlLater MosqlLater;

/* NULL: there are row triggers. */
extern MosqlLater *mosql_later_open(ModifyTableState *mtstate, ResultRelInfo *rri);

/* A row to change, copied; new_slot NULL: to be deleted.  Throws what changing rows throws. */
extern void mosql_later_add(MosqlLater *later, TupleTableSlot *new_slot, TupleTableSlot *plan_slot);

/* Change one now; NULL: it was not to be changed any more. */
extern TupleTableSlot *mosql_exec_update(EState *estate, ResultRelInfo *rri, TupleTableSlot *slot,
										 TupleTableSlot *plan_slot);
extern TupleTableSlot *mosql_exec_delete(EState *estate, ResultRelInfo *rri, TupleTableSlot *slot,
										 TupleTableSlot *plan_slot);

/* The row in the slot, which has this key, gets its ctid, if somebody asks for it. */
extern void mosql_exec_set_tid(MosqlModifyState *modify, MosqlBytes key, TupleTableSlot *slot);

/* The row in the slot into modify->columns; tagged if its xmin is asked for. */
extern void mosql_exec_put_row(MosqlModifyState *modify, TupleTableSlot *slot);

/* What to return of the row that was put last: the slot, or one that has xmin, too. */
extern TupleTableSlot *mosql_exec_returned(MosqlModifyState *modify, TupleTableSlot *slot,
										   EState *estate);

/* Open a target; the state lives in the query context. */
/* Does row-level security refuse rows that this INSERT brings?  Then 42501 with the first. */
extern bool mosql_exec_is_row_refused(const ModifyTableState *mtstate, const ResultRelInfo *rri, Oid user);
extern void mosql_exec_check_refused(const MosqlModifyState *modify);

extern MosqlModifyState *mosql_exec_modify_open(ModifyTableState *mtstate, ResultRelInfo *rri);

/*
 * insert.c: the target's rows are kept, to be written together, if nobody else knows the table; and
 * are written.  The latter may be called twice.  Throws 23505.
 */
extern void mosql_exec_fresh_open(MosqlModifyState *modify, ModifyTableState *mtstate,
								  ResultRelInfo *rri);
extern void mosql_exec_fresh_end(MosqlModifyState *modify);

/* Attributes that are NOT NULL in Redis, and not yet here: they are looked at when a row is written.  23502. */
extern Bitmapset *mosql_exec_missing_not_null(Relation rel, const MosqlTable *table);
extern void mosql_exec_check_not_null(Relation rel, const MosqlTable *table, const Bitmapset *not_null,
									  TupleTableSlot *slot);

/* NOT NULL, CHECK and, if bounded, the partition bound of a new row. */
extern void mosql_exec_check_row(MosqlModifyState *modify, ResultRelInfo *rri,
								 TupleTableSlot *slot, EState *estate, bool bounded);

/* The row is written: if core is about to refuse it by WITH CHECK OPTION (44000), look up what waits: 23505
 * comes first. */
extern void mosql_exec_before_check_option(MosqlModifyState *modify, ResultRelInfo *rri,
										   TupleTableSlot *slot, EState *estate);

/* Note that inserts have to be looked up; does so when enough wait, or all. */
extern void mosql_exec_lookup_due(MosqlModifyState *modify);
extern void mosql_exec_lookup_all(MosqlModifyState *modify);

/* A statement's rows are written, and its AFTER triggers are next: a duplicate key is reported before them. */
extern void mosql_exec_before_triggers(EState *estate);

/*
 * At the end of an INSERT that is the whole transaction: leave that to the commit, which compares it anyway, and
 * calls back if something is in the way.  False: it is to be done now.
 */
extern bool mosql_exec_leave_lookup(MosqlModifyState *modify);

/* 23505 as PostgreSQL words it; index NULL: of the table's key.  40001 if another
 * transaction's change has made it a duplicate (mosql_txn_blame). */
extern void mosql_exec_report_duplicate(const MosqlModifyState *modify, const MosqlIndex *index,
										MosqlBytes key) pg_attribute_noreturn();

/* An empty slot of the target's rows, that of the state's old_slot. */
extern TupleTableSlot *mosql_exec_old_slot(MosqlModifyState *modify, EState *estate);

/*
 * The entries of a row that was written: of a new one (old_slot NULL), of a
 * changed or of a deleted one (new_slot NULL).  new_key: of the row as it is now.
 * Throws 23505.
 */
extern void mosql_exec_write_entries(MosqlModifyState *modify, TupleTableSlot *old_slot,
									 MosqlBytes old_key, TupleTableSlot *new_slot,
									 MosqlBytes new_key);

/*
 * Write modify->columns over a row, under modify->key, which may be another than
 * the row's, and the index entries: the slots have the same rows.
 * MOSQL_SELF_MODIFIED if this command did so already.
 */
extern MosqlWriteResult mosql_exec_replace_row(MosqlModifyState *modify, const MosqlRow *old_row,
											   TupleTableSlot *old_slot,
											   TupleTableSlot *new_slot);

/* ---- foreign keys (reference.c) ---- */

/*
 * What a target of a statement has to do with foreign keys, as a child, a parent or
 * both; NULL: nothing.  operation: CMD_UPDATE also for ON CONFLICT DO UPDATE.  changed: the columns that may change, as
 * core numbers them in sets (NULL: any); foreign keys that lead to others are not even opened, of which there may be hundreds.
 */
extern struct MosqlReferences *mosql_references_open(MosqlModifyState *modify, EState *estate,
													 CmdType operation, const Bitmapset *changed);

/*
 * Can nobody else commit a row of the key that this new row has?  So it is if a foreign key leads from columns of
 * the key to a row that this transaction has inserted: without that there is no such child.
 */
extern bool mosql_references_prove_free(struct MosqlReferences *references, TupleTableSlot *slot);

/*
 * The keys of the rows that were noted are about to be looked up: the parents of those that are new are to be asked for in the same round
 * trip (mosql_txn_refer_along()).  What comes of it is known at the statement's end.
 */
extern void mosql_references_go_along(struct MosqlReferences *references);

/* A row was written: old_slot NULL for a new one, new_slot for a deleted one. */
extern void mosql_references_note(struct MosqlReferences *references, TupleTableSlot *old_slot,
								  TupleTableSlot *new_slot);

/*
 * All rows of the statement are written: carry out actions, check what is not
 * deferred.  Throws 23503; nothing happens the second time.
 */
extern void mosql_references_end(EState *estate);

/* ---- ON CONFLICT ---- */

/* The keys that decide, by their indexes' OIDs; NIL: all unique ones. */
extern void mosql_exec_arbiters(MosqlModifyState *modify, const List *arbiters);

/*
 * ON CONFLICT into a table above ours (routed.c), of which the executor is not told: what the plan says, the arbiters
 * among the partition's indexes, what DO UPDATE needs to set, and whether rows may wait.
 */
extern OnConflictAction mosql_exec_conflict_action(const ModifyTable *plan);
extern bool mosql_exec_routes_in_batches(const ModifyTable *plan);
extern void mosql_exec_routed_update(ModifyTableState *mtstate, ResultRelInfo *rri);
extern List *mosql_exec_routed_arbiters(Relation rel, const List *arbiters);

/* DO NOTHING: returns how many rows were inserted, and which, in `kept`. */
extern int	mosql_exec_insert_free(MosqlModifyState *modify, ResultRelInfo *rri,
								   TupleTableSlot **slots, int n, EState *estate,
								   TupleTableSlot **kept);

/* DO UPDATE.  Throws 21000 for a row that this command inserted or updated. */
extern void mosql_exec_upsert_open(MosqlModifyState *modify, ModifyTableState *mtstate,
								   ResultRelInfo *rri);
extern TupleTableSlot *mosql_exec_upsert(MosqlModifyState *modify, ResultRelInfo *rri,
										 TupleTableSlot *slot, EState *estate);

/* May n of them be looked for together?  Then it returns how many were written; in `kept` are
 * slots of the rows proposed. */
extern bool mosql_exec_upserts_together(const MosqlModifyState *modify, const ResultRelInfo *rri);
extern int	mosql_exec_upsert_many(MosqlModifyState *modify, ResultRelInfo *rri,
								   TupleTableSlot **slots, int n, EState *estate,
								   TupleTableSlot **kept);

#endif							/* MOSQL_FDW_EXEC_INT_H */
