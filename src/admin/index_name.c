/*
 * index_name.c: what indexes and their columns are called, as core calls them.
 *
 * Layer: admin.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "commands/defrem.h"
#include "mb/pg_wchar.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/admin.h"

static bool
is_among(const List *names, const char *name)
{
	const ListCell *lc;

	foreach(lc, names)
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	return false;
}

/* What the index's column is called, different from those before it, as core does it. */
static char *
column_name(Relation rel, const MosqlLocalIndex *index, int i, const List *before)
{
	const char *name = index->attnums[i] == 0
		? (index->names[i] != NULL ? index->names[i] : "expr")
		: get_attname(RelationGetRelid(rel), index->attnums[i], false);
	char	   *unique = pstrdup(name);

	for (int number = 1; is_among(before, unique); number++)
	{
		char	   *digits = psprintf("%d", number);
		int			len = pg_mbcliplen(name, strlen(name), NAMEDATALEN - 1 - strlen(digits));

		unique = psprintf("%.*s%s", len, name, digits);
	}
	return unique;
}

List *
mosql_admin_index_column_names(Relation rel, const MosqlLocalIndex *index, int n)
{
	List	   *names = NIL;

	for (int i = 0; i < n; i++)
		names = lappend(names, column_name(rel, index, i, names));
	return names;
}

/* "a_b" of the columns' names, as core names indexes. */
static char *
name_addition(Relation rel, const MosqlLocalIndex *index)
{
	StringInfoData name;
	ListCell   *lc;

	initStringInfo(&name);
	foreach(lc, mosql_admin_index_column_names(rel, index, index->nkeys + index->nincluded))
		if (name.len < NAMEDATALEN)
			appendStringInfo(&name, "%s%s", name.len > 0 ? "_" : "", (char *) lfirst(lc));
	name.data[pg_mbcliplen(name.data, name.len, NAMEDATALEN - 1)] = '\0';
	return name.data;
}

const char *
mosql_admin_choose_index_name(Relation rel, const MosqlLocalIndex *index, const char *given)
{
	if (given != NULL)
		return given;
	return ChooseRelationName(RelationGetRelationName(rel), name_addition(rel, index),
							  index->exclusion ? "excl" : index->constraint ? "key" : "idx",
							  RelationGetNamespace(rel), index->constraint || index->exclusion);
}

/* IF NOT EXISTS: is there a relation of that name?  A NOTICE. */
bool
mosql_admin_skip_existing_index(Relation rel, const char *name)
{
	if (!OidIsValid(get_relname_relid(name, RelationGetNamespace(rel))))
		return false;
	ereport(NOTICE,
			(errcode(ERRCODE_DUPLICATE_TABLE),
			 errmsg("relation \"%s\" already exists, skipping", name)));
	return true;
}
