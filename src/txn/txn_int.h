/*
 * txn_int.h: what the phases of a transaction share.
 *
 * Layer: txn.  One file per phase: session.c, buffer.c (writes until commit),
 * view.c and scan.c (reads), visible.c (rows and intents at a snapshot),
 * commit.c (the drive), prepare.c, decide.c, apply.c, recover.c (what others
 * left), xact.c (PostgreSQL's callbacks, the only ones).
 */
#ifndef MOSQL_TXN_INT_H
#define MOSQL_TXN_INT_H

#include "base/base.h"
#include "lib/ilist.h"

#include "base/debug.h"
#include "base/interrupt.h"
#include "base/limits.h"
#include "base/retry.h"
#include "base/stats.h"
#include "code/node.h"
#include "step/clock.h"
#include "txn/txn.h"

/* The tree of definitions: never marked by SERIALIZABLE readers, because the
 * schema version that decide compares protects it. */
#define MOSQL_CATALOG_ROOT		UINT64CONST(1)

/* Strengths of locks that are counted: MosqlStrength up to MOSQL_UPDATE. */
#define MOSQL_SESSION_STRENGTHS	5

/* ---------- session ---------- */

typedef struct MosqlSessionStore
{
	MosqlNodeStore store;		/* first, so that the two convert */
	MosqlSession *session;
} MosqlSessionStore;

/* So many leaves of a tree are remembered. */
#define MOSQL_USUAL_LEAVES	2

typedef struct MosqlSessionTree
{
	uint64		root;
	bool		dead;			/* given up */
	bool		looked;			/* the last transaction that incremented rows has looked at one (lock_look.c) */
	uint8		vain;			/* how often in a row its usual leaves were read in vain (usual.c), */
	uint8		rests;			/* and for how many transactions they are not, therefore */
	uint8		same;			/* how often in a row the first of them was it */
	uint64		usual[MOSQL_USUAL_LEAVES];	/* where increments have found their rows last; newest first, 0: none */
	MosqlTree  *tree;
} MosqlSessionTree;

/*
 * A committed transaction whose applies are not all acknowledged.  Its record
 * is dropped when they are (rule 5); what failed is redone, key by key, the way
 * any helper would.
 */
typedef struct MosqlPending
{
	dlist_node	node;
	MosqlSession *session;
	MemoryContext cxt;
	MosqlTxid	tx;
	MosqlTimestamp ts;
	int			outstanding;	/* replies still to come */
	bool		failed;			/* some step was not DONE: redo */
	bool		unknown;		/* the client was told 08007: settle it first, and
								 * leave the record for those who ask */
	int64		not_before_us;	/* a redo that failed is not tried again at once */
	int			nredone;		/* of the keys */
	int			nkeys;			/* for the redo: written keys, then marked ranges */
	uint64	   *roots;
	MosqlBytes *keys;
	int			nmarks;
	uint64	   *mark_roots;
	MosqlBytes *mark_low;
	MosqlBytes *mark_high;
	int			ndropped;		/* trees that are for the list, if it turns out to be committed */
	uint64	   *dropped;
} MosqlPending;

/*
 * Locks that the session holds beyond its transactions (session_lock.c), each as often as it was
 * asked for.
 */
typedef struct MosqlSessionLock
{
	struct MosqlSessionLock *next;
	uint64		root;
	MosqlBytes	key;
	int			counts[MOSQL_SESSION_STRENGTHS];	/* by strength */
} MosqlSessionLock;

/* Rows of which an earlier transaction's locks may be there still. */
typedef struct MosqlLeftover
{
	struct MosqlLeftover *next;
	uint64		root;
	int64		since_us;
	int			n;
	MosqlBytes *keys;
} MosqlLeftover;

/* Somebody's undecided transaction that was in our way. */
typedef struct MosqlMet
{
	MosqlTxid	tx;
	int64		since_us;		/* first */
	int64		seen_us;		/* last */
	uint64		sign;			/* its last sign of life that was looked at; since_us: since that */
} MosqlMet;

#define MOSQL_MET_MAX 256		/* more in the way of one commit wait for their turn */

/* The signs of life of an attempt (sign.c). */
typedef struct MosqlSign
{
	MosqlTxid	tx;
	int64		due_us;			/* when the next is given; 0: none is */
	uint64		n;				/* so many were */
} MosqlSign;

/* A time, and how many connections had broken by then. */
typedef struct MosqlMoment
{
	int64		us;
	uint64		breaks;
} MosqlMoment;

struct MosqlSession
{
	dlist_node	node;			/* in the backend's list of sessions */
	MemoryContext cxt;
	MosqlSessionConfig config;
	MosqlRedis *redis;
	MosqlSessions known;		/* who lived, */
	int64		known_us;		/* then (lock_wait.c) */
	MosqlRedis *waiting;		/* for BLPOP; NULL: never waited */
	MosqlStepper stepper;
	MosqlSessionStore store;

