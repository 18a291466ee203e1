/*
 * privilege.c: may the current user do this?  Asked before a lock is taken.
 *
 * Layer: admin.  Whoever waits for a lock stands in the way of all who come after, so
 * what a command may not do, it must not wait for either.  Names are resolved with
 * callbacks of RangeVarGetRelidExtended(); OIDs are asked about before the lock and,
 * since waiting takes time, again behind it.  docs/security.md lists what needs what.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_namespace.h"
#include "commands/tablecmds.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/admin.h"

/* ---- relations ---- */

bool
mosql_admin_owns(Oid relid)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, relid, GetUserId());
#else
	return pg_class_ownercheck(relid, GetUserId());
#endif
}

void
mosql_admin_check_owner(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!mosql_admin_owns(relid))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)), name);
}

Relation
mosql_admin_lock_owned(Oid relid, LOCKMODE mode, const char *command)
{
	Relation	rel;

	mosql_admin_check_owner(relid);
	LockRelationOid(relid, mode);
	mosql_admin_check_owner(relid);
	rel = relation_open(relid, NoLock);
	CheckTableNotInUse(rel, command);
	return rel;
}

void
mosql_admin_check_index_unused(Oid indexid)
{
	bool		known = mosql_admin_is_our_index(indexid) || mosql_admin_is_bare_index(indexid);
	Oid			relid = known ? IndexGetRelation(indexid, true) : InvalidOid;
	Relation	rel = OidIsValid(relid) ? RelationIdGetRelation(relid) : NULL;

	if (rel == NULL)
		return;
	CheckTableNotInUse(rel, "DROP INDEX");
	RelationClose(rel);
}

/* ---- schemas and servers ---- */

void
mosql_admin_check_create(Oid schemaid)
{
#if PG_VERSION_NUM >= 160000
	AclResult	result = object_aclcheck(NamespaceRelationId, schemaid, GetUserId(), ACL_CREATE);
#else
	AclResult	result = pg_namespace_aclcheck(schemaid, GetUserId(), ACL_CREATE);
#endif

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_SCHEMA, get_namespace_name(schemaid));
}

bool
mosql_admin_may_use_server(Oid serverid)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ForeignServerRelationId, serverid, GetUserId(),
						   ACL_USAGE) == ACLCHECK_OK;
#else
	return pg_foreign_server_aclcheck(serverid, GetUserId(), ACL_USAGE) == ACLCHECK_OK;
#endif
}

void
mosql_admin_check_server(Oid serverid)
{
	if (!mosql_admin_may_use_server(serverid))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FOREIGN_SERVER,
					   GetForeignServer(serverid)->servername);
}
