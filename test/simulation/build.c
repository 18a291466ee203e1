/*
 * build.c: an index of TREE_TABLE, built while others write.
 *
 * The steps of src/table/build.c, which says why nothing is lost, with the real log
 * (build_log.c): publish, scan, load, catch up, close, finish.  Whoever dies at it leaves
 * the build in the definition, until maintenance or the next builder takes it out.
 */
#include "work_int.h"

#include "access/xact.h"
#include "pgstub.h"
#include "txn/txn_int.h"

#define CHUNK		8			/* entries in a transaction */
#define FEW			4
#define ROUNDS_MAX	6

typedef struct Change
{
	MosqlTimestamp version;
	uint32		command;
	bool		comes;
	MosqlBytes	key;
} Change;

typedef struct Build
{
	Client	   *client;
	Definition	ours;			/* as published */
	MosqlTimestamp base;		/* the tree is the index as of this snapshot */
	uint64		load_breaks;	/* of mosql_load_end() */
	int			n;
	int			max;
	Change	   *changes;
} Build;

/* ---- transactions, one after the other ---- */

/* Commit what there is. */
static void
chain(Client *client)
{
	SimTx	   *tx = client->tx;

	oracle_committing(tx);
	client->txn = mosql_txn_chain(client->session);
	oracle_ended(tx, true, false);
	client->tx = client->work->tx = oracle_begin(client->session, MOSQL_READ_COMMITTED);
	client->cid = 0;
	schema_begin(client);
}

static void pg_attribute_noreturn()
report_taken_away(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("the build was taken out of the definition")));
}

/* The definition as it is, which has our build. */
static Definition
own_definition(Build *build)
{
	Definition	now = *schema_open(build->client);

	if (now.log != build->ours.log)
		report_taken_away();
	return now;
}

/* Go on, under the id that the definition names. */
static void
next_transaction(Build *build)
{
	Client	   *client = build->client;

	chain(client);
	while (mosql_session_id(client->session) != build->ours.builder)
	{
		Definition	definition = own_definition(build);

		build->ours.builder = definition.builder = mosql_session_id(client->session);
		schema_write(client, definition);
		chain(client);
	}
}

/* ---- changes, in their order ---- */

static void
add_change(Build *build, MosqlTimestamp version, uint32 command, bool comes, MosqlBytes key)
{
	if (build->n == build->max)
	{
		build->max = Max(64, 2 * build->max);
		build->changes = build->changes == NULL ? palloc(build->max * sizeof(Change)) :
			repalloc(build->changes, build->max * sizeof(Change));
	}
	build->changes[build->n++] = (Change) {version, command, comes,
		mosql_bytes_copy(CurrentMemoryContext, key)};
}

static int
compare_changes(const void *a, const void *b)
{
	const Change *x = a;
	const Change *y = b;

	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	if (x->command != y->command)
		return x->command < y->command ? -1 : 1;
	if (x->comes != y->comes)
		return x->comes ? 1 : -1;
	return mosql_bytes_compare(x->key, y->key);
}

/* Do to the tree what they say. */
static void
apply_changes(Build *build)
{
	Client	   *client = build->client;

	qsort(build->changes, build->n, sizeof(Change), compare_changes);
	for (int i = 0; i < build->n; i++)
	{
		const Change *change = &build->changes[i];
		MosqlTree  *tree;

		if (i % CHUNK == 0)
			next_transaction(build);
		tree = mosql_session_tree(client->session, build->ours.building);
		client->cid++;
		if (!change->comes)
			(void) mosql_txn_delete(client->txn, tree, change->key, MOSQL_VERSION_ANY, client->cid);
		else if (mosql_txn_insert(client->txn, tree, change->key, mosql_bytes("", 0), client->cid,
								  MOSQL_KEY_NEW) != MOSQL_WRITTEN)
			sim_fail("an entry comes twice into an index that is being built");
	}
	next_transaction(build);
	build->n = 0;
}

static void
scan_table(Build *build)
{
	Client	   *client = build->client;
	MosqlTree  *tree = mosql_session_tree(client->session, own_definition(build).root);
	MosqlView  *view = work_view(client, false);
	MosqlRowScan *scan = mosql_view_scan_begin(view, tree, mosql_bytes("", 0), MOSQL_ABSENT, false, 0);
	MosqlRow	stored;

	build->base = mosql_view_snapshot(view);
	while (mosql_view_scan_next(scan, &stored))
	{
		int			key = work_key_number(TREE_TABLE, stored.key);
		Row			row = work_row(&stored);

		work_compare(client, TREE_TABLE, key, build->base, row);
		add_change(build, 0, 0, true, work_entry(row.token, key));
	}
	mosql_view_scan_end(scan);
	mosql_view_close(view);
}

/* The entries, in their order, into the tree that nobody else knows. */
static void
load_entries(Build *build)
{
	MosqlLoad  *load;

	next_transaction(build);
	qsort(build->changes, build->n, sizeof(Change), compare_changes);
	load = mosql_load_begin(build->client->session, build->ours.building, build->base,
							MOSQL_COMPRESSION_LZ4, true);
	for (int i = 0; i < build->n; i++)
	{
		if (i % CHUNK == CHUNK - 1)
			next_transaction(build);
		mosql_load_add(load, build->changes[i].key, mosql_bytes("", 0));
	}
	build->load_breaks = mosql_load_end(load);
	next_transaction(build);
	build->n = 0;
}

