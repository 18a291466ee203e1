/*
 * index_statement.c: what CREATE INDEX, UNIQUE and EXCLUDE say of an index of ours.
 *
 * Layer: admin.  It is checked, by the rules of core and by what all servers must understand, and becomes a
 * MosqlLocalIndex, which index.c makes here and in Redis.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/sysattr.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opfamily.h"
#include "commands/comment.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "parser/parse_utilcmd.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/utility.h"

static void
check_room(const MosqlLocalIndex *index)
{
	if (index->nkeys + index->nincluded == INDEX_MAX_KEYS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("cannot use more than %d columns in an index", INDEX_MAX_KEYS)));
}

void
mosql_admin_add_index_column(Relation rel, MosqlLocalIndex *index, const char *name)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), name);

	if (attnum <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" does not exist", name)));
	check_room(index);
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
	Relation	rel = mosql_admin_lock_owned(relid, AccessExclusiveLock, "ALTER TABLE");
	MosqlLocalIndex index = {.constraint = true,.unique = true};
	ListCell   *lc;

	mosql_admin_check_create(RelationGetNamespace(rel));
#if PG_VERSION_NUM >= 180000
	mosql_admin_refuse_overlaps(constraint->without_overlaps);
#endif
	if (constraint->deferrable)
		refuse("deferrable UNIQUE constraints", "Uniqueness is checked at the end of each statement.");
	if (constraint->indexname != NULL)
	{
		mosql_admin_unique_using(rel, constraint);
		relation_close(rel, NoLock);
		return;
	}
	mosql_admin_check_index_options(constraint->options, constraint->indexspace);
	index.nulls_not_distinct = constraint->nulls_not_distinct;
	foreach(lc, constraint->keys)
	{
		mosql_admin_add_index_column(rel, &index, strVal(lfirst(lc)));
		index.nkeys++;
	}
	foreach(lc, constraint->including)
	{
		mosql_admin_add_index_column(rel, &index, strVal(lfirst(lc)));
		index.nincluded++;
	}
	index.name = mosql_admin_choose_index_name(rel, &index, constraint->conname);
	(void) mosql_admin_create_both(rel, &index);
	relation_close(rel, NoLock);
}

static void
refuse_exclusion(const char *what)
{
	refuse(what, "Only uniqueness can be enforced: EXCLUDE USING btree (... WITH =), perhaps with WHERE.");
}

static void
check_statement(const IndexStmt *statement)
{
#if PG_VERSION_NUM >= 180000
	mosql_admin_refuse_overlaps(statement->iswithoutoverlaps);
#endif
	if (!mosql_admin_is_bare_method(statement->accessMethod))
		mosql_admin_check_index_options(statement->options, statement->tableSpace);
	if (statement->deferrable)
		refuse(statement->excludeOpNames != NIL ? "deferrable exclusion constraints" : "deferrable UNIQUE constraints",
			   "Uniqueness is checked at the end of each statement.");
	if (statement->excludeOpNames != NIL && mosql_admin_is_bare_method(statement->accessMethod))
		refuse_exclusion("exclusion constraints USING another method than btree or hash");
	mosql_admin_check_access_method(statement);
}

/* ---- expressions and predicates ---- */

/*
 * As the planner makes it.  It may call functions, of the table's owner as well: as the owner, as core does.
 */
static Node *
plan_as_owner(Relation rel, const Node *node)
{
	MosqlIdentity before;
	Node	   *planned;

	mosql_identity_take(rel->rd_rel->relowner, &before);
	planned = (Node *) expression_planner((Expr *) copyObject(node));
	mosql_identity_give_back(&before);
	return planned;
}

/* See admin.h. */
void
mosql_admin_check_immutable(Relation rel, const Node *node, const char *what)
{
	if (contain_mutable_functions(plan_as_owner(rel, node)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("functions in index %s must be marked IMMUTABLE", what)));
}

