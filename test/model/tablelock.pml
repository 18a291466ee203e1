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
 * LAG: a replica takes over that has the claims as they were at any time before: those that were let go of are back, and
 * who was let in waits, to be let in once more.  COPIES: what an answer tells has its copies.
 * SAVEPOINT: 1 locks the table, gives that back, and writes it.
 *
 * The rule: 37 in docs/commit.md; with it 16, 29, 30, 32 where they are about claims of tables.
 *
 * Abstracted: the eight modes are two, what locks and what writes; being woken (locks.pml), a
 * commit's messages (commit.pml): decision and apply are one step; deadlocks (deadlock.pml).
 *
 * Claims: nobody's write of a table is decided while somebody who lives has it locked, unless
 * that claim was lost; who has locked a table and is decided has had it for itself from the lock
 * to the decision, whatever was lost; only who has lost a claim fails, with COPIES nobody who lives; nobody waits
 * for ever.
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
 * run: ci -DLAG -DSAVEPOINT
 * run: ci -DLAG -DLOCKERS
 * run: ci -DLAG -DSAVEPOINT -DCOPIES
 * run: ci -DLAG -DLOCKERS -DCOPIES -DAGAIN
 * run: deep -DLAG -DSAVEPOINT -DDEAD
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
 * mutation: MUT_LET_IN_COUNTS -DLAG -DSAVEPOINT rule 37: a lock counts at commit that its owner was let in to, and has not asked for since
 * mutation: MUT_LET_IN_ASKED -DLAG -DSAVEPOINT rule 37: who is let in has a lock like one that was asked for
 * mutation: MUT_RELY_ON_LOOK -DLAG -DSAVEPOINT rule 37: who was let in does not ask for what he has
 * mutation: MUT_NO_COPIES -DLAG -DSAVEPOINT -DCOPIES rule 17: a lock of a table is relied on before it has its copies
 * mutation: MUT_CLAIM_OF_OLD_ID -DDEAD rule 37: a claim of another id than decides counts
 * mutation: MUT_NO_LEAP -DFORGET rule 16: a clock that falls back gives a version out again
 * mutation: MUT_TAKE_LIVE -DDEAD rule 32: a claim counts as given up before its session's lease is removed
 * mutation: MUT_DEAD_STAYS -DDEAD rule 32: nobody clears away what the dead hold
 * mutation: MUT_WAIT_FORGOTTEN -DFAILOVER rule 32: who waits does not look whether it is still in the queue
 */
#define TXS 3
#define NOBODY 7
#ifdef MUT_LET_IN_ASKED
#define granted(y, r) answered[r] = answered[r] | bit(y)
#else
#define granted(y, r) answered[r] = answered[r] & ~bit(y)
#endif

#ifdef CROSS
#define ROWS 2
#else
#define ROWS 1
#endif

byte answered[ROWS];			/* bits: whose claim is one that an answer has told of */

#include "queue.inc"

/* The claims at table 0, as a replica has them. */
Row copy;
byte copy_at[TXS];
byte copy_answered;

inline replicate()
{
	copy.shared = row[0].shared; copy.exclusive = row[0].exclusive; copy.n = row[0].n;
	i = 0;
	do
	:: i < TXS -> copy.queue[i] = row[0].queue[i]; copy_at[i] = at[i]; i++
	:: else -> break
	od;
	copy_answered = answered[0]
}

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
#elif defined(LAG)
/* a claim that is back goes when its session leaves its id */
#define gone(y) (dead[y] || ended[y])
#else
#define gone(y) dead[y]
#endif

#define stale(x, y, r) ((y) != (x) && gone(y) && (holds(y, r) || at[y] == r))

#define has_it(x, r) (holds(x, r) && (answered[r] & bit(x)))

