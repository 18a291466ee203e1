/*
 * sweep.c: deleting the nodes of a namespace that nobody can reach.
 *
 * Layer: txn.  SCAN names all nodes, in pages; each says in its meta where it
 * should be, and there we look (btree/stray.c).  So memory is bounded by a page and
 * the list of trees, however large the database is.  There are
 *
 *   signposts   dead nodes that a merge left behind.  Unlinked once more, then
 *               marked with the newest session id (field 'u') and the time;
 *               deleted when all sessions up to that id have ended and
 *               mosql_fdw.signpost_retention has passed.  btree/README.md,
 *               "Signposts", has the argument.
 *   strays      that died with a split in the middle, or came too late for it
 *   orphans    whole trees that no definition names.  What was never anybody's goes at
 *               once: CREATE TABLE rolled back by a crash, or a tree whose destruction
 *               has begun.  (What DROP and TRUNCATE leave behind is on a list: garbage.c.)  What is left had a definition, says
 *               the label of its root (src/table/label.c), or its root is lost: data
 *               that somebody may want back.  It is noted at the clock, not touched,
 *               and destroyed when mosql_fdw.orphan_retention is over.
 *
 * What a living session has made is left alone: it may be about to make it part of
 * something.  The prefix of a root's id is the id of the session that made it, which is asked for when that
 * commits; of another node's that, or another one that lives for long enough (session.c).
 *
 * Race -- tables come and go meanwhile.  Liveness is asked first, then the caller
 * lists the definitions, then comes the scan.  Take a tree that is swept as an
 * orphan: its root was made by a session that was dead when we asked, so it was not
 * part of a transaction that could still commit (decide refuses a dead session, and
 * a transaction that made a tree under an id that it no longer has fails); if it had
 * committed before, its definition was listed, unless it was dropped since.  A
 * table made by a living session is not looked at, whether listed or not.
 *
 * Race -- a tree is made, committed, and its session dies before it is labelled; its
 * definition is lost before maintenance, which labels all trees that are defined before
 * it sweeps, comes by.  Two faults within a minute: then it goes.
 *
 * Race -- the definitions are read from a primary that was replaced and does not know:
 * a table that was created since would count as an orphan.  Where copies are waited for,
 * the definitions' leaves are confirmed before the caller lists them (rule 18).
 *
 * Race -- strays that are about to become part of a tree by a split of a session that
 * only seems to be dead: btree/stray.c makes sure that they cannot.
 */
#include "postgres.h"

#include "utils/hsearch.h"
#include "utils/timestamp.h"

#include "step/clock_keep.h"
#include "txn/recover.h"

int			mosql_txn_signpost_retention_ms = MOSQL_SIGNPOST_RETENTION_MS;
int			mosql_txn_orphan_retention_s = MOSQL_ORPHAN_RETENTION_S;

/* Keys that one SCAN looks at, and room for its cursor. */
#define SCAN_PAGE			"500"
#define SCAN_CURSOR_BYTES	32

/* Session prefixes begin here; smaller ids are those of fixed roots. */
#define FIRST_DRAWN_ID		(UINT64CONST(1) << MOSQL_ID_COUNTER_BITS)

/* The value of 'u': newest session id when the node was unlinked, and the time. */
#define UNLINKED_BYTES		16

struct MosqlSweep
{
	MosqlSession *session;
	MemoryContext cxt;
	MemoryContext page;
	uint64		breaks;			/* of connections, before anything was read */
	MosqlSessions sessions;		/* who lived when we began */
	uint64		oldest_other;	/* not counting ourselves, who begin with empty caches */
	int			nroots;
	uint64	   *roots;			/* ascending */
	HTAB	   *unnamed;		/* Unnamed, by root: noted before, or found now */
	MosqlTimestamp now;			/* by the clock, when we began */
	MosqlDestroyMore more;		/* of the call at hand: shall trees go on being destroyed? */
	void	   *arg;
	int			primary;
	char		cursor[SCAN_CURSOR_BYTES];
};

