/*
 * claim.c: locks and waits in an intents field.
 *
 * Layer: code.  The same is said in Lua in step_lua.h: test_step.c runs random
 * requests through both.  Bytes that do not decode are in everybody's way, and stay.
 */
#include "code/claim.h"
#include "code/code_int.h"
#include "code/node.h"

#define KIND_AT		MOSQL_TXID_BYTES
#define STRENGTH_AT	(MOSQL_TXID_BYTES + 1)
#define NUMBER_AT	(MOSQL_TXID_BYTES + 2)
#define ANSWERED_AT	(MOSQL_CLAIM_BYTES - 1)		/* of a lock; the bytes before it are 0 */

void
mosql_claim_encode(StringInfo out, const MosqlClaim *claim)
{
	char	   *p = grow(out, MOSQL_CLAIM_BYTES);

	p = put_uint64(put_uint64(p, claim->owner.session), claim->owner.n);
	*p++ = (char) claim->kind;
	*p++ = (char) claim->strength;
	for (int shift = 24; shift >= 0; shift -= 8)
		*p++ = (char) (claim->number >> shift);
}

bool
mosql_claims_begin(MosqlBytes in)
{
	return in.len >= MOSQL_CLAIM_BYTES &&
		(in.data[KIND_AT] == MOSQL_CLAIM_LOCK || in.data[KIND_AT] == MOSQL_CLAIM_WAIT);
}

bool
mosql_claim_next(MosqlBytes *in, MosqlClaim *claim)
{
	const char *p = in->data;

	if (!mosql_claims_begin(*in))
		return false;
	claim->owner = mosql_txid_get(p);
	claim->kind = (MosqlClaimKind) p[KIND_AT];
	claim->strength = (MosqlStrength) (uint8) p[STRENGTH_AT];
	claim->number = 0;
	for (int i = 0; i < 4; i++)
		claim->number = claim->number << 8 | (uint8) p[NUMBER_AT + i];
	in->data += MOSQL_CLAIM_BYTES;
	in->len -= MOSQL_CLAIM_BYTES;
	return true;
}

bool
mosql_strength_excludes(int wanted, int there)
{
	static const char *const excluded[] = {"00010", "00111", "01111", "11111", "01110"};
	static const char *const modes[] = {
		"00000001", "00000011", "00001111", "00011111", "00110111", "00111111", "01111111", "11111111"
	};

	if (wanted > MOSQL_TABLE_MODE && wanted <= MOSQL_TABLE_MODE + 8 &&
		there > MOSQL_TABLE_MODE && there <= MOSQL_TABLE_MODE + 8)
		return modes[wanted - MOSQL_TABLE_MODE - 1][there - MOSQL_TABLE_MODE - 1] == '1';
	return wanted < 1 || wanted > 5 || there < 1 || there > 5 || excluded[wanted - 1][there - 1] == '1';
}

/* ---- a field taken apart ---- */

typedef struct Claims
{
	int			n;
	char	  **claims;			/* [n + 1], MOSQL_CLAIM_BYTES each, copies */
	MosqlBytes	intents;
} Claims;

static char *
copy_claim(const char *claim)
{
	return memcpy(palloc(MOSQL_CLAIM_BYTES), claim, MOSQL_CLAIM_BYTES);
}

static Claims
take_apart(MosqlBytes field)
{
	Claims		c = {.claims = palloc((field.len / MOSQL_CLAIM_BYTES + 2) * sizeof(char *)), .intents = field};

	while (mosql_claims_begin(c.intents))
	{
		c.claims[c.n++] = copy_claim(c.intents.data);
		c.intents.data += MOSQL_CLAIM_BYTES;
		c.intents.len -= MOSQL_CLAIM_BYTES;
	}
	return c;
}

