/*
 * alter.c: changing tables.
 *
 * Layer: table.  All of it is part of the current transaction: definitions are
 * rows.  Rows carry stable column ids, and a definition says what rows are that
 * lack a column, hence adding (also with a default), dropping and renaming
 * columns touches no row.  Other keys and types copy the rows (rewrite.c).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "rewrite/rewriteHandler.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "table/table_int.h"

/* Names that a renamed column is still found by. */
#define FORMER_NAMES_MAX 16

void
mosql_table_write_definition(Relation rel, MosqlSession *session, MosqlDefinition *definition)
{
	mosql_definition_update(session, definition);
	CacheInvalidateRelcache(rel);
}

void
mosql_table_refuse_alter(const char *what, const char *column, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg(what, column),
			 errhint("%s", hint)));
}

static bool
is_empty(MosqlSession *session, uint64 root)
{
	MosqlRow	row = {0};
	MosqlView  *view = mosql_view_open(mosql_txn_current(session), &row,
									   GetCurrentCommandId(false), false);
	MosqlRowScan *scan = mosql_view_scan_begin(view, mosql_session_tree(session, root),
											   mosql_bytes("", 0), MOSQL_ABSENT, false, 1);
	bool		found = mosql_view_scan_next(scan, &row);

	mosql_view_scan_end(scan);
	mosql_view_close(view);
	return !found;
}

bool
mosql_table_is_of_command(HeapTuple tuple)
{
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)) &&
		HeapTupleHeaderGetCmin(tuple->t_data) >= mosql_table_command->start;
}

/*
 * Was this column added or altered by the running command?  Only such a
 * difference is ours to bring to Redis; any other comes from another server.
 */
static bool
is_altered_here(Relation rel, const char *name)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), name);
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(RelationGetRelid(rel)),
										Int16GetDatum(attnum));
	bool		altered;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for column \"%s\"", name);
	altered = mosql_table_is_of_command(tuple);
	ReleaseSysCache(tuple);
	return altered;
}

/* A change on its way from here to there. */
typedef struct Alteration
{
	Relation	rel;
	MosqlSession *session;
	const MosqlDefinition *here;
	MosqlDefinition *there;
	MosqlDefinition before;		/* what `there` was */
	const MosqlDefinition *was;	/* what was here before the command; NULL: not known */
	const List *usings;			/* of MosqlUsing */
	bool		changed;		/* `there` must be written */
	bool		rewrites;		/* rows go to a new tree */
	bool		incomplete;		/* key columns are still to come: nothing else may
								 * change */
} Alteration;

static void
keep_before(Alteration *alter)
{
	size_t		size = alter->there->ncolumns * sizeof(MosqlDefinitionColumn);

	alter->before = *alter->there;
	alter->before.nindexes = alter->before.nbuilds = 0; /* it is for reading rows */
	alter->before.columns = palloc(size + 1);
	if (size > 0)
		memcpy(alter->before.columns, alter->there->columns, size);
}

/*
 * Has the table no rows, and will it have none until this commits?  Only if the
 * first is so, the second costs something: the read is certified at commit.
 */
static bool
stays_empty(const Alteration *alter)
{
	if (!is_empty(alter->session, alter->before.root))
		return false;
	mosql_txn_serialize(mosql_txn_current(alter->session));
	return is_empty(alter->session, alter->before.root);
}

static Form_pg_attribute
attribute(const Alteration *alter, const char *name)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(alter->rel), name);

	return TupleDescAttr(RelationGetDescr(alter->rel), attnum - 1);
}

typedef struct Default
{
	Expr	   *expr;
	EState	   *estate;
	Datum		value;
	bool		isnull;
} Default;

static void
evaluate(void *arg)
{
	Default    *value = arg;

	value->value = ExecEvalExprSwitchContext(ExecInitExpr(expression_planner(value->expr), NULL),
											 GetPerTupleExprContext(value->estate), &value->isnull);
}

