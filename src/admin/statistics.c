/*
 * statistics.c: ANALYZE where tables have changed.
 *
 * Layer: admin.  PostgreSQL's autovacuum leaves foreign tables alone.  Each
 * PostgreSQL server has statistics of its own; how large the trees are is counted
 * once, by whoever vacuums them, and kept at the clock.  pg_class.relpages has the
 * leaves that there were at the last ANALYZE.
 *
 * What this cannot see: rows that change without changing in number.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "admin/maintain.h"
#include "step/clock_keep.h"

/* Growth worth an ANALYZE: leaves, and a share of what there was. */
#define ANALYZE_MIN_LEAVES	5
#define ANALYZE_SHARE		0.1

/* A table that was never analyzed is worth one from so many leaves on. */
#define ANALYZE_FIRST_LEAVES 2

/* May the current user, without a warning? */
static bool
may_analyze(Oid relid)
{
#if PG_VERSION_NUM >= 170000
	return pg_class_aclcheck(relid, GetUserId(), ACL_MAINTAIN) == ACLCHECK_OK;
#elif PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relid, GetUserId());
#else
	return pg_class_ownercheck(relid, GetUserId());
#endif
}

static bool
is_due(Oid relid, double leaves)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	double		known;
	double		tuples;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_class) GETSTRUCT(tuple);
	known = form->relpages;
	tuples = form->reltuples;
	ReleaseSysCache(tuple);
	if (leaves < 0)
		return false;			/* not in Redis, or not counted yet */
	if (tuples < 0)
		return leaves >= ANALYZE_FIRST_LEAVES;
	return Max(leaves, known) - Min(leaves, known) > ANALYZE_MIN_LEAVES + ANALYZE_SHARE * known;
}

/*
 * The leaves counted for a local table, -1 if it is not known in Redis, or locked:
 * somebody may be altering it for hours.
 */
static double
counted_leaves(Oid relid, const MosqlDefinition *definitions, int ndefinitions,
			   const MosqlTreeSize *sizes, int nsizes)
{
	Relation	rel;
	const char *schema;
	const char *name;
	double		leaves = -1;

	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return -1;
	rel = try_table_open(relid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(relid, AccessShareLock);
		return -1;
	}
	mosql_table_remote_name(rel, &schema, &name);
	for (int i = 0; i < ndefinitions && leaves < 0; i++)
	{
		if (strcmp(definitions[i].schema, schema) != 0 || strcmp(definitions[i].name, name) != 0)
			continue;
		for (int j = 0; j < nsizes; j++)
			if (sizes[j].root == definitions[i].root)
				leaves = (double) sizes[j].leaves;
	}
	table_close(rel, AccessShareLock);
	return leaves;
}

/* See admin.h. */
ErrorData *
mosql_admin_attempt(MosqlAttempt attempt, void *arg)
{
	MemoryContext caller = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(caller);
	PG_TRY();
	{
		attempt(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	CurrentResourceOwner = owner;
	return error;
}

/* Is such an error about one server, of which others know nothing? */
static bool
is_of_one_server(int code)
{
	switch (ERRCODE_TO_CATEGORY(code))
	{
		case ERRCODE_CONNECTION_EXCEPTION:
		case ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_SYSTEM_ERROR:
			return true;
		default:
			return code == ERRCODE_CANNOT_CONNECT_NOW || code == ERRCODE_UNDEFINED_TABLE ||
				code == ERRCODE_INVALID_TABLE_DEFINITION || code == ERRCODE_DATA_CORRUPTED ||
				code == ERRCODE_FEATURE_NOT_SUPPORTED ||	/* another format */
				code == ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED;	/* a password is required */
	}
}

ErrorData *
mosql_admin_attempt_server(MosqlAttempt attempt, void *arg)
{
	ErrorData  *error = mosql_admin_attempt(attempt, arg);

	if (error != NULL && !is_of_one_server(error->sqlerrcode))
		ReThrowError(error);
	return error;
}

void
mosql_admin_warn(const ErrorData *error, const char *what)
{
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("%s: %s", what, error->message),
			 error->detail ? errdetail("%s", error->detail) : 0,
			 error->hint ? errhint("%s", error->hint) : 0));
}

/* A MosqlAttempt. */
static void
run_analyze(void *name)
{
	mosql_admin_run_sql(psprintf("ANALYZE %s", (char *) name));
}

/*
 * False if somebody else is at the table: another pass comes; with a warning if ANALYZE failed, be it that the
 * table is damaged, or gone from Redis.  Functions of its owner run in it, and may raise any error: that must be in
 * nobody else's way.  Only a client that cancels is believed to have done so.
 */
static bool
analyze(Oid relid)
{
	char	   *name;
	ErrorData  *error;

	if (!ConditionalLockRelationOid(relid, ShareUpdateExclusiveLock))
		return false;
	name = get_rel_name(relid);
	if (name == NULL)
		return false;
	name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), name);
	error = mosql_admin_attempt(run_analyze, name);
	if (error == NULL)
		return true;
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED && MyProcPort != NULL)
		ReThrowError(error);
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("table %s is not analyzed: %s", name, error->message)));
	return false;
}

/* A standby has those of its primary. */
uint64
mosql_maintain_statistics(Oid serverid, MosqlSession *session)
{
	List	   *tables = mosql_admin_server_tables(serverid);
	MosqlDefinition *definitions;
	MosqlTreeSize *sizes;
	ListCell   *lc;
	int			ndefinitions;
	int			nsizes;
	uint64		analyzed = 0;

	if (tables == NIL || RecoveryInProgress())
		return 0;
	ndefinitions = mosql_table_definitions(session, NULL, &definitions);
	nsizes = mosql_clock_sizes(mosql_session_stepper(session), &sizes);
	foreach(lc, tables)
	{
		Oid			relid = lfirst_oid(lc);

		CHECK_FOR_INTERRUPTS();
		if (!may_analyze(relid) ||
			!is_due(relid, counted_leaves(relid, definitions, ndefinitions, sizes, nsizes)))
			continue;
		if (analyze(relid))
			analyzed++;
		else					/* was it Redis?  Then this throws */
			nsizes = mosql_clock_sizes(mosql_session_stepper(session), &sizes);
	}
	return analyzed;
}
