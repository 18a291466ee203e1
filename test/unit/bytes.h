/*
 * bytes.h: what the tests of layer code share: random bytes, hex, damage.
 */
#ifndef BYTES_H
#define BYTES_H

#include "unit.h"

#include "base/base.h"

static uint64 random_state = UINT64CONST(0x9E3779B97F4A7C15);

/* xorshift64*: the same numbers in every run. */
static inline uint64
random_bits(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * UINT64CONST(2685821657736338717);
}

static inline int
random_below(int n)
{
	return (int) (random_bits() % (uint64) n);
}

/* All magnitudes are as likely. */
static inline uint64
random_magnitude(void)
{
	return random_bits() >> random_below(64);
}

/* A copy that ends where its memory ends, so that the sanitizer sees overruns. */
static inline MosqlBytes
tight(MosqlBytes b)
{
	char	   *p = palloc(b.len);

	if (b.len > 0)
		memcpy(p, b.data, b.len);
	return mosql_bytes(p, b.len);
}

/* Short strings of few letters, among them those that need escapes. */
static inline MosqlBytes
random_string(int max_len)
{
	static const char letters[] = {0, 1, 2, (char) 0xFE, (char) 0xFF, 'a', 'b', 0};
	int			n = random_below(max_len + 1);
	char	   *p = palloc(n);

	for (int i = 0; i < n; i++)
		p[i] = letters[random_below(lengthof(letters))];
	return mosql_bytes(p, n);
}

static inline const char *
hex(MosqlBytes b)
{
	char	   *s = palloc(3 * b.len + 1);
	char	   *p = s;

	*p = '\0';
	for (size_t i = 0; i < b.len; i++)
		p += sprintf(p, "%s%02x", i > 0 ? " " : "", (uint8) b.data[i]);
	return s;
}

static inline int
sign(int n)
{
	return (n > 0) - (n < 0);
}

/* Decodes everything that there is; whether it was sound. */
typedef bool (*Decoder) (MosqlBytes bytes);

/*
 * Decode each truncation, each change of one byte and each extension: nothing
 * may crash or read outside.  Returns how many truncations were accepted.
 */
static inline int
damage(MosqlBytes good, Decoder decode)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "damage", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	static const uint8 flips[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF};
	int			accepted = 0;
	char	   *longer = palloc(good.len + 1);

	for (size_t n = 0; n < good.len; n++)
		accepted += decode(tight(mosql_bytes(good.data, n)));
	for (size_t i = 0; i < good.len; i++)
	{
		MosqlBytes	bad = tight(good);

		for (int f = 0; f < lengthof(flips); f++)
		{
			((char *) bad.data)[i] = good.data[i] ^ (char) flips[f];
			(void) decode(bad);
		}
		((char *) bad.data)[i] = (char) random_bits();
		(void) decode(bad);
	}
	if (good.len > 0)
		memcpy(longer, good.data, good.len);
	longer[good.len] = (char) random_bits();
	(void) decode(mosql_bytes(longer, good.len + 1));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return accepted;
}

/* Random bytes, of which the first are as given. */
static inline void
damage_random(MosqlBytes start, int rounds, Decoder decode)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "damage", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);

	for (int i = 0; i < rounds; i++)
	{
		int			n = (int) start.len + random_below(40);
		char	   *p = palloc(n);

		for (int j = 0; j < n; j++)
			p[j] = (char) (random_below(2) ? random_bits() : random_below(9));
		if (start.len > 0)
			memcpy(p, start.data, start.len);
		(void) decode(mosql_bytes(p, n));
		if (i % 1000 == 0)
			MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

#endif							/* BYTES_H */
