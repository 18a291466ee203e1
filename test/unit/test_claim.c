/*
 * test_claim.c: locks and waits in an intents field.
 *
 * A field is shown as "a4 b2 c?3 | I": a holds it with strength 4, c waits; then the
 * kinds of its intents.
 */
#include "bytes.h"

#include "code/claim.h"
#include "code/node.h"

#define OWNERS 4

static MosqlBytes field;

static MosqlBytes
id(char owner)
{
	StringInfoData buf;

	initStringInfo(&buf);
	mosql_txid_put(&buf, (MosqlTxid) {7, owner});
	return tight(mosql_bytes_of(&buf));
}

static const char *
shown(void)
{
	StringInfoData out;
	MosqlBytes	rest = field;
	MosqlClaim	claim;
	MosqlIntent intent;

	initStringInfo(&out);
	while (mosql_claim_next(&rest, &claim))
		appendStringInfo(&out, "%c%s%d ", (char) claim.owner.n,
						 claim.kind == MOSQL_CLAIM_WAIT ? "?" : "", claim.strength);
	appendStringInfoChar(&out, '|');
	while (mosql_intent_next(&rest, &intent) == 1)
		appendStringInfo(&out, " %c", (char) intent.kind);
	return out.data;
}

static MosqlBytes
request(char owner, MosqlClaimKind kind, int strength)
{
	StringInfoData buf;

	initStringInfo(&buf);
	mosql_claim_encode(&buf, &(MosqlClaim) {{7, owner}, kind, strength, 1});
	return tight(mosql_bytes_of(&buf));
}

static void
become(MosqlBytes after)
{
	field = after.data == NULL ? after : tight(after);
}

static void
lock(char owner, int strength)
{
	become(mosql_claims_request(field, request(owner, MOSQL_CLAIM_WAIT, strength)));
}

static void
try_lock(char owner, int strength)
{
	become(mosql_claims_request(field, request(owner, MOSQL_CLAIM_LOCK, strength)));
}

static void
lower(char owner, int strength)
{
	become(mosql_claims_request(field, request(owner, MOSQL_CLAIM_LOWER, strength)));
}

static void
leave(char owner)
{
	become(mosql_claims_take(field, id(owner)));
}

static void
intend(char owner, MosqlIntentKind kind)
{
	StringInfoData buf;

	initStringInfo(&buf);
	if (field.len > 0)
		appendBinaryStringInfo(&buf, field.data, (int) field.len);
	mosql_intent_encode(&buf, &(MosqlIntent) {{7, owner}, kind, {"", 0}});
	field = tight(mosql_bytes_of(&buf));
}

static bool
admits(char owner, int strength)
{
	char	   *asked = palloc(MOSQL_TXID_BYTES + 1);

	memcpy(asked, id(owner).data, MOSQL_TXID_BYTES);
	asked[MOSQL_TXID_BYTES] = (char) strength;
	return mosql_claims_admit(field, tight(mosql_bytes(asked, MOSQL_TXID_BYTES + 1)));
}

static bool
has(char owner, int strength)
{
	char	   *asked = palloc(MOSQL_TXID_BYTES + 1);

	memcpy(asked, id(owner).data, MOSQL_TXID_BYTES);
	asked[MOSQL_TXID_BYTES] = (char) strength;
	return mosql_claims_hold(field, tight(mosql_bytes(asked, MOSQL_TXID_BYTES + 1)));
}

/* A lock that its owner has asked for since he was let in. */
static bool
has_surely(char owner, int strength)
{
	char	   *asked = palloc(MOSQL_TXID_BYTES + 2);

	memcpy(asked, id(owner).data, MOSQL_TXID_BYTES);
	asked[MOSQL_TXID_BYTES] = (char) strength;
	asked[MOSQL_TXID_BYTES + 1] = MOSQL_ASKED_SURELY;
	return mosql_claims_hold(field, tight(mosql_bytes(asked, MOSQL_TXID_BYTES + 2)));
}

