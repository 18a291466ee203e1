/*
 * open.c: the tables that this backend knows, and whether they are still so.
 *
 * Layer: table.  A table is built from two definitions, the local relation and
 * the catalog row in Redis, and stays valid while neither changes: relcache
 * invalidations tell about the first, the schema version about the second.  The
 * schema version is that of the whole namespace, hence when it moves the
 * definition is read again, and the table is kept if its bytes are the same.
 *
 * The version is read before the definition.  So a table may carry a version
 * that is older than its definition, never a newer one: then commit is refused
 * as stale, definitions_unchanged() compares, and commit goes on.
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

/* ---- the cache: per session, by relid ---- */

typedef struct TableEntry
{
	Oid			relid;			/* hash key */
	bool		valid;			/* no relcache invalidation since it was built */
	uint64		used_in;		/* mosql_table_uses() when it was noted */
	MemoryContext cxt;			/* of the table and the two below; NULL: no table */
	MosqlTable *table;
	MosqlBytes	key;			/* in the catalog */
	MosqlBytes	definition;		/* its bytes there */

	/*
	 * The definition that plans of this backend were made by: the last one loaded.  In
	 * the session's context; outlives the table.
	 */
	MosqlBytes	planned;
} TableEntry;

typedef struct TableCache
{
	dlist_node	node;			/* in caches */
	MosqlSession *session;
	HTAB	   *tables;
	long		sweep_at;		/* with so many tables look for old ones */
	bool		catalog_exists;
	MemoryContextCallback forget;
} TableCache;

/* Fewer tables than this are not worth a look. */
#define SWEEP_MIN_TABLES	64

static dlist_head caches = DLIST_STATIC_INIT(caches);

/* Once per transaction is enough. */
static void
note_use(MosqlSession *session, TableEntry *entry)
{
	if (entry->used_in == mosql_table_uses())
		return;
	mosql_table_note_use(session, entry->key, entry->definition);
	entry->table->mode = mosql_table_used_mode(session, entry->key);
	entry->used_in = mosql_table_uses();
}

/* ---- invalidation ---- */

/* Relcache callback; InvalidOid: all of them. */
static void
invalidate(Datum arg, Oid relid)
{
	dlist_iter	iter;

	dlist_foreach(iter, &caches)
	{
		TableCache *cache = dlist_container(TableCache, node, iter.cur);
		TableEntry *entry;
		HASH_SEQ_STATUS scan;

		if (OidIsValid(relid))
		{
			entry = hash_search(cache->tables, &relid, HASH_FIND, NULL);
			if (entry != NULL)
				entry->valid = false;
			continue;
		}
		hash_seq_init(&scan, cache->tables);
		while ((entry = hash_seq_search(&scan)) != NULL)
			entry->valid = false;
	}
}

/* The session's memory goes, and its cache with it. */
static void
forget_cache(void *arg)
{
	TableCache *cache = arg;

	mosql_table_forget_used(cache->session);
	dlist_delete(&cache->node);
}

static TableCache *
session_cache(MosqlSession *session)
{
	void	  **slot = mosql_session_cache_slot(session);
	MemoryContext cxt = mosql_session_context(session);
	HASHCTL		ctl = {0};
	TableCache *cache;

	if (*slot != NULL)
		return *slot;
	cache = MemoryContextAllocZero(cxt, sizeof(TableCache));
	cache->session = session;
	cache->sweep_at = SWEEP_MIN_TABLES;
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(TableEntry);
	ctl.hcxt = cxt;
	cache->tables = hash_create("mosql_fdw tables", 32, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	cache->forget.func = forget_cache;
	cache->forget.arg = cache;
	MemoryContextRegisterResetCallback(cxt, &cache->forget);
	dlist_push_tail(&caches, &cache->node);
	*slot = cache;
	return cache;
}

/*
 * Are there definitions?  If the clock counts changes of them and they have no tree,
 * Redis has lost it: XX001, for without them every table would count as garbage.
 */
bool
mosql_catalog_exists(MosqlSession *session)
{
	TableCache *cache = session_cache(session);
	uint64		changes = mosql_session_schema(session);	/* before we look */

	if (!cache->catalog_exists)
		cache->catalog_exists = mosql_btree_exists(mosql_session_store(session),
												   MOSQL_CATALOG_ROOT);
	if (!cache->catalog_exists && changes > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the definitions of namespace \"%s\" are gone, but tables were created",
						mosql_session_namespace(session)),
				 errdetail("The Redis node that has the key \"%s:{%016" PRIx64 "}\" has lost its data: it was restarted empty, or the key was deleted.",
						   mosql_session_namespace(session), MOSQL_CATALOG_ROOT),
				 errhint("Restore that node's data. If what is left may go, delete all keys \"%s:*\"; see docs/durability.md.",
						 mosql_session_namespace(session))));
	return cache->catalog_exists;
}

