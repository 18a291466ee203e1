/*
 * sweep.pml: the sweep deletes trees that no definition names, and nodes that no search
 * leads to, while sessions make them part of something.
 *
 * Modelled: sessions of ids 1, 2, ...; a maker that makes a tree under its id, writes its
 * definition by a transaction, whose decision compares the lease, and perhaps goes on
 * under a new id after its lease ran out; a dropper that takes the definition away and
 * then destroys the tree.  With SPLIT a splitter that makes a new node, and brings it in
 * by a step on the node that it splits, while a writer changes, deletes and inserts what
 * goes there.  A sweep: it asks who lives, lists the definitions, looks at a node, judges,
 * deletes.  Leases run out at any moment; any process may stop for any time, or for good,
 * and a dead session's process may go on.
 *
 * Abstracted: a tree is one node, what goes to a new node one item; a split of a leaf
 * freezes it first, and is finished by whoever meets it (split.pml, merge.pml, which has
 * signposts, too); who lives is asked in one step, and the answer is what is forgotten for
 * good; the definitions are read in one step (snapshot.pml has snapshots).
 *
 * Claims: a tree that a definition names is there; a search finds what was written last,
 * and ends at no node that is deleted.
 *
 * run: ci
 * run: ci -DSPLIT
 * mutation: MUT_LIST_FIRST the definitions are listed before it is asked who lives
 * mutation: MUT_LIVING trees of living sessions are taken for garbage
 * mutation: MUT_DECIDE_DEAD rule 7: the decision does not compare the lease
 * mutation: MUT_OLD_ID a transaction commits under a new id what it made under the old one
 * mutation: MUT_NO_TOUCH -DSPLIT a stray is deleted without raising the generation of the node that covers it
 * mutation: MUT_LOOK_ONCE -DSPLIT it is not looked again after that
 * mutation: MUT_CUT_BLIND -DSPLIT the step that brings a new node in does not compare the generation
 */
#define NOBODY 0

bit lease[4];					/* of the sessions 1 .. 3 */
byte newest = 2;

#ifndef SPLIT

byte tree;						/* the session that made it; 0: it is not there */
bool defined;					/* a definition names it */

proctype Maker()
{
	byte id = 1, under = 0;
	d_step { tree = id; under = id; printf("the tree is made by %d\n", id) }
	if
	:: d_step { !lease[id] -> newest++; id = newest; lease[id] = 1; printf("the maker is %d now\n", id) }
	:: true
	fi;
	/* prepare, then decide */
#ifndef MUT_OLD_ID
	if
	:: under != id -> goto done
	:: else
	fi;
#endif
	d_step {
		if
#ifdef MUT_DECIDE_DEAD
		:: true ->
#else
		:: lease[id] ->
#endif
			assert(tree != NOBODY);
			defined = true;
			printf("the definition is decided\n")
		:: else
		fi
	}
done:
	skip
}

proctype Dropper()
{
	d_step { defined -> defined = false }
	d_step { tree = NOBODY }
}

proctype Sweep()
{
	bit live = 0;
	bool known = false;
	byte found = 0, times = 0;
	do
	:: times < 2 ->
#ifdef MUT_LIST_FIRST
		d_step { known = defined }
#endif
		d_step { live = lease[1] }
#ifndef MUT_LIST_FIRST
		d_step { known = defined }
#endif
		d_step { found = tree }
		if
#ifdef MUT_LIVING
		:: found != NOBODY && !known ->
#else
		:: found != NOBODY && !known && !live ->
#endif
			d_step {
				tree = NOBODY;
				printf("the tree is destroyed\n");
				assert(!defined)
			}
		:: else
		fi;
		d_step { live = 0; known = false; found = 0; times++ }
	:: else -> break
	od
}

#else							/* SPLIT */

/* A node, what it holds, and the new node that is to take it over. */
byte gen = 1, item = 1;
bit cut_off;					/* the new node was brought in */
bit exists;
byte moved;
byte truth = 1;

#define found() (cut_off -> moved : item)

proctype Splitter()
{
	byte seen = 0, g = 0;
	d_step { seen = item; g = gen }
	d_step { exists = 1; moved = seen; printf("the new node is made\n") }
	d_step {
		if
#ifdef MUT_CUT_BLIND
		:: true ->
#else
		:: gen == g ->
#endif
			gen++; cut_off = 1; item = 0;
			printf("the node is cut\n");
			assert(exists && found() == truth)
		:: else
		fi;
		seen = 0; g = 0
	}
}

/* Updates, deletes (0), inserts anew: each a step on the node that covers the key. */
proctype Writer()
{
	byte n = 0, g = 0;
	bit at = 0;
	do
	:: n < 3 ->
		d_step { g = gen; at = cut_off }
		d_step {
			if
			:: !at && gen == g ->
				n++; gen++;
				item = (n == 2 -> 0 : n + 1); truth = item
			:: at ->
				assert(exists && moved == truth);
				n++;
				moved = (n == 2 -> 0 : n + 1); truth = moved
			:: else
			fi;
			g = 0; at = 0
		}
	:: else -> break
	od
}

/* A node of a dead session that no search for its low fence ends at. */
proctype Sweep()
{
	byte g = 0, times = 0;
	bit covers = 0;
	do
	:: times < 2 ->
		if
		:: d_step { exists && !lease[1] -> covers = cut_off }
			if
			:: !covers ->
#ifndef MUT_NO_TOUCH
				/* a step on what covers the low fence now, until it is made */
				do
				:: true ->
					d_step { g = gen; covers = cut_off }
					d_step {
						if
						:: covers -> g = 0
						:: !covers && gen == g -> gen++; g = 0
						:: else
						fi
					}
					if
					:: g == 0 -> break
					:: else
					fi
				od;
				skip;
#endif
#ifdef MUT_LOOK_ONCE
				d_step { covers = 0 };
#else
				d_step { covers = cut_off };
#endif
				if
				:: !covers -> d_step {
						exists = 0; moved = 0;
						printf("the new node is deleted\n");
						assert(found() == truth) }
				:: covers
				fi
			:: covers
			fi
		:: true
		fi;
		d_step { covers = 0; g = 0; times++ }
	:: else -> break
	od
}
#endif

proctype Expiry()
{
	d_step { lease[1] = 0; printf("lease 1 ran out\n") }
}

init {
	atomic {
		lease[1] = 1; lease[2] = 1;
		run Sweep(); run Expiry();
#ifdef SPLIT
		run Splitter(); run Writer();
#else
		run Maker(); run Dropper();
#endif
	}
}
