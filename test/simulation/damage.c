/*
 * damage.c: nodes of a tree are lost, or hold nonsense, and are made anew (btree/mend.c).
 *
 * At the end of a run, when all is in order: what is mended then is in order again, and
 * no row is gone but where the report says so, of nodes that were damaged.
 */
#include "work_int.h"

#include "access/xact.h"
#include "code/block.h"
#include "pgstub.h"
#include "step/clock_keep.h"

#define HURT_MAX	4000

typedef struct Hurt
{
	uint64		node;
	bool		lost;			/* all of it, but its meta perhaps; else some of its fields are nonsense */
	bool		no_block;		/* a leaf whose block is nonsense, or gone */
	bool		dead;			/* it was a signpost */
	bool		found;			/* a leaf of which something is left; then it has lost no rows but these: */
	int			ngone;
	MosqlBytes *gone;
	MosqlBytes	low;
	MosqlBytes	high;
} Hurt;

typedef struct Lost
{
	MosqlBytes	low;
	MosqlBytes	high;			/* data NULL: no end */
} Lost;

typedef struct Damage
{
	MosqlSession *session;
	int			tree;
	int			nhurt;
	Hurt		hurt[HURT_MAX];
	int			nlost;
	Lost		lost[HURT_MAX];
	int			nknown;
	MosqlKnownNode known[HURT_MAX];
	bool		dry_run;
} Damage;

static Damage *damage;			/* outside of the front-end's variables */

bool
damage_is_done(void)
{
	return damage != NULL;
}

/* ---- what goes wrong ---- */

static bool
is_of_tree(const SimKey *key, uint64 root, uint64 *node, MosqlNodeMeta *meta)
{
	MosqlBytes	m = sim_get(key, mosql_bytes("m", 1));

	return mosql_node_key_parse(key->name, "sim", node) && m.data != NULL &&
		mosql_meta_decode(m, meta) && meta->tree == root;
}

static void
lose_all(SimShard *shard, SimKey *key)
{
	while (key->n > 0)
		sim_put(shard, key, key->type, key->fields[key->n - 1].name, MOSQL_ABSENT);
}

/* Of a block that a load has written: what its rows are the leaf's meta says (code/loaded.h). */
static bool
is_bare(const MosqlNodeMeta *meta)
{
	return meta->loaded.since != 0 || meta->loaded.undone || meta->loaded.loader.session != 0;
}

/* The rows of a leaf's block are lost, but those that are fields as well. */
static void
note_block(Hurt *hurt, const SimKey *key)
{
	MosqlBlock	block;

	if (!mosql_block_decode(sim_get(key, mosql_bytes("b", 1)), &block))
		return;
	hurt->gone = block.keys;
	for (int i = 0; i < block.n; i++)
	{
		const char *field = psprintf("r%.*s", (int) block.keys[i].len, block.keys[i].data);

		if (sim_get(key, mosql_bytes(field, block.keys[i].len + 1)).data == NULL)
			hurt->gone[hurt->ngone++] = block.keys[i];
	}
}

/* Fields of some kind become nonsense, or are gone: some of the rows; else the one there is. */
static void
spoil(SimShard *shard, SimKey *key, char kind, Hurt *hurt)
{
	if (kind == 'r')
		hurt->gone = palloc(key->n * sizeof(MosqlBytes));
	for (int i = key->n - 1; i >= 0; i--)
	{
		MosqlBytes	field = key->fields[i].name;

		if (field.data[0] != kind || (kind == 'r' && !sim_chance(300)))
			continue;
		if (kind == 'r')
			hurt->gone[hurt->ngone++] = mosql_bytes_copy(TopTransactionContext, mosql_bytes(field.data + 1, field.len - 1));
		sim_put(shard, key, key->type, field,
				sim_chance(700) ? mosql_bytes("\1\2nonsense", 10) : kind == 'r' ? mosql_bytes("", 0) : MOSQL_ABSENT);
	}
}

