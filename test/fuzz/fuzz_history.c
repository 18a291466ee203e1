/*
 * fuzz_history.c: a row's field: decoding, reading at snapshots, superseding,
 * incrementing, pruning.
 *
 * What a snapshot of the list reads, or one that may be in its gap, must not change by pruning, nor by a newer
 * version.  What any other reads may turn into "too old", never into something
 * else.  And what comes out must decode.
 */
#include "fuzz.h"

#include "code/row.h"

const int	fuzz_errors[] = {0};

#define SNAPSHOTS_MAX 8

/* What a read at S says after a change, as against before. */
static void
check_read(MosqlBytes before, MosqlBytes after, MosqlTimestamp S, bool registered, bool changed)
{
	MosqlVersion va;
	MosqlVersion vb;
	MosqlVisible rb = mosql_row_visible(before, 0, S, &vb);
	MosqlVisible ra = mosql_row_visible(after, 0, S, &va);

	if (rb == MOSQL_VISIBLE_TOO_OLD)
		MUST(ra == MOSQL_VISIBLE_TOO_OLD);	/* what is gone does not come back */
	else if (ra != MOSQL_VISIBLE_TOO_OLD)
		MUST(ra == rb && (changed || ra != MOSQL_VISIBLE_LIVE ||
						  mosql_bytes_equal(va.columns, vb.columns)));
	else
		MUST(!registered);
}

/* As the clock tells of many: the oldest, and the newest, with a gap between. */
static void
leave_out(MosqlSnapshotList *list, MosqlTimestamp *s, int newest)
{
	if (newest == 0 || newest + 1 >= list->n)
		return;
	for (int i = 1; i < list->n; i++)	/* ascending */
		for (int j = i; j > 0 && s[j] < s[j - 1]; j--)
		{
			MosqlTimestamp t = s[j];

			s[j] = s[j - 1];
			s[j - 1] = t;
		}
	list->gap_from = s[0];
	list->gap_to = s[list->n - newest];
	memmove(s + 1, s + list->n - newest, newest * sizeof(MosqlTimestamp));
	list->n = newest + 1;
}

/* Somebody may read at S who is in the gap. */
static bool
in_gap(const MosqlSnapshotList *list, MosqlTimestamp S)
{
	return list->gap_to > 0 && S >= list->gap_from && S <= list->gap_to;
}

/* Some of the interesting moments of a history, chosen by bits. */
static MosqlSnapshotList
choose_snapshots(const MosqlHistory *history, uint64 bits, MosqlTimestamp last)
{
	MosqlTimestamp *s = palloc(SNAPSHOTS_MAX * sizeof(MosqlTimestamp));
	MosqlSnapshotList list = {last, 0, s};
	int			newest = bits >> 24 & 3;
	int			n = 0;

	for (int i = 0; i < history->n && n + 2 < SNAPSHOTS_MAX; i++, bits >>= 3)
	{
		const MosqlVersion *v = &history->versions[i];

		if ((bits & 1) && v->ts <= last)
			s[n++] = v->ts;
		if ((bits & 2) && v->ts > 0 && v->ts - 1 <= last)
			s[n++] = v->ts - 1;
		if ((bits & 4) && v->end < MOSQL_TS_MAX && v->end <= last)
			s[n++] = v->end;
	}
	list.n = n;
	leave_out(&list, s, newest);
	return list;
}

/*
 * After something at ts (increment: a sum, from there on) all reads before it,
 * and those of the list, are as they were.
 */
static void
check_reads(MosqlBytes before, MosqlBytes after, const MosqlSnapshotList *list, MosqlTimestamp ts,
			bool increment)
{
	MosqlHistory old;
	MosqlHistory new;

	MUST(mosql_history_decode(before, &old) && mosql_history_decode(after, &new));
	for (int i = 0; i < list->n; i++)
		if (list->snapshots[i] < ts)
			check_read(before, after, list->snapshots[i], true, false);
	for (int i = 0; i < old.n; i++)
		for (int k = -1; k <= 1; k++)
		{
			MosqlTimestamp around[] = {old.versions[i].ts + k, old.versions[i].end + k, ts + k};

			for (int j = 0; j < lengthof(around); j++)
				if (around[j] < MOSQL_TS_MAX && (around[j] < ts || increment))
					check_read(before, after, around[j], in_gap(list, around[j]), around[j] >= ts);
		}
}

/* Each stored version is what is read while it lived. */
static void
check_visible(MosqlBytes field, const MosqlHistory *history)
{
	MosqlVersion got;

	for (int i = 0; i < history->n; i++)
	{
		const MosqlVersion *v = &history->versions[i];
		MosqlVisible wanted = v->live ? MOSQL_VISIBLE_LIVE : MOSQL_VISIBLE_ABSENT;

		MUST(v->ts < v->end);
		MUST(mosql_row_visible(field, 0, v->ts, &got) == wanted);
		MUST(!v->live || mosql_bytes_equal(got.columns, v->columns));
		MUST(mosql_row_visible(field, 0, v->end - 1, &got) == wanted);
		if (v->ts > 0)
			(void) mosql_row_visible(field, v->ts, v->ts - 1, &got);
	}
}

