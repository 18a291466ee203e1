/*
 * session.c: a backend's tie to one namespace: identity, ids, leftovers.
 *
 * Layer: txn.  A session has an id with a lease at the clock.  The id names
 * its transaction attempts and, as a prefix, everything it creates.  A lease
 * that ran out is never renewed (rule 7): the session takes a new id.
 */
#include "postgres.h"

#include "storage/ipc.h"

#include "step/clock_keep.h"
#include "step/one_step.h"
#include "txn/lock_int.h"

dlist_head	mosql_sessions = DLIST_STATIC_INIT(mosql_sessions);
int			mosql_txn_lease_ms = MOSQL_LEASE_MS;
MosqlWho	mosql_txn_who_hook = NULL;
MosqlKeep	mosql_txn_keep_hook = NULL;

#define ID_COUNTER_MAX	((UINT64CONST(1) << MOSQL_ID_COUNTER_BITS) - 1)

/* The last of a session's own ids are for roots. */
#define ROOT_IDS		(ID_COUNTER_MAX / 4)

/* How long a session that is to be closed waits for replies. */
#define DRAIN_MS		1000

/* ---- the node store that the trees stand on ---- */

static MosqlStepper *
stepper_of(MosqlNodeStore *store)
{
	return &((MosqlSessionStore *) store)->session->stepper;
}

static void
store_read_nodes(MosqlNodeStore *store, const uint64 *nodes, int n, MosqlNodeImage *images)
{
	mosql_step_read_nodes(stepper_of(store), nodes, n, images, NULL);
}

static bool
store_reads_at_once(MosqlNodeStore *store, const uint64 *nodes, int n, bool told)
{
	return mosql_step_reads_at_once(stepper_of(store), nodes, n, told);
}

/* Who may not do so once may not do so later. */
static bool
store_read_nodes_at_once(MosqlNodeStore *store, const uint64 *nodes, int n, MosqlNodeImage *images, uint64 *schema)
{
	bool		done = mosql_step_read_nodes_at_once(stepper_of(store), nodes, n, images, schema, NULL);

	if (!done)
		store->reads_at_once = NULL;
	return done;
}

static MosqlPrefetch *
store_prefetch(MosqlNodeStore *store, const uint64 *nodes, int n)
{
	return mosql_step_prefetch(stepper_of(store), nodes, n, true);
}

static void
store_read_fields(MosqlNodeStore *store, MosqlFieldRead *reads, int n)
{
	mosql_step_read_fields(stepper_of(store), reads, n, NULL);
}

static void
store_run_steps(MosqlNodeStore *store, MosqlStep **steps, int n)
{
	for (int i = 0; i < n; i++)
		steps[i]->durable = steps[i]->touch = true;
	mosql_step_run(stepper_of(store), steps, n, NULL);
}

static void
store_delete_nodes(MosqlNodeStore *store, const uint64 *nodes, int n)
{
	mosql_step_delete_nodes(stepper_of(store), nodes, n, NULL);
}

/*
 * Together are nodes on the server that has the clock, in whatever slots: the step that decides takes them in (one_step.c).
 * Where it takes in all there are, or none, each id will do.
 */
static uint64
store_new_id(MosqlNodeStore *store, bool together)
{
	MosqlSession *session = ((MosqlSessionStore *) store)->session;
	uint64		id = mosql_session_new_id(session);

	if (!together || !mosql_one_step_is_possible(&session->stepper))
		return id;
	for (int i = 1; i < MOSQL_TOGETHER_MAX_TRIES && !mosql_one_step_reaches(&session->stepper, id); i++)
		id = mosql_session_new_id(session);
	return id;
}

/*
 * The session's id, and how often nothing was heard of the clock for a whole lease:
 * then others may take this session for dead, whether it is or not.  And how often a
 * connection broke, where a server may have forgotten then what was read before: a leaf that
 * was brought in since its dump is there perhaps, and no part of the tree.
 */
static uint64
store_incarnation(MosqlNodeStore *store)
{
	MosqlSession *session = ((MosqlSessionStore *) store)->session;
	int64		now = mosql_now_us();

	if (now - Max(session->contact_us, session->lapsed_us) > (int64) mosql_txn_lease_ms * 1000)
	{
		session->lapses++;
		session->lapsed_us = now;
	}
	return session->sid ^
		(session->lapses + (session->stepper.durable ? 0 : mosql_redis_breaks(session->redis))) << 48;
}

