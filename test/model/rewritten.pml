/*
 * rewritten.pml: a packed leaf of which a commit writes the block anew, with the rows as they were beside what they are to be, in
 * place of an intent for each row that it changes, deletes or inserts (docs/commit.md, "Leaves written anew"; rules 51 to 55).
 *
 * Modelled: a packed leaf, and one of its rows, or a key of which it has none.  A rewriter, at READ COMMITTED or with a snapshot, looks
 * at the leaf; if nobody may ask what was before the last time, he changes or deletes the row, inserts it, or leaves it as it
 * is and writes others, by a step that compares the generation, and that there is neither a field, an intent nor a mark.
 * Then the leaf is loading.  The clock decides; the leaf is settled by whoever knows the end, who may be late; the block
 * is not written for it.  Vacuum draws a list of snapshots, looks at the leaf, and later says that nobody asks any more,
 * prunes or purges the field, packs again, or makes a leaf normal of which nothing is left.  A reader registers a snapshot
 * at any time, and reads the row at it later.  The rewriter may stop at any time.
 * Beside them, by the scope: WRITER: one who writes the row the ordinary way, as he has read it or as one that is live, locks
 * it, or deletes it, for which he unpacks the leaf; or who raises the generation and leaves the rest.  INSERTER: one who inserts it,
 * having read the block, or blind, and may give up, and try again with an older snapshot.  REWRITER: another one.  CERTIFIER: one
 * who certifies the row, or that there is none.  LATE: the rewriter's step may be lost, and come late; then he tries again.
 * DURABLE: a failover takes the leaf back to what was copied; who has to rely on his step waits until it is, the others do not.
 *
 * Abstracted: a row is the set of its versions' timestamps, and whether there was nothing before them; a reader asks the clock
 * in the moment in which he looks (loaded.pml); the process beside is decided and applied in one; the leases: who is
 * undecided may be aborted at any time, and the snapshot by which somebody inserts, certifies or rewrites keeps nothing;
 * who inserts blind knows at his step that the entry is not live (entries.pml); the second row of a block, which is as
 * this one where others are written.
 *
 * Claims: a reader at S sees the version that was decided last at most at S, and is never told that S is too old; each
 * decision rests on the newest version, and with a snapshot, on one that is no newer; who certified, or locked, was
 * right; what was decided is there in the end, and what was deleted, or taken back, is not.
 *
 * run: ci -DWRITER
 * run: ci -DINSERTER
 * run: ci -DREWRITER
 * run: ci -DCERTIFIER
 * run: ci -DLATE
 * run: ci -DINSERTER -DDURABLE
 * run: deep -DINSERTER -DPASSES=2
 * run: deep -DWRITER -DPASSES=2
 * mutation: MUT_REWRITE_NO_GENERATION rule 51: the step that rewrites does not compare the generation
 * mutation: MUT_REWRITE_OVER_FIELD rule 51: it does not compare that no row is a field
 * mutation: MUT_REWRITE_OVER_INTENT rule 51: it does not compare that there is no intent or lock
 * mutation: MUT_REWRITE_OVER_MARK -DCERTIFIER rule 51: it does not compare that there is no mark
 * mutation: MUT_REWRITE_OVER_PURGED -DREWRITER rule 51: who inserts with a snapshot does not compare the purge mark
 * mutation: MUT_REWRITE_SAME_GENERATION rule 51: it leaves the generation as it is
 * mutation: MUT_REWRITE_NO_OLD rule 51: the row as it was is not in the block beside what it is to be
 * mutation: MUT_WRITE_BESIDE rule 47: who writes or locks takes a leaf that is loading for one that is packed
 * mutation: MUT_CERTIFY_BESIDE -DCERTIFIER rule 47: so does who certifies
 * mutation: MUT_SETTLE_NO_GENERATION rule 52: who settles does not compare the generation
 * mutation: MUT_SETTLE_SAME_GENERATION rule 52: nor raises it
 * mutation: MUT_ABORT_UNASKED rule 52: a leaf is settled as taken back for a transaction that is not aborted
 * mutation: MUT_UNDONE_EMPTY rule 52: what is taken back leaves an empty leaf, as a load does
 * mutation: MUT_UNDONE_AS_WRITTEN rule 52: or the rows as they were to be
 * mutation: MUT_NOT_WHOLE rule 52: it is not said that a snapshot may ask what was before
 * mutation: MUT_SETTLE_NO_MARK -DINSERTER rule 52: where none may, the purge mark is not raised
 * mutation: MUT_CLEAR_ANY rule 53: "whole" is cleared though a snapshot may ask
 * mutation: MUT_CLEAR_STALE rule 53: it is by a list that is older than the rows
 * mutation: MUT_CLEAR_NO_GENERATION rule 53: the generation is not compared
 * mutation: MUT_CLEAR_SAME_GENERATION -DINSERTER -DDURABLE rule 53: nor raised
 * mutation: MUT_CLEAR_NO_MARK -DINSERTER rule 53: the purge mark is not raised
 * mutation: MUT_CLEAR_MARK_BY_FIELD -DINSERTER -DDURABLE rule 53: nor is it where the deleted row was seen as a field
 * mutation: MUT_REWRITE_WHOLE -DREWRITER rule 54: a leaf is written anew though a snapshot may ask
 * mutation: MUT_PACK_HISTORY rule 54: or packed again
 * mutation: MUT_PACK_NO_MARK -DINSERTER rule 54: packing again forgets the purge mark
 * mutation: MUT_EMPTY_NO_GENERATION rule 54: who makes a leaf normal of which nothing is left does not compare the generation
 * mutation: MUT_UNPACK_GONE rule 54: unpacking sets a deleted row as it was
 * mutation: MUT_UNPACK_DROPS rule 54: or none, though a snapshot may ask
 * mutation: MUT_INSERT_BLIND -DINSERTER rule 55: who inserts does not read a block that may have a deleted row of that key
 * mutation: MUT_INSERT_NEWER -DINSERTER rule 55: with a snapshot he inserts over one that was deleted later
 * mutation: MUT_INSERT_ALONE -DINSERTER rule 55: he does not bring it out
 * mutation: MUT_LIVE_IN_BLOCK rule 55: who wants a row that is live takes any in a block for one
 * mutation: MUT_CERTIFY_LIVE -DCERTIFIER rule 55: who certifies asks how new the block's live rows are
 * mutation: MUT_DROP_EARLY rule 5: the record goes before the leaf is settled
 * mutation: MUT_NO_WAIT -DINSERTER -DDURABLE rule 17: settling is not waited for
 * mutation: MUT_DECIDE_NO_WAIT -DINSERTER -DDURABLE rule 17: nor is the step that rewrites
 */
