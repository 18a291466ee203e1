/*
 * recover.c: finishing, or undoing, what others left in the way.
 *
 * Layer: txn.  A committed transaction whose owner is slow or dead is applied
 * by whoever meets its intents, from the intents themselves.  An undecided one
 * is given intent_timeout from the moment it was first met, and as much after each sign of life
 * (sign.c); then "aborted" is written into its record, if nothing is there yet, and the intent removed.
 * Every helper's step compares the intent again, so that any number of helpers
 * and the owner may work on the same key; only the owner drops the record.
 */
#include "postgres.h"

#include <inttypes.h>

#include "code/claim.h"
#include "txn/lock_int.h"
#include "txn/recover.h"

int			mosql_txn_intent_timeout_ms = 500;

bool
mosql_intents_find(MosqlBytes field, MosqlTxid tx, MosqlIntent *intent)
{
	while (mosql_intent_next(&field, intent) == 1)
		if (mosql_txid_equal(intent->tx, tx))
			return true;
	return false;
}

/* ---- steps on a leaf ---- */

/* How a transaction ended. */
typedef struct Ended
{
	MosqlTxid	tx;
	MosqlTimestamp ts;			/* committed then; 0: aborted */
	const MosqlSnapshotList *list;	/* only if it is committed */
} Ended;

/*
 * A step on the leaf as it was looked up: its first compare is the leaf's generation
 * (rule 2).  There is room for so many more compares, and writes.
 */
static void
begin_step(MosqlStep *step, const MosqlLeafGroup *group, int ncompares, int nwrites)
{
	*step = (MosqlStep) {.node = group->leaf, .repeatable = true};
	step->compares = palloc((1 + ncompares) * sizeof(MosqlCompare));
	step->writes = palloc((nwrites + 1) * sizeof(MosqlWrite));
	mosql_step_expect(step, MOSQL_COMPARE_EQUAL, MOSQL_META_FIELD, 0,
					  mosql_generation_bytes(group->generation));
}

/*
 * True if it was made.  If the leaf has another generation by now, the tree learns of
 * it; in any case the caller is to look again.
 */
