/*
 * txn.h: transactions over the trees of one namespace.
 *
 * Layer: txn.  Write buffer, read views, two-round-trip commit, recovery.  The
 * layers above see sessions, views, rows and the verbs insert, update, delete,
 * increment; keys and columns are bytes to this layer.  docs/commit.md argues
 * the protocol.
 *
 * Everything that talks to Redis throws as redis.h says, and 40001 for
 * conflicts and for a snapshot too old, 54000 for limits, XX001 for damaged
 * bytes, 25006 for writing in a READ ONLY transaction.
 */
#ifndef MOSQL_TXN_H
#define MOSQL_TXN_H

#include "nodes/lockoptions.h"

#include "base/base.h"
#include "btree/btree.h"
#include "code/row.h"
#include "redis/redis.h"
#include "step/step.h"

typedef struct MosqlSession MosqlSession;	/* a backend's tie to one namespace */
typedef struct MosqlTxn MosqlTxn;	/* the current transaction there */
typedef struct MosqlView MosqlView; /* what one statement sees */

/* ---- settings (GUCs; defined in mosql_fdw.c) ---- */
typedef enum MosqlLocking
{
	MOSQL_OPTIMISTIC, MOSQL_PESSIMISTIC
} MosqlLocking;
extern bool mosql_txn_one_step;	/* what a small commit has on the clock's server is one step */
extern int	mosql_txn_locking;	/* MosqlLocking */
extern int	mosql_txn_max_mb;	/* memory for buffered writes, 54000 beyond */
extern int	mosql_txn_snapshot_cache_kb;	/* for what one snapshot has read; 0: nothing */
extern int	mosql_txn_commit_timeout_ms;	/* budget of prepare and its retries */
extern int	mosql_txn_signpost_retention_ms;	/* how long dead nodes stay */
extern int	mosql_txn_orphan_retention_s;	/* how long trees without a definition stay */
extern int	mosql_txn_drop_ms;		/* for how long COMMIT destroys what it has dropped */
extern int	mosql_txn_intent_timeout_ms;	/* then an undecided intent is aborted */
extern int	mosql_txn_lease_ms;		/* MOSQL_LEASE_MS; tests make it shorter */

/* ---- sessions ---- */

typedef struct MosqlSessionConfig
{
	MosqlRedisConfig redis;
	const char *ns;				/* namespace */
	MosqlEngine engine;
} MosqlSessionConfig;

/* Make a session; talks to Redis on first use.  Lives until closed. */
extern MosqlSession *mosql_session_open(const MosqlSessionConfig *config);

/* Close sockets, give up the session id.  Not inside one of its transactions. */
extern void mosql_session_close(MosqlSession *session);
extern bool mosql_session_in_use(const MosqlSession *session);

/* Was it opened with just these options? */
extern bool mosql_session_has_config(const MosqlSession *session, const MosqlSessionConfig *config);

/*
 * Between transactions: wait until what was sent is answered, and applied (a second at most),
 * and close the sockets; the next transaction connects again.  keep_id: it will
 * be soon; else the session's id is given back as well, if nothing needs it any
 * more.  Throws nothing, cannot be cancelled.
 */
extern void mosql_session_rest(MosqlSession *session, bool keep_id);

/*
 * Between transactions, while the session idles: do what earlier ones have left over, if that is due.  That is to apply what they
 * have committed, where their leaves had changed meanwhile, and to find out how those ended of which nobody knew, and to let go of locks that could not
 * be given back.  Takes about a second for each of the two where a server is silent, and throws nothing.  due: when to; 0: nothing is left.
 */
extern void mosql_session_catch_up(MosqlSession *session);
extern int64 mosql_session_due(MosqlSession *session);

extern MosqlRedis *mosql_session_redis(MosqlSession *session);
extern MosqlStepper *mosql_session_stepper(MosqlSession *session);
extern MosqlNodeStore *mosql_session_store(MosqlSession *session);
extern const char *mosql_session_namespace(const MosqlSession *session);
extern MemoryContext mosql_session_context(MosqlSession *session);

/* The handle of a tree, valid until the end of the transaction; no round trip. */
extern MosqlTree *mosql_session_tree(MosqlSession *session, uint64 root);

/*
 * Do something with a tree, outside of its table's locks: false if it was gone (42P01:
 * the table was dropped or truncated meanwhile), which is no error then.  Others go on.
 */
typedef void (*MosqlTreeWork) (void *arg);
extern bool mosql_session_try_tree(MosqlTreeWork work, void *arg);

/* The same where the tree may be damaged (XX001): then *damage says how, in the current
 * context. */
typedef enum MosqlTreeState
{
	MOSQL_TREE_SOUND,
	MOSQL_TREE_GONE,
	MOSQL_TREE_DAMAGED
} MosqlTreeState;
extern MosqlTreeState mosql_session_try_tree_damage(MosqlTreeWork work, void *arg,
													const char **damage);

/* A cluster-wide unique 64-bit number: node ids, hidden row ids (ascending
 * within a session). */
extern uint64 mosql_session_new_id(MosqlSession *session);

/* The same for the root of a tree, or a counter: named after the session that is to commit it. */
extern uint64 mosql_session_new_root(MosqlSession *session);

/* The id at the clock now; 0: none yet. */
extern uint64 mosql_session_id(const MosqlSession *session);

