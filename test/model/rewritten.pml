/*
 * rewritten.pml: a packed leaf of which a commit writes the block anew, with the rows as they were and as they are to be, in place of an
 * intent for each row that it changes, deletes or inserts (docs/commit.md, "Rewritten leaves"; rules 51 to 55).
 *
 * Modelled: a packed leaf with two rows, of which the first is there or not.  A rewriter makes up to two attempts, at READ COMMITTED or
 * with a snapshot: it looks at the leaf, and changes or deletes the first row, or inserts it, by a step that compares the generation, and that there is
 * neither a field of a row, nor an intent or lock, nor a mark: then the leaf is loading.  The step's answer may be lost: then the attempt is given
 * up, and the message may come late.  The clock decides; the leaf is settled by whoever knows the end, who may be late; the block is not written
 * again.  A second process comes to the leaf: a second rewriter, of either row; or one who writes a row the ordinary way, deletes one (he
 * unpacks before), inserts one, locks one, or certifies both; or somebody raises the generation and leaves the rest.  The second process is chosen by the scope.  Vacuum
 * draws a list of snapshots, looks at the leaf, and later clears that the block says what was before, prunes and
 * purges fields, or packs all that needs no history.  A reader holds a snapshot for a while, or not, and reads a row at
 * another one, drawn at any time; he looks, asks the clock, and looks again.  A rewriter may stop at any time.
 * DURABLE: a failover takes the leaf back to what was copied, and all steps are waited for before they are believed.
 *
 * Abstracted: a row is the set of its versions' timestamps, with what was before them if it is known that there was nothing; the second
 * process is decided and applied in one (commit.pml); the leases: who is undecided may be aborted at any time, and the snapshot by which somebody
 * inserts or certifies keeps nothing; prepare of other leaves; empty blocks, which are not packed.
 *
 * Claims: a reader at S sees the version that was decided last at most at S, and is never told that S is too old; each
 * decision rests on the newest version, and with a snapshot, on one that is no newer; who certified, or locked, was
 * right; what was decided is there in the end, and what was deleted, or taken back, is not.
 *
 * run: ci -DINSERTER
 * run: deep -DREWRITER
 * run: deep -DWRITER
 * run: deep -DDELETER
 * run: deep -DCERTIFIER
 * run: deep -DINSERTER -DDURABLE
 * mutation: MUT_REWRITE_NO_GENERATION -DWRITER rule 51: the step that rewrites does not compare the generation
 * mutation: MUT_REWRITE_OVER_ROWS -DWRITER rule 51: it does not compare that no row is a field
 * mutation: MUT_REWRITE_OVER_INTENT -DWRITER rule 51: it does not compare that there is no intent or lock
 * mutation: MUT_REWRITE_OVER_MARK -DCERTIFIER rule 51: it does not compare that there is no mark
 * mutation: MUT_REWRITE_OVER_PURGED rule 51: who inserts with a snapshot does not compare the purge mark
 * mutation: MUT_REWRITE_SAME_GENERATION -DWRITER rule 51: it leaves the generation as it is
 * mutation: MUT_NO_OLD rule 51: the row as it was is not in the block beside the one as it is to be
 * mutation: MUT_PUT_OVER -DREWRITER rule 51: who inserts over a deleted row does not keep that
 * mutation: MUT_FORGET_HISTORY -DREWRITER rule 51: the other rows are taken over without their histories
 * mutation: MUT_WRITE_BESIDE -DWRITER rule 47: who writes takes a leaf that is loading for one that is packed
 * mutation: MUT_LOCK_BESIDE -DWRITER rule 47: so does who locks
 * mutation: MUT_CERTIFY_BESIDE -DCERTIFIER rule 47: so does who certifies
 * mutation: MUT_BELIEVE_NONE rule 4: a reader believes "no record" without a second look
 * mutation: MUT_SETTLE_NO_GENERATION rule 52: who settles does not compare the generation
 * mutation: MUT_ABORT_UNASKED rule 52: a leaf is settled as taken back for a transaction that is not aborted
 * mutation: MUT_TAKEN_EMPTY rule 52: what is taken back leaves an empty leaf, as a load does
 * mutation: MUT_TAKEN_AS_WRITTEN rule 52: it is settled as if it had been decided
 * mutation: MUT_NOT_WHOLE rule 52: it is not said that a snapshot may ask what was before
 * mutation: MUT_SETTLE_NO_PURGE rule 52: nor is the purge mark raised, where none may
 * mutation: MUT_CLEAR_ANY rule 53: vacuum clears that though a snapshot may ask
 * mutation: MUT_CLEAR_STALE rule 53: it does so by a list that is older than the rows
 * mutation: MUT_CLEAR_NO_GENERATION rule 53: it does not compare the generation
 * mutation: MUT_CLEAR_NO_PURGE rule 53: it does not raise the purge mark
 * mutation: MUT_PACK_HISTORY rule 54: a leaf is packed though a snapshot needs a row's history
 * mutation: MUT_PACK_NO_PURGE rule 54: what is deleted goes, and the purge mark is not raised
 * mutation: MUT_UNPACK_GONE -DDELETER rule 54: unpacking sets what is no row any more as it was
 * mutation: MUT_INSERT_BLIND rule 55: who inserts does not know that the block has a deleted row of that key
 * mutation: MUT_LOCK_DEAD -DWRITER rule 55: who wants a row that is live takes any in a block for one
 * mutation: MUT_CERTIFY_LIVE -DCERTIFIER rule 55: who certifies asks how new the block's live rows are
 * mutation: MUT_DELETE_BESIDE -DDELETER rule 44: a row is deleted beside the block
 * mutation: MUT_DROP_EARLY rule 5: the record goes before the leaf is settled
 * mutation: MUT_NO_WAIT -DINSERTER -DDURABLE rule 17: settling is not waited for
 * mutation: MUT_DECIDE_NO_WAIT -DINSERTER -DDURABLE rule 17: nor is the step that rewrites
 */
