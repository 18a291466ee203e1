/*
 * named.c: sequences that no column of ours owns.
 *
 * Layer: table.  Defaults of several tables, of several servers, may draw from such a
 * sequence, so it is no part of any table's definition, but a row of the catalog of its
 * own, under its name.  The counter is the same as that of a column's (sequence.c), and
 * goes along when the sequence gets an owner or loses it.
 *
 * Another server may know a renamed sequence by the name that it had; so those are kept,
 * and looked through where no sequence has the name now.
 */
#include "postgres.h"

#include "utils/inval.h"

#include "table/table_int.h"

/* Names that a renamed sequence is still found by, schema and name each counting one. */
#define FORMER_NAMES_MAX 32

/* ---- finding ---- */

void
mosql_sequences_add(const MosqlRow *row, void *context)
{
	MosqlSequences *sequences = context;

	if (sequences->n == sequences->max)
	{
		sequences->max *= 2;
		sequences->array = repalloc(sequences->array,
									sequences->max * sizeof(MosqlNamedSequence));
	}
	sequences->array[sequences->n++] = *mosql_named_sequence_decode(row->columns, row->version);
}

int
mosql_named_sequences(MosqlSession *session, MosqlNamedSequence **sequences)
{
	MosqlSequences all = {.max = 16};

	all.array = palloc(all.max * sizeof(MosqlNamedSequence));
	mosql_catalog_scan(session, mosql_catalog_sequence_key(NULL, NULL), mosql_sequences_add, &all);
	*sequences = all.array;
	return all.n;
}

static bool
had_name(const MosqlNamedSequence *sequence, const char *schema, const char *name)
{
	for (int i = 0; i + 1 < list_length(sequence->former); i += 2)
		if (strcmp(list_nth(sequence->former, i), schema) == 0 &&
			strcmp(list_nth(sequence->former, i + 1), name) == 0)
			return true;
	return false;
}

/* The one that had the name; NULL if none. */
static MosqlNamedSequence *
formerly(MosqlSession *session, const char *schema, const char *name)
{
	MosqlNamedSequence *sequences;
	int			n = mosql_named_sequences(session, &sequences);

	for (int i = 0; i < n; i++)
		if (had_name(&sequences[i], schema, name))
			return &sequences[i];
	return NULL;
}

/* The one that has the name; NULL if none. */
static MosqlNamedSequence *
now(MosqlSession *session, const char *schema, const char *name)
{
	MosqlRow	row = {0};

	return mosql_catalog_get(session, mosql_catalog_sequence_key(schema, name), &row)
		? mosql_named_sequence_decode(row.columns, row.version) : NULL;
}

MosqlNamedSequence *
mosql_named_sequence(MosqlSession *session, const char *schema, const char *name)
{
	MosqlNamedSequence *there = now(session, schema, name);

	return there != NULL ? there : formerly(session, schema, name);
}

MosqlBytes
mosql_named_sequence_key(const MosqlNamedSequence *sequence)
{
	return mosql_catalog_sequence_key(sequence->schema, sequence->name);
}

void
mosql_named_sequence_use(MosqlSession *session, MosqlBytes key, MosqlBytes bytes)
{
	mosql_table_note_use(session, key, bytes);
}

/* ---- changing ---- */

static void
insert(MosqlSession *session, MosqlNamedSequence *sequence)
{
	MosqlBytes	key = mosql_named_sequence_key(sequence);

	mosql_named_sequence_encode(sequence);
	mosql_catalog_insert(session, key, sequence->bytes);
}

static void
update(MosqlSession *session, MosqlNamedSequence *sequence)
{
	mosql_named_sequence_encode(sequence);
	mosql_catalog_update(session, mosql_named_sequence_key(sequence), sequence->version,
						 sequence->bytes);
}

static void
delete(MosqlSession *session, const MosqlNamedSequence *sequence)
{
	mosql_catalog_delete(session, mosql_named_sequence_key(sequence), sequence->version);
}

static void
create(MosqlSession *session, const char *schema, const char *name,
	   const MosqlLocalSequence *local)
{
	MosqlNamedSequence made = {.schema = schema,.name = name};

	(void) mosql_sequence_follow(session, local, &made.sequence);
	insert(session, &made);
}

MosqlNamedSequence *
mosql_named_sequence_share(MosqlSession *session, const char *schema, const char *name,
						   const MosqlLocalSequence *local)
{
	MosqlNamedSequence *there = now(session, schema, name);
	MosqlNamedSequence *renamed = there == NULL ? formerly(session, schema, name) : NULL;

	if (there == NULL)
		create(session, schema, name, local);
	else if (local->state.called && (local->sequence.increment > 0) == (there->sequence.increment > 0) &&
			 local->state.value >= there->sequence.min && local->state.value <= there->sequence.max)
		(void) mosql_sequence_set(session, &there->sequence, name, local->state, true);
	return renamed;
}

