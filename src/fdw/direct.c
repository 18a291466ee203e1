/*
 * direct.c: late-bound updates, run inside the scan.
 *
 * Layer: fdw.
 *
 *     UPDATE t SET n = n + 5 WHERE pk = ...
 *
 * must not conflict with another such update.  So it is not executed as "read
 * the row, write the row" but as "see that the row exists, buffer the
 * increment"; the new row is computed at commit, under the intent.  At plan
 * time we take over UPDATEs of which nothing but that is left: the whole key
 * is given by = or IN, every assignment is column = column + or - something
 * that does not depend on the row, and nobody looks at the new row (RETURNING,
 * row triggers, CHECK constraints, generated columns, check options).
 *
 * Adding NULL is no increment; the rows are then updated the ordinary way,
 * bound to the versions that were read.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "common/int.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"

#include "fdw/exec_int.h"

/* Integers per column in the list MOSQL_SCAN_INCREMENTS, after canSetTag. */
#define INTS_PER_COLUMN 2		/* attribute number, 1 if subtracted */

/* ---- planning: recognising ---- */

/* Our ForeignScan of rti, if it is the child, or under an Append that is. */
static ForeignScan *
find_scan(ModifyTable *plan, Index rti, int subplan)
{
	Plan	   *child = outerPlan(plan);
	ForeignScan *scan;

	if (IsA(child, Append))
	{
		Append	   *append = (Append *) child;

		if (subplan >= list_length(append->appendplans))
			return NULL;
		child = (Plan *) list_nth(append->appendplans, subplan);
	}
	if (!IsA(child, ForeignScan))
		return NULL;
	scan = (ForeignScan *) child;
	return scan->scan.scanrelid == rti ? scan : NULL;
}

/* Do the conditions say exactly which keys, whatever their values? */
static bool
gives_keys(const MosqlTable *table, const List *private)
{
	MosqlCond  *conds;
	int			nconds = mosql_conds_decode(list_nth(private, MOSQL_SCAN_CONDS), &conds);
	bool	   *given = palloc0(table->nkeys * sizeof(bool) + 1);
	int			nin = 0;

	if (linitial_int(list_nth(private, MOSQL_SCAN_INDEX)) != 0)
		return false;
	for (int i = 0; i < nconds; i++)
	{
		if (conds[i].kind != MOSQL_COND_EQ && conds[i].kind != MOSQL_COND_IN)
			return false;
		/* products of IN lists may be cut off and left to a recheck */
		if (conds[i].kind == MOSQL_COND_IN && ++nin > 1)
			return false;
		if (!conds[i].exact)
			return false;
		given[conds[i].key_position] = true;
	}
	for (int i = 0; i < table->nkeys; i++)
		if (!given[i])
			return false;
	return table->nkeys > 0;
}

typedef enum IntegerOperator
{
	NOT_INTEGER, INTEGER_PLUS, INTEGER_MINUS
} IntegerOperator;

static IntegerOperator
integer_operator(Oid function)
{
	switch (function)
	{
		case F_INT2PL:
		case F_INT4PL:
		case F_INT8PL:
		case F_INT24PL:
		case F_INT42PL:
		case F_INT28PL:
		case F_INT82PL:
		case F_INT48PL:
		case F_INT84PL:
			return INTEGER_PLUS;
		case F_INT2MI:
		case F_INT4MI:
		case F_INT8MI:
		case F_INT24MI:
		case F_INT42MI:
		case F_INT28MI:
		case F_INT82MI:
		case F_INT48MI:
		case F_INT84MI:
			return INTEGER_MINUS;
		default:
			return NOT_INTEGER;
	}
}

