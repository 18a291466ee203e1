/*
 * vacuum.pml: maintenance prunes and purges a row that others delete, update, insert
 * anew and increment.
 *
 * Modelled: one row as it is stored: its newest version, an older one that a snapshot
 * needed, the leaf's purge mark.  A vacuum that reads the row, draws its list of snapshots
 * before or after that, and makes its step any time later.  A writer of CHANGES commits
 * (it prepares, and then decides or takes it back, and applies by what it read when it
 * prepared); INCS increments, applied in place or, where the row keeps an older version,
 * by a helper that reads it and makes its step later; with READER a reader at a
 * registered snapshot, with INSERTER a REPEATABLE READ transaction that saw nothing and
 * inserts, even after its lease ran out.  Any process may stop anywhere.
 *
 * Abstracted: a value is the set of increments in it, and who wrote it; a reader looks at
 * row, intent and record at once (commit.pml has the races between); a reader's lease
 * does not end (snapshot.pml).  Rows do not move: where a split has taken a row away it is
 * absent, so that what holds for an absent row holds there; the generation, which vacuum
 * compares as well, says it twice.
 *
 * Claims: what is stored, with what is in flight, is what was decided last; a snapshot
 * finds its version; who inserts under REPEATABLE READ inserts where nothing was since.
 *
 * BY_TIME: vacuum compares the newest version's timestamp instead of the whole row.  It is
 * enough beside the compare of the intent, and only beside it: increments that are applied
 * late change a row and leave its timestamp as it is.  NO_INTENT: it does not compare the
 * intent, which is enough beside the whole row.
 *
 * run: ci -DCHANGES=3 -DREADER
 * run: ci -DCHANGES=1 -DINCS=2 -DREADER -DNO_INTENT
 * run: ci -DCHANGES=3 -DINSERTER
 * run: ci -DCHANGES=1 -DINCS=2 -DREADER
 * run: ci -DCHANGES=1 -DINCS=2 -DREADER -DBY_TIME
 * run: ci -DCHANGES=0 -DINCS=3 -DOLD
 * run: deep -DCHANGES=4 -DREADER
 * run: deep -DCHANGES=2 -DINCS=2 -DREADER
 * mutation: MUT_ABSENT_OR_SAME vacuum takes an absent row for the one that it read
 * mutation: MUT_BLIND vacuum compares no row
 * mutation: MUT_TIME_ALONE -DCHANGES=0 -DINCS=2 -DREADER vacuum compares the timestamp, and no intent
 * mutation: MUT_HELPER_TIME -DCHANGES=0 -DINCS=3 -DOLD a helper compares the timestamp, not the whole row
 * mutation: MUT_HELPER_AGAIN -DCHANGES=0 -DINCS=3 -DOLD rule 3: a helper does not compare that the intent is there
 * mutation: MUT_PRUNE_STALE rule 10: an old list prunes what was superseded after it
 * mutation: MUT_PRUNE_ANY rule 10: vacuum prunes what a snapshot on its list needs
 * mutation: MUT_PURGE_STALE rule 11: a tombstone that is newer than the list is purged
 * mutation: MUT_PURGE_NOMARK -DCHANGES=3 -DINSERTER rule 11: vacuum leaves no purge mark
 */
#ifndef INCS
#define INCS 0
#endif

#define PUT 1
#define DELETE 2

/* The row; a value: bits 0 to 2 increments, the rest who wrote it. */
typedef Row {
	byte ts;					/* 0: it is absent */
	bit live;
	byte val;
	byte old;					/* 0: it keeps no older version */
	bit oldlive;
	byte oldval
}
Row row;
byte mark;
byte intent;					/* PUT or DELETE of the writer (1) or inserter (2) */
byte owner;
byte incs;						/* increments in flight */

byte last = 1, snap;

/* Truth: what was decided last, and when. */
bit tlive;
byte tval, tts;
byte decided;					/* of the intent, 0: not yet */
bool decidedlive;
byte decidedval;
byte incts[3];					/* 0: not decided */

#define same(a, b) (a.ts == b.ts && a.live == b.live && a.val == b.val && a.old == b.old && \
	a.oldlive == b.oldlive && a.oldval == b.oldval)
#define bit_if(i, s) (incts[i] != 0 && incts[i] <= (s) && (incs & (1 << i)) -> 1 << i : 0)
#define needs(s, from, to) ((s) != 0 && (from) <= (s) && (s) < (to))

#if defined(MUT_HELPER_TIME) || defined(MUT_HELPER_AGAIN)
#define helped(a, b) (a.ts == b.ts)
#else
#define helped(a, b) same(a, b)
#endif

inline copy(a, b)
{
	a.ts = b.ts; a.live = b.live; a.val = b.val; a.old = b.old; a.oldlive = b.oldlive;
	a.oldval = b.oldval
}

