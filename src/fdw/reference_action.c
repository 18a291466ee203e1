/*
 * reference_action.c: ON DELETE and ON UPDATE CASCADE, SET NULL, SET DEFAULT.
 *
 * Layer: fdw.  As in core an action is a statement on the child, with all that a
 * statement does: its indexes, its triggers, its own foreign keys.  But it is one
 * statement for all parents that a statement took away, not one for each.  It is run
 * as the child's owner, past row security, like core's; and as core's it is a part of that statement: its AFTER
 * triggers are fired with that one's, and those for each statement once for all actions.
 */
#include "postgres.h"

#include "access/table.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "fdw/reference.h"

typedef struct Action
{
	MosqlReference *reference;
	bool		deleted;
	char		action;
	bool		with_new;		/* CASCADE of an update: new values are parameters, too */
	int			listed;			/* so many parents, each a list of parameters, since of a column's type there are
								 * no arrays: it is one; else 0 */
} Action;

/* The type of the referenced column. */
static Oid
referenced_type(const Action *action, int i)
{
	const MosqlForeignKey *key = &action->reference->key;

	return action->reference->parent->columns[key->referenced[i] - 1].type;
}

static const char *
column_name(const Action *action, AttrNumber attnum)
{
	return quote_identifier(get_attname(action->reference->key.child, attnum, false));
}

static const char *
child_name(const Action *action)
{
	Oid			relid = action->reference->key.child;

	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* "a = k.n1, ..." or "a = NULL, ...". */
static void
put_assignments(const Action *action, StringInfo sql)
{
	const MosqlForeignKey *key = &action->reference->key;
	bool		some = action->deleted && key->nset > 0;
	int			n = some ? key->nset : key->n;
	Bitmapset  *named = NULL;

	for (int i = 0; i < n; i++)
	{
		AttrNumber	attnum = some ? key->set[i] : key->columns[i];

		if (bms_is_member(attnum, named))	/* SET NULL (a, a) */
			continue;
		appendStringInfo(sql, "%s%s = ", i > 0 ? ", " : "", column_name(action, attnum));
		named = bms_add_member(named, attnum);
		if (action->with_new)
			appendStringInfo(sql, "k.n%d", i);
		else
			appendStringInfoString(sql, action->action == FKCONSTR_ACTION_SETDEFAULT
								   ? "DEFAULT" : "NULL");
	}
}

/* "ROWS FROM (pg_catalog.unnest($1), ...)": a column of all parents each; or "(VALUES ($1, $2), ...)": a parent each. */
static void
put_values(const Action *action, StringInfo sql, int nparams)
{
	appendStringInfoString(sql, action->listed > 0 ? "(VALUES (" : "ROWS FROM (");
	for (int i = 0; i < Max(action->listed, 1) * nparams; i++)
	{
		if (i > 0)
			appendStringInfoString(sql, i % nparams == 0 ? "), (" : ", ");
		appendStringInfo(sql, action->listed > 0 ? "$%d" : "pg_catalog.unnest($%d)", i + 1);
	}
	appendStringInfoString(sql, action->listed > 0 ? "))" : ")");
}

/* The parents, "... k(o0, n0)". */
static void
put_parents(const Action *action, StringInfo sql)
{
	int			n = action->reference->key.n;
	int			nparams = action->with_new ? 2 * n : n;

	put_values(action, sql, nparams);
	appendStringInfoString(sql, " k(");
	for (int i = 0; i < nparams; i++)
		appendStringInfo(sql, "%s%s%d", i > 0 ? ", " : "", i < n ? "o" : "n", i < n ? i : i - n);
	appendStringInfoChar(sql, ')');
}

static void
put_condition(const Action *action, StringInfo sql)
{
	const MosqlForeignKey *key = &action->reference->key;

	appendStringInfoString(sql, " WHERE ");
	for (int i = 0; i < key->n; i++)
	{
		if (i > 0)
			appendStringInfoString(sql, " AND ");
		generate_operator_clause(sql, psprintf("k.o%d", i), referenced_type(action, i), key->pf[i],
								 psprintf("c.%s", column_name(action, key->columns[i])),
								 get_atttype(key->child, key->columns[i]));
	}
}

static char *
statement(const Action *action)
{
	StringInfoData sql;
	bool		deletes = action->deleted && action->action == FKCONSTR_ACTION_CASCADE;

	initStringInfo(&sql);
	appendStringInfo(&sql, "%s ONLY %s c ", deletes ? "DELETE FROM" : "UPDATE", child_name(action));
	if (!deletes)
	{
		appendStringInfoString(&sql, "SET ");
		put_assignments(action, &sql);
	}
	appendStringInfoString(&sql, deletes ? " USING " : " FROM ");
	put_parents(action, &sql);
	put_condition(action, &sql);
	return sql.data;
}

/* Column i of all parents. */
static Datum
make_array(const Action *action, int i, Datum **values, int n)
{
	Oid			type = referenced_type(action, i);
	Datum	   *column = palloc(n * sizeof(Datum));
	int16		typlen;
	bool		byval;
	char		align;

	for (int j = 0; j < n; j++)
		column[j] = values[j][i];
	get_typlenbyvalalign(type, &typlen, &byval, &align);
	return PointerGetDatum(construct_array(column, n, type, typlen, byval, align));
}

/* Has some column no type of arrays? */
static bool
lacks_arrays(const MosqlReference *reference)
{
	for (int i = 0; i < reference->key.n; i++)
		if (!OidIsValid(get_array_type(reference->parent->columns[reference->key.referenced[i] - 1].type)))
			return true;
	return false;
}

/*
 * One statement for n parents: in several, one would change what another has made of its children, where the keys of
 * parents move on.
 */
static void
run(Action *action, Datum **values, Datum **new_values, int n)
{
	int			ncolumns = action->reference->key.n;
	int			nparams = action->with_new ? 2 * ncolumns : ncolumns;
	bool		listed = lacks_arrays(action->reference);
	int			all = listed ? n * nparams : nparams;
	Oid		   *types = palloc(all * sizeof(Oid));
	Datum	   *params = palloc(all * sizeof(Datum));
	SPIPlanPtr	plan;
	int			result;

	action->listed = listed ? n : 0;
	for (int i = 0; i < all; i++)
	{
		int			column = i % ncolumns;
		Datum	  **from = i % nparams < ncolumns ? values : new_values;

		types[i] = referenced_type(action, column);
		params[i] = listed ? from[i / nparams][column] : make_array(action, column, from, n);
		if (!listed)
			types[i] = get_array_type(types[i]);
	}
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	plan = SPI_prepare(statement(action), all, types);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	result = SPI_execute_snapshot(plan, params, NULL, InvalidSnapshot, InvalidSnapshot, false, false, 0);
	if (result < 0)
		elog(ERROR, "SPI_execute_snapshot failed: %s", SPI_result_code_string(result));
	SPI_finish();
}

/*
 * Another role may have another user mapping, and with it another session: what the
 * action does would be another transaction in Redis.
 */
static void
check_session(const MosqlReference *reference)
{
	if (mosql_fdw_session_for(reference->key.child, GetUserId()) != reference->session)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the owner of table \"%s\" has another user mapping than the current user",
						get_rel_name(reference->key.child)),
				 errdetail("Foreign key \"%s\" changes rows of that table as its owner, which would be another transaction in Redis.",
						   NameStr(reference->key.name)),
				 errhint("Give both the same user mapping, or none.")));
}

