/*
 * lock.c: locks of rows, for pessimistic transactions.
 *
 * Layer: txn.  A lock is a claim in the row's intents field (claim.h), placed in the step
 * that reads the row (rules 28 to 32 in docs/commit.md).  Who has to wait stands in the
 * field's queue, and in a BLPOP on a connection of its own, until whoever lets it in has
 * left it a message there; once a second it looks for itself.
 *
 * All claims belong to one owner, an id of the transaction; they are remembered before
 * they are asked for, so that whatever happens they are taken back at its end.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

#include "code/claim.h"
#include "step/clock_wait.h"
#include "txn/txn_int.h"

int			mosql_txn_locking = MOSQL_OPTIMISTIC;

/* So long one BLPOP waits; then the waiter looks whether it is still in the queue. */
#define LISTEN_MS		1000

/* So often it tells its wait anew, for a clock that has forgotten it (a failover). */
#define TELL_ANEW		10

/* A row that may be locked since a savepoint: before that it was so. */
struct MosqlHeld
{
	struct MosqlHeld *earlier;
	struct MosqlHeld *previous;	/* of the same row */
	MosqlTree  *tree;
	MosqlEntryW *entry;
	int			level;			/* of the savepoint */
	int			before;			/* strength */
	bool		checked;		/* commit compared it already, */
	bool		pinned;			/* and its version */
};

/* ---- asking ---- */

typedef struct Request
{
	MosqlTxn   *txn;
	MosqlTree  *tree;
	MosqlBytes	key;
	MosqlClaim	claim;
	MosqlPoint	point;			/* as it was when the request was made, but the claims after it */
	bool		held;
} Request;

static MosqlBytes
claim_bytes(const MosqlClaim *claim)
{
	StringInfoData buf;

	mosql_string_init(&buf, MOSQL_CLAIM_BYTES);
	mosql_claim_encode(&buf, claim);
	return mosql_bytes_of(&buf);
}

MosqlBytes
mosql_lock_asked(MosqlTxid owner, int strength)
{
	StringInfoData buf;

	mosql_string_init(&buf, MOSQL_TXID_BYTES + 1);
	mosql_txid_put(&buf, owner);
	appendStringInfoChar(&buf, (char) strength);
	return mosql_bytes_of(&buf);
}

/* What a step does to the claims at a key. */
typedef struct ClaimChange
{
	MosqlBytes	key;
	MosqlWriteKind kind;		/* CLAIM a request, or UNLIST owners */
	MosqlBytes	value;
	uint64		leaf;			/* results: where it was done, */
	MosqlBytes	intents;		/* and the fields as they were before */
	MosqlBytes	row;			/* CLAIM */
	bool		done;
} ClaimChange;

/* Rows whose claims are changed at a time. */
#define CHANGES_MAX		4096

/* One leaf's step: the first n of the changes. */
static MosqlStep *
build_claim_step(const MosqlLeafGroup *group, ClaimChange **changes, int n)
{
	MosqlStep  *step = palloc0(sizeof(MosqlStep));

	step->node = group->leaf;
	step->repeatable = step->no_count = true;
	step->compares = palloc(sizeof(MosqlCompare));
	step->reads = palloc((2 * n + 1) * sizeof(MosqlBytes));
	step->writes = palloc(n * sizeof(MosqlWrite));
	mosql_step_expect(step, MOSQL_COMPARE_EQUAL, MOSQL_META_FIELD, 0,
					  mosql_generation_bytes(group->generation));
	step->reads[step->nreads++] = MOSQL_META_FIELD;
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	field = mosql_field_name(MOSQL_FIELD_INTENT, changes[i]->key);

		step->reads[step->nreads++] = field;
		step->reads[step->nreads++] = changes[i]->kind == MOSQL_WRITE_UNLIST ? field :
			mosql_field_name(MOSQL_FIELD_ROW, changes[i]->key);
		step->writes[step->nwrites++] = (MosqlWrite) {changes[i]->kind, field, changes[i]->value};
	}
	return step;
}

/*
 * One round: a step on each leaf of the changes (ascending) that are not done.  Returns how
 * many are left.
 */
