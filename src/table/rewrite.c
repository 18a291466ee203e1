/*
 * rewrite.c: the rows of a table whose key or types changed.
 *
 * Layer: table.  ALTER gave the table a new empty tree, which nobody else knows.
 * The rows are read from the old one as its definition described them, converted
 * column by column, sorted, and written into the new trees (fill.c), which are seen when
 * the transaction commits, or go with it; duplicates of a new key are found.
 *
 * Other servers would write to the old tree all the while.  Who decides after us is
 * refused, since the schema version is a new one.  Who would decide before us, with what we have not
 * read, waits: the table is locked, as by LOCK TABLE, before the first row is read
 * (mosql_table_hold_still()).  Certifying all of it at our commit, as a SERIALIZABLE transaction
 * does, would cost a step on each leaf, unpack it, and fail us wherever others write all the time.  That is done only
 * above READ COMMITTED, where the snapshot that we read at may be older than the lock.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "table/table_int.h"

Node	   *(*mosql_table_share_hook) (Node *expr) = NULL;

/* Where a column of the new row comes from. */
typedef struct Conversion
{
	int			from;			/* attribute - 1 of the source, -1: none */
	ExprState  *expr;			/* of the old value or, USING, row, or a default; NULL: the
								 * value as it is, or null */
} Conversion;

typedef struct Rewrite
{
	Relation	rel;
	MosqlTable *source;
	MosqlTable *target;
	MosqlTxn   *txn;
	MosqlFill  *fill;
	EState	   *estate;
	ResultRelInfo *rri;
	Conversion *conversions;	/* by attnum - 1 of the relation */
	bool		generated;
	TupleTableSlot *slot;
	const MosqlDefinition *before;
	const List *usings;			/* of MosqlUsing */
	TupleTableSlot *old;		/* a source row, as they see it; NULL: there are none */
	Datum	   *values;			/* of a source row */
	bool	   *nulls;
	StringInfoData key;
	StringInfoData columns;
} Rewrite;

/* ---- functions of the owner ---- */

/* Tables of which rows are being made, the innermost first. */
typedef struct Making
{
	const struct Making *outer;
	Oid			relid;
} Making;

static const Making *making = NULL;

void
mosql_rewrite_evaluate(Relation rel, void (*body) (void *arg), void *arg)
{
	Making		table = {making, RelationGetRelid(rel)};
	MosqlIdentity before;

	mosql_identity_take(rel->rd_rel->relowner, &before);
	making = &table;
	PG_TRY();
	{
		body(arg);
	}
	PG_FINALLY();
	{
		making = table.outer;
	}
	PG_END_TRY();
	mosql_identity_give_back(&before);
}

void
mosql_table_check_made(Relation rel)
{
	for (const Making *table = making; table != NULL; table = table->outer)
		if (table->relid == RelationGetRelid(rel))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("table \"%s\" cannot be used by a function that says what its rows are to be",
							RelationGetRelationName(rel)),
					 errdetail("Its rows are being written anew."),
					 errhint("Add a column, UPDATE the rows, and drop the old one.")));
}

/* ---- conversions ---- */

/*
 * The cast of a value of the old type to the new one, as an assignment would do
 * it: an expression over a CaseTestExpr.  NULL if there is none.
 */
