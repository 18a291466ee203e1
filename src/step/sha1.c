/*
 * sha1.c: the name under which Redis caches a script (FIPS 180-4).
 *
 * Layer: step.  No secret is involved; computing it here spares a round trip
 * for SCRIPT LOAD, and PostgreSQL's own functions refuse SHA-1 where OpenSSL
 * runs in FIPS mode.
 */
#include "step/step_int.h"

static inline uint32
rotate_left(uint32 x, int n)
{
	return (x << n) | (x >> (32 - n));
}

static void
sha1_block(uint32 state[5], const unsigned char *block)
{
	uint32		w[80];
	uint32		a = state[0],
				b = state[1],
				c = state[2],
				d = state[3],
				e = state[4];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32) block[4 * i] << 24 | (uint32) block[4 * i + 1] << 16 |
			(uint32) block[4 * i + 2] << 8 | (uint32) block[4 * i + 3];
	for (int i = 16; i < 80; i++)
		w[i] = rotate_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);

	for (int i = 0; i < 80; i++)
	{
		uint32		f,
					k,
					next;

		if (i < 20)
			f = (b & c) | (~b & d), k = 0x5A827999;
		else if (i < 40)
			f = b ^ c ^ d, k = 0x6ED9EBA1;
		else if (i < 60)
			f = (b & c) | (b & d) | (c & d), k = 0x8F1BBCDC;
		else
			f = b ^ c ^ d, k = 0xCA62C1D6;
		next = rotate_left(a, 5) + f + e + k + w[i];
		e = d;
		d = c;
		c = rotate_left(b, 30);
		b = a;
		a = next;
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
}

/* SHA-1 of data as 40 lower-case hex digits and a zero. */
void
mosql_sha1_hex(const char *data, size_t len, char out[41])
{
	uint32		state[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
	unsigned char tail[128] = {0};
	size_t		whole = len / 64 * 64;
	size_t		rest = len - whole;
	size_t		tail_len = rest < 56 ? 64 : 128;

	for (size_t i = 0; i < whole; i += 64)
		sha1_block(state, (const unsigned char *) data + i);

	/* the rest, a bit 1, zeros, and the length in bits */
	memcpy(tail, data + whole, rest);
	tail[rest] = 0x80;
	for (int i = 0; i < 8; i++)
		tail[tail_len - 1 - i] = (unsigned char) (((uint64) len * 8) >> (8 * i));
	for (size_t i = 0; i < tail_len; i += 64)
		sha1_block(state, tail + i);

	for (int i = 0; i < 5; i++)
		snprintf(out + 8 * i, 9, "%08x", state[i]);
}