static int
change_claims_once(MosqlTxn *txn, MosqlTree *tree, ClaimChange **changes, int n)
{
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	MosqlLeafGroup *groups;
	MosqlStep **steps;
	int			ngroups;
	int			left = n;

	for (int i = 0; i < n; i++)
		keys[i] = changes[i]->key;
	ngroups = mosql_btree_group(tree, keys, n, &groups);
	steps = palloc(ngroups * sizeof(MosqlStep *));
	for (int g = 0; g < ngroups; g++)
		steps[g] = build_claim_step(&groups[g], changes + groups[g].first, groups[g].n);
	mosql_step_run(&txn->session->stepper, steps, ngroups, NULL);
	for (int g = 0; g < ngroups; g++)
	{
		const MosqlStep *step = steps[g];

		if (step->status != MOSQL_STEP_DONE)
		{
			mosql_btree_observe(tree, step->node, step->values[0], -1);
			continue;
		}
		for (int i = 0; i < groups[g].n; i++)
		{
			ClaimChange *change = changes[groups[g].first + i];

			change->leaf = step->node;
			change->intents = step->values[1 + 2 * i];
			change->row = step->values[2 + 2 * i];
			change->done = true;
			left--;
		}
	}
	return left;
}

/* Changes of claims, in the order of their keys: one round trip, if nothing is in the way. */
static void
change_claims(MosqlTxn *txn, MosqlTree *tree, ClaimChange *changes, int n)
{
	MosqlBudget budget = mosql_budget_start(txn->session->config.redis.command_timeout_ms);
	ClaimChange **todo = palloc(n * sizeof(ClaimChange *));

	for (;;)
	{
		int			ntodo = 0;

		for (int i = 0; i < n && ntodo < CHANGES_MAX; i++)
			if (!changes[i].done)
				todo[ntodo++] = &changes[i];
		if (ntodo == 0)
			return;
		if (change_claims_once(txn, tree, todo, ntodo) < ntodo)
			budget = mosql_budget_start(txn->session->config.redis.command_timeout_ms);
		else if (!mosql_budget_pause(&budget))
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("leaves in namespace \"%s\" changed faster than rows could be locked",
							txn->session->config.ns)));
	}
}

/* What came of a request: the lock is there, or who is in its way is in `point`. */
static void
note_answer(Request *request, const ClaimChange *change)
{
	request->point = (MosqlPoint)
	{
		.leaf = change->leaf,.row = change->row,
		.intent = mosql_claims_request(change->intents, change->value)
	};
	request->held = request->point.intent.data != NULL &&
		mosql_claims_hold(request->point.intent,
						  mosql_lock_asked(request->claim.owner, request->claim.strength));
}

/* Ask for n locks of a tree, in the order of their keys. */
static void
ask(Request *requests, int n)
{
	ClaimChange *changes = palloc(n * sizeof(ClaimChange));

	for (int i = 0; i < n; i++)
		changes[i] = (ClaimChange) {requests[i].key, MOSQL_WRITE_CLAIM, claim_bytes(&requests[i].claim)};
	change_claims(requests[0].txn, requests[0].tree, changes, n);
	for (int i = 0; i < n; i++)
		note_answer(&requests[i], &changes[i]);
}

/* ---- waiting ---- */

/* Somebody is dead, and so are his claims. */
static void
take_out(Request *request, MosqlTxid owner)
{
	ClaimChange change = {request->key, MOSQL_WRITE_UNLIST, mosql_txid_bytes(owner)};

	change_claims(request->txn, request->tree, &change, 1);
}

/* Dead is dead: what was known so long ago serves who does not wait. */
#define SESSIONS_KNOWN_US	(1000 * 1000)

static const MosqlSessions *
sessions_lately(MosqlSession *session)
{
	MemoryContext old;

	if (mosql_now_us() - session->known_us < SESSIONS_KNOWN_US)
		return &session->known;
	if (session->known.live != NULL)
		pfree(session->known.live);
	session->known = (MosqlSessions) {0};
	old = MemoryContextSwitchTo(session->cxt);
	mosql_clock_sessions(&session->stepper, &session->known);
	MemoryContextSwitchTo(old);
	session->known_us = mosql_now_us();
	return &session->known;
}

