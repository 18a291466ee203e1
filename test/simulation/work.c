/*
 * work.c: transactions at random, and what each read must give.
 *
 * A client plays the layers above: statements with views, rows as columns, an index
 * whose entries follow the rows, a foreign key.  Whatever it reads it compares with
 * the oracle at once.
 */
#include "work_int.h"

#include "access/xact.h"
#include "miscadmin.h"

#include "base/stats.h"
#include "code/claim.h"
#include "pgstub.h"
#include "step/clock.h"

#define COLUMN_N		1
#define COLUMN_TOKEN	2

Setting		setting;
bool		work_stops;
uint64		work_transactions;
uint64		work_outcomes[4];
uint64		work_hits;
uint64		work_rewritten;
int64		work_longest_us;

uint64		work_roots[FIXED_TREES];

/* ---- rows as bytes ---- */

MosqlBytes
work_key(int tree, int key)
{
	return tree == TREE_CHILD ?
		mosql_bytes(psprintf("%03d/%d", key / CHILDREN, key % CHILDREN), 5) :
		mosql_bytes(psprintf("%03d", key), 3);
}

int
work_key_number(int tree, MosqlBytes key)
{
	int			number = (key.data[0] - '0') * 100 + (key.data[1] - '0') * 10 + key.data[2] - '0';

	return tree == TREE_CHILD ? number * CHILDREN + key.data[4] - '0' : number;
}

int
work_keys(int tree)
{
	return tree == TREE_CHILD ? setting.nkeys * CHILDREN : tree == TREE_FAR ? Min(setting.nkeys, FAR_KEYS) : setting.nkeys;
}

MosqlBytes
work_row_bytes(Row row)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_column_put_int(&out, COLUMN_N, row.n, 8);
	mosql_column_put_int(&out, COLUMN_TOKEN, row.token, 4);
	return mosql_bytes_of(&out);
}

Row
work_row(const MosqlRow *stored)
{
	MosqlBytes	rest = stored->columns;
	MosqlColumn column;
	Row			row = {stored->found};

	while (stored->found && mosql_column_next(&rest, &column) == 1)
	{
		if (column.column == COLUMN_N)
			row.n = mosql_read_int(column.value.data, 8);
		else if (column.column == COLUMN_TOKEN)
			row.token = (uint32) mosql_read_int(column.value.data, 4);
	}
	return row;
}

/* Few, so that a row has one again that it had before. */
#define ENTRY_VALUES	3

static uint32
entry_value(uint32 token)
{
	return token % ENTRY_VALUES;
}

MosqlBytes
work_entry(uint32 token, int key)
{
	return mosql_bytes(psprintf("%010u/%03d", entry_value(token), key), 14);
}

/* An index's entry goes with the row: the old one, if it is another, and the new one. */
void
work_replace_entry(Client *client, MosqlTree *index, int key, Row old, Row new)
{
	if (old.live && new.live && entry_value(old.token) == entry_value(new.token))
		return;
	if (old.live)
		(void) mosql_txn_delete(client->txn, index, work_entry(old.token, key), MOSQL_VERSION_ANY, client->cid);
	if (new.live)
		(void) mosql_txn_insert(client->txn, index, work_entry(new.token, key), mosql_bytes("", 0), client->cid,
								MOSQL_KEY_OF_ROW);
}

/* ---- one client's transaction ---- */

void
work_tell(const Client *client, const char *does, int tree, int key, Row row)
{
	if (row.live)
		sim_trace("tx %d %s %d/%d: n=" INT64_FORMAT " token=%u", client->tx->number, does, tree, key,
				  row.n, row.token);
	else
		sim_trace("tx %d %s %d/%d: nothing", client->tx->number, does, tree, key);
}

/* Two transactions in three fill leaves with blocks; every other tree is together, as long as it is small. */
MosqlTree *
work_tree(Client *client, int tree)
{
	MosqlTree  *handle = mosql_session_tree(client->session,
											tree == TREE_FAR ? far_root :
											tree == TREE_TABLE ? schema_open(client)->root : work_roots[tree]);

	mosql_btree_set_loads(handle, client->tx->number % 3 > 0 ? MOSQL_COMPRESSION_LZ4 : MOSQL_COMPRESSION_NONE);
	mosql_btree_set_together(handle, tree % 2 == 0);
	return handle;
}

MosqlView *
work_view(Client *client, bool single_read)
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

void
work_note_read(Client *client, int tree, int low, int high, MosqlTimestamp S)
{
	SimTx	   *tx = client->tx;

	note_snapshot(client);
	if (tree == TREE_TABLE && tx->truncates)
		return;					/* its own tree, which a savepoint's end may take away again */
	if (tx->isolation == MOSQL_SERIALIZABLE && tx->nreads < READS_MAX)
		tx->reads[tx->nreads++] = (Read) {tree, low, high, S};
}

