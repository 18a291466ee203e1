/*
 * fdw_int.h: what the chapters of the foreign data wrapper share.
 *
 * Layer: fdw.  option.c and connection.c (options, sessions), qual.c (which
 * conditions bound the key), range.c (from conditions and parameters to key
 * ranges, at execution), estimate.c, path.c, plan.c, explain.c, analyze.c; scan.c, modify.c,
 * direct.c (executor).
 */
#ifndef MOSQL_FDW_INT_H
#define MOSQL_FDW_INT_H

#include "access/attmap.h"
#include "base/base.h"
#include "base/stats.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "table/definition.h"
#include "table/sequence.h"
#include "table/table.h"

/* ---- option.c, connection.c ---- */

/* Everything the options of server, table and user mapping say, table first. */
typedef struct MosqlFdwOptions
{
	MosqlSessionConfig session;
	bool		updatable;
	bool		truncatable;
	int			batch_size;		/* rows per ExecForeignBatchInsert, default 1000 */
	int			fetch_size;		/* rows wanted in the first window; 0 by plan */
	double		startup_cost;
	double		tuple_cost;
	bool		replicated;		/* durability 'replicated' */
	bool		keep_connections;
	int			idle_timeout_ms;	/* connections idle for so long are closed; 0 never */
	int			max_connections;	/* of this PostgreSQL server to a Redis node; 0 any */
	bool		use_remote_estimate;	/* count rows in Redis even after ANALYZE */
} MosqlFdwOptions;

/* Options for a table (relid) or only a server (relid invalid) and a user. */
extern MosqlFdwOptions *mosql_fdw_options(Oid relid, Oid serverid, Oid userid);

/* ---- said.c: what every statement asks for, of a foreign table of ours ---- */

extern Oid	mosql_fdw_server_of(Oid relid);
extern bool mosql_fdw_is_updatable(Oid relid);

/* Where its options, or its server's, say nothing, the setting's. */
extern MosqlLocking mosql_fdw_locking(Oid relid);

/* ---- connection.c ---- */

/* The backend's session for a server and user; opened on first use. */
extern MosqlSession *mosql_fdw_session(Oid serverid, Oid userid);

/* The session for a foreign table accessed as userid (InvalidOid: current). */
extern MosqlSession *mosql_fdw_session_for(Oid relid, Oid userid);

/* Is this relation one of ours? */
extern bool mosql_fdw_is_ours(Oid relid);

/* Is this server one of this foreign data wrapper? */
extern bool mosql_fdw_is_our_server(Oid serverid);

/* The running transaction, to be compared with a later one; subtransactions are part
 * of it. */
extern LocalTransactionId mosql_fdw_this_transaction(void);

/*
 * A session that nobody shares, for who has to speak to the clock of a backend's server in
 * its place: as that user would be connected, but without a permit, for those who have one
 * may be waiting for this.  To be closed by mosql_session_close().  Throws as
 * mosql_fdw_session() does; no round trip.
 */
extern MosqlSession *mosql_fdw_open_session(Oid serverid, Oid userid);

/* The index behind the primary key of one of our tables; InvalidOid: none. */
extern Oid	mosql_fdw_primary_key(Relation rel);

/*
 * For mosql_fdw_get_connections() and mosql_fdw_disconnect() (admin):
 * mosql_fdw_each_session calls `each` for every open session of this backend
 * until it returns false; `server` is the server's name, NULL once it is
 * dropped; userid is the role of the user mapping, InvalidOid for PUBLIC or
 * no mapping.  No round trips.
 *
 * mosql_fdw_close_sessions closes the sessions of one server (InvalidOid: all)
 * that no transaction is using; returns how many it closed, and in *busy
 * (may be NULL) how many it left alone.
 */
typedef bool (*MosqlEachSession) (void *arg, const char *server, Oid userid,
								  MosqlSession *session);
extern void mosql_fdw_each_session(MosqlEachSession each, void *arg);
extern int	mosql_fdw_close_sessions(Oid serverid, int *busy);

