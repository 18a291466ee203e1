/*
 * sequence.c: sequences of columns of our tables are drawn from Redis.
 *
 * Layer: admin.  A sequence that a column of one of our tables owns, by SERIAL, AS
 * IDENTITY or OWNED BY, is known to PostgreSQL as usual, and stands still: where
 * the numbers come from is the counter in the table's definition (table/sequence.c).
 * These ways lead there:
 *
 *   defaults      nextval('s') in a default becomes mosql_fdw_nextval('s') in the
 *                 catalog, so that INSERT, COPY and whatever evaluates defaults
 *                 finds it, whether or not the library is loaded
 *   identity      core has an expression of its own: fdw/sequence.c
 *   calls         nextval, setval, currval and lastval in queries become ours
 *                 while they are planned, where the library is loaded
 *
 * Our functions do what core's do where the sequence is none of ours.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_attrdef.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_sequence.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "executor/spi.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "admin/admin.h"

PG_FUNCTION_INFO_V1(mosql_fdw_nextval);
PG_FUNCTION_INFO_V1(mosql_fdw_currval);
PG_FUNCTION_INFO_V1(mosql_fdw_lastval);
PG_FUNCTION_INFO_V1(mosql_fdw_setval);
PG_FUNCTION_INFO_V1(mosql_fdw_setval_forward);

static planner_hook_type next_planner = NULL;

/* ---- the functions ---- */

Datum
mosql_fdw_nextval(PG_FUNCTION_ARGS)
{
	int64		value;

	if (mosql_fdw_sequence_next(PG_GETARG_OID(0), &value))
		PG_RETURN_INT64(value);
	PG_RETURN_DATUM(DirectFunctionCall1(nextval_oid, PG_GETARG_DATUM(0)));
}

Datum
mosql_fdw_currval(PG_FUNCTION_ARGS)
{
	int64		value;

	if (mosql_fdw_sequence_current(PG_GETARG_OID(0), &value))
		PG_RETURN_INT64(value);
	PG_RETURN_DATUM(DirectFunctionCall1(currval_oid, PG_GETARG_DATUM(0)));
}

Datum
mosql_fdw_lastval(PG_FUNCTION_ARGS)
{
	int64		value;

	if (mosql_fdw_sequence_last(&value))
		PG_RETURN_INT64(value);
	PG_RETURN_DATUM(DirectFunctionCall1(lastval, (Datum) 0));
}

static Datum
set(FunctionCallInfo fcinfo, bool forward)
{
	MosqlSequenceState state = {PG_GETARG_INT64(1), PG_NARGS() < 3 || PG_GETARG_BOOL(2)};

	if (mosql_fdw_sequence_set(PG_GETARG_OID(0), state, forward))
		PG_RETURN_INT64(state.value);
	PG_RETURN_DATUM(DirectFunctionCall3(setval3_oid, PG_GETARG_DATUM(0),
										Int64GetDatum(state.value), BoolGetDatum(state.called)));
}

Datum
mosql_fdw_setval(PG_FUNCTION_ARGS)
{
	return set(fcinfo, false);
}

/*
 * What setval() in queries becomes.  pg_dump writes setval() with the state of the
 * local sequence.  Where its output is restored into a database that attaches to
 * tables in use, that must not set back what others draw from.
 */
Datum
mosql_fdw_setval_forward(PG_FUNCTION_ARGS)
{
	return set(fcinfo, true);
}

/* ---- calls in queries ---- */

typedef struct Replacement
{
	Oid			core;
	const char *name;
	int			nargs;
	Oid			args[3];
} Replacement;

static const Replacement replacements[] = {
	{F_NEXTVAL, "mosql_fdw_nextval", 1, {REGCLASSOID}},
	{F_CURRVAL, "mosql_fdw_currval", 1, {REGCLASSOID}},
	{F_LASTVAL, "mosql_fdw_lastval", 0, {InvalidOid}},
	{F_SETVAL_REGCLASS_INT8, "mosql_fdw_setval_forward", 2, {REGCLASSOID, INT8OID}},
	{F_SETVAL_REGCLASS_INT8_BOOL, "mosql_fdw_setval_forward", 3, {REGCLASSOID, INT8OID, BOOLOID}}
};

static const Replacement *
replacement_of(const FuncExpr *call)
{
	for (int i = 0; i < lengthof(replacements); i++)
		if (call->funcid == replacements[i].core)
			return &replacements[i];
	return NULL;
}

/* Is the call about a sequence that cannot be ours? */
static bool
is_others(const FuncExpr *call)
{
	const Const *seqid = call->args != NIL ? linitial(call->args) : NULL;
	Oid			relid;
	AttrNumber	attnum;
	bool		identity;

	return seqid != NULL && IsA(seqid, Const) && !seqid->constisnull &&
		!mosql_fdw_sequence_owner(DatumGetObjectId(seqid->constvalue), &relid, &attnum, &identity);
}

