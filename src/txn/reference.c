/*
 * reference.c: rows that must be there when the transaction commits.
 *
 * Layer: txn.  A row with a foreign key needs the row that it leads to.  That row need
 * not stay as it is, as one that was read under SERIALIZABLE: updates that leave it
 * there are welcome, before and after.  So nothing is written there, no mark either:
 * commit looks at it when all its own intents are in place (prepare.c), and whoever
 * deletes such a row certifies the range in which rows that lead to it would be.
 * docs/commit.md argues that this suffices (rule 22).  A pessimistic transaction locks it
 * besides, KEY SHARE, so that who deletes it waits rather than fails.
 *
 * What was seen since a savepoint is forgotten with it, as its lock is given back, and the
 * rows that led there are gone.  (What is deferred is looked for again, fdw/reference.c.)
 */
#include "postgres.h"

#include "access/xact.h"

#include "code/claim.h"
#include "txn/txn_int.h"

bool
mosql_txn_is_known(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, bool *found)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, false);
	MosqlEntryW *entry = buffer ? mosql_buffer_lookup(buffer, key) : NULL;

	if (entry == NULL || (entry->top == NULL && !entry->referenced))
		return false;
	*found = entry->top == NULL || entry->top->kind != MOSQL_CHANGE_DELETE;
	return true;
}

/* An increment locks nothing, also if what it made of the row was read since. */
bool
mosql_txn_knows(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, bool locks)
{
	const MosqlEntryW *entry;
	bool		found = false;

	if (!mosql_txn_is_known(txn, tree, key, &found) || !found)
		return false;
	entry = mosql_buffer_lookup(mosql_buffer_find(txn, tree, false), key);
	return !locks || entry->top == NULL || entry->top->base == MOSQL_BASE_ABSENT ||
		entry->strength >= MOSQL_KEY_SHARE;
}

bool
mosql_txn_has_inserted(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, false);
	const MosqlEntryW *entry = buffer ? mosql_buffer_lookup(buffer, key) : NULL;

	return entry != NULL && entry->top != NULL && entry->top->kind == MOSQL_CHANGE_PUT &&
		entry->top->base == MOSQL_BASE_ABSENT && !entry->unchecked && entry->strength >= MOSQL_UPDATE;
}

/*
 * See txn_int.h.  An intent that leaves a live row live need not be asked about: a row that many
 * increment costs no more than others.
 */
void
mosql_point_ignore_harmless(MosqlPoint *point)
{
	MosqlBytes	intents = point->intent;
	MosqlIntent intent;
	MosqlVersion newest;

	if (point->row.data != NULL && mosql_intent_next(&intents, &intent) == 1 &&
		strchr(MOSQL_INTENT_LIVE_KINDS, intent.kind) != NULL &&
		mosql_row_newest(point->row, &newest) && newest.live)
		point->intent = MOSQL_ABSENT;
}

void
mosql_txn_note_referenced(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, true);
	MosqlEntryW *entry = mosql_buffer_lookup(buffer, key);
	MosqlReferenced *referenced;

	if (entry == NULL)
		entry = mosql_buffer_add(txn, buffer, key);
	if (entry->referenced)
		return;
	mosql_txn_account(txn, sizeof(MosqlReferenced));
	referenced = MemoryContextAlloc(txn->cxt, sizeof(MosqlReferenced));
	*referenced = (MosqlReferenced) {txn->references, GetCurrentTransactionNestLevel(), entry};
	txn->references = referenced;
	entry->referenced = true;
	txn->refers = true;
}

/* Which of these rows are there now: in the latest committed state. */
static void
look_at_rows(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n, bool *found)
{
	MosqlPoint *points = palloc0(n * sizeof(MosqlPoint));
	MosqlRow   *rows = palloc(n * sizeof(MosqlRow));
	ErrorContextCallback context;

	mosql_txn_begin_read(txn->session, &context);
	mosql_btree_get(tree, keys, n, points);
	for (int i = 0; i < n; i++)
		mosql_point_ignore_harmless(&points[i]);
	mosql_points_latest(txn->session, tree, keys, points, n, rows);
	mosql_txn_end_read(&context);
	for (int i = 0; i < n; i++)
		found[i] = rows[i].found;
}

/* The same, and whoever wants to delete one of them waits; who is deleting it is waited for. */
static void
lock_rows(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n, bool *found)
{
	MosqlRow   *rows = palloc(n * sizeof(MosqlRow));
	bool	   *locked = palloc(n * sizeof(bool));

	mosql_txn_claim(txn, tree, keys, n, MOSQL_KEY_SHARE, LockWaitBlock, rows, locked);
	for (int i = 0; i < n; i++)
		found[i] = rows[i].found;
}

void
mosql_txn_refer(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n, bool locks,
				bool *found)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql references",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MosqlBytes *wanted = palloc(n * sizeof(MosqlBytes) + 1);
	int		   *where = palloc(n * sizeof(int) + 1);
	bool	   *there = palloc(n * sizeof(bool) + 1);
	int			m = 0;

	for (int i = 0; i < n; i++)
		if (!mosql_txn_is_known(txn, tree, keys[i], &found[i]) ||
			(found[i] && !mosql_txn_knows(txn, tree, keys[i], locks)))
		{
			where[m] = i;
			wanted[m++] = keys[i];
		}
	if (m > 0 && locks)
		lock_rows(txn, tree, wanted, m, there);
	else if (m > 0)
		look_at_rows(txn, tree, wanted, m, there);
	for (int i = 0; i < m; i++)
	{
		found[where[i]] = there[i];
		if (there[i])
			mosql_txn_note_referenced(txn, tree, wanted[i]);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}
