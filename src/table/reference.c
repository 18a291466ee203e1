/*
 * reference.c: foreign keys in the definitions of both their tables.
 *
 * Layer: table.  Columns stand there by their ids, so that renaming touches nothing;
 * tables by the names that they have in Redis, which never change.  Both definitions
 * are written in one transaction, so whoever used one of them as it was before, to
 * write rows without regard to the foreign key, does not commit (docs/commit.md, 13).
 */
#include "postgres.h"

#include "utils/inval.h"
#include "utils/rel.h"

#include "table/table_int.h"

/* ---- what a definition says ---- */

MosqlDefinitionReference *
mosql_definition_reference(const MosqlDefinition *definition, const char *name)
{
	for (int i = 0; i < definition->nreferences; i++)
		if (strcmp(definition->references[i].name, name) == 0)
			return &definition->references[i];
	return NULL;
}

static bool
same_ids(const uint32 *a, const uint32 *b, int n)
{
	return n == 0 || memcmp(a, b, n * sizeof(uint32)) == 0;
}

bool
mosql_definition_same_reference(const MosqlDefinitionReference *a,
								const MosqlDefinitionReference *b)
{
	return strcmp(a->schema, b->schema) == 0 && strcmp(a->table, b->table) == 0 &&
		a->deferrable == b->deferrable && a->deferred == b->deferred && a->match == b->match &&
		a->on_update == b->on_update && a->on_delete == b->on_delete && a->n == b->n &&
		same_ids(a->columns, b->columns, a->n) && same_ids(a->referenced, b->referenced, a->n) &&
		a->nset == b->nset && same_ids(a->set, b->set, a->nset);
}

/* The entry of this definition for a foreign key of that table; NULL: none. */
static MosqlDefinitionReferrer *
find_referrer(const MosqlDefinition *definition, const MosqlDefinition *child, const char *name)
{
	for (int i = 0; i < definition->nreferrers; i++)
	{
		MosqlDefinitionReferrer *referrer = &definition->referrers[i];

		if (strcmp(referrer->name, name) == 0 && strcmp(referrer->schema, child->schema) == 0 &&
			strcmp(referrer->table, child->name) == 0)
			return referrer;
	}
	return NULL;
}

static uint32 *
copy_ids(const uint32 *ids, int n)
{
	uint32	   *copy = palloc(Max(n, 1) * sizeof(uint32));

	if (n > 0)
		memcpy(copy, ids, n * sizeof(uint32));
	return copy;
}

void
mosql_table_copy_references(MosqlTable *table, const MosqlDefinition *definition)
{
	table->nreferences = definition->nreferences;
	table->references = palloc0(Max(definition->nreferences, 1) * sizeof(MosqlDefinitionReference));
	for (int i = 0; i < definition->nreferences; i++)
	{
		MosqlDefinitionReference *reference = &table->references[i];

		*reference = definition->references[i];
		reference->name = pstrdup(reference->name);
		reference->schema = pstrdup(reference->schema);
		reference->table = pstrdup(reference->table);
		reference->columns = copy_ids(reference->columns, reference->n);
		reference->referenced = copy_ids(reference->referenced, reference->n);
		reference->set = copy_ids(reference->set, reference->nset);
	}
	table->nreferrers = definition->nreferrers;
	table->referrers = palloc0(Max(definition->nreferrers, 1) * sizeof(MosqlDefinitionReferrer));
	for (int i = 0; i < definition->nreferrers; i++)
	{
		MosqlDefinitionReferrer *referrer = &table->referrers[i];

		*referrer = definition->referrers[i];
		referrer->name = pstrdup(referrer->name);
		referrer->schema = pstrdup(referrer->schema);
		referrer->table = pstrdup(referrer->table);
		referrer->columns = copy_ids(referrer->columns, referrer->n);
	}
}

bool
mosql_table_is_referencing(const MosqlTable *table, AttrNumber attnum)
{
	for (int i = 0; i < table->nreferences; i++)
		for (int j = 0; j < table->references[i].n; j++)
			if (table->references[i].columns[j] == table->columns[attnum - 1].id)
				return true;
	return false;
}

/* ---- changes ---- */

/* The table that a foreign key of `child` leads to: perhaps itself; NULL: it is gone. */
static MosqlDefinition *
other_end(MosqlSession *session, MosqlDefinition *child, const MosqlDefinitionReference *reference)
{
	if (strcmp(reference->schema, child->schema) == 0 && strcmp(reference->table, child->name) == 0)
		return child;
	return mosql_table_definition(session, reference->schema, reference->table);
}

static void
write_both(MosqlSession *session, Relation rel, MosqlDefinition *child, MosqlDefinition *parent)
{
	mosql_definition_update(session, child);
	if (parent != NULL && parent != child)
		mosql_definition_update(session, parent);
	CacheInvalidateRelcache(rel);
}