static bool
is_integer_type(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

static bool
is_column(Node *node, Index rti, AttrNumber attno)
{
	Var		   *var = (Var *) node;

	return IsA(node, Var) && var->varno == rti && var->varattno == attno && var->varlevelsup == 0;
}

/* Does it have one value for the whole statement? */
static bool
is_constant(Node *expr)
{
	return !contain_var_clause(expr) && !contain_volatile_functions(expr) &&
		!contain_subplans(expr) && is_integer_type(exprType(expr));
}

/*
 * Match "column + expr", "expr + column", "column - expr", under the cast that
 * brings the sum back to the column's type.  The cast changes nothing: a sum
 * that does not fit is out of range with it and without.  Returns expr, or
 * NULL.
 */
static Expr *
match_increment(Expr *assigned, Index rti, AttrNumber attno, bool *subtract)
{
	Node	   *node = (Node *) assigned;
	Node	   *left,
			   *right;
	OpExpr	   *op;
	IntegerOperator kind;

	if (IsA(node, FuncExpr))
	{
		FuncExpr   *cast = (FuncExpr *) node;

		if (cast->funcid != F_INT4_INT8 && cast->funcid != F_INT2_INT4 &&
			cast->funcid != F_INT2_INT8)
			return NULL;
		node = (Node *) linitial(cast->args);
	}
	if (!IsA(node, OpExpr))
		return NULL;
	op = (OpExpr *) node;
	set_opfuncid(op);
	kind = integer_operator(op->opfuncid);
	if (kind == NOT_INTEGER)
		return NULL;
	left = (Node *) linitial(op->args);
	right = (Node *) lsecond(op->args);

	*subtract = kind == INTEGER_MINUS;
	if (is_column(left, rti, attno) && is_constant(right))
		return (Expr *) right;
	if (kind == INTEGER_PLUS && is_column(right, rti, attno) && is_constant(left))
		return (Expr *) left;
	return NULL;
}

/* Does anything beyond NOT NULL have to be checked when these columns change? */
static bool
is_checked(Relation rel, Bitmapset *attributes)
{
	TupleConstr *constr = rel->rd_att->constr;

	if (constr && (constr->num_check > 0 || constr->has_generated_stored))
		return true;
#if PG_VERSION_NUM >= 180000
	if (constr && constr->has_generated_virtual)
		return true;			/* may be NOT NULL */
#endif
	if (rel->rd_rel->relispartition)
	{
		Bitmapset  *bound = NULL;

		pull_varattnos((Node *) RelationGetPartitionQual(rel), 1, &bound);
		return bms_overlap(bound, attributes);
	}
	return false;
}

/* Is every assignment an increment?  Collects values and description. */
static bool
all_increments(PlannerInfo *root, Index rti, const MosqlTable *table, List **deltas,
			   List **description, Bitmapset **attributes)
{
	List	   *tlist;
	List	   *attnos;
	ListCell   *lt,
			   *la;

	get_translated_update_targetlist(root, rti, &tlist, &attnos);
	if (attnos == NIL)
		return false;
	forboth(lt, tlist, la, attnos)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lt);
		AttrNumber	attno = lfirst_int(la);
		const MosqlTableColumn *column;
		bool		subtract;
		Expr	   *delta;

		if (attno <= 0 || attno > table->natts)
			return false;
		column = &table->columns[attno - 1];
		/* whoever applies an increment knows nothing of defaults of rows that lack
		 * the column */
		if (column->key_position >= 0 || !column->in_row || column->has_missing ||
			mosql_table_is_indexed(table, attno) ||
			mosql_table_is_referencing(table, attno) ||
			!is_integer_type(column->type) ||
			exprType((Node *) tle->expr) != column->type)
			return false;
		delta = match_increment(tle->expr, rti, attno, &subtract);
		if (delta == NULL)
			return false;
		*deltas = lappend(*deltas, delta);
		*description = lappend_int(lappend_int(*description, attno), subtract);
		*attributes = bms_add_member(*attributes, attno - FirstLowInvalidHeapAttributeNumber);
	}
	return true;
}

/*
 * Core has seen to it that there are no row triggers, check options,
 * transition tables or stored generated columns.
 */
bool
mosqlPlanDirectModify(PlannerInfo *root, ModifyTable *plan, Index rti, int subplan)
{
	ForeignScan *scan;
	Relation	rel;
	MosqlTable *table;
	List	   *deltas = NIL;
	List	   *description;
	Bitmapset  *attributes = NULL;
	bool		fits;

	if (plan->operation != CMD_UPDATE || plan->returningLists != NIL)
		return false;
	scan = find_scan(plan, rti, subplan);
	if (scan == NULL || scan->scan.plan.qual != NIL)
		return false;

	rel = table_open(planner_rt_fetch(rti, root)->relid, NoLock);
	table = mosql_table_open(rel, mosql_fdw_session_for(RelationGetRelid(rel),
														find_base_rel(root, rti)->userid));
	description = list_make1_int(plan->canSetTag);
	fits = gives_keys(table, scan->fdw_private) &&
		all_increments(root, rti, table, &deltas, &description, &attributes) &&
		!is_checked(rel, attributes);
	table_close(rel, NoLock);
	if (!fits)
		return false;

	scan->operation = CMD_UPDATE;
	scan->resultRelation = rti;
	scan->fdw_exprs = list_concat(list_copy(scan->fdw_exprs), deltas);
	Assert(list_length(scan->fdw_private) == MOSQL_SCAN_INCREMENTS);
	scan->fdw_private = lappend(list_copy(scan->fdw_private), description);
	return true;
}

