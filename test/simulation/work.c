/*
 * work.c: transactions at random, and what each read must give.
 *
 * A client plays the layers above: statements with views, rows as columns, an index
 * whose entries follow the rows, a foreign key.  Whatever it reads it compares with
 * the oracle at once.
 */
#include "work.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "base/stats.h"
#include "pgstub.h"
#include "step/clock.h"

#define COLUMN_N		1
#define COLUMN_TOKEN	2

Setting		setting;
bool		work_stops;
bool		work_founded;
bool		work_verified;
uint64		work_transactions;
uint64		work_outcomes[4];
int64		work_longest_us;

static uint64 roots[TREES];

/* ---- rows as bytes ---- */

static MosqlBytes
key_bytes(int tree, int key)
{
	return tree == TREE_CHILD ?
		mosql_bytes(psprintf("%03d/%d", key / CHILDREN, key % CHILDREN), 5) :
		mosql_bytes(psprintf("%03d", key), 3);
}

static int
key_number(int tree, MosqlBytes key)
{
	int			number = (key.data[0] - '0') * 100 + (key.data[1] - '0') * 10 + key.data[2] - '0';

	return tree == TREE_CHILD ? number * CHILDREN + key.data[4] - '0' : number;
}

static int
nkeys(int tree)
{
	return tree == TREE_CHILD ? setting.nkeys * CHILDREN : setting.nkeys;
}

static MosqlBytes
row_bytes(Row row)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_column_put_int(&out, COLUMN_N, row.n, 8);
	mosql_column_put_int(&out, COLUMN_TOKEN, row.token, 4);
	return mosql_bytes_of(&out);
}

static Row
row_of(const MosqlRow *stored)
{
	MosqlBytes	rest = stored->columns;
	MosqlColumn column;
	Row			row = {stored->found};

	while (stored->found && mosql_column_next(&rest, &column) == 1)
	{
		if (column.column == COLUMN_N)
			row.n = mosql_read_int(column.value.data, 8);
		else
			row.token = (uint32) mosql_read_int(column.value.data, 4);
	}
	return row;
}

static MosqlBytes
entry_bytes(uint32 token, int key)
{
	return mosql_bytes(psprintf("%010u/%03d", token, key), 14);
}

/* ---- one client's transaction ---- */

typedef struct Client
{
	Work	   *work;
	SimTx	   *tx;
	MosqlTxn   *txn;
	MosqlSession *session;
	CommandId	cid;
	uint64		statement;
} Client;

static void
tell(const Client *client, const char *does, int tree, int key, Row row)
{
	if (row.live)
		sim_trace("tx %d %s %d/%d: n=" INT64_FORMAT " token=%u", client->tx->number, does, tree, key,
				  row.n, row.token);
	else
		sim_trace("tx %d %s %d/%d: nothing", client->tx->number, does, tree, key);
}

static MosqlTree *
tree_of(Client *client, int tree)
{
	return mosql_session_tree(client->session, roots[tree]);
}

static MosqlView *
open_view(Client *client, bool single_read)
{
	return mosql_view_open(client->txn, (void *) (uintptr_t) ++client->statement, client->cid,
						   single_read);
}

/* What the transaction's own snapshot is, once it is drawn. */
static void
note_snapshot(Client *client)
{
	client->tx->drawn = client->txn->drawn;
	client->tx->S = client->txn->S;
}

static void
note_read(Client *client, int tree, int low, int high, MosqlTimestamp S)
{
	SimTx	   *tx = client->tx;

	note_snapshot(client);
	if (tx->isolation == MOSQL_SERIALIZABLE && tx->nreads < READS_MAX)
		tx->reads[tx->nreads++] = (Read) {tree, low, high, S};
}

/* An increment of its own that is read becomes an update of what was shown. */
static void
bind_write(Client *client, int tree, int key, Row shown)
{
	Write	   *w = (Write *) oracle_own(client->tx, tree, key);

	if (w == NULL || !w->add)
		return;
	w->add = false;
	w->base = ON_ROW;
	w->row = w->seen = shown;
	w->seen.n -= w->delta;
}

