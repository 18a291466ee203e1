/*
 * history.c: the versions of a row: reading at a snapshot, adding, pruning.
 *
 * Layer: code.  row.h has the layout, docs/commit.md the rules (8 to 11).
 *
 * What is stored.  Take all states that a row had since it was last purged
 * (or ever): "absent" from time 0 on, then each version, each up to the
 * timestamp of the next.  The field holds a subset of these states with their
 * exact times.  The newest is always in it.  The first, "absent", is written
 * out (timestamp 0, a tombstone) only where a state right after it is missing;
 * else its absence from the bytes stands for it, as long as the history is not
 * marked truncated.  Truncated says: something before the oldest version here
 * is gone.  Kinds 'L' and 'T' have no room for that mark and always mean it.
 *
 *     versions ever     v0=absent   v1      v2      v3
 *     stored, complete                      (all but v0)      truncated = 0
 *     a hole            v0 . . . . . . . . . . . .  v3        v0 written out
 *     stored, cut                   . . . . v2      v3        truncated = 1
 *     kind 'L'                      . . . . . . . . v3        implied
 *
 * A read at S never returns a wrong state.  Whatever is found lived from its
 * timestamp <= S to its end > S, and at each time there is one state.  If
 * nothing that old is stored, "absent" is answered only when the bytes are
 * complete back to it.  After a purge "absent" is the first state only from
 * the purge on; therefore both, the written and the implied one, give way to
 * the leaf's purge mark.
 *
 * A read at a registered S never gets "too old".  Suppose S is registered and
 * needs a state with ts <= S < end, and somebody prunes that state by a list
 * of snapshots taken when the clock's last value was L.  Then end <= L (rule
 * 10) and no snapshot of the list lies in [ts, end), so S is not in the list,
 * so S was registered after it was taken.  Hence S >= L (rule 8), S >= end: a
 * contradiction.  The same holds for "absent" as a state, for which reason a
 * snapshot in the list keeps it, and a new row is written as plain 'L' only
 * when no snapshot in the list can see that it was absent before.  It holds
 * as well for a purge (rule 11: mark <= L, no snapshot of the list below it).
 * So a list may be arbitrarily old; it only prunes less.  And it may leave out snapshots, if it says
 * from where to where: what was alive then is kept.  The oldest is always on it, so a
 * purge and "absent" need to know no more.
 *
 * test/unit/test_history.c plays this out with random clocks, stale lists,
 * purges and readers.
 */
#include "code/code_int.h"

#define KIND_LIVE			'L'
#define KIND_TOMBSTONE		'T'
#define KIND_LIVE_OLDER		'l'
#define KIND_TOMBSTONE_OLDER 't'

#define HEAD_BYTES			(MOSQL_ROW_KIND_OFFSET + 1)
#define TS_BYTES			7
#define OLDER_HEAD_BYTES	(2 * TS_BYTES + 1)

/* Versions that fit on the stack; longer histories are rare. */
#define FEW_VERSIONS		16

/* Walks through a history in place, newest version first. */
typedef struct Walk
{
	MosqlVersion version;
	bool		truncated;
	MosqlBytes	older;			/* versions not looked at yet */
} Walk;

/* False if damaged. */
static inline bool
walk_start(Walk *walk, MosqlBytes field)
{
	const char *head;
	const char *truncated;

	if (!take(&field, HEAD_BYTES, &head))
		return false;
	walk->version.ts = get_uint64(head) >> 8;	/* with the kind these are 8 bytes */
	walk->version.end = MOSQL_TS_MAX;
	/* 0 is the time before all commits, the largest that of no commit yet */
	if (walk->version.ts == 0 || walk->version.ts == MOSQL_TS_MAX)
		return false;

	switch (head[MOSQL_ROW_KIND_OFFSET])
	{
		case KIND_LIVE:
		case KIND_TOMBSTONE:
			walk->version.live = head[MOSQL_ROW_KIND_OFFSET] == KIND_LIVE;
			walk->version.columns = field;
			walk->truncated = true;
			walk->older = mosql_bytes(field.data, 0);
			break;
		case KIND_LIVE_OLDER:
		case KIND_TOMBSTONE_OLDER:
			walk->version.live = head[MOSQL_ROW_KIND_OFFSET] == KIND_LIVE_OLDER;
			if (!take_run(&field, MOSQL_ROW_MAX_BYTES, &walk->version.columns) ||
				!take(&field, 1, &truncated) || (uint8) *truncated > 1)
				return false;
			walk->truncated = *truncated != 0;
			walk->older = field;
			/* that would be 'L' or 'T' */
			if (walk->truncated && field.len == 0)
				return false;
			break;
		default:
			return false;
	}
	return walk->version.live ? walk->version.columns.len <= MOSQL_ROW_MAX_BYTES :
		walk->version.columns.len == 0;
}

