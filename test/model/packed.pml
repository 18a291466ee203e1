/*
 * packed.pml: a leaf whose rows are one block, beside which rows that are written or inserted become fields; which
 * is unpacked by whoever comes to delete, and packed by maintenance, and of which both may be certified as a range
 * (docs/commit.md, "Packed leaves", "Beside a block"; rules 42 to 44, 49).
 *
 * Modelled: two rows of a leaf, packed at first; the second is there or not.  Writers
 * look at the leaf (one message: its generation, the row's field and the block), and change the first row: by
 * a step that places an intent, and brings the row out if it is in the block alone, and one that applies
 * it; or by one step.  A deleter unpacks the leaf if it is packed, places an intent, and applies it, which
 * leaves nothing.  An inserter adds the second row if it is absent: beside the block, if that has none, or he unpacks first, as
 * who brings many does.  A split unpacks, and cuts off what lies above both, which raises the
 * generation.  A certifier draws a snapshot, and has read both rows at that; at some time after it he looks at the leaf, and
 * if its block has nothing newer, or there is none, he places a mark, by a step that compares that no field is newer, nor is an intent
 * there, nor was anything purged since; else he unpacks it first.  While there is a mark nobody else places an intent, nor
 * writes.  A packer looks at the leaf, and if it is not packed, or has fields beside its block, turns what it has
 * seen into a block, by a step that compares all of it.  The replies of an unpacking and of a packing
 * step may be lost, so that it is sent again, and that message may come late, after anything
 * else; so may a step that brings a row out, whose attempt has been given up.  A reader reads block and
 * fields in one message.  A failover takes the leaf back to what
 * was copied; DURABLE: each step waits for its copies before it is believed; PROMPT: no message is late.
 *
 * Abstracted: other rows of the block (they are as the first); what a late intent does (nobody
 * decides it, and a waiter takes it away); the generation in applies, which look where the row is by now; timestamps,
 * which are versions here, and the purge mark, which is that the first row is deleted.
 *
 * Claims: whenever it is looked at, the first row is there until it is deleted, and then never again, and no
 * older than the newest version that was acknowledged; the second is added once; the leaf does not get back
 * what was cut off (with copies; and without a failover in any case).  When the certifier decides both rows are as
 * they were at his snapshot.
 *
 * run: ci
 * run: ci -DFAILOVER -DPROMPT
 * run: ci -DFAILOVER -DDURABLE
 * run: deep -DFAILOVER
 * mutation: MUT_NO_GENERATION rule 42: the unpacking step does not compare the generation
 * mutation: MUT_SAME_GENERATION rule 42: unpacking leaves the generation as it is
 * mutation: MUT_TWO_STEPS rule 42: the block goes in a step of its own, before the rows are fields
 * mutation: MUT_UNPACK_OVER rule 42: unpacking writes over rows that are fields
 * mutation: MUT_UNPACK_AS_SEEN -DFAILOVER -DPROMPT rule 42: unpacking leaves out rows that were fields when the leaf was read
 * mutation: MUT_PACK_NO_GENERATION rule 43: the packing step does not compare the generation
 * mutation: MUT_PACK_NO_ROWS rule 43: the packing step does not compare the rows that it packs
 * mutation: MUT_PACK_NO_COUNT rule 43: the packing step does not compare that nothing else is there
 * mutation: MUT_PACK_SAME_GENERATION rule 43: packing leaves the generation as it is
 * mutation: MUT_PACK_TWO_STEPS rule 43: the rows go in a step of their own, before the block is there
 * mutation: MUT_BRING_OVER rule 44: a row is brought out over a field that is there
 * mutation: MUT_BRING_NO_GENERATION rule 44: the step that brings a row out does not compare the generation
 * mutation: MUT_DELETE_BESIDE rule 44: a row is deleted beside a block that has it
 * mutation: MUT_INSERT_BLIND rule 44: a row counts as absent that is in the block
 * mutation: MUT_INSERT_NO_GENERATION rule 44: the step that inserts beside a block does not compare the generation
 * mutation: MUT_CERTIFY_NO_BLOCK rule 49: it is not compared that what the block has is no newer than the snapshot
 * mutation: MUT_CERTIFY_NO_GENERATION rule 49: the step that certifies does not compare the generation
 * mutation: MUT_CERTIFY_NO_FIELDS rule 49: it does not compare that no field beside the block is newer
 * mutation: MUT_CERTIFY_NO_INTENT rule 49: it does not compare that there is no intent
 * mutation: MUT_CERTIFY_NO_PURGE rule 49: it does not compare the purge mark
 * mutation: MUT_CERTIFY_NO_MARK rule 13: it leaves no mark
 * mutation: MUT_WRITE_OVER_MARK rule 13: who writes beside the block does not compare that there is no mark
 * mutation: MUT_INSERT_OVER_MARK rule 13: who inserts beside the block does not compare that there is no mark
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
byte intent;					/* on the first row: 1 + the process; 0: none */
bit mark;						/* a read mark */
bit deleted;
bit cut;						/* the leaf ends below what was cut off */

