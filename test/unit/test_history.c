/*
 * test_history.c: versions of a row: bytes, visibility, pruning.
 *
 * test_world plays random clocks, snapshots, stale lists of snapshots, commits
 * and purges, and asks readers: whoever is registered reads the truth, whoever
 * is not reads the truth or is told "too old".  Lists are bounded or not.
 */
#include "bytes.h"

#include "code/node.h"
#include "code/row.h"

/* What the clock makes of a list: the oldest, and so many of the newest.  s is sorted. */
static MosqlSnapshotList
bounded(MosqlTimestamp last, MosqlTimestamp *s, int n, int newest)
{
	qsort(s, n, sizeof(MosqlTimestamp), mosql_uint64_compare);
	if (n <= newest)
		return (MosqlSnapshotList) {last, n, s};
	memmove(s + 1, s + n - newest, newest * sizeof(MosqlTimestamp));
	return (MosqlSnapshotList) {last, newest + 1, s, s[0], s[1]};
}

static MosqlBytes
chars(const char *s)
{
	return mosql_bytes(s, strlen(s));
}

/* ---- bytes ---- */

/* A history as pruning could have left it. */
static void
random_history(MosqlHistory *h)
{
	MosqlTimestamp ts = 1 + (random_below(2) ? random_magnitude() & (MOSQL_TS_MAX >> 1) : 1000);

	h->n = 1 + (random_below(2) ? random_below(5) : 0);
	if (random_below(50) == 0)
		h->n = 60;
	h->versions = palloc0(h->n * sizeof(MosqlVersion));
	h->truncated = random_below(2);
	for (int i = 0; i < h->n; i++)
	{
		MosqlVersion *v = &h->versions[i];

		if (i > 0)
		{
			if (ts <= 2)
			{
				h->n = i;
				return;
			}
			v->end = ts - (random_below(2) ? random_magnitude() % (ts - 1) : 0);
			ts = v->end - 1 - random_magnitude() % (v->end - 1);
			if (ts == 0)
			{
				h->n = i + 1;
				h->truncated = false;
				return;
			}
		}
		else
			v->end = MOSQL_TS_MAX;
		v->ts = ts;
		v->live = random_below(2);
		if (v->live)
			v->columns = random_string(random_below(10) ? 6 : 200);
	}
}

static bool
same_history(const MosqlHistory *a, const MosqlHistory *b)
{
	if (a->n != b->n || a->truncated != b->truncated)
		return false;
	for (int i = 0; i < a->n; i++)
		if (a->versions[i].ts != b->versions[i].ts || a->versions[i].end != b->versions[i].end ||
			a->versions[i].live != b->versions[i].live ||
			!mosql_bytes_equal(a->versions[i].columns, b->versions[i].columns))
			return false;
	return true;
}

/* What the short way says of a row, the long way says too; of all that are live and have no room for older versions. */
static void
check_plain(MosqlBytes field, MosqlTimestamp S)
{
	MosqlVersion v;
	MosqlBytes	columns;
	MosqlTimestamp ts;
	MosqlVisible visible = mosql_row_visible(field, 0, S, &v);

	if (mosql_row_is_plain(field, S, &columns, &ts))
	{
		CHECK_INT(visible, MOSQL_VISIBLE_LIVE);
		CHECK(ts == v.ts && mosql_bytes_equal(columns, v.columns));
	}
	else
		CHECK(visible != MOSQL_VISIBLE_LIVE || field.data[MOSQL_ROW_KIND_OFFSET] != 'L');
}

/* All that is done with a field; whether it is sound. */
static bool
decode_field(MosqlBytes field)
{
	MosqlHistory h;
	MosqlVersion v;
	StringInfoData again;
	MosqlTimestamp snapshots[] = {5, 500};
	MosqlSnapshotList list = {random_below(2) ? 1000 : MOSQL_TS_MAX, 2, snapshots};
	MosqlVersion next = {.ts = MOSQL_TS_MAX - 1, .live = true, .columns = chars("x")};
	bool		ok = mosql_history_decode(field, &h);

	initStringInfo(&again);
	(void) mosql_row_newest(field, &v);
	for (int i = 0; i < 3; i++)
		(void) mosql_row_visible(field, 7, random_magnitude() & MOSQL_TS_MAX, &v);
	(void) mosql_row_visible(field, 0, 0, &v);
	check_plain(field, random_magnitude() & MOSQL_TS_MAX);
	check_plain(field, MOSQL_TS_MAX);
	if (!ok)
	{
		CHECK(!mosql_row_supersede(&again, field, &next, &list));
		CHECK_INT(mosql_row_prune(&again, field, &list), MOSQL_PRUNED_DAMAGED);
		CHECK_INT(again.len, 0);
		return false;
	}
	/* what decodes encodes to the same bytes */
	CHECK(mosql_row_newest(field, &v) && v.ts == h.versions[0].ts);
	CHECK_INT(mosql_rows_newest(&field, 1), Max(v.ts, 1));
	mosql_history_encode(&again, &h);
	CHECK(mosql_bytes_equal(mosql_bytes_of(&again), field));
	resetStringInfo(&again);
	if (h.versions[0].ts < next.ts)
	{
		CHECK(mosql_row_supersede(&again, field, &next, &list));
		CHECK(mosql_history_decode(mosql_bytes_of(&again), &h));
	}
	else
		CHECK(!mosql_row_supersede(&again, field, &next, &list));
	resetStringInfo(&again);
	CHECK(mosql_row_prune(&again, field, &list) != MOSQL_PRUNED_DAMAGED);
	return true;
}

