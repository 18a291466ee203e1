/*
 * validate.c: rows that are there keep the constraints that a command adds.
 *
 * Layer: admin.  Where PostgreSQL reads its own tables to verify something it takes
 * foreign tables on trust.  Of tables as people declare them it is true, and relied upon:
 * the planner removes `IS NULL` of a column that is NOT NULL (from PostgreSQL 17 on), scans
 * that a CHECK contradicts, partitions whose bounds do.  So when the command has ended,
 * all rows are read once per table and new constraint:
 *
 *   ALTER TABLE ... SET NOT NULL, ADD CHECK, VALIDATE CONSTRAINT, also as parts of others
 *   ALTER COLUMN ... TYPE     of CHECK constraints made anew, and of a domain's
 *   ALTER DOMAIN ... SET NOT NULL, ADD CHECK, VALIDATE CONSTRAINT
 *   ATTACH PARTITION, and CREATE ... PARTITION OF over a table that is in Redis already:
 *                             the bounds, of the default partition, too
 *   CREATE FOREIGN TABLE over such a table, where it declares more than the others know
 *
 * The errors are those of PostgreSQL.  ADD COLUMN of a domain is in table/alter.c.
 *
 * Race -- another server writes such a row meanwhile.  It waits for us, or what is read here is
 * certified at our commit, as for a rewrite (table/rewrite.c).  Whoever decides after us does so under the new schema
 * version, and knows of the NOT NULL; of a CHECK, if it is brought there (details.c).
 * Domains and partitions are each server's own: what other servers write later, they
 * do not check by ours.  Sessions of this server are kept out by locks.  Whoever attaches
 * to a table promises for himself alone, and must come through while others write: what he
 * reads is not certified.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "partitioning/partdesc.h"
#include "parser/parse_type.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "admin/admin.h"

/* ---- reading the rows ---- */

typedef struct Search
{
	ExprState  *condition;
	ExprContext *econtext;
	bool		found;
} Search;

static bool
test_row(const MosqlRow *row, TupleTableSlot *slot, void *arg)
{
	Search	   *search = arg;
	bool		isnull;
	Datum		value;

	ResetExprContext(search->econtext);
	search->econtext->ecxt_scantuple = slot;
	value = ExecEvalExprSwitchContext(search->condition, search->econtext, &isnull);
	search->found = !isnull && DatumGetBool(value);
	return !search->found;
}

/* The attributes that a condition reads, by attnum - 1; NULL: perhaps all. */
static bool *
attributes_in(Relation rel, Node *condition)
{
	bool	   *needed = palloc0(Max(RelationGetNumberOfAttributes(rel), 1) * sizeof(bool));
	Bitmapset  *attnos = NULL;
	int			member = -1;

	pull_varattnos(condition, 1, &attnos);
	while ((member = bms_next_member(attnos, member)) >= 0)
	{
		int			attno = member + FirstLowInvalidHeapAttributeNumber;

		if (attno <= 0)
			return NULL;
		needed[attno - 1] = true;
	}
	return needed;
}

/*
 * Is there a row for which this is true?  Of the relation's attributes as varno 1.  It is
 * evaluated as it stands, without conclusions from what is declared, and as that role,
 * whose functions it may have: of the table's own constraints its owner, else, as core
 * does, the current user.  certify: nor will there be one at commit (mosql_table_visit()).
 * Round trips: of a scan of the table, at most.
 */
static bool
has_row(Relation rel, Node *condition, bool certify, Oid as)
{
	MosqlSession *session = mosql_fdw_session_for(RelationGetRelid(rel), InvalidOid);
	Search		search = {0};
	MosqlIdentity before;
	EState	   *estate;

#if PG_VERSION_NUM >= 180000
	condition = expand_generated_columns_in_expr(condition, rel, 1);
#endif
	CommandCounterIncrement();
	mosql_identity_take(as, &before);
	estate = CreateExecutorState();
	search.econtext = GetPerTupleExprContext(estate);
	search.condition = ExecPrepareExpr((Expr *) condition, estate);
	(void) mosql_table_visit(rel, session, attributes_in(rel, condition), certify, test_row, &search);
	FreeExecutorState(estate);
	mosql_identity_give_back(&before);
	return search.found;
}

static Node *
is_boolean(Node *expression, BoolTestType type)
{
	BooleanTest *test = makeNode(BooleanTest);

	test->arg = (Expr *) expression;
	test->booltesttype = type;
	test->location = -1;
	return (Node *) test;
}

