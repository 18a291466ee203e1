/*
 * increments.pml: late-bound increments of one row, several in flight.
 *
 * Modelled: two transactions that increment a row, INCS attempts each; with DELETER
 * one that deletes it; a helper that applies what is committed; with SNAPSHOT a
 * reader at a registered snapshot, with LATEST a reader of the newest state; prune
 * with every apply, by the list of snapshots that came with the decision; in place
 * where that is allowed, else into the history, in any order; with LATE a request to
 * prepare that is lost and arrives at any later time.  Any process may stop anywhere.
 *
 * Abstracted: a value is the set of the increments in it (their sum, if each counts
 * once, which is asserted); the record is dropped after the own apply, or never.
 *
 * Claims: no increment is lost or applied twice or put on a deleted row; a snapshot
 * sees exactly those decided up to it and is never too old; the newest state is that
 * of one moment during the read.
 *
 * run: ci -DSNAPSHOT
 * run: ci -DLATEST
 * run: ci -DDELETER
 * run: ci -DLATE
 * run: deep -DSNAPSHOT -DLATE -DDELETER
 * run: deep -DLATEST -DLATE -DDELETER
 * mutation: MUT_SAME_ID -DLATE rule 1: a lost prepare is sent again under the same id
 * mutation: MUT_NOT_LIVE -DDELETER rule 15: prepare does not check that the row is live
 * mutation: MUT_NOT_ALONE -DDELETER rule 15: another write is let in beside increments
 * mutation: MUT_LET_IN -DDELETER rule 15: increments are let in beside another write
 * mutation: MUT_UNSETTLED -DDELETER rule 15: a plain write is based on the row without its committed increments
 * mutation: MUT_ASK_EACH -DLATEST rule 15: a reader of the latest state asks one by one
 * mutation: MUT_LATEST_ONCE -DLATEST rule 15: a reader of the latest state does not look again
 * mutation: MUT_IN_PLACE -DSNAPSHOT race 12: added in place although a snapshot is registered
 * mutation: MUT_PLAIN_BLIND -DSNAPSHOT race 12: added in place although the row keeps older versions
 * mutation: MUT_NEWER_BLIND -DSNAPSHOT race 12: versions that are newer do not get the increment
 */
#define NONE 0
#define COMMITTED 1
#define ABORTED 2
#define NEVER 15

/* The row: versions by timestamp; value: bits of the increments in it. */
byte present = 2;
byte value[6];
byte end[6];
bool live = true;

byte intents;					/* bits of attempts 1, 2: increments, 3: delete */
byte last = 1;
byte record[4];
byte decided[4];
byte registered;				/* S of the only snapshot, 0: none */

byte truth;						/* increments decided so far */
bool deleted;
byte late;						/* attempt whose prepare is under way */

#define top(h) ((h) & 32 -> 5 : ((h) & 16 -> 4 : ((h) & 8 -> 3 : ((h) & 4 -> 2 : 1))))
#define bits_to(h, S) ((h) & ((2 << (S)) - 1))
#define decided_to(S) ((decided[1] && decided[1] <= S -> 2 : 0) | (decided[2] && decided[2] <= S -> 4 : 0))

/* Version t is superseded and nobody on the list needs it. */
#define useless(t, ls, ll) (present & (1 << t) && end[t] != NEVER && end[t] <= ll && \
	!(ls != 0 && t <= ls && ls < end[t]))

/* What the committed intents in `it` add, as `answers` says. */
#define committed_to(S, it, a) ((it & 2 && a & 2 && decided[1] <= S -> 2 : 0) | (it & 4 && a & 4 && decided[2] <= S -> 4 : 0))
#define answers_now ((record[1] == COMMITTED -> 2 : 0) | (record[2] == COMMITTED -> 4 : 0))

inline prune(ls, ll)
{
	if :: useless(1, ls, ll) -> present = present & ~2; value[1] = 0; end[1] = 0 :: else fi;
	if :: useless(2, ls, ll) -> present = present & ~4; value[2] = 0; end[2] = 0 :: else fi;
	if :: useless(3, ls, ll) -> present = present & ~8; value[3] = 0; end[3] = 0 :: else fi;
	if :: useless(4, ls, ll) -> present = present & ~16; value[4] = 0; end[4] = 0 :: else fi
}

