/*
 * test_stub.c: the stand-in for the server does what the server does; layer base.
 */
#include "unit.h"

#include "lib/stringinfo.h"
#include "miscadmin.h"

#include "base/interrupt.h"

static int	callbacks;

static void
count_callback(void *arg)
{
	callbacks += *(int *) arg;
}

static void
test_contexts(void)
{
	int64		before = pgstub_chunks();
	MemoryContext a = AllocSetContextCreate(CurrentMemoryContext, "a", ALLOCSET_DEFAULT_SIZES);
	MemoryContext b = AllocSetContextCreate(a, "b", ALLOCSET_SMALL_SIZES);
	int			one = 1;
	MemoryContextCallback cb = {count_callback, &one, NULL};
	char	   *p = MemoryContextAlloc(b, 10);

	CHECK(GetMemoryChunkContext(p) == b);
	p = repalloc(p, 100000);
	CHECK(GetMemoryChunkContext(p) == b);
	CHECK(MemoryContextMemAllocated(a, true) == 100000);
	MemoryContextRegisterResetCallback(b, &cb);
	MemoryContextReset(a);
	CHECK_INT(callbacks, 1);
	CHECK_INT(pgstub_chunks(), before);
	MemoryContextDelete(a);
}

static void
raise_number(int i)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("number %d", i), errdetail("detail %s", "x"), errhint("hint")));
}

static void
test_errors(void)
{
	CHECK_RAISES(ERRCODE_DATA_CORRUPTED, raise_number(7));
	CHECK_STR(pgstub_error.message, "number 7");
	CHECK_STR(pgstub_error.detail, "detail x");
	CHECK_STR(pgstub_sqlstate(pgstub_error.sqlstate), "XX001");
	CHECK(!PGSTUB_RAISES((void) 0));
	CHECK_RAISES(ERRCODE_INTERNAL_ERROR, elog(ERROR, "boo"));
}

static void
test_strings(void)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < 1000; i++)
		appendStringInfo(&s, "%04d", i);
	CHECK_INT(s.len, 4000);
	CHECK_STR(s.data + 3996, "0999");
	CHECK_STR(psprintf("%s-%d", "a", 1), "a-1");
}

static void
test_interrupts(void)
{
	pgstub_cancel();
	CHECK_RAISES(ERRCODE_QUERY_CANCELED, CHECK_FOR_INTERRUPTS());
	CHECK(!PGSTUB_RAISES(CHECK_FOR_INTERRUPTS()));
}

/* Work that a cancel meets, and that leaves another context behind; it fails if told to. */
static void
work_quietly(void *arg)
{
	MemoryContextSwitchTo(TopMemoryContext);
	pgstub_cancel();
	CHECK_FOR_INTERRUPTS();
	if (*(const bool *) arg)
		raise_number(1);
}

static void
test_quietly(void)
{
	MemoryContext caller = AllocSetContextCreate(CurrentMemoryContext, "caller", ALLOCSET_SMALL_SIZES);
	MemoryContext outer = MemoryContextSwitchTo(caller);

	for (int held = 0; held <= 1; held++)
		for (int fail = 0; fail <= 1; fail++)
		{
			bool		fails = fail;

			InterruptHoldoffCount = held;
			CHECK_INT(mosql_do_quietly(work_quietly, &fails), !fails);
			CHECK_INT(InterruptHoldoffCount, held);
			CHECK(CurrentMemoryContext == caller);
			InterruptHoldoffCount = 0;
			CHECK_RAISES(ERRCODE_QUERY_CANCELED, CHECK_FOR_INTERRUPTS());
		}
	MemoryContextSwitchTo(outer);
	MemoryContextDelete(caller);
}

int
main(void)
{
	RUN(test_contexts);
	RUN(test_errors);
	RUN(test_strings);
	RUN(test_interrupts);
	RUN(test_quietly);
	return unit_finish();
}
