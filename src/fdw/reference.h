/*
 * reference.h: foreign keys between our tables, enforced.
 *
 * Layer: fdw.
 *
 *   foreign_key.c        what pg_constraint says of a table's foreign keys
 *   reference.c          what a statement has still to check
 *   reference_check.c    the checks, now or at COMMIT; SET CONSTRAINTS
 *   reference_rows.c     rows that a foreign key leads to, and those that have it
 *   reference_action.c   CASCADE, SET NULL, SET DEFAULT
 *   reference_report.c   errors
 *
 * The row with the foreign key is the child, the row it leads to the parent.
 */
#ifndef MOSQL_FDW_REFERENCE_H
#define MOSQL_FDW_REFERENCE_H

#include "fdw/exec_int.h"
#include "nodes/parsenodes.h"

/* ---- foreign_key.c ---- */

typedef struct MosqlForeignKey
{
	Oid			oid;
	NameData	name;
	Oid			child;
	Oid			parent;
	Oid			index;			/* of the parent, that makes its columns unique */
	bool		validated;		/* by this server: children from before have parents */
	bool		deferrable;
	bool		deferred;		/* initially */
	char		match;			/* FKCONSTR_MATCH_..., and the actions: */
	char		on_update;
	char		on_delete;
	int			n;
	AttrNumber	columns[INDEX_MAX_KEYS];	/* of the child */
	AttrNumber	referenced[INDEX_MAX_KEYS]; /* of the parent */
	Oid			pf[INDEX_MAX_KEYS]; /* parent = child */
	int			nset;			/* ON DELETE SET ... (columns); 0: all */
	AttrNumber	set[INDEX_MAX_KEYS];
} MosqlForeignKey;

/*
 * The foreign keys of a table and to it, both between tables of one of our servers
 * (List of MosqlForeignKey, ours to free); cached, no round trip.
 */
extern List *mosql_foreign_keys(Oid relid);

/* One of them by its OID; false if it is none of ours, or gone. */
extern bool mosql_foreign_key_find(Oid oid, MosqlForeignKey *key);

/* Does some table have a foreign key to this one? */
extern bool mosql_foreign_key_leads_to(Oid relid);
extern void mosql_foreign_key_init(void);

/* ---- reference_rows.c ---- */

/* A foreign key with its tables, opened; valid until the end of the statement. */
typedef struct MosqlReference
{
	MosqlForeignKey key;
	MosqlSession *session;
	MosqlTxn   *txn;
	const MosqlTable *child;
	const MosqlTable *parent;
	bool		locks;			/* the parent's locking is pessimistic */

	/* --- the parent's row --- */
	const MosqlTable *target;	/* whose key the referenced columns are: the parent, or
								 * the entries of an index of it: */
	const MosqlIndex *index;	/* that, or NULL */
	int			order[INDEX_MAX_KEYS];	/* its key columns as columns of the foreign key */
	bool		alike;			/* the child's types are the parent's */
	bool		converts[INDEX_MAX_KEYS];	/* by column of the foreign key: the child's */
	FmgrInfo	convert[INDEX_MAX_KEYS];	/* value to the parent's type */
	MosqlCond	target_conds[INDEX_MAX_KEYS];
	Oid			target_types[INDEX_MAX_KEYS];

	/* --- the child's rows --- */
	const MosqlDefinitionReference *stored; /* as the child's definition has it */
	const MosqlTable *source;	/* its key begins with the foreign key's columns: the
								 * child, or entries of an index; NULL: nothing does */
	int			source_order[INDEX_MAX_KEYS];
	MosqlCond	source_conds[INDEX_MAX_KEYS];
	Oid			source_types[INDEX_MAX_KEYS];
} MosqlReference;

/*
 * NULL if the foreign key is no more in Redis, where another server dropped it.  55000
 * if it is another one there by now.
 */
extern MosqlReference *mosql_reference_open(const MosqlForeignKey *key, MosqlSession *session);

/* The same for who is about to change it: 42704 if it is no more in Redis. */
extern MosqlReference *mosql_reference_open_existing(const MosqlForeignKey *key, MosqlSession *session);

