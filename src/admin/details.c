/*
 * details.c: defaults, generated columns, CHECK constraints and comments go into
 * the definition in Redis, for IMPORT FOREIGN SCHEMA on other servers.
 *
 * Layer: admin.  They are SQL text, and no reason for tables to differ: what counts
 * on a server are its own.  Only expressions that mean the same everywhere go there:
 * made of built-in functions, operators and types; of CHECK constraints, those that all
 * rows keep: NOT VALID ones once they are validated, NOT ENFORCED ones never.  As with
 * the rest of a definition (table/alter_detail.c), only what the running command changed is brought there.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/admin.h"

/* nextval() of a sequence that others find under its name. */
static bool
draws_from_named(Node *node)
{
	const FuncExpr *call = (const FuncExpr *) node;
	const Const *seqid;

	if (!IsA(node, FuncExpr) || list_length(call->args) != 1)
		return false;
	seqid = linitial(call->args);
	return (call->funcid == F_NEXTVAL || call->funcid == mosql_fdw_nextval_function()) &&
		IsA(seqid, Const) && !seqid->constisnull &&
		OidIsValid(mosql_fdw_shared_on(DatumGetObjectId(seqid->constvalue)));
}

/* The expression with a number in place of what it draws. */
static Node *
without_draws(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (draws_from_named(node))
		return (Node *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64), Int64GetDatum(0), false,
								  FLOAT8PASSBYVAL);
	return expression_tree_mutator(node, without_draws, context);
}

/* Every server has core's function, and makes it ours. */
static bool
put_core_nextval(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (draws_from_named(node))
	{
		((FuncExpr *) node)->funcid = F_NEXTVAL;
		return false;
	}
	return expression_tree_walker(node, put_core_nextval, context);
}

const char *
mosql_admin_portable_text(Datum bin, Oid relid)
{
	Node	   *node = stringToNode(TextDatumGetCString(bin));

	if (!mosql_expression_is_portable(without_draws(node, NULL)))
		return NULL;
	(void) put_core_nextval(node, NULL);
	return mosql_expression_text(node, relid);
}

/* ---- what the command changed ---- */

typedef struct Details
{
	Relation	rel;
	bool		created;		/* all is new */
	bool		renamed;		/* a column: what names it reads differently now */
	bool		invalid;		/* CHECK constraints that are NOT VALID, too */
	bool		moved;			/* a sequence: what draws from it may be another's business */
	MosqlDetail *details;
	int			n;
	int			max;
} Details;

static void
add(Details *details, MosqlDetail detail)
{
	if (details->n == details->max)
	{
		details->max = Max(16, details->max * 2);
		if (details->details == NULL)
			details->details = palloc(details->max * sizeof(MosqlDetail));
		else
			details->details = repalloc(details->details, details->max * sizeof(MosqlDetail));
	}
	details->details[details->n++] = detail;
}

static bool
is_new(const Details *details, HeapTuple tuple)
{
	return details->created || mosql_table_is_of_command(tuple);
}

/* Rows of a catalog about the table: attno of its relation's OID. */
static SysScanDesc
begin_scan(Relation catalog, const Details *details, AttrNumber attno, Oid index)
{
	ScanKeyData key;

	ScanKeyInit(&key, attno, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(details->rel)));
	return systable_beginscan(catalog, index, true, NULL, 1, &key);
}

static void
add_expressions(Details *details)
{
	Relation	catalog = table_open(AttrDefaultRelationId, AccessShareLock);
	SysScanDesc scan = begin_scan(catalog, details, Anum_pg_attrdef_adrelid, AttrDefaultIndexId);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		AttrNumber	attnum = ((Form_pg_attrdef) GETSTRUCT(tuple))->adnum;
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(details->rel), attnum - 1);
		bool		isnull;
		Datum		bin = heap_getattr(tuple, Anum_pg_attrdef_adbin, RelationGetDescr(catalog),
									   &isnull);

		if (isnull || att->attisdropped ||
			!(is_new(details, tuple) || (details->renamed && att->attgenerated != '\0') ||
			  (details->moved && att->attgenerated == '\0')))
			continue;
		add(details, (MosqlDetail)
			{
				.kind = MOSQL_DETAIL_EXPRESSION,.name = pstrdup(NameStr(att->attname)),
					.text = mosql_admin_portable_text(bin, RelationGetRelid(details->rel)),
					.generated = att->attgenerated != '\0'
			});
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/* The columns that an expression reads. */
static List *
column_names(Relation rel, Datum bin)
{
	Bitmapset  *attnos = NULL;
	List	   *names = NIL;
	int			member = -1;

	pull_varattnos(stringToNode(TextDatumGetCString(bin)), 1, &attnos);
	while ((member = bms_next_member(attnos, member)) >= 0)
		if (member + FirstLowInvalidHeapAttributeNumber > 0)
			names = lappend(names, get_attname(RelationGetRelid(rel),
											   member + FirstLowInvalidHeapAttributeNumber, false));
	return names;
}

