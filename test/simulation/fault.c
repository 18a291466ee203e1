/*
 * fault.c: what goes wrong, and who is there to suffer.
 */
#include "fault.h"

#define FRONT_ENDS_MAX	64

static SimFrontEnd *clients[FRONT_ENDS_MAX];
static int	nclients;
static int64 faults_until_us;

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
		clients[tag] = start(tag == 0 ? work_maintain : work_client);
}

static void
kill_front_end(void)
{
	int			i = (int) sim_below(nclients);
	Work	   *work = clients[i]->work;

	if (!clients[i]->alive)
		return;
	if (work->tx != NULL)
		oracle_died(work->tx);
	sim_kill(clients[i]);
	sim_at(sim_now_us + sim_below(1000000), replace, NULL, i);
}

static void
stop_front_end(void)
{
	sim_stop(clients[sim_below(nclients)],
			 sim_now_us + (sim_chance(700) ? sim_below(2 * setting.lease_ms * 1000) : sim_below(30000000)));
}

static void
cancel_front_end(void)
{
	SimFrontEnd *fe = clients[sim_below(nclients)];
	Work	   *work = fe->work;

	if (fe->alive && !fe->sleeping && work->tx != NULL)
		sim_cancel(fe);
}

/* ---- the network ---- */

static void
cut_connections(void)
{
	sim_cut(sim_chance(500) ? clients[sim_below(nclients)] : NULL,
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
	sim_network.cut_per_million = (int) sim_between(0, 20000);
	sim_at(sim_now_us + sim_below(2000000), calm, NULL, 0);
}

/* ---- servers ---- */

static void
take_over(void *arg, uint64 tag)
{
	sim_fail_over(&sim_shards[tag], true);
}

static void
kill_primary(void)
{
	SimShard   *shard = &sim_shards[sim_below(sim_nshards)];

	if (!setting.cluster || shard->nreplicas == 0 || !shard->primary->up)
		return;
	sim_trace("server %d dies", shard->primary->number);
	shard->primary->up = false;
	sim_server_stops(shard->primary);
	sim_at(sim_now_us + sim_between(100000, 3000000), take_over, NULL, shard->number);
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

	if (setting.cluster && key != NULL && from->primary->up && to->primary->up && setting.nreplicas == 0)
		sim_move_slot(key->slot, to);
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

typedef void (*Fault) (void);

static const Fault faults[] = {
	kill_front_end, kill_front_end, stop_front_end, stop_front_end, cancel_front_end,
	cancel_front_end, cancel_front_end, cut_connections, bad_weather, kill_primary,
	restart_server, flush_scripts, move_slot, fill_server
};

static void
next_fault(void *arg, uint64 tag)
{
	if (sim_now_us >= faults_until_us)
		return;
	faults[sim_below(lengthof(faults))] ();
	sim_at(sim_now_us + sim_below(400000), next_fault, NULL, 0);
}

void
fault_start(bool is_wanted, int64 until_us)
{
	for (int i = 0; i <= setting.nclients; i++)
		clients[nclients++] = start(i == 0 ? work_maintain : work_client);
	faults_until_us = until_us;
	if (is_wanted)
		sim_at(sim_now_us + 100000, next_fault, NULL, 0);
}

void
fault_stop(void)
{
	faults_until_us = 0;
}

bool
fault_someone_is_busy(void)
{
	for (int i = 0; i < nclients; i++)
		if (clients[i]->alive)
			return true;
	return false;
}
