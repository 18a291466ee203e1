/*
 * lock.c: locks of rows, for pessimistic transactions.
 *
 * Layer: txn.  A lock is a claim in the row's intents field (claim.h), placed in the step
 * that reads the row (rules 28 to 32 in docs/commit.md).  Who has to wait: lock_wait.c.
 *
 * All claims belong to one owner, an id of the transaction; they are remembered before
 * they are asked for, so that whatever happens they are taken back at its end.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/proc.h"

#include "txn/lock_int.h"
#include "txn/usual.h"

int			mosql_txn_locking = MOSQL_PESSIMISTIC;

/* A row that may be locked since a savepoint: before that it was so. */
struct MosqlHeld
{
	struct MosqlHeld *earlier;
	struct MosqlHeld *previous;	/* of the same row */
	MosqlTree  *tree;
	MosqlEntryW *entry;
	int			level;			/* of the savepoint */
	int			before;			/* strength */
};

/* ---- asking ---- */

static bool
all_held(const LockRequest *requests, int n)
{
	for (int i = 0; i < n; i++)
		if (!requests[i].held)
			return false;
	return true;
}

/*
 * Ask, and again if the dead were in the way: what a large transaction had locked that died
 * is had in a few round trips, and not by a wait for each row.
 */
static void
ask_past_dead(LockRequest *requests, int n)
{
	mosql_lock_ask(requests, n);
	if (!all_held(requests, n) &&
		mosql_lock_take_out_gone(requests, n, mosql_lock_sessions(requests[0].txn->session)))
		mosql_lock_ask(requests, n);
}

/* ---- what is held ---- */

static void
report_other_id(const MosqlTxn *txn)
{
	if (txn->owner.session != 0 && txn->owner.session != txn->session->sid && txn->held != NULL)
		mosql_lock_report_ended(txn);
}

/*
 * While the session holds locks beyond its transactions, these have one owner, and are one to
 * those who look for deadlocks.  40001 if the session was given another id since the
 * transaction locked: what it has is not held any more (rule 29).
 */
static MosqlTxid
owner_of(MosqlTxn *txn)
{
	MosqlSession *session = txn->session;

	report_other_id(txn);
	if (txn->owner.session == 0 || txn->owner.session != session->sid)
	{
		mosql_session_keep_id(session);
		mosql_txn_keep(txn);
		if (session->locks != NULL)
		{
			txn->owner = session->lock_owner;
			txn->nwaits = session->lock_waits;
		}
		else
			txn->owner = mosql_session_next_txid(session, mosql_txn_age());
		txn->claim_breaks = mosql_redis_breaks(txn->session->redis);
	}
	return txn->owner;
}

/* Before a lock is asked for, so that whatever happens it is taken back. */
static void
remember(MosqlTxn *txn, MosqlTree *tree, MosqlEntryW *entry)
{
	int			level = GetCurrentTransactionNestLevel();
	MosqlHeld  *held;

	entry->given_back = false;
	if (entry->held != NULL && entry->held->level == level)
		return;
	mosql_txn_account(txn, sizeof(MosqlHeld));
	held = MemoryContextAlloc(txn->cxt, sizeof(MosqlHeld));
	*held = (MosqlHeld) {txn->held, entry->held, tree, entry, level, entry->strength};
	txn->held = entry->held = held;
}

/* The newest that was remembered, as if it had been locked then: ROLLBACK TO a later savepoint leaves it. */
void
mosql_lock_hold_since(MosqlTxn *txn, MosqlEntryW *entry, int level)
{
	MosqlHeld  *held = entry->held;
	MosqlHeld **at = &txn->held;

	if (held->level <= level || held->previous != NULL)
		return;
	while (*at != held)
		at = &(*at)->earlier;
	*at = held->earlier;
	while (*at != NULL && (*at)->level > level)
		at = &(*at)->earlier;
	held->level = level;
	held->earlier = *at;
	*at = held;
}

static MosqlEntryW *
entry_of(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, true);
	MosqlEntryW *entry = mosql_buffer_lookup(buffer, key);

	return entry != NULL ? entry : mosql_buffer_add(txn, buffer, key);
}