/* An increment of its own that is read becomes an update of what was shown. */
void
work_bind_write(Client *client, int tree, int key, Row shown)
{
	Write	   *w = (Write *) oracle_own(client->tx, tree, key);

	if (w == NULL || !w->add)
		return;
	w->add = false;
	w->base = ON_ROW;
	w->row = w->seen = shown;
	w->seen.n -= w->delta;
}

/* The row at S as the transaction must see it. */
static Row
wanted_row(const Client *client, int tree, int key, MosqlTimestamp S)
{
	const Write *own = oracle_own(client->tx, tree, key);
	Row			row;

	if (tree != TREE_TABLE || (own != NULL && !own->add))
		return oracle_row(client->tx, tree, key, S);
	row = schema_stored(client, key, S);
	if (own != NULL)
		row.n += own->delta;
	return row;
}

void
work_compare(Client *client, int tree, int key, MosqlTimestamp S, Row found)
{
	const Write *own = oracle_own(client->tx, tree, key);
	Row			wanted = wanted_row(client, tree, key, S);

	if (own != NULL && own->add)
		return;					/* the state shown is that of the first look, or newer */
	if (!row_equal(found, wanted))
		sim_fail("tx %d (level %d) reads tree %d key %d at " UINT64_FORMAT ": %d n=" INT64_FORMAT " token=%u instead of %d n=" INT64_FORMAT " token=%u",
				 client->tx->number, client->tx->isolation, tree, key, S,
				 found.live, found.n, found.token, wanted.live, wanted.n, wanted.token);
}

/* Do statements come back for what they have read? In runs of few clients increments are what counts. */
static bool
comes_back(int permille)
{
	return setting.nclients > 3 && sim_chance(permille);
}

/* The same snapshot shows the same row, and its neighbours, asked for in any order. */
static void
read_again(Client *client, MosqlView *view, int tree, int key, MosqlTimestamp S)
{
	MosqlBytes	keys[4];
	MosqlRow	rows[4];
	int			numbers[4];
	int			n = 1 + (int) sim_below(4);

	for (int i = 0; i < n; i++)
	{
		numbers[i] = (key + (int) sim_below(6)) % work_keys(tree);
		keys[i] = work_key(tree, numbers[i]);
	}
	mosql_view_get(view, work_tree(client, tree), keys, n, rows);
	for (int i = 0; i < n; i++)
	{
		work_compare(client, tree, numbers[i], S, work_row(&rows[i]));
		work_bind_write(client, tree, numbers[i], work_row(&rows[i]));
		work_note_read(client, tree, numbers[i], numbers[i] + 1, S);
	}
}

/* Read one row by its key, as a statement does that reads nothing else; the row. */
Row
work_read_row(Client *client, int tree, int key, MosqlRow *stored)
{
	bool		latest = client->tx->isolation == MOSQL_READ_COMMITTED && sim_chance(700);
	MosqlView  *view = work_view(client, latest);
	MosqlTimestamp since = oracle_moment(tree);
	int64		since_us = sim_now_us;
	MosqlBytes	bytes = work_key(tree, key);
	const Write *own;
	Row			row;

	if (comes_back(500))
		mosql_view_reuse(view, sim_chance(500));
	if (latest && sim_chance(30))
	{
		pg_usleep(sim_below(1500000));	/* a portal that is fetched from later */
		mosql_view_begin_read(view);
		since_us = sim_now_us;
	}
	mosql_view_get(view, work_tree(client, tree), &bytes, 1, stored);
	row = work_row(stored);
	own = oracle_own(client->tx, tree, key);
	if (!latest)
	{
		MosqlTimestamp S = mosql_view_snapshot(view);

		work_compare(client, tree, key, S, row);
		work_note_read(client, tree, key, key + 1, S);
		for (int n = comes_back(200) ? 1 + (int) sim_below(3) : 0; n > 0; n--)
			read_again(client, view, tree, key, S);
	}
	else if (tree == TREE_TABLE)
	{
		/* it may have been truncated meanwhile, or just before (rule 39); what it wrote itself is asked of nobody */
		if (!sim_isolates && own == NULL && oracle_table_is_old(client->table.now.root, since_us))
			sim_fail("tx %d reads key %d of a tree that was truncated before it began", client->tx->number, key);
	}
	else if (own == NULL ? !oracle_was(tree, key, since, row) : !own->add && !row_equal(own->row, row))
		sim_fail("tx %d reads tree %d key %d: %d n=" INT64_FORMAT " token=%u, which it was not since " UINT64_FORMAT,
				 client->tx->number, tree, key, row.live, row.n, row.token, since);
	work_bind_write(client, tree, key, row);
	mosql_view_close(view);
	work_tell(client, "reads", tree, key, row);
	return row;
}

