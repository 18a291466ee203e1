/*
 * alter.c: creating, changing, dropping and emptying tables.
 *
 * Layer: table.  All of it is part of the current transaction: definitions are
 * rows, and trees that a transaction made or dropped go when its outcome is
 * known.  Rows carry stable column ids, and a definition says what rows are that
 * lack a column, hence adding (also with a default), dropping and renaming
 * columns touches no row.  Other keys and types copy the rows (rewrite.c).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_foreign_table.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
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

#define KEY_TYPES_HINT \
	"Keys can be: boolean, integers, oid, money, real, double precision, numeric, text, varchar, char, name, bytea, uuid, date, time and timestamp (both with or without time zone), interval, and enums."

/* Names that a renamed column is still found by. */
#define FORMER_NAMES_MAX 16

/* Dropped CHECK constraints that other servers still learn of. */
#define DROPPED_CHECKS_MAX 32

/* ---- CREATE ---- */

static void
check_key_column(Form_pg_attribute att)
{
	MosqlTableColumn column = {0};
	const char *refusal = NULL;

	column.typmod = att->atttypmod;
	column.type = getBaseTypeAndTypmod(att->atttypid, &column.typmod);
	column.collation = att->attcollation;
#if PG_VERSION_NUM >= 180000
	if (att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" cannot be part of a key", NameStr(att->attname)),
				 errdetail("Virtual generated columns are not stored."),
				 errhint("Declare the column GENERATED ALWAYS AS (...) STORED.")));
#endif
	refusal = mosql_key_refusal(&column);
	if (refusal != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" cannot be part of a key", NameStr(att->attname)),
				 errdetail_internal("%s", refusal),
				 errhint(KEY_TYPES_HINT)));
}

static void
check_key(Relation rel)
{
	AttrNumber	key[INDEX_MAX_KEYS];
	int			nkeys = mosql_table_key_columns(rel, key);

	if (nkeys > MOSQL_KEY_MAX_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("a key can have at most %d columns", MOSQL_KEY_MAX_COLUMNS)));
	for (int i = 0; i < nkeys; i++)
		check_key_column(TupleDescAttr(RelationGetDescr(rel), key[i] - 1));
}

/*
 * A new empty tree, which goes again if the transaction fails.  If it breaks
 * off before it is noted, it is an orphan that mosql_fdw_check() does not see,
 * of a few hundred bytes.
 */
uint64
mosql_table_create_tree(MosqlSession *session)
{
	MosqlTxn   *txn = mosql_txn_current(session);	/* settles the session's id */
	uint64		root = mosql_session_new_id(session);

	if (!mosql_btree_create(mosql_session_store(session), root))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("node id " UINT64_FORMAT " exists already in Redis", root),
				 errdetail("Ids are unique unless the clock's counters were lost or set back.")));
	mosql_txn_created_tree(txn, root);
	return root;
}

static void
create_definition(MosqlSession *session, MosqlDefinition *definition)
{
	definition->id = mosql_session_new_id(session);
	for (int i = 0; i < definition->ncolumns; i++)
		definition->columns[i].id = i + 1;
	definition->next_column = definition->ncolumns + 1;
	definition->root = mosql_table_create_tree(session);
	mosql_definition_insert(session, definition);
}

static List *
missing_options(List *options, List *given, const char *name, const char *value)
{
	ListCell   *cell;

	foreach(cell, given)
		if (strcmp(((DefElem *) lfirst(cell))->defname, name) == 0)
			return options;
	return lappend(options, makeDefElemExtended(NULL, pstrdup(name),
												(Node *) makeString(pstrdup(value)),
												DEFELEM_ADD, -1));
}

/*
 * Write the name in Redis into the table's options where it is not given, so
 * that ALTER ... RENAME and SET SCHEMA do not lose the data, nor find another's.
 */
