/*
 * expression.c: expressions of a definition: SQL text that every server reads alike.
 *
 * Layer: table.  What indexes are computed by (index.c), and what IMPORT FOREIGN
 * SCHEMA brings along, is text: servers share no OIDs.  For it to mean the same
 * everywhere, whatever the settings, the version and the names of the day:
 *
 *   - it is made of built-in functions, operators and types only, and of labels of enums
 *     (portable.c);
 *   - it is written and read with the same settings (mosql_expression_settings);
 *   - columns that an index is computed by are named by their ids, as parameters:
 *     lower($3).  So RENAME changes no text, and a server that has not heard of it
 *     reads the right column;
 *   - what depends on the locale of the database goes with the name of that locale;
 *   - what depends on its encoding alone is what it is in UTF-8;
 *   - labels of enums are compared by their order where that is the one that the definition says.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_database.h"
#include "catalog/pg_type.h"
#include "common/string.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"
#include "utils/ruleutils.h"
#include "utils/syscache.h"

#include "table/table_int.h"

/* ---- settings ---- */

/* See definition.h. */
int
mosql_expression_settings(void)
{
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"}, {"DateStyle", "ISO, YMD"},
		{"IntervalStyle", "postgres"}, {"extra_float_digits", "3"}, {"bytea_output", "hex"},
		{"quote_all_identifiers", "off"}, {"TimeZone", "UTC"}, {"standard_conforming_strings", "on"},
		{"transform_null_equals", "off"}, {"array_nulls", "on"}, {"xmloption", "content"}, {"lc_monetary", "C"}
	};
	int			level = NewGUCNestLevel();

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, 0, false);
	return level;
}

/* ---- columns ---- */

MosqlAttributes
mosql_definition_attributes(const MosqlDefinition *definition, Oid relid)
{
	MosqlAttributes attributes = {.relid = relid,.definition = definition};
	int16	   *by_id;

	for (int i = 0; i < definition->ncolumns; i++)
		attributes.nids = Max(attributes.nids, (int) definition->columns[i].id + 1);
	by_id = palloc(Max(attributes.nids, 1) * sizeof(int16));
	for (int id = 0; id < attributes.nids; id++)
		by_id[id] = -1;
	for (int i = 0; i < definition->ncolumns; i++)
	{
		const MosqlDefinitionColumn *column = &definition->columns[i];
		AttrNumber	attnum = column->dropped ? 0 : get_attnum(relid, column->name);

		if (attnum > 0)
			by_id[column->id] = attnum - 1;
	}
	attributes.by_id = by_id;
	return attributes;
}

/* ---- writing ---- */

char *
mosql_expression_text(Node *node, Oid relid)
{
	int			level = mosql_expression_settings();
	char	   *text = deparse_expression(node, deparse_context_for(get_rel_name(relid), relid),
										  false, false);

	AtEOXact_GUC(true, level);
	return text;
}

/* A column as a parameter that has the number of its id. */
static Node *
number_columns(Node *node, void *context)
{
	const MosqlAttributes *attributes = context;

	if (node != NULL && IsA(node, Var))
	{
		const Var  *var = (const Var *) node;
		Param	   *param = makeNode(Param);

		param->paramkind = PARAM_EXTERN;
		for (int id = 0; id < attributes->nids; id++)
			if (var->varattno > 0 && attributes->by_id[id] == var->varattno - 1)
				param->paramid = id;
		if (param->paramid == 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("column \"%s\" cannot be indexed",
							get_attname(attributes->relid, var->varattno, false)),
					 errdetail("Virtual generated columns are not stored."),
					 errhint("Declare the column GENERATED ALWAYS AS (...) STORED.")));
		param->paramtype = var->vartype;
		param->paramtypmod = var->vartypmod;
		param->paramcollid = var->varcollid;
		param->location = -1;
		return (Node *) param;
	}
	return expression_tree_mutator(node, number_columns, context);
}

