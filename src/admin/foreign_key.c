/*
 * foreign_key.c: FOREIGN KEY constraints of foreign tables.
 *
 * Layer: admin.  Core refuses them, since it could not enforce them.  Here they are
 * rows of pg_constraint, so that tools and ORMs see them, SET CONSTRAINTS knows
 * them, pg_dump writes them, and DROP and TRUNCATE of the referenced table ask for
 * CASCADE.  No triggers of rows go with them: src/fdw/reference.c enforces those between
 * tables of one server of ours.  Others are not enforced; a NOTICE says so.
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
#include "catalog/pg_trigger.h"
#include "commands/defrem.h"
#include "commands/trigger.h"
#include "foreign/foreign.h"
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
	const char *name;
	bool		deferrable;
	bool		deferred;
	bool		validated;
	bool		unenforced;		/* declared NOT ENFORCED: a row of pg_constraint, no more */
	char		match;
	char		on_update;
	char		on_delete;
	int			n;
	int16		columns[INDEX_MAX_KEYS];
	int			nreferenced;
	int16		referenced[INDEX_MAX_KEYS];
	Oid			index;			/* that makes the referenced columns unique */
	Oid			classes[INDEX_MAX_KEYS];	/* its operator classes, in our order */
	Oid			pf[INDEX_MAX_KEYS]; /* equality of referenced and referencing, */
	Oid			pp[INDEX_MAX_KEYS]; /* of two referenced, */
	Oid			ff[INDEX_MAX_KEYS]; /* and of two referencing values */
	int			nset;			/* ON DELETE SET ... (columns) */
	int16		set[INDEX_MAX_KEYS];
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

/* The index for key->referenced, or, if `primary`, that of the primary key, and these. */
static void
find_index(ForeignKey *key, Relation referenced, bool primary)
{
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(referenced))
		if (take_index(key, lfirst_oid(lc), primary))
			break;
	if (!OidIsValid(key->index) && primary)
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

/* taken: names that it must not get, besides those that are used here. */
static char *
make_name(Relation rel, const List *columns, List *taken)
{
	StringInfoData names;
	const ListCell *lc;

	initStringInfo(&names);
	foreach(lc, columns)
		appendStringInfo(&names, "%s%s", names.len > 0 ? "_" : "", strVal(lfirst(lc)));
	names.data[pg_mbcliplen(names.data, names.len, NAMEDATALEN - 1)] = '\0';
	return ChooseConstraintName(RelationGetRelationName(rel), names.data, "fkey",
								RelationGetNamespace(rel), taken);
}

static void report_used(Relation rel, const char *name, const char *detail) pg_attribute_noreturn();

static void
report_used(Relation rel, const char *name, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("constraint \"%s\" for relation \"%s\" already exists", name,
					RelationGetRelationName(rel)),
			 detail != NULL ? errdetail_internal("%s", detail) : 0));
}

PG_FUNCTION_INFO_V1(mosql_fdw_reference);

/*
 * Core looks for foreign keys only where a table has triggers: psql, pg_dump, TRUNCATE;
 * and ANALYZE finds out when it has none.  So both tables have one that goes with the
 * constraint, of the kind that costs least: once per DELETE, where it does nothing.
 */
static void
add_trigger(Relation rel, Oid constraint)
{
	CreateTrigStmt *trigger = makeNode(CreateTrigStmt);
	Oid			function = mosql_fdw_function("mosql_fdw_reference", 0, NULL);

	if (!OidIsValid(function))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function mosql_fdw_reference() does not exist"),
				 errhint("Update the extension mosql_fdw.")));
	trigger->trigname = "mosql_reference";
	trigger->timing = TRIGGER_TYPE_AFTER;
	trigger->events = TRIGGER_TYPE_DELETE;
	(void) CreateTrigger(trigger, NULL, RelationGetRelid(rel), InvalidOid, constraint, InvalidOid,
						 function, InvalidOid, NULL, true, false);
	CommandCounterIncrement();
}

