/*
 * claims.c: who has locked what, seen where it is stored.
 *
 * Every change of a row's intents field comes by here as a server makes it.  So it is known
 * at once, and exactly, who holds, who waits for whom and in which order; what
 * docs/commit.md ("Row locks", rules 28 to 33) promises is held against it.  What clients
 * believe that they hold is in their SimTx.
 */
#include "locks.h"

#include <stdlib.h>

#include "code/claim.h"
#include "fault.h"

/* A deadlock that stands for so long was not found: who waits tells anew each ten seconds. */
#define DEADLOCK_MAX_US		INT64CONST(30000000)
#define DEADLOCK_LOOK_US	500000

typedef struct Claim
{
	MosqlClaim	is;
	int64		since_us;
} Claim;

/* A row's intents field with claims in it. */
typedef struct Place
{
	const SimKey *key;
	MosqlBytes	field;
	int			n;
	Claim	   *claims;
	MosqlBytes	intents;		/* points into the stored bytes */
} Place;

static Place *places;
static int	nplaces;
static int	maxplaces;
static int64 wait_gone_us;		/* when somebody last gave up, or was taken out as dead */

int64		claims_forgot_us;
uint64		claims_deadlocks;
uint64		claims_waited;

/* ---- what excludes what: PostgreSQL's table, and ours ---- */

static bool
locks_conflict(int a, int b)
{
	static const char *const table[] = {"0001", "0011", "0111", "1111"};
	static const char *const modes[] = {
		"00000001", "00000011", "00001111", "00011111", "00110111", "00111111", "01111111", "11111111"
	};

	if (a > MOSQL_TABLE_MODE && b > MOSQL_TABLE_MODE)
		return modes[a - MOSQL_TABLE_MODE - 1][b - MOSQL_TABLE_MODE - 1] == '1';
	return a > MOSQL_TABLE_MODE || b > MOSQL_TABLE_MODE || table[a - 1][b - 1] == '1';
}

/* A lock beside an intent of another transaction. */
static bool
lock_and_intent_conflict(int lock, MosqlIntentKind intent)
{
	return intent == MOSQL_INTENT_DELETE || lock >= MOSQL_SHARE;
}

/* ---- whose? ---- */

static MosqlSession *
session_of(MosqlTxid owner, SimFrontEnd **fe)
{
	for (int i = 0; (*fe = fault_client(i)) != NULL; i++)
	{
		Work	   *work = (*fe)->work;
		SimTx	   *tx = work->tx;

		if ((*fe)->alive && tx != NULL && tx->session->txn != NULL &&
			mosql_txid_equal(tx->session->txn->owner, owner))
			return tx->session;
	}
	return NULL;
}

static bool
are_one(MosqlTxid owner, MosqlTxid attempt)
{
	SimFrontEnd *fe;
	const MosqlSession *session;

	if (owner.session == attempt.session || owner.n >> 8 == attempt.n >> 8)
		return true;			/* or of one age: its session has drawn a new id since */
	session = session_of(owner, &fe);
	return session != NULL && session->sid == attempt.session;
}

/*
 * What the clock says: others may take away what a dead session holds.  While its slot moves
 * both servers are asked, each by its own time.
 */
static bool
is_dead(uint64 sid)
{
	char		name[64];
	int			len = snprintf(name, sizeof(name), "sim:{sim.clock}:s:" UINT64_FORMAT, sid);
	int64		lease_us = -1;
	int64		now_us = 0;

	for (int s = 0; s < sim_nshards; s++)
	{
		const SimKey *key = sim_key(&sim_shards[s], mosql_bytes(name, len), false);
		MosqlBytes	lease = sim_get(key, mosql_bytes("lease", 5));

		if (lease.data != NULL && lease_us < 0)
			lease_us = strtoll(lease.data, NULL, 10);
		now_us = Max(now_us, sim_server_time(sim_shards[s].primary));
	}
	return lease_us <= now_us;
}

bool
claims_of_dead(uint64 sid)
{
	return is_dead(sid);
}

bool
claims_may_be_lost(const SimTx *tx)
{
	const MosqlTxn *txn = tx->session->txn;

	/* with a connection that broke, what takes a claim back may arrive when it was made again */
	return sim_forgot_us > 0 || txn == NULL || is_dead(txn->owner.session) ||
		txn->claim_breaks != mosql_redis_breaks(tx->session->redis);
}

bool
claims_have_copies(void)
{
	return setting.nreplicas > 0 && !sim_dumps;
}

/* ---- a field ---- */

