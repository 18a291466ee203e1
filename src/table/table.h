/*
 * table.h: a foreign table as its tree, its key and the codecs of its columns.
 *
 * Layer: table.  Knows Datums, types and the catalog in Redis; knows no plan.
 */
#ifndef MOSQL_TABLE_H
#define MOSQL_TABLE_H

#include "base/base.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "txn/txn.h"
#include "utils/rel.h"

/* How a type is ordered as a key. */
typedef enum MosqlKeyClass
{
	MOSQL_KEY_NONE,				/* cannot be a key */
	MOSQL_KEY_BOOL, MOSQL_KEY_INT, MOSQL_KEY_FLOAT, MOSQL_KEY_NUMERIC,
	MOSQL_KEY_TEXT,				/* text, varchar */
	MOSQL_KEY_BPCHAR,			/* trailing blanks do not count */
	MOSQL_KEY_BYTEA, MOSQL_KEY_UUID,
	MOSQL_KEY_DATE, MOSQL_KEY_TIME, MOSQL_KEY_TIMETZ, MOSQL_KEY_TIMESTAMP, MOSQL_KEY_INTERVAL,
	MOSQL_KEY_ENUM				/* by label: equality only */
} MosqlKeyClass;

/* How a value is stored in a row; docs: src/table/README.md. */
typedef enum MosqlCodec
{
	MOSQL_CODEC_FIXED,			/* passed by value, fixed_width bytes */
	MOSQL_CODEC_UUID,			/* its 16 bytes */
	MOSQL_CODEC_TEXT,			/* a varlena of characters: stored in UTF-8 */
	MOSQL_CODEC_BYTEA,			/* a varlena of bytes: as they are */
	MOSQL_CODEC_BINARY,			/* the type's send and receive functions */
	MOSQL_CODEC_INOUT,			/* its output and input functions: binary form names
								 * OIDs that only this server knows */
	MOSQL_CODEC_ENUM,			/* what the definition stores for the label */
	MOSQL_CODEC_ENUMS			/* array of such, as an array of text */
} MosqlCodec;

/*
 * A label of an enum.  What rows store of it never changes, whatever becomes of its
 * name: RENAME VALUE touches the definition alone.
 */
typedef struct MosqlLabel
{
	Oid			oid;			/* here; InvalidOid: this server has no label of that name */
	const char *name;
	const char *stored;
} MosqlLabel;

typedef struct MosqlLabels
{
	Oid			type;			/* of the elements, for arrays; as declared */
	int			n;
	MosqlLabel *by_oid;			/* ascending */
	MosqlLabel *by_stored;		/* by strcmp */
} MosqlLabels;

/* The sequence of a column, which all servers draw from (sequence.c). */
typedef struct MosqlSequence
{
	uint64		counter;		/* node of the counter; 0: the column has none */
	int64		start;
	int64		increment;
	int64		min;
	int64		max;
	int64		cache;
	bool		cycle;
	bool		identity;		/* GENERATED ... AS IDENTITY, else a default */
	bool		always;			/* ... ALWAYS */
} MosqlSequence;

typedef struct MosqlTableColumn
{
	AttrNumber	attnum;
	uint32		id;				/* stable id from the catalog in Redis */
	Oid			type;			/* base type for domains */
	int32		typmod;
	Oid			collation;
	int			key_position;	/* 0-based position in the key, -1: none */
	MosqlKeyClass key_class;
	bool		not_null;		/* in Redis: another server may see to it */
	bool		in_row;			/* value stored in the row (false: the key gives it back) */
	bool		range_order;	/* key order = the type's btree order (text: only
								 * collation C); false: only equality may be pushed */
	bool		nullable;		/* key column of an index: a marker before the value */
	bool		descending;		/* ... the value's bytes are inverted */
	bool		nulls_first;	/* ... the marker of null is below that of values */
	bool		has_missing;	/* rows from before it was added lack it: then it is */
	Datum		missing;		/* this, never null */
	MosqlSequence sequence;
	/* codec, filled by codec.c */
	MosqlCodec	codec;
	int			fixed_width;	/* FIXED: 1, 2, 4, 8; UUID: 16; else 0 */
	bool		byval;
	int16		typlen;
	FmgrInfo	send;			/* INOUT: output and input */
	FmgrInfo	receive;
	Oid			ioparam;
	MosqlLabels *labels;		/* ENUM, ENUMS */
	Oid			reader;			/* whose functions `receive` may run, of domains inside; or
								 * InvalidOid: none that matter */
	/* key column of an index that is no attribute: its attnum is above them */
	Node	   *expression;		/* of the table's attributes, as varno 1; as pg_index has it */
	Node	   *planned;		/* the same without constants to fold, as queries have it */
	struct ExprState *state;
} MosqlTableColumn;

