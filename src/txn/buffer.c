/*
 * buffer.c: the writes of a transaction until it commits.
 *
 * Layer: txn.  Per tree a skip list of rows in key order (Pugh, 1990); per row
 * a stack of changes, each tagged with the command and the nesting level that
 * made it.  So a statement sees what earlier commands wrote and not its own
 * writes, and ROLLBACK TO SAVEPOINT takes off the right ones.
 *
 * The journal strings all changes together, newest first.  A row's changes
 * appear in it in the order of its stack, so popping the journal pops stacks.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/int.h"

#include "code/claim.h"
#include "txn/txn_int.h"

int			mosql_txn_max_mb = 1024;

/* ---- skip list ---- */

MosqlBuffer *
mosql_buffer_find(MosqlTxn *txn, MosqlTree *tree, bool create)
{
	MosqlBuffer *buffer;

	for (buffer = txn->buffers; buffer != NULL; buffer = buffer->next_buffer)
		if (buffer->tree == tree)
			return buffer;
	if (!create)
		return NULL;
	buffer = MemoryContextAllocZero(txn->cxt, sizeof(MosqlBuffer));
	buffer->tree = tree;
	buffer->next_buffer = txn->buffers;
	txn->buffers = buffer;
	return buffer;
}

/* On each level the last entry with key < low (NULL: the head). */
static void
find_before(MosqlBuffer *buffer, MosqlBytes low, MosqlEntryW **before)
{
	MosqlEntryW *at = NULL;

	for (int level = buffer->height - 1; level >= 0; level--)
	{
		MosqlEntryW *next = at ? at->next[level] : buffer->head[level];

		while (next != NULL && mosql_bytes_compare(next->key, low) < 0)
		{
			at = next;
			next = at->next[level];
		}
		before[level] = at;
	}
}

MosqlEntryW *
mosql_buffer_seek(MosqlBuffer *buffer, MosqlBytes low)
{
	MosqlEntryW *before[MOSQL_SKIP_LEVELS];

	if (buffer->height == 0)
		return NULL;
	find_before(buffer, low, before);
	return before[0] ? before[0]->next[0] : buffer->head[0];
}

MosqlEntryW *
mosql_buffer_lookup(MosqlBuffer *buffer, MosqlBytes key)
{
	MosqlEntryW *entry;

	if (buffer->height == 0)
		return NULL;
	/* ascending loads ask for keys beyond the last one */
	if (mosql_bytes_compare(buffer->tail[0]->key, key) < 0)
		return NULL;
	entry = mosql_buffer_seek(buffer, key);
	return entry != NULL && mosql_bytes_equal(entry->key, key) ? entry : NULL;
}

void
mosql_txn_account(MosqlTxn *txn, size_t bytes)
{
	txn->bytes += bytes;
	if (txn->bytes > (size_t) mosql_txn_max_mb * 1024 * 1024)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("transaction writes more than %d MB to mosql_fdw tables",
						mosql_txn_max_mb),
				 errhint("Commit in smaller parts, or raise mosql_fdw.max_transaction_size.")));
}

MosqlEntryW *
mosql_buffer_add(MosqlTxn *txn, MosqlBuffer *buffer, MosqlBytes key)
{
	MosqlEntryW *before[MOSQL_SKIP_LEVELS];
	MosqlEntryW *entry;
	int			height = mosql_random_height(&txn->random, MOSQL_SKIP_LEVELS);
	size_t		size = offsetof(MosqlEntryW, next) + height * sizeof(MosqlEntryW *);
	bool		last;

	mosql_txn_account(txn, size + key.len);
	entry = MemoryContextAllocZero(txn->cxt, size + key.len);
	memcpy((char *) entry + size, key.data, key.len);
	entry->key = mosql_bytes((char *) entry + size, key.len);
	entry->height = height;

	last = buffer->height == 0 || mosql_bytes_compare(buffer->tail[0]->key, key) < 0;
	if (!last)
		find_before(buffer, key, before);
	for (int level = 0; level < height; level++)
	{
		MosqlEntryW *prev;

		if (last)
			prev = level < buffer->height ? buffer->tail[level] : NULL;
		else
			prev = level < buffer->height ? before[level] : NULL;
		entry->next[level] = prev ? prev->next[level] : buffer->head[level];
		if (prev)
			prev->next[level] = entry;
		else
			buffer->head[level] = entry;
		if (entry->next[level] == NULL)
			buffer->tail[level] = entry;
	}
	buffer->height = Max(buffer->height, height);
	buffer->nentries++;
	return entry;
}

