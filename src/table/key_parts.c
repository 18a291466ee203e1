/*
 * key_parts.c: keys of arrays and ranges, which are made of keys of their elements and bounds.
 *
 * Layer: table.  docs/format.md gives the bytes.  column->part describes an element, or a
 * bound: what it says of order, and of whether its key gives it back, is true of the whole.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/rangetypes.h"
#include "utils/typcache.h"

#include "code/key.h"
#include "table/table_int.h"

/* Before an element; the end, which is in the place of one, is below both. */
#define PART_END		0
#define PART_VALUE		1
#define PART_NULL		2

/* A range that is empty is below the others. */
#define EMPTY_RANGE		0
#define FILLED_RANGE	1

/* Before a bound; what has none is beyond all. */
#define BOUND_BELOW		0
#define BOUND_VALUE		1
#define BOUND_ABOVE		2

/* Behind it: the values begin, or end, at it, or right after it. */
#define BOUND_AT		0
#define BOUND_AFTER		1

#define MARKER_BYTES	1
#define NUMBER_BYTES	4

/* ---- which ---- */

/*
 * The type of the elements of an array, as long as all servers must mean the same by it:
 * a definition says of what type a column is, and of a domain no more than its name.
 */
static Oid
array_element(Oid type)
{
	Oid			element = get_element_type(type);

	if (!OidIsValid(element) || get_array_type(element) != type ||	/* int2vector */
		get_typtype(element) == TYPTYPE_DOMAIN)
		return InvalidOid;
	return element;
}

Oid
mosql_key_part_type(Oid type, MosqlKeyClass *class)
{
	switch (type)
	{
		case INT4RANGEOID:
		case INT8RANGEOID:
		case NUMRANGEOID:
		case TSRANGEOID:
		case TSTZRANGEOID:
		case DATERANGEOID:
			*class = MOSQL_KEY_RANGE;
			return get_range_subtype(type);
		default:
			*class = MOSQL_KEY_ARRAY;
			return array_element(type);
	}
}

void
mosql_key_setup_part(MosqlTableColumn *column)
{
	MosqlTableColumn *part = palloc0(sizeof(MosqlTableColumn));
	MosqlKeyClass class;

	part->attnum = column->attnum;
	part->id = column->id;
	part->type = mosql_key_part_type(column->type, &class);
	part->typmod = class == MOSQL_KEY_ARRAY ? column->typmod : -1;
	part->collation = column->collation;
	mosql_codec_setup(part);
	if (column->labels != NULL)
	{
		part->labels = column->labels;
		part->codec = MOSQL_CODEC_ENUM;
	}
	mosql_key_setup(part);
	column->part = part;
	column->in_row = part->in_row;
	column->range_order = part->range_order;
}

static void
put_marker(StringInfo out, uint8 marker)
{
	mosql_key_put_fixed(out, &marker, MARKER_BYTES);
}

static bool
get_marker(MosqlBytes *in, uint8 max, uint8 *marker)
{
	const char *data;

	if (!mosql_key_get_fixed(in, MARKER_BYTES, &data))
		return false;
	*marker = (uint8) *data;
	return *marker <= max;
}

/* ---- arrays ---- */

/*
 * As array_cmp(): by elements; then the shorter one is less, and the one of fewer dimensions;
 * by the lengths of these; by where they begin.
 */
void
mosql_key_put_array(const MosqlTableColumn *column, Datum value, StringInfo out)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	int			ndims = ARR_NDIM(array);
	int16		len;
	bool		byval;
	char		align;
	Datum	   *values;
	bool	   *nulls;
	int			n;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &len, &byval, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), len, byval, align, &values, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		put_marker(out, nulls[i] ? PART_NULL : PART_VALUE);
		if (!nulls[i])
			mosql_key_put_value(column->part, values[i], out);
	}
	put_marker(out, PART_END);
	put_marker(out, (uint8) ndims);
	for (int i = 0; ndims > 1 && i < ndims; i++)
		mosql_key_put_int(out, ARR_DIMS(array)[i], NUMBER_BYTES);
	for (int i = 0; i < ndims; i++)
		mosql_key_put_int(out, ARR_LBOUND(array)[i], NUMBER_BYTES);
}

/* What an array consists of. */
typedef struct Parts
{
	int			n;
	int			room;
	Datum	   *values;
	bool	   *nulls;
	uint8		ndims;
	int			dims[MAXDIM];
	int			lows[MAXDIM];
} Parts;

static void
append_part(Parts *parts, Datum value, bool isnull)
{
	if (parts->n == parts->room)
	{
		parts->room = Max(2 * parts->room, 8);
		parts->values = parts->values == NULL ? palloc(parts->room * sizeof(Datum))
			: repalloc(parts->values, parts->room * sizeof(Datum));
		parts->nulls = parts->nulls == NULL ? palloc(parts->room * sizeof(bool))
			: repalloc(parts->nulls, parts->room * sizeof(bool));
	}
	parts->values[parts->n] = value;
	parts->nulls[parts->n++] = isnull;
}

