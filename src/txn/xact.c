/*
 * xact.c: PostgreSQL's transaction callbacks, the only ones of the product.
 *
 * Layer: txn.
 *
 *   first use            mosql_txn_current() makes a MosqlTxn
 *   pre-commit           what was deferred to here (the fdw layer), then all
 *                        sessions (together.c): may throw, then everything is
 *                        rolled back
 *   commit, abort        destroy the trees that go with it, and forget; throws
 *                        nothing (then the fdw layer may close what idles)
 *   savepoints           changes, statements and tree notes of a level go or
 *                        rise with it
 *
 * Between pre-commit and commit PostgreSQL commits what is its own (local.c).
 */
#include "postgres.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "access/parallel.h"
#include "access/xact.h"
#include "storage/ipc.h"

#include "txn/local.h"
#include "txn/lock_int.h"
#include "txn/view_int.h"
#include "txn/xact_int.h"

/* A transaction with so many bytes of changes has fragmented the heap. */
#define LARGE_BYTES		(4 * 1024 * 1024)

/* Larger ones are no faster, per row. */
#define CHAIN_BYTES		(16 * 1024 * 1024)

MosqlTransactionEnd mosql_txn_end_hook = NULL;
MosqlAbortHook mosql_txn_abort_hook = NULL;
MosqlBeforeCommit mosql_txn_before_commit_hook = NULL;
MosqlSubtransactionEnd mosql_txn_subtransaction_hook = NULL;

static bool exit_registered = false;
static bool sessions_closed = false;	/* the process ends */

/* ---- beginning ---- */

static void
close_sessions(int code, Datum arg)
{
	dlist_mutable_iter iter;

	(void) code;
	(void) arg;
	sessions_closed = true;
	dlist_foreach_modify(iter, &mosql_sessions)
	{
		MosqlSession *session = dlist_container(MosqlSession, node, iter.cur);

		/* a FATAL error in the middle of an exchange leaves the client unusable */
		if (mosql_redis_is_busy(session->redis))
			continue;
		if (session->txn == NULL)
			mosql_session_close(session);
		else if (session->txn->held != NULL || session->locks != NULL || session->txn->joined)
		{
			mosql_locks_tell(session->txn);
			mosql_session_abandon(session); /* its transaction is rolled back after this */
		}
	}
}

static MosqlIsolation
isolation_level(void)
{
	if (XactIsoLevel == XACT_SERIALIZABLE)
		return MOSQL_SERIALIZABLE;
	return IsolationUsesXactSnapshot() ? MOSQL_REPEATABLE_READ : MOSQL_READ_COMMITTED;
}

/* The next of a list of addresses; its length, 0 at the end. */
static size_t
next_address(const char **list)
{
	*list += strspn(*list, ", ");
	return strcspn(*list, ", ");
}

/* May the two lists be of one Redis?  They have an address in common. */
static bool
share_an_address(const char *a, const char *b)
{
	size_t		len,
				n;

	for (; (len = next_address(&a)) > 0; a += len)
		for (const char *other = b; (n = next_address(&other)) > 0; other += n)
			if (n == len && pg_strncasecmp(a, other, n) == 0)
				return true;
	return false;
}

/*
 * Two sessions of one namespace would be two transactions in Redis: neither would see
 * what the other has written, nor snapshots agree, and each would wait for the other's
 * intents.  Sharing one would lend the identity of the one to the other.
 */
void
mosql_txn_check_alone(const MosqlSession *session)
{
	dlist_iter	iter;

	dlist_foreach(iter, &mosql_sessions)
	{
		const MosqlSession *other = dlist_container(MosqlSession, node, iter.cur);

		if (other != session && other->txn != NULL &&
			strcmp(other->config.ns, session->config.ns) == 0 &&
			share_an_address(other->config.redis.nodes, session->config.redis.nodes))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot use a namespace with different options in one transaction"),
					 errdetail("The transaction has used \"%s\" with other options of the server or the user mapping; with these it would be another transaction in Redis, which does not see what the first has written.",
							   session->config.ns),
					 errhint("Give both the same options, user name and password among them, or use two transactions.")));
	}
}

