/*
 * index.c: secondary indexes: rows of pg_index here, definitions in Redis.
 *
 * Layer: admin.  An index exists twice: as PostgreSQL's catalogs describe it on
 * this server, for the planner, ON CONFLICT and \d, and in the definition of its
 * table in Redis, where its entries are.  They are tied by name.  CREATE INDEX makes
 * both; CREATE FOREIGN TABLE and IMPORT FOREIGN SCHEMA make the first from the
 * second; DROP and RENAME reach the second from the event triggers and hooks
 * that see the first go (ddl.c, index_drop.c).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_namespace.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "admin/utility.h"

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

IndexInfo *
mosql_admin_index_info(const MosqlLocalIndex *index, Oid method, bool summarizing)
{
	int			n = index->nkeys + index->nincluded;
	List	   *expressions = NIL;
	IndexInfo  *info;

	for (int i = 0; i < n; i++)
		if (index->attnums[i] == 0)
			expressions = lappend(expressions, index->expressions[i]);
	info = makeIndexInfo(n, index->nkeys, method, expressions,
						 make_ands_implicit((Expr *) index->predicate),
						 index->unique, index->nulls_not_distinct,
						 true,	/* ready for inserts */
						 false	/* concurrent */
#if PG_VERSION_NUM >= 160000
						 ,summarizing
#endif
#if PG_VERSION_NUM >= 180000
						 ,false /* WITHOUT OVERLAPS */
#endif
		);
	for (int i = 0; i < n; i++)
		info->ii_IndexAttrNumbers[i] = index->attnums[i];
	return info;
}

/*
 * The operator class of a key column: as it was said, also before an ALTER TABLE that another type is for; else the
 * default one of btree.
 */
Oid
mosql_admin_index_class(Relation rel, const MosqlLocalIndex *index, int i, Oid type)
{
	Oid			class = OidIsValid(index->classes[i]) ? index->classes[i]
		: mosql_admin_kept_class(RelationGetRelid(rel), index->name, i);

	return OidIsValid(class) && IsBinaryCoercible(type, get_opclass_input_type(class)) ? class
		: GetDefaultOpClass(type, BTREE_AM_OID);
}

/* The collation of a column in the key, in the same way. */
static Oid
collation_of(Relation rel, const MosqlLocalIndex *index, int i, Form_pg_attribute att)
{
	Oid			collation = OidIsValid(index->collations[i]) ? index->collations[i]
		: mosql_admin_kept_collation(RelationGetRelid(rel), index->name, i);

	return OidIsValid(collation) && OidIsValid(att->attcollation) ? collation : att->attcollation;
}

/* As an exclusion constraint has it: rows of equal keys exclude each other. */
static void
exclude_by_equality(IndexInfo *info, const Oid *classes)
{
	int			n = info->ii_NumIndexKeyAttrs;

	info->ii_Unique = false;
	info->ii_ExclusionOps = palloc(n * sizeof(Oid));
	info->ii_ExclusionProcs = palloc(n * sizeof(Oid));
	info->ii_ExclusionStrats = palloc(n * sizeof(uint16));
	for (int i = 0; i < n; i++)
	{
		Oid			type = get_opclass_input_type(classes[i]);

		info->ii_ExclusionOps[i] = get_opfamily_member(get_opclass_family(classes[i]), type, type,
													   BTEqualStrategyNumber);
		info->ii_ExclusionProcs[i] = get_opcode(info->ii_ExclusionOps[i]);
		info->ii_ExclusionStrats[i] = BTEqualStrategyNumber;
	}
}

