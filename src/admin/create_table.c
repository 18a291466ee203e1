/*
 * create_table.c: CREATE TABLE makes foreign tables.
 *
 * Layer: admin.  With mosql_fdw.default_server set, CREATE TABLE makes a foreign
 * table on that server, with all that a table may have: core's own
 * transformCreateStmt() expands the plain statement (SERIAL, IDENTITY, LIKE, keys),
 * and what comes of it is run with the table itself swapped for a foreign one.
 * CREATE FOREIGN TABLE on our servers goes the same way, so that it knows keys too.
 *
 * The order matters.  What is read off the table (its columns' options, LIKE's
 * indexes) comes before it is registered in Redis, so that the definition is
 * complete; indexes, which are added to that definition, come after.
 *
 * Left local: temporary tables, USING another access method than the default
 * (USING heap: the opt-out for one table), tables of a type, partitioned tables and
 * partitions, what CREATE EXTENSION makes; and all tables of a session that has
 * default_table_access_method set itself (the opt-out for one session).
 */
#include "postgres.h"

#include "access/attmap.h"
#include "access/genam.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/comment.h"
#include "commands/defrem.h"
#include "commands/event_trigger.h"
#include "commands/extension.h"
#include "commands/tablecmds.h"
#include "foreign/foreign.h"
#include "parser/parse_utilcmd.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "admin/utility.h"

char	   *mosql_admin_default_server = NULL;

/* ---- which statements ---- */

/* Did this session set default_table_access_method itself, as pg_dump's output does? */
static bool
session_chose_access_method(void)
{
	const char *name = "default_table_access_method";
#if PG_VERSION_NUM >= 160000
	struct config_generic *setting = find_option(name, false, true, ERROR);

	return setting != NULL && setting->source == PGC_S_SESSION;
#else
	struct config_generic **settings = get_guc_variables();

	for (int i = 0; i < GetNumConfigOptions(); i++)
		if (strcmp(settings[i]->name, name) == 0)
			return settings[i]->source == PGC_S_SESSION;
	return false;
#endif
}

/* By TEMPORARY, or by its schema, pg_temp by whatever name: said, or the first of search_path. */
static bool
is_temporary(const RangeVar *relation)
{
	List	   *path;
	bool		temporary;

	if (relation->relpersistence == RELPERSISTENCE_TEMP)
		return true;
	if (relation->schemaname != NULL)
	{
		Oid			schema = LookupNamespaceNoError(relation->schemaname);

		return strcmp(relation->schemaname, "pg_temp") == 0 ||
			(OidIsValid(schema) && isAnyTempNamespace(schema));
	}
	path = fetch_search_path(false);
	temporary = path != NIL && isAnyTempNamespace(linitial_oid(path));
	list_free(path);
	return temporary;
}

bool
mosql_admin_becomes_foreign(const RangeVar *relation, const char *access_method)
{
	return mosql_admin_default_server != NULL && mosql_admin_default_server[0] != '\0' &&
		access_method == NULL && !creating_extension && !session_chose_access_method() &&
		!is_temporary(relation);
}

bool
mosql_admin_takes_create(const CreateStmt *create)
{
	return create->ofTypename == NULL && create->partspec == NULL && create->partbound == NULL &&
		mosql_admin_becomes_foreign(create->relation, create->accessMethod);
}

void
mosql_admin_notice_local(const CreateStmt *create)
{
	bool		is_partition = create->partbound != NULL;

	if ((is_partition || create->ofTypename != NULL) && create->partspec == NULL &&
		mosql_admin_becomes_foreign(create->relation, create->accessMethod))
		ereport(NOTICE,
				(errmsg("table \"%s\" is local: mosql_fdw.default_server is not for %s",
						create->relation->relname,
						is_partition ? "partitions" : "tables of a type"),
				 is_partition ?
				 errhint("Use CREATE FOREIGN TABLE, and ALTER TABLE ... ATTACH PARTITION.") :
				 errhint("Use CREATE TABLE with the columns.")));
}

bool
mosql_admin_takes_create_foreign(const CreateForeignTableStmt *create)
{
	ForeignServer *server = GetForeignServerByName(create->servername, true);

	return server != NULL && create->base.partbound == NULL && create->base.ofTypename == NULL &&
		mosql_fdw_is_our_server(server->serverid);
}

/* ---- the parts of the expanded statement ---- */

