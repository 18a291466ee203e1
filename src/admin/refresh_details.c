/*
 * refresh_details.c: what mosql_fdw_refresh() makes of defaults, identity columns, CHECK
 * constraints and comments.
 *
 * Layer: admin.  These make no two tables differ (details.c), and not all of them are in
 * Redis.  So what is there becomes so here, and what another server dropped, which
 * leaves a mark there, is dropped; but what is only here stays.
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/tupdesc.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "commands/comment.h"
#include "commands/defrem.h"
#include "commands/sequence.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/admin.h"

typedef struct Refresh
{
	Relation	rel;
	const MosqlDefinition *there;
	const char *table;			/* its name in SQL */
	StringInfoData changes;		/* ", ALTER COLUMN ..." */
	List	   *first;			/* statements before and after those */
	List	   *last;
} Refresh;

/* Said of what is here and could be there, and is not. */
static void
notice_stays(const Refresh *refresh, const char *what, const char *name)
{
	ereport(NOTICE,
			(errmsg("%s \"%s\" of foreign table \"%s\" stays, which is not in Redis", what, name,
					RelationGetRelationName(refresh->rel)),
			 errhint("Set it once more, here, to bring it there, or drop it.")));
}

static bool
is_dropped(const char *text)
{
	return text != NULL && text[0] == '\0';
}

static bool
is_there(const char *text)
{
	return text != NULL && text[0] != '\0';
}

/* ---- defaults ---- */

/* The default of a column as it would be in Redis.  *any: it has one. */
static const char *
local_default(Relation rel, AttrNumber attnum, bool *any)
{
	const TupleConstr *constr = RelationGetDescr(rel)->constr;

	*any = false;
	for (int i = 0; constr != NULL && i < constr->num_defval; i++)
		if (constr->defval[i].adnum == attnum)
		{
			*any = true;
			return mosql_admin_portable_text(CStringGetTextDatum(constr->defval[i].adbin),
											 RelationGetRelid(rel));
		}
	return NULL;
}

/* Did another column, which is gone or renamed since, have the name of this one?  Then what is here may be that one's. */
static bool
is_name_of_another(const MosqlDefinition *there, const MosqlDefinitionColumn *theirs)
{
	ListCell   *cell;

	for (int i = 0; i < there->ncolumns; i++)
	{
		const MosqlDefinitionColumn *other = &there->columns[i];

		if (other == theirs)
			continue;
		if (strcmp(other->name, theirs->name) == 0)
			return true;
		foreach(cell, other->former)
			if (strcmp(lfirst(cell), theirs->name) == 0)
				return true;
	}
	return false;
}

static void
put_default(Refresh *refresh, Form_pg_attribute att, const MosqlDefinitionColumn *theirs)
{
	const char *column = quote_identifier(NameStr(att->attname));
	bool		any;
	const char *mine = local_default(refresh->rel, att->attnum, &any);

	if (is_there(theirs->expression))
	{
		if (mine == NULL || strcmp(mine, theirs->expression) != 0)
			appendStringInfo(&refresh->changes, ", ALTER COLUMN %s SET DEFAULT (%s)", column,
							 theirs->expression);
	}
	else if (mine != NULL && (is_dropped(theirs->expression) || is_name_of_another(refresh->there, theirs)))
		appendStringInfo(&refresh->changes, ", ALTER COLUMN %s DROP DEFAULT", column);
	else if (mine != NULL)
		notice_stays(refresh, "default of column", NameStr(att->attname));
}

/* PostgreSQL cannot make a column generated that is there, nor by something else. */
static void
check_generated(const Refresh *refresh, Form_pg_attribute att, const MosqlDefinitionColumn *theirs)
{
	bool		any;
	const char *mine = local_default(refresh->rel, att->attnum, &any);

	if (theirs->generated && is_there(theirs->expression) &&
		(att->attgenerated == '\0' || (mine != NULL && strcmp(mine, theirs->expression) != 0)))
		ereport(NOTICE,
				(errmsg("column \"%s\" of foreign table \"%s\" is generated otherwise in Redis",
						NameStr(att->attname), RelationGetRelationName(refresh->rel)),
				 errdetail("There it is generated as (%s).", theirs->expression),
				 errhint("With mosql_fdw.drop_data off, drop the foreign table here, and import it again.")));
}

