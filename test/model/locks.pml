/*
 * locks.pml: a row that is locked, waited for, written and let go.
 *
 * Modelled: three transactions at one row.  Transaction 0 is pessimistic and writes: it
 * locks the row exclusively, reads it, and commits by an intent on it (prepare, decide,
 * apply), perhaps refused once by the clock, so that it prepares again.  Transaction 1 is
 * the same, or (SHARE) locks the row shared and writes elsewhere.  Transaction 2 is
 * optimistic: it read the row without a lock, and locks it at commit only if somebody is
 * in its way; or (PESSIMISTS) it is like 0; SHARERS: 1 and 2 lock it shared.  Who must wait is queued in the row's step; who
 * frees the row gives it to whoever is next, in the same step, and leaves it a message on
 * the node where the row is.  SPLIT: the row moves to another node at any time.  DEAD: one
 * of them dies, its lease ends.  FAILOVER: the row's node forgets one lock or one waiter,
 * or one lock is there again that was let go; not one that an intent rests on (commits that
 * lose intents are failover.pml).  CANCEL: who waits may give up.  LOOK, with the last
 * three: who waits looks now and then, and clears away whose session is dead for good.
 * RENEW: transaction 1, whose session has ended, prepares again under a new one.
 * KEYSHARE: transaction 1 locks FOR KEY SHARE, and writes elsewhere; 0 changes the row, which
 * such a lock lets by, and 2 deletes it, both without a lock unless somebody is in their way.
 *
 * The rules: 28 to 32 in docs/commit.md.
 *
 * Abstracted: several rows (deadlock.pml), one strength of the four, increments, lost
 * messages of a commit (commit.pml).  A row's history is its newest version.
 *
 * Claims: no lost update, whatever is lost of locks; what is locked only stays as it was
 * until the decision (KEY SHARE: stays there); no pessimistic transaction fails that lives, unless a lock was
 * lost; nobody overtakes who waits; nobody waits for ever: without LOOK by messages alone.
 *
 * run: ci
 * run: ci -DPESSIMISTS -DSPLIT
 * run: ci -DSHARE -DSPLIT -DCANCEL
 * run: ci -DSHARERS
 * run: ci -DDEAD -DLOOK
 * run: ci -DDEAD -DLOOK -DSHARE
 * run: ci -DDEAD -DLOOK -DSHARE -DRENEW
 * run: ci -DFAILOVER -DLOOK
 * run: ci -DFAILOVER -DLOOK -DSHARE
 * run: ci -DKEYSHARE
 * run: ci -DFAILOVER -DLOOK -DKEYSHARE
 * run: deep -DFAILOVER -DDEAD -DLOOK -DSPLIT -DSHARE
 * mutation: MUT_UNLOCKED_PREPARE rule 28: prepare of an optimistic one does not compare the locks
 * mutation: MUT_BESIDE_INTENT rule 28: a lock is given beside an intent that it excludes
 * mutation: MUT_TAKE_BACK_ALL rule 29: an attempt that is taken back takes its lock along
 * mutation: MUT_NO_VERSION -DFAILOVER -DLOOK rule 29: prepare trusts in the lock and does not compare the version
 * mutation: MUT_SHARE_UNCHECKED -DFAILOVER -DLOOK -DSHARE rule 29: a row that was only locked is not checked at commit
 * mutation: MUT_LIVE_UNCHECKED -DFAILOVER -DLOOK -DKEYSHARE rule 29: that a row is there which was locked FOR KEY SHARE is not checked at commit
 * mutation: MUT_LIVE_PINNED -DKEYSHARE rule 29: of a row that was locked FOR KEY SHARE the version is compared
 * mutation: MUT_LOCK_OF_OLD_ID -DDEAD -DLOOK -DSHARE -DRENEW rule 29: who decides under another id than its locks have trusts in them
 * mutation: MUT_OVERTAKE -DSHARERS rule 30: who comes to a row that is waited for does not queue
 * mutation: MUT_NO_PASS rule 30: who frees the row does not give it to whoever is next
 * mutation: MUT_CANCEL_SILENT -DSHARE -DCANCEL rule 30: who gives up waiting does not let in those behind it
 * mutation: MUT_CUT_SILENT -DPESSIMISTS -DSPLIT rule 31: a split tells nobody that its row has moved
 * mutation: MUT_MESSAGE_LOST rule 31: who is woken does not find what was left before it listened
 * mutation: MUT_TAKE_LIVE -DDEAD -DLOOK rule 32: a lock counts as given up before its session's lease is removed
 * mutation: MUT_DEAD_STAYS -DDEAD -DLOOK rule 32: nobody clears away what the dead hold
 * mutation: MUT_RETURNED_STAYS -DFAILOVER -DLOOK rule 32: a lock that came back stays because its session lives
 * mutation: MUT_WAIT_FORGOTTEN -DFAILOVER -DLOOK rule 32: who waits does not look whether it is still in the queue
 */
