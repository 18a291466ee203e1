/*
 * reference_rows.c: the rows at both ends of a foreign key.
 *
 * Layer: fdw.  A parent is known by its key in the tree that makes the referenced
 * columns unique: whether it is there is one read, for any number of parents.  The
 * children of a parent are a range of the child's own tree, or of an index, if one
 * begins with the foreign key's columns in whatever order; else the child is read
 * as a whole.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"

#include "base/debug.h"
#include "fdw/reference.h"

/* ---- opening ---- */

static const MosqlTable *
open_table(Oid relid, MosqlSession *session, Oid *primary)
{
	Relation	rel = table_open(relid, AccessShareLock);
	const MosqlTable *table;

	mosql_table_check_made(rel);
	table = mosql_table_open(rel, session);
	mosql_fresh_give_way(table);
	*primary = mosql_fdw_primary_key(rel);
	table_close(rel, NoLock);
	return table;
}

/* Which column of the foreign key an attribute is, by one of its sides; -1: none. */
static int
place_of(const AttrNumber *columns, int n, AttrNumber attnum)
{
	for (int i = 0; i < n; i++)
		if (columns[i] == attnum)
			return i;
	return -1;
}

/* Do the first n key columns of `keys` make up these columns, in whatever order? */
static bool
begins_with(const MosqlTable *keys, const AttrNumber *columns, int n, int *order)
{
	if (keys->nkeys < n)
		return false;
	for (int i = 0; i < n; i++)
	{
		order[i] = place_of(columns, n, keys->key_attnums[i]);
		if (order[i] < 0)
			return false;
	}
	return true;
}

/* An index of columns alone, with an entry for each row. */
static bool
is_plain(const MosqlIndex *index)
{
	return index->broken == NULL && index->econtext == NULL;
}

static void
find_target(MosqlReference *reference, Oid primary)
{
	const MosqlForeignKey *key = &reference->key;
	const char *name = get_rel_name(key->index);

	if (key->index == primary)
		reference->target = reference->parent;
	for (int i = 0; name != NULL && reference->target == NULL && i < reference->parent->nindexes; i++)
		if (reference->parent->indexes[i].unique && is_plain(&reference->parent->indexes[i]) &&
			strcmp(reference->parent->indexes[i].name, name) == 0)
		{
			reference->index = &reference->parent->indexes[i];
			reference->target = reference->index->entries;
		}
	if (reference->target == NULL || reference->target->nkeys != key->n ||
		!begins_with(reference->target, key->referenced, key->n, reference->order))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("foreign key \"%s\" leads to columns that are not unique in Redis any more",
						NameStr(key->name)),
				 errdetail("Another server changed the indexes of table \"%s\".",
						   get_rel_name(key->parent)),
				 errhint("Call mosql_fdw_refresh() for both tables of the foreign key.")));
}

/* Would PostgreSQL compare them in a foreign key of its own: by an operator of the key's family, or as one type? */
static bool
are_comparable(Oid to, Oid from)
{
	Oid			opclass = GetDefaultOpClass(to, BTREE_AM_OID);
	Oid			input = get_opclass_input_type(opclass);
	Oid			given[2] = {to, from};
	Oid			wanted[2] = {input, input};

	return OidIsValid(get_opfamily_member(get_opclass_family(opclass), input, getBaseType(from), BTEqualStrategyNumber)) ||
		can_coerce_type(2, given, wanted, COERCION_IMPLICIT);
}

static void refuse_types(const MosqlReference *reference, Oid to, Oid from) pg_attribute_noreturn();

/* 42804 where PostgreSQL says it, 0A000 where only we cannot. */
static void
refuse_types(const MosqlReference *reference, Oid to, Oid from)
{
	if (!are_comparable(to, from))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("foreign key constraint \"%s\" cannot be implemented", NameStr(reference->key.name)),
				 errdetail("Key columns are of incompatible types: %s and %s.",
						   format_type_be(from), format_type_be(to))));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("foreign key \"%s\" compares %s with %s, which is not supported",
					NameStr(reference->key.name), format_type_be(from), format_type_be(to)),
			 errhint("Give both columns the same type.")));
}

