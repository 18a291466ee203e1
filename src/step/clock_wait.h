/*
 * clock_wait.h: who waits for whose lock, told to the clock, and cycles of them.
 *
 * Layer: step.  The rule is 33 in docs/commit.md, the model test/model/deadlock.pml:
 *
 *     <ns>:{<ns>.clock}:w    hash: owner, number of its wait -> the row, who is ahead
 *
 * Who waits has queued at the row, then tells it here, then looks for cycles in what
 * all have told, which may be out of date: each edge is looked at where it is, and
 * what is left is reported.  All by WATCH, whatever the engine.
 */
#ifndef MOSQL_CLOCK_WAIT_H
#define MOSQL_CLOCK_WAIT_H

#include "base/base.h"
#include "code/row.h"
#include "step/step.h"

typedef struct MosqlWait
{
	MosqlTxid	owner;
	uint32		number;			/* ascending within the owner */
	uint64		root;			/* of the tree, and */
	MosqlBytes	key;			/* the key, of the row that it waits for */
	int			nahead;
	const MosqlTxid *ahead;		/* owners that it waits for there */
} MosqlWait;

/*
 * Tell a wait, and read all that are told, with this one, in one round trip.  The array
 * is in the current context, ordered by owner, the newest of each.
 */
extern int	mosql_clock_wait(MosqlStepper *clock, const MosqlWait *mine, MosqlWait **waits);

/* A wait is over: it is told no more, so that others look at less.  Detached. */
extern void mosql_clock_wait_over(MosqlStepper *clock, const MosqlWait *mine);

/* All that are told. */
extern int	mosql_clock_waits(MosqlStepper *clock, MosqlWait **waits);

/*
 * Report a cycle (as mosql_waits_cycle() found it): true if all of it is told as it was
 * read; then the wait of cycle[0] is told no more, in the same step, so that nobody else
 * reports this one.
 */
extern bool mosql_clock_deadlock(MosqlStepper *clock, const MosqlWait *waits, const int *cycle,
								 int n);

/* That one waits for the other is told, but not so. */
typedef struct MosqlWaitEdge
{
	MosqlTxid	waiter;
	MosqlTxid	ahead;
} MosqlWaitEdge;

/*
 * A shortest cycle through an owner, without these edges: its waits' places in the
 * array, cycle[0] the owner's own; each waits for the next, the last for the first.
 * Returns its length, 0 if there is none.  `cycle` has room for n.  No round trip.
 */
extern int	mosql_waits_cycle(const MosqlWait *waits, int n, MosqlTxid owner,
							  const MosqlWaitEdge *without, int nwithout, int *cycle);

#endif							/* MOSQL_CLOCK_WAIT_H */
