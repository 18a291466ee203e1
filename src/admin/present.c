/*
 * present.c: what queries of the catalogs see of our tables, indexes and sequences.
 *
 * Layer: admin.  It is done to the query tree before it is planned, when views such as
 * pg_tables and information_schema.tables are expanded already:
 *
 *   always               pg_get_expr() says nextval() where a default has mosql_fdw_nextval()
 *                        in its place; last_value and is_called of a sequence that is drawn
 *                        from Redis, also by pg_sequences and pg_get_sequence_data(), are those
 *                        in Redis; pg_index.indisready and indisvalid of bare indexes
 *                        (index_bare.c), else pg_dump would leave them out
 *   present_as_table     pg_class.relkind of our tables is 'r', and indexes of method mosql
 *                        are of btree, or hash, without our bit in pg_index.indoption
 *
 * The second not for pg_dump, which must see what it dumps: it is known by
 * restrict_nonsystem_relation_kind, which it sets; or, if it or the server is older
 * than that setting (August 2024), by the name that it gives itself.  Neither in binary
 * upgrades, which look for the files of tables.
 *
 * A query that reads no catalog and no sequence pays for a look at its range tables.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"

#include "admin/admin.h"

bool		mosql_admin_present_as_table = false;

static planner_hook_type next_planner_hook = NULL;

static bool
is_dumping(void)
{
	const char *restricted = GetConfigOption("restrict_nonsystem_relation_kind", true, false);

	return (restricted != NULL && restricted[0] != '\0') ||
		(application_name != NULL && strcmp(application_name, "pg_dump") == 0);
}

/* ---- columns ---- */

typedef struct Levels
{
	List	   *queries;		/* the innermost first */
	bool		as_table;		/* what present_as_table asks for, too */
} Levels;

/* What a Var is about; NULL: no relation, or one whose rows the query changes. */
static const RangeTblEntry *
entry_of(const Var *var, const Levels *levels)
{
	const Query *query;
	const RangeTblEntry *entry;

	if (var->varlevelsup >= list_length(levels->queries))
		return NULL;
	query = list_nth(levels->queries, var->varlevelsup);
	if (query->commandType != CMD_SELECT || var->varno < 1 || var->varno > list_length(query->rtable))
		return NULL;
	entry = rt_fetch(var->varno, query->rtable);
	return entry->rtekind == RTE_RELATION ? entry : NULL;
}

/*
 * The call of one of our functions of this type, or what stands there as it is.  It is told from a user's own
 * (shown.c) by a syntax that nobody can write.
 */
static Node *
call(const char *name, Oid type, List *args, Node *otherwise)
{
	Oid			types[2];
	Oid			function;
	int			n = 0;
	ListCell   *lc;

	foreach(lc, args)
		types[n++] = exprType(lfirst(lc));
	function = mosql_fdw_function(name, n, types);
	return !OidIsValid(function) ? otherwise :
		(Node *) makeFuncExpr(function, type, args, InvalidOid, InvalidOid, COERCE_SQL_SYNTAX);
}

/* A column of the catalog by our function of it and of the OID in another column. */
static Node *
call_with_oid(const char *name, Var *var, AttrNumber attno)
{
	Var		   *oid = copyObject(var);

	oid->varattno = attno;
	oid->vartype = OIDOID;
	oid->varattnosyn = 0;
	oid->varnosyn = 0;
	return call(name, var->vartype, list_make2(oid, var), (Node *) var);
}

/* last_value or is_called. */
static Node *
state_of_sequence(Var *var, Oid seqid)
{
	Const	   *sequence = makeConst(REGCLASSOID, -1, InvalidOid, sizeof(Oid), ObjectIdGetDatum(seqid),
									 false, true);

	if (var->varattno == SEQ_COL_LASTVAL)
		return call("mosql_fdw_shown_state", INT8OID, list_make2(sequence, var), (Node *) var);
	if (var->varattno == SEQ_COL_CALLED)
		return call("mosql_fdw_shown_state", BOOLOID, list_make2(sequence, var), (Node *) var);
	return (Node *) var;
}

static Node *
present_column(const Var *given, const Levels *levels)
{
	const RangeTblEntry *entry = entry_of(given, levels);
	Var		   *var = copyObject((Var *) given);

	if (entry == NULL)
		return (Node *) var;
	if (entry->relkind == RELKIND_SEQUENCE && mosql_fdw_is_shared(entry->relid))
		return state_of_sequence(var, entry->relid);
	if (entry->relid == RelationRelationId && levels->as_table && var->varattno == Anum_pg_class_relkind)
		return call_with_oid("mosql_fdw_shown_kind", var, Anum_pg_class_oid);
	if (entry->relid == IndexRelationId &&
		(var->varattno == Anum_pg_index_indisready || var->varattno == Anum_pg_index_indisvalid))
		return call_with_oid("mosql_fdw_shown_ready", var, Anum_pg_index_indexrelid);
	if (entry->relid == RelationRelationId && levels->as_table && var->varattno == Anum_pg_class_relam)
		return call_with_oid("mosql_fdw_shown_method", var, Anum_pg_class_oid);
	if (entry->relid == IndexRelationId && levels->as_table && var->varattno == Anum_pg_index_indoption)
		return call("mosql_fdw_shown_options", INT2VECTOROID, list_make1(var), (Node *) var);
	return (Node *) var;
}