inline clear(a)
{
	a.ts = 0; a.live = 0; a.val = 0; a.old = 0; a.oldlive = 0; a.oldval = 0
}

/* The newest state, with the intents that are decided: it is what was decided last. */
inline check()
{
	if
	:: intent != 0 && decided != 0 -> assert(decidedlive == tlive && (!tlive || decidedval == tval))
	:: else ->
		assert((row.ts != 0 && row.live) == tlive);
		assert(!tlive || (row.val | bit_if(0, last) | bit_if(1, last) | bit_if(2, last)) == tval)
	fi
}

/*
 * The row after a version of ts on top of base, by a list with the snapshot l that was
 * drawn at ts.
 */
inline put(base, ts_, live_, val_, l)
{
	if
	:: needs(l, base.old, base.ts) -> row.old = base.old; row.oldlive = base.oldlive; row.oldval = base.oldval
	:: !needs(l, base.old, base.ts) && base.ts != 0 && needs(l, base.ts, ts_) ->
		row.old = base.ts; row.oldlive = base.live; row.oldval = base.val
	:: else -> row.old = 0; row.oldlive = 0; row.oldval = 0
	fi;
	row.ts = ts_; row.live = live_; row.val = (live_ -> val_ : 0);
	if
	:: !live_ && (l == 0 || l >= ts_) ->
		clear(row);
		mark = (ts_ > mark -> ts_ : mark)
	:: else
	fi
}

proctype Writer()
{
	byte n = 0, ts = 0, l = 0;
	Row base;
	do
	:: n < CHANGES ->
		atomic {				/* prepare */
			intent == 0 && incs == 0;
			copy(base, row);
			owner = 1;
			if
			:: row.ts != 0 && row.live -> intent = DELETE
			:: intent = PUT
			fi;
			n++ }
		if
		:: d_step {				/* decide */
				last++; ts = last; l = snap;
				tlive = (intent == PUT); tval = (tlive -> n * 8 : 0); tts = ts;
				decided = ts; decidedlive = tlive; decidedval = tval;
				printf("%d is decided, live %d\n", ts, tlive) }
			d_step {			/* apply */
				put(base, ts, (intent == PUT), n * 8, l);
				intent = 0; decided = 0; decidedlive = 0; decidedval = 0; owner = 0;
				printf("%d is applied\n", ts);
				check() }
		:: d_step { intent = 0; owner = 0; check() }	/* taken back */
		fi;
		d_step { ts = 0; l = 0; clear(base) }
	:: else -> break
	od
}

/* One increment; i: which. */
proctype Increment(byte i)
{
	byte l = 0;
	bool plain = false;
	atomic {
		intent == 0 && row.ts != 0 && row.live;
		incs = incs | (1 << i); plain = (row.old == 0) }
	d_step {
		last++; incts[i] = last; l = snap; tval = tval | (1 << i); tts = last;
		printf("increment %d is decided at %d\n", i, last) }
	if
	:: d_step { (incs & (1 << i)) && plain && l == 0 && row.old == 0 ->
			row.val = row.val | (1 << i);
			row.ts = (incts[i] > row.ts -> incts[i] : row.ts);
			incs = incs & ~(1 << i);
			printf("increment %d is added\n", i);
			check() }
	:: true					/* a helper is faster, or must */
	fi;
	d_step { l = 0; plain = false }
}

/* Applies an increment to the row as it reads it, with a list of that moment. */
proctype Helper(byte i)
{
	byte l = 0;
	Row base;
	do
	:: d_step { incts[i] != 0 && (incs & (1 << i)) -> copy(base, row); l = snap }
		d_step {
			if
#ifdef MUT_HELPER_AGAIN
			:: helped(row, base) ->
#else
			:: (incs & (1 << i)) && helped(row, base) ->
#endif
				assert(!(row.val & (1 << i)));
				if
				:: incts[i] > base.ts -> put(base, incts[i], 1, base.val | (1 << i), l)
				:: else ->		/* the versions above get it, too */
					copy(row, base);
					row.val = base.val | (1 << i);
					if
					:: row.old != 0 && !needs(l, row.old, row.ts) ->
						row.old = 0; row.oldlive = 0; row.oldval = 0
					:: row.old != 0 && needs(l, row.old, row.ts) && l >= incts[i] ->
						row.old = (incts[i] > row.old -> incts[i] : row.old);
						row.oldval = row.oldval | (1 << i)
					:: else
					fi
				fi;
				incs = incs & ~(1 << i);
				printf("increment %d is put\n", i);
				check()
			:: else
			fi;
			l = 0; clear(base)
		}
	od
}

