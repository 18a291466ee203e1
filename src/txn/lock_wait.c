/*
 * lock_wait.c: waiting for locks of rows, and deadlocks.
 *
 * Layer: txn.  Who has to wait stands in the queue of the row's intents field, and in a BLPOP
 * on a connection of its own, until whoever lets it in has left it a message there; once a
 * second it looks for itself.  Whom it waits for the clock knows, where circles are found
 * (rule 33 in docs/commit.md).
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

#include "step/clock_wait.h"
#include "txn/lock_int.h"
#include "txn/recover.h"

/* So long one BLPOP waits; then the waiter looks whether it is still in the queue. */
#define LISTEN_MS		1000

/* So often it tells its wait anew, for a clock that has forgotten it (a failover). */
#define TELL_ANEW		10

MosqlDescribeDeadlock mosql_txn_deadlock_hook = NULL;

/* ---- who is in the way ---- */

/* So long it is believed who lives. */
#define SESSIONS_KNOWN_US	(1000 * 1000)

/*
 * Without those who were dead the last time: who is forgotten is so for good, and is on the index
 * again only so that a record of his, which somebody aborts, goes again.  A clock that has gone back
 * may know more of them.
 */
static void
keep_known(MosqlSession *session, const MosqlSessions *now)
{
	MosqlSessions *known = &session->known;
	uint64	   *live = MemoryContextAlloc(session->cxt, (now->n + 1) * sizeof(uint64));
	int			n = 0;

	for (int i = 0; i < now->n; i++)
		if (now->newest < known->newest || !mosql_clock_is_dead(known, now->live[i]))
			live[n++] = now->live[i];
	if (known->live != NULL)
		pfree(known->live);
	*known = (MosqlSessions) {.newest = now->newest,.live = live,.n = n};
	session->known_us = mosql_now_us();
}

/* Only the list outlives the statement, not what asking took. */
static const MosqlSessions *
ask_who_lives(MosqlSession *session)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql sessions asked for",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MosqlSessions now = {0};

	mosql_clock_sessions(&session->stepper, &now);
	MemoryContextSwitchTo(old);
	keep_known(session, &now);
	MemoryContextDelete(cxt);
	return &session->known;
}

const MosqlSessions *
mosql_lock_sessions(MosqlSession *session)
{
	if (mosql_now_us() - session->known_us < SESSIONS_KNOWN_US)
		return &session->known;
	return ask_who_lives(session);
}

/*
 * Intents in the way may be decided, or their owner dead; claims only the latter.  An
 * intent is asked about when its session is dead, or this one, when it is met again, or at
 * once.  (More than are remembered would else never be met again.)  True if anything has gone.
 */
static bool
clear_away(LockRequest *request, const MosqlSessions *sessions, bool at_once)
{
	MosqlSession *session = request->txn->session;
	MosqlBytes	rest = request->point.intent;
	bool		cleared = mosql_lock_take_out_gone(request, 1, sessions);
	MosqlClaim	claim;
	MosqlIntent intent;

	while (mosql_claim_next(&rest, &claim))
		;
	while (mosql_intent_next(&rest, &intent) == 1)
	{
		MosqlBlocker blocker = {.tree = request->tree,.key = request->key,.tx = intent.tx};
		int64		since_us = 0;	/* the dead decide nothing: they are given no time */

		if (mosql_clock_is_dead(sessions, intent.tx.session) ||
			intent.tx.session == request->claim.owner.session ||
			mosql_recover_met(session, intent.tx, &since_us) || at_once)
			cleared |= mosql_recover_blocker(session, &blocker, since_us);
	}
	return cleared;
}

bool
mosql_lock_clear_away(LockRequest *request)
{
	return clear_away(request, mosql_lock_sessions(request->txn->session), true);
}

/*
 * Whose lease is over is dead when somebody says so, now and then.  A clock that has not come to
 * our own id yet is gone, or has gone back: of nobody would it say that he is dead.
 */
static void
clear_queue(LockRequest *request, bool expire)
{
	MosqlSession *session = request->txn->session;
	const MosqlSessions *sessions;

	if (expire)
		(void) mosql_clock_expire(&session->stepper, 16);
	sessions = ask_who_lives(session);
	if (request->claim.owner.session > sessions->newest)
		mosql_lock_report_ended(request->txn);
	(void) clear_away(request, sessions, false);
}

/* ---- listening ---- */

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

/* What came with a message: {list, element}. */
static MosqlBytes
message_of(const MosqlReply *reply)
{
	return reply->kind == MOSQL_REPLY_ARRAY && reply->n == 2 ? reply->elem[1]->str : MOSQL_ABSENT;
}

/*
 * Until a message comes, or so long: absent then.  command_timeout is for what Redis takes beyond that: it looks
 * at times of waits ten times a second.  A BLPOP that nobody waits for any more (a cancel)
 * would keep the connection busy, and take a message: then it is closed.  In the current context.
 */