/* A tree that no definition names, and that is kept for a time. */
typedef struct Unnamed
{
	MosqlUnnamedTree tree;		/* the root is the key; nodes: found by this sweep */
	bool		is_new;			/* found first by this sweep */
	bool		labelled;
} Unnamed;

/* What became of the root of a tree. */
typedef enum RootState
{
	ROOT_ALIVE,
	ROOT_LABELLED,				/* alive, and it had a definition once */
	ROOT_DEAD,					/* its tree is being destroyed */
	ROOT_MISSING,
	ROOT_DAMAGED
} RootState;

/* A node of a page. */
typedef struct Found
{
	uint64		node;
	MosqlNodeMeta meta;
	MosqlBytes	unlinked;
} Found;

/* What a page comes to. */
typedef struct Page
{
	const MosqlSweep *sweep;
	MosqlSession *session;
	uint64		breaks;			/* of connections, before the sweep read anything */
	int			n;
	Found	   *found;
	int			ndeletes;
	uint64	   *deletes;
	int			nmarks;
	Found	  **marks;			/* unlinked now */
	MosqlTree  *tree;			/* of the node at hand; of our own if not known */
	bool		own;
	bool		destroyed;		/* all of that tree */
	RootState	root;			/* of that tree */
} Page;

static uint64
oldest_of(const MosqlSessions *sessions, uint64 except)
{
	for (int i = 0; i < sessions->n; i++)
		if (sessions->live[i] != except)
			return sessions->live[i];
	return sessions->newest + 1;
}

/* Kept for so long, unless somebody names it. */
static uint64
retention_us(void)
{
	return (uint64) mosql_txn_orphan_retention_s * 1000000;
}

/*
 * What earlier sweeps have noted; of a time to come, when the server's time was ahead: as of now.  Not if it is a little: then the time
 * is behind, perhaps, and to be set right, and somebody may want it back that long.
 */
static void
read_unnamed(MosqlSweep *sweep)
{
	HASHCTL		ctl = {.keysize = sizeof(uint64),.entrysize = sizeof(Unnamed),.hcxt = sweep->cxt};
	MosqlUnnamedTree *trees;
	int			n = mosql_clock_unnamed(&sweep->session->stepper, &trees, &sweep->now);

	sweep->unnamed = hash_create("mosql unnamed trees", 64, &ctl,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (int i = 0; i < n; i++)
	{
		Unnamed    *entry = hash_search(sweep->unnamed, &trees[i].root, HASH_ENTER, NULL);

		*entry = (Unnamed) {.tree = trees[i]};
		if (entry->tree.since > sweep->now + retention_us())
			entry->tree.since = sweep->now;
		entry->tree.nodes = 0;
	}
}

/* See txn.h. */
MosqlSweep *
mosql_sweep_begin(MosqlSession *session)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "mosql sweep",
											  ALLOCSET_DEFAULT_SIZES);
	MosqlSweep *sweep = MemoryContextAllocZero(cxt, sizeof(MosqlSweep));
	MemoryContext old = MemoryContextSwitchTo(cxt);

	sweep->session = session;
	sweep->breaks = mosql_redis_breaks(session->redis);
	sweep->cxt = cxt;
	sweep->page = AllocSetContextCreate(cxt, "mosql sweep page", ALLOCSET_DEFAULT_SIZES);
	strlcpy(sweep->cursor, "0", sizeof(sweep->cursor));
	mosql_clock_sessions(&session->stepper, &sweep->sessions);
	sweep->oldest_other = oldest_of(&sweep->sessions, session->sid);
	read_unnamed(sweep);
	mosql_session_forget_paths(session);
	if (session->stepper.durable &&
		mosql_btree_exists(&session->store.store, MOSQL_CATALOG_ROOT))
		mosql_recover_confirm(session, mosql_session_tree(session, MOSQL_CATALOG_ROOT));
	MemoryContextSwitchTo(old);
	return sweep;
}

