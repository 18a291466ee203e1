/*
 * forgetful.pml: a clock that falls back: restarted from an old dump, or a failover
 * without copies (durability `none`).  The leaves do not forget.
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
 * Claims: no session id is drawn twice; timestamps never go back; who decides knows the
 * definitions as they are; what is decided has its intents.
 *
 * run: ci -DFALLS=1
 * run: ci -DFALLS=2 -DSESSIONS
 * run: deep -DFALLS=2
 * mutation: MUT_COUNT_IDS -DFALLS=1 -DSESSIONS rule 23: ids are counted only
 * mutation: MUT_COUNT_VERSIONS rule 16: versions are counted only
 * mutation: MUT_KEEP_VERSION rule 16: who takes over keeps the version
 * mutation: MUT_NO_LEAP rule 16: who takes over goes on where the dump and its time are
 * mutation: MUT_NO_NAME rule 16: a restart is not told from going on
 * mutation: MUT_IDS_BY_TIME -DFALLS=1 -DSESSIONS rule 23: ids follow the server's time, not the clock's
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

#define max(a, b) (a > b -> a : b)

/* The step of the clock that everything below begins with. */
inline take_over()
{
	now++;
#ifndef MUT_NO_NAME
	if
	:: name != me ->
		name = me;
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
	assert(last > issued);
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
		printf("dump\n")
	}
}

proctype Fall()
{
	byte n = 0;
	do
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
		run Builder(); run Writer(); run Waiter()
#endif
	}
}
