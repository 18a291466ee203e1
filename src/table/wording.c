/*
 * wording.c: names in a definition follow ALTER TYPE.
 *
 * Layer: table.  A definition says by name of what types and collations columns are, what
 * labels and attributes those have, and as SQL text what defaults, CHECK constraints and
 * indexes are made of.  On a server all this is known by OID: RENAME and SET SCHEMA of a
 * type, a label, a collation or a schema change nothing there but what it is called.  So the
 * relation is put into words before the command and after it (src/admin/type.c), and what
 * the definition says in the first words it says in the second from then on.  Where it says something else, another server
 * was faster, or changed more: that stays, and opening the table tells.
 *
 * Race -- at COMMIT Redis has the new words some milliseconds before PostgreSQL's catalogs:
 * whoever compares the two in between finds that another server has changed the table.  So
 * who renames has a lock then, which is not the table's: reading and writing go on.
 */
#include "postgres.h"

#include "catalog/pg_foreign_table.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

#include "table/table_int.h"

/* Names that a label has had, behind the first and besides the one it has. */
#define FORMER_LABELS_MAX	64

static bool
same_text(const char *a, const char *b)
{
	return (a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0);
}

/* `there` says `before`, and `after` is something else: then it says that. */
static bool
reword(const char **there, const char *before, const char *after)
{
	if (after == NULL || same_text(before, after) || !same_text(*there, before))
		return false;
	*there = after;
	return true;
}

/* ---- labels ---- */

static MosqlLabel *
label_of_name(const MosqlDefinitionColumn *column, const char *name)
{
	for (int i = 0; i < column->nlabels; i++)
		if (strcmp(column->labels[i].name, name) == 0)
			return &column->labels[i];
	return NULL;
}

static bool
is_former(const MosqlLabel *label, const char *name)
{
	ListCell   *cell;

	foreach(cell, label->former)
		if (strcmp(lfirst(cell), name) == 0)
			return true;
	return false;
}

/* Has the label this name, or had it? */
static bool
had_name(const MosqlLabel *label, const char *name)
{
	return strcmp(label->name, name) == 0 || strcmp(label->stored, name) == 0 ||
		is_former(label, name);
}

static bool
is_known(const MosqlDefinitionColumn *column, const char *name)
{
	for (int i = 0; i < column->nlabels; i++)
		if (had_name(&column->labels[i], name))
			return true;
	return false;
}

/*
 * RENAME VALUE.  A name that another label had is refused: on a server that is to say the
 * same later it is still that one's, and "x to tmp, y to x, tmp to y", said there, would
 * find x here, take it for its own, and change the two back.
 */
static void
rename_label(MosqlDefinitionColumn *column, MosqlLabel *label, const char *name)
{
	for (int i = 0; i < column->nlabels; i++)
		if (&column->labels[i] != label && had_name(&column->labels[i], name))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("label \"%s\" cannot get the name \"%s\", which label \"%s\" had",
							label->name, name, column->labels[i].name),
					 errdetail("Servers that have not followed yet know that one by it."),
					 errhint("Use a name that no label had, or add the label, UPDATE the rows, and leave the old one unused.")));
	if (list_length(label->former) >= FORMER_LABELS_MAX && !had_name(label, name))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("label \"%s\" has had %d names", label->name, FORMER_LABELS_MAX),
				 errhint("Leave its name, or go back to one that it had.")));
	if (strcmp(label->name, label->stored) != 0 && !is_former(label, label->name))
		label->former = lappend(label->former, (void *) label->name);
	label->name = name;
}

static bool
is_stored(const MosqlDefinitionColumn *column, const char *stored)
{
	for (int i = 0; i < column->nlabels; i++)
		if (strcmp(column->labels[i].stored, stored) == 0)
			return true;
	return false;
}

/*
 * A label more, the one of `here` at `at`: behind the one that it follows there.  Rows may have its
 * name for another one, which was renamed: then they have something else for this.
 */
