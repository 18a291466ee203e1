/*
 * alter_table.c: the order of what one ALTER TABLE does to a table of ours.
 *
 * Layer: admin.  Keys, unique constraints and foreign keys are taken out of the statement before core runs it
 * (mosql_admin_prepare_alter).  Where they are about columns that the same statement adds or gives another type, or it
 * drops something, say the primary key before, they must wait: the hook moves them to a second ALTER TABLE, with what
 * VALIDATE and ALTER CONSTRAINT say of them.  So it does with SET DEFAULT of a column that the same statement adds, also
 * above partitions of ours.  Foreign keys of a column that gets another type, or comes into the primary key or out of
 * it, are dropped before and made again after it.  Who drops the primary key drops the key.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "nodes/makefuncs.h"
#include "utils/lsyscache.h"

#include "admin/utility.h"

static bool
is_key(const Constraint *constraint)
{
	return constraint->contype == CONSTR_PRIMARY || constraint->contype == CONSTR_UNIQUE ||
		constraint->contype == CONSTR_EXCLUSION || constraint->contype == CONSTR_FOREIGN;
}

/* DEFERRABLE and its like follow as nodes of their own; false: it is none. */
static bool
take_attribute(Constraint *key, const Constraint *attribute)
{
	switch (attribute->contype)
	{
		case CONSTR_ATTR_DEFERRABLE:
			key->deferrable = true;
			return true;
		case CONSTR_ATTR_NOT_DEFERRABLE:
			key->deferrable = false;
			return true;
		case CONSTR_ATTR_DEFERRED:
			key->deferrable = key->initdeferred = true;
			return true;
		case CONSTR_ATTR_IMMEDIATE:
			key->initdeferred = false;
			return true;
#if PG_VERSION_NUM >= 180000
		case CONSTR_ATTR_ENFORCED:
			key->is_enforced = true;
			return true;
		case CONSTR_ATTR_NOT_ENFORCED:
			key->is_enforced = false;
			return true;
#endif
		default:
			return false;
	}
}

/* Move the keys among a new column's constraints to commands of their own. */
static List *
take_keys(ColumnDef *column, List *commands)
{
	Constraint *last = NULL;
	ListCell   *lc;

	foreach(lc, column->constraints)
	{
		Constraint *constraint = lfirst_node(Constraint, lc);
		AlterTableCmd *command;

		if (last != NULL && take_attribute(last, constraint))
		{
			column->constraints = foreach_delete_current(column->constraints, lc);
			continue;
		}
		last = NULL;
		if (!is_key(constraint))
			continue;
		last = constraint;
		if (constraint->contype == CONSTR_FOREIGN)
			constraint->fk_attrs = list_make1(makeString(column->colname));
		else
			constraint->keys = list_make1(makeString(column->colname));
		command = makeNode(AlterTableCmd);
		command->subtype = AT_AddConstraint;
		command->def = (Node *) constraint;
		commands = lappend(commands, command);
		column->constraints = foreach_delete_current(column->constraints, lc);
	}
	return commands;
}

/*
 * Is it about one of these columns?  A foreign key to the table itself may name none, an exclusion constraint has
 * expressions: any does then.
 */
static bool
names_column(const Constraint *constraint, const List *columns, Oid relid)
{
	bool		foreign = constraint->contype == CONSTR_FOREIGN;
	const List *names = foreign ? constraint->fk_attrs : constraint->keys;
	const ListCell *lc;

	if (columns != NIL && (constraint->contype == CONSTR_EXCLUSION ||
						   (foreign && RangeVarGetRelid(constraint->pktable, NoLock, true) == relid)))
		return true;
	foreach(lc, names)
		if (list_member(columns, lfirst(lc)))
			return true;
	return false;
}

bool
mosql_admin_drops_constraint(const AlterTableStmt *statement, const char *name)
{
	ListCell   *lc;

	foreach(lc, statement->cmds)
	{
		const AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);

		if (command->subtype == AT_DropConstraint && strcmp(command->name, name) == 0)
			return true;
	}
	return false;
}

/* Does it take away what a key may stand in the way of, or have the name of? */
static bool
drops_something(const AlterTableStmt *alter)
{
	const ListCell *lc;

	foreach(lc, alter->cmds)
	{
		AlterTableType type = lfirst_node(AlterTableCmd, lc)->subtype;

		if (type == AT_DropConstraint || type == AT_DropColumn)
			return true;
	}
	return false;
}

/* SET DEFAULT of a new column: the rows that are there have what ADD COLUMN says. */
static bool
is_later_default(const AlterTableCmd *command, const List *added)
{
	return command->subtype == AT_ColumnDefault && command->def != NULL &&
		list_member(added, makeString(command->name));
}

