/*
 * fuzz.h: what all fuzzers share.
 *
 * A fuzzer is a file fuzz_<name>.c with fuzz_one(), which gets one input, and
 * the SQLSTATEs that bad input may end with.  Any other error is a bug, as are
 * failed assertions and what the sanitizers find.  MUST() states what holds
 * for every input.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "pgstub.h"

#include "base/base.h"

/* In a memory context of its own; the bytes end where their memory ends. */
extern void fuzz_one(MosqlBytes in);

/* SQLSTATEs that fuzz_one() may throw, 0 at the end. */
extern const int fuzz_errors[];

#define MUST(condition) \
	do { \
		if (!(condition)) \
			fuzz_broken(#condition, __FILE__, __LINE__); \
	} while (0)

extern void fuzz_broken(const char *what, const char *file, int line) pg_attribute_noreturn();

/* A number that depends on all of the input: for choices beside its bytes. */
extern uint64 fuzz_hash(MosqlBytes in);

/* The next byte of the input; 0 at its end. */
static inline uint8
fuzz_byte(MosqlBytes *in)
{
	if (in->len == 0)
		return 0;
	in->len--;
	return (uint8) *in->data++;
}

/* A copy in memory of exactly its size, so that the sanitizer sees overruns. */
static inline MosqlBytes
fuzz_tight(MosqlBytes b)
{
	char	   *p = palloc(b.len);

	if (b.len > 0)
		memcpy(p, b.data, b.len);
	return mosql_bytes(p, b.len);
}

/* The next run of bytes: 2 bytes length (cut to what is left), bytes. */
static inline MosqlBytes
fuzz_run(MosqlBytes *in)
{
	size_t		len = (size_t) fuzz_byte(in) << 8;
	MosqlBytes	run;

	len |= fuzz_byte(in);
	len = Min(len, in->len);
	run = fuzz_tight(mosql_bytes(in->data, len));
	in->data += len;
	in->len -= len;
	return run;
}

#endif							/* FUZZ_H */
