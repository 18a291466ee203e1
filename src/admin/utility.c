/*
 * utility.c: statements that core refuses for foreign tables, and we do not.
 *
 * Layer: admin.  A ProcessUtility hook.  It takes CREATE INDEX on our tables; all
 * else goes on to core.  A session in which the library is not loaded yet when
 * such a statement arrives gets an error with a hint from the ddl_command_start
 * trigger (ddl.c): nothing of ours runs before it.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "commands/event_trigger.h"
#include "tcop/utility.h"

#include "admin/admin.h"

static ProcessUtility_hook_type next_process_utility = NULL;

static bool
is_our_index_statement(const Node *node)
{
	const IndexStmt *statement = (const IndexStmt *) node;
	Oid			relid;

	if (!IsA(node, IndexStmt) || IsBinaryUpgrade)
		return false;
	relid = RangeVarGetRelid(statement->relation, NoLock, true);
	return OidIsValid(relid) && mosql_fdw_is_ours(relid);
}

/* With the event triggers that the command would fire. */
static void
create_index(PlannedStmt *pstmt, const char *query, bool complete)
{
	IndexStmt  *statement = copyObject((IndexStmt *) pstmt->utilityStmt);
	bool		triggers = complete && EventTriggerBeginCompleteQuery();
	ObjectAddress address;

	PG_TRY();
	{
		address = mosql_admin_create_index(statement, query);
		if (OidIsValid(address.objectId))
			EventTriggerCollectSimpleCommand(address, InvalidObjectAddress, (Node *) statement);
		if (complete)
			EventTriggerDDLCommandEnd((Node *) statement);
	}
	PG_FINALLY();
	{
		if (triggers)
			EventTriggerEndCompleteQuery();
	}
	PG_END_TRY();
}

static void
process_utility(PlannedStmt *pstmt, const char *query, bool read_only, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest,
				QueryCompletion *completion)
{
	if (is_our_index_statement(pstmt->utilityStmt))
	{
		create_index(pstmt, query, context <= PROCESS_UTILITY_QUERY);
		if (completion != NULL)
			SetQueryCompletion(completion, CMDTAG_CREATE_INDEX, 0);
		return;
	}
	if (next_process_utility != NULL)
		next_process_utility(pstmt, query, read_only, context, params, environment, dest,
							 completion);
	else
		standard_ProcessUtility(pstmt, query, read_only, context, params, environment, dest,
								completion);
}

void
mosql_admin_init_utility(void)
{
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
