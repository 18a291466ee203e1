/*
 * decide.c: the one step in which a transaction commits.
 *
 * Layer: txn.  All intents and marks are in place.  The clock refuses, or
 * draws the timestamp and writes the record: from then on every reader counts
 * the intents, whoever applies them.
 *
 * Race -- the reply is lost: whether the record was written is settled by
 * writing "aborted" if there is none (rule 6); asking alone would leave a
 * decide that is still on its way to commit after we said no.
 *
 * Race -- the record is written, and what comes with the answer is damaged (somebody
 * else writes under the clock's keys): that is no failure of the commit, but it cannot
 * be applied either; it counts as unknown, and is finished once the clock is mended.
 *
 * Where commits wait for copies, a decision that too few servers have counts as
 * lost: it is settled, and the answer waits for the copies again.
 *
 * The exchange cannot be cancelled (interrupts are held), and is bounded by
 * the command timeout, twice.
 */
#include "postgres.h"

#include "code/part.h"
#include "txn/txn_int.h"

/* Where the intents and marks are, and what is garbage, for whoever must clean up after us. */
static MosqlBytes
encode_parts(MosqlCommit *commit)
{
	StringInfoData out;

	initStringInfo(&out);
	for (int p = 0; p < commit->nparts; p++)
	{
		MosqlParticipant *part = &commit->parts[p];
		uint64		root = mosql_btree_root(part->tree);
		MosqlItem  *first = NULL,
				   *last = NULL;
		int			n = 0;

		for (int i = 0; i < part->n; i++)
			if (mosql_item_leaves_intent(&part->items[i]))
			{
				first = first ? first : &part->items[i];
				last = &part->items[i];
				n++;
			}
		if (n == 0)
			continue;
		if (n > MOSQL_RECORD_MAX_KEYS)
		{
			mosql_part_put_head(&out, MOSQL_PART_RANGE, root, 2);
			mosql_part_put_key(&out, first->key);
			mosql_part_put_key(&out, last->key);
			continue;
		}
		mosql_part_put_head(&out, MOSQL_PART_KEYS, root, n);
		for (int i = 0; i < part->n; i++)
			if (mosql_item_leaves_intent(&part->items[i]))
				mosql_part_put_key(&out, part->items[i].key);
	}
	for (int m = 0; m < commit->nmarks; m++)
	{
		mosql_part_put_head(&out, MOSQL_PART_MARKS, mosql_btree_root(commit->marks[m].tree), 1);
		mosql_part_put_key(&out, commit->marks[m].low);
		mosql_part_put_high(&out, commit->marks[m].high);
	}
	for (MosqlTreeNote *note = commit->txn->trees; note != NULL; note = note->next)
		if (note->drop)
			mosql_part_put_head(&out, MOSQL_PART_TREE, note->root, 0);
	return mosql_bytes_of(&out);
}

/*
 * Does a row that is written keep many versions, or is it so large that many would be too much?  By a
 * bounded list of snapshots it might keep ever more: those from the gap are never found out to be
 * needed by nobody.
 */
static bool
writes_long_row(const MosqlCommit *commit)
{
	for (int p = 0; p < commit->nparts; p++)
		for (int i = 0; i < commit->parts[p].n; i++)
			if (commit->parts[p].items[i].kind == MOSQL_ITEM_WRITE &&
				(commit->parts[p].items[i].old_row.len > MOSQL_ROW_LONG_BYTES ||
				 mosql_row_is_long(commit->parts[p].items[i].old_row, MOSQL_ROW_LONG_VERSIONS)))
				return true;
	return false;
}

static void
report_unknown(MosqlCommit *commit, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN),
			 errmsg("the outcome of transaction " UINT64_FORMAT "." UINT64_FORMAT " in namespace \"%s\" is not known",
					commit->tx.session, commit->tx.n, commit->session->config.ns),
			 errdetail("%s", why),
			 errhint("There it is committed as a whole or not at all: mosql_fdw_transaction_status(server, '" UINT64_FORMAT "." UINT64_FORMAT "') tells.",
					 commit->tx.session, commit->tx.n)));
}

/* The reply of decide was lost. */
static MosqlDecision
settle(MosqlCommit *commit)
{
	MosqlRecord record = {MOSQL_RECORD_UNKNOWN};
	MemoryContext cxt = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount;
	MosqlBudget budget = mosql_budget_start(commit->session->config.redis.command_timeout_ms);
	volatile bool asked;

	MOSQL_DEBUG_POINT("before-settle");

	/* replicas that are missing now may be back in a moment: ask again */
	do
	{
		asked = false;
		PG_TRY();
		{
			mosql_clock_settle(&commit->session->stepper, commit->tx, &record, &commit->list, &budget);
			asked = true;
		}
		PG_CATCH();
		{
			MemoryContextSwitchTo(cxt);
			FlushErrorState();
			InterruptHoldoffCount = held;
			record.state = MOSQL_RECORD_UNKNOWN;
		}
		PG_END_TRY();
	} while (!asked && mosql_budget_pause(&budget));

	switch (record.state)
	{
		case MOSQL_RECORD_COMMITTED:
			commit->ts = record.ts;
			return MOSQL_DECIDED;
		case MOSQL_RECORD_NONE:
		case MOSQL_RECORD_ABORTED:
			return MOSQL_REFUSED_ABORTED;
		case MOSQL_RECORD_UNKNOWN:
			break;
	}
	return MOSQL_DECISION_LOST;
}

