/*
 * conflict.c: INSERT ... ON CONFLICT.
 *
 * Layer: fdw.  Core plans it (the arbiter is the key's index, see
 * admin/index_am.c), but leaves the whole execution to us: it only ever calls
 * ExecForeignInsert, which for DO UPDATE does what the executor does for a local
 * table: it shows the row that is there to the WHERE and SET expressions, writes
 * the result, and returns that for RETURNING.
 *
 * Both see the latest committed row, as in PostgreSQL, not the statement's
 * snapshot.  The write is certified at commit like any other: somebody who
 * inserts or changes the row in between makes this transaction fail with 40001.
 * Where the table's locking is pessimistic, nobody can: DO UPDATE locks the row that it
 * finds, and both lock a key that they find free, which waits for whoever inserts it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "fdw/exec_int.h"

/* The latest rows, and what earlier commands of this transaction wrote. */
static MosqlView *
latest_view(MosqlModifyState *modify, EState *estate)
{
	if (modify->view == NULL)
		modify->view = mosql_view_open(modify->txn, estate, modify->cid, true);
	return modify->view;
}

/* ---- arbiters ---- */

static const MosqlIndex *
arbiter_of(const MosqlModifyState *modify, Oid indexid)
{
	const MosqlIndex *index = mosql_fdw_index_of(modify->table, indexid);
	const char *name = get_rel_name(indexid);

	if (index == NULL || !index->unique)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("index \"%s\" no longer exists in Redis", name ? name : "?"),
				 errdetail("Another server dropped it, or made it another one."),
				 errhint("SELECT mosql_fdw_refresh('%s') makes the indexes here the same.",
						 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(modify->rel)),
													RelationGetRelationName(modify->rel)))));
	return index;
}

/*
 * Which keys decide over a conflict: those of the arbiters that core found, or
 * all unique ones (DO NOTHING without a target).  NULL stands for the table's own.
 */
static void
list_arbiters(MosqlModifyState *modify, const List *arbiters)
{
	const MosqlTable *table = modify->table;
	Oid			primary = mosql_fdw_primary_key(modify->rel);
	ListCell   *lc;

	modify->arbiters = palloc((table->nindexes + list_length(arbiters) + 1) *
							  sizeof(MosqlIndex *));
	foreach(lc, arbiters)
		modify->arbiters[modify->narbiters++] =
			lfirst_oid(lc) == primary ? NULL : arbiter_of(modify, lfirst_oid(lc));
	if (arbiters != NIL)
		return;
	if (table->nkeys > 0)
		modify->arbiters[modify->narbiters++] = NULL;
	for (int i = 0; i < table->nindexes; i++)
		if (table->indexes[i].unique)
			modify->arbiters[modify->narbiters++] = &table->indexes[i];
}

/*
 * What an arbiter did not find is not looked up again: who takes it between that read
 * and commit makes this transaction fail with 40001, never with 23505.
 */
void
mosql_exec_arbiters(MosqlModifyState *modify, const List *arbiters)
{
	list_arbiters(modify, arbiters);
	for (int i = 0; i < modify->narbiters; i++)
		if (modify->arbiters[i] == NULL)
			modify->key_found_free = true;
		else
			modify->found_free = bms_add_member(modify->found_free,
												modify->arbiters[i] - modify->table->indexes);
}

typedef enum Conflict
{
	NO_CONFLICT,
	CONFLICT,					/* with a row that is there */
	OWN_CONFLICT				/* with one that this command wrote */
} Conflict;

/* What was found for a row of a batch, before its turn (look_ahead()). */
typedef enum Ahead
{
	AHEAD_UNKNOWN,				/* to be looked for at its turn */
	AHEAD_FREE,
	AHEAD_FOUND					/* the row is there, and has the entry */
} Ahead;

typedef struct Proposed
{
	MosqlBytes	key;			/* of the row to be inserted */
	Ahead		ahead;
	MosqlRow	row;			/* that it meets */
} Proposed;

/* Looks for an entry's row before giving up. */
#define LOOK_TRIES	10

/* Is this the entry of that row? */
static bool
has_entry(MosqlModifyState *modify, const MosqlIndex *index, const MosqlRow *row,
		  MosqlBytes entry, EState *estate)
{
	TupleTableSlot *slot = mosql_exec_old_slot(modify, estate);
	StringInfoData key;
	StringInfoData columns;
	MosqlEntryKind	kind;

	mosql_exec_store_row(modify->table, row, NULL, slot);
	initStringInfo(&key);
	initStringInfo(&columns);
	kind = mosql_index_entry(index, slot, row->key, &key, &columns);
	ExecClearTuple(slot);
	return kind == MOSQL_ENTRY_ALONE && mosql_bytes_equal(mosql_bytes_of(&key), entry);
}

