/*
 * together.pml: one transaction of PostgreSQL, two namespaces, and its own tables: all of
 * it commits, or nothing.
 *
 * Modelled: T reads a row of namespace 0 (SERIALIZABLE, or FOR UPDATE), writes one in
 * namespace 1, drops a table (its tree is to be destroyed), and has something to commit
 * in PostgreSQL itself.  U reads the row of namespace 1 and writes the row of namespace
 * 0.  Both prepare all, check, decide one namespace after the other, apply.  Each
 * namespace has a clock with records of its own.  PostgreSQL's checks may fail, a cancel
 * may come at any time.  A waiter aborts undecided attempts, takes away what aborted ones
 * left, and applies what is decided, at any time.  Any process may stop for any time.
 *
 * Abstracted: versions are counters; leaves, lost messages and leases are in the other
 * models: a refusal is a refusal, whatever for.  Foreseeing a refusal (together.c) only
 * makes what is told as "in part" rarer.
 *
 * Ages (rule 25) are not here.  Who meets somebody tries again with the same attempt, or
 * with the next one, as it likes: whatever ages say, that is among it, and so the claims do
 * not depend on them.  What they are for is that two who each hold a part of what the other
 * wants do not wait for each other within one namespace, which is `priority`; here a
 * namespace is one row and one step.  Over several it is the order (rule 26): with PATIENT
 * there is no waiter, nobody ends before the others make way, and all come to an end.  (By
 * induction from the last namespace: who waits there waits, by `priority`, for somebody who
 * waits for nobody; who waits in an earlier one, for somebody who is there or further on.)
 *
 * Claims: who is told "40001" has nothing committed anywhere, who is told "committed" has
 * all of it; "in part" is told only if what was read or written had changed, or attempts
 * ran out; T and U do not both commit on what they have read, unless one had to be
 * prepared again after its first decision, when its marks in the other namespace may be
 * gone already; the tree goes only after PostgreSQL has committed.
 *
 * run: ci
 * run: ci -DPATIENT
 * mutation: MUT_ONE_BY_ONE rule 26: the first decides before the second is prepared
 * mutation: MUT_READS_FREE rule 26: what was read where nothing is written is not certified
 * mutation: MUT_NO_RETRY rule 26: refused after the first decision, it is not prepared again
 * mutation: MUT_OWN_ORDER -DPATIENT rule 26: each prepares in an order of its own
 * mutation: MUT_CHECK_LATE rule 27: PostgreSQL checks after the decision
 * mutation: MUT_CANCEL rule 27: interrupts are not held after the decision
 * mutation: MUT_DESTROY_EARLY rule 27: the tree is destroyed with the decision
 */
#define ATTEMPTS 2
#define T 0
#define U 1
/* ids of attempts: who, namespace, number */
#define id(who, ns, n) (1 + who * 2 * ATTEMPTS + ns * ATTEMPTS + n)
#define writes(who, ns) ((who == T && ns == 1) || (who == U && ns == 0))
#define IDS (1 + 4 * ATTEMPTS)

#define COMMITTED 1
#define ABORTED 2

byte record[IDS];
byte version[2];				/* of the row of each namespace */
byte intent[2];					/* an id, 0: none */
byte mark[2];
bool decided[4];				/* who * 2 + ns */

mtype = { nothing, committed, retry, part };
mtype told[2] = nothing;
bool local_committed, destroyed;
bool local_doomed;				/* PostgreSQL's own check will fail */
bool again;						/* prepared again after its first decision */
bool changed[2];				/* by who: what it was based on changed */
byte ended;

inline release(ns, i)
{
	atomic { if :: intent[ns] == i -> intent[ns] = 0 :: else fi }
	atomic { if :: mark[ns] == i -> mark[ns] = 0 :: else fi }
}

inline apply(ns, i)
{
	d_step {
		if :: intent[ns] == i -> intent[ns] = 0; version[ns]++ :: else fi;
		if :: mark[ns] == i -> mark[ns] = 0 :: else fi
	}
}

/* res: 0 in place, 1 busy, 2 conflict */
inline prepare(who, ns, i)
{
	d_step {
		if
		:: writes(who, ns) && (intent[ns] != 0 || mark[ns] != 0) -> res = 1
		:: !writes(who, ns) && intent[ns] != 0 -> res = 1
		:: else ->
			if
			:: version[ns] != 0 -> res = 2; changed[who] = true
			:: version[ns] == 0 && writes(who, ns) -> intent[ns] = i; res = 0
			:: version[ns] == 0 && !writes(who, ns) ->
#ifndef MUT_READS_FREE
				if :: mark[ns] == 0 -> mark[ns] = i; res = 0 :: else -> res = 1 fi
#else
				res = 0
#endif
			fi
		fi
	}
}

/* res: 0 decided, 1 refused */
inline decide(who, ns, i)
{
	d_step {
		if
		:: record[i] == ABORTED -> res = 1
		:: else -> record[i] = COMMITTED; decided[who * 2 + ns] = true; res = 0
		fi
	}
}

