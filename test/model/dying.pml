/*
 * dying.pml: a leaf that is emptied is merged away while its primary fails over, durability `replicated`.
 *
 * Modelled: an empty leaf R.  Who begins marks it dying, in a step that compares generation and emptiness;
 * a row comes and goes, and leaves a purge mark, which does not change the generation.  Two helpers,
 * of which one may be who began, read R dying, confirm that with its copies, hand its purge mark on to the left neighbour, and mark it dead.
 * R fails over to what its replica has; the old primary goes on answering reads.
 *
 * Abstracted: the left neighbour has its copies at once.
 *
 * Claim: when R is dead its left neighbour has its purge mark.
 *
 * run: ci -DFAILOVERS=1
 * run: deep -DFAILOVERS=2
 * mutation: MUT_DYING_AGAIN rule 19: a step that was lost is sent again under the generation that it had
 * mutation: MUT_NW_DYING rule 18: a helper does not touch what somebody else marked dying
 */
#define NORMAL 0
#define DYING 1
#define DEAD 2

typedef Leaf { byte gen, st, purged; bit row }

Leaf r, copied, old;
bit answers;					/* the old primary */
byte epoch, lastgen;
byte left_purged;				/* of the left neighbour */

inline copy_leaf(a, b)
{
	a.gen = b.gen; a.st = b.st; a.purged = b.purged; a.row = b.row
}

inline wait_for(e, ok)
{
	d_step {
		ok = (epoch == e);
		if
		:: ok -> copy_leaf(copied, r)
		:: else
		fi
	}
}

inline begin(g, mine, e, ok)
{
	d_step {
		ok = (r.gen == g && r.st == NORMAL && !r.row);
		if
		:: ok -> r.gen = mine; r.st = DYING
		:: else
		fi;
		e = epoch
	}
}

proctype Beginner()
{
	byte g = 0, mine = 0, e = 0;
	bit ok = 0;

	d_step { r.st == NORMAL -> g = r.gen; lastgen++; mine = lastgen };
	begin(g, mine, e, ok);
	if
	:: ok ->
		wait_for(e, ok);
#ifdef MUT_DYING_AGAIN
		if
		:: !ok -> begin(g, mine, e, ok); wait_for(e, ok)
		:: else
		fi;
#endif
	:: else
	fi;
	d_step { g = 0; mine = 0; e = 0; ok = 0 }
}

/* A row, its deletion, and vacuum. */
proctype Writer()
{
	byte g = 0, e = 0;
	bit ok = 0;

	g = r.gen;
	d_step { ok = (r.gen == g && r.st == NORMAL); if :: ok -> r.row = 1 :: else fi; e = epoch };
	if
	:: ok -> wait_for(e, ok)
	:: else
	fi;
	if
	:: ok ->
		d_step { if :: r.gen == g && r.st == NORMAL && r.row -> r.row = 0; r.purged = r.purged + 1 :: else fi; e = epoch };
		wait_for(e, ok)
	:: else
	fi;
	d_step { g = 0; e = 0; ok = 0 }
}

proctype Helper()
{
	byte g = 0, p = 0, e = 0;
	bit ok = 0;

	if
	:: atomic { r.st == DYING -> g = r.gen; p = r.purged }
	:: atomic { answers && old.st == DYING -> g = old.gen; p = old.purged }
	fi;
#ifndef MUT_NW_DYING
	d_step { ok = (r.gen == g); e = epoch };
	if
	:: ok -> wait_for(e, ok)
	:: else
	fi;
	if
	:: !ok -> goto done
	:: else
	fi;
#endif
	d_step {
		if
		:: left_purged < p -> left_purged = p
		:: else
		fi
	};
	assert(r.st != NORMAL);		/* the left neighbour serves the range now */
	d_step {
		if
		:: r.gen == g -> lastgen++; r.gen = lastgen; r.st = DEAD; assert(left_purged >= r.purged)
		:: else
		fi;
		e = epoch
	};
	wait_for(e, ok);
done:
	skip;
	d_step { g = 0; p = 0; e = 0; ok = 0 }
}

proctype Failover()
{
	byte n = 0;

	do
	:: n < FAILOVERS ->
		atomic {
			if
			:: copy_leaf(copied, r)
			:: skip
			fi;
			copy_leaf(old, r);
			answers = 1;
			copy_leaf(r, copied);
			epoch++;
			n++
		}
	:: true -> d_step { answers = 0; old.gen = 0; old.st = 0; old.purged = 0; old.row = 0 }; break
	od
}

init {
	atomic {
		run Beginner(); run Beginner(); run Writer(); run Helper(); run Helper(); run Failover()
	}
}