/*
 * Intents in the way may be decided, or their owner dead; claims only the latter.  An
 * intent is asked about when it is met again, or at once.  True if anything has gone.
 */
static bool
clear_away(Request *request, const MosqlSessions *sessions, bool at_once)
{
	MosqlSession *session = request->txn->session;
	MosqlBytes	rest = request->point.intent;
	MosqlClaim	claim;
	MosqlIntent intent;
	bool		cleared = false;

	while (mosql_claim_next(&rest, &claim))
		if (mosql_clock_is_dead(sessions, claim.owner.session))
		{
			take_out(request, claim.owner);
			cleared = true;
		}
	while (mosql_intent_next(&rest, &intent) == 1)
	{
		MosqlBlocker blocker = {.tree = request->tree,.key = request->key,.tx = intent.tx};
		int64		since_us;

		if (mosql_recover_met(session, intent.tx, &since_us) || at_once)
			cleared |= mosql_recover_blocker(session, &blocker, since_us);
	}
	return cleared;
}

/* Whose lease is over is dead when somebody says so, now and then. */
static void
clear_queue(Request *request, bool expire)
{
	MosqlStepper *clock = &request->txn->session->stepper;
	MosqlSessions sessions = {0};

	if (expire)
		(void) mosql_clock_expire(clock, 16);
	mosql_clock_sessions(clock, &sessions);
	(void) clear_away(request, &sessions, false);
}

/* BLPOP keeps a connection for itself, whose waits are shown as those for locks of tuples. */
static MosqlRedis *
waiting_client(MosqlSession *session)
{
	MosqlRedisConfig config = session->config.redis;

	config.blocking_ms = LISTEN_MS;
	config.wait_event = PG_WAIT_LOCK | LOCKTAG_TUPLE;
	if (session->waiting == NULL)
		session->waiting = mosql_redis_open(&config, session->cxt);
	return session->waiting;
}

/*
 * Until a message comes, or so long.  A BLPOP that nobody waits for any more (a cancel)
 * would keep the connection busy, and take a message: then it is closed.
 */
static void
listen(Request *request, int64 ms)
{
	MosqlSession *session = request->txn->session;
	MosqlRedis *redis = waiting_client(session);
	MosqlBytes	list = mosql_step_wake_list(&session->stepper, request->point.leaf,
											mosql_txid_bytes(request->claim.owner));
	char		seconds[32];
	MosqlBytes	argv[] = {mosql_bytes("BLPOP", 5), list, mosql_bytes(seconds, 0)};
	MosqlBatch *batch = mosql_batch_create(redis, CurrentMemoryContext);
	int64		since_us = mosql_now_us();

	argv[2].len = snprintf(seconds, sizeof(seconds), "%.3f", (double) ms / 1000);
	mosql_batch_add(batch, mosql_redis_slot(list), MOSQL_SEND_REPEATABLE, lengthof(argv), argv);
	PG_TRY();
	{
		const MosqlReply *reply;

		mosql_batch_run(batch, NULL);
		reply = mosql_batch_reply(batch, 0, 0);
		/* UNBLOCKED: a failover.  Anything else, a right that is missing, would come at once */
		if (reply->kind != MOSQL_REPLY_ERROR || strncmp(reply->str.data, "UNBLOCKED", 9) != 0)
			mosql_reply_check(reply, "waiting for a lock");
	}
	PG_CATCH();
	{
		mosql_stats.lock_wait_us += mosql_now_us() - since_us;
		mosql_redis_close(session->waiting);
		session->waiting = NULL;
		PG_RE_THROW();
	}
	PG_END_TRY();
	mosql_stats.lock_wait_us += mosql_now_us() - since_us;
}

/* ---- deadlocks (rule 33) ---- */

