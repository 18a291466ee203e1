/*
 * entries.pml: an index's entry is inserted beside a block that nobody has looked at, since its row tells that it is not there
 * (docs/commit.md, "Beside a block"; rule 44).
 *
 * Modelled: a row that is absent, has the value that its entry is of, or another one; and the leaf of that entry, which
 * is packed, and unpacked.  Two GIVERs give the row that value, which had it not: they insert the row, or update it.  They
 * look at the row, and know the entry's leaf by its generation alone; they place intents on the row and on the entry, in
 * any order, decide, and apply.  A TAKER takes the value away: it deletes the row, or updates it; it unpacks the entry's leaf
 * and places an intent that deletes.  A packer packs the leaf as it was read.  A waiter aborts undecided attempts, takes away
 * what they left, and applies what was decided, at any time.  Any process may stop for any time.
 *
 * Abstracted: the block in steps that know it, late messages and failovers (packed.pml); attempts that begin anew (commit.pml).
 *
 * Claim: what is decided finds the entry as the row told it; where nobody is under way, the entry is there if and only if the row
 * has that value.
 *
 * run: ci
 * mutation: MUT_ROW_LOOKED rule 44: the row is not compared in the commit that inserts its entry
 * mutation: MUT_ROW_INTENT rule 44: nor what intents there are on it
 * mutation: MUT_DELETE_BESIDE rule 44: an entry is deleted beside a block that has it
 */
#define TAKER 3
#define PACKS 1
#define THE_VALUE 1				/* of the row; 0: it is absent; 2: it has another one */

byte record[4];					/* by id: 1 committed, 2 aborted */
byte to[4];						/* what the attempt makes of the row */
byte row;
byte row_intent;				/* an id, 0: none */
byte gen = 1;
bit packed;
bit block;						/* the entry is in the block, */
bit field;						/* or a field */
byte entry_intent;

#define has_entry()		(field || (packed && block))
#define is_told()		(has_entry() == (row == THE_VALUE) || row_intent != 0 || entry_intent != 0)

inline decide(id)
{
	d_step {
		if
		:: record[id] == 2 -> res = 1
		:: else ->
			record[id] = 1;
			assert(has_entry() == (id == TAKER))
		fi
	}
}

inline release_row(id)
{
	atomic { if :: row_intent == id -> row_intent = 0 :: else fi }
}

inline release_entry(id)
{
	atomic { if :: entry_intent == id -> entry_intent = 0 :: else fi }
}

inline apply_row(id)
{
	d_step {
		if
		:: row_intent == id -> row_intent = 0; row = to[id]; assert(is_told())
		:: else
		fi
	}
}

inline apply_entry(id)
{
	d_step {
		if
		:: entry_intent == id ->
			entry_intent = 0;
			field = (id != TAKER);
			assert(is_told())
		:: else
		fi
	}
}

inline place_row(id)
{
	d_step {
		if
#ifndef MUT_ROW_INTENT
		:: row_intent != 0 -> res = 1
		:: row_intent == 0 &&
#else
		:: true &&
#endif
#ifndef MUT_ROW_LOOKED
			row != seen -> res = 1
#else
			false -> res = 1
#endif
		:: else -> row_intent = id
		fi
	}
}

/* Who inserts compares that no field is there; who deletes has the row to tell him. */
inline place_entry(id)
{
	do
	:: d_step { g = gen; p = packed };
		if
#ifndef MUT_DELETE_BESIDE
		:: id == TAKER && p ->
			d_step {
				if
				:: gen == g -> field = field || block; block = 0; packed = 0; gen++; assert(is_told())
				:: else
				fi
			}
#endif
		:: else ->
			d_step {
				if
				:: gen != g -> skip
				:: gen == g && (entry_intent != 0 || (id != TAKER && field)) -> res = 1
				:: else -> entry_intent = id; res = 2
				fi
			};
			if
			:: res == 0 -> skip
			:: else -> break
			fi
		fi
	od;
	skip;
	d_step {
		g = 0;
		p = 0;
		if
		:: res == 2 -> res = 0
		:: else
		fi
	}
}

inline commit(id)
{
	if
	:: place_row(id);
		if :: res == 0 -> place_entry(id) :: else fi
	:: place_entry(id);
		if :: res == 0 -> place_row(id) :: else fi
	fi;
	if
	:: res == 0 -> decide(id)
	:: else
	fi;
	if
	:: res == 0 -> apply_row(id); apply_entry(id)	/* or the waiter does, the other one first */
	:: else -> release_row(id); release_entry(id)
	fi;
	skip;
	d_step { seen = 0; g = 0; p = 0; res = 0 }
}

proctype Giver(byte id)
{
	byte seen, g, res;
	bit p;

	d_step { row != THE_VALUE -> seen = row; to[id] = THE_VALUE };
	commit(id)
}

proctype Taker()
{
	byte seen, g, res;
	bit p;

	atomic {
		row == THE_VALUE -> seen = row;
		if
		:: to[TAKER] = 0
		:: to[TAKER] = 2
		fi
	};
	commit(TAKER)
}

proctype Packer()
{
	byte packs, g;
	bit entry, f;

	do
	:: packs < PACKS ->
		packs++;
		d_step { g = gen; entry = has_entry(); f = field };
		d_step {
			if
			:: gen == g && entry_intent == 0 && field == f -> block = entry; field = 0; packed = 1; gen++; assert(is_told())
			:: else
			fi
		}
	:: else -> break
	od;
	skip;
	d_step { packs = 0; g = 0; entry = 0; f = 0 }
}

/* Whoever meets what others left. */
proctype Waiter()
{
	byte id;

end:
	do
	:: atomic { row_intent != 0 -> id = row_intent }
		goto met
	:: atomic { entry_intent != 0 -> id = entry_intent }
met:
		atomic { if :: record[id] == 0 -> record[id] = 2 :: record[id] != 0 fi };
		if
		:: record[id] == 2 -> release_row(id); release_entry(id)
		:: record[id] == 1 && row_intent == id -> apply_row(id)
		:: record[id] == 1 -> apply_entry(id)
		fi;
		id = 0
	od
}

init
{
	atomic {
		if
		:: row = 0
		:: row = 2
		:: row = THE_VALUE; packed = 1; block = 1
		:: row = THE_VALUE; field = 1
		:: row = 0; packed = 1
		fi;
		run Giver(1); run Giver(2); run Taker(); run Packer(); run Waiter()
	}
}