static void
test_bytes(void)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < 4000; i++)
	{
		MosqlHistory h,
					back;
		MosqlVersion v;
		int			accepted;

		random_history(&h);
		resetStringInfo(&buf);
		mosql_history_encode(&buf, &h);
		CHECK(mosql_history_decode(tight(mosql_bytes_of(&buf)), &back));
		CHECK(same_history(&h, &back));
		CHECK(mosql_row_newest(mosql_bytes_of(&buf), &v) && v.ts == h.versions[0].ts &&
			  v.end == MOSQL_TS_MAX && v.live == h.versions[0].live &&
			  mosql_bytes_equal(v.columns, h.versions[0].columns));
		if (i < 300 && buf.len < 300)
		{
			accepted = damage(mosql_bytes_of(&buf), decode_field);
			/* columns of a plain row end where the field ends; otherwise
			 * only what ends with a version can pass */
			CHECK(accepted <= (buf.data[7] == 'L' ? h.versions[0].columns.len : h.n));
		}
	}
	damage_random(mosql_bytes("\0\0\0\0\0\0\x09l\2ab\0", 12), 50000, decode_field);
	damage_random(mosql_bytes("\0\0\0\0\0\0\x09t\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\x09", 24), 50000, decode_field);
	damage_random(mosql_bytes("\0\0\0\0\0\0", 6), 50000, decode_field);
}

static void
test_absent(void)
{
	MosqlHistory h;
	MosqlVersion v;
	StringInfoData buf;
	MosqlBytes	rows[] = {mosql_bytes("\0\0\0\0\0\3\1Lx", 9), mosql_bytes("\0\0\0\0\0\3\2l", 8), mosql_bytes("\0\0\0\0\0\1\3L", 8),
	mosql_bytes("\0\0\0\0\0\1\3", 7)};

	initStringInfo(&buf);
	CHECK(mosql_history_decode(MOSQL_ABSENT, &h) && h.n == 0);
	CHECK(!mosql_row_newest(MOSQL_ABSENT, &v));
	CHECK_INT(mosql_rows_newest(rows, 0), 1);
	CHECK_INT(mosql_rows_newest(rows, 3), 0x302);
	CHECK(mosql_rows_newest(rows, 4) == MOSQL_TS_MAX);
	CHECK_INT(mosql_row_visible(MOSQL_ABSENT, 0, 5, &v), MOSQL_VISIBLE_ABSENT);
	CHECK_INT(v.ts, 0);
	CHECK_INT(mosql_row_visible(MOSQL_ABSENT, 5, 5, &v), MOSQL_VISIBLE_ABSENT);
	CHECK_INT(mosql_row_visible(MOSQL_ABSENT, 6, 5, &v), MOSQL_VISIBLE_TOO_OLD);
	CHECK_INT(mosql_row_visible(MOSQL_ABSENT, 6, MOSQL_TS_MAX, &v), MOSQL_VISIBLE_ABSENT);
	CHECK_INT(mosql_row_prune(&buf, MOSQL_ABSENT, &(MosqlSnapshotList) {0}), MOSQL_PRUNED_NOTHING);
	/* an empty field is not an absent one */
	CHECK(!mosql_history_decode(mosql_bytes("", 0), &h));
	CHECK_INT(mosql_row_visible(mosql_bytes("", 0), 0, 5, &v), MOSQL_VISIBLE_DAMAGED);
}

