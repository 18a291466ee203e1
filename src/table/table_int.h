/*
 * table_int.h: what the files of the table layer share.
 *
 * Layer: table.  codec.c (values as bytes), key.c (values as keys), open.c (the
 * cache of tables), definition.c and catalog.c (definitions, as bytes and in
 * Redis), expression.c (expressions in them), create.c and alter*.c (changing them).
 */
#ifndef MOSQL_TABLE_INT_H
#define MOSQL_TABLE_INT_H

#include "base/limits.h"
#include "code/key.h"
#include "table/definition.h"
#include "table/sequence.h"
#include "table/table.h"

/* The tree of definitions has the first node id of every namespace. */
#define MOSQL_CATALOG_ROOT		UINT64CONST(1)

/* ---- codec.c ---- */

/* Is a value of this type an OID of some object here?  Then it is kept by name. */
extern bool mosql_type_is_object_reference(Oid type);

/* Fill the codec of a column whose type, typmod and collation are set. */
extern void mosql_codec_setup(MosqlTableColumn *column);

/* ... of an enum, or an array of one, of which a definition has these labels. */
extern void mosql_codec_setup_labels(MosqlTableColumn *column, const MosqlLabel *labels, int n);

/* Append a value to a row.  54000 over MOSQL_VALUE_MAX_BYTES. */
extern void mosql_codec_put(const MosqlTable *table, const MosqlTableColumn *column, Datum value,
							StringInfo out);

/* A value out of a row; by-reference values in the current context.  XX001. */
extern Datum mosql_codec_get(const MosqlTable *table, const MosqlTableColumn *column,
							 const MosqlColumn *stored);

/* The stored form of a by-reference value, uncompressed; may point into it. */
extern MosqlBytes mosql_codec_bytes(const MosqlTableColumn *column, Datum value);

/* The inverse. */
extern Datum mosql_codec_value(const MosqlTable *table, const MosqlTableColumn *column,
							   MosqlBytes bytes);

/* Can a column's values be stored with this wire type? */
extern bool mosql_codec_accepts(const MosqlTableColumn *column, MosqlWire wire);

/* Damaged bytes: XX001 naming table and column. */
extern void mosql_codec_damage(const MosqlTable *table, const MosqlTableColumn *column,
							   const char *what) pg_attribute_noreturn();

/* ---- type.c ---- */

/* A definition's labels of a type that is an enum, or an array of one, as they are
 * known here; in the current context. */
extern MosqlLabels *mosql_labels_here(Oid type, const MosqlLabel *labels, int n);

/* What is stored of a label, and back; 55000 if the definition, or this server, does not
 * know it. */
extern const char *mosql_label_stored(const MosqlLabels *labels, Oid oid);
extern Oid	mosql_label_oid(const MosqlLabels *labels, const char *stored);

/* Labels of the relation that the definition's columns do not have join those; whether
 * there were such. */
extern bool mosql_definition_add_labels(MosqlDefinition *there, const MosqlDefinition *here);

/* Have labels of a definition the same order in this enum, as far as it has them? */
extern bool mosql_labels_are_in_order(Oid type, const MosqlLabel *labels, int n);

/* ---- key.c ---- */

/* Fill key_class, in_row and range_order of a column with codec. */
extern void mosql_key_setup(MosqlTableColumn *column);

/*
 * Take one key column off the key.  value NULL: skip it.  Columns that are
 * in_row give a value that compares equal.  False if damaged.
 */
extern bool mosql_key_get(const MosqlTable *table, const MosqlTableColumn *column,
						  MosqlBytes *in, Datum *value, bool *isnull);

/* A value without the marker of null, ascending; and the same off the key. */
extern void mosql_key_put_value(const MosqlTableColumn *column, Datum value, StringInfo out);
extern bool mosql_key_get_value(const MosqlTable *table, const MosqlTableColumn *column,
								MosqlBytes *in, Datum *value);

/* ---- key_parts.c ---- */

/* What values of the type are made of, and how; InvalidOid: of nothing. */
extern Oid	mosql_key_part_type(Oid type, MosqlKeyClass *class);

/* Fill part, in_row and range_order of a key column that is an array or a range. */
extern void mosql_key_setup_part(MosqlTableColumn *column);

/* As those of values. */
extern void mosql_key_put_array(const MosqlTableColumn *column, Datum value, StringInfo out);
extern void mosql_key_put_range(const MosqlTableColumn *column, Datum value, StringInfo out);
extern bool mosql_key_get_array(const MosqlTable *table, const MosqlTableColumn *column,
								MosqlBytes *in, Datum *value);
