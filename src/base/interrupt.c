/*
 * interrupt.c: CHECK_FOR_INTERRUPTS(), also for waits in the middle of a commit.
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
