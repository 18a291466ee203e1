/*
 * deadlock.pml: who waits for whom, told to the clock, and cycles found when a wait begins.
 *
 * Modelled: three transactions, each of which locks LOCKS rows one after the other, any
 * rows, exclusively or (SHARE) also shared, perhaps first shared and then exclusively; then
 * it ends.  A row has holders and a queue (one leaf, one step).  Who must wait is queued in
 * that row's step, and learns who is ahead of it.  *Then* it tells the clock, which is one step, and looks for cycles in what the
 * clock knows.  That may be out of date: waits that are over stand there for any time.  So
 * each edge of a cycle is looked at where it is, at the row, one after the other; those that
 * are not there are left out and the clock is asked again; if all are there the cycle is
 * reported, in a step at the clock that compares that it is still told there.
 * SAVEPOINT: two of them may let go what they hold, once, and go on; the third locks THIRD rows.  AT_ONCE: what a
 * transaction holds it lets go in one step.
 *
 * The rules: 30 (queue), 33 (deadlocks) in docs/commit.md.
 *
 * Abstracted: one row per step, two strengths of the four; deaths (locks.pml).
 *
 * Claims: every cycle is found (nobody is left waiting); who is reported is in a cycle at
 * that moment.
 *
 * run: ci
 * run: ci -DSHARE -DROWS=2 -DAT_ONCE
 * run: ci -DSAVEPOINT -DROWS=2 -DAT_ONCE
 * run: deep -DSAVEPOINT -DROWS=2 -DAT_ONCE -DTHIRD=1
 * run: deep -DSHARE
 * run: deep -DSHARE -DSAVEPOINT -DROWS=2
 * mutation: MUT_UNVERIFIED -DSAVEPOINT -DROWS=2 -DAT_ONCE rule 33: a cycle is believed as the clock knows it
 * mutation: MUT_HOLDERS_ONLY -DROWS=3 rule 33: only waits for holders are told, not for who is ahead in the queue
 * mutation: MUT_TOLD_FIRST rule 33: who is ahead is read and told before the wait is queued
 * mutation: MUT_ONE_LOOK rule 33: after a cycle that was out of date no other is looked for
 * mutation: MUT_NO_NUMBER -DSAVEPOINT -DROWS=2 -DAT_ONCE rule 33: a wait has no number: an older one of the same two is taken for it
 */
#ifndef ROWS
#define ROWS 3
#endif
#ifndef LOCKS
#define LOCKS 2
#endif
#ifndef THIRD
#define THIRD 0
#endif
#ifdef SAVEPOINT
#define locks(x) ((x) == 2 -> THIRD : LOCKS)
#else
#define locks(x) LOCKS
#endif
#define TXS 3
#define granted(y, r) skip
#include "queue.inc"

byte number[TXS];				/* of its wait */
byte ended;

/* The clock: what is told of each one's wait, and which wait that is. */
byte edges[TXS];
byte told[TXS];

hidden byte reach;
hidden byte real[TXS];

/* x is in a cycle of real waits. */
inline check_cycle(x)
{
	y = 0;
	do
	:: y < TXS ->
		if
		:: at[y] != NOWHERE -> find_ahead(y, at[y]); real[y] = set
		:: else -> real[y] = 0
		fi;
		y++
	:: else -> break
	od;
	reach = real[x];
	reach = reach | (reach & 1 -> real[0] : 0) | (reach & 2 -> real[1] : 0) | (reach & 4 -> real[2] : 0);
	reach = reach | (reach & 1 -> real[0] : 0) | (reach & 2 -> real[1] : 0) | (reach & 4 -> real[2] : 0);
	assert(reach & bit(x))
}

#define edge(u, v) ((edges[u] & bit(v)) && !(disproved & bit(3 * (u) + (v))))
#ifdef MUT_NO_NUMBER
#define same(u, n) true
#else
#define same(u, n) (number[u] == (n))
#endif

/* Is u still in its wait n, with v ahead? */
inline look(u, v, n, yes)
{
	d_step {
		yes = false;
		if
		:: at[u] != NOWHERE && same(u, n) ->
			find_ahead(u, at[u]);
			yes = ((set & bit(v)) != 0)
		:: else
		fi;
		printf("%d waits for %d: %d\n", u, v, yes);
		if
		:: !yes -> disproved = disproved | bit(3 * (u) + (v))
		:: else
		fi
	}
}

inline leave(x, r)
{
	d_step {
		withdraw(x, r);
		pass(r);
		printf("%d leaves row %d\n", x, r)
	}
}

#ifdef AT_ONCE
#define UNIT atomic
#else
#define UNIT
#endif

