/*
 * loaded.pml: a leaf that a commit fills with a block of its rows, in place of an intent for each
 * (docs/commit.md, "Loaded leaves"; rules 46 to 48).
 *
 * Modelled: a leaf, empty at first, and one of the rows of the load.  A loader makes up to two attempts.  It looks at the
 * leaf, and fills it by a step that compares the generation, and that there is neither a row, nor an intent, nor a mark:
 * then the leaf is loading, for that attempt.  The step's answer may be lost: then the attempt is given up, and the message may
 * come late, after anything else.  The clock decides; the leaf is settled by whoever knows the end: packed, with the
 * timestamp, or empty again; then the owner drops the record.  A second process comes to the leaf: one who inserts the same row the
 * ordinary way (look, intent, decision, apply), waits for nobody for ever, aborts who is undecided, settles; or deletes the
 * row, for which he unpacks the leaf; or certifies that there is nothing there (a read mark, up to his decision).  Somebody raises
 * the generation and leaves the rest (a neighbour that is merged into it, a sweep).  Readers
 * draw a snapshot at any time, look at the leaf, ask the clock, and look again.  The loader may stop at any time.
 * DURABLE: a failover takes the leaf back to what was copied, and all steps are waited for before they are believed; who
 * settles rests on what the clock says, and touches.
 *
 * Abstracted: other rows of the block (they are as this one), the tree, the leases (who is undecided may be aborted at any
 * time), prepare of other leaves; the second process is decided and applied in one.
 *
 * Claims: a reader at S sees the row if and only if it was decided at most at S, and not deleted by then, and is never told
 * that S is too old; the row is inserted once; who certified that there is nothing was right when he was decided; what was
 * acknowledged is there until it is deleted, and then stays away.
 *
 * run: ci
 * run: ci -DDURABLE
 * mutation: MUT_FILL_NO_GENERATION rule 46: the step that fills does not compare the generation
 * mutation: MUT_FILL_OVER rule 46: it does not compare that there is neither row nor intent
 * mutation: MUT_FILL_OVER_MARK rule 46: it does not compare that there is no mark
 * mutation: MUT_FILL_SAME_GENERATION rule 46: it leaves the generation as it is
 * mutation: MUT_WRITE_BESIDE rule 47: who inserts takes a leaf that is loading for an empty one
 * mutation: MUT_CERTIFY_BESIDE rule 47: so does who certifies
 * mutation: MUT_BELIEVE_NONE rule 4: a reader believes "no record" without a second look
 * mutation: MUT_SETTLE_NO_GENERATION rule 48: who settles does not compare the generation
 * mutation: MUT_ABORT_UNASKED rule 48: a leaf is emptied for a transaction that is not aborted
 * mutation: MUT_EARLY_TIME rule 48: the rows are as of the time when they were written, not of the decision
 * mutation: MUT_NOT_WHOLE rule 48: that there was nothing before is not said where a snapshot needs it
 * mutation: MUT_DROP_EARLY rule 5: the record goes before the leaf is settled
 * mutation: MUT_NO_WAIT -DDURABLE rule 17: settling is not waited for
 */
#define NORMAL	0
#define LOADING	1
#define PACKED	2

#define NONE		0
#define ABORTED		1
#define COMMITTED	2

#define OTHER	3				/* the second process' attempt; 1 and 2: the loader's */

/* --- the leaf --- */
byte last_gen = 1;				/* generations are unlike any other */

typedef Leaf {
	byte gen;
	byte state;
	byte loader;				/* LOADING: the attempt */
	byte since;					/* PACKED: the timestamp of its rows */
	bit whole;					/* ... and before it there was nothing */
	bit block;					/* there is one, with the row */
	byte row;					/* a field: its timestamp; 0: none */
	bit row_whole;
	bit intent;					/* of OTHER */
	bit mark					/* of OTHER */
}
Leaf leaf, copied;

/* --- the clock --- */
byte last = 1;					/* the last timestamp */
byte record[4];
byte ts[4];						/* COMMITTED: when */
byte oldest;					/* registered snapshot; 0: none */

