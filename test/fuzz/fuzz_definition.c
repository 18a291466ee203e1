/*
 * fuzz_definition.c: definitions of tables in the catalog.
 */
#include "fuzz.h"

#include "table/table_int.h"

const int	fuzz_errors[] = {ERRCODE_DATA_CORRUPTED, ERRCODE_FEATURE_NOT_SUPPORTED, 0};

static void
check_same(const MosqlDefinition *a, const MosqlDefinition *b)
{
	MUST(a->id == b->id && a->root == b->root && a->hidden_row_id == b->hidden_row_id);
	MUST(a->next_column == b->next_column && a->ncolumns == b->ncolumns);
	MUST(strcmp(a->schema, b->schema) == 0 && strcmp(a->name, b->name) == 0);
	for (int i = 0; i < a->ncolumns; i++)
	{
		const MosqlDefinitionColumn *x = &a->columns[i];
		const MosqlDefinitionColumn *y = &b->columns[i];

		MUST(x->id == y->id && x->not_null == y->not_null && x->dropped == y->dropped);
		MUST(x->key_position == y->key_position && strcmp(x->name, y->name) == 0);
		MUST(strcmp(x->type, y->type) == 0 && strcmp(x->collation, y->collation) == 0);
	}
}

void
fuzz_one(MosqlBytes in)
{
	MosqlDefinition *definition = mosql_definition_decode(in, 5);
	MosqlDefinition again = *definition;

	MUST(definition->root != 0 && definition->name != NULL && definition->schema != NULL);
	MUST(mosql_bytes_equal(definition->bytes, in));
	for (int i = 0; i < definition->ncolumns; i++)
		MUST(definition->columns[i].key_position >= -1 &&
			 definition->columns[i].key_position < MOSQL_KEY_MAX_COLUMNS);
	mosql_definition_encode(&again);
	check_same(definition, mosql_definition_decode(again.bytes, 5));
}