static bool
run_step(MosqlSession *session, MosqlTree *tree, MosqlStep *step)
{
	MosqlBytes	meta = MOSQL_META_FIELD;
	MosqlStep  *steps[1] = {step};

	step->reads = &meta;
	step->nreads = 1;
	mosql_step_run(&session->stepper, steps, 1, NULL);
	step->reads = NULL;
	if (step->status == MOSQL_STEP_FAILED && step->failed == 0)
		mosql_btree_observe(tree, step->node, step->values[0], -1);
	return step->status == MOSQL_STEP_DONE;
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
 * What goes with an intent: after a commit the locks of that transaction, too, whose owner
 * has an earlier number of the same session (rule 32).  Of a later one there are none but
 * with higher numbers.
 */
static MosqlBytes
ids_to_end(MosqlBytes field, const Ended *ended)
{
	StringInfoData ids;
	MosqlClaim	claim;

	mosql_string_init(&ids, 2 * MOSQL_TXID_BYTES);
	mosql_txid_put(&ids, ended->tx);
	while (ended->ts != 0 && mosql_claim_next(&field, &claim))
		if (claim.owner.session == ended->tx.session && claim.owner.n < ended->tx.n)
			mosql_txid_put(&ids, claim.owner);
	return mosql_bytes_of(&ids);
}

/*
 * Add what ends one intent, at most 2 compares and 3 writes: it is still there
 * (rule 3), and goes; if its transaction committed, the row is as it was read, as a
 * whole, since other increments may be applied to it at the same time, and gets the
 * new version.
 */
static void
add_intent(MosqlSession *session, MosqlStep *step, MosqlBytes key, const MosqlPoint *point,
		   const MosqlIntent *intent, const Ended *ended)
{
	MosqlBytes	field = mosql_field_name(MOSQL_FIELD_INTENT, key);
	MosqlBytes	txid = mosql_txid_bytes(ended->tx);
	MosqlBytes	field_row;

	mosql_step_expect(step, MOSQL_COMPARE_LISTED, field, 0, txid);
	step->writes[step->nwrites++] = (MosqlWrite) {MOSQL_WRITE_UNLIST, field,
	ids_to_end(point->intent, ended)};
	if (ended->ts == 0)
		return;
	field_row = mosql_field_name(MOSQL_FIELD_ROW, key);
	mosql_step_expect_same(step, field_row, point->row);
	step->nwrites += intent_writes(session, point, field_row, intent, ended->ts, ended->list,
								   step->writes + step->nwrites);
}

/* ---- leaves that are loading ---- */

/*
 * The leaf is loading, as it was read: for this transaction it is settled, in one step, which is durable if that is so (rule 48).
 * False: the step failed, and the leaf is to be looked at again.
 */
static bool
settle_leaf(MosqlSession *session, MosqlTree *tree, uint64 leaf, uint64 generation, const Ended *ended)
{
	MosqlStep  *step = mosql_btree_settle_step(tree, leaf, generation, ended->tx, ended->ts,
											   ended->ts != 0 && !mosql_row_may_purge(ended->ts, ended->list));

	if (step == NULL)
		return false;
	step->durable = step->touch = ended->ts != 0;
	MOSQL_DEBUG_POINT("help-step");
	if (!run_step(session, tree, step))
		return false;
	mosql_btree_remember(tree, step);
	return true;
}

/* What the leaf has in the intents field of a key: not what stands for its block. */
static MosqlBytes
stored_intents(const MosqlPoint *point)
{
	return point->loader.session != 0 ? MOSQL_ABSENT : point->intent;
}

/* ---- one key ---- */

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
			 errdetail("It belonged to Redis key \"%s:{%016" PRIx64 "}\".",
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
	MosqlStep	step;

	(void) mosql_btree_group_beside(tree, &key, NULL, 1, &group, NULL);
	begin_step(&step, group, 1, 0);
	mosql_step_expect_same(&step, mosql_field_name(MOSQL_FIELD_INTENT, key), intents);
	step.durable = step.touch = true;
	return run_step(session, tree, &step);
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
 * While the key holds an intent of tx, try one step that applies it.  The apply,
 * whoever made it, is durable when this returns, so that the record may be dropped.
 */
void
mosql_recover_apply(MosqlSession *session, MosqlTree *tree, MosqlBytes key, MosqlTxid tx,
					MosqlTimestamp ts, const MosqlSnapshotList *list)
{
	MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);
	const Ended ended = {tx, ts, list};

	Assert(ts != 0);
	do
	{
		MosqlPoint	point;
		MosqlIntent intent;

		memset(&point, 0, sizeof(point));
		mosql_btree_get(tree, &key, 1, &point);
		if (mosql_txid_equal(point.loader, tx))
		{
			MosqlLeafGroup *group;

			(void) mosql_btree_group_beside(tree, &key, NULL, 1, &group, NULL);
			if (settle_leaf(session, tree, group->leaf, group->generation, &ended))
				return;
		}
		else if (mosql_intents_find(point.intent, tx, &intent))
		{
			MosqlLeafGroup *group;
			MosqlStep	step;

			(void) mosql_btree_group_beside(tree, &key, NULL, 1, &group, NULL);
			begin_step(&step, group, 2, 3);
			add_intent(session, &step, key, &point, &intent, &ended);
			step.durable = step.touch = true;
			MOSQL_DEBUG_POINT("help-step");
			if (run_step(session, tree, &step))
				return;
		}
		else if (!session->stepper.durable || confirm_intents(session, tree, key, stored_intents(&point)))
		{
			check_applied(session, &point, tx, ts);
			return;
		}
	} while (mosql_budget_pause(&budget));
	report_unfinished(session);
}

/* ---- a whole leaf ---- */

/*
 * Steps on a whole leaf, because a transaction of thousands of rows whose owner died
 * would else block the next one for as many round trips.  If somebody else is at one
 * of the rows the step fails, and the leaf is read again.
 */
typedef enum LeafOutcome
{
	LEAF_ENDED,					/* it had intents, and they are ended */
	LEAF_FREE,					/* there was none */
	LEAF_AGAIN					/* the step failed: look again */
} LeafOutcome;

/*
 * The step that ends all intents of a transaction between two keys, on a leaf as it was
 * read; false if there are none.  *end (absent: none) comes down if they are too many.
 */
static bool
build_leaf_step(MosqlSession *session, const MosqlLeaf *leaf, const MosqlLeafGroup *group,
				MosqlBytes from, MosqlBytes *end, const Ended *ended, MosqlStep *step)
{
	int			n = 0;

	begin_step(step, group, 2 * Min(leaf->n, MOSQL_STEP_MAX_ITEMS), 3 * Min(leaf->n, MOSQL_STEP_MAX_ITEMS));
	for (int i = 0; i < leaf->n; i++)
	{
		const MosqlEntry *entry = &leaf->entries[i];
		MosqlPoint	point = {.leaf = leaf->node, .purged = leaf->purged, .row = entry->row,
		.intent = entry->intent};
		MosqlIntent intent;

		if (end->data != NULL && mosql_bytes_compare(entry->key, *end) >= 0)
			break;
		if (mosql_bytes_compare(entry->key, from) < 0 ||
			!mosql_intents_find(entry->intent, ended->tx, &intent))
			continue;
		if (n++ == MOSQL_STEP_MAX_ITEMS)
		{
			*end = entry->key;
			break;
		}
		add_intent(session, step, entry->key, &point, &intent, ended);
	}
	return step->nwrites > 0;
}

/*
 * One attempt at the leaf that covers key, from the key on.  Applies are durable when this
 * returns.  *end: up to where nothing of the transaction is left, unless LEAF_AGAIN.
 */
static LeafOutcome
end_leaf(MosqlSession *session, MosqlTree *tree, MosqlBytes key, const Ended *ended,
		 MosqlBytes *end)
{
	MosqlLeaf  *leaf = mosql_btree_read_leaf(tree, key);
	MosqlLeafGroup *group;
	MosqlStep	step;

	(void) mosql_btree_group_beside(tree, &key, NULL, 1, &group, NULL);
	if (group->leaf != leaf->node)
		return LEAF_AGAIN;
	/* what a split has frozen moves with it, and is met again */
	*end = mosql_bytes_copy(CurrentMemoryContext,
							group->frozen_from.data != NULL ? group->frozen_from : leaf->meta.high);
	if (leaf->meta.state == MOSQL_NODE_LOADING)
	{
		if (!mosql_txid_equal(leaf->meta.loaded.loader, ended->tx))
			return LEAF_FREE;
		return settle_leaf(session, tree, leaf->node, leaf->meta.generation, ended) ? LEAF_ENDED : LEAF_AGAIN;
	}
	if (!build_leaf_step(session, leaf, group, key, end, ended, &step))
		return LEAF_FREE;
	step.durable = step.touch = ended->ts != 0;
	MOSQL_DEBUG_POINT("help-step");
	return run_step(session, tree, &step) ? LEAF_ENDED : LEAF_AGAIN;
}

/* Attempts that were in vain, before only the row that is in the way is applied. */
#define LEAF_ATTEMPTS	3

/* The least key above this one. */
static MosqlBytes
key_after(MosqlBytes key)
{
	char	   *data = palloc(key.len + 1);

	memcpy(data, key.data, key.len);
	data[key.len] = '\0';
	return mosql_bytes(data, key.len + 1);
}

MosqlBytes
mosql_recover_apply_leaf(MosqlSession *session, MosqlTree *tree, MosqlBytes key, MosqlTxid tx,
						 MosqlTimestamp ts, const MosqlSnapshotList *list)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext cxt = AllocSetContextCreate(caller, "mosql apply leaf", ALLOCSET_DEFAULT_SIZES);
	const Ended ended = {tx, ts, list};
	LeafOutcome outcome = LEAF_AGAIN;
	MosqlBytes	end;

	Assert(ts != 0);
	MemoryContextSwitchTo(cxt);
	for (int attempt = 0; attempt < LEAF_ATTEMPTS && outcome == LEAF_AGAIN; attempt++)
	{
		MemoryContextReset(cxt);
		outcome = end_leaf(session, tree, key, &ended, &end);
	}
	if (outcome != LEAF_ENDED)
	{
		mosql_recover_apply(session, tree, key, tx, ts, list);
		end = key_after(key);
	}
	MemoryContextSwitchTo(caller);
	end = mosql_bytes_copy(caller, end);
	MemoryContextDelete(cxt);
	return end;
}

