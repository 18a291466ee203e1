/*
 * index.c: the entries of a table's indexes.
 *
 * Layer: table.  table.h says what an entry is.  Entries are written with the
 * table's rows, by the same transaction, so a snapshot sees a row if and only if
 * it sees the row's entries.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "table/table_int.h"

/* Column of an entry that holds the key of its row, if the entry's own does not. */
#define ROW_KEY_COLUMN	0

/* The attribute that a column id is here; 0: dropped or unknown. */
static AttrNumber
attribute_of(const MosqlTable *table, uint32 id)
{
	return id < table->nids && table->by_id[id] >= 0 ? table->by_id[id] + 1 : 0;
}

static void
report_damage(const MosqlDefinitionIndex *definition)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("damaged table definition in Redis"),
			 errdetail("Index \"%s\" names a column that is not there.", definition->name)));
}

/* What an entry stores of a column besides its key. */
static void
store(MosqlTable *entries, const MosqlTableColumn *of_table)
{
	MosqlTableColumn *column = &entries->columns[of_table->attnum - 1];

	if (column->attnum == 0)
	{
		*column = *of_table;
		column->has_missing = false;	/* entries are complete */
		column->key_position = -1;
		mosql_key_setup(column);
	}
	entries->by_id[of_table->id] = of_table->attnum - 1;
}

static void
add_key_column(MosqlTable *entries, const MosqlTableColumn *of_table,
			   const MosqlDefinitionIndexColumn *definition)
{
	MosqlTableColumn *column = &entries->columns[of_table->attnum - 1];

	*column = *of_table;
	column->has_missing = false;
	column->key_position = entries->nkeys;
	column->nullable = true;
	column->descending = definition->descending;
	column->nulls_first = definition->nulls_first;
	mosql_key_setup(column);
	entries->key_attnums[entries->nkeys++] = of_table->attnum;
	if (column->in_row)
		entries->by_id[of_table->id] = of_table->attnum - 1;
}

/* A column for an expression, which read_expression() fills in. */
static void
add_expression(MosqlTable *entries, const MosqlDefinitionIndexColumn *definition)
{
	AttrNumber	attnum = entries->natts + 1;
	MosqlTableColumn *column;

	while (entries->columns[attnum - 1].attnum != 0)
		attnum++;
	column = &entries->columns[attnum - 1];
	column->attnum = attnum;
	column->typmod = -1;
	column->key_position = entries->nkeys;
	column->nullable = true;
	column->descending = definition->descending;
	column->nulls_first = definition->nulls_first;
	entries->key_attnums[entries->nkeys++] = attnum;
}

static MosqlTable *
describe_entries(const MosqlTable *table, const MosqlDefinitionIndex *definition)
{
	MosqlTable *entries = palloc0(sizeof(MosqlTable));

	entries->relid = table->relid;
	entries->session = table->session;
	entries->root = definition->root;
	entries->tree = mosql_session_tree(table->session, definition->root);
	entries->id = table->id;
	entries->natts = table->natts;
	entries->columns = palloc0((table->natts + definition->nkeys) * sizeof(MosqlTableColumn));
	entries->key_attnums = palloc0(definition->nkeys * sizeof(AttrNumber));
	entries->missing = NULL;
	entries->nids = table->nids;
	entries->by_id = palloc(Max(table->nids, 1) * sizeof(int16));
	entries->is_index = true;
	entries->unique_key = definition->unique;
	for (int i = 0; i < table->natts; i++)
		entries->columns[i].key_position = -1;
	for (int i = 0; i < table->nids; i++)
		entries->by_id[i] = -1;
	for (int i = 0; i < definition->nkeys; i++)
	{
		AttrNumber	attnum = attribute_of(table, definition->keys[i].column);

		if (definition->keys[i].expression != NULL)
		{
			add_expression(entries, &definition->keys[i]);
			continue;
		}
		if (attnum == 0)
			report_damage(definition);
		add_key_column(entries, &table->columns[attnum - 1], &definition->keys[i]);
	}
	for (int i = 0; i < definition->nincluded; i++)
	{
		AttrNumber	attnum = attribute_of(table, definition->included[i]);

		if (attnum == 0)
			report_damage(definition);
		store(entries, &table->columns[attnum - 1]);
	}
	return entries;
}

/* ---- expressions and predicates ---- */

bool
mosql_definition_is_computed(const MosqlDefinitionIndex *index)
{
	bool		computed = index->predicate != NULL;

	for (int i = 0; i < index->nkeys; i++)
		computed |= index->keys[i].expression != NULL;
	return computed;
}

