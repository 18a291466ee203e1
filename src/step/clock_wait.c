/*
 * clock_wait.c: who waits for whose lock, told to the clock, and cycles of them.
 *
 * Layer: step.  A wait's field is its owner (16 bytes) and number (4); its value
 *
 *     8 bytes root; 2 bytes length of the key, the key; 16 bytes per owner ahead
 *
 * all big-endian.  The number is part of the name, so that a late "it is over" cannot
 * take the next wait of the same owner away.
 *
 * Nothing here has to survive a failover: a cycle that is forgotten is found when one of
 * its members tells its wait anew.
 */
#include "postgres.h"

#include "step/clock_wait.h"
#include "code/node.h"
#include "step/clock_watch_int.h"

#define FIELD_BYTES	(MOSQL_TXID_BYTES + 4)
#define HEAD_BYTES	(8 + 2)

/* ---- bytes ---- */

static MosqlBytes
wait_field(const MosqlWait *wait)
{
	StringInfoData out;

	initStringInfo(&out);
	mosql_txid_put(&out, wait->owner);
	for (int shift = 24; shift >= 0; shift -= 8)
		appendStringInfoChar(&out, (char) (wait->number >> shift));
	return mosql_bytes_of(&out);
}

static MosqlBytes
wait_value(const MosqlWait *wait)
{
	StringInfoData out;

	Assert(wait->key.len <= PG_UINT16_MAX);
	initStringInfo(&out);
	for (int shift = 56; shift >= 0; shift -= 8)
		appendStringInfoChar(&out, (char) (wait->root >> shift));
	appendStringInfoChar(&out, (char) (wait->key.len >> 8));
	appendStringInfoChar(&out, (char) wait->key.len);
	if (wait->key.len > 0)
		appendBinaryStringInfo(&out, wait->key.data, (int) wait->key.len);
	for (int i = 0; i < wait->nahead; i++)
		mosql_txid_put(&out, wait->ahead[i]);
	return mosql_bytes_of(&out);
}

/* Bytes point into the reply; false if they are damaged. */
static bool
get_wait(MosqlBytes field, MosqlBytes value, MosqlWait *wait)
{
	const uint8 *p = (const uint8 *) field.data;
	MosqlTxid  *ahead;
	size_t		at;

	if (field.len != FIELD_BYTES || value.len < HEAD_BYTES)
		return false;
	wait->owner = mosql_txid_get(field.data);
	wait->number = (uint32) p[16] << 24 | p[17] << 16 | p[18] << 8 | p[19];
	p = (const uint8 *) value.data;
	wait->root = 0;
	for (int i = 0; i < 8; i++)
		wait->root = wait->root << 8 | p[i];
	wait->key = mosql_bytes(value.data + HEAD_BYTES, p[8] << 8 | p[9]);
	at = HEAD_BYTES + wait->key.len;
	if (at > value.len || (value.len - at) % MOSQL_TXID_BYTES != 0)
		return false;
	wait->nahead = (int) ((value.len - at) / MOSQL_TXID_BYTES);
	wait->ahead = ahead = palloc((wait->nahead + 1) * sizeof(MosqlTxid));
	for (int i = 0; i < wait->nahead; i++)
		ahead[i] = mosql_txid_get(value.data + at + i * MOSQL_TXID_BYTES);
	return true;
}

static int
compare_owners(const MosqlTxid *a, const MosqlTxid *b)
{
	int			by_session = mosql_uint64_compare(&a->session, &b->session);

	return by_session != 0 ? by_session : mosql_uint64_compare(&a->n, &b->n);
}

/* By owner; of one owner the newest first. */
static int
compare_waits(const void *a, const void *b)
{
	const MosqlWait *x = a;
	const MosqlWait *y = b;
	int			by_owner = compare_owners(&x->owner, &y->owner);

	return by_owner != 0 ? by_owner : (x->number < y->number) - (x->number > y->number);
}

static int
get_waits(const MosqlClockKeys *keys, const MosqlReply *fields, MosqlWait **waits)
{
	int			n = fields->n / 2;
	int			kept = 0;

	*waits = palloc((n + 1) * sizeof(MosqlWait));
	for (int i = 0; i < n; i++)
		if (!get_wait(mosql_step_elem(fields, 2 * i)->str, mosql_step_elem(fields, 2 * i + 1)->str,
					  &(*waits)[i]))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("damaged wait in Redis key \"%s\"", keys->waits.data)));
	qsort(*waits, n, sizeof(MosqlWait), compare_waits);
	for (int i = 0; i < n; i++)
		if (kept == 0 || compare_owners(&(*waits)[kept - 1].owner, &(*waits)[i].owner) != 0)
			(*waits)[kept++] = (*waits)[i];
	return kept;
}

/* ---- steps ---- */

