/*
 * sign.c: signs of life of commits that take long.
 *
 * Layer: txn.  Who meets the intents of an undecided attempt gives it intent_timeout and then
 * aborts it (recover.c), for the dead do not say that they are.  An attempt that lives may take
 * longer: it writes many rows, or one of the servers is slow, or is being replaced.  So it gives
 * a sign each quarter of that time, from the second quarter on, whenever it waits for Redis; and
 * who has waited long enough looks for a sign before he aborts, and waits as long again for each
 * new one.  A commit that is done in a quarter of the time, that is nearly every one, costs nothing more.
 *
 * Nothing is decided by a sign: one that is lost, late, or seen too late costs the attempt that
 * is aborted then, and its transaction makes another.  One that stays behind costs who waits
 * another intent_timeout.  So it needs no compare, and no copies.
 */
#include "postgres.h"

#include "txn/txn_int.h"

static int64
sign_pause_us(void)
{
	return (int64) mosql_txn_intent_timeout_ms * 1000 / 4;
}

/* For each session whose time has come; sets the time of the next. */
static void
give_signs(void)
{
	int64		now_us = mosql_now_us();
	int64		next_us = PG_INT64_MAX;
	dlist_iter	iter;

	dlist_foreach(iter, &mosql_sessions)
	{
		MosqlSession *session = dlist_container(MosqlSession, node, iter.cur);
		MosqlSign  *sign = &session->sign;

		if (sign->due_us == 0)
			continue;
		if (now_us >= sign->due_us)
		{
			mosql_clock_sign(&session->stepper, sign->tx, ++sign->n);
			sign->due_us = now_us + sign_pause_us();
		}
		next_us = Min(next_us, sign->due_us);
	}
	mosql_redis_set_beat(give_signs, next_us);
}

void
mosql_sign_begin(MosqlSession *session, MosqlTxid tx)
{
	session->sign = (MosqlSign) {.tx = tx,.due_us = mosql_now_us() + sign_pause_us()};
	mosql_redis_set_beat(give_signs, session->sign.due_us);
}

void
mosql_sign_end(MosqlSession *session)
{
	session->sign.due_us = 0;
}