bool
mosql_index_key_is_citext(const MosqlDefinitionIndex *index, int position,
						  const MosqlAttributes *attributes)
{
	uint32		id = index->keys[position].column;
	AttrNumber	attnum = id < (uint32) attributes->nids ? attributes->by_id[id] + 1 : 0;

	Oid			type = attnum > 0 ? get_atttype(attributes->relid, attnum) : InvalidOid;

	return index->keys[position].expression == NULL && OidIsValid(type) &&
		mosql_key_is_citext(getBaseType(type));
}

/* The attributes that an expression reads. */
static void
note_attributes(MosqlIndex *index, Node *node)
{
	Bitmapset  *attributes = NULL;
	int			member = -1;

	pull_varattnos(node, 1, &attributes);
	while ((member = bms_next_member(attributes, member)) >= 0)
		index->reads[member + FirstLowInvalidHeapAttributeNumber - 1] = true;
}

/* here: of this database, if it matters. */
static void
compare_locale(const MosqlDefinitionIndex *definition, const char *here)
{
	if (here != NULL && strcmp(here, definition->locale) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("it depends on the locale of the database, which is \"%s\" here and \"%s\" where it was made",
						here, definition->locale)));
}

static void
check_dependencies(const MosqlDefinitionIndex *definition, Node *node, const MosqlAttributes *attributes)
{
	compare_locale(definition, definition->locale ? mosql_expression_locale(node) : NULL);
	mosql_expression_check_encoding(node);
	mosql_expression_check_order(node, attributes);
}

static Node *
read_expression(const MosqlDefinitionIndex *definition, int position,
				const MosqlAttributes *attributes)
{
	const MosqlDefinitionIndexColumn *there = &definition->keys[position];
	Node	   *node = mosql_expression_decode(there->expression, attributes, false);
	const char *type = mosql_type_name(exprType(node), -1);

	if (strcmp(type, there->type) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("an expression is of type %s here and of type %s where it was made",
						type, there->type)));
	(void) mosql_collation_oid(there->collation);
	check_dependencies(definition, node, attributes);
	return node;
}

static void
read_expressions(const MosqlDefinitionIndex *definition, const MosqlAttributes *attributes,
				 MosqlComputed *computed)
{
	for (int i = 0; i < definition->nkeys; i++)
		if (definition->keys[i].expression != NULL)
			computed->expressions[i] = read_expression(definition, i, attributes);
	for (int i = 0; i < definition->nkeys && definition->locale != NULL; i++)
		if (mosql_index_key_is_citext(definition, i, attributes))
			compare_locale(definition, mosql_expression_database_locale());
	if (definition->predicate == NULL)
		return;
	computed->predicate = mosql_expression_decode(definition->predicate, attributes, true);
	check_dependencies(definition, computed->predicate, attributes);
}

typedef struct Reading
{
	const MosqlDefinitionIndex *definition;
	const MosqlAttributes *attributes;
	MosqlComputed *computed;
} Reading;

static void
read_all(void *arg)
{
	Reading    *reading = arg;

	read_expressions(reading->definition, reading->attributes, reading->computed);
}

MosqlComputed
mosql_index_compute(const MosqlDefinitionIndex *definition, const MosqlAttributes *attributes)
{
	MosqlComputed computed = {
		.expressions = palloc0(definition->nkeys * sizeof(Node *))
	};
	Reading		reading = {definition, attributes, &computed};

	if (!mosql_definition_is_computed(definition) && definition->locale == NULL)
		return computed;
	if (IsInParallelMode())
		read_expressions(definition, attributes, &computed);	/* no subtransactions there */
	else
		computed.broken = mosql_expression_try(read_all, &reading);
	return computed;
}

static ExprState *
prepare(Node *node)
{
	return ExecInitExpr(expression_planner((Expr *) copyObject(node)), NULL);
}

/* Fill in what add_expression() left open. */
static void
set_expression(MosqlIndex *index, int position, Node *node, const char *collation)
{
	MosqlTableColumn *column =
		&index->entries->columns[index->entries->key_attnums[position] - 1];

	note_attributes(index, node);
	column->type = getBaseType(exprType(node));
	column->collation = mosql_collation_oid(collation);
	column->expression = node;
	column->planned = eval_const_expressions(NULL, copyObject(node));
	column->state = prepare(node);
	mosql_codec_setup(column);
	mosql_key_setup(column);
	column->in_row = true;		/* nobody asks the key for it: it is no attribute */
}

