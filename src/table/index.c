/*
 * index.c: the entries of a table's indexes.
 *
 * Layer: table.  table.h says what an entry is.  Entries are written with the
 * table's rows, by the same transaction, so a snapshot sees a row if and only if
 * it sees the row's entries.
 */
#include "postgres.h"

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

MosqlTable *
mosql_index_describe(const MosqlTable *table, const MosqlDefinitionIndex *definition)
{
	MosqlTable *entries = palloc0(sizeof(MosqlTable));

	entries->relid = table->relid;
	entries->session = table->session;
	entries->root = definition->root;
	entries->tree = mosql_session_tree(table->session, definition->root);
	entries->id = table->id;
	entries->natts = table->natts;
	entries->columns = palloc0(Max(table->natts, 1) * sizeof(MosqlTableColumn));
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

bool
mosql_index_entry(const MosqlIndex *index, TupleTableSlot *slot, MosqlBytes key,
				  StringInfo entry_key, StringInfo entry_columns)
{
	const MosqlTable *entries = index->entries;
	int			start = entry_key->len;
	bool		alone = index->unique;

	for (int i = 0; i < entries->nkeys; i++)
	{
		bool		isnull;
		Datum		value = slot_getattr(slot, entries->key_attnums[i], &isnull);

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
						   entry_key->len - start, MOSQL_KEY_MAX_BYTES)));
	mosql_table_put_row(entries, slot, entry_columns);
	return alone;
}

/* ---- writing ---- */

/* An entry as it is written. */
typedef struct Entry
{
	StringInfoData key;
	StringInfoData columns;
	bool		alone;			/* no other row may have it */
} Entry;

static void
make_entry(const MosqlIndex *index, TupleTableSlot *slot, MosqlBytes key, Entry *entry)
{
	initStringInfo(&entry->key);
	initStringInfo(&entry->columns);
	entry->alone = mosql_index_entry(index, slot, key, &entry->key, &entry->columns);
}

/* False: this transaction has that entry already. */
static bool
insert_entry(const MosqlIndex *index, MosqlTxn *txn, const Entry *entry, CommandId cid)
{
	return mosql_txn_insert(txn, index->entries->tree, mosql_bytes_of(&entry->key),
							mosql_bytes_of(&entry->columns), cid,
							entry->alone) != MOSQL_DUPLICATE;
}

/*
 * The row's own version certifies that this is its entry.  False: this command gave
 * it to another row, and has not looked yet whether it is free (SET u = u + 1).
 */
static bool
delete_entry(const MosqlIndex *index, MosqlTxn *txn, const Entry *entry, CommandId cid)
{
	if (mosql_txn_delete(txn, index->entries->tree, mosql_bytes_of(&entry->key),
						 MOSQL_VERSION_ANY, cid) != MOSQL_SELF_MODIFIED)
		return true;
	if (!entry->alone)
		elog(ERROR, "entry of index \"%s\" was changed twice by one command", index->name);
	return false;
}

const MosqlIndex *
mosql_table_insert_entries(const MosqlTable *table, MosqlTxn *txn, TupleTableSlot *slot,
						   MosqlBytes key, CommandId cid, MosqlBytes *duplicate)
{
	for (int i = 0; i < table->nindexes; i++)
	{
		const MosqlIndex *index = &table->indexes[i];
		Entry		entry;

		make_entry(index, slot, key, &entry);
		*duplicate = mosql_bytes_of(&entry.key);
		if (!insert_entry(index, txn, &entry, cid))
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
		if (mosql_bytes_equal(mosql_bytes_of(&old.key), mosql_bytes_of(&new.key)))
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
		if (!insert_entry(index, txn, &new, cid))
			return index;
	}
	mosql_build_log_change(table, txn, old_slot, old_key, new_slot, new_key, cid);
	return NULL;
}

bool
mosql_table_is_indexed(const MosqlTable *table, AttrNumber attnum)
{
	for (int i = 0; i < table->nbuilds; i++)
		if (table->builds[i].index.entries->columns[attnum - 1].attnum != 0)
			return true;
	for (int i = 0; i < table->nindexes; i++)
		if (table->indexes[i].entries->columns[attnum - 1].attnum != 0)
			return true;
	return false;
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
