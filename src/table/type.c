/*
 * type.c: types that consist of others: enums of labels, composite types of attributes.
 *
 * Layer: table.  Stored values hang on more of them than their name, and each server has
 * its own: a definition says of an enum which labels there are (MosqlLabel), and of a
 * composite type which attributes, its shape.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "catalog/pg_enum.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "table/table_int.h"

/* ---- composite types ---- */

/* The type right below a domain. */
static Oid
domain_base(Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Oid			base;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	base = ((Form_pg_type) GETSTRUCT(tuple))->typbasetype;
	ReleaseSysCache(tuple);
	return base;
}

bool
mosql_type_is_domain_of(Oid type, Oid domain)
{
	while (type != domain && get_typtype(type) == TYPTYPE_DOMAIN)
		type = domain_base(type);
	return type == domain;
}

/* The type that this one is an array, a range or a domain of; InvalidOid: none. */
static Oid
wrapped_type(Oid type)
{
	switch (get_typtype(type))
	{
		case TYPTYPE_DOMAIN:
			return domain_base(type);
		case TYPTYPE_RANGE:
			return get_range_subtype(type);
		case TYPTYPE_MULTIRANGE:
			return get_multirange_range(type);
		default:
			return get_element_type(type);
	}
}

/* The attributes of a composite type, pinned; NULL: it is none. */
static TupleDesc
attributes_of(Oid type)
{
	return type != RECORDOID && get_typtype(type) == TYPTYPE_COMPOSITE
		? lookup_rowtype_tupdesc(type, -1) : NULL;
}

static void
put_attribute(StringInfo out, Form_pg_attribute att, bool layout)
{
	const char *shape = mosql_type_shape(att->atttypid, layout);

	if (out->len > 1)
		appendStringInfoString(out, ", ");
	if (layout)
		appendStringInfo(out, "%d %u %d", att->attnum, att->atttypid, att->atttypmod);
	else
		appendStringInfo(out, "%s %s", quote_identifier(NameStr(att->attname)),
						 mosql_type_name(att->atttypid, att->atttypmod));
	if (shape != NULL)
		appendStringInfo(out, " %s", shape);
}

const char *
mosql_type_shape(Oid type, bool layout)
{
	Oid			wrapped = wrapped_type(type);
	StringInfoData out;
	TupleDesc	desc;

	check_stack_depth();
	if (OidIsValid(wrapped))
		return mosql_type_shape(wrapped, layout);
	desc = attributes_of(type);
	if (desc == NULL)
		return NULL;
	initStringInfo(&out);
	appendStringInfoChar(&out, '(');
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			put_attribute(&out, TupleDescAttr(desc, i), layout);
	appendStringInfoChar(&out, ')');
	ReleaseTupleDesc(desc);
	return out.data;
}

/* Is a value of this type, or part of one, of a type that is sought? */
static bool
any_part(Oid type, bool (*is_sought) (Oid type, Oid sought), Oid sought)
{
	Oid			wrapped = wrapped_type(type);
	bool		found = false;
	TupleDesc	desc;

	check_stack_depth();
	if (is_sought(type, sought))
		return true;
	if (OidIsValid(wrapped))
		return any_part(wrapped, is_sought, sought);
	desc = attributes_of(type);
	for (int i = 0; desc != NULL && i < desc->natts && !found; i++)
		found = !TupleDescAttr(desc, i)->attisdropped &&
			any_part(TupleDescAttr(desc, i)->atttypid, is_sought, sought);
	if (desc != NULL)
		ReleaseTupleDesc(desc);
	return found;
}

static bool
is_part(Oid type, Oid part)
{
	return type == part || (part == ANYENUMOID && get_typtype(type) == TYPTYPE_ENUM);
}

bool
mosql_type_contains(Oid type, Oid part)
{
	return any_part(type, is_part, part);
}

/* ---- names of objects ---- */

static bool
is_name(Oid type, Oid unused)
{
	return mosql_type_is_object_reference(type) || type == ACLITEMOID;
}

void
mosql_type_check_names(Form_pg_attribute att)
{
	if (any_part(att->atttypid, is_name, InvalidOid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s\" cannot be of type %s", NameStr(att->attname),
						format_type_be(att->atttypid)),
				 errdetail("Its values are objects of one server, which is free to rename and drop them."),
				 errhint("Use text for their names, or oid.")));
}

/* ---- enums ---- */

Oid
mosql_type_enum(Oid type)
{
	Oid			base = getBaseType(type);
	Oid			element = get_element_type(base);

	base = OidIsValid(element) ? getBaseType(element) : base;
	return get_typtype(base) == TYPTYPE_ENUM ? base : InvalidOid;
}

static int
by_oid(const void *a, const void *b)
{
	Oid			left = ((const MosqlLabel *) a)->oid;
	Oid			right = ((const MosqlLabel *) b)->oid;

	return left < right ? -1 : left > right;
}