static Node *
is_null(Node *expression)
{
	NullTest   *test = makeNode(NullTest);

	test->arg = (Expr *) expression;
	test->nulltesttype = IS_NULL;
	test->location = -1;
	return (Node *) test;
}

static Node *
column(Relation rel, AttrNumber attnum)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);

	return (Node *) makeVar(1, attnum, att->atttypid, att->atttypmod, att->attcollation, 0);
}

/* ---- NOT NULL ---- */

/* Key columns are never null. */
static bool
is_key(Relation rel, AttrNumber attnum)
{
	AttrNumber	key[INDEX_MAX_KEYS];
	int			n = Min(mosql_table_key_columns(rel, key), INDEX_MAX_KEYS);

	for (int i = 0; i < n; i++)
		if (key[i] == attnum)
			return true;
	return false;
}

static void
validate_not_null(Relation rel, AttrNumber attnum, bool certify)
{
	if (attnum <= 0 || !TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attnotnull ||
		is_key(rel, attnum))
		return;
	if (has_row(rel, is_null(column(rel, attnum)), certify, rel->rd_rel->relowner))
		mosql_table_report_nulls(rel, attnum);
}

static void
validate_named_not_null(Relation rel, const char *name)
{
	validate_not_null(rel, get_attnum(RelationGetRelid(rel), name), true);
}

/* ---- CHECK ---- */

static void
validate_check(Relation rel, const char *name, Node *expression, bool certify)
{
	if (has_row(rel, is_boolean(expression, IS_FALSE), certify, rel->rd_rel->relowner))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("check constraint \"%s\" of relation \"%s\" is violated by some row",
						name, RelationGetRelationName(rel)),
				 errtableconstraint(rel, name)));
}

/* Is it valid by now, and was it not when the transaction began? */
static bool
is_newly_valid(HeapTuple tuple)
{
	return ((Form_pg_constraint) GETSTRUCT(tuple))->convalidated &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
}

static void
validate_constraint(Relation rel, Relation catalog, HeapTuple tuple, bool certify)
{
	Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);
	bool		isnull;
	Datum		datum;

	if (form->contype == CONSTRAINT_CHECK)
	{
		datum = heap_getattr(tuple, Anum_pg_constraint_conbin, RelationGetDescr(catalog), &isnull);
		if (!isnull)
			validate_check(rel, NameStr(form->conname), stringToNode(TextDatumGetCString(datum)),
						   certify);
	}
#if PG_VERSION_NUM >= 180000
	else if (form->contype == CONSTRAINT_NOTNULL)
		validate_not_null(rel, extractNotNullColumn(tuple), certify);
#endif
}

/* All that the transaction added: those of an earlier command once more, harmlessly. */
static void
validate_constraints(Relation rel, bool certify)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(rel)));
	scan = systable_beginscan(catalog, ConstraintRelidTypidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		if (is_newly_valid(tuple))
			validate_constraint(rel, catalog, tuple, certify);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/* ---- ALTER TABLE ---- */

/* A new column's NOT NULL is looked after where it is filled (table/alter.c). */
static bool
adds_check(const ColumnDef *column)
{
	ListCell   *lc;

	foreach(lc, column->constraints)
		if (lfirst_node(Constraint, lc)->contype == CONSTR_CHECK)
			return true;
	return false;
}

/* A column got a domain as its type: it says itself what is wrong with a value. */
static void
validate_domain_column(Relation rel, AttrNumber attnum)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	int32		typmod = att->atttypmod;
	Oid			base = getBaseTypeAndTypmod(att->atttypid, &typmod);
	Node	   *value;

	if (!DomainHasConstraints(att->atttypid))
		return;
	value = (Node *) makeRelabelType((Expr *) column(rel, attnum), base, typmod,
									 att->attcollation, COERCE_IMPLICIT_CAST);
	value = coerce_to_domain(value, base, typmod, att->atttypid, COERCION_IMPLICIT,
							 COERCE_IMPLICIT_CAST, -1, false);
	/* true of no row, but nobody knows before it is evaluated */
	(void) has_row(rel, is_boolean(is_null(value), IS_UNKNOWN), true, rel->rd_rel->relowner);
}

