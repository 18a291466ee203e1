/*
 * index.c: secondary indexes: rows of pg_index here, definitions in Redis.
 *
 * Layer: admin.  An index exists twice: as PostgreSQL's catalogs describe it on
 * this server, for the planner, ON CONFLICT and \d, and in the definition of its
 * table in Redis, where its entries are.  They are tied by name.  CREATE INDEX makes
 * both; CREATE FOREIGN TABLE and IMPORT FOREIGN SCHEMA make the first from the
 * second; DROP and RENAME reach the second from the event triggers and hooks
 * that see the first go (ddl.c).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_opfamily.h"
#include "commands/defrem.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_utilcmd.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "admin/admin.h"

/* Set while we drop a local index whose data stays. */
static bool keep_data = false;

/* ---- local rows ---- */

static Oid
our_access_method(void)
{
	return get_index_am_oid("mosql", false);
}

bool
mosql_admin_is_our_index(Oid indexid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(indexid));
	bool		ours;

	if (!HeapTupleIsValid(tuple))
		return false;
	ours = ((Form_pg_class) GETSTRUCT(tuple))->relkind == RELKIND_INDEX &&
		((Form_pg_class) GETSTRUCT(tuple))->relam == get_index_am_oid("mosql", true);
	ReleaseSysCache(tuple);
	return ours;
}

void
mosql_admin_check_owner(Relation rel)
{
#if PG_VERSION_NUM >= 160000
	bool		owner = object_ownercheck(RelationRelationId, RelationGetRelid(rel), GetUserId());
#else
	bool		owner = pg_class_ownercheck(RelationGetRelid(rel), GetUserId());
#endif

	if (!owner)
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_TABLE, RelationGetRelationName(rel));
}

static IndexInfo *
index_info(const MosqlLocalIndex *index)
{
	int			n = index->nkeys + index->nincluded;
	IndexInfo  *info = makeIndexInfo(n, index->nkeys, our_access_method(), NIL, NIL,
									 index->unique, index->nulls_not_distinct,
									 true,	/* ready for inserts */
									 false	/* concurrent */
#if PG_VERSION_NUM >= 160000
									 ,false /* summarizing */
#endif
#if PG_VERSION_NUM >= 180000
									 ,false /* WITHOUT OVERLAPS */
#endif
		);

	for (int i = 0; i < n; i++)
		info->ii_IndexAttrNumbers[i] = index->attnums[i];
	return info;
}

Oid
mosql_admin_create_local_index(Relation rel, const MosqlLocalIndex *index)
{
	Oid			collations[INDEX_MAX_KEYS] = {0};
	Oid			classes[INDEX_MAX_KEYS] = {0};
	int16		options[INDEX_MAX_KEYS] = {0};
	List	   *names = NIL;
	Oid			indexid;
	ObjectAddress indexaddress;
	ObjectAddress amaddress;

	for (int i = 0; i < index->nkeys + index->nincluded; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), index->attnums[i] - 1);

		names = lappend(names, pstrdup(NameStr(att->attname)));
		if (i >= index->nkeys)
			continue;			/* included columns have neither */
		options[i] = index->options[i];
		collations[i] = att->attcollation;
		classes[i] = GetDefaultOpClass(att->atttypid, BTREE_AM_OID);
		if (!OidIsValid(classes[i]))
			elog(ERROR, "type %s has no btree order", format_type_be(att->atttypid));
	}
	indexid = index_create(rel, index->name, InvalidOid, InvalidOid, InvalidOid, InvalidOid,
						   index_info(index), names, our_access_method(), InvalidOid,
						   collations, classes,
#if PG_VERSION_NUM >= 170000
						   NULL,	/* options of operator classes */
#endif
						   options,
#if PG_VERSION_NUM >= 170000
						   NULL,	/* statistics targets */
#endif
						   (Datum) 0,
						   (index->primary ? INDEX_CREATE_IS_PRIMARY : 0) |
						   (index->constraint ? INDEX_CREATE_ADD_CONSTRAINT : 0) |
						   INDEX_CREATE_SKIP_BUILD,
						   0, false, false, NULL);

	/* core takes access methods for built in: without this DROP EXTENSION would
	 * leave an index that nobody can open */
	ObjectAddressSet(indexaddress, RelationRelationId, indexid);
	ObjectAddressSet(amaddress, AccessMethodRelationId, our_access_method());
	recordDependencyOn(&indexaddress, &amaddress, DEPENDENCY_NORMAL);
	CommandCounterIncrement();
	return indexid;
}