/* The next older version: 1 if there is one, 0 at the end, -1 if damaged. */
static inline int
walk_next(Walk *walk)
{
	const char *head;
	MosqlVersion next;

	if (walk->older.len == 0)
		return 0;
	if (!take(&walk->older, OLDER_HEAD_BYTES, &head) ||
		!take_run(&walk->older, MOSQL_ROW_MAX_BYTES, &next.columns))
		return -1;
	next.ts = get_ts(head);
	next.end = get_ts(head + TS_BYTES);
	next.live = head[2 * TS_BYTES] == KIND_LIVE;
	if (!next.live && (head[2 * TS_BYTES] != KIND_TOMBSTONE || next.columns.len > 0))
		return -1;
	if (next.ts >= next.end || next.end > walk->version.ts)
		return -1;
	/* "absent" ends a history that is complete */
	if (next.ts == 0 && (next.live || walk->truncated || walk->older.len > 0))
		return -1;
	walk->version = next;
	return 1;
}

bool
mosql_row_newest(MosqlBytes field, MosqlVersion *out)
{
	Walk		walk;

	if (!walk_start(&walk, field))
		return false;
	*out = walk.version;
	return true;
}

/* See row.h.  For each row of each block that is read. */
MosqlTimestamp
mosql_rows_newest(const MosqlBytes *rows, int n)
{
	MosqlTimestamp newest = 1;

	for (int i = 0; i < n; i++)
	{
		uint64		head;		/* 7 bytes timestamp, and the kind */

		if (rows[i].data == NULL)
			continue;
		if (rows[i].len < sizeof(head))
			return MOSQL_TS_MAX;
		memcpy(&head, rows[i].data, sizeof(head));
		newest = Max(newest, pg_ntoh64(head) >> 8);
	}
	return newest;
}

static MosqlVisible
found(const MosqlVersion *version, MosqlVersion *out)
{
	*out = *version;
	return version->live ? MOSQL_VISIBLE_LIVE : MOSQL_VISIBLE_ABSENT;
}

/* Versions older than the one that answers are not looked at. */
MosqlVisible
mosql_row_visible(MosqlBytes field, MosqlTimestamp purged, MosqlTimestamp S, MosqlVersion *out)
{
	Walk		walk;
	int			more;

	*out = (MosqlVersion) {0};
	if (field.data == NULL)
		return S < purged ? MOSQL_VISIBLE_TOO_OLD : MOSQL_VISIBLE_ABSENT;
	if (!walk_start(&walk, field))
		return MOSQL_VISIBLE_DAMAGED;
	if (walk.version.ts <= S)
		return found(&walk.version, out);
	while ((more = walk_next(&walk)) == 1)
	{
		if (walk.version.ts > S)
			continue;
		if (S >= walk.version.end)
			return MOSQL_VISIBLE_TOO_OLD;	/* in a hole */
		if (walk.version.ts == 0 && S < purged)
			return MOSQL_VISIBLE_TOO_OLD;	/* absent, but only since the purge */
		return found(&walk.version, out);
	}
	if (more == -1)
		return MOSQL_VISIBLE_DAMAGED;
	return walk.truncated || S < purged ? MOSQL_VISIBLE_TOO_OLD : MOSQL_VISIBLE_ABSENT;
}

/*
 * All versions of a field that is there; how many there are, of which at most
 * max are stored.  -1 if damaged.
 */
static int
read_versions(MosqlBytes field, MosqlVersion *versions, int max, bool *truncated)
{
	Walk		walk;
	int			n = 0;
	int			more;

	if (!walk_start(&walk, field))
		return -1;
	do
	{
		if (n < max)
			versions[n] = walk.version;
		n++;
	} while ((more = walk_next(&walk)) == 1);
	*truncated = walk.truncated;
	return more == -1 ? -1 : n;
}

/* Room for n versions, if they do not fit where they are. */
static MosqlVersion *
make_room(MosqlVersion *few, int n)
{
	return n <= FEW_VERSIONS ? few :
		palloc_extended(n * sizeof(MosqlVersion), MCXT_ALLOC_HUGE);
}

bool
mosql_history_decode(MosqlBytes field, MosqlHistory *out)
{
	int			n;

	*out = (MosqlHistory) {0};
	if (field.data == NULL)
		return true;
	n = read_versions(field, NULL, 0, &out->truncated);
	if (n < 0)
		return false;
	out->n = n;
	out->versions = palloc_extended(n * sizeof(MosqlVersion), MCXT_ALLOC_HUGE);
	read_versions(field, out->versions, n, &out->truncated);
	return true;
}

