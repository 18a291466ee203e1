/*
 * fault.h: what goes wrong, and who is there to suffer.
 */
#ifndef FAULT_H
#define FAULT_H

#include "work.h"

/* Which of the seed's faults happen. */
typedef struct FaultOptions
{
	int			first;			/* only so many */
	int			nwithout;		/* not these numbers */
	int			without[1000];
	const char *only;			/* names; NULL: all */
	const char *aim;			/* at sites with one of these in their names; NULL: at any */
	const char *before;			/* what was done at these is lost when somebody comes there; NULL: at any */
	int			happened;		/* so many did */
} FaultOptions;
extern FaultOptions fault_options;

/* Start the clients and, if `faults`, let things happen to them until then. */
extern void fault_start(bool faults, int64 until_us);
extern void fault_stop(void);
extern void fault_sent(SimFrontEnd *fe);
extern bool fault_someone_is_busy(void);

/* For aim.c: may things still happen?  What does, to whom is hit. */
extern bool fault_go_on(void);
extern void fault_lose_primary(SimShard *shard);
extern void fault_stop_client(SimFrontEnd *fe);
extern void fault_kill_client(SimFrontEnd *fe);

/* What becomes of a message that somebody has aimed at. */
typedef struct AimStrike
{
	int64		late_us;		/* it arrives later by that, */
	bool		breaks;			/* over a connection that has broken, or breaks; */
	bool		loses;			/* what it does will be lost, */
	int64		dies_after_us;	/* with its server */
} AimStrike;

extern bool aim_may_lose(void);
extern void aim_lose(void);
extern void aim_late(void);
extern AimStrike aim_sent(SimFrontEnd *fe, SimShard *shard);
extern void aim_arrives(SimShard *shard, int64 dies_after_us);

/* The i-th client or maintainer, alive or not; NULL behind the last. */
extern SimFrontEnd *fault_client(int i);

/* When something happened last that a transaction may fail for, and for how long it may. */
extern int64 fault_disturbs_until_us;

#endif							/* FAULT_H */