/* True: it may have added constraints. */
static bool
validate_command(Relation rel, const AlterTableCmd *command)
{
	const Constraint *constraint;
	AttrNumber	attnum;

	switch (command->subtype)
	{
		case AT_SetNotNull:
			validate_named_not_null(rel, command->name);
			return false;
		case AT_AddConstraint:
			constraint = castNode(Constraint, command->def);
#if PG_VERSION_NUM >= 180000
			if (constraint->contype == CONSTR_NOTNULL)
				validate_named_not_null(rel, strVal(linitial(constraint->keys)));
#endif
			return constraint->contype == CONSTR_CHECK;
		case AT_ValidateConstraint:
			return true;
		case AT_AddColumn:
			return adds_check(castNode(ColumnDef, command->def));
		case AT_AlterColumnType:
			attnum = get_attnum(RelationGetRelid(rel), command->name);
			if (attnum > 0)
				validate_domain_column(rel, attnum);
			return true;		/* those of the column were made again */
#if PG_VERSION_NUM >= 170000
		case AT_SetExpression:
			return true;		/* the same */
#endif
		default:
			return false;
	}
}

void
mosql_admin_validate(Oid relid, const AlterTableStmt *statement)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	bool		constraints = false;
	ListCell   *lc;

	foreach(lc, statement->cmds)
		constraints |= validate_command(rel, lfirst_node(AlterTableCmd, lc));
	if (constraints)
		validate_constraints(rel, true);
	relation_close(rel, NoLock);
}

/* ---- bounds of partitions ---- */

#define OUTSIDE "partition constraint of relation \"%s\" is violated by some row"

static void
validate_bounds(Relation rel, const char *message, bool certify)
{
	List	   *bounds = RelationGetPartitionQual(rel);

	if (bounds != NIL && has_row(rel, is_boolean((Node *) make_ands_explicit(bounds), IS_FALSE),
								 certify, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg(message, RelationGetRelationName(rel)),
				 errtable(rel)));
}

/* A partition, or those of ours below it. */
static void
validate_partition(Oid relid, const char *message, bool certify)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, AccessShareLock, NULL))
		if (mosql_fdw_is_ours(lfirst_oid(lc)))
		{
			Relation	rel = relation_open(lfirst_oid(lc), NoLock);

			validate_bounds(rel, message, certify);
			relation_close(rel, NoLock);
		}
}

/* ---- CREATE of what is there already ---- */

static bool
is_known(const MosqlDefinition *there, const MosqlDetail *check)
{
	for (int i = 0; i < there->nchecks; i++)
		if (check->text != NULL && strcmp(there->checks[i].expression, check->text) == 0)
			return true;
	return false;
}

static bool
has_unknown_check(Relation rel, const MosqlDefinition *there)
{
	MosqlDetail *details;
	int			n = mosql_admin_all_details(rel, &details);

	for (int i = 0; i < n; i++)
		if (details[i].kind == MOSQL_DETAIL_CHECK && !is_known(there, &details[i]))
			return true;
	return false;
}

void
mosql_admin_validate_attached(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	MosqlDefinition *there = mosql_definition_of(rel, mosql_fdw_session_for(relid, InvalidOid));
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; there != NULL && i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		const MosqlDefinitionColumn *theirs = att->attisdropped || !att->attnotnull ? NULL
			: mosql_definition_column(there, NameStr(att->attname));

		if (theirs != NULL && !theirs->not_null)
			validate_not_null(rel, att->attnum, false);
	}
	if (there != NULL && has_unknown_check(rel, there))
		validate_constraints(rel, false);
	if (rel->rd_rel->relispartition)
		validate_partition(relid, OUTSIDE, false);
	relation_close(rel, NoLock);
}

/* ---- ATTACH PARTITION, CREATE ... PARTITION OF ---- */

void
mosql_admin_validate_partition(Oid relid, bool has_rows)
{
	Relation	parent;
	Oid			other;

	if (!get_rel_relispartition(relid))
		return;
	if (has_rows)
		validate_partition(relid, OUTSIDE, true);
	parent = relation_open(get_partition_parent(relid, false), AccessShareLock);
	other = get_default_oid_from_partdesc(RelationGetPartitionDesc(parent, true));
	relation_close(parent, NoLock);
	if (OidIsValid(other) && other != relid)
		validate_partition(other,
						   "updated partition constraint for default partition \"%s\" would be violated by some row",
						   true);
}

