/*
 * qual.c: which conditions of a query bound the key.
 *
 * Layer: fdw, planner side.  Each clause is matched alone against the key's
 * columns; then, column by column, the matches that extend the prefix are
 * taken: = (or else IN) on the leading columns, and all bounds on the first
 * column that has neither.  range.c turns what is taken here into key ranges
 * when the values are known.
 *
 * The two sides of the bargain.  A condition is `exact` when the ranges that
 * range.c makes of it hold precisely the rows that satisfy its clause; only
 * then the clause is not evaluated again.  Everything else stays a filter.
 *
 * Order.  Keys are ordered as bytes.  For types whose btree order that is
 * (range_order), every comparison bounds the key; for characters it depends on
 * the collation of the comparison, not on the column's: COLLATE "C" makes a
 * range of any text key, and equality is bytes under every deterministic one.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "fdw/fdw_int.h"

/* What one clause says about the key. */
typedef struct Match
{
	RestrictInfo *rinfo;
	bool		always_true;	/* IS NOT NULL: no condition, no recheck */
	MosqlCond	cond;
	List	   *values;
} Match;

typedef struct Matcher
{
	PlannerInfo *root;
	RelOptInfo *rel;
	const MosqlTable *table;
} Matcher;

/* ---- columns, values, operators ---- */