#define NORMAL	0
#define LOADING	1
#define PACKED	2

#define UNCHANGED	0			/* what is said of a row in a block: as it was */
#define PUT			1			/* there was none */
#define CHANGE		2
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
#define max(a, b)		((a) > (b) -> (a) : (b))

byte last_gen = 1;				/* generations are unlike any other */

typedef Leaf {
	byte gen;
	byte state;
	byte loader;				/* LOADING: the attempt */
	byte since;					/* PACKED: the timestamp of what was written, */
	bit whole;					/* of which a snapshot may ask what was before; */
	bit taken;					/* or it is taken back */
	byte kind[2];				/* the block */
	byte old[2];
	byte field[2];
	bit intent[2];				/* of the second process; or its lock */
	bit mark;
	byte purged
}
Leaf leaf, copied;

/* --- the clock --- */
byte last = 1;					/* the last timestamp */
byte record[5];					/* by attempt: 1 and 2, 3 and 4 */
byte ts[5];						/* COMMITTED: when */
byte oldest;					/* registered snapshot; 0: none */

/* --- what is true --- */
byte truth[2];					/* all versions of the rows */
byte dead;						/* those that are deletions */

byte late_gen, late_new, late_kind, late_row, late_other, late_S;	/* a step that rewrites, on its way */
byte failovers;

#ifdef MUT_TAKEN_AS_WRITTEN
#define as_it_was(r)	(leaf.kind[r] == UNCHANGED || leaf.state == LOADING)
#else
#define as_it_was(r)	(leaf.kind[r] == UNCHANGED || leaf.state == LOADING || leaf.taken)
#endif
#define in_block(r)	(leaf.state == NORMAL -> 0 : (as_it_was(r) -> leaf.old[r] : \
	(leaf.whole -> leaf.old[r] | (1 << leaf.since) | (leaf.kind[r] == PUT) : \
	(leaf.kind[r] == DELETION -> 0 : 1 << leaf.since))))
#define row(r)		(leaf.field[r] != 0 -> leaf.field[r] : in_block(r))
#define needs(t)	(oldest != 0 && oldest < (t))	/* a snapshot what was before t */

inline copy_leaf(to, from)
{
	to.gen = from.gen;
	to.state = from.state;
	to.loader = from.loader;
	to.since = from.since;
	to.whole = from.whole;
	to.taken = from.taken;
	to.kind[0] = from.kind[0];
	to.kind[1] = from.kind[1];
	to.old[0] = from.old[0];
	to.old[1] = from.old[1];
	to.field[0] = from.field[0];
	to.field[1] = from.field[1];
	to.intent[0] = from.intent[0];
	to.intent[1] = from.intent[1];
	to.mark = from.mark;
	to.purged = from.purged
}