/* Is this id one that the session has drawn, also for a prefix, and goes on using? */
extern bool mosql_session_uses_id(const MosqlSession *session, uint64 sid);

/* A step at the clock has just extended the session's lease. */
extern void mosql_session_note_contact(MosqlSession *session);

/* Keep the id for as long as the lease is extended, until PostgreSQL's transaction
 * ends: others know what is going on by it. */
extern void mosql_session_keep_id(MosqlSession *session);

/* Go on as another session from the next transaction on; this one's lease runs out, and
 * what it was doing is taken for abandoned then. */
extern void mosql_session_leave_id(MosqlSession *session);

/*
 * Has it locks beyond transactions?  Who hides errors, and finds that it had some and has none, has hidden that they are lost, too: then the next
 * transaction is told so.
 */
extern bool mosql_session_has_locks(const MosqlSession *session);
extern void mosql_session_tell_lost(MosqlSession *session);

/* Schema version last seen.  refresh: ask the clock for it. */
extern uint64 mosql_session_schema(MosqlSession *session);
extern void mosql_session_refresh_schema(MosqlSession *session);

/* What definitions that are read now are of; the table layer's caches compare it.  A
 * transaction that has a snapshot of its own reads those of that moment, whatever version
 * the session has heard of since. */
extern uint64 mosql_session_schema_read(MosqlSession *session);

/* Space for the table layer's cache in the session; freed with it. */
extern void **mosql_session_cache_slot(MosqlSession *session);

/* ---- transactions ---- */

/*
 * The session's transaction in the current PostgreSQL transaction, begun on
 * first use.  0A000 if there is one already in the same namespace, of another session.  Ends by itself: committed in XACT_EVENT_PRE_COMMIT, thrown away
 * on abort; savepoints are followed.
 */
extern MosqlTxn *mosql_txn_current(MosqlSession *session);

/*
 * The same, where a statement begins that reads by definitions: if the session has not heard of the
 * schema version for a second, and reads by the latest, it asks (rule 39).
 */
extern MosqlTxn *mosql_txn_begin_statement(MosqlSession *session);

/*
 * PostgreSQL's transaction has got the snapshot of another one: until it ends,
 * mosql_txn_current() throws 0A000, since there is none to go with it in Redis.
 */
extern void mosql_txn_note_import(void);

/* The same refusal, before anything is done. */
extern void mosql_txn_check_alone(const MosqlSession *session);

/* Has the session's current transaction anything to commit? */
extern bool mosql_txn_has_written(const MosqlSession *session);

/* Has it changed rows of this tree, and not taken back all of that? */
extern bool mosql_txn_has_put(const MosqlSession *session, uint64 root);

/* Has it changed, or locked, rows of this tree? */
extern int	mosql_txn_changed_rows(const MosqlSession *session, uint64 root);
extern bool mosql_txn_has_changed(const MosqlSession *session, uint64 root);

/*
 * For commands that are several transactions one after the other, within one of
 * PostgreSQL's: commit the session's current transaction here and now, and begin
 * another, READ COMMITTED whatever the level.  Only where mosql_txn_may_chain():
 * no view is open, and before the first call nothing was written.  Rows' bytes and
 * handles of trees end with it.
 */
extern bool mosql_txn_may_chain(const MosqlSession *session);

/* Has it written so much that it is time to chain?  Well below max_transaction_size. */
extern bool mosql_txn_is_full(const MosqlSession *session);
extern MosqlTxn *mosql_txn_chain(MosqlSession *session);

/* Throw the current transaction away: its trees are garbage.  Throws nothing. */
extern void mosql_txn_cancel(MosqlSession *session);

/*
 * Set by the table layer: called after PostgreSQL's transaction was rolled back,
 * when the sessions are idle again, with interrupts held; must not throw.
 */
typedef void (*MosqlAbortHook) (void);
extern MosqlAbortHook mosql_txn_abort_hook;

/*
 * From here on the transaction is SERIALIZABLE, as which level ever it was begun:
 * what it reads from now on is certified at commit.  For schema changes that read
 * rows and must not miss anybody's commit meanwhile.
 */
extern void mosql_txn_serialize(MosqlTxn *txn);

/* Does each statement read at a snapshot of its own, drawn when it begins? */
extern bool mosql_txn_is_read_committed(const MosqlTxn *txn);

/* ---- reading ---- */

/*
 * What a statement sees: the rows as of its snapshot (READ COMMITTED: the
 * statement's; above: the transaction's) and this transaction's own writes of
 * commands before curcid.  Views of the same `statement` (the EState) share
 * one snapshot.  single_read: the statement reads one row by key and nothing
 * else, so READ COMMITTED takes the latest version without a snapshot.
 */
extern MosqlView *mosql_view_open(MosqlTxn *txn, const void *statement, CommandId curcid,
								  bool single_read);
extern void mosql_view_close(MosqlView *view);

/*
 * Parallel workers (share.c).  may_share: does the view show of a tree what is stored at its
 * snapshot, and nothing else, to be certified by nobody?  share: that snapshot, held alive.
 * divide: keys of the range, ascending, that divide it into pieces of similar size, at most max;
 * a round trip for each inner node that is not known.  linger: the snapshot stays registered
 * until the transaction ends, though the view is closed.
 *
 * join, in the worker: a transaction that only reads, at that snapshot; ends with the worker.
 */
