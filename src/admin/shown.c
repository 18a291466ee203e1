/*
 * shown.c: the functions that present.c puts into queries of the catalogs.
 *
 * Layer: admin.  Each does what core's function or column says, and something else only of
 * what is ours.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"

#include "admin/admin.h"

PG_FUNCTION_INFO_V1(mosql_fdw_shown_kind);
PG_FUNCTION_INFO_V1(mosql_fdw_shown_method);
PG_FUNCTION_INFO_V1(mosql_fdw_shown_options);
PG_FUNCTION_INFO_V1(mosql_fdw_shown_ready);
PG_FUNCTION_INFO_V1(mosql_fdw_shown_expr);
PG_FUNCTION_INFO_V1(mosql_fdw_shown_indexdef);
PG_FUNCTION_INFO_V1(mosql_fdw_shown_constraintdef);
PG_FUNCTION_INFO_V1(mosql_fdw_shown_last_value);
PG_FUNCTION_INFO_V1(mosql_fdw_shown_data);
PG_FUNCTION_INFO_V1(mosql_fdw_shown_last);
PG_FUNCTION_INFO_V1(mosql_fdw_shown_called);

/* ---- tables and indexes ---- */

/* pg_class.relkind */
Datum
mosql_fdw_shown_kind(PG_FUNCTION_ARGS)
{
	char		kind = PG_GETARG_CHAR(1);

	if (kind == RELKIND_FOREIGN_TABLE && mosql_fdw_is_ours(PG_GETARG_OID(0)))
		kind = RELKIND_RELATION;
	else if (kind == RELKIND_PARTITIONED_INDEX && mosql_admin_is_bare_index(PG_GETARG_OID(0)))
		kind = RELKIND_INDEX;
	PG_RETURN_CHAR(kind);
}

/* pg_class.relam */
Datum
mosql_fdw_shown_method(PG_FUNCTION_ARGS)
{
	Oid			method = PG_GETARG_OID(1);

	if (OidIsValid(method) && method >= FirstUnpinnedObjectId &&
		method == get_index_am_oid("mosql", true))
		method = mosql_admin_is_shown_as_hash(PG_GETARG_OID(0)) ? HASH_AM_OID : BTREE_AM_OID;
	PG_RETURN_OID(method);
}

/* pg_index.indoption */
Datum
mosql_fdw_shown_options(PG_FUNCTION_ARGS)
{
	int2vector *options = (int2vector *) PG_DETOAST_DATUM_COPY(PG_GETARG_DATUM(0));

	for (int i = 0; i < options->dim1; i++)
		options->values[i] &= ~MOSQL_INDOPTION_HASH;
	PG_RETURN_POINTER(options);
}

/* pg_index.indisready and indisvalid */
Datum
mosql_fdw_shown_ready(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_BOOL(1) || mosql_admin_is_bare_index(PG_GETARG_OID(0)));
}

/* Where the words stand, outside of quoted names; NULL: nowhere. */
static const char *
find_unquoted(const char *text, const char *words)
{
	bool		quoted = false;

	for (; *text != '\0'; text++)
		if (*text == '"')
			quoted = !quoted;
		else if (!quoted && strncmp(text, words, strlen(words)) == 0)
			return text;
	return NULL;
}

/* pg_get_indexdef(), with one argument or three. */
Datum
mosql_fdw_shown_indexdef(PG_FUNCTION_ARGS)
{
	bool		bare = mosql_admin_is_bare_index(PG_GETARG_OID(0));
	const char *ours = bare ? " ON ONLY " : " USING mosql ";
	LOCAL_FCINFO(core, 3);
	const char *theirs;
	const char *said;
	const char *method;
	Datum		result;

	InitFunctionCallInfoData(*core, fcinfo->flinfo, PG_NARGS(), InvalidOid, NULL, NULL);
	memcpy(core->args, fcinfo->args, PG_NARGS() * sizeof(NullableDatum));
	result = PG_NARGS() == 1 ? pg_get_indexdef(core) : pg_get_indexdef_ext(core);
	if (core->isnull)
		PG_RETURN_NULL();
	said = TextDatumGetCString(result);
	theirs = bare ? " ON " : " USING btree ";
	if (!bare && mosql_admin_is_our_index(PG_GETARG_OID(0)) && mosql_admin_is_shown_as_hash(PG_GETARG_OID(0)))
		theirs = " USING hash ";
	method = bare || mosql_admin_is_our_index(PG_GETARG_OID(0)) ? find_unquoted(said, ours) : NULL;
	if (method == NULL)
		PG_RETURN_DATUM(result);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("%.*s%s%s", (int) (method - said), said, theirs,
											  method + strlen(ours))));
}

