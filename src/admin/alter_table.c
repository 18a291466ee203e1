/*
 * alter_table.c: the order of what one ALTER TABLE does to a table of ours.
 *
 * Layer: admin.  Keys, unique constraints and foreign keys are taken out of the
 * statement before core runs it (mosql_admin_prepare_alter, from the
 * ddl_command_start trigger).  Where they are about columns that the same statement
 * adds, or it drops something, say the primary key before, they must wait: the hook moves
 * them to a second ALTER TABLE.  Foreign keys of a column that gets another type are
 * dropped before and made again after it.  Who drops the primary key drops the key.
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
		constraint->contype == CONSTR_FOREIGN;
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

static bool
names_column(const Constraint *constraint, const List *columns)
{
	const List *names = constraint->contype == CONSTR_FOREIGN ? constraint->fk_attrs : constraint->keys;
	const ListCell *lc;

	foreach(lc, names)
		if (list_member(columns, lfirst(lc)))
			return true;
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

/*
 * Take from the statement what must come after it.  ADD COLUMN IF NOT EXISTS of one
 * that exists adds no key either.
 */
static List *
take_later(AlterTableStmt *alter, Oid relid)
{
	bool		all = drops_something(alter);
	List	   *later = NIL;
	List	   *added = NIL;
	ListCell   *lc;

	foreach(lc, alter->cmds)
	{
		AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);

		if (command->subtype == AT_AddColumn)
		{
			ColumnDef  *column = castNode(ColumnDef, command->def);
			List	   *keys = take_keys(column, NIL);

			if (command->missing_ok && get_attnum(relid, column->colname) > 0)
				continue;
			added = lappend(added, makeString(column->colname));
			later = list_concat(later, keys);
		}
	}
	foreach(lc, alter->cmds)
	{
		AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);

		if (command->subtype != AT_AddConstraint || !is_key(castNode(Constraint, command->def)) ||
			!(all || names_column((Constraint *) command->def, added)))
			continue;
		later = lappend(later, command);
		alter->cmds = foreach_delete_current(alter->cmds, lc);
	}
	return later;
}

/* What makes the foreign keys again that stand in the way of new types. */
static List *
take_foreign_keys(const AlterTableStmt *alter, Oid relid)
{
	List	   *commands = NIL;
	ListCell   *lc;

	foreach(lc, alter->cmds)
		if (lfirst_node(AlterTableCmd, lc)->subtype == AT_AlterColumnType)
			commands = list_concat(commands,
								   mosql_admin_take_foreign_keys(relid, lfirst_node(AlterTableCmd, lc)->name));
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

/*
 * Without its constraint the primary key is no key any more: the rows get ids of their
 * own, so that there may be duplicates.  Unless another key follows at once.
 */
static bool
drop_key(AlterTableStmt *alter, const AlterTableStmt *second, Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	Oid			primary = mosql_fdw_primary_key(rel);
	bool		drops = false;
	ListCell   *lc;

	foreach(lc, alter->cmds)
	{
		const AlterTableCmd *command = lfirst_node(AlterTableCmd, lc);

		drops |= OidIsValid(primary) && command->subtype == AT_DropConstraint &&
			strcmp(command->name, get_rel_name(primary)) == 0;
	}
	drops &= !adds_primary_key(alter->cmds) && !adds_primary_key(second->cmds);
	if (drops)
		alter->cmds = list_concat(alter->cmds, mosql_admin_key_commands(rel, NULL, 0));
	/* kept, it would be raised by the command itself: two who do that wait for each other */
	relation_close(rel, AccessShareLock);
	return drops;
}

/* For a part of another statement no trigger fires that would prepare it. */
static void
run_one(const MosqlStatement *statement, AlterTableStmt *alter)
{
	if (statement->context == PROCESS_UTILITY_SUBCOMMAND)
		mosql_admin_prepare_alter(alter);
	mosql_admin_pass_on(statement, (Node *) alter);
}

bool
mosql_admin_run_alter(const MosqlStatement *statement)
{
	AlterTableStmt *alter = (AlterTableStmt *) statement->tree;
	AlterTableStmt *second;
	List	   *foreign_keys;
	ListCell   *lc;
	Oid			relid = RangeVarGetRelid(alter->relation, NoLock, true);
	bool		is_part = statement->context == PROCESS_UTILITY_SUBCOMMAND;
	bool		drops_key;

	if (!OidIsValid(relid) || !mosql_fdw_is_ours(relid))
		return false;
	mosql_admin_check_owner(relid); /* foreign keys that go take locks */
	alter = copyObject(alter);
	second = copyObject(alter);
	second->cmds = take_later(alter, relid);
	foreign_keys = take_foreign_keys(alter, relid);
	drops_key = drop_key(alter, second, relid);
	if (second->cmds == NIL && foreign_keys == NIL && !drops_key && !is_part)
		return false;
	run_one(statement, alter);
	if (second->cmds != NIL)
	{
		CommandCounterIncrement();
		run_one(statement, second);
	}
	if (foreign_keys != NIL)
		CommandCounterIncrement();
	foreach(lc, foreign_keys)
		mosql_admin_run_sql(lfirst(lc));
	return true;
}
