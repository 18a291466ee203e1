/*
 * index_am.c: index access method "mosql": indexes that live in Redis.
 *
 * Layer: admin.  A foreign table's key is a real index to PostgreSQL: a row of
 * pg_index, and of pg_constraint, on the foreign table.  So the planner knows
 * that the key is unique, ON CONFLICT finds its arbiter, and \d and every
 * other tool lists it.  The rows themselves are in the table's tree, and the
 * foreign data wrapper reads and writes them: PostgreSQL never scans such an
 * index (it makes index paths for local tables only), nor inserts into it.
 *
 * What it asks of an access method nevertheless: its properties; to build it
 * (REINDEX: nothing to do); and to clean up after ANALYZE (nothing).
 *
 * The operator classes are those of btree, whose order ours is: hence as many
 * support functions.
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/nbtree.h"
#include "access/reloptions.h"
#include "catalog/index.h"

#include "admin/utility.h"

PG_FUNCTION_INFO_V1(mosql_fdw_index_handler);

static void unexpected(const char *what, Relation index) pg_attribute_noreturn();

static void
unexpected(const char *what, Relation index)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s is not supported for index \"%s\"", what, RelationGetRelationName(index)),
			 errdetail("Its entries are in Redis; mosql_fdw maintains them.")));
}

/* There is nothing local to build, nor to count: what is known of the table's size stays. */
static IndexBuildResult *
build(Relation heap, Relation index, IndexInfo *info)
{
	IndexBuildResult *result = palloc(sizeof(IndexBuildResult));

	if (info->ii_Concurrent)
		unexpected("a concurrent build", index);
	result->heap_tuples = result->index_tuples = -1;
	return result;
}

static void
build_empty(Relation index)
{
}

static bool
insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
	   IndexUniqueCheck check, bool unchanged, IndexInfo *info)
{
	unexpected("a local insertion", index);
}

static IndexBulkDeleteResult *
bulk_delete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats, IndexBulkDeleteCallback callback,
			void *state)
{
	unexpected("a local vacuum", info->index);
}

static IndexBulkDeleteResult *
vacuum_cleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	return stats;
}

/* Never cheap: but no path is made anyway. */
static void
cost_estimate(struct PlannerInfo *root, struct IndexPath *path, double loops, Cost *startup,
			  Cost *total, Selectivity *selectivity, double *correlation, double *pages)
{
	*startup = *total = 1.0e10;
	*selectivity = 1;
	*correlation = 0;
	*pages = 0;
}

/* WITH (...): none has a meaning here, as in a table. */
static bytea *
options(Datum reloptions, bool validate)
{
	if (validate && DatumGetPointer(reloptions) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("indexes of access method \"mosql\" have no storage parameters"),
				 errhint("Leave WITH (...) out.")));
	return NULL;
}

static bool
validate(Oid opclass)
{
	return true;
}

static IndexScanDesc
begin_scan(Relation index, int nkeys, int norderbys)
{
	unexpected("a local scan", index);
}

static void
rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	unexpected("a local scan", scan->indexRelation);
}

static void
end_scan(IndexScanDesc scan)
{
}

Datum
mosql_fdw_index_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *am = makeNode(IndexAmRoutine);

	am->amstrategies = BTMaxStrategyNumber;
	am->amsupport = BTNProcs;
	am->amoptsprocnum = BTOPTIONS_PROC;
	am->amcanorder = true;
	am->amcanbackward = true;
	am->amcanunique = true;
	am->amcanmulticol = true;
	am->amoptionalkey = true;
	am->amsearcharray = true;
	am->amsearchnulls = true;
	am->amcaninclude = true;
#if PG_VERSION_NUM >= 180000
	am->amconsistentequality = true;
	am->amconsistentordering = true;
	am->amtranslatestrategy = bttranslatestrategy;
	am->amtranslatecmptype = bttranslatecmptype;
#endif

	am->ambuild = build;
	am->ambuildempty = build_empty;
	am->aminsert = insert;
	am->ambulkdelete = bulk_delete;
	am->amvacuumcleanup = vacuum_cleanup;
	am->amcostestimate = cost_estimate;
	am->amoptions = options;
	am->amvalidate = validate;
	am->ambeginscan = begin_scan;
	am->amrescan = rescan;
	am->amendscan = end_scan;
	PG_RETURN_POINTER(am);
}

/* ---- USING ---- */

/* As core says it. */
static void
refuse_of_hash(bool refused, const char *what)
{
	if (refused)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"hash\" does not support %s", what)));
}

static void
check_hash(const IndexStmt *create)
{
	ListCell   *lc;

	refuse_of_hash(create->unique, "unique indexes");
	refuse_of_hash(create->indexIncludingParams != NIL, "included columns");
	refuse_of_hash(list_length(create->indexParams) > 1, "multicolumn indexes");
	foreach(lc, create->indexParams)
	{
		refuse_of_hash(lfirst_node(IndexElem, lc)->ordering != SORTBY_DEFAULT, "ASC/DESC options");
		refuse_of_hash(lfirst_node(IndexElem, lc)->nulls_ordering != SORTBY_NULLS_DEFAULT,
					   "NULLS FIRST/LAST options");
	}
}

/* USING hash is for equality, which an index in order finds as well. */
void
mosql_admin_check_access_method(const IndexStmt *create)
{
	if (strcmp(create->accessMethod, "hash") == 0)
		check_hash(create);
}