extern bool mosql_key_get_range(const MosqlTable *table, const MosqlTableColumn *column,
								MosqlBytes *in, Datum *value);

/* The type of the extension citext?  Its keys depend on the locale of the database. */
extern bool mosql_key_is_citext(Oid type);

/* Why this column cannot be part of the table's key, or of an index's; NULL if it can. */
extern const char *mosql_key_refusal(const MosqlTableColumn *column, bool of_index);

/* What can be instead, of a base type that cannot; sql is how the value is written. */
extern const char *mosql_key_hint(Oid type, const char *sql, bool of_index);

/* ---- format.c ---- */

#define MOSQL_DEFINITION_FORMAT			2	/* of tables */
#define MOSQL_DEFINITION_FORMAT_LABELS	3	/* of those with former names of labels */
#define MOSQL_DEFINITION_FORMAT_KEYS	4	/* ... with keys of types that could be none before */
#define MOSQL_DEFINITION_FORMAT_ORDER	5	/* ... with indexes that compare labels by their order */

/* Is this how definitions call it?  (Also a type of that name that is not the extension's.) */
extern bool mosql_type_name_is_citext(const char *type);

/* The one that says all that is in the definition. */
extern int	mosql_definition_format(const MosqlDefinition *definition);

/* Has it an index, also one that is being built, that compares labels by their order? */
extern bool mosql_definition_is_ordered(const MosqlDefinition *definition);

/* ---- definition.c ---- */

/* Fill definition->bytes from the rest. */
extern void mosql_definition_encode(MosqlDefinition *definition);

/* The inverse; XX001, or 0A000 for another format. */
extern MosqlDefinition *mosql_definition_decode(MosqlBytes bytes, MosqlTimestamp version);

/* The bytes of a definition without the build that has this log, if it is there. */
typedef struct MosqlBuildCut
{
	bool		found;
	uint64		session;		/* its builder */
	uint64		root;			/* of the index's tree */
	MosqlBytes	bytes;
} MosqlBuildCut;

extern MosqlBuildCut mosql_definition_cut_build(MosqlBytes bytes, uint64 log);

/* A row of the catalog that is a sequence, from the rest; and the inverse, XX001. */
extern void mosql_named_sequence_encode(MosqlNamedSequence *sequence);
extern MosqlNamedSequence *mosql_named_sequence_decode(MosqlBytes bytes, MosqlTimestamp version);

/* ---- catalog.c ---- */

/* The same of a sequence that no column owns; and is it such a one's? */
extern MosqlBytes mosql_catalog_sequence_key(const char *schema, const char *name);
extern bool mosql_catalog_is_sequence(MosqlBytes key);

/* A row of the catalog, as this transaction sees the latest; false if there is none. */
extern bool mosql_catalog_get(MosqlSession *session, MosqlBytes key, MosqlRow *row);

/* Visit all rows whose keys begin so (empty: all), as of one moment; a row is good during
 * the visit. */
typedef void (*MosqlCatalogVisit) (const MosqlRow *row, void *context);
extern void mosql_catalog_scan(MosqlSession *session, MosqlBytes prefix, MosqlCatalogVisit visit,
							   void *context);

/* Buffer a new, a changed, or no row; raises the schema version.  The first makes the
 * catalog, if it has to. */
extern void mosql_catalog_insert(MosqlSession *session, MosqlBytes key, MosqlBytes row);
extern void mosql_catalog_update(MosqlSession *session, MosqlBytes key, MosqlTimestamp version,
								 MosqlBytes row);
extern void mosql_catalog_delete(MosqlSession *session, MosqlBytes key, MosqlTimestamp version);
extern MosqlTree *mosql_catalog_tree(MosqlSession *session);

/* The same, and it is made if it does not exist. */
extern MosqlTree *mosql_catalog_made(MosqlSession *session);

/* How two columns of a name differ, for an errdetail; NULL if they do not. */
extern char *mosql_definition_column_difference(const MosqlDefinitionColumn *here,
												const MosqlDefinitionColumn *there);


/* The same of definitions of tables. */
extern void mosql_definition_insert(MosqlSession *session, MosqlDefinition *definition);
extern void mosql_definition_update(MosqlSession *session, MosqlDefinition *definition);
extern void mosql_definition_delete(MosqlSession *session, const MosqlDefinition *definition);

/* Write it as it is: a transaction that has nothing else to write certifies at commit what
 * it has read, and that nobody changes the definition meanwhile. */