int
mosql_txn_locked_rows(const MosqlSession *session, int more, MosqlLockedRow **rows)
{
	const MosqlHeld *newest = session->txn != NULL ? session->txn->held : NULL;
	int			n = 0;

	for (const MosqlHeld *held = newest; held != NULL; held = held->earlier)
		n++;
	for (const MosqlSessionLock *lock = session->locks; lock != NULL; lock = lock->next)
		n++;
	*rows = palloc_extended((n + more + 1) * sizeof(MosqlLockedRow), MCXT_ALLOC_HUGE);
	n = 0;
	for (const MosqlHeld *held = newest; held != NULL; held = held->earlier)
		if (held->entry->held == held)	/* the newest of this row */
			(*rows)[n++] = (MosqlLockedRow) {mosql_btree_root(held->tree), held->entry->key};
	for (const MosqlSessionLock *lock = session->locks; lock != NULL; lock = lock->next)
		(*rows)[n++] = (MosqlLockedRow) {lock->root, lock->key};
	return n;
}

/* ---- letting go ---- */

/*
 * When a server was silent for a command timeout the others are told yet, but not waited for as
 * long: half a second, and less with each that fails.
 */
#define LET_GO_US		(500 * 1000)
#define LET_GO_MIN_US	(20 * 1000)

typedef struct LettingGo
{
	MosqlTxn   *txn;
	int			failures;
	MosqlTree  *tree;
	LockChange *changes;
	int			n;
} LettingGo;

/* A MosqlTreeWork. */
static void
let_go_in_tree(void *arg)
{
	LettingGo  *work = arg;

	mosql_lock_change(work->txn->session, work->tree, work->changes, work->n);
}

static MosqlBytes
changed_key(const void *changes, int i)
{
	return ((const LockChange *) changes)[i].key;
}

static void
try_to_let_go(void *arg)
{
	(void) mosql_session_try_tree(let_go_in_tree, arg);
}

static int64
let_go_until(const LettingGo *work)
{
	if (work->failures == 0)
		return mosql_redis_timeout_us(work->txn->session->redis);
	return mosql_now_us() + Max(LET_GO_US / work->failures, LET_GO_MIN_US);
}

/*
 * Throws nothing: what cannot be taken back goes with the session's id, which is given up; if
 * it is needed yet, it is tried again.  That a tree is gone is no failure.
 *
 * Race -- a connection broke with a claim under way, which arrives after it was taken back.
 */
static void
let_go(LettingGo *work)
{
	MosqlSession *session = work->txn->session;
	int64		before = mosql_redis_hurry(session->redis, let_go_until(work));
	bool		done = mosql_do_quietly(try_to_let_go, work);

	(void) mosql_redis_hurry(session->redis, before);
	if (!done)
	{
		work->failures++;
		mosql_session_leave_locks(session);
	}
	if (!done || work->txn->claim_breaks != mosql_redis_breaks(session->redis))
		mosql_session_note_leftover(session, mosql_btree_root(work->tree), work->n, changed_key,
									work->changes);
}

static int
compare_held(const void *a, const void *b)
{
	const MosqlHeld *x = *(MosqlHeld *const *) a,
			   *y = *(MosqlHeld *const *) b;

	if (x->tree != y->tree)
		return x->tree < y->tree ? -1 : 1;
	return mosql_bytes_compare(x->entry->key, y->entry->key);
}

/* The lock is to be no stronger than that any more; 0: there is to be none. */
static LockChange
lowered(MosqlTxid owner, MosqlBytes key, int strength)
{
	MosqlClaim	lower = {owner, MOSQL_CLAIM_LOWER, strength, 0};

	if (strength > 0)
		return (LockChange) {key, MOSQL_WRITE_CLAIM, mosql_lock_claim_bytes(&lower)};
	return (LockChange) {key, MOSQL_WRITE_UNLIST, mosql_txid_bytes(owner)};
}

