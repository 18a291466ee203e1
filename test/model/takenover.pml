/*
 * takenover.pml: row locks that go with a leaf that is written anew, and come back when it is taken back.
 *
 * Modelled: an owner who has locked a row writes its leaf anew, which takes the lock over, and has an intent on another leaf; decides, and settles;
 * or, aborted by a helper who has met the intent, takes all back and tries again; or ends with an error, at any point, and lets go of his locks. The
 * reply of the decision, and what settles or takes back without being waited for, may be lost. His lease may run out at any moment. Another one wants the
 * row's lock, and meets the leaf; so does vacuum. Two attempts, and a transaction after them that lets go of what is left.
 *
 * Abstracted: a step on the leaf is one moment, since it compares the generation; that the record is read is another.
 *
 * Claims: while the owner lives, and his transaction has not ended, nobody else has the lock, and he meets no newer row; a commit is there, and one that was
 * aborted is not; at the end the leaf of a session that lives is not loading, and the other one
 * had the lock.
 *
 * run: ci
 * mutation: MUT_ABORTED_BY_ALL rule 56: who wants the lock settles a leaf of an aborted attempt whose session lives
 * mutation: MUT_VACUUM_ABORTED rule 56: vacuum does
 * mutation: MUT_NOT_PUT_BACK rule 52: what is taken back to try again comes without the lock
 * mutation: MUT_PUT_BACK_LATER rule 52: ... with the lock in a step of its own
 * mutation: MUT_GO_ON_IN_DOUBT rule 56: who does not know whether they are back tries again all the same
 * mutation: MUT_PUT_BACK_ENDED rule 56: a transaction that has ended puts the lock back
 * mutation: MUT_LET_GO_PAST rule 56: who lets go of his locks does not look at a leaf that is loading
 * mutation: MUT_LET_GO_UNASKED rule 56: ... takes it back without having asked how the attempt ended
 */
#define NONE		0
#define ABORTED		1
#define COMMITTED	2

#define NOBODY		0
#define OWNER		1
#define OTHER		2

byte record[3];					/* of attempts 1 and 2 */
byte gen = 1;
byte loader;					/* of which attempt it is loading; 0: it is packed */
byte claim;						/* whose lock is beside the block */
byte row;						/* versions */
byte intent;					/* of which attempt, on the other leaf */
bit dead;						/* the session, as the clock says */
bit holds;						/* the owner may rely on his lock */
bit decided, written;
bit over;						/* the owner's transactions */

inline settle(a, g, how, lock)
{
	d_step {
		if
		:: loader == a && gen == g ->
			loader = 0; gen++;
			claim = lock;
			row = row + (how == COMMITTED)
		:: else
		fi
	}
}

/* Sent, and not waited for. */
inline settle_perhaps(a, g, how)
{
	if
	:: settle(a, g, how, NOBODY)
	:: skip
	fi
}

inline abort(a, r)
{
	d_step {
		if
		:: record[a] == NONE -> record[a] = ABORTED
		:: else
		fi;
		r = record[a]
	}
}

inline let_go()
{
	d_step { a = loader; g = gen };
	if
#ifndef MUT_LET_GO_PAST
	:: a != 0 ->
#ifdef MUT_LET_GO_UNASKED
		r = ABORTED;
#else
		abort(a, r);
#endif
		settle(a, g, r, NOBODY)
#endif
	:: else
	fi;
	d_step {
		if
		:: claim == OWNER && loader == 0 -> claim = NOBODY
		:: else
		fi
	}
}