/* A parallel worker would be another transaction in Redis as well, unless its leader lets it join. */
static void
check_leader(void)
{
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot use tables of mosql_fdw in a parallel worker"),
				 errdetail("It would not see what its own transaction has written."),
				 errhint("Mark the function that reads them PARALLEL RESTRICTED.")));
}

static void xact_callback(XactEvent event, void *arg);

/* PostgreSQL is calling us: its list of callbacks is not to be touched. */
static bool in_callback = false;

/*
 * Be the first to be called when the transaction ends: whoever is registered last is.  Others
 * commit elsewhere in their pre-commit callbacks (postgres_fdw does): what they commit must
 * not stay when ours is refused, which is no rare thing.
 */
static void
be_called_first(void)
{
	if (in_callback)
		return;
	UnregisterXactCallback(xact_callback, NULL);
	RegisterXactCallback(xact_callback, NULL);
}

/* This transaction has said SET TRANSACTION SNAPSHOT. */
static bool snapshot_imported = false;

void
mosql_txn_note_import(void)
{
	snapshot_imported = true;
}

/* The other transaction's snapshot of Redis is not ours: ours would be of another moment.  COMMIT reads what was used before. */
static void
check_not_imported(void)
{
	if (snapshot_imported && !in_callback)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot use tables of mosql_fdw in a transaction that imported a snapshot"),
				 errdetail("The snapshot is of PostgreSQL's own tables; what is in Redis would be read as of another moment."),
				 errhint("Read all in one transaction.")));
}

static MosqlTxn *
begin(MosqlSession *session)
{
	MemoryContext cxt;
	MosqlTxn   *txn;

	Assert(session->txn == NULL);
	if (!exit_registered)
	{
		before_shmem_exit(close_sessions, (Datum) 0);
		exit_registered = true;
	}
	be_called_first();
	mosql_txn_check_alone(session);
	mosql_session_ready(session);

	cxt = AllocSetContextCreate(session->cxt, "mosql transaction", ALLOCSET_DEFAULT_SIZES);
	txn = MemoryContextAllocZero(cxt, sizeof(MosqlTxn));
	txn->cxt = cxt;
	txn->handle_cxt = AllocSetContextCreate(cxt, "mosql row handles", ALLOCSET_DEFAULT_SIZES);
	txn->session = session;
	txn->isolation = isolation_level();
	txn->level = XactIsoLevel;
	txn->schema = txn->first_schema = txn->compared = session->schema;
	txn->breaks = mosql_redis_breaks(session->redis);
	txn->random = (uint64) mosql_now_us() | 1;
	session->txn = txn;
	return txn;
}

/* LOCK TABLE needs no snapshot, so that SET TRANSACTION ISOLATION LEVEL, or SNAPSHOT, may come after it. */
MosqlTxn *
mosql_txn_current(MosqlSession *session)
{
	MosqlTxn   *txn = session->txn;

	check_leader();
	check_not_imported();
	if (txn == NULL)
		return begin(session);
	if (txn->level != XactIsoLevel)
	{
		txn->level = XactIsoLevel;
		txn->isolation = isolation_level();
	}
	return txn;
}

/*
 * See txn.h, and share.c.  The snapshot is of another session, so that this one neither registers
 * it again nor takes it back.
 */
MosqlTxn *
mosql_txn_join(MosqlSession *session, MosqlTimestamp S)
{
	MosqlTxn   *txn = session->txn;

	if (txn == NULL)
	{
		txn = begin(session);
		txn->joined = true;
		txn->isolation = MOSQL_REPEATABLE_READ;
		txn->drawn = true;
		txn->S = S;
		txn->S_schema = session->schema;
	}
	if (!txn->joined || txn->S != S)
		elog(ERROR, "a parallel worker of mosql_fdw reads at two snapshots");
	return txn;
}

/* A snapshot that the transaction has says more than the version of now. */
MosqlTxn *
mosql_txn_begin_statement(MosqlSession *session)
{
	MosqlTxn   *txn = mosql_txn_current(session);

	mosql_txn_settle_inserts(txn);
	if (!(txn->drawn && txn->isolation != MOSQL_READ_COMMITTED) && !mosql_session_is_fresh(session))
		mosql_session_refresh_schema(session);
	return txn;
}

