/*
 * steps.h: steps of tests against a real server, in few words.
 */
#ifndef UNIT_STEPS_H
#define UNIT_STEPS_H

#include "unit.h"

#include "step/step.h"
#include "step/step_int.h"

#define B(s) mosql_bytes(s, sizeof(s) - 1)

static MosqlStepper stepper;

/* An empty step with room for up to so many parts of each sort. */
static inline MosqlStep *
new_large_step(uint64 node, int parts)
{
	MosqlStep  *step = palloc0(sizeof(MosqlStep));

	step->node = node;
	step->compares = palloc(parts * sizeof(MosqlCompare));
	step->reads = palloc(parts * sizeof(MosqlBytes));
	step->writes = palloc(parts * sizeof(MosqlWrite));
	return step;
}

static inline void
compare(MosqlStep *step, MosqlCompareKind kind, MosqlBytes field, int offset, MosqlBytes bytes)
{
	step->compares[step->ncompares++] = (MosqlCompare) {kind, field, offset, bytes};
}

static inline void
reading(MosqlStep *step, MosqlBytes field)
{
	step->reads[step->nreads++] = field;
}

static inline void
writing(MosqlStep *step, MosqlWriteKind kind, MosqlBytes field, MosqlBytes value)
{
	step->writes[step->nwrites++] = (MosqlWrite) {kind, field, value};
}

static inline MosqlStepStatus
run(MosqlStep *step)
{
	mosql_step_run(&stepper, &step, 1, NULL);
	return step->status;
}

static inline void
set(uint64 node, MosqlBytes field, MosqlBytes value)
{
	MosqlStep  *step = new_large_step(node, 1);

	writing(step, MOSQL_WRITE_SET, field, value);
	CHECK_INT(run(step), MOSQL_STEP_DONE);
}

static inline MosqlBytes
get(uint64 node, MosqlBytes field)
{
	MosqlFieldRead read = {node, 1, &field};

	mosql_step_read_fields(&stepper, &read, 1, NULL);
	return read.values[0];
}

#endif							/* UNIT_STEPS_H */