typedef struct Parts
{
	List	   *before;			/* sequences */
	CreateStmt *create;
	List	   *options;		/* ALTER ... OPTIONS of columns */
	IndexStmt  *primary;
	List	   *after;
	List	   *like;			/* clauses that can be expanded once the table is there */
} Parts;

static bool
sets_column_options(const Node *tree)
{
	const AlterTableStmt *alter = (const AlterTableStmt *) tree;

	return IsA(tree, AlterTableStmt) && list_length(alter->cmds) == 1 &&
		linitial_node(AlterTableCmd, alter->cmds)->subtype == AT_AlterColumnGenericOptions;
}

static void
sort_parts(Parts *parts, List *trees)
{
	ListCell   *lc;

	foreach(lc, trees)
	{
		Node	   *tree = lfirst(lc);

		if (IsA(tree, CreateStmt))
			parts->create = (CreateStmt *) tree;
		else if (parts->create == NULL)
			parts->before = lappend(parts->before, tree);
		else if (IsA(tree, TableLikeClause))
			parts->like = lappend(parts->like, tree);
		else if (sets_column_options(tree))
			parts->options = lappend(parts->options, tree);
		else if (IsA(tree, IndexStmt) && ((IndexStmt *) tree)->primary)
		{
			if (parts->primary != NULL) /* LIKE brings one, too */
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
						 errmsg("multiple primary keys for table \"%s\" are not allowed",
								parts->create->relation->relname)));
			parts->primary = (IndexStmt *) tree;
		}
		else
			parts->after = lappend(parts->after, tree);
	}
}

static void
run_parts(const MosqlStatement *statement, List *trees)
{
	ListCell   *lc;

	foreach(lc, trees)
		mosql_admin_run_part(statement, lfirst(lc));
}

static Oid
define_relation(const MosqlStatement *statement, CreateStmt *create, const char *server,
				List *options)
{
	CreateForeignTableStmt *foreign = makeNode(CreateForeignTableStmt);
	ObjectAddress address;

	foreign->base = *create;
	foreign->base.type = T_CreateForeignTableStmt;
	foreign->servername = pstrdup(server);
	foreign->options = options;
	address = DefineRelation(&foreign->base, RELKIND_FOREIGN_TABLE, InvalidOid, NULL,
							 statement->query);
	CreateForeignTable(foreign, address.objectId);
	EventTriggerCollectSimpleCommand(address, InvalidObjectAddress, (Node *) foreign);
	CommandCounterIncrement();
	return address.objectId;
}

/*
 * What a LIKE clause adds once the table is there.  Core adds no indexes to foreign
 * tables since PostgreSQL 18, so they are cloned here, as it clones them for others.
 */
static List *
expand_like(RangeVar *name, TableLikeClause *like, Oid relid)
{
	bool		indexes = (like->options & CREATE_TABLE_LIKE_INDEXES) != 0;
	bool		comments = (like->options & CREATE_TABLE_LIKE_COMMENTS) != 0;
	Relation	source = relation_open(like->relationOid, NoLock);
	Relation	rel = relation_open(relid, NoLock);
	AttrMap    *map = build_attrmap_by_name(RelationGetDescr(rel), RelationGetDescr(source)
#if PG_VERSION_NUM >= 160000
											,false	/* none is missing */
#endif
		);
	List	   *trees;
	ListCell   *lc;

	like->options &= ~CREATE_TABLE_LIKE_INDEXES;
	trees = expandTableLikeClause(name, like);
	foreach(lc, indexes ? RelationGetIndexList(source) : NIL)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		IndexStmt  *clone = generateClonedIndexStmt(name, index, map, NULL);

		if (mosql_admin_is_our_index(lfirst_oid(lc)) && mosql_admin_is_shown_as_hash(lfirst_oid(lc)))
			clone->accessMethod = "hash";
		if (comments)
			clone->idxcomment = GetComment(lfirst_oid(lc), RelationRelationId, 0);
		trees = lappend(trees, clone);
		index_close(index, AccessShareLock);
	}
	relation_close(rel, NoLock);
	relation_close(source, NoLock);
	return trees;
}

