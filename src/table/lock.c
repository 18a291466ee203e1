/*
 * lock.c: LOCK TABLE between all front-ends.
 *
 * Layer: table.  The lock is a claim (code/claim.h) at the table's row in the tree of
 * definitions, in one of PostgreSQL's eight modes, so that LOCK TABLE waits for LOCK TABLE, and
 * whoever changes the definition waits at COMMIT for either.
 *
 * Statements take no such locks: they would pay a round trip each, and have all one row to
 * write.  Instead whoever locks in a mode that keeps writers out raises the schema version when
 * the lock is there.  Who commits a write by the version before is refused, looks at his
 * definitions, finds the lock beside, and waits (definitions_unchanged() in used.c).  Who has
 * learned the new version finds it when he loads the definition, and his statements wait
 * where they begin, holding the mode that they need from then on.  Rule 37 in docs/commit.md.
 */
#include "postgres.h"

#include "storage/lockdefs.h"
#include "utils/rel.h"

#include "code/claim.h"
#include "table/table_int.h"

/* What is as strong as both: SHARE, with one of the two modes below it, is the next. */
int
mosql_table_joined_strength(int held, int wanted)
{
	int			low = Min(held, wanted);
	int			high = Max(held, wanted);

	if (high == MOSQL_TABLE_MODE + ShareLock &&
		(low == MOSQL_TABLE_MODE + RowExclusiveLock ||
		 low == MOSQL_TABLE_MODE + ShareUpdateExclusiveLock))
		return MOSQL_TABLE_MODE + ShareRowExclusiveLock;
	return high;
}

/* Does somebody keep out whoever takes this mode? */
static bool
is_locked_out(MosqlSession *session, MosqlBytes key, int mode)
{
	MosqlPoint	point;

	memset(&point, 0, sizeof(point));
	mosql_btree_get(mosql_catalog_tree(session), &key, 1, &point);
	return mosql_txn_is_locked_out(mosql_txn_current(session), point.intent, MOSQL_TABLE_MODE + mode);
}

bool
mosql_table_is_locked(MosqlSession *session, MosqlBytes key)
{
	return is_locked_out(session, key, RowExclusiveLock);
}

/* As which a table is to be locked, by who has it locked perhaps. */
static int
wanted_strength(MosqlSession *session, MosqlBytes key, int mode)
{
	int			held = mosql_txn_strength(mosql_txn_current(session), mosql_catalog_tree(session), key);

	return mosql_table_joined_strength(held, MOSQL_TABLE_MODE + mode);
}

/* False: it is not there, and was not waited for.  *row gets the definition's row, or says that there is one. */
static bool
claim(MosqlSession *session, MosqlBytes key, int mode, bool wait, MosqlRow *row)
{
	row->found = true;
	return mosql_txn_rely_on_claim(mosql_txn_current(session), mosql_catalog_tree(session), key,
								   wanted_strength(session, key, mode),
								   wait ? LockWaitBlock : LockWaitSkip, row);
}

bool
mosql_table_lock(Relation rel, MosqlSession *session, int mode, bool wait)
{
	MosqlTxn   *txn = mosql_txn_current(session);
	MosqlRow	row = {0};
	const char *schema;
	const char *name;

	mosql_table_remote_name(rel, &schema, &name);
	if (mosql_catalog_exists(session) &&
		!claim(session, mosql_catalog_key(schema, name), mode, wait, &row))
		return false;
	if (!row.found && !row.own)
		mosql_table_missing(rel, schema, name);
	if (mode >= ShareLock)
		mosql_txn_raise_schema(txn);
	return true;
}

/* Who has the mode already is locked out by nobody: so it was taken from him. */
static void
check_not_lost(MosqlSession *session, MosqlBytes key, int mode)
{
	int			held = mosql_txn_strength(mosql_txn_current(session), mosql_catalog_tree(session), key);

	if (held >= mosql_table_joined_strength(held, MOSQL_TABLE_MODE + mode))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to a lock of a table that was lost"),
				 errdetail("Another transaction has locked the table: a Redis server has lost what it said that it has."),
				 errhint("The transaction might succeed if retried.")));
}

/* Who is in the way is waited for; 40001 if nobody can be.  False: nobody was. */
bool
mosql_table_wait(MosqlSession *session, MosqlBytes key, int mode)
{
	MosqlRow	row;
	bool		locked;

	if (mode == NoLock || !is_locked_out(session, key, mode))
		return false;
	check_not_lost(session, key, mode);
	mosql_txn_claim(mosql_txn_current(session), mosql_catalog_tree(session), &key, 1,
					wanted_strength(session, key, mode), LockWaitBlock, &row, &locked);
	return true;
}

/* See table.h. */
void
mosql_table_hold_still(Relation rel, MosqlSession *session, uint64 root)
{
	MosqlTxn   *txn = mosql_txn_current(session);

	if (mosql_txn_has_made(txn, root))
		return;
	if (mosql_txn_is_read_committed(txn))
		(void) mosql_table_lock(rel, session, ShareRowExclusiveLock, true);
	else
		mosql_txn_serialize(txn);
}

static MosqlTable *
open_table(Relation rel, MosqlSession *session, bool planned)
{
	return planned ? mosql_table_open_planned(rel, session) : mosql_table_open(rel, session);
}

MosqlTable *
mosql_table_open_locked(Relation rel, MosqlSession *session, int mode, bool planned)
{
	MosqlTable *table;

	mosql_table_check_made(rel);
	table = open_table(rel, session, planned);
	*table->mode = Max(*table->mode, mode);
	while (table->locked)
	{
		bool		waited = mosql_table_wait(session, table->key, mode);

		table->locked = mosql_table_is_locked(session, table->key);
		if (!waited)
			break;
		mosql_session_refresh_schema(session);	/* the definition may be another one */
		table = open_table(rel, session, planned);
		*table->mode = Max(*table->mode, mode);
	}
	mosql_fresh_give_way(table);
	return table;
}
