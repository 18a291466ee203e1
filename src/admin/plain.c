/*
 * plain.c: statements on plain tables that core refuses for foreign ones.
 *
 * Layer: admin.  Applications say DROP TABLE, COPY t TO, LOCK TABLE, VACUUM and so
 * on of any table.  Each such statement is done here as far as it concerns tables
 * of ours, or rewritten into what core does for foreign tables, and the rest is
 * passed on.  What has no meaning for rows in Redis does nothing.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "commands/copy.h"
#include "commands/defrem.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "admin/utility.h"

static bool
is_ours(const RangeVar *name)
{
	Oid			relid = name == NULL ? InvalidOid : RangeVarGetRelid(name, NoLock, true);

	return OidIsValid(relid) && mosql_fdw_is_ours(relid);
}

static bool
is_top_level(const MosqlStatement *statement)
{
	return statement->context == PROCESS_UTILITY_TOPLEVEL;
}

/* Drop an option from a list of DefElem; may be given twice. */
static List *
without_option(List *options, const char *name)
{
	ListCell   *lc;

	foreach(lc, options)
		if (strcmp(lfirst_node(DefElem, lc)->defname, name) == 0)
			options = foreach_delete_current(options, lc);
	return options;
}

static bool
option_is_on(List *options, const char *name)
{
	ListCell   *lc;
	bool		on = false;

	foreach(lc, options)
		if (strcmp(lfirst_node(DefElem, lc)->defname, name) == 0)
			on = defGetBoolean(lfirst(lc));
	return on;
}

/* ---- DROP TABLE, DROP INDEX CONCURRENTLY ---- */

static bool
drops_our_index(const DropStmt *drop)
{
	ListCell   *lc;

	foreach(lc, drop->objects)
	{
		Oid			indexid = RangeVarGetRelid(makeRangeVarFromNameList(lfirst(lc)), NoLock, true);

		if (OidIsValid(indexid) && (mosql_admin_is_our_index(indexid) || mosql_admin_is_bare_index(indexid)))
			return true;
	}
	return false;
}

/* Are these tables all ours?  (Some: drop.c.) */
static bool
drops_our_tables(const DropStmt *drop)
{
	ListCell   *lc;

	if (drop->removeType != OBJECT_TABLE)
		return false;
	foreach(lc, drop->objects)
		if (!is_ours(makeRangeVarFromNameList(lfirst(lc))))
			return false;
	return true;
}

static bool
run_drop(const MosqlStatement *statement)
{
	DropStmt   *drop = (DropStmt *) statement->tree;
	bool		concurrently = drop->removeType == OBJECT_INDEX && drop->concurrent &&
		drops_our_index(drop);

	if (!concurrently && !drops_our_tables(drop))
		return false;
	drop = copyObject(drop);
	if (concurrently)
	{
		if (list_length(drop->objects) > 1 || drop->behavior == DROP_CASCADE)
			return false;		/* core says that it does not */
		PreventInTransactionBlock(is_top_level(statement), "DROP INDEX CONCURRENTLY");
		drop->concurrent = false;	/* nobody waits for it anyway */
	}
	else
		drop->removeType = OBJECT_FOREIGN_TABLE;
	mosql_admin_pass_on(statement, (Node *) drop);
	return true;
}

/* ---- COPY ---- */

/*
 * pg_dump --include-foreign-data reads a foreign table by COPY (SELECT ... FROM t), which has the rows of those that
 * inherit from t, too.  They are in the dump once more as what they are: so without them.
 */
static bool
run_dump(const MosqlStatement *statement)
{
	CopyStmt   *copy = (CopyStmt *) statement->tree;
	const SelectStmt *select = (const SelectStmt *) copy->query;
	const RangeVar *from;

	if (application_name == NULL || strcmp(application_name, "pg_dump") != 0 || !IsA(select, SelectStmt) ||
		list_length(select->fromClause) != 1 || !IsA(linitial(select->fromClause), RangeVar))
		return false;
	from = linitial_node(RangeVar, select->fromClause);
	if (!from->inh || !is_ours(from))
		return false;
	copy = copyObject(copy);
	linitial_node(RangeVar, ((SelectStmt *) copy->query)->fromClause)->inh = false;
	mosql_admin_pass_on(statement, (Node *) copy);
	return true;
}

static ResTarget *
copied_column(const char *name)
{
	ColumnRef  *column = makeNode(ColumnRef);
	ResTarget  *target = makeNode(ResTarget);

	column->fields = list_make1(makeString(pstrdup(name)));
	column->location = -1;
	target->val = (Node *) column;
	target->location = -1;
	return target;
}

/* The query of COPY t [(columns)] TO: of this table alone, no generated columns (42P10, by core). */
static SelectStmt *
copied_rows(const CopyStmt *copy)
{
	SelectStmt *select = makeNode(SelectStmt);
	RangeVar   *from = copyObject(copy->relation);
	Relation	rel = relation_openrv(copy->relation, AccessShareLock);
	ListCell   *lc;

	from->inh = false;
	select->fromClause = list_make1(from);
	foreach(lc, CopyGetAttnums(RelationGetDescr(rel), rel, copy->attlist))
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), lfirst_int(lc) - 1);

		select->targetList = lappend(select->targetList, copied_column(NameStr(att->attname)));
	}
	relation_close(rel, NoLock);
	return select;
}