static void
set_predicate(MosqlIndex *index, Node *node)
{
	Node	   *planned = eval_const_expressions(NULL, copyObject(node));

	note_attributes(index, node);
	index->predicate = node;
	index->implied = make_ands_implicit(canonicalize_qual((Expr *) planned, false));
	index->predicate_state = prepare(node);
}

void
mosql_index_describe(const MosqlTable *table, const MosqlDefinition *of_table,
					 const MosqlDefinitionIndex *definition, MosqlIndex *index)
{
	MosqlAttributes attributes = {table->relid, table->nids, table->by_id, of_table};
	MosqlComputed computed;

	*index = (MosqlIndex)
	{
		.id = definition->id,.name = pstrdup(definition->name),.unique = definition->unique,
			.nulls_not_distinct = definition->nulls_not_distinct,
			.entries = describe_entries(table, definition)
	};
	computed = mosql_index_compute(definition, &attributes);
	index->broken = computed.broken;
	if (index->broken != NULL || !mosql_definition_is_computed(definition))
		return;
	index->reads = palloc0(Max(table->natts, 1) * sizeof(bool));
	index->econtext = CreateStandaloneExprContext();
	for (int i = 0; i < definition->nkeys; i++)
		if (computed.expressions[i] != NULL)
			set_expression(index, i, computed.expressions[i], definition->keys[i].collation);
	if (computed.predicate != NULL)
		set_predicate(index, computed.predicate);
}

/* The next statement looks again: the caches are told at once, since the error keeps
 * them from hearing of it. */
static void
report_broken(const MosqlIndex *index)
{
	InvalidateSystemCaches();
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("index \"%s\" of foreign table \"%s\" cannot be maintained by this server",
					index->name, get_rel_name(index->entries->relid)),
			 errdetail_internal("%s.", index->broken),
			 errhint("Write to the table on another server, or drop the index.")));
}

/* Is the row of the slot in the index? */
static bool
satisfies_predicate(const MosqlIndex *index)
{
	Datum		value;
	bool		isnull;

	if (index->predicate_state == NULL)
		return true;
	value = ExecEvalExprSwitchContext(index->predicate_state, index->econtext, &isnull);
	return !isnull && DatumGetBool(value);
}

/* The value of a key column; in the index's own context, until the next row. */
static Datum
key_value(const MosqlIndex *index, int position, TupleTableSlot *slot, bool *isnull)
{
	AttrNumber	attnum = index->entries->key_attnums[position];
	const MosqlTableColumn *column = &index->entries->columns[attnum - 1];

	if (column->state != NULL)
		return ExecEvalExprSwitchContext(column->state, index->econtext, isnull);
	return slot_getattr(slot, attnum, isnull);
}

MosqlEntryKind
mosql_index_entry(const MosqlIndex *index, TupleTableSlot *slot, MosqlBytes key,
				  StringInfo entry_key, StringInfo entry_columns)
{
	const MosqlTable *entries = index->entries;
	int			start = entry_key->len;
	bool		alone = index->unique;

	if (index->broken != NULL)
		report_broken(index);
	if (index->econtext != NULL)
	{
		ResetExprContext(index->econtext);
		index->econtext->ecxt_scantuple = slot;
		if (!satisfies_predicate(index))
			return MOSQL_ENTRY_NONE;
	}
	for (int i = 0; i < entries->nkeys; i++)
	{
		bool		isnull;
		Datum		value = key_value(index, i, slot, &isnull);

		if (isnull)
			mosql_table_put_null(entries, i, entry_key);
		else
			mosql_table_put_key(entries, i, value, entry_key);
		alone &= !isnull || index->nulls_not_distinct;
	}
	if (alone)
		mosql_column_put_bytes(entry_columns, ROW_KEY_COLUMN, key);
	else
		appendBinaryStringInfo(entry_key, key.data, key.len);
	if (entry_key->len - start > MOSQL_KEY_MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index row is too long for index \"%s\"", index->name),
				 errdetail("It takes %d bytes; an index row may take up to %d bytes.",
						   entry_key->len - start, MOSQL_KEY_MAX_BYTES),
				 errhint("Index a hash of long values instead: an expression such as md5(...).")));
	mosql_table_put_row(entries, slot, entry_columns);
	return alone ? MOSQL_ENTRY_ALONE : MOSQL_ENTRY_SHARED;
}

/* ---- writing ---- */

/* An entry as it is written. */
typedef struct Entry
{
	StringInfoData key;
	StringInfoData columns;
	MosqlEntryKind	kind;
} Entry;