/* How values of the child become values of the parent's type. */
static void
find_conversion(MosqlReference *reference, int position)
{
	int			at = reference->order[position];
	AttrNumber	attnum = reference->target->key_attnums[position];
	Oid			to = reference->target->columns[attnum - 1].type;
	Oid			from = reference->child->columns[reference->key.columns[at] - 1].type;
	Oid			function;

	reference->target_conds[position] = (MosqlCond)
	{
		.kind = MOSQL_COND_EQ, .key_position = position, .ncolumns = 1, .exact = true
	};
	reference->target_types[position] = from;
	reference->alike &= from == to;
	if (mosql_ranges_can_convert(to, from))
		return;
	if (find_coercion_pathway(to, from, COERCION_IMPLICIT, &function) != COERCION_PATH_FUNC)
		refuse_types(reference, to, from);
	reference->converts[at] = true;
	fmgr_info(function, &reference->convert[at]);
	reference->target_types[position] = to;
}

/* May these key columns serve to find children by a parent's values? */
static bool
is_source(const MosqlReference *reference, const MosqlTable *keys, int *order)
{
	const MosqlForeignKey *key = &reference->key;

	if (!begins_with(keys, key->columns, key->n, order))
		return false;
	for (int i = 0; i < key->n; i++)
		if (!mosql_ranges_can_convert(keys->columns[keys->key_attnums[i] - 1].type,
									  reference->parent->columns[key->referenced[order[i]] - 1].type))
			return false;
	return true;
}

static void
find_source(MosqlReference *reference)
{
	const MosqlForeignKey *key = &reference->key;
	const MosqlTable *child = reference->child;
	int			order[INDEX_MAX_KEYS];

	for (int i = -1; i < child->nindexes && reference->source == NULL; i++)
	{
		const MosqlTable *keys = i < 0 ? child : child->indexes[i].entries;

		if ((i < 0 || is_plain(&child->indexes[i])) && is_source(reference, keys, order))
			reference->source = keys;
	}
	for (int i = 0; reference->source != NULL && i < key->n; i++)
	{
		reference->source_order[i] = order[i];
		reference->source_conds[i] = (MosqlCond)
		{
			.kind = MOSQL_COND_EQ, .key_position = i, .ncolumns = 1, .exact = true
		};
		reference->source_types[i] =
			reference->parent->columns[key->referenced[order[i]] - 1].type;
	}
}

static const MosqlDefinitionReference *
stored_reference(const MosqlReference *reference)
{
	for (int i = 0; i < reference->child->nreferences; i++)
		if (strcmp(reference->child->references[i].name, NameStr(reference->key.name)) == 0)
			return &reference->child->references[i];
	return NULL;
}

/* Is the parent's table the one that the foreign key leads to in Redis? */
static bool
leads_there(Oid parent, const MosqlDefinitionReference *stored)
{
	Relation	rel = table_open(parent, AccessShareLock);
	const char *schema;
	const char *name;

	mosql_table_remote_name(rel, &schema, &name);
	table_close(rel, NoLock);
	return strcmp(schema, stored->schema) == 0 && strcmp(name, stored->table) == 0;
}

/* Does the definition in Redis say the same? */
static bool
is_stored_so(const MosqlReference *reference, const MosqlDefinitionReference *stored)
{
	const MosqlForeignKey *key = &reference->key;
	bool		same = leads_there(key->parent, stored) &&
		stored->n == key->n && stored->nset == key->nset &&
		stored->deferrable == key->deferrable && stored->deferred == key->deferred &&
		stored->match == key->match && stored->on_update == key->on_update &&
		stored->on_delete == key->on_delete;

	for (int i = 0; same && i < key->n; i++)
		same = stored->columns[i] == reference->child->columns[key->columns[i] - 1].id &&
			stored->referenced[i] == reference->parent->columns[key->referenced[i] - 1].id;
	for (int i = 0; same && i < key->nset; i++)
		same = stored->set[i] == reference->child->columns[key->set[i] - 1].id;
	return same;
}

