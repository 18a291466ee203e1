/*
 * commit.pml: prepare, decide, apply, release, resolve, help, settle, drop, janitor.
 *
 * Modelled: two transactions that both write the rows 0 and 1, on different
 * leaves; a waiter that resolves what is in its way, twice over; a janitor of dead
 * sessions; a reader at a snapshot; one who reads both rows at once, without one; leases that run out at any moment; LOST requests
 * whose reply is lost, the request executed now, later (even after its sender has
 * gone on) or never.  Any process may stop for any time, or for good: nobody is
 * obliged to be scheduled.
 *
 * Abstracted: leaves are not split here (split.pml) and histories not pruned
 * (snapshot.pml): a history is the set of its versions' timestamps.  A statement has
 * read the newest stored version.  One prepare step per row.  Server time is not
 * modelled: timestamps are last + 1 (snapshot.pml has time).
 *
 * Claims: no lost update (what a transaction overwrites is, at its decision, what
 * it read); what a client is told is true, also later; versions are applied in
 * order; a snapshot sees exactly what was decided up to it; rows read at once, and no intent on
 * them, are what was decided by then; from every state
 * recovery leads to the rows of exactly the decided transactions.
 *
 * Scope: TWO (else 1) transactions of 1 or 2 attempts, LOST messages lost, DEAD:
 * leases run out, READER: a reader, AT_ONCE: one without a snapshot.
 *
 * run: ci -DLOST=1 -DDEAD
 * run: ci -DLOST=0 -DDEAD -DREADER
 * run: ci -DLOST=0 -DTWO
 * run: ci -DLOST=1 -DDEAD -DAT_ONCE
 * run: ci -DLOST=0 -DTWO -DAT_ONCE
 * run: deep -DLOST=2 -DDEAD -DREADER
 * run: deep -DLOST=1 -DTWO
 * run: deep -DLOST=0 -DTWO -DREADER
 * run: deep -DLOST=1 -DTWO -DDEAD
 * mutation: MUT_ALL_OR_NONE -DLOST=0 -DTWO rule 3: one missing intent counts for all intents of a leaf
 * mutation: MUT_APPLY_BLIND -DLOST=0 -DTWO rule 3: apply does not compare that the intent is there
 * mutation: MUT_NONE_FINAL -DLOST=0 -DDEAD -DREADER rule 4: a reader believes "no record" at once
 * mutation: MUT_ABORTED_FINAL -DLOST=0 -DDEAD -DREADER rule 4: a reader believes "aborted" at once
 * mutation: MUT_EARLY_DROP rule 5: the record is dropped before the applies are acknowledged
 * mutation: MUT_HELPER_DROPS rule 5: a helper drops the record of a session that lives
 * mutation: MUT_ASK_ONLY rule 6: a lost decision is asked for, not settled
 * mutation: MUT_DEAD_ASKS rule 6: "no record" is believed by an owner whose lease ran out
 * mutation: MUT_LEASE_RENEW rule 7: a lease that ran out is renewed
 * mutation: MUT_GC_ABORTED rule 7: "aborted" records are collected while their session lives
 * mutation: MUT_DEAD_ASSUMED rule 7: what was undecided when it was asked about, and whose session is dead now, is removed without writing "aborted"
 * mutation: MUT_NO_VERSION -DLOST=0 -DTWO race 2: prepare does not compare the version
 * mutation: MUT_DECIDE_BLIND race 5: decide does not look for "aborted"
 * mutation: MUT_ABORT_BLIND race 5: abort does not look for a record
 * mutation: MUT_BESIDE_INTENT -DLOST=0 -DTWO -DAT_ONCE rule 45: rows read at once count beside an intent
 * mutation: MUT_TWO_READS -DLOST=0 -DTWO -DAT_ONCE rule 45: rows without an intent are read one after the other
 */
#define ROWS 2
#define TXS 6					/* ids of attempts: 1 .. 5 */

#define NONE 0
#define COMMITTED 1
#define ABORTED 2
#define UNKNOWN 3

