/*
 * used.c: what the current transaction used of the catalog, and whether it is still so.
 *
 * Layer: table.  A definition that a transaction goes by is noted.  Commit compares it if the
 * schema version has moved (definitions_unchanged); so does the first read at a snapshot by
 * whose version it has (schema_moved).  What the transaction changes itself is a row that it
 * writes, which commit compares like any other.
 */
#include "postgres.h"

#include <inttypes.h>

#include "access/xact.h"
#include "lib/ilist.h"
#include "parser/parse_type.h"
#include "storage/lockdefs.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"

#include "base/retry.h"
#include "code/claim.h"
#include "table/table_int.h"

/* ---- what the current transaction used ---- */

/*
 * A definition that this transaction relies on.  changed: it wrote the
 * definition itself, so that commit compares the catalog row's version anyway.
 */
typedef struct UsedTable
{
	struct UsedTable *next;
	MosqlSession *session;		/* NULL: closed since */
	MosqlBytes	key;
	bool		noted;			/* it relies on this: */
	MosqlBytes	definition;
	bool		changed;
	int			mode;			/* of the strongest statement, a LOCKMODE; 0: none */
} UsedTable;

/*
 * What a definition was to the transaction before it wrote it itself: what it is again when
 * that is rolled back to a savepoint.
 */
typedef struct Change
{
	struct Change *next;
	int			level;			/* of the subtransaction */
	UsedTable  *used;
	bool		noted;
	MosqlBytes	definition;
	bool		changed;
} Change;

static UsedTable *used_tables = NULL;	/* in TopTransactionContext, as are these: */
static Change *changes = NULL;	/* the last one first */
static uint64 uses = 1;			/* transactions and rollbacks that made notes void */

/* TopTransactionContext is reset: everything noted is gone. */
static void
forget_used(void *arg)
{
	used_tables = NULL;
	changes = NULL;
	uses++;
}

/* NULL: it has not been used. */
static UsedTable *
look_up_used(MosqlSession *session, MosqlBytes key)
{
	UsedTable  *used;

	for (used = used_tables; used != NULL; used = used->next)
		if (used->session == session && mosql_bytes_equal(used->key, key))
			return used;
	return NULL;
}

static UsedTable *
find_used(MosqlSession *session, MosqlBytes key)
{
	UsedTable  *used = look_up_used(session, key);

	if (used != NULL)
		return used;
	if (used_tables == NULL)
	{
		MemoryContextCallback *callback = MemoryContextAlloc(TopTransactionContext,
															 sizeof(MemoryContextCallback));

		callback->func = forget_used;
		callback->arg = NULL;
		MemoryContextRegisterResetCallback(TopTransactionContext, callback);
	}
	used = MemoryContextAllocZero(TopTransactionContext, sizeof(UsedTable));
	used->session = session;
	used->key = mosql_bytes_copy(TopTransactionContext, key);
	used->definition = MOSQL_ABSENT;
	used->next = used_tables;
	used_tables = used;
	return used;
}

static bool
same_definition(MosqlBytes a, MosqlBytes b)
{
	return (a.data == NULL) == (b.data == NULL) && mosql_bytes_equal(a, b);
}

/*
 * May the transaction go on by another definition than it has used?  If it has only
 * read the table, as long as nothing that it relied on has gone.  If it has written,
 * never: an index that is there by now, or is being built, lacks what it wrote.
 */
static bool
may_go_on(const UsedTable *used, MosqlBytes now)
{
	const MosqlDefinition *old;
	const MosqlDefinition *new;

	if (used->definition.data == NULL || now.data == NULL)
		return false;
	if (mosql_bytes_equal(used->definition, now))
		return true;
	if (mosql_catalog_is_sequence(used->key))
		return false;			/* it may have drawn from it */
	old = mosql_definition_decode(used->definition, 0);
	if (mosql_txn_has_changed(used->session, old->root) ||
		!mosql_table_still_holds(used->definition, now, true))
		return false;
	new = mosql_definition_decode(now, 0);
	for (int i = 0; i < old->ncolumns; i++)
		if (old->columns[i].sequence.counter != new->columns[i].sequence.counter)
			return false;		/* it may have drawn from the old one */
	return true;
}

/* If the transaction wrote that row itself, the note says so already. */
void
mosql_table_note_use(MosqlSession *session, MosqlBytes key, MosqlBytes row)
{
	UsedTable  *used = find_used(session, key);

	if (used->noted && same_definition(used->definition, row))
		return;

	/* what this transaction did by the old one cannot be committed */
	if (used->noted && !may_go_on(used, row))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to a concurrent change of a table's definition"),
				 errhint("The transaction might succeed if retried.")));
	used->noted = true;
	used->definition = mosql_bytes_copy(TopTransactionContext, row);
	used->changed = false;
}

void
mosql_table_note_change(MosqlSession *session, MosqlBytes key, MosqlBytes definition)
{
	UsedTable  *used = find_used(session, key);
	Change	   *change = MemoryContextAlloc(TopTransactionContext, sizeof(Change));

	*change = (Change)
	{
		.next = changes,.level = GetCurrentTransactionNestLevel(),.used = used,.noted = used->noted,
		.definition = used->definition,.changed = used->changed
	};
	changes = change;
	used->noted = used->changed = true;
	used->definition = mosql_bytes_copy(TopTransactionContext, definition);
}