Datum
mosql_fdw_reference(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("mosql_fdw_reference() can only be called as a trigger")));
	PG_RETURN_POINTER(NULL);
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
	mosql_table_validate_reference(rel, mosql_fdw_session_for(relid, InvalidOid), name);
	relation_close(rel, NoLock);
	return true;
}

/* The row of pg_constraint. */
static Oid
create_row(Relation rel, Relation referenced, const ForeignKey *key)
{
	Oid			oid = CreateConstraintEntry(key->name, RelationGetNamespace(rel), CONSTRAINT_FOREIGN,
											key->deferrable, key->deferred,
#if PG_VERSION_NUM >= 180000
											!key->unenforced,
#endif
											key->validated, InvalidOid, RelationGetRelid(rel),
											key->columns, key->n, key->n, InvalidOid, key->index,
											RelationGetRelid(referenced), key->referenced, key->pf,
											key->pp, key->ff, key->n, key->on_update,
											key->on_delete, key->set, key->nset, key->match,
											NULL, NULL, NULL, true, 0, true,
#if PG_VERSION_NUM >= 180000
											false,	/* PERIOD */
#endif
											false);

	CommandCounterIncrement();
	add_trigger(rel, oid);
	if (referenced->rd_rel->relkind == RELKIND_FOREIGN_TABLE &&
		RelationGetRelid(referenced) != RelationGetRelid(rel))
		add_trigger(referenced, oid);
	return oid;
}

/* ---- between the local tables and their definitions ---- */

static MosqlDefinition *
definition_of(Relation rel, MosqlSession *session)
{
	const char *schema;
	const char *name;

	mosql_table_remote_name(rel, &schema, &name);
	return mosql_table_definition(session, schema, name);
}

static uint32
column_id(const MosqlDefinition *definition, Relation rel, AttrNumber attnum)
{
	const char *name = get_attname(RelationGetRelid(rel), attnum, false);
	const MosqlDefinitionColumn *column = mosql_definition_column(definition, name);

	if (column == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" cannot be part of a foreign key", name),
				 errdetail("It is not stored.")));
	return column->id;
}

/* The foreign key as the definition of its table says it. */
static MosqlDefinitionReference *
globalize(const ForeignKey *key, Relation rel, const MosqlDefinition *child, Relation referenced,
		  const MosqlDefinition *parent)
{
	MosqlDefinitionReference *there = palloc0(sizeof(MosqlDefinitionReference));

	there->name = key->name;
	there->schema = parent->schema;
	there->table = parent->name;
	there->validated = key->validated;
	there->deferrable = key->deferrable;
	there->deferred = key->deferred;
	there->match = key->match;
	there->on_update = key->on_update;
	there->on_delete = key->on_delete;
	there->n = key->n;
	there->columns = palloc(key->n * sizeof(uint32));
	there->referenced = palloc(key->n * sizeof(uint32));
	for (int i = 0; i < key->n; i++)
	{
		there->columns[i] = column_id(child, rel, key->columns[i]);
		there->referenced[i] = column_id(parent, referenced, key->referenced[i]);
	}
	there->nset = key->nset;
	there->set = palloc(Max(key->nset, 1) * sizeof(uint32));
	for (int i = 0; i < key->nset; i++)
		there->set[i] = column_id(child, rel, key->set[i]);
	return there;
}

/* The attribute that a column is here; 0: none. */
static AttrNumber
attribute(const MosqlDefinition *definition, Relation rel, uint32 id)
{
	for (int i = 0; i < definition->ncolumns; i++)
		if (definition->columns[i].id == id && !definition->columns[i].dropped)
			return get_attnum(RelationGetRelid(rel), definition->columns[i].name);
	return 0;
}