/* ---- plans of this backend (used.c says what they rely on) ---- */

static void
forget_planned(TableEntry *entry)
{
	if (entry->planned.data != NULL)
		pfree(unconstify(char *, entry->planned.data));
	entry->planned = MOSQL_ABSENT;
}

/* A definition was loaded.  False: plans that were made before are wrong by it. */
static bool
note_planned(TableEntry *entry, MosqlSession *session, MosqlBytes definition)
{
	bool		holds = true;

	if (entry->planned.data != NULL && mosql_bytes_equal(entry->planned, definition))
		return true;
	if (entry->planned.data != NULL)
	{
		holds = mosql_table_still_holds(entry->planned, definition, false);
		ResetPlanCache();
		forget_planned(entry);
	}
	entry->planned = mosql_bytes_copy(mosql_session_context(session), definition);
	return holds;
}

/* ---- building a table ---- */

/* The value that rows without the column have. */
static void
setup_missing(MosqlTable *table, MosqlTableColumn *column, MosqlBytes missing)
{
	MosqlColumn stored;

	if (mosql_column_next(&missing, &stored) != 1 || missing.len > 0 ||
		stored.wire == MOSQL_WIRE_NULL)
		mosql_codec_damage(table, column, "Its default in the table's definition does not decode.");
	column->missing = mosql_codec_get(table, column, &stored);
	column->has_missing = true;
	table->missing[table->nmissing++] = column->attnum;
}

/* Column `attnum` of the table; its type and collation are set. */
static void
setup_column(MosqlTable *table, const MosqlDefinitionColumn *there, AttrNumber attnum)
{
	MosqlTableColumn *column = &table->columns[attnum - 1];

	column->attnum = attnum;
	column->id = there->id;
	column->key_position = there->key_position;
	column->not_null = there->not_null;
	column->sequence = there->sequence;
	mosql_codec_setup(column);
	mosql_codec_setup_labels(column, there->labels, there->nlabels);
	mosql_key_setup(column);
	table->by_id[there->id] = attnum - 1;
	if (there->key_position >= 0)
		table->key_attnums[there->key_position] = attnum;
	if (there->missing.data != NULL)
		setup_missing(table, column, there->missing);
}

static void
allocate_columns(MosqlTable *table, const MosqlDefinition *definition)
{
	for (int i = 0; i < definition->ncolumns; i++)
	{
		table->nids = Max(table->nids, (int) definition->columns[i].id + 1);
		if (!definition->columns[i].dropped && definition->columns[i].key_position >= 0)
			table->nkeys++;
	}
	table->columns = palloc0(Max(table->natts, 1) * sizeof(MosqlTableColumn));
	table->key_attnums = palloc0(Max(table->nkeys, 1) * sizeof(AttrNumber));
	table->missing = palloc0(Max(table->natts, 1) * sizeof(AttrNumber));
	table->by_id = palloc(Max(table->nids, 1) * sizeof(int16));
	for (int i = 0; i < table->nids; i++)
		table->by_id[i] = -1;
}

