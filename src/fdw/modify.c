/*
 * modify.c: UPDATE, DELETE and TRUNCATE; opening and closing any target.
 *
 * Layer: fdw.  Writes go into the transaction's buffer and reach Redis at
 * commit.  A row to change is named by its ctid, which leads to key and version as
 * read (tid.c), and it is that version that commit compares (docs/commit.md).
 *
 * The new row of an UPDATE arrives complete: core asks every foreign table for
 * the whole old row and merges the changed columns into it.  For DELETE ...
 * RETURNING we ask for the whole row ourselves.
 *
 * Core fires triggers and computes generated columns; NOT NULL, CHECK and
 * partition bounds of foreign tables it leaves to us.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "fdw/reference.h"

/* ---- planning ---- */

/* Indexes besides the primary key's. */
static bool
has_indexes(Relation target)
{
	return list_length(RelationGetIndexList(target)) >
		(OidIsValid(mosql_fdw_primary_key(target)) ? 1 : 0);
}

/* Does the statement read the target's row as a value of the table's type, as f(t.*) does? */
static bool
reads_row(Node *node, void *context)
{
	const Index *rtindex = context;

	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		const Var  *var = (const Var *) node;

		return var->varno == *rtindex && var->varattno == InvalidAttrNumber && var->varlevelsup == 0;
	}
	return expression_tree_walker(node, reads_row, context);
}

/*
 * Core identifies the row of an UPDATE by one of type record, and above a join takes the first whole row that
 * comes from below for any.  So where the statement reads it as the table's type, that one comes first.
 */
static void
add_typed_row(PlannerInfo *root, Index rtindex, RangeTblEntry *rte)
{
	if (rtindex == root->parse->resultRelation && list_length(root->parse->rtable) > 1 &&
		(reads_row((Node *) root->parse->jointree, &rtindex) || reads_row((Node *) root->processed_tlist, &rtindex)))
		add_row_identity_var(root, makeWholeRowVar(rte, rtindex, 0, false), rtindex, "typed row");
}

/* Row triggers of DELETE: core gives them the whole row, and adds it to the plan for that. */
static bool
has_delete_triggers(const TriggerDesc *triggers)
{
	return triggers != NULL && (triggers->trig_delete_after_row || triggers->trig_delete_before_row);
}

/* Has any table of the inheritance tree below this one row triggers?  Perhaps not of DELETE. */
static bool
tree_has_triggers(Oid relid)
{
	List	   *members = find_all_inheritors(relid, NoLock, NULL);
	ListCell   *lc;

	foreach(lc, members)
	{
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(lc)));
		bool		has = HeapTupleIsValid(tuple) && ((Form_pg_class) GETSTRUCT(tuple))->relhastriggers;

		if (HeapTupleIsValid(tuple))
			ReleaseSysCache(tuple);
		if (has)
			return true;
	}
	return false;
}

/* Is another foreign table, of whatever wrapper, among these? */
static bool
other_foreign(PlannerInfo *root, Relids relids, Index rtindex)
{
	int			rti = -1;

	while ((rti = bms_next_member(relids, rti)) >= 0)
		if (rti != (int) rtindex && planner_rt_fetch(rti, root)->relkind == RELKIND_FOREIGN_TABLE)
			return true;
	return false;
}

/*
 * Core asks every foreign table of an inheritance tree for a column "wholerow" if the plan has one, and its triggers
 * make it for their own table alone.  So where one of the tree has triggers, all of ours have it: the first of them
 * looks, and the others see what it has found.
 */
static bool
tree_wants_row(PlannerInfo *root, Index rtindex)
{
	const char *name = "wholerow";
	bool		first = true;
	ListCell   *lc;

	if (rtindex == root->parse->resultRelation)
		return false;
	foreach(lc, root->row_identity_vars)
	{
		const RowIdentityVarInfo *info = lfirst(lc);

		if (strcmp(info->rowidname, name) == 0)
			return true;
		if (other_foreign(root, info->rowidrels, rtindex))
			first = false;
	}
	return first && tree_has_triggers(planner_rt_fetch(root->parse->resultRelation, root)->relid);
}

