/*
 * lock.c: locks of rows, and FOR UPDATE and kin row by row.
 *
 * Layer: fdw.  Where the table's locking is pessimistic, rows are locked in Redis
 * (txn/lock.c): who is in the way is waited for, and who has waited goes on with the newest
 * version, which the executor evaluates again, as in PostgreSQL; above READ COMMITTED that
 * is 40001.
 *
 * Where it is optimistic, nobody waits for anybody before commit.  Locking a row puts it into
 * what commit validates: the transaction fails with 40001 unless the row still has the
 * version that was read.  All strengths are one; NOWAIT and SKIP LOCKED have nothing to
 * wait for.
 *
 * The executor names the row by its ctid, in which the scan put it (tid.c).  Scans that lock
 * by themselves: lock_scan.c.
 */
#include "postgres.h"

#include "access/xact.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

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

/* ---- locked reads ---- */

bool
mosql_lock_is_wanted(Oid relid)
{
	return mosql_fdw_locking(relid) == MOSQL_PESSIMISTIC;
}

MosqlStrength
mosql_lock_mark_strength(RowMarkType type)
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

static void
report_changed(const MosqlLocker *locker, bool deleted)
{
	mosql_stats.conflicts++;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 deleted && locker->changes
			 ? errmsg("could not serialize access due to concurrent delete")
			 : errmsg("could not serialize access due to concurrent update"),
			 errhint("The transaction might succeed if retried.")));
}

static void
report_locked(const MosqlLocker *locker)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not obtain lock on row in relation \"%s\"",
					RelationGetRelationName(locker->rel))));
}

/* Claim keys; NOWAIT is told here, where the table's name is known. */
static void
claim(const MosqlLocker *locker, const MosqlBytes *keys, int n, MosqlRow *rows, bool *locked)
{
	mosql_txn_claim(locker->txn, locker->table->tree, keys, n, locker->strength,
					locker->policy == LockWaitBlock ? LockWaitBlock : LockWaitSkip, rows, locked);
	for (int i = 0; i < n && locker->policy == LockWaitError; i++)
		if (!locked[i])
			report_locked(locker);
}

/*
 * What is only locked shall be at commit what it is now: the lock may be lost in a failover.
 * Beside KEY SHARE it may change, and shall be there.
 */
static void
note_locked(const MosqlLocker *locker, const MosqlRow *row)
{
	if (!locker->changes)
		mosql_txn_lock_row(locker->txn, locker->table->tree, row->key, row->version,
						   locker->strength > MOSQL_KEY_SHARE);
}

/*
 * What a row has become that was read, and is locked now.  What this transaction has changed
 * is as the view shows it.
 */
static MosqlLocked
judge(const MosqlLocker *locker, const MosqlRow *read, const MosqlRow *now)
{
	if (now->own)
		return MOSQL_LOCKED;
	if (now->found && now->version == read->version)
	{
		note_locked(locker, now);
		return MOSQL_LOCKED;
	}
	if (!now->found && !read->found)
		return MOSQL_NOT_LOCKED;	/* a key that is free still */
	if (IsolationUsesXactSnapshot())
		report_changed(locker, !now->found);
	if (!now->found)
		return MOSQL_NOT_LOCKED;
	note_locked(locker, now);
	return MOSQL_LOCKED_NEWER;
}

void
mosql_lock_rows(const MosqlLocker *locker, const MosqlRow *read, int n, MosqlRow *newest,
				MosqlLocked *locked)
{
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	int		   *where = palloc(n * sizeof(int));
	MosqlRow   *rows = palloc(n * sizeof(MosqlRow));
	bool	   *had = palloc(n * sizeof(bool));
	int			m = 0;

	for (int i = 0; i < n; i++)
	{
		locked[i] = MOSQL_LOCKED;
		if (mosql_txn_has_claimed(locker->txn, locker->table->tree, read[i].key, read[i].version,
								  locker->strength))
			continue;
		where[m] = i;
		keys[m++] = read[i].key;
	}
	if (m == 0)
		return;
	claim(locker, keys, m, rows, had);
	for (int i = 0; i < m; i++)
	{
		newest[where[i]] = rows[i];
		locked[where[i]] = had[i] ? judge(locker, &read[where[i]], &rows[i]) : MOSQL_NOT_LOCKED;
	}
}