static uint64
store_breaks(MosqlNodeStore *store)
{
	return mosql_redis_breaks(((MosqlSessionStore *) store)->session->redis);
}

/* ---- what rests on what a server may forget ---- */

/*
 * Without copies a server may come back with what it had a while ago, but not without all
 * its connections breaking.  So what is done in several steps, each of which rests on the
 * ones before, is done as long as none breaks that was there when they began.
 */
static bool
do_unbroken(MosqlSession *session, uint64 breaks, void (*work) (void *arg), void *arg, bool throws)
{
	MemoryContext caller = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount;
	uint64		before;
	volatile bool done = true;

	if (session->stepper.durable)
	{
		work(arg);
		return true;
	}
	before = mosql_redis_fence(session->redis, breaks);
	PG_TRY();
	{
		work(arg);
	}
	PG_CATCH();
	{
		bool		broken = mosql_redis_is_fenced_off(session->redis);

		mosql_redis_lift(session->redis, before);
		if (throws || !broken || geterrcode() != ERRCODE_CONNECTION_FAILURE)
			PG_RE_THROW();
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		InterruptHoldoffCount = held;
		done = false;
	}
	PG_END_TRY();
	mosql_redis_lift(session->redis, before);
	return done;
}

static bool
store_unbroken(MosqlNodeStore *store, void (*work) (void *arg), void *arg)
{
	MosqlSession *session = ((MosqlSessionStore *) store)->session;

	return do_unbroken(session, mosql_redis_breaks(session->redis), work, arg, false);
}

bool
mosql_session_try_unbroken(MosqlSession *session, void (*work) (void *arg), void *arg)
{
	return do_unbroken(session, mosql_redis_breaks(session->redis), work, arg, false);
}

void
mosql_session_do_unbroken(MosqlSession *session, uint64 breaks, void (*work) (void *arg), void *arg)
{
	(void) do_unbroken(session, breaks, work, arg, true);
}

/* ---- life ---- */

/* Room for `more` numbers. */
static void
expect_numbers(MosqlSession *session, uint64 **array, int *n, int *max, int more)
{
	if (*n + more > *max)
	{
		int			grown = Max(*n + more, Max(16, *max * 2));
		uint64	   *copy = MemoryContextAlloc(session->cxt, grown * sizeof(uint64));

		if (*n > 0)
		{
			memcpy(copy, *array, *n * sizeof(uint64));
			pfree(*array);
		}
		*array = copy;
		*max = grown;
	}
}

static void
push_number(MosqlSession *session, uint64 **array, int *n, int *max, uint64 value)
{
	expect_numbers(session, array, n, max, 1);
	(*array)[(*n)++] = value;
}

static char *
copy_string(MemoryContext cxt, const char *s)
{
	return s ? MemoryContextStrdup(cxt, s) : NULL;
}

MosqlSession *
mosql_session_open(const MosqlSessionConfig *config)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "mosql session",
											  ALLOCSET_DEFAULT_SIZES);
	MosqlSession *session = MemoryContextAllocZero(cxt, sizeof(MosqlSession));

	session->cxt = cxt;
	session->config = *config;
	session->config.ns = copy_string(cxt, config->ns);
	session->config.redis.nodes = copy_string(cxt, config->redis.nodes);
	session->config.redis.username = copy_string(cxt, config->redis.username);
	session->config.redis.password = copy_string(cxt, config->redis.password);

	session->redis = mosql_redis_open(&session->config.redis, cxt);
	session->stepper.redis = session->redis;
	session->stepper.ns = session->config.ns;
	session->stepper.engine = config->engine;
	session->stepper.lenient = true;
	session->stepper.durable = mosql_redis_is_durable(session->redis);

	session->store.session = session;
	session->store.store.ns = session->config.ns;
	session->store.store.read_nodes = store_read_nodes;
	session->store.store.reads_at_once = store_reads_at_once;
	session->store.store.read_nodes_at_once = store_read_nodes_at_once;
	session->store.store.prefetch = store_prefetch;
	session->store.store.prefetched = mosql_step_prefetched;
	session->store.store.prefetch_drop = mosql_step_prefetch_drop;
	session->store.store.read_fields = store_read_fields;
	session->store.store.run_steps = store_run_steps;
	session->store.store.delete_nodes = store_delete_nodes;
	session->store.store.new_id = store_new_id;
	session->store.store.durable = session->stepper.durable;
	session->store.store.incarnation = store_incarnation;
	session->store.store.breaks = store_breaks;
	if (!session->stepper.durable)
		session->store.store.unbroken = store_unbroken;

	dlist_init(&session->pending);
	dlist_push_tail(&mosql_sessions, &session->node);
	return session;
}

