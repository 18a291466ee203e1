/*
 * sequence.c: sequences that all servers draw from.
 *
 * Layer: table.  A sequence belongs to a column and is part of the table's
 * definition; where it stands is a field of a node of its own, changed by single
 * steps that compare what was read and set what follows.  Draws are no part of
 * the transaction, as PostgreSQL's are not: they are never taken back, and never
 * wait for anybody's commit.
 *
 * The counter's node is the root of a tree that stays empty, so that whatever
 * makes, destroys and looks for trees does that with counters, too.
 *
 * RESTART is transactional in PostgreSQL.  So it makes a new counter, which takes
 * the place of the old one in the definition when the transaction commits.
 */
#include "postgres.h"

#include "common/int.h"
#include "utils/inval.h"

#include "code/node.h"
#include "table/table_int.h"

/*
 * The counter's field, and its value: 8 bytes, big-endian; 1 byte: 1 if that value
 * was handed out, 0 if it is the next to be.
 */
#define COUNTER_FIELD	"q"
#define COUNTER_BYTES	9

/* A draw that always meets others gives up after this time. */
#define DRAW_TIMEOUT_MS	10000

/* ---- the counter ---- */

static MosqlBytes
encode_state(MosqlSequenceState state)
{
	StringInfoData out;

	initStringInfo(&out);
	for (int shift = 56; shift >= 0; shift -= 8)
		appendStringInfoCharMacro(&out, (char) ((uint64) state.value >> shift));
	appendStringInfoCharMacro(&out, state.called ? 1 : 0);
	return mosql_bytes_of(&out);
}

/* XX001 for bytes that are none; 40001 for a counter that is not there. */
static MosqlSequenceState
decode_state(MosqlSession *session, const MosqlSequence *sequence, const char *name,
			 MosqlBytes stored)
{
	MosqlSequenceState state;

	if (stored.data == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("sequence \"%s\" was dropped or restarted by another server", name),
				 errhint("Retry the transaction.")));
	if (stored.len != COUNTER_BYTES || (stored.data[8] != 0 && stored.data[8] != 1))
		mosql_report_damage(mosql_session_namespace(session), sequence->counter,
							"its counter does not decode");
	state.value = mosql_read_int(stored.data, 8);
	state.called = stored.data[8] == 1;
	return state;
}

static MosqlBytes
counter_field(void)
{
	return mosql_bytes(COUNTER_FIELD, 1);
}

static MosqlBytes
read_counter(MosqlSession *session, uint64 counter)
{
	MosqlBytes	field = counter_field();
	MosqlFieldRead read = {.node = counter,.nfields = 1,.fields = &field};

	mosql_step_read_fields(mosql_session_stepper(session), &read, 1, NULL);
	return read.values[0];
}

/*
 * Run a step that writes the counter.  True if this was done; *found is what was there
 * before, or else is there, with known = false if nobody knows.
 * (durable modes) Has its copies before it counts, and what it found, too: a value that
 * was handed out is not handed out again after a failover.  08006 without copies.
 */
static bool
run_step(MosqlSession *session, MosqlStep *step, MosqlBytes *found, bool *known)
{
	MosqlBytes	field = counter_field();

	step->no_count = step->durable = step->touch = true;
	step->nreads = 1;
	step->reads = &field;
	mosql_step_run(mosql_session_stepper(session), &step, 1, NULL);
	*known = step->status != MOSQL_STEP_LOST;
	if (*known)
		*found = step->values[0];
	return step->status == MOSQL_STEP_DONE;
}

/* Set the counter if it is what `expected` says (absent: not there). */
static bool
exchange(MosqlSession *session, uint64 counter, MosqlBytes expected, MosqlBytes wanted,
		 MosqlBytes *found, bool *known)
{
	MosqlCompare compares[2];
	MosqlWrite	write = {.kind = MOSQL_WRITE_SET,.field = counter_field(),.value = wanted};
	MosqlStep	step = {.node = counter,.compares = compares,.nwrites = 1,.writes = &write};

	/* that the node is there, too: a counter without a meta would be nobody's garbage */
	mosql_step_expect(&step, MOSQL_COMPARE_EQUAL, mosql_bytes("m", 1), 0, mosql_bytes("", 0));
	mosql_step_expect_same(&step, write.field, expected);
	return run_step(session, &step, found, known);
}

/*
 * Add to the counter, wherever between 0 and `most` it stands, and if its value was handed
 * out: so that many who draw at a time do not wait for each other.
 */