static Place
read_place(const SimKey *key, MosqlBytes field, MosqlBytes value, const Place *before)
{
	Place		place = {key, field};
	MosqlClaim	claim;

	place.claims = malloc((value.len / MOSQL_CLAIM_BYTES + 1) * sizeof(Claim));
	while (value.data != NULL && mosql_claim_next(&value, &claim))
	{
		place.claims[place.n] = (Claim) {claim, sim_now_us};
		for (int i = 0; before != NULL && i < before->n; i++)
			if (mosql_txid_equal(before->claims[i].is.owner, claim.owner) &&
				before->claims[i].is.kind == claim.kind && before->claims[i].is.number == claim.number)
				place.claims[place.n].since_us = before->claims[i].since_us;
		place.n++;
	}
	place.intents = value;
	return place;
}

static int
find_claim(const Place *place, MosqlTxid owner, MosqlClaimKind kind)
{
	for (int i = 0; i < place->n; i++)
		if (place->claims[i].is.kind == kind && mosql_txid_equal(place->claims[i].is.owner, owner))
			return i;
	return -1;
}

static bool
has_intent(MosqlBytes intents, MosqlTxid tx)
{
	MosqlIntent intent;

	while (mosql_intent_next(&intents, &intent) == 1)
		if (mosql_txid_equal(intent.tx, tx))
			return true;
	return false;
}

static void pg_attribute_noreturn()
wrong(const Place *place, const char *what, MosqlTxid one, MosqlTxid other)
{
	sim_fail("row %.*s of %.*s: %s: " UINT64_FORMAT "." UINT64_FORMAT ", " UINT64_FORMAT "." UINT64_FORMAT,
			 (int) place->field.len - 1, place->field.data + 1, (int) place->key->name.len, place->key->name.data,
			 what, one.session, one.n, other.session, other.n);
}

/* Rule 28: no lock beside one, or beside an intent, that it excludes. */
static void
check_exclusion(const Place *now)
{
	for (int i = 0; i < now->n; i++)
	{
		const MosqlClaim *a = &now->claims[i].is;
		MosqlBytes	rest = now->intents;
		MosqlIntent intent;

		if (a->kind != MOSQL_CLAIM_LOCK)
			continue;
		for (int j = i + 1; j < now->n; j++)
		{
			const MosqlClaim *b = &now->claims[j].is;

			if (b->kind == MOSQL_CLAIM_LOCK && mosql_txid_equal(a->owner, b->owner))
				wrong(now, "an owner has two locks", a->owner, b->owner);
			if (b->kind == MOSQL_CLAIM_LOCK && locks_conflict(a->strength, b->strength))
				wrong(now, "locked by two who exclude each other", a->owner, b->owner);
		}
		while (mosql_intent_next(&rest, &intent) == 1)
			if (!are_one(a->owner, intent.tx) && lock_and_intent_conflict(a->strength, intent.kind))
				wrong(now, "an intent beside another's lock", a->owner, intent.tx);
	}
}

/* Is anybody in the way of the claim at that place, or of its owner there? */
static bool
is_blocked(const Place *now, int at)
{
	const MosqlClaim *wait = &now->claims[at].is;
	MosqlBytes	rest = now->intents;
	MosqlIntent intent;

	for (int i = 0; i < at; i++)
		if (!mosql_txid_equal(now->claims[i].is.owner, wait->owner) &&
			locks_conflict(wait->strength, now->claims[i].is.strength))
			return true;
	while (mosql_intent_next(&rest, &intent) == 1)
		if (!mosql_txid_equal(intent.tx, wait->owner) &&
			(intent.kind != MOSQL_INTENT_INCREMENT || wait->strength >= MOSQL_SHARE))
			return true;
	return false;
}

/* Rule 30: nobody waits whom nothing is in the way of. */
static void
check_waits(const Place *now)
{
	for (int i = 0; i < now->n; i++)
		if (now->claims[i].is.kind == MOSQL_CLAIM_WAIT && !is_blocked(now, i))
			wrong(now, "it waits for nobody", now->claims[i].is.owner, (MosqlTxid) {0, 0});
}

/* Who waited before `upto` and waits still, and is excluded by what an owner has got. */
static void
check_overtaken(const Place *before, int upto, const Place *now, MosqlTxid owner, int strength)
{
	for (int i = 0; i < upto; i++)
	{
		const MosqlClaim *wait = &before->claims[i].is;

		/* one's own wait, back in a failover, is in nobody's way */
		if (wait->kind == MOSQL_CLAIM_WAIT && !are_one(wait->owner, owner) &&
			find_claim(now, wait->owner, MOSQL_CLAIM_WAIT) >= 0 && locks_conflict(strength, wait->strength))
			wrong(now, "overtaken in the queue", wait->owner, owner);
	}
}

