/*
 * range.c: from key conditions and their values to ranges of encoded keys.
 *
 * Layer: fdw, executor side.  qual.c chose the conditions when the query was
 * planned; here their values are known.  The conditions arrive in key order:
 * = and IN for the leading columns, then the bounds of at most one column:
 *
 *     key (a, b, c):    a = 1 AND b IN (2, 3) AND c >= 5 AND c < 9
 *                       \_________________/     \_______________/
 *                        prefixes 1|2, 1|3       bounds below each prefix
 *
 * Every encoding of a column is prefix-free, so that the keys whose leading
 * columns have given values are exactly those that begin with these values'
 * encodings; "greater than v" is therefore "from the first key after all that
 * begin with v".  No round trips.
 *
 * Values of another type than the column's are rounded to a column value, and
 * the direction of the rounding moves the bound: see convert().
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "parser/parse_coerce.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "code/key.h"
#include "fdw/fdw_int.h"

/* Prefixes that several IN lists may multiply to; one list has no bound. */
#define RANGE_MAX_PREFIXES	10000

/* The values that one leading column may have: encoded, ascending, distinct. */
typedef struct Alternatives
{
	int			n;
	MosqlBytes *values;
} Alternatives;

/* An end of the range below a prefix. */
typedef struct Bound
{
	MosqlBytes	suffix;			/* what follows the prefix */
	bool		after;			/* beyond all keys that begin so, not at them */
} Bound;

typedef struct Builder
{
	const MosqlTable *table;
	int			nalternatives;
	Alternatives alternatives[MOSQL_KEY_MAX_COLUMNS];
	int64		nprefixes;		/* product of the alternatives */
	int			nlows;
	int			nhighs;
	Bound	   *lows;
	Bound	   *highs;
	MosqlBytes	equal;			/* a pattern without wildcards: the value it
								 * equals; else absent */
	bool		has_null;		/* a leading column is null: no whole key */
	bool		nothing;		/* some condition can never be true */
} Builder;

/* ---- serialisation ---- */

List *
mosql_conds_encode(const MosqlCond *conds, int n)
{
	List	   *list = NIL;

	for (int i = 0; i < n; i++)
	{
		list = lappend_int(list, conds[i].kind);
		list = lappend_int(list, conds[i].key_position);
		list = lappend_int(list, conds[i].ncolumns);
		list = lappend_int(list, conds[i].exact);
	}
	return list;
}

int
mosql_conds_decode(List *list, MosqlCond **conds)
{
	int			n = list_length(list) / 4;

	Assert(list_length(list) % 4 == 0);
	*conds = palloc0(sizeof(MosqlCond) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		(*conds)[i].kind = (MosqlCondKind) list_nth_int(list, 4 * i);
		(*conds)[i].key_position = list_nth_int(list, 4 * i + 1);
		(*conds)[i].ncolumns = list_nth_int(list, 4 * i + 2);
		(*conds)[i].exact = list_nth_int(list, 4 * i + 3) != 0;
	}
	return n;
}

/* ---- types ---- */

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

static bool
is_float(Oid type)
{
	return type == FLOAT4OID || type == FLOAT8OID;
}

/*
 * PostgreSQL compares a timestamp column with a timestamptz value by turning
 * the column's value into timestamptz, which follows the time zone's jumps and
 * is no order of the key: that pair is left out, and a date column with it.
 */
static bool
is_time_pair(Oid column, Oid value)
{
	switch (column)
	{
		case DATEOID:
			return value == TIMESTAMPOID;
		case TIMESTAMPOID:
			return value == DATEOID;
		case TIMESTAMPTZOID:
			return value == DATEOID || value == TIMESTAMPOID;
		default:
			return false;
	}
}

bool
mosql_ranges_can_convert(Oid column, Oid value)
{
	value = getBaseType(value);
	return value == column ||
		(is_integer(column) && is_integer(value)) ||
		(is_float(column) && is_float(value)) ||
		is_time_pair(column, value) ||
		(column == CIDROID && value == INETOID) ||	/* what compares is inet */
		IsBinaryCoercible(value, column);
}

