/*
 * identity.c: whose functions run as whom.
 *
 * Layer: table.  What belongs to a table, or to a type, may be made of functions of its
 * owner: expressions of columns, CHECKs, casts, and the CHECKs of domains.  They must not
 * get the rights of whoever happens to read, alter or analyze the table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/tupdesc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "table/table_int.h"

/* As PostgreSQL does for what it maintains: no way back, and settings do not stay. */
void
mosql_identity_take(Oid user, MosqlIdentity *before)
{
	GetUserIdAndSecContext(&before->user, &before->context);
	SetUserIdAndSecContext(user, before->context | SECURITY_RESTRICTED_OPERATION);
	before->level = NewGUCNestLevel();
}

void
mosql_identity_give_back(const MosqlIdentity *before)
{
	AtEOXact_GUC(false, before->level);
	SetUserIdAndSecContext(before->user, before->context);
}

/* ---- types that run something when a value is read ---- */

/* The owner of a domain, and what it is a domain over. */
static Oid
domain_owner(Oid type, Oid *base)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	owner = ((Form_pg_type) GETSTRUCT(tuple))->typowner;
	*base = ((Form_pg_type) GETSTRUCT(tuple))->typbasetype;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * One more whose functions run when a value is read.  One role cannot run them for two
 * owners: either would run as the other.
 */
static void
note_owner(Oid *noted, Oid owner, Oid type)
{
	if (superuser_arg(owner))
		return;
	if (OidIsValid(*noted) && *noted != owner)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a column's type contains domains of several owners"),
				 errdetail("One of them is %s.", format_type_be(type)),
				 errhint("Give these domains one owner: ALTER DOMAIN ... OWNER TO.")));
	*noted = owner;
}

/* Who owns the domains that a type is, or contains. */
static void
note_owners(Oid type, Oid *noted)
{
	Oid			element = get_element_type(type);
	Oid			base;
	TupleDesc	desc;

	check_stack_depth();
	if (OidIsValid(element))
	{
		note_owners(element, noted);
		return;
	}
	switch (get_typtype(type))
	{
		case TYPTYPE_DOMAIN:
			note_owner(noted, domain_owner(type, &base), type);
			note_owners(base, noted);
			break;
		case TYPTYPE_COMPOSITE:
			desc = lookup_rowtype_tupdesc_copy(type, -1);
			for (int i = 0; i < desc->natts; i++)
				if (!TupleDescAttr(desc, i)->attisdropped)
					note_owners(TupleDescAttr(desc, i)->atttypid, noted);
			FreeTupleDesc(desc);
			break;
		case TYPTYPE_RANGE:
			note_owners(get_range_subtype(type), noted);
			break;
		case TYPTYPE_MULTIRANGE:
			note_owners(get_multirange_range(type), noted);
			break;
		default:
			break;
	}
}

Oid
mosql_identity_of_reading(Oid type)
{
	Oid			owner = InvalidOid;

	if (type >= FirstNormalObjectId)
		note_owners(type, &owner);
	return owner;
}