/* Key positions that do not run from 0 to nkeys - 1. */
static void
check_key(const MosqlTable *table, const MosqlDefinition *definition)
{
	bool		sound = definition->hidden_row_id == (table->nkeys == 0);

	for (int i = 0; i < table->nkeys; i++)
		sound &= table->key_attnums[i] > 0;
	if (!sound)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged table definition in Redis"),
				 errdetail("The key columns of table \"%s.%s\" do not add up.",
						   definition->schema, definition->name)));
}

static void
describe_indexes(MosqlTable *table, const MosqlDefinition *definition)
{
	table->unique_key = true;
	table->nindexes = definition->nindexes;
	table->indexes = palloc0(Max(definition->nindexes, 1) * sizeof(MosqlIndex));
	for (int i = 0; i < definition->nindexes; i++)
		mosql_index_describe(table, definition, &definition->indexes[i], &table->indexes[i]);
	table->nbuilds = definition->nbuilds;
	table->builds = palloc0(Max(definition->nbuilds, 1) * sizeof(MosqlBuildLog));
	for (int i = 0; i < definition->nbuilds; i++)
	{
		const MosqlDefinitionBuild *there = &definition->builds[i];

		table->builds[i] = (MosqlBuildLog)
		{
			.id = there->id, .root = there->log, .closing = there->closing
		};
		mosql_index_describe(table, definition, &there->index, &table->builds[i].index);
		table->closing |= there->closing;
	}
}

/* Everything in the current context; local and stored definition agree. */
static MosqlTable *
build_table(Relation rel, MosqlSession *session, const MosqlDefinition *definition)
{
	TupleDesc	desc = RelationGetDescr(rel);
	MosqlTable *table = palloc0(sizeof(MosqlTable));

	table->relid = RelationGetRelid(rel);
	table->session = session;
	table->root = definition->root;
	table->id = definition->id;
	table->natts = desc->natts;
	allocate_columns(table, definition);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		const MosqlDefinitionColumn *there;

		table->columns[i].key_position = -1;
		if (att->attisdropped)
			continue;
		there = mosql_definition_column(definition, NameStr(att->attname));
		if (there != NULL)		/* virtual generated columns are not stored */
		{
			MosqlTableColumn *column = &table->columns[i];

			if (there->key_position >= table->nkeys)
				break;			/* check_key() says so */
			column->type = att->atttypid;
			column->typmod = att->atttypmod;
			column->collation = att->attcollation;
			setup_column(table, there, att->attnum);
		}
	}
	check_key(table, definition);
	mosql_table_copy_references(table, definition);
	describe_indexes(table, definition);
	return table;
}

void
mosql_table_find_type(const char *name, Oid *type, int32 *typmod)
{
#if PG_VERSION_NUM >= 160000
	(void) parseTypeString(name, type, typmod, NULL);
#else
	parseTypeString(name, type, typmod, false);
#endif
}

MosqlTable *
mosql_table_of_definition(MosqlSession *session, const MosqlDefinition *definition)
{
	MosqlTable *table = palloc0(sizeof(MosqlTable));

	table->session = session;
	table->root = definition->root;
	table->tree = mosql_session_tree(session, definition->root);
	table->id = definition->id;
	table->natts = definition->ncolumns;
	allocate_columns(table, definition);
	for (int i = 0; i < definition->ncolumns; i++)
	{
		MosqlTableColumn *column = &table->columns[i];

		column->key_position = -1;
		if (definition->columns[i].dropped)
			continue;
		mosql_table_find_type(definition->columns[i].type, &column->type, &column->typmod);
		column->collation = get_typcollation(column->type);
		if (definition->columns[i].key_position >= table->nkeys)
			break;
		setup_column(table, &definition->columns[i], i + 1);
	}
	check_key(table, definition);
	describe_indexes(table, definition);
	return table;
}

/* ---- opening ---- */