/* As it was, or as the session holds it beyond the transaction. */
static LockChange
change_back(MosqlTxn *txn, const MosqlHeld *held)
{
	MosqlBytes	key = held->entry->key;
	int			beyond = mosql_session_lock_strength(txn->session, mosql_btree_root(held->tree), key);

	return lowered(txn->owner, key, Max(held->before, beyond));
}

void
mosql_lock_lower(MosqlSession *session, MosqlTree *tree, MosqlBytes key, int strength)
{
	LockChange change = lowered(session->lock_owner, key, strength);

	mosql_lock_change(session, tree, &change, 1);
}

void
mosql_lock_take_again(MosqlSession *session, MosqlTree *tree, const MosqlBytes *keys, int n)
{
	LockChange *changes = palloc_extended(n * sizeof(LockChange), MCXT_ALLOC_HUGE);
	uint64		root = mosql_btree_root(tree);

	for (int i = 0; i < n; i++)
		changes[i] = lowered(session->lock_owner, keys[i],
							 mosql_session_lock_strength(session, root, keys[i]));
	mosql_lock_change(session, tree, changes, n);
}

/* Others may write the row from here on. */
static void
drop_row(MosqlEntryW *entry)
{
	if (entry->strength < MOSQL_SHARE)
		entry->kept = MOSQL_ABSENT;
}

/*
 * Let go of what was locked since a level, tree by tree, some thousand rows at a time.  After
 * a commit the rows that were written are left out: their locks have gone with the applies.  So
 * is what was given back already, if no connection broke that may carry a claim of it.
 */
static void
take_back(MosqlTxn *txn, int level, bool committed)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql unlock",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext round = AllocSetContextCreate(cxt, "mosql unlock round", ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(cxt);
	MosqlHeld **rows;
	LettingGo	work = {txn};
	bool		unbroken = txn->claim_breaks == mosql_redis_breaks(txn->session->redis);
	int			n = 0;

	for (MosqlHeld *held = txn->held; held != NULL && held->level >= level; held = held->earlier)
		n++;
	rows = MemoryContextAllocHuge(cxt, n * sizeof(MosqlHeld *) + 1);
	work.changes = palloc(Min(n, MOSQL_LOCK_CHANGES) * sizeof(LockChange));
	n = 0;
	for (; txn->held != NULL && txn->held->level >= level; txn->held = txn->held->earlier)
	{
		MosqlHeld  *held = txn->held;

		held->entry->strength = held->before;
		drop_row(held->entry);
		held->entry->held = held->previous;
		if ((held->previous == NULL || held->previous->level < level) &&
			!(committed && !mosql_entry_is_void(held->entry)) && !(held->entry->given_back && unbroken))
			rows[n++] = held;
	}
	qsort(rows, n, sizeof(MosqlHeld *), compare_held);
	for (int i = 0; i < n; i++)
	{
		work.tree = rows[i]->tree;
		MemoryContextSwitchTo(round);
		work.changes[work.n++] = change_back(txn, rows[i]);
		if (i + 1 < n && rows[i + 1]->tree == work.tree && work.n < MOSQL_LOCK_CHANGES)
			continue;
		let_go(&work);
		MemoryContextReset(round);
		work.n = 0;
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(cxt);
}

void
mosql_locks_subabort(MosqlTxn *txn, int level)
{
	if (txn->held != NULL && txn->held->level >= level)
		take_back(txn, level, false);
	mosql_lock_end_told(txn);
	mosql_txn_end_along(txn);
}

void
mosql_locks_subcommit(MosqlTxn *txn, int level)
{
	for (MosqlHeld *held = txn->held; held != NULL && held->level >= level; held = held->earlier)
		held->level = level - 1;
}

/*
 * Race -- a connection broke with a claim under way, which arrives after it was taken back:
 * then it is to be that of a dead session, soon.
 */
void
mosql_locks_end(MosqlTxn *txn, bool committed)
{
	if (txn->held != NULL)
		take_back(txn, 0, committed);
	/* that its last wait is over may have been lost */
	txn->told |= txn->nwaits > 0 && txn->claim_breaks != mosql_redis_breaks(txn->session->redis);
	if (committed)
	{
		mosql_looks_end(txn);
		mosql_usual_end(txn);
	}
	mosql_lock_end_told(txn);
	if (txn->owner.session != 0)
		txn->session->lock_waits = txn->nwaits;
	if (txn->owner.session != 0 && txn->claim_breaks != mosql_redis_breaks(txn->session->redis))
		mosql_session_leave_locks(txn->session);
}