/* The default as a row's column; absent if it is null. */
static MosqlBytes
evaluate_default(const Alteration *alter, Form_pg_attribute att, Expr *expr, uint32 id)
{
	Default		value = {.expr = expr,.estate = CreateExecutorState()};
	MosqlTable	table = {.relid = RelationGetRelid(alter->rel)};
	MosqlTableColumn column = {0};
	StringInfoData out;

	column.attnum = att->attnum;
	column.id = id;
	column.type = att->atttypid;
	column.typmod = att->atttypmod;
	column.collation = att->attcollation;
	mosql_codec_setup(&column);
	initStringInfo(&out);
	mosql_rewrite_evaluate(alter->rel, evaluate, &value);
	if (!value.isnull)
		mosql_codec_put(&table, &column, value.value, &out);
	FreeExecutorState(value.estate);
	return value.isnull ? MOSQL_ABSENT : mosql_bytes_of(&out);
}

/* A null as a value of the column's domain, which may not like it. */
static Expr *
null_of_domain(Form_pg_attribute att)
{
	int32		typmod = att->atttypmod;
	Oid			base = getBaseTypeAndTypmod(att->atttypid, &typmod);

	return (Expr *) coerce_to_target_type(NULL,
										  (Node *) makeNullConst(base, typmod, att->attcollation),
										  base, att->atttypid, att->atttypmod,
										  COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
}

/*
 * What the rows there are have in a new column.  A default that is the same for
 * all is kept in the definition, whatever the number of rows; one that differs
 * from row to row must be written into each.  A domain must allow it, if there are rows.
 */
static void
fill_new_column(Alteration *alter, MosqlDefinitionColumn *column)
{
	Form_pg_attribute att = attribute(alter, column->name);
	Expr	   *expr = att->attgenerated ? NULL
		: (Expr *) build_column_default(alter->rel, att->attnum);
	bool		constrained = !att->attgenerated && DomainHasConstraints(att->atttypid);

	if (att->attgenerated || (expr != NULL && contain_volatile_functions((Node *) expr)))
	{
		alter->rewrites = true;
		return;
	}
	if (constrained && expr == NULL)
		expr = null_of_domain(att);
	if (expr != NULL && !(constrained && stays_empty(alter)))
		column->missing = evaluate_default(alter, att, expr, column->id);
	if (column->missing.data == NULL && att->attnotnull && !stays_empty(alter))
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("column \"%s\" of relation \"%s\" contains null values",
						column->name, RelationGetRelationName(alter->rel)),
				 errhint("Give it a default, or add it without NOT NULL and UPDATE the rows first.")));
}

static MosqlDefinitionColumn *
append_column(MosqlDefinition *there, const MosqlDefinitionColumn *column)
{
	MosqlDefinitionColumn *added;

	if (there->columns == NULL)
		there->columns = palloc(sizeof(MosqlDefinitionColumn));
	else
		there->columns = repalloc(there->columns, (there->ncolumns + 1) *
								  sizeof(MosqlDefinitionColumn));
	added = &there->columns[there->ncolumns++];
	*added = *column;
	added->id = there->next_column++;
	return added;
}

/*
 * A new column has the labels of its enum in their order here.  Where an index goes by that order, all columns
 * have the same, or no server could write.
 */
static void
check_order(const Alteration *alter, const MosqlDefinitionColumn *added)
{
	if (added->nlabels > 0 && mosql_definition_is_ordered(alter->there))
		mosql_definition_order_labels(alter->rel, alter->there);
}

static void
add_column(Alteration *alter, const MosqlDefinitionColumn *column)
{
	MosqlDefinitionColumn *added = append_column(alter->there, column);

	mosql_type_check_names(attribute(alter, column->name));
	check_order(alter, added);
	alter->changed = true;
	if (column->key_position < 0)
		fill_new_column(alter, added);
	else
	{
		mosql_definition_check_key(attribute(alter, column->name), false);
		alter->rewrites = true;
	}
}