/* Rows of a block that are nonsense beside it, as if they had been written since.  (That what the block has does not come back: test_mend.c.) */
static void
spoil_beside(SimShard *shard, SimKey *key, Hurt *hurt)
{
	int			n;

	note_block(hurt, key);
	n = hurt->ngone;
	hurt->ngone = 0;
	for (int i = 0; i < n; i++)
	{
		MosqlBytes	row = hurt->gone[i];

		if (!sim_chance(300))
			continue;
		hurt->gone[hurt->ngone++] = row;
		sim_put(shard, key, key->type, mosql_bytes(psprintf("r%.*s", (int) row.len, row.data), row.len + 1),
				mosql_bytes("\1\2nonsense", 10));
	}
}

static char
draw_kind(const SimKey *key, const MosqlNodeMeta *meta)
{
	if (meta->level > 0)
		return sim_chance(500) ? 's' : 'm';
	if (sim_get(key, mosql_bytes("b", 1)).data != NULL && sim_chance(300))
		return 'b';
	return sim_chance(500) ? 'r' : 'm';
}

static bool
has_meta_at_most(const SimKey *key)
{
	for (int i = 0; i < key->n; i++)
		if (strchr("mu", key->fields[i].name.data[0]) == NULL)
			return false;
	return true;
}

static void
hurt_node(SimShard *shard, SimKey *key, uint64 node, const MosqlNodeMeta *meta)
{
	bool		lost = sim_chance(400);
	char		kind = draw_kind(key, meta);
	Hurt	   *hurt = &damage->hurt[damage->nhurt];

	if (damage->nhurt == HURT_MAX)
		return;
	damage->nhurt++;
	*hurt = (Hurt) {.node = node, .lost = lost, .no_block = kind == 'b', .dead = meta->state == MOSQL_NODE_DEAD,
		.low = mosql_bytes_copy(TopTransactionContext, meta->low),
		.high = mosql_bytes_copy(TopTransactionContext, meta->high)};
	sim_trace("node %016lx is %s: %c", (unsigned long) node, lost ? "lost" : "spoilt", kind);
	if (kind == 'b' || (kind == 'm' && is_bare(meta)))
		note_block(hurt, key);
	if (lost)
		lose_all(shard, key);
	else if (kind == 'r' && sim_get(key, mosql_bytes("b", 1)).data != NULL)
		spoil_beside(shard, key, hurt);
	else
		spoil(shard, key, kind, hurt);
	hurt->lost |= has_meta_at_most(key);	/* an empty leaf, or a signpost */
}

static void
hurt_tree(int per_mille)
{
	for (int s = 0; s < sim_nshards; s++)
	{
		uint64		cursor = 0;
		SimKey	   *key;

		while ((key = sim_next_key(&sim_shards[s], &cursor)) != NULL)
		{
			uint64		node;
			MosqlNodeMeta meta;

			if (key->n > 0 && is_of_tree(key, work_roots[damage->tree], &node, &meta) && sim_chance(per_mille))
				hurt_node(&sim_shards[s], key, node, &meta);
		}
		sim_replicate(&sim_shards[s]);
	}
}

/* What is known of a node that was hurt; NULL: it was not. */
static Hurt *
find_hurt(uint64 node)
{
	for (int i = 0; i < damage->nhurt; i++)
		if (damage->hurt[i].node == node)
			return &damage->hurt[i];
	return NULL;
}

/* ---- what is half done: its maker has died ---- */

#define LEAVES_MAX	1000

typedef struct SoundLeaf
{
	SimShard   *shard;
	SimKey	   *key;
	uint64		node;
	MosqlNodeMeta meta;
} SoundLeaf;

/* Leaves whose rows say themselves what they are. */
static int
sound_leaves(SoundLeaf *leaves)
{
	int			n = 0;

	for (int s = 0; s < sim_nshards; s++)
	{
		SoundLeaf	leaf = {&sim_shards[s]};
		uint64		cursor = 0;

		while ((leaf.key = sim_next_key(leaf.shard, &cursor)) != NULL && n < LEAVES_MAX)
			if (leaf.key->n > 0 && is_of_tree(leaf.key, work_roots[damage->tree], &leaf.node, &leaf.meta) &&
				leaf.meta.level == 0 && (leaf.meta.state == MOSQL_NODE_NORMAL || leaf.meta.state == MOSQL_NODE_PACKED) &&
				!is_bare(&leaf.meta))
			{
				leaf.meta.low = mosql_bytes_copy(TopTransactionContext, leaf.meta.low);
				leaf.meta.high = mosql_bytes_copy(TopTransactionContext, leaf.meta.high);
				leaves[n++] = leaf;
			}
	}
	return n;
}

