/*
 * first.c: a session's first command, which came before the utility hook was there.
 *
 * Layer: admin.  The ddl_command_start trigger has just loaded the library, and core is about
 * to run CREATE TABLE, CREATE TABLE AS or CREATE INDEX: as what they say, a local table or an
 * index that it refuses.  So what the hook would have done is done now, within the event
 * triggers that core calls, and core is left with a statement that finds it done.
 *
 * Of CREATE TABLE that is the same statement with IF NOT EXISTS.  Nothing rests on when core
 * looks at the clause: had it looked before, the table would be there twice, and it says so
 * (42P07), and all is rolled back.  CREATE INDEX has no such way, as core looks whether the
 * relation may have indexes before it asks for the clause.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/event_trigger.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "admin/utility.h"

/* The last version of PostgreSQL of which is known what it does after the trigger. */
#define LAST_KNOWN_VERSION 18

/* What client_min_messages was, and the transaction in which it is something else. */
static const char *silenced = NULL;
static LocalTransactionId silenced_in = InvalidLocalTransactionId;

/* ---- what cannot be done any more ---- */

static void
report_late(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("mosql_fdw was not loaded when this command began"),
			 errhint("It is loaded now: run the command again. To have it loaded always, call mosql_fdw_enable(), or add mosql_fdw to session_preload_libraries.")));
}

/* ---- CREATE INDEX ---- */

/* The statement of the client that this is; NULL: it is in a function. */
static PlannedStmt *
client_statement(const Node *command)
{
	ListCell   *lc;

	foreach(lc, ActivePortal != NULL ? ActivePortal->stmts : NIL)
		if (equal(lfirst_node(PlannedStmt, lc)->utilityStmt, command))
			return lfirst_node(PlannedStmt, lc);
	return NULL;
}

/*
 * Each of pg_restore's parallel workers may begin like this.  Core is left with an ALTER TABLE
 * that does nothing: it looks at the node's tag once, after the trigger (ProcessUtilitySlow(),
 * PostgreSQL 15 to 18).  Later versions must have been looked at.
 */
static void
run_index(IndexStmt *create)
{
	AlterTableStmt nothing = {
		.type = T_AlterTableStmt,.relation = create->relation,.objtype = OBJECT_FOREIGN_TABLE
	};
	Oid			relid = RangeVarGetRelid(create->relation, NoLock, true);
	IndexStmt  *copy;
	ObjectAddress address;

	StaticAssertStmt(sizeof(AlterTableStmt) <= sizeof(IndexStmt), "it goes into its place");
	if (!OidIsValid(relid) || !mosql_fdw_is_ours(relid))
		return;
	if (PG_VERSION_NUM / 10000 > LAST_KNOWN_VERSION)
		report_late();
	if (create->concurrent)
		PreventInTransactionBlock(client_statement((Node *) create) != NULL, "CREATE INDEX CONCURRENTLY");
	copy = copyObject(create);
	address = mosql_admin_create_index(copy);
	if (OidIsValid(address.objectId))
		EventTriggerCollectSimpleCommand(address, InvalidObjectAddress, (Node *) copy);
	memcpy(create, &nothing, sizeof(nothing));
}

/* ---- CREATE TABLE ---- */

/* Has it what core knows only of its own tables: keys, LIKE? */
static bool
needs_hook(const CreateStmt *create)
{
	ListCell   *cell;

	foreach(cell, create->tableElts)
	{
		const List *constraints = NIL;
		ListCell   *lc;

		if (IsA(lfirst(cell), TableLikeClause))
			return true;
		if (IsA(lfirst(cell), ColumnDef))
			constraints = lfirst_node(ColumnDef, cell)->constraints;
		else if (IsA(lfirst(cell), Constraint))
			constraints = list_make1(lfirst(cell));
		foreach(lc, constraints)
		{
			ConstrType	type = lfirst_node(Constraint, lc)->contype;

			if (type == CONSTR_PRIMARY || type == CONSTR_UNIQUE || type == CONSTR_EXCLUSION || type == CONSTR_FOREIGN)
				return true;
		}
	}
	return false;
}

/*
 * As the hook would have got it.  Of what is in a function neither the text is at hand, without
 * which errors have no position, nor the parameters.
 */
static MosqlStatement
as_for_hook(Node *command)
{
	MosqlStatement statement = {
		.pstmt = client_statement(command),.tree = copyObject(command),.query = "",
		.context = PROCESS_UTILITY_QUERY,.dest = None_Receiver
	};

	if (statement.pstmt != NULL)
	{
		statement.query = ActivePortal->sourceText;
		statement.params = ActivePortal->portalParams;
		statement.environment = ActivePortal->queryEnv;
		statement.completion = &ActivePortal->qc;	/* core's own, of what it skips, is empty */
		return statement;
	}
	statement.pstmt = makeNode(PlannedStmt);
	statement.pstmt->commandType = CMD_UTILITY;
	statement.pstmt->stmt_location = -1;
	return statement;
}

static void
set_messages(const char *level)
{
	(void) set_config_option("client_min_messages", level, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
}

/* Core's NOTICE that the table exists shall not be seen; at the latest until the transaction ends. */
static void
silence(void)
{
	if (client_min_messages > NOTICE)
		return;
	silenced = GetConfigOption("client_min_messages", false, false);
	silenced_in = mosql_fdw_this_transaction();
	set_messages("warning");
}

void
mosql_admin_end_first(void)
{
	if (silenced_in == mosql_fdw_this_transaction())
		set_messages(silenced);
	silenced_in = InvalidLocalTransactionId;
}

/* Of the parameters of a query in a function a trigger is told nothing. */
static void
run_create(Node *command, void (*body) (const MosqlStatement *statement), bool *if_not_exists)
{
	MosqlStatement statement = as_for_hook(command);

	if (IsA(command, CreateTableAsStmt) && statement.completion == NULL)
		report_late();
	body(&statement);
	*if_not_exists = true;
	silence();
}

/* ALTER TABLE: of several parts core would run one.  What the tree gets is there for longer than the trigger. */
static void
run_alter(AlterTableStmt *alter)
{
	MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(alter));

	if (!mosql_admin_make_one_part(alter))
		report_late();
	mosql_admin_prepare_alter(alter);
	MemoryContextSwitchTo(old);
}

/* See admin.h. */
void
mosql_admin_run_first(Node *command)
{
	CreateStmt *create = (CreateStmt *) command;
	CreateForeignTableStmt *foreign = (CreateForeignTableStmt *) command;
	CreateTableAsStmt *as = (CreateTableAsStmt *) command;

	if (IsA(command, IndexStmt))
		run_index((IndexStmt *) command);
	else if (IsA(command, AlterTableStmt))
		run_alter((AlterTableStmt *) command);
	else if (IsA(command, CreateStmt) && mosql_admin_takes_create(create))
		run_create(command, mosql_admin_run_create, &create->if_not_exists);
	else if (IsA(command, CreateForeignTableStmt) && mosql_admin_takes_create_foreign(foreign) &&
			 needs_hook(&foreign->base))
		run_create(command, mosql_admin_run_create_foreign, &foreign->base.if_not_exists);
	else if (IsA(command, CreateTableAsStmt) && mosql_admin_takes_create_as(as))
		run_create(command, mosql_admin_run_create_as, &as->if_not_exists);
	else if (IsA(command, CreateTrigStmt) && mosql_admin_takes_trigger((CreateTrigStmt *) command))
		report_late();
}
