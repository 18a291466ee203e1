/*
 * dropped.pml: the leaves of a tree that a commit has dropped stay for a while, and whoever knows
 * the way to them reads without asking anybody (docs/commit.md, "Dropped trees"; rules 39 to 41).
 *
 * Modelled: time, which passes between any two steps; a committer that decides (the definition does not
 * name the tree any more, the record names it), kills the root, perhaps destroys what there is, else
 * puts the tree on the clock's list and lets the record go, waits, and tells its client; a reader of the
 * latest state, who knows the schema version that it has heard last and when it asked for it, asks
 * again where a statement begins and that is too long ago, and reads a leaf by what it has cached; two rounds of maintenance: dead committers' records, then the
 * list.  Committer and the first maintenance may stop for any time, or for good, anywhere.  FORGETS: the server with the
 * definitions comes back as it was before the commit; connections to it break.  TOLD: the reader never asks by itself: each
 * read of a leaf brings the version, of then or later, and counts only if it is the one that it knows (rule 45); beside it somebody
 * writes, once the definition has changed, what only who knows that can read.  SOME_TOLD: only its first read is told, and the age of its word counts
 * from when that was asked for.  FALLS: the clock's server comes back as it was before the commit, and tells the version of then until a step asks
 * it, for which it leaps; connections to it break, which the reader sees who has asked by a step before.  TOLD goes without maintenance.  ATTACHES: when the committer is dead, and
 * nobody finishes its record any more, somebody gives the tree its name again, by a transaction that commits any time later.
 *
 * Abstracted: the tree is one leaf and its root, whose killing changes nothing for who has cached the
 * way; snapshots are drawn with the version, in one step (snapshot.pml), and read the old tree where they are older; the version
 * is of this table alone; a reader who learns that it has moved fails, or begins anew.  Who has the job lives.
 *
 * Claims: whoever begins to read after the client was told that the tree is dropped does not get its
 * rows; who goes by the old definition does not read what was written by the new one (TOLD); what maintenance destroys no definition names; after the last round of maintenance nothing
 * is left.
 *
 * run: ci
 * run: ci -DFORGETS
 * run: ci -DATTACHES
 * run: ci -DTOLD
 * run: ci -DTOLD -DSOME_TOLD
 * run: ci -DTOLD -DFALLS
 * run: ci -DTOLD -DSOME_TOLD -DFALLS
 * mutation: MUT_NO_WAIT rule 39: the client is told before the others have to ask
 * mutation: MUT_ONCE rule 39: only a transaction's first statement looks how old its word of the version is
 * mutation: MUT_HEARD_LATE rule 39: the age counts from the answer
 * mutation: MUT_WAIT_EARLY rule 39: the wait counts from before the decision
 * mutation: MUT_NOT_COMPARED -DTOLD rule 45: the version that comes with a leaf is not compared
 * mutation: MUT_TOLD_ONCE -DTOLD rule 45: only a transaction's first read brings the version
 * mutation: MUT_TOLD_FIRST -DTOLD rule 45: the version is of before the leaf
 * mutation: MUT_TOLD_LATE -DTOLD -DSOME_TOLD rule 45: the age counts from when the answer came
 * mutation: MUT_TOLD_UNBROKEN -DTOLD -DSOME_TOLD -DFALLS rule 45: who was told forgets which connections broke before
 * mutation: MUT_DROP_FIRST rule 40: the record goes before the tree is on the list
 * mutation: MUT_REAP_FIRST rule 40: maintenance takes the record away before the tree is on the list
 * mutation: MUT_UNLIST_FIRST rule 40: the tree is taken off the list before it is destroyed
 * mutation: MUT_NO_LOOK -DFORGETS rule 41: trees on the list are destroyed whoever names them
 * mutation: MUT_NO_FENCE -DFORGETS rule 41: connections that broke since it looked do not count
 * mutation: MUT_ATTACH_BESIDE -DATTACHES rule 41: who attaches does so while others read the list and kill
 * mutation: MUT_STAYS_LISTED -DATTACHES rule 41: what is attached stays on the list
 * mutation: MUT_ATTACH_DEAD -DATTACHES rule 41: who attaches does not look whether the root is alive
 */
#define FRESH	2				/* ticks */
#define END		6

byte now;
bit moved;						/* the schema version */
bit named = 1;					/* the definition names the old tree */
bit leaf = 1;					/* it is there, with its rows */
bit newer;						/* some are written by the new definition (where the tree stays) */
bit record, listed;
bit alive = 1;					/* the root */
bit job;						/* somebody reads the list and kills, or attaches */
byte finished;					/* how many rounds of maintenance have done with records */
bit taken;						/* off the list, by who attaches */
bit ended, dead;				/* the committer */
bit told;						/* its client, that it is committed */
byte breaks;
bit fallen;						/* the clock, to before the commit, and no step has asked it since */

proctype Time()
{
	do
	:: d_step { now < END -> now++ }
	:: now == END -> break
	od
}

proctype Committer()
{
	byte since = 0;

#ifdef MUT_WAIT_EARLY
	d_step { since = now };
#endif
	d_step { moved = 1; named = 0; record = 1; printf("decided at %d\n", now) }
#ifndef MUT_WAIT_EARLY
	d_step { since = now };
#endif
	if
	:: goto gone
	:: true
	fi;
#ifdef MUT_DROP_FIRST
	d_step { record = 0 };
	if
	:: goto gone
	:: true
	fi;
#endif
	if
	:: d_step { alive = 0; leaf = 0; printf("all is destroyed at once\n") }
	:: d_step { listed = 1; printf("listed\n") }
	fi;
	if
	:: goto gone
	:: true
	fi;
#ifndef MUT_DROP_FIRST
	d_step { record = 0 };
#endif
#ifndef MUT_NO_WAIT
	(!leaf || now - since > FRESH);
#endif
	d_step { told = 1; printf("told at %d\n", now) }
	goto done;
gone:
	skip;
	d_step { dead = 1; printf("the committer dies\n") }
done:
	ended = 1
}