void
mosql_admin_drop_local_index(Oid indexid)
{
	Oid			constraint = get_index_constraint(indexid);
	ObjectAddress address;
	bool		before = keep_data;

	if (OidIsValid(constraint))
		ObjectAddressSet(address, ConstraintRelationId, constraint);
	else
		ObjectAddressSet(address, RelationRelationId, indexid);
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

List *
mosql_admin_secondary_indexes(Relation rel)
{
	Oid			primary = mosql_fdw_primary_key(rel);
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
		if (lfirst_oid(lc) != primary && mosql_admin_is_our_index(lfirst_oid(lc)))
			result = lappend_oid(result, lfirst_oid(lc));
	return result;
}

/* Some of them may have been dropped since they were listed. */
static bool
has_local_index(const List *indexes, const char *name)
{
	const ListCell *lc;

	foreach(lc, indexes)
	{
		const char *other = get_rel_name(lfirst_oid(lc));

		if (other != NULL && strcmp(other, name) == 0)
			return true;
	}
	return false;
}

/* The index of a definition in this relation's attributes; false if one lacks. */
static bool
localize(Relation rel, const MosqlDefinition *definition, const MosqlDefinitionIndex *there,
		 MosqlLocalIndex *index)
{
	int			n = there->nkeys + there->nincluded;

	memset(index, 0, sizeof(*index));
	if (n > INDEX_MAX_KEYS)
		return false;
	index->name = there->name;
	index->constraint = there->constraint;
	index->unique = there->unique;
	index->nulls_not_distinct = there->nulls_not_distinct;
	index->nkeys = there->nkeys;
	index->nincluded = there->nincluded;
	for (int i = 0; i < n; i++)
	{
		uint32		id = i < there->nkeys ? there->keys[i].column
			: there->included[i - there->nkeys];

		for (int j = 0; j < definition->ncolumns; j++)
			if (definition->columns[j].id == id && !definition->columns[j].dropped)
				index->attnums[i] = get_attnum(RelationGetRelid(rel),
											   definition->columns[j].name);
		if (index->attnums[i] <= 0)
			return false;
		if (i < there->nkeys)
			index->options[i] = (there->keys[i].descending ? INDOPTION_DESC : 0) |
				(there->keys[i].nulls_first ? INDOPTION_NULLS_FIRST : 0);
	}
	return true;
}

/* Is the local index what the one in Redis looks like from here? */
static bool
looks_like(Oid indexid, const MosqlLocalIndex *index)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	Form_pg_index local;
	Datum		options;
	bool		isnull;
	bool		same;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	local = (Form_pg_index) GETSTRUCT(tuple);
	options = SysCacheGetAttr(INDEXRELID, tuple, Anum_pg_index_indoption, &isnull);
	same = local->indisunique == index->unique &&
		local->indnullsnotdistinct == index->nulls_not_distinct &&
		local->indnkeyatts == index->nkeys &&
		local->indnatts == index->nkeys + index->nincluded &&
		OidIsValid(get_index_constraint(indexid)) == index->constraint;
	for (int i = 0; same && i < local->indnatts; i++)
		same = local->indkey.values[i] == index->attnums[i] &&
			(i >= index->nkeys ||
			 ((int2vector *) DatumGetPointer(options))->values[i] == index->options[i]);
	ReleaseSysCache(tuple);
	return same;
}

