/*
 * sites.h: the product's compares, each of which can be switched off.
 */
#ifndef SITES_H
#define SITES_H

extern void sim_switch_off(const char *name);
extern void sim_list_sites(void);
/* A function has steps run; makes: something new. */
extern void sim_site_runs(const char *file, const char *function, bool makes);
extern void sim_tree_runs(const char *file, const char *function, bool makes);

#endif							/* SITES_H */
