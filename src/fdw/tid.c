/*
 * tid.c: ctid, and the other system columns.
 *
 * Layer: fdw.  Rows have no place, only a key.  In ctid a scan hands on which row it has read
 * (txn/handle.c):
 *
 *     block < 2^31    the number of its key, one and the same for all scans: where the query
 *                     names ctid.  256 to a block
 *     block >= 2^31   a handle, good for this statement: where only UPDATE, DELETE or FOR
 *                     UPDATE look at it.  32768 to a block
 *     (0,257)         leads to no row: where nobody looks at it
 *
 * A ctid stays as it is when its row is updated, unless its key changes: the row is where
 * it was.  (PostgreSQL's would be another one; that a row has changed is told by xmin.)
 *
 * xmin is a token of the row's version (code/token.c).  cmin, cmax and xmax are 0, but for what ON CONFLICT DO
 * UPDATE returns.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "utils/array.h"

#include "fdw/exec_int.h"

/* The lowest block of handles. */
#define HANDLE_BLOCK	UINT64CONST(0x80000000)

#define HANDLE_BITS		15
#define NUMBER_BITS		8

/* ctid (0,0) is no tuple identifier, so offsets count from 1. */
static void
set_tid(ItemPointer tid, uint64 block, uint64 offset)
{
	Assert(block < InvalidBlockNumber);
	ItemPointerSet(tid, (BlockNumber) block, (OffsetNumber) (offset + 1));
}

void
mosql_tid_of_number(uint64 number, ItemPointer tid)
{
	Assert(number >> NUMBER_BITS < HANDLE_BLOCK);
	set_tid(tid, number >> NUMBER_BITS, number & ((1 << NUMBER_BITS) - 1));
}

void
mosql_tid_of_handle(uint64 handle, ItemPointer tid)
{
	set_tid(tid, HANDLE_BLOCK | handle >> HANDLE_BITS, handle & ((1 << HANDLE_BITS) - 1));
}

/* Core looks for a valid one in the row that a cursor is on (WHERE CURRENT OF). */
void
mosql_tid_of_none(ItemPointer tid)
{
	set_tid(tid, 0, 1 << NUMBER_BITS);
}

/* The number in a ctid, which may be any; false: it has none. */
static bool
number_of_tid(ItemPointer tid, uint64 *number)
{
	uint64		block = ItemPointerGetBlockNumberNoCheck(tid);
	uint64		offset = ItemPointerGetOffsetNumberNoCheck(tid);

	if (block >= HANDLE_BLOCK || offset < 1 || offset > 1 << NUMBER_BITS)
		return false;
	*number = block << NUMBER_BITS | (offset - 1);
	return true;
}

/* The row that a handle in a ctid leads to, which is no number; false: it is none. */
static bool
row_of_handle(MosqlTxn *txn, ItemPointer tid, MosqlRow *row)
{
	uint64		block = ItemPointerGetBlockNumberNoCheck(tid);
	uint64		offset = ItemPointerGetOffsetNumberNoCheck(tid);

	return block >= HANDLE_BLOCK &&
		mosql_txn_handle_get(txn, (block - HANDLE_BLOCK) << HANDLE_BITS | (offset - 1), row);
}

void
mosql_exec_row_of_tid(MosqlTxn *txn, MosqlTree *tree, Datum ctid, MosqlRow *row)
{
	ItemPointer tid = (ItemPointer) DatumGetPointer(ctid);
	uint64		number;

	if (ItemPointerIsValid(tid) &&
		(number_of_tid(tid, &number)
		 ? mosql_txn_number_get(txn, tree, number, row) : row_of_handle(txn, tid, row)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("ctid (%u,%u) names no row that this statement read",
					ItemPointerGetBlockNumberNoCheck(tid),
					ItemPointerGetOffsetNumberNoCheck(tid))));
}

bool
mosql_tid_key(MosqlTxn *txn, MosqlTree *tree, ItemPointer tid, MosqlBytes *key)
{
	uint64		number;
	MosqlRow	row;

	if (!ItemPointerIsValid(tid))
		return false;
	if (number_of_tid(tid, &number))
		return mosql_txn_number_key(txn, tree, number, key);
	if (!row_of_handle(txn, tid, &row))
		return false;
	*key = row.key;
	return true;
}

/* ---- who names it ---- */

