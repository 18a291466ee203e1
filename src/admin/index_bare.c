/*
 * index_bare.c: indexes of gin, gist, brin and other access methods than ours: bare rows of the catalogs.
 *
 * Layer: admin.  Applications make such indexes for speed alone: no result depends on one, since none is
 * unique (exclusion constraints are refused elsewhere).  An installer that says CREATE INDEX … USING gin shall
 * go on, and tools shall find, rename, dump and drop what it made.  So the index is in pg_class and pg_index
 * of this server.  Redis and other servers know nothing of it.
 *
 * No code of an access method may see it, as a foreign table has none of a table's (the planner itself would
 * follow a null pointer for an index that has bitmap scans).  So it is of the kind of a
 * partitioned table's, with no partitions: that has no file, and REINDEX finds nothing beneath it.  It is not ready
 * for inserts, so that ANALYZE does not open it; nor valid, so that the planner passes it over: since PostgreSQL 16 it
 * would fold constants in its expressions, with functions of the owner's, as whoever queries.  All of that holds in
 * sessions, too, that have not loaded this library; queries of the catalogs see neither (present.c).
 *
 * Another type of a column would make core build it again, which it refuses for foreign tables: it goes
 * before, and comes back when the command has ended (index_again.c).
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/reloptions.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "commands/defrem.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_utilcmd.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "admin/utility.h"

bool
mosql_admin_is_bare_method(const char *method)
{
	return strcmp(method, "btree") != 0 && strcmp(method, "mosql") != 0 && strcmp(method, "hash") != 0;
}

bool
mosql_admin_is_bare_index(Oid indexid)
{
	Oid			relid;

	if (get_rel_relkind(indexid) != RELKIND_PARTITIONED_INDEX)
		return false;
	relid = IndexGetRelation(indexid, true);
	return OidIsValid(relid) && mosql_fdw_is_ours(relid);
}

/* ---- CREATE INDEX ---- */

/* As core says it. */
static void
refuse_unless(bool able, const char *method, const char *what)
{
	if (!able)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" does not support %s", method, what)));
}

static void
check_abilities(const IndexStmt *statement, const IndexAmRoutine *am)
{
	const char *method = statement->accessMethod;
	ListCell   *lc;

	refuse_unless(am->amcanunique || !statement->unique, method, "unique indexes");
	refuse_unless(am->amcaninclude || statement->indexIncludingParams == NIL, method, "included columns");
	refuse_unless(am->amcanmulticol || list_length(statement->indexParams) == 1, method, "multicolumn indexes");
	foreach(lc, statement->indexParams)
	{
		const IndexElem *element = lfirst_node(IndexElem, lc);

		refuse_unless(am->amcanorder || element->ordering == SORTBY_DEFAULT, method, "ASC/DESC options");
		refuse_unless(am->amcanorder || element->nulls_ordering == SORTBY_NULLS_DEFAULT, method,
					  "NULLS FIRST/LAST options");
	}
	if (statement->unique)		/* none of PostgreSQL's own could, but is left here */
		mosql_admin_refuse(psprintf("a unique index USING %s", method), "Leave USING away.");
}

/* What index_create() wants of each column. */
typedef struct Columns
{
	MosqlLocalIndex index;
	Oid			collations[INDEX_MAX_KEYS];
	Oid			classes[INDEX_MAX_KEYS];
	Datum		class_options[INDEX_MAX_KEYS];
	bool		any_class_options;
} Columns;

static Oid
element_collation(const IndexElem *element, Oid type, Oid own)
{
	Oid			collation = element->collation != NIL ? get_collation_oid(element->collation, false) : own;

	if (!type_is_collatable(type) && element->collation != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("collations are not supported by type %s", format_type_be(type))));
	return type_is_collatable(type) ? collation : InvalidOid;
}

static void
take_element(Relation rel, const IndexStmt *statement, const IndexElem *element, Columns *columns)
{
	int			i = columns->index.nkeys;
	Oid			type;
	Oid			collation;

	if (element->expr == NULL)
	{
		Form_pg_attribute att;

		mosql_admin_add_index_column(rel, &columns->index, element->name);
		att = TupleDescAttr(RelationGetDescr(rel), columns->index.attnums[i] - 1);
		type = att->atttypid;
		collation = att->attcollation;
	}
	else
	{
		mosql_admin_check_immutable(rel, element->expr, "expression");
		columns->index.expressions[i] = element->expr;
		columns->index.names[i] = element->indexcolname;
		type = exprType(element->expr);
		collation = exprCollation(element->expr);
	}
	columns->collations[i] = element_collation(element, type, collation);
	columns->classes[i] = ResolveOpClass(element->opclass, type, statement->accessMethod,
										 get_index_am_oid(statement->accessMethod, false));
	if (element->opclassopts != NIL)
	{
		columns->class_options[i] = transformRelOptions((Datum) 0, element->opclassopts, NULL, NULL, false, false);
		columns->any_class_options = true;
	}
	columns->index.nkeys++;
}

/* As core describes it; core has operator class options beside it since 17. */
static IndexInfo *
describe_index(Columns *columns, Oid method, const IndexAmRoutine *am)
{
	bool		summarizing = false;
	IndexInfo  *info;

#if PG_VERSION_NUM >= 160000
	summarizing = am->amsummarizing;
#endif
	info = mosql_admin_index_info(&columns->index, method, summarizing);
#if PG_VERSION_NUM < 170000
	if (columns->any_class_options)
		info->ii_OpclassOptions = columns->class_options;
#endif
	return info;
}

