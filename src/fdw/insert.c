/*
 * insert.c: INSERT, COPY and rows routed to a partition.
 *
 * Layer: fdw.  A row goes into the transaction's write buffer without a round
 * trip.  Whether its key exists already is looked up for many rows together:
 * whenever batch_size keys wait, and at the end of the statement, before its AFTER
 * triggers.  Delaying the error is harmless, since it undoes the statement as a whole.
 *
 * So PostgreSQL's own batching, which copies every row into a slot of its own,
 * would gain nothing, and we ask for it only where the answer decides over
 * each row: ON CONFLICT reads the keys of a batch in one round trip.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "tcop/pquery.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "fdw/exec_int.h"

/* Inserts that wait before it is asked what batch_size is. */
#define MIN_LOOKUP_ROWS 100

/* VALUES lists of so many rows are worth a load. */
#define MANY_VALUES 1000

/* ---- uniqueness ---- */

void
mosql_exec_report_duplicate(const MosqlModifyState *modify, const MosqlIndex *index,
							MosqlBytes key)
{
	const MosqlTable *keys = index ? index->entries : modify->table;
	Oid			primary = mosql_fdw_primary_key(modify->rel);
	const char *constraint = index ? index->name : OidIsValid(primary) ? get_rel_name(primary)
		: psprintf("%s_pkey", RelationGetRelationName(modify->rel));
	const char *shown = mosql_table_show_key(keys, key);

	mosql_txn_blame(modify->txn, modify->cid, keys->tree, key);
	if (index != NULL && mosql_table_excludes(modify->rel, index))
		ereport(ERROR,
				(errcode(ERRCODE_EXCLUSION_VIOLATION),
				 errmsg("conflicting key value violates exclusion constraint \"%s\"", constraint),
				 shown != NULL ? errdetail("Key %s conflicts with existing key %s.", shown, shown)
				 : errdetail("Key conflicts with existing key."),
				 errtableconstraint(modify->rel, constraint)));
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates unique constraint \"%s\"", constraint),
			 shown != NULL ? errdetail("Key %s already exists.", shown) : 0,
			 errtableconstraint(modify->rel, constraint)));
}

/* Look up the keys that wait, of the table (index NULL) or of one of its indexes. */
static void
look_up(MosqlModifyState *modify, const MosqlIndex *index)
{
	MosqlTree  *tree = index ? index->entries->tree : modify->table->tree;
	MosqlInsertLocking locking = !modify->locks ? MOSQL_INSERTS_LOOK :
		modify->loads ? MOSQL_INSERTS_WAIT : MOSQL_INSERTS_LOCK;
	MosqlBytes	duplicate;

	if (!mosql_txn_check_inserts(modify->txn, tree, locking, &duplicate))
		mosql_exec_report_duplicate(modify, index, duplicate);
}

/* Enough keys wait; and the statement is a load, if so many of them are inserted. */
static bool
is_due(MosqlModifyState *modify, MosqlTree *tree)
{
	int			inserts;
	int			waiting = mosql_txn_unchecked(modify->txn, tree, &inserts);

	if (waiting < MIN_LOOKUP_ROWS)
		return false;
	if (modify->lookup_rows == 0)
		modify->lookup_rows = mosql_fdw_options(RelationGetRelid(modify->rel), InvalidOid,
												InvalidOid)->batch_size;
	if (waiting < modify->lookup_rows)
		return false;
	modify->loads |= inserts >= modify->lookup_rows;
	return true;
}

void
mosql_exec_lookup_due(MosqlModifyState *modify)
{
	MosqlTable *table = modify->table;
	MosqlStats	before = mosql_stats;

	modify->checks_keys = true;
	if (table->nkeys > 0 && is_due(modify, table->tree))
		look_up(modify, NULL);
	for (int i = 0; i < table->nindexes; i++)
		if (table->indexes[i].unique && is_due(modify, table->indexes[i].entries->tree))
			look_up(modify, &table->indexes[i]);
	mosql_cost_add(&modify->cost, &before);
}

/* The last tree that has keys which wait: NULL, the table, or the entries of a unique index. */
static const MosqlIndex *
last_to_look_up(const MosqlModifyState *modify)
{
	int			inserts;

	for (int i = modify->table->nindexes - 1; i >= 0; i--)
		if (modify->table->indexes[i].unique &&
			mosql_txn_unchecked(modify->txn, modify->table->indexes[i].entries->tree, &inserts) > 0)
			return &modify->table->indexes[i];
	return NULL;
}

/*
 * The rows that those which were inserted lead to are asked for with the last of the keys: so nobody waits
 * for a key who holds them.
 */