/* ---- writing ---- */

Write *
work_own_write(Client *client, int tree, int key, BaseKind base, Row seen)
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

bool
work_has_room(const Client *client)
{
	return client->tx->nwrites + CHILDREN + 1 < WRITES_MAX;
}

/* The entries of a row follow it. */
void
work_change_entries(Client *client, int tree, int key, Row old, Row new)
{
	if (tree == TREE_TABLE)
		schema_change(client, key, old, new);
	if (tree == TREE_MAIN)
		work_replace_entry(client, work_tree(client, TREE_INDEX), key, old, new);
}

void
work_update_row(Client *client, int tree, int key, const MosqlRow *stored, Row seen)
{
	Row			row = {true, seen.n + 1000, oracle_token()};
	Write	   *w;

	if (mosql_txn_update(client->txn, work_tree(client, tree), stored->key, stored->version,
						 work_row_bytes(row), client->cid) != MOSQL_WRITTEN)
		sim_fail("tx %d: an update is taken for one that was made already", client->tx->number);
	work_change_entries(client, tree, key, seen, row);
	w = work_own_write(client, tree, key, ON_ROW, seen);
	w->row = row;
	work_tell(client, "updates", tree, key, row);
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
	view = work_view(client, false);
	mosql_view_certify(view);
	S = mosql_view_snapshot(view);
	scan = mosql_view_scan_begin(view, work_tree(client, TREE_CHILD), low, high, false, 0);
	while (mosql_view_scan_next(scan, &stored))
	{
		int			key = work_key_number(TREE_CHILD, stored.key);
		Row			row = work_row(&stored);
		Write	   *w;

		work_compare(client, TREE_CHILD, key, S, row);
		(void) mosql_txn_delete(client->txn, work_tree(client, TREE_CHILD),
								mosql_bytes_copy(CurrentMemoryContext, stored.key), stored.version,
								client->cid);
		w = work_own_write(client, TREE_CHILD, key, ON_ROW, row);
		w->row = (Row) {false};
	}
	mosql_view_scan_end(scan);
	work_note_read(client, TREE_CHILD, parent * CHILDREN, (parent + 1) * CHILDREN, S);
	mosql_view_close(view);
}

void
work_delete_row(Client *client, int tree, int key, const MosqlRow *stored, Row seen)
{
	Write	   *w;

	if (mosql_txn_delete(client->txn, work_tree(client, tree), stored->key, stored->version,
						 client->cid) != MOSQL_WRITTEN)
		sim_fail("tx %d: a deletion is taken for one that was made already", client->tx->number);
	work_change_entries(client, tree, key, seen, (Row) {false});
	w = work_own_write(client, tree, key, ON_ROW, seen);
	w->row = (Row) {false};
	work_tell(client, "deletes", tree, key, seen);
	if (tree == TREE_MAIN)
		delete_children(client, key);
}

void
work_lock_row(Client *client, int tree, int key, const MosqlRow *stored, Row seen, bool pins)
{
	SimTx	   *tx = client->tx;

	if (oracle_own(tx, tree, key) != NULL || tx->nlocks == LOCKS_MAX)
		return;
	mosql_txn_lock_row(client->txn, work_tree(client, tree), stored->key, stored->version, pins);
	tx->locks[tx->nlocks++] = (Lock) {tree, key, seen, !pins};
	work_tell(client, "locks", tree, key, seen);
}

static bool
is_pinned(const SimTx *tx, int tree, int key)
{
	for (int i = 0; i < tx->nlocks; i++)
		if (tx->locks[i].tree == tree && tx->locks[i].key == key && !tx->locks[i].live)
			return true;
	return false;
}

/* ---- what a statement may be ---- */

bool		sim_runs;

/* One of a run: added to, deleted, updated, or, if it is not there, inserted now and then. */
static void
change_in_run(Client *client, int tree, int key, int kind)
{
	MosqlIncrement increment = {COLUMN_N, 8, sim_between(1, 9)};
	MosqlRow	stored = {0};
	Row			row = work_read_row(client, tree, key, &stored);

	if (kind == 3)
		kind = (int) sim_below(3);
	if (!row.live)
	{
		if (kind == 2)
			insert_row(client, tree, key, MOSQL_KEY_MAY_EXIST);
	}
	else if (kind == 0 && tree == TREE_PLAIN && client->tx->isolation < MOSQL_REPEATABLE_READ &&
			 oracle_own(client->tx, tree, key) == NULL && !is_pinned(client->tx, tree, key))
	{
		Write	   *w;

		if (mosql_txn_increment(client->txn, work_tree(client, tree), &stored, &increment, 1, client->cid) != MOSQL_WRITTEN)
			sim_fail("tx %d: an increment is taken for one that was made already", client->tx->number);
		w = work_own_write(client, tree, key, ON_LIVE, (Row) {false});
		w->add = true;
		w->delta = increment.delta;
		w->row.n = row.n + increment.delta;
		work_tell(client, "adds to", tree, key, row);
	}
	else if (kind == 1)
		work_delete_row(client, tree, key, &stored, row);
	else
		work_update_row(client, tree, key, &stored, row);
}

