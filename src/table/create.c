/*
 * create.c: creating, attaching, dropping and emptying tables.
 *
 * Layer: table.  All of it is part of the current transaction: definitions are
 * rows, and trees that a transaction made or dropped go when its outcome is
 * known.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_foreign_table.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "table/table_int.h"

/* ---- CREATE ---- */

void
mosql_definition_check_key(Form_pg_attribute att, bool of_index)
{
	MosqlTableColumn column = {0};
	const char *refusal = NULL;

	column.typmod = att->atttypmod;
	column.type = getBaseTypeAndTypmod(att->atttypid, &column.typmod);
	column.collation = att->attcollation;
#if PG_VERSION_NUM >= 180000
	if (att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" cannot be part of a key", NameStr(att->attname)),
				 errdetail("Virtual generated columns are not stored."),
				 errhint("Declare the column GENERATED ALWAYS AS (...) STORED.")));
#endif
	refusal = mosql_key_refusal(&column, of_index);
	if (refusal != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" cannot be part of a key", NameStr(att->attname)),
				 errdetail_internal("%s", refusal),
				 errhint("%s", mosql_key_hint(column.type, quote_identifier(NameStr(att->attname)), of_index))));
}

static void
check_key(Relation rel)
{
	AttrNumber	key[INDEX_MAX_KEYS];
	int			nkeys = mosql_table_key_columns(rel, key);

	if (nkeys > MOSQL_KEY_MAX_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("a key can have at most %d columns", MOSQL_KEY_MAX_COLUMNS)));
	for (int i = 0; i < nkeys; i++)
		mosql_definition_check_key(TupleDescAttr(RelationGetDescr(rel), key[i] - 1), false);
}

/* The columns of a new table; one that is there already may have such. */
static void
check_types(Relation rel, const MosqlDefinition *definition)
{
	for (int i = 0; i < definition->ncolumns; i++)
	{
		AttrNumber	attnum = get_attnum(RelationGetRelid(rel), definition->columns[i].name);

		mosql_type_check_names(TupleDescAttr(RelationGetDescr(rel), attnum - 1));
	}
}

/*
 * A new empty tree, which goes again if the transaction fails.  If it breaks
 * off before it is noted, it is an orphan that mosql_fdw_check() does not see,
 * of a few hundred bytes.
 */
uint64
mosql_table_create_tree(MosqlSession *session, bool together)
{
	MosqlTxn   *txn = mosql_txn_current(session);	/* settles the session's id */
	uint64		root = mosql_session_new_root(session);

	if (!mosql_btree_create(mosql_session_store(session), root, together))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("node id " UINT64_FORMAT " exists already in Redis", root),
				 errdetail("Ids are unique unless the clock's counters were lost or set back.")));
	mosql_txn_created_tree(txn, root);
	return root;
}

static void
create_definition(Relation rel, MosqlSession *session, MosqlDefinition *definition)
{
	definition->id = mosql_session_new_id(session);
	for (int i = 0; i < definition->ncolumns; i++)
		definition->columns[i].id = i + 1;
	definition->next_column = definition->ncolumns + 1;
	definition->root = mosql_table_create_tree(session, mosql_table_is_together(RelationGetRelid(rel)));
	mosql_definition_insert(session, definition);
}

static List *
missing_options(List *options, List *given, const char *name, const char *value)
{
	ListCell   *cell;

	foreach(cell, given)
		if (strcmp(((DefElem *) lfirst(cell))->defname, name) == 0)
			return options;
	return lappend(options, makeDefElemExtended(NULL, pstrdup(name),
												(Node *) makeString(pstrdup(value)),
												DEFELEM_ADD, -1));
}

