/*
 * serializable.pml: read marks, write skew and phantoms, while a leaf splits.
 *
 * Modelled: leaf 0 with the keys 0 and 1, split in the middle by a splitter and a
 * late helper; A, a SERIALIZABLE transaction that has read the range [0, 2) and writes
 * key 0; B, that writes key 1 (inserts, or with DELETER deletes so that nothing is left
 * but a purge mark), at READ COMMITTED, or with SKEW SERIALIZABLE as well, having read
 * the range.  Marks are per leaf; prepare goes leaf by leaf, in rounds, following
 * the fences; a waiter takes undecided intents and marks away at any time.  Any process
 * may stop for any time.
 *
 * Abstracted: a row is the timestamp of its newest version; histories (snapshot.pml),
 * lost messages (commit.pml) and the apply of a committed transaction's rows by others
 * are not here: owners apply, helpers too, in any order.
 *
 * Claim: at the decision of a SERIALIZABLE transaction all it read is as it read it.
 * Then decision order is a serial order; and as snapshots are drawn by the same clock
 * and the decision lies between call and answer of COMMIT, it agrees with real time.
 *
 * run: ci
 * run: ci -DSKEW
 * run: ci -DDELETER
 * run: deep -DSKEW -DDELETER
 * mutation: MUT_MARKS_IGNORED rule 13: READ COMMITTED writers ignore read marks
 * mutation: MUT_MARK_NOCOPY rule 13: a split does not copy read marks
 * mutation: MUT_MARK_FROZEN rule 13: a mark is placed on a leaf that is being split
 * mutation: MUT_MARK_LEAVES rule 13: marks are placed on the leaves that were read, whatever their fences
 * mutation: MUT_NO_INTENTS rule 13: a range mark does not look for intents in the range
 * mutation: MUT_NO_TOMBSTONES -DDELETER rule 13: a range mark does not look at tombstones
 * mutation: MUT_NO_PURGED -DDELETER rule 11: a range mark does not look at the purge mark
 */
#define A 1
#define B 2
#define NOBODY 7

typedef Leaf {
	bit ex, frozen;
	byte gen, high;
	byte row[2];				/* newest version, 0: none */
	byte intent[2];
	byte marks;					/* bits A, B */
	byte purged
}
Leaf leaf[2];					/* leaf 1 is made by the split at key 1 */

byte last = 1;
byte record[3];					/* 1 committed, 2 aborted */
byte decided[3];
byte current[2];				/* newest decided version */

#define serial(x) (x == A || serial_b)
#ifdef SKEW
#define serial_b true
#else
#define serial_b false
#endif

#define key_of(x) (x - 1)
#define holds(l, k) (leaf[l].ex && (l == 0 -> k < leaf[0].high : k == 1))
#define served(l, k) (holds(l, k) && !(leaf[l].frozen && k == 1))
#define foreign(l, x) (leaf[l].marks & ~(1 << x))

/* The leaf for key k, its generation; finishing a split is the others' business. */
inline find(k)
{
	atomic {
		if
		:: holds(0, k) -> l = 0
		:: else -> l = 1
		fi;
		g = leaf[l].gen
	}
}

/* Prepare the write of x: res 0 done, 1 busy, 2 conflict, 3 look again. */
inline prepare_write(x)
{
	d_step {
		k = key_of(x);
		if
		:: !(leaf[l].ex && leaf[l].gen == g && served(l, k)) -> res = 3
		:: else ->
			if
			:: leaf[l].intent[k] != 0 -> res = 1
#ifdef MUT_MARKS_IGNORED
			:: leaf[l].intent[k] == 0 && foreign(l, x) != 0 && serial(x) -> res = 1
			:: leaf[l].intent[k] == 0 && !(foreign(l, x) != 0 && serial(x)) ->
#else
			:: leaf[l].intent[k] == 0 && foreign(l, x) != 0 -> res = 1
			:: leaf[l].intent[k] == 0 && foreign(l, x) == 0 ->
#endif
				if
				:: leaf[l].row[k] != seen[k] || (leaf[l].row[k] == 0 && leaf[l].purged > S && serial(x)) -> res = 2
				:: else -> leaf[l].intent[k] = x; res = 0; printf("%d prepares on leaf %d\n", x, l)
				fi
			fi
		fi;
		k = 0
	}
}