	/* --- identity --- */
	uint64		sid;			/* 0: none */
	int64		contact_us;		/* last time the clock surely saw us */
	int64		drawn_us;		/* when the id was drawn */
	int64		lapsed_us;		/* last time that we noticed a lease's time without */
	uint64		lapses;			/* how often we did */
	uint64		last_tx;		/* number of the last attempt */
	int			losses;			/* commits that failed since one did not (40001) */
	uint64		last_snapid;
	uint64		drawing;		/* snapshot id being drawn: perhaps registered */
	uint64		id_prefix;		/* ids are prefix << 20 | counter */
	uint64		id_counter;
	uint64		root_counter;	/* of roots, down from the session's own last id */
	int			nprefixes;		/* drawn when the first was used up */
	int			maxprefixes;
	uint64	   *prefixes;
	uint64		schema;
	MosqlMoment heard;			/* when it was asked for what is known of it */
	uint64		gone_schema;	/* by which a tree was gone that a statement read, */
	int64		gone_since_us;	/* the first time, and the last */
	int64		gone_last_us;
	bool		ask_schema;		/* an abort: ask the clock before the next use */
	bool		keeps_id;		/* whatever its age */
	bool		leaves_id;		/* as soon as it can: locks are left under it */
	bool		overdue;		/* its lease may be over: no other id could be drawn */
	bool		doubts;			/* a key that was proved free was not: none is believed to be any more */
	MosqlTimestamp checked_last;	/* the clock's last time, as check.c saw it */

	/* --- locks held beyond transactions (session_lock.c) --- */
	MosqlSessionLock *locks;	/* NULL: none */
	MosqlTxid	lock_owner;		/* of all claims, as long as there are any */
	uint32		lock_waits;		/* how often that one has waited */
	uint64		lock_breaks;	/* of connections, when they were surely there; PG_UINT64_MAX: not now */
	MosqlLeftover *leftovers;
	int64		leftovers_due_us;	/* not tried before */
	uint64		released_breaks;	/* of connections, when no snapshot was surely registered but the transaction's */
	bool		locks_lost;		/* and nobody was told yet */
	uint64		kept_sid;		/* the id that is kept alive; 0: none */

	/* --- caches --- */
	int			ntrees;
	int			maxtrees;
	MosqlSessionTree *trees;
	void	   *table_cache;

	/* --- left over from earlier transactions --- */
	dlist_head	pending;		/* MosqlPending */
	int64		pending_due_us;	/* while the session idles: not looked at before */
	int			ndrops;			/* records to drop, of session drops_sid */
	int			maxdrops;
	uint64	   *drops;
	uint64		garbage_breaks;	/* of connections, before any of it was garbage */
	int			ngarbage;		/* trees to destroy */
	int			maxgarbage;
	uint64	   *garbage;

	/* --- rows that were named by ctid (handle.c) --- */
	struct MosqlNumbers *numbers;	/* per tree */
	size_t		number_bytes;
	uint64		reading;		/* counts times without an open view */

	/* --- others in the way --- */
	MosqlMet	met[MOSQL_MET_MAX];
	MosqlSign	sign;			/* that we are not dead, for those whom we are in the way of */

	/* --- now --- */
	MosqlTxn   *txn;
};

/* Make sure that there is a live session id; settles what is left over. */
extern void mosql_session_ready(MosqlSession *session);

/*
 * The session goes on without asking the clock anything that would extend its lease: false if it
 * has run out.  No round trip, but after a third of a lease without a word of the clock.
 */
extern bool mosql_session_extend(MosqlSession *session);

/* The lease ran out: take a new id. */
extern void mosql_session_renew(MosqlSession *session);

/* Trust nothing that was read of trees before now. */
extern void mosql_session_forget_paths(MosqlSession *session);
extern MosqlTxid mosql_session_next_txid(MosqlSession *session, uint64 age);

/* Locks that could not be taken back are left to those who wait: the next transaction has
 * another id. */
extern void mosql_session_leave_locks(MosqlSession *session);

/*
 * The process exits in the middle of a transaction that holds locks: the session ends now,
 * so that they are those of a dead one.  Bounded; says nothing.
 */
extern void mosql_session_abandon(MosqlSession *session);
extern void mosql_session_add_drop(MosqlSession *session, uint64 n);
extern void mosql_session_drop(MosqlSession *session);
extern void mosql_session_drop_records(MosqlSession *session, uint64 sid, const uint64 *ns, int n);
extern void mosql_session_forget_drawing(MosqlSession *session);
extern void mosql_session_add_garbage(MosqlSession *session, uint64 root, uint64 breaks);
extern bool mosql_session_try_unbroken(MosqlSession *session, void (*work) (void *arg), void *arg);
extern void mosql_session_do_unbroken(MosqlSession *session, uint64 breaks,
									  void (*work) (void *arg), void *arg);

/* The next n calls of that need no memory. */
extern void mosql_session_expect_garbage(MosqlSession *session, int n);

/*
 * Between transactions, when nobody refers to them: forget the handles of trees
 * that are gone, or, if there are too many, of all.
 */
extern void mosql_session_forget_trees(MosqlSession *session);

/* The tree is given up: its handle goes at the end of the transaction. */
extern void mosql_session_note_dead(MosqlSession *session, uint64 root);

/* Does the session know the schema version as it was a short while ago (rule 39)? */
extern bool mosql_session_is_fresh(const MosqlSession *session);

/* What was read without a snapshot meanwhile is to be read with one. */
extern bool mosql_session_lost_touch(const MosqlSession *session);

/*
 * The clock was asked for its schema version, by a read, at before_us or later, and has told this one; 0: it has not.  Is it the one that
 * the session knows?  If another, it asks before it goes on by what it knows.
 */
extern bool mosql_session_hear(MosqlSession *session, uint64 schema, int64 before_us);

/* Now: for session->heard, once the clock has told its schema version that is asked for it next. */
extern MosqlMoment mosql_session_moment(const MosqlSession *session);