static MosqlBytes
put_together(const Claims *c)
{
	StringInfoData buf;

	if (c->n == 0 && c->intents.len == 0)
		return MOSQL_ABSENT;
	mosql_string_init(&buf, c->n * MOSQL_CLAIM_BYTES + c->intents.len + 1);
	for (int i = 0; i < c->n; i++)
		appendBinaryStringInfo(&buf, c->claims[i], MOSQL_CLAIM_BYTES);
	if (c->intents.len > 0)
		appendBinaryStringInfo(&buf, c->intents.data, (int) c->intents.len);
	return mosql_bytes_of(&buf);
}

static bool
is_owner(const char *claim, const char *owner)
{
	return memcmp(claim, owner, MOSQL_TXID_BYTES) == 0;
}

static bool
waits(const char *claim)
{
	return claim[KIND_AT] == MOSQL_CLAIM_WAIT;
}

static int
strength(const char *claim)
{
	return (uint8) claim[STRENGTH_AT];
}

static int
find_claim(const Claims *c, const char *owner, MosqlClaimKind kind)
{
	for (int i = 0; i < c->n; i++)
		if (c->claims[i][KIND_AT] == (char) kind && is_owner(c->claims[i], owner))
			return i;
	return -1;
}

static void
insert_claim(Claims *c, int at, char *claim)
{
	memmove(c->claims + at + 1, c->claims + at, (c->n - at) * sizeof(char *));
	c->claims[at] = claim;
	c->n++;
}

static void
remove_claim(Claims *c, int at)
{
	c->n--;
	memmove(c->claims + at, c->claims + at + 1, (c->n - at) * sizeof(char *));
}

/* The end of the intent at the front; 0: it does not decode. */
static size_t
intent_end(MosqlBytes in)
{
	size_t		end;

	if (in.len < MOSQL_TXID_BYTES + 1)
		return 0;
	if (in.data[MOSQL_INTENT_KIND_OFFSET] != MOSQL_INTENT_INCREMENT)
		return in.len;
	if (in.len < MOSQL_TXID_BYTES + 2)
		return 0;
	end = MOSQL_TXID_BYTES + 2 + (uint8) in.data[MOSQL_TXID_BYTES + 1];
	return end <= in.len ? end : 0;
}

/*
 * Is anybody in the way of an owner who wants this, and stands before the claim `upto`?  A
 * put counts as what it may be, a new row: it is only there while somebody commits.
 */
static bool
is_blocked(const Claims *c, int upto, const char *owner, int wanted)
{
	MosqlBytes	rest = c->intents;

	for (int i = 0; wanted != MOSQL_READING && i < c->n && !(i >= upto && waits(c->claims[i])); i++)
		if (!is_owner(c->claims[i], owner) &&
			mosql_strength_excludes(wanted, strength(c->claims[i])))
			return true;
	while (rest.len > 0)
	{
		size_t		end = intent_end(rest);

		if (end == 0)
			return true;
		if (!is_owner(rest.data, owner) &&
			mosql_strength_excludes(wanted, rest.data[MOSQL_INTENT_KIND_OFFSET] == MOSQL_INTENT_INCREMENT ?
									MOSQL_INCREMENTING : MOSQL_UPDATE))
			return true;
		rest = mosql_bytes(rest.data + end, rest.len - end);
	}
	return false;
}

static int
answered(const char *lock)
{
	return (uint8) lock[ANSWERED_AT];
}

static char *
new_lock(const char *claim)
{
	char	   *lock = copy_claim(claim);

	lock[KIND_AT] = MOSQL_CLAIM_LOCK;
	memset(lock + NUMBER_AT, 0, MOSQL_CLAIM_BYTES - NUMBER_AT);
	return lock;
}

/* The owner of a claim has that lock; false if a lock that it had became stronger. */
static bool
hold(Claims *c, const char *claim)
{
	int			at = find_claim(c, claim, MOSQL_CLAIM_LOCK);

	if (at >= 0)
	{
		if (strength(c->claims[at]) < strength(claim))
			c->claims[at][STRENGTH_AT] = claim[STRENGTH_AT];
		return false;
	}
	for (at = 0; at < c->n && !waits(c->claims[at]); at++)
		;
	insert_claim(c, at, new_lock(claim));
	return true;
}