char *
mosql_expression_label(Node *node, Oid relid)
{
	char	   *text = mosql_expression_text(node, relid);

	switch (nodeTag(node))
	{
		case T_FuncExpr:
			if (((FuncExpr *) node)->funcformat == COERCE_EXPLICIT_CALL ||
				((FuncExpr *) node)->funcformat == COERCE_SQL_SYNTAX)
				return text;
			break;
		case T_CoalesceExpr:
		case T_MinMaxExpr:
		case T_NullIfExpr:
		case T_XmlExpr:
			return text;		/* they look like functions */
		case T_OpExpr:
		case T_BoolExpr:
		case T_NullTest:
		case T_BooleanTest:
		case T_DistinctExpr:
		case T_ScalarArrayOpExpr:
			return text;		/* in parentheses already */
		default:
			break;
	}
	return psprintf("(%s)", text);
}

static char *
encode(Node *node, const MosqlAttributes *attributes)
{
	int			level = mosql_expression_settings();
	char	   *text = deparse_expression(number_columns(node, (void *) attributes), NIL, false,
										  false);

	AtEOXact_GUC(true, level);
	return text;
}

/*
 * SQL that is read again is not always the same tree, but then its text stays: so
 * what is stored is the text of a tree that was read.
 */
char *
mosql_expression_encode(Node *node, const MosqlAttributes *attributes, bool predicate)
{
	return encode(mosql_expression_decode(encode(node, attributes), attributes, predicate),
				  attributes);
}

/* ---- reading ---- */

static void
report_damage(const char *text, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("damaged table definition in Redis"),
			 errdetail("%s: %s", what, text)));
}

/* The raw expression; XX001 if it is none, or something besides.  Under mosql_expression_settings(). */
static Node *
parse(const char *text)
{
	List	   *statements = raw_parser(text, RAW_PARSE_PLPGSQL_EXPR);
	SelectStmt *select = castNode(SelectStmt, linitial_node(RawStmt, statements)->stmt);

	if (list_length(select->targetList) != 1 || linitial_node(ResTarget, select->targetList)->name ||
		select->distinctClause || select->fromClause || select->whereClause ||
		select->groupClause || select->havingClause || select->windowClause ||
		select->sortClause || select->limitOffset || select->limitCount || select->lockingClause)
		report_damage(text, "Not an expression");
	return linitial_node(ResTarget, select->targetList)->val;
}

static Node *
parse_alone(const char *text)
{
	int			level = mosql_expression_settings();
	Node	   *raw = parse(text);

	AtEOXact_GUC(true, level);
	return raw;
}

/* It comes from Redis: nothing is analysed, let alone run, that is not to be. */
static Node *
parse_portable(const char *text)
{
	Node	   *raw = parse(text);

	if (!mosql_raw_is_portable(raw))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("it is made of more than built-in functions, operators and types")));
	return raw;
}

/* What is compared with a column may be read as its type, by functions of that type. */
static void
check_column_type(Oid type)
{
	if (!mosql_type_is_portable(type))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("it is about a column of type %s, which is not built-in",
						format_type_be(type))));
}

/* The column that a parameter stands for. */
static Node *
column_of_number(ParseState *pstate, ParamRef *reference)
{
	const MosqlAttributes *attributes = pstate->p_ref_hook_state;
	AttrNumber	attnum = 0;
	Oid			type;
	int32		typmod;
	Oid			collation;

	if (reference->number > 0 && reference->number < attributes->nids)
		attnum = attributes->by_id[reference->number] + 1;
	if (attnum <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("damaged table definition in Redis"),
				 errdetail("An index is computed by a column that is not there.")));
	get_atttypetypmodcoll(attributes->relid, attnum, &type, &typmod, &collation);
	check_column_type(type);
	return (Node *) makeVar(1, attnum, type, typmod, collation, 0);
}

/* As the parser takes it here. */
static Node *
read_computed(const char *text, const MosqlAttributes *attributes, bool predicate)
{
	int			level = mosql_expression_settings();
	ParseState *pstate = make_parsestate(NULL);
	Node	   *node;

	pstate->p_paramref_hook = column_of_number;
	pstate->p_ref_hook_state = (void *) attributes;
	node = transformExpr(pstate, parse_portable(text),
						 predicate ? EXPR_KIND_INDEX_PREDICATE : EXPR_KIND_INDEX_EXPRESSION);
	if (predicate)
		node = coerce_to_boolean(pstate, node, "WHERE");
	assign_expr_collations(pstate, node);
	free_parsestate(pstate);
	AtEOXact_GUC(true, level);
	return node;
}