static void
set_meta(SoundLeaf *leaf)
{
	StringInfoData meta;

	initStringInfo(&meta);
	leaf->meta.generation += (uint64) 1 << 32;	/* not the first any more */
	mosql_meta_encode(&meta, &leaf->meta);
	sim_put(leaf->shard, leaf->key, 'h', mosql_bytes("m", 1), mosql_bytes_of(&meta));
}

static SimKey *
key_of_node(uint64 node, SimShard **shard)
{
	StringInfoData name;

	initStringInfo(&name);
	mosql_node_key(&name, "sim", node);
	*shard = &sim_shards[sim_slots[mosql_redis_slot(mosql_bytes_of(&name))]];
	return sim_key(*shard, mosql_bytes_of(&name), true);
}

/* It was being split: frozen, and the new leaf is nonsense.  Until the cut it has all rows itself. */
static bool
split_by_half(SoundLeaf *leaf)
{
	MosqlBytes	row = leaf->key->fields[sim_below(leaf->key->n)].name;
	SimShard   *shard;
	SimKey	   *new;

	row.data++, row.len--;
	if (leaf->meta.state != MOSQL_NODE_NORMAL || row.len == 0 || mosql_bytes_compare(row, leaf->meta.low) <= 0)
		return false;
	leaf->meta.state = MOSQL_NODE_SPLITTING;
	leaf->meta.split_key = row;
	leaf->meta.other = mosql_session_new_id(damage->session);
	set_meta(leaf);
	new = key_of_node(leaf->meta.other, &shard);
	sim_put(shard, new, 'h', mosql_bytes("m", 1), mosql_bytes("\1\2nonsense", 10));
	sim_trace("node %016lx is being split, and its new leaf is spoilt", (unsigned long) leaf->node);
	return true;
}

/* What a leaf holds becomes fields of another one; what is a field is newer than what its block has. */
static void
move_rows(SoundLeaf *to, const SoundLeaf *from)
{
	MosqlBlock	block;

	if (mosql_block_decode(sim_get(from->key, mosql_bytes("b", 1)), &block))
		for (int i = 0; i < block.n; i++)
			sim_put(to->shard, to->key, 'h', mosql_bytes(psprintf("r%.*s", (int) block.keys[i].len, block.keys[i].data),
														 block.keys[i].len + 1), block.rows[i]);
	for (int i = 0; i < from->key->n; i++)
		if (strchr("mb", from->key->fields[i].name.data[0]) == NULL)
			sim_put(to->shard, to->key, 'h', from->key->fields[i].name, from->key->fields[i].value);
}

/* Its right neighbour was merged into it, and is a signpost, or gone, but still linked.  (It had rows here, which have moved.) */
static void
merge_by_half(SoundLeaf *left, SoundLeaf *right)
{
	bool		lost = sim_chance(500);

	left->meta.high = right->meta.high;
	left->meta.right = right->meta.right;
	move_rows(left, right);
	set_meta(left);
	lose_all(right->shard, right->key);
	sim_trace("node %016lx was merged away, and is %s", (unsigned long) right->node, lost ? "lost" : "a signpost");
	if (lost)
	{
		damage->hurt[damage->nhurt++] = (Hurt) {.node = right->node, .lost = true, .dead = true,
			.low = right->meta.low, .high = right->meta.high};
		return;
	}
	right->meta.state = MOSQL_NODE_DEAD;
	right->meta.other = left->node;
	set_meta(right);
}