/* A leaf, and the version of then or later. */
inline read_told()
{
#ifdef MUT_TOLD_FIRST
	d_step { version = moved && !fallen };
	d_step { found = leaf; written = newer }
#else
	d_step { sent = now; found = leaf; written = newer }
#ifdef MUT_TOLD_ONCE
	if
	:: times == 1 -> d_step { version = moved && !fallen }
	:: else
	fi;
#else
	d_step { version = moved && !fallen }
#endif
#endif
	d_step {
#ifdef MUT_TOLD_UNBROKEN
		touched = breaks;
#endif
		if
#ifndef MUT_NOT_COMPARED
		:: version != known || touched != breaks -> known = 1; found = 0; written = 0
#endif
#ifdef MUT_TOLD_LATE
		:: else -> heard = now
#else
		:: else -> heard = sent
#endif
		fi;
		sent = 0
	}
	d_step { assert(!written && (!found || !was_told)) }
}

/* Two statements of a transaction: each begins after the client has sent it. */
proctype Reader()
{
	bit version = 0, written = 0;
	byte touched = 0;
	byte heard = 0, sent = 0, times = 0;
	bit known = 0, was_told = 0, found = 0;

	do
	:: times < 2 ->
		d_step { was_told = told; times++; found = 0 }
#ifdef TOLD
		if
#ifdef SOME_TOLD
		:: times > 1 -> skip
#endif
		:: else ->
			read_told();
			if
			:: known -> break
			:: else -> goto read
			fi
		fi;
#endif
		if
#ifdef MUT_ONCE
		:: now - heard > FRESH && times == 1 ->
#else
		:: now - heard > FRESH || touched != breaks ->
#endif
			d_step { sent = now };
			d_step { known = moved; touched = breaks; fallen = 0 };
#ifdef MUT_HEARD_LATE
			d_step { heard = now }
#else
			d_step { heard = sent }
#endif
		:: else
		fi;
		if
		:: known -> break		/* it knows the new tree */
		:: else
		fi;
		d_step { found = leaf; printf("reads at %d: %d\n", now, found) }
		d_step {
			assert(!found || !was_told || touched != breaks);
			sent = 0
		}
read:
		skip
	:: else -> break
	od
}

proctype Faller()
{
#ifdef FALLS
	d_step { moved -> fallen = 1; breaks++; printf("the clock is as before\n") }
#endif
	skip
}

proctype Writer()
{
#ifdef TOLD
	d_step { moved -> newer = 1 }
#endif
	skip
}

inline finish_record()
{
	if
	:: dead && record ->
#ifdef MUT_REAP_FIRST
		d_step { record = 0 };
		d_step { listed = 1 }
#else
		d_step { listed = 1; printf("listed by maintenance\n") }
		d_step { record = 0 }
#endif
	:: else
	fi;
	d_step { finished++ }
}

inline finish_list()
{
	d_step { !job -> job = 1 };
	if
	:: listed ->
		d_step { fence = breaks };
#ifdef MUT_NO_LOOK
		d_step { names = 0 };
#else
		d_step { names = named };
#endif
		if
		:: !names -> kill()
		:: else
		fi
	:: else
	fi;
	d_step { job = 0 };
	if
	:: killed -> destroy()
	:: else
	fi
}

inline kill()
{
	d_step {
		if
#ifndef MUT_NO_FENCE
		:: fence != breaks -> skip
#endif
		:: else -> alive = 0; killed = 1; printf("killed\n")
		fi
	}
}

inline destroy()
{
#ifdef MUT_UNLIST_FIRST
	d_step { listed = 0 };
#endif
	d_step {
		if
#ifndef MUT_NO_FENCE
		:: fence != breaks -> skip
#endif
		:: else ->
			assert(!named);
			leaf = 0;
			printf("destroyed\n")
		fi
	}
#ifndef MUT_UNLIST_FIRST
	d_step {
		if
		:: !leaf -> listed = 0
		:: else
		fi
	}
#endif
}

proctype Attacher()
{
#ifdef ATTACHES
	bit there = 0;

	dead && !record && finished == 2;
#ifndef MUT_ATTACH_BESIDE
	d_step { !job -> job = 1 };
#endif
#ifdef MUT_ATTACH_DEAD
	d_step { there = 1 };
#else
	d_step { there = alive };
#endif
	if
	:: there ->
#ifndef MUT_STAYS_LISTED
		d_step { listed = 0 };
#endif
		d_step { taken = 1; printf("to be attached\n") }
	:: else
	fi;
#ifndef MUT_ATTACH_BESIDE
	d_step { job = 0 };
#endif
	if
	:: there -> d_step { named = 1; printf("attached\n"); assert(alive && leaf) }
	:: else
	fi;
#endif
	skip
}

proctype Maintenance()
{
	bit names = 0, killed = 0;
	byte fence = 0;

	finish_record();
	finish_list()
}

/* When all has ended. */
proctype LastMaintenance()
{
	bit names = 0, killed = 0;
	byte fence = 0;

	ended;
	finish_record();
	finish_list();
	assert(!leaf || named || taken || breaks > 0)
}

proctype Forgetter()
{
#ifdef FORGETS
	d_step { moved && leaf -> named = 1; breaks++; printf("the definitions are as before\n") }
#endif
	skip
}

init {
	atomic {
		run Time(); run Committer(); run Reader(); run Forgetter(); run Attacher(); run Writer(); run Faller();
#ifndef TOLD
		run Maintenance(); run LastMaintenance()
#endif
	}
}