extern bool mosql_view_may_share(const MosqlView *view, const MosqlTree *tree);
extern MosqlTimestamp mosql_view_share(MosqlView *view);
extern int	mosql_view_divide(MosqlView *view, MosqlTree *tree, MosqlKeyRange range, int max,
							  MosqlBytes *keys);
extern void mosql_view_linger(MosqlView *view);
extern MosqlTxn *mosql_txn_join(MosqlSession *session, MosqlTimestamp S);

/* The snapshot for a read of more than one row; drawn if need be. */
extern MosqlTimestamp mosql_view_snapshot(MosqlView *view);

/*
 * A scan begins to read.  If that is a while after its statement began (a portal that was opened without a name, and is fetched
 * from later), the one row is read at a snapshot: what the statement knew of definitions is too old (rule 39).
 */
extern void mosql_view_begin_read(MosqlView *view);

/*
 * The ranges that this view reads are certified at commit, at every isolation level:
 * that nothing in them was changed by others, since the snapshot, until the decision.
 */
extern void mosql_view_certify(MosqlView *view);

/*
 * What the view's snapshot has seen need not be read again, and rows need not tell who has
 * locked them (taken, claimed).  again: the view will probably come back for what it reads, so
 * that is kept, as far as mosql_fdw.snapshot_cache allows; of a transaction's own snapshot all
 * is.  For views without a snapshot it means nothing.
 */
extern void mosql_view_reuse(MosqlView *view, bool again);

/*
 * Reading ahead: what keys, and ranges, hold at the view's snapshot is brought into memory,
 * where the reads of this view that follow find it.  For views that reuse.  Nothing of it counts
 * as read before such a read: nothing is certified for it, and damage is theirs to report.
 *
 * start: a new batch, in so much of this memory (which lives as long as the view) as does not
 * fit into what is kept of the snapshot; what was read ahead before may be gone.  has_room: is any of
 * that memory left?
 */
extern void mosql_view_ahead_start(MosqlView *view, MemoryContext cxt);
extern bool mosql_view_ahead_has_room(const MosqlView *view);
extern void mosql_view_ahead_keys(MosqlView *view, MosqlTree *tree, const MosqlBytes *keys, int n);
extern void mosql_view_ahead_ranges(MosqlView *view, MosqlTree *tree, const MosqlKeyRange *ranges,
									int n);

typedef struct MosqlRow
{
	bool		found;
	MosqlBytes	key;
	MosqlBytes	columns;
	MosqlTimestamp version;		/* of the stored row read; 0: none (own insert) */
	bool		unsettled;		/* peek: increments of others may be missing */
	bool		own;			/* written by this transaction */
	bool		taken;			/* somebody else has locked it FOR UPDATE; where mosql_view_get() says so */
	bool		claimed;		/* get: somebody has locked it, or waits; perhaps this one */
} MosqlRow;

/* Rows by key, any order, one round trip; bytes in the current context. */
extern void mosql_view_get(MosqlView *view, MosqlTree *tree, const MosqlBytes *keys, int n,
						   MosqlRow *rows);

/* The same, but each for itself: what is a single read for one of them is so for all. */
extern void mosql_view_get_each(MosqlView *view, MosqlTree *tree, const MosqlBytes *keys, int n,
								MosqlRow *rows);

/*
 * ... and without binding pending increments to them: the existence check of
 * late-bound updates, the only read that another increment does not invalidate.
 * Others' increments in flight prove that a row is there and are not asked about
 * (`unsettled`): hot rows cost one round trip.
 */
extern void mosql_view_peek(MosqlView *view, MosqlTree *tree, const MosqlBytes *keys, int n,
							MosqlRow *rows);

/*
 * Before it is called damage that rows of two trees contradict each other: an error, 40001 or 08006, if a server may have a
 * successor that knows better (mosql_btree_doubt()).
 */
extern void mosql_view_doubt(MosqlView *view, MosqlTree *tree);

/*
 * The first row in the range as far as it is known; the range shrinks to what is behind it.  False:
 * there is none, or what comes next is not known.  Valid until the next batch.
 */
extern bool mosql_view_ahead_next(MosqlView *view, MosqlTree *tree, MosqlKeyRange *range,
								  MosqlRow *row);

typedef struct MosqlRowScan MosqlRowScan;

/*
 * Rows with low <= key < high in key order (or backwards).  limit_hint: rows
 * wanted, 0 unknown, below that: all, of a piece of what others read besides.  A row's bytes are valid until the next call.
 */
extern MosqlRowScan *mosql_view_scan_begin(MosqlView *view, MosqlTree *tree,
										   MosqlBytes low, MosqlBytes high,
										   bool backward, int64 limit_hint);

/* ... of n ranges, ascending and disjoint, whose leaves are read together. */
extern MosqlRowScan *mosql_view_scan_begin_ranges(MosqlView *view, MosqlTree *tree,
												  const MosqlKeyRange *ranges, int n,
												  bool backward, int64 limit_hint);

/*
 * The same, where these ranges are all that the statement reads.  At READ COMMITTED no snapshot is drawn then, if one leaf has all
 * of them, or some that can be read at one moment, if an earlier statement of the transaction has scanned the tree, or the leaves
 * come with word that its definition holds, and nobody is committing there (rule 45); how many leaves they are of is asked of the caches.
 */
