/*
 * index_again.c: indexes that go for the time of an ALTER TABLE, and come back as they were.
 *
 * Layer: admin.  Another type of a column takes its indexes away before core changes the column, and
 * makes them again when the command has ended (index.c).  What PostgreSQL keeps of them is kept here
 * until then, by the name of the index: comments, operator classes, collations, that it is an exclusion constraint,
 * and what the primary key is called.
 *
 * It lives as long as the transaction.  What a rolled back savepoint leaves behind names an index that is
 * there again, and goes as soon as that one goes once more.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "commands/comment.h"
#include "commands/defrem.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "admin/admin.h"

typedef struct KeptIndex
{
	struct KeptIndex *next;
	Oid			relid;
	bool		primary;
	char	   *name;
	char	   *comment;		/* NULL: none */
	char	   *constraint_comment;
	List	   *classes;		/* of key columns; InvalidOid: the default one */
	List	   *collations;		/* InvalidOid: the column's own */
	bool		hash;			/* it was made USING hash */
	bool		exclusion;
	char	   *bare;			/* see bare_text(); NULL: of ours, or made again */
	SubTransactionId within;
} KeptIndex;

static KeptIndex *kept = NULL;	/* in TopTransactionContext */

static void
transaction_ended(XactEvent event, void *arg)
{
	kept = NULL;
}

/* Take it out of the list; NULL: it is not there. */
static KeptIndex *
take(Oid relid, const char *name)
{
	KeptIndex **at = &kept;
	KeptIndex  *index;

	while (*at != NULL && ((*at)->relid != relid || strcmp((*at)->name, name) != 0))
		at = &(*at)->next;
	index = *at;
	if (index != NULL)
		*at = index->next;
	return index;
}

/* Operator classes and collations of an index that are not the defaults of its columns: those go with their types. */
static void
keep_columns(KeptIndex *index, Oid indexid)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	const oidvector *classes;
	const oidvector *collations;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	classes = (const oidvector *) DatumGetPointer(SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indclass, &isnull));
	collations = (const oidvector *) DatumGetPointer(SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indcollation, &isnull));
	for (int i = 0; i < classes->dim1; i++)
	{
		AttrNumber	attnum = ((Form_pg_index) GETSTRUCT(tuple))->indkey.values[i];
		Oid			relid = attnum > 0 ? index->relid : indexid;
		Oid			type;
		int32		typmod;
		Oid			own;

		get_atttypetypmodcoll(relid, attnum > 0 ? attnum : i + 1, &type, &typmod, &own);
		index->classes = lappend_oid(index->classes, classes->values[i] == GetDefaultOpClass(type, BTREE_AM_OID)
									 ? InvalidOid : classes->values[i]);
		index->collations = lappend_oid(index->collations,
										collations->values[i] == own ? InvalidOid : collations->values[i]);
	}
	ReleaseSysCache(tuple);
}

bool
mosql_admin_is_shown_as_hash(Oid indexid)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	const int2vector *options;
	bool		isnull;
	bool		hash;

	if (!HeapTupleIsValid(tuple))
		return false;			/* a query's snapshot has it still */
	options = (const int2vector *) DatumGetPointer(SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indoption, &isnull));
	hash = (options->values[0] & MOSQL_INDOPTION_HASH) != 0;
	ReleaseSysCache(tuple);
	return hash;
}

bool
mosql_admin_is_exclusion(Oid indexid)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	bool		exclusion;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	exclusion = ((Form_pg_index) GETSTRUCT(tuple))->indisexclusion;
	ReleaseSysCache(tuple);
	return exclusion;
}

static const KeptIndex *
find(Oid relid, const char *name)
{
	const KeptIndex *index = kept;

	while (index != NULL && (index->relid != relid || strcmp(index->name, name) != 0))
		index = index->next;
	return index;
}

Oid
mosql_admin_kept_class(Oid relid, const char *name, int i)
{
	const KeptIndex *index = find(relid, name);

	return index != NULL && i < list_length(index->classes) ? list_nth_oid(index->classes, i) : InvalidOid;
}

Oid
mosql_admin_kept_collation(Oid relid, const char *name, int i)
{
	const KeptIndex *index = find(relid, name);

	return index != NULL && i < list_length(index->collations) ? list_nth_oid(index->collations, i) : InvalidOid;
}

bool
mosql_admin_was_hash(Oid relid, const char *name)
{
	const KeptIndex *index = find(relid, name);

	return index != NULL && index->hash;
}

bool
mosql_admin_was_exclusion(Oid relid, const char *name)
{
	const KeptIndex *index = find(relid, name);

	return index != NULL && index->exclusion;
}

/* CREATE INDEX of one of index_bare.c, to be read under mosql_expression_settings(). */
static char *
bare_text(Oid indexid)
{
	int			level = mosql_expression_settings();
	char	   *sql = TextDatumGetCString(DirectFunctionCall1(pg_get_indexdef, ObjectIdGetDatum(indexid)));

	AtEOXact_GUC(true, level);
	return sql;
}

void
mosql_admin_keep_index(Oid indexid)
{
	static bool registered = false;
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	KeptIndex  *index = palloc0(sizeof(KeptIndex));
	Oid			constraint = get_index_constraint(indexid);

	if (!registered)
		RegisterXactCallback(transaction_ended, NULL);
	registered = true;
	index->relid = IndexGetRelation(indexid, false);
	index->primary = mosql_admin_is_key_index(indexid);
	index->name = get_rel_name(indexid);
	index->comment = GetComment(indexid, RelationRelationId, 0);
	if (OidIsValid(constraint))
		index->constraint_comment = GetComment(constraint, ConstraintRelationId, 0);
	keep_columns(index, indexid);
	index->hash = mosql_admin_is_shown_as_hash(indexid);
	index->exclusion = mosql_admin_is_exclusion(indexid);
	if (mosql_admin_is_bare_index(indexid))
		index->bare = bare_text(indexid);
	index->within = GetCurrentSubTransactionId();
	(void) take(index->relid, index->name);
	index->next = kept;
	kept = index;
	MemoryContextSwitchTo(old);
}

const char *
mosql_admin_kept_key(Oid relid)
{
	for (const KeptIndex *index = kept; index != NULL; index = index->next)
		if (index->relid == relid && index->primary)
			return OidIsValid(get_relname_relid(index->name, get_rel_namespace(relid))) ? NULL
				: index->name;
	return NULL;
}

List *
mosql_admin_kept_bare(Oid relid)
{
	List	   *statements = NIL;

	for (KeptIndex *index = kept; index != NULL; index = index->next)
		if (index->relid == relid && index->bare != NULL && index->within == GetCurrentSubTransactionId())
		{
			statements = lappend(statements, index->bare);
			index->bare = NULL;
		}
	return statements;
}

void
mosql_admin_restore_index(Oid indexid)
{
	const KeptIndex *index = take(IndexGetRelation(indexid, false), get_rel_name(indexid));
	Oid			constraint = get_index_constraint(indexid);

	if (index == NULL)
		return;
	if (index->comment != NULL)
		CreateComments(indexid, RelationRelationId, 0, index->comment);
	if (index->constraint_comment != NULL && OidIsValid(constraint))
		CreateComments(constraint, ConstraintRelationId, 0, index->constraint_comment);
}