/* Do the values of an expression of the index, or its predicate, hang on a column? */
static bool
is_computed_by(const MosqlDefinitionIndex *index, uint32 column)
{
	for (int i = 0; i < index->nkeys; i++)
		if (index->keys[i].expression != NULL &&
			mosql_expression_has_column(index->keys[i].expression, column))
			return true;
	return index->predicate != NULL && mosql_expression_has_column(index->predicate, column);
}

bool
mosql_definition_index_has(const MosqlDefinitionIndex *index, uint32 column)
{
	if (is_computed_by(index, column))
		return true;
	for (int i = 0; i < index->nkeys; i++)
		if (index->keys[i].column == column)
			return true;
	for (int i = 0; i < index->nincluded; i++)
		if (index->included[i] == column)
			return true;
	return false;
}

static bool
is_index_key(const MosqlDefinition *there, uint32 column)
{
	for (int i = 0; i < there->nindexes; i++)
		for (int j = 0; j < there->indexes[i].nkeys; j++)
			if (there->indexes[i].keys[j].column == column)
				return true;
	return false;
}

static bool
computes_indexes(const MosqlDefinition *there, uint32 column)
{
	for (int i = 0; i < there->nindexes; i++)
		if (is_computed_by(&there->indexes[i], column))
			return true;
	for (int i = 0; i < there->nbuilds; i++)
		if (is_computed_by(&there->builds[i].index, column))
			return true;
	return false;
}

/* The indexes of a column that got another id. */
static void
move_indexes(MosqlDefinition *there, uint32 from, uint32 to)
{
	for (int i = 0; i < there->nindexes; i++)
	{
		MosqlDefinitionIndex *index = &there->indexes[i];

		for (int j = 0; j < index->nkeys; j++)
			if (index->keys[j].expression != NULL)
				index->keys[j].expression =
					mosql_expression_renumber(index->keys[j].expression, from, to);
			else if (index->keys[j].column == from)
				index->keys[j].column = to;
		if (index->predicate != NULL)
			index->predicate = mosql_expression_renumber(index->predicate, from, to);
		for (int j = 0; j < index->nincluded; j++)
			if (index->included[j] == from)
				index->included[j] = to;
	}
}

/* Of strings, where it was not, it has a collation. */
static void
retype_expression(MosqlDefinitionIndex *index, int j, const MosqlAttributes *attributes)
{
	Node	   *expression = mosql_expression_retype(index->keys[j].expression, attributes, false);
	const char *collation = index->keys[j].collation;

	if (!type_is_collatable(exprType(expression)))
		collation = "";
	else if (collation[0] == '\0')
		collation = mosql_collation_name(exprCollation(expression));
	mosql_definition_set_expression(index, j, expression, collation, attributes);
}

/*
 * Columns have new types: what is computed of them may be of another type now, or by
 * another function, or not at all, which the parser says.
 */
static void
retype_expressions(Alteration *alter)
{
	Oid			relid = RelationGetRelid(alter->rel);
	MosqlAttributes attributes = mosql_definition_attributes(alter->there, relid);

	for (int i = 0; i < alter->there->nindexes; i++)
	{
		MosqlDefinitionIndex *index = &alter->there->indexes[i];

		if (!mosql_definition_is_computed(index))
			continue;
		index->locale = NULL;
		index->ordered = false;
		for (int j = 0; j < index->nkeys; j++)
			if (index->keys[j].expression != NULL)
				retype_expression(index, j, &attributes);
		if (index->predicate != NULL)
			mosql_definition_set_predicate(index, mosql_expression_retype(index->predicate, &attributes, true),
										   &attributes);
		mosql_definition_note_locale(index, &attributes);
	}
}

/* An index of the column as citext goes with the locale, as one of another type does not. */
static void
check_folded(const MosqlDefinition *there, const MosqlDefinitionColumn *column)
{
	for (int i = 0; i < there->nindexes; i++)
		for (int j = 0; j < there->indexes[i].nkeys; j++)
			if (there->indexes[i].keys[j].column == column->id &&
				there->indexes[i].locale != NULL && mosql_type_name_is_citext(column->type))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot alter column \"%s\", which is a key of index \"%s\" as citext",
								column->name, there->indexes[i].name),
						 errhint("Drop the index, and create it again.")));
}