byte history[ROWS];				/* bit t: the version of timestamp t is there */
byte intent[ROWS];				/* id of an attempt, 0: none */
byte last = 1;
byte record[TXS];
bit lease[2];

/* What nobody in the model looks at. */
byte decided[TXS];				/* timestamp, for ever */
byte current[ROWS];				/* newest decided version */
byte told[TXS];
byte lost;						/* messages lost so far */

#define owner(tx) ((tx) > 3)
byte bases[4];					/* what the two transactions read */
#define base_of(x, k) bases[2 * owner(x) + k]
#define bits_to(h, S) ((h) & ((2 << (S)) - 1))
#define top(h) ((h) & 16 -> 4 : ((h) & 8 -> 3 : ((h) & 4 -> 2 : ((h) & 2 -> 1 : 0))))

/*
 * From every state recovery leads to the rows of exactly the decided
 * transactions: what is stored, and the intents whose record says "committed",
 * are all versions that were decided.
 */
#define bit_of(x) (decided[x] -> 1 << decided[x] : 0)
#define all_versions (2 | bit_of(1) | bit_of(2) | bit_of(4))
#define recovers(k) ((history[k] | (record[intent[k]] == COMMITTED -> bit_of(intent[k]) : 0)) == all_versions)
#define check_recovery() assert(recovers(0) && recovers(1))

/* One request under way after its sender lost patience: 0 none, else an id. */
byte late_prepare, late_row, late_base, late_decide;

inline do_prepare(k, x, b, res)
{
	d_step {
		if
		:: intent[k] != 0 && intent[k] != x -> res = 1		/* busy */
#ifdef MUT_NO_VERSION
		:: intent[k] == 0 || intent[k] == x -> intent[k] = x; res = 0
#else
		:: (intent[k] == 0 || intent[k] == x) && top(history[k]) != b -> res = 2	/* conflict */
		:: (intent[k] == 0 || intent[k] == x) && top(history[k]) == b -> intent[k] = x; res = 0
#endif
		fi;
		printf("prepare row %d by %d: %d\n", k, x, res)
	}
}

inline do_decide(x, res)
{
	d_step {
		if
		:: record[x] == COMMITTED -> res = COMMITTED
#ifdef MUT_DECIDE_BLIND
		:: record[x] != COMMITTED && lease[owner(x)] ->
#else
		:: record[x] == NONE && lease[owner(x)] ->
#endif
			last++;
			record[x] = COMMITTED; decided[x] = last;
			assert(told[x] != ABORTED);
			/* both rows are still what the transaction read */
			assert(current[0] == base_of(x, 0) && current[1] == base_of(x, 1));
			current[0] = last; current[1] = last;
			res = COMMITTED;
			printf("%d is decided at %d\n", x, last);
			check_recovery()
		:: else -> res = ABORTED
		fi
	}
}

inline do_apply(k, x, ts)
{
	d_step {
		if
#ifdef MUT_APPLY_BLIND
		:: true ->
#else
		:: intent[k] == x ->
#endif
			assert(top(history[k]) < ts);
			history[k] = history[k] | (1 << ts);
			if
			:: intent[k] == x -> intent[k] = 0
			:: else
			fi;
			printf("row %d of %d is applied\n", k, x);
			check_recovery()
		:: else
		fi
	}
}

inline do_remove(k, x)
{
	d_step {
		if
		:: intent[k] == x -> intent[k] = 0; printf("intent of %d on row %d is removed\n", x, k); check_recovery()
		:: else
		fi
	}
}

