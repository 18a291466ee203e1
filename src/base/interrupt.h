/*
 * interrupt.h: waits that may be ended, in a commit by an ERROR.
 *
 * PostgreSQL answers pg_terminate_backend(), a fast shutdown, or a client that is gone
 * with FATAL, which runs no PG_CATCH: what a commit has placed in Redis would stay.  So
 * while one is under way interrupts are held, and what is set here serves them in its
 * waits, with an ERROR in place of FATAL (txn/local.c).
 */
#ifndef MOSQL_INTERRUPT_H
#define MOSQL_INTERRUPT_H

#include "base/base.h"

typedef void (*MosqlServeInterrupts) (void);

extern MosqlServeInterrupts mosql_serve_interrupts;	/* NULL: as ever */

/* CHECK_FOR_INTERRUPTS(), in every wait. */
extern void mosql_check_interrupts(void);

/*
 * For what must not fail its caller, and does not take long: its waits are bounded by timeouts.
 * Interrupts are held meanwhile, and an error is forgotten: false.  The memory context is the
 * caller's afterwards.  The stack of errors is emptied by an error: abort callbacks may call it,
 * for core has reported theirs by then, or copied it.
 */
extern bool mosql_do_quietly(void (*work) (void *arg), void *arg);

#endif							/* MOSQL_INTERRUPT_H */
