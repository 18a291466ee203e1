/*
 * using.c: ALTER COLUMN ... TYPE ... USING.
 *
 * Layer: admin.  Core evaluates USING while it copies a table, and refuses it where it
 * copies none.  So the expression is analysed at ddl_command_start, when the table still is
 * what it speaks of, and taken out of the statement.  In the statement it goes on to
 * ddl_command_end, as fdwoptions of the column, which core reads in other commands only.
 * There the copy evaluates it (table/rewrite.c), for the table and all below it.
 */
#include "postgres.h"

#include "access/attmap.h"
#include "access/relation.h"
#include "access/sysattr.h"
#include "catalog/pg_inherits.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "rewrite/rewriteHandler.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/utility.h"

/* ---- before the command ---- */

/* Is it we alone who copy rows for this command?  0A000 if core has to do so, too. */
static bool
is_for_us(Oid relid)
{
	bool		ours = false;
	bool		others = false;
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
		if (mosql_fdw_is_ours(lfirst_oid(lc)))
			ours = true;
		else if (get_rel_relkind(lfirst_oid(lc)) != RELKIND_PARTITIONED_TABLE)
			others = true;
	if (ours && others)
		mosql_admin_refuse("ALTER COLUMN ... TYPE ... USING beside others below one table",
						   "Add a column of the new type, UPDATE the rows with the expression, drop the old column, and rename the new one.");
	return ours;
}

static void
check_plain_columns(Node *expression, const char *column)
{
	Bitmapset  *attnos = NULL;
	int			first;

	pull_varattnos(expression, 1, &attnos);
	first = bms_next_member(attnos, -1);
	if (first >= 0 && first + FirstLowInvalidHeapAttributeNumber <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("USING for column \"%s\" refers to a whole row or a system column", column),
				 errhint("Name the columns one by one.")));
}

/* As core does it (transformAlterTableStmt). */
static Node *
analyse(Relation rel, Node *raw, const char *column)
{
	ParseState *pstate = make_parsestate(NULL);
	ParseNamespaceItem *item = addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL,
															 false, true);
	Node	   *expression;

	addNSItemToQuery(pstate, item, false, true, true);
	expression = transformExpr(pstate, raw, EXPR_KIND_ALTER_COL_TRANSFORM);
	assign_expr_collations(pstate, expression);
	free_parsestate(pstate);
#if PG_VERSION_NUM >= 180000
	expression = expand_generated_columns_in_expr(expression, rel, 1);
#endif
	check_plain_columns(expression, column);
	return expression;
}

static void
check_not_generated(Oid relid, const char *column)
{
	AttrNumber	attnum = get_attnum(relid, column);

	if (attnum > 0 && get_attgenerated(relid, attnum) != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("cannot specify USING when altering type of generated column"),
				 errdetail("Column \"%s\" is a generated column.", column)));
}

void
mosql_admin_take_using(Oid relid, AlterTableCmd *command)
{
	ColumnDef  *column = castNode(ColumnDef, command->def);
	MemoryContext old;
	Relation	rel;
	Node	   *value;

	if (column->raw_default == NULL || !is_for_us(relid))
		return;
	check_not_generated(relid, command->name);
	rel = mosql_admin_lock_owned(relid, AccessExclusiveLock, "ALTER TABLE");
	value = analyse(rel, column->raw_default, command->name);
	relation_close(rel, NoLock);
	/* what an event trigger allocates goes when it returns: it is to live as the statement */
	old = MemoryContextSwitchTo(GetMemoryChunkContext(column));
	column->fdwoptions = list_make1(copyObject(value));
	column->raw_default = NULL;
	MemoryContextSwitchTo(old);
}

/* ---- behind it ---- */

/*
 * The column's new value, ready to be evaluated; by which it becomes what it is now.  Planning calls functions of
 * constants, of casts as well: as the owner, as the rewriting of rows does with the others.
 */
static Expr *
assignment(Relation rel, Node *value, Form_pg_attribute att)
{
	MosqlIdentity identity;
	Expr	   *planned;

	value = coerce_to_target_type(NULL, value, exprType(value), att->atttypid, att->atttypmod,
								  COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
	if (value == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("result of USING clause for column \"%s\" cannot be cast automatically to type %s",
						NameStr(att->attname), format_type_be(att->atttypid)),
				 errhint("You might need to add an explicit cast.")));
	assign_expr_collations(NULL, value);
	value = mosql_table_share_hook(value);
	mosql_identity_take(rel->rd_rel->relowner, &identity);
	planned = expression_planner((Expr *) value);
	mosql_identity_give_back(&identity);
	return planned;
}

/* Is it the column itself, with nothing done to it? */
static bool
is_column(const Expr *value, AttrNumber attnum)
{
	while (IsA(value, RelabelType))
		value = ((const RelabelType *) value)->arg;
	return IsA(value, Var) && ((const Var *) value)->varattno == attnum;
}

static void
check_not_dropped(Relation rel, Node *expression, const char *column)
{
	Bitmapset  *attnos = NULL;
	int			member = -1;

	pull_varattnos(expression, 1, &attnos);
	while ((member = bms_next_member(attnos, member)) >= 0)
		if (TupleDescAttr(RelationGetDescr(rel),
						  member + FirstLowInvalidHeapAttributeNumber - 1)->attisdropped)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("USING for column \"%s\" refers to a column that the same command drops", column),
					 errhint("Drop it in a command of its own, after this one.")));
}

/* The table that the statement names has its columns in another order, perhaps. */
static Node *
for_child(Node *expression, Relation parent, Relation rel)
{
	AttrMap    *map;
	bool		whole_row;

	if (RelationGetRelid(parent) == RelationGetRelid(rel))
		return expression;
#if PG_VERSION_NUM >= 160000
	map = build_attrmap_by_name(RelationGetDescr(rel), RelationGetDescr(parent), false);
#else
	map = build_attrmap_by_name(RelationGetDescr(rel), RelationGetDescr(parent));
#endif
	return map_variable_attnos(expression, 1, 0, map, InvalidOid, &whole_row);
}

static List *
add_using(List *usings, Relation rel, Relation parent, const AlterTableCmd *command)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), command->name);
	Node	   *value = linitial(castNode(ColumnDef, command->def)->fdwoptions);
	MosqlUsing *using = palloc(sizeof(MosqlUsing));

	check_not_dropped(parent, value, command->name);
	using->column = command->name;
	using->value = assignment(rel, for_child(value, parent, rel),
							  TupleDescAttr(RelationGetDescr(rel), attnum - 1));
	return is_column(using->value, attnum) ? usings : lappend(usings, using);
}

List *
mosql_admin_usings(Relation rel, const Node *statement)
{
	const AlterTableStmt *alter = (const AlterTableStmt *) statement;
	List	   *usings = NIL;
	ListCell   *lc;

	if (statement == NULL || !IsA(statement, AlterTableStmt))
		return NIL;
	foreach(lc, alter->cmds)
	{
		const AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);
		Relation	parent;

		if (command->subtype != AT_AlterColumnType ||
			castNode(ColumnDef, command->def)->fdwoptions == NIL)
			continue;
		parent = relation_openrv(alter->relation, NoLock);
		usings = add_using(usings, rel, parent, command);
		relation_close(parent, NoLock);
	}
	return usings;
}
