/*
 * fuzz_definition.c: definitions of tables in the catalog; behind an S, those of
 * sequences.
 */
#include "fuzz.h"

#include "table/table_int.h"

const int	fuzz_errors[] = {ERRCODE_DATA_CORRUPTED, ERRCODE_FEATURE_NOT_SUPPORTED, 0};

static bool
same_text(const char *a, const char *b)
{
	return (a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0);
}

static void
check_same_index(const MosqlDefinitionIndex *a, const MosqlDefinitionIndex *b)
{
	MUST(a->id == b->id && a->root == b->root && strcmp(a->name, b->name) == 0);
	MUST(a->unique == b->unique && a->nulls_not_distinct == b->nulls_not_distinct);
	MUST(a->constraint == b->constraint && a->nkeys == b->nkeys && a->nincluded == b->nincluded);
	MUST(same_text(a->predicate, b->predicate) && same_text(a->locale, b->locale));
	for (int i = 0; i < a->nkeys; i++)
	{
		const MosqlDefinitionIndexColumn *x = &a->keys[i];
		const MosqlDefinitionIndexColumn *y = &b->keys[i];

		MUST(x->column == y->column && x->descending == y->descending);
		MUST(x->nulls_first == y->nulls_first && same_text(x->expression, y->expression));
		MUST(same_text(x->type, y->type) && same_text(x->collation, y->collation));
		MUST((x->expression == NULL) == (x->type == NULL));
	}
	for (int i = 0; i < a->nincluded; i++)
		MUST(a->included[i] == b->included[i]);
}

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
		MUST(x->nlabels == y->nlabels && same_text(x->shape, y->shape));
		for (int j = 0; j < x->nlabels; j++)
		{
			MUST(strcmp(x->labels[j].name, y->labels[j].name) == 0 &&
				 strcmp(x->labels[j].stored, y->labels[j].stored) == 0);
			MUST(list_length(x->labels[j].former) == list_length(y->labels[j].former));
		}
	}
	MUST(a->nindexes == b->nindexes);
	for (int i = 0; i < a->nindexes; i++)
		check_same_index(&a->indexes[i], &b->indexes[i]);
}

static void
fuzz_sequence(MosqlBytes in)
{
	MosqlNamedSequence *sequence = mosql_named_sequence_decode(in, 5);
	MosqlNamedSequence again = *sequence;
	MosqlNamedSequence *same;

	MUST(sequence->sequence.counter != 0 && sequence->name != NULL && sequence->schema != NULL);
	mosql_named_sequence_encode(&again);
	same = mosql_named_sequence_decode(again.bytes, 5);
	MUST(same->sequence.counter == sequence->sequence.counter &&
		 same->sequence.max == sequence->sequence.max);
	MUST(strcmp(same->schema, sequence->schema) == 0 && strcmp(same->name, sequence->name) == 0);
	MUST(list_length(same->former) == list_length(sequence->former));
}

void
fuzz_one(MosqlBytes in)
{
	MosqlDefinition *definition;
	MosqlDefinition again;

	if (in.len > 0 && in.data[0] == 'S')
	{
		fuzz_sequence(mosql_bytes(in.data + 1, in.len - 1));
		return;
	}
	definition = mosql_definition_decode(in, 5);
	again = *definition;

	MUST(definition->root != 0 && definition->name != NULL && definition->schema != NULL);
	MUST(mosql_bytes_equal(definition->bytes, in));
	for (int i = 0; i < definition->ncolumns; i++)
		MUST(definition->columns[i].key_position >= -1 &&
			 definition->columns[i].key_position < MOSQL_KEY_MAX_COLUMNS);
	mosql_definition_encode(&again);
	check_same(definition, mosql_definition_decode(again.bytes, 5));
}
