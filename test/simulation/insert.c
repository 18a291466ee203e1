/*
 * insert.c: rows that come, as src/fdw/insert.c has them: one by one, with others that lead to them, or in the
 * place of others.
 */
#include "locks.h"
#include "work_int.h"

#include "code/claim.h"
#include "pgstub.h"

/* Whose keys are locked when they are looked up, and stay so (claims.c watches that). */
static bool
is_watched(int tree)
{
	return tree == TREE_MAIN || tree == TREE_PLAIN || tree == TREE_CHILD;
}

static MosqlInsertLocking
how_it_locks(const Client *client, int nkeys)
{
	if (!client->locks)
		return MOSQL_INSERTS_LOOK;
	if (client->tx->alone)
		return MOSQL_INSERTS_LOCK;
	return client->tx->nclaims + nkeys <= CLAIMS_MAX && (client->tx->locks_all || sim_chance(600)) ?
		MOSQL_INSERTS_LOCK : MOSQL_INSERTS_WAIT;
}

static void
note_lock(Client *client, int tree, int key)
{
	MosqlBytes	bytes = work_key(tree, key);

	if (is_watched(tree) && mosql_txn_strength(client->txn, work_tree(client, tree), bytes) >= MOSQL_UPDATE)
		locks_note(client, tree, key, bytes, MOSQL_UPDATE);
}

/* What came has been looked up, unless it is known to be free; 23505 if one was there. */
static void
check_inserts(Client *client, int tree, const int *keys, int n, MosqlTimestamp since, bool proved)
{
	MosqlInsertLocking locking = how_it_locks(client, n);
	MosqlBytes	duplicate;
	int			key;

	if (mosql_txn_check_inserts(client->txn, work_tree(client, tree), locking, &duplicate))
	{
		for (int i = 0; i < n && locking == MOSQL_INSERTS_LOCK && !proved; i++)
			note_lock(client, tree, keys[i]);
		return;
	}
	key = work_key_number(tree, duplicate);
	if (tree != TREE_TABLE && !oracle_was_live(tree, key, since) && oracle_own(client->tx, tree, key) == NULL)
		sim_fail("tx %d: tree %d key %d is called a duplicate and is not there", client->tx->number, tree, key);
	mosql_txn_blame(client->txn, client->cid, work_tree(client, tree), duplicate);
	ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION), errmsg("duplicate key")));
}

/* Into the write buffer, not looked up yet. */
static Row
buffer_row(Client *client, int tree, int key, MosqlNewKey known)
{
	Row			row = {true, sim_below(100), oracle_token()};

	if (mosql_txn_insert(client->txn, work_tree(client, tree), work_key(tree, key), work_row_bytes(row),
						 client->cid, known) != MOSQL_WRITTEN)
		sim_fail("tx %d: a row that it does not have is its own", client->tx->number);
	return row;
}

static void
note_row(Client *client, int tree, int key, Row row)
{
	work_change_entries(client, tree, key, (Row) {false}, row);
	work_own_write(client, tree, key, ON_NOTHING, (Row) {false})->row = row;
	work_tell(client, "inserts", tree, key, row);
}

/* A row that was not there when it was looked for. */
void
insert_row(Client *client, int tree, int key, MosqlNewKey known)
{
	MosqlTimestamp since = oracle_moment(tree);
	Row			row = buffer_row(client, tree, key, known);

	check_inserts(client, tree, &key, 1, since, known == MOSQL_KEY_PROVED_FREE);
	note_row(client, tree, key, row);
}

static void
report_no_parent(Client *client, MosqlBytes parent)
{
	mosql_txn_blame(client->txn, client->cid, work_tree(client, TREE_MAIN), parent);
	ereport(ERROR, (errcode(ERRCODE_FOREIGN_KEY_VIOLATION), errmsg("no parent")));
}