void
mosql_table_pin_name(Relation rel)
{
	Oid			relid = RelationGetRelid(rel);
	List	   *given = GetForeignTable(relid)->options;
	List	   *options = NIL;
	const char *schema;
	const char *name;
	Relation	catalog;
	HeapTuple	tuple;
	Datum		datum;
	bool		isnull;
	Datum		values[Natts_pg_foreign_table] = {0};
	bool		nulls[Natts_pg_foreign_table] = {0};
	bool		replaces[Natts_pg_foreign_table] = {0};

	mosql_table_remote_name(rel, &schema, &name);
	options = missing_options(options, given, "schema_name", schema);
	options = missing_options(options, given, "table_name", name);
	if (options == NIL)
		return;

	catalog = table_open(ForeignTableRelationId, RowExclusiveLock);
	tuple = SearchSysCacheCopy1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for foreign table %u", relid);
	datum = SysCacheGetAttr(FOREIGNTABLEREL, tuple, Anum_pg_foreign_table_ftoptions, &isnull);
	datum = transformGenericOptions(ForeignTableRelationId,
									isnull ? PointerGetDatum(NULL) : datum, options, InvalidOid);
	values[Anum_pg_foreign_table_ftoptions - 1] = datum;
	replaces[Anum_pg_foreign_table_ftoptions - 1] = true;
	tuple = heap_modify_tuple(tuple, RelationGetDescr(catalog), values, nulls, replaces);
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	table_close(catalog, RowExclusiveLock);
	CacheInvalidateRelcache(rel);
	CommandCounterIncrement();
}

/*
 * Would they be the same if these columns here were key columns, too?  So it is
 * while a dump is restored: it makes the table first, and says one by one which
 * columns are its key.
 */
static bool
lacks_only_keys(const MosqlDefinition *here, const MosqlDefinition *there)
{
	MosqlDefinition keyed = *here;
	size_t		size = here->ncolumns * sizeof(MosqlDefinitionColumn);

	keyed.columns = palloc(size + 1);
	memcpy(keyed.columns, here->columns, size);
	for (int i = 0; i < keyed.ncolumns; i++)
	{
		const MosqlDefinitionColumn *theirs = mosql_definition_column(there, keyed.columns[i].name);

		if (theirs != NULL && theirs->key_position >= 0)
			keyed.columns[i].key_position = theirs->key_position;
	}
	return mosql_definition_difference(&keyed, there) == NULL;
}

/* There is a table of that name: 42P16 unless it is this one. */
static void
attach(Relation rel, MosqlSession *session, const MosqlDefinition *here, MosqlDefinition *there)
{
	char	   *difference = mosql_definition_difference(here, there);

	if (difference != NULL && here->hidden_row_id && lacks_only_keys(here, there))
		ereport(NOTICE,
				(errmsg("foreign table \"%s\" cannot be used before it has the key columns of the table in Redis",
						RelationGetRelationName(rel)),
				 errdetail_internal("%s", difference),
				 errhint("Use ALTER FOREIGN TABLE ... ALTER COLUMN ... OPTIONS (ADD key 'true').")));
	else if (difference != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("table \"%s.%s\" exists in Redis with another definition",
						here->schema, here->name),
				 errdetail_internal("%s", difference),
				 errhint("Use IMPORT FOREIGN SCHEMA, or name another table in the options schema_name and table_name.")));
	if (mosql_definition_add_labels(there, here))
		mosql_table_write_definition(rel, session, there);
}

bool
mosql_table_create(Relation rel, MosqlSession *session)
{
	MosqlDefinition *here = mosql_definition_describe(rel);
	MosqlDefinition *there;

	check_key(rel);
	there = mosql_table_definition(session, here->schema, here->name);
	if (there == NULL)
		create_definition(session, here);
	else
		attach(rel, session, here, there);
	mosql_table_pin_name(rel);
	return there == NULL;
}

/* ---- ALTER ---- */

void
mosql_table_write_definition(Relation rel, MosqlSession *session, MosqlDefinition *definition)
{
	mosql_definition_update(session, definition);
	CacheInvalidateRelcache(rel);
}

static void refuse(const char *what, const char *column, const char *hint) pg_attribute_noreturn();

static void
refuse(const char *what, const char *column, const char *hint)
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

CommandId	mosql_table_command_start = FirstCommandId;

bool
mosql_table_is_of_command(HeapTuple tuple)
{
	return TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data)) &&
		HeapTupleHeaderGetCmin(tuple->t_data) >= mosql_table_command_start;
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

