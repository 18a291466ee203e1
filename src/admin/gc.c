/*
 * gc.c: mosql_fdw_gc: this database's catalog against the one in Redis.
 *
 * Layer: admin.  A table in Redis that is unknown here may be any other server's, so
 * nothing is removed there; and a foreign table whose table is gone is its owner's to
 * drop.  Indexes are brought here without asking, since they are maintained in any
 * case and only shown by the catalog.  Sequences of columns are parts of tables'
 * definitions, so there are none whose table is gone; others are compared
 * by name.  Trees that no definition names are listed as the last sweep found them
 * (txn/sweep.c): what maintenance takes away at once is not among them.
 */
#include "postgres.h"

#include <inttypes.h>

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "admin/admin.h"
#include "fdw/reference.h"
#include "step/clock_keep.h"

PG_FUNCTION_INFO_V1(mosql_fdw_gc);

typedef struct Gc
{
	ReturnSetInfo *result;
	int			n;
	MosqlDefinition *definitions;	/* all that are in Redis */
	bool	   *known;			/* [n] there is a foreign table for it here */
} Gc;

static void
put(Gc *gc, const char *kind, const char *name, const char *finding, const char *action)
{
	Datum		values[4] = {
		CStringGetTextDatum(kind), CStringGetTextDatum(name), CStringGetTextDatum(finding),
		CStringGetTextDatum(action)
	};
	bool		nulls[4] = {false};

	tuplestore_putvalues(gc->result->setResult, gc->result->setDesc, values, nulls);
}

static char *
local_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

static char *
remote_name(const MosqlDefinition *definition)
{
	return quote_qualified_identifier(definition->schema, definition->name);
}

/* The definition behind a foreign table; NULL if it is gone. */
static const MosqlDefinition *
find_definition(Gc *gc, Relation rel)
{
	const char *schema;
	const char *name;

	mosql_table_remote_name(rel, &schema, &name);
	for (int i = 0; i < gc->n; i++)
		if (strcmp(gc->definitions[i].schema, schema) == 0 &&
			strcmp(gc->definitions[i].name, name) == 0)
		{
			gc->known[i] = true;
			return &gc->definitions[i];
		}
	return NULL;
}

/* ---- indexes ---- */

/* The names of the table's secondary indexes here. */
static List *
local_indexes(Relation rel)
{
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, mosql_admin_secondary_indexes(rel))
		names = lappend(names, get_rel_name(lfirst_oid(cell)));
	return names;
}

static bool
is_among(const List *names, const char *name)
{
	ListCell   *cell;

	foreach(cell, names)
		if (strcmp(lfirst(cell), name) == 0)
			return true;
	return false;
}

static void
check_indexes(Gc *gc, Relation rel, const MosqlDefinition *there)
{
	Oid			relid = RelationGetRelid(rel);
	bool		mine = mosql_admin_owns(relid);
	List	   *here = local_indexes(rel);
	List	   *after;
	bool	   *shown = palloc(Max(there->nindexes, 1) * sizeof(bool));
	bool		differs = false;
	ListCell   *cell;

	foreach(cell, here)
		differs |= mosql_definition_index(there, lfirst(cell)) == NULL;
	for (int i = 0; i < there->nindexes; i++)
	{
		shown[i] = mosql_admin_shows_index(rel, there, &there->indexes[i]);
		differs |= !shown[i];
	}
	if (!differs)
		return;
	if (mine)
	{
		/* as CREATE INDEX and DROP INDEX would; released with the transaction */
		LockRelationOid(relid, AccessExclusiveLock);
		mosql_admin_check_owner(relid);
		mosql_admin_follow_indexes(relid);
		CommandCounterIncrement();
	}
	after = local_indexes(rel);
	foreach(cell, here)
		if (mosql_definition_index(there, lfirst(cell)) == NULL)
			put(gc, "index", lfirst(cell),
				psprintf("it is no longer in Redis, on table %s", local_name(relid)),
				!is_among(after, lfirst(cell)) ? "removed here" : "none: you do not own the table");
	for (int i = 0; i < there->nindexes; i++)
		if (!shown[i])
			put(gc, "index", there->indexes[i].name,
				psprintf(is_among(here, there->indexes[i].name)
						 ? "it is another one in Redis, on table %s"
						 : "it is not shown here, on table %s", local_name(relid)),
				mosql_admin_shows_index(rel, there, &there->indexes[i]) ? "shown here" :
				!mine ? "none: you do not own the table" :
				OidIsValid(get_relname_relid(there->indexes[i].name, RelationGetNamespace(rel)))
				? "none: there is another relation of that name"
				: "none: this server cannot compute it");
}

