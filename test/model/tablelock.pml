/*
 * tablelock.pml: LOCK TABLE, beside statements that place no lock of the table.
 *
 * Modelled: three transactions and a table, or (CROSS) two.  Transaction 0 locks the table so
 * that writers are kept out: it has its claim at the definition's row, then raises the schema
 * version; it reads the table, writes it, and commits.  1 and 2 write it; when they begin they learn
 * the version and look at the claims, which may be long before; whom decide refuses for the
 * version looks again, waits in the claim's queue, and prepares anew.  LOCKERS: 1 locks, too, and
 * writes nothing.  CROSS: 0 has written another table before, which 1 locks, and writes nothing.
 * DEAD: one of the first two dies, or only its lease ends, and it goes on under a new id.
 * FAILOVER: a claim is lost, or somebody's wait.  AGAIN: who has locked a table asks for more of it.  FORGET: the clock falls back by a version.
 *
 * The rule: 37 in docs/commit.md; with it 16, 29, 30, 32 where they are about claims of tables.
 *
 * Abstracted: the eight modes are two, what locks and what writes; being woken (locks.pml), a
 * commit's messages (commit.pml): decision and apply are one step; deadlocks (deadlock.pml).
 *
 * Claims: nobody's write of a table is decided while somebody who lives has it locked, unless
 * that claim was lost; who has locked a table and is decided has had it for itself from the lock
 * to the decision, whatever was lost; only who has lost a claim fails; nobody waits for ever.
 *
 * run: ci
 * run: ci -DLOCKERS
 * run: ci -DCROSS
 * run: deep -DDEAD
 * run: ci -DDEAD -DLOCKERS
 * run: deep -DFAILOVER
 * run: ci -DFAILOVER -DLOCKERS
 * run: ci -DFAILOVER -DLOCKERS -DAGAIN
 * run: ci -DFORGET
 * run: deep -DFAILOVER -DDEAD -DFORGET -DLOCKERS
 * mutation: MUT_NO_RAISE rule 37: who has locked a table does not raise the schema version
 * mutation: MUT_RAISE_BEFORE rule 37: the version is raised before the claim is there
 * mutation: MUT_DECIDE_BLIND rule 37: decide does not compare the schema version
 * mutation: MUT_NO_LOOK rule 37: who is refused for the version does not look at the claims
 * mutation: MUT_LEARN_LATE -DLOCKERS rule 37: who is refused goes on by the version that he knows after he has looked
 * mutation: MUT_OPEN_LATE rule 37: a statement looks at the claims before it learns the version
 * mutation: MUT_WAIT_WITH_INTENTS rule 37: who waits for a table's lock leaves its intents
 * mutation: MUT_OWN_ANY -DCROSS rule 37: a version that others raised as well is taken for one's own
 * mutation: MUT_CLAIM_UNCHECKED -DFAILOVER rule 37: who has locked a table does not compare at commit that it has
 * mutation: MUT_AGAIN_BLIND -DFAILOVER -DAGAIN rule 37: who asks for a stronger lock gets it, too, where the former one was lost
 * mutation: MUT_CLAIM_OF_OLD_ID -DDEAD rule 37: a claim of another id than decides counts
 * mutation: MUT_NO_LEAP -DFORGET rule 16: a clock that falls back gives a version out again
 * mutation: MUT_TAKE_LIVE -DDEAD rule 32: a claim counts as given up before its session's lease is removed
 * mutation: MUT_DEAD_STAYS -DDEAD rule 32: nobody clears away what the dead hold
 * mutation: MUT_WAIT_FORGOTTEN -DFAILOVER rule 32: who waits does not look whether it is still in the queue
 */
#define TXS 3
#define NOBODY 7
#define granted(y, r) skip

#ifdef CROSS
#define ROWS 2
#else
#define ROWS 1
#endif

#include "queue.inc"

/* Which table it locks, and which it writes. */
byte locked_by[TXS];
byte written_by[TXS];

byte version = 1;				/* the schema's */
byte greatest = 1;				/* that was ever told */
byte wrote[ROWS];				/* writes of the table that were decided */
byte intent[ROWS];
byte base[TXS];					/* writes that the locker has seen */
bit has[TXS];					/* it has locked its table */
bit checked[TXS];				/* and prepare has found its claim */
bit lost[TXS];					/* which was forgotten */
bit dead[TXS];					/* its lease is removed */
bit halted[TXS];				/* and it has stopped */
bit ended[TXS];