/* The index of its name in Redis. */
static bool
is_shown_right(Relation rel, const MosqlDefinition *definition, Oid indexid)
{
	const MosqlDefinitionIndex *there = definition == NULL ? NULL
		: mosql_definition_index(definition, get_rel_name(indexid));
	MosqlLocalIndex index;

	return there != NULL && localize(rel, definition, there, &index) &&
		looks_like(indexid, &index);
}

void
mosql_admin_follow_indexes(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	MosqlSession *session = mosql_fdw_session_for(relid, InvalidOid);
	const char *schema;
	const char *name;
	MosqlDefinition *definition;
	List	   *local = mosql_admin_secondary_indexes(rel);
	ListCell   *lc;

	mosql_table_remote_name(rel, &schema, &name);
	definition = mosql_table_definition(session, schema, name);
	foreach(lc, local)
		if (!is_shown_right(rel, definition, lfirst_oid(lc)))
			mosql_admin_drop_local_index(lfirst_oid(lc));
	for (int i = 0; definition != NULL && i < definition->nindexes; i++)
	{
		MosqlLocalIndex index;

		if (has_local_index(local, definition->indexes[i].name) ||
			!localize(rel, definition, &definition->indexes[i], &index))
			continue;
		if (OidIsValid(get_relname_relid(index.name, RelationGetNamespace(rel))))
			ereport(WARNING,
					(errcode(ERRCODE_DUPLICATE_TABLE),
					 errmsg("index \"%s\" of the table in Redis is not shown here", index.name),
					 errdetail("There is another relation of that name. The index is maintained nevertheless.")));
		else
			(void) mosql_admin_create_local_index(rel, &index);
	}
	relation_close(rel, NoLock);
}

static bool
index_has_attribute(Oid indexid, AttrNumber attnum)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	Form_pg_index index;
	bool		has = false;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	index = (Form_pg_index) GETSTRUCT(tuple);
	for (int i = 0; i < index->indnatts; i++)
		has |= index->indkey.values[i] == attnum;
	ReleaseSysCache(tuple);
	return has;
}

/*
 * Core rebuilds the indexes of a column whose type or expression changes, from their
 * definitions, which it refuses for foreign tables.  So ours go first; they come
 * back when the command has ended (follow_key, follow_indexes).
 */
void
mosql_admin_drop_for_retype(Oid relid, const char *column)
{
	AttrNumber	attnum = get_attnum(relid, column);
	Relation	rel;
	List	   *indexes = NIL;
	ListCell   *lc;

	if (attnum <= 0 || !mosql_fdw_is_ours(relid))
		return;
	rel = relation_open(relid, AccessExclusiveLock);
	mosql_admin_check_owner(rel);
	foreach(lc, RelationGetIndexList(rel))
		if (mosql_admin_is_our_index(lfirst_oid(lc)) &&
			index_has_attribute(lfirst_oid(lc), attnum))
			indexes = lappend_oid(indexes, lfirst_oid(lc));
	relation_close(rel, NoLock);
	foreach(lc, indexes)
		mosql_admin_drop_local_index(lfirst_oid(lc));
}

/* ---- CREATE INDEX, ADD UNIQUE ---- */

