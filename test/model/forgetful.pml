/*
 * forgetful.pml: a clock that falls back: restarted from an old dump, or a failover
 * without copies (durability `none`).  The leaves do not forget, except in the last part.
 *
 * Modelled: the clock's last timestamp, ids, schema version, name, and records; a dump
 * of them at any time, and falls back to it, after which another process answers, whose
 * time may be a little behind; a front-end that changes definitions twice, the second
 * time by an index that all writers must know from then on; a front-end that lives on
 * with what it had cached, and writes; a waiter that aborts it; sessions that are opened.
 *
 * Abstracted: time passes by one with everything that is issued, so that nobody issues
 * faster than time.  LEAP is more than the times of two servers differ.  Of two falls
 * only the first leads to a server whose time is behind (docs/commit.md: what remains).
 *
 * WHOLE: the rows forget as well, together with the clock (one server), or alone (LEAF).  A
 * process that forgets is another one: its connections break, and who began before sends
 * nothing more of what rests on it (rule 34).  Modelled: a row that is read, another that is
 * written by two attempts with prepare, decide, apply, and the removal of the record, which
 * nothing but the clock's leap holds off (rule 5); a helper that asks the clock and applies.
 * Abstracted: a break is known with the step that it hits; who is lost is not told.  AHEAD, too:
 * a leap counts all the time that passed, where the clock adds half of it (mosql_clock_leap()).
 *
 * STAYS: a process may be followed by another one that has all it had, so that the clock leaps; and then fall back
 * to before that.  Where this is faster than time the clock is behind what it has issued (docs/durability.md, "A Redis that
 * forgot"): timestamps are not looked at.
 *
 * Claims: no session id is drawn twice; timestamps never go back; who decides knows the
 * definitions as they are; what is decided has its intents.  WHOLE: who decides has read nothing
 * that was forgotten since; what is applied is committed; a record goes after its intents.  (LEAF: only that
 * what is decided has its intents; one of several servers that forgets tears holes.)
 *
 * run: ci -DFALLS=1
 * run: ci -DFALLS=2 -DSESSIONS
 * run: deep -DFALLS=2
 * run: ci -DFALLS=3 -DAHEAD
 * run: ci -DFALLS=2 -DWHOLE
 * run: ci -DFALLS=2 -DWHOLE -DLEAF
 * run: ci -DFALLS=3 -DWHOLE -DSTAYS
 * mutation: MUT_COUNT_IDS -DFALLS=1 -DSESSIONS rule 23: ids are counted only
 * mutation: MUT_COUNT_VERSIONS rule 16: versions are counted only
 * mutation: MUT_KEEP_VERSION rule 16: who takes over keeps the version
 * mutation: MUT_NO_LEAP rule 16: who takes over goes on where the dump and its time are
 * mutation: MUT_NO_NAME rule 16: a restart is not told from going on
 * mutation: MUT_IDS_BY_TIME -DFALLS=1 -DSESSIONS rule 23: ids follow the server's time, not the clock's
 * mutation: MUT_SAME_LEAP -DFALLS=3 -DAHEAD rule 16: two that begin with the same state leap to the same value
 * mutation: MUT_LEAP_ALONE -DFALLS=3 -DWHOLE -DSTAYS rule 34: who decides compares when the clock leapt, and not where it is
 * mutation: MUT_NO_FENCE_DECIDE -DFALLS=1 -DWHOLE -DLEAF rule 34: who has prepared decides, whatever broke since
 * mutation: MUT_NO_FENCE_APPLY -DFALLS=1 -DWHOLE rule 34: who has decided applies, whatever broke since
 * mutation: MUT_NO_FENCE_HELP -DFALLS=1 -DWHOLE rule 34: who has found a record applies, whatever broke since
 * mutation: MUT_PREPARE_ANEW -DFALLS=1 -DWHOLE rule 34: who began before the leap prepares anew
 * mutation: MUT_DROP_ANY -DFALLS=1 -DWHOLE rule 5: records of before the leap are dropped
 */
#define NONE 0
#define COMMITTED 1
#define ABORTED 2
#define LEAP 4
#define ATTEMPTS 2

byte now = 1, me = 1;			/* the server: its time, and which process it is */
byte last, ids, version = 1, name = 1, record[3];
byte d_last, d_ids, d_version = 1, d_name = 1, d_record[3];	/* the dump */

bool index;						/* the definition: in a leaf */
byte intents;					/* the attempt of the writer that has placed some */
byte issued, used;				/* greatest ones that were given out */

#if defined(AHEAD) || defined(WHOLE)
byte leapt, took, d_leapt, d_took;	/* where `last` leapt to, and when */
#endif
#ifdef WHOLE
byte base = 1, d_base = 1;		/* a row that is read */
byte row, d_row, d_intents;		/* a row that is written: by which attempt */
byte stamp[3], d_stamp[3];		/* timestamps in the records */
byte breaks;					/* of connections */
#endif