/* Bytes that no history has. */
static void
test_damage(void)
{
#define TS "\0\0\0\0\0\0"
	static const struct
	{
		const char *bytes;
		int			n;
	}			bad[] = {
		{TS "\x09", 7},			/* no kind */
		{TS "\x09X", 8},		/* another kind */
		{TS "\x00L", 8},		/* timestamp 0 */
		{"\xFF\xFF\xFF\xFF\xFF\xFF\xFFL", 8},
		{TS "\x09Ta", 9},		/* a tombstone with columns */
		{TS "\x09t\1a\0", 11},
		{TS "\x09l", 8},		/* no trailer */
		{TS "\x09l\1a", 10},
		{TS "\x09l\1a\2", 11},	/* truncated is 0 or 1 */
		{TS "\x09l\1a\1", 11},	/* that is 'L' */
		{TS "\x09l\0\0" TS "\2" TS "\2L\0", 26},	/* lived no time */
		{TS "\x09l\0\0" TS "\2" TS "\xAL\0", 26},	/* lived on */
		{TS "\x09l\0\0" TS "\2" TS "\x9l\0", 26},
		{TS "\x09l\0\0" TS "\2" TS "\x9T\1a", 27},
		{TS "\x09l\0\0" TS "\0" TS "\x9L\0", 26},	/* live at 0 */
		{TS "\x09l\0\1" TS "\0" TS "\x9T\0", 26},	/* truncated and complete */
		{TS "\x09l\0\0" TS "\2" TS "\x9L\0x", 27}	/* trailing garbage */
	};

	for (int i = 0; i < lengthof(bad); i++)
		CHECK(!decode_field(tight(mosql_bytes(bad[i].bytes, bad[i].n))));
	CHECK(decode_field(mosql_bytes(TS "\x09l\0\0" TS "\2" TS "\x9L\0", 26)));
	CHECK(decode_field(mosql_bytes(TS "\x09l\0\0" TS "\0" TS "\x8T\0", 26)));
	CHECK(decode_field(mosql_bytes(TS "\x09l\0\0", 10)));
	CHECK(decode_field(mosql_bytes(TS "\x09L", 8)));
	CHECK(decode_field(mosql_bytes(TS "\x09T", 8)));
}

/* ---- single cases ---- */

static MosqlBytes
supersede(MosqlBytes old, MosqlTimestamp ts, const char *columns, MosqlTimestamp last,
		  int n, const MosqlTimestamp *snapshots)
{
	StringInfoData out;
	MosqlVersion v = {.ts = ts, .live = columns != NULL};
	MosqlSnapshotList list = {last, n, snapshots};

	if (columns)
		v.columns = chars(columns);
	initStringInfo(&out);
	if (!CHECK(mosql_row_supersede(&out, old, &v, &list)))
		return MOSQL_ABSENT;
	return mosql_bytes_of(&out);
}

