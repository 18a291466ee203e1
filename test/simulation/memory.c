/*
 * memory.c: PostgreSQL's memory contexts, fast.
 *
 * In place of those of pgstub.c, which take each chunk from malloc(), for a checker of
 * memory to see.  Here a context takes blocks and gives them back as a whole, as the
 * server's own do: a third of a run's time went into malloc().  The blocks that nobody
 * uses belong to all front-ends.
 */
#include "postgres.h"

#include <stdlib.h>

#include "utils/memutils.h"

#define BLOCK_BYTES		8192
#define CLASS_MAX_BYTES	2048	/* larger chunks come from malloc() */
#define CLASSES			8		/* 16, 32 .. 2048 bytes */
#define CLOBBER_BYTES	128		/* what was not initialised is to look like it */

/* Before each chunk; the context pointer must directly precede the chunk. */
typedef struct Chunk
{
	Size		size;			/* as asked for */
	MemoryContext context;
} Chunk;

/* A chunk that was given back. */
typedef struct Free
{
	struct Free *next;
} Free;

typedef struct Block
{
	struct Block *next;
	char		data[BLOCK_BYTES - sizeof(void *)];
} Block;

typedef struct Large
{
	struct Large *prev;
	struct Large *next;
	Chunk		chunk;
} Large;

typedef struct Context
{
	MemoryContextData header;
	Block	   *blocks;			/* the first one is being filled */
	char	   *at;
	char	   *end;
	Large		large;			/* head of a ring */
	Free	   *free[CLASSES];
} Context;

static Block *spare_blocks;
static Context *spare_contexts; /* by their header's nextchild */

/* ---- contexts ---- */

void
MemoryContextSetParent(MemoryContext context, MemoryContext new_parent)
{
	if (context->parent == new_parent)
		return;
	if (context->parent != NULL)
	{
		if (context->prevchild != NULL)
			context->prevchild->nextchild = context->nextchild;
		else
			context->parent->firstchild = context->nextchild;
		if (context->nextchild != NULL)
			context->nextchild->prevchild = context->prevchild;
	}
	context->parent = new_parent;
	context->prevchild = NULL;
	context->nextchild = NULL;
	if (new_parent != NULL)
	{
		context->nextchild = new_parent->firstchild;
		if (new_parent->firstchild != NULL)
			new_parent->firstchild->prevchild = context;
		new_parent->firstchild = context;
	}
}

MemoryContext
MemoryContextGetParent(MemoryContext context)
{
	return context->parent;
}

void
MemoryContextSetIdentifier(MemoryContext context, const char *id)
{
	context->ident = id;
}

void
MemoryContextRegisterResetCallback(MemoryContext context, MemoryContextCallback *cb)
{
	cb->next = context->reset_cbs;
	context->reset_cbs = cb;
	context->isReset = false;
}

static MemoryContext
context_create(MemoryContext parent, const char *name)
{
	Context    *c = spare_contexts;

	if (c != NULL)
		spare_contexts = (Context *) c->header.nextchild;
	else
		c = malloc(sizeof(Context));
	memset(c, 0, sizeof(Context));
	c->header.type = T_AllocSetContext;
	c->header.isReset = true;
	c->header.name = name;
	c->large.prev = c->large.next = &c->large;
	MemoryContextSetParent(&c->header, parent);
	return &c->header;
}

MemoryContext
AllocSetContextCreateInternal(MemoryContext parent, const char *name,
							  Size minContextSize, Size initBlockSize, Size maxBlockSize)
{
	return context_create(parent, name);
}

MemoryContext
GenerationContextCreate(MemoryContext parent, const char *name,
						Size minContextSize, Size initBlockSize, Size maxBlockSize)
{
	return context_create(parent, name);
}

MemoryContext
SlabContextCreate(MemoryContext parent, const char *name, Size blockSize, Size chunkSize)
{
	return context_create(parent, name);
}

static void
call_reset_callbacks(MemoryContext context)
{
	MemoryContextCallback *cb;

	while ((cb = context->reset_cbs) != NULL)
	{
		context->reset_cbs = cb->next;
		cb->func(cb->arg);
	}
}

