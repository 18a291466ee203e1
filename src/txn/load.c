/*
 * load.c: rows that are written before their transaction commits, into a tree of its own.
 *
 * Layer: txn.  A tree that this transaction has made, and whose root it has told nobody, is
 * seen by others when the definition that names it is, and not before.  So its rows need no
 * intents, and nobody's compare: they are written once, as plain versions, leaf after leaf,
 * and leave the backend as leaves fill.  docs/commit.md, "Private trees", says what holds
 * this safe; btree/load.c writes the leaves.
 */
#include "postgres.h"

#include "access/xact.h"

#include "base/limits.h"
#include "base/stats.h"
#include "code/row.h"
#include "txn/view_int.h"

/* What is written at once, in about six round trips. */
#define BATCH_ROWS			(256 * MOSQL_LEAF_MAX_ROWS)
#define BATCH_BYTES			(4 * 1024 * 1024)

/* What a row without a past has beside its columns, about. */
#define ROW_HEAD_BYTES		16

struct MosqlLoad
{
	MosqlSession *session;
	uint64		root;
	MosqlTimestamp version;
	MosqlCompression how;
	bool		together;		/* the tree's first leaves are to be */
	uint64		breaks;			/* of connections, before the first row */
	MemoryContext batch;		/* keys and rows that wait */
	MosqlBytes *keys;			/* [BATCH_ROWS] */
	MosqlBytes *rows;
	int			n;
	size_t		bytes;
	uint64		written;
};

MosqlLoad *
mosql_load_begin(MosqlSession *session, uint64 root, MosqlTimestamp version, MosqlCompression how, bool together)
{
	MosqlLoad  *load = palloc0(sizeof(MosqlLoad));

	mosql_txn_keep(mosql_txn_current(session));
	mosql_txn_current(session)->loads = true;
	load->session = session;
	load->root = root;
	load->version = version;
	load->how = how;
	load->together = together;
	load->breaks = mosql_redis_breaks(session->redis);
	load->batch = AllocSetContextCreate(CurrentMemoryContext, "mosql load", ALLOCSET_DEFAULT_SIZES);
	load->keys = palloc(BATCH_ROWS * sizeof(MosqlBytes));
	load->rows = palloc(BATCH_ROWS * sizeof(MosqlBytes));
	return load;
}

/* Rule 34: what was written before a connection broke may be forgotten. */
static void
check_unbroken(const MosqlSession *session, uint64 breaks)
{
	if (!session->stepper.durable && breaks != mosql_redis_breaks(session->redis))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not write the rows of a new tree"),
				 errdetail("A connection to Redis broke since the first of them was written, and a server that was restarted may have forgotten some."),
				 errhint("The transaction might succeed if retried.")));
}

/* What was not written yet, in a context of its own. */
static void
keep_rest(MosqlLoad *load, int written)
{
	MemoryContext rest = AllocSetContextCreate(MemoryContextGetParent(load->batch), "mosql load",
											   ALLOCSET_DEFAULT_SIZES);

	load->bytes = 0;
	for (int i = written; i < load->n; i++)
	{
		load->keys[i - written] = mosql_bytes_copy(rest, load->keys[i]);
		load->rows[i - written] = mosql_bytes_copy(rest, load->rows[i]);
		load->bytes += load->keys[i].len + load->rows[i].len;
	}
	load->n -= written;
	MemoryContextDelete(load->batch);
	load->batch = rest;
}

static void
write_batch(MosqlLoad *load, bool finish)
{
	MemoryContext old = MemoryContextSwitchTo(load->batch);
	ErrorContextCallback context;
	MosqlTree  *tree;
	int			written;

	check_unbroken(load->session, load->breaks);
	mosql_txn_begin_read(load->session, &context);	/* swept, after the lease was over */
	tree = mosql_session_tree(load->session, load->root);
	mosql_btree_set_together(tree, load->together);
	written = mosql_btree_load(tree, load->keys, load->rows, load->n, load->how, finish);
	mosql_txn_end_read(&context);
	Assert(!finish || written == load->n);
	mosql_stats.rows_loaded += written;
	load->written += written;
	MemoryContextSwitchTo(old);
	keep_rest(load, written);
}

