/*
 * fault.c: what goes wrong, and who is there to suffer.
 */
#include "fault.h"

#include <limits.h>
#include <stdlib.h>

#define FRONT_ENDS_MAX	64

/* A short one. */
#define FAILOVER_US		300000

/* Somebody may be late for so long. */
#define DISTURBS_US		INT64CONST(40000000)

/* src/step/clock_lua.h */
#define LEAP_US			2000000

FaultOptions fault_options = {.first = INT_MAX};

static SimFrontEnd *clients[FRONT_ENDS_MAX];
static int	nclients;
static int64 faults_until_us;
int64		fault_disturbs_until_us;
static int	last_fault;			/* their numbers: 1, 2, .. */
static int64 most_ahead_us;		/* of a server's clock, ever */

/*
 * Who suffers.  Half of the faults wait for a message, and hit who sends it, while it is under way: most
 * front-ends do nothing most of the time.
 */
static int	sender = -1;

static int
victim(void)
{
	return sender >= 0 ? sender : (int) sim_below(nclients);
}

SimFrontEnd *
fault_client(int i)
{
	return i < nclients ? clients[i] : NULL;
}

static SimFrontEnd *
start(SimMain main)
{
	return sim_front_end(main, calloc(1, sizeof(Work)));
}

/* ---- front-ends ---- */

static void
replace(void *arg, uint64 tag)
{
	if (!work_stops)
		clients[tag] = start(tag < (uint64) setting.nmaintainers ? work_maintain : work_client);
}

static void
kill_front_end(void)
{
	int			i = victim();
	Work	   *work = clients[i]->work;

	if (!clients[i]->alive || clients[i]->terminated)
		return;
	if (work->tx != NULL)
		oracle_died(work->tx);
	sim_kill(clients[i]);
	sim_at(sim_now_us + sim_below(1000000), replace, NULL, i);
}

static void
stop_front_end(void)
{
	sim_stop(clients[victim()],
			 sim_now_us + (sim_chance(700) ? sim_below(2 * setting.lease_ms * 1000) : sim_below(30000000)));
}

static void
cancel_front_end(void)
{
	SimFrontEnd *fe = clients[victim()];
	Work	   *work = fe->work;

	if (fe->alive && !fe->sleeping && work->tx != NULL)
		sim_cancel(fe);
}

/* Who was told to end has ended, as soon as it may; then somebody else comes. */
static void
replace_ended(void *arg, uint64 tag)
{
	if (clients[tag]->alive)
		sim_at(sim_now_us + 10000, replace_ended, NULL, tag);
	else
		replace(NULL, tag);
}

/* pg_terminate_backend() */
static void
terminate_front_end(void)
{
	int			i = victim();

	if (!clients[i]->alive || clients[i]->sleeping || clients[i]->terminated)
		return;
	sim_terminate(clients[i]);
	sim_at(sim_now_us + 10000, replace_ended, NULL, i);
}

/* PostgreSQL's own commit fails, after ours was decided. */
static void
fail_local_commit(void)
{
	clients[victim()]->local_fails = true;
}

/* ---- what aim.c asks for ---- */

bool
fault_go_on(void)
{
	fault_disturbs_until_us = sim_now_us + DISTURBS_US;
	return sim_now_us < faults_until_us;
}

/* As somebody that a message hits. */
static void
hit(SimFrontEnd *fe, void (*happens) (void))
{
	for (int i = 0; i < nclients && fault_go_on(); i++)
		if (clients[i] == fe && fe->alive)
		{
			sender = i;
			happens();
		}
	sender = -1;
}

void
fault_stop_client(SimFrontEnd *fe)
{
	hit(fe, stop_front_end);
}

void
fault_kill_client(SimFrontEnd *fe)
{
	hit(fe, kill_front_end);
}

/* ---- the network ---- */

static void
cut_connections(void)
{
	sim_cut(sim_chance(500) ? clients[victim()] : NULL,
			sim_chance(500) ? &sim_servers[sim_below(sim_nservers)] : NULL);
}

static void
calm(void *arg, uint64 tag)
{
	sim_network = (SimNetwork) {30, 300, 0, 0, 0};
}

