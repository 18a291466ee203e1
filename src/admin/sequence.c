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
 *   identity      core has an expression of its own: fdw/sequence.c; so it does with
 *                 the default of a domain, which stays as it is: others may use it
 *   calls         nextval, setval, currval and lastval in queries become ours
 *                 while they are planned, where the library is loaded
 *
 * Our functions do what core's do where the sequence is none of ours.
 *
 * A sequence that no column of ours owns is shared, under its name (table/named.c), once
 * a default of ours uses it.  Its numbers go on where they stand when ALTER SEQUENCE ...
 * OWNED BY makes it the one of a column, or a column's one nobody's.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
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
#include "foreign/foreign.h"
#include "nodes/makefuncs.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/planner.h"
#include "parser/parse_type.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

#include "admin/utility.h"

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
	bool		identity = fcinfo->flinfo != NULL && mosql_fdw_is_identity_call(fcinfo->flinfo->fn_expr);
	int64		value;

	if (mosql_fdw_sequence_next(PG_GETARG_OID(0), identity, &value))
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

	return seqid != NULL && IsA(seqid, Const) && !seqid->constisnull &&
		!mosql_fdw_is_shared(DatumGetObjectId(seqid->constvalue));
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
	if (!IsBinaryUpgrade && has_calls((Node *) query, NULL))
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

typedef struct Option
{
	const char *name;
	int			altered;
} Option;

static const Option option_names[] = {
	{"start", MOSQL_SEQUENCE_START},
	{"increment", MOSQL_SEQUENCE_INCREMENT},
	{"minvalue", MOSQL_SEQUENCE_MIN},
	{"maxvalue", MOSQL_SEQUENCE_MAX},
	{"as", MOSQL_SEQUENCE_MIN | MOSQL_SEQUENCE_MAX},
	{"cache", MOSQL_SEQUENCE_CACHE},
	{"cycle", MOSQL_SEQUENCE_CYCLE},
	{"generated", MOSQL_SEQUENCE_ALWAYS}
};

/* What a command says of one sequence. */
static void
read_options(const List *options, MosqlLocalSequence *local)
{
	ListCell   *cell;

	foreach(cell, options)
	{
		const char *name = ((DefElem *) lfirst(cell))->defname;

		local->restart |= strcmp(name, "restart") == 0;
		for (int i = 0; i < lengthof(option_names); i++)
			if (strcmp(name, option_names[i].name) == 0)
				local->altered |= option_names[i].altered;
	}
}

static bool
has_option(const List *options, const char *name)
{
	ListCell   *cell;

	foreach(cell, options)
		if (strcmp(((DefElem *) lfirst(cell))->defname, name) == 0)
			return true;
	return false;
}

/* Does the running command alter this sequence of that column? */
static void
read_command(Node *command, Oid seqid, const char *column, MosqlLocalSequence *local)
{
	ListCell   *cell;

	if (command != NULL && IsA(command, AlterSeqStmt) &&
		RangeVarGetRelid(((AlterSeqStmt *) command)->sequence, NoLock, true) == seqid)
	{
		read_options(((AlterSeqStmt *) command)->options, local);
		local->made |= has_option(((AlterSeqStmt *) command)->options, "owned_by");
	}
	if (command == NULL || !IsA(command, AlterTableStmt))
		return;
	foreach(cell, ((AlterTableStmt *) command)->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, cell);

		if (cmd->subtype == AT_SetIdentity && strcmp(cmd->name, column) == 0)
			read_options((List *) cmd->def, local);
		else if (cmd->subtype == AT_AlterColumnType && local->sequence.identity &&
				 strcmp(cmd->name, column) == 0)
			local->altered |= MOSQL_SEQUENCE_MIN | MOSQL_SEQUENCE_MAX;
	}
}

/* Where the local sequence stands, as its relation says: a query would ask Redis. */
static MosqlSequenceState
local_state(Oid seqid)
{
	Relation	rel = relation_open(seqid, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, SnapshotSelf, 0, NULL);
	HeapTuple	tuple = systable_getnext(scan);
	MosqlSequenceState state;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "could not read sequence %u", seqid);
	state.value = ((Form_pg_sequence_data) GETSTRUCT(tuple))->last_value;
	state.called = ((Form_pg_sequence_data) GETSTRUCT(tuple))->is_called;
	systable_endscan(scan);
	relation_close(rel, NoLock);
	return state;
}

