/*
 * merge.pml: merging an emptied leaf, while a split of before is still being
 * finished by somebody late.
 *
 * Modelled: a leaf is split, the new leaf filled, emptied, merged into its left
 * neighbour, left as a signpost and at last deleted.  A splitter, a late helper of
 * the same split, a writer, a reader and a merger; whoever meets a leaf in the
 * middle of a split or merge helps.  Any process may stop for any time between two
 * steps; the sessions of splitter and helper may be declared dead meanwhile.
 *
 * Abstracted: a transaction is one step on a row (split.pml has intents); the
 * parent is one table of separators, caches of it may be arbitrarily stale; the left
 * neighbour is found in one step.  Level 0 only.
 *
 * Claims: a step that a search leads to finds the row that was written last, and a
 * purge mark that covers what was purged; right links never lead to a missing node.
 *
 * Scope: 1 split, ROUNDS times insert and delete of one key, LATE processes that
 * go on although their session is dead and the signpost deleted; LEASE_CHECK: they
 * look at their lease before they create and link, LEASE_CHECK_ATOMIC: in the step.
 * A separator that leads to a missing node is taken for none.
 *
 * run: ci -DROUNDS=1 -DLATE=0
 * run: ci -DROUNDS=1 -DLATE=1
 * run: deep -DROUNDS=1 -DLATE=2 -DLEASE_CHECK_ATOMIC
 * run: deep -DROUNDS=2 -DLATE=1 -DLEASE_CHECK
 * mutation: MUT_DYING_READS rule 21: a leaf that is merged away still serves
 * mutation: MUT_MERGE_BY_ID rule 14: a leaf is reached by its name, before it is cut in
 * mutation: MUT_DYING_NONEMPTY rule 21: a leaf is merged away without a look whether it is empty
 * mutation: MUT_PURGE_NOMAX rule 11: the absorbing leaf does not take over the purge mark
 * mutation: MUT_PURGE_NOCOPY rule 11: a split does not copy the purge mark
 * mutation: MUT_CREATE_OVER rule 14: the new leaf is created over one that exists
 * mutation: MUT_CUT_NOCHECK rule 14: the cut does not compare the generation
 * mutation: MUT_LINK_UNCONFIRMED -DROUNDS=1 -DLATE=1 rule 21: a leaf is linked unseen
 * mutation: MUT_DANGLING -DROUNDS=1 -DLATE=1 rule 21: a separator that leads nowhere is believed
 * mutation: MUT_TWO_LATE -DROUNDS=1 -DLATE=2 -DLEASE_CHECK rule 21: two late processes, leases looked at before the step instead of in it
 */
#include "tree.inc"

#define KEY 2
byte truth, purge;				/* of the key, what was written last */
#define PROCESSES 5				/* splitter, helper, writer, reader, merger */
bit held[PROCESSES];			/* knows something of the tree that may be old */
bit gone[PROCESSES];			/* its session is dead */

#define chained(r) (node[0].right == r || \
	(node[0].right != NOBODY && node[node[0].right].right == r))

/* The node that `who` creates for a split of the leaf in im. */
#ifdef UNIQUE_IDS
#define CREATES(who) (who + 1)
#else
#define CREATES(who) im.oth
#endif

inline lease_check(who)
{
#ifdef LEASE_CHECK
	ok = !gone[who]
#else
	ok = true
#endif
}

/*
 * Finish the split of the leaf in im.  A process whose lease ran out starts
 * anew, with empty hands.
 */