static void
bad_weather(void)
{
	sim_network.max_us = (int) sim_between(300, 20000);
	sim_network.late_per_million = (int) sim_between(0, 20000);
	sim_network.late_max_us = (int) sim_between(10000, 8000000);
	sim_network.cut_per_million = (int) sim_between(0, sim_chance(300) ? 150000 : 20000);
	sim_at(sim_now_us + sim_below(2000000), calm, NULL, 0);
}

/* ---- servers ---- */

/* Something is forgotten: one server that is alone is whole, as it was; of several, trees have holes. */
static void
note_loss(void)
{
	sim_is_torn |= sim_nshards > 1;
	sim_forgot_us = sim_now_us;
}

/* Nobody has waited for the replica, where servers may forget. */
static void
take_over(void *arg, uint64 tag)
{
	if (sim_dumps)
		note_loss();
	sim_fail_over(&sim_shards[tag], true);
}

/* Who comes after an isolated one stays: nobody else has what it has. */
static bool
has_isolated(const SimShard *shard)
{
	for (int i = 0; i < shard->nreplicas; i++)
		if (shard->replicas[i]->shard != shard)
			return true;
	return false;
}

/* A replica takes over after so long at most. */
static void
kill_primary_of(SimShard *shard, int64 most_us)
{
	if (!setting.cluster || shard->nreplicas == 0 || !shard->primary->up || has_isolated(shard))
		return;
	sim_trace("server %d dies", shard->primary->number);
	shard->primary->up = false;
	sim_server_stops(shard->primary);
	sim_at(sim_now_us + sim_between(100000, most_us), take_over, NULL, shard->number);
}

static void
rejoin(void *arg, uint64 tag)
{
	sim_rejoin(&sim_servers[tag]);
}

static void
promote(void *arg, uint64 tag)
{
	sim_trace("server %d takes over", (int) tag);
	sim_servers[tag].up = true;
}

/*
 * A primary is cut off, but not from all front-ends.  It serves these until its lease is over, or, who
 * had stopped, until it hears of its successor: some time after that one has taken over, here.
 */
static void
isolate_primary(void)
{
	SimShard   *shard = &sim_shards[sim_below(sim_nshards)];
	SimServer  *old = shard->primary;
	SimServer  *next;
	int64		after_us = sim_between(50000, sim_chance(500) ? 300000 : 2000000);

	if (!setting.cluster || sim_dumps || (next = sim_isolate(shard)) == NULL)
		return;
	sim_at(sim_now_us + after_us, promote, NULL, next->number);
	sim_at(sim_now_us + after_us + sim_below(sim_chance(300) ? LEAP_US : 300000), rejoin, NULL, old->number);
}

static int64
some_failover_us(void)
{
	return sim_chance(500) ? FAILOVER_US : 10 * FAILOVER_US;
}

static void
kill_primary(void)
{
	kill_primary_of(&sim_shards[sim_below(sim_nshards)], some_failover_us());
}

static void
dies_behind(void *arg, uint64 tag)
{
	kill_primary_of(&sim_shards[tag], some_failover_us());
}

/*
 * Replicas fall behind, by less than anybody waits for them; often their primary dies then, and all
 * that nobody has waited for is gone.
 */
static void
fall_behind(void)
{
	SimShard   *shard = &sim_shards[sim_below(sim_nshards)];
	int64		for_us = sim_between(1000, sim_chance(500) ? 30000 : 900000);

	if (shard->nreplicas == 0)
		return;
	sim_trace("the replicas of server %d fall behind for %.6f", shard->primary->number, (double) for_us / 1e6);
	shard->behind_until_us = sim_now_us + for_us;
	if (sim_chance(700))
		sim_at(shard->behind_until_us - 1, dies_behind, NULL, shard->number);
}

/* A restart from a log that has everything. */
static void
restart_server(void)
{
	SimServer  *server = sim_shards[sim_below(sim_nshards)].primary;

	if (!server->up)
		return;
	sim_trace("server %d restarts", server->number);
	sim_restart(server, server->shard->position);
}

static void
flush_scripts(void)
{
	sim_servers[sim_below(sim_nservers)].nscripts = 0;
}

static void
move_slot(void)
{
	SimShard   *from = &sim_shards[sim_below(sim_nshards)];
	uint64		cursor = (uint64) sim_below(Max(from->nbuckets, 1)) << 16;
	SimKey	   *key = sim_next_key(from, &cursor);
	SimShard   *to = &sim_shards[sim_below(sim_nshards)];

	if (setting.cluster && key != NULL)
		sim_move_slot(key->slot, to);
}

