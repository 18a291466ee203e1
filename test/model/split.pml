/*
 * split.pml: a transaction's intent, its apply and its release, while its leaf splits.
 *
 * Modelled: a splitter and a late helper of the same split; a writer that commits
 * twice on a key that moves (prepare, decide, apply, drop), the first of its attempts
 * released; a helper that applies what is committed; a second splitter of whatever
 * leaf has the key then; a reader that counts committed intents.  Paths may be
 * arbitrarily stale; any process may stop for any time.  GUESS: the writer places its
 * intents on whatever leaf a path leads to, unseen: the step itself compares that it serves the key.
 *
 * Abstracted: one key, one transaction after the other (commit.pml has two);
 * messages are not lost, but a stopped process delays them as long as it likes.
 *
 * Claims: whoever looks at a leaf that covers the key finds the row decided last, as
 * row or as an intent whose record says so; nobody's intent is left when all is done.
 *
 * run: ci
 * run: ci -DGUESS
 * run: deep -DSECOND
 * run: deep -DSECOND -DGUESS
 * mutation: MUT_FROZEN_APPLY rule 2: apply and release do not look whether the key is frozen
 * mutation: MUT_APPLY_NOCOVER rule 2: "my intent is not here" is believed on a leaf that does not cover the key
 * mutation: MUT_GUESS_NOCOVER -DGUESS rule 2: a step on a leaf that was not looked at does not compare the fences
 * mutation: MUT_GUESS_FROZEN -DGUESS rule 2: such a step does not compare that the leaf is not being split
 * mutation: MUT_INTENT_NOCOPY rule 14: a split does not copy intents
 * mutation: MUT_CREATE_OVER rule 14: the new leaf is created over one that exists
 * mutation: MUT_EARLY_R rule 14: the new leaf is used before the cut
 */
#include "tree.inc"

#define KEY 2
byte truth;						/* what was decided last */
byte recorded;					/* attempt whose record says "committed", 0: none */
bool done;						/* the writer has applied all */

#define value(x) (node[x].intent[KEY] != 0 && node[x].intent[KEY] == recorded -> recorded : node[x].row[KEY])

inline finish()
{
	create(im.oth);
	cut_node(at);
	if
	:: cut -> link_node(im.m, im.oth)
	:: else
	fi
}

/*
 * The leaf for the key: c, its generation g.  write: a frozen part must be moved
 * first.  What is there is what was decided.
 */
inline search(write)
{
	start_search(KEY);
	do
	:: true ->
		atomic {
			hit = false; at = NOBODY;
			if
			:: !node[c].ex || KEY < node[c].low -> assert(c != 0); c = 0
			:: node[c].ex && KEY >= node[c].low && KEY >= node[c].high ->
				c = node[c].right; assert(c != NOBODY && node[c].ex)
			:: node[c].ex && KEY >= node[c].low && KEY < node[c].high ->
				if
				:: node[c].st == SPLITTING && KEY >= node[c].m && write ->
#ifdef MUT_EARLY_R
					if
					:: node[node[c].oth].ex -> c = node[c].oth; g = node[c].gen; hit = true
					:: else -> read_node(c)
					fi
#else
					read_node(c)
#endif
				:: else ->
					assert(value(c) == truth);
					assert(!done || node[c].intent[KEY] == 0);
					g = node[c].gen; hit = true
				fi
			fi
		}
		if
		:: hit -> hit = false; break
		:: !hit && at != NOBODY -> finish(); d_step { forget_image(); g = 0; c = 0 }
		:: else
		fi
	od;
	skip
}

/* Turn the intent of x into a row, or take it back (commit false). */
inline settle(x, commit)
{
	do
	:: true ->
#if defined(MUT_FROZEN_APPLY)
		search(false);
#else
		search(true);
#endif
		d_step {
#if defined(MUT_FROZEN_APPLY)
			ok = node[c].ex && KEY < node[c].high;
#elif defined(MUT_APPLY_NOCOVER)
			ok = node[c].ex && (node[c].gen == g || node[c].intent[KEY] != x);
#else
			ok = node[c].ex && node[c].gen == g;
#endif
			if
			:: ok && node[c].intent[KEY] == x ->
				node[c].intent[KEY] = 0;
				printf("%d: intent %d on node %d is settled\n", _pid, x, c);
				if
				:: commit -> node[c].row[KEY] = x
				:: else
				fi
			:: else
			fi;
			g = 0; c = 0
		}
		if
		:: ok -> ok = false; break
		:: else
		fi
	od;
	skip
}

proctype Splitter()
{
	LOCALS;
	g = node[0].gen;
	freeze(0, g, 1, 1);
	g = 0;
	if
	:: ok ->
		atomic { read_node(0); ok = (im.ex && im.st == SPLITTING && im.oth == 1) }
		if
		:: ok -> finish()
		:: else
		fi
	:: else
	fi;
	d_step { forget_image() }
}

proctype Helper()
{
	LOCALS;
	atomic { node[0].st == SPLITTING; read_node(0) }
	finish();
	d_step { forget_image() }
}

#ifdef SECOND
proctype Second()
{
	LOCALS;
	bool hit = false;
	search(true);
	freeze(c, g, 2, 2);
	if
	:: ok ->
		atomic { read_node(c); ok = (im.ex && im.st == SPLITTING && im.oth == 2) }
		if
		:: ok -> finish()
		:: else
		fi
	:: else
	fi;
	d_step { forget_image(); c = 0; g = 0 }
}
#endif

/* What the step that places an intent compares. */
#ifndef GUESS
#define serves(x) (node[x].ex && node[x].gen == g)
#elif defined(MUT_GUESS_NOCOVER)
#define serves(x) (node[x].ex && node[x].st == NORMAL)
#elif defined(MUT_GUESS_FROZEN)
#define serves(x) covers(x, KEY)
#else
#define serves(x) (covers(x, KEY) && node[x].st == NORMAL)
#endif

proctype Writer()
{
	LOCALS;
	bool hit = false;
	byte x = 1;					/* 1 is released, 2 and 3 commit */
	do
	:: x <= 3 ->
		do
		:: true ->
#ifdef GUESS
			if
			:: start_search(KEY)
			:: search(true)
			fi;
#else
			search(true);
#endif
			d_step {
				ok = serves(c);
				if
				:: ok ->
					assert(node[c].row[KEY] == truth && node[c].intent[KEY] == 0);
					node[c].intent[KEY] = x;
					printf("%d: intent %d on node %d\n", _pid, x, c)
				:: else
				fi;
				g = 0; c = 0
			}
			if
			:: ok -> ok = false; break
			:: else
			fi
		od;
		if
		:: x == 1 -> settle(x, false)
		:: else ->
			d_step { truth = x; recorded = x }
			settle(x, true);
			recorded = 0
		fi;
		x++
	:: else -> break
	od;
	done = true
}

/* Applies what it finds committed. */
proctype Applier()
{
	LOCALS;
	bool hit = false;
	byte x = 0;
	atomic { recorded != 0; x = recorded }
	settle(x, true);
	x = 0
}

proctype Reader()
{
	LOCALS;
	bool hit = false;
	search(false);
	d_step { c = 0; g = 0 }
}

init {
	atomic {
		tree_init();
		run Splitter(); run Helper(); run Writer(); run Applier(); run Reader();
#ifdef SECOND
		run Second();
#endif
	}
}