inline leave_all(x)
{
	UNIT {
	r = 0;
	do
	:: r < ROWS ->
		if
		:: (row[r].shared | row[r].exclusive) & bit(x) || at[x] == r -> leave(x, r)
		:: else
		fi;
		r++
	:: else -> break
	od;
	r = 0
	}
}

#define Y ((x + 1) % 3)
#define Z ((x + 2) % 3)

proctype Transaction(byte x)
{
	byte left = locks(x), r = 0, ahead = 0, b = 0, c = 0, nb = 0, nc = 0;
	short disproved = 0;
	bool yes = false, cycle = false, mode = true;
#ifdef SAVEPOINT
	bool may_return = (x != 2);
#endif

	do
	:: left == 0 -> break
#ifdef SAVEPOINT
	:: left == locks(x) - 1 && may_return -> may_return = false; left++; leave_all(x)
#endif
	:: left > 0 ->
		/* the row's step */
		atomic {
			if
			:: r = 0
			:: x != 0 || left != locks(x) -> r = 1		/* rows are alike: it begins with row 0 */
#if ROWS > 2
			:: x != 0 || left != locks(x) -> r = 2
#endif
			fi;
#ifdef SHARE
			if
			:: mode = true
			:: mode = false
			fi;
#endif
			left--;
			if
			:: row[r].exclusive & bit(x) -> goto next
			:: !mode && (row[r].shared & bit(x)) -> goto next
			:: else
			fi;
#ifdef MUT_TOLD_FIRST
			d_step { wants[x] = mode; find_ahead(x, r); ahead = set }
		}
		atomic {
#endif
			d_step {
				wants[x] = mode;
				number[x]++;
				enter(x, r);
				pass(r);
				printf("%d wants row %d, exclusively: %d; waits: %d\n", x, r, mode, at[x] == r);
				if
				:: at[x] == r ->
#ifndef MUT_TOLD_FIRST
					find_ahead(x, r); ahead = set;
#endif
#ifdef MUT_HOLDERS_ONLY
					ahead = ahead & (row[r].shared | row[r].exclusive);
#endif
					skip
				:: else
				fi
			}
			if
			:: at[x] == NOWHERE -> goto next
			:: else
			fi
		}
		/* the clock's */
		d_step {
			printf("%d tells: waits for %d\n", x, ahead);
			edges[x] = ahead; told[x] = number[x]; ahead = 0
		}
again:
		skip;
		atomic {
			cycle = true;
			if
			:: edge(x, Y) && edge(Y, x) -> b = Y; c = x; nb = told[Y]
			:: edge(x, Z) && edge(Z, x) -> b = Z; c = x; nb = told[Z]
			:: edge(x, Y) && edge(Y, Z) && edge(Z, x) -> b = Y; c = Z; nb = told[Y]; nc = told[Z]
			:: edge(x, Z) && edge(Z, Y) && edge(Y, x) -> b = Z; c = Y; nb = told[Z]; nc = told[Y]
			:: else -> cycle = false
			fi
		}
		if
		:: !cycle -> goto wait
		:: else
		fi;
#ifndef MUT_UNVERIFIED
		look(x, b, number[x], yes);
		if
		:: yes -> look(b, c, nb, yes)
		:: else
		fi;
		if
		:: yes && c != x -> look(c, x, nc, yes)
		:: else
		fi;
		if
#ifdef MUT_ONE_LOOK
		:: !yes -> goto wait
#else
		:: !yes -> goto again
#endif
		:: else
		fi;
#endif
		atomic {
			if
			:: edge(x, b) && edge(b, c) && (c == x || edge(c, x)) &&
			   told[b] == nb && (c == x || told[c] == nc) ->
				d_step { 
					printf("%d reports %d, %d\n", x, b, c);
					edges[x] = 0;
					check_cycle(x)
				}
				goto end
			:: else -> goto again
			fi
		}
wait:
		at[x] == NOWHERE;		/* and its edges stay at the clock until its next wait */
next:
		skip;
		d_step { r = 0; b = 0; c = 0; nb = 0; nc = 0; disproved = 0; yes = false; cycle = false; mode = true }
	od;
end:
	skip;
	d_step { b = 0; c = 0; nb = 0; nc = 0; disproved = 0; yes = false; cycle = false; mode = true; left = 0 }
	leave_all(x);
	ended++
}

init {
	atomic {
		at[0] = NOWHERE; at[1] = NOWHERE; at[2] = NOWHERE;
		run Transaction(0); run Transaction(1); run Transaction(2)
	}
	timeout -> assert(ended == TXS)
}