/* Lock keys (ascending, distinct) as they were read; a row is as it is then. */
static void
lock_read(const MosqlLocker *locker, MosqlRow *rows, int n)
{
	MosqlRow   *newest = palloc0(n * sizeof(MosqlRow));
	MosqlLocked *locked = palloc(n * sizeof(MosqlLocked));

	mosql_lock_rows(locker, rows, n, newest, locked);
	for (int i = 0; i < n; i++)
		if (locked[i] == MOSQL_LOCKED_NEWER)
			rows[i] = newest[i];
		else if (locked[i] == MOSQL_NOT_LOCKED)
			rows[i].found = false;
}

/*
 * The rows of these keys (ascending, distinct), locked: DO NOTHING, which asks for one, locks
 * none that is there.
 */
static void
look_at_rows(MosqlModifyState *modify, MosqlView *view, const MosqlBytes *keys, int n,
			 MosqlRow *rows)
{
	Assert(n == 1 || modify->do_update);
	if (modify->locks && modify->do_update && !IsolationUsesXactSnapshot())
	{
		mosql_lock_get(&modify->locker, view, keys, n, rows);
		return;
	}
	mosql_view_get_each(view, modify->table->tree, keys, n, rows);
	if (modify->locks && (modify->do_update || !rows[0].found))
		lock_read(&modify->locker, rows, n);
}

/*
 * The entry of a unique index.  Who inserts it or takes it away is waited for; one that is free
 * is locked, and for one that is there its row stands.
 */
static void
look_at_entry(MosqlModifyState *modify, const MosqlIndex *index, MosqlView *view, MosqlBytes key,
			  MosqlRow *entry)
{
	MosqlTree  *tree = index->entries->tree;
	MosqlLocker locker = modify->locker;
	int			before = mosql_txn_strength(modify->txn, tree, key);

	mosql_view_get(view, tree, &key, 1, entry);
	if (!modify->locks || (entry->found && !entry->taken))
		return;
	locker.table = index->entries;
	locker.strength = MOSQL_UPDATE;
	lock_read(&locker, entry, 1);
	if (entry->found)
		mosql_txn_lower(modify->txn, tree, key, before);
}

/* The row of an entry, if it is that still. */
static bool
look_at_its_row(MosqlModifyState *modify, const MosqlIndex *index, MosqlView *view,
				MosqlBytes entry_key, MosqlBytes row_key, EState *estate, MosqlRow *row)
{
	memset(row, 0, sizeof(*row));
	look_at_rows(modify, view, &row_key, 1, row);
	return row->found && has_entry(modify, index, row, entry_key, estate);
}

/*
 * DO UPDATE under READ COMMITTED: the entry is locked in the step that reads it, and then its
 * row, if that can be had at once, which then stands for it.  If not, the entry is let go
 * first: who changes or deletes the row wants it next.  False: the row is not the entry's any
 * more, and let go, too.
 */
static bool
lock_entry_and_row(MosqlModifyState *modify, const MosqlIndex *index, MosqlView *view,
				   MosqlBytes key, EState *estate, MosqlRow *row, bool *found)
{
	MosqlTree  *entries = index->entries->tree;
	int			entry_before = mosql_txn_strength(modify->txn, entries, key);
	MosqlLocker locker = modify->locker;
	MosqlBytes	row_key;
	int			before;
	bool		had;

	locker.table = index->entries;
	locker.strength = MOSQL_UPDATE;
	mosql_lock_get(&locker, view, &key, 1, row);
	*found = row->found;
	if (!row->found)
		return false;
	row_key = mosql_index_row_key(index, row);
	before = mosql_txn_strength(modify->txn, modify->table->tree, row_key);
	locker = modify->locker;
	locker.policy = LockWaitSkip;
	memset(row, 0, sizeof(*row));
	mosql_lock_get(&locker, view, &row_key, 1, row);
	had = row->found && has_entry(modify, index, row, key, estate);
	mosql_txn_lower(modify->txn, entries, key, entry_before);
	if (had || look_at_its_row(modify, index, view, key, row_key, estate, row))
		return true;
	mosql_txn_lower(modify->txn, modify->table->tree, row_key, before);
	return false;
}

