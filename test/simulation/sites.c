/*
 * sites.c: the product's compares and waits, each of which can be switched off.
 *
 * Its waits for copies are sites as well, of the kind COPIES: by the function that has the steps
 * run, or, of the clock, by the clock's own function.
 *
 * A site is a function, a kind of compare and a sort of field: what the tables of
 * docs/commit.md have a row for.  `simulation --sites` lists those that a run has come by.
 */
#include "sim.h"

#include "sites.h"
#include "step/clock.h"
#include "step/clock_keep.h"
#include "work.h"

#define SITES_MAX	200

typedef struct Site
{
	const char *file;
	const char *function;
	int			kind;
	char		field;
	bool		off;
	uint64		met;
} Site;

static Site sites[SITES_MAX];
static int	nsites;
static char wanted[200];

static const char *const kinds[] = {
	"ABSENT", "EQUAL", "AT_MOST", "IN", "ONLY", "RANGE", "OPEN", "LISTED", "WHOLE",
	"ADMITS", "HOLDS", "COUNT", "COPIES"
};

#define KIND_COPIES		((int) lengthof(kinds) - 1)

/*
 * Of the tree a wait is that of the function that has steps run, until they are; of the clock that of
 * its own function, until the next step, if it comes to a wait at all.
 */

/* "txn/vacuum.c expect_row WHOLE r" */
static void
name_site(char *name, size_t size, const Site *site)
{
	const char *file = strstr(site->file, "src/");

	snprintf(name, size, "%s %s %s %c", file != NULL ? file + 4 : site->file, site->function,
			 kinds[site->kind], site->field);
}

bool
sim_compare_is_off(const char *file, const char *function, int kind, MosqlBytes field)
{
	char		sort = kind == MOSQL_COMPARE_RANGE || field.len == 0 ? '*' : field.data[0];
	char		name[200];
	Site	   *site;

	for (int i = 0; i < nsites; i++)
		if (sites[i].function == function && sites[i].kind == kind && sites[i].field == sort)
		{
			sites[i].met++;
			return sites[i].off;
		}
	if (nsites == SITES_MAX)
		sim_fail("more than %d compares", SITES_MAX);
	site = &sites[nsites++];
	*site = (Site) {file, function, kind, sort, .met = 1};
	name_site(name, sizeof(name), site);
	site->off = strcmp(name, wanted) == 0;
	return site->off;
}

/* ---- waits ---- */

bool
sim_copies_are_off(const char *file, const char *function)
{
	sim_self->clock_function = NULL;
	if (strstr(file, "txn/session.c") != NULL)
		return sim_self->hasty_tree;
	return sim_compare_is_off(file, function, KIND_COPIES, mosql_bytes("d", 1));
}

void
sim_tree_runs(const char *file, const char *function, bool makes)
{
	sim_site_runs(file, function, makes);
	sim_self->hasty_tree = setting.nreplicas > 0 && !sim_dumps &&
		sim_compare_is_off(file, function, KIND_COPIES, mosql_bytes("d", 1));
}

void
sim_clock_runs(const char *function)
{
	sim_site_runs("src/step/clock", function, false);
	sim_self->clock_function = function;
}

bool
sim_clock_is_hasty(void)
{
	return sim_self->clock_function != NULL &&
		sim_compare_is_off("src/step/clock", sim_self->clock_function, KIND_COPIES, mosql_bytes("d", 1));
}

void
sim_switch_off(const char *name)
{
	strlcpy(wanted, name, sizeof(wanted));
}

void
sim_list_sites(void)
{
	char		name[200];

	for (int i = 0; i < nsites; i++)
	{
		name_site(name, sizeof(name), &sites[i]);
		printf("site " UINT64_FORMAT " %s\n", sites[i].met, name);
	}
}
