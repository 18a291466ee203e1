/*
 * lock_look.c: a transaction that increments a row and then looks at it locks it.
 *
 * Layer: txn.  Increments lock nothing and exclude nobody's, as long as their transaction does not
 * know what they add up to.  When it looks, it rests on what it is shown: from then on the row is
 * held like one that an UPDATE has read, so that COMMIT finds it so.  The lock comes with the row's
 * newest version, which the increments are then computed from.
 *
 * A look by itself needs no round trip, so the lock would be one.  Whoever looks at what it has
 * incremented in a table does so each time, as a rule: then the lock is asked for by the statement
 * that increments, in the step that reads the row.
 */
#include "postgres.h"

#include "code/claim.h"
#include "txn/txn_int.h"

/* Rows that are locked together for a scan. */
#define LOOKS_AT_ONCE	1000

bool
mosql_txn_looks_lock(MosqlTxn *txn, MosqlTree *tree)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, true);
	const MosqlSessionTree *known = mosql_session_tree_slot(txn->session, tree);

	buffer->looks_lock = true;
	return buffer->looked || (known != NULL && known->looked);
}

void
mosql_looks_end(MosqlTxn *txn)
{
	for (MosqlBuffer *buffer = txn->buffers; buffer != NULL; buffer = buffer->next_buffer)
	{
		MosqlSessionTree *known = buffer->looks_lock ? mosql_session_tree_slot(txn->session, buffer->tree) : NULL;

		if (known != NULL)
			known->looked = buffer->looked;
	}
}

/* Is it an increment that this command sees, and not locked as an UPDATE would? */
static bool
wants_lock(MosqlEntryW *entry, CommandId curcid)
{
	const MosqlChange *change = mosql_entry_visible(entry, curcid);

	return change != NULL && change->kind == MOSQL_CHANGE_INCREMENT && entry->strength < MOSQL_NO_KEY_UPDATE;
}

/* Of the oldest change: whatever savepoint the look is in, the row is to be held as long as that. */
static int
level_of(const MosqlEntryW *entry)
{
	const MosqlChange *change = entry->top;

	while (change->older != NULL)
		change = change->older;
	return change->level;
}

/* Entries ascend.  One round trip, if nobody is in the way; 40001 if a row is gone, or newer than the snapshot. */
static void
lock_entries(MosqlTxn *txn, MosqlTree *tree, MosqlEntryW **entries, int n)
{
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	MosqlRow   *rows = palloc(n * sizeof(MosqlRow));
	bool	   *locked = palloc(n * sizeof(bool));

	for (int i = 0; i < n; i++)
		keys[i] = entries[i]->key;
	mosql_txn_claim(txn, tree, keys, n, MOSQL_NO_KEY_UPDATE, LockWaitBlock, rows, locked);
	for (int i = 0; i < n; i++)
	{
		if (!rows[i].found)
			mosql_report_deleted();
		if (mosql_txn_is_newer(txn, rows[i].version))
			mosql_report_updated();
		mosql_lock_hold_since(txn, entries[i], level_of(entries[i]));
	}
}

static int
compare_entries(const void *a, const void *b)
{
	return mosql_bytes_compare((*(MosqlEntryW *const *) a)->key, (*(MosqlEntryW *const *) b)->key);
}

void
mosql_look_at_keys(MosqlTxn *txn, MosqlBuffer *buffer, CommandId curcid, const MosqlBytes *keys, int n)
{
	MosqlEntryW **entries = NULL;
	int			m = 0;

	if (buffer == NULL || !buffer->looks_lock)
		return;
	for (int i = 0; i < n; i++)
	{
		MosqlEntryW *entry = mosql_buffer_lookup(buffer, keys[i]);

		if (entry == NULL || !wants_lock(entry, curcid))
			continue;
		if (entries == NULL)
			entries = palloc(n * sizeof(MosqlEntryW *));
		entries[m++] = entry;
	}
	if (m == 0)
		return;
	qsort(entries, m, sizeof(MosqlEntryW *), compare_entries);
	n = m;
	m = 1;
	for (int i = 1; i < n; i++)
		if (entries[i] != entries[m - 1])
			entries[m++] = entries[i];
	lock_entries(txn, buffer->tree, entries, m);
}

void
mosql_look_at_entries(MosqlTxn *txn, MosqlBuffer *buffer, CommandId curcid, MosqlEntryW **entries, int n,
					  bool backward)
{
	MosqlEntryW **ascending;
	int			max = Min(n, LOOKS_AT_ONCE);
	int			m = 0;

	if (buffer == NULL || !buffer->looks_lock || !wants_lock(entries[0], curcid))
		return;
	ascending = palloc(max * sizeof(MosqlEntryW *));
	for (int i = 0; i < n && m < max; i++)
	{
		MosqlEntryW *entry = backward ? entries[-i] : entries[i];

		if (wants_lock(entry, curcid))
			ascending[backward ? max - ++m : m++] = entry;
	}
	lock_entries(txn, buffer->tree, backward ? ascending + max - m : ascending, m);
}