/* One namespace until it is in place; res 0, or 2: a conflict, or no attempt is left. */
inline prepare_one(who, ns, n)
{
	res = 1;
	do
	:: res == 1 && n < ATTEMPTS ->
		prepare(who, ns, id(who, ns, n));
		if
		:: res == 1 ->
			if
			:: release(ns, id(who, ns, n)); n++
			:: skip
			fi;
#ifdef PATIENT
			(intent[ns] == 0 && mark[ns] == 0)
#endif
		:: else
		fi
	:: res == 1 && n == ATTEMPTS -> res = 2
	:: res != 1 -> break
	od
}

proctype Transaction(byte who)
{
	byte res = 0, first = 0, second = 0;	/* attempts in namespaces 0 and 1 */
	bool out = false;				/* the second has no attempt left */

#ifdef MUT_OWN_ORDER
	if
	:: who == U ->
		prepare_one(who, 1, second);
		if :: res == 2 -> goto fail :: else fi
	:: else
	fi;
#endif
	prepare_one(who, 0, first);
	if :: res == 2 -> goto fail :: else fi;
#ifdef MUT_OWN_ORDER
	if :: who == U -> goto check :: else fi;
#endif
#ifndef MUT_ONE_BY_ONE
	prepare_one(who, 1, second);
	if :: res == 2 -> goto fail :: else fi;
#endif
check:
#ifndef MUT_CHECK_LATE
	/* after it nobody dooms this transaction in PostgreSQL */
	if
	:: who == T && local_doomed -> goto fail
	:: who == T -> skip
	:: who == U
	fi;
	if :: goto fail :: skip fi;		/* a cancel */
#endif
	decide(who, 0, id(who, 0, first));
	if
	:: res == 1 ->
		release(0, id(who, 0, first)); first++;
		if
		:: first < ATTEMPTS ->
			prepare_one(who, 0, first);
			if :: res == 2 -> goto fail :: else -> goto check fi
		:: else -> goto fail
		fi
	:: else
	fi;
#ifdef MUT_ONE_BY_ONE
	prepare_one(who, 1, second);
	if :: res == 2 -> goto fail :: else fi;
#endif
	do
	:: decide(who, 1, id(who, 1, second));
		if
		:: res == 0 -> break
		:: else ->
			release(1, id(who, 1, second)); second++;
#ifdef MUT_NO_RETRY
			goto half;
#endif
			if :: second == ATTEMPTS -> out = true; goto half :: else fi;
			again = true;
			prepare_one(who, 1, second);
			if :: res == 2 -> out = (second == ATTEMPTS); goto half :: else fi
		fi
	od;
#ifdef MUT_DESTROY_EARLY
	if :: who == T -> destroyed = true :: else fi;
	assert(!destroyed || local_committed);
#endif
	apply(0, id(who, 0, first));
	apply(1, id(who, 1, second));
#ifdef MUT_CHECK_LATE
	if :: who == T && local_doomed -> goto fail :: else fi;
#endif
#ifdef MUT_CANCEL
	if :: goto fail :: skip fi;
#endif
	atomic {
		told[who] = committed;
		if :: who == T -> local_committed = true :: else fi;
		assert(decided[who * 2] && decided[who * 2 + 1]);
		assert(again || !(told[T] == committed && told[U] == committed))
	}
	if :: who == T -> destroyed = true; assert(local_committed) :: else fi;
	goto done;
half:
	told[who] = part;
	assert(changed[who] || out);
	goto done;
fail:
	atomic {
		told[who] = retry;
		assert(!decided[who * 2] && !decided[who * 2 + 1])
	}
	if :: first < ATTEMPTS -> release(0, id(who, 0, first)) :: else fi;
	if :: second < ATTEMPTS -> release(1, id(who, 1, second)) :: else fi;
done:
	ended++
}

/* Whoever meets what others left. */
proctype Waiter()
{
	byte i = 0, ns = 0;

end:
	do
	:: atomic { intent[0] != 0 -> i = intent[0]; ns = 0 }
		goto met
	:: atomic { intent[1] != 0 -> i = intent[1]; ns = 1 }
		goto met
	:: atomic { mark[0] != 0 -> i = mark[0]; ns = 0 }
		goto met
	:: atomic { mark[1] != 0 -> i = mark[1]; ns = 1 }
met:
		atomic { if :: record[i] == 0 -> record[i] = ABORTED :: else fi }
		if
		:: record[i] == ABORTED -> release(ns, i)
		:: else -> apply(ns, i)
		fi;
		i = 0
	od
}

/* Another transaction of PostgreSQL, at SERIALIZABLE. */
proctype Neighbour()
{
	local_doomed = true
}

init {
	atomic {
		run Transaction(T); run Transaction(U);
#ifndef PATIENT
		run Waiter(); run Neighbour()
#endif
	}
#ifdef PATIENT
	timeout -> assert(ended == 2)
#endif
}