MosqlSequence
mosql_admin_local_sequence(Oid seqid)
{
	HeapTuple	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(seqid));
	Form_pg_sequence form;
	MosqlSequence sequence;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for sequence %u", seqid);
	form = (Form_pg_sequence) GETSTRUCT(tuple);
	sequence = (MosqlSequence)
	{
		.start = form->seqstart,.increment = form->seqincrement,.min = form->seqmin,
			.max = form->seqmax,.cache = form->seqcache,.cycle = form->seqcycle
	};
	ReleaseSysCache(tuple);
	return sequence;
}

static void
describe_sequence(Oid seqid, MosqlLocalSequence *local)
{
	*local = (MosqlLocalSequence)
	{
		.sequence = mosql_admin_local_sequence(seqid),.state = local_state(seqid)
	};
}

/* Did this transaction make it?  ALTER writes its row of pg_class, too. */
static bool
is_new(Oid seqid)
{
	Relation	rel = relation_open(seqid, AccessShareLock);
	bool		new = rel->rd_createSubid != InvalidSubTransactionId;

	relation_close(rel, NoLock);
	return new;
}

static void
describe_local(Relation rel, AttrNumber attnum, Oid seqid, Node *command,
			   MosqlLocalSequence *local)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);

	describe_sequence(seqid, local);
	local->made = is_new(seqid);
	local->column = pstrdup(NameStr(att->attname));
	local->sequence.identity = att->attidentity != '\0';
	local->sequence.always = att->attidentity == ATTRIBUTE_IDENTITY_ALWAYS;
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
static int
describe_owned(Relation rel, const List *owned, Node *command, MosqlLocalSequence *local)
{
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
			describe_local(rel, attnum, lfirst_oid(cell), command, &local[n++]);
		}
	return n;
}

void
mosql_admin_note_sequences(Relation rel)
{
	List	   *owned = getOwnedSequences(RelationGetRelid(rel));
	MosqlLocalSequence *local = palloc((list_length(owned) + 1) * sizeof(MosqlLocalSequence));
	int			n = describe_owned(rel, owned, NULL, local);

	for (int i = 0; i < n; i++)
		mosql_table_note_sequence_before(rel, local[i].column, &local[i].sequence);
}

/* mosql_fdw_refresh() brings here what is there, and nothing there. */
static void
follow_owned(Relation rel, MosqlSession *session, Node *command)
{
	List	   *owned = getOwnedSequences(RelationGetRelid(rel));
	List	   *dropped = dropped_identities(command);
	MosqlLocalSequence *local = palloc((list_length(owned) + list_length(dropped) + 1) *
									   sizeof(MosqlLocalSequence));
	ListCell   *cell;
	int			n = describe_owned(rel, owned, command, local);

	foreach(cell, owned)
		CacheInvalidateRelcacheByRelid(lfirst_oid(cell));	/* its owner may be new */
	if (mosql_table_command->refreshing)
		return;
	foreach(cell, dropped)
		local[n++] = (MosqlLocalSequence)
		{
			.column = lfirst(cell),.dropped = true
		};
	mosql_table_follow_sequences(rel, session, local, n);
}

/* ---- sequences that no column of ours owns ---- */

static const char *
schema_of(Oid seqid)
{
	return get_namespace_name(get_rel_namespace(seqid));
}

static void
warn_repeats(Oid seqid, const char *why, const char *hint)
{
	ereport(WARNING,
			(errmsg("values of sequence \"%s\" may repeat between servers", get_rel_name(seqid)),
			 errdetail_internal("%s", why),
			 errhint("%s", hint)));
}

/*
 * From now on, all servers draw from it, unless they do already.  Its name may be that of
 * a sequence in Redis: so it needs what making a foreign table needs.  And it is no
 * local sequence any more, which is its owner's to say.
 */
static void
share(Oid seqid, Oid serverid)
{
	MosqlLocalSequence local;
	const MosqlNamedSequence *renamed;

	if (OidIsValid(mosql_fdw_shared_on(seqid)))
		return;
	mosql_admin_check_owner(seqid);
	mosql_admin_check_server(serverid);
	describe_sequence(seqid, &local);
	renamed = mosql_named_sequence_share(mosql_fdw_session(serverid, InvalidOid),
										 schema_of(seqid), get_rel_name(seqid), &local);
	mosql_fdw_note_shared(seqid, serverid);
	if (renamed != NULL)
		warn_repeats(seqid, psprintf("Sequence \"%s.%s\" had this name before: servers that know it by that take the new one for it.",
									 renamed->schema, renamed->name),
					 "Rename the sequence on those servers, too, or choose another name for the new one.");
}

/* Where a sequence is in Redis: in a column of ours, or under its name on a server. */
typedef struct Place
{
	Oid			relid;
	AttrNumber	attnum;
	Oid			serverid;
} Place;