/* Rows next to each other, of which a leaf may have many: it is written as a whole then, if it is packed. */
static void
do_run(Client *client)
{
	int			tree = sim_chance(700) ? TREE_PLAIN : TREE_MAIN;
	int			low = (int) sim_below(work_keys(tree));
	int			n = (int) sim_between(2, 9);
	int			kind = (int) sim_below(4);

	for (int key = low; key < Min(low + n, work_keys(tree)) && work_has_room(client); key++)
	{
		client->cid++;
		change_in_run(client, tree, key, kind);
	}
}

static void
do_change(Client *client)
{
	static const int trees[] = {TREE_MAIN, TREE_PLAIN, TREE_TABLE};
	int			tree = client->is_far ? TREE_FAR : trees[sim_below(3)];
	int			key = (int) sim_below(work_keys(tree));
	MosqlRow	stored = {0};
	Row			row;

	if (tree == TREE_TABLE)
		schema_wait(client);
	row = work_read_row(client, tree, key, &stored);

	if (!row.live)
		insert_row(client, tree, key, MOSQL_KEY_MAY_EXIST);
	else if (sim_chance(150))
		work_lock_row(client, tree, key, &stored, row, true);
	else if (sim_chance(350))
		work_delete_row(client, tree, key, &stored, row);
	else
		work_update_row(client, tree, key, &stored, row);
}

/* The statement of one who locks what he looks at, and expects to look: false if the row is not locked for it. */
static bool
lock_to_increment(Client *client, int tree, MosqlBytes key, MosqlRow *stored)
{
	bool		locked;

	if (!locks_are_played() || !(client->locks || sim_chance(300)) ||
		!mosql_txn_looks_lock(client->txn, work_tree(client, tree)) ||
		client->tx->isolation != MOSQL_READ_COMMITTED)
		return false;
	mosql_txn_claim(client->txn, work_tree(client, tree), &key, 1, MOSQL_NO_KEY_UPDATE, LockWaitBlock, stored, &locked);
	return !stored->own;
}

/*
 * n += delta.  It commutes with those of others, except under REPEATABLE READ and on a
 * row that is locked: there it is an update of the row as it is then.
 */
static void
do_increment(Client *client)
{
	int			tree = client->is_far ? TREE_FAR : sim_chance(700) ? TREE_PLAIN : sim_chance(500) ? TREE_TABLE : TREE_MAIN;
	int			key = (int) sim_below(Min(work_keys(tree), 4));
	MosqlIncrement increment = {COLUMN_N, 8, sim_between(1, 9)};
	MosqlView  *view;
	MosqlRow	stored = {0};
	MosqlBytes	bytes = work_key(tree, key);
	Write	   *w;

	if (tree == TREE_TABLE && sim_locks_tables)
		schema_wait_lock(client);
	mosql_txn_ask_usual(client->txn, work_tree(client, tree));
	if (!lock_to_increment(client, tree, bytes, &stored))
	{
		view = work_view(client, client->tx->isolation == MOSQL_READ_COMMITTED);
		mosql_view_peek(view, work_tree(client, tree), &bytes, 1, &stored);
		mosql_view_close(view);
	}
	note_snapshot(client);
	if (!stored.found)
		return;
	if (mosql_txn_increment(client->txn, work_tree(client, tree), &stored, &increment, 1, client->cid) != MOSQL_WRITTEN)
		sim_fail("tx %d: an increment is taken for one that was made already", client->tx->number);
	w = work_own_write(client, tree, key, ON_LIVE, (Row) {false});
	w->add |= w->base == ON_LIVE && w->delta == 0;
	w->delta += increment.delta;
	work_tell(client, "adds to", tree, key, work_row(&stored));
	w->row.n += increment.delta;
	if (client->tx->isolation == MOSQL_REPEATABLE_READ || is_pinned(client->tx, tree, key) || sim_chance(150))
	{
		client->cid++;
		(void) work_read_row(client, tree, key, &stored);
	}
}