static Expr *
cast_expression(const MosqlTableColumn *from, Form_pg_attribute att)
{
	CaseTestExpr *old = makeNode(CaseTestExpr);
	Node	   *cast;

	old->typeId = from->type;
	old->typeMod = from->typmod;
	old->collation = from->collation;
	cast = coerce_to_target_type(NULL, (Node *) old, from->type, att->atttypid, att->atttypmod,
								 COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
	if (cast == NULL)
		return NULL;
	assign_expr_collations(NULL, cast);
	return expression_planner((Expr *) cast);
}

bool
mosql_rewrite_is_needless(MosqlSession *session, const MosqlDefinition *before,
						  const MosqlDefinitionColumn *column, Form_pg_attribute att)
{
	MosqlTable *source = mosql_table_of_definition(session, before);
	MosqlTableColumn now = {0};
	MosqlTableColumn before_key;
	const MosqlTableColumn *old;
	Expr	   *expr;
	int			i = 0;

	while (before->columns[i].id != column->id)
		i++;
	old = &source->columns[i];
	now.type = att->atttypid;
	now.typmod = att->atttypmod;
	now.collation = att->attcollation;
	mosql_codec_setup(&now);

	/* as keys, too: it may be one of the table or of an index */
	before_key = *old;
	before_key.key_position = now.key_position = 0;
	mosql_key_setup(&before_key);
	mosql_key_setup(&now);
	old = &before_key;
	if (now.codec != old->codec || now.fixed_width != old->fixed_width ||
		now.key_class != old->key_class || now.in_row != old->in_row ||
		(now.type != old->type &&	/* oid has no sign; what do arrays consist of? */
		 (now.key_class == MOSQL_KEY_INT || now.key_class == MOSQL_KEY_ARRAY ||
		  now.key_class == MOSQL_KEY_RANGE)))
		return false;

	/* casts that change no value are relabelings, also those of wider lengths */
	expr = cast_expression(old, att);
	while (expr != NULL && IsA(expr, RelabelType))
		expr = ((RelabelType *) expr)->arg;
	return expr != NULL && IsA(expr, CaseTestExpr);
}

static int
find_source(const MosqlDefinition *before, const char *name)
{
	for (int i = 0; i < before->ncolumns; i++)
		if (!before->columns[i].dropped && strcmp(before->columns[i].name, name) == 0)
			return i;
	return -1;
}

Expr *
mosql_using_for(const List *usings, const char *column)
{
	const ListCell *lc;

	foreach(lc, usings)
		if (strcmp(((const MosqlUsing *) lfirst(lc))->column, column) == 0)
			return ((const MosqlUsing *) lfirst(lc))->value;
	return NULL;
}

static void
plan_column(Rewrite *rewrite, const MosqlDefinition *before, Form_pg_attribute att)
{
	Conversion *conversion = &rewrite->conversions[att->attnum - 1];
	Expr	   *expr;

	conversion->from = find_source(before, NameStr(att->attname));
	if (att->attgenerated)
		return;					/* computed from the others */
	if (conversion->from < 0)
	{
		expr = (Expr *) build_column_default(rewrite->rel, att->attnum);
		if (expr != NULL && att->attidentity == '\0')
			expr = (Expr *) mosql_table_share_hook((Node *) expr);
		if (expr != NULL)
			conversion->expr = ExecInitExpr(expression_planner(expr), NULL);
		return;
	}
	expr = mosql_using_for(rewrite->usings, NameStr(att->attname));
	if (expr == NULL)
		expr = cast_expression(&rewrite->source->columns[conversion->from], att);
	if (expr == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" cannot be cast automatically to type %s",
						NameStr(att->attname),
						format_type_with_typemod(att->atttypid, att->atttypmod)),
				 errhint("You might need to specify \"USING %s::%s\".", quote_identifier(NameStr(att->attname)),
						 format_type_with_typemod(att->atttypid, att->atttypmod))));
	if (!IsA(expr, CaseTestExpr))
		conversion->expr = ExecInitExpr(expr, NULL);
}

/* ---- rows ---- */

/* The definition has a domain's base type; the expression, and so the executor's check, the domain. */
static void
name_domains(TupleDesc desc, const Expr *expr)
{
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) expr, 0))
	{
		const Var  *var = lfirst_node(Var, lc);

		if (var->varattno > 0)
			TupleDescInitEntry(desc, var->varattno, NULL, var->vartype, var->vartypmod, 0);
	}
}