/*
 * FREEZE promises rows that all see at once, which rows of this transaction's
 * commit are: nothing is left to be done for it.
 */
static bool
run_copy(const MosqlStatement *statement)
{
	CopyStmt   *copy = (CopyStmt *) statement->tree;

	if (copy->query != NULL)
		return run_dump(statement);
	if (!is_ours(copy->relation) || (copy->is_from && !option_is_on(copy->options, "freeze")))
		return false;
	copy = copyObject(copy);
	if (copy->is_from)
		copy->options = without_option(copy->options, "freeze");
	else
	{
		copy->query = (Node *) copied_rows(copy);
		copy->relation = NULL;
		copy->attlist = NIL;
	}
	mosql_admin_pass_on(statement, (Node *) copy);
	return true;
}

/* ---- COMMENT ON TABLE ---- */

static bool
run_comment(const MosqlStatement *statement)
{
	CommentStmt *comment = (CommentStmt *) statement->tree;

	if (comment->objtype != OBJECT_TABLE ||
		!is_ours(makeRangeVarFromNameList(castNode(List, comment->object))))
		return false;
	comment = copyObject(comment);
	comment->objtype = OBJECT_FOREIGN_TABLE;
	mosql_admin_pass_on(statement, (Node *) comment);
	return true;
}

/* ---- VACUUM, REINDEX, CLUSTER ---- */

/* ANALYZE of these tables, with those of VACUUM's options that it has, too. */
static VacuumStmt *
analyze_of(const VacuumStmt *vacuum, List *tables)
{
	static const char *const shared[] = {"verbose", "skip_locked", "buffer_usage_limit"};
	VacuumStmt *analyze = makeNode(VacuumStmt);
	ListCell   *lc;

	analyze->rels = tables;
	foreach(lc, vacuum->options)
		for (int i = 0; i < lengthof(shared); i++)
			if (strcmp(lfirst_node(DefElem, lc)->defname, shared[i]) == 0)
				analyze->options = lappend(analyze->options, copyObject(lfirst(lc)));
	return analyze;
}

/*
 * The VACUUM with what core silently passes over in place of each of our tables: an oid that no relation has.
 * So core looks at all of the options and columns itself.
 */
static VacuumStmt *
vacuum_of_others(const VacuumStmt *vacuum)
{
	VacuumStmt *others = copyObject(unconstify(VacuumStmt *, vacuum));
	ListCell   *lc;

	foreach(lc, others->rels)
	{
		VacuumRelation *table = lfirst_node(VacuumRelation, lc);

		if (is_ours(table->relation))
			lfirst(lc) = makeVacuumRelation(NULL, BOOLOID, table->va_cols);
	}
	return others;
}

/* Those of them that the user may vacuum; core's WARNING for the others. */
static List *
permitted(const List *tables)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, tables)
	{
		VacuumRelation *table = lfirst_node(VacuumRelation, lc);
		Oid			relid = RangeVarGetRelid(table->relation, NoLock, false);
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));

		if (!HeapTupleIsValid(tuple))
			continue;
#if PG_VERSION_NUM >= 170000
		if (vacuum_is_permitted_for_relation(relid, (Form_pg_class) GETSTRUCT(tuple), VACOPT_VACUUM))
#else
		if (vacuum_is_relation_owner(relid, (Form_pg_class) GETSTRUCT(tuple), VACOPT_VACUUM))
#endif
			result = lappend(result, table);
		ReleaseSysCache(tuple);
	}
	return result;
}

/*
 * VACUUM commits, several times, and so may ANALYZE.  It leaves another memory context as the current one, and no
 * snapshot, which who comes after it would have to make.
 */
static void
pass_on_vacuum(const MosqlStatement *statement, VacuumStmt *vacuum)
{
	MemoryContext context = CurrentMemoryContext;
	bool		had_snapshot = ActiveSnapshotSet();

	if (!had_snapshot)
		PushActiveSnapshot(GetTransactionSnapshot());
	mosql_admin_pass_on(statement, (Node *) vacuum);
	if (!had_snapshot && ActiveSnapshotSet())
		PopActiveSnapshot();
	MemoryContextSwitchTo(context);
}

/* Of our tables, a list of VacuumRelation, only the ANALYZE in it. */
static void
vacuum_both(const MosqlStatement *statement, void *arg)
{
	VacuumStmt *vacuum = (VacuumStmt *) statement->tree;
	List	   *ours = arg;

	pass_on_vacuum(statement, vacuum_of_others(vacuum));
	ours = permitted(ours);
	if (ours != NIL && option_is_on(vacuum->options, "full"))
		ereport(NOTICE,
				(errmsg("\"%s\" is in Redis: there is nothing to write anew",
						linitial_node(VacuumRelation, ours)->relation->relname),
				 errhint("mosql_fdw_maintain() removes what is not needed any more.")));
	if (ours != NIL && option_is_on(vacuum->options, "analyze"))
		pass_on_vacuum(statement, analyze_of(vacuum, ours));
}