/* Who is in the way of a wait in a field: owners of claims.  False if it is not there. */
static bool
find_ahead(MosqlBytes field, MosqlTxid owner, uint32 number, MosqlTxid *ahead, int *n)
{
	MosqlBytes	rest = field;
	MosqlClaim	claim,
				mine = {{0, 0}};

	while (mosql_claim_next(&rest, &claim))
		if (claim.kind == MOSQL_CLAIM_WAIT && claim.number == number &&
			mosql_txid_equal(claim.owner, owner))
			mine = claim;
	*n = 0;
	if (mine.strength == 0)
		return false;
	rest = field;
	while (mosql_claim_next(&rest, &claim) &&
		   !(claim.kind == MOSQL_CLAIM_WAIT && mosql_txid_equal(claim.owner, owner)))
		if (!mosql_txid_equal(claim.owner, owner) &&
			mosql_strength_excludes(mine.strength, claim.strength))
			ahead[(*n)++] = claim.owner;
	return true;
}

static MosqlTxid *
room_for_ahead(MosqlBytes field)
{
	return palloc((field.len / MOSQL_CLAIM_BYTES + 1) * sizeof(MosqlTxid));
}

/* Does it still wait there, in the same wait, and for that one? */
static bool
still_waits(MosqlSession *session, const MosqlWait *wait, MosqlTxid other)
{
	MosqlPoint	point;
	MosqlTxid  *ahead;
	int			n;

	memset(&point, 0, sizeof(point));
	mosql_btree_get(mosql_session_tree(session, wait->root), &wait->key, 1, &point);
	ahead = room_for_ahead(point.intent);
	if (!find_ahead(point.intent, wait->owner, wait->number, ahead, &n))
		return false;
	while (--n >= 0)
		if (mosql_txid_equal(ahead[n], other))
			return true;
	return false;
}

static void
report_deadlock(const MosqlWait *waits, const int *cycle, int n)
{
	StringInfoData detail;

	mosql_stats.deadlocks++;
	initStringInfo(&detail);
	for (int i = 0; i < n; i++)
	{
		const MosqlWait *wait = &waits[cycle[i]];
		MosqlTxid	next = waits[cycle[(i + 1) % n]].owner;

		appendStringInfo(&detail, "%sSession " UINT64_FORMAT " waits for session " UINT64_FORMAT " at a row of tree " UINT64_FORMAT ".",
						 i > 0 ? "\n" : "", wait->owner.session, next.session, wait->root);
	}
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected"),
			 errdetail_internal("%s", detail.data)));
}

/* The first edge of a cycle that is not so, -1 if all are. */
static int
disproved_edge(MosqlSession *session, const MosqlWait *waits, const int *cycle, int n)
{
	for (int i = 0; i < n; i++)
		if (!still_waits(session, &waits[cycle[i]], waits[cycle[(i + 1) % n]].owner))
			return i;
	return -1;
}

/* Waits of the dead are forgotten by whoever reads many, some at a time. */
#define WAITS_MANY		64

static void
forget_dead_waits(MosqlSession *session, const MosqlWait *waits, int n)
{
	const MosqlSessions *sessions = n > WAITS_MANY ? sessions_lately(session) : NULL;
	int			forgotten = 0;

	for (int i = 0; i < n && sessions != NULL && forgotten < WAITS_MANY; i++)
		if (mosql_clock_is_dead(sessions, waits[i].owner.session))
		{
			mosql_clock_wait_over(&session->stepper, &waits[i]);
			forgotten++;
		}
}

/* Tell the clock that we wait; 40P01 if that closes a circle. */
static void
check_deadlock(Request *request, MosqlWait *mine)
{
	MosqlSession *session = request->txn->session;
	MosqlTxid  *ahead = room_for_ahead(request->point.intent);
	MosqlWait  *waits;
	MosqlWaitEdge *without = NULL;
	int			nwithout = 0;
	int			n;
	int			length;
	int		   *cycle;

	*mine = (MosqlWait) {request->claim.owner, request->claim.number,
	mosql_btree_root(request->tree), request->key, 0, ahead};
	if (!find_ahead(request->point.intent, mine->owner, mine->number, ahead, &mine->nahead))
		return;
	request->txn->told = true;
	n = mosql_clock_wait(&session->stepper, mine, &waits);
	MOSQL_DEBUG_POINT("lock-told");
	forget_dead_waits(session, waits, n);
	cycle = palloc((n + 1) * sizeof(int));
	while ((length = mosql_waits_cycle(waits, n, mine->owner, without, nwithout, cycle)) > 0)
	{
		int			wrong = disproved_edge(session, waits, cycle, length);

		if (wrong >= 0)
		{
			without = without == NULL ? palloc(sizeof(MosqlWaitEdge)) :
				repalloc(without, (nwithout + 1) * sizeof(MosqlWaitEdge));
			without[nwithout++] = (MosqlWaitEdge)
			{
				waits[cycle[wrong]].owner, waits[cycle[(wrong + 1) % length]].owner
			};
			continue;
		}
		if (mosql_clock_deadlock(&session->stepper, waits, cycle, length))
			report_deadlock(waits, cycle, length);
		n = mosql_clock_waits(&session->stepper, &waits);
		cycle = palloc((n + 1) * sizeof(int));
	}
}

