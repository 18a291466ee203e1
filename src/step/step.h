/*
 * step.h: the mini-transaction on one node, the only way anything is written.
 *
 * Layer: step.  After Sinfonia (Aguilera et al., 2007): on ONE Redis hash,
 * atomically, *compare* fields, *read* fields, and only if all compares hold
 * *write* fields.  Steps on different nodes run in parallel, each atomic by
 * itself.
 *
 * Two engines behind one contract (test/unit/test_step.c runs against both):
 *   script  one Lua script, one round trip
 *   watch   WATCH, HMGET, compare here, MULTI ... EXEC; two round trips
 */
#ifndef MOSQL_STEP_H
#define MOSQL_STEP_H

#include "base/base.h"
#include "base/retry.h"
#include "code/row.h"
#include "redis/redis.h"

typedef enum MosqlCompareKind
{
	MOSQL_COMPARE_ABSENT,		/* the field does not exist */
	MOSQL_COMPARE_EQUAL,		/* it exists and holds `bytes` at `offset` */
	MOSQL_COMPARE_AT_MOST,		/* it is absent, or its bytes at `offset` are
								 * <= `bytes` (memcmp over bytes.len) */
	MOSQL_COMPARE_IN,			/* it exists and its byte at `offset` is one of `bytes` */
	MOSQL_COMPARE_ONLY,			/* absent, or equal to `bytes` as a whole: a list that
								 * holds nobody, or this one alone */
	MOSQL_COMPARE_RANGE,		/* all rows and intents with `field` <= key <
								 * `upper` (no bound if upper.data is NULL): no
								 * intent but those starting with `bytes` (16
								 * byte txid), and every row's first 7 bytes <=
								 * `at_most`.  field and upper are keys here,
								 * without prefix.  Claims count as intents,
								 * unless `offset` says otherwise. */
	MOSQL_COMPARE_OPEN,			/* absent, or its byte at `offset` is one of `bytes` */
	MOSQL_COMPARE_LISTED,		/* an intents field in which transaction `bytes`
								 * (16-byte id) has an intent, or a claim */
	MOSQL_COMPARE_WHOLE,		/* it exists and is `bytes` as a whole */
	MOSQL_COMPARE_ADMITS,		/* an intents field in which nobody is in the way of
								 * `bytes`: owner, strength (claim.h) */
	MOSQL_COMPARE_HOLDS,		/* ... in which this owner has a lock as strong */
	MOSQL_COMPARE_COUNT			/* the node has as many fields as `offset` says */
} MosqlCompareKind;

/*
 * As the offset of a RANGE: claims before the intents do not count; or, with n (at most 253) added, there are n intents fields, each of which is
 * one lock of owner `bytes`, that nobody waits for.
 */
#define MOSQL_RANGE_SKIPS_CLAIMS	1
#define MOSQL_RANGE_OWN_LOCKS		2
#define MOSQL_RANGE_MAX_LOCKS		253

typedef struct MosqlCompare
{
	MosqlCompareKind kind;
	MosqlBytes	field;
	int			offset;
	MosqlBytes	bytes;
	MosqlBytes	upper;			/* RANGE */
	MosqlBytes	at_most;		/* RANGE: 7 bytes timestamp; empty: any */
} MosqlCompare;

typedef enum MosqlWriteKind
{
	MOSQL_WRITE_SET,
	MOSQL_WRITE_DELETE,
	MOSQL_WRITE_MAX,			/* set if absent or smaller (memcmp) */
	MOSQL_WRITE_APPEND,			/* add a 16-byte entry to a list, unless it is in it */
	MOSQL_WRITE_REMOVE,			/* take a 16-byte entry out; an empty list is deleted */
	MOSQL_WRITE_CONCAT,			/* put the value behind what is there */
	MOSQL_WRITE_UNLIST,			/* take intents and claims of transactions (16-byte ids)
								 * out of an intents field, and let in who waited for
								 * them; an empty field is deleted */
	MOSQL_WRITE_ADD,			/* increments on a plain row, see mosql_step_add() */
	MOSQL_WRITE_CLAIM,			/* a request for a lock in an intents field (claim.h) */

	/* only in a commit of one step (one_step.h), which draws their time */
	MOSQL_WRITE_VERSION,		/* a row gets a new version: these columns */
	MOSQL_WRITE_TOMBSTONE,		/* a row is deleted */
	MOSQL_WRITE_INCREMENT,		/* a row that is live, see mosql_step_increment() */

	MOSQL_WRITE_MOVED			/* an intents field is another node's from now on: it is deleted,
								 * and these (16-byte ids), who wait in it, are told */
} MosqlWriteKind;