static void
append_reference(MosqlDefinition *child, const MosqlDefinitionReference *reference)
{
	int			n = child->nreferences;
	uint32		id = n == 0 ? 1 : child->references[n - 1].id + 1;

	if (id >= MOSQL_REFERENCES_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("table \"%s.%s\" has had too many foreign keys", child->schema,
						child->name)));
	child->references = child->references == NULL ? palloc(sizeof(MosqlDefinitionReference))
		: repalloc(child->references, (n + 1) * sizeof(MosqlDefinitionReference));
	child->references[n] = *reference;
	child->references[n].id = id;
	child->nreferences++;
}

static void
append_referrer(MosqlDefinition *parent, const MosqlDefinition *child,
				const MosqlDefinitionReference *reference)
{
	int			n = parent->nreferrers;
	uint32		id = n == 0 ? 1 : parent->referrers[n - 1].id + 1;

	if (id >= MOSQL_REFERENCES_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many foreign keys have led to table \"%s.%s\"", parent->schema,
						parent->name)));
	parent->referrers = parent->referrers == NULL ? palloc(sizeof(MosqlDefinitionReferrer))
		: repalloc(parent->referrers, (n + 1) * sizeof(MosqlDefinitionReferrer));
	parent->referrers[n] = (MosqlDefinitionReferrer)
	{
		.id = id, .name = reference->name, .schema = child->schema, .table = child->name,
			.n = reference->n, .columns = reference->referenced
	};
	parent->nreferrers++;
}

static void report_concurrent(const char *name) pg_attribute_noreturn();

static void
report_concurrent(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to a concurrent change of a table's definition"),
			 errdetail("Another server changed foreign key \"%s\".", name),
			 errhint("The transaction might succeed if retried.")));
}

void
mosql_table_add_reference(Relation rel, Relation referenced, MosqlSession *session,
						  const MosqlDefinitionReference *reference)
{
	MosqlDefinition *child = mosql_definition_of_existing(rel, session);
	MosqlDefinition *parent = RelationGetRelid(rel) == RelationGetRelid(referenced)
		? child : mosql_definition_of_existing(referenced, session);

	if (mosql_definition_reference(child, reference->name) != NULL)
		report_concurrent(reference->name);	/* since the caller looked */
	append_reference(child, reference);
	append_referrer(parent, child, reference);
	write_both(session, rel, child, parent);
	CacheInvalidateRelcache(referenced);
}

void
mosql_table_drop_reference(Relation rel, MosqlSession *session, MosqlDefinition *child,
						   MosqlDefinitionReference *reference)
{
	MosqlDefinition *parent = other_end(session, child, reference);
	MosqlDefinitionReferrer *referrer = parent ? find_referrer(parent, child, reference->name) : NULL;

	if (referrer != NULL)
	{
		parent->nreferrers--;
		memmove(referrer, referrer + 1,
				(parent->nreferrers - (referrer - parent->referrers)) * sizeof(*referrer));
	}
	child->nreferences--;
	memmove(reference, reference + 1,
			(child->nreferences - (reference - child->references)) * sizeof(*reference));
	write_both(session, rel, child, referrer ? parent : NULL);
}

void
mosql_table_rename_reference(Relation rel, MosqlSession *session, MosqlDefinition *child,
							 MosqlDefinitionReference *reference, const char *to)
{
	MosqlDefinition *parent = other_end(session, child, reference);
	MosqlDefinitionReferrer *referrer = parent ? find_referrer(parent, child, reference->name) : NULL;

	if (mosql_definition_reference(child, to) != NULL)
		mosql_table_refuse_alter("foreign key \"%s\" exists already in the table in Redis", to,
								 "Another server added it: mosql_fdw_refresh() brings it here.");
	reference->name = pstrdup(to);
	if (referrer != NULL)
		referrer->name = reference->name;
	write_both(session, rel, child, referrer ? parent : NULL);
}

/* The one of this name in a definition that was read just now, if it is the one that was looked at. */
static MosqlDefinitionReference *
find_same(const MosqlDefinition *child, const MosqlDefinitionReference *before)
{
	MosqlDefinitionReference *reference = mosql_definition_reference(child, before->name);

	if (reference == NULL || !mosql_definition_same_reference(reference, before))
		report_concurrent(before->name);
	return reference;
}

void
mosql_table_validate_reference(Relation rel, MosqlSession *session,
							   const MosqlDefinitionReference *validated)
{
	MosqlDefinition *child = mosql_definition_of_existing(rel, session);
	MosqlDefinitionReference *reference = find_same(child, validated);

	if (reference->validated)
		return;
	reference->validated = true;
	write_both(session, rel, child, NULL);
}

void
mosql_table_defer_reference(Relation rel, MosqlSession *session,
							const MosqlDefinitionReference *before, bool deferrable, bool deferred)
{
	MosqlDefinition *child = mosql_definition_of_existing(rel, session);
	MosqlDefinitionReference *reference = find_same(child, before);

	reference->deferrable = deferrable;
	reference->deferred = deferred;
	write_both(session, rel, child, NULL);
}

