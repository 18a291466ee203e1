/*
 * references.pml: a row that a foreign key leads to is there when the row that leads to
 * it is committed, whoever deletes it.
 *
 * Modelled: the parent's row and the range of its children, on leaves of their own. CHILD
 * inserts a row that leads to the parent: it has seen the parent, places its intent
 * in the range, then looks at the parent. DELETER deletes the parent: it has seen an
 * empty range as of S, places its intent on the parent and certifies the range, in any
 * order. Each makes two attempts, under two ids. UPDATER changes the parent and leaves it
 * there. REMOVER deletes a child that is there, and it is purged at once: nothing of it is
 * left but a purge mark, which the deleter does not ask for. A waiter aborts undecided attempts, takes
 * away what they left, and applies what was decided, at any time. Any process may stop for any time.
 *
 * Abstracted: the range holds one row; splits copy marks and intents (serializable.pml,
 * split.pml); lost messages are attempts of their own (commit.pml).
 *
 * Claim: not both commit, unless the child is gone before the parent.
 *
 * run: ci
 * mutation: MUT_LOOK_FIRST rule 22: the parent is looked at before the intents are in place
 * mutation: MUT_IGNORE_DELETE rule 22: the look does not see an intent that deletes the parent
 * mutation: MUT_NO_MARK rule 22: the deleter places no mark on the range
 * mutation: MUT_NO_INTENTS rule 22: the deleter does not look for intents in the range
 * mutation: MUT_NO_VERSIONS rule 22: the deleter does not compare versions in the range
 */
#define ATTEMPTS 2
#define UPDATER 5
#define child_id(n) (1 + n)		/* 1, 2 */
#define deleter_id(n) (3 + n)	/* 3, 4 */
#define is_child(id) (id == 1 || id == 2)
#define is_deleter(id) (id == 3 || id == 4)

byte last = 1;					/* the clock */
byte record[6];					/* by id: 1 committed, 2 aborted */
byte decided[6];				/* timestamps */

bool parent_live = true;
byte parent_intent;				/* an id, 0: none */
byte child_row;					/* its version, 0: none */
byte child_intent;
byte mark;						/* on the range: an id, 0: none */

bool child_committed, deleter_committed;

inline decide(id)
{
	d_step {
		if
		:: record[id] == 2 -> res = 1
		:: else ->
			last++;
			decided[id] = last;
			record[id] = 1;
			res = 0;
			if
			:: is_child(id) -> child_committed = true
			:: else -> deleter_committed = true
			fi;
			assert(!(child_committed && deleter_committed))
		fi
	}
}

/* What an attempt left that is not to be. */
inline release(id)
{
	atomic { if :: child_intent == id -> child_intent = 0 :: else fi }
	atomic { if :: parent_intent == id -> parent_intent = 0 :: else fi }
	atomic { if :: mark == id -> mark = 0 :: else fi }
}

inline apply_child(id)
{
	d_step {
		if
		:: child_intent == id -> child_intent = 0; child_row = decided[id]
		:: else
		fi
	}
}

inline apply_parent(id)
{
	d_step {
		if
		:: parent_intent == id -> parent_intent = 0; parent_live = false
		:: else
		fi
	}
}

inline unmark(id)
{
	atomic { if :: mark == id -> mark = 0 :: else fi }
}

inline place_child(id)
{
	d_step {
		if
		:: child_intent != 0 || (mark != 0 && mark != id) -> res = 1
		:: else -> child_intent = id; res = 0
		fi
	}
}

inline look(id)
{
	d_step {
		if
#ifndef MUT_IGNORE_DELETE
		:: is_deleter(parent_intent) -> res = 1
		:: !is_deleter(parent_intent) && !parent_live -> res = 2
		:: !is_deleter(parent_intent) && parent_live -> res = 0
#else
		:: !parent_live -> res = 2
		:: parent_live -> res = 0
#endif
		fi
	}
}

proctype Child()
{
	byte n = 0, res = 0;

	/* the statement: a deletion that is decided and not applied counts */
	atomic {
		parent_live && !(is_deleter(parent_intent) && record[parent_intent] == 1)
	}
	do
	:: n < ATTEMPTS ->
#ifdef MUT_LOOK_FIRST
		look(child_id(n));
		if :: res == 0 -> place_child(child_id(n)) :: else fi;
#else
		place_child(child_id(n));
		if :: res == 0 -> look(child_id(n)) :: else fi;
#endif
		if
		:: res == 0 -> decide(child_id(n))
		:: else
		fi;
		if
		:: res == 0 -> apply_child(child_id(n)); break
		:: res == 1 -> release(child_id(n)); n++
		:: res == 2 -> release(child_id(n)); break
		fi
	:: else -> break
	od
}

inline place_parent(id)
{
	d_step {
		if
		:: parent_intent != 0 -> res = 1
		:: parent_intent == 0 && !parent_live -> res = 2
		:: else -> parent_intent = id; res = 0
		fi
	}
}

inline certify(id)
{
	d_step {
		if
#ifndef MUT_NO_INTENTS
		:: child_intent != 0 -> res = 1
		:: child_intent == 0 &&
#else
		:: true &&
#endif
#ifndef MUT_NO_VERSIONS
			child_row > S -> res = 2
#else
			false -> res = 2
#endif
		:: else ->
#ifndef MUT_NO_MARK
			mark = id;
#endif
			res = 0
		fi
	}
}

proctype Deleter()
{
	byte n = 0, res = 0, S = 0;

	/* the statement: no child as of S */
	atomic {
		child_row == 0 && !(is_child(child_intent) && record[child_intent] == 1);
		S = last
	}
	do
	:: n < ATTEMPTS ->
		if
		:: place_parent(deleter_id(n));
			if :: res == 0 -> certify(deleter_id(n)) :: else fi
		:: certify(deleter_id(n));
			if :: res == 0 -> place_parent(deleter_id(n)) :: else fi
		fi;
		if
		:: res == 0 -> decide(deleter_id(n))
		:: else
		fi;
		if
		:: res == 0 ->
			if
			:: apply_parent(deleter_id(n)); unmark(deleter_id(n))
			:: unmark(deleter_id(n)); apply_parent(deleter_id(n))
			fi;
			break
		:: res == 1 -> release(deleter_id(n)); n++
		:: res == 2 -> release(deleter_id(n)); break
		fi
	:: else -> break
	od
}

proctype Updater()
{
	atomic { parent_intent == 0 && parent_live; parent_intent = UPDATER }
	atomic { parent_intent == UPDATER -> parent_intent = 0 }
}

/* The child's row is gone without a trace, by a commit of its own; like any writer's step it finds no foreign mark. */
proctype Remover()
{
	atomic {
		child_row != 0 && child_intent == 0 && mark == 0;
		child_row = 0;
		child_committed = false;
		last++
	}
}

/* Whoever meets what others left. */
proctype Waiter()
{
	byte id = 0;

end:
	do
	:: atomic { is_child(child_intent) -> id = child_intent }
		goto met
	:: atomic { is_deleter(parent_intent) -> id = parent_intent }
		goto met
	:: atomic { mark != 0 -> id = mark }
met:
		atomic { if :: record[id] == 0 -> record[id] = 2 :: record[id] != 0 fi }
		if
		:: record[id] == 2 -> release(id)
		:: record[id] == 1 ->
			if
			:: is_child(id) -> apply_child(id)
			:: is_deleter(id) -> apply_parent(id)
			:: is_deleter(id) -> unmark(id)
			fi
		fi;
		id = 0
	od
}

init {
	atomic { run Child(); run Deleter(); run Updater(); run Remover(); run Waiter() }
}
