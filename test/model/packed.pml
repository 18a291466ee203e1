/*
 * packed.pml: a leaf whose rows are one block, that is unpacked by whoever comes to write, and
 * packed by maintenance (docs/commit.md, "Packed leaves"; rules 42 and 43).
 *
 * Modelled: two rows of a leaf, packed at first, of which the second is not there yet.  Writers
 * look at the leaf (one message: its generation, and the row, from the block or from its field),
 * unpack it if it is packed, and change the first row by a step that compares generation and version.
 * An inserter does the same, and adds the second row.  A split cuts off what lies above both, which raises the
 * generation.  A packer looks at the leaf, and if it is not packed turns what it has
 * seen into a block, by a step that compares all of it.  The replies of an unpacking and of a packing
 * step may be lost, so that it is sent again, and that message may come late, after anything
 * else.  A reader reads block and fields in one message.  A failover takes the leaf back to what
 * was copied; DURABLE: each step waits for its copies before it is believed; PROMPT: no message is late.
 *
 * Abstracted: other rows of the block (they are as the first), intents (a version is what they
 * protect, and for a packer the second row is any field that it has not seen).
 *
 * Claims: whenever it is looked at, each row is there, and no older than the newest version that
 * was acknowledged; nothing is beside a block; the leaf does not get back what was cut off
 * (with copies; and without a failover in any case).
 *
 * run: ci
 * run: ci -DFAILOVER -DPROMPT
 * run: ci -DFAILOVER -DDURABLE
 * run: deep -DFAILOVER
 * mutation: MUT_NO_GENERATION rule 42: the unpacking step does not compare the generation
 * mutation: MUT_BESIDE_BLOCK rule 42: a row is written while the leaf is packed
 * mutation: MUT_SAME_GENERATION rule 42: unpacking leaves the generation as it is
 * mutation: MUT_TWO_STEPS rule 42: the block goes in a step of its own, before the rows are fields
 * mutation: MUT_PACK_NO_GENERATION rule 43: the packing step does not compare the generation
 * mutation: MUT_PACK_NO_ROWS rule 43: the packing step does not compare the rows that it packs
 * mutation: MUT_PACK_NO_COUNT rule 43: the packing step does not compare that nothing else is there
 * mutation: MUT_PACK_SAME_GENERATION rule 43: packing leaves the generation as it is
 * mutation: MUT_PACK_TWO_STEPS rule 43: the rows go in a step of their own, before the block is there
 * mutation: MUT_NO_WAIT -DFAILOVER -DDURABLE rule 17: the step that writes the row is not waited for
 */
#define PACKS	1

byte last_gen = 1;				/* generations are unlike any other */
byte gen = 1;
bit packed = 1;
byte block = 1;					/* the version of the first row in it; 0: not there */
bit block_second;				/* the second row is in it */
byte field;						/* the version of the first row that is a field; 0: none */
bit second;						/* the second row is a field */
bit cut;						/* the leaf ends below what was cut off */

typedef Leaf {
	byte gen;
	bit packed;
	byte block;
	bit block_second;
	byte field;
	bit second;
	bit cut
}
Leaf copied;

byte acknowledged = 1;
bit acknowledged_second;
bit acknowledged_cut;
bit lost;						/* a failover has lost something, without copies */

bit late;						/* an unpacking step is on its way once more: */
byte late_gen, late_new, late_version;
bit late_second, late_cut;
bit late_pack;					/* a packing one */
byte pack_gen, pack_new, pack_version;
bit pack_second, pack_cut;

#ifdef PROMPT
#define may_be_late()	false
#else
#define may_be_late()	(late_gen + pack_gen == 0)
#endif
#define version()	(packed -> block : field)
#define has_second()	(packed -> block_second : second)

inline copy()
{
	copied.gen = gen;
	copied.packed = packed;
	copied.block = block;
	copied.block_second = block_second;
	copied.field = field;
	copied.second = second;
	copied.cut = cut
}

inline copy_if_durable()
{
#ifdef DURABLE
	copy();
#endif
	skip
}

/* The step: compares g, sets n.  v, s, c: what was read with g, in the block and in the meta. */
inline unpack_step(g, n, v, s, c)
{
	if
#ifdef MUT_NO_GENERATION
	:: true ->
#else
	:: gen == g ->
#endif
		field = v;
		second = s;
		cut = c;
		packed = 0;
		block = 0;
		block_second = 0;
		gen = n
	:: else -> skip
	fi
}

#ifdef MUT_PACK_NO_GENERATION
#define pack_generation(g)	true
#else
#define pack_generation(g)	(gen == g)
#endif
#ifdef MUT_PACK_NO_ROWS
#define pack_rows(v, s)	true
#else
#define pack_rows(v, s)	(field == v && (second || !s))
#endif
#ifdef MUT_PACK_NO_COUNT
#define pack_count(s)	true
#else
#define pack_count(s)	((field != 0) + second == 1 + s && !packed)
#endif