static void
compare_row(Client *client, int tree, int key, MosqlTimestamp S, Row found)
{
	const Write *own = oracle_own(client->tx, tree, key);
	Row			wanted = oracle_row(client->tx, tree, key, S);

	if (own != NULL && own->add)
		return;					/* the state shown is that of the first look, or newer */
	if (!row_equal(found, wanted))
		sim_fail("tx %d (level %d) reads tree %d key %d at " UINT64_FORMAT ": %d n=" INT64_FORMAT " token=%u instead of %d n=" INT64_FORMAT " token=%u",
				 client->tx->number, client->tx->isolation, tree, key, S,
				 found.live, found.n, found.token, wanted.live, wanted.n, wanted.token);
}

/* Read one row by its key, as a statement does that reads nothing else; the row. */
static Row
read_row(Client *client, int tree, int key, MosqlRow *stored)
{
	bool		latest = client->tx->isolation == MOSQL_READ_COMMITTED && sim_chance(700);
	MosqlView  *view = open_view(client, latest);
	MosqlTimestamp since = oracle_moment();
	MosqlBytes	bytes = key_bytes(tree, key);
	const Write *own;
	Row			row;

	mosql_view_get(view, tree_of(client, tree), &bytes, 1, stored);
	row = row_of(stored);
	own = oracle_own(client->tx, tree, key);
	if (!latest)
	{
		MosqlTimestamp S = mosql_view_snapshot(view);

		compare_row(client, tree, key, S, row);
		note_read(client, tree, key, key + 1, S);
	}
	else if (own == NULL ? !oracle_was(tree, key, since, row) : !own->add && !row_equal(own->row, row))
		sim_fail("tx %d reads tree %d key %d: %d n=" INT64_FORMAT " token=%u, which it was not since " UINT64_FORMAT,
				 client->tx->number, tree, key, row.live, row.n, row.token, since);
	bind_write(client, tree, key, row);
	mosql_view_close(view);
	tell(client, "reads", tree, key, row);
	return row;
}

/* ---- writing ---- */

static Write *
own_write(Client *client, int tree, int key, BaseKind base, Row seen)
{
	SimTx	   *tx = client->tx;
	Write	   *w = (Write *) oracle_own(tx, tree, key);

	if (w == NULL)
	{
		w = &tx->writes[tx->nwrites++];
		*w = (Write) {.tree = tree, .key = key, .base = base, .seen = seen};
	}
	return w;
}

static bool
has_room(const Client *client)
{
	return client->tx->nwrites + CHILDREN + 1 < WRITES_MAX;
}

static void
index_insert(Client *client, int tree, int key, Row row)
{
	if (tree == TREE_MAIN)
		(void) mosql_txn_insert(client->txn, tree_of(client, TREE_INDEX), entry_bytes(row.token, key),
								mosql_bytes("", 0), client->cid, false);
}

static void
index_delete(Client *client, int tree, int key, Row row)
{
	if (tree == TREE_MAIN)
		(void) mosql_txn_delete(client->txn, tree_of(client, TREE_INDEX), entry_bytes(row.token, key),
								MOSQL_VERSION_ANY, client->cid);
}

/* Insert a row that was not there when it was looked for. */
static void
insert_row(Client *client, int tree, int key)
{
	Row			row = {true, sim_below(100), oracle_token()};
	MosqlTimestamp since = oracle_moment();
	MosqlBytes	duplicate;
	Write	   *w;

	if (mosql_txn_insert(client->txn, tree_of(client, tree), key_bytes(tree, key), row_bytes(row),
						 client->cid, true) != MOSQL_WRITTEN)
		sim_fail("tx %d: a row that it does not have is its own", client->tx->number);
	if (!mosql_txn_check_inserts(client->txn, tree_of(client, tree), &duplicate))
	{
		if (!oracle_was_live(tree, key, since) && oracle_own(client->tx, tree, key) == NULL)
			sim_fail("tx %d: tree %d key %d is called a duplicate and is not there",
					 client->tx->number, tree, key);
		ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION), errmsg("duplicate key")));
	}
	index_insert(client, tree, key, row);
	w = own_write(client, tree, key, ON_NOTHING, (Row) {false});
	w->row = row;
	tell(client, "inserts", tree, key, row);
}

