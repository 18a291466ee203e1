/*
 * admin.h: what _PG_init needs of DDL, SQL functions and maintenance.
 *
 * Layer: admin.  The SQL functions themselves are declared by PG_FUNCTION_INFO_V1.
 */
#ifndef MOSQL_ADMIN_H
#define MOSQL_ADMIN_H

#include "base/base.h"
#include "catalog/objectaddress.h"
#include "fdw/fdw_int.h"
#include "foreign/foreign.h"
#include "nodes/parsenodes.h"

/* mosql_fdw.drop_data: DROP of a foreign table drops its data in Redis, too. */
extern bool mosql_admin_drop_data;

/* Install the hook that sees relations and columns go; once, from _PG_init. */
extern void mosql_admin_init_ddl(void);

/* After CREATE (created) or ALTER of one of our tables: its key columns are its
 * primary key. */
extern void mosql_admin_follow_key(Oid relid, bool created);

/*
 * CREATE (register.c): the table's name in Redis, and what mosql_table_create() says and
 * throws.  A NOTICE if another table of this database has the name that it would get.
 */
extern bool mosql_admin_register_table(Relation rel);

/* ---- indexes as PostgreSQL knows them (index.c) ---- */

/*
 * It was to be USING hash: in pg_index.indoption of the column, beside core's bits.  (An operator class of hash would tell
 * it as well; but core keeps what it knows of one by its OID, whatever access method asks, and hash has fewer support functions.)
 */
#define MOSQL_INDOPTION_HASH	0x4000

typedef struct MosqlLocalIndex
{
	const char *name;
	bool		primary;
	bool		constraint;
	bool		unique;
	bool		exclusion;		/* a constraint EXCLUDE (... WITH =) here, in Redis a unique index */
	bool		nulls_not_distinct;
	int			nkeys;
	int			nincluded;
	AttrNumber	attnums[INDEX_MAX_KEYS];	/* of the key, then the included; 0: an
											 * expression */
	int16		options[INDEX_MAX_KEYS];	/* INDOPTION_DESC, INDOPTION_NULLS_FIRST */
	Node	   *expressions[INDEX_MAX_KEYS];	/* of the relation as varno 1 */
	Oid			collations[INDEX_MAX_KEYS]; /* of expressions; of a column another than its own */
	Oid			classes[INDEX_MAX_KEYS];	/* that somebody named; InvalidOid: default ones */
	bool		hash;			/* it was to be USING hash */
	const char *names[INDEX_MAX_KEYS];	/* of expressions; NULL: any */
	Node	   *predicate;		/* NULL: all rows are in it */
	const char *broken;			/* why it cannot be computed here; NULL: it can */
} MosqlLocalIndex;

/* Rows of pg_index, and pg_constraint; nothing is built. */
extern Oid	mosql_admin_create_local_index(Relation rel, const MosqlLocalIndex *index);

/* The same, and in Redis, built; its OID.  NOTICE if it is there, the same. */
extern Oid	mosql_admin_create_both(Relation rel, MosqlLocalIndex *index);

/* The operator class of key column i, of that type. */
extern Oid	mosql_admin_index_class(Relation rel, const MosqlLocalIndex *index, int i, Oid type);

/* Is all of PostgreSQL's transaction this statement? */
extern bool mosql_admin_is_whole_transaction(void);

/* ... and away with them; the index in Redis stays. */
extern void mosql_admin_drop_local_index(Oid indexid);

/* The local indexes of a table that are in Redis: made like the definition's. */
extern void mosql_admin_follow_indexes(Oid relid);

/* Is there a local index like this one of the definition? */
extern bool mosql_admin_shows_index(Relation rel, const MosqlDefinition *definition,
									const MosqlDefinitionIndex *there);

/* A column gets another type or expression: core must not find indexes on it. */
extern void mosql_admin_drop_for_retype(Oid relid, const char *column,
										const AlterTableStmt *statement);

/* WITH and TABLESPACE of an index, which mean nothing, as core would refuse them (storage.c). */
extern void mosql_admin_check_index_options(List *options, const char *tablespace);

/*
 * index_again.c: an index is dropped that this command makes again: keep what is said of it, until an index
 * of that table and name is made; what the primary key was called that went so, NULL if there was none, or
 * the name is taken.
 */
extern void mosql_admin_keep_index(Oid indexid);
extern void mosql_admin_restore_index(Oid indexid);

/* The operator class of its key column i; InvalidOid: the default one, or it is not kept. */
extern Oid	mosql_admin_kept_class(Oid relid, const char *name, int i);