#ifdef MUT_NO_TOMBSTONES
#define newer(l, k) (leaf[l].row[k] > S && !(k == 1 && tombstone && leaf[l].row[k] == decided[B]))
#else
#define newer(l, k) (leaf[l].row[k] > S)
#endif
#define in_leaf(l, k) holds(l, k)

/* Mark leaf l for the part of [0, 2) that begins at key `at`. */
inline prepare_mark(x)
{
	d_step {
		if
#ifdef MUT_MARK_LEAVES
		:: !leaf[l].ex -> res = 3
#else
		:: !(leaf[l].ex && leaf[l].gen == g && holds(l, at)) -> res = 3
#endif
#ifndef MUT_MARK_FROZEN
		:: leaf[l].ex && leaf[l].frozen -> res = 3
#endif
		:: else ->
			res = 0;
#ifndef MUT_NO_INTENTS
			if
			:: (in_leaf(l, 0) && at == 0 && leaf[l].intent[0] != 0 && leaf[l].intent[0] != x) ||
				(in_leaf(l, 1) && leaf[l].intent[1] != 0 && leaf[l].intent[1] != x) -> res = 1
			:: else
			fi;
#endif
			if
			:: res == 0 && ((in_leaf(l, 0) && at == 0 && newer(l, 0)) || (in_leaf(l, 1) && newer(l, 1))) -> res = 2
			:: else
			fi;
#ifndef MUT_NO_PURGED
			if
			:: res == 0 && leaf[l].purged > S -> res = 2
			:: else
			fi;
#endif
			if
			:: res == 0 ->
				leaf[l].marks = leaf[l].marks | (1 << x);
				at = (l == 0 -> leaf[0].high : 2);
#ifdef MUT_MARK_LEAVES
				at = 2;			/* one leaf was read, one is marked */
#endif
				printf("%d marks leaf %d\n", x, l)
			:: else
			fi
		fi
	}
}

/* Busy: an older one keeps what it holds and tries again (rule 25), whenever it likes. */
inline wait_holding()
{
	if
	:: res == 1 -> res = 3
	:: true
	fi
}

inline unmark(x)
{
	/* wherever copies are: R's too, once the split is finished */
	d_step {
		if :: !leaf[0].frozen -> leaf[0].marks = leaf[0].marks & ~(1 << x) :: else fi;
		if :: leaf[1].ex && !leaf[0].frozen -> leaf[1].marks = leaf[1].marks & ~(1 << x) :: else fi
	}
}

bool tombstone;					/* B's version is a delete */

inline apply(x)
{
	d_step {
		l = (holds(0, key_of(x)) -> 0 : 1);
		k = key_of(x);
		if
		:: served(l, k) && leaf[l].intent[k] == x ->
			leaf[l].intent[k] = 0;
			leaf[l].row[k] = decided[x]
		:: else
		fi;
		k = 0; l = 0
	}
}

proctype Transaction(byte x)
{
	byte l = 0, g = 0, k = 0, res = 0, at = 0, S = 0;
	byte seen[2];
	d_step { S = last; seen[0] = current[0]; seen[1] = current[1] }

	if
	:: serial(x) ->
#ifdef MUT_MARK_LEAVES
		d_step { l = 0; g = leaf[0].gen }
#endif
		do
		:: at < 2 && res != 1 && res != 2 ->
#ifndef MUT_MARK_LEAVES
			find(at);
#endif
			prepare_mark(x);
			wait_holding()
		:: else -> break
		od
	:: else
	fi;
	do
	:: res != 1 && res != 2 ->
		find(key_of(x));
		prepare_write(x);
		wait_holding();
		if
		:: res == 0 -> break
		:: else
		fi
	:: res == 1 || res == 2 -> break
	od;
	if
	:: res == 0 ->
		d_step {
			if
			:: record[x] == 0 ->
				last++; record[x] = 1; decided[x] = last;
				printf("%d is decided at %d\n", x, last);
				assert(current[key_of(x)] == seen[key_of(x)]);
				assert(!serial(x) || (current[0] == seen[0] && current[1] == seen[1]));
				current[key_of(x)] = last
			:: else
			fi
		}
		if
		:: record[x] == 1 -> apply(x)
		:: else
		fi
	:: else
	fi;
	unmark(x);
	d_step { l = 0; g = 0; res = 0; at = 0; S = 0; seen[0] = 0; seen[1] = 0 }
}

