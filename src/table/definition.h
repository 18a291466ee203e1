/*
 * definition.h: the definitions of tables in Redis, and what DDL does to them.
 *
 * Layer: table.
 */
#ifndef MOSQL_DEFINITION_H
#define MOSQL_DEFINITION_H

#include "table/table.h"

/* ---- what DDL does to them (create.c, alter.c) ---- */

/*
 * CREATE FOREIGN TABLE: register the table in Redis (returns true), or attach to
 * the one of that name if its definition is the same (else 42P16 with a detail), or
 * lacks no more than its key options: then it can be used once ALTER has added them.
 * Part of the current transaction.
 */
extern bool mosql_table_create(Relation rel, MosqlSession *session);

/* ALTER COLUMN ... TYPE ... USING. */
typedef struct MosqlUsing
{
	const char *column;
	Expr	   *value;			/* planned, of the new type; of the relation as varno 1, with the
								 * types that its columns had */
} MosqlUsing;

/*
 * ALTER FOREIGN TABLE: bring the definition in Redis up to what this command
 * changed in the local one, where that touches no row, or copy the rows; otherwise 0A000
 * with a hint.  42P16 where they differ for other reasons.  usings: of MosqlUsing.
 */
extern void mosql_table_alter(Relation rel, MosqlSession *session, List *usings);

/*
 * Write the name in Redis into the table's options where they do not give it, so that
 * ALTER ... RENAME and SET SCHEMA do not lose the data, nor find another's: the one that
 * it has without options, or this one.
 */
extern void mosql_table_pin_name(Relation rel);
extern void mosql_table_set_name(Relation rel, const char *schema, const char *name);

/*
 * The expression of a stored generated column is another: all rows go to a new tree,
 * generated columns computed anew.  Certified, as each rewrite.
 */
extern void mosql_table_recompute(Relation rel, MosqlSession *session);

/* ALTER ... RENAME COLUMN, after it was done locally.  42P16 if it is another column there. */
extern void mosql_table_rename_column(Relation rel, MosqlSession *session,
									  const char *from, const char *to);

/*
 * A column is about to be dropped locally: its values are forgotten, a new column of the same name starts empty.
 * KEY: a key column of a table that has rows, and they are gone; DIFFERS: it is another column there, and nothing was
 * done, *difference is for an errdetail.  The caller sees to it that these are rolled back, or the table is dropped, too.
 */
typedef enum MosqlColumnDrop
{
	MOSQL_COLUMN_DROPPED,
	MOSQL_COLUMN_KEY,
	MOSQL_COLUMN_DIFFERS
} MosqlColumnDrop;

extern MosqlColumnDrop mosql_table_drop_column(Relation rel, MosqlSession *session, const char *name,
											   char **difference);

/* DROP: definition and data go when the transaction commits. */
extern void mosql_table_drop(Relation rel, MosqlSession *session);

/* TRUNCATE: a new empty tree from commit on.  restart: its sequences start again. */
extern void mosql_table_truncate(Relation rel, MosqlSession *session, bool restart);

/*
 * A utility statement that runs (before.c), perhaps within another one: event triggers and functions run statements
 * of their own.  What is noted at its beginning for its end is its own.
 */
typedef struct MosqlTableCommand
{
	struct MosqlTableCommand *outer;
	CommandId	start;			/* catalog rows with this command id, or a later one, are the command's: what the
								 * transaction did before is in Redis already, or was attached to what is there */
	bool		followed;		/* its ddl_command_end was seen */
	bool		refreshing;		/* it brings here what is in Redis, and nothing there */
	bool		continues;		/* the next one within it is a part of it: ours, no user's */
	bool		drops_sequences;	/* it is DROP SEQUENCE: tables and columns stay */
	MemoryContext cxt;			/* of what is noted, below TopTransactionContext; NULL: nothing is */
	List	   *before;			/* tables, as they were */
	List	   *types;			/* of admin/type.c */
	void	   *sequence;		/* of admin/sequence.c */
} MosqlTableCommand;

/* The running one: never NULL.  Without a hook that enters one, a session's first, it is the outermost. */
extern MosqlTableCommand *mosql_table_command;