extern MosqlRowScan *mosql_view_scan_begin_alone(MosqlView *view, MosqlTree *tree,
												 const MosqlKeyRange *ranges, int n,
												 bool backward, int64 limit_hint);
extern bool mosql_view_scan_next(MosqlRowScan *scan, MosqlRow *row);

/* Once more from its first row, as it was, if the scan has drawn no snapshot; else false, and nothing is done. */
extern bool mosql_view_scan_again(MosqlRowScan *scan);
extern void mosql_view_scan_end(MosqlRowScan *scan);

/* ---- writing (buffered until commit; bytes are copied) ---- */

typedef enum MosqlWriteResult
{
	MOSQL_WRITTEN,
	MOSQL_DUPLICATE,			/* insert: this transaction has the row already */
	MOSQL_SELF_MODIFIED			/* update, delete: this same command changed the row
								 * already: skip it, as PostgreSQL does (27000 if a command
								 * inside of it did) */
} MosqlWriteResult;

/* What is known of the key of a new row.  Commit compares that it is absent, in any case. */
typedef enum MosqlNewKey
{
	MOSQL_KEY_NEW,				/* not to be looked up: hidden row ids */
	MOSQL_KEY_OF_ROW,			/* nor even by commit in a block: an index entry that tells its row, which is
								 * inserted or updated in this transaction as well */
	MOSQL_KEY_MAY_EXIST,		/* looked up by the next mosql_txn_check_inserts (batched:
								 * one read for many rows) */
	MOSQL_KEY_FOUND_FREE,		/* it was looked up (ON CONFLICT) */
	MOSQL_KEY_PROVED_FREE		/* nobody else can commit it: not looked up, and locked, if at all, by a
								 * step that nobody waits for */
} MosqlNewKey;

extern MosqlWriteResult mosql_txn_insert(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key,
										 MosqlBytes columns, CommandId cid, MosqlNewKey known);

/*
 * Inserts that `put` makes into trees without changes are of a savepoint around the one at hand,
 * of that level: they last as long as that.
 */
extern void mosql_txn_put_earlier(MosqlTxn *txn, int level, void (*put) (void *arg), void *arg);

/* What the command cid, or a later one (of a trigger), has done to a row. */
typedef enum MosqlOwnWrite
{
	MOSQL_OWN_NONE,
	MOSQL_OWN_PUT,				/* it is there by this command */
	MOSQL_OWN_DELETE			/* it is gone by this command, or has another key */
} MosqlOwnWrite;
extern MosqlOwnWrite mosql_txn_own_write(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key,
										 CommandId cid);

/* Keys of this tree that still have to be looked up, or locked; and how many of them come. */
extern int	mosql_txn_unchecked(MosqlTxn *txn, MosqlTree *tree, int *inserts);

/* Whoever is inserting the same key, or deleting its row, */
typedef enum MosqlInsertLocking
{
	MOSQL_INSERTS_LOOK,			/* is not waited for; nor is this transaction */
	MOSQL_INSERTS_WAIT,			/* is waited for: a load */
	MOSQL_INSERTS_LOCK			/* and waits for this one if he comes later */
} MosqlInsertLocking;

/*
 * Look up unchecked inserts.  Returns false with *duplicate set (current
 * context) for the first that exists; the caller reports 23505.  What leaves is locked with
 * MOSQL_INSERTS_LOCK alone.
 */
extern bool mosql_txn_check_inserts(MosqlTxn *txn, MosqlTree *tree, MosqlInsertLocking locking,
									MosqlBytes *duplicate);

/*
 * What has been inserted so far is not looked up, since nothing but the commit is to come: that compares anyway
 * that the keys are free.  It is tried once as it is.  If it is refused, for whatever reason, or if a
 * table is opened before, settle is called, which looks (mosql_txn_check_inserts()) and reports.  May throw, and
 * is then called again, should the transaction go on.
 */
typedef void (*MosqlSettleInserts) (void *arg);
extern void mosql_txn_settle_later(MosqlTxn *txn, MosqlSettleInserts settle, void *arg);

/*
 * The row of a key, which this transaction has just deleted, kept others from inserting it: an
 * entry of a unique index.  It is locked with the next inserts that are looked up.
 */
extern void mosql_txn_leave(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key);

/*
 * To be called before an error that blames a row is reported: a duplicate, a parent that
 * is missing or still has a child.  Throws 40001 instead if a row that this transaction
 * rests on is not what it was: what the command cid, or one soon before, changed or found
 * free, what was locked, what was read under SERIALIZABLE.  key: of the row blamed, for
 * which the transaction's snapshot counts as well; it may be absent.  A round trip per
 * tree concerned.
 */
extern void mosql_txn_blame(MosqlTxn *txn, CommandId cid, MosqlTree *tree, MosqlBytes key);

/*
 * version: as read (MosqlRow.version); or MOSQL_VERSION_ANY for a row that only
 * has to be there: an index entry, whose table row is certified by its version.
 */
#define MOSQL_VERSION_ANY MOSQL_TS_MAX
extern MosqlWriteResult mosql_txn_update(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key,
										 MosqlTimestamp version, MosqlBytes columns, CommandId cid);
extern MosqlWriteResult mosql_txn_delete(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key,
										 MosqlTimestamp version, CommandId cid);

/*
 * Late-bound update: adds to columns without fixing the version.  row is what
 * the statement read when it checked that the row exists (bytes and version;
 * copied): a later read in this transaction binds to it.  Throws 22003 when
 * that row would overflow.
 */
