/*
 * recover.c: finishing, or undoing, what others left in the way.
 *
 * Layer: txn.  A committed transaction whose owner is slow or dead is applied
 * by whoever meets its intents, from the intents themselves.  An undecided one
 * is given intent_timeout from the moment it was first met; then "aborted" is
 * written into its record, if nothing is there yet, and the intent removed.
 * Every helper's step compares the intent again, so that any number of helpers
 * and the owner may work on the same key; only the owner drops the record.
 */
#include "postgres.h"

#include "txn/txn_int.h"

int			mosql_txn_intent_timeout_ms = 500;

bool
mosql_intents_find(MosqlBytes field, MosqlTxid tx, MosqlIntent *intent)
{
	while (mosql_intent_next(&field, intent) == 1)
		if (mosql_txid_equal(intent->tx, tx))
			return true;
	return false;
}

/* The writes that turn an intent of a transaction committed at ts into a
 * version; returns their number. */
static int
intent_writes(MosqlSession *session, const MosqlPoint *point, MosqlBytes field_row,
			  const MosqlIntent *intent, MosqlTimestamp ts, const MosqlSnapshotList *list,
			  MosqlWrite *writes)
{
	MosqlIncrement *inc;
	int			ninc;
	StringInfoData out;

	if (intent->kind != MOSQL_INTENT_INCREMENT)
		return mosql_apply_writes(session, point->leaf, field_row, point->row,
								  intent->kind == MOSQL_INTENT_PUT, intent->payload, ts, list,
								  writes);
	if (!mosql_increments_decode(intent->payload, &inc, &ninc))
		mosql_report_damage(session->config.ns, point->leaf, "an increment does not decode");
	mosql_string_init(&out, point->row.len + 32);
	if (mosql_row_increment(&out, point->row, ts, inc, ninc, list) != MOSQL_INCREMENT_OK)
		mosql_report_damage(session->config.ns, point->leaf, "an increment does not fit its row");
	writes[0] = (MosqlWrite) {MOSQL_WRITE_SET, field_row, mosql_bytes_of(&out)};
	return 1;
}

/*
 * The transaction's intent is not there: was it applied?  Then the row, or the
 * purge mark, is at least as new.  If not, the server that had the intent has lost
 * it, which only copies (durability) prevent: nobody can undo the commit or knows
 * the row.  At least it is said.
 */
static void
check_applied(MosqlSession *session, const MosqlPoint *point, MosqlTxid tx, MosqlTimestamp ts)
{
	MosqlVersion newest;

	if (point->purged >= ts ||
		(point->row.data != NULL && mosql_row_newest(point->row, &newest) && newest.ts >= ts))
		return;
	mosql_stats.lost_writes++;
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a row that transaction " UINT64_FORMAT "." UINT64_FORMAT " had written was lost by Redis",
					tx.session, tx.n),
			 errdetail("It belonged to Redis key \"%s:{%016" INT64_MODIFIER "x}\".",
					   session->config.ns, point->leaf),
			 errhint("A Redis node failed before its replica had the row; the server option durability prevents that.")));
}

/*
 * That the key's intents are those that were read is durable: true; false if that
 * has changed and must be looked at again.  The compare is made by the step that
 * is waited for: what was read may come from a server that failed since.
 */
static bool
confirm_intents(MosqlSession *session, MosqlTree *tree, MosqlBytes key, MosqlBytes intents)
{
	MosqlLeafGroup *group;
	MosqlCompare compares[2] = {{.kind = MOSQL_COMPARE_EQUAL, .field = MOSQL_META_FIELD}};
	MosqlBytes	meta = MOSQL_META_FIELD;
	MosqlStep	step = {.repeatable = true, .durable = true, .touch = true};
	MosqlStep  *steps[1] = {&step};

	(void) mosql_btree_group(tree, &key, 1, &group);
	compares[0].bytes = mosql_generation_bytes(group->generation);
	compares[1].kind = intents.data != NULL ? MOSQL_COMPARE_ONLY : MOSQL_COMPARE_ABSENT;
	compares[1].field = mosql_field_name(MOSQL_FIELD_INTENT, key);
	compares[1].bytes = intents;
	step.node = group->leaf;
	step.compares = compares;
	step.ncompares = 2;
	step.reads = &meta;
	step.nreads = 1;
	mosql_step_run(&session->stepper, steps, 1, NULL);
	if (step.status == MOSQL_STEP_FAILED && step.failed == 0)
		mosql_btree_observe(tree, step.node, step.values[0], -1);
	return step.status == MOSQL_STEP_DONE;
}