/* The row, whose parent is locked in the round trip that looks up its key, if that can be had at once (mosql_references_go_along()). */
static void
insert_along(Client *client, int key, MosqlBytes parent)
{
	MosqlTree  *tree = work_tree(client, TREE_MAIN);
	bool		found;

	if (!mosql_txn_is_known(client->txn, tree, parent, &found))
		mosql_txn_refer_along(client->txn, tree, &parent, 1);
	insert_row(client, TREE_CHILD, key, MOSQL_KEY_MAY_EXIST);
	mosql_txn_end_along(client->txn);
	mosql_txn_refer(client->txn, tree, &parent, 1, true, &found);
	if (!found)
		report_no_parent(client, parent);
}

/* A row that leads to another one. */
void
insert_refer(Client *client)
{
	int			key = (int) sim_below(work_keys(TREE_CHILD));
	MosqlBytes	parent = work_key(TREE_MAIN, key / CHILDREN);
	MosqlRow	stored = {0};
	Row			row = work_read_row(client, TREE_CHILD, key, &stored);
	bool		found;

	if (row.live)
	{
		work_update_row(client, TREE_CHILD, key, &stored, row);
		return;
	}
	if (client->locks && sim_chance(500))
	{
		insert_along(client, key, parent);
		return;
	}
	mosql_txn_refer(client->txn, work_tree(client, TREE_MAIN), &parent, 1, client->locks, &found);
	if (found)
		insert_row(client, TREE_CHILD, key, MOSQL_KEY_MAY_EXIST);
	else if (sim_chance(500))
		report_no_parent(client, parent);
}

/*
 * A row, and others that lead to it.  Who has locked its key when it was free need not look for them
 * (mosql_references_prove_free(), src/fdw/reference.c).
 */
void
insert_family(Client *client)
{
	int			parent = (int) sim_below(work_keys(TREE_MAIN));
	MosqlBytes	bytes = work_key(TREE_MAIN, parent);
	MosqlRow	stored = {0};
	bool		proved;

	if (work_read_row(client, TREE_MAIN, parent, &stored).live)
		return;
	insert_row(client, TREE_MAIN, parent, MOSQL_KEY_MAY_EXIST);
	client->cid++;
	proved = mosql_txn_has_inserted(client->txn, work_tree(client, TREE_MAIN), bytes);
	for (int key = parent * CHILDREN; key < (parent + 1) * CHILDREN && work_has_room(client); key++)
		if (sim_chance(600) && oracle_own(client->tx, TREE_CHILD, key) == NULL)
			insert_row(client, TREE_CHILD, key, proved ? MOSQL_KEY_PROVED_FREE : MOSQL_KEY_MAY_EXIST);
}

/* Neighbours, all of them new: they fill leaves that were made for them. */
void
insert_load(Client *client)
{
	int			tree = sim_chance(500) ? TREE_TABLE : TREE_PLAIN;
	int			low = (int) sim_below(work_keys(tree));
	int			high = low + (int) sim_between(4, 16);

	high = Min(high, work_keys(tree));
	if (tree == TREE_TABLE)
		schema_wait(client);
	for (int key = low; key < high && work_has_room(client); key++)
	{
		MosqlRow	stored = {0};

		client->cid += setting.nclients > 3;	/* what was inserted is seen by who comes back */
		if (!work_read_row(client, tree, key, &stored).live)
			insert_row(client, tree, key, MOSQL_KEY_MAY_EXIST);
	}
}

bool		sim_loads;

/* A range of which all rows go, or, if there is none, come: so that leaves are empty, and filled. */
void
insert_reload(Client *client)
{
	int			low = (int) sim_below(work_keys(TREE_PLAIN)) / 8 * 8;
	int			high = Min(low + 16, work_keys(TREE_PLAIN));
	bool		clears = false;

	for (int key = low; key < high && work_has_room(client); key++)
	{
		MosqlRow	stored = {0};
		Row			row;

		client->cid += setting.nclients > 3;	/* as above */
		row = work_read_row(client, TREE_PLAIN, key, &stored);
		if (row.live && key - low < 4)
			clears = true;
		if (row.live && clears)
			work_delete_row(client, TREE_PLAIN, key, &stored, row);
		else if (!row.live && !clears)
			insert_row(client, TREE_PLAIN, key, MOSQL_KEY_MAY_EXIST);
	}
}