/*
 * Junk columns that identify the row: ctid, and for DELETE ... RETURNING, for the
 * entries of indexes and for rows that foreign keys lead to the whole row, unless core
 * adds that anyway (for UPDATE, and for row triggers).  It has a name of our own, lest
 * core misses it in other tables of an inheritance tree, where it is null.
 */
void
mosqlAddForeignUpdateTargets(PlannerInfo *root, Index rtindex, RangeTblEntry *target_rte,
							 Relation target)
{
	bool		for_tree = root->parse->commandType == CMD_DELETE && tree_wants_row(root, rtindex);
	Var		   *var;

	var = makeVar(rtindex, SelfItemPointerAttributeNumber, TIDOID, -1, InvalidOid, 0);
	add_row_identity_var(root, var, rtindex, "ctid");
	add_typed_row(root, rtindex, target_rte);

	if (root->parse->commandType != CMD_DELETE || has_delete_triggers(target->trigdesc))
		return;
	if (!for_tree && root->parse->returningList == NIL && !has_indexes(target) &&
		!mosql_foreign_key_leads_to(RelationGetRelid(target)))
		return;

	/* type record, not the table's, so that the tables of an inheritance tree share it */
	var = makeVar(rtindex, InvalidAttrNumber, RECORDOID, -1, InvalidOid, 0);
	add_row_identity_var(root, var, rtindex, for_tree ? "wholerow" : "old row");
}

/* All that execution needs, and the plan node has not: whether rows may wait, to be written together. */
List *
mosqlPlanForeignModify(PlannerInfo *root, ModifyTable *plan, Index rti, int subplan)
{
	if (plan->operation == CMD_INSERT || plan->operation == CMD_UPDATE)
		mosql_fdw_share_plan(outerPlan(plan));
	return list_make1(makeBoolean(mosql_later_fits(root, plan)));
}

int
mosqlIsForeignRelUpdatable(Relation rel)
{
	if (!mosql_fdw_is_updatable(RelationGetRelid(rel)))
		return 0;
	return (1 << CMD_INSERT) | (1 << CMD_UPDATE) | (1 << CMD_DELETE);
}

/* ---- opening and closing targets ---- */

/* The role whose rights and user mapping count. */
static Oid
target_user(EState *estate, ResultRelInfo *rri)
{
#if PG_VERSION_NUM >= 160000
	return ExecGetResultRelCheckAsUser(rri, estate);
#else
	Index		rti = rri->ri_RangeTableIndex;

	/* a partition that rows are routed to has no range table entry: its root's */
	if (rti == 0 && rri->ri_RootResultRelInfo != NULL)
		rti = rri->ri_RootResultRelInfo->ri_RangeTableIndex;
	return rti == 0 ? InvalidOid : exec_rt_fetch(rti, estate)->checkAsUser;
#endif
}

/* 25006: core refuses most such commands earlier; this is for those it does not. */
static void
check_read_only(CmdType operation)
{
	PreventCommandIfReadOnly(operation == CMD_UPDATE ? "UPDATE" :
							 operation == CMD_DELETE ? "DELETE" : "INSERT");
}

/* NOT NULL that another server has set: core does not know of it before the refresh. */
Bitmapset *
mosql_exec_missing_not_null(Relation rel, const MosqlTable *table)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *missing = NULL;

	for (int i = 0; i < desc->natts; i++)
		if (table->columns[i].not_null && !TupleDescAttr(desc, i)->attisdropped &&
			!TupleDescAttr(desc, i)->attnotnull)
			missing = bms_add_member(missing, i + 1);
	return missing;
}

/* The columns that the statement may change, as core numbers them in sets; NULL: any. */
static const Bitmapset *
changed_columns(const ModifyTable *plan, ResultRelInfo *rri, EState *estate)
{
	const TupleConstr *constr = rri->ri_RelationDesc->rd_att->constr;

	if (plan == NULL || plan->operation != CMD_UPDATE || rri->ri_RelationDesc->rd_rel->relispartition ||
		(constr != NULL && constr->has_generated_stored) ||
		(rri->ri_TrigDesc != NULL && rri->ri_TrigDesc->trig_update_before_row))
		return NULL;
	return ExecGetUpdatedCols(rri, estate);
}