static bool
run_vacuum(const MosqlStatement *statement)
{
	VacuumStmt *vacuum = (VacuumStmt *) statement->tree;
	List	   *ours = NIL;
	ListCell   *lc;

	if (!vacuum->is_vacuumcmd)
		return false;
	foreach(lc, vacuum->rels)
		if (is_ours(lfirst_node(VacuumRelation, lc)->relation))
			ours = lappend(ours, copyObject(lfirst(lc)));
	if (ours == NIL)
		return false;
	mosql_admin_run_below(statement, vacuum_both, ours);
	return true;
}

/* One index, or with NULL all of the table, each from its rows; how many. */
static int
reindex_table(Oid relid, const char *index)
{
	Relation	rel;
	ListCell   *cell;
	int			n = 0;

	mosql_admin_check_owner(relid);
	rel = relation_open(relid, ShareLock);
	foreach(cell, mosql_admin_secondary_indexes(rel))
	{
		const char *name = get_rel_name(lfirst_oid(cell));

		if (index != NULL && strcmp(name, index) != 0)
			continue;
		mosql_admin_reindex(rel, mosql_fdw_session_for(relid, InvalidOid), name);
		n++;
	}
	relation_close(rel, NoLock);
	return n;
}

/* See admin.h. */
bool
mosql_admin_is_key_index(Oid indexid)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	bool		primary = HeapTupleIsValid(tuple) && ((Form_pg_index) GETSTRUCT(tuple))->indisprimary;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return primary;
}

/* What REINDEX is of. */
typedef struct Reindexed
{
	Oid			relid;
	const char *index;			/* NULL: the table */
} Reindexed;

static void
reindex_ours(const MosqlStatement *statement, void *arg)
{
	const ReindexStmt *reindex = (const ReindexStmt *) statement->tree;
	const Reindexed *what = arg;

	if (option_is_on(reindex->params, "concurrently"))
		PreventInTransactionBlock(is_top_level(statement), "REINDEX CONCURRENTLY");
	if (reindex_table(what->relid, what->index) == 0)
		ereport(NOTICE,
				(errmsg("\"%s\" is in Redis: there is nothing to reindex",
						reindex->relation->relname)));
}

/*
 * REINDEX TABLE and INDEX.  The key's index is the table itself: core makes nothing of it,
 * unless CONCURRENTLY.  A bare one (index_bare.c) has nothing.  With that, too, writers of this server wait; others get 40001.
 */
static bool
run_reindex(const MosqlStatement *statement)
{
	ReindexStmt *reindex = (ReindexStmt *) statement->tree;
	Reindexed	what = {InvalidOid, NULL};
	Oid			indexid;

	if (reindex->relation == NULL)
		return false;
	if (reindex->kind == REINDEX_OBJECT_TABLE && is_ours(reindex->relation))
		what.relid = RangeVarGetRelid(reindex->relation, NoLock, true);
	else if (reindex->kind == REINDEX_OBJECT_INDEX)
	{
		indexid = RangeVarGetRelid(reindex->relation, NoLock, true);
		if (OidIsValid(indexid) &&
			(mosql_admin_is_bare_index(indexid) ||
			 (mosql_admin_is_our_index(indexid) &&
			  (option_is_on(reindex->params, "concurrently") || !mosql_admin_is_key_index(indexid)))))
		{
			what.relid = IndexGetRelation(indexid, true);
			what.index = get_rel_name(indexid);
		}
	}
	if (!OidIsValid(what.relid))
		return false;
	mosql_admin_run_below(statement, reindex_ours, &what);
	return true;
}

static void
cluster_table(const MosqlStatement *statement, void *arg)
{
	const ClusterStmt *cluster = (const ClusterStmt *) statement->tree;
	const RangeVar *name = cluster->relation;

	mosql_admin_check_owner(RangeVarGetRelid(name, NoLock, false));
	mosql_admin_check_index_name(RangeVarGetRelid(name, NoLock, false), cluster->indexname);
	ereport(NOTICE,
			(errmsg("table \"%s\" is in Redis, in the order of its primary key: there is nothing to cluster",
					name->relname)));
}

static bool
run_cluster(const MosqlStatement *statement)
{
	if (!is_ours(((const ClusterStmt *) statement->tree)->relation))
		return false;
	mosql_admin_run_below(statement, cluster_table, NULL);
	return true;
}

bool
mosql_admin_run_plain(const MosqlStatement *statement)
{
	switch (nodeTag(statement->tree))
	{
		case T_DropStmt:
			return run_drop(statement);
		case T_CopyStmt:
			return run_copy(statement);
		case T_LockStmt:
			return mosql_admin_run_lock(statement);
		case T_CommentStmt:
			return run_comment(statement);
		case T_VacuumStmt:
			return run_vacuum(statement);
		case T_ReindexStmt:
			return run_reindex(statement);
		case T_ClusterStmt:
			return run_cluster(statement);
		case T_AlterTableStmt:
			return mosql_admin_run_alter(statement);
		default:
			return false;
	}
}