Oid
mosql_admin_create_local_index(Relation rel, const MosqlLocalIndex *index)
{
	bool		exclusion = index->exclusion || mosql_admin_was_exclusion(RelationGetRelid(rel), index->name);
	IndexInfo  *info = mosql_admin_index_info(index, our_access_method(), false);
	Oid			collations[INDEX_MAX_KEYS] = {0};
	Oid			classes[INDEX_MAX_KEYS] = {0};
	int16		options[INDEX_MAX_KEYS] = {0};
	List	   *names = mosql_admin_index_column_names(rel, index, index->nkeys + index->nincluded);
	Oid			indexid;
	ObjectAddress indexaddress;
	ObjectAddress amaddress;

	for (int i = 0; i < index->nkeys; i++)	/* included columns have none of it */
	{
		Oid			type = exprType(index->expressions[i]);

		collations[i] = index->collations[i];
		if (index->attnums[i] != 0)
		{
			Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), index->attnums[i] - 1);

			type = att->atttypid;
			collations[i] = collation_of(rel, index, i, att);
		}
		options[i] = index->options[i];
		classes[i] = mosql_admin_index_class(rel, index, i, type);
		if (!OidIsValid(classes[i]))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("data type %s has no default operator class for access method \"btree\"",
							format_type_be(type)),
					 errhint("Index an expression that has an order, or leave UNIQUE away.")));
	}
	if (index->hash || mosql_admin_was_hash(RelationGetRelid(rel), index->name))
		options[0] |= MOSQL_INDOPTION_HASH;
	if (exclusion)
		exclude_by_equality(info, classes);
	indexid = index_create(rel, index->name, InvalidOid, InvalidOid, InvalidOid, InvalidOid,
						   info, names, our_access_method(), InvalidOid,
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
						   (index->constraint || exclusion ? INDEX_CREATE_ADD_CONSTRAINT : 0) |
						   INDEX_CREATE_SKIP_BUILD,
						   0, false, false, NULL);

	/* core takes access methods for built in: without this DROP EXTENSION would
	 * leave an index that nobody can open */
	ObjectAddressSet(indexaddress, RelationRelationId, indexid);
	ObjectAddressSet(amaddress, AccessMethodRelationId, our_access_method());
	recordDependencyOn(&indexaddress, &amaddress, DEPENDENCY_NORMAL);
	CommandCounterIncrement();
	mosql_admin_restore_index(indexid);
	mosql_admin_link_indexes(rel);
	return indexid;
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

/* What an index is computed by in local terms; false if it cannot be: index->broken. */
static bool
localize_computed(Relation rel, const MosqlDefinition *definition,
				  const MosqlDefinitionIndex *there, MosqlLocalIndex *index)
{
	MosqlAttributes attributes = mosql_definition_attributes(definition, RelationGetRelid(rel));
	MosqlComputed computed = mosql_index_compute(there, &attributes);

	index->broken = computed.broken;
	if (computed.broken != NULL)
		return false;
	for (int i = 0; i < there->nkeys; i++)
	{
		index->expressions[i] = computed.expressions[i];
		if (computed.expressions[i] != NULL)
			index->collations[i] = mosql_collation_oid(there->keys[i].collation);
	}
	index->predicate = computed.predicate;
	return true;
}

/* The index of a definition in this relation's attributes; false if one lacks, or if this
 * server cannot compute it. */
static bool
localize(Relation rel, const MosqlDefinition *definition, const MosqlDefinitionIndex *there,
		 MosqlLocalIndex *index)
{
	int			n = there->nkeys + there->nincluded;
	MosqlAttributes attributes = mosql_definition_attributes(definition, RelationGetRelid(rel));

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

		if (i < there->nkeys)
			index->options[i] = (there->keys[i].descending ? INDOPTION_DESC : 0) |
				(there->keys[i].nulls_first ? INDOPTION_NULLS_FIRST : 0);
		if (i < there->nkeys && there->keys[i].expression != NULL)
			continue;
		if (id < attributes.nids)
			index->attnums[i] = attributes.by_id[id] + 1;
		if (index->attnums[i] <= 0)
			return false;
	}
	return localize_computed(rel, definition, there, index);
}

static Oid
local_index(Relation rel, const char *name)
{
	ListCell   *lc;

	foreach(lc, mosql_admin_secondary_indexes(rel))
		if (strcmp(get_rel_name(lfirst_oid(lc)), name) == 0)
			return lfirst_oid(lc);
	return InvalidOid;
}

/*
 * What an index is computed by, as pg_index has it: the relation cache folds constants, and so calls functions
 * of the owner as whoever asks.
 */
static Node *
stored_node(Relation index, AttrNumber attribute)
{
	bool		isnull;
	Datum		stored = SysCacheGetAttr(INDEXRELID, index->rd_indextuple, attribute, &isnull);

	return isnull ? NULL : stringToNode(TextDatumGetCString(stored));
}

/* Is this what pg_index says of an index, but for what it is computed by? */
static bool
has_columns(Relation rel, const MosqlLocalIndex *index)
{
	Form_pg_index local = rel->rd_index;
	bool		same = (local->indisunique || local->indisexclusion) == index->unique &&
		local->indnullsnotdistinct == index->nulls_not_distinct &&
		local->indnkeyatts == index->nkeys &&
		local->indnatts == index->nkeys + index->nincluded &&
		(!local->indisexclusion && OidIsValid(get_index_constraint(RelationGetRelid(rel)))) == index->constraint;

	for (int i = 0; same && i < local->indnatts; i++)
		same = local->indkey.values[i] == index->attnums[i] &&
			(i >= index->nkeys || (rel->rd_indoption[i] & ~MOSQL_INDOPTION_HASH) == index->options[i]);
	return same;
}

