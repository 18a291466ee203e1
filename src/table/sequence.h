/*
 * sequence.h: sequences that all servers draw from: of columns, and known by name.
 *
 * Layer: table.
 */
#ifndef MOSQL_SEQUENCE_H
#define MOSQL_SEQUENCE_H

#include "table/definition.h"

/* ---- of columns (sequence.c) ---- */

/* Where a sequence stands: this value was handed out, or is the next to be. */
typedef struct MosqlSequenceState
{
	int64		value;
	bool		called;
} MosqlSequenceState;

/* What ALTER may say of one. */
#define MOSQL_SEQUENCE_START		(1 << 0)
#define MOSQL_SEQUENCE_INCREMENT	(1 << 1)
#define MOSQL_SEQUENCE_MIN			(1 << 2)
#define MOSQL_SEQUENCE_MAX			(1 << 3)
#define MOSQL_SEQUENCE_CACHE		(1 << 4)
#define MOSQL_SEQUENCE_CYCLE		(1 << 5)
#define MOSQL_SEQUENCE_ALWAYS		(1 << 6)

/* A sequence of the local relation that belongs to a column. */
typedef struct MosqlLocalSequence
{
	const char *column;
	MosqlSequence sequence;		/* without counter */
	MosqlSequenceState state;
	bool		made;			/* this transaction made it, or gave it to the column */
	int			altered;		/* of MOSQL_SEQUENCE_...: what the running command says of it */
	bool		restart;		/* ... RESTART */
	bool		dropped;		/* the column has lost it by DROP IDENTITY */
} MosqlLocalSequence;

/*
 * Bring the definition's sequences up to the local ones: a column that has none
 * there gets one that was made here, standing where the local one stands (others were
 * taken away by another server); one that is there stays as it is but for what the running
 * command says of it, unless that drops it.  42P16 where what it alters or drops is another one
 * there.  Part of the transaction.
 */
extern void mosql_table_follow_sequences(Relation rel, MosqlSession *session,
										 const MosqlLocalSequence *local, int n);

/* Do they say the same?  Whatever their counters. */
extern bool mosql_sequence_is_same(const MosqlSequence *a, const MosqlSequence *b);

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

/* Where it stands, blocks that were drawn included.  One round trip; 40001 as above. */
extern MosqlSequenceState mosql_sequence_read(MosqlSession *session, const MosqlSequence *sequence,
											  const char *name);

/*
 * Set where it stands, at once and for good; 22003 beyond its bounds.  forward: only
 * if that is not back; false if it would be.
 */
extern bool mosql_sequence_set(MosqlSession *session, const MosqlSequence *sequence,
							   const char *name, MosqlSequenceState state, bool forward);

/* ---- known by name (named.c) ---- */

/*
 * A sequence that no column of ours owns, known by its name to all servers
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

#endif							/* MOSQL_SEQUENCE_H */
