/*
 * aim.c: faults that strike at a site, a function of the product that has steps run.
 *
 * Others come at any time, and few of them between two given steps of a merge or a split.  One of these is aimed: it
 * waits until somebody comes to the site that the seed has drawn, among all that the run has come by so
 * far, and hits the message that he sends there.
 *
 *     lose    the server has done what the message says, and answers; then its primary dies, and the replica
 *             that takes over has all that was before; or, where servers may forget, it restarts so
 *     hold    the same, but it dies when somebody comes to the site, to talk to that server: what is lost is what somebody has done
 *             at another site before; now and then without hearing of it, as the connection breaks
 *     late    the message arrives late; half of these times its connection breaks, and it is sent again meanwhile
 *     stop    its sender stops before he hears the answer
 *     kill    or dies
 */
#include "fault.h"
#include "sites.h"

#define SITES_MAX	256

/* Primaries stay ahead of their replicas for so long at most: nobody waits for copies that long. */
#define HELD_US		900000

typedef struct AimSite
{
	const char *file;
	const char *function;
	bool		makes;			/* something new there */
	bool		passes_on;		/* what others have run: they count */
} AimSite;

typedef enum AimKind
{
	AIM_LOSE, AIM_HOLD, AIM_LATE, AIM_STOP, AIM_KILL
} AimKind;

static const char *const kind_names[] = {"lose", "hold", "late", "stop", "kill"};

static AimSite sites[SITES_MAX];
static int	nsites;
static const AimSite *found[SITES_MAX]; /* by the function's address */

/* Those that wait for somebody; the next one takes the place of the oldest. */
#define AIMS		8

typedef struct Aim
{
	bool		armed;
	AimKind		kind;
	const AimSite *site;
	const AimSite *then;		/* AIM_HOLD */
	int			message;		/* which one there: 0, 1, .. */
	uint64		chance;			/* its own */
} Aim;

static Aim	aims[AIMS];
static int	last_aim;

/* What AIM_HOLD has begun. */
static struct
{
	SimShard   *shard;			/* NULL: nothing */
	int64		until_us;
	const AimSite *site;
}			held;

/* ---- sites ---- */

static const AimSite *
site_of(const char *file, const char *function, bool makes)
{
	const AimSite **slot = &found[(((uintptr_t) function >> 3) + makes) % SITES_MAX];

	if (*slot != NULL && (*slot)->function == function && (*slot)->makes == makes)
		return *slot;
	for (int i = 0; i < nsites; i++)
		if (strcmp(sites[i].function, function) == 0 && strcmp(sites[i].file, file) == 0 && sites[i].makes == makes)
			return *slot = &sites[i];
	if (nsites == SITES_MAX)
		sim_fail("more than %d sites", SITES_MAX);
	sites[nsites] = (AimSite) {file, function, makes, strstr(file, "txn/session.c") != NULL};
	return *slot = &sites[nsites++];
}

/* "btree/merge.c"; of the simulator itself as it is */
static const char *
file_of(const AimSite *site)
{
	const char *file = strstr(site->file, "src/");

	return file != NULL ? file + strlen("src/") : site->file;
}

/* "btree/merge.c begin"; "btree/inner.c run_changes: new" */
static void
name_site(char *name, size_t size, const AimSite *site)
{
	snprintf(name, size, "%s %s%s", file_of(site), site->function, site->makes ? ": new" : "");
}

/* Has a name one of these parts, "split.c create,stray.c"?  NULL: yes. */
static bool
has_part(const char *name, const char *parts)
{
	while (parts != NULL)
	{
		size_t		len = strcspn(parts, ",");

		if (memmem(name, strlen(name), parts, len) != NULL)
			return true;
		if (parts[len] == '\0')
			return false;
		parts += len + 1;
	}
	return true;
}

/* One of those that the run has come by, with one of these parts in its name.  NULL: none. */
static const AimSite *
draw_site(const char *parts)
{
	const AimSite *wanted[SITES_MAX];
	int			n = 0;

	for (int i = 0; i < nsites; i++)
	{
		char		name[200];

		name_site(name, sizeof(name), &sites[i]);
		if (!sites[i].passes_on && has_part(name, parts))
			wanted[n++] = &sites[i];
	}
	return n == 0 ? NULL : wanted[sim_below(n)];
}

/* Where what is lost when somebody comes to a site was done: half of the time in the same file. */
static const AimSite *
draw_before(const AimSite *then)
{
	if (fault_options.before != NULL)
		return draw_site(fault_options.before);
	return draw_site(sim_chance(500) ? file_of(then) : NULL);
}