/* PostgreSQL's table ("Conflicting Row-Level Locks"), and increments. */
static void
test_strengths(void)
{
	static const char *const excluded[] = {"...x.", "..xxx", ".xxxx", "xxxxx", ".xxx."};

	for (int a = 1; a <= 5; a++)
		for (int b = 1; b <= 5; b++)
		{
			CHECK_INT(mosql_strength_excludes(a, b), excluded[a - 1][b - 1] == 'x');
			CHECK_INT(mosql_strength_excludes(a, b), mosql_strength_excludes(b, a));
			/* the stronger excludes all that the weaker does */
			if (a < 4)
				CHECK(!mosql_strength_excludes(a, b) || mosql_strength_excludes(a + 1, b));
		}
	CHECK(mosql_strength_excludes(0, 1) && mosql_strength_excludes(1, 0));
	CHECK(mosql_strength_excludes(6, 1) && mosql_strength_excludes(1, 255));
}

/* PostgreSQL's table ("Conflicting Lock Modes"); what a table's lock and a row's have to do with
 * each other is that they exclude each other. */
static void
test_modes(void)
{
	static const char *const excluded[] = {
		".......x", "......xx", "....xxxx", "...xxxxx", "..xx.xxx", "..xxxxxx", ".xxxxxxx", "xxxxxxxx"
	};

	for (int a = 1; a <= 8; a++)
		for (int b = 1; b <= 8; b++)
			CHECK_INT(mosql_strength_excludes(MOSQL_TABLE_MODE + a, MOSQL_TABLE_MODE + b),
					  excluded[a - 1][b - 1] == 'x');
	for (int a = 1; a <= 8; a++)
	{
		/* ascending, and SHARE with one of the two before it makes SHARE ROW EXCLUSIVE */
		for (int b = 1; b <= 8 && a != 4 && a < 8; b++)
			CHECK(excluded[a - 1][b - 1] != 'x' || excluded[a == 3 ? 3 : a][b - 1] == 'x');
		CHECK_INT(excluded[5][a - 1] == 'x', excluded[4][a - 1] == 'x' || excluded[2][a - 1] == 'x');
		CHECK_INT(excluded[5][a - 1] == 'x', excluded[4][a - 1] == 'x' || excluded[3][a - 1] == 'x');
		for (int row = 0; row <= 10; row++)
			CHECK(mosql_strength_excludes(row, MOSQL_TABLE_MODE + a) &&
				  mosql_strength_excludes(MOSQL_TABLE_MODE + a, row));
	}
	CHECK(mosql_strength_excludes(19, 11) && mosql_strength_excludes(11, 19));

	field = MOSQL_ABSENT;
	lock('a', 15);
	lock('b', 15);
	lock('c', 13);
	lock('d', 11);
	CHECK_STR(shown(), "a15 b15 d11 c?13 |");
	lock('a', 16);				/* waits for b, before c */
	CHECK_STR(shown(), "a15 b15 d11 a?16 c?13 |");
	leave('b');
	CHECK_STR(shown(), "a16 d11 c?13 |");
	CHECK(!admits('e', MOSQL_UPDATE));
	leave('a');
	CHECK_STR(shown(), "d11 c13 |");
	leave('c');
	leave('d');
	CHECK_STR(shown(), "|");
}

/* Sees who is ahead of an owner's wait, "-": it does not wait. */
static const char *
ahead_of(char owner, uint32 number)
{
	StringInfoData out;
	int			n;
	MosqlTxid  *ahead = mosql_claims_ahead(field, (MosqlTxid) {7, owner}, number, &n);

	initStringInfo(&out);
	if (ahead == NULL)
		appendStringInfoChar(&out, '-');
	for (int i = 0; i < n; i++)
		appendStringInfoChar(&out, (char) ahead[i].n);
	return out.data;
}

static void
test_ahead(void)
{
	field = MOSQL_ABSENT;
	CHECK_STR(ahead_of('a', 1), "-");
	lock('a', MOSQL_KEY_SHARE);
	lock('b', MOSQL_KEY_SHARE);
	lock('c', MOSQL_UPDATE);
	lock('a', MOSQL_UPDATE);
	lock('d', MOSQL_NO_KEY_UPDATE);
	CHECK_STR(shown(), "a1 b1 a?4 c?4 d?3 |");
	CHECK_STR(ahead_of('c', 1), "aba");
	CHECK_STR(ahead_of('c', 2), "-");
	CHECK_STR(ahead_of('a', 1), "b");
	CHECK_STR(ahead_of('d', 1), "ac");
	CHECK_STR(ahead_of('b', 1), "-");
}

