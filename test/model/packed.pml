/*
 * packed.pml: a leaf whose rows are one block, and that is unpacked by whoever comes to write
 * (docs/commit.md, "Packed leaves"; rule 42).
 *
 * Modelled: one row of a packed leaf.  Writers look at the leaf (one message: its generation, and
 * the row, from the block or from its field), unpack it if it is packed, and change the row by a
 * step that compares generation and version.  The reply of an unpacking step may be lost, so that
 * it is sent again, and that message may come late, after anything else.  A reader reads block
 * and field in one message.  A failover takes the leaf back to what was copied; DURABLE: each
 * step waits for its copies before it is believed.
 *
 * Abstracted: other rows of the block (they are unpacked in the same step), splits (of unpacked
 * leaves alone), intents (a version is what they protect).
 *
 * Claims: whenever it is looked at, the row is there, and no older than the newest version that
 * was acknowledged (with copies; and without a failover in any case).
 *
 * run: ci
 * run: ci -DFAILOVER
 * run: ci -DFAILOVER -DDURABLE
 * mutation: MUT_NO_GENERATION rule 42: the unpacking step does not compare the generation
 * mutation: MUT_BESIDE_BLOCK rule 42: a row is written while the leaf is packed
 * mutation: MUT_SAME_GENERATION rule 42: unpacking leaves the generation as it is
 * mutation: MUT_TWO_STEPS rule 42: the block goes in a step of its own, before the rows are fields
 * mutation: MUT_NO_WAIT -DFAILOVER -DDURABLE rule 17: the step that writes the row is not waited for
 */
#define WRITERS 2

byte last_gen = 1;				/* generations are unlike any other */
byte gen = 1;
bit packed = 1;
bit block = 1;					/* the row is in it, as version 1 */
byte field;						/* the version that is a field; 0: none */
byte copied_gen = 1;
bit copied_packed = 1, copied_block = 1;
byte copied_field;
byte acknowledged = 1;
bit lost;						/* a failover has lost something, without copies */
bit late;						/* an unpacking step is on its way once more: */
byte late_gen, late_new;

#define version()	(packed -> block : field)

inline copy()
{
	copied_gen = gen;
	copied_packed = packed;
	copied_block = block;
	copied_field = field
}

/* The step: compares g, sets n.  The block that was read with g is version 1. */
inline unpack_step(g, n)
{
	if
#ifdef MUT_NO_GENERATION
	:: true ->
#else
	:: gen == g ->
#endif
		field = 1;
		packed = 0;
		block = 0;
		gen = n
	:: else -> skip
	fi
}

proctype writer()
{
	byte g, v, n;
	bit p;

look:
	skip;
	d_step {
		g = gen;
		p = packed;
		v = version()
	}
#ifndef MUT_BESIDE_BLOCK
	if
	:: p ->
#ifdef MUT_TWO_STEPS
		if
		:: gen == g -> block = 0
		:: else -> skip
		fi;
#endif
		d_step {
			last_gen++;
			n = last_gen;
#ifdef MUT_SAME_GENERATION
			n = g;
#endif
			unpack_step(g, n);
#ifdef DURABLE
			copy();
#endif
			printf("unpacked\n")
		}
		if
		:: !late && late_gen == 0 -> d_step { late = 1; late_gen = g; late_new = n }
		:: true -> skip
		fi;
		goto look
	:: else -> skip
	fi;
#endif
	d_step {
		if
		:: gen == g && (p || field == v) ->
			field = v + 1;
#ifdef DURABLE
#ifndef MUT_NO_WAIT
			copy();
#endif
#endif
			n = 0
		:: else -> n = 1
		fi
	}
	if
	:: n == 1 -> goto look
	:: else ->
		/* the reply: what was lost before it is not acknowledged */
		d_step {
			if
			:: acknowledged < v + 1 && !lost -> acknowledged = v + 1
			:: else -> skip
			fi;
			printf("wrote version %d\n", v + 1)
		}
	fi
}

/* What is late changes nothing, or what it would have changed. */
proctype network()
{
	late;
	d_step {
		unpack_step(late_gen, late_new);
		late = 0;
		printf("unpacked by a late message\n")
	}
}

proctype reader()
{
	byte before;

	do
	:: d_step { before = acknowledged };
		atomic {
			assert(version() > 0);
			assert(lost || version() >= before)
		}
	:: break
	od
}

#ifdef FAILOVER
proctype failover()
{
	d_step {
#ifndef DURABLE
		lost = lost || gen != copied_gen || field != copied_field;
#endif
		gen = copied_gen;
		packed = copied_packed;
		block = copied_block;
		field = copied_field;
		printf("failover\n")
	}
}

/* Copies come by themselves, too. */
proctype replica()
{
	d_step { copy() }
}
#endif

init
{
	atomic {
		byte i = 0;

		do
		:: i < WRITERS -> run writer(); i++
		:: else -> break
		od;
		run network();
		run reader();
#ifdef FAILOVER
		run failover();
		run replica();
#endif
	}
}