/* A local index as a definition. */
static MosqlDefinitionIndex *
globalize(Relation rel, const MosqlLocalIndex *index, const MosqlDefinition *definition)
{
	MosqlDefinitionIndex *there = palloc0(sizeof(MosqlDefinitionIndex));

	there->name = index->name;
	there->unique = index->unique;
	there->nulls_not_distinct = index->nulls_not_distinct;
	there->constraint = index->constraint;
	there->nkeys = index->nkeys;
	there->nincluded = index->nincluded;
	there->keys = palloc0(index->nkeys * sizeof(MosqlDefinitionIndexColumn));
	there->included = palloc0(Max(index->nincluded, 1) * sizeof(uint32));
	for (int i = 0; i < index->nkeys + index->nincluded; i++)
	{
		const char *name = get_attname(RelationGetRelid(rel), index->attnums[i], false);
		const MosqlDefinitionColumn *column = mosql_definition_column(definition, name);

		if (column == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("column \"%s\" cannot be indexed", name),
					 errdetail("Virtual generated columns are not stored."),
					 errhint("Declare the column GENERATED ALWAYS AS (...) STORED.")));
		if (i >= index->nkeys)
		{
			there->included[i - index->nkeys] = column->id;
			continue;
		}
		there->keys[i].column = column->id;
		there->keys[i].descending = (index->options[i] & INDOPTION_DESC) != 0;
		there->keys[i].nulls_first = (index->options[i] & INDOPTION_NULLS_FIRST) != 0;
	}
	return there;
}

/*
 * The local index of that name, if it is of this table and what is in Redis under
 * the name is the same as this: it came with the table that this server attached
 * to, and a dump that is restored makes it again.
 */
static Oid
same_index(Relation rel, const MosqlLocalIndex *index, const MosqlDefinition *definition)
{
	Oid			indexid = get_relname_relid(index->name, RelationGetNamespace(rel));
	const MosqlDefinitionIndex *there = mosql_definition_index(definition, index->name);

	if (!OidIsValid(indexid) || there == NULL || !mosql_admin_is_our_index(indexid) ||
		IndexGetRelation(indexid, true) != RelationGetRelid(rel) ||
		there->constraint != index->constraint ||
		!mosql_definition_same_index(there, globalize(rel, index, definition)))
		return InvalidOid;
	return indexid;
}

/*
 * An index of a table that was there before is built in several transactions, while
 * others write, if the command is not one of several of a transaction.
 */
static bool
builds_online(Relation rel, const MosqlSession *session)
{
	return rel->rd_createSubid == InvalidSubTransactionId && !IsInTransactionBlock(true) &&
		mosql_txn_may_chain(session);
}

/* Here and in Redis. */
static Oid
create_both(Relation rel, const MosqlLocalIndex *index)
{
	MosqlSession *session = mosql_fdw_session_for(RelationGetRelid(rel), InvalidOid);
	const char *schema;
	const char *name;
	MosqlDefinition *definition;
	Oid			indexid;

	mosql_table_remote_name(rel, &schema, &name);
	definition = mosql_table_definition(session, schema, name);
	if (definition == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s.%s\" does not exist in Redis", schema, name)));
	indexid = same_index(rel, index, definition);
	if (OidIsValid(indexid))
	{
		ereport(NOTICE,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("index \"%s\" exists already, the same in Redis, skipping", index->name)));
		return indexid;
	}
	if (builds_online(rel, session))
	{
		MosqlBuild *build;

		if (OidIsValid(get_relname_relid(index->name, RelationGetNamespace(rel))))
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_TABLE),
					 errmsg("relation \"%s\" already exists", index->name)));
		build = mosql_table_begin_build(rel, session, globalize(rel, index, definition));
		indexid = mosql_admin_create_local_index(rel, index);
		mosql_table_finish_build(build);
		return indexid;
	}
	indexid = mosql_admin_create_local_index(rel, index);
	mosql_table_create_index(rel, session, globalize(rel, index, definition));
	return indexid;
}

/* "a_b" of the columns' names, as core names indexes. */
static char *
name_addition(Relation rel, const MosqlLocalIndex *index)
{
	StringInfoData name;

	initStringInfo(&name);
	for (int i = 0; i < index->nkeys && name.len < NAMEDATALEN; i++)
		appendStringInfo(&name, "%s%s", i > 0 ? "_" : "",
						 get_attname(RelationGetRelid(rel), index->attnums[i], false));
	name.data[pg_mbcliplen(name.data, name.len, NAMEDATALEN - 1)] = '\0';
	return name.data;
}

