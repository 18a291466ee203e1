/*
 * snapshot.pml: snapshots, their registration, pruning of histories, purge marks.
 *
 * Modelled: one row that comes, changes and goes (WRITES commits), with its history as
 * src/code/history.c keeps it: a subset of the versions with their ends, beginning with
 * "absent" from time 0 (which the bytes write out only where they must; a history
 * without it is a truncated one); the leaf's purge mark.  A writer that prunes with the list of its
 * decision; a vacuum that prunes and purges with a list of any age, which has all snapshots; a
 * clock whose time passes on its own; readers that
 * draw and register S, the request perhaps sent twice and arriving twice (DUPLICATE);
 * leases that run out.  INSERTER: a REPEATABLE READ transaction that saw nothing and
 * inserts.  THREE_READERS: the list of a decision has only the oldest snapshot and the newest
 * (and no lease runs out).
 *
 * Abstracted: decision and apply are one step (a reader that meets an intent:
 * commit.pml); rows do not move (split.pml and merge.pml carry the purge mark).
 *
 * Claims: a read at S returns the state decided last up to S, or "too old", and that
 * only after the lease ran out; two reads at one S return the same; whoever inserts
 * under REPEATABLE READ inserts where nothing was since S.
 *
 * run: ci -DWRITES=4 -DTWO_READERS
 * run: ci -DWRITES=3 -DDUPLICATE
 * run: ci -DWRITES=3 -DINSERTER
 * run: ci -DWRITES=3 -DTWO_READERS -DTHREE_READERS
 * run: deep -DWRITES=6 -DTWO_READERS -DDUPLICATE
 * run: deep -DWRITES=5 -DDUPLICATE
 * run: deep -DWRITES=5 -DINSERTER
 * run: deep -DWRITES=5 -DTWO_READERS -DTHREE_READERS
 * mutation: MUT_S_TIME rule 8: S is the server's time, and not stored as the last value
 * mutation: MUT_LATE_REGISTER rule 8: S is drawn and registered in two steps
 * mutation: MUT_REREGISTER -DWRITES=3 -DDUPLICATE rule 8: a repeated registration draws a new S
 * mutation: MUT_GAP -DWRITES=4 -DTWO_READERS rule 9: versions do not carry the time when they were superseded
 * mutation: MUT_BETWEEN -DWRITES=3 -DTWO_READERS -DTHREE_READERS rule 9: what a bounded list leaves out is taken for free
 * mutation: MUT_NO_OLDEST -DWRITES=3 -DTWO_READERS -DTHREE_READERS rule 11: a bounded list has the newest snapshots only
 * mutation: MUT_STUB rule 9: "did not exist before" is not kept for a snapshot that needs it
 * mutation: MUT_PRUNE_STALE rule 10: an old list prunes what was superseded after it
 * mutation: MUT_PURGE_ANY rule 11: a tombstone is purged although a snapshot below is registered
 * mutation: MUT_PURGE_STALE rule 11: a tombstone that is newer than the list is purged
 * mutation: MUT_PURGE_NOMARK rule 11: a purge leaves no mark
 * mutation: MUT_PURGE_NOCHECK -DWRITES=3 -DINSERTER rule 11: preparing on an absent row does not compare the mark
 * mutation: MUT_LATEST rule 12: a statement of two reads takes the latest state for both
 */
#define TIMES 10
#define FOREVER 15

short present = 1;				/* versions stored, by timestamp; bit 0: "absent" */
short alive;					/* which of all versions are live */
short ever = 1;					/* truth: all versions decided */
byte end[TIMES];
byte purged;
hidden byte low, high;			/* of the list of a decision */

byte now = 1, last = 1;
byte S[3];						/* registered snapshots, 0: none */
bit lease[3];

#define top(h) ((h) & 512 -> 9 : ((h) & 256 -> 8 : ((h) & 128 -> 7 : ((h) & 64 -> 6 : ((h) & 32 -> 5 : \
	((h) & 16 -> 4 : ((h) & 8 -> 3 : ((h) & 4 -> 2 : ((h) & 2 -> 1 : 0)))))))))
#define bits_to(h, s) ((h) & ((2 << (s)) - 1))
#define is_live(t) (alive & (1 << (t)))
/* The state at s: its timestamp if it is live, else 0. */
#define truth(s) (is_live(top(bits_to(ever, s))) -> top(bits_to(ever, s)) : 0)
#define stored(s) top(bits_to(present, s))