/* And back; false if a column, or the index, is not here. */
static bool
localize(const MosqlDefinitionReference *there, Relation rel, const MosqlDefinition *child,
		 Relation referenced, const MosqlDefinition *parent, ForeignKey *key)
{
	ListCell   *lc;

	memset(key, 0, sizeof(*key));
	key->name = there->name;
	key->validated = there->validated;
	key->deferrable = there->deferrable;
	key->deferred = there->deferred;
	key->match = there->match;
	key->on_update = there->on_update;
	key->on_delete = there->on_delete;
	key->n = key->nreferenced = there->n;
	for (int i = 0; i < there->n; i++)
	{
		key->columns[i] = attribute(child, rel, there->columns[i]);
		key->referenced[i] = attribute(parent, referenced, there->referenced[i]);
		if (key->columns[i] <= 0 || key->referenced[i] <= 0)
			return false;
	}
	key->nset = there->nset;
	for (int i = 0; i < there->nset; i++)
	{
		key->set[i] = attribute(child, rel, there->set[i]);
		if (key->set[i] <= 0)
			return false;
	}
	foreach(lc, RelationGetIndexList(referenced))
		if (take_index(key, lfirst_oid(lc), false))
			break;
	return OidIsValid(key->index);
}

/* Is the local foreign key of that OID this one? */
static bool
is_same(Oid oid, const ForeignKey *key, Oid parent)
{
	MosqlForeignKey local;

	return mosql_foreign_key_find(oid, &local) && local.parent == parent &&
		local.deferrable == key->deferrable && local.deferred == key->deferred &&
		local.match == key->match && local.on_update == key->on_update &&
		local.on_delete == key->on_delete && local.n == key->n && local.nset == key->nset &&
		memcmp(local.columns, key->columns, key->n * sizeof(int16)) == 0 &&
		memcmp(local.referenced, key->referenced, key->n * sizeof(int16)) == 0 &&
		memcmp(local.set, key->set, key->nset * sizeof(int16)) == 0;
}

/* ---- ADD FOREIGN KEY between our tables ---- */

/* Names of the foreign keys that the table has in Redis. */
static List *
stored_names(const MosqlDefinition *child)
{
	List	   *names = NIL;

	for (int i = 0; i < child->nreferences; i++)
		names = lappend(names, (char *) child->references[i].name);
	return names;
}

/*
 * Its name: as given; else one that is new here, and in Redis either new, too, or that of
 * the same foreign key, which this table is to be attached to.
 */
static const char *
choose_name(Relation rel, const MosqlDefinition *child, const Constraint *constraint,
			MosqlDefinitionReference *there)
{
	const MosqlDefinitionReference *stored;

	if (constraint->conname != NULL)
		return constraint->conname;
	there->name = make_name(rel, constraint->fk_attrs, NIL);
	stored = mosql_definition_reference(child, there->name);
	if (stored != NULL && !mosql_definition_same_reference(stored, there))
		return make_name(rel, constraint->fk_attrs, stored_names(child));
	return there->name;
}

static void
add_shared(Relation rel, Relation referenced, ForeignKey *key, const Constraint *constraint)
{
	MosqlSession *session = mosql_fdw_session_for(RelationGetRelid(rel), InvalidOid);
	MosqlDefinition *child = definition_of(rel, session);
	MosqlDefinition *parent = definition_of(referenced, session);
	MosqlDefinitionReference *there;
	const MosqlDefinitionReference *stored;
	MosqlForeignKey made;
	Oid			oid;

	if (child == NULL || parent == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s\" does not exist in Redis",
						RelationGetRelationName(child == NULL ? rel : referenced)),
				 errhint("Drop the foreign table and create it again.")));
	there = globalize(key, rel, child, referenced, parent);
	there->name = key->name = choose_name(rel, child, constraint, there);
	stored = mosql_definition_reference(child, key->name);
	oid = get_relation_constraint_oid(RelationGetRelid(rel), key->name, true);
	if (stored != NULL && mosql_definition_same_reference(stored, there))
	{
		key->validated = stored->validated;
		if (!OidIsValid(oid))
			(void) create_row(rel, referenced, key);
		else if (is_same(oid, key, RelationGetRelid(referenced)))
			ereport(NOTICE,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("foreign key \"%s\" exists already, the same in Redis, skipping", key->name)));
		else
			report_used(rel, key->name, NULL);
		return;
	}
	if (stored != NULL || OidIsValid(oid))
		report_used(rel, key->name,
					OidIsValid(oid) ? NULL : "The table in Redis has another foreign key of that name.");
	oid = create_row(rel, referenced, key);
	mosql_table_add_reference(rel, referenced, session, there);
	CommandCounterIncrement();
	if (key->validated && mosql_foreign_key_find(oid, &made))
		validate(&made);
}