inline copy_if_durable()
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

inline set_block(st, o0, o1)
{
	leaf.state = st;
	leaf.loader = 0;
	leaf.since = 0;
	leaf.whole = 0;
	leaf.taken = 0;
	leaf.kind[0] = UNCHANGED;
	leaf.kind[1] = UNCHANGED;
	leaf.old[0] = o0;
	leaf.old[1] = o1
}

/* A decision on a row, of which the version v is known: 0 for none. */
inline decide_row(r, v, S, deletes)
{
	assert(newest(truth[r]) == v || (!is_live(truth[r]) && v == 0));
	assert(newest(truth[r]) <= S);
	last++;
	truth[r] = truth[r] | (1 << last);
	dead = (deletes -> dead | (1 << last) : dead)
}

/* --- rewriting --- */

#ifdef MUT_REWRITE_NO_GENERATION
#define rewrite_generation(g)	(leaf.state == PACKED)
#else
#define rewrite_generation(g)	(leaf.gen == g)
#endif
#ifdef MUT_REWRITE_OVER_ROWS
#define no_rows()	true
#else
#define no_rows()	(leaf.field[0] == 0 && leaf.field[1] == 0)
#endif
#ifdef MUT_REWRITE_OVER_INTENT
#define no_intents()	true
#else
#define no_intents()	(!leaf.intent[0] && !leaf.intent[1])
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

inline rewrite(g, tx, n, r, k, o, other, S, done)
{
	if
	:: rewrite_generation(g) && no_rows() && no_intents() && no_mark() && (k != PUT || not_purged(S)) ->
		leaf.state = LOADING;
		leaf.loader = tx;
		leaf.since = 0;
		leaf.whole = 0;
		leaf.taken = 0;
		leaf.kind[r] = k;
#ifdef MUT_NO_OLD
		leaf.old[r] = 0;
#else
		leaf.old[r] = o;
#endif
		leaf.kind[1 - (r)] = UNCHANGED;
		leaf.old[1 - (r)] = other;
#ifdef MUT_REWRITE_SAME_GENERATION
		leaf.gen = g;
#else
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
#ifdef MUT_SETTLE_NO_PURGE
			skip
#else
			leaf.purged = (leaf.whole -> leaf.purged : max(leaf.purged, ts[tx]))
#endif
		:: else ->
#ifdef MUT_TAKEN_EMPTY
			set_block(NORMAL, 0, 0);
#endif
#ifdef MUT_TAKEN_AS_WRITTEN
			leaf.since = last;
			leaf.whole = 1;
#endif
			leaf.taken = 1
		fi;
		raise()
	:: else -> skip
	fi
}

/* The leaf is loading: it is settled for whoever has ended, or is aborted here. */
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
	:: htx != 0 ->
		/* late, too: whatever has been done to the leaf meanwhile */
		d_step { settle(g, htx, how, hw); copy_if_durable(); htx = 0; how = 0; hw = 0 }
	:: else -> skip
	fi
}