static void
test_supersede(void)
{
	MosqlTimestamp s15[] = {15};
	MosqlTimestamp s5_15[] = {15, 5, 5};
	MosqlVersion v;
	MosqlHistory h;
	MosqlBytes	row;
	StringInfoData out;

	/* nobody cares: plain */
	row = supersede(MOSQL_ABSENT, 10, "a", 10, 0, NULL);
	CHECK_STR(hex(row), "00 00 00 00 00 00 0a 4c 61");
	row = supersede(row, 20, "b", 20, 0, NULL);
	CHECK_STR(hex(row), "00 00 00 00 00 00 14 4c 62");
	CHECK_INT(mosql_row_visible(row, 0, 19, &v), MOSQL_VISIBLE_TOO_OLD);
	row = supersede(row, 30, NULL, 30, 0, NULL);
	CHECK_STR(hex(row), "00 00 00 00 00 00 1e 54");

	/* a snapshot before the first version */
	row = supersede(MOSQL_ABSENT, 20, "b", 20, 1, s15);
	CHECK_STR(hex(row), "00 00 00 00 00 00 14 6c 01 62 00");
	CHECK_INT(mosql_row_visible(row, 0, 15, &v), MOSQL_VISIBLE_ABSENT);
	CHECK_INT(mosql_row_visible(row, 16, 15, &v), MOSQL_VISIBLE_TOO_OLD);

	/* still there: what is between is dropped, "absent" is written out */
	row = supersede(row, 30, "c", 30, 1, s15);
	row = supersede(row, 40, "d", 40, 1, s15);
	CHECK(mosql_history_decode(row, &h) && h.n == 2 && !h.truncated && h.versions[1].ts == 0 &&
		  h.versions[1].end == 20);
	CHECK_INT(mosql_row_visible(row, 0, 15, &v), MOSQL_VISIBLE_ABSENT);
	CHECK_INT(v.ts, 0);
	CHECK_INT(mosql_row_visible(row, 0, 20, &v), MOSQL_VISIBLE_TOO_OLD);
	CHECK_INT(mosql_row_visible(row, 0, 39, &v), MOSQL_VISIBLE_TOO_OLD);
	CHECK_INT(mosql_row_visible(row, 0, 40, &v), MOSQL_VISIBLE_LIVE);
	/* the row was purged at 12 and before that nobody knows */
	CHECK_INT(mosql_row_visible(row, 12, 11, &v), MOSQL_VISIBLE_TOO_OLD);
	CHECK_INT(mosql_row_visible(row, 12, 12, &v), MOSQL_VISIBLE_ABSENT);

	/* one kept for each snapshot, duplicates and order do not matter */
	row = supersede(MOSQL_ABSENT, 4, "a", 4, 0, NULL);
	row = supersede(row, 10, "b", 10, 1, s5_15 + 1);
	row = supersede(row, 20, "c", 20, 3, s5_15);
	CHECK(mosql_history_decode(row, &h) && h.n == 3 && h.truncated);
	CHECK(mosql_row_visible(row, 0, 5, &v) == MOSQL_VISIBLE_LIVE && mosql_bytes_equal(v.columns, chars("a")));
	CHECK(mosql_row_visible(row, 0, 15, &v) == MOSQL_VISIBLE_LIVE && v.ts == 10 && v.end == 20);
	CHECK_INT(mosql_row_visible(row, 0, 3, &v), MOSQL_VISIBLE_TOO_OLD);

	/* a deleted row is absent at a version */
	row = supersede(row, 25, NULL, 25, 1, s15);
	CHECK(mosql_row_visible(row, 0, 26, &v) == MOSQL_VISIBLE_ABSENT && v.ts == 25);
	CHECK(mosql_row_visible(row, 0, MOSQL_TS_MAX, &v) == MOSQL_VISIBLE_ABSENT && v.ts == 25);

	/* nothing that ended after the list was taken goes */
	row = supersede(row, 30, "e", 24, 0, NULL);
	CHECK(mosql_history_decode(row, &h) && h.n == 2 && h.versions[1].ts == 25);

	/* a version under an older one is damage */
	initStringInfo(&out);
	CHECK(!mosql_row_supersede(&out, row, &(MosqlVersion) {.ts = 30}, &(MosqlSnapshotList) {30}));
	CHECK(!mosql_row_supersede(&out, row, &(MosqlVersion) {.ts = 29}, &(MosqlSnapshotList) {30}));
	CHECK_INT(out.len, 0);
}

static void
test_prune(void)
{
	MosqlTimestamp s[] = {5, 15};
	MosqlBytes	row = supersede(MOSQL_ABSENT, 10, "a", 10, 2, s);
	StringInfoData out;
	MosqlSnapshotList list = {30, 2, s};

	initStringInfo(&out);
	row = supersede(row, 20, "b", 20, 2, s);
	CHECK_INT(mosql_row_prune(&out, row, &list), MOSQL_PRUNED_NOTHING);
	CHECK_INT(out.len, 0);
	list.n = 0;
	list.last = 19;				/* older than the second version */
	CHECK_INT(mosql_row_prune(&out, row, &list), MOSQL_PRUNED_SOME);
	CHECK_STR(hex(mosql_bytes_of(&out)),
			  "00 00 00 00 00 00 14 6c 01 62 01 00 00 00 00 00 00 0a 00 00 00 00 00 00 14 4c 01 61");
	resetStringInfo(&out);
	list.last = 20;
	CHECK_INT(mosql_row_prune(&out, row, &list), MOSQL_PRUNED_SOME);
	CHECK_STR(hex(mosql_bytes_of(&out)), "00 00 00 00 00 00 14 4c 62");
	row = tight(mosql_bytes_of(&out));
	CHECK_INT(mosql_row_prune(&out, row, &list), MOSQL_PRUNED_NOTHING);
}

static void
test_may_purge(void)
{
	MosqlTimestamp s[] = {10, 20};
	MosqlSnapshotList list = {30, 2, s};

	CHECK(mosql_row_may_purge(10, &list));
	CHECK(!mosql_row_may_purge(11, &list));
	list.n = 0;
	CHECK(mosql_row_may_purge(30, &list));
	CHECK(!mosql_row_may_purge(31, &list));
}