/* The row of an entry, which is looked for; *found: there was an entry. */
static bool
look_by_entry(MosqlModifyState *modify, const MosqlIndex *index, MosqlView *view, MosqlBytes key,
			  EState *estate, MosqlRow *row, bool *found)
{
	if (modify->locks && modify->do_update && !IsolationUsesXactSnapshot())
		return lock_entry_and_row(modify, index, view, key, estate, row, found);
	look_at_entry(modify, index, view, key, row);
	*found = row->found;
	return row->found && look_at_its_row(modify, index, view, key, mosql_index_row_key(index, row),
										 estate, row);
}

/* By what an arbiter finds the row of this key, in the current context; false: it finds none. */
static bool
arbiter_key(const MosqlIndex *index, TupleTableSlot *slot, MosqlBytes key, MosqlBytes *result)
{
	StringInfoData entry;
	StringInfoData columns;

	*result = key;
	if (index == NULL)
		return true;
	initStringInfo(&entry);
	initStringInfo(&columns);
	if (mosql_index_entry(index, slot, key, &entry, &columns) != MOSQL_ENTRY_ALONE)
		return false;			/* nulls are distinct; not in a partial index */
	*result = mosql_bytes_of(&entry);
	return true;
}

/*
 * The row that one arbiter finds.  What this command has written counts, as in
 * PostgreSQL: a value that it has taken away from a row meets nothing any more.
 *
 * Race -- an entry and its row are two reads of the latest state: in between the row
 * may have gone, or given the entry to another.  Then the entry is looked for anew.
 */
static Conflict
look_for_conflict(MosqlModifyState *modify, const MosqlIndex *index, TupleTableSlot *slot,
				  const Proposed *proposed, EState *estate, MosqlRow *row)
{
	const MosqlTable *keys = index ? index->entries : modify->table;
	MosqlView  *view = latest_view(modify, estate);
	MosqlBytes	key;

	if (!arbiter_key(index, slot, proposed->key, &key))
		return NO_CONFLICT;
	switch (mosql_txn_own_write(modify->txn, keys->tree, key, modify->cid))
	{
		case MOSQL_OWN_PUT:
			return OWN_CONFLICT;
		case MOSQL_OWN_DELETE:
			return NO_CONFLICT;
		case MOSQL_OWN_NONE:
			break;
	}
	*row = proposed->row;
	if (proposed->ahead != AHEAD_UNKNOWN)
		return proposed->ahead == AHEAD_FOUND ? CONFLICT : NO_CONFLICT;
	memset(row, 0, sizeof(*row));
	if (index == NULL)
	{
		look_at_rows(modify, view, &key, 1, row);
		return row->found ? CONFLICT : NO_CONFLICT;
	}
	for (int tries = 0; tries < LOOK_TRIES; tries++)
	{
		bool		found;

		CHECK_FOR_INTERRUPTS();
		memset(row, 0, sizeof(*row));
		if (look_by_entry(modify, index, view, key, estate, row, &found))
			return CONFLICT;
		if (!found)
			return NO_CONFLICT;
	}
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errhint("The transaction might succeed if retried.")));
}

static Conflict
find_conflict(MosqlModifyState *modify, TupleTableSlot *slot, const Proposed *proposed,
			  EState *estate, MosqlRow *row)
{
	for (int i = 0; i < modify->narbiters; i++)
	{
		Conflict	conflict = look_for_conflict(modify, modify->arbiters[i], slot, proposed, estate,
												 row);

		if (conflict != NO_CONFLICT)
			return conflict;
	}
	return NO_CONFLICT;
}

/* Only the table's own key decides: then many rows can be looked up at once. */
static bool
is_key_alone(const MosqlModifyState *modify)
{
	return modify->narbiters == 1 && modify->arbiters[0] == NULL;
}

/* The row's key into modify->key; a new one where it is hidden. */
static MosqlBytes
key_of(MosqlModifyState *modify, TupleTableSlot *slot)
{
	resetStringInfo(&modify->key);
	if (modify->table->nkeys > 0)
		mosql_table_slot_key(modify->table, slot, &modify->key);
	else
		mosql_table_new_row_id(modify->table, &modify->key);
	return mosql_bytes_copy(modify->row_cxt, mosql_bytes_of(&modify->key));
}