/* ---- changes ---- */

static MosqlChange *
push_change(MosqlTxn *txn, MosqlEntryW *entry, MosqlChangeKind kind, MosqlBytes columns,
			CommandId cid)
{
	MosqlChange *change;

	mosql_txn_account(txn, sizeof(MosqlChange) + columns.len);
	change = MemoryContextAllocHuge(txn->cxt, sizeof(MosqlChange) + columns.len);
	memset(change, 0, sizeof(MosqlChange));
	if (columns.data != NULL)
	{
		memcpy((char *) (change + 1), columns.data, columns.len);
		change->columns = mosql_bytes(change + 1, columns.len);
	}
	change->kind = kind;
	change->cid = cid;
	change->level = txn->put_level > 0 ? txn->put_level : GetCurrentTransactionNestLevel();
	change->entry = entry;
	change->older = entry->top;
	if (entry->top != NULL)
	{
		change->base = entry->top->base;
		change->version = entry->top->version;
	}
	entry->top = change;
	/* so that the end of a subtransaction finds its changes in front */
	Assert(txn->journal == NULL || txn->journal->level <= change->level);
	change->earlier = txn->journal;
	txn->journal = change;
	return change;
}

MosqlChange *
mosql_entry_visible(MosqlEntryW *entry, CommandId curcid)
{
	MosqlChange *change = entry->top;

	while (change != NULL && change->cid >= curcid)
		change = change->older;
	return change;
}

static void
report_overflow(int width)
{
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("%s out of range",
					width == 2 ? "smallint" : width == 4 ? "integer" : "bigint")));
}

/* The row after increments, in the current context. */
static MosqlBytes
increment_columns(MosqlTxn *txn, MosqlBytes columns, const MosqlIncrement *inc, int ninc)
{
	StringInfoData out;

	initStringInfo(&out);
	switch (mosql_columns_increment(&out, columns, inc, ninc))
	{
		case MOSQL_INCREMENT_OK:
			break;
		case MOSQL_INCREMENT_OVERFLOW:
			report_overflow(inc[0].width);
			break;
		case MOSQL_INCREMENT_DAMAGED:
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("a row in namespace \"%s\" cannot be incremented: its columns do not decode",
							mosql_session_namespace(txn->session))));
	}
	return mosql_bytes_of(&out);
}

MosqlBytes
mosql_change_columns(MosqlTxn *txn, const MosqlChange *change)
{
	if (change->kind == MOSQL_CHANGE_INCREMENT)
		return increment_columns(txn, change->columns, change->inc, change->ninc);
	return change->columns;
}

void
mosql_report_deleted(void)
{
	mosql_stats.conflicts++;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent delete"),
			 errhint("The transaction might succeed if retried.")));
}

void
mosql_report_updated(void)
{
	mosql_stats.conflicts++;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errhint("The transaction might succeed if retried.")));
}

bool
mosql_txn_is_newer(const MosqlTxn *txn, MosqlTimestamp version)
{
	return txn->isolation != MOSQL_READ_COMMITTED && txn->drawn && version > txn->S;
}

void
mosql_change_rebase(MosqlTxn *txn, MosqlEntryW *entry, const MosqlRow *row)
{
	MosqlBytes	columns = MOSQL_ABSENT;

	for (MosqlChange *change = entry->top; change != NULL; change = change->older)
	{
		if (change->kind != MOSQL_CHANGE_INCREMENT || (!change->unsettled && change->version == row->version))
			continue;
		if (columns.data == NULL)
			columns = mosql_bytes_copy(txn->cxt, row->columns);
		change->columns = columns;
		change->version = row->version;
		change->unsettled = false;
	}
}

/*
 * The row was peeked at while others' increments were in flight.  Now that it
 * matters, read it properly.  40001 if it is gone.
 */