static void
free_chunks(Context *c)
{
	while (c->blocks != NULL)
	{
		Block	   *block = c->blocks;

		c->blocks = block->next;
		block->next = spare_blocks;
		spare_blocks = block;
	}
	c->at = c->end = NULL;
	memset(c->free, 0, sizeof(c->free));
	while (c->large.next != &c->large)
	{
		Large	   *l = c->large.next;

		c->large.next = l->next;
		free(l);
	}
	c->large.prev = &c->large;
	c->header.isReset = true;
}

void
MemoryContextResetOnly(MemoryContext context)
{
	call_reset_callbacks(context);
	free_chunks((Context *) context);
}

void
MemoryContextDelete(MemoryContext context)
{
	Assert(context != TopMemoryContext && context != CurrentMemoryContext);
	MemoryContextDeleteChildren(context);
	call_reset_callbacks(context);
	MemoryContextSetParent(context, NULL);
	free_chunks((Context *) context);
	context->type = T_Invalid;
	context->nextchild = (MemoryContext) spare_contexts;
	spare_contexts = (Context *) context;
}

void
MemoryContextReset(MemoryContext context)
{
	MemoryContextDeleteChildren(context);
	MemoryContextResetOnly(context);
}

void
MemoryContextDeleteChildren(MemoryContext context)
{
	while (context->firstchild != NULL)
		MemoryContextDelete(context->firstchild);
}

void
MemoryContextResetChildren(MemoryContext context)
{
	for (MemoryContext c = context->firstchild; c != NULL; c = c->nextchild)
		MemoryContextReset(c);
}

bool
MemoryContextIsEmpty(MemoryContext context)
{
	Context    *c = (Context *) context;

	return c->blocks == NULL && c->large.next == &c->large && context->firstchild == NULL;
}

/* As far as chunks matter: the product compares it with some megabytes. */
Size
MemoryContextMemAllocated(MemoryContext context, bool recurse)
{
	Context    *c = (Context *) context;
	Size		sum = 0;

	for (Block *b = c->blocks; b != NULL; b = b->next)
		sum += BLOCK_BYTES;
	for (Large *l = c->large.next; l != &c->large; l = l->next)
		sum += l->chunk.size;
	if (recurse)
		for (MemoryContext k = context->firstchild; k != NULL; k = k->nextchild)
			sum += MemoryContextMemAllocated(k, true);
	return sum;
}

/* ---- chunks ---- */

static inline int
class_of(Size size)
{
	return size <= 16 ? 0 : 60 - __builtin_clzll(size - 1);
}

/* A chunk has room for all of its class: these are lengths that the compiler knows. */
static inline void
clobber(void *chunk, Size size)
{
	if (size <= 16)
		memset(chunk, 0x7F, 16);
	else if (size <= 32)
		memset(chunk, 0x7F, 32);
	else if (size <= 64)
		memset(chunk, 0x7F, 64);
	else
		memset(chunk, 0x7F, CLOBBER_BYTES);
}

static inline Chunk *
chunk_of(void *pointer)
{
	return (Chunk *) pointer - 1;
}

static Chunk *
take_large(Context *c, Size size)
{
	Large	   *l = malloc(sizeof(Large) + size);

	if (l == NULL)
		return NULL;
	l->next = c->large.next;
	l->prev = &c->large;
	l->next->prev = c->large.next = l;
	return &l->chunk;
}

static void
take_block(Context *c)
{
	Block	   *block = spare_blocks;

	if (block != NULL)
		spare_blocks = block->next;
	else
		block = malloc(sizeof(Block));
	block->next = c->blocks;
	c->blocks = block;
	c->at = block->data + sizeof(void *);	/* chunks are aligned to 16 */
	c->end = block->data + sizeof(block->data);
}

