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
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_constraint.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "admin/foreign_key.h"

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

static bool
has_column(const int16 *columns, int n, int16 attnum)
{
	for (int i = 0; i < n; i++)
		if (columns[i] == attnum)
			return true;
	return false;
}

/* The columns of ON DELETE SET ..., each once. */
static int
set_columns(Relation rel, const List *names, int16 *numbers)
{
	int16		named[INDEX_MAX_KEYS];
	int			n = column_numbers(rel, names, named);
	int			nset = 0;

	for (int i = 0; i < n; i++)
		if (!has_column(numbers, nset, named[i]))
			numbers[nset++] = named[i];
	return nset;
}

static void
report_generated(const char *event)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg("invalid %s action for foreign key constraint containing generated column",
					event)));
}

/* What core refuses of the columns that were named, besides what is no index. */
static void
check_columns(const MosqlLocalForeignKey *key, Relation rel)
{
	for (int i = 0; i < key->nreferenced; i++)
		if (has_column(key->referenced, i, key->referenced[i]))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_FOREIGN_KEY),
					 errmsg("foreign key referenced-columns list must not contain duplicates")));
	for (int i = 0; i < key->nset; i++)
		if (!has_column(key->columns, key->n, key->set[i]))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
					 errmsg("column \"%s\" referenced in ON DELETE SET action must be part of foreign key",
							get_attname(RelationGetRelid(rel), key->set[i], false))));
	for (int i = 0; i < key->n; i++)
	{
		if (TupleDescAttr(RelationGetDescr(rel), key->columns[i] - 1)->attgenerated == '\0')
			continue;
		if (key->on_update == FKCONSTR_ACTION_SETNULL || key->on_update == FKCONSTR_ACTION_SETDEFAULT ||
			key->on_update == FKCONSTR_ACTION_CASCADE)
			report_generated("ON UPDATE");
		if (key->on_delete == FKCONSTR_ACTION_SETNULL || key->on_delete == FKCONSTR_ACTION_SETDEFAULT)
			report_generated("ON DELETE");
	}
}

/* The index for key->referenced, or, if `primary`, that of the primary key, and these. */
static void
find_index(MosqlLocalForeignKey *key, Relation referenced, bool primary)
{
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(referenced))
		if (mosql_admin_take_unique_index(key, lfirst_oid(lc), primary))
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

/* Before the lock is taken: may the table, or some column of it, be referenced at all? */
static void
may_reference(const RangeVar *name, Oid relid, Oid old_relid, void *arg)
{
	if (OidIsValid(relid) &&
		pg_class_aclcheck(relid, GetUserId(), ACL_REFERENCES) != ACLCHECK_OK &&
		pg_attribute_aclcheck_all(relid, GetUserId(), ACL_REFERENCES, ACLMASK_ANY) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, get_relkind_objtype(get_rel_relkind(relid)), name->relname);
}

static void
check_references(Relation referenced, const MosqlLocalForeignKey *key)
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

/* The columns of a foreign key, of its table and of the one that it leads to. */
typedef struct KeyColumns
{
	int			n;
	AttrNumber	columns[INDEX_MAX_KEYS];
	AttrNumber	referenced[INDEX_MAX_KEYS];
} KeyColumns;

static void
read_columns(HeapTuple tuple, KeyColumns *key)
{
	AttrNumber	set_columns[INDEX_MAX_KEYS];
	Oid			pf[INDEX_MAX_KEYS];
	Oid			pp[INDEX_MAX_KEYS];
	Oid			ff[INDEX_MAX_KEYS];
	int			nset;

	DeconstructFkConstraintRow(tuple, &key->n, key->columns, key->referenced, pf, pp, ff, &nset, set_columns);
}