static void
make_idle(Oid indexid)
{
	Relation	catalog = table_open(IndexRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(INDEXRELID, ObjectIdGetDatum(indexid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	((Form_pg_index) GETSTRUCT(tuple))->indisready = false;
	((Form_pg_index) GETSTRUCT(tuple))->indisvalid = false;
	CatalogTupleUpdate(catalog, &tuple->t_self, tuple);
	table_close(catalog, RowExclusiveLock);
	CommandCounterIncrement();
}

static Oid
create_rows(Relation rel, const IndexStmt *statement, Columns *columns)
{
	MosqlLocalIndex *index = &columns->index;
	Oid			method = get_index_am_oid(statement->accessMethod, false);
	IndexAmRoutine *am = GetIndexAmRoutineByAmId(method, false);
	Datum		options = transformRelOptions((Datum) 0, statement->options, NULL, NULL, false, false);
	int16		no_order[INDEX_MAX_KEYS] = {0};
	Oid			indexid;

	(void) index_reloptions(am->amoptions, options, true);
	indexid = index_create(rel, index->name, InvalidOid, InvalidOid, InvalidOid, InvalidOid,
						   describe_index(columns, method, am),
						   mosql_admin_index_column_names(rel, index, index->nkeys + index->nincluded), method,
						   InvalidOid, columns->collations, columns->classes,
#if PG_VERSION_NUM >= 170000
						   columns->any_class_options ? columns->class_options : NULL,
#endif
						   no_order,
#if PG_VERSION_NUM >= 170000
						   NULL,
#endif
						   options, INDEX_CREATE_SKIP_BUILD | INDEX_CREATE_PARTITIONED, 0, false, false, NULL);
	CommandCounterIncrement();
	make_idle(indexid);
	return indexid;
}

static void
notice_once(const char *name, const char *method)
{
	static bool said = false;

	if (said)
		return;
	said = true;
	ereport(NOTICE,
			(errmsg("index \"%s\" USING %s has no entries", name, method),
			 errdetail("Indexes in Redis are ordered, as those of btree. It is in the catalogs, and searches of its kind read the whole table. This is said once per session.")));
}

/* See admin.h. */
Oid
mosql_admin_create_bare_index(Relation rel, const IndexStmt *statement)
{
	Columns		columns = {0};
	const char *method = statement->accessMethod;
	Oid			indexid;
	ListCell   *lc;

	check_abilities(statement, GetIndexAmRoutineByAmId(get_index_am_oid(method, false), false));
	foreach(lc, statement->indexParams)
		take_element(rel, statement, lfirst_node(IndexElem, lc), &columns);
	foreach(lc, statement->indexIncludingParams)
	{
		mosql_admin_add_index_column(rel, &columns.index, lfirst_node(IndexElem, lc)->name);
		columns.index.nincluded++;
	}
	if (statement->whereClause != NULL)
		mosql_admin_check_immutable(rel, statement->whereClause, "predicate");
	columns.index.predicate = statement->whereClause;
	columns.index.name = mosql_admin_choose_index_name(rel, &columns.index, statement->idxname);
	if (statement->if_not_exists && mosql_admin_skip_existing_index(rel, columns.index.name))
		return InvalidOid;
	indexid = create_rows(rel, statement, &columns);
	notice_once(columns.index.name, method);
	mosql_admin_restore_index(indexid);
	return indexid;
}

/* ---- ALTER COLUMN ... TYPE ---- */

typedef struct Restored
{
	Relation	rel;
	const char *statement;
	const char *name;
} Restored;

/* A MosqlAttempt. */
static void
restore(void *arg)
{
	Restored   *restored = arg;
	Oid			relid = RelationGetRelid(restored->rel);
	int			level = mosql_expression_settings();	/* as it was written */
	RawStmt    *raw = linitial_node(RawStmt, pg_parse_query(restored->statement));
	IndexStmt  *statement = castNode(IndexStmt, raw->stmt);

	restored->name = statement->idxname;
	(void) mosql_admin_create_bare_index(restored->rel,
										 transformIndexStmt(relid, statement, restored->statement));
	AtEOXact_GUC(true, level);
}

/*
 * Another server has changed the columns, which it could, as it knows nothing of the index: this server shall
 * be able to follow.
 */
static void
restore_if_it_fits(Restored *restored)
{
	ErrorData  *error = mosql_admin_attempt(restore, restored);
	int			class = error != NULL ? ERRCODE_TO_CATEGORY(error->sqlerrcode) : 0;

	if (error == NULL)
		return;
	if (class != ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION && class != ERRCODE_FEATURE_NOT_SUPPORTED)
		ReThrowError(error);
	ereport(NOTICE,
			(errmsg("index \"%s\" is dropped, which does not fit the columns any more", restored->name),
			 errdetail_internal("%s", error->message)));
}

/* A rolled back savepoint leaves none behind: what was taken away within it is there again. */
void
mosql_admin_restore_bare_indexes(Relation rel)
{
	ListCell   *lc;

	foreach(lc, mosql_admin_kept_bare(RelationGetRelid(rel)))
	{
		Restored	restored = {.rel = rel,.statement = lfirst(lc)};

		if (mosql_table_command->refreshing)
			restore_if_it_fits(&restored);
		else
			restore(&restored);
	}
}