/* Told first, and read then: the last of a cycle to tell reads all the others. */
int
mosql_clock_wait(MosqlStepper *clock, const MosqlWait *mine, MosqlWait **waits)
{
	Watch		watch = watch_start(clock, NULL);

	write_begin(&watch);
	mosql_commands_put(&watch.commands, LITERAL("HSET"), watch.keys.waits, wait_field(mine),
					   wait_value(mine));
	mosql_commands_put(&watch.commands, LITERAL("HGETALL"), watch.keys.waits);
	run_atomic(&watch, false);
	return get_waits(&watch.keys, mosql_step_elem(watch.exec, 1), waits);
}

static void
ignore_reply(void *arg, const MosqlReply *reply)
{
	(void) arg;
	(void) reply;
}

void
mosql_clock_wait_over(MosqlStepper *clock, const MosqlWait *mine)
{
	MosqlClockKeys keys = mosql_clock_keys(clock->ns);
	MosqlBytes	argv[] = {LITERAL("HDEL"), keys.waits, wait_field(mine)};

	mosql_redis_send(clock->redis, keys.slot, lengthof(argv), argv, ignore_reply, NULL);
}

int
mosql_clock_waits(MosqlStepper *clock, MosqlWait **waits)
{
	Watch		watch = watch_start(clock, NULL);

	write_begin(&watch);
	mosql_commands_put(&watch.commands, LITERAL("HGETALL"), watch.keys.waits);
	run_atomic(&watch, false);
	return get_waits(&watch.keys, mosql_step_elem(watch.exec, 0), waits);
}

bool
mosql_clock_deadlock(MosqlStepper *clock, const MosqlWait *waits, const int *cycle, int n)
{
	Watch		watch = watch_start(clock, NULL);
	MosqlBytes *argv = palloc((2 + n) * sizeof(MosqlBytes));

	Assert(n > 0);
	argv[0] = LITERAL("HMGET");
	argv[1] = watch.keys.waits;
	for (int i = 0; i < n; i++)
		argv[2 + i] = wait_field(&waits[cycle[i]]);
	for (;;)
	{
		const MosqlReply *told;

		read_begin(&watch, watch.keys.waits, MOSQL_ABSENT);
		mosql_commands_copy(&watch.commands, 2 + n, argv);
		read_run(&watch);
		told = read_reply(&watch, 0);
		for (int i = 0; i < n; i++)
		{
			MosqlBytes	now = mosql_reply_bytes(mosql_step_elem(told, i));

			if (now.data == NULL || !mosql_bytes_equal(now, wait_value(&waits[cycle[i]])))
				return false;
		}
		write_begin(&watch);
		mosql_commands_put(&watch.commands, LITERAL("HDEL"), watch.keys.waits, argv[2]);
		if (write_run_as(&watch, false) == MOSQL_EXEC_DONE)
			return true;
		start_over(&watch);
	}
}

/* ---- cycles ---- */

/* The wait of an owner, -1: it waits for nobody, as far as it is told. */
static int
find_wait(const MosqlWait *waits, int n, const MosqlTxid *owner)
{
	int			low = 0;
	int			high = n;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;
		int			order = compare_owners(&waits[middle].owner, owner);

		if (order == 0)
			return middle;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return -1;
}

static bool
is_left_out(const MosqlWaitEdge *without, int n, const MosqlTxid *waiter, const MosqlTxid *ahead)
{
	for (int i = 0; i < n; i++)
		if (mosql_txid_equal(without[i].waiter, *waiter) && mosql_txid_equal(without[i].ahead, *ahead))
			return true;
	return false;
}

/* Breadth first, from the owner's wait, until an edge leads back to it. */
int
mosql_waits_cycle(const MosqlWait *waits, int n, MosqlTxid owner, const MosqlWaitEdge *without,
				  int nwithout, int *cycle)
{
	int			start = find_wait(waits, n, &owner);
	int		   *from = palloc((n + 1) * sizeof(int));	/* -1: not seen */
	int		   *todo = palloc((n + 1) * sizeof(int));
	int			ntodo = 0;

	if (start < 0)
		return 0;
	memset(from, -1, n * sizeof(int));
	todo[ntodo++] = start;
	for (int done = 0; done < ntodo; done++)
	{
		const MosqlWait *wait = &waits[todo[done]];

		for (int i = 0; i < wait->nahead; i++)
		{
			int			next = find_wait(waits, n, &wait->ahead[i]);
			int			length = 1;

			if (next < 0 || from[next] >= 0 ||
				is_left_out(without, nwithout, &wait->owner, &wait->ahead[i]))
				continue;
			from[next] = todo[done];
			if (next != start)
			{
				todo[ntodo++] = next;
				continue;
			}
			for (int at = from[start]; at != start; at = from[at])
				length++;
			for (int at = from[start], place = length - 1; place > 0; at = from[at], place--)
				cycle[place] = at;
			cycle[0] = start;
			return length;
		}
	}
	return 0;
}