/* Hooks of connection.c and permit.c; from _PG_init. */
extern void mosql_fdw_init(void);

/* ---- permit.c ---- */

/*
 * A permit to be connected to the nodes of this key, of which there are max for
 * all backends.  Returns its number, for the others.  Waits for timeout_ms; throws
 * 53300 then, 57014 when cancelled, 53400 if there are too many keys.
 */
extern int	mosql_permit_take(uint64 key, int max, int timeout_ms);

/* Give it back; the connections are closed before. */
extern void mosql_permit_give(int number);

/* It is kept, but not in use.  False if somebody waits for it: give it. */
extern bool mosql_permit_idle(int number);

/* It is in use again. */
extern void mosql_permit_use(int number);
extern void mosql_permit_init(void);

/*
 * The validator, callable from C: throws HV00D for an unknown option and HV024
 * for a bad value.  catalog is the context (ForeignServerRelationId, ...).
 */
extern void mosql_fdw_check_options(List *options, Oid catalog);

/* ---- key conditions (qual.c at plan time, range.c at run time) ---- */

/*
 * A condition that bounds the key, taken from one clause.  Serialised into
 * fdw_private as integers; its value expressions go to fdw_exprs.
 */
typedef enum MosqlCondKind
{
	MOSQL_COND_EQ, MOSQL_COND_LT, MOSQL_COND_LE, MOSQL_COND_GE, MOSQL_COND_GT,
	MOSQL_COND_IN,				/* key column = ANY (array) */
	MOSQL_COND_PREFIX,			/* LIKE: value is the pattern, its literal prefix bounds */
	MOSQL_COND_ROW_LT, MOSQL_COND_ROW_LE, MOSQL_COND_ROW_GE, MOSQL_COND_ROW_GT,
								/* (k0, k1, ...) op (v0, v1, ...): ncolumns values */
	MOSQL_COND_ISNULL,			/* never true for a table's key column */
	MOSQL_COND_NOTNULL			/* of an index: always true for a table's */
} MosqlCondKind;

typedef struct MosqlCond
{
	MosqlCondKind kind;
	int			key_position;	/* ROW_*: of the first column */
	int			ncolumns;		/* values it takes from fdw_exprs; 1 but for ROW_*,
								 * and 0 for ISNULL and NOTNULL */
	bool		exact;			/* the range implies the clause: no recheck needed */
} MosqlCond;

/* MOSQL_SCAN_TIDS: what names the rows. */
typedef enum MosqlTids
{
	MOSQL_TIDS_NONE,			/* nothing: they are found by the key */
	MOSQL_TIDS_ONE,				/* a tid */
	MOSQL_TIDS_ARRAY,			/* an array of tids */
	MOSQL_TIDS_CURRENT			/* WHERE CURRENT OF: the CurrentOfExpr itself */
} MosqlTids;

/* Index into ForeignScan.fdw_private. */
enum MosqlScanPrivate
{
	MOSQL_SCAN_CONDS,			/* IntList: kind, key_position, ncolumns, exact, ... */
	MOSQL_SCAN_NEEDED,			/* IntList of attribute numbers to decode; a member
								 * 0 (whole row) means all, NIL means none */
	MOSQL_SCAN_BACKWARD,		/* Boolean: key order descending */
	MOSQL_SCAN_LIMIT,			/* Integer: rows wanted (0: unknown), for the first window */
	MOSQL_SCAN_SINGLE,			/* Boolean: a point read on the whole key by
								 * external parameters and constants only */
	MOSQL_SCAN_SYSTEM,			/* Integer: system columns that rows need, MOSQL_SYSTEM_... */
	MOSQL_SCAN_INDEX,			/* IntList: id of the index that is read (0: the table
								 * itself), 1 if its entries have all that is needed,
								 * its root's upper and lower half: ids are used again */
	MOSQL_SCAN_ARMS,			/* List, NIL if the scan is no union (union.c): per arm of an
								 * OR its index as above and its conditions, whose values
								 * are in fdw_exprs, arm after arm */
	MOSQL_SCAN_TIDS,			/* Integer: how the first of fdw_exprs names the rows, MosqlTids;
								 * 0: by the key */
	MOSQL_SCAN_LOCK,			/* IntList: how the scan may lock what it returns, NIL: not
								 * at all (lock_plan.c) */
	MOSQL_SCAN_AHEAD,			/* Integer: the parameter that has the node which reads ahead for
								 * this scan (ahead.c), -1: none does */
	MOSQL_SCAN_TURNS,			/* Boolean: it is all, with others like it, that keeps a cursor from
								 * going back (cursor.c) */
	MOSQL_SCAN_ALONE,			/* Boolean: the statement reads what this scan does by the table's own
								 * key, and nothing else */
	MOSQL_SCAN_INCREMENTS		/* only in late-bound updates (direct.c), whose amounts
								 * are the last of fdw_exprs.  IntList: canSetTag, then
								 * per column its attribute number and 1 if subtracted */
};