/* The collation of key column i, another than the column's; InvalidOid: none is kept. */
extern Oid	mosql_admin_kept_collation(Oid relid, const char *name, int i);

/* Was the index made USING hash?  And was one that is kept? */
extern bool mosql_admin_is_shown_as_hash(Oid indexid);
extern bool mosql_admin_was_hash(Oid relid, const char *name);

/* Is it an exclusion constraint?  And was one that is kept? */
extern bool mosql_admin_is_exclusion(Oid indexid);
extern bool mosql_admin_was_exclusion(Oid relid, const char *name);
extern List *mosql_admin_kept_bare(Oid relid);	/* CREATE INDEX statements, as text; once */
extern const char *mosql_admin_kept_key(Oid relid);

/* ALTER TABLE ... ADD UNIQUE, CREATE INDEX, and what becomes of an index. */
extern void mosql_admin_refuse_overlaps(bool without_overlaps);

/*
 * What an index of ours takes for granted: its name, how core describes it, the names of its columns, one more
 * column; 42704, 42701.
 */
extern const char *mosql_admin_choose_index_name(Relation rel, const MosqlLocalIndex *index, const char *given);
extern IndexInfo *mosql_admin_index_info(const MosqlLocalIndex *index, Oid method, bool summarizing);
extern List *mosql_admin_index_column_names(Relation rel, const MosqlLocalIndex *index, int n);
extern void mosql_admin_add_index_column(Relation rel, MosqlLocalIndex *index, const char *name);
extern bool mosql_admin_skip_existing_index(Relation rel, const char *name);

/* 42P17 if it is not: a predicate, or an expression.  Runs functions in it as the table's owner. */
extern void mosql_admin_check_immutable(Relation rel, const Node *node, const char *what);

/* USING btree, hash and mosql become an index of ours; 0A000 for what hash has not (index_am.c). */
extern void mosql_admin_check_access_method(const IndexStmt *create);
extern void mosql_admin_add_unique(Oid relid, const Constraint *constraint);
extern void mosql_admin_add_exclusion(Oid relid, const Constraint *constraint);
extern ObjectAddress mosql_admin_create_index(const IndexStmt *given);
extern void mosql_admin_index_dropped(Oid indexid);

/* Delete what only this server's catalogs shall lose: keep is true meanwhile, which its hook looks at. */
extern void mosql_admin_delete_here(const ObjectAddress *address, bool *keep);
extern void mosql_admin_index_renamed(Oid indexid, const char *from);

/*
 * Is the local index this one of the definition, whatever its name?  One that this server cannot compute any more is
 * told by its columns.
 */
extern bool mosql_admin_is_index(Oid indexid, Relation rel, const MosqlDefinition *definition,
								 const MosqlDefinitionIndex *there);

/*
 * The index of that name in the table's definition, which is read anew; NULL: there is none.  42P16 if it is another
 * one than this of the local table.
 */
extern MosqlDefinitionIndex *mosql_admin_stored_index(Relation rel, Oid indexid, const char *name,
													  MosqlDefinition **there);

/* The local indexes of a relation that are ours, without the primary key's: OIDs. */
extern List *mosql_admin_secondary_indexes(Relation rel);

/*
 * The local indexes that are computed by expressions or predicates and are in the
 * definition, as definitions, with what they are computed by here; their number.  A round
 * trip if there are such.
 */
extern int	mosql_admin_computed_indexes(Relation rel, MosqlDefinitionIndex **indexes);

/* Is this index of access method mosql? */
extern bool mosql_admin_is_our_index(Oid indexid);

/*
 * Indexes of other access methods on our tables (index_bare.c): made, known, and made again
 * if this command has taken them away (mosql_admin_drop_for_retype()).
 */
extern bool mosql_admin_is_bare_method(const char *method);
extern bool mosql_admin_is_bare_index(Oid indexid);
extern Oid	mosql_admin_create_bare_index(Relation rel, const IndexStmt *statement);
extern void mosql_admin_restore_bare_indexes(Relation rel);

/* ---- ALTER COLUMN ... TYPE ... USING (using.c) ---- */

/*
 * Before the command: take USING out, if it is for tables of ours alone; 42501, 42703 and
 * what else the analysis finds.  Behind it: the expressions for a table that the statement
 * has altered, MosqlUsing.
 */
extern void mosql_admin_take_using(Oid relid, AlterTableCmd *command);
extern List *mosql_admin_usings(Relation rel, const Node *statement);

/* ---- privileges (privilege.c) ---- */

extern bool mosql_admin_owns(Oid relid);