/* The default as a row's column; absent if it is null. */
static MosqlBytes
evaluate_default(const Alteration *alter, Form_pg_attribute att, Expr *expr, uint32 id)
{
	EState	   *estate = CreateExecutorState();
	MosqlTable	table = {.relid = RelationGetRelid(alter->rel)};
	MosqlTableColumn column = {0};
	StringInfoData out;
	MosqlIdentity identity;
	Datum		value;
	bool		isnull;

	column.attnum = att->attnum;
	column.id = id;
	column.type = att->atttypid;
	column.typmod = att->atttypmod;
	column.collation = att->attcollation;
	mosql_codec_setup(&column);
	initStringInfo(&out);
	mosql_identity_take(alter->rel->rd_rel->relowner, &identity);
	value = ExecEvalExprSwitchContext(ExecInitExpr(expression_planner(expr), NULL),
									  GetPerTupleExprContext(estate), &isnull);
	mosql_identity_give_back(&identity);
	if (!isnull)
		mosql_codec_put(&table, &column, value, &out);
	FreeExecutorState(estate);
	return isnull ? MOSQL_ABSENT : mosql_bytes_of(&out);
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

static void
add_column(Alteration *alter, const MosqlDefinitionColumn *column)
{
	MosqlDefinitionColumn *added = append_column(alter->there, column);

	alter->changed = true;
	if (column->key_position < 0)
		fill_new_column(alter, added);
	else
	{
		check_key_column(attribute(alter, column->name));
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

static bool
has_column(const MosqlDefinitionIndex *index, uint32 column)
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
		for (int j = 0; j < index->nkeys; j++)
			if (index->keys[j].expression != NULL)
				mosql_definition_set_expression(index, j,
												mosql_expression_decode(index->keys[j].expression,
																		&attributes, false),
												index->keys[j].collation, &attributes);
		if (index->predicate != NULL)
			mosql_definition_set_predicate(index, mosql_expression_decode(index->predicate,
																		 &attributes, true),
										   &attributes);
	}
}

/*
 * Another type, collation or place in the key.  Where the stored bytes mean the
 * same under the new type, the definition is all that changes; else it is a new
 * column of the same name, into which the rewrite converts the old one.  So it is,
 * too, where something is computed by the column: that may be another value now.
 */
static void
replace_column(Alteration *alter, const MosqlDefinitionColumn *mine,
			   MosqlDefinitionColumn *theirs)
{
	Form_pg_attribute att = attribute(alter, mine->name);
	MosqlDefinitionColumn *added;
	MosqlSequence sequence;
	const char *comment;
	List	   *former;
	uint32		from;

	if (mine->key_position >= 0 || is_index_key(alter->there, theirs->id))
		check_key_column(att);
	alter->changed = true;
	if ((mine->key_position >= 0) == (theirs->key_position >= 0) &&
		!computes_indexes(alter->there, theirs->id) &&
		mosql_rewrite_is_needless(alter->session, &alter->before, theirs, att))
	{
		theirs->type = mine->type;
		theirs->shape = mine->shape;
		theirs->collation = mine->collation;
		theirs->not_null = mine->not_null;
		return;
	}
	mosql_table_check_unreferenced(alter->there, theirs->id);
	from = theirs->id;
	theirs->dropped = true;
	sequence = theirs->sequence;
	theirs->sequence.counter = 0;
	comment = theirs->comment;
	former = theirs->former;
	added = append_column(alter->there, mine);
	added->sequence = sequence;
	added->comment = comment;
	added->former = former;
	move_indexes(alter->there, from, added->id);
	alter->rewrites = true;
}

/*
 * A key column there, and not here: has it not been made one yet, or is it one no
 * more?  If it was one, it is still in the primary key that PostgreSQL knows, unless
 * that was dropped.
 */
static bool
is_key_to_come(const Alteration *alter, const char *name)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(alter->rel), name);
	Bitmapset  *key = RelationGetIndexAttrBitmap(alter->rel, INDEX_ATTR_BITMAP_PRIMARY_KEY);

	return !bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber, key) &&
		(alter->rel->rd_createSubid != InvalidSubTransactionId ||
		 !is_altered_here(alter->rel, name)) &&
		lacks_only_keys(alter->here, &alter->before);
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
			mosql_table_differs(alter->rel, alter->there, difference);
	}
	else if (theirs == NULL)
		add_column(alter, mine);
	else if (mosql_definition_column_difference(mine, theirs) != NULL)
		replace_column(alter, mine, theirs);
	else if (theirs->not_null != mine->not_null)
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
static void
replace_trees(MosqlSession *session, MosqlDefinition *there)
{
	MosqlTxn   *txn = mosql_txn_current(session);

	mosql_txn_drops_tree(txn, there->root);
	there->root = mosql_table_create_tree(session);
	for (int i = 0; i < there->nindexes; i++)
	{
		mosql_txn_drops_tree(txn, there->indexes[i].root);
		there->indexes[i].root = mosql_table_create_tree(session);
	}
	mosql_definition_remove_builds(session, there);
}