/* pg_get_constraintdef(), with one argument or two. */
Datum
mosql_fdw_shown_constraintdef(PG_FUNCTION_ARGS)
{
	static const char ours[] = "EXCLUDE USING mosql ";
	Oid			indexid = get_constraint_index(PG_GETARG_OID(0));
	LOCAL_FCINFO(core, 2);
	Datum		result;
	const char *said;

	InitFunctionCallInfoData(*core, fcinfo->flinfo, PG_NARGS(), InvalidOid, NULL, NULL);
	memcpy(core->args, fcinfo->args, PG_NARGS() * sizeof(NullableDatum));
	result = PG_NARGS() == 1 ? pg_get_constraintdef(core) : pg_get_constraintdef_ext(core);
	if (core->isnull)
		PG_RETURN_NULL();
	said = TextDatumGetCString(result);
	if (!OidIsValid(indexid) || !mosql_admin_is_our_index(indexid) || strncmp(said, ours, strlen(ours)) != 0)
		PG_RETURN_DATUM(result);
	PG_RETURN_TEXT_P(cstring_to_text(psprintf("EXCLUDE USING %s %s",
											  mosql_admin_is_shown_as_hash(indexid) ? "hash" : "btree",
											  said + strlen(ours))));
}

/* ---- defaults ---- */

static bool
put_core_nextval(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && ((FuncExpr *) node)->funcid == *(Oid *) context)
		((FuncExpr *) node)->funcid = F_NEXTVAL;
	return expression_tree_walker(node, put_core_nextval, context);
}

