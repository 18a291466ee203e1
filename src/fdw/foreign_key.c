/*
 * foreign_key.c: the foreign keys between our tables, as pg_constraint has them.
 *
 * Layer: fdw.  Statements ask for them each time they write to a table, and those
 * that lead to a table have no index in the catalog: so they are kept per table until
 * some constraint changes.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_constraint.h"
#include "foreign/foreign.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "fdw/reference.h"

typedef struct Known
{
	Oid			relid;			/* hash key */
	List	   *keys;
} Known;

static HTAB *known = NULL;		/* NULL: nothing is */
static MemoryContext known_cxt = NULL;
static bool stale = false;		/* a constraint has changed */

static void
invalidate(Datum arg, int cache, uint32 hash)
{
	stale = true;
}

/* Both are foreign tables on one server of ours: one transaction writes both. */
static bool
is_ours(const MosqlForeignKey *key)
{
	return mosql_fdw_is_ours(key->child) && mosql_fdw_is_ours(key->parent) &&
		GetForeignTable(key->child)->serverid == GetForeignTable(key->parent)->serverid;
}

static bool
read_key(HeapTuple tuple, MosqlForeignKey *key)
{
	Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);
	Oid			pp[INDEX_MAX_KEYS];
	Oid			ff[INDEX_MAX_KEYS];

	if (form->contype != CONSTRAINT_FOREIGN)
		return false;
#if PG_VERSION_NUM >= 180000
	if (!form->conenforced)
		return false;
#endif
	memset(key, 0, sizeof(*key));
	key->oid = form->oid;
	key->name = form->conname;
	key->child = form->conrelid;
	key->parent = form->confrelid;
	key->index = form->conindid;
	key->validated = form->convalidated;
	key->deferrable = form->condeferrable;
	key->deferred = form->condeferred;
	key->match = form->confmatchtype;
	key->on_update = form->confupdtype;
	key->on_delete = form->confdeltype;
	DeconstructFkConstraintRow(tuple, &key->n, key->columns, key->referenced, key->pf, pp, ff,
							   &key->nset, key->set);
	return is_ours(key);
}

/* As core checks them: in the order in which they were made. */
static int
compare_oids(const ListCell *a, const ListCell *b)
{
	Oid			x = ((const MosqlForeignKey *) lfirst(a))->oid;
	Oid			y = ((const MosqlForeignKey *) lfirst(b))->oid;

	return x < y ? -1 : x > y;
}

static List *
load(Oid relid)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(catalog, InvalidOid, false, NULL, 0, NULL);
	List	   *keys = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);
		MosqlForeignKey *key;

		if (form->contype != CONSTRAINT_FOREIGN ||
			(form->conrelid != relid && form->confrelid != relid))
			continue;
		key = palloc(sizeof(MosqlForeignKey));
		if (read_key(tuple, key))
			keys = lappend(keys, key);
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	list_sort(keys, compare_oids);
	return keys;
}

static void
make_cache(void)
{
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(Known)};

	if (known_cxt == NULL)
		known_cxt = AllocSetContextCreate(TopMemoryContext, "mosql foreign keys",
										  ALLOCSET_DEFAULT_SIZES);
	known = NULL;
	MemoryContextReset(known_cxt);
	ctl.hcxt = known_cxt;
	known = hash_create("mosql foreign keys", 32, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	stale = false;
}

/* A deep copy, in the current context. */
static List *
copy(const List *keys)
{
	List	   *result = NIL;
	const ListCell *lc;

	foreach(lc, keys)
	{
		MosqlForeignKey *key = palloc(sizeof(MosqlForeignKey));

		*key = *(const MosqlForeignKey *) lfirst(lc);
		result = lappend(result, key);
	}
	return result;
}

/*
 * The cache's own list, or a new one: to be read before anything else is, since any look at a
 * catalog may find that a constraint has changed.  What changes while it is read is another table's,
 * as the caller has locked this one; but nobody can know that later, so it is not kept.
 */
static const List *
look_up(Oid relid)
{
	Known	   *entry;
	MemoryContext old;
	List	   *keys;

	if (known == NULL || stale)
		make_cache();
	entry = hash_search(known, &relid, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->keys;
	keys = load(relid);
	if (stale)
		return keys;
	old = MemoryContextSwitchTo(known_cxt);
	keys = copy(keys);
	MemoryContextSwitchTo(old);
	entry = hash_search(known, &relid, HASH_ENTER, NULL);
	entry->keys = keys;
	return keys;
}

List *
mosql_foreign_keys(Oid relid)
{
	return copy(look_up(relid));
}

bool
mosql_foreign_key_find(Oid oid, MosqlForeignKey *key)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(oid));
	bool		found = HeapTupleIsValid(tuple) && read_key(tuple, key);

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return found;
}

bool
mosql_foreign_key_leads_to(Oid relid)
{
	const ListCell *lc;

	foreach(lc, look_up(relid))
		if (((const MosqlForeignKey *) lfirst(lc))->parent == relid)
			return true;
	return false;
}

void
mosql_foreign_key_init(void)
{
	CacheRegisterSyscacheCallback(CONSTROID, invalidate, (Datum) 0);
}