inline finish(who)
{
	lease_check(who);
	if
	:: ok ->
		atomic {
			im.oth = CREATES(who);
#ifdef LEASE_CHECK_ATOMIC
			ok = !gone[who];
			if
			:: ok -> create(im.oth)
			:: else
			fi
#else
			create(im.oth)
#endif
		}
		cut_node(at);
#ifdef UNIQUE_IDS
		cut = ok;				/* nobody else can have put our leaf in */
#endif
		lease_check(who);
		if
		:: cut && ok ->
#ifndef MUT_LINK_UNCONFIRMED
			/* a fresh search over right links must come to it */
			d_step { ok = chained(im.oth) }
#endif
			if
			:: ok ->
				atomic {
#ifdef LEASE_CHECK_ATOMIC
					if
					:: !gone[who]
					:: else -> im.oth = NOBODY
					fi;
#endif
#ifdef MUT_DANGLING
					assert(im.oth == NOBODY || node[im.oth].ex);
#endif
					if
					:: im.oth != NOBODY -> link_node(im.m, im.oth)
					:: else
					fi
				}
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

/* Merge away the leaf at, which im shows as DYING; c: left neighbour. */
inline help_merge()
{
	d_step {
		c = NOBODY;
		if
		:: node[0].right == at -> c = 0
		:: else ->
			if
			:: node[0].right != NOBODY && node[node[0].right].right == at -> c = node[0].right
			:: else
			fi
		fi
	}
	if
	:: c != NOBODY ->
		d_step {
			ok = (node[c].ex && node[c].st == NORMAL && node[c].right == at);
			if
			:: ok ->
				lastgen++;
				node[c].gen = fresh_gen(c);
				node[c].high = im.high; node[c].right = im.right;
				printf("%d: node %d absorbs %d\n", _pid, c, at);
#ifndef MUT_PURGE_NOMAX
				if
				:: node[c].purged < im.purged -> node[c].purged = im.purged
				:: else
				fi
#endif
			:: else
			fi
		}
	:: else -> d_step { ok = true; c = 0 }	/* somebody did; node 0 is left of it */
	fi;
	if
	:: ok ->
		d_step {
			if
			:: node[at].ex && node[at].st == DYING && node[at].gen == im.gen ->
				lastgen++;
				node[at].gen = fresh_gen(at);
				node[at].st = DEAD; node[at].oth = c;
				printf("%d: node %d is dead, heir %d\n", _pid, at, c)
			:: else
			fi
		}
		d_step {
			if
			:: parent[im.low] == at -> parent[im.low] = NOBODY
			:: else
			fi
		}
	:: else
	fi
}

/* The leaf that serves the key: c, generation g.  write: frozen parts do not. */
inline search(who, write)
{
	atomic { held[who] = 1; start_search(KEY) }
	do
	:: true ->
		atomic {
			hit = false; at = NOBODY;
			if
			:: !node[c].ex || KEY < node[c].low -> assert(c != 0); c = 0; printf("%d starts anew\n", _pid)
			:: node[c].ex && node[c].st == DEAD -> c = node[c].oth
			:: node[c].ex && node[c].st != DEAD && KEY >= node[c].low && KEY >= node[c].high ->
				c = node[c].right; assert(c != NOBODY && node[c].ex)
			:: node[c].ex && node[c].st != DEAD && KEY >= node[c].low && KEY < node[c].high ->
				if
#ifndef MUT_DYING_READS
				:: node[c].st == DYING -> read_node(c)
#endif
				:: node[c].st == SPLITTING && KEY >= node[c].m && write -> read_node(c)
				:: else ->
					assert(node[c].row[KEY] == truth && node[c].purged >= purge);
					g = node[c].gen; hit = true; printf("%d reads node %d\n", _pid, c)
				fi
			fi
		}
		if
		:: hit -> hit = false; break
		:: !hit && at != NOBODY && im.st == SPLITTING -> finish(who); d_step { forget_image(); g = 0; c = 0 }
		:: !hit && at != NOBODY && im.st == DYING -> help_merge(); d_step { forget_image(); g = 0; c = 0 }
		:: else
		fi
	od;
	skip
}

/* Reads the leaf as frozen, then finishes, perhaps much later. */
proctype Helper()
{
	LOCALS;
	atomic { node[0].st == SPLITTING; read_node(0); held[1] = 1 }
	finish(1);
	d_step { forget_image(); held[1] = 0 }
}

proctype Splitter()
{
	LOCALS;
	atomic { g = node[0].gen; held[0] = 1 }
	freeze(0, g, 1, 1);
	g = 0;
	if
	:: ok ->
		atomic { read_node(0); ok = (im.ex && im.st == SPLITTING && im.oth == 1) }
		if
		:: ok -> finish(0)
		:: else
		fi
	:: else
	fi;
	d_step { forget_image(); held[0] = 0 }
}

inline write(value, mark)
{
	do
	:: true ->
		search(2, true);
		d_step {
			ok = (node[c].ex && node[c].gen == g);
			if
			:: ok ->
				assert(node[c].row[KEY] == truth && node[c].purged >= purge);
				node[c].row[KEY] = value; truth = value;
				printf("%d writes %d to node %d\n", _pid, value, c);
				if
				:: mark > node[c].purged -> node[c].purged = mark
				:: else
				fi;
				purge = mark
			:: else
			fi;
			g = 0; c = 0; held[2] = 0
		}
		if
		:: ok -> ok = false; break
		:: else
		fi
	od;
	skip
}

proctype Writer()
{
	LOCALS;
	bool hit = false;
	byte n = 0;
	do
	:: n == ROUNDS -> break
	:: n < ROUNDS ->
		write(n + 1, n);
		write(0, n + 1);
		n++
	od
}

proctype Reader()
{
	LOCALS;
	bool hit = false;
	search(3, false);
	d_step { c = 0; g = 0; held[3] = 0 }
}

proctype Merger()
{
	LOCALS;
	bool hit = false;
#ifdef MUT_MERGE_BY_ID
	atomic { node[1].ex; c = 1; g = node[1].gen; held[4] = 1 }
#else
	search(4, true);
#endif
	if
	:: c != 0 ->
		d_step {
			ok = (node[c].ex && node[c].st == NORMAL && node[c].gen == g);
#ifndef MUT_DYING_NONEMPTY
			ok = ok && node[c].row[1] == 0 && node[c].row[2] == 0
#endif
			if
			:: ok -> lastgen++; node[c].gen = fresh_gen(c); node[c].st = DYING; printf("%d: node %d is dying\n", _pid, c)
			:: else
			fi
		}
		if
		:: ok ->
			atomic { read_node(c); ok = (im.ex && im.st == DYING) }
			if
			:: ok -> help_merge()
			:: else
			fi
		:: else
		fi
	:: else
	fi;
	d_step { forget_image(); c = 0; g = 0; held[4] = 0 }
}

/*
 * A signpost is deleted when the sessions that lived when it was unlinked are
 * dead; at most LATE of their processes go on nevertheless.
 */
proctype Collector()
{
	atomic {
		node[1].ex && node[1].st == DEAD && parent[1] != 1 &&
			held[0] + held[1] + held[2] + held[3] + held[4] <= LATE;
		gone[0] = held[0]; gone[1] = held[1]; gone[2] = held[2]; gone[3] = held[3]; gone[4] = held[4];
		linked = linked & 5		/* new sessions start with empty caches */
	}
	d_step {
		node[1].ex = 0; node[1].gen = 0; node[1].st = 0; node[1].low = 0; node[1].high = 0;
		node[1].right = NOBODY; node[1].oth = NOBODY; node[1].purged = 0; node[1].m = 0;
		printf("%d deletes node 1\n", _pid)
	}
}

init {
	atomic {
		tree_init();
		run Splitter(); run Helper(); run Writer(); run Reader(); run Merger(); run Collector()
	}
}
