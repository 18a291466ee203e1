/*
 * grown.pml: a root grows, and a signpost is unlinked, while primaries are replaced and old ones
 * go on answering, durability `replicated`.
 *
 * Modelled: a root that leads to a signpost R itself, until one of two growers takes what it leads to into a node
 * M of its own (1 or 2), which the root leads to from then on.  The sweep takes R out of what leads to it, and
 * deletes it; it begins anew, some times, when it fails.  The root fails over, to what its replica has; the old
 * primary goes on answering reads until it hears of that.
 *
 * Abstracted: M and R have their copies at once; M is one of two as long as the root is one that has grown by it.
 *
 * Claims: nothing leads to R when it is deleted, in whatever the root is then.
 *
 * run: ci -DFAILOVERS=2
 * mutation: MUT_GO_DOWN rule 18: the sweep goes down from a root that has no copies yet
 */
typedef Root {
	byte gen;
	byte grown;						/* by which grower; 0: it leads to what is below itself */
	bit link						/* to R, if it has not grown */
};

byte lastgen = 1;
Root root, copied, past;			/* at its primary, at the replica, at an old primary */
bit old;							/* an old primary answers */
byte epoch;
bit link[3];						/* does M lead to R? */
bit deleted;

inline copy_root(to, from)
{
	to.gen = from.gen; to.grown = from.grown; to.link = from.link
}

/* By whoever answers. */
inline read_root(to)
{
	if
	:: d_step { copy_root(to, root) }
	:: d_step { old -> copy_root(to, past) }
	fi
}

/* What was written in epoch e has its copies; false if a failover took it back. */
inline wait_for(e, ok)
{
	d_step {
		ok = (epoch == e);
		if
		:: ok -> copy_root(copied, root)
		:: else
		fi
	}
}

proctype Grower(byte me)
{
	Root seen;
	byte mine = 0, e = 0;
	bit ok = 0;

	read_root(seen);
	if
	:: seen.grown == 0 ->
		d_step { link[me] = seen.link; lastgen++; mine = lastgen };
		d_step {
			ok = (root.gen == seen.gen);
			if
			:: ok -> root.gen = mine; root.grown = me
			:: else
			fi;
			e = epoch
		};
		if
		:: ok -> wait_for(e, ok)
		:: else
		fi
	:: else
	fi
}

proctype Sweep()
{
	Root seen;
	byte mine = 0, e = 0, tries = 0;
	bit ok = 0;

	do
	:: tries == 3 -> goto done
	:: tries < 3 ->
		tries++;
#ifdef MUT_GO_DOWN
		read_root(seen);
		ok = true;
#else
		d_step { copy_root(seen, root); e = epoch };
		wait_for(e, ok);
#endif
		if
		:: ok && seen.grown != 0 -> d_step { link[seen.grown] = 0 }; break
		:: ok && seen.grown == 0 ->
			d_step {
				ok = (root.gen == seen.gen);
				if
				:: ok -> lastgen++; root.gen = lastgen; root.link = 0
				:: else
				fi;
				e = epoch
			};
			if
			:: ok -> wait_for(e, ok)
			:: else
			fi;
			if
			:: ok -> break
			:: else
			fi
		:: !ok
		fi
	od;
	deleted = 1;
done:
	skip
}

proctype Failover()
{
	byte n = 0;

	do
	:: n < FAILOVERS ->
		atomic {
			if
			:: copy_root(copied, root)
			:: skip
			fi;
			old = 1; copy_root(past, root);
			copy_root(root, copied);
			epoch++;
			n++
		}
	:: true -> old = 0; break
	od
}

/* In every state. */
proctype Watch()
{
	atomic { deleted && (root.grown == 0 -> root.link : link[root.grown]) -> assert(false) }
}

init {
	atomic {
		root.gen = 1; root.link = 1;
		copy_root(copied, root);
		run Grower(1); run Grower(2); run Sweep(); run Failover(); run Watch()
	}
}
