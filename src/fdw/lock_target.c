/*
 * lock_target.c: rows that UPDATE and DELETE lock when they change them.
 *
 * Layer: fdw.  Those of a join, whose scan does not know which rows will be changed
 * (lock_plan.c).  A row that is newer than it was read is evaluated again, as ExecUpdate()
 * does for heaps: by EvalPlanQual, with the rows of other tables as they were.
 */
#include "postgres.h"

#include "executor/nodeModifyTable.h"
#include "utils/datum.h"
#include "utils/rel.h"

#include "fdw/exec_int.h"

/*
 * The row to change has a newer version: evaluate the query for it again, with the rows of other
 * tables as they were.  Returns what the plan makes of it; NULL: it does not fit any more.
 * (EvalPlanQual empties the slot; UPDATE's new row is made of a copy.)
 */
static TupleTableSlot *
evaluate_again(MosqlModifyState *modify, ResultRelInfo *rri, CmdType operation,
			   const MosqlRow *newest, ItemPointer tid)
{
	EPQState   *epq = &modify->mtstate->mt_epqstate;
	TupleTableSlot *input = EvalPlanQualSlot(epq, modify->rel, rri->ri_RangeTableIndex);
	TupleTableSlot *found;

	mosql_lock_store(&modify->locker, newest, input);
	input->tts_tid = *tid;
	input->tts_tableOid = RelationGetRelid(modify->rel);
	if (operation == CMD_UPDATE)
		ExecCopySlot(rri->ri_oldTupleSlot, input);
	found = EvalPlanQual(epq, modify->rel, rri->ri_RangeTableIndex, input);
	return TupIsNull(found) ? NULL : found;
}

/*
 * A trigger has seen, and perhaps made its row of, an old version, or is to see it as the one
 * that was there (lock_plan.c).
 */
static void
check_no_trigger(const ResultRelInfo *rri, CmdType operation)
{
	if (mosql_lock_shows_old(rri->ri_TrigDesc, operation))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errdetail("The row was changed by another transaction, and its triggers look at the row as it was read."),
				 errhint("The transaction might succeed if retried.")));
}

bool
mosql_lock_target(MosqlModifyState *modify, ResultRelInfo *rri, CmdType operation,
			TupleTableSlot **plan_slot, MosqlRow *row)
{
	MosqlStats	before = mosql_stats;
	MemoryContext old;
	MosqlRow	newest = {0};
	MosqlLocked locked;
	ItemPointerData tid;
	bool		isnull;

	MemoryContextReset(modify->row_cxt);
	old = MemoryContextSwitchTo(modify->row_cxt);
	mosql_lock_rows(&modify->locker, row, 1, &newest, &locked);
	MemoryContextSwitchTo(old);
	mosql_cost_add(&modify->cost, &before);
	if (locked != MOSQL_LOCKED_NEWER)
		return locked == MOSQL_LOCKED;
	check_no_trigger(rri, operation);
	tid = *(ItemPointer) DatumGetPointer(ExecGetJunkAttribute(*plan_slot, modify->ctid_attno,
															  &isnull));
	*plan_slot = evaluate_again(modify, rri, operation, &newest, &tid);
	row->version = newest.version;
	return *plan_slot != NULL;
}

TupleTableSlot *
mosql_lock_project(MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot *plan_slot,
			  EState *estate)
{
	TupleTableSlot *slot;

	slot = ExecGetUpdateNewTuple(rri, plan_slot, rri->ri_oldTupleSlot);
	slot->tts_tableOid = RelationGetRelid(modify->rel);
	if (modify->rel->rd_att->constr && modify->rel->rd_att->constr->has_generated_stored)
		ExecComputeStoredGenerated(rri, estate, slot, CMD_UPDATE);
	return slot;
}

void
mosql_lock_moved(MosqlModifyState *modify, const MosqlRow *row)
{
	MosqlLocker locker = modify->locker;
	MosqlRow	newest;
	MosqlLocked locked;

	locker.strength = MOSQL_UPDATE;
	if (modify->locks && modify->locker.strength < MOSQL_UPDATE)
		mosql_lock_rows(&locker, row, 1, &newest, &locked);
}

/* Has a column another value that is unique, alone or with others? */
static bool
changes_unique(const MosqlTable *table, TupleTableSlot *old_slot, TupleTableSlot *new_slot)
{
	for (AttrNumber attnum = 1; attnum <= table->natts; attnum++)
	{
		Form_pg_attribute att = TupleDescAttr(new_slot->tts_tupleDescriptor, attnum - 1);
		bool		was_null,
					is_null;
		Datum		was,
					is;

		if (att->attisdropped || !mosql_table_is_unique_column(table, attnum))
			continue;
		was = slot_getattr(old_slot, attnum, &was_null);
		is = slot_getattr(new_slot, attnum, &is_null);
		if (was_null != is_null ||
			(!was_null && !datum_image_eq(was, is, att->attbyval, att->attlen)))
			return true;
	}
	return false;
}

void
mosql_lock_renamed(MosqlModifyState *modify, const MosqlRow *row, TupleTableSlot *old_slot,
				   TupleTableSlot *new_slot)
{
	const TriggerDesc *triggers = modify->rel->trigdesc;

	if (modify->locks && modify->locker.strength < MOSQL_UPDATE && old_slot != NULL &&
		(modify->looks_for_key || (triggers != NULL && triggers->trig_update_before_row)) &&
		changes_unique(modify->table, old_slot, new_slot))
		mosql_lock_moved(modify, row);
}