/* Who made a node by a split has died before he has linked it. */
static void
unlink_some(int per_mille)
{
	for (int s = 0; s < sim_nshards; s++)
	{
		uint64		cursor = 0;
		SimKey	   *key;

		while ((key = sim_next_key(&sim_shards[s], &cursor)) != NULL)
		{
			MosqlBytes	field = mosql_bytes("s", 1);
			uint64		node;
			MosqlNodeMeta meta;
			MosqlChild *children;
			StringInfoData separators;
			int			n;

			if (key->n == 0 || !is_of_tree(key, work_roots[damage->tree], &node, &meta) || meta.level == 0 ||
				!mosql_children_decode(sim_get(key, field), &children, &n) || n < 2 ||
				!sim_chance(per_mille))
				continue;
			n--;				/* any but the first */
			for (int i = 1 + (int) sim_below(n); i < n; i++)
				children[i] = children[i + 1];
			initStringInfo(&separators);
			mosql_children_encode(&separators, children, n);
			sim_put(&sim_shards[s], key, 'h', field, mosql_bytes_of(&separators));
		}
	}
}

static void
leave_half_done(void)
{
	SoundLeaf  *leaves = palloc(LEAVES_MAX * sizeof(SoundLeaf));
	int			n = sound_leaves(leaves);
	int			first = n > 0 ? (int) sim_below(n) : 0;
	int			merged = -1;

	for (int i = 0; i < n * n && merged < 0; i++)
		if (leaves[(first + i / n) % n].meta.right == leaves[i % n].node)
			merge_by_half(&leaves[(first + i / n) % n], &leaves[merged = i % n]);
	if (sim_chance(500))
		unlink_some(300);
	for (int tries = 0; tries < n; tries++)
	{
		int			i = (int) sim_below(n);

		if (i != merged && split_by_half(&leaves[i]))
			break;
	}
	for (int s = 0; s < sim_nshards; s++)
		sim_replicate(&sim_shards[s]);
}

/* ---- repair: as admin/repair_tree.c does it ---- */

static void
note_nodes(void *arg, const uint64 *nodes, int n)
{
	MosqlFieldRead *reads = palloc0(n * sizeof(MosqlFieldRead));
	MosqlBytes	fields[2] = {mosql_bytes("m", 1), mosql_bytes("s", 1)};
	MemoryContext page;

	for (int i = 0; i < n; i++)
		reads[i] = (MosqlFieldRead) {.node = nodes[i], .nfields = 2, .fields = fields};
	mosql_step_read_fields(mosql_session_stepper(damage->session), reads, n, NULL);
	page = MemoryContextSwitchTo(TopTransactionContext);
	for (int i = 0; i < n && damage->nknown < HURT_MAX; i++)
	{
		MosqlKnownNode *known = &damage->known[damage->nknown];
		MosqlNodeMeta meta;

		if (reads[i].values[0].data == NULL || !mosql_meta_decode(reads[i].values[0], &meta) ||
			meta.tree != work_roots[damage->tree])
			continue;
		*known = (MosqlKnownNode) {.node = nodes[i], .meta = meta, .nchildren = -1};
		known->meta.low = mosql_bytes_copy(TopTransactionContext, meta.low);
		known->meta.high = mosql_bytes_copy(TopTransactionContext, meta.high);
		known->meta.split_key = MOSQL_ABSENT;
		mosql_btree_known_children(known, mosql_bytes_copy(TopTransactionContext, reads[i].values[1]));
		damage->nknown++;
	}
	MemoryContextSwitchTo(page);
}

static const char *
row_fault(void *arg, MosqlBytes key, MosqlBytes row)
{
	MosqlHistory history;

	return mosql_history_decode(row, &history) ? NULL : "it does not decode";
}

/* Nobody knows the name of what the root alone has led to: it gets a new one. */
static bool
is_new(uint64 node)
{
	return mosql_session_uses_id(damage->session, node >> MOSQL_ID_COUNTER_BITS);
}

/*
 * A leaf whose meta is gone ends where a lost node is linked, even if that was the signpost of what it had absorbed:
 * its rows from there on go, too.
 */
static void
note_beyond(Hurt *hurt, MosqlBytes key)
{
	for (int i = 0; i < damage->nhurt; i++)
		if (damage->hurt[i].dead && mosql_bytes_compare(damage->hurt[i].low, hurt->low) > 0 &&
			mosql_bytes_compare(damage->hurt[i].low, key) <= 0)
		{
			MosqlBytes *gone = MemoryContextAlloc(TopTransactionContext, (hurt->ngone + 1) * sizeof(MosqlBytes));

			for (int g = 0; g < hurt->ngone; g++)
				gone[g] = hurt->gone[g];
			gone[hurt->ngone++] = mosql_bytes_copy(TopTransactionContext, key);
			hurt->gone = gone;
			return;
		}
}