/* So many rows of a process that ends; of more the locks go with the session. */
#define TOLD_ROWS_MAX	256

/*
 * The process ends, and an ERROR is FATAL: so nothing is looked up, and what is sent is not waited for here.  Who waits for a row that is
 * given back in vain, for its leaf is elsewhere by now, finds the session gone (32).
 */
void
mosql_locks_tell(MosqlTxn *txn)
{
	MosqlSession *session = txn->session;
	MemoryContext cxt,
				caller;
	MosqlHeld  *rows[TOLD_ROWS_MAX];
	LockChange	changes[TOLD_ROWS_MAX];
	LockChange *pointers[TOLD_ROWS_MAX];
	int			n = 0;

	if (txn->owner.session == 0 || session->stepper.engine != MOSQL_ENGINE_SCRIPT)
		return;
	cxt = AllocSetContextCreate(session->cxt, "mosql last unlock", ALLOCSET_DEFAULT_SIZES);
	caller = MemoryContextSwitchTo(cxt);
	for (MosqlHeld *held = txn->held; held != NULL && n < TOLD_ROWS_MAX; held = held->earlier)
		if (held->entry->held == held)	/* the newest of this row */
			rows[n++] = held;
	qsort(rows, n, sizeof(MosqlHeld *), compare_held);
	mosql_redis_cork(session->redis);
	for (int i = 0, first = 0; i < n; i++)
	{
		changes[i] = lowered(txn->owner, rows[i]->entry->key, 0);
		pointers[i] = &changes[i];
		if (i + 1 < n && rows[i + 1]->tree == rows[i]->tree)
			continue;
		mosql_lock_send_changes(session, rows[i]->tree, pointers + first, i + 1 - first);
		first = i + 1;
	}
	mosql_redis_uncork(session->redis);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(cxt);
}

/* ---- locked reads ---- */

static int64
lock_deadline(void)
{
	return LockTimeout > 0 ? mosql_now_us() + (int64) LockTimeout * 1000 : 0;
}

/*
 * What is relied on at a row: by the transaction, or by its session beyond it, unless that does not know itself whether
 * it has given that back (session_lock.c).  0: nothing.
 */
static int
relied_on(const MosqlTxn *txn, MosqlTree *tree, const MosqlEntryW *entry)
{
	const MosqlSession *session = txn->session;
	int			own = entry->relied_on ? entry->strength : 0;

	if (session->locks == NULL || session->lock_breaks == PG_UINT64_MAX)
		return own;
	return Max(own, mosql_session_lock_strength(session, mosql_btree_root(tree), entry->key));
}

static void
start_request(LockRequest *request, MosqlTxn *txn, MosqlTree *tree, const MosqlEntryW *entry, int strength,
			  MosqlClaimKind kind)
{
	*request = (LockRequest)
	{
		.txn = txn,.tree = tree,.key = entry->key,
		.claim = {owner_of(txn), kind, strength, 0},
		.sure = entry->sure,
		.relied_on = relied_on(txn, tree, entry)
	};
}

/* The lock is there; that it was asked for was remembered. */
static void
note_held(LockRequest *request)
{
	MosqlEntryW *entry = entry_of(request->txn, request->tree, request->key);

	mosql_stats.locks += entry->strength == 0;
	entry->strength = Max(entry->strength, (int) request->claim.strength);
}

/* One row: wait for it.  Its point is as it was when the lock was there. */
static void
wait_for_row(LockRequest *request, int64 deadline_us)
{
	request->claim.kind = MOSQL_CLAIM_WAIT;
	request->claim.number = ++request->txn->nwaits;
	mosql_lock_ask(request, 1);
	if (!request->held)
		mosql_lock_queue(request, deadline_us);
	note_held(request);
}

/*
 * Those behind a row that has to be waited for are let go again: else two transactions
 * that go through the same rows in the same order would wait for each other.
 */