extern void mosql_definition_touch(MosqlSession *session, const MosqlDefinition *definition);

/* ---- rule.c ---- */

/*
 * Before rows are written anew by a command: what was here before it is what it goes by, and another server may have
 * changed that.  42P16 where a CHECK of a column that gets other values was not known here, which would be lost;
 * and where a column is generated here as it is not there, which would overwrite what others wrote.
 */
extern void mosql_table_check_known(Relation rel, const MosqlDefinition *was, const MosqlDefinition *there,
									uint32 column);
extern void mosql_table_check_generated(Relation rel, const MosqlDefinition *was, const MosqlDefinition *there);

/* Before a column is renamed: 42P16 where such a rule that may name it was not known here. */
extern void mosql_table_check_worded(Relation rel, const MosqlDefinition *was, const MosqlDefinition *there,
									 uint32 id);

/* ---- rewrite.c ---- */

/*
 * What rows are to be is evaluated as the table's owner.  The table itself cannot be used there (55006): it is not what
 * it was any more, and not yet what it will be.
 */
extern void mosql_rewrite_evaluate(Relation rel, void (*body) (void *arg), void *arg);

/*
 * Copy all rows from a table as it was defined before to what the relation and its
 * definition are now.  The caller holds the table still.  Throws 23505,
 * 23502, 23514 for rows that the new definition does not allow, 42804 where there
 * is no conversion of a type, and what the conversion throws.
 */
extern void mosql_table_rewrite(Relation rel, MosqlSession *session,
								const MosqlDefinition *before, const List *usings);

/* That column's new value; NULL: it is cast. */
extern Expr *mosql_using_for(const List *usings, const char *column);

/* Write the entries of all rows for the table's index of that id. */
extern void mosql_table_build_index(Relation rel, MosqlSession *session, uint32 id);

/* --- sort.c --- */

/* What is sorted: three strings of bytes, by the first. */
#define MOSQL_SORT_BY			1
#define MOSQL_SORT_KEY			2
#define MOSQL_SORT_COLUMNS		3
#define MOSQL_SORT_ATTRIBUTES	3

typedef struct MosqlSorter MosqlSorter;
extern MosqlSorter *mosql_sorter_begin(int memory_kb);
extern void mosql_sorter_put(MosqlSorter *sorter, MosqlBytes by, MosqlBytes key, MosqlBytes columns);
extern void mosql_sorter_sort(MosqlSorter *sorter);
extern bool mosql_sorter_next(MosqlSorter *sorter);

/* Attribute of what was taken last; good until the next is. */
extern MosqlBytes mosql_sorter_bytes(const MosqlSorter *sorter, int attnum);
extern void mosql_sorter_end(MosqlSorter *sorter);

/* The next, where no two are to be equal: reports the second of two that are. */
extern bool mosql_sorter_next_distinct(MosqlSorter *sorter, MosqlReportDuplicate report, void *arg,
									   const MosqlIndex *index);

/* --- fill.c --- */

/*
 * Fill the new, empty trees of a table: those of its indexes, and its own if `rows`.  Nothing
 * is written before the end, where the trees have all that was put, as of a snapshot: that
 * of the rows that were read for it.  23505 for duplicates.
 */
typedef struct MosqlFill MosqlFill;
extern MosqlFill *mosql_fill_begin(Relation rel, const MosqlTable *table, bool rows);

/* A row and its entries.  In a context that is emptied row by row. */
extern void mosql_fill_put(MosqlFill *fill, TupleTableSlot *slot, MosqlBytes key, MosqlBytes columns);
extern void mosql_fill_end(MosqlFill *fill, MosqlTimestamp version);

/* The other end: as if all had been inserted by this command; the transaction holds them in memory. */
extern void mosql_fill_end_in_buffer(MosqlFill *fill, CommandId cid);

/* Who says that there are duplicates; unless this is called, as if an index was created. */
extern void mosql_fill_report_to(MosqlFill *fill, MosqlReportDuplicate report, void *arg);

/* 23505, of an exclusion constraint 23P01: two rows have this key, or this entry of an index (NULL: the key). */
extern void mosql_table_report_duplicate(Relation rel, const MosqlTable *table, const MosqlIndex *index,
										 bool exclusion, MosqlBytes key)
			pg_attribute_noreturn();

/* Do the stored bytes of a column mean the same under its new type? */
extern bool mosql_rewrite_is_needless(MosqlSession *session, const MosqlDefinition *before,
									  const MosqlDefinitionColumn *column, Form_pg_attribute att);

/* ---- named.c ---- */

