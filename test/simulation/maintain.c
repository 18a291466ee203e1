/*
 * maintain.c: the database is made, tidied, and looked at in the end.
 */
#include "work_int.h"
#include "fault.h"

#include "access/xact.h"
#include "pgstub.h"
#include "step/clock.h"
#include "step/clock_keep.h"

bool		work_founded;
bool		work_verified;
bool		sim_sweeps;

/* ---- work that is no client's ---- */

/* Work that is no client's; the error if it fails. */
typedef void (*Job) (MosqlSession *session);

static bool
run_job(SimFrontEnd *self, MosqlSession *session, Job job)
{
	volatile bool ok = true;

	sim_begin(XACT_READ_COMMITTED);
	MemoryContextSwitchTo(TopTransactionContext);
	PG_TRY();
	{
		(void) mosql_txn_current(session);
		job(session);
	}
	PG_CATCH();
	{
		pgstub_error_take();
		sim_trace("maintenance: %s %s", pgstub_sqlstate(pgstub_error.sqlstate), pgstub_error.message);
		ok = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(TopTransactionContext);
	return sim_transaction(self, ok) && ok;
}

static void
make_far_trees(MosqlSession *session)
{
	mosql_btree_create(mosql_session_store(session), MOSQL_CATALOG_ROOT, false);
	far_root = mosql_session_new_id(session);
	mosql_btree_create(mosql_session_store(session), far_root, false);
	oracle_committing(oracle_begin(session, MOSQL_READ_COMMITTED));
	(void) mosql_txn_insert(mosql_txn_current(session), mosql_session_tree(session, MOSQL_CATALOG_ROOT),
							mosql_bytes("T", 1), mosql_bytes("", 0), 1, MOSQL_KEY_NEW);
	mosql_txn_changes_schema(mosql_txn_current(session));	/* there is a version, as where there are tables */
}

static void
make_trees(MosqlSession *session)
{
	mosql_btree_create(mosql_session_store(session), MOSQL_CATALOG_ROOT, false);
	for (int i = 0; i < FIXED_TREES; i++)
	{
		work_roots[i] = mosql_session_new_id(session);
		if (!mosql_btree_create(mosql_session_store(session), work_roots[i], i % 2 == 0))
			sim_fail("tree %d exists", i);
	}
	schema_found(session);
}

void
work_found(SimFrontEnd *self)
{
	MosqlSession *session = work_session("sim");
	MosqlSession *far = work_session(FAR_NAMESPACE);

	if (!run_job(self, session, make_trees) || !run_job(self, far, make_far_trees))
		sim_fail("the trees could not be made: %s", pgstub_error.message);
	mosql_session_close(session);
	mosql_session_close(far);
	work_founded = true;
}

#define ROOTS_MAX	(FIXED_TREES + 1 + SCHEMA_ROOTS_MAX)

/* Of all trees that are somebody's, as of now. */
static int
all_roots(MosqlSession *session, uint64 *all)
{
	if (far_is(session))
	{
		all[0] = far_root;
		all[1] = MOSQL_CATALOG_ROOT;
		return 2;
	}
	memcpy(all, work_roots, sizeof(work_roots));
	all[FIXED_TREES] = MOSQL_CATALOG_ROOT;
	return FIXED_TREES + 1 + schema_roots(session, all + FIXED_TREES + 1);
}

typedef struct Vacuum
{
	MosqlSession *session;
	uint64		root;
	MosqlVacuumCounts *counts;
} Vacuum;

/* As over leaves that are damaged: to be met the next time. */
static bool
goes_past(const Vacuum *vacuum, StringInfo position)
{
	return !work_stops && sim_chance(20) &&
		mosql_vacuum_skip(mosql_session_tree(vacuum->session, vacuum->root), position);
}

/* A MosqlTreeWork: others may truncate the table meanwhile. */
static void
vacuum_tree(void *arg)
{
	Vacuum	   *vacuum = arg;
	MosqlPacking packing = {sim_chance(sim_runs ? 800 : 400) ? MOSQL_TS_MAX : 0, MOSQL_COMPRESSION_LZ4};
	StringInfoData position;

	initStringInfo(&position);
	while (goes_past(vacuum, &position) ||
		   mosql_vacuum_tree(vacuum->session, mosql_session_tree(vacuum->session, vacuum->root),
							 &position, (int) sim_between(1, 16), packing, vacuum->counts))
		;
}

/* Pack what can be packed of a tree: pruned first, which is another pass. */
void
maintain_pack(MosqlSession *session, uint64 root)
{
	MosqlVacuumCounts counts = {0};
	Vacuum		vacuum = {session, root, &counts};

	for (int pass = 0; pass < 3; pass++)
		(void) mosql_session_try_tree(vacuum_tree, &vacuum);
}

/* Sometimes it stops half way: the rest is for another round. */
static bool
goes_on(void *arg, int nodes)
{
	(void) nodes;
	return *(bool *) arg || sim_chance(900);
}

/* to_the_end: all of it must go. */
static void
destroy_dropped(MosqlSession *session, bool to_the_end)
{
	MosqlGarbage *garbage = mosql_garbage_begin(session);
	MosqlVacuumCounts counts = {0};
	uint64		all[ROOTS_MAX];

	if (garbage == NULL)
		return;
	mosql_garbage_kill(garbage, all, all_roots(session, all), &counts);
	mosql_garbage_destroy(garbage, goes_on, &to_the_end);
}

static void
vacuum_trees(MosqlSession *session)
{
	MosqlVacuumCounts counts = {0};
	MosqlOrphanCounts orphans = {0};
	uint64		all[ROOTS_MAX];
	int			n = all_roots(session, all);

	mosql_orphans_forget(session, &orphans);
	mosql_orphans_finish(session, false, &orphans);
	if (work_stops || sim_chance(500))
		destroy_dropped(session, work_stops);
	for (int i = 0; i < n; i++)
	{
		Vacuum		vacuum = {session, all[i], &counts};

		if (!mosql_session_try_tree(vacuum_tree, &vacuum) && i < FIXED_TREES)
			sim_fail("tree %d is gone", i);
	}
	mosql_orphans_finish(session, true, &orphans);
	mosql_orphans_forget(session, &orphans);
}

static void
sweep_nodes(MosqlSession *session)
{
	MosqlVacuumCounts counts = {0};
	MosqlSweep *sweep = mosql_sweep_begin(session);
	uint64		all[ROOTS_MAX];
	bool		to_the_end = work_stops;

	mosql_sweep_roots(sweep, all, all_roots(session, all));
	while (mosql_sweep_next(sweep, goes_on, &to_the_end, &counts))
		;
	mosql_sweep_end(sweep);
}

void
work_maintain(SimFrontEnd *self)
{
	MosqlSession *session = ((Work *) self->work)->session = work_session("sim");
	MosqlSession *far = work_session(FAR_NAMESPACE);

	while (!work_stops)
	{
		if (sim_chance(200))
			(void) run_job(self, far, sim_chance(150) ? sweep_nodes : vacuum_trees);
		(void) run_job(self, session, sim_chance(sim_sweeps ? 500 : 150) ? sweep_nodes :
					   sim_chance(sim_sweeps ? 200 : 50) ? look_around : vacuum_trees);
		build_drop_dead(self, session);
		if (sim_chance(100))
			(void) run_job(self, session, look_around);
		pg_usleep(sim_below(setting.maintenance_ms * 1000));
	}
	mosql_session_close(session);
	mosql_session_close(far);
}

/* As src/admin/keeper.c: who holds locks and lives keeps his session, who is gone loses it. */
static void
keep_sessions(MosqlSession *session)
{
	SimFrontEnd *fe;

	for (int i = 0; (fe = fault_client(i)) != NULL; i++)
	{
		const Work *work = fe->work;
		const MosqlSession *kept = fe->alive && work->kept && work->tx != NULL ? work->session : NULL;

		if (kept != NULL && kept->txn != NULL && kept->txn->owner.session != 0)
			(void) mosql_clock_extend(&session->stepper, kept->txn->owner.session, setting.lease_ms);
	}
}

void
work_keep(SimFrontEnd *self)
{
	MosqlSession *session = ((Work *) self->work)->session = work_session("sim");

	while (!work_stops)
	{
		(void) run_job(self, session, keep_sessions);
		pg_usleep(setting.lease_ms * 1000 / 5);
	}
	mosql_session_close(session);
}

typedef struct Checked
{
	MosqlSession *session;
	int			tree;
} Checked;

static void
report_finding(void *arg, char severity, uint64 node, const char *what)
{
	if (strcmp(what, "it is dead but still linked") == 0)
		return;					/* is_signpost() */
	sim_fail("tree %d, node %016lx: %c %s", ((Checked *) arg)->tree, (unsigned long) node, severity, what);
}

static void
check_leaf(void *arg, const MosqlLeaf *leaf)
{
	mosql_txn_check_leaf(((Checked *) arg)->session, leaf, report_finding, arg);
}

static void
check_trees(MosqlSession *session)
{
	Checked		checked;
	uint64		all[ROOTS_MAX];
	int			n = all_roots(session, all);

	for (int i = 0; i < n; i++)
	{
		checked = (Checked) {session, i};
		mosql_btree_check(mosql_session_tree(session, all[i]), report_finding, check_leaf, &checked);
	}
}

/* ---- the end ---- */

static bool
is_one_of(uint64 root, const uint64 *all, int n)
{
	for (int i = 0; i < n; i++)
		if (all[i] == root)
			return true;
	return false;
}

/* A dead node stays linked where its parent has split so that it is the first child. */
static bool
is_signpost(MosqlSession *session, uint64 node, const MosqlNodeMeta *meta)
{
	return meta->state == MOSQL_NODE_DEAD &&
		mosql_btree_examine(mosql_session_tree(session, meta->tree), node, meta) == MOSQL_NODE_USED;
}

static bool is_tidy;			/* nothing is there that is kept for a time */

static bool
is_at_rest(MosqlNodeState state)
{
	return state == MOSQL_NODE_NORMAL || state == MOSQL_NODE_PACKED;
}

/*
 * All that is left of a node is rows, and it is part of a tree that somebody has.
 * at_last: what has to be kept for a time has been.
 */
static void
check_node(MosqlSession *session, const SimKey *key, uint64 node, const uint64 *all, int n,
		   bool at_last)
{
	MosqlBytes	m = sim_get(key, mosql_bytes("m", 1));
	MosqlNodeMeta meta;

	if (m.data == NULL || !mosql_meta_decode(m, &meta))
		sim_fail("node %016lx has no meta", (unsigned long) node);
	if (is_one_of(meta.tree, all, n) && is_signpost(session, node, &meta))
		return;
	if (!at_last && (!is_one_of(meta.tree, all, n) || !is_at_rest(meta.state)))
	{
		is_tidy = false;
		return;
	}
	if (!is_one_of(meta.tree, all, n))
		sim_fail("node %016lx of tree %016lx is nobody's", (unsigned long) node, (unsigned long) meta.tree);
	for (int i = 0; i < key->n; i++)
		if (key->fields[i].name.data[0] == 'i' || key->fields[i].name.data[0] == 'l')
			sim_fail("an intent or mark is left in node %016lx of tree %016lx: %.*s",
					 (unsigned long) node, (unsigned long) meta.tree,
					 (int) key->fields[i].name.len, key->fields[i].name.data);
	if (!is_at_rest(meta.state))
		sim_fail("node %016lx of tree %016lx is left in state %d", (unsigned long) node,
				 (unsigned long) meta.tree, meta.state);
	if (node != meta.tree &&
		mosql_btree_examine(mosql_session_tree(session, meta.tree), node, &meta) != MOSQL_NODE_USED)
		sim_fail("node %016lx is no part of tree %016lx", (unsigned long) node, (unsigned long) meta.tree);
}

/* Our own record, if there is one, goes with our next transaction. */
static void
check_clock(MosqlSession *session, const SimKey *key, bool at_last)
{
	const char *own = psprintf(":s:" UINT64_FORMAT, mosql_session_id(session));
	const char *ns = session->config.ns;

	if (key->type == 'l' && key->expires_us == 0)
		sim_fail("a list never ends: %.*s", (int) key->name.len, key->name.data);
	if (memcmp(key->name.data + key->name.len - 2, ":g", 2) == 0 && memcmp(key->name.data, ns, strlen(ns)) == 0)
	{
		if (at_last)
			sim_fail("%d trees are left on the list of those that are to be destroyed", key->n);
		is_tidy = false;		/* whose record was finished after the list was looked at */
	}
	if (memcmp(key->name.data, ns, strlen(ns)) != 0 || memmem(key->name.data, key->name.len, own, strlen(own)) != NULL)
		return;
	for (int i = 0; i < key->n; i++)
		if (key->type == 'h' && key->fields[i].value.len > 0 && key->fields[i].value.data[0] == 'C')
			sim_fail("a record is left in %.*s: %.*s", (int) key->name.len, key->name.data,
					 (int) key->fields[i].name.len, key->fields[i].name.data);
}

static void
check_leftovers(MosqlSession *session, bool at_last)
{
	uint64		all[ROOTS_MAX];
	int			n = all_roots(session, all);

	for (int s = 0; s < sim_nshards; s++)
	{
		uint64		cursor = 0;
		uint64		node;
		SimKey	   *key;

		while ((key = sim_next_key(&sim_shards[s], &cursor)) != NULL)
			if (key->n == 0)
				;
			else if (mosql_node_key_parse(key->name, session->config.ns, &node))
				check_node(session, key, node, all, n, at_last);
			else
				check_clock(session, key, at_last);
	}
}

static void
check_once(MosqlSession *session)
{
	check_leftovers(session, false);
}

static void
check_at_last(MosqlSession *session)
{
	check_leftovers(session, true);
}

static void
do_or_fail(SimFrontEnd *self, MosqlSession *session, Job job, const char *what)
{
	if (!run_job(self, session, job))
		sim_fail("%s fails without faults: %s", what, pgstub_error.message);
}

/* A tree that has become empty goes level by level. */
#define ROUNDS_MAX	14

/* Leases have run out: then one round tidies all but what is kept for a time. */
static void
tidy(SimFrontEnd *self, MosqlSession *session)
{
	int			rounds = 0;

	do
	{
		pg_usleep((2 * setting.lease_ms + 1000) * 1000);
		if (!far_is(session))
			build_drop_dead(self, session);
		do_or_fail(self, session, vacuum_trees, "vacuum");
		do_or_fail(self, session, sweep_nodes, "the sweep");
		is_tidy = true;
		do_or_fail(self, session, check_once, "the look at what is left");
	} while (!is_tidy && ++rounds < ROUNDS_MAX);
	do_or_fail(self, session, check_trees, "the check");
	do_or_fail(self, session, check_at_last, "the look at what is left");
}

void
work_verify(SimFrontEnd *self)
{
	MosqlSession *session = work_session("sim");
	MosqlSession *far = work_session(FAR_NAMESPACE);

	work_read_all(self, session);
	far_read_all(self, far);
	tidy(self, session);
	tidy(self, far);
	work_read_all(self, session);
	far_read_all(self, far);
	if (setting.damages)
	{
		damage_clock(self);
		damage_trees(self);
	}
	work_verified = true;
	mosql_session_close(session);
	mosql_session_close(far);
}