/* The clock that most depends on. */
static void
move_the_clocks_slot(void)
{
	if (setting.cluster)
		sim_move_slot(mosql_redis_slot(mosql_bytes("{sim.clock}", 11)), &sim_shards[sim_below(sim_nshards)]);
}

/*
 * By a second, minutes, an hour.  Where a server may forget not back, and all alike, for a
 * replica may take over: docs/durability.md promises nothing of both together.
 */
static void
jump_clock(void)
{
	static const int64 most_us[] = {1000000, 1000000, 20000000, 300000000, INT64CONST(3600000000)};
	SimServer  *server = &sim_servers[sim_below(sim_nservers)];
	int64		by_us = sim_below(2 * most_us[sim_below(lengthof(most_us))]);

	by_us = sim_dumps || sim_chance(500) ? by_us : -by_us;
	sim_trace("the clock of server %d jumps by %.6f", server->number, (double) by_us / 1e6);
	for (int i = 0; i < sim_nservers; i++)
		if (sim_dumps || &sim_servers[i] == server)
			sim_servers[i].ahead_us += by_us;
	sim_jumped_us = sim_now_us;
	most_ahead_us = Max(most_ahead_us, server->ahead_us);
}

/* ---- servers that forget: durability "none" ---- */

void
fault_lose_primary(SimShard *shard)
{
	if (!fault_go_on() || shard->isolated)
		return;
	if (!sim_dumps)
		kill_primary_of(shard, FAILOVER_US);
	else if (shard->primary->up)
	{
		sim_trace("server %d restarts without the last it did", shard->primary->number);
		note_loss();
		sim_restart(shard->primary, shard->saved);
	}
}

static void
write_dump(void)
{
	SimShard   *shard = &sim_shards[sim_below(sim_nshards)];

	sim_trace("server %d writes a dump", shard->primary->number);
	sim_saved(shard);
}

static void
restart_from_dump(void)
{
	SimServer  *server = sim_shards[sim_below(sim_nshards)].primary;

	if (!sim_dumps || !server->up)
		return;
	sim_trace("server %d restarts from its dump", server->number);
	note_loss();
	sim_restart(server, server->shard->saved);
}

static void
restart_empty(void)
{
	SimServer  *server = sim_shards[sim_below(sim_nshards)].primary;

	if (!sim_dumps || !server->up || !sim_chance(100))
		return;
	sim_trace("server %d restarts empty", server->number);
	sim_is_torn = true;
	sim_forgot_us = sim_now_us;
	sim_empty(server);
}

static void
no_longer_full(void *arg, uint64 tag)
{
	sim_servers[tag].full = false;
}

static void
fill_server(void)
{
	int			i = (int) sim_below(sim_nservers);

	sim_trace("server %d is full", i);
	sim_servers[i].full = true;
	sim_at(sim_now_us + sim_below(500000), no_longer_full, NULL, i);
}

/* ---- one after the other ---- */

typedef struct Fault
{
	const char *name;
	int			weight;
	void		(*happens) (void);
	bool		disturbs;		/* others than its victim, or makes it fail with 40001 */
} Fault;

static const Fault faults[] = {
	{"kill", 2, kill_front_end}, {"stop", 2, stop_front_end, true}, {"cancel", 3, cancel_front_end},
	{"terminate", 1, terminate_front_end}, {"local", 2, fail_local_commit},
	{"cut", 1, cut_connections, true}, {"weather", 1, bad_weather, true}, {"primary", 1, kill_primary, true}, {"behind", 2, fall_behind, true},
	{"restart", 1, restart_server, true}, {"flush", 1, flush_scripts}, {"slot", 2, move_slot},
	{"clock-slot", 1, move_the_clocks_slot}, {"full", 1, fill_server, true}, {"time", 1, jump_clock, true},
	{"dump", 2, write_dump, true}, {"forget", 1, restart_from_dump, true},
	{"empty", 1, restart_empty, true}, {"isolate", 2, isolate_primary, true}, {"lose", 2, aim_lose, true}, {"late", 2, aim_late, true}
};