bool
mosql_named_sequence_alter(MosqlSession *session, const char *schema, const char *name,
						   const MosqlLocalSequence *local)
{
	MosqlNamedSequence *there = mosql_named_sequence(session, schema, name);

	if (there == NULL && local->restart)
		create(session, schema, name, local);
	else if (there != NULL && mosql_sequence_follow(session, local, &there->sequence))
		update(session, there);
	return there != NULL || local->restart;
}

/*
 * 0A000 if another sequence had the name: on a server that has not followed yet it is
 * still that one's, and the same renames, said there, would find this one.
 */
static void
check_former_name(MosqlSession *session, const MosqlNamedSequence *sequence, const char *schema,
				  const char *name)
{
	MosqlNamedSequence *sequences;
	int			n = mosql_named_sequences(session, &sequences);

	for (int i = 0; i < n; i++)
		if (sequences[i].sequence.counter != sequence->sequence.counter &&
			had_name(&sequences[i], schema, name))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("sequence \"%s.%s\" cannot get the name \"%s.%s\", which sequence \"%s.%s\" had",
							sequence->schema, sequence->name, schema, name,
							sequences[i].schema, sequences[i].name),
					 errdetail("Servers that have not followed yet know that one by it."),
					 errhint("Choose another name, or drop that sequence.")));
}

void
mosql_named_sequence_rename(MosqlSession *session, const char *schema, const char *name,
							const char *to_schema, const char *to_name)
{
	MosqlNamedSequence *there = now(session, schema, name);

	if (there == NULL)
		return;					/* gone; or renamed by another server, which this one follows */
	if (now(session, to_schema, to_name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("sequence \"%s.%s\" exists already in Redis", to_schema, to_name),
				 errhint("Another server made it: choose another name, or drop that one.")));
	check_former_name(session, there, to_schema, to_name);
	delete(session, there);
	there->former = lappend(lappend(there->former, (void *) schema), (void *) name);
	while (list_length(there->former) > FORMER_NAMES_MAX)
		there->former = list_delete_first_n(there->former, 2);
	there->schema = to_schema;
	there->name = to_name;
	insert(session, there);
}

void
mosql_named_sequence_drop(MosqlSession *session, const char *schema, const char *name)
{
	MosqlNamedSequence *there = mosql_named_sequence(session, schema, name);

	if (there == NULL)
		return;
	delete(session, there);
	mosql_txn_drops_tree(mosql_txn_current(session), there->sequence.counter);
}

/* ---- another owner ---- */

MosqlSequence
mosql_table_take_sequence(Relation rel, MosqlSession *session, const char *column)
{
	MosqlDefinition *definition = mosql_definition_of(rel, session);
	MosqlDefinitionColumn *from = definition ? mosql_definition_column(definition, column) : NULL;
	MosqlSequence sequence = {0};

	if (from == NULL || from->sequence.counter == 0 || from->sequence.identity)
		return sequence;
	sequence = from->sequence;
	memset(&from->sequence, 0, sizeof(MosqlSequence));
	mosql_definition_update(session, definition);
	CacheInvalidateRelcache(rel);
	return sequence;
}

MosqlSequence
mosql_named_sequence_take(MosqlSession *session, const char *schema, const char *name)
{
	MosqlNamedSequence *there = mosql_named_sequence(session, schema, name);
	MosqlSequence sequence = {0};

	if (there == NULL)
		return sequence;
	delete(session, there);
	return there->sequence;
}

void
mosql_table_give_sequence(Relation rel, MosqlSession *session, const char *column,
						  MosqlSequence sequence)
{
	MosqlDefinition *definition = mosql_definition_of(rel, session);
	MosqlDefinitionColumn *to = definition ? mosql_definition_column(definition, column) : NULL;

	if (to == NULL || to->sequence.counter != 0)
	{
		/* another server gave it one first; it is the one that counts */
		mosql_txn_drops_tree(mosql_txn_current(session), sequence.counter);
		return;
	}
	to->sequence = sequence;
	to->expression = NULL;
	mosql_definition_update(session, definition);
	CacheInvalidateRelcache(rel);
}

void
mosql_named_sequence_give(MosqlSession *session, const char *schema, const char *name,
						  MosqlSequence sequence)
{
	MosqlNamedSequence made = {.schema = schema,.name = name,.sequence = sequence};

	if (now(session, schema, name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("sequence \"%s.%s\" exists already in Redis", schema, name),
				 errhint("Another server made it: rename this one before.")));
	insert(session, &made);
}
