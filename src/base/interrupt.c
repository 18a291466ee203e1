/*
 * interrupt.c: CHECK_FOR_INTERRUPTS(), also for waits in the middle of a commit; and work
 * that is neither interrupted nor fails.
 *
 * Layer: base.
 */
#include "base/interrupt.h"

MosqlServeInterrupts mosql_serve_interrupts = NULL;

void
mosql_check_interrupts(void)
{
	if (mosql_serve_interrupts != NULL)
		mosql_serve_interrupts();
	else
		CHECK_FOR_INTERRUPTS();
}

bool
mosql_do_quietly(void (*work) (void *arg), void *arg)
{
	MemoryContext caller = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount;
	volatile bool done = false;

	HOLD_INTERRUPTS();
	PG_TRY();
	{
		work(arg);
		done = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		InterruptHoldoffCount = held + 1;	/* an error resets it */
	}
	PG_END_TRY();
	RESUME_INTERRUPTS();
	MemoryContextSwitchTo(caller);
	return done;
}
