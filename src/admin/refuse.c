/*
 * refuse.c: what core refuses of foreign tables, with a hint.
 *
 * Layer: admin.  Core says that an action "is not supported for foreign tables", which
 * helps nobody who wrote CREATE TABLE.  So it is refused before core sees it, from the
 * ddl_command_start trigger, with the way that works.  docs/ddl.md has all clauses.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_trigger.h"
#include "utils/rel.h"

#include "admin/utility.h"

static bool
is_ours(const RangeVar *name)
{
	Oid			relid = name == NULL ? InvalidOid : RangeVarGetRelid(name, NoLock, true);

	return OidIsValid(relid) && mosql_fdw_is_ours(relid);
}

static bool
is_unique(Oid indexid)
{
	Relation	index = relation_open(indexid, AccessShareLock);
	bool		unique = index->rd_index->indisunique;

	relation_close(index, NoLock);
	return unique;
}

static void
refuse_action(const AlterTableCmd *command)
{
	switch (command->subtype)
	{
		case AT_ForceRowSecurity:
			mosql_admin_refuse("FORCE ROW LEVEL SECURITY",
							   "Without policies it would hide all rows from the owner, too.");
			break;
		case AT_EnableRule:
		case AT_EnableAlwaysRule:
		case AT_EnableReplicaRule:
		case AT_DisableRule:
			mosql_admin_refuse("a rule", "Use a trigger, or a rule on a view.");
			break;
		case AT_ReplicaIdentity:
			mosql_admin_refuse("REPLICA IDENTITY",
							   "Rows are not replicated: other servers see them in Redis.");
			break;
		case AT_AddOf:
		case AT_DropOf:
			mosql_admin_refuse("a table of a type", "Use a table with the columns.");
			break;
		case AT_SetAccessMethod:
			mosql_admin_refuse("SET ACCESS METHOD",
							   "For a local table use CREATE TABLE ... USING heap, and INSERT ... SELECT.");
			break;
		case AT_AddConstraint:
			if (IsA(command->def, Constraint) &&
				((Constraint *) command->def)->contype == CONSTR_EXCLUSION)
				mosql_admin_refuse("an exclusion constraint", "Only uniqueness can be enforced.");
			break;
		default:
			break;
	}
}

/* Partitions of a table with a unique index are PostgreSQL's own: core says so without a hint. */
static void
refuse_partition(const RangeVar *parent, const PartitionCmd *command)
{
	Relation	rel = try_relation_open(RangeVarGetRelid(parent, NoLock, true), AccessShareLock);
	bool		unique = false;
	ListCell   *lc;

	if (rel == NULL)
		return;
	foreach(lc, rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? RelationGetIndexList(rel) : NIL)
		unique |= is_unique(lfirst_oid(lc));
	relation_close(rel, NoLock);
	if (unique)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot attach foreign table \"%s\" as partition of partitioned table \"%s\"",
						command->name->relname, parent->relname),
				 errdetail("Partitioned table \"%s\" contains unique indexes.", parent->relname),
				 errhint("Make it with CREATE TABLE ... USING heap, or after SET default_table_access_method = heap.")));
}

static void
refuse_trigger(const CreateTrigStmt *create)
{
	if (create->isconstraint)
		mosql_admin_refuse("a constraint trigger",
						   "Use CREATE TRIGGER ... AFTER: it runs when the statement ends.");
	if ((create->events & TRIGGER_TYPE_TRUNCATE) != 0)
		mosql_admin_refuse("a TRUNCATE trigger",
						   "REVOKE TRUNCATE, and use a trigger on DELETE ... FOR EACH STATEMENT.");
	if (create->transitionRels != NIL)
		mosql_admin_refuse("a transition table", "Use a trigger FOR EACH ROW.");
}

static void
refuse_of_table(const RangeVar *table, const AlterTableCmd *command)
{
	if (is_ours(table))
		refuse_action(command);
	else if (command->subtype == AT_AttachPartition && is_ours(((PartitionCmd *) command->def)->name))
		refuse_partition(table, (PartitionCmd *) command->def);
}

/* One of our tables among those of a publication. */
static void
refuse_published(const List *objects)
{
	ListCell   *lc;

	foreach(lc, objects)
	{
		const PublicationObjSpec *object = lfirst_node(PublicationObjSpec, lc);

		if (object->pubobjtype == PUBLICATIONOBJ_TABLE && is_ours(object->pubtable->relation))
			mosql_admin_refuse("a publication",
							   "Other servers see the rows in Redis: use IMPORT FOREIGN SCHEMA there.");
	}
}

void
mosql_admin_refuse_unsupported(const Node *tree)
{
	ListCell   *lc;

	switch (nodeTag(tree))
	{
		case T_AlterTableStmt:
			foreach(lc, ((const AlterTableStmt *) tree)->cmds)
				refuse_of_table(((const AlterTableStmt *) tree)->relation, lfirst_node(AlterTableCmd, lc));
			break;
		case T_RuleStmt:
			if (is_ours(((const RuleStmt *) tree)->relation))
				mosql_admin_refuse("a rule", "Use a trigger, or a rule on a view.");
			break;
		case T_CreatePolicyStmt:
			if (is_ours(((const CreatePolicyStmt *) tree)->table))
				mosql_admin_refuse("a policy",
								   "ENABLE ROW LEVEL SECURITY without policies hides all rows from others than the owner: grant privileges on a view with security_barrier.");
			break;
		case T_CreateTrigStmt:
			if (is_ours(((const CreateTrigStmt *) tree)->relation))
				refuse_trigger((const CreateTrigStmt *) tree);
			break;
		case T_CreatePublicationStmt:
			refuse_published(((const CreatePublicationStmt *) tree)->pubobjects);
			break;
		case T_AlterPublicationStmt:
			refuse_published(((const AlterPublicationStmt *) tree)->pubobjects);
			break;
		default:
			break;
	}
}