#define NORMAL	0
#define LOADING	1
#define PACKED	2

#define UNCHANGED	0			/* what a block has of a key: the row as it was, if any, */
#define PUT			1			/* and new columns, where there was none */
#define CHANGE		2			/* and new columns */
#define DELETION	3

#define NONE		0
#define ABORTED		1
#define COMMITTED	2

#define LATEST	7				/* no snapshot: READ COMMITTED */

/* A row: bit t is its version of the timestamp t, bit 0 that there was nothing before; 0: it is absent. */
#define newest(m)		((m) >= 16 -> 4 : ((m) >= 8 -> 3 : ((m) >= 4 -> 2 : ((m) >= 2 -> 1 : 0))))
#define at(m, S)		newest((m) & ((2 << (S)) - 1))
#define is_dead(m)		((dead & (1 << newest(m))) != 0)
#define is_live(m)		(newest(m) != 0 && !is_dead(m))
#define plain(m)		(is_live(m) -> 1 << newest(m) : 0)
#define max(a, b)		((a) > (b) -> (a) : (b))

/* --- the leaf --- */
byte last_gen = 1;				/* generations are unlike any other */

typedef Leaf {
	byte gen;
	byte state;
	byte loader;				/* LOADING: the attempt */
	byte since;					/* PACKED: the timestamp of what was written, */
	bit whole;					/* of which a snapshot may ask what was before; */
	bit undone;					/* or it is taken back */
	byte kind;					/* the block */
	byte old;
	byte field;
	bit intent;					/* of the second process; or its lock */
	bit mark;					/* of the second process */
	byte purged
}
Leaf leaf;
#ifdef DURABLE
Leaf copied;
#endif