static void
update_row(Client *client, int tree, int key, const MosqlRow *stored, Row seen)
{
	Row			row = {true, seen.n + 1000, oracle_token()};
	Write	   *w;

	if (mosql_txn_update(client->txn, tree_of(client, tree), stored->key, stored->version,
						 row_bytes(row), client->cid) != MOSQL_WRITTEN)
		sim_fail("tx %d: an update is taken for one that was made already", client->tx->number);
	index_delete(client, tree, key, seen);
	index_insert(client, tree, key, row);
	w = own_write(client, tree, key, ON_ROW, seen);
	w->row = row;
	tell(client, "updates", tree, key, row);
}

/* What is read is certified at every level: rows that lead to a key. */
static void
delete_children(Client *client, int parent)
{
	MosqlView  *view;
	MosqlRowScan *scan;
	MosqlRow	stored;
	MosqlTimestamp S;
	MosqlBytes	low = mosql_bytes(psprintf("%03d/", parent), 4);
	MosqlBytes	high = mosql_bytes(psprintf("%03d0", parent), 4);

	client->cid++;
	view = open_view(client, false);
	mosql_view_certify(view);
	S = mosql_view_snapshot(view);
	scan = mosql_view_scan_begin(view, tree_of(client, TREE_CHILD), low, high, false, 0);
	while (mosql_view_scan_next(scan, &stored))
	{
		int			key = key_number(TREE_CHILD, stored.key);
		Row			row = row_of(&stored);
		Write	   *w;

		compare_row(client, TREE_CHILD, key, S, row);
		(void) mosql_txn_delete(client->txn, tree_of(client, TREE_CHILD),
								mosql_bytes_copy(CurrentMemoryContext, stored.key), stored.version,
								client->cid);
		w = own_write(client, TREE_CHILD, key, ON_ROW, row);
		w->row = (Row) {false};
	}
	mosql_view_scan_end(scan);
	note_read(client, TREE_CHILD, parent * CHILDREN, (parent + 1) * CHILDREN, S);
	mosql_view_close(view);
}

static void
delete_row(Client *client, int tree, int key, const MosqlRow *stored, Row seen)
{
	Write	   *w;

	if (mosql_txn_delete(client->txn, tree_of(client, tree), stored->key, stored->version,
						 client->cid) != MOSQL_WRITTEN)
		sim_fail("tx %d: a deletion is taken for one that was made already", client->tx->number);
	index_delete(client, tree, key, seen);
	w = own_write(client, tree, key, ON_ROW, seen);
	w->row = (Row) {false};
	tell(client, "deletes", tree, key, seen);
	if (tree == TREE_MAIN)
		delete_children(client, key);
}

static void
lock_row(Client *client, int tree, int key, const MosqlRow *stored, Row seen)
{
	SimTx	   *tx = client->tx;

	if (oracle_own(tx, tree, key) != NULL || tx->nlocks == LOCKS_MAX)
		return;
	mosql_txn_lock_row(client->txn, tree_of(client, tree), stored->key, stored->version);
	tx->locks[tx->nlocks++] = (Lock) {tree, key, seen};
	tell(client, "locks", tree, key, seen);
}

static bool
is_locked(const SimTx *tx, int tree, int key)
{
	for (int i = 0; i < tx->nlocks; i++)
		if (tx->locks[i].tree == tree && tx->locks[i].key == key)
			return true;
	return false;
}

/* ---- what a statement may be ---- */

static void
do_change(Client *client)
{
	int			tree = (int) sim_below(2);
	int			key = (int) sim_below(nkeys(tree));
	MosqlRow	stored = {0};
	Row			row = read_row(client, tree, key, &stored);

	if (!row.live)
		insert_row(client, tree, key);
	else if (sim_chance(150))
		lock_row(client, tree, key, &stored, row);
	else if (sim_chance(350))
		delete_row(client, tree, key, &stored, row);
	else
		update_row(client, tree, key, &stored, row);
}

/*
 * n += delta.  It commutes with those of others, except under REPEATABLE READ and on a
 * row that is locked: there it is an update of the row as it is then.
 */