/* ---- keys that a transaction has written ---- */

/* What the leaf holds of a key.  *at: where the last one was found. */
static MosqlPoint
point_of(const MosqlLeaf *leaf, MosqlBytes key, int *at)
{
	MosqlPoint	point = {.leaf = leaf->node, .purged = leaf->purged,.loader = leaf->meta.loaded.loader};

	while (*at < leaf->n && mosql_bytes_compare(leaf->entries[*at].key, key) < 0)
		(*at)++;
	if (*at < leaf->n && mosql_bytes_equal(leaf->entries[*at].key, key))
	{
		point.row = leaf->entries[*at].row;
		point.intent = leaf->entries[*at].intent;
	}
	return point;
}

/*
 * One attempt at those of the keys that are on the first one's leaf: how many, or 0 if
 * they are to be tried again.  Where copies are waited for, the keys without an intent are
 * compared as well: that they were applied must be so on the server that is waited for.
 */
static int
end_keys(MosqlSession *session, MosqlTree *tree, const MosqlBytes *keys, int n,
		 const Ended *ended)
{
	MosqlLeaf  *leaf = mosql_btree_read_leaf(tree, keys[0]);
	MosqlLeafGroup *group;
	MosqlPoint *applied;
	MosqlStep	step;
	int			napplied = 0;
	int			at = 0;

	(void) mosql_btree_group_beside(tree, keys, NULL, Min(n, MOSQL_STEP_MAX_ITEMS), &group, NULL);
	if (group->leaf != leaf->node || group->generation != leaf->meta.generation)
		return 0;
	n = group->n;
	if (mosql_txid_equal(leaf->meta.loaded.loader, ended->tx))
		return settle_leaf(session, tree, leaf->node, leaf->meta.generation, ended) ? n : 0;
	applied = palloc(n * sizeof(MosqlPoint));
	begin_step(&step, group, 2 * n, 3 * n);
	for (int i = 0; i < n; i++)
	{
		MosqlPoint	point = point_of(leaf, keys[i], &at);
		MosqlIntent intent;

		if (mosql_intents_find(point.intent, ended->tx, &intent))
		{
			add_intent(session, &step, keys[i], &point, &intent, ended);
			continue;
		}
		if (session->stepper.durable)
			mosql_step_expect_same(&step, mosql_field_name(MOSQL_FIELD_INTENT, keys[i]), stored_intents(&point));
		applied[napplied++] = point;
	}
	step.durable = step.touch = true;
	MOSQL_DEBUG_POINT("help-step");
	if ((step.nwrites > 0 || session->stepper.durable) && !run_step(session, tree, &step))
		return 0;
	for (int i = 0; i < napplied; i++)
		check_applied(session, &applied[i], ended->tx, ended->ts);
	return n;
}

