/*
 * parents.pml: an inner node is split, linked, merged, while primaries are replaced and old ones
 * go on answering, durability `replicated`.
 *
 * Modelled: inner nodes X -> Z of one level, and their parent P.  A splitter cuts X, whose right part
 * becomes Y: X -> Y -> Z; its step may be lost in a failover and be sent again, once.  Somebody else
 * changes X.  A finder goes by the right link of X: he links what he finds in P (a search for rows
 * does so), or merges Z into it.  A maintainer merges Y into X, unlinks it, and deletes it.  X fails over, to
 * what its replica has; the old primary goes on answering reads until it hears of that.
 *
 * Abstracted: Y, Z and P have their copies at once; their steps compare generations, as in
 * merge.pml.  A step at an old primary is one that the failover after it takes back.
 *
 * Claims: what P leads to is part of its level, or a signpost, and what is deleted is linked by
 * nobody; no range is lost: the node that X leads to lives.
 *
 * run: ci -DFAILOVERS=1
 * run: deep -DFAILOVERS=2
 * mutation: MUT_LINK_UNSEEN rule 18: who links a node looks at its left neighbour without its copies
 * mutation: MUT_GO_RIGHT rule 18: who merges goes right from a node that has no copies yet
 */
#define NONE 0
#define NORMAL 1
#define DYING 2
#define DEAD 3
#define DELETED 4

byte lastgen = 1;
byte gen = 1, copied_gen = 1, old_gen;	/* of X: at its primary, at the replica, at an old primary */
bit split, copied_split, old_split;		/* X ends where Y begins, and leads to it */
bit old;								/* an old primary answers */
byte epoch;
byte y = NONE;
bit has_z;								/* Y has absorbed Z */
byte z = NORMAL;
bit link;								/* P leads to Y */
byte pgen;

/* In every state. */
inline claims()
{
	assert(!(link && y == NORMAL && !split));
	assert(!(link && y == DELETED));
	assert(z == NORMAL || (split && has_z));
	assert(!split || y == NORMAL || y == DYING)
}

/* What was written in epoch e has its copies; false if a failover took it back. */
inline wait_for(e, ok)
{
	d_step {
		ok = (epoch == e);
		if
		:: ok -> copied_gen = gen; copied_split = split
		:: else
		fi
	}
}

/* X, by whoever answers. */
inline read_x(g, s)
{
	if
	:: d_step { g = gen; s = split }
	:: d_step { old -> g = old_gen; s = old_split }
	fi
}

/* X with its copies: only its primary has any. */
inline look_x(g, s, e, ok)
{
	d_step { g = gen; s = split; e = epoch };
	wait_for(e, ok)
}

inline step_x(g, new, s, e, ok)
{
	d_step {
		ok = (gen == g);
		if
		:: ok -> gen = new; split = s
		:: else
		fi;
		e = epoch
	}
}

proctype Splitter()
{
	byte g = 0, mine = 0, e = 0;
	bit ok = 0, again = 0;

	d_step { g = gen; lastgen++; mine = lastgen };
	/* created, with its copies; a node that nobody knows */
	d_step { y = NORMAL };
	do
	:: true ->
		step_x(g, mine, 1, e, ok);
		if
		:: !ok -> break
		:: else
		fi;
		wait_for(e, ok);
		if
		:: ok || again -> break
		:: else -> again = 1
		fi
	od
}

/* Another separator in X. */
proctype Other()
{
	byte g = 0, mine = 0, e = 0;
	bit s = 0, ok = 0;

	d_step { g = gen; s = split; lastgen++; mine = lastgen };
	step_x(g, mine, s, e, ok);
	if
	:: ok -> wait_for(e, ok)
	:: else
	fi
}

proctype Finder()
{
	byte g = 0, e = 0, p = 0;
	bit s = 0, ok = 0;

	read_x(g, s);
	if
	:: !s -> goto done
	:: else
	fi;
	if
	:: true ->					/* link it */
		p = pgen;
#ifdef MUT_LINK_UNSEEN
		read_x(g, s);
		ok = true;
#else
		look_x(g, s, e, ok);
#endif
		d_step {
			if
			:: ok && s && pgen == p -> link = 1; pgen++
			:: else
			fi
		}
	:: true ->					/* merge what comes next into it */
#ifndef MUT_GO_RIGHT
		look_x(g, s, e, ok);
		if
		:: !ok || !s -> goto done
		:: else
		fi;
#endif
		/* Z is dying, which serves nobody, and stays in place */
		d_step {
			ok = (y == NORMAL);
			if
			:: ok -> has_z = 1
			:: else
			fi
		};
		if
		:: ok -> z = DEAD
		:: else
		fi
	fi;
done:
	skip;
	d_step { g = 0; e = 0; p = 0; s = 0; ok = 0 }
}

/* Y, as long as it leads to Z, goes into X. */
proctype Maintainer()
{
	byte g = 0, mine = 0, e = 0, tries = 0;
	bit s = 0, ok = 0;

	look_x(g, s, e, ok);
	if
	:: !ok || !s -> goto done
	:: else
	fi;
	d_step {
		ok = (y == NORMAL && !has_z);
		if
		:: ok -> y = DYING
		:: else
		fi
	};
	if
	:: !ok -> goto done
	:: else
	fi;
	do
	:: tries == 2 -> goto done	/* it dies */
	:: tries < 2 ->
		tries++;
		look_x(g, s, e, ok);
		if
		:: ok && !s -> break	/* absorbed */
		:: ok && s ->
			d_step { lastgen++; mine = lastgen };
			step_x(g, mine, 0, e, ok);
			if
			:: ok -> wait_for(e, ok)
			:: else
			fi;
			if
			:: ok -> break
			:: else
			fi
		:: else
		fi
	od;
	y = DEAD;
	d_step { link = 0; pgen++ };
	y = DELETED;
done:
	skip;
	d_step { g = 0; mine = 0; e = 0; s = 0; ok = 0; tries = 0 }
}

proctype Failover()
{
	byte n = 0;

	do
	:: n < FAILOVERS ->
		atomic {
			if
			:: copied_gen = gen; copied_split = split
			:: skip
			fi;
			old = 1; old_gen = gen; old_split = split;
			gen = copied_gen; split = copied_split;
			epoch++;
			n++
		}
	:: true -> d_step { old = 0; old_gen = 0; old_split = 0 }; break
	od
}

proctype Watch()
{
	atomic { !(!(link && y == NORMAL && !split) && !(link && y == DELETED) && (z == NORMAL || (split && has_z)) &&
			   (!split || y == NORMAL || y == DYING)) -> claims() }
}

init {
	atomic { run Splitter(); run Other(); run Finder(); run Maintainer(); run Failover(); run Watch() }
}
