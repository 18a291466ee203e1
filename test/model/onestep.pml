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
 * With WATCH it is the step of that engine: one action looks at everything, after WATCH, compares and
 * makes the rows and the timestamp; another one, EXEC, writes them if nothing that is watched was
 * written meanwhile (`dirty`, as Redis keeps it for a connection), or nothing.  It is EXEC that is lost,
 * or late, on its connection.  The lease may end in between, which writes nothing.  (Leaves that are only read
 * need no watch, since whoever changes them decides, and writes the counter: UNWATCHED_READ.)
 *
 * They write both rows; with INC they both add to both; with SKEW each reads one row and
 * writes the other, under SERIALIZABLE, Ord with a mark.
 *
 * With PART row 1 is on another server than the clock: One prepares it first, the step is about
 * row 0 and decides for both, and row 1 is applied after it, by One or by Ord, who meets the intent.  Refused, the
 * attempt prepares row 0 as well and decides as ever, or is taken back.
 *
 * Abstracted: leaves are not split (the generation is compared as by prepare).  That nothing
 * stands between the parts of one step makes it a run of the ordinary protocol, as the other
 * models explore it; what is new is here: that it arrives late as a whole, that no intent
 * shows it, and that it prunes by what it finds itself.
 *
 * Claims: what is overwritten, or was read, is at the decision as it was seen; each increment
 * counts once; a snapshot sees exactly what was decided up to it, of both rows; what a client
 * is told is true, also later: who asks about a session that is forgotten, and finds no record, is told "aborted".
 *
 * run: ci -DLOST=1
 * run: ci -DLOST=1 -DINC
 * run: ci -DLOST=1 -DSKEW
 * run: ci -DLOST=1 -DPART
 * run: ci -DLOST=1 -DPART -DINC
 * run: ci -DLOST=1 -DPART -DSKEW
 * run: ci -DLOST=1 -DPART -DSKEW0
 * run: ci -DLOST=1 -DWATCH
 * run: ci -DLOST=1 -DINC -DWATCH
 * run: ci -DLOST=1 -DSKEW -DWATCH
 * run: ci -DLOST=1 -DSKEW -DWATCH -DUNWATCHED_READ
 * run: ci -DLOST=0 -DPART -DWATCH
 * run: ci -DLOST=0 -DPART -DSKEW -DWATCH
 * run: deep -DLOST=1 -DPART -DWATCH
 * run: deep -DLOST=1 -DPART -DSKEW -DWATCH
 * run: deep -DLOST=2
 * run: deep -DLOST=2 -DINC
 * run: deep -DLOST=2 -DPART
 * run: deep -DLOST=2 -DWATCH
 * run: deep -DLOST=2 -DINC -DWATCH
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
 * mutation: MUT_PART_AFTER -DLOST=1 -DPART rule 50: what is elsewhere is prepared after the step
 * mutation: MUT_PART_NO_COMPARE -DLOST=1 -DPART rule 50: the step compares nothing of its row, since another one is prepared
 * mutation: MUT_PART_NO_READ -DLOST=1 -DPART -DSKEW rule 50: the step does not compare what was only read beside the clock
 * mutation: MUT_NO_MARK -DLOST=1 -DPART -DSKEW0 rule 50: ... nor looks at marks of others on what it writes there
 * mutation: MUT_PART_READ_UNMARKED -DLOST=1 -DPART -DSKEW0 rule 50: what was only read elsewhere is compared before the step, and not marked
 * mutation: MUT_PART_UNKNOWING -DLOST=1 -DPART rule 50: what is elsewhere is applied as if no snapshot were registered
 * mutation: MUT_PART_DROP -DLOST=1 -DPART rule 50: the record goes before what is elsewhere is applied
 * mutation: MUT_PART_REFUSED -DLOST=1 -DPART rule 50: refused, it decides as ever, and has not prepared row 0
 * mutation: MUT_INC_PUT -DLOST=1 -DINC rule 36: an increment is added to what was read before
 * mutation: MUT_UNWATCHED_COUNTER -DLOST=1 -DWATCH rule 35: the clock's counter is not watched
 * mutation: MUT_UNWATCHED_SESSION -DLOST=1 -DWATCH rule 36: the session is not watched
 * mutation: MUT_UNWATCHED_WRITTEN -DLOST=1 -DWATCH rule 35: leaves that are written are not watched
 * mutation: MUT_UNWATCHED_WRITTEN -DLOST=1 -DINC -DWATCH rule 36: leaves that are added to are not watched
 * mutation: MUT_WATCH_LATE -DLOST=1 -DWATCH rule 35: WATCH comes after what it is for was read
 * mutation: MUT_NO_LEASE -DLOST=1 -DWATCH rule 36: the lease is not compared, though the session is watched
 * mutation: MUT_NO_VERSION -DLOST=1 -DWATCH rule 35: the versions are not compared, though the leaves are watched
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
	byte intent;				/* bits of those who have one there; several, of increments alone */
	byte mark					/* 0, ORD, or with PART One's attempt */
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
bit forgotten;					/* One's session is: no record means "aborted" from then on */
#ifdef WATCH
bit dirty[3];					/* per attempt: something was written that it watches */
byte at[3], pruned[3];			/* what it has made of what it read: its timestamp, the list */
byte seen[4];					/* and the values of its rows, two per attempt */
#endif
byte late, lost;
bool in_order;					/* PART: the step was refused, and row 0 is prepared as well */
byte mine;						/* PART: the snapshots that the decision told of */
byte now, new;					/* of put() */

