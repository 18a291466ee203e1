/*
 * alone.c: statements that are one scan, and may do without a snapshot (src/txn/scan.c, rule 45).
 *
 * What they show must have been there together, at one moment since they began; and once more, if they
 * are asked to show it again.
 */
#include "work_int.h"

#include "txn/view_int.h"

uint64		alone_scans;

typedef struct Shown
{
	Row			rows[KEYS_MAX];
	bool		added[KEYS_MAX];	/* the transaction had added to it: what is shown is not compared */
} Shown;

/* Whatever a scan returns goes into `shown`; rows that were not asked for fail. */
static void
take_rows(Client *client, MosqlRowScan *scan, int tree, const Stretch *stretches, int n, Shown *shown)
{
	MosqlRow	stored;

	while (mosql_view_scan_next(scan, &stored))
	{
		int			key = work_key_number(tree, stored.key);
		bool		asked = false;

		for (int i = 0; i < n; i++)
			asked |= key >= stretches[i].low && key < stretches[i].high;
		if (!asked || shown->rows[key].live)
			sim_fail("tx %d scans tree %d: key %d was not asked for, or comes twice", client->tx->number, tree, key);
		shown->rows[key] = work_row(&stored);
		work_bind_write(client, tree, key, shown->rows[key]);
	}
}

/* Were all rows so at T? */
static bool
were_so(const Client *client, int tree, const Stretch *stretches, int n, const Shown *shown, MosqlTimestamp T)
{
	for (int i = 0; i < n; i++)
		for (int key = stretches[i].low; key < stretches[i].high; key++)
			if (!shown->added[key] && !row_equal(oracle_row(client->tx, tree, key, T), shown->rows[key]))
				return false;
	return true;
}

static void
judge(const Client *client, const MosqlView *view, int tree, const Stretch *stretches, int n, const Shown *shown,
	  MosqlTimestamp since)
{
	MosqlTimestamp T = since;

	if (view->statement->drawn)
	{
		if (!were_so(client, tree, stretches, n, shown, view->statement->S))
			sim_fail("tx %d scans tree %d from key %d: not as it was at " UINT64_FORMAT, client->tx->number, tree,
					 stretches[0].low, view->statement->S);
		return;
	}
	alone_scans++;
	while (!were_so(client, tree, stretches, n, shown, T))
		if ((T = oracle_next(tree, T)) == 0)
			sim_fail("tx %d scans tree %d from key %d: what it shows was never there together since " UINT64_FORMAT,
					 client->tx->number, tree, stretches[0].low, since);
}

/* Mostly of one leaf. */
static int
some_stretches(int nkeys, Stretch *stretches, int max)
{
	int			low = (int) sim_below(nkeys);

	if (sim_chance(300))
		return work_some_stretches(nkeys, stretches, max);
	stretches[0] = (Stretch) {low, Min(low + 1 + (int) sim_below(4), nkeys)};
	return 1;
}

static void
scan_once(Client *client, int tree)
{
	MosqlView  *view = work_view(client, false);
	MosqlTimestamp since = oracle_moment(tree);
	Shown	   *shown = palloc0(sizeof(Shown));
	Shown	   *again = palloc0(sizeof(Shown));
	MosqlKeyRange ranges[3];
	Stretch		stretches[3];
	int			n = some_stretches(work_keys(tree), stretches, 3);
	MosqlRowScan *scan;

	for (int i = 0; i < n; i++)
		ranges[i] = work_range(tree, stretches[i]);
	for (int key = 0; key < work_keys(tree); key++)
	{
		const Write *own = oracle_own(client->tx, tree, key);

		shown->added[key] = own != NULL && own->add;
	}
	scan = mosql_view_scan_begin_alone(view, work_tree(client, tree), ranges, n, sim_chance(400),
									   sim_chance(300) ? 1 + (int) sim_below(5) : 0);
	take_rows(client, scan, tree, stretches, n, shown);
	judge(client, view, tree, stretches, n, shown, since);
	if (sim_chance(200) && mosql_view_scan_again(scan))
	{
		take_rows(client, scan, tree, stretches, n, again);
		for (int key = 0; key < KEYS_MAX; key++)
			if (!row_equal(again->rows[key], shown->rows[key]))
				sim_fail("tx %d scans tree %d again, and finds something else", client->tx->number, tree);
	}
	mosql_view_scan_end(scan);
	mosql_view_close(view);
}

/* At READ COMMITTED.  The first one that reads a tree has a snapshot. */
void
alone_scan(Client *client, int tree)
{
	for (int n = 1 + (int) sim_below(3); n > 0; n--, client->cid++)
		scan_once(client, tree);
}