static void
report(void *arg, MosqlMendKind kind, uint64 node, MosqlBytes low, MosqlBytes high, const char *fault)
{
	Lost	   *lost = &damage->lost[damage->nlost];
	Hurt	   *hurt = find_hurt(node);

	sim_trace("mended %d: node %016lx, from %.*s to %.*s: %s", kind, (unsigned long) node, (int) low.len, low.data,
			  (int) high.len, high.data, fault);
	if (kind == MOSQL_MEND_NOT)
		sim_fail("node %016lx is left alone: %s", (unsigned long) node, fault);
	if (hurt == NULL && kind <= MOSQL_MEND_INNER && !is_new(node))
		sim_fail("node %016lx is mended, and was sound", (unsigned long) node);
	if (hurt != NULL && kind == MOSQL_MEND_LOST && !hurt->lost && !hurt->no_block)
		sim_fail("node %016lx is said to be lost, and is not", (unsigned long) node);
	if (hurt != NULL && kind == MOSQL_MEND_LEAF && hurt->lost)
		sim_fail("node %016lx is said to have its sound rows, and nothing tells", (unsigned long) node);
	if (hurt != NULL && !hurt->lost)
		hurt->found |= kind == MOSQL_MEND_LEAF || kind == MOSQL_MEND_FIELD || kind == MOSQL_MEND_LOST;
	if (hurt != NULL && kind == MOSQL_MEND_FIELD && strcmp(fault, "a key beyond the fences") == 0)
		note_beyond(hurt, low);
	if (damage->dry_run || damage->nlost == HURT_MAX ||
		(kind != MOSQL_MEND_FIELD && kind != MOSQL_MEND_LEAF && kind != MOSQL_MEND_LOST && kind != MOSQL_MEND_LEFT))
		return;
	lost->low = mosql_bytes_copy(TopMemoryContext, low);
	if (kind == MOSQL_MEND_FIELD)	/* low is its key */
		high = mosql_bytes(psprintf("%.*s!", (int) low.len, low.data), low.len + 1);
	lost->high = mosql_bytes_copy(TopMemoryContext, high);
	damage->nlost++;
}

static int
mend(bool dry_run)
{
	MosqlMending how = {.dry_run = dry_run, .row_fault = row_fault, .report = report};

	damage->dry_run = dry_run;
	damage->nknown = 0;
	mosql_session_forget_paths(damage->session);
	mosql_session_visit_nodes(damage->session, note_nodes, NULL);
	return mosql_btree_mend(mosql_session_tree(damage->session, work_roots[damage->tree]), damage->known,
							damage->nknown, &how);
}

#define ROUNDS_MAX	10

static void
mend_all(void)
{
	for (int round = 0;; round++)
	{
		int			planned = mend(true);
		int			done = mend(false);

		if (planned != done)
			sim_fail("%d nodes would be mended, and %d are", planned, done);
		if (done == 0)
			return;
		if (round == ROUNDS_MAX)
			sim_fail("mending tree %d does not come to an end", damage->tree);
	}
}

/* ---- what a check says of it ---- */

static void
count_finding(void *arg, char severity, uint64 node, const char *what)
{
	sim_trace("found %c: node %016lx: %s", severity, (unsigned long) node, what);
	++*(int *) arg;
}

static void
check_leaf(void *arg, const MosqlLeaf *leaf)
{
	mosql_txn_check_leaf(damage->session, leaf, count_finding, arg);
}

static int
findings(void)
{
	int			n = 0;

	mosql_session_forget_paths(damage->session);
	mosql_btree_check(mosql_session_tree(damage->session, work_roots[damage->tree]), count_finding, check_leaf, &n);
	return n;
}

/* ---- what is left ---- */

static bool
is_within(MosqlBytes key, MosqlBytes low, MosqlBytes high)
{
	return mosql_bytes_compare(low, key) <= 0 && (high.data == NULL || mosql_bytes_compare(key, high) < 0);
}

