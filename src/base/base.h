/*
 * base.h: what every layer shares: byte strings, limits, interrupts.
 *
 * Layer: base, below all others.  The whole tree except table, fdw, admin and
 * txn/xact.c also compiles and runs without a server, against the small stand-in
 * for PostgreSQL in test/unit/pgstub.c; so these layers use palloc, ereport,
 * StringInfo, memory contexts and latches, and no catalog or executor.
 */
#ifndef MOSQL_BASE_H
#define MOSQL_BASE_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* PostgreSQL 18 has pg_noreturn, in front of the declaration, instead. */
#ifndef pg_attribute_noreturn
#define pg_attribute_noreturn() __attribute__((noreturn))
#endif

/* The next of a row of numbers (xorshift64, Marsaglia 2003); the state is never 0. */
static inline uint64
mosql_random_next(uint64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* How high an entry of a skip list is: one in four of a level is on the next, max at most. */
static inline int
mosql_random_height(uint64 *state, int max)
{
	int			height = 1;

	for (uint64 r = mosql_random_next(state); (r & 3) == 0 && height < max; r >>= 2)
		height++;
	return height;
}

/* A run of bytes that somebody else owns.  data == NULL means "absent". */
typedef struct MosqlBytes
{
	const char *data;
	size_t		len;
} MosqlBytes;

#define MOSQL_ABSENT ((MosqlBytes) {NULL, 0})

static inline MosqlBytes
mosql_bytes(const void *data, size_t len)
{
	return (MosqlBytes) {(const char *) data, len};
}

/* The content of a StringInfo; valid until it is appended to. */
static inline MosqlBytes
mosql_bytes_of(const StringInfoData *buf)
{
	return (MosqlBytes) {buf->data, (size_t) buf->len};
}

/* memcmp order; a prefix sorts before what it begins. */
static inline int
mosql_bytes_compare(MosqlBytes a, MosqlBytes b)
{
	size_t		n = Min(a.len, b.len);
	int			c = n > 0 ? memcmp(a.data, b.data, n) : 0;

	if (c != 0)
		return c;
	return (a.len > b.len) - (a.len < b.len);
}

static inline bool
mosql_bytes_equal(MosqlBytes a, MosqlBytes b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* A copy in the given context (one more byte than len, zeroed). */
static inline MosqlBytes
mosql_bytes_copy(MemoryContext cxt, MosqlBytes b)
{
	char	   *p;

	if (b.data == NULL)
		return b;
	p = MemoryContextAllocHuge(cxt, b.len + 1);
	memcpy(p, b.data, b.len);
	p[b.len] = '\0';
	return (MosqlBytes) {p, b.len};
}

/* initStringInfo with room for `size` bytes: for the many small strings. */
static inline void
mosql_string_init(StringInfo buf, size_t size)
{
	buf->maxlen = (int) Min(size + 1, MaxAllocSize / 2);
	buf->data = palloc(buf->maxlen);
	buf->data[0] = '\0';
	buf->len = 0;
	buf->cursor = 0;
}

/* For qsort() and bsearch() of ids. */
static inline int
mosql_uint64_compare(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

/*
 * A transaction attempt: the session's id and a number of that session.  Each
 * attempt to prepare uses a new one (docs/commit.md, rule 1).
 */
typedef struct MosqlTxid
{
	uint64		session;
	uint64		n;
} MosqlTxid;

static inline bool
mosql_txid_equal(MosqlTxid a, MosqlTxid b)
{
	return a.session == b.session && a.n == b.n;
}

/* Commit timestamps and snapshots: microseconds, 7 bytes where stored. */
typedef uint64 MosqlTimestamp;

#define MOSQL_TS_MAX ((MosqlTimestamp) ((UINT64CONST(1) << 56) - 1))

#endif							/* MOSQL_BASE_H */