/* Who gives a stronger lock up again waits for it no more, and is not told. */
static void
test_lower_waiting(void)
{
	MosqlBytes	before;
	MosqlBytes	owner;

	field = MOSQL_ABSENT;
	lock('a', MOSQL_KEY_SHARE);
	lock('b', MOSQL_KEY_SHARE);
	lock('a', MOSQL_UPDATE);
	CHECK_STR(shown(), "a1 b1 a?4 |");
	before = field;
	lower('a', MOSQL_KEY_SHARE);
	CHECK_STR(shown(), "a1 b1 |");
	CHECK(!mosql_claims_woken(before, field, 0, &owner));
}

/* A read that is certified has intents in its way, and no claims. */
static void
test_reading(void)
{
	field = MOSQL_ABSENT;
	lock('a', MOSQL_UPDATE);
	lock('b', MOSQL_SHARE);
	CHECK(admits('c', MOSQL_READING) && !admits('c', MOSQL_KEY_SHARE));
	intend('a', MOSQL_INTENT_PUT);
	CHECK(!admits('c', MOSQL_READING));
	field = MOSQL_ABSENT;
	lock('a', MOSQL_KEY_SHARE);
	intend('b', MOSQL_INTENT_INCREMENT);
	CHECK(!admits('c', MOSQL_READING) && admits('c', MOSQL_KEY_SHARE));
}

static void
test_queue(void)
{
	field = MOSQL_ABSENT;
	lock('a', 2);
	lock('b', 4);
	lock('c', 2);				/* beside a, but b was there before */
	CHECK_STR(shown(), "a2 b?4 c?2 |");
	lock('b', 4);				/* again: it is in the queue already */
	try_lock('d', 2);
	CHECK_STR(shown(), "a2 b?4 c?2 |");
	leave('b');					/* gives up: c is free */
	CHECK_STR(shown(), "a2 c2 |");
	lock('b', 3);
	leave('a');
	CHECK_STR(shown(), "c2 b?3 |");
	lock('d', 1);				/* KEY SHARE passes NO KEY UPDATE */
	CHECK_STR(shown(), "c2 d1 b?3 |");
	leave('c');
	CHECK_STR(shown(), "d1 b3 |");
	leave('d');
	leave('b');
	CHECK(field.data == NULL);
	leave('b');
	CHECK(field.data == NULL);
	lower('b', 1);
	CHECK(field.data == NULL);
}

static void
test_upgrade(void)
{
	field = MOSQL_ABSENT;
	lock('a', 2);
	lock('b', 2);
	lock('c', 4);
	lock('a', 4);				/* before c, who waits for it anyway */
	CHECK_STR(shown(), "a2 b2 a?4 c?4 |");
	leave('b');
	CHECK_STR(shown(), "a4 c?4 |");
	lock('a', 2);
	CHECK_STR(shown(), "a4 c?4 |");
	lower('a', 1);				/* ROLLBACK TO SAVEPOINT */
	CHECK_STR(shown(), "a1 c?4 |");
	lock('d', 1);
	CHECK_STR(shown(), "a1 c?4 d?1 |");
	lock('a', 3);
	CHECK_STR(shown(), "a3 c?4 d?1 |");
	leave('a');
	CHECK_STR(shown(), "c4 d?1 |");

	field = MOSQL_ABSENT;		/* who is not in b's way does not pass it */
	lock('a', 1);
	lock('c', 3);
	lock('b', 3);
	lock('a', 4);
	CHECK_STR(shown(), "a1 c3 b?3 a?4 |");
}

/*
 * A failover that loses it that b was let in leaves b's wait, which becomes a lock once more: that one b has not
 * asked for.
 */