/* --- the clock --- */
byte last = 1;					/* the last timestamp */
byte record[4];					/* by attempt: 1 and 2; 3: another rewriter's */
byte ts[4];						/* COMMITTED: when */
byte oldest;					/* registered snapshot; 0: none */

/* --- what is true --- */
byte truth;						/* all versions of the row */
byte dead;						/* those that are deletions */

byte late_gen, late_new, late_kind, late_old, late_S;	/* a step that rewrites, on its way */
byte failovers;

#define as_it_was()	(leaf.kind == UNCHANGED || leaf.state == LOADING || leaf.undone)
#define in_block()	(leaf.state == NORMAL -> 0 : (as_it_was() -> leaf.old : \
	(leaf.whole -> leaf.old | (1 << leaf.since) | (leaf.kind == PUT) : (leaf.kind == DELETION -> 0 : 1 << leaf.since))))
#define row()		(leaf.field != 0 -> leaf.field : in_block())
#define needs(t)	(oldest != 0 && oldest < (t))	/* a snapshot what was before t */

inline copy_leaf(to, from)
{
	to.gen = from.gen;
	to.state = from.state;
	to.loader = from.loader;
	to.since = from.since;
	to.whole = from.whole;
	to.undone = from.undone;
	to.kind = from.kind;
	to.old = from.old;
	to.field = from.field;
	to.intent = from.intent;
	to.mark = from.mark;
	to.purged = from.purged
}

/* All that was done to the leaf so far. */
inline wait_for_copies()
{
#ifdef DURABLE
	copy_leaf(copied, leaf);
#endif
	skip
}

inline raise()
{
	last_gen++;
	leaf.gen = last_gen
}

inline set_block(st, o)
{
	leaf.state = st;
	leaf.loader = 0;
	leaf.since = 0;
	leaf.whole = 0;
	leaf.undone = 0;
	leaf.kind = UNCHANGED;
	leaf.old = o
}

/* A decision on the row, of which the version v is known: 0 for none. */
inline decide_row(v, S, deletes)
{
	assert(newest(truth) == v || (!is_live(truth) && v == 0));
	assert(newest(truth) <= S);
	last++;
	truth = truth | (1 << last);
	dead = (deletes -> dead | (1 << last) : dead)
}

/* --- written anew --- */

#ifdef MUT_REWRITE_NO_GENERATION
#define rewrite_generation(g)	(leaf.state == PACKED)
#else
#define rewrite_generation(g)	(leaf.gen == g)
#endif
#ifdef MUT_REWRITE_OVER_FIELD
#define no_field()	true
#else
#define no_field()	(leaf.field == 0)
#endif
#ifdef MUT_REWRITE_OVER_INTENT
#define no_intent()	true
#else
#define no_intent()	(!leaf.intent)
#endif
#ifdef MUT_REWRITE_OVER_MARK
#define no_mark()	true
#else
#define no_mark()	(!leaf.mark)
#endif
#ifdef MUT_REWRITE_OVER_PURGED
#define not_purged(S)	true
#else
#define not_purged(S)	(leaf.purged <= S)
#endif

inline rewrite(g, tx, n, k, o, S, done)
{
	if
	:: rewrite_generation(g) && no_field() && no_intent() && no_mark() && (k != PUT || not_purged(S)) ->
		leaf.state = LOADING;
		leaf.loader = tx;
		leaf.since = 0;
		leaf.whole = 0;
		leaf.undone = 0;
		leaf.kind = k;
#ifdef MUT_REWRITE_NO_OLD
		leaf.old = (k == UNCHANGED -> o : 0);
#else
		leaf.old = o;
#endif
#ifndef MUT_REWRITE_SAME_GENERATION
		leaf.gen = n;
#endif
		done = 1
	:: else -> done = 0
	fi
}

