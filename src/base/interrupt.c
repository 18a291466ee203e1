/*
 * interrupt.c: CHECK_FOR_INTERRUPTS() for waits in the middle of a commit.
 *
 * Layer: base.
 */
#include "base/interrupt.h"

bool		mosql_ends_with_error = false;

void
mosql_check_interrupts(void)
{
	if (mosql_ends_with_error && ProcDiePending && InterruptHoldoffCount == 0 &&
		CritSectionCount == 0)
		ereport(ERROR,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("terminating connection due to administrator command")));
	CHECK_FOR_INTERRUPTS();
}
