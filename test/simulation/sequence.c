/*
 * sequence.c: values of a sequence, drawn by src/table/sequence.c as it is.
 *
 * And what that file, and build_log.c, call of the layer table: as far as it is met here.
 */
#include "work_int.h"

#include "utils/inval.h"

#define BLOCK_MAX	20
#define VALUE_MAX	(1 << 19)

/* By its counter: some end soon, some begin again then, some descend. */
static MosqlSequence
sequence_of(uint64 counter)
{
	MosqlSequence sequence = {.counter = counter, .start = 1, .increment = 1, .min = 1, .max = VALUE_MAX, .cache = 1};

	switch (counter * UINT64CONST(0x9E3779B97F4A7C15) >> 61)
	{
		case 0:
			sequence.max = 150;
			break;
		case 1:
			sequence.max = 90;
			sequence.cycle = true;
			break;
		case 2:
			sequence.increment = -1;
			sequence.min = 2 - VALUE_MAX;
			sequence.max = 1;
	}
	return sequence;
}

/* Values as the oracle counts them, upwards; and back. */
static int64
counted(const MosqlSequence *sequence, int64 value)
{
	return sequence->increment > 0 ? value : 2 - value;
}

static bool
has_ended(const MosqlSequence *sequence)
{
	return !sequence->cycle && oracle_sequence(sequence->counter) >= (sequence->increment > 0 ? sequence->max : VALUE_MAX);
}

/* A new counter in place of an old one, by TRUNCATE or ALTER SEQUENCE RESTART; 0: there is none. */
uint64
sequence_counter(MosqlSession *session, uint64 old)
{
	MosqlDefinitionColumn column = {.name = "id", .sequence = sequence_of(old)};
	MosqlDefinition definition = {.ncolumns = 1, .columns = &column};
	MosqlLocalSequence local = {.column = "id", .sequence = sequence_of(0), .state = {1, false}};

	if (old != 0 && sim_chance(500))
		mosql_definition_restart_sequences(session, &definition);
	else
	{
		local.sequence = column.sequence;
		local.altered = ~0;
		local.restart = true;
		if (!mosql_sequence_follow(session, &local, &column.sequence))
			sim_fail("a sequence is not restarted");
	}
	return column.sequence.counter;
}

/* A block of values: none of them ever again, whatever becomes of the transaction; but they come again in a circle. */
void
sequence_draw(Client *client)
{
	MosqlSequence sequence = sequence_of(schema_open(client)->counter);
	int64		moment = oracle_sequence(sequence.counter);
	bool		ended = has_ended(&sequence) && sim_forgot_us == 0;
	int64		first;
	int64		last;
	int64		n;

	if (ended && !sim_chance(50))
		return;
	if (client->drawn_from != sequence.counter)
		client->seen.known = false;
	client->drawn_from = sequence.counter;
	n = mosql_sequence_draw(client->session, &sequence, "id", sim_between(1, BLOCK_MAX),
							&client->seen, &first);
	last = first + (n - 1) * sequence.increment;
	sim_trace("tx %d draws " INT64_FORMAT " values from " INT64_FORMAT, client->tx->number, n, first);
	if (ended || n < 1 || Min(first, last) < sequence.min || Max(first, last) > sequence.max)
		sim_fail("sequence %016lx hands out " INT64_FORMAT " to " INT64_FORMAT ", beyond its end",
				 (unsigned long) sequence.counter, first, last);
	if (!sequence.cycle)
		oracle_drawn(sequence.counter, moment, counted(&sequence, first), n);
}

/* setval(), forward: what was handed out is not handed out again. */
void
sequence_set(Client *client)
{
	MosqlSequence sequence = sequence_of(schema_open(client)->counter);
	int64		value = sequence.cycle ? sim_between(1, sequence.max) :
		Max(oracle_sequence(sequence.counter) + sim_between(-20, 50), 1);
	bool		called = sim_chance(500);

	if (mosql_sequence_set(client->session, &sequence, "id", (MosqlSequenceState) {counted(&sequence, value), called}, true))
		sim_trace("tx %d sets the sequence to " INT64_FORMAT, client->tx->number, value);
	if (!sequence.cycle)
		oracle_set(sequence.counter, called ? value : value - 1);
}

/* Whatever was handed out before has been. */
void
sequence_read(Client *client)
{
	MosqlSequence sequence = sequence_of(schema_open(client)->counter);
	int64		moment = oracle_sequence(sequence.counter);
	MosqlSequenceState state = mosql_sequence_read(client->session, &sequence, "id");
	int64		reached = counted(&sequence, state.value) - (state.called ? 0 : 1);

	if (!sequence.cycle && reached < moment && sim_forgot_us == 0)
		sim_fail("sequence %016lx stands at " INT64_FORMAT ", and " INT64_FORMAT " was handed out",
				 (unsigned long) sequence.counter, reached, moment);
}

/* ---- of the layer table ---- */

uint64
mosql_table_create_tree(MosqlSession *session, bool together)
{
	MosqlTxn   *txn = mosql_txn_current(session);
	uint64		root = mosql_session_new_root(session);

	if (!mosql_btree_create(mosql_session_store(session), root, together))
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

const MosqlDefinition *
mosql_table_before(Relation rel)
{
	not_here(__func__);
}

const MosqlDefinitionColumn *
mosql_table_column_before(const MosqlDefinition *before, Relation rel, const char *name)
{
	not_here(__func__);
}

void
mosql_table_differs(Relation rel, const char *difference)
{
	not_here(__func__);
}