/* A slot for rows as they were: the relation's columns, by number, with their types of then. */
static TupleTableSlot *
make_old_slot(const Rewrite *rewrite)
{
	int			natts = RelationGetDescr(rewrite->rel)->natts;
	TupleDesc	desc = CreateTemplateTupleDesc(natts);
	const ListCell *using;

	for (int i = 0; i < natts; i++)
	{
		int			from = rewrite->conversions[i].from;
		const MosqlTableColumn *column = from < 0 ? NULL : &rewrite->source->columns[from];

		TupleDescInitEntry(desc, i + 1, NULL, column != NULL ? column->type : INT4OID,
						   column != NULL ? column->typmod : -1, 0);
	}
	foreach(using, rewrite->usings)
		name_domains(desc, ((const MosqlUsing *) lfirst(using))->value);
	return MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
}

static void
store_old(const Rewrite *rewrite)
{
	TupleTableSlot *old = rewrite->old;

	ExecClearTuple(old);
	for (int i = 0; i < old->tts_tupleDescriptor->natts; i++)
	{
		int			from = rewrite->conversions[i].from;

		old->tts_isnull[i] = from < 0 || rewrite->nulls[from];
		old->tts_values[i] = old->tts_isnull[i] ? (Datum) 0 : rewrite->values[from];
	}
	ExecStoreVirtualTuple(old);
}

void
mosql_table_report_nulls(Relation rel, AttrNumber attnum)
{
	ereport(ERROR,
			(errcode(ERRCODE_NOT_NULL_VIOLATION),
			 errmsg("column \"%s\" of relation \"%s\" contains null values",
					NameStr(TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attname), RelationGetRelationName(rel)),
			 errtablecol(rel, attnum)));
}

/*
 * As core does: of CHECK constraints those alone are looked at, when the command has ended, that it has made, or made
 * again for a column's new type (src/admin/validate.c).  Rows need not satisfy others: one NOT VALID, say.  NOT NULL
 * may be in Redis alone, said by another server.
 */
static void
check_not_null(const Rewrite *rewrite, const TupleTableSlot *slot)
{
	for (int i = 0; i < slot->tts_tupleDescriptor->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(slot->tts_tupleDescriptor, i);
		bool		not_null = att->attnotnull || rewrite->target->columns[i].not_null;
		bool		computed = false;

#if PG_VERSION_NUM >= 180000
		computed = att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL;
#endif
		if (not_null && slot->tts_isnull[i] && !computed && !att->attisdropped)
			mosql_table_report_nulls(rewrite->rel, att->attnum);
	}
}

static void
convert(Rewrite *rewrite)
{
	ExprContext *econtext = GetPerTupleExprContext(rewrite->estate);
	TupleDesc	desc = RelationGetDescr(rewrite->rel);
	TupleTableSlot *slot = rewrite->slot;

	if (rewrite->old != NULL)
		store_old(rewrite);
	econtext->ecxt_scantuple = rewrite->old;
	ExecClearTuple(slot);
	for (int i = 0; i < desc->natts; i++)
	{
		const Conversion *conversion = &rewrite->conversions[i];
		Datum		value = (Datum) 0;
		bool		isnull = true;

		if (conversion->from >= 0)
		{
			value = rewrite->values[conversion->from];
			isnull = rewrite->nulls[conversion->from];
		}
		if (conversion->expr != NULL)
		{
			econtext->caseValue_datum = value;
			econtext->caseValue_isNull = isnull;
			value = ExecEvalExpr(conversion->expr, econtext, &isnull);
		}
		slot->tts_values[i] = value;
		slot->tts_isnull[i] = isnull;
	}
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(rewrite->rel);
	if (rewrite->generated)
		ExecComputeStoredGenerated(rewrite->rri, rewrite->estate, slot, CMD_INSERT);
	check_not_null(rewrite, slot);
}

