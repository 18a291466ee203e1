/*
 * onestep.pml: a commit that is one step, beside one that goes the ordinary way.
 *
 * Modelled: two rows on different leaves.  `One` prepares, decides and applies in a single
 * step (two attempts); its request is lost LOST times, executed now, after its sender has
 * settled it and gone on, or never; its lease runs out at any moment, and then its
 * "aborted" record is collected and its committed one reaped.  `Ord` prepares row by row,
 * decides, applies row by row, or takes back what it placed.  A reader has a registered
 * snapshot and looks at one row after the other.  Any process may stop for any time.
 *
 * They write both rows; with INC they both add to both; with SKEW each reads one row and
 * writes the other, under SERIALIZABLE, Ord with a mark.
 *
 * Abstracted: leaves are not split (the generation is compared as by prepare).  That nothing
 * stands between the parts of one step makes it a run of the ordinary protocol, as the other
 * models explore it; what is new is here: that it arrives late as a whole, that no intent
 * shows it, and that it prunes by what it finds itself.
 *
 * Claims: what is overwritten, or was read, is at the decision as it was seen; each increment
 * counts once; a snapshot sees exactly what was decided up to it, of both rows; what a client
 * is told is true, also later.
 *
 * run: ci -DLOST=1
 * run: ci -DLOST=1 -DINC
 * run: ci -DLOST=1 -DSKEW
 * run: deep -DLOST=2
 * run: deep -DLOST=2 -DINC
 * mutation: MUT_NO_INTENT rule 35: the step does not compare that nobody's intent is on the rows it writes
 * mutation: MUT_NO_VERSION rule 35: the step does not compare the versions
 * mutation: MUT_NO_MARK -DLOST=1 -DSKEW rule 35: the step ignores read marks
 * mutation: MUT_READ_NO_INTENT -DLOST=1 -DSKEW rule 35: the step does not compare that nobody's intent is on the rows it read
 * mutation: MUT_READ_NO_VERSION -DLOST=1 -DSKEW rule 35: the step does not compare the versions that it read
 * mutation: MUT_HALF rule 35: rows are written, or left, one by one
 * mutation: MUT_TIME_BEFORE rule 35: the timestamp is drawn in a step before
 * mutation: MUT_PRUNE_ALL rule 35: the step keeps no version for registered snapshots
 * mutation: MUT_PRUNE_BEFORE rule 35: the step prunes by a list that was drawn in a step before, as if it were new
 * mutation: MUT_NO_RECORD rule 36: the step leaves no record
 * mutation: MUT_NO_ABORTED rule 36: the step does not look whether it was settled
 * mutation: MUT_NO_LEASE rule 36: the step does not compare the lease
 * mutation: MUT_INC_PUT -DLOST=1 -DINC rule 36: an increment is added to what was read before
 */
#define NONE 0
#define COMMITTED 1
#define ABORTED 2
#define UNKNOWN 3
#define ORD 3					/* its id; One's attempts are 1 and 2 */
#define NOBODY 0

typedef Row {
	byte ts, val;				/* newest version; a value: bits of increments, or who wrote */
	byte old, oldval;			/* the older version that a snapshot needs; 0: none */
	byte intent;				/* NOBODY or ORD */
	byte mark
}
Row row[2];
byte last = 1, snap;
byte record[4], told[4], decided[4];
bit lease = 1;

/* What nobody in the model looks at: newest decided state. */
byte tts[2], tval[2];

byte base[2];					/* versions that One saw */
byte baseval[2];
byte obase[2];					/* Ord */
byte drawn, listed;				/* MUT_TIME_BEFORE, MUT_PRUNE_BEFORE */
byte late, lost;
byte now, new;					/* of put() */

#define needs(s, from, to) ((s) != 0 && (from) <= (s) && (s) < (to))

#ifdef INC
#define ord_val(v) ((v) | 4)
#define one_val(k) (row[k].val | 1)
#else
#define ord_val(v) 32
#define one_val(k) (64 + last)
#endif
#ifdef SKEW
#define one_writes(k) ((k) == 1)
#define ord_writes(k) ((k) == 0)
#else
#define one_writes(k) true
#define ord_writes(k) true
#endif

/* A version on top of what is stored, pruned by a list with the snapshot l in it. */
inline put(k, l)
{
	if
	:: needs(l, row[k].old, row[k].ts) -> skip	/* the middle one goes: nobody needs it */
	:: !needs(l, row[k].old, row[k].ts) && needs(l, row[k].ts, now) -> row[k].old = row[k].ts; row[k].oldval = row[k].val
	:: else -> row[k].old = 0; row[k].oldval = 0
	fi;
	row[k].ts = now; row[k].val = new; now = 0; new = 0
}