static void
settle_base(MosqlTxn *txn, MosqlTree *tree, MosqlEntryW *entry)
{
	MosqlPoint	point;
	MosqlRow	row;

	memset(&point, 0, sizeof(point));
	mosql_btree_get(tree, &entry->key, 1, &point);
	mosql_points_latest(txn->session, tree, &entry->key, &point, 1, &row);
	if (!row.found)
		mosql_report_deleted();
	mosql_change_rebase(txn, entry, &row);
}

/*
 * Somebody in this transaction looks at the incremented row: from now on it is
 * a plain update of the version it was computed from.  All changes of the
 * stack are bound, so that a rollback to a savepoint uncovers bound ones.
 */
void
mosql_change_bind(MosqlTxn *txn, MosqlTree *tree, MosqlEntryW *entry)
{
	MemoryContext old;

	if (entry->top != NULL && entry->top->kind == MOSQL_CHANGE_INCREMENT &&
		entry->top->unsettled)
		settle_base(txn, tree, entry);
	old = MemoryContextSwitchTo(txn->cxt);

	for (MosqlChange *change = entry->top; change != NULL; change = change->older)
	{
		if (change->kind != MOSQL_CHANGE_INCREMENT)
			continue;
		change->columns = mosql_change_columns(txn, change);
		change->kind = MOSQL_CHANGE_PUT;
		change->base = MOSQL_BASE_VERSION;
	}
	MemoryContextSwitchTo(old);
}

/* ---- verbs ---- */

/* Of an entry with changes: was there a row before this transaction? */
static bool
leaves(const MosqlEntryW *entry)
{
	return entry->top->base != MOSQL_BASE_ABSENT;
}

static void
add_unchecked(MosqlTxn *txn, MosqlBuffer *buffer, MosqlEntryW *entry)
{
	if (buffer->nunchecked == buffer->maxunchecked)
	{
		int			max = Max(64, buffer->maxunchecked * 2);
		MosqlEntryW **grown = MemoryContextAllocHuge(txn->cxt, max * sizeof(*grown));

		if (buffer->nunchecked > 0)
		{
			memcpy(grown, buffer->unchecked, buffer->nunchecked * sizeof(*grown));
			pfree(buffer->unchecked);
		}
		buffer->unchecked = grown;
		buffer->maxunchecked = max;
	}
	entry->unchecked = true;
	buffer->unchecked[buffer->nunchecked++] = entry;
	buffer->ncoming += !leaves(entry);
}

MosqlWriteResult
mosql_txn_insert(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, MosqlBytes columns,
				 CommandId cid, MosqlNewKey known)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, true);
	MosqlEntryW *entry = mosql_buffer_lookup(buffer, key);
	MosqlChange *change;

	if (entry == NULL)
		entry = mosql_buffer_add(txn, buffer, key);
	if (entry->top != NULL)
	{
		if (entry->top->kind != MOSQL_CHANGE_DELETE)
			return MOSQL_DUPLICATE;
		(void) push_change(txn, entry, MOSQL_CHANGE_PUT, columns, cid);
		return MOSQL_WRITTEN;	/* base as of the delete */
	}
	change = push_change(txn, entry, MOSQL_CHANGE_PUT, columns, cid);
	change->base = MOSQL_BASE_ABSENT;
	change->version = 0;
	entry->found_free = known == MOSQL_KEY_FOUND_FREE;
	entry->proved_free = known == MOSQL_KEY_PROVED_FREE && !txn->session->doubts;
	entry->of_row = known == MOSQL_KEY_OF_ROW;
	entry->hides = false;
	if (known == MOSQL_KEY_MAY_EXIST || known == MOSQL_KEY_PROVED_FREE)
		add_unchecked(txn, buffer, entry);
	return MOSQL_WRITTEN;
}

/* The place in the journal behind which changes of this savepoint, or of those around it, are. */
static MosqlChange **
find_cut(MosqlChange **newest, int level)
{
	while (*newest != NULL && (*newest)->level > level)
		newest = &(*newest)->earlier;
	return newest;
}

static pg_noinline void
join_journal(MosqlTxn *txn)
{
	*find_cut(&txn->cut_off, txn->put_level) = txn->journal;
	txn->journal = txn->cut_off;
	txn->put_level = 0;
}