#define keeps_out(y, x, r) ((y) != (x) && (row[r].exclusive & bit(y)))
#define is_locked_out(x, r) (keeps_out(0, x, r) || keeps_out(1, x, r) || keeps_out(2, x, r))

#ifdef MUT_TAKE_LIVE
#define gone(y) true
#elif defined(MUT_DEAD_STAYS)
#define gone(y) false
#else
#define gone(y) dead[y]
#endif

#define stale(x, y, r) ((y) != (x) && gone(y) && (holds(y, r) || at[y] == r))

/* Its claim at table r, of which it is the owner until it ends. */
inline acquire(x, r, exclusively)
{
	skip;
	d_step {
		wants[x] = exclusively;
		if
		:: holds(x, r) && (!exclusively || (row[r].exclusive & bit(x)))
		:: else -> enter(x, r); pass(r)
		fi;
		printf("%d asks for table %d\n", x, r)
	}
	do
	:: holds(x, r) -> break
#if defined(DEAD) || defined(FAILOVER)
	:: !holds(x, r) && stale(x, 0, r) -> skip; d_step { withdraw(0, r); pass(r); printf("%d clears 0 away\n", x) }; skip
	:: !holds(x, r) && stale(x, 1, r) -> skip; d_step { withdraw(1, r); pass(r); printf("%d clears 1 away\n", x) }; skip
	:: !holds(x, r) && stale(x, 2, r) -> skip; d_step { withdraw(2, r); pass(r); printf("%d clears 2 away\n", x) }; skip
#ifndef MUT_WAIT_FORGOTTEN
	:: !holds(x, r) && at[x] == NOWHERE -> d_step { enter(x, r); pass(r) }; skip
#endif
#endif
	od
}

inline take_intent_back(x, r)
{
	d_step {
		if
		:: r != NOWHERE && intent[r] == x -> intent[r] = NOBODY
		:: else
		fi
	}
}

inline raise(x)
{
	skip;
	d_step {
		version++;
		greatest = (version > greatest -> version : greatest);
		if
#ifdef MUT_OWN_ANY
		:: true -> known = version
#else
		:: version == known + 1 -> known = version
		:: else
#endif
		fi;
		printf("%d raises the version to %d, knows %d\n", x, version, known)
	}
}

/* Is anybody kept out by what x commits who has been promised otherwise? */
#define is_broken(y, x, r) \
	((y) != (x) && has[y] && locked_by[y] == (r) && !lost[y] && !dead[y] && !ended[y])