/* A set of key ranges, ascending, disjoint.  Points have whole keys. */
typedef struct MosqlRange
{
	bool		point;			/* low is the whole key */
	MosqlBytes	low;
	MosqlBytes	high;			/* exclusive; data NULL: no bound */
} MosqlRange;

typedef struct MosqlRanges
{
	int			n;				/* 0: nothing can match */
	MosqlRange *ranges;
	bool		all_points;
} MosqlRanges;

extern List *mosql_conds_encode(const MosqlCond *conds, int n);
extern int	mosql_conds_decode(List *list, MosqlCond **conds);

/*
 * Evaluate the conditions to ranges, in the current context: values[i] and
 * nulls[i] in the order of fdw_exprs.  A null value in a strict condition: no
 * ranges.  IN lists are sorted and made distinct.  Cross-products of several
 * IN lists up to a bound, beyond it the later ones are left to the recheck.
 */
extern MosqlRanges *mosql_ranges_build(const MosqlTable *table, const MosqlCond *conds, int nconds,
									   const Datum *values, const bool *nulls, const Oid *types);

/*
 * What is in any of n sets, which stay as they are but share their bytes with the
 * result; in the current context.
 */
extern MosqlRanges *mosql_ranges_union(MosqlRanges *const *sets, int n);

/*
 * Can values of type `value` bound a key column of type `column`?  The same
 * type, a binary-compatible one, or a pair of integer, float or date types.
 */
extern bool mosql_ranges_can_convert(Oid column, Oid value);

/*
 * Find in `clauses` (RestrictInfos; outer relids in required_outer allowed as
 * parameters) the conditions that bound the key; *used gets the clauses taken,
 * *recheck those of them that must still be evaluated, exprs the values.
 */
typedef struct MosqlKeyQuals
{
	int			nconds;
	MosqlCond  *conds;
	List	   *exprs;
	List	   *used;			/* RestrictInfos */
	List	   *recheck;		/* subset of used */
	int			nequal;			/* leading key columns bound by = or IN */
	bool		whole_key;		/* all of them, by = only: at most one row */
	bool		any_range;
} MosqlKeyQuals;
extern MosqlKeyQuals *mosql_quals_find(PlannerInfo *root, RelOptInfo *rel, Oid relid,
									   const MosqlTable *table, List *clauses);

/* Does this clause bound some key column, if its outer relations are given? */
extern bool mosql_quals_usable(PlannerInfo *root, RelOptInfo *rel, const MosqlTable *table,
							   RestrictInfo *rinfo);

/* Is this node of a query, of the relation relid, that key column?  An index column may
 * be an expression; then key_node() is it as that query would have it. */
extern bool mosql_quals_is_key(const MosqlTableColumn *column, Index relid, Node *node);
extern Node *mosql_quals_key_node(const MosqlTableColumn *column, Index relid);

/* Are the column's keys in its btree order, under this collation? */
extern bool mosql_quals_key_ordered(const MosqlTableColumn *column, Oid collation);