bool
mosql_table_changed(MosqlSession *session, int i, MosqlBytes *key, MosqlBytes *row)
{
	for (UsedTable *used = used_tables; used != NULL; used = used->next)
		if (used->session == session && used->changed && i-- == 0)
		{
			*key = used->key;
			*row = used->definition;
			return true;
		}
	return false;
}

bool
mosql_table_relies(MosqlSession *session, MosqlBytes key)
{
	const UsedTable *used = look_up_used(session, key);

	return used != NULL && used->noted && !used->changed;
}

int *
mosql_table_used_mode(MosqlSession *session, MosqlBytes key)
{
	return &find_used(session, key)->mode;
}

uint64
mosql_table_uses(void)
{
	return uses;
}

void
mosql_table_forget_used(MosqlSession *session)
{
	for (UsedTable *used = used_tables; used != NULL; used = used->next)
		if (used->session == session)
			used->session = NULL;
}

/*
 * What a rolled back subtransaction wrote is compared by nobody any more: so what the
 * transaction relied on before it is.  What was noted since is noted anew.
 */
static void
subtransaction_ended(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	if (event == SUBXACT_EVENT_COMMIT_SUB)
		for (Change *change = changes; change != NULL && change->level >= level; change = change->next)
			change->level = level - 1;
	if (event != SUBXACT_EVENT_ABORT_SUB)
		return;
	for (; changes != NULL && changes->level >= level; changes = changes->next)
	{
		changes->used->noted = changes->noted;
		changes->used->definition = changes->definition;
		changes->used->changed = changes->changed;
		uses++;
	}
}

/* ---- plans ---- */

/*
 * A plan relies on more of a definition than the tables that it reads: a join is
 * removed, or stops at its first match, because an index is unique.  PostgreSQL
 * invalidates plans when its own catalogs change; for changes by other servers we
 * do.  Two nets, of which each catches what the other cannot:
 *
 *   - When another definition than before is loaded, all cached plans of the backend are
 *     made anew.  The plan that is being started then, if it is a cached one, is too
 *     old itself (mosql_table_open_planned).
 *   - The schema version comes with each snapshot.  If it moved since the session
 *     last looked, the definitions that the transaction has noted are compared with
 *     those of the snapshot, before anything is read at it (schema_moved).
 *
 * What makes no plan wrong, as a column or an index more, fails nobody.
 */

static bool
same_column(const MosqlDefinitionColumn *a, const MosqlDefinitionColumn *b)
{
	return a->dropped == b->dropped && strcmp(a->name, b->name) == 0 &&
		strcmp(a->type, b->type) == 0 && strcmp(a->collation, b->collation) == 0 &&
		a->key_position == b->key_position;
}

static const MosqlDefinitionColumn *
column_of_id(const MosqlDefinition *definition, uint32 id)
{
	for (int i = 0; i < definition->ncolumns; i++)
		if (definition->columns[i].id == id)
			return &definition->columns[i];
	return NULL;
}

static const MosqlDefinitionIndex *
index_of_id(const MosqlDefinition *definition, uint32 id)
{
	for (int i = 0; i < definition->nindexes; i++)
		if (definition->indexes[i].id == id)
			return &definition->indexes[i];
	return NULL;
}

bool
mosql_table_still_holds(MosqlBytes planned, MosqlBytes now, bool in_place)
{
	const MosqlDefinition *old = mosql_definition_decode(planned, 0);
	const MosqlDefinition *new = mosql_definition_decode(now, 0);

	if (old->hidden_row_id != new->hidden_row_id || (in_place && old->root != new->root))
		return false;
	for (int i = 0; i < old->ncolumns; i++)
	{
		const MosqlDefinitionColumn *column = column_of_id(new, old->columns[i].id);

		if (column == NULL || !same_column(&old->columns[i], column) ||
			(old->columns[i].not_null && !column->not_null))
			return false;
	}
	for (int i = 0; i < old->nindexes; i++)
	{
		const MosqlDefinitionIndex *index = index_of_id(new, old->indexes[i].id);

		if (index == NULL || (in_place && index->root != old->indexes[i].root) ||
			!mosql_definition_same_index(index, &old->indexes[i]))
			return false;
	}
	return true;
}

void
mosql_table_report_stale_plan(void)
{
	ResetPlanCache();			/* the error keeps others from telling it */
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to a concurrent change of a table's definition"),
			 errdetail("The statement was planned before."),
			 errhint("The transaction might succeed if retried.")));
}