/* The prefixes that are not the session's id are not needed any more. */
static void
drop_prefixes(MosqlSession *session)
{
	while (session->nprefixes > 0)
		mosql_clock_close(&session->stepper, session->prefixes[--session->nprefixes]);
}

/*
 * Wait for what is under way, finish what is left over, give back the id.
 * Bounded (a second per wait); false if something is left, or perhaps: then the id
 * stays, and whatever did not get through the others recover.
 */
static bool
give_up_id(MosqlSession *session)
{
	if (mosql_redis_is_busy(session->redis) || !mosql_redis_drain(session->redis, DRAIN_MS))
		return false;
	/* an ERROR is FATAL while the process exits: nothing that may throw */
	if (!proc_exit_inprogress)
	{
		mosql_session_forget_drawing(session);
		mosql_session_end_trees(session, false, 0);
	}
	mosql_pending_finish(session);
	mosql_session_drop(session);
	if (mosql_pending_any(session))
		return false;
	drop_prefixes(session);
	mosql_clock_close(&session->stepper, session->sid);
	return mosql_redis_drain(session->redis, DRAIN_MS);
}

/*
 * Silent.  A session that has no connection says nothing: its lease runs out.
 */
void
mosql_session_close(MosqlSession *session)
{
	Assert(session->txn == NULL);
	if (session->sid != 0 && mosql_redis_is_connected(session->redis))
		(void) give_up_id(session);
	dlist_delete(&session->node);
	if (!mosql_redis_is_busy(session->redis))
		mosql_redis_disconnect(session->redis);
	mosql_redis_close(session->redis);
	if (session->waiting != NULL)
		mosql_redis_close(session->waiting);
	MemoryContextDelete(session->cxt);
}

void
mosql_session_abandon(MosqlSession *session)
{
	if (session->sid != 0 && mosql_redis_is_connected(session->redis))
		(void) give_up_id(session);
}

typedef struct Rest
{
	MosqlSession *session;
	bool		keep_id;
	MemoryContext cxt;
} Rest;