/* Labels that are copied into a new column keep the names that they had. */
static void
keep_former_labels(MosqlDefinitionColumn *added, const MosqlDefinitionColumn *old)
{
	for (int i = 0; i < added->nlabels && strcmp(added->type, old->type) == 0; i++)
		for (int j = 0; j < old->nlabels; j++)
		{
			const MosqlLabel *label = &old->labels[j];

			if (strcmp(added->labels[i].name, label->name) != 0)
				continue;
			added->labels[i].former = list_copy(label->former);
			if (strcmp(label->stored, label->name) != 0)
				added->labels[i].former = lappend(added->labels[i].former, (void *) label->stored);
		}
}

/* Does the command say whether the column may be null? */
static bool
sets_not_null(const Alteration *alter, const MosqlDefinitionColumn *mine)
{
	const MosqlDefinitionColumn *was = alter->was == NULL ? NULL
		: mosql_table_column_before(alter->was, alter->rel, mine->name);

	return was == NULL || was->not_null != mine->not_null;
}

/*
 * Another type, collation, place in the key, or value.  Where the stored bytes mean the
 * same under the new type, the definition is all that changes; else it is a new
 * column of the same name, into which the rewrite converts the old one.  So it is,
 * too, where something is computed by the column: that may be another value now.
 */
static void
replace_column(Alteration *alter, const MosqlDefinitionColumn *mine,
			   MosqlDefinitionColumn *theirs)
{
	Form_pg_attribute att = attribute(alter, mine->name);
	bool		not_null = sets_not_null(alter, mine) ? mine->not_null : theirs->not_null;
	MosqlDefinitionColumn *added;
	MosqlDefinitionColumn old;

	if (mine->key_position >= 0 || is_index_key(alter->there, theirs->id))
		mosql_definition_check_key(att, false);
	check_folded(alter->there, theirs);
	if (strcmp(mine->type, theirs->type) != 0)
		mosql_type_check_names(att);
	if (alter->was != NULL)
		mosql_table_check_generated(alter->rel, alter->was, &alter->before);	/* core says again by what */
	alter->changed = true;
	if (mosql_using_for(alter->usings, mine->name) == NULL &&
		(mine->key_position >= 0) == (theirs->key_position >= 0) &&
		!computes_indexes(alter->there, theirs->id) &&
		mosql_rewrite_is_needless(alter->session, &alter->before, theirs, att))
	{
		theirs->type = mine->type;
		theirs->shape = mine->shape;
		theirs->collation = mine->collation;
		theirs->not_null = not_null;
		return;
	}
	mosql_table_check_unreferenced(alter->there, theirs->id);
	if (alter->was != NULL)
		mosql_table_check_known(alter->rel, alter->was, &alter->before, theirs->id);
	old = *theirs;
	theirs->dropped = true;
	theirs->sequence.counter = 0;
	added = append_column(alter->there, mine);
	added->not_null = not_null;
	check_order(alter, added);
	added->sequence = old.sequence;
	added->comment = old.comment;
	added->former = old.former;
	keep_former_labels(added, &old);
	move_indexes(alter->there, old.id, added->id);
	alter->rewrites = true;
}

/*
 * A key column there, and not here: has it not been made one yet, or is it one no
 * more?  If it was one, it was so before the command, or is still in the primary key that PostgreSQL knows, unless
 * that was dropped.
 */
static bool
is_key_to_come(const Alteration *alter, const char *name)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(alter->rel), name);
	Bitmapset  *key = RelationGetIndexAttrBitmap(alter->rel, INDEX_ATTR_BITMAP_PRIMARY_KEY);
	const MosqlDefinitionColumn *was = alter->was == NULL ? NULL
		: mosql_table_column_before(alter->was, alter->rel, name);

	if (was != NULL && was->key_position >= 0)
		return false;
	return !bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber, key) &&
		(alter->rel->rd_createSubid != InvalidSubTransactionId ||
		 !is_altered_here(alter->rel, name)) &&
		mosql_definition_lacks_only_keys(alter->here, &alter->before);
}