static pg_noinline void
cut_journal(MosqlTxn *txn, int level)
{
	txn->cut_off = txn->journal;
	txn->journal = *find_cut(&txn->cut_off, level);
	txn->put_level = level;
}

/* The journal is cut where the inserts belong, and joined again; also after an error. */
void
mosql_txn_put_earlier(MosqlTxn *txn, int level, void (*put) (void *arg), void *arg)
{
	cut_journal(txn, level);
	PG_TRY();
	{
		put(arg);
	}
	PG_CATCH();
	{
		join_journal(txn);
		PG_RE_THROW();
	}
	PG_END_TRY();
	join_journal(txn);
}

MosqlOwnWrite
mosql_txn_own_write(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, CommandId cid)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, false);
	MosqlEntryW *entry = buffer == NULL ? NULL : mosql_buffer_lookup(buffer, key);

	if (entry == NULL || entry->top == NULL || entry->top->cid < cid)
		return MOSQL_OWN_NONE;
	return entry->top->kind == MOSQL_CHANGE_DELETE ? MOSQL_OWN_DELETE : MOSQL_OWN_PUT;
}

/* PostgreSQL's own words. */
static void
report_modified_inside(MosqlChangeKind kind)
{
	ereport(ERROR,
			(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
			 errmsg("tuple to be %s was already modified by an operation triggered by the current command",
					kind == MOSQL_CHANGE_DELETE ? "deleted" : "updated"),
			 errhint("Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.")));
}

/*
 * The entry to change, or NULL if this command did so already.  If a command inside of this
 * one did, a trigger's or a function's, neither change may go unsaid.
 */
static MosqlEntryW *
entry_to_change(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, MosqlChangeKind kind, CommandId cid)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, true);
	MosqlEntryW *entry = mosql_buffer_lookup(buffer, key);

	if (entry == NULL)
		return mosql_buffer_add(txn, buffer, key);
	if (entry->top != NULL && entry->top->cid > cid)
		report_modified_inside(kind);
	if (entry->top != NULL && entry->top->cid == cid)
		return NULL;
	return entry;
}

void
mosql_report_hidden(void)
{
	mosql_stats.conflicts++;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent insert"),
			 errdetail("Another transaction committed a row with the key of one that this transaction inserted and deleted."),
			 errhint("The transaction might succeed if retried.")));
}

/* A row that was read at `version` gets new columns, or is deleted. */
static MosqlWriteResult
replace_row(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, MosqlTimestamp version,
			MosqlChangeKind kind, MosqlBytes columns, CommandId cid)
{
	MosqlEntryW *entry = entry_to_change(txn, tree, key, kind, cid);
	MosqlChange *change;

	if (entry == NULL)
		return MOSQL_SELF_MODIFIED;
	if (entry->top != NULL)
	{
		if (kind == MOSQL_CHANGE_DELETE && entry->hides && entry->top->base == MOSQL_BASE_ABSENT)
			mosql_report_hidden();
		mosql_change_bind(txn, tree, entry);
		(void) push_change(txn, entry, kind, columns, cid);
		return MOSQL_WRITTEN;	/* what must be stored is as before */
	}
	change = push_change(txn, entry, kind, columns, cid);
	change->base = version == MOSQL_VERSION_ANY ? MOSQL_BASE_LIVE : MOSQL_BASE_VERSION;
	change->version = version == MOSQL_VERSION_ANY ? 0 : version;
	return MOSQL_WRITTEN;
}

MosqlWriteResult
mosql_txn_update(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, MosqlTimestamp version,
				 MosqlBytes columns, CommandId cid)
{
	return replace_row(txn, tree, key, version, MOSQL_CHANGE_PUT, columns, cid);
}

MosqlWriteResult
mosql_txn_delete(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, MosqlTimestamp version,
				 CommandId cid)
{
	return replace_row(txn, tree, key, version, MOSQL_CHANGE_DELETE, MOSQL_ABSENT, cid);
}

/* Columns that one late-bound update may increment: what fits an intent. */
#define MAX_INCREMENTS (MOSQL_INCREMENTS_MAX_BYTES / 16)