/* A statement runs, and is done or has failed; the struct is the caller's, and lives as long. */
extern void mosql_table_enter_command(MosqlTableCommand *command);
extern void mosql_table_leave_command(MosqlTableCommand *command);

/* Its ddl_command_start: what was noted for another one is forgotten. */
extern void mosql_table_begin_command(void);

/* For what is noted until it ends; at its end lists and pointers to that are NULL. */
extern MemoryContext mosql_table_command_context(void);

/* Did the running DDL command make this version of a catalog row? */
extern bool mosql_table_is_of_command(HeapTuple tuple);

/* The namespace-wide name: options schema_name and table_name, else the local ones. */
extern void mosql_table_remote_name(Relation rel, const char **schema, const char **name);

/* What the option of this name says in a list of options; NULL: it is not there. */
extern const char *mosql_table_option(List *options, const char *name);

/* The same of a table, or else of its server. */
extern const char *mosql_table_or_server_option(Oid relid, const char *name);

/* Option compression of the table, or its server; NONE: leaves are not packed. */
extern MosqlCompression mosql_table_compression(Oid relid);

/* Option placement: are the first leaves of the table, and of its indexes, to be on the clock's node? */
extern bool mosql_table_is_together(Oid relid);

/* Option pack_after: seconds after which maintenance packs a leaf; -1: never. */
extern int	mosql_table_pack_after_s(Oid relid);
#define MOSQL_PACK_NEVER	"never"

/* ---- what they are (definition.c, catalog.c) ---- */

/* A table's definition as the catalog in Redis has it. */
typedef struct MosqlDefinitionColumn
{
	uint32		id;
	const char *name;
	const char *type;			/* as format_type prints it, schema-qualified unless
								 * it is in pg_catalog; base type of domains */
	const char *collation;		/* the same, quoted; "" for types without one */
	bool		not_null;
	bool		dropped;
	int			key_position;	/* 0-based, -1: not in the key */
	MosqlBytes	missing;		/* value in rows that lack the column, as a column of a
								 * row; absent: null */
	int			nlabels;		/* of an enum, or an array of one: its labels; their OIDs */
	MosqlLabel *labels;			/* are set where this describes a local relation */
	const char *shape;			/* of a composite type, or what is made of one (type.c);
								 * NULL: it is none */
	const char *layout;			/* the same in OIDs, of a local relation alone */
	MosqlSequence sequence;

	/* for IMPORT FOREIGN SCHEMA and mosql_fdw_refresh() alone; NULL: none, or none that
	 * others understand; empty: dropped */
	const char *expression;		/* default, or what it is generated by */
	bool		generated;		/* also if by something that others do not understand */
	const char *comment;
	List	   *former;			/* its names before RENAME, oldest first */
} MosqlDefinitionColumn;

/* A CHECK constraint, for IMPORT FOREIGN SCHEMA. */
typedef struct MosqlDefinitionCheck
{
	const char *name;
	const char *expression;		/* empty: dropped */
	int			ncolumns;		/* ids of those it is about */
	uint32	   *columns;
	bool		invalid;		/* before.c: NOT VALID here */
} MosqlDefinitionCheck;

/* An index, by the ids of the table's columns. */
typedef struct MosqlDefinitionIndexColumn
{
	uint32		column;			/* 0: an expression */
	bool		descending;
	bool		nulls_first;
	const char *expression;		/* expression.c; NULL: a column */
	const char *type;			/* of the expression, as those of columns */
	const char *collation;
} MosqlDefinitionIndexColumn;

typedef struct MosqlDefinitionIndex
{
	uint32		id;
	const char *name;
	uint64		root;
	bool		unique;
	bool		nulls_not_distinct;
	bool		constraint;		/* it belongs to a UNIQUE constraint */
	int			nkeys;
	MosqlDefinitionIndexColumn *keys;
	int			nincluded;
	uint32	   *included;
	const char *predicate;		/* expression.c; NULL: it has all rows */
	const char *locale;			/* that these depend on, NULL: on none */
	bool		ordered;		/* they compare labels of enums by their order */
} MosqlDefinitionIndex;