/* False if this command has the key already. */
static bool
insert_new(MosqlModifyState *modify, TupleTableSlot *slot, MosqlBytes key)
{
	MosqlNewKey known = modify->table->nkeys == 0 ? MOSQL_KEY_NEW
		: modify->key_found_free ? MOSQL_KEY_FOUND_FREE : MOSQL_KEY_MAY_EXIST;

	mosql_exec_put_row(modify, slot);
	if (mosql_txn_insert(modify->txn, modify->table->tree, key, mosql_bytes_of(&modify->columns),
						 modify->cid, known) == MOSQL_DUPLICATE)
		return false;
	if (known == MOSQL_KEY_MAY_EXIST)
		mosql_exec_lookup_due(modify);
	mosql_exec_write_entries(modify, NULL, MOSQL_ABSENT, slot, key);
	mosql_references_note(modify->references, NULL, slot);
	mosql_exec_set_tid(modify, key, slot);
	return true;
}

/* ---- DO NOTHING ---- */

/* Row by row, where several keys decide. */
static int
insert_one_by_one(MosqlModifyState *modify, TupleTableSlot **slots, int n, EState *estate,
				  TupleTableSlot **kept)
{
	int			nkept = 0;

	for (int i = 0; i < n; i++)
	{
		Proposed	proposed = {key_of(modify, slots[i])};
		MosqlRow	row;

		if (find_conflict(modify, slots[i], &proposed, estate, &row) != NO_CONFLICT)
			continue;
		if (!insert_new(modify, slots[i], proposed.key))
			mosql_exec_report_duplicate(modify, NULL, proposed.key);
		kept[nkept++] = slots[i];
	}
	return nkept;
}

static int
compare_rows(const void *a, const void *b)
{
	return mosql_bytes_compare((*(MosqlRow *const *) a)->key, (*(MosqlRow *const *) b)->key);
}

/* Lock the keys that are free, each once; one that somebody has inserted meanwhile is not. */
static void
lock_free(MosqlModifyState *modify, MosqlRow *rows, int n)
{
	MosqlRow  **order = palloc(n * sizeof(MosqlRow *));
	MosqlRow   *wanted = palloc(n * sizeof(MosqlRow));
	int			nfree = 0;
	int			m = 0;

	for (int i = 0; i < n; i++)
		if (!rows[i].found)
			order[nfree++] = &rows[i];
	if (nfree == 0)
		return;
	qsort(order, nfree, sizeof(MosqlRow *), compare_rows);
	for (int i = 0; i < nfree; i++)
		if (m == 0 || !mosql_bytes_equal(wanted[m - 1].key, order[i]->key))
			wanted[m++] = *order[i];
	lock_read(&modify->locker, wanted, m);
	for (int i = 0, j = 0; i < nfree; i++)
	{
		j += !mosql_bytes_equal(wanted[j].key, order[i]->key);
		*order[i] = wanted[j];
	}
}

/* The view sees what earlier commands wrote, the buffer tells what this one did: a row that it has deleted meets nothing. */
static bool
meets_row(const MosqlModifyState *modify, MosqlBytes key, const MosqlRow *row)
{
	return row->found &&
		mosql_txn_own_write(modify->txn, modify->table->tree, key, modify->cid) != MOSQL_OWN_DELETE;
}

/*
 * One read for all rows.  No look-up of the key is needed afterwards: one that
 * somebody else takes between this read and commit fails there.
 */
static int
insert_together(MosqlModifyState *modify, TupleTableSlot **slots, int n, EState *estate,
				TupleTableSlot **kept)
{
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	MosqlRow   *rows = palloc0(n * sizeof(MosqlRow));
	int			nkept = 0;

	for (int i = 0; i < n; i++)
		keys[i] = key_of(modify, slots[i]);
	mosql_view_get(latest_view(modify, estate), modify->table->tree, keys, n, rows);
	if (modify->locks)
		lock_free(modify, rows, n);
	for (int i = 0; i < n; i++)
		if (!meets_row(modify, keys[i], &rows[i]) && insert_new(modify, slots[i], keys[i]))
			kept[nkept++] = slots[i];
	return nkept;
}

/* Insert those of n rows that meet no conflict; the rest is skipped. */
int
mosql_exec_insert_free(MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot **slots, int n,
					   EState *estate, TupleTableSlot **kept)
{
	MosqlStats	before = mosql_stats;
	MemoryContext old;
	int			nkept;

	for (int i = 0; i < n; i++)
		mosql_exec_check_row(modify, rri, slots[i], estate, modify->bounded_insert);
	MemoryContextReset(modify->row_cxt);
	old = MemoryContextSwitchTo(modify->row_cxt);
	nkept = is_key_alone(modify) ? insert_together(modify, slots, n, estate, kept)
		: insert_one_by_one(modify, slots, n, estate, kept);
	MemoryContextSwitchTo(old);
	InstrCountTuples2(&modify->mtstate->ps, n - nkept);
	mosql_cost_add(&modify->cost, &before);
	return nkept;
}