static int
any_table(const Client *client)
{
	static const int tables[] = {TREE_MAIN, TREE_PLAIN, TREE_CHILD, TREE_TABLE};

	return client->is_far ? TREE_FAR : tables[sim_below(lengthof(tables))];
}

static void
do_read(Client *client)
{
	int			tree = any_table(client);
	MosqlRow	stored = {0};

	(void) work_read_row(client, tree, (int) sim_below(work_keys(tree)), &stored);
}

MosqlKeyRange
work_range(int tree, Stretch stretch)
{
	return (MosqlKeyRange)
	{
		work_key(tree, stretch.low), stretch.high < work_keys(tree) ? work_key(tree, stretch.high) : MOSQL_ABSENT
	};
}

int
work_some_stretches(int nkeys, Stretch *stretches, int max)
{
	int			n = 0;
	int			low = (int) sim_below(nkeys);

	do
	{
		int			high = low + 1 + (int) sim_below(sim_chance(200) ? nkeys : 12);

		stretches[n++] = (Stretch) {low, Min(high, nkeys)};
		low = high + 1;
	} while (n < max && low < nkeys && comes_back(200));
	return n;
}

/* All keys of a stretch, up to the one where the scan is (or was) ended, are as the rows said. */
static void
none_between(Client *client, int tree, MosqlTimestamp S, int from, int to)
{
	for (int key = from; key < to; key++)
		work_compare(client, tree, key, S, (Row) {false});
}

/* Rows of stretches of keys, each and in order; up to `limit`, 0: all. */
void
work_scan_stretches(Client *client, MosqlView *view, int tree, const Stretch *stretches, int n)
{
	bool		backward = sim_chance(400);
	int			limit = sim_chance(300) ? 1 + (int) sim_below(5) : 0;
	MosqlTimestamp S = mosql_view_snapshot(view);
	MosqlKeyRange ranges[3];
	MosqlRowScan *scan;
	MosqlRow	stored;
	int			s = backward ? n - 1 : 0;
	int			at = backward ? stretches[s].high : stretches[s].low;	/* not seen yet from here on */
	int			found = 0;

	for (int i = 0; i < n; i++)
		ranges[i] = work_range(tree, stretches[i]);
	scan = mosql_view_scan_begin_ranges(view, work_tree(client, tree), ranges, n, backward, limit);
	while ((limit == 0 || found < limit) && mosql_view_scan_next(scan, &stored))
	{
		int			key = work_key_number(tree, stored.key);

		for (; backward ? key < stretches[s].low && s > 0 : key >= stretches[s].high && s < n - 1;
			 at = backward ? stretches[s].high : stretches[s].low)
		{
			none_between(client, tree, S, backward ? stretches[s].low : at, backward ? at : stretches[s].high);
			work_note_read(client, tree, stretches[s].low, stretches[s].high, S);
			s += backward ? -1 : 1;
		}
		if (backward ? key >= at || key < stretches[s].low : key < at || key >= stretches[s].high)
			sim_fail("tx %d scans tree %d: key %d is out of order", client->tx->number, tree, key);
		none_between(client, tree, S, backward ? key + 1 : at, backward ? at : key);
		work_compare(client, tree, key, S, work_row(&stored));
		work_bind_write(client, tree, key, work_row(&stored));
		if (sim_chance(100))
			look_handle(client, work_tree(client, tree), &stored);
		at = backward ? key : key + 1;
		found++;
	}
	for (bool ended = limit == 0 || found < limit; ended && s >= 0 && s < n; s += backward ? -1 : 1)
	{
		none_between(client, tree, S, backward ? stretches[s].low : at, backward ? at : stretches[s].high);
		work_note_read(client, tree, stretches[s].low, stretches[s].high, S);
		if (backward ? s > 0 : s < n - 1)
			at = backward ? stretches[s - 1].high : stretches[s + 1].low;
	}
	if (s >= 0 && s < n)
		work_note_read(client, tree, backward ? at : stretches[s].low, backward ? stretches[s].high : at, S);
	mosql_view_scan_end(scan);
}

/* A statement scans, and now and then comes back to what is near, as the inner side of a join. */
static void
scan_often(Client *client, int tree)
{
	MosqlView  *view = work_view(client, false);
	Stretch		stretches[3];
	int			n = work_some_stretches(work_keys(tree), stretches, 3);
	int			again = comes_back(300) ? (int) sim_between(1, 4) : 0;

	if (comes_back(700))
		mosql_view_reuse(view, again > 0);
	for (work_scan_stretches(client, view, tree, stretches, n); again > 0; again--)
	{
		if (sim_chance(300))
			read_again(client, view, tree, stretches[0].low, mosql_view_snapshot(view));
		if (sim_chance(700))
			n = work_some_stretches(work_keys(tree), stretches, 3);
		work_scan_stretches(client, view, tree, stretches, n);
	}
	mosql_view_close(view);
}