proctype Transaction(byte x) provided (!halted[_pid - 1])
{
	byte known = 0, answer = 0, res = 0;
	bool renewed = false, out = false;

	/* the definition is loaded, whenever that was */
#ifndef MUT_OPEN_LATE
	known = version;
#endif
	if
	:: written_by[x] != NOWHERE && written_by[x] != locked_by[x] ->
		out = is_locked_out(x, written_by[x]);
		if
		:: out -> out = false; acquire(x, written_by[x], false)
		:: else
		fi
	:: else
	fi;
#ifdef MUT_OPEN_LATE
	known = version;
#endif
	if
	:: locked_by[x] != NOWHERE ->
#ifdef MUT_RAISE_BEFORE
		raise(x);
#endif
		acquire(x, locked_by[x], true);
#if !defined(MUT_NO_RAISE) && !defined(MUT_RAISE_BEFORE)
		raise(x);
#endif
		skip;
		d_step { has[x] = true; base[x] = wrote[locked_by[x]]; printf("%d has table %d\n", x, locked_by[x]) };
#ifdef AGAIN
#ifdef MUT_AGAIN_BLIND
		acquire(x, locked_by[x], true)
#else
		/* the step that asks finds what it has, or not */
		if
		:: holds(x, locked_by[x])
		:: !holds(x, locked_by[x]) -> goto failed
		fi
#endif
#endif
	:: else
	fi;

prepare:
	if
	:: written_by[x] != NOWHERE ->
		if
		:: d_step { intent[written_by[x]] == NOBODY -> intent[written_by[x]] = x }
#ifdef DEAD
		:: d_step { intent[written_by[x]] != NOBODY && dead[intent[written_by[x]]] -> intent[written_by[x]] = x }
#endif
		fi
	:: else
	fi;
#ifndef MUT_CLAIM_UNCHECKED
	if
	:: locked_by[x] != NOWHERE ->
		d_step {
#ifdef MUT_CLAIM_OF_OLD_ID
			res = (holds(x, locked_by[x]) || renewed -> 0 : 2);
#else
			res = (holds(x, locked_by[x]) && !renewed -> 0 : 2);
#endif
			checked[x] = true;
			printf("%d checks its claim: %d\n", x, res)
		}
	:: else
	fi;
	if
	:: res == 2 -> goto failed
	:: else
	fi;
#endif
	d_step {
		answer = version;
		if
		:: (dead[x] && !renewed) || (written_by[x] != NOWHERE && intent[written_by[x]] != x) -> res = 3
#ifndef MUT_DECIDE_BLIND
		:: !(dead[x] && !renewed) && !(written_by[x] != NOWHERE && intent[written_by[x]] != x) && version != known -> res = 1
#endif
		:: else ->
			res = 0;
			printf("%d is decided\n", x);
			if
			:: locked_by[x] != NOWHERE -> assert(wrote[locked_by[x]] == base[x])
			:: else
			fi;
			if
			:: written_by[x] != NOWHERE ->
				assert(!is_broken(0, x, written_by[x]) && !is_broken(1, x, written_by[x]));
				wrote[written_by[x]]++;
				intent[written_by[x]] = NOBODY
			:: else
			fi
		fi
	}
	if
	:: res == 0 -> goto done
	:: res == 1 ->
		/* the schema */
#ifndef MUT_WAIT_WITH_INTENTS
		take_intent_back(x, written_by[x]);
#endif
#ifndef MUT_NO_LOOK
		do
		:: written_by[x] == NOWHERE -> break
		:: written_by[x] != NOWHERE ->
			out = is_locked_out(x, written_by[x]);
			if
			:: out -> out = false; acquire(x, written_by[x], false)
			:: else -> break
			fi
		od;
#endif
#ifdef MUT_LEARN_LATE
		known = version;
#else
		known = answer;
#endif
		take_intent_back(x, written_by[x]);
		res = 0;
		goto prepare
	:: res == 3 ->
		/* the lease, or an attempt that somebody took for dead */
		take_intent_back(x, written_by[x]);
		renewed = renewed || dead[x];
		res = 0;
		goto prepare
	fi;

failed:
	/* 40001 */
	assert(lost[x] || dead[x]);
done:
	take_intent_back(x, written_by[x]);
	d_step {
		withdraw(x, 0); pass(0);
#ifdef CROSS
		withdraw(x, 1); pass(1);
#endif
		ended[x] = true; known = 0; answer = 0; res = 0; renewed = false; out = false; base[x] = 0;
		printf("%d has ended\n", x)
	}
}

proctype Death()
{
	byte x = 0;
	atomic {
		select(x : 0 .. 1);
		dead[x] = 1;
		if
		:: halted[x] = 1
		:: true
		fi;
		printf("%d is dead, and has stopped: %d\n", x, halted[x]);
		x = 0
	}
}

/* Not between prepare and the decision: the connection that breaks begins the attempt anew (34). */
proctype Failover()
{
	byte x = 0;
	atomic {
		select(x : 0 .. 2);
		if
		:: !ended[x] && holds(x, 0) && !checked[x] ->
			d_step { withdraw(x, 0); pass(0); lost[x] = true; printf("the claim of %d is lost\n", x) }
		:: at[x] == 0 -> d_step { withdraw(x, 0); pass(0); printf("the wait of %d is lost\n", x) }
		:: else
		fi;
		x = 0
	}
}

/* The clock's server falls back; who issues then leaps before it tells anything (16). */
proctype Forget()
{
	d_step {
		version > 1 -> version--;
#ifndef MUT_NO_LEAP
		greatest++; version = greatest;
#endif
		printf("the clock has fallen back, and leapt to %d\n", version)
	}
}

init {
	atomic {
		at[0] = NOWHERE; at[1] = NOWHERE; at[2] = NOWHERE;
		intent[0] = NOBODY;
		locked_by[1] = NOWHERE; locked_by[2] = NOWHERE;
#ifdef LOCKERS
		locked_by[1] = 0; written_by[1] = NOWHERE;
#endif
#ifdef CROSS
		intent[1] = NOBODY;
		locked_by[1] = 1; written_by[0] = 1; written_by[1] = NOWHERE; written_by[2] = 1;
#endif
		run Transaction(0); run Transaction(1); run Transaction(2);
#ifdef DEAD
		run Death();
#endif
#ifdef FAILOVER
		run Failover();
#endif
#ifdef FORGET
		run Forget();
#endif
	}
	timeout -> assert((ended[0] || halted[0]) && (ended[1] || halted[1]) && (ended[2] || halted[2]))
}
