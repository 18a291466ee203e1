/*
 * utility.c: statements that core refuses for foreign tables, and we do not.
 *
 * Layer: admin.  A ProcessUtility hook.  It takes CREATE INDEX and what else core
 * knows only for its own tables, if the table is ours, and CREATE TABLE if
 * mosql_fdw.default_server says so; all else goes on to core.
 *
 * A session in which the library is not loaded yet when such a statement arrives
 * has no hook: the ddl_command_start trigger (ddl.c), which asks
 * mosql_admin_was_taken() whether a hook was there, has first.c do it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "commands/defrem.h"
#include "commands/event_trigger.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "admin/utility.h"

static ProcessUtility_hook_type next_process_utility = NULL;

/* The tree whose event triggers we call, and whether ours has come by it. */
static const Node *taken = NULL;
static bool taken_seen = false;

bool
mosql_admin_was_taken(const Node *tree)
{
	taken_seen |= tree == taken;
	return tree == taken;
}

/* ---- back to core ---- */

void
mosql_admin_pass_on(const MosqlStatement *statement, Node *tree)
{
	PlannedStmt *pstmt = copyObject(statement->pstmt);

	pstmt->utilityStmt = tree;
	(next_process_utility != NULL ? next_process_utility : standard_ProcessUtility)
		(pstmt, statement->query, false, statement->context, statement->params,
		 statement->environment, statement->dest, statement->completion);
}

void
mosql_admin_run_part(const MosqlStatement *statement, Node *tree)
{
	PlannedStmt *pstmt = makeNode(PlannedStmt);

	pstmt->commandType = CMD_UTILITY;
	pstmt->utilityStmt = tree;
	pstmt->stmt_location = statement->pstmt->stmt_location;
	pstmt->stmt_len = statement->pstmt->stmt_len;
	ProcessUtility(pstmt, statement->query, false, PROCESS_UTILITY_SUBCOMMAND,
				   statement->params, NULL, None_Receiver, NULL);
	CommandCounterIncrement();
}

/* ---- below other hooks ---- */

/*
 * Hooks end in core, and core would refuse the statement.  What it does for SHOW needs nothing and changes nothing,
 * and hands its row to the receiver that it was given: so that is the place where the work is done.
 */
typedef struct Bottom
{
	DestReceiver receiver;		/* must be first */
	MosqlStatement statement;
	MosqlStatementBody body;
	void	   *arg;
} Bottom;

static void
bottom_startup(DestReceiver *self, int operation, TupleDesc desc)
{
}

static bool
bottom_receive(TupleTableSlot *slot, DestReceiver *self)
{
	Bottom	   *bottom = (Bottom *) self;

	bottom->body(&bottom->statement, bottom->arg);
	return true;
}

static void
bottom_shutdown(DestReceiver *self)
{
}

/* A statement without the number by which it is counted: its parts are not it once more. */
static PlannedStmt *
uncounted(const PlannedStmt *pstmt)
{
	PlannedStmt *copy = makeNode(PlannedStmt);

	*copy = *pstmt;
	copy->queryId = 0;
	return copy;
}

void
mosql_admin_run_below(const MosqlStatement *statement, MosqlStatementBody body, void *arg)
{
	VariableShowStmt *show = makeNode(VariableShowStmt);
	PlannedStmt *pstmt = makeNode(PlannedStmt);
	Bottom		bottom = {
		{bottom_receive, bottom_startup, bottom_shutdown, bottom_shutdown, DestNone}, *statement, body, arg
	};

	if (next_process_utility == NULL)
	{
		body(statement, arg);
		return;
	}
	show->name = "server_version";
	*pstmt = *statement->pstmt;
	pstmt->utilityStmt = (Node *) show;
	bottom.statement.pstmt = uncounted(statement->pstmt);
	next_process_utility(pstmt, statement->query, false, statement->context, statement->params,
						 statement->environment, &bottom.receiver, statement->completion);
}

/* ---- what is ours ---- */

void
mosql_admin_refuse(const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s is not supported for foreign tables of mosql_fdw", what),
			 errhint("%s", hint)));
}

static bool
is_our_table(const RangeVar *name)
{
	Oid			relid = RangeVarGetRelid(name, NoLock, true);

	return OidIsValid(relid) && mosql_fdw_is_ours(relid);
}

/* EXPLAIN ANALYZE runs CREATE TABLE AS past ProcessUtility: into a local table. */
static void
refuse_explained(const ExplainStmt *explain)
{
	const Query *query = (const Query *) explain->query;
	bool		runs = false;
	ListCell   *lc;

	foreach(lc, explain->options)
		if (strcmp(lfirst_node(DefElem, lc)->defname, "analyze") == 0)
			runs = defGetBoolean(lfirst(lc));
	if (runs && IsA(query, Query) && query->commandType == CMD_UTILITY &&
		IsA(query->utilityStmt, CreateTableAsStmt) &&
		mosql_admin_takes_create_as((const CreateTableAsStmt *) query->utilityStmt))
		mosql_admin_refuse("EXPLAIN ANALYZE of CREATE TABLE AS",
						   "Explain the query alone, or INSERT ... SELECT.");
}

