/*
 * create_as.c: CREATE TABLE AS and SELECT INTO make foreign tables.
 *
 * Layer: admin.  The table is made as CREATE TABLE would, with the columns that the
 * query has, and then filled by INSERT ... SELECT, so that rows go the way of all
 * rows: in batches, and in the transaction.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "catalog/namespace.h"
#include "commands/createas.h"
#include "commands/prepare.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "rewrite/rewriteHandler.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "admin/utility.h"

bool
mosql_admin_takes_create_as(const CreateTableAsStmt *create)
{
	return create->objtype == OBJECT_TABLE &&
		mosql_admin_becomes_foreign(create->into->rel, create->into->accessMethod);
}

/* ---- the table ---- */

static CreateStmt *
create_statement(const CreateTableAsStmt *as, const Query *query)
{
	CreateStmt *create = makeNode(CreateStmt);
	ListCell   *name = list_head(as->into->colNames);
	ListCell   *lc;

	create->relation = copyObject(as->into->rel);
	create->options = as->into->options;
	create->tablespacename = as->into->tableSpaceName;
	create->oncommit = as->into->onCommit;
	create->if_not_exists = as->if_not_exists;
	foreach(lc, query->targetList)
	{
		const TargetEntry *entry = lfirst_node(TargetEntry, lc);
		const char *column = entry->resname;
		Oid			type = exprType((Node *) entry->expr);
		ColumnDef  *def;

		if (entry->resjunk)
			continue;
		if (name != NULL)
		{
			column = strVal(lfirst(name));
			name = lnext(as->into->colNames, name);
		}
		def = makeColumnDef(column, type, exprTypmod((Node *) entry->expr),
							exprCollation((Node *) entry->expr));
		if (!OidIsValid(def->collOid) && type_is_collatable(type))
			ereport(ERROR,
					(errcode(ERRCODE_INDETERMINATE_COLLATION),
					 errmsg("no collation was derived for column \"%s\" with collatable type %s",
							column, format_type_be(type)),
					 errhint("Use the COLLATE clause to set the collation explicitly.")));
		create->tableElts = lappend(create->tableElts, def);
	}
	if (name != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("too many column names were specified")));
	return create;
}

/* ---- the rows ---- */

/*
 * INSERT INTO relid SELECT * FROM (query).  Of the table that it has just made nobody needs the privilege, as in
 * core: default privileges may say that its owner has none.  But to grant it is always his.
 */
static Query *
insert_query(Oid relid, Query *query)
{
	ParseState *pstate = make_parsestate(NULL);
	Query	   *insert = makeNode(Query);
	RangeTblRef *source = makeNode(RangeTblRef);
	Relation	rel = relation_open(relid, RowExclusiveLock);
	ParseNamespaceItem *target;
	ListCell   *lc;
	int			n = 0;

	target = addRangeTableEntryForRelation(pstate, rel, RowExclusiveLock, NULL, false, false);
	(void) addRangeTableEntryForSubquery(pstate, query, makeAlias("*SELECT*", NIL), false, false);
	foreach(lc, query->targetList)
	{
		const TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Var		   *var;

		if (entry->resjunk)
			continue;
		n++;
		var = makeVar(2, entry->resno, exprType((Node *) entry->expr),
					  exprTypmod((Node *) entry->expr), exprCollation((Node *) entry->expr), 0);
		insert->targetList = lappend(insert->targetList,
									 makeTargetEntry((Expr *) var, n,
													 get_attname(relid, n, false), false));
#if PG_VERSION_NUM >= 160000
		target->p_perminfo->insertedCols =
			bms_add_member(target->p_perminfo->insertedCols,
						   n - FirstLowInvalidHeapAttributeNumber);
#else
		target->p_rte->insertedCols =
			bms_add_member(target->p_rte->insertedCols, n - FirstLowInvalidHeapAttributeNumber);
#endif
	}
#if PG_VERSION_NUM >= 160000
	target->p_perminfo->requiredPerms = ACL_GRANT_OPTION_FOR(ACL_INSERT);
	insert->rteperminfos = pstate->p_rteperminfos;
#else
	target->p_rte->requiredPerms = ACL_GRANT_OPTION_FOR(ACL_INSERT);
#endif
	source->rtindex = 2;
	insert->commandType = CMD_INSERT;
	insert->canSetTag = true;
	insert->rtable = pstate->p_rtable;
	insert->resultRelation = 1;
	insert->jointree = makeFromExpr(list_make1(source), NULL);
	relation_close(rel, NoLock);
	free_parsestate(pstate);
	return insert;
}

/* The number of rows. */
static uint64
run_insert(const MosqlStatement *statement, Query *insert)
{
	List	   *rewritten;
	PlannedStmt *plan;
	QueryDesc  *desc;
	uint64		rows;

	AcquireRewriteLocks(insert, true, false);
	rewritten = QueryRewrite(insert);
	if (list_length(rewritten) != 1)
		elog(ERROR, "unexpected rewrite result for CREATE TABLE AS");
	plan = pg_plan_query(linitial_node(Query, rewritten), statement->query,
						 CURSOR_OPT_PARALLEL_OK, statement->params);

	PushCopiedSnapshot(GetActiveSnapshot());
	UpdateActiveSnapshotCommandId();
	desc = CreateQueryDesc(plan, statement->query, GetActiveSnapshot(), InvalidSnapshot,
						   None_Receiver, statement->params, statement->environment, 0);
	ExecutorStart(desc, 0);
#if PG_VERSION_NUM >= 180000
	ExecutorRun(desc, ForwardScanDirection, 0);
#else
	ExecutorRun(desc, ForwardScanDirection, 0, true);
#endif
	rows = desc->estate->es_processed;
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
	PopActiveSnapshot();
	return rows;
}