/* ---- sequences ---- */

/* The sequence that a column owns; InvalidOid if none. */
static Oid
owned_sequence(Relation rel, AttrNumber attnum)
{
	ListCell   *cell;

	foreach(cell, getOwnedSequences(RelationGetRelid(rel)))
	{
		Oid			relid;
		AttrNumber	owner;
		bool		identity;

		if (mosql_fdw_sequence_owner(lfirst_oid(cell), &relid, &owner, &identity) && owner == attnum)
			return lfirst_oid(cell);
	}
	return InvalidOid;
}

static char *
sql_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* The sequence that a column's default draws from; InvalidOid if none. */
static Oid
drawn_sequence(Relation rel, AttrNumber attnum)
{
	const TupleConstr *constr = RelationGetDescr(rel)->constr;

	for (int i = 0; constr != NULL && i < constr->num_defval; i++)
		if (constr->defval[i].adnum == attnum)
			return mosql_admin_drawn_sequence(constr->defval[i].adbin);
	return InvalidOid;
}

/* A sequence as it is in Redis, in words for CREATE and ALTER. */
static char *
options_of(const MosqlSequence *sequence)
{
	return psprintf("INCREMENT " INT64_FORMAT " MINVALUE " INT64_FORMAT " MAXVALUE " INT64_FORMAT
					" START " INT64_FORMAT " CACHE " INT64_FORMAT " %s", sequence->increment,
					sequence->min, sequence->max, sequence->start, sequence->cache,
					sequence->cycle ? "CYCLE" : "NO CYCLE");
}

/*
 * Another server altered the sequence.  Where the local one stands means nothing, and must not be beyond the new limits,
 * nor they beyond its type.
 */
static void
put_options(Refresh *refresh, Oid seqid, const MosqlSequence *theirs)
{
	MosqlSequence mine = mosql_admin_local_sequence(seqid);

	mine.identity = theirs->identity;
	mine.always = theirs->always;
	if (!mosql_sequence_is_same(&mine, theirs))
		refresh->last = lappend(refresh->last,
								psprintf("ALTER SEQUENCE %s AS bigint %s RESTART", sql_name(seqid),
										 options_of(theirs)));
}

/* The column is to own a sequence: the one that its default draws from already, unless
 * somebody owns that, or a new one. */
static void
put_serial(Refresh *refresh, Form_pg_attribute att, const MosqlSequence *theirs)
{
	Oid			drawn = drawn_sequence(refresh->rel, att->attnum);
	Oid			owner;
	int32		owner_column;
	Oid			schema = RelationGetNamespace(refresh->rel);
	char	   *name = ChooseRelationName(RelationGetRelationName(refresh->rel), NameStr(att->attname),
										  "seq", schema, false);
	char	   *sequence = quote_qualified_identifier(get_namespace_name(schema), name);
	const char *column = quote_identifier(NameStr(att->attname));

	if (OidIsValid(drawn) && !sequenceIsOwned(drawn, DEPENDENCY_AUTO, &owner, &owner_column) &&
		get_rel_namespace(drawn) == schema)
	{
		refresh->first = lappend(refresh->first, psprintf("ALTER SEQUENCE %s OWNED BY %s.%s",
														  sql_name(drawn), refresh->table, column));
		put_options(refresh, drawn, theirs);
		return;
	}
	refresh->first = lappend(refresh->first, psprintf("CREATE SEQUENCE %s %s OWNED BY %s.%s", sequence,
													  options_of(theirs), refresh->table, column));
	appendStringInfo(&refresh->changes, ", ALTER COLUMN %s SET DEFAULT nextval(%s)", column,
					 quote_literal_cstr(sequence));
}