void
mosql_lock_get(const MosqlLocker *locker, MosqlView *view, const MosqlBytes *keys, int n,
			   MosqlRow *rows)
{
	MosqlBytes *wanted = palloc(n * sizeof(MosqlBytes));
	int		   *where = palloc(n * sizeof(int));
	MosqlRow   *now = palloc(n * sizeof(MosqlRow));
	bool	   *locked = palloc(n * sizeof(bool));
	int			m = 0;

	Assert(!IsolationUsesXactSnapshot());
	for (int i = 0; i < n; i++)
		if (mosql_txn_has_claimed(locker->txn, locker->table->tree, keys[i], MOSQL_VERSION_ANY,
								  locker->strength))
			mosql_view_get(view, locker->table->tree, &keys[i], 1, &rows[i]);
		else if (mosql_txn_locked_row(locker->txn, locker->table->tree, keys[i], locker->strength,
									  &rows[i]))
			note_locked(locker, &rows[i]);
		else
		{
			where[m] = i;
			wanted[m++] = keys[i];
		}
	if (m > 0)
		claim(locker, wanted, m, now, locked);
	for (int i = 0; i < m; i++)
	{
		MosqlRow   *row = &rows[where[i]];

		*row = now[i];
		row->found &= locked[i];
		if (locked[i] && row->own)
			mosql_view_get(view, locker->table->tree, &wanted[i], 1, row);
		else if (row->found)
			note_locked(locker, row);
	}
}

/*
 * A row that was locked without looking at the snapshot, which is drawn now, if that is the first read: so who
 * begins with a row that others are changing begins after them.
 */
static void
hold_to_snapshot(const MosqlLocker *locker, MosqlView *view, MosqlRow *row)
{
	MosqlRow	then = {0};

	if (row->found && row->version <= mosql_view_snapshot(view))
		return;
	mosql_view_get(view, locker->table->tree, &row->key, 1, &then);
	if (then.found)
		report_changed(locker, !row->found);
	row->found = false;
}

static void
claim_to_peek(const MosqlLocker *locker, MosqlView *view, const MosqlBytes *keys, int n, MosqlRow *rows)
{
	bool	   *locked = palloc(n * sizeof(bool));

	claim(locker, keys, n, rows, locked);
	for (int i = 0; i < n; i++)
		if (rows[i].own)
			mosql_view_peek(view, locker->table->tree, &keys[i], 1, &rows[i]);
		else if (IsolationUsesXactSnapshot())
			hold_to_snapshot(locker, view, &rows[i]);
}

void
mosql_lock_peek(const MosqlLocker *locker, MosqlView *view, const MosqlBytes *keys, int n, bool claims,
				MosqlRow *rows)
{
	MosqlTree  *tree = locker->table->tree;
	MosqlBytes *wanted = palloc(n * sizeof(MosqlBytes));
	int		   *where = palloc(n * sizeof(int));
	MosqlRow   *read = palloc0(n * sizeof(MosqlRow));
	int			m = 0;

	for (int i = 0; i < n; i++)
		if (mosql_txn_has_claimed(locker->txn, tree, keys[i], MOSQL_VERSION_ANY, locker->strength))
			mosql_view_peek(view, tree, &keys[i], 1, &rows[i]);
		else if (!mosql_txn_locked_row(locker->txn, tree, keys[i], locker->strength, &rows[i]))
		{
			where[m] = i;
			wanted[m++] = keys[i];
		}
	if (m == 0)
		return;
	mosql_txn_ask_usual(locker->txn, tree);
	if (claims)
		claim_to_peek(locker, view, wanted, m, read);
	else
		mosql_view_peek(view, tree, wanted, m, read);
	mosql_txn_asked_usual(locker->txn);
	for (int i = 0; i < m; i++)
		rows[where[i]] = read[i];
}

void
mosql_lock_store(const MosqlLocker *locker, const MosqlRow *row, TupleTableSlot *slot)
{
	ExecClearTuple(slot);
	mosql_exec_store_row(locker->table, row, NULL, slot);
	mosql_system_put(slot, RelationGetRelid(locker->rel),
					 mosql_row_token(row->version, row->columns));
	ExecMaterializeSlot(slot);
}

