/*
 * catalog.c: the definitions of tables, in Redis.
 *
 * Layer: table.  A system tree with the fixed root id MOSQL_CATALOG_ROOT holds
 * one row per table, read and written by the same transactions as all other
 * rows; definition.c knows its bytes.  A definition knows neither OIDs
 * nor attribute numbers, only names, so that it means the same to every
 * PostgreSQL server.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_foreign_table.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "table/table_int.h"

/* Kinds of catalog rows: the first byte of their keys. */
#define KIND_TABLE		"T"
#define KIND_SEQUENCE	"S"

/* ---- names ---- */

/* See definition.h. */
const char *
mosql_table_option(List *options, const char *name)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst(cell);

		if (strcmp(option->defname, name) == 0)
			return defGetString(option);
	}
	return NULL;
}

/* See definition.h. */
const char *
mosql_table_or_server_option(Oid relid, const char *name)
{
	const ForeignTable *table = GetForeignTable(relid);
	const char *said = mosql_table_option(table->options, name);

	return said != NULL ? said : mosql_table_option(GetForeignServer(table->serverid)->options, name);
}

void
mosql_table_remote_name(Relation rel, const char **schema, const char **name)
{
	List	   *options = GetForeignTable(RelationGetRelid(rel))->options;

	*schema = mosql_table_option(options, "schema_name");
	*name = mosql_table_option(options, "table_name");
	if (*schema == NULL)
		*schema = get_namespace_name(RelationGetNamespace(rel));
	if (*name == NULL)
		*name = pstrdup(RelationGetRelationName(rel));
}

/* Its place in the key; 0: somewhere before those with a place; -1: not in the key. */
static int
key_place(Oid relid, AttrNumber attnum)
{
	const char *value = mosql_table_option(GetForeignColumnOptions(relid, attnum), "key");
	bool		is_key;

	if (value == NULL)
		return -1;
	if (strspn(value, "0123456789") == strlen(value) && strcmp(value, "0") != 0)
		return pg_strtoint32(value);
	return parse_bool(value, &is_key) && is_key ? 0 : -1;
}

int
mosql_table_key_columns(Relation rel, AttrNumber *attnums)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			places[INDEX_MAX_KEYS];
	int			n = 0;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		int			place = att->attisdropped ? -1 : key_place(RelationGetRelid(rel), att->attnum);
		int			at = Min(n, INDEX_MAX_KEYS);

		if (place < 0)
			continue;
		n++;
		if (at == INDEX_MAX_KEYS)
			continue;
		for (; at > 0 && places[at - 1] > place; at--)
		{
			places[at] = places[at - 1];
			attnums[at] = attnums[at - 1];
		}
		places[at] = place;
		attnums[at] = att->attnum;
	}
	return n;
}

static MosqlBytes
utf8_name(const char *name)
{
	return mosql_text_to_utf8(name, strlen(name));
}

static MosqlBytes
catalog_key(const char *kind, const char *schema, const char *name)
{
	StringInfoData key;

	initStringInfo(&key);
	mosql_key_put_fixed(&key, kind, 1);
	if (schema != NULL)
		mosql_key_put_bytes(&key, utf8_name(schema));
	if (schema != NULL && name != NULL)
		mosql_key_put_bytes(&key, utf8_name(name));
	return mosql_bytes_of(&key);
}

MosqlBytes
mosql_catalog_key(const char *schema, const char *name)
{
	return catalog_key(KIND_TABLE, schema, name);
}

MosqlBytes
mosql_catalog_sequence_key(const char *schema, const char *name)
{
	return catalog_key(KIND_SEQUENCE, schema, name);
}

bool
mosql_catalog_is_sequence(MosqlBytes key)
{
	return key.len > 0 && key.data[0] == KIND_SEQUENCE[0];
}

/* "integer", "character varying(10)", "public.mood": says the same whatever
 * the search path. */
