/*
 * lock_table.c: LOCK TABLE, between all front-ends.
 *
 * Layer: admin.  Core locks tables of PostgreSQL's own and views; ours are locked here, and then everywhere
 * (table/lock.c): by their names, as children of others, and in the queries of views, with the rights of the
 * view's owner, as core does it (LockViewRecurse).
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "rewrite/rewriteHandler.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/utility.h"

static bool
is_ours(const RangeVar *name)
{
	Oid			relid = RangeVarGetRelid(name, NoLock, true);

	return OidIsValid(relid) && mosql_fdw_is_ours(relid);
}

/* 42501 unless the role may lock it so. */
static void
check_role(Oid relid, Oid role, LOCKMODE mode)
{
	AclMode		any = ACL_UPDATE | ACL_DELETE | ACL_TRUNCATE;
	AclResult	result;

	if (mode == AccessShareLock)
		any |= ACL_SELECT;
	if (mode <= RowExclusiveLock)
		any |= ACL_INSERT;
	result = pg_class_aclcheck(relid, role, any);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FOREIGN_TABLE, get_rel_name(relid));
}

/* Before the lock is taken, and again if the name means another table by then. */
static void
check_may_lock(const RangeVar *name, Oid relid, Oid old_relid, void *arg)
{
	if (OidIsValid(relid))
		check_role(relid, GetUserId(), *(LOCKMODE *) arg);
}

/* Those that are ours, which are locked here, for all front-ends. */
static void
lock_everywhere(List *relids, LOCKMODE mode, bool nowait)
{
	ListCell   *lc;

	foreach(lc, relids)
	{
		Relation	rel;

		if (!mosql_fdw_is_ours(lfirst_oid(lc)))
			continue;
		rel = relation_open(lfirst_oid(lc), NoLock);
		if (!mosql_table_lock(rel, mosql_fdw_session_for(lfirst_oid(lc), InvalidOid), mode, !nowait))
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("could not obtain lock on relation \"%s\"", RelationGetRelationName(rel))));
		relation_close(rel, NoLock);
	}
}

/* Here, and then everywhere; with the tables that inherit from it. */
static void
lock_table(const RangeVar *name, LOCKMODE mode, bool nowait)
{
	Oid			relid = RangeVarGetRelidExtended(name, mode, nowait ? RVR_NOWAIT : 0,
												 check_may_lock, &mode);

	lock_everywhere(name->inh ? find_all_inheritors(relid, mode, NULL) : list_make1_oid(relid),
					mode, nowait);
}

/* ---- views ---- */

typedef struct ViewLock
{
	LOCKMODE	mode;
	bool		nowait;
	Oid			view;
	Oid			role;			/* whose rights count in it */
	List	   *above;			/* views that it is in, and itself */
} ViewLock;

static bool lock_in_query(Node *node, void *context);

/* Core has locked the view here, and PostgreSQL's own tables in it, but none of ours. */
static void
lock_in_view(Oid view, Oid role, const ViewLock *outer)
{
	Relation	rel = relation_open(view, NoLock);
	ViewLock	lock = *outer;

	lock.view = view;
	lock.role = RelationHasSecurityInvoker(rel) ? role : rel->rd_rel->relowner;
	lock.above = lappend_oid(list_copy(outer->above), view);
	(void) lock_in_query((Node *) get_view_query(rel), &lock);
	relation_close(rel, NoLock);
}

static void
lock_entry(const RangeTblEntry *entry, const ViewLock *lock)
{
	if (entry->rtekind != RTE_RELATION || list_member_oid(lock->above, entry->relid))
		return;					/* also a view's own OLD and NEW */
	if (entry->relkind == RELKIND_VIEW)
	{
		lock_in_view(entry->relid, lock->role, lock);
		return;
	}
	if (mosql_fdw_is_ours(entry->relid))
	{
		check_role(entry->relid, lock->role, lock->mode);
		if (!lock->nowait)
			LockRelationOid(entry->relid, lock->mode);
		else if (!ConditionalLockRelationOid(entry->relid, lock->mode))
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("could not obtain lock on relation \"%s\"", get_rel_name(entry->relid))));
	}
	lock_everywhere(entry->inh ? find_all_inheritors(entry->relid, lock->mode, NULL)
					: list_make1_oid(entry->relid), lock->mode, lock->nowait);
}

static bool
lock_in_query(Node *node, void *context)
{
	ListCell   *lc;

	if (node == NULL)
		return false;
	if (!IsA(node, Query))
		return expression_tree_walker(node, lock_in_query, context);
	foreach(lc, ((Query *) node)->rtable)
		lock_entry(lfirst_node(RangeTblEntry, lc), context);
	return query_tree_walker((Query *) node, lock_in_query, context, QTW_IGNORE_JOINALIASES);
}

/* ---- the statement ---- */

/* Core has locked these here; ours may be among their partitions, and in views. */
static void
lock_below(const List *names, LOCKMODE mode, bool nowait)
{
	ListCell   *lc;

	foreach(lc, names)
	{
		const RangeVar *name = lfirst(lc);
		Oid			relid = RangeVarGetRelid(name, NoLock, false);

		if (get_rel_relkind(relid) == RELKIND_VIEW)
			lock_in_view(relid, GetUserId(), &(ViewLock){.mode = mode,.nowait = nowait});
		else if (name->inh)
			lock_everywhere(find_all_inheritors(relid, NoLock, NULL), mode, nowait);
	}
}

static void
lock_tables(const MosqlStatement *statement, void *arg)
{
	LockStmt   *lock = (LockStmt *) statement->tree;
	LockStmt   *local = copyObject(lock);
	ListCell   *lc;

	local->relations = NIL;
	foreach(lc, lock->relations)
		if (!is_ours(lfirst(lc)))
			local->relations = lappend(local->relations, copyObject(lfirst(lc)));
	RequireTransactionBlock(statement->context == PROCESS_UTILITY_TOPLEVEL, "LOCK TABLE");
	foreach(lc, lock->relations)
		if (is_ours(lfirst(lc)))
			lock_table(lfirst(lc), lock->mode, lock->nowait);
	if (local->relations != NIL)
	{
		mosql_admin_pass_on(statement, (Node *) local);
		lock_below(local->relations, lock->mode, lock->nowait);
	}
}

bool
mosql_admin_run_lock(const MosqlStatement *statement)
{
	ListCell   *lc;

	foreach(lc, ((const LockStmt *) statement->tree)->relations)
		if (is_ours(lfirst(lc)))
		{
			mosql_admin_run_below(statement, lock_tables, NULL);
			return true;
		}
	lock_tables(statement, NULL);
	return true;
}