static bool
is_gone(const Hurt *hurt, MosqlBytes key)
{
	for (int i = 0; i < hurt->ngone; i++)
		if (mosql_bytes_equal(hurt->gone[i], key))
			return true;
	return false;
}

/*
 * A leaf keeps what is sound of it; but if it is made anew and nobody knows where it has ended, it now covers what was
 * lost behind it, too.
 */
static bool
may_be_gone(MosqlBytes key)
{
	for (int i = 0; i < damage->nhurt; i++)
	{
		const Hurt *hurt = &damage->hurt[i];

		if (hurt->found && is_within(key, hurt->low, hurt->high) && !is_gone(hurt, key))
			return false;
	}
	for (int i = 0; i < damage->nlost; i++)
		if (is_within(key, damage->lost[i].low, damage->lost[i].high))
			return true;
	return false;
}

static void
report_finding(void *arg, char severity, uint64 node, const char *what)
{
	if (severity == 'E')
		sim_fail("tree %d is mended, and at node %016lx: %s", damage->tree, (unsigned long) node, what);
}

static void
read_rows(void)
{
	MosqlTxn   *txn = mosql_txn_current(damage->session);
	MosqlView  *view = mosql_view_open(txn, damage, 1, false);
	MosqlTimestamp S = mosql_view_snapshot(view);

	for (int key = 0; key < work_keys(damage->tree); key++)
	{
		MosqlBytes	bytes = work_key(damage->tree, key);
		MosqlRow	stored = {0};
		Row			row;

		mosql_view_get(view, mosql_session_tree(damage->session, work_roots[damage->tree]), &bytes, 1, &stored);
		row = work_row(&stored);
		if (!row_equal(row, oracle_stored(damage->tree, key, S)) && (row.live || !may_be_gone(bytes)))
			sim_fail("tree %d was mended, and its row %d is not as it was: %d", damage->tree, key, row.live);
	}
	mosql_view_close(view);
}

static void
damage_tree(SimFrontEnd *self, int tree)
{
	damage = calloc(1, sizeof(Damage));
	damage->tree = tree;
	damage->session = work_session("sim");
	sim_begin(XACT_REPEATABLE_READ);
	MemoryContextSwitchTo(TopTransactionContext);
	(void) mosql_txn_current(damage->session);
	if (sim_chance(700))
		leave_half_done();
	hurt_tree((int) sim_between(20, 600));
	if (findings() == 0 && mend(true) > 0)
		sim_fail("tree %d is damaged, and nothing is found", damage->tree);
	mend_all();
	mosql_btree_check(mosql_session_tree(damage->session, work_roots[damage->tree]), report_finding, NULL, NULL);
	read_rows();
	(void) sim_transaction(self, true);
	mosql_session_close(damage->session);
	free(damage);
}

/* Everybody has ended, and all is in order. */
void
damage_trees(SimFrontEnd *self)
{
	for (int tree = 0; tree < TREE_INDEX; tree++)
		damage_tree(self, tree);
}

/* ---- the clock ---- */

/* As admin/repair_tree.c has it. */
#define SPARE_US			2000000

static SimKey *
clock_key(const char *name, SimShard **shard)
{
	SimKey	   *key = NULL;

	for (int s = 0; s < sim_nshards && (key == NULL || key->n == 0); s++)
		key = sim_key(*shard = &sim_shards[s], mosql_bytes(name, strlen(name)), false);
	return key;
}

static void
set_field(const char *key_name, const char *field, const char *value)
{
	SimShard   *shard;
	SimKey	   *key = clock_key(key_name, &shard);

	if (key == NULL || key->n == 0)
		return;
	sim_put(shard, key, key->type, mosql_bytes(field, strlen(field)),
			value != NULL ? mosql_bytes(value, strlen(value)) : MOSQL_ABSENT);
	sim_replicate(shard);
}

