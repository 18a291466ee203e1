/*
 * proof.c: what the planner may conclude from a table's indexes and constraints.
 *
 * Layer: fdw, planner side.  PostgreSQL proves from unique indexes that a join can be
 * left out, that one match is enough, that rows are distinct already.  It looks at
 * pg_index for that, which is this server's; another server may have dropped the
 * index.  So the planner is shown those that are in Redis as they are here, before it
 * proves anything; and a statement that begins with a cached plan looks once more at all
 * tables that it names, also those of which no scan is left.
 *
 * From CHECK and NOT NULL it proves that a table has no rows for a query.  Then that is not
 * read at all, and perhaps nothing is, so no snapshot would tell that another server has
 * dropped the constraint: they exclude nothing.  (The key's NOT NULL may, since no server can
 * drop that and leave the table one that can be opened here; and the bounds of a partition,
 * which are this server's own.)
 *
 * (Definitions are in the backend's cache: src/table/open.c, which also says what
 * happens to a plan when they change.)
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/table.h"
#include "catalog/pg_index.h"
#include "executor/executor.h"
#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/plancat.h"
#include "optimizer/planner.h"
#include "parser/parse_relation.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "fdw/fdw_int.h"

static get_relation_info_hook_type next_relation_info = NULL;
static ExecutorStart_hook_type next_executor_start = NULL;
static planner_hook_type next_planner = NULL;

static int	plannings = 0;		/* that are under way, one within the other */

/* ---- one index ---- */

/* What a local index is computed by, as pg_index has it; NULL: by columns alone. */
static Node *
stored_node(HeapTuple tuple, AttrNumber attribute)
{
	bool		isnull;
	Datum		stored = SysCacheGetAttr(INDEXRELID, tuple, attribute, &isnull);

	return isnull ? NULL : stringToNode(TextDatumGetCString(stored));
}

/* Are all its key columns those of the local index? */
static bool
has_columns_of(const MosqlIndex *index, HeapTuple tuple)
{
	Form_pg_index local = (Form_pg_index) GETSTRUCT(tuple);
	List	   *expressions = (List *) stored_node(tuple, Anum_pg_index_indexprs);
	int			computed = 0;

	for (int i = 0; i < index->entries->nkeys; i++)
	{
		AttrNumber	attnum = index->entries->key_attnums[i];
		Node	   *expression = index->entries->columns[attnum - 1].expression;

		if (local->indkey.values[i] != 0 ? local->indkey.values[i] != attnum
			: !equal(expression, list_nth(expressions, computed++)))
			return false;
	}
	return true;
}

/* Does the local index say of the index in Redis what is so? */
static bool
says_true(const MosqlIndex *index, HeapTuple tuple)
{
	Form_pg_index local = (Form_pg_index) GETSTRUCT(tuple);

	return index->unique == (local->indisunique || local->indisexclusion) &&
		index->nulls_not_distinct == local->indnullsnotdistinct &&
		index->entries->nkeys == local->indnkeyatts && has_columns_of(index, tuple) &&
		equal(index->predicate, stored_node(tuple, Anum_pg_index_indpred));
}

const MosqlIndex *
mosql_fdw_index_of(const MosqlTable *table, Oid indexid)
{
	const char *name = get_rel_name(indexid);
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	const MosqlIndex *index = NULL;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	for (int i = 0; name != NULL && i < table->nindexes; i++)
		if (strcmp(table->indexes[i].name, name) == 0 &&
			says_true(&table->indexes[i], tuple))
			index = &table->indexes[i];
	ReleaseSysCache(tuple);
	return index;
}

bool
mosql_fdw_is_key(const MosqlTable *table, const IndexOptInfo *index)
{
	bool		same = index->unique && index->immediate && index->indpred == NIL &&
		index->nkeycolumns == table->nkeys;

	for (int i = 0; same && i < table->nkeys; i++)
	{
		bool		among = false;

		for (int j = 0; j < index->nkeycolumns; j++)
			among |= index->indexkeys[j] == table->key_attnums[i];
		same = among;
	}
	return same;
}

/* ---- planning ---- */

static bool
is_ours(const FdwRoutine *routine)
{
	return routine != NULL && routine->GetForeignRelSize == mosqlGetForeignRelSize;
}

/* Would another server have to change the key to drop it? */
static bool
is_of_key(const MosqlTable *table, int i)
{
	return table->columns[i].attnum != 0 && table->columns[i].key_position >= 0;
}

#if PG_VERSION_NUM >= 170000
/* By which IS NULL would be false without a look at the table. */
static void
forget_not_null(RelOptInfo *rel, const MosqlTable *table)
{
	for (int i = 0; i < table->natts; i++)
		if (!is_of_key(table, i))
			rel->notnullattnums = bms_del_member(rel->notnullattnums, i + 1);
}
#endif

