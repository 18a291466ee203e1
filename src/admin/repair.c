/*
 * repair.c: mosql_fdw_repair(): what a superuser can do about damage and loss.
 *
 * Layer: admin.  docs/repair.md says when to use which.  Each action only looks unless
 * dry_run is false, and then does what it said.  Here are those that are a step of the
 * clock or a transaction; repair_tree.c has those that look at all nodes.
 */
#include "postgres.h"

#include <inttypes.h>

#include "access/relation.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "admin/maintain.h"
#include "admin/repair.h"

PG_FUNCTION_INFO_V1(mosql_fdw_repair);

void
mosql_repair_put(Repair *repair, const char *object, const char *finding, const char *action)
{
	Datum		values[3];
	bool		nulls[3] = {false, false, action == NULL};

	values[0] = CStringGetTextDatum(object);
	values[1] = CStringGetTextDatum(finding);
	values[2] = action != NULL ? CStringGetTextDatum(action) : (Datum) 0;
	tuplestore_putvalues(repair->result->setResult, repair->result->setDesc, values, nulls);
}

/* ---- targets ---- */

static const char *
target_of(const Repair *repair, const char *what)
{
	if (repair->target == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("this repair needs a target: %s", what)));
	return repair->target;
}

uint64
mosql_repair_tree_target(const Repair *repair)
{
	const char *text = target_of(repair, "a tree, as mosql_fdw_gc() names it");

	if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid name of a tree: \"%s\"", text),
				 errhint("16 hexadecimal digits, as mosql_fdw_gc() has them.")));
	return strtoull(text, NULL, 16);
}

Relation
mosql_repair_table_target(const Repair *repair, Oid relid, LOCKMODE lockmode)
{
	mosql_admin_check_ours(relid);
	if (mosql_fdw_session_for(relid, InvalidOid) != repair->session)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("table \"%s\" is on another server", get_rel_name(relid))));
	return relation_open(relid, lockmode);
}

Oid
mosql_repair_relation_target(const Repair *repair, const char *what)
{
	List	   *names = textToQualifiedNameList(cstring_to_text(target_of(repair, what)));

	return RangeVarGetRelid(makeRangeVarFromNameList(names), NoLock, false);
}

/* ---- an index ---- */

static void
repair_index(Repair *repair)
{
	Oid			indexid = mosql_repair_relation_target(repair, "an index");
	const char *name = get_rel_name(indexid);
	Relation	rel;

	if (!mosql_admin_is_our_index(indexid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is no index in Redis", name)));
	rel = mosql_repair_table_target(repair, IndexGetRelation(indexid, false),
									repair->dry_run ? AccessShareLock : ShareLock);
	if (!repair->dry_run)
		mosql_admin_reindex(rel, repair->session, name);
	mosql_repair_put(repair, psprintf("index %s", quote_identifier(name)), "to be built from the table's rows",
					 repair->dry_run ? "would be built anew" : "built anew");
	relation_close(rel, NoLock);
}

void
mosql_admin_reindex(Relation rel, MosqlSession *session, const char *index)
{
	CheckTableNotInUse(rel, "REINDEX");
	if (!mosql_table_rebuild_index(rel, session, index))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("index \"%s\" is not in Redis", index),
				 errhint("Drop it, and create it again.")));
}

/* ---- trees without a definition ---- */

/* Keep those away who look which trees have no name, so that they do not destroy what gets one. */
static void
hold_job(Repair *repair, const char *name, uint64 sid, const char *what)
{
	MosqlJob	other;

	if (!mosql_clock_job_start(repair->stepper, name, sid, mosql_txn_lease_ms, "{}", &other))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("maintenance is looking for %s just now", what),
				 errhint("Try again in a moment; mosql_fdw_progress shows how far it is.")));
}

/* From now on a tree is kept for as long as the retention: the sweep may go on. */
static void
keep_unnamed(Repair *repair, uint64 root)
{
	MosqlUnnamedTree tree = {.root = root};
	MosqlUnnamedTree *all;
	int			n = mosql_clock_unnamed(repair->stepper, &all, &tree.since);

	for (int i = 0; i < n; i++)
		if (all[i].root == root)
		{
			tree.nodes = all[i].nodes;
			tree.told = all[i].told;
		}
	mosql_clock_put_unnamed(repair->stepper, &tree, 1);
}