/* An index under construction. */
typedef struct MosqlDefinitionBuild
{
	uint32		id;
	MosqlDefinitionIndex index; /* root: of the tree that it is built in */
	uint64		log;			/* root of the tree of changes */
	uint64		session;		/* who builds it */
	bool		closing;		/* nobody may write to the table */
} MosqlDefinitionBuild;

/*
 * A foreign key, in the definition of the table that has it; and in that of the table
 * that it leads to, so that whoever changes that one knows.  Both are written together.
 */
typedef struct MosqlDefinitionReference
{
	uint32		id;
	const char *name;
	const char *schema;			/* of the table that it leads to */
	const char *table;
	bool		validated;
	bool		deferrable;
	bool		deferred;
	char		match;			/* as pg_constraint says it: */
	char		on_update;
	char		on_delete;
	int			n;
	uint32	   *columns;		/* ids */
	uint32	   *referenced;		/* ids of the other table's */
	int			nset;			/* ON DELETE SET ... (columns); 0: all */
	uint32	   *set;
} MosqlDefinitionReference;

typedef struct MosqlDefinitionReferrer
{
	uint32		id;
	const char *name;			/* of the foreign key */
	const char *schema;			/* of the table that has it */
	const char *table;
	int			n;
	uint32	   *columns;		/* ids of this table's */
} MosqlDefinitionReferrer;

typedef struct MosqlDefinition
{
	const char *schema;
	const char *name;
	uint64		id;
	uint64		root;
	bool		hidden_row_id;	/* no key columns */
	uint32		next_column;	/* id of the next column added */
	int			ncolumns;
	MosqlDefinitionColumn *columns;
	int			nindexes;
	MosqlDefinitionIndex *indexes;	/* by ascending id */
	int			nbuilds;
	MosqlDefinitionBuild *builds;	/* by ascending id */
	int			nreferences;
	MosqlDefinitionReference *references;	/* the table's foreign keys, by ascending id */
	int			nreferrers;
	MosqlDefinitionReferrer *referrers; /* and those that lead to it */
	const char *comment;		/* these two for IMPORT FOREIGN SCHEMA alone */
	int			nchecks;
	MosqlDefinitionCheck *checks;
	MosqlTimestamp version;		/* of the catalog row read */
	bool		claimed;		/* which somebody has locked (lock.c), as far as was looked */
	MosqlBytes	bytes;			/* as stored */
} MosqlDefinition;

/*
 * All definitions of a schema (schema NULL: of the namespace), by name: what
 * IMPORT FOREIGN SCHEMA lists.  In the current context.
 */
extern int	mosql_table_definitions(MosqlSession *session, const char *schema,
									MosqlDefinition **definitions);

/* The key of a table's row there; schema or name NULL: the prefix of all below. */
extern MosqlBytes mosql_catalog_key(const char *schema, const char *name);

/* The root of the tree that holds the definitions. */
extern uint64 mosql_table_catalog_root(void);

/* The local relation, in the terms of a definition: ids, root and key positions
 * beyond "is in the key" are not filled. */
extern MosqlDefinition *mosql_definition_describe(Relation rel);

/* A type by its name in a definition; 42704. */
extern void mosql_table_find_type(const char *name, Oid *type, int32 *typmod);

/* The first difference between a local and a stored definition; NULL if none. */
extern char *mosql_definition_difference(const MosqlDefinition *here,
										 const MosqlDefinition *there);

/*
 * Changes of what is in a definition for IMPORT FOREIGN SCHEMA alone.  Nothing
 * happens where the definition or the column is not there.
 */
typedef struct MosqlDetail
{
	enum {MOSQL_DETAIL_EXPRESSION, MOSQL_DETAIL_COMMENT, MOSQL_DETAIL_CHECK} kind;
	const char *name;			/* of the column or constraint; NULL: the table */
	const char *text;			/* empty: dropped; NULL: others would not understand it */
	bool		generated;
	List	   *columns;		/* CHECK: names of those it is about */
	bool		invalid;		/* CHECK: NOT VALID */
	bool		untouched;		/* the command has not made it, but may have changed what it is called by */
} MosqlDetail;

/* 42P16 where a CHECK constraint that the command drops or makes anew is another one there. */
extern void mosql_table_follow_details(Relation rel, MosqlSession *session,
									   const MosqlDetail *details, int n);