static void
add_label(MosqlDefinitionColumn *column, const MosqlDefinitionColumn *here, int at)
{
	MosqlLabel *labels = palloc((column->nlabels + 1) * sizeof(MosqlLabel));
	const char *name = here->labels[at].name;
	const char *stored = name;
	const MosqlLabel *before = NULL;
	int			place;

	for (int i = 2; is_stored(column, stored); i++)
		stored = psprintf("%s#%d", name, i);
	while (before == NULL && --at >= 0)
		before = label_of_name(column, here->labels[at].name);
	place = before == NULL ? 0 : before - column->labels + 1;
	for (int i = 0; i < column->nlabels; i++)
		labels[i + (i >= place)] = column->labels[i];
	labels[place] = (MosqlLabel)
	{
		.name = name,.stored = stored
	};
	column->labels = labels;
	column->nlabels++;
}

/*
 * Labels renamed here, which have kept their OIDs, and new ones.  A name that is there
 * already was brought there by another server.
 */
static bool
reword_labels(MosqlDefinitionColumn *there, const MosqlDefinitionColumn *before,
			  const MosqlDefinitionColumn *after)
{
	bool		changed = false;

	for (int i = 0; i < after->nlabels; i++)
	{
		const MosqlLabel *new = &after->labels[i];
		const MosqlLabel *old = NULL;
		MosqlLabel *theirs;

		for (int j = 0; j < before->nlabels; j++)
			if (before->labels[j].oid == new->oid)
				old = &before->labels[j];
		if (label_of_name(there, new->name) != NULL ||
			(old != NULL && strcmp(old->name, new->name) == 0))
			continue;
		theirs = old != NULL ? label_of_name(there, old->name) : NULL;
		if (theirs != NULL)
			rename_label(there, theirs, new->name);
		else if (old == NULL)
			add_label(there, after, i);
		changed |= theirs != NULL || old == NULL;
	}
	return changed;
}

/*
 * A server attaches to a table: the labels that it alone has join the others, but not one
 * by a name that another label had: here it was not renamed yet.
 */
bool
mosql_definition_add_labels(MosqlDefinition *there, const MosqlDefinition *here)
{
	bool		changed = false;

	for (int i = 0; i < here->ncolumns; i++)
	{
		const MosqlDefinitionColumn *mine = &here->columns[i];
		MosqlDefinitionColumn *theirs = mosql_definition_column(there, mine->name);

		for (int j = 0; theirs != NULL && j < mine->nlabels; j++)
		{
			if (is_known(theirs, mine->labels[j].name))
				continue;
			add_label(theirs, mine, j);
			changed = true;
		}
	}
	return changed;
}

/* The labels of a definition in their order here. */
static MosqlLabel *
labels_in_order(const MosqlDefinitionColumn *column, Oid type)
{
	MosqlLabel *sorted = palloc(column->nlabels * sizeof(MosqlLabel));
	MosqlLabel *here;
	int			nhere = mosql_type_labels(type, &here);
	int			n = 0;

	for (int i = 0; i < nhere; i++)
	{
		const MosqlLabel *label = label_of_name(column, here[i].name);

		if (label != NULL)
			sorted[n++] = *label;
	}
	if (n < column->nlabels)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the table in Redis has labels of enum %s that this server does not have",
						format_type_be(type)),
				 errhint("Use ALTER TYPE ... RENAME VALUE or ADD VALUE here, as another server did.")));
	return sorted;
}

void
mosql_definition_order_labels(Relation rel, MosqlDefinition *there)
{
	bool		fixed = mosql_definition_is_ordered(there);

	for (int i = 0; i < there->ncolumns; i++)
	{
		MosqlDefinitionColumn *column = &there->columns[i];
		AttrNumber	attnum = column->dropped || column->nlabels == 0 ? 0
			: get_attnum(RelationGetRelid(rel), column->name);
		Oid			type = attnum > 0 ? mosql_type_enum(get_atttype(RelationGetRelid(rel), attnum)) : InvalidOid;

		if (!OidIsValid(type) || mosql_labels_are_in_order(type, column->labels, column->nlabels))
			continue;
		if (fixed)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("labels of enum %s have another order here than in Redis", format_type_be(type)),
					 errdetail("An index of the table depends on that."),
					 errhint("Do it on another server.")));
		column->labels = labels_in_order(column, type);
	}
}

/* ---- columns, details, indexes ---- */

