/*
 * locks.c: transactions that lock rows: FOR UPDATE and kin, UPDATE and DELETE as
 * src/fdw/lock.c has them.
 *
 * What is locked is read as it is now, and stays so until the transaction ends (claims.c
 * watches that).  Beside it everything else goes on.
 */
#include "locks.h"
#include "work_int.h"

#include "code/claim.h"
#include "fault.h"
#include "pgstub.h"
#include "storage/proc.h"

#define BATCH_MAX	5

/* Rows that many want. */
#define HOT_KEYS	6

typedef struct Batch
{
	int			tree;
	int			n;
	int			numbers[BATCH_MAX];
	MosqlBytes	keys[BATCH_MAX];
	int			strength;
	LockWaitPolicy policy;
	bool		locked[BATCH_MAX];
	MosqlRow	rows[BATCH_MAX];
	int			before[BATCH_MAX];	/* how strongly it was locked then */
	bool		read[BATCH_MAX];	/* by the statement's scan, before: */
	MosqlRow	scanned[BATCH_MAX];
} Batch;

static void
choose_rows(Client *client, Batch *batch)
{
	static const int trees[] = {TREE_MAIN, TREE_PLAIN, TREE_PLAIN, TREE_CHILD};
	int			max;
	int			key;

	batch->tree = trees[sim_below(lengthof(trees))];
	max = work_keys(batch->tree);
	if (sim_chance(sim_runs ? 100 : 700))
		max = Min(max, HOT_KEYS);
	key = (int) sim_below(max);
	for (batch->n = 0; batch->n < BATCH_MAX && key < max && (batch->n == 0 || sim_chance(sim_runs ? 900 : 500));
		 key += 1 + (int) sim_below(sim_runs ? 1 : 3))
	{
		batch->numbers[batch->n] = key;
		batch->keys[batch->n++] = work_key(batch->tree, key);
	}
	batch->strength = (int) sim_between(client->tx->locks_all ? MOSQL_NO_KEY_UPDATE : MOSQL_KEY_SHARE, MOSQL_UPDATE);
	batch->policy = sim_chance(750) ? LockWaitBlock : sim_chance(600) ? LockWaitSkip : LockWaitError;
}

/* It is the client's until the transaction ends, or the savepoint is rolled back. */
void
locks_note(Client *client, int tree, int key, MosqlBytes bytes, int strength)
{
	SimTx	   *tx = client->tx;
	SimClaim   *claim = NULL;

	for (int c = 0; c < tx->nclaims; c++)
		if (tx->claims[c].tree == tree && tx->claims[c].key == key)
			claim = &tx->claims[c];
	if (claim == NULL)
	{
		claim = &tx->claims[tx->nclaims++];
		claim->tree = tree;
		claim->key = key;
		claim->strength = 0;
		claim->lost = false;
		memcpy(claim->bytes, bytes.data, bytes.len);
		claim->key_bytes = mosql_bytes(claim->bytes, bytes.len);
	}
	claim->strength = Max(claim->strength, strength);
}

/* Is what came with the lock what is there? */
static void
check_row(Client *client, const Batch *batch, int i, MosqlTimestamp since)
{
	Row			row = work_row(&batch->rows[i]);
	int			key = batch->numbers[i];

	if (batch->rows[i].own || oracle_own(client->tx, batch->tree, key) != NULL)
		return;
	if (batch->strength >= MOSQL_SHARE && claims_forgot_us < client->tx->began_us &&
		!claims_may_be_lost(client->tx) && !row_equal(row, oracle_stored(batch->tree, key, MOSQL_TS_MAX)))
		sim_fail("tx %d locks row %d/%d: n=" INT64_FORMAT " token=%u, and it is another one",
				 client->tx->number, batch->tree, key, row.n, row.token);
	if (!oracle_was(batch->tree, key, since, row))
		sim_fail("tx %d locks row %d/%d: n=" INT64_FORMAT " token=%u, which it was not since " UINT64_FORMAT,
				 client->tx->number, batch->tree, key, row.n, row.token, since);
}

/* As judge() of src/fdw/lock.c: true if the statement may use it. */
static bool
judge_row(Client *client, Batch *batch, int i, bool changes)
{
	const MosqlRow *now = &batch->rows[i];

	if (!batch->locked[i] || now->own)
		return false;
	if (batch->read[i] && client->tx->isolation >= MOSQL_REPEATABLE_READ &&
		(now->found || batch->scanned[i].found) && now->version != batch->scanned[i].version)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update")));
	if (now->found && !changes)
		work_lock_row(client, batch->tree, batch->numbers[i], now, work_row(now), batch->strength > MOSQL_KEY_SHARE);
	return now->found;
}

static void
change_row(Client *client, const Batch *batch, int i)
{
	Row			row = work_row(&batch->rows[i]);

	if (batch->strength == MOSQL_UPDATE && sim_chance(250) && !(client->tx->locks_all && batch->tree == TREE_MAIN))
		work_delete_row(client, batch->tree, batch->numbers[i], &batch->rows[i], row);
	else
		work_update_row(client, batch->tree, batch->numbers[i], &batch->rows[i], row);
}