static void
let_go_behind(LockRequest *requests, int n)
{
	LockChange *changes = palloc(n * sizeof(LockChange));
	MosqlTxn   *txn = requests[0].txn;
	int			m = 0;

	for (int i = 0; i < n; i++)
	{
		MosqlEntryW *entry = entry_of(txn, requests[i].tree, requests[i].key);
		MosqlHeld	now = {.tree = requests[i].tree,.entry = entry,.before = entry->strength};

		if (requests[i].held && entry->strength < (int) requests[i].claim.strength)
			changes[m++] = change_back(txn, &now);
		requests[i].held = false;
	}
	if (m > 0)
		mosql_lock_change(txn->session, requests[0].tree, changes, m);
}

/* All of them in the order of their keys, whoever has to be waited for. */
static void
lock_in_order(LockRequest *requests, int n, int64 deadline_us)
{
	int			first = 0;

	while (first < n - 1)
	{
		int			refused = first;

		ask_past_dead(requests + first, n - first);
		while (refused < n && requests[refused].held)
			note_held(&requests[refused++]);
		if (refused == n)
			return;
		if (refused + 1 < n)
			let_go_behind(requests + refused + 1, n - refused - 1);
		wait_for_row(&requests[refused], deadline_us);
		first = refused + 1;
	}
	/* nothing behind the last one is to be let go of: it queues where it is refused */
	if (first < n)
		wait_for_row(&requests[first], deadline_us);
}

/*
 * Nobody else writes the row while it is locked SHARE or more: who changes it next need not read
 * it again.  A lock that is lost meanwhile is an error at COMMIT, as ever (29).  Of many rows some.
 */
static void
keep_row(MosqlTxn *txn, MosqlEntryW *entry, const MosqlRow *row)
{
	entry->kept = MOSQL_ABSENT;
	if (!row->found || row->own || entry->strength < MOSQL_SHARE || entry->strength > MOSQL_UPDATE ||
		txn->kept_bytes + row->columns.len > MOSQL_LOCKED_ROWS_BYTES)
		return;
	txn->kept_bytes += row->columns.len;
	mosql_txn_account(txn, row->columns.len);
	entry->kept = mosql_bytes_copy(txn->cxt, row->columns);
}

/* What is there now, of rows that are locked: beside KEY SHARE somebody may be at work. */
static void
read_locked(LockRequest *requests, int n, MosqlRow *rows)
{
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	MosqlPoint *points = palloc(n * sizeof(MosqlPoint));
	MosqlTxn   *txn = requests[0].txn;

	for (int i = 0; i < n; i++)
	{
		keys[i] = requests[i].key;
		points[i] = requests[i].point;
	}
	mosql_points_latest(txn->session, requests[0].tree, keys, points, n, rows);
	for (int i = 0; i < n; i++)
	{
		MosqlEntryW *entry = entry_of(txn, requests[i].tree, keys[i]);

		rows[i].own = entry->top != NULL;
		entry->claimed = rows[i].version;
		entry->kept = MOSQL_ABSENT; /* of another version perhaps */
		if (rows[i].own && rows[i].found && !mosql_txn_is_newer(txn, rows[i].version))
			mosql_change_rebase(txn, entry, &rows[i]);
	}
}

/*
 * NOWAIT, SKIP LOCKED: what can be had at once, from those who are through, or dead, too.
 * Those that cannot are asked for no more.
 */
static void
lock_at_once(LockRequest *requests, int n, LockWaitPolicy policy)
{
	bool		cleared = false;

	for (int i = 0; i < n; i++)
		requests[i].at_once = true;
	mosql_lock_ask(requests, n);
	for (int i = 0; i < n; i++)
		if (!requests[i].held)
			cleared |= mosql_lock_clear_away(&requests[i]);
	if (cleared)
		mosql_lock_ask(requests, n);
	for (int i = 0; i < n; i++)
		if (requests[i].held)
			note_held(&requests[i]);
		else if (policy == LockWaitError)
			mosql_lock_not_available(false);
}