MosqlReference *
mosql_reference_open(const MosqlForeignKey *key, MosqlSession *session)
{
	MosqlReference *reference = palloc0(sizeof(MosqlReference));
	const MosqlDefinitionReference *stored;
	Oid			primary;

	reference->key = *key;
	reference->session = session;
	reference->txn = mosql_txn_current(session);
	reference->child = open_table(key->child, session, &primary);
	stored = stored_reference(reference);
	if (stored == NULL)
		return NULL;
	reference->parent = open_table(key->parent, session, &primary);
	if (!is_stored_so(reference, stored))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("foreign key \"%s\" of table \"%s\" is another one in Redis",
						NameStr(key->name), get_rel_name(key->child)),
				 errdetail("Another server dropped it and added one of the same name."),
				 errhint("SELECT mosql_fdw_refresh('%s') makes this one the same.",
						 get_rel_name(key->child))));
	reference->stored = stored;
	reference->locks = mosql_lock_is_wanted(key->parent);
	find_target(reference, primary);
	reference->alike = true;
	for (int i = 0; i < key->n; i++)
		find_conversion(reference, i);
	find_source(reference);
	return reference;
}

/* See reference.h. */
MosqlReference *
mosql_reference_open_existing(const MosqlForeignKey *key, MosqlSession *session)
{
	MosqlReference *reference = mosql_reference_open(key, session);

	if (reference == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("foreign key \"%s\" of table \"%s\" does not exist in Redis",
						NameStr(key->name), get_rel_name(key->child)),
				 errdetail("Another server dropped it."),
				 errhint("SELECT mosql_fdw_refresh('%s') drops it here, too.",
						 get_rel_name(key->child))));
	return reference;
}

/* See reference.h. */
void
mosql_reference_check_definitions(const MosqlReference *reference)
{
	Oid			primary;

	(void) open_table(reference->key.child, reference->session, &primary);
	(void) open_table(reference->key.parent, reference->session, &primary);
}

/* ---- keys ---- */

/* values: of the child, in the order of the foreign key's columns; none null. */
static bool
put_child_key(MosqlReference *reference, const Datum *values, StringInfo out)
{
	Datum		ordered[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS] = {0};
	int			n = reference->key.n;
	MosqlRanges *ranges;

	for (int i = 0; i < n; i++)
	{
		int			at = reference->order[i];

		ordered[i] = values[at];
		if (reference->converts[at])
			ordered[i] = FunctionCall1(&reference->convert[at], values[at]);
		if (reference->alike)
			mosql_table_put_key(reference->target, i, ordered[i], out);
	}
	if (reference->alike)
		return true;
	ranges = mosql_ranges_build(reference->target, reference->target_conds, n, ordered, nulls,
								reference->target_types);
	if (ranges->n == 0)
		return false;
	appendBinaryStringInfo(out, ranges->ranges[0].low.data, ranges->ranges[0].low.len);
	return true;
}

MosqlReferenceKey
mosql_reference_of_child(MosqlReference *reference, const Datum *values, const bool *nulls,
						 StringInfo key)
{
	int			nnulls = 0;

	for (int i = 0; i < reference->key.n; i++)
		nnulls += nulls[i];
	if (nnulls > 0)
		return reference->key.match == FKCONSTR_MATCH_FULL && nnulls < reference->key.n
			? MOSQL_REFERENCE_MIXED : MOSQL_REFERENCE_NONE;
	return put_child_key(reference, values, key) ? MOSQL_REFERENCE_KEY : MOSQL_REFERENCE_IMPOSSIBLE;
}