proctype Owner(byte who; byte attempts)
{
	byte x = 3 * who, k = 0, res = 0, a = 0;
	bool mislaid = false;

	d_step { bases[2 * who] = top(history[0]); bases[2 * who + 1] = top(history[1]) }
attempt:
		skip;
	d_step {
		x = 3 * who + 1 + a;
		a++; k = 0; mislaid = false; res = 0
	}
	do
	:: k < ROWS && !mislaid && res == 0 ->
		if
		:: do_prepare(k, x, bases[2 * who + k], res);
			if
			:: res == 1 -> res = 0	/* an older one waits with what it holds */
			:: k++
			fi
		:: lost < LOST -> atomic {
			lost++; mislaid = true;
			if
			:: skip
			:: late_prepare == 0 -> late_prepare = x; late_row = k; late_base = bases[2 * who + k]
			fi }
		fi
	:: k == ROWS || mislaid || res != 0 -> break
	od;
	if
	:: mislaid || res == 1 -> goto release
	:: !mislaid && res == 2 -> a = attempts; goto release
	:: else
	fi;

	/* decide */
	if
	:: do_decide(x, res)
	:: lost < LOST ->
		atomic {
			lost++;
			if
			:: do_decide(x, res)
			:: late_decide == 0 -> late_decide = x
			:: skip
			fi
		}
		d_step {				/* settle */
			res = record[x];
			if
#ifndef MUT_DEAD_ASKS
			:: res != COMMITTED && !lease[who] -> res = UNKNOWN
#else
			:: res != COMMITTED && !lease[who] -> res = ABORTED
#endif
			:: res != COMMITTED && lease[who] ->
				res = ABORTED;
#ifndef MUT_ASK_ONLY
				record[x] = ABORTED
#endif
			:: else
			fi
		}
	fi;
	d_step {
		told[x] = res;
		assert(res != COMMITTED || decided[x] != 0);
		assert(res != ABORTED || decided[x] == 0)
	}
	if
	:: res == COMMITTED -> goto apply
	:: res == ABORTED ->
#ifdef MUT_LEASE_RENEW
		lease[who] = 1;
#endif
		goto release
	:: res == UNKNOWN -> goto done
	fi;

release:
	k = 0;
	do
	:: k < ROWS -> do_remove(k, x); k++
	:: k < ROWS -> k++			/* lost */
	:: k == ROWS -> break
	od;
	if
	:: a < attempts -> goto attempt
	:: else -> goto done
	fi;

apply:
		skip;
#ifdef MUT_EARLY_DROP
	d_step { record[x] = NONE; check_recovery() };
#endif
#ifdef MUT_ALL_OR_NONE
	atomic {
		if
		:: intent[0] == x && intent[1] == x -> do_apply(0, x, decided[x]); do_apply(1, x, decided[x])
		:: else
		fi
	}
#else
	do_apply(0, x, decided[x]);
	do_apply(1, x, decided[x]);
#endif
	d_step {
		if
		:: record[x] == COMMITTED -> record[x] = NONE; printf("%d is dropped\n", x); check_recovery()
		:: else
		fi
	}
done:
		skip;
	d_step { x = 0; k = 0; res = 0; a = 0; mislaid = false }
}

/* The network delivers late. */
proctype Late()
{
	byte res = 0;
	do
	:: atomic { late_prepare != 0 ->
			do_prepare(late_row, late_prepare, late_base, res);
			res = 0; late_prepare = 0; late_row = 0; late_base = 0 }
	:: atomic { late_decide != 0 -> do_decide(late_decide, res); res = 0; late_decide = 0 }
	od
}

/* A waiter, whatever it waits for. */
proctype Resolver()
{
	byte k = 0, x = 0, r = 0;
	do
	:: atomic {
			if
			:: k = 0
			:: k = 1
			fi;
			intent[k] != 0 -> x = intent[k] }
		d_step { r = record[x] }
		if
#ifdef MUT_DEAD_ASSUMED
		:: r == NONE && !lease[owner(x)] -> r = ABORTED
#endif
		:: r == NONE ->			/* for intent_timeout, or its session is dead */
			if
			:: intent[k] != x -> goto next
			:: else
			fi;
			d_step {
#ifdef MUT_ABORT_BLIND
				record[x] = ABORTED;
#endif
				if
				:: record[x] == NONE -> record[x] = ABORTED; printf("%d is aborted by a waiter\n", x)
				:: else
				fi;
				r = record[x]
			}
		:: else
		fi;
		if
		:: r == COMMITTED ->
			do_apply(k, x, decided[x]);
#ifdef MUT_HELPER_DROPS
			d_step { record[x] = NONE; check_recovery() }
#endif
		:: r == ABORTED -> do_remove(k, x)
		fi;
next:
		skip;
		d_step { k = 0; x = 0; r = 0 }
	od
}