const char *
mosql_type_name(Oid type, int32 typmod)
{
	bool		quote_all = quote_all_identifiers;
	char	   *name;

	type = getBaseTypeAndTypmod(type, &typmod);
	quote_all_identifiers = false;	/* whose only error is one of the catalogs */
	name = format_type_extended(type, typmod,
								FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
	quote_all_identifiers = quote_all;
	return strncmp(name, "pg_catalog.", 11) == 0 ? name + 11 : name;
}

/* SETOF and %TYPE are no column's, and search paths differ: as with collations. */
void
mosql_type_oid(const char *name, Oid *type, int32 *typmod)
{
#if PG_VERSION_NUM >= 160000
	TypeName   *parsed = typeStringToTypeName(name, NULL);
#else
	TypeName   *parsed = typeStringToTypeName(name);
#endif

	if (parsed->setof || parsed->pct_type || parsed->names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged table definition in Redis"),
				 errdetail("This is no type of a column: %s", name)));
	if (list_length(parsed->names) == 1)
		parsed->names = lcons(makeString("pg_catalog"), parsed->names);
	typenameTypeIdAndMod(NULL, parsed, type, typmod);
}

/* As SQL writes it: "C", "en_US.utf8", "default", public.german. */
const char *
mosql_collation_name(Oid collation)
{
	HeapTuple	tuple;
	Form_pg_collation form;
	const char *name;

	if (!OidIsValid(collation))
		return "";
	tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	form = (Form_pg_collation) GETSTRUCT(tuple);
	if (form->collnamespace == PG_CATALOG_NAMESPACE)
		name = quote_identifier(pstrdup(NameStr(form->collname)));
	else
		name = quote_qualified_identifier(get_namespace_name(form->collnamespace),
										  NameStr(form->collname));
	ReleaseSysCache(tuple);
	return name;
}

Oid
mosql_collation_oid(const char *name)
{
	List	   *names;

	if (name[0] == '\0')
		return InvalidOid;
#if PG_VERSION_NUM >= 160000
	names = stringToQualifiedNameList(name, NULL);
#else
	names = stringToQualifiedNameList(name);
#endif
	if (list_length(names) == 1)
		names = lcons(makeString("pg_catalog"), names);
	return get_collation_oid(names, false);
}

/* ---- reading ---- */

MosqlTree *
mosql_catalog_tree(MosqlSession *session)
{
	return mosql_session_tree(session, MOSQL_CATALOG_ROOT);
}

MosqlTree *
mosql_catalog_made(MosqlSession *session)
{
	if (!mosql_catalog_exists(session))
		(void) mosql_btree_create(mosql_session_store(session), MOSQL_CATALOG_ROOT, false);
	return mosql_catalog_tree(session);
}

uint64
mosql_table_catalog_root(void)
{
	return MOSQL_CATALOG_ROOT;
}

/*
 * The view is this read's own: under READ COMMITTED it sees the latest
 * definition, not the running statement's snapshot.
 */
bool
mosql_catalog_get(MosqlSession *session, MosqlBytes key, MosqlRow *row)
{
	MosqlView  *view;

	if (!mosql_catalog_exists(session))
		return false;
	view = mosql_view_open(mosql_txn_current(session), row, GetCurrentCommandId(false), true);
	mosql_view_get(view, mosql_catalog_tree(session), &key, 1, row);
	mosql_view_close(view);
	return row->found;
}

void
mosql_catalog_scan(MosqlSession *session, MosqlBytes prefix, MosqlCatalogVisit visit, void *context)
{
	StringInfoData high;
	MosqlView  *view;
	MosqlRowScan *scan;
	MosqlRow	row = {0};

	if (!mosql_catalog_exists(session))
		return;
	initStringInfo(&high);
	appendBinaryStringInfo(&high, prefix.data, prefix.len);
	if (prefix.len > 0 && !mosql_key_after_prefix(&high))
		elog(ERROR, "catalog prefix has no end");

	view = mosql_view_open(mosql_txn_current(session), &row, GetCurrentCommandId(false), false);
	scan = mosql_view_scan_begin(view, mosql_catalog_tree(session), prefix,
								 prefix.len > 0 ? mosql_bytes_of(&high) : MOSQL_ABSENT, false, 0);
	while (mosql_view_scan_next(scan, &row))
		visit(&row, context);
	mosql_view_scan_end(scan);
	mosql_view_close(view);
}

