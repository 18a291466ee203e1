/*
 * share.c: what parallel workers need to read as their leader does.
 *
 * Layer: txn.  A worker is a process with a session of its own, and no transaction: it writes
 * nothing, locks nothing, and commits nothing.  What it reads, it reads at the snapshot of the
 * leader, as a transaction of REPEATABLE READ would that has drawn it.  It is registered once, by
 * the leader, who holds it until no worker reads any more; and if it is lost (a lease, a failover
 * of the clock), a worker finds out as its leader would: a row that was pruned since is 40001.
 *
 * The leader shares nothing where what it sees is more than what is stored: where it has
 * written, loads a tree of its own, or has locked or changed rows of the tree.  Nor where what
 * is read is to be certified at COMMIT, for that is noted in the process that reads.
 */
#include "postgres.h"

#include "txn/txn_int.h"
#include "txn/view_int.h"

/* See txn.h. */
bool
mosql_view_may_share(const MosqlView *view, const MosqlTree *tree)
{
	const MosqlTxn *txn = view->txn;

	return !txn->joined && txn->isolation != MOSQL_SERIALIZABLE && !view->certified &&
		!view->single_read && !txn->loads && !mosql_txn_has_written(txn->session) &&
		!mosql_txn_has_changed(txn->session, mosql_btree_root(tree));
}

/*
 * See txn.h.  The leader may say nothing to the clock while its workers read: so the keeper is
 * told at every level.
 */
MosqlTimestamp
mosql_view_share(MosqlView *view)
{
	MosqlTimestamp S = mosql_view_snapshot(view);

	Assert(S != MOSQL_TS_MAX);
	mosql_txn_keep(view->txn);
	return S;
}

/* See txn.h. */
int
mosql_view_divide(MosqlView *view, MosqlTree *tree, MosqlKeyRange range, int max, MosqlBytes *keys)
{
	ErrorContextCallback context;
	int			n;

	mosql_txn_begin_read(view->txn->session, &context);
	n = mosql_btree_divide(tree, range, max, keys);
	mosql_txn_end_read(&context);
	return n;
}

/* See txn.h.  No view finds the statement any more. */
void
mosql_view_linger(MosqlView *view)
{
	view->statement->lingers = true;
}
