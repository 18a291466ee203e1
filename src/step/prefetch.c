/*
 * prefetch.c: whole nodes are asked for before they are wanted.
 *
 * Layer: step.  The commands are detached ones, so whoever asks goes on meanwhile, and whatever else
 * he says on these connections is answered after them.  A node that does not come as it should, for
 * its slot has moved, its connection broke, or the key is somebody else's, takes all of them with it: they are
 * then read the ordinary way, which knows what to do.
 *
 * Memory.  Replies come at any time until the last one has, also after nobody wants them any
 * more.  So all of it is in a context of its own below TopMemoryContext, which ends with the last reply, or with
 * whoever has taken the nodes.
 */
#include "step/step_int.h"

struct MosqlPrefetch
{
	MemoryContext cxt;
	MosqlRedis *redis;
	int			n;
	MosqlNodeImage *images;
	int			expected;		/* replies that have not come yet */
	bool		failed;			/* one is none of a node */
	bool		dropped;		/* nobody wants them */
};

/* One node's reply is to go where. */
typedef struct Awaited
{
	MosqlPrefetch *prefetch;
	MosqlNodeImage *image;
} Awaited;

/* Fields and values of a reply of a hash, or -1. */
static int64
bytes_of(const MosqlReply *reply)
{
	int64		bytes = 0;

	if (reply->kind != MOSQL_REPLY_ARRAY || reply->n % 2 != 0)
		return -1;
	for (int i = 0; i < reply->n; i++)
	{
		if (reply->elem[i]->kind != MOSQL_REPLY_STRING)
			return -1;
		bytes += reply->elem[i]->str.len + 1;
	}
	return bytes;
}

static MosqlBytes
copy_to(char **p, MosqlBytes from)
{
	MosqlBytes	copy = mosql_bytes(*p, from.len);

	memcpy(*p, from.data, from.len);
	(*p)[from.len] = '\0';
	*p += from.len + 1;
	return copy;
}

/* A copy of what the reply says, in one piece; false if it says something else, or there is no memory. */
static bool
keep_image(MosqlPrefetch *prefetch, MosqlNodeImage *image, const MosqlReply *reply)
{
	int64		bytes = bytes_of(reply);
	Size		fields = reply->n / 2 * sizeof(MosqlFieldValue);
	char	   *p;

	if (bytes < 0)
		return false;
	p = MemoryContextAllocExtended(prefetch->cxt, fields + bytes + 1, MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
	if (p == NULL)
		return false;
	image->nfields = reply->n / 2;
	image->found = image->nfields > 0;
	image->fields = (MosqlFieldValue *) p;
	p += fields;
	for (int i = 0; i < image->nfields; i++)
	{
		image->fields[i].field = copy_to(&p, reply->elem[2 * i]->str);
		image->fields[i].value = copy_to(&p, reply->elem[2 * i + 1]->str);
	}
	return true;
}

/* See MosqlReplyCallback: throws nothing. */
static void
hear_node(void *arg, const MosqlReply *reply)
{
	Awaited    *awaited = (Awaited *) arg;
	MosqlPrefetch *prefetch = awaited->prefetch;

	Assert(prefetch->expected > 0);
	if (!prefetch->failed && !prefetch->dropped)
		prefetch->failed = !keep_image(prefetch, awaited->image, reply);
	if (--prefetch->expected == 0 && prefetch->dropped)
		MemoryContextDelete(prefetch->cxt);
}

/* All that needs memory comes first: once a command is sent its reply must find where to go. */
MosqlPrefetch *
mosql_step_prefetch(MosqlStepper *stepper, const uint64 *nodes, int n, bool at_once)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql prefetch", ALLOCSET_DEFAULT_SIZES);
	MosqlPrefetch *prefetch = MemoryContextAllocZero(cxt, sizeof(MosqlPrefetch));
	Awaited    *awaited = MemoryContextAlloc(cxt, n * sizeof(Awaited));
	MosqlBytes *keys = MemoryContextAlloc(cxt, n * sizeof(MosqlBytes));

	prefetch->cxt = cxt;
	prefetch->redis = stepper->redis;
	prefetch->n = n;
	prefetch->images = MemoryContextAllocZero(cxt, n * sizeof(MosqlNodeImage));
	prefetch->expected = n;
	for (int i = 0; i < n; i++)
	{
		awaited[i] = (Awaited) {prefetch, &prefetch->images[i]};
		prefetch->images[i].node = nodes[i];
		keys[i] = mosql_step_key(stepper, nodes[i]);
	}
	MemoryContextSetParent(cxt, TopMemoryContext);
	mosql_redis_cork(stepper->redis);
	for (int i = 0; i < n; i++)
		mosql_redis_send_at_once(stepper->redis, mosql_redis_slot(keys[i]), 2,
								 (MosqlBytes[]) {LITERAL("HGETALL"), keys[i]}, hear_node, &awaited[i]);
	if (at_once)
		mosql_redis_uncork(stepper->redis);
	return prefetch;
}

bool
mosql_step_prefetched(MosqlPrefetch *prefetch, MosqlNodeImage *images)
{
	if (!mosql_redis_await(prefetch->redis, &prefetch->expected) || prefetch->failed)
	{
		mosql_step_prefetch_drop(prefetch);
		return false;
	}
	memcpy(images, prefetch->images, prefetch->n * sizeof(MosqlNodeImage));
	MemoryContextSetParent(prefetch->cxt, CurrentMemoryContext);
	return true;
}

void
mosql_step_prefetch_drop(MosqlPrefetch *prefetch)
{
	prefetch->dropped = true;
	if (prefetch->expected == 0)
		MemoryContextDelete(prefetch->cxt);
}