/*
 * The command acts on what this server shows.  Is that something else in Redis, which another server has put in its
 * place since?  Then it is refused (42P16), unless the command makes the same of it: true, its type is as it should be.
 */
static bool
is_done_there(const Alteration *alter, const MosqlDefinitionColumn *mine,
			  const MosqlDefinitionColumn *theirs)
{
	const MosqlDefinitionColumn *was = alter->was == NULL ? NULL
		: mosql_table_column_before(alter->was, alter->rel, mine->name);
	bool		same = theirs != NULL && mosql_definition_column_difference(mine, theirs) == NULL;
	char	   *difference;

	if (alter->was == NULL)
		return false;
	if (was == NULL && theirs != NULL && !same)
		mosql_table_refuse_alter("column \"%s\" exists already in the table in Redis", mine->name,
								 psprintf("Another server added it, of type %s: mosql_fdw_refresh() brings it here.",
										  theirs->type));
	if (was == NULL)
		return false;
	difference = theirs == NULL ? psprintf("Column \"%s\" exists only here.", mine->name)
		: mosql_definition_column_difference(was, theirs);
	if (difference != NULL && !same)
		mosql_table_differs(alter->rel, difference);
	return difference != NULL;
}

static void
follow_column(Alteration *alter, const MosqlDefinitionColumn *mine)
{
	MosqlDefinitionColumn *theirs = mosql_definition_column(alter->there, mine->name);
	char	   *difference;

	if (theirs != NULL && mine->key_position < 0 && theirs->key_position >= 0 &&
		is_key_to_come(alter, mine->name))
		alter->incomplete = true;
	else if (!is_altered_here(alter->rel, mine->name))
	{
		difference = theirs == NULL ? psprintf("Column \"%s\" exists only here.", mine->name) :
			mosql_definition_column_difference(mine, theirs);
		if (difference != NULL)
			mosql_table_differs(alter->rel, difference);
	}
	else if (!is_done_there(alter, mine, theirs) &&
			 (theirs == NULL || mosql_definition_column_difference(mine, theirs) != NULL ||
			  mosql_using_for(alter->usings, mine->name) != NULL))
	{
		if (theirs == NULL)
			add_column(alter, mine);
		else
			replace_column(alter, mine, theirs);
	}
	else if (theirs->not_null != mine->not_null && sets_not_null(alter, mine))
	{
		theirs->not_null = mine->not_null;
		alter->changed = true;
	}
}

/* Dropped columns leave the key; the others stand there in the order of `here`. */
static void
renumber_key(const MosqlDefinition *here, MosqlDefinition *there)
{
	int			nkeys = 0;

	for (int i = 0; i < there->ncolumns; i++)
		there->columns[i].key_position = -1;
	for (int position = 0; position < here->ncolumns; position++)
		for (int i = 0; i < here->ncolumns; i++)
		{
			MosqlDefinitionColumn *theirs = mosql_definition_column(there, here->columns[i].name);

			if (theirs != NULL && here->columns[i].key_position == position)
				theirs->key_position = nkeys++;
		}
	there->hidden_row_id = nkeys == 0;
	if (nkeys > MOSQL_KEY_MAX_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("a key can have at most %d columns", MOSQL_KEY_MAX_COLUMNS)));
}

void
mosql_definition_remove_builds(MosqlSession *session, MosqlDefinition *there)
{
	MosqlTxn   *txn = mosql_txn_current(session);

	for (int i = 0; i < there->nbuilds; i++)
	{
		mosql_txn_drops_tree(txn, there->builds[i].index.root);
		mosql_txn_drops_tree(txn, there->builds[i].log);
	}
	there->nbuilds = 0;
}