#ifdef MUT_PRUNE_STALE
#define superseded(ts_, ll) true
#else
#define superseded(ts_, ll) ((ts_) <= (ll))
#endif
#ifdef MUT_PRUNE_ANY
#define needed(l, from, to) false
#else
#define needed(l, from, to) needs(l, from, to)
#endif
#ifdef MUT_PURGE_STALE
#define may_purge(ts_, l, ll) ((l) == 0 || (l) >= (ts_))
#else
#define may_purge(ts_, l, ll) ((ts_) <= (ll) && ((l) == 0 || (l) >= (ts_)))
#endif

#if defined(MUT_ABSENT_OR_SAME)
#define row_holds (row.ts == 0 || same(row, seen))
#elif defined(MUT_BLIND)
#define row_holds true
#elif defined(BY_TIME) || defined(MUT_TIME_ALONE)
#define row_holds (row.ts == seen.ts)
#else
#define row_holds same(row, seen)
#endif
#if defined(NO_INTENT) || defined(MUT_TIME_ALONE)
#define intent_holds true
#define may_look true
#else
#define intent_holds (intent == 0 && incs == 0)
#define may_look (intent == 0 && incs == 0)
#endif

proctype Vacuum()
{
	byte l = 0, ll = 0;
	Row seen;
	do
	:: d_step { l = snap; ll = last }
		d_step { row.ts != 0 && may_look -> copy(seen, row) }
		if
		:: d_step { l = snap; ll = last }	/* the clock was asked once more */
		:: skip
		fi;
		d_step {
			if
			:: row_holds && intent_holds ->
				if
				:: !seen.live && may_purge(seen.ts, l, ll) ->
					clear(row);
#ifndef MUT_PURGE_NOMARK
					mark = (seen.ts > mark -> seen.ts : mark);
#endif
					printf("%d is purged\n", seen.ts);
					check()
				:: (seen.live || !may_purge(seen.ts, l, ll)) && seen.old != 0 &&
					superseded(seen.ts, ll) && !needed(l, seen.old, seen.ts) ->
					copy(row, seen);
					row.old = 0; row.oldlive = 0; row.oldval = 0;
					printf("%d is pruned\n", seen.ts);
					check()
				:: else
				fi
			:: else
			fi;
			l = 0; ll = 0; clear(seen)
		}
	od
}

/* At a registered snapshot: what was decided up to it. */
proctype Reader()
{
	byte S = 0, val = 0;
	bit live = 0;
	d_step { S = last; snap = S; live = tlive; val = tval }
	d_step {
		if
		:: intent != 0 && decided != 0 && decided <= S ->
			assert(decidedlive == live && (!live || decidedval == val))
		:: !(intent != 0 && decided != 0 && decided <= S) && row.ts <= S ->
			assert((row.ts != 0 && row.live) == live);
			assert(!live || (row.val | bit_if(0, S) | bit_if(1, S) | bit_if(2, S)) == val)
		:: else ->				/* an older version, or none was there */
			assert((row.old != 0 && row.old <= S && row.oldlive) == live);
			assert(!live || (row.oldval | bit_if(0, S) | bit_if(1, S) | bit_if(2, S)) == val)
		fi
	}
	d_step { snap = 0; S = 0; live = 0; val = 0 }
}

/*
 * REPEATABLE READ: saw nothing at its snapshot, and inserts; perhaps in a new session,
 * with the old S, after its lease ran out.
 */
proctype Expiry()
{
	d_step { snap != 0 -> snap = 0 }
}

proctype Inserter()
{
	byte S = 0, ts = 0, l = 0;
	Row base;
	d_step { !tlive -> S = last; snap = S }
	if
	:: atomic {
			intent == 0 && incs == 0 && !row.live && row.ts <= S && (row.ts != 0 || mark <= S);
			copy(base, row); intent = PUT; owner = 2 }
		d_step {
			assert(tts <= S);
			last++; ts = last; l = snap; tlive = 1; tval = 128; tts = ts;
			decided = ts; decidedlive = 1; decidedval = tval }
		d_step {
			put(base, ts, 1, 128, l);
			intent = 0; decided = 0; decidedlive = 0; decidedval = 0; owner = 0;
			check() }
	:: true
	fi;
	d_step { snap = 0; S = 0; ts = 0; l = 0; clear(base) }
}

init {
	atomic {
		/* the row is there; OLD: with a version that a snapshot needed once */
		row.ts = 1; row.live = 1; tlive = 1; tts = 1;
#ifdef OLD
		last = 2; row.ts = 2; tts = 2; row.old = 1; row.oldlive = 1;
#endif
		run Vacuum(); run Writer();
#ifdef READER
		run Reader();
#endif
#ifdef INSERTER
		run Inserter(); run Expiry();
#endif
#if INCS > 0
		run Increment(0); run Helper(0);
#endif
#if INCS > 1
		run Increment(1); run Helper(1);
#endif
#if INCS > 2
		run Increment(2); run Helper(2);
#endif
	}
}
