/*
 * refuse.c: what core refuses of foreign tables, with a hint.
 *
 * Layer: admin.  Core says that an action "is not supported for foreign tables", which
 * helps nobody who wrote CREATE TABLE.  So it is refused before core sees it, from the
 * ddl_command_start trigger, with the way that works.  docs/ddl.md has all clauses.
 */
#include "postgres.h"

#include "catalog/namespace.h"

#include "admin/utility.h"

static bool
is_ours(const RangeVar *name)
{
	Oid			relid = name == NULL ? InvalidOid : RangeVarGetRelid(name, NoLock, true);

	return OidIsValid(relid) && mosql_fdw_is_ours(relid);
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
		default:
			break;
	}
}

static void
refuse_trigger(const CreateTrigStmt *create)
{
	if (create->isconstraint)
		mosql_admin_refuse("a constraint trigger",
						   "Use CREATE TRIGGER ... AFTER: it runs when the statement ends.");
	if (create->transitionRels != NIL)
		mosql_admin_refuse("a transition table", "Use a trigger FOR EACH ROW.");
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
			if (is_ours(((const AlterTableStmt *) tree)->relation))
				foreach(lc, ((const AlterTableStmt *) tree)->cmds)
					refuse_action(lfirst_node(AlterTableCmd, lc));
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