static int
convert_integer(Oid column, int64 v, Datum *out)
{
	int64		min = column == INT2OID ? PG_INT16_MIN : column == INT4OID ? PG_INT32_MIN : PG_INT64_MIN;
	int64		max = column == INT2OID ? PG_INT16_MAX : column == INT4OID ? PG_INT32_MAX : PG_INT64_MAX;
	int64		r = Min(Max(v, min), max);

	*out = column == INT2OID ? Int16GetDatum((int16) r) :
		column == INT4OID ? Int32GetDatum((int32) r) : Int64GetDatum(r);
	return v > r ? 1 : v < r ? -1 : 0;
}

static int
convert_float(Oid column, double v, Datum *out)
{
	float		r = (float) v;	/* rounds to nearest, or to an infinity */

	if (column == FLOAT8OID)
	{
		*out = Float8GetDatum(v);
		return 0;
	}
	*out = Float4GetDatum(r);
	if (isnan(v))
		return 0;
	return v > (double) r ? 1 : v < (double) r ? -1 : 0;
}

static int
convert_time(Oid column, Oid type, Datum value, Datum *out)
{
	int			overflow = 0;

	if (column == DATEOID)
	{
		Timestamp	v = DatumGetTimestamp(value);
		int64		days;

		if (TIMESTAMP_NOT_FINITE(v))
		{
			*out = DateADTGetDatum(TIMESTAMP_IS_NOBEGIN(v) ? DATEVAL_NOBEGIN : DATEVAL_NOEND);
			return 0;
		}
		days = v / USECS_PER_DAY - (v % USECS_PER_DAY < 0 ? 1 : 0);
		*out = DateADTGetDatum((DateADT) days);
		return v % USECS_PER_DAY != 0 ? 1 : 0;
	}

	/* Too far for a timestamp gives an infinity and says so in overflow. */
	if (column == TIMESTAMPOID)
		*out = TimestampGetDatum(date2timestamp_opt_overflow(DatumGetDateADT(value), &overflow));
	else if (type == DATEOID)
		*out = TimestampTzGetDatum(date2timestamptz_opt_overflow(DatumGetDateADT(value), &overflow));
	else
		*out = TimestampTzGetDatum(timestamp2timestamptz_opt_overflow(DatumGetTimestamp(value), &overflow));
	return -overflow;
}

/*
 * The value v as a column value r such that no column value lies strictly
 * between r and v.  Returns how v compares with r: 0 if it is r, 1 if v is
 * above, -1 if below it.
 */
static int
convert(Oid column, Oid type, Datum value, Datum *out)
{
	*out = value;
	if (type == column)
		return 0;
	type = getBaseType(type);
	if (is_integer(column) && is_integer(type))
		return convert_integer(column,
							   type == INT2OID ? DatumGetInt16(value) :
							   type == INT4OID ? DatumGetInt32(value) : DatumGetInt64(value), out);
	if (is_float(column) && is_float(type))
		return convert_float(column,
							 type == FLOAT4OID ? (double) DatumGetFloat4(value) : DatumGetFloat8(value), out);
	if (is_time_pair(column, type))
		return convert_time(column, type, value, out);
	return 0;					/* binary-compatible */
}

static const MosqlTableColumn *
key_column(const MosqlTable *table, int position)
{
	Assert(position >= 0 && position < table->nkeys);
	return &table->columns[table->key_attnums[position] - 1];
}

/* Append the encoding of a value; returns what convert() returned. */
static int
put_value(const MosqlTable *table, int position, Oid type, Datum value, StringInfo out)
{
	Datum		converted;
	int			rel = convert(key_column(table, position)->type, type, value, &converted);

	mosql_table_put_key(table, position, converted, out);
	return rel;
}

/* ---- alternatives ---- */

static int
compare_bytes(const void *a, const void *b)
{
	return mosql_bytes_compare(*(const MosqlBytes *) a, *(const MosqlBytes *) b);
}