/*
 * An index of a table.  Its entries are rows of a tree of their own, and described
 * as a table of their own: the same attributes, another key.  Where the index has
 * expressions, they are columns behind the attributes (natts does not count them):
 * part of the key, never of a row.
 *
 *     key      the index columns, each with its null marker; then, unless the
 *              entry is unique by them, the key of the table's row
 *     columns  INCLUDE columns, and those whose value the key does not give back,
 *              under the table's column ids; for unique entries the key of the
 *              table's row as column 0
 */
typedef struct MosqlIndex
{
	uint32		id;
	const char *name;			/* as another server may know it, too */
	bool		unique;
	bool		nulls_not_distinct;
	struct MosqlTable *entries;
	/* of indexes with expressions or a predicate */
	const char *broken;			/* why this server cannot compute it; NULL: it can */
	Node	   *predicate;		/* rows for which it is not true have no entry; NULL: none */
	List	   *implied;		/* the same, ready to be compared with a query's conditions */
	struct ExprState *predicate_state;
	struct ExprContext *econtext;	/* NULL: there is nothing to compute */
	bool	   *reads;			/* the attributes that it is computed by, by attnum - 1 */
} MosqlIndex;

/*
 * An index that is being built while others write to its table: whoever does so
 * also writes what that changes in the index into a log, a tree of its own, from which
 * the builder catches up (build.c).  closing: the builder is reading the end of the
 * log, and nobody may write.
 */
typedef struct MosqlBuildLog
{
	uint32		id;
	MosqlIndex	index;
	uint64		root;
	MosqlTree  *tree;			/* set by each mosql_table_open() */
	bool		closing;
} MosqlBuildLog;

typedef struct MosqlTable
{
	Oid			relid;
	MosqlSession *session;
	uint64		root;
	MosqlTree  *tree;			/* set by each mosql_table_open() */
	uint64		id;				/* table id in the catalog in Redis */
	int			natts;			/* of the local relation */
	MosqlTableColumn *columns;	/* [natts], by attnum - 1; dropped ones have attnum 0 */
	int			nkeys;			/* 0: hidden row id */
	AttrNumber *key_attnums;	/* [nkeys] in key order */
	bool		is_index;		/* this describes entries: behind the key columns may
								 * be the key of the table's row */
	bool		unique_key;		/* values of all key columns, none null, are one row:
								 * false for entries of an index that is not unique */
	int			nmissing;		/* columns that rows may lack without being null */
	AttrNumber *missing;
	int			nindexes;		/* of a table; its entries' tables have none */
	MosqlIndex *indexes;
	int			nbuilds;
	MosqlBuildLog *builds;
	bool		closing;		/* one of them is */
	int			nreferences;	/* its foreign keys, and those that lead to it */
	struct MosqlDefinitionReference *references;
	int			nreferrers;
	struct MosqlDefinitionReferrer *referrers;
	uint64		schema;			/* schema version it was loaded at */
	MosqlBytes	definition;		/* as stored */
	bool		rules_hold;		/* mosql_table_check_rules() has found so */
	/* column id -> attnum - 1, -1 for columns unknown here */
	int			nids;
	int16	   *by_id;
} MosqlTable;

/*
 * The table behind a foreign table, from the backend's cache; loads its
 * definition from Redis on first use and checks it against the local one.
 * Throws 42P01 when it does not exist there (dropped by another server), 42P16
 * with a detail when the definitions differ.  Valid until the end of the
 * statement (a relcache invalidation or a newer schema version replaces it).
 */
extern MosqlTable *mosql_table_open(Relation rel, MosqlSession *session);

/*
 * The same at the start of a statement that has its plan already.  40001 if the plan,
 * a cached one, was made by a definition of which something no longer holds.
 */
extern MosqlTable *mosql_table_open_planned(Relation rel, MosqlSession *session);

/*
 * The same for a command that writes: waits while an index of the table is being
 * finished, some 50 ms as a rule; 55P03 after mosql_fdw.commit_timeout, 40001 if the
 * builder is dead, or the transaction's snapshot does not let it see the end.
 */
