/*
 * commit.c: the drive of a commit: prepare, decide, apply; again if need be.
 *
 * Layer: txn.  Runs in the pre-commit callback.  Two round trips when nothing
 * is in the way: prepare (all leaves in parallel) and decide; apply is sent and
 * not waited for.
 *
 *      attempt:  new transaction id
 *                prepare ---- conflict ----> release, 40001
 *                   |   \---- busy --------> release, wait, next attempt
 *                   |    \--- lost --------> release, next attempt
 *                decide ----- aborted -----> release, next attempt
 *                   |   \---- lease -------> release, new session, next attempt
 *                   |    \--- schema ------> release, check, next attempt or 40001
 *                   |     \-- unknown -----> 08007
 *                apply
 *
 * An attempt after "busy" or "aborted" is no weaker than the first: every
 * expectation is compared again.
 */
#include "postgres.h"

#include "access/xact.h"

#include "txn/txn_int.h"
#include "txn/xact_int.h"

int			mosql_txn_commit_timeout_ms = 10000;
MosqlSchemaCheck mosql_txn_schema_check = NULL;

/* ---- collecting what takes part ---- */

static MosqlParticipant *
participant(MosqlCommit *commit, MosqlTree *tree)
{
	for (int i = 0; i < commit->nparts; i++)
		if (commit->parts[i].tree == tree)
			return &commit->parts[i];
	commit->parts[commit->nparts].tree = tree;
	return &commit->parts[commit->nparts++];
}

/* An insert that this transaction took back itself leaves nothing to do. */
static bool
is_void(const MosqlEntryW *entry)
{
	return entry->top == NULL ||
		(entry->top->kind == MOSQL_CHANGE_DELETE && entry->top->base == MOSQL_BASE_ABSENT);
}

static void
report_conflict(MosqlSession *session, const char *detail)
{
	mosql_stats.conflicts++;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errdetail("%s", detail),
			 errhint("The transaction might succeed if retried.")));
}

static bool
add_writes(MosqlCommit *commit, MosqlBuffer *buffer)
{
	MosqlTxn   *txn = commit->txn;
	MosqlParticipant *part;
	bool		any = false;
	int			n = 0;

	for (MosqlEntryW *e = buffer->head[0]; e != NULL; e = e->next[0])
		n += !is_void(e) || e->locked || e->referenced;
	if (n == 0)
		return false;
	part = participant(commit, buffer->tree);
	part->items = MemoryContextAllocHuge(commit->cxt, n * sizeof(MosqlItem));
	memset(part->items, 0, n * sizeof(MosqlItem));
	for (MosqlEntryW *e = buffer->head[0]; e != NULL; e = e->next[0])
	{
		MosqlItem  *item;

		if (is_void(e) && !e->locked && !e->referenced)
			continue;
		item = &part->items[part->n++];
		item->key = e->key;
		if (is_void(e) && !e->locked)
		{
			item->kind = MOSQL_ITEM_REFERENCE;
			item->base = MOSQL_BASE_LIVE;
			continue;
		}
		if (is_void(e))
		{
			item->kind = MOSQL_ITEM_CHECK;
			item->exact = true;
			item->version = e->lock_version;
			continue;
		}
		any = true;
		item->kind = MOSQL_ITEM_WRITE;
		item->change = e->top;
		item->base = e->top->base;
		item->version = item->base == MOSQL_BASE_LIVE ? 0 : e->top->version;
		if (e->locked && e->top->version != e->lock_version)
			report_conflict(commit->session, "A row was changed by another transaction after this one had locked it.");
		if (txn->drawn && item->version > txn->S)
			report_conflict(commit->session, "A row was changed by a transaction that committed after this one's snapshot.");
	}
	return any;
}

static int
compare_reads(const void *a, const void *b)
{
	const MosqlRead *x = a,
			   *y = b;

	if (x->tree != y->tree)
		return x->tree < y->tree ? -1 : 1;
	if (x->range != y->range)
		return x->range ? -1 : 1;	/* ranges first */
	return mosql_bytes_compare(x->low, y->low);
}