static void
do_scan(Client *client)
{
	int			tree = any_table(client);

	if (client->tx->isolation == MOSQL_READ_COMMITTED && tree != TREE_TABLE && sim_chance(700))
		alone_scan(client, tree);
	else
		scan_often(client, tree);
}

/*
 * The row whose entry the index has at S, for this transaction: its own, or the stored one.  False if nobody can tell: another
 * transaction was faster, so that this one cannot commit.
 */
static bool
indexed_row(const Client *client, int tree, int key, MosqlTimestamp S, Row *row)
{
	const Write *own = oracle_own(client->tx, tree, key);
	Row			stored = tree == TREE_TABLE ? schema_stored(client, key, S) : oracle_stored(tree, key, S);

	*row = stored;
	if (own == NULL || own->add)
		return true;
	if (own->base == ON_ROW && own->row.live && own->row.token == own->seen.token)
		return true;			/* increments leave the index alone */
	*row = own->row;
	return own->base == ON_ROW ? stored.live && stored.token == own->seen.token : !stored.live;
}

/* All entries of an index: one for each row, and no other. */
static void
scan_index(Client *client, int tree, MosqlTree *index, MosqlView *view)
{
	MosqlTimestamp S = mosql_view_snapshot(view);
	MosqlRowScan *scan = mosql_view_scan_begin(view, index, mosql_bytes("", 0), MOSQL_ABSENT,
											   sim_chance(500), 0);
	MosqlRow	entry;
	Row			row;
	int			n = 0;

	while (mosql_view_scan_next(scan, &entry))
	{
		int			key = work_key_number(TREE_MAIN, mosql_bytes(entry.key.data + 11, 3));
		uint32		value = (uint32) strtoul(entry.key.data, NULL, 10);

		if (!indexed_row(client, tree, key, S, &row))
			continue;
		if (!row.live || entry_value(row.token) != value)
			sim_fail("tx %d finds an entry of no row: tree %d value %u, key %d, at " UINT64_FORMAT ", where it has %d: %u",
					 client->tx->number, tree, value, key, S, row.live, row.token);
		n++;
	}
	mosql_view_scan_end(scan);
	for (int key = 0; key < work_keys(tree); key++)
		n -= indexed_row(client, tree, key, S, &row) && row.live;
	if (n != 0)
		sim_fail("tx %d finds %d entries more than rows of tree %d at " UINT64_FORMAT,
				 client->tx->number, n, tree, S);
	work_note_read(client, tree, 0, 0, S);
}

static void
do_index_scan(Client *client)
{
	MosqlView  *view = work_view(client, false);

	if (comes_back(700))
		mosql_view_reuse(view, sim_chance(300));
	scan_index(client, TREE_MAIN, work_tree(client, TREE_INDEX), view);
	if (comes_back(300))
		scan_index(client, TREE_MAIN, work_tree(client, TREE_INDEX), view);
	mosql_view_close(view);
}

/* The index of TREE_TABLE, if it has one, and had it at the snapshot. */
static void
do_built_index_scan(Client *client)
{
	uint64		index = schema_open(client)->index;
	MosqlView  *view = work_view(client, false);

	if (comes_back(700))
		mosql_view_reuse(view, sim_chance(300));
	if (index != 0 && !client->table.changed && mosql_view_snapshot(view) >= client->table.version)
		scan_index(client, TREE_TABLE, mosql_session_tree(client->session, index), view);
	mosql_view_close(view);
}

static void
do_schema(Client *client)
{
	if (client->draws)
		for (int n = (int) sim_between(5, 40); n > 0; n--)
			sequence_draw(client);
	else if (sim_chance(100))
		schema_truncate(client);
	else if (sim_chance(50))
		sequence_set(client);
	else if (sim_chance(50))
		sequence_read(client);
	else if (sim_chance(50))
		look_fate(client);
	else
		sequence_draw(client);
}

/* In the other namespace. */
static void
do_far(Client *client)
{
	static void (*const statements[]) (Client *client) = {do_change, do_change, do_increment, do_read, do_scan};

	far_statement(client, statements[sim_below(lengthof(statements))]);
}