bool
mosql_reference_of_parent(MosqlReference *reference, TupleTableSlot *slot, StringInfo key)
{
	for (int i = 0; i < reference->key.n; i++)
	{
		bool		isnull;
		Datum		value = slot_getattr(slot, reference->target->key_attnums[i], &isnull);

		if (isnull)
			return false;
		mosql_table_put_key(reference->target, i, value, key);
	}
	return true;
}

/* See reference.h. */
void
mosql_reference_values(const MosqlReference *reference, MosqlBytes key, Datum *values)
{
	Datum		ordered[INDEX_MAX_KEYS];

	mosql_table_key_values(reference->target, key, ordered);
	for (int i = 0; i < reference->key.n; i++)
		values[reference->order[i]] = ordered[i];
}

/* ---- parents ---- */

static int
compare_keys(const void *a, const void *b)
{
	return mosql_bytes_compare(*(const MosqlBytes *) a, *(const MosqlBytes *) b);
}

static int
compare_row(const void *key, const void *row)
{
	return mosql_bytes_compare(*(const MosqlBytes *) key, ((const MosqlRow *) row)->key);
}

/* Looks for a parent's row before giving up. */
#define LOOK_TRIES	10

/* Parents that are found by a unique index, as long as some are looked for. */
typedef struct Search
{
	MosqlReference *reference;
	int			n;
	const MosqlBytes **keys;	/* in the index; those of the caller */
	MosqlBytes *rows;			/* keys of the rows that entries lead to; absent: there is no entry */
	int			nlocked;
	MosqlRow   *locked;			/* rows, ascending; */
	int		   *before;			/* how strongly each was locked before, */
	bool	   *counts;			/* and whether it is a parent */
} Search;

static void
read_entries(Search *search)
{
	const MosqlReference *reference = search->reference;
	MosqlBytes *keys = palloc(search->n * sizeof(MosqlBytes));
	MosqlRow   *entries = palloc0(search->n * sizeof(MosqlRow));

	for (int i = 0; i < search->n; i++)
		keys[i] = *search->keys[i];
	mosql_txn_read_stored(reference->txn, reference->target->tree, keys, search->n, entries);
	for (int i = 0; i < search->n; i++)
	{
		entries[i].key = keys[i];
		search->rows[i] = entries[i].found ? mosql_index_row_key(reference->index, &entries[i])
			: MOSQL_ABSENT;
	}
}

/* Lock the rows, KEY SHARE: who changes or deletes one has it locked. */
static void
lock_rows(Search *search)
{
	MosqlBytes *keys = palloc(search->n * sizeof(MosqlBytes) + 1);
	bool	   *locked = palloc(search->n * sizeof(bool) + 1);
	int			n = 0;
	int			m = 0;

	for (int i = 0; i < search->n; i++)
		if (search->rows[i].data != NULL)
			keys[n++] = search->rows[i];
	qsort(keys, n, sizeof(MosqlBytes), compare_keys);
	for (int i = 0; i < n; i++)
		if (m == 0 || !mosql_bytes_equal(keys[m - 1], keys[i]))
			keys[m++] = keys[i];
	search->nlocked = m;
	search->locked = palloc(m * sizeof(MosqlRow) + 1);
	search->before = palloc(m * sizeof(int) + 1);
	search->counts = palloc0(m * sizeof(bool) + 1);
	for (int i = 0; i < m; i++)
		search->before[i] = mosql_txn_strength(search->reference->txn,
											   search->reference->parent->tree, keys[i]);
	if (m > 0)
		mosql_txn_claim(search->reference->txn, search->reference->parent->tree, keys, m,
						MOSQL_KEY_SHARE, LockWaitBlock, search->locked, locked);
}

