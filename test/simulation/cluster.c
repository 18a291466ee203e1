/*
 * cluster.c: servers, slots, replicas.
 *
 * A shard is what one primary and its replicas store.  There is one copy of it, the
 * primary's; a replica is a position in the order of its changes.  When a replica takes
 * over, what lies behind its position is taken back.
 *
 * An isolated primary has a shard of its own, beside that which goes on with a replica: a copy of all
 * that it had, and what it is told from then on, until it hears that it is primary no more.
 */
#include "sim.h"

int			sim_nservers;
SimServer	sim_servers[SIM_SERVERS_MAX];
int			sim_nshards;
bool		sim_grows;
SimShard	sim_shards[SIM_SHARDS_MAX];
bool		sim_is_cluster;
bool		sim_dumps;
bool		sim_isolates;
int64		sim_forgot_us;
int64		sim_jumped_us;
bool		sim_is_torn;
int16		sim_slots[16384];
uint64		sim_slot_moves;
SimShard   *sim_moving[16384];

/* Raised when a shard loses something: what was on its way to replicas is void. */
static uint64 timeline[SIM_SHARDS_MAX];

#define TIMELINE_SHIFT	40

const char *
sim_node_id(const SimServer *server)
{
	static char ids[SIM_SERVERS_MAX][41];
	char	   *id = ids[server->number];

	if (id[0] == '\0')
		snprintf(id, sizeof(ids[0]), "%040d", server->number + 1);
	return id;
}

int64
sim_server_time(const SimServer *server)
{
	return sim_now_us + server->ahead_us;
}

void
sim_cluster_start(int nshards, int nreplicas, bool cluster)
{
	sim_is_cluster = cluster;
	for (int i = 0; i < nshards; i++)
	{
		SimShard   *shard = &sim_shards[sim_nshards++];

		shard->number = i;
		shard->nreplicas = nreplicas;
		for (int r = 0; r <= nreplicas; r++)
		{
			SimServer  *server = &sim_servers[sim_nservers];

			server->number = sim_nservers++;
			server->shard = shard;
			server->up = true;
			server->ahead_us = sim_between(-20000, 20000);
			if (r == 0)
				shard->primary = server;
			else
				shard->replicas[r - 1] = server;
		}
	}
	for (int s = 0; s < 16384; s++)
		sim_slots[s] = sim_grows ? 0 : (int16) (s / 2048 % nshards);
}

/* ---- replicas ---- */

/* Does it have the shard's changes, or will have them?  Not who is isolated. */
static bool
is_with(const SimShard *shard, const SimServer *server)
{
	return server->up && server->shard == shard;
}

static uint64
oldest_position(const SimShard *shard)
{
	uint64		oldest = sim_dumps ? shard->saved : shard->position;

	for (int i = 0; i < shard->nreplicas; i++)
		oldest = Min(oldest, shard->replicas[i]->applied);
	return oldest;
}

static void
applies(void *arg, uint64 tag)
{
	SimServer  *server = arg;
	SimShard   *shard = server->shard;
	uint64		position = tag & ((UINT64CONST(1) << TIMELINE_SHIFT) - 1);

	if (server == shard->primary || !server->up || tag >> TIMELINE_SHIFT != timeline[shard->number])
		return;
	if (!shard->primary->up && sim_chance(500))
		return;					/* it died with its sender */
	server->applied = Max(server->applied, position);
	sim_trim(shard, oldest_position(shard));
	sim_check_waits(shard);
}

void
sim_replicate(SimShard *shard)
{
	uint64		tag = timeline[shard->number] << TIMELINE_SHIFT | shard->position;

	for (int i = 0; i < shard->nreplicas; i++)
		sim_at(Max(sim_now_us, shard->behind_until_us) + sim_between(50, sim_chance(20) ? 200000 : 2000), applies,
			   shard->replicas[i], tag);
	if (shard->nreplicas == 0)
		sim_trim(shard, oldest_position(shard));
}

/* A dump is written: a restart finds this, or newer. */
void
sim_saved(SimShard *shard)
{
	shard->saved = shard->position;
}

int
sim_copies(const SimShard *shard, uint64 position)
{
	int			n = 0;

	for (int i = 0; i < shard->nreplicas; i++)
		n += is_with(shard, shard->replicas[i]) && shard->replicas[i]->applied >= position;
	return n;
}

/* ---- faults ---- */

static void
lose(SimShard *shard, uint64 position)
{
	sim_trace("shard %d forgets " UINT64_FORMAT " changes", shard->number, shard->position - position);
	sim_forget(shard, position);
	shard->saved = Min(shard->saved, shard->position);
	timeline[shard->number]++;
	for (int i = 0; i < shard->nreplicas; i++)
		shard->replicas[i]->applied = Min(shard->replicas[i]->applied, shard->position);
}

/* The primary has died; the replica that has most takes over. */
void
sim_fail_over(SimShard *shard, bool old_comes_back)
{
	SimServer  *old = shard->primary;
	int			best = -1;

	for (int i = 0; i < shard->nreplicas; i++)
		if (is_with(shard, shard->replicas[i]) && (best < 0 || shard->replicas[i]->applied > shard->replicas[best]->applied))
			best = i;
	if (best < 0)
		return;
	sim_server_stops(old);
	shard->primary = shard->replicas[best];
	shard->replicas[best] = old;
	sim_trace("server %d takes over from server %d", shard->primary->number, old->number);
	lose(shard, shard->primary->applied);
	old->up = old_comes_back;
	old->applied = shard->position; /* synchronised anew */
	old->nscripts = 0;
	shard->primary->terms++;
}