int
mosql_recover_apply_keys(MosqlSession *session, MosqlTree *tree, const MosqlBytes *keys, int n,
						 MosqlTxid tx, MosqlTimestamp ts, const MosqlSnapshotList *list)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql apply keys",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	const Ended ended = {tx, ts, list};
	int			done = 0;

	Assert(n > 0 && ts != 0);
	for (int attempt = 0; attempt < LEAF_ATTEMPTS && done == 0; attempt++)
	{
		MemoryContextReset(cxt);
		done = end_keys(session, tree, keys, n, &ended);
	}
	if (done == 0)
	{
		mosql_recover_apply(session, tree, keys[0], tx, ts, list);
		done = 1;
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return done;
}

/*
 * All that a transaction has on the rest of the key's leaf is ended, whoever does it.  A leaf may be large, and may have to be read
 * often: what was read is freed.  Returns up to where nothing is left.
 */
static MosqlBytes
end_rest(MosqlSession *session, MosqlTree *tree, MosqlBytes key, const Ended *ended)
{
	MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext cxt = AllocSetContextCreate(caller, "mosql remove", ALLOCSET_DEFAULT_SIZES);
	MosqlBytes	end;

	MemoryContextSwitchTo(cxt);
	while (end_leaf(session, tree, key, ended, &end) == LEAF_AGAIN)
	{
		if (!mosql_budget_pause(&budget))
			report_unfinished(session);
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(caller);
	end = mosql_bytes_copy(caller, end);
	MemoryContextDelete(cxt);
	return end;
}

MosqlBytes
mosql_recover_remove(MosqlSession *session, MosqlTree *tree, MosqlBytes key, MosqlTxid tx)
{
	const Ended ended = {.tx = tx};

	return end_rest(session, tree, key, &ended);
}

/* ---- marks ---- */

void
mosql_recover_unmark(MosqlSession *session, MosqlTree *tree, MosqlBytes low, MosqlBytes high,
					 MosqlTxid tx)
{
	MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);
	MosqlBytes	at = low;

	for (;;)
	{
		MosqlLeafGroup *group;
		MosqlStep	step;
		MosqlBytes	next;

		(void) mosql_btree_group_beside(tree, &at, NULL, 1, &group, NULL);
		if (group->frozen_from.data != NULL)
		{
			/* the new leaf may have a copy already: finish the split, look again */
			mosql_btree_finish_split(tree, group->leaf);
			(void) mosql_btree_group_beside(tree, &at, NULL, 1, &group, NULL);
		}
		next = mosql_bytes_copy(CurrentMemoryContext, group->high);
		begin_step(&step, group, 0, 1);
		step.writes[step.nwrites++] = (MosqlWrite)
		{
			MOSQL_WRITE_REMOVE, MOSQL_MARKS_FIELD, mosql_txid_bytes(tx)
		};
		if (!run_step(session, tree, &step))
		{
			if (!mosql_budget_pause(&budget))
				return;			/* whoever it stops removes it */
			continue;
		}
		if (next.data == NULL || (high.data != NULL && mosql_bytes_compare(next, high) >= 0))
			return;
		at = next;
	}
}