MosqlModifyState *
mosql_exec_modify_open(ModifyTableState *mtstate, ResultRelInfo *rri)
{
	EState	   *estate = mtstate->ps.state;
	ModifyTable *plan = (ModifyTable *) mtstate->ps.plan;	/* NULL: COPY */
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
	MosqlModifyState *modify = palloc0(sizeof(MosqlModifyState));
	Relation	rel = rri->ri_RelationDesc;
	MosqlSession *session;
	bool		routed = rri->ri_RootResultRelInfo != NULL;
	bool		retouched = rri->ri_TrigDesc && rri->ri_TrigDesc->trig_insert_before_row;
	OnConflictAction action = mosql_exec_conflict_action(plan);

	check_read_only(plan ? plan->operation : CMD_INSERT);
	session = mosql_fdw_session_for(RelationGetRelid(rel), target_user(estate, rri));
	modify->rel = rel;
	modify->txn = mosql_txn_current(session);
	modify->table = mosql_table_open_for_write(rel, session);
	/* COPY does not set the executor's command id */
	modify->cid = plan ? estate->es_output_cid : GetCurrentCommandId(true);
	modify->refused = mosql_exec_is_row_refused(mtstate, rri, target_user(estate, rri));
	modify->do_nothing = action == ONCONFLICT_NOTHING;
	modify->in_batches = plan && mosql_exec_routes_in_batches(plan);
	if (action != ONCONFLICT_NONE)
		mosql_exec_arbiters(modify, routed ? mosql_exec_routed_arbiters(rel, plan->arbiterIndexes)
							: plan->arbiterIndexes);

	if (plan == NULL && !routed)
		modify->ndefaults = mosql_fdw_copy_defaults(rel, &modify->defaults);
	if (plan)
		modify->system = mosql_system_named((Node *) plan->returningLists) |
			mosql_system_named((Node *) plan->onConflictSet) |
			mosql_system_named(plan->onConflictWhere);
	modify->locks = mosql_lock_is_wanted(RelationGetRelid(rel));
	modify->locker = (MosqlLocker)
	{
		rel, modify->table, modify->txn, MOSQL_UPDATE, LockWaitBlock, true
	};
	modify->mtstate = mtstate;
	modify->constrained = rel->rd_att->constr != NULL;
	modify->not_null = mosql_exec_missing_not_null(rel, modify->table);
	if (plan == NULL || plan->operation != CMD_DELETE)
		mosql_table_check_rules(rel, modify->table);
	modify->bounded_insert = rel->rd_rel->relispartition && (!routed || retouched);
	modify->bounded_update = rel->rd_rel->relispartition;

	modify->row_cxt = AllocSetContextCreate(estate->es_query_cxt, "mosql modified row",
											ALLOCSET_DEFAULT_SIZES);
	initStringInfo(&modify->key);
	initStringInfo(&modify->columns);
	modify->references = mosql_references_open(modify, estate, plan == NULL ? CMD_INSERT :
											   action == ONCONFLICT_UPDATE ? CMD_UPDATE : plan->operation,
											   changed_columns(plan, rri, estate));
	mosql_exec_fresh_open(modify, mtstate, rri);
	MemoryContextSwitchTo(old);
	return modify;
}

/* The last rows and look-ups; safe to call twice.  Throws 23505. */
static void
finish_keys(MosqlModifyState *modify)
{
	MosqlStats	before;

	mosql_exec_fresh_end(modify);
	before = mosql_stats;
	if (modify->checks_keys && !mosql_exec_leave_lookup(modify))
		mosql_exec_lookup_all(modify);
	mosql_cost_add(&modify->cost, &before);
}

static void
finish(MosqlModifyState *modify)
{
	finish_keys(modify);
	if (modify->view != NULL)
		mosql_view_close(modify->view);
	modify->view = NULL;
}

static bool
is_ours(const ResultRelInfo *rri)
{
	return rri->ri_FdwRoutine != NULL && rri->ri_FdwRoutine->BeginForeignModify == mosqlBeginForeignModify &&
		!rri->ri_usesFdwDirectModify && rri->ri_FdwState != NULL;
}

static bool
fires_after(const TriggerDesc *triggers)
{
	return triggers != NULL &&
		(triggers->trig_insert_after_row || triggers->trig_insert_after_statement ||
		 triggers->trig_update_after_row || triggers->trig_update_after_statement);
}