/* ---- what this server does not know ---- */

static void report_dependent(const MosqlDefinition *definition, const char *column,
							 const char *name, const char *schema, const char *table)
			pg_attribute_noreturn();

static void
report_dependent(const MosqlDefinition *definition, const char *column, const char *name,
				 const char *schema, const char *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 column != NULL
			 ? errmsg("cannot change column \"%s\" of table \"%s.%s\" because a foreign key that is not known to this server uses it",
					  column, definition->schema, definition->name)
			 : errmsg("cannot drop table \"%s.%s\" because a foreign key that is not known to this server leads to it",
					  definition->schema, definition->name),
			 errdetail("It is \"%s\", of table \"%s.%s\" in Redis.", name, schema, table),
			 errhint("Use IMPORT FOREIGN SCHEMA for the other table first.")));
}

void
mosql_table_forget_references(MosqlSession *session, const MosqlDefinition *definition)
{
	for (int i = 0; i < definition->nreferrers; i++)
	{
		const MosqlDefinitionReferrer *referrer = &definition->referrers[i];

		if (strcmp(referrer->schema, definition->schema) != 0 ||
			strcmp(referrer->table, definition->name) != 0)
			report_dependent(definition, NULL, referrer->name, referrer->schema, referrer->table);
	}
	for (int i = 0; i < definition->nreferences; i++)
	{
		const MosqlDefinitionReference *reference = &definition->references[i];
		MosqlDefinition *parent = mosql_table_definition(session, reference->schema,
														 reference->table);
		MosqlDefinitionReferrer *referrer = parent == NULL ? NULL
			: find_referrer(parent, definition, reference->name);

		if (referrer == NULL || (strcmp(parent->schema, definition->schema) == 0 &&
								 strcmp(parent->name, definition->name) == 0))
			continue;
		parent->nreferrers--;
		memmove(referrer, referrer + 1,
				(parent->nreferrers - (referrer - parent->referrers)) * sizeof(*referrer));
		mosql_definition_update(session, parent);
	}
}

static bool
has_id(const uint32 *ids, int n, uint32 id)
{
	for (int i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* Does an index have these columns, in whatever order, and make them unique? */
static bool
is_unique_of(const MosqlDefinitionIndex *index, const uint32 *columns, int n)
{
	int			found = 0;

	if (!index->unique || mosql_definition_is_computed(index) || index->nkeys != n)
		return false;
	for (int i = 0; i < n; i++)
		found += has_id(columns, n, index->keys[i].column);
	return found == n;
}

/* Are the columns unique without this index as well? */
static bool
is_unique_without(const MosqlDefinition *definition, const MosqlDefinitionIndex *index, const uint32 *columns, int n)
{
	int			nkeys = 0;
	int			found = 0;

	for (int i = 0; i < definition->nindexes; i++)
		if (&definition->indexes[i] != index && is_unique_of(&definition->indexes[i], columns, n))
			return true;
	for (int i = 0; i < definition->ncolumns; i++)
		if (!definition->columns[i].dropped && definition->columns[i].key_position >= 0)
		{
			nkeys++;
			found += has_id(columns, n, definition->columns[i].id);
		}
	return nkeys == n && found == n;
}

void
mosql_table_check_unneeded(const MosqlDefinition *definition, const MosqlDefinitionIndex *index)
{
	for (int i = 0; i < definition->nreferrers; i++)
	{
		const MosqlDefinitionReferrer *referrer = &definition->referrers[i];

		if (is_unique_of(index, referrer->columns, referrer->n) &&
			!is_unique_without(definition, index, referrer->columns, referrer->n))
			ereport(ERROR,
					(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
					 errmsg("cannot drop index \"%s\" because a foreign key that is not known to this server needs it",
							index->name),
					 errdetail("It is \"%s\", of table \"%s.%s\" in Redis.", referrer->name,
							   referrer->schema, referrer->table),
					 errhint("Use IMPORT FOREIGN SCHEMA for the other table first.")));
	}
}

void
mosql_table_check_unreferenced(const MosqlDefinition *definition, uint32 column)
{
	const char *name = "";

	for (int i = 0; i < definition->ncolumns; i++)
		if (definition->columns[i].id == column)
			name = definition->columns[i].name;
	for (int i = 0; i < definition->nreferences; i++)
		if (has_id(definition->references[i].columns, definition->references[i].n, column))
			report_dependent(definition, name, definition->references[i].name,
							 definition->schema, definition->name);
	for (int i = 0; i < definition->nreferrers; i++)
		if (has_id(definition->referrers[i].columns, definition->referrers[i].n, column))
			report_dependent(definition, name, definition->referrers[i].name,
							 definition->referrers[i].schema, definition->referrers[i].table);
}
