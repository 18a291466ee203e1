/*
 * schema.c: a table whose trees come and go.
 *
 * What src/table/open.c and alter.c do, without a server: TREE_TABLE has a definition in
 * the catalog, which clients cache by the schema version; TRUNCATE gives it a new tree,
 * and its sequence a new counter.  Whoever used another definition than the one that is
 * there when it decides must fail.
 */
#include "work_int.h"

#include "btree/btree.h"
#include "code/claim.h"
#include "pgstub.h"
#include "txn/txn_int.h"

#define CATALOG_KEY		mosql_bytes("Ttable", 6)
#define FIELDS			(sizeof(Definition) / sizeof(uint64))

#define CLOSED_TIMEOUT_MS	3000

/* ---- definitions as bytes ---- */

static MosqlBytes
definition_bytes(const Definition *definition)
{
	const uint64 *fields = (const uint64 *) definition;
	StringInfoData out;

	initStringInfo(&out);
	for (int i = 0; i < FIELDS; i++)
		mosql_column_put_int(&out, i + 1, (int64) fields[i], 8);
	return mosql_bytes_of(&out);
}

static Definition
definition_of(MosqlBytes columns)
{
	Definition	definition = {0};
	MosqlColumn column;

	while (mosql_column_next(&columns, &column) == 1)
		((uint64 *) &definition)[column.column - 1] = (uint64) mosql_read_int(column.value.data, 8);
	return definition;
}

static bool
is_same(const Definition *a, const Definition *b)
{
	return memcmp(a, b, sizeof(Definition)) == 0;
}

static MosqlTree *
catalog(MosqlSession *session)
{
	return mosql_session_tree(session, MOSQL_CATALOG_ROOT);
}

/* ---- LOCK TABLE, as src/table/lock.c has it ---- */

/* PostgreSQL's, with what is added in claims. */
#define ROW_EXCLUSIVE	(MOSQL_TABLE_MODE + 3)
#define SHARE			(MOSQL_TABLE_MODE + 5)
#define EXCLUSIVE		(MOSQL_TABLE_MODE + 7)

static bool
is_locked_out(MosqlSession *session, MosqlBytes field)
{
	return mosql_txn_is_locked_out(mosql_txn_current(session), field, ROW_EXCLUSIVE);
}

/* SHARE and ROW EXCLUSIVE together are the mode above SHARE. */
static int
joined_mode(int held, int wanted)
{
	return Max(held, wanted) == SHARE && Min(held, wanted) == ROW_EXCLUSIVE ? SHARE + 1 : Max(held, wanted);
}

static int
wanted_mode(Client *client, int mode)
{
	return joined_mode(mosql_txn_strength(client->txn, catalog(client->session), CATALOG_KEY), mode);
}

/* In a mode that keeps writers out; but who truncates it has that row to write. */
void
schema_lock(Client *client)
{
	SimTx	   *tx = client->tx;
	int			mode = (int) sim_between(SHARE, EXCLUSIVE);
	MosqlRow	row;

	if (!locks_are_played() || tx->defines || tx->locks_all)
		return;
	(void) schema_open(client);
	sim_trace("tx %d locks the table, mode %d", tx->number, mode - MOSQL_TABLE_MODE);
	if (!mosql_txn_rely_on_claim(client->txn, catalog(client->session), CATALOG_KEY, wanted_mode(client, mode),
								 sim_chance(700) ? LockWaitBlock : LockWaitSkip, &row))
		return;
	mosql_txn_raise_schema(client->txn);
	if (tx->table_mode == 0)
		tx->table_seen = oracle_table_changes;
	tx->table_mode = Max(tx->table_mode, mode);
}

/* As of a view of its own, like mosql_catalog_get(). */
bool
schema_read(MosqlSession *session, CommandId cid, Definition *definition, MosqlTimestamp *version)
{
	MosqlRow	row = {0};
	MosqlBytes	key = CATALOG_KEY;
	MosqlView  *view = mosql_view_open(mosql_txn_current(session), &row, cid, true);

	mosql_view_get(view, catalog(session), &key, 1, &row);
	mosql_view_close(view);
	if (row.found)
		*definition = definition_of(row.columns);
	*version = row.version;
	return row.found;
}