static void
test_let_in(void)
{
	MosqlBytes	before;

	field = MOSQL_ABSENT;
	lock('a', 15);
	CHECK(has_surely('a', 15) && !has_surely('a', 16));
	lock('b', 17);
	before = field;
	leave('a');
	CHECK(has('b', 17) && !has_surely('b', 17));
	lock('b', 17);
	CHECK(has_surely('b', 17) && !has_surely('a', 15));
	lock('c', 13);
	leave('b');
	CHECK(has('c', 13) && !has_surely('c', 13));
	field = before;
	leave('a');
	CHECK(has('b', 17) && !has_surely('b', 17));

	/* so with a lock that becomes stronger: as strong as it was it is there by an answer */
	field = MOSQL_ABSENT;
	try_lock('a', MOSQL_SHARE);
	try_lock('b', MOSQL_SHARE);
	lock('a', MOSQL_UPDATE);
	CHECK(has_surely('a', MOSQL_SHARE));
	leave('b');
	CHECK(has('a', MOSQL_UPDATE) && has_surely('a', MOSQL_SHARE) && !has_surely('a', MOSQL_UPDATE));
	before = field;
	try_lock('a', MOSQL_SHARE);
	CHECK(mosql_bytes_equal(field, before));
	try_lock('a', MOSQL_UPDATE);
	CHECK(has_surely('a', MOSQL_UPDATE));
	lower('a', MOSQL_SHARE);
	CHECK(has_surely('a', MOSQL_SHARE) && !has('a', MOSQL_UPDATE));
	try_lock('b', MOSQL_SHARE);
	lock('a', MOSQL_UPDATE);
	leave('b');
	CHECK(has('a', MOSQL_UPDATE) && !has_surely('a', MOSQL_UPDATE));
}

static void
test_intents(void)
{
	field = MOSQL_ABSENT;
	lock('a', 3);
	intend('a', MOSQL_INTENT_PUT);
	CHECK(!admits('b', 3) && admits('a', 3) && has('a', 3) && !has('a', 4) && !has('b', 1));
	lock('b', 3);
	CHECK_STR(shown(), "a3 b?3 | P");
	CHECK(admits('a', 3) && admits('a', 5) && !admits('a', 4));
	leave('a');					/* the lock and the intent */
	CHECK_STR(shown(), "b3 |");

	field = MOSQL_ABSENT;
	intend('a', MOSQL_INTENT_INCREMENT);
	intend('b', MOSQL_INTENT_INCREMENT);
	CHECK(admits('c', 5) && admits('c', 1) && !admits('c', 2));
	lock('c', 3);
	CHECK(!admits('d', 5));		/* who waits is not passed by increments */
	CHECK_STR(shown(), "c?3 | I I");
	leave('a');
	CHECK_STR(shown(), "c?3 | I");
	leave('b');
	CHECK_STR(shown(), "c3 |");

	field = MOSQL_ABSENT;
	intend('a', MOSQL_INTENT_DELETE);
	lock('b', 1);
	CHECK_STR(shown(), "b?1 | D");
	CHECK(admits('a', 1));
}

/* Several at once, and who is told. */
static void
test_woken(void)
{
	MosqlBytes	before;
	MosqlBytes	both;
	MosqlBytes	owner;
	StringInfoData buf;

	field = MOSQL_ABSENT;
	lock('a', 4);
	lock('b', 2);
	lock('c', 2);
	lock('d', 3);
	before = field;
	leave('a');
	CHECK_STR(shown(), "b2 c2 d?3 |");
	CHECK(mosql_claims_woken(before, field, 0, &owner) && mosql_bytes_equal(owner, id('b')));
	CHECK(mosql_claims_woken(before, field, 1, &owner) && mosql_bytes_equal(owner, id('c')));
	CHECK(!mosql_claims_woken(before, field, 2, &owner));
	initStringInfo(&buf);
	appendBinaryStringInfo(&buf, id('b').data, MOSQL_TXID_BYTES);
	appendBinaryStringInfo(&buf, id('c').data, MOSQL_TXID_BYTES);
	both = mosql_bytes_of(&buf);
	field = mosql_claims_take(field, both);
	CHECK_STR(shown(), "d3 |");
	CHECK(!mosql_claims_woken(MOSQL_ABSENT, field, 0, &owner));
	CHECK(!mosql_claims_woken(field, MOSQL_ABSENT, 0, &owner));
}

