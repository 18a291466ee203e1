/*
 * partition.c: partitions of ours below tables that have unique indexes.
 *
 * Layer: admin.  A partitioned table is PostgreSQL's own, and so are the rows in pg_index of its indexes.  Core attaches
 * no foreign table where one of them is unique, as a foreign table cannot have its part of that index.  Ours can: the
 * partition has an index, or a key, of the same columns, made now if it lacks, and pg_inherits leads from it to the parent's.
 * That is all that core asks for later: ON CONFLICT finds the partition's index by it, DETACH takes it away, and nobody
 * drops the one without the other.
 *
 * Core looks at the indexes in the middle of ATTACH PARTITION.  So it is run here, while the parent's indexes say that
 * they are not unique: seen by nobody else, since all of it is one command of one transaction.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "nodes/makefuncs.h"
#include "parser/parse_utilcmd.h"
#include "partitioning/partdesc.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "admin/utility.h"

/* What is changed of a row of pg_index. */
typedef enum IndexFlag
{
	UNIQUE_FLAG,
	PRIMARY_FLAG,
	VALID_FLAG
} IndexFlag;

static void
set_flag(Oid indexid, IndexFlag flag, bool value)
{
	Relation	pg_index = table_open(IndexRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(INDEXRELID, ObjectIdGetDatum(indexid));
	Form_pg_index form;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	form = (Form_pg_index) GETSTRUCT(tuple);
	*(flag == UNIQUE_FLAG ? &form->indisunique
	  : flag == PRIMARY_FLAG ? &form->indisprimary : &form->indisvalid) = value;
	CatalogTupleUpdate(pg_index, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(pg_index, RowExclusiveLock);
	CommandCounterIncrement();
}

/* The unique indexes of a partitioned table. */
static List *
unique_indexes(Relation rel)
{
	List	   *unique = NIL;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(rel))
	{
		Relation	index = relation_open(lfirst_oid(lc), AccessShareLock);

		if (index->rd_index->indisunique)
			unique = lappend_oid(unique, lfirst_oid(lc));
		relation_close(index, NoLock);
	}
	return unique;
}

/* ---- the parent's index and the partition's ---- */

/* Is this index of the partition what the parent's is, but for the access method?  Core's own question. */
static bool
is_same(Relation partition, Relation mine, Relation parent, Relation theirs)
{
	AttrMap    *map = mosql_fdw_columns_of_partition(partition, parent);
	Oid			constraint = get_relation_idx_constraint_oid(RelationGetRelid(parent), RelationGetRelid(theirs));
	Oid			own = get_relation_idx_constraint_oid(RelationGetRelid(partition), RelationGetRelid(mine));
	MosqlIdentity before;
	IndexInfo  *info;
	IndexInfo  *wanted;
	bool		same;

	/* expressions are folded, which may call functions of the owner */
	mosql_identity_take(parent->rd_rel->relowner, &before);
	info = BuildIndexInfo(mine);
	wanted = BuildIndexInfo(theirs);
	info->ii_Am = wanted->ii_Am;
	same = mine->rd_index->indisprimary == theirs->rd_index->indisprimary &&
		OidIsValid(constraint) == OidIsValid(own) &&
		CompareIndexInfo(info, wanted, mine->rd_indcollation, theirs->rd_indcollation,
						 mine->rd_opfamily, theirs->rd_opfamily, map);
	mosql_identity_give_back(&before);
	return same;
}

/* The partition's index that is, or may become, the parent's there; InvalidOid: there is none. */
static Oid
find_same(Relation partition, Relation parent, Oid indexid)
{
	Relation	theirs = relation_open(indexid, AccessShareLock);
	Oid			found = InvalidOid;
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(partition))
	{
		Relation	mine = relation_open(lfirst_oid(lc), AccessShareLock);

		if (mine->rd_rel->relispartition
			? get_partition_parent(lfirst_oid(lc), false) == indexid
			: !OidIsValid(found) && mosql_admin_is_our_index(lfirst_oid(lc)) &&
			is_same(partition, mine, parent, theirs))
			found = lfirst_oid(lc);
		relation_close(mine, NoLock);
	}
	relation_close(theirs, NoLock);
	return found;
}