static int
by_stored(const void *a, const void *b)
{
	return strcmp(((const MosqlLabel *) a)->stored, ((const MosqlLabel *) b)->stored);
}

static int
by_place(const void *a, const void *b)
{
	float4		left = (*(const Form_pg_enum *) a)->enumsortorder;
	float4		right = (*(const Form_pg_enum *) b)->enumsortorder;

	return left < right ? -1 : left > right;
}

int
mosql_type_labels(Oid type, MosqlLabel **labels)
{
	CatCList   *list = SearchSysCacheList1(ENUMTYPOIDNAME, ObjectIdGetDatum(type));
	int			n = list->n_members;
	Form_pg_enum *forms = palloc(Max(n, 1) * sizeof(Form_pg_enum));

	for (int i = 0; i < n; i++)
		forms[i] = (Form_pg_enum) GETSTRUCT(&list->members[i]->tuple);
	qsort(forms, n, sizeof(Form_pg_enum), by_place);
	*labels = palloc0(Max(n, 1) * sizeof(MosqlLabel));
	for (int i = 0; i < n; i++)
	{
		MosqlLabel *label = &(*labels)[i];

		label->oid = forms[i]->oid;
		label->name = label->stored = pstrdup(NameStr(forms[i]->enumlabel));
	}
	ReleaseCatCacheList(list);
	return n;
}

bool
mosql_labels_are_in_order(Oid type, const MosqlLabel *labels, int n)
{
	MosqlLabel *here;
	int			nhere = mosql_type_labels(type, &here);
	int			last = -1;

	for (int i = 0; i < n; i++)
		for (int j = 0; j < nhere; j++)
			if (strcmp(here[j].name, labels[i].name) == 0)
			{
				if (j < last)
					return false;
				last = j;
			}
	return true;
}

/* The labels of a definition, with the OIDs that those of the same names have here. */
MosqlLabels *
mosql_labels_here(Oid type, const MosqlLabel *labels, int n)
{
	MosqlLabels *result = palloc0(sizeof(MosqlLabels));
	MosqlLabel *here;
	int			nhere = mosql_type_labels(mosql_type_enum(type), &here);
	Oid			element = get_element_type(type);

	result->type = OidIsValid(element) ? element : type;
	result->n = n;
	result->by_oid = palloc(n * sizeof(MosqlLabel));
	result->by_stored = palloc(n * sizeof(MosqlLabel));
	for (int i = 0; i < n; i++)
	{
		MosqlLabel *label = &result->by_oid[i];

		*label = (MosqlLabel)
		{
			.name = pstrdup(labels[i].name),.stored = pstrdup(labels[i].stored)
		};
		for (int j = 0; j < nhere; j++)
			if (strcmp(here[j].name, label->name) == 0)
				label->oid = here[j].oid;
	}
	memcpy(result->by_stored, result->by_oid, n * sizeof(MosqlLabel));
	qsort(result->by_oid, n, sizeof(MosqlLabel), by_oid);
	qsort(result->by_stored, n, sizeof(MosqlLabel), by_stored);
	return result;
}

static void report_label(const MosqlLabels *labels, const char *name, const char *detail,
						 const char *hint) pg_attribute_noreturn();

static void
report_label(const MosqlLabels *labels, const char *name, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("label \"%s\" of enum %s is not the same on all servers", name,
					format_type_be(mosql_type_enum(labels->type))),
			 errdetail_internal("%s", detail),
			 errhint("%s", hint)));
}

const char *
mosql_label_stored(const MosqlLabels *labels, Oid oid)
{
	MosqlLabel	key = {.oid = oid};
	const MosqlLabel *label = bsearch(&key, labels->by_oid, labels->n, sizeof(MosqlLabel), by_oid);
	HeapTuple	tuple;
	char	   *name;

	if (label != NULL)
		return label->stored;
	tuple = SearchSysCache1(ENUMOID, ObjectIdGetDatum(oid));
	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid internal value for enum: %u", oid)));
	name = pstrdup(NameStr(((Form_pg_enum) GETSTRUCT(tuple))->enumlabel));
	ReleaseSysCache(tuple);
	report_label(labels, name, "The table in Redis does not know it.",
				 "If another server renamed it, use ALTER TYPE ... RENAME VALUE here, too. If it is new, use ALTER TYPE ... ADD VALUE IF NOT EXISTS.");
}

Oid
mosql_label_oid(const MosqlLabels *labels, const char *stored)
{
	MosqlLabel	key = {.stored = stored};
	const MosqlLabel *label = bsearch(&key, labels->by_stored, labels->n, sizeof(MosqlLabel),
									  by_stored);

	if (label == NULL || !OidIsValid(label->oid))
		report_label(labels, label != NULL ? label->name : stored,
					 "The table in Redis has it, and this server does not.",
					 "Use ALTER TYPE ... RENAME VALUE or ADD VALUE here, as another server did.");
	return label->oid;
}
