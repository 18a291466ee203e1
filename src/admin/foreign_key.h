/*
 * foreign_key.h: a foreign key of a local table, on its way into the catalogs.
 *
 * Layer: admin.
 *
 *   foreign_key.c          ADD FOREIGN KEY, VALIDATE CONSTRAINT, new types of columns
 *   foreign_key_row.c      what the catalogs have of one
 *   foreign_key_follow.c   what other servers add, and what they are to know
 */
#ifndef MOSQL_ADMIN_FOREIGN_KEY_H
#define MOSQL_ADMIN_FOREIGN_KEY_H

#include "admin/admin.h"
#include "fdw/reference.h"

typedef struct MosqlLocalForeignKey
{
	const char *name;
	bool		deferrable;
	bool		deferred;
	bool		validated;
	bool		unenforced;		/* declared NOT ENFORCED: a row of pg_constraint, no more */
	char		match;
	char		on_update;
	char		on_delete;
	int			n;
	int16		columns[INDEX_MAX_KEYS];
	int			nreferenced;
	int16		referenced[INDEX_MAX_KEYS];
	Oid			index;			/* that makes the referenced columns unique */
	Oid			classes[INDEX_MAX_KEYS];	/* its operator classes, in our order */
	Oid			pf[INDEX_MAX_KEYS]; /* equality of referenced and referencing, */
	Oid			pp[INDEX_MAX_KEYS]; /* of two referenced, */
	Oid			ff[INDEX_MAX_KEYS]; /* and of two referencing values */
	int			nset;			/* ON DELETE SET ... (columns) */
	int16		set[INDEX_MAX_KEYS];
} MosqlLocalForeignKey;

/* ---- foreign_key_row.c ---- */

/*
 * Does this index make key->referenced unique, or, if `primary`, is it the primary
 * key's?  Then take it, with its operator classes; of a primary key the columns, too.
 */
extern bool mosql_admin_take_unique_index(MosqlLocalForeignKey *key, Oid indexid, bool primary);

/* The operators that would compare; if there are none, 42804, as core, or false where no name is given. */
extern bool mosql_admin_find_key_operators(MosqlLocalForeignKey *key, Relation rel,
										   Relation referenced, const char *name);

/* The row of pg_constraint, and what goes with it. */
extern Oid	mosql_admin_create_foreign_key(Relation rel, Relation referenced,
										   const MosqlLocalForeignKey *key);

/* The constraint is, or is not, one that all rows keep. */
extern void mosql_admin_set_validated(Oid oid, bool validated);

/* Is the foreign key of that OID this one, whatever its name?  leads_as: and whether it is deferrable. */
extern bool mosql_admin_leads_as(Oid oid, const MosqlLocalForeignKey *key, Oid parent);
extern bool mosql_admin_is_foreign_key(Oid oid, const MosqlLocalForeignKey *key, Oid parent);

#endif							/* MOSQL_ADMIN_FOREIGN_KEY_H */