MosqlDefinition *
mosql_table_definition(MosqlSession *session, const char *schema, const char *name)
{
	MosqlRow	row = {0};
	MosqlDefinition *definition;

	if (!mosql_catalog_get(session, mosql_catalog_key(schema, name), &row))
		return NULL;
	definition = mosql_definition_decode(row.columns, row.version);
	definition->claimed = row.claimed;
	return definition;
}

MosqlDefinition **
mosql_table_definitions_of(MosqlSession *session, const MosqlBytes *keys, int n)
{
	MosqlRow   *rows = palloc0(n * sizeof(MosqlRow));
	MosqlDefinition **definitions = palloc0(n * sizeof(MosqlDefinition *));
	MosqlView  *view;

	if (n == 0 || !mosql_catalog_exists(session))
		return definitions;
	view = mosql_view_open(mosql_txn_current(session), rows, GetCurrentCommandId(false), n == 1);
	mosql_view_get(view, mosql_catalog_tree(session), keys, n, rows);
	mosql_view_close(view);
	for (int i = 0; i < n; i++)
		if (rows[i].found)
		{
			definitions[i] = mosql_definition_decode(rows[i].columns, rows[i].version);
			definitions[i]->claimed = rows[i].claimed;
		}
	return definitions;
}

typedef struct Definitions
{
	MosqlDefinition *array;
	int			n;
	int			max;
} Definitions;

static void
add_sound_definition(const MosqlRow *row, void *context)
{
	Definitions *definitions = context;

	if (definitions->n == definitions->max)
	{
		definitions->max *= 2;
		definitions->array = repalloc(definitions->array,
									  definitions->max * sizeof(MosqlDefinition));
	}
	definitions->array[definitions->n++] = *mosql_definition_decode(row->columns, row->version);
}

/* One row, which may be damaged. */
typedef struct RowWork
{
	MosqlCatalogVisit visit;
	const MosqlRow *row;
	void	   *context;
} RowWork;

/* A MosqlTreeWork. */
static void
visit_row(void *arg)
{
	RowWork    *work = arg;

	work->visit(work->row, work->context);
}

/* Whether the row is sound; others are left out, with a WARNING. */
static bool
try_row(MosqlCatalogVisit visit, const MosqlRow *row, void *context)
{
	RowWork		work = {visit, row, context};
	const char *damage;

	if (mosql_session_try_tree_damage(visit_row, &work, &damage) == MOSQL_TREE_SOUND)
		return true;
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a damaged definition is left out"),
			 errdetail("%s", damage),
			 errhint("See docs/repair.md.")));
	return false;
}

static void
add_definition(const MosqlRow *row, void *context)
{
	(void) try_row(add_sound_definition, row, context);
}

/* Rows of both kinds. */
typedef struct Everything
{
	Definitions definitions;
	MosqlSequences sequences;
	int			damaged;
} Everything;

static void
add_sound_row(const MosqlRow *row, void *context)
{
	Everything *everything = context;

	if (mosql_catalog_is_sequence(row->key))
		mosql_sequences_add(row, &everything->sequences);
	else
		add_sound_definition(row, &everything->definitions);
}

static void
add_row(const MosqlRow *row, void *context)
{
	((Everything *) context)->damaged += !try_row(add_sound_row, row, context);
}

int
mosql_table_everything(MosqlSession *session, MosqlDefinition **definitions, int *ndefinitions,
					   MosqlNamedSequence **sequences, int *nsequences)
{
	Everything	all = {.definitions = {.max = 16},.sequences = {.max = 16}};

	all.definitions.array = palloc(all.definitions.max * sizeof(MosqlDefinition));
	all.sequences.array = palloc(all.sequences.max * sizeof(MosqlNamedSequence));
	mosql_catalog_scan(session, mosql_bytes("", 0), add_row, &all);
	*definitions = all.definitions.array;
	*ndefinitions = all.definitions.n;
	*sequences = all.sequences.array;
	*nsequences = all.sequences.n;
	return all.damaged;
}

int
mosql_table_definitions(MosqlSession *session, const char *schema, MosqlDefinition **definitions)
{
	Definitions all = {.max = 16};

	all.array = palloc(all.max * sizeof(MosqlDefinition));
	mosql_catalog_scan(session, mosql_catalog_key(schema, NULL), add_definition, &all);
	*definitions = all.array;
	return all.n;
}

