/*
 * foreign_key_follow.c: foreign keys here and in Redis become the same.
 *
 * Layer: admin.  What is dropped or renamed here changes the definitions; what other
 * servers have in the definitions of a table comes here as soon as both tables of
 * the foreign key are here.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "foreign/foreign.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "admin/foreign_key.h"

/* The attribute that a column is here; 0: none. */
static AttrNumber
attribute(const MosqlDefinition *definition, Relation rel, uint32 id)
{
	for (int i = 0; i < definition->ncolumns; i++)
		if (definition->columns[i].id == id && !definition->columns[i].dropped)
			return get_attnum(RelationGetRelid(rel), definition->columns[i].name);
	return 0;
}

/* And back; false if a column, or the index, is not here. */
static bool
localize(const MosqlDefinitionReference *there, Relation rel, const MosqlDefinition *child,
		 Relation referenced, const MosqlDefinition *parent, MosqlLocalForeignKey *key)
{
	ListCell   *lc;

	memset(key, 0, sizeof(*key));
	key->name = there->name;
	key->validated = there->validated;
	key->deferrable = there->deferrable;
	key->deferred = there->deferred;
	key->match = there->match;
	key->on_update = there->on_update;
	key->on_delete = there->on_delete;
	key->n = key->nreferenced = there->n;
	for (int i = 0; i < there->n; i++)
	{
		key->columns[i] = attribute(child, rel, there->columns[i]);
		key->referenced[i] = attribute(parent, referenced, there->referenced[i]);
		if (key->columns[i] <= 0 || key->referenced[i] <= 0)
			return false;
	}
	key->nset = there->nset;
	for (int i = 0; i < there->nset; i++)
	{
		key->set[i] = attribute(child, rel, there->set[i]);
		if (key->set[i] <= 0)
			return false;
	}
	foreach(lc, RelationGetIndexList(referenced))
		if (mosql_admin_take_unique_index(key, lfirst_oid(lc), false))
			break;
	return OidIsValid(key->index);
}

/* ---- what other servers did ---- */

/* Are local foreign keys being dropped that others have dropped, or that differ? */
static bool keep_data = false;

static void
drop_local(Oid oid)
{
	ObjectAddress address;

	ObjectAddressSet(address, ConstraintRelationId, oid);
	mosql_admin_delete_here(&address, &keep_data);
}

/* Of several tables here that are one in Redis: in the same schema, rather than elsewhere, rather than temporary. */
static int
nearness(Relation rel, Oid near)
{
	if (RelationGetNamespace(rel) == get_rel_namespace(near))
		return 3;
	return rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP ? 2 : 1;
}

/* A table of this server, and the name that it seems to have in Redis. */
typedef struct NamedTable
{
	Oid			relid;
	const char *schema;
	const char *name;
} NamedTable;

/* All that are on the Redis server that the table is on: for many foreign keys they are looked through once. */
static List *
named_tables(Oid relid)
{
	List	   *tables = NIL;
	ListCell   *lc;

	foreach(lc, mosql_admin_server_tables(GetForeignTable(relid)->serverid))
	{
		NamedTable *table = palloc(sizeof(NamedTable));

		table->relid = lfirst_oid(lc);
		if (mosql_admin_seeming_name(table->relid, &table->schema, &table->name))
			tables = lappend(tables, table);
	}
	return tables;
}

/*
 * The local table of a name in Redis, of these, for a foreign key with that one; InvalidOid if there is none.  It is
 * locked until the transaction ends, and no other is.
 */
static Oid
find_table(const List *tables, Oid near, const char *schema, const char *name)
{
	const ListCell *lc;
	Oid			found = InvalidOid;
	int			best = 0;

	foreach(lc, tables)
	{
		const NamedTable *table = lfirst(lc);
		Relation	rel;
		const char *other_schema;
		const char *other_name;
		int			rank;

		if (strcmp(table->name, name) != 0 || strcmp(table->schema, schema) != 0)
			continue;
		rel = try_relation_open(table->relid, AccessShareLock);
		if (rel == NULL)
			continue;
		mosql_table_remote_name(rel, &other_schema, &other_name);
		rank = strcmp(schema, other_schema) == 0 && strcmp(name, other_name) == 0
			? nearness(rel, near) : 0;
		if (rank > best || (rank > 0 && rank == best && table->relid > found))
		{
			best = rank;
			found = table->relid;
		}
		relation_close(rel, NoLock);
	}
	return found;
}

/*
 * A foreign key of a definition in local terms, with the definition of the table that it leads to; false if something
 * is not here.
 */
