/*
 * index_drop.c: DROP and RENAME of indexes reach the definition in Redis.
 *
 * Layer: admin.  This server's catalog may be behind: the index that is dropped here goes there only if it is that one.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/utility.h"

/* Set while we drop a local index whose data stays. */
static bool keep_data = false;

void
mosql_admin_delete_here(const ObjectAddress *address, bool *keep)
{
	bool		before = *keep;

	*keep = true;
	PG_TRY();
	{
		performDeletion(address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	}
	PG_FINALLY();
	{
		*keep = before;
	}
	PG_END_TRY();
	CommandCounterIncrement();
}

void
mosql_admin_drop_local_index(Oid indexid)
{
	Oid			constraint = get_index_constraint(indexid);
	ObjectAddress address;

	mosql_admin_unlink_index(indexid);
	if (OidIsValid(constraint))
		ObjectAddressSet(address, ConstraintRelationId, constraint);
	else
		ObjectAddressSet(address, RelationRelationId, indexid);
	mosql_admin_delete_here(&address, &keep_data);
}

static char *
index_difference(const char *name)
{
	return psprintf("Index \"%s\" is another one there.", name);
}

/* Before the local index goes. */
void
mosql_admin_index_dropped(Oid indexid)
{
	Oid			relid;
	Relation	rel;
	MosqlSession *session;
	MosqlDefinition *there;
	MosqlDefinitionIndex *index;

	if (keep_data || !mosql_admin_drop_data || !mosql_admin_is_our_index(indexid))
		return;
	relid = IndexGetRelation(indexid, true);
	if (!OidIsValid(relid) || !mosql_fdw_is_ours(relid))
		return;
	rel = relation_open(relid, NoLock);
	session = mosql_fdw_session_for(relid, InvalidOid);
	there = mosql_fdw_primary_key(rel) != indexid ? mosql_definition_of(rel, session) : NULL;
	index = there != NULL ? mosql_definition_index(there, get_rel_name(indexid)) : NULL;
	if (index != NULL && mosql_admin_is_index(indexid, rel, there, index))
		mosql_table_drop_index(rel, session, there, index);
	else if (index != NULL)
		mosql_admin_note_gone_other(relid, index_difference(index->name));
	relation_close(rel, NoLock);
}

MosqlDefinitionIndex *
mosql_admin_stored_index(Relation rel, Oid indexid, const char *name, MosqlDefinition **there)
{
	MosqlDefinitionIndex *index;

	*there = mosql_definition_of(rel, mosql_fdw_session_for(RelationGetRelid(rel), InvalidOid));
	index = *there != NULL ? mosql_definition_index(*there, name) : NULL;
	if (index != NULL && !mosql_admin_is_index(indexid, rel, *there, index))
		mosql_table_differs(rel, index_difference(name));
	return index;
}

void
mosql_admin_index_renamed(Oid indexid, const char *from)
{
	Oid			relid = IndexGetRelation(indexid, true);
	Relation	rel;
	MosqlDefinition *there;
	MosqlDefinitionIndex *index;

	if (!OidIsValid(relid) || !mosql_fdw_is_ours(relid))
		return;
	rel = relation_open(relid, AccessShareLock);
	index = mosql_admin_stored_index(rel, indexid, from, &there);
	if (index != NULL)
		mosql_table_rename_index(rel, mosql_fdw_session_for(relid, InvalidOid), there, index,
								 get_rel_name(indexid));
	relation_close(rel, NoLock);
}
