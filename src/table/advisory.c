/*
 * advisory.c: locks on numbers, between all front-ends.
 *
 * Layer: table.  Such a lock is one of a row that never exists (txn/lock.c), in the tree of
 * definitions: every namespace has it, and nothing reads those keys.
 *
 *     key      "A" (1 byte), the number as `int`
 */
#include "postgres.h"

#include "code/claim.h"
#include "code/key.h"
#include "table/table_int.h"

bool
mosql_table_lock_number(MosqlSession *session, int64 number, bool shared, bool wait)
{
	StringInfoData buf;
	MosqlBytes	key;
	MosqlRow	row;
	bool		locked;

	if (!mosql_catalog_exists(session))
		(void) mosql_btree_create(mosql_session_store(session), MOSQL_CATALOG_ROOT);
	mosql_string_init(&buf, 1 + sizeof(int64));
	appendStringInfoChar(&buf, 'A');
	mosql_key_put_int(&buf, number, sizeof(int64));
	key = mosql_bytes_of(&buf);
	mosql_txn_claim(mosql_txn_current(session), mosql_catalog_tree(session), &key, 1,
					shared ? MOSQL_SHARE : MOSQL_UPDATE, wait ? LockWaitBlock : LockWaitSkip, &row,
					&locked);
	return locked;
}
