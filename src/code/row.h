/*
 * row.h: a row's columns and its history of versions, as bytes.
 *
 * Layer: code.  Pure functions; docs/format.md gives the bytes.
 *
 * Columns are self-describing, so that a row outlives ALTER TABLE and tools
 * need no catalog: per column, in ascending column id,
 *
 *     varint (column id << 3 | wire type), then the value:
 *     wire type 0: 1 byte   1: 2 bytes   2: 4 bytes   3: 8 bytes   4: 16 bytes
 *               5: varint length, bytes
 *               6: varint length, then in so many bytes: varint length before
 *                  compression, compressed data
 *               7: nothing: the column is null
 *
 * fixed widths big-endian.  What a column is that is left out, the table's
 * definition says: null, unless it was added with a default to rows that were
 * there already; only such a column's nulls are written (type 7).
 *
 * A row's field in a leaf is its history, newest version first:
 *
 *     offset 0  7 bytes  commit timestamp of the newest version, big-endian
 *            7  1 byte   kind: 'L' live, 'T' tombstone: plain, nothing older
 *                        is known; 'l', 't': the same with a trailer
 *     'L','T': the rest is the newest version's columns ('T': empty).  What
 *              was before is gone: a plain row counts as truncated
 *     'l','t': varint length, columns; then 1 byte 0x01 if the history was
 *              truncated (older versions existed and are gone) else 0x00: the
 *              row did not exist before the oldest version here;
 *              then per older version: 7 bytes timestamp, 7 bytes superseded
 *              at, 1 byte 'L' or 'T', varint length, columns.  The oldest may
 *              be a tombstone of timestamp 0: "did not exist before", kept
 *              where versions after it are gone
 */
#ifndef MOSQL_ROW_H
#define MOSQL_ROW_H

#include "base/base.h"
#include "base/limits.h"
#include "port/pg_bswap.h"

/* --- varint (LEB128) --- */
extern void mosql_varint_put(StringInfo out, uint64 value);
extern bool mosql_varint_get(MosqlBytes *in, uint64 *value);

/* --- columns --- */
typedef enum MosqlWire
{
	MOSQL_WIRE_1, MOSQL_WIRE_2, MOSQL_WIRE_4, MOSQL_WIRE_8, MOSQL_WIRE_16,
	MOSQL_WIRE_BYTES, MOSQL_WIRE_COMPRESSED, MOSQL_WIRE_NULL
} MosqlWire;

extern void mosql_column_put_int(StringInfo out, uint32 column, int64 value, int width);
extern void mosql_column_put_fixed(StringInfo out, uint32 column, const void *data, int width);
extern void mosql_column_put_bytes(StringInfo out, uint32 column, MosqlBytes value);
extern void mosql_column_put_compressed(StringInfo out, uint32 column, MosqlBytes value);
extern void mosql_column_put_null(StringInfo out, uint32 column);

/* One column; value points into the row (COMPRESSED: with the raw length). */
typedef struct MosqlColumn
{
	uint32		column;
	MosqlWire	wire;
	MosqlBytes	value;
} MosqlColumn;

/* Advance to the next column.  Returns 1: got one, 0: end, -1: damaged. */
extern int	mosql_column_next(MosqlBytes *in, MosqlColumn *out);

/* Big-endian integer of 1, 2, 4, 8 bytes, sign-extended. */
extern int64 mosql_read_int(const char *data, int width);

/* --- versions in 32 bits: xmin (token.c) --- */

/* A column that no table has: ids are given in ascending order, one for each ADD COLUMN. */
#define MOSQL_TAG_COLUMN	(UINT32_C(1) << 21)

/* Append the tag, behind all other columns. */
extern void mosql_row_tag(StringInfo columns, uint32 tag);
extern bool mosql_row_is_tagged(MosqlBytes columns);

/* Differs from version to version; of a tagged row it does not depend on the timestamp. */
extern uint32 mosql_row_token(MosqlTimestamp version, MosqlBytes columns);

/* --- increments: column += delta on integer columns --- */
typedef struct MosqlIncrement
{
	uint32		column;
	int			width;			/* 2, 4, 8 */
	int64		delta;
} MosqlIncrement;

typedef enum MosqlIncrementResult
{
	MOSQL_INCREMENT_OK,
	MOSQL_INCREMENT_OVERFLOW,	/* SQLSTATE 22003 */
	MOSQL_INCREMENT_DAMAGED		/* row bytes do not decode, or wrong width */
} MosqlIncrementResult;

/*
 * Append to out the columns of a row after the increments.  A null column
 * stays null (NULL + 1 is NULL).
 */
extern MosqlIncrementResult mosql_columns_increment(StringInfo out, MosqlBytes columns,
													 const MosqlIncrement *inc, int ninc);
extern void mosql_increments_encode(StringInfo out, const MosqlIncrement *inc, int ninc);

/* Does an increment fit the columns with `more` beside it? */
extern bool mosql_increment_fits(MosqlBytes columns, const MosqlIncrement *inc, int64 more);

/* Palloc'ed array; false if damaged. */
extern bool mosql_increments_decode(MosqlBytes in, MosqlIncrement **inc, int *ninc);

/* --- history --- */
#define MOSQL_ROW_KIND_OFFSET 7
#define MOSQL_ROW_LIVE_KINDS "Ll"	/* for a compare of kind IN */
#define MOSQL_ROW_PLAIN_KIND "L"	/* live, no older versions */