static void
claim(Client *client, Batch *batch)
{
	LockTimeout = sim_chance(150) ? (int) sim_between(1, sim_chance(500) ? 30 : 3000) : 0;
	PG_TRY();
	{
		mosql_txn_claim(client->txn, work_tree(client, batch->tree), batch->keys, batch->n, batch->strength,
						batch->policy, batch->rows, batch->locked);
	}
	PG_CATCH();
	{
		LockTimeout = 0;
		PG_RE_THROW();
	}
	PG_END_TRY();
	LockTimeout = 0;
}

bool
locks_are_played(void)
{
	return !sim_dumps || sim_seed % 5 == 2 || sim_seed % 5 == 3;
}

/* As ON CONFLICT does, which has looked and wants no more of the row: it is locked as it was before. */
static void
let_go_again(Client *client, const Batch *batch)
{
	SimTx	   *tx = client->tx;
	int			i = (int) sim_below(batch->n);

	if (!batch->locked[i] || batch->before[i] >= batch->strength || oracle_own(tx, batch->tree, batch->numbers[i]) != NULL)
		return;
	for (int c = 0; c < tx->nclaims; c++)
		if (tx->claims[c].tree == batch->tree && tx->claims[c].key == batch->numbers[i])
		{
			tx->claims[c].strength = batch->before[i];
			tx->claims[c].lost |= batch->before[i] == 0;
		}
	sim_trace("tx %d lets go of row %d/%d, strength %d is left", tx->number, batch->tree, batch->numbers[i], batch->before[i]);
	mosql_txn_lower(client->txn, work_tree(client, batch->tree), batch->keys[i], batch->before[i]);
}

/* A statement that locks rows, and changes them, or some, or none. */
void
locks_statement(Client *client)
{
	SimTx	   *tx = client->tx;
	Batch	   *batch = palloc0(sizeof(Batch));
	MosqlTimestamp since;
	bool		changes;

	if (!locks_are_played())
		return;
	choose_rows(client, batch);
	if (tx->nclaims + batch->n > CLAIMS_MAX || tx->nlocks + batch->n > LOCKS_MAX)
		return;
	if (tx->isolation >= MOSQL_REPEATABLE_READ || sim_chance(300))
		for (int i = 0; i < batch->n; i++)
		{
			(void) work_read_row(client, batch->tree, batch->numbers[i], &batch->scanned[i]);
			batch->read[i] = true;
		}
	changes = batch->strength >= MOSQL_NO_KEY_UPDATE && sim_chance(700);
	since = oracle_moment(batch->tree);
	sim_trace("tx %d locks %d rows of tree %d from %d on, strength %d, policy %d", tx->number, batch->n,
			  batch->tree, batch->numbers[0], batch->strength, batch->policy);
	for (int i = 0; i < batch->n; i++)
		batch->before[i] = mosql_txn_strength(client->txn, work_tree(client, batch->tree), batch->keys[i]);
	claim(client, batch);
	for (int i = 0; i < batch->n; i++)
		if (batch->locked[i])
		{
			locks_note(client, batch->tree, batch->numbers[i], batch->keys[i], batch->strength);
			check_row(client, batch, i, since);
		}
	for (int i = 0; i < batch->n; i++)
	{
		bool		usable = judge_row(client, batch, i, changes);

		if (usable && changes)
			change_row(client, batch, i);
	}
	if (!tx->locks_all && sim_chance(100))
		let_go_again(client, batch);
	if (sim_chance(100))
		pg_usleep(sim_below(30000));
}

/* What was locked before the savepoint is locked still, and no more. */
void
locks_roll_back(SimTx *tx, const SimTx *before)
{
	tx->table_mode = before->table_mode;
	tx->nclaims = before->nclaims;
	for (int i = 0; i < tx->nclaims; i++)
		tx->claims[i].strength = before->claims[i].strength;
}

/* Nothing is let go before. */
void
locks_failed(SimTx *tx)
{
	if (tx != NULL && !tx->lets_go && pgstub_error.sqlstate == ERRCODE_T_R_DEADLOCK_DETECTED)
		claims_deadlock_reported(tx);
	if (tx != NULL && !tx->lets_go)
		tx->locks_all &= !claims_may_be_lost(tx);
	locks_let_go(tx);
}

void
locks_let_go(SimTx *tx)
{
	if (tx != NULL)
		tx->lets_go = true;
}

/* Who locks all that it writes, at READ COMMITTED, does not fail, unless something has happened to it. */
void
locks_ended(const SimTx *tx)
{
	if (tx->locks_all && pgstub_error.sqlstate == ERRCODE_T_R_SERIALIZATION_FAILURE &&
		strstr(pgstub_error.message, "due to concurrent") != NULL &&	/* not core.c, nor a definition */
		strstr(pgstub_error.detail, "Another Redis process") == NULL &&	/* the clock was moved, without copies */
		fault_disturbs_until_us < tx->began_us && claims_forgot_us < tx->began_us && sim_forgot_us == 0)
		sim_fail("tx %d locked what it wrote, and fails: %s", tx->number, pgstub_error.message);
}