/* ---- execution ---- */

typedef struct DirectColumn
{
	AttrNumber	attnum;
	bool		subtract;
	ExprState  *expr;
	Oid			type;			/* of expr */
	int64		value;			/* of expr, 0 if isnull */
	bool		isnull;
} DirectColumn;

typedef struct MosqlDirectState
{
	MosqlScanState scan;		/* first */
	bool		counts;			/* rows count for the command tag */
	bool		done;
	bool		evaluated;		/* the amounts */
	bool		increments;		/* no value is null, all can be negated; until they are evaluated: supposed */
	bool		locks;			/* the table's locking is pessimistic */
	int			n;
	DirectColumn *columns;
	MosqlIncrement *inc;
} MosqlDirectState;

static Oid
direct_user(ForeignScanState *node)
{
#if PG_VERSION_NUM >= 160000
	return ExecGetResultRelCheckAsUser(node->resultRelInfo, node->ss.ps.state);
#else
	return exec_rt_fetch(node->resultRelInfo->ri_RangeTableIndex,
						 node->ss.ps.state)->checkAsUser;
#endif
}

void
mosqlBeginDirectModify(ForeignScanState *node, int eflags)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	List	   *description = (List *) list_nth(plan->fdw_private, MOSQL_SCAN_INCREMENTS);
	MosqlDirectState *direct;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	PreventCommandIfReadOnly("UPDATE");
	direct = palloc0(sizeof(MosqlDirectState));
	mosql_exec_scan_init(&direct->scan, node, node->resultRelInfo->ri_RelationDesc,
						 direct_user(node));
	direct->locks = mosql_lock_is_wanted(RelationGetRelid(direct->scan.rel));
	direct->counts = linitial_int(description) != 0;
	direct->n = (list_length(description) - 1) / INTS_PER_COLUMN;
	direct->columns = palloc0(direct->n * sizeof(DirectColumn));
	direct->inc = palloc0(direct->n * sizeof(MosqlIncrement));
	for (int i = 0; i < direct->n; i++)
	{
		DirectColumn *column = &direct->columns[i];
		Expr	   *expr = (Expr *) list_nth(plan->fdw_exprs, direct->scan.nvalues + i);

		column->attnum = list_nth_int(description, 1 + i * INTS_PER_COLUMN);
		column->subtract = list_nth_int(description, 2 + i * INTS_PER_COLUMN) != 0;
		column->expr = ExecInitExpr(expr, &node->ss.ps);
		column->type = exprType((Node *) expr);
		if (mosql_table_is_indexed(direct->scan.table, column->attnum) ||
			mosql_table_is_referencing(direct->scan.table, column->attnum))
			(void) mosql_exec_index(direct->scan.table, 0, 0); /* since it was planned */
	}
	node->fdw_state = direct;
}

/* Widths of int2, int4 and int8, and their values as int64. */
static int
integer_width(Oid type)
{
	return type == INT2OID ? 2 : type == INT4OID ? 4 : 8;
}

static int64
integer_value(Oid type, Datum value)
{
	return type == INT2OID ? DatumGetInt16(value) :
		type == INT4OID ? DatumGetInt32(value) : DatumGetInt64(value);
}

static void
report_out_of_range(Oid type)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("%s out of range",
					type == INT2OID ? "smallint" : type == INT4OID ? "integer" : "bigint")));
}

/*
 * The amounts, which do not depend on the row: once per statement, and not before there is a row, without which
 * nobody would be told of a division by zero.
 */
