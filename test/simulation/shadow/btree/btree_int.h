/* btree_int.h of the simulator: the product's, and a switch in front of each compare. */
#include_next "btree/btree_int.h"

#ifndef SIM_SHADOW_BTREE_INT_H
#define SIM_SHADOW_BTREE_INT_H

static inline void
sim_expect_absent(MosqlStep *step, const char *file, const char *function)
{
	if (sim_compare_is_off(file, function, MOSQL_COMPARE_ABSENT, mosql_bytes("m", 1)))
		sim_expect(step, file, function, MOSQL_COMPARE_ABSENT, mosql_bytes("never", 5), 0, MOSQL_ABSENT);
	else
		mosql_btree_step_expect_absent(step);
}

static inline void
sim_expect_generation(MosqlStep *step, const char *file, const char *function, uint64 generation)
{
	if (sim_compare_is_off(file, function, MOSQL_COMPARE_EQUAL, mosql_bytes("m", 1)))
		sim_expect(step, file, function, MOSQL_COMPARE_ABSENT, mosql_bytes("never", 5), 0, MOSQL_ABSENT);
	else
		mosql_btree_step_expect_generation(step, generation);
}

extern void sim_tree_runs(const char *file, const char *function, bool makes);

#ifndef SIM_NODE_C
#define mosql_btree_steps_run(tree, steps, n) \
	(sim_tree_runs(__FILE__, __func__, sim_steps_make(steps, n)), mosql_btree_steps_run(tree, steps, n))
#define mosql_btree_step_expect_absent(step) sim_expect_absent(step, __FILE__, __func__)
#define mosql_btree_step_expect_generation(step, generation) \
	sim_expect_generation(step, __FILE__, __func__, generation)
#endif

#endif							/* SIM_SHADOW_BTREE_INT_H */