/* Whoever is free of all ahead of it gets its lock, in order. */
static void
let_in(Claims *c)
{
	int			i = 0;

	while (i < c->n)
	{
		char	   *claim = c->claims[i];

		if (!waits(claim) || is_blocked(c, i, claim, strength(claim)))
		{
			i++;
			continue;
		}
		remove_claim(c, i);
		if (hold(c, claim))
			i++;
	}
}

/* ---- what a step asks, and does ---- */

static bool
covers(int held, int wanted)
{
	return wanted == MOSQL_INCREMENTING ? held >= MOSQL_NO_KEY_UPDATE : held >= wanted;
}

bool
mosql_claims_admit(MosqlBytes field, MosqlBytes asked)
{
	Claims		c = take_apart(field);
	int			mine;
	int			wanted;

	if (asked.len != MOSQL_TXID_BYTES + 1)
		return false;
	wanted = (uint8) asked.data[MOSQL_TXID_BYTES];
	mine = find_claim(&c, asked.data, MOSQL_CLAIM_LOCK);
	return !is_blocked(&c, mine >= 0 && covers(strength(c.claims[mine]), wanted) ? 0 : c.n,
					   asked.data, wanted);
}

MosqlTxid *
mosql_claims_ahead(MosqlBytes field, MosqlTxid owner, uint32 number, int *n)
{
	MosqlTxid  *ahead = palloc((field.len / MOSQL_CLAIM_BYTES + 1) * sizeof(MosqlTxid));
	MosqlStrength wanted = 0;
	MosqlBytes	rest = field;
	MosqlClaim	claim;

	*n = 0;
	while (wanted == 0 && mosql_claim_next(&rest, &claim))
		if (claim.kind == MOSQL_CLAIM_WAIT && claim.number == number && mosql_txid_equal(claim.owner, owner))
			wanted = claim.strength;
	if (wanted == 0)
		return NULL;
	while (mosql_claim_next(&field, &claim))
	{
		bool		own = mosql_txid_equal(claim.owner, owner);

		if (own && claim.kind == MOSQL_CLAIM_WAIT)
			break;
		if (!own && mosql_strength_excludes(wanted, claim.strength))
			ahead[(*n)++] = claim.owner;
	}
	return ahead;
}

bool
mosql_claims_hold(MosqlBytes field, MosqlBytes asked)
{
	Claims		c = take_apart(field);
	bool		surely = asked.len == MOSQL_TXID_BYTES + 2;
	int			mine;

	if (asked.len != MOSQL_TXID_BYTES + 1 && !surely)
		return false;
	mine = find_claim(&c, asked.data, MOSQL_CLAIM_LOCK);
	return mine >= 0 && strength(c.claims[mine]) >= (uint8) asked.data[MOSQL_TXID_BYTES] &&
		(!surely || answered(c.claims[mine]) >= (uint8) asked.data[MOSQL_TXID_BYTES]);
}

/* A new claim: a lock if nobody is in its way, else a wait, in its place (rule 30). */
static void
add_claim(Claims *c, int mine, const char *request)
{
	int			at = c->n;

	for (int i = 0; mine >= 0 && i < c->n && at == c->n; i++)
		if (waits(c->claims[i]) &&
			mosql_strength_excludes(strength(c->claims[i]), strength(c->claims[mine])))
			at = i;
	if (!is_blocked(c, at, request, strength(request)))
		(void) hold(c, request);
	else if (waits(request))
		insert_claim(c, at, copy_claim(request));
}

