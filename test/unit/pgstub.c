/*
 * pgstub.c: the stand-in for the PostgreSQL server (see pgstub.h).
 *
 * Only what the layers below txn use, with the same meaning as in the server.
 * What libpgcommon and libpgport have (snprintf, qsort, hashes, pglz) comes
 * from there.
 */
#include "pgstub.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/pg_prng.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/*
 * ---------------------------------------------------------------------------
 * Memory contexts
 * ---------------------------------------------------------------------------
 */

MemoryContext CurrentMemoryContext;
MemoryContext TopMemoryContext;
MemoryContext ErrorContext;
MemoryContext CacheMemoryContext;
MemoryContext MessageContext;
MemoryContext TopTransactionContext;
MemoryContext CurTransactionContext;
MemoryContext PortalContext;

#ifndef PGSTUB_NO_MEMORY			/* the simulator has its own: test/simulation/memory.c */

/* Before each chunk; the context pointer must directly precede the chunk. */
typedef struct Chunk
{
	struct Chunk *prev;
	struct Chunk *next;
	Size		size;
	MemoryContext context;
} Chunk;

typedef struct StubContext
{
	MemoryContextData header;
	Chunk		chunks;			/* head of a ring */
} StubContext;

static int64 live_chunks;

static MemoryContext
context_create(MemoryContext parent, const char *name)
{
	StubContext *c = calloc(1, sizeof(StubContext));

	c->header.type = T_AllocSetContext;
	c->header.isReset = true;
	c->header.name = name;
	c->chunks.prev = c->chunks.next = &c->chunks;
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
free_chunks(MemoryContext context)
{
	Chunk	   *head = &((StubContext *) context)->chunks;

	while (head->next != head)
	{
		Chunk	   *c = head->next;

		head->next = c->next;
		free(c);
		live_chunks--;
	}
	head->prev = head;
	context->isReset = true;
}

void
MemoryContextResetOnly(MemoryContext context)
{
	call_reset_callbacks(context);
	free_chunks(context);
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

void
MemoryContextDelete(MemoryContext context)
{
	Assert(context != TopMemoryContext && context != CurrentMemoryContext);
	MemoryContextDeleteChildren(context);
	call_reset_callbacks(context);
	MemoryContextSetParent(context, NULL);
	free_chunks(context);
	free(context);
}

bool
MemoryContextIsEmpty(MemoryContext context)
{
	Chunk	   *head = &((StubContext *) context)->chunks;

	return head->next == head && context->firstchild == NULL;
}

Size
MemoryContextMemAllocated(MemoryContext context, bool recurse)
{
	Chunk	   *head = &((StubContext *) context)->chunks;
	Size		sum = 0;

	for (Chunk *c = head->next; c != head; c = c->next)
		sum += c->size;
	if (recurse)
		for (MemoryContext k = context->firstchild; k != NULL; k = k->nextchild)
			sum += MemoryContextMemAllocated(k, true);
	return sum;
}

static Chunk *
chunk_of(void *pointer)
{
	return (Chunk *) pointer - 1;
}

static void
link_chunk(Chunk *c, MemoryContext context)
{
	Chunk	   *head = &((StubContext *) context)->chunks;

	c->context = context;
	c->next = head->next;
	c->prev = head;
	c->next->prev = c;
	head->next = c;
	context->isReset = false;
}

void *
MemoryContextAllocExtended(MemoryContext context, Size size, int flags)
{
	Chunk	   *c;

	StaticAssertStmt(sizeof(Chunk) % MAXIMUM_ALIGNOF == 0, "chunks must be aligned");
	Assert(MemoryContextIsValid(context));
	if ((flags & MCXT_ALLOC_HUGE) ? !AllocHugeSizeIsValid(size) : !AllocSizeIsValid(size))
		elog(ERROR, "invalid memory alloc request size %zu", size);
	c = malloc(sizeof(Chunk) + size);
	if (c == NULL)
	{
		if (flags & MCXT_ALLOC_NO_OOM)
			return NULL;
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	}
	c->size = size;
	link_chunk(c, context);
	live_chunks++;
	if (flags & MCXT_ALLOC_ZERO)
		memset(c + 1, 0, size);
	else
		memset(c + 1, 0x7F, Min(size, 1024));	/* as CLOBBER_FREED_MEMORY does */
	return c + 1;
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
	return MemoryContextAlloc(CurrentMemoryContext, size);
}

void *
palloc0(Size size)
{
	return MemoryContextAllocZero(CurrentMemoryContext, size);
}

void *
palloc_extended(Size size, int flags)
{
	return MemoryContextAllocExtended(CurrentMemoryContext, size, flags);
}

void
pfree(void *pointer)
{
	Chunk	   *c = chunk_of(pointer);

	c->prev->next = c->next;
	c->next->prev = c->prev;
	live_chunks--;
	free(c);
}

static void *
repalloc_limited(void *pointer, Size size, bool huge)
{
	Chunk	   *old = chunk_of(pointer);
	void	   *new = MemoryContextAllocExtended(old->context, size, huge ? MCXT_ALLOC_HUGE : 0);

	memcpy(new, pointer, Min(old->size, size));
	pfree(pointer);
	return new;
}

void *
repalloc(void *pointer, Size size)
{
	return repalloc_limited(pointer, size, false);
}

void *
repalloc_huge(void *pointer, Size size)
{
	return repalloc_limited(pointer, size, true);
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

int64
pgstub_chunks(void)
{
	return live_chunks;
}

#endif							/* PGSTUB_NO_MEMORY */

char *
MemoryContextStrdup(MemoryContext context, const char *string)
{
	Size		len = strlen(string) + 1;

	return memcpy(MemoryContextAlloc(context, len), string, len);
}

char *
pstrdup(const char *in)
{
	return MemoryContextStrdup(CurrentMemoryContext, in);
}

char *
pnstrdup(const char *in, Size len)
{
	char	   *out;

	len = strnlen(in, len);
	out = palloc(len + 1);
	memcpy(out, in, len);
	out[len] = '\0';
	return out;
}

/*
 * ---------------------------------------------------------------------------
 * Strings
 * ---------------------------------------------------------------------------
 */

size_t
pvsnprintf(char *buf, size_t len, const char *fmt, va_list args)
{
	int			n = vsnprintf(buf, len, fmt, args);

	if (n < 0)
		abort();
	return n < len ? n : n + 1;
}

char *
psprintf(const char *fmt,...)
{
	StringInfoData buf;
	int			save_errno = errno;

	initStringInfo(&buf);
	for (;;)
	{
		va_list		args;
		int			needed;

		errno = save_errno;
		va_start(args, fmt);
		needed = appendStringInfoVA(&buf, fmt, args);
		va_end(args);
		if (needed == 0)
			return buf.data;
		enlargeStringInfo(&buf, needed);
	}
}

#if PG_VERSION_NUM >= 180000
StringInfo
makeStringInfoExt(int initsize)
{
	StringInfo	str = palloc(sizeof(StringInfoData));

	initStringInfoExt(str, initsize);
	return str;
}

void
initStringInfoExt(StringInfo str, int initsize)
{
	str->data = palloc(initsize);
	str->maxlen = initsize;
	resetStringInfo(str);
}
#endif

StringInfo
makeStringInfo(void)
{
	StringInfo	str = palloc(sizeof(StringInfoData));

	initStringInfo(str);
	return str;
}

void
initStringInfo(StringInfo str)
{
	str->data = palloc(1024);
	str->maxlen = 1024;
	resetStringInfo(str);
}

void
resetStringInfo(StringInfo str)
{
	str->data[0] = '\0';
	str->len = 0;
	str->cursor = 0;
}

#if PG_VERSION_NUM >= 170000
void
destroyStringInfo(StringInfo str)
{
	pfree(str->data);
	pfree(str);
}
#endif

void
enlargeStringInfo(StringInfo str, int needed)
{
	Size		want;

	Assert(needed >= 0);
	if ((Size) needed >= MaxAllocSize - str->len)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("out of memory"),
				 errdetail("Cannot enlarge string buffer containing %d bytes by %d more bytes.",
						   str->len, needed)));
	want = (Size) str->len + needed + 1;
	if (want > str->maxlen)
	{
		Size		size = Max(2 * (Size) str->maxlen, 64);

		while (size < want)
			size *= 2;
		size = Min(size, MaxAllocSize);
		str->data = repalloc(str->data, size);
		str->maxlen = (int) size;
	}
}

int
appendStringInfoVA(StringInfo str, const char *fmt, va_list args)
{
	int			avail = str->maxlen - str->len;
	size_t		n;

	if (avail < 16)
		return 32;
	n = pvsnprintf(str->data + str->len, avail, fmt, args);
	if (n < avail)
	{
		str->len += n;
		return 0;
	}
	str->data[str->len] = '\0';
	return (int) n;
}

void
appendStringInfo(StringInfo str, const char *fmt,...)
{
	int			save_errno = errno;

	for (;;)
	{
		va_list		args;
		int			needed;

		errno = save_errno;
		va_start(args, fmt);
		needed = appendStringInfoVA(str, fmt, args);
		va_end(args);
		if (needed == 0)
			return;
		enlargeStringInfo(str, needed);
	}
}

/* Until 15 the data were declared as char. */
#if PG_VERSION_NUM >= 160000
#define BINARY const void
#else
#define BINARY const char
#endif

void
appendBinaryStringInfoNT(StringInfo str, BINARY *data, int datalen)
{
	enlargeStringInfo(str, datalen);
	if (datalen > 0)
		memcpy(str->data + str->len, data, datalen);
	str->len += datalen;
}

void
appendBinaryStringInfo(StringInfo str, BINARY *data, int datalen)
{
	appendBinaryStringInfoNT(str, data, datalen);
	str->data[str->len] = '\0';
}

void
appendStringInfoString(StringInfo str, const char *s)
{
	appendBinaryStringInfo(str, s, strlen(s));
}

void
appendStringInfoChar(StringInfo str, char ch)
{
	appendBinaryStringInfo(str, &ch, 1);
}

void
appendStringInfoSpaces(StringInfo str, int count)
{
	for (int i = 0; i < count; i++)
		appendStringInfoChar(str, ' ');
}

/*
 * ---------------------------------------------------------------------------
 * Errors
 * ---------------------------------------------------------------------------
 */

#define STACK_MAX 8

sigjmp_buf *PG_exception_stack;
ErrorContextCallback *error_context_stack;

PgStubError pgstub_error = {0, "", "", ""};
int			pgstub_warnings;
void		(*pgstub_on_report) (const ErrorData *report);
bool		pgstub_print_messages;

static ErrorData stack[STACK_MAX];
static int	depth = -1;

bool
errstart(int elevel, const char *domain)
{
	ErrorData  *e;

	if (elevel < ERROR)
	{
		if (elevel < WARNING && !pgstub_print_messages)
			return false;
		if (elevel >= WARNING)
			pgstub_warnings++;
	}
	if (++depth >= STACK_MAX)
	{
		fprintf(stderr, "too many nested errors\n");
		abort();
	}
	e = &stack[depth];
	memset(e, 0, sizeof(*e));
	e->elevel = elevel;
	e->saved_errno = errno;
	e->sqlerrcode = elevel >= ERROR ? ERRCODE_INTERNAL_ERROR :
		elevel >= WARNING ? ERRCODE_WARNING : ERRCODE_SUCCESSFUL_COMPLETION;
	e->assoc_context = ErrorContext;
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

static void
print_error(const ErrorData *e)
{
	fprintf(stderr, "# %s %s: %s%s%s\n",
			e->elevel >= ERROR ? "ERROR" : e->elevel >= WARNING ? "WARNING" : "message",
			pgstub_sqlstate(e->sqlerrcode), e->message ? e->message : "",
			e->detail ? " / " : "", e->detail ? e->detail : "");
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	ErrorData  *e = &stack[depth];

	e->filename = filename;
	e->lineno = lineno;
	e->funcname = funcname;
	for (ErrorContextCallback *cb = error_context_stack; cb != NULL; cb = cb->previous)
		cb->callback(cb->arg);
	if (pgstub_on_report != NULL)
		pgstub_on_report(e);

	if (e->elevel < ERROR)
	{
		if (pgstub_print_messages)
			print_error(e);
		depth--;
		return;
	}
	if (PG_exception_stack == NULL || e->elevel > ERROR)
	{
		print_error(e);
		fprintf(stderr, "# nobody caught it (%s:%d)\n", filename, lineno);
		abort();
	}
	InterruptHoldoffCount = 0;
	QueryCancelHoldoffCount = 0;
	CritSectionCount = 0;
	pg_re_throw();
}

void
pg_re_throw(void)
{
	Assert(depth >= 0);
	if (PG_exception_stack == NULL)
	{
		print_error(&stack[depth]);
		abort();
	}
	siglongjmp(*PG_exception_stack, 1);
}

#define FORMAT_INTO(target) \
	do { \
		StringInfoData buf_; \
		MemoryContext old_ = MemoryContextSwitchTo(ErrorContext); \
		Assert(depth >= 0); \
		initStringInfo(&buf_); \
		for (;;) \
		{ \
			va_list		args_; \
			int			needed_; \
			errno = stack[depth].saved_errno; \
			va_start(args_, fmt); \
			needed_ = appendStringInfoVA(&buf_, fmt, args_); \
			va_end(args_); \
			if (needed_ == 0) \
				break; \
			enlargeStringInfo(&buf_, needed_); \
		} \
		(target) = buf_.data; \
		MemoryContextSwitchTo(old_); \
	} while (0)

int
errcode(int sqlerrcode)
{
	stack[depth].sqlerrcode = sqlerrcode;
	return 0;
}

int
errmsg(const char *fmt,...)
{
	FORMAT_INTO(stack[depth].message);
	return 0;
}

int
errmsg_internal(const char *fmt,...)
{
	FORMAT_INTO(stack[depth].message);
	return 0;
}

int
errmsg_plural(const char *fmt_singular, const char *fmt_plural, unsigned long n,...)
{
	stack[depth].message = MemoryContextStrdup(ErrorContext, n == 1 ? fmt_singular : fmt_plural);
	return 0;
}

int
errdetail(const char *fmt,...)
{
	FORMAT_INTO(stack[depth].detail);
	return 0;
}

int
errdetail_internal(const char *fmt,...)
{
	FORMAT_INTO(stack[depth].detail);
	return 0;
}

int
errhint(const char *fmt,...)
{
	FORMAT_INTO(stack[depth].hint);
	return 0;
}

int
errcontext_msg(const char *fmt,...)
{
	FORMAT_INTO(stack[depth].context);
	return 0;
}

int
set_errcontext_domain(const char *domain)
{
	return 0;
}

int
geterrcode(void)
{
	Assert(depth >= 0);
	return stack[depth].sqlerrcode;
}

static char *
copied(const char *s)
{
	return s ? pstrdup(s) : NULL;
}

ErrorData *
CopyErrorData(void)
{
	ErrorData  *e = palloc(sizeof(ErrorData));

	Assert(depth >= 0 && CurrentMemoryContext != ErrorContext);
	*e = stack[depth];
	e->message = copied(e->message);
	e->detail = copied(e->detail);
	e->hint = copied(e->hint);
	e->context = copied(e->context);
	e->assoc_context = CurrentMemoryContext;
	return e;
}

void
FreeErrorData(ErrorData *e)
{
	if (e->message)
		pfree(e->message);
	if (e->detail)
		pfree(e->detail);
	if (e->hint)
		pfree(e->hint);
	if (e->context)
		pfree(e->context);
	pfree(e);
}

void
FlushErrorState(void)
{
	depth = -1;
	MemoryContextReset(ErrorContext);
}

void
ThrowErrorData(ErrorData *e)
{
	if (!errstart(e->elevel, NULL))
		return;
	stack[depth].sqlerrcode = e->sqlerrcode;
	{
		MemoryContext old = MemoryContextSwitchTo(ErrorContext);

		stack[depth].message = copied(e->message);
		stack[depth].detail = copied(e->detail);
		stack[depth].hint = copied(e->hint);
		MemoryContextSwitchTo(old);
	}
	errfinish(e->filename, e->lineno, e->funcname);
}

void
ReThrowError(ErrorData *e)
{
	e->elevel = ERROR;
	ThrowErrorData(e);
	pg_unreachable();
}

void
EmitErrorReport(void)
{
	Assert(depth >= 0);
	if (pgstub_print_messages)
		print_error(&stack[depth]);
}

void
pgstub_error_take(void)
{
	static char *kept[3];
	ErrorData  *e = &stack[depth];
	const char *said[3] = {e->message, e->detail, e->hint};

	for (int i = 0; i < 3; i++)
	{
		free(kept[i]);
		kept[i] = strdup(said[i] ? said[i] : "");
	}
	pgstub_error.sqlstate = e->sqlerrcode;
	pgstub_error.message = kept[0];
	pgstub_error.detail = kept[1];
	pgstub_error.hint = kept[2];
	FlushErrorState();
}

const char *
pgstub_sqlstate(int sqlstate)
{
	static char buf[6];

	for (int i = 0; i < 5; i++)
	{
		buf[i] = PGUNSIXBIT(sqlstate);
		sqlstate >>= 6;
	}
	return buf;
}

#if PG_VERSION_NUM >= 160000
void
ExceptionalCondition(const char *conditionName, const char *fileName, int lineNumber)
#else
void
ExceptionalCondition(const char *conditionName, const char *errorType,
					 const char *fileName, int lineNumber)
#endif
{
	fprintf(stderr, "assertion failed: %s (%s:%d)\n", conditionName, fileName, lineNumber);
	fflush(NULL);
	abort();
}

/*
 * ---------------------------------------------------------------------------
 * Interrupts, latches, time
 * ---------------------------------------------------------------------------
 */

volatile sig_atomic_t InterruptPending;
volatile sig_atomic_t QueryCancelPending;
volatile sig_atomic_t ProcDiePending;
volatile uint32 InterruptHoldoffCount;
volatile uint32 QueryCancelHoldoffCount;
volatile uint32 CritSectionCount;
int			MyProcPid;
bool		IsUnderPostmaster = true;

static Latch my_latch;
struct Latch *MyLatch = &my_latch;

void
ProcessInterrupts(void)
{
	if (InterruptHoldoffCount != 0 || CritSectionCount != 0 || QueryCancelHoldoffCount != 0)
		return;
	InterruptPending = false;
	if (QueryCancelPending)
	{
		QueryCancelPending = false;
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling statement due to user request")));
	}
}

void
pgstub_cancel(void)
{
	QueryCancelPending = true;
	InterruptPending = true;
	SetLatch(MyLatch);
}

static void
on_sigint(int signo)
{
	pgstub_cancel();
}

void
pgstub_cancel_after_ms(int ms)
{
	struct itimerval t = {{0, 0}, {ms / 1000, (ms % 1000) * 1000}};

	setitimer(ITIMER_REAL, &t, NULL);
}

void
SetLatch(Latch *latch)
{
	latch->is_set = true;
}

void
ResetLatch(Latch *latch)
{
	latch->is_set = false;
}

/* Sleeps in short pieces; sockets are not looked at. */
int
WaitLatch(Latch *latch, int wakeEvents, long timeout, uint32 wait_event_info)
{
	int64		waited_us = 0;

	while (!((wakeEvents & WL_LATCH_SET) && latch->is_set))
	{
		if ((wakeEvents & WL_TIMEOUT) && waited_us >= timeout * 1000)
			return WL_TIMEOUT;
		if (usleep(100) == 0)
			waited_us += 150;
	}
	return WL_LATCH_SET;
}

void
pg_usleep(long microsec)
{
	if (microsec > 0)
		(void) usleep(microsec);
}

volatile sig_atomic_t postmaster_possibly_dead;

bool
PostmasterIsAliveInternal(void)
{
	return true;
}

TimestampTz
GetCurrentTimestamp(void)
{
	struct timeval tp;

	gettimeofday(&tp, NULL);
	return ((TimestampTz) tp.tv_sec -
			((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY)) * USECS_PER_SEC + tp.tv_usec;
}

bool
pg_strong_random(void *buf, size_t len)
{
	FILE	   *f = fopen("/dev/urandom", "rb");
	bool		ok = f != NULL && fread(buf, 1, len, f) == len;

	if (f != NULL)
		fclose(f);
	return ok;
}

/* storage/fd.c: sockets that are not its own */
bool
AcquireExternalFD(void)
{
	return true;
}

void
ReserveExternalFD(void)
{
}

void
ReleaseExternalFD(void)
{
}

void
proc_exit(int code)
{
	exit(code);
}

static uint32 wait_event;
uint32	   *my_wait_event_info = &wait_event;

/*
 * ---------------------------------------------------------------------------
 * Before main()
 * ---------------------------------------------------------------------------
 */

void
pgstub_start(void)
{
	TopMemoryContext = AllocSetContextCreateInternal(NULL, "TopMemoryContext", 0, 0, 0);
	ErrorContext = AllocSetContextCreateInternal(TopMemoryContext, "ErrorContext", 0, 0, 0);
	CacheMemoryContext = AllocSetContextCreateInternal(TopMemoryContext, "CacheMemoryContext", 0, 0, 0);
	MessageContext = AllocSetContextCreateInternal(TopMemoryContext, "MessageContext", 0, 0, 0);
	TopTransactionContext = AllocSetContextCreateInternal(TopMemoryContext, "TopTransactionContext", 0, 0, 0);
	CurTransactionContext = TopTransactionContext;
	PortalContext = AllocSetContextCreateInternal(TopMemoryContext, "PortalContext", 0, 0, 0);
	CurrentMemoryContext = AllocSetContextCreateInternal(TopMemoryContext, "test", 0, 0, 0);
	MyProcPid = getpid();
	pg_prng_seed(&pg_global_prng_state, (uint64) MyProcPid);
}

static void __attribute__((constructor))
initialise(void)
{
	pgstub_start();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, on_sigint);
	signal(SIGALRM, on_sigint);
}
