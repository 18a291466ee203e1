/*
 * test_node.c: names, meta, separators, intents.
 */
#include "bytes.h"

#include "code/claim.h"
#include "code/loaded.h"
#include "code/node.h"
#include "code/row.h"

static void
test_names(void)
{
	StringInfoData buf;
	uint64		node;
	static const char *const bad[] = {
		"mosql:{0000000000000AB}", "mosql:{00000000000000AB}", "mosql:{00000000000000ab", "mosql:{}",
		"mosqx:{00000000000000ab}", "mosql:00000000000000ab}}", "mosql:{00000000000000ab}x",
		"mosql:{mosql.clock}:c", "mosql", "", "xmosql:{00000000000000ab}"
	};

	initStringInfo(&buf);
	mosql_node_key(&buf, "mosql", 0xAB);
	CHECK_STR(buf.data, "mosql:{00000000000000ab}");
	CHECK(mosql_node_key_parse(mosql_bytes_of(&buf), "mosql", &node) && node == 0xAB);
	CHECK(!mosql_node_key_parse(mosql_bytes_of(&buf), "mosq", &node));
	CHECK(!mosql_node_key_parse(mosql_bytes_of(&buf), "", &node));
	for (int i = 0; i < lengthof(bad); i++)
		CHECK(!mosql_node_key_parse(tight(mosql_bytes(bad[i], strlen(bad[i]))), "mosql", &node));
	CHECK(!mosql_node_key_parse(MOSQL_ABSENT, "mosql", &node));
	for (int i = 0; i < 1000; i++)
	{
		uint64		id = random_magnitude();

		resetStringInfo(&buf);
		appendStringInfoString(&buf, "x");
		mosql_node_key(&buf, "a:{b}", id);
		CHECK(mosql_node_key_parse(mosql_bytes(buf.data + 1, buf.len - 1), "a:{b}", &node) && node == id);
	}
	resetStringInfo(&buf);
	mosql_field_put(&buf, MOSQL_FIELD_ROW, mosql_bytes("a\0b", 3));
	CHECK_STR(hex(mosql_bytes_of(&buf)), "72 61 00 62");
	resetStringInfo(&buf);
	mosql_field_put(&buf, MOSQL_FIELD_META, MOSQL_ABSENT);
	CHECK_STR(buf.data, "m");
}

static void
test_stamps(void)
{
	StringInfoData a,
				b;
	int			wrong = 0;

	initStringInfo(&a);
	initStringInfo(&b);
	for (int i = 0; i < 10000; i++)
	{
		MosqlTimestamp ta = i == 0 ? MOSQL_TS_MAX : random_magnitude() & MOSQL_TS_MAX;
		MosqlTimestamp tb = random_magnitude() & MOSQL_TS_MAX;
		MosqlTxid	xa = {random_magnitude(), random_magnitude()};

		resetStringInfo(&a);
		resetStringInfo(&b);
		mosql_ts_put(&a, ta);
		mosql_ts_put(&b, tb);
		wrong += a.len != MOSQL_TS_BYTES || mosql_ts_get(a.data) != ta;
		wrong += sign(memcmp(a.data, b.data, MOSQL_TS_BYTES)) != (ta > tb) - (ta < tb);
		resetStringInfo(&a);
		mosql_txid_put(&a, xa);
		wrong += a.len != MOSQL_TXID_BYTES || !mosql_txid_equal(mosql_txid_get(a.data), xa);
	}
	CHECK_INT(wrong, 0);
}

/* ---- meta ---- */

static MosqlNodeMeta
random_meta(void)
{
	static const char states[] = "NSDXPL";
	MosqlNodeMeta m = {0};

	m.generation = random_magnitude();
	m.level = (uint8) random_below(MOSQL_TREE_MAX_LEVEL + 1);
	m.state = (MosqlNodeState) states[random_below(6)];
	m.tree = random_magnitude();
	m.low = random_string(5);
	if (random_below(2))
	{
		m.high = random_string(random_below(20) ? 5 : 300);
		m.right = random_magnitude() | 1;
	}
	if (m.state == MOSQL_NODE_SPLITTING || m.state == MOSQL_NODE_DEAD)
		m.other = random_magnitude() | 1;
	if (m.state == MOSQL_NODE_SPLITTING)
		m.split_key = random_string(4);
	if (m.state == MOSQL_NODE_LOADING)
	{
		m.loaded.loader = (MosqlTxid) {random_magnitude() | 1, random_magnitude()};
		m.loaded.over = random_below(2);
		m.loaded.deletes = m.loaded.over && random_below(2);
		m.loaded.locks = m.loaded.over && random_below(2);
	}
	if (m.state == MOSQL_NODE_PACKED && random_below(2))
	{
		m.loaded = (MosqlLoaded) {.since = 1 + random_below(PG_INT32_MAX),.whole = random_below(2)};
		m.loaded.deletes = m.loaded.whole && random_below(2);
	}
	else if (m.state == MOSQL_NODE_PACKED)
		m.loaded.undone = random_below(2);
	return m;
}