/* See txn.h. */
void
mosql_sweep_roots(MosqlSweep *sweep, const uint64 *roots, int n)
{
	sweep->roots = MemoryContextAllocHuge(sweep->cxt, n * sizeof(uint64) + 1);
	sweep->nroots = n;
	memcpy(sweep->roots, roots, n * sizeof(uint64));
	qsort(sweep->roots, n, sizeof(uint64), mosql_uint64_compare);
}

void
mosql_sweep_end(MosqlSweep *sweep)
{
	MemoryContextDelete(sweep->cxt);
}

/* ---- who and what ---- */

/* Is this the root of a tree that is there to stay? */
static bool
is_known_root(const MosqlSweep *sweep, uint64 root)
{
	return root < FIRST_DRAWN_ID ||
		bsearch(&root, sweep->roots, sweep->nroots, sizeof(uint64),
				mosql_uint64_compare) != NULL;
}

/* Was it made by a session that is dead? */
static bool
is_abandoned(const MosqlSweep *sweep, uint64 node)
{
	return node >= FIRST_DRAWN_ID &&
		mosql_clock_is_dead(&sweep->sessions, node >> MOSQL_ID_COUNTER_BITS);
}

/* May a signpost with this mark go? */
static bool
is_forgotten(const MosqlSweep *sweep, MosqlBytes unlinked)
{
	int64		now_us = GetCurrentTimestamp();
	uint64		newest = 0;
	uint64		since_us = 0;

	if (unlinked.len != UNLINKED_BYTES)
		return false;
	for (int i = 0; i < 8; i++)
	{
		newest = newest << 8 | (uint8) unlinked.data[i];
		since_us = since_us << 8 | (uint8) unlinked.data[8 + i];
	}
	return newest < sweep->oldest_other &&
		now_us - (int64) since_us >= (int64) mosql_txn_signpost_retention_ms * 1000;
}

/* ---- one page ---- */

/*
 * The names of the next nodes of a Redis primary.  cursor is "0" at first, and again after
 * the last page.  One round trip.
 */
static int
scan_nodes(MosqlSession *session, int primary, char *cursor, uint64 **nodes)
{
	StringInfoData pattern;
	MosqlBytes	argv[6];
	MosqlBatch *batch;
	const MosqlReply *reply;
	const MosqlReply *keys;
	int			group;
	int			n = 0;

	initStringInfo(&pattern);
	mosql_node_key_pattern(&pattern, session->config.ns);
	argv[0] = mosql_bytes("SCAN", 4);
	argv[1] = mosql_bytes(cursor, strlen(cursor));
	argv[2] = mosql_bytes("MATCH", 5);
	argv[3] = mosql_bytes_of(&pattern);
	argv[4] = mosql_bytes("COUNT", 5);
	argv[5] = mosql_bytes(SCAN_PAGE, strlen(SCAN_PAGE));
	batch = mosql_batch_create(session->redis, CurrentMemoryContext);
	group = mosql_batch_add_to_primary(batch, primary, MOSQL_SEND_REPEATABLE, 6, argv);
	mosql_batch_run(batch, NULL);
	reply = mosql_batch_reply(batch, group, 0);
	mosql_reply_check(reply, "SCAN");
	if (reply->kind != MOSQL_REPLY_ARRAY || reply->n != 2 ||
		reply->elem[0]->kind != MOSQL_REPLY_STRING ||
		reply->elem[0]->str.len >= SCAN_CURSOR_BYTES ||
		reply->elem[1]->kind != MOSQL_REPLY_ARRAY)
		elog(ERROR, "SCAN was answered by something else than a cursor and keys");

	keys = reply->elem[1];
	*nodes = palloc(Max(keys->n, 1) * sizeof(uint64));
	for (int i = 0; i < keys->n; i++)
		if (keys->elem[i]->kind == MOSQL_REPLY_STRING &&
			mosql_node_key_parse(keys->elem[i]->str, session->config.ns, *nodes + n))
			n++;
	strlcpy(cursor, pnstrdup(reply->elem[0]->str.data, reply->elem[0]->str.len),
			SCAN_CURSOR_BYTES);
	return n;
}