static void
remove_index(MosqlSession *session, MosqlDefinition *there, MosqlDefinitionIndex *index)
{
	int			at = index - there->indexes;

	mosql_txn_drops_tree(mosql_txn_current(session), index->root);
	memmove(index, index + 1, (there->nindexes - at - 1) * sizeof(MosqlDefinitionIndex));
	there->nindexes--;
}

static void
finish_alteration(Alteration *alter)
{
	if (alter->rewrites)
	{
		renumber_key(alter->here, alter->there);
		retype_expressions(alter);
		replace_trees(alter->session, alter->there);
		for (int i = 0; i < alter->there->ncolumns; i++)
			alter->there->columns[i].missing = MOSQL_ABSENT;
	}
	if (alter->changed)
		mosql_table_write_definition(alter->rel, alter->session, alter->there);
	if (alter->rewrites)
		mosql_table_rewrite(alter->rel, alter->session, &alter->before);
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
mosql_table_alter(Relation rel, MosqlSession *session)
{
	Alteration	alter = {.rel = rel,.session = session};
	char	   *difference;

	alter.here = mosql_definition_describe(rel);
	alter.there = mosql_table_definition(session, alter.here->schema, alter.here->name);
	if (alter.there == NULL)
		mosql_table_missing(rel, alter.here->schema, alter.here->name);
	keep_before(&alter);
	for (int i = 0; i < alter.here->ncolumns; i++)
		follow_column(&alter, &alter.here->columns[i]);
	difference = mosql_definition_difference(alter.here, alter.there);
	if (difference != NULL && (!alter.incomplete || alter.changed))
		mosql_table_differs(rel, alter.there, difference);
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

void
mosql_table_rename_column(Relation rel, MosqlSession *session, const char *from, const char *to)
{
	MosqlDefinition *there = mosql_definition_of(rel, session);
	MosqlDefinitionColumn *column;

	if (there == NULL)
		return;					/* nothing to follow; opening it says so */
	column = mosql_definition_column(there, from);
	if (column == NULL)
		return;
	if (mosql_definition_column(there, to) != NULL)
		refuse("column \"%s\" exists already in the table in Redis", to,
			   "Another server added it: import the table again.");
	column->former = list_delete_string(column->former, to);
	column->former = lappend(list_delete_string(column->former, column->name),
							 (void *) column->name);
	if (list_length(column->former) > FORMER_NAMES_MAX)
		column->former = list_delete_first(column->former);
	column->name = pstrdup(to);
	mosql_table_write_definition(rel, session, there);
}

/* The counter of a column that goes. */
static void
drop_sequence(MosqlSession *session, MosqlDefinitionColumn *column)
{
	if (column->sequence.counter != 0)
		mosql_txn_drops_tree(mosql_txn_current(session), column->sequence.counter);
	column->sequence.counter = 0;
}

void
mosql_table_drop_column(Relation rel, MosqlSession *session, const char *name)
{
	Alteration	alter = {.rel = rel,.session = session};
	MosqlDefinitionColumn *column;

	alter.here = mosql_definition_describe(rel);
	alter.there = mosql_table_definition(session, alter.here->schema, alter.here->name);
	if (alter.there == NULL)
		return;
	column = mosql_definition_column(alter.there, name);
	if (column == NULL)
		return;
	mosql_table_check_unreferenced(alter.there, column->id);
	keep_before(&alter);
	if (column->key_position >= 0)
	{
		if (!stays_empty(&alter))
			refuse("cannot drop key column \"%s\" of a table that has rows", name,
				   "Make it no key column first: ALTER COLUMN ... OPTIONS (DROP key).");
		column->dropped = true;
		renumber_key(alter.here, alter.there);
		replace_trees(session, alter.there);
	}
	column->dropped = true;
	drop_sequence(session, column);
	for (int i = alter.there->nindexes - 1; i >= 0; i--)
		if (has_column(&alter.there->indexes[i], column->id))
			remove_index(session, alter.there, &alter.there->indexes[i]);
	for (int i = 0; i < alter.there->nbuilds; i++)
		if (has_column(&alter.there->builds[i].index, column->id))
			mosql_definition_remove_builds(session, alter.there);
	mosql_table_write_definition(rel, session, alter.there);
}

/* ---- indexes ---- */

/* Texts that may not be there. */
static bool
same_text(const char *a, const char *b)
{
	return (a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0);
}

bool
mosql_definition_same_index(const MosqlDefinitionIndex *a, const MosqlDefinitionIndex *b)
{
	if (a->unique != b->unique || a->nulls_not_distinct != b->nulls_not_distinct ||
		a->nkeys != b->nkeys || a->nincluded != b->nincluded ||
		!same_text(a->predicate, b->predicate) || !same_text(a->locale, b->locale))
		return false;
	for (int i = 0; i < a->nkeys; i++)
		if (a->keys[i].column != b->keys[i].column ||
			!same_text(a->keys[i].expression, b->keys[i].expression) ||
			a->keys[i].descending != b->keys[i].descending ||
			a->keys[i].nulls_first != b->keys[i].nulls_first)
			return false;
	for (int i = 0; i < a->nincluded; i++)
		if (a->included[i] != b->included[i])
			return false;
	return true;
}

/* What cannot be a key; 0A000. */
static void
check_expression(const MosqlDefinitionIndexColumn *there, Node *node)
{
	MosqlTableColumn column = {.typmod = -1};
	const char *refusal;

	column.type = getBaseType(exprType(node));
	column.collation = mosql_collation_oid(there->collation);
	refusal = mosql_key_refusal(&column);
	if (refusal != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("an expression of type %s cannot be part of a key", there->type),
				 errdetail_internal("%s", refusal),
				 errhint(KEY_TYPES_HINT)));
}

void
mosql_definition_set_expression(MosqlDefinitionIndex *index, int position, Node *node,
								const char *collation, const MosqlAttributes *attributes)
{
	MosqlDefinitionIndexColumn *column = &index->keys[position];

	column->column = 0;
	column->type = mosql_type_name(exprType(node), -1);
	column->collation = collation;
	check_expression(column, node);
	column->expression = mosql_expression_encode(node, attributes, false);
	if (index->locale == NULL)
		index->locale = mosql_expression_locale(node);
}

void
mosql_definition_set_predicate(MosqlDefinitionIndex *index, Node *node,
							   const MosqlAttributes *attributes)
{
	index->predicate = mosql_expression_encode(node, attributes, true);
	if (index->locale == NULL)
		index->locale = mosql_expression_locale(node);
}

/* The name of an index that is being built is taken. */
static void
check_not_built(const MosqlDefinition *there, const char *name)
{
	for (int i = 0; i < there->nbuilds; i++)
		if (strcmp(there->builds[i].index.name, name) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("index \"%s\" is being built by another server", name),
					 errhint("The view mosql_fdw_progress shows how far it is. If its server has died, mosql_fdw_maintain() takes what is left away.")));
}