/* MosqlSchemaMoved.  One round trip, where nobody has locked a table. */
static bool
schema_moved(MosqlSession *session, MosqlView *view)
{
	int			n = 0;
	int			max = 0;
	UsedTable **used;
	MosqlBytes *keys;
	MosqlRow   *rows;
	bool		waited = false;

	for (UsedTable *u = used_tables; u != NULL; u = u->next)
		max++;
	if (max == 0)
		return false;
	used = palloc(max * sizeof(UsedTable *));
	keys = palloc(max * sizeof(MosqlBytes));
	rows = palloc0(max * sizeof(MosqlRow));
	for (UsedTable *u = used_tables; u != NULL; u = u->next)
	{
		if (u->session != session || !u->noted || u->changed || u->definition.data == NULL)
			continue;
		used[n] = u;
		keys[n++] = u->key;
	}
	if (n > 0)
		mosql_view_get(view, mosql_catalog_tree(session), keys, n, rows);
	for (int i = 0; i < n; i++)
		if (!rows[i].found || (!mosql_bytes_equal(rows[i].columns, used[i]->definition) &&
							   (mosql_catalog_is_sequence(keys[i]) ||
								!mosql_table_still_holds(used[i]->definition, rows[i].columns, true))))
			mosql_table_report_stale_plan();
	for (int i = 0; i < n; i++)
		if (rows[i].claimed)
			waited |= mosql_table_wait(session, keys[i], used[i]->mode);
	return waited;
}

/* This transaction's own changes invalidate plans as PostgreSQL does it. */
bool
mosql_table_is_own_change(MosqlSession *session, const MosqlDefinition *definition)
{
	const UsedTable *used = look_up_used(session, mosql_catalog_key(definition->schema,
																	definition->name));

	return used != NULL && used->changed;
}

/* ---- commit ---- */

/* The latest committed definition is the one that was used, or as good. */
static bool
is_unchanged(const UsedTable *used, const MosqlPoint *point)
{
	MosqlVersion newest;

	if (point->row.data == NULL)
		return false;
	if (!mosql_row_newest(point->row, &newest))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged table definition in Redis")));
	return newest.live && may_go_on(used, newest.columns);
}

/* As which is the table locked by what the transaction has done? */
static int
mode_of_use(const UsedTable *used)
{
	uint64		root = mosql_definition_decode(used->definition, 0)->root;

	if (mosql_txn_has_put(used->session, root))
		return Max(used->mode, RowExclusiveLock);
	if (mosql_txn_has_changed(used->session, root))
		return Max(used->mode, RowShareLock);
	return used->mode > AccessShareLock ? used->mode : NoLock;
}

/* Is the table locked by somebody who keeps out what the transaction has done there? */
static bool
is_locked_out(const UsedTable *used, MosqlBytes key, MosqlBytes field, int *strength)
{
	MosqlTxn   *txn = mosql_txn_current(used->session);
	int			mode;

	if (!mosql_claims_begin(field) || mosql_catalog_is_sequence(key) ||
		(mode = mode_of_use(used)) == NoLock ||
		!mosql_txn_is_locked_out(txn, field, MOSQL_TABLE_MODE + mode))
		return false;
	*strength = mosql_table_joined_strength(mosql_txn_strength(txn, mosql_catalog_tree(used->session), key),
											MOSQL_TABLE_MODE + mode);
	return true;
}

static bool
has_intents(MosqlBytes field)
{
	MosqlClaim	claim;

	while (mosql_claim_next(&field, &claim))
		;
	return field.len > 0;
}

/*
 * MosqlSchemaCheck.  Reads past the transaction's snapshot and writes, which
 * no view does, hence straight from the tree.  An intent is somebody's change
 * that is under way, or decided and not applied yet: wait for it a little.
 */
static bool
definitions_unchanged(MosqlSession *session, MosqlBytes *locked, int *strength)
{
	MosqlBudget budget = mosql_budget_start(mosql_txn_intent_timeout_ms);
	int			n = 0;
	int			max = 0;
	UsedTable **used;
	MosqlBytes *keys;
	MosqlPoint *points;

	for (UsedTable *u = used_tables; u != NULL; u = u->next)
		max++;
	used = palloc(Max(max, 1) * sizeof(UsedTable *));
	keys = palloc(Max(max, 1) * sizeof(MosqlBytes));
	points = palloc0(Max(max, 1) * sizeof(MosqlPoint));
	for (UsedTable *u = used_tables; u != NULL; u = u->next)
	{
		if (u->session != session || !u->noted || u->changed)
			continue;
		used[n] = u;
		keys[n++] = u->key;
	}
	while (n > 0)
	{
		bool		pending = false;

		mosql_btree_get(mosql_catalog_tree(session), keys, n, points);
		for (int i = 0; i < n; i++)
		{
			if (!is_unchanged(used[i], &points[i]))
				return false;
			pending |= has_intents(points[i].intent);
		}
		for (int i = 0; i < n && !pending; i++)
			if (is_locked_out(used[i], keys[i], points[i].intent, strength))
			{
				*locked = keys[i];
				return true;
			}
		if (!pending)
			break;
		if (!mosql_budget_pause(&budget))
			return false;
	}
	return true;
}

void
mosql_table_used_init(void)
{
	RegisterSubXactCallback(subtransaction_ended, NULL);
	mosql_txn_schema_check = definitions_unchanged;
	mosql_txn_schema_moved = schema_moved;
}
