/*
 * locks.c: the view mosql_fdw_locks: who has locked rows that somebody waits for.
 *
 * Layer: admin.  Locks stand in their rows and nowhere else: a list of all of them would be
 * a read of all tables.  But who waits tells the clock which row it waits for (clock_wait.h).
 * So these rows are read, and those that this backend has locked itself; what is shown is
 * what stands in them, holders and waiters, of all front-ends.  A wait that is told and not
 * there is over.  It takes one round trip where nobody waits, and some more for names else.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "foreign/foreign.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "admin/maintain.h"
#include "base/interrupt.h"
#include "code/claim.h"
#include "step/clock_wait.h"

PG_FUNCTION_INFO_V1(mosql_fdw_locks);

#define COLUMNS		13
#define WHO			8			/* server, pid, database and application_name begin here */

/* Rows that are read in one round trip. */
#define BATCH		1000

typedef struct Report
{
	ReturnSetInfo *out;
	const char *server;
	Oid			serverid;
	MosqlSession *session;
	int			nsessions;
	MosqlSessionState *sessions;	/* by id, ascending */
	int			ndefinitions;
	MosqlDefinition *definitions;
	bool		at_once;		/* tables that somebody has locked are not looked at */
} Report;

/* A tree, for people. */
typedef struct TreeName
{
	uint64		root;
	const char *table;			/* as Redis knows it; NULL: it does not */
	const char *index;			/* NULL: it is the table's own */
	const MosqlTable *entries;	/* how its keys are read here; NULL: no table here shows it */
} TreeName;

/* ---- names ---- */

static void
find_in_definitions(const Report *report, TreeName *tree, const MosqlDefinition **found)
{
	for (int i = 0; i < report->ndefinitions; i++)
	{
		const MosqlDefinition *definition = &report->definitions[i];
		bool		here = definition->root == tree->root;

		for (int j = 0; j < definition->nindexes; j++)
			if (definition->indexes[j].root == tree->root)
			{
				tree->index = definition->indexes[j].name;
				here = true;
			}
		if (!here)
			continue;
		tree->table = quote_qualified_identifier(definition->schema, definition->name);
		*found = definition;
		return;
	}
}

/* The foreign table here that shows it, InvalidOid: none.  It is locked, and no other is: somebody may be altering those. */
static Oid
find_local(const Report *report, const MosqlDefinition *definition)
{
	ListCell   *lc;

	foreach(lc, mosql_admin_server_tables(report->serverid))
	{
		Relation	rel;
		const char *schema;
		const char *name;
		bool		same;

		if (!mosql_admin_seems_named(lfirst_oid(lc), definition->schema, definition->name) ||
			(report->at_once && !ConditionalLockRelationOid(lfirst_oid(lc), AccessShareLock)))
			continue;
		rel = try_relation_open(lfirst_oid(lc), AccessShareLock);
		if (rel == NULL)
			continue;
		mosql_table_remote_name(rel, &schema, &name);
		same = strcmp(schema, definition->schema) == 0 && strcmp(name, definition->name) == 0;
		relation_close(rel, NoLock);
		if (same)
			return lfirst_oid(lc);
	}
	return InvalidOid;
}

/* Throws where the definitions here and in Redis differ. */
static const MosqlTable *
open_tree(const Report *report, Oid relid, uint64 root)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	const MosqlTable *table = mosql_table_open(rel, report->session);
	const MosqlTable *found = table->root == root ? table : NULL;

	for (int i = 0; i < table->nindexes; i++)
		if (table->indexes[i].entries->root == root && table->indexes[i].broken == NULL)
			found = table->indexes[i].entries;
	relation_close(rel, NoLock);
	return found;
}