static bool
advance(MosqlSession *session, uint64 counter, int64 by, int64 most, MosqlBytes *found, bool *known)
{
	MosqlStepDelta delta = {.offset = 0,.width = 8,.delta = by};
	MosqlCompare compares[2];
	MosqlWrite	write = {.kind = MOSQL_WRITE_ADD,.field = counter_field(),.value = mosql_step_add(0, &delta, 1)};
	MosqlStep	step = {.node = counter,.compares = compares,.nwrites = 1,.writes = &write};
	MosqlBytes	bound = encode_state((MosqlSequenceState) {.value = most});

	/* that it is there, too; and bytes of values that are not negative have their order */
	mosql_step_expect(&step, MOSQL_COMPARE_EQUAL, write.field, 8, mosql_bytes("\1", 1));
	mosql_step_expect(&step, MOSQL_COMPARE_AT_MOST, write.field, 0, mosql_bytes(bound.data, 8));
	return run_step(session, &step, found, known);
}

MosqlSequenceState
mosql_sequence_read(MosqlSession *session, const MosqlSequence *sequence, const char *name)
{
	return decode_state(session, sequence, name, read_counter(session, sequence->counter));
}

/* ---- drawing ---- */

/*
 * The first value after a state, and how many more there are up to the end of the
 * sequence.  2200H if there is none.
 */
static int64
first_after(const MosqlSequence *sequence, const char *name, MosqlSequenceState state,
			uint64 *more)
{
	bool		up = sequence->increment > 0;
	int64		first = state.value;
	bool		beyond = state.called &&
		pg_add_s64_overflow(state.value, sequence->increment, &first);

	if (beyond || (up ? first > sequence->max : first < sequence->min))
	{
		if (!sequence->cycle)
			ereport(ERROR,
					(errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED),
					 up ? errmsg("nextval: reached maximum value of sequence \"%s\" (%lld)",
								 name, (long long) sequence->max)
					 : errmsg("nextval: reached minimum value of sequence \"%s\" (%lld)",
							  name, (long long) sequence->min)));
		first = up ? sequence->min : sequence->max;
	}
	else if (up ? first < sequence->min : first > sequence->max)
		first = up ? sequence->min : sequence->max; /* its bounds were altered */
	*more = up ? ((uint64) sequence->max - (uint64) first) / (uint64) sequence->increment
		: ((uint64) first - (uint64) sequence->min) / -(uint64) sequence->increment;
	return first;
}

/* Another attempt, after a while if this was not the first. */
static void
pause_draw(MosqlBudget *budget, const char *name)
{
	if (!mosql_budget_pause(budget))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("sequence \"%s\" stayed busy for %d ms", name, DRAW_TIMEOUT_MS),
				 errhint("Raise mosql_fdw.sequence_block, so that it is drawn from less often.")));
}

/*
 * Draw by adding to the counter: one that ascends, above 0, and has so many left.  False: it is
 * another one, and is to be drawn from by what *seen says.
 */
static bool
draw_by_adding(MosqlSession *session, const MosqlSequence *sequence, const char *name,
			   int64 want, MosqlSequenceSeen *seen, int64 *first)
{
	MosqlBytes	found;
	int64		by;
	bool		added;

	if (sequence->increment < 0 || pg_mul_s64_overflow(want, sequence->increment, &by) || by > sequence->max)
		return false;
	added = advance(session, sequence->counter, by, sequence->max - by, &found, &seen->known);
	if (!seen->known)
		return false;
	seen->state = decode_state(session, sequence, name, found);
	if (!added)
		return false;
	*first = seen->state.value + sequence->increment;
	seen->state.value += by;
	return *first >= sequence->min; /* else its bounds were altered, and these are a gap */
}

/*
 * A step whose answer is lost, or that lacks copies, may have been made: then its
 * values are a gap.
 */
int64
mosql_sequence_draw(MosqlSession *session, const MosqlSequence *sequence, const char *name,
					int64 want, MosqlSequenceSeen *seen, int64 *first)
{
	MosqlBudget budget = mosql_budget_start(DRAW_TIMEOUT_MS);
	bool		met_others = false;

	if (draw_by_adding(session, sequence, name, want, seen, first))
		return want;
	for (;;)
	{
		MosqlSequenceState next;
		MosqlBytes	found;
		uint64		more;

		if (!seen->known)
			seen->state = decode_state(session, sequence, name,
									   read_counter(session, sequence->counter));
		*first = first_after(sequence, name, seen->state, &more);
		more = Min(more, (uint64) (want - 1));
		next.value = (int64) ((uint64) *first + more * (uint64) sequence->increment);
		next.called = true;
		if (exchange(session, sequence->counter, encode_state(seen->state), encode_state(next),
					 &found, &seen->known))
		{
			seen->state = next;
			return (int64) more + 1;
		}
		if (seen->known)
			seen->state = decode_state(session, sequence, name, found);
		if (met_others)
			pause_draw(&budget, name);
		met_others = true;
	}
}