/* Sort and drop duplicates in place; returns how many are left. */
static int
sort_distinct(MosqlBytes *values, int n)
{
	int			kept = 0;

	if (n > 1)
		qsort(values, n, sizeof(MosqlBytes), compare_bytes);
	for (int i = 0; i < n; i++)
		if (kept == 0 || !mosql_bytes_equal(values[kept - 1], values[i]))
			values[kept++] = values[i];
	return kept;
}

/* Encode n values as alternatives; those no column value equals are dropped. */
static Alternatives
encode_alternatives(const MosqlTable *table, int position, Oid type,
					const Datum *values, const bool *nulls, int n)
{
	Alternatives result;
	StringInfoData all;
	int		   *ends = palloc(sizeof(int) * Max(n, 1));
	int			start = 0;

	result.n = 0;
	result.values = palloc(sizeof(MosqlBytes) * Max(n, 1));
	initStringInfo(&all);
	for (int i = 0; i < n; i++)
	{
		int			from = all.len;

		if (nulls != NULL && nulls[i])
			continue;
		if (put_value(table, position, type, values[i], &all) != 0)
			all.len = from;
		else
			ends[result.n++] = all.len;
	}
	/* only now, since the buffer moved while it grew */
	for (int i = 0; i < result.n; i++)
	{
		result.values[i] = mosql_bytes(all.data + start, ends[i] - start);
		start = ends[i];
	}
	pfree(ends);
	result.n = sort_distinct(result.values, result.n);
	return result;
}

/* col = value or col = ANY (array): one more leading column is bound. */
static void
add_alternatives(Builder *b, const MosqlCond *cond, Datum value, bool isnull, Oid type)
{
	Alternatives next;

	if (isnull)
	{
		b->nothing = true;
		return;
	}
	if (cond->key_position != b->nalternatives)
		return;					/* an IN list before it was left out */

	if (cond->kind == MOSQL_COND_EQ)
		next = encode_alternatives(b->table, cond->key_position, type, &value, NULL, 1);
	else
	{
		ArrayType  *array = DatumGetArrayTypeP(value);
		Oid			element = ARR_ELEMTYPE(array);
		int16		typlen;
		bool		byval;
		char		align;
		Datum	   *elems;
		bool	   *nulls;
		int			n;

		get_typlenbyvalalign(element, &typlen, &byval, &align);
		deconstruct_array(array, element, typlen, byval, align, &elems, &nulls, &n);
		next = encode_alternatives(b->table, cond->key_position, element, elems, nulls, n);
	}
	if (next.n == 0)
	{
		b->nothing = true;
		return;
	}

	/* qual.c marked whatever follows a second list as inexact for this */
	if (b->nprefixes > 1 && next.n > 1 && b->nprefixes * next.n > RANGE_MAX_PREFIXES)
		return;
	b->nprefixes *= next.n;
	b->alternatives[b->nalternatives++] = next;
}

/* col IS NULL, in an index: the column has a place for it. */
static void
add_null(Builder *b, const MosqlCond *cond)
{
	Alternatives next = {.n = 1,.values = palloc(sizeof(MosqlBytes))};
	StringInfoData null;

	if (!key_column(b->table, cond->key_position)->nullable)
	{
		b->nothing = true;
		return;
	}
	if (cond->key_position != b->nalternatives)
		return;
	initStringInfo(&null);
	mosql_table_put_null(b->table, cond->key_position, &null);
	next.values[0] = mosql_bytes_of(&null);
	b->alternatives[b->nalternatives++] = next;
	b->has_null = true;
}

/* ---- bounds ---- */

static void
add_low(Builder *b, StringInfo suffix, bool after)
{
	b->lows[b->nlows++] = (Bound) {mosql_bytes_of(suffix), after};
}

static void
add_high(Builder *b, StringInfo suffix, bool after)
{
	b->highs[b->nhighs++] = (Bound) {mosql_bytes_of(suffix), after};
}