static void
rest(void *arg)
{
	Rest	   *work = arg;
	MosqlSession *session = work->session;

	work->cxt = AllocSetContextCreate(session->cxt, "mosql rest", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(work->cxt);
	if (work->keep_id || session->sid == 0 || session->locks != NULL)
		mosql_pending_catch_up(session);
	else if (give_up_id(session))
		session->sid = 0;
}

void
mosql_session_rest(MosqlSession *session, bool keep_id)
{
	Rest		work = {session, keep_id};
	bool		drained;

	Assert(session->txn == NULL && !mosql_redis_is_busy(session->redis));
	drained = mosql_do_quietly(rest, &work) && session->released_breaks == mosql_redis_breaks(session->redis);
	mosql_redis_disconnect(session->redis);
	if (drained)				/* nothing was under way that this has broken */
		session->released_breaks = mosql_redis_breaks(session->redis);
	if (session->waiting != NULL)
		mosql_redis_disconnect(session->waiting);
	if (work.cxt != NULL)
		MemoryContextDelete(work.cxt);
}

static bool
is_due(int64 due_us)
{
	return due_us > 0 && mosql_now_us() >= due_us;
}

void
mosql_session_catch_up(MosqlSession *session)
{
	Assert(session->txn == NULL);
	if (is_due(mosql_pending_due(session)))
		mosql_pending_catch_up(session);
	if (is_due(mosql_session_leftovers_due(session)))
		mosql_session_try_leftovers(session);
}

int64
mosql_session_due(MosqlSession *session)
{
	int64		pending_us = mosql_pending_due(session);
	int64		leftovers_us = mosql_session_leftovers_due(session);

	return pending_us == 0 || leftovers_us == 0 ? Max(pending_us, leftovers_us) : Min(pending_us, leftovers_us);
}

bool
mosql_session_in_use(const MosqlSession *session)
{
	return session->txn != NULL;
}

static bool
is_same(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool
mosql_session_has_config(const MosqlSession *session, const MosqlSessionConfig *config)
{
	const MosqlRedisConfig *a = &session->config.redis;
	const MosqlRedisConfig *b = &config->redis;

	return is_same(session->config.ns, config->ns) && session->config.engine == config->engine &&
		is_same(a->nodes, b->nodes) && is_same(a->username, b->username) &&
		is_same(a->password, b->password) && a->connect_timeout_ms == b->connect_timeout_ms &&
		a->command_timeout_ms == b->command_timeout_ms && a->replicas == b->replicas &&
		a->fsync == b->fsync && a->replica_timeout_ms == b->replica_timeout_ms;
}

MosqlRedis *
mosql_session_redis(MosqlSession *session)
{
	return session->redis;
}

MosqlStepper *
mosql_session_stepper(MosqlSession *session)
{
	return &session->stepper;
}

MosqlNodeStore *
mosql_session_store(MosqlSession *session)
{
	return &session->store.store;
}

const char *
mosql_session_namespace(const MosqlSession *session)
{
	return session->config.ns;
}

MemoryContext
mosql_session_context(MosqlSession *session)
{
	return session->cxt;
}

uint64
mosql_session_id(const MosqlSession *session)
{
	return session->sid;
}

bool
mosql_session_uses_id(const MosqlSession *session, uint64 sid)
{
	for (int i = 0; i < session->nprefixes; i++)
		if (session->prefixes[i] == sid)
			return true;
	return session->sid != 0 && session->sid == sid;
}

void
mosql_session_keep_id(MosqlSession *session)
{
	session->keeps_id = true;
}

/*
 * Race -- the session has locks beyond its transactions, and would keep its id for them: what somebody waits for to end with it,
 * a build, say, that keeps writers out, would never end.  So they are lost, and that is told by the next transaction.
 */
void
mosql_session_leave_id(MosqlSession *session)
{
	session->contact_us = 0;
	if (session->txn == NULL)
		mosql_session_lose_locks(session);
}

uint64
mosql_session_schema(MosqlSession *session)
{
	return session->schema;
}

uint64
mosql_session_schema_read(MosqlSession *session)
{
	const MosqlTxn *txn = session->txn;

	return txn != NULL && txn->drawn && txn->isolation != MOSQL_READ_COMMITTED ? txn->S_schema
		: session->schema;
}

void
mosql_session_refresh_schema(MosqlSession *session)
{
	MosqlMoment before = mosql_session_moment(session);
	MosqlSnapshotList list;

	mosql_clock_snapshots(&session->stepper, &list, &session->schema);
	session->ask_schema = false;
	session->heard = before;
}

/*
 * Race -- a server falls back to before a change of definitions, and nobody has asked its clock since by a step, which would leap: it
 * tells the version of before.  So what connections have broken still counts from when a step was asked.
 */
bool
mosql_session_hear(MosqlSession *session, uint64 schema, int64 before_us)
{
	if (schema == 0)
		return false;
	if (schema == session->schema)
		session->heard.us = before_us;
	else
		session->ask_schema = true;
	return schema == session->schema;
}

MosqlMoment
mosql_session_moment(const MosqlSession *session)
{
	return (MosqlMoment) {mosql_now_us(), mosql_redis_breaks(session->redis)};
}

/*
 * Has a connection broken since the clock was asked for its schema version, without copies?
 *
 * Race -- a server falls back to after a TRUNCATE was decided, and to before its tree was killed.  Its client was told, for
 * nobody could read that tree any more; who reads by the definition of before must ask, and may know that from the
 * connection that broke: of one that was idle after he has read.
 */
bool
mosql_session_lost_touch(const MosqlSession *session)
{
	return !session->stepper.durable && session->heard.breaks != mosql_redis_breaks(session->redis);
}

/*
 * Was the schema version, as the session knows it, the clock's a short while ago?  That counts from when
 * it was asked for: what the answer says was so at that time or later (rule 39).
 */
bool
mosql_session_is_fresh(const MosqlSession *session)
{
	return !session->ask_schema && !mosql_session_lost_touch(session) &&
		mosql_now_us() - session->heard.us < (int64) MOSQL_SCHEMA_FRESH_MS * 1000;
}

void **
mosql_session_cache_slot(MosqlSession *session)
{
	return &session->table_cache;
}

MosqlTree *
mosql_session_tree(MosqlSession *session, uint64 root)
{
	MosqlSessionTree *slot;

	for (int i = 0; i < session->ntrees; i++)
		if (session->trees[i].root == root)
			return session->trees[i].tree;

	if (session->ntrees == session->maxtrees)
	{
		int			max = Max(8, session->maxtrees * 2);
		MosqlSessionTree *grown = MemoryContextAlloc(session->cxt, max * sizeof(*grown));

		if (session->ntrees > 0)
		{
			memcpy(grown, session->trees, session->ntrees * sizeof(*grown));
			pfree(session->trees);
		}
		session->trees = grown;
		session->maxtrees = max;
	}
	slot = &session->trees[session->ntrees];
	*slot = (MosqlSessionTree) {.root = root};
	slot->tree = mosql_btree_open(&session->store.store, root, session->cxt);
	session->ntrees++;
	return slot->tree;
}

MosqlSessionTree *
mosql_session_tree_slot(MosqlSession *session, const MosqlTree *tree)
{
	for (int i = 0; i < session->ntrees; i++)
		if (session->trees[i].tree == tree)
			return &session->trees[i];
	return NULL;
}

void
mosql_session_forget_trees(MosqlSession *session)
{
	bool		all = session->ntrees > MOSQL_SESSION_MAX_TREES;
	int			n = 0;

	Assert(session->txn == NULL);
	for (int i = 0; i < session->ntrees; i++)
		if (all || session->trees[i].dead)
			mosql_btree_close(session->trees[i].tree);
		else
			session->trees[n++] = session->trees[i];
	session->ntrees = n;
}

void
mosql_session_note_dead(MosqlSession *session, uint64 root)
{
	for (int i = 0; i < session->ntrees; i++)
		if (session->trees[i].root == root)
			session->trees[i].dead = true;
}

static MosqlTreeState
try_work(MosqlTreeWork work, void *arg, bool damage_too, const char **damage)
{
	MemoryContext caller = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount;
	volatile MosqlTreeState state = MOSQL_TREE_SOUND;
	ErrorData  *error;

	*damage = NULL;
	PG_TRY();
	{
		work(arg);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		if (geterrcode() != ERRCODE_UNDEFINED_TABLE &&
			!(damage_too && geterrcode() == ERRCODE_DATA_CORRUPTED))
			PG_RE_THROW();
		error = CopyErrorData();
		FlushErrorState();
		InterruptHoldoffCount = held;	/* an error resets it */
		state = error->sqlerrcode == ERRCODE_UNDEFINED_TABLE ? MOSQL_TREE_GONE :
			MOSQL_TREE_DAMAGED;
		*damage = error->detail ? psprintf("%s: %s", error->message, error->detail) :
			error->message;
	}
	PG_END_TRY();
	return state;
}

MosqlTreeState
mosql_session_try_tree_damage(MosqlTreeWork work, void *arg, const char **damage)
{
	return try_work(work, arg, true, damage);
}

bool
mosql_session_try_tree(MosqlTreeWork work, void *arg)
{
	const char *gone;

	return try_work(work, arg, false, &gone) == MOSQL_TREE_SOUND;
}

/* ---- identity ---- */

/* Any exchange with the clock extends a lease in its last half. */
void
mosql_session_note_contact(MosqlSession *session)
{
	session->contact_us = mosql_now_us();
}

/* See txn_int.h. */
bool
mosql_session_extend(MosqlSession *session)
{
	int64		before_us = mosql_now_us();

	if (before_us - session->contact_us < (int64) mosql_txn_lease_ms * 1000 / 3)
		return true;
	if (!mosql_clock_extend(&session->stepper, session->sid, mosql_txn_lease_ms))
		return false;
	session->contact_us = before_us;
	return true;
}

/*
 * A snapshot was being drawn when an error came: perhaps it is registered.
 */
void
mosql_session_forget_drawing(MosqlSession *session)
{
	if (session->drawing != 0 && session->sid != 0)
		mosql_clock_release(&session->stepper, session->sid, session->drawing);
	session->drawing = 0;
}

/*
 * A session id, and the database if there is none.  But if there is one and only
 * its clock has nothing, the clock's server has lost its data: a new clock would
 * give out the same ids and timestamps again.
 *
 * Race -- somebody else makes the database just after we found no clock.  The clock is
 * made before the first table is: so who sees tables looks for the clock once more.
 */
static uint64
open_clock(MosqlSession *session, int lease_ms, uint64 *schema)
{
	uint64		sid;

	session->stepper.who = mosql_txn_who_hook != NULL ? mosql_txn_who_hook() : NULL;
	sid = mosql_clock_open_existing(&session->stepper, lease_ms, schema);
	if (sid != 0)
		return sid;
	MOSQL_DEBUG_POINT("first-session");
	if (!mosql_btree_exists(&session->store.store, MOSQL_CATALOG_ROOT))
		return mosql_clock_open(&session->stepper, lease_ms, schema);
	sid = mosql_clock_open_existing(&session->stepper, lease_ms, schema);
	if (sid == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the clock of namespace \"%s\" is gone, but its tables are there",
						session->config.ns),
				 errdetail("The Redis node that has the keys \"%s:{%s.clock}:*\" has lost its data: it was restarted empty, or they were deleted.",
						   session->config.ns, session->config.ns),
				 errhint("Restore that node's data. If what is left may go, delete all keys \"%s:*\"; see docs/durability.md.",
						 session->config.ns)));
	return sid;
}