/* ---- the wait ---- */

/* Is the lock there?  Who is in the queue no more, after a failover, enters again. */
static void
look(Request *request)
{
	MosqlBytes	asked = mosql_lock_asked(request->claim.owner, request->claim.strength);
	MosqlTxid  *ahead;
	int			n;

	memset(&request->point, 0, sizeof(request->point));
	mosql_btree_get(request->tree, &request->key, 1, &request->point);
	ahead = room_for_ahead(request->point.intent);
	request->held = request->point.intent.data != NULL &&
		mosql_claims_hold(request->point.intent, asked);
	if (!request->held && !find_ahead(request->point.intent, request->claim.owner,
									  request->claim.number, ahead, &n))
		ask(request, 1);
}

/* When a wait ends without the lock: 55P03. */
static void
report_not_available(bool timeout)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 timeout ? errmsg("canceling statement due to lock timeout") :
			 errmsg("could not obtain lock on row")));
}

/* The sessions that are in its way, as text. */
static char *
sessions_ahead(const Request *request)
{
	MosqlTxid  *ahead = room_for_ahead(request->point.intent);
	StringInfoData out;
	int			n = 0;

	initStringInfo(&out);
	(void) find_ahead(request->point.intent, request->claim.owner, request->claim.number, ahead, &n);
	for (int i = 0; i < n; i++)
		appendStringInfo(&out, "%s" UINT64_FORMAT, i > 0 ? ", " : "", ahead[i].session);
	return out.data;
}

/* As for locks of PostgreSQL's own, if log_lock_waits is on. */
static void
log_wait(const Request *request, int64 waited_us, bool over)
{
	MosqlSession *session = request->txn->session;
	long		ms = (long) (waited_us / 1000);
	int			us = (int) (waited_us % 1000);

	if (over)
		ereport(LOG,
				(errmsg("process %d acquired a lock of a row in namespace \"%s\" after %ld.%03d ms",
						MyProcPid, session->config.ns, ms, us)));
	else
		ereport(LOG,
				(errmsg("process %d still waiting for a lock of a row in namespace \"%s\" after %ld.%03d ms",
						MyProcPid, session->config.ns, ms, us),
				 errdetail_internal("Session " UINT64_FORMAT " waits in tree " UINT64_FORMAT " for sessions: %s.",
								   session->sid, mosql_btree_root(request->tree), sessions_ahead(request)),
				 errhint("The view mosql_fdw_locks shows the row, and whose they are.")));
}

/*
 * How long one listens at a time: the waiter looks for itself then, and says that it waits
 * when deadlock_timeout is over.
 */
static int64
listening_ms(const MosqlSession *session, int64 deadline_us)
{
	int64		ms = Min(LISTEN_MS, session->config.redis.command_timeout_ms / 2);

	if (log_lock_waits)
		ms = Min(ms, DeadlockTimeout);
	if (deadline_us > 0)
		ms = Min(ms, (deadline_us - mosql_now_us()) / 1000);
	return Max(ms, 1);
}

/*
 * In the queue of a row until the lock is there.  The first look comes soon: who is in the
 * way may be a commit that is just being applied.
 */