#ifdef MUT_SETTLE_NO_GENERATION
#define settle_generation(g)	true
#else
#define settle_generation(g)	(leaf.gen == g)
#endif

/* By what was read under g: the leaf was loading for tx, which has ended so; w: a snapshot may ask what was before. */
inline settle(g, tx, how, w)
{
	if
	:: settle_generation(g) ->
		leaf.state = PACKED;
		leaf.loader = 0;
		if
		:: how == COMMITTED ->
			leaf.since = ts[tx];
#ifndef MUT_NOT_WHOLE
			leaf.whole = w;
#endif
#ifndef MUT_SETTLE_NO_MARK
			leaf.purged = (!leaf.whole && leaf.kind == DELETION -> max(leaf.purged, ts[tx]) : leaf.purged)
#endif
		:: else ->
#ifdef MUT_UNDONE_EMPTY
			set_block(NORMAL, 0);
#endif
#ifdef MUT_UNDONE_AS_WRITTEN
			leaf.since = last;
#else
			leaf.undone = 1
#endif
		fi;
#ifndef MUT_SETTLE_SAME_GENERATION
		raise()
#endif
	:: else -> skip
	fi
}

/* The leaf is loading: it is settled for whoever has ended, or is aborted here; late, too, whatever has been done to it meanwhile. */
inline help(g)
{
	d_step {
		htx = (leaf.state == LOADING && leaf.gen == g -> leaf.loader : 0);
#ifndef MUT_ABORT_UNASKED
		record[htx] = (htx != 0 && record[htx] == NONE -> ABORTED : record[htx]);
#endif
		how = record[htx];
		hw = needs(ts[htx])
	}
	if
	:: htx != 0 -> d_step { settle(g, htx, how, hw); htx = 0; how = 0; hw = 0 }
	:: else -> d_step { how = 0; hw = 0 }
	fi
}

#ifdef MUT_REWRITE_WHOLE
#define may_rewrite()	true
#else
#define may_rewrite()	(!leaf.whole)
#endif