/* Has it CHECK constraints, or NOT NULL beside the key's? */
static bool
is_constrained(Relation relation, const MosqlTable *table)
{
	const TupleDesc desc = RelationGetDescr(relation);

	if (desc->constr == NULL)
		return false;
	for (int i = 0; i < table->natts; i++)
		if (TupleDescAttr(desc, i)->attnotnull && !is_of_key(table, i))
			return true;
	return desc->constr->num_check > 0;
}

/*
 * The planner asks after this, and can be told for all tables alone: what is being planned
 * excludes none.  The statement that loads this library is planned without our hook: then
 * it is to the end of the transaction.
 */
static void
exclude_nothing(const RelOptInfo *rel)
{
	if (constraint_exclusion == CONSTRAINT_EXCLUSION_OFF ||
		(constraint_exclusion == CONSTRAINT_EXCLUSION_PARTITION &&
		 rel->reloptkind != RELOPT_OTHER_MEMBER_REL))
		return;
	if (plannings > 0)
		constraint_exclusion = CONSTRAINT_EXCLUSION_OFF;
	else
		(void) set_config_option("constraint_exclusion", "off", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
}

static PlannedStmt *
plan_statement(Query *query, const char *text, int options, ParamListInfo params)
{
	int			exclusion = constraint_exclusion;
	PlannedStmt *plan;

	plannings++;
	PG_TRY();
	{
		plan = (next_planner != NULL ? next_planner : standard_planner) (query, text, options, params);
	}
	PG_FINALLY();
	{
		plannings--;
		constraint_exclusion = exclusion;
	}
	PG_END_TRY();
	return plan;
}

/*
 * Take out of what the planner knows of a table what does not hold in Redis.  (Where
 * the key differs the table cannot be used at all: 42P16.)  No round trips but for a
 * definition that has to be read.
 */
static void
check_relation_info(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	Relation	relation;
	MosqlTable *table;
	ListCell   *lc;

	if (next_relation_info != NULL)
		next_relation_info(root, relid, inhparent, rel);
	if (!is_ours(rel->fdwroutine))
		return;
	relation = table_open(relid, NoLock);
	mosql_table_check_made(relation);
	mosql_fdw_hide_rows(root, rel, relation);
	table = mosql_table_open(relation, mosql_fdw_session_for(relid, rel->userid));
	foreach(lc, rel->indexlist)
	{
		const IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		if (!mosql_fdw_is_key(table, index) && mosql_fdw_index_of(table, index->indexoid) == NULL)
			rel->indexlist = foreach_delete_current(rel->indexlist, lc);
	}
#if PG_VERSION_NUM >= 170000
	forget_not_null(rel, table);
#endif
	if (is_constrained(relation, table))
		exclude_nothing(rel);
	table_close(relation, NoLock);
}

/* ---- the start of a statement ---- */

/* The role as which a table that the query names is read. */
static Oid
table_user(const PlannedStmt *statement, RangeTblEntry *rte)
{
#if PG_VERSION_NUM >= 160000
	return getRTEPermissionInfo(statement->permInfos, rte)->checkAsUser;
#else
	return rte->checkAsUser;
#endif
}

/* A table that the query names; parts of a partitioned one only where they are read. */
static bool
is_named(const RangeTblEntry *rte)
{
#if PG_VERSION_NUM >= 160000
	return rte->rtekind == RTE_RELATION && rte->perminfoindex != 0;
#else
	return rte->rtekind == RTE_RELATION && rte->requiredPerms != 0;
#endif
}

/*
 * Scans open their tables themselves; here are those of which the planner has removed
 * the scan.  So nothing has to be done for a statement of one table, nor for targets.
 */
static void
open_tables(const PlannedStmt *statement)
{
	ListCell   *lc;

	if (list_length(statement->rtable) < 2)
		return;
	foreach(lc, statement->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);
		Relation	relation;

		if (!is_named(rte) || rte->relkind != RELKIND_FOREIGN_TABLE ||
			list_member_int(statement->resultRelations, foreach_current_index(lc) + 1))
			continue;
		relation = table_open(rte->relid, NoLock);
		if (is_ours(GetFdwRoutineForRelation(relation, false)))
			(void) mosql_table_open_planned(relation,
											mosql_fdw_session_for(rte->relid,
																  table_user(statement, rte)));
		table_close(relation, NoLock);
	}
}

static void
executor_start(QueryDesc *query, int eflags)
{
	if (!(eflags & EXEC_FLAG_EXPLAIN_ONLY) && !IsParallelWorker())
		open_tables(query->plannedstmt);
	if (next_executor_start != NULL)
		next_executor_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

void
mosql_fdw_init_proofs(void)
{
	next_relation_info = get_relation_info_hook;
	get_relation_info_hook = check_relation_info;
	next_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	next_planner = planner_hook;
	planner_hook = plan_statement;
}