/* ---- the local relation ---- */

static bool
is_stored(Form_pg_attribute att)
{
	if (att->attisdropped)
		return false;
#if PG_VERSION_NUM >= 180000
	if (att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
		return false;
#endif
	return true;
}

static void
describe_type(MosqlDefinitionColumn *column, Form_pg_attribute att)
{
	Oid			labelled = mosql_type_enum(att->atttypid);

	column->type = mosql_type_name(att->atttypid, att->atttypmod);
	column->collation = mosql_collation_name(att->attcollation);
	if (OidIsValid(labelled))
		column->nlabels = mosql_type_labels(labelled, &column->labels);
	column->shape = mosql_type_shape(att->atttypid, false);
	if (column->shape != NULL)
		column->layout = mosql_type_shape(att->atttypid, true);
}

MosqlDefinition *
mosql_definition_describe(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	MosqlDefinition *definition = palloc0(sizeof(MosqlDefinition));
	AttrNumber	key[INDEX_MAX_KEYS];
	int			nkeys = mosql_table_key_columns(rel, key);

	mosql_table_remote_name(rel, &definition->schema, &definition->name);
	definition->columns = palloc0(Max(desc->natts, 1) * sizeof(MosqlDefinitionColumn));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		MosqlDefinitionColumn *column = &definition->columns[definition->ncolumns];

		if (!is_stored(att))
			continue;
		definition->ncolumns++;
		column->name = pstrdup(NameStr(att->attname));
		describe_type(column, att);
		column->not_null = att->attnotnull;
		column->key_position = -1;
		for (int j = 0; j < Min(nkeys, INDEX_MAX_KEYS); j++)
			if (key[j] == att->attnum)
				column->key_position = j;
	}
	definition->hidden_row_id = nkeys == 0;
	return definition;
}

MosqlDefinitionColumn *
mosql_definition_column(const MosqlDefinition *definition, const char *name)
{
	for (int i = 0; i < definition->ncolumns; i++)
	{
		MosqlDefinitionColumn *column = &definition->columns[i];

		if (!column->dropped && strcmp(column->name, name) == 0)
			return column;
	}
	return NULL;
}

bool
mosql_definition_check_holds(const MosqlDefinition *definition,
							 const MosqlDefinitionCheck *check)
{
	for (int i = 0; i < check->ncolumns; i++)
	{
		bool		there = false;

		for (int j = 0; j < definition->ncolumns; j++)
			there |= definition->columns[j].id == check->columns[i] &&
				!definition->columns[j].dropped;
		if (!there)
			return false;
	}
	return true;
}

MosqlDefinitionIndex *
mosql_definition_index(const MosqlDefinition *definition, const char *name)
{
	for (int i = 0; i < definition->nindexes; i++)
		if (strcmp(definition->indexes[i].name, name) == 0)
			return &definition->indexes[i];
	return NULL;
}

/* Not of pg_catalog: qualified. */
static bool
is_local_type(const char *name)
{
	return strchr(name, '.') != NULL;
}

char *
mosql_definition_column_difference(const MosqlDefinitionColumn *here,
								   const MosqlDefinitionColumn *there)
{
	if (strcmp(here->type, there->type) != 0)
		return psprintf(is_local_type(here->type) && is_local_type(there->type)
						? "Column \"%s\" has type %s here and %s there: if it was renamed, ALTER TYPE makes them the same."
						: "Column \"%s\" has type %s here and %s there.",
						here->name, here->type, there->type);
	if (here->shape != NULL && there->shape != NULL && strcmp(here->shape, there->shape) != 0)
		return psprintf("Column \"%s\" has attributes %s here and %s there: ALTER TYPE makes them the same.",
						here->name, here->shape, there->shape);
	if (strcmp(here->collation, there->collation) != 0)
		return psprintf("Column \"%s\" has collation %s here and %s there.",
						here->name, here->collation, there->collation);
	if ((here->key_position >= 0) != (there->key_position >= 0))
		return psprintf(here->key_position >= 0 ? "Column \"%s\" is part of the key only here."
						: "Column \"%s\" is part of the key only there.", here->name);
	return NULL;
}