/* pg_get_expr(), with two arguments or three. */
Datum
mosql_fdw_shown_expr(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(core, 3);
	Datum		result;

	InitFunctionCallInfoData(*core, fcinfo->flinfo, PG_NARGS(), InvalidOid, NULL, NULL);
	memcpy(core->args, fcinfo->args, PG_NARGS() * sizeof(NullableDatum));
	if (mosql_fdw_is_ours(PG_GETARG_OID(1)))
	{
		char	   *tree = TextDatumGetCString(PG_GETARG_DATUM(0));
		Oid			nextval = mosql_fdw_nextval_function();

		if (strstr(tree, psprintf(":funcid %u ", nextval)) != NULL)
		{
			Node	   *node = stringToNode(tree);

			(void) put_core_nextval(node, &nextval);
			core->args[0].value = CStringGetTextDatum(nodeToString(node));
		}
	}
	result = PG_NARGS() == 2 ? pg_get_expr(core) : pg_get_expr_ext(core);
	if (core->isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(result);
}

/* ---- sequences ---- */

/* One sequence that is asked for in Redis. */
typedef struct Asked
{
	Oid			seqid;
	bool		shared;			/* it is there */
	MosqlSequenceState state;
} Asked;

/* A MosqlAttempt. */
static void
ask(void *arg)
{
	Asked	   *asked = arg;

	asked->shared = mosql_fdw_sequence_state(asked->seqid, &asked->state);
}

/*
 * In a query of all sequences one server that does not answer is no reason not to see the others: false, with a
 * WARNING.  Once is enough: it is not asked again for other sequences of this query.
 */
static bool
ask_one_of_many(FmgrInfo *call, Oid serverid, Asked *asked)
{
	List	   *silent = call->fn_extra;
	MemoryContext caller;
	ErrorData  *error;

	if (list_member_oid(silent, serverid))
		return false;
	error = mosql_admin_attempt_server(ask, asked);
	if (error == NULL)
		return true;
	mosql_admin_warn(error, psprintf("where sequence \"%s\" stands is not known", get_rel_name(asked->seqid)));
	if (error->sqlerrcode == ERRCODE_UNDEFINED_TABLE || error->sqlerrcode == ERRCODE_INVALID_TABLE_DEFINITION)
		return false;
	caller = MemoryContextSwitchTo(call->fn_mcxt);
	call->fn_extra = lappend_oid(silent, serverid);
	MemoryContextSwitchTo(caller);
	return false;
}

/* Since PostgreSQL 18 pg_sequences leaves it to the function to say nothing to those who may not know. */
static bool
may_know(Oid seqid)
{
#if PG_VERSION_NUM >= 180000
	return pg_class_aclcheck(seqid, GetUserId(), ACL_SELECT | ACL_USAGE) == ACLCHECK_OK;
#else
	return true;
#endif
}

/* pg_sequence_last_value(): null if nothing was drawn yet, or it cannot be known. */
Datum
mosql_fdw_shown_last_value(PG_FUNCTION_ARGS)
{
	LOCAL_FCINFO(core, 1);
	Asked		asked = {.seqid = PG_GETARG_OID(0)};
	Oid			serverid = mosql_fdw_sequence_server(asked.seqid);
	Datum		result;

	if (OidIsValid(serverid))
	{
		if (!may_know(asked.seqid) || !ask_one_of_many(fcinfo->flinfo, serverid, &asked) ||
			(asked.shared && !asked.state.called))
			PG_RETURN_NULL();
		if (asked.shared)
			PG_RETURN_INT64(asked.state.value);
	}
	InitFunctionCallInfoData(*core, fcinfo->flinfo, 1, InvalidOid, NULL, NULL);
	core->args[0] = fcinfo->args[0];
	result = pg_sequence_last_value(core);
	if (core->isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(result);
}

/* pg_get_sequence_data(), which pg_dump asks since PostgreSQL 18: nulls for who may not know, or where it cannot be known. */
Datum
mosql_fdw_shown_data(PG_FUNCTION_ARGS)
{
	Asked		asked = {.seqid = PG_GETARG_OID(0)};
	Oid			serverid = mosql_fdw_sequence_server(asked.seqid);
	bool		known = true;
	bool		nulls[2] = {true, true};
	Datum		values[2] = {0};
	TupleDesc	row;

	if (OidIsValid(serverid) && pg_class_aclcheck(asked.seqid, GetUserId(), ACL_SELECT) == ACLCHECK_OK)
		known = ask_one_of_many(fcinfo->flinfo, serverid, &asked);
#if PG_VERSION_NUM >= 180000
	if (known && !asked.shared)
		return pg_get_sequence_data(fcinfo);
#endif
	if (known && asked.shared)
	{
		values[0] = Int64GetDatum(asked.state.value);
		values[1] = BoolGetDatum(asked.state.called);
		nulls[0] = nulls[1] = false;
	}
	if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "mosql_fdw_shown_data() returns a row");
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(row, values, nulls)));
}

/*
 * last_value and is_called of a sequence's row, beside what the relation itself says.  Where present.c has put
 * the call, the executor has seen that whoever reads the row may: a view's owner, if it is a view's.
 */
static bool
row_state(FunctionCallInfo fcinfo, MosqlSequenceState *state)
{
	const Node *call = fcinfo->flinfo->fn_expr;

	return call != NULL && IsA(call, FuncExpr) && ((const FuncExpr *) call)->funcformat == COERCE_SQL_SYNTAX
		? mosql_fdw_sequence_stands(PG_GETARG_OID(0), state)
		: mosql_fdw_sequence_state(PG_GETARG_OID(0), state);
}

Datum
mosql_fdw_shown_last(PG_FUNCTION_ARGS)
{
	MosqlSequenceState state;

	if (row_state(fcinfo, &state))
		PG_RETURN_INT64(state.value);
	PG_RETURN_DATUM(PG_GETARG_DATUM(1));
}

Datum
mosql_fdw_shown_called(PG_FUNCTION_ARGS)
{
	MosqlSequenceState state;

	if (row_state(fcinfo, &state))
		PG_RETURN_BOOL(state.called);
	PG_RETURN_DATUM(PG_GETARG_DATUM(1));
}
