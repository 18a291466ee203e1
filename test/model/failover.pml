/*
 * failover.pml: commits under failovers, durability `replicated`.
 *
 * Modelled: two leaves with a row each and the clock, each with a replica that lags; a
 * transaction of two attempts that writes both rows; a helper that resolves what it
 * meets; or, with SESSIONS, two clients that draw a session id; FAILOVERS failovers
 * anywhere, of anything.  WAIT copies a part to its replica, or fails if it failed over since.
 *
 * Abstracted: leaves do not split (treefail.pml).  Time: a counter that failovers
 * do not take back (MUT_SKEW does).
 *
 * Claims: what a client was told is committed stays decided, and is found in both rows
 * by whoever reads them with the clock's help, in both or in none; nothing undecided
 * is applied; nobody gets a session id twice; timestamps never go backwards.
 *
 * run: ci -DFAILOVERS=1
 * run: ci -DFAILOVERS=1 -DSESSIONS
 * run: deep -DFAILOVERS=2
 * mutation: MUT_NW_PREPARE rule 17: no WAIT between prepare and decide
 * mutation: MUT_NW_DECIDE rule 17: no WAIT between decide and the answer, and apply
 * mutation: MUT_NW_ANSWER rule 17: the client is answered before the decision is replicated
 * mutation: MUT_NW_HELP rule 18: a helper applies what it found decided, without touch and WAIT
 * mutation: MUT_NW_APPLY rule 17: the record is dropped before the applies are replicated
 * mutation: MUT_NW_ABORT rule 18: intents are removed before "aborted" is replicated
 * mutation: MUT_NW_OPEN -DFAILOVERS=1 -DSESSIONS rule 17: a session id is used before it is replicated
 * mutation: MUT_SKEW rule 16: the new primary's time is behind
 */
#define NONE 0
#define COMMITTED 1
#define ABORTED 2

byte row[2], intent[2];			/* attempts 1, 2 */
byte r_row[2], r_intent[2];		/* what the replicas have */
byte record[3], stamp[3], last = 1, ids;
byte r_record[3], r_stamp[3], r_last = 1, r_ids;
byte epoch[3];					/* leaves 0, 1; 2: the clock */

byte told;						/* attempt that the client was told is committed */
byte issued;					/* greatest timestamp acted upon */
bool over;						/* the transaction has dropped its record */
byte newer[2];					/* ids in use */

inline wait_leaf(k, e, ok)
{
	d_step {
		ok = (epoch[k] == e);
		if
		:: ok -> r_row[k] = row[k]; r_intent[k] = intent[k]
		:: else
		fi
	}
}

inline wait_clock(e, ok)
{
	d_step {
		ok = (epoch[2] == e);
		if
		:: ok ->
			r_record[1] = record[1]; r_record[2] = record[2];
			r_stamp[1] = stamp[1]; r_stamp[2] = stamp[2];
			r_last = last; r_ids = ids
		:: else
		fi
	}
}

/* The row is new for whoever asks the clock. */
#define is_new(k) (row[k] != 0 || (intent[k] != 0 && record[intent[k]] == COMMITTED))
#define check() assert(told == 0 || (is_new(0) && is_new(1)))

inline apply(k, x)
{
	d_step {
		if
		:: intent[k] == x -> intent[k] = 0; row[k] = x; printf("%d applies %d to row %d\n", _pid, x, k)
		:: else
		fi;
		e = epoch[k]
	}
}

inline remove(k, x)
{
	d_step {
		if
		:: intent[k] == x -> intent[k] = 0; printf("%d removes %d from row %d\n", _pid, x, k)
		:: else
		fi;
		check();
		e = epoch[k]
	}
}