/*
 * A transaction has ended, or left something over: what is noted as garbage is destroyed for mosql_fdw.drop_time,
 * and left to maintenance then.  drops: trees that others may know; if not all are gone this returns when
 * nobody reads them any more who began to do so when it has returned (rule 39).  Never throws.
 */
extern void mosql_session_end_trees(MosqlSession *session, bool drops, int64 decided_us);

/*
 * PostgreSQL's commit failed after ours was decided: what was dropped is on the list before the record that
 * tells of it goes (rule 40); maintenance destroys what no definition names.  Never throws.
 */
extern void mosql_txn_leave_drops(MosqlTxn *txn);

/* Before an error tells of a commit that has, or may have, dropped trees, and leaves them all: wait as long (rule 39). */
extern void mosql_txn_wait_for_drops(const MosqlTxn *txn);

/* The roots of the trees that it drops, if there is room for them; how many these are. */
extern int	mosql_txn_dropped(const MosqlTxn *txn, uint64 *roots);
extern dlist_head mosql_sessions;

/* ---------- write buffer ---------- */

typedef enum MosqlChangeKind
{
	MOSQL_CHANGE_PUT, MOSQL_CHANGE_DELETE, MOSQL_CHANGE_INCREMENT
} MosqlChangeKind;

/* What commit must find stored for a change to be made. */
typedef enum MosqlBaseKind
{
	MOSQL_BASE_ABSENT,			/* no live row */
	MOSQL_BASE_VERSION,			/* the newest version is `version` */
	MOSQL_BASE_LIVE				/* any live row (increments, index entries) */
} MosqlBaseKind;

/*
 * One change of a row by one command.  The newest alone describes the net
 * effect on the stored row: increments are cumulative.
 */
typedef struct MosqlChange
{
	struct MosqlChange *older;	/* of the same row */
	struct MosqlChange *earlier;	/* in the transaction's journal */
	struct MosqlEntryW *entry;
	CommandId	cid;
	int			level;			/* transaction nesting level */
	MosqlChangeKind kind;
	MosqlBaseKind base;
	MosqlTimestamp version;		/* BASE_VERSION; INCREMENT: version of `columns` */
	bool		unsettled;		/* INCREMENT: `columns` may lack others' increments */
	MosqlBytes	columns;		/* PUT: new row; INCREMENT: stored row as read */
	int			ninc;
	MosqlIncrement *inc;
} MosqlChange;

/* A row in the buffer: a node of a skip list in key order. */
#define MOSQL_SKIP_LEVELS 20
typedef struct MosqlEntryW
{
	MosqlBytes	key;
	MosqlChange *top;			/* newest change, NULL: all rolled back */
	bool		unchecked;		/* insert whose key was not looked up yet */
	bool		locked;			/* FOR UPDATE and kin: commit compares that it is there, */
	bool		referenced;		/* it must be live: a foreign key leads here, */
	bool		shown;			/* or an increment that was rolled back has shown it */
	bool		found_free;		/* insert of a key that ON CONFLICT found free, */
	bool		proved_free;	/* or that is free since nobody else could commit it */
	bool		of_row;			/* or of an index entry that tells its row */
	bool		hides;			/* insert: a scan has met somebody else's row under it */
	MosqlTimestamp lock_version;
	bool		pinned;			/* and in lock_version, which a lock FOR KEY SHARE alone lets go by */
	int			strength;		/* of its lock in Redis; 0: none */
	bool		sure;			/* LOCK TABLE and kin: it is asked for in order to be relied on, */
	bool		relied_on;		/* and is: that lock is to be there at commit */
	MosqlTimestamp claimed;		/* the version that was there when it was locked last */
	MosqlBytes	kept;			/* its columns, as long as the lock keeps writers out; absent: not kept */
	struct MosqlHeld *held;		/* it may be locked since (lock.c); NULL: no */
	bool		given_back;		/* ... and is not, since it was asked for last */
	int			height;
	struct MosqlEntryW *next[FLEXIBLE_ARRAY_MEMBER];
} MosqlEntryW;

/* An insert that this transaction took back itself leaves nothing to do. */
extern bool mosql_entry_is_void(const MosqlEntryW *entry);

/* 40001: what an insert that is deleted again has hidden.  Does not return. */
extern void mosql_report_hidden(void);

/* A row that was locked, before it was changed; it was not pinned. */
typedef struct MosqlLock
{
	struct MosqlLock *earlier;
	int			level;			/* of the savepoint */
	MosqlTree  *tree;
	MosqlEntryW *entry;
	bool		was_locked;
} MosqlLock;

/* A row that was found to be there, for a foreign key. */
typedef struct MosqlReferenced
{
	struct MosqlReferenced *earlier;
	int			level;			/* of the savepoint */
	MosqlEntryW *entry;
} MosqlReferenced;

typedef struct MosqlBuffer
{
	MosqlTree  *tree;
	struct MosqlBuffer *next_buffer;
	int			nentries;
	int			height;
	MosqlEntryW *head[MOSQL_SKIP_LEVELS];
	MosqlEntryW *tail[MOSQL_SKIP_LEVELS];	/* last entry of each level */
	int			nunchecked;
	int			ncoming;		/* of them, inserts; the others leave */
	int			maxunchecked;
	MosqlEntryW **unchecked;
	bool		looks_lock;		/* who looks at a row that was incremented locks it: some statement does so, */
	bool		looked;			/* and has, in this transaction */
} MosqlBuffer;

/* ---------- reads that commit certifies ---------- */