static char *
put_version(char *p, const MosqlVersion *version)
{
	p = put_ts(p, version->ts);
	p = put_ts(p, version->end);
	*p++ = version->live ? KIND_LIVE : KIND_TOMBSTONE;
	p = put_varint(p, version->columns.len);
	return put_bytes(p, version->columns);
}

/* Versions are in order and a tombstone has no columns. */
static bool pg_attribute_unused()
versions_make_sense(const MosqlVersion *v, int n, bool truncated)
{
	for (int i = 0; i < n; i++)
	{
		if (!v[i].live && v[i].columns.len > 0)
			return false;
		if (i > 0 && (v[i].ts >= v[i].end || v[i].end > v[i - 1].ts))
			return false;
		if (v[i].ts == 0 && (i == 0 || i < n - 1 || truncated || v[i].live))
			return false;
	}
	return n > 0 && v[0].ts < MOSQL_TS_MAX;
}

static void
put_history(StringInfo out, const MosqlVersion *v, int n, bool truncated)
{
	bool		plain = n == 1 && truncated;
	size_t		size = HEAD_BYTES + v[0].columns.len;
	char	   *p;

	Assert(versions_make_sense(v, n, truncated));
	if (!plain)
		size += varint_size(v[0].columns.len) + 1;
	for (int i = 1; i < n; i++)
		size += OLDER_HEAD_BYTES + varint_size(v[i].columns.len) + v[i].columns.len;

	p = put_ts(grow(out, size), v[0].ts);
	if (plain)
	{
		*p++ = v[0].live ? KIND_LIVE : KIND_TOMBSTONE;
		put_bytes(p, v[0].columns);
		return;
	}
	*p++ = v[0].live ? KIND_LIVE_OLDER : KIND_TOMBSTONE_OLDER;
	p = put_varint(p, v[0].columns.len);
	p = put_bytes(p, v[0].columns);
	*p++ = truncated ? 1 : 0;
	for (int i = 1; i < n; i++)
		p = put_version(p, &v[i]);
	Assert(p == out->data + out->len);
}

/* A row that never was has no field, so there must be a version. */
void
mosql_history_encode(StringInfo out, const MosqlHistory *history)
{
	put_history(out, history->versions, history->n, history->truncated);
}

bool
mosql_row_is_long(MosqlBytes field, int max)
{
	Walk		walk;
	int			n = 0;

	if (field.data == NULL || !walk_start(&walk, field))
		return false;
	while (n <= max && walk_next(&walk) == 1)
		n++;
	return n > max;
}

/* Whether a snapshot may need a superseded version. */
static bool
is_needed(const MosqlVersion *version, const MosqlSnapshotList *list)
{
	if (version->end > list->last)
		return true;			/* superseded after the list was taken */
	if (list->gap_to > 0 && version->ts <= list->gap_to && list->gap_from < version->end)
		return true;			/* snapshots that the list leaves out may be there */
	for (int i = 0; i < list->n; i++)
		if (version->ts <= list->snapshots[i] && list->snapshots[i] < version->end)
			return true;
	return false;
}

/*
 * Append what the list leaves of n versions; v is used up and has room for
 * one more, "absent before the first", which is a version like others here.
 */
static void
put_pruned(StringInfo out, MosqlVersion *v, int n, bool truncated, const MosqlSnapshotList *list)
{
	int			kept = 1;

	if (!truncated && v[n - 1].ts > 0)
	{
		v[n] = (MosqlVersion) {.ts = 0, .end = v[n - 1].ts};
		n++;
	}
	for (int i = 1; i < n; i++)
		if (is_needed(&v[i], list))
			v[kept++] = v[i];
	if (v[kept - 1].ts > 0)
		truncated = true;		/* it was already, or "absent" went now */
	else if (v[kept - 1].end == v[kept - 2].ts)
		kept--;					/* no hole: it goes without saying */
	put_history(out, v, kept, truncated);
}

bool
mosql_row_supersede(StringInfo out, MosqlBytes old, const MosqlVersion *new_version,
					const MosqlSnapshotList *list)
{
	MosqlVersion few[FEW_VERSIONS];
	MosqlVersion *v = few;
	bool		truncated = false;
	int			n = 0;

	Assert(new_version->ts > 0 && new_version->ts < MOSQL_TS_MAX);
	Assert(new_version->live || new_version->columns.len == 0);
	if (old.data != NULL)
	{
		/* two places are for the new version and for "absent" */
		n = read_versions(old, few + 1, FEW_VERSIONS - 2, &truncated);
		if (n < 0)
			return false;
		v = make_room(few, n + 2);
		if (v != few)
			read_versions(old, v + 1, n, &truncated);
		if (v[1].ts >= new_version->ts)
			return false;
		v[1].end = new_version->ts;
	}
	v[0] = *new_version;
	v[0].end = MOSQL_TS_MAX;
	put_pruned(out, v, n + 1, truncated, list);
	if (v != few)
		pfree(v);
	return true;
}