Node *
mosql_expression_decode(const char *text, const MosqlAttributes *attributes, bool predicate)
{
	Node	   *node = read_computed(text, attributes, predicate);

	/* it comes from Redis: nothing runs here that CREATE INDEX would have refused */
	if (!mosql_expression_is_portable_in_index(node))
		report_damage(text, "An index is computed by what not every server has");
	if (mosql_expression_is_searching(node))
		report_damage(text, "An index is computed by a text search configuration");
	if (contain_mutable_functions(node))
		report_damage(text, "An index is computed by a function that is not immutable here");
	return node;
}

/* By other functions than before, perhaps: so it is looked at, and planned, as by CREATE INDEX. */
Node *
mosql_expression_retype(const char *text, const MosqlAttributes *attributes, bool predicate)
{
	Node	   *node = read_computed(text, attributes, predicate);

	if (mosql_expression_is_portable_in_index(node) && contain_mutable_functions(node))
		node = (Node *) expression_planner((Expr *) node);
	if (!mosql_expression_is_portable_in_index(node) || mosql_expression_is_searching(node))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 predicate ? errmsg("index predicates can be made of built-in functions, operators and types only")
				 : errmsg("index expressions can be made of built-in functions, operators and types only"),
				 errdetail("With the new types of its columns an index would be made of others."),
				 errhint("Drop the index first.")));
	if (contain_mutable_functions(node))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("functions in index %s must be marked IMMUTABLE", predicate ? "predicate" : "expression")));
	return node;
}

/* ---- errors ---- */

/* Errors that say that a text means nothing here; others are to be seen. */
static bool
is_about_text(int code)
{
	int			category = ERRCODE_TO_CATEGORY(code);

	return category == ERRCODE_TO_CATEGORY(ERRCODE_SYNTAX_ERROR) ||
		category == ERRCODE_TO_CATEGORY(ERRCODE_DATA_EXCEPTION) ||
		category == ERRCODE_TO_CATEGORY(ERRCODE_FEATURE_NOT_SUPPORTED) ||
		code == ERRCODE_DATA_CORRUPTED;
}

/* The parser may have left things open when it throws, hence a subtransaction. */
const char *
mosql_expression_try(MosqlReader read, void *arg)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	const char *volatile wrong = NULL;
	uint32		held = InterruptHoldoffCount;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		read(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		InterruptHoldoffCount = held;	/* an error resets it */
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(cxt);
		CurrentResourceOwner = owner;
		if (!is_about_text(error->sqlerrcode))
			ReThrowError(error);
		wrong = error->detail == NULL ? error->message
			: psprintf("%s (%s)", error->message, error->detail);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	return wrong;
}

/* ---- columns in a text ---- */

static bool
collect_references(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, ParamRef))
	{
		List	  **references = context;

		*references = lappend(*references, node);
		return false;
	}
	return raw_expression_tree_walker(node, collect_references, context);
}

static int
by_location(const ListCell *a, const ListCell *b)
{
	return ((const ParamRef *) lfirst(a))->location - ((const ParamRef *) lfirst(b))->location;
}

/* In the order of the text. */
static List *
references_of(Node *raw)
{
	List	   *references = NIL;

	(void) collect_references(raw, &references);
	list_sort(references, by_location);
	return references;
}

static List *
references_in(const char *text)
{
	return references_of(parse_alone(text));
}

bool
mosql_expression_has_column(const char *text, uint32 id)
{
	ListCell   *cell;

	foreach(cell, references_in(text))
		if (lfirst_node(ParamRef, cell)->number == (int) id)
			return true;
	return false;
}

char *
mosql_expression_renumber(const char *text, uint32 from, uint32 to)
{
	StringInfoData out;
	int			at = 0;
	ListCell   *cell;

	initStringInfo(&out);
	foreach(cell, references_in(text))
	{
		const ParamRef *reference = lfirst_node(ParamRef, cell);

		if (reference->number != (int) from)
			continue;
		appendBinaryStringInfo(&out, text + at, reference->location - at);
		appendStringInfo(&out, "$%u", to);
		at = reference->location + 1;	/* behind the dollar and the digits */
		at += strspn(text + at, "0123456789");
	}
	appendStringInfoString(&out, text + at);
	return out.data;
}

/* ---- expressions of a table that need not be here ---- */