#define bit_of(id) (1 << ((id) - 1))
#define has(k, id) ((row[k].intent & bit_of(id)) != 0)
#define take_off(k, id) row[k].intent = row[k].intent & (7 - bit_of(id))
#ifdef INC
#define shares(k) true
#else
#define shares(k) (row[k].intent == NOBODY)
#endif

#define needs(s, from, to) ((s) != 0 && (from) <= (s) && (s) < (to))

#ifdef INC
#define ord_val(v) ((v) | 4)
#define one_val(k) (row[k].val | 1)
#else
#define ord_val(v) 32
#define one_val(k) (64 + last)
#endif
#if defined(SKEW)
#define one_writes(k) ((k) == 1)
#define ord_writes(k) ((k) == 0)
#elif defined(SKEW0)
#define one_writes(k) ((k) == 0)
#define ord_writes(k) ((k) == 1)
#else
#define one_writes(k) true
#define ord_writes(k) true
#endif

/* A key is written: the counter, One's session, a leaf. */
#ifdef WATCH
#define spoil dirty[1] = 1; dirty[2] = 1
#else
#define spoil skip
#endif
#ifdef MUT_UNWATCHED_COUNTER
#define writes_counter skip
#else
#define writes_counter spoil
#endif
#ifdef MUT_UNWATCHED_SESSION
#define writes_session skip
#else
#define writes_session spoil
#endif
#if defined(MUT_UNWATCHED_WRITTEN)
#define is_watched(k) (!one_writes(k))
#elif defined(UNWATCHED_READ)
#define is_watched(k) one_writes(k)
#else
#define is_watched(k) true
#endif
inline writes_row(k)
{
	if
	:: is_watched(k) -> spoil
	:: else
	fi
}

/* A version on top of what is stored, pruned by a list with the snapshot l in it. */
inline put(k, l)
{
	if
	:: needs(l, row[k].old, row[k].ts) -> skip	/* the middle one goes: nobody needs it */
	:: !needs(l, row[k].old, row[k].ts) && needs(l, row[k].ts, now) -> row[k].old = row[k].ts; row[k].oldval = row[k].val
	:: else -> row[k].old = 0; row[k].oldval = 0
	fi;
	row[k].ts = now; row[k].val = new; now = 0; new = 0;
	writes_row(k)
}