/* tx: an id, and the next if attempts are 2. */
proctype rewriter(byte tx; byte attempts)
{
	byte g, n, seen, o, k, S, htx, how;
	bit ok, w, mine, hw;

	if
	:: S = LATEST
#ifndef DURABLE
	:: S = 1
#endif
	fi;
look:
	skip;
	d_step {
		g = leaf.gen;
		ok = (leaf.state == PACKED && may_rewrite() && leaf.field == 0);
		o = in_block();
		w = (leaf.state == LOADING);
		mine = (leaf.loader == 1 && tx == 2)
	}
	if
	:: w && mine -> d_step { settle(g, 1, ABORTED, 0) }; goto look	/* what the first attempt has left, late */
	:: w && !mine -> help(g); goto look
	:: !w && !(ok && newest(o) <= S) -> goto stopped		/* the ordinary way; or 40001 */
	:: !w && ok && newest(o) <= S -> skip
	fi;
#ifdef MUT_REWRITE_WHOLE
	o = plain(o);
#else
	assert(o == plain(o));
#endif
	if
	:: o != 0 -> k = CHANGE
	:: o != 0 -> k = DELETION
	:: o == 0 -> k = PUT
	:: k = UNCHANGED			/* others */
	fi;
	d_step { last_gen++; n = last_gen; ok = 0; mine = 0 }
	if
	:: d_step { rewrite(g, tx, n, k, o, S, ok); seen = failovers }
#ifdef LATE
	:: late_gen == 0 && tx == 1 -> d_step { late_gen = g; late_new = n; late_kind = k; late_old = o; late_S = S; ok = 0 }
#endif
	fi;
	/* waited for, where it was done: else it is not believed */
	d_step {
		n = 0;
		if
		:: ok && failovers == seen -> wait_for_copies()
		:: else ->
#ifndef MUT_DECIDE_NO_WAIT
			ok = 0
#endif
		fi
	}
	if
	:: !ok -> goto next
	:: ok -> skip
	fi;
	if
	:: d_step {
			if
			:: record[tx] == NONE ->
				if
				:: k == UNCHANGED -> last++
				:: else -> decide_row(newest(o), S, k == DELETION)
				fi;
				record[tx] = COMMITTED;
				ts[tx] = last;
				w = needs(last)
			:: else -> ok = 0		/* somebody has aborted it */
			fi
		}
	:: goto stopped
	fi;
	d_step { g = 0; k = 0; o = 0 }
	if
	:: !ok ->
		d_step {
			if
			:: leaf.state == LOADING && leaf.loader == tx -> g = leaf.gen; settle(g, tx, ABORTED, 0)
			:: else -> skip
			fi
		}
		goto next
	:: else -> skip
	fi;
#ifdef MUT_DROP_EARLY
	record[tx] = NONE;
#else
	do
	:: d_step { leaf.state == LOADING && leaf.loader == tx -> g = leaf.gen; settle(g, tx, COMMITTED, w) }
	:: d_step {
			/* settled by whomever, it is waited for */
			!(leaf.state == LOADING && leaf.loader == tx);
#ifndef MUT_NO_WAIT
			wait_for_copies();
#endif
			record[tx] = NONE;
			ts[tx] = 0
		};
		break
	:: goto stopped
	od;
#endif
	goto stopped;
next:
	if
	:: attempts == 2 -> d_step { attempts = 1; tx++ }; goto look
	:: attempts == 1 -> skip
	fi;
stopped:
	skip;
	d_step { tx = 0; attempts = 0; S = 0; g = 0; n = 0; seen = 0; o = 0; k = 0; ok = 0; w = 0; mine = 0 }
}

proctype network()
{
	bit ok;

	late_gen != 0;
	d_step { rewrite(late_gen, 1, late_new, late_kind, late_old, late_S, ok); ok = 0; late_new = 0; late_kind = 0; late_old = 0; late_S = 0 }
}

/* --- the ordinary way --- */

inline look_at()
{
	d_step {
		g = leaf.gen;
		state = leaf.state;
		whole = leaf.whole;
		b = in_block();
		v = row();
		ok = 0
	}
}

#ifdef MUT_UNPACK_GONE
#define unpacked()	(in_block() == 0 -> leaf.old : in_block())
#else
#ifdef MUT_UNPACK_DROPS
#define unpacked()	(is_dead(in_block()) -> 0 : in_block())
#else
#define unpacked()	in_block()
#endif
#endif

inline unpack()
{
	d_step {
		if
		:: leaf.gen == g ->
			leaf.field = (newest(leaf.field) < newest(unpacked()) -> unpacked() : leaf.field);
			set_block(NORMAL, 0);
			raise()
		:: else -> skip
		fi
	}
}

#ifdef MUT_LIVE_IN_BLOCK
#define live_in_block()	(b != 0)
#else
#define live_in_block()	is_live(b)
#endif

/* Under the generation of the block that was read, b: the row is as it was read, v; or any that is live. */
#define as_expected(live)	(leaf.gen == g && !leaf.intent && (live -> \
	(leaf.field == 0 -> live_in_block() : is_live(leaf.field)) : newest((leaf.field == 0 -> b : leaf.field)) == newest(v)))

#ifdef MUT_INSERT_ALONE
#define brought_out()	(is_dead(b) -> leaf.field : (newest(leaf.field) < newest(b) -> b : leaf.field))
#else
#define brought_out()	(newest(leaf.field) < newest(b) -> b : leaf.field)
#endif

inline place_intent(live, S)
{
	d_step {
		ok = as_expected(live) && !leaf.mark && (v != 0 || leaf.purged <= S);
		if
		:: ok -> leaf.field = brought_out(); leaf.intent = 1; seen = failovers
		:: else -> skip
		fi
	}
}

