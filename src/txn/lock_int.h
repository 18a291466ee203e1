/*
 * lock_int.h: what locks (lock.c), their steps (lock_step.c) and waiting for them (lock_wait.c) share, and what
 * those beyond transactions (session_lock.c) are to the rest.
 *
 * Layer: txn.
 */
#ifndef MOSQL_LOCK_INT_H
#define MOSQL_LOCK_INT_H

#include "code/claim.h"
#include "txn/txn_int.h"

typedef struct LockRequest
{
	MosqlTxn   *txn;
	MosqlTree  *tree;
	MosqlBytes	key;
	MosqlClaim	claim;
	MosqlPoint	point;			/* as it was when the request was made, but the claims after it */
	bool		held;
	bool		at_commit;
	bool		sure;			/* it is going to be relied on: `held` when an answer says so, which has its copies */
	int			relied_on;		/* strength of the lock that must be there, since it is relied on; 0: none */
	bool		at_once;		/* NOWAIT, SKIP LOCKED */
} LockRequest;

/* What a step does to the claims at a key. */
typedef struct LockChange
{
	MosqlBytes	key;
	MosqlWriteKind kind;		/* CLAIM a request, or UNLIST owners */
	MosqlBytes	value;
	MosqlBytes	must;			/* CLAIM: what is to be there already, as mosql_lock_asked_surely() has it, or absent */
	bool		sure;			/* its answer waits for copies of what it tells */
	uint64		leaf;			/* results: where it was done, */
	MosqlBytes	intents;		/* and the fields as they were before */
	MosqlBytes	row;			/* CLAIM */
	bool		done;
	bool		at_once;		/* it is not waited for a leaf that is loading, */
	bool		refused;		/* ... and so it could not be had */
} LockChange;

/* Rows whose claims are changed at a time. */
#define MOSQL_LOCK_CHANGES	4096

/* ---- lock_step.c ---- */

/* What CLAIM writes for it. */
extern MosqlBytes mosql_lock_claim_bytes(const MosqlClaim *claim);

/* Changes of claims, in the order of their keys: one round trip, if nothing is in the way. */
extern void mosql_lock_change(MosqlSession *session, MosqlTree *tree, LockChange *changes, int n);

/* Sent, and no more: on leaves that are where the caches have them.  Throws nothing.  Engine script. */
extern void mosql_lock_send_changes(MosqlSession *session, MosqlTree *tree, LockChange **changes, int n);


/*
 * Ask for n locks of a tree, in the order of their keys.  Afterwards a request is `held`, or
 * who is in its way is in its `point`.
 */
extern void mosql_lock_ask(LockRequest *requests, int n);

/* Requests of one tree, in the order of their keys. */
typedef struct LockGroup
{
	LockRequest *requests;
	int			n;
} LockGroup;

/*
 * The same of several trees, in one round trip, once: those that were asked of a leaf that has changed since are not `held`, nor is
 * anybody in their `point`.
 */
extern void mosql_lock_ask_together(const LockGroup *groups, int ngroups);

/* The same, by engine `script`, with nobody waiting for the answers: nothing is noted. */
extern void mosql_lock_ask_ahead(LockRequest *requests, int n);

/*
 * What there is at the row: the lock is there, and will stay, or who is in its way.  Of one that is to be relied on
 * only an answer to mosql_lock_ask() says so.
 */
extern void mosql_lock_note(LockRequest *request, const MosqlPoint *point);

/*
 * From the rows that were refused: claims of the dead, and of earlier transactions of this
 * session.  True if there were any.  40001 if this session is dead itself.
 */
extern bool mosql_lock_take_out_gone(LockRequest *requests, int n, const MosqlSessions *sessions);

/* 40001: what is locked under an id that has ended is held by nobody.  The next transaction has another. */
extern void mosql_lock_report_ended(const MosqlTxn *txn) pg_attribute_noreturn();

/* ---- lock.c ---- */

/*
 * For session_lock.c.  for_session: as mosql_txn_claim() of one key, but what is locked is the session's,
 * not to be taken back with the transaction.  lower: the session's lock is to be no stronger;
 * 0: there is to be none.  take_again: what the session does not hold itself.
 */
extern bool mosql_lock_for_session(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength,
								   LockWaitPolicy policy);
extern void mosql_lock_lower(MosqlSession *session, MosqlTree *tree, MosqlBytes key, int strength);
extern void mosql_lock_take_again(MosqlSession *session, MosqlTree *tree, const MosqlBytes *keys,
								  int n);

/* ---- lock_wait.c ---- */

/*
 * In the queue of a row until the lock is there.  Throws 40P01 if that closes a circle, 55P03
 * when the time (0: none) is over.
 */
extern void mosql_lock_queue(LockRequest *request, int64 deadline_us);

/* Who lived a second ago at most: a round trip, if nobody has asked since.  Dead is dead. */
extern const MosqlSessions *mosql_lock_sessions(MosqlSession *session);

/* Who does not wait: the dead, and commits that are through, go at once.  True if any did. */
extern bool mosql_lock_clear_away(LockRequest *request);

/* A wait that ended in an error is over, too.  Throws nothing: it is only kept by the clock. */
extern void mosql_lock_end_told(MosqlTxn *txn);

/* When a wait ends without the lock, or one may not wait: 55P03. */
extern void mosql_lock_not_available(bool timeout) pg_attribute_noreturn();

/* So long a leaf that is loading is waited for: as for any lock, but not for ever. */
extern MosqlBudget mosql_lock_load_budget(void);

/*
 * Until a leaf that is written anew is settled: others' rows are there, and perhaps their locks, so as long as for a lock, to the end of
 * the budget and then anew; with lock_timeout no longer, 55P03.  Who waits has nothing in place, so that no circle goes through here.
 */
extern void mosql_lock_wait_for_leaf(MosqlSession *session, const MosqlBlocker *blocker, MosqlBudget budget);

/* ---------- locks beyond transactions (session_lock.c) ---------- */

/* How strong the session's lock of a key is; 0: it has none. */
extern int	mosql_session_lock_strength(const MosqlSession *session, uint64 root, MosqlBytes key);

/*
 * A transaction begins in a session that holds locks: 55000, once, if they were lost; else it
 * lives on under its id.  No round trip, but after half a lease without any, or when a
 * connection broke.
 */
extern void mosql_session_keep_locks(MosqlSession *session);

/* The session's id has ended, and its locks; report: 55000 if that was so. */
extern void mosql_session_lose_locks(MosqlSession *session);
extern void mosql_session_report_lost(MosqlSession *session);

/* Locks of these rows (ascending) may be there although they were taken back.  Throws nothing. */
extern void mosql_session_note_leftover(MosqlSession *session, uint64 root, int n,
										MosqlBytes (*key_of) (const void *arg, int i), const void *arg);

/*
 * As mosql_session_catch_up() and mosql_session_due(), of such locks, and of those of rows that nobody else can take off
 * while the session keeps its id.
 */
extern void mosql_session_try_leftovers(MosqlSession *session);
extern int64 mosql_session_leftovers_due(const MosqlSession *session);

/* Whether the keeper is to keep the session's id no more, a transaction having ended. */
extern void mosql_session_unkeep(MosqlSession *session);

#endif							/* MOSQL_LOCK_INT_H */