void
mosql_definition_check_new_index(Relation rel, const MosqlDefinition *there,
								 const MosqlDefinitionIndex *index)
{
	if (mosql_definition_index(there, index->name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("index \"%s\" exists in Redis with another definition", index->name),
				 errhint("Give it another name, or drop the one that is there.")));
	check_not_built(there, index->name);
	for (int i = 0; i < there->ncolumns; i++)
		if (there->columns[i].dropped && has_column(index, there->columns[i].id))
			ereport(ERROR,		/* since the caller looked */
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not create index \"%s\" due to a concurrent change of the table",
							index->name)));
	for (int i = 0; i < index->nkeys; i++)
		for (int j = 0; j < there->ncolumns; j++)
			if (there->columns[j].id == index->keys[i].column)
				check_key_column(TupleDescAttr(RelationGetDescr(rel),
											   get_attnum(RelationGetRelid(rel),
														  there->columns[j].name) - 1));
}

MosqlDefinitionIndex *
mosql_definition_add_index(MosqlDefinition *there, const MosqlDefinitionIndex *index)
{
	uint32		id = there->nindexes > 0 ? there->indexes[there->nindexes - 1].id + 1 : 1;

	if (there->indexes == NULL)
		there->indexes = palloc(sizeof(MosqlDefinitionIndex));
	else
		there->indexes = repalloc(there->indexes, (there->nindexes + 1) *
								  sizeof(MosqlDefinitionIndex));
	there->indexes[there->nindexes] = *index;
	there->indexes[there->nindexes].id = id;
	return &there->indexes[there->nindexes++];
}