static bool
same_meta(const MosqlNodeMeta *a, const MosqlNodeMeta *b)
{
	return a->generation == b->generation && a->level == b->level && a->state == b->state &&
		a->tree == b->tree && a->right == b->right && a->other == b->other &&
		mosql_bytes_equal(a->low, b->low) &&
		(a->high.data == NULL) == (b->high.data == NULL) && mosql_bytes_equal(a->high, b->high) &&
		(a->split_key.data == NULL) == (b->split_key.data == NULL) &&
		mosql_bytes_equal(a->split_key, b->split_key) && mosql_txid_equal(a->loaded.loader, b->loaded.loader) &&
		a->loaded.over == b->loaded.over && a->loaded.deletes == b->loaded.deletes && a->loaded.locks == b->loaded.locks &&
		a->loaded.since == b->loaded.since && a->loaded.whole == b->loaded.whole && a->loaded.undone == b->loaded.undone;
}

static bool
decode_meta(MosqlBytes in)
{
	MosqlNodeMeta m;
	StringInfoData again;

	if (!mosql_meta_decode(in, &m))
		return false;
	initStringInfo(&again);
	mosql_meta_encode(&again, &m);
	CHECK(mosql_bytes_equal(mosql_bytes_of(&again), in));
	return true;
}

static void
test_meta(void)
{
	StringInfoData buf;
	StringInfoData generation;

	initStringInfo(&buf);
	initStringInfo(&generation);
	for (int i = 0; i < 5000; i++)
	{
		MosqlNodeMeta m = random_meta();
		MosqlNodeMeta back;

		resetStringInfo(&buf);
		mosql_meta_encode(&buf, &m);
		if (!mosql_meta_decode(tight(mosql_bytes_of(&buf)), &back) || !same_meta(&m, &back))
			CHECK(!"meta comes back");
		for (int j = 0; j < 8; j++)
			if ((uint8) buf.data[j] != (uint8) (m.generation >> (56 - 8 * j)))
				CHECK(!"generation is first");
		if (i < 300)
		{
			CHECK_INT(damage(mosql_bytes_of(&buf), decode_meta), 0);
			appendStringInfoChar(&buf, 0);
			CHECK(!decode_meta(mosql_bytes_of(&buf)));
		}
	}
	damage_random(mosql_bytes("\0\0\0\0\0\0\0\1\1\0N\5", 12), 50000, decode_meta);
	damage_random(mosql_bytes("\0\0\0\0\0\0\0\1\1\0S\17", 12), 50000, decode_meta);
	damage_random(mosql_bytes("\0\0\0\0\0\0\0\1\1\0L\5", 12), 50000, decode_meta);
	damage_random(mosql_bytes("\0\0\0\0\0\0\0\1\1\0P\5", 12), 50000, decode_meta);
}