/* A live row without a past, as apply leaves it. */
static MosqlBytes
encode_row(const MosqlLoad *load, MosqlBytes columns)
{
	MosqlVersion version = {.ts = load->version,.end = MOSQL_TS_MAX,.live = true,.columns = columns};
	MosqlHistory history = {.n = 1,.truncated = true,.versions = &version};
	StringInfoData row;

	mosql_string_init(&row, columns.len + ROW_HEAD_BYTES);	/* a batch has many */
	mosql_history_encode(&row, &history);
	return mosql_bytes_of(&row);
}

/* See txn.h. */
void
mosql_load_add(MosqlLoad *load, MosqlBytes key, MosqlBytes columns)
{
	MemoryContext old = MemoryContextSwitchTo(load->batch);

	Assert(load->n == 0 || mosql_bytes_compare(load->keys[load->n - 1], key) < 0);
	load->keys[load->n] = mosql_bytes_copy(load->batch, key);
	load->rows[load->n] = encode_row(load, columns);
	load->bytes += key.len + load->rows[load->n].len;
	load->n++;
	MemoryContextSwitchTo(old);
	if (load->n == BATCH_ROWS || load->bytes >= BATCH_BYTES)
		write_batch(load, false);
}

/*
 * check_unbroken, having asked all servers something: that a connection broke is known when
 * it is used.  One round trip.
 */
static void
check_all(MosqlSession *session, uint64 breaks)
{
	static const MosqlBytes ping = {"PING", 4};
	MosqlBatch *batch;
	int			n;

	if (session->stepper.durable)
		return;
	batch = mosql_batch_create(session->redis, CurrentMemoryContext);
	n = mosql_redis_primary_count(session->redis);
	for (int i = 0; i < n; i++)
		(void) mosql_batch_add_to_primary(batch, i, MOSQL_SEND_REPEATABLE, 1, &ping);
	mosql_batch_run(batch, NULL);
	check_unbroken(session, breaks);
}

/* NULL: this transaction has not made it. */
static MosqlTreeNote *
find_made(const MosqlTxn *txn, uint64 root)
{
	MosqlTreeNote *note = txn->trees;

	while (note != NULL && (note->root != root || note->drop))
		note = note->next;
	return note;
}

/* See txn.h. */
bool
mosql_txn_is_fresh(const MosqlTxn *txn, uint64 root)
{
	const MosqlTreeNote *note = find_made(txn, root);

	return note != NULL && note->level == GetCurrentTransactionNestLevel() && note->loaded == 0 &&
		!mosql_txn_has_changed(txn->session, root);
}

/* See txn.h. */
bool
mosql_txn_has_made(const MosqlTxn *txn, uint64 root)
{
	return find_made(txn, root) != NULL;
}

/* See txn.h. */
void
mosql_txn_loaded_by(MosqlTxn *txn, uint64 root, CommandId cid)
{
	find_made(txn, root)->loaded_by = cid;
}

/* See txn_int.h. */
bool
mosql_load_is_later(const MosqlView *view, const MosqlTree *tree)
{
	const MosqlTreeNote *note = view->reuses ? find_made(view->txn, mosql_btree_root(tree)) : NULL;

	return note != NULL && note->loaded_by != InvalidCommandId && note->loaded_by >= view->curcid;
}

/* See txn.h. */
uint64
mosql_txn_loaded_rows(const MosqlSession *session, uint64 root)
{
	const MosqlTreeNote *note = session->txn != NULL ? find_made(session->txn, root) : NULL;

	return note != NULL ? note->loaded : 0;
}

static void
note_loaded(MosqlTxn *txn, uint64 root, uint64 n)
{
	MosqlTreeNote *note = find_made(txn, root);

	if (note != NULL)
		note->loaded += n;
}

/* See txn.h. */
uint64
mosql_load_end(MosqlLoad *load)
{
	MosqlTxn   *txn = load->session->txn;
	uint64		breaks = load->breaks;

	write_batch(load, true);
	check_all(load->session, breaks);
	if (txn != NULL)
	{
		mosql_txn_rests_on_load(txn, breaks);
		note_loaded(txn, load->root, load->written);
	}
	MemoryContextDelete(load->batch);
	pfree(load->keys);
	pfree(load->rows);
	pfree(load);
	return breaks;
}

/* See txn.h. */
void
mosql_txn_rests_on_load(MosqlTxn *txn, uint64 breaks)
{
	if (!txn->loaded || breaks < txn->load_breaks)
		txn->load_breaks = breaks;
	txn->loaded = true;
}

/* See txn_int.h. */
void
mosql_load_check(const MosqlTxn *txn)
{
	if (txn->loaded)
		check_all(txn->session, txn->load_breaks);
}