/* ---- proof.c: what the planner may conclude from indexes ---- */

/* The index in Redis that a local one stands for; NULL if it says something else, or
 * there is none. */
extern const MosqlIndex *mosql_fdw_index_of(const MosqlTable *table, Oid indexid);

/* Does it say that the table's key is unique, no more and no less? */
extern bool mosql_fdw_is_key(const MosqlTable *table, const IndexOptInfo *index);

/* Hooks; once, from _PG_init. */
extern void mosql_fdw_init_proofs(void);
extern void mosql_fdw_init_routed(void);

/* ---- routed.c ---- */

/* Where the columns of a partitioned table are in a partition. */
extern AttrMap *mosql_fdw_columns_of_partition(Relation partition, Relation parent);

/* ---- row_security.c ---- */

/* The planner has met a table: with ENABLE ROW LEVEL SECURITY it has no rows for most. */
extern void mosql_fdw_hide_rows(PlannerInfo *root, RelOptInfo *rel, Relation relation);

/* Is that so of this one, or is another condition "false"? */
extern bool mosql_fdw_is_hidden(const RelOptInfo *rel);

/* Hook; once, from _PG_init. */
extern void mosql_fdw_init_row_security(void);

/* ---- estimate.c, path.c, plan.c: planner callbacks ---- */
extern void mosqlGetForeignRelSize(PlannerInfo *root, RelOptInfo *rel, Oid relid);
extern void mosqlGetForeignPaths(PlannerInfo *root, RelOptInfo *rel, Oid relid);
extern ForeignScan *mosqlGetForeignPlan(PlannerInfo *root, RelOptInfo *rel, Oid relid,
										ForeignPath *path, List *tlist, List *clauses,
										Plan *outer_plan);

/* ---- scan.c ---- */
extern void mosqlBeginForeignScan(ForeignScanState *node, int eflags);
extern TupleTableSlot *mosqlIterateForeignScan(ForeignScanState *node);
extern void mosqlReScanForeignScan(ForeignScanState *node);
extern void mosqlEndForeignScan(ForeignScanState *node);
extern bool mosqlIsForeignScanParallelSafe(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte);
extern Size mosqlEstimateDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt);
extern void mosqlInitializeDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt,
										  void *coordinate);
extern void mosqlReInitializeDSMForeignScan(ForeignScanState *node, ParallelContext *pcxt,
											void *coordinate);
extern void mosqlInitializeWorkerForeignScan(ForeignScanState *node, shm_toc *toc,
											 void *coordinate);
extern RowMarkType mosqlGetForeignRowMarkType(RangeTblEntry *rte, LockClauseStrength strength);
extern void mosqlRefetchForeignRow(EState *estate, ExecRowMark *erm, Datum rowid,
								   TupleTableSlot *slot, bool *updated);
extern bool mosqlRecheckForeignScan(ForeignScanState *node, TupleTableSlot *slot);

/* ---- modify.c ---- */
extern void mosqlAddForeignUpdateTargets(PlannerInfo *root, Index rtindex,
										 RangeTblEntry *target_rte, Relation target);
extern List *mosqlPlanForeignModify(PlannerInfo *root, ModifyTable *plan, Index rti, int subplan);
extern void mosqlBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *rri,
									List *fdw_private, int subplan, int eflags);
extern void mosqlBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *rri);
extern TupleTableSlot *mosqlExecForeignInsert(EState *estate, ResultRelInfo *rri,
											  TupleTableSlot *slot, TupleTableSlot *plan_slot);
extern TupleTableSlot **mosqlExecForeignBatchInsert(EState *estate, ResultRelInfo *rri,
													TupleTableSlot **slots,
													TupleTableSlot **plan_slots, int *n);
extern int	mosqlGetForeignModifyBatchSize(ResultRelInfo *rri);
extern TupleTableSlot *mosqlExecForeignUpdate(EState *estate, ResultRelInfo *rri,
											  TupleTableSlot *slot, TupleTableSlot *plan_slot);