/* Rule 30: nobody is let in before who came earlier, but who had a lock of this row. */
static void
check_order(const Place *before, const Place *now)
{
	MosqlBytes	rest = now->intents;
	MosqlIntent intent;

	for (int i = 0; i < now->n; i++)
	{
		const MosqlClaim *lock = &now->claims[i].is;
		int			at = find_claim(before, lock->owner, MOSQL_CLAIM_WAIT);

		if (lock->kind == MOSQL_CLAIM_LOCK && find_claim(before, lock->owner, MOSQL_CLAIM_LOCK) < 0)
			check_overtaken(before, at >= 0 ? at : before->n, now, lock->owner, lock->strength);
	}
	while (mosql_intent_next(&rest, &intent) == 1)
	{
		bool		holds = has_intent(before->intents, intent.tx);

		for (int i = 0; i < before->n && !holds; i++)
			holds = before->claims[i].is.kind == MOSQL_CLAIM_LOCK && are_one(before->claims[i].is.owner, intent.tx);
		if (!holds)
			check_overtaken(before, before->n, now, intent.tx,
							intent.kind == MOSQL_INTENT_DELETE ? MOSQL_UPDATE : MOSQL_NO_KEY_UPDATE);
	}
}

/* ---- a lock stays as long as its holder wants it ---- */

static int
count_held(MosqlTxid owner, MosqlBytes field)
{
	int			n = 0;

	for (int i = 0; i < nplaces; i++)
		n += mosql_bytes_equal(places[i].field, field) &&
			find_claim(&places[i], owner, MOSQL_CLAIM_LOCK) >= 0;
	return n;
}

/* Since when it waits, 0: it does not. */
static int64
waits_since(MosqlTxid owner)
{
	int64		since_us = 0;

	for (int p = 0; p < nplaces; p++)
	{
		int			at = find_claim(&places[p], owner, MOSQL_CLAIM_WAIT);

		if (at >= 0)
			since_us = places[p].claims[at].since_us;
	}
	return since_us;
}

/* Rule 32.  What a split moves is at its new place by then. */
static void
check_kept(const Place *before, const Place *now)
{
	for (int i = 0; i < before->n; i++)
	{
		MosqlTxid	owner = before->claims[i].is.owner;
		SimFrontEnd *fe;
		MosqlSession *session;
		SimTx	   *tx;
		int			wanted = 0;

		if (before->claims[i].is.kind == MOSQL_CLAIM_WAIT && find_claim(now, owner, MOSQL_CLAIM_WAIT) < 0 &&
			find_claim(now, owner, MOSQL_CLAIM_LOCK) < 0)
			wait_gone_us = sim_now_us;
		if (before->claims[i].is.kind != MOSQL_CLAIM_LOCK || find_claim(now, owner, MOSQL_CLAIM_LOCK) >= 0)
			continue;
		if (is_dead(owner.session) || waits_since(owner) != 0)
			wait_gone_us = sim_now_us;	/* a circle may end so, too: who gives up may let go of his locks first */
		session = session_of(owner, &fe);
		if (session == NULL)
			continue;
		tx = ((Work *) fe->work)->tx;
		if (tx->lets_go || tx->state == TX_COMMITTED)
			continue;
		/* a commit may take it over with all of its leaf: what others do there meanwhile claims_judge() sees */
		if (tx->state == TX_COMMITTING && before->n == 1 && now->n == 0 && now->intents.len == 0)
			continue;
		for (int c = 0; c < tx->nclaims; c++)
			wanted += !tx->claims[c].lost && tx->claims[c].key_bytes.len == before->field.len - 1 &&
				memcmp(tx->claims[c].key_bytes.data, before->field.data + 1, before->field.len - 1) == 0;
		if (wanted <= count_held(owner, before->field))
			continue;
		if (!claims_may_be_lost(tx) && claims_forgot_us < tx->began_us)
			wrong(before, "a lock is gone whose holder lives", owner, (MosqlTxid) {0, 0});
		for (int c = 0; c < tx->nclaims; c++)
			tx->claims[c].lost = true;
	}
}

/* ---- changes ---- */

static bool
is_row_of_ours(const SimKey *key, MosqlBytes field)
{
	uint64		node;

	return field.len > 0 && field.data[0] == 'i' && mosql_node_key_parse(key->name, "sim", &node);
}