/* What compares is not null: both ends of the values, within an index. */
static void
exclude_nulls(Builder *b, int position)
{
	const MosqlTableColumn *column = key_column(b->table, position);
	StringInfoData marker;

	if (!column->nullable)
		return;
	initStringInfo(&marker);
	mosql_key_put_null(&marker, false, column->nulls_first);
	add_low(b, &marker, false);
	add_high(b, &marker, true);
}

/*
 * (k0, k1, ...) op (v0, v1, ...), with one column for the plain comparisons.
 * Comparing stops at the first vi that is NULL (then only rows decided by the
 * columns before count) or that no column value equals (then ki is never equal
 * and decides).
 */
static void
add_comparison(Builder *b, const MosqlCond *cond, const Datum *values, const bool *nulls,
			   const Oid *types)
{
	bool		descending = key_column(b->table, cond->key_position)->descending;
	bool		is_low = cond->kind == MOSQL_COND_GT || cond->kind == MOSQL_COND_GE ||
		cond->kind == MOSQL_COND_ROW_GT || cond->kind == MOSQL_COND_ROW_GE;
	bool		or_equal = cond->kind == MOSQL_COND_GE || cond->kind == MOSQL_COND_LE ||
		cond->kind == MOSQL_COND_ROW_GE || cond->kind == MOSQL_COND_ROW_LE;
	StringInfoData suffix;

	/* > v starts after v's keys, <= v ends after them; descending, < v starts there */
	bool		after;

	is_low ^= descending;
	after = is_low ? !or_equal : or_equal;
	if (nulls[0])
	{
		b->nothing = true;
		return;
	}
	if (cond->key_position != b->nalternatives)
		return;
	exclude_nulls(b, cond->key_position);

	initStringInfo(&suffix);
	for (int i = 0; i < cond->ncolumns; i++)
	{
		int			rel;

		if (nulls[i])
		{
			after = is_low;		/* k0..ki-1 must decide by themselves */
			break;
		}
		rel = put_value(b->table, cond->key_position + i, types[i], values[i], &suffix);
		if (rel != 0)
		{
			after = descending ? rel < 0 : rel > 0; /* v lies after r: so does the bound */
			break;
		}
	}
	if (is_low)
		add_low(b, &suffix, after);
	else
		add_high(b, &suffix, after);
}

/*
 * LIKE: keys that begin with the pattern's literal prefix; a pattern without
 * wildcards is an equality.  A pattern that ends in a lone escape is an error
 * that the recheck raises.
 */
static void
add_pattern(Builder *b, const MosqlCond *cond, Datum value, bool isnull)
{
	const MosqlTableColumn *column = key_column(b->table, cond->key_position);
	text	   *pattern;
	const char *p;
	const char *end;
	StringInfoData literal;
	StringInfoData suffix;
	int			start;
	bool		wildcard = false;
	char	   *utf8;
	MosqlBytes	bytes;

	if (isnull)
	{
		b->nothing = true;
		return;
	}
	if (cond->key_position != b->nalternatives)
		return;

	pattern = DatumGetTextPP(value);
	p = VARDATA_ANY(pattern);
	end = p + VARSIZE_ANY_EXHDR(pattern);
	initStringInfo(&literal);
	for (; p < end; p++)
	{
		if (*p == '%' || *p == '_')
		{
			wildcard = true;
			break;
		}
		if (*p == '\\' && p + 1 < end)
			p++;
		appendStringInfoChar(&literal, *p);
	}

	utf8 = pg_server_to_any(literal.data, literal.len, PG_UTF8);	/* as keys are */
	bytes = utf8 == literal.data ? mosql_bytes_of(&literal) : mosql_bytes(utf8, strlen(utf8));
	initStringInfo(&suffix);
	if (column->nullable)
		mosql_key_put_null(&suffix, false, column->nulls_first);
	start = suffix.len;
	if (wildcard)
		mosql_key_put_prefix(&suffix, bytes);
	else
		mosql_key_put_bytes(&suffix, bytes);
	if (column->descending)
		mosql_key_invert(&suffix, start);
	if (!wildcard)
		b->equal = mosql_bytes_of(&suffix);
	add_low(b, &suffix, false);
	add_high(b, &suffix, true);
}