void
mosql_table_create_index(Relation rel, MosqlSession *session, MosqlDefinitionIndex *index)
{
	MosqlDefinition *there = mosql_definition_of_existing(rel, session);
	const MosqlDefinitionIndex *same = mosql_definition_index(there, index->name);
	MosqlDefinitionIndex *added;

	if (same != NULL && mosql_definition_same_index(same, index))
		return;
	mosql_definition_check_new_index(rel, there, index);
	added = mosql_definition_add_index(there, index);
	added->root = mosql_table_create_tree(session);
	mosql_table_write_definition(rel, session, there);
	mosql_table_build_index(rel, session, added->id);
}

bool
mosql_table_rebuild_index(Relation rel, MosqlSession *session, const char *name)
{
	MosqlDefinition *there = mosql_definition_of_existing(rel, session);
	MosqlDefinitionIndex *index = mosql_definition_index(there, name);

	if (index == NULL)
		return false;
	mosql_txn_drops_tree(mosql_txn_current(session), index->root);
	index->root = mosql_table_create_tree(session);
	mosql_table_write_definition(rel, session, there);
	CommandCounterIncrement();	/* or the table, open already, would keep the old tree */
	mosql_table_build_index(rel, session, index->id);
	return true;
}

void
mosql_table_drop_index(Relation rel, MosqlSession *session, const char *name)
{
	MosqlDefinition *there = mosql_definition_of(rel, session);
	MosqlDefinitionIndex *index = there ? mosql_definition_index(there, name) : NULL;

	if (index == NULL)
		return;
	mosql_table_check_unneeded(there, index);
	remove_index(session, there, index);
	mosql_table_write_definition(rel, session, there);
}

void
mosql_table_rename_index(Relation rel, MosqlSession *session, const char *from, const char *to)
{
	MosqlDefinition *there = mosql_definition_of(rel, session);
	MosqlDefinitionIndex *index = there ? mosql_definition_index(there, from) : NULL;

	if (index == NULL)
		return;
	if (mosql_definition_index(there, to) != NULL)
		refuse("index \"%s\" exists already in the table in Redis", to,
			   "Another server added it: import the table again.");
	check_not_built(there, to);
	index->name = pstrdup(to);
	mosql_table_write_definition(rel, session, there);
}

/* ---- what only IMPORT FOREIGN SCHEMA reads ---- */

/* Returns whether that changed it.  What never was there leaves no mark when dropped. */
static bool
set_text(const char **there, const char *text)
{
	if (*there == NULL && text != NULL && text[0] == '\0')
		return false;
	if ((*there == NULL) == (text == NULL) && (text == NULL || strcmp(*there, text) == 0))
		return false;
	*there = text;
	return true;
}

/* False if a column that it is about is not in the definition. */
static bool
fill_check(const MosqlDefinition *there, const MosqlDetail *detail, MosqlDefinitionCheck *check)
{
	ListCell   *cell;

	*check = (MosqlDefinitionCheck)
	{
		.name = detail->name,.expression = detail->text,
			.columns = palloc(Max(list_length(detail->columns), 1) * sizeof(uint32))
	};
	foreach(cell, detail->columns)
	{
		const MosqlDefinitionColumn *column = mosql_definition_column(there, lfirst(cell));

		if (column == NULL)
			return false;
		check->columns[check->ncolumns++] = column->id;
	}
	return true;
}