/* ---- CREATE TABLE AS EXECUTE ---- */

/* The parameters' values, as EXECUTE finds them: each as the type that PREPARE gave it. */
static ParamListInfo
evaluate_parameters(const ExecuteStmt *execute, const char *text, const Oid *types, int ntypes, EState *estate)
{
	ParseState *pstate = make_parsestate(NULL);
	ParamListInfo params = makeParamList(ntypes);
	ListCell   *lc;
	int			n = 0;

	if (ntypes == 0)
		return NULL;			/* as core, whatever was given */
	if (list_length(execute->params) != ntypes)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("wrong number of parameters for prepared statement \"%s\"", execute->name),
				 errdetail("Expected %d parameters but got %d.", ntypes, list_length(execute->params))));
	pstate->p_sourcetext = text;
	foreach(lc, execute->params)
	{
		ParamExternData *param = &params->params[n];
		Node	   *given = transformExpr(pstate, copyObject(lfirst(lc)), EXPR_KIND_EXECUTE_PARAMETER);
		Node	   *value;

		param->ptype = types[n++];
		param->pflags = PARAM_FLAG_CONST;
		value = coerce_to_target_type(pstate, given, exprType(given), param->ptype, -1,
									  COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
		if (value == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("parameter $%d of type %s cannot be coerced to the expected type %s", n,
							format_type_be(exprType(given)), format_type_be(param->ptype)),
					 errhint("You will need to rewrite or cast the expression."),
					 parser_errposition(pstate, exprLocation(lfirst(lc)))));
		assign_expr_collations(pstate, value);
		param->value = ExecEvalExprSwitchContext(ExecPrepareExpr((Expr *) value, estate),
												 GetPerTupleExprContext(estate), &param->isnull);
	}
	free_parsestate(pstate);
	return params;
}

/*
 * The query of a prepared statement, parsed anew: tables may have changed since PREPARE, and it may be
 * deallocated on the way.  In *statement its parameters and text take the place of those of CREATE TABLE AS.
 * They live as long as estate.
 */
static Query *
prepared_query(MosqlStatement *statement, const ExecuteStmt *execute, EState *estate)
{
	const CachedPlanSource *source = FetchPreparedStatement(execute->name, true)->plansource;
	const char *text = pstrdup(source->query_string);
	int			ntypes = source->num_params;
	Oid		   *types = palloc(ntypes * sizeof(Oid) + 1);
	Query	   *query = NULL;

	if (ntypes > 0)
		memcpy(types, source->param_types, ntypes * sizeof(Oid));
	if (source->commandTag == CMDTAG_SELECT)
		query = parse_analyze_fixedparams(copyObject(source->raw_parse_tree), text, types, ntypes,
										  statement->environment);
	if (query == NULL || query->commandType != CMD_SELECT)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("prepared statement is not a SELECT")));
	if (source->fixed_result && !equalTupleDescs(source->resultDesc, ExecCleanTypeFromTL(query->targetList)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cached plan must not change result type")));
	statement->params = evaluate_parameters(execute, statement->query, types, ntypes, estate);
	statement->query = text;
	return query;
}

/* The table, and its rows where they are wanted. */
static void
create_and_fill(const MosqlStatement *statement, Query *query)
{
	const CreateTableAsStmt *as = castNode(CreateTableAsStmt, statement->tree);
	uint64		rows;
	Oid			relid;

	if (query->hasModifyingCTE)
		mosql_admin_refuse("a data-modifying WITH clause in CREATE TABLE AS",
						   "Use CREATE TABLE, then INSERT ... SELECT.");
	relid = mosql_admin_create_table(statement, create_statement(as, query),
									 mosql_admin_default_server, NIL);
	if (!OidIsValid(relid) || as->into->skipData)
		return;
	rows = run_insert(statement, insert_query(relid, query));
	if (statement->completion != NULL)
		SetQueryCompletion(statement->completion, CMDTAG_SELECT, rows);
}

void
mosql_admin_run_create_as(const MosqlStatement *statement)
{
	CreateTableAsStmt *as = castNode(CreateTableAsStmt, statement->tree);
	Query	   *query = castNode(Query, as->query);

	if (CreateTableAsRelExists(as))
		return;
	if (query->commandType == CMD_UTILITY)
	{
		MosqlStatement with_params = *statement;
		EState	   *estate = CreateExecutorState();

		estate->es_param_list_info = statement->params;
		query = prepared_query(&with_params, castNode(ExecuteStmt, query->utilityStmt), estate);
		create_and_fill(&with_params, query);
		FreeExecutorState(estate);
	}
	else
		create_and_fill(statement, query);
}