static void
do_increment(Client *client)
{
	int			tree = sim_chance(800) ? TREE_PLAIN : TREE_MAIN;
	int			key = (int) sim_below(Min(nkeys(tree), 4));
	MosqlIncrement increment = {COLUMN_N, 8, sim_between(1, 9)};
	MosqlView  *view = open_view(client, client->tx->isolation == MOSQL_READ_COMMITTED);
	MosqlRow	stored = {0};
	Write	   *w;

	mosql_view_peek(view, tree_of(client, tree), key_bytes(tree, key), &stored);
	mosql_view_close(view);
	note_snapshot(client);
	if (!stored.found)
		return;
	if (mosql_txn_increment(client->txn, tree_of(client, tree), &stored, &increment, 1, client->cid) != MOSQL_WRITTEN)
		sim_fail("tx %d: an increment is taken for one that was made already", client->tx->number);
	w = own_write(client, tree, key, ON_LIVE, (Row) {false});
	w->add |= w->base == ON_LIVE && w->delta == 0;
	w->delta += increment.delta;
	tell(client, "adds to", tree, key, row_of(&stored));
	w->row.n += increment.delta;
	if (client->tx->isolation == MOSQL_REPEATABLE_READ || is_locked(client->tx, tree, key))
	{
		client->cid++;
		(void) read_row(client, tree, key, &stored);
	}
}

static void
do_read(Client *client)
{
	int			tree = (int) sim_below(3);
	MosqlRow	stored = {0};

	(void) read_row(client, tree, (int) sim_below(nkeys(tree)), &stored);
}

/* Rows between two keys, each and in order. */
static void
do_scan(Client *client)
{
	int			tree = (int) sim_below(3);
	int			low = (int) sim_below(nkeys(tree));
	int			high = low + 1 + (int) sim_below(sim_chance(200) ? nkeys(tree) : 12);
	bool		backward = sim_chance(400);
	int			limit = sim_chance(300) ? 1 + (int) sim_below(5) : 0;
	MosqlView  *view = open_view(client, false);
	MosqlTimestamp S = mosql_view_snapshot(view);
	MosqlRowScan *scan;
	MosqlRow	stored;
	int			at;
	int			n = 0;

	high = Min(high, nkeys(tree));
	at = backward ? high - 1 : low;
	scan = mosql_view_scan_begin(view, tree_of(client, tree), key_bytes(tree, low),
								 high < nkeys(tree) ? key_bytes(tree, high) : MOSQL_ABSENT, backward, limit);
	while ((limit == 0 || n < limit) && mosql_view_scan_next(scan, &stored))
	{
		int			key = key_number(tree, stored.key);

		if (backward ? key > at : key < at)
			sim_fail("tx %d scans tree %d: key %d is out of order", client->tx->number, tree, key);
		for (; at != key; at += backward ? -1 : 1)
			compare_row(client, tree, at, S, (Row) {false});
		compare_row(client, tree, key, S, row_of(&stored));
		bind_write(client, tree, key, row_of(&stored));
		at += backward ? -1 : 1;
		n++;
	}
	if (limit == 0 || n < limit)
		for (; backward ? at >= low : at < high; at += backward ? -1 : 1)
			compare_row(client, tree, at, S, (Row) {false});
	mosql_view_scan_end(scan);
	if (backward)
		note_read(client, tree, at + 1, high, S);
	else
		note_read(client, tree, low, at, S);
	mosql_view_close(view);
}

/*
 * The tokens under which the index leads to a row at S, for this transaction: its own,
 * and the stored one unless it has taken that away.  (Both are there if another one was
 * faster; then this one cannot commit.)
 */
static int
tokens_of(const SimTx *tx, int key, MosqlTimestamp S, uint32 *tokens)
{
	const Write *own = oracle_own(tx, TREE_MAIN, key);
	Row			stored = oracle_stored(TREE_MAIN, key, S);
	int			n = 0;

	if (own != NULL && own->base == ON_ROW && own->row.live && own->row.token == own->seen.token)
		own = NULL;				/* increments leave the index alone */
	if (own != NULL && !own->add && own->row.live)
		tokens[n++] = own->row.token;
	if (!stored.live || (n > 0 && tokens[0] == stored.token))
		return n;
	if (own == NULL || own->add || own->base != ON_ROW || own->seen.token != stored.token)
		tokens[n++] = stored.token;
	return n;
}

