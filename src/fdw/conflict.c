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
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
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

/* ---- DO NOTHING ---- */

/*
 * Insert those of n rows whose keys are free; the rest is skipped.  The view
 * sees what earlier commands wrote, the buffer tells what this one wrote.  One
 * read for all rows.  No look-up is needed afterwards: a key that somebody
 * else takes between this read and commit fails there.
 */
int
mosql_exec_insert_free(MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot **slots, int n,
					   EState *estate, TupleTableSlot **kept)
{
	MosqlTable *table = modify->table;
	MosqlStats	before = mosql_stats;
	MosqlBytes *keys;
	MosqlRow   *rows;
	MemoryContext old;
	int			nkept = 0;

	for (int i = 0; i < n; i++)
		mosql_exec_check_row(modify, rri, slots[i], estate, modify->bounded_insert);

	MemoryContextReset(modify->row_cxt);
	old = MemoryContextSwitchTo(modify->row_cxt);
	keys = palloc(n * sizeof(MosqlBytes));
	rows = palloc0(n * sizeof(MosqlRow));
	for (int i = 0; i < n; i++)
	{
		resetStringInfo(&modify->key);
		mosql_table_slot_key(table, slots[i], &modify->key);
		keys[i] = mosql_bytes_copy(modify->row_cxt, mosql_bytes_of(&modify->key));
	}
	mosql_view_get(latest_view(modify, estate), table->tree, keys, n, rows);
	for (int i = 0; i < n; i++)
	{
		if (rows[i].found)
			continue;
		resetStringInfo(&modify->columns);
		mosql_table_put_row(table, slots[i], &modify->columns);
		if (mosql_txn_insert(modify->txn, table->tree, keys[i], mosql_bytes_of(&modify->columns),
							 modify->cid, false) == MOSQL_WRITTEN)
			kept[nkept++] = slots[i];
	}
	MemoryContextSwitchTo(old);
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

void
mosql_exec_upsert_open(MosqlModifyState *modify, ModifyTableState *mtstate, ResultRelInfo *rri)
{
	TransitionCaptureState *capture = mtstate->mt_transition_capture;

	modify->do_update = true;
	modify->mtstate = mtstate;
	modify->triggers = rri->ri_TrigDesc;
	modify->captures_inserts = capture != NULL && capture->tcs_insert_new_table;
	if (rri->ri_TrigDesc != NULL)
	{
		modify->update_triggers = palloc(sizeof(TriggerDesc));
		*modify->update_triggers = *rri->ri_TrigDesc;
		modify->update_triggers->trig_insert_after_row = false;
		modify->update_triggers->trig_insert_new_table = false;
	}
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

static void
report_second_time(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CARDINALITY_VIOLATION),
			 errmsg("ON CONFLICT DO UPDATE command cannot affect row a second time"),
			 errhint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")));
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

	econtext->ecxt_scantuple = existing;
	econtext->ecxt_innertuple = excluded;
	econtext->ecxt_outertuple = NULL;
	if (!ExecQual(rri->ri_onConflict->oc_WhereClause, econtext))
		return NULL;

	/* policies and WITH CHECK OPTION of a view above, as core does it */
	if (rri->ri_WithCheckOptions != NIL)
		ExecWithCheckOptions(WCO_RLS_CONFLICT_CHECK, rri, existing, modify->mtstate->ps.state);
	return ExecProject(rri->ri_onConflict->oc_ProjInfo);
}

/* Write the new row over the old one, under another key if that changed. */
static void
write_update(MosqlModifyState *modify, const MosqlRow *old, TupleTableSlot *slot)
{
	MosqlTable *table = modify->table;

	resetStringInfo(&modify->key);
	resetStringInfo(&modify->columns);
	mosql_table_slot_key(table, slot, &modify->key);
	mosql_table_put_row(table, slot, &modify->columns);
	if (mosql_exec_replace_row(modify, old) == MOSQL_SELF_MODIFIED)
		report_second_time();
}

static TupleTableSlot *
update_existing(MosqlModifyState *modify, ResultRelInfo *rri, const MosqlRow *row,
				TupleTableSlot *excluded, EState *estate)
{
	TupleTableSlot *existing = rri->ri_onConflict->oc_Existing;
	TupleTableSlot *slot;
	HeapTuple	old;

	ExecClearTuple(existing);
	mosql_exec_store_row(modify->table, row, NULL, existing);
	existing->tts_tableOid = RelationGetRelid(modify->rel);
	slot = project_update(modify, rri, existing, excluded);
	if (slot == NULL)
		return NULL;

	old = ExecFetchSlotHeapTuple(existing, true, NULL);
	if (!before_update_triggers(modify, rri, old, slot, estate))
		return NULL;
	slot->tts_tableOid = RelationGetRelid(modify->rel);
	if (modify->rel->rd_att->constr && modify->rel->rd_att->constr->has_generated_stored)
		ExecComputeStoredGenerated(rri, estate, slot, CMD_UPDATE);
	mosql_exec_check_row(modify, rri, slot, estate, modify->bounded_update);
	write_update(modify, row, slot);
	after_update_triggers(modify, rri, old, slot, estate);
	return slot;
}

/*
 * Insert the row, or update the one that has its key.  Returns the row as
 * written, or NULL if WHERE or a trigger said no.
 */
TupleTableSlot *
mosql_exec_upsert(MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot *slot,
				  EState *estate)
{
	MosqlTable *table = modify->table;
	MosqlStats	before = mosql_stats;
	MosqlBytes	key;
	MosqlRow	row = {0};
	MemoryContext old;

	mosql_exec_check_row(modify, rri, slot, estate, modify->bounded_insert);
	MemoryContextReset(modify->row_cxt);
	old = MemoryContextSwitchTo(modify->row_cxt);
	resetStringInfo(&modify->key);
	mosql_table_slot_key(table, slot, &modify->key);
	key = mosql_bytes_copy(modify->row_cxt, mosql_bytes_of(&modify->key));
	mosql_view_get(latest_view(modify, estate), table->tree, &key, 1, &row);
	mosql_cost_add(&modify->cost, &before);

	show_insert_triggers(modify, rri, !row.found);
	if (row.found)
		slot = update_existing(modify, rri, &row, slot, estate);
	else
	{
		resetStringInfo(&modify->columns);
		mosql_table_put_row(table, slot, &modify->columns);
		if (mosql_txn_insert(modify->txn, table->tree, key, mosql_bytes_of(&modify->columns),
							 modify->cid, false) == MOSQL_DUPLICATE)
			report_second_time();
	}
	MemoryContextSwitchTo(old);
	return slot;
}