/* ---- foreign keys ---- */

static void
check_foreign_keys(Gc *gc, Relation rel, const MosqlDefinition *there)
{
	Oid			relid = RelationGetRelid(rel);
	ListCell   *cell;

	foreach(cell, mosql_foreign_keys(relid))
	{
		const MosqlForeignKey *key = lfirst(cell);

		if (key->child == relid && mosql_definition_reference(there, NameStr(key->name)) == NULL)
			put(gc, "foreign key", pstrdup(NameStr(key->name)),
				psprintf("it is no longer in Redis, on table %s", local_name(relid)),
				"none: mosql_fdw_refresh()");
	}
	for (int i = 0; i < there->nreferences; i++)
	{
		const MosqlDefinitionReference *reference = &there->references[i];

		if (!mosql_admin_knows_foreign_key(relid, there, reference))
			put(gc, "foreign key", reference->name,
				psprintf("it is not known here, on table %s", local_name(relid)),
				psprintf("none: mosql_fdw_refresh(), once table %s is here",
						 quote_qualified_identifier(reference->schema, reference->table)));
	}
}

/* ---- sequences ---- */

static bool
has_sequence(Relation rel, const char *column)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), column);
	ListCell   *cell;

	foreach(cell, getOwnedSequences(RelationGetRelid(rel)))
	{
		Oid			relid;
		AttrNumber	owner;
		bool		identity;

		if (mosql_fdw_sequence_owner(lfirst_oid(cell), &relid, &owner, &identity) &&
			owner == attnum)
			return true;
	}
	return false;
}

static void
check_sequences(Gc *gc, Relation rel, const MosqlDefinition *there)
{
	for (int i = 0; i < there->ncolumns; i++)
	{
		const MosqlDefinitionColumn *column = &there->columns[i];

		if (!column->dropped && column->sequence.counter != 0 && !has_sequence(rel, column->name))
			put(gc, "sequence",
				psprintf("%s.%s", local_name(RelationGetRelid(rel)), quote_identifier(column->name)),
				"the column has a sequence in Redis, and none here", "none: mosql_fdw_refresh()");
	}
}

/* Those that no column owns. */
static void
check_named_sequences(Gc *gc, MosqlSession *session, Oid serverid)
{
	MosqlNamedSequence *there;
	int			n = mosql_named_sequences(session, &there);
	bool	   *known = palloc0(Max(n, 1) * sizeof(bool));
	ListCell   *cell;

	foreach(cell, mosql_fdw_shared_sequences(serverid))
	{
		Oid			seqid = lfirst_oid(cell);
		const char *schema = get_namespace_name(get_rel_namespace(seqid));
		const char *name = get_rel_name(seqid);
		const MosqlNamedSequence *found;

		if (schema == NULL || name == NULL)
			continue;			/* dropped meanwhile */
		found = mosql_named_sequence(session, schema, name);
		for (int i = 0; found != NULL && i < n; i++)
			known[i] |= there[i].sequence.counter == found->sequence.counter;
		if (found == NULL)
			put(gc, "sequence", local_name(seqid), "it is no longer in Redis",
				"none: DROP SEQUENCE; or ALTER SEQUENCE, OWNED BY if it is a column's now, RESTART WITH to make it again");
	}
	for (int i = 0; i < n; i++)
		if (!known[i])
			put(gc, "sequence", quote_qualified_identifier(there[i].schema, there[i].name),
				"it is in Redis, and there is no sequence for it here",
				"none: IMPORT FOREIGN SCHEMA shows it with a table that draws from it");
}

/* ---- tables ---- */

static void
check_table(Gc *gc, Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	const MosqlDefinition *there = rel == NULL ? NULL : find_definition(gc, rel);
	char	   *difference;

	if (rel == NULL)
		return;					/* dropped meanwhile */
	if (there == NULL)
		put(gc, "table", local_name(relid), "its table is no longer in Redis",
			"none: DROP FOREIGN TABLE, if you do not need it");
	else
	{
		difference = mosql_definition_difference(mosql_definition_describe(rel), there);
		if (difference != NULL)
			put(gc, "table", local_name(relid), difference, "none: mosql_fdw_refresh()");
		else
		{
			check_indexes(gc, rel, there);
			check_foreign_keys(gc, rel, there);
			check_sequences(gc, rel, there);
		}
	}
	relation_close(rel, NoLock);
}