/* ---- whole trees ---- */

/*
 * Touches each leaf, with its generation compared, and waits for the copies.  So each
 * leaf is known as a server has it that was not replaced before this was called (or it
 * would have no copies any more): all that was committed by then is on these leaves, and
 * whoever reads from now on finds it, there or on what they were split into since.
 */
void
mosql_recover_confirm(MosqlSession *session, MosqlTree *tree)
{
	MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);
	MosqlBytes	at = mosql_bytes("", 0);

	while (at.data != NULL)
	{
		MosqlLeafGroup *group;
		MosqlStep	step;
		MosqlBytes	next;

		CHECK_FOR_INTERRUPTS();
		(void) mosql_btree_group_beside(tree, &at, NULL, 1, &group, NULL);
		next = mosql_bytes_copy(CurrentMemoryContext, group->high);
		begin_step(&step, group, 0, 0);
		step.durable = step.touch = true;
		if (run_step(session, tree, &step))
		{
			at = next;
			budget = mosql_budget_start(session->config.redis.command_timeout_ms);
		}
		else if (!mosql_budget_pause(&budget))
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("leaves in namespace \"%s\" changed faster than they could be confirmed",
							session->config.ns)));
	}
}

/* ---- who is in the way ---- */

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
	*oldest = (MosqlMet) {.tx = tx,.since_us = now,.seen_us = now};
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
		return mosql_txid_equal(point.loader, blocker->tx) || mosql_intents_find(point.intent, blocker->tx, &intent);
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
	else if (record->state == MOSQL_RECORD_COMMITTED && blocker->loading)
	{
		const Ended ended = {blocker->tx, record->ts, list};

		(void) end_rest(session, blocker->tree, blocker->key, &ended);
	}
	else if (record->state == MOSQL_RECORD_COMMITTED)
		mosql_recover_apply_leaf(session, blocker->tree, blocker->key, blocker->tx, record->ts,
								 list);
	else
		mosql_recover_remove(session, blocker->tree, blocker->key, blocker->tx);
}

typedef struct Clearing
{
	MosqlSession *session;
	const MosqlBlocker *blocker;
	int64		since_us;
	bool		cleared;
} Clearing;

/* What is known of an attempt that was met; NULL: forgotten. */
static MosqlMet *
find_met(MosqlSession *session, MosqlTxid tx)
{
	for (int i = 0; i < MOSQL_MET_MAX; i++)
		if (mosql_txid_equal(session->met[i].tx, tx))
			return &session->met[i];
	return NULL;
}

/* The attempt's time begins anew. */
static void
give_time(MosqlSession *session, MosqlTxid tx)
{
	MosqlMet   *met = find_met(session, tx);

	if (met != NULL)
		met->since_us = mosql_now_us();
}

/* Was there a new sign since the last look?  Then the attempt's time begins anew. */
static bool
gave_sign(MosqlSession *session, MosqlTxid tx)
{
	uint64		sign = mosql_clock_last_sign(&session->stepper, tx);
	MosqlMet   *met = sign > 0 ? find_met(session, tx) : NULL;

	if (met == NULL || met->sign == sign)
		return false;
	met->sign = sign;
	give_time(session, tx);
	return true;
}