/* Decided, and applied. */
inline apply(known, S, deletes)
{
	d_step {
		v = leaf.field;
		decide_row(known, S, deletes);
		if
		:: needs(last) -> leaf.field = v | (1 << last) | (v == 0)
		:: !needs(last) && !deletes -> leaf.field = 1 << last
		:: else -> leaf.field = 0; leaf.purged = max(leaf.purged, last)
		fi;
		leaf.intent = 0;
		wait_for_copies()
	}
}

inline forget_look()
{
	d_step { g = 0; state = 0; whole = 0; b = 0; v = 0; seen = 0; ok = 0 }
}

#ifdef MUT_WRITE_BESIDE
#define waits_to_write()	false
#else
#define waits_to_write()	(state == LOADING)
#endif
#ifdef MUT_CERTIFY_BESIDE
#define waits_to_certify()	false
#else
#define waits_to_certify()	(state == LOADING)
#endif

/* live: an increment, that wants nothing but a row that is live. */
proctype writer(bit live)
{
	byte g, state, b, v, seen, htx, how;
	bit ok, whole, hw;

look:
	look_at();
	if
	:: waits_to_write() -> help(g); goto look
	:: !waits_to_write() && !live && !is_live(v) -> goto done
	:: else -> skip
	fi;
	place_intent(live, LATEST);
	if
	:: ok -> apply(newest(leaf.field), LATEST, 0)
	:: else ->
		if
		:: live && leaf.gen == g -> skip	/* the row is gone */
		:: else -> goto look
		fi
	fi;
done:
	forget_look()
}

proctype locker()
{
	byte g, state, b, v, seen, htx, how;
	bit ok, whole, hw;

look:
	look_at();
	if
	:: waits_to_write() -> help(g); goto look
	:: else -> skip
	fi;
	d_step {
		ok = as_expected(true);
		if
		:: ok -> leaf.intent = 1; v = row()
		:: else -> skip
		fi
	}
	if
	:: ok -> d_step { assert(newest(truth) == newest(v) && is_live(v)); leaf.intent = 0 }
	:: !ok && leaf.gen != g -> goto look
	:: !ok && leaf.gen == g -> skip
	fi;
	forget_look()
}

proctype deleter()
{
	byte g, state, b, v, seen, htx, how;
	bit ok, whole, hw;

look:
	look_at();
	if
	:: state == LOADING -> help(g); goto look
	:: state == PACKED -> unpack(); goto look
	:: else -> skip
	fi;
	if
	:: !is_live(v) -> goto done
	:: else -> skip
	fi;
	place_intent(false, LATEST);
	if
	:: ok -> apply(newest(v), LATEST, 1)
	:: else -> goto look
	fi;
done:
	forget_look()
}

#ifdef MUT_INSERT_BLIND
#define may_be_blind()	true
#else
#define may_be_blind()	(!whole)
#endif
#ifdef MUT_INSERT_NEWER
#define is_newer()	false
#else
#define is_newer()	(newest(v) > S)
#endif

proctype inserter()
{
	byte g, state, b, v, S, seen, tries, htx, how;
	bit ok, whole, hw, blind;

	if
	:: S = LATEST
	:: S = last
	fi;
	if
	:: blind = 1
	:: blind = 0
	fi;
look:
	look_at();
	if
	:: state == LOADING -> help(g); goto look
	:: else -> skip
	fi;
	if
	:: blind && state == PACKED && may_be_blind() && !is_live(truth) ->
		d_step { blind = 0; b = 0; v = 0 }
	:: else ->
		if
		:: is_live(v) || is_newer() -> goto done
		:: else -> skip
		fi
	fi;
	place_intent(false, S);
	if
	:: !ok -> goto look
	:: else -> skip
	fi;
	/* waited for; or he gives up */
	if
	:: d_step {
			if
			:: seen == failovers -> wait_for_copies()
			:: else -> ok = 0
			fi
		}
	:: ok = 0
	fi;
	if
	:: ok -> apply((is_live(v) -> LATEST : (v == 0 -> 0 : newest(v))), S, 0)
	:: !ok ->
		leaf.intent = 0;
		tries++;
		if
		:: tries < 2 -> S = 1; goto look	/* or another, of an old snapshot */
		:: else -> skip
		fi
	fi;
done:
	forget_look();
	d_step { S = 0; tries = 0; blind = 0 }
}