extern MosqlTable *mosql_table_open_for_write(Relation rel, MosqlSession *session);

/*
 * Before rows are written: does the relation say all that rows must satisfy by the
 * definition in Redis?  55000 for a CHECK that is not known here, and for a column that is
 * generated otherwise.  NOT NULL is the caller's to see to.
 */
extern void mosql_table_check_rules(Relation rel, MosqlTable *table);

/*
 * Before an error that says so: 40001 if the definition may have changed since the table
 * was opened, so that nobody is refused by a rule that is no more.  One round trip.
 */
extern void mosql_table_confirm_rules(const MosqlTable *table);

/* Has a row entries somewhere, in indexes or in logs? */
static inline bool
mosql_table_has_entries(const MosqlTable *table)
{
	return table->nindexes + table->nbuilds > 0;
}

/* ---- keys ---- */

/*
 * Append the encoding of one key column; value not null.  Any length: a range's
 * bound may be longer than any key (mosql_table_slot_key has the limit).
 */
extern void mosql_table_put_key(const MosqlTable *table, int key_position, Datum value, StringInfo out);

/* The same for a null, in a key column of an index. */
extern void mosql_table_put_null(const MosqlTable *table, int key_position, StringInfo out);

/* The whole key of a row in a slot; 23502 if a key column is null, 54000 if it
 * is longer than MOSQL_KEY_MAX_BYTES. */
extern void mosql_table_slot_key(const MosqlTable *table, TupleTableSlot *slot, StringInfo out);

/* A fresh hidden row id as a key (tables without key columns). */
extern void mosql_table_new_row_id(const MosqlTable *table, StringInfo out);

/* Are the bytes of a key of characters in the order of this collation? */
extern bool mosql_key_is_byte_order(Oid collation);

/* A column of the key as messages name it: of an attribute, not quoted. */
extern char *mosql_table_key_name(const MosqlTable *table, int key_position);

/*
 * The values in a key, none of them null, by their position in it; in the current
 * context.  They equal those that it was made of.  XX001.
 */
extern void mosql_table_key_values(const MosqlTable *table, MosqlBytes key, Datum *values);

/* "(a, b)=(1, x)" for error details, as PostgreSQL's unique violations say it. */
extern char *mosql_table_describe_key(const MosqlTable *table, MosqlBytes key);

/*
 * The same for the current user; NULL if he may not read all of these columns, as core
 * decides what an error shows.  InvalidAttrNumber is for an expression: only who may
 * read the whole table sees its value.
 */
extern char *mosql_table_show_key(const MosqlTable *table, MosqlBytes key);
extern bool mosql_table_may_see(Oid relid, const AttrNumber *columns, int n);

/* ---- indexes ---- */

typedef enum MosqlEntryKind
{
	MOSQL_ENTRY_NONE,			/* the row is not in the index: its predicate is not true */
	MOSQL_ENTRY_SHARED,			/* its key ends with that of the row */
	MOSQL_ENTRY_ALONE			/* its key is the index columns alone: another row with
								 * this entry is a duplicate (23505) */
} MosqlEntryKind;

/*
 * The entry of a row: its key, and what is stored with it, appended.  key: of the
 * table's row.  An entry of a unique index with a null is a shared one.  55000 if
 * this server cannot compute the index; what its expressions throw.
 */
extern MosqlEntryKind mosql_index_entry(const MosqlIndex *index, TupleTableSlot *slot, MosqlBytes key,
									StringInfo entry_key, StringInfo entry_columns);

/*
 * Write the entries of a row: all of a new one, none of a deleted one, what
 * differs for a changed one.  key: of the row.  Unique entries are looked up
 * later (mosql_txn_check_inserts on their trees), but for those of the indexes in
 * `free` (places in table->indexes), which were read and are not there; where this
 * transaction itself has the entry already, or this command gave it to another row, its
 * index is returned, with the entry's key in the current context; else NULL.
 */
extern const MosqlIndex *mosql_table_insert_entries(const MosqlTable *table, MosqlTxn *txn,
													TupleTableSlot *slot, MosqlBytes key,
													CommandId cid, const Bitmapset *free,
													MosqlBytes *duplicate);
extern const MosqlIndex *mosql_table_delete_entries(const MosqlTable *table, MosqlTxn *txn,
													TupleTableSlot *slot, MosqlBytes key,
													CommandId cid, MosqlBytes *duplicate);