static Node *
strip_relabel(Node *node)
{
	while (node != NULL && IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return node;
}

Node *
mosql_quals_key_node(const MosqlTableColumn *column, Index relid)
{
	Node	   *node = copyObject(column->planned);

	if (relid != 1)
		ChangeVarNodes(node, 1, relid, 0);
	return node;
}

bool
mosql_quals_is_key(const MosqlTableColumn *column, Index relid, Node *node)
{
	Var		   *var = (Var *) strip_relabel(node);

	if (var == NULL)
		return false;
	if (column->planned == NULL)
		return IsA(var, Var) && var->varno == relid && var->varlevelsup == 0 &&
			var->varattno == column->attnum;
	return nodeTag(var) == nodeTag(strip_relabel(column->planned)) &&
		equal(var, strip_relabel(mosql_quals_key_node(column, relid)));
}

/* The key column that an expression is, NULL if it is none. */
static const MosqlTableColumn *
match_column(const Matcher *m, Node *node)
{
	for (int i = 0; i < m->table->nkeys; i++)
	{
		const MosqlTableColumn *column = &m->table->columns[m->table->key_attnums[i] - 1];

		if (mosql_quals_is_key(column, m->rel->relid, node))
			return column;
	}
	return NULL;
}

/* Can it be evaluated once per scan, before the rows are known? */
static bool
is_value(const Matcher *m, Node *node)
{
	return !bms_is_member(m->rel->relid, pull_varnos(m->root, node)) &&
		!contain_volatile_functions(node);
}

bool
mosql_quals_key_ordered(const MosqlTableColumn *column, Oid collation)
{
	return mosql_key_is_characters(column) ? mosql_key_is_byte_order(collation) : column->range_order;
}

static bool
equality_is_bytes(const MosqlTableColumn *column, Oid collation)
{
	if (!mosql_key_is_characters(column))
		return true;
	return !OidIsValid(collation) || get_collation_isdeterministic(collation);
}

/*
 * The btree strategy of an operator between the column (on the left) and a
 * value, if its order is the key's; 0 if not.
 */
static int
key_strategy(const MosqlTableColumn *column, Oid opno, Oid collation)
{
	TypeCacheEntry *type = lookup_type_cache(column->type, TYPECACHE_BTREE_OPFAMILY);
	int			strategy;

	if (!OidIsValid(opno) || !OidIsValid(type->btree_opf))
		return 0;
	strategy = get_op_opfamily_strategy(opno, type->btree_opf);
	if (strategy == BTEqualStrategyNumber)
		return equality_is_bytes(column, collation) ? strategy : 0;
	return mosql_quals_key_ordered(column, collation) ? strategy : 0;
}

static MosqlCondKind
kind_of_strategy(int strategy)
{
	switch (strategy)
	{
		case BTLessStrategyNumber:
			return MOSQL_COND_LT;
		case BTLessEqualStrategyNumber:
			return MOSQL_COND_LE;
		case BTGreaterEqualStrategyNumber:
			return MOSQL_COND_GE;
		case BTGreaterStrategyNumber:
			return MOSQL_COND_GT;
		default:
			Assert(strategy == BTEqualStrategyNumber);
			return MOSQL_COND_EQ;
	}
}

static void
set_match(Match *match, MosqlCondKind kind, const MosqlTableColumn *column, List *values, bool exact)
{
	match->cond.kind = kind;
	match->cond.key_position = column->key_position;
	match->cond.ncolumns = list_length(values);
	match->cond.exact = exact;
	match->values = values;
}

/* ---- one clause ---- */

/*
 * A constant pattern is exact if nothing but % follows its literal prefix: then
 * the prefix says it all.
 */
static bool
pattern_is_exact(Node *node)
{
	text	   *pattern;
	const char *p;
	const char *end;

	if (!IsA(node, Const) || ((Const *) node)->constisnull)
		return false;
	pattern = DatumGetTextPP(((Const *) node)->constvalue);
	p = VARDATA_ANY(pattern);
	end = p + VARSIZE_ANY_EXHDR(pattern);
	while (p < end && *p != '%' && *p != '_')
	{
		if (*p == '\\' && ++p == end)
			return false;		/* an error when evaluated */
		p++;
	}
	while (p < end && *p == '%')
		p++;
	return p == end;
}

/* column LIKE pattern */
static bool
match_pattern(const Matcher *m, OpExpr *op, Match *match)
{
	Node	   *pattern = lsecond(op->args);
	const MosqlTableColumn *column = match_column(m, linitial(op->args));

	if (column == NULL || column->key_class != MOSQL_KEY_TEXT || column->type == NAMEOID ||
		!equality_is_bytes(column, op->inputcollid) || exprType(pattern) != TEXTOID ||
		!is_value(m, pattern))
		return false;
	set_match(match, MOSQL_COND_PREFIX, column, list_make1(pattern), pattern_is_exact(pattern));
	return true;
}

/* column op value, or value op column */
static bool
match_operator(const Matcher *m, OpExpr *op, Match *match)
{
	const MosqlTableColumn *column;
	Node	   *value;
	Oid			opno = op->opno;
	int			strategy;

	if (list_length(op->args) != 2)
		return false;
	if (opno == OID_TEXT_LIKE_OP)
		return match_pattern(m, op, match);

	column = match_column(m, linitial(op->args));
	value = lsecond(op->args);
	if (column == NULL)
	{
		column = match_column(m, lsecond(op->args));
		value = linitial(op->args);
		if (column == NULL)
			return false;
		opno = get_commutator(opno);
	}
	strategy = key_strategy(column, opno, op->inputcollid);
	if (strategy == 0 || !is_value(m, value) ||
		!mosql_ranges_can_convert(column->type, exprType(value)))
		return false;
	set_match(match, kind_of_strategy(strategy), column, list_make1(value), true);
	return true;
}

/* column = ANY (array) */
static bool
match_array(const Matcher *m, ScalarArrayOpExpr *op, Match *match)
{
	const MosqlTableColumn *column = match_column(m, linitial(op->args));
	Node	   *array = lsecond(op->args);
	Oid			element = get_base_element_type(exprType(array));

	if (!op->useOr || column == NULL || !OidIsValid(element) ||
		key_strategy(column, op->opno, op->inputcollid) != BTEqualStrategyNumber ||
		!is_value(m, array) || !mosql_ranges_can_convert(column->type, element))
		return false;
	set_match(match, MOSQL_COND_IN, column, list_make1(array), true);
	return true;
}

/* column = v1 OR column = v2 ...: as IN, if the values are of one type */
static bool
match_or(const Matcher *m, BoolExpr *expr, Match *match)
{
	const MosqlTableColumn *column = NULL;
	List	   *values = NIL;
	Oid			type = InvalidOid;
	ArrayExpr  *array;
	ListCell   *lc;

	foreach(lc, expr->args)
	{
		Match		part = {0};
		Node	   *value;

		if (!IsA(lfirst(lc), OpExpr) || !match_operator(m, lfirst(lc), &part) ||
			part.cond.kind != MOSQL_COND_EQ)
			return false;
		value = linitial(part.values);
		if (column == NULL)
		{
			column = &m->table->columns[m->table->key_attnums[part.cond.key_position] - 1];
			type = exprType(value);
		}
		else if (part.cond.key_position != column->key_position || exprType(value) != type)
			return false;
		values = lappend(values, value);
	}
	if (column == NULL || !OidIsValid(get_array_type(type)))
		return false;

	array = makeNode(ArrayExpr);
	array->array_typeid = get_array_type(type);
	array->array_collid = exprCollation(linitial(values));
	array->element_typeid = type;
	array->elements = values;
	array->multidims = false;
	array->location = -1;
	set_match(match, MOSQL_COND_IN, column,
			  list_make1(eval_const_expressions(m->root, (Node *) array)), true);
	return true;
}

static MosqlCondKind
row_kind(int strategy)
{
	switch (strategy)
	{
		case BTLessStrategyNumber:
			return MOSQL_COND_ROW_LT;
		case BTLessEqualStrategyNumber:
			return MOSQL_COND_ROW_LE;
		case BTGreaterEqualStrategyNumber:
			return MOSQL_COND_ROW_GE;
		default:
			return MOSQL_COND_ROW_GT;
	}
}

/*
 * (k0, k1, ...) op (v0, v1, ...) over consecutive key columns.  If only the
 * first columns fit, they still bound the row: (k0, x) > (v0, v1) implies
 * k0 >= v0.
 */
static bool
match_row(const Matcher *m, RowCompareExpr *row, Match *match)
{
	const MosqlTableColumn *first = match_column(m, linitial(row->largs));
	bool		commuted = first == NULL;
	List	   *columns = commuted ? row->rargs : row->largs;
	List	   *others = commuted ? row->largs : row->rargs;
	List	   *values = NIL;
	int			strategy = 0;
	bool		nullable = false;
	int			i;

	first = match_column(m, linitial(columns));
	if (first == NULL)
		return false;
	for (i = 0; i < list_length(columns); i++)
	{
		const MosqlTableColumn *column = match_column(m, list_nth(columns, i));
		Node	   *value = list_nth(others, i);
		Oid			opno = list_nth_oid(row->opnos, i);
		int			here;

		if (column == NULL || column->key_position != first->key_position + i ||
			column->descending != first->descending)
			break;
		nullable |= column->nullable;
		here = key_strategy(column, commuted ? get_commutator(opno) : opno,
							list_nth_oid(row->inputcollids, i));
		if (here == 0 || here == BTEqualStrategyNumber || (i > 0 && here != strategy) ||
			!is_value(m, value) || !mosql_ranges_can_convert(column->type, exprType(value)))
			break;
		strategy = here;
		values = lappend(values, value);
	}
	if (i == 0)
		return false;
	if (i < list_length(columns))
	{
		if (strategy == BTLessStrategyNumber)
			strategy = BTLessEqualStrategyNumber;
		else if (strategy == BTGreaterStrategyNumber)
			strategy = BTGreaterEqualStrategyNumber;
	}
	/* nulls behind the first column are among its values, and do not compare */
	set_match(match, row_kind(strategy), first, values,
			  i == list_length(columns) && !(nullable && i > 1));
	return true;
}

/* A table's key columns are never null; an index's have a place for null. */
static bool
match_null_test(const Matcher *m, NullTest *test, Match *match)
{
	const MosqlTableColumn *column = match_column(m, (Node *) test->arg);

	if (column == NULL || test->argisrow)
		return false;
	match->always_true = test->nulltesttype == IS_NOT_NULL && !column->nullable;
	set_match(match, test->nulltesttype == IS_NULL ? MOSQL_COND_ISNULL : MOSQL_COND_NOTNULL,
			  column, NIL, true);
	return true;
}

/* b, NOT b, b IS TRUE, b IS FALSE for a boolean key column */
static bool
match_bool(const Matcher *m, Node *node, bool wanted, Match *match)
{
	const MosqlTableColumn *column = match_column(m, node);

	if (column == NULL || column->type != BOOLOID)
		return false;
	set_match(match, MOSQL_COND_EQ, column, list_make1(makeBoolConst(wanted, false)), true);
	return true;
}

/*
 * IS NOT TRUE and IS NOT FALSE hold for null, too: of a column that may be null they
 * are two places of the key, and stay filters.  IS UNKNOWN is IS NULL.
 */
static bool
match_bool_test(const Matcher *m, BooleanTest *test, Match *match)
{
	const MosqlTableColumn *column = match_column(m, (Node *) test->arg);
	bool		unknown = test->booltesttype == IS_UNKNOWN;

	if (column == NULL || column->type != BOOLOID)
		return false;
	switch (test->booltesttype)
	{
		case IS_TRUE:
			return match_bool(m, (Node *) test->arg, true, match);
		case IS_FALSE:
			return match_bool(m, (Node *) test->arg, false, match);
		case IS_NOT_FALSE:
			return !column->nullable && match_bool(m, (Node *) test->arg, true, match);
		case IS_NOT_TRUE:
			return !column->nullable && match_bool(m, (Node *) test->arg, false, match);
		case IS_UNKNOWN:
		case IS_NOT_UNKNOWN:
			match->always_true = !unknown && !column->nullable;
			set_match(match, unknown ? MOSQL_COND_ISNULL : MOSQL_COND_NOTNULL, column, NIL, true);
			return true;
	}
	return false;
}

/* A clause that compares, or tests, some key column. */
static bool
match_condition(const Matcher *m, Node *clause, Match *match)
{
	switch (nodeTag(clause))
	{
		case T_OpExpr:
			return match_operator(m, (OpExpr *) clause, match);
		case T_ScalarArrayOpExpr:
			return match_array(m, (ScalarArrayOpExpr *) clause, match);
		case T_RowCompareExpr:
			return match_row(m, (RowCompareExpr *) clause, match);
		case T_NullTest:
			return match_null_test(m, (NullTest *) clause, match);
		case T_BooleanTest:
			return match_bool_test(m, (BooleanTest *) clause, match);
		case T_BoolExpr:
			if (is_orclause(clause))
				return match_or(m, (BoolExpr *) clause, match);
			if (is_notclause(clause))
				return match_bool(m, (Node *) get_notclausearg(clause), false, match);
			return false;
		default:
			return false;
	}
}

static bool
match_clause(const Matcher *m, RestrictInfo *rinfo, Match *match)
{
	Node	   *clause = (Node *) rinfo->clause;

	/*
	 * A clause that may not run before a security barrier's own must not pick
	 * rows either.
	 */
	if (rinfo->pseudoconstant || !restriction_is_securely_promotable(rinfo, m->rel))
		return false;

	memset(match, 0, sizeof(*match));
	match->rinfo = rinfo;
	return match_condition(m, clause, match) || match_bool(m, clause, true, match);
}

bool
mosql_quals_usable(PlannerInfo *root, RelOptInfo *rel, const MosqlTable *table, RestrictInfo *rinfo)
{
	Matcher		m = {root, rel, table};
	Match		match;

	return match_clause(&m, rinfo, &match) && !match.always_true &&
		match.cond.kind != MOSQL_COND_ISNULL && match.cond.kind != MOSQL_COND_NOTNULL;
}

/* ---- all clauses ---- */

static void
take(MosqlKeyQuals *out, const Match *match, bool exact)
{
	MosqlCond  *cond = &out->conds[out->nconds++];

	*cond = match->cond;
	cond->exact = match->cond.exact && exact;
	out->exprs = list_concat(out->exprs, match->values);
	out->used = lappend(out->used, match->rinfo);
	if (!cond->exact)
		out->recheck = lappend(out->recheck, match->rinfo);
}

/* No key column of a table is null: never true. */
static bool
is_impossible(const MosqlTable *table, const Match *match)
{
	return match->cond.kind == MOSQL_COND_ISNULL &&
		!table->columns[table->key_attnums[match->cond.key_position] - 1].nullable;
}

/* The = on a key column, by preference one with a constant; else its IN, or IS NULL. */
static const Match *
find_equality(const Match *matches, int n, int position)
{
	const Match *best = NULL;

	for (int i = 0; i < n; i++)
	{
		const Match *match = &matches[i];

		if (match->always_true || match->cond.key_position != position)
			continue;
		if (match->cond.kind == MOSQL_COND_EQ)
		{
			if (best == NULL || best->cond.kind != MOSQL_COND_EQ ||
				(IsA(linitial(match->values), Const) && !IsA(linitial(best->values), Const)))
				best = match;
		}
		else if ((match->cond.kind == MOSQL_COND_IN || match->cond.kind == MOSQL_COND_ISNULL) &&
				 best == NULL)
			best = match;
	}
	return best;
}

/* Fill out from the matches: see the head of this file. */
static void
choose(MosqlKeyQuals *out, const MosqlTable *table, const Match *matches, int n)
{
	bool		exact = true;
	int			lists = 0;

	for (int i = 0; i < n; i++)
	{
		if (matches[i].always_true)
			out->used = lappend(out->used, matches[i].rinfo);
		else if (is_impossible(table, &matches[i]))
		{
			take(out, &matches[i], true);
			return;				/* no row at all: the rest does not matter */
		}
	}

	out->whole_key = table->nkeys > 0 && table->unique_key;
	for (int position = 0; position < table->nkeys; position++)
	{
		const Match *equal = find_equality(matches, n, position);

		if (equal != NULL)
		{
			if (equal->cond.kind != MOSQL_COND_EQ)
			{
				out->whole_key = false;
				if (equal->cond.kind == MOSQL_COND_IN && ++lists > 1)
					exact = false;	/* range.c may leave it out, and what follows */
			}
			take(out, equal, exact);
			out->nequal++;
			continue;
		}
		out->whole_key = false;
		for (int i = 0; i < n; i++)
		{
			if (matches[i].always_true || matches[i].cond.key_position != position)
				continue;
			take(out, &matches[i], exact);
			out->any_range = true;
		}
		break;
	}
}

/* Allocates in the current context; no round trips. */
MosqlKeyQuals *
mosql_quals_find(PlannerInfo *root, RelOptInfo *rel, Oid relid, const MosqlTable *table,
				 List *clauses)
{
	MosqlKeyQuals *out = palloc0(sizeof(MosqlKeyQuals));
	Matcher		m = {root, rel, table};
	Match	   *matches = palloc(sizeof(Match) * (list_length(clauses) + 1));
	int			n = 0;
	ListCell   *lc;

	out->conds = palloc0(sizeof(MosqlCond) * (list_length(clauses) + 1));
	foreach(lc, clauses)
	{
		if (match_clause(&m, lfirst_node(RestrictInfo, lc), &matches[n]))
			n++;
	}
	choose(out, table, matches, n);
	return out;
}
