/*
 * foreign_key.c: FOREIGN KEY constraints of foreign tables.
 *
 * Layer: admin.  Core refuses them, since it could not enforce them.  Here they are
 * rows of pg_constraint, so that tools and ORMs see them, SET CONSTRAINTS knows
 * them, pg_dump writes them, and DROP and TRUNCATE of the referenced table ask for
 * CASCADE.  No triggers go with them: src/fdw/reference.c enforces those between tables
 * of one server of ours.  Others are not enforced; a NOTICE says so.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "commands/defrem.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "admin/admin.h"
#include "fdw/reference.h"

typedef struct ForeignKey
{
	int			n;
	int16		columns[INDEX_MAX_KEYS];
	int			nreferenced;
	int16		referenced[INDEX_MAX_KEYS];
	Oid			index;			/* that makes the referenced columns unique */
	Oid			classes[INDEX_MAX_KEYS];	/* its operator classes, in our order */
	Oid			pf[INDEX_MAX_KEYS]; /* equality of referenced and referencing, */
	Oid			pp[INDEX_MAX_KEYS]; /* of two referenced, */
	Oid			ff[INDEX_MAX_KEYS]; /* and of two referencing values */
} ForeignKey;

static int
column_numbers(Relation rel, const List *names, int16 *numbers)
{
	ListCell   *lc;
	int			n = 0;

	if (list_length(names) > INDEX_MAX_KEYS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("cannot have more than %d keys in a foreign key", INDEX_MAX_KEYS)));
	foreach(lc, names)
	{
		numbers[n] = get_attnum(RelationGetRelid(rel), strVal(lfirst(lc)));
		if (numbers[n++] <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" referenced in foreign key constraint does not exist",
							strVal(lfirst(lc)))));
	}
	return n;
}

/* Does this index make the referenced columns unique?  Then take its classes. */
static bool
take_index(ForeignKey *key, Oid indexid, bool primary)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	Form_pg_index index;
	oidvector  *classes;
	bool		isnull;
	bool		fits;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	index = (Form_pg_index) GETSTRUCT(tuple);
	classes = (oidvector *) DatumGetPointer(SysCacheGetAttr(INDEXRELID, tuple,
															Anum_pg_index_indclass, &isnull));
	fits = index->indisunique && index->indimmediate && index->indisvalid &&
		heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
		heap_attisnull(tuple, Anum_pg_index_indexprs, NULL);
	if (fits && primary)
	{
		fits = index->indisprimary;
		key->nreferenced = index->indnkeyatts;
		for (int i = 0; i < index->indnkeyatts; i++)
			key->referenced[i] = index->indkey.values[i];
	}
	fits = fits && index->indnkeyatts == key->nreferenced;
	for (int i = 0; fits && i < key->nreferenced; i++)
	{
		fits = false;
		for (int j = 0; j < index->indnkeyatts; j++)
			if (index->indkey.values[j] == key->referenced[i])
			{
				key->classes[i] = classes->values[j];
				fits = true;
			}
	}
	ReleaseSysCache(tuple);
	if (fits)
		key->index = indexid;
	return fits;
}

static void
find_index(ForeignKey *key, Relation referenced, const List *names)
{
	ListCell   *lc;

	key->nreferenced = column_numbers(referenced, names, key->referenced);
	foreach(lc, RelationGetIndexList(referenced))
		if (take_index(key, lfirst_oid(lc), names == NIL))
			break;
	if (!OidIsValid(key->index) && names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("there is no primary key for referenced table \"%s\"",
						RelationGetRelationName(referenced))));
	if (!OidIsValid(key->index))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FOREIGN_KEY),
				 errmsg("there is no unique constraint matching given keys for referenced table \"%s\"",
						RelationGetRelationName(referenced))));
	if (key->nreferenced != key->n)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FOREIGN_KEY),
				 errmsg("number of referencing and referenced columns for foreign key disagree")));
}