/* What was logged since the last time; how much. */
static int
read_log(Build *build)
{
	Client	   *client = build->client;
	MosqlView  *view = work_view(client, false);
	MosqlTimestamp snapshot = mosql_view_snapshot(view);
	MosqlRowScan *scan = mosql_view_scan_begin(view, mosql_session_tree(client->session, build->ours.log),
											   mosql_bytes("", 0), MOSQL_ABSENT, false, 0);
	MosqlRow	row;
	int			n = 0;

	while (mosql_view_scan_next(scan, &row))
	{
		MosqlLoggedChange change;

		if (row.version <= build->base)
			continue;
		change = mosql_build_log_decode(row.columns);
		if (change.old_key.data != NULL)
			add_change(build, row.version, change.command, false, change.old_key);
		if (change.new_key.data != NULL)
			add_change(build, row.version, change.command, true, change.new_key);
		n++;
	}
	mosql_view_scan_end(scan);
	mosql_view_close(view);
	build->base = snapshot;
	return n;
}

static int
catch_up(Build *build)
{
	int			n = read_log(build);

	apply_changes(build);
	return n;
}

/* ---- the command ---- */

static bool
is_dead(MosqlSession *session, uint64 sid)
{
	MosqlOrphanCounts counts = {0};
	MosqlSessions sessions;

	mosql_orphans_forget(session, &counts);
	mosql_clock_sessions(mosql_session_stepper(session), &sessions);
	return mosql_clock_is_dead(&sessions, sid);
}

static void
take_away(Client *client, Definition definition)
{
	mosql_txn_drops_tree(client->txn, definition.building);
	mosql_txn_drops_tree(client->txn, definition.log);
	definition.building = definition.log = definition.builder = definition.closing = 0;
	schema_write(client, definition);
}

/* True: there is something to build. */
static bool
publish(Build *build)
{
	Client	   *client = build->client;
	Definition	definition;

	chain(client);
	definition = *schema_open(client);
	if (definition.log != 0)
	{
		if (is_dead(client->session, definition.builder))
			take_away(client, definition);
		return false;
	}
	if (definition.index != 0)
	{
		mosql_txn_drops_tree(client->txn, definition.index);
		definition.index = 0;
		schema_write(client, definition);
		return false;
	}
	definition.building = mosql_table_create_tree(client->session, true);
	definition.log = mosql_table_create_tree(client->session, false);
	definition.builder = mosql_session_id(client->session);
	build->ours = definition;
	schema_write(client, definition);
	next_transaction(build);
	return true;
}

static void
close_log(Build *build)
{
	Definition	definition = own_definition(build);

	definition.closing = 1;
	schema_write(build->client, definition);
	next_transaction(build);
	(void) catch_up(build);
}

static void
finish(Build *build)
{
	Definition	definition = own_definition(build);

	mosql_txn_rests_on_load(build->client->txn, build->load_breaks);
	mosql_txn_drops_tree(build->client->txn, definition.log);
	definition.index = definition.building;
	definition.building = definition.log = definition.builder = definition.closing = 0;
	schema_write(build->client, definition);
	sim_trace("the index %016lx is there", (unsigned long) definition.index);
}

static void
run_build(Build *build)
{
	mosql_session_keep_id(build->client->session);
	if (!publish(build))
		return;
	scan_table(build);
	load_entries(build);
	for (int round = 0; round < ROUNDS_MAX && catch_up(build) > FEW; round++)
		;
	close_log(build);
	finish(build);
}

/* ---- and where it fails ---- */

typedef void (*Part) (Build *build);

static bool
run_part(SimFrontEnd *self, Build *build, Part part)
{
	Client	   *client = build->client;
	volatile bool ok = true;

	work_begin(client, MOSQL_READ_COMMITTED);
	PG_TRY();
	{
		client->txn = mosql_txn_current(client->session);
		part(build);
	}
	PG_CATCH();
	{
		/* a link of the chain was to commit: perhaps it did, and the next one failed */
		if (client->tx->state != TX_OPEN)
		{
			oracle_left(client->tx);
			client->tx = client->work->tx = oracle_begin(client->session, MOSQL_READ_COMMITTED);
		}
		pgstub_error_take();
		ok = false;
	}
	PG_END_TRY();
	return work_end(self, client, ok);
}

static void
take_own_away(Build *build)
{
	Definition	definition = *schema_open(build->client);

	if (definition.log == build->ours.log)
		take_away(build->client, definition);
}

/* One, or the drop of one; whoever fails takes it away, or leaves it to others. */
void
build_index(SimFrontEnd *self, Client *client)
{
	Build		build = {.client = client};

	if (run_part(self, &build, run_build) || build.ours.log == 0)
		return;
	build.n = build.max = 0;
	build.changes = NULL;
	for (int i = 0; i < 3; i++)
		if (run_part(self, &build, take_own_away))
			return;
	mosql_session_leave_id(client->session);
}

static void
take_dead_away(Build *build)
{
	Client	   *client = build->client;
	Definition	definition = *schema_open(client);

	if (definition.log != 0 && is_dead(client->session, definition.builder))
		take_away(client, definition);
}

/* Of maintenance. */
void
build_drop_dead(SimFrontEnd *self, MosqlSession *session)
{
	Work	   *work = self->work;
	Client		client = {.work = work, .session = session};
	Build		build = {.client = &client};

	work->client = &client;
	(void) run_part(self, &build, take_dead_away);
	work->client = NULL;
}
