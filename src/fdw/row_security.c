/*
 * row_security.c: ENABLE ROW LEVEL SECURITY, of a table without policies.
 *
 * Layer: fdw.  It hides the rows from all but the owner and roles with BYPASSRLS, and takes none from the others.
 * PostgreSQL's rewriter, which adds policies to a query, passes over foreign tables.  Without policies nothing
 * needs to be rewritten: what it would add is "false", and the planner can be told so of each table that it
 * meets, whichever way the query came to it, also by functions that it inlines.
 *
 * A plan that hides rows may be cached, and row_security be turned off after it was made: so what
 * the planner would say of it then is asked once more when it starts.
 *
 * As in PostgreSQL this is about tables that a query names: not about children and partitions that are
 * reached through their parent, foreign keys, TRUNCATE.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "parser/parsetree.h"
#include "utils/rel.h"
#include "utils/rls.h"

#include "fdw/exec_int.h"

static ExecutorCheckPerms_hook_type next_check = NULL;

/* 42501 if rows are hidden, and row_security is off: nobody is to take what is left for all. */
static bool
are_hidden(Relation relation, Oid user)
{
	return relation->rd_rel->relrowsecurity &&
		check_enable_rls(RelationGetRelid(relation), user, false) == RLS_ENABLED;
}

/*
 * A child or partition that is reached through its parent; not a member of a UNION ALL that was pulled up,
 * whose parent is a subquery: that one is named by the query.
 */
static bool
is_reached_by_parent(PlannerInfo *root, const RelOptInfo *rel)
{
	return rel->reloptkind != RELOPT_BASEREL &&
		planner_rt_fetch(root->append_rel_array[rel->relid]->parent_relid, root)->rtekind == RTE_RELATION;
}

/*
 * A security barrier of "false": no row is read, and statistics are shown to no operator that could tell of
 * them.  The planner collects the barriers of a table after it has asked for what is known of it.
 */
void
mosql_fdw_hide_rows(PlannerInfo *root, RelOptInfo *rel, Relation relation)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);

	if (!relation->rd_rel->relrowsecurity || is_reached_by_parent(root, rel))
		return;
	root->glob->dependsOnRole = true;	/* cached plans are made again for another role */
	if (!are_hidden(relation, rel->userid))
		return;
	rte->securityQuals = lappend(rte->securityQuals, list_make1(makeBoolConst(false, false)));
	root->qual_security_level = Max(root->qual_security_level, list_length(rte->securityQuals));
}

bool
mosql_fdw_is_hidden(const RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		const Const *clause = (const Const *) lfirst_node(RestrictInfo, lc)->clause;

		if (IsA(clause, Const) && !clause->constisnull && !DatumGetBool(clause->constvalue))
			return true;
	}
	return false;
}

bool
mosql_exec_is_row_refused(const ModifyTableState *mtstate, const ResultRelInfo *rri, Oid user)
{
	return mtstate->operation == CMD_INSERT && rri->ri_RootResultRelInfo == NULL &&
		are_hidden(rri->ri_RelationDesc, user);
}

void
mosql_exec_check_refused(const MosqlModifyState *modify)
{
	if (modify->refused)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("new row violates row-level security policy for table \"%s\"",
						RelationGetRelationName(modify->rel))));
}

/* ---- plans of before ---- */

/* As whom a query reads a table that it names; false: a child, which it does not name. */
static bool
names_table(const RangeTblEntry *rte, const List *permissions, Oid *user)
{
	if (rte->rtekind != RTE_RELATION || rte->relkind != RELKIND_FOREIGN_TABLE)
		return false;
#if PG_VERSION_NUM >= 160000
	if (rte->perminfoindex == 0)
		return false;
	*user = list_nth_node(RTEPermissionInfo, permissions, rte->perminfoindex - 1)->checkAsUser;
#else
	if (rte->requiredPerms == 0)
		return false;
	*user = rte->checkAsUser;
#endif
	return true;
}

static void
check_hidden(const List *tables, const List *permissions)
{
	ListCell   *lc;
	Oid			user;

	foreach(lc, row_security ? NIL : tables)
		if (names_table(lfirst(lc), permissions, &user) && mosql_fdw_is_ours(lfirst_node(RangeTblEntry, lc)->relid))
			(void) check_enable_rls(lfirst_node(RangeTblEntry, lc)->relid, user, false);
}

static bool
#if PG_VERSION_NUM >= 160000
check_permissions(List *tables, List *permissions, bool throw)
{
	if (throw)
		check_hidden(tables, permissions);
	return next_check == NULL || next_check(tables, permissions, throw);
}
#else
check_permissions(List *tables, bool throw)
{
	if (throw)
		check_hidden(tables, NIL);
	return next_check == NULL || next_check(tables, throw);
}
#endif

void
mosql_fdw_init_row_security(void)
{
	next_check = ExecutorCheckPerms_hook;
	ExecutorCheckPerms_hook = check_permissions;
}