/* Before the ALTER SEQUENCE that runs: of its MosqlTableCommand. */
typedef struct Altered
{
	Oid			seqid;
	Place		from;
} Altered;

static Place
place_of(Oid seqid)
{
	Place		place = {0};
	bool		identity;

	if (mosql_fdw_sequence_owner(seqid, &place.relid, &place.attnum, &identity))
		place.serverid = GetForeignTable(place.relid)->serverid;
	else
	{
		place = (Place) {.serverid = mosql_fdw_shared_on(seqid)};
	}
	return place;
}

/*
 * Core compares where the sequence stands with the limits that it gets, and its relation stands still: so
 * it is set to where all servers have drawn to, and nobody reads it for another purpose.  RESTART says itself
 * where to.
 */
static void
bring_up(Oid seqid, const AlterSeqStmt *statement)
{
	MosqlLocalSequence local = {0};
	MosqlSequenceState state;

	read_options(statement->options, &local);
	if (local.altered == 0 || local.restart || !mosql_admin_owns(seqid) ||
		pg_class_aclcheck(seqid, GetUserId(), ACL_UPDATE) != ACLCHECK_OK)
		return;
	LockRelationOid(seqid, ShareRowExclusiveLock);	/* ALTER's: setval() takes a weaker one */
	if (!mosql_fdw_sequence_stands(seqid, &state))
		return;
	describe_sequence(seqid, &local);
	if (state.value >= local.sequence.min && state.value <= local.sequence.max)
		(void) DirectFunctionCall3(setval3_oid, ObjectIdGetDatum(seqid), Int64GetDatum(state.value),
								   BoolGetDatum(state.called));
}

void
mosql_admin_note_owner(const AlterSeqStmt *statement)
{
	Oid			seqid = RangeVarGetRelid(statement->sequence, NoLock, true);
	Altered    *altered;

	if (!OidIsValid(seqid))
		return;
	altered = MemoryContextAlloc(mosql_table_command_context(), sizeof(Altered));
	altered->seqid = seqid;
	altered->from = place_of(seqid);
	mosql_table_command->sequence = altered;
	if (OidIsValid(altered->from.serverid))
		bring_up(seqid, statement);
}

/* Take it from where it was in Redis. */
static MosqlSequence
take_from(const Place *place, Oid seqid, MosqlSession *session)
{
	MosqlSequence sequence;
	Relation	rel;

	if (!OidIsValid(place->relid))
		return mosql_named_sequence_take(session, schema_of(seqid), get_rel_name(seqid));
	rel = relation_open(place->relid, AccessShareLock);
	sequence = mosql_table_take_sequence(rel, session,
										 get_attname(place->relid, place->attnum, false));
	relation_close(rel, NoLock);
	return sequence;
}

static void
give_to(const Place *place, Oid seqid, MosqlSession *session, MosqlSequence sequence)
{
	Relation	rel;

	mosql_fdw_note_shared(seqid, OidIsValid(place->relid) ? InvalidOid : place->serverid);
	if (sequence.counter == 0)
		return;					/* another server was faster, or dropped it */
	if (!OidIsValid(place->relid))
	{
		mosql_named_sequence_give(session, schema_of(seqid), get_rel_name(seqid), sequence);
		return;
	}
	rel = relation_open(place->relid, AccessShareLock);
	mosql_table_give_sequence(rel, session, get_attname(place->relid, place->attnum, false),
							  sequence);
	relation_close(rel, NoLock);
}

/* ALTER SEQUENCE ... OWNED BY: the numbers go on where they stand. */
static void
follow_owner(Oid seqid, const Place *from, Node *command)
{
	Place		to = place_of(seqid);
	MosqlSession *session;

	if (!OidIsValid(from->serverid) || (from->relid == to.relid && from->attnum == to.attnum))
		return;
	if (!OidIsValid(to.serverid))
		to.serverid = from->serverid;	/* it stays shared */
	if (to.serverid != from->serverid)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("sequence \"%s\" cannot move from one Redis server to another",
						get_rel_name(seqid)),
				 errhint("Make another sequence, START WITH a value that was not used yet.")));
	if (mosql_table_command->refreshing)
	{
		mosql_fdw_note_shared(seqid, OidIsValid(to.relid) ? InvalidOid : to.serverid);
		return;					/* it follows what is in Redis */
	}
	session = mosql_fdw_session(to.serverid, InvalidOid);
	give_to(&to, seqid, session, take_from(from, seqid, session));
	if (OidIsValid(from->relid))
		mosql_admin_follow_details(from->relid, false, command);
}