/* All entries of the index: one for each row, and no other. */
static void
do_index_scan(Client *client)
{
	MosqlView  *view = open_view(client, false);
	MosqlTimestamp S = mosql_view_snapshot(view);
	MosqlRowScan *scan = mosql_view_scan_begin(view, tree_of(client, TREE_INDEX), mosql_bytes("", 0),
											   MOSQL_ABSENT, sim_chance(500), 0);
	MosqlRow	entry;
	uint32		tokens[2] = {0};
	int			n = 0;

	while (mosql_view_scan_next(scan, &entry))
	{
		int			key = key_number(TREE_MAIN, mosql_bytes(entry.key.data + 11, 3));
		uint32		token = (uint32) strtoul(entry.key.data, NULL, 10);
		int			m = tokens_of(client->tx, key, S, tokens);

		if ((m < 1 || tokens[0] != token) && (m < 2 || tokens[1] != token))
			sim_fail("tx %d finds an entry of no row: token %u, key %d, at " UINT64_FORMAT ", where it has %d: %u",
					 client->tx->number, token, key, S, m, tokens[0]);
		n++;
	}
	mosql_view_scan_end(scan);
	for (int key = 0; key < nkeys(TREE_MAIN); key++)
		n -= tokens_of(client->tx, key, S, tokens);
	if (n != 0)
		sim_fail("tx %d finds %d entries more than rows at " UINT64_FORMAT, client->tx->number, n, S);
	note_read(client, TREE_MAIN, 0, 0, S);
	mosql_view_close(view);
}

/* A row that leads to another one. */
static void
do_refer(Client *client)
{
	int			key = (int) sim_below(nkeys(TREE_CHILD));
	MosqlBytes	parent = key_bytes(TREE_MAIN, key / CHILDREN);
	MosqlRow	stored = {0};
	Row			row = read_row(client, TREE_CHILD, key, &stored);
	bool		found;

	if (row.live)
	{
		update_row(client, TREE_CHILD, key, &stored, row);
		return;
	}
	mosql_txn_refer(client->txn, tree_of(client, TREE_MAIN), &parent, 1, &found);
	if (found)
		insert_row(client, TREE_CHILD, key);
}

static void
do_statement(Client *client)
{
	client->cid++;
	if (!has_room(client))
		return;
	switch (sim_below(10))
	{
		case 0:
		case 1:
		case 2:
			do_change(client);
			break;
		case 3:
		case 4:
			do_increment(client);
			break;
		case 5:
			do_read(client);
			break;
		case 6:
		case 7:
			do_scan(client);
			break;
		case 8:
			do_index_scan(client);
			break;
		default:
			do_refer(client);
	}
}

/* Some statements, now and then inside a savepoint that is rolled back. */
static void
do_statements(Client *client)
{
	SimTx	   *tx = client->tx;
	SimTx	   *before = NULL;

	for (int n = (int) sim_between(1, 5); n > 0; n--)
	{
		if (before == NULL && sim_chance(100))
		{
			before = palloc(sizeof(SimTx));
			*before = *tx;
			sim_savepoint();
			sim_trace("tx %d makes a savepoint", tx->number);
		}
		do_statement(client);
		if (before != NULL && sim_chance(500))
		{
			bool		keep = sim_chance(500);

			sim_end_savepoint(keep);
			sim_trace("tx %d %s its savepoint", tx->number, keep ? "keeps" : "rolls back to");
			if (!keep)
			{
				tx->nwrites = before->nwrites;
				memcpy(tx->writes, before->writes, sizeof(tx->writes));
				tx->nlocks = before->nlocks;
			}
			before = NULL;
		}
		if (sim_chance(50))
			pg_usleep(sim_below(sim_chance(100) ? 4000000 : 20000));
	}
}

/* ---- ends ---- */