/* In one step.  Who is there already, or waits, stays where it is. */
inline ask(x, r, exclusively)
{
	if
	:: (holds(x, r) && (!exclusively || (row[r].exclusive & bit(x)))) || at[x] == r
	:: else -> enter(x, r); pass(r)
	fi;
	if
	:: holds(x, r) ->
		answered[r] = answered[r] | bit(x);
#if defined(COPIES) && !defined(MUT_NO_COPIES)
		replicate()
#endif
	:: else
	fi;
	printf("%d asks for table %d, has it: %d\n", x, r, holds(x, r))
}

/* Its claim at table r, of which it is the owner until it ends. */
inline acquire(x, r, exclusively)
{
	skip;
	d_step { wants[x] = exclusively; ask(x, r, exclusively) }
	do
#ifdef MUT_RELY_ON_LOOK
	:: holds(x, r) -> break
#else
	:: holds(x, r) && (!exclusively || has_it(x, r)) -> break
	:: exclusively && holds(x, r) && !has_it(x, r) -> skip; d_step { ask(x, r, exclusively) }; skip
#endif
#if defined(DEAD) || defined(FAILOVER) || defined(LAG)
	:: !holds(x, r) && stale(x, 0, r) -> skip; d_step { withdraw(0, r); pass(r); printf("%d clears 0 away\n", x) }; skip
	:: !holds(x, r) && stale(x, 1, r) -> skip; d_step { withdraw(1, r); pass(r); printf("%d clears 1 away\n", x) }; skip
	:: !holds(x, r) && stale(x, 2, r) -> skip; d_step { withdraw(2, r); pass(r); printf("%d clears 2 away\n", x) }; skip
#ifndef MUT_WAIT_FORGOTTEN
	:: !holds(x, r) && at[x] == NOWHERE -> d_step { ask(x, r, exclusively) }; skip
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
		:: has_it(x, locked_by[x])
		:: !has_it(x, locked_by[x]) -> goto failed
		fi;
#endif
#endif
#ifdef SAVEPOINT
		if
		:: x == 1 ->
			d_step {
				has[1] = false; base[1] = 0; lost[1] = false;
				locked_by[1] = NOWHERE; written_by[1] = 0;
				withdraw(1, 0); pass(0);
				printf("1 gives table 0 back\n")
			}
		:: else
		fi
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
			res = (has_it(x, locked_by[x]) || renewed -> 0 : 2);
#elif defined(MUT_LET_IN_COUNTS)
			res = (holds(x, locked_by[x]) && !renewed -> 0 : 2);
#else
			res = (has_it(x, locked_by[x]) && !renewed -> 0 : 2);
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
#ifdef COPIES
	assert(dead[x]);
#else
	assert(lost[x] || dead[x]);
#endif
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

/* A replica takes over that has the claims as they were at some time. */
#define takes_back(x) \
	(!ended[x] && holds(x, 0) && !(((copy.shared | copy.exclusive) & copy_answered) & bit(x)))

proctype Lag()
{
	byte x = 0;
	d_step { replicate() };
	d_step {
		!(takes_back(0) && checked[0]) && !(takes_back(1) && checked[1]) && !(takes_back(2) && checked[2]);
		do
		:: x < TXS ->
			lost[x] = lost[x] || takes_back(x);
			x++
		:: else -> break
		od;
		row[0].shared = copy.shared; row[0].exclusive = copy.exclusive; row[0].n = copy.n;
		x = 0;
		do
		:: x < TXS -> row[0].queue[x] = copy.queue[x]; at[x] = copy_at[x]; x++
		:: else -> break
		od;
		answered[0] = copy_answered;
		x = 0;
		printf("the claims are as they were\n")
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
#if defined(LOCKERS) || defined(SAVEPOINT)
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
#ifdef LAG
		run Lag();
#endif
#ifdef FORGET
		run Forget();
#endif
	}
	timeout -> assert((ended[0] || halted[0]) && (ended[1] || halted[1]) && (ended[2] || halted[2]))
}