/* Does the session of an attempt live?  Who has not come for so long is looked for at the clock. */
static bool
lives(MosqlSession *session, MosqlTxid tx)
{
	(void) mosql_clock_expire(&session->stepper, 16);
	return !mosql_clock_is_dead(mosql_lock_sessions(session), tx.session);
}

/* Is it a leaf that stands for locks of a transaction? */
static bool
stands_for_locks(const Clearing *work)
{
	MosqlPoint	point = {0};

	if (!work->blocker->loading)
		return false;
	mosql_btree_get(work->blocker->tree, &work->blocker->key, 1, &point);
	return mosql_txid_equal(point.loader, work->blocker->tx) && point.locks;
}

/* ... of a session that lives, from which no time takes them (rule 32)?  Then the attempt's time begins anew. */
static bool
stands_for_living(const Clearing *work)
{
	if (!stands_for_locks(work) || !lives(work->session, work->blocker->tx))
		return false;
	give_time(work->session, work->blocker->tx);
	return true;
}

static bool
is_over(const Clearing *work)
{
	return mosql_now_us() - work->since_us >= (int64) mosql_txn_intent_timeout_ms * 1000;
}

/* Of these nobody waits for anything: an earlier attempt of one's own nobody will decide, nor one of the dead. */
static bool
is_own_or_dead(const Clearing *work)
{
	return work->blocker->tx.session == work->session->sid || work->since_us == 0;
}

/* An undecided attempt may be aborted. */
static bool
has_had_its_time(const Clearing *work)
{
	if (is_own_or_dead(work))
		return true;
	return is_over(work) && !gave_sign(work->session, work->blocker->tx) && !stands_for_living(work);
}

/*
 * Is what an aborted attempt has there for its owner to take back?  A leaf that stands for locks is, as long as his session lives:
 * he puts them back (rule 56).  Somebody else has perhaps aborted the attempt where it has no locks.
 */
static bool
is_left_to_owner(const Clearing *work)
{
	if (is_own_or_dead(work))
		return false;
	return is_over(work) ? stands_for_living(work) : stands_for_locks(work);
}

/* The record that was found may be forgotten when a connection breaks: it is asked for anew. */
static void
ask_and_clear(void *arg)
{
	Clearing   *work = arg;
	MosqlSession *session = work->session;
	const MosqlBlocker *blocker = work->blocker;
	MosqlRecord record;
	MosqlSnapshotList list;

	mosql_clock_status(&session->stepper, &blocker->tx, 1, &record, &list);
	MOSQL_DEBUG_POINT("blocker-asked");
	if (record.state == MOSQL_RECORD_NONE)
	{
		if (!has_had_its_time(work))
			return;
		if (!still_blocks(session, blocker))
		{
			work->cleared = true;
			return;
		}
		mosql_clock_abort(&session->stepper, blocker->tx, &record, &list);
		MOSQL_DEBUG_POINT("blocker-aborted");
	}
	else if (record.state == MOSQL_RECORD_ABORTED && is_left_to_owner(work))
		return;
	clear_blocker(session, blocker, &record, &list);
	mosql_stats.helps++;
	work->cleared = true;
}

bool
mosql_recover_blocker(MosqlSession *session, const MosqlBlocker *blocker, int64 since_us)
{
	Clearing	work = {session, blocker, since_us};

	return mosql_session_try_unbroken(session, ask_and_clear, &work) && work.cleared;
}

/* The longest pause between two looks at a blocker: 100 us, doubled so many times. */
#define WAIT_MAX_DOUBLINGS	6

bool
mosql_recover_wait(MosqlSession *session, const MosqlBlocker *blocker, const MosqlBudget *budget)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql wait",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	bool		in_time = true;
	bool		over = false;

	for (int n = 0; in_time && !over; n++)
	{
		MosqlBudget pause = *budget;
		int64		since_us;

		MemoryContextReset(cxt);
		pause.attempts = Min(n + 1, WAIT_MAX_DOUBLINGS);
		in_time = mosql_budget_pause(&pause);
		over = in_time && (!still_blocks(session, blocker) ||
						   (mosql_recover_met(session, blocker->tx, &since_us) &&
							mosql_recover_blocker(session, blocker, since_us)));
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return over;
}