/* More versions than fit on the stack. */
static void
test_many(void)
{
	MosqlTimestamp s[200];
	MosqlBytes	row = MOSQL_ABSENT;
	MosqlVersion v;
	MosqlHistory h;

	for (int i = 0; i < 200; i++)
	{
		s[i] = 10 * i + 5;
		row = supersede(row, 10 * i + 10, psprintf("%d", i), 10 * i + 10, i + 1, s);
	}
	CHECK(mosql_history_decode(row, &h) && h.n == 200 && !h.truncated);
	CHECK_INT(mosql_row_visible(row, 0, 5, &v), MOSQL_VISIBLE_ABSENT);
	for (int i = 1; i < 200; i++)
		CHECK(mosql_row_visible(row, 0, s[i], &v) == MOSQL_VISIBLE_LIVE && v.ts == 10 * i);
	row = supersede(row, 3000, NULL, 3000, 0, NULL);
	CHECK_INT(row.len, 8);
}

/* ---- bounded lists ---- */

#define BOUNDED_SNAPSHOTS 12

/* Is each version of a in b?  "Absent" goes without saying where b is complete. */
static bool
has_all(const MosqlHistory *a, const MosqlHistory *b)
{
	int			j = 0;

	for (int i = 0; i < a->n; i++)
	{
		while (j < b->n && b->versions[j].ts != a->versions[i].ts)
			j++;
		if (j == b->n ? b->truncated || a->versions[i].ts > 0 : a->versions[i].end != b->versions[j].end)
			return false;
	}
	return true;
}

/* What a full list keeps, a bounded one keeps; and it keeps nothing that is newer than all snapshots. */
static void
prune_by_both(void)
{
	MosqlTimestamp s[BOUNDED_SNAPSHOTS];
	int			n = 1 + random_below(BOUNDED_SNAPSHOTS);
	MosqlTimestamp every[40];
	MosqlTimestamp last = 10 * lengthof(every);
	MosqlBytes	row = MOSQL_ABSENT;
	StringInfoData by_full,
				by_bounded;
	MosqlHistory full,
				some;
	MosqlSnapshotList list;
	MosqlTimestamp newest = 0;

	for (int i = 0; i < lengthof(every); i++)
	{
		every[i] = 10 * i + 5;
		row = supersede(row, 10 * i + 10, random_below(5) ? "x" : NULL, 10 * i + 10, i + 1, every);
	}
	for (int i = 0; i < n; i++)
	{
		s[i] = 1 + random_below(last);
		newest = Max(newest, s[i]);
	}
	list = (MosqlSnapshotList) {last, n, s};
	initStringInfo(&by_full);
	initStringInfo(&by_bounded);
	CHECK_INT(mosql_row_prune(&by_full, row, &list), MOSQL_PRUNED_SOME);
	list = bounded(last, s, n, 1 + random_below(BOUNDED_SNAPSHOTS));
	if (mosql_row_prune(&by_bounded, row, &list) == MOSQL_PRUNED_NOTHING)
		appendBinaryStringInfo(&by_bounded, row.data, (int) row.len);
	CHECK(mosql_history_decode(mosql_bytes_of(&by_full), &full));
	CHECK(mosql_history_decode(mosql_bytes_of(&by_bounded), &some));
	CHECK(has_all(&full, &some));
	CHECK(full.truncated || !some.truncated);
	for (int i = 1; i < some.n; i++)
		CHECK(some.versions[i].ts <= newest);
	CHECK(!mosql_row_is_long(row, lengthof(every)) && mosql_row_is_long(row, lengthof(every) - 2));
}

static void
test_bounded(void)
{
	for (int i = 0; i < 2000; i++)
		prune_by_both();
}

/* ---- the model: a few lines that say what the bytes must mean ---- */

#define MODEL_MAX 256

typedef struct ModelVersion
{
	MosqlTimestamp ts;
	MosqlTimestamp end;			/* 0: newest */
	int			value;			/* -1: tombstone */
} ModelVersion;

typedef struct Model
{
	int			n;
	ModelVersion v[MODEL_MAX];
	bool		trunc;
} Model;

static void
model_prune(Model *m, const MosqlSnapshotList *list)
{
	Model		full = *m;
	bool		stub = false;

	if (!m->trunc && full.v[full.n - 1].ts > 0)
	{
		full.v[full.n] = (ModelVersion) {0, full.v[full.n - 1].ts, -1};
		full.n++;
		stub = true;
	}
	m->n = 1;
	for (int i = 1; i < full.n; i++)
	{
		bool		need = full.v[i].end > list->last ||
			(list->gap_to > 0 && full.v[i].ts <= list->gap_to && full.v[i].end > list->gap_from);

		for (int j = 0; j < list->n; j++)
			if (full.v[i].ts <= list->snapshots[j] && list->snapshots[j] < full.v[i].end)
				need = true;
		if (need)
			m->v[m->n++] = full.v[i];
	}
	if (m->n == full.n && stub)
		m->n--;
	else if (m->v[m->n - 1].ts != full.v[full.n - 1].ts)
		m->trunc = true;
}