static bool
is_computed_by(Relation rel, const MosqlLocalIndex *index)
{
	const IndexInfo *info = mosql_admin_index_info(index, our_access_method(), false);

	return equal(stored_node(rel, Anum_pg_index_indexprs), info->ii_Expressions) &&
		equal(stored_node(rel, Anum_pg_index_indpred), index->predicate);
}

static bool
is_index(Oid indexid, const MosqlLocalIndex *index)
{
	Relation	rel = relation_open(indexid, AccessShareLock);
	bool		same = has_columns(rel, index) && is_computed_by(rel, index);

	relation_close(rel, AccessShareLock);
	return same;
}

bool
mosql_admin_is_index(Oid indexid, Relation rel, const MosqlDefinition *definition,
					 const MosqlDefinitionIndex *there)
{
	MosqlLocalIndex index;
	Relation	local;
	bool		same;

	if (!localize(rel, definition, there, &index) && index.broken == NULL)
		return false;
	local = relation_open(indexid, AccessShareLock);
	same = has_columns(local, &index) && (index.broken != NULL || is_computed_by(local, &index));
	relation_close(local, AccessShareLock);
	return same;
}

bool
mosql_admin_shows_index(Relation rel, const MosqlDefinition *definition,
						const MosqlDefinitionIndex *there)
{
	Oid			indexid = local_index(rel, there->name);
	MosqlLocalIndex index;

	return OidIsValid(indexid) && localize(rel, definition, there, &index) &&
		is_index(indexid, &index);
}

/* Show an index of the definition as it is now there. */
static void
follow_index(Relation rel, const MosqlDefinition *definition, const MosqlDefinitionIndex *there)
{
	Oid			indexid = local_index(rel, there->name);
	MosqlLocalIndex index;

	if (!localize(rel, definition, there, &index))
	{
		if (index.broken != NULL)
			ereport(WARNING,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("index \"%s\" of the table in Redis is not shown here", there->name),
					 errdetail("This server cannot compute it: %s.", index.broken),
					 errhint("The table can be read here, and written only by other servers.")));
		return;
	}
	if (OidIsValid(indexid))
	{
		if (is_index(indexid, &index))
			return;
		mosql_admin_drop_local_index(indexid);
	}
	if (OidIsValid(get_relname_relid(index.name, RelationGetNamespace(rel))))
		ereport(WARNING,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("index \"%s\" of the table in Redis is not shown here", index.name),
				 errdetail("There is another relation of that name. The index is maintained nevertheless.")));
	else
		(void) mosql_admin_create_local_index(rel, &index);
}

void
mosql_admin_follow_indexes(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	MosqlDefinition *definition = mosql_definition_of(rel, mosql_fdw_session_for(relid, InvalidOid));
	ListCell   *lc;

	foreach(lc, mosql_admin_secondary_indexes(rel))
		if (definition == NULL ||
			mosql_definition_index(definition, get_rel_name(lfirst_oid(lc))) == NULL)
			mosql_admin_drop_local_index(lfirst_oid(lc));
	for (int i = 0; definition != NULL && i < definition->nindexes; i++)
		follow_index(rel, definition, &definition->indexes[i]);
	mosql_admin_restore_bare_indexes(rel);
	relation_close(rel, NoLock);
}

/* Is a column in it, or something computed by it? */
static bool
index_has_attribute(Oid indexid, AttrNumber attnum)
{
	Relation	index = relation_open(indexid, AccessShareLock);
	Bitmapset  *attributes = NULL;
	bool		has = false;

	for (int i = 0; i < index->rd_index->indnatts; i++)
		has |= index->rd_index->indkey.values[i] == attnum;
	pull_varattnos(stored_node(index, Anum_pg_index_indexprs), 1, &attributes);
	pull_varattnos(stored_node(index, Anum_pg_index_indpred), 1, &attributes);
	relation_close(index, AccessShareLock);
	return has || bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber, attributes);
}

/*
 * Core rebuilds the indexes of a column whose type or expression changes, from their
 * definitions, which it refuses for foreign tables.  So ours go first; they come
 * back when the command has ended (follow_key, follow_indexes).  Those whose constraints
 * the command itself drops are gone by then.
 */
