/*
 * check.c: rows and intents of a leaf, examined for mosql_fdw_check().
 *
 * Layer: txn.  The tree checks its own structure; this checks what the tree
 * does not understand: that histories, intents and marks decode, that versions
 * descend, and that no intent is stale: one whose transaction is decided or
 * whose session is dead.
 */
#include "postgres.h"

#include "txn/txn_int.h"

/*
 * Whether a version that was read is newer than the clock, which is asked after
 * the leaf was read and so must know its time.  Few round trips: what is older
 * than an earlier answer needs none.
 */
static bool
is_from_future(MosqlSession *session, MosqlTimestamp ts)
{
	MosqlSnapshotList list;
	uint64		schema;

	if (ts <= session->checked_last)
		return false;
	mosql_clock_snapshots(&session->stepper, &list, &schema);
	session->checked_last = list.last;
	return ts > list.last;
}

static void
check_row(MosqlSession *session, const MosqlLeaf *leaf, const MosqlEntry *entry,
		  MosqlCheckReport report, void *arg)
{
	MosqlHistory history;

	if (!mosql_history_decode(entry->row, &history))
	{
		report(arg, 'E', leaf->node, "a row does not decode");
		return;
	}
	if (history.n > 0 && is_from_future(session, history.versions[0].ts))
		report(arg, 'E', leaf->node, "a row is newer than the clock");
	for (int i = 0; i < history.n; i++)
	{
		const MosqlVersion *v = &history.versions[i];
		MosqlBytes	columns = v->columns;
		MosqlColumn column;
		int			got;

		if (i > 0 && v->ts >= history.versions[i - 1].ts)
			report(arg, 'E', leaf->node, "the versions of a row do not descend");
		while ((got = mosql_column_next(&columns, &column)) > 0)
			;
		if (got < 0)
			report(arg, 'E', leaf->node, "the columns of a row do not decode");
	}
}

static void
check_intents(MosqlSession *session, const MosqlLeaf *leaf, const MosqlEntry *entry,
			  MosqlCheckReport report, void *arg)
{
	MosqlBytes	rest = entry->intent;
	MosqlIntent intent;
	int			got;

	while ((got = mosql_intent_next(&rest, &intent)) == 1)
	{
		MosqlRecord record;
		MosqlSnapshotList list;

		mosql_clock_status(&session->stepper, &intent.tx, 1, &record, &list);
		report(arg, 'W', leaf->node,
			   psprintf("intent of transaction " UINT64_FORMAT "." UINT64_FORMAT ", %s",
						intent.tx.session, intent.tx.n,
						record.state == MOSQL_RECORD_COMMITTED ? "committed and not applied yet" :
						record.state == MOSQL_RECORD_ABORTED ? "aborted and not removed yet" :
						"undecided"));
	}
	if (got < 0)
		report(arg, 'E', leaf->node, "an intent does not decode");
}

void
mosql_txn_check_leaf(MosqlSession *session, const MosqlLeaf *leaf, MosqlCheckReport report,
					 void *arg)
{
	for (int i = 0; i < leaf->n; i++)
	{
		if (leaf->entries[i].row.data != NULL)
			check_row(session, leaf, &leaf->entries[i], report, arg);
		if (leaf->entries[i].intent.data != NULL)
			check_intents(session, leaf, &leaf->entries[i], report, arg);
	}
	if (leaf->range_marks.len % MOSQL_TXID_BYTES != 0)
		report(arg, 'E', leaf->node, "the list of read marks does not decode");
}