/* What core adds for UPDATE, DELETE and FOR UPDATE is junk of that name. */
static bool
is_row_identity(const TargetEntry *tle)
{
	return tle->resjunk && tle->resname != NULL && strncmp(tle->resname, "ctid", 4) == 0 &&
		IsA(tle->expr, Var);
}

/* MOSQL_SYSTEM_... of an attribute. */
static int
system_of(AttrNumber attnum)
{
	switch (attnum)
	{
		case SelfItemPointerAttributeNumber:
			return MOSQL_SYSTEM_CTID;
		case MinTransactionIdAttributeNumber:
		case MinCommandIdAttributeNumber:
		case MaxTransactionIdAttributeNumber:
		case MaxCommandIdAttributeNumber:
			return MOSQL_SYSTEM_VERSION;
		default:
			return 0;
	}
}

/* context: int, the bits. */
static bool
collect_named(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		*(int *) context |= system_of(((Var *) node)->varattno);
		return false;
	}
	if (IsA(node, TargetEntry) && is_row_identity((TargetEntry *) node))
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, collect_named, context, 0);
	return expression_tree_walker(node, collect_named, context);
}

int
mosql_system_named(Node *node)
{
	int			named = 0;

	(void) collect_named(node, &named);
	return named;
}

int
mosql_system_needed(PlannerInfo *root, const Bitmapset *attributes)
{
	int			needed = 0;
	int			i = -1;

	while ((i = bms_next_member(attributes, i)) >= 0 &&
		   i + FirstLowInvalidHeapAttributeNumber < 0)
		needed |= system_of(i + FirstLowInvalidHeapAttributeNumber);
	if ((needed & MOSQL_SYSTEM_CTID) == 0 ||
		((mosql_system_named((Node *) root->parse) |
		  mosql_system_named((Node *) root->append_rel_list)) & MOSQL_SYSTEM_CTID) != 0)
		return needed;
	return (needed & ~MOSQL_SYSTEM_CTID) | MOSQL_SYSTEM_HANDLE;
}

bool
mosql_tid_is_of(Node *node, Index relid)
{
	const Var  *var = (const Var *) node;

	return node != NULL && IsA(node, Var) && var->varno == relid && var->varlevelsup == 0 &&
		var->varattno == SelfItemPointerAttributeNumber;
}

/* ---- xmin ---- */

/*
 * The only place for it is the header of a tuple, where heap_form_tuple() has put what a
 * composite value says of its type, in t_ctid, too, and perhaps (newer minor releases)
 * both flags of xmax to tell so.  Now it is the tuple of a table.
 */
void
mosql_system_put(TupleTableSlot *slot, Oid relid, uint32 xmin)
{
	ItemPointerData tid = slot->tts_tid;
	HeapTuple	tuple;

	Assert(TTS_IS_HEAPTUPLE(slot));
	slot_getallattrs(slot);
	tuple = heap_form_tuple(slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull);
	HeapTupleHeaderSetXmin(tuple->t_data, xmin);
	HeapTupleHeaderSetXmax(tuple->t_data, InvalidTransactionId);
	HeapTupleHeaderSetCmin(tuple->t_data, FirstCommandId);
	tuple->t_data->t_infomask &= ~HEAP_XMAX_COMMITTED;
	tuple->t_data->t_infomask |= HEAP_XMAX_INVALID;
	ItemPointerSetInvalid(&tuple->t_data->t_ctid);
	tuple->t_tableOid = relid;
	ExecStoreHeapTuple(tuple, slot, false);
	slot->tts_tableOid = relid;
	slot->tts_tid = tid;
}

/*
 * INSERT … ON CONFLICT … RETURNING (xmax = 0) is how programs ask whether a row was inserted: in
 * PostgreSQL's own tables it was locked before it was updated.  Who has done that nobody asks.
 */
void
mosql_system_mark_met(TupleTableSlot *slot)
{
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, NULL);

	HeapTupleHeaderSetXmax(tuple->t_data, FirstNormalTransactionId);
}

/* ---- conditions on it ---- */