static void
link_index(Relation partition, Oid mine, Relation parent, Oid theirs)
{
	Relation	index = relation_open(mine, AccessExclusiveLock);
	Oid			constraint = get_relation_idx_constraint_oid(RelationGetRelid(parent), theirs);
	bool		linked = index->rd_rel->relispartition;

	if (!linked)
		IndexSetParentIndex(index, theirs);
	relation_close(index, NoLock);
	if (!linked && OidIsValid(constraint))
		ConstraintSetParentConstraint(get_relation_idx_constraint_oid(RelationGetRelid(partition), mine),
									  constraint, RelationGetRelid(partition));
	CommandCounterIncrement();
}

/* Before an index goes that its table is to have again. */
void
mosql_admin_unlink_index(Oid indexid)
{
	Relation	index;
	Oid			constraint;

	if (!get_rel_relispartition(indexid))
		return;
	index = relation_open(indexid, AccessExclusiveLock);
	constraint = get_relation_idx_constraint_oid(index->rd_index->indrelid, indexid);
	IndexSetParentIndex(index, InvalidOid);
	relation_close(index, NoLock);
	if (OidIsValid(constraint))
		ConstraintSetParentConstraint(constraint, InvalidOid, InvalidOid);
	CommandCounterIncrement();
}

/* Its indexes that are those of the table above it, which lost them or has new ones, become that. */
void
mosql_admin_link_indexes(Relation partition)
{
	Relation	parent;
	ListCell   *lc;

	if (!partition->rd_rel->relispartition)
		return;
	parent = relation_open(get_partition_parent(RelationGetRelid(partition), true), AccessShareLock);
	foreach(lc, unique_indexes(parent))
	{
		Oid			mine = find_same(partition, parent, lfirst_oid(lc));

		if (OidIsValid(mine))
			link_index(partition, mine, parent, lfirst_oid(lc));
	}
	relation_close(parent, NoLock);
}

/* ---- ATTACH PARTITION ---- */

/* The partition gets an index, or a key, as the parent has it. */
static void
make_same(Oid relid, Oid parentid, Oid indexid)
{
	Relation	partition = relation_open(relid, AccessExclusiveLock);
	Relation	parent = relation_open(parentid, AccessShareLock);
	Relation	index = relation_open(indexid, AccessShareLock);
	RangeVar   *name = makeRangeVar(get_namespace_name(RelationGetNamespace(partition)),
									pstrdup(RelationGetRelationName(partition)), -1);
	IndexStmt  *statement = generateClonedIndexStmt(name, index, mosql_fdw_columns_of_partition(partition, parent), NULL);

	relation_close(index, NoLock);
	relation_close(parent, NoLock);
	relation_close(partition, NoLock);
	if (statement->primary)
		mosql_admin_add_primary_key(relid, statement);
	else
		(void) mosql_admin_create_index(statement);
	CommandCounterIncrement();
}

/* As core does what it can of it. */
static void
attach(const AlterTableStmt *alter)
{
	PlannedStmt *pstmt = makeNode(PlannedStmt);

	pstmt->commandType = CMD_UTILITY;
	pstmt->utilityStmt = (Node *) copyObject(unconstify(AlterTableStmt *, alter));
	pstmt->stmt_location = -1;
	ProcessUtility(pstmt, "ALTER TABLE ... ATTACH PARTITION", false, PROCESS_UTILITY_SUBCOMMAND, NULL, NULL,
				   None_Receiver, NULL);
	CommandCounterIncrement();
}

