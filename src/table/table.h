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
	MOSQL_KEY_CITEXT,			/* in lower case; of indexes alone */
	MOSQL_KEY_BYTEA, MOSQL_KEY_UUID,
	MOSQL_KEY_FIXED,			/* the bytes of the binary format: macaddr, pg_lsn, xid8 */
	MOSQL_KEY_INET,				/* cidr, too */
	MOSQL_KEY_BITS,				/* bit, varbit */
	MOSQL_KEY_DATE, MOSQL_KEY_TIME, MOSQL_KEY_TIMETZ, MOSQL_KEY_TIMESTAMP, MOSQL_KEY_INTERVAL,
	MOSQL_KEY_ENUM,				/* by label: equality only */
	MOSQL_KEY_ARRAY, MOSQL_KEY_RANGE	/* of such (key_parts.c) */
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
	List	   *former;			/* names that it had between the two, or after: char * */
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
	struct MosqlTableColumn *part;	/* ARRAY, RANGE: an element, a bound */
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
	bool		has_xml;		/* somewhere within: BINARY is read by xmloption */
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
	MosqlCompression compression;	/* of packed leaves (definition.h) */
	bool		together;		/* its first leaves are to be (definition.h) */
	MosqlBytes	definition;		/* as stored */
	MosqlBytes	key;			/* of the definition */
	bool		locked;			/* LOCK TABLE of somebody else keeps writers out (lock.c) */
	int		   *mode;			/* as which this transaction uses it, a LOCKMODE */
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
 * In a parallel worker: the table by the definition that its leader has opened it with
 * (MosqlTable.definition), with this index alone (0: none).  In the current context; no round trip.
 */
extern MosqlTable *mosql_table_shared(Relation rel, MosqlSession *session, MosqlBytes definition,
									  int index);

/* 23502, as core says it of rows that are there. */
extern void mosql_table_report_nulls(Relation rel, AttrNumber attnum) pg_attribute_noreturn();

/* A statement is about to use the table: 55006 within a command that is making its rows anew. */
extern void mosql_table_check_made(Relation rel);

/*
 * Before rows are written: does the relation say all that rows must satisfy by the
 * definition in Redis?  55000 for a CHECK that is not known here, and for a column that is
 * generated otherwise, or here alone, or would be by the encoding of this database.  NOT NULL is the caller's to see to.
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

/* Are there such in it? */
extern bool mosql_key_is_characters(const MosqlTableColumn *column);

/* A column of the key as messages name it: of an attribute, quoted where a statement would. */
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

/* Is the unique index an exclusion constraint to this server? */
extern bool mosql_table_excludes(Relation rel, const MosqlIndex *index);

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

/* The index with this id; NULL: there is none (any more), or the id is 0, as that of the key is said. */
extern const MosqlIndex *mosql_table_index(const MosqlTable *table, uint32 id);

/* The attributes that entries of the index are made of, by attnum - 1; palloc'd. */
extern const bool *mosql_index_needed(const MosqlTable *table, const MosqlIndex *index);

/* Is a column's value in some index, or is one computed by it? */
extern bool mosql_table_is_indexed(const MosqlTable *table, AttrNumber attnum);

/* Is it a column of the primary key, or of a unique index? */
extern bool mosql_table_is_unique_column(const MosqlTable *table, AttrNumber attnum);

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
 * certify: what is read is so still at commit (mosql_table_hold_still(): others wait, or 40001).
 * needed: as above; the current context of a visit lives as long as its row.  Returns the
 * snapshot that they were read at.
 */
typedef bool (*MosqlTableVisit) (const MosqlRow *row, TupleTableSlot *slot, void *arg);
extern MosqlTimestamp mosql_table_visit(Relation rel, MosqlSession *session, const bool *needed,
										bool certify, MosqlTableVisit visit, void *arg);

/* ---- progress (progress.c) ---- */

/*
 * What a job at the clock says of itself begins with this: an object of JSON, in
 * UTF-8, not closed.  table NULL: none; total -1: unknown.
 */
extern void mosql_progress_describe(StringInfo out, const char *phase, const char *table,
									uint64 done, int64 total);