void
mosql_exec_lookup_all(MosqlModifyState *modify)
{
	const MosqlIndex *last = modify->references != NULL ? last_to_look_up(modify) : NULL;

	modify->checks_keys = false;
	if (last == NULL)
		mosql_references_go_along(modify->references);
	look_up(modify, NULL);
	for (int i = 0; i < modify->table->nindexes; i++)
		if (modify->table->indexes[i].unique)
		{
			if (&modify->table->indexes[i] == last)
				mosql_references_go_along(modify->references);
			look_up(modify, &modify->table->indexes[i]);
		}
	mosql_txn_end_along(modify->txn);
}

/* ---- an INSERT that is the whole transaction ---- */

/* So many keys at most: they fit into a commit in one step. */
#define LEFT_KEYS_MAX	32

typedef struct LeftLookup
{
	Oid			relid;
	CommandId	cid;
	MosqlSession *session;
	bool		locks;
} LeftLookup;

/* The relation is locked still.  A MosqlSettleInserts. */
static void
look_up_left(void *arg)
{
	const LeftLookup *left = arg;
	MosqlModifyState modify = {.cid = left->cid,.locks = left->locks};

	PushActiveSnapshot(GetTransactionSnapshot());
	modify.rel = table_open(left->relid, NoLock);
	modify.txn = mosql_txn_current(left->session);
	modify.table = mosql_table_open_for_write(modify.rel, left->session);
	mosql_exec_lookup_all(&modify);
	table_close(modify.rel, NoLock);
	PopActiveSnapshot();
}

/* libpq/libpq.h has these, which needs headers of GSSAPI. */
extern void pq_startmsgread(void);
extern void pq_endmsgread(void);
extern int	pq_peekbyte(void);
#if PG_VERSION_NUM >= 170000
extern ssize_t pq_buffer_remaining_data(void);
#define pq_buffer_has_data() (pq_buffer_remaining_data() > 0)
#else
extern bool pq_buffer_has_data(void);
#endif

/* Extended protocol: is what follows the statement Sync, which ends the transaction, and has it arrived? */
static bool
sync_is_next(void)
{
	bool		sync;

	if (!pq_buffer_has_data())
		return false;
	pq_startmsgread();
	sync = pq_peekbyte() == 'S';
	pq_endmsgread();
	return sync;
}

/*
 * Is the node that of the one statement which the client has sent, outside a transaction block, and does nothing come
 * between its end and the commit?  Portals that have names are cursors, those of functions too, and SQL's EXECUTE, which a
 * function may say.  Commands within the statement may have left triggers for the commit.
 */
static bool
is_whole_transaction(const MosqlModifyState *modify)
{
	const ModifyTableState *mtstate = modify->mtstate;
	const PlannedStmt *statement = mtstate->ps.state->es_plannedstmt;
	const PortalData *portal = ActivePortal;

	return !IsTransactionBlock() && GetCurrentTransactionNestLevel() == 1 &&
		(MyXactFlags & XACT_FLAGS_PIPELINING) == 0 && GetCurrentCommandId(false) == modify->cid &&
		portal != NULL && portal->name[0] == '\0' &&
		list_length(portal->stmts) == 1 && linitial(portal->stmts) == statement &&
		statement->commandType == CMD_INSERT && !statement->hasModifyingCTE && mtstate->ps.plan == statement->planTree &&
		(!portal->visible || sync_is_next());	/* that of the simple protocol is not visible */
}

/* How many keys wait, in all trees. */
static int
waiting_keys(const MosqlModifyState *modify)
{
	const MosqlTable *table = modify->table;
	int			inserts;
	int			n = table->nkeys > 0 ? mosql_txn_unchecked(modify->txn, table->tree, &inserts) : 0;

	for (int i = 0; i < table->nindexes; i++)
		if (table->indexes[i].unique)
			n += mosql_txn_unchecked(modify->txn, table->indexes[i].entries->tree, &inserts);
	return n;
}

/*
 * Triggers and foreign keys might do something else before the commit, or wait, and ON CONFLICT
 * has looked already.
 */
bool
mosql_exec_leave_lookup(MosqlModifyState *modify)
{
	const ModifyTableState *mtstate = modify->mtstate;
	LeftLookup *left;

	if (modify->loads || modify->references != NULL || modify->narbiters > 0 || mtstate->ps.plan == NULL || mtstate->operation != CMD_INSERT ||
		modify->rel->trigdesc != NULL || modify->rel->rd_rel->relispartition ||
		waiting_keys(modify) > LEFT_KEYS_MAX || !is_whole_transaction(modify))
		return false;
	/* not only at Sync: an error is to come in place of the statement's completion */
	MyXactFlags |= XACT_FLAGS_NEEDIMMEDIATECOMMIT;
	left = MemoryContextAlloc(TopTransactionContext, sizeof(LeftLookup));
	*left = (LeftLookup) {RelationGetRelid(modify->rel), modify->cid, modify->table->session, modify->locks};
	modify->checks_keys = false;
	mosql_txn_settle_later(modify->txn, look_up_left, left);
	return true;
}