static bool
adds_column(const AlterTableCmd *command, Oid relid)
{
	return command->subtype == AT_AddColumn &&
		!(command->missing_ok && get_attnum(relid, castNode(ColumnDef, command->def)->colname) > 0);
}

/* Move the commands that are so, beside those of the list, out of the statement, behind what is taken already. */
static List *
take(AlterTableStmt *alter, List *taken, bool (*is) (const AlterTableCmd *command, const List *of), const List *of)
{
	ListCell   *lc;

	foreach(lc, alter->cmds)
	{
		AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);

		if (!is(command, of))
			continue;
		taken = lappend(taken, command);
		alter->cmds = foreach_delete_current(alter->cmds, lc);
	}
	return taken;
}

/* Take from the statement what sets defaults of columns that it adds. */
static List *
take_defaults(AlterTableStmt *alter, Oid relid)
{
	List	   *added = NIL;
	ListCell   *lc;

	foreach(lc, alter->cmds)
		if (adds_column(lfirst_node(AlterTableCmd, lc), relid))
			added = lappend(added, makeString(castNode(ColumnDef, lfirst_node(AlterTableCmd, lc)->def)->colname));
	return take(alter, NIL, is_later_default, added);
}

/* What VALIDATE CONSTRAINT or ALTER CONSTRAINT names; NULL: the command is neither. */
static const char *
changed_constraint(const AlterTableCmd *command)
{
	if (command->subtype == AT_ValidateConstraint)
		return command->name;
	if (command->subtype != AT_AlterConstraint)
		return NULL;
#if PG_VERSION_NUM >= 180000
	return castNode(ATAlterConstraint, command->def)->conname;
#else
	return castNode(Constraint, command->def)->conname;
#endif
}

/* Is it about a key that is added by these? */
static bool
changes_added(const AlterTableCmd *command, const List *added)
{
	const char *name = changed_constraint(command);
	const ListCell *lc;

	foreach(lc, added)
	{
		const AlterTableCmd *add = lfirst_node(AlterTableCmd, lc);
		const char *key = add->subtype == AT_AddConstraint ? castNode(Constraint, add->def)->conname : NULL;

		if (name != NULL && key != NULL && strcmp(key, name) == 0)
			return true;
	}
	return false;
}

/*
 * Take from the statement what must come after it.  ADD COLUMN IF NOT EXISTS of one
 * that exists adds no key either.
 */
static List *
take_later(AlterTableStmt *alter, Oid relid)
{
	bool		all = drops_something(alter);
	List	   *later = NIL;
	List	   *changed = NIL;
	ListCell   *lc;

	foreach(lc, alter->cmds)
	{
		AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);

		if (command->subtype == AT_AlterColumnType)
			changed = lappend(changed, makeString(command->name));
		if (command->subtype == AT_AddColumn)
		{
			ColumnDef  *column = castNode(ColumnDef, command->def);
			List	   *keys = take_keys(column, NIL);

			if (!adds_column(command, relid))
				continue;
			changed = lappend(changed, makeString(column->colname));
			later = list_concat(later, keys);
		}
	}
	foreach(lc, alter->cmds)
	{
		AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);

		if (command->subtype != AT_AddConstraint || !is_key(castNode(Constraint, command->def)) ||
			!(all || names_column((Constraint *) command->def, changed, relid)))
			continue;
		later = lappend(later, command);
		alter->cmds = foreach_delete_current(alter->cmds, lc);
	}
	later = take(alter, later, changes_added, list_copy(later));
	return list_concat(later, take_defaults(alter, relid));
}

/* Does the statement drop the primary key?  Its columns then, their number; else -1. */
static int
dropped_key(const AlterTableStmt *alter, Oid relid, AttrNumber *columns)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	Oid			primary = mosql_fdw_primary_key(rel);
	int			n = Min(mosql_table_key_columns(rel, columns), INDEX_MAX_KEYS);

	/* kept, it would be raised by the command itself: two who do that wait for each other */
	relation_close(rel, AccessShareLock);
	return OidIsValid(primary) && mosql_admin_drops_constraint(alter, get_rel_name(primary)) ? n : -1;
}

/* Are these the columns of the key that the table has?  pg_dump says them with the table, and names the key later. */
static bool
is_present_key(const List *columns, Oid relid)
{
	AttrNumber	key[INDEX_MAX_KEYS];
	Relation	rel = relation_open(relid, AccessShareLock);
	bool		is = mosql_table_key_columns(rel, key) == list_length(columns);

	relation_close(rel, AccessShareLock);
	for (int i = 0; is && i < Min(list_length(columns), INDEX_MAX_KEYS); i++)
		is = get_attnum(relid, strVal(list_nth(columns, i))) == key[i];
	return is;
}