static MosqlIncrement *
increment_of(const MosqlChange *change, uint32 column)
{
	for (int i = 0; i < change->ninc; i++)
		if (change->inc[i].column == column)
			return &change->inc[i];
	return NULL;
}

/* Can they be added to those of the change?  The row may bear each of them, if not their sum. */
static bool
sums_fit(const MosqlChange *change, const MosqlIncrement *inc, int ninc)
{
	for (int i = 0; i < ninc; i++)
	{
		const MosqlIncrement *same = increment_of(change, inc[i].column);
		int64		sum;

		if (same != NULL && pg_add_s64_overflow(same->delta, inc[i].delta, &sum))
			return false;
	}
	return true;
}

/* Add increments to increments, column by column. */
static void
merge_increments(MosqlChange *change, const MosqlIncrement *inc, int ninc)
{
	for (int i = 0; i < ninc; i++)
	{
		MosqlIncrement *same = increment_of(change, inc[i].column);

		if (same == NULL)
			change->inc[change->ninc++] = inc[i];
		else
			same->delta += inc[i].delta;
	}
}

/*
 * Three cases: the row was put by this transaction (then the increment is just
 * another put), it has increments already (they add up; if not in 64 bits, they are a put from now on),
 * or it is untouched.
 */
MosqlWriteResult
mosql_txn_increment(MosqlTxn *txn, MosqlTree *tree, const MosqlRow *row,
					const MosqlIncrement *inc, int ninc, CommandId cid)
{
	MosqlEntryW *entry = entry_to_change(txn, tree, row->key, MOSQL_CHANGE_INCREMENT, cid);
	MosqlChange *top,
			   *change;
	MosqlBytes	base_columns;

	if (entry == NULL)
		return MOSQL_SELF_MODIFIED;
	top = entry->top;
	if (top != NULL && top->kind == MOSQL_CHANGE_INCREMENT && !sums_fit(top, inc, ninc))
	{
		mosql_txn_note_read(txn, tree, row->key);
		mosql_change_bind(txn, tree, entry);
	}
	if (top != NULL && top->kind != MOSQL_CHANGE_INCREMENT)
	{
		MosqlBytes	columns = increment_columns(txn, top->columns, inc, ninc);

		(void) push_change(txn, entry, MOSQL_CHANGE_PUT, columns, cid);
		return MOSQL_WRITTEN;
	}

	base_columns = top ? top->columns : row->columns;
	change = push_change(txn, entry, MOSQL_CHANGE_INCREMENT, base_columns, cid);
	mosql_txn_account(txn, (ninc + (top ? top->ninc : 0)) * sizeof(MosqlIncrement));
	change->inc = MemoryContextAlloc(txn->cxt,
									 (ninc + (top ? top->ninc : 0)) * sizeof(MosqlIncrement));
	if (top)
	{
		memcpy(change->inc, top->inc, top->ninc * sizeof(MosqlIncrement));
		change->ninc = top->ninc;
	}
	else
	{
		change->base = MOSQL_BASE_LIVE;
		change->version = row->version;
	}
	change->unsettled = top ? top->unsettled : row->unsettled;
	merge_increments(change, inc, ninc);

	/* The statement reports an overflow of the row that it read. */
	if (!change->unsettled)
		(void) mosql_change_columns(txn, change);

	/*
	 * First committer wins under REPEATABLE READ, also where the command alone
	 * would commute: the transaction may have looked at the row before.  (READ
	 * COMMITTED promises no more; SERIALIZABLE checks what was read.)
	 */
	if (change->ninc > MAX_INCREMENTS)
		mosql_txn_note_read(txn, tree, row->key);
	if (txn->isolation == MOSQL_REPEATABLE_READ || entry->pinned || change->ninc > MAX_INCREMENTS)
		mosql_change_bind(txn, tree, entry);
	return MOSQL_WRITTEN;
}