/* Is key inside one of a participant's ranges (ascending, disjoint)? */
static bool
in_ranges(const MosqlParticipant *part, MosqlBytes key)
{
	int			lo = 0,
				hi = part->nranges;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (mosql_bytes_compare(part->ranges[mid].key, key) <= 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > 0 && (part->ranges[lo - 1].high.data == NULL ||
					  mosql_bytes_compare(key, part->ranges[lo - 1].high) < 0);
}

/* Append a range, joining it with the last one where they touch: as of the older. */
static void
add_range(MosqlParticipant *part, const MosqlRead *read)
{
	MosqlItem  *last = part->nranges > 0 ? &part->ranges[part->nranges - 1] : NULL;

	if (last != NULL && (last->high.data == NULL ||
						 mosql_bytes_compare(read->low, last->high) <= 0))
	{
		if (last->high.data != NULL &&
			(read->high.data == NULL || mosql_bytes_compare(read->high, last->high) > 0))
			last->high = read->high;
		last->version = Min(last->version, read->S);
		return;
	}
	part->ranges[part->nranges++] = (MosqlItem)
	{
		.kind = MOSQL_ITEM_RANGE, .key = read->low, .high = read->high, .version = read->S
	};
}

/*
 * The row of an increment was read as well (SERIALIZABLE): then it is an update
 * of the version that was read, and lets no other increment in.
 */
static void
bind_increment(MosqlCommit *commit, MosqlTree *tree, MosqlItem *item)
{
	if (item->kind != MOSQL_ITEM_WRITE || item->change->kind != MOSQL_CHANGE_INCREMENT)
		return;
	mosql_change_bind(commit->txn, tree, item->change->entry);
	item->base = MOSQL_BASE_VERSION;
	item->version = item->change->version;
}

/* Merge ascending checks into a participant's ascending items. */
static void
merge_checks(MosqlCommit *commit, MosqlParticipant *part, const MosqlRead *reads, int n)
{
	MosqlItem  *merged = MemoryContextAllocHuge(commit->cxt, (part->n + n) * sizeof(MosqlItem) + 1);
	int			m = 0,
				i = 0;

	for (int r = 0; r < n; r++)
	{
		if ((r > 0 && mosql_bytes_equal(reads[r].low, reads[r - 1].low)) ||
			in_ranges(part, reads[r].low))
			continue;
		while (i < part->n && mosql_bytes_compare(part->items[i].key, reads[r].low) < 0)
			merged[m++] = part->items[i++];
		if (i < part->n && mosql_bytes_equal(part->items[i].key, reads[r].low))
		{
			/* its write, or lock, compares as much, being referenced less */
			bind_increment(commit, part->tree, &part->items[i]);
			if (part->items[i].kind == MOSQL_ITEM_REFERENCE)
				part->items[i] = (MosqlItem)
				{
					.kind = MOSQL_ITEM_CHECK, .key = part->items[i].key
				};
			continue;
		}
		memset(&merged[m], 0, sizeof(MosqlItem));
		merged[m].kind = MOSQL_ITEM_CHECK;
		merged[m++].key = reads[r].low;
	}
	while (i < part->n)
		merged[m++] = part->items[i++];
	part->items = merged;
	part->n = m;
}

static void
add_reads(MosqlCommit *commit)
{
	MosqlTxn   *txn = commit->txn;

	qsort(txn->reads, txn->nreads, sizeof(MosqlRead), compare_reads);
	for (int i = 0; i < txn->nreads;)
	{
		MosqlTree  *tree = txn->reads[i].tree;
		MosqlParticipant *part = participant(commit, tree);
		int			first = i,
					keys;

		while (i < txn->nreads && txn->reads[i].tree == tree && txn->reads[i].range)
			i++;
		part->ranges = MemoryContextAllocHuge(commit->cxt, (i - first) * sizeof(MosqlItem) + 1);
		for (int r = first; r < i; r++)
			add_range(part, &txn->reads[r]);
		keys = i;
		while (i < txn->nreads && txn->reads[i].tree == tree)
			i++;
		for (int w = 0; w < part->n; w++)
			if (in_ranges(part, part->items[w].key))
				bind_increment(commit, tree, &part->items[w]);
		merge_checks(commit, part, txn->reads + keys, i - keys);
	}
}

/* Returns false if there is nothing to write. */
static bool
collect(MosqlCommit *commit)
{
	MosqlTxn   *txn = commit->txn;
	int			max = 0;
	bool		any = false;

	for (MosqlBuffer *b = txn->buffers; b != NULL; b = b->next_buffer)
		max++;
	for (int i = 0; i < txn->nreads; i++)
		max += i == 0 || txn->reads[i].tree != txn->reads[i - 1].tree;
	commit->parts = palloc0(max * sizeof(MosqlParticipant) + 1);
	for (MosqlBuffer *b = txn->buffers; b != NULL; b = b->next_buffer)
		any |= add_writes(commit, b);
	if (!any)
		return false;
	if (txn->nreads > 0)
		add_reads(commit);
	return true;
}

/* ---- room for new rows ---- */

static void
reserve(MosqlCommit *commit)
{
	for (int p = 0; p < commit->nparts; p++)
	{
		MosqlParticipant *part = &commit->parts[p];
		MosqlBytes *keys = NULL;
		size_t		bytes = 0;
		int			n = 0;

		for (int i = 0; i < part->n; i++)
		{
			const MosqlItem *item = &part->items[i];

			if (item->kind != MOSQL_ITEM_WRITE || item->base != MOSQL_BASE_ABSENT)
				continue;
			if (keys == NULL)
				keys = MemoryContextAllocHuge(commit->cxt, part->n * sizeof(MosqlBytes));
			keys[n++] = item->key;
			bytes += item->change->columns.len;
		}
		if (n > 0)
			mosql_btree_reserve(part->tree, keys, n, bytes / n + 1);
	}
}

/* ---- attempts ---- */

static void
start_attempt(MosqlCommit *commit)
{
	MemoryContextReset(commit->attempt_cxt);
	commit->tx = mosql_session_next_txid(commit->session);
	commit->breaks = mosql_redis_breaks(commit->session->redis);
	commit->nmarks = commit->maxmarks = 0;
	commit->marks = NULL;
	for (int p = 0; p < commit->nparts; p++)
	{
		MosqlParticipant *part = &commit->parts[p];

		for (int i = 0; i < part->n; i++)
			part->items[i].done = false;
		for (int i = 0; i < part->nranges; i++)
			part->ranges[i].done = false;
	}
}

/* Ranges move along while they are marked: put them back. */
static void
save_ranges(MosqlCommit *commit, MosqlBytes **saved)
{
	int			n = 0;

	for (int p = 0; p < commit->nparts; p++)
		n += commit->parts[p].nranges;
	*saved = palloc(n * sizeof(MosqlBytes) + 1);
	n = 0;
	for (int p = 0; p < commit->nparts; p++)
		for (int i = 0; i < commit->parts[p].nranges; i++)
			(*saved)[n++] = commit->parts[p].ranges[i].key;
}

static void
restore_ranges(MosqlCommit *commit, const MosqlBytes *saved)
{
	int			n = 0;

	for (int p = 0; p < commit->nparts; p++)
		for (int i = 0; i < commit->parts[p].nranges; i++)
			commit->parts[p].ranges[i].key = saved[n++];
}

/*
 * Somebody's intent is in the way: a short pause, for most owners are about to
 * apply.  (Prepare has dealt with those met before.)
 */
static void
wait_for_others(MosqlCommit *commit, int waits)
{
	MosqlBudget pause = commit->budget;

	mosql_stats.waits++;
	pause.attempts = Min(waits, 5);
	if (!mosql_budget_pause(&pause))
		report_conflict(commit->session, "Other transactions kept a row of this one busy for longer than mosql_fdw.commit_timeout.");
}

/*
 * A tree that was made under an id that this session no longer has may have been
 * swept away as a dead session's (sweep.c).  Decide refuses the id if it dies from
 * now on.
 */
static void
check_trees(const MosqlCommit *commit)
{
	for (const MosqlTreeNote *note = commit->txn->trees; note != NULL; note = note->next)
		if (!note->drop && note->sid != commit->tx.session)
			report_conflict(commit->session, "The session's lease ran out after this transaction created or truncated a table.");
}

/* One attempt; true when decided. */
static bool
attempt(MosqlCommit *commit, int tries)
{
	MosqlSession *session = commit->session;
	MosqlOutcome outcome;

	check_trees(commit);
	outcome = mosql_txn_prepare(commit);
	switch (outcome)
	{
		case MOSQL_PREPARED:
			MOSQL_DEBUG_POINT("after-prepare");
			break;
		case MOSQL_CONFLICT:
			report_conflict(session, "A row that this transaction read or wrote was changed by another one that committed first.");
			break;
		case MOSQL_BUSY:
			mosql_txn_release(commit);
			wait_for_others(commit, tries);
			return false;
		case MOSQL_AGAIN:
			mosql_txn_release(commit);
			if (!mosql_budget_pause(&commit->budget))
				report_conflict(session, "The transaction could not be prepared within mosql_fdw.commit_timeout.");
			return false;
	}

	/*
	 * A connection broke: perhaps a server failed that had taken an intent, and
	 * without copies its successor does not have it.
	 */
	if (commit->breaks != mosql_redis_breaks(session->redis))
	{
		mosql_txn_release(commit);
		if (!mosql_budget_pause(&commit->budget))
			report_conflict(session, "Connections to Redis broke while the transaction was prepared, until mosql_fdw.commit_timeout.");
		return false;
	}
	commit->pending = mosql_pending_make(commit);
	switch (mosql_txn_decide(commit))
	{
		case MOSQL_DECIDED:
			return true;
		case MOSQL_REFUSED_ABORTED:
			mosql_txn_release(commit);
			break;
		case MOSQL_REFUSED_LEASE:
			mosql_txn_release(commit);
			mosql_session_renew(session);
			break;
		case MOSQL_REFUSED_SCHEMA:
			mosql_txn_release(commit);
			if (mosql_txn_schema_check == NULL || !mosql_txn_schema_check(session))
				report_conflict(session, "The definition of a table was changed by another transaction.");
			commit->txn->schema = session->schema;
			break;
		case MOSQL_DECISION_LOST:
			pg_unreachable();
	}
	if (!mosql_budget_pause(&commit->budget))
		report_conflict(session, "The transaction was refused repeatedly until mosql_fdw.commit_timeout.");
	return false;
}

/*
 * An attempt that ends in an error is released, unless its outcome is unknown: then it
 * may be committed.  A termination in one of its waits is an error, too.
 */
static bool
guarded_attempt(MosqlCommit *commit, int tries)
{
	bool		decided = false;

	PG_TRY();
	{
		mosql_ends_with_error = true;
		decided = attempt(commit, tries);
		mosql_ends_with_error = false;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		mosql_ends_with_error = false;
		MemoryContextSwitchTo(commit->cxt);
		error = CopyErrorData();
		FlushErrorState();		/* the release handles errors of its own */
		if (error->sqlerrcode != ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN)
			mosql_txn_release(commit);
		else
		{
			commit->txn->trees = NULL;	/* made or dropped: nobody knows */
			mosql_pending_unknown(commit);
		}
		if (error->sqlerrcode == ERRCODE_UNDEFINED_TABLE)
			report_conflict(commit->session, "A table of this transaction was dropped or truncated by another one.");
		ReThrowError(error);
	}
	PG_END_TRY();
	return decided;
}

static void
run_attempts(MosqlCommit *commit)
{
	ErrorContextCallback context;
	MosqlBytes *ranges;

	save_ranges(commit, &ranges);
	mosql_txn_begin_read(commit->session, &context);
	reserve(commit);
	mosql_txn_end_read(&context);
	for (int tries = 0;; tries++)
	{
		restore_ranges(commit, ranges);
		start_attempt(commit);
		MOSQL_DEBUG_POINT("before-prepare");
		if (guarded_attempt(commit, tries))
			return;
		mosql_stats.prepare_retries++;
	}
}

/* ---- trees that come and go with the transaction ---- */

static void
settle_trees(MosqlTxn *txn, bool committed)
{
	for (MosqlTreeNote *note = txn->trees; note != NULL; note = note->next)
		if (note->drop == committed)
			mosql_session_add_garbage(txn->session, note->root);
	txn->trees = NULL;
}

void
mosql_txn_commit(MosqlTxn *txn)
{
	MosqlSession *session = txn->session;
	MemoryContext cxt = AllocSetContextCreate(txn->cxt, "mosql commit", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MosqlCommit commit = {.txn = txn, .session = session, .cxt = cxt};

	commit.attempt_cxt = AllocSetContextCreate(cxt, "mosql commit attempt", ALLOCSET_DEFAULT_SIZES);
	commit.budget = mosql_budget_start(mosql_txn_commit_timeout_ms);
	if (collect(&commit))
	{
		run_attempts(&commit);
		MOSQL_DEBUG_POINT("after-decide");
		mosql_txn_apply(&commit);
		mosql_stats.commits++;
		MOSQL_DEBUG_POINT("after-apply");
	}
	settle_trees(txn, true);
	mosql_session_collect_garbage(session);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

void
mosql_txn_abandon_trees(MosqlTxn *txn)
{
	settle_trees(txn, false);
}

/* ---- schema changes ---- */

void
mosql_txn_changes_schema(MosqlTxn *txn)
{
	txn->changes_schema = true;
}

static void
note_tree(MosqlTxn *txn, uint64 root, bool drop)
{
	MosqlTreeNote *note = MemoryContextAlloc(txn->cxt, sizeof(MosqlTreeNote));

	note->root = root;
	note->drop = drop;
	note->sid = txn->session->sid;
	note->level = GetCurrentTransactionNestLevel();
	note->next = txn->trees;
	txn->trees = note;
}

void
mosql_txn_created_tree(MosqlTxn *txn, uint64 root)
{
	note_tree(txn, root, false);
}

void
mosql_txn_drops_tree(MosqlTxn *txn, uint64 root)
{
	note_tree(txn, root, true);
}
