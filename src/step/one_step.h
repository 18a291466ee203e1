/*
 * one_step.h: a commit that is one step, of what is on the Redis server that has the clock.
 *
 * Layer: step.
 */
#ifndef MOSQL_ONE_STEP_H
#define MOSQL_ONE_STEP_H

#include "step/clock.h"

/* One that is larger goes the ordinary way, so that nobody waits for long behind its script. */
#define MOSQL_ONE_STEP_MAX_ROWS		64
#define MOSQL_ONE_STEP_MAX_BYTES	65536

/*
 * May what this stepper writes be committed so?  With the engine `script`, or on a server that is not part of a cluster; if nobody waits
 * for copies: rows are shown from the step on.
 */
extern bool mosql_one_step_is_possible(const MosqlStepper *clock);

/* Is a node on the server that has the clock, as far as is known?  Always so where there is no cluster. */
extern bool mosql_one_step_reaches(const MosqlStepper *clock, uint64 node);

/*
 * If all compares of the steps hold, and the clock would decide, rows are written at the time that
 * it draws: one script, in which nothing else happens; or WATCH, and a MULTI that does nothing if something
 * else happened, up to eight times.  The steps are those that prepare would send (one read at most, which is
 * returned), with writes of the kinds VERSION, TOMBSTONE, INCREMENT and UNLIST; and MAX before a VERSION or INCREMENT
 * of the same field: what this counts as where it is absent.  The
 * record that stays says "committed", and where the rest is that was prepared, on other servers (args->parts; empty: nothing
 * was); it is dropped like any other.
 *
 * DECIDED: as mosql_clock_decide(), with a list if there is a rest to apply.  LOST: settle it as well.  Whatever else is
 * returned, nothing was written, dropped, or extended.  What the clock refuses it would refuse the ordinary way as well; AT_ONCE:
 * it is to be done that way.  The step of which a compare did not hold is FAILED then, with what was read.
 */
extern MosqlDecision mosql_clock_commit(MosqlStepper *clock, const MosqlDecideArgs *args,
										MosqlStep **steps, int nsteps, MosqlTimestamp *ts,
										MosqlSnapshotList *list, uint64 *schema, MosqlBudget *budget);

/*
 * The value of a MOSQL_WRITE_INCREMENT, for a row whose newest version is live.  Per increment:
 * 4 bytes column, 1 byte width, 8 bytes delta, big-endian.  False if a delta has no room in
 * its column.
 */
extern bool mosql_step_increment(StringInfo out, const MosqlIncrement *inc, int ninc);

/* The increments of such a value, palloc'ed; returns how many. */
extern int	mosql_step_read_increment(MosqlBytes value, MosqlIncrement **inc);

#endif							/* MOSQL_ONE_STEP_H */