/* ---- row by row ---- */

/* What RefetchForeignRow keeps in ExecRowMark.ermExtra. */
typedef struct MosqlRowMark
{
	MosqlTable *table;
	MosqlTxn   *txn;
	bool		refills;
	bool		locks;			/* the table's locking is pessimistic */
	MosqlLocker locker;
	MemoryContext cxt;			/* one row */
} MosqlRowMark;

/*
 * May the executor look at the slot?  It does where some row of the statement turns out to
 * be updated: this one, whose slot is filled then, or one of another table, which may be a
 * heap table or a pessimistic one.
 */
static bool
other_tables_lock(EState *estate, const ExecRowMark *self)
{
	for (Index i = 0; i < estate->es_range_table_size && estate->es_rowmarks; i++)
	{
		ExecRowMark *erm = estate->es_rowmarks[i];

		if (erm != NULL && erm != self && RowMarkRequiresRowShareLock(erm->markType) &&
			erm->relation != NULL)
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
	mark->table = mosql_table_open_locked(erm->relation, session, RowShareLock, false);
	mark->refills = other_tables_lock(estate, erm);
	mark->locks = mosql_lock_is_wanted(RelationGetRelid(erm->relation));
	mark->locker = (MosqlLocker)
	{
		erm->relation, mark->table, mark->txn, mosql_lock_mark_strength(erm->markType),
			erm->waitPolicy, false
	};
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

/*
 * The slot of a row that is as it was read: "not empty" is all that is asked, unless some other
 * row is evaluated again.
 */
static void
fill_slot(EState *estate, MosqlRowMark *mark, const MosqlRow *row, TupleTableSlot *slot)
{
	if (mark->refills)
		refill_slot(estate, mark, row->key, slot);
	else
		ExecStoreAllNullTuple(slot);
}

/* A locked read; the slot stays empty if the row is gone, or skipped. */
static void
lock_row(EState *estate, MosqlRowMark *mark, const MosqlRow *read, TupleTableSlot *slot,
		 bool *updated)
{
	MemoryContext old;
	MosqlRow	newest = {0};
	MosqlLocked locked;

	MemoryContextReset(mark->cxt);
	old = MemoryContextSwitchTo(mark->cxt);
	mosql_lock_rows(&mark->locker, read, 1, &newest, &locked);
	*updated = locked == MOSQL_LOCKED_NEWER;
	if (*updated)
		mosql_lock_store(&mark->locker, &newest, slot);
	MemoryContextSwitchTo(old);
	if (locked == MOSQL_LOCKED)
		fill_slot(estate, mark, read, slot);
}

/*
 * Has this transaction changed the row since the statement began, a cursor was opened for instance?
 * Then it is left out, as PostgreSQL does: a row cannot be locked as it was.
 */
static bool
is_changed_since(const EState *estate, const MosqlRowMark *mark, MosqlBytes key)
{
	return mosql_txn_own_write(mark->txn, mark->table->tree, key, estate->es_output_cid) !=
		MOSQL_OWN_NONE;
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
	*updated = false;
	ExecClearTuple(slot);
	if (is_changed_since(estate, mark, row.key))
		return;
	if (mark->locks)
		lock_row(estate, mark, &row, slot, updated);
	else
	{
		mosql_txn_lock_row(mark->txn, mark->table->tree, row.key, row.version, true);
		fill_slot(estate, mark, &row, slot);
	}
	if (TTS_EMPTY(slot))
		return;
	slot->tts_tableOid = RelationGetRelid(erm->relation);
	slot->tts_tid = *(ItemPointer) DatumGetPointer(rowid);
	erm->curCtid = slot->tts_tid;	/* WHERE CURRENT OF */
}

/*
 * A row is evaluated again: the conditions that were taken for bounds of the key are in
 * fdw_recheck_quals, which the executor asks itself, so nothing is left.
 */
bool
mosqlRecheckForeignScan(ForeignScanState *node, TupleTableSlot *slot)
{
	return true;
}