/*
 * With the bodies of functions in SQL in their place, as the planner puts them into queries, which so
 * find the index: what is left may be known to all servers.  The index is then of what such
 * a function says now.  Of what is built in `text || integer` is such a function, which is not marked as immutable.
 */
static Node *
inline_functions(Relation rel, Node *node)
{
	bool		as_it_is = mosql_expression_is_portable_in_index(node) && !contain_mutable_functions(node);
	Node	   *inlined = as_it_is ? node : plan_as_owner(rel, node);

	return mosql_expression_is_portable_in_index(inlined) ? inlined : node;
}

/*
 * What the index is computed by.  Refused is what core would refuse (42P17, 0A000), and what other
 * servers would not understand.  What is left is made of built-in functions alone, so nothing later needs the
 * rights of the owner.
 */
static Node *
check_computed(Relation rel, Node *given, bool predicate)
{
	Bitmapset  *attributes = NULL;
	Node	   *node = inline_functions(rel, given);

	pull_varattnos(given, 1, &attributes);
	for (int i = FirstLowInvalidHeapAttributeNumber + 1; i < 0; i++)
		if (bms_is_member(i - FirstLowInvalidHeapAttributeNumber, attributes))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("index creation on system columns is not supported")));
	mosql_admin_check_immutable(rel, given, predicate ? "predicate" : "expression");
	if (!mosql_expression_is_portable_in_index(node))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 predicate ? errmsg("index predicates can be made of built-in functions, operators and types only")
				 : errmsg("index expressions can be made of built-in functions, operators and types only"),
				 errdetail("Every server that writes to the table must compute the same."),
				 errhint("Index a generated column, which is computed by whoever writes the row.")));
	if (mosql_expression_is_searching(node))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 predicate ? errmsg("index predicates cannot name text search configurations or dictionaries")
				 : errmsg("index expressions cannot name text search configurations or dictionaries"),
				 errdetail("What they do is each server's own, also those that are built in: ALTER TEXT SEARCH changes it."),
				 errhint("Index a generated column, which is computed by whoever writes the row.")));
	return node;
}

static void
check_collatable(Oid type, Oid collation)
{
	if (!type_is_collatable(type) && OidIsValid(collation))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("collations are not supported by type %s", format_type_be(type))));
}

static void
add_expression(Relation rel, MosqlLocalIndex *index, const IndexElem *element, Oid collation)
{
	Node	   *computed = check_computed(rel, element->expr, false);
	Oid			type = exprType(computed);

	check_room(index);
	if (type_is_collatable(type) && !OidIsValid(collation))
		ereport(ERROR,
				(errcode(ERRCODE_INDETERMINATE_COLLATION),
				 errmsg("could not determine which collation to use for index expression"),
				 errhint("Use the COLLATE clause to set the collation explicitly.")));
	check_collatable(type, collation);
	index->attnums[index->nkeys] = 0;
	index->expressions[index->nkeys] = computed;
	index->collations[index->nkeys] = collation;
	index->names[index->nkeys] = element->indexcolname;
}

/* ---- CREATE INDEX ---- */

/*
 * An operator class of the default order; or one of bytes, as text_pattern_ops, which is the
 * order that strings have here anyway.
 */
static bool
is_our_order(List *opclass, Oid type)
{
	Oid			asked = ResolveOpClass(opclass, type, "btree", BTREE_AM_OID);
	Oid			family = get_opclass_family(asked);

	return family == get_opclass_family(GetDefaultOpClass(type, BTREE_AM_OID)) ||
		family == TEXT_PATTERN_BTREE_FAM_OID || family == BPCHAR_PATTERN_BTREE_FAM_OID;
}

/* The column that an element is, which may be written as "(column COLLATE x)"; else NULL. */
static const char *
element_column(Relation rel, const IndexElem *element)
{
	const Var  *var = (const Var *) element->expr;

	if (element->expr == NULL)
		return element->name;
	if (!IsA(var, Var) || var->varattno == 0)
		return NULL;
	return get_attname(RelationGetRelid(rel), var->varattno, false);
}