/* Is it a foreign key of, or to, this column? */
static bool
concerns(HeapTuple tuple, Oid relid, AttrNumber attnum, bool own)
{
	Form_pg_constraint constraint = (Form_pg_constraint) GETSTRUCT(tuple);
	KeyColumns	key;

	if (constraint->contype != CONSTRAINT_FOREIGN ||
		(constraint->conrelid != relid && (own || constraint->confrelid != relid)))
		return false;
	read_columns(tuple, &key);
	return (constraint->conrelid == relid && has_column(key.columns, key.n, attnum)) ||
		(!own && constraint->confrelid == relid && has_column(key.referenced, key.n, attnum));
}

static bool
drops_column(const AlterTableStmt *statement, Oid relid, const AttrNumber *columns, int n)
{
	const ListCell *lc;

	foreach(lc, statement->cmds)
	{
		const AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);

		if (command->subtype == AT_DropColumn && has_column(columns, n, get_attnum(relid, command->name)))
			return true;
	}
	return false;
}

/* Does the statement drop it, or a column of its table that it needs? */
static bool
is_dropped_by(const AlterTableStmt *statement, Oid relid, HeapTuple tuple)
{
	Form_pg_constraint constraint = (Form_pg_constraint) GETSTRUCT(tuple);
	KeyColumns	key;

	read_columns(tuple, &key);
	return constraint->conrelid == relid &&
		(mosql_admin_drops_constraint(statement, NameStr(constraint->conname)) ||
		 drops_column(statement, relid, key.columns, key.n));
}

/* Does the statement drop what it leads to?  Core asks for CASCADE then. */
static bool
loses_parent_by(const AlterTableStmt *statement, Oid relid, HeapTuple tuple)
{
	Form_pg_constraint constraint = (Form_pg_constraint) GETSTRUCT(tuple);
	const char *index = get_rel_name(constraint->conindid);
	KeyColumns	key;

	read_columns(tuple, &key);
	return constraint->confrelid == relid &&
		((index != NULL && mosql_admin_drops_constraint(statement, index)) ||
		 drops_column(statement, relid, key.referenced, key.n));
}

/* DROP CONSTRAINT of what has been dropped already. */
static void
remove_drop(AlterTableStmt *statement, const char *name)
{
	ListCell   *lc;

	foreach(lc, statement->cmds)
	{
		const AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);

		if (command->subtype == AT_DropConstraint && strcmp(command->name, name) == 0)
		{
			statement->cmds = list_delete_cell(statement->cmds, lc);
			return;
		}
	}
}

/* The foreign keys of the column, or to it, that are in its way: oids. */
static List *
keys_in_the_way(Oid relid, AttrNumber attnum, bool own, const AlterTableStmt *statement)
{
	Relation	catalog = table_open(ConstraintRelationId, RowExclusiveLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	List	   *keys = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (concerns(tuple, relid, attnum, own) &&
			(is_dropped_by(statement, relid, tuple) || !loses_parent_by(statement, relid, tuple)))
			keys = lappend_oid(keys, ((Form_pg_constraint) GETSTRUCT(tuple))->oid);
	systable_endscan(scan);
	table_close(catalog, RowExclusiveLock);
	return keys;
}

/* Drop it now; the SQL that makes it again, NULL if the statement drops it. */
static char *
take_foreign_key(Oid relid, Oid oid, AlterTableStmt *statement)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(oid));
	ObjectAddress address;
	char	   *again = NULL;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for constraint %u", oid);
	if (is_dropped_by(statement, relid, tuple))
		remove_drop(statement, NameStr(((Form_pg_constraint) GETSTRUCT(tuple))->conname));
	else
		again = pg_get_constraintdef_command(oid);
	ReleaseSysCache(tuple);
	ObjectAddressSet(address, ConstraintRelationId, oid);
	performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	return again;
}

List *
mosql_admin_take_foreign_keys(Oid relid, const char *column, bool own, AlterTableStmt *statement)
{
	List	   *keys = keys_in_the_way(relid, get_attnum(relid, column), own, statement);
	List	   *commands = NIL;
	ListCell   *lc;

	foreach(lc, keys)
	{
		char	   *again = take_foreign_key(relid, lfirst_oid(lc), statement);

		if (again != NULL)
			commands = lappend(commands, again);
	}
	if (keys != NIL)
		CommandCounterIncrement();
	return commands;
}