/* tx: an id, and the next if attempts are 2; r: the row; S: a snapshot, which need not be registered any more, or LATEST. */
proctype rewriter(byte tx; byte attempts; byte r; byte S)
{
	byte g, n, seen, o, other, k, htx, how;
	bit ok, w, hw;

look:
	skip;
	d_step {
		g = leaf.gen;
		ok = (leaf.state == PACKED && leaf.field[0] == 0 && leaf.field[1] == 0);
		o = in_block(r);
#ifdef MUT_FORGET_HISTORY
		other = (is_live(in_block(1 - r)) -> 1 << newest(in_block(1 - r)) : 0);
#else
		other = in_block(1 - r);
#endif
		w = (leaf.state == LOADING);
		k = (leaf.loader == 1 && tx == 2)
	}
	if
	:: w && k -> d_step { settle(g, tx - 1, ABORTED, 0); copy_if_durable() }; goto look	/* what the first attempt has left, late */
	:: w && !k -> help(g); goto look
	:: !w && (!ok || newest(o) > S) -> goto stopped		/* the ordinary way; or 40001 */
	:: !w && ok && newest(o) <= S -> skip
	fi;
	if
	:: is_live(o) -> k = CHANGE
	:: is_live(o) -> k = DELETION
#ifdef MUT_PUT_OVER
	:: !is_live(o) -> k = PUT; n = newest(o); o = 0
#else
	:: !is_live(o) -> k = (o == 0 -> PUT : CHANGE)
#endif
	fi;
	d_step { last_gen++; n = last_gen; ok = 0 }
	if
	:: d_step { rewrite(g, tx, n, r, k, o, other, S, ok); seen = failovers }
	:: late_gen == 0 && tx == 1 ->
		d_step { late_gen = g; late_new = n; late_kind = k; late_row = o; late_other = other; late_S = S; ok = 0 }
	fi;
	/* waited for, where it was done: else it is not believed */
	d_step {
		n = 0;
		if
		:: ok && failovers == seen -> copy_if_durable()
		:: else ->
#ifndef MUT_DECIDE_NO_WAIT
			ok = 0
#endif
		fi
	}
	if
	:: !ok && attempts == 2 -> d_step { attempts = 1; tx++ }; goto look
	:: !ok && attempts == 1 -> goto stopped
	:: ok -> skip
	fi;
	if
	:: d_step {
			if
			:: record[tx] == NONE ->
#ifdef MUT_PUT_OVER
				o = (k == PUT && is_dead(truth[r]) -> truth[r] : o);
#endif
				decide_row(r, newest(o), S, k == DELETION);
				record[tx] = COMMITTED;
				ts[tx] = last;
				w = needs(last)
			:: else -> ok = 0
			fi
		}
	:: goto stopped
	fi;
	d_step { g = leaf.gen; k = 0; o = 0; other = 0 }
	if
	:: !ok ->				/* somebody has aborted it */
		d_step {
			if
			:: leaf.state == LOADING && leaf.loader == tx -> settle(g, tx, ABORTED, 0); copy_if_durable()
			:: else -> skip
			fi
		};
		if
		:: attempts == 2 -> d_step { attempts = 1; tx++ }; goto look
		:: attempts == 1 -> goto stopped
		fi
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
			copy_if_durable();
#endif
			record[tx] = NONE;
			ts[tx] = 0
		};
		break
	:: goto stopped
	od;
#endif
stopped:
	skip;
	d_step { tx = 0; attempts = 0; S = 0; g = 0; n = 0; seen = 0; o = 0; other = 0; k = 0; ok = 0; w = 0 }
}

proctype network()
{
	bit ok;

	late_gen != 0;
	d_step { rewrite(late_gen, 1, late_new, 0, late_kind, late_row, late_other, late_S, ok); ok = 0; late_new = 0; late_kind = 0; late_row = 0; late_other = 0; late_S = 0 }
}

/* --- the ordinary way --- */

inline look_at(r)
{
	d_step {
		g = leaf.gen;
		state = leaf.state;
		b = in_block(r);
		v = row(r)
	}
}

inline unpack_row(i)
{
#ifdef MUT_UNPACK_GONE
	leaf.field[i] = (leaf.field[i] == 0 -> (in_block(i) == 0 -> leaf.old[i] : in_block(i)) : leaf.field[i])
#else
	leaf.field[i] = (leaf.field[i] == 0 -> in_block(i) : leaf.field[i])
#endif
}

inline unpack()
{
	d_step {
		if
		:: leaf.gen == g ->
			unpack_row(0);
			unpack_row(1);
			set_block(NORMAL, 0, 0);
			raise();
			copy_if_durable()
		:: else -> skip
		fi
	}
}

/* The row is as it was read, v: as a field, or else in the block, b, of which it is brought out. */
#define is_as_read(r)	(leaf.gen == g && !leaf.intent[r] && newest((leaf.field[r] == 0 -> b : leaf.field[r])) == newest(v))

inline place_intent(r, S)
{
	d_step {
		ok = is_as_read(r) && !leaf.mark && (v != 0 || leaf.purged <= S);
		if
		:: ok ->
			leaf.field[r] = (newest(leaf.field[r]) < newest(b) -> b : leaf.field[r]);
			leaf.intent[r] = 1;
			copy_if_durable()
		:: else -> skip
		fi
	}
}