static int
find_place(const SimKey *key, MosqlBytes field)
{
	for (int i = 0; i < nplaces; i++)
		if (places[i].key == key && mosql_bytes_equal(places[i].field, field))
			return i;
	return -1;
}

static bool
starts_with_claim(MosqlBytes value)
{
	MosqlClaim	claim;

	return value.data != NULL && mosql_claim_next(&value, &claim);
}

static void
keep_place(int at, const Place *now)
{
	if (at >= 0)
		free(places[at].claims);
	if (at >= 0 && now->n == 0)
	{
		free((char *) places[at].field.data);
		free(now->claims);
		places[at] = places[--nplaces];
		return;
	}
	if (now->n == 0)
	{
		free(now->claims);
		return;
	}
	if (at < 0)
	{
		if (nplaces == maxplaces)
			places = realloc(places, (maxplaces = Max(64, 2 * maxplaces)) * sizeof(Place));
		at = nplaces++;
		places[at] = *now;
		places[at].field.data = memcpy(malloc(now->field.len), now->field.data, now->field.len);
		return;
	}
	places[at].n = now->n;
	places[at].claims = now->claims;
	places[at].intents = now->intents;
}

void
claims_changed(const SimKey *key, MosqlBytes field, MosqlBytes old, MosqlBytes new, bool forgotten)
{
	Place		before;
	Place		now;
	Place		was;
	int			at;

	if (!is_row_of_ours(key, field))
		return;
	if (forgotten)
		claims_forgot_us = sim_now_us;
	at = find_place(key, field);
	if (at < 0 && !starts_with_claim(new))
		return;
	before = read_place(key, field, old, at >= 0 ? &places[at] : NULL);
	now = read_place(key, field, new, at >= 0 ? &places[at] : NULL);
	was = before;
	was.claims = memcpy(malloc((before.n + 1) * sizeof(Claim)), before.claims, before.n * sizeof(Claim));
	for (int i = 0; i < now.n; i++)
		claims_waited += now.claims[i].is.kind == MOSQL_CLAIM_WAIT && now.claims[i].since_us == sim_now_us;
	keep_place(at, &now);
	if (!forgotten && !sim_is_torn)
	{
		int			again = find_place(key, field);
		Place		none = {key, field, 0, NULL, new};
		const Place *stored = again >= 0 ? &places[again] : &none;

		check_exclusion(stored);
		check_waits(stored);
		if (old.data != NULL)
			check_order(&was, stored);
		check_kept(&was, stored);
	}
	free(before.claims);
	free(was.claims);
}

/* ---- who waits for whom ---- */

#define OWNERS_MAX	200

/* All owners in reach of `from`; is `to` among them? */
static bool
leads_to(MosqlTxid from, MosqlTxid to)
{
	MosqlTxid	seen[OWNERS_MAX];
	int			n = 0;

	seen[n++] = from;
	for (int done = 0; done < n; done++)
		for (int p = 0; p < nplaces; p++)
		{
			const Place *place = &places[p];
			int			at = find_claim(place, seen[done], MOSQL_CLAIM_WAIT);

			for (int i = 0; i < at; i++)
			{
				MosqlTxid	ahead = place->claims[i].is.owner;
				bool		is_new = true;

				if (mosql_txid_equal(ahead, seen[done]) ||
					!locks_conflict(place->claims[at].is.strength, place->claims[i].is.strength))
					continue;
				if (mosql_txid_equal(ahead, to))
					return true;
				for (int s = 0; s < n && is_new; s++)
					is_new = !mosql_txid_equal(seen[s], ahead);
				if (is_new && n < OWNERS_MAX)
					seen[n++] = ahead;
			}
		}
	return false;
}

/*
 * 40P01, and the transaction has let nothing go yet.  A circle goes away only when somebody
 * in it gives up, or is taken out, or a failover has forgotten it.
 */
void
claims_deadlock_reported(const SimTx *tx)
{
	MosqlTxid	owner = tx->session->txn->owner;
	int64		since_us = waits_since(owner);

	claims_deadlocks++;
	if (since_us == 0 || wait_gone_us >= since_us || claims_forgot_us >= since_us || sim_forgot_us > 0)
		return;
	if (!leads_to(owner, owner))
		sim_fail("tx %d (owner " UINT64_FORMAT "." UINT64_FORMAT ") is told of a deadlock that is none", tx->number,
				 owner.session, owner.n);
}

/* Those who are in a circle, and since when it is seen, with everybody awake. */
static struct
{
	MosqlTxid	owner;
	int64		wait_us;
	int64		seen_us;
}			circled[OWNERS_MAX];
static int	ncircled;