static void
report_unfinished(MosqlSession *session)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("could not finish another transaction's intent in namespace \"%s\" in time",
					session->config.ns)));
}

/*
 * While the key holds an intent of tx, try one step that applies it.  The row is
 * compared as a whole: other increments may be applied to it at the same time.
 * The apply, whoever made it, is durable when this returns, so that the record may
 * be dropped.
 */
void
mosql_recover_apply(MosqlSession *session, MosqlTree *tree, MosqlBytes key, MosqlTxid tx,
					MosqlTimestamp ts, const MosqlSnapshotList *list)
{
	MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);

	Assert(ts != 0);
	for (;;)
	{
		MosqlPoint	point;
		MosqlIntent intent;
		MosqlLeafGroup *group;
		MosqlCompare compares[3] = {0};
		MosqlWrite	writes[3];
		MosqlStep	step = {0};
		MosqlStep  *steps[1] = {&step};
		MosqlBytes	meta = MOSQL_META_FIELD;
		MosqlBytes	field_row = mosql_field_name(MOSQL_FIELD_ROW, key);

		memset(&point, 0, sizeof(point));
		mosql_btree_get(tree, &key, 1, &point);
		if (!mosql_intents_find(point.intent, tx, &intent))
		{
			if (!session->stepper.durable || confirm_intents(session, tree, key, point.intent))
			{
				check_applied(session, &point, tx, ts);
				return;
			}
			goto again;
		}

		(void) mosql_btree_group(tree, &key, 1, &group);
		compares[0].kind = MOSQL_COMPARE_EQUAL;
		compares[0].field = MOSQL_META_FIELD;
		compares[0].bytes = mosql_generation_bytes(group->generation);
		compares[1].kind = MOSQL_COMPARE_LISTED;
		compares[1].field = mosql_field_name(MOSQL_FIELD_INTENT, key);
		compares[1].bytes = mosql_txid_bytes(tx);
		compares[2].kind = point.row.data ? MOSQL_COMPARE_ONLY : MOSQL_COMPARE_ABSENT;
		compares[2].field = field_row;
		compares[2].bytes = point.row;
		writes[0] = (MosqlWrite) {MOSQL_WRITE_UNLIST, compares[1].field, compares[1].bytes};
		step.ncompares = 3;
		step.nwrites = 1 + intent_writes(session, &point, field_row, &intent, ts, list, writes + 1);
		step.node = group->leaf;
		step.repeatable = true;
		step.durable = true;
		step.touch = true;
		step.compares = compares;
		step.reads = &meta;
		step.nreads = 1;
		step.writes = writes;
		MOSQL_DEBUG_POINT("help-step");
		mosql_step_run(&session->stepper, steps, 1, NULL);
		if (step.status == MOSQL_STEP_DONE)
			return;
		if (step.status == MOSQL_STEP_FAILED && step.failed == 0)
			mosql_btree_observe(tree, step.node, step.values[0], -1);
again:
		if (!mosql_budget_pause(&budget))
			report_unfinished(session);
	}
}

/* Steps on a whole leaf that were in vain, before rows are taken one by one. */
#define LEAF_ATTEMPTS	3

/*
 * The step that applies all intents of a committed transaction on a leaf as it was
 * read; false if there are none.  Those that a split has frozen move with it, and
 * are met again.
 */