typedef struct MosqlRead
{
	MosqlTree  *tree;
	MosqlBytes	low;			/* a key, or the start of a range */
	MosqlBytes	high;
	bool		range;
	MosqlTimestamp S;			/* of a range: what it was read at */
} MosqlRead;

/* ---------- views ---------- */

typedef struct MosqlStatement MosqlStatement;	/* view_int.h */

/* So many trees can be scanned without a snapshot later in a transaction (scan.c). */
#define MOSQL_MET_TREES		16

typedef enum MosqlIsolation
{
	MOSQL_READ_COMMITTED, MOSQL_REPEATABLE_READ, MOSQL_SERIALIZABLE
} MosqlIsolation;

/* ---------- the transaction ---------- */

typedef struct MosqlTreeNote
{
	struct MosqlTreeNote *next;
	uint64		root;
	int			level;
	bool		drop;			/* dropped at commit; else created, undone at abort */
	uint64		sid;			/* the session's id then */
	uint64		loaded;			/* rows that were written to it at once (load.c), */
	CommandId	loaded_by;		/* by this command, InvalidCommandId: all see them */
} MosqlTreeNote;

typedef struct MosqlHandle
{
	MosqlBytes	key;
	MosqlTimestamp version;
} MosqlHandle;

struct MosqlTxn
{
	MosqlSession *session;
	MemoryContext cxt;
	bool		joined;			/* a parallel worker's: it reads at its leader's snapshot, and that is all */
	MosqlIsolation isolation;
	int			level;			/* XactIsoLevel, of which that is made */
	uint64		schema;			/* version when it began; decide compares it */
	uint64		first_schema;	/* the same, whatever it prepared again for */
	uint64		compared;		/* as of which its definitions were compared last */
	int64		decided_us;		/* when it learned that it is; or gave up asking whether */
	uint64		breaks;			/* of connections, before it began */

	/* --- snapshot of REPEATABLE READ and SERIALIZABLE --- */
	bool		drawn;
	MosqlTimestamp S;
	uint64		S_schema;		/* version drawn with it */
	uint64		snapid;
	uint64		snap_sid;
	struct MosqlSeen *seen;		/* what was read at it; NULL: nothing is kept */

	/* --- views --- */
	MosqlStatement *statements;
	int			nviews;
	int			nmet;
	uint64		met[MOSQL_MET_TREES];	/* roots of what statements have scanned, by definitions that held then */
	MemoryContext handle_cxt;
	uint64		nhandles;
	uint64		maxhandles;
	MosqlHandle *handles;
	size_t		handle_bytes;	/* accounted for */

	/* --- writes --- */
	MosqlBuffer *buffers;
	MosqlChange *journal;		/* newest first */
	int			put_level;		/* 0, or the savepoint of mosql_txn_put_earlier(); */
	MosqlChange *cut_off;		/* the journal's part before that, meanwhile */
	MosqlLock  *locks;			/* newest first */
	struct MosqlUsual *usual;	/* leaves that are read ahead; NULL: no increment yet */
	MosqlTxid	owner;			/* of claims; session 0: none yet */
	uint64		claim_breaks;	/* of connections, before its first claim */
	size_t		kept_bytes;		/* of rows that are locked (lock.c) */
	struct MosqlHeld *held;		/* newest first */
	uint32		nwaits;
	bool		told;			/* the clock knows of the last of them */
	int			ninsert_locks;	/* of keys that it inserts */
	int			nalong;
	struct MosqlAlong *along;	/* [MOSQL_ALONG_MAX], NULL: none yet */
	MosqlSettleInserts settle;	/* some are not looked up yet; NULL: none are left so */
	void	   *settle_arg;
	size_t		bytes;
	uint64		random;
	MosqlReferenced *references;	/* newest first */
	bool		refers;			/* some entry is, or was, `referenced` or `shown` */
	bool		changes_schema;
	bool		loads;			/* it has begun to, */
	bool		loaded;			/* and has: rows into a tree of its own (load.c) */
	uint64		load_breaks;	/* of connections, before the first of them */
	MosqlTreeNote *trees;
	bool		decided;		/* committed in Redis; PostgreSQL's own commit comes yet */
	bool		unknown;		/* whether it is committed there: 08007 */

	/* --- reads --- */
	int			nreads;
	int			maxreads;
	MosqlRead  *reads;
};

/* So much more memory is taken until the end: 54000 beyond the limit. */
extern void mosql_txn_account(MosqlTxn *txn, size_t bytes);

extern MosqlBuffer *mosql_buffer_find(MosqlTxn *txn, MosqlTree *tree, bool create);
extern MosqlEntryW *mosql_buffer_lookup(MosqlBuffer *buffer, MosqlBytes key);

/* Call what mosql_txn_settle_later() has left, if anything. */
extern void mosql_txn_settle_inserts(MosqlTxn *txn);

/* A new entry without changes, for a key that has none. */
extern MosqlEntryW *mosql_buffer_add(MosqlTxn *txn, MosqlBuffer *buffer, MosqlBytes key);

/* First entry with key >= low. */
extern MosqlEntryW *mosql_buffer_seek(MosqlBuffer *buffer, MosqlBytes low);

/* The change that a command sees, NULL if none. */
extern MosqlChange *mosql_entry_visible(MosqlEntryW *entry, CommandId curcid);

/* Make an increment a plain put on the row that it was computed from. */
extern void mosql_change_bind(MosqlTxn *txn, MosqlTree *tree, MosqlEntryW *entry);