active proctype Owner()
{
	byte a, g, r, seen, n = 1;
	bit ok;

	d_step { claim == NOBODY && loader == 0 -> claim = OWNER; seen = row; holds = !dead };
again:
	/* the leaf, and the intent, in any order */
	if
	:: intent = n
	:: skip
	fi;
	d_step {
		ok = (claim == OWNER && loader == 0);
		assert(ok || dead);
		if
		:: ok ->
			assert(row == seen || dead);
			ok = (row == seen)
		:: else
		fi;
		if
		:: ok -> claim = NOBODY; loader = n; gen++; g = gen
		:: else
		fi
	}
	if
	:: !ok -> goto failed
	:: ok
	fi;
	if
	:: goto failed					/* an error, a cancel */
	:: intent = n
	:: skip
	fi;
	d_step {
		if
		:: record[n] == NONE && !dead -> record[n] = COMMITTED; decided = 1; holds = 0
		:: else
		fi;
		r = record[n]
	}
	if
	:: abort(n, r)					/* the reply was lost: he settles it */
	:: r != NONE
	:: r == NONE -> goto failed		/* the lease */
	fi;
	if
	:: r == COMMITTED ->
		settle_perhaps(n, g, COMMITTED);
		intent = 0
	:: r == ABORTED && n == 1 ->
#ifdef MUT_NOT_PUT_BACK
		settle(1, g, ABORTED, NOBODY);
#else
#ifdef MUT_PUT_BACK_LATER
		settle(1, g, ABORTED, NOBODY);
		if
		:: claim == NOBODY && loader == 0 -> claim = OWNER
		:: else
		fi;
#else
		if
		:: settle(1, g, ABORTED, OWNER); ok = 1
		:: ok = 0					/* no answer in time, and perhaps not done */
		fi;
#endif
#endif
		intent = 0;
#ifndef MUT_GO_ON_IN_DOUBT
		if
		:: !ok -> goto failed
		:: ok
		fi;
#endif
		n = 2;
		goto again
	:: else -> goto failed
	fi;
	goto next;
failed:
	holds = 0;
#ifdef MUT_PUT_BACK_ENDED
	settle(n, g, ABORTED, OWNER);
	goto ended;
#endif
	settle_perhaps(n, g, ABORTED);
next:
	/* at the end of this transaction, or of the next one; if that fails he leaves his id */
	if
	:: let_go()
	:: dead = 1
	fi;
ended:
	holds = 0;
	over = 1
}

active proctype Lease()
{
	if
	:: d_step { dead = 1; holds = 0 }
	:: over
	fi
}

active proctype Helper()
{
	byte a, r;

	do
	:: d_step { intent != 0 -> a = intent };
		abort(a, r);				/* its time is over */
		if
		:: r == ABORTED -> d_step { if :: intent == a -> intent = 0 :: else fi }
		:: else
		fi;
		break
	:: over -> break
	od
}

active proctype Vacuum()
{
	byte a, g, r;

	do
	:: d_step { loader != 0 -> a = loader; g = gen };
		r = record[a];
		if
		:: r == COMMITTED -> settle(a, g, COMMITTED, NOBODY)
#ifdef MUT_VACUUM_ABORTED
		:: r == ABORTED -> settle(a, g, ABORTED, NOBODY)
#else
		:: r == ABORTED && dead -> settle(a, g, ABORTED, NOBODY)
#endif
		:: else
		fi;
		break
	:: over -> break
	od
}

active proctype Other()
{
	byte a, g, r;

	do
	:: d_step { loader != 0 -> a = loader; g = gen };
		r = record[a];
		if
		:: r == NONE && dead -> abort(a, r)
		:: else
		fi;
		if
		:: r == COMMITTED -> settle(a, g, COMMITTED, NOBODY)
#ifdef MUT_ABORTED_BY_ALL
		:: r == ABORTED -> settle(a, g, ABORTED, NOBODY)
#else
		:: r == ABORTED && dead -> settle(a, g, ABORTED, NOBODY)
#endif
		:: else
		fi
	:: claim == OWNER && dead -> d_step { if :: claim == OWNER -> claim = NOBODY :: else fi }
	:: d_step {
			loader == 0 && claim == NOBODY ->
			assert(!holds);
			claim = OTHER
		}
		d_step { row = row + 1; claim = NOBODY; written = 1 };
		break
	od
}

active proctype End()
{
	timeout;
	/* what the dead have left is there until somebody comes */
	assert(written && (dead || (loader == 0 && claim == NOBODY)));
	assert(row + (loader != 0 && record[loader] == COMMITTED) == written + decided)
}