/* A front-end comes to a site: what it sends next is sent there. */
void
sim_site_runs(const char *file, const char *function, bool makes)
{
	const AimSite *site = site_of(file, function, makes);

	if (site->passes_on)
		return;
	sim_self->site = site;
	sim_self->aimed = 0;
	for (int i = 0; i < AIMS && sim_self->aimed == 0; i++)
		if (aims[i].armed && aims[i].site == site)
		{
			sim_self->aim = i;
			sim_self->aimed = aims[i].message + 1;
		}
}

/* ---- the fault ---- */

/* Who comes to the site next is hit. */
static void
arm(AimKind kind)
{
	Aim		   *aim = &aims[last_aim = (last_aim + 1) % AIMS];
	char		name[200];

	aim->site = aim->then = draw_site(fault_options.aim);
	aim->armed = aim->site != NULL;
	if (!aim->armed)
		return;
	aim->kind = kind;
	aim->message = sim_chance(700) ? 0 : (int) sim_between(1, 3);
	if (kind == AIM_HOLD)
		aim->site = draw_before(aim->then);
	aim->armed = aim->site != NULL;
	if (!aim->armed)
		return;
	aim->chance = sim_random();
	name_site(name, sizeof(name), aim->site);
	sim_trace("to be hit: %s, message %d, %s", name, aim->message, kind_names[aim->kind]);
}

/* The two faults of fault.c: a step is lost, or is late, or who makes it. */
bool
aim_may_lose(void)
{
	return sim_dumps || (setting.cluster && setting.nreplicas > 0);
}

void
aim_lose(void)
{
	arm(sim_dumps || (fault_options.before == NULL && sim_chance(500)) ? AIM_LOSE : AIM_HOLD);
}

void
aim_late(void)
{
	arm(sim_chance(500) ? AIM_LATE : sim_chance(600) ? AIM_STOP : AIM_KILL);
}

static void
dies(void *arg, uint64 tag)
{
	fault_lose_primary(arg);
}

static void
stops(void *arg, uint64 tag)
{
	fault_stop_client(arg);
}

static void
is_killed(void *arg, uint64 tag)
{
	fault_kill_client(arg);
}

/* What the server is about to do its replicas shall not have. */
void
aim_arrives(SimShard *shard, int64 dies_after_us)
{
	if (shard->isolated)
		return;
	if (sim_dumps)
		sim_saved(shard);
	shard->behind_until_us = sim_now_us + HELD_US;
	sim_at(sim_now_us + dies_after_us, dies, shard, 0);
}

static AimStrike
strike(const Aim *aim, SimFrontEnd *fe, SimShard *shard)
{
	AimStrike	hit = {0};

	sim_trace("hit at %s: %s", aim->site->function, kind_names[aim->kind]);
	switch (aim->kind)
	{
		case AIM_LOSE:
			hit.loses = true;
			hit.dies_after_us = sim_between(300, sim_chance(500) ? 3000 : 50000);
			break;
		case AIM_HOLD:
			hit.loses = true;
			hit.dies_after_us = HELD_US - 1;
			hit.breaks = sim_chance(300);
			held.shard = shard;
			held.until_us = sim_now_us + HELD_US / 2;
			held.site = aim->then;
			break;
		case AIM_LATE:
			hit.late_us = sim_below(sim_chance(500) ? 50000 : 8000000);
			hit.breaks = sim_chance(500);
			break;
		case AIM_STOP:
			sim_at(sim_now_us + sim_below(400), stops, fe, 0);
			break;
		case AIM_KILL:
			sim_at(sim_now_us + sim_below(400), is_killed, fe, 0);
			break;
	}
	return hit;
}

/* Called with each message that a front-end sends. */
AimStrike
aim_sent(SimFrontEnd *fe, SimShard *shard)
{
	AimStrike	hit = {0};
	Aim		   *aim = &aims[fe->aim];
	uint64		chance;

	if (held.shard == shard && held.site == fe->site)
	{
		held.shard = NULL;
		if (sim_now_us < held.until_us && fault_go_on())
			sim_at(sim_now_us, dies, shard, 0);
	}
	if (fe->aimed == 0 || --fe->aimed > 0 || !aim->armed || !fault_go_on())
		return hit;
	aim->armed = false;
	chance = sim_other_chance(aim->chance);
	hit = strike(aim, fe, shard);
	(void) sim_other_chance(chance);
	return hit;
}