static MosqlBytes
listen(LockRequest *request, int64 ms)
{
	MosqlBytes	message = MOSQL_ABSENT;
	MosqlSession *session = request->txn->session;
	MosqlRedis *redis = waiting_client(session);
	MosqlBytes	list = mosql_step_wake_list(&session->stepper, request->point.leaf,
											mosql_txid_bytes(request->claim.owner));
	char		seconds[32];
	MosqlBytes	argv[] = {mosql_bytes("BLPOP", 5), list, mosql_bytes(seconds, 0)};
	MosqlBatch *batch = mosql_batch_create(redis, CurrentMemoryContext);
	MosqlBudget budget = mosql_budget_start(session->config.redis.command_timeout_ms);
	int64		since_us = mosql_now_us();

	budget.deadline_us += ms * 1000;
	argv[2].len = snprintf(seconds, sizeof(seconds), "%.3f", (double) ms / 1000);
	mosql_batch_add(batch, mosql_redis_slot(list), MOSQL_SEND_REPEATABLE, lengthof(argv), argv);
	PG_TRY();
	{
		const MosqlReply *reply;

		mosql_batch_run(batch, &budget);
		reply = mosql_batch_reply(batch, 0, 0);
		/* UNBLOCKED: a failover.  Anything else, a right that is missing, would come at once */
		if (reply->kind != MOSQL_REPLY_ERROR || strncmp(reply->str.data, "UNBLOCKED", 9) != 0)
			mosql_reply_check(reply, "waiting for a lock");
		message = message_of(reply);
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
	return message;
}

/* ---- deadlocks (rule 33) ---- */

/* Does it still wait there, in the same wait, and for that one? */
static bool
still_waits(MosqlSession *session, const MosqlWait *wait, MosqlTxid other)
{
	MosqlPoint	point;
	MosqlTxid  *ahead;
	int			n;

	memset(&point, 0, sizeof(point));
	mosql_btree_get(mosql_session_tree(session, wait->root), &wait->key, 1, &point);
	ahead = mosql_claims_ahead(point.intent, wait->owner, wait->number, &n);
	while (--n >= 0)
		if (mosql_txid_equal(ahead[n], other))
			return true;
	return false;
}

/* Where nobody knows more of them than the clock. */
static char *
describe_plainly(const MosqlWaiter *waiters, int n)
{
	StringInfoData out;

	initStringInfo(&out);
	for (int i = 0; i < n; i++)
		appendStringInfo(&out, "%sSession " UINT64_FORMAT " waits for session " UINT64_FORMAT " at a row of tree " UINT64_FORMAT ".",
						 i > 0 ? "\n" : "", waiters[i].session, waiters[i].blocker, waiters[i].root);
	return out.data;
}

static void
report_deadlock(const LockRequest *request, const MosqlWait *waits, const int *cycle, int n)
{
	MosqlWaiter *waiters = palloc(n * sizeof(MosqlWaiter));
	char	   *detail = NULL;

	mosql_stats.deadlocks++;
	for (int i = 0; i < n; i++)
	{
		const MosqlWait *wait = &waits[cycle[i]];

		waiters[i] = (MosqlWaiter)
		{
			wait->owner.session, waits[cycle[(i + 1) % n]].owner.session, wait->root, wait->key
		};
	}
	if (mosql_txn_deadlock_hook != NULL)
		detail = mosql_txn_deadlock_hook(request->txn->session, waiters, n, request->at_commit);
	if (detail == NULL)
		detail = describe_plainly(waiters, n);
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected"),
			 errdetail_internal("%s", detail)));
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
	const MosqlSessions *sessions = n > WAITS_MANY ? mosql_lock_sessions(session) : NULL;
	int			forgotten = 0;

	for (int i = 0; i < n && sessions != NULL && forgotten < WAITS_MANY; i++)
		if (mosql_clock_is_dead(sessions, waits[i].owner.session))
		{
			mosql_clock_wait_over(&session->stepper, &waits[i]);
			forgotten++;
		}
}

/* Who is ahead of a request that waits; NULL: it does not any more. */
static MosqlTxid *
ahead_of(const LockRequest *request, int *n)
{
	return mosql_claims_ahead(request->point.intent, request->claim.owner, request->claim.number, n);
}

/* Tell the clock that we wait; 40P01 if that closes a circle. */
static void
check_deadlock(LockRequest *request, MosqlWait *mine)
{
	MosqlSession *session = request->txn->session;
	MosqlWait  *waits;
	MosqlWaitEdge *without = NULL;
	int			nwithout = 0;
	int			n;
	int			length;
	int		   *cycle;

	*mine = (MosqlWait) {request->claim.owner, request->claim.number,
	mosql_btree_root(request->tree), request->key};
	mine->ahead = ahead_of(request, &mine->nahead);
	if (mine->ahead == NULL)
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
			report_deadlock(request, waits, cycle, length);
		n = mosql_clock_waits(&session->stepper, &waits);
		cycle = palloc((n + 1) * sizeof(int));
	}
}

