/*
 * far.c: a second namespace, used in the same transactions.
 *
 * What src/txn/together.c promises (docs/commit.md, "Several namespaces"): each namespace is
 * whole; nobody is told that it is committed before all are, nor that it failed when one is;
 * and an error that says "in part" says of each what is so.
 */
#include "work_int.h"

#include "access/xact.h"
#include "pgstub.h"

uint64		far_root;

bool
far_is(const MosqlSession *session)
{
	return strcmp(session->config.ns, FAR_NAMESPACE) == 0;
}

/* A statement in that namespace.  An error leaves the client there: far_leave(). */
void
far_statement(Client *client, void (*statement) (Client *client))
{
	SimTx	   *tx = client->tx;

	if (client->far == NULL)
		client->far = work_session(FAR_NAMESPACE);
	client->near_txn = client->txn;
	if (tx->with == NULL)
	{
		tx->with = oracle_begin(client->far, tx->isolation);
		tx->with->near = tx;
	}
	client->tx = tx->with;
	client->is_far = true;
	client->session = client->far;
	client->txn = mosql_txn_current(client->far);
	if (client->tx->nwrites < WRITES_MAX)
		statement(client);
	far_leave(client);
}

void
far_leave(Client *client)
{
	if (!client->is_far)
		return;
	client->is_far = false;
	client->tx = client->work->tx;
	client->session = client->work->session;
	client->txn = client->near_txn;
}

/* What a savepoint's end takes back. */
void
far_keep(const SimTx *tx, SimTx *kept)
{
	if (tx->with != NULL)
		*kept = *tx->with;
	else
		kept->nwrites = kept->nlocks = 0;
}

void
far_roll_back(SimTx *tx, const SimTx *kept)
{
	if (tx->with == NULL)
		return;
	tx->with->nwrites = kept->nwrites;
	memcpy(tx->with->writes, kept->writes, sizeof(kept->writes));
	tx->with->nlocks = kept->nlocks;
}

/* Does the error say this of a namespace? */
static bool
says(const char *what, const MosqlSession *session)
{
	return strstr(pgstub_error.detail, psprintf("%s in namespace \"%s\"", what, session->config.ns)) != NULL;
}

/*
 * The client was told that nobody knows, or that it is committed in part: what of this half?
 * 'C' committed, 'A' not, '?' it has to ask, with a number; 0: nothing, it cannot ask either.
 */
char
far_told(const SimTx *tx)
{
	const char *ns = tx->session->config.ns;

	if (sim_self->local_failed || says("It is committed", tx->session))
		return 'C';
	if (says("not committed", tx->session) || says("and not", tx->session))
		return 'A';
	if (strstr(pgstub_error.message, psprintf("in namespace \"%s\" is not known", ns)) != NULL ||
		strstr(pgstub_error.detail, psprintf("in namespace \"%s\" is not known", ns)) != NULL)
		return '?';
	return 0;
}

/* ---- maintenance, and the end ---- */

void
far_read_all(SimFrontEnd *self, MosqlSession *session)
{
	MosqlView  *view;
	MosqlTimestamp S;
	MosqlTxn   *txn;

	sim_begin(XACT_REPEATABLE_READ);
	MemoryContextSwitchTo(TopTransactionContext);
	txn = mosql_txn_current(session);
	view = mosql_view_open(txn, &far_root, 1, false);
	S = mosql_view_snapshot(view);
	for (int key = 0; key < work_keys(TREE_FAR); key++)
	{
		MosqlBytes	bytes = work_key(TREE_FAR, key);
		MosqlRow	stored = {0};

		mosql_view_get(view, mosql_session_tree(session, far_root), &bytes, 1, &stored);
		if (!row_equal(work_row(&stored), oracle_stored(TREE_FAR, key, S)))
			sim_fail("row %d of the far namespace is not as it was committed", key);
	}
	mosql_view_close(view);
	(void) sim_transaction(self, true);
}