static void
wait_in_queue(Request *request, int64 deadline_us)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql lock wait",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = CurrentMemoryContext;
	MosqlSession *session = request->txn->session;
	int64		since_us = mosql_now_us();
	bool		logged = false;
	MosqlWait	mine;

	mosql_stats.lock_waits++;
	MOSQL_DEBUG_POINT("lock-queued");
	check_deadlock(request, &mine);
	MemoryContextSwitchTo(cxt);
	for (int looks = 0;; looks++)
	{
		MemoryContextReset(cxt);	/* of the point only its leaf is used until it is read again */
		listen(request, listening_ms(session, deadline_us));
		look(request);
		if (request->held)
			break;
		if (log_lock_waits && !logged && mosql_now_us() - since_us >= (int64) DeadlockTimeout * 1000)
		{
			log_wait(request, mosql_now_us() - since_us, false);
			logged = true;
		}
		if (deadline_us > 0 && mosql_now_us() >= deadline_us)
			report_not_available(true);
		if (looks % TELL_ANEW == TELL_ANEW - 1)
			check_deadlock(request, &mine);
		clear_queue(request, looks % 3 == 0);
	}
	if (logged)
		log_wait(request, mosql_now_us() - since_us, true);
	MemoryContextSwitchTo(caller);
	request->point.row = mosql_bytes_copy(caller, request->point.row);
	request->point.intent = mosql_bytes_copy(caller, request->point.intent);
	mosql_clock_wait_over(&session->stepper, &mine);
	request->txn->told = false;
	MemoryContextDelete(cxt);
}

static int64
lock_deadline(void)
{
	return LockTimeout > 0 ? mosql_now_us() + (int64) LockTimeout * 1000 : 0;
}

/* ---- what is held ---- */