char *
mosql_definition_difference(const MosqlDefinition *here, const MosqlDefinition *there)
{
	for (int i = 0; i < here->ncolumns; i++)
	{
		const MosqlDefinitionColumn *mine = &here->columns[i];
		const MosqlDefinitionColumn *theirs = mosql_definition_column(there, mine->name);
		char	   *difference;

		if (theirs == NULL)
			return psprintf("Column \"%s\" exists only here.", mine->name);
		difference = mosql_definition_column_difference(mine, theirs);
		if (difference != NULL)
			return difference;
	}
	for (int i = 0; i < there->ncolumns; i++)
	{
		const MosqlDefinitionColumn *theirs = &there->columns[i];

		if (!theirs->dropped && mosql_definition_column(here, theirs->name) == NULL)
			return psprintf("Column \"%s\", of type %s, exists only there.",
							theirs->name, theirs->type);
	}
	return NULL;
}

/* ---- writing ---- */

static void
report_changed(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("the definition of this table was already changed by the same command")));
}

/*
 * A definition that this command changed is visible to the commands after it;
 * several changes in one statement (DROP COLUMN a, DROP COLUMN b) build on
 * each other only if each ends its command.
 */
static void
changed(MosqlSession *session, MosqlBytes key, MosqlBytes bytes, MosqlWriteResult result)
{
	if (result != MOSQL_WRITTEN)
		report_changed();
	mosql_txn_changes_schema(mosql_txn_current(session));
	mosql_table_note_change(session, key, bytes);
	CommandCounterIncrement();
}

/* What it changes may be another one than it has relied on: 40001, unless that is as good. */
static void
check_relied(MosqlSession *session, MosqlBytes key)
{
	MosqlRow	row = {0};

	if (!mosql_table_relies(session, key))
		return;
	(void) mosql_catalog_get(session, key, &row);
	mosql_table_note_use(session, key, row.columns);
}

void
mosql_catalog_insert(MosqlSession *session, MosqlBytes key, MosqlBytes row)
{
	MosqlTree  *tree = mosql_catalog_made(session);

	changed(session, key, row,
			mosql_txn_insert(mosql_txn_current(session), tree, key, row, GetCurrentCommandId(true),
							 MOSQL_KEY_NEW));
}

void
mosql_catalog_update(MosqlSession *session, MosqlBytes key, MosqlTimestamp version, MosqlBytes row)
{
	check_relied(session, key);
	changed(session, key, row,
			mosql_txn_update(mosql_txn_current(session), mosql_catalog_tree(session), key, version,
							 row, GetCurrentCommandId(true)));
}

void
mosql_catalog_delete(MosqlSession *session, MosqlBytes key, MosqlTimestamp version)
{
	check_relied(session, key);
	changed(session, key, MOSQL_ABSENT,
			mosql_txn_delete(mosql_txn_current(session), mosql_catalog_tree(session), key, version,
							 GetCurrentCommandId(true)));
}

void
mosql_definition_insert(MosqlSession *session, MosqlDefinition *definition)
{
	MosqlBytes	key = mosql_catalog_key(definition->schema, definition->name);

	if (key.len > MOSQL_KEY_MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("options schema_name and table_name are too long")));
	mosql_definition_encode(definition);
	mosql_catalog_insert(session, key, definition->bytes);
}

void
mosql_definition_update(MosqlSession *session, MosqlDefinition *definition)
{
	mosql_definition_encode(definition);
	mosql_catalog_update(session, mosql_catalog_key(definition->schema, definition->name),
						 definition->version, definition->bytes);
}

/* No schema change, and none to note: the bytes are the same. */
void
mosql_definition_touch(MosqlSession *session, const MosqlDefinition *definition)
{
	if (mosql_txn_update(mosql_txn_current(session), mosql_catalog_tree(session),
						 mosql_catalog_key(definition->schema, definition->name),
						 definition->version, definition->bytes,
						 GetCurrentCommandId(true)) != MOSQL_WRITTEN)
		report_changed();
	CommandCounterIncrement();
}

void
mosql_definition_delete(MosqlSession *session, const MosqlDefinition *definition)
{
	mosql_catalog_delete(session, mosql_catalog_key(definition->schema, definition->name),
						 definition->version);
}
