/*
 * format.c: which programs know all that a table's definition says.
 *
 * Layer: table.  A definition has the lowest format that says what it does, so that older
 * programs go on with the tables that they know, and refuse the others by their formats.
 */
#include "postgres.h"

#include "table/table_int.h"

/* Is there a label whose former names are said? */
static bool
has_former_labels(const MosqlDefinition *definition)
{
	for (int i = 0; i < definition->ncolumns; i++)
		for (int j = 0; j < definition->columns[i].nlabels; j++)
			if (definition->columns[i].labels[j].former != NIL)
				return true;
	return false;
}

/* A type, as definitions say it, whose values could not be keys from the beginning: format 4. */
static bool
is_later_key_type(const char *type)
{
	static const char *const names[] = {
		"inet", "cidr", "macaddr", "macaddr8", "pg_lsn", "xid8", "bit", "\"bit\"", "bit varying",
		"int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"
	};
	size_t		len = strcspn(type, "(");	/* what follows is its typmod */

	if (type[0] != '\0' && type[strlen(type) - 1] == ']')
		return true;			/* arrays */
	for (int i = 0; i < lengthof(names); i++)
		if (strlen(names[i]) == len && strncmp(names[i], type, len) == 0)
			return true;
	return mosql_type_name_is_citext(type);
}

bool
mosql_type_name_is_citext(const char *type)
{
	static const char end[] = ".citext";
	size_t		len = strlen(type);

	return len > sizeof(end) - 1 && strcmp(type + len - (sizeof(end) - 1), end) == 0;
}

static bool
has_later_index_keys(const MosqlDefinition *definition, const MosqlDefinitionIndex *index)
{
	for (int i = 0; i < index->nkeys; i++)
	{
		const char *type = index->keys[i].type;

		for (int j = 0; type == NULL && j < definition->ncolumns; j++)
			if (definition->columns[j].id == index->keys[i].column)
				type = definition->columns[j].type;
		if (type != NULL && is_later_key_type(type))
			return true;
	}
	return false;
}

static bool
has_later_keys(const MosqlDefinition *definition)
{
	for (int i = 0; i < definition->ncolumns; i++)
	{
		const MosqlDefinitionColumn *column = &definition->columns[i];

		if (!column->dropped && column->key_position >= 0 && is_later_key_type(column->type))
			return true;
	}
	for (int i = 0; i < definition->nindexes; i++)
		if (has_later_index_keys(definition, &definition->indexes[i]))
			return true;
	for (int i = 0; i < definition->nbuilds; i++)
		if (has_later_index_keys(definition, &definition->builds[i].index))
			return true;
	return false;
}

bool
mosql_definition_is_ordered(const MosqlDefinition *definition)
{
	for (int i = 0; i < definition->nindexes; i++)
		if (definition->indexes[i].ordered)
			return true;
	for (int i = 0; i < definition->nbuilds; i++)
		if (definition->builds[i].index.ordered)
			return true;
	return false;
}

int
mosql_definition_format(const MosqlDefinition *definition)
{
	return mosql_definition_is_ordered(definition) ? MOSQL_DEFINITION_FORMAT_ORDER
		: has_later_keys(definition) ? MOSQL_DEFINITION_FORMAT_KEYS
		: has_former_labels(definition) ? MOSQL_DEFINITION_FORMAT_LABELS
		: MOSQL_DEFINITION_FORMAT;
}