/* Requests for locks of n keys, which are remembered. */
static LockRequest *
start_requests(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n, int strength)
{
	LockRequest *requests = palloc(n * sizeof(LockRequest));

	for (int i = 0; i < n; i++)
	{
		MosqlEntryW *entry = entry_of(txn, tree, keys[i]);

		Assert(i == 0 || mosql_bytes_compare(keys[i - 1], keys[i]) < 0);
		start_request(&requests[i], txn, tree, entry, strength, MOSQL_CLAIM_LOCK);
		remember(txn, tree, entry);
	}
	return requests;
}

void
mosql_txn_claim(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n, int strength,
				LockWaitPolicy policy, MosqlRow *rows, bool *locked)
{
	LockRequest *	requests;
	LockRequest *	held = palloc(n * sizeof(LockRequest));
	MosqlRow   *found = palloc(n * sizeof(MosqlRow));
	ErrorContextCallback context;
	int			m = 0;

	mosql_txn_begin_read(txn->session, &context);
	requests = start_requests(txn, tree, keys, n, strength);
	if (policy == LockWaitBlock)
		lock_in_order(requests, n, lock_deadline());
	else
		lock_at_once(requests, n, policy);
	for (int i = 0; i < n; i++)
		if ((locked[i] = requests[i].held))
			held[m++] = requests[i];
	if (m > 0)
		read_locked(held, m, found);
	for (int i = 0; i < m; i++)
		keep_row(txn, entry_of(txn, tree, held[i].key), &found[i]);
	for (int i = n - 1; i >= 0; i--)
		rows[i] = locked[i] ? found[--m] : (MosqlRow) {.key = requests[i].key};
	mosql_txn_end_read(&context);
}

/* ---- rows that foreign keys lead to, along with the keys that lead there ---- */

typedef struct MosqlAlong
{
	MosqlTree  *tree;
	const MosqlBytes *keys;
	int			n;
} MosqlAlong;

/* See txn.h. */
void
mosql_txn_refer_along(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n)
{
	if (txn->nalong == MOSQL_ALONG_MAX)
		return;
	if (txn->along == NULL)
		txn->along = MemoryContextAlloc(txn->cxt, MOSQL_ALONG_MAX * sizeof(MosqlAlong));
	txn->along[txn->nalong++] = (MosqlAlong) {tree, keys, n};
}

void
mosql_txn_end_along(MosqlTxn *txn)
{
	txn->nalong = 0;
}

/* Are all locked, and there, whatever becomes of those who are at work there? */
static bool
are_there(LockRequest *requests, int n)
{
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	intents;
		MosqlIntent intent;
		MosqlVersion newest;

		if (!requests[i].held)
			return false;
		mosql_point_ignore_harmless(&requests[i].point);
		intents = requests[i].point.intent;
		if (requests[i].point.row.data == NULL || mosql_intent_next(&intents, &intent) != 0 ||
			!mosql_row_newest(requests[i].point.row, &newest) || !newest.live)
			return false;
	}
	return true;
}

static void
note_parents(MosqlTxn *txn, const LockGroup *group)
{
	MosqlRow   *rows = palloc(group->n * sizeof(MosqlRow));

	for (int i = 0; i < group->n; i++)
		note_held(&group->requests[i]);
	read_locked(group->requests, group->n, rows);
	for (int i = 0; i < group->n; i++)
		mosql_txn_note_referenced(txn, group->requests[i].tree, group->requests[i].key);
}

/*
 * The first question for n keys of rows that come, in one round trip with that for the rows that these lead to.  The latter counts
 * if all of both is had at once.  Else what is had of it is given back: who has to wait for a key, or for one of those
 * rows, would hold others meanwhile that he comes to only after that, and two could wait for each other that PostgreSQL lets pass.
 */
