/*
 * type.c: what becomes of types that columns of our tables are of.
 *
 * Layer: admin.  PostgreSQL knows types by OID, definitions in Redis by name, with the
 * names of labels and attributes, and with expressions as text.  So the tables that use a
 * type are put into words before a command that may change names, and after it
 * (table/wording.c does the rest).  Such are RENAME and SET SCHEMA of types, domains,
 * collations, relations with a row type, extensions and schemas, RENAME VALUE and ADD
 * VALUE of enums, RENAME ATTRIBUTE.
 *
 * What rows do not survive is refused: other attributes of a composite type, or of a
 * relation's row type: by ALTER, CREATE OR REPLACE VIEW, or mosql_fdw_refresh().  PostgreSQL's own tables allow some of it, since each of their
 * composite values says how many attributes it has; it refuses the rest itself, but does
 * not look at foreign tables.
 *
 * Race -- a session opens the table by the names of before while they change.  Rows do not
 * depend on names: labels stand in them by id, and an open table has found the OID of each.
 * So nobody is kept from the table, whose owner is perhaps somebody else.  But what Redis and
 * the catalogs call things must agree when it is opened, and they change one after the other,
 * at COMMIT: for that long opening waits (mosql_wording_lock).  ADD VALUE needs not even that:
 * nobody has rows with a label that is not committed.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_type.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "admin/admin.h"

/* ---- which tables use something ---- */

typedef struct Walk
{
	HTAB	   *seen;			/* ObjectAddress */
	List	   *tables;			/* ours: OIDs, in the order in which they are found */
} Walk;

static void visit(Walk *walk, Oid class, Oid object);

/* A relation's row type; not the relation itself, whose own names are not at stake. */
static void
visit_row_type(Walk *walk, Oid relid)
{
	Oid			type = get_rel_type_id(relid);

	if (OidIsValid(type))
		visit(walk, TypeRelationId, type);
}

static void
visit_relation(Walk *walk, Oid relid)
{
	switch (get_rel_relkind(relid))
	{
		case RELKIND_INDEX:
			relid = IndexGetRelation(relid, true);
			break;
		case RELKIND_RELATION:
		case RELKIND_PARTITIONED_TABLE:
		case RELKIND_FOREIGN_TABLE:
		case RELKIND_COMPOSITE_TYPE:
		case RELKIND_VIEW:
		case RELKIND_MATVIEW:
			break;
		default:
			return;
	}
	if (OidIsValid(relid))
		visit(walk, RelationRelationId, relid);
}

/* What depends on an object that we visit. */
static void
visit_dependent(Walk *walk, const FormData_pg_depend *form)
{
	HeapTuple	tuple;

	switch (form->classid)
	{
		case TypeRelationId:
		case CollationRelationId:
			visit(walk, form->classid, form->objid);
			break;
		case RelationRelationId:
			visit_relation(walk, form->objid);
			break;
		case AttrDefaultRelationId:
			visit_relation(walk, GetAttrDefaultColumnAddress(form->objid).objectId);
			break;
		case ConstraintRelationId:
			tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(form->objid));
			if (HeapTupleIsValid(tuple))
			{
				visit_relation(walk, ((Form_pg_constraint) GETSTRUCT(tuple))->conrelid);
				ReleaseSysCache(tuple);
			}
			break;
		default:
			break;
	}
}

/* An object, and all that has its name in its own words: through arrays, ranges,
 * domains, composite types, row types, expressions. */
