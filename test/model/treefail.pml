/*
 * treefail.pml: splits under failovers, durability `replicated`.
 *
 * Modelled: three leaves, each with a replica that lags; two splitters that
 * freeze the same leaf at different keys, a writer and a reader of the key that
 * both splits move, each of them a helper where it meets a leaf in the middle of
 * a split; a failover takes a node back to what its replica has, at any moment.
 * WAIT copies a node to its replica, and fails if the node failed over since the
 * write it follows.  A stale path may lead to any leaf that was ever linked.
 *
 * Abstracted: a transaction is one durable write of a row (what intents do in a
 * split shows split.pml; decisions and failovers failover.pml).  Reads are one
 * step.  Every message arrives; a process that is not scheduled for long, or never
 * again, stands for late messages and crashes.
 *
 * Claims: a reader, and at last everybody, finds every acknowledged write.  The
 * rule in place of an embryo state: a leaf that is being split serves only the
 * keys below its split key; readers, too, finish the split.
 *
 * Scope: 2 splits, WRITES acknowledged writes, FAILOVERS failovers, READS reads one after the other (1).
 *
 * run: ci -DWRITES=1 -DFAILOVERS=1
 * run: deep -DWRITES=2 -DFAILOVERS=2
 * mutation: MUT_NW_FREEZE rule 17: the new leaf is created before the freeze is replicated
 * mutation: MUT_NW_TOUCH rule 18: a helper does not touch the frozen leaf that somebody else wrote
 * mutation: MUT_NW_CREATE rule 17: the leaf is cut before the new one is replicated
 * mutation: MUT_NW_EXISTS rule 18: a helper that finds the new leaf there does not touch it before the cut
 * mutation: MUT_SERVE_FROZEN rule 20: readers read all keys of a leaf that is being split
 * mutation: MUT_FREEZE_AGAIN -DWRITES=1 -DFAILOVERS=1 -DREADS=2 rule 19: a freeze that was lost is sent again under the generation that it had
 * mutation: MUT_GEN_FORK rule 19: generations are counted, and steps compare nothing else
 */
#define FAILOVER
#ifdef MUT_GEN_FORK
#define COUNTED_GEN
#endif
#include "tree.inc"

byte acked;						/* what a client was told is in key 2 */

