/*
 * claim.h: who has locked a row, and who waits for it.
 *
 * Layer: code.  Claims stand in front of the intents in a row's intents field
 * (node.h), locks before waits, waits in the order in which they are served:
 *
 *     offset 0  16 bytes  owner: a transaction's id for its locks
 *           16   1 byte   'L' locked, 'W' waits
 *           17   1 byte   strength, 1 to 4; of a table's lock 11 to 18
 *           18   4 bytes  big-endian: of a wait its number; of a lock, how strong it is by an answer to its
 *                         owner's request, 0 if he was let in and has not asked since
 *
 * An owner has at most one lock and one wait in a field.  A step computes the same
 * from a field in the server (step_lua.h), so everything here takes bytes and
 * returns bytes.  docs/commit.md, "Row locks".
 */
#ifndef MOSQL_CLAIM_H
#define MOSQL_CLAIM_H

#include "base/base.h"
#include "code/row.h"

#define MOSQL_CLAIM_BYTES	22

/* As in PostgreSQL; each excludes all that the one before it excludes. */
typedef enum MosqlStrength
{
	MOSQL_KEY_SHARE = 1,
	MOSQL_SHARE = 2,
	MOSQL_NO_KEY_UPDATE = 3,
	MOSQL_UPDATE = 4,
	MOSQL_INCREMENTING = 5,		/* an increment in commit: never locked, only asked for */
	MOSQL_READING = 6,			/* a read in commit, likewise: all intents are in its way, no claims */

	/*
	 * Locks of tables: this and a LOCKMODE of PostgreSQL's, 1 to 8.  Ascending, but that
	 * SHARE (5) does not exclude all that the two before it do: who has one of those and SHARE
	 * asks for SHARE ROW EXCLUSIVE, which excludes just what they do together.
	 */
	MOSQL_TABLE_MODE = 10,
	MOSQL_TABLE_MODE_MAX = 18
} MosqlStrength;

typedef enum MosqlClaimKind
{
	MOSQL_CLAIM_LOCK = 'L',		/* in a request: if it can be had at once */
	MOSQL_CLAIM_WAIT = 'W',		/* in a request: else wait for it */
	MOSQL_CLAIM_LOWER = 'S'		/* only in a request: a lock, if stronger, is this from now on,
								 * and a wait is given up */
} MosqlClaimKind;

typedef struct MosqlClaim
{
	MosqlTxid	owner;
	MosqlClaimKind kind;
	MosqlStrength strength;
	uint32		number;			/* of a lock: its strength by an answer */
} MosqlClaim;

/* Append a claim, or a request for one. */
extern void mosql_claim_encode(StringInfo out, const MosqlClaim *claim);

/* The next claim of a field: false, and `in` stands at the intents, if there is none. */
extern bool mosql_claim_next(MosqlBytes *in, MosqlClaim *claim);

/* Are there any? */
extern bool mosql_claims_begin(MosqlBytes field);

/*
 * Does a lock, or an increment, of strength `wanted` exclude one that is there?  Those of
 * tables and those of rows always do: who changes a definition commits a put there.
 */
extern bool mosql_strength_excludes(int wanted, int there);

/*
 * Has `asked` (16 bytes owner, 1 byte strength) nobody in its way: no lock or intent of
 * others that it excludes, and, unless its lock covers it, no wait either?
 */
extern bool mosql_claims_admit(MosqlBytes field, MosqlBytes asked);

/*
 * Who is ahead of an owner's wait of this number, and in its way: owners of claims, one perhaps
 * twice.  palloc'ed; NULL if there is no such wait.
 */
extern MosqlTxid *mosql_claims_ahead(MosqlBytes field, MosqlTxid owner, uint32 number, int *n);

/* One byte more: the lock is to be so strong by an answer to its owner, not by his having been let in. */
#define MOSQL_ASKED_SURELY	'a'

/* Has the owner a lock that is at least as strong as asked (owner, strength; perhaps that byte)? */
extern bool mosql_claims_hold(MosqlBytes field, MosqlBytes asked);

/*
 * The field after a request (MOSQL_CLAIM_BYTES; field.data NULL: there is none): itself if
 * nothing changes, palloc'ed else, data NULL if nothing is left.  Who is free of all
 * ahead of it then has its lock, whoever it is.
 */
extern MosqlBytes mosql_claims_request(MosqlBytes field, MosqlBytes request);

/* The same after claims and intents of transactions (16 bytes each) were taken out. */
extern MosqlBytes mosql_claims_take(MosqlBytes field, MosqlBytes ids);

/*
 * Whose wait has become a lock: the owner of the n-th such wait of `before`, from 0, 16
 * bytes pointing into it.  False if there are no more.
 */
extern bool mosql_claims_woken(MosqlBytes before, MosqlBytes after, int n, MosqlBytes *owner);

#endif							/* MOSQL_CLAIM_H */