/* An increment of time t, of Ord: the versions from t on get it. */
inline add(k, t, l)
{
	if
	:: t > row[k].ts -> now = t; new = row[k].val | 4; put(k, l)
	:: else ->
		row[k].val = row[k].val | 4;
		if
		:: row[k].old != 0 && !(l != 0 && l < t) ->
			row[k].oldval = row[k].oldval | 4;	/* one of its own, which is newer than l */
			row[k].old = t
		:: else
		fi
	fi
}

#ifdef INC
#define intent_ok(k) true
#define version_ok(k) true
#else
#if defined(MUT_NO_INTENT)
#define intent_ok(k) (row[k].intent == NOBODY || one_writes(k))
#elif defined(MUT_READ_NO_INTENT)
#define intent_ok(k) (row[k].intent == NOBODY || !one_writes(k))
#else
#define intent_ok(k) (row[k].intent == NOBODY)
#endif
#if defined(MUT_NO_VERSION)
#define version_ok(k) (row[k].ts == base[k] || one_writes(k))
#elif defined(MUT_READ_NO_VERSION)
#define version_ok(k) (row[k].ts == base[k] || !one_writes(k))
#else
#define version_ok(k) (row[k].ts == base[k])
#endif
#endif
#ifdef MUT_NO_MARK
#define mark_ok(k) true
#else
#define mark_ok(k) (row[k].mark == 0 || !one_writes(k))
#endif
#define row_ok(k) (intent_ok(k) && version_ok(k) && mark_ok(k))
#ifdef MUT_NO_ABORTED
#define not_settled(x) (record[x] != COMMITTED)
#else
#define not_settled(x) (record[x] == NONE)
#endif
#ifdef MUT_NO_LEASE
#define alive true
#else
#define alive (lease == 1)
#endif
#ifdef MUT_HALF
#define holds ((row_ok(0) || row_ok(1)))
#define written(k) (one_writes(k) && row_ok(k))
#else
#define holds (row_ok(0) && row_ok(1))
#define written(k) one_writes(k)
#endif
#if defined(MUT_PRUNE_ALL)
#define list 0
#elif defined(MUT_PRUNE_BEFORE)
#define list listed
#else
#define list snap
#endif

#ifdef MUT_INC_PUT
#define new_val(k) (baseval[k] | 1)
#else
#define new_val(k) one_val(k)
#endif

#ifdef INC
#define unchanged(k) true
#else
#define unchanged(k) (tts[k] == base[k])
#endif

inline truth(k, t, v)
{
	tts[k] = t; tval[k] = v
}

/* Bits of increments that are decided and still in flight count. */
#define in_flight(k, S) (row[k].intent == ORD && record[ORD] == COMMITTED && decided[ORD] <= (S))

inline one_step(x, res)
{
	d_step {
		if
		:: not_settled(x) && alive && holds ->
#ifdef MUT_TIME_BEFORE
			decided[x] = drawn;
#else
			last++; decided[x] = last;
#endif
			assert(told[x] != ABORTED);
			assert(unchanged(0) && unchanged(1));
			if
			:: written(0) -> now = decided[x]; new = new_val(0); put(0, list)
			:: else
			fi;
			if
			:: written(1) -> now = decided[x]; new = new_val(1); put(1, list)
			:: else
			fi;
#ifdef INC
			truth(0, decided[x], tval[0] | 1); truth(1, decided[x], tval[1] | 1);
#else
			if
			:: one_writes(0) -> truth(0, decided[x], 64 + last)
			:: else
			fi;
			truth(1, decided[x], 64 + last);
#endif
#ifndef MUT_NO_RECORD
			record[x] = COMMITTED;
#endif
			res = COMMITTED;
			printf("%d is committed in one step at %d\n", x, decided[x])
		:: else -> res = ABORTED
		fi
	}
}