void
mosql_table_missing(Relation rel, const char *schema, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_TABLE),
			 errmsg("table \"%s.%s\" of foreign table \"%s\" does not exist in Redis",
					schema, name, RelationGetRelationName(rel)),
			 errdetail("It was dropped by another server, or never created there because event triggers were off."),
			 errhint("Drop the foreign table and create it again. If the namespace or nodes of its server, or the table's schema_name or table_name, were changed, set them back instead.")));
}

MosqlDefinition *
mosql_definition_of(Relation rel, MosqlSession *session)
{
	const char *schema;
	const char *name;

	mosql_table_remote_name(rel, &schema, &name);
	return mosql_table_definition(session, schema, name);
}

MosqlDefinition *
mosql_definition_of_existing(Relation rel, MosqlSession *session)
{
	MosqlDefinition *definition = mosql_definition_of(rel, session);
	const char *schema;
	const char *name;

	if (definition == NULL)
	{
		mosql_table_remote_name(rel, &schema, &name);
		mosql_table_missing(rel, schema, name);
	}
	return definition;
}

void
mosql_table_differs(Relation rel, const char *difference)
{
	const char *schema;
	const char *name;

	mosql_table_remote_name(rel, &schema, &name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("foreign table \"%s\" differs from table \"%s.%s\" in Redis",
					RelationGetRelationName(rel), schema, name),
			 errdetail_internal("%s", difference),
			 errhint("Another server changed it: SELECT mosql_fdw_refresh('%s') makes this one the same.",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												RelationGetRelationName(rel)))));
}

static void
check_agreement(Relation rel, const MosqlDefinition *there)
{
	char	   *difference = mosql_definition_difference(mosql_definition_describe(rel), there);

	if (difference != NULL)
		mosql_table_differs(rel, difference);
}

/*
 * The running statement may still use the table: its memory lives on until the
 * end of the transaction.
 */
static void
retire(TableEntry *entry)
{
	if (entry->cxt != NULL)
		MemoryContextSetParent(entry->cxt, TopTransactionContext);
	entry->cxt = NULL;
	entry->table = NULL;
	entry->used_in = 0;
}

static void
rebuild(TableEntry *entry, Relation rel, MosqlSession *session, const MosqlDefinition *definition)
{
	MemoryContext cxt;
	MemoryContext old;

	retire(entry);
	check_agreement(rel, definition);

	/* a child of the current context until it is complete */
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql table", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(cxt);
	entry->table = build_table(rel, session, definition);
	entry->key = mosql_bytes_copy(cxt, mosql_catalog_key(definition->schema, definition->name));
	entry->definition = mosql_bytes_copy(cxt, definition->bytes);
	entry->table->definition = entry->definition;
	entry->table->key = entry->key;
	MemoryContextSwitchTo(old);

	MemoryContextSetParent(cxt, mosql_session_context(session));
	entry->cxt = cxt;
}

/*
 * Work of one load, thrown away at its end.  planned: by a statement that has its plan
 * already; 40001 if that does not fit the definition.
 */
static void
load(TableEntry *entry, Relation rel, MosqlSession *session, bool planned)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql table definition",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MosqlDefinition *definition;
	uint64		schema;

	schema = mosql_session_schema_read(session);	/* before: it is not newer than what is read */

	/*
	 * Race -- an invalidation that arrives while we build must count: so the
	 * entry is valid from here on, not from the end.  What was built before an
	 * earlier one goes first, lest an error below leaves it looking valid.
	 */
	if (!entry->valid)
		retire(entry);
	entry->valid = true;
	mosql_wording_share(RelationGetRelid(rel));
	definition = mosql_definition_of_existing(rel, session);
	if (!note_planned(entry, session, definition->bytes) && planned &&
		!mosql_table_is_own_change(session, definition))
		mosql_table_report_stale_plan();
	if (entry->table == NULL || !mosql_bytes_equal(entry->definition, definition->bytes))
		rebuild(entry, rel, session, definition);
	mosql_wording_unshare(RelationGetRelid(rel));
	/* this order: if asking fails, it is asked again */
	entry->table->locked = definition->claimed && mosql_table_is_locked(session, entry->key);
	entry->table->schema = schema;
	entry->table->compression = mosql_table_compression(RelationGetRelid(rel));
	entry->table->together = mosql_table_is_together(RelationGetRelid(rel));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/*
 * Before a table is added: those of relations that are gone, or have changed and
 * were not used since, are thrown out whenever their number has doubled.
 */