/*
 * A command may alter the table: what it is here is noted (before.c), with these details, until the next command
 * begins.  What it alters is then compared with what is in Redis.  False: it was noted already.
 */
extern bool mosql_table_note_before(Relation rel, const MosqlDetail *details, int n);

/* Of a table that was noted: the sequence that a column has, without counter. */
extern void mosql_table_note_sequence_before(Relation rel, const char *column, const MosqlSequence *sequence);

/*
 * ALTER TYPE and its like: names of types, collations, labels and attributes in a
 * definition (wording.c).  What the local relation said before the command and says
 * after it; indexes are those computed by expressions.
 */
typedef struct MosqlWording
{
	MosqlDefinition *columns;	/* mosql_definition_describe() */
	const MosqlDetail *details;
	int			ndetails;
	MosqlDefinitionIndex *indexes;
	int			nindexes;
} MosqlWording;

/*
 * Where the definition in Redis says what `before` says, it says from now on what `after`
 * does.  Returns whether that changes it; write false: look only.  0A000 for a label
 * within another type, and where an index has such labels as keys.
 */
extern bool mosql_table_reword(Relation rel, MosqlSession *session, const MosqlWording *before,
							   const MosqlWording *after, bool write);

/*
 * From here to the end of the transaction, or unlock, no session of this server compares the table's
 * definition with the catalogs.  Waits for those that do now.
 */
extern void mosql_wording_lock(Oid relid);
extern void mosql_wording_unlock(Oid relid);

/* ---- types that consist of others (type.c) ---- */

/*
 * What a type is made of, in words that mean the same on every server:
 * "(a integer, b text)"; NULL if no composite type is in it.  layout: in OIDs and
 * attribute numbers.
 */
extern const char *mosql_type_shape(Oid type, bool layout);

/* Is a value of this type, or part of one, of that type?  ANYENUMOID: of any enum. */
extern bool mosql_type_contains(Oid type, Oid part);

/*
 * 0A000 if values of regclass, its like or aclitem, or parts of them, would be in a new
 * column: in Redis they are names, which mean something else, or nothing, when the objects
 * are renamed.
 */
extern void mosql_type_check_names(Form_pg_attribute att);

/* Is it this domain, or a domain over it? */
extern bool mosql_type_is_domain_of(Oid type, Oid domain);

/* The enum that a type is, or is an array of; InvalidOid: neither. */
extern Oid	mosql_type_enum(Oid type);

/*
 * An index is to compare labels by their order: the definition says that of this server from now on.  55000
 * where an index that is there goes by another one, and for labels that lack here.  Where there is such an index
 * already it changes nothing: a new column, too, must agree.
 */
extern void mosql_definition_order_labels(Relation rel, MosqlDefinition *there);

/* The labels of an enum in their order, stored by their own names; their number. */
extern int	mosql_type_labels(Oid type, MosqlLabel **labels);

/* The definition of one table, or NULL.  One round trip. */
extern MosqlDefinition *mosql_table_definition(MosqlSession *session, const char *schema,
											   const char *name);

/* Those of n tables, by mosql_catalog_key(), likewise.  One round trip, and one for their snapshot. */
extern MosqlDefinition **mosql_table_definitions_of(MosqlSession *session, const MosqlBytes *keys, int n);

/* The one behind a foreign table; if it is gone NULL, or 42P01. */
extern MosqlDefinition *mosql_definition_of(Relation rel, MosqlSession *session);
extern MosqlDefinition *mosql_definition_of_existing(Relation rel, MosqlSession *session);

/*
 * What a tree's root says about whose tree it is (label.c): key of the catalog row, and a
 * copy of that row, empty where the tree is an index, or a column's counter.
 */
typedef struct MosqlTableLabel
{
	MosqlBytes	key;
	MosqlBytes	row;
} MosqlTableLabel;

/* False if it has none, or a damaged one.  One round trip. */
extern bool mosql_table_read_label(MosqlSession *session, uint64 root, MosqlTableLabel *label);

/* "table public.t (id integer)", "index or sequence of public.t"; NULL if it is damaged. */
extern char *mosql_table_label_text(const MosqlTableLabel *label);