static void
attach_beside(const AlterTableStmt *alter, Oid parentid, Oid relid, const List *unique, Oid primary)
{
	Relation	partition;
	Relation	parent;
	ListCell   *lc;

	foreach(lc, unique)
	{
		Oid			found;

		partition = relation_open(relid, AccessExclusiveLock);
		parent = relation_open(parentid, AccessShareLock);
		found = find_same(partition, parent, lfirst_oid(lc));
		relation_close(parent, NoLock);
		relation_close(partition, NoLock);
		if (!OidIsValid(found))
			make_same(relid, parentid, lfirst_oid(lc));
	}
	foreach(lc, unique)
		set_flag(lfirst_oid(lc), UNIQUE_FLAG, false);
	if (OidIsValid(primary))
		set_flag(primary, PRIMARY_FLAG, false);
	attach(alter);
	if (OidIsValid(primary))
		set_flag(primary, PRIMARY_FLAG, true);
	foreach(lc, unique)
		set_flag(lfirst_oid(lc), UNIQUE_FLAG, true);
	partition = relation_open(relid, NoLock);
	mosql_admin_link_indexes(partition);
	relation_close(partition, NoLock);
	mosql_admin_validate_attach(alter);
}

/* Core would look for a part of each foreign key that leads to the parent, with triggers, which a foreign table has not. */
static void
check_not_referenced(Relation parent)
{
	Relation	catalog = table_open(ConstraintRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_constraint_confrelid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationGetRelid(parent)));
	scan = systable_beginscan(catalog, InvalidOid, false, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot attach a foreign table as a partition of \"%s\", which foreign keys reference",
						RelationGetRelationName(parent)),
				 errdetail("Foreign key \"%s\" of table \"%s\" is enforced by triggers, which foreign tables do not have.",
						   NameStr(((Form_pg_constraint) GETSTRUCT(tuple))->conname),
						   get_rel_name(((Form_pg_constraint) GETSTRUCT(tuple))->conrelid)),
				 errhint("Reference a table that is no partitioned one.")));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
}

/* Both must be there, and the user's own, before their indexes are touched.  False: it is core's. */
static bool
attach_table(const AlterTableStmt *alter, Oid parentid, Oid relid)
{
	Relation	parent;
	List	   *unique;
	Oid			primary;

	if (!mosql_fdw_is_ours(relid) || get_rel_relkind(parentid) != RELKIND_PARTITIONED_TABLE ||
		get_rel_relispartition(relid))
		return false;
	mosql_admin_check_owner(relid);
	parent = mosql_admin_lock_owned(parentid, ShareUpdateExclusiveLock, "ALTER TABLE");
	check_not_referenced(parent);
	unique = unique_indexes(parent);
	primary = mosql_fdw_primary_key(parent);
	relation_close(parent, NoLock);
	if (unique == NIL)
		return false;
	attach_beside(alter, parentid, relid, unique, primary);
	return true;
}

/* ---- ALTER INDEX ... ATTACH PARTITION, as pg_dump writes it ---- */

/* An index of a partitioned table is valid when all partitions have theirs; and perhaps so the one above it then. */
static void
complete_index(Oid indexid)
{
	Relation	index = relation_open(indexid, AccessShareLock);
	Relation	parent = relation_open(index->rd_index->indrelid, AccessShareLock);
	bool		valid = index->rd_index->indisvalid;
	bool		linked = index->rd_rel->relispartition;
	int			n = 0;
	ListCell   *lc;

	foreach(lc, find_inheritance_children(indexid, AccessShareLock))
	{
		HeapTuple	tuple = SearchSysCache1(INDEXRELID, lfirst_oid(lc));

		n += HeapTupleIsValid(tuple) && ((Form_pg_index) GETSTRUCT(tuple))->indisvalid;
		ReleaseSysCache(tuple);
	}
	valid |= n < RelationGetPartitionDesc(parent, true)->nparts;
	relation_close(parent, NoLock);
	relation_close(index, NoLock);
	if (valid)
		return;
	set_flag(indexid, VALID_FLAG, true);
	if (linked)
		complete_index(get_partition_parent(indexid, false));
}