/* wanted: values are made of them. */
static bool
get_elements(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes *in, bool wanted,
			 Parts *parts)
{
	uint8		marker;

	while (get_marker(in, PART_NULL, &marker) && marker != PART_END)
	{
		Datum		value = (Datum) 0;

		if (marker == PART_VALUE &&
			!mosql_key_get_value(table, column->part, in, wanted ? &value : NULL))
			return false;
		append_part(parts, value, marker == PART_NULL);
	}
	return marker == PART_END;
}

static bool
get_numbers(MosqlBytes *in, int n, int *numbers)
{
	int64		number;

	for (int i = 0; i < n; i++)
	{
		if (!mosql_key_get_int(in, NUMBER_BYTES, &number))
			return false;
		numbers[i] = (int) number;
	}
	return true;
}

/* Dimensions that hold so many elements, and end before numbers do. */
static bool
get_dimensions(MosqlBytes *in, Parts *parts)
{
	int64		n = 1;

	if (!get_marker(in, MAXDIM, &parts->ndims))
		return false;
	parts->dims[0] = parts->n;
	if ((parts->ndims > 1 && !get_numbers(in, parts->ndims, parts->dims)) ||
		!get_numbers(in, parts->ndims, parts->lows))
		return false;
	for (int i = 0; i < parts->ndims; i++)
	{
		if (parts->dims[i] <= 0 || (int64) parts->lows[i] + parts->dims[i] > PG_INT32_MAX)
			return false;
		n *= parts->dims[i];
		if (n > parts->n)
			return false;
	}
	return parts->n == (parts->ndims == 0 ? 0 : n);
}

bool
mosql_key_get_array(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes *in,
					Datum *value)
{
	Parts		parts = {0};
	Oid			element = column->part->type;
	int16		len;
	bool		byval;
	char		align;

	if (!get_elements(table, column, in, value != NULL, &parts) || !get_dimensions(in, &parts))
		return false;
	if (value == NULL)
		return true;
	get_typlenbyvalalign(element, &len, &byval, &align);
	*value = PointerGetDatum(construct_md_array(parts.values, parts.nulls, parts.ndims, parts.dims,
												parts.lows, element, len, byval, align));
	return true;
}

/* ---- ranges ---- */

static TypeCacheEntry *
range_type(const MosqlTableColumn *column)
{
	return lookup_type_cache(column->type, TYPECACHE_RANGE_INFO);
}

static void
put_bound(const MosqlTableColumn *part, const RangeBound *bound, StringInfo out)
{
	put_marker(out, !bound->infinite ? BOUND_VALUE : bound->lower ? BOUND_BELOW : BOUND_ABOVE);
	if (bound->infinite)
		return;
	mosql_key_put_value(part, bound->val, out);
	put_marker(out, bound->inclusive == bound->lower ? BOUND_AT : BOUND_AFTER);
}

/* As range_cmp(): by the lower bounds, then by the upper ones. */
void
mosql_key_put_range(const MosqlTableColumn *column, Datum value, StringInfo out)
{
	RangeBound	lower;
	RangeBound	upper;
	bool		empty;

	range_deserialize(range_type(column), DatumGetRangeTypeP(value), &lower, &upper, &empty);
	put_marker(out, empty ? EMPTY_RANGE : FILLED_RANGE);
	if (empty)
		return;
	put_bound(column->part, &lower, out);
	put_bound(column->part, &upper, out);
}

/* at: the bytes of its value, and of where it is. */
static bool
get_bound(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes *in, bool wanted,
		  RangeBound *bound, MosqlBytes *at)
{
	uint8		marker;

	if (!get_marker(in, BOUND_ABOVE, &marker) || marker == (bound->lower ? BOUND_ABOVE : BOUND_BELOW))
		return false;
	bound->infinite = marker != BOUND_VALUE;
	if (bound->infinite)
		return true;
	*at = *in;
	if (!mosql_key_get_value(table, column->part, in, wanted ? &bound->val : NULL) ||
		!get_marker(in, BOUND_AFTER, &marker))
		return false;
	at->len -= in->len;
	bound->inclusive = bound->lower == (marker == BOUND_AT);
	return true;
}

bool
mosql_key_get_range(const MosqlTable *table, const MosqlTableColumn *column, MosqlBytes *in,
					Datum *value)
{
	RangeBound	lower = {.lower = true};
	RangeBound	upper = {.lower = false};
	MosqlBytes	from = MOSQL_ABSENT;
	MosqlBytes	to = MOSQL_ABSENT;
	uint8		marker;

	if (!get_marker(in, FILLED_RANGE, &marker) ||
		(marker == FILLED_RANGE &&
		 (!get_bound(table, column, in, value != NULL, &lower, &from) ||
		  !get_bound(table, column, in, value != NULL, &upper, &to))))
		return false;
	/* there is something between them */
	if (from.data != NULL && to.data != NULL && mosql_bytes_compare(from, to) >= 0)
		return false;
	if (value != NULL)
		*value = RangeTypePGetDatum(range_serialize(range_type(column), &lower, &upper,
#if PG_VERSION_NUM >= 160000
													marker == EMPTY_RANGE, NULL));
#else
													marker == EMPTY_RANGE));
#endif
	return true;
}