/* From now on the increments among its changes are computed from this row. */
extern void mosql_change_rebase(MosqlTxn *txn, MosqlEntryW *entry, const MosqlRow *row);

/* Did it come after the transaction's snapshot (above READ COMMITTED)? */
extern bool mosql_txn_is_newer(const MosqlTxn *txn, MosqlTimestamp version);

/* 40001: a row that was incremented is gone, and wanted; or it is newer than the snapshot.  Do not return. */
extern void mosql_report_deleted(void);
extern void mosql_report_updated(void);

/* The columns that a change leaves behind, as its own transaction sees them;
 * in the current context if they must be computed. */
extern MosqlBytes mosql_change_columns(MosqlTxn *txn, const MosqlChange *change);

extern void mosql_buffer_subabort(MosqlTxn *txn, int level);
extern void mosql_buffer_subcommit(MosqlTxn *txn, int level);

/* ---------- rows of private trees (load.c) ---------- */


/* Is all that the tree has stored of a command that this view is not to see? */
extern bool mosql_load_is_later(const MosqlView *view, const MosqlTree *tree);

/* Before the decision: is all that the transaction has loaded there still?  40001 if that is not sure. */
extern void mosql_load_check(const MosqlTxn *txn);

/* ---------- locks ---------- */

typedef struct MosqlHeld MosqlHeld;

/* Trees in which rows are asked for along with keys (mosql_txn_refer_along()). */
#define MOSQL_ALONG_MAX		8

/* No intent is told of a row that is there whatever becomes of it. */
extern void mosql_point_ignore_harmless(MosqlPoint *point);

/* The bytes that ADMITS and HOLDS compare; surely: HOLDS, of a lock that is relied on. */
extern MosqlBytes mosql_lock_asked(MosqlTxid owner, int strength);
extern MosqlBytes mosql_lock_asked_surely(MosqlTxid owner, int strength);

/* Has somebody else a lock FOR UPDATE in this intents field? */
extern bool mosql_lock_is_taken(const MosqlTxn *txn, MosqlBytes field);

/* Locks since a savepoint are let go, or become those of the one around it. */
extern void mosql_locks_subabort(MosqlTxn *txn, int level);
extern void mosql_locks_subcommit(MosqlTxn *txn, int level);

/*
 * The row is held as if it had been locked in an earlier savepoint, if it was not locked before.
 */
extern void mosql_lock_hold_since(MosqlTxn *txn, MosqlEntryW *entry, int level);

/* All are let go, but those that the applies of a commit take off.  Throws nothing. */
extern void mosql_locks_end(MosqlTxn *txn, bool committed);

/* The same as the process ends: as many as can be without a look, or a wait; the rest goes with the session's id. */
extern void mosql_locks_tell(MosqlTxn *txn);
extern uint64 mosql_txn_age(void);

/* What the session knows of a tree, until the next is opened; NULL: it does not have it. */
extern MosqlSessionTree *mosql_session_tree_slot(MosqlSession *session, const MosqlTree *tree);

/* ---------- looks at rows that were incremented (lock_look.c) ---------- */

/*
 * Before the rows of n keys, or what a scan has come to (n entries from there on), are shown: those that
 * were incremented, are to be locked for that, and are not, are locked; of a scan some that come next as
 * well.  No round trip where there are none, else one, and waits as in mosql_txn_claim(); 40001 if a row is
 * gone, or newer than the snapshot.
 */
extern void mosql_look_at_keys(MosqlTxn *txn, MosqlBuffer *buffer, CommandId curcid, const MosqlBytes *keys, int n);
extern void mosql_look_at_entries(MosqlTxn *txn, MosqlBuffer *buffer, CommandId curcid, MosqlEntryW **entries,
								  int n, bool backward);

/* The transaction is committed: what it has looked at, the session's next one probably will. */
extern void mosql_looks_end(MosqlTxn *txn);

/* ---------- what is read ---------- */

/* Remember a key that was read, if the transaction is SERIALIZABLE. */
extern void mosql_txn_note_read(MosqlTxn *txn, MosqlTree *tree, MosqlBytes key);

/* Remember a range that was read as of S and is to be certified. */
extern void mosql_txn_note_range(MosqlTxn *txn, MosqlTree *tree, MosqlBytes low, MosqlBytes high,
								 MosqlTimestamp S);

/*
 * Around the reads of a statement, so that a tree that is gone (42P01) is what it is to
 * its transaction: a table or an index that another one has dropped or truncated
 * meanwhile, 40001.  If retries find no newer definitions for a while, it is 42P01.
 */
extern void mosql_txn_begin_read(MosqlSession *session, ErrorContextCallback *context);

static inline void
mosql_txn_end_read(const ErrorContextCallback *context)
{
	error_context_stack = context->previous;
}

/* ---------- handles ---------- */

/* The last view was closed: handles and versions as read are void, numbers remain. */
extern void mosql_handles_end_statements(MosqlTxn *txn);

/* The transaction ends: numbers are forgotten if they are many. */
extern void mosql_numbers_end(MosqlSession *session);

/* ---------- visibility ---------- */

/* Where intents lead when the clock was asked: a small cache of one call. */
typedef struct MosqlStatusCache
{
	int			n;
	int			max;
	MosqlTxid  *txs;
	MosqlTimestamp *committed;	/* 0: not committed, and read again since */
} MosqlStatusCache;

/*
 * Find out about the intents of n points, reading points again where the
 * clock's answer alone is not final (rule 4), or, if the latest state is wanted
 * (no snapshot), where increments are in flight.  Afterwards every intent left in
 * `points` is in the cache with its commit timestamp or 0.
 */