/* What a transaction has written to a block is what the meta says: nothing yet, an intent, rows of then, or what was before. */
static void
expect_written(const MosqlLoaded *loaded, MosqlBytes stored, MosqlBytes before, MosqlBytes columns)
{
	MosqlBytes	rows[3] = {tight(stored), MOSQL_ABSENT, before.data != NULL ? before : tight(stored)};
	MosqlBytes	intents[3];
	MosqlTimestamp since = loaded->since;
	MosqlIntent intent;
	MosqlVersion v;
	bool		was_there = before.data != NULL;

	CHECK(mosql_loaded_take(loaded, rows, intents, 3));
	CHECK(rows[1].data == NULL && intents[1].data == NULL);
	if (was_there)
		CHECK(mosql_bytes_equal(rows[2], before) && intents[2].data == NULL);
	if (since == 0)
		CHECK(was_there ? mosql_bytes_equal(rows[0], before) : rows[0].data == NULL);
	CHECK((intents[0].data != NULL) == (loaded->loader.session != 0));
	if (intents[0].data != NULL)
		CHECK(mosql_intent_next(&intents[0], &intent) == 1 && mosql_txid_equal(intent.tx, loaded->loader) &&
			  intent.kind == (columns.data != NULL ? MOSQL_INTENT_PUT : MOSQL_INTENT_DELETE) &&
			  mosql_bytes_equal(intent.payload, columns.data != NULL ? columns : mosql_bytes("", 0)));
	if (since == 0)
		return;
	if (columns.data == NULL && !loaded->whole)
	{
		CHECK(rows[0].data == NULL);
		return;
	}
	CHECK(mosql_row_newest(rows[0], &v) && v.ts == since && v.live == (columns.data != NULL) &&
		  mosql_bytes_equal(v.columns, columns));
	CHECK_INT(mosql_row_visible(rows[0], 0, since - 1, &v), !loaded->whole ? MOSQL_VISIBLE_TOO_OLD :
			  was_there ? MOSQL_VISIBLE_LIVE : MOSQL_VISIBLE_ABSENT);
	if (loaded->whole && was_there)
		CHECK(v.ts == 20 && mosql_bytes_equal(v.columns, mosql_bytes("before", 6)));
	CHECK_INT(mosql_row_visible(rows[0], since, 10, &v), MOSQL_VISIBLE_TOO_OLD);
}

static void
test_loaded(void)
{
	const MosqlBytes columns = mosql_bytes("columns", 7);
	const MosqlVersion old = {.ts = 20,.end = MOSQL_TS_MAX,.live = true,.columns = mosql_bytes("before", 6)};
	const MosqlHistory history = {.n = 1,.truncated = true,.versions = (MosqlVersion *) &old};
	const MosqlLoaded metas[] = {
		{.loader = {7, 9},.over = true}, {.since = 50}, {.since = 50,.whole = true}, {.undone = true}
	};
	StringInfoData before;

	initStringInfo(&before);
	mosql_history_encode(&before, &history);
	for (int kind = 0; kind < 3; kind++)	/* new, changed, deleted */
	{
		MosqlBytes	was = kind == 0 ? MOSQL_ABSENT : mosql_bytes_of(&before);
		MosqlBytes	is = kind == 2 ? MOSQL_ABSENT : columns;
		StringInfoData stored;
		MosqlBytes	row;
		MosqlVersion v;

		initStringInfo(&stored);
		mosql_loaded_put(&stored, was, is);
		for (int m = 0; m < lengthof(metas); m++)
		{
			row = mosql_bytes_of(&stored);
			expect_written(&metas[m], row, was, is);
			CHECK(mosql_loaded_is_stale(&metas[m], &row, 1) == (m == 3 || (m > 0 && kind > 0)));
			for (size_t len = 1; len < (kind == 0 ? 8 : stored.len); len++)
			{
				row = tight(mosql_bytes(stored.data, len));
				if (len >= MOSQL_TS_BYTES && (kind != 1 || len < stored.len - 6) && (kind != 2 || len < 16))
					CHECK(!mosql_loaded_take(&metas[m], &row, NULL, 1));
			}
		}
		/* a leaf that carries its own timestamps has none of these */
		row = tight(mosql_bytes_of(&stored));
		CHECK(mosql_loaded_take(&(MosqlLoaded) {0}, &row, NULL, 1) && !mosql_row_newest(row, &v));
	}
	/* an empty leaf that is filled has no row that was there */
	{
		MosqlBytes	row = mosql_bytes_of(&before);

		CHECK(!mosql_loaded_take(&(MosqlLoaded) {.loader = {7, 9}}, &row, NULL, 1));
	}
}