/* ---- DO UPDATE: triggers ---- */

/*
 * After ExecForeignInsert core fires the AFTER ROW INSERT triggers and collects
 * the row for transition tables.  For a row that was updated instead, it shall
 * not: the relation then shows it a set of triggers without these.
 */
static void
show_insert_triggers(MosqlModifyState *modify, ResultRelInfo *rri, bool show)
{
	TransitionCaptureState *capture = modify->mtstate->mt_transition_capture;

	rri->ri_TrigDesc = show ? modify->triggers : modify->update_triggers;
	if (capture != NULL)
		capture->tcs_insert_new_table = show && modify->captures_inserts;
}

/*
 * RETURNING OLD: what core returns of an ExecForeignInsert is a new row, the old one
 * null.
 */
#if PG_VERSION_NUM >= 180000
static bool
reads_old(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		return ((Var *) node)->varreturningtype == VAR_RETURNING_OLD;
	if (IsA(node, ReturningExpr) && ((ReturningExpr *) node)->retold)
		return true;
	return expression_tree_walker(node, reads_old, context);
}

static void
check_returning(const MosqlModifyState *modify)
{
	const ModifyTable *plan = (const ModifyTable *) modify->mtstate->ps.plan;

	if (reads_old((Node *) plan->returningLists, NULL))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("RETURNING OLD is not supported for ON CONFLICT DO UPDATE on foreign table \"%s\"",
						RelationGetRelationName(modify->rel)),
				 errhint("Read the row first, with SELECT ... FOR UPDATE in the same transaction.")));
}
#endif

void
mosql_exec_upsert_open(MosqlModifyState *modify, ModifyTableState *mtstate, ResultRelInfo *rri)
{
	TransitionCaptureState *capture = mtstate->mt_transition_capture;

	modify->do_update = true;
	modify->triggers = rri->ri_TrigDesc;
	modify->captures_inserts = capture != NULL && capture->tcs_insert_new_table;
	if (rri->ri_TrigDesc != NULL)
	{
		modify->update_triggers = palloc(sizeof(TriggerDesc));
		*modify->update_triggers = *rri->ri_TrigDesc;
		modify->update_triggers->trig_insert_after_row = false;
		modify->update_triggers->trig_insert_new_table = false;
	}
#if PG_VERSION_NUM >= 180000
	check_returning(modify);
#endif
}

/* False: a trigger suppressed the update. */
static bool
before_update_triggers(MosqlModifyState *modify, ResultRelInfo *rri, HeapTuple old,
					   TupleTableSlot *slot, EState *estate)
{
	if (modify->triggers == NULL || !modify->triggers->trig_update_before_row)
		return true;
	return ExecBRUpdateTriggers(estate, &modify->mtstate->mt_epqstate, rri, NULL, old, slot,
#if PG_VERSION_NUM >= 160000
								NULL,
#endif
								NULL
#if PG_VERSION_NUM >= 180000
								,false
#endif
		);
}

static void
after_update_triggers(MosqlModifyState *modify, ResultRelInfo *rri, HeapTuple old,
					  TupleTableSlot *slot, EState *estate)
{
	ExecARUpdateTriggers(estate, rri, NULL, NULL, NULL, old, slot, NIL,
						 modify->mtstate->mt_oc_transition_capture, false);
}

/* ---- DO UPDATE ---- */