/*
 * The primary is cut off from the others.  The replica that has most will take over (it is not up
 * yet); the primary, and who reaches it, go on as if nothing had happened.
 */
SimServer *
sim_isolate(SimShard *shard)
{
	SimServer  *old = shard->primary;
	SimShard   *own;
	int			best = -1;

	for (int i = 0; i < shard->nreplicas; i++)
		if (is_with(shard, shard->replicas[i]) && (best < 0 || shard->replicas[i]->applied > shard->replicas[best]->applied))
			best = i;
	if (best < 0 || !old->up)
		return NULL;
	own = calloc(1, sizeof(SimShard));
	own->number = shard->number;
	own->primary = old;
	own->isolated = true;
	own->unreached = (int) sim_below(3);
	own->slots = memcpy(malloc(sizeof(sim_slots)), sim_slots, sizeof(sim_slots));
	sim_copy(shard, own);
	own->position = shard->position;	/* who waits for copies goes on to */
	own->first_undo = own->position - own->nundo;
	shard->primary = shard->replicas[best];
	shard->primary->terms++;
	shard->replicas[best] = old;
	old->shard = own;
	old->applied = 0;
	sim_trace("server %d is isolated, one in three does not reach it (%d); server %d will take over", old->number,
			  own->unreached, shard->primary->number);
	shard->primary->up = false;
	lose(shard, shard->primary->applied);
	sim_server_isolated(old);
	return shard->primary;
}

/* It hears who is primary, throws away what it has, and copies what is there. */
void
sim_rejoin(SimServer *server)
{
	SimShard   *own = server->shard;

	sim_trace("server %d hears that it is primary no more", server->number);
	server->shard = &sim_shards[own->number];
	server->applied = server->shard->position;
	sim_server_demoted(server);
	sim_free_keys(own);
	free(own->slots);
	free(own);
}

bool
sim_is_reached(const SimFrontEnd *fe, const SimServer *server)
{
	return !server->shard->isolated || fe->number % 3 != server->shard->unreached;
}

/* Does that server take itself for the primary of a slot, or the one that gives it away? */
bool
sim_owns(const SimServer *server, int slot)
{
	const SimShard *shard = server->shard;

	return server == shard->primary && (shard->isolated ? shard->slots : sim_slots)[slot] == shard->number;
}

const SimServer *
sim_primary(const SimServer *by, int slot)
{
	return by->shard->isolated && sim_owns(by, slot) ? by : sim_shards[sim_slots[slot]].primary;
}

/* A process ends and begins again with what it had at that position. */
void
sim_restart(SimServer *server, uint64 position)
{
	sim_server_stops(server);
	if (server == server->shard->primary)
		lose(server->shard, Max(position, server->shard->first_undo));
	server->nscripts = 0;
	server->terms++;
	server->up = true;
}

void
sim_empty(SimServer *server)
{
	sim_server_stops(server);
	sim_clear(server->shard);
	timeline[server->shard->number]++;
	server->nscripts = 0;
	server->terms++;
}

/* ---- slots that move ---- */

/* Who moves a slot waits for the copies of each key: a failover loses none. */
static void
copy_now(SimShard *shard)
{
	for (int i = 0; i < shard->nreplicas; i++)
		if (is_with(shard, shard->replicas[i]))
			shard->replicas[i]->applied = shard->position;
	sim_saved(shard);
	sim_check_waits(shard);
}

static void
move_key(SimShard *from, SimShard *to, SimKey *key)
{
	SimKey	   *copy = sim_key(to, key->name, true);

	sim_trace("key %.*s moves to shard %d", (int) key->name.len, key->name.data, to->number);
	for (int i = 0; i < key->n; i++)
		sim_put(to, copy, key->type, key->fields[i].name, key->fields[i].value);
	copy->expires_us = key->expires_us;
	while (key->n > 0)
		sim_put(from, key, key->type, key->fields[key->n - 1].name, MOSQL_ABSENT);
	sim_replicate(from);
	sim_replicate(to);
	copy_now(to);
	copy_now(from);
	sim_check_lists();
}

static void
look_at_blocked(void *arg, uint64 tag)
{
	sim_look_at_blocked();
}

/* The next key of a slot, or the end. */
static void
move_some(void *arg, uint64 slot)
{
	SimShard   *from = &sim_shards[sim_slots[slot]];
	SimShard   *to = sim_moving[slot];
	uint64		cursor = 0;
	SimKey	   *key;

	if (from->primary->up && to->primary->up)
	{
		while ((key = sim_next_key(from, &cursor)) != NULL && key->slot != (int) slot)
			;
		if (key == NULL)
		{
			sim_trace("slot %d is moved", (int) slot);
			sim_slots[slot] = (int16) to->number;
			sim_slot_moves++;
			sim_moving[slot] = NULL;
			sim_at(sim_now_us + sim_below(1000000), look_at_blocked, NULL, 0);
			return;
		}
		move_key(from, to, key);
	}
	sim_at(sim_now_us + sim_between(100, sim_chance(100) ? 200000 : 5000), move_some, NULL, slot);
}

/* SETSLOT IMPORTING, MIGRATING; then MIGRATE key by key; then SETSLOT NODE. */
void
sim_move_slot(int slot, SimShard *to)
{
	SimShard   *from = &sim_shards[sim_slots[slot]];

	if (from == to || sim_moving[slot] != NULL)
		return;
	sim_trace("slot %d moves from shard %d to shard %d", slot, from->number, to->number);
	sim_moving[slot] = to;
	sim_at(sim_now_us + sim_between(100, 5000), move_some, NULL, (uint64) slot);
}
