/*
 * block.c: all rows of a packed leaf as one run of bytes.
 *
 * Layer: code.
 *
 *     1 byte kind: 0 plain, 1 LZ4, 2 zstd; varint length of the body before compression; body:
 *     varint n; then n heads: varint bytes shared with the key before, varint further
 *     bytes of the key, varint length of the row; then the further bytes of all
 *     keys; then all rows
 *
 * Heads, key parts and rows stand apart because each is like its neighbour of the same
 * sort: heads and rows of a table repeat, and are long matches to LZ4, while key parts
 * differ.  Rows are whole, so that decoding copies none.
 *
 * A key shares all that it can with the one before.  So its next byte tells the order,
 * and equal rows have equal bodies.
 */
#include "code/block.h"
#include "code/code_int.h"

#include <lz4.h>
#include <zstd.h>

#define KIND_PLAIN	0
#define KIND_LZ4	1
#define KIND_ZSTD	2

StaticAssertDecl(KIND_PLAIN == (int) MOSQL_COMPRESSION_NONE && KIND_LZ4 == (int) MOSQL_COMPRESSION_LZ4 &&
				 KIND_ZSTD == (int) MOSQL_COMPRESSION_ZSTD, "the stored kind is the compression");

/* LZ4 makes no byte of input more than this many. */
#define LZ4_MAX_RATIO 255

/* Of zstd; the next ones take twice the time and more, for some percent. */
#define ZSTD_LEVEL 1

/* What zstd works with, made once: as much as some hundred blocks take. */
static ZSTD_CCtx *zstd_writer = NULL;
static ZSTD_DCtx *zstd_reader = NULL;

/* A body whose heads are sound: what is left to read of it. */
typedef struct Reader
{
	int			n;
	int			i;				/* rows read */
	MosqlBytes	heads;			/* up to the end of the body */
	const char *part;			/* of the next key */
	const char *row;			/* the next one */
	size_t		key_len;		/* of the key before */
	size_t		key_bytes;		/* of all keys together */
} Reader;

typedef struct Head
{
	uint64		shared;
	uint64		further;
	uint64		row;
} Head;

/* ---- writing ---- */

static size_t
shared_bytes(MosqlBytes a, MosqlBytes b)
{
	size_t		max = Min(a.len, b.len);
	size_t		n = 0;

	while (n + sizeof(uint64) <= max && memcmp(a.data + n, b.data + n, sizeof(uint64)) == 0)
		n += sizeof(uint64);
	while (n < max && a.data[n] == b.data[n])
		n++;
	return n;
}

/* The rows of a block, as it is made of them. */
typedef struct Rows
{
	const MosqlBytes *keys;
	const MosqlBytes *rows;
	int			n;
	uint16		shared[MOSQL_BLOCK_MAX_ROWS];	/* of each key, with the one before */
} Rows;

StaticAssertDecl(MOSQL_KEY_MAX_BYTES <= PG_UINT16_MAX, "what keys share fits its type");

static void
find_shared(Rows *r)
{
	r->shared[0] = 0;
	for (int i = 1; i < r->n; i++)
		r->shared[i] = shared_bytes(r->keys[i - 1], r->keys[i]);
}

static size_t
body_size(const Rows *r)
{
	size_t		size = varint_size(r->n);

	for (int i = 0; i < r->n; i++)
	{
		size_t		shared = r->shared[i];
		size_t		further = r->keys[i].len - shared;

		Assert(r->keys[i].len <= MOSQL_KEY_MAX_BYTES);
		Assert(i == 0 || mosql_bytes_compare(r->keys[i - 1], r->keys[i]) < 0);
		size += varint_size(shared) + varint_size(further) + varint_size(r->rows[i].len) + further +
			r->rows[i].len;
	}
	return size;
}

static void
put_body(char *p, const Rows *r)
{
	p = put_varint(p, r->n);
	for (int i = 0; i < r->n; i++)
	{
		p = put_varint(p, r->shared[i]);
		p = put_varint(p, r->keys[i].len - r->shared[i]);
		p = put_varint(p, r->rows[i].len);
	}
	for (int i = 0; i < r->n; i++)
		p = put_bytes(p, mosql_bytes(r->keys[i].data + r->shared[i], r->keys[i].len - r->shared[i]));
	for (int i = 0; i < r->n; i++)
		p = put_bytes(p, r->rows[i]);
}