/* Has the row that was locked this key in the index? */
static bool
has_key(MosqlReference *reference, const MosqlRow *row, MosqlBytes key)
{
	const MosqlTable *parent = reference->parent;
	Datum	   *values = palloc(parent->natts * sizeof(Datum));
	bool	   *nulls = palloc(parent->natts * sizeof(bool));
	bool	   *needed = palloc0(parent->natts * sizeof(bool));
	StringInfoData now;

	initStringInfo(&now);
	for (int i = 0; i < reference->key.n; i++)
		needed[reference->target->key_attnums[i] - 1] = true;
	mosql_table_get_row(parent, row->key, row->columns, needed, values, nulls);
	for (int i = 0; i < reference->key.n; i++)
	{
		int			at = reference->target->key_attnums[i] - 1;

		if (nulls[at])
			return false;
		mosql_table_put_key(reference->target, i, values[at], &now);
	}
	return mosql_bytes_equal(mosql_bytes_of(&now), key);
}

static const MosqlRow *
find_locked(const Search *search, MosqlBytes key)
{
	return bsearch(&key, search->locked, search->nlocked, sizeof(MosqlRow), compare_row);
}

/* Rows that are nobody's parent are nothing to this transaction. */
static void
let_go_of_others(const Search *search)
{
	MosqlTree  *tree = search->reference->parent->tree;

	for (int i = 0; i < search->nlocked; i++)
		if (!search->counts[i])
			mosql_txn_lower(search->reference->txn, tree, search->locked[i].key, search->before[i]);
}

/*
 * One look at those that are looked for: what is found, or is not there, is done with.
 * Race -- an entry and its row are two reads: in between the row may have gone, or given the
 * entry to another.  Then the entry is looked for anew.
 */
static void
search_once(Search *search)
{
	MosqlReference *reference = search->reference;
	int			left = 0;

	read_entries(search);
	MOSQL_DEBUG_POINT("lock-parent-entries");
	lock_rows(search);
	for (int i = 0; i < search->n; i++)
	{
		const MosqlRow *row;

		if (search->rows[i].data == NULL)
			continue;
		row = find_locked(search, search->rows[i]);
		if (row->found && has_key(reference, row, *search->keys[i]))
		{
			search->counts[row - search->locked] = true;
			mosql_txn_note_referenced(reference->txn, reference->target->tree, *search->keys[i]);
		}
		else
			search->keys[left++] = search->keys[i];
	}
	search->n = left;
	let_go_of_others(search);
}

/*
 * The entry of a unique index is not locked, for who takes it away holds the row, and wants the
 * entry next: whoever holds that and waits for the row would wait for ever.  40001 if rows give
 * their entries to others again and again.
 */
static void
find_by_index(MosqlReference *reference, const MosqlBytes *keys, int n, bool *found)
{
	Search		search = {reference};

	search.keys = palloc(n * sizeof(MosqlBytes *) + 1);
	search.rows = palloc(n * sizeof(MosqlBytes) + 1);
	for (int i = 0; i < n; i++)
		if (!mosql_txn_is_known(reference->txn, reference->target->tree, keys[i], &found[i]))
			search.keys[search.n++] = &keys[i];
	for (int tries = 0; search.n > 0 && tries < LOOK_TRIES; tries++)
		search_once(&search);
	if (search.n > 0)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to concurrent update"),
				 errdetail("Rows that foreign key \"%s\" leads to exchanged their keys while they were looked for.",
						   NameStr(reference->key.name)),
				 errhint("The transaction might succeed if retried.")));
	for (int i = 0; i < n; i++)
		found[i] = mosql_txn_knows(reference->txn, reference->target->tree, keys[i], false);
}