/* See exec_int.h. */
void
mosql_exec_before_triggers(EState *estate)
{
	List	   *targets = list_concat_copy(estate->es_opened_result_relations, estate->es_tuple_routing_result_relations);
	bool		fires = false;
	ListCell   *lc;

	foreach(lc, targets)
		fires |= fires_after(lfirst_node(ResultRelInfo, lc)->ri_TrigDesc);
	foreach(lc, targets)
		if (fires && is_ours(lfirst_node(ResultRelInfo, lc)))
			finish_keys(lfirst_node(ResultRelInfo, lc)->ri_FdwState);
	list_free(targets);
}

/*
 * Does the scan lock less than the columns of UPDATE ask for, because they may keep their values
 * (lock_plan.c)?
 */
static bool
is_locked_lightly(const ModifyTableState *mtstate, const ResultRelInfo *rri)
{
	const Plan *plan = outerPlan(mtstate->ps.plan);
	const ForeignScan *scan = (const ForeignScan *) plan;
	const List *lock;

	if (!IsA(plan, ForeignScan) || scan->scan.scanrelid != rri->ri_RangeTableIndex)
		return false;
	lock = list_nth(scan->fdw_private, MOSQL_SCAN_LOCK);
	return lock != NIL && linitial_int(lock) == MOSQL_NO_KEY_UPDATE;
}

void
mosqlBeginForeignModify(ModifyTableState *mtstate, ResultRelInfo *rri, List *fdw_private,
						int subplan, int eflags)
{
	MosqlModifyState *modify;
	List	   *tlist;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	modify = mosql_exec_modify_open(mtstate, rri);
	rri->ri_FdwState = modify;

	/* the executor must not open our indexes, which it would insert into: zero of
	 * them are open already */
	if (rri->ri_IndexRelationDescs == NULL)
		rri->ri_IndexRelationDescs = MemoryContextAllocZero(mtstate->ps.state->es_query_cxt,
															sizeof(Relation));
	modify->in_batches = boolVal(linitial(fdw_private));
	if (((ModifyTable *) mtstate->ps.plan)->onConflictAction == ONCONFLICT_UPDATE)
		mosql_exec_upsert_open(modify, mtstate, rri);
	if (mtstate->operation != CMD_UPDATE && mtstate->operation != CMD_DELETE)
		return;

	tlist = outerPlan(mtstate->ps.plan)->targetlist;
	modify->ctid_attno = ExecFindJunkAttributeInTlist(tlist, "ctid");
	if (!AttributeNumberIsValid(modify->ctid_attno))
		elog(ERROR, "could not find junk ctid column");
	modify->wholerow_attno = ExecFindJunkAttributeInTlist(tlist, "wholerow");
	if (!AttributeNumberIsValid(modify->wholerow_attno))
		modify->wholerow_attno = ExecFindJunkAttributeInTlist(tlist, "old row");
	if (modify->locks && modify->in_batches)
		modify->later = mosql_later_open(mtstate, rri);
	if (mtstate->operation == CMD_UPDATE)
	{
		modify->looks_for_key = is_locked_lightly(mtstate, rri);
		modify->locker.strength = modify->looks_for_key ? MOSQL_NO_KEY_UPDATE :
			mosql_lock_update_strength(modify->table, ExecGetAllUpdatedCols(rri, mtstate->ps.state));
	}
}

void
mosqlEndForeignModify(EState *estate, ResultRelInfo *rri)
{
	if (rri->ri_FdwState != NULL)
		finish((MosqlModifyState *) rri->ri_FdwState);
}

/* ---- rows ---- */

void
mosql_exec_check_not_null(Relation rel, const MosqlTable *table, const Bitmapset *not_null, TupleTableSlot *slot)
{
	int			attnum = -1;

	while ((attnum = bms_next_member(not_null, attnum)) >= 0)
		if (slot_attisnull(slot, attnum))
		{
			mosql_table_confirm_rules(table);
			ereport(ERROR,
					(errcode(ERRCODE_NOT_NULL_VIOLATION),
					 errmsg("null value in column \"%s\" of relation \"%s\" violates not-null constraint",
							NameStr(TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attname),
							RelationGetRelationName(rel)),
					 errtablecol(rel, attnum)));
		}
}

