/*
 * utility.h: what the kinds of statements share that the utility hook takes.
 *
 * Layer: admin.  utility.c looks at each utility statement once and hands those
 * that concern tables of ours to the file of their kind:
 *
 *   create_table.c   CREATE TABLE and CREATE FOREIGN TABLE
 *   create_as.c      CREATE TABLE AS, SELECT INTO
 *   alter_table.c    ALTER TABLE
 *   drop.c           DROP TABLE of ours and of others
 *   trigger.c        CREATE TRIGGER on TRUNCATE
 *   lock_table.c     LOCK TABLE
 *   plain.c          the others that core refuses for foreign tables
 */
#ifndef MOSQL_ADMIN_UTILITY_H
#define MOSQL_ADMIN_UTILITY_H

#include "admin/admin.h"
#include "tcop/utility.h"

/* A statement on its way through ProcessUtility. */
typedef struct MosqlStatement
{
	PlannedStmt *pstmt;
	Node	   *tree;			/* ours to change: a copy */
	const char *query;
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *environment;
	DestReceiver *dest;
	QueryCompletion *completion;
	bool		seen;			/* by our ddl_command_start trigger; somebody may have turned it off */
} MosqlStatement;

/* The next ProcessUtility, at last core's, with the statement's tree or another. */
extern void mosql_admin_pass_on(const MosqlStatement *statement, Node *tree);

/*
 * Do what core must not see, below the hooks that were there before ours: pg_stat_statements and its kin measure
 * it as any statement, and may refuse it.  They see the statement's text, context and completion, but for its
 * node that of a SHOW.  Without such hooks body is just called.
 */
typedef void (*MosqlStatementBody) (const MosqlStatement *statement, void *arg);
extern void mosql_admin_run_below(const MosqlStatement *statement, MosqlStatementBody body, void *arg);

/*
 * Run body as core runs a statement (ProcessUtilitySlow): between its event triggers, unless it is a part of another. These get
 * statement->tree.
 */
typedef void (*MosqlTriggeredBody) (const MosqlStatement *statement);
extern void mosql_admin_run_with_triggers(const MosqlStatement *statement, MosqlTriggeredBody body);

/* As core does before it runs what changes something: 25006. */
extern void mosql_admin_check_may_write(const Node *tree);

/* A part of the statement, as core runs parts: through all hooks, without the
 * event triggers. */
extern void mosql_admin_run_part(const MosqlStatement *statement, Node *tree);

/*
 * Is this new table to be a foreign one?  mosql_fdw.default_server must be set, and
 * the statement, all but the query of CREATE TABLE AS, not ask for another kind.
 */
extern bool mosql_admin_becomes_foreign(const RangeVar *relation, const char *access_method);
extern bool mosql_admin_takes_create(const CreateStmt *create);
extern bool mosql_admin_takes_create_as(const CreateTableAsStmt *create);

/* Not taken: say so where that may surprise. */
extern void mosql_admin_notice_local(const CreateStmt *create);

/* CREATE FOREIGN TABLE on one of our servers, and no partition. */
extern bool mosql_admin_takes_create_foreign(const CreateForeignTableStmt *create);

/*
 * Make the table, its keys and indexes, here and in Redis, on that server with
 * those options.  The result is its oid, InvalidOid if IF NOT EXISTS skipped it.
 */
extern Oid	mosql_admin_create_table(const MosqlStatement *statement, CreateStmt *create,
									 const char *server, List *options);

/* DROP TABLE of some that are ours and some that are not. */
extern bool mosql_admin_takes_drop(const DropStmt *drop);

/* CREATE TRIGGER … TRUNCATE on one of our tables, where core makes none (trigger.c). */
extern bool mosql_admin_takes_trigger(const CreateTrigStmt *create);

/* The bodies of the statements taken. */
extern void mosql_admin_run_drop(const MosqlStatement *statement);
extern void mosql_admin_run_create(const MosqlStatement *statement);
extern void mosql_admin_run_create_foreign(const MosqlStatement *statement);
extern void mosql_admin_run_create_as(const MosqlStatement *statement);
extern void mosql_admin_run_trigger(const MosqlStatement *statement);

/*
 * DROP, COPY, LOCK, COMMENT, VACUUM, REINDEX, CLUSTER: true if something of ours
 * was concerned, and it is done.
 */
extern bool mosql_admin_run_plain(const MosqlStatement *statement);

/* LOCK TABLE (lock_table.c); ALTER TABLE of one of ours; as above. */
extern bool mosql_admin_run_lock(const MosqlStatement *statement);
extern bool mosql_admin_run_alter(const MosqlStatement *statement);

/* What ALTER FOREIGN TABLE must do to make these columns the key, in this order. */
extern List *mosql_admin_key_commands(Relation rel, const AttrNumber *attnums, int n);

/* The names (String) of an index statement's columns; the attribute numbers of
 * columns by name, 42703 if one is missing. */
extern List *mosql_admin_index_columns(const IndexStmt *index);
extern int	mosql_admin_named_columns(Oid relid, const List *names, AttrNumber *attnums);

/*
 * Clauses about local storage (storage.c): said once per session that they mean nothing here; refused as
 * core refuses them.
 */
extern void mosql_admin_notice_storage(const char *table);
extern void mosql_admin_check_storage(const CreateStmt *create);
extern void mosql_admin_check_storage_action(Oid relid, const AlterTableCmd *command);

/* ALTER INDEX of an index of ours, or a bare one: true, if it says nothing but storage, and that is done. */
extern bool mosql_admin_run_alter_index(const MosqlStatement *statement, Oid indexid);
extern void mosql_admin_check_index_name(Oid relid, const char *name);

/* ENABLE, DISABLE ROW LEVEL SECURITY become an option of the table, which PostgreSQL's catalog follows;
 * whether there is something to do. */
extern bool mosql_admin_set_row_security(Oid relid, const AlterTableStmt *statement, AlterTableCmd *command);
extern void mosql_admin_follow_row_security(Oid relid);

/* ADD UNIQUE USING INDEX; and PRIMARY KEY, which becomes one of columns. */
extern void mosql_admin_unique_using(Relation rel, const Constraint *constraint);
extern void mosql_admin_primary_key_using(Oid relid, Constraint *constraint);

/*
 * ATTACH PARTITION of a table of ours to one with unique indexes, of an index of ours (partition.c): true if it is
 * done, and the statement has nothing left to do.
 */
extern bool mosql_admin_attach_partition(AlterTableStmt *alter);

/* ALTER TABLE drops the primary key of a table above ours: the partitions' keys go before. */
extern void mosql_admin_drop_partition_keys(const AlterTableStmt *alter);

/* Indexes of a partition and those of the table above it: each that is the same becomes a part of that; it is no more. */
extern void mosql_admin_link_indexes(Relation partition);
extern void mosql_admin_unlink_index(Oid indexid);

/* 0A000: "what" is not supported. */
extern void mosql_admin_refuse(const char *what, const char *hint) pg_attribute_noreturn();

/* A DDL command is about to run: 0A000 with a hint for what core refuses of our tables. */
extern void mosql_admin_refuse_unsupported(const Node *tree);

#endif							/* MOSQL_ADMIN_UTILITY_H */