/* An increment of time t, of Ord (4) or One (1): the versions from t on get it. */
inline add(k, t, l, b)
{
	if
	:: t > row[k].ts -> now = t; new = row[k].val | b; put(k, l)
	:: else ->
		row[k].val = row[k].val | b;
		if
		:: row[k].old != 0 && !(l != 0 && l < t) ->
			row[k].oldval = row[k].oldval | b;	/* one of its own, which is newer than l */
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
#if defined(MUT_HALF)
#define holds ((row_ok(0) || row_ok(1)))
#define written(k) (one_writes(k) && row_ok(k))
#elif defined(MUT_PART_NO_COMPARE)
#define holds true
#define written(k) (one_writes(k) && (k) == 0)
#elif defined(MUT_PART_NO_READ)
#define holds true
#define written(k) false
#elif defined(PART)
#define holds (in_order || row_ok(0))
#define written(k) (one_writes(k) && (k) == 0 && !in_order)
#else
#define holds (row_ok(0) && row_ok(1))
#define written(k) one_writes(k)
#endif
#if defined(MUT_PRUNE_ALL)
#define list 0
#elif defined(MUT_PRUNE_BEFORE)
#define list listed
#elif defined(WATCH)
#define list pruned[x]
#else
#define list snap
#endif

#if defined(MUT_INC_PUT)
#define new_val(k) (baseval[k] | 1)
#elif defined(WATCH) && defined(INC)
#define new_val(k) (seen[2 * x + k - 2] | 1)
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
#define in_flight(k, S, id) (has(k, id) && record[id] == COMMITTED && decided[id] <= (S))

#ifdef WATCH
#define go_ahead(x) (dirty[x] == 0)
/* WATCH, and what is read behind it: res is COMMITTED if it may be tried. */
inline look_first(x, res)
{
#ifndef MUT_WATCH_LATE
	dirty[x] = 0;
#endif
	if
	:: not_settled(x) && alive && holds ->
		at[x] = last + 1; pruned[x] = snap; seen[2 * x - 2] = row[0].val; seen[2 * x - 1] = row[1].val;
		res = COMMITTED
	:: else -> res = ABORTED
	fi
}
#else
#define go_ahead(x) (not_settled(x) && alive && holds)
#endif

/* WATCH: it is EXEC; what was compared is so, if nothing is dirty. */
inline one_step(x, res)
{
	d_step {
		if
		:: go_ahead(x) ->
#if defined(MUT_TIME_BEFORE)
			decided[x] = drawn;
#elif defined(WATCH)
			last = at[x]; decided[x] = last;
#else
			last++; decided[x] = last;
#endif
			mine = snap;
			writes_counter;
			assert(told[x] != ABORTED);
			assert(forgotten == 0);
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
			if
			:: one_writes(1) -> truth(1, decided[x], 64 + last)
			:: else
			fi;
#endif
#ifndef MUT_NO_RECORD
			record[x] = COMMITTED;
			writes_session;
#endif
			res = COMMITTED;
			printf("%d is committed in one step at %d\n", x, decided[x])
		:: else -> res = ABORTED
		fi
	}
}

#ifdef PART
/* By One: sets ok. */
inline one_prepare(k, x)
{
	d_step {
		if
		:: shares(k) && version_ok(k) && (row[k].mark == 0 || !one_writes(k)) ->
			if
			:: one_writes(k) -> row[k].intent = row[k].intent | bit_of(x)
#ifndef MUT_PART_READ_UNMARKED
			:: else -> row[k].mark = x
#else
			:: else
#endif
			fi;
			writes_row(k);
			ok = true
		:: else -> ok = false
		fi
	}
}

/* Of One's attempt, by it or by others, who know the list l. */
inline one_apply(k, x, l)
{
	if
	:: has(k, x) ->
#ifdef INC
		add(k, decided[x], l, 1);
#else
		now = decided[x]; new = 64 + decided[x]; put(k, l);
#endif
		take_off(k, x);
		writes_row(k)
	:: row[k].mark == x -> row[k].mark = 0; writes_row(k)
	:: else
	fi
}

/* Who meets what is there of One's attempt asks for its record, and ends it one way or the other. */
inline help(k, x)
{
	d_step {
		if
		:: (has(k, x) || row[k].mark == x) && record[x] == COMMITTED -> one_apply(k, x, snap)
		:: (has(k, x) || row[k].mark == x) && record[x] != COMMITTED ->
			record[x] = ABORTED;
			take_off(k, x);
			row[k].mark = (row[k].mark == x -> 0 : row[k].mark);
			writes_session;
			writes_row(k)
		:: else
		fi
	}
}

inline release(x)
{
	d_step {
		take_off(0, x); take_off(1, x);
		row[0].mark = (row[0].mark == x -> 0 : row[0].mark);
		row[1].mark = (row[1].mark == x -> 0 : row[1].mark);
		writes_row(0);
		writes_row(1)
	}
}
#endif

/* The step, whose answer may be lost; sets res, and refused if nothing else was the matter. */
inline ask(x)
{
	refused = false;
#ifdef WATCH
	do
	:: d_step { look_first(x, res) };
#ifdef MUT_WATCH_LATE
		d_step { dirty[x] = 0 };
#endif
		if
		:: res == COMMITTED && dirty[x] == 1 -> skip	/* EXEC says so: once more, the same */
		:: break
		fi
	od;
	if
	:: res == ABORTED -> refused = true
	:: res == COMMITTED -> one_step(x, res); refused = (res == ABORTED)
	:: res == COMMITTED && lost < LOST ->
#else
	if
	:: one_step(x, res) -> refused = (res == ABORTED)
	:: lost < LOST ->
#endif
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
			mine = snap;
			if
			:: res != COMMITTED && !lease -> res = UNKNOWN
			:: res != COMMITTED && lease -> res = ABORTED; record[x] = ABORTED; writes_session
			:: else
			fi
		}
	fi
}