/*
 * Put the definition back that a table's or sequence's label has a copy of, as part of the
 * current transaction; dry_run: only look.  What it names and Redis has lost, or whose root
 * is damaged, is left out: notes gets a sentence (char *) about each.  42P07 if there is one
 * of that name; 55000 if the label has no copy, or the tree is being destroyed; XX001 if it is that of another tree than
 * this one.  What it names is taken off the list of dropped trees: the caller has MOSQL_JOB_GARBAGE.
 */
extern void mosql_table_attach(MosqlSession *session, uint64 root, const MosqlTableLabel *label,
							   bool dry_run, List **notes);

/* What is wrong with a row of the definitions' tree; NULL: nothing. */
extern const char *mosql_table_definition_fault(MosqlBytes key, MosqlBytes columns);

/* Label the trees of all definitions that are there, where they are not: maintenance. */
extern void mosql_table_refresh_labels(MosqlSession *session);

/*
 * CREATE INDEX: register an index, whose id and root are chosen here, and build
 * it, or attach to the one of that name if it is the same (else 42P16).  Part of
 * the transaction, which becomes SERIALIZABLE to build it: 40001 if somebody
 * writes to the table meanwhile.  23505 for duplicates, 0A000 for columns that
 * cannot be keys.
 */
extern void mosql_table_create_index(Relation rel, MosqlSession *session,
									 MosqlDefinitionIndex *index);

/*
 * The same while others write to the table, in several transactions: only where
 * PostgreSQL's transaction is this command alone and mosql_txn_may_chain().  begin
 * builds the index and follows what is changed meanwhile; finish keeps writers
 * waiting, follows the last changes, and makes it an index of the table as part of
 * the current transaction.  If that is rolled back nothing stays.  Needs a lock
 * on the relation that keeps DDL out (ShareUpdateExclusiveLock).  40001 if another
 * server changes the table's columns, or truncates it, meanwhile; 23505 if rows have the same, 23P01 if it is to be
 * an exclusion constraint here.
 */
typedef struct MosqlBuild MosqlBuild;
extern MosqlBuild *mosql_table_begin_build(Relation rel, MosqlSession *session,
										   const MosqlDefinitionIndex *index, bool exclusion);
extern void mosql_table_finish_build(MosqlBuild *build);

/*
 * Take away what builders left that died: their number.  Commits each by itself: only
 * where mosql_txn_may_chain().
 */
extern int	mosql_table_drop_dead_builds(MosqlSession *session);

/*
 * REINDEX: the index gets a new tree, built as CREATE INDEX does it, and the old one is
 * dropped.  Nothing of the old one is read.  False if there is none of that name.
 */
extern bool mosql_table_rebuild_index(Relation rel, MosqlSession *session, const char *name);

/* DROP INDEX, RENAME: of an index of this definition, which the caller has compared with the one that is meant. */
extern void mosql_table_drop_index(Relation rel, MosqlSession *session, MosqlDefinition *there,
								   MosqlDefinitionIndex *index);
extern void mosql_table_rename_index(Relation rel, MosqlSession *session, MosqlDefinition *there,
									 MosqlDefinitionIndex *index, const char *to);

/* UNIQUE USING INDEX: RENAME, perhaps to the name that it has, and it is a constraint's from now on. */
extern void mosql_table_constrain_index(Relation rel, MosqlSession *session, MosqlDefinition *there,
										MosqlDefinitionIndex *index, const char *to);

/* 42P16: the local and the stored definition differ, with this errdetail. */
extern void mosql_table_differs(Relation rel, const char *difference) pg_attribute_noreturn();

/* ---- foreign keys (reference.c) ---- */

/* Is a column part of a foreign key, of this or another server? */
extern bool mosql_table_is_referencing(const MosqlTable *table, AttrNumber attnum);

/* The foreign key of that name, NULL if there is none. */
extern MosqlDefinitionReference *mosql_definition_reference(const MosqlDefinition *definition,
															const char *name);

/* Are they the same, whatever their names, and whether validated or not? */
extern bool mosql_definition_same_reference(const MosqlDefinitionReference *a,
											const MosqlDefinitionReference *b);