extern const MosqlIndex *mosql_table_replace_entries(const MosqlTable *table, MosqlTxn *txn,
													 TupleTableSlot *old_slot, MosqlBytes old_key,
													 TupleTableSlot *new_slot, MosqlBytes new_key,
													 CommandId cid, MosqlBytes *duplicate);

/* Is a column's value in some index, or is one computed by it? */
extern bool mosql_table_is_indexed(const MosqlTable *table, AttrNumber attnum);

/* The key of the row that an entry belongs to; points into the entry.  XX001. */
extern MosqlBytes mosql_index_row_key(const MosqlIndex *index, const MosqlRow *entry);

/* What entries have of a row, as mosql_table_get_row() gives it. */
extern void mosql_index_get_row(const MosqlTable *table, const MosqlIndex *index,
								const MosqlRow *entry, const bool *needed, Datum *values,
								bool *nulls);

/* Do entries have all that is needed of a row (by attnum - 1; NULL: all)? */
extern bool mosql_index_covers(const MosqlTable *table, const MosqlIndex *index,
							   const bool *needed);

/* ---- rows ---- */

/* Append the columns of a slot (all that are in_row). 54000 over the limits. */
extern void mosql_table_put_row(const MosqlTable *table, TupleTableSlot *slot, StringInfo out);

/*
 * Key and columns into values/nulls by attnum - 1; only attributes in `needed`
 * (bitmap over attnum - 1; NULL: all), others become null.  By-reference values
 * in the current context.  XX001 if damaged.
 */
extern void mosql_table_get_row(const MosqlTable *table, MosqlBytes key, MosqlBytes columns,
								const bool *needed, Datum *values, bool *nulls);

/*
 * What is wrong with a stored row, or NULL: for checks, hence without throwing.
 * It looks at the key's and the columns' shape, not into every value.
 */
extern const char *mosql_table_check_row(const MosqlTable *table, MosqlBytes key,
										 MosqlBytes columns);

/* What the last value that was called damaged was refused for, a SQLSTATE. */
extern int	mosql_codec_refused;

/*
 * Decode every value of a row, by its type, and compare the key with the values
 * that it is made of.  XX001; types' own functions may throw whatever they like.
 */
extern void mosql_table_check_values(const MosqlTable *table, MosqlBytes key, MosqlBytes columns);

/* Characters of this database's encoding to UTF-8 and back; the same bytes
 * where nothing has to be converted.  from_utf8 returns absent for bytes that
 * are no valid text. */
extern MosqlBytes mosql_text_to_utf8(const char *text, size_t len);
extern MosqlBytes mosql_text_from_utf8(MosqlBytes stored);

/*
 * Visit all rows as the current command sees them, until one visit returns false.
 * certify: what is read is so still at commit: the transaction becomes SERIALIZABLE, 40001.
 * needed: as above; the current context of a visit lives as long as its row.
 */
typedef bool (*MosqlTableVisit) (const MosqlRow *row, TupleTableSlot *slot, void *arg);
extern void mosql_table_visit(Relation rel, MosqlSession *session, const bool *needed,
							  bool certify, MosqlTableVisit visit, void *arg);

/* ---- definitions (catalog.c, alter.c) ---- */

/*
 * CREATE FOREIGN TABLE: register the table in Redis (returns true), or attach to
 * the one of that name if its definition is the same (else 42P16 with a detail), or
 * lacks no more than its key options: then it can be used once ALTER has added them.
 * Part of the current transaction.
 */
extern bool mosql_table_create(Relation rel, MosqlSession *session);

/*
 * ALTER FOREIGN TABLE: bring the definition in Redis up to what this command
 * changed in the local one, where that touches no row; otherwise 0A000 with a
 * hint.  42P16 where they differ for other reasons.
 */
extern void mosql_table_alter(Relation rel, MosqlSession *session);

/* The table's name in Redis stands in its options, so that its local name may change. */
extern void mosql_table_pin_name(Relation rel);

/*
 * The expression of a stored generated column is another: all rows go to a new tree,
 * generated columns computed anew.  Certified, as each rewrite.
 */
extern void mosql_table_recompute(Relation rel, MosqlSession *session);

/* ALTER ... RENAME COLUMN, after it was done locally. */
extern void mosql_table_rename_column(Relation rel, MosqlSession *session,
									  const char *from, const char *to);