extern MosqlWriteResult mosql_txn_increment(MosqlTxn *txn, MosqlTree *tree, const MosqlRow *row,
											const MosqlIncrement *inc, int ninc, CommandId cid);

/*
 * Rows of this tree that are incremented are locked by whoever looks at them later in the transaction (a round
 * trip), so that it rests on no row that others change.  True: it will, as far as one knows, so that they may as
 * well be locked now.
 */
extern bool mosql_txn_looks_lock(MosqlTxn *txn, MosqlTree *tree);

/*
 * A row of this tree is about to be read for an increment.  With the transaction's first such read, at READ COMMITTED, those leaves
 * are asked for in which the session's transactions have peeked at rows of other trees (mosql_view_peek()), which
 * then costs no round trip, if none comes between.  asked: it was read, with a round trip or without.
 */
extern void mosql_txn_ask_usual(MosqlTxn *txn, const MosqlTree *tree);
extern void mosql_txn_asked_usual(MosqlTxn *txn);

/*
 * Lock n rows of a tree (keys ascending, distinct) with a MosqlStrength (claim.h) until the
 * transaction, or the savepoint, ends, and read their newest versions (row->found: it is
 * there; own: this transaction has changed it, and the view knows better; bytes in the
 * current context).  One round trip if nobody is in the way.  Who is, is waited for: 40P01,
 * 55P03 by lock_timeout, 57014; or not, as the policy says: then 55P03, or !locked.
 */
extern void mosql_txn_claim(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n,
							int strength, LockWaitPolicy policy, MosqlRow *rows, bool *locked);

/*
 * The same of one key, which no row has, beyond the transaction: until it was let go as often
 * as it was locked, with that strength, or the session ends.  What the session or its
 * transaction hold is no hindrance, and is locked again without a round trip.  False if the
 * policy is not to wait.
 */
extern bool mosql_session_lock(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength,
							   LockWaitPolicy policy);

/* False: the session has no such lock.  A round trip for the last time. */
extern bool mosql_session_unlock(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength);

/*
 * Let go of all such locks, of all sessions of this backend in the namespace, NULL: in all of
 * them.  Inside of a transaction of PostgreSQL's.
 */
extern void mosql_sessions_unlock_all(const char *ns);

/* Is it used by a transaction, or holds it such locks? */
extern bool mosql_session_is_needed(const MosqlSession *session);

/*
 * Lock keys that are to be inserted, or to leave (`leaves`, NULL: none), as
 * mosql_txn_claim() does, one after the other, but no further than to the first to be
 * inserted that has a row: its place is returned, n if there is none.  It is locked, too.
 */
extern int	mosql_txn_claim_free(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys,
								 const bool *leaves, int n, MosqlRow *rows);

/*
 * Lock keys that nobody else can commit, for whoever inserts one of them to wait: the request is sent
 * ahead, and nothing rests on it.  No round trip, where the leaves are known (engine `watch`: as any
 * lock).
 */
extern void mosql_txn_claim_ahead(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n);

/* How strongly is it locked (0: not at all); and make that weaker again, before its savepoint
 * does.  The latter takes a round trip. */
extern int	mosql_txn_strength(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key);
extern void mosql_txn_lower(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength);

/*
 * As mosql_txn_claim() of one key, whose lock keeps others from more than that row, where no compare would find
 * out.  What is had so has its copies, and COMMIT compares that it is there, under the id that decides, and
 * was not lost and had once more: 40001 else.  False if the policy is not to wait.  What is relied on already takes no round trip;
 * then *row is left as it is.
 */
extern bool mosql_txn_rely_on_claim(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength,
									LockWaitPolicy policy, MosqlRow *row);

/* Has somebody else locked the row whose intents field this is, so that it excludes that? */
extern bool mosql_txn_is_locked_out(const MosqlTxn *txn, MosqlBytes field, int strength);

/*
 * Something is locked that others' definitions are to show: from now on whoever commits by
 * what he knew before looks at them again.  One round trip.
 */
extern void mosql_txn_raise_schema(MosqlTxn *txn);

/* Is there nothing to lock: is it so already, in this version, or nobody else's row?  No
 * round trip. */
extern bool mosql_txn_has_claimed(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key,
								  MosqlTimestamp version, int strength);

/*
 * A row that is locked so already, and not changed by this transaction, as it was when it was locked,
 * and so is now; bytes live as long as the transaction.  False: it has to be asked for.  No round trip.
 */
extern bool mosql_txn_locked_row(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, int strength,
								 MosqlRow *row);

/*
 * The rows that the session's transaction may have locked, each once; an array with room for
 * some more, in the current context.  No round trip.
 */
typedef struct MosqlLockedRow
{
	uint64		root;
	MosqlBytes	key;
} MosqlLockedRow;
extern int	mosql_txn_locked_rows(const MosqlSession *session, int more, MosqlLockedRow **rows);

/* The number in a transaction's id is when it began (a TimestampTz), shifted, or a bit more. */
#define MOSQL_TXN_AGE_SHIFT		8

/*
 * FOR UPDATE and kin: commit fails unless the row still has this version; or, if that is not pinned, is there
 * at all: beside a lock FOR KEY SHARE, without which the version counts.
 */
extern void mosql_txn_lock_row(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key,
							   MosqlTimestamp version, bool pins);

