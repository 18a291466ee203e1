/*
 * locks.h: row locks: what is stored (claims.c), and work with them (locks.c).
 */
#ifndef LOCKS_H
#define LOCKS_H

#include "work.h"

/* ---- claims.c ---- */

extern void claims_start(void);
extern bool claims_of_dead(uint64 sid);	/* others may take away what it has */
extern void claims_tell(void);	/* all of them, with --trace */
extern void claims_judge(const SimTx *tx);		/* which is just committed */
extern void claims_deadlock_reported(const SimTx *tx);
extern int64 claims_forgot_us;	/* when a server forgot something about a row's intents */
extern uint64 claims_deadlocks;
extern uint64 claims_waited;

/* Others may have taken its session for dead, and what it holds away. */
extern bool claims_may_be_lost(const SimTx *tx);

/* A lock of the table, or of a number, survives a failover, and an isolated primary grants none. */
extern bool claims_have_copies(void);

/* ---- locks.c ---- */

/* By every seed, but where servers forget by some: so what others of these have found stays. */
extern bool locks_are_played(void);

/* It has locked that row. */
extern void locks_note(struct Client *client, int tree, int key, MosqlBytes bytes, int strength);

extern void locks_statement(struct Client *client);
extern void locks_roll_back(SimTx *tx, const SimTx *before);
extern void locks_failed(SimTx *tx);	/* nothing is let go yet */
extern void locks_let_go(SimTx *tx);
extern void locks_ended(const SimTx *tx);

#endif							/* LOCKS_H */
