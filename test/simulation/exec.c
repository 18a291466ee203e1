/*
 * exec.c: what the executor asks for beyond rows: rows that are read ahead, numbers of versions, what is locked.
 */
#include "locks.h"
#include "work_int.h"

#include "code/claim.h"

#define KEYS_AHEAD	8

static int
some_tree(void)
{
	static const int trees[] = {TREE_MAIN, TREE_PLAIN, TREE_CHILD};

	return trees[sim_below(lengthof(trees))];
}

/* ---- read ahead: nothing is another one for it (src/txn/ahead.c) ---- */

static void
read_keys_ahead(Client *client, MosqlView *view, int tree)
{
	MosqlTimestamp S = mosql_view_snapshot(view);
	MosqlBytes	keys[KEYS_AHEAD];
	MosqlRow	rows[KEYS_AHEAD] = {{0}};
	int			numbers[KEYS_AHEAD];
	int			n = (int) sim_between(1, KEYS_AHEAD);

	for (int i = 0; i < n; i++)
	{
		numbers[i] = (int) sim_below(work_keys(tree));
		keys[i] = work_key(tree, numbers[i]);
	}
	mosql_view_ahead_keys(view, work_tree(client, tree), keys, n);
	mosql_view_get_each(view, work_tree(client, tree), keys, n, rows);
	for (int i = 0; i < n; i++)
	{
		work_compare(client, tree, numbers[i], S, work_row(&rows[i]));
		work_bind_write(client, tree, numbers[i], work_row(&rows[i]));
		work_note_read(client, tree, numbers[i], numbers[i] + 1, S);
	}
}

/* What is known of a range so: as it is stored, without what the transaction has written. */
static void
walk_ahead(Client *client, MosqlView *view, int tree, Stretch stretch, MosqlKeyRange range)
{
	MosqlTimestamp S = mosql_view_snapshot(view);
	int			at = stretch.low;
	MosqlRow	row;

	while (mosql_view_ahead_next(view, work_tree(client, tree), &range, &row))
	{
		int			key = work_key_number(tree, row.key);

		if (key < at || key >= stretch.high)
			sim_fail("tx %d reads ahead in tree %d: key %d is out of order", client->tx->number, tree, key);
		for (; at <= key; at++)
			if (!row_equal(at < key ? (Row) {false} : work_row(&row), oracle_stored(tree, at, S)))
				sim_fail("tx %d reads ahead in tree %d at " UINT64_FORMAT ", and key %d is another one",
						 client->tx->number, tree, S, at);
	}
}

static void
read_ranges_ahead(Client *client, MosqlView *view, int tree)
{
	Stretch		stretches[3];
	MosqlKeyRange ranges[3];
	int			n = work_some_stretches(work_keys(tree), stretches, 3);

	for (int i = 0; i < n; i++)
		ranges[i] = work_range(tree, stretches[i]);
	mosql_view_ahead_ranges(view, work_tree(client, tree), ranges, n);
	for (int i = 0; i < n; i++)
		walk_ahead(client, view, tree, stretches[i], ranges[i]);
	work_scan_stretches(client, view, tree, stretches, n);
}

void
exec_ahead(Client *client)
{
	int			tree = some_tree();
	MosqlView  *view = work_view(client, false);
	int			batches = (int) sim_between(1, 3);

	mosql_view_reuse(view, sim_chance(700));
	while (batches-- > 0)
	{
		mosql_view_ahead_start(view, CurrentMemoryContext);
		if (sim_chance(500))
			read_keys_ahead(client, view, tree);
		else
			read_ranges_ahead(client, view, tree);
		(void) mosql_view_ahead_has_room(view);
	}
	mosql_view_close(view);
}

/* ---- tokens of versions: what is the same row has the same one ---- */

void
exec_tokens(Client *client)
{
	int			tree = some_tree();
	int			key = (int) sim_below(work_keys(tree));
	MosqlBytes	bytes = work_key(tree, key);
	MosqlRow	rows[2] = {{0}};
	uint32		tokens[2];

	for (int i = 0; i < 2; i++)
	{
		MosqlView  *view = work_view(client, false);
		MosqlTimestamp S = mosql_view_snapshot(view);

		mosql_view_get(view, work_tree(client, tree), &bytes, 1, &rows[i]);
		work_bind_write(client, tree, key, work_row(&rows[i]));
		if (rows[i].found)
			tokens[i] = mosql_view_token(view, work_tree(client, tree), &rows[i]);
		work_compare(client, tree, key, S, work_row(&rows[i]));
		work_note_read(client, tree, key, key + 1, S);
		mosql_view_close(view);
		if (!rows[i].found)
			return;
	}
	if (row_equal(work_row(&rows[0]), work_row(&rows[1])) && rows[0].version == rows[1].version && tokens[0] != tokens[1])
		sim_fail("tx %d: row %d/%d is %u, and %u", client->tx->number, tree, key, tokens[0], tokens[1]);
}

/* ---- what is locked ---- */

/* Each row that the client believes to have locked is among those that messages would name. */
static void
check_named(Client *client)
{
	const SimTx *tx = client->tx;
	MosqlLockedRow *rows;
	int			n = mosql_txn_locked_rows(client->session, 1, &rows);

	for (int c = 0; c < tx->nclaims; c++)
	{
		const SimClaim *claim = &tx->claims[c];
		bool		named = claim->strength == 0 || claim->lost;

		for (int i = 0; i < n && !named; i++)
			named = rows[i].root == work_roots[claim->tree] && mosql_bytes_equal(rows[i].key, claim->key_bytes);
		if (!named)
			sim_fail("tx %d does not know that it has locked %d/%d", tx->number, claim->tree, claim->key);
	}
}

/* What need not be locked again is as it is stored. */
void
exec_locked(Client *client)
{
	const SimTx *tx = client->tx;

	check_named(client);
	for (int c = 0; c < tx->nclaims; c++)
	{
		const SimClaim *claim = &tx->claims[c];
		MosqlRow	row = {0};

		if (claim->strength < MOSQL_SHARE || claim->lost || claims_may_be_lost(tx) || claims_forgot_us >= tx->began_us ||
			!mosql_txn_locked_row(client->txn, work_tree(client, claim->tree), claim->key_bytes, claim->strength, &row))
			continue;
		if (!row_equal(work_row(&row), oracle_stored(claim->tree, claim->key, MOSQL_TS_MAX)))
			sim_fail("tx %d has locked %d/%d, and it is another one", tx->number, claim->tree, claim->key);
		if (!mosql_txn_has_claimed(client->txn, work_tree(client, claim->tree), claim->key_bytes, row.version, claim->strength))
			sim_fail("tx %d would lock %d/%d again", tx->number, claim->tree, claim->key);
	}
}