/*
 * Is it one that no definition names?  Else 55000.  The list is the last sweep's: what was
 * attached since is looked for in the definitions.
 */
static void
check_unnamed(Repair *repair, uint64 root)
{
	MosqlUnnamedTree *trees;
	MosqlTimestamp now;
	int			n = mosql_clock_unnamed(repair->stepper, &trees, &now);

	if (mosql_maintain_names_tree(repair->session, root))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("tree %s is named by a definition, or by one that cannot be read",
						repair->target),
				 errhint("mosql_fdw_repair(server, 'definitions') tells whether definitions are damaged.")));
	for (int i = 0; i < n; i++)
		if (trees[i].root == root)
			return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("tree %s is not among those that no definition names", repair->target),
			 errhint("mosql_fdw_gc() lists them, as the last sweep of maintenance found them.")));
}

static void
attach(Repair *repair, uint64 root, const MosqlTableLabel *label, List **notes)
{
	uint64		sid;

	(void) mosql_txn_current(repair->session);	/* a live session id, until the end */
	sid = mosql_session_id(repair->session);
	hold_job(repair, MOSQL_JOB_SWEEP, sid, "unreachable nodes");
	PG_TRY();
	{
		hold_job(repair, MOSQL_JOB_GARBAGE, sid, "dropped tables");
		keep_unnamed(repair, root);
		mosql_table_attach(repair->session, root, label, false, notes);
	}
	PG_FINALLY();
	{
		mosql_maintain_forget_job(repair->stepper, MOSQL_JOB_GARBAGE, sid);
		mosql_maintain_forget_job(repair->stepper, MOSQL_JOB_SWEEP, sid);
	}
	PG_END_TRY();
}

/* What the tree says it was; NULL: nothing that can be made out. */
static char *
read_label(Repair *repair, uint64 root, MosqlTableLabel *label)
{
	return mosql_table_read_label(repair->session, root, label) ? mosql_table_label_text(label) : NULL;
}

static void
repair_attach(Repair *repair)
{
	uint64		root = mosql_repair_tree_target(repair);
	char	   *object = psprintf("tree %s", repair->target);
	MosqlTableLabel label;
	List	   *notes = NIL;
	ListCell   *cell;
	char	   *was;

	check_unnamed(repair, root);
	was = read_label(repair, root, &label);
	if (was == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("tree %s does not say what it was", repair->target),
				 errdetail("Its root is lost, or has no label that decodes.")));
	if (repair->dry_run)
		mosql_table_attach(repair->session, root, &label, true, &notes);
	else
		attach(repair, root, &label, &notes);
	mosql_repair_put(repair, object, psprintf("it was %s", was),
					 repair->dry_run ? "would be attached under that name" :
					 "attached under that name, when the transaction commits");
	foreach(cell, notes)
		mosql_repair_put(repair, object, lfirst(cell), NULL);
}

static void
repair_tree(Repair *repair)
{
	check_unnamed(repair, mosql_repair_tree_target(repair));
	mosql_repair_tree(repair);
}

static void
repair_discard(Repair *repair)
{
	uint64		root = mosql_repair_tree_target(repair);
	MosqlTableLabel label;
	char	   *was;

	check_unnamed(repair, root);
	was = read_label(repair, root, &label);
	if (!repair->dry_run)
	{
		mosql_repair_discard(repair, root);
		mosql_clock_drop_unnamed(repair->stepper, &root, 1);
	}
	mosql_repair_put(repair, psprintf("tree %s", repair->target),
					 was ? psprintf("it was %s", was) : "nobody knows what it was",
					 repair->dry_run ? "would be destroyed" : "destroyed");
}

/* ---- transactions and sessions ---- */