static void
check_row(MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot *slot, EState *estate, bool bounded)
{
	if (modify->constrained)
		ExecConstraints(rri, slot, estate);
	mosql_exec_check_not_null(modify->rel, modify->table, modify->not_null, slot);
	if (bounded)
		ExecPartitionCheck(rri, slot, estate, true);
}

/* A row violates a constraint: keys of rows before it may wait to be looked up, and a duplicate among them comes first. */
void
mosql_exec_check_row(MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot *slot,
					 EState *estate, bool bounded)
{
	MemoryContext caller = CurrentMemoryContext;
	ErrorData  *error;

	if (!modify->checks_keys)
	{
		check_row(modify, rri, slot, estate, bounded);
		return;
	}
	PG_TRY();
	{
		check_row(modify, rri, slot, estate, bounded);
	}
	PG_CATCH();
	{
		if (ERRCODE_TO_CATEGORY(geterrcode()) != ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION)
			PG_RE_THROW();
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		mosql_exec_lookup_all(modify);
		ReThrowError(error);
	}
	PG_END_TRY();
}

/*
 * WITH CHECK OPTION of a view, which core looks at once the row is written: a row that it refuses is no error
 * before a duplicate key is.  A condition of volatile functions is evaluated once, by core, so the order is
 * another there.
 */
void
mosql_exec_before_check_option(MosqlModifyState *modify, ResultRelInfo *rri, TupleTableSlot *slot,
							   EState *estate)
{
	ExprContext *econtext = GetPerTupleExprContext(estate);
	ListCell   *option;
	ListCell   *expr;

	forboth(option, rri->ri_WithCheckOptions, expr, rri->ri_WithCheckOptionExprs)
	{
		const WithCheckOption *check = lfirst_node(WithCheckOption, option);

		if (check->kind != WCO_VIEW_CHECK || contain_volatile_functions(check->qual))
			continue;
		slot->tts_tableOid = RelationGetRelid(modify->rel);
		econtext->ecxt_scantuple = slot;
		if (ExecQual((ExprState *) lfirst(expr), econtext))
			continue;
		mosql_exec_fresh_end(modify);	/* rows of a load, which the statement loses either way */
		mosql_exec_lookup_all(modify);
	}
}

void
mosql_exec_set_tid(MosqlModifyState *modify, MosqlBytes key, TupleTableSlot *slot)
{
	if (modify->system & MOSQL_SYSTEM_CTID)
		mosql_tid_of_number(mosql_txn_number_of(modify->txn, modify->table->tree, key),
							&slot->tts_tid);
}

void
mosql_exec_put_row(MosqlModifyState *modify, TupleTableSlot *slot)
{
	resetStringInfo(&modify->columns);
	mosql_table_put_row(modify->table, slot, &modify->columns);
	if (modify->system & MOSQL_SYSTEM_VERSION)
		mosql_row_tag(&modify->columns, mosql_txn_new_tag(modify->txn));
}

TupleTableSlot *
mosql_exec_returned(MosqlModifyState *modify, TupleTableSlot *slot, EState *estate)
{
	MemoryContext old;

	if (slot == NULL || (modify->system & MOSQL_SYSTEM_VERSION) == 0)
		return slot;
	if (modify->returned == NULL)
	{
		old = MemoryContextSwitchTo(estate->es_query_cxt);
		modify->returned = ExecInitExtraTupleSlot(estate, RelationGetDescr(modify->rel),
												  &TTSOpsHeapTuple);
		MemoryContextSwitchTo(old);
	}
	old = MemoryContextSwitchTo(modify->row_cxt);
	ExecClearTuple(modify->returned);
	slot_getallattrs(slot);
	memcpy(modify->returned->tts_values, slot->tts_values,
		   slot->tts_tupleDescriptor->natts * sizeof(Datum));
	memcpy(modify->returned->tts_isnull, slot->tts_isnull,
		   slot->tts_tupleDescriptor->natts * sizeof(bool));
	ExecStoreVirtualTuple(modify->returned);
	modify->returned->tts_tid = slot->tts_tid;
	mosql_system_put(modify->returned, RelationGetRelid(modify->rel),
					 mosql_row_token(0, mosql_bytes_of(&modify->columns)));
	if (modify->met_row)
		mosql_system_mark_met(modify->returned);
	MemoryContextSwitchTo(old);
	return modify->returned;
}