#define TXS 3
#define ROWS 1
#define NOBODY 7
#define granted(y, r) message[y] = message[y] | bit(place)

#include "queue.inc"

#ifdef MUT_LOCK_OF_OLD_ID
#define MARKS false
#else
#define MARKS true
#endif

#define NONE 0
#define COMMITTED 1
#define ABORTED 2

byte version = 1, current = 1, last = 1;
byte intent = NOBODY;
byte place;						/* the node where the row is */
byte message[TXS];				/* bits: left for it at node 0, 1 */
byte record[TXS], decided[TXS];
byte base[TXS];					/* the version that it rests on */
bit dead[TXS];					/* its lease is removed */
bit halted[TXS];				/* and it has stopped */
bit ended[TXS];
bit checked;					/* that transaction 1 has its lock still */
bit renewed;					/* transaction 1 has a new session, which lives */
bit marked;						/* and its mark is at the row */
bit failed_over;
bit deleted, gone;				/* KEYSHARE: the row, by a decision; and where it is */

#if defined(SHARE) || defined(KEYSHARE)
#define writes(x) ((x) != 1)
#elif defined(SHARERS)
#define writes(x) ((x) == 0)
#else
#define writes(x) true
#endif
#ifdef KEYSHARE
#define deletes(x) ((x) == 2)
#define lets_by(x) ((x) == 0)
#define stayed(x) ((x) == 1 -> !deleted : current == base[x])
#else
#define deletes(x) false
#define lets_by(x) false
#define stayed(x) (current == base[x])
#endif
#ifdef KEYSHARE
#define optimist(x) ((x) != 1)
#elif defined(PESSIMISTS) || defined(SHARERS)
#define optimist(x) false
#else
#define optimist(x) ((x) == 2)
#endif

/* set := who is in the way of x: holders, waiters ahead, an intent. */
inline find_in_the_way(x)
{
	if
	:: row[0].exclusive & bit(x) -> set = 0		/* who waits, waits for x */
	:: else -> find_ahead(x, 0)
	fi;
	if
	:: lets_by(x) -> set = set & ~row[0].shared
	:: else
	fi;
	if
	:: intent != NOBODY && intent != x -> set = set | bit(intent)
	:: else
	fi
}

/* Is some lock excluded by the intent?  Then nobody but its owner is let in. */
#ifdef MUT_BESIDE_INTENT
#define let_in() pass(0); skip
#else
#define let_in() \
	if \
	:: intent == NOBODY || (row[0].exclusive & bit(intent)) -> pass(0) \
	:: else \
	fi
#endif

/* x has nothing there any more, and others are let in. */
inline leave(x)
{
	withdraw(x, 0);
	if
	:: intent == x -> intent = NOBODY
	:: else
	fi;
#ifndef MUT_NO_PASS
	let_in();
#endif
	skip
}

inline do_apply(x)
{
	if
	:: intent == x -> assert(version < decided[x]); version = decided[x]; gone = (deletes(x) -> 1 : gone)
	:: else
	fi;
	leave(x)
}

/* Nobody waits whom this one should have waited for. */
inline check_order(x)
{
	find_ahead(x, 0);
	assert(set == 0)
}

/* A step of the row: into the queue, unless it is in it, and in if nobody is ahead. */
inline ask(x)
{
	d_step {
		if
		:: at[x] != NOWHERE || (wants[x] && (row[0].exclusive & bit(x))) || (!wants[x] && holds(x, 0))
		:: else ->
#ifdef MUT_OVERTAKE
			if
			:: intent == NOBODY && row[0].exclusive == 0 && (row[0].shared == 0 || !wants[x]) ->
				check_order(x);
				if
				:: wants[x] -> row[0].exclusive = row[0].exclusive | bit(x)
				:: else -> row[0].shared = row[0].shared | bit(x)
				fi
			:: else -> enter(x, 0)
			fi
#else
			enter(x, 0)
#endif
		fi;
		let_in();
		here = place;
		waits = (at[x] != NOWHERE);
		message[x] = (waits -> message[x] : 0);
		printf("%d asks for the row; waits: %d\n", x, waits)
	}
}