static void
sweep(TableCache *cache)
{
	HASH_SEQ_STATUS scan;
	TableEntry *entry;

	if (hash_get_num_entries(cache->tables) < cache->sweep_at)
		return;
	hash_seq_init(&scan, cache->tables);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->valid || entry->used_in == mosql_table_uses())
			continue;
		retire(entry);
		forget_planned(entry);
		(void) hash_search(cache->tables, &entry->relid, HASH_REMOVE, NULL);
	}
	cache->sweep_at = Max(SWEEP_MIN_TABLES, 2 * hash_get_num_entries(cache->tables));
}

/* A tree of a table, told what its options say. */
static MosqlTree *
told_tree(const MosqlTable *table, uint64 root)
{
	MosqlTree  *tree = mosql_session_tree(table->session, root);

	mosql_btree_set_loads(tree, table->compression);
	mosql_btree_set_together(tree, table->together);
	return tree;
}

/* Handles of trees are good for a transaction. */
static void
attach_trees(MosqlTable *table)
{
	table->tree = told_tree(table, table->root);
	for (int i = 0; i < table->nindexes; i++)
		table->indexes[i].entries->tree = told_tree(table, table->indexes[i].entries->root);
	for (int i = 0; i < table->nbuilds; i++)
		table->builds[i].tree = mosql_session_tree(table->session, table->builds[i].root);
}

static MosqlTable *
open_table(Relation rel, MosqlSession *session, bool planned)
{
	TableCache *cache = session_cache(session);
	Oid			relid = RelationGetRelid(rel);
	TableEntry *entry;
	bool		found;

	sweep(cache);
	/*
	 * Now, also where a plan alone is made: a transaction that fails for a table that
	 * changed makes the next one ask for the schema version.
	 */
	(void) mosql_txn_begin_statement(session);
	entry = hash_search(cache->tables, &relid, HASH_ENTER, &found);
	if (!found)
		memset((char *) entry + sizeof(Oid), 0, sizeof(TableEntry) - sizeof(Oid));
	if (entry->table == NULL || !entry->valid ||
		entry->table->schema != mosql_session_schema_read(session))
		load(entry, rel, session, planned);

	note_use(session, entry);
	attach_trees(entry->table);
	return entry->table;
}

MosqlTable *
mosql_table_open(Relation rel, MosqlSession *session)
{
	return open_table(rel, session, false);
}

MosqlTable *
mosql_table_open_planned(Relation rel, MosqlSession *session)
{
	return open_table(rel, session, true);
}

/*
 * See table.h.  Nothing is noted as used: the leader has done so.  Other indexes are left out: one
 * that this server cannot compute is an error in a worker, which has no subtransactions.
 */
MosqlTable *
mosql_table_shared(Relation rel, MosqlSession *session, MosqlBytes bytes, int index)
{
	MosqlDefinition *definition = mosql_definition_decode(bytes, 0);
	MosqlTable *table;
	int			n = 0;

	for (int i = 0; i < definition->nindexes; i++)
		if ((int) definition->indexes[i].id == index)
			definition->indexes[n++] = definition->indexes[i];
	definition->nindexes = n;
	definition->nbuilds = 0;
	table = build_table(rel, session, definition);
	table->key = mosql_catalog_key(definition->schema, definition->name);
	table->definition = bytes;
	table->mode = palloc0(sizeof(int));
	attach_trees(table);
	return table;
}

void
mosql_table_init(void)
{
	CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
	mosql_table_used_init();
	mosql_txn_schema_changed = mosql_table_label_changed;
	mosql_build_init();
}