static void
draw_id(MosqlSession *session)
{
	MosqlMoment before = mosql_session_moment(session);

	session->drawing = 0;
	session->sid = open_clock(session, mosql_txn_lease_ms, &session->schema);
	session->overdue = session->leaves_id = false;
	session->contact_us = session->drawn_us = before.us;
	session->heard = before;
	session->released_breaks = before.breaks;
	session->last_tx = 0;
	session->last_snapid = 0;

	/* what a dead session has made counts as abandoned (sweep.c) */
	drop_prefixes(session);
	session->id_prefix = session->sid;
	session->id_counter = session->root_counter = 0;
}

/*
 * Between transactions: a session that is never idle would keep for ever what goes
 * only when all sessions have ended that lived at some time.
 */
static void
take_turns(MosqlSession *session)
{
	uint64		before = session->sid;

	mosql_session_renew(session);
	if (!mosql_pending_any(session))
		mosql_clock_close(&session->stepper, before);
}

void
mosql_session_forget_paths(MosqlSession *session)
{
	session->lapses++;
	session->lapsed_us = mosql_now_us();
}

/*
 * Pending transactions keep the id they were decided under; the records of an
 * old id are dropped one by one, since decide drops only those of its own.  55000 if the
 * session held locks, which have ended with the old id.
 */