#define max(a, b) (a > b -> a : b)

/* The step of the clock that everything below begins with. */
inline take_over()
{
	now++;
#ifndef MUT_NO_NAME
	if
	:: name != me ->
		name = me;
#if defined(AHEAD) || defined(WHOLE)
#ifndef MUT_SAME_LEAP
		if
		:: leapt > 0 && now > took && last + took < 2 * leapt -> last = last + now - took
		:: else
		fi;
#endif
		leapt = max(last, now) + LEAP;
		took = now;
#endif
#ifndef MUT_NO_LEAP
		last = max(last, now) + LEAP;
#endif
#ifdef MUT_COUNT_VERSIONS
		version++;
#else
#ifndef MUT_KEEP_VERSION
		version = max(version + 1, last);
#endif
#endif
		printf("taken over: last %d, version %d\n", last, version)
	:: else
	fi
#endif
}

inline issue()
{
	last = max(last + 1, now);
#ifndef STAYS
	assert(last > issued);
#endif
	issued = last
}

/* Two changes of definitions: of something else, then an index. */
proctype Builder()
{
	byte v = 0, n = 0;
	do
	:: n < 2 ->
		d_step { take_over(); v = version }
		d_step {
			take_over();
			if
			:: version == v ->
				issue();
#ifdef MUT_COUNT_VERSIONS
				version++;
#else
				version = max(version + 1, last);
#endif
				index = (n == 1);
				printf("definition %d is version %d\n", n, version);
				n++
			:: else
			fi
		}
	:: else -> break
	od;
	skip;
	d_step { v = 0; n = 0 }
}

/* Has been there before: what it knows is of some version, and old by now. */
proctype Writer()
{
	byte v = 0, x = 0;
	bool knows = false;
	d_step { take_over(); v = version; knows = index }
	do
	:: x < ATTEMPTS ->
		d_step { x++; intents = x; printf("prepares %d by version %d\n", x, v) }
		if
		:: d_step {
			take_over();
			if
			:: record[x] == ABORTED -> intents = 0
			:: record[x] == NONE && version != v ->
				intents = 0; v = version; knows = index
			:: else ->
				issue();
				record[x] = COMMITTED;
				printf("decides %d at %d\n", x, last);
				assert(intents == x);
				assert(!index || knows);
				x = ATTEMPTS + 1
			fi
		}
		:: intents = 0		/* it never gets that far */
		fi
	:: else -> break
	od;
	skip;
	d_step { v = 0; x = 0; knows = false }
}

/* Aborts an attempt and takes its intents away. */
proctype Waiter()
{
	byte x = 0, r = 0;
	atomic {
		if
		:: x = 1
		:: x = 2
		fi;
		intents == x
	}
	d_step {
		if
		:: record[x] == NONE -> record[x] = ABORTED
		:: else
		fi;
		r = record[x]
	}
	d_step {
		if
		:: r == ABORTED && intents == x -> intents = 0; printf("aborts %d\n", x)
		:: else
		fi;
		x = 0; r = 0
	}
}

#ifdef WHOLE
/* What broke since a step was made: does this stop the next one? */
#ifdef MUT_NO_FENCE_DECIDE
#define fenced_decide(e) false
#else
#define fenced_decide(e) (breaks != e)
#endif
#ifdef MUT_NO_FENCE_APPLY
#define fenced_apply(e) false
#else
#define fenced_apply(e) (breaks != e)
#endif
#ifdef MUT_NO_FENCE_HELP
#define fenced_help(e) false
#else
#define fenced_help(e) (breaks != e)
#endif

#ifdef MUT_DROP_ANY
#define is_new(ts) true
#else
#define is_new(ts) (ts > leapt)
#endif

/* May the clock have forgotten something since it had this version? */
#ifndef MUT_LEAP_ALONE
#define went_back(since) (leapt > since || version < since)
#else
#define went_back(since) (leapt > since)
#endif

inline apply(x)
{
	if
	:: intents == x ->
#ifndef LEAF
		assert(record[x] == COMMITTED);
#endif
		row = x; intents = 0;
		printf("applies %d\n", x)
	:: else
	fi
}