typedef struct MosqlWrite
{
	MosqlWriteKind kind;
	MosqlBytes	field;
	MosqlBytes	value;			/* not for DELETE */
} MosqlWrite;

typedef enum MosqlStepStatus
{
	MOSQL_STEP_DONE,			/* all compares held, the writes are made */
	MOSQL_STEP_FAILED,			/* `failed` tells which compare; nothing written */
	MOSQL_STEP_LOST				/* nobody knows (connection broke in between) */
} MosqlStepStatus;

/*
 * Whoever a step lets in (UNLIST, CLAIM: its wait has become a lock), and who waits in a field that
 * it takes elsewhere (MOVED), is told by a message in the same step: an element of a list in the
 * node's slot, which lives for a minute,
 *
 *     <key of the node>:w:<owner, 32 hex digits>
 *
 * It says which wait is over, and what the row is then (engine script, if that is short), or that there is something
 * to look at.
 */
#define MOSQL_WAKE_INFIX	":w:"
#define MOSQL_WAKE_KEEP_MS	60000

/*
 * Deletes run before sets, whatever their order here, so that a leaf never
 * grows beyond its final size.  At most one write names a field (but for MAX in one_step.h).  Offsets and
 * counts are below 65536.  The caller owns all bytes; they stay in place until
 * the step has run (or been sent).
 *
 * Durable (with a stepper that is durable; otherwise nothing changes): the step
 * is DONE or FAILED when the replicas, or the disk, have what it wrote.  That
 * says nothing about what it merely saw, since somebody else wrote it: with
 * `touch` a step that sets no field writes the meta ("m"), if there is one, as
 * it is, so that the same holds for all that the node held at that moment.
 * Too few copies: 08006, in mosql_step_send() LOST.
 */
typedef struct MosqlStep
{
	uint64		node;
	bool		repeatable;		/* safe to send again after a lost reply */
	bool		no_count;		/* nfields is not wanted (0 then) */
	bool		durable;		/* the result counts only when it is durable */
	bool		touch;			/* what a step that sets nothing has seen, too */
	int			ncompares;
	MosqlCompare *compares;
	int			nreads;
	MosqlBytes *reads;			/* field names */
	int			nwrites;
	MosqlWrite *writes;

	/* results */
	MosqlStepStatus status;
	int			failed;			/* index of the first compare that failed */
	MosqlBytes *values;			/* [nreads], as they were before the writes;
								 * filled for DONE and FAILED */
	int			nfields;		/* fields of the node (HLEN) after the step */
} MosqlStep;

/* One more compare, for which the caller has made room. */
static inline void
mosql_step_expect(MosqlStep *step, MosqlCompareKind kind, MosqlBytes field, int offset,
				  MosqlBytes bytes)
{
	step->compares[step->ncompares++] = (MosqlCompare)
	{
		.kind = kind, .field = field, .offset = offset, .bytes = bytes
	};
}

/* Does it look at the node as a whole, rather than at one field? */
static inline bool
mosql_step_sees_all(const MosqlCompare *compare)
{
	return compare->kind == MOSQL_COMPARE_RANGE || compare->kind == MOSQL_COMPARE_COUNT;
}

/* One more compare: the field is as it was read, as a whole, or absent as it was. */
static inline void
mosql_step_expect_same(MosqlStep *step, MosqlBytes field, MosqlBytes value)
{
	mosql_step_expect(step, value.data != NULL ? MOSQL_COMPARE_WHOLE : MOSQL_COMPARE_ABSENT,
					  field, 0, value);
}

/* What the step sets a field to; absent: nothing.  Of writes of kind SET. */
static inline MosqlBytes
mosql_step_sets(const MosqlStep *step, MosqlBytes field)
{
	for (int i = 0; i < step->nwrites; i++)
		if (mosql_bytes_equal(step->writes[i].field, field))
			return step->writes[i].value;
	return MOSQL_ABSENT;
}