/* ---- the wait ---- */

/*
 * Is the lock there?  Who is in the queue no more, after a failover, enters again; and who is to rely on what he sees asks
 * for it.
 */
static void
look(LockRequest *request)
{
	MosqlPoint	point;
	int			n;

	memset(&point, 0, sizeof(point));
	mosql_btree_get(request->tree, &request->key, 1, &point);
	mosql_lock_note(request, &point);
	if (request->held ? request->sure : ahead_of(request, &n) == NULL)
		mosql_lock_ask(request, 1);
}

/*
 * The lock is there, by a message that also tells the row.  Nobody changes it any more, unless the lock is
 * lost, which COMMIT finds out (29); but beside KEY SHARE others do, of a table's definition one reads more, and what is relied
 * on is asked for.
 */
static bool
is_told(LockRequest *request, MosqlBytes message)
{
	MosqlPoint	point = {.leaf = request->point.leaf};

	if (request->sure || request->claim.strength < MOSQL_SHARE || request->claim.strength > MOSQL_UPDATE ||
		!mosql_step_told(message, request->claim.number, &point.intent, &point.row))
		return false;
	if (point.row.data == NULL)
		return false;			/* it is gone, or in the leaf's block: look */
	mosql_lock_note(request, &point);
	return request->held;
}

/* What a message, or that there was none, says of the lock. */
static void
hear(LockRequest *request, MosqlBytes message)
{
	if (is_told(request, message))
		return;
	if (request->sure && message.data != NULL)
		mosql_lock_ask(request, 1);	/* it is his, as a rule */
	else
		look(request);
}

void
mosql_lock_not_available(bool timeout)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 timeout ? errmsg("canceling statement due to lock timeout") :
			 errmsg("could not obtain lock on row")));
}

/* The sessions that are in its way, as text. */
static char *
sessions_ahead(const LockRequest *request)
{
	StringInfoData out;
	int			n;
	const MosqlTxid *ahead = ahead_of(request, &n);

	initStringInfo(&out);
	for (int i = 0; i < n; i++)
		appendStringInfo(&out, "%s" UINT64_FORMAT, i > 0 ? ", " : "", ahead[i].session);
	return out.data;
}

/* As for locks of PostgreSQL's own, if log_lock_waits is on. */
static void
log_wait(const LockRequest *request, int64 waited_us, bool over)
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
	int64		ms = Min(LISTEN_MS, mosql_txn_lease_ms / 3);	/* the lease is extended between */

	if (log_lock_waits)
		ms = Min(ms, DeadlockTimeout);
	if (deadline_us > 0)
		ms = Min(ms, (deadline_us - mosql_now_us()) / 1000);
	return Max(ms, 1);
}

/* Queued: until it is let in.  Told to the clock, and no more when that is over. */
static void
wait_in_queue(LockRequest *request, int64 since_us, int64 deadline_us)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql lock wait",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = CurrentMemoryContext;
	MosqlSession *session = request->txn->session;
	bool		logged = false;
	MosqlWait	mine;

	check_deadlock(request, &mine);
	MemoryContextSwitchTo(cxt);
	for (int looks = 0;; looks++)
	{
		MemoryContextReset(cxt);	/* of the point only its leaf is used until it is read again */
		hear(request, listen(request, listening_ms(session, deadline_us)));
		if (request->held)
			break;
		if (log_lock_waits && !logged && mosql_now_us() - since_us >= (int64) DeadlockTimeout * 1000)
		{
			log_wait(request, mosql_now_us() - since_us, false);
			logged = true;
		}
		if (deadline_us > 0 && mosql_now_us() >= deadline_us)
			mosql_lock_not_available(true);
		if (request->claim.owner.session == session->sid && !mosql_session_extend(session))
			mosql_lock_report_ended(request->txn);
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

void
mosql_lock_queue(LockRequest *request, int64 deadline_us)
{
	int64		since_us = mosql_now_us();

	mosql_stats.lock_waits++;
	MOSQL_DEBUG_POINT("lock-queued");
	if (clear_away(request, mosql_lock_sessions(request->txn->session), false))
		look(request);
	if (!request->held)
		wait_in_queue(request, since_us, deadline_us);
}

static void
end_last_wait(void *arg)
{
	MosqlTxn   *txn = arg;
	MosqlWait	last = {.owner = txn->owner,.number = txn->nwaits};

	mosql_clock_wait_over(&txn->session->stepper, &last);
}

void
mosql_lock_end_told(MosqlTxn *txn)
{
	if (!txn->told)
		return;
	txn->told = false;
	(void) mosql_do_quietly(end_last_wait, txn);
}