/* Applies what dead sessions left, then drops their records. */
proctype Janitor()
{
	byte x = 0;
	do
	:: atomic {
			select(x : 1 .. 4);
			!lease[owner(x)] && record[x] == COMMITTED }
		do_apply(0, x, decided[x]);
		do_apply(1, x, decided[x]);
		d_step {
			if
			:: !lease[owner(x)] && record[x] == COMMITTED -> record[x] = NONE; printf("%d is reaped\n", x); check_recovery()
			:: else
			fi;
			x = 0
		}
	:: atomic {
			select(x : 1 .. 4);
#ifndef MUT_GC_ABORTED
			!lease[owner(x)] &&
#endif
			record[x] == ABORTED -> record[x] = NONE; x = 0 }
	od
}

proctype Expiry()
{
	atomic { lease[0] = 0; printf("lease 0 ran out\n") }
}

proctype Reader()
{
	byte S = 0, k = 0, x = 0, h = 0, r = 0, truth0 = 0, truth1 = 0;
	d_step { S = last; truth0 = current[0]; truth1 = current[1] }
	do
	:: k < ROWS ->
		d_step { h = history[k]; x = intent[k] }
again:
		skip;
		if
		:: x == 0 -> r = top(bits_to(h, S))
		:: x != 0 ->
			d_step { r = record[x] }
			if
			:: r == COMMITTED ->
				d_step {
					if
					:: decided[x] <= S -> r = decided[x]
					:: else -> r = top(bits_to(h, S))
					fi
				}
			:: r != COMMITTED ->
#if defined(MUT_NONE_FINAL)
				if
				:: r == NONE -> r = top(bits_to(h, S)); goto judge
				:: else
				fi;
#elif defined(MUT_ABORTED_FINAL)
				if
				:: r == ABORTED -> r = top(bits_to(h, S)); goto judge
				:: else
				fi;
#endif
				atomic {		/* read the leaf again */
					h = history[k];
					if
					:: intent[k] != x -> x = intent[k]; goto again
					:: else -> r = top(bits_to(h, S))
					fi
				}
			fi
		fi;
judge:
		skip;
		d_step {
			printf("row %d at %d is %d\n", k, S, r);
			assert(r == (k == 0 -> truth0 : truth1));
			k++; h = 0; x = 0; r = 0
		}
	:: k == ROWS -> break
	od;
	skip;
	d_step { S = 0; k = 0; truth0 = 0; truth1 = 0 }
}

#ifdef MUT_BESIDE_INTENT
#define untouched(k) true
#else
#define untouched(k) (intent[k] == 0)
#endif

/* One leaf, read in one command (rule 45); or, which is wrong, two. */
proctype AtOnce()
{
	byte r0 = 0, then0 = 0, then1 = 0;
	if
	:: d_step { untouched(0) -> r0 = top(history[0]); then0 = current[0]; then1 = current[1];
#ifndef MUT_TWO_READS
		if
		:: untouched(1) -> assert(r0 == then0 && top(history[1]) == then1)
		:: else
		fi
#endif
		}
#ifdef MUT_TWO_READS
		d_step {
			if
			:: untouched(1) -> assert((r0 == then0 && top(history[1]) == then1) ||
									  (r0 == current[0] && top(history[1]) == current[1]))
			:: else
			fi
		}
#endif
	fi;
	d_step { r0 = 0; then0 = 0; then1 = 0 }
}

init {
	atomic {
		history[0] = 2; history[1] = 2; current[0] = 1; current[1] = 1;
		lease[0] = 1; lease[1] = 1;
		run Owner(0, 2);
		run Resolver();
#ifdef TWO
		run Owner(1, 1);
#endif
#ifdef DEAD
		run Janitor(); run Expiry();
#endif
#if LOST > 0
		run Late();
#endif
#ifdef READER
		run Reader();
#endif
#ifdef AT_ONCE
		run AtOnce();
#endif
	}
}