/* New empty trees, for the rows and for each index. */
void
mosql_definition_replace_trees(Relation rel, MosqlSession *session, MosqlDefinition *there)
{
	MosqlTxn   *txn = mosql_txn_current(session);
	bool		together = mosql_table_is_together(RelationGetRelid(rel));

	mosql_txn_drops_tree(txn, there->root);
	there->root = mosql_table_create_tree(session, together);
	for (int i = 0; i < there->nindexes; i++)
	{
		mosql_txn_drops_tree(txn, there->indexes[i].root);
		there->indexes[i].root = mosql_table_create_tree(session, together);
	}
	mosql_definition_remove_builds(session, there);
}

static void
finish_alteration(Alteration *alter)
{
	if (alter->rewrites)
	{
		if (alter->was != NULL)
			mosql_table_check_generated(alter->rel, alter->was, &alter->before);
		mosql_table_hold_still(alter->rel, alter->session, alter->before.root);
		renumber_key(alter->here, alter->there);
		retype_expressions(alter);
		mosql_definition_replace_trees(alter->rel, alter->session, alter->there);
		for (int i = 0; i < alter->there->ncolumns; i++)
			alter->there->columns[i].missing = MOSQL_ABSENT;
	}
	if (alter->changed)
		mosql_table_write_definition(alter->rel, alter->session, alter->there);
	if (alter->rewrites)
		mosql_table_rewrite(alter->rel, alter->session, &alter->before, alter->usings);
}

/* The same key columns were declared in another order: rows are not moved for that. */
static void
notice_order(const Alteration *alter)
{
	for (int i = 0; i < alter->here->ncolumns; i++)
	{
		const MosqlDefinitionColumn *mine = &alter->here->columns[i];
		const MosqlDefinitionColumn *theirs = mosql_definition_column(alter->there, mine->name);

		if (mine->key_position == theirs->key_position || !is_altered_here(alter->rel, mine->name))
			continue;
		ereport(NOTICE,
				(errmsg("rows of foreign table \"%s\" keep the order of their key",
						RelationGetRelationName(alter->rel)),
				 errdetail("Column \"%s\" stays at place %d of the key in Redis.",
						   mine->name, theirs->key_position + 1)));
		return;
	}
}

/*
 * Columns dropped here are no longer there (mosql_table_drop_column).  So one
 * that exists only there was added by another server.
 */
void
mosql_table_alter(Relation rel, MosqlSession *session, List *usings)
{
	Alteration	alter = {.rel = rel,.session = session,.usings = usings};
	char	   *difference;

	alter.here = mosql_definition_describe(rel);
	alter.there = mosql_table_definition(session, alter.here->schema, alter.here->name);
	if (alter.there == NULL)
		mosql_table_missing(rel, alter.here->schema, alter.here->name);
	keep_before(&alter);
	alter.was = mosql_table_before(rel);
	for (int i = 0; i < alter.here->ncolumns; i++)
		follow_column(&alter, &alter.here->columns[i]);
	difference = mosql_definition_difference(alter.here, alter.there);
	if (difference != NULL && (!alter.incomplete || alter.changed))
		mosql_table_differs(rel, difference);
	if (!alter.rewrites && !alter.incomplete)
		notice_order(&alter);
	finish_alteration(&alter);
}

void
mosql_table_recompute(Relation rel, MosqlSession *session)
{
	Alteration	alter = {.rel = rel,.session = session,.changed = true,.rewrites = true};

	alter.here = mosql_definition_describe(rel);
	alter.there = mosql_table_definition(session, alter.here->schema, alter.here->name);
	if (alter.there == NULL)
		mosql_table_missing(rel, alter.here->schema, alter.here->name);
	keep_before(&alter);
	alter.was = mosql_table_before(rel);
	for (int i = 0; alter.was != NULL && i < alter.before.ncolumns; i++)
		if (alter.before.columns[i].generated && !alter.before.columns[i].dropped)
			mosql_table_check_known(rel, alter.was, &alter.before, alter.before.columns[i].id);
	finish_alteration(&alter);
}

/* A list of names without this one. */
static List *
list_delete_string(List *names, const char *name)
{
	List	   *others = NIL;
	ListCell   *cell;

	foreach(cell, names)
		if (strcmp(lfirst(cell), name) != 0)
			others = lappend(others, lfirst(cell));
	return others;
}