/* ---- index entries ---- */

void
mosql_exec_write_entries(MosqlModifyState *modify, TupleTableSlot *old_slot, MosqlBytes old_key,
						 TupleTableSlot *new_slot, MosqlBytes new_key)
{
	const MosqlTable *table = modify->table;
	const MosqlIndex *index = NULL;
	MosqlBytes	duplicate;

	if (!mosql_table_has_entries(table))
		return;
	if (new_slot == NULL)
		index = mosql_table_delete_entries(table, modify->txn, old_slot, old_key, modify->cid,
										   &duplicate);
	else if (old_slot == NULL)
		index = mosql_table_insert_entries(table, modify->txn, new_slot, new_key, modify->cid,
										   modify->found_free, &duplicate);
	else
		index = mosql_table_replace_entries(table, modify->txn, old_slot, old_key, new_slot,
											new_key, modify->cid, &duplicate);
	if (index != NULL)
		mosql_exec_report_duplicate(modify, index, duplicate);
	mosql_exec_lookup_due(modify);	/* those that leave are locked, or forgotten */
}

/* ---- plain inserts ---- */

/* modify->key and ->columns. */
static void
buffer_row(MosqlModifyState *modify, TupleTableSlot *slot)
{
	MosqlBytes	key = mosql_bytes_of(&modify->key);
	bool		keyed = modify->table->nkeys > 0;
	MosqlNewKey known = !keyed ? MOSQL_KEY_NEW
		: mosql_references_prove_free(modify->references, slot) ? MOSQL_KEY_PROVED_FREE : MOSQL_KEY_MAY_EXIST;

	if (mosql_txn_insert(modify->txn, modify->table->tree, key, mosql_bytes_of(&modify->columns),
						 modify->cid, known) == MOSQL_DUPLICATE)
		mosql_exec_report_duplicate(modify, NULL, key);
	if (keyed)
		mosql_exec_lookup_due(modify);
	mosql_exec_write_entries(modify, NULL, MOSQL_ABSENT, slot, key);
	mosql_exec_set_tid(modify, key, slot);
}

static void
insert_row(MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot *slot, EState *estate)
{
	MosqlTable *table = modify->table;
	MemoryContext old;

	if (modify->ndefaults > 0)
	{
		mosql_fdw_fill_defaults(slot, estate, modify->ndefaults, modify->defaults);
		if (modify->constrained && modify->rel->rd_att->constr->has_generated_stored)
			ExecComputeStoredGenerated(rri, estate, slot, CMD_INSERT);
	}
	mosql_exec_check_row(modify, rri, slot, estate, modify->bounded_insert);

	MemoryContextReset(modify->row_cxt);
	old = MemoryContextSwitchTo(modify->row_cxt);
	resetStringInfo(&modify->key);
	if (table->nkeys > 0)
		mosql_table_slot_key(table, slot, &modify->key);
	else
		mosql_table_new_row_id(table, &modify->key);
	mosql_exec_put_row(modify, slot);
	if (modify->fresh == NULL ||
		!mosql_fresh_put(modify->fresh, slot, mosql_bytes_of(&modify->key),
						 mosql_bytes_of(&modify->columns)))
		buffer_row(modify, slot);
	mosql_references_note(modify->references, NULL, slot);
	MemoryContextSwitchTo(old);
}

/* ---- rows of an empty table ---- */

static void
report_equal(void *modify, const MosqlIndex *index, MosqlBytes key)
{
	mosql_exec_report_duplicate(modify, index, key);
}

/* A few rows at most, and known to be so. */
static bool
inserts_few(const ModifyTable *plan)
{
	const Plan *source = outerPlan(plan);

	return (IsA(source, Result) && outerPlan(source) == NULL) ||
		(IsA(source, ValuesScan) && source->plan_rows < MANY_VALUES);
}

/*
 * Not where each row is looked at (RETURNING), or where the statement goes on behind
 * ExecutorRun() (WITH).  Who has the relation open already, a cursor, or the statement's
 * own query, is not to see the rows: COPY opens it twice.
 */