/* The oldest mark of a dropped constraint goes, where there are many. */
static void
forget_dropped_check(MosqlDefinition *there)
{
	int			n = 0;

	for (int i = 0; i < there->nchecks; i++)
		n += there->checks[i].expression[0] == '\0';
	for (int i = 0; n > DROPPED_CHECKS_MAX; i++)
		if (there->checks[i].expression[0] == '\0')
		{
			memmove(&there->checks[i], &there->checks[i + 1],
					(there->nchecks - i - 1) * sizeof(MosqlDefinitionCheck));
			there->nchecks--;
			return;
		}
}

static bool
set_check(MosqlDefinition *there, const MosqlDetail *detail)
{
	MosqlDefinitionCheck check;
	bool		dropped = detail->text != NULL && detail->text[0] == '\0';
	bool		wanted = detail->text != NULL && fill_check(there, detail, &check);

	for (int i = 0; i < there->nchecks; i++)
	{
		if (strcmp(there->checks[i].name, detail->name) != 0)
			continue;
		if (wanted && strcmp(there->checks[i].expression, detail->text) == 0 &&
			mosql_definition_check_holds(there, &there->checks[i]))
			return false;
		if (wanted)
			there->checks[i] = check;
		else
			there->checks[i] = there->checks[--there->nchecks];
		if (dropped)
			forget_dropped_check(there);
		return true;
	}
	if (!wanted || dropped)
		return false;
	if (there->checks == NULL)
		there->checks = palloc(sizeof(MosqlDefinitionCheck));
	else
		there->checks = repalloc(there->checks,
								 (there->nchecks + 1) * sizeof(MosqlDefinitionCheck));
	there->checks[there->nchecks++] = check;
	return true;
}

static bool
set_detail(MosqlDefinition *there, const MosqlDetail *detail)
{
	MosqlDefinitionColumn *column;
	bool		changed;

	if (detail->kind == MOSQL_DETAIL_CHECK)
		return set_check(there, detail);
	if (detail->name == NULL)
		return set_text(&there->comment, detail->text);
	column = mosql_definition_column(there, detail->name);
	if (column == NULL)
		return false;
	if (detail->kind == MOSQL_DETAIL_COMMENT)
		return set_text(&column->comment, detail->text);
	changed = column->generated != detail->generated;
	column->generated = detail->generated;
	return set_text(&column->expression, detail->text) || changed;
}

void
mosql_table_follow_details(Relation rel, MosqlSession *session, const MosqlDetail *details, int n)
{
	MosqlDefinition *there = n > 0 ? mosql_definition_of(rel, session) : NULL;
	bool		changed = false;

	for (int i = 0; there != NULL && i < n; i++)
		changed |= set_detail(there, &details[i]);
	if (changed)
		mosql_table_write_definition(rel, session, there);
}

/* ---- DROP and TRUNCATE ---- */

void
mosql_table_drop(Relation rel, MosqlSession *session)
{
	MosqlDefinition *there = mosql_definition_of(rel, session);
	char	   *difference;

	if (there == NULL)
		return;					/* another server was faster */
	difference = mosql_definition_difference(mosql_definition_describe(rel), there);
	if (difference != NULL)
	{
		/* perhaps not even the table that this one was made for */
		ereport(WARNING,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("table \"%s.%s\" is kept in Redis, because foreign table \"%s\" differs from it",
						there->schema, there->name, RelationGetRelationName(rel)),
				 errdetail_internal("%s", difference),
				 errhint("To drop it too, use IMPORT FOREIGN SCHEMA, and drop the foreign table that you get.")));
		return;
	}
	mosql_table_forget_references(session, there);
	mosql_definition_delete(session, there);
	for (int i = 0; i < there->ncolumns; i++)
		drop_sequence(session, &there->columns[i]);
	mosql_txn_drops_tree(mosql_txn_current(session), there->root);
	for (int i = 0; i < there->nindexes; i++)
		mosql_txn_drops_tree(mosql_txn_current(session), there->indexes[i].root);
	mosql_definition_remove_builds(session, there);
}

void
mosql_table_truncate(Relation rel, MosqlSession *session, bool restart)
{
	MosqlDefinition *there = mosql_definition_of_existing(rel, session);

	replace_trees(session, there);
	if (restart)
		mosql_definition_restart_sequences(session, there);
	mosql_table_write_definition(rel, session, there);
}