/* 42501 unless the current user owns it; 42P01 if it is gone. */
extern void mosql_admin_check_owner(Oid relid);

/*
 * The relation, locked, which the current user owns: asked before the lock and behind it.
 * 55006 if this session is using it; the command is for that message.
 */
extern Relation mosql_admin_lock_owned(Oid relid, LOCKMODE mode, const char *command);

/* 55006 if it is an index of a table of ours that this session is using. */
extern void mosql_admin_check_index_unused(Oid indexid);

/* 42501 unless the current user may create in the schema; may use the server. */
extern void mosql_admin_check_create(Oid schemaid);
extern void mosql_admin_check_server(Oid serverid);

/* ---- defaults, checks, comments (details.c) ---- */

/* A table of ours was made in Redis (created), or altered, by this command: what
 * the definition has for IMPORT FOREIGN SCHEMA follows.  attached: the other way
 * round, comments of the definition come here. */
extern void mosql_admin_follow_details(Oid relid, bool created, Node *command);
extern void mosql_admin_import_comments(Oid relid);

/* All expressions and CHECK constraints of a table, as they would be in Redis. */
extern int	mosql_admin_all_details(Relation rel, MosqlDetail **details);

/* A command is about to alter the relation, and those below it: what ours among them are is noted (table/before.c). */
extern void mosql_admin_note_before(Oid relid);

/* ---- what is dropped, perhaps with its table (gone.c) ---- */

/*
 * A key column goes though there are rows: 0A000 at the end of the command, unless its table is gone then.  Something
 * goes that is another in Redis, where it stays: 42P16 then, with this errdetail.
 */
extern void mosql_admin_init_gone(void);
extern void mosql_admin_note_gone_key(Oid relid, const char *column);
extern void mosql_admin_note_gone_other(Oid relid, const char *difference);
extern void mosql_admin_check_gone(void);

/* ---- types (type.c) ---- */

/* A DDL command is about to run, or has run: what it does to types becomes known to the
 * definitions of the tables that use them; 0A000 for what their rows would not survive. */
extern void mosql_admin_init_types(void);
extern void mosql_admin_note_types(const Node *command);
extern void mosql_admin_follow_types(const Node *command);

/* Our tables that use a type somehow: OIDs. */
extern List *mosql_admin_tables_of_type(Oid type);

/* 0A000: the type cannot be altered for that column's sake. */
extern void mosql_admin_refuse_type(Oid type, Oid user, const char *column) pg_attribute_noreturn();

/* An attribute of a relation, or composite type, goes: 0A000 if rows of ours have such
 * values. */
extern void mosql_admin_attribute_dropped(Oid relid);

/*
 * ALTER TABLE added constraints to one of our tables: 23502 or 23514 if a row breaks
 * one (validate.c).
 */
extern void mosql_admin_validate(Oid relid, const AlterTableStmt *statement);

/* The same after CREATE FOREIGN TABLE of what is in Redis already, where it declares
 * more than is known there. */
extern void mosql_admin_validate_attached(Oid relid);

/*
 * 23514 if a row is beyond the bounds of a table that has become a partition (has_rows: it
 * was there before), or belongs into that and not into its parent's default one.  Both
 * may be partitioned themselves.
 */
extern void mosql_admin_validate_partition(Oid relid, bool has_rows);
extern void mosql_admin_validate_attach(const AlterTableStmt *statement);

/* ALTER DOMAIN: 23502, 23514 if a value in some table of ours breaks what it adds. */
extern void mosql_admin_validate_domains(const AlterDomainStmt *statement);

/* A stored expression of a catalog as SQL, names of sequences with their schemas; NULL if
 * others may not understand it, so that it does not go to Redis. */
extern const char *mosql_admin_portable_text(Datum bin, Oid relid);

/* What makes a table's defaults, identity columns, CHECK constraints and comments those of
 * the definition (refresh_details.c): statements, char *.  NOTICEs for what stays. */
extern List *mosql_admin_detail_statements(Relation rel, const MosqlDefinition *there);

/* Of these, what has to be dropped before columns get other types: it is not so in Redis, and
 * core would not find it to fit those.  ", DROP CONSTRAINT ..." */
extern void mosql_admin_put_drops(Relation rel, const MosqlDefinition *here,
								  const MosqlDefinition *there, StringInfo changes);
extern bool mosql_admin_is_retyped(const MosqlDefinitionColumn *mine,
								   const MosqlDefinitionColumn *theirs);

/* A server of mosql_fdw by its name; 42704, 42809. */
extern ForeignServer *mosql_admin_our_server(const char *name);

