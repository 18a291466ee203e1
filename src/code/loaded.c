/*
 * loaded.c: rows of a block that was written before its transaction was decided.
 *
 * Layer: code.
 *
 *     7 bytes 0, 1 byte 'L', columns: a row that is new.  A plain row (history.c) but for its timestamp
 *     7 bytes 0, 1 byte 'C', varint length, columns; then the row before: one that changes
 *     7 bytes 0, 1 byte 'D', the row before: one that is deleted
 *
 * No row begins with a timestamp of 0, so all others are rows, which the transaction has left as they were.
 */
#include "code/loaded.h"
#include "code/code_int.h"
#include "code/row.h"

#define KIND_NEW		'L'
#define KIND_CHANGED	'C'
#define KIND_DELETED	'D'
#define HEAD_BYTES		(MOSQL_ROW_KIND_OFFSET + 1)

StaticAssertDecl(HEAD_BYTES == MOSQL_TS_BYTES + 1, "a plain row is a timestamp, its kind, and columns");

/* Is it a row that lives, of which nothing older is known? */
static bool
is_plain(MosqlBytes row)
{
	MosqlVersion newest;

	return mosql_row_newest(row, &newest) && row.data[MOSQL_ROW_KIND_OFFSET] == *MOSQL_ROW_PLAIN_KIND;
}

/* See loaded.h. */
void
mosql_loaded_put(StringInfo out, MosqlBytes before, MosqlBytes columns)
{
	bool		changes = before.data != NULL && columns.data != NULL;
	size_t		size = HEAD_BYTES + before.len + columns.len + (changes ? varint_size(columns.len) : 0);
	char	   *p = put_ts(grow(out, size), 0);

	Assert(before.data != NULL ? is_plain(before) : columns.data != NULL);
	*p++ = changes ? KIND_CHANGED : before.data != NULL ? KIND_DELETED : KIND_NEW;
	if (changes)
		p = put_varint(p, columns.len);
	p = put_bytes(p, columns);
	p = put_bytes(p, before);
	Assert(p == out->data + out->len);
}

/* What a block has of a key that its transaction writes. */
typedef struct Written
{
	MosqlBytes	before;			/* absent: it is new */
	MosqlBytes	columns;		/* absent: it is deleted */
} Written;

/* False if damaged.  The bytes point into row. */
static bool
take_written(MosqlBytes row, Written *written)
{
	const char *head;

	*written = (Written) {MOSQL_ABSENT, MOSQL_ABSENT};
	if (!take(&row, HEAD_BYTES, &head))
		return false;
	switch (head[MOSQL_ROW_KIND_OFFSET])
	{
		case KIND_NEW:
			written->columns = row;
			return row.len <= MOSQL_ROW_MAX_BYTES;
		case KIND_CHANGED:
			if (!take_run(&row, MOSQL_ROW_MAX_BYTES, &written->columns))
				return false;
			break;
		case KIND_DELETED:
			break;
		default:
			return false;
	}
	written->before = row;
	return is_plain(row);
}

static MosqlBytes
intent_of(MosqlTxid loader, MosqlBytes columns)
{
	bool		deletes = columns.data == NULL;
	MosqlIntent intent = {
		.tx = loader,.kind = deletes ? MOSQL_INTENT_DELETE : MOSQL_INTENT_PUT,.payload = deletes ? mosql_bytes("", 0) : columns
	};
	StringInfoData out;

	mosql_string_init(&out, MOSQL_TXID_BYTES + 2 + columns.len);
	mosql_intent_encode(&out, &intent);
	return mosql_bytes_of(&out);
}

/* The version since then on top of the one before, or of none; absent if that is not older. */
static MosqlBytes
with_history(MosqlTimestamp since, const Written *written)
{
	bool		was_there = written->before.data != NULL;
	MosqlVersion versions[2] = {
		{.ts = since,.end = MOSQL_TS_MAX,.live = written->columns.data != NULL,.columns = written->columns}
	};
	MosqlHistory history = {.n = was_there ? 2 : 1,.truncated = was_there,.versions = versions};
	StringInfoData out;

	if (was_there && (!mosql_row_newest(written->before, &versions[1]) || versions[1].ts >= since))
		return MOSQL_ABSENT;
	versions[1].end = since;
	mosql_string_init(&out, 4 * HEAD_BYTES + 16 + written->columns.len + written->before.len);
	mosql_history_encode(&out, &history);
	return mosql_bytes_of(&out);
}

/* The version since then, of which nobody asks what was before; a new one's timestamp is written to where it is. */
static MosqlBytes
without_history(MosqlTimestamp since, const Written *written)
{
	MosqlVersion version = {.ts = since,.end = MOSQL_TS_MAX,.live = true,.columns = written->columns};
	MosqlHistory history = {.n = 1,.truncated = true,.versions = &version};
	StringInfoData out;

	if (written->columns.data == NULL)
		return MOSQL_ABSENT;
	if (written->before.data == NULL)
	{
		char	   *row = (char *) written->columns.data - HEAD_BYTES;

		(void) put_ts(row, since);
		return mosql_bytes(row, HEAD_BYTES + written->columns.len);
	}
	mosql_string_init(&out, HEAD_BYTES + written->columns.len);
	mosql_history_encode(&out, &history);
	return mosql_bytes_of(&out);
}

static inline bool
is_written(MosqlBytes row)
{
	return row.data != NULL && row.len >= MOSQL_TS_BYTES && get_ts(row.data) == 0;
}

/* See loaded.h. */
bool
mosql_loaded_is_stale(const MosqlLoaded *loaded, const MosqlBytes *rows, int n)
{
	if (loaded->since == 0 && !loaded->undone)
		return false;
	for (int i = 0; i < n; i++)
		if (is_written(rows[i]) && (loaded->undone || rows[i].len < HEAD_BYTES || rows[i].data[MOSQL_ROW_KIND_OFFSET] != KIND_NEW))
			return true;
	return false;
}

/* See loaded.h. */
bool
mosql_loaded_take(const MosqlLoaded *loaded, MosqlBytes *rows, MosqlBytes *intents, int n)
{
	bool		loading = loaded->loader.session != 0;

	if (intents != NULL)
		memset(intents, 0, n * sizeof(MosqlBytes));
	if (loaded->since == 0 && !loaded->undone && !loading)
		return true;
	for (int i = 0; i < n; i++)
	{
		Written		written;

		if (!is_written(rows[i]))
		{
			if (rows[i].data != NULL && loading && !loaded->over)
				return false;
			continue;
		}
		if (!take_written(rows[i], &written))
			return false;
		if (loading && intents != NULL)
			intents[i] = intent_of(loaded->loader, written.columns);
		if (loading || loaded->undone)
			rows[i] = written.before;
		else if (loaded->whole)
		{
			rows[i] = with_history(loaded->since, &written);
			if (rows[i].data == NULL)
				return false;
		}
		else
			rows[i] = without_history(loaded->since, &written);
	}
	return true;
}