/* The columns of a command's new type or key. */
static List *
concerned_columns(const AlterTableCmd *command, Oid relid, bool drops_key)
{
	List	   *columns = NIL;

	if (command->subtype == AT_AlterColumnType)
		return list_make1(makeString(command->name));
	if (command->subtype == AT_AddConstraint &&
		castNode(Constraint, command->def)->contype == CONSTR_PRIMARY)
		columns = castNode(Constraint, command->def)->keys;
	return drops_key || !is_present_key(columns, relid) ? columns : NIL;
}

/*
 * Drop the foreign keys that stand in the way of new types and keys of columns; the result
 * makes them again, but for those that the statement drops, which it need not do any more.  Those that lead to
 * a key or column which is dropped go with it, or core refuses.
 */
static List *
take_foreign_keys(AlterTableStmt *alter, const List *later, Oid relid)
{
	AttrNumber	key[INDEX_MAX_KEYS];
	int			nkeys = dropped_key(alter, relid, key);
	List	   *actions = list_concat_copy(alter->cmds, later);
	List	   *commands = NIL;
	ListCell   *cell;
	ListCell   *lc;

	foreach(cell, actions)
	{
		const AlterTableCmd *command = lfirst_node(AlterTableCmd, cell);
		bool		own = command->subtype != AT_AlterColumnType && nkeys >= 0;

		foreach(lc, concerned_columns(command, relid, nkeys >= 0))
			commands = list_concat(commands, mosql_admin_take_foreign_keys(relid, strVal(lfirst(lc)),
																			own, alter));
	}
	for (int i = 0; i < nkeys; i++)
		commands = list_concat(commands,
							   mosql_admin_take_foreign_keys(relid, get_attname(relid, key[i], false),
															 true, alter));
	return commands;
}

static bool
adds_primary_key(const List *commands)
{
	const ListCell *lc;

	foreach(lc, commands)
	{
		const AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);

		if (command->subtype == AT_AddConstraint &&
			castNode(Constraint, command->def)->contype == CONSTR_PRIMARY)
			return true;
	}
	return false;
}

static bool
has_command(const AlterTableStmt *alter, AlterTableType type, const char *column)
{
	ListCell   *lc;

	foreach(lc, alter->cmds)
	{
		const AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);

		if (command->subtype == type && strcmp(command->name, column) == 0)
			return true;
	}
	return false;
}

/*
 * Without its constraint the primary key is no key any more: the rows get ids of their own, so that there may be
 * duplicates.  Unless another key follows at once.  Its columns may go themselves, while there are no rows (gone.c).
 */
static void
drop_key(AlterTableStmt *alter, const AlterTableStmt *second, Oid relid)
{
	AttrNumber	key[INDEX_MAX_KEYS];
	Relation	rel;
	List	   *commands;
	ListCell   *lc;

	if (dropped_key(alter, relid, key) < 0 || adds_primary_key(alter->cmds) || adds_primary_key(second->cmds))
		return;
	rel = relation_open(relid, AccessShareLock);
	commands = mosql_admin_key_commands(rel, NULL, 0);
	relation_close(rel, AccessShareLock);
	foreach(lc, commands)
	{
		const char *column = lfirst_node(AlterTableCmd, lc)->name;

		if (has_command(alter, AT_DropColumn, column) || has_command(alter, AT_AlterColumnGenericOptions, column))
			commands = foreach_delete_current(commands, lc);
	}
	alter->cmds = list_concat(alter->cmds, commands);
}

/*
 * What core would refuse is done, and goes out of the tree, which is ours, before core gets what is left: as a part, since its event
 * triggers have fired. Without ours nothing would be brought to Redis, so core gets all of it.
 */
static void
run_prepared(const MosqlStatement *statement)
{
	AlterTableStmt *alter = castNode(AlterTableStmt, statement->tree);
	MosqlStatement part = *statement;

	if (statement->seen || statement->context == PROCESS_UTILITY_SUBCOMMAND)
		mosql_admin_prepare_alter(alter);
	part.context = PROCESS_UTILITY_SUBCOMMAND;
	mosql_admin_pass_on(&part, (Node *) alter);
}

static void
run_one(const MosqlStatement *statement, AlterTableStmt *alter)
{
	MosqlStatement one = *statement;

	one.tree = (Node *) alter;
	mosql_admin_run_with_triggers(&one, run_prepared);
}

/* A key whose column got another type was shown again at the end of the command; another one
 * comes in its place. */