/*
 * This backend, for mosql_txn_who_hook: {"pid", "started", "home", "server", "database",
 * "application"}; home: of which PostgreSQL server it is.
 */
extern const char *mosql_progress_backend(const char *home);

/* ---- statements that fill an empty table (fresh.c) ---- */

/* 23505: two rows have this key, or this entry of an index (NULL: the key).  Does not return. */
typedef void (*MosqlReportDuplicate) (void *arg, const MosqlIndex *index, MosqlBytes key);

/*
 * The rows that a statement is going to put into a table, if that was created or truncated in
 * this savepoint, and is empty; else NULL.  No executor node may have it open but the one that
 * puts them, for who opened it before would see them.  Until the end others may: they see what
 * the command has put so far, as ever.  In the statement's context, with which it goes.
 * statement: whatever names it.  owner: what `report` is called with.
 */
typedef struct MosqlFresh MosqlFresh;
extern MosqlFresh *mosql_fresh_begin(Relation rel, const MosqlTable *table, MosqlTxn *txn,
									 CommandId cid, const void *statement,
									 MosqlReportDuplicate report, void *owner);

/* A row and its entries.  False: this and all that follow are to be inserted as ever. */
extern bool mosql_fresh_put(MosqlFresh *fresh, TupleTableSlot *slot, MosqlBytes key,
							MosqlBytes columns);

/* All rows are put: they are where the transaction finds them.  Nothing happens the second time. */
extern void mosql_fresh_end(MosqlFresh *fresh);

/* The owner of rows of a statement that have not ended; NULL: there are none. */
extern void *mosql_fresh_pending(const void *statement);

/* A statement opens the table, perhaps inside of one that fills it. */
extern void mosql_fresh_give_way(const MosqlTable *table);

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

/*
 * One of both, as a statement begins that locks the table in this mode (a LOCKMODE) by
 * PostgreSQL's rules: whoever has excluded that with LOCK TABLE is waited for, and the table
 * is locked so until the transaction ends.  No round trip where nobody has.
 */
extern MosqlTable *mosql_table_open_locked(Relation rel, MosqlSession *session, int mode,
										   bool planned);

/*
 * LOCK TABLE: for all front-ends, until the transaction, or the savepoint, ends.  False if
 * somebody is in the way and not waited for.  Else as mosql_txn_claim().  42P01.  One round
 * trip; two in modes that keep writers out.
 */
extern bool mosql_table_lock(Relation rel, MosqlSession *session, int mode, bool wait);

/*
 * For who is about to read all rows of a table, whose tree has that root, and must miss none that
 * somebody commits before the transaction does.  At READ COMMITTED the table is locked, in SHARE ROW
 * EXCLUSIVE, as by mosql_table_lock(): what statements read from now on is so until the transaction
 * ends.  Above, where the snapshot may be older than the lock, it becomes SERIALIZABLE: 40001
 * at commit.  Nothing if it has made the tree.
 */
extern void mosql_table_hold_still(Relation rel, MosqlSession *session, uint64 root);

/* What an advisory lock is about. */
typedef struct MosqlNumber
{
	int64		number;
	bool		pair;			/* it is two of 32 bits: another number than the same of 64 */
	bool		session;		/* locked beyond the transaction (mosql_session_lock) */
} MosqlNumber;

/*
 * Lock a number in the session's namespace, for all front-ends: until the transaction, or the
 * savepoint, ends, or until it is unlocked.  Makes the tree of definitions if there is none.
 * False if somebody has it and it is not waited for.  Else as mosql_txn_claim(): 55P03, 40P01.
 */
extern bool mosql_table_lock_number(MosqlSession *session, const MosqlNumber *number, bool shared,
									bool wait);

/* False: the session has not locked it so. */
extern bool mosql_table_unlock_number(MosqlSession *session, const MosqlNumber *number, bool shared);

/* "(7)", or "(7, 8)", of such a lock's key in the tree of definitions; NULL: it is none. */
extern char *mosql_table_show_number(MosqlBytes key);

#endif							/* MOSQL_TABLE_H */