static const char *
choose_name(Relation rel, const MosqlLocalIndex *index, const char *given)
{
	if (given != NULL)
		return given;
	return ChooseRelationName(RelationGetRelationName(rel), name_addition(rel, index),
							  index->constraint ? "key" : "idx", RelationGetNamespace(rel),
							  index->constraint);
}

static void
add_column(Relation rel, MosqlLocalIndex *index, const char *name)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), name);

	if (attnum <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" does not exist", name)));
	if (index->nkeys + index->nincluded == INDEX_MAX_KEYS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("cannot use more than %d columns in an index", INDEX_MAX_KEYS)));
	index->attnums[index->nkeys + index->nincluded] = attnum;
}

static void
refuse(const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s are not supported on foreign tables of mosql_fdw", what),
			 errhint("%s", hint)));
}

void
mosql_admin_refuse_overlaps(bool without_overlaps)
{
	if (without_overlaps)
		refuse("keys WITHOUT OVERLAPS",
			   "Leave WITHOUT OVERLAPS away, or declare the table USING heap.");
}

void
mosql_admin_add_unique(Oid relid, const Constraint *constraint)
{
	Relation	rel = relation_open(relid, AccessExclusiveLock);
	MosqlLocalIndex index = {.constraint = true,.unique = true};
	ListCell   *lc;

	mosql_admin_check_owner(rel);
#if PG_VERSION_NUM >= 180000
	mosql_admin_refuse_overlaps(constraint->without_overlaps);
#endif
	if (constraint->deferrable)
		refuse("deferrable UNIQUE constraints", "Uniqueness is checked at the end of each statement.");
	if (constraint->indexname != NULL)
		refuse("UNIQUE constraints USING INDEX", "Use ADD UNIQUE with the columns.");
	index.nulls_not_distinct = constraint->nulls_not_distinct;
	foreach(lc, constraint->keys)
	{
		add_column(rel, &index, strVal(lfirst(lc)));
		index.nkeys++;
	}
	foreach(lc, constraint->including)
	{
		add_column(rel, &index, strVal(lfirst(lc)));
		index.nincluded++;
	}
	index.name = choose_name(rel, &index, constraint->conname);
	(void) create_both(rel, &index);
	relation_close(rel, NoLock);
}

static void
check_statement(const IndexStmt *statement)
{
#if PG_VERSION_NUM >= 180000
	mosql_admin_refuse_overlaps(statement->iswithoutoverlaps);
#endif
	if (statement->whereClause != NULL)
		refuse("partial indexes", "Create the index without WHERE.");
	if (statement->deferrable)
		refuse("deferrable UNIQUE constraints", "Uniqueness is checked at the end of each statement.");
	if (statement->excludeOpNames != NIL)
		refuse("exclusion constraints", "Only uniqueness can be enforced.");
	if (strcmp(statement->accessMethod, "btree") != 0 &&
		strcmp(statement->accessMethod, "mosql") != 0)
		refuse("indexes of other access methods than mosql",
			   "Leave USING away: such an index is ordered like a btree.");
}

/*
 * An operator class of the default order; or one of bytes, as text_pattern_ops, which is the
 * order that strings have here anyway.
 */
static bool
is_our_order(List *opclass, Form_pg_attribute att)
{
	Oid			asked = ResolveOpClass(opclass, att->atttypid, "btree", BTREE_AM_OID);
	Oid			family = get_opclass_family(asked);

	return family == get_opclass_family(GetDefaultOpClass(att->atttypid, BTREE_AM_OID)) ||
		family == TEXT_PATTERN_BTREE_FAM_OID || family == BPCHAR_PATTERN_BTREE_FAM_OID;
}

