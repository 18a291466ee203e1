/*
 * portable.c: which expressions mean the same on every server, and harm none.
 *
 * Layer: table.  Expressions of a definition come from Redis: whoever can write there, or
 * may make tables on some server, has written them, and a superuser of this server may be
 * the one who runs them.  So what is allowed is listed, twice:
 *
 *   - of a text, before PostgreSQL analyses it, since that runs things already: a literal
 *     is read by the input function of the type that it is taken for, and that of a
 *     composite type runs the CHECKs of its domains.  So syntax is a short list, functions
 *     and operators are those of pg_catalog, and types built-in ones and enums;
 *   - of the tree that comes of it, and of each that goes to Redis: nodes, types, and
 *     functions.  Built-in alone is not enough: query_to_xml() runs SQL, pg_read_file()
 *     reads.
 *
 * The functions allowed are the immutable ones, which depend on their arguments alone (with
 * one exception); those about date and time that depend on the time zone; and some by name.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_type.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "table/table_int.h"

/* ---- types ---- */

static bool
is_enum(Oid type)
{
	Oid			base = getBaseType(type);
	Oid			element = get_element_type(base);

	return get_typtype(OidIsValid(element) ? element : base) == TYPTYPE_ENUM;
}

/*
 * Not values whose text or meaning only this server knows: OIDs, own types.  Labels of
 * enums mean the same everywhere, and values of a domain are those of its base type.  Nor
 * what functions have that are not made to be called.
 */
bool
mosql_type_is_portable(Oid type)
{
	type = getBaseType(type);
	if (type >= FirstGenbkiObjectId)
		return is_enum(type);
	if (type == REGCONFIGOID || type == REGDICTIONARYOID)
		return true;			/* those that all have: is_local_object() */
	return type != CSTRINGOID && type != INTERNALOID && !mosql_type_is_object_reference(type);
}

/* A text search configuration or dictionary that somebody made here. */
static bool
is_local_object(const Const *value)
{
	return IsA(value, Const) && !value->constisnull &&
		(value->consttype == REGCONFIGOID || value->consttype == REGDICTIONARYOID) &&
		DatumGetObjectId(value->constvalue) >= FirstNormalObjectId;
}

static bool
is_of_enum(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, List))
		return expression_tree_walker(node, is_of_enum, context);
	return is_enum(exprType(node));
}

/* What a node does with values of enums. */
typedef enum LabelUse
{
	LABELS_ALIKE,				/* are they the same? or nothing */
	LABELS_ORDERED,				/* which one is first? */
	LABELS_OTHERWISE			/* what they hash to, or what is next: each server's own */
} LabelUse;

static LabelUse
use_of_labels(Node *node)
{
	Oid			function = InvalidOid;

	if (!expression_tree_walker(node, is_of_enum, NULL))
		return LABELS_ALIKE;
	switch (nodeTag(node))
	{
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			function = ((OpExpr *) node)->opfuncid;
			break;
		case T_ScalarArrayOpExpr:
			function = ((ScalarArrayOpExpr *) node)->opfuncid;
			break;
		case T_NullTest:
		case T_CaseExpr:
		case T_CoalesceExpr:
		case T_ArrayExpr:
		case T_RelabelType:
		case T_List:
			return LABELS_ALIKE;
		default:
			break;
	}
	switch (function)
	{
		case F_ENUM_EQ:
		case F_ENUM_NE:
			return LABELS_ALIKE;
		case F_ENUM_LT:
		case F_ENUM_LE:
		case F_ENUM_GT:
		case F_ENUM_GE:
			return LABELS_ORDERED;
		default:
			return LABELS_OTHERWISE;
	}
}

static bool
collect_ordered(Node *node, void *context)
{
	List	  **types = context;

	if (node == NULL)
		return false;
	if (use_of_labels(node) == LABELS_ORDERED)
		*types = list_append_unique_oid(*types, mosql_type_enum(exprType(linitial(((OpExpr *) node)->args))));
	return expression_tree_walker(node, collect_ordered, context);
}

List *
mosql_expression_ordered_enums(Node *node)
{
	List	   *types = NIL;

	(void) collect_ordered(node, &types);
	return types;
}