static void
row_identity(MosqlModifyState *modify, TupleTableSlot *plan_slot, MosqlRow *row)
{
	bool		isnull;
	Datum		ctid = ExecGetJunkAttribute(plan_slot, modify->ctid_attno, &isnull);

	if (isnull)
		elog(ERROR, "ctid is NULL");
	mosql_exec_row_of_tid(modify->txn, modify->table->tree, ctid, row);
}

/*
 * A row whose key changes is deleted and inserted.  The new key must be free
 * as of this command: as with any immediate unique constraint, "SET id = id + 1"
 * fails if it meets a row that it has yet to move.
 */
static MosqlWriteResult
move_row(MosqlModifyState *modify, const MosqlRow *old_row)
{
	MosqlBytes	key = mosql_bytes_of(&modify->key);
	MosqlTree  *tree = modify->table->tree;

	mosql_lock_moved(modify, old_row);
	if (mosql_txn_delete(modify->txn, tree, old_row->key, old_row->version,
						 modify->cid) == MOSQL_SELF_MODIFIED)
		return MOSQL_SELF_MODIFIED;
	if (mosql_txn_insert(modify->txn, tree, key, mosql_bytes_of(&modify->columns), modify->cid,
						 MOSQL_KEY_MAY_EXIST) == MOSQL_DUPLICATE)
		mosql_exec_report_duplicate(modify, NULL, key);
	mosql_exec_lookup_due(modify);
	return MOSQL_WRITTEN;
}

MosqlWriteResult
mosql_exec_replace_row(MosqlModifyState *modify, const MosqlRow *old_row,
					   TupleTableSlot *old_slot, TupleTableSlot *new_slot)
{
	MosqlTable *table = modify->table;
	MosqlBytes	key = table->nkeys > 0 ? mosql_bytes_of(&modify->key) : old_row->key;
	MosqlWriteResult result;

	mosql_lock_renamed(modify, old_row, old_slot, new_slot);
	if (mosql_bytes_equal(key, old_row->key))
		result = mosql_txn_update(modify->txn, table->tree, key, old_row->version,
								  mosql_bytes_of(&modify->columns), modify->cid);
	else
		result = move_row(modify, old_row);
	if (result == MOSQL_WRITTEN)
	{
		mosql_exec_write_entries(modify, old_slot, old_row->key, new_slot, key);
		mosql_exec_set_tid(modify, key, new_slot);
	}
	return result;
}

TupleTableSlot *
mosql_exec_old_slot(MosqlModifyState *modify, EState *estate)
{
	MemoryContext old;

	if (modify->old_slot == NULL)
	{
		old = MemoryContextSwitchTo(estate->es_query_cxt);
		modify->old_slot = ExecInitExtraTupleSlot(estate, RelationGetDescr(modify->rel),
												  &TTSOpsHeapTuple);
		MemoryContextSwitchTo(old);
	}
	ExecClearTuple(modify->old_slot);
	return modify->old_slot;
}

/* The old row once more, in the version that the statement has read. */
static void
read_old_row(MosqlModifyState *modify, const MosqlRow *row, EState *estate, MosqlRow *read)
{
	if (modify->view == NULL)
		modify->view = mosql_view_open(modify->txn, estate, modify->cid, true);
	mosql_view_get(modify->view, modify->table->tree, &row->key, 1, read);
	if (!read->found || read->version != row->version)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errhint("The transaction might succeed if retried.")));
}

/* The old row as the plan has it, if it has. */
static bool
planned_row(const MosqlModifyState *modify, TupleTableSlot *plan_slot, TupleTableSlot *slot)
{
	Datum		whole;
	bool		isnull;

	if (!AttributeNumberIsValid(modify->wholerow_attno))
		return false;
	whole = ExecGetJunkAttribute(plan_slot, modify->wholerow_attno, &isnull);
	if (!isnull)
		ExecStoreHeapTupleDatum(whole, slot);
	return !isnull;
}

/*
 * The old row, where there are index entries to be found by it, or foreign keys to be
 * checked: from the plan if it has it, else read.  (A plan made before an index was
 * has none for DELETE.)
 */