/* A column is about to be dropped locally: its values are forgotten, a new
 * column of the same name starts empty. 0A000 for a key column, unless the
 * table has no rows. */
extern void mosql_table_drop_column(Relation rel, MosqlSession *session, const char *name);

/* DROP: definition and data go when the transaction commits. */
extern void mosql_table_drop(Relation rel, MosqlSession *session);

/* TRUNCATE: a new empty tree from commit on.  restart: its sequences start again. */
extern void mosql_table_truncate(Relation rel, MosqlSession *session, bool restart);

/*
 * Catalog rows with this command id, or a later one, are the running DDL command's: the
 * admin layer sets it when one begins.  What the transaction did before has been brought to
 * Redis, or was attached to what is there.
 */
extern CommandId mosql_table_command_start;

/* Did the running DDL command make this version of a catalog row? */
extern bool mosql_table_is_of_command(HeapTuple tuple);

/* The namespace-wide name: options schema_name and table_name, else the local ones. */
extern void mosql_table_remote_name(Relation rel, const char **schema, const char **name);

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
	MosqlBytes	bytes;			/* as stored */
} MosqlDefinition;

/*
 * All definitions of a schema (schema NULL: of the namespace), by name: what
 * IMPORT FOREIGN SCHEMA lists.  In the current context.
 */
extern int	mosql_table_definitions(MosqlSession *session, const char *schema,
									MosqlDefinition **definitions);

/* The root of the tree that holds the definitions. */
extern uint64 mosql_table_catalog_root(void);

/* The local relation, in the terms of a definition: ids, root and key positions
 * beyond "is in the key" are not filled. */
extern MosqlDefinition *mosql_definition_describe(Relation rel);

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
} MosqlDetail;

extern void mosql_table_follow_details(Relation rel, MosqlSession *session,
									   const MosqlDetail *details, int n);

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
 * From here to the end of the transaction no session of this server compares the table's
 * definition with the catalogs.  Waits for those that do now.
 */
extern void mosql_wording_lock(Oid relid);

/* ---- types that consist of others (type.c) ---- */

/*
 * What a type is made of, in words that mean the same on every server:
 * "(a integer, b text)"; NULL if no composite type is in it.  layout: in OIDs and
 * attribute numbers.
 */
extern const char *mosql_type_shape(Oid type, bool layout);

/* Is a value of this type, or part of one, of that type?  ANYENUMOID: of any enum. */
extern bool mosql_type_contains(Oid type, Oid part);

/* Is it this domain, or a domain over it? */
extern bool mosql_type_is_domain_of(Oid type, Oid domain);

/* The enum that a type is, or is an array of; InvalidOid: neither. */
extern Oid	mosql_type_enum(Oid type);

/* The labels of an enum by OID, stored by their own names; their number. */
extern int	mosql_type_labels(Oid type, MosqlLabel **labels);

/* The definition of one table, or NULL.  One round trip. */
extern MosqlDefinition *mosql_table_definition(MosqlSession *session, const char *schema,
											   const char *name);

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

/* "table public.t (id integer)", "index or sequence of public.t"; NULL, or XX001, if it is
 * damaged. */
extern char *mosql_table_label_text(const MosqlTableLabel *label);

/*
 * Put the definition back that a table's or sequence's label has a copy of, as part of the
 * current transaction; dry_run: only look.  What it names and Redis has lost is left out:
 * notes gets a sentence (char *) about each.  42P07 if there is one of that name; 55000 if
 * the label has no copy.
 */
extern void mosql_table_attach(MosqlSession *session, const MosqlTableLabel *label, bool dry_run,
							   List **notes);

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
 * server changes the table's columns, or truncates it, meanwhile.
 */
typedef struct MosqlBuild MosqlBuild;
extern MosqlBuild *mosql_table_begin_build(Relation rel, MosqlSession *session,
										   const MosqlDefinitionIndex *index);
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

/* DROP INDEX, RENAME: nothing happens where there is no index of that name. */
extern void mosql_table_drop_index(Relation rel, MosqlSession *session, const char *name);
extern void mosql_table_rename_index(Relation rel, MosqlSession *session, const char *from,
									 const char *to);

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
 * definitions.  add chooses the id; the others do nothing where there is no foreign key
 * of that name.
 */
extern void mosql_table_add_reference(Relation rel, Relation referenced, MosqlSession *session,
									  const MosqlDefinitionReference *reference);