/* ---- functions ---- */

/*
 * Not immutable, and harmless: what time it is, ids that nobody has yet, and text or JSON of
 * values, whose types are looked at by themselves.
 */
static const char *const functions_allowed[] = {
	"now", "transaction_timestamp", "statement_timestamp", "clock_timestamp", "timeofday",
	"gen_random_uuid", "uuidv4", "uuidv7", "random",
	"concat", "concat_ws", "textanycat", "anytextcat", "format", "array_to_string",
	"to_json", "to_jsonb", "json_build_array", "json_build_object", "jsonb_build_array",
	"jsonb_build_object"
};

static bool
is_about_time(Oid type)
{
	return type == DATEOID || type == TIMEOID || type == TIMETZOID || type == TIMESTAMPOID ||
		type == TIMESTAMPTZOID || type == INTERVALOID;
}

static bool
is_plain(Oid type)
{
	return is_about_time(type) || type == BOOLOID || type == INT2OID || type == INT4OID ||
		type == INT8OID || type == FLOAT4OID || type == FLOAT8OID || type == NUMERICOID ||
		type == TEXTOID;
}

/* Of dates and times, and of numbers and text besides: no names of anything. */
static bool
computes_time(Form_pg_proc function)
{
	bool		any = false;

	for (int i = 0; i < function->pronargs; i++)
	{
		if (!is_plain(function->proargtypes.values[i]))
			return false;
		any |= is_about_time(function->proargtypes.values[i]);
	}
	return any && is_plain(function->prorettype);
}

static bool
is_allowed(Form_pg_proc function)
{
	if (function->oid >= FirstGenbkiObjectId || function->prokind != PROKIND_FUNCTION ||
		function->proretset)
		return false;
	if (function->provolatile == PROVOLATILE_IMMUTABLE)
		return function->oid != F_SATISFIES_HASH_PARTITION; /* opens the table it names */
	if (function->provolatile == PROVOLATILE_STABLE && computes_time(function))
		return true;
	for (int i = 0; i < lengthof(functions_allowed); i++)
		if (strcmp(NameStr(function->proname), functions_allowed[i]) == 0)
			return true;
	return false;
}

static bool
is_refused_function(Oid function, void *context)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		allowed;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	allowed = is_allowed((Form_pg_proc) GETSTRUCT(tuple));
	ReleaseSysCache(tuple);
	return !allowed;
}

/* ---- trees ---- */

static bool
is_allowed_node(Node *node)
{
	switch (nodeTag(node))
	{
		case T_List:
		case T_Var:
		case T_Param:			/* a column, where there is no relation yet */
		case T_Const:
		case T_FuncExpr:
		case T_NamedArgExpr:
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
		case T_ScalarArrayOpExpr:
		case T_BoolExpr:
		case T_RelabelType:
		case T_CoerceViaIO:
		case T_ArrayCoerceExpr:
		case T_CollateExpr:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CaseTestExpr:
		case T_ArrayExpr:
		case T_SubscriptingRef:
		case T_RowExpr:
		case T_RowCompareExpr:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_SQLValueFunction:
		case T_NullTest:
		case T_BooleanTest:
#if PG_VERSION_NUM >= 160000
		case T_JsonIsPredicate:
#endif
			return true;
		default:
			return false;
	}
}

static bool
is_local(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (!is_allowed_node(node) || is_local_object((const Const *) node) ||
		use_of_labels(node) > *(LabelUse *) context ||
		(!IsA(node, List) && !mosql_type_is_portable(exprType(node))))
		return true;

	/* text to a type and back is what these types are for; but for that no cstring is
	 * portable, so that nobody calls those functions by name */
	if (!IsA(node, CoerceViaIO) && check_functions_in_node(node, is_refused_function, context))
		return true;
	return expression_tree_walker(node, is_local, context);
}

bool
mosql_expression_is_portable(Node *node)
{
	LabelUse	allowed = LABELS_ALIKE;

	return !is_local(node, &allowed);
}

bool
mosql_expression_is_portable_in_index(Node *node)
{
	LabelUse	allowed = LABELS_ORDERED;

	return !is_local(node, &allowed);
}