/* ---- keys that a statement changes ---- */

static void
take_away(Client *client, int key, const MosqlRow *stored, Row seen)
{
	MosqlTree  *tree = work_tree(client, TREE_PLAIN);

	if (mosql_txn_delete(client->txn, tree, stored->key, stored->version, client->cid) != MOSQL_WRITTEN)
		sim_fail("tx %d: a deletion is taken for one that was made already", client->tx->number);
	if (client->locks)
		mosql_txn_leave(client->txn, tree, stored->key);	/* as of a unique index */
	work_own_write(client, TREE_PLAIN, key, ON_ROW, seen)->row = (Row) {false};
}

/* Whoever comes to it again in this command leaves it alone. */
static void
check_own(Client *client, int key, Row row)
{
	MosqlTree  *tree = work_tree(client, TREE_PLAIN);
	MosqlBytes	bytes = work_key(TREE_PLAIN, key);
	MosqlOwnWrite is = mosql_txn_own_write(client->txn, tree, bytes, client->cid);

	if (is != (row.live ? MOSQL_OWN_PUT : MOSQL_OWN_DELETE) ||
		mosql_txn_own_write(client->txn, tree, bytes, client->cid + 1) != MOSQL_OWN_NONE)
		sim_fail("tx %d does not know what it has done to key %d: %d", client->tx->number, key, is);
	if (mosql_txn_delete(client->txn, tree, bytes, MOSQL_VERSION_ANY, client->cid) != MOSQL_SELF_MODIFIED)
		sim_fail("tx %d changes key %d twice in a command", client->tx->number, key);
	if (sim_chance(20))
	{
		(void) mosql_txn_delete(client->txn, tree, bytes, MOSQL_VERSION_ANY, client->cid - 1);
		sim_fail("tx %d changes key %d, and a command inside of that has", client->tx->number, key);
	}
}

static void
put_at(Client *client, int key, Row row)
{
	if (mosql_txn_insert(client->txn, work_tree(client, TREE_PLAIN), work_key(TREE_PLAIN, key), work_row_bytes(row),
						 client->cid, MOSQL_KEY_MAY_EXIST) != MOSQL_WRITTEN)
		sim_fail("tx %d: a row that it has taken away is there", client->tx->number);
	work_own_write(client, TREE_PLAIN, key, ON_NOTHING, (Row) {false})->row = row;
	work_tell(client, "moves a row to", TREE_PLAIN, key, row);
}

/* A row takes another key, in one command: of a row that takes its key, or one that is free. */
static void
move_row(Client *client, int from, int to)
{
	MosqlTimestamp since = oracle_moment(TREE_PLAIN);
	const int	keys[] = {from, to};
	MosqlRow	stored[2] = {{0}};
	Row			rows[2];

	for (int i = 0; i < 2; i++)
		rows[i] = work_read_row(client, TREE_PLAIN, keys[i], &stored[i]);
	client->cid++;
	for (int i = 0; i < 2; i++)
		if (rows[i].live)
			take_away(client, keys[i], &stored[i], rows[i]);
	for (int i = 0; i < 2; i++)
		if (rows[i].live)
			put_at(client, keys[1 - i], (Row) {true, rows[i].n, oracle_token()});
	check_inserts(client, TREE_PLAIN, keys, 2, since, false);
	for (int i = 0; i < 2; i++)
		if (rows[0].live || rows[1].live)
			check_own(client, keys[i], rows[1 - i]);
	client->cid++;
}

void
insert_moved(Client *client)
{
	int			from = (int) sim_below(work_keys(TREE_PLAIN));
	int			to = (from + 1 + (int) sim_below(5)) % work_keys(TREE_PLAIN);

	if (from == to)
		return;
	move_row(client, from, to);
	if (sim_chance(300))
		move_row(client, to, from);
}