/*
 * ADD FOREIGN KEY, DROP CONSTRAINT, RENAME CONSTRAINT, VALIDATE CONSTRAINT: in both
 * definitions.  add chooses the id; drop and rename get one of the child's definition, which the caller has
 * compared with the one that is meant; validate and defer get what the caller looked at, and throw 40001 if that is
 * no more, or another one.
 */
extern void mosql_table_add_reference(Relation rel, Relation referenced, MosqlSession *session,
									  const MosqlDefinitionReference *reference);
extern void mosql_table_drop_reference(Relation rel, MosqlSession *session, MosqlDefinition *child,
									   MosqlDefinitionReference *reference);
extern void mosql_table_rename_reference(Relation rel, MosqlSession *session, MosqlDefinition *child,
										 MosqlDefinitionReference *reference, const char *to);
extern void mosql_table_validate_reference(Relation rel, MosqlSession *session,
										   const MosqlDefinitionReference *validated);
extern void mosql_table_defer_reference(Relation rel, MosqlSession *session,
										const MosqlDefinitionReference *before,
										bool deferrable, bool deferred);

/* Are all columns of a CHECK constraint still there? */
extern bool mosql_definition_check_holds(const MosqlDefinition *definition,
										 const MosqlDefinitionCheck *check);

/* The index of that name in a definition, NULL if none. */
extern MosqlDefinitionIndex *mosql_definition_index(const MosqlDefinition *definition,
													const char *name);

/* Is an index computed by expressions or a predicate? */
extern bool mosql_definition_is_computed(const MosqlDefinitionIndex *index);

/* Is this key column one of citext?  They go with the locale of the database. */
struct MosqlAttributes;
extern bool mosql_index_key_is_citext(const MosqlDefinitionIndex *index, int position,
									  const struct MosqlAttributes *attributes);

/* Do they index the same, whatever their names and trees? */
extern bool mosql_definition_same_index(const MosqlDefinitionIndex *a,
										const MosqlDefinitionIndex *b);

/* The column of that name that is not dropped, NULL if none. */
extern MosqlDefinitionColumn *mosql_definition_column(const MosqlDefinition *definition,
													  const char *name);

/*
 * Set by the fdw layer: an expression with nextval() drawing from Redis where the sequence
 * is ours, for the rows that get a new column.
 */
extern Node *(*mosql_table_share_hook) (Node *expr);

/* ---- expressions (expression.c) ---- */

/* Names that mean the same on every server: of a type (of a domain, its base type),
 * of a collation (InvalidOid: ""), and back.  oid: 42704 if there is none here. */
extern const char *mosql_type_name(Oid type, int32 typmod);
extern void mosql_type_oid(const char *name, Oid *type, int32 *typmod);
extern const char *mosql_collation_name(Oid collation);
extern Oid	mosql_collation_oid(const char *name);

/* The attributes of a local relation by column id: attnum - 1, -1: none. */
typedef struct MosqlAttributes
{
	Oid			relid;
	int			nids;
	const int16 *by_id;
	const MosqlDefinition *definition;
} MosqlAttributes;

/* ... as a definition's columns are called; in the current context. */
extern MosqlAttributes mosql_definition_attributes(const MosqlDefinition *definition, Oid relid);

/*
 * Is it made of what all servers have and what harms none: built-in functions of a list,
 * operators, types, and labels of enums, compared for equality (portable.c)?
 */
extern bool mosql_expression_is_portable(Node *node);

/* The same of an index, whose definition vouches for the order of labels, and the enums whose labels
 * it compares by that. */
extern bool mosql_expression_is_portable_in_index(Node *node);
extern List *mosql_expression_ordered_enums(Node *node);

/* Does it name a text search configuration or dictionary?  Then no index may have it. */
extern bool mosql_expression_is_searching(Node *node);

/* nextval('name') or nextval('name'::regclass), unanalysed: the name. */
extern bool mosql_raw_is_draw(Node *node, const char **name);

/*
 * Call that, and return NULL, or what is wrong with a text that it read: errors of syntax,
 * of names and types that are not here, and of values.  It may throw all else.
 */
typedef void (*MosqlReader) (void *arg);
extern const char *mosql_expression_try(MosqlReader read, void *arg);