/* Rows before this one may have met others: then that is the error. */
static void
report_second_time(MosqlModifyState *modify)
{
	mosql_exec_lookup_all(modify);
	ereport(ERROR,
			(errcode(ERRCODE_CARDINALITY_VIOLATION),
			 errmsg("ON CONFLICT DO UPDATE command cannot affect row a second time"),
			 errhint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")));
}

/*
 * The conditions of the views above, without which they would update rows that they do not show: before WHERE, as core
 * does it.  Minor releases brought WCO_VIEW_CONFLICT_CHECK, behind the kinds that all have.
 */
static void
check_shown(ResultRelInfo *rri, TupleTableSlot *existing, EState *estate)
{
	ListCell   *lc;

	foreach(lc, rri->ri_WithCheckOptions)
	{
		int			kind = lfirst_node(WithCheckOption, lc)->kind;

		if (kind > WCO_RLS_MERGE_DELETE_CHECK)
		{
			ExecWithCheckOptions(kind, rri, existing, estate);
			return;
		}
	}
}

/*
 * What SET makes of the existing row, in the projection's slot; NULL if WHERE
 * says no.  `excluded` is the row that was to be inserted.
 */
static TupleTableSlot *
project_update(MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot *existing,
			   TupleTableSlot *excluded)
{
	ExprContext *econtext = modify->mtstate->ps.ps_ExprContext;

	ResetExprContext(econtext);
	econtext->ecxt_scantuple = existing;
	econtext->ecxt_innertuple = excluded;
	econtext->ecxt_outertuple = NULL;
	check_shown(rri, existing, modify->mtstate->ps.state);
	if (!ExecQual(rri->ri_onConflict->oc_WhereClause, econtext))
		return NULL;

	/* policies, as core does it */
	if (rri->ri_WithCheckOptions != NIL)
		ExecWithCheckOptions(WCO_RLS_CONFLICT_CHECK, rri, existing, modify->mtstate->ps.state);
	return ExecProject(rri->ri_onConflict->oc_ProjInfo);
}

static void
check_partition(const MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot *slot, EState *estate)
{
	if (modify->bounded_update && !ExecPartitionCheck(rri, slot, estate, false))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("invalid ON UPDATE specification"),
				 errdetail("The result tuple would appear in a different partition than the original tuple.")));
}

/* Write the new row over the old one, under another key if that changed. */
static void
write_update(MosqlModifyState *modify, const MosqlRow *old, TupleTableSlot *existing,
			 TupleTableSlot *slot)
{
	MosqlTable *table = modify->table;

	resetStringInfo(&modify->key);
	if (table->nkeys > 0)
		mosql_table_slot_key(table, slot, &modify->key);
	mosql_exec_put_row(modify, slot);
	if (mosql_exec_replace_row(modify, old, existing, slot) == MOSQL_SELF_MODIFIED)
		report_second_time(modify);
	mosql_references_note(modify->references, existing, slot);
}

static TupleTableSlot *
update_existing(MosqlModifyState *modify, ResultRelInfo *rri, MosqlRow *row,
				TupleTableSlot *excluded, EState *estate)
{
	TupleTableSlot *existing = rri->ri_onConflict->oc_Existing;
	TupleTableSlot *slot;
	HeapTuple	old;

	ExecClearTuple(existing);
	mosql_exec_store_row(modify->table, row, NULL, existing);
	existing->tts_tableOid = RelationGetRelid(modify->rel);
	mosql_exec_set_tid(modify, row->key, existing);
	if (modify->system & MOSQL_SYSTEM_VERSION)
		mosql_system_put(existing, RelationGetRelid(modify->rel),
						 mosql_view_token(modify->view, modify->table->tree, row));
	slot = project_update(modify, rri, existing, excluded);
	if (slot == NULL)
		return NULL;

	old = ExecFetchSlotHeapTuple(existing, true, NULL);
	if (!before_update_triggers(modify, rri, old, slot, estate))
		return NULL;
	slot->tts_tableOid = RelationGetRelid(modify->rel);
	if (modify->rel->rd_att->constr && modify->rel->rd_att->constr->has_generated_stored)
		ExecComputeStoredGenerated(rri, estate, slot, CMD_UPDATE);
	check_partition(modify, rri, slot, estate);
	mosql_exec_check_row(modify, rri, slot, estate, false);
	write_update(modify, row, existing, slot);
	after_update_triggers(modify, rri, old, slot, estate);
	return slot;
}

/* Insert the row, or update the one that it meets; NULL if WHERE or a trigger said no. */
static TupleTableSlot *
upsert(MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot *slot, const Proposed *proposed,
	   EState *estate)
{
	MosqlStats	before = mosql_stats;
	Conflict	conflict;
	MosqlRow	row;

	conflict = find_conflict(modify, slot, proposed, estate, &row);
	mosql_cost_add(&modify->cost, &before);
	show_insert_triggers(modify, rri, conflict == NO_CONFLICT);
	modify->met_row = conflict == CONFLICT;
	if (modify->met_row)
	{
		InstrCountTuples2(&modify->mtstate->ps, 1);
		return update_existing(modify, rri, &row, slot, estate);
	}
	if (conflict == OWN_CONFLICT)
		report_second_time(modify);
	else if (!insert_new(modify, slot, proposed->key))
		mosql_exec_report_duplicate(modify, NULL, proposed->key);
	return slot;
}