MosqlPruned
mosql_row_prune(StringInfo out, MosqlBytes old, const MosqlSnapshotList *list)
{
	MosqlVersion few[FEW_VERSIONS];
	MosqlVersion *v;
	bool		truncated;
	int			start = out->len;
	int			n;

	if (old.data == NULL)
		return MOSQL_PRUNED_NOTHING;
	n = read_versions(old, few, FEW_VERSIONS - 1, &truncated);
	if (n < 0)
		return MOSQL_PRUNED_DAMAGED;
	if (n == 1 && truncated)
		return MOSQL_PRUNED_NOTHING;	/* 'L' and 'T': most rows */
	v = make_room(few, n + 1);
	if (v != few)
		read_versions(old, v, n, &truncated);
	put_pruned(out, v, n, truncated, list);
	if (v != few)
		pfree(v);
	if (mosql_bytes_equal(old, mosql_bytes(out->data + start, out->len - start)))
	{
		out->len = start;
		out->data[start] = '\0';
		return MOSQL_PRUNED_NOTHING;
	}
	return MOSQL_PRUNED_SOME;
}

bool
mosql_row_may_purge(MosqlTimestamp ts, const MosqlSnapshotList *list)
{
	if (ts > list->last)
		return false;			/* a snapshot below it may be newer than the list */
	for (int i = 0; i < list->n; i++)
		if (list->snapshots[i] < ts)
			return false;
	return true;
}

/* ---- increments, in any order ---- */

static MosqlIncrementResult
increment_version(MosqlVersion *version, const MosqlIncrement *inc, int ninc)
{
	StringInfoData out;
	MosqlIncrementResult result;

	if (!version->live)
		return MOSQL_INCREMENT_OK;
	mosql_string_init(&out, version->columns.len);
	result = mosql_columns_increment(&out, version->columns, inc, ninc);
	version->columns = mosql_bytes_of(&out);
	return result;
}

/*
 * Versions newest first; v[at] is the newest one below ts.
 *
 *     before     v0@12          v1@5                 ts = 10
 *     after      v0@12 + inc    v1@5 + inc @10       v1@5, until 10
 *
 * If the state just before ts is gone (a hole: v1@5 ended at 8), so is the one
 * from ts on, which nobody needs any more than that: there is nothing to
 * insert, and v1 ends where it ended.
 */
MosqlIncrementResult
mosql_row_increment(StringInfo out, MosqlBytes old, MosqlTimestamp ts,
					const MosqlIncrement *inc, int ninc, const MosqlSnapshotList *list)
{
	MosqlHistory history;
	MosqlVersion *v;
	int			at = 0;
	int			n;

	if (!mosql_history_decode(old, &history) || history.n == 0)
		return MOSQL_INCREMENT_DAMAGED;
	v = palloc((history.n + 2) * sizeof(MosqlVersion));
	while (at < history.n && history.versions[at].ts >= ts)
	{
		MosqlIncrementResult result;

		v[at] = history.versions[at];
		result = increment_version(&v[at], inc, ninc);
		if (result != MOSQL_INCREMENT_OK)
			return result;
		at++;
	}
	n = at;
	if (at < history.n && history.versions[at].end > ts)
	{
		MosqlIncrementResult result;

		v[n] = history.versions[at];
		v[n].ts = ts;			/* its end is that of the version it follows */
		result = increment_version(&v[n], inc, ninc);
		if (result != MOSQL_INCREMENT_OK)
			return result;
		n++;
		history.versions[at].end = ts;
	}
	for (int i = at; i < history.n; i++)
		v[n++] = history.versions[i];
	put_pruned(out, v, n, history.truncated, list);
	pfree(v);
	return MOSQL_INCREMENT_OK;
}

bool
mosql_row_column_offset(MosqlBytes field, uint32 column, uint32 *offset)
{
	MosqlVersion newest;
	MosqlBytes	in;
	MosqlColumn c;

	if (!mosql_row_newest(field, &newest))
		return false;
	in = newest.columns;
	while (mosql_column_next(&in, &c) == 1)
		if (c.column == column)
		{
			*offset = (uint32) (c.value.data - field.data);
			return true;
		}
	return false;
}