static bool
is_unknown(int sqlstate)
{
	return sqlstate == ERRCODE_TRANSACTION_RESOLUTION_UNKNOWN;
}

static void
count(bool committed)
{
	int			state = pgstub_error.sqlstate;

	work_transactions++;
	if (committed)
		work_outcomes[0]++;
	else if (state == ERRCODE_T_R_SERIALIZATION_FAILURE || state == ERRCODE_UNIQUE_VIOLATION)
		work_outcomes[1]++;
	else if (is_unknown(state))
		work_outcomes[2]++;
	else
		work_outcomes[3]++;
	if (!committed)
		sim_trace("failed: %s %s", pgstub_sqlstate(state), pgstub_error.message);
}

static void
one_transaction(SimFrontEnd *self, Client *client)
{
	static const int levels[] = {XACT_READ_COMMITTED, XACT_REPEATABLE_READ, XACT_SERIALIZABLE};
	int			level = (int) sim_below(3);
	volatile bool ok = true;
	bool		committed;

	sim_begin(levels[level]);
	MemoryContextSwitchTo(TopTransactionContext);
	client->cid = 0;
	client->tx = client->work->tx = oracle_begin(client->session, (MosqlIsolation) level);
	PG_TRY();
	{
		client->txn = mosql_txn_current(client->session);
		do_statements(client);
	}
	PG_CATCH();
	{
		pgstub_error_take();
		ok = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(TopTransactionContext);
	if (ok)
		oracle_committing(client->tx);
	committed = sim_transaction(self, ok) && ok;
	QueryCancelPending = false; /* it came too late */
	count(committed);
	oracle_ended(client->tx, committed, ok && !committed && is_unknown(pgstub_error.sqlstate));
	client->tx = client->work->tx = NULL;
}

static MosqlSession *
open_session(void)
{
	MosqlSessionConfig config = {
		.redis = {.nodes = "10.0.0.1:7000", .connect_timeout_ms = 2000, .command_timeout_ms = 10000,
		.replicas = setting.nreplicas, .replica_timeout_ms = 1000},
		.ns = "sim", .engine = setting.watch ? MOSQL_ENGINE_WATCH : MOSQL_ENGINE_SCRIPT
	};

	return mosql_session_open(&config);
}

void
work_client(SimFrontEnd *self)
{
	Client		client = {self->work};

	client.session = client.work->session = open_session();
	while (!work_stops)
	{
		client.work->since_us = sim_now_us;
		one_transaction(self, &client);
		work_longest_us = Max(work_longest_us, sim_now_us - client.work->since_us);
		pg_usleep(sim_below(sim_chance(20) ? 300000 : 3000));
	}
	mosql_session_close(client.session);
}

/* ---- the database, its maintenance, the end ---- */

/* Work that is no client's; the error if it fails. */
typedef void (*Job) (MosqlSession *session);

static bool
run_job(SimFrontEnd *self, MosqlSession *session, Job job)
{
	volatile bool ok = true;

	sim_begin(XACT_READ_COMMITTED);
	MemoryContextSwitchTo(TopTransactionContext);
	PG_TRY();
	{
		(void) mosql_txn_current(session);
		job(session);
	}
	PG_CATCH();
	{
		pgstub_error_take();
		sim_trace("maintenance: %s %s", pgstub_sqlstate(pgstub_error.sqlstate), pgstub_error.message);
		ok = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(TopTransactionContext);
	return sim_transaction(self, ok) && ok;
}

static void
make_trees(MosqlSession *session)
{
	mosql_btree_create(mosql_session_store(session), MOSQL_CATALOG_ROOT);
	for (int i = 0; i < TREES; i++)
	{
		roots[i] = mosql_session_new_id(session);
		if (!mosql_btree_create(mosql_session_store(session), roots[i]))
			sim_fail("tree %d exists", i);
	}
}

void
work_found(SimFrontEnd *self)
{
	MosqlSession *session = open_session();

	if (!run_job(self, session, make_trees))
		sim_fail("the trees could not be made: %s", pgstub_error.message);
	mosql_session_close(session);
	work_founded = true;
}

static void
vacuum_trees(MosqlSession *session)
{
	MosqlVacuumCounts counts = {0};
	MosqlOrphanCounts orphans = {0};
	StringInfoData position;

	mosql_orphans_forget(session, &orphans);
	mosql_orphans_finish(session, false, &orphans);
	for (int i = 0; i < TREES; i++)
	{
		initStringInfo(&position);
		while (mosql_vacuum_tree(session, mosql_session_tree(session, roots[i]), &position,
								 (int) sim_between(1, 16), &counts))
			;
	}
	mosql_orphans_finish(session, true, &orphans);
	mosql_orphans_forget(session, &orphans);
}

static void
sweep_nodes(MosqlSession *session)
{
	MosqlVacuumCounts counts = {0};
	MosqlSweep *sweep = mosql_sweep_begin(session);
	uint64		all[TREES + 1];

	memcpy(all, roots, sizeof(roots));
	all[TREES] = MOSQL_CATALOG_ROOT;
	mosql_sweep_roots(sweep, all, TREES + 1);
	while (mosql_sweep_next(sweep, &counts))
		;
	mosql_sweep_end(sweep);
}

void
work_maintain(SimFrontEnd *self)
{
	MosqlSession *session = ((Work *) self->work)->session = open_session();

	while (!work_stops)
	{
		(void) run_job(self, session, sim_chance(150) ? sweep_nodes : vacuum_trees);
		pg_usleep(sim_below(200000));
	}
	mosql_session_close(session);
}

static void
report_finding(void *arg, char severity, uint64 node, const char *what)
{
	sim_fail("tree %d, node %016lx: %c %s", *(int *) arg, (unsigned long) node, severity, what);
}

static void
check_trees(MosqlSession *session)
{
	for (int i = 0; i < TREES; i++)
		mosql_btree_check(mosql_session_tree(session, roots[i]), report_finding, NULL, &i);
}

/* All that is left is rows. */
static void
check_leftovers(void)
{
	for (int s = 0; s < sim_nshards; s++)
	{
		uint64		cursor = 0;
		SimKey	   *key;

		while ((key = sim_next_key(&sim_shards[s], &cursor)) != NULL)
			for (int i = 0; i < key->n; i++)
			{
				MosqlBytes	name = key->fields[i].name;
				MosqlBytes	value = key->fields[i].value;
				bool		clock = memmem(key->name.data, key->name.len, ".clock}", 7) != NULL;

				if (!clock && (name.data[0] == 'i' || name.data[0] == 'l'))
					sim_fail("an intent or mark is left in %.*s", (int) key->name.len, key->name.data);
				if (clock && key->type == 'h' && value.len > 0 && value.data[0] == 'C')
					sim_fail("a record is left in %.*s: %.*s", (int) key->name.len, key->name.data,
							 (int) name.len, name.data);
			}
	}
}

static void
check_rows(SimFrontEnd *self, MosqlSession *session)
{
	Work		work = {.session = session};
	Client		client = {&work, .session = session};

	sim_begin(XACT_REPEATABLE_READ);
	MemoryContextSwitchTo(TopTransactionContext);
	client.tx = oracle_begin(session, MOSQL_REPEATABLE_READ);
	client.txn = mosql_txn_current(session);
	for (int tree = 0; tree < 3; tree++)
		for (int key = 0; key < nkeys(tree); key++)
		{
			MosqlRow	stored = {0};

			(void) read_row(&client, tree, key, &stored);
		}
	do_index_scan(&client);
	(void) sim_transaction(self, true);
}

void
work_verify(SimFrontEnd *self)
{
	MosqlSession *session = open_session();

	check_rows(self, session);
	for (int round = 0; round < 3; round++)
	{
		pg_usleep(2 * setting.lease_ms * 1000);
		if (!run_job(self, session, vacuum_trees) || !run_job(self, session, sweep_nodes))
			sim_fail("maintenance fails without faults: %s", pgstub_error.message);
	}
	if (!run_job(self, session, check_trees))
		sim_fail("the check fails: %s", pgstub_error.message);
	check_rows(self, session);
	check_leftovers();
	work_verified = true;
	mosql_session_close(session);
}