static bool
localize_with(Oid relid, const MosqlDefinition *child, const MosqlDefinitionReference *there,
			  const MosqlDefinition *parent, const List *tables, Oid *other, MosqlLocalForeignKey *key)
{
	Relation	rel;
	Relation	referenced;
	bool		fits;

	*other = parent != NULL ? find_table(tables, relid, there->schema, there->table) : InvalidOid;
	if (!OidIsValid(*other))
		return false;
	rel = relation_open(relid, AccessShareLock);
	referenced = relation_open(*other, AccessShareLock);
	fits = localize(there, rel, child, referenced, parent, key);
	relation_close(referenced, NoLock);
	relation_close(rel, NoLock);
	return fits;
}

/* The same, with what is read for it. */
static bool
find_local(Oid relid, const MosqlDefinition *child, const MosqlDefinitionReference *there,
		   Oid *other, MosqlLocalForeignKey *key)
{
	const MosqlDefinition *parent = mosql_table_definition(mosql_fdw_session_for(relid, InvalidOid),
														   there->schema, there->table);

	return localize_with(relid, child, there, parent, named_tables(relid), other, key);
}

bool
mosql_admin_knows_foreign_key(Oid relid, const MosqlDefinition *child,
							  const MosqlDefinitionReference *there)
{
	Oid			oid = get_relation_constraint_oid(relid, there->name, true);
	Oid			other;
	MosqlLocalForeignKey key;

	return OidIsValid(oid) && find_local(relid, child, there, &other, &key) &&
		mosql_admin_is_foreign_key(oid, &key, other);
}

/*
 * Bring one foreign key of a definition here.  No relation may be open, since core
 * drops none of a relation in use.  Where the columns cannot be compared one of the tables
 * is not as it is in Redis: mosql_fdw_refresh() of that comes here again.
 */
static void
follow_one(Oid relid, const MosqlDefinition *child, const MosqlDefinitionReference *there,
		   const MosqlDefinition *parent, const List *tables)
{
	Oid			oid = get_relation_constraint_oid(relid, there->name, true);
	Oid			other;
	Relation	rel;
	Relation	referenced;
	MosqlLocalForeignKey key;

	if (!localize_with(relid, child, there, parent, tables, &other, &key))
		return;
	if (OidIsValid(oid) && mosql_admin_is_foreign_key(oid, &key, other))
	{
		mosql_admin_set_validated(oid, key.validated);
		return;
	}
	if (OidIsValid(oid))
		drop_local(oid);
	rel = relation_open(relid, AccessShareLock);
	referenced = relation_open(other, AccessShareLock);
	if (mosql_admin_find_key_operators(&key, rel, referenced, NULL))
		(void) mosql_admin_create_foreign_key(rel, referenced, &key);
	relation_close(referenced, NoLock);
	relation_close(rel, NoLock);
}

void
mosql_admin_leave_foreign_keys(Oid relid)
{
	ListCell   *lc;

	foreach(lc, mosql_foreign_keys(relid))
	{
		const MosqlForeignKey *key = lfirst(lc);

		if (SearchSysCacheExists1(CONSTROID, ObjectIdGetDatum(key->oid)))
			drop_local(key->oid);	/* one to the table itself may be listed twice */
	}
}

/* The foreign keys of a table, as far as they lead to tables whose definitions are at hand: parents[i]. */
static void
follow_child(Oid relid, const MosqlDefinition *child, MosqlDefinition *const *parents, const List *tables)
{
	ListCell   *lc;

	foreach(lc, mosql_foreign_keys(relid))
	{
		const MosqlForeignKey *key = lfirst(lc);

		if (key->child == relid && mosql_definition_reference(child, NameStr(key->name)) == NULL)
			drop_local(key->oid);
	}
	for (int i = 0; i < child->nreferences; i++)
		if (parents[i] != NULL)
			follow_one(relid, child, &child->references[i], parents[i], tables);
}

/* Does the foreign key lead to the table of this name in Redis? */
static bool
leads_to(const MosqlDefinitionReference *reference, MosqlBytes name)
{
	return mosql_bytes_equal(mosql_catalog_key(reference->schema, reference->table), name);
}

/* The foreign keys that a table has. */
static void
follow_references(Oid relid, const MosqlDefinition *definition, const List *tables)
{
	int			n = definition->nreferences;
	MosqlBytes *names = palloc(n * sizeof(MosqlBytes));
	MosqlDefinition **parents;

	for (int i = 0; i < n; i++)
	{
		const MosqlDefinitionReference *reference = &definition->references[i];

		(void) find_table(tables, relid, reference->schema, reference->table);	/* locked before it is looked up */
		names[i] = mosql_catalog_key(reference->schema, reference->table);
	}
	parents = mosql_table_definitions_of(mosql_fdw_session_for(relid, InvalidOid), names, n);
	follow_child(relid, definition, parents, tables);
}