extern void mosql_table_drop_reference(Relation rel, MosqlSession *session, const char *name);
extern void mosql_table_rename_reference(Relation rel, MosqlSession *session, const char *from,
										 const char *to);
extern void mosql_table_validate_reference(Relation rel, MosqlSession *session, const char *name);

/* Are all columns of a CHECK constraint still there? */
extern bool mosql_definition_check_holds(const MosqlDefinition *definition,
										 const MosqlDefinitionCheck *check);

/* The index of that name in a definition, NULL if none. */
extern MosqlDefinitionIndex *mosql_definition_index(const MosqlDefinition *definition,
													const char *name);

/* Is an index computed by expressions or a predicate? */
extern bool mosql_definition_is_computed(const MosqlDefinitionIndex *index);

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

/* ---- progress (progress.c) ---- */

/*
 * What a job at the clock says of itself begins with this: an object of JSON, in
 * UTF-8, not closed.  table NULL: none; total -1: unknown.
 */
extern void mosql_progress_describe(StringInfo out, const char *phase, const char *table,
									uint64 done, int64 total);

/* This backend: {"pid", "server", "database", "application"}, for mosql_txn_who_hook. */
extern const char *mosql_progress_backend(void);

/* ---- whose functions run as whom (identity.c) ---- */

/*
 * Be another user, who cannot get out of it, until it is given back; or until the end of a
 * failed (sub)transaction.
 */
typedef struct MosqlIdentity
{
	Oid			user;
	int			context;
	int			level;
} MosqlIdentity;

extern void mosql_identity_take(Oid user, MosqlIdentity *before);
extern void mosql_identity_give_back(const MosqlIdentity *before);

/* Whose functions run while a value of a type is read; InvalidOid: nobody's, or those of
 * superusers. */
extern Oid	mosql_identity_of_reading(Oid type);

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
} MosqlAttributes;

/* ... as a definition's columns are called; in the current context. */
extern MosqlAttributes mosql_definition_attributes(const MosqlDefinition *definition, Oid relid);

/*
 * Is it made of what all servers have and what harms none: built-in functions of a list,
 * operators, types, and labels of enums (portable.c)?
 */
extern bool mosql_expression_is_portable(Node *node);

/* nextval('name') or nextval('name'::regclass), unanalysed: the name. */
extern bool mosql_raw_is_draw(Node *node, const char **name);

/*
 * Call that, and return NULL, or what is wrong with a text that it read: errors of syntax,
 * of names and types that are not here, and of values.  It may throw all else.
 */
typedef void (*MosqlReader) (void *arg);
extern const char *mosql_expression_try(MosqlReader read, void *arg);

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

/*
 * Fill in what an index is computed by: such a node, and the collation by its name
 * (mosql_collation_name).  0A000 for types that cannot be keys.
 */