static void
model_put(Model *m, MosqlTimestamp ts, int value, const MosqlSnapshotList *list)
{
	if (m->n > 0)
		m->v[0].end = ts;
	memmove(m->v + 1, m->v, m->n * sizeof(ModelVersion));
	m->v[0] = (ModelVersion) {ts, 0, value};
	m->n++;
	model_prune(m, list);
}

/* -1 absent, -2 too old. */
static int
model_visible(const Model *m, MosqlTimestamp purged, MosqlTimestamp S)
{
	for (int i = 0; i < m->n; i++)
		if (m->v[i].ts <= S)
		{
			if (m->v[i].end != 0 && S >= m->v[i].end)
				return -2;
			/* the one place where the model is lax, see history.c */
			if (m->v[i].ts == 0 && S < purged)
				return -2;
			return m->v[i].value;
		}
	return m->trunc || S < purged ? -2 : -1;
}

/* ---- the world ---- */

#define WORLD_STEPS		200
#define WORLD_SNAPSHOTS	6
#define WORLD_LISTS		4

typedef struct List
{
	MosqlTimestamp last;
	int			n;
	MosqlTimestamp s[WORLD_SNAPSHOTS];
} List;

typedef struct World
{
	MosqlTimestamp time;
	MosqlTimestamp last;
	MosqlTimestamp registered[WORLD_SNAPSHOTS]; /* 0: none */
	int			nreaders;		/* snapshots in use in this run */
	List		lists[WORLD_LISTS]; /* taken some time ago, still to be used */
	/* truth: value from truth_ts[i] on */
	int			ntruth;
	MosqlTimestamp truth_ts[WORLD_STEPS + 1];
	int			truth[WORLD_STEPS + 1];
	/* decided, not yet applied: the reader would see the intent */
	MosqlTimestamp pending;
	int			pending_value;
	List		pending_list;
	/* the leaf */
	MosqlBytes	row;
	MosqlTimestamp purged;
	Model		model;
} World;

static int	seen[4];			/* readers: registered, truth, too old; purges */

static MosqlTimestamp
tick(World *w, MosqlTimestamp least)
{
	w->time += random_below(3);
	w->last = Max(w->time, least);
	return w->last;
}

static List
take_list(const World *w)
{
	List		list = {.last = w->last};

	for (int i = 0; i < WORLD_SNAPSHOTS; i++)
		if (w->registered[i] != 0)
			list.s[list.n++] = w->registered[i];
	return list;
}

static MosqlSnapshotList
snapshot_list(List *list)
{
	if (random_below(2))
		return bounded(list->last, list->s, list->n, 1 + random_below(3));
	return (MosqlSnapshotList) {list->last, list->n, list->s};
}

static int
truth_at(const World *w, MosqlTimestamp S)
{
	int			value = -1;

	for (int i = 0; i < w->ntruth && w->truth_ts[i] <= S; i++)
		value = w->truth[i];
	return value;
}

static void
decide(World *w)
{
	if (w->pending != 0)
		return;
	w->pending = tick(w, w->last + 1);
	w->pending_value = random_below(3) ? random_below(1000) : -1;
	w->pending_list = take_list(w);
	w->truth_ts[w->ntruth] = w->pending;
	w->truth[w->ntruth++] = w->pending_value;
}

/* By the owner with the list of the decision, or a helper with a newer one. */
static void
apply(World *w)
{
	StringInfoData out;
	MosqlVersion v = {.ts = w->pending, .live = w->pending_value >= 0};
	List		list = random_below(2) ? w->pending_list : take_list(w);
	MosqlSnapshotList snapshots = snapshot_list(&list);

	if (w->pending == 0)
		return;
	if (v.live)
		v.columns = chars(psprintf("%d", w->pending_value));
	initStringInfo(&out);
	CHECK(mosql_row_supersede(&out, w->row, &v, &snapshots));
	model_put(&w->model, w->pending, w->pending_value, &snapshots);
	w->row = tight(mosql_bytes_of(&out));
	w->pending = 0;
}