/* Nobody is beside whom he excludes; who waits has somebody in front. */
static bool
field_is_right(void)
{
	MosqlClaim	claims[2 * OWNERS];
	MosqlBytes	rest = field;
	MosqlIntent intent;
	int			n = 0;
	bool		ok = true;

	while (n < 2 * OWNERS && mosql_claim_next(&rest, &claims[n]))
		n++;
	for (int i = 0; i < n; i++)
	{
		bool		blocked = false;

		for (int j = 0; j < i; j++)
		{
			bool		other = claims[i].owner.n != claims[j].owner.n;

			ok &= other || claims[i].kind != claims[j].kind;
			blocked |= other && mosql_strength_excludes(claims[i].strength, claims[j].strength);
			ok &= claims[i].kind == MOSQL_CLAIM_WAIT || claims[j].kind == MOSQL_CLAIM_LOCK;
		}
		for (MosqlBytes in = rest; mosql_intent_next(&in, &intent) == 1;)
			blocked |= intent.tx.n != claims[i].owner.n &&
				mosql_strength_excludes(claims[i].strength,
										intent.kind == MOSQL_INTENT_INCREMENT ? MOSQL_INCREMENTING : MOSQL_UPDATE);
		/* a KEY SHARE lock may be there when a put comes */
		ok &= claims[i].kind == MOSQL_CLAIM_WAIT ? blocked :
			!blocked || claims[i].strength == MOSQL_KEY_SHARE;
	}
	return ok;
}

static void
test_random(void)
{
	static const MosqlIntentKind kinds[] = {MOSQL_INTENT_PUT, MOSQL_INTENT_INCREMENT};
	int			wrong = 0;

	field = MOSQL_ABSENT;
	for (int i = 0; i < 200000; i++)
	{
		char		owner = 'a' + random_below(OWNERS);
		int			strength = 1 + random_below(4);
		MosqlIntentKind kind = kinds[random_below(2)];
		MemoryContext old = CurrentMemoryContext;
		MosqlIntent last;
		bool		put_there = false;

		for (MosqlBytes rest = field; mosql_intent_next(&rest, &last) == 1;)
			put_there |= last.kind == MOSQL_INTENT_PUT || last.tx.n == (uint64) owner;
		switch (random_below(6))
		{
			case 0:
			case 1:
				lock(owner, strength);
				break;
			case 2:
				try_lock(owner, strength);
				break;
			case 3:
				if (!put_there && admits(owner, kind == MOSQL_INTENT_PUT ? 3 : 5) &&
					(kind == MOSQL_INTENT_INCREMENT || strchr(shown(), 'I') == NULL))
					intend(owner, kind);
				break;
			case 4:
				lower(owner, strength);
				break;
			case 5:
				leave(owner);
		}
		wrong += !field_is_right();
		MemoryContextSwitchTo(old);
		if (i % 1000 == 0)
			field = MOSQL_ABSENT;
	}
	CHECK_INT(wrong, 0);
}

static bool
survives(MosqlBytes in)
{
	MosqlBytes	owner;

	field = in;
	(void) mosql_claims_request(in, request('a', MOSQL_CLAIM_WAIT, 3));
	(void) mosql_claims_take(in, id('a'));
	(void) mosql_claims_woken(in, mosql_claims_take(in, id('b')), 0, &owner);
	(void) admits('a', 3);
	(void) ahead_of('b', 1);
	return has('a', 1);
}

static void
test_damage(void)
{
	MosqlBytes	good;

	field = MOSQL_ABSENT;
	lock('a', 1);
	lock('b', 1);
	lock('c', 4);
	intend('a', MOSQL_INTENT_PUT);
	good = field;
	damage_random(good, 50000, survives);
	CHECK(mosql_bytes_equal(mosql_claims_request(good, mosql_bytes("short", 5)), good));
}

int
main(void)
{
	RUN(test_strengths);
	RUN(test_modes);
	RUN(test_ahead);
	RUN(test_lower_waiting);
	RUN(test_reading);
	RUN(test_queue);
	RUN(test_upgrade);
	RUN(test_let_in);
	RUN(test_intents);
	RUN(test_woken);
	RUN(test_random);
	RUN(test_damage);
	return unit_finish();
}