proctype Owner()
{
	byte x = 0, k = 0, e = 0, ts = 0;
	bool ok = true, known = false;
attempt:
	skip;
	d_step { x++; k = 0; ok = true }
	do
	:: k < 2 && ok ->
		d_step {
			ok = (intent[k] == 0 && row[k] == 0);
			if
			:: ok -> intent[k] = x; printf("prepares %d on row %d\n", x, k)
			:: else
			fi;
			e = epoch[k]
		}
#ifndef MUT_NW_PREPARE
		if
		:: ok -> wait_leaf(k, e, ok)
		:: else
		fi;
#endif
		k++
	:: else -> break
	od;
	if
	:: ok ->
		d_step {
			if
			:: record[x] == NONE ->
				last++; record[x] = COMMITTED; stamp[x] = last;
				printf("decides %d at %d\n", x, last)
			:: else -> ok = false
			fi;
			e = epoch[2]; ts = stamp[x]
		}
#ifdef MUT_NW_ANSWER
		if
		:: ok -> d_step { told = x; check() }
		:: else
		fi;
#endif
#ifndef MUT_NW_DECIDE
		if
		:: ok ->
			wait_clock(e, ok);
			if
			:: !ok ->			/* lost: settle, and that must be replicated */
				do
				:: true ->
					d_step {
						if
						:: record[x] == NONE -> record[x] = ABORTED
						:: else
						fi;
						ok = (record[x] == COMMITTED); ts = stamp[x];
						e = epoch[2]
					}
					wait_clock(e, known);
					if
					:: known -> break
					:: else
					fi
				od;
				known = false
			:: else
			fi
		:: else
		fi
#endif
	:: else
	fi;
	if
	:: ok ->
		d_step { told = x; assert(ts > issued); issued = ts; check() }
		k = 0;
		do
		:: k < 2 ->
			apply(k, x);
#ifdef MUT_NW_APPLY
			ok = true;
#else
			wait_leaf(k, e, ok);
#endif
			if
			:: ok -> k++
			:: else
			fi
		:: else -> break
		od;
		skip;
		d_step { record[x] = NONE; over = true; check() }
	:: else ->
		remove(0, x);
		remove(1, x);
		if
		:: x == 1 -> goto attempt
		:: else
		fi
	fi;
	d_step { x = 0; k = 0; e = 0; ts = 0 }
}

proctype Helper()
{
	byte x = 0, k = 0, e = 0, r = 0;
	bool ok = false;
	do
	:: atomic {
			if
			:: k = 0
			:: k = 1
			fi;
			intent[k] != 0 -> x = intent[k] }
		d_step { r = record[x]; e = epoch[2] }
		if
		:: r == NONE ->
			if
			:: intent[k] == x ->
				d_step {
					if
					:: record[x] == NONE -> record[x] = ABORTED
					:: else
					fi;
					r = record[x]; e = epoch[2]
				}
				/* "committed" is answered, too: then it is somebody else's write */
#ifdef MUT_NW_ABORT
				if
				:: r == ABORTED -> ok = true
				:: else -> wait_clock(e, ok)
				fi
#else
				wait_clock(e, ok)
#endif
			:: else -> ok = false
			fi
		:: else ->
			/* found: somebody else wrote it, so touch and WAIT */
#ifdef MUT_NW_HELP
			ok = true
#else
			d_step { r = record[x]; e = epoch[2] }
			if
			:: r != NONE -> wait_clock(e, ok)
			:: else -> ok = false
			fi
#endif
		fi;
		if
		:: ok && r == COMMITTED -> apply(k, x)
		:: ok && r == ABORTED -> remove(k, x)
		:: else
		fi;
		d_step {
			/* applied is not half of something that was never decided */
			x = 0; k = 0; e = 0; r = 0; ok = false
		}
	od
}

/* Nothing is half there, whatever is lost: both rows say the same of an attempt. */
proctype Observer()
{
	d_step {
		if
		:: row[0] != 0 -> assert(is_new(1))
		:: else
		fi;
		if
		:: row[1] != 0 -> assert(is_new(0))
		:: else
		fi
	}
}

proctype Session(byte who)
{
	byte e = 0, id = 0;
	bool ok = false;
	do
	:: d_step { ids++; id = ids; e = epoch[2] }
#ifdef MUT_NW_OPEN
		ok = true;
#else
		wait_clock(e, ok);
#endif
		if
		:: ok -> break
		:: ids > 4 -> break
		:: else
		fi
	od;
	if
	:: ok -> d_step { newer[who] = id; assert(newer[1 - who] != id) }
	:: else
	fi;
	d_step { e = 0; id = 0; ok = false }
}

proctype Failover()
{
	byte n = 0, x = 0;
	do
	:: n < FAILOVERS ->
		atomic {
			select(x : 0 .. 2);
			if						/* what the replica has by then */
			:: x < 2 -> r_row[x] = row[x]; r_intent[x] = intent[x]
			:: x == 2 ->
				r_record[1] = record[1]; r_record[2] = record[2]; r_stamp[1] = stamp[1];
				r_stamp[2] = stamp[2]; r_last = last; r_ids = ids
			:: true
			fi
		}
		d_step {
			if
			:: x < 2 -> row[x] = r_row[x]; intent[x] = r_intent[x]
			:: else ->
				record[1] = r_record[1]; record[2] = r_record[2]; stamp[1] = r_stamp[1];
				stamp[2] = r_stamp[2]; ids = r_ids;
#ifdef MUT_SKEW
				last = 0
#else
				last = last			/* its server's time is not behind */
#endif
			fi;
			epoch[x]++;
			printf("failover of %d\n", x);
			n++; x = 0;
			check()
		}
	:: else -> break
	od
}

init {
	atomic {
		issued = 1;
		run Failover();
#ifdef SESSIONS
		run Session(0); run Session(1)
#else
		run Owner(); run Helper(); run Observer()
#endif
	}
}