void
mosql_txn_lock_row(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, MosqlTimestamp version, bool pins)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, true);
	MosqlEntryW *entry = mosql_buffer_lookup(buffer, key);
	MosqlLock  *lock;

	if (entry == NULL)
		entry = mosql_buffer_add(txn, buffer, key);
	if (entry->top != NULL || (entry->locked && entry->pinned))
		return;					/* what is there is checked at commit anyway */
	if (entry->locked && !pins)
		return;
	entry->lock_version = version;

	mosql_txn_account(txn, sizeof(MosqlLock));
	lock = MemoryContextAlloc(txn->cxt, sizeof(MosqlLock));
	*lock = (MosqlLock) {txn->locks, GetCurrentTransactionNestLevel(), tree, entry, entry->locked};
	txn->locks = lock;
	entry->locked = true;
	entry->pinned = pins;
}

/* ---- uniqueness at the statement ---- */

void
mosql_txn_leave(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, true);
	MosqlEntryW *entry = mosql_buffer_lookup(buffer, key);

	if (entry != NULL && entry->top != NULL && leaves(entry) && !entry->unchecked)
		add_unchecked(txn, buffer, entry);
}

int
mosql_txn_unchecked(MosqlTxn *txn, MosqlTree *tree, int *inserts)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, false);

	*inserts = buffer ? buffer->ncoming : 0;
	return buffer ? buffer->nunchecked : 0;
}

static int
compare_entries(const void *a, const void *b)
{
	return mosql_bytes_compare((*(MosqlEntryW *const *) a)->key, (*(MosqlEntryW *const *) b)->key);
}

/*
 * Note what a look-up found under an insert.  False: a live row.  A tombstone
 * becomes the version that commit expects, absence stays absence.
 */
static bool
settle_insert(MosqlTxn *txn, MosqlEntryW *entry, bool found, MosqlTimestamp version)
{
	if (found && !leaves(entry))
		return false;
	entry->unchecked = false;
	if (leaves(entry))
		return true;
	for (MosqlChange *c = entry->top; c != NULL; c = c->older)
		c->version = version;
	return true;
}

/* Those that wait to be looked up, each once, in the order of their keys. */
static int
sort_unchecked(MosqlBuffer *buffer)
{
	int			n = 0;
	int			m = 0;

	for (int i = 0; i < buffer->nunchecked; i++)
		if (buffer->unchecked[i]->unchecked && buffer->unchecked[i]->top != NULL)
			buffer->unchecked[n++] = buffer->unchecked[i];
	qsort(buffer->unchecked, n, sizeof(MosqlEntryW *), compare_entries);
	for (int i = 0; i < n; i++)
		if (m == 0 || buffer->unchecked[m - 1] != buffer->unchecked[i])
			buffer->unchecked[m++] = buffer->unchecked[i];
	return m;
}

/*
 * Keys that somebody has locked are locked after him, and their rows read again, as far as the
 * first key that is there: nobody cares for what is behind a duplicate.
 */
static void
wait_for_lockers(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, const MosqlPoint *points,
				 int n, MosqlRow *rows)
{
	MosqlBytes *claimed = palloc(n * sizeof(MosqlBytes));
	MosqlRow   *now = palloc(n * sizeof(MosqlRow));
	int		   *where = palloc(n * sizeof(int));
	int			m = 0;
	int			found;

	for (int i = 0; i < n; i++)
		if (mosql_claims_begin(points[i].intent))
		{
			where[m] = i;
			claimed[m++] = keys[i];
		}
		else if (rows[i].found)
			break;
	if (m == 0)
		return;
	found = mosql_txn_claim_free(txn, tree, claimed, NULL, m, now);
	for (int i = 0; i < m && i <= found; i++)
		rows[where[i]] = now[i];
}

/* What is stored now under n keys.  Who waits does so for whoever has locked one of them. */
static void
read_stored(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n, bool waits,
			MosqlRow *rows)
{
	MosqlPoint *points = palloc0(n * sizeof(MosqlPoint) + 1);
	ErrorContextCallback context;

	mosql_txn_begin_read(txn->session, &context);
	mosql_btree_get(tree, keys, n, points);
	mosql_points_latest(txn->session, tree, keys, points, n, rows);
	mosql_txn_end_read(&context);
	if (waits)
		wait_for_lockers(txn, tree, keys, points, n, rows);
}

void
mosql_txn_read_stored(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n, MosqlRow *rows)
{
	read_stored(txn, tree, keys, n, false, rows);
}