/* What a visit of rows of sequences collects. */
typedef struct MosqlSequences
{
	MosqlNamedSequence *array;
	int			n;
	int			max;
} MosqlSequences;

extern void mosql_sequences_add(const MosqlRow *row, void *context);

/* ---- index.c ---- */

/* Fill an index of a table; in the current context, which must be the table's. */
extern void mosql_index_describe(const MosqlTable *table, const MosqlDefinition *of_table,
								 const MosqlDefinitionIndex *definition, MosqlIndex *index);

/*
 * May values of the type be part of an expression of a definition?  May this, as the
 * grammar has read it, be analysed at all?  (portable.c)
 */
extern bool mosql_type_is_portable(Oid type);
extern bool mosql_raw_is_portable(Node *raw);


/* ---- build.c, build_log.c ---- */

/* Log what a change of a row changes in the indexes being built; no slot: no row. */
extern void mosql_build_log_change(const MosqlTable *table, MosqlTxn *txn,
								   TupleTableSlot *old_slot, MosqlBytes old_key,
								   TupleTableSlot *new_slot, MosqlBytes new_key, CommandId cid);

/* The hook that takes away what a failed build leaves; once. */
extern void mosql_build_init(void);

/* A change as logged: absent keys for no entry. */
typedef struct MosqlLoggedChange
{
	MosqlBytes	old_key;
	MosqlBytes	new_key;
	MosqlBytes	new_columns;
	uint32		command;		/* later ones of a transaction have higher numbers */
} MosqlLoggedChange;

/* XX001 if it is damaged; points into the bytes. */
extern MosqlLoggedChange mosql_build_log_decode(MosqlBytes columns);

/* ---- create.c ---- */

#define MOSQL_KEY_TYPES_HINT \
	"Keys can be: boolean, numbers, money, oid, text and its like, bytea, bit strings, uuid, network addresses, dates, times, intervals, pg_lsn, xid8, enums; in indexes citext; arrays of these, and PostgreSQL's own ranges."

/* 0A000 unless values of this column can be keys. */
extern void mosql_definition_check_key(Form_pg_attribute att, bool of_index);

/* Would they be the same if some columns here were key columns, too? */
extern bool mosql_definition_lacks_only_keys(const MosqlDefinition *here,
											 const MosqlDefinition *there);

/* A new empty tree, which goes again if the transaction fails; together: mosql_table_is_together(). */
extern uint64 mosql_table_create_tree(MosqlSession *session, bool together);

/* ---- alter.c ---- */

/* 0A000: what cannot be changed. */
extern void mosql_table_refuse_alter(const char *what, const char *column, const char *hint)
			pg_attribute_noreturn();

/* Has the index the column, as key, included, or in an expression? */
extern bool mosql_definition_index_has(const MosqlDefinitionIndex *index, uint32 column);

/* New empty trees, for the rows and for each index. */
extern void mosql_definition_replace_trees(Relation rel, MosqlSession *session, MosqlDefinition *there);

/* The counter of a column that goes. */
extern void mosql_definition_drop_sequence(MosqlSession *session, MosqlDefinitionColumn *column);

/* Indexes being built would not fit the table any more: their builders fail. */
extern void mosql_definition_remove_builds(MosqlSession *session, MosqlDefinition *there);

/* Put the definition into Redis, and have this server's backends read it again. */
extern void mosql_table_write_definition(Relation rel, MosqlSession *session,
										 MosqlDefinition *definition);

/* ---- alter_index.c ---- */

/* 42P16 if it is there already, or being built, 0A000 if it cannot be. */
extern void mosql_definition_check_new_index(Relation rel, MosqlDefinition *there,
											 const MosqlDefinitionIndex *index);

/* The index with an id of its own; its root is set. */
extern MosqlDefinitionIndex *mosql_definition_add_index(MosqlDefinition *there,
														const MosqlDefinitionIndex *index);

/* It goes, with its tree. */
extern void mosql_definition_remove_index(MosqlSession *session, MosqlDefinition *there,
										  MosqlDefinitionIndex *index);

/* ---- reference.c ---- */

/* Ids of foreign keys are below this, in the definitions of both tables. */
#define MOSQL_REFERENCES_MAX	(1 << 15)

/*
 * A table is about to be dropped: its foreign keys that this server does not know leave
 * the definitions of the tables that they lead to.  2BP01 if another table, unknown
 * here, has one to it.
 */
extern void mosql_table_forget_references(MosqlSession *session, const MosqlDefinition *definition);