#ifdef MUT_CERTIFY_LIVE
#define newest_of(m)	(is_dead(m) -> 0 : newest(m))
#else
#define newest_of(m)	newest(m)
#endif

/* SERIALIZABLE: has read the row, or that there is none, marks the leaf, and is decided. */
proctype certifier()
{
	byte g, state, v, S, htx, how;
	bit ok, hw;

	S = last;
look:
	skip;
	d_step { g = leaf.gen; state = leaf.state; v = newest_of(in_block()) }
	if
	:: waits_to_certify() -> help(g); goto look
	:: !waits_to_certify() && state != NORMAL && v > S -> unpack(); goto look
	:: else -> skip
	fi;
	d_step {
		ok = (leaf.gen == g && newest(leaf.field) <= S && !leaf.intent && leaf.purged <= S);
		if
		:: ok -> leaf.mark = 1
		:: else -> skip
		fi
	}
	if
	:: ok -> d_step { assert(newest(truth) <= S); leaf.mark = 0 }
	:: !ok && leaf.gen != g -> goto look
	:: !ok && leaf.gen == g -> skip		/* 40001 */
	fi;
	d_step { g = 0; state = 0; v = 0; S = 0; ok = 0 }
}

/* A neighbour is merged into the leaf, or the sweep touches it. */
proctype toucher()
{
	d_step { raise() }
}

/* --- vacuum --- */

#define may_purge(t)	((t) <= until && !(list != 0 && list < (t)))
#ifdef MUT_CLEAR_STALE
#define may_clear(t)	(!(list != 0 && list < (t)))
#else
#ifdef MUT_CLEAR_ANY
#define may_clear(t)	true
#else
#define may_clear(t)	may_purge(t)
#endif
#endif
#ifdef MUT_CLEAR_NO_GENERATION
#define clear_generation()	true
#else
#define clear_generation()	(leaf.gen == g)
#endif
#ifdef MUT_CLEAR_NO_MARK
#define clear_mark()	false
#else
#ifdef MUT_CLEAR_MARK_BY_FIELD
#define clear_mark()	(leaf.kind == DELETION && f == 0)
#else
#define clear_mark()	(leaf.kind == DELETION)
#endif
#endif
#ifdef MUT_PACK_HISTORY
#define may_pack(m)	true
#else
#define may_pack(m)	((m) == plain(m))
#endif
#ifdef MUT_EMPTY_NO_GENERATION
#define empty_generation()	true
#else
#define empty_generation()	(leaf.gen == g)
#endif

inline clear()
{
	if
	:: clear_generation() ->
		assert(leaf.state == PACKED);	/* else it is said to be, without a block */
		leaf.whole = 0;
		leaf.purged = (clear_mark() -> max(leaf.purged, since) : leaf.purged);
#ifndef MUT_CLEAR_SAME_GENERATION
		raise()
#endif
	:: else -> skip
	fi
}

inline prune()
{
	if
	:: leaf.gen == g && leaf.field == f && !leaf.intent ->
		leaf.purged = (is_dead(f) -> max(leaf.purged, newest(f)) : leaf.purged);
		leaf.field = plain(f)
	:: else -> skip
	fi
}

inline pack()
{
	if
	:: leaf.gen == g && leaf.field == f && !leaf.intent && !leaf.mark ->
		f = plain(row());
		set_block(PACKED, f);
		leaf.field = 0;
#ifdef MUT_PACK_NO_MARK
		leaf.purged = 0;
#endif
		raise()
	:: else -> skip
	fi
}

/* Whoever has inserted beside the block meanwhile keeps his field. */
inline make_normal()
{
	if
	:: empty_generation() -> set_block(NORMAL, 0); raise()
	:: else -> skip
	fi
}