/* See txn.h. */
void
mosql_session_visit_nodes(MosqlSession *session, MosqlVisitNodes visit, void *arg)
{
	MemoryContext page = AllocSetContextCreate(CurrentMemoryContext, "mosql nodes",
											   ALLOCSET_DEFAULT_SIZES);
	int			nprimaries = mosql_redis_primary_count(session->redis);
	char		cursor[SCAN_CURSOR_BYTES];

	for (int i = 0; i < nprimaries; i++)
	{
		strlcpy(cursor, "0", sizeof(cursor));
		do
		{
			MemoryContext old = MemoryContextSwitchTo(page);
			uint64	   *nodes;
			int			n = scan_nodes(session, i, cursor, &nodes);

			CHECK_FOR_INTERRUPTS();
			if (n > 0)
				visit(arg, nodes, n);
			MemoryContextSwitchTo(old);
			MemoryContextReset(page);
		} while (strcmp(cursor, "0") != 0);
	}
	MemoryContextDelete(page);
}

static int
compare_found(const void *a, const void *b)
{
	const Found *x = a;
	const Found *y = b;

	if (x->meta.tree != y->meta.tree)
		return x->meta.tree < y->meta.tree ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

/* Their metas; damaged ones are the business of mosql_fdw_check(). */
static void
read_page(MosqlSweep *sweep, Page *page, const uint64 *nodes, int n)
{
	MosqlFieldRead *reads = palloc0(n * sizeof(MosqlFieldRead) + 1);
	static const char unlinked = MOSQL_FIELD_UNLINKED;
	MosqlBytes	fields[2];

	fields[0] = MOSQL_META_FIELD;
	fields[1] = mosql_bytes(&unlinked, 1);
	for (int i = 0; i < n; i++)
		reads[i] = (MosqlFieldRead)
	{
		.node = nodes[i], .nfields = 2, .fields = fields
	};
	if (n > 0)
		mosql_step_read_fields(&sweep->session->stepper, reads, n, NULL);
	page->found = palloc(n * sizeof(Found) + 1);
	for (int i = 0; i < n; i++)
	{
		Found	   *found = &page->found[page->n];

		*found = (Found) {.node = nodes[i], .unlinked = reads[i].values[1]};
		if (reads[i].values[0].data != NULL && mosql_meta_decode(reads[i].values[0], &found->meta))
			page->n++;
	}
	qsort(page->found, page->n, sizeof(Found), compare_found);
}

static RootState
look_at_root(MosqlSession *session, uint64 root)
{
	static const char label = MOSQL_FIELD_LABEL;
	MosqlBytes	fields[2];
	MosqlFieldRead read = {.node = root,.nfields = 2,.fields = fields};
	MosqlNodeMeta meta;

	fields[0] = MOSQL_META_FIELD;
	fields[1] = mosql_bytes(&label, 1);
	mosql_step_read_fields(&session->stepper, &read, 1, NULL);
	if (read.values[0].data == NULL)
		return read.values[1].data == NULL ? ROOT_MISSING : ROOT_DAMAGED;
	if (!mosql_meta_decode(read.values[0], &meta))
		return ROOT_DAMAGED;
	if (meta.state == MOSQL_NODE_DEAD)
		return ROOT_DEAD;
	return read.values[1].data == NULL ? ROOT_ALIVE : ROOT_LABELLED;
}

/* Make a tree the one at hand. */
static void
open_tree(MosqlSweep *sweep, Page *page, uint64 root)
{
	MosqlSession *session = sweep->session;

	if (page->tree != NULL && mosql_btree_root(page->tree) == root)
		return;
	if (page->own)
		mosql_btree_close(page->tree);
	page->own = !is_known_root(sweep, root);
	page->tree = page->own ? mosql_btree_open(&session->store.store, root, CurrentMemoryContext) :
		mosql_session_tree(session, root);
	page->root = look_at_root(session, root);
}

/*
 * A node of a tree that no definition names, and whose maker is dead: is it to be left
 * alone for now?  Notes the tree, if so.
 */
static bool
is_kept(MosqlSweep *sweep, uint64 root, RootState state)
{
	bool		found;
	Unnamed    *entry;

	/* one that was noted is kept as it was, should its root have been made anew since */
	if (state == ROOT_DEAD ||
		(state == ROOT_ALIVE && hash_search(sweep->unnamed, &root, HASH_FIND, NULL) == NULL))
		return false;
	entry = hash_search(sweep->unnamed, &root, HASH_ENTER, &found);
	if (!found)
		*entry = (Unnamed) {.tree = {.root = root,.since = sweep->now},.is_new = true};
	entry->labelled = state == ROOT_LABELLED || state == ROOT_ALIVE;
	if (sweep->now >= entry->tree.since + retention_us())
		return false;
	entry->tree.nodes++;
	return true;
}

static void
destroy_now(void *arg)
{
	Page	   *page = arg;

	page->destroyed = mosql_btree_destroy(page->tree, page->sweep->more, page->sweep->arg);
}

/*
 * A MosqlTreeWork.  That no definition names the tree was read when the sweep began: as with
 * single nodes (delete_page).
 */
static void
destroy_tree(void *arg)
{
	const Page *page = arg;

	mosql_session_do_unbroken(page->session, page->breaks, destroy_now, arg);
}

/*
 * A tree is destroyed from its root, which is damaged, or something that it leads to: then
 * the root alone goes, and its nodes as those of trees whose root is missing.
 */
static void
delete_ruined(Page *page, Unnamed *entry)
{
	page->deletes[page->ndeletes++] = entry->tree.root;
	page->root = ROOT_MISSING;
	entry->tree.nodes++;		/* listed for as long as there are any */
}

/* The root of the tree at hand, which is alive: nobody finds his way from there any more. */
static void
kill_now(void *arg)
{
	Page	   *page = arg;
	MosqlKilled killed;

	mosql_btree_kill(&page->tree, 1, &killed);
	if (killed != MOSQL_KILL_DAMAGED)
		page->root = killed == MOSQL_KILLED ? ROOT_DEAD : ROOT_MISSING;
}

/*
 * A node of such a tree that its root may lead to, and that goes before it does: the root is dead first.  Else whoever comes by (an
 * orphan's helper, a reader who knows an old definition) would take for damage what the sweep has begun and somebody else is to end.
 */
static void
delete_below(Page *page, uint64 node)
{
	if (page->root == ROOT_ALIVE || page->root == ROOT_LABELLED)
		mosql_session_do_unbroken(page->session, page->breaks, kill_now, page);
	page->deletes[page->ndeletes++] = node;
}

/* A node of such a tree that is not left alone. */
static void
judge_unnamed(MosqlSweep *sweep, Page *page, const Found *found, MosqlVacuumCounts *counts)
{
	Unnamed    *entry;
	const char *damage;
	bool		known;

	if (found->meta.tree != found->node)
	{
		if (page->root == ROOT_DAMAGED)
			delete_ruined(page, hash_search(sweep->unnamed, &found->meta.tree, HASH_FIND, NULL));
		/* the root's destruction does not find what was not linked yet, and needs none of them */
		if (is_abandoned(sweep, found->node))
			delete_below(page, found->node);
		return;					/* else it goes with the root */
	}
	entry = hash_search(sweep->unnamed, &found->node, HASH_ENTER, &known);
	if (!known)
		*entry = (Unnamed) {.tree = {.root = found->node}};
	if (mosql_session_try_tree_damage(destroy_tree, page, &damage) == MOSQL_TREE_DAMAGED)
	{
		if (!known)
			entry->tree.since = sweep->now;
		delete_ruined(page, entry);
		return;
	}
	if (!page->destroyed)
	{
		page->root = ROOT_DEAD;	/* the rest is for the next sweep */
		return;
	}
	page->root = ROOT_MISSING;
	/* since 0: what this sweep has read of it before is not kept */
	*entry = (Unnamed) {.tree = {.root = found->node}};
	counts->trees_destroyed++;
}

/* What becomes of one node. */
static void
judge(MosqlSweep *sweep, Page *page, Found *found, MosqlVacuumCounts *counts)
{
	const MosqlNodeMeta *meta = &found->meta;

	if (is_known_root(sweep, found->node))
		return;
	if (!is_known_root(sweep, meta->tree))
	{
		if (!is_abandoned(sweep, meta->tree))
			return;				/* being made */
		open_tree(sweep, page, meta->tree);
		if (!is_kept(sweep, meta->tree, page->root))
			judge_unnamed(sweep, page, found, counts);
		return;
	}
	open_tree(sweep, page, meta->tree);
	if (page->root != ROOT_ALIVE && page->root != ROOT_LABELLED)
		return;					/* Redis has lost the root: a damage, not garbage */
	if (meta->state == MOSQL_NODE_DEAD && found->unlinked.data != NULL)
	{
		if (is_forgotten(sweep, found->unlinked))
			page->deletes[page->ndeletes++] = found->node;
		return;
	}
	if (meta->state != MOSQL_NODE_DEAD && meta->state != MOSQL_NODE_DYING &&
		!is_abandoned(sweep, found->node))
		return;
	switch (mosql_btree_examine(page->tree, found->node, meta))
	{
		case MOSQL_NODE_USED:
			break;
		case MOSQL_NODE_UNLINKED:
			page->marks[page->nmarks++] = found;
			break;
		case MOSQL_NODE_UNREACHABLE:
			page->deletes[page->ndeletes++] = found->node;
			break;
	}
}

/*
 * A tree that is gone by now, or damaged, must not keep the sweep from the others;
 * for the latter there is mosql_fdw_check().
 */
static void
judge_safely(MosqlSweep *sweep, Page *page, Found *found, MosqlVacuumCounts *counts)
{
	MemoryContext caller = CurrentMemoryContext;
	uint32		held = InterruptHoldoffCount;

	PG_TRY();
	{
		judge(sweep, page, found, counts);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		if (geterrcode() != ERRCODE_UNDEFINED_TABLE && geterrcode() != ERRCODE_DATA_CORRUPTED)
			PG_RE_THROW();
		FlushErrorState();
		InterruptHoldoffCount = held;
	}
	PG_END_TRY();
}

/*
 * Note on the signposts that were unlinked which sessions may know them.  These are
 * asked for now: whoever draws an id later has never met them.
 */
static void
mark_unlinked(MosqlSweep *sweep, Page *page)
{
	static const char unlinked = MOSQL_FIELD_UNLINKED;
	MosqlStep **steps = palloc(page->nmarks * sizeof(MosqlStep *) + 1);
	MosqlSessions sessions;
	StringInfoData value;
	MosqlWrite	write;

	if (page->nmarks == 0)
		return;
	MOSQL_DEBUG_POINT("sweep-unlinked");
	mosql_clock_sessions(&sweep->session->stepper, &sessions);
	initStringInfo(&value);
	appendBinaryStringInfo(&value, mosql_generation_bytes(sessions.newest).data, 8);
	appendBinaryStringInfo(&value, mosql_generation_bytes((uint64) GetCurrentTimestamp()).data, 8);
	write = (MosqlWrite) {MOSQL_WRITE_SET, mosql_bytes(&unlinked, 1), mosql_bytes_of(&value)};
	for (int i = 0; i < page->nmarks; i++)
	{
		MosqlStep  *step = steps[i] = palloc0(sizeof(MosqlStep));

		/* a dead node does not change any more, but it may be deleted by now */
		step->node = page->marks[i]->node;
		step->repeatable = true;
		step->compares = palloc0(2 * sizeof(MosqlCompare));
		mosql_step_expect(step, MOSQL_COMPARE_EQUAL, MOSQL_META_FIELD, 0,
						  mosql_generation_bytes(page->marks[i]->meta.generation));
		mosql_step_expect(step, MOSQL_COMPARE_ABSENT, write.field, 0, MOSQL_ABSENT);
		step->writes = &write;
		step->nwrites = 1;
	}
	mosql_step_run(&sweep->session->stepper, steps, page->nmarks, NULL);
}

/*
 * By what was read since the sweep began: definitions, paths.  A server that has forgotten
 * the latest may name these nodes again: then the sweep fails, and the next one looks anew.
 */
static void
delete_page(void *arg)
{
	const Page *page = arg;

	mosql_step_delete_nodes(&page->session->stepper, page->deletes, page->ndeletes, NULL);
}

static void
sweep_page(MosqlSweep *sweep, MosqlVacuumCounts *counts)
{
	Page		page = {.sweep = sweep,.session = sweep->session,.breaks = sweep->breaks};
	uint64	   *nodes;
	int			n = scan_nodes(sweep->session, sweep->primary, sweep->cursor, &nodes);

	read_page(sweep, &page, nodes, n);
	page.deletes = palloc(2 * page.n * sizeof(uint64) + 1);	/* each, and the root of each */
	page.marks = palloc(page.n * sizeof(Found *) + 1);
	for (int i = 0; i < page.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		judge_safely(sweep, &page, &page.found[i], counts);
	}
	mark_unlinked(sweep, &page);
	MOSQL_DEBUG_POINT("sweep-judged");
	if (page.ndeletes > 0)
		mosql_session_do_unbroken(sweep->session, sweep->breaks, delete_page, &page);
	counts->nodes_scanned += n;
	counts->nodes_deleted += page.ndeletes;
	if (page.own)
		mosql_btree_close(page.tree);
}

/*
 * All keys were looked at: note the trees that are kept, forget those that are gone or
 * have a name again.  A lost definition is told once, by the second sweep that misses it: the
 * first may have come by while a DROP was committed, and its tree was neither dead nor on the
 * list of garbage yet.
 */
static void
note_unnamed(MosqlSweep *sweep)
{
	long		max = hash_get_num_entries(sweep->unnamed);
	MosqlUnnamedTree *trees = palloc(Max(max, 1) * sizeof(MosqlUnnamedTree));
	uint64	   *gone = palloc(Max(max, 1) * sizeof(uint64));
	HASH_SEQ_STATUS scan;
	Unnamed    *entry;
	int			n = 0;
	int			ngone = 0;
	int			nlost = 0;

	hash_seq_init(&scan, sweep->unnamed);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->tree.nodes == 0)
		{
			gone[ngone++] = entry->tree.root;
			continue;
		}
		if (!entry->is_new && entry->labelled && !entry->tree.told)
		{
			entry->tree.told = true;
			nlost++;
		}
		trees[n++] = entry->tree;
	}
	mosql_clock_put_unnamed(&sweep->session->stepper, trees, n);
	mosql_clock_drop_unnamed(&sweep->session->stepper, gone, ngone);
	if (nlost > 0)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg_plural("namespace \"%s\" has %d tree whose definition is lost",
							   "namespace \"%s\" has %d trees whose definitions are lost", nlost,
							   sweep->session->config.ns, nlost),
				 errdetail("What is in them is kept until mosql_fdw.orphan_retention is over."),
				 errhint("mosql_fdw_gc() lists them; see docs/repair.md.")));
}

/* See txn.h. */
bool
mosql_sweep_next(MosqlSweep *sweep, MosqlDestroyMore go_on, void *arg, MosqlVacuumCounts *counts)
{
	MemoryContext old = MemoryContextSwitchTo(sweep->page);
	bool		more;

	Assert(sweep->roots != NULL);
	sweep->more = go_on;
	sweep->arg = arg;
	sweep_page(sweep, counts);
	if (strcmp(sweep->cursor, "0") == 0)
		sweep->primary++;
	more = sweep->primary < mosql_redis_primary_count(sweep->session->redis);
	if (!more)
		note_unnamed(sweep);
	MemoryContextSwitchTo(old);
	MemoryContextReset(sweep->page);
	return more;
}