proctype One()
{
	byte x = 0, res = 0;
	bool refused = false, ok = true;
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
#if defined(PART) && !defined(MUT_PART_AFTER)
		one_prepare(1, x);
#endif
		if
		:: ok -> ask(x)
		:: else -> res = ABORTED; refused = false
		fi;
#ifdef PART
		if
		:: refused && !in_order ->
#ifndef MUT_PART_REFUSED
			one_prepare(0, x);
#endif
			if
			:: ok -> in_order = true; ask(x)
			:: else
			fi
		:: true
		fi;
#endif
		d_step {
			told[x] = res;
			assert(res != COMMITTED || decided[x] != 0);
			assert(res != ABORTED || decided[x] == 0)
		}
#ifdef PART
		if
		:: res == ABORTED -> release(x)
		:: res == COMMITTED ->
#ifdef MUT_PART_AFTER
			one_prepare(1, x);
#endif
#ifdef MUT_PART_DROP
			d_step { if :: record[x] == COMMITTED -> record[x] = NONE; writes_session :: else fi };
#endif
#ifdef MUT_PART_UNKNOWING
			mine = 0;
#endif
			d_step { one_apply(1, x, mine) };
			if
			:: in_order -> d_step { one_apply(0, x, mine) }
			:: else
			fi
		:: else
		fi;
		in_order = false; ok = true;
#endif
		if
		:: res == ABORTED
		:: res == COMMITTED ->
			d_step { if :: record[x] == COMMITTED -> record[x] = NONE; writes_session :: else fi };	/* with the next commit */
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

/* An "aborted" record is collected, a committed one reaped when all is applied. */
#define left(x) (record[x] == COMMITTED && (has(0, x) || has(1, x) || row[0].mark == x || row[1].mark == x))

proctype Expiry()
{
	d_step { lease = 0; printf("the lease ran out\n") }
	do
	:: d_step { forgotten == 0 -> forgotten = 1; writes_session; printf("the session is forgotten\n") }
#ifdef PART
	:: d_step { record[1] != NONE && left(1) == 0 -> record[1] = NONE; writes_session }
	:: d_step { record[2] != NONE && left(2) == 0 -> record[2] = NONE; writes_session }
	:: record[1] == COMMITTED -> help(1, 1); help(0, 1)
	:: record[2] == COMMITTED -> help(1, 2); help(0, 2)
#else
	:: d_step { record[1] != NONE -> record[1] = NONE; writes_session }
	:: d_step { record[2] != NONE -> record[2] = NONE; writes_session }
#endif
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
		:: shares(k) && ord_unchanged_stored(k) && (row[k].mark == 0 || !ord_writes(k)) ->
			if
			:: ord_writes(k) -> row[k].intent = row[k].intent | bit_of(ORD)
			:: else -> row[k].mark = ORD
			fi;
			writes_row(k)
		:: else -> back = true
		fi
	}
}
inline apply(k)
{
	d_step {
		if
		:: has(k, ORD) ->
#ifdef INC
			add(k, decided[ORD], l, 4);
#else
			now = decided[ORD]; new = ord_val(0); put(k, l);
#endif
			take_off(k, ORD);
			writes_row(k)
		:: row[k].mark == ORD -> row[k].mark = 0; writes_row(k)
		:: else
		fi
	}
}

/* Who is in the way is helped, or not. */
inline meet(k)
{
#ifdef PART
	do
	:: has(k, 1) || row[k].mark == 1 -> help(k, 1)
	:: has(k, 2) || row[k].mark == 2 -> help(k, 2)
	:: break
	od
#else
	skip
#endif
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
	meet(k);
	prepare(k);
	if
	:: !back -> meet((1 - k)); prepare((1 - k))
	:: else
	fi;
	if
	:: !back ->
		d_step {
			last++; decided[ORD] = last; record[ORD] = COMMITTED; l = snap; writes_counter;
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
		d_step { if :: record[ORD] == NONE ->
			take_off(0, ORD); take_off(1, ORD);
			row[0].mark = (row[0].mark == ORD -> 0 : row[0].mark); row[1].mark = (row[1].mark == ORD -> 0 : row[1].mark);
			writes_row(0); writes_row(1)
		:: else fi }
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
		:: in_flight(k, S, ORD) -> v = v | 4
		:: else
		fi;
		if
		:: in_flight(k, S, 1) || in_flight(k, S, 2) -> v = v | 1
		:: else
		fi;
#else
		if
		:: in_flight(k, S, ORD) -> v = ord_val(0)
		:: in_flight(k, S, 1) -> v = 64 + decided[1]
		:: in_flight(k, S, 2) -> v = 64 + decided[2]
		:: !in_flight(k, S, ORD) && !in_flight(k, S, 1) && !in_flight(k, S, 2) && row[k].ts <= S -> v = row[k].val
		:: else -> assert(row[k].old != 0 && row[k].old <= S); v = row[k].oldval
		fi;
#endif
		assert(v == (k == 0 -> t0 : t1))
	}
}

proctype Reader()
{
	byte S = 0, v = 0, t0 = 0, t1 = 0;
	d_step { S = last; snap = S; writes_counter; t0 = tval[0]; t1 = tval[1] }
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