/* Known to the catalogs, and no more. */
static void
add_unenforced(Relation rel, Relation referenced, ForeignKey *key, const Constraint *constraint)
{
	key->name = constraint->conname;
	if (key->name == NULL)
		key->name = make_name(rel, constraint->fk_attrs, NIL);
	else if (ConstraintNameIsUsed(CONSTRAINT_RELATION, RelationGetRelid(rel), key->name))
		report_used(rel, key->name, NULL);
	(void) create_row(rel, referenced, key);
	if (key->unenforced)
		return;
	ereport(NOTICE,
			(errmsg("foreign key \"%s\" is not enforced", key->name),
			 errdetail("Rows of foreign table \"%s\" are not checked against those of \"%s\", which is not on the same server of mosql_fdw.",
					   RelationGetRelationName(rel), RelationGetRelationName(referenced))));
}

/* One transaction writes both, and they are there for longer than this session. */
static bool
can_be_shared(Relation rel, Relation referenced)
{
	return mosql_fdw_is_ours(RelationGetRelid(referenced)) &&
		GetForeignTable(RelationGetRelid(rel))->serverid ==
		GetForeignTable(RelationGetRelid(referenced))->serverid;
}

void
mosql_admin_add_foreign_key(Oid relid, const Constraint *constraint)
{
	Relation	rel = relation_open(relid, ShareRowExclusiveLock);
	Relation	referenced = table_openrv(constraint->pktable, ShareRowExclusiveLock);
	ForeignKey	key = {0};

	mosql_admin_check_owner(rel);
	key.deferrable = constraint->deferrable;
	key.deferred = constraint->initdeferred;
	key.validated = constraint->initially_valid || !constraint->skip_validation;
#if PG_VERSION_NUM >= 180000
	key.unenforced = !constraint->is_enforced;
	key.validated &= constraint->is_enforced;
#endif
	key.match = constraint->fk_matchtype;
	key.on_update = constraint->fk_upd_action;
	key.on_delete = constraint->fk_del_action;
	key.nset = column_numbers(rel, constraint->fk_del_set_cols, key.set);
	key.n = column_numbers(rel, constraint->fk_attrs, key.columns);
	key.nreferenced = column_numbers(referenced, constraint->pk_attrs, key.referenced);
	find_index(&key, referenced, constraint->pk_attrs == NIL);
	check_references(referenced, &key);
	find_operators(&key, rel, referenced,
				   constraint->conname ? constraint->conname : make_name(rel, constraint->fk_attrs, NIL));
	if (!key.unenforced && can_be_shared(rel, referenced))
		add_shared(rel, referenced, &key, constraint);
	else
		add_unenforced(rel, referenced, &key, constraint);
	relation_close(referenced, NoLock);
	relation_close(rel, NoLock);
}

/* ---- DROP, RENAME ---- */

/* Are local foreign keys being dropped that others have dropped, or that differ? */
static bool keep_data = false;

void
mosql_admin_foreign_key_dropped(Oid oid)
{
	MosqlForeignKey key;
	Relation	rel;

	if (keep_data || !mosql_admin_drop_data || !mosql_foreign_key_find(oid, &key))
		return;
	rel = relation_open(key.child, NoLock);
	if (!mosql_admin_is_window(rel))
		mosql_table_drop_reference(rel, mosql_fdw_session_for(key.child, InvalidOid),
								   NameStr(key.name));
	relation_close(rel, NoLock);
	CacheInvalidateRelcacheByRelid(key.parent);
}

bool
mosql_admin_foreign_key_renamed(Oid relid, const char *from, const char *to)
{
	Oid			oid = get_relation_constraint_oid(relid, to, true);
	MosqlForeignKey key;
	Relation	rel;

	if (!OidIsValid(oid) || !mosql_foreign_key_find(oid, &key))
		return false;
	rel = relation_open(relid, AccessShareLock);
	mosql_table_rename_reference(rel, mosql_fdw_session_for(relid, InvalidOid), from, to);
	relation_close(rel, NoLock);
	CacheInvalidateRelcacheByRelid(key.parent);
	return true;
}