void
mosql_session_renew(MosqlSession *session)
{
	mosql_session_drop(session);
	mosql_session_lose_locks(session);
	draw_id(session);
	mosql_session_report_lost(session);
}

/*
 * Another id, for the one that the session has is old.  A Redis that is full gives none;
 * but whoever only reads by key needs none.  Whatever needs the id compares its lease, and
 * what is to be named after it waits for the next (mosql_session_new_id).
 */
static void
replace_id(MosqlSession *session, void (*replace) (MosqlSession *session))
{
	MemoryContext caller = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount;

	PG_TRY();
	{
		replace(session);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		if (geterrcode() != ERRCODE_OUT_OF_MEMORY)
			PG_RE_THROW();
		FlushErrorState();
		InterruptHoldoffCount = held;
		session->overdue = true;
	}
	PG_END_TRY();
}

/*
 * Called when a transaction begins.  A lease is half used at most when we
 * reckon with it: the clock extends it then, in the same step that uses it.
 */
void
mosql_session_ready(MosqlSession *session)
{
	mosql_session_report_lost(session);
	if (session->sid == 0)
		draw_id(session);
	else if (session->locks != NULL)
		mosql_session_keep_locks(session);
	else if (mosql_now_us() - session->contact_us > (int64) mosql_txn_lease_ms * 1000 / 2)
		replace_id(session, mosql_session_renew);
	else if (session->leaves_id)
		replace_id(session, take_turns);
	else if (!session->keeps_id &&
			 mosql_now_us() - session->drawn_us > (int64) MOSQL_SESSION_MAX_AGE_MS * 1000)
		replace_id(session, take_turns);
	if (!mosql_session_is_fresh(session))
		mosql_session_refresh_schema(session);
	mosql_session_forget_drawing(session);
	mosql_session_end_trees(session, false, 0);
	mosql_pending_finish(session);
}