extern void mosql_points_settle(MosqlSession *session, MosqlTree *tree, const MosqlBytes *keys,
								MosqlPoint *points, int n, bool latest, MosqlStatusCache *cache);

/* Are increments in flight there? */
static inline bool
mosql_point_has_increments(const MosqlPoint *point)
{
	MosqlBytes	intents = point->intent;
	MosqlIntent intent;

	return mosql_intent_next(&intents, &intent) == 1 && intent.kind == MOSQL_INTENT_INCREMENT;
}

/*
 * What a settled point is at S (MOSQL_TS_MAX: latest): columns of a live row; the version
 * seen, 0: none; what is damaged, in words.  Throws nothing but for memory.
 */
extern MosqlVisible mosql_point_look(const MosqlPoint *point, MosqlTimestamp S,
									 const MosqlStatusCache *cache, MosqlBytes *columns,
									 MosqlTimestamp *version, const char **fault);

/*
 * The row of a settled point at S (MOSQL_TS_MAX: latest).  Returns true and
 * the columns if it is live; *version is the version seen (0: none).  Throws
 * 40001 if S is too old.
 */
extern bool mosql_point_visible(MosqlSession *session, const MosqlPoint *point, uint64 node,
								MosqlTimestamp S, const MosqlStatusCache *cache,
								MosqlBytes *columns, MosqlTimestamp *version);

/*
 * The rows of n points that were read, in their latest committed state: found, columns and
 * version; the points are settled.
 */
extern void mosql_points_latest(MosqlSession *session, MosqlTree *tree, const MosqlBytes *keys,
								MosqlPoint *points, int n, MosqlRow *rows);

/*
 * A snapshot that is not registered any more (its lease ran out, or a failover of
 * the clock lost it) met a row that was pruned since: 40001.
 */
extern void mosql_report_too_old(MosqlSession *session) pg_attribute_noreturn();

/* ---------- commit ---------- */

typedef enum MosqlItemKind
{
	MOSQL_ITEM_WRITE,			/* a change */
	MOSQL_ITEM_CHECK,			/* a key read or locked: must be unchanged until decided */
	MOSQL_ITEM_REFERENCE,		/* a row that a foreign key leads to: must be live */
	MOSQL_ITEM_CLAIM,			/* a lock that keeps others from more than its row: must be there */
	MOSQL_ITEM_RANGE			/* a range read */
} MosqlItemKind;

/* One row, or one range, that takes part in a commit. */
typedef struct MosqlItem
{
	MosqlItemKind kind;
	MosqlBytes	key;			/* RANGE: where to go on; moves as leaves are marked */
	MosqlBytes	high;			/* RANGE */
	const MosqlChange *change;	/* WRITE */
	MosqlBaseKind base;			/* expectation now; prepare may refine it */
	MosqlTimestamp version;		/* BASE_VERSION; CHECK: at most / exactly; RANGE: at most */
	bool		exact;			/* CHECK: exactly this version (locks) */
	int			strength;		/* WRITE, CHECK, CLAIM: of its lock, which must still be there; 0: none */
	int			locked;			/* WRITE: how strongly its row is locked by this transaction; 0: not */
	bool		claims;			/* there are some at its row */
	bool		done;
	bool		here;			/* on a leaf that the step which decides compares and writes (one_step.c) */
	bool		sent;			/* WRITE: this attempt may have placed its intent */
	bool		no_bulk;		/* its leaf turned out not to be empty, or not to be written as a whole */
	bool		by_leaf;		/* WRITE: prepared with all of its leaf, as a block: there is no intent of its own */
	MosqlBytes	old_row;		/* the row's field as prepare found it */
	MosqlBytes	columns;		/* the row to write (computed for increments) */
} MosqlItem;

/* Does prepare place an intent for it, which is to be applied? */
static inline bool
mosql_item_leaves_intent(const MosqlItem *item)
{
	return item->kind == MOSQL_ITEM_WRITE && !item->here;
}

/* So many items of a leaf are in one step: its counts have 16 bits. */
#define MOSQL_STEP_MAX_ITEMS	16000

/* So many items, in so many steps, are prepared or applied at a time. */
#define MOSQL_ROUND_MAX_ITEMS	65536
#define MOSQL_ROUND_MAX_STEPS	1024

/* A read mark that was placed: on a leaf, with the fences it had. */
typedef struct MosqlMark
{
	MosqlTree  *tree;
	uint64		leaf;
	uint64		generation;
	bool		with_writes;	/* the leaf has intents, too: apply takes it off */
	MosqlBytes	low;
	MosqlBytes	high;
} MosqlMark;

/* A leaf that is being written anew: a step is on its way, and what has come of it is not known. */
typedef struct MosqlSentLeaf
{
	struct MosqlSentLeaf *next;
	MosqlTree  *tree;
	uint64		leaf;
	MosqlBytes	meta;			/* as it is when the step is done */
} MosqlSentLeaf;

typedef struct MosqlParticipant
{
	MosqlTree  *tree;
	int			n;
	MosqlItem  *items;			/* ascending, distinct keys; ranges apart */
	int			nranges;
	MosqlItem  *ranges;
	MosqlCompression loads;		/* so many rows are inserted that leaves are filled with blocks; NONE: no */
	bool		rewrites;		/* packed leaves may be written anew */
} MosqlParticipant;