/* The same in a subtransaction; NULL then. */
static const MosqlTable *
try_open_tree(const Report *report, Oid relid, uint64 root)
{
	MemoryContext outer = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	const MosqlTable *volatile table = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(outer);
	PG_TRY();
	{
		table = open_tree(report, relid, root);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		int			code = geterrcode();

		MemoryContextSwitchTo(outer);
		if (code != ERRCODE_INVALID_TABLE_DEFINITION && code != ERRCODE_UNDEFINED_TABLE)
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(outer);
	CurrentResourceOwner = owner;
	return table;
}

static TreeName
name_tree(Report *report, uint64 root)
{
	TreeName	tree = {.root = root};
	const MosqlDefinition *definition = NULL;
	Oid			relid = InvalidOid;

	if (report->definitions == NULL)
		report->ndefinitions = mosql_table_definitions(report->session, NULL, &report->definitions);
	find_in_definitions(report, &tree, &definition);
	if (definition != NULL)
		relid = find_local(report, definition);
	if (OidIsValid(relid))
		tree.entries = report->at_once ? open_tree(report, relid, root)
			: try_open_tree(report, relid, root);
	return tree;
}

/* ---- one claim ---- */

static const MosqlSessionState *
find_session(const Report *report, uint64 sid)
{
	for (int i = 0; i < report->nsessions; i++)
		if (report->sessions[i].sid == sid)
			return &report->sessions[i];
	return NULL;
}

static const char *
mode_of(const TreeName *tree, MosqlStrength strength)
{
	static const char *const modes[] = {
		"ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE",
		"SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"
	};

	if (strength > MOSQL_TABLE_MODE && strength <= MOSQL_TABLE_MODE + (int) lengthof(modes))
		return modes[strength - MOSQL_TABLE_MODE - 1];
	if (tree->root == mosql_table_catalog_root())
		return strength == MOSQL_SHARE ? "SHARE" : "EXCLUSIVE";
	switch (strength)
	{
		case MOSQL_KEY_SHARE:
			return "FOR KEY SHARE";
		case MOSQL_SHARE:
			return "FOR SHARE";
		case MOSQL_NO_KEY_UPDATE:
			return "FOR NO KEY UPDATE";
		default:
			return "FOR UPDATE";
	}
}

static void
add_session_id(Datum *sids, int *n, uint64 sid)
{
	for (int i = 0; i < *n; i++)
		if ((uint64) DatumGetInt64(sids[i]) == sid)
			return;
	sids[(*n)++] = Int64GetDatum(sid);
}

/* The sessions that a wait waits for: who is ahead of it and in its way, claims and intents. */
static Datum
waits_for(MosqlBytes field, const MosqlClaim *wait)
{
	Datum	   *sids = palloc((field.len / MOSQL_TXID_BYTES + 1) * sizeof(Datum));
	MosqlClaim	claim;
	MosqlIntent intent;
	int			nahead;
	MosqlTxid  *ahead = mosql_claims_ahead(field, wait->owner, wait->number, &nahead);
	int			n = 0;

	for (int i = 0; i < nahead; i++)
		add_session_id(sids, &n, ahead[i].session);
	while (mosql_claim_next(&field, &claim))
		;
	while (mosql_intent_next(&field, &intent) == 1)
		if (intent.tx.session != wait->owner.session)
			add_session_id(sids, &n, intent.tx.session);
	return PointerGetDatum(construct_array(sids, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* When the transaction of an id began, by its own server's time; see mosql_txn_age(). */
static Datum
begin_of(MosqlTxid tx, bool *null)
{
	TimestampTz began = (TimestampTz) (tx.n >> MOSQL_TXN_AGE_SHIFT);

	*null = !IS_VALID_TIMESTAMP(began);
	return TimestampTzGetDatum(began);
}

/* The table whose definition has this key: what LOCK TABLE locks. */
static const char *
locked_table(const Report *report, MosqlBytes key)
{
	for (int i = 0; i < report->ndefinitions; i++)
	{
		const MosqlDefinition *definition = &report->definitions[i];

		if (mosql_bytes_equal(mosql_catalog_key(definition->schema, definition->name), key))
			return quote_qualified_identifier(definition->schema, definition->name);
	}
	return NULL;
}

/* Of what is locked where definitions are: an advisory lock. */
static char *
show_number(MosqlBytes key)
{
	char	   *number = mosql_table_show_number(key);

	return number != NULL ? psprintf("advisory %s", number) : NULL;
}

static void
put_claim(const Report *report, const TreeName *tree, const char *key, MosqlBytes field,
		  const MosqlClaim *claim)
{
	const MosqlSessionState *session = find_session(report, claim->owner.session);
	bool		waits = claim->kind == MOSQL_CLAIM_WAIT;
	Datum		values[COLUMNS] = {CStringGetTextDatum(report->server)};
	bool		nulls[COLUMNS] = {false};

	nulls[1] = tree->table == NULL;
	if (tree->table != NULL)
		values[1] = CStringGetTextDatum(tree->table);
	nulls[2] = tree->index == NULL;
	if (tree->index != NULL)
		values[2] = CStringGetTextDatum(tree->index);
	nulls[3] = key == NULL;
	if (key != NULL)
		values[3] = CStringGetTextDatum(key);
	values[4] = CStringGetTextDatum(mode_of(tree, claim->strength));
	values[5] = BoolGetDatum(!waits);
	values[6] = Int64GetDatum(claim->owner.session);
	values[7] = begin_of(claim->owner, &nulls[7]);
	mosql_session_put_who(session, values + WHO, nulls + WHO);
	nulls[12] = !waits;
	if (waits)
		values[12] = waits_for(field, claim);
	tuplestore_putvalues(report->out->setResult, report->out->setDesc, values, nulls);
}

/* ---- rows ---- */

static int
compare_rows(const void *a, const void *b)
{
	const MosqlLockedRow *x = a;
	const MosqlLockedRow *y = b;
	int			by_root = mosql_uint64_compare(&x->root, &y->root);

	return by_root != 0 ? by_root : mosql_bytes_compare(x->key, y->key);
}

/* Rows that somebody waits for, and those that this transaction has locked: each once. */
static int
find_rows(const Report *report, MosqlLockedRow **rows)
{
	MosqlWait  *waits;
	int			nwaits = mosql_clock_waits(mosql_session_stepper(report->session), &waits);
	int			n = mosql_txn_locked_rows(report->session, nwaits, rows);
	int			kept = 0;

	for (int i = 0; i < nwaits; i++)
		(*rows)[n++] = (MosqlLockedRow) {waits[i].root, waits[i].key};
	qsort(*rows, n, sizeof(MosqlLockedRow), compare_rows);
	for (int i = 0; i < n; i++)
		if (kept == 0 || compare_rows(&(*rows)[kept - 1], &(*rows)[i]) != 0)
			(*rows)[kept++] = (*rows)[i];
	return kept;
}

typedef struct ReadWork
{
	MosqlSession *session;
	uint64		root;
	const MosqlBytes *keys;
	int			n;
	MosqlPoint *points;
} ReadWork;

/* A MosqlTreeWork. */
static void
read_points(void *arg)
{
	ReadWork   *work = arg;

	memset(work->points, 0, work->n * sizeof(MosqlPoint));
	mosql_btree_get(mosql_session_tree(work->session, work->root), work->keys, work->n, work->points);
}

/* Some rows of one tree.  A tree that was dropped meanwhile has none. */
static void
put_rows(const Report *report, const TreeName *tree, const MosqlLockedRow *rows, int n)
{
	MosqlBytes *keys = palloc(n * sizeof(MosqlBytes));
	ReadWork	work = {report->session, tree->root, keys, n, palloc(n * sizeof(MosqlPoint))};

	for (int i = 0; i < n; i++)
		keys[i] = rows[i].key;
	if (!mosql_session_try_tree(read_points, &work))
		return;
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	rest = work.points[i].intent;
		TreeName	name = *tree;
		char	   *key = NULL;
		MosqlClaim	claim;

		if (tree->entries != NULL && rest.data != NULL)
			key = mosql_table_show_key(tree->entries, keys[i]);
		else if (tree->root == mosql_table_catalog_root())
		{
			key = show_number(keys[i]);
			name.table = locked_table(report, keys[i]);
		}
		while (mosql_claim_next(&rest, &claim))
			put_claim(report, &name, key, work.points[i].intent, &claim);
	}
}

static void
put_locks(ReturnSetInfo *out, Oid serverid, MosqlSession *session)
{
	Report		report = {out, GetForeignServer(serverid)->servername, serverid, session};
	MosqlLockedRow *rows;
	MosqlTimestamp now;
	int			n = find_rows(&report, &rows);
	int			next;

	if (n > 0)
		report.nsessions = mosql_clock_list_sessions(mosql_session_stepper(session),
													 &report.sessions, &now);
	for (int i = 0; i < n; i = next)
	{
		TreeName	tree = name_tree(&report, rows[i].root);

		for (next = i; next < n && rows[next].root == tree.root; next++)
			;
		for (int at = i; at < next; at += BATCH)
			put_rows(&report, &tree, &rows[at], Min(next - at, BATCH));
	}
}

Datum
mosql_fdw_locks(PG_FUNCTION_ARGS)
{
	mosql_admin_put_servers(fcinfo, put_locks);
	return (Datum) 0;
}

/* ---- a deadlock in words ---- */

/*
 * Its transaction fails whatever happens here, so what goes wrong is left out: rows, where
 * their names cannot be had at once, and then processes.
 */
typedef struct Deadlock
{
	Report		report;
	const MosqlWaiter *waiters;
	int			n;
	const char **rows;			/* NULL: as the clock knows it */
	StringInfoData text;
} Deadlock;

/* A MosqlEachSession. */
static bool
note_server(void *arg, const char *server, Oid userid, MosqlSession *session)
{
	Report	   *report = arg;

	if (session != report->session || server == NULL)
		return true;
	report->serverid = get_foreign_server_oid(server, false);
	return false;
}

static const char *
describe_row(Report *report, const MosqlWaiter *waiter)
{
	TreeName	tree = name_tree(report, waiter->root);
	char	   *key = NULL;

	if (tree.root == mosql_table_catalog_root())
	{
		const char *table = locked_table(report, waiter->key);

		key = show_number(waiter->key);
		return table != NULL ? psprintf("table %s", table) : key != NULL ? psprintf("%s lock", key) : NULL;
	}
	if (tree.table == NULL)
		return NULL;
	if (tree.entries != NULL)
		key = mosql_table_show_key(tree.entries, waiter->key);
	if (tree.index != NULL)
		return psprintf("%s%s of index %s of table %s", key ? "entry " : "an entry", key ? key : "",
						quote_identifier(tree.index), tree.table);
	return psprintf("%s%s of table %s", key ? "row " : "a row", key ? key : "", tree.table);
}

static void
find_processes(void *arg)
{
	Report	   *report = arg;
	MosqlTimestamp now;

	report->nsessions = mosql_clock_list_sessions(mosql_session_stepper(report->session),
												  &report->sessions, &now);
}

static void
describe_rows(void *arg)
{
	Deadlock   *deadlock = arg;

	mosql_fdw_each_session(note_server, &deadlock->report);
	for (int i = 0; i < deadlock->n; i++)
		deadlock->rows[i] = describe_row(&deadlock->report, &deadlock->waiters[i]);
}

static void
put_process(Deadlock *deadlock, const char *process, const char *session, uint64 sid)
{
	const MosqlSessionState *state = find_session(&deadlock->report, sid);
	Jsonb	   *who = state != NULL ? mosql_session_who(state) : NULL;
	const char *server = mosql_session_said(who, "server");
	const char *pid = mosql_session_said(who, "pid");

	if (server != NULL && pid != NULL)
		appendStringInfo(&deadlock->text, "%s %s on server %s", process, pid, server);
	else
		appendStringInfo(&deadlock->text, "%s " UINT64_FORMAT, session, sid);
}

static void
put_deadlock(void *arg)
{
	Deadlock   *deadlock = arg;

	for (int i = 0; i < deadlock->n; i++)
	{
		const MosqlWaiter *waiter = &deadlock->waiters[i];

		if (i > 0)
			appendStringInfoChar(&deadlock->text, '\n');
		put_process(deadlock, "Process", "Session", waiter->session);
		if (deadlock->rows[i] != NULL)
			appendStringInfo(&deadlock->text, " waits for %s", deadlock->rows[i]);
		else
			appendStringInfo(&deadlock->text, " waits for a row of tree " UINT64_FORMAT, waiter->root);
		appendStringInfoString(&deadlock->text, "; blocked by ");
		put_process(deadlock, "process", "session", waiter->blocker);
		appendStringInfoChar(&deadlock->text, '.');
	}
}

/*
 * A MosqlDescribeDeadlock: two round trips, and those that read definitions.  Nothing interrupts
 * them, so all together have one command timeout.
 */
static char *
describe_deadlock(MosqlSession *session, const MosqlWaiter *waiters, int n, bool at_commit)
{
	Deadlock	deadlock = {.waiters = waiters,.n = n};

	MosqlRedis *redis = mosql_session_redis(session);
	int64		before;

	deadlock.report.session = session;
	deadlock.report.at_once = true;
	deadlock.rows = palloc0(n * sizeof(char *));
	initStringInfo(&deadlock.text);
	before = mosql_redis_hurry(redis, mosql_redis_timeout_us(redis));
	if (!mosql_do_quietly(find_processes, &deadlock.report))
		deadlock.report.nsessions = 0;
	if (!at_commit)
		(void) mosql_do_quietly(describe_rows, &deadlock);
	(void) mosql_redis_hurry(redis, before);
	return mosql_do_quietly(put_deadlock, &deadlock) ? deadlock.text.data : NULL;
}

void
mosql_locks_init(void)
{
	mosql_txn_deadlock_hook = describe_deadlock;
}
