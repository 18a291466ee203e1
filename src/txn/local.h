/*
 * local.h: PostgreSQL's own half of a commit.
 *
 * Layer: txn.  What PostgreSQL does between the pre-commit callback and its commit
 * record may fail; docs/commit.md lists it ("PostgreSQL's own commit").
 */
#ifndef MOSQL_LOCAL_H
#define MOSQL_LOCAL_H

#include "base/base.h"

/* ON COMMIT actions, before it is known what there is to commit.  May throw. */
extern void mosql_local_act(void);

/*
 * Locks that PostgreSQL's commit takes, before anything is placed in Redis: true.  May wait,
 * and throw.  wait false: true if it takes none.
 */
extern bool mosql_local_lock(bool wait);

/* To wait for a lock in Redis, with nothing in place there: they are taken again after that. */
extern void mosql_local_unlock(void);

/*
 * A commit begins: from here on interrupts are held, and served by our own waits alone, by
 * an ERROR what would be FATAL.  It ends with mosql_local_end(), or, in the middle of
 * PostgreSQL's transaction, with mosql_local_leave().
 */
extern void mosql_local_begin(void);
extern void mosql_local_leave(void);

/* In a PG_CATCH: interrupts are held again, and served by nobody. */
extern void mosql_local_catch(void);

/*
 * What else may refuse to commit does it here: throws what COMMIT would throw later.
 * Called again it does no harm, and takes no time.
 */
extern void mosql_local_check(void);

/*
 * statement_timeout was switched off when the statement was over, but what waits now is the
 * statement's: on again for what is left of it.  True if it was off, and the caller ends it.
 */
extern bool mosql_local_resume_timeout(void);
extern void mosql_local_end_timeout(void);

/*
 * The decision comes: an interrupt that is there already is served now, all later
 * ones when the transaction has ended.  resume: it was refused, nothing is decided.
 */
extern void mosql_local_hold(void);
extern void mosql_local_resume(void);

/*
 * It is decided.  An error between now and the end of PostgreSQL's transaction is
 * 08007, and says what was committed.
 */
extern void mosql_local_decided(void);

/* Ours is done, and other extensions may come: they may be interrupted. */
extern void mosql_local_others(void);

/* The callbacks of PostgreSQL's commit and abort: errors mean what they say again. */
extern void mosql_local_ends(void);

/* And at their end. */
extern void mosql_local_end(bool committed);

#endif							/* MOSQL_LOCAL_H */