/* The length of what raw was made into, in room of one byte less; 0: it is not smaller. */
static size_t
compress(MosqlCompression compression, const char *raw, size_t size, char *out)
{
	size_t		len;

	if (compression == MOSQL_COMPRESSION_LZ4)
		return LZ4_compress_default(raw, out, (int) size, (int) size - 1);
	if (zstd_writer == NULL && (zstd_writer = ZSTD_createCCtx()) == NULL)
		return 0;
	len = ZSTD_compressCCtx(zstd_writer, out, size - 1, raw, size, ZSTD_LEVEL);
	return ZSTD_isError(len) ? 0 : len;
}

void
mosql_block_encode(StringInfo out, MosqlCompression compression, const MosqlBytes *keys,
				   const MosqlBytes *rows, int n)
{
	Rows		r;
	size_t		size;
	int			start = out->len;
	size_t		compressed = 0;
	char	   *body;
	char	   *p;

	Assert(n > 0 && n <= MOSQL_BLOCK_MAX_ROWS);
	r.keys = keys;
	r.rows = rows;
	r.n = n;
	find_shared(&r);
	size = body_size(&r);
	if (size > MOSQL_BLOCK_MAX_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("rows of one leaf have %zu bytes, more than %d", size, MOSQL_BLOCK_MAX_BYTES)));
	p = grow(out, 1 + varint_size(size) + size);
	*p = KIND_PLAIN;
	body = put_varint(p + 1, size);
	if (compression != MOSQL_COMPRESSION_NONE)
	{
		char	   *raw = palloc_extended(size, MCXT_ALLOC_HUGE);

		put_body(raw, &r);
		compressed = compress(compression, raw, size, body);
		pfree(raw);
	}
	if (compressed == 0)
	{
		put_body(body, &r);
		return;
	}
	out->data[start] = (char) compression;
	out->len = (int) (body - out->data + compressed);
	out->data[out->len] = '\0';
}

/* ---- reading ---- */