/* ---- what a transaction relies on ---- */

static void pg_attribute_noreturn()
report_changed(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to a concurrent change of a table's definition")));
}

/* Does all that a plan by `old` rests on still hold? */
static bool
still_holds(const Definition *old, const Definition *new)
{
	return old->root == new->root && (old->index == 0 || old->index == new->index);
}

static bool
may_go_on(MosqlSession *session, const Definition *old, const Definition *new)
{
	if (is_same(old, new))
		return true;
	return !mosql_txn_has_changed(session, old->root) && still_holds(old, new) &&
		old->counter == new->counter;
}

static void
note_use(Client *client)
{
	Known	   *known = &client->table;

	if (known->noted && is_same(&known->used, &known->now))
		return;
	if (known->noted && !known->changed && !may_go_on(client->session, &known->used, &known->now))
		report_changed();
	known->used = known->now;
	known->noted = true;
	known->changed = false;
}

bool		sim_locks_tables;
bool		sim_truncates;

/* Does somebody keep writers out now?  Asked only where tables are locked. */
static bool
is_locked(MosqlSession *session)
{
	MosqlBytes	key = CATALOG_KEY;
	MosqlPoint	point = {{0}};

	if (!sim_locks_tables)
		return false;
	mosql_btree_get(catalog(session), &key, 1, &point);
	return is_locked_out(session, point.intent);
}

/* The definition that the client goes by. */
const Definition *
schema_open(Client *client)
{
	Known	   *known = &client->table;

	(void) mosql_txn_begin_statement(client->session);
	if (!known->valid || known->schema != mosql_session_schema_read(client->session))
	{
		uint64		schema = mosql_session_schema_read(client->session);

		if (!schema_read(client->session, client->cid, &known->now, &known->version))
			sim_fail("the table has no definition");
		known->locked = is_locked(client->session); /* or an error: then all that is asked anew */
		known->schema = schema;
		known->valid = true;
	}
	note_use(client);
	return &known->now;
}

void
schema_begin(Client *client)
{
	client->table.noted = client->table.changed = false;
	if (client->table.wrote)
		client->table.valid = client->table.wrote = false;	/* it may have failed */
}

/*
 * To a savepoint, as src/table/used.c: what was written since is not, and what was relied on before that is compared
 * again.  What was only used since still is.
 */
void
schema_rolled_back(Client *client, const Known *before)
{
	Known	   *known = &client->table;

	known->valid = false;
	if (before->changed)
		known->used = before->used;
	else if (known->changed)
	{
		known->noted = known->relied;
		known->used = known->before;
		known->changed = false;
	}
}

/* Before it writes, as mosql_table_open_locked(): whoever keeps writers out is waited for. */
void
schema_wait_lock(Client *client)
{
	while (schema_open(client)->root != 0 && client->table.locked)
	{
		MosqlBytes	key = CATALOG_KEY;
		MosqlRow	row;
		bool		locked;

		if (mosql_txn_strength(client->txn, catalog(client->session), CATALOG_KEY) < ROW_EXCLUSIVE)
			mosql_txn_claim(client->txn, catalog(client->session), &key, 1, ROW_EXCLUSIVE, LockWaitBlock, &row, &locked);
		else if (is_locked(client->session))
			report_changed();	/* what it has was lost */
		client->table.locked = is_locked(client->session);
		mosql_session_refresh_schema(client->session);
	}
}

/* Before it writes: nobody may while a build is closing. */
void
schema_wait(Client *client)
{
	MosqlBudget budget = mosql_budget_start(CLOSED_TIMEOUT_MS);

	while (schema_open(client)->closing)
	{
		if (client->tx->isolation != MOSQL_READ_COMMITTED)
			report_changed();
		if (!mosql_budget_pause(&budget))
			ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE), errmsg("an index is being finished")));
		mosql_session_refresh_schema(client->session);
	}
	schema_wait_lock(client);
}