/*
 * So many keys of one transaction are locked.  A load's are not: its locks would fill the
 * leaves that are there, whose splits make room for its rows only when it commits, and be
 * one more write per row.
 */
#define INSERT_LOCKS_MAX	1000

static bool
locks_inserts(MosqlTxn *txn, int n)
{
	return n > 0 && txn->ninsert_locks + n <= INSERT_LOCKS_MAX;
}

/* Lock them, in their order, as far as the first that is there: how many have been looked at. */
static int
lock_inserts(MosqlTxn *txn, MosqlBuffer *buffer, const MosqlBytes *keys, int n, MosqlRow *rows)
{
	bool	   *leaving = palloc(n * sizeof(bool));
	int			free;

	for (int i = 0; i < n; i++)
		leaving[i] = leaves(buffer->unchecked[i]);
	free = mosql_txn_claim_free(txn, buffer->tree, keys, leaving, n, rows);
	txn->ninsert_locks += free;
	return Min(free + 1, n);
}

/* What leaves without a lock need not be looked at. */
static int
drop_leaving(MosqlBuffer *buffer, int n)
{
	int			m = 0;

	for (int i = 0; i < n; i++)
		if (leaves(buffer->unchecked[i]))
			buffer->unchecked[i]->unchecked = false;
		else
			buffer->unchecked[m++] = buffer->unchecked[i];
	return m;
}

/* What is proved free is not looked at: locked, where it is to be, by a step that nobody waits for. */
static int
drop_proved(MosqlTxn *txn, MosqlBuffer *buffer, int n, bool locks)
{
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes) + 1);
	int			nproved = 0;
	int			m = 0;

	for (int i = 0; i < n; i++)
		if (buffer->unchecked[i]->proved_free && !leaves(buffer->unchecked[i]))
		{
			keys[nproved++] = buffer->unchecked[i]->key;
			buffer->unchecked[i]->unchecked = false;
		}
		else
			buffer->unchecked[m++] = buffer->unchecked[i];
	if (nproved > 0 && locks)
	{
		txn->ninsert_locks += nproved;
		mosql_txn_claim_ahead(txn, buffer->tree, keys, nproved);
	}
	return m;
}

/*
 * All keys in one batch of reads of their rows and intents as they are now
 * (not as of a snapshot: a row that somebody committed since would conflict at
 * commit anyway).
 */
bool
mosql_txn_check_inserts(MosqlTxn *txn, MosqlTree *tree, MosqlInsertLocking locking,
						MosqlBytes *duplicate)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, false);
	MemoryContext result_cxt = CurrentMemoryContext;
	MemoryContext cxt,
				old;
	MosqlBytes *keys;
	MosqlRow   *rows;
	int			n;
	int			seen;
	bool		locks;
	bool		ok = true;

	if (buffer == NULL || buffer->nunchecked == 0)
		return true;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql insert check",
								ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	n = sort_unchecked(buffer);
	locks = locking == MOSQL_INSERTS_LOCK && locks_inserts(txn, n);
	n = drop_proved(txn, buffer, n, locks);
	locks &= n > 0;
	buffer->nunchecked = seen = n = locks ? n : drop_leaving(buffer, n);
	keys = palloc(n * sizeof(MosqlBytes) + 1);
	rows = palloc0(n * sizeof(MosqlRow) + 1);
	for (int i = 0; i < n; i++)
		keys[i] = buffer->unchecked[i]->key;
	MOSQL_DEBUG_POINT("inserts-due");
	if (locks)
		seen = lock_inserts(txn, buffer, keys, n, rows);
	else if (n > 0)
		read_stored(txn, tree, keys, n, locking != MOSQL_INSERTS_LOOK, rows);
	for (int i = 0; i < seen && ok; i++)
		if (!settle_insert(txn, buffer->unchecked[i], rows[i].found, rows[i].version))
		{
			*duplicate = mosql_bytes_copy(result_cxt, keys[i]);
			ok = false;
		}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	/* after a failure the others still wait: a trigger may catch the error */
	buffer->nunchecked = ok ? 0 : n;
	buffer->ncoming = ok ? 0 : buffer->ncoming;
	return ok;
}

/* ---- savepoints ---- */

/*
 * An increment that is taken back has shown its client that there was a row, and nothing
 * else: under SERIALIZABLE that is certified as a foreign key's look is.
 */