typedef struct MosqlVersion
{
	MosqlTimestamp ts;
	MosqlTimestamp end;			/* when it was superseded; MOSQL_TS_MAX: newest */
	bool		live;
	MosqlBytes	columns;
} MosqlVersion;

typedef struct MosqlHistory
{
	int			n;				/* 0: the row never was (field absent) */
	bool		truncated;		/* something older is gone; plain rows: true */
	MosqlVersion *versions;		/* newest first */
} MosqlHistory;

/*
 * Decode a row's field; an absent one (data NULL) gives n = 0.  The versions
 * array is palloc'ed, the bytes point into field.  False if damaged.
 */
extern bool mosql_history_decode(MosqlBytes field, MosqlHistory *out);

/* n > 0.  Gives back the bytes that were decoded. */
extern void mosql_history_encode(StringInfo out, const MosqlHistory *history);

/* The newest version without decoding the rest: the fast path of every read.
 * False if the field is absent or damaged. */
extern bool mosql_row_newest(MosqlBytes field, MosqlVersion *out);

/* The newest timestamp of n rows, 1 at least; MOSQL_TS_MAX if one is too short to have any, which is for others to report. */
extern MosqlTimestamp mosql_rows_newest(const MosqlBytes *rows, int n);

typedef enum MosqlVisible
{
	MOSQL_VISIBLE_LIVE,
	MOSQL_VISIBLE_ABSENT,		/* deleted, or not there yet */
	MOSQL_VISIBLE_TOO_OLD,		/* history no longer reaches back to the snapshot */
	MOSQL_VISIBLE_DAMAGED
} MosqlVisible;

/*
 * Nearly all rows have one version, which is live: is this one such a row, and visible at S?  Then its columns, and the version's
 * timestamp; else what mosql_row_visible() says.
 */
static inline bool
mosql_row_is_plain(MosqlBytes field, MosqlTimestamp S, MosqlBytes *columns, MosqlTimestamp *ts)
{
	uint64		head;			/* 7 bytes timestamp, and the kind */

	if (field.len < sizeof(head) || field.len - sizeof(head) > MOSQL_ROW_MAX_BYTES)
		return false;
	memcpy(&head, field.data, sizeof(head));
	head = pg_ntoh64(head);
	if ((char) head != MOSQL_ROW_PLAIN_KIND[0] || head >> 8 == 0 || head >> 8 == MOSQL_TS_MAX || head >> 8 > S)
		return false;
	*ts = head >> 8;
	columns->data = field.data + sizeof(head);
	columns->len = field.len - sizeof(head);
	return true;
}

/*
 * The version of a row at snapshot S (MOSQL_TS_MAX: the latest).  purged is
 * the leaf's purge mark (0: none).  *out is set for LIVE and, where there is
 * a tombstone, for ABSENT (else ts = 0).
 */
extern MosqlVisible mosql_row_visible(MosqlBytes field, MosqlTimestamp purged,
									  MosqlTimestamp S, MosqlVersion *out);

/*
 * The registered snapshots as one clock step returned them with its last ts.  A bounded list
 * has the oldest and the newest of many; the others are somewhere from gap_from to gap_to.
 */
typedef struct MosqlSnapshotList
{
	MosqlTimestamp last;
	int			n;
	const MosqlTimestamp *snapshots;	/* any order, duplicates allowed */
	MosqlTimestamp gap_from,	/* the oldest; both 0: none is left out */
				gap_to;			/* the oldest of the newest */
} MosqlSnapshotList;

/*
 * Append to out the row's field after a new version on top of old (absent for
 * none), pruned by the list (docs/commit.md, rules 9 and 10).
 * Returns false, out untouched, if old is damaged or not older than the new one.
 */
extern bool mosql_row_supersede(StringInfo out, MosqlBytes old, const MosqlVersion *new_version,
								const MosqlSnapshotList *list);

/*
 * The same for a committed increment, which need not be the newest change: in
 * flight together, increments are applied in any order.  Versions from ts on
 * get the increment added; between an older and a newer version one of its own
 * is inserted.
 */
extern MosqlIncrementResult mosql_row_increment(StringInfo out, MosqlBytes old, MosqlTimestamp ts,
												const MosqlIncrement *inc, int ninc,
												const MosqlSnapshotList *list);

/*
 * Where a column's value stands in a row's field: offset and width (2, 4, 8).
 * Returns false if the newest version has no such column (null).
 */
extern bool mosql_row_column_offset(MosqlBytes field, uint32 column, uint32 *offset);

typedef enum MosqlPruned
{
	MOSQL_PRUNED_NOTHING,		/* all of it may be needed; out untouched */
	MOSQL_PRUNED_SOME,			/* what is left was appended to out */
	MOSQL_PRUNED_DAMAGED
} MosqlPruned;

/* Does a row keep more than so many older versions?  Not if it is damaged. */
extern bool mosql_row_is_long(MosqlBytes field, int max);

/* The same without a new version, for maintenance.  The newest one stays. */
extern MosqlPruned mosql_row_prune(StringInfo out, MosqlBytes old, const MosqlSnapshotList *list);

/* True when a tombstone of timestamp ts may be removed (rule 11). */
extern bool mosql_row_may_purge(MosqlTimestamp ts, const MosqlSnapshotList *list);

#endif							/* MOSQL_ROW_H */
