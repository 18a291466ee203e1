/*
 * sockets.h: Redis servers that answer from the fuzzer's input.
 *
 * Linked with --wrap, the client's system calls end here: every name resolves,
 * what was sent is forgotten, and what is received, on whatever connection,
 * comes out of the input in pieces: 2 bytes length and bytes (fuzz.h); an empty
 * piece closes the connection.  At the end of the input nobody can be reached.
 * Time passes only by waiting, so that timeouts cost nothing.
 */
#ifndef SOCKETS_H
#define SOCKETS_H

#include "fuzz.h"
#include "redis/redis.h"

/* A client whose servers answer with `first` and then with the input. */
extern MosqlRedis *sockets_open(const MosqlRedisConfig *config, const char *first, MosqlBytes *in);

/* What the clock says (time.c). */
extern int64 fuzz_now_us;

/* All sockets are closed again. */
extern bool sockets_closed(void);

#endif							/* SOCKETS_H */