/* Whose intent or mark is in the way; tree NULL: nobody's. */
typedef struct MosqlBlocker
{
	MosqlTree  *tree;
	MosqlBytes	key;
	MosqlTxid	tx;
	bool		mark;			/* a read mark, not an intent */
	bool		loading;		/* the key's leaf is loading for it, which need not write the key */
	bool		anew;			/* ... over rows that were there: waited for as long as for a lock */
	int			strength;		/* > 0: a lock, for which one waits in its queue with this */
} MosqlBlocker;

typedef struct MosqlOneStep MosqlOneStep;

/* Between the steps of a commit, which together.c takes. */
typedef enum MosqlCommitState
{
	MOSQL_COMMIT_IDLE,			/* nothing of it is in Redis */
	MOSQL_COMMIT_PREPARED,
	MOSQL_COMMIT_DECIDED,
	MOSQL_COMMIT_UNKNOWN		/* decided, or not: the clock could not be asked */
} MosqlCommitState;

typedef struct MosqlCommit
{
	MosqlTxn   *txn;
	MosqlSession *session;
	MemoryContext cxt;			/* whole commit */
	MemoryContext attempt_cxt;	/* one attempt */
	MosqlTxid	tx;				/* of this attempt */
	MosqlSentLeaf *sent;		/* of it, in attempt_cxt */
	int			nparts;
	MosqlParticipant *parts;
	int			nmarks;
	int			maxmarks;
	MosqlMark  *marks;
	MosqlBytes *saved_ranges;	/* where the ranges begin; they move while marked */
	MosqlCommitState state;
	int			tries;			/* attempts so far */
	MosqlBudget budget;			/* to wait and retry in */
	int			refusals;		/* for which it was started anew */
	bool		several;		/* its transaction writes in other namespaces, too, where it has perhaps more in place */
	bool		limited;		/* it is not: another session has decided */
	uint64		breaks;			/* of connections, before this attempt */
	bool		released;		/* nothing of this attempt is left */
	bool		placed;			/* this attempt has intents or marks somewhere */
	bool		stands;			/* this attempt has leaves that stand for locks */
	bool		in_doubt;		/* which are perhaps not taken back */
	bool		lost_claim;		/* prepare has not found one */
	bool		waits;			/* a lock is to be waited for, the blocker's */
	bool		stale;			/* it knows a schema version that is not the present one */
	bool		unchecked;		/* keys were not looked up: tried once, and nothing is said of what is in the way */
	int			one_steps;		/* so often may the deciding step take leaves in */
	struct MosqlOneStep *one_step;	/* which it does, of this attempt; NULL: it does not (one_step.c) */
	bool		goes_on;		/* it was refused: the attempt prepares the rest */
	MosqlBlocker blocker;		/* the oldest that this attempt gives way to */
	MosqlTimestamp ts;
	MosqlSnapshotList list;
	MosqlPending *pending;		/* made before the decision, used after it */
} MosqlCommit;

/* In the order of their weight: what one leaf says counts for all. */
typedef enum MosqlOutcome
{
	MOSQL_PREPARED,
	MOSQL_HELD_UP,				/* younger transactions' intents or marks: wait, holding */
	MOSQL_BUSY,					/* an older one's: give way */
	MOSQL_AGAIN,				/* something was lost or changed: a new attempt */
	MOSQL_CONFLICT				/* 40001 */
} MosqlOutcome;

extern MosqlOutcome mosql_txn_prepare(MosqlCommit *commit);

/* The item's lock counts no more: its version is compared, and a mark placed. */
extern void mosql_item_forget_lock(MosqlItem *item);

/* What HOLDS compares of a lock that must still be there, whatever else is (leaf_step.c); MOSQL_ABSENT: none must. */
extern MosqlBytes mosql_item_held(const MosqlCommit *commit, const MosqlItem *item);

/*
 * A lock was in the way of an attempt that is taken back: wait for it in its queue, and hold
 * it.  As mosql_txn_claim().
 */
extern void mosql_lock_wait(MosqlCommit *commit);

/*
 * What takes part: fills the commit's parts; false if nothing is to be decided.  elsewhere: the
 * transaction writes in another namespace, or in tables of this PostgreSQL server, too.
 */
extern bool mosql_commit_collect(MosqlCommit *commit, bool elsewhere);

/* 40001, with what was the matter.  Does not return. */
extern void mosql_commit_conflict(const MosqlSession *session, const char *detail);

/* The same: a lock that is relied on (mosql_txn_rely_on_claim()) is not there. */
extern void mosql_commit_lost_claim(MosqlSession *session);

#ifdef USE_ASSERT_CHECKING
/*
 * What the phases promise each other: that the items of each tree ascend, and its ranges
 * are apart, when prepare begins; that all is in place, with what apply needs, when it ends.
 */
extern bool mosql_commit_is_sound(const MosqlCommit *commit);
extern bool mosql_commit_is_prepared(const MosqlCommit *commit);
#endif

/*
 * Take back this attempt's intents and marks; throws only, 08006, where locks that leaves stand for are perhaps not
 * back.  Detached: after an error, when Redis perhaps does not answer; never throws, does nothing if all was taken back before.
 */
extern void mosql_txn_release(MosqlCommit *commit);
extern void mosql_txn_release_detached(MosqlCommit *commit);
extern MosqlDecision mosql_txn_decide(MosqlCommit *commit);

/*
 * The same by a question of one's own, in the step that answers it; parts: what the record
 * says.  What it throws, or loses, is settled.
 */