/* The operators that would compare; 42804 if there are none, as core. */
static void
find_operators(ForeignKey *key, Relation rel, Relation referenced, const char *name)
{
	for (int i = 0; i < key->n; i++)
	{
		Oid			family = get_opclass_family(key->classes[i]);
		Oid			input = get_opclass_input_type(key->classes[i]);
		Oid			mine = getBaseType(get_atttype(RelationGetRelid(rel), key->columns[i]));

		key->pp[i] = get_opfamily_member(family, input, input, BTEqualStrategyNumber);
		key->pf[i] = get_opfamily_member(family, input, mine, BTEqualStrategyNumber);
		key->ff[i] = get_opfamily_member(family, mine, mine, BTEqualStrategyNumber);
		if (OidIsValid(key->pf[i]) && OidIsValid(key->ff[i]))
			continue;
		if (!can_coerce_type(1, &mine, &input, COERCION_IMPLICIT))
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("foreign key constraint \"%s\" cannot be implemented", name),
					 errdetail("Key columns \"%s\" and \"%s\" are of incompatible types: %s and %s.",
							   get_attname(RelationGetRelid(rel), key->columns[i], false),
							   get_attname(RelationGetRelid(referenced), key->referenced[i], false),
							   format_type_be(mine),
							   format_type_be(get_atttype(RelationGetRelid(referenced),
														  key->referenced[i])))));
		key->pf[i] = key->ff[i] = key->pp[i];
	}
}

static const char *
choose_name(Relation rel, const Constraint *constraint)
{
	StringInfoData columns;
	ListCell   *lc;

	if (constraint->conname != NULL)
	{
		if (ConstraintNameIsUsed(CONSTRAINT_RELATION, RelationGetRelid(rel), constraint->conname))
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("constraint \"%s\" for relation \"%s\" already exists",
							constraint->conname, RelationGetRelationName(rel))));
		return constraint->conname;
	}
	initStringInfo(&columns);
	foreach(lc, constraint->fk_attrs)
		appendStringInfo(&columns, "%s%s", columns.len > 0 ? "_" : "", strVal(lfirst(lc)));
	columns.data[pg_mbcliplen(columns.data, columns.len, NAMEDATALEN - 1)] = '\0';
	return ChooseConstraintName(RelationGetRelationName(rel), columns.data, "fkey",
								RelationGetNamespace(rel), NIL);
}

/* Only of tables that have triggers psql, pg_dump and TRUNCATE ask for foreign keys. */
static void
set_has_triggers(Relation rel)
{
	Relation	catalog = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(RelationGetRelid(rel)));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", RelationGetRelid(rel));
	if (!((Form_pg_class) GETSTRUCT(tuple))->relhastriggers)
	{
		((Form_pg_class) GETSTRUCT(tuple))->relhastriggers = true;
		CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	}
	CacheInvalidateRelcache(rel);
	heap_freetuple(tuple);
	table_close(catalog, RowExclusiveLock);
	CommandCounterIncrement();
}

static void
check_references(Relation referenced, const ForeignKey *key)
{
	Oid			relid = RelationGetRelid(referenced);

	if (pg_class_aclcheck(relid, GetUserId(), ACL_REFERENCES) == ACLCHECK_OK)
		return;
	for (int i = 0; i < key->nreferenced; i++)
		if (pg_attribute_aclcheck(relid, key->referenced[i], GetUserId(),
								  ACL_REFERENCES) != ACLCHECK_OK)
			aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(referenced->rd_rel->relkind),
						   RelationGetRelationName(referenced));
}

/* ---- a column's type changes ---- */

/* Is it a foreign key of, or to, this column? */
static bool
concerns(HeapTuple tuple, Oid relid, AttrNumber attnum)
{
	Form_pg_constraint constraint = (Form_pg_constraint) GETSTRUCT(tuple);
	AttrNumber	columns[INDEX_MAX_KEYS];
	AttrNumber	referenced[INDEX_MAX_KEYS];
	AttrNumber	set_columns[INDEX_MAX_KEYS];
	Oid			pf[INDEX_MAX_KEYS];
	Oid			pp[INDEX_MAX_KEYS];
	Oid			ff[INDEX_MAX_KEYS];
	int			n;
	int			nset;
	bool		found = false;

	if (constraint->contype != CONSTRAINT_FOREIGN ||
		(constraint->conrelid != relid && constraint->confrelid != relid))
		return false;
	DeconstructFkConstraintRow(tuple, &n, columns, referenced, pf, pp, ff, &nset, set_columns);
	for (int i = 0; i < n; i++)
		found |= (constraint->conrelid == relid && columns[i] == attnum) ||
			(constraint->confrelid == relid && referenced[i] == attnum);
	return found;
}