typedef Leaf {
	byte gen;
	bit packed;
	byte block;
	bit block_second;
	byte field;
	bit second;
	byte intent;
	bit mark;
	bit deleted;
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
byte pack_gen, pack_new, pack_version, pack_field;
bit pack_has_second, pack_second, pack_cut;
bit late_bring;					/* one that brings a row out */
byte bring_gen, bring_version, bring_row;

#ifdef PROMPT
#define may_be_late()	false
#else
#define may_be_late()	(late_gen + pack_gen + bring_gen == 0)
#endif
#define version()	(field != 0 -> field : (packed -> block : 0))
#define has_second()	(second || (packed && block_second))

inline copy()
{
	copied.gen = gen;
	copied.packed = packed;
	copied.block = block;
	copied.block_second = block_second;
	copied.field = field;
	copied.second = second;
	copied.intent = intent;
	copied.mark = mark;
	copied.deleted = deleted;
	copied.cut = cut
}

inline copy_if_durable()
{
#ifdef DURABLE
	copy();
#endif
	skip
}

/*
 * The step: compares g, sets n.  v, s, c: what was read with g, in the block and in the meta.  What is a
 * field stays as it is.
 */
inline unpack_step(g, n, v, s, c)
{
	if
#ifdef MUT_NO_GENERATION
	:: true ->
#else
	:: gen == g ->
#endif
#ifdef MUT_UNPACK_OVER
		field = v;
#else
		field = (field == 0 -> v : field);
#endif
		second = second || s;
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
#define pack_rows(f, fs)	true
#else
#define pack_rows(f, fs)	(field == f && (second || !fs))
#endif
#ifdef MUT_PACK_NO_COUNT
#define pack_count(f, fs)	true
#else
#define pack_count(f, fs)	((field != 0) + second + (intent != 0) + mark == (f != 0) + fs)
#endif

/* The other way round: compares all that was read (f, fs: the fields), and that nothing else is there. */
inline pack_step(g, n, v, s, f, fs, c)
{
	if
	:: pack_generation(g) && pack_rows(f, fs) && pack_count(f, fs) ->
		block = v;
		block_second = s;
		cut = c;
		packed = 1;
		field = 0;				/* the fields that were read go */
		second = (fs -> 0 : second);
		gen = n
	:: else -> skip
	fi
}

/* The leaf is unpacked if it was packed when it was looked at: then look again. */
inline unpack_or_go_on(again)
{
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
#ifdef MUT_UNPACK_AS_SEEN
			b = (f != 0 -> 0 : b);
#endif
			unpack_step(g, n, b, bs, c);
			copy_if_durable();
			printf("unpacked\n")
		}
		if
		:: gen == n && may_be_late() ->
			d_step { late = 1; late_gen = g; late_new = n; late_version = b; late_second = bs; late_cut = c }
		:: true -> skip
		fi;
		goto again
	:: else -> skip
	fi;
	skip
}

/* b, bs: what is in the block, 0 if there is none; f, fs: what is a field. */
inline look_at()
{
	d_step {
		g = gen;
		p = packed;
		b = (packed -> block : 0);
		bs = packed && block_second;
		f = field;
		fs = second;
		v = version();
		s = has_second();
		c = cut
	}
}

#ifdef MUT_WRITE_OVER_MARK
#define is_unmarked()	true
#else
#define is_unmarked()	(mark == 0)
#endif

/* The first row is there in version v: in a field, or in none and in the block, as it was read with g. */
#ifdef MUT_BRING_NO_GENERATION
#define is_as_read(g, v, b)	((gen == g || b != 0) && intent == 0 && is_unmarked() && (field == 0 -> b : field) == v)
#else
#define is_as_read(g, v, b)	(gen == g && intent == 0 && is_unmarked() && (field == 0 -> b : field) == v)
#endif

inline bring_out(b)
{
#ifdef MUT_BRING_OVER
	field = (b != 0 -> b : field)
#else
	field = (field < b -> b : field)
#endif
}

/* The reply: what was lost before it is not acknowledged. */
inline acknowledge()
{
	d_step {
		if
		:: acknowledged < v + 1 && !lost -> acknowledged = v + 1
		:: else -> skip
		fi;
		printf("wrote version %d\n", v + 1)
	}
}

proctype writer(byte me)
{
	byte g, v, n, b, f;
	bit p, s, c, bs, fs;

look:
	look_at();
	if
	:: v == 0 -> goto done		/* it is deleted */
	:: else -> skip
	fi;
	if
	:: d_step {					/* in one step */
			if
			:: is_as_read(g, v, b) ->
				field = v + 1;
#ifndef MUT_NO_WAIT
				copy_if_durable();
#endif
				n = 0
			:: else -> n = 1
			fi
		}
	:: d_step {
			if
			:: is_as_read(g, v, b) ->
				bring_out(b);
				intent = me;
				copy_if_durable();
				n = 2
			:: else -> n = 1
			fi
		}
	:: p && may_be_late() ->	/* nobody knows; given up */
		d_step { late_bring = 1; bring_gen = g; bring_version = v; bring_row = b; n = 1 }
	fi;
	if
	:: n == 1 -> goto look
	:: n == 2 ->
		d_step {
			if
			:: intent == me -> field = v + 1; intent = 0;
#ifndef MUT_NO_WAIT
				copy_if_durable();
#endif
				n = 0
			:: else -> skip
			fi
		}
	:: else -> skip
	fi;
	if
	:: n == 0 -> acknowledge()
	:: else -> skip
	fi;
done:
	skip
}

proctype deleter(byte me)
{
	byte g, v, n, b, f;
	bit p, s, c, bs, fs;

look:
	look_at();
#ifndef MUT_DELETE_BESIDE
	unpack_or_go_on(look);
#endif
	d_step {
		if
		:: is_as_read(g, v, b) -> bring_out(b); intent = me; copy_if_durable(); n = 0
		:: else -> n = 1
		fi
	}
	if
	:: n == 1 -> goto look
	:: else -> skip
	fi;
	d_step {
		if
		:: intent == me -> field = 0; intent = 0; deleted = 1; copy_if_durable(); printf("deleted\n")
		:: else -> skip
		fi
	}
}

#ifdef MUT_INSERT_BLIND
#define finds_duplicate()	false
#else
#define finds_duplicate()	(p && bs)
#endif
#ifdef MUT_INSERT_NO_GENERATION
#define insert_generation(g)	true
#else
#define insert_generation(g)	(gen == g)
#endif

#ifdef MUT_INSERT_OVER_MARK
#define insert_unmarked()	true
#else
#define insert_unmarked()	(mark == 0)
#endif

proctype inserter()
{
	byte g, v, n, b, f;
	bit p, s, c, bs, fs;

look:
	look_at();
	if
	:: finds_duplicate() -> goto done
	:: else -> skip
	fi;
	if
	:: true -> skip				/* beside the block, if there is one */
	:: p -> unpack_or_go_on(look)
	fi;
	d_step {
		if
		:: insert_generation(g) && insert_unmarked() && !second ->
			assert(!has_second());
			second = 1;
			copy_if_durable();
			n = 0
		:: gen == g && second -> n = 2	/* a duplicate */
		:: else -> n = 1
		fi
	}
	if
	:: n == 1 -> goto look
	:: n == 0 -> d_step { acknowledged_second = !lost; printf("inserted\n") }
	:: else -> skip
	fi;
done:
	skip
}

#ifdef MUT_CERTIFY_NO_BLOCK
#define block_is_newer()	false
#else
#define block_is_newer()	(b > at_version || (bs && !at_second))
#endif
#ifdef MUT_CERTIFY_NO_GENERATION
#define certify_generation(g)	true
#else
#define certify_generation(g)	(gen == g)
#endif
#ifdef MUT_CERTIFY_NO_FIELDS
#define certify_fields()	true
#else
#define certify_fields()	(field <= at_version && (!second || at_second))
#endif
#ifdef MUT_CERTIFY_NO_INTENT
#define certify_intent()	true
#else
#define certify_intent()	(intent == 0)
#endif
#ifdef MUT_CERTIFY_NO_PURGE
#define certify_purge()	true
#else
#define certify_purge()	(!deleted || at_deleted)
#endif

/* Whoever is refused tries again, or gives up: what is in his way may pass, or not. */
proctype certifier()
{
	byte g, v, n, b, f;
	bit p, s, c, bs, fs;
	byte at_version;			/* at the snapshot */
	bit at_second, at_deleted;

	d_step { at_version = version(); at_second = has_second(); at_deleted = deleted }
look:
	look_at();
	if
	:: block_is_newer() -> unpack_or_go_on(look)
	:: else -> skip
	fi;
	d_step {
		if
		:: certify_generation(g) && certify_fields() && certify_intent() && certify_purge() ->
#ifndef MUT_CERTIFY_NO_MARK
			mark = 1;
#endif
			copy_if_durable();
			n = 0
		:: else -> n = 1
		fi
	}
	if
	:: n == 1 -> goto look
	:: n == 1 -> goto done
	:: n == 0 -> skip
	fi;
	d_step {
		assert(lost || (version() == at_version && has_second() == at_second));
		mark = 0;
		printf("certified version %d\n", at_version)
	}
done:
	skip
}

/* The last step of a split; those before it are as this one to all others. */
proctype splitter()
{
	byte g, v, n, b, f;
	bit p, s, c, bs, fs;

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
	byte g, v, n, b, f;
	byte packs;
	bit p, s, c, bs, fs;

	do
	:: packs < PACKS ->
		packs++;
		look_at();
		if
		:: (!p || f != 0 || fs) && (v != 0 || s) ->
#ifdef MUT_PACK_TWO_STEPS
			d_step {
				if
				:: gen == g && field == f && second == fs -> field = 0; second = 0
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
				pack_step(g, n, v, s, f, fs, c);
				copy_if_durable();
				printf("packed\n")
			}
			if
			:: gen == n && may_be_late() ->
				d_step {
					late_pack = 1; pack_gen = g; pack_new = n; pack_version = v; pack_has_second = s;
					pack_field = f; pack_second = fs; pack_cut = c
				}
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
			pack_step(pack_gen, pack_new, pack_version, pack_has_second, pack_field, pack_second, pack_cut);
			late_pack = 0;
			printf("packed by a late message\n")
		}
	:: late_bring ->
		d_step {
			if
			:: is_as_read(bring_gen, bring_version, bring_row) -> bring_out(bring_row)
			:: else -> skip
			fi;
			late_bring = 0;
			printf("brought out by a late message\n")
		}
	od
}

proctype reader()
{
	atomic {
		assert(deleted == (version() == 0));
		assert(lost || deleted || version() >= acknowledged);
		assert(lost || has_second() || !acknowledged_second);
		assert(lost || cut || !acknowledged_cut)
	}
}

#ifdef FAILOVER
proctype failover()
{
	d_step {
#ifndef DURABLE
		lost = lost || gen != copied.gen || field != copied.field || second != copied.second || mark != copied.mark;
#endif
		gen = copied.gen;
		packed = copied.packed;
		block = copied.block;
		block_second = copied.block_second;
		field = copied.field;
		second = copied.second;
		intent = copied.intent;
		mark = copied.mark;
		deleted = copied.deleted;
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
		if
		:: block_second = 1
		:: skip
		fi;
		copy();
		if
		:: run writer(1); run inserter()
		:: run writer(1); run splitter()
		:: run writer(1); run writer(2)
		:: run writer(1); run deleter(2)
		:: run inserter(); run inserter()
		:: run writer(1); run certifier()
		:: run inserter(); run certifier()
		:: run deleter(2); run certifier()
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