/* 2BP01 if a foreign key, unknown here, needs the index to be unique. */
extern void mosql_table_check_unneeded(const MosqlDefinition *definition,
									   const MosqlDefinitionIndex *index);

/* 2BP01 if a foreign key, unknown here, uses the column. */
extern void mosql_table_check_unreferenced(const MosqlDefinition *definition, uint32 column);

/* The foreign keys of a definition into a table, in the current context. */
extern void mosql_table_copy_references(MosqlTable *table, const MosqlDefinition *definition);

/* ---- sequence.c ---- */

/* Each sequence of the definition gets a new counter, at its start. */
extern void mosql_definition_restart_sequences(MosqlSession *session,
											   MosqlDefinition *definition);

/* What is local of a sequence goes into what is there (counter 0: a new one, standing
 * where the local one stands); returns whether that changed. */
extern bool mosql_sequence_follow(MosqlSession *session, const MosqlLocalSequence *local,
								  MosqlSequence *there);

/* ---- open.c ---- */

/*
 * A table as its definition alone says, to read rows that the local relation no
 * longer describes: attribute i + 1 is the definition's column i.  In the current
 * context; its relid is invalid.
 */
extern MosqlTable *mosql_table_of_definition(MosqlSession *session,
											 const MosqlDefinition *definition);

/* Does the catalog's tree exist?  A round trip per session, or until it does. */
extern bool mosql_catalog_exists(MosqlSession *session);

/* The i-th definition that the transaction has changed: its key, and what it is now, absent
 * if it is gone.  False if there are not as many. */
extern bool mosql_table_changed(MosqlSession *session, int i, MosqlBytes *key, MosqlBytes *row);

/* --- label.c --- */
extern void mosql_table_label_changed(MosqlSession *session);

/* --- used.c --- */

/*
 * This transaction wrote the definition of that catalog key (absent: deleted
 * it): commit certifies that row itself, so the schema check skips it.
 */
extern void mosql_table_note_change(MosqlSession *session, MosqlBytes key, MosqlBytes definition);

/* This transaction relies on that row of the catalog: commit fails (40001) if another one
 * is there by then.  So does this call, if it relied on another one before. */
extern void mosql_table_note_use(MosqlSession *session, MosqlBytes key, MosqlBytes row);

/* Does it rely on a row of that key that it has not written itself? */
extern bool mosql_table_relies(MosqlSession *session, MosqlBytes key);

/* The strongest mode of a statement that used it, to be raised. */
extern int *mosql_table_used_mode(MosqlSession *session, MosqlBytes key);

/* While this stays the same, what was noted is. */
extern uint64 mosql_table_uses(void);

extern void mosql_table_forget_used(MosqlSession *session);

/* Does all that a plan could rely on still hold?  in_place: and is it where it was? */
extern bool mosql_table_still_holds(MosqlBytes planned, MosqlBytes now, bool in_place);

extern bool mosql_table_is_own_change(MosqlSession *session, const MosqlDefinition *definition);
pg_attribute_noreturn() extern void mosql_table_report_stale_plan(void);
extern void mosql_table_used_init(void);

/* --- before.c --- */

/* What the table was before the running command; NULL: nobody has noted it. */
extern const MosqlDefinition *mosql_table_before(Relation rel);

/* The column that has this name now as it was; NULL: the command has added it. */
extern const MosqlDefinitionColumn *mosql_table_column_before(const MosqlDefinition *before,
															  Relation rel, const char *name);

/* Is the column that is about to be dropped here another one there?  How, for an errdetail; NULL: it is not. */
extern char *mosql_table_drop_difference(Relation rel, const MosqlDefinitionColumn *there);

/* 42P01: there is no such table in Redis. */
extern void mosql_table_missing(Relation rel, const char *schema, const char *name)
			pg_attribute_noreturn();

/* While a definition is read, and compared with the catalogs (wording.c). */
extern void mosql_wording_share(Oid relid);
extern void mosql_wording_unshare(Oid relid);

/* ---- LOCK TABLE (lock.c) ---- */

/* Does somebody keep writers out of the table whose definition this is?  One round trip. */
extern bool mosql_table_is_locked(MosqlSession *session, MosqlBytes key);

/* Wait for whoever keeps out this mode (a LOCKMODE), and take it.  False: nobody does. */
extern bool mosql_table_wait(MosqlSession *session, MosqlBytes key, int mode);

/* The strength that excludes all that one of two strengths of a table's lock excludes. */
extern int	mosql_table_joined_strength(int held, int wanted);

#endif							/* MOSQL_TABLE_INT_H */
