/*
 * loaded.c: rows of a block that was written before its transaction was decided.
 *
 * Layer: code.
 *
 *     7 bytes 0, 1 byte 'L', columns: a plain row (history.c) but for its timestamp
 *
 * Of a leaf that is loading each stands for an intent 'P' of the transaction that the meta names.  Later it is the
 * plain row with the timestamp in the meta; or, where a snapshot may ask what was before, the history that says:
 * nothing.
 */
#include "code/loaded.h"
#include "code/code_int.h"
#include "code/row.h"

#define KIND_PLAIN		'L'
#define HEAD_BYTES		(MOSQL_ROW_KIND_OFFSET + 1)

StaticAssertDecl(HEAD_BYTES == MOSQL_TS_BYTES + 1, "a plain row is a timestamp, its kind, and columns");

/* See loaded.h. */
void
mosql_loaded_put(StringInfo out, MosqlBytes columns)
{
	char	   *p = put_ts(grow(out, HEAD_BYTES + columns.len), 0);

	*p++ = KIND_PLAIN;
	put_bytes(p, columns);
}

static MosqlBytes
intent_of(MosqlTxid loader, MosqlBytes columns)
{
	MosqlIntent intent = {.tx = loader,.kind = MOSQL_INTENT_PUT,.payload = columns};
	StringInfoData out;

	mosql_string_init(&out, MOSQL_TXID_BYTES + 2 + columns.len);
	mosql_intent_encode(&out, &intent);
	return mosql_bytes_of(&out);
}

/* A row before which there was nothing. */
static MosqlBytes
first_version(MosqlTimestamp since, MosqlBytes columns)
{
	MosqlVersion version = {.ts = since,.end = MOSQL_TS_MAX,.live = true,.columns = columns};
	MosqlHistory history = {.n = 1,.truncated = false,.versions = &version};
	StringInfoData out;

	mosql_string_init(&out, HEAD_BYTES + columns.len + 8);
	mosql_history_encode(&out, &history);
	return mosql_bytes_of(&out);
}

/* See loaded.h. */
bool
mosql_loaded_take(const MosqlLoaded *loaded, MosqlBytes *rows, int n)
{
	if (loaded->since == 0 && loaded->loader.session == 0)
		return true;
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	columns = rows[i];
		const char *head;

		if (rows[i].data == NULL)
			continue;
		if (!take(&columns, HEAD_BYTES, &head) || get_ts(head) != 0 || head[MOSQL_ROW_KIND_OFFSET] != KIND_PLAIN)
			return false;
		if (loaded->loader.session != 0)
			rows[i] = intent_of(loaded->loader, columns);
		else if (loaded->whole)
			rows[i] = first_version(loaded->since, columns);
		else
			(void) put_ts((char *) rows[i].data, loaded->since);
	}
	return true;
}