static bool
has_calls(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && replacement_of((FuncExpr *) node) != NULL)
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, has_calls, context, 0);
	return expression_tree_walker(node, has_calls, context);
}

static bool
replace_calls(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr))
	{
		FuncExpr   *call = (FuncExpr *) node;
		const Replacement *replacement = replacement_of(call);

		if (replacement != NULL && !is_others(call))
		{
			Oid			function = mosql_fdw_function(replacement->name, replacement->nargs,
														  replacement->args);

			if (OidIsValid(function))
				call->funcid = function;
		}
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, replace_calls, context, 0);
	return expression_tree_walker(node, replace_calls, context);
}

/* The planner may scribble on its query, and so may we. */
static PlannedStmt *
plan(Query *query, const char *text, int cursor_options, ParamListInfo params)
{
	if (has_calls((Node *) query, NULL))
		(void) replace_calls((Node *) query, NULL);
	return (next_planner ? next_planner : standard_planner) (query, text, cursor_options, params);
}

void
mosql_admin_init_sequences(void)
{
	next_planner = planner_hook;
	planner_hook = plan;
}

/* ---- DDL ---- */

/* What a command says of one sequence. */
static void
read_options(const List *options, bool *altered, bool *restart)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		const char *name = ((DefElem *) lfirst(cell))->defname;

		*altered |= strcmp(name, "owned_by") != 0;
		*restart |= strcmp(name, "restart") == 0;
	}
}

/* Does the running command alter this sequence of that column? */
static void
read_command(Node *command, Oid seqid, const char *column, MosqlLocalSequence *local)
{
	ListCell   *cell;

	if (command != NULL && IsA(command, AlterSeqStmt) &&
		RangeVarGetRelid(((AlterSeqStmt *) command)->sequence, NoLock, true) == seqid)
		read_options(((AlterSeqStmt *) command)->options, &local->altered, &local->restart);
	if (command == NULL || !IsA(command, AlterTableStmt))
		return;
	foreach(cell, ((AlterTableStmt *) command)->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);

		if (cmd->subtype == AT_SetIdentity && strcmp(cmd->name, column) == 0)
		{
			local->altered = true;
			read_options((List *) cmd->def, &local->altered, &local->restart);
		}
	}
}

/* Where the local sequence stands. */
static MosqlSequenceState
local_state(Oid seqid)
{
	MosqlSequenceState state;
	bool		isnull;
	char	   *query = psprintf("SELECT last_value, is_called FROM %s",
								 quote_qualified_identifier(get_namespace_name(get_rel_namespace(seqid)),
															get_rel_name(seqid)));

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute(query, false, 1) != SPI_OK_SELECT || SPI_processed != 1)
		elog(ERROR, "could not read sequence %u", seqid);
	state.value = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1,
											  &isnull));
	state.called = DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2,
											  &isnull));
	SPI_finish();
	return state;
}

static void
describe_local(Relation rel, AttrNumber attnum, Oid seqid, Node *command,
			   MosqlLocalSequence *local)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	HeapTuple	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(seqid));
	Form_pg_sequence form;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for sequence %u", seqid);
	form = (Form_pg_sequence) GETSTRUCT(tuple);
	memset(local, 0, sizeof(*local));
	local->column = pstrdup(NameStr(att->attname));
	local->sequence = (MosqlSequence)
	{
		.start = form->seqstart,.increment = form->seqincrement,.min = form->seqmin,
			.max = form->seqmax,.cache = form->seqcache,.cycle = form->seqcycle,
			.identity = att->attidentity != '\0',
			.always = att->attidentity == ATTRIBUTE_IDENTITY_ALWAYS
	};
	ReleaseSysCache(tuple);
	local->state = local_state(seqid);
	read_command(command, seqid, local->column, local);
}

/* The columns that the running command takes their identity from. */
static List *
dropped_identities(Node *command)
{
	List	   *names = NIL;
	ListCell   *cell;

	if (command == NULL || !IsA(command, AlterTableStmt))
		return NIL;
	foreach(cell, ((AlterTableStmt *) command)->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);

		if (cmd->subtype == AT_DropIdentity)
			names = lappend(names, cmd->name);
	}
	return names;
}

/* One sequence per column: an identity column's own, else the first it owns. */
static void
follow_owned(Relation rel, MosqlSession *session, Node *command)
{
	List	   *owned = getOwnedSequences(RelationGetRelid(rel));
	List	   *dropped = dropped_identities(command);
	MosqlLocalSequence *local = palloc((list_length(owned) + list_length(dropped) + 1) *
									   sizeof(MosqlLocalSequence));
	Bitmapset  *columns = NULL;
	ListCell   *cell;
	int			n = 0;

	for (int identities = 1; identities >= 0; identities--)
		foreach(cell, owned)
		{
			Oid			relid;
			AttrNumber	attnum;
			bool		identity;

			if (!mosql_fdw_sequence_owner(lfirst_oid(cell), &relid, &attnum, &identity) ||
				identity != (identities == 1) || bms_is_member(attnum, columns))
				continue;
			columns = bms_add_member(columns, attnum);
			CacheInvalidateRelcacheByRelid(lfirst_oid(cell));	/* its owner may be new */
			describe_local(rel, attnum, lfirst_oid(cell), command, &local[n++]);
		}
	foreach(cell, dropped)
		local[n++] = (MosqlLocalSequence)
		{
			.column = lfirst(cell),.dropped = true
		};
	mosql_table_follow_sequences(rel, session, local, n);
}