/* ---- functions ---- */

static const struct
{
	Oid			core;
	const char *ours;
	bool		as_table;		/* under present_as_table alone */
}			shown_functions[] = {
	{F_PG_GET_EXPR_PG_NODE_TREE_OID, "mosql_fdw_shown_expr", false},
	{F_PG_GET_EXPR_PG_NODE_TREE_OID_BOOL, "mosql_fdw_shown_expr", false},
	{F_PG_SEQUENCE_LAST_VALUE, "mosql_fdw_shown_last_value", false},
#if PG_VERSION_NUM >= 180000
	{F_PG_GET_SEQUENCE_DATA, "mosql_fdw_shown_data", false},
#endif
	{F_PG_GET_INDEXDEF_OID, "mosql_fdw_shown_indexdef", true},
	{F_PG_GET_INDEXDEF_OID_INT4_BOOL, "mosql_fdw_shown_indexdef", true},
	{F_PG_GET_CONSTRAINTDEF_OID, "mosql_fdw_shown_constraintdef", true},
	{F_PG_GET_CONSTRAINTDEF_OID_BOOL, "mosql_fdw_shown_constraintdef", true},
};

static void
present_call(FuncExpr *expr, const Levels *levels)
{
	for (int i = 0; i < lengthof(shown_functions); i++)
	{
		Oid			types[3];
		Oid			function;
		int			n = 0;
		ListCell   *lc;

		if (expr->funcid != shown_functions[i].core ||
			(shown_functions[i].as_table && !levels->as_table))
			continue;
		foreach(lc, expr->args)
			types[n++] = exprType(lfirst(lc));
		function = mosql_fdw_function(shown_functions[i].ours, n, types);
		if (OidIsValid(function))
			expr->funcid = function;
		return;
	}
}

/* ---- queries ---- */

static Node *
present(Node *node, void *context)
{
	Levels	   *levels = context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Query))
	{
		Query	   *query;

		levels->queries = lcons(node, levels->queries);
		query = query_tree_mutator((Query *) node, present, levels, 0);
		levels->queries = list_delete_first(levels->queries);
		return (Node *) query;
	}
	if (IsA(node, Var))
		return present_column((Var *) node, levels);
	node = expression_tree_mutator(node, present, context);
	if (IsA(node, FuncExpr))
		present_call((FuncExpr *) node, levels);
	return node;
}

static bool reads_catalogs(const Query *query);

static bool
reads_catalogs_below(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
		return reads_catalogs((Query *) node);
	return expression_tree_walker(node, reads_catalogs_below, context);
}

static bool
is_catalog(const RangeTblEntry *entry)
{
	if (entry->rtekind == RTE_SUBQUERY)
		return reads_catalogs(entry->subquery);
	return entry->rtekind == RTE_RELATION &&
		(entry->relid < FirstUnpinnedObjectId || entry->relkind == RELKIND_SEQUENCE);
}

/* Does a query at any level read a catalog or a sequence, or none but call functions? */
static bool
reads_catalogs(const Query *query)
{
	ListCell   *lc;

	foreach(lc, query->rtable)
		if (is_catalog(lfirst_node(RangeTblEntry, lc)))
			return true;
	foreach(lc, query->cteList)
		if (reads_catalogs(castNode(Query, lfirst_node(CommonTableExpr, lc)->ctequery)))
			return true;
	if (query->rtable == NIL && query->commandType == CMD_SELECT)
		return true;
	return query->hasSubLinks &&
		query_tree_walker((Query *) query, reads_catalogs_below, NULL, QTW_IGNORE_RT_SUBQUERIES);
}

static PlannedStmt *
plan(Query *query, const char *string, int options, ParamListInfo params)
{
	if (!IsBinaryUpgrade && reads_catalogs(query))
	{
		Levels		levels = {.as_table = mosql_admin_present_as_table && !is_dumping()};

		query = (Query *) present((Node *) query, &levels);
	}
	return (next_planner_hook != NULL ? next_planner_hook : standard_planner)
		(query, string, options, params);
}

void
mosql_admin_init_present(void)
{
	next_planner_hook = planner_hook;
	planner_hook = plan;
}