static void
ask_with_parents(MosqlTxn *txn, LockRequest *requests, int n)
{
	LockGroup	groups[1 + MOSQL_ALONG_MAX] = {{requests, n}};
	int			ngroups = 1;
	bool		had;

	for (; ngroups <= txn->nalong; ngroups++)
	{
		const MosqlAlong *along = &txn->along[ngroups - 1];

		groups[ngroups] = (LockGroup) {start_requests(txn, along->tree, along->keys, along->n, MOSQL_KEY_SHARE), along->n};
	}
	txn->nalong = 0;
	mosql_lock_ask_together(groups, ngroups);
	had = all_held(requests, n);
	for (int g = 1; g < ngroups; g++)
		had &= are_there(groups[g].requests, groups[g].n);
	for (int g = 1; g < ngroups; g++)
		if (had)
			note_parents(txn, &groups[g]);
		else
			let_go_behind(groups[g].requests, groups[g].n);
}

/* The first of n that are locked that has a row and is not to leave, n if there is none. */
static int
first_found(LockRequest *requests, const bool *leaves, int n, MosqlRow *rows)
{
	int			i = 0;

	if (n > 0)
		read_locked(requests, n, rows);
	while (i < n && !(rows[i].found && !(leaves != NULL && leaves[i])))
		i++;
	return i;
}

/*
 * As lock_in_order(), no further than to the first that is there.  Who finds it so holds that
 * one alone of those that are there: two that wait for each other would else be one who
 * inserts a value that is there, and then waits at another, and one who takes the former away.
 */
static int
lock_until_found(LockRequest *requests, const bool *leaves, int n, int64 deadline_us, MosqlRow *rows)
{
	int			first = 0;
	MosqlTxn   *txn = requests[0].txn;

	while (first < n)
	{
		int			end = first;	/* of those that are had at once */
		int			found;

		if (txn->nalong > 0)
			ask_with_parents(txn, requests, n);
		if (!all_held(requests + first, n - first))
			ask_past_dead(requests + first, n - first);
		while (end < n && requests[end].held)
			end++;
		found = first + first_found(requests + first, leaves ? leaves + first : NULL, end - first,
									rows + first);
		for (int i = first; i < end && i <= found; i++)
			note_held(&requests[i]);
		if (found + 1 < n)
			let_go_behind(requests + found + 1, n - found - 1);
		if (found < end || found == n)
			return found;
		wait_for_row(&requests[found], deadline_us);
		if (first_found(&requests[found], leaves ? leaves + found : NULL, 1, &rows[found]) == 0)
			return found;
		first = found + 1;
	}
	return n;
}

int
mosql_txn_claim_free(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, const bool *leaves,
					 int n, MosqlRow *rows)
{
	ErrorContextCallback context;
	int			found;

	mosql_txn_begin_read(txn->session, &context);
	found = lock_until_found(start_requests(txn, tree, keys, n, MOSQL_UPDATE), leaves, n,
							 lock_deadline(), rows);
	mosql_txn_end_read(&context);
	return found;
}

/*
 * The answers would say nothing that is not known.  A lock that is not had, or lost, is one that others need
 * not wait for; that it may be there is remembered, so that it is taken back.
 *
 * Race -- it is asked for after it was taken back: the later steps of this session go over the same
 * connection, or one broke (take_back()).
 */
void
mosql_txn_claim_ahead(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n)
{
	LockRequest *requests;
	ErrorContextCallback context;

	mosql_txn_begin_read(txn->session, &context);
	requests = start_requests(txn, tree, keys, n, MOSQL_UPDATE);
	if (txn->session->stepper.engine == MOSQL_ENGINE_WATCH)
		mosql_lock_ask(requests, n);
	else
		mosql_lock_ask_ahead(requests, n);
	mosql_txn_end_read(&context);
}

int
mosql_txn_strength(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, false);
	const MosqlEntryW *entry = buffer ? mosql_buffer_lookup(buffer, key) : NULL;

	return entry ? entry->strength : 0;
}

bool
mosql_txn_rely_on_claim(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength,
						LockWaitPolicy policy, MosqlRow *row)
{
	MosqlEntryW *entry = entry_of(txn, tree, key);
	bool		locked = true;

	report_other_id(txn);
	entry->sure = true;
	if (!entry->relied_on || entry->strength < strength)
		mosql_txn_claim(txn, tree, &key, 1, strength, policy, row, &locked);
	entry->relied_on |= locked;
	return locked;
}