bool
mosql_txn_has_written(const MosqlSession *session)
{
	const MosqlTxn *txn = session->txn;

	return txn != NULL && (txn->journal != NULL || txn->trees != NULL || txn->changes_schema);
}

static const MosqlBuffer *
find_buffer(const MosqlSession *session, uint64 root)
{
	const MosqlBuffer *buffer = session->txn ? session->txn->buffers : NULL;

	while (buffer != NULL && mosql_btree_root(buffer->tree) != root)
		buffer = buffer->next_buffer;
	return buffer;
}

bool
mosql_txn_has_put(const MosqlSession *session, uint64 root)
{
	const MosqlBuffer *buffer = find_buffer(session, root);

	for (const MosqlEntryW *e = buffer ? buffer->head[0] : NULL; e != NULL; e = e->next[0])
		if (!mosql_entry_is_void(e))
			return true;
	return false;
}

/* What was rolled back to a savepoint counts, too. */
int
mosql_txn_changed_rows(const MosqlSession *session, uint64 root)
{
	const MosqlBuffer *buffer = find_buffer(session, root);

	return buffer != NULL ? (int) Min(buffer->nentries, INT_MAX) : 0;
}

bool
mosql_txn_has_changed(const MosqlSession *session, uint64 root)
{
	return mosql_txn_changed_rows(session, root) > 0;
}

/* ---- ending ---- */

/*
 * What a large transaction took goes back to the system, not only to malloc:
 * else each backend keeps the memory of the largest one that it has ever run.
 */
static void
forget(MosqlSession *session)
{
	MosqlTxn   *txn = session->txn;
	bool		large = txn->bytes > LARGE_BYTES;

	session->txn = NULL;
	mosql_session_unkeep(session);
	mosql_numbers_end(session);
	if (!mosql_redis_is_busy(session->redis))
		mosql_view_end(txn);
	MemoryContextDelete(txn->cxt);
#ifdef __GLIBC__
	if (large)
		(void) malloc_trim(0);
#endif
	(void) large;
}

/* ---- several in one of PostgreSQL's ---- */

bool
mosql_txn_may_chain(const MosqlSession *session)
{
	return session->txn == NULL || (session->txn->nviews == 0 && !mosql_txn_has_written(session));
}

bool
mosql_txn_is_full(const MosqlSession *session)
{
	size_t		half = (size_t) mosql_txn_max_mb * 1024 * 1024 / 2;

	return session->txn != NULL && session->txn->bytes > Min(half, CHAIN_BYTES);
}

MosqlTxn *
mosql_txn_chain(MosqlSession *session)
{
	if (session->txn != NULL)
	{
		Assert(session->txn->nviews == 0);
		mosql_txn_commit(session->txn);
		forget(session);
		mosql_session_forget_trees(session);
	}
	mosql_txn_current(session)->isolation = MOSQL_READ_COMMITTED;
	return session->txn;
}

/*
 * While the process exits an ERROR is FATAL, which would leave PostgreSQL's own rollback
 * unfinished: so nothing waits for Redis then.  Who has temporary tables rolls back before close_sessions().
 */
void
mosql_txn_cancel(MosqlSession *session)
{
	if (session->txn == NULL)
		return;
	if (!mosql_redis_is_busy(session->redis) && !proc_exit_inprogress)
		mosql_locks_end(session->txn, false);
	else if (session->txn->held != NULL)
	{
		if (!mosql_redis_is_busy(session->redis) && !sessions_closed)
			mosql_locks_tell(session->txn);
		mosql_session_leave_locks(session);
	}
	if (session->txn->decided && !mosql_redis_is_busy(session->redis) && !proc_exit_inprogress)
		mosql_txn_leave_drops(session->txn);
	(void) mosql_txn_settle_trees(session->txn, false);
	session->ask_schema = true; /* perhaps it failed for a table that changed */
	forget(session);
	if (!mosql_redis_is_busy(session->redis) && !proc_exit_inprogress)
		mosql_session_end_trees(session, false, 0);
	mosql_session_forget_trees(session);
}

/* ---- PostgreSQL's callbacks ---- */

static void
refuse_prepare(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot PREPARE a transaction that has used mosql_fdw tables"),
			 errhint("Use COMMIT; the commit over all Redis nodes is atomic by itself.")));
}