/* What is left of another state in the struct is not written. */
static void
test_meta_leftovers(void)
{
	MosqlNodeMeta m = {.generation = 1, .state = MOSQL_NODE_NORMAL, .tree = 1, .other = 5,
	.split_key = mosql_bytes("x", 1)};
	MosqlNodeMeta back;
	StringInfoData buf;

	initStringInfo(&buf);
	mosql_meta_encode(&buf, &m);
	CHECK(mosql_meta_decode(mosql_bytes_of(&buf), &back));
	CHECK(back.other == 0 && back.split_key.data == NULL && back.high.data == NULL);
	CHECK(back.low.data != NULL && back.low.len == 0);
	buf.data[8] = MOSQL_NODE_FORMAT + 1;
	CHECK(!mosql_meta_decode(mosql_bytes_of(&buf), &back));
}

static void
test_cover(void)
{
	MosqlNodeMeta m = {.state = MOSQL_NODE_NORMAL, .low = mosql_bytes("b", 1), .high = mosql_bytes("f", 1),
	.right = 2};
#define COVER(key) mosql_meta_cover(&m, mosql_bytes(key, strlen(key)))

	CHECK_INT(COVER("a"), MOSQL_COVER_LEFT);
	CHECK_INT(COVER("b"), MOSQL_COVER_OK);
	CHECK_INT(COVER("ezzz"), MOSQL_COVER_OK);
	CHECK_INT(COVER("f"), MOSQL_COVER_RIGHT);
	m.state = MOSQL_NODE_SPLITTING;
	m.split_key = mosql_bytes("d", 1);
	CHECK_INT(COVER("a"), MOSQL_COVER_LEFT);
	CHECK_INT(COVER("c"), MOSQL_COVER_OK);
	CHECK_INT(COVER("d"), MOSQL_COVER_FROZEN);
	CHECK_INT(COVER("f"), MOSQL_COVER_RIGHT);
	m.state = MOSQL_NODE_DYING;
	CHECK_INT(COVER("a"), MOSQL_COVER_LEFT);
	CHECK_INT(COVER("c"), MOSQL_COVER_DYING);
	CHECK_INT(COVER("f"), MOSQL_COVER_RIGHT);
	m.state = MOSQL_NODE_DEAD;
	CHECK_INT(COVER("a"), MOSQL_COVER_DEAD);
	CHECK_INT(COVER("f"), MOSQL_COVER_DEAD);
	m = (MosqlNodeMeta) {.state = MOSQL_NODE_NORMAL};
	CHECK_INT(COVER(""), MOSQL_COVER_OK);
	CHECK_INT(COVER("\xFF"), MOSQL_COVER_OK);
}

/* ---- separators ---- */

static bool
decode_children(MosqlBytes in)
{
	MosqlChild *children;
	int			n;
	StringInfoData again;

	if (!mosql_children_decode(in, &children, &n))
		return false;
	initStringInfo(&again);
	mosql_children_encode(&again, children, n);
	CHECK(mosql_bytes_equal(mosql_bytes_of(&again), in));
	return true;
}

static int
compare_children(const void *a, const void *b)
{
	return mosql_bytes_compare(((const MosqlChild *) a)->separator, ((const MosqlChild *) b)->separator);
}