static void
make_entry(const MosqlIndex *index, TupleTableSlot *slot, MosqlBytes key, Entry *entry)
{
	initStringInfo(&entry->key);
	initStringInfo(&entry->columns);
	entry->kind = mosql_index_entry(index, slot, key, &entry->key, &entry->columns);
}

/* False: this transaction has that entry already. */
static bool
insert_entry(const MosqlIndex *index, MosqlTxn *txn, const Entry *entry, CommandId cid,
			 bool found_free)
{
	MosqlNewKey known = entry->kind == MOSQL_ENTRY_SHARED ? MOSQL_KEY_OF_ROW
		: found_free ? MOSQL_KEY_FOUND_FREE : MOSQL_KEY_MAY_EXIST;

	if (entry->kind == MOSQL_ENTRY_NONE)
		return true;
	return mosql_txn_insert(txn, index->entries->tree, mosql_bytes_of(&entry->key),
							mosql_bytes_of(&entry->columns), cid, known) != MOSQL_DUPLICATE;
}

/* Are they the same entry?  Then what it stores may be another. */
static bool
is_same_entry(const Entry *a, const Entry *b)
{
	return a->kind != MOSQL_ENTRY_NONE && b->kind != MOSQL_ENTRY_NONE &&
		mosql_bytes_equal(mosql_bytes_of(&a->key), mosql_bytes_of(&b->key));
}

/*
 * The row's own version certifies that this is its entry.  False: this command gave
 * it to another row, and has not looked yet whether it is free (SET u = u + 1).
 */
static bool
delete_entry(const MosqlIndex *index, MosqlTxn *txn, const Entry *entry, CommandId cid)
{
	if (entry->kind == MOSQL_ENTRY_NONE)
		return true;
	if (mosql_txn_delete(txn, index->entries->tree, mosql_bytes_of(&entry->key),
						 MOSQL_VERSION_ANY, cid) != MOSQL_SELF_MODIFIED)
	{
		if (entry->kind == MOSQL_ENTRY_ALONE)
			mosql_txn_leave(txn, index->entries->tree, mosql_bytes_of(&entry->key));
		return true;
	}
	if (entry->kind != MOSQL_ENTRY_ALONE)
		elog(ERROR, "entry of index \"%s\" was changed twice by one command", index->name);
	return false;
}

const MosqlIndex *
mosql_table_insert_entries(const MosqlTable *table, MosqlTxn *txn, TupleTableSlot *slot,
						   MosqlBytes key, CommandId cid, const Bitmapset *free,
						   MosqlBytes *duplicate)
{
	for (int i = 0; i < table->nindexes; i++)
	{
		const MosqlIndex *index = &table->indexes[i];
		Entry		entry;

		make_entry(index, slot, key, &entry);
		*duplicate = mosql_bytes_of(&entry.key);
		if (!insert_entry(index, txn, &entry, cid, bms_is_member(i, free)))
			return index;
	}
	mosql_build_log_change(table, txn, NULL, MOSQL_ABSENT, slot, key, cid);
	return NULL;
}

const MosqlIndex *
mosql_table_delete_entries(const MosqlTable *table, MosqlTxn *txn, TupleTableSlot *slot,
						   MosqlBytes key, CommandId cid, MosqlBytes *duplicate)
{
	for (int i = 0; i < table->nindexes; i++)
	{
		Entry		entry;

		make_entry(&table->indexes[i], slot, key, &entry);
		*duplicate = mosql_bytes_of(&entry.key);
		if (!delete_entry(&table->indexes[i], txn, &entry, cid))
			return &table->indexes[i];
	}
	mosql_build_log_change(table, txn, slot, key, NULL, MOSQL_ABSENT, cid);
	return NULL;
}

const MosqlIndex *
mosql_table_replace_entries(const MosqlTable *table, MosqlTxn *txn, TupleTableSlot *old_slot,
							MosqlBytes old_key, TupleTableSlot *new_slot, MosqlBytes new_key,
							CommandId cid, MosqlBytes *duplicate)
{
	for (int i = 0; i < table->nindexes; i++)
	{
		const MosqlIndex *index = &table->indexes[i];
		Entry		old;
		Entry		new;

		make_entry(index, old_slot, old_key, &old);
		make_entry(index, new_slot, new_key, &new);
		if (is_same_entry(&old, &new))
		{
			if (!mosql_bytes_equal(mosql_bytes_of(&old.columns), mosql_bytes_of(&new.columns)))
				(void) mosql_txn_update(txn, index->entries->tree, mosql_bytes_of(&new.key),
										MOSQL_VERSION_ANY, mosql_bytes_of(&new.columns), cid);
			continue;
		}
		*duplicate = mosql_bytes_of(&old.key);
		if (!delete_entry(index, txn, &old, cid))
			return index;
		*duplicate = mosql_bytes_of(&new.key);
		if (!insert_entry(index, txn, &new, cid, false))
			return index;
	}
	mosql_build_log_change(table, txn, old_slot, old_key, new_slot, new_key, cid);
	return NULL;
}