#ifdef MUT_TAKE_LIVE
#define gone(y) true
#else
#ifdef MUT_DEAD_STAYS
#define gone(y) false
#else
#define gone(y) dead[y]
#endif
#endif
#ifdef MUT_RETURNED_STAYS
#define came_back false
#else
#define came_back true
#endif

#define stale(x, y) \
	((y) != (x) && (holds(y, 0) || at[y] == 0 || intent == (y)) && (gone(y) || (ended[y] && came_back)))

/* What a waiter finds: whose session is dead for good, and what came back. */
inline clear_away(x)
{
	d_step {
		y = 0; who = NOBODY;
		do
		:: y < TXS ->
			if
			:: stale(x, y) -> who = y; y = TXS
			:: else -> y++
			fi
		:: else -> break
		od;
		y = 0
	}
	if
	:: who != NOBODY && intent == who ->
		d_step {
			if
			:: record[who] == NONE -> record[who] = ABORTED
			:: else
			fi
		}
		d_step {
			if
			:: record[who] == COMMITTED -> do_apply(who)
			:: else -> leave(who)
			fi;
			printf("%d clears %d away\n", x, who)
		}
	:: who != NOBODY && intent != who ->
		d_step { leave(who); printf("%d clears %d away\n", x, who) }
	:: else
	fi;
	who = NOBODY
}

proctype Transaction(byte x) provided (!halted[_pid - 1])
{
	byte here = 0, who = NOBODY, res = 0;
	bool bound = false, waits = false;
	bool may_be_refused = (x == 0);

	if
	:: optimist(x) -> d_step { base[x] = version; bound = true }
	:: else -> goto lock
	fi;
	goto prepare;

lock:
	ask(x);
#ifdef MUT_MESSAGE_LOST
	message[x] = 0;
#endif
	do
	:: !waits -> break
	:: waits && (message[x] & bit(here)) ->
		/* woken: it looks at the row, wherever that is */
		d_step {
			message[x] = message[x] & ~bit(here); here = place;
			waits = !(at[x] == NOWHERE && holds(x, 0))
		}
#ifdef LOOK
	:: waits && at[x] != NOWHERE && (stale(x, 0) || stale(x, 1) || stale(x, 2)) -> clear_away(x)
	:: waits && at[x] == NOWHERE && holds(x, 0) -> waits = false
#ifndef MUT_WAIT_FORGOTTEN
	:: waits && at[x] == NOWHERE && !holds(x, 0) -> ask(x)
#endif
	:: waits && at[x] == 0 && row[0].queue[0] == x && intent == NOBODY &&
	   (row[0].shared | row[0].exclusive) == 0 -> d_step { let_in(); skip }
#endif
#ifdef CANCEL
	:: waits && x != 0 -> goto give_up
#endif
	od;
	message[x] = 0;
	if
	:: !bound ->
		d_step {
			base[x] = version; bound = true;
#ifdef KEYSHARE
			assert(failed_over || dead[x] || gone == deleted)
#else
			assert(failed_over || dead[x] || base[x] == current)
#endif
		}
	:: else
	fi;
#ifdef KEYSHARE
	if
	:: !writes(x) && gone -> goto release		/* there is no row to lock */
	:: else
	fi;
#endif

prepare:
	skip;
	if
	:: writes(x) ->
		d_step {
			!marked;
			find_in_the_way(x);
			if
#ifdef MUT_UNLOCKED_PREPARE
			:: set != 0 && !(optimist(x) && intent == NOBODY) -> res = 1
			:: (set == 0 || (optimist(x) && intent == NOBODY)) && version != base[x] -> res = 2
			:: (set == 0 || (optimist(x) && intent == NOBODY)) && version == base[x] -> intent = x; res = 0
#else
			:: set != 0 -> res = 1
#ifdef MUT_NO_VERSION
			:: set == 0 -> intent = x; res = 0
#else
			:: set == 0 && version != base[x] -> res = 2
			:: set == 0 && version == base[x] -> intent = x; res = 0
#endif
#endif
			fi;
			printf("%d prepares: %d\n", x, res)
		}
	:: !writes(x) && !(MARKS && renewed) ->
#if defined(MUT_SHARE_UNCHECKED) || defined(MUT_LIVE_UNCHECKED)
		res = 0
#else
		d_step {
#if defined(KEYSHARE) && !defined(MUT_LIVE_PINNED)
			res = (holds(x, 0) && !gone -> 0 : 2);
#else
			res = (holds(x, 0) && version == base[x] -> 0 : 2);
#endif
			checked = true;
			printf("%d checks its lock: %d\n", x, res)
		}
#endif
	:: !writes(x) && MARKS && renewed ->
		/* as who has no lock: it waits for intents, and its mark keeps others away */
		d_step {
			intent == NOBODY;
			res = (version == base[x] -> 0 : 2);
			marked = (res == 0);
			printf("%d marks the row: %d\n", x, res)
		}
	fi;
	if
	:: res == 1 -> res = 0; goto lock
	:: res == 2 ->
		/* 40001 */
		assert(optimist(x) || failed_over || dead[x]);
		goto release
	:: else
	fi;
	if
	:: may_be_refused && writes(x) ->
		may_be_refused = false;
		d_step {
			if
			:: intent == x ->
				intent = NOBODY;
#ifdef MUT_TAKE_BACK_ALL
				withdraw(x, 0);
#endif
				let_in()
			:: else
			fi;
			printf("%d takes its intent back\n", x)
		}
		goto prepare
	:: true
	fi;

#ifdef RENEW
	if
	:: dead[x] && !writes(x) && !renewed -> renewed = true; goto prepare
	:: else
	fi;
#endif
	d_step {
		if
		:: (!dead[x] || (renewed && x == 1)) && record[x] == NONE ->
			last++;
			record[x] = COMMITTED; decided[x] = last;
			printf("%d is decided\n", x);
			assert(stayed(x));
			deleted = (deletes(x) -> 1 : deleted);
			if
			:: writes(x) -> current = last
			:: else
			fi
		:: else -> record[x] = ABORTED
		fi
	}
	if
	:: record[x] == COMMITTED -> d_step { do_apply(x); skip }
	:: else -> goto release
	fi;
	goto done;

#ifdef CANCEL
give_up:
	skip;
	d_step {
		printf("%d gives up\n", x);
#ifdef MUT_CANCEL_SILENT
		withdraw(x, 0);
#else
		leave(x);
#endif
		skip
	}
	goto done;
#endif

release:
	skip;
	d_step { leave(x); printf("%d has let go\n", x) }
done:
	skip;
	d_step { ended[x] = true; marked = (x == 1 -> 0 : marked); message[x] = 0; base[x] = 0; here = 0; who = NOBODY; res = 0; bound = false; waits = false; may_be_refused = false }
}