static Oid
owner_of(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	Oid			owner = rel->rd_rel->relowner;

	table_close(rel, NoLock);
	return owner;
}

/* Those of the parents that have new values, or that have none. */
static int
choose(Datum **values, Datum **new_values, int n, bool with_new, Datum **chosen,
	   Datum **new_chosen)
{
	int			m = 0;

	for (int i = 0; i < n; i++)
		if ((new_values[i] != NULL) == with_new)
		{
			chosen[m] = values[i];
			new_chosen[m++] = new_values[i];
		}
	return m;
}

void
mosql_reference_act(MosqlReference *reference, bool deleted, Datum **values, Datum **new_values,
					int n)
{
	Action		action = {.reference = reference,.deleted = deleted};
	Datum	  **chosen = palloc(n * sizeof(Datum *));
	Datum	  **new_chosen = palloc(n * sizeof(Datum *));
	Oid			user;
	int			context;

	action.action = deleted ? reference->key.on_delete : reference->key.on_update;
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(owner_of(reference->key.child),
						   context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_NOFORCE_RLS);
	check_session(reference);
	if (deleted || action.action != FKCONSTR_ACTION_CASCADE)
		run(&action, values, new_values, n);
	else
	{
		int			m = choose(values, new_values, n, false, chosen, new_chosen);

		/* keys that are null now, and so are theirs; first, as another may have become what one was */
		if (m > 0)
			run(&action, chosen, new_chosen, m);
		m = choose(values, new_values, n, true, chosen, new_chosen);
		action.with_new = true;
		if (m > 0)
			run(&action, chosen, new_chosen, m);
	}
	SetUserIdAndSecContext(user, context);
}