/* Finish the split of the leaf that im shows, as splitter or helper. */
inline finish()
{
	/* touch: only what this client wrote is covered by its WAIT */
	d_step {
		ok = (node[at].ex && node[at].st == SPLITTING && node[at].gen == im.gen);
#ifndef MUT_GEN_FORK
		ok = ok && node[at].m == im.m && node[at].oth == im.oth;
#endif
		e = EPOCH(at)
	}
#ifdef MUT_NW_TOUCH
	ok = true;
#else
#ifndef MUT_NW_FREEZE
	if
	:: ok -> wait_for(at, e, ok)
	:: else
	fi;
#endif
#endif
	if
	:: ok ->
		create(im.oth);
#ifdef MUT_NW_EXISTS
		if
		:: ok -> wait_for(im.oth, e, ok)
		:: else -> ok = true
		fi;
#else
#ifdef MUT_NW_CREATE
		ok = true;
#else
		/* where it existed, a touch; where it vanished meanwhile, all anew */
		d_step { ok = node[im.oth].ex; e = EPOCH(im.oth) }
		if
		:: ok -> wait_for(im.oth, e, ok)
		:: else
		fi;
#endif
#endif
		if
		:: ok ->
			cut_node(at);
			if
			:: cut -> link_node(im.m, im.oth)
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

/*
 * The leaf that serves k: c, its generation g; v: the row there.  frozen: whether
 * the frozen part of a leaf counts as served.
 */
inline search(k, v, frozen)
{
	start_search(k);
	do
	:: true ->
		atomic {
			fin = false; hit = false;
			if
			:: !node[c].ex || k < node[c].low -> assert(c != 0); c = 0
			:: node[c].ex && k >= node[c].low && k >= node[c].high ->
				c = node[c].right; assert(c != NOBODY && node[c].ex)
			:: node[c].ex && k >= node[c].low && k < node[c].high ->
				if
				:: node[c].st == SPLITTING && k >= node[c].m && !frozen -> read_node(c); fin = true
				:: else -> g = node[c].gen; v = node[c].row[k]; hit = true
				fi
			fi
		}
		if
		:: hit -> hit = false; break
		:: fin -> fin = false; finish(); d_step { forget_image(); g = 0 }
		:: else
		fi
	od;
	skip
}

#ifdef MUT_FREEZE_AGAIN
inline freeze_again(x, g0, g1, m0, r)
{
	d_step {
		ok = (node[x].ex && node[x].st == NORMAL && node[x].gen == g0);
		if
		:: ok -> node[x].gen = g1; node[x].st = SPLITTING; node[x].m = m0; node[x].oth = r
		:: else
		fi;
		e = EPOCH(x)
	}
}
#endif

proctype Splitter(byte m0; byte r)
{
	LOCALS;
	atomic {
		node[0].st == NORMAL && m0 < node[0].high;
		g = node[0].gen
	}
#ifdef MUT_FREEZE_AGAIN
	byte mine = 0;
	d_step {
		freeze(0, g, m0, r);
		if
		:: ok -> mine = lastgen
		:: else
		fi
	}
#else
	freeze(0, g, m0, r);
#endif
#ifndef MUT_NW_FREEZE
	if
	:: ok -> wait_for(0, e, ok)
	:: else
	fi;
#endif
#ifdef MUT_FREEZE_AGAIN
	if
	:: mine != 0 && !ok -> freeze_again(0, g, mine, m0, r); wait_for(0, e, ok)
	:: else
	fi;
	mine = 0;
#endif
	if
	:: ok ->
		atomic { read_node(0); ok = im.ex && im.st == SPLITTING && im.oth == r }
		if
		:: ok -> finish()
		:: else
		fi
	:: else
	fi;
	d_step { forget_image(); g = 0 }
}

/* Raises key 2 by one, and is told so when the replica has it. */
proctype Writer()
{
	LOCALS;
	bool hit = false, fin = false;
	byte v = 0, n = 0;
	do
	:: n == WRITES -> break
	:: else ->
		search(2, v, false);
		d_step {
			ok = node[c].ex && node[c].gen == g;
			if
			:: ok -> node[c].row[2] = n + 1
			:: else
			fi;
			e = EPOCH(c)
		}
		if
		:: ok -> wait_for(c, e, ok)
		:: else
		fi;
		if
		:: ok -> d_step { n++; acked = n; g = 0; e = 0; c = 0; v = 0; ok = false }
		:: else -> d_step { g = 0; e = 0; c = 0; v = 0 }
		fi
	od
}

proctype Reader()
{
	LOCALS;
	bool hit = false, fin = false;
	byte v = 0, floor = 0;
#ifdef READS
	byte again = READS;
again_from_here:
#endif
	floor = acked;
#ifdef MUT_SERVE_FROZEN
	search(2, v, true);
#else
	search(2, v, false);
#endif
	assert(v >= floor);
	d_step { v = 0; floor = 0; c = 0; g = 0 }
#ifdef READS
	again--;
	if
	:: again > 0 -> goto again_from_here
	:: else
	fi
#endif
}

/* What the replica will have is settled now, or earlier; then it takes over. */
proctype Failover()
{
	byte x, n;
	do
	:: n == FAILOVERS -> break
	:: n < FAILOVERS ->
		atomic {
			select(x : 0 .. 2);
			if
			:: node[x].ex -> copy_node(replica[x], node[x])
			:: skip
			fi
		}
		d_step {
			copy_node(node[x], replica[x]);
			epoch[x]++;
			n++;
			x = 0
		}
	od
}

init {
	atomic {
		tree_init();
		copy_node(replica[0], node[0]);
		run Splitter(1, 1); run Splitter(2, 2); run Writer(); run Reader(); run Failover()
	}
}