/* A column by its name; anything else is an error of the parser. */
static Node *
column_of_name(ParseState *pstate, ColumnRef *reference)
{
	const MosqlDefinition *definition = pstate->p_ref_hook_state;
	Param	   *param;

	if (list_length(reference->fields) != 1 || !IsA(linitial(reference->fields), String))
		return NULL;
	for (int i = 0; i < definition->ncolumns; i++)
	{
		const MosqlDefinitionColumn *column = &definition->columns[i];

		if (column->dropped || strcmp(column->name, strVal(linitial(reference->fields))) != 0)
			continue;
		param = makeNode(Param);
		param->paramkind = PARAM_EXTERN;
		param->paramid = i + 1;
		mosql_type_oid(column->type, &param->paramtype, &param->paramtypmod);
		param->paramcollid = mosql_collation_oid(column->collation);
		param->location = -1;
		check_column_type(param->paramtype);
		return (Node *) param;
	}
	return NULL;
}

/* $1 as the name of the first column, and so on. */
static char *
name_columns(const char *text, const MosqlDefinition *definition)
{
	StringInfoData out;
	int			at = 0;
	ListCell   *cell;

	initStringInfo(&out);
	foreach(cell, references_in(text))
	{
		const ParamRef *reference = lfirst_node(ParamRef, cell);

		appendBinaryStringInfo(&out, text + at, reference->location - at);
		appendStringInfoString(&out, quote_identifier(definition->columns[reference->number - 1].name));
		at = reference->location + 1;
		at += strspn(text + at, "0123456789");
	}
	appendStringInfoString(&out, text + at);
	return out.data;
}

/* Of the type that it is wanted in. */
static Node *
coerce_to_column(ParseState *pstate, Node *node, const MosqlDefinitionColumn *column)
{
	Oid			type;
	int32		typmod;
	Node	   *coerced;

	mosql_type_oid(column->type, &type, &typmod);
	check_column_type(type);	/* reads literals */
	coerced = coerce_to_target_type(pstate, node, exprType(node), type, typmod,
									COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
	if (coerced == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("it is of type %s and not %s", format_type_be(exprType(node)), column->type)));
	return coerced;
}

/* The analysed tree, columns as parameters; under mosql_expression_settings(). */
static Node *
analyse(const MosqlDefinition *definition, const MosqlDefinitionColumn *column, const char *text)
{
	ParseState *pstate = make_parsestate(NULL);
	Node	   *raw = parse_portable(text);
	Node	   *node;

	pstate->p_pre_columnref_hook = column_of_name;
	pstate->p_ref_hook_state = (void *) definition;
	if (references_of(raw) != NIL)
		report_damage(text, "Not an expression of a column or constraint");
	node = transformExpr(pstate, raw, column == NULL ? EXPR_KIND_CHECK_CONSTRAINT :
						 column->generated ? EXPR_KIND_GENERATED_COLUMN : EXPR_KIND_COLUMN_DEFAULT);
	node = column == NULL ? coerce_to_boolean(pstate, node, "CHECK")
		: coerce_to_column(pstate, node, column);
	assign_expr_collations(pstate, node);
	free_parsestate(pstate);
	return node;
}

static bool
collect_draws(Node *node, void *context)
{
	List	  **names = context;
	const char *name;

	if (node == NULL)
		return false;
	if (mosql_raw_is_draw(node, &name))
		*names = lappend(*names, (char *) name);
	return raw_expression_tree_walker(node, collect_draws, context);
}

List *
mosql_expression_draws(const char *text)
{
	List	   *names = NIL;

	(void) collect_draws(parse_alone(text), &names);
	return names;
}

char *
mosql_expression_localize(const MosqlDefinition *definition, const MosqlDefinitionColumn *column,
						  const char *text, MosqlDraws without_draws, void *context)
{
	int			level = mosql_expression_settings();
	Node	   *node = analyse(definition, column, text);
	bool		is_default = column != NULL && !column->generated;
	char	   *result;

	if (!mosql_expression_is_portable(is_default ? without_draws(node, context) : node))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("it is made of more than built-in functions, operators and types")));
	if (column != NULL && column->generated && contain_mutable_functions(node))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("it calls a function that is not immutable here")));
	result = name_columns(deparse_expression(node, NIL, false, false), definition);
	AtEOXact_GUC(true, level);
	return result;
}

/* ---- what depends on the locale ---- */

