/*
 * fresh.c: the rows of a statement that fills an empty table of its own transaction.
 *
 * Layer: table.  A table that was created or truncated in this transaction, and in this
 * savepoint, has trees that nobody else knows.  COPY and INSERT ... SELECT into it, while it
 * is empty, keep their rows in the sorts of fill.c, and write them when the statement
 * has all of them: once, in full leaves, beyond mosql_fdw.max_transaction_size.  Few rows go into
 * the write buffer instead, as those of other statements do.  docs/commit.md, "Private trees",
 * says why nobody finds out.
 *
 * What runs inside of the statement (functions, triggers) and opens the table is to see, or not,
 * what the statement has put so far, by PostgreSQL's rules of commands.  So the rows give way
 * then: they go into the buffer, under the statement's command and savepoint, and so do those
 * that follow.
 */
#include "postgres.h"

#include "access/xact.h"
#include "lib/ilist.h"
#include "utils/rel.h"

#include "table/table_int.h"

/* Fewer rows, and fewer bytes, are not worth the round trips of a load. */
#define LOAD_MIN_ROWS	1000
#define LOAD_MIN_BYTES	(1024 * 1024)

typedef enum FreshState
{
	FRESH_SORTS,				/* what is put */
	FRESH_GIVES_WAY,			/* begun, and not known to have ended */
	FRESH_DONE
} FreshState;

struct MosqlFresh
{
	dlist_node	node;			/* in pending, as long as it sorts */
	MemoryContextCallback forget;
	MemoryContext cxt;
	const void *statement;
	Relation	rel;
	const MosqlTable *table;
	MosqlReportDuplicate report;
	void	   *owner;
	MosqlTxn   *txn;
	CommandId	cid;
	int			level;			/* of the savepoint */
	FreshState	state;
	MosqlFill  *fill;			/* NULL: no row yet */
	uint64		n;
	uint64		bytes;
};

/* Those that sort. */
static dlist_head pending = DLIST_STATIC_INIT(pending);

/* ---- beginning ---- */

static bool
is_fresh(const MosqlTable *table, const MosqlTxn *txn)
{
	if (table->nbuilds > 0 || !mosql_txn_is_fresh(txn, mosql_btree_root(table->tree)))
		return false;
	for (int i = 0; i < table->nindexes; i++)
		if (!mosql_txn_is_fresh(txn, mosql_btree_root(table->indexes[i].entries->tree)))
			return false;
	return true;
}

static void
leave_pending(MosqlFresh *fresh, FreshState state)
{
	if (fresh->state == FRESH_SORTS)
		dlist_delete(&fresh->node);
	fresh->state = state;
}

/* The statement's memory goes. */
static void
forget(void *arg)
{
	leave_pending(arg, FRESH_DONE);
}

/* See table.h. */
MosqlFresh *
mosql_fresh_begin(Relation rel, const MosqlTable *table, MosqlTxn *txn, CommandId cid,
				  const void *statement, MosqlReportDuplicate report, void *owner)
{
	MosqlFresh *fresh;

	if (!is_fresh(table, txn))
		return NULL;
	mosql_txn_keep(txn);		/* nothing may be heard of the session for long */
	fresh = palloc0(sizeof(MosqlFresh));
	fresh->cxt = CurrentMemoryContext;
	fresh->statement = statement;
	fresh->rel = rel;
	fresh->report = report;
	fresh->owner = owner;
	fresh->table = table;
	fresh->txn = txn;
	fresh->cid = cid;
	fresh->level = GetCurrentTransactionNestLevel();
	fresh->forget = (MemoryContextCallback) {forget, fresh};
	MemoryContextRegisterResetCallback(fresh->cxt, &fresh->forget);
	dlist_push_tail(&pending, &fresh->node);
	return fresh;
}

/* ---- rows ---- */

/* A function has caught the error with which they gave way: they are not where they belong. */
static void
check_whole(const MosqlFresh *fresh)
{
	if (fresh->state == FRESH_GIVES_WAY)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("rows of this statement could not be written"),
				 errdetail("A function that it calls has looked at its table, and caught an error that these rows caused.")));
}

/* See table.h. */
bool
mosql_fresh_put(MosqlFresh *fresh, TupleTableSlot *slot, MosqlBytes key, MosqlBytes columns)
{
	MemoryContext old;

	check_whole(fresh);
	if (fresh->state == FRESH_DONE)
		return false;
	if (fresh->fill == NULL)
	{
		old = MemoryContextSwitchTo(fresh->cxt);
		fresh->fill = mosql_fill_begin(fresh->rel, fresh->table, true);
		mosql_fill_report_to(fresh->fill, fresh->report, fresh->owner);
		MemoryContextSwitchTo(old);
	}
	mosql_fill_put(fresh->fill, slot, key, columns);
	fresh->n++;
	fresh->bytes += key.len + columns.len;
	return true;
}

/* ---- ending ---- */

static void
put_into_buffer(void *arg)
{
	MosqlFresh *fresh = arg;

	mosql_fill_end_in_buffer(fresh->fill, fresh->cid);
}

static void
give_way(MosqlFresh *fresh)
{
	leave_pending(fresh, FRESH_GIVES_WAY);
	if (fresh->fill != NULL)
		mosql_txn_put_earlier(fresh->txn, fresh->level, put_into_buffer, fresh);
	fresh->state = FRESH_DONE;
}

/*
 * As of now, or of the transaction's snapshot: what the transaction reads later it reads at
 * that or at a later one, and nothing reads the table now (mosql_fresh_begin()).
 */
static void
load(MosqlFresh *fresh)
{
	MosqlView  *view = mosql_view_open(fresh->txn, fresh, fresh->cid, false);
	MosqlTimestamp now = mosql_view_snapshot(view);

	mosql_view_close(view);
	leave_pending(fresh, FRESH_DONE);
	mosql_fill_end(fresh->fill, now);
	mosql_txn_loaded_by(fresh->txn, mosql_btree_root(fresh->table->tree), fresh->cid);
	for (int i = 0; i < fresh->table->nindexes; i++)
		mosql_txn_loaded_by(fresh->txn, mosql_btree_root(fresh->table->indexes[i].entries->tree), fresh->cid);
}

/* See table.h. */
void
mosql_fresh_end(MosqlFresh *fresh)
{
	MemoryContext old = MemoryContextSwitchTo(fresh->cxt);

	check_whole(fresh);
	if (fresh->state == FRESH_SORTS)
	{
		Assert(fresh->level == GetCurrentTransactionNestLevel());
		if ((fresh->n < LOAD_MIN_ROWS && fresh->bytes < LOAD_MIN_BYTES) ||
			!is_fresh(fresh->table, fresh->txn))	/* a foreign key has looked for rows of it */
			give_way(fresh);
		else
			load(fresh);
	}
	MemoryContextSwitchTo(old);
}

/* See table.h. */
void *
mosql_fresh_pending(const void *statement)
{
	dlist_iter	iter;

	dlist_foreach(iter, &pending)
	{
		const MosqlFresh *fresh = dlist_container(MosqlFresh, node, iter.cur);

		if (fresh->statement == statement)
			return fresh->owner;
	}
	return NULL;
}

/* See table.h. */
void
mosql_fresh_give_way(const MosqlTable *table)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &pending)
	{
		MosqlFresh *fresh = dlist_container(MosqlFresh, node, iter.cur);
		MemoryContext old;

		if (fresh->table->session != table->session || fresh->table->root != table->root)
			continue;
		old = MemoryContextSwitchTo(fresh->cxt);
		give_way(fresh);
		MemoryContextSwitchTo(old);
	}
}