static void
put_identity(Refresh *refresh, Form_pg_attribute att, const MosqlDefinitionColumn *theirs)
{
	const char *column = quote_identifier(NameStr(att->attname));
	bool		any;

	(void) local_default(refresh->rel, att->attnum, &any);
	if (any)
		appendStringInfo(&refresh->changes, ", ALTER COLUMN %s DROP DEFAULT", column);
	if (!att->attnotnull)
		appendStringInfo(&refresh->changes, ", ALTER COLUMN %s SET NOT NULL", column);
	appendStringInfo(&refresh->changes, ", ALTER COLUMN %s ADD", column);
	mosql_fdw_put_identity(&refresh->changes, &theirs->sequence);
}

/* Where values come from that nobody gave. */
static void
put_source(Refresh *refresh, Form_pg_attribute att, const MosqlDefinitionColumn *theirs)
{
	const char *column = quote_identifier(NameStr(att->attname));
	bool		drawn = theirs->sequence.counter != 0;
	Oid			owned = owned_sequence(refresh->rel, att->attnum);

	if (att->attidentity != '\0')
	{
		char		wanted = theirs->sequence.always ? ATTRIBUTE_IDENTITY_ALWAYS : ATTRIBUTE_IDENTITY_BY_DEFAULT;

		if (drawn && theirs->sequence.identity && att->attidentity != wanted)
			appendStringInfo(&refresh->changes, ", ALTER COLUMN %s SET GENERATED %s", column,
							 theirs->sequence.always ? "ALWAYS" : "BY DEFAULT");
		if (!drawn || !theirs->sequence.identity)
			appendStringInfo(&refresh->changes, ", ALTER COLUMN %s DROP IDENTITY", column);
		if (drawn && !theirs->sequence.identity)
			put_serial(refresh, att, &theirs->sequence);
		else if (!drawn)
			put_default(refresh, att, theirs);
		else
			put_options(refresh, owned, &theirs->sequence);
		return;
	}
	if (OidIsValid(owned) && (!drawn || theirs->sequence.identity))
		refresh->first = lappend(refresh->first,
								 psprintf("ALTER SEQUENCE %s OWNED BY NONE", sql_name(owned)));
	if (drawn && theirs->sequence.identity)
		put_identity(refresh, att, theirs);
	else if (drawn && !OidIsValid(owned))
		put_serial(refresh, att, &theirs->sequence);
	else if (drawn)
		put_options(refresh, owned, &theirs->sequence);
	else if (OidIsValid(owned) && owned == drawn_sequence(refresh->rel, att->attnum) && !is_there(theirs->expression))
		appendStringInfo(&refresh->changes, ", ALTER COLUMN %s DROP DEFAULT", column);	/* of numbers that are gone */
	else
		put_default(refresh, att, theirs);
}

/* ---- CHECK constraints ---- */

static const MosqlDefinitionCheck *
stored_check(const MosqlDefinition *there, const char *name)
{
	for (int i = 0; i < there->nchecks; i++)
		if (strcmp(there->checks[i].name, name) == 0)
			return &there->checks[i];
	return NULL;
}

/* Do all rows keep the constraint?  Only such ones are in Redis. */
static bool
is_kept(const ConstrCheck *check)
{
#if PG_VERSION_NUM >= 180000
	if (!check->ccenforced)
		return false;
#endif
	return check->ccvalid;
}

/*
 * Of the constraint of that name here, the text that would be in Redis; NULL if it would not be there.  *any: it is
 * here.
 */
static const char *
local_check(Relation rel, const char *name, bool *any)
{
	const TupleConstr *constr = RelationGetDescr(rel)->constr;

	*any = false;
	for (int i = 0; constr != NULL && i < constr->num_check; i++)
		if (strcmp(constr->check[i].ccname, name) == 0)
		{
			*any = true;
			return !is_kept(&constr->check[i]) ? NULL
				: mosql_admin_portable_text(CStringGetTextDatum(constr->check[i].ccbin),
											RelationGetRelid(rel));
		}
	return NULL;
}