/*
 * Asked with the first row, and not before: PostgreSQL 15 keeps what is generated once for INSERT and UPDATE, as
 * who comes first needs it, and rows that are inserted need all of it.
 */
static void
find_strength(MosqlModifyState *modify, ResultRelInfo *rri, EState *estate)
{
	if (modify->knows_strength)
		return;
	modify->locker.strength = mosql_lock_update_strength(modify->table, ExecGetAllUpdatedCols(rri, estate));
	modify->knows_strength = true;
}

/* Returns the row as written. */
TupleTableSlot *
mosql_exec_upsert(MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot *slot,
				  EState *estate)
{
	Proposed	proposed = {MOSQL_ABSENT};
	MemoryContext old;

	find_strength(modify, rri, estate);
	mosql_exec_check_row(modify, rri, slot, estate, modify->bounded_insert);
	MemoryContextReset(modify->row_cxt);
	old = MemoryContextSwitchTo(modify->row_cxt);
	proposed.key = key_of(modify, slot);
	slot = upsert(modify, rri, slot, &proposed, estate);
	MemoryContextSwitchTo(old);
	return slot;
}

/* ---- DO UPDATE: many rows ---- */

/* Rows of a batch that wait for an answer about one key each. */
typedef struct Asked
{
	MosqlBytes	key;
	MosqlBytes	entry;			/* that led to it; absent: the arbiter is the key itself */
	Proposed   *proposed;
} Asked;

static int
compare_asked(const void *a, const void *b)
{
	return mosql_bytes_compare(((const Asked *) a)->key, ((const Asked *) b)->key);
}

/* The keys that are asked about, ascending, each once; `asked` is sorted by it. */
static MosqlBytes *
keys_asked(Asked *asked, int n, int *nkeys)
{
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	int			m = 0;

	qsort(asked, n, sizeof(Asked), compare_asked);
	for (int i = 0; i < n; i++)
		if (m == 0 || !mosql_bytes_equal(keys[m - 1], asked[i].key))
			keys[m++] = asked[i].key;
	*nkeys = m;
	return keys;
}

/*
 * The rows, and locked, in one read.  A row that does not have the entry any more is let go,
 * and looked for anew when it is its turn.
 */
static void
rows_ahead(MosqlModifyState *modify, const MosqlIndex *index, Asked *asked, int n, EState *estate)
{
	MosqlView  *view = latest_view(modify, estate);
	int			nkeys;
	MosqlBytes *keys = keys_asked(asked, n, &nkeys);
	MosqlRow   *rows = palloc0(nkeys * sizeof(MosqlRow));
	int		   *before = palloc(nkeys * sizeof(int));
	bool	   *used = palloc0(nkeys * sizeof(bool));

	for (int i = 0; i < nkeys; i++)
		before[i] = mosql_txn_strength(modify->txn, modify->table->tree, keys[i]);
	look_at_rows(modify, view, keys, nkeys, rows);
	for (int i = 0, k = 0; i < n; i++)
	{
		Proposed   *proposed = asked[i].proposed;

		k += !mosql_bytes_equal(keys[k], asked[i].key);
		if (index == NULL)
			proposed->ahead = rows[k].found ? AHEAD_FOUND : AHEAD_FREE;
		else if (rows[k].found && has_entry(modify, index, &rows[k], asked[i].entry, estate))
			proposed->ahead = AHEAD_FOUND;
		proposed->row = rows[k];
		used[k] |= proposed->ahead != AHEAD_UNKNOWN;
	}
	for (int k = 0; k < nkeys && modify->locks; k++)
		if (!used[k])
			mosql_txn_lower(modify->txn, modify->table->tree, keys[k], before[k]);
}

/*
 * Lock the entries that were found free: what somebody has inserted meanwhile is let go again
 * (it is its row that is to be locked), and looked for when it is its turn.
 */
static void
lock_entries(MosqlModifyState *modify, const MosqlIndex *index, Asked *asked, int n)
{
	MosqlTree  *tree = index->entries->tree;
	int			nkeys;
	MosqlBytes *keys = keys_asked(asked, n, &nkeys);
	MosqlRow   *rows = palloc0(nkeys * sizeof(MosqlRow));
	bool	   *free = palloc0(nkeys * sizeof(bool));

	for (int first = 0; first < nkeys;)
	{
		int			found = first + mosql_txn_claim_free(modify->txn, tree, keys + first, NULL,
														 nkeys - first, rows + first);

		while (first < found)
			free[first++] = true;
		if (found < nkeys)
			mosql_txn_lower(modify->txn, tree, keys[first++], 0);
	}
	for (int i = 0, k = 0; i < n; i++)
	{
		k += !mosql_bytes_equal(keys[k], asked[i].key);
		asked[i].proposed->ahead = free[k] ? AHEAD_FREE : AHEAD_UNKNOWN;
	}
}