/* --- what is true --- */
byte came;						/* when the row was decided; 0: not yet */
byte went;						/* when its deletion was */
bit acknowledged;
bit certified;
byte late_gen, late_tx, late_new;	/* a step that fills, on its way */
byte failovers;

#define there()	(leaf.row != 0 || (leaf.state == PACKED && leaf.block))

inline copy_leaf(to, from)
{
	to.gen = from.gen;
	to.state = from.state;
	to.loader = from.loader;
	to.since = from.since;
	to.whole = from.whole;
	to.block = from.block;
	to.row = from.row;
	to.row_whole = from.row_whole;
	to.intent = from.intent;
	to.mark = from.mark
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

#ifdef MUT_FILL_NO_GENERATION
#define fill_generation(g)	true
#else
#define fill_generation(g)	(leaf.gen == g)
#endif
#ifdef MUT_FILL_OVER
#define is_empty()	true
#else
#define is_empty()	(leaf.row == 0 && !leaf.intent)
#endif
#ifdef MUT_FILL_OVER_MARK
#define is_unmarked()	true
#else
#define is_unmarked()	(!leaf.mark)
#endif

/* A block, and a leaf that is not normal, are not compared: the generation stands for them. */
inline fill(g, tx, n, done)
{
	if
	:: fill_generation(g) && is_empty() && is_unmarked() ->
		leaf.state = LOADING;
		leaf.loader = tx;
		leaf.block = 1;
#ifdef MUT_EARLY_TIME
		leaf.since = last;
#else
		leaf.since = 0;
#endif
#ifdef MUT_FILL_SAME_GENERATION
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

/* By what was read under g: the leaf was loading for tx, which has ended. */
inline settle(g, tx, done)
{
	done = 0;
	if
	:: settle_generation(g) && record[tx] == COMMITTED ->
		leaf.state = PACKED;
		leaf.loader = 0;
#ifndef MUT_EARLY_TIME
		leaf.since = ts[tx];
#endif
#ifdef MUT_NOT_WHOLE
		leaf.whole = 0;
#else
		leaf.whole = (oldest != 0 && oldest < ts[tx]);
#endif
		raise();
		done = 1
	:: settle_generation(g) && record[tx] != COMMITTED ->
		leaf.state = NORMAL;
		leaf.loader = 0;
		leaf.block = 0;
		raise();
		done = 1
	:: else -> skip
	fi
}

inline decide(tx, ok)
{
	if
	:: record[tx] == NONE ->
		last++;
		record[tx] = COMMITTED;
		ts[tx] = last;
		ok = 1
	:: else -> ok = 0
	fi
}

/* The row comes into being with a decision, once. */
inline row_comes(tx)
{
	assert(came == 0);
	came = ts[tx]
}

proctype filler()
{
	byte tx, g, n, seen;
	bit ok;

	tx = 1;
	do
	:: tx <= 2 ->
		d_step { g = leaf.gen; ok = (leaf.state == NORMAL && leaf.row == 0 && !leaf.intent) }
		if
		:: !ok && leaf.state == LOADING && leaf.loader == 1 && tx == 2 ->
			/* what the first attempt has left, late: nobody decides it */
			d_step {
				if
				:: leaf.state == LOADING && leaf.loader == 1 ->
					record[1] = (record[1] == NONE -> ABORTED : record[1]);
					g = leaf.gen; settle(g, 1, ok)
				:: else -> skip
				fi
			}
		:: !ok && !(leaf.state == LOADING && leaf.loader == 1 && tx == 2) -> break	/* the ordinary way; not modelled here */
		:: ok ->
			d_step { last_gen++; n = last_gen; ok = 0 }
			if
			:: d_step { fill(g, tx, n, ok); seen = failovers }
			:: late_gen == 0 && tx == 1 -> d_step { late_gen = g; late_tx = tx; late_new = n; ok = 0 }
			fi;
			if
			:: !ok -> tx++
			:: ok ->
				/* waited for, where it was done: else it is not believed */
				d_step {
					if
					:: failovers == seen -> copy_if_durable()
					:: else -> ok = 0
					fi
				};
				if
				:: !ok -> tx++; goto next
				:: else -> skip
				fi;
				if
				:: d_step {
						decide(tx, ok);
						if
						:: ok -> row_comes(tx)
						:: else -> skip
						fi
					}
				:: goto stopped
				fi;
				if
				:: ok ->
					d_step { acknowledged = 1 };
					g = leaf.gen;		/* as it is by now, or as it was left */
					if
#ifdef MUT_DROP_EARLY
					:: true -> record[tx] = NONE; goto stopped
#endif
					:: true -> skip
					fi;
					do
					:: atomic {
							if
							:: leaf.state == LOADING && leaf.loader == tx -> settle(g, tx, ok)
							:: else -> ok = 1
							fi
						};
						if
						:: ok -> break
						:: else -> g = leaf.gen
						fi
					od;
					/* settled by whomever, it is waited for: the step compares that it is so where it is waited for */
					do
					:: atomic {
							!(leaf.state == LOADING && leaf.loader == tx);
#ifndef MUT_NO_WAIT
							copy_if_durable();
#endif
							break
						}
					:: atomic { leaf.state == LOADING && leaf.loader == tx -> g = leaf.gen; settle(g, tx, ok) }
					od;
					record[tx] = NONE;
					goto stopped
				:: else ->			/* somebody has aborted it */
					d_step {
						if
						:: leaf.state == LOADING && leaf.loader == tx -> g = leaf.gen; settle(g, tx, ok)
						:: else -> skip
						fi
					};
					tx++
				fi
			fi
		fi;
next:
		skip
	:: tx > 2 -> break
	od;
stopped:
	skip
}

/* The leaf is loading: it is settled for whoever has ended, or is aborted here. */
inline help(g)
{
	d_step { tx = (leaf.state == LOADING && leaf.gen == g -> leaf.loader : 0); ok = 0 }
	if
	:: tx != 0 ->
#ifndef MUT_ABORT_UNASKED
		d_step { record[tx] = (record[tx] == NONE -> ABORTED : record[tx]) };
#endif
		/* late, too: whatever has been done to the leaf meanwhile */
		d_step { settle(g, tx, ok) }
	:: else -> skip
	fi
}

proctype inserter()
{
	byte tx, g;
	bit ok, packed, loading, is_there;

look:
	skip;
	d_step {
		g = leaf.gen;
		packed = (leaf.state == PACKED);
		loading = (leaf.state == LOADING);
		is_there = there()
	}
	if
#ifndef MUT_WRITE_BESIDE
	:: loading -> help(g); goto look
#endif
	:: is_there -> goto done	/* a duplicate */
	:: else -> skip
	fi;
	/* a row that went: the leaf is unpacked */
	d_step {
		ok = (leaf.gen == g && leaf.row == 0 && !leaf.intent);
		if
		:: ok -> leaf.intent = 1; copy_if_durable()
		:: else -> skip
		fi
	}
	if
	:: !ok -> goto look
	:: else -> skip
	fi;
	d_step {
		decide(OTHER, ok);
		row_comes(OTHER);
		leaf.row = ts[OTHER];
		leaf.row_whole = (oldest != 0 && oldest < ts[OTHER]);
		leaf.intent = 0;
		copy_if_durable();
		acknowledged = 1
	}
done:
	skip
}

proctype deleter()
{
	byte tx, g;
	bit ok, packed, loading, is_there, w;
	byte s;

look:
	skip;
	d_step {
		g = leaf.gen;
		packed = (leaf.state == PACKED);
		loading = (leaf.state == LOADING);
		is_there = there();
		s = leaf.since;
		w = leaf.whole
	}
	if
	:: loading -> help(g); goto look
	:: packed ->
		d_step {
			if
			:: leaf.gen == g ->
				assert(leaf.block);
				leaf.row = (leaf.row == 0 -> s : leaf.row);
				leaf.row_whole = w;
				leaf.block = 0;
				leaf.state = NORMAL;
				leaf.since = 0;
				raise();
				copy_if_durable()
			:: else -> skip
			fi
		};
		goto look
	:: !is_there -> goto done
	:: else -> skip
	fi;
	d_step {
		ok = (leaf.gen == g && leaf.row != 0 && !leaf.intent);
		if
		:: ok -> leaf.intent = 1; copy_if_durable()
		:: else -> skip
		fi
	}
	if
	:: !ok -> goto look
	:: else -> skip
	fi;
	/* deleted, and purged, where no snapshot needs it: so it is done in one here, if none is registered */
	d_step {
		if
		:: oldest == 0 ->
			decide(OTHER, ok);
			went = last;
			leaf.row = 0
		:: else -> skip
		fi;
		leaf.intent = 0;
		copy_if_durable()
	}
done:
	skip
}

/* SERIALIZABLE: reads that there is nothing, marks the leaf, and is decided. */
proctype certifier()
{
	byte tx, g, S;
	bit ok, loading;

	S = last;
look:
	skip;
	d_step { g = leaf.gen; loading = (leaf.state == LOADING) }
	if
#ifndef MUT_CERTIFY_BESIDE
	:: loading -> help(g); goto look
#endif
	:: leaf.state == PACKED -> goto done	/* unpacked, and newer than S */
	:: else -> skip
	fi;
	d_step {
		ok = (leaf.gen == g && leaf.row == 0 && !leaf.intent);
		if
		:: ok -> leaf.mark = 1; copy_if_durable()
		:: else -> skip
		fi
	}
	if
	:: !ok && leaf.gen == g -> goto done	/* 40001 */
	:: !ok && leaf.gen != g -> goto look
	:: else -> skip
	fi;
	d_step { decide(OTHER, ok); assert(!ok || came == 0) }
	d_step { leaf.mark = 0; copy_if_durable() }
done:
	skip
}

/* A neighbour is merged into the leaf, or the sweep touches it. */
proctype toucher()
{
	d_step { raise(); copy_if_durable() }
}

proctype network()
{
	bit ok;

	late_gen != 0;
	d_step { fill(late_gen, late_tx, late_new, ok) }
}

/* What a reader who looked sees of it: 0 nothing, 1 the row, 2 "too old", 3 it is for the clock to say. */
inline look_at(S)
{
	d_step {
		tx = 0;
		if
		:: leaf.row != 0 -> saw = (leaf.row <= S -> 1 : (leaf.row_whole -> 0 : 2))
		:: leaf.row == 0 && leaf.state == PACKED && leaf.block ->
			saw = (leaf.since <= S -> 1 : (leaf.whole -> 0 : 2))
		:: leaf.row == 0 && leaf.state == PACKED && !leaf.block -> assert(false)
		:: leaf.row == 0 && leaf.state == LOADING -> saw = 3; tx = leaf.loader
		:: else -> saw = 0
		fi
	}
}

proctype reader()
{
	byte S, tx, asked, saw;
	bit again;

	atomic {
		S = last;
		oldest = (oldest == 0 -> S : oldest)
	}
look:
	skip;
	look_at(S);
	if
	:: saw == 3 && again && asked == tx -> saw = 0	/* it is undecided since before the clock was asked */
	:: saw == 3 && !(again && asked == tx) ->
		d_step {
			asked = tx;
			again = (record[tx] != COMMITTED);
			saw = (record[tx] == COMMITTED && ts[tx] <= S -> 1 : 0)
		};
#ifndef MUT_BELIEVE_NONE
		if
		:: again -> goto look
		:: else -> skip
		fi
#endif
	:: else -> skip
	fi;
	atomic {
		assert(saw != 2);
		assert((saw == 1) == (came != 0 && came <= S && (went == 0 || went > S)))
	}
}

/* The latest state, when all is over: what was acknowledged is there, once it is settled. */
proctype last_look()
{
	timeout;
	atomic {
		assert(leaf.state != PACKED || leaf.block);
		assert(went == 0 || !there());
		assert(!acknowledged || went != 0 || there() ||
			   (leaf.state == LOADING && record[leaf.loader] == COMMITTED));
		assert(acknowledged || !there() || came != 0)
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
		copy_leaf(copied, leaf);
		run filler();
		if
		:: run inserter()
		:: run deleter()
		:: run certifier()
		fi;
		run toucher();
		run network();
		run reader();
		run last_look();
#ifdef DURABLE
		run failover();
#endif
	}
}