extern void mosql_definition_set_expression(MosqlDefinitionIndex *index, int position, Node *node,
											const char *collation,
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

/* ---- sequences (sequence.c) ---- */

/* Where a sequence stands: this value was handed out, or is the next to be. */
typedef struct MosqlSequenceState
{
	int64		value;
	bool		called;
} MosqlSequenceState;

/* A sequence of the local relation that belongs to a column. */
typedef struct MosqlLocalSequence
{
	const char *column;
	MosqlSequence sequence;		/* without counter */
	MosqlSequenceState state;
	bool		made;			/* this transaction made it, or gave it to the column */
	bool		altered;		/* the running command alters it */
	bool		restart;		/* ... with RESTART */
	bool		dropped;		/* the column has lost it by DROP IDENTITY */
} MosqlLocalSequence;

/*
 * Bring the definition's sequences up to the local ones: a column that has none
 * there gets one that was made here, standing where the local one stands (others were
 * taken away by another server); one that is there stays as it is unless the running
 * command alters or drops it.  Part of the transaction.
 */
extern void mosql_table_follow_sequences(Relation rel, MosqlSession *session,
										 const MosqlLocalSequence *local, int n);

/*
 * Draw up to `want` values of a sequence, for good, whatever becomes of the
 * transaction: *first and what follows it by the increment; returns how many.
 * One round trip where nobody else drew since *seen was filled in by the last
 * draw (seen->value is not looked at before).  2200H at the end of a sequence that
 * does not cycle, 40001 if it was dropped or restarted; name is for messages.
 */
typedef struct MosqlSequenceSeen
{
	bool		known;
	MosqlSequenceState state;
} MosqlSequenceSeen;

extern int64 mosql_sequence_draw(MosqlSession *session, const MosqlSequence *sequence,
								 const char *name, int64 want, MosqlSequenceSeen *seen,
								 int64 *first);

/*
 * Set where it stands, at once and for good; 22003 beyond its bounds.  forward: only
 * if that is not back; false if it would be.
 */
extern bool mosql_sequence_set(MosqlSession *session, const MosqlSequence *sequence,
							   const char *name, MosqlSequenceState state, bool forward);

/*
 * A sequence that no column of ours owns (named.c), known by its name to all servers
 * that use it.
 */
typedef struct MosqlNamedSequence
{
	const char *schema;
	const char *name;
	List	   *former;			/* before RENAME and SET SCHEMA: schema, name, schema, ...,
								 * oldest first */
	MosqlSequence sequence;
	MosqlTimestamp version;		/* of the catalog row read */
	MosqlBytes	bytes;			/* as stored */
} MosqlNamedSequence;

/*
 * The sequence that has that name, or had it and no other has it now; NULL if none.  A
 * round trip; another one for former names.
 */
extern MosqlNamedSequence *mosql_named_sequence(MosqlSession *session, const char *schema,
												const char *name);

/* All of the namespace, by name; their number. */
extern int	mosql_named_sequences(MosqlSession *session, MosqlNamedSequence **sequences);

/*
 * All definitions and sequences of the namespace as of one moment: a sequence that moves
 * from the one to the other is among them.  Damaged ones are left out, with a WARNING each;
 * returns how many.
 */
extern int	mosql_table_everything(MosqlSession *session, MosqlDefinition **definitions,
								   int *ndefinitions, MosqlNamedSequence **sequences,
								   int *nsequences);

/* The current transaction draws from it: as with tables, commit fails (40001) if it is
 * another one by then. */
extern void mosql_named_sequence_use(MosqlSession *session, MosqlBytes key, MosqlBytes bytes);
extern MosqlBytes mosql_named_sequence_key(const MosqlNamedSequence *sequence);

/*
 * A sequence of that name is to be drawn from by all servers.  One that is there
 * already stays as it is, but never behind the local one, which was used so far; else it
 * is made like the local one.  Returns a sequence that had this name before, NULL if
 * none: servers that have not followed its RENAME take the new one for it.
 */
extern MosqlNamedSequence *mosql_named_sequence_share(MosqlSession *session, const char *schema,
													  const char *name,
													  const MosqlLocalSequence *local);

/* ALTER SEQUENCE, as local->altered and restart say.  One that is gone is made again by
 * RESTART; false if it is gone. */
extern bool mosql_named_sequence_alter(MosqlSession *session, const char *schema,
									   const char *name, const MosqlLocalSequence *local);

/* RENAME, SET SCHEMA; 42P07 if the name is taken.  DROP.  Nothing happens where it is
 * gone. */
extern void mosql_named_sequence_rename(MosqlSession *session, const char *schema,
										const char *name, const char *to_schema,
										const char *to_name);
extern void mosql_named_sequence_drop(MosqlSession *session, const char *schema,
									  const char *name);

/*
 * A sequence has got another owner: it goes on from where it stands.  take: it is no
 * longer in the definition of the column, or the one of that name; counter is 0 if there
 * was none.  give: into the column, unless that has one; or to the name.
 */
extern MosqlSequence mosql_table_take_sequence(Relation rel, MosqlSession *session,
											   const char *column);
extern MosqlSequence mosql_named_sequence_take(MosqlSession *session, const char *schema,
											   const char *name);
extern void mosql_table_give_sequence(Relation rel, MosqlSession *session, const char *column,
									  MosqlSequence sequence);
extern void mosql_named_sequence_give(MosqlSession *session, const char *schema,
									  const char *name, MosqlSequence sequence);

/*
 * The columns of a relation that have the option key, in the order of the key: by the
 * places that the options give, 'true' being before all, and then by column order.
 * Their number; at most INDEX_MAX_KEYS are stored, and counted beyond.
 */
extern int	mosql_table_key_columns(Relation rel, AttrNumber *attnums);

/* Callbacks (relcache, schema check); once, from _PG_init. */
extern void mosql_table_init(void);

#endif							/* MOSQL_TABLE_H */