/*
 * A unique index decides: all entries in one read, then the rows that they lead to in another.
 * Entries that lead to a row are not locked: the row is, and keeps them.
 */
static void
entries_ahead(MosqlModifyState *modify, const MosqlIndex *index, Asked *asked, int n,
			  EState *estate)
{
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	MosqlRow   *entries = palloc0(n * sizeof(MosqlRow));
	Asked	   *there = palloc(n * sizeof(Asked));
	Asked	   *free = palloc(n * sizeof(Asked));
	int			nthere = 0;
	int			nfree = 0;

	for (int i = 0; i < n; i++)
		keys[i] = asked[i].key;
	mosql_view_get_each(latest_view(modify, estate), index->entries->tree, keys, n, entries);
	for (int i = 0; i < n; i++)
		if (!entries[i].found && (!modify->locks || entries[i].own))
			asked[i].proposed->ahead = AHEAD_FREE;	/* own: it has taken it away itself */
		else if (!entries[i].found)
			free[nfree++] = asked[i];
		else if (!entries[i].taken)
			there[nthere++] = (Asked)
		{
			mosql_index_row_key(index, &entries[i]), keys[i], asked[i].proposed
		};
	if (nthere > 0)
		rows_ahead(modify, index, there, nthere, estate);
	if (nfree > 0)
		lock_entries(modify, index, free, nfree);
}

/*
 * Look for what a batch meets, and lock it.  What an earlier row of the batch does counts when
 * it is a row's turn; until then nobody else can lock what is locked here, and what is not is
 * certified by commit as it was read.
 */
static void
look_ahead(MosqlModifyState *modify, TupleTableSlot **slots, Proposed *proposed, int n,
		   EState *estate)
{
	const MosqlIndex *index = modify->arbiters[0];
	const MosqlTable *keys = index ? index->entries : modify->table;
	Asked	   *asked = palloc(n * sizeof(Asked));
	int			m = 0;

	for (int i = 0; i < n; i++)
	{
		MosqlBytes	key;

		if (arbiter_key(index, slots[i], proposed[i].key, &key) &&
			mosql_txn_own_write(modify->txn, keys->tree, key, modify->cid) == MOSQL_OWN_NONE)
			asked[m++] = (Asked) {key, MOSQL_ABSENT, &proposed[i]};
	}
	if (m > 0 && index == NULL)
		rows_ahead(modify, NULL, asked, m, estate);
	else if (m > 0)
		entries_ahead(modify, index, asked, m, estate);
}

bool
mosql_exec_upserts_together(const MosqlModifyState *modify, const ResultRelInfo *rri)
{
	return modify->do_update && modify->narbiters == 1 && rri->ri_WithCheckOptions == NIL &&
		!mosql_has_row_triggers(rri->ri_TrigDesc, CMD_INSERT) &&
		!mosql_has_row_triggers(rri->ri_TrigDesc, CMD_UPDATE);
}

/* Only where mosql_exec_upserts_together(): nobody looks at the rows that were written. */
int
mosql_exec_upsert_many(MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot **slots, int n,
					   EState *estate, TupleTableSlot **kept)
{
	Proposed   *proposed;
	MosqlStats	before = mosql_stats;
	MemoryContext old;
	int			nkept = 0;

	find_strength(modify, rri, estate);
	for (int i = 0; i < n; i++)
		mosql_exec_check_row(modify, rri, slots[i], estate, modify->bounded_insert);
	MemoryContextReset(modify->row_cxt);
	old = MemoryContextSwitchTo(modify->row_cxt);
	proposed = palloc0(n * sizeof(Proposed));
	for (int i = 0; i < n; i++)
		proposed[i].key = key_of(modify, slots[i]);
	look_ahead(modify, slots, proposed, n, estate);
	mosql_cost_add(&modify->cost, &before);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(estate);
		if (upsert(modify, rri, slots[i], &proposed[i], estate) != NULL)
			kept[nkept++] = slots[i];
	}
	MemoryContextSwitchTo(old);
	return nkept;
}
