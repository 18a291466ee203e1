/* one_step.h of the simulator: the product's, and a switch for what it waits for. */
#include_next "step/one_step.h"

#ifndef SIM_SHADOW_ONE_STEP_H
#define SIM_SHADOW_ONE_STEP_H

#ifndef SIM_STEP_C
#define mosql_clock_commit(...) (sim_clock_runs("mosql_clock_commit"), mosql_clock_commit(__VA_ARGS__))
#endif

#endif							/* SIM_SHADOW_ONE_STEP_H */