/* Those of another table, one of those that lead to this one. */
static void
follow_referrer(Oid childid, MosqlDefinition *definition, MosqlBytes name, const MosqlDefinition *child,
				const List *tables)
{
	MosqlDefinition **parents = palloc0((child->nreferences + 1) * sizeof(MosqlDefinition *));

	for (int i = 0; i < child->nreferences; i++)
		if (leads_to(&child->references[i], name))
			parents[i] = definition;
	follow_child(childid, child, parents, tables);
}

/*
 * The tables whose foreign keys lead to this one, each once.  They are locked before they are looked up: what somebody
 * changes of them here before that is in the definition then.
 */
static void
follow_referrers(Oid relid, MosqlDefinition *definition, MosqlBytes name, const List *tables)
{
	Oid		   *childids = palloc(definition->nreferrers * sizeof(Oid));
	MosqlBytes *names = palloc(definition->nreferrers * sizeof(MosqlBytes));
	MosqlDefinition **children;
	int			n = 0;

	for (int i = 0; i < definition->nreferrers; i++)
	{
		const MosqlDefinitionReferrer *referrer = &definition->referrers[i];
		int			j = 0;

		names[n] = mosql_catalog_key(referrer->schema, referrer->table);
		while (!mosql_bytes_equal(names[j], names[n]))
			j++;
		if (j < n)
			continue;
		childids[n] = find_table(tables, relid, referrer->schema, referrer->table);
		n++;
	}
	children = mosql_table_definitions_of(mosql_fdw_session_for(relid, InvalidOid), names, n);
	for (int i = 0; i < n; i++)
		if (children[i] != NULL && OidIsValid(childids[i]) && childids[i] != relid)
			follow_referrer(childids[i], definition, name, children[i], tables);
}

void
mosql_admin_follow_foreign_keys(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	MosqlDefinition *definition = mosql_definition_of(rel, mosql_fdw_session_for(relid, InvalidOid));
	const char *schema;
	const char *name;
	const List *tables;

	mosql_table_remote_name(rel, &schema, &name);
	relation_close(rel, NoLock);
	if (definition == NULL)
		return;
	if (definition->nreferences == 0 && definition->nreferrers == 0 && mosql_foreign_keys(relid) == NIL)
		return;
	tables = named_tables(relid);
	follow_references(relid, definition, tables);
	follow_referrers(relid, definition, mosql_catalog_key(schema, name), tables);
}

/* ---- DROP, RENAME ---- */

/*
 * Is the foreign key of this server that one of the definition, whatever its name, and whether it is deferrable or
 * validated?
 */
static bool
is_the_same(const MosqlForeignKey *mine, const MosqlDefinition *child, const MosqlDefinitionReference *there)
{
	Oid			other;
	MosqlLocalForeignKey key;

	return find_local(mine->child, child, there, &other, &key) &&
		mosql_admin_leads_as(mine->oid, &key, other);
}

static char *
difference(const char *name)
{
	return psprintf("Foreign key \"%s\" is another one there.", name);
}

void
mosql_admin_foreign_key_dropped(Oid oid)
{
	MosqlForeignKey key;
	Relation	rel;
	MosqlSession *session;
	MosqlDefinition *child;
	MosqlDefinitionReference *there;

	if (keep_data || !mosql_admin_drop_data || !mosql_foreign_key_find(oid, &key))
		return;
	rel = relation_open(key.child, NoLock);
	session = mosql_fdw_session_for(key.child, InvalidOid);
	child = mosql_admin_is_window(rel) ? NULL : mosql_definition_of(rel, session);
	there = child != NULL ? mosql_definition_reference(child, NameStr(key.name)) : NULL;
	if (there != NULL && is_the_same(&key, child, there))
		mosql_table_drop_reference(rel, session, child, there);
	else if (there != NULL)
		mosql_admin_note_gone_other(key.child, difference(there->name));
	relation_close(rel, NoLock);
	CacheInvalidateRelcacheByRelid(key.parent);
}

bool
mosql_admin_foreign_key_renamed(Oid relid, const char *from, const char *to)
{
	Oid			oid = get_relation_constraint_oid(relid, to, true);
	MosqlForeignKey key;
	Relation	rel;
	MosqlSession *session;
	MosqlDefinition *child;
	MosqlDefinitionReference *there;

	if (!OidIsValid(oid) || !mosql_foreign_key_find(oid, &key))
		return false;
	rel = relation_open(relid, AccessShareLock);
	session = mosql_fdw_session_for(relid, InvalidOid);
	child = mosql_definition_of_existing(rel, session);
	there = mosql_definition_reference(child, from);
	if (there != NULL && !is_the_same(&key, child, there))
		mosql_table_differs(rel, difference(from));
	if (there != NULL)
		mosql_table_rename_reference(rel, session, child, there, to);
	relation_close(rel, NoLock);
	CacheInvalidateRelcacheByRelid(key.parent);
	return true;
}