inline newer_get(t, ts, x)
{
#ifdef MUT_NEWER_BLIND
	skip
#else
	if
	:: t > ts && present & (1 << t) -> assert(!(value[t] & (1 << x))); value[t] = value[t] | (1 << x)
	:: else
	fi
#endif
}

/* Apply increment x, decided at ts with the list (ls, ll). */
inline apply(x, ts, ls, ll, in_place)
{
	d_step {
		if
		:: intents & (1 << x) ->
			assert(live);
			intents = intents & ~(1 << x);
			t = top(present);
			assert(!(value[t] & (1 << x)));
			if
#ifdef MUT_IN_PLACE
			:: in_place && present == (1 << t) ->
#else
#ifdef MUT_PLAIN_BLIND
			:: in_place && ls == 0 ->
#else
			:: in_place && ls == 0 && present == (1 << t) ->
#endif
#endif
				value[t] = value[t] | (1 << x);
				if
				:: t < ts ->
					present = (present & ~(1 << t)) | (1 << ts); value[ts] = value[t]; end[ts] = NEVER;
					value[t] = 0; end[t] = 0
				:: else
				fi
			:: else ->
				/* newer versions get it; one of its own goes in between */
				newer_get(2, ts, x); newer_get(3, ts, x); newer_get(4, ts, x);
				t = bits_to(present, ts);
				if
				:: t != 0 ->
					t = top(t);
					value[ts] = value[t] | (1 << x); end[ts] = end[t]; end[t] = ts;
					present = present | (1 << ts)
				:: else
				fi;
				prune(ls, ll)
			fi;
			printf("%d is applied: versions %d\n", x, present)
		:: else
		fi;
		t = 0
	}
}

inline prepare(x, res)
{
	d_step {
#ifdef MUT_LET_IN
		res = true;
#else
		res = (intents & 8) == 0;
#endif
#ifndef MUT_NOT_LIVE
		res = res && live;
#endif
		if
		:: res -> intents = intents | (1 << x); printf("%d is prepared\n", x)
		:: else
		fi
	}
}

inline decide(x, ls, ll)
{
	d_step {
		if
		:: record[x] == NONE ->
			last++; record[x] = COMMITTED; decided[x] = last; ls = registered; ll = last;
			truth = truth | (1 << x); assert(!deleted);
			printf("%d is decided at %d\n", x, last)
		:: else
		fi
	}
}

proctype Increment(byte x)
{
	byte ls = 0, ll = 0, t = 0;
	bool ok = false;
#ifdef LATE
	if
	:: x == 1 ->				/* the first sending is lost, and under way */
#ifdef MUT_SAME_ID
		late = 1
#else
		goto done				/* the next attempt would be another id: nothing to see */
#endif
	:: true
	fi;
#endif
	prepare(x, ok);
	if
	:: ok ->
		decide(x, ls, ll);
		if
		:: record[x] == COMMITTED ->
			apply(x, decided[x], ls, ll, true);
			d_step { record[x] = NONE }
		:: else
		fi
	:: else
	fi;
done:
	skip;
	d_step { ls = 0; ll = 0; ok = false }
}

proctype Delayed()
{
	bool ok;
	atomic { late != 0 -> prepare(late, ok); late = 0; ok = false }
}

proctype Delete()
{
	byte version = 0, seen = 0;
	bool ok = false;
	/* the newest state, as Latest() finds it: committed increments count */
	d_step {
		version = top(present); seen = value[version] | committed_to(NEVER, intents, answers_now);
#ifndef MUT_UNSETTLED
		if
		:: intents & 2 && record[1] == COMMITTED && decided[1] > version -> version = decided[1]
		:: else
		fi;
		if
		:: intents & 4 && record[2] == COMMITTED && decided[2] > version -> version = decided[2]
		:: else
		fi
#else
		seen = value[version]
#endif
	}
	d_step {
#ifdef MUT_NOT_ALONE
		ok = top(present) == version && live;
#else
		ok = intents == 0 && top(present) == version && live;
#endif
		if
		:: ok -> intents = intents | 8
		:: else
		fi
	}
	if
	:: ok ->
		d_step { last++; decided[3] = last; deleted = true; assert(seen == truth) }
		d_step { intents = intents & ~8; live = false }
	:: else
	fi;
	d_step { version = 0; seen = 0; ok = false }
}