void
mosql_table_set_name(Relation rel, const char *schema, const char *name)
{
	Oid			relid = RelationGetRelid(rel);
	List	   *given = GetForeignTable(relid)->options;
	List	   *options = NIL;
	Relation	catalog;
	HeapTuple	tuple;
	Datum		datum;
	bool		isnull;
	Datum		values[Natts_pg_foreign_table] = {0};
	bool		nulls[Natts_pg_foreign_table] = {0};
	bool		replaces[Natts_pg_foreign_table] = {0};

	options = missing_options(options, given, "schema_name", schema);
	options = missing_options(options, given, "table_name", name);
	if (options == NIL)
		return;

	catalog = table_open(ForeignTableRelationId, RowExclusiveLock);
	tuple = SearchSysCacheCopy1(FOREIGNTABLEREL, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for foreign table %u", relid);
	datum = SysCacheGetAttr(FOREIGNTABLEREL, tuple, Anum_pg_foreign_table_ftoptions, &isnull);
	datum = transformGenericOptions(ForeignTableRelationId,
									isnull ? PointerGetDatum(NULL) : datum, options, InvalidOid);
	values[Anum_pg_foreign_table_ftoptions - 1] = datum;
	replaces[Anum_pg_foreign_table_ftoptions - 1] = true;
	tuple = heap_modify_tuple(tuple, RelationGetDescr(catalog), values, nulls, replaces);
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	table_close(catalog, RowExclusiveLock);
	CacheInvalidateRelcache(rel);
	CommandCounterIncrement();
}

void
mosql_table_pin_name(Relation rel)
{
	const char *schema;
	const char *name;

	mosql_table_remote_name(rel, &schema, &name);
	mosql_table_set_name(rel, schema, name);
}

/*
 * Would they be the same if these columns here were key columns, too?  So it is
 * while a dump is restored: it makes the table first, and says one by one which
 * columns are its key.
 */
bool
mosql_definition_lacks_only_keys(const MosqlDefinition *here, const MosqlDefinition *there)
{
	MosqlDefinition keyed = *here;
	size_t		size = here->ncolumns * sizeof(MosqlDefinitionColumn);

	keyed.columns = palloc(size + 1);
	memcpy(keyed.columns, here->columns, size);
	for (int i = 0; i < keyed.ncolumns; i++)
	{
		const MosqlDefinitionColumn *theirs = mosql_definition_column(there, keyed.columns[i].name);

		if (theirs != NULL && theirs->key_position >= 0)
			keyed.columns[i].key_position = theirs->key_position;
	}
	return mosql_definition_difference(&keyed, there) == NULL;
}

/* There is a table of that name: 42P16 unless it is this one. */
static void
attach(Relation rel, MosqlSession *session, const MosqlDefinition *here, MosqlDefinition *there)
{
	char	   *difference = mosql_definition_difference(here, there);

	if (difference != NULL && here->hidden_row_id && mosql_definition_lacks_only_keys(here, there))
		ereport(NOTICE,
				(errmsg("foreign table \"%s\" cannot be used before it has the key columns of the table in Redis",
						RelationGetRelationName(rel)),
				 errdetail_internal("%s", difference),
				 errhint("Use ALTER FOREIGN TABLE ... ALTER COLUMN ... OPTIONS (ADD key 'true').")));
	else if (difference != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("table \"%s.%s\" exists in Redis with another definition",
						here->schema, here->name),
				 errdetail_internal("%s", difference),
				 errhint("Use IMPORT FOREIGN SCHEMA, or name another table in the options schema_name and table_name.")));
	if (mosql_definition_add_labels(there, here))
		mosql_table_write_definition(rel, session, there);
}

bool
mosql_table_create(Relation rel, MosqlSession *session)
{
	MosqlDefinition *here = mosql_definition_describe(rel);
	MosqlDefinition *there;

	check_key(rel);
	there = mosql_table_definition(session, here->schema, here->name);
	if (there == NULL)
	{
		check_types(rel, here);
		create_definition(rel, session, here);
	}
	else
		attach(rel, session, here, there);
	mosql_table_pin_name(rel);
	return there == NULL;
}

/* ---- DROP and TRUNCATE ---- */

void
mosql_table_drop(Relation rel, MosqlSession *session)
{
	MosqlDefinition *there = mosql_definition_of(rel, session);
	char	   *difference;

	if (there == NULL)
		return;					/* another server was faster */
	difference = mosql_definition_difference(mosql_definition_describe(rel), there);
	if (difference != NULL)
	{
		/* perhaps not even the table that this one was made for */
		ereport(WARNING,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("table \"%s.%s\" is kept in Redis, because foreign table \"%s\" differs from it",
						there->schema, there->name, RelationGetRelationName(rel)),
				 errdetail_internal("%s", difference),
				 errhint("To drop it too, use IMPORT FOREIGN SCHEMA, and drop the foreign table that you get.")));
		return;
	}
	mosql_table_forget_references(session, there);
	mosql_definition_delete(session, there);
	for (int i = 0; i < there->ncolumns; i++)
		mosql_definition_drop_sequence(session, &there->columns[i]);
	mosql_txn_drops_tree(mosql_txn_current(session), there->root);
	for (int i = 0; i < there->nindexes; i++)
		mosql_txn_drops_tree(mosql_txn_current(session), there->indexes[i].root);
	mosql_definition_remove_builds(session, there);
}

void
mosql_table_truncate(Relation rel, MosqlSession *session, bool restart)
{
	MosqlDefinition *there = mosql_definition_of_existing(rel, session);

	mosql_definition_replace_trees(rel, session, there);
	if (restart)
		mosql_definition_restart_sequences(session, there);
	mosql_table_write_definition(rel, session, there);
}
