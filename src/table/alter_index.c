/*
 * alter_index.c: the indexes of a definition: made, dropped, renamed, built anew.
 *
 * Layer: table.  Building is build.c's.
 */
#include "postgres.h"

#include "access/xact.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "table/table_int.h"

/* Texts that may not be there. */
static bool
same_text(const char *a, const char *b)
{
	return (a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0);
}

bool
mosql_definition_same_index(const MosqlDefinitionIndex *a, const MosqlDefinitionIndex *b)
{
	if (a->unique != b->unique || a->nulls_not_distinct != b->nulls_not_distinct ||
		a->nkeys != b->nkeys || a->nincluded != b->nincluded ||
		!same_text(a->predicate, b->predicate) || !same_text(a->locale, b->locale))
		return false;
	for (int i = 0; i < a->nkeys; i++)
		if (a->keys[i].column != b->keys[i].column ||
			!same_text(a->keys[i].expression, b->keys[i].expression) ||
			a->keys[i].descending != b->keys[i].descending ||
			a->keys[i].nulls_first != b->keys[i].nulls_first)
			return false;
	for (int i = 0; i < a->nincluded; i++)
		if (a->included[i] != b->included[i])
			return false;
	return true;
}

/* What cannot be a key; 0A000. */
static void
check_expression(const MosqlDefinitionIndexColumn *there, Node *node)
{
	MosqlTableColumn column = {.typmod = -1};
	const char *refusal;

	column.type = getBaseType(exprType(node));
	column.collation = mosql_collation_oid(there->collation);
	refusal = mosql_key_refusal(&column, true);
	if (refusal != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("an expression of type %s cannot be part of a key", there->type),
				 errdetail_internal("%s", refusal),
				 errhint("%s", mosql_key_hint(column.type, "(...)", true))));
}

/* What the node's value depends on besides. */
static void
note_dependencies(MosqlDefinitionIndex *index, Node *node, const MosqlAttributes *attributes)
{
	mosql_expression_check_encoding(node);
	if (index->locale == NULL)
		index->locale = mosql_expression_locale(node);
	if (mosql_expression_check_enums(node, attributes))
		index->ordered = true;
}

void
mosql_definition_set_expression(MosqlDefinitionIndex *index, int position, Node *node,
								const char *collation, const MosqlAttributes *attributes)
{
	MosqlDefinitionIndexColumn *column = &index->keys[position];

	column->column = 0;
	column->type = mosql_type_name(exprType(node), -1);
	column->collation = collation;
	check_expression(column, node);
	column->expression = mosql_expression_encode(node, attributes, false);
	note_dependencies(index, node, attributes);
}

void
mosql_definition_set_predicate(MosqlDefinitionIndex *index, Node *node,
							   const MosqlAttributes *attributes)
{
	index->predicate = mosql_expression_encode(node, attributes, true);
	note_dependencies(index, node, attributes);
}

void
mosql_definition_note_locale(MosqlDefinitionIndex *index, const MosqlAttributes *attributes)
{
	for (int i = 0; i < index->nkeys && index->locale == NULL; i++)
		if (mosql_index_key_is_citext(index, i, attributes))
			index->locale = mosql_expression_database_locale();
}

/* The name of an index that is being built is taken. */
static void
check_not_built(const MosqlDefinition *there, const char *name)
{
	for (int i = 0; i < there->nbuilds; i++)
		if (strcmp(there->builds[i].index.name, name) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("index \"%s\" is being built by another server", name),
					 errhint("The view mosql_fdw_progress shows how far it is. If its server has died, mosql_fdw_maintain() takes what is left away.")));
}

