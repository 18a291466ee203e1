/*
 * memstore.c: see memstore.h.
 */
#include "memstore.h"

typedef struct MemField
{
	MosqlBytes	field;			/* malloc'ed */
	MosqlBytes	value;
} MemField;

typedef struct MemNode
{
	uint64		id;
	struct MemNode *chain;
	int			n;
	int			max;
	MemField   *fields;
} MemNode;

static MosqlBytes
keep(MosqlBytes b)
{
	char	   *p = malloc(b.len + 1);

	if (b.len > 0)
		memcpy(p, b.data, b.len);
	return mosql_bytes(p, b.len);
}

static MosqlBytes
copy(MosqlBytes b)
{
	return mosql_bytes_copy(CurrentMemoryContext, b);
}

uint64
memstore_random(MemStore *mem)
{
	uint64		z = (mem->rng += UINT64CONST(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64CONST(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static MemNode *
find_node(const MemStore *mem, uint64 id)
{
	MemNode    *node = mem->buckets[id % mem->nbuckets];

	while (node != NULL && node->id != id)
		node = node->chain;
	return node;
}

static MemNode *
make_node(MemStore *mem, uint64 id)
{
	MemNode    *node = find_node(mem, id);

	if (node != NULL)
		return node;
	node = calloc(1, sizeof(MemNode));
	node->id = id;
	node->chain = mem->buckets[id % mem->nbuckets];
	mem->buckets[id % mem->nbuckets] = node;
	mem->nnodes++;
	return node;
}

static void
free_node(MemStore *mem, uint64 id)
{
	MemNode   **link = &mem->buckets[id % mem->nbuckets];

	while (*link != NULL && (*link)->id != id)
		link = &(*link)->chain;
	if (*link != NULL)
	{
		MemNode    *node = *link;

		*link = node->chain;
		for (int i = 0; i < node->n; i++)
		{
			free((void *) node->fields[i].field.data);
			free((void *) node->fields[i].value.data);
		}
		free(node->fields);
		free(node);
		mem->nnodes--;
	}
}

static MemField *
find_field(MemNode *node, MosqlBytes field)
{
	for (int i = 0; node != NULL && i < node->n; i++)
		if (mosql_bytes_equal(node->fields[i].field, field))
			return &node->fields[i];
	return NULL;
}

void
memstore_set(MemStore *mem, uint64 id, MosqlBytes field, MosqlBytes value)
{
	MemNode    *node = value.data == NULL ? find_node(mem, id) : make_node(mem, id);
	MemField   *f = find_field(node, field);

	if (value.data == NULL)
	{
		if (f == NULL)
			return;
		free((void *) f->field.data);
		free((void *) f->value.data);
		memmove(f, f + 1, (node->fields + node->n - (f + 1)) * sizeof(MemField));
		if (--node->n == 0)
			free_node(mem, id);
		return;
	}
	value = keep(value);
	if (f != NULL)
	{
		free((void *) f->value.data);
		f->value = value;
		return;
	}
	if (node->n == node->max)
	{
		node->max = Max(8, 2 * node->max);
		node->fields = realloc(node->fields, node->max * sizeof(MemField));
	}
	node->fields[node->n++] = (MemField) {keep(field), value};
}

bool
memstore_image(MemStore *mem, uint64 id, MosqlNodeImage *image)
{
	MemNode    *node = find_node(mem, id);

	*image = (MosqlNodeImage) {.node = id, .found = node != NULL};
	if (node == NULL)
		return false;
	image->nfields = node->n;
	if (mem->borrow)
	{
		StaticAssertStmt(sizeof(MemField) == sizeof(MosqlFieldValue), "same layout");
		image->fields = (MosqlFieldValue *) node->fields;
		return true;
	}
	image->fields = palloc(node->n * sizeof(MosqlFieldValue));
	for (int i = 0; i < node->n; i++)
		image->fields[i] = (MosqlFieldValue) {copy(node->fields[i].field), copy(node->fields[i].value)};
	return true;
}

/* --- the store's calls --- */

static void
round_trip(MemStore *mem)
{
	mem->round_trips++;
	if (mem->hook != NULL)
		mem->hook(mem->hook_arg);
}

static void
read_nodes(MosqlNodeStore *store, const uint64 *nodes, int n, MosqlNodeImage *images)
{
	MemStore   *mem = (MemStore *) store;

	round_trip(mem);
	for (int i = 0; i < n; i++)
		memstore_image(mem, nodes[i], &images[i]);
	mem->nodes_read += n;
}

/* All that is asked in a round trip is of one moment here. */
static bool
reads_at_once(MosqlNodeStore *store, const uint64 *nodes, int n, bool told)
{
	return true;
}

static bool
read_nodes_at_once(MosqlNodeStore *store, const uint64 *nodes, int n, MosqlNodeImage *images, uint64 *schema)
{
	read_nodes(store, nodes, n, images);
	if (schema != NULL)
		*schema = 1;
	return true;
}

struct MosqlPrefetch
{
	MemStore   *mem;
	MemoryContext cxt;
	int			n;
	MosqlNodeImage *images;
};

/* Read now; what others do before they are wanted does not show. */
static MosqlPrefetch *
prefetch(MosqlNodeStore *store, const uint64 *nodes, int n)
{
	MemStore   *mem = (MemStore *) store;
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "prefetch", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	MosqlPrefetch *asked = palloc(sizeof(MosqlPrefetch));

	*asked = (MosqlPrefetch) {mem, cxt, n, palloc(n * sizeof(MosqlNodeImage))};
	for (int i = 0; i < n; i++)
		memstore_image(mem, nodes[i], &asked->images[i]);
	mem->nodes_read += n;
	mem->asked++;
	MemoryContextSwitchTo(old);
	return asked;
}

static void
prefetch_drop(MosqlPrefetch *asked)
{
	asked->mem->asked--;
	MemoryContextDelete(asked->cxt);
}

static bool
prefetched(MosqlPrefetch *asked, MosqlNodeImage *images)
{
	round_trip(asked->mem);
	if (memstore_random(asked->mem) % 8 == 0)
	{
		prefetch_drop(asked);
		return false;
	}
	memcpy(images, asked->images, asked->n * sizeof(MosqlNodeImage));
	asked->mem->asked--;
	asked->mem->took++;
	MemoryContextSetParent(asked->cxt, CurrentMemoryContext);
	return true;
}

static void
read_fields(MosqlNodeStore *store, MosqlFieldRead *reads, int n)
{
	MemStore   *mem = (MemStore *) store;

	round_trip(mem);
	for (int i = 0; i < n; i++)
	{
		MemNode    *node = find_node(mem, reads[i].node);

		reads[i].values = palloc(reads[i].nfields * sizeof(MosqlBytes));
		for (int j = 0; j < reads[i].nfields; j++)
		{
			MemField   *f = find_field(node, reads[i].fields[j]);

			reads[i].values[j] = f ? copy(f->value) : MOSQL_ABSENT;
		}
	}
}

static MosqlBytes
get_field(void *arg, MosqlBytes field)
{
	MemField   *f = find_field(arg, field);

	return f ? f->value : MOSQL_ABSENT;
}

static void
make_writes(MemStore *mem, MosqlStep *step, bool deletes)
{
	for (int i = 0; i < step->nwrites; i++)
	{
		MosqlWrite *write = &step->writes[i];

		if ((write->kind == MOSQL_WRITE_DELETE) == deletes)
			memstore_set(mem, step->node, write->field,
						 mosql_step_written(write, get_field(find_node(mem, step->node), write->field)));
	}
}

/* The next step is the one that crashes, or comes after it. */
static bool
crashes(MemStore *mem)
{
	mem->steps++;
	return mem->crash_at != 0 &&
		(mem->crash_once ? mem->steps == mem->crash_at : mem->steps >= mem->crash_at);
}

static void
run_step(MemStore *mem, MosqlStep *step)
{
	MosqlNodeImage image = {0};
	MemNode    *node = find_node(mem, step->node);
	bool		lost = mem->lost > 0 && (memstore_random(mem) >> 11) * 0x1p-53 < mem->lost;
	bool		crash = crashes(mem);

	if ((crash && !(mem->crash_after && mem->steps == mem->crash_at)) || (lost && memstore_random(mem) % 2))
		goto unmade;
	lost = lost || mem->steps == mem->lose_at;
	for (int i = 0; i < step->ncompares; i++)
		if (mosql_step_sees_all(&step->compares[i]))
			memstore_image(mem, step->node, &image);
	step->failed = mosql_step_evaluate(step, get_field, node, &image);
	step->status = step->failed < 0 ? MOSQL_STEP_DONE : MOSQL_STEP_FAILED;
	step->values = palloc(step->nreads * sizeof(MosqlBytes));
	for (int i = 0; i < step->nreads; i++)
	{
		MosqlBytes	value = get_field(node, step->reads[i]);

		step->values[i] = copy(value);
	}
	if (step->status == MOSQL_STEP_DONE)
	{
		make_writes(mem, step, true);
		make_writes(mem, step, false);
	}
	node = find_node(mem, step->node);
	step->nfields = node ? node->n : 0;
unmade:
	if (lost)
		step->status = MOSQL_STEP_LOST;
	if (crash)
		ereport(ERROR, (errcode(MEMSTORE_CRASH), errmsg("crash")));
}

static void
run_steps(MosqlNodeStore *store, MosqlStep **steps, int n)
{
	MemStore   *mem = (MemStore *) store;
	int		   *order = palloc(n * sizeof(int));

	round_trip(mem);
	for (int i = 0; i < n; i++)
	{
		int			j = (int) (memstore_random(mem) % (i + 1));

		order[i] = order[j];
		order[j] = i;
	}
	for (int i = 0; i < n; i++)
		run_step(mem, steps[order[i]]);
	pfree(order);
}

static void
delete_nodes(MosqlNodeStore *store, const uint64 *nodes, int n)
{
	MemStore   *mem = (MemStore *) store;

	round_trip(mem);
	for (int i = 0; i < n; i++)
	{
		if (crashes(mem))
			ereport(ERROR, (errcode(MEMSTORE_CRASH), errmsg("crash")));
		free_node(mem, nodes[i]);
		mem->nodes_deleted++;
	}
}

/* Even ones are together. */
static uint64
new_id(MosqlNodeStore *store, bool together)
{
	MemStore   *mem = (MemStore *) store;

	mem->next_id = (mem->next_id | 1) + (together ? 1 : 2);
	return mem->next_id;
}

static uint64
incarnation(MosqlNodeStore *store)
{
	return ((MemStore *) store)->incarnation;
}

static uint64
breaks(MosqlNodeStore *store)
{
	return ((MemStore *) store)->breaks;
}

MemStore *
memstore_open(uint64 seed)
{
	MemStore   *mem = calloc(1, sizeof(MemStore));

	mem->store = (MosqlNodeStore)
	{
		.ns = "test", .read_nodes = read_nodes, .reads_at_once = reads_at_once, .read_nodes_at_once = read_nodes_at_once, .read_fields = read_fields,
		.prefetch = prefetch, .prefetched = prefetched, .prefetch_drop = prefetch_drop,
		.run_steps = run_steps, .delete_nodes = delete_nodes, .new_id = new_id,
		.incarnation = incarnation, .breaks = breaks
	};
	mem->nbuckets = 4093;
	mem->buckets = calloc(mem->nbuckets, sizeof(MemNode *));
	mem->next_id = 1000;
	mem->rng = seed;
	return mem;
}

void
memstore_close(MemStore *mem)
{
	for (int i = 0; i < mem->nbuckets; i++)
		while (mem->buckets[i] != NULL)
			free_node(mem, mem->buckets[i]->id);
	free(mem->buckets);
	free(mem);
}

/* The same content, no faults. */
MemStore *
memstore_copy(const MemStore *mem)
{
	MemStore   *out = memstore_open(mem->rng);

	out->next_id = mem->next_id;
	for (int i = 0; i < mem->nbuckets; i++)
		for (MemNode *node = mem->buckets[i]; node != NULL; node = node->chain)
			for (int f = 0; f < node->n; f++)
				memstore_set(out, node->id, node->fields[f].field, node->fields[f].value);
	return out;
}

/* All ids, palloc'ed. */
int
memstore_ids(const MemStore *mem, uint64 **ids)
{
	int			n = 0;

	*ids = palloc(Max(mem->nnodes, 1) * sizeof(uint64));
	for (int i = 0; i < mem->nbuckets; i++)
		for (MemNode *node = mem->buckets[i]; node != NULL; node = node->chain)
			(*ids)[n++] = node->id;
	return n;
}
