/*
 * using_index.c: ADD CONSTRAINT ... UNIQUE, PRIMARY KEY USING INDEX.
 *
 * Layer: admin.  A unique index stays what it is, and becomes the constraint's, also in Redis.  A primary
 * key is where rows are stored: it is made of the index's columns, under its name, and the index goes.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/utility.h"

static void
refuse(const char *message)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg_internal("%s", message),
			 errdetail("Cannot create a primary key or unique constraint using such an index.")));
}

/* Is key column i of the index as a constraint on its column would have it? */
static bool
has_default_order(Relation rel, Relation index, int i)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), index->rd_index->indkey.values[i] - 1);

	return index->rd_indoption[i] == 0 && index->rd_indcollation[i] == att->attcollation &&
		get_index_column_opclass(RelationGetRelid(index), i + 1) == GetDefaultOpClass(att->atttypid, BTREE_AM_OID);
}

/* What core asks of such an index (transformIndexConstraint), in its words. */
static void
check_index(Relation rel, Relation index)
{
	const char *name = RelationGetRelationName(index);
	Form_pg_index form = index->rd_index;

	if (form->indrelid != RelationGetRelid(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" does not belong to table \"%s\"", name, RelationGetRelationName(rel))));
	if (OidIsValid(get_index_constraint(RelationGetRelid(index))))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is already associated with a constraint", name)));
	if (!form->indisunique)
		refuse(psprintf("\"%s\" is not a unique index", name));
	if (RelationGetIndexExpressions(index) != NIL)
		refuse(psprintf("index \"%s\" contains expressions", name));
	if (RelationGetIndexPredicate(index) != NIL)
		refuse(psprintf("\"%s\" is a partial index", name));
	for (int i = 0; i < form->indnkeyatts; i++)
		if (!has_default_order(rel, index, i))
			refuse(psprintf("index \"%s\" column number %d does not have default sorting behavior", name, i + 1));
}

static Relation
open_index(Relation rel, const char *name)
{
	Oid			indexid = get_relname_relid(name, RelationGetNamespace(rel));
	Relation	index;

	if (!OidIsValid(indexid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("index \"%s\" does not exist", name)));
	index = relation_open(indexid, AccessExclusiveLock);
	if (index->rd_rel->relkind != RELKIND_INDEX)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not an index", name)));
	check_index(rel, index);
	return index;
}

void
mosql_admin_unique_using(Relation rel, const Constraint *constraint)
{
	Relation	index = open_index(rel, constraint->indexname);
	Oid			indexid = RelationGetRelid(index);
	IndexInfo  *info = BuildIndexInfo(index);
	const char *name = constraint->conname != NULL ? constraint->conname : constraint->indexname;
	MosqlDefinition *there;
	MosqlDefinitionIndex *stored;

	relation_close(index, NoLock);
	stored = mosql_admin_stored_index(rel, indexid, constraint->indexname, &there);
	if (stored == NULL)
		mosql_table_differs(rel, psprintf("Index \"%s\" exists only here.", constraint->indexname));
	mosql_table_constrain_index(rel, mosql_fdw_session_for(RelationGetRelid(rel), InvalidOid), there,
								stored, name);
	if (strcmp(name, constraint->indexname) != 0)
	{
		ereport(NOTICE,
				(errmsg("ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"%s\" to \"%s\"",
						constraint->indexname, name)));
		RenameRelationInternal(indexid, name, false, true);
	}
	(void) index_constraint_create(rel, indexid, InvalidOid, info, name, CONSTRAINT_UNIQUE,
								   INDEX_CONSTR_CREATE_REMOVE_OLD_DEPS, false, false);
	CommandCounterIncrement();
}

void
mosql_admin_primary_key_using(Oid relid, Constraint *constraint)
{
	Relation	rel = mosql_admin_lock_owned(relid, AccessExclusiveLock, "ALTER TABLE");
	Relation	index = open_index(rel, constraint->indexname);
	ObjectAddress address;

	for (int i = 0; i < index->rd_index->indnatts; i++)
	{
		Node	   *name = (Node *) makeString(get_attname(relid, index->rd_index->indkey.values[i], false));

		if (i < index->rd_index->indnkeyatts)
			constraint->keys = lappend(constraint->keys, name);
		else
			constraint->including = lappend(constraint->including, name);
	}
	if (constraint->conname == NULL)
		constraint->conname = constraint->indexname;
	constraint->indexname = NULL;
	ObjectAddressSet(address, RelationRelationId, RelationGetRelid(index));
	relation_close(index, NoLock);
	relation_close(rel, NoLock);
	if (constraint->including == NIL && !constraint->deferrable)	/* or it is refused */
		performDeletion(&address, DROP_RESTRICT, 0);
}