/* The row moves; who waits is told, where it listens, to look. */
proctype Split()
{
	d_step {
		printf("the row moves\n");
#ifndef MUT_CUT_SILENT
		i = 0;
		do
		:: i < row[0].n -> message[row[0].queue[i]] = message[row[0].queue[i]] | bit(place); i++
		:: else -> break
		od;
#endif
		place = 1
	}
}

proctype Death()
{
	byte x = 0;
	atomic {
		select(x : 0 .. 1);
		dead[x] = 1;
		if
		:: halted[x] = 1
		:: true
		fi;
		printf("%d is dead, and has stopped: %d\n", x, halted[x]);
		x = 0
	}
}

proctype Failover()
{
	byte x = 0;
	atomic {
		select(x : 0 .. 2);
		if
		:: holds(x, 0) && intent != x && record[x] == NONE && !(x == 1 && checked) ->
			d_step { withdraw(x, 0); printf("the lock of %d is lost\n", x) }
		:: at[x] == 0 -> d_step { withdraw(x, 0); printf("the wait of %d is lost\n", x) }
		:: ended[x] && row[0].shared == 0 && row[0].exclusive == 0 && intent == NOBODY ->
			row[0].exclusive = row[0].exclusive | bit(x); printf("a lock of %d is back\n", x)
		fi;
		failed_over = 1;
		x = 0
	}
}

init {
	atomic {
		at[0] = NOWHERE; at[1] = NOWHERE; at[2] = NOWHERE;
		wants[0] = true; wants[1] = writes(1); wants[2] = writes(2);
		run Transaction(0); run Transaction(1); run Transaction(2);
#ifdef SPLIT
		run Split();
#endif
#ifdef DEAD
		run Death();
#endif
#ifdef FAILOVER
		run Failover();
#endif
	}
	timeout -> assert((ended[0] || halted[0]) && (ended[1] || halted[1]) && (ended[2] || halted[2]))
}