inline finish()
{
	d_step {					/* create, if absent */
		if
		:: !leaf[1].ex ->
			leaf[1].ex = 1; leaf[1].gen = 1; leaf[1].row[1] = row; leaf[1].intent[1] = intent;
			leaf[1].purged = purged;
#ifndef MUT_MARK_NOCOPY
			leaf[1].marks = marks;
#endif
			printf("leaf 1 is created\n")
		:: else
		fi
	}
	d_step {					/* cut, compares the generation */
		if
		:: leaf[0].frozen && leaf[0].gen == gen ->
			leaf[0].frozen = 0; leaf[0].gen++; leaf[0].high = 1;
			leaf[0].row[1] = 0; leaf[0].intent[1] = 0;
			printf("leaf 0 is cut\n")
		:: else
		fi
	}
}

inline read_frozen()
{
	d_step {
		gen = leaf[0].gen; row = leaf[0].row[1]; intent = leaf[0].intent[1]; marks = leaf[0].marks;
		purged = leaf[0].purged
	}
}

proctype Splitter()
{
	byte gen, row, intent, marks, purged;
	d_step { leaf[0].frozen = 1; leaf[0].gen++; printf("leaf 0 is frozen\n") }
	read_frozen();
	finish();
	d_step { gen = 0; row = 0; intent = 0; marks = 0; purged = 0 }
}

proctype Helper()
{
	byte gen, row, intent, marks, purged;
	leaf[0].frozen == 1;
	atomic {
		if
		:: leaf[0].frozen -> read_frozen()
		:: else -> goto done
		fi
	}
	finish();
done:
	skip;
	d_step { gen = 0; row = 0; intent = 0; marks = 0; purged = 0 }
}

/* Takes away what is undecided for too long, finishes what is decided. */
proctype Waiter()
{
	byte x, k, l;
	do
	:: atomic { select(x : 1 .. 2); record[x] == 0 -> record[x] = 2; x = 0 }
	:: atomic { select(x : 1 .. 2); record[x] == 1 } apply(x); unmark(x); x = 0
	:: atomic { select(x : 1 .. 2); record[x] == 2 ->
			d_step {
				k = key_of(x);
				l = (holds(0, k) -> 0 : 1);
				if
				:: served(l, k) && leaf[l].intent[k] == x -> leaf[l].intent[k] = 0
				:: else
				fi;
				k = 0; l = 0
			}
			unmark(x); x = 0 }
#ifdef DELETER
	/* purged once nobody is below: A may be (its lease ran out) */
	:: d_step { decided[B] != 0 && holds(0, 1) && served(0, 1) && leaf[0].row[1] == decided[B] ->
			leaf[0].row[1] = 0; leaf[0].purged = decided[B] }
	:: d_step { decided[B] != 0 && holds(1, 1) && leaf[1].row[1] == decided[B] ->
			leaf[1].row[1] = 0; leaf[1].purged = decided[B] }
#endif
	od
}

init {
	atomic {
		leaf[0].ex = 1; leaf[0].gen = 1; leaf[0].high = 2;
		leaf[0].row[0] = 1; current[0] = 1;
#ifdef DELETER
		leaf[0].row[1] = 1; current[1] = 1; tombstone = true;
#endif
		run Transaction(A); run Transaction(B); run Splitter(); run Helper(); run Waiter()
	}
}