/* ALTER SEQUENCE of one that no column of ours owns. */
static void
follow_named(Oid seqid, Oid serverid, Node *command)
{
	MosqlLocalSequence local;

	describe_sequence(seqid, &local);
	read_command(command, seqid, "", &local);
	if ((local.altered != 0 || local.restart) &&
		!mosql_named_sequence_alter(mosql_fdw_session(serverid, InvalidOid), schema_of(seqid),
									get_rel_name(seqid), &local))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("sequence \"%s\" is not in Redis", get_rel_name(seqid)),
				 errdetail("Another server dropped it, or gave it to a column."),
				 errhint("RESTART WITH a value that was not used yet makes it again.")));
}

/* CREATE SEQUENCE where CREATE TABLE makes foreign tables: for whichever of them. */
static void
share_new(Oid seqid, const CreateSeqStmt *statement)
{
	ForeignServer *server;

	if (!mosql_admin_becomes_foreign(statement->sequence, NULL))
		return;
	server = GetForeignServerByName(mosql_admin_default_server, true);
	if (server != NULL && mosql_fdw_is_our_server(server->serverid))
		share(seqid, server->serverid);
}

/*
 * CREATE or ALTER SEQUENCE.  Returns the table of ours that owns it now, InvalidOid if
 * none.
 */
static Oid
follow_sequence(Oid seqid, Node *command)
{
	const Altered *altered = mosql_table_command->sequence;
	Place		to;

	mosql_table_command->sequence = NULL;
	CacheInvalidateRelcacheByRelid(seqid);	/* perhaps it has no owner any more */
	if (altered != NULL && altered->seqid == seqid)
		follow_owner(seqid, &altered->from, command);
	to = place_of(seqid);
	if (!OidIsValid(to.relid) && OidIsValid(to.serverid))
		follow_named(seqid, to.serverid, command);
	else if (!OidIsValid(to.relid) && command != NULL && IsA(command, CreateSeqStmt))
		share_new(seqid, (const CreateSeqStmt *) command);
	return to.relid;
}

/* A column's sequence goes with its column, unless it is named. */
void
mosql_admin_sequence_dropped(Oid seqid)
{
	Place		place = place_of(seqid);
	MosqlSession *session;
	MosqlSequence gone;

	if (!OidIsValid(place.serverid) || (OidIsValid(place.relid) && !mosql_table_command->drops_sequences))
		return;
	session = mosql_fdw_session(place.serverid, InvalidOid);
	if (!OidIsValid(place.relid))
	{
		mosql_named_sequence_drop(session, schema_of(seqid), get_rel_name(seqid));
		return;
	}
	gone = take_from(&place, seqid, session);
	if (gone.counter != 0)
		mosql_txn_drops_tree(mosql_txn_current(session), gone.counter);
}

void
mosql_admin_sequence_renamed(Oid seqid, const char *schema, const char *name,
							 const char *to_schema, const char *to_name)
{
	Oid			serverid = mosql_fdw_shared_on(seqid);

	if (!OidIsValid(serverid))
		return;
	mosql_admin_check_server(serverid);	/* it may be another's name in Redis */
	mosql_named_sequence_rename(mosql_fdw_session(serverid, InvalidOid), schema, name,
								to_schema, to_name);
}

/* ---- defaults ---- */

/* context: Oid, the sequence. */
static bool
find_drawn(Node *node, void *context)
{
	const FuncExpr *call = (const FuncExpr *) node;

	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && call->funcid == mosql_fdw_nextval_function() &&
		IsA(linitial(call->args), Const) && !((Const *) linitial(call->args))->constisnull)
		*(Oid *) context = DatumGetObjectId(((Const *) linitial(call->args))->constvalue);
	return expression_tree_walker(node, find_drawn, context);
}

Oid
mosql_admin_drawn_sequence(const char *bin)
{
	Oid			seqid = InvalidOid;

	(void) find_drawn(stringToNode(bin), &seqid);
	return seqid;
}

typedef struct Defaults
{
	Oid			function;		/* ours */
	Oid			serverid;
	bool		changed;
} Defaults;

/*
 * The sequence that a default draws from, InvalidOid where only its evaluation tells.  Of nextval('name'::text), whose
 * name is looked up anew each time, the one that has the name now.
 */
static Oid
drawn_by_name(Node *sequence)
{
	const FuncExpr *cast = (const FuncExpr *) sequence;
	const Const *name = (const Const *) sequence;
	bool		late = IsA(sequence, FuncExpr) && cast->funcid == F_REGCLASS;

	if (late)
		name = linitial(cast->args);
	if (!IsA(name, Const) || name->constisnull)
		return InvalidOid;
	if (!late)
		return DatumGetObjectId(name->constvalue);
	return RangeVarGetRelid(makeRangeVarFromNameList(textToQualifiedNameList(DatumGetTextPP(name->constvalue))),
							NoLock, true);
}