static void
evaluate_amounts(MosqlDirectState *direct, ExprContext *econtext)
{
	direct->evaluated = true;
	for (int i = 0; i < direct->n; i++)
	{
		DirectColumn *column = &direct->columns[i];
		const MosqlTableColumn *stored = &direct->scan.table->columns[column->attnum - 1];
		Datum		value = ExecEvalExpr(column->expr, econtext, &column->isnull);

		column->value = column->isnull ? 0 : integer_value(column->type, value);
		if (column->isnull || (column->subtract && column->value == PG_INT64_MIN))
			direct->increments = false;
		else
		{
			direct->inc[i].column = stored->id;
			direct->inc[i].width = integer_width(stored->type);
			direct->inc[i].delta = column->subtract ? -column->value : column->value;
		}
	}
}

/* column + or - amount, as the ordinary operators compute it. */
static void
add_amount(const DirectColumn *column, Oid type, Datum *value, bool *isnull)
{
	int64		sum;
	bool		overflow;

	if (*isnull || column->isnull)
	{
		*isnull = true;
		*value = (Datum) 0;
		return;
	}
	overflow = column->subtract
		? pg_sub_s64_overflow(integer_value(type, *value), column->value, &sum)
		: pg_add_s64_overflow(integer_value(type, *value), column->value, &sum);
	if (type == INT8OID && !overflow)
		*value = Int64GetDatum(sum);
	else if (type == INT4OID && !overflow && sum >= PG_INT32_MIN && sum <= PG_INT32_MAX)
		*value = Int32GetDatum((int32) sum);
	else if (type == INT2OID && !overflow && sum >= PG_INT16_MIN && sum <= PG_INT16_MAX)
		*value = Int16GetDatum((int16) sum);
	else
		report_out_of_range(type);
}

/* The ordinary way: the whole new row, on the version that was read. */
static MosqlWriteResult
update_row(MosqlDirectState *direct, ForeignScanState *node, const MosqlRow *row, CommandId cid)
{
	MosqlTable *table = direct->scan.table;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	StringInfoData columns;

	ExecClearTuple(slot);
	mosql_table_get_row(table, row->key, row->columns, NULL, slot->tts_values, slot->tts_isnull);
	for (int i = 0; i < direct->n; i++)
	{
		int			at = direct->columns[i].attnum - 1;

		add_amount(&direct->columns[i], table->columns[at].type,
				   &slot->tts_values[at], &slot->tts_isnull[at]);
	}
	ExecStoreVirtualTuple(slot);
	if (direct->scan.rel->rd_att->constr)
		ExecConstraints(node->resultRelInfo, slot, node->ss.ps.state);
	mosql_exec_check_not_null(direct->scan.rel, table, mosql_exec_missing_not_null(direct->scan.rel, table), slot);
	initStringInfo(&columns);
	mosql_table_put_row(table, slot, &columns);
	ExecClearTuple(slot);
	return mosql_txn_update(direct->scan.txn, table->tree, row->key, row->version,
							mosql_bytes_of(&columns), cid);
}

/*
 * The rows of n keys.  Increments of a pessimistic statement lock nothing, unless the transaction is going to
 * look at the row, or rests on its snapshot's version anyway (REPEATABLE READ).  What is no increment is
 * bound to what was read: locked, or read, not peeked at.
 */
static void
read_targets(MosqlDirectState *direct, const MosqlBytes *keys, int n, MosqlRow *rows)
{
	MosqlScanState *scan = &direct->scan;
	MosqlTree  *tree = scan->table->tree;
	MosqlLocker locker = {scan->rel, scan->table, scan->txn, MOSQL_NO_KEY_UPDATE, LockWaitBlock, true};
	bool		looks = direct->locks && mosql_txn_looks_lock(scan->txn, tree);

	if (direct->locks)
		mosql_lock_peek(&locker, scan->view, keys, n,
						looks || !direct->increments || XactIsoLevel == XACT_REPEATABLE_READ, rows);
	else if (direct->increments)
		mosql_view_peek(scan->view, tree, keys, n, rows);
	else
		mosql_view_get(scan->view, tree, keys, n, rows);
}

static bool
finds_any(const MosqlRow *rows, int n)
{
	for (int i = 0; i < n; i++)
		if (rows[i].found)
			return true;
	return false;
}