/* Would a sequence that stands at `from` hand out values again at `to`? */
static bool
is_back(const MosqlSequence *sequence, MosqlSequenceState from, MosqlSequenceState to)
{
	if (from.value == to.value)
		return from.called && !to.called;
	return (to.value < from.value) == (sequence->increment > 0);
}

bool
mosql_sequence_set(MosqlSession *session, const MosqlSequence *sequence, const char *name,
				   MosqlSequenceState state, bool forward)
{
	MosqlBudget budget = mosql_budget_start(DRAW_TIMEOUT_MS);
	MosqlBytes	found;
	bool		known;

	if (state.value < sequence->min || state.value > sequence->max)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("setval: value %lld is out of bounds for sequence \"%s\" (%lld..%lld)",
						(long long) state.value, name, (long long) sequence->min,
						(long long) sequence->max)));
	found = read_counter(session, sequence->counter);
	for (;;)
	{
		MosqlSequenceState current = decode_state(session, sequence, name, found);
		bool		stays = forward && is_back(sequence, current, state);

		if (stays && !mosql_session_stepper(session)->durable)
			return false;
		/* what somebody else has set is written once more: that has its copies (rule 18) */
		if (exchange(session, sequence->counter, found, stays ? found : encode_state(state),
					 &found, &known))
			return !stays;
		pause_draw(&budget, name);
		if (!known)
			found = read_counter(session, sequence->counter);
	}
}

/* ---- definitions ---- */

/* A counter that goes again if the transaction fails. */
static uint64
create_counter(MosqlSession *session, MosqlSequenceState state)
{
	uint64		counter = mosql_table_create_tree(session, false);
	MosqlBytes	wanted = encode_state(state);
	MosqlBytes	found = MOSQL_ABSENT;
	bool		known;

	if (!exchange(session, counter, MOSQL_ABSENT, wanted, &found, &known))
	{
		/* perhaps it was made, and only the answer lost */
		if (!known)
			found = read_counter(session, counter);
		if (!mosql_bytes_equal(found, wanted))
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("could not create a sequence in Redis"),
					 errhint("Try again.")));
	}
	return counter;
}

static void
replace_counter(MosqlSession *session, MosqlSequence *sequence, MosqlSequenceState state)
{
	mosql_txn_drops_tree(mosql_txn_current(session), sequence->counter);
	sequence->counter = create_counter(session, state);
}

void
mosql_definition_restart_sequences(MosqlSession *session, MosqlDefinition *definition)
{
	for (int i = 0; i < definition->ncolumns; i++)
	{
		MosqlSequence *sequence = &definition->columns[i].sequence;

		if (sequence->counter != 0)
			replace_counter(session, sequence, (MosqlSequenceState)
							{
								.value = sequence->start,.called = false
							});
	}
}

bool
mosql_sequence_is_same(const MosqlSequence *a, const MosqlSequence *b)
{
	return a->start == b->start && a->increment == b->increment && a->min == b->min &&
		a->max == b->max && a->cache == b->cache && a->cycle == b->cycle &&
		a->identity == b->identity && a->always == b->always;
}

/* In core's words; the limits may come from two servers. */
static void
check_limits(const MosqlSequence *sequence)
{
	const char *detail = "Another server has altered the sequence.";

	if (sequence->min >= sequence->max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("MINVALUE (%lld) must be less than MAXVALUE (%lld)",
						(long long) sequence->min, (long long) sequence->max),
				 errdetail_internal("%s", detail)));
	if (sequence->start < sequence->min || sequence->start > sequence->max)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("START value (%lld) must be between MINVALUE (%lld) and MAXVALUE (%lld)",
						(long long) sequence->start, (long long) sequence->min, (long long) sequence->max),
				 errdetail_internal("%s", detail)));
}