#define draw() (now > last -> now : last)
#define on_list(s, from, to) (s != 0 && from <= s && s < to)


/* May a snapshot that a bounded list leaves out, between the two that it has, need that version? */
#if defined(THREE_READERS) && !defined(MUT_BETWEEN)
#define between(from, to, low, high) (low != 0 && from <= high && to > low)
#else
#define between(from, to, low, high) false
#endif

/*
 * Version n against the list (l0, l1, l2), taken when the last value was ll; bounded: l0 is
 * the oldest, l1 the newest.
 */
inline prune_one(n, l0, l1, l2, bounded, ll)
{
	if
	:: present & (1 << n) && end[n] != FOREVER &&
#ifndef MUT_PRUNE_STALE
		end[n] <= ll &&
#endif
#ifdef MUT_STUB
		(n == 0 || !(on_list(l0, n, end[n]) || on_list(l1, n, end[n]))) ->
#else
		!(on_list(l0, n, end[n]) || on_list(l1, n, end[n]) || on_list(l2, n, end[n]) ||
		  (bounded && between(n, end[n], l0, l1))) ->
#endif
		present = present & ~(1 << n); end[n] = 0
	:: else
	fi
}

inline prune(l0, l1, l2, bounded, ll)
{
	prune_one(0, l0, l1, l2, bounded, ll); prune_one(1, l0, l1, l2, bounded, ll);
	prune_one(2, l0, l1, l2, bounded, ll); prune_one(3, l0, l1, l2, bounded, ll);
	prune_one(4, l0, l1, l2, bounded, ll); prune_one(5, l0, l1, l2, bounded, ll);
	prune_one(6, l0, l1, l2, bounded, ll); prune_one(7, l0, l1, l2, bounded, ll);
	prune_one(8, l0, l1, l2, bounded, ll)
}

#ifdef MUT_PURGE_ANY
#define none_below(t, l0, l1, l2) true
#else
#define none_below(t, l0, l1, l2) ((l0 == 0 || l0 >= t) && (l1 == 0 || l1 >= t) && (l2 == 0 || l2 >= t))
#endif

#ifdef MUT_PURGE_STALE
#define not_newer(ll) true
#else
#define not_newer(ll) (top(present) <= ll)
#endif

/* Purge the row if its newest version is a tombstone that nobody is below. */
inline purge(l0, l1, l2, ll)
{
	if
	:: top(present) != 0 && !is_live(top(present)) && none_below(top(present), l0, l1, l2) && not_newer(ll) ->
#ifndef MUT_PURGE_NOMARK
		if
		:: top(present) > purged -> purged = top(present)
		:: else
		fi;
#endif
		printf("%d purges %d\n", _pid, top(present));
		end[0] = FOREVER; end[1] = 0; end[2] = 0; end[3] = 0; end[4] = 0; end[5] = 0; end[6] = 0;
		end[7] = 0; end[8] = 0; end[9] = 0;
		present = 1
	:: else
	fi
}

/* The oldest snapshot, and the newest. */
#define newest(a, b) (a > b -> a : b)
#define older(a, b) (a == 0 || (b != 0 && b < a) -> b : a)
#define high_of(a, b, c) newest(newest(a, b), c)
#ifdef MUT_NO_OLDEST
#define low_of(a, b, c) high_of(a, b, c)
#else
#define low_of(a, b, c) older(older(a, b), c)
#endif

/* Decide and apply: a change of the row, live or not. */
inline commit(makes_live)
{
	last = (now > last + 1 -> now : last + 1);
	end[top(present)] = last;
	end[last] = FOREVER;
	present = present | (1 << last);
	ever = ever | (1 << last);
	if
	:: makes_live -> alive = alive | (1 << last)
	:: else
	fi;
	printf("%d commits %d, live %d\n", _pid, last, makes_live);
#ifdef THREE_READERS
	low = low_of(S[0], S[1], S[2]);
	high = high_of(S[0], S[1], S[2]);
	prune(low, high, 0, true, last);
	purge(low, high, 0, last);
	low = 0; high = 0
#else
	prune(S[0], S[1], 0, false, last);
	purge(S[0], S[1], 0, last)
#endif
}