extern TupleTableSlot *mosqlExecForeignDelete(EState *estate, ResultRelInfo *rri,
											  TupleTableSlot *slot, TupleTableSlot *plan_slot);
extern void mosqlEndForeignModify(EState *estate, ResultRelInfo *rri);
extern void mosqlEndForeignInsert(EState *estate, ResultRelInfo *rri);
extern int	mosqlIsForeignRelUpdatable(Relation rel);
extern void mosqlExecForeignTruncate(List *rels, DropBehavior behavior, bool restart_seqs);

/* ---- reference.c ---- */

/* SET CONSTRAINTS, after core did it: what is immediate now is checked. */
extern void mosql_references_set(const ConstraintsSetStmt *statement);
extern void mosql_references_init(void);

/* Rows of joins are changed together (modify_later.c). */
extern void mosql_later_init(void);

/* cursor.c. */
extern void mosql_cursor_init(void);

/* lock_scan.c: how many rows a run of the executor wants. */
extern void mosql_lock_init(void);

/* mosql_fdw.join_batch: outer rows of a join whose look-ups are read together; joins that do so
 * (ahead_path.c). */
extern int	mosql_fdw_join_batch;
extern void mosql_ahead_init(void);

/* ---- sequence.c ---- */

/* mosql_fdw.sequence_block: values that a session draws at once, and keeps; 1: it keeps none. */
extern int	mosql_fdw_sequence_block;

/* What was drawn ahead is for nobody from here on: something begins, or ends, that may wait and see what others did. */
extern void mosql_sequences_take_turn(void);

/*
 * nextval(), currval(), lastval() and setval() of sequences that are drawn from
 * Redis, with core's checks and errors; false for others: core is to do it.
 * forward: values handed out on some server are not handed out again; a NOTICE
 * where that was wanted.  identity: for an INSERT, which needs no privilege on an
 * identity column's sequence.
 */
extern bool mosql_fdw_sequence_next(Oid seqid, bool identity, int64 *value);
extern bool mosql_fdw_is_identity_call(const Node *call);
extern bool mosql_fdw_sequence_current(Oid seqid, int64 *value);
extern bool mosql_fdw_sequence_last(int64 *value);
extern bool mosql_fdw_sequence_set(Oid seqid, MosqlSequenceState state, bool forward);

/* Where it stands in Redis, for everybody, blocks that were drawn included; 42501.  A round
 * trip. */
extern bool mosql_fdw_sequence_state(Oid seqid, MosqlSequenceState *state);

/* The same for who may read or alter it by other rights than his own on the sequence. */
extern bool mosql_fdw_sequence_stands(Oid seqid, MosqlSequenceState *state);

/* DISCARD SEQUENCES: currval() and lastval() are not defined any more. */
extern void mosql_fdw_sequences_discard(void);

/* The column of a table of ours that owns a sequence; false if none does. */
extern bool mosql_fdw_sequence_owner(Oid seqid, Oid *relid, AttrNumber *attnum, bool *identity);

/*
 * A sequence that no column of ours owns: the server on which it was noted to be shared,
 * InvalidOid if it was not.  Note it, or with InvalidOid that it no longer is.
 */
extern Oid	mosql_fdw_shared_on(Oid seqid);
extern void mosql_fdw_note_shared(Oid seqid, Oid serverid);

/* All that are noted for a server. */
extern List *mosql_fdw_shared_sequences(Oid serverid);

/* Is this sequence drawn from Redis: owned by a column of ours, noted, or used by a
 * default of ours? */
extern bool mosql_fdw_is_shared(Oid seqid);

/* ... and from which server's; InvalidOid: from none. */
extern Oid	mosql_fdw_sequence_server(Oid seqid);

/* What makes an identity column of it, after a blank. */
extern void mosql_fdw_put_identity(StringInfo sql, const MosqlSequence *sequence);