void
mosql_admin_drop_for_retype(Oid relid, const char *column, const AlterTableStmt *statement)
{
	AttrNumber	attnum = get_attnum(relid, column);
	Relation	rel;
	List	   *indexes = NIL;
	ListCell   *lc;

	if (attnum <= 0 || !mosql_fdw_is_ours(relid))
		return;
	rel = mosql_admin_lock_owned(relid, AccessExclusiveLock, "ALTER TABLE");
	foreach(lc, RelationGetIndexList(rel))
		if ((mosql_admin_is_our_index(lfirst_oid(lc)) || mosql_admin_is_bare_index(lfirst_oid(lc))) &&
			index_has_attribute(lfirst_oid(lc), attnum) &&
			!mosql_admin_drops_constraint(statement, get_rel_name(lfirst_oid(lc))))
			indexes = lappend_oid(indexes, lfirst_oid(lc));
	relation_close(rel, NoLock);
	foreach(lc, indexes)
	{
		mosql_admin_keep_index(lfirst_oid(lc));
		mosql_admin_drop_local_index(lfirst_oid(lc));
	}
}

/* ---- CREATE INDEX, ADD UNIQUE ---- */

/* A local index as a definition. */
static MosqlDefinitionIndex *
globalize(Relation rel, const MosqlLocalIndex *index, const MosqlDefinition *definition)
{
	MosqlAttributes attributes = mosql_definition_attributes(definition, RelationGetRelid(rel));
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
		const MosqlDefinitionColumn *column;
		const char *name;

		if (i < index->nkeys)
		{
			there->keys[i].descending = (index->options[i] & INDOPTION_DESC) != 0;
			there->keys[i].nulls_first = (index->options[i] & INDOPTION_NULLS_FIRST) != 0;
		}
		if (index->attnums[i] == 0)
		{
			mosql_definition_set_expression(there, i, index->expressions[i],
											mosql_collation_name(index->collations[i]),
											&attributes);
			continue;
		}
		name = get_attname(RelationGetRelid(rel), index->attnums[i], false);
		column = mosql_definition_column(definition, name);
		if (column == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("column \"%s\" cannot be indexed", name),
					 errdetail("Virtual generated columns are not stored."),
					 errhint("Declare the column GENERATED ALWAYS AS (...) STORED.")));
		if (i >= index->nkeys)
			there->included[i - index->nkeys] = column->id;
		else
			there->keys[i].column = column->id;
	}
	if (index->predicate != NULL)
		mosql_definition_set_predicate(there, index->predicate, &attributes);
	mosql_definition_note_locale(there, &attributes);
	return there;
}

/* What a local index is computed by, in place of what its definition says. */
static void
put_texts(Oid indexid, MosqlDefinitionIndex *index, const MosqlAttributes *attributes)
{
	Relation	rel = relation_open(indexid, AccessShareLock);
	List	   *expressions = (List *) stored_node(rel, Anum_pg_index_indexprs);
	Node	   *predicate = stored_node(rel, Anum_pg_index_indpred);
	MosqlDefinitionIndexColumn *keys = palloc(index->nkeys * sizeof(MosqlDefinitionIndexColumn));
	int			n = 0;

	memcpy(keys, index->keys, index->nkeys * sizeof(MosqlDefinitionIndexColumn));
	index->keys = keys;
	for (int i = 0; i < index->nkeys; i++)
		if (keys[i].expression != NULL && n < list_length(expressions))
			mosql_definition_set_expression(index, i, list_nth(expressions, n++),
											mosql_collation_name(rel->rd_indcollation[i]),
											attributes);
	if (index->predicate != NULL && predicate != NULL)
		mosql_definition_set_predicate(index, predicate, attributes);
	relation_close(rel, AccessShareLock);
}

/* Is one of the local indexes computed by expressions or a predicate? */
static bool
has_computed(Relation rel)
{
	ListCell   *lc;

	foreach(lc, mosql_admin_secondary_indexes(rel))
	{
		Relation	index = relation_open(lfirst_oid(lc), AccessShareLock);
		bool		computed = stored_node(index, Anum_pg_index_indexprs) != NULL ||
			stored_node(index, Anum_pg_index_indpred) != NULL;

		relation_close(index, AccessShareLock);
		if (computed)
			return true;
	}
	return false;
}