/* With --only the others give way to those that it names. */
static int
weight_of(const Fault *fault)
{
	if ((fault->happens == isolate_primary && !sim_isolates) || (fault->happens == aim_lose && !aim_may_lose()))
		return 0;
	return fault_options.only == NULL || strstr(fault_options.only, fault->name) != NULL ? fault->weight : 0;
}

/* Of so few as --only may name there are some in a second, not all the time. */
#define WEIGHT_MIN	6

/* NULL: none. */
static const Fault *
choose_fault(void)
{
	int			sum = 0;
	int			at;

	for (int i = 0; i < lengthof(faults); i++)
		sum += weight_of(&faults[i]);
	at = (int) sim_below(Max(sum, WEIGHT_MIN));
	for (int i = 0; i < lengthof(faults); i++)
		if ((at -= weight_of(&faults[i])) < 0)
			return &faults[i];
	return NULL;
}

static bool
is_left_out(int number)
{
	if (number > fault_options.first)
		return true;
	for (int i = 0; i < fault_options.nwithout; i++)
		if (fault_options.without[i] == number)
			return true;
	return false;
}

/* One that waits for a message. */
static struct
{
	const Fault *fault;
	int			number;
	uint64		message;
	int64		delay_us;
	uint64		chance;
}			waiting;

/* Its chance is its own again. */
static void
happen(const Fault *fault, int number, int by)
{
	sender = by;
	sim_trace("fault %d: %s", number, fault->name);
	fault->happens();
	fault_options.happened++;
	if (fault->disturbs)
		fault_disturbs_until_us = sim_now_us + DISTURBS_US;
	sender = -1;
}

static void
strike(void *arg, uint64 tag)
{
	uint64		chance = sim_other_chance(waiting.chance);

	for (int i = 0; i < nclients; i++)
		if (clients[i] == arg && clients[i]->alive)
			happen(waiting.fault, waiting.number, i);
	(void) sim_other_chance(chance);
	waiting.fault = NULL;
}

/* Called with each message. */
void
fault_sent(SimFrontEnd *fe)
{
	if (waiting.fault == NULL || sim_messages < waiting.message || sim_now_us >= faults_until_us)
		return;
	waiting.message = PG_UINT64_MAX;
	sim_at(sim_now_us + waiting.delay_us, strike, fe, 0);
}

/*
 * Each has a chance of its own, so that one that is left out changes nothing about what
 * the others are.
 */
static void
next_fault(void *arg, uint64 tag)
{
	const Fault *fault;
	int64		pause_us;
	uint64		chance;
	bool		waits;

	if (sim_now_us >= faults_until_us)
		return;
	chance = sim_other_chance(sim_seed ^ (uint64) ++last_fault << 40);
	fault = choose_fault();
	pause_us = sim_below(400000);
	waits = sim_chance(500);
	if (fault != NULL && !is_left_out(last_fault))
	{
		if (!waits || waiting.fault != NULL)
			happen(fault, last_fault, -1);
		else
		{
			waiting.fault = fault;
			waiting.number = last_fault;
			waiting.message = sim_messages + (uint64) sim_below(50);
			waiting.delay_us = sim_below(400);
			waiting.chance = sim_random();
		}
	}
	(void) sim_other_chance(chance);
	sim_at(sim_now_us + pause_us, next_fault, NULL, 0);
}

void
fault_start(bool is_wanted, int64 until_us)
{
	for (int i = 0; i < setting.nmaintainers + setting.nclients; i++)
		clients[nclients++] = start(i < setting.nmaintainers ? work_maintain : work_client);
	(void) start(work_keep);
	for (int i = 0; i < sim_nshards; i++)
		sim_saved(&sim_shards[i]);	/* with the database in it */
	faults_until_us = until_us;
	if (is_wanted)
		sim_at(sim_now_us + 100000, next_fault, NULL, 0);
}

void
fault_stop(void)
{
	faults_until_us = 0;
	/*
	 * What was dated in the future, leases among it, is not any more: by a clock that was
	 * ahead, or by the database's own, which leaps whenever another process issues its time.
	 */
	for (int i = 0; i < sim_nservers && fault_options.happened > 0; i++)
		sim_servers[i].ahead_us = most_ahead_us + fault_options.happened * LEAP_US;
}

bool
fault_someone_is_busy(void)
{
	for (int i = 0; i < nclients; i++)
		if (clients[i]->alive)
			return true;
	return false;
}