void
mosql_reference_find_parents(MosqlReference *reference, const MosqlBytes *keys, int n, bool *found)
{
	MemoryContext cxt;
	MemoryContext old;

	if (!reference->locks || reference->index == NULL)
	{
		mosql_txn_refer(reference->txn, reference->target->tree, keys, n, reference->locks, found);
		return;
	}
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql parents", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	find_by_index(reference, keys, n, found);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* ---- children ---- */

static MosqlView *
open_view(MosqlReference *reference, const void *statement, bool certify)
{
	/* all that this transaction wrote counts, whichever command did */
	MosqlView  *view = mosql_view_open(reference->txn, statement, InvalidCommandId - 1, false);

	if (certify)
		mosql_view_certify(view);
	return view;
}

/* Where the children of a parent are in the source. */
typedef struct ChildRange
{
	MosqlKeyRange range;
	int			parent;			/* index into the keys */
} ChildRange;

/* False: no value of the child's types equals the parent's. */
static bool
child_range(MosqlReference *reference, MosqlBytes key, MosqlKeyRange *range)
{
	Datum		values[INDEX_MAX_KEYS];
	Datum		ordered[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS] = {0};
	int			n = reference->key.n;
	MosqlRanges *ranges;
	StringInfoData high;

	mosql_reference_values(reference, key, values);
	for (int i = 0; i < n; i++)
		ordered[i] = values[reference->source_order[i]];
	ranges = mosql_ranges_build(reference->source, reference->source_conds, n, ordered, nulls,
								reference->source_types);
	if (ranges->n == 0)
		return false;
	range->low = ranges->ranges[0].low;
	range->high = ranges->ranges[0].high;
	if (!ranges->ranges[0].point)
		return true;

	/* a whole key is a point; as a range it is certified like the others */
	initStringInfo(&high);
	appendBinaryStringInfo(&high, range->low.data, range->low.len);
	appendStringInfoChar(&high, '\0');
	range->high = mosql_bytes_of(&high);
	return true;
}

static int
compare_ranges(const void *a, const void *b)
{
	return mosql_bytes_compare(((const ChildRange *) a)->range.low,
							   ((const ChildRange *) b)->range.low);
}

/* The last range that begins at or before this key has it. */
static int
parent_of_child(const ChildRange *ranges, int n, MosqlBytes key)
{
	int			at = 0;

	while (at + 1 < n && mosql_bytes_compare(ranges[at + 1].range.low, key) <= 0)
		at++;
	return ranges[at].parent;
}

/* As mosql_reference_find_child(), for some parents whose children are read together. */
static int
find_in_ranges(MosqlReference *reference, const MosqlBytes *keys, int n, bool certify,
			   StringInfo child)
{
	ChildRange *found = palloc(n * sizeof(ChildRange));
	MosqlKeyRange *ranges = palloc(n * sizeof(MosqlKeyRange));
	MosqlView  *view;
	MosqlRowScan *scan;
	MosqlRow	row = {0};
	int			parent = -1;
	int			m = 0;

	for (int i = 0; i < n; i++)
	{
		found[m].parent = i;
		if (child_range(reference, keys[i], &found[m].range))
			m++;
	}
	if (m == 0)
		return -1;
	qsort(found, m, sizeof(ChildRange), compare_ranges);
	for (int i = 0; i < m; i++)
		ranges[i] = found[i].range;
	view = open_view(reference, &row, certify);
	scan = mosql_view_scan_begin_ranges(view, reference->source->tree, ranges, m, false, m);
	if (mosql_view_scan_next(scan, &row))
	{
		parent = parent_of_child(found, m, row.key);
		appendBinaryStringInfo(child, row.key.data, row.key.len);
	}
	mosql_view_scan_end(scan);
	mosql_view_close(view);
	return parent;
}

/* A walk over all rows of the child, for the columns of the foreign key. */
typedef struct ChildWalk
{
	MosqlReference *reference;
	MosqlView  *view;
	MosqlRowScan *scan;
	MosqlRow	row;
	MemoryContext cxt;			/* one row */
	bool	   *needed;
	Datum	   *row_values;
	bool	   *row_nulls;
	Datum		values[INDEX_MAX_KEYS]; /* the row's, in the order of the foreign key */
	bool		nulls[INDEX_MAX_KEYS];
} ChildWalk;

static ChildWalk *
begin_walk(MosqlReference *reference, bool certify)
{
	const MosqlTable *child = reference->child;
	ChildWalk  *walk = palloc0(sizeof(ChildWalk));

	walk->reference = reference;
	walk->needed = palloc0(child->natts * sizeof(bool));
	walk->row_values = palloc(child->natts * sizeof(Datum));
	walk->row_nulls = palloc(child->natts * sizeof(bool));
	for (int i = 0; i < reference->key.n; i++)
		walk->needed[reference->key.columns[i] - 1] = true;
	walk->cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql child row",
									  ALLOCSET_SMALL_SIZES);
	walk->view = open_view(reference, walk, certify);
	walk->scan = mosql_view_scan_begin(walk->view, child->tree, mosql_bytes("", 0), MOSQL_ABSENT,
									   false, 0);
	return walk;
}