void
mosql_txn_lower(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength)
{
	MosqlEntryW *entry = entry_of(txn, tree, key);
	MosqlHeld	earlier = {.tree = tree,.entry = entry,.before = strength};
	ErrorContextCallback context;
	LockChange change;

	if (entry->strength <= strength)
		return;
	change = change_back(txn, &earlier);
	mosql_txn_begin_read(txn->session, &context);
	mosql_lock_change(txn->session, tree, &change, 1);
	mosql_txn_end_read(&context);
	entry->strength = strength;
	drop_row(entry);
	entry->given_back = strength == 0;
}

/*
 * What is locked is the session's from here on: the transaction, which had remembered it, has
 * what it had before.
 */
bool
mosql_lock_for_session(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength,
					   LockWaitPolicy policy)
{
	MosqlEntryW *entry = entry_of(txn, tree, key);
	MosqlHeld  *newest = txn->held;
	int			before = entry->strength;
	MosqlRow	row;
	bool		locked;

	entry->sure = true;
	mosql_txn_claim(txn, tree, &key, 1, strength, policy, &row, &locked);
	entry->strength = before;
	if (txn->held != newest)
	{
		Assert(txn->held == entry->held && txn->held->earlier == newest);
		entry->held = entry->held->previous;
		txn->held = newest;
	}
	return locked;
}

bool
mosql_txn_is_locked_out(const MosqlTxn *txn, MosqlBytes field, int strength)
{
	MosqlClaim	claim;

	while (mosql_claim_next(&field, &claim))
		if (claim.kind == MOSQL_CLAIM_LOCK && !mosql_txid_equal(claim.owner, txn->owner) &&
			mosql_strength_excludes(strength, claim.strength))
			return true;
	return false;
}

/*
 * A row that this transaction has inserted is seen by nobody.  One that it has changed is
 * what it was when it was changed, or the commit fails.
 */
bool
mosql_txn_has_claimed(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, MosqlTimestamp version,
					  int strength)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, false);
	const MosqlEntryW *entry = buffer ? mosql_buffer_lookup(buffer, key) : NULL;

	if (entry == NULL)
		return false;
	if (entry->top != NULL && entry->top->base == MOSQL_BASE_ABSENT)
		return true;
	return entry->strength >= strength && (entry->top != NULL || entry->claimed == version);
}

bool
mosql_txn_locked_row(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength, MosqlRow *row)
{
	MosqlBuffer *buffer = mosql_buffer_find(txn, tree, false);
	const MosqlEntryW *entry = buffer ? mosql_buffer_lookup(buffer, key) : NULL;

	if (entry == NULL || entry->top != NULL || entry->strength < strength || entry->kept.data == NULL)
		return false;
	*row = (MosqlRow) {.found = true,.key = entry->key,.columns = entry->kept,.version = entry->claimed};
	return true;
}

/* ---- locks that a commit meets ---- */

/*
 * As what a commit waits there: who has locked the table in a mode (rule 37), and changes its
 * definition now, as for the strongest mode, for which the one that it has does not do.
 */
static int
wait_strength(const MosqlEntryW *entry, int strength)
{
	return entry->strength > MOSQL_TABLE_MODE && strength < MOSQL_TABLE_MODE ?
		MOSQL_TABLE_MODE_MAX : strength;
}

void
mosql_lock_wait(MosqlCommit *commit)
{
	MosqlTxn   *txn = commit->txn;
	const MosqlBlocker *blocker = &commit->blocker;
	MosqlEntryW *entry = entry_of(txn, blocker->tree, blocker->key);
	int64		deadline = lock_deadline();
	LockRequest		request;

	if (commit->limited)
		deadline = deadline > 0 ? Min(deadline, commit->budget.deadline_us) : commit->budget.deadline_us;
	start_request(&request, txn, blocker->tree, entry,
				  wait_strength(entry, blocker->strength), MOSQL_CLAIM_WAIT);
	remember(txn, blocker->tree, entry);
	request.at_commit = true;
	wait_for_row(&request, deadline);
	if (!commit->limited)
		commit->budget = mosql_budget_start(mosql_txn_commit_timeout_ms);
}