/* Some of the counters are gone, or nonsense; and another key of the clock's holds something else. */
static void
hurt_clock(void)
{
	static const char *const fields[] = {"last", "sid", "schema", "format", "leapt", "took"};
	static const char *const others[] = {"sim:{sim.clock}:e", "sim:{sim.clock}:p"};
	const char *other = others[sim_below(lengthof(others))];
	SimShard   *shard;
	SimKey	   *key;

	for (int i = 0; i < lengthof(fields); i++)
		if (sim_chance(600))
			set_field("sim:{sim.clock}:c", fields[i], sim_chance(500) ? "nonsense" : NULL);
	if (sim_chance(300) && (key = clock_key(other, &shard)) != NULL)
	{
		lose_all(shard, key);
		sim_put(shard, key, 's', mosql_bytes("nonsense", 8), mosql_bytes("", 0));
		sim_replicate(shard);
	}
}

/* As admin/repair_tree.c does it, which looks for the highest in all nodes: here the oracle knows. */
static void
rebuild_clock(MosqlStepper *clock)
{
	MosqlClockState was;
	MosqlClockState least;
	MosqlClockState now;

	mosql_clock_read_state(clock, &was);
	least = was;
	least.last = Max(Max(was.last, was.now), oracle_moment(TREE_MAIN)) + SPARE_US;
	least.sid = Max(was.sid, sim_sessions_highest()) + 1000;
	least.schema = Max(was.schema + 1, least.last);
	mosql_clock_rebuild(clock, &least);
	mosql_clock_read_state(clock, &now);
	if (!now.there || now.last < least.last || now.sid < least.sid || now.schema < least.schema)
		sim_fail("the clock was made anew, and stands at " UINT64_FORMAT, now.last);
}

/* Of a later program's clock nothing is changed. */
static bool
is_refused(MosqlStepper *clock, bool rebuild)
{
	volatile bool refused = false;

	PG_TRY();
	{
		if (rebuild)
			mosql_clock_rebuild(clock, &(MosqlClockState) {.last = MOSQL_TS_MAX / 2});
		else
			mosql_clock_check_format(clock);
	}
	PG_CATCH();
	{
		pgstub_error_take();
		refused = pgstub_error.sqlstate == ERRCODE_FEATURE_NOT_SUPPORTED;
	}
	PG_END_TRY();
	return refused;
}

static bool
write_a_row(SimFrontEnd *self, MosqlSession *session)
{
	Work		work = {.session = session};
	Client		client = {&work, .session = session};
	MosqlRow	stored = {0};
	Row			row;

	work_begin(&client, MOSQL_READ_COMMITTED);
	client.txn = mosql_txn_current(session);
	row = work_read_row(&client, TREE_PLAIN, 0, &stored);
	client.cid++;
	if (row.live)
		work_update_row(&client, TREE_PLAIN, 0, &stored, row);
	else
		insert_row(&client, TREE_PLAIN, 0, MOSQL_KEY_MAY_EXIST);
	return work_end(self, &client, true);
}

/* Everybody has ended.  Who comes then finds all rows, and writes: ids and times go on (oracle.c). */
void
damage_clock(SimFrontEnd *self)
{
	MosqlSession *session = work_session("sim");
	MosqlStepper *clock = mosql_session_stepper(session);
	SimShard   *shard;
	MosqlBytes	format;
	int			attempts = 0;

	sim_begin(XACT_READ_COMMITTED);
	MemoryContextSwitchTo(TopTransactionContext);
	(void) mosql_txn_current(session);
	hurt_clock();
	rebuild_clock(clock);
	format = sim_get(clock_key("sim:{sim.clock}:c", &shard), mosql_bytes("format", 6));
	format = mosql_bytes_copy(TopTransactionContext, format);
	set_field("sim:{sim.clock}:c", "format", "9999");
	if (!is_refused(clock, false) || !is_refused(clock, true))
		sim_fail("a clock of another format is not refused");
	set_field("sim:{sim.clock}:c", "format", pnstrdup(format.data, format.len));
	(void) sim_transaction(self, true);
	mosql_session_close(session);
	session = work_session("sim");
	work_read_all(self, session);
	/* a server that has restarted before may show only now, and make one fail */
	while (!write_a_row(self, session))
		if (++attempts > sim_nservers)
			sim_fail("with a clock that was made anew: %s", pgstub_error.message);
	mosql_session_close(session);
}