/* One hash read as a whole; absent nodes have found = false. */
typedef struct MosqlFieldValue
{
	MosqlBytes	field;
	MosqlBytes	value;
} MosqlFieldValue;

typedef struct MosqlNodeImage
{
	uint64		node;
	bool		found;
	int			nfields;
	MosqlFieldValue *fields;	/* in Redis' order */
} MosqlNodeImage;

/* Some fields of one hash. */
typedef struct MosqlFieldRead
{
	uint64		node;
	int			nfields;
	MosqlBytes *fields;
	MosqlBytes *values;			/* result, [nfields]; data NULL: absent */
} MosqlFieldRead;

typedef enum MosqlEngine
{
	MOSQL_ENGINE_SCRIPT, MOSQL_ENGINE_WATCH
} MosqlEngine;

typedef struct MosqlStepper
{
	MosqlRedis *redis;
	const char *ns;				/* namespace */
	MosqlEngine engine;
	bool		durable;		/* redis waits for copies: the clock's decisions,
								 * and steps that say so, wait for them */
	const char *who;			/* what the clock notes of sessions that are opened: not
								 * beginning with C; NULL: nothing */
	bool		lenient;		/* who reads a key of another type is not told XX001, but
								 * finds a node that does not decode */
	int64		alone_until_us; /* script: each step is a message until then */
} MosqlStepper;

/*
 * Run n steps in parallel; results go into the steps, in the current memory
 * context.  One round trip (script), two or more (watch).  A step that is not
 * repeatable is LOST when its reply is; errors of Redis are thrown as redis.h
 * says, WRONGTYPE as XX001 (foreign data under our key).
 */
extern void mosql_step_run(MosqlStepper *stepper, MosqlStep **steps, int n, MosqlBudget *budget);

/*
 * Send a step, do not wait: engine `script` only, the other one would have to wait for what it watches.
 * done gets DONE, FAILED or LOST; must not throw or talk to Redis.  An error
 * reply counts as LOST.
 */
typedef void (*MosqlStepCallback) (void *arg, MosqlStepStatus status, int nfields);
extern void mosql_step_send(MosqlStepper *stepper, MosqlStep *step,
							MosqlStepCallback done, void *arg);

/*
 * The same for many: those for one server leave as one message.  After
 * mosql_step_gather() each call of mosql_messages_next() tells how many steps the next message
 * has, 0 when there is none left, and mosql_messages_send() sends it.  done is called for each step.
 */
typedef struct MosqlMessages MosqlMessages;
extern MosqlMessages *mosql_step_gather(MosqlStepper *stepper, MosqlStep **steps, int n);
extern int	mosql_messages_next(const MosqlMessages *messages);
extern void mosql_messages_send(MosqlMessages *messages, MosqlStepCallback done, void *arg);

/* Whether they do, and those that run in parallel; else each is a message. */
extern bool mosql_step_messages;

/*
 * Ask whether all durable steps that were sent since the last call are durable.
 * done is called as often as this returns, some calls perhaps before that, with
 * DONE for yes and LOST for no.
 */
extern int	mosql_step_send_wait(MosqlStepper *stepper, MosqlStepCallback done, void *arg);

/*
 * Whole nodes, in parallel, one round trip; images in the current context.  To a
 * lenient stepper a key of another type is a node without fields, or with empty ones.
 */
extern void mosql_step_read_nodes(MosqlStepper *stepper, const uint64 *nodes, int n,
								  MosqlNodeImage *images, MosqlBudget *budget);

/*
 * Ask for whole nodes that will be wanted soon, and do not wait; at_once, or else with what is sent next.  mosql_step_prefetched() waits for them:
 * images as of mosql_step_read_nodes(), read at some time in between; one round trip, or none.  False: one did not come so, and they are
 * to be read.  Either ends the prefetch, or mosql_step_prefetch_drop() does; one of them is called, and once.
 */
typedef struct MosqlPrefetch MosqlPrefetch;
extern MosqlPrefetch *mosql_step_prefetch(MosqlStepper *stepper, const uint64 *nodes, int n, bool at_once);
extern bool mosql_step_prefetched(MosqlPrefetch *prefetch, MosqlNodeImage *images);
extern void mosql_step_prefetch_drop(MosqlPrefetch *prefetch);