static TupleTableSlot *
old_row_slot(MosqlModifyState *modify, TupleTableSlot *plan_slot, const MosqlRow *row,
			 EState *estate)
{
	MosqlRow	read = {0};

	if (!mosql_table_has_entries(modify->table) && modify->references == NULL)
		return NULL;
	(void) mosql_exec_old_slot(modify, estate);
	if (planned_row(modify, plan_slot, modify->old_slot))
		return modify->old_slot;
	read_old_row(modify, row, estate, &read);
	mosql_exec_store_row(modify->table, &read, NULL, modify->old_slot);
	return modify->old_slot;
}

/* Returns NULL, "not updated", if this command changed the row already. */
TupleTableSlot *
mosql_exec_update(EState *estate, ResultRelInfo *rri, TupleTableSlot *slot,
				  TupleTableSlot *plan_slot)
{
	MosqlModifyState *modify = (MosqlModifyState *) rri->ri_FdwState;
	MosqlTable *table = modify->table;
	MemoryContext old;
	MosqlWriteResult result;
	MosqlRow	old_row;
	TupleTableSlot *old_slot;
	TupleTableSlot *read_slot = plan_slot;

	row_identity(modify, plan_slot, &old_row);
	if (modify->locks && !mosql_lock_target(modify, rri, CMD_UPDATE, &plan_slot, &old_row))
		return NULL;
	if (plan_slot != read_slot)
		slot = mosql_lock_project(modify, rri, plan_slot, estate);
	mosql_exec_check_row(modify, rri, slot, estate, modify->bounded_update);

	MemoryContextReset(modify->row_cxt);
	old = MemoryContextSwitchTo(modify->row_cxt);
	resetStringInfo(&modify->key);
	if (table->nkeys > 0)
		mosql_table_slot_key(table, slot, &modify->key);
	mosql_exec_put_row(modify, slot);

	old_slot = old_row_slot(modify, plan_slot, &old_row, estate);
	result = mosql_exec_replace_row(modify, &old_row, old_slot, slot);
	if (result == MOSQL_WRITTEN)
	{
		mosql_references_note(modify->references, old_slot, slot);
		mosql_exec_before_check_option(modify, rri, slot, estate);
		slot = mosql_exec_returned(modify, slot, estate);
	}
	MemoryContextSwitchTo(old);
	return result == MOSQL_SELF_MODIFIED ? NULL : slot;
}

TupleTableSlot *
mosqlExecForeignUpdate(EState *estate, ResultRelInfo *rri, TupleTableSlot *slot,
					   TupleTableSlot *plan_slot)
{
	MosqlModifyState *modify = (MosqlModifyState *) rri->ri_FdwState;

	if (modify->later == NULL)
		return mosql_exec_update(estate, rri, slot, plan_slot);
	mosql_later_add(modify->later, slot, plan_slot);
	return slot;
}

static void
delete_entries(MosqlModifyState *modify, TupleTableSlot *plan_slot, const MosqlRow *row,
			   EState *estate)
{
	TupleTableSlot *old_slot;
	MemoryContext old;

	MemoryContextReset(modify->row_cxt);
	old = MemoryContextSwitchTo(modify->row_cxt);
	old_slot = old_row_slot(modify, plan_slot, row, estate);
	mosql_exec_write_entries(modify, old_slot, row->key, NULL, MOSQL_ABSENT);
	mosql_references_note(modify->references, old_slot, NULL);
	MemoryContextSwitchTo(old);
}

/* The xmin of a row that is about to be deleted. */
static uint32
deleted_token(MosqlModifyState *modify, const MosqlRow *row, EState *estate)
{
	MemoryContext old;
	MosqlRow	read = {0};
	uint32		token;

	MemoryContextReset(modify->row_cxt);
	old = MemoryContextSwitchTo(modify->row_cxt);
	read_old_row(modify, row, estate, &read);
	token = mosql_view_token(modify->view, modify->table->tree, &read);
	MemoryContextSwitchTo(old);
	return token;
}

static void
put_deleted(MosqlModifyState *modify, TupleTableSlot *slot, uint32 xmin)
{
	MemoryContext old = MemoryContextSwitchTo(modify->row_cxt);

	mosql_system_put(slot, RelationGetRelid(modify->rel), xmin);
	MemoryContextSwitchTo(old);
}

