/*
 * before.c: the running command, and what tables were here before it.
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

static MosqlTableCommand outermost = {.start = FirstCommandId};

MosqlTableCommand *mosql_table_command = &outermost;

/* ---- commands within commands ---- */

void
mosql_table_enter_command(MosqlTableCommand *command)
{
	MosqlTableCommand *outer = mosql_table_command;

	*command = (MosqlTableCommand)
	{
		.outer = outer,.start = GetCurrentCommandId(false),.refreshing = outer->continues && outer->refreshing
	};
	outer->continues = false;
	mosql_table_command = command;
}

/*
 * The contexts of those that failed within it are gone with their statements.  A procedure may have committed
 * meanwhile: then so is what was noted here.
 */
void
mosql_table_leave_command(MosqlTableCommand *command)
{
	Assert(mosql_table_command == command);
	if (command->cxt != NULL)
		MemoryContextDelete(command->cxt);
	mosql_table_command = command->outer;
}

void
mosql_table_begin_command(void)
{
	MosqlTableCommand *command = mosql_table_command;

	command->start = GetCurrentCommandId(false);
	command->drops_sequences = false;
	if (command->cxt != NULL)
		MemoryContextDelete(command->cxt);
}

static void
forget(void *arg)
{
	MosqlTableCommand *command = arg;

	command->cxt = NULL;
	command->before = command->types = NIL;
	command->sequence = NULL;
}

MemoryContext
mosql_table_command_context(void)
{
	MosqlTableCommand *command = mosql_table_command;
	MemoryContextCallback *callback;

	if (command->cxt != NULL)
		return command->cxt;
	command->cxt = AllocSetContextCreate(TopTransactionContext, "mosql command", ALLOCSET_DEFAULT_SIZES);
	callback = MemoryContextAllocZero(command->cxt, sizeof(MemoryContextCallback));
	callback->func = forget;
	callback->arg = command;
	MemoryContextRegisterResetCallback(command->cxt, callback);
	return command->cxt;
}

/* ---- tables ---- */

static void
note_generated(MosqlDefinition *definition, const MosqlDetail *detail)
{
	MosqlDefinitionColumn *column = mosql_definition_column(definition, detail->name);

	if (column == NULL || !detail->generated)
		return;
	column->generated = true;
	column->expression = detail->text != NULL ? pstrdup(detail->text) : NULL;
}

static void
note_details(MosqlDefinition *definition, const MosqlDetail *details, int n)
{
	definition->checks = palloc0(Max(n, 1) * sizeof(MosqlDefinitionCheck));
	for (int i = 0; i < n; i++)
		if (details[i].kind == MOSQL_DETAIL_CHECK)
			definition->checks[definition->nchecks++] = (MosqlDefinitionCheck)
			{
				.name = pstrdup(details[i].name),
					.expression = details[i].text != NULL ? pstrdup(details[i].text) : NULL,
					.invalid = details[i].invalid
			};
		else if (details[i].kind == MOSQL_DETAIL_EXPRESSION)
			note_generated(definition, &details[i]);
}

const MosqlDefinition *
mosql_table_before(Relation rel)
{
	ListCell   *cell;

	foreach(cell, mosql_table_command->before)
	{
		const Before *before = lfirst(cell);

		if (before->relid == RelationGetRelid(rel))
			return before->definition;
	}
	return NULL;
}

bool
mosql_table_note_before(Relation rel, const MosqlDetail *details, int n)
{
	MemoryContext old;
	Before	   *before;

	if (mosql_table_before(rel) != NULL)
		return false;			/* by the command that this one is a part of */
	old = MemoryContextSwitchTo(mosql_table_command_context());
	before = palloc(sizeof(Before));
	before->relid = RelationGetRelid(rel);
	before->definition = mosql_definition_describe(rel);
	for (int i = 0; i < before->definition->ncolumns; i++)
		before->definition->columns[i].id = get_attnum(before->relid, before->definition->columns[i].name);
	note_details(before->definition, details, n);
	mosql_table_command->before = lappend(mosql_table_command->before, before);
	MemoryContextSwitchTo(old);
	return true;
}

void
mosql_table_note_sequence_before(Relation rel, const char *column, const MosqlSequence *sequence)
{
	const MosqlDefinition *before = mosql_table_before(rel);

	for (int i = 0; before != NULL && i < before->ncolumns; i++)
		if (strcmp(before->columns[i].name, column) == 0)
			before->columns[i].sequence = *sequence;
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
