/*
 * fuzz_step.c: compares and writes of a step on a hash of any content.
 *
 * Input: a byte with the number of fields, names and values as runs (fuzz.h),
 * then compares and writes, each a byte for its kind and runs.  Every compare
 * is made against every field; what a write makes of a value is as step.h
 * says.
 */
#include "fuzz.h"

#include "code/node.h"
#include "step/step_int.h"

const int	fuzz_errors[] = {0};

#define FIELDS_MAX	16
#define OPS_MAX		16

static MosqlFieldValue fields[FIELDS_MAX];
static MosqlNodeImage image = {.fields = fields};

static MosqlBytes
get_field(void *arg, MosqlBytes field)
{
	for (int i = 0; i < image.nfields; i++)
		if (mosql_bytes_equal(fields[i].field, field))
			return fields[i].value;
	return MOSQL_ABSENT;
}

/* Exactly n bytes out of the next run. */
static MosqlBytes
exactly(MosqlBytes *in, size_t n)
{
	MosqlBytes	run = fuzz_run(in);
	char	   *p = palloc0(n);

	if (run.len > 0)
		memcpy(p, run.data, Min(run.len, n));
	return mosql_bytes(p, n);
}

static void
compare_one(MosqlBytes *in)
{
	MosqlCompare compare = {.kind = fuzz_byte(in) % 9,.offset = fuzz_byte(in)};
	MosqlStep	step = {.ncompares = 1,.compares = &compare};
	int			failed;

	compare.field = fuzz_run(in);
	if (compare.kind == MOSQL_COMPARE_RANGE || compare.kind == MOSQL_COMPARE_LISTED)
		compare.bytes = exactly(in, MOSQL_TXID_BYTES);
	else
		compare.bytes = fuzz_run(in);
	if (compare.kind == MOSQL_COMPARE_RANGE)
	{
		compare.upper = fuzz_byte(in) ? fuzz_run(in) : MOSQL_ABSENT;
		compare.at_most = fuzz_byte(in) ? exactly(in, 7) : MOSQL_ABSENT;
	}
	failed = mosql_step_evaluate(&step, get_field, NULL, &image);
	MUST(failed == -1 || failed == 0);
	for (int i = 0; i < image.nfields; i++)
	{
		compare.field = fields[i].field;
		failed = mosql_step_evaluate(&step, get_field, NULL, &image);
		if (compare.kind == MOSQL_COMPARE_ABSENT)
			MUST(failed == 0);
		if (compare.kind == MOSQL_COMPARE_ONLY || compare.kind == MOSQL_COMPARE_WHOLE)
			MUST((failed == -1) == mosql_bytes_equal(compare.bytes,
													 get_field(NULL, fields[i].field)));
	}
}

/* Increments that fit the old value, or not. */
static MosqlBytes
make_add(MosqlBytes *in)
{
	MosqlStepDelta deltas[4];
	int			n = fuzz_byte(in) % 4;

	for (int i = 0; i < n; i++)
	{
		static const int widths[] = {2, 4, 8};

		deltas[i].width = widths[fuzz_byte(in) % 3];
		deltas[i].offset = 8 + ((uint32) fuzz_byte(in) << (fuzz_byte(in) % 4 * 8) >> 1);
		deltas[i].delta = (int64) fuzz_hash(*in);
	}
	return mosql_step_add(fuzz_hash(*in) >> 8, deltas, n);
}

static void
check_written(const MosqlWrite *write, MosqlBytes old)
{
	MosqlBytes	new = mosql_step_written(write, old);
	MosqlBytes	twice;

	(void) fuzz_hash(new);
	switch (write->kind)
	{
		case MOSQL_WRITE_SET:
			MUST(mosql_bytes_equal(new, write->value));
			break;
		case MOSQL_WRITE_DELETE:
		case MOSQL_WRITE_MOVED:
			MUST(new.data == NULL);
			break;
		case MOSQL_WRITE_MAX:
			MUST(mosql_bytes_compare(new, old) >= 0 && mosql_bytes_compare(new, write->value) >= 0);
			break;
		case MOSQL_WRITE_APPEND:
		case MOSQL_WRITE_REMOVE:
			/* once is enough, in a list that is sound */
			twice = mosql_step_written(write, new);
			MUST(write->kind == MOSQL_WRITE_REMOVE || old.len % MOSQL_TXID_BYTES != 0 ||
				 mosql_bytes_equal(twice, new));
			MUST(write->kind == MOSQL_WRITE_APPEND ? new.len >= old.len : new.len <= old.len);
			break;
		case MOSQL_WRITE_CONCAT:
			MUST(new.len == old.len + write->value.len);
			break;
		case MOSQL_WRITE_UNLIST:
			MUST(new.len <= old.len);
			break;
		case MOSQL_WRITE_CLAIM:
			break;
		case MOSQL_WRITE_ADD:
			MUST(new.len == old.len && (new.data == NULL) == (old.data == NULL));
			if (old.len >= 7)
				MUST(memcmp(new.data, old.data, 7) >= 0);
			break;
		case MOSQL_WRITE_VERSION:	/* of a commit in one step: not written here */
		case MOSQL_WRITE_TOMBSTONE:
		case MOSQL_WRITE_INCREMENT:
			break;
	}
}

static void
write_one(MosqlBytes *in)
{
	MosqlWrite	write = {.kind = fuzz_byte(in) % 9};

	if (write.kind == MOSQL_WRITE_APPEND || write.kind == MOSQL_WRITE_REMOVE ||
		write.kind == MOSQL_WRITE_UNLIST)
		write.value = exactly(in, MOSQL_TXID_BYTES);
	else if (write.kind == MOSQL_WRITE_ADD)
		write.value = make_add(in);
	else
		write.value = fuzz_run(in);
	check_written(&write, MOSQL_ABSENT);
	for (int i = 0; i < image.nfields; i++)
		check_written(&write, fields[i].value);
}

void
fuzz_one(MosqlBytes in)
{
	image.nfields = fuzz_byte(&in) % (FIELDS_MAX + 1);
	for (int i = 0; i < image.nfields; i++)
	{
		fields[i].field = fuzz_run(&in);
		fields[i].value = fuzz_run(&in);
	}
	for (int i = 0; i < OPS_MAX && in.len > 0; i++)
	{
		if (fuzz_byte(&in) & 1)
			compare_one(&in);
		else
			write_one(&in);
	}
}
