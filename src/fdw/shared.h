/*
 * shared.h: pieces of shared memory, made by the first process that needs them.
 *
 * Layer: fdw.  Small ones fit in without shared_preload_libraries.
 */
#ifndef MOSQL_SHARED_H
#define MOSQL_SHARED_H

#include "postgres.h"

/*
 * A piece that begins with an LWLock, which is called by the piece's name; else zero, but for
 * what `init` (or NULL) does to it, once.
 */
extern void *mosql_shared_attach(const char *name, Size size, void (*init) (void *piece));

/* The number of this process, below MaxBackends if it is a backend. */
extern int	mosql_shared_my_number(void);

#endif							/* MOSQL_SHARED_H */