/* ---- rows that must be there (foreign keys; reference.c) ---- */

/* Is it known without looking whether a row is there (put, deleted or looked up here)? */
extern bool mosql_txn_is_known(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, bool *found);

/* The latest committed state of n rows; one round trip.  Own changes do not count. */
extern void mosql_txn_read_stored(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n,
								  MosqlRow *rows);

/* A row was seen to be there, and commit fails if it is not any more: until the savepoint, too. */
extern void mosql_txn_note_referenced(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key);

/*
 * Which of these rows are there now: in the latest committed state, or put by this
 * transaction.  Commit certifies that those are there still (docs/commit.md, rule
 * 22); otherwise it fails with 40001.  One round trip, none for rows known already.
 * locks: they are locked KEY SHARE besides; keys ascending, distinct.
 */
extern void mosql_txn_refer(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n,
							bool locks, bool *found);

/*
 * These rows (ascending, distinct, not known yet; they stay in place) are to be locked, and noted as there, in the round trip of the next
 * mosql_txn_claim_free(), if all that is asked for then can be had at once.  What comes of it mosql_txn_refer() knows.  A
 * tree more than MOSQL_ALONG_MAX is left to that.  end: no claim came, or no other is to take them along.
 */
extern void mosql_txn_refer_along(MosqlTxn *txn, MosqlTree *tree, const MosqlBytes *keys, int n);
extern void mosql_txn_end_along(MosqlTxn *txn);

/*
 * Is this row there, as far as the transaction knows by itself?  No round trip.  locks: and is it
 * held, unlike one that was only incremented?
 */
extern bool mosql_txn_knows(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key, bool locks);

/*
 * Has this transaction inserted the row, and locked its key when that was free?  Then nobody else commits
 * it before the transaction has ended.  No round trip.
 */
extern bool mosql_txn_has_inserted(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key);

/* ---- schema changes ---- */

/* This transaction changes definitions: decide raises the schema version. */
extern void mosql_txn_changes_schema(MosqlTxn *txn);

/*
 * The transaction holds what goes with the session's id, locks, a snapshot, or trees, and may idle:
 * until it ends somebody extends the lease on its behalf.  No round trip.
 */
extern void mosql_txn_keep(MosqlTxn *txn);

/* A tree made for this transaction: destroyed if it does not commit. */
extern void mosql_txn_created_tree(MosqlTxn *txn, uint64 root);

/*
 * Rows for a tree that this transaction has made, and that nobody has written to: written
 * at once, not at commit, as of a snapshot that is not younger than what reads them.  Keys
 * ascend; all of them are there when the load has ended, and then the tree is read and
 * written like any other.  If the transaction, or its savepoint, does not last, nor must the
 * definition that names the tree.  40001 if a connection broke, where a server may have
 * forgotten then, from the first row to the decision.  how: leaves are packed, unless it is NONE.  together: the
 * first of them are to be (btree.h).
 */
typedef struct MosqlLoad MosqlLoad;
extern MosqlLoad *mosql_load_begin(MosqlSession *session, uint64 root, MosqlTimestamp version,
								   MosqlCompression how, bool together);
extern void mosql_load_add(MosqlLoad *load, MosqlBytes key, MosqlBytes columns);
extern uint64 mosql_load_end(MosqlLoad *load);

/*
 * Has this transaction made the tree?  Then nobody else writes to it before the commit: what was
 * read there need not be certified.
 */
extern bool mosql_txn_has_made(const MosqlTxn *txn, uint64 root);

/*
 * Has it made this tree, in the savepoint at hand, and neither loaded nor changed, locked or
 * looked for any row of it?
 */
extern bool mosql_txn_is_fresh(const MosqlTxn *txn, uint64 root);

/* How many rows it has loaded into a tree that it has made. */
extern uint64 mosql_txn_loaded_rows(const MosqlSession *session, uint64 root);

/*
 * They are rows of this command: who reads plainly (mosql_view_reuse()) for it, or for one before,
 * sees none of them.
 */
extern void mosql_txn_loaded_by(MosqlTxn *txn, uint64 root, CommandId cid);

/* A later transaction that makes such a tree known: with what mosql_load_end() returned. */
extern void mosql_txn_rests_on_load(MosqlTxn *txn, uint64 breaks);

/* A tree to destroy once this transaction has committed. */
extern void mosql_txn_drops_tree(MosqlTxn *txn, uint64 root);

/*
 * Set by the table layer: called at commit when decide found the schema
 * version stale, with the new version.  Returns true if every definition that
 * this transaction used is unchanged, so that it may prepare again; but if *locked is set
 * (in the current context), the key of one, not before that is locked with *strength.
 */
typedef bool (*MosqlSchemaCheck) (MosqlSession *session, MosqlBytes *locked, int *strength);
extern MosqlSchemaCheck mosql_txn_schema_check;

/*
 * Set by the table layer: called when a snapshot was drawn, at which `view` reads, and
 * the schema version drawn with it is not the one that the session knew.  Throws 40001
 * if what the transaction was planned by no longer holds.  True: it has waited for somebody,
 * and another snapshot is to be drawn.
 */
typedef bool (*MosqlSchemaMoved) (MosqlSession *session, MosqlView *view);
extern MosqlSchemaMoved mosql_txn_schema_moved;