/* Decided, and applied, where nobody has taken the intent away. */
inline apply(r, S, deletes)
{
	d_step {
		v = leaf.field[r];
		b = newest(v);
#ifdef MUT_INSERT_BLIND
		b = (v == 0 && is_dead(truth[r]) -> newest(truth[r]) : b);
#endif
		decide_row(r, b, S, deletes);
		b = 0;
		if
		:: needs(last) -> leaf.field[r] = v | (1 << last) | (v == 0)
		:: !needs(last) && !deletes -> leaf.field[r] = 1 << last
		:: else -> leaf.field[r] = 0; leaf.purged = max(leaf.purged, last)
		fi;
		leaf.intent[r] = 0;
		copy_if_durable()
	}
}

#ifdef MUT_WRITE_BESIDE
#define waits_to_write()	false
#else
#define waits_to_write()	(state == LOADING)
#endif
#ifdef MUT_LOCK_BESIDE
#define waits_to_lock()	false
#else
#define waits_to_lock()	(state == LOADING)
#endif
#ifdef MUT_CERTIFY_BESIDE
#define waits_to_certify()	false
#else
#define waits_to_certify()	(state == LOADING)
#endif

proctype writer(byte r)
{
	byte g, state, b, v, htx, how;
	bit ok, hw;

look:
	look_at(r);
	if
	:: waits_to_write() -> help(g); goto look
	:: !waits_to_write() && !is_live(v) -> goto done
	:: else -> skip
	fi;
	place_intent(r, LATEST);
	if
	:: ok -> apply(r, LATEST, 0)
	:: else -> goto look
	fi;
done:
	skip;
	d_step { g = 0; state = 0; b = 0; v = 0; ok = 0 }
}

proctype deleter(byte r)
{
	byte g, state, b, v, htx, how;
	bit ok, hw;

look:
	look_at(r);
	if
	:: state == LOADING -> help(g); goto look
#ifndef MUT_DELETE_BESIDE
	:: state == PACKED -> unpack(); goto look
#endif
	:: else -> skip
	fi;
	if
	:: !is_live(v) -> goto done
	:: else -> skip
	fi;
	place_intent(r, LATEST);
	if
	:: ok -> apply(r, LATEST, 1)
	:: else -> goto look
	fi;
done:
	skip;
	d_step { g = 0; state = 0; b = 0; v = 0; ok = 0 }
}

proctype inserter(byte r; byte S)
{
	byte g, state, b, v, htx, how;
	bit ok, hw;

look:
	look_at(r);
	if
	:: state == LOADING -> help(g); goto look
	:: state != LOADING && (is_live(v) || newest(v) > S) -> goto done
	:: else -> skip
	fi;
#ifdef MUT_INSERT_BLIND
	d_step { v = (v == b -> 0 : v); b = 0 };
#endif
	place_intent(r, S);
	if
	:: ok -> apply(r, S, 0)
	:: else -> goto look
	fi;
done:
	skip;
	d_step { g = 0; state = 0; b = 0; v = 0; ok = 0 }
}

proctype locker(byte r)
{
	byte g, state, b, v, htx, how;
	bit ok, hw;

look:
	look_at(r);
	if
	:: waits_to_lock() -> help(g); goto look
#ifdef MUT_LOCK_DEAD
	:: !waits_to_lock() && v == 0 -> goto done
#else
	:: !waits_to_lock() && !is_live(v) -> goto done
#endif
	:: else -> skip
	fi;
	d_step {
		ok = is_as_read(r);
		if
		:: ok -> leaf.intent[r] = 1; copy_if_durable()
		:: else -> skip
		fi
	}
	if
	:: ok -> d_step { assert(newest(truth[r]) == newest(v) && is_live(v)); leaf.intent[r] = 0; copy_if_durable() }
	:: else -> goto look
	fi;
done:
	skip;
	d_step { g = 0; state = 0; b = 0; v = 0; ok = 0 }
}

#ifdef MUT_CERTIFY_LIVE
#define newest_of(m)	(is_dead(m) -> 0 : newest(m))
#else
#define newest_of(m)	newest(m)
#endif