/* ---- refresh.c ---- */

/* The table whose columns do not agree with Redis yet meanwhile: nothing there follows it. */
extern Oid	mosql_admin_half_refreshed;

/* ---- sequences (sequence.c) ---- */

/* Install the planner hook; once, from _PG_init. */
extern void mosql_admin_init_sequences(void);

/* A table of ours, or a sequence, was created or altered by this command: sequences in
 * Redis follow.  mosql_admin_note_owner: ALTER SEQUENCE is about to run. */
extern void mosql_admin_follow_sequences(Oid relid, Node *command);
extern void mosql_admin_note_owner(const AlterSeqStmt *statement);

/* What a local sequence says, without counter; whose columns they are not. */
extern MosqlSequence mosql_admin_local_sequence(Oid seqid);

/* Of a table that a command is about to alter, which was noted: the sequences of its columns. */
extern void mosql_admin_note_sequences(Relation rel);

/* Defaults of a table of ours draw from Redis; before its definition goes there, since
 * rows may be filled by them. */
extern void mosql_admin_follow_defaults(Oid relid);

/* A domain got another default; our tables that use it. */
extern void mosql_admin_follow_domain(const AlterDomainStmt *statement);

/* The sequence that a default (a stored expression) draws from; InvalidOid if none. */
extern Oid	mosql_admin_drawn_sequence(const char *bin);

/* A sequence goes, or is getting another name. */
extern void mosql_admin_sequence_dropped(Oid seqid);
extern void mosql_admin_sequence_renamed(Oid seqid, const char *schema, const char *name,
										 const char *to_schema, const char *to_name);

/* The utility hook (utility.c); once, from _PG_init. */
extern void mosql_admin_init_utility(void);

/* mosql_fdw.default_server: CREATE TABLE makes foreign tables on it; "": off. */
extern char *mosql_admin_default_server;

/* mosql_fdw.present_as_table: the catalogs show our foreign tables as tables. */
extern bool mosql_admin_present_as_table;
extern void mosql_admin_init_present(void);

/* Is this the tree that the hook is running?  For the trigger that it fires. */
extern bool mosql_admin_was_taken(const Node *tree);

/*
 * ddl_command_start of a statement that the hook has not seen, as it was not there yet: do what it would have
 * done, and leave core with nothing.  55000 where that is not possible.  At ddl_command_end all is as before.
 */
extern void mosql_admin_run_first(Node *command);
extern void mosql_admin_end_first(void);

/*
 * ALTER TABLE ... ADD FOREIGN KEY: enforced from here on, if both tables are on one
 * server of ours, and by the rows that are there (23503), unless NOT VALID; otherwise
 * known to the catalogs alone, with a NOTICE.
 */
extern void mosql_admin_add_foreign_key(Oid relid, const Constraint *constraint);

/*
 * A foreign key is about to be dropped, or was renamed: the definitions follow.  renamed:
 * false if it is none.
 */
extern void mosql_admin_foreign_key_dropped(Oid oid);
extern bool mosql_admin_foreign_key_renamed(Oid relid, const char *from, const char *to);

/*
 * The foreign keys of a table, and to it, as the definitions in Redis have them, are
 * made so here, as far as the other table is here, too.  The definitions of the other tables are read in two batches.
 */
extern void mosql_admin_follow_foreign_keys(Oid relid);

/* They are dropped here, and stay in Redis: types of columns are about to change here, which core
 * compares at once, whatever the other table is going to be. */
extern void mosql_admin_leave_foreign_keys(Oid relid);

/* Is that foreign key of a table's definition known here, the same? */
extern bool mosql_admin_knows_foreign_key(Oid relid, const MosqlDefinition *child,
										  const MosqlDefinitionReference *there);

/* Is it a temporary table over one that is permanent in Redis (ddl.c)? */
extern bool mosql_admin_is_window(Relation rel);

/* VALIDATE CONSTRAINT; false: it is no foreign key of that table. */
extern bool mosql_admin_validate_foreign_key(Oid relid, const char *name);

/* ALTER CONSTRAINT ... [NOT] DEFERRABLE, here and in Redis; false: it is no foreign key of
 * ours, or something else is asked. */
extern bool mosql_admin_alter_foreign_key(Oid relid, const Node *def);

/*
 * The type of a column is about to change, or its place in the key: drop the foreign keys of
 * it and, unless own, to it, which core would make again and cannot.  The commands (char *) that make them.
 * Those that the statement drops, by name or with a column of theirs, are dropped here in its place; what leads
 * to a key or column that it drops is core's to refuse or to drop.
 */