/*
 * Update the rows that are there of n keys, in memory of the batch; returns how many.  If it turns out with the first
 * of them that they are not incremented they are read once more, as it takes for that.
 */
static int64
update_keys(MosqlDirectState *direct, ForeignScanState *node, const MosqlBytes *keys, int n)
{
	MosqlScanState *scan = &direct->scan;
	MosqlTree  *tree = scan->table->tree;
	CommandId	cid = node->ss.ps.state->es_output_cid;
	MosqlRow   *rows = palloc0(n * sizeof(MosqlRow));
	int64		updated = 0;

	read_targets(direct, keys, n, rows);
	if (!direct->evaluated && finds_any(rows, n))
	{
		evaluate_amounts(direct, node->ss.ps.ps_ExprContext);
		if (!direct->increments)
		{
			memset(rows, 0, n * sizeof(MosqlRow));
			read_targets(direct, keys, n, rows);
		}
	}
	for (int i = 0; i < n; i++)
	{
		MosqlWriteResult result;

		if (!rows[i].found)
			continue;
		scan->cost.rows_read++;
		if (direct->increments)	/* NULL columns stay so, whenever it is applied */
			result = mosql_txn_increment(scan->txn, tree, &rows[i], direct->inc, direct->n, cid);
		else
			result = update_row(direct, node, &rows[i], cid);
		updated += result != MOSQL_SELF_MODIFIED;
	}
	return updated;
}

static int64
update_all(MosqlDirectState *direct, ForeignScanState *node)
{
	MosqlScanState *scan = &direct->scan;
	int64		updated = 0;
	int			n;

	direct->increments = true;
	mosql_exec_scan_ranges(scan, node->ss.ps.ps_ExprContext);
	if (!scan->ranges->all_points && scan->ranges->n > 0)
		elog(ERROR, "conditions of a late-bound update do not name keys");
	for (int first = 0; first < scan->ranges->n; first += n)
	{
		MemoryContext old;
		MosqlBytes *keys;

		CHECK_FOR_INTERRUPTS();
		n = Min(scan->ranges->n - first, MOSQL_POINTS_PER_READ);
		MemoryContextReset(scan->point_cxt);
		old = MemoryContextSwitchTo(scan->point_cxt);
		keys = palloc(n * sizeof(MosqlBytes));
		for (int i = 0; i < n; i++)
			keys[i] = scan->ranges->ranges[first + i].low;
		updated += update_keys(direct, node, keys, n);
		MemoryContextSwitchTo(old);
	}
	return updated;
}

/* All of it at the first call; there are no rows to return. */
TupleTableSlot *
mosqlIterateDirectModify(ForeignScanState *node)
{
	MosqlDirectState *direct = (MosqlDirectState *) node->fdw_state;
	Instrumentation *instrument = node->ss.ps.instrument;
	MosqlStats	before = mosql_stats;
	int64		updated;

	if (!direct->done)
	{
		direct->done = true;
		updated = update_all(direct, node);
		if (direct->counts)
			node->ss.ps.state->es_processed += updated;
		if (instrument)
			instrument->tuplecount += updated;
		mosql_cost_add(&direct->scan.cost, &before);
	}
	return ExecClearTuple(node->ss.ss_ScanTupleSlot);
}

void
mosqlEndDirectModify(ForeignScanState *node)
{
	MosqlDirectState *direct = (MosqlDirectState *) node->fdw_state;

	if (direct != NULL)
		mosql_exec_scan_close(&direct->scan);
}

/* ---- EXPLAIN ---- */

/* The scan's own lines, and "Increment: abalance, bbalance". */
void
mosqlExplainDirectModify(ForeignScanState *node, struct ExplainState *es)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	List	   *description = (List *) list_nth(plan->fdw_private, MOSQL_SCAN_INCREMENTS);
	Oid			relid = RelationGetRelid(node->resultRelInfo->ri_RelationDesc);
	List	   *names = NIL;

	for (int i = 1; i + 1 < list_length(description); i += INTS_PER_COLUMN)
		names = lappend(names, get_attname(relid, list_nth_int(description, i), false));
	mosql_explain_scan(node, es);
	ExplainPropertyList("Increment", names, es);
	if (es->analyze && node->fdw_state != NULL)
		mosql_explain_cost(&((MosqlDirectState *) node->fdw_state)->scan.cost, es);
}