static Chunk *
take_small(Context *c, int class)
{
	Size		bytes = sizeof(Chunk) + ((Size) 16 << class);
	Free	   *free = c->free[class];
	Chunk	   *chunk;

	if (free != NULL)
	{
		c->free[class] = free->next;
		return chunk_of(free);
	}
	if (c->end - c->at < bytes)
		take_block(c);
	chunk = (Chunk *) c->at;
	c->at += bytes;
	return chunk;
}

void *
MemoryContextAllocExtended(MemoryContext context, Size size, int flags)
{
	Context    *c = (Context *) context;
	Chunk	   *chunk;

	Assert(MemoryContextIsValid(context));
	if ((flags & MCXT_ALLOC_HUGE) ? !AllocHugeSizeIsValid(size) : !AllocSizeIsValid(size))
		elog(ERROR, "invalid memory alloc request size %zu", size);
	chunk = size > CLASS_MAX_BYTES ? take_large(c, size) : take_small(c, class_of(size));
	if (chunk == NULL)
	{
		if (flags & MCXT_ALLOC_NO_OOM)
			return NULL;
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	}
	chunk->size = size;
	chunk->context = context;
	context->isReset = false;
	if (flags & MCXT_ALLOC_ZERO)
		memset(chunk + 1, 0, size);
	else
		clobber(chunk + 1, size);
	return chunk + 1;
}

void *
MemoryContextAlloc(MemoryContext context, Size size)
{
	return MemoryContextAllocExtended(context, size, 0);
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return MemoryContextAllocExtended(context, size, MCXT_ALLOC_ZERO);
}

#if PG_VERSION_NUM < 170000
void *
MemoryContextAllocZeroAligned(MemoryContext context, Size size)
{
	return MemoryContextAllocExtended(context, size, MCXT_ALLOC_ZERO);
}
#endif

void *
MemoryContextAllocHuge(MemoryContext context, Size size)
{
	return MemoryContextAllocExtended(context, size, MCXT_ALLOC_HUGE);
}

void *
palloc(Size size)
{
	return MemoryContextAllocExtended(CurrentMemoryContext, size, 0);
}

void *
palloc0(Size size)
{
	return MemoryContextAllocExtended(CurrentMemoryContext, size, MCXT_ALLOC_ZERO);
}

void *
palloc_extended(Size size, int flags)
{
	return MemoryContextAllocExtended(CurrentMemoryContext, size, flags);
}

void
pfree(void *pointer)
{
	Chunk	   *chunk = chunk_of(pointer);

	if (chunk->size > CLASS_MAX_BYTES)
	{
		Large	   *l = (Large *) ((char *) chunk - offsetof(Large, chunk));

		l->prev->next = l->next;
		l->next->prev = l->prev;
		free(l);
	}
	else
	{
		Context    *c = (Context *) chunk->context;
		int			class = class_of(chunk->size);
		Free	   *free = pointer;

		clobber(pointer, chunk->size);
		free->next = c->free[class];
		c->free[class] = free;
	}
}

static void *
repalloc_limited(void *pointer, Size size, int flags)
{
	Chunk	   *old = chunk_of(pointer);
	void	   *new;

	if (size <= CLASS_MAX_BYTES && old->size <= CLASS_MAX_BYTES && class_of(size) == class_of(old->size))
	{
		old->size = size;
		return pointer;
	}
	new = MemoryContextAllocExtended(old->context, size, flags);
	memcpy(new, pointer, Min(old->size, size));
	pfree(pointer);
	return new;
}

void *
repalloc(void *pointer, Size size)
{
	return repalloc_limited(pointer, size, 0);
}

void *
repalloc_huge(void *pointer, Size size)
{
	return repalloc_limited(pointer, size, MCXT_ALLOC_HUGE);
}

#if PG_VERSION_NUM >= 160000
void *
repalloc0(void *pointer, Size oldsize, Size size)
{
	char	   *p = repalloc(pointer, size);

	memset(p + oldsize, 0, size - oldsize);
	return p;
}

MemoryContext
GetMemoryChunkContext(void *pointer)
{
	return chunk_of(pointer)->context;
}
#endif

Size
GetMemoryChunkSpace(void *pointer)
{
	return chunk_of(pointer)->size + sizeof(Chunk);
}
