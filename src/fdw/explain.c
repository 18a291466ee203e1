/*
 * explain.c: what EXPLAIN says about our nodes.
 *
 * Layer: fdw.
 *
 *     Foreign Scan on public.accounts
 *       Key: aid = $1                       whole keys: read as points
 *       Key Range: aid >= 10 AND aid < 20   otherwise; "all" without a bound
 *       Index: accounts_bid_idx             only where a secondary one is read;
 *                                           Index Only: its entries suffice
 *       Ctid: = '(0,1)'::tid                instead of a key: rows by their ctid
 *       Order: backward                     only then
 *       Redis: round trips=1 leaves=2 rows=10 retries=0      with ANALYZE
 *
 * In the other formats each number of the last line is a property of its own.
 * Conditions that the key does not answer are PostgreSQL's "Filter".
 */
#include "postgres.h"

#include "access/table.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "fdw/fdw_int.h"

static const char *
operator_of(MosqlCondKind kind)
{
	switch (kind)
	{
		case MOSQL_COND_EQ:
			return "=";
		case MOSQL_COND_LT:
		case MOSQL_COND_ROW_LT:
			return "<";
		case MOSQL_COND_LE:
		case MOSQL_COND_ROW_LE:
			return "<=";
		case MOSQL_COND_GE:
		case MOSQL_COND_ROW_GE:
			return ">=";
		case MOSQL_COND_GT:
		case MOSQL_COND_ROW_GT:
			return ">";
		case MOSQL_COND_PREFIX:
			return "LIKE";
		case MOSQL_COND_IN:
			return "= ANY";
		case MOSQL_COND_ISNULL:
			return "IS NULL";
		case MOSQL_COND_NOTNULL:
			return "IS NOT NULL";
	}
	return "?";
}

static void
describe_cond(StringInfo out, const MosqlTable *table, const MosqlCond *cond, List *values,
			  List *dpcontext)
{
	bool		row = cond->ncolumns > 1;
	bool		parens = row || cond->kind == MOSQL_COND_IN;

	appendStringInfoString(out, row ? "(" : "");
	for (int i = 0; i < Max(cond->ncolumns, 1); i++)
		appendStringInfo(out, "%s%s", i > 0 ? ", " : "", mosql_table_key_name(table, cond->key_position + i));
	appendStringInfo(out, "%s %s", row ? ")" : "", operator_of(cond->kind));
	if (cond->ncolumns == 0)
		return;
	appendStringInfoString(out, parens ? " (" : " ");
	for (int i = 0; i < cond->ncolumns; i++)
		appendStringInfo(out, "%s%s", i > 0 ? ", " : "",
						 deparse_expression(list_nth(values, i), dpcontext, false, false));
	appendStringInfoString(out, parens ? ")" : "");
}

/* "aid = $1 AND bid >= 5", palloc'ed; "all" without conditions. */
static char *
describe_conds(const MosqlTable *table, const MosqlCond *conds, int nconds, List *exprs,
			   List *dpcontext)
{
	StringInfoData out;
	int			at = 0;

	if (nconds == 0)
		return pstrdup("all");
	initStringInfo(&out);
	for (int i = 0; i < nconds; i++)
	{
		List	   *values = NIL;

		for (int j = 0; j < conds[i].ncolumns; j++)
			values = lappend(values, list_nth(exprs, at++));
		if (i > 0)
			appendStringInfoString(&out, " AND ");
		describe_cond(&out, table, &conds[i], values, dpcontext);
	}
	return out.data;
}

/* All key columns by = or IN: see estimate.c. */
static bool
reads_points(const MosqlTable *table, const MosqlCond *conds, int nconds)
{
	for (int i = 0; i < nconds; i++)
		if (conds[i].kind != MOSQL_COND_EQ && conds[i].kind != MOSQL_COND_IN)
			return false;
	return nconds > 0 && nconds == table->nkeys && table->unique_key;
}

static Oid
scan_user(ForeignScanState *node)
{
#if PG_VERSION_NUM >= 160000
	return ((ForeignScan *) node->ss.ps.plan)->checkAsUser;
#else
	Scan	   *plan = (Scan *) node->ss.ps.plan;

	return exec_rt_fetch(plan->scanrelid, node->ss.ps.state)->checkAsUser;
#endif
}

/*
 * "o_a (a = 1), o_b (b = 2), key (id = 3)"; of arms that are all of one key only what
 * bounds it: "(a = 1) OR (a > 5)".  *points: stays true if all arms are whole keys.
 */
static char *
describe_arms(const MosqlTable *table, const List *arms, bool same, List *exprs, List *dpcontext,
			  bool *points)
{
	StringInfoData out;
	ListCell   *lc;
	int			at = 0;

	initStringInfo(&out);
	foreach(lc, arms)
	{
		const MosqlIndex *index = mosql_table_index(table, linitial_int(linitial((List *) lfirst(lc))));
		MosqlCond  *conds;
		int			n = mosql_conds_decode(lsecond((List *) lfirst(lc)), &conds);

		*points &= reads_points(index ? index->entries : table, conds, n);
		if (out.len > 0)
			appendStringInfoString(&out, same ? " OR " : ", ");
		if (!same)
			appendStringInfo(&out, "%s ", index ? quote_identifier(index->name) : "key");
		appendStringInfo(&out, "(%s)", describe_conds(index ? index->entries : table, conds, n,
															 list_copy_tail(exprs, at), dpcontext));
		for (int i = 0; i < n; i++)
			at += conds[i].ncolumns;
	}
	return out.data;
}