proctype Writer()
{
	byte n = 0;
	do
	:: n < WRITES && last + 1 < TIMES - 1 && now < TIMES - 1 ->
		d_step {
			if
			:: !is_live(top(present)) -> commit(true)
			:: is_live(top(present)) && n % 2 == 1 -> commit(false)
			:: else -> commit(true)
			fi;
			n++
		}
	:: else -> break
	od
}

proctype Vacuum()
{
	byte l0 = 0, l1 = 0, l2 = 0, ll = 0;
	do
	:: d_step { l0 = S[0]; l1 = S[1]; l2 = S[2]; ll = last }
		d_step { prune(l0, l1, l2, false, ll); purge(l0, l1, l2, ll); l0 = 0; l1 = 0; l2 = 0; ll = 0 }
	od
}

/* The clock server's time runs ahead of the timestamps, sometimes. */
proctype Time()
{
	d_step { now++ }
	d_step { now++ }
}

/* Draw a snapshot and register it; s: 0 if the session is dead. */
inline snapshot(who, s)
{
#ifdef MUT_S_TIME
	d_step { s = (lease[who] -> draw() : 0); S[who] = s }
#else
#ifdef MUT_LATE_REGISTER
	d_step { s = (lease[who] -> draw() : 0); last = (s > last -> s : last) }
	d_step { S[who] = (lease[who] -> s : 0) }
#else
	d_step {
		if
		:: lease[who] && S[who] == 0 -> last = draw(); S[who] = last
		:: else
		fi;
		s = S[who]
	}
#endif
#endif
}

/* Read the row as of s into v: a timestamp, 0: absent; too old: an assertion. */
inline read_row(who, s, v)
{
	d_step {
#ifdef MUT_LATEST
		v = (is_live(top(present)) -> top(present) : 0);
#else
		v = stored(s);
		old = bits_to(present, s) == 0 || (v == 0 && s < purged);
#ifndef MUT_GAP
		old = old || s >= end[v];
#endif
		if
		:: old -> assert(!lease[who]); v = FOREVER
		:: else ->
			v = (is_live(v) -> v : 0);
			printf("%d at %d reads %d\n", _pid, s, v);
			assert(v == truth(s))
		fi;
		old = false
#endif
	}
}

proctype Reader(byte who)
{
	byte s = 0, v = 0, w = 0;
	bool old = false;
	snapshot(who, s);
	if
	:: s != 0 ->
		read_row(who, s, v);
		read_row(who, s, w);
		assert(v == w || v == FOREVER || w == FOREVER)
	:: else
	fi;
	d_step { S[who] = 0; s = 0; v = 0; w = 0 }
}

/* The registration was sent twice; the second arrives whenever. */
proctype Duplicate()
{
	if
	:: S[0] != 0 ->
		d_step {
			if
#ifdef MUT_REREGISTER
			:: lease[0] && S[0] != 0 -> last = draw(); S[0] = last
#endif
			:: else
			fi
		}
	fi
}

proctype Expiry(byte who)
{
	d_step { lease[who] = 0; S[who] = 0 }
}

/*
 * REPEATABLE READ: saw nothing at its snapshot, and inserts.  If its lease ran out
 * decide refuses; it goes on in a new session, with the old S.
 */
proctype Inserter()
{
	byte s = 0, v = 0;
	bool old = false;
	snapshot(1, s);
	read_row(1, s, v);
	if
	:: v == 0 ->
		d_step {				/* prepare and decide */
			if
#ifdef MUT_PURGE_NOCHECK
			:: top(present) <= s && !is_live(top(present)) ->
#else
			:: top(present) <= s && !is_live(top(present)) && (present != 1 || purged <= s) ->
#endif
				/* first committer wins */
				assert(top(ever) <= s);
				commit(true)
			:: else
			fi
		}
	:: else
	fi;
	d_step { S[1] = 0; s = 0; v = 0 }
}

init {
	atomic {
		end[0] = FOREVER; lease[0] = 1; lease[1] = 1; lease[2] = 1;
		run Writer(); run Vacuum(); run Time(); run Reader(0);
#ifdef THREE_READERS
		run Reader(2);
#else
		run Expiry(0);
#endif
#ifdef DUPLICATE
		run Duplicate();
#endif
#ifdef INSERTER
		run Inserter(); run Expiry(1);
#endif
#ifdef TWO_READERS
		run Reader(1);
#endif
	}
}