/* ---- defaults ---- */

typedef struct Defaults
{
	Oid			function;
	bool		changed;
	Oid			unshared;		/* a sequence that no column of ours owns */
} Defaults;

static bool
replace_default(Node *node, void *context)
{
	Defaults   *defaults = context;

	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && ((FuncExpr *) node)->funcid == F_NEXTVAL)
	{
		FuncExpr   *call = (FuncExpr *) node;
		Const	   *seqid = linitial(call->args);

		call->funcid = defaults->function;
		defaults->changed = true;
		if (is_others(call))
			defaults->unshared = DatumGetObjectId(seqid->constvalue);
	}
	return expression_tree_walker(node, replace_default, context);
}

static void
warn_unshared(Relation rel, AttrNumber attnum, Oid seqid)
{
	const char *column = get_attname(RelationGetRelid(rel), attnum, false);

	ereport(NOTICE,
			(errmsg("sequence \"%s\" is not shared with other servers", get_rel_name(seqid)),
			 errdetail("Column \"%s\" of foreign table \"%s\" draws from it on this server alone.",
					   column, RelationGetRelationName(rel)),
			 errhint("Use ALTER SEQUENCE %s OWNED BY %s.%s.",
					 quote_identifier(get_rel_name(seqid)),
					 quote_identifier(RelationGetRelationName(rel)), quote_identifier(column))));
}

/* The default is the same with another function, on which it now depends. */
static void
update_default(Relation catalog, HeapTuple tuple, Node *expr, Oid function)
{
	ObjectAddress self;
	ObjectAddress called;
	Datum		values[Natts_pg_attrdef] = {0};
	bool		nulls[Natts_pg_attrdef] = {0};
	bool		replaces[Natts_pg_attrdef] = {0};
	HeapTuple	changed;

	values[Anum_pg_attrdef_adbin - 1] = CStringGetTextDatum(nodeToString(expr));
	replaces[Anum_pg_attrdef_adbin - 1] = true;
	changed = heap_modify_tuple(tuple, RelationGetDescr(catalog), values, nulls, replaces);
	CatalogTupleUpdate(catalog, &changed->t_self, changed);
	ObjectAddressSet(self, AttrDefaultRelationId, ((Form_pg_attrdef) GETSTRUCT(tuple))->oid);
	ObjectAddressSet(called, ProcedureRelationId, function);
	recordDependencyOn(&self, &called, DEPENDENCY_NORMAL);
}

/* nextval() in the table's defaults becomes ours. */
static void
follow_defaults(Relation rel)
{
	Relation	catalog = table_open(AttrDefaultRelationId, RowExclusiveLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Defaults	defaults = {0};
	bool		any = false;

	ScanKeyInit(&key, Anum_pg_attrdef_adrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(rel)));
	scan = systable_beginscan(catalog, AttrDefaultIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		bin = heap_getattr(tuple, Anum_pg_attrdef_adbin, RelationGetDescr(catalog),
									   &isnull);
		Node	   *expr = isnull ? NULL : stringToNode(TextDatumGetCString(bin));

		if (!has_calls(expr, NULL))
			continue;
		defaults.function = mosql_fdw_nextval_function();
		defaults.changed = false;
		defaults.unshared = InvalidOid;
		(void) replace_default(expr, &defaults);
		if (OidIsValid(defaults.unshared))
			warn_unshared(rel, ((Form_pg_attrdef) GETSTRUCT(tuple))->adnum, defaults.unshared);
		if (!defaults.changed)
			continue;
		any = true;
		update_default(catalog, tuple, expr, defaults.function);
	}
	systable_endscan(scan);
	table_close(catalog, RowExclusiveLock);
	if (any)
	{
		CacheInvalidateRelcache(rel);
		CommandCounterIncrement();
	}
}

void
mosql_admin_follow_sequences(Oid relid, Node *command)
{
	Relation	rel;
	AttrNumber	attnum;
	bool		identity;

	if (get_rel_relkind(relid) == RELKIND_SEQUENCE)
	{
		CacheInvalidateRelcacheByRelid(relid);	/* perhaps it has no owner any more */
		if (!mosql_fdw_sequence_owner(relid, &relid, &attnum, &identity))
			return;
	}
	if (!mosql_fdw_is_ours(relid))
		return;
	rel = relation_open(relid, AccessShareLock);
	follow_owned(rel, mosql_fdw_session_for(relid, InvalidOid), command);
	follow_defaults(rel);
	relation_close(rel, NoLock);
}