/* With a list of any age. */
static void
vacuum(World *w)
{
	List		list = random_below(2) ? w->lists[random_below(WORLD_LISTS)] : take_list(w);
	MosqlSnapshotList snapshots = snapshot_list(&list);
	StringInfoData out;
	MosqlVersion newest;
	MosqlPruned pruned;

	if (w->row.data == NULL)
		return;
	initStringInfo(&out);
	pruned = mosql_row_prune(&out, w->row, &snapshots);
	CHECK(pruned != MOSQL_PRUNED_DAMAGED);
	if (pruned == MOSQL_PRUNED_SOME)
	{
		CHECK(out.len <= w->row.len);
		w->row = tight(mosql_bytes_of(&out));
	}
	model_prune(&w->model, &snapshots);
	CHECK(mosql_row_newest(w->row, &newest));
	if (!newest.live && w->pending == 0 && mosql_row_may_purge(newest.ts, &snapshots))
	{
		w->row = MOSQL_ABSENT;
		w->purged = Max(w->purged, newest.ts);
		w->model = (Model) {0};
		seen[3]++;
	}
}

/* -1 absent, -2 too old. */
static int
stored_at(const World *w, MosqlTimestamp S)
{
	MosqlVersion v;

	switch (mosql_row_visible(w->row, w->purged, S, &v))
	{
		case MOSQL_VISIBLE_LIVE:
			CHECK(v.ts > 0 && v.ts <= S && (S < v.end || v.end == MOSQL_TS_MAX));
			return atoi(pnstrdup(v.columns.data, v.columns.len));
		case MOSQL_VISIBLE_ABSENT:
			return -1;
		case MOSQL_VISIBLE_TOO_OLD:
			return -2;
		case MOSQL_VISIBLE_DAMAGED:
			CHECK(!"damaged");
	}
	return -3;
}

static void
look(World *w)
{
	for (MosqlTimestamp S = 0; S <= w->last; S++)
	{
		bool		is_registered = false;
		int			got;

		if (w->pending != 0 && S >= w->pending)
			break;				/* the intent says more than the row */
		for (int i = 0; i < WORLD_SNAPSHOTS; i++)
			is_registered |= w->registered[i] == S && S != 0;
		got = stored_at(w, S);
		if (got != model_visible(&w->model, w->purged, S))
			CHECK(!"the model says the same");
		if (is_registered)
		{
			seen[0]++;
			if (got != truth_at(w, S))
				CHECK(!"a registered snapshot reads the truth");
		}
		else if (got == -2)
			seen[2]++;
		else
		{
			seen[1]++;
			if (got != truth_at(w, S))
				CHECK(!"an expired snapshot reads the truth if it reads");
		}
	}
	if (w->pending == 0 && stored_at(w, MOSQL_TS_MAX) != truth_at(w, MOSQL_TS_MAX))
		CHECK(!"the latest is the truth");
}

static void
step(World *w)
{
	MosqlTimestamp *snapshot = &w->registered[random_below(w->nreaders)];

	switch (random_below(8))
	{
		case 0:
		case 1:
			decide(w);
			break;
		case 2:
		case 3:
			apply(w);
			break;
		case 4:					/* drawn, stored as last, registered: one step */
			if (*snapshot == 0)
				*snapshot = tick(w, w->last);
			break;
		case 5:
			*snapshot = 0;
			break;
		case 6:
			w->lists[random_below(WORLD_LISTS)] = take_list(w);
			break;
		case 7:
			vacuum(w);
			break;
	}
}

static void
test_world(void)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "world", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	int			failed_before = unit_failed;

	for (int run = 0; run < 3000; run++)
	{
		World	   *w = palloc0(sizeof(World));

		w->time = w->last = 1 + random_below(3);
		w->nreaders = 1 + random_below(WORLD_SNAPSHOTS);
		for (int i = 0; i < WORLD_STEPS; i++)
		{
			step(w);
			look(w);
			if (unit_failed > failed_before)
				return;
		}
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	printf("# readers: %d registered, %d others read, %d too old; %d purges\n",
		   seen[0], seen[1], seen[2], seen[3]);
	CHECK(seen[0] > 10000 && seen[1] > 10000 && seen[2] > 10000 && seen[3] > 1000);
}

/* ---- increments in any order ---- */

#define ORDER_MAX 8

/*
 * A row with a few increments, applied in a random order with lists that name
 * some snapshots: each of those must read the sum of what is not newer.
 */