static void
keep_look(MosqlTxn *txn, const MosqlChange *change)
{
	if (txn->isolation != MOSQL_SERIALIZABLE || change->kind != MOSQL_CHANGE_INCREMENT)
		return;
	change->entry->shown = true;
	txn->refers = true;
}

void
mosql_buffer_subabort(MosqlTxn *txn, int level)
{
	while (txn->journal != NULL && txn->journal->level >= level)
	{
		MosqlChange *change = txn->journal;

		Assert(change->entry->top == change);
		keep_look(txn, change);
		change->entry->top = change->older;
		if (change->older == NULL)
			change->entry->unchecked = false;	/* the insert is no more */
		txn->journal = change->earlier;
	}
	Assert(txn->journal == NULL || txn->journal->level < level);
	for (; txn->locks != NULL && txn->locks->level >= level; txn->locks = txn->locks->earlier)
	{
		txn->locks->entry->locked = txn->locks->was_locked;
		txn->locks->entry->pinned = false;
	}
	for (; txn->references != NULL && txn->references->level >= level;
		 txn->references = txn->references->earlier)
		txn->references->entry->referenced = false;
}

void
mosql_buffer_subcommit(MosqlTxn *txn, int level)
{
	for (MosqlChange *c = txn->journal; c != NULL && c->level >= level; c = c->earlier)
		c->level = level - 1;
	for (MosqlLock *lock = txn->locks; lock != NULL && lock->level >= level; lock = lock->earlier)
		lock->level = level - 1;
	for (MosqlReferenced *r = txn->references; r != NULL && r->level >= level; r = r->earlier)
		r->level = level - 1;
}

/* ---- reads that commit certifies ---- */

static void
note(MosqlTxn *txn, MosqlTree *tree, MosqlBytes low, MosqlBytes high, MosqlTimestamp S, bool range)
{
	MosqlRead  *read;

	/* a READ ONLY transaction stays one, but may have written before it became one; a
	 * subtransaction's end ends it */
	if ((XactReadOnly && GetCurrentTransactionNestLevel() == 1 && txn->journal == NULL) ||
		mosql_btree_root(tree) == MOSQL_CATALOG_ROOT || mosql_txn_has_made(txn, mosql_btree_root(tree)))
		return;
	if (txn->nreads == txn->maxreads)
	{
		int			max = Max(64, txn->maxreads * 2);
		MosqlRead  *grown = MemoryContextAllocHuge(txn->cxt, max * sizeof(MosqlRead));

		if (txn->nreads > 0)
		{
			memcpy(grown, txn->reads, txn->nreads * sizeof(MosqlRead));
			pfree(txn->reads);
		}
		txn->reads = grown;
		txn->maxreads = max;
	}
	mosql_txn_account(txn, sizeof(MosqlRead) + low.len + high.len);
	read = &txn->reads[txn->nreads++];
	read->tree = tree;
	read->range = range;
	read->S = S;
	read->low = mosql_bytes_copy(txn->cxt, low);
	read->high = mosql_bytes_copy(txn->cxt, high);
}

void
mosql_txn_note_read(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key)
{
	if (txn->isolation == MOSQL_SERIALIZABLE)
		note(txn, tree, key, MOSQL_ABSENT, 0, false);
}

void
mosql_txn_note_range(MosqlTxn *txn, MosqlTree *tree, MosqlBytes low, MosqlBytes high,
					 MosqlTimestamp S)
{
	note(txn, tree, low, high, S, true);
}

/* See txn.h. */
void
mosql_txn_settle_later(MosqlTxn *txn, MosqlSettleInserts settle, void *arg)
{
	Assert(txn->settle == NULL);
	txn->settle = settle;
	txn->settle_arg = arg;
}

void
mosql_txn_settle_inserts(MosqlTxn *txn)
{
	MosqlSettleInserts settle = txn->settle;

	if (settle == NULL)
		return;
	txn->settle = NULL;
	PG_TRY();
	{
		settle(txn->settle_arg);
	}
	PG_CATCH();
	{
		txn->settle = settle;
		PG_RE_THROW();
	}
	PG_END_TRY();
}