/* The two sides of "ctid = value", either way round, or of "ctid = ANY (value)". */
static bool
match_sides(const RestrictInfo *rinfo, Node **left, Node **right, bool *array)
{
	List	   *args;

	*array = IsA(rinfo->clause, ScalarArrayOpExpr);
	if (*array)
	{
		const ScalarArrayOpExpr *any = (const ScalarArrayOpExpr *) rinfo->clause;

		if (!any->useOr || any->opno != TIDEqualOperator)
			return false;
		args = any->args;
	}
	else if (IsA(rinfo->clause, OpExpr) &&
			 ((const OpExpr *) rinfo->clause)->opno == TIDEqualOperator)
		args = ((const OpExpr *) rinfo->clause)->args;
	else
		return false;
	*left = linitial(args);
	*right = lsecond(args);
	return true;
}

static bool
is_known_before(PlannerInfo *root, Node *node, Index relid)
{
	return !bms_is_member(relid, pull_varnos(root, node)) && !contain_volatile_functions(node);
}

bool
mosql_tid_is_usable(PlannerInfo *root, RelOptInfo *rel, const RestrictInfo *rinfo)
{
	Node	   *left;
	Node	   *right;
	bool		array;

	if (IsA(rinfo->clause, CurrentOfExpr))
		return true;
	if (rinfo->pseudoconstant || !match_sides(rinfo, &left, &right, &array) ||
		!restriction_is_securely_promotable(unconstify(RestrictInfo *, rinfo), rel))
		return false;
	if (mosql_tid_is_of(left, rel->relid))
		return is_known_before(root, right, rel->relid);
	return !array && mosql_tid_is_of(right, rel->relid) && is_known_before(root, left, rel->relid);
}

MosqlTids
mosql_tid_value(const RestrictInfo *rinfo, Index relid, Expr **value)
{
	Node	   *left = NULL;
	Node	   *right = NULL;
	bool		array;
	bool		matched PG_USED_FOR_ASSERTS_ONLY;

	*value = rinfo->clause;
	if (IsA(rinfo->clause, CurrentOfExpr))
		return MOSQL_TIDS_CURRENT;
	matched = match_sides(rinfo, &left, &right, &array);
	Assert(matched);
	*value = (Expr *) (mosql_tid_is_of(left, relid) ? right : left);
	return array ? MOSQL_TIDS_ARRAY : MOSQL_TIDS_ONE;
}

/* ---- rows by it ---- */

static void
add_point(MosqlRanges *ranges, MosqlBytes key)
{
	char	   *high = palloc(key.len + 1);

	memcpy(high, key.data, key.len);
	high[key.len] = '\0';
	ranges->ranges[ranges->n++] = (MosqlRange) {
		.point = true,.low = key,.high = mosql_bytes(high, key.len + 1)
	};
}

/* A ctid that no scan has given away is that of no row. */
static MosqlRanges *
named_ranges(MosqlTxn *txn, MosqlTree *tree, bool array, Datum value, bool isnull)
{
	MosqlRanges *ranges = palloc0(sizeof(MosqlRanges));
	Datum	   *tids = &value;
	bool	   *nulls = &isnull;
	int			n = 1;

	if (array && isnull)
		n = 0;
	else if (array)
		deconstruct_array(DatumGetArrayTypeP(value), TIDOID, sizeof(ItemPointerData), false,
						  TYPALIGN_SHORT, &tids, &nulls, &n);
	ranges->ranges = palloc(Max(n, 1) * sizeof(MosqlRange));
	for (int i = 0; i < n; i++)
	{
		uint64		number;
		MosqlBytes	key;

		if (!nulls[i] && number_of_tid((ItemPointer) DatumGetPointer(tids[i]), &number) &&
			mosql_txn_number_key(txn, tree, number, &key))
			add_point(ranges, key);
	}
	return mosql_ranges_union(&ranges, 1);
}

static MosqlRanges *
current_ranges(MosqlScanState *scan, ExprContext *econtext)
{
	MosqlRanges *ranges = palloc0(sizeof(MosqlRanges));
	MosqlBytes	key;

	ranges->ranges = palloc(sizeof(MosqlRange));
	if (mosql_cursor_key(scan, castNode(CurrentOfExpr, scan->exprs[0]->expr), econtext, &key))
		add_point(ranges, mosql_bytes_copy(CurrentMemoryContext, key));
	return ranges;
}

MosqlRanges *
mosql_tid_ranges(MosqlScanState *scan, ExprContext *econtext)
{
	if (scan->tids == MOSQL_TIDS_CURRENT)
		return current_ranges(scan, econtext);
	return named_ranges(scan->txn, scan->table->tree, scan->tids == MOSQL_TIDS_ARRAY,
						scan->values[0], scan->nulls[0]);
}