/*
 * The reads that found a violation have brought the schema version along.  If the
 * tables have changed, perhaps the foreign key is no more: then this throws 40001.
 */
extern void mosql_reference_check_definitions(const MosqlReference *reference);

typedef enum MosqlReferenceKey
{
	MOSQL_REFERENCE_NONE,		/* nulls: it leads nowhere */
	MOSQL_REFERENCE_MIXED,		/* MATCH FULL, and some are null */
	MOSQL_REFERENCE_IMPOSSIBLE, /* no value of the parent's type equals it */
	MOSQL_REFERENCE_KEY
} MosqlReferenceKey;

/* The key in `target` of the parent that a child leads to with these values, in the
 * order of the foreign key's columns; appended. */
extern MosqlReferenceKey mosql_reference_of_child(MosqlReference *reference,
												  const Datum *values, const bool *nulls,
												  StringInfo key);

/* ... and of a parent's row; false if nulls are in it, so that none leads there. */
extern bool mosql_reference_of_parent(MosqlReference *reference, TupleTableSlot *slot,
									  StringInfo key);

/* The values in a key in `target`, in the order of the foreign key's columns, of the parent's types. */
extern void mosql_reference_values(const MosqlReference *reference, MosqlBytes key, Datum *values);

/*
 * Which of n distinct parents, by their keys in `target`, are there: what is found is certified
 * from here on, and locked, KEY SHARE, if the parent's table is one that locks.  One round
 * trip, two for those that are found by an index and locked.
 */
extern void mosql_reference_find_parents(MosqlReference *reference, const MosqlBytes *keys, int n,
										 bool *found);

/*
 * Of n distinct parents, ascending: the first that some row of the child leads to, own
 * changes counted, or -1.  Commit certifies that there are none of the others, if
 * `certify`.  That row's key, in the tree where it was found, is appended to `child`.
 */
extern int	mosql_reference_find_child(MosqlReference *reference, const MosqlBytes *keys, int n,
									   bool certify, StringInfo child);

/*
 * All rows of the child lead to parents that are there, now and when the transaction commits, or 23503: both
 * tables are held still (mosql_table_hold_still()); above READ COMMITTED what was read is certified.  Opened
 * once the child is held, as by mosql_reference_open_existing(); returned is what was looked at, for
 * mosql_table_validate_reference().
 */
extern const MosqlDefinitionReference *mosql_reference_validate(const MosqlForeignKey *key, MosqlSession *session);

/* ---- reference_check.c ---- */

/* Sort keys, and leave each once: how many are left. */
extern int	mosql_reference_sort_keys(MosqlBytes *keys, int n);

/*
 * Keys of children that were written and led to no parent, or of parents that are gone by what has this
 * action: 23503 if a child leads to a parent that is not there; at COMMIT if that is deferred, which takes
 * NO ACTION (children have it).  Works in the current context.
 */
extern void mosql_reference_check(MosqlReference *reference, bool is_parent, char action,
								  const MosqlBytes *keys, int n);
extern void mosql_reference_check_init(void);

/* ---- reference_report.c ---- */

/*
 * 23503, as core words it; 40001 if another transaction's change is the cause of it
 * (mosql_txn_blame).  key absent: no parent can have it; then values are the child's.
 * found: what find_child says.
 */
extern void mosql_reference_report_child(MosqlReference *reference, MosqlBytes key,
										 const Datum *values) pg_attribute_noreturn();
extern void mosql_reference_report_mixed(MosqlReference *reference) pg_attribute_noreturn();
extern void mosql_reference_report_parent(MosqlReference *reference, MosqlBytes key,
										  MosqlBytes found, bool restricted) pg_attribute_noreturn();

/* ---- reference_action.c ---- */

/*
 * Change the children of n parents as ON DELETE or ON UPDATE says; values[i] are
 * those of parent i, new_values[i] what they became (CASCADE of an update), in the
 * order of the foreign key's columns.
 */
extern void mosql_reference_act(MosqlReference *reference, bool deleted, Datum **values,
								Datum **new_values, int n);

#endif							/* MOSQL_FDW_REFERENCE_H */
