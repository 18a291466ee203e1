/*
 * number.c: locks on numbers that a session holds over several transactions, as
 * mosql_fdw_advisory_lock() does (src/table/advisory.c, src/txn/session_lock.c).
 *
 * Whoever gets one: nobody else believes to have what that excludes, unless one of both sessions is dead by the
 * clock, or a server has forgotten.  In the end none is left (check_node() in maintain.c).
 */
#include "work_int.h"

#include "code/claim.h"
#include "fault.h"
#include "txn/lock_int.h"

#define NUMBERS		3

bool		sim_locks_numbers;

/* No row has such a key. */
static MosqlBytes
number_key(int number)
{
	static const char keys[NUMBERS][3] = {"A0", "A1", "A2"};

	return mosql_bytes(keys[number], 2);
}

/* What the session believes to have, and must have: not what it gives back, or may have lost. */
static int
strength_for_sure(const SimFrontEnd *fe, MosqlBytes key)
{
	const Work *work = fe->work;
	const MosqlSession *session = work->session;

	if (!fe->alive || fe->terminated || work->client == NULL || work->client->lets_numbers_go || session == NULL ||
		session->locks == NULL || (!claims_have_copies() && claims_forgot_us >= work->client->numbers_us) ||
		sim_forgot_us > 0 ||
		session->lock_breaks != mosql_redis_breaks(session->redis) || claims_of_dead(session->lock_owner.session))
		return 0;
	return mosql_session_lock_strength(session, MOSQL_CATALOG_ROOT, key);
}

static void
check_alone(const Client *client, int number, int strength)
{
	SimFrontEnd *fe;

	/* who has slept since he was let in is dead himself: he learns it at half a lease's end, or from the clock */
	if (claims_of_dead(client->txn->owner.session))
		return;
	for (int i = 0; (fe = fault_client(i)) != NULL; i++)
	{
		int			other = fe != sim_self ? strength_for_sure(fe, number_key(number)) : 0;

		if (other == MOSQL_UPDATE || (other > 0 && strength == MOSQL_UPDATE))
			sim_fail("tx %d locks number %d, which fe%d has", client->tx->number, number, fe->number);
	}
}

/* When each front-end got a number last: [1]: alone; and since when its session has it. */
#define FRONT_ENDS	1024

static int64 got_us[NUMBERS][2][FRONT_ENDS];
static int64 kept_us[NUMBERS][FRONT_ENDS];

/* Who learns of it when his session is dead has it no more (the answer was late): somebody else may have it since. */
static void
note_got(const Client *client, int number, int strength)
{
	if (claims_of_dead(client->txn->owner.session))
		return;
	got_us[number][strength == MOSQL_UPDATE][sim_self->number % FRONT_ENDS] = sim_now_us;
}

/* Who had it, and has more of it now, or once more, has had it all the time: a lock that was lost is an error. */
static void
check_kept(const Client *client, int number, int had)
{
	int			self = sim_self->number % FRONT_ENDS;

	if (sim_forgot_us > 0 || claims_of_dead(client->txn->owner.session))
		return;
	for (int i = 0; i < FRONT_ENDS; i++)
		if (i != self && (got_us[number][1][i] > kept_us[number][self] ||
						  (had == MOSQL_UPDATE && got_us[number][0][i] > kept_us[number][self])))
			sim_fail("tx %d has number %d since %.6f, and fe%d got it in between", client->tx->number, number,
					 (double) kept_us[number][self] / 1e6, i);
}

static void
lock_number(Client *client, MosqlTree *tree, int number, int strength)
{
	MosqlBytes	key = number_key(number);
	int64		since_us = client->session->locks == NULL ? sim_now_us : client->numbers_us;
	int			had = mosql_session_lock_strength(client->session, MOSQL_CATALOG_ROOT, key);
	bool		locked = mosql_session_lock(client->txn, tree, key, strength,
											sim_chance(700) ? LockWaitBlock : LockWaitSkip);

	sim_trace("tx %d %s number %d, strength %d", client->tx->number, locked ? "locks" : "does not get", number, strength);
	if (!locked)
		return;
	client->numbers_us = since_us;
	check_alone(client, number, strength);
	if (had > 0)
		check_kept(client, number, had);
	if (had < strength)
		kept_us[number][sim_self->number % FRONT_ENDS] = sim_now_us;
	note_got(client, number, strength);
}

/* The transaction has it as well: its end leaves the session what that has. */
static void
lock_for_transaction(Client *client, MosqlTree *tree, int number, int strength)
{
	MosqlBytes	key = number_key(number);
	MosqlRow	row;

	if (!mosql_txn_rely_on_claim(client->txn, tree, key, strength, LockWaitSkip, &row))
		return;
	check_alone(client, number, strength);
	note_got(client, number, strength);
}

void
number_statement(Client *client)
{
	MosqlTree  *tree = mosql_session_tree(client->session, MOSQL_CATALOG_ROOT);
	int			number = (int) sim_below(NUMBERS);
	int			strength = sim_chance(300) ? MOSQL_SHARE : MOSQL_UPDATE;

	if (sim_chance(300))
	{
		lock_for_transaction(client, tree, number, strength);
		return;
	}
	if (client->session->locks == NULL || sim_chance(400))
	{
		lock_number(client, tree, number, strength);
		return;
	}
	client->lets_numbers_go = true;	/* also if that fails */
	sim_trace("tx %d lets go number %d", client->tx->number, number);
	if (sim_chance(300))
		mosql_sessions_unlock_all(NULL);
	else
		(void) mosql_session_unlock(client->txn, tree, number_key(number), strength);
	client->lets_numbers_go = false;
}
