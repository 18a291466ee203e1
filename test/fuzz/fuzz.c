/*
 * fuzz.c: from libFuzzer to fuzz_one(), see fuzz.h.
 */
#include "fuzz.h"

#include <signal.h>

extern int	LLVMFuzzerInitialize(int *argc, char ***argv);
extern int	LLVMFuzzerTestOneInput(const uint8 *data, size_t size);

/* libFuzzer leaves signals alone that somebody handles: pgstub does. */
int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	signal(SIGALRM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	return 0;
}

/* Memory that was freed is watched for a while, not for 256 MB of frees. */
extern const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
	return "quarantine_size_mb=8:allocator_may_return_null=1:detect_stack_use_after_return=0";
}

void
fuzz_broken(const char *what, const char *file, int line)
{
	fprintf(stderr, "does not hold: %s (%s:%d)\n", what, file, line);
	abort();
}

/* FNV-1a. */
uint64
fuzz_hash(MosqlBytes in)
{
	uint64		h = UINT64CONST(0xcbf29ce484222325);

	for (size_t i = 0; i < in.len; i++)
		h = (h ^ (uint8) in.data[i]) * UINT64CONST(0x100000001b3);
	return h ^ h >> 29;
}

static bool
is_expected(int sqlstate)
{
	for (const int *e = fuzz_errors; *e != 0; e++)
		if (*e == sqlstate)
			return true;
	return false;
}

/*
 * All memory of an input hangs below one context.  What is left when that is
 * gone, leaked.
 */
static void
run_once(const uint8 *data, size_t size)
{
	MemoryContext old = CurrentMemoryContext;
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "input", ALLOCSET_DEFAULT_SIZES);

	MemoryContextSwitchTo(cxt);
	if (PGSTUB_RAISES(fuzz_one(mosql_bytes(data, size))))
	{
		if (!is_expected(pgstub_error.sqlstate))
		{
			fprintf(stderr, "unexpected error %s: %s / %s\n", pgstub_sqlstate(pgstub_error.sqlstate),
					pgstub_error.message, pgstub_error.detail);
			abort();
		}
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* What is kept for good is allocated once: who needs more each time leaks. */
int
LLVMFuzzerTestOneInput(const uint8 *data, size_t size)
{
	int64		chunks = pgstub_chunks();

	run_once(data, size);
	if (pgstub_chunks() == chunks)
		return 0;
	chunks = pgstub_chunks();
	run_once(data, size);
	MUST(pgstub_chunks() == chunks);
	return 0;
}