/* Are all arms of the key that the scan reads? */
static bool
arms_agree(const List *arms, const List *index)
{
	ListCell   *lc;

	foreach(lc, arms)
		if (linitial_int(linitial((List *) lfirst(lc))) != linitial_int(index))
			return false;
	return true;
}

/*
 * What other nodes hand on is shown by its number, as parameters are: what it is called only those above know, of whom
 * we are not told.
 */
static Node *
number_values(Node *node, void *context)
{
	Param	   *param;

	if (node == NULL || IsA(node, SubPlan))
		return node;
	if (!IsA(node, Param))
		return expression_tree_mutator(node, number_values, context);
	param = copyObject((Param *) node);
	param->paramkind = PARAM_EXTERN;
	return (Node *) param;
}

/* The planner has opened the table a moment ago: no round trip. */
void
mosql_explain_scan(ForeignScanState *node, ExplainState *es)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	Relation	rel = node->ss.ss_currentRelation;
	MosqlSession *session = mosql_fdw_session_for(RelationGetRelid(rel), scan_user(node));
	MosqlTable *table = mosql_table_open(rel, session);
	MosqlCond  *conds;
	int			nconds = mosql_conds_decode(list_nth(plan->fdw_private, MOSQL_SCAN_CONDS), &conds);
	List	   *dpcontext = set_deparse_context_plan(es->deparse_cxt, (Plan *) plan, NIL);
	List	   *exprs = (List *) number_values((Node *) plan->fdw_exprs, NULL);
	List	   *index = list_nth(plan->fdw_private, MOSQL_SCAN_INDEX);
	List	   *arms = list_nth(plan->fdw_private, MOSQL_SCAN_ARMS);
	MosqlTids	tids = intVal(list_nth(plan->fdw_private, MOSQL_SCAN_TIDS));
	const MosqlIndex *read = mosql_table_index(table, linitial_int(index));
	const MosqlTable *keys = read ? read->entries : table;

	if (read != NULL)
		ExplainPropertyText(lsecond_int(index) ? "Index Only" : "Index", read->name, es);
	if (arms != NIL)
	{
		bool		same = arms_agree(arms, index);
		bool		points = true;
		char	   *text = describe_arms(table, arms, same, exprs, dpcontext, &points);

		ExplainPropertyText(!same ? "Union" : points ? "Key" : "Key Range", text, es);
	}
	else if (tids == MOSQL_TIDS_CURRENT)
		ExplainPropertyText("Ctid", deparse_expression(linitial(exprs), dpcontext, false, false), es);
	else if (tids != MOSQL_TIDS_NONE)
		ExplainPropertyText("Ctid", psprintf(tids == MOSQL_TIDS_ARRAY ? "= ANY (%s)" : "= %s",
											 deparse_expression(linitial(exprs), dpcontext, false, false)), es);
	else
		ExplainPropertyText(reads_points(keys, conds, nconds) ? "Key" : "Key Range",
							describe_conds(keys, conds, nconds, exprs, dpcontext), es);
	if (boolVal(list_nth(plan->fdw_private, MOSQL_SCAN_BACKWARD)))
		ExplainPropertyText("Order", "backward", es);
}

char *
mosql_explain_lookup(Oid relid, Oid userid, const char *name, int index, List *conds, List *exprs,
					 List *dpcontext)
{
	Relation	rel = table_open(relid, NoLock);
	MosqlTable *table = mosql_table_open(rel, mosql_fdw_session_for(relid, userid));
	const MosqlIndex *read = mosql_table_index(table, index);
	MosqlCond  *decoded;
	int			n = mosql_conds_decode(conds, &decoded);
	char	   *text = describe_conds(read ? read->entries : table, decoded, n, exprs, dpcontext);

	table_close(rel, NoLock);
	return psprintf("%s (%s)", quote_identifier(name), text);
}

void
mosql_explain_cost(const MosqlScanCost *cost, ExplainState *es)
{
	const MosqlStats *used = &cost->used;
	int64		retries = used->step_retries + used->prepare_retries + used->waits;

	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		char	   *line = psprintf("round trips=" INT64_FORMAT " leaves=" INT64_FORMAT
									" rows=" INT64_FORMAT " retries=" INT64_FORMAT,
									used->round_trips, used->leaf_reads, cost->rows_read, retries);

		ExplainPropertyText("Redis", line, es);
		return;
	}
	ExplainPropertyInteger("Redis Round Trips", NULL, used->round_trips, es);
	ExplainPropertyInteger("Redis Leaves Read", NULL, used->leaf_reads, es);
	ExplainPropertyInteger("Redis Points Read", NULL, used->point_reads, es);
	ExplainPropertyInteger("Redis Rows Read", NULL, cost->rows_read, es);
	ExplainPropertyInteger("Redis Retries", NULL, retries, es);
	ExplainPropertyInteger("Redis Bytes Sent", NULL, used->bytes_sent, es);
	ExplainPropertyInteger("Redis Bytes Received", NULL, used->bytes_received, es);
}

void
mosqlExplainForeignScan(ForeignScanState *node, ExplainState *es)
{
	mosql_explain_scan(node, es);
	if (es->analyze && node->fdw_state != NULL)
		mosql_explain_cost((const MosqlScanCost *) node->fdw_state, es);
}

/* Writes are sent at commit: what a statement shows here are its look-ups. */
void
mosqlExplainForeignModify(ModifyTableState *mtstate, ResultRelInfo *rri, List *fdw_private,
						  int subplan, ExplainState *es)
{
	if (rri->ri_BatchSize > 1)
		ExplainPropertyInteger("Batch Size", NULL, rri->ri_BatchSize, es);
	if (es->analyze && rri->ri_FdwState != NULL)
		mosql_explain_cost((const MosqlScanCost *) rri->ri_FdwState, es);
}