/* Reads one row, then writes another. */
proctype Owner()
{
	byte v = 0, since = 0, saw = 0, x = 0, e = 0;
	bool decided = false;
	d_step { take_over(); v = version; since = v; saw = base }
	do
	:: !decided && x < ATTEMPTS ->
		d_step {
			if
			:: intents == x -> intents = 0		/* what is left of the attempt before */
			:: else
			fi;
			x++; e = breaks;
			if
			:: intents == 0 -> intents = x; printf("prepares %d by version %d\n", x, v)
			:: else
			fi
		}
		d_step {
			take_over();
			if
			:: fenced_decide(e)
			:: !fenced_decide(e) && record[x] == ABORTED
#ifndef MUT_PREPARE_ANEW
			:: !fenced_decide(e) && record[x] == NONE && went_back(since) -> x = ATTEMPTS	/* 40001 */
			:: !fenced_decide(e) && record[x] == NONE && !went_back(since) && version != v -> v = version
			:: !fenced_decide(e) && record[x] == NONE && !went_back(since) && version == v ->
#else
			:: !fenced_decide(e) && record[x] == NONE && version != v -> v = version
			:: !fenced_decide(e) && record[x] == NONE && version == v ->
#endif
				issue();
				record[x] = COMMITTED; stamp[x] = last;
				printf("decides %d at %d\n", x, last);
				assert(intents == x);
#ifndef LEAF
				assert(base >= saw);
#endif
				decided = true
			fi
		}
	:: else -> break
	od;
	do
	:: decided ->
		if
		:: atomic { !fenced_apply(e) -> apply(x) };
			atomic {
				take_over();
				if
				:: record[x] == COMMITTED && is_new(stamp[x]) ->
					record[x] = NONE;
					printf("drops %d\n", x);
#ifndef LEAF
					assert(intents != x)
#endif
				:: else
				fi;
				decided = false
			}
		:: atomic { fenced_apply(e) -> take_over(); e = breaks; decided = record[x] == COMMITTED }
		fi
	:: else -> break
	od;
	skip;
	d_step { v = 0; since = 0; saw = 0; x = 0; e = 0 }
}

/* Meets intents, asks the clock, applies. */
proctype Helper()
{
	byte x = 0, e = 0, r = 0;
	atomic { intents != 0 -> x = intents; e = breaks }
	d_step { if :: !fenced_help(e) -> r = record[x] :: else fi }
	d_step {
		if
		:: r == COMMITTED && !fenced_help(e) -> apply(x)
		:: else
		fi;
		x = 0; e = 0; r = 0
	}
}

/* What the owner reads is changed, by a whole transaction. */
proctype Other()
{
	d_step { take_over(); issue(); base = 2 }
}
#endif

#ifdef AHEAD
proctype Issuer()
{
	byte n = 0;
	do
	:: n < 3 -> d_step { take_over(); issue(); n++; printf("issues %d\n", last) }
	:: else -> break
	od;
	n = 0
}
#endif

proctype Session()
{
	d_step {
		take_over();
#ifdef MUT_COUNT_IDS
		ids++;
#else
#ifdef MUT_IDS_BY_TIME
		ids = max(ids + 1, now);
#else
		ids = max(ids + 1, max(now, last));
#endif
#endif
		printf("session %d\n", ids);
		assert(ids > used);
		used = ids
	}
}

proctype Dump()
{
	d_step {
		d_last = last; d_ids = ids; d_version = version; d_name = name;
		d_record[1] = record[1]; d_record[2] = record[2];
#if defined(AHEAD) || defined(WHOLE)
		d_leapt = leapt; d_took = took;
#endif
#ifdef WHOLE
		d_base = base; d_row = row; d_intents = intents;
		d_stamp[1] = stamp[1]; d_stamp[2] = stamp[2];
#endif
		printf("dump\n")
	}
}

proctype Fall()
{
	byte n = 0;
	do
#ifdef LEAF
	:: n < FALLS -> d_step { n++; row = d_row; intents = d_intents; breaks++; printf("the leaf falls back\n") }
#endif
#ifdef STAYS
	:: n < FALLS -> d_step { n++; me++; breaks++; printf("another process answers, and has it all\n") }
#endif
	:: n < FALLS ->
		atomic {
			n++;
			if
			:: now++			/* it took its time */
			:: n == 1 && now > 2 -> now = now - 2	/* another server, whose time is behind */
			fi;
			d_step {
				last = d_last; ids = d_ids; version = d_version; name = d_name;
				record[1] = d_record[1]; record[2] = d_record[2];
				me++;
#if defined(AHEAD) || defined(WHOLE)
				leapt = d_leapt; took = d_took;
#endif
#ifdef WHOLE
				base = d_base; row = d_row; intents = d_intents;
				stamp[1] = d_stamp[1]; stamp[2] = d_stamp[2];
				breaks++;
#endif
				printf("falls back: last %d, ids %d, version %d, now %d\n", last, ids, version, now)
			}
		}
	:: else -> break
	od;
	n = 0
}

init {
	atomic {
		run Dump(); run Fall();
#ifdef SESSIONS
		run Session(); run Session(); run Session(); run Session()
#else
#ifdef WHOLE
		run Owner(); run Helper(); run Waiter(); run Other()
#else
#ifdef AHEAD
		run Issuer()
#else
		run Builder(); run Writer(); run Waiter()
#endif
#endif
#endif
	}
}