static bool
build_leaf_apply(MosqlSession *session, const MosqlLeaf *leaf, const MosqlLeafGroup *group,
				 MosqlTxid tx, MosqlTimestamp ts, const MosqlSnapshotList *list, MosqlStep *step)
{
	MosqlBytes	txid = mosql_txid_bytes(tx);
	MosqlCompare *compares = palloc0((2 * leaf->n + 1) * sizeof(MosqlCompare));
	MosqlWrite *writes = palloc((3 * leaf->n + 1) * sizeof(MosqlWrite));
	MosqlIntent intent;

	compares[0].kind = MOSQL_COMPARE_EQUAL;
	compares[0].field = MOSQL_META_FIELD;
	compares[0].bytes = mosql_generation_bytes(group->generation);
	*step = (MosqlStep) {.node = group->leaf, .repeatable = true, .durable = true, .touch = true};
	step->compares = compares;
	step->ncompares = 1;
	step->writes = writes;
	for (int i = 0; i < leaf->n; i++)
	{
		const MosqlEntry *entry = &leaf->entries[i];
		MosqlPoint	point = {.leaf = leaf->node, .purged = leaf->purged, .row = entry->row,
		.intent = entry->intent};
		MosqlBytes	field;
		MosqlBytes	field_row;

		if (!mosql_intents_find(entry->intent, tx, &intent) ||
			(group->frozen_from.data != NULL &&
			 mosql_bytes_compare(entry->key, group->frozen_from) >= 0))
			continue;
		field = mosql_field_name(MOSQL_FIELD_INTENT, entry->key);
		field_row = mosql_field_name(MOSQL_FIELD_ROW, entry->key);
		compares[step->ncompares].kind = MOSQL_COMPARE_LISTED;
		compares[step->ncompares].field = field;
		compares[step->ncompares++].bytes = txid;
		compares[step->ncompares].kind = entry->row.data ? MOSQL_COMPARE_ONLY : MOSQL_COMPARE_ABSENT;
		compares[step->ncompares].field = field_row;
		compares[step->ncompares++].bytes = entry->row;
		writes[step->nwrites++] = (MosqlWrite) {MOSQL_WRITE_UNLIST, field, txid};
		step->nwrites += intent_writes(session, &point, field_row, &intent, ts, list,
									   writes + step->nwrites);
	}
	return step->nwrites > 0;
}

/*
 * All of a leaf at once: a transaction of thousands of rows whose owner died after
 * the decision would else block the next one for as many round trips.  If somebody
 * else is at one of the rows the step fails; then the leaf is read again, and after
 * some attempts only the row that is in the way is applied.
 */
void
mosql_recover_apply_leaf(MosqlSession *session, MosqlTree *tree, MosqlBytes key, MosqlTxid tx,
						 MosqlTimestamp ts, const MosqlSnapshotList *list)
{
	MosqlBytes	meta = MOSQL_META_FIELD;

	for (int attempt = 0; attempt < LEAF_ATTEMPTS; attempt++)
	{
		MosqlLeaf  *leaf = mosql_btree_read_leaf(tree, key);
		MosqlLeafGroup *group;
		MosqlStep	step;
		MosqlStep  *steps[1] = {&step};

		(void) mosql_btree_group(tree, &key, 1, &group);
		if (group->leaf != leaf->node)
			continue;
		if (!build_leaf_apply(session, leaf, group, tx, ts, list, &step))
			break;
		step.reads = &meta;
		step.nreads = 1;
		MOSQL_DEBUG_POINT("help-step");
		mosql_step_run(&session->stepper, steps, 1, NULL);
		if (step.status == MOSQL_STEP_DONE)
			return;
		if (step.status == MOSQL_STEP_FAILED && step.failed == 0)
			mosql_btree_observe(tree, step.node, step.values[0], -1);
	}
	mosql_recover_apply(session, tree, key, tx, ts, list);
}

/*
 * The step that takes all intents of an aborted transaction off a leaf, as it was
 * read; false if there are none.  Those that a split has frozen move with it, and
 * are met again.
 */