static bool
has_attribute(const MosqlIndex *index, AttrNumber attnum)
{
	return index->entries->columns[attnum - 1].attnum != 0 || index->broken != NULL ||
		(index->reads != NULL && index->reads[attnum - 1]);
}

const bool *
mosql_index_needed(const MosqlTable *table, const MosqlIndex *index)
{
	bool	   *needed = palloc(table->natts * sizeof(bool) + 1);

	for (int i = 0; i < table->natts; i++)
		needed[i] = has_attribute(index, i + 1);
	return needed;
}

bool
mosql_table_is_indexed(const MosqlTable *table, AttrNumber attnum)
{
	for (int i = 0; i < table->nbuilds; i++)
		if (has_attribute(&table->builds[i].index, attnum))
			return true;
	for (int i = 0; i < table->nindexes; i++)
		if (has_attribute(&table->indexes[i], attnum))
			return true;
	return false;
}

bool
mosql_table_is_unique_column(const MosqlTable *table, AttrNumber attnum)
{
	if (table->columns[attnum - 1].key_position >= 0)
		return true;
	for (int i = 0; i < table->nindexes; i++)
		if (table->indexes[i].unique && has_attribute(&table->indexes[i], attnum))
			return true;
	return false;
}

const MosqlIndex *
mosql_table_index(const MosqlTable *table, uint32 id)
{
	for (int i = 0; id != 0 && i < table->nindexes; i++)
		if (table->indexes[i].id == id)
			return &table->indexes[i];
	return NULL;
}

/* ---- reading ---- */

MosqlBytes
mosql_index_row_key(const MosqlIndex *index, const MosqlRow *entry)
{
	const MosqlTable *entries = index->entries;
	MosqlBytes	columns = entry->columns;
	MosqlBytes	key = entry->key;
	MosqlColumn first;

	if (index->unique && mosql_column_next(&columns, &first) == 1 &&
		first.column == ROW_KEY_COLUMN && first.wire == MOSQL_WIRE_BYTES)
		return first.value;
	for (int i = 0; i < entries->nkeys; i++)
	{
		const MosqlTableColumn *column = &entries->columns[entries->key_attnums[i] - 1];
		bool		isnull;

		if (!mosql_key_get(entries, column, &key, NULL, &isnull))
			mosql_codec_damage(entries, column, "An index entry's key does not decode.");
	}
	return key;
}

/* Can the key of the table's row, which every entry has, tell this attribute? */
static bool
is_in_row_key(const MosqlTable *table, int attribute)
{
	return table->columns[attribute].key_position >= 0 && !table->columns[attribute].in_row;
}

bool
mosql_index_covers(const MosqlTable *table, const MosqlIndex *index, const bool *needed)
{
	for (int i = 0; i < table->natts; i++)
		if ((needed == NULL || needed[i]) && table->columns[i].attnum != 0 &&
			index->entries->columns[i].attnum == 0 && !is_in_row_key(table, i))
			return false;
	return true;
}

void
mosql_index_get_row(const MosqlTable *table, const MosqlIndex *index, const MosqlRow *entry,
					const bool *needed, Datum *values, bool *nulls)
{
	const MosqlTable *entries = index->entries;
	MosqlBytes	key = MOSQL_ABSENT;

	mosql_table_get_row(entries, entry->key, entry->columns, needed, values, nulls);
	for (int i = 0; i < table->nkeys; i++)
	{
		int			at = table->key_attnums[i] - 1;
		bool		wanted = (needed == NULL || needed[at]) && entries->columns[at].attnum == 0 &&
			is_in_row_key(table, at);
		bool		isnull;

		if (!wanted && key.data == NULL)
			continue;
		if (key.data == NULL)
		{
			key = mosql_index_row_key(index, entry);
			i = -1;				/* from its first column */
			continue;
		}
		if (!mosql_key_get(table, &table->columns[at], &key, wanted ? &values[at] : NULL, &isnull))
			mosql_codec_damage(table, &table->columns[at], "The key in an index entry does not decode.");
		if (wanted)
			nulls[at] = isnull;
	}
}