static void
do_statement(Client *client)
{
	client->cid++;
	if (!work_has_room(client))
		return;
	if (client->tx->locks_all || (client->locks && sim_chance(600)))
	{
		if (sim_chance(150))
			insert_locked(client);
		else
			locks_statement(client);
		return;
	}
	if (sim_locks_numbers && sim_chance(70))
	{
		number_statement(client);
		return;
	}
	if (sim_loads && sim_chance(300))
	{
		insert_reload(client);
		return;
	}
	if (sim_chance(sim_runs ? 400 : 10))
	{
		do_run(client);
		return;
	}
	if (sim_locks_tables && sim_chance(50))
	{
		schema_lock(client);
		return;
	}
	if (client->truncates && sim_chance(300))
	{
		if (sim_chance(500))
			schema_truncate(client);
		else
			insert_load(client);
		return;
	}
	if (client->travels && sim_chance(300))
	{
		do_far(client);
		return;
	}
	switch (client->draws ? 10 : sim_below(17))
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
			if (sim_chance(100))
				parallel_scan(client);
			else
				do_scan(client);
			break;
		case 8:
			do_index_scan(client);
			break;
		case 9:
			do_built_index_scan(client);
			break;
		case 10:
			do_schema(client);
			break;
		case 11:
			locks_statement(client);
			break;
		case 12:
			insert_family(client);
			break;
		case 13:
			insert_moved(client);
			break;
		case 14:
			exec_ahead(client);
			break;
		case 15:
			exec_tokens(client);
			exec_locked(client);
			break;
		default:
			insert_refer(client);
	}
}

/* A row of a load that belongs before the savepoint, and stays when that is rolled back (mosql_txn_put_earlier()). */
typedef struct Earlier
{
	Client	   *client;
	int			key;
	Row			row;
} Earlier;

static void
put_row(void *arg)
{
	const Earlier *earlier = arg;
	Client	   *client = earlier->client;

	(void) mosql_txn_insert(client->txn, work_tree(client, TREE_PLAIN), work_key(TREE_PLAIN, earlier->key),
							work_row_bytes(earlier->row), client->cid, MOSQL_KEY_FOUND_FREE);
}

static void
put_earlier(Client *client, SimTx *before)
{
	Earlier		earlier = {client, (int) sim_below(work_keys(TREE_PLAIN)), {true, 0, oracle_token()}};
	MosqlRow	stored = {0};
	Write	   *w;

	if (!work_has_room(client) || client->tx->locks_all || oracle_own(client->tx, TREE_PLAIN, earlier.key) != NULL)
		return;
	client->cid++;
	if (work_read_row(client, TREE_PLAIN, earlier.key, &stored).live)
		return;
	mosql_txn_put_earlier(client->txn, sim_self->nest_level - 1, put_row, &earlier);
	w = work_own_write(client, TREE_PLAIN, earlier.key, ON_NOTHING, (Row) {false});
	w->row = earlier.row;
	before->writes[before->nwrites++] = *w;
	work_tell(client, "inserts before its savepoint", TREE_PLAIN, earlier.key, earlier.row);
}