static void
visit(Walk *walk, Oid class, Oid object)
{
	ObjectAddress address = {class, object, 0};
	Relation	catalog;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found;

	check_stack_depth();
	(void) hash_search(walk->seen, &address, HASH_ENTER, &found);
	if (found)
		return;
	if (class == RelationRelationId && mosql_fdw_is_ours(object))
		walk->tables = lappend_oid(walk->tables, object);
	if (class == RelationRelationId)
		visit_row_type(walk, object);

	catalog = table_open(DependRelationId, AccessShareLock);
	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(class));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(object));
	scan = systable_beginscan(catalog, DependReferenceIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		visit_dependent(walk, (Form_pg_depend) GETSTRUCT(tuple));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

static Walk
begin_walk(void)
{
	HASHCTL		ctl = {.keysize = sizeof(ObjectAddress),.entrysize = sizeof(ObjectAddress)};
	Walk		walk = {0};

	ctl.hcxt = CurrentMemoryContext;
	walk.seen = hash_create("mosql_fdw dependents", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	return walk;
}

/*
 * Is it the user's, so that PostgreSQL may obey the command?  If not, nothing is looked at:
 * not even a lock is taken of what depends on it.
 */
static bool
is_own(Oid class, Oid object)
{
#if PG_VERSION_NUM >= 160000
	return OidIsValid(object) && object_ownercheck(class, object, GetUserId());
#else
	if (!OidIsValid(object))
		return false;
	switch (class)
	{
		case TypeRelationId:
			return pg_type_ownercheck(object, GetUserId());
		case RelationRelationId:
			return pg_class_ownercheck(object, GetUserId());
		case CollationRelationId:
			return pg_collation_ownercheck(object, GetUserId());
		case ExtensionRelationId:
			return pg_extension_ownercheck(object, GetUserId());
		case NamespaceRelationId:
			return pg_namespace_ownercheck(object, GetUserId());
	}
	return false;
#endif
}

/* Those of a table and its children, which ALTER TABLE alters with it. */
static void
visit_row_types(Walk *walk, const RangeVar *name)
{
	Oid			relid = name != NULL ? RangeVarGetRelid(name, NoLock, true) : InvalidOid;
	ListCell   *lc;

	if (!is_own(RelationRelationId, relid))
		return;
	visit_row_type(walk, relid);
	if (has_subclass(relid))
		foreach(lc, find_all_inheritors(relid, NoLock, NULL))
			visit_row_type(walk, lfirst_oid(lc));
}

static void
visit_type(Walk *walk, List *names)
{
	Oid			type = LookupTypeNameOid(NULL, makeTypeNameFromNameList(names), true);

	if (is_own(TypeRelationId, type))
		visit(walk, TypeRelationId, type);
}

/* RENAME or SET SCHEMA of such an object. */
static void
visit_named(Walk *walk, ObjectType kind, const RangeVar *relation, Node *object)
{
	Oid			oid = InvalidOid;

	switch (kind)
	{
		case OBJECT_TYPE:
		case OBJECT_DOMAIN:
			visit_type(walk, castNode(List, object));
			break;
		case OBJECT_COLLATION:
			oid = get_collation_oid(castNode(List, object), true);
			if (is_own(CollationRelationId, oid))
				visit(walk, CollationRelationId, oid);
			break;
		case OBJECT_EXTENSION:
			oid = get_extension_oid(strVal(object), true);
			if (is_own(ExtensionRelationId, oid))
				visit(walk, ExtensionRelationId, oid);
			break;
		case OBJECT_TABLE:
		case OBJECT_FOREIGN_TABLE:
		case OBJECT_VIEW:
		case OBJECT_MATVIEW:
		case OBJECT_COLUMN:
		case OBJECT_ATTRIBUTE:
			visit_row_types(walk, relation);
			break;
		default:
			break;
	}
}

/* The relation that gets other columns by ALTER, or by CREATE OR REPLACE VIEW; NULL:
 * another command. */
static const RangeVar *
altered_relation(const Node *command)
{
	if (IsA(command, AlterTableStmt))
		return ((const AlterTableStmt *) command)->relation;
	return IsA(command, ViewStmt) ? ((const ViewStmt *) command)->view : NULL;
}

/* Our tables of which names may change, or values. */
static List *
concerned_tables(const Node *command)
{
	Walk		walk = begin_walk();
	const RenameStmt *rename = (const RenameStmt *) command;
	const AlterObjectSchemaStmt *move = (const AlterObjectSchemaStmt *) command;
	Oid			schema;

	switch (nodeTag(command))
	{
		case T_RenameStmt:
			schema = rename->renameType == OBJECT_SCHEMA
				? get_namespace_oid(rename->subname, true) : InvalidOid;
			if (is_own(NamespaceRelationId, schema))
				visit(&walk, NamespaceRelationId, schema);
			visit_named(&walk, rename->renameType, rename->relation, rename->object);
			break;
		case T_AlterObjectSchemaStmt:
			visit_named(&walk, move->objectType, move->relation, move->object);
			break;
		case T_AlterEnumStmt:
			visit_type(&walk, ((const AlterEnumStmt *) command)->typeName);
			break;
		case T_AlterTableStmt:
		case T_ViewStmt:
			visit_row_types(&walk, altered_relation(command));
			break;
		default:
			break;
	}
	hash_destroy(walk.seen);
	return walk.tables;
}

List *
mosql_admin_tables_of_type(Oid type)
{
	Walk		walk = begin_walk();

	visit(&walk, TypeRelationId, type);
	hash_destroy(walk.seen);
	return walk.tables;
}

/* ---- before the command ---- */

typedef struct Noted
{
	Oid			relid;
	MosqlWording before;
} Noted;

static MosqlWording
describe(Relation rel)
{
	MosqlWording wording = {.columns = mosql_definition_describe(rel)};
	MosqlDetail *details;

	wording.ndetails = mosql_admin_all_details(rel, &details);
	wording.details = details;
	wording.nindexes = mosql_admin_computed_indexes(rel, &wording.indexes);
	return wording;
}

void
mosql_admin_note_types(const Node *command)
{
	List	   *tables;
	MemoryContext old;
	ListCell   *lc;

	if (mosql_table_command->refreshing && altered_relation(command) == NULL)
		return;					/* what others did changes no name there */
	tables = concerned_tables(command);
	if (tables == NIL)
		return;
	old = MemoryContextSwitchTo(mosql_table_command_context());
	foreach(lc, tables)
	{
		Relation	rel = relation_open(lfirst_oid(lc), AccessShareLock);
		Noted	   *table = palloc(sizeof(Noted));

		table->relid = lfirst_oid(lc);
		table->before = describe(rel);
		mosql_table_command->types = lappend(mosql_table_command->types, table);
		relation_close(rel, AccessShareLock);
	}
	MemoryContextSwitchTo(old);
}

/* ---- what is refused ---- */

static void refuse(const char *what, const char *name, Oid relid, const char *column,
				   const char *uses, const char *hint) pg_attribute_noreturn();

/* As core says it of its own tables (find_composite_type_dependencies). */
static void
refuse(const char *what, const char *name, Oid relid, const char *column, const char *uses,
	   const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot alter %s \"%s\" because column \"%s.%s\" uses %s", what, name,
					get_rel_name(relid), column, uses),
			 errhint("%s", hint)));
}