/* Is this the column in Redis that has another name here now?  False: here it is not stored. */
static bool
check_renamed(Relation rel, const MosqlDefinitionColumn *column, const char *from, const char *to)
{
	MosqlDefinitionColumn *mine = mosql_definition_column(mosql_definition_describe(rel), to);
	char	   *difference;

	if (mine == NULL)
		return false;
	mine->name = from;
	difference = column == NULL ? psprintf("Column \"%s\" exists only here.", from)
		: mosql_definition_column_difference(mine, column);
	if (difference != NULL)
		mosql_table_differs(rel, difference);
	return true;
}

void
mosql_table_rename_column(Relation rel, MosqlSession *session, const char *from, const char *to)
{
	MosqlDefinition *there = mosql_definition_of(rel, session);
	const MosqlDefinition *was = mosql_table_before(rel);
	MosqlDefinitionColumn *column;

	if (there == NULL)
		return;					/* nothing to follow; opening it says so */
	column = mosql_definition_column(there, from);
	if (column == NULL && mosql_definition_column(there, to) != NULL)
		return;					/* another server has done the same */
	if (!check_renamed(rel, column, from, to))
		return;
	if (mosql_definition_column(there, to) != NULL)
		mosql_table_refuse_alter("column \"%s\" exists already in the table in Redis", to,
								 "Another server added it: mosql_fdw_refresh() brings it here.");
	if (was != NULL)
		mosql_table_check_worded(rel, was, there, column->id);
	column->former = list_delete_string(column->former, to);
	column->former = lappend(list_delete_string(column->former, column->name),
							 (void *) column->name);
	if (list_length(column->former) > FORMER_NAMES_MAX)
		column->former = list_delete_first(column->former);
	column->name = pstrdup(to);
	mosql_table_write_definition(rel, session, there);
}

/* The counter of a column that goes. */
void
mosql_definition_drop_sequence(MosqlSession *session, MosqlDefinitionColumn *column)
{
	if (column->sequence.counter != 0)
		mosql_txn_drops_tree(mosql_txn_current(session), column->sequence.counter);
	column->sequence.counter = 0;
}

MosqlColumnDrop
mosql_table_drop_column(Relation rel, MosqlSession *session, const char *name, char **difference)
{
	Alteration	alter = {.rel = rel,.session = session};
	MosqlDefinitionColumn *column;
	const char *schema;
	const char *table;
	bool		empty = true;

	mosql_table_remote_name(rel, &schema, &table);
	alter.there = mosql_table_definition(session, schema, table);
	if (alter.there == NULL)
		return MOSQL_COLUMN_DROPPED;
	column = mosql_definition_column(alter.there, name);
	if (column == NULL)
		return MOSQL_COLUMN_DROPPED;
	*difference = mosql_table_drop_difference(rel, column);
	if (*difference != NULL)
		return MOSQL_COLUMN_DIFFERS;
	mosql_table_check_unreferenced(alter.there, column->id);
	keep_before(&alter);
	if (column->key_position >= 0)
	{
		alter.here = mosql_definition_describe(rel);	/* a type that goes with its column is no key */
		empty = stays_empty(&alter);
		column->dropped = true;
		renumber_key(alter.here, alter.there);
		mosql_definition_replace_trees(rel, session, alter.there);
	}
	column->dropped = true;
	mosql_definition_drop_sequence(session, column);
	for (int i = alter.there->nindexes - 1; i >= 0; i--)
		if (mosql_definition_index_has(&alter.there->indexes[i], column->id))
			mosql_definition_remove_index(session, alter.there, &alter.there->indexes[i]);
	for (int i = 0; i < alter.there->nbuilds; i++)
		if (mosql_definition_index_has(&alter.there->builds[i].index, column->id))
			mosql_definition_remove_builds(session, alter.there);
	mosql_table_write_definition(rel, session, alter.there);
	return empty ? MOSQL_COLUMN_DROPPED : MOSQL_COLUMN_KEY;
}