static void
add_checks(Details *details)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	SysScanDesc scan = begin_scan(catalog, details, Anum_pg_constraint_conrelid,
								  ConstraintRelidTypidNameIndexId);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);
		bool		isnull;
		Datum		bin = heap_getattr(tuple, Anum_pg_constraint_conbin,
									   RelationGetDescr(catalog), &isnull);

		if (form->contype != CONSTRAINT_CHECK || isnull ||
			!(form->convalidated || details->invalid) ||
			!(is_new(details, tuple) || details->renamed))
			continue;
		add(details, (MosqlDetail)
			{
				.kind = MOSQL_DETAIL_CHECK,.name = pstrdup(NameStr(form->conname)),
					.text = mosql_admin_portable_text(bin, RelationGetRelid(details->rel)),
					.columns = column_names(details->rel, bin),
					.invalid = !form->convalidated,
					.untouched = !is_new(details, tuple)
			});
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/* DROP DEFAULT, DROP EXPRESSION, DROP CONSTRAINT leave nothing to look at. */
static void
add_drops(Details *details, const AlterTableStmt *statement)
{
	ListCell   *cell;

	foreach(cell, statement->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);

		if (cmd->subtype == AT_DropExpression ||
			(cmd->subtype == AT_ColumnDefault && cmd->def == NULL))
			add(details, (MosqlDetail)
				{
					.kind = MOSQL_DETAIL_EXPRESSION,.name = pstrdup(cmd->name),.text = ""
				});
		else if (cmd->subtype == AT_DropConstraint)
			add(details, (MosqlDetail)
				{
					.kind = MOSQL_DETAIL_CHECK,.name = pstrdup(cmd->name),.text = ""
				});
	}
}

/* ALTER TABLE ... RENAME CONSTRAINT: under its new name it is added. */
static void
add_renamed(Details *details, const RenameStmt *statement)
{
	if (statement->renameType == OBJECT_TABCONSTRAINT)
		add(details, (MosqlDetail)
			{
				.kind = MOSQL_DETAIL_CHECK,.name = statement->subname,.text = ""
			});
}

static void
add_comment(Details *details, const CommentStmt *statement)
{
	bool		column = statement->objtype == OBJECT_COLUMN;

	if (!column && statement->objtype != OBJECT_FOREIGN_TABLE && statement->objtype != OBJECT_TABLE)
		return;
	add(details, (MosqlDetail)
		{
			.kind = MOSQL_DETAIL_COMMENT,
				.name = column ? strVal(llast(castNode(List, statement->object))) : NULL,
				.text = statement->comment != NULL ? statement->comment : ""
		});
}

void
mosql_admin_follow_details(Oid relid, bool created, Node *command)
{
	Details		details = {.rel = relation_open(relid, AccessShareLock),.created = created};

	details.moved = command != NULL && IsA(command, AlterSeqStmt);
	details.renamed = command != NULL && IsA(command, RenameStmt);
	/* first, since the same command may make it again */
	if (command != NULL && IsA(command, AlterTableStmt))
		add_drops(&details, (AlterTableStmt *) command);
	if (details.renamed)
		add_renamed(&details, (RenameStmt *) command);
	add_expressions(&details);
	add_checks(&details);
	if (command != NULL && IsA(command, CommentStmt))
		add_comment(&details, (CommentStmt *) command);
	mosql_table_follow_details(details.rel, mosql_fdw_session_for(relid, InvalidOid),
							   details.details, details.n);
	relation_close(details.rel, NoLock);
}

int
mosql_admin_all_details(Relation rel, MosqlDetail **found)
{
	Details		details = {.rel = rel,.created = true};

	add_expressions(&details);
	add_checks(&details);
	*found = details.details;
	return details.n;
}

/* ---- before the command ---- */

void
mosql_admin_note_before(Oid relid)
{
	ListCell   *cell;

	foreach(cell, mosql_admin_altered_tables(relid))
	{
		Details		details = {.created = true,.invalid = true};

		if (mosql_table_command->refreshing || !mosql_fdw_is_ours(lfirst_oid(cell)))
			continue;
		details.rel = relation_open(lfirst_oid(cell), AccessShareLock);
		add_expressions(&details);
		add_checks(&details);
		if (mosql_table_note_before(details.rel, details.details, details.n))
			mosql_admin_note_sequences(details.rel);
		relation_close(details.rel, AccessShareLock);
	}
}

/* ---- and back ---- */

void
mosql_admin_import_comments(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	const MosqlDefinition *there = mosql_definition_of(rel, mosql_fdw_session_for(relid, InvalidOid));

	if (there != NULL && there->comment != NULL && there->comment[0] != '\0')
		CreateComments(relid, RelationRelationId, 0, there->comment);
	for (int i = 0; there != NULL && i < there->ncolumns; i++)
	{
		AttrNumber	attnum = get_attnum(relid, there->columns[i].name);

		if (!there->columns[i].dropped && there->columns[i].comment != NULL &&
			there->columns[i].comment[0] != '\0' && attnum > 0)
			CreateComments(relid, RelationRelationId, attnum, there->columns[i].comment);
	}
	relation_close(rel, NoLock);
}
