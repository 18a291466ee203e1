/*
 * interrupt.h: waits that may be ended, by an ERROR where something is to be taken back.
 *
 * PostgreSQL answers pg_terminate_backend(), and a fast shutdown, with FATAL, which runs
 * no PG_CATCH.  While mosql_ends_with_error is set, a termination that arrives in a wait
 * raises an ERROR with the same SQLSTATE (57P01) instead: whoever set it tidies up, the
 * transaction is rolled back, and PostgreSQL ends the session before its next command.
 */
#ifndef MOSQL_INTERRUPT_H
#define MOSQL_INTERRUPT_H

#include "base/base.h"

extern bool mosql_ends_with_error;

/* CHECK_FOR_INTERRUPTS(), in every wait. */
extern void mosql_check_interrupts(void);

#endif							/* MOSQL_INTERRUPT_H */