static void
refuse_attributes(Oid relid, Oid user, const char *column)
{
	char		kind = get_rel_relkind(relid);

	refuse(kind == RELKIND_COMPOSITE_TYPE ? "type" : kind == RELKIND_FOREIGN_TABLE ? "foreign table"
		   : kind == RELKIND_VIEW ? "view" : "table", get_rel_name(relid), user, column,
		   kind == RELKIND_COMPOSITE_TYPE ? "it" : "its row type",
		   "Add a column of a new type, UPDATE the rows, and drop the old column.");
}

void
mosql_admin_refuse_type(Oid type, Oid user, const char *column)
{
	refuse("type", format_type_be(type), user, column, "it",
		   "Add a column of a new type, UPDATE the rows, and drop the old column.");
}

/* Other attributes than before, in another order, or of other types? */
static void
check_layout(const Noted *table, const MosqlWording *after, const Node *command)
{
	const MosqlDefinition *before = table->before.columns;

	if (altered_relation(command) == NULL)
		return;
	for (int i = 0; i < before->ncolumns; i++)
	{
		const MosqlDefinitionColumn *old = &before->columns[i];
		const MosqlDefinitionColumn *new = mosql_definition_column(after->columns, old->name);

		if (old->layout != NULL && new != NULL &&
			(new->layout == NULL || strcmp(old->layout, new->layout) != 0))
			refuse_attributes(RangeVarGetRelid(altered_relation(command), NoLock, false),
							  table->relid, old->name);
	}
}

void
mosql_admin_attribute_dropped(Oid relid)
{
	Oid			type = get_rel_type_id(relid);
	ListCell   *lc;

	if (!OidIsValid(type))
		return;
	foreach(lc, mosql_admin_tables_of_type(type))
	{
		Relation	rel = relation_open(lfirst_oid(lc), AccessShareLock);

		for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
		{
			Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);

			if (!att->attisdropped && mosql_type_contains(att->atttypid, type))
				refuse_attributes(relid, lfirst_oid(lc), NameStr(att->attname));
		}
		relation_close(rel, AccessShareLock);
	}
}

/*
 * RENAME VALUE of labels that stand by name within values of other types, or in the
 * entries of an index of expressions.
 */