/* Whoever meets committed increments, or undecided ones for too long. */
proctype Helper()
{
	byte x = 0, r = 0, ls = 0, ll = 0, t = 0;
	do
	:: atomic {
			select(x : 1 .. 2);
			intents & (1 << x) }
		d_step { r = record[x]; ls = registered; ll = last }
		if
		:: r == NONE ->
			if
			:: intents & (1 << x) ->
				d_step {
					if
					:: record[x] == NONE -> record[x] = ABORTED
					:: else
					fi;
					r = record[x]
				}
			:: else
			fi
		:: else
		fi;
		if
		:: r == COMMITTED -> apply(x, decided[x], ls, ll, false)
		:: r == ABORTED -> d_step { intents = intents & ~(1 << x) }
		:: else
		fi;
		d_step { x = 0; r = 0; ls = 0; ll = 0 }
	od
}

proctype Snapshot()
{
	byte S = 0, it = 0, v = 0, a = 0, t = 0;
	d_step { registered = last; S = last; printf("snapshot at %d\n", S) }
read:
	skip;
	d_step {
		it = intents & 6;
		t = bits_to(present, S);
		/* committed versions only; never too old while registered */
		assert(t != 0);
		t = top(t);
		assert(S < end[t]);
		v = value[t]; t = 0
	}
	if
	:: it != 0 ->
		d_step { a = answers_now }
		if
		:: (it & ~a) != 0 ->	/* in doubt: read again */
			atomic {
				if
				:: (intents & 6) != it -> goto read
				:: else ->
					t = bits_to(present, S);
					assert(t != 0);
					t = top(t);
					assert(S < end[t]);
					v = value[t]; t = 0
				fi
			}
		:: else
		fi;
		v = v | committed_to(S, it, a)
	:: else
	fi;
	d_step {
		printf("snapshot %d sees %d\n", S, v);
		assert(v == decided_to(S));
		registered = 0
	}
	d_step { S = 0; it = 0; v = 0; a = 0 }
}

proctype Latest()
{
	byte it = 0, v = 0, a = 0, floor = 0, t = 0, ts = 0;
	floor = truth;
read:
	skip;
	d_step { it = intents & 6; ts = top(present); v = value[ts] }
	if
	:: it != 0 ->
#ifdef MUT_ASK_EACH
		d_step { a = answers_now & 2 }
		d_step { a = a | (answers_now & 4) }
#else
		d_step { a = answers_now }
#endif
#ifndef MUT_LATEST_ONCE
		if
		:: (intents & 6) != it || top(present) != ts || value[ts] != v -> goto read
		:: else
		fi;
#endif
		v = v | committed_to(NEVER, it, a)
	:: else
	fi;
	d_step {
		printf("latest is %d\n", v);
		/* all of before, nothing undecided, and no later one without an earlier */
		assert((floor & ~v) == 0 && (v & ~truth) == 0);
		assert(v == 6 || v == 0 || (v == 2 && (decided[2] == 0 || decided[1] < decided[2])) ||
			(v == 4 && (decided[1] == 0 || decided[2] < decided[1])))
	}
	d_step { it = 0; v = 0; a = 0; floor = 0; ts = 0 }
}

init {
	atomic {
		end[1] = NEVER;
		run Increment(1); run Increment(2); run Helper();
#ifdef LATE
		run Delayed();
#endif
#ifdef DELETER
		run Delete();
#endif
#ifdef SNAPSHOT
		run Snapshot();
#endif
#ifdef LATEST
		run Latest();
#endif
	}
}