List *
mosql_admin_take_foreign_keys(Oid relid, const char *column)
{
	AttrNumber	attnum = get_attnum(relid, column);
	Relation	catalog = table_open(ConstraintRelationId, RowExclusiveLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	List	   *keys = NIL;
	List	   *commands = NIL;
	HeapTuple	tuple;
	ListCell   *lc;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (concerns(tuple, relid, attnum))
			keys = lappend_oid(keys, ((Form_pg_constraint) GETSTRUCT(tuple))->oid);
	systable_endscan(scan);
	table_close(catalog, RowExclusiveLock);
	foreach(lc, keys)
	{
		ObjectAddress address;

		commands = lappend(commands, pg_get_constraintdef_command(lfirst_oid(lc)));
		ObjectAddressSet(address, ConstraintRelationId, lfirst_oid(lc));
		performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	}
	if (keys != NIL)
		CommandCounterIncrement();
	return commands;
}

/* ---- ADD FOREIGN KEY, VALIDATE CONSTRAINT ---- */

/* Do all rows obey it, now and until the transaction commits? */
static void
validate(const MosqlForeignKey *key)
{
	mosql_reference_validate(mosql_reference_open(key, mosql_fdw_session_for(key->child, InvalidOid)));
}

static void
set_validated(Oid oid)
{
	Relation	catalog = table_open(ConstraintRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(CONSTROID, ObjectIdGetDatum(oid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for constraint %u", oid);
	((Form_pg_constraint) GETSTRUCT(tuple))->convalidated = true;
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(catalog, RowExclusiveLock);
	CommandCounterIncrement();
}

bool
mosql_admin_validate_foreign_key(Oid relid, const char *name)
{
	Oid			oid = get_relation_constraint_oid(relid, name, true);
	Relation	rel;
	MosqlForeignKey key;

	if (!OidIsValid(oid) || !mosql_foreign_key_find(oid, &key))
		return false;
	rel = relation_open(relid, ShareUpdateExclusiveLock);
	mosql_admin_check_owner(rel);
	validate(&key);
	set_validated(oid);
	relation_close(rel, NoLock);
	return true;
}

void
mosql_admin_add_foreign_key(Oid relid, const Constraint *constraint)
{
	Relation	rel = relation_open(relid, ShareRowExclusiveLock);
	Relation	referenced = table_openrv(constraint->pktable, ShareRowExclusiveLock);
	ForeignKey	key = {0};
	MosqlForeignKey made;
	Oid			oid;
	const char *name = choose_name(rel, constraint);
	int16		set_columns[INDEX_MAX_KEYS];
	int			nset = column_numbers(rel, constraint->fk_del_set_cols, set_columns);
	bool		is_valid = constraint->initially_valid || !constraint->skip_validation;

	mosql_admin_check_owner(rel);
	key.n = column_numbers(rel, constraint->fk_attrs, key.columns);
	find_index(&key, referenced, constraint->pk_attrs);
	check_references(referenced, &key);
	find_operators(&key, rel, referenced, name);
	oid = CreateConstraintEntry(name, RelationGetNamespace(rel), CONSTRAINT_FOREIGN,
								 constraint->deferrable, constraint->initdeferred,
#if PG_VERSION_NUM >= 180000
								 true,	/* enforced */
#endif
								 is_valid,
								 InvalidOid, relid, key.columns, key.n, key.n,
								 InvalidOid, key.index, RelationGetRelid(referenced),
								 key.referenced, key.pf, key.pp, key.ff, key.n,
								 constraint->fk_upd_action, constraint->fk_del_action,
								 set_columns, nset, constraint->fk_matchtype,
								 NULL, NULL, NULL,
								 true, 0, true,
#if PG_VERSION_NUM >= 180000
								 false, /* PERIOD */
#endif
								 false);
	CommandCounterIncrement();
	set_has_triggers(rel);
	if (referenced->rd_rel->relkind == RELKIND_FOREIGN_TABLE &&
		RelationGetRelid(referenced) != relid)
		set_has_triggers(referenced);
	if (!mosql_foreign_key_find(oid, &made))
		ereport(NOTICE,
				(errmsg("foreign key \"%s\" is not enforced", name),
				 errdetail("Rows of foreign table \"%s\" are not checked against those of \"%s\", which is not on the same server of mosql_fdw.",
						   RelationGetRelationName(rel), RelationGetRelationName(referenced))));
	else if (is_valid)
		validate(&made);
	relation_close(referenced, NoLock);
	relation_close(rel, NoLock);
}
