/*
 * validate.c: rows that are there keep the constraints that ALTER TABLE adds.
 *
 * Layer: admin.  Core takes NOT NULL and CHECK of foreign tables for granted; of
 * tables as people declare them they are true: the planner removes `IS NULL` of a
 * column that is NOT NULL (from PostgreSQL 17 on), and scans that a CHECK contradicts.
 * So when the command has ended, one query per new constraint looks for a row that
 * breaks it.
 *
 * Race -- another server writes such a row meanwhile.  Everything read here is
 * certified at our commit, as for a rewrite (table/rewrite.c): whoever decides before
 * us makes us fail with 40001.  Whoever decides after us does so under the new schema
 * version, and knows of the NOT NULL; of a CHECK, if it is brought there (details.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_constraint.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/admin.h"

/* ---- the query ---- */

/*
 * Is there a row for which this is true?  Without conclusions from the constraint
 * itself.  Round trips: of a scan of the table, at most.
 */
static bool
has_row(Relation rel, const char *condition)
{
	const char *table = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												   RelationGetRelationName(rel));
	MosqlSession *session = mosql_fdw_session_for(RelationGetRelid(rel), InvalidOid);
	int			nest_level = NewGUCNestLevel();
	bool		found;

	mosql_txn_serialize(mosql_txn_current(session));
	CommandCounterIncrement();
	(void) set_config_option("constraint_exclusion", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute(psprintf("SELECT FROM ONLY %s WHERE %s", table, condition),
					false, 1) != SPI_OK_SELECT)
		elog(ERROR, "SPI_execute failed");
	found = SPI_processed > 0;
	SPI_finish();
	AtEOXact_GUC(true, nest_level);
	return found;
}

/* ---- NOT NULL ---- */

/* num_nulls(): `IS NULL` would be false by declaration. */
static void
validate_not_null(Relation rel, const char *column)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), column);

	if (attnum <= 0 || !TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attnotnull)
		return;
	if (has_row(rel, psprintf("pg_catalog.num_nulls(%s) OPERATOR(pg_catalog.<>) 0",
							  quote_identifier(column))))
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("column \"%s\" of relation \"%s\" contains null values",
						column, RelationGetRelationName(rel)),
				 errtablecol(rel, attnum)));
}

/* ---- CHECK ---- */

static void
validate_check(Relation rel, const char *name, const char *expression)
{
	if (has_row(rel, psprintf("(%s) IS FALSE", expression)))
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
	Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);

	return form->contype == CONSTRAINT_CHECK && form->convalidated &&
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
}

/* All that the transaction added: those of an earlier command once more, harmlessly. */
static void
validate_checks(Relation rel)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_conrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(rel)));
	scan = systable_beginscan(catalog, ConstraintRelidTypidNameIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		bin = heap_getattr(tuple, Anum_pg_constraint_conbin,
									   RelationGetDescr(catalog), &isnull);

		if (is_newly_valid(tuple) && !isnull)
			validate_check(rel, NameStr(((Form_pg_constraint) GETSTRUCT(tuple))->conname),
						   text_to_cstring(DatumGetTextPP(DirectFunctionCall2(pg_get_expr, bin,
																			  ObjectIdGetDatum(RelationGetRelid(rel))))));
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/* ---- what a command adds ---- */

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

/* True: it may have added CHECK constraints. */
static bool
validate_command(Relation rel, const AlterTableCmd *command)
{
	const Constraint *constraint;

	switch (command->subtype)
	{
		case AT_SetNotNull:
			validate_not_null(rel, command->name);
			return false;
		case AT_AddConstraint:
			constraint = castNode(Constraint, command->def);
#if PG_VERSION_NUM >= 180000
			if (constraint->contype == CONSTR_NOTNULL)
				validate_not_null(rel, strVal(linitial(constraint->keys)));
#endif
			return constraint->contype == CONSTR_CHECK;
		case AT_ValidateConstraint:
			return true;
		case AT_AddColumn:
			return adds_check(castNode(ColumnDef, command->def));
		default:
			return false;
	}
}

void
mosql_admin_validate(Oid relid, const AlterTableStmt *statement)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	bool		checks = false;
	ListCell   *lc;

	foreach(lc, statement->cmds)
		checks |= validate_command(rel, lfirst_node(AlterTableCmd, lc));
	if (checks)
		validate_checks(rel);
	relation_close(rel, NoLock);
}