/* Strings are in the order of their bytes whatever COLLATE says, and found by any collation that tells all of them apart. */
static Oid
column_collation(Form_pg_attribute att, Oid collation)
{
	check_collatable(att->atttypid, collation);
	if (collation == att->attcollation)
		return InvalidOid;
	if (OidIsValid(collation) && !get_collation_isdeterministic(collation))
		refuse("indexes with a nondeterministic collation", "Leave COLLATE away.");
	return collation;
}

static void
take_element(Relation rel, MosqlLocalIndex *index, const IndexElem *given)
{
	IndexElem	element = *given;
	bool		descending = element.ordering == SORTBY_DESC;
	Oid			collation = element.expr ? exprCollation(element.expr) : InvalidOid;
	Oid			type;
	const char *column;

	while (element.expr != NULL && IsA(element.expr, CollateExpr))
		element.expr = (Node *) ((CollateExpr *) element.expr)->arg;
	if (element.collation != NIL)
		collation = get_collation_oid(element.collation, false);
	column = element_column(rel, &element);
	if (column != NULL)
	{
		Form_pg_attribute att;

		mosql_admin_add_index_column(rel, index, column);
		att = TupleDescAttr(RelationGetDescr(rel), index->attnums[index->nkeys] - 1);
		type = att->atttypid;
		index->collations[index->nkeys] = column_collation(att, collation);
	}
	else
	{
		add_expression(rel, index, &element, collation);
		type = exprType(element.expr);
	}
	if (element.opclass != NIL && !is_our_order(element.opclass, type))
		refuse("other operator classes than the default ones", "Leave the operator class away.");
	if (element.opclass != NIL)
		index->classes[index->nkeys] = ResolveOpClass(element.opclass, type, "btree", BTREE_AM_OID);
	index->options[index->nkeys] = (descending ? INDOPTION_DESC : 0) |
		(element.nulls_ordering == SORTBY_NULLS_FIRST ||
		 (element.nulls_ordering == SORTBY_NULLS_DEFAULT && descending)
		 ? INDOPTION_NULLS_FIRST : 0);
	index->nkeys++;
}

/* What an exclusion constraint says of key column i: that equal values exclude each other. */
static void
check_excludes_equal(Relation rel, const MosqlLocalIndex *index, int i, List *operator)
{
	Oid			type = index->attnums[i] == 0 ? exprType(index->expressions[i])
		: TupleDescAttr(RelationGetDescr(rel), index->attnums[i] - 1)->atttypid;
	Oid			asked = compatible_oper_opid(operator, type, type, false);
	Oid			class = mosql_admin_index_class(rel, index, i, type);

	if (OidIsValid(class) &&
		get_op_opfamily_strategy(asked, get_opclass_family(class)) != BTEqualStrategyNumber)
		refuse_exclusion("exclusion constraints by other operators than equality");
}

/* WHERE; what is always true is no predicate, as for core, also where a function says so. */
static void
take_predicate(Relation rel, MosqlLocalIndex *index, Node *clause)
{
	Node	   *computed;

	if (clause == NULL || make_ands_implicit((Expr *) clause) == NIL)
		return;
	computed = check_computed(rel, clause, true);
	if (make_ands_implicit((Expr *) computed) != NIL)
		index->predicate = computed;
}

