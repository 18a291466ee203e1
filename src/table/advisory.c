/*
 * advisory.c: locks on numbers, between all front-ends.
 *
 * Layer: table.  Such a lock is one of a row that never exists (txn/lock.c), in the tree of
 * definitions: every namespace has it, and nothing reads those keys.
 *
 *     key      "A" (1 byte), the number as `int`
 *              "P" (1 byte), two numbers of 4 bytes as `int`
 */
#include "postgres.h"

#include "code/claim.h"
#include "code/key.h"
#include "table/table_int.h"

#define KIND_NUMBER		'A'
#define KIND_PAIR		'P'

static MosqlBytes
key_of(const MosqlNumber *number)
{
	StringInfoData buf;

	mosql_string_init(&buf, 1 + sizeof(int64));
	if (number->pair)
	{
		appendStringInfoChar(&buf, KIND_PAIR);
		mosql_key_put_int(&buf, (int32) (number->number >> 32), sizeof(int32));
		mosql_key_put_int(&buf, (int32) number->number, sizeof(int32));
	}
	else
	{
		appendStringInfoChar(&buf, KIND_NUMBER);
		mosql_key_put_int(&buf, number->number, sizeof(int64));
	}
	return mosql_bytes_of(&buf);
}

char *
mosql_table_show_number(MosqlBytes key)
{
	MosqlBytes	rest = mosql_bytes(key.data + 1, key.len - 1);
	int64		one,
				two;

	if (key.len == 1 + sizeof(int64) && key.data[0] == KIND_NUMBER &&
		mosql_key_get_int(&rest, sizeof(int64), &one))
		return psprintf("(" INT64_FORMAT ")", one);
	if (key.len == 1 + sizeof(int64) && key.data[0] == KIND_PAIR &&
		mosql_key_get_int(&rest, sizeof(int32), &one) &&
		mosql_key_get_int(&rest, sizeof(int32), &two))
		return psprintf("(" INT64_FORMAT ", " INT64_FORMAT ")", one, two);
	return NULL;
}

bool
mosql_table_lock_number(MosqlSession *session, const MosqlNumber *number, bool shared, bool wait)
{
	MosqlTxn   *txn = mosql_txn_current(session);
	MosqlTree  *tree = mosql_catalog_made(session);
	MosqlBytes	key = key_of(number);
	int			strength = shared ? MOSQL_SHARE : MOSQL_UPDATE;
	LockWaitPolicy policy = wait ? LockWaitBlock : LockWaitSkip;
	MosqlRow	row;

	if (number->session)
		return mosql_session_lock(txn, tree, key, strength, policy);
	return mosql_txn_rely_on_claim(txn, tree, key, strength, policy, &row);
}

bool
mosql_table_unlock_number(MosqlSession *session, const MosqlNumber *number, bool shared)
{
	MosqlTxn   *txn = mosql_txn_current(session);

	return mosql_session_unlock(txn, mosql_catalog_made(session), key_of(number),
								shared ? MOSQL_SHARE : MOSQL_UPDATE);
}