/* ---- statements with event triggers ---- */

static void
run_create_index(const MosqlStatement *statement)
{
	IndexStmt  *create = castNode(IndexStmt, statement->tree);
	ObjectAddress address;

	if (create->concurrent)
		PreventInTransactionBlock(statement->context == PROCESS_UTILITY_TOPLEVEL,
								  "CREATE INDEX CONCURRENTLY");
	address = mosql_admin_create_index(create);
	if (OidIsValid(address.objectId))
		EventTriggerCollectSimpleCommand(address, InvalidObjectAddress, (Node *) create);
}

/* Who runs this, NULL: not ours. */
static MosqlTriggeredBody
body_of(const Node *tree)
{
	switch (nodeTag(tree))
	{
		case T_CreateStmt:
			if (mosql_admin_takes_create((const CreateStmt *) tree))
				return mosql_admin_run_create;
			mosql_admin_notice_local((const CreateStmt *) tree);
			return NULL;
		case T_CreateForeignTableStmt:
			return mosql_admin_takes_create_foreign((const CreateForeignTableStmt *) tree) ?
				mosql_admin_run_create_foreign : NULL;
		case T_CreateTableAsStmt:
			return mosql_admin_takes_create_as((const CreateTableAsStmt *) tree) ?
				mosql_admin_run_create_as : NULL;
		case T_DropStmt:
			return mosql_admin_takes_drop((const DropStmt *) tree) ? mosql_admin_run_drop : NULL;
		case T_IndexStmt:
			return is_our_table(((const IndexStmt *) tree)->relation) ? run_create_index : NULL;
		case T_CreateTrigStmt:
			return mosql_admin_takes_trigger((const CreateTrigStmt *) tree) ? mosql_admin_run_trigger : NULL;
		default:
			return NULL;
	}
}

void
mosql_admin_check_may_write(const Node *tree)
{
	const char *name = GetCommandTagName(CreateCommandTag((Node *) tree));

	PreventCommandIfReadOnly(name);
	PreventCommandIfParallelMode(name);
	PreventCommandDuringRecovery(name);
}

/* The start of its event triggers: has ours been among them? */
static bool
call_start_triggers(const Node *tree)
{
	const Node *before = taken;
	bool		seen_before = taken_seen;
	bool		seen;

	PG_TRY();
	{
		taken = tree;
		taken_seen = false;
		EventTriggerDDLCommandStart((Node *) tree);
		seen = taken_seen;
	}
	PG_FINALLY();
	{
		taken = before;
		taken_seen = seen_before;
	}
	PG_END_TRY();
	return seen;
}

void
mosql_admin_run_with_triggers(const MosqlStatement *statement, MosqlTriggeredBody body)
{
	MosqlStatement inside = *statement;
	bool		triggers;

	if (statement->context == PROCESS_UTILITY_SUBCOMMAND)
	{
		body(statement);
		return;
	}
	triggers = EventTriggerBeginCompleteQuery();
	PG_TRY();
	{
		inside.seen = call_start_triggers(statement->tree);
		body(&inside);
		EventTriggerSQLDrop(statement->tree);
		EventTriggerDDLCommandEnd(statement->tree);
	}
	PG_FINALLY();
	{
		if (triggers)
			EventTriggerEndCompleteQuery();
	}
	PG_END_TRY();
}

static void
run_body(const MosqlStatement *statement, void *body)
{
	mosql_admin_run_with_triggers(statement, *(MosqlTriggeredBody *) body);
}

/* ---- the hook ---- */

/* True: it was ours, and is done. */
static bool
take(MosqlStatement *statement)
{
	MosqlTriggeredBody body;

	if (IsA(statement->tree, ExplainStmt))
	{
		refuse_explained((ExplainStmt *) statement->tree);
		return false;
	}
	body = body_of(statement->tree);
	if (body == NULL)
		return mosql_admin_run_plain(statement);
	mosql_admin_check_may_write(statement->tree);
	statement->tree = copyObject(statement->tree);
	mosql_admin_run_below(statement, run_body, &body);
	if (statement->completion != NULL && statement->completion->commandTag == CMDTAG_UNKNOWN)
		SetQueryCompletion(statement->completion, CreateCommandTag(statement->tree), 0);
	return true;
}

/* SET TRANSACTION SNAPSHOT */
static bool
imports_snapshot(const Node *tree)
{
	const VariableSetStmt *set = (const VariableSetStmt *) tree;

	return IsA(tree, VariableSetStmt) && set->kind == VAR_SET_MULTI &&
		strcmp(set->name, "TRANSACTION SNAPSHOT") == 0;
}

/* DISCARD ALL, SEQUENCES: core has discarded what it knows. */
static void
discard(DiscardMode target)
{
	if (target == DISCARD_ALL)
		mosql_sessions_unlock_all(NULL);
	if (target == DISCARD_ALL || target == DISCARD_SEQUENCES)
		mosql_fdw_sequences_discard();
}

