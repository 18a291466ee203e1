/*
 * priority.pml: who gives way, when transactions that commit meet each other.
 *
 * Modelled: TXS SERIALIZABLE transactions, the lower number the older one, and two
 * leaves.  Each writes a row of its own, on leaf 0 or leaf 1, or with SAME all one row
 * on leaf 0; each has read some leaves, or all.  Prepare places an intent, which wants a
 * leaf without foreign marks, and marks, which want a leaf without foreign intents, in
 * any order.  Who is in the way may be met in any order, too, if there are several.
 *
 * The rule (25): who meets a younger one keeps what it holds, and waits for it to end or
 * to give way; who meets an older one takes back all it holds and prepares again when
 * that one is out of its way.
 *
 * Abstracted: what was read is never changed, so that nobody fails; deaths and the
 * timeout after which a waiter aborts (commit.pml); bytes.
 *
 * Claims: nobody waits for ever (at the end all have committed); and nobody gives way for
 * ever: the oldest never, the next one once, each more often than those before it have
 * begun at most.  So somebody always gets through, whatever the others do.
 *
 * run: ci
 * run: ci -DSAME
 * run: deep -DTXS=4
 * mutation: MUT_ALL_GIVE_WAY rule 25: whoever meets somebody takes back what it holds
 * mutation: MUT_ALL_HOLD rule 25: nobody takes back what it holds
 * mutation: MUT_YOUNGER_HOLDS rule 25: the younger one keeps what it holds
 * mutation: MUT_NO_WAIT rule 25: who gave way prepares again while the older one is there
 * mutation: MUT_YOUNG_AGAIN rule 25: who gave way is the youngest from then on
 */
#ifndef TXS
#define TXS 3
#endif
#define LEAVES 2
#define NOBODY 15

typedef Leaf {
	byte intents;				/* bits: who has an intent there */
	byte marks
}
Leaf leaf[LEAVES];
byte age[TXS];					/* the lower the older */
byte youngest = TXS;
byte begun[TXS];				/* attempts */
byte ended;

#define bit(x) (1 << (x))
#define others(set, x) ((set) & ~bit(x))

/* How often an attempt may begin: once, and once more for each of an older one. */
#define may_begin(x) (1 << (x))

/* One of those in the way, any of them; the guard is that there is one. */
inline meet(set)
{
	if
	:: (set) & bit(0) -> who = 0
	:: (set) & bit(1) -> who = 1
	:: (set) & bit(2) -> who = 2
#if TXS > 3
	:: (set) & bit(3) -> who = 3
#endif
	fi;
	nth = begun[who]
}

/* Intent on leaf `at`; `reads` are leaves to be marked, `todo` what is left of it all. */
inline place_intent(x)
{
	atomic {
#ifdef SAME
		set = others(leaf[at].marks | leaf[at].intents, x);
#else
		set = others(leaf[at].marks, x);
#endif
		if
		:: set == 0 -> leaf[at].intents = leaf[at].intents | bit(x); intent = true
		:: else -> meet(set)
		fi;
		set = 0
	}
}

inline place_mark(x, l)
{
	atomic {
		set = others(leaf[l].intents, x);
		if
		:: set == 0 -> leaf[l].marks = leaf[l].marks | bit(x); todo = todo & ~bit(l)
		:: else -> meet(set)
		fi;
		set = 0
	}
}

inline take_back(x)
{
	atomic {
		leaf[0].intents = others(leaf[0].intents, x); leaf[0].marks = others(leaf[0].marks, x);
		leaf[1].intents = others(leaf[1].intents, x); leaf[1].marks = others(leaf[1].marks, x)
	}
}

/* That attempt of it holds nothing any more. */
#define gone(x) (!holds(x) || begun[x] != nth)
#define holds(x) ((leaf[0].intents | leaf[0].marks | leaf[1].intents | leaf[1].marks) & bit(x))

#ifdef MUT_ALL_GIVE_WAY
#define gives_way(x, y) true
#else
#ifdef MUT_ALL_HOLD
#define gives_way(x, y) false
#else
#ifdef MUT_YOUNGER_HOLDS
#define gives_way(x, y) (age[x] < age[y])
#else
#define gives_way(x, y) (age[x] > age[y])
#endif
#endif
#endif

proctype Transaction(byte x)
{
	byte at = 0, reads = 0, todo = 0, who = NOBODY, nth = 0, set = 0;
	bool intent = false;

	atomic {
#ifndef SAME
		if
		:: at = 0
		:: at = 1
		fi;
#endif
		select(reads : 0 .. 3)
	}
	do
	:: begun[x]++;
		assert(begun[x] <= may_begin(x));
		d_step { todo = reads; intent = false }
		do
		:: !intent && who == NOBODY -> place_intent(x)
		:: (todo & 1) && who == NOBODY -> place_mark(x, 0)
		:: (todo & 2) && who == NOBODY -> place_mark(x, 1)
		:: who != NOBODY && !gives_way(x, who) ->
			/* it tries again when that one has ended, or given way */
			gone(who);
			who = NOBODY
		:: who != NOBODY && gives_way(x, who) -> break
		:: intent && todo == 0 -> break
		od;
		take_back(x);			/* applied, or given up */
		if
		:: who == NOBODY -> break
		:: else ->
#ifdef MUT_YOUNG_AGAIN
			atomic { age[x] = youngest; youngest++ }
#endif
#ifndef MUT_NO_WAIT
			gone(who);
#endif
			who = NOBODY
		fi
	od;
	skip;
	d_step { ended++; at = 0; nth = 0; reads = 0; todo = 0; intent = false }
}

init {
	byte x;
	atomic {
		for (x : 0 .. TXS - 1) { age[x] = x; run Transaction(x) }
		x = 0
	}
	timeout -> assert(ended == TXS)
}
