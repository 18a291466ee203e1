/*
 * oracle.h: what was committed, in order: what every read must give.
 *
 * The oracle sees the clock's records as they are written, so it knows at once, and
 * exactly, what is committed and at which timestamp.  Each transaction notes what it
 * wrote and what that rests on; the oracle judges when the record appears.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include "sim.h"

#include "txn/txn_int.h"

#define TREES			6
#define TREE_MAIN		0		/* rows, with an index of their tokens */
#define TREE_PLAIN		1		/* rows */
#define TREE_CHILD		2		/* rows that lead to rows of TREE_MAIN */
#define TREE_INDEX		3		/* entries: token, key of TREE_MAIN */
#define TREE_TABLE		4		/* rows of a table that is truncated, and indexed (schema.c) */
#define TREE_FAR		5		/* rows, in another namespace (far.c) */
#define FIXED_TREES		4		/* the others always have the same root */

#define KEYS_MAX		512		/* of a tree; keys are numbers here */
#define CHILDREN		4		/* of a row of TREE_MAIN: key = 4 * parent + i */

typedef struct Row
{
	bool		live;
	int64		n;				/* counted up by increments */
	uint32		token;			/* no two writes give the same */
} Row;

typedef struct Version
{
	MosqlTimestamp ts;
	Row			row;
	struct SimTx *tx;
} Version;

typedef enum BaseKind
{
	ON_NOTHING,					/* the row was absent */
	ON_ROW,						/* it was as seen */
	ON_LIVE						/* it was there */
} BaseKind;

typedef struct Write
{
	int			tree;
	int			key;
	BaseKind	base;
	Row			seen;			/* ON_ROW */
	bool		add;			/* ON_LIVE: n += delta */
	int64		delta;
	Row			row;			/* else what is written */
} Write;

typedef struct Lock
{
	int			tree;
	int			key;
	Row			seen;
	bool		live;			/* is to be there, whatever it has become */
} Lock;

/* What the client believes to have locked in Redis. */
typedef struct SimClaim
{
	int			tree;
	int			key;
	MosqlBytes	key_bytes;		/* in `bytes` */
	char		bytes[8];
	int			strength;
	bool		lost;			/* a fault took it away */
} SimClaim;

typedef struct Read
{
	int			tree;
	int			low;			/* low <= key < high */
	int			high;
	MosqlTimestamp S;
} Read;

#define WRITES_MAX		64
#define LOCKS_MAX		16
#define CLAIMS_MAX		24
#define READS_MAX		64

typedef enum TxState
{
	TX_OPEN, TX_COMMITTING, TX_COMMITTED
} TxState;

typedef struct SimTx
{
	int			number;
	TxState		state;
	MosqlIsolation isolation;
	MosqlSession *session;
	bool		frozen;			/* its attempt is this one, whatever the session does */
	uint64		before;			/* the session's last attempt before it began */
	uint64		sid;
	uint64		n;
	MosqlTimestamp ts;
	bool		far;			/* of the other namespace; */
	struct SimTx *with;			/* its other half, of that one; */
	struct SimTx *near;			/* and back */
	int64		committing_us;	/* since when */
	int64		committed_us;
	bool		acknowledged;
	int64		acknowledged_us;
	char		told;			/* when somebody asked later: 'C' committed, 'A' aborted */
	bool		drawn;			/* REPEATABLE READ and above */
	MosqlTimestamp S;
	int			nwrites;
	Write		writes[WRITES_MAX];
	int			nlocks;
	Lock		locks[LOCKS_MAX];
	int			nclaims;
	SimClaim	claims[CLAIMS_MAX];
	bool		lets_go;		/* it ends, or has ended */
	bool		locks_all;		/* that it writes, at READ COMMITTED: nothing fails then */
	int64		began_us;
	bool		alone;			/* it begins with an INSERT that has looked nothing up, */
	MosqlTimestamp alone_since; /* when this was the last decision */
	int			nreads;
	Read		reads[READS_MAX];
	bool		defines;		/* changes the definition of TREE_TABLE; its root is then: */
	uint64		definition_root;
	bool		truncates;
	int			table_mode;		/* in which it has locked TREE_TABLE; 0: it has not */
	uint64		table_seen;		/* commits that had changed it, then */
} SimTx;

/* Does it change TREE_TABLE; and how many have, and are committed? */
extern bool oracle_changes_table(const SimTx *tx);
extern uint64 oracle_table_changes;

extern SimTx *oracle_begin(MosqlSession *session, MosqlIsolation isolation);
extern void oracle_committing(SimTx *tx);
extern void oracle_ended(SimTx *tx, bool told_committed, bool unknown);
extern void oracle_died(SimTx *tx);

/* It was to commit, perhaps did, and nobody was told a number to ask with. */
extern void oracle_left(SimTx *tx);

/* What the client was told of this half: 'C', 'A', '?' or 0 (far.c). */
extern char far_told(const SimTx *tx);

/* One whose client was told that nobody knows; NULL: there is none.  And what is known now. */
extern SimTx *oracle_unknown(void);
extern void oracle_told(SimTx *tx, bool committed);

/* The row at S, as the transaction itself sees it. */
extern Row	oracle_row(const SimTx *tx, int tree, int key, MosqlTimestamp S);
extern Row	oracle_stored(int tree, int key, MosqlTimestamp S);

/* Was it ever like that since a moment, which is the last decision then? */
extern bool oracle_was(int tree, int key, MosqlTimestamp since, Row row);
extern bool oracle_was_live(int tree, int key, MosqlTimestamp since);
extern bool oracle_stayed(int tree, int key, MosqlTimestamp since);	/* live, all the time */
extern MosqlTimestamp oracle_moment(int tree);

/* The next decision after a moment; 0: none yet. */
extern MosqlTimestamp oracle_next(int tree, MosqlTimestamp moment);
extern const Write *oracle_own(const SimTx *tx, int tree, int key);
extern uint32 oracle_token(void);
extern bool row_equal(Row a, Row b);

/* The rows of TREE_TABLE that a tree of this root has at S; `truncated`: it has others. */
extern Row	oracle_table_row(uint64 root, int key, MosqlTimestamp S, bool *truncated);
extern void oracle_table_made(uint64 root);

/* Must who began to read the latest state then know that this tree was truncated? */
extern bool oracle_table_is_old(uint64 root, int64 since_us);
extern uint64 oracle_table_root(void);

/* Values of a sequence: drawn after `moment`, which oracle_sequence() was then. */
extern int64 oracle_sequence(uint64 counter);
extern void oracle_drawn(uint64 counter, int64 moment, int64 first, int64 n);
extern void oracle_set(uint64 counter, int64 value);

extern uint64 oracle_commits;

#endif							/* ORACLE_H */