bool
mosql_table_excludes(Relation rel, const MosqlIndex *index)
{
	Oid			indexid = get_relname_relid(index->name, RelationGetNamespace(rel));
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	bool		excludes = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	excludes = ((Form_pg_index) GETSTRUCT(tuple))->indisexclusion &&
		((Form_pg_index) GETSTRUCT(tuple))->indrelid == RelationGetRelid(rel);
	ReleaseSysCache(tuple);
	return excludes;
}

void
mosql_table_report_duplicate(Relation rel, const MosqlTable *table, const MosqlIndex *index, bool exclusion,
							 MosqlBytes key)
{
	const char *name = index ? index->name : psprintf("%s_pkey", RelationGetRelationName(rel));
	const char *shown = mosql_table_show_key(index ? index->entries : table, key);

	if (exclusion)
		ereport(ERROR,
				(errcode(ERRCODE_EXCLUSION_VIOLATION),
				 errmsg("could not create exclusion constraint \"%s\"", name),
				 shown != NULL ? errdetail("Key %s conflicts with key %s.", shown, shown)
				 : errdetail("Key conflicts exist."),
				 errtableconstraint(rel, name)));
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("could not create unique index \"%s\"", name),
			 shown != NULL ? errdetail("Key %s is duplicated.", shown)
			 : errdetail("Duplicate keys exist."),
			 errtableconstraint(rel, name)));
}

static void
copy_row(Rewrite *rewrite, const MosqlRow *row)
{
	const MosqlTable *target = rewrite->target;

	mosql_table_get_row(rewrite->source, row->key, row->columns, NULL,
						rewrite->values, rewrite->nulls);
	convert(rewrite);
	resetStringInfo(&rewrite->key);
	resetStringInfo(&rewrite->columns);
	if (target->nkeys > 0)
		mosql_table_slot_key(target, rewrite->slot, &rewrite->key);
	else if (rewrite->source->nkeys == 0)
		appendBinaryStringInfo(&rewrite->key, row->key.data, row->key.len);
	else
		mosql_table_new_row_id(target, &rewrite->key);
	mosql_table_put_row(target, rewrite->slot, &rewrite->columns);
	mosql_fill_put(rewrite->fill, rewrite->slot, mosql_bytes_of(&rewrite->key),
				   mosql_bytes_of(&rewrite->columns));
}

static void
copy_rows(Rewrite *rewrite)
{
	MosqlView  *view = mosql_view_open(rewrite->txn, rewrite, GetCurrentCommandId(true), false);
	MosqlRowScan *scan = mosql_view_scan_begin(view, rewrite->source->tree, mosql_bytes("", 0),
											   MOSQL_ABSENT, false, 0);
	MemoryContext cxt = GetPerTupleMemoryContext(rewrite->estate);
	MosqlTimestamp snapshot = mosql_view_snapshot(view);
	MosqlRow	row = {0};

	rewrite->fill = mosql_fill_begin(rewrite->rel, rewrite->target, true);
	while (mosql_view_scan_next(scan, &row))
	{
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(rewrite->estate);
		old = MemoryContextSwitchTo(cxt);
		copy_row(rewrite, &row);
		MemoryContextSwitchTo(old);
	}
	mosql_view_scan_end(scan);
	mosql_view_close(view);
	mosql_fill_end(rewrite->fill, snapshot);
}

static void
plan_rewrite(Rewrite *rewrite)
{
	TupleDesc	desc = RelationGetDescr(rewrite->rel);

	rewrite->conversions = palloc0(Max(desc->natts, 1) * sizeof(Conversion));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		rewrite->conversions[i].from = -1;
		if (!att->attisdropped)
			plan_column(rewrite, rewrite->before, att);
	}
	rewrite->generated = desc->constr != NULL && desc->constr->has_generated_stored;
	rewrite->slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	if (rewrite->usings != NIL)
		rewrite->old = make_old_slot(rewrite);
	rewrite->values = palloc(Max(rewrite->source->natts, 1) * sizeof(Datum));
	rewrite->nulls = palloc(Max(rewrite->source->natts, 1) * sizeof(bool));
	initStringInfo(&rewrite->key);
	initStringInfo(&rewrite->columns);
}

