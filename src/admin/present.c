/*
 * present.c: mosql_fdw.present_as_table: foreign tables of ours look like tables.
 *
 * Layer: admin.  Tools that ask the catalogs for tables want relkind 'r'.  Under the
 * setting, each reference to pg_class.relkind in a query becomes
 * mosql_fdw_shown_kind(oid, relkind), which says 'r' for our foreign tables.  That
 * is done to the query tree before it is planned, when views such as pg_tables and
 * information_schema.tables are expanded already.
 *
 * Not for pg_dump, which must see what it dumps: it is known by
 * restrict_nonsystem_relation_kind, which it sets; or, if it or the server is older
 * than that setting (August 2024), by the name that it gives itself.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "parser/parse_func.h"
#include "parser/parsetree.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "admin/admin.h"

PG_FUNCTION_INFO_V1(mosql_fdw_shown_kind);

bool		mosql_admin_present_as_table = false;

static planner_hook_type next_planner_hook = NULL;

Datum
mosql_fdw_shown_kind(PG_FUNCTION_ARGS)
{
	char		kind = PG_GETARG_CHAR(1);

	if (kind == RELKIND_FOREIGN_TABLE && mosql_fdw_is_ours(PG_GETARG_OID(0)))
		kind = RELKIND_RELATION;
	PG_RETURN_CHAR(kind);
}

typedef struct Levels
{
	List	   *queries;		/* the innermost first */
	Oid			function;		/* mosql_fdw_shown_kind */
} Levels;

/* Is this pg_class.relkind? */
static bool
is_kind(const Var *var, const Levels *levels)
{
	const Query *query;
	const RangeTblEntry *entry;

	if (var->varattno != Anum_pg_class_relkind || var->varlevelsup >= list_length(levels->queries))
		return false;
	query = list_nth(levels->queries, var->varlevelsup);
	if (var->varno < 1 || var->varno > list_length(query->rtable))
		return false;
	entry = rt_fetch(var->varno, query->rtable);
	return entry->rtekind == RTE_RELATION && entry->relid == RelationRelationId &&
		query->commandType == CMD_SELECT;
}

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
	if (IsA(node, Var) && is_kind((Var *) node, levels))
	{
		Var		   *kind = copyObject((Var *) node);
		Var		   *oid = copyObject((Var *) node);

		oid->varattno = Anum_pg_class_oid;
		oid->vartype = OIDOID;
		oid->varattnosyn = 0;
		oid->varnosyn = 0;
		return (Node *) makeFuncExpr(levels->function, CHAROID, list_make2(oid, kind), InvalidOid,
									 InvalidOid, COERCE_EXPLICIT_CALL);
	}
	return expression_tree_mutator(node, present, context);
}

/* Does a query at any level read pg_class? */
static bool
reads_relations(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_RELATION &&
			((RangeTblEntry *) node)->relid == RelationRelationId;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_relations, context,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, reads_relations, context);
}

/* The function, in the schema of the wrapper's handler; InvalidOid if the extension
 * is not there. */
static Oid
shown_kind(void)
{
	Oid			arguments[] = {OIDOID, CHAROID};
	ForeignDataWrapper *wrapper = GetForeignDataWrapperByName("mosql_fdw", true);
	char	   *schema;

	if (wrapper == NULL || !OidIsValid(wrapper->fdwhandler))
		return InvalidOid;
	schema = get_namespace_name(get_func_namespace(wrapper->fdwhandler));
	return LookupFuncName(list_make2(makeString(schema), makeString("mosql_fdw_shown_kind")),
						  2, arguments, true);
}

static bool
is_dumping(void)
{
	const char *restricted = GetConfigOption("restrict_nonsystem_relation_kind", true, false);

	return (restricted != NULL && restricted[0] != '\0') ||
		(application_name != NULL && strcmp(application_name, "pg_dump") == 0);
}

static PlannedStmt *
plan(Query *query, const char *string, int options, ParamListInfo params)
{
	if (mosql_admin_present_as_table && reads_relations((Node *) query, NULL) && !is_dumping())
	{
		Levels		levels = {.function = shown_kind()};

		if (OidIsValid(levels.function))
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