/*
 * Whole nodes that a snapshot brings along (mosql_clock_snapshot_along()): read behind it, on the same connection, so that they are as
 * they were at that moment or later, as if they had been asked for when it was there.
 */
typedef struct MosqlNodesAlong
{
	int			n;
	const uint64 *nodes;
	MosqlNodeImage *images;		/* room for n, in the current context; */
	bool		came;			/* they say something */
} MosqlNodesAlong;

/* Can a snapshot bring these nodes?  If they are on the clock's server. */
extern bool mosql_step_reads_along(const MosqlStepper *stepper, const uint64 *nodes, int n);

/*
 * Can these nodes be read as they are at one moment?  told: and the schema version of then, or later, in the same round trip?  If all,
 * and the clock, are on one server that does not ask for one slot; one node, if it is on the clock's server.  Not with
 * engine `watch`, whose WATCHes an EXEC in between would lift.
 */
extern bool mosql_step_reads_at_once(const MosqlStepper *stepper, const uint64 *nodes, int n, bool told);

/*
 * The same as mosql_step_read_nodes(), at one moment.  schema: gets the schema version of then, or of a later moment, 0 if it was not told;
 * NULL: it is not asked for.  False: it was refused, and images say nothing.
 */
extern bool mosql_step_read_nodes_at_once(MosqlStepper *stepper, const uint64 *nodes, int n,
										  MosqlNodeImage *images, uint64 *schema, MosqlBudget *budget);

/* Single fields, in parallel, one round trip. */
extern void mosql_step_read_fields(MosqlStepper *stepper, MosqlFieldRead *reads, int n,
								   MosqlBudget *budget);

/* The list in which the owner (16 bytes) of a wait on a node is told. */
extern MosqlBytes mosql_step_wake_list(const MosqlStepper *stepper, uint64 node, MosqlBytes owner);

/*
 * The fields of its row as they were when the wait with this number was let in, if a message of that list tells them;
 * they lie in the message.  False: it does not, and one has to look.
 */
extern bool mosql_step_told(MosqlBytes message, uint32 number, MosqlBytes *intents, MosqlBytes *row);

/* Remove nodes (UNLINK); only for nodes that nobody can reach any more. */
extern void mosql_step_delete_nodes(MosqlStepper *stepper, const uint64 *nodes, int n,
									MosqlBudget *budget);

/*
 * Evaluate compares against field values in C: the meaning of a step, shared
 * by the watch engine and the in-memory store of the unit tests.  `get`
 * returns a field's value (data NULL: absent); `image` is the whole hash, only
 * needed for RANGE and COUNT.  Returns the index of the first that fails, or -1.
 */
typedef MosqlBytes (*MosqlFieldGetter) (void *arg, MosqlBytes field);
extern int	mosql_step_evaluate(const MosqlStep *step, MosqlFieldGetter get, void *arg,
								const MosqlNodeImage *image);

/*
 * The value of a MOSQL_WRITE_ADD: the row's timestamp becomes the greater of
 * its own and ts; each delta is added, modulo its width, to the big-endian
 * integer at its offset in the field.
 *
 *     7 bytes timestamp; per delta: 4 bytes offset, 1 byte width (2, 4, 8),
 *     8 bytes delta; all big-endian
 */
typedef struct MosqlStepDelta
{
	uint32		offset;
	int			width;
	int64		delta;
} MosqlStepDelta;
extern MosqlBytes mosql_step_add(MosqlTimestamp ts, const MosqlStepDelta *deltas, int n);

/* A write op as what it does to the old value: the new one; data NULL = delete. */
extern MosqlBytes mosql_step_written(const MosqlWrite *write, MosqlBytes old);

/*
 * A row's field with a version on top of `old` (absent: none), pruned by the list, as one write; or two: a tombstone that nobody needs
 * goes as a whole, and leaves a purge mark.  Returns how many; 0: the row does not decode, or is no older.
 */
extern int	mosql_step_supersede(MosqlBytes field, MosqlBytes old, const MosqlVersion *version,
								 const MosqlSnapshotList *list, MosqlWrite *writes);

#endif							/* MOSQL_STEP_H */