/* What the command does not speak of may have been altered by another server: that stays. */
static MosqlSequence
altered(const MosqlSequence *there, const MosqlLocalSequence *local)
{
	MosqlSequence merged = *there;

	if (local->altered & MOSQL_SEQUENCE_START)
		merged.start = local->sequence.start;
	if (local->altered & MOSQL_SEQUENCE_INCREMENT)
		merged.increment = local->sequence.increment;
	if (local->altered & MOSQL_SEQUENCE_MIN)
		merged.min = local->sequence.min;
	if (local->altered & MOSQL_SEQUENCE_MAX)
		merged.max = local->sequence.max;
	if (local->altered & MOSQL_SEQUENCE_CACHE)
		merged.cache = local->sequence.cache;
	if (local->altered & MOSQL_SEQUENCE_CYCLE)
		merged.cycle = local->sequence.cycle;
	if (local->altered & MOSQL_SEQUENCE_ALWAYS)
		merged.always = local->sequence.always;
	if (!mosql_sequence_is_same(&merged, there))
		check_limits(&merged);
	return merged;
}

/* The counter of an altered sequence stays: others draw from it until this commits. */
bool
mosql_sequence_follow(MosqlSession *session, const MosqlLocalSequence *local,
					  MosqlSequence *there)
{
	MosqlSequence merged;

	if (there->counter == 0)
	{
		*there = local->sequence;
		there->counter = create_counter(session, local->state);
		return true;
	}
	merged = altered(there, local);
	if (!local->restart && mosql_sequence_is_same(&merged, there))
		return false;
	*there = merged;
	if (local->restart)
		replace_counter(session, there, local->state);
	return true;
}

static const MosqlLocalSequence *
local_sequence(const MosqlLocalSequence *local, int n, const char *column)
{
	for (int i = 0; i < n; i++)
		if (strcmp(local[i].column, column) == 0)
			return &local[i];
	return NULL;
}

/* Does the column's default draw from a sequence that none owns (named.c)?  Then it has
 * none of its own, whatever the relation that attaches to it says. */
static bool
draws_from_named(const MosqlDefinitionColumn *column)
{
	return column->expression != NULL && strstr(column->expression, "nextval(") != NULL;
}

/* The command drops or alters what this server shows: 42P16 unless that is what is there. */
static void
check_meant(Relation rel, const MosqlLocalSequence *mine, const MosqlSequence *there)
{
	const MosqlDefinition *before = mosql_table_before(rel);
	const MosqlDefinitionColumn *was = !mine->dropped || before == NULL ? NULL
		: mosql_table_column_before(before, rel, mine->column);
	bool		other = was != NULL ? !mosql_sequence_is_same(&was->sequence, there)
		: mine->sequence.identity != there->identity;

	if (there->counter == 0)
		mosql_table_differs(rel, psprintf("Column \"%s\" has no sequence there.", mine->column));
	if (other)
		mosql_table_differs(rel, psprintf("Column \"%s\" has another sequence there.", mine->column));
}

/* One column's; returns whether that changes the definition. */
static bool
follow_one(Relation rel, MosqlSession *session, const MosqlLocalSequence *mine,
		   MosqlDefinitionColumn *column)
{
	MosqlSequence *there = &column->sequence;

	if (mine->dropped && there->counter == 0)
		return false;
	if (mine->dropped)
	{
		check_meant(rel, mine, there);
		mosql_txn_drops_tree(mosql_txn_current(session), there->counter);
		memset(there, 0, sizeof(MosqlSequence));
		return true;
	}
	if (there->counter == 0 && mine->made)
	{
		if (mine->sequence.identity && draws_from_named(column))
			column->expression = NULL;	/* an identity has no default: it went with the sequence */
		return !draws_from_named(column) && mosql_sequence_follow(session, mine, there);
	}
	if (!mine->made && (mine->altered != 0 || mine->restart))
		check_meant(rel, mine, there);
	return there->counter != 0 && mosql_sequence_follow(session, mine, there);
}

void
mosql_table_follow_sequences(Relation rel, MosqlSession *session,
							 const MosqlLocalSequence *local, int n)
{
	const MosqlDefinition *here = mosql_definition_describe(rel);
	MosqlDefinition *there = mosql_table_definition(session, here->schema, here->name);
	bool		changed = false;

	for (int i = 0; there != NULL && i < here->ncolumns; i++)
	{
		const char *name = here->columns[i].name;
		const MosqlLocalSequence *mine = local_sequence(local, n, name);
		MosqlDefinitionColumn *column = mosql_definition_column(there, name);

		if (column != NULL && mine != NULL)
			changed |= follow_one(rel, session, mine, column);
	}
	if (changed)
	{
		mosql_definition_update(session, there);
		CacheInvalidateRelcache(rel);
	}
}