/* False: it is core's, which says what is wrong. */
static bool
attach_index(Oid parentid, Oid indexid)
{
	Oid			tables[2] = {IndexGetRelation(indexid, false), IndexGetRelation(parentid, false)};
	Relation	parent;
	Relation	partition;
	bool		same;

	if (!mosql_admin_is_our_index(indexid) || !get_rel_relispartition(tables[0]) ||
		get_partition_parent(tables[0], true) != tables[1])
		return false;
	mosql_admin_check_owner(tables[0]);
	mosql_admin_check_owner(tables[1]);
	parent = relation_open(tables[1], ShareUpdateExclusiveLock);
	partition = relation_open(tables[0], AccessExclusiveLock);
	same = find_same(partition, parent, parentid) == indexid;
	if (same)
		link_index(partition, indexid, parent, parentid);
	relation_close(partition, NoLock);
	relation_close(parent, NoLock);
	if (same)
		complete_index(parentid);
	return same;
}

/* ---- DROP CONSTRAINT of the parent's primary key ---- */

/*
 * In the catalogs the partitions' keys go with it.  Those of ours say where rows are, and go by a command of their own.
 * Before that they are the partitions' own keys.
 */
static void
drop_below(Oid indexid)
{
	ListCell   *lc;

	foreach(lc, find_inheritance_children(indexid, AccessExclusiveLock))
	{
		Oid			relid = IndexGetRelation(lfirst_oid(lc), false);

		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_PARTITIONED_INDEX)
			drop_below(lfirst_oid(lc));
		else if (mosql_admin_is_our_index(lfirst_oid(lc)))
		{
			mosql_admin_unlink_index(lfirst_oid(lc));
			mosql_admin_run_sql(psprintf("ALTER FOREIGN TABLE %s DROP CONSTRAINT %s",
										 quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
																	get_rel_name(relid)),
										 quote_identifier(get_rel_name(lfirst_oid(lc)))));
		}
	}
}

void
mosql_admin_drop_partition_keys(const AlterTableStmt *alter)
{
	Oid			relid = RangeVarGetRelid(alter->relation, NoLock, true);
	Relation	rel;
	Oid			primary;

	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return;
	rel = relation_open(relid, AccessShareLock);
	primary = mosql_fdw_primary_key(rel);
	relation_close(rel, AccessShareLock);
	if (!OidIsValid(primary) || !mosql_admin_drops_constraint(alter, get_rel_name(primary)))
		return;
	relation_close(mosql_admin_lock_owned(relid, AccessExclusiveLock, "ALTER TABLE"), NoLock);
	drop_below(primary);
}

/* ---- the command ---- */

bool
mosql_admin_attach_partition(AlterTableStmt *alter)
{
	const AlterTableCmd *command = alter->cmds == NIL ? NULL : linitial_node(AlterTableCmd, alter->cmds);
	Oid			parentid;
	Oid			childid;
	bool		done;

	if (command == NULL || command->subtype != AT_AttachPartition)
		return false;
	parentid = RangeVarGetRelid(alter->relation, NoLock, true);
	childid = RangeVarGetRelid(castNode(PartitionCmd, command->def)->name, NoLock, true);
	if (!OidIsValid(parentid) || !OidIsValid(childid))
		return false;
	if ((alter->objtype == OBJECT_INDEX) != (get_rel_relkind(parentid) == RELKIND_PARTITIONED_INDEX))
		return false;			/* core says what is wrong */
	done = alter->objtype == OBJECT_INDEX
		? get_rel_relkind(childid) == RELKIND_INDEX && attach_index(parentid, childid)
		: attach_table(alter, parentid, childid);
	if (done)
		alter->cmds = NIL;
	return done;
}
