/* clock.h of the simulator: the product's, and a switch for what each function waits for. */
#include_next "step/clock.h"

#ifndef SIM_SHADOW_CLOCK_H
#define SIM_SHADOW_CLOCK_H

extern void sim_clock_runs(const char *function);

#ifndef SIM_STEP_C
#define mosql_clock_open(...) (sim_clock_runs("mosql_clock_open"), mosql_clock_open(__VA_ARGS__))
#define mosql_clock_open_existing(...) (sim_clock_runs("mosql_clock_open_existing"), mosql_clock_open_existing(__VA_ARGS__))
#define mosql_clock_close(...) (sim_clock_runs("mosql_clock_close"), mosql_clock_close(__VA_ARGS__))
#define mosql_clock_snapshot(...) (sim_clock_runs("mosql_clock_snapshot"), mosql_clock_snapshot(__VA_ARGS__))
#define mosql_clock_release(...) (sim_clock_runs("mosql_clock_release"), mosql_clock_release(__VA_ARGS__))
#define mosql_clock_decide(...) (sim_clock_runs("mosql_clock_decide"), mosql_clock_decide(__VA_ARGS__))
#define mosql_clock_status(...) (sim_clock_runs("mosql_clock_status"), mosql_clock_status(__VA_ARGS__))
#define mosql_clock_abort(...) (sim_clock_runs("mosql_clock_abort"), mosql_clock_abort(__VA_ARGS__))
#define mosql_clock_settle(...) (sim_clock_runs("mosql_clock_settle"), mosql_clock_settle(__VA_ARGS__))
#define mosql_clock_drop(...) (sim_clock_runs("mosql_clock_drop"), mosql_clock_drop(__VA_ARGS__))
#define mosql_clock_snapshots(...) (sim_clock_runs("mosql_clock_snapshots"), mosql_clock_snapshots(__VA_ARGS__))
#define mosql_clock_expire(...) (sim_clock_runs("mosql_clock_expire"), mosql_clock_expire(__VA_ARGS__))
#define mosql_clock_sessions(...) (sim_clock_runs("mosql_clock_sessions"), mosql_clock_sessions(__VA_ARGS__))
#define mosql_clock_orphans(...) (sim_clock_runs("mosql_clock_orphans"), mosql_clock_orphans(__VA_ARGS__))
#define mosql_clock_reap(...) (sim_clock_runs("mosql_clock_reap"), mosql_clock_reap(__VA_ARGS__))
#endif

#endif							/* SIM_SHADOW_CLOCK_H */
