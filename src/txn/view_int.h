/*
 * view_int.h: what scan.c, reuse.c and xact.c need of view.c and scan.c.
 */
#ifndef MOSQL_VIEW_INT_H
#define MOSQL_VIEW_INT_H

#include "txn/txn_int.h"

/* What reads at one snapshot. */
struct MosqlStatement
{
	struct MosqlStatement *next;
	const void *id;
	int			level;			/* nesting level it began at */
	int			nviews;
	bool		drawn;
	uint64		snapid;
	uint64		sid;			/* under which it is registered */
	bool		lingers;		/* ... until the transaction ends: workers may read at it */
	MosqlTimestamp S;
	struct MosqlSeen *seen;		/* what was read at it (reuse.c); NULL: nothing is kept */
};

struct MosqlView
{
	MosqlTxn   *txn;
	MosqlStatement *statement;
	CommandId	curcid;
	bool		single_read;
	uint64		schema;			/* the version that was known when it was opened, */
	bool		late;			/* which is too old by now, or another one (rule 39) */
	bool		certified;		/* ranges are, at every isolation level */
	bool		reuses;			/* what its snapshot has seen, */
	bool		again;			/* and adds to that (mosql_view_reuse) */
	MemoryContext ahead_cxt;	/* NULL: it does not read ahead */
	struct MosqlSeen *ahead;	/* what was read ahead and found no room there; or NULL */
};

/* Does it read at the statement's snapshot, not at the transaction's? */
extern bool mosql_view_has_own_snapshot(const MosqlView *view);

/*
 * May one atomic read take the place of its snapshot?  At READ COMMITTED, if none is drawn, and what is known of definitions is
 * new enough (rule 39).
 */
extern bool mosql_view_may_do_without(const MosqlView *view);

/* The view's snapshot (txn.h), which brings nodes along if it is drawn now; else along->came is false.  Would it be drawn now? */
extern MosqlTimestamp mosql_view_snapshot_along(MosqlView *view, MosqlNodesAlong *along);
extern bool mosql_view_would_draw(const MosqlView *view);

/* Does the session know no other schema version than the transaction's definitions were compared with last? */
extern bool mosql_view_knows_definitions(const MosqlView *view);

/* Settle the intents in the entries of leaves that were read, all together. */
extern void mosql_leaves_settle(MosqlSession *session, MosqlTree *tree, MosqlLeaf *leaves,
								int nleaves, MosqlStatusCache *cache);

/* To be called now and then while a statement reads on. */
extern void mosql_view_keep_alive(MosqlView *view);

/* Forget statements begun at this nesting level or deeper. */
extern void mosql_view_subabort(MosqlTxn *txn, int level);

/* Unregister every snapshot of the transaction; never throws. */
extern void mosql_view_end(MosqlTxn *txn);

#endif							/* MOSQL_VIEW_INT_H */