static void
check_supersede(MosqlBytes field, const MosqlHistory *history, uint64 bits)
{
	MosqlTimestamp newest = history->versions[0].ts;
	MosqlTimestamp ts = newest + 1 + (bits & 3);
	MosqlVersion version = {.ts = ts, .live = (bits & 4) != 0};
	MosqlSnapshotList list = choose_snapshots(history, bits >> 4, ts - 1 + (bits >> 3 & 1));
	StringInfoData out;

	if (ts >= MOSQL_TS_MAX)
		return;
	if (version.live)
		version.columns = history->versions[0].columns;
	else
		version.columns = mosql_bytes("", 0);
	initStringInfo(&out);
	MUST(mosql_row_supersede(&out, field, &version, &list));
	check_reads(field, mosql_bytes_of(&out), &list, ts, false);

	/* the other way about it is refused */
	version.ts = newest;
	MUST(!mosql_row_supersede(&out, field, &version, &list));
}

static void
check_increment(MosqlBytes field, const MosqlHistory *history, uint64 bits)
{
	MosqlBytes	columns = history->versions[0].columns;
	const MosqlVersion *v = &history->versions[bits % history->n];
	/* right after a version, or in the hole behind it */
	MosqlTimestamp ts = ((bits & 256) && v->end < MOSQL_TS_MAX ? v->end : v->ts + 1) + (bits >> 9 & 1);
	MosqlSnapshotList list = choose_snapshots(history, bits >> 10, history->versions[0].ts);
	MosqlIncrement inc = {0, 4, (int64) (bits >> 40) - 1000};
	MosqlColumn column;
	StringInfoData out;

	while (mosql_column_next(&columns, &column) == 1)
		if (column.wire >= MOSQL_WIRE_2 && column.wire <= MOSQL_WIRE_8)
		{
			inc.column = column.column;
			inc.width = 1 << (int) column.wire;
			break;
		}
	if (ts >= MOSQL_TS_MAX)
		return;
	initStringInfo(&out);
	if (mosql_row_increment(&out, field, ts, &inc, 1, &list) != MOSQL_INCREMENT_OK)
	{
		MUST(out.len == 0);
		return;
	}
	check_reads(field, mosql_bytes_of(&out), &list, ts, true);
}

static void
check_damaged(MosqlBytes field)
{
	MosqlVersion version = {.ts = MOSQL_TS_MAX - 1, .live = true};
	MosqlIncrement inc = {1, 4, 1};
	MosqlSnapshotList list = {5, 0, NULL};
	StringInfoData out;

	initStringInfo(&out);
	MUST(!mosql_row_supersede(&out, field, &version, &list));
	MUST(mosql_row_prune(&out, field, &list) == MOSQL_PRUNED_DAMAGED);
	MUST(mosql_row_increment(&out, field, 5, &inc, 1, &list) == MOSQL_INCREMENT_DAMAGED);
	MUST(out.len == 0);
	(void) mosql_row_visible(field, 0, 5, &version);
	(void) mosql_row_visible(field, 0, 0, &version);
	(void) mosql_row_newest(field, &version);
}

void
fuzz_one(MosqlBytes in)
{
	uint64		bits = fuzz_hash(in);
	MosqlHistory history;
	MosqlSnapshotList list;
	MosqlVersion newest;
	MosqlPruned pruned;
	StringInfoData out;
	uint32		offset;

	for (uint32 column = 0; column < 4; column++)
		if (mosql_row_column_offset(in, column, &offset))
			MUST(offset <= in.len);
	if (!mosql_history_decode(in, &history))
	{
		check_damaged(in);
		return;
	}
	MUST(mosql_row_newest(in, &newest) && newest.ts == history.versions[0].ts);
	initStringInfo(&out);
	mosql_history_encode(&out, &history);
	MUST(mosql_bytes_equal(mosql_bytes_of(&out), in));
	check_visible(in, &history);

	list = choose_snapshots(&history, bits, history.versions[0].ts + (bits >> 60 & 1));
	resetStringInfo(&out);
	pruned = mosql_row_prune(&out, in, &list);
	MUST(pruned != MOSQL_PRUNED_DAMAGED);
	if (pruned == MOSQL_PRUNED_SOME)
		check_reads(in, mosql_bytes_of(&out), &list, MOSQL_TS_MAX, false);
	check_supersede(in, &history, bits >> 7);
	check_increment(in, &history, bits >> 3);
}