/* What is to become of one: neither, one, or both. */
static void
compare_check(const Refresh *refresh, const MosqlDefinitionCheck *check, bool *drop, bool *add)
{
	bool		any;
	const char *mine = local_check(refresh->rel, check->name, &any);
	bool		wanted = is_there(check->expression) &&
		mosql_definition_check_holds(refresh->there, check);

	*add = wanted && (mine == NULL || strcmp(mine, check->expression) != 0);
	*drop = any && (*add || (!wanted && mine != NULL && check->expression != NULL &&	/* NULL: is not known here */
							 (is_dropped(check->expression) || strcmp(mine, check->expression) == 0)));
}

static void
put_checks(Refresh *refresh)
{
	const TupleConstr *constr = RelationGetDescr(refresh->rel)->constr;

	for (int i = 0; i < refresh->there->nchecks; i++)
	{
		const MosqlDefinitionCheck *check = &refresh->there->checks[i];
		const char *name = quote_identifier(check->name);
		bool		drop;
		bool		add;

		compare_check(refresh, check, &drop, &add);
		if (drop)
			appendStringInfo(&refresh->changes, ", DROP CONSTRAINT %s", name);
		if (add)
			appendStringInfo(&refresh->changes, ", ADD CONSTRAINT %s CHECK (%s)", name,
							 check->expression);
	}
	for (int i = 0; constr != NULL && i < constr->num_check; i++)
	{
		bool		any;
		const char *name = constr->check[i].ccname;

		if (stored_check(refresh->there, name) == NULL &&
			local_check(refresh->rel, name, &any) != NULL)
			notice_stays(refresh, "constraint", name);
	}
}

/* ---- comments ---- */

/* column NULL: of the table. */
static void
put_comment(Refresh *refresh, AttrNumber attnum, const char *column, const char *theirs)
{
	const char *mine = GetComment(RelationGetRelid(refresh->rel), RelationRelationId, attnum);
	const char *object = column == NULL ? psprintf("FOREIGN TABLE %s", refresh->table)
		: psprintf("COLUMN %s.%s", refresh->table, quote_identifier(column));

	if (is_there(theirs) && (mine == NULL || strcmp(mine, theirs) != 0))
		refresh->last = lappend(refresh->last, psprintf("COMMENT ON %s IS %s", object,
														quote_literal_cstr(theirs)));
	else if (mine != NULL && is_dropped(theirs))
		refresh->last = lappend(refresh->last, psprintf("COMMENT ON %s IS NULL", object));
}

/* ---- what stands in the way of other types ---- */

bool
mosql_admin_is_retyped(const MosqlDefinitionColumn *mine, const MosqlDefinitionColumn *theirs)
{
	return strcmp(mine->type, theirs->type) != 0 || strcmp(mine->collation, theirs->collation) != 0;
}

/* Would core cast the default to another type, as ALTER COLUMN ... TYPE asks it to? */
static bool
default_fits(Relation rel, AttrNumber attnum, const char *name)
{
	Node	   *value = strip_implicit_coercions(build_column_default(rel, attnum));
	Oid			type;
	int32		typmod;

	mosql_table_find_type(name, &type, &typmod);
	return coerce_to_target_type(NULL, value, exprType(value), type, typmod, COERCION_ASSIGNMENT,
								 COERCE_IMPLICIT_CAST, -1) != NULL;
}

static void
put_drop(const Refresh *refresh, StringInfo changes, Form_pg_attribute att,
		 const MosqlDefinitionColumn *theirs)
{
	const char *column = quote_identifier(NameStr(att->attname));

	if (att->attidentity != '\0' && (theirs->sequence.counter == 0 || !theirs->sequence.identity))
		appendStringInfo(changes, ", ALTER COLUMN %s DROP IDENTITY", column);
	if (!att->atthasdef || att->attgenerated != '\0' ||
		default_fits(refresh->rel, att->attnum, theirs->type))
		return;
	appendStringInfo(changes, ", ALTER COLUMN %s DROP DEFAULT", column);
	if (theirs->expression == NULL && theirs->sequence.counter == 0)
		ereport(NOTICE,
				(errmsg("default of column \"%s\" of foreign table \"%s\" is dropped, which is not in Redis",
						NameStr(att->attname), RelationGetRelationName(refresh->rel)),
				 errdetail("The column has type %s there, which it cannot be cast to.", theirs->type)));
}