static void
repair_transaction(Repair *repair)
{
	MosqlTxid	tx = mosql_admin_parse_txid(target_of(repair, "a transaction's id"));
	char	   *object = psprintf("transaction %s", repair->target);
	MosqlRecord record;
	MosqlSnapshotList list;

	mosql_clock_status(repair->stepper, &tx, 1, &record, &list);
	if (record.state == MOSQL_RECORD_COMMITTED)
	{
		bool		done = !repair->dry_run && mosql_orphans_finish_one(repair->session, tx);

		mosql_repair_put(repair, object, "committed", repair->dry_run ? "would be finished" :
						 done ? "finished: all that it wrote is applied" :
						 "not finished: see the warnings");
		return;
	}
	if (record.state == MOSQL_RECORD_ABORTED)
	{
		mosql_repair_put(repair, object, "aborted", NULL);
		return;
	}
	if (!repair->dry_run)
		mosql_clock_abort(repair->stepper, tx, &record, &list);
	mosql_repair_put(repair, object, "not decided", repair->dry_run ? "would be aborted" :
					 record.state == MOSQL_RECORD_COMMITTED ? "none: it has committed just now" :
					 "aborted: who meets what it wrote removes it");
}

static void
repair_session(Repair *repair)
{
	const char *text = target_of(repair, "a session's id");
	MosqlSessions sessions;
	uint64		sid;
	char	   *end;
	bool		found = false;

	errno = 0;
	sid = strtoull(text, &end, 10);
	if (errno != 0 || *end != '\0' || *text < '1' || *text > '9')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid session id: \"%s\"", text)));
	if (sid == mosql_session_id(repair->session))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("session " UINT64_FORMAT " is this one", sid)));
	mosql_clock_sessions(repair->stepper, &sessions);
	for (int i = 0; i < sessions.n; i++)
		found |= sessions.live[i] == sid;
	if (found && !repair->dry_run)
	{
		(void) mosql_clock_end_session(repair->stepper, sid);
		(void) mosql_clock_expire(repair->stepper, 1000);
	}
	mosql_repair_put(repair, psprintf("session " UINT64_FORMAT, sid),
					 found ? "it may be alive" : "no such session lives", !found ? NULL :
					 repair->dry_run ? "would be ended" :
					 "ended: what it was doing is aborted, its snapshots hold nothing back");
}

/* ---- the function ---- */

static const struct
{
	const char *name;
	void		(*run) (Repair *repair);
	const char *what;
}			actions[] = {
	{"clock", mosql_repair_clock, "rebuild the clock from what the rows and nodes say"},
	{"table", mosql_repair_table, "make damaged nodes of a table anew, and drop damaged rows"},
	{"definitions", mosql_repair_definitions, "the same for the tree of the definitions"},
	{"tree", repair_tree, "the same for a tree that no definition names"},
	{"index", repair_index, "build an index anew from the table's rows"},
	{"attach", repair_attach, "put the definition back that a tree says it had"},
	{"discard", repair_discard, "destroy a tree that no definition names"},
	{"transaction", repair_transaction, "finish or abort a transaction"},
	{"session", repair_session, "end a session"}
};

static void
check_caller(const Repair *repair)
{
	if (mosql_txn_has_written(repair->session))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("mosql_fdw_repair() cannot run in a transaction that has changed tables of the server"),
				 errhint("Call it in a transaction of its own.")));
}

Datum
mosql_fdw_repair(PG_FUNCTION_ARGS)
{
	Repair		repair = {.result = (ReturnSetInfo *) fcinfo->resultinfo};
	char	   *server;
	char	   *action;

	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to repair data in Redis")));
	if (PG_ARGISNULL(0) || PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("server_name and dry_run must not be null")));
	InitMaterializedSRF(fcinfo, 0);
	server = mosql_admin_text_arg(fcinfo, 0);
	action = PG_ARGISNULL(1) ? NULL : mosql_admin_text_arg(fcinfo, 1);
	repair.target = PG_ARGISNULL(2) ? NULL : mosql_admin_text_arg(fcinfo, 2);
	repair.dry_run = PG_GETARG_BOOL(3);
	repair.session = mosql_admin_server_session(server);
	repair.stepper = mosql_session_stepper(repair.session);
	repair.serverid = mosql_admin_our_server(server)->serverid;
	check_caller(&repair);
	for (int i = 0; i < lengthof(actions); i++)
	{
		if (action == NULL)
			mosql_repair_put(&repair, actions[i].name, actions[i].what, NULL);
		else if (strcmp(action, actions[i].name) == 0)
		{
			/* not all of them draw a session's id, which would be refused */
			mosql_clock_check_format(repair.stepper);
			actions[i].run(&repair);
			return (Datum) 0;
		}
	}
	if (action != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no repair \"%s\"", action),
				 errhint("mosql_fdw_repair(server_name) lists what there is.")));
	return (Datum) 0;
}