/* Some statements, now and then inside a savepoint that is rolled back. */
static void
do_statements(Client *client)
{
	SimTx	   *tx = client->tx;
	SimTx	   *before = NULL;
	SimTx	   *far_before = palloc0(sizeof(SimTx));
	Known		known;

	for (int n = (int) sim_between(1, 5); n > 0; n--)
	{
		if (before == NULL && sim_chance(100))
		{
			before = palloc(sizeof(SimTx));
			*before = *tx;
			known = client->table;
			far_keep(tx, far_before);
			sim_savepoint();
			sim_trace("tx %d makes a savepoint", tx->number);
		}
		do_statement(client);
		if (before != NULL && sim_chance(200))
			put_earlier(client, before);
		if (before != NULL && sim_chance(500))
		{
			bool		keep = sim_chance(500);

			if (!keep)
				locks_roll_back(tx, before);
			sim_end_savepoint(keep);
			sim_trace("tx %d %s its savepoint", tx->number, keep ? "keeps" : "rolls back to");
			if (!keep)
			{
				tx->nwrites = before->nwrites;
				memcpy(tx->writes, before->writes, sizeof(tx->writes));
				tx->nlocks = before->nlocks;
				tx->truncates = before->truncates;
				tx->defines = before->defines;
				tx->definition_root = before->definition_root;
				far_roll_back(tx, far_before);
				schema_rolled_back(client, &known);
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

void
work_begin(Client *client, int level)
{
	static const int levels[] = {XACT_READ_COMMITTED, XACT_REPEATABLE_READ, XACT_SERIALIZABLE};

	sim_begin(levels[level]);
	sim_core_begin(false);
	MemoryContextSwitchTo(TopTransactionContext);
	client->cid = 0;
	client->tx = client->work->tx = oracle_begin(client->session, (MosqlIsolation) level);
	schema_begin(client);
}

/* True if it is committed. */
bool
work_end(SimFrontEnd *self, Client *client, bool ok)
{
	bool		committed;

	MemoryContextSwitchTo(TopTransactionContext);
	if (ok)
		oracle_committing(client->tx);
	committed = sim_transaction(self, ok) && ok;
	if (!committed)
	{
		locks_ended(client->tx);
		insert_ended(client->tx);
	}
	QueryCancelPending = false; /* it came too late */
	count(committed);
	oracle_ended(client->tx, committed, ok && !committed && is_unknown(pgstub_error.sqlstate));
	client->tx = client->work->tx = NULL;
	return committed;
}

static void
one_transaction(SimFrontEnd *self, Client *client)
{
	volatile bool ok = true;
	int64		hits = mosql_stats.snapshot_hits;
	int64		rewritten = mosql_stats.leaves_rewritten;

	PG_TRY();
	{
		if (sim_runs && sim_chance(300))
			maintain_pack(client->session, work_roots[sim_below(FIXED_TREES)]);
	}
	PG_CATCH();
	{
		pgstub_error_take();
	}
	PG_END_TRY();
	work_begin(client, client->level < 3 ? client->level : (int) sim_below(3));
	PG_TRY();
	{
		client->txn = mosql_txn_current(client->session);
		if (!client->travels && sim_chance(20))
		{
			mosql_txn_serialize(client->txn);	/* as DDL does */
			client->tx->isolation = MOSQL_SERIALIZABLE;
		}
		client->tx->locks_all = client->locks && client->tx->isolation == MOSQL_READ_COMMITTED && sim_chance(500);
		if (sim_chance(70))
			insert_alone(client);
		else
			do_statements(client);
	}
	PG_CATCH();
	{
		pgstub_error_take();
		far_leave(client);
		locks_failed(client->tx);
		ok = false;
	}
	PG_END_TRY();
	work_hits += (uint64) (mosql_stats.snapshot_hits - hits);
	(void) work_end(self, client, ok);
	work_rewritten += (uint64) (mosql_stats.leaves_rewritten - rewritten);
}

MosqlSession *
work_session(const char *ns)
{
	MosqlSessionConfig config = {
		.redis = {.nodes = "10.0.0.1:7000", .connect_timeout_ms = 2000, .command_timeout_ms = 10000,
		.replicas = sim_dumps ? 0 : setting.nreplicas, .replica_timeout_ms = 1000},
		.ns = ns, .engine = setting.watch ? MOSQL_ENGINE_WATCH : MOSQL_ENGINE_SCRIPT
	};

	return mosql_session_open(&config);
}

/* All rows, and indexes, as one transaction sees them. */
void
work_read_all(SimFrontEnd *self, MosqlSession *session)
{
	Work		work = {.session = session};
	Client		client = {&work, .session = session};

	sim_begin(XACT_REPEATABLE_READ);
	MemoryContextSwitchTo(TopTransactionContext);
	client.tx = oracle_begin(session, MOSQL_REPEATABLE_READ);
	client.txn = mosql_txn_current(session);
	for (int tree = 0; tree < TREES; tree++)
		for (int key = 0; tree != TREE_INDEX && tree != TREE_FAR && key < work_keys(tree); key++)
		{
			MosqlRow	stored = {0};

			(void) work_read_row(&client, tree, key, &stored);
		}
	do_index_scan(&client);
	do_built_index_scan(&client);
	(void) sim_transaction(self, true);
}

void
work_client(SimFrontEnd *self)
{
	Client		client = {self->work};

	client.work->client = &client;
	client.work->kept = sim_chance(700);
	client.draws = sim_chance(150);
	client.travels = !client.draws && sim_chance(300);
	client.locks = !client.draws && locks_are_played() && sim_chance(400);
	client.truncates = !client.draws && sim_chance(sim_truncates ? 500 : 70);
	client.level = sim_chance(400) ? (int) sim_below(3) : 3;
	mosql_txn_snapshot_cache_kb = sim_chance(150) ? (int) sim_below(3) : mosql_txn_snapshot_cache_kb;
	schema_start();
	client.session = client.work->session = work_session("sim");
	while (!work_stops)
	{
		client.work->since_us = sim_now_us;
		if (sim_chance(10))
			build_index(self, &client);
		else
			one_transaction(self, &client);
		work_longest_us = Max(work_longest_us, sim_now_us - client.work->since_us);
		if (sim_chance(10))
			mosql_session_rest(client.far != NULL && sim_chance(300) ? client.far : client.session, sim_chance(500));
		pg_usleep(sim_below(sim_chance(sim_runs ? 150 : 20) ? 300000 : 3000));
		mosql_session_catch_up(client.session);
		if (client.far != NULL)
			mosql_session_catch_up(client.far);
	}
	mosql_session_close(client.session);
	if (client.far != NULL)
		mosql_session_close(client.far);
}
