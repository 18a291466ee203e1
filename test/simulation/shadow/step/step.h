/*
 * step.h of the simulator: the product's, and a switch in front of each compare.
 *
 * A compare that is switched off is replaced by one that always holds, so that the
 * others keep their numbers.
 */
#include_next "step/step.h"

#ifndef SIM_SHADOW_STEP_H
#define SIM_SHADOW_STEP_H

/* Is the compare of this kind that this function makes on such a field switched off? */
extern bool sim_compare_is_off(const char *file, const char *function, int kind, MosqlBytes field);

static inline void
sim_expect(MosqlStep *step, const char *file, const char *function, MosqlCompareKind kind,
		   MosqlBytes field, int offset, MosqlBytes bytes)
{
	if (sim_compare_is_off(file, function, kind, field))
		mosql_step_expect(step, MOSQL_COMPARE_ABSENT, mosql_bytes("never", 5), 0, MOSQL_ABSENT);
	else
		mosql_step_expect(step, kind, field, offset, bytes);
}

#define mosql_step_expect(step, kind, field, offset, bytes) \
	sim_expect(step, __FILE__, __func__, kind, field, offset, bytes)
#define mosql_step_expect_same(step, field, value) \
	sim_expect(step, __FILE__, __func__, \
			   (value).data != NULL ? MOSQL_COMPARE_WHOLE : MOSQL_COMPARE_ABSENT, field, 0, value)

/*
 * Waits for copies: what this function runs or sends does not wait, nor touch.  Of the tree,
 * which runs its steps by txn/session.c, the function of the tree counts.
 */
extern bool sim_copies_are_off(const char *file, const char *function);
extern void sim_site_runs(const char *file, const char *function, bool makes);

static inline MosqlStep *
sim_hasty(MosqlStep *step, bool off)
{
	step->durable &= !off;
	step->touch &= !off;
	return step;
}

/* Is there to be something that there was not? */
static inline bool
sim_steps_make(MosqlStep *const *steps, int n)
{
	return n > 0 && steps[0]->ncompares > 0 &&
		steps[0]->compares[steps[0]->ncompares - 1].kind == MOSQL_COMPARE_ABSENT;
}

static inline void
sim_steps_hasty(const MosqlStepper *stepper, MosqlStep **steps, int n, const char *file, const char *function)
{
	bool		any = false;

	sim_site_runs(file, function, sim_steps_make(steps, n));
	for (int i = 0; i < n; i++)
		any |= stepper->durable && steps[i]->durable;
	if (any && sim_copies_are_off(file, function))
		for (int i = 0; i < n; i++)
			(void) sim_hasty(steps[i], true);
}

static inline void
sim_step_run(MosqlStepper *stepper, MosqlStep **steps, int n, MosqlBudget *budget,
			 const char *file, const char *function)
{
	sim_steps_hasty(stepper, steps, n, file, function);
	mosql_step_run(stepper, steps, n, budget);
}

static inline MosqlMessages *
sim_step_gather(MosqlStepper *stepper, MosqlStep **steps, int n, const char *file, const char *function)
{
	sim_steps_hasty(stepper, steps, n, file, function);
	return mosql_step_gather(stepper, steps, n);
}

#ifndef SIM_STEP_C
#define mosql_step_gather(stepper, steps, n) \
	sim_step_gather(stepper, steps, n, __FILE__, __func__)
#define mosql_step_run(stepper, steps, n, budget) \
	sim_step_run(stepper, steps, n, budget, __FILE__, __func__)
#define mosql_step_send(stepper, step, done, arg) \
	(sim_site_runs(__FILE__, __func__, false), mosql_step_send(stepper, sim_hasty(step, (stepper)->durable && (step)->durable && \
									   sim_copies_are_off(__FILE__, __func__)), done, arg))
#endif

#endif							/* SIM_SHADOW_STEP_H */