/*
 * pg_upgrade brings the catalogs of a server to a new one, with the oids that it says; what is in Redis
 * stays as it is, and is not asked.  Core would make no indexes and keys of foreign tables.
 */
static bool
take_upgrade(const MosqlStatement *statement)
{
	AlterTableStmt *alter;

	if (IsA(statement->tree, AlterTableStmt) && mosql_admin_attach_partition((AlterTableStmt *) statement->tree))
		return true;
	if (IsA(statement->tree, IndexStmt) && is_our_table(((IndexStmt *) statement->tree)->relation))
	{
		(void) mosql_admin_create_index((const IndexStmt *) statement->tree);
		return true;
	}
	if (!IsA(statement->tree, AlterTableStmt) ||
		!is_our_table(((AlterTableStmt *) statement->tree)->relation))
		return false;
	alter = copyObject((AlterTableStmt *) statement->tree);
	mosql_admin_prepare_alter(alter);
	mosql_admin_pass_on(statement, (Node *) alter);
	return true;
}

/*
 * CREATE TABLE of a table of PostgreSQL's own LIKE one of ours INCLUDING INDEXES: in the clones that core makes of
 * ours it says "mosql", and their operator classes are those of btree.
 */
static void
settle_clone(const MosqlStatement *statement)
{
	IndexStmt  *create = (IndexStmt *) statement->tree;

	if (IsA(create, IndexStmt) && create->transformed && strcmp(create->accessMethod, "mosql") == 0 &&
		!is_our_table(create->relation))
		create->accessMethod = DEFAULT_INDEX_TYPE;
}

static void
run(MosqlStatement *statement, bool read_only)
{
	if (IsTransactionState() && (IsBinaryUpgrade ? take_upgrade(statement) : take(statement)))
		return;
	(next_process_utility != NULL ? next_process_utility : standard_ProcessUtility)
		(statement->pstmt, statement->query, read_only, statement->context, statement->params,
		 statement->environment, statement->dest, statement->completion);
	if (IsA(statement->tree, ConstraintsSetStmt))
		mosql_references_set((const ConstraintsSetStmt *) statement->tree);
	if (imports_snapshot(statement->tree))
		mosql_txn_note_import();
	if (IsA(statement->tree, DiscardStmt))
		discard(((DiscardStmt *) statement->tree)->target);
}

/* Is what it names a part of a table's definition?  (Not of triggers, rules.) */
static bool
renames_table(const RenameStmt *statement)
{
	return statement->renameType == OBJECT_TABLE || statement->renameType == OBJECT_FOREIGN_TABLE ||
		statement->renameType == OBJECT_COLUMN || statement->renameType == OBJECT_TABCONSTRAINT;
}

/* The table of ours that the statement alters; InvalidOid: none. */
static Oid
altered_table(const Node *tree)
{
	const RangeVar *name = IsA(tree, AlterTableStmt) ? ((const AlterTableStmt *) tree)->relation
		: IsA(tree, RenameStmt) && renames_table((const RenameStmt *) tree)
		? ((const RenameStmt *) tree)->relation : NULL;
	Oid			relid = name == NULL || !IsTransactionState() || IsBinaryUpgrade ? InvalidOid
		: RangeVarGetRelid(name, NoLock, true);

	return OidIsValid(relid) && mosql_fdw_is_ours(relid) ? relid : InvalidOid;
}

/* Without our event triggers (somebody has turned them off) nothing of it was brought to Redis. */
static void
warn_unseen(Oid relid)
{
	ereport(WARNING,
			(errmsg("foreign table \"%s\" was altered on this server alone, as event triggers are off",
					get_rel_name(relid)),
			 errhint("Turn them on. mosql_fdw_refresh() makes the table again what it is in Redis; then alter it once more.")));
}

static void
process_utility(PlannedStmt *pstmt, const char *query, bool read_only, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *environment, DestReceiver *dest,
				QueryCompletion *completion)
{
	MosqlStatement statement = {
		.pstmt = pstmt,.tree = pstmt->utilityStmt,.query = query,.context = context,
		.params = params,.environment = environment,.dest = dest,.completion = completion
	};
	MosqlTableCommand command;
	Oid			altered;

	if (context == PROCESS_UTILITY_SUBCOMMAND)
	{
		settle_clone(&statement);
		run(&statement, read_only);
		return;
	}
	altered = altered_table(statement.tree);
	mosql_sequences_take_turn();
	mosql_table_enter_command(&command);
	PG_TRY();
	{
		run(&statement, read_only);
		if (OidIsValid(altered) && !command.followed && get_rel_name(altered) != NULL)
			warn_unseen(altered);
	}
	PG_FINALLY();
	{
		mosql_sequences_take_turn();
		mosql_table_leave_command(&command);
	}
	PG_END_TRY();
}

void
mosql_admin_init_utility(void)
{
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