/* The slot is RETURNING's; core makes it all nulls if it is left empty. */
TupleTableSlot *
mosql_exec_delete(EState *estate, ResultRelInfo *rri, TupleTableSlot *slot,
				  TupleTableSlot *plan_slot)
{
	MosqlModifyState *modify = (MosqlModifyState *) rri->ri_FdwState;
	uint32		xmin = 0;
	MosqlRow	row;

	row_identity(modify, plan_slot, &row);
	if (modify->locks && !mosql_lock_target(modify, rri, CMD_DELETE, &plan_slot, &row))
		return NULL;
	if (modify->system & MOSQL_SYSTEM_VERSION)
		xmin = deleted_token(modify, &row, estate);
	if (mosql_txn_delete(modify->txn, modify->table->tree, row.key, row.version,
						 modify->cid) == MOSQL_SELF_MODIFIED)
		return NULL;
	if (mosql_table_has_entries(modify->table) || modify->references != NULL)
		delete_entries(modify, plan_slot, &row, estate);

	ExecClearTuple(slot);
	if (rri->ri_projectReturning != NULL && planned_row(modify, plan_slot, slot))
	{
		mosql_exec_set_tid(modify, row.key, slot);
		if (modify->system & MOSQL_SYSTEM_VERSION)
			put_deleted(modify, slot, xmin);
	}
	return slot;
}

TupleTableSlot *
mosqlExecForeignDelete(EState *estate, ResultRelInfo *rri, TupleTableSlot *slot,
					   TupleTableSlot *plan_slot)
{
	MosqlModifyState *modify = (MosqlModifyState *) rri->ri_FdwState;

	if (modify->later == NULL)
		return mosql_exec_delete(estate, rri, slot, plan_slot);
	mosql_later_add(modify->later, NULL, plan_slot);
	return ExecClearTuple(slot);
}

/* ---- TRUNCATE ---- */

static bool
is_among(const List *rels, const char *schema, const char *table)
{
	const ListCell *lc;

	foreach(lc, rels)
	{
		const char *other_schema;
		const char *other_table;

		mosql_table_remote_name((Relation) lfirst(lc), &other_schema, &other_table);
		if (strcmp(schema, other_schema) == 0 && strcmp(table, other_table) == 0)
			return true;
	}
	return false;
}

/* A foreign key that leads here is perhaps known to other servers alone. */
static void
check_referrers(Relation rel, const List *rels)
{
	const MosqlTable *table = mosql_table_open(rel, mosql_fdw_session_for(RelationGetRelid(rel),
																		  InvalidOid));

	for (int i = 0; i < table->nreferrers; i++)
	{
		const MosqlDefinitionReferrer *referrer = &table->referrers[i];

		if (!is_among(rels, referrer->schema, referrer->table))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot truncate a table referenced in a foreign key constraint"),
					 errdetail("Table \"%s.%s\" in Redis references \"%s\".", referrer->schema,
							   referrer->table, RelationGetRelationName(rel)),
					 errhint("Use IMPORT FOREIGN SCHEMA for that table, and truncate both at the same time.")));
	}
}

/*
 * Like postgres_fdw, refuse before anything is done.  Core has seen to the foreign
 * keys that this server knows: of tables that lead here all are among `rels`.
 */
void
mosqlExecForeignTruncate(List *rels, DropBehavior behavior, bool restart_seqs)
{
	ListCell   *lc;

	foreach(lc, rels)
	{
		Relation	rel = (Relation) lfirst(lc);

		if (!mosql_fdw_options(RelationGetRelid(rel), InvalidOid, InvalidOid)->truncatable)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("foreign table \"%s\" does not allow truncates",
							RelationGetRelationName(rel)),
					 errhint("ALTER FOREIGN TABLE ... OPTIONS (SET truncatable 'true'), or of its server.")));
		check_referrers(rel, rels);
	}
	foreach(lc, rels)
	{
		Relation	rel = (Relation) lfirst(lc);

		mosql_table_truncate(rel, mosql_fdw_session_for(RelationGetRelid(rel), InvalidOid),
							 restart_seqs);
	}
}
