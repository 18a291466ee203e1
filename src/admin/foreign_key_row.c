/*
 * foreign_key_row.c: a foreign key as the catalogs have it.
 *
 * Layer: admin.  A row of pg_constraint, made as ALTER TABLE makes it, and a trigger.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "admin/foreign_key.h"

bool
mosql_admin_take_unique_index(MosqlLocalForeignKey *key, Oid indexid, bool primary)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexid));
	Form_pg_index index;
	oidvector  *classes;
	bool		isnull;
	bool		fits;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	index = (Form_pg_index) GETSTRUCT(tuple);
	classes = (oidvector *) DatumGetPointer(SysCacheGetAttr(INDEXRELID, tuple,
															Anum_pg_index_indclass, &isnull));
	fits = index->indisunique && index->indimmediate && index->indisvalid &&
		heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
		heap_attisnull(tuple, Anum_pg_index_indexprs, NULL);
	if (fits && primary)
	{
		fits = index->indisprimary;
		key->nreferenced = index->indnkeyatts;
		for (int i = 0; i < index->indnkeyatts; i++)
			key->referenced[i] = index->indkey.values[i];
	}
	fits = fits && index->indnkeyatts == key->nreferenced;
	for (int i = 0; fits && i < key->nreferenced; i++)
	{
		fits = false;
		for (int j = 0; j < index->indnkeyatts; j++)
			if (index->indkey.values[j] == key->referenced[i])
			{
				key->classes[i] = classes->values[j];
				fits = true;
			}
	}
	ReleaseSysCache(tuple);
	if (fits)
		key->index = indexid;
	return fits;
}

bool
mosql_admin_find_key_operators(MosqlLocalForeignKey *key, Relation rel, Relation referenced, const char *name)
{
	for (int i = 0; i < key->n; i++)
	{
		Oid			family = get_opclass_family(key->classes[i]);
		Oid			input = get_opclass_input_type(key->classes[i]);
		Oid			mine = getBaseType(get_atttype(RelationGetRelid(rel), key->columns[i]));

		key->pp[i] = get_opfamily_member(family, input, input, BTEqualStrategyNumber);
		key->pf[i] = get_opfamily_member(family, input, mine, BTEqualStrategyNumber);
		key->ff[i] = get_opfamily_member(family, mine, mine, BTEqualStrategyNumber);
		if (OidIsValid(key->pf[i]) && OidIsValid(key->ff[i]))
			continue;
		if (!can_coerce_type(1, &mine, &input, COERCION_IMPLICIT) && name == NULL)
			return false;
		if (!can_coerce_type(1, &mine, &input, COERCION_IMPLICIT))
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("foreign key constraint \"%s\" cannot be implemented", name),
					 errdetail("Key columns \"%s\" and \"%s\" are of incompatible types: %s and %s.",
							   get_attname(RelationGetRelid(rel), key->columns[i], false),
							   get_attname(RelationGetRelid(referenced), key->referenced[i], false),
							   format_type_be(mine),
							   format_type_be(get_atttype(RelationGetRelid(referenced),
														  key->referenced[i])))));
		key->pf[i] = key->ff[i] = key->pp[i];
	}
	return true;
}

PG_FUNCTION_INFO_V1(mosql_fdw_reference);

/*
 * Core looks for foreign keys only where a table has triggers: psql, pg_dump, TRUNCATE;
 * and ANALYZE finds out when it has none.  So both tables have one that goes with the
 * constraint, of the kind that costs least: once per DELETE, where it does nothing.
 */
static void
add_trigger(Relation rel, Oid constraint)
{
	CreateTrigStmt *trigger = makeNode(CreateTrigStmt);
	Oid			function = mosql_fdw_function("mosql_fdw_reference", 0, NULL);

	if (!OidIsValid(function))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function mosql_fdw_reference() does not exist"),
				 errhint("Update the extension mosql_fdw.")));
	trigger->trigname = "mosql_reference";
	trigger->timing = TRIGGER_TYPE_AFTER;
	trigger->events = TRIGGER_TYPE_DELETE;
	(void) CreateTrigger(trigger, NULL, RelationGetRelid(rel), InvalidOid, constraint, InvalidOid,
						 function, InvalidOid, NULL, true, false);
	CommandCounterIncrement();
}

Datum
mosql_fdw_reference(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("mosql_fdw_reference() can only be called as a trigger")));
	PG_RETURN_POINTER(NULL);
}

Oid
mosql_admin_create_foreign_key(Relation rel, Relation referenced, const MosqlLocalForeignKey *key)
{
	Oid			oid = CreateConstraintEntry(key->name, RelationGetNamespace(rel), CONSTRAINT_FOREIGN,
											key->deferrable, key->deferred,
#if PG_VERSION_NUM >= 180000
											!key->unenforced,
#endif
											key->validated, InvalidOid, RelationGetRelid(rel),
											key->columns, key->n, key->n, InvalidOid, key->index,
											RelationGetRelid(referenced), key->referenced, key->pf,
											key->pp, key->ff, key->n, key->on_update,
											key->on_delete, key->set, key->nset, key->match,
											NULL, NULL, NULL, true, 0, true,
#if PG_VERSION_NUM >= 180000
											false,	/* PERIOD */
#endif
											false);

	CommandCounterIncrement();
	add_trigger(rel, oid);
	if (referenced->rd_rel->relkind == RELKIND_FOREIGN_TABLE &&
		RelationGetRelid(referenced) != RelationGetRelid(rel))
		add_trigger(referenced, oid);
	return oid;
}

bool
mosql_admin_leads_as(Oid oid, const MosqlLocalForeignKey *key, Oid parent)
{
	MosqlForeignKey local;

	return mosql_foreign_key_find(oid, &local) && local.parent == parent &&
		local.match == key->match && local.on_update == key->on_update &&
		local.on_delete == key->on_delete && local.n == key->n && local.nset == key->nset &&
		memcmp(local.columns, key->columns, key->n * sizeof(int16)) == 0 &&
		memcmp(local.referenced, key->referenced, key->n * sizeof(int16)) == 0 &&
		memcmp(local.set, key->set, key->nset * sizeof(int16)) == 0;
}

bool
mosql_admin_is_foreign_key(Oid oid, const MosqlLocalForeignKey *key, Oid parent)
{
	MosqlForeignKey local;

	return mosql_admin_leads_as(oid, key, parent) && mosql_foreign_key_find(oid, &local) &&
		local.deferrable == key->deferrable && local.deferred == key->deferred;
}
