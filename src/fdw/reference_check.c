/*
 * reference_check.c: are foreign keys kept, now or at COMMIT?
 *
 * Layer: fdw.  Is the parent there (now, or still)?  If not, does some child lead to it?
 * That is one question for both sides, so what is deferred need not remember rows: at
 * COMMIT, or SET CONSTRAINTS ... IMMEDIATE, it is asked again.
 *
 * As in core only checks can be deferred, no actions.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_constraint.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "fdw/reference.h"

/* What waits for the end of the transaction. */
typedef struct Deferred
{
	Oid			oid;			/* of the foreign key */
	MosqlSession *session;
	int			level;			/* of the subtransaction */
	bool		is_parent;
	int			n;
	int			max;
	MosqlBytes *keys;
} Deferred;

/* SET CONSTRAINTS. */
typedef struct Setting
{
	Oid			oid;			/* InvalidOid: all */
	int			level;
	bool		deferred;
} Setting;

/* In TopTransactionContext; newest first. */
static List *deferred = NIL;
static List *settings = NIL;
static bool registered = false;

/* ---- keys ---- */

static int
compare_keys(const void *a, const void *b)
{
	return mosql_bytes_compare(*(const MosqlBytes *) a, *(const MosqlBytes *) b);
}

int
mosql_reference_sort_keys(MosqlBytes *keys, int n)
{
	int			left = 0;

	if (n > 1)
		qsort(keys, n, sizeof(MosqlBytes), compare_keys);
	for (int i = 0; i < n; i++)
		if (left == 0 || !mosql_bytes_equal(keys[left - 1], keys[i]))
			keys[left++] = keys[i];
	return left;
}

/* ---- checks ---- */

/* Keep, of distinct keys, ascending, those whose parents are not there: how many. */
static int
keep_missing(MosqlReference *reference, MosqlBytes *keys, int n)
{
	bool	   *found = palloc(n * sizeof(bool) + 1);
	int			left = 0;

	mosql_reference_find_parents(reference, keys, n, found);
	for (int i = 0; i < n; i++)
		if (!found[i])
			keys[left++] = keys[i];
	return left;
}

/* The same of parents that this transaction has taken away, and perhaps put again. */
static int
keep_gone(MosqlReference *reference, MosqlBytes *keys, int n)
{
	int			left = 0;

	for (int i = 0; i < n; i++)
		if (!mosql_txn_knows(reference->txn, reference->target->tree, keys[i], false))
			keys[left++] = keys[i];
	return left;
}

/* 23503 if a child leads to a parent that is not there.  Distinct keys, ascending. */
static void
check_children(MosqlReference *reference, MosqlBytes *keys, int n)
{
	StringInfoData child;
	int			i;

	initStringInfo(&child);
	n = keep_missing(reference, keys, n);
	i = mosql_reference_find_child(reference, keys, n, false, &child);
	if (i >= 0)
		mosql_reference_report_child(reference, keys[i], NULL);
}

static void
check_parents(MosqlReference *reference, MosqlBytes *keys, int n, bool restricted)
{
	StringInfoData child;
	int			i;

	initStringInfo(&child);
	if (!restricted)
		n = keep_gone(reference, keys, n);
	i = mosql_reference_find_child(reference, keys, n, true, &child);
	if (i >= 0)
		mosql_reference_report_parent(reference, keys[i], mosql_bytes_of(&child), restricted);
}

/* The keys of a list, each once, ascending; in the current context. */
static MosqlBytes *
distinct_keys(const MosqlBytes *keys, int *n)
{
	MosqlBytes *copy = palloc(*n * sizeof(MosqlBytes) + 1);

	if (*n > 0)
		memcpy(copy, keys, *n * sizeof(MosqlBytes));
	*n = mosql_reference_sort_keys(copy, *n);
	return copy;
}

/* ---- deferred ---- */

static void
forget_transaction(void *arg)
{
	deferred = NIL;
	settings = NIL;
	registered = false;
}

static void
register_transaction(void)
{
	MemoryContextCallback *callback;

	if (registered)
		return;
	callback = MemoryContextAllocZero(TopTransactionContext, sizeof(MemoryContextCallback));
	callback->func = forget_transaction;
	MemoryContextRegisterResetCallback(TopTransactionContext, callback);
	registered = true;
}

static bool
is_deferred(const MosqlForeignKey *key)
{
	ListCell   *lc;

	if (!key->deferrable)
		return false;
	foreach(lc, settings)
	{
		const Setting *setting = lfirst(lc);

		if (!OidIsValid(setting->oid) || setting->oid == key->oid)
			return setting->deferred;
	}
	return key->deferred;
}

/* What the current subtransaction has deferred of a foreign key already, of the rows of
 * that session. */
static Deferred *
find_deferred(const MosqlReference *reference, bool is_parent)
{
	ListCell   *lc;

	foreach(lc, deferred)
	{
		Deferred   *waiting = lfirst(lc);

		if (waiting->oid == reference->key.oid && waiting->session == reference->session &&
			waiting->is_parent == is_parent &&
			waiting->level == GetCurrentTransactionNestLevel())
			return waiting;
	}
	return NULL;
}

/* One key more; in the current context. */
static void
add_deferred_key(Deferred *waiting, MosqlBytes key)
{
	if (waiting->n == waiting->max)
	{
		waiting->max = Max(16, waiting->max * 2);
		waiting->keys = waiting->keys == NULL ? palloc(waiting->max * sizeof(MosqlBytes))
			: repalloc_huge(waiting->keys, waiting->max * sizeof(MosqlBytes));
	}
	waiting->keys[waiting->n++] = mosql_bytes_copy(CurrentMemoryContext, key);
}