/* The other way round: compares all that was read, and that nothing else is there. */
inline pack_step(g, n, v, s, c)
{
	if
	:: pack_generation(g) && pack_rows(v, s) && pack_count(s) ->
		block = v;
		block_second = s;
		cut = c;
		packed = 1;
		field = 0;				/* the fields that were read go */
		second = (s -> 0 : second);
		gen = n
	:: else -> skip
	fi
}

/* The leaf is unpacked if it was packed when it was looked at: then look again. */
inline unpack_or_go_on(again)
{
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
			n = last_gen + 1;
			last_gen = (gen == g -> n : last_gen);
#ifdef MUT_SAME_GENERATION
			n = g;
#endif
			unpack_step(g, n, v, s, c);
			copy_if_durable();
			printf("unpacked\n")
		}
		if
		:: gen == n && may_be_late() ->
			d_step { late = 1; late_gen = g; late_new = n; late_version = v; late_second = s; late_cut = c }
		:: true -> skip
		fi;
		goto again
	:: else -> skip
	fi;
#endif
	skip
}

inline look_at()
{
	d_step {
		g = gen;
		p = packed;
		v = version();
		s = has_second();
		c = cut
	}
}

proctype writer()
{
	byte g, v, n;
	bit p, s, c;

look:
	look_at();
	unpack_or_go_on(look);
	d_step {
		if
		:: gen == g && (p || field == v) ->
			field = v + 1;
#ifndef MUT_NO_WAIT
			copy_if_durable();
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

proctype inserter()
{
	byte g, v, n;
	bit p, s, c;

look:
	look_at();
	unpack_or_go_on(look);
	d_step {
		if
		:: gen == g && !second ->
			second = 1;
			copy_if_durable();
			n = 0
		:: else -> n = 1
		fi
	}
	if
	:: n == 1 -> goto look
	:: else -> d_step { acknowledged_second = !lost; printf("inserted\n") }
	fi
}

/* The last step of a split; those before it are as this one to all others. */
proctype splitter()
{
	byte g, v, n;
	bit p, s, c;

look:
	look_at();
	unpack_or_go_on(look);
	d_step {
		if
		:: gen == g ->
			last_gen++;
			gen = last_gen;
			cut = 1;
			copy_if_durable();
			n = 0
		:: else -> n = 1
		fi
	}
	if
	:: n == 1 -> goto look
	:: else -> d_step { acknowledged_cut = !lost; printf("cut\n") }
	fi
}

proctype packer()
{
	byte g, v, n;
	byte packs;
	bit p, s, c;

	do
	:: packs < PACKS ->
		packs++;
		look_at();
		if
		:: !p ->
#ifdef MUT_PACK_TWO_STEPS
			d_step {
				if
				:: gen == g && field == v && second == s -> field = 0; second = 0
				:: else -> skip
				fi
			}
#endif
			d_step {
				n = last_gen + 1;
				last_gen = (gen == g -> n : last_gen);
#ifdef MUT_PACK_SAME_GENERATION
				n = g;
#endif
				pack_step(g, n, v, s, c);
				copy_if_durable();
				printf("packed\n")
			}
			if
			:: gen == n && may_be_late() ->
				d_step { late_pack = 1; pack_gen = g; pack_new = n; pack_version = v; pack_second = s; pack_cut = c }
			:: true -> skip
			fi
		:: else -> skip
		fi
	:: true -> break
	od
}

/* What is late changes nothing, or what it would have changed. */
proctype network()
{
	do
	:: late ->
		d_step {
			unpack_step(late_gen, late_new, late_version, late_second, late_cut);
			late = 0;
			printf("unpacked by a late message\n")
		}
	:: late_pack ->
		d_step {
			pack_step(pack_gen, pack_new, pack_version, pack_second, pack_cut);
			late_pack = 0;
			printf("packed by a late message\n")
		}
	od
}

proctype reader()
{
	atomic {
		assert(version() > 0);
		assert(!packed || (field == 0 && !second));
		assert(lost || version() >= acknowledged);
		assert(lost || has_second() || !acknowledged_second);
		assert(lost || cut || !acknowledged_cut)
	}
}

#ifdef FAILOVER
proctype failover()
{
	d_step {
#ifndef DURABLE
		lost = lost || gen != copied.gen || field != copied.field || second != copied.second;
#endif
		gen = copied.gen;
		packed = copied.packed;
		block = copied.block;
		block_second = copied.block_second;
		field = copied.field;
		second = copied.second;
		cut = copied.cut;
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
		copy();
		run writer();
		if
		:: run inserter()
		:: run splitter()
		:: run writer()
		fi;
		run packer();
		run network();
		run reader();
#ifdef FAILOVER
		run failover();
		run replica();
#endif
	}
}
