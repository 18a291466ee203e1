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
	int			happened;		/* so many did */
} FaultOptions;
extern FaultOptions fault_options;

/* Start the clients and, if `faults`, let things happen to them until then. */
extern void fault_start(bool faults, int64 until_us);
extern void fault_stop(void);
extern void fault_sent(SimFrontEnd *fe);
extern bool fault_someone_is_busy(void);

/* The i-th client or maintainer, alive or not; NULL behind the last. */
extern SimFrontEnd *fault_client(int i);

/* When something happened last that a transaction may fail for, and for how long it may. */
extern int64 fault_disturbs_until_us;

#endif							/* FAULT_H */