void
mosql_txn_keep(MosqlTxn *txn)
{
	MosqlSession *session = txn->session;

	if (mosql_txn_keep_hook == NULL || session->kept_sid == session->sid)
		return;
	mosql_txn_keep_hook(session, true);
	session->kept_sid = session->sid;
}

/*
 * The numbers of an attempt: the age of its transaction, counted on, so that a later
 * attempt is older than any transaction that began after the first (rule 25).
 */
MosqlTxid
mosql_session_next_txid(MosqlSession *session, uint64 age)
{
	Assert(session->sid != 0);
	session->last_tx = Max(session->last_tx + 1, age);
	return (MosqlTxid) {session->sid, session->last_tx};
}

/* An id of its own, after which something may be named. */
static void
expect_id(MosqlSession *session)
{
	if (session->sid == 0)
		draw_id(session);
	else if (session->overdue)
		mosql_session_renew(session);
}

/*
 * The next number under this session's prefix; a prefix that is used up is
 * replaced by a freshly drawn session id that is never used for anything else.  Its
 * lease outlives any transaction, so that what is made under it does not count as
 * abandoned; it ends with the session's id, or before: that may be kept for days, with locks.
 */
uint64
mosql_session_new_id(MosqlSession *session)
{
	expect_id(session);
	if (session->id_counter >= ID_COUNTER_MAX - (session->id_prefix == session->sid ? ROOT_IDS : 0))
	{
		uint64		schema;

		session->id_prefix = open_clock(session, MOSQL_PREFIX_LEASE_MS, &schema);
		session->id_counter = 0;
		push_number(session, &session->prefixes, &session->nprefixes, &session->maxprefixes,
					session->id_prefix);
	}
	return session->id_prefix << MOSQL_ID_COUNTER_BITS | ++session->id_counter;
}

/*
 * See txn.h.  The sweep takes a tree without a definition for garbage if who is in its root's name is dead.  That is to be the
 * session that decides, then: of a prefix's lease decide knows nothing.  (Who makes more trees than that under one id relies on
 * the prefix's lease.)
 */
uint64
mosql_session_new_root(MosqlSession *session)
{
	expect_id(session);
	if (session->root_counter >= ROOT_IDS)
		return mosql_session_new_id(session);
	return session->sid << MOSQL_ID_COUNTER_BITS | (ID_COUNTER_MAX - session->root_counter++);
}

/* ---- leftovers ---- */

void
mosql_session_leave_locks(MosqlSession *session)
{
	session->leaves_id = true;
}

void
mosql_session_add_drop(MosqlSession *session, uint64 n)
{
	Assert(n != 0 && n <= session->last_tx);
	push_number(session, &session->drops, &session->ndrops, &session->maxdrops, n);
}

/*
 * A record that is not dropped is maintenance's when the session has ended: so an error here
 * is none of the caller's.  The engine that has to look first does not while the process
 * exits, for an ERROR would be FATAL then.
 */
void
mosql_session_drop_records(MosqlSession *session, uint64 sid, const uint64 *ns, int n)
{
	MemoryContext caller = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount;

	if (n == 0 || (proc_exit_inprogress && session->stepper.engine == MOSQL_ENGINE_WATCH))
		return;
	PG_TRY();
	{
		mosql_clock_drop(&session->stepper, sid, ns, n);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		if (geterrcode() == ERRCODE_QUERY_CANCELED || geterrcode() == ERRCODE_ADMIN_SHUTDOWN)
			PG_RE_THROW();
		FlushErrorState();
		InterruptHoldoffCount = held;
	}
	PG_END_TRY();
}

/* The records of the session's own id that wait for the next decision. */
void
mosql_session_drop(MosqlSession *session)
{
	int			n = session->ndrops;

	session->ndrops = 0;
	mosql_session_drop_records(session, session->sid, session->drops, n);
}

/* breaks: of connections, before anything was done that made it garbage. */
void
mosql_session_add_garbage(MosqlSession *session, uint64 root, uint64 breaks)
{
	session->garbage_breaks = session->ngarbage == 0 ? breaks : Min(breaks, session->garbage_breaks);
	Assert(root >> MOSQL_ID_COUNTER_BITS != 0);	/* some session made it */
	push_number(session, &session->garbage, &session->ngarbage, &session->maxgarbage, root);
}

void
mosql_session_expect_garbage(MosqlSession *session, int n)
{
	expect_numbers(session, &session->garbage, &session->ngarbage, &session->maxgarbage, n);
}