/* ---- ADD FOREIGN KEY, VALIDATE CONSTRAINT ---- */

void
mosql_admin_set_validated(Oid oid, bool validated)
{
	Relation	catalog = table_open(ConstraintRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(CONSTROID, ObjectIdGetDatum(oid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for constraint %u", oid);
	if (((Form_pg_constraint) GETSTRUCT(tuple))->convalidated != validated)
	{
		((Form_pg_constraint) GETSTRUCT(tuple))->convalidated = validated;
		CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
		CommandCounterIncrement();
	}
	heap_freetuple(tuple);
	table_close(catalog, RowExclusiveLock);
}

bool
mosql_admin_validate_foreign_key(Oid relid, const char *name)
{
	Oid			oid = get_relation_constraint_oid(relid, name, true);
	MosqlSession *session;
	Relation	rel;
	MosqlForeignKey key;

	if (!OidIsValid(oid) || !mosql_foreign_key_find(oid, &key))
		return false;
	rel = mosql_admin_lock_owned(relid, ShareUpdateExclusiveLock, "ALTER TABLE");
	session = mosql_fdw_session_for(relid, InvalidOid);
	mosql_table_validate_reference(rel, session, mosql_reference_validate(&key, session));
	mosql_admin_set_validated(oid, true);
	relation_close(rel, NoLock);
	return true;
}

/* What ALTER CONSTRAINT asks for; false: something that core is to refuse. */
static bool
read_deferral(const Node *def, const char **name, bool *deferrable, bool *deferred)
{
#if PG_VERSION_NUM >= 180000
	const ATAlterConstraint *alter = (const ATAlterConstraint *) def;

	*name = alter->conname;
	*deferrable = alter->deferrable;
	*deferred = alter->initdeferred;
	return alter->alterDeferrability && !alter->alterEnforceability && !alter->alterInheritability;
#else
	const Constraint *alter = (const Constraint *) def;

	*name = alter->conname;
	*deferrable = alter->deferrable;
	*deferred = alter->initdeferred;
	return true;
#endif
}

static void
set_deferral(Oid oid, bool deferrable, bool deferred)
{
	Relation	catalog = table_open(ConstraintRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(CONSTROID, ObjectIdGetDatum(oid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for constraint %u", oid);
	((Form_pg_constraint) GETSTRUCT(tuple))->condeferrable = deferrable;
	((Form_pg_constraint) GETSTRUCT(tuple))->condeferred = deferred;
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(catalog, RowExclusiveLock);
	CommandCounterIncrement();
}

bool
mosql_admin_alter_foreign_key(Oid relid, const Node *def)
{
	const char *name;
	bool		deferrable;
	bool		deferred;
	Oid			oid;
	MosqlSession *session;
	Relation	rel;
	MosqlForeignKey key;

	if (!read_deferral(def, &name, &deferrable, &deferred))
		return false;
	oid = get_relation_constraint_oid(relid, name, false);
	if (!mosql_foreign_key_find(oid, &key))
		return false;
	rel = mosql_admin_lock_owned(relid, ShareRowExclusiveLock, "ALTER TABLE");
	session = mosql_fdw_session_for(relid, InvalidOid);
	mosql_session_refresh_schema(session);	/* it may be another one by now */
	mosql_table_defer_reference(rel, session, mosql_reference_open_existing(&key, session)->stored,
								deferrable, deferred);
	set_deferral(oid, deferrable, deferred);
	CacheInvalidateRelcache(rel);
	CacheInvalidateRelcacheByRelid(key.parent);
	relation_close(rel, NoLock);
	return true;
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
globalize(const MosqlLocalForeignKey *key, Relation rel, const MosqlDefinition *child, Relation referenced,
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
add_shared(Relation rel, Relation referenced, MosqlLocalForeignKey *key, const Constraint *constraint)
{
	MosqlSession *session = mosql_fdw_session_for(RelationGetRelid(rel), InvalidOid);
	MosqlDefinition *child = mosql_definition_of(rel, session);
	MosqlDefinition *parent = mosql_definition_of(referenced, session);
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
			(void) mosql_admin_create_foreign_key(rel, referenced, key);
		else if (mosql_admin_is_foreign_key(oid, key, RelationGetRelid(referenced)))
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
	oid = mosql_admin_create_foreign_key(rel, referenced, key);
	mosql_table_add_reference(rel, referenced, session, there);
	CommandCounterIncrement();
	if (!mosql_foreign_key_find(oid, &made))
		return;
	if (key->validated)
		(void) mosql_reference_validate(&made, session);
	else
		(void) mosql_reference_open_existing(&made, session);	/* can it be enforced at all? */
}

/*
 * Known to the catalogs, and no more.  Not even that if it leads to a partitioned table: core copies
 * such a constraint for each new partition, with triggers that it would not find (XX000).
 */
static void
add_unenforced(Relation rel, Relation referenced, MosqlLocalForeignKey *key,
			   const Constraint *constraint)
{
	key->name = constraint->conname;
	if (key->name == NULL)
		key->name = make_name(rel, constraint->fk_attrs, NIL);
	else if (ConstraintNameIsUsed(CONSTRAINT_RELATION, RelationGetRelid(rel), key->name))
		report_used(rel, key->name, NULL);
	if (referenced->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
	{
		ereport(NOTICE,
				(errmsg("foreign key \"%s\" is not enforced, and left out", key->name),
				 errdetail("\"%s\" is a partitioned table of PostgreSQL's own, which could get no partitions with it.",
						   RelationGetRelationName(referenced))));
		return;
	}
	(void) mosql_admin_create_foreign_key(rel, referenced, key);
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

/* What newer versions of PostgreSQL have, and we have not. */
static void
check_kind(const Constraint *constraint)
{
#if PG_VERSION_NUM >= 180000
	if (constraint->fk_with_period)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("foreign keys with PERIOD are not supported on foreign tables of mosql_fdw"),
				 errhint("Reference the columns by equality.")));
#else
	(void) constraint;
#endif
}

static void
check_lifetime(Relation rel, Relation referenced)
{
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		referenced->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("constraints on permanent tables may reference only permanent tables")));
}

void
mosql_admin_add_foreign_key(Oid relid, const Constraint *constraint)
{
	Relation	rel = mosql_admin_lock_owned(relid, ShareRowExclusiveLock, "ALTER TABLE");
	Relation	referenced = table_open(RangeVarGetRelidExtended(constraint->pktable,
																ShareRowExclusiveLock, 0,
																may_reference, NULL), NoLock);
	MosqlLocalForeignKey key = {0};

	check_kind(constraint);
	check_lifetime(rel, referenced);
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
	key.nset = set_columns(rel, constraint->fk_del_set_cols, key.set);
	key.n = column_numbers(rel, constraint->fk_attrs, key.columns);
	key.nreferenced = column_numbers(referenced, constraint->pk_attrs, key.referenced);
	check_columns(&key, rel);
	find_index(&key, referenced, constraint->pk_attrs == NIL);
	check_references(referenced, &key);
	(void) mosql_admin_find_key_operators(&key, rel, referenced, constraint->conname ? constraint->conname
										  : make_name(rel, constraint->fk_attrs, NIL));
	if (IsBinaryUpgrade)
	{
		key.name = constraint->conname;
		(void) mosql_admin_create_foreign_key(rel, referenced, &key);
	}
	else if (!key.unenforced && can_be_shared(rel, referenced))
		add_shared(rel, referenced, &key, constraint);
	else
		add_unenforced(rel, referenced, &key, constraint);
	relation_close(referenced, NoLock);
	relation_close(rel, NoLock);
}