static void
test_children(void)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < 2000; i++)
	{
		MosqlChild	children[300];
		MosqlChild *back;
		int			max = i < 100 ? 5 : 300;
		int			n = 0;
		int			distinct = 0;
		int			nback;
		int			wrong = 0;

		while (n < max && random_below(max) > 0)
			children[n++] = (MosqlChild) {random_string(8), random_magnitude()};
		qsort(children, n, sizeof(MosqlChild), compare_children);
		for (int j = 0; j < n; j++)
			if (j == 0 || mosql_bytes_compare(children[distinct - 1].separator, children[j].separator) < 0)
				children[distinct++] = children[j];
		resetStringInfo(&buf);
		mosql_children_encode(&buf, children, distinct);
		wrong += !mosql_children_decode(tight(mosql_bytes_of(&buf)), &back, &nback) || nback != distinct;
		for (int j = 0; j < distinct && wrong == 0; j++)
			wrong += back[j].node != children[j].node ||
				!mosql_bytes_equal(back[j].separator, children[j].separator);
		if (wrong)
			CHECK(!"children come back");
		if (i < 100)
		{
			CHECK_INT(damage(mosql_bytes_of(&buf), decode_children), 0);
			appendStringInfoChar(&buf, 0);
			CHECK(!decode_children(mosql_bytes_of(&buf)));
		}
	}
	CHECK(!decode_children(MOSQL_ABSENT));
	CHECK(!decode_children(mosql_bytes("\x02\x01" "b" "\0\0\0\0\0\0\0\1" "\x01" "a" "\0\0\0\0\0\0\0\2", 21)));
	CHECK(!decode_children(mosql_bytes("\x02\x01" "b" "\0\0\0\0\0\0\0\1" "\x01" "b" "\0\0\0\0\0\0\0\2", 21)));
	CHECK(decode_children(mosql_bytes("\x02\x01" "b" "\0\0\0\0\0\0\0\1" "\x01" "c" "\0\0\0\0\0\0\0\2", 21)));
	damage_random(mosql_bytes("\x01", 1), 30000, decode_children);
	damage_random(mosql_bytes("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 10), 1000, decode_children);
}

/* ---- intents ---- */

/* A whole field, with claims or without, decodes, and encodes to the same bytes again. */
static bool
decode_intents(MosqlBytes in)
{
	MosqlIntent intent;
	MosqlClaim	claim;
	StringInfoData again;
	MosqlBytes	rest = in;
	int			got;

	initStringInfo(&again);
	do
	{
		while (mosql_claim_next(&rest, &claim))
			mosql_claim_encode(&again, &claim);
		if ((got = mosql_intent_next(&rest, &intent)) == 1)
			mosql_intent_encode(&again, &intent);
	} while (got == 1);
	if (got < 0)
		return false;
	CHECK(mosql_bytes_equal(mosql_bytes_of(&again), in));
	return true;
}

static void
test_intent(void)
{
	StringInfoData buf;
	static const char kinds[] = "PDI";

	initStringInfo(&buf);
	for (int i = 0; i < 2000; i++)
	{
		MosqlIntent intent = {{random_magnitude(), random_magnitude()}, (MosqlIntentKind) kinds[i % 3]};
		MosqlIntent back;
		MosqlBytes	rest;
		StringInfoData tx;

		if (intent.kind != MOSQL_INTENT_DELETE)
			intent.payload = random_string(20);
		resetStringInfo(&buf);
		initStringInfo(&tx);
		mosql_intent_encode(&buf, &intent);
		mosql_txid_put(&tx, intent.tx);
		rest = tight(mosql_bytes_of(&buf));
		if (mosql_intent_next(&rest, &back) != 1 || back.kind != intent.kind ||
			!mosql_txid_equal(back.tx, intent.tx) || !mosql_bytes_equal(back.payload, intent.payload) ||
			mosql_intent_next(&rest, &back) != 0 ||
			memcmp(tx.data, buf.data, MOSQL_TXID_BYTES) != 0)
			CHECK(!"intent comes back");
		for (int len = 1; len < buf.len; len++)
			if (kinds[i % 3] == 'I' && decode_intents(tight(mosql_bytes(buf.data, len))))
				CHECK(!"a cut increment is damage");
	}

	/* several increments, one after the other */
	resetStringInfo(&buf);
	for (int n = 1; n <= 5; n++)
		mosql_intent_encode(&buf, &(MosqlIntent) {{7, n}, MOSQL_INTENT_INCREMENT, random_string(9)});
	CHECK(decode_intents(tight(mosql_bytes_of(&buf))));

	resetStringInfo(&buf);
	mosql_intent_encode(&buf, &(MosqlIntent) {{1, 2}, MOSQL_INTENT_DELETE});
	CHECK(decode_intents(mosql_bytes_of(&buf)));
	appendStringInfoChar(&buf, 0);
	CHECK(!decode_intents(mosql_bytes_of(&buf)));
	damage_random(MOSQL_ABSENT, 50000, decode_intents);
}

static void
test_report(void)
{
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, mosql_report_damage("shop", 0x1F, "a row does not decode"));
	CHECK_STR(pgstub_error.message,
			  "damaged data in Redis key \"shop:{000000000000001f}\": a row does not decode");
	CHECK(strstr(pgstub_error.hint, "mosql_fdw_check(table)") != NULL);
}

int
main(void)
{
	RUN(test_names);
	RUN(test_stamps);
	RUN(test_meta);
	RUN(test_meta_leftovers);
	RUN(test_loaded);
	RUN(test_cover);
	RUN(test_children);
	RUN(test_intent);
	RUN(test_report);
	return unit_finish();
}