static bool
has_configuration(Node *node, void *context)
{
	Oid			type;

	if (node == NULL)
		return false;
	type = IsA(node, List) ? InvalidOid : exprType(node);
	if (type == REGCONFIGOID || type == REGDICTIONARYOID)
		return true;
	return expression_tree_walker(node, has_configuration, context);
}

/*
 * Also a built-in configuration is each server's own: ALTER TEXT SEARCH changes it, and so do
 * the files of stop words and PostgreSQL's version.
 */
bool
mosql_expression_is_searching(Node *node)
{
	return has_configuration(node, NULL);
}

/* ---- texts ---- */

/* A name of a function or operator: found in pg_catalog, whatever the search path. */
static bool
is_builtin_name(const List *name)
{
	return list_length(name) == 1 ||
		(list_length(name) == 2 && strcmp(strVal(linitial(name)), "pg_catalog") == 0);
}

static bool
is_plain_call(const FuncCall *call)
{
	return is_builtin_name(call->funcname) && call->agg_order == NIL && call->agg_filter == NULL &&
		call->over == NULL && !call->agg_within_group && !call->agg_star && !call->agg_distinct;
}

/* nextval('name'::regclass): what it means is looked at in the tree. */
bool
mosql_raw_is_draw(Node *node, const char **name)
{
	const FuncCall *call = (const FuncCall *) node;
	Node	   *arg;

	if (!IsA(node, FuncCall) || !is_plain_call(call) || list_length(call->args) != 1 ||
		strcmp(strVal(llast(call->funcname)), "nextval") != 0)
		return false;
	arg = linitial(call->args);
	if (IsA(arg, TypeCast))
	{
		const TypeName *type = ((TypeCast *) arg)->typeName;

		if (!is_builtin_name(type->names) || type->arrayBounds != NIL ||
			strcmp(strVal(llast(type->names)), "regclass") != 0)
			return false;
		arg = ((TypeCast *) arg)->arg;
	}
	if (!IsA(arg, A_Const) || ((A_Const *) arg)->isnull || !IsA(&((A_Const *) arg)->val, String))
		return false;
	*name = strVal(&((A_Const *) arg)->val);
	return true;
}

/* Not *, which the parser of expressions does not expect. */
static bool
is_plain_column(const ColumnRef *column)
{
	return list_length(column->fields) == 1 && IsA(linitial(column->fields), String);
}

static bool
is_allowed_type(const TypeName *name)
{
	Type		tuple;
	Oid			type;

	if (name->names == NIL || name->setof || name->pct_type)
		return false;
	tuple = LookupTypeName(NULL, name, NULL, true);
	if (tuple == NULL)
		return false;
	type = typeTypeId(tuple);
	ReleaseSysCache(tuple);
	return mosql_type_is_portable(type);
}

static bool
is_foreign_syntax(Node *node, void *context)
{
	const char *name;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_FuncCall:
			if (mosql_raw_is_draw(node, &name))
				return false;
			if (!is_plain_call((FuncCall *) node))
				return true;
			break;
		case T_ColumnRef:
			if (!is_plain_column((ColumnRef *) node))
				return true;
			break;
		case T_A_Expr:
			if (!is_builtin_name(((A_Expr *) node)->name))
				return true;
			break;
		case T_TypeName:
			if (!is_allowed_type((TypeName *) node))
				return true;
			break;
		case T_List:
		case T_String:
		case T_Integer:
		case T_A_Const:
		case T_ParamRef:
		case T_TypeCast:
		case T_CollateClause:
		case T_NamedArgExpr:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_CaseExpr:
		case T_CaseWhen:
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_A_ArrayExpr:
		case T_A_Indirection:
		case T_A_Indices:
		case T_RowExpr:
		case T_SQLValueFunction:
#if PG_VERSION_NUM >= 160000
		case T_JsonIsPredicate:
#endif
			break;
		default:
			return true;
	}
	return raw_expression_tree_walker(node, is_foreign_syntax, context);
}

bool
mosql_raw_is_portable(Node *raw)
{
	return !is_foreign_syntax(raw, NULL);
}
