/*
 * reference.c: rows that must be there when the transaction commits.
 *
 * Layer: txn.  A row with a foreign key needs the row that it leads to.  That row need
 * not stay as it is, as one that was read under SERIALIZABLE: updates that leave it
 * there are welcome, before and after.  So nothing is written there, no mark either:
 * commit looks at it when all its own intents are in place (prepare.c), and whoever
 * deletes such a row certifies the range in which rows that lead to it would be.
 * docs/commit.md argues that this suffices (rule 22).
 */
#include "postgres.h"

#include "txn/txn_int.h"

/* Known without looking: put or deleted here, or looked up before. */
static bool
is_known(MosqlBuffer *buffer, MosqlBytes key, bool *found)
{
	MosqlEntryW *entry = buffer ? mosql_buffer_lookup(buffer, key) : NULL;

	if (entry == NULL || (entry->top == NULL && !entry->referenced))
		return false;
	*found = entry->top == NULL || entry->top->kind != MOSQL_CHANGE_DELETE;
	return true;
}

bool
mosql_txn_knows(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key)
{
	bool		found = false;

	return is_known(mosql_buffer_find(txn, tree, false), key, &found) && found;
}

/*
 * An intent that leaves a live row live need not be asked about: a row that many
 * increment costs no more than others.
 */
static void
ignore_harmless_intent(MosqlPoint *point)
{
	MosqlVersion newest;

	MosqlBytes	intents = point->intent;
	MosqlIntent intent;

	if (point->row.data != NULL && mosql_intent_next(&intents, &intent) == 1 &&
		strchr(MOSQL_INTENT_LIVE_KINDS, intent.kind) != NULL &&
		mosql_row_newest(point->row, &newest) && newest.live)
		point->intent = MOSQL_ABSENT;
}

static void
note_referenced(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, true);
	MosqlEntryW *entry = mosql_buffer_lookup(buffer, key);

	if (entry == NULL)
		entry = mosql_buffer_add(txn, buffer, key);
	entry->referenced = true;
	txn->refers = true;
}

void
mosql_txn_refer(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n, bool *found)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, false);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql references",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MosqlBytes *wanted = palloc(n * sizeof(MosqlBytes) + 1);
	int		   *where = palloc(n * sizeof(int) + 1);
	MosqlPoint *points = palloc0(n * sizeof(MosqlPoint) + 1);
	MosqlStatusCache cache = {0};
	ErrorContextCallback context;
	int			m = 0;

	for (int i = 0; i < n; i++)
		if (!is_known(buffer, keys[i], &found[i]))
		{
			where[m] = i;
			wanted[m++] = keys[i];
		}
	mosql_txn_begin_read(txn->session, &context);
	if (m > 0)
		mosql_btree_get(tree, wanted, m, points);
	for (int i = 0; i < m; i++)
		ignore_harmless_intent(&points[i]);
	if (m > 0)
		mosql_points_settle(txn->session, tree, wanted, points, m, true, &cache);
	mosql_txn_end_read(&context);
	for (int i = 0; i < m; i++)
	{
		MosqlBytes	columns;
		MosqlTimestamp version;

		found[where[i]] = mosql_point_visible(txn->session, &points[i], points[i].leaf,
											  MOSQL_TS_MAX, &cache, &columns, &version);
		if (found[where[i]])
			note_referenced(txn, tree, wanted[i]);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}