static void
increments_in_any_order(void)
{
	MosqlTimestamp ts[ORDER_MAX];
	int			delta[ORDER_MAX];
	int			order[ORDER_MAX];
	MosqlTimestamp snapshots[3];
	int			n = 1 + random_below(ORDER_MAX);
	int			nsnapshots = random_below(4);
	StringInfoData columns,
				row,
				next;

	initStringInfo(&columns);
	initStringInfo(&row);
	mosql_column_put_int(&columns, 1, 1000, 4);
	CHECK(mosql_row_supersede(&row, MOSQL_ABSENT,
							  &(MosqlVersion) {.ts = 5, .live = true, .columns = mosql_bytes_of(&columns)},
							  &(MosqlSnapshotList) {.last = 5}));
	for (int i = 0; i < n; i++)
	{
		ts[i] = 10 * (i + 1);
		delta[i] = 1 << i;
		order[i] = i;
	}
	for (int i = n - 1; i > 0; i--)
	{
		int			j = random_below(i + 1);
		int			swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
	for (int i = 0; i < nsnapshots; i++)
		snapshots[i] = 5 + random_below(10 * n);

	for (int i = 0; i < n; i++)
	{
		int			at = order[i];
		MosqlSnapshotList list = {.last = ts[at]};
		MosqlTimestamp known[3];

		/* registered before this increment was decided: those below its time */
		for (int s = 0; s < nsnapshots; s++)
			if (snapshots[s] < ts[at])
				known[list.n++] = snapshots[s];
		list.snapshots = known;
		if (random_below(2))
			list = bounded(list.last, known, list.n, 1);
		initStringInfo(&next);
		CHECK(mosql_row_increment(&next, mosql_bytes_of(&row), ts[at],
								  &(MosqlIncrement) {1, 4, delta[at]}, 1, &list) == MOSQL_INCREMENT_OK);
		row = next;
	}
	for (int s = -1; s < nsnapshots; s++)
	{
		MosqlTimestamp S = s < 0 ? MOSQL_TS_MAX : snapshots[s];
		int			sum = 1000;
		MosqlVersion v;
		MosqlBytes	in;
		MosqlColumn c;

		for (int i = 0; i < n; i++)
			if (ts[i] <= S)
				sum += delta[i];
		CHECK(mosql_row_visible(mosql_bytes_of(&row), 0, S, &v) == MOSQL_VISIBLE_LIVE);
		in = v.columns;
		CHECK(mosql_column_next(&in, &c) == 1);
		CHECK_INT(mosql_read_int(c.value.data, 4), sum);
	}
}

static void
test_increments(void)
{
	for (int i = 0; i < 20000; i++)
		increments_in_any_order();
}

/*
 * An increment whose moment lies in a hole: what it would add to is gone, and
 * the version before the hole must not seem to have lived longer than it did.
 */
static void
test_increment_in_hole(void)
{
	MosqlVersion versions[] = {
		{.ts = 12, .end = MOSQL_TS_MAX, .live = true, .columns = mosql_bytes("\x0a\0\0\0\x05", 5)},
		{.ts = 5, .end = 8, .live = true, .columns = mosql_bytes("\x0a\0\0\0\x01", 5)}
	};
	MosqlHistory history = {2, true, versions};
	MosqlTimestamp snapshot = 6;
	MosqlSnapshotList list = {20, 1, &snapshot};
	MosqlIncrement inc = {1, 4, 100};
	MosqlVersion v;
	StringInfoData row;
	StringInfoData out;

	initStringInfo(&row);
	initStringInfo(&out);
	mosql_history_encode(&row, &history);
	CHECK(mosql_row_increment(&out, mosql_bytes_of(&row), 10, &inc, 1, &list) == MOSQL_INCREMENT_OK);
	CHECK_INT(mosql_row_visible(mosql_bytes_of(&out), 0, 6, &v), MOSQL_VISIBLE_LIVE);
	CHECK_INT(v.end, 8);
	CHECK_INT(mosql_row_visible(mosql_bytes_of(&out), 0, 9, &v), MOSQL_VISIBLE_TOO_OLD);
	CHECK_INT(mosql_row_visible(mosql_bytes_of(&out), 0, 11, &v), MOSQL_VISIBLE_TOO_OLD);
	CHECK_INT(mosql_row_visible(mosql_bytes_of(&out), 0, 12, &v), MOSQL_VISIBLE_LIVE);
	CHECK_INT(mosql_read_int(v.columns.data + 1, 4), 105);
}

int
main(void)
{
	RUN(test_bytes);
	RUN(test_absent);
	RUN(test_damage);
	RUN(test_supersede);
	RUN(test_prune);
	RUN(test_may_purge);
	RUN(test_many);
	RUN(test_bounded);
	RUN(test_world);
	RUN(test_increments);
	RUN(test_increment_in_hole);
	return unit_finish();
}