/* ---- ranges ---- */

static MosqlBytes
concat(MosqlBytes a, MosqlBytes c)
{
	char	   *p = palloc(a.len + c.len + 1);

	memcpy(p, a.data, a.len);
	if (c.len > 0)
		memcpy(p + a.len, c.data, c.len);
	p[a.len + c.len] = '\0';
	return mosql_bytes(p, a.len + c.len);
}

/* The smallest key after all that begin with key; absent if there is none. */
static MosqlBytes
after_prefix(MosqlBytes key)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendBinaryStringInfo(&buf, key.data, (int) key.len);
	if (!mosql_key_after_prefix(&buf))
		return MOSQL_ABSENT;
	return mosql_bytes_of(&buf);
}

/*
 * A bound below a prefix.  Absent: there is no key so high.  An after-bound
 * whose suffix is all 0xFF moves into the prefix itself, which is right: it is
 * then the end of everything below the prefix.
 */
static MosqlBytes
place_bound(MosqlBytes prefix, const Bound *bound)
{
	MosqlBytes	key = concat(prefix, bound->suffix);

	return bound->after ? after_prefix(key) : key;
}

/* Are so many columns a whole key of one row?  (Not that of an index that is not
 * unique, or with nulls: the row's own key follows there.) */
static bool
names_whole_key(const Builder *b, int ncolumns)
{
	return ncolumns == b->table->nkeys && ncolumns > 0 && b->table->unique_key && !b->has_null;
}

/* The part of a prefix's keys within all bounds; false if it is empty. */
static bool
bound_range(const Builder *b, MosqlBytes prefix, MosqlRange *range)
{
	range->point = false;
	range->low = prefix;
	range->high = prefix.len > 0 ? after_prefix(prefix) : MOSQL_ABSENT;

	if (names_whole_key(b, b->nalternatives))
	{
		range->point = true;
		range->high = concat(prefix, mosql_bytes("", 1));
		return true;
	}
	for (int i = 0; i < b->nlows; i++)
	{
		MosqlBytes	low = place_bound(prefix, &b->lows[i]);

		if (low.data == NULL)
			return false;
		if (mosql_bytes_compare(low, range->low) > 0)
			range->low = low;
	}
	for (int i = 0; i < b->nhighs; i++)
	{
		MosqlBytes	high = place_bound(prefix, &b->highs[i]);

		if (high.data != NULL &&
			(range->high.data == NULL || mosql_bytes_compare(high, range->high) < 0))
			range->high = high;
	}
	if (range->high.data != NULL && mosql_bytes_compare(range->low, range->high) >= 0)
		return false;

	/* LIKE without a wildcard on the last key column is a point */
	if (b->equal.data != NULL && names_whole_key(b, b->nalternatives + 1) &&
		mosql_bytes_equal(range->low, concat(prefix, b->equal)))
		range->point = true;
	return true;
}

/* Append a range; ranges that touch become one. */
static void
append_range(MosqlRanges *out, const MosqlRange *range)
{
	MosqlRange *last = out->n > 0 ? &out->ranges[out->n - 1] : NULL;

	Assert(last == NULL || (last->high.data != NULL &&
							mosql_bytes_compare(last->low, range->low) < 0));
	if (last != NULL && !last->point && !range->point &&
		mosql_bytes_compare(last->high, range->low) >= 0)
	{
		last->high = range->high;
		return;
	}
	out->ranges[out->n++] = *range;
	if (!range->point)
		out->all_points = false;
}

/*
 * All prefixes in ascending order: the alternatives of each column are
 * ascending and prefix-free, so counting like an odometer, the last column
 * fastest, keeps the order of the concatenations.
 */