/* All functions of characters, but for those that do as the bytes say. */
static bool
uses_locale(Oid function, void *context)
{
	switch (function)
	{
		case F_TEXTEQ:
		case F_TEXTNE:
		case F_BPCHAREQ:
		case F_BPCHARNE:
		case F_NAMEEQ:
		case F_NAMENE:
		case F_TEXTLIKE:
		case F_TEXTNLIKE:
		case F_TEXTCAT:
		case F_LENGTH_TEXT:
			return false;
		default:
			return true;
	}
}

static bool
needs_locale(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (!IsA(node, List) && exprInputCollation(node) == DEFAULT_COLLATION_OID &&
		(IsA(node, MinMaxExpr) || check_functions_in_node(node, uses_locale, NULL)))
		return true;
	if (IsA(node, RowCompareExpr) &&
		list_member_oid(((RowCompareExpr *) node)->inputcollids, DEFAULT_COLLATION_OID))
		return true;
	return expression_tree_walker(node, needs_locale, context);
}

/* The codeset is written in several ways: en_US.UTF-8 is en_US.utf8. */
static void
append_locale(StringInfo out, const char *name)
{
	bool		codeset = false;

	appendStringInfoChar(out, ' ');
	for (; *name != '\0'; name++)
	{
		codeset = (codeset || *name == '.') && *name != '@';
		if (!codeset)
			appendStringInfoChar(out, *name);
		else if (*name != '-')
			appendStringInfoChar(out, pg_ascii_tolower(*name));
	}
}

const char *
mosql_expression_database_locale(void)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	StringInfoData locale;
	char		provider;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
	provider = ((Form_pg_database) GETSTRUCT(tuple))->datlocprovider;
	initStringInfo(&locale);
	appendStringInfo(&locale, "%s %c", GetDatabaseEncodingName(), provider);
	for (int i = 0; i < 3; i++)
	{
		static const AttrNumber names[] = {
			Anum_pg_database_datcollate, Anum_pg_database_datctype,
#if PG_VERSION_NUM >= 170000
			Anum_pg_database_datlocale
#else
			Anum_pg_database_daticulocale
#endif
		};
		bool		isnull;
		Datum		name = SysCacheGetAttr(DATABASEOID, tuple, names[i], &isnull);

		if (!isnull)
			append_locale(&locale, TextDatumGetCString(name));
	}
	ReleaseSysCache(tuple);
	return locale.data;
}

const char *
mosql_expression_locale(Node *node)
{
	return needs_locale(node, NULL) ? mosql_expression_database_locale() : NULL;
}

/* ---- what depends on the encoding ---- */

/*
 * All functions of characters, but for those that neither look at their bytes nor count
 * them.  (Where the encoding is SQL_ASCII each byte is one.)
 */
static bool
uses_encoding(Oid function, void *context)
{
	switch (function)
	{
		case F_TEXTEQ:
		case F_TEXTNE:
		case F_BPCHAREQ:
		case F_BPCHARNE:
		case F_NAMEEQ:
		case F_NAMENE:
		case F_TEXTCAT:
		case F_LOWER_TEXT:
		case F_UPPER_TEXT:
		case F_REPLACE:
		case F_SPLIT_PART:
		case F_STARTS_WITH:
		case F_BTRIM_TEXT:
		case F_LTRIM_TEXT:
		case F_RTRIM_TEXT:
		case F_TEXT_BPCHAR:
		case F_JSON_OBJECT_FIELD:
		case F_JSON_OBJECT_FIELD_TEXT:
		case F_JSON_ARRAY_ELEMENT:
		case F_JSON_ARRAY_ELEMENT_TEXT:
		case F_JSON_EXTRACT_PATH:
		case F_JSON_EXTRACT_PATH_TEXT:
		case F_JSONB_OBJECT_FIELD:
		case F_JSONB_OBJECT_FIELD_TEXT:
		case F_JSONB_ARRAY_ELEMENT:
		case F_JSONB_ARRAY_ELEMENT_TEXT:
		case F_JSONB_EXTRACT_PATH:
		case F_JSONB_EXTRACT_PATH_TEXT:
			return false;
		case F_TEXTLIKE:
		case F_TEXTNLIKE:
		case F_LENGTH_TEXT:
		case F_LENGTH_BPCHAR:
		case F_CHAR_LENGTH_TEXT:
		case F_CHARACTER_LENGTH_TEXT:
		case F_LEFT:
		case F_RIGHT:
		case F_SUBSTR_TEXT_INT4:
		case F_SUBSTR_TEXT_INT4_INT4:
		case F_SUBSTRING_TEXT_INT4:
		case F_SUBSTRING_TEXT_INT4_INT4:
		case F_STRPOS:
		case F_VARCHAR_VARCHAR_INT4_BOOL:
		case F_BPCHAR_BPCHAR_INT4_BOOL:
			return GetDatabaseEncoding() == PG_SQL_ASCII;
		default:
			return true;
	}
}