/* ---- trees that no definition names ---- */

/* What is in a tree. */
typedef struct TreeSize
{
	MosqlNodeStore *store;
	MosqlTree  *tree;
	bool		exists;
	double		rows;
	double		row_bytes;
	double		leaves;
	int			levels;
} TreeSize;

/* A MosqlTreeWork. */
static void
measure(void *arg)
{
	TreeSize   *size = arg;

	size->exists = mosql_btree_exists(size->store, mosql_btree_root(size->tree));
	if (size->exists)
		mosql_btree_estimate(size->tree, &size->rows, &size->row_bytes, &size->leaves, &size->levels);
}

/* With what is known of it, whatever is damaged. */
static char *
describe_tree(MosqlSession *session, const MosqlUnnamedTree *tree)
{
	TreeSize	size = {
		.store = mosql_session_store(session),.tree = mosql_session_tree(session, tree->root)
	};
	char	   *since = pstrdup(timestamptz_to_str(mosql_admin_time(tree->since)));
	char	   *nodes = psprintf(UINT64_FORMAT " nodes", tree->nodes);
	const char *damage;
	MosqlTableLabel label;
	char	   *was = NULL;

	switch (mosql_session_try_tree_damage(measure, &size, &damage))
	{
		case MOSQL_TREE_SOUND:
			if (size.exists)
				damage = psprintf("about %.0f rows of %.0f bytes", size.rows, size.row_bytes);
			break;
		case MOSQL_TREE_GONE:
			size.exists = false;
			break;
		case MOSQL_TREE_DAMAGED:
			size.exists = true;
			damage = psprintf("damaged: %s", damage);
			break;
	}
	if (!size.exists)
		return psprintf("its root is missing, %s are left, since %s", nodes, since);
	if (mosql_table_read_label(session, tree->root, &label))
		was = mosql_table_label_text(&label);
	return psprintf("it was %s, no definition names it since %s; %s, %s",
					was ? was : "nobody knows what", since, nodes, damage);
}

static void
check_unnamed_trees(Gc *gc, MosqlSession *session)
{
	MosqlUnnamedTree *trees;
	MosqlTimestamp now;
	int			n = mosql_clock_unnamed(mosql_session_stepper(session), &trees, &now);

	for (int i = 0; i < n; i++)
	{
		MosqlTimestamp ends = trees[i].since +
			(MosqlTimestamp) mosql_txn_orphan_retention_s * 1000000;

		put(gc, "tree", psprintf("%016" PRIx64, trees[i].root), describe_tree(session, &trees[i]),
			psprintf("none: kept until %s; mosql_fdw_repair()",
					 timestamptz_to_str(mosql_admin_time(ends))));
	}
}

/* What builders of indexes left that died; in the middle of a transaction it waits. */
static void
drop_dead_builds(Gc *gc, MosqlSession *session)
{
	int			n;

	if (!mosql_txn_may_chain(session) || IsolationUsesXactSnapshot())
		return;
	n = mosql_table_drop_dead_builds(session);
	if (n > 0)
		put(gc, "index", psprintf("%d being built", n), "their builders died", "removed in Redis");
}

Datum
mosql_fdw_gc(PG_FUNCTION_ARGS)
{
	const char *server = mosql_admin_text_arg(fcinfo, 0);
	MosqlSession *session = mosql_admin_server_session(server);
	Gc			gc = {.result = (ReturnSetInfo *) fcinfo->resultinfo};
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	drop_dead_builds(&gc, session);
	gc.n = mosql_table_definitions(session, NULL, &gc.definitions);
	gc.known = palloc0(Max(gc.n, 1) * sizeof(bool));
	foreach(cell, mosql_admin_server_tables(get_foreign_server_oid(server, false)))
		check_table(&gc, lfirst_oid(cell));
	for (int i = 0; i < gc.n; i++)
		if (!gc.known[i])
			put(&gc, "table", remote_name(&gc.definitions[i]),
				"it is in Redis, and there is no foreign table for it here",
				"none: IMPORT FOREIGN SCHEMA shows it");
	check_named_sequences(&gc, session, get_foreign_server_oid(server, false));
	check_unnamed_trees(&gc, session);
	return (Datum) 0;
}