/* Is everybody who is there at work?  Of who is dead nothing can be expected. */
static bool
all_awake(void)
{
	SimFrontEnd *fe;

	for (int i = 0; (fe = fault_client(i)) != NULL; i++)
		if (fe->alive && fe->sleeping)
			return false;
	return true;
}

static void
look_for_deadlocks(void *arg, uint64 tag)
{
	int			kept = 0;
	SimFrontEnd *fe;

	for (int i = 0; i < ncircled; i++)
		if (waits_since(circled[i].owner) == circled[i].wait_us && leads_to(circled[i].owner, circled[i].owner))
			circled[kept++] = circled[i];
	ncircled = kept;
	for (int p = 0; p < nplaces; p++)
		for (int c = 0; c < places[p].n; c++)
		{
			MosqlTxid	owner = places[p].claims[c].is.owner;
			int			at = 0;

			if (places[p].claims[c].is.kind != MOSQL_CLAIM_WAIT || !leads_to(owner, owner) || session_of(owner, &fe) == NULL)
				continue;
			while (at < ncircled && !mosql_txid_equal(circled[at].owner, owner))
				at++;
			if (at == OWNERS_MAX)
				continue;
			if (at == ncircled)
			{
				circled[at].owner = owner;
				circled[at].wait_us = waits_since(owner);
				circled[at].seen_us = sim_now_us;
				ncircled++;
			}
			if (!all_awake())
				circled[at].seen_us = sim_now_us;
			if (sim_now_us - circled[at].seen_us > DEADLOCK_MAX_US)
				sim_fail("the deadlock of " UINT64_FORMAT "." UINT64_FORMAT " at row %.*s is not found",
						 owner.session, owner.n, (int) places[p].field.len - 1, places[p].field.data + 1);
		}
	sim_at(sim_now_us + DEADLOCK_LOOK_US, look_for_deadlocks, NULL, 0);
}

void
claims_start(void)
{
	sim_at(sim_now_us + DEADLOCK_LOOK_US, look_for_deadlocks, NULL, 0);
}

/* Who is held up, and by whom: for a run that does not come to an end. */
void
claims_tell(void)
{
	SimFrontEnd *fe;

	for (int p = 0; p < nplaces; p++)
		for (int c = 0; c < places[p].n; c++)
		{
			const Claim *claim = &places[p].claims[c];

			(void) session_of(claim->is.owner, &fe);
			sim_trace("claim on %.*s of %.*s: " UINT64_FORMAT "." UINT64_FORMAT " of fe%d, %s, strength %d, since %.6f%s",
					  (int) places[p].field.len - 1, places[p].field.data + 1,
					  (int) places[p].key->name.len, places[p].key->name.data,
					  claim->is.owner.session, claim->is.owner.n, fe != NULL ? fe->number : 0,
					  claim->is.kind == MOSQL_CLAIM_LOCK ? "has it" : "waits", claim->is.strength,
					  (double) claim->since_us / 1e6, is_dead(claim->is.owner.session) ? ", dead" : "");
		}
}

/* ---- a commit, and what others have locked ---- */

static bool
is_in_the_way(int strength, const Write *w)
{
	return strength >= MOSQL_SHARE ? w->base != ON_NOTHING || w->row.live : w->base == ON_ROW && !w->row.live;
}

void
claims_judge(const SimTx *tx)
{
	SimFrontEnd *fe;

	for (int i = 0; (fe = fault_client(i)) != NULL; i++)
	{
		const SimTx *other = ((Work *) fe->work)->tx;

		if (!fe->alive || other == NULL || other == tx || other == tx->near || other->lets_go ||
			other->state == TX_COMMITTED || tx->far)
			continue;
		if (other->table_mode > 0 && oracle_changes_table(tx) && !claims_may_be_lost(other) &&
			(claims_have_copies() || claims_forgot_us < other->began_us))
			sim_fail("tx %d changes the table, which tx %d has locked", tx->number, other->number);
		for (int c = 0; c < other->nclaims; c++)
		{
			const SimClaim *claim = &other->claims[c];
			const Write *w = oracle_own(tx, claim->tree, claim->key);

			if (w != NULL && !claim->lost && is_in_the_way(claim->strength, w) &&
				!claims_may_be_lost(other) && claims_forgot_us < other->began_us)
				sim_fail("tx %d changes row %d/%d, which tx %d has locked (%d)", tx->number, claim->tree,
						 claim->key, other->number, claim->strength);
		}
	}
}