inline forget_pass()
{
	g = 0;
	list = 0;
	until = 0;
	f = 0;
	since = 0;
	what = 0
}

#define HELP	1
#define CLEAR	2
#define PRUNE	3
#define PACK	4
#define EMPTY	5

#ifndef PASSES
#define PASSES	1
#endif

proctype vacuum()
{
	byte g, list, until, f, since, what, htx, how, n;
	bit hw;

	do
	:: n < PASSES ->
		d_step { n++; list = oldest; until = last }
		d_step {
			g = leaf.gen;
			f = leaf.field;
			since = leaf.since;
			if
			:: leaf.state == LOADING -> what = HELP
			:: leaf.state != LOADING && leaf.whole && may_clear(since) -> what = CLEAR
			:: leaf.state != LOADING && !(leaf.whole && may_clear(since)) && f != 0 && f != plain(f) && may_purge(newest(f)) &&
					(is_live(f) || !is_live(in_block())) -> what = PRUNE
			:: else -> what = (may_pack(row()) && !leaf.intent && !leaf.mark -> PACK : 0)
			fi
		}
		if
		:: what == HELP -> help(g); d_step { forget_pass() }
		:: what == CLEAR -> d_step { clear(); forget_pass() }
		:: what == PRUNE -> d_step { prune(); forget_pass() }
		:: what == PACK -> d_step { pack(); forget_pass() }
		:: what == PACK && f == 0 && leaf.state == PACKED && in_block() == 0 && leaf.gen == g -> what = EMPTY; d_step { make_normal(); forget_pass() }
		:: what == 0 -> d_step { forget_pass() }
		fi
	:: else -> break
	od;
	n = 0
}

/* --- readers --- */

#define is_too_old()	(at(row(), S) == 0 && (row() == 0 -> leaf.purged > S : (row() & 1) == 0))
#define seen(m)			((dead & (1 << at(m, S))) != 0 -> 0 : at(m, S))

#define is_decided()	(leaf.state == LOADING && leaf.kind != UNCHANGED && record[leaf.loader] == COMMITTED && ts[leaf.loader] <= S)

/* Asks the clock in the moment in which he looks. */
proctype reader()
{
	byte S, saw;

	d_step { S = last; oldest = S }
	d_step {
		if
		:: is_decided() -> saw = (leaf.kind == DELETION -> 0 : ts[leaf.loader])
		:: else -> assert(!is_too_old()); saw = seen(row())
		fi;
		assert(saw == seen(truth));
		oldest = 0;
		S = 0;
		saw = 0
	}
}

/* The latest state, when all is over. */
proctype last_look()
{
	timeout;
	d_step {
		if
		:: leaf.state == LOADING && record[leaf.loader] == COMMITTED && leaf.kind != UNCHANGED ->
			assert(newest(truth) == ts[leaf.loader] && is_dead(truth) == (leaf.kind == DELETION))
		:: else -> assert(is_live(truth) -> newest(row()) == newest(truth) : !is_live(row()))
		fi
	}
}

#ifdef DURABLE
proctype failover()
{
	d_step { copy_leaf(leaf, copied); failovers++ }
}
#endif

init
{
	atomic {
		leaf.gen = 1;
		if
		:: truth = 3; set_block(PACKED, 2)
#ifndef DURABLE
		:: truth = 1; set_block(PACKED, 0)
#endif
		fi;
		wait_for_copies();
#ifdef LATE
		run rewriter(1, 2);
		run network();
#else
		run rewriter(1, 1);
#endif
#ifdef WRITER
		if
		:: run writer(0)
		:: run writer(1)
		:: run locker()
		:: run deleter()
		:: run toucher()
		fi;
#endif
#ifdef INSERTER
		run inserter();
#endif
#ifdef REWRITER
		run rewriter(3, 1);
#endif
#ifdef CERTIFIER
		run certifier();
#endif
		run vacuum();
		run reader();
		run last_look();
#ifdef DURABLE
		run failover();
#endif
	}
}