static bool
reword_columns(MosqlDefinition *there, const MosqlDefinition *before, const MosqlDefinition *after)
{
	bool		changed = false;

	for (int i = 0; i < before->ncolumns; i++)
	{
		const MosqlDefinitionColumn *old = &before->columns[i];
		const MosqlDefinitionColumn *new = mosql_definition_column(after, old->name);
		MosqlDefinitionColumn *theirs = mosql_definition_column(there, old->name);

		if (new == NULL || theirs == NULL)
			continue;
		changed |= reword(&theirs->type, old->type, new->type);
		changed |= reword(&theirs->collation, old->collation, new->collation);
		changed |= reword(&theirs->shape, old->shape, new->shape);
		changed |= reword_labels(theirs, old, new);
	}
	return changed;
}

/* Where the definition has the text of a detail; NULL: nowhere. */
static const char **
find_text(MosqlDefinition *there, const MosqlDetail *detail)
{
	MosqlDefinitionColumn *column;

	if (detail->kind == MOSQL_DETAIL_EXPRESSION)
	{
		column = mosql_definition_column(there, detail->name);
		return column != NULL ? &column->expression : NULL;
	}
	for (int i = 0; detail->kind == MOSQL_DETAIL_CHECK && i < there->nchecks; i++)
		if (strcmp(there->checks[i].name, detail->name) == 0)
			return &there->checks[i].expression;
	return NULL;
}

static bool
reword_details(MosqlDefinition *there, const MosqlWording *before, const MosqlWording *after)
{
	bool		changed = false;

	for (int i = 0; i < before->ndetails; i++)
		for (int j = 0; j < after->ndetails; j++)
		{
			const MosqlDetail *old = &before->details[i];
			const MosqlDetail *new = &after->details[j];
			const char **text = old->kind == new->kind && strcmp(old->name, new->name) == 0
				? find_text(there, old) : NULL;

			if (text != NULL)
				changed |= reword(text, old->text, new->text);
		}
	return changed;
}

static bool
reword_index(MosqlDefinitionIndex *there, const MosqlDefinitionIndex *old,
			 const MosqlDefinitionIndex *new)
{
	bool		changed = false;

	if (!mosql_definition_same_index(there, old))
		return false;
	for (int i = 0; i < there->nkeys; i++)
	{
		changed |= reword(&there->keys[i].expression, old->keys[i].expression,
						  new->keys[i].expression);
		changed |= reword(&there->keys[i].type, old->keys[i].type, new->keys[i].type);
		changed |= reword(&there->keys[i].collation, old->keys[i].collation,
						  new->keys[i].collation);
	}
	changed |= reword(&there->predicate, old->predicate, new->predicate);
	return changed;
}

static bool
reword_indexes(MosqlDefinition *there, const MosqlWording *before, const MosqlWording *after)
{
	bool		changed = false;

	for (int i = 0; i < before->nindexes; i++)
		for (int j = 0; j < after->nindexes; j++)
		{
			const char *name = before->indexes[i].name;
			MosqlDefinitionIndex *index = strcmp(name, after->indexes[j].name) == 0
				? mosql_definition_index(there, name) : NULL;

			if (index != NULL)
				changed |= reword_index(index, &before->indexes[i], &after->indexes[j]);
		}
	return changed;
}

bool
mosql_table_reword(Relation rel, MosqlSession *session, const MosqlWording *before,
				   const MosqlWording *after, bool write)
{
	MosqlDefinition *there = mosql_definition_of(rel, session);
	bool		indexes;
	bool		changed;

	if (there == NULL)
		return false;			/* opening it says so */
	indexes = reword_indexes(there, before, after);
	changed = reword_columns(there, before->columns, after->columns);
	changed |= reword_details(there, before, after);
	if (write && indexes)
		mosql_definition_remove_builds(session, there);
	if (write && (changed || indexes))
		mosql_table_write_definition(rel, session, there);
	return changed || indexes;
}

/* ---- until PostgreSQL's commit ---- */

/* The object pg_foreign_table's row is; nobody else locks it.  (A standby may share it.) */
void
mosql_wording_lock(Oid relid)
{
	LockDatabaseObject(ForeignTableRelationId, relid, 0, AccessExclusiveLock);
}

void
mosql_wording_unlock(Oid relid)
{
	UnlockDatabaseObject(ForeignTableRelationId, relid, 0, AccessExclusiveLock);
}

void
mosql_wording_share(Oid relid)
{
	LockDatabaseObject(ForeignTableRelationId, relid, 0, AccessShareLock);
}

void
mosql_wording_unshare(Oid relid)
{
	UnlockDatabaseObject(ForeignTableRelationId, relid, 0, AccessShareLock);
}