/* SERIALIZABLE: has read both rows, marks the leaf, and is decided. */
proctype certifier(byte S)
{
	byte g, state, v, htx, how;
	bit ok, hw;

look:
	skip;
	d_step { g = leaf.gen; state = leaf.state; v = max(newest_of(in_block(0)), newest_of(in_block(1))) }
	if
	:: waits_to_certify() -> help(g); goto look
	:: !waits_to_certify() && state != NORMAL && v > S -> unpack(); goto look
	:: else -> skip
	fi;
	d_step {
		ok = (leaf.gen == g && newest(leaf.field[0]) <= S && newest(leaf.field[1]) <= S && !leaf.intent[0] && !leaf.intent[1] &&
			  leaf.purged <= S);
		if
		:: ok -> leaf.mark = 1; copy_if_durable()
		:: else -> skip
		fi
	}
	if
	:: ok -> d_step { assert(newest(truth[0]) <= S && newest(truth[1]) <= S); leaf.mark = 0; copy_if_durable() }
	:: !ok && leaf.gen != g -> goto look
	:: !ok && leaf.gen == g -> skip		/* 40001 */
	fi;
	d_step { g = 0; state = 0; v = 0; ok = 0 }
}

/* A neighbour is merged into the leaf, or the sweep touches it. */
proctype toucher()
{
	d_step { raise(); copy_if_durable() }
}

/* --- vacuum --- */

#ifdef MUT_CLEAR_STALE
#define may_clear(t)	(!(list != 0 && list < (t)))
#else
#ifdef MUT_CLEAR_ANY
#define may_clear(t)	true
#else
#define may_clear(t)	may_purge(t)
#endif
#endif
#define may_purge(t)	((t) <= until && !(list != 0 && list < (t)))
#ifdef MUT_CLEAR_NO_GENERATION
#define clear_generation(g)	true
#else
#define clear_generation(g)	(leaf.gen == g)
#endif
#ifdef MUT_PACK_HISTORY
#define may_pack(m)	true
#else
#define may_pack(m)	((m) == 0 || (m) == 1 << newest(m) && !is_dead(m) || may_purge(newest(m)))
#endif
#define packed(m)	(is_live(m) -> 1 << newest(m) : 0)
#ifdef MUT_PACK_NO_PURGE
#define purges(m)	0
#else
#define purges(m)	(is_dead(m) -> newest(m) : 0)
#endif

inline prune(i, m)
{
	if
	:: leaf.gen == g && leaf.field[i] == m && !leaf.intent[i] ->
		leaf.field[i] = packed(m);
		leaf.purged = max(leaf.purged, (is_dead(m) -> newest(m) : 0))
	:: else -> skip
	fi
}

inline forget()
{
	g = 0;
	list = 0;
	until = 0;
	f0 = 0;
	f1 = 0;
	since = 0
}

#ifndef PASSES
#define PASSES	1
#endif

proctype vacuum()
{
	byte g, list, until, f0, f1, since, htx, how, n;
	bit hw;

	do
	:: n < PASSES ->
		n++;
		d_step { list = oldest; until = last }
		d_step { g = leaf.gen; f0 = leaf.field[0]; f1 = leaf.field[1]; since = leaf.since }
		if
		:: leaf.state == LOADING -> help(g); d_step { forget() }
		:: leaf.whole && may_clear(leaf.since) ->
			skip;
			d_step {
				if
				:: clear_generation(g) ->
					leaf.whole = 0;
#ifndef MUT_CLEAR_NO_PURGE
					leaf.purged = max(leaf.purged, since);
#endif
					raise();
					copy_if_durable()
				:: else -> skip
				fi;
				forget()
			}
		:: leaf.state != LOADING && f0 != 0 && may_purge(newest(f0)) && (leaf.state == NORMAL || is_live(f0)) && f0 != packed(f0) ->
			d_step { prune(0, f0); copy_if_durable(); forget() }
		:: leaf.state != LOADING && f1 != 0 && may_purge(newest(f1)) && (leaf.state == NORMAL || is_live(f1)) && f1 != packed(f1) ->
			d_step { prune(1, f1); copy_if_durable(); forget() }
		:: leaf.state != LOADING && may_pack(row(0)) && may_pack(row(1)) ->
			skip;
			d_step {
				if
				:: leaf.gen == g && leaf.field[0] == f0 && leaf.field[1] == f1 && !leaf.intent[0] && !leaf.intent[1] && !leaf.mark ->
					leaf.purged = max(leaf.purged, max(purges(row(0)), purges(row(1))));
					f0 = packed(row(0));
					f1 = packed(row(1));
					set_block(PACKED, f0, f1);
					leaf.field[0] = 0;
					leaf.field[1] = 0;
					raise();
					copy_if_durable()
				:: else -> skip
				fi;
				forget()
			}
		:: d_step { else -> forget() }
		fi
	:: n == PASSES -> break
	od
}

