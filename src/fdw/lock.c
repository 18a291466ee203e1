/*
 * lock.c: FOR UPDATE and FOR SHARE.
 *
 * Layer: fdw.  Locking a row puts it into what commit validates: the transaction
 * fails with 40001 unless the row still has the version that was read.  If
 * mosql_fdw.locking is pessimistic, it is locked in Redis before (txn/lock.c), and others
 * wait; else nobody waits for anybody before commit, all strengths are one, and NOWAIT and
 * SKIP LOCKED have nothing to wait for.
 *
 * The executor names the row by its ctid, in which the scan put it (tid.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

#include "code/claim.h"
#include "fdw/exec_int.h"

/*
 * Rows to be locked carry their ctid up the plan.  Rows of other tables in
 * UPDATE ... FROM and the like are only re-examined: a copy serves.
 */
RowMarkType
mosqlGetForeignRowMarkType(RangeTblEntry *rte, LockClauseStrength strength)
{
	switch (strength)
	{
		case LCS_NONE:
			return ROW_MARK_COPY;
		case LCS_FORKEYSHARE:
			return ROW_MARK_KEYSHARE;
		case LCS_FORSHARE:
			return ROW_MARK_SHARE;
		case LCS_FORNOKEYUPDATE:
			return ROW_MARK_NOKEYEXCLUSIVE;
		case LCS_FORUPDATE:
			return ROW_MARK_EXCLUSIVE;
	}
	return ROW_MARK_COPY;
}

/* What RefetchForeignRow keeps in ExecRowMark.ermExtra. */
typedef struct MosqlRowMark
{
	MosqlTable *table;
	MosqlTxn   *txn;
	bool		refills;
	MemoryContext cxt;			/* one row */
} MosqlRowMark;

/*
 * May the executor look at the slot?  We never say that a row was updated, so
 * it does only when some heap table of the statement says so of one of its own
 * locked rows.
 */
static bool
other_tables_lock(EState *estate)
{
	for (Index i = 0; i < estate->es_range_table_size && estate->es_rowmarks; i++)
	{
		ExecRowMark *erm = estate->es_rowmarks[i];

		if (erm != NULL && RowMarkRequiresRowShareLock(erm->markType) &&
			erm->relation != NULL &&
			erm->relation->rd_rel->relkind != RELKIND_FOREIGN_TABLE)
			return true;
	}
	return false;
}

static Oid
row_mark_user(EState *estate, ExecRowMark *erm)
{
	RangeTblEntry *rte = exec_rt_fetch(erm->prti, estate);

#if PG_VERSION_NUM >= 160000
	if (rte->perminfoindex == 0)
		return InvalidOid;
	return getRTEPermissionInfo(estate->es_rteperminfos, rte)->checkAsUser;
#else
	return rte->checkAsUser;
#endif
}

static MosqlRowMark *
open_mark(EState *estate, ExecRowMark *erm)
{
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
	MosqlRowMark *mark = palloc0(sizeof(MosqlRowMark));
	MosqlSession *session = mosql_fdw_session_for(RelationGetRelid(erm->relation),
												  row_mark_user(estate, erm));

	mark->txn = mosql_txn_current(session);
	mark->table = mosql_table_open(erm->relation, session);
	mark->refills = other_tables_lock(estate);
	mark->cxt = AllocSetContextCreate(estate->es_query_cxt, "mosql locked row",
									  ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(old);
	return mark;
}

/* Read the row again, as the statement's snapshot shows it. */
static void
refill_slot(EState *estate, MosqlRowMark *mark, MosqlBytes key, TupleTableSlot *slot)
{
	MemoryContext old;
	MosqlRow	row;
	MosqlView  *view;

	MemoryContextReset(mark->cxt);
	old = MemoryContextSwitchTo(mark->cxt);
	view = mosql_view_open(mark->txn, estate, estate->es_snapshot->curcid, false);
	mosql_view_get(view, mark->table->tree, &key, 1, &row);
	mosql_view_close(view);
	if (row.found)
		mosql_exec_store_row(mark->table, &row, NULL, slot);
	else
		ExecStoreAllNullTuple(slot);
	ExecMaterializeSlot(slot);
	MemoryContextSwitchTo(old);
}

static MosqlStrength
strength_of(RowMarkType type)
{
	switch (type)
	{
		case ROW_MARK_KEYSHARE:
			return MOSQL_KEY_SHARE;
		case ROW_MARK_SHARE:
			return MOSQL_SHARE;
		case ROW_MARK_NOKEYEXCLUSIVE:
			return MOSQL_NO_KEY_UPDATE;
		default:
			return MOSQL_UPDATE;
	}
}

/*
 * A locked read.  An empty slot: the row is gone, or skipped.  A newer version than the
 * scan's is evaluated again by the executor.
 */
static void
lock_row(EState *estate, ExecRowMark *erm, MosqlRowMark *mark, const MosqlRow *scanned,
		 TupleTableSlot *slot, bool *updated)
{
	MemoryContext old;
	MosqlRow	row;
	bool		locked;

	*updated = false;
	ExecClearTuple(slot);
	MemoryContextReset(mark->cxt);
	old = MemoryContextSwitchTo(mark->cxt);
	mosql_txn_claim(mark->txn, mark->table->tree, &scanned->key, 1, strength_of(erm->markType),
					erm->waitPolicy, &row, &locked);
	if (locked)
	{
		if (row.own)
		{
			ExecStoreAllNullTuple(slot);
			slot->tts_tableOid = RelationGetRelid(erm->relation);
			MemoryContextSwitchTo(old);
			return;
		}
		*updated = row.version != scanned->version;
		if (*updated && IsolationUsesXactSnapshot())
			ereport(ERROR,
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not serialize access due to concurrent update")));
		if (row.found)
		{
			mosql_txn_lock_row(mark->txn, mark->table->tree, scanned->key, row.version);
			mosql_exec_store_row(mark->table, &row, NULL, slot);
			ExecMaterializeSlot(slot);
			slot->tts_tableOid = RelationGetRelid(erm->relation);
		}
	}
	MemoryContextSwitchTo(old);
}

void
mosqlRefetchForeignRow(EState *estate, ExecRowMark *erm, Datum rowid, TupleTableSlot *slot,
					   bool *updated)
{
	MosqlRowMark *mark = (MosqlRowMark *) erm->ermExtra;
	MosqlRow	row;

	if (mark == NULL)
		erm->ermExtra = mark = open_mark(estate, erm);
	mosql_exec_row_of_tid(mark->txn, mark->table->tree, rowid, &row);
	if (mosql_txn_locking == MOSQL_PESSIMISTIC)
	{
		lock_row(estate, erm, mark, &row, slot, updated);
		return;
	}
	mosql_txn_lock_row(mark->txn, mark->table->tree, row.key, row.version);

	*updated = false;
	ExecClearTuple(slot);
	if (mark->refills)
		refill_slot(estate, mark, row.key, slot);
	else
		ExecStoreAllNullTuple(slot);	/* "not empty" is all that is asked */
	slot->tts_tableOid = RelationGetRelid(erm->relation);
	slot->tts_tid = *(ItemPointer) DatumGetPointer(rowid);
}

/*
 * After another table's row turned out to be updated the executor evaluates
 * the row again: its key conditions are in fdw_recheck_quals, nothing is left.
 */
bool
mosqlRecheckForeignScan(ForeignScanState *node, TupleTableSlot *slot)
{
	return true;
}