static void
check_labels(Relation rel, const MosqlWording *wording, Oid type)
{
	static const char hint[] =
		"Add the label, UPDATE the rows, and leave the old one unused; or copy them into a column of another type.";
	Oid			relid = RelationGetRelid(rel);

	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);

		if (!att->attisdropped && mosql_type_enum(att->atttypid) != type &&
			mosql_type_contains(att->atttypid, type))
			refuse("type", format_type_be(type), relid, NameStr(att->attname),
				   "its labels within another type", hint);
	}
	for (int i = 0; i < wording->nindexes; i++)
		for (int j = 0; j < wording->indexes[i].nkeys; j++)
			if (wording->indexes[i].keys[j].expression != NULL &&
				(strcmp(wording->indexes[i].keys[j].type, mosql_type_name(type, -1)) == 0 ||
				 strcmp(wording->indexes[i].keys[j].type,
						mosql_type_name(get_array_type(type), -1)) == 0))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot alter type \"%s\" because index \"%s\" has its labels as keys",
								format_type_be(type), wording->indexes[i].name),
						 errhint("Drop the index, and create it again.")));
}

/* ---- until COMMIT ---- */

/* Tables whose definitions get other words, in TopTransactionContext. */
static List *reworded = NIL;

static void
forget_reworded(void *arg)
{
	reworded = NIL;
}

static void
note_reworded(Oid relid)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	if (reworded == NIL)
	{
		MemoryContextCallback *callback = palloc0(sizeof(MemoryContextCallback));

		callback->func = forget_reworded;
		MemoryContextRegisterResetCallback(TopTransactionContext, callback);
	}
	reworded = list_append_unique_oid(reworded, relid);
	MemoryContextSwitchTo(old);
}

/*
 * A MosqlCommitLocks.  In one order, so that two who rename do not wait for each other.  A rename that was
 * rolled back to a savepoint locks in vain.
 */
static void
lock_reworded(bool locked)
{
	ListCell   *lc;

	list_sort(reworded, list_oid_cmp);
	foreach(lc, reworded)
		if (locked)
			mosql_wording_lock(lfirst_oid(lc));
		else
			mosql_wording_unlock(lfirst_oid(lc));
}

void
mosql_admin_init_types(void)
{
	mosql_txn_commit_locks_hook = lock_reworded;
}

/* ---- after the command ---- */

/* ADD VALUE IF NOT EXISTS of a label that was here: it shall be there, too. */
static void
forget_label(MosqlWording *wording, const char *name)
{
	for (int i = 0; i < wording->columns->ncolumns; i++)
	{
		MosqlDefinitionColumn *column = &wording->columns->columns[i];

		for (int j = 0; j < column->nlabels; j++)
			if (strcmp(column->labels[j].name, name) == 0)
				column->labels[j] = column->labels[--column->nlabels];
	}
}

/*
 * Do the columns of this table become others by the command itself, as those of a typed table do by ALTER
 * TYPE ... CASCADE?  Then what it says of them is no other word for the same, and ddl.c follows.
 */
static bool
is_altered_itself(Oid relid, const Node *command)
{
	return IsA(command, AlterTableStmt) &&
		list_member_oid(mosql_admin_altered_tables(RangeVarGetRelid(altered_relation(command), NoLock, false)),
						relid);
}

static void
follow_table(Noted *table, const Node *command)
{
	const AlterEnumStmt *labels = IsA(command, AlterEnumStmt) ? (const AlterEnumStmt *) command : NULL;
	Relation	rel = try_relation_open(table->relid, AccessShareLock);
	MosqlSession *session;
	MosqlWording after;

	if (rel == NULL)
		return;
	after = describe(rel);
	check_layout(table, &after, command);
	if (mosql_table_command->refreshing || is_altered_itself(table->relid, command))
	{
		relation_close(rel, AccessShareLock);
		return;
	}
	session = mosql_fdw_session_for(table->relid, InvalidOid);
	if (labels != NULL && labels->oldVal != NULL)
		check_labels(rel, &after, LookupTypeNameOid(NULL, makeTypeNameFromNameList(labels->typeName),
													false));
	else if (labels != NULL)
		forget_label(&table->before, labels->newVal);
	if (mosql_table_reword(rel, session, &table->before, &after, false))
	{
		if (labels == NULL || labels->oldVal != NULL)
			note_reworded(table->relid);
		(void) mosql_table_reword(rel, session, &table->before, &after, true);
	}
	CacheInvalidateRelcache(rel);	/* what backends know of labels is by name */
	relation_close(rel, NoLock);
}

void
mosql_admin_follow_types(const Node *command)
{
	MemoryContext old;
	ListCell   *lc;

	if (mosql_table_command->types == NIL)
		return;
	old = MemoryContextSwitchTo(mosql_table_command_context());
	foreach(lc, mosql_table_command->types)
		follow_table(lfirst(lc), command);
	MemoryContextSwitchTo(old);
	mosql_table_command->types = NIL;
}