static void
defer(MosqlReference *reference, bool is_parent, const MosqlBytes *keys, int n)
{
	MemoryContext old;
	Deferred   *waiting;

	if (n == 0)
		return;
	register_transaction();
	old = MemoryContextSwitchTo(TopTransactionContext);
	waiting = find_deferred(reference, is_parent);
	if (waiting == NULL)
	{
		waiting = palloc0(sizeof(Deferred));
		waiting->oid = reference->key.oid;
		waiting->session = reference->session;
		waiting->level = GetCurrentTransactionNestLevel();
		waiting->is_parent = is_parent;
		deferred = lcons(waiting, deferred);
	}
	for (int i = 0; i < n; i++)
		add_deferred_key(waiting, keys[i]);
	MemoryContextSwitchTo(old);
}

static void
check_deferred(const Deferred *waiting, const MosqlForeignKey *key)
{
	MosqlReference *reference = mosql_reference_open(key, waiting->session);
	int			n = waiting->n;
	MosqlBytes *keys = distinct_keys(waiting->keys, &n);

	if (reference == NULL)
		return;					/* another server dropped it: this does not commit */
	if (waiting->is_parent)
		check_parents(reference, keys, n, false);
	else
		check_children(reference, keys, n);
}

/*
 * Check what is not deferred (any more), or all.
 *
 * What an outer transaction deferred stays deferred when a subtransaction checks it:
 * a parent that was found may go with the subtransaction.
 */
static void
run_deferred(bool all)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql deferred checks",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	ListCell   *lc;

	foreach(lc, deferred)
	{
		Deferred   *waiting = lfirst(lc);
		MosqlForeignKey key;
		bool		exists = mosql_foreign_key_find(waiting->oid, &key);

		if (exists && !all && is_deferred(&key))
			continue;
		if (exists)
			check_deferred(waiting, &key);
		if (waiting->level >= GetCurrentTransactionNestLevel())
			deferred = foreach_delete_current(deferred, lc);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

static void
before_commit(void)
{
	if (deferred == NIL)
		return;
	PushActiveSnapshot(GetTransactionSnapshot());
	run_deferred(true);
	PopActiveSnapshot();
}

/* A rolled back subtransaction takes back what it deferred, and its settings. */
static void
subtransaction_ended(int level, bool committed)
{
	ListCell   *lc;

	foreach(lc, deferred)
	{
		Deferred   *waiting = lfirst(lc);

		if (waiting->level < level)
			continue;
		if (committed)
			waiting->level = level - 1;
		else
			deferred = foreach_delete_current(deferred, lc);
	}
	foreach(lc, settings)
	{
		Setting    *setting = lfirst(lc);

		if (setting->level < level)
			continue;
		if (committed)
			setting->level = level - 1;
		else
			settings = foreach_delete_current(settings, lc);
	}
}

void
mosql_reference_check(MosqlReference *reference, bool is_parent, char action, const MosqlBytes *given, int n)
{
	MosqlBytes *keys = distinct_keys(given, &n);

	if (is_deferred(&reference->key) && action == FKCONSTR_ACTION_NOACTION)
		defer(reference, is_parent, keys, n);
	else if (is_parent)
		check_parents(reference, keys, n, action == FKCONSTR_ACTION_RESTRICT);
	else
		check_children(reference, keys, n);
}

/* ---- SET CONSTRAINTS ---- */

static void
add_setting(Oid oid, bool is_deferred)
{
	MemoryContext old;
	Setting    *setting;

	register_transaction();
	old = MemoryContextSwitchTo(TopTransactionContext);
	setting = palloc(sizeof(Setting));
	setting->oid = oid;
	setting->level = GetCurrentTransactionNestLevel();
	setting->deferred = is_deferred;
	settings = lcons(setting, settings);
	MemoryContextSwitchTo(old);
}

/* The constraints of a name in a schema; false if there are none. */
static bool
set_named(Oid schema, const char *name, bool is_deferred)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		any = false;

	ScanKeyInit(&keys[0], Anum_pg_constraint_conname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(name));
	ScanKeyInit(&keys[1], Anum_pg_constraint_connamespace, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(schema));
	scan = systable_beginscan(catalog, ConstraintNameNspIndexId, true, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		add_setting(((Form_pg_constraint) GETSTRUCT(tuple))->oid, is_deferred);
		any = true;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return any;
}

/* Core has found them all, and that they are deferrable. */
void
mosql_references_set(const ConstraintsSetStmt *statement)
{
	ListCell   *lc;
	ListCell   *ls;

	if (statement->constraints == NIL)
		add_setting(InvalidOid, statement->deferred);
	foreach(lc, statement->constraints)
	{
		const RangeVar *name = lfirst(lc);
		List	   *schemas = name->schemaname != NULL
			? list_make1_oid(LookupExplicitNamespace(name->schemaname, false))
			: fetch_search_path(true);

		foreach(ls, schemas)
			if (set_named(lfirst_oid(ls), name->relname, statement->deferred))
				break;
	}
	if (!statement->deferred)
		run_deferred(false);
}

void
mosql_reference_check_init(void)
{
	mosql_txn_before_commit_hook = before_commit;
	mosql_txn_subtransaction_hook = subtransaction_ended;
}
