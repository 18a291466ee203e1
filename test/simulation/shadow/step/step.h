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

#endif							/* SIM_SHADOW_STEP_H */