/* --- readers --- */

#define is_too_old(r)	(at(row(r), S) == 0 && (row(r) == 0 -> leaf.purged > S : (row(r) & 1) == 0))
#define seen(m)			((dead & (1 << at(m, S))) != 0 -> 0 : at(m, S))

#define was(r)			((dead & (1 << at(truth[r], S))) != 0 -> 0 : at(truth[r], S))

inline check()
{
	assert(!too_old[0] && !too_old[1]);
	assert(saw[0] == was(0));
	assert(saw[1] == was(1));
	oldest = 0
}

inline forget_what_is_seen()
{
	saw[0] = 0;
	saw[1] = 0;
	too_old[0] = 0;
	too_old[1] = 0;
	tx = 0;
	w = 0;
	k = 0
}

/* Reads both rows in one message.  It may have held another snapshot before, which keeps histories. */
proctype reader()
{
	byte S, tx, asked, w, k;
	bit again, asks;
	byte saw[2];
	bit too_old[2];

	if
	:: d_step { S = last; oldest = S }
	:: d_step { S = last; oldest = S }; d_step { S = 0; oldest = 0 }; d_step { S = last; oldest = S }
	fi;
look:
	skip;
	d_step {
		tx = (leaf.state == LOADING -> leaf.loader : 0);
		w = (leaf.kind[1] != UNCHANGED);
		k = leaf.kind[w];
		saw[0] = seen(row(0));
		saw[1] = seen(row(1));
		too_old[0] = is_too_old(0);
		too_old[1] = is_too_old(1);
		/* or the loader is undecided since before the clock was asked */
		asks = (tx != 0 && !(again && asked == tx));
		if
		:: !asks -> check(); forget_what_is_seen()
		:: else -> skip
		fi
	}
	if
	:: asks ->
		d_step {
			asked = tx;
			again = (record[tx] != COMMITTED);
			if
			:: record[tx] == COMMITTED && ts[tx] <= S -> saw[w] = (k == DELETION -> 0 : ts[tx]); too_old[w] = 0
			:: else -> skip
			fi;
#ifdef MUT_BELIEVE_NONE
			again = 0;
#endif
			if
			:: !again -> check()
			:: else -> skip
			fi;
			forget_what_is_seen()
		}
		if
		:: again -> goto look
		:: else -> skip
		fi
	:: else -> skip
	fi;
	d_step { S = 0; asked = 0; again = 0; asks = 0 }
}

#define is_in_the_end(r)	(leaf.state == LOADING && record[leaf.loader] == COMMITTED && leaf.kind[r] != UNCHANGED -> \
	newest(truth[r]) == ts[leaf.loader] : \
	(is_live(truth[r]) -> newest(row(r)) == newest(truth[r]) : !is_live(row(r))))

/* The latest state, when all is over. */
proctype last_look()
{
	timeout;
	d_step { assert(is_in_the_end(0)); assert(is_in_the_end(1)) }
}

#ifdef DURABLE
proctype failover()
{
	d_step { copy_leaf(leaf, copied); failovers++ }
}
#endif

init
{
	byte r, S;

	atomic {
		truth[0] = 1;
		truth[1] = 3;
		leaf.gen = 1;
		set_block(PACKED, 0, 2);
		if
		:: truth[0] = 3; leaf.old[0] = 2
		:: true -> skip
		fi;
		copy_leaf(copied, leaf);
		if
		:: r = 0
		:: r = 1
		fi;
		if
		:: S = LATEST
		:: S = 1
		fi;
		run rewriter(1, 2, 0, S);
#ifdef REWRITER
		run rewriter(3, 1, r, LATEST);
#endif
#ifdef WRITER
		if
		:: run writer(r)
		:: run locker(r)
		:: run toucher()
		fi;
#endif
#ifdef DELETER
		run deleter(r);
#endif
#ifdef INSERTER
		run inserter(0, S);
#endif
#ifdef CERTIFIER
		run certifier(1);
#endif
		r = 0;
		S = 0;
		run network();
		run vacuum();
		run reader();
		run last_look();
#ifdef DURABLE
		run failover();
#endif
	}
}