static void
append_prefixes(const Builder *b, MosqlRanges *out)
{
	int			digits[MOSQL_KEY_MAX_COLUMNS] = {0};
	StringInfoData prefix;

	for (;;)
	{
		MosqlRange	range;
		int			i;

		CHECK_FOR_INTERRUPTS();
		initStringInfo(&prefix);
		for (i = 0; i < b->nalternatives; i++)
		{
			MosqlBytes	v = b->alternatives[i].values[digits[i]];

			appendBinaryStringInfo(&prefix, v.data, (int) v.len);
		}
		if (bound_range(b, mosql_bytes_of(&prefix), &range))
			append_range(out, &range);

		for (i = b->nalternatives - 1; i >= 0; i--)
		{
			if (++digits[i] < b->alternatives[i].n)
				break;
			digits[i] = 0;
		}
		if (i < 0)
			return;
	}
}

MosqlRanges *
mosql_ranges_build(const MosqlTable *table, const MosqlCond *conds, int nconds,
				   const Datum *values, const bool *nulls, const Oid *types)
{
	MosqlRanges *out = palloc0(sizeof(MosqlRanges));
	Builder    *b = palloc0(sizeof(Builder));
	int			at = 0;			/* first value of the condition */

	b->table = table;
	b->nprefixes = 1;
	b->equal = MOSQL_ABSENT;
	b->lows = palloc(sizeof(Bound) * (2 * nconds + 1));
	b->highs = palloc(sizeof(Bound) * (2 * nconds + 1));
	for (int i = 0; i < nconds && !b->nothing; i++)
	{
		const MosqlCond *cond = &conds[i];

		switch (cond->kind)
		{
			case MOSQL_COND_EQ:
			case MOSQL_COND_IN:
				add_alternatives(b, cond, values[at], nulls[at], types[at]);
				break;
			case MOSQL_COND_PREFIX:
				add_pattern(b, cond, values[at], nulls[at]);
				break;
			case MOSQL_COND_ISNULL:
				add_null(b, cond);
				break;
			case MOSQL_COND_NOTNULL:
				if (cond->key_position == b->nalternatives)
					exclude_nulls(b, cond->key_position);
				break;
			default:
				add_comparison(b, cond, values + at, nulls + at, types + at);
				break;
		}
		at += cond->ncolumns;
	}

	out->all_points = true;
	if (b->nothing)
		return out;
	out->ranges = palloc(sizeof(MosqlRange) * b->nprefixes);
	append_prefixes(b, out);
	return out;
}

/* ---- unions ---- */

static int
compare_ranges(const void *a, const void *b)
{
	const MosqlRange *x = a;
	const MosqlRange *y = b;
	int			c = mosql_bytes_compare(x->low, y->low);

	return c != 0 ? c : (int) x->point - (int) y->point;	/* a range before its first key */
}

MosqlRanges *
mosql_ranges_union(MosqlRanges *const *sets, int n)
{
	MosqlRanges *out = palloc0(sizeof(MosqlRanges));
	MosqlRange *all;
	Size		total = 0;
	Size		at = 0;

	for (int i = 0; i < n; i++)
		total += sets[i]->n;
	all = MemoryContextAllocHuge(CurrentMemoryContext, Max(total, 1) * sizeof(MosqlRange));
	for (int i = 0; i < n; i++)
	{
		if (sets[i]->n > 0)
			memcpy(all + at, sets[i]->ranges, sets[i]->n * sizeof(MosqlRange));
		at += sets[i]->n;
	}
	qsort(all, total, sizeof(MosqlRange), compare_ranges);

	out->all_points = true;
	out->ranges = all;
	for (Size i = 0; i < total; i++)
	{
		MosqlRange *last = out->n > 0 ? &out->ranges[out->n - 1] : NULL;
		int			c = last == NULL || last->high.data == NULL ? -1
			: mosql_bytes_compare(all[i].low, last->high);

		if (last == NULL || c > 0 || (c == 0 && (last->point || all[i].point)))
		{
			out->ranges[out->n++] = all[i];
			out->all_points &= all[i].point;
		}
		else if (last->high.data != NULL &&
				 (all[i].high.data == NULL ||
				  mosql_bytes_compare(all[i].high, last->high) > 0))
			last->high = all[i].high;
	}
	return out;
}