/* The next row; what is allocated for it in walk->cxt goes with it. */
static bool
next_child(ChildWalk *walk)
{
	MemoryContext old;

	CHECK_FOR_INTERRUPTS();
	if (!mosql_view_scan_next(walk->scan, &walk->row))
		return false;
	MemoryContextReset(walk->cxt);
	old = MemoryContextSwitchTo(walk->cxt);
	mosql_table_get_row(walk->reference->child, walk->row.key, walk->row.columns, walk->needed,
						walk->row_values, walk->row_nulls);
	for (int i = 0; i < walk->reference->key.n; i++)
	{
		AttrNumber	attnum = walk->reference->key.columns[i];

		walk->values[i] = walk->row_values[attnum - 1];
		walk->nulls[i] = walk->row_nulls[attnum - 1];
	}
	MemoryContextSwitchTo(old);
	return true;
}

static void
end_walk(ChildWalk *walk)
{
	mosql_view_scan_end(walk->scan);
	mosql_view_close(walk->view);
	MemoryContextDelete(walk->cxt);
	pfree(walk);
}

/* The key of the parent that this child leads to, in walk->cxt. */
static MosqlReferenceKey
walk_key(ChildWalk *walk, MosqlBytes *key)
{
	MemoryContext old = MemoryContextSwitchTo(walk->cxt);
	StringInfoData out;
	MosqlReferenceKey kind;

	initStringInfo(&out);
	kind = mosql_reference_of_child(walk->reference, walk->values, walk->nulls, &out);
	*key = mosql_bytes_of(&out);
	MemoryContextSwitchTo(old);
	return kind;
}

/* Nothing begins with the foreign key's columns: all rows of the child. */
static int
search_child(MosqlReference *reference, const MosqlBytes *keys, int n, bool certify,
			 StringInfo child)
{
	ChildWalk  *walk = begin_walk(reference, certify);
	const MosqlBytes *found = NULL;

	while (found == NULL && next_child(walk))
	{
		MosqlBytes	key;

		if (walk_key(walk, &key) == MOSQL_REFERENCE_KEY)
			found = bsearch(&key, keys, n, sizeof(MosqlBytes), compare_keys);
	}
	if (found != NULL)
		appendBinaryStringInfo(child, walk->row.key.data, walk->row.key.len);
	end_walk(walk);
	return found == NULL ? -1 : (int) (found - keys);
}

/* Parents whose children are looked for in one scan. */
#define RANGES_PER_SCAN 128

int
mosql_reference_find_child(MosqlReference *reference, const MosqlBytes *keys, int n, bool certify,
						   StringInfo child)
{
	MemoryContext cxt;
	int			found = -1;

	if (reference->source == NULL)
		return n == 0 ? -1 : search_child(reference, keys, n, certify, child);
	cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql children", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < n && found < 0; i += RANGES_PER_SCAN)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);
		int			at = find_in_ranges(reference, keys + i, Min(n - i, RANGES_PER_SCAN), certify,
										child);

		CHECK_FOR_INTERRUPTS();
		found = at < 0 ? -1 : i + at;
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
	}
	MemoryContextDelete(cxt);
	return found;
}

/* ---- all children ---- */

/* Parents that are looked up together. */
#define VALIDATE_BATCH	1000

/*
 * At READ COMMITTED both tables are held still, the parent from the first look at it on: what is
 * seen of them then is so at COMMIT, and nothing has to be certified.  Above, what is read is.
 */
