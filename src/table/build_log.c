/*
 * build_log.c: what writers tell the builder of an index.
 *
 * Layer: table.  A row of a log is a change of one table row: the entry that the row had
 * in the index, and the one that it has now.  It is written by the transaction that
 * changes the row, under an id that nobody else has, so that writers of different rows
 * do not meet there.
 *
 * Its version is the transaction's timestamp.  A command changes a row once at most,
 * so the entries that one command takes away were all there before it: changes in the
 * order of their versions, in one transaction of their commands, and of one command
 * first what goes and then what comes, are the history of the index, and a unique one
 * is unique after each command (SET u = u + 1 may hand values on).
 *
 *     column 1   key of the old entry, if there was one
 *     column 2   key of the new entry, if there is one
 *     column 3   its columns
 *     column 4   the command, as the transaction counts them
 */
#include "postgres.h"

#include "port/pg_bswap.h"

#include "table/table_int.h"

#define COLUMN_OLD_KEY		1
#define COLUMN_NEW_KEY		2
#define COLUMN_NEW_COLUMNS	3
#define COLUMN_COMMAND		4

typedef struct Entry
{
	StringInfoData key;
	StringInfoData columns;
} Entry;

/* The entry of a row in the index, if there is a row, and it has one. */
static bool
make_entry(const MosqlIndex *index, TupleTableSlot *slot, MosqlBytes key, Entry *entry)
{
	initStringInfo(&entry->key);
	initStringInfo(&entry->columns);
	if (slot == NULL)
		return false;
	return mosql_index_entry(index, slot, key, &entry->key, &entry->columns) != MOSQL_ENTRY_NONE;
}

static bool
is_same(const Entry *a, const Entry *b)
{
	return mosql_bytes_equal(mosql_bytes_of(&a->key), mosql_bytes_of(&b->key)) &&
		mosql_bytes_equal(mosql_bytes_of(&a->columns), mosql_bytes_of(&b->columns));
}

/* Whoever writes waits while a build is closing; this is for those who did not. */
static void
check_open(const MosqlTable *table)
{
	if (table->closing)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to an index that is being created"),
				 errhint("The transaction might succeed if retried.")));
}

void
mosql_build_log_change(const MosqlTable *table, MosqlTxn *txn, TupleTableSlot *old_slot,
					   MosqlBytes old_key, TupleTableSlot *new_slot, MosqlBytes new_key,
					   CommandId cid)
{
	for (int i = 0; i < table->nbuilds; i++)
	{
		const MosqlBuildLog *build = &table->builds[i];
		uint64		id;
		StringInfoData columns;
		Entry		old;
		Entry		new;
		bool		had = make_entry(&build->index, old_slot, old_key, &old);
		bool		has = make_entry(&build->index, new_slot, new_key, &new);

		if (had == has && is_same(&old, &new))
			continue;
		check_open(table);
		id = pg_hton64(mosql_session_new_id(table->session));
		initStringInfo(&columns);
		if (had)
			mosql_column_put_bytes(&columns, COLUMN_OLD_KEY, mosql_bytes_of(&old.key));
		if (has)
		{
			mosql_column_put_bytes(&columns, COLUMN_NEW_KEY, mosql_bytes_of(&new.key));
			mosql_column_put_bytes(&columns, COLUMN_NEW_COLUMNS, mosql_bytes_of(&new.columns));
		}
		mosql_column_put_int(&columns, COLUMN_COMMAND, (int64) cid, 8);
		(void) mosql_txn_insert(txn, build->tree, mosql_bytes((const char *) &id, sizeof(id)),
								mosql_bytes_of(&columns), cid, MOSQL_KEY_NEW);
	}
}

MosqlLoggedChange
mosql_build_log_decode(MosqlBytes columns)
{
	MosqlLoggedChange change = {MOSQL_ABSENT, MOSQL_ABSENT, MOSQL_ABSENT, 0};
	MosqlColumn column;
	bool		sound = true;
	int			got = 1;

	while (sound && (got = mosql_column_next(&columns, &column)) > 0)
	{
		sound = column.wire == (column.column == COLUMN_COMMAND ? MOSQL_WIRE_8 : MOSQL_WIRE_BYTES);
		if (column.column == COLUMN_OLD_KEY)
			change.old_key = column.value;
		else if (column.column == COLUMN_NEW_KEY)
			change.new_key = column.value;
		else if (column.column == COLUMN_NEW_COLUMNS)
			change.new_columns = column.value;
		else if (sound && column.column == COLUMN_COMMAND)
			change.command = (uint32) mosql_read_int(column.value.data, 8);
	}
	if (!sound || got != 0 || (change.new_key.data == NULL) != (change.new_columns.data == NULL))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged log of changes in Redis"),
				 errdetail("A change that was logged for an index that is being built does not decode."),
				 errhint("Create the index again.")));
	return change;
}
