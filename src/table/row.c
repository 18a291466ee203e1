/*
 * row.c: a table's rows: slots to key and columns, and back.
 *
 * Layer: table.  Columns are stored under their stable ids in ascending order,
 * and what the key gives back is not stored again.  Nulls are left out, but for
 * columns that were added with a default when there were rows already: in those,
 * what is left out is the default, so that ALTER touched no row.
 */
#include "postgres.h"

#include "utils/lsyscache.h"

#include "table/table_int.h"

/* ---- slots to bytes ---- */

static void
report_null_key(const MosqlTable *table, AttrNumber attnum)
{
	ereport(ERROR,
			(errcode(ERRCODE_NOT_NULL_VIOLATION),
			 errmsg("null value in column \"%s\" of relation \"%s\" violates not-null constraint",
					get_attname(table->relid, attnum, false), get_rel_name(table->relid)),
			 errdetail("The column is part of the key.")));
}

void
mosql_table_slot_key(const MosqlTable *table, TupleTableSlot *slot, StringInfo out)
{
	int			start = out->len;

	for (int i = 0; i < table->nkeys; i++)
	{
		AttrNumber	attnum = table->key_attnums[i];
		bool		isnull;
		Datum		value = slot_getattr(slot, attnum, &isnull);

		if (isnull)
			report_null_key(table, attnum);
		mosql_table_put_key(table, i, value, out);
	}
	if (out->len - start > MOSQL_KEY_MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("key of a row of foreign table \"%s\" is too long",
						get_rel_name(table->relid)),
				 errdetail("It takes %d bytes; a key may take up to %d bytes.",
						   out->len - start, MOSQL_KEY_MAX_BYTES)));
}

void
mosql_table_put_row(const MosqlTable *table, TupleTableSlot *slot, StringInfo out)
{
	int			start = out->len;

	slot_getallattrs(slot);
	for (int id = 0; id < table->nids; id++)
	{
		int			att = table->by_id[id];

		if (att < 0 || !table->columns[att].in_row)
			continue;
		if (slot->tts_isnull[att])
		{
			if (table->columns[att].has_missing)
				mosql_column_put_null(out, id);
			continue;
		}
		mosql_codec_put(table, &table->columns[att], slot->tts_values[att], out);
		if (out->len - start > MOSQL_ROW_MAX_BYTES)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("row of foreign table \"%s\" is too large",
							get_rel_name(table->relid)),
					 errdetail("It takes more than %d bytes (128 MB).", MOSQL_ROW_MAX_BYTES)));
	}
}

/* ---- bytes to values ---- */

static void
get_key(const MosqlTable *table, MosqlBytes key, const bool *needed, Datum *values, bool *nulls)
{
	for (int i = 0; i < table->nkeys; i++)
	{
		int			att = table->key_attnums[i] - 1;
		const MosqlTableColumn *column = &table->columns[att];
		bool		wanted = !column->in_row && (needed == NULL || needed[att]);
		bool		isnull;

		if (!mosql_key_get(table, column, &key, wanted ? &values[att] : NULL, &isnull))
			mosql_codec_damage(table, column, "The key does not decode.");
		if (wanted)
			nulls[att] = isnull;
	}
	if (!table->is_index && table->nkeys > 0 && key.len > 0)
		mosql_codec_damage(table, NULL, "Bytes are left over behind the key.");
}

/* Does the key have to be looked at? */
static bool
wants_key(const MosqlTable *table, const bool *needed)
{
	for (int i = 0; i < table->nkeys; i++)
	{
		int			att = table->key_attnums[i] - 1;

		if (!table->columns[att].in_row && (needed == NULL || needed[att]))
			return true;
	}
	return false;
}

void
mosql_table_get_row(const MosqlTable *table, MosqlBytes key, MosqlBytes columns,
					const bool *needed, Datum *values, bool *nulls)
{
	MosqlColumn stored;
	int			got;

	memset(nulls, true, table->natts * sizeof(bool));
	memset(values, 0, table->natts * sizeof(Datum));
	for (int i = 0; i < table->nmissing; i++)
	{
		int			att = table->missing[i] - 1;

		if (needed == NULL || needed[att])
			values[att] = table->columns[att].missing;
		nulls[att] = needed != NULL && !needed[att];
	}
	if (wants_key(table, needed))
		get_key(table, key, needed, values, nulls);

	while ((got = mosql_column_next(&columns, &stored)) > 0)
	{
		int			att = stored.column < table->nids ? table->by_id[stored.column] : -1;

		if (att < 0 || (needed != NULL && !needed[att]))
			continue;			/* dropped, or nobody asks */
		nulls[att] = stored.wire == MOSQL_WIRE_NULL;
		values[att] = nulls[att] ? (Datum) 0
			: mosql_codec_get(table, &table->columns[att], &stored);
	}
	if (got < 0)
		mosql_codec_damage(table, NULL, "The list of columns does not decode.");
}

/* ---- checks ---- */

const char *
mosql_table_check_row(const MosqlTable *table, MosqlBytes key, MosqlBytes columns)
{
	MosqlColumn stored;
	int64		last = -1;
	int			got;

	for (int i = 0; i < table->nkeys; i++)
	{
		bool		isnull;

		if (!mosql_key_get(table, &table->columns[table->key_attnums[i] - 1], &key, NULL, &isnull))
			return "a key does not decode";
	}
	if (!table->is_index && (table->nkeys > 0 ? key.len > 0 : key.len != sizeof(uint64)))
		return "a key has a wrong length";

	while ((got = mosql_column_next(&columns, &stored)) > 0)
	{
		int			att = stored.column < table->nids ? table->by_id[stored.column] : -1;

		if ((int64) stored.column <= last)
			return "the columns of a row do not ascend";
		last = stored.column;
		if (att >= 0 && !mosql_codec_accepts(&table->columns[att], stored.wire))
			return "a column of a row has a width that is not its type's";
	}
	return got < 0 ? "the columns of a row do not decode" : NULL;
}

void
mosql_table_check_values(const MosqlTable *table, MosqlBytes key, MosqlBytes columns)
{
	Datum	   *values = palloc(Max(table->natts, 1) * sizeof(Datum));
	bool	   *nulls = palloc(Max(table->natts, 1) * sizeof(bool));
	StringInfoData encoded;

	mosql_table_get_row(table, key, columns, NULL, values, nulls);
	initStringInfo(&encoded);
	for (int i = 0; i < table->nkeys; i++)
	{
		int			att = table->key_attnums[i] - 1;

		if (nulls[att])
			mosql_codec_damage(table, &table->columns[att], "It belongs to the key, and is missing.");
		mosql_table_put_key(table, i, values[att], &encoded);
	}
	if (table->nkeys > 0 && !mosql_bytes_equal(mosql_bytes_of(&encoded), key))
		mosql_codec_damage(table, NULL, "It is stored under another key than its own.");
}