static bool
build_removal(const MosqlLeaf *leaf, const MosqlLeafGroup *group, MosqlTxid tx, MosqlStep *step)
{
	MosqlBytes	txid = mosql_txid_bytes(tx);
	MosqlCompare *compares = palloc0((leaf->n + 1) * sizeof(MosqlCompare));
	MosqlWrite *writes = palloc((leaf->n + 1) * sizeof(MosqlWrite));
	MosqlIntent intent;

	compares[0].kind = MOSQL_COMPARE_EQUAL;
	compares[0].field = MOSQL_META_FIELD;
	compares[0].bytes = mosql_generation_bytes(group->generation);
	step->node = group->leaf;
	step->repeatable = true;
	step->compares = compares;
	step->ncompares = 1;
	step->writes = writes;
	for (int i = 0; i < leaf->n; i++)
	{
		const MosqlEntry *entry = &leaf->entries[i];
		MosqlBytes	field;

		if (!mosql_intents_find(entry->intent, tx, &intent) ||
			(group->frozen_from.data != NULL &&
			 mosql_bytes_compare(entry->key, group->frozen_from) >= 0))
			continue;
		field = mosql_field_name(MOSQL_FIELD_INTENT, entry->key);
		compares[step->ncompares].kind = MOSQL_COMPARE_LISTED;
		compares[step->ncompares].field = field;
		compares[step->ncompares++].bytes = txid;
		writes[step->nwrites++] = (MosqlWrite) {MOSQL_WRITE_UNLIST, field, txid};
	}
	return step->nwrites > 0;
}

/*
 * All of a leaf at once: a transaction that wrote thousands of rows before it died
 * would else block the next one for as many round trips.  If somebody else removes
 * one of them at the same time the step fails, and the leaf is read again.
 */
void
mosql_recover_remove(MosqlSession *session, MosqlTree *tree, MosqlBytes key, MosqlTxid tx)
{
	MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);

	for (;;)
	{
		MosqlLeaf  *leaf = mosql_btree_read_leaf(tree, key);
		MosqlLeafGroup *group;
		MosqlStep	step = {0};
		MosqlStep  *steps[1] = {&step};
		MosqlBytes	meta = MOSQL_META_FIELD;

		(void) mosql_btree_group(tree, &key, 1, &group);
		if (group->leaf == leaf->node)
		{
			if (!build_removal(leaf, group, tx, &step))
				return;
			step.reads = &meta;
			step.nreads = 1;
			MOSQL_DEBUG_POINT("help-step");
			mosql_step_run(&session->stepper, steps, 1, NULL);
			if (step.status == MOSQL_STEP_DONE)
				return;
			if (step.status == MOSQL_STEP_FAILED && step.failed == 0)
				mosql_btree_observe(tree, step.node, step.values[0], -1);
		}
		if (!mosql_budget_pause(&budget))
			report_unfinished(session);
	}
}

void
mosql_recover_unmark(MosqlSession *session, MosqlTree *tree, MosqlBytes low, MosqlBytes high,
					 MosqlTxid tx)
{
	MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);
	MosqlBytes	at = low;

	for (;;)
	{
		MosqlLeafGroup *group;
		MosqlCompare compare = {0};
		MosqlWrite	write;
		MosqlStep	step = {0};
		MosqlStep  *steps[1] = {&step};
		MosqlBytes	meta = MOSQL_META_FIELD;
		MosqlBytes	next;

		(void) mosql_btree_group(tree, &at, 1, &group);
		if (group->frozen_from.data != NULL)
		{
			/* the new leaf may have a copy already: finish the split, look again */
			MosqlBytes	frozen = mosql_bytes_copy(CurrentMemoryContext, group->frozen_from);

			(void) mosql_btree_group(tree, &frozen, 1, &group);
			(void) mosql_btree_group(tree, &at, 1, &group);
		}
		next = mosql_bytes_copy(CurrentMemoryContext, group->high);
		compare.kind = MOSQL_COMPARE_EQUAL;
		compare.field = MOSQL_META_FIELD;
		compare.bytes = mosql_generation_bytes(group->generation);
		write = (MosqlWrite) {MOSQL_WRITE_REMOVE, MOSQL_MARKS_FIELD, mosql_txid_bytes(tx)};
		step.node = group->leaf;
		step.repeatable = true;
		step.compares = &compare;
		step.ncompares = 1;
		step.reads = &meta;
		step.nreads = 1;
		step.writes = &write;
		step.nwrites = 1;
		mosql_step_run(&session->stepper, steps, 1, NULL);
		if (step.status != MOSQL_STEP_DONE)
		{
			if (step.status == MOSQL_STEP_FAILED)
				mosql_btree_observe(tree, step.node, step.values[0], -1);
			if (!mosql_budget_pause(&budget))
				return;			/* whoever it stops removes it */
			continue;
		}
		if (next.data == NULL || (high.data != NULL && mosql_bytes_compare(next, high) >= 0))
			return;
		at = next;
	}
}