typedef struct Validation
{
	MosqlReference *reference;
	bool		held;
	MosqlView  *parents;		/* of the parent, once it is held */
	MemoryContext cxt;			/* a batch */
	int			n;
	MosqlBytes	keys[VALIDATE_BATCH];
} Validation;

/*
 * Race -- who was waited for may have changed the definition: it is opened once more, and 40001 if
 * what was relied on has gone.  What it says of foreign keys is up to the caller.
 */
static void
hold_still(Oid relid, MosqlSession *session)
{
	Relation	rel = table_open(relid, AccessShareLock);
	uint64		root = mosql_btree_root(mosql_table_open(rel, session)->tree);

	mosql_table_hold_still(rel, session, root);
	(void) mosql_table_open(rel, session);
	table_close(rel, NoLock);
}

/* Which parents of the batch are there? */
static void
find_batch(Validation *v, bool *found)
{
	MosqlReference *reference = v->reference;
	MosqlRow	rows[VALIDATE_BATCH];

	if (!v->held)
	{
		mosql_txn_refer(reference->txn, reference->target->tree, v->keys, v->n, false, found);
		return;
	}
	if (v->parents == NULL)
	{
		if (reference->key.parent != reference->key.child)
			hold_still(reference->key.parent, reference->session);
		v->parents = open_view(reference, v, false);
	}
	mosql_view_get(v->parents, reference->target->tree, v->keys, v->n, rows);
	for (int i = 0; i < v->n; i++)
		found[i] = rows[i].found;
}

/* All parents of the batch must be there. */
static void
check_batch(Validation *v)
{
	bool		found[VALIDATE_BATCH];
	MemoryContext old = MemoryContextSwitchTo(v->cxt);

	if (v->n > 0)
		find_batch(v, found);
	for (int i = 0; i < v->n; i++)
		if (!found[i])
			mosql_reference_report_child(v->reference, v->keys[i], NULL);
	MemoryContextSwitchTo(old);
	MemoryContextReset(v->cxt);
	v->n = 0;
}

/* The row that a walk is at; its parent is looked up with those of the next ones. */
static void
check_child(Validation *v, ChildWalk *walk)
{
	MosqlReference *reference = v->reference;
	MosqlBytes	key;
	MosqlReferenceKey kind = walk_key(walk, &key);

	if (kind == MOSQL_REFERENCE_MIXED)
		mosql_reference_report_mixed(reference);
	if (kind == MOSQL_REFERENCE_IMPOSSIBLE)
		mosql_reference_report_child(reference, MOSQL_ABSENT, walk->values);
	if (kind == MOSQL_REFERENCE_NONE ||
		mosql_txn_knows(reference->txn, reference->target->tree, key, false) ||
		(v->n > 0 && mosql_bytes_equal(v->keys[v->n - 1], key)))
		return;
	v->keys[v->n++] = mosql_bytes_copy(v->cxt, key);
	if (v->n == VALIDATE_BATCH)
		check_batch(v);
}

/* See reference.h. */
const MosqlDefinitionReference *
mosql_reference_validate(const MosqlForeignKey *key, MosqlSession *session)
{
	Validation *v = palloc0(sizeof(Validation));
	const MosqlDefinitionReference *stored;
	ChildWalk  *walk;

	v->held = mosql_txn_is_read_committed(mosql_txn_current(session));
	v->cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql parents", ALLOCSET_DEFAULT_SIZES);
	if (v->held)
		hold_still(key->child, session);
	v->reference = mosql_reference_open_existing(key, session);
	stored = v->reference->stored;
	walk = begin_walk(v->reference, !v->held);
	while (next_child(walk))
		check_child(v, walk);
	check_batch(v);
	end_walk(walk);
	if (v->parents != NULL)
		mosql_view_close(v->parents);
	MemoryContextDelete(v->cxt);
	pfree(v);
	return stored;
}