/* Its OID; InvalidOid: there is one of that name. */
static Oid
create_ours(Relation rel, const IndexStmt *statement)
{
	MosqlLocalIndex index = {0};
	ListCell   *lc;

	index.exclusion = statement->excludeOpNames != NIL;
	index.unique = statement->unique || index.exclusion;
	index.constraint = statement->isconstraint && !index.exclusion;
	index.hash = strcmp(statement->accessMethod, "hash") == 0;
	index.nulls_not_distinct = statement->nulls_not_distinct;
	foreach(lc, statement->indexParams)
		take_element(rel, &index, lfirst_node(IndexElem, lc));
	foreach(lc, statement->excludeOpNames)
		check_excludes_equal(rel, &index, foreach_current_index(lc), lfirst_node(List, lc));
	foreach(lc, statement->indexIncludingParams)
	{
		const IndexElem *element = lfirst_node(IndexElem, lc);

		if (element->name == NULL)
			refuse("expressions as included columns", "Include columns.");
		mosql_admin_add_index_column(rel, &index, element->name);
		index.nincluded++;
	}
	take_predicate(rel, &index, statement->whereClause);
	index.name = mosql_admin_choose_index_name(rel, &index, statement->idxname);
	if (statement->if_not_exists && mosql_admin_skip_existing_index(rel, index.name))
		return InvalidOid;
	return mosql_admin_create_both(rel, &index);
}

/*
 * CREATE INDEX on one of our tables.  By itself it is built while others write.  In a
 * transaction block, or a function, writers of this server wait for it; those of other servers do not,
 * and make it fail if they write meanwhile (40001).  One of an access method that is not ours
 * is a row of the catalogs (index_bare.c).
 */
ObjectAddress
mosql_admin_create_index(const IndexStmt *given)
{
	LOCKMODE	mode = mosql_admin_is_whole_transaction() ? ShareUpdateExclusiveLock : ShareLock;
	Oid			relid = RangeVarGetRelidExtended(given->relation, mode, 0,
												 RangeVarCallbackOwnsRelation, NULL);
	Relation	rel = relation_open(relid, NoLock);
	const IndexStmt *statement;
	ObjectAddress address;

	CheckTableNotInUse(rel, "CREATE INDEX");
	mosql_admin_check_create(RelationGetNamespace(rel));
	check_statement(given);
	statement = transformIndexStmt(relid, copyObject(unconstify(IndexStmt *, given)), NULL);
	ObjectAddressSet(address, RelationRelationId,
					 mosql_admin_is_bare_method(statement->accessMethod)
					 ? mosql_admin_create_bare_index(rel, statement) : create_ours(rel, statement));
	if (OidIsValid(address.objectId) && statement->idxcomment != NULL)
		CreateComments(address.objectId, RelationRelationId, 0, statement->idxcomment);
	relation_close(rel, NoLock);
	return OidIsValid(address.objectId) ? address : InvalidObjectAddress;
}

/* ALTER TABLE ... ADD EXCLUDE, as core makes an index of it. */
void
mosql_admin_add_exclusion(Oid relid, const Constraint *constraint)
{
	Relation	rel = mosql_admin_lock_owned(relid, AccessExclusiveLock, "ALTER TABLE");
	IndexStmt  *create = makeNode(IndexStmt);
	ListCell   *lc;

	create->relation = makeRangeVar(get_namespace_name(RelationGetNamespace(rel)),
									pstrdup(RelationGetRelationName(rel)), -1);
	create->idxname = constraint->conname;
	create->isconstraint = true;
	create->deferrable = constraint->deferrable;
	create->accessMethod = constraint->access_method != NULL ? constraint->access_method : DEFAULT_INDEX_TYPE;
	create->options = constraint->options;
	create->tableSpace = constraint->indexspace;
	create->whereClause = constraint->where_clause;
	foreach(lc, constraint->exclusions)
	{
		create->indexParams = lappend(create->indexParams, linitial(lfirst_node(List, lc)));
		create->excludeOpNames = lappend(create->excludeOpNames, lsecond(lfirst_node(List, lc)));
	}
	foreach(lc, constraint->including)
	{
		IndexElem  *element = makeNode(IndexElem);

		element->name = strVal(lfirst(lc));
		create->indexIncludingParams = lappend(create->indexIncludingParams, element);
	}
	relation_close(rel, NoLock);
	(void) mosql_admin_create_index(create);
}