static void
drop_shown_key(const AlterTableStmt *second, Oid relid)
{
	Relation	rel;
	Oid			primary;

	if (!adds_primary_key(second->cmds))
		return;
	rel = relation_open(relid, AccessShareLock);
	primary = mosql_fdw_primary_key(rel);
	relation_close(rel, NoLock);
	if (OidIsValid(primary))
		mosql_admin_drop_local_index(primary);
}

/* One ALTER TABLE, in the order in which it is done. */
typedef struct AlterParts
{
	Oid			relid;
	AlterTableStmt *first;
	AlterTableStmt *second;		/* without commands: none */
	List	   *foreign_keys;	/* SQL that makes them again */
	bool		replaces_key;
} AlterParts;

static void
run_alter_parts(const MosqlStatement *statement, void *arg)
{
	const AlterParts *parts = arg;
	ListCell   *lc;

	run_one(statement, parts->first);
	if (parts->second->cmds != NIL)
	{
		CommandCounterIncrement();
		if (parts->replaces_key)
			drop_shown_key(parts->second, parts->relid);
		run_one(statement, parts->second);
	}
	if (parts->foreign_keys != NIL)
		CommandCounterIncrement();
	foreach(lc, parts->foreign_keys)
		mosql_admin_run_sql(lfirst(lc));
}

/* Is one of these a table of ours, or an index of one? */
static bool
has_ours(const List *relations)
{
	const ListCell *lc;

	foreach(lc, relations)
		if (mosql_fdw_is_ours(lfirst_oid(lc)) || mosql_admin_is_our_index(lfirst_oid(lc)))
			return true;
	return false;
}

/* A relation that is not ours: is there one of ours below it, or about to be?  (DETACH, which changes none, is core's.) */
static bool
reaches_ours(const AlterTableStmt *alter, Oid relid)
{
	const AlterTableCmd *first = alter->cmds == NIL ? NULL : linitial_node(AlterTableCmd, alter->cmds);
	Oid			child = InvalidOid;

	if (first == NULL || first->subtype == AT_DetachPartition || first->subtype == AT_DetachPartitionFinalize)
		return false;
	if (first->subtype == AT_AttachPartition)
		child = RangeVarGetRelid(castNode(PartitionCmd, first->def)->name, NoLock, true);
	return has_ours(mosql_admin_altered_tables(relid)) ||
		(OidIsValid(child) && has_ours(mosql_admin_altered_tables(child)));
}

/* What is below a relation that is not ours has its keys from there, by core. */
static void
split(AlterParts *parts, AlterTableStmt *alter, Oid relid, bool ours)
{
	AttrNumber	key[INDEX_MAX_KEYS];

	*parts = (AlterParts) {.relid = relid,.first = alter,.second = copyObject(alter)};
	parts->second->cmds = ours ? take_later(alter, relid) : take_defaults(alter, relid);
	if (!ours)
		return;
	parts->replaces_key = dropped_key(alter, relid, key) >= 0;
	parts->foreign_keys = take_foreign_keys(alter, parts->second->cmds, relid);
	drop_key(alter, parts->second, relid);
}

static void
run_parts(const MosqlStatement *statement, AlterTableStmt *alter, Oid relid, bool ours)
{
	AlterParts	parts;

	split(&parts, alter, relid, ours);
	if (ours && statement->context == PROCESS_UTILITY_SUBCOMMAND)
		run_alter_parts(statement, &parts);
	else
		mosql_admin_run_below(statement, run_alter_parts, &parts);
}

bool
mosql_admin_make_one_part(AlterTableStmt *alter)
{
	Oid			relid = RangeVarGetRelid(alter->relation, NoLock, true);
	bool		ours = OidIsValid(relid) && mosql_fdw_is_ours(relid);
	AlterParts	parts;

	if (!OidIsValid(relid) || !(ours || reaches_ours(alter, relid)))
		return true;
	if (ours)
		mosql_admin_check_owner(relid);
	split(&parts, alter, relid, ours);
	return parts.second->cmds == NIL && parts.foreign_keys == NIL;
}

bool
mosql_admin_run_alter(const MosqlStatement *statement)
{
	AlterTableStmt *alter = (AlterTableStmt *) statement->tree;
	Oid			relid = RangeVarGetRelid(alter->relation, NoLock, true);
	bool		ours = OidIsValid(relid) && mosql_fdw_is_ours(relid);

	if (!OidIsValid(relid))
		return false;
	if (mosql_admin_is_our_index(relid) || mosql_admin_is_bare_index(relid))
		return mosql_admin_run_alter_index(statement, relid);
	if (!ours && !reaches_ours(alter, relid))
		return false;
	mosql_admin_check_may_write(statement->tree);
	if (ours)
		mosql_admin_check_owner(relid); /* foreign keys that go take locks */
	run_parts(statement, copyObject(alter), relid, ours);
	return true;
}