void
mosql_exec_fresh_open(MosqlModifyState *modify, ModifyTableState *mtstate, ResultRelInfo *rri)
{
	const ModifyTable *plan = (const ModifyTable *) mtstate->ps.plan;	/* NULL: COPY */

	if (rri->ri_RootResultRelInfo != NULL || modify->rel->rd_refcnt != (plan ? 1 : 2))
		return;
	if (plan && (plan->operation != CMD_INSERT || plan->onConflictAction != ONCONFLICT_NONE ||
				 plan->returningLists != NIL || !plan->canSetTag || inserts_few(plan)))
		return;
	modify->fresh = mosql_fresh_begin(modify->rel, modify->table, modify->txn, modify->cid,
									  mtstate->ps.state, report_equal, modify);
}

void
mosql_exec_fresh_end(MosqlModifyState *modify)
{
	MosqlStats	before = mosql_stats;

	if (modify->fresh == NULL)
		return;
	mosql_fresh_end(modify->fresh);
	mosql_cost_add(&modify->cost, &before);
}

/* ---- callbacks ---- */

TupleTableSlot *
mosqlExecForeignInsert(EState *estate, ResultRelInfo *rri, TupleTableSlot *slot,
					   TupleTableSlot *plan_slot)
{
	MosqlModifyState *modify = (MosqlModifyState *) rri->ri_FdwState;
	TupleTableSlot *kept;

	mosql_exec_check_refused(modify);
	if (modify->do_nothing)
		slot = mosql_exec_insert_free(modify, rri, &slot, 1, estate, &kept) > 0 ? kept : NULL;
	else if (modify->do_update)
		slot = mosql_exec_upsert(modify, rri, slot, estate);
	else
		insert_row(modify, rri, slot, estate);
	if (slot != NULL)
		mosql_exec_before_check_option(modify, rri, slot, estate);
	return mosql_exec_returned(modify, slot, estate);
}

/* Returns the slots that were inserted and their number in *n. */
TupleTableSlot **
mosqlExecForeignBatchInsert(EState *estate, ResultRelInfo *rri, TupleTableSlot **slots,
							TupleTableSlot **plan_slots, int *n)
{
	MosqlModifyState *modify = (MosqlModifyState *) rri->ri_FdwState;

	mosql_exec_check_refused(modify);
	if (!modify->do_nothing && !modify->do_update)
	{
		for (int i = 0; i < *n; i++)
			insert_row(modify, rri, slots[i], estate);
		return slots;
	}
	if (*n > modify->maxkept)
	{
		modify->kept = MemoryContextAlloc(estate->es_query_cxt, *n * sizeof(TupleTableSlot *));
		modify->maxkept = *n;
	}
	*n = modify->do_nothing
		? mosql_exec_insert_free(modify, rri, slots, *n, estate, modify->kept)
		: mosql_exec_upsert_many(modify, rri, slots, *n, estate, modify->kept);
	for (int i = 0; i < *n; i++)
		mosql_exec_before_check_option(modify, rri, modify->kept[i], estate);
	return modify->kept;
}

/*
 * More than one row only for ON CONFLICT (see above), and not where
 * each row is looked at before the next: RETURNING, BEFORE ROW triggers.
 */
int
mosqlGetForeignModifyBatchSize(ResultRelInfo *rri)
{
	MosqlModifyState *modify = (MosqlModifyState *) rri->ri_FdwState;

	if (modify == NULL || !modify->in_batches || rri->ri_projectReturning != NULL ||
		!(modify->do_nothing || mosql_exec_upserts_together(modify, rri)) ||
		(rri->ri_TrigDesc && rri->ri_TrigDesc->trig_insert_before_row))
		return 1;
	return mosql_fdw_options(RelationGetRelid(modify->rel), InvalidOid, InvalidOid)->batch_size;
}

/*
 * COPY, and partitions that rows are routed to.  A partition that is a target
 * of the same UPDATE has a state already, and one serves both.
 */
void
mosqlBeginForeignInsert(ModifyTableState *mtstate, ResultRelInfo *rri)
{
	const ModifyTable *plan = (const ModifyTable *) mtstate->ps.plan;

	if (rri->ri_FdwState != NULL)
		return;
	rri->ri_FdwState = mosql_exec_modify_open(mtstate, rri);
	if (mosql_exec_conflict_action(plan) == ONCONFLICT_UPDATE)
	{
		mosql_exec_routed_update(mtstate, rri);
		mosql_exec_upsert_open(rri->ri_FdwState, mtstate, rri);
	}
}

/* For rows that the executor inserts foreign keys were checked when it finished. */
void
mosqlEndForeignInsert(EState *estate, ResultRelInfo *rri)
{
	if (rri->ri_FdwState != NULL)
		mosql_exec_fresh_end((MosqlModifyState *) rri->ri_FdwState);
	mosql_references_end(estate);
	mosqlEndForeignModify(estate, rri);
}