static void
take_element(Relation rel, MosqlLocalIndex *index, const IndexElem *element)
{
	Form_pg_attribute att;
	bool		descending = element->ordering == SORTBY_DESC;

	if (element->name == NULL)
		refuse("indexes of expressions", "Index a generated column instead.");
	add_column(rel, index, element->name);
	att = TupleDescAttr(RelationGetDescr(rel), index->attnums[index->nkeys] - 1);
	if (element->opclass != NIL && !is_our_order(element->opclass, att))
		refuse("other operator classes than the default ones", "Leave the operator class away.");
	if (element->collation != NIL &&
		get_collation_oid(element->collation, false) != att->attcollation)
		refuse("indexes with another collation than the column's",
			   "Give the column the collation.");
	index->options[index->nkeys] = (descending ? INDOPTION_DESC : 0) |
		(element->nulls_ordering == SORTBY_NULLS_FIRST ||
		 (element->nulls_ordering == SORTBY_NULLS_DEFAULT && descending)
		 ? INDOPTION_NULLS_FIRST : 0);
	index->nkeys++;
}

/*
 * CREATE INDEX on one of our tables.  By itself it is built while others write.  In a
 * transaction block writers of this server wait for it; those of other servers do not,
 * and make it fail if they write meanwhile (40001).
 */
ObjectAddress
mosql_admin_create_index(const IndexStmt *statement)
{
	LOCKMODE	mode = IsInTransactionBlock(true) ? ShareLock : ShareUpdateExclusiveLock;
	Oid			relid = RangeVarGetRelid(statement->relation, mode, false);
	Relation	rel = relation_open(relid, NoLock);
	MosqlLocalIndex index = {0};
	ObjectAddress address = InvalidObjectAddress;
	ListCell   *lc;

	mosql_admin_check_owner(rel);
	check_statement(statement);
	index.unique = statement->unique;
	index.constraint = statement->isconstraint;
	index.nulls_not_distinct = statement->nulls_not_distinct;
	foreach(lc, statement->indexParams)
		take_element(rel, &index, lfirst_node(IndexElem, lc));
	foreach(lc, statement->indexIncludingParams)
	{
		const IndexElem *element = lfirst_node(IndexElem, lc);

		if (element->name == NULL)
			refuse("expressions as included columns", "Include columns.");
		add_column(rel, &index, element->name);
		index.nincluded++;
	}
	index.name = choose_name(rel, &index, statement->idxname);
	if (statement->if_not_exists &&
		OidIsValid(get_relname_relid(index.name, RelationGetNamespace(rel))))
		ereport(NOTICE,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists, skipping", index.name)));
	else
		ObjectAddressSet(address, RelationRelationId, create_both(rel, &index));
	relation_close(rel, NoLock);
	return address;
}

/* ---- DROP and RENAME ---- */

/* Before the local index goes. */
void
mosql_admin_index_dropped(Oid indexid)
{
	Oid			relid;
	Relation	rel;

	if (keep_data || !mosql_admin_drop_data || !mosql_admin_is_our_index(indexid))
		return;
	relid = IndexGetRelation(indexid, true);
	if (!OidIsValid(relid) || !mosql_fdw_is_ours(relid))
		return;
	rel = relation_open(relid, NoLock);
	if (mosql_fdw_primary_key(rel) != indexid)
		mosql_table_drop_index(rel, mosql_fdw_session_for(relid, InvalidOid),
							   get_rel_name(indexid));
	relation_close(rel, NoLock);
}

void
mosql_admin_index_renamed(Oid indexid, const char *from)
{
	Oid			relid = IndexGetRelation(indexid, true);
	Relation	rel;

	if (!OidIsValid(relid) || !mosql_fdw_is_ours(relid))
		return;
	rel = relation_open(relid, AccessShareLock);
	mosql_table_rename_index(rel, mosql_fdw_session_for(relid, InvalidOid), from,
							 get_rel_name(indexid));
	relation_close(rel, NoLock);
}
