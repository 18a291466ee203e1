/*
 * alter_detail.c: defaults, CHECK constraints and comments of a definition.
 *
 * Layer: table.
 */
#include "postgres.h"

#include "table/table_int.h"

/* Dropped CHECK constraints that other servers still learn of. */
#define DROPPED_CHECKS_MAX 32

/* Returns whether that changed it.  What never was there leaves no mark when dropped. */
static bool
set_text(const char **there, const char *text)
{
	if (*there == NULL && text != NULL && text[0] == '\0')
		return false;
	if ((*there == NULL) == (text == NULL) && (text == NULL || strcmp(*there, text) == 0))
		return false;
	*there = text;
	return true;
}

/* False if a column that it is about is not in the definition. */
static bool
fill_check(const MosqlDefinition *there, const MosqlDetail *detail, MosqlDefinitionCheck *check)
{
	ListCell   *cell;

	*check = (MosqlDefinitionCheck)
	{
		.name = detail->name,.expression = detail->text,
			.columns = palloc(Max(list_length(detail->columns), 1) * sizeof(uint32))
	};
	foreach(cell, detail->columns)
	{
		const MosqlDefinitionColumn *column = mosql_definition_column(there, lfirst(cell));

		if (column == NULL)
			return false;
		check->columns[check->ncolumns++] = column->id;
	}
	return true;
}

/* The oldest mark of a dropped constraint goes, where there are many. */
static void
forget_dropped_check(MosqlDefinition *there)
{
	int			n = 0;

	for (int i = 0; i < there->nchecks; i++)
		n += there->checks[i].expression[0] == '\0';
	for (int i = 0; n > DROPPED_CHECKS_MAX; i++)
		if (there->checks[i].expression[0] == '\0')
		{
			memmove(&there->checks[i], &there->checks[i + 1],
					(there->nchecks - i - 1) * sizeof(MosqlDefinitionCheck));
			there->nchecks--;
			return;
		}
}

/* The constraint as it was here before the command; NULL: there was none. */
static const MosqlDefinitionCheck *
check_before(const MosqlDefinition *was, const char *name)
{
	for (int i = 0; i < was->nchecks; i++)
		if (strcmp(was->checks[i].name, name) == 0)
			return &was->checks[i];
	return NULL;
}

/* RENAME: a constraint that says what it said before. */
static bool
is_unchanged(Relation rel, const MosqlDetail *detail)
{
	const MosqlDefinition *was = detail->untouched ? mosql_table_before(rel) : NULL;
	const MosqlDefinitionCheck *mine = was != NULL ? check_before(was, detail->name) : NULL;

	return mine != NULL && detail->text != NULL && mine->expression != NULL &&
		strcmp(mine->expression, detail->text) == 0;
}

/*
 * Does the detail speak of this constraint, and not of one that another server has made under the name since?  False:
 * it drops something else of that name, or nothing.  42P16 if it would drop or replace another one.
 */
static bool
is_meant(Relation rel, const MosqlDefinitionCheck *there, const MosqlDetail *detail)
{
	const MosqlDefinition *was = mosql_table_before(rel);
	const MosqlDefinitionCheck *mine = was != NULL ? check_before(was, detail->name) : NULL;
	bool		drops = detail->text != NULL && detail->text[0] == '\0';

	if (was == NULL || there->expression[0] == '\0' ||
		(detail->text != NULL && strcmp(detail->text, there->expression) == 0))
		return true;
	if (mine == NULL && drops)
		return false;
	if (mine == NULL || (mine->expression != NULL && strcmp(mine->expression, there->expression) != 0))
		mosql_table_differs(rel, psprintf("Constraint \"%s\" is CHECK (%s) there.", detail->name, there->expression));
	return true;
}

static bool
set_check(Relation rel, MosqlDefinition *there, const MosqlDetail *detail)
{
	MosqlDefinitionCheck check;
	bool		dropped = detail->text != NULL && detail->text[0] == '\0';
	bool		wanted = detail->text != NULL && fill_check(there, detail, &check);

	if (is_unchanged(rel, detail))
		return false;
	for (int i = 0; i < there->nchecks; i++)
	{
		if (strcmp(there->checks[i].name, detail->name) != 0)
			continue;
		if (!is_meant(rel, &there->checks[i], detail))
			return false;
		if (wanted && strcmp(there->checks[i].expression, detail->text) == 0 &&
			mosql_definition_check_holds(there, &there->checks[i]))
			return false;
		if (wanted)
			there->checks[i] = check;
		else
			there->checks[i] = there->checks[--there->nchecks];
		if (dropped)
			forget_dropped_check(there);
		return true;
	}
	if (!wanted || dropped)
		return false;
	if (there->checks == NULL)
		there->checks = palloc(sizeof(MosqlDefinitionCheck));
	else
		there->checks = repalloc(there->checks,
								 (there->nchecks + 1) * sizeof(MosqlDefinitionCheck));
	there->checks[there->nchecks++] = check;
	return true;
}

static bool
set_detail(Relation rel, MosqlDefinition *there, const MosqlDetail *detail)
{
	MosqlDefinitionColumn *column;
	bool		changed;

	if (detail->kind == MOSQL_DETAIL_CHECK)
		return set_check(rel, there, detail);
	if (detail->name == NULL)
		return set_text(&there->comment, detail->text);
	column = mosql_definition_column(there, detail->name);
	if (column == NULL)
		return false;
	if (detail->kind == MOSQL_DETAIL_COMMENT)
		return set_text(&column->comment, detail->text);
	changed = column->generated != detail->generated;
	column->generated = detail->generated;
	return set_text(&column->expression, detail->text) || changed;
}

void
mosql_table_follow_details(Relation rel, MosqlSession *session, const MosqlDetail *details, int n)
{
	MosqlDefinition *there = n > 0 ? mosql_definition_of(rel, session) : NULL;
	bool		changed = false;

	for (int i = 0; there != NULL && i < n; i++)
		changed |= set_detail(rel, there, &details[i]);
	if (changed)
		mosql_table_write_definition(rel, session, there);
}