/*
 * Was the decision perhaps made, although there is an error?  The wait for copies behind it
 * is a command of its own, which may be refused, or unknown, where the decision was not.
 */
static bool
may_have_run(const MosqlSession *session, int sqlstate)
{
	return session->stepper.durable && (sqlstate == ERRCODE_INSUFFICIENT_PRIVILEGE ||
										sqlstate == ERRCODE_FEATURE_NOT_SUPPORTED);
}

/* At the clock alone: all is in place. */
static MosqlDecision
ask_clock(MosqlCommit *commit, const MosqlDecideArgs *args, MosqlBudget *budget)
{
	MosqlSession *session = commit->session;

	return mosql_clock_decide(&session->stepper, args, &commit->ts, &commit->list, &session->schema, budget);
}

MosqlDecision
mosql_txn_decide(MosqlCommit *commit)
{
	Assert(commit->state == MOSQL_COMMIT_PREPARED && mosql_commit_is_prepared(commit));
	if (commit->one_step != NULL)
		return mosql_txn_decide_at_once(commit, encode_parts(commit));
	return mosql_txn_decide_by(commit, encode_parts(commit), ask_clock);
}

MosqlDecision
mosql_txn_decide_by(MosqlCommit *commit, MosqlBytes parts, MosqlAsk ask)
{
	MosqlSession *session = commit->session;
	MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);
	MosqlDecideArgs args = {
		.tx = commit->tx,
		.schema = commit->txn->schema,
		.since = commit->txn->first_schema,
		.schema_change = commit->txn->changes_schema,
		.all_snapshots = writes_long_row(commit),
		.parts = parts,
		.lease_ms = mosql_txn_lease_ms,
		.ndrops = session->ndrops,
		.drops = session->drops
	};
	MemoryContext caller = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount + 1;
	MosqlMoment before = mosql_session_moment(session);
	ErrorData  *volatile doubt = NULL;
	volatile MosqlDecision decision = MOSQL_DECISION_LOST;

	Assert(commit->pending != NULL && commit->pending->outstanding == 0 &&
		   mosql_txid_equal(commit->pending->tx, commit->tx));

	/*
	 * Interrupts stay held if this throws: the error's own handling resets the
	 * count.
	 */
	HOLD_INTERRUPTS();
	PG_TRY();
	{
		decision = ask(commit, &args, &budget);
	}
	PG_CATCH();
	{
		bool		damaged = commit->ts != 0 && geterrcode() == ERRCODE_DATA_CORRUPTED;

		if (!damaged && !may_have_run(session, geterrcode()))
			PG_RE_THROW();
		MemoryContextSwitchTo(caller);
		doubt = CopyErrorData();
		FlushErrorState();
		InterruptHoldoffCount = held;
		if (damaged)
			report_unknown(commit, doubt->message);
	}
	PG_END_TRY();
	if (decision == MOSQL_DECISION_LOST)
		decision = settle(commit);
	else if (decision == MOSQL_DECIDED || commit->one_step == NULL)	/* else nothing was done */
	{
		session->ndrops = 0;
		session->heard = before;
		mosql_session_note_contact(session);
	}
	RESUME_INTERRUPTS();
	if (doubt != NULL && decision == MOSQL_REFUSED_ABORTED)
		ReThrowError(doubt);
	if (decision == MOSQL_DECISION_LOST)
		report_unknown(commit, "The connection broke, or copies were missing, while it was being decided, and the clock could not be asked in time.");
	return decision;
}

/*
 * The snapshot is drawn for what comes with it: whether the lease is alive, which it
 * extends, and the schema version.
 */
MosqlDecision
mosql_txn_foresee(MosqlCommit *commit)
{
	MosqlSession *session = commit->session;
	MosqlRecord record;
	MosqlSnapshotList list;
	MosqlTimestamp S;
	bool		alive;

	session->drawing = ++session->last_snapid;
	alive = mosql_clock_snapshot(&session->stepper, commit->tx.session, session->drawing,
								 mosql_txn_lease_ms, &S, &session->schema);
	mosql_session_forget_drawing(session);
	if (!alive)
		return MOSQL_REFUSED_LEASE;
	mosql_session_note_contact(session);
	mosql_clock_status(&session->stepper, &commit->tx, 1, &record, &list);
	if (record.state == MOSQL_RECORD_ABORTED)
		return MOSQL_REFUSED_ABORTED;
	return session->schema == commit->txn->schema ? MOSQL_DECIDED : MOSQL_REFUSED_SCHEMA;
}