/* Is it made into just len bytes? */
static bool
decompress(char kind, MosqlBytes in, char *out, size_t len)
{
	if (kind == KIND_LZ4)
		return LZ4_decompress_safe(in.data, out, (int) in.len, (int) len) == (int) len;
	if (zstd_reader == NULL && (zstd_reader = ZSTD_createDCtx()) == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	return ZSTD_decompressDCtx(zstd_reader, out, len, in.data, in.len) == len;
}

/*
 * The body: part of `in`, or *unpacked, which the caller frees.  No more is allocated than
 * LZ4 can make of so many bytes; of zstd any number makes any other.
 */
static bool
take_body(MosqlBytes in, MosqlBytes *body, char **unpacked)
{
	const char *kind;
	uint64		len;

	*unpacked = NULL;
	if (!take(&in, 1, &kind) || !take_varint(&in, &len) || len > MOSQL_BLOCK_MAX_BYTES)
		return false;
	*body = in;
	if (*kind == KIND_PLAIN)
		return in.len == len;
	if ((*kind != KIND_LZ4 && *kind != KIND_ZSTD) || in.len >= len ||
		(*kind == KIND_LZ4 && len > in.len * LZ4_MAX_RATIO))
		return false;
	*unpacked = palloc_extended(len, MCXT_ALLOC_HUGE);
	*body = mosql_bytes(*unpacked, len);
	return decompress(*kind, in, *unpacked, len);
}

static inline bool
take_head(MosqlBytes *heads, Head *head)
{
	return take_varint(heads, &head->shared) && take_varint(heads, &head->further) &&
		take_varint(heads, &head->row);
}

/* Are all lengths in the heads sound, and is there just what they announce? */
static bool
start_reading(MosqlBytes body, Reader *reader)
{
	uint64		n;
	uint64		parts = 0;
	uint64		rows = 0;
	size_t		key_len = 0;
	Head		head;

	if (!take_varint(&body, &n) || n == 0 || n > MOSQL_BLOCK_MAX_ROWS)
		return false;
	*reader = (Reader) {.n = (int) n,.heads = body};
	for (uint64 i = 0; i < n; i++)
	{
		if (!take_head(&body, &head) || head.shared > key_len ||
			head.further > MOSQL_KEY_MAX_BYTES - head.shared || head.row > MOSQL_BLOCK_MAX_BYTES)
			return false;
		key_len = head.shared + head.further;
		reader->key_bytes += key_len;
		parts += head.further;
		rows += head.row;
	}
	if (body.len != parts + rows)
		return false;
	reader->part = body.data;
	reader->row = body.data + parts;
	return true;
}

/*
 * The next key, written to `key`, and its row.  `before` is the key before, and may be
 * `key` itself.  False if the keys do not ascend, or share more than they say.
 */
static bool
read_row(Reader *reader, const char *before, char *key, MosqlBytes *row)
{
	Head		head;
	size_t		shared;

	(void) take_head(&reader->heads, &head);
	shared = head.shared;
	if (reader->i++ > 0 &&
		(head.further == 0 ||
		 (shared < reader->key_len && (uint8) before[shared] >= (uint8) *reader->part)))
		return false;
	if (before != key)
		memcpy(key, before, shared);
	memcpy(key + shared, reader->part, head.further);
	reader->key_len = shared + head.further;
	reader->part += head.further;
	*row = mosql_bytes(reader->row, head.row);
	reader->row += head.row;
	return true;
}

static bool
read_all(Reader *reader, MosqlBlock *block)
{
	size_t		n = reader->n;
	char	   *key;

	block->n = reader->n;
	block->keys = palloc(2 * n * sizeof(MosqlBytes) + reader->key_bytes);
	block->rows = block->keys + n;
	key = (char *) (block->rows + n);
	for (size_t i = 0; i < n; i++)
	{
		if (!read_row(reader, i > 0 ? block->keys[i - 1].data : key, key, &block->rows[i]))
		{
			pfree(block->keys);
			return false;
		}
		block->keys[i] = mosql_bytes(key, reader->key_len);
		key += reader->key_len;
	}
	return true;
}

bool
mosql_block_decode(MosqlBytes in, MosqlBlock *block)
{
	MosqlBytes	body;
	char	   *unpacked;
	Reader		reader;

	*block = (MosqlBlock) {0};
	if (take_body(in, &body, &unpacked))
	{
		if (unpacked == NULL)
		{
			unpacked = palloc_extended(body.len + 1, MCXT_ALLOC_HUGE);
			body.data = memcpy(unpacked, body.data, body.len);
		}
		if (start_reading(body, &reader) && read_all(&reader, block))
			return true;
	}
	if (unpacked != NULL)
		pfree(unpacked);
	*block = (MosqlBlock) {0};
	return false;
}

/* Where the rows of the keys are in the body, and their bytes together. */
static bool
find_rows(Reader *reader, const MosqlBytes *keys, int n, MosqlBytes *rows, size_t *size)
{
	char		key[MOSQL_KEY_MAX_BYTES];
	MosqlBytes	row;
	int			k = 0;

	*size = 0;
	while (reader->i < reader->n)
	{
		int			order = 1;

		if (!read_row(reader, key, key, &row))
			return false;
		while (k < n && (order = mosql_bytes_compare(mosql_bytes(key, reader->key_len), keys[k])) > 0)
			rows[k++] = MOSQL_ABSENT;
		if (order == 0)
		{
			rows[k++] = row;
			*size += row.len;
		}
	}
	while (k < n)
		rows[k++] = MOSQL_ABSENT;
	return true;
}

/* Out of the body into memory of their own. */
static void
copy_rows(MosqlBytes *rows, int n, size_t size)
{
	char	   *p = palloc_extended(size + 1, MCXT_ALLOC_HUGE);

	for (int i = 0; i < n; i++)
		if (rows[i].data != NULL)
		{
			char	   *end = put_bytes(p, rows[i]);

			rows[i].data = p;
			p = end;
		}
}

bool
mosql_block_find(MosqlBytes in, const MosqlBytes *keys, int n, MosqlBytes *rows)
{
	MosqlBytes	body;
	char	   *unpacked;
	Reader		reader;
	size_t		size;
	bool		sound;

	sound = take_body(in, &body, &unpacked) && start_reading(body, &reader) &&
		find_rows(&reader, keys, n, rows, &size);
	if (sound)
		copy_rows(rows, n, size);
	if (unpacked != NULL)
		pfree(unpacked);
	return sound;
}
