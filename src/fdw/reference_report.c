/*
 * reference_report.c: errors of foreign keys, as core words them.
 *
 * Layer: fdw.
 */
#include "postgres.h"

#include "access/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "fdw/reference.h"

/* "Key (a, b)=(1, x)", the column names being that table's; NULL: not to be seen. */
static char *
describe(Oid relid, const AttrNumber *columns, int n, const Datum *values, const Oid *types)
{
	StringInfoData names;
	StringInfoData text;

	if (!mosql_table_may_see(relid, columns, n))
		return NULL;
	initStringInfo(&names);
	initStringInfo(&text);
	for (int i = 0; i < n; i++)
	{
		Oid			function;
		bool		is_varlena;

		getTypeOutputInfo(types[i], &function, &is_varlena);
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", get_attname(relid, columns[i], false));
		appendStringInfo(&text, "%s%s", i > 0 ? ", " : "", OidOutputFunctionCall(function, values[i]));
	}
	return psprintf("Key (%s)=(%s)", names.data, text.data);
}

static void
column_types(const MosqlTable *table, const AttrNumber *columns, int n, Oid *types)
{
	for (int i = 0; i < n; i++)
		types[i] = table->columns[columns[i] - 1].type;
}

void
mosql_reference_report_child(MosqlReference *reference, MosqlBytes bytes,
							 const Datum *child_values)
{
	const MosqlForeignKey *key = &reference->key;
	Relation	child = table_open(key->child, AccessShareLock);
	const char *parent = get_rel_name(key->parent);
	Datum		values[INDEX_MAX_KEYS];
	Oid			types[INDEX_MAX_KEYS];
	char	   *described;

	mosql_reference_check_definitions(reference);
	mosql_txn_blame(reference->txn, InvalidCommandId, reference->target->tree, bytes);
	if (bytes.data != NULL)
	{
		mosql_reference_values(reference, bytes, values);
		column_types(reference->parent, key->referenced, key->n, types);
	}
	else
		column_types(reference->child, key->columns, key->n, types);
	described = describe(key->child, key->columns, key->n, bytes.data != NULL ? values : child_values,
						 types);
	ereport(ERROR,
			(errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
			 errmsg("insert or update on table \"%s\" violates foreign key constraint \"%s\"",
					RelationGetRelationName(child), NameStr(key->name)),
			 described != NULL
			 ? errdetail("%s is not present in table \"%s\".", described, parent)
			 : errdetail("Key is not present in table \"%s\".", parent),
			 errtableconstraint(child, NameStr(key->name))));
}

void
mosql_reference_report_mixed(MosqlReference *reference)
{
	Relation	child = table_open(reference->key.child, AccessShareLock);

	ereport(ERROR,
			(errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
			 errmsg("insert or update on table \"%s\" violates foreign key constraint \"%s\"",
					RelationGetRelationName(child), NameStr(reference->key.name)),
			 errdetail("MATCH FULL does not allow mixing of null and nonnull key values."),
			 errtableconstraint(child, NameStr(reference->key.name))));
}

void
mosql_reference_report_parent(MosqlReference *reference, MosqlBytes bytes, MosqlBytes found,
							  bool restricted)
{
	const MosqlForeignKey *key = &reference->key;
	Relation	child = table_open(key->child, AccessShareLock);
	const char *parent = get_rel_name(key->parent);
	Datum		values[INDEX_MAX_KEYS] = {0};
	Oid			types[INDEX_MAX_KEYS];
	char	   *described;

	mosql_reference_check_definitions(reference);
	mosql_txn_blame(reference->txn, InvalidCommandId,
					(reference->source ? reference->source : reference->child)->tree, found);
	mosql_reference_values(reference, bytes, values);
	column_types(reference->parent, key->referenced, key->n, types);
	described = describe(key->parent, key->referenced, key->n, values, types);
#if PG_VERSION_NUM >= 180000
	if (restricted)
		ereport(ERROR,
				(errcode(ERRCODE_RESTRICT_VIOLATION),
				 errmsg("update or delete on table \"%s\" violates RESTRICT setting of foreign key constraint \"%s\" on table \"%s\"",
						parent, NameStr(key->name), RelationGetRelationName(child)),
				 described != NULL
				 ? errdetail("%s is referenced from table \"%s\".", described,
							 RelationGetRelationName(child))
				 : errdetail("Key is referenced from table \"%s\".",
							 RelationGetRelationName(child)),
				 errtableconstraint(child, NameStr(key->name))));
#else
	(void) restricted;
#endif
	ereport(ERROR,
			(errcode(ERRCODE_FOREIGN_KEY_VIOLATION),
			 errmsg("update or delete on table \"%s\" violates foreign key constraint \"%s\" on table \"%s\"",
					parent, NameStr(key->name), RelationGetRelationName(child)),
			 described != NULL
			 ? errdetail("%s is still referenced from table \"%s\".", described,
						 RelationGetRelationName(child))
			 : errdetail("Key is still referenced from table \"%s\".",
						 RelationGetRelationName(child)),
			 errtableconstraint(child, NameStr(key->name))));
}