static bool
any_transaction(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &mosql_sessions)
		if (dlist_container(MosqlSession, node, iter.cur)->txn != NULL)
			return true;
	return false;
}

static void
pre_commit(void)
{
	if (mosql_txn_before_commit_hook != NULL)
		mosql_txn_before_commit_hook();
	if (!any_transaction())
		return;
	mosql_local_act();
	mosql_txn_commit_all();
}

/* Trees go only now: before, PostgreSQL's own commit could fail (rule 27). */
static void
finish(MosqlSession *session)
{
	int64		decided_us = session->txn->decided_us;
	bool		drops;

	mosql_locks_end(session->txn, true);
	drops = mosql_txn_settle_trees(session->txn, true);
	forget(session);
	mosql_session_end_trees(session, drops, decided_us);
	mosql_session_forget_trees(session);
}

static void
end_transaction(XactEvent event)
{
	dlist_iter	iter;

	if (event == XACT_EVENT_PRE_COMMIT)
		pre_commit();
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		snapshot_imported = false;
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT)
		mosql_local_ends();
	dlist_foreach(iter, &mosql_sessions)
	{
		MosqlSession *session = dlist_container(MosqlSession, node, iter.cur);

		if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT)
			session->keeps_id = false;
		if (session->txn == NULL)
			continue;
		switch (event)
		{
			case XACT_EVENT_PRE_PREPARE:
				refuse_prepare();
				break;
			case XACT_EVENT_COMMIT:
				finish(session);
				break;
			case XACT_EVENT_ABORT:
				mosql_txn_cancel(session);
				break;
			case XACT_EVENT_PARALLEL_COMMIT:
			case XACT_EVENT_PARALLEL_ABORT:
				forget(session);	/* it has only read */
				break;
			case XACT_EVENT_PRE_COMMIT:
			case XACT_EVENT_PREPARE:
			case XACT_EVENT_PARALLEL_PRE_COMMIT:
				break;
		}
	}
	if (event == XACT_EVENT_ABORT && mosql_txn_abort_hook != NULL && !proc_exit_inprogress)
		mosql_txn_abort_hook();
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT)
		return;
	if (mosql_txn_end_hook != NULL)
		mosql_txn_end_hook();
	mosql_local_end(event == XACT_EVENT_COMMIT);
}

static void
xact_callback(XactEvent event, void *arg)
{
	(void) arg;
	in_callback = true;			/* also after an error, until the end that follows it */
	end_transaction(event);
	in_callback = false;
}

/* ---- savepoints ---- */

static void
sub_abort(MosqlTxn *txn, int level)
{
	MosqlTreeNote **at = &txn->trees;

	if (!proc_exit_inprogress)	/* else its session has ended, see mosql_txn_cancel() */
		mosql_locks_subabort(txn, level);
	mosql_buffer_subabort(txn, level);
	mosql_view_subabort(txn, level);
	while (*at != NULL)
	{
		MosqlTreeNote *note = *at;

		if (note->level < level)
		{
			at = &note->next;
			continue;
		}
		if (!note->drop)
			mosql_session_add_garbage(txn->session, note->root, txn->breaks);
		*at = note->next;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	dlist_iter	iter;

	(void) mine;
	(void) parent;
	(void) arg;
	if (event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB)
		return;
	if (mosql_txn_subtransaction_hook != NULL)
		mosql_txn_subtransaction_hook(level, event == SUBXACT_EVENT_COMMIT_SUB);
	dlist_foreach(iter, &mosql_sessions)
	{
		MosqlTxn   *txn = dlist_container(MosqlSession, node, iter.cur)->txn;

		if (txn == NULL)
			continue;
		if (event == SUBXACT_EVENT_ABORT_SUB)
			sub_abort(txn, level);
		else
		{
			mosql_buffer_subcommit(txn, level);
			mosql_locks_subcommit(txn, level);
			for (MosqlTreeNote *note = txn->trees; note != NULL; note = note->next)
				note->level = Min(note->level, level - 1);
			for (MosqlStatement *s = txn->statements; s != NULL; s = s->next)
				s->level = Min(s->level, level - 1);
		}
	}
}

void
mosql_txn_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