Row
schema_stored(const Client *client, int key, MosqlTimestamp S)
{
	bool		truncated;
	Row			row = oracle_table_row(client->table.now.root, key, S, &truncated);

	if (truncated)
		sim_fail("tx %d reads at " UINT64_FORMAT " what was truncated before", client->tx->number, S);
	return row;
}

/* ---- the hooks of txn ---- */

static Client *
client_of(MosqlSession *session)
{
	Work	   *work = sim_self->work;

	return work->client != NULL && work->client->session == session ? work->client : NULL;
}

static bool
has_intents(MosqlBytes field)
{
	MosqlClaim	claim;

	while (mosql_claim_next(&field, &claim))
		;
	return field.len > 0;
}

/* MosqlSchemaCheck, as definitions_unchanged(). */
static bool
is_unchanged(MosqlSession *session, MosqlBytes *locked, int *strength)
{
	Client	   *client = client_of(session);
	MosqlBudget budget = mosql_budget_start(mosql_txn_intent_timeout_ms);
	MosqlBytes	key = CATALOG_KEY;

	if (client == NULL || !client->table.noted || client->table.changed)
		return true;
	for (;;)
	{
		MosqlPoint	point = {{0}};
		MosqlVersion newest;
		Definition	now;

		mosql_btree_get(catalog(session), &key, 1, &point);
		if (point.row.data == NULL || !mosql_row_newest(point.row, &newest) || !newest.live)
			return false;
		now = definition_of(newest.columns);
		if (!may_go_on(session, &client->table.used, &now))
			return false;
		if (point.intent.data == NULL)
			return true;
		if (mosql_claims_begin(point.intent) && is_locked_out(session, point.intent) &&
			mosql_txn_has_put(session, client->table.used.root))
		{
			*locked = key;
			*strength = joined_mode(mosql_txn_strength(mosql_txn_current(session), catalog(session), key),
									ROW_EXCLUSIVE);
			return true;
		}
		if (!has_intents(point.intent))
			return true;
		if (!mosql_budget_pause(&budget))
			return false;
	}
}

/* MosqlSchemaMoved. */
static bool
schema_moved(MosqlSession *session, MosqlView *view)
{
	Client	   *client = client_of(session);
	MosqlBytes	key = CATALOG_KEY;
	MosqlRow	row = {0};
	Definition	then;

	if (client == NULL || !client->table.noted || client->table.changed)
		return false;
	mosql_view_get(view, catalog(session), &key, 1, &row);
	if (!row.found)
		report_changed();
	then = definition_of(row.columns);
	if (!still_holds(&client->table.used, &then))
		report_changed();
	return false;
}

/* MosqlSchemaChanged: now and then somebody dies before the label is there. */
static void
label_trees(MosqlSession *session)
{
	static const char name = MOSQL_FIELD_LABEL;
	Client	   *client = client_of(session);
	MosqlBytes	field = mosql_bytes(&name, 1);
	MosqlCompare compare;
	MosqlWrite	write = {MOSQL_WRITE_SET, field, CATALOG_KEY};
	MosqlStep	step = {.no_count = true, .compares = &compare, .nwrites = 1, .writes = &write};
	MosqlStep  *steps = &step;

	if (client == NULL || !client->table.noted || sim_chance(500))
		return;
	step.node = client->table.used.root;
	mosql_step_expect(&step, MOSQL_COMPARE_EQUAL, mosql_bytes("m", 1), 0, mosql_bytes("", 0));
	mosql_step_run(mosql_session_stepper(session), &steps, 1, NULL);
}

void
schema_start(void)
{
	mosql_txn_schema_check = is_unchanged;
	mosql_txn_schema_moved = schema_moved;
	mosql_txn_schema_changed = label_trees;
}

/* ---- changes of it ---- */