/* The owner of a request is told what it has, if that is as much. */
static void
answer(Claims *c, const char *request)
{
	int			mine = find_claim(c, request, MOSQL_CLAIM_LOCK);

	if (mine >= 0 && strength(c->claims[mine]) >= strength(request) &&
		answered(c->claims[mine]) < strength(request))
		c->claims[mine][ANSWERED_AT] = request[STRENGTH_AT];
}

MosqlBytes
mosql_claims_request(MosqlBytes field, MosqlBytes request)
{
	Claims		c = take_apart(field);
	MosqlBytes	after;
	int			mine;

	if (request.len != MOSQL_CLAIM_BYTES)
		return field;
	mine = find_claim(&c, request.data, MOSQL_CLAIM_LOCK);
	if (request.data[KIND_AT] == MOSQL_CLAIM_LOWER)
	{
		int			wait = find_claim(&c, request.data, MOSQL_CLAIM_WAIT);

		if (mine >= 0 && strength(c.claims[mine]) > strength(request.data))
			c.claims[mine][STRENGTH_AT] = request.data[STRENGTH_AT];
		if (mine >= 0 && answered(c.claims[mine]) > strength(request.data))
			c.claims[mine][ANSWERED_AT] = request.data[STRENGTH_AT];
		if (wait >= 0)
			remove_claim(&c, wait);
	}
	else
	{
		if ((mine < 0 || strength(c.claims[mine]) < strength(request.data)) &&
			find_claim(&c, request.data, MOSQL_CLAIM_WAIT) < 0)
			add_claim(&c, mine, request.data);
		answer(&c, request.data);
	}
	let_in(&c);
	after = put_together(&c);
	return mosql_bytes_equal(after, field) ? field : after;
}

static bool
is_listed(MosqlBytes ids, const char *id)
{
	for (size_t i = 0; i + MOSQL_TXID_BYTES <= ids.len; i += MOSQL_TXID_BYTES)
		if (is_owner(ids.data + i, id))
			return true;
	return false;
}

/* What is left of the intents; what does not decode is left as it is. */
static MosqlBytes
take_intents(MosqlBytes intents, MosqlBytes ids)
{
	StringInfoData buf;
	size_t		end;

	mosql_string_init(&buf, intents.len + 1);
	while (intents.len > 0 && (end = intent_end(intents)) > 0)
	{
		if (!is_listed(ids, intents.data))
			appendBinaryStringInfo(&buf, intents.data, (int) end);
		intents = mosql_bytes(intents.data + end, intents.len - end);
	}
	if (intents.len > 0)
		appendBinaryStringInfo(&buf, intents.data, (int) intents.len);
	return mosql_bytes_of(&buf);
}

MosqlBytes
mosql_claims_take(MosqlBytes field, MosqlBytes ids)
{
	Claims		c = take_apart(field);
	MosqlBytes	after;

	for (int i = c.n - 1; i >= 0; i--)
		if (is_listed(ids, c.claims[i]))
			remove_claim(&c, i);
	if (c.intents.len > 0)
		c.intents = take_intents(c.intents, ids);
	let_in(&c);
	after = put_together(&c);
	return mosql_bytes_equal(after, field) ? field : after;
}

bool
mosql_claims_woken(MosqlBytes before, MosqlBytes after, int n, MosqlBytes *owner)
{
	Claims		now;
	int			lock;

	if (!mosql_claims_begin(before) || !mosql_claims_begin(after))
		return false;
	now = take_apart(after);
	for (; mosql_claims_begin(before); before = mosql_bytes(before.data + MOSQL_CLAIM_BYTES,
														   before.len - MOSQL_CLAIM_BYTES))
		if (waits(before.data) && find_claim(&now, before.data, MOSQL_CLAIM_WAIT) < 0 &&
			(lock = find_claim(&now, before.data, MOSQL_CLAIM_LOCK)) >= 0 &&
			strength(now.claims[lock]) >= strength(before.data) && n-- == 0)
		{
			*owner = mosql_bytes(before.data, MOSQL_TXID_BYTES);
			return true;
		}
	return false;
}