static MosqlTxid
owner_of(MosqlTxn *txn)
{
	if (txn->owner.session == 0)
	{
		mosql_session_keep_id(txn->session);
		mosql_txn_keep(txn);
		txn->owner = mosql_session_next_txid(txn->session, mosql_txn_age());
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

	if (entry->held != NULL && entry->held->level == level)
		return;
	mosql_txn_account(txn, sizeof(MosqlHeld));
	held = MemoryContextAlloc(txn->cxt, sizeof(MosqlHeld));
	*held = (MosqlHeld) {txn->held, entry->held, tree, entry, level, entry->strength, entry->locked,
	entry->pinned};
	txn->held = entry->held = held;
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
	*rows = palloc_extended((n + more + 1) * sizeof(MosqlLockedRow), MCXT_ALLOC_HUGE);
	n = 0;
	for (const MosqlHeld *held = newest; held != NULL; held = held->earlier)
		if (held->entry->held == held)	/* the newest of this row */
			(*rows)[n++] = (MosqlLockedRow) {mosql_btree_root(held->tree), held->entry->key};
	return n;
}

/* ---- letting go ---- */

typedef struct LettingGo
{
	MosqlTxn   *txn;
	MosqlTree  *tree;
	ClaimChange *changes;
	int			n;
} LettingGo;

/* A MosqlTreeWork. */
static void
let_go(void *arg)
{
	LettingGo  *work = arg;

	change_claims(work->txn, work->tree, work->changes, work->n);
}

/*
 * Throws nothing: what cannot be taken back goes with the session's id, which is given up.
 * That a tree is gone is no failure.
 */
static void
let_go_safely(LettingGo *work)
{
	MemoryContext caller = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount;

	HOLD_INTERRUPTS();			/* bounded by timeouts */
	PG_TRY();
	{
		(void) mosql_session_try_tree(let_go, work);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		InterruptHoldoffCount = held + 1;
		mosql_session_leave_locks(work->txn->session);
	}
	PG_END_TRY();
	RESUME_INTERRUPTS();
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

static ClaimChange
change_back(MosqlTxid owner, const MosqlHeld *held)
{
	MosqlClaim	lower = {owner, MOSQL_CLAIM_LOWER, held->before, 0};

	if (held->before > 0)
		return (ClaimChange) {held->entry->key, MOSQL_WRITE_CLAIM, claim_bytes(&lower)};
	return (ClaimChange) {held->entry->key, MOSQL_WRITE_UNLIST, mosql_txid_bytes(owner)};
}

/*
 * Let go of what was locked since a level, tree by tree, some thousand rows at a time.  After
 * a commit the rows that were written are left out: their locks have gone with the applies.
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
	int			n = 0;

	for (MosqlHeld *held = txn->held; held != NULL && held->level >= level; held = held->earlier)
		n++;
	rows = MemoryContextAllocHuge(cxt, n * sizeof(MosqlHeld *) + 1);
	work.changes = palloc(Min(n, CHANGES_MAX) * sizeof(ClaimChange));
	n = 0;
	for (; txn->held != NULL && txn->held->level >= level; txn->held = txn->held->earlier)
	{
		MosqlHeld  *held = txn->held;

		held->entry->strength = held->before;
		held->entry->locked = held->checked;
		held->entry->pinned = held->pinned;
		held->entry->held = held->previous;
		if ((held->previous == NULL || held->previous->level < level) &&
			!(committed && !mosql_entry_is_void(held->entry)))
			rows[n++] = held;
	}
	qsort(rows, n, sizeof(MosqlHeld *), compare_held);
	for (int i = 0; i < n; i++)
	{
		work.tree = rows[i]->tree;
		MemoryContextSwitchTo(round);
		work.changes[work.n++] = change_back(txn->owner, rows[i]);
		if (i + 1 < n && rows[i + 1]->tree == work.tree && work.n < CHANGES_MAX)
			continue;
		let_go_safely(&work);
		MemoryContextReset(round);
		work.n = 0;
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(cxt);
}

/* A wait that ended in an error is over, too.  Throws nothing: it is only kept by the clock. */
static void
end_told(MosqlTxn *txn)
{
	MemoryContext caller = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount;
	MosqlWait	last = {.owner = txn->owner,.number = txn->nwaits};

	if (!txn->told)
		return;
	txn->told = false;
	HOLD_INTERRUPTS();			/* bounded by timeouts */
	PG_TRY();
	{
		mosql_clock_wait_over(&txn->session->stepper, &last);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		InterruptHoldoffCount = held + 1;
	}
	PG_END_TRY();
	RESUME_INTERRUPTS();
}

void
mosql_locks_subabort(MosqlTxn *txn, int level)
{
	if (txn->held != NULL && txn->held->level >= level)
		take_back(txn, level, false);
	end_told(txn);
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
	end_told(txn);
	if (txn->owner.session != 0 && txn->claim_breaks != mosql_redis_breaks(txn->session->redis))
		mosql_session_leave_locks(txn->session);
}

/* ---- locked reads ---- */

static void
start_request(Request *request, MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength,
			  MosqlClaimKind kind)
{
	*request = (Request)
	{
		.txn = txn,.tree = tree,.key = key,
		.claim = {owner_of(txn), kind, strength, 0}
	};
}

/* The lock is there; that it was asked for was remembered. */
static void
note_held(Request *request)
{
	MosqlEntryW *entry = entry_of(request->txn, request->tree, request->key);

	mosql_stats.locks += entry->strength == 0;
	entry->strength = Max(entry->strength, (int) request->claim.strength);
}

/* One row: wait for it.  Its point is as it was when the lock was there. */
static void
wait_for_row(Request *request, int64 deadline_us)
{
	request->claim.kind = MOSQL_CLAIM_WAIT;
	request->claim.number = ++request->txn->nwaits;
	ask(request, 1);
	if (!request->held)
		wait_in_queue(request, deadline_us);
	note_held(request);
}

/*
 * Those behind a row that has to be waited for are let go again: else two transactions
 * that go through the same rows in the same order would wait for each other.
 */
static void
let_go_behind(Request *requests, int n)
{
	ClaimChange *changes = palloc(n * sizeof(ClaimChange));
	MosqlTxn   *txn = requests[0].txn;
	int			m = 0;

	for (int i = 0; i < n; i++)
	{
		MosqlEntryW *entry = entry_of(txn, requests[i].tree, requests[i].key);
		MosqlHeld	now = {.entry = entry,.before = entry->strength};

		if (requests[i].held && entry->strength < (int) requests[i].claim.strength)
			changes[m++] = change_back(txn->owner, &now);
		requests[i].held = false;
	}
	if (m > 0)
		change_claims(txn, requests[0].tree, changes, m);
}

/* All of them in the order of their keys, whoever has to be waited for. */
static void
lock_in_order(Request *requests, int n, int64 deadline_us)
{
	int			first = 0;

	while (first < n)
	{
		int			refused = first;

		ask(requests + first, n - first);
		while (refused < n && requests[refused].held)
			note_held(&requests[refused++]);
		if (refused == n)
			return;
		if (refused + 1 < n)
			let_go_behind(requests + refused + 1, n - refused - 1);
		wait_for_row(&requests[refused], deadline_us);
		first = refused + 1;
	}
}

/* What is there now, of rows that are locked: beside KEY SHARE somebody may be at work. */
static void
read_locked(Request *requests, int n, MosqlRow *rows)
{
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	MosqlPoint *points = palloc(n * sizeof(MosqlPoint));
	MosqlStatusCache cache = {0};
	MosqlTxn   *txn = requests[0].txn;

	for (int i = 0; i < n; i++)
	{
		keys[i] = requests[i].key;
		points[i] = requests[i].point;
	}
	mosql_points_settle(txn->session, requests[0].tree, keys, points, n, true, &cache);
	for (int i = 0; i < n; i++)
	{
		MosqlEntryW *entry = entry_of(txn, requests[i].tree, keys[i]);

		rows[i] = (MosqlRow) {.key = keys[i],.own = entry->top != NULL};
		rows[i].found = mosql_point_visible(txn->session, &points[i], points[i].leaf, MOSQL_TS_MAX,
											&cache, &rows[i].columns, &rows[i].version);
		entry->claimed = rows[i].version;
	}
}

/*
 * NOWAIT, SKIP LOCKED: what can be had at once, from those who are through, or dead, too.
 * Those that cannot are asked for no more.
 */
static void
lock_at_once(Request *requests, int n, LockWaitPolicy policy)
{
	bool		cleared = false;

	ask(requests, n);
	for (int i = 0; i < n; i++)
		if (!requests[i].held)
			cleared |= clear_away(&requests[i], sessions_lately(requests[i].txn->session), true);
	if (cleared)
		ask(requests, n);
	for (int i = 0; i < n; i++)
		if (requests[i].held)
			note_held(&requests[i]);
		else if (policy == LockWaitError)
			report_not_available(false);
}

void
mosql_txn_claim(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n, int strength,
				LockWaitPolicy policy, MosqlRow *rows, bool *locked)
{
	Request    *requests = palloc(n * sizeof(Request));
	Request    *held = palloc(n * sizeof(Request));
	MosqlRow   *found = palloc(n * sizeof(MosqlRow));
	ErrorContextCallback context;
	int			m = 0;

	mosql_txn_begin_read(txn->session, &context);
	for (int i = 0; i < n; i++)
	{
		MosqlEntryW *entry = entry_of(txn, tree, keys[i]);

		Assert(i == 0 || mosql_bytes_compare(keys[i - 1], keys[i]) < 0);
		start_request(&requests[i], txn, tree, entry->key, strength, MOSQL_CLAIM_LOCK);
		remember(txn, tree, entry);
	}
	if (policy == LockWaitBlock)
		lock_in_order(requests, n, lock_deadline());
	else
		lock_at_once(requests, n, policy);
	for (int i = 0; i < n; i++)
		if ((locked[i] = requests[i].held))
			held[m++] = requests[i];
	if (m > 0)
		read_locked(held, m, found);
	for (int i = n - 1; i >= 0; i--)
		rows[i] = locked[i] ? found[--m] : (MosqlRow) {.key = requests[i].key};
	mosql_txn_end_read(&context);
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

/* ---- locks that a commit meets ---- */

bool
mosql_lock_wait(MosqlCommit *commit)
{
	MosqlTxn   *txn = commit->txn;
	const MosqlBlocker *blocker = &commit->blocker;
	MosqlEntryW *entry = entry_of(txn, blocker->tree, blocker->key);
	int64		deadline = lock_deadline();
	Request		request;

	if (commit->limited)
		deadline = deadline > 0 ? Min(deadline, commit->budget.deadline_us) : commit->budget.deadline_us;
	remember(txn, blocker->tree, entry);
	start_request(&request, txn, blocker->tree, entry->key, blocker->strength, MOSQL_CLAIM_WAIT);
	wait_for_row(&request, deadline);
	if (!commit->limited)
		commit->budget = mosql_budget_start(mosql_txn_commit_timeout_ms);
	return true;
}