static void
rewrite_rows(void *rewrite)
{
	plan_rewrite(rewrite);
	copy_rows(rewrite);
}

/* The functions of defaults, casts, USING and generated columns are the owner's. */
void
mosql_table_rewrite(Relation rel, MosqlSession *session, const MosqlDefinition *before,
					const List *usings)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql rewrite",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Rewrite		rewrite = {.rel = rel,.before = before,.usings = usings};

	rewrite.txn = mosql_txn_current(session);
	rewrite.source = mosql_table_of_definition(session, before);
	rewrite.target = mosql_table_open(rel, session);
	rewrite.estate = CreateExecutorState();
	rewrite.rri = makeNode(ResultRelInfo);
	InitResultRelInfo(rewrite.rri, rel, 0, NULL, 0);
	mosql_rewrite_evaluate(rel, rewrite_rows, &rewrite);
	ExecDropSingleTupleTableSlot(rewrite.slot);
	if (rewrite.old != NULL)
		ExecDropSingleTupleTableSlot(rewrite.old);
	FreeExecutorState(rewrite.estate);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* ---- all rows as they are ---- */

MosqlTimestamp
mosql_table_visit(Relation rel, MosqlSession *session, const bool *needed, bool certify,
				  MosqlTableVisit visit, void *arg)
{
	MosqlTxn   *txn = mosql_txn_current(session);
	MosqlTable *table;
	MosqlView  *view;
	MosqlRowScan *scan;
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsVirtual);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql visited row",
											  ALLOCSET_DEFAULT_SIZES);
	MosqlTimestamp snapshot;
	MosqlRow	row = {0};
	bool		more = true;

	if (certify)
	{
		MosqlDefinition *definition = mosql_definition_of_existing(rel, session);

		mosql_table_hold_still(rel, session, definition->root);
		mosql_definition_touch(session, definition);
	}
	table = mosql_table_open(rel, session);
	mosql_fresh_give_way(table);
	view = mosql_view_open(txn, slot, GetCurrentCommandId(true), false);
	snapshot = mosql_view_snapshot(view);
	scan = mosql_view_scan_begin(view, table->tree, mosql_bytes("", 0), MOSQL_ABSENT, false, 0);
	while (more && mosql_view_scan_next(scan, &row))
	{
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(cxt);
		old = MemoryContextSwitchTo(cxt);
		ExecClearTuple(slot);
		mosql_table_get_row(table, row.key, row.columns, needed, slot->tts_values,
							slot->tts_isnull);
		ExecStoreVirtualTuple(slot);
		slot->tts_tableOid = RelationGetRelid(rel);
		more = visit(&row, slot, arg);
		MemoryContextSwitchTo(old);
	}
	mosql_view_scan_end(scan);
	mosql_view_close(view);
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextDelete(cxt);
	return snapshot;
}

/* ---- a new index ---- */

static bool
put_entry(const MosqlRow *row, TupleTableSlot *slot, void *arg)
{
	mosql_fill_put(arg, slot, row->key, MOSQL_ABSENT);
	return true;
}

void
mosql_table_build_index(Relation rel, MosqlSession *session, uint32 id)
{
	MosqlTable *table = mosql_table_open(rel, session);
	MosqlTable	alone = *table; /* with this index only: others are left as they are */

	alone.nindexes = 1;
	alone.nbuilds = 0;
	for (int i = 0; i < table->nindexes; i++)
		if (table->indexes[i].id == id)
		{
			const bool *needed = mosql_index_needed(table, &table->indexes[i]);
			MosqlFill  *fill;

			alone.indexes = &table->indexes[i];
			fill = mosql_fill_begin(rel, &alone, false);
			mosql_fill_end(fill, mosql_table_visit(rel, session, needed, true, put_entry, fill));
			return;
		}
}