/*
 * Before a definition goes into a statement: its types, collations and expressions become
 * SQL that PostgreSQL printed after it had understood them, and that is to be run with
 * `pg_catalog, pg_temp` as search_path.  Sequences that defaults draw from and that are not
 * here are made.  An expression that cannot be had here goes out of the definition, with a
 * NOTICE; 42704 for a type or collation that is not here.
 */
extern void mosql_fdw_localize(MosqlDefinition *table, Oid serverid);

/* How the statements of IMPORT FOREIGN SCHEMA begin, which core runs. */
#define MOSQL_IMPORT_MARK "/* imported */ "

/* A function of the extension; InvalidOid if there is none.  mosql_fdw_nextval(); 42883. */
extern Oid	mosql_fdw_function(const char *name, int nargs, const Oid *args);
extern Oid	mosql_fdw_nextval_function(void);

/* Identity columns and nextval() below this plan of an INSERT or UPDATE are drawn from
 * Redis where the sequence is. */
extern void mosql_fdw_share_plan(Plan *plan);

/* A column of COPY whose default core evaluates with the local sequence. */
typedef struct MosqlCopyDefault
{
	AttrNumber	attnum;
	ExprState  *value;			/* by Redis */
} MosqlCopyDefault;

/* Those that the running COPY leaves out; 0A000 where that cannot be known.  ... and a
 * row's values of them. */
extern int	mosql_fdw_copy_defaults(Relation rel, MosqlCopyDefault **defaults);
extern void mosql_fdw_fill_defaults(TupleTableSlot *slot, EState *estate, int n,
									const MosqlCopyDefault *defaults);

/* Callbacks; once, from _PG_init. */
extern void mosql_fdw_init_sequences(void);

/* ---- direct.c: UPDATE and DELETE run inside the scan ---- */
extern bool mosqlPlanDirectModify(PlannerInfo *root, ModifyTable *plan, Index rti, int subplan);
extern void mosqlBeginDirectModify(ForeignScanState *node, int eflags);
extern TupleTableSlot *mosqlIterateDirectModify(ForeignScanState *node);
extern void mosqlEndDirectModify(ForeignScanState *node);
extern void mosqlExplainDirectModify(ForeignScanState *node, struct ExplainState *es);

/* ---- explain.c, analyze.c, import.c ---- */

/*
 * Shared lines of EXPLAIN: the key range of a scan (its fdw_private and
 * fdw_exprs), and with ANALYZE what it cost; `used` is the difference of
 * mosql_stats over the node's calls.  The state that scan.c and direct.c keep
 * in fdw_state begins with a MosqlScanCost so that explain.c can read it.
 */
typedef struct MosqlScanCost
{
	MosqlStats	used;			/* mosql_stats after minus before, added up */
	int64		rows_read;		/* rows that the view returned, before rechecks */
} MosqlScanCost;
extern void mosql_explain_scan(ForeignScanState *node, struct ExplainState *es);

/* "orders (customer = c.id)": what is looked up in a table, by which index of it and conditions. */
extern char *mosql_explain_lookup(Oid relid, Oid userid, const char *name, int index, List *conds,
								  List *exprs, List *dpcontext);
extern void mosql_explain_cost(const MosqlScanCost *cost, struct ExplainState *es);

extern void mosqlExplainForeignScan(ForeignScanState *node, struct ExplainState *es);
extern void mosqlExplainForeignModify(ModifyTableState *mtstate, ResultRelInfo *rri,
									  List *fdw_private, int subplan, struct ExplainState *es);
extern bool mosqlAnalyzeForeignTable(Relation rel, AcquireSampleRowsFunc *func, BlockNumber *pages);

/*
 * A column of a definition as CREATE FOREIGN TABLE and ADD COLUMN have it.  in_order:
 * the key columns stand in the order of the key, so that it need not be said.
 */
extern void mosql_fdw_put_column(StringInfo sql, const MosqlDefinitionColumn *column,
								 bool in_order);
extern List *mosqlImportForeignSchema(ImportForeignSchemaStmt *stmt, Oid serverid);

#endif							/* MOSQL_FDW_INT_H */