proctype One()
{
	byte x = 0, res = 0;
	d_step { base[0] = row[0].ts; base[1] = row[1].ts; baseval[0] = row[0].val; baseval[1] = row[1].val }
	do
	:: x < 2 ->
		x++;
#ifdef MUT_TIME_BEFORE
		d_step { last++; drawn = last };
#endif
#ifdef MUT_PRUNE_BEFORE
		d_step { listed = snap };
#endif
		if
		:: one_step(x, res)
		:: lost < LOST ->
			atomic {
				lost++;
				if
				:: one_step(x, res)
				:: late == 0 -> late = x
				:: skip
				fi
			}
			d_step {			/* settle */
				res = record[x];
				if
				:: res != COMMITTED && !lease -> res = UNKNOWN
				:: res != COMMITTED && lease -> res = ABORTED; record[x] = ABORTED
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
		:: res == ABORTED
		:: res == COMMITTED ->
			d_step { if :: record[x] == COMMITTED -> record[x] = NONE :: else fi };	/* with the next commit */
			break
		:: res == UNKNOWN -> break
		fi
	:: x == 2 -> break
	od
}

proctype Late()
{
	byte res = 0;
	atomic { late != 0 -> one_step(late, res); late = 0; res = 0 }
}

proctype Expiry()
{
	d_step { lease = 0; printf("the lease ran out\n") }
	do
	:: d_step { record[1] != NONE -> record[1] = NONE }
	:: d_step { record[2] != NONE -> record[2] = NONE }
	od
}

#ifdef INC
#define ord_unchanged(k) true
#else
#define ord_unchanged(k) (tts[k] == obase[k])
#endif

#ifdef INC
#define ord_unchanged_stored(k) true
#else
#define ord_unchanged_stored(k) (row[k].ts == obase[k])
#endif

/* Sets back where the row is not as it was read, or somebody is there. */
inline prepare(k)
{
	d_step {
		if
		:: row[k].intent == NOBODY && (ord_unchanged_stored(k)) ->
			if
			:: ord_writes(k) -> row[k].intent = ORD
			:: else -> row[k].mark = ORD
			fi
		:: else -> back = true
		fi
	}
}
inline apply(k)
{
	d_step {
		if
		:: row[k].intent == ORD ->
#ifdef INC
			add(k, decided[ORD], l);
#else
			now = decided[ORD]; new = ord_val(0); put(k, l);
#endif
			row[k].intent = NOBODY
		:: row[k].mark == ORD -> row[k].mark = 0
		:: else
		fi
	}
}

proctype Ord()
{
	byte l = 0, k = 0;
	bool back = false;
	d_step { obase[0] = row[0].ts; obase[1] = row[1].ts }
	if
	:: k = 1
	:: skip
	fi;
	prepare(k);
	if
	:: !back -> prepare((1 - k))
	:: else
	fi;
	if
	:: !back ->
		d_step {
			last++; decided[ORD] = last; record[ORD] = COMMITTED; l = snap;
			assert(ord_unchanged(0) && ord_unchanged(1));
			if
			:: ord_writes(0) -> truth(0, last, ord_val(tval[0]))
			:: else
			fi;
			if
			:: ord_writes(1) -> truth(1, last, ord_val(tval[1]))
			:: else
			fi;
			printf("%d is decided at %d\n", ORD, last)
		}
		if
		:: k = 1 - k
		:: skip
		fi;
		apply(k);
		apply((1 - k))
	:: back || true ->
		d_step { if :: record[ORD] == NONE -> row[0].intent = 0; row[1].intent = 0; row[0].mark = 0; row[1].mark = 0 :: else fi }
	fi
}

/* One row after the other: each leaf, and the record if an intent is there, at once (commit.pml). */
inline look(k)
{
	d_step {
#ifdef INC
		if
		:: row[k].ts <= S -> v = row[k].val
		:: else -> assert(row[k].old != 0 && row[k].old <= S); v = row[k].oldval
		fi;
		if
		:: in_flight(k, S) -> v = v | 4
		:: else
		fi;
#else
		if
		:: in_flight(k, S) -> v = ord_val(0)
		:: !in_flight(k, S) && row[k].ts <= S -> v = row[k].val
		:: else -> assert(row[k].old != 0 && row[k].old <= S); v = row[k].oldval
		fi;
#endif
		assert(v == (k == 0 -> t0 : t1))
	}
}

proctype Reader()
{
	byte S = 0, v = 0, t0 = 0, t1 = 0;
	d_step { S = last; snap = S; t0 = tval[0]; t1 = tval[1] }
	look(0);
	look(1);
	d_step { snap = 0; S = 0; v = 0; t0 = 0; t1 = 0 }
}

init {
	atomic {
		row[0].ts = 1; row[1].ts = 1; tts[0] = 1; tts[1] = 1;
		run One(); run Ord(); run Reader(); run Late(); run Expiry()
	}
}
