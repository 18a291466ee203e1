/*
 * before.c: what tables were here before the running command.
 *
 * Layer: table.  This server's catalog may be behind: another server has changed the table since, and what a command
 * names may be something else in Redis by now.  Whoever brings a change there compares what the table said here before
 * the command with the very definition that it is about to write.
 *
 * The columns' ids are their attribute numbers: a column that the command drops and adds anew is another one.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "table/table_int.h"

typedef struct Before
{
	Oid			relid;
	MosqlDefinition *definition;
} Before;

static List *notes = NIL;
static MemoryContext notes_cxt = NULL;	/* below TopTransactionContext */

static void
forget(void *arg)
{
	notes = NIL;
	notes_cxt = NULL;
}

void
mosql_table_begin_command(void)
{
	mosql_table_command_start = GetCurrentCommandId(false);
	if (notes_cxt != NULL)
		MemoryContextDelete(notes_cxt);
}

static void
begin_noting(void)
{
	MemoryContextCallback *callback;

	notes_cxt = AllocSetContextCreate(TopTransactionContext, "mosql tables before", ALLOCSET_SMALL_SIZES);
	callback = MemoryContextAllocZero(notes_cxt, sizeof(MemoryContextCallback));
	callback->func = forget;
	MemoryContextRegisterResetCallback(notes_cxt, callback);
}

static void
note_checks(MosqlDefinition *definition, const MosqlDetail *details, int n)
{
	definition->checks = palloc0(Max(n, 1) * sizeof(MosqlDefinitionCheck));
	for (int i = 0; i < n; i++)
		if (details[i].kind == MOSQL_DETAIL_CHECK)
			definition->checks[definition->nchecks++] = (MosqlDefinitionCheck)
			{
				.name = pstrdup(details[i].name),
					.expression = details[i].text != NULL ? pstrdup(details[i].text) : NULL
			};
}

const MosqlDefinition *
mosql_table_before(Relation rel)
{
	ListCell   *cell;

	foreach(cell, notes)
	{
		const Before *before = lfirst(cell);

		if (before->relid == RelationGetRelid(rel))
			return before->definition;
	}
	return NULL;
}

void
mosql_table_note_before(Relation rel, const MosqlDetail *details, int n)
{
	MemoryContext old;
	Before	   *before;

	if (mosql_table_before(rel) != NULL)
		return;					/* by the command that this one is a part of */
	if (notes_cxt == NULL)
		begin_noting();
	old = MemoryContextSwitchTo(notes_cxt);
	before = palloc(sizeof(Before));
	before->relid = RelationGetRelid(rel);
	before->definition = mosql_definition_describe(rel);
	for (int i = 0; i < before->definition->ncolumns; i++)
		before->definition->columns[i].id = get_attnum(before->relid, before->definition->columns[i].name);
	note_checks(before->definition, details, n);
	notes = lappend(notes, before);
	MemoryContextSwitchTo(old);
}

const MosqlDefinitionColumn *
mosql_table_column_before(const MosqlDefinition *before, Relation rel, const char *name)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), name);

	for (int i = 0; i < before->ncolumns; i++)
		if (before->columns[i].id == attnum)
			return &before->columns[i];
	return NULL;
}

/*
 * A column that goes with something else (DROP TYPE ... CASCADE) was not noted; what its type consists of may be gone
 * already, so only the type's name is compared.
 */
static char *
type_difference(Relation rel, const MosqlDefinitionColumn *there)
{
	AttrNumber	attnum = get_attnum(RelationGetRelid(rel), there->name);
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	const char *type;

	if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(att->atttypid)))
		return NULL;
	type = mosql_type_name(att->atttypid, att->atttypmod);
	return strcmp(type, there->type) == 0 ? NULL
		: psprintf("Column \"%s\" has type %s here and %s there.", there->name, type, there->type);
}

char *
mosql_table_drop_difference(Relation rel, const MosqlDefinitionColumn *there)
{
	const MosqlDefinition *before = mosql_table_before(rel);
	const MosqlDefinitionColumn *mine = before == NULL ? NULL
		: mosql_table_column_before(before, rel, there->name);

	return mine != NULL ? mosql_definition_column_difference(mine, there) : type_difference(rel, there);
}