/* Make the columns of the primary key key columns. */
static void
set_key(const MosqlStatement *statement, CreateStmt *create, const IndexStmt *primary, Oid relid)
{
	AlterTableStmt *alter = makeNode(AlterTableStmt);
	Relation	rel = relation_open(relid, NoLock);
	AttrNumber	attnums[INDEX_MAX_KEYS];
	int			n = mosql_admin_named_columns(relid, mosql_admin_index_columns(primary), attnums);

	alter->relation = create->relation;
	alter->objtype = OBJECT_FOREIGN_TABLE;
	alter->cmds = mosql_admin_key_commands(rel, attnums, n);
	relation_close(rel, NoLock);
	if (alter->cmds != NIL)
		mosql_admin_run_part(statement, (Node *) alter);
}

/* False: it was there already. */
static bool
register_table(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	bool		made = mosql_admin_register_table(rel);

	relation_close(rel, NoLock);
	return made;
}

/* Whatever happens next relies on our callbacks. */
static void
check_server(const char *server)
{
	ForeignServer *found = GetForeignServerByName(server, true);

	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server \"%s\" does not exist", server),
				 errhint("Set mosql_fdw.default_server to another, or to '' for local tables.")));
	if (!mosql_fdw_is_our_server(found->serverid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("server \"%s\" is not one of mosql_fdw", server),
				 errhint("Set mosql_fdw.default_server to another, or to '' for local tables.")));
}

Oid
mosql_admin_create_table(const MosqlStatement *statement, CreateStmt *create, const char *server,
						 List *options)
{
	Parts		parts = {0};
	ListCell   *lc;
	Oid			relid;
	bool		made;

	check_server(server);
	mosql_admin_check_storage(create);
	create->options = NIL;
	create->tablespacename = NULL;
	if (create->relation->relpersistence == RELPERSISTENCE_UNLOGGED)
		create->relation->relpersistence = RELPERSISTENCE_PERMANENT;

	sort_parts(&parts, transformCreateStmt(create, statement->query));
	if (parts.create == NULL)
		return InvalidOid;		/* IF NOT EXISTS, and it does */
#if PG_VERSION_NUM >= 180000
	mosql_admin_refuse_overlaps(parts.primary != NULL && parts.primary->iswithoutoverlaps);
#endif

	run_parts(statement, parts.before);
	relid = define_relation(statement, parts.create, server, options);
	foreach(lc, parts.like)
		sort_parts(&parts, expand_like(parts.create->relation, lfirst(lc), relid));

	run_parts(statement, parts.options);
	if (parts.primary != NULL)
		set_key(statement, parts.create, parts.primary, relid);
	made = register_table(relid);
	if (parts.primary != NULL)
		mosql_admin_add_primary_key(relid, parts.primary);
	else
		mosql_admin_follow_key(relid, true);
	run_parts(statement, parts.after);
	mosql_admin_follow_indexes(relid);
	mosql_admin_follow_foreign_keys(relid);
	mosql_admin_follow_defaults(relid); /* now sequences have their owners */
	if (made)					/* for the trigger at the end it is one that was there */
		mosql_admin_follow_details(relid, true, statement->tree);
	return relid;
}

/* ---- the statements ---- */

void
mosql_admin_run_create(const MosqlStatement *statement)
{
	(void) mosql_admin_create_table(statement, castNode(CreateStmt, statement->tree),
									mosql_admin_default_server, NIL);
}

/*
 * What IMPORT FOREIGN SCHEMA makes says what it says in pg_catalog (fdw/import.c): in
 * another schema of the user's search_path there may be a function that fits better, and
 * other settings may read its constants otherwise.
 * Whoever writes the mark into a statement of his own gets just that.
 */
static bool
is_imported(const MosqlStatement *statement)
{
	return statement->context == PROCESS_UTILITY_SUBCOMMAND && statement->query != NULL &&
		strncmp(statement->query, MOSQL_IMPORT_MARK, strlen(MOSQL_IMPORT_MARK)) == 0;
}

void
mosql_admin_run_create_foreign(const MosqlStatement *statement)
{
	CreateForeignTableStmt *foreign = castNode(CreateForeignTableStmt, statement->tree);
	CreateStmt *create = makeNode(CreateStmt);
	int			nesting = is_imported(statement) ? mosql_expression_settings() : NewGUCNestLevel();

	*create = foreign->base;
	create->type = T_CreateStmt;
	(void) mosql_admin_create_table(statement, create, foreign->servername, foreign->options);
	AtEOXact_GUC(true, nesting);
}