/*
 * Set by the table layer: called when a transaction that changed definitions has
 * committed.  Errors are swallowed: it is for what maintenance would do later.
 */
typedef void (*MosqlSchemaChanged) (MosqlSession *session);
extern MosqlSchemaChanged mosql_txn_schema_changed;

/* ---- rows in ctid (handle.c) ---- */

/*
 * A 48-bit handle for a row that was read (its tree, key and version), to be
 * carried in ctid from a scan to the UPDATE, DELETE or FOR UPDATE above it.
 * Handles live until the last view of the transaction is closed.
 */
extern uint64 mosql_txn_handle_put(MosqlTxn *txn, MosqlTree *tree, const MosqlRow *row);
extern bool mosql_txn_handle_get(MosqlTxn *txn, uint64 handle, MosqlRow *row);	/* key, version */

/*
 * The number of a row, by its key: the same for all statements of the transaction, and
 * as a rule of the session.  Below 2^39.  `put` notes the version that was read, too, for
 * as long as handles live; 54000 where all of them take too much memory.
 */
extern uint64 mosql_txn_number_put(MosqlTxn *txn, MosqlTree *tree, const MosqlRow *row);
extern uint64 mosql_txn_number_of(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key);

/* Key and version; false if no statement that runs has read it. */
extern bool mosql_txn_number_get(MosqlTxn *txn, MosqlTree *tree, uint64 number, MosqlRow *row);

/* The key alone, valid until the end of the transaction; false: no row has this number. */
extern bool mosql_txn_number_key(MosqlTxn *txn, MosqlTree *tree, uint64 number, MosqlBytes *key);

/* ---- tokens of versions (code/token.c) ---- */

/* A number for mosql_row_tag(). */
extern uint32 mosql_txn_new_tag(MosqlTxn *txn);

/*
 * The token of a row that the view has read, which stays what it is: a row of this
 * transaction is tagged, if it is not yet; its columns are then others in `row`, too.
 */
extern uint32 mosql_view_token(MosqlView *view, MosqlTree *tree, MosqlRow *row);

/* ---- what dead sessions left at the clock (maintenance) ---- */

typedef struct MosqlOrphanCounts
{
	uint64		sessions;		/* that ran out, forgotten */
	uint64		reaped;			/* commits of theirs, finished and dropped */
	uint64		postponed;		/* commits too large for this call */
} MosqlOrphanCounts;

/* Forget sessions whose lease ran out, and outcomes kept long enough. */
extern void mosql_orphans_forget(MosqlSession *session, MosqlOrphanCounts *counts);

/*
 * Finish what dead sessions committed: apply all that is still there, then drop
 * the records, keeping the outcomes.  Commits that name a range (more than
 * MOSQL_RECORD_MAX_KEYS keys of a tree) only if `ranges`: vacuuming the trees first
 * makes them cheap.  Warns about damaged records and leaves them.
 */
extern void mosql_orphans_finish(MosqlSession *session, bool ranges, MosqlOrphanCounts *counts);

/*
 * Finish one transaction: apply all that its record names, and drop the record if its
 * session is dead.  False, with a WARNING, if that is not possible for damage, or if it is
 * not committed.
 */
extern bool mosql_orphans_finish_one(MosqlSession *session, MosqlTxid tx);

/* ---- checks of rows and intents in a leaf (for mosql_fdw_check) ---- */
extern void mosql_txn_check_leaf(MosqlSession *session, const MosqlLeaf *leaf,
								 MosqlCheckReport report, void *arg);

/* ---- maintenance (docs/commit.md; src/btree/README.md, "Merging") ---- */

/* What maintenance did; callers add up. */
typedef struct MosqlVacuumCounts
{
	uint64		leaves;			/* looked at */
	uint64		rows_pruned;	/* rows that lost old versions */
	uint64		tombstones_purged;
	uint64		intents_applied;
	uint64		intents_removed;
	uint64		marks_removed;
	uint64		splits_finished;
	uint64		leaves_merged;	/* emptied leaves and small inner nodes merged away */
	uint64		nodes_deleted;	/* by the sweep, or with their trees */
	uint64		nodes_scanned;	/* by the sweep */
	uint64		trees_destroyed;	/* by the sweep */
	uint64		damaged;		/* leaves, or more, left out for damage */
	MosqlPackCounts packed;
} MosqlVacuumCounts;

/* Which leaves maintenance packs, and how. */
typedef struct MosqlPacking
{
	MosqlTimestamp before;		/* all of their rows are older; 0: none are packed */
	MosqlCompression how;
} MosqlPacking;

/* ---- trees that transactions have given up (garbage.c) ---- */

/* What is on the list, in the current context; NULL: nothing. */
typedef struct MosqlGarbage MosqlGarbage;
extern MosqlGarbage *mosql_garbage_begin(MosqlSession *session);

/*
 * Kill the roots of those that none of n definitions' trees are, which were listed after that began, some round
 * trips for 64 of them; and take off the list what is named, or gone.  named is sorted by it.  The caller has had MOSQL_JOB_GARBAGE since before
 * mosql_garbage_begin().
 */
extern void mosql_garbage_kill(MosqlGarbage *garbage, uint64 *named, int n, MosqlVacuumCounts *counts);

/*
 * Destroy what is killed; more as in mosql_btree_destroy().  Who stops, or dies, leaves the rest on the
 * list.  The counts are those of mosql_garbage_kill().
 */