void
mosql_definition_check_new_index(Relation rel, MosqlDefinition *there,
								 const MosqlDefinitionIndex *index)
{
	if (mosql_definition_index(there, index->name) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("index \"%s\" exists in Redis with another definition", index->name),
				 errhint("Give it another name, or drop the one that is there.")));
	check_not_built(there, index->name);
	for (int i = 0; i < there->ncolumns; i++)
		if (there->columns[i].dropped && mosql_definition_index_has(index, there->columns[i].id))
			ereport(ERROR,		/* since the caller looked */
					(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
					 errmsg("could not create index \"%s\" due to a concurrent change of the table",
							index->name)));
	for (int i = 0; i < index->nkeys; i++)
		for (int j = 0; j < there->ncolumns; j++)
			if (there->columns[j].id == index->keys[i].column)
				mosql_definition_check_key(TupleDescAttr(RelationGetDescr(rel),
											   get_attnum(RelationGetRelid(rel),
														  there->columns[j].name) - 1),
										   true);
	if (index->ordered)
		mosql_definition_order_labels(rel, there);
}

MosqlDefinitionIndex *
mosql_definition_add_index(MosqlDefinition *there, const MosqlDefinitionIndex *index)
{
	uint32		id = there->nindexes > 0 ? there->indexes[there->nindexes - 1].id + 1 : 1;

	if (there->indexes == NULL)
		there->indexes = palloc(sizeof(MosqlDefinitionIndex));
	else
		there->indexes = repalloc(there->indexes, (there->nindexes + 1) *
								  sizeof(MosqlDefinitionIndex));
	there->indexes[there->nindexes] = *index;
	there->indexes[there->nindexes].id = id;
	return &there->indexes[there->nindexes++];
}

void
mosql_table_create_index(Relation rel, MosqlSession *session, MosqlDefinitionIndex *index)
{
	MosqlDefinition *there = mosql_definition_of_existing(rel, session);
	const MosqlDefinitionIndex *same = mosql_definition_index(there, index->name);
	MosqlDefinitionIndex *added;

	if (same != NULL && mosql_definition_same_index(same, index))
		return;
	mosql_definition_check_new_index(rel, there, index);
	added = mosql_definition_add_index(there, index);
	added->root = mosql_table_create_tree(session, mosql_table_is_together(RelationGetRelid(rel)));
	mosql_table_write_definition(rel, session, there);
	mosql_table_build_index(rel, session, added->id);
}

bool
mosql_table_rebuild_index(Relation rel, MosqlSession *session, const char *name)
{
	MosqlDefinition *there = mosql_definition_of_existing(rel, session);
	MosqlDefinitionIndex *index = mosql_definition_index(there, name);

	if (index == NULL)
		return false;
	mosql_txn_drops_tree(mosql_txn_current(session), index->root);
	index->root = mosql_table_create_tree(session, mosql_table_is_together(RelationGetRelid(rel)));
	mosql_table_write_definition(rel, session, there);
	CommandCounterIncrement();	/* or the table, open already, would keep the old tree */
	mosql_table_build_index(rel, session, index->id);
	return true;
}

void
mosql_definition_remove_index(MosqlSession *session, MosqlDefinition *there,
							  MosqlDefinitionIndex *index)
{
	int			at = index - there->indexes;

	mosql_txn_drops_tree(mosql_txn_current(session), index->root);
	memmove(index, index + 1, (there->nindexes - at - 1) * sizeof(MosqlDefinitionIndex));
	there->nindexes--;
}

void
mosql_table_drop_index(Relation rel, MosqlSession *session, MosqlDefinition *there,
					   MosqlDefinitionIndex *index)
{
	mosql_table_check_unneeded(there, index);
	mosql_definition_remove_index(session, there, index);
	mosql_table_write_definition(rel, session, there);
}

void
mosql_table_rename_index(Relation rel, MosqlSession *session, MosqlDefinition *there,
						 MosqlDefinitionIndex *index, const char *to)
{
	if (strcmp(index->name, to) != 0 && mosql_definition_index(there, to) != NULL)
		mosql_table_refuse_alter("index \"%s\" exists already in the table in Redis", to,
								 "Another server added it: mosql_fdw_refresh() brings it here.");
	check_not_built(there, to);
	index->name = pstrdup(to);
	mosql_table_write_definition(rel, session, there);
}

void
mosql_table_constrain_index(Relation rel, MosqlSession *session, MosqlDefinition *there,
							MosqlDefinitionIndex *index, const char *to)
{
	index->constraint = true;
	mosql_table_rename_index(rel, session, there, index, to);
}