/* By one who locks all that it writes: nobody makes it fail then. */
void
insert_locked(Client *client)
{
	int			key = (int) sim_below(work_keys(TREE_PLAIN));
	MosqlRow	stored = {0};

	if (client->tx->nclaims < CLAIMS_MAX && !work_read_row(client, TREE_PLAIN, key, &stored).live)
		insert_row(client, TREE_PLAIN, key, MOSQL_KEY_MAY_EXIST);
}

/* ---- an INSERT that is the whole transaction ---- */

#define ALONE_MAX	4

typedef struct Alone
{
	Client	   *client;
	int			tree;
	int			n;
	int			keys[ALONE_MAX];
} Alone;

/* A MosqlSettleInserts, as look_up_left() of src/fdw/insert.c. */
static void
look_up_left(void *arg)
{
	const Alone *alone = arg;
	Client	   *client = alone->client;

	sim_trace("tx %d looks up what it has left", client->tx->number);
	if (alone->tree == TREE_TABLE)
		schema_wait(client);
	check_inserts(client, alone->tree, alone->keys, alone->n, oracle_moment(alone->tree), false);
}

/* Keys of which it knows nothing, near each other or not; most trees have some of them. */
static void
choose_keys(Alone *alone)
{
	int			max = work_keys(alone->tree);
	int			key = (int) sim_below(sim_chance(300) ? Min(max, ALONE_MAX) : max);
	int			step = 1 + (int) sim_below(sim_chance(500) ? 2 : max);

	for (int n = sim_chance(600) ? 1 : (int) sim_between(2, ALONE_MAX); n > 0 && key < max; n--, key += step)
		alone->keys[alone->n++] = key;
}

/* The first statement of a transaction.  Its keys are left to the commit, or, in a pipeline, to the next statement. */
void
insert_alone(Client *client)
{
	static const int trees[] = {TREE_MAIN, TREE_PLAIN, TREE_TABLE};
	Alone	   *alone = MemoryContextAllocZero(TopTransactionContext, sizeof(Alone));

	*alone = (Alone) {client, trees[sim_below(lengthof(trees))]};
	client->cid++;
	client->tx->alone = true;
	client->tx->locks_all &= alone->tree != TREE_TABLE; /* whose definition may change */
	client->tx->alone_since = oracle_moment(alone->tree);
	sim_trace("tx %d inserts alone", client->tx->number);
	(void) mosql_txn_begin_statement(client->session);
	if (alone->tree == TREE_TABLE)
		schema_wait(client);
	choose_keys(alone);
	for (int i = 0; i < alone->n; i++)
		note_row(client, alone->tree, alone->keys[i], buffer_row(client, alone->tree, alone->keys[i], MOSQL_KEY_MAY_EXIST));
	mosql_txn_settle_later(client->txn, look_up_left, alone);
	if (sim_chance(200))
		pg_usleep(sim_below(20000));
	if (sim_chance(100))
	{
		client->cid++;
		(void) mosql_txn_begin_statement(client->session);
		(void) work_read_row(client, alone->tree, alone->keys[0], &(MosqlRow) {0});
	}
}

/* Where a key was there all the time, it is told so, and not to try again. */
void
insert_ended(const SimTx *tx)
{
	if (!tx->alone || pgstub_error.sqlstate != ERRCODE_T_R_SERIALIZATION_FAILURE || sim_forgot_us != 0 ||
		strstr(pgstub_error.message, "due to concurrent") == NULL || strstr(pgstub_error.detail, "Another Redis process") != NULL)
		return;
	for (int i = 0; i < tx->nwrites; i++)
		if (tx->writes[i].tree != TREE_TABLE &&
			oracle_stayed(tx->writes[i].tree, tx->writes[i].key, tx->alone_since))
			sim_fail("tx %d inserts a duplicate, tree %d key %d, and fails: %s", tx->number, tx->writes[i].tree,
					 tx->writes[i].key, pgstub_error.message);
}