static bool
is_chr(Oid function, void *context)
{
	return function == F_CHR;
}

static bool
is_ascii(const Const *value)
{
	return value->constisnull ||
		(value->consttype == TEXTOID && pg_is_ascii(TextDatumGetCString(value->constvalue)));
}

/* Has the node such a value, or the list one? */
static bool
has_characters(Node *node, void *context)
{
	Oid			type;

	if (node == NULL)
		return false;
	if (IsA(node, List))
		return expression_tree_walker(node, has_characters, context);
	if (IsA(node, Const) && is_ascii((Const *) node))
		return false;
	type = getBaseType(exprType(node));
	return OidIsValid(get_typcollation(type)) || type_is_rowtype(type) || type == JSONOID ||
		type == JSONBOID || type == XMLOID || type == TSVECTOROID || type == TSQUERYOID;
}

static bool
needs_encoding(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (!IsA(node, List) && expression_tree_walker(node, has_characters, NULL) &&
		(IsA(node, CoerceViaIO) || IsA(node, MinMaxExpr) || IsA(node, RowCompareExpr) ||
		 check_functions_in_node(node, uses_encoding, NULL)))
		return true;
	if (!IsA(node, List) && check_functions_in_node(node, is_chr, NULL))
		return true;
	return expression_tree_walker(node, needs_encoding, context);
}

bool
mosql_expression_fits_encoding(Node *node)
{
	return GetDatabaseEncoding() == PG_UTF8 || !needs_encoding(node, NULL);
}

void
mosql_expression_check_encoding(Node *node)
{
	if (!needs_locale(node, NULL) && !mosql_expression_fits_encoding(node))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("it depends on the encoding of the database, which is \"%s\" here and has to be \"UTF8\"",
						GetDatabaseEncodingName()),
				 errhint("Use a database of that encoding, or an expression that takes characters for characters.")));
}

/* ---- what depends on the order of labels ---- */

/* The next column from *i on that is of this enum here; NULL: none. */
static const MosqlDefinitionColumn *
next_of_enum(const MosqlAttributes *attributes, Oid type, int *i)
{
	const MosqlDefinition *definition = attributes->definition;

	while (*i < definition->ncolumns)
	{
		const MosqlDefinitionColumn *column = &definition->columns[(*i)++];
		AttrNumber	attnum = column->dropped ? 0 : attributes->by_id[column->id] + 1;

		if (attnum > 0 && mosql_type_enum(get_atttype(attributes->relid, attnum)) == type)
			return column;
	}
	return NULL;
}

bool
mosql_expression_check_enums(Node *node, const MosqlAttributes *attributes)
{
	List	   *types = mosql_expression_ordered_enums(node);
	ListCell   *lc;

	foreach(lc, types)
	{
		int			i = 0;

		if (next_of_enum(attributes, lfirst_oid(lc), &i) == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("it compares labels of enum %s by their order, and no column of the table is of that type",
							format_type_be(lfirst_oid(lc)))));
	}
	return types != NIL;
}

void
mosql_expression_check_order(Node *node, const MosqlAttributes *attributes)
{
	ListCell   *lc;

	(void) mosql_expression_check_enums(node, attributes);
	foreach(lc, mosql_expression_ordered_enums(node))
	{
		const MosqlDefinitionColumn *column;
		int			i = 0;

		while ((column = next_of_enum(attributes, lfirst_oid(lc), &i)) != NULL)
			if (!mosql_labels_are_in_order(lfirst_oid(lc), column->labels, column->nlabels))
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("it compares labels of enum %s by their order, which is another one here than in Redis",
								format_type_be(lfirst_oid(lc)))));
	}
}