extern void mosql_garbage_destroy(MosqlGarbage *garbage, MosqlDestroyMore more, void *arg);

/*
 * Tidy the next leaves of a tree, at most max_leaves (<= 64) of them, from
 * *position on, which is initialised and empty at first and opaque: remove what
 * no snapshot needs, settle what finished and dead transactions left, finish
 * splits and merges, merge emptied leaves away, pack those of which all rows
 * are older than packing says.  Returns
 * false at the end of the tree, with *position empty again.  Adds to *counts.
 *
 * A few round trips per call, so that the caller can set the pace.  What undecided
 * transactions have in flight stays as long as their sessions live.  Can be interrupted, or die, anywhere, and run by many at once.  Not inside a
 * transaction that has written.  42P01 if the tree is gone.
 */
extern bool mosql_vacuum_tree(MosqlSession *session, MosqlTree *tree, StringInfo position,
							  int max_leaves, MosqlPacking packing, MosqlVacuumCounts *counts);

/*
 * A batch of one leaf failed for damage: go on behind it, and what else the damage keeps
 * from being read.  False if that is the end of the tree, with *position empty.  XX001 if
 * the root is damaged.
 */
extern bool mosql_vacuum_skip(MosqlTree *tree, StringInfo position);

/*
 * Calls visit with the nodes of the namespace, by SCAN, some hundreds at a time: a node that
 * is there all the while comes once at least.  In a context that is reset after each call.
 */
typedef void (*MosqlVisitNodes) (void *arg, const uint64 *nodes, int n);
extern void mosql_session_visit_nodes(MosqlSession *session, MosqlVisitNodes visit, void *arg);

/*
 * Deletes nodes of the namespace that nobody can reach: signposts of merges that
 * are old enough, what crashes in the middle of splits left, trees that no
 * definition names.  Such a tree goes at once if it never was anybody's; if it was (its
 * root has a label, src/table/label.c), or its root is lost, it is noted at the clock and
 * kept for mosql_fdw.orphan_retention.  Between begin and the first call of next the caller lists the
 * roots of all trees that definitions name, as of a snapshot drawn after begin
 * (not an older one: a table made meanwhile would be taken for garbage).
 *
 * Each call of next looks at one page of keys of one Redis node, some hundreds;
 * false at the end.  go_on is asked, as by mosql_btree_destroy(), where a tree is destroyed: what it
 * leaves is for another sweep.  Memory: the roots and one page.
 */
typedef struct MosqlSweep MosqlSweep;
extern MosqlSweep *mosql_sweep_begin(MosqlSession *session);
extern void mosql_sweep_roots(MosqlSweep *sweep, const uint64 *roots, int n);
extern bool mosql_sweep_next(MosqlSweep *sweep, MosqlDestroyMore go_on, void *arg, MosqlVacuumCounts *counts);
extern void mosql_sweep_end(MosqlSweep *sweep);

/*
 * Set by the fdw layer: called at the end of every PostgreSQL transaction,
 * committed or not, with interrupts held; must not throw.
 */
typedef void (*MosqlTransactionEnd) (void);
extern MosqlTransactionEnd mosql_txn_end_hook;

/*
 * Set by the fdw layer: a JSON object, in UTF-8 and the current context, that says which
 * backend this is.  Called when a session draws an id; NULL: nothing is noted.
 */
typedef const char *(*MosqlWho) (void);
extern MosqlWho mosql_txn_who_hook;

/* One of a circle of waits: a session that waits at a row for another one. */
typedef struct MosqlWaiter
{
	uint64		session;
	uint64		blocker;
	uint64		root;			/* of the row's tree */
	MosqlBytes	key;
} MosqlWaiter;

/*
 * Set by the admin layer: a deadlock in words, in the current context; NULL: there are none.
 * at_commit: catalogs must not be read.  Must not throw, nor wait for locks.
 */
typedef char *(*MosqlDescribeDeadlock) (MosqlSession *session, const MosqlWaiter *waiters, int n,
										bool at_commit);
extern MosqlDescribeDeadlock mosql_txn_deadlock_hook;

/*
 * Set by the fdw layer: from now on (keep), until it is called again, the session's id has
 * to live although nothing may be heard of it: its transaction may idle, and holds
 * something.  Must not throw when keep is false.
 */
typedef void (*MosqlKeep) (MosqlSession *session, bool keep);
extern MosqlKeep mosql_txn_keep_hook;

/*
 * Set by the fdw layer.  before_commit: before the first session commits, may read
 * and throw.  subtransaction: one of that nesting level ends; must not throw.
 */
typedef void (*MosqlBeforeCommit) (void);
typedef void (*MosqlSubtransactionEnd) (int level, bool committed);
extern MosqlBeforeCommit mosql_txn_before_commit_hook;

/*
 * Set by the admin layer: locks of PostgreSQL's own that others are kept off by until PostgreSQL has committed.  Taken when nothing is in
 * place in Redis, which may wait and throw; not taken: given back, while a lock in Redis is waited for.
 */
typedef void (*MosqlCommitLocks) (bool taken);
extern MosqlCommitLocks mosql_txn_commit_locks_hook;
extern MosqlSubtransactionEnd mosql_txn_subtransaction_hook;

/* Register the transaction callbacks; once, from _PG_init. */
extern void mosql_txn_init(void);

#endif							/* MOSQL_TXN_H */