/* ---- what other servers did ---- */

static void
drop_local(Oid oid)
{
	ObjectAddress address;
	bool		before = keep_data;

	ObjectAddressSet(address, ConstraintRelationId, oid);
	keep_data = true;
	PG_TRY();
	{
		performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	}
	PG_FINALLY();
	{
		keep_data = before;
	}
	PG_END_TRY();
	CommandCounterIncrement();
}

/* The local table of a name in Redis; InvalidOid if there is none. */
static Oid
find_table(Oid serverid, const char *schema, const char *name)
{
	ListCell   *lc;
	Oid			found = InvalidOid;

	foreach(lc, mosql_admin_server_tables(serverid))
	{
		Relation	rel = try_relation_open(lfirst_oid(lc), AccessShareLock);
		const char *other_schema;
		const char *other_name;

		if (rel == NULL)
			continue;
		mosql_table_remote_name(rel, &other_schema, &other_name);
		if (strcmp(schema, other_schema) == 0 && strcmp(name, other_name) == 0 &&
			(!OidIsValid(found) || rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP))
			found = lfirst_oid(lc);
		relation_close(rel, NoLock);
	}
	return found;
}

/* Bring one foreign key of a definition here.  No relation may be open, since core
 * drops none of a relation in use. */
static void
follow_one(Oid relid, const MosqlDefinition *child, const MosqlDefinitionReference *there)
{
	Oid			oid = get_relation_constraint_oid(relid, there->name, true);
	Oid			other = find_table(GetForeignTable(relid)->serverid, there->schema, there->table);
	Relation	rel;
	Relation	referenced;
	MosqlDefinition *parent;
	ForeignKey	key;
	bool		fits;

	if (!OidIsValid(other))
		return;
	rel = relation_open(relid, AccessShareLock);
	referenced = relation_open(other, AccessShareLock);
	parent = definition_of(referenced, mosql_fdw_session_for(relid, InvalidOid));
	fits = parent != NULL && localize(there, rel, child, referenced, parent, &key);
	relation_close(referenced, NoLock);
	relation_close(rel, NoLock);
	if (!fits || (OidIsValid(oid) && is_same(oid, &key, other)))
		return;
	if (OidIsValid(oid))
		drop_local(oid);
	rel = relation_open(relid, AccessShareLock);
	referenced = relation_open(other, AccessShareLock);
	find_operators(&key, rel, referenced, key.name);
	(void) create_row(rel, referenced, &key);
	relation_close(referenced, NoLock);
	relation_close(rel, NoLock);
}

static MosqlDefinition *
definition_by_oid(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	MosqlDefinition *definition = definition_of(rel, mosql_fdw_session_for(relid, InvalidOid));

	relation_close(rel, NoLock);
	return definition;
}

static void
follow_child(Oid relid)
{
	MosqlDefinition *child = definition_by_oid(relid);
	ListCell   *lc;

	if (child == NULL)
		return;
	foreach(lc, mosql_foreign_keys(relid))
	{
		const MosqlForeignKey *key = lfirst(lc);

		if (key->child == relid && mosql_definition_reference(child, NameStr(key->name)) == NULL)
			drop_local(key->oid);
	}
	for (int i = 0; i < child->nreferences; i++)
		follow_one(relid, child, &child->references[i]);
}

void
mosql_admin_follow_foreign_keys(Oid relid)
{
	MosqlDefinition *definition;

	follow_child(relid);
	definition = definition_by_oid(relid);
	for (int i = 0; definition != NULL && i < definition->nreferrers; i++)
	{
		Oid			child = find_table(GetForeignTable(relid)->serverid,
									   definition->referrers[i].schema,
									   definition->referrers[i].table);

		if (OidIsValid(child) && child != relid)
			follow_child(child);
	}
}