/*
 * Note that a transaction's intent is in the way.  Returns true, with the time
 * it was first met, if this session has met it before.  A commit may be held up
 * by several at once, dead and alive, and must not forget the one because of the
 * other: forgotten is who was not seen for longest, and the dead are seen by
 * every attempt.
 */
bool
mosql_recover_met(MosqlSession *session, MosqlTxid tx, int64 *since_us)
{
	MosqlMet   *oldest = &session->met[0];
	int64		now = mosql_now_us();

	for (int i = 0; i < MOSQL_MET_MAX; i++)
	{
		MosqlMet   *met = &session->met[i];

		if (mosql_txid_equal(met->tx, tx))
		{
			*since_us = met->since_us;
			met->seen_us = now;
			return true;
		}
		if (met->seen_us < oldest->seen_us)
			oldest = met;
	}
	*oldest = (MosqlMet) {tx, now, now};
	*since_us = now;
	return false;
}

/* Is the blocker still there? */
static bool
still_blocks(MosqlSession *session, const MosqlBlocker *blocker)
{
	MosqlLeaf  *leaf;
	MosqlPoint	point;
	MosqlIntent intent;

	if (!blocker->mark)
	{
		memset(&point, 0, sizeof(point));
		mosql_btree_get(blocker->tree, &blocker->key, 1, &point);
		return mosql_intents_find(point.intent, blocker->tx, &intent);
	}
	leaf = mosql_btree_read_leaf(blocker->tree, blocker->key);
	for (size_t at = 0; at + MOSQL_TXID_BYTES <= leaf->range_marks.len; at += MOSQL_TXID_BYTES)
		if (mosql_txid_equal(mosql_txid_get(leaf->range_marks.data + at), blocker->tx))
			return true;
	return false;
}

static void
clear_blocker(MosqlSession *session, const MosqlBlocker *blocker, const MosqlRecord *record,
			  const MosqlSnapshotList *list)
{
	if (blocker->mark)
	{
		StringInfoData high;

		initStringInfo(&high);
		appendBinaryStringInfo(&high, blocker->key.data, blocker->key.len);
		appendStringInfoChar(&high, '\0');
		mosql_recover_unmark(session, blocker->tree, blocker->key, mosql_bytes_of(&high),
							 blocker->tx);
	}
	else if (record->state == MOSQL_RECORD_COMMITTED)
		mosql_recover_apply_leaf(session, blocker->tree, blocker->key, blocker->tx, record->ts,
								 list);
	else
		mosql_recover_remove(session, blocker->tree, blocker->key, blocker->tx);
}

bool
mosql_recover_blocker(MosqlSession *session, const MosqlBlocker *blocker, int64 since_us)
{
	MosqlRecord record;
	MosqlSnapshotList list;

	mosql_clock_status(&session->stepper, &blocker->tx, 1, &record, &list);
	MOSQL_DEBUG_POINT("blocker-asked");
	if (record.state == MOSQL_RECORD_NONE)
	{
		if (mosql_now_us() - since_us < (int64) mosql_txn_intent_timeout_ms * 1000)
			return false;
		if (!still_blocks(session, blocker))
			return true;
		mosql_clock_abort(&session->stepper, blocker->tx, &record, &list);
		MOSQL_DEBUG_POINT("blocker-aborted");
	}
	clear_blocker(session, blocker, &record, &list);
	mosql_stats.helps++;
	return true;
}
