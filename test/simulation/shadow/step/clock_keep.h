/* clock_keep.h of the simulator: the product's, and a switch for what each function waits for. */
#include_next "step/clock_keep.h"

#ifndef SIM_SHADOW_CLOCK_KEEP_H
#define SIM_SHADOW_CLOCK_KEEP_H

extern void sim_clock_runs(const char *function);

#ifndef SIM_STEP_C
#define mosql_clock_fate(...) (sim_clock_runs("mosql_clock_fate"), mosql_clock_fate(__VA_ARGS__))
#define mosql_clock_forget_outcomes(...) (sim_clock_runs("mosql_clock_forget_outcomes"), mosql_clock_forget_outcomes(__VA_ARGS__))
#define mosql_clock_job_start(...) (sim_clock_runs("mosql_clock_job_start"), mosql_clock_job_start(__VA_ARGS__))
#define mosql_clock_job_note(...) (sim_clock_runs("mosql_clock_job_note"), mosql_clock_job_note(__VA_ARGS__))
#define mosql_clock_job_end(...) (sim_clock_runs("mosql_clock_job_end"), mosql_clock_job_end(__VA_ARGS__))
#define mosql_clock_job_forget(...) (sim_clock_runs("mosql_clock_job_forget"), mosql_clock_job_forget(__VA_ARGS__))
#define mosql_clock_jobs(...) (sim_clock_runs("mosql_clock_jobs"), mosql_clock_jobs(__VA_ARGS__))
#define mosql_clock_put_size(...) (sim_clock_runs("mosql_clock_put_size"), mosql_clock_put_size(__VA_ARGS__))
#define mosql_clock_sizes(...) (sim_clock_runs("mosql_clock_sizes"), mosql_clock_sizes(__VA_ARGS__))
#define mosql_clock_drop_sizes(...) (sim_clock_runs("mosql_clock_drop_sizes"), mosql_clock_drop_sizes(__VA_ARGS__))
#define mosql_clock_unnamed(...) (sim_clock_runs("mosql_clock_unnamed"), mosql_clock_unnamed(__VA_ARGS__))
#define mosql_clock_put_unnamed(...) (sim_clock_runs("mosql_clock_put_unnamed"), mosql_clock_put_unnamed(__VA_ARGS__))
#define mosql_clock_drop_unnamed(...) (sim_clock_runs("mosql_clock_drop_unnamed"), mosql_clock_drop_unnamed(__VA_ARGS__))
#define mosql_clock_check_format(...) (sim_clock_runs("mosql_clock_check_format"), mosql_clock_check_format(__VA_ARGS__))
#define mosql_clock_read_state(...) (sim_clock_runs("mosql_clock_read_state"), mosql_clock_read_state(__VA_ARGS__))
#define mosql_clock_rebuild(...) (sim_clock_runs("mosql_clock_rebuild"), mosql_clock_rebuild(__VA_ARGS__))
#define mosql_clock_end_session(...) (sim_clock_runs("mosql_clock_end_session"), mosql_clock_end_session(__VA_ARGS__))
#define mosql_clock_list_sessions(...) (sim_clock_runs("mosql_clock_list_sessions"), mosql_clock_list_sessions(__VA_ARGS__))
#define mosql_clock_release_all(...) (sim_clock_runs("mosql_clock_release_all"), mosql_clock_release_all(__VA_ARGS__))
#define mosql_clock_decided(...) (sim_clock_runs("mosql_clock_decided"), mosql_clock_decided(__VA_ARGS__))
#endif

#endif							/* SIM_SHADOW_CLOCK_KEEP_H */