/*
 * From now on constants are written and read as all servers do, and names that need no schema are
 * those of pg_catalog: until AtEOXact_GUC(true, ) of what it returns.
 */
extern int	mosql_expression_settings(void);

/*
 * The default of a column of the definition, what it is generated by, or (column NULL)
 * a CHECK constraint, as SQL that PostgreSQL printed after it had read the text: under a
 * search_path of pg_catalog alone, it says what is looked at here.  0A000 for what is not
 * portable, errors of the parser, XX001 for what is no expression.
 * without_draws: the tree, less the calls of nextval() that a default may have.
 */
typedef Node *(*MosqlDraws) (Node *node, void *context);
extern char *mosql_expression_localize(const MosqlDefinition *definition,
									   const MosqlDefinitionColumn *column, const char *text,
									   MosqlDraws without_draws, void *context);

/* The unanalysed calls of nextval() in a text: names, char *.  XX001 as above. */
extern List *mosql_expression_draws(const char *text);

/* As SQL with the names of a relation's columns, whatever the session's settings. */
extern char *mosql_expression_text(Node *node, Oid relid);

/* The same as it names an index column, in messages. */
extern char *mosql_expression_label(Node *node, Oid relid);

/*
 * An index's expression, or predicate, of columns of the relation (varno 1), as the
 * text for a definition, and back.  encode: a portable, immutable one; 0A000 for a
 * column that is not stored.  decode: XX001 unless it is such a one; and whatever
 * the parser says of functions that this server does not have.
 */
extern char *mosql_expression_encode(Node *node, const MosqlAttributes *attributes,
									 bool predicate);
extern Node *mosql_expression_decode(const char *text, const MosqlAttributes *attributes,
									 bool predicate);

/* decode, where the columns have other types now: 42P17, 0A000 for what CREATE INDEX would refuse. */
extern Node *mosql_expression_retype(const char *text, const MosqlAttributes *attributes, bool predicate);

/*
 * Fill in what an index is computed by: such a node, and the collation by its name
 * (mosql_collation_name).  0A000 for types that cannot be keys.
 */
extern void mosql_definition_set_expression(MosqlDefinitionIndex *index, int position, Node *node,
											const char *collation,
											const MosqlAttributes *attributes);

/* The locale of an index that has citext as keys; after the others. */
extern void mosql_definition_note_locale(MosqlDefinitionIndex *index,
										 const MosqlAttributes *attributes);
extern void mosql_definition_set_predicate(MosqlDefinitionIndex *index, Node *node,
										   const MosqlAttributes *attributes);

/*
 * What an index is computed by on this server, over the relation as varno 1.  What is
 * wrong with its texts here becomes `broken`, the rest is left as it came.
 */
typedef struct MosqlComputed
{
	Node	  **expressions;	/* by key column; NULL: a column of the table */
	Node	   *predicate;		/* NULL: it has all rows */
	const char *broken;			/* NULL: nothing */
} MosqlComputed;

extern MosqlComputed mosql_index_compute(const MosqlDefinitionIndex *definition,
										 const MosqlAttributes *attributes);

/* Does that text have this column?  Without a look at functions and types. */
extern bool mosql_expression_has_column(const char *text, uint32 id);

/* That text with another column in place of one. */
extern char *mosql_expression_renumber(const char *text, uint32 from, uint32 to);

/* What the expression's value depends on besides: the locale of the database, by
 * name; NULL: it does not. */
extern const char *mosql_expression_locale(Node *node);
extern const char *mosql_expression_database_locale(void);

/*
 * Is its value here what it is in a database whose encoding is UTF-8?  Functions of
 * characters are not that look at the bytes, whatever the collation.
 */
extern bool mosql_expression_fits_encoding(Node *node);

/*
 * Does it compare labels of enums by their order?  0A000 unless the definition has columns of
 * these enums: what the labels of those are is the order.  check_order: unless that is the one here.
 */
extern bool mosql_expression_check_enums(Node *node, const MosqlAttributes *attributes);
extern void mosql_expression_check_order(Node *node, const MosqlAttributes *attributes);

/* 0A000 if not, unless it goes with the name of the locale, which includes the encoding. */
extern void mosql_expression_check_encoding(Node *node);

#endif							/* MOSQL_DEFINITION_H */