/* A default draws from it: all servers shall draw from the same. */
static void
share_default(Node *sequence, Oid serverid)
{
	Oid			relid;
	AttrNumber	attnum;
	bool		identity;
	Oid			seqid = drawn_by_name(sequence);

	if (!OidIsValid(seqid) && !IsA(sequence, Const))
	{
		ereport(WARNING,
				(errmsg("values of a sequence may repeat between servers"),
				 errdetail("It is named by an expression, so that nobody knows which it is before it is used."),
				 errhint("Name it as a constant: nextval('name').")));
		return;
	}
	if (!OidIsValid(seqid) || get_rel_relkind(seqid) != RELKIND_SEQUENCE ||
		mosql_fdw_sequence_owner(seqid, &relid, &attnum, &identity))
		return;
	if (get_rel_persistence(seqid) == RELPERSISTENCE_TEMP)
		warn_repeats(seqid, "It is temporary, and this session's own.", "Use one that is not.");
	else
		share(seqid, serverid);
}

static bool
replace_default(Node *node, void *context)
{
	Defaults   *defaults = context;

	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && (((FuncExpr *) node)->funcid == F_NEXTVAL ||
								((FuncExpr *) node)->funcid == defaults->function))
	{
		FuncExpr   *call = (FuncExpr *) node;

		share_default(linitial(call->args), defaults->serverid);
		defaults->changed |= call->funcid != defaults->function;
		call->funcid = defaults->function;
	}
	return expression_tree_walker(node, replace_default, context);
}

/* Columns without a default of their own have that of their domain. */
static bool
share_drawn(Node *node, void *context)
{
	const FuncExpr *call = (const FuncExpr *) node;
	Defaults   *defaults = context;

	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && (call->funcid == F_NEXTVAL || call->funcid == defaults->function))
		share_default(linitial(call->args), defaults->serverid);
	return expression_tree_walker(node, share_drawn, context);
}

static void
share_domains(Relation rel, Defaults *defaults)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && !att->atthasdef && get_typtype(att->atttypid) == TYPTYPE_DOMAIN)
			(void) share_drawn(get_typdefault(att->atttypid), defaults);
	}
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

/*
 * nextval() in the table's defaults becomes ours, and what it draws from is shared, also
 * in those of its columns' domains.  Our function may stand there already, in a restored
 * dump.
 */
void
mosql_admin_follow_defaults(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	Relation	catalog = table_open(AttrDefaultRelationId, RowExclusiveLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Defaults	defaults = {
		.function = mosql_fdw_nextval_function(),.serverid = GetForeignTable(relid)->serverid
	};
	bool		any = false;

	ScanKeyInit(&key, Anum_pg_attrdef_adrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, AttrDefaultIndexId, true, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		bin = heap_getattr(tuple, Anum_pg_attrdef_adbin, RelationGetDescr(catalog),
									   &isnull);
		Node	   *expr = isnull ? NULL : stringToNode(TextDatumGetCString(bin));

		defaults.changed = false;
		(void) replace_default(expr, &defaults);
		if (!defaults.changed)
			continue;
		any = true;
		update_default(catalog, tuple, expr, defaults.function);
	}
	systable_endscan(scan);
	table_close(catalog, RowExclusiveLock);
	share_domains(rel, &defaults);
	if (any)
	{
		CacheInvalidateRelcache(rel);
		CommandCounterIncrement();
	}
	relation_close(rel, NoLock);
}

/* ALTER DOMAIN ... SET DEFAULT */
void
mosql_admin_follow_domain(const AlterDomainStmt *statement)
{
	Oid			domain = LookupTypeNameOid(NULL, makeTypeNameFromNameList(statement->typeName), true);
	ListCell   *cell;

	if (statement->subtype != 'T' || !OidIsValid(domain))
		return;
	foreach(cell, mosql_admin_tables_of_type(domain))
		mosql_admin_follow_defaults(lfirst_oid(cell));
}

void
mosql_admin_follow_sequences(Oid relid, Node *command)
{
	Relation	rel;

	if (get_rel_relkind(relid) == RELKIND_SEQUENCE)
		relid = follow_sequence(relid, command);
	if (!OidIsValid(relid) || !mosql_fdw_is_ours(relid))
		return;
	rel = relation_open(relid, AccessShareLock);
	follow_owned(rel, mosql_fdw_session_for(relid, InvalidOid), command);
	relation_close(rel, NoLock);
}
