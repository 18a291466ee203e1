/*
 * test_seen.c: what a snapshot has seen (txn/seen.c), against a plain array.
 *
 * Keys are numbers of two digits.  A bound lies in front of a key or right behind it, so the
 * keys and the gaps between them are the units that are seen or not: unit 0 is in front of
 * all keys, 2k + 1 is key k, 2k + 2 the gap behind it.
 */
#include "unit.h"

#include "txn/seen.c"

#define KEYS	40
#define UNITS	(2 * KEYS + 1)
#define ROOT	7

static uint64 state;

static int
below(int n)
{
	state = state * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	return (int) ((state >> 33) % (uint64) n);
}

static bool
is_live(int key)
{
	return key % 3 != 0;
}

static MosqlBytes
key_bytes(int key)
{
	static char names[KEYS + 1][3];

	snprintf(names[key], sizeof(names[key]), "%02d", key % 100);
	return mosql_bytes(names[key], 2);
}

/* The bound in front of a unit. */
static MosqlBytes
bound(int unit)
{
	if (unit == 0)
		return mosql_bytes("", 0);
	if (unit == UNITS)
		return MOSQL_ABSENT;
	return mosql_bytes(key_bytes((unit - 1) / 2).data, unit % 2 == 1 ? 2 : 3);
}

static void
add(MosqlSeen *seen, int low, int high)
{
	MosqlSeenRow rows[KEYS];
	int			n = 0;

	for (int key = 0; key < KEYS; key++)
		if (is_live(key) && 2 * key + 1 >= low && 2 * key + 1 < high)
			rows[n++] = (MosqlSeenRow) {key_bytes(key), mosql_bytes("some row", 8), 100 + key};
	mosql_seen_add(seen, ROOT, bound(low), bound(high), rows, n);
}

static int
unit_of(MosqlBytes at)
{
	for (int unit = 0; unit <= UNITS; unit++)
		if (at.data == NULL ? unit == UNITS : unit < UNITS && mosql_bytes_equal(at, bound(unit)))
			return unit;
	return -1;
}

/* Does the part hold what there is between its bounds, and are they within what was seen? */
static bool
is_right(const MosqlSeenPart *part, const bool *known)
{
	int			low = unit_of(part->low);
	int			high = unit_of(part->high);
	int			n = 0;

	for (int unit = low; unit < high; unit++)
	{
		int			key = (unit - 1) / 2;

		if (low < 0 || !known[unit])
			return false;
		if (unit % 2 == 0 || !is_live(key))
			continue;
		if (n == part->n || !mosql_bytes_equal(part->rows[n].key, key_bytes(key)) ||
			part->rows[n].version != 100 + key ||
			mosql_seen_position(part, key_bytes(key)) != n)
			return false;
		n++;
	}
	return low >= 0 && low < high && n == part->n;
}

/* all: what is known is there, too. */
static void
compare(const MosqlSeen *seen, const bool *known, bool all)
{
	int			wrong = 0;

	for (int unit = 0; unit <= UNITS; unit++)
	{
		const MosqlSeenPart *from = unit < UNITS ? mosql_seen_find(seen, ROOT, bound(unit), false) : NULL;
		const MosqlSeenPart *to = unit > 0 ? mosql_seen_find(seen, ROOT, bound(unit), true) : NULL;

		if (unit < UNITS)
			wrong += from != NULL ? !known[unit] || !is_right(from, known) : all && known[unit];
		if (unit > 0)
			wrong += to != NULL ? !known[unit - 1] || !is_right(to, known) : all && known[unit - 1];
	}
	CHECK_INT(wrong, 0);
}

static void
run(size_t limit, uint64 seed)
{
	MosqlSeen  *seen = mosql_seen_create(CurrentMemoryContext, 1000 + seed, limit);
	bool		known[UNITS] = {false};

	state = seed;
	CHECK(!mosql_seen_knows(seen, ROOT));
	for (int i = 0; i < 60; i++)
	{
		int			low = below(UNITS);
		int			high = low + 1 + below(below(3) == 0 ? UNITS : 6);

		high = Min(high, UNITS);
		add(seen, low, high);
		for (int unit = low; unit < high; unit++)
			known[unit] = true;
		compare(seen, known, !mosql_seen_is_full(seen));
	}
	CHECK(seen->bytes <= limit);
	CHECK(mosql_seen_find(seen, ROOT + 1, key_bytes(1), false) == NULL);
	mosql_seen_free(seen);
}

static void
test_any_order(void)
{
	for (uint64 seed = 1; seed <= 60; seed++)
		run(1024 * 1024, seed);
}

static void
test_full(void)
{
	MosqlSeen  *seen = mosql_seen_create(CurrentMemoryContext, 5, 100);

	add(seen, 0, UNITS);
	CHECK(mosql_seen_is_full(seen) && !mosql_seen_knows(seen, ROOT));
	for (uint64 seed = 1; seed <= 60; seed++)
		run(2000 + 200 * seed, seed);
}

/* What is there already takes no memory again. */
static void
test_again(void)
{
	MosqlSeen  *seen = mosql_seen_create(CurrentMemoryContext, 5, 1024 * 1024);
	size_t		bytes;

	add(seen, 0, 9);
	add(seen, 9, 20);
	bytes = seen->bytes;
	add(seen, 0, 20);
	add(seen, 3, 15);
	CHECK_INT(seen->bytes, bytes);
	add(seen, 3, 21);
	CHECK(seen->bytes > bytes);
}

/* Leaves: the latest ones are remembered. */
static void
test_leaves(void)
{
	MosqlSeen  *seen = mosql_seen_create(CurrentMemoryContext, 5, 1024 * 1024);

	CHECK(!mosql_seen_noted_leaf(seen, ROOT, 1));
	for (int leaf = 1; leaf <= NOTED_LEAVES + 1; leaf++)
		mosql_seen_note_leaf(seen, ROOT, leaf);
	CHECK(!mosql_seen_noted_leaf(seen, ROOT, 1));
	CHECK(mosql_seen_noted_leaf(seen, ROOT, 2) && mosql_seen_noted_leaf(seen, ROOT, NOTED_LEAVES + 1));
	CHECK(!mosql_seen_noted_leaf(seen, ROOT + 1, 2));
}

int
main(void)
{
	RUN(test_any_order);
	RUN(test_full);
	RUN(test_again);
	RUN(test_leaves);
	return unit_finish();
}