int
mosql_admin_computed_indexes(Relation rel, MosqlDefinitionIndex **indexes)
{
	Oid			relid = RelationGetRelid(rel);
	MosqlDefinition *there = has_computed(rel)
		? mosql_definition_of(rel, mosql_fdw_session_for(relid, InvalidOid)) : NULL;
	MosqlAttributes attributes;
	int			n = 0;

	if (there == NULL)
		return 0;
	attributes = mosql_definition_attributes(there, relid);
	*indexes = palloc((there->nindexes + 1) * sizeof(MosqlDefinitionIndex));
	for (int i = 0; i < there->nindexes; i++)
	{
		Oid			indexid = local_index(rel, there->indexes[i].name);

		if (!OidIsValid(indexid) || !mosql_definition_is_computed(&there->indexes[i]))
			continue;
		(*indexes)[n] = there->indexes[i];
		put_texts(indexid, &(*indexes)[n++], &attributes);
	}
	return n;
}

/*
 * The local index of that name, if it is of this table and what is in Redis under
 * the name is the same as this: it came with the table that this server attached
 * to, and a dump that is restored makes it again.
 */
static Oid
same_index(Relation rel, const MosqlDefinitionIndex *index, const MosqlDefinition *definition)
{
	Oid			indexid = get_relname_relid(index->name, RelationGetNamespace(rel));
	const MosqlDefinitionIndex *there = mosql_definition_index(definition, index->name);

	if (!OidIsValid(indexid) || there == NULL || !mosql_admin_is_our_index(indexid) ||
		IndexGetRelation(indexid, true) != RelationGetRelid(rel) ||
		there->constraint != index->constraint ||
		!mosql_definition_same_index(there, index))
		return InvalidOid;
	return indexid;
}

/*
 * Is all of PostgreSQL's transaction this statement?  One of a function or a DO block is
 * no portal's own.
 */
bool
mosql_admin_is_whole_transaction(void)
{
	const Node *statement;

	if (IsInTransactionBlock(true) || ActivePortal == NULL ||
		list_length(ActivePortal->stmts) != 1)
		return false;
	statement = linitial_node(PlannedStmt, ActivePortal->stmts)->utilityStmt;
	return statement != NULL && (IsA(statement, IndexStmt) || IsA(statement, AlterTableStmt));
}

/*
 * An index of a table that was there before is built in several transactions, while
 * others write, if the command is not one of several of a transaction.
 */
static bool
builds_online(Relation rel, const MosqlSession *session)
{
	return rel->rd_createSubid == InvalidSubTransactionId && mosql_admin_is_whole_transaction() &&
		mosql_txn_may_chain(session);
}

/*
 * Here and in Redis.  What it is computed by is here as it is read from there, so that
 * all servers have the same.
 */
Oid
mosql_admin_create_both(Relation rel, MosqlLocalIndex *index)
{
	MosqlSession *session;
	const char *schema;
	const char *name;
	MosqlDefinition *definition;
	MosqlDefinitionIndex *there;
	Oid			indexid;

	if (IsBinaryUpgrade)
		return mosql_admin_create_local_index(rel, index);	/* it is in Redis already */
	session = mosql_fdw_session_for(RelationGetRelid(rel), InvalidOid);
	mosql_table_remote_name(rel, &schema, &name);
	definition = mosql_table_definition(session, schema, name);
	if (definition == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s.%s\" does not exist in Redis", schema, name),
				 errhint("Drop the foreign table and create it again.")));
	there = globalize(rel, index, definition);
	indexid = same_index(rel, there, definition);
	if (OidIsValid(indexid))
	{
		ereport(NOTICE,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("index \"%s\" exists already, the same in Redis, skipping", index->name)));
		if (!index->exclusion || mosql_admin_is_exclusion(indexid))
			return indexid;
		mosql_admin_drop_local_index(indexid);	/* it came with the table as a unique one */
		return mosql_admin_create_local_index(rel, index);
	}
	if (there->ordered)
		mosql_definition_order_labels(rel, definition);
	if (!localize_computed(rel, definition, there, index))
		elog(ERROR, "index \"%s\" cannot be read again", index->name);
	if (builds_online(rel, session))
	{
		MosqlBuild *build;

		if (OidIsValid(get_relname_relid(index->name, RelationGetNamespace(rel))))
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_TABLE),
					 errmsg("relation \"%s\" already exists", index->name)));
		build = mosql_table_begin_build(rel, session, there, index->exclusion);
		indexid = mosql_admin_create_local_index(rel, index);
		mosql_table_finish_build(build);
		return indexid;
	}
	indexid = mosql_admin_create_local_index(rel, index);
	mosql_table_create_index(rel, session, there);
	return indexid;
}