void
mosql_admin_validate_attach(const AlterTableStmt *statement)
{
	ListCell   *lc;

	foreach(lc, statement->cmds)
	{
		const AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);
		Oid			relid;

		if (command->subtype != AT_AttachPartition)
			continue;
		relid = RangeVarGetRelid(castNode(PartitionCmd, command->def)->name, NoLock, true);
		if (OidIsValid(relid) && get_rel_relkind(relid) != RELKIND_INDEX &&
			get_rel_relkind(relid) != RELKIND_PARTITIONED_INDEX)
			mosql_admin_validate_partition(relid, true);
	}
}

/* ---- domains ---- */

/* What a domain's constraint says of its value, said of a column. */
static Node *
put_column(Node *node, void *context)
{
	if (node != NULL && IsA(node, CoerceToDomainValue))
	{
		const CoerceToDomainValue *value = (const CoerceToDomainValue *) node;

		return (Node *) makeRelabelType(copyObject(context), value->typeId, value->typeMod,
										value->collation, COERCE_IMPLICIT_CAST);
	}
	return expression_tree_mutator(node, put_column, context);
}

static void
validate_domain_check(Relation rel, AttrNumber attnum, Node *check)
{
	if (has_row(rel, is_boolean(put_column(check, column(rel, attnum)), IS_FALSE), true, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("column \"%s\" of table \"%s\" contains values that violate the new constraint",
						get_attname(RelationGetRelid(rel), attnum, false),
						RelationGetRelationName(rel)),
				 errtablecol(rel, attnum)));
}

static void
validate_domain_not_null(Relation rel, AttrNumber attnum)
{
	if (has_row(rel, is_null(column(rel, attnum)), true, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("column \"%s\" of table \"%s\" contains null values",
						get_attname(RelationGetRelid(rel), attnum, false),
						RelationGetRelationName(rel)),
				 errtablecol(rel, attnum)));
}

/* The CHECK constraints that the command added to a domain, or validated. */
static List *
new_domain_checks(Oid domain)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	List	   *checks = NIL;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_contypid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(domain));
	scan = systable_beginscan(catalog, ConstraintTypidIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);
		bool		isnull;
		Datum		bin = heap_getattr(tuple, Anum_pg_constraint_conbin,
									   RelationGetDescr(catalog), &isnull);

		if (form->contype == CONSTRAINT_CHECK && form->convalidated && !isnull &&
			mosql_table_is_of_command(tuple))
			checks = lappend(checks, stringToNode(TextDatumGetCString(bin)));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return checks;
}

/* Did the command make it NOT NULL? */
static bool
is_newly_not_null(Oid domain, const AlterDomainStmt *statement)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(domain));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", domain);
	result = ((Form_pg_type) GETSTRUCT(tuple))->typnotnull &&
		(statement->subtype == 'O' || statement->subtype == 'C') &&
		mosql_table_is_of_command(tuple);
	ReleaseSysCache(tuple);
	return result;
}

static void
validate_domain(Relation rel, Oid domain, List *checks, bool not_null)
{
	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);
		ListCell   *lc;

		if (att->attisdropped || !mosql_type_contains(att->atttypid, domain))
			continue;
		if (!mosql_type_is_domain_of(att->atttypid, domain))
			mosql_admin_refuse_type(domain, RelationGetRelid(rel), NameStr(att->attname));
		foreach(lc, checks)
			validate_domain_check(rel, att->attnum, lfirst(lc));
		if (not_null)
			validate_domain_not_null(rel, att->attnum);
	}
}

/* Tables are locked as core locks its own, that nobody here writes meanwhile. */
void
mosql_admin_validate_domains(const AlterDomainStmt *statement)
{
	Oid			domain = LookupTypeNameOid(NULL, makeTypeNameFromNameList(statement->typeName), true);
	List	   *checks;
	bool		not_null;
	ListCell   *lc;

	if (!OidIsValid(domain))
		return;
	checks = new_domain_checks(domain);
	not_null = is_newly_not_null(domain, statement);
	if (checks == NIL && !not_null)
		return;
	foreach(lc, mosql_admin_tables_of_type(domain))
	{
		Relation	rel = try_relation_open(lfirst_oid(lc), ShareLock);

		if (rel == NULL)
			continue;
		validate_domain(rel, domain, checks, not_null);
		relation_close(rel, NoLock);
	}
}
