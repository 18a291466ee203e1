/*
 * token.c: a row's version in 32 bits, for xmin.
 *
 * Layer: code.  Applications read xmin with a row and write WHERE xmin = ... to find out
 * whether somebody changed it meanwhile.  So it must differ from version to version, and
 * what UPDATE ... RETURNING xmin says before the commit must still be so after it.
 *
 *   usually   the low half of the version's timestamp.  Two versions less than 71 minutes
 *             (2^32 us) apart never have the same; of others, one pair in 2^32 has.
 *   tagged    that timestamp is not known before the commit.  A statement that returns
 *             xmin puts a number of its own into the row, as a column that no table has, and
 *             xmin is a hash of all columns.  The next update leaves the number out, or
 *             takes another one; increments keep it, and change the hash by what they
 *             change.  Two versions have the same once in 2^32, and if increments add up
 *             to nothing.
 */
#include "postgres.h"

#include "code/row.h"

/* Transaction ids below are PostgreSQL's own. */
#define FIRST_TOKEN		3

void
mosql_row_tag(StringInfo columns, uint32 tag)
{
	mosql_column_put_int(columns, MOSQL_TAG_COLUMN, (int32) tag, 4);
}

bool
mosql_row_is_tagged(MosqlBytes columns)
{
	MosqlColumn column = {0};

	while (mosql_column_next(&columns, &column) == 1)
		if (column.column == MOSQL_TAG_COLUMN)
			return true;
	return false;
}

uint32
mosql_row_token(MosqlTimestamp version, MosqlBytes columns)
{
	uint64		hash = UINT64CONST(0xcbf29ce484222325); /* FNV-1a */
	uint32		token = (uint32) version;

	if (mosql_row_is_tagged(columns))
	{
		for (size_t i = 0; i < columns.len; i++)
			hash = (hash ^ (unsigned char) columns.data[i]) * UINT64CONST(0x100000001b3);
		token = (uint32) (hash ^ hash >> 32);
	}
	return token < FIRST_TOKEN ? token + FIRST_TOKEN : token;
}
