/* redis.h of the simulator: the product's; who waits for copies asks first (sites.c). */
#include_next "redis/redis.h"

#ifndef SIM_SHADOW_REDIS_H
#define SIM_SHADOW_REDIS_H

extern bool sim_clock_is_hasty(void);

#ifndef SIM_REDIS_C
#define mosql_batch_make_durable(batch, group) \
	(sim_clock_is_hasty() ? (void) 0 : mosql_batch_make_durable(batch, group))
#endif

#endif							/* SIM_SHADOW_REDIS_H */