void
schema_write(Client *client, Definition definition)
{
	Known	   *known = &client->table;
	Definition	before;
	MosqlTimestamp version;

	client->cid++;
	if (!schema_read(client->session, client->cid, &before, &version))
		sim_fail("the table has no definition");
	if (known->noted && !known->changed && !is_same(&before, &known->used))
		report_changed();
	(void) mosql_txn_update(client->txn, catalog(client->session), CATALOG_KEY, version,
							definition_bytes(&definition), client->cid++);
	mosql_txn_changes_schema(client->txn);
	if (!known->changed)
	{
		known->relied = known->noted;
		known->before = known->used;
	}
	known->used = definition;
	known->noted = known->changed = true;
	known->valid = false;
	known->wrote = true;
	client->tx->defines = true;
	client->tx->definition_root = definition.root;
}

static void
drop_tree(Client *client, uint64 root)
{
	if (root != 0)
		mosql_txn_drops_tree(client->txn, root);
}

static bool
has_touched(const SimTx *tx)
{
	for (int i = 0; i < tx->nwrites; i++)
		if (tx->writes[i].tree == TREE_TABLE)
			return true;
	for (int i = 0; i < tx->nlocks; i++)
		if (tx->locks[i].tree == TREE_TABLE)
			return true;
	return false;
}

/* Whoever has written there does not: the oracle keeps it simple. */
void
schema_truncate(Client *client)
{
	Definition	definition;

	if (client->tx->truncates || has_touched(client->tx))
		return;
	definition = *schema_open(client);
	drop_tree(client, definition.root);
	drop_tree(client, definition.building);
	drop_tree(client, definition.log);
	definition.root = mosql_table_create_tree(client->session, true);
	definition.building = definition.log = definition.builder = definition.closing = 0;
	if (definition.index != 0)
	{
		drop_tree(client, definition.index);
		definition.index = mosql_table_create_tree(client->session, true);
	}
	if (sim_chance(500))
		definition.counter = sequence_counter(client->session, definition.counter);
	schema_write(client, definition);
	client->tx->truncates = true;
	sim_trace("tx %d truncates the table: %016lx", client->tx->number, (unsigned long) definition.root);
}

/* The index's entries, or what is logged of them, follow a row. */
void
schema_change(Client *client, int key, Row old, Row new)
{
	const Definition *definition = schema_open(client);
	MosqlTxn   *txn = client->txn;
	MosqlTree  *index;

	if (definition->log != 0)
	{
		MosqlBuildLog build = {.root = definition->log, .closing = definition->closing,
		.tree = mosql_session_tree(client->session, definition->log)};
		MosqlTable	table = {.session = client->session, .nbuilds = 1, .builds = &build,
		.closing = definition->closing};

		mosql_build_log_change(&table, txn, old.live ? (TupleTableSlot *) &old : NULL,
							   work_key(TREE_TABLE, key),
							   new.live ? (TupleTableSlot *) &new : NULL,
							   work_key(TREE_TABLE, key), client->cid);
	}
	if (definition->index == 0)
		return;
	index = mosql_session_tree(client->session, definition->index);
	work_replace_entry(client, index, key, old, new);
}

/* ---- the database ---- */

void
schema_found(MosqlSession *session)
{
	Definition	definition = {.root = mosql_table_create_tree(session, true)};
	SimTx	   *tx = oracle_begin(session, MOSQL_READ_COMMITTED);

	definition.counter = sequence_counter(session, 0);
	(void) mosql_txn_insert(mosql_txn_current(session), catalog(session), CATALOG_KEY,
							definition_bytes(&definition), 1, MOSQL_KEY_NEW);
	mosql_txn_changes_schema(mosql_txn_current(session));
	oracle_table_made(definition.root);
	oracle_committing(tx);
}

int
schema_roots(MosqlSession *session, uint64 *roots)
{
	Definition	definition;
	MosqlTimestamp version;
	int			n = 0;

	if (!schema_read(session, 1000, &definition, &version))
		sim_fail("the table has no definition");
	for (const uint64 *field = &definition.root; field <= &definition.log; field++)
		if (*field != 0)
			roots[n++] = *field;
	return n;
}
