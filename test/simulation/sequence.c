/*
 * sequence.c: values of a sequence, drawn by src/table/sequence.c as it is.
 *
 * And what that file, and build_log.c, call of the layer table: as far as it is met here.
 */
#include "work_int.h"

#include "utils/inval.h"

#define BLOCK_MAX	20
#define VALUE_MAX	(1 << 19)

static MosqlSequence
sequence_of(uint64 counter)
{
	return (MosqlSequence) {.counter = counter, .start = 1, .increment = 1, .min = 1,
		.max = VALUE_MAX, .cache = 1};
}

/* A new counter in place of an old one; 0: there is none. */
uint64
sequence_counter(MosqlSession *session, uint64 old)
{
	MosqlDefinitionColumn column = {.name = "id", .sequence = sequence_of(old)};
	MosqlDefinition definition = {.ncolumns = 1, .columns = &column};
	MosqlLocalSequence local = {.column = "id", .sequence = sequence_of(0), .state = {1, false}};

	if (old != 0)
		mosql_definition_restart_sequences(session, &definition);
	else
		(void) mosql_sequence_follow(session, &local, &column.sequence);
	return column.sequence.counter;
}

/* A block of values: none of them ever again, whatever becomes of the transaction. */
void
sequence_draw(Client *client)
{
	MosqlSequence sequence = sequence_of(schema_open(client)->counter);
	int64		moment = oracle_sequence(sequence.counter);
	int64		first;
	int64		n;

	if (client->drawn_from != sequence.counter)
		client->seen.known = false;
	client->drawn_from = sequence.counter;
	n = mosql_sequence_draw(client->session, &sequence, "id", sim_between(1, BLOCK_MAX),
							&client->seen, &first);
	sim_trace("tx %d draws " INT64_FORMAT " values from " INT64_FORMAT, client->tx->number, n, first);
	oracle_drawn(sequence.counter, moment, first, n);
}

/* setval(), forward: what was handed out is not handed out again. */
void
sequence_set(Client *client)
{
	MosqlSequence sequence = sequence_of(schema_open(client)->counter);
	int64		value = Max(oracle_sequence(sequence.counter) + sim_between(-20, 50), 1);
	bool		called = sim_chance(500);

	if (mosql_sequence_set(client->session, &sequence, "id", (MosqlSequenceState) {value, called}, true))
		sim_trace("tx %d sets the sequence to " INT64_FORMAT, client->tx->number, value);
	oracle_set(sequence.counter, called ? value : value - 1);
}

/* ---- of the layer table ---- */

uint64
mosql_table_create_tree(MosqlSession *session)
{
	MosqlTxn   *txn = mosql_txn_current(session);
	uint64		root = mosql_session_new_id(session);

	if (!mosql_btree_create(mosql_session_store(session), root))
		sim_fail("node id %016lx exists already", (unsigned long) root);
	mosql_txn_created_tree(txn, root);
	return root;
}

/* The entry of a Row, which is what a slot is here. */
MosqlEntryKind
mosql_index_entry(const MosqlIndex *index, TupleTableSlot *slot, MosqlBytes key,
				  StringInfo entry_key, StringInfo entry_columns)
{
	MosqlBytes	entry = work_entry(((const Row *) slot)->token, work_key_number(TREE_TABLE, key));

	appendBinaryStringInfo(entry_key, entry.data, (int) entry.len);
	return MOSQL_ENTRY_SHARED;
}

/* Only met where the local relation has sequences. */
static void pg_attribute_noreturn()
not_here(const char *function)
{
	sim_fail("%s is not played", function);
}

MosqlDefinition *
mosql_definition_describe(Relation rel)
{
	not_here(__func__);
}

MosqlDefinition *
mosql_table_definition(MosqlSession *session, const char *schema, const char *name)
{
	not_here(__func__);
}

MosqlDefinitionColumn *
mosql_definition_column(const MosqlDefinition *definition, const char *name)
{
	not_here(__func__);
}

void
mosql_definition_update(MosqlSession *session, MosqlDefinition *definition)
{
	not_here(__func__);
}

void
CacheInvalidateRelcache(Relation relation)
{
	not_here(__func__);
}