extern List *mosql_admin_take_foreign_keys(Oid relid, const char *column, bool own,
										   AlterTableStmt *statement);
extern bool mosql_admin_drops_constraint(const AlterTableStmt *statement, const char *name);

/* The primary key of a CREATE TABLE, of key columns; the table is in Redis. */
extern void mosql_admin_add_primary_key(Oid relid, const IndexStmt *index);

/*
 * ALTER TABLE is about to run, behind the ddl_command_start triggers.  What core would refuse of our tables' keys is
 * done here: ADD PRIMARY KEY, which goes out of the statement (0A000 if it names
 * other columns than the table's key), new types of key columns, ATTACH PARTITION.
 */
extern void mosql_admin_prepare_alter(AlterTableStmt *statement);

/*
 * Have the statement say all that it is to do to a table of ours, as the hook would (alter_table.c).  False: not in one
 * part, and what was done is to be rolled back.  42501 for who may not.
 */
extern bool mosql_admin_make_one_part(AlterTableStmt *alter);

/* The tables that ALTER of this relation alters: it and what inherits from it; of a composite type the tables of
 * that type, with what inherits from them. */
extern List *mosql_admin_altered_tables(Oid relid);

/* Settings and hook of the debug points; once, from _PG_init. */
extern void mosql_admin_init_debug(void);

/* ---- shared by the functions ---- */

#include "fmgr.h"
#include "funcapi.h"

/* The text argument i as a palloc'ed string. */
extern char *mosql_admin_text_arg(FunctionCallInfo fcinfo, int i);

/* Run a utility statement as part of the running one; its effects are seen after it. */
extern void mosql_admin_run_sql(const char *sql);

/* May the current user use this server? */
extern bool mosql_admin_may_use_server(Oid serverid);

/* The session for a server by name; 42704 if there is none of ours. */
extern MosqlSession *mosql_admin_server_session(const char *server);

/* The OIDs of the foreign tables of a server in this database. */
extern List *mosql_admin_server_tables(Oid serverid);

/*
 * A foreign table's name in Redis, as the catalogs say now; false if it is gone.  Is it that?  It is not locked: somebody may just
 * be altering it, and need not be waited for if it is another one.
 */
extern bool mosql_admin_seeming_name(Oid relid, const char **schema, const char **name);
extern bool mosql_admin_seems_named(Oid relid, const char *schema, const char *name);

/*
 * Compare a table's indexes with its rows (check_index.c); what is wrong goes to
 * `report`, in the current context.
 */
typedef void (*MosqlIndexFinding) (void *arg, const MosqlIndex *index, const char *finding);
extern void mosql_admin_check_indexes(Relation rel, const MosqlTable *table,
									  MosqlIndexFinding report, void *arg);

/* 42809 unless it is a foreign table of ours. */
extern void mosql_admin_check_ours(Oid relid);

/* "<session>.<number>", both decimal and not 0; else 22P02. */
extern MosqlTxid mosql_admin_parse_txid(const char *text);

/* Is it the index of a primary key?  Then it is the table. */
extern bool mosql_admin_is_key_index(Oid indexid);

/* REINDEX of one index of a table of ours that is locked (ShareLock at least). */
extern void mosql_admin_reindex(Relation rel, MosqlSession *session, const char *index);

/* A time of the clock's as PostgreSQL's. */
extern TimestampTz mosql_admin_time(MosqlTimestamp us);

/* A node's Redis key as text. */
extern char *mosql_admin_node_name(MosqlSession *session, uint64 node);

/*
 * Open one of our tables for inspection by the current user, who needs SELECT
 * on it; 42809 if it is none of ours.
 */
extern Relation mosql_admin_open_table(Oid relid, MosqlSession **session, MosqlTable **table);

/*
 * Call it in a subtransaction: NULL, or the error that it ended in, after what it did was
 * rolled back; in the current context.
 */
typedef void (*MosqlAttempt) (void *arg);
extern ErrorData *mosql_admin_attempt(MosqlAttempt attempt, void *arg);

/*
 * The same, but errors that are not about one server, of which others know nothing, are thrown on: it does not answer, does
 * not let this user in, is damaged, or cannot be used in this transaction.  And such an error as a WARNING, "what: ...".
 */
extern ErrorData *mosql_admin_attempt_server(MosqlAttempt attempt, void *arg);
extern void mosql_admin_warn(const ErrorData *error, const char *what);

#endif							/* MOSQL_ADMIN_H */