/* Does a column get another type? */
static bool
is_to_retype(const Refresh *refresh, const MosqlDefinition *here, AttrNumber attnum)
{
	const char *name = NameStr(TupleDescAttr(RelationGetDescr(refresh->rel), attnum - 1)->attname);
	const MosqlDefinitionColumn *mine = mosql_definition_column(here, name);
	const MosqlDefinitionColumn *theirs = mosql_definition_column(refresh->there, name);

	return mine != NULL && theirs != NULL && mosql_admin_is_retyped(mine, theirs);
}

/*
 * No column gets another type that something is generated by: so what is generated by it here was dropped by the other
 * server, and what has its name there is another column.
 */
static void
put_generated(const Refresh *refresh, const MosqlDefinition *here, StringInfo changes)
{
	const TupleConstr *constr = RelationGetDescr(refresh->rel)->constr;

	for (int i = 0; constr != NULL && i < constr->num_defval; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(refresh->rel), constr->defval[i].adnum - 1);
		const MosqlDefinitionColumn *theirs = mosql_definition_column(refresh->there, NameStr(att->attname));
		Bitmapset  *read = NULL;
		bool		retypes = false;

		if (att->attgenerated == '\0' || theirs == NULL || !theirs->generated)
			continue;			/* such a one goes with the rest, or its expression does */
		pull_varattnos(stringToNode(constr->defval[i].adbin), 1, &read);
		for (int n = -1; (n = bms_next_member(read, n)) >= 0;)
			retypes |= n + FirstLowInvalidHeapAttributeNumber > 0 &&
				is_to_retype(refresh, here, n + FirstLowInvalidHeapAttributeNumber);
		if (retypes)
			appendStringInfo(changes, ", DROP COLUMN %s", quote_identifier(NameStr(att->attname)));
	}
}

void
mosql_admin_put_drops(Relation rel, const MosqlDefinition *here, const MosqlDefinition *there,
					  StringInfo changes)
{
	Refresh		refresh = {.rel = rel,.there = there};
	bool		any = false;

	for (int i = 0; i < here->ncolumns; i++)
	{
		const MosqlDefinitionColumn *mine = &here->columns[i];
		const MosqlDefinitionColumn *theirs = mosql_definition_column(there, mine->name);

		if (theirs == NULL || !mosql_admin_is_retyped(mine, theirs))
			continue;
		any = true;
		put_drop(&refresh, changes,
				 TupleDescAttr(RelationGetDescr(rel), get_attnum(RelationGetRelid(rel), mine->name) - 1),
				 theirs);
	}
	for (int i = 0; any && i < there->nchecks; i++)
	{
		bool		drop;
		bool		add;

		compare_check(&refresh, &there->checks[i], &drop, &add);
		if (drop)
			appendStringInfo(changes, ", DROP CONSTRAINT %s", quote_identifier(there->checks[i].name));
	}
	if (any)
		put_generated(&refresh, here, changes);
}

/* ---- all of it ---- */

List *
mosql_admin_detail_statements(Relation rel, const MosqlDefinition *there)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Refresh		refresh = {.rel = rel,.there = there,.table = sql_name(RelationGetRelid(rel))};

	initStringInfo(&refresh.changes);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		const MosqlDefinitionColumn *theirs = att->attisdropped ? NULL
			: mosql_definition_column(there, NameStr(att->attname));

		if (theirs == NULL)
			continue;
		if (att->attgenerated != '\0' || theirs->generated)
			check_generated(&refresh, att, theirs);
		else
			put_source(&refresh, att, theirs);
		put_comment(&refresh, att->attnum, NameStr(att->attname), theirs->comment);
	}
	put_checks(&refresh);
	put_comment(&refresh, 0, NULL, there->comment);
	if (refresh.changes.len > 0)
		refresh.first = lappend(refresh.first, psprintf("ALTER FOREIGN TABLE %s %s", refresh.table,
														refresh.changes.data + 2));
	return list_concat(refresh.first, refresh.last);
}