typedef MosqlDecision (*MosqlAsk) (MosqlCommit *commit, const MosqlDecideArgs *args, MosqlBudget *budget);
extern MosqlDecision mosql_txn_decide_by(MosqlCommit *commit, MosqlBytes parts, MosqlAsk ask);

/*
 * Prepare, decide and apply in one step what is on the clock's server (rules 35 and 50).  plan: of an attempt that begins, or goes on,
 * which leaves these are, and what there is to be done; their items are `here`, and prepared; a round trip where caches do not know.  True if
 * that is all of them.  decide: as mosql_txn_decide(), one round trip.  AT_ONCE: nothing was done; unplan: they are to be
 * prepared like others.  True if that is for a leaf which was not the one that was known, and now is.
 */
extern bool mosql_txn_plan_one_step(MosqlCommit *commit);
extern MosqlDecision mosql_txn_decide_at_once(MosqlCommit *commit, MosqlBytes parts);
extern bool mosql_txn_unplan_one_step(MosqlCommit *commit);

/*
 * What decide would say now, of a prepared one; extends the lease.  Two round trips.
 * May throw.
 */
extern MosqlDecision mosql_txn_foresee(MosqlCommit *commit);

/* Turn the intents into rows; never throws.  What is not acknowledged is left
 * to mosql_pending_finish. */
extern void mosql_txn_apply(MosqlCommit *commit);

/* Before the decision, since it needs memory: what apply may leave for later. */
extern MosqlPending *mosql_pending_make(MosqlCommit *commit);

/* It is decided, or perhaps: from now on it is the session's. */
extern void mosql_pending_add(MosqlPending *pending);

/* A MosqlStepCallback of what was sent for it; arg: the MosqlPending. */
extern void mosql_pending_answered(void *arg, MosqlStepStatus status, int nfields);

/* The outcome could not be found out in time: settle it when the clock is back. */
extern void mosql_pending_unknown(MosqlCommit *commit);

/*
 * One session's commit, step by step.  begin: NULL if nothing is to be decided;
 * `elsewhere`: the transaction has written in other places.  prepare: until all is in
 * place, or an error (40001, 22003, what Redis throws), upon which nothing is; false: nothing is either, a lock has
 * to be waited for.  wait: for that one.  put_off: nothing of a prepared one is in place any more, and it is to be prepared
 * again.  take_time: the time to wait and retry in begins anew.
 * may_be_at_once: what is on the clock's server may be left to the step that decides, which may refuse it; not where
 * another session decides before.
 * foresee, decide: false if refused; then it is to be prepared again.  take_back: a
 * prepared one.  end: apply, and free; throws nothing.  limit: another session has
 * decided; this one waits and retries in that budget alone.  try: prepare once; false: something is in the way, and
 * nothing in place.  drop: free what was never decided.
 */
extern MosqlCommit *mosql_commit_begin(MosqlTxn *txn, bool elsewhere);
extern void mosql_commit_may_be_at_once(MosqlCommit *commit);
extern bool mosql_commit_prepare(MosqlCommit *commit);
extern void mosql_commit_wait(MosqlCommit *commit);
extern void mosql_commit_put_off(MosqlCommit *commit);
extern void mosql_commit_take_time(MosqlCommit *commit);
extern bool mosql_commit_foresee(MosqlCommit *commit);
extern bool mosql_commit_decide(MosqlCommit *commit);
extern void mosql_commit_take_back(MosqlCommit *commit);
extern void mosql_commit_limit(MosqlCommit *commit, const MosqlBudget *budget);
extern void mosql_commit_end(MosqlCommit *commit);
extern bool mosql_commit_try(MosqlCommit *commit);
extern void mosql_commit_drop(MosqlCommit *commit);

/* All of it, of one session that is not the transaction of PostgreSQL's. */
extern void mosql_txn_commit(MosqlTxn *txn);

/* Redo what failed (not while the process exits), collect what was acknowledged. */
extern void mosql_pending_finish(MosqlSession *session);
extern bool mosql_pending_any(MosqlSession *session);

/* As mosql_session_catch_up() and mosql_session_due(), of what was committed. */
extern void mosql_pending_catch_up(MosqlSession *session);
extern int64 mosql_pending_due(MosqlSession *session);

/* ---------- signs of life, intents, fields ---------- */

/*
 * From begin, when its first intents are placed, to end, before it is decided or given up, the attempt gives
 * signs of life if it takes long.  No round trips; end may come twice.
 */
extern void mosql_sign_begin(MosqlSession *session, MosqlTxid tx);
extern void mosql_sign_end(MosqlSession *session);

/* The row field after an intent is applied; the shared heart of apply.  Fills
 * one or two writes (a purged tombstone is a delete and a purge mark). */
extern int	mosql_apply_writes(MosqlSession *session, uint64 node, MosqlBytes field_row,
							   MosqlBytes old_row, bool live, MosqlBytes columns,
							   MosqlTimestamp ts, const MosqlSnapshotList *list,
							   MosqlWrite *writes);

/* Is a transaction among the intents of a field?  Which one, if so. */
extern bool mosql_intents_find(MosqlBytes field, MosqlTxid tx, MosqlIntent *intent);

/* "field" helpers in the current context */
extern MosqlBytes mosql_field_name(char prefix, MosqlBytes key);
extern MosqlBytes mosql_txid_bytes(MosqlTxid tx);

#define MOSQL_META_FIELD	mosql_bytes("m", 1)
#define MOSQL_MARKS_FIELD	mosql_bytes("l", 1)

#endif							/* MOSQL_TXN_INT_H */
